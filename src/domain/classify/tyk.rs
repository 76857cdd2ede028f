//! Tyk: errors of its own carry `x-generator: tyk.io` unless that is turned off; a quota is a 403.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const TYK: &str = "TykTechnologies/tyk gateway/mw_rate_limiting.go";
const TYK_ERRORS: &str = "TykTechnologies/tyk gateway/handler_error.go";

static TY_1: Rule = Rule::new("TY-1", TYK_ERRORS);
static TY_2: Rule = Rule::new("TY-2", TYK);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature { id: "tyk", rules: &[&TY_1, &TY_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Tyk;
    let generated = facts.is("x-generator", "tyk.io");
    if facts.status < 400 || !(generated || facts.body.starts_with('{')) {
        return;
    }
    let mut fields = facts.json();
    let sole = fields.next().filter(|f| f.key == "error" && f.is_text);
    let message = sole.filter(|_| fields.next().is_none()).map(|f| f.value);
    let limit = |claim: Claim| match message {
        Some("Rate limit exceeded" | "API Rate limit exceeded" | "Rate Limit Exceeded") => {
            rate(claim)
        }
        Some("Quota exceeded" | "API quota exceeded") if matches!(facts.status, 403 | 429) => {
            claim.limit(LimitType::Quota, 0.95).unit(LimitUnit::Requests)
        }
        _ => claim,
    };
    if generated {
        let seen = facts.quote("x-generator");
        sheet.add(limit(Claim::at(&TY_1, WHO, Weight::Strong, seen).signs_body()).reached(Tri::No));
        if limit(Claim::at(&TY_2, WHO, Weight::Medium, "")).limit.is_some() {
            let seen = format!("error: {}", message.unwrap_or_default());
            sheet.add(Claim::at(&TY_2, WHO, Weight::Medium, seen).group("tyk-body"));
        }
    } else if facts.status == 403
        && matches!(message, Some("Quota exceeded" | "API quota exceeded"))
    {
        let seen = "403 with only the error Quota exceeded";
        sheet.add(limit(Claim::at(&TY_2, WHO, Weight::Medium, seen).signs_body()).reached(Tri::No));
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
