//! Anthropic: `rate_limit_error` with 429, `overloaded_error` with 529.

use super::{Api, Code, json_code, overload, quota, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static AN_1: Rule = Rule::new("AN-1", "https://docs.anthropic.com/en/api/rate-limits");
static AN_2: Rule = Rule::new("AN-2", "https://docs.anthropic.com/en/api/errors");
static AN_3: Rule = Rule::new("AN-3", "https://docs.anthropic.com/en/api/errors");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "anthropic", rules: &[&AN_1, &AN_2, &AN_3], look };

const API: Api = Api { name: "anthropic", domains: &["api.anthropic.com"] };

const CODES: &[Code] = &[
    quota("enforced_spend_limit_reached"),
    quota("billing_error"),
    overload("overloaded_error"),
    rate("rate_limit_error"),
];

const PREFIX: &str = "anthropic-ratelimit-";

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let field = facts.first_with_prefix(PREFIX);
    let is_owned = API.owns(facts);
    if let Some((name, value)) = field {
        let weight = API.weigh(facts, Weight::Proof);
        let mut claim = Claim::at(&AN_1, Responder::Origin, weight, format!("{name}: {value}"))
            .provider("anthropic");
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.85).unit(spent(facts));
        }
        sheet.add(claim);
    }
    // The envelope `{"type":"error","error":{"type":…}}` is this API's; others copy it.
    let is_envelope = facts.json().any(|f| f.depth == 1 && f.key == "type" && f.value == "error");
    if facts.status >= 400
        && is_envelope
        && let Some(code) = json_code(facts, CODES)
    {
        let weight = if is_owned { Weight::Strong } else { Weight::Medium };
        let unit = if code.kind == LimitType::Rate { spent(facts) } else { code.unit };
        let mut claim = Claim::at(
            &AN_2,
            Responder::Origin,
            weight,
            format!("the body holds the type {}", code.word),
        )
        .limit(code.kind, 0.95)
        .unit(unit);
        if is_owned {
            claim = claim.provider("anthropic");
        }
        sheet.add(claim);
    }
    if facts.status == 529 {
        let weight = if is_owned { Weight::Strong } else { Weight::Weak };
        let mut claim = Claim::at(&AN_3, Responder::Origin, weight, "status 529")
            .limit(LimitType::Overload, if is_owned { 0.95 } else { 0.7 });
        if is_owned {
            claim = claim.provider("anthropic");
        }
        sheet.add(claim);
    }
}

/// What the bucket counts that is empty.
fn spent(facts: &Facts<'_>) -> LimitUnit {
    let empty = facts.response.headers.iter().find(|(name, value)| {
        name.starts_with(PREFIX) && name.ends_with("-remaining") && *value == "0"
    });
    match empty {
        Some((name, _)) if name.contains("tokens") => LimitUnit::Tokens,
        Some((name, _)) if name.contains("requests") => LimitUnit::Requests,
        _ => LimitUnit::Unknown,
    }
}
