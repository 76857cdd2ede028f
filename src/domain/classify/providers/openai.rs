//! OpenAI and servers that speak its protocol: codes in `error`, one bucket for requests and one
//! for tokens.

use super::{Api, Code, json_code, overload, quota, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static OA_1: Rule = Rule::new("OA-1", "https://platform.openai.com/docs/guides/rate-limits");
static OA_2: Rule = Rule::new("OA-2", "https://platform.openai.com/docs/guides/error-codes");
static OA_3: Rule = Rule::new("OA-3", "https://www.kimi.com/help/kimi-api/api-error-codes");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "openai", rules: &[&OA_1, &OA_2, &OA_3], look };

const API: Api = Api { name: "openai", domains: &["api.openai.com"] };

/// Servers with the same headers and codes.
const COMPATIBLE: &[Api] = &[
    Api { name: "azure-openai", domains: &["openai.azure.com"] },
    Api { name: "groq", domains: &["api.groq.com"] },
    Api { name: "openrouter", domains: &["openrouter.ai"] },
    Api { name: "together", domains: &["api.together.xyz", "api.together.ai"] },
    Api { name: "fireworks", domains: &["api.fireworks.ai"] },
    Api { name: "deepseek", domains: &["api.deepseek.com"] },
    Api { name: "mistral", domains: &["api.mistral.ai"] },
    Api { name: "xai", domains: &["api.x.ai"] },
    Api { name: "moonshot", domains: &["api.moonshot.ai", "api.moonshot.cn"] },
    Api { name: "perplexity", domains: &["api.perplexity.ai"] },
];

/// Codes of Moonshot's API, which speaks the protocol with words of its own.
const MOONSHOT: &[&str] =
    &["exceeded_current_quota_error", "engine_overloaded_error", "rate_limit_reached_error"];

const CODES: &[Code] = &[
    quota("insufficient_quota"),
    quota("credit_balance_exhausted"),
    quota("organization_spend_limit_exceeded"),
    quota("project_spend_limit_exceeded"),
    quota("organization_usage_limit_exceeded"),
    quota("billing_hard_limit_reached"),
    quota("billing_not_active"),
    quota("exceeded_current_quota_error"),
    overload("server_is_overloaded"),
    overload("engine_overloaded"),
    overload("engine_overloaded_error"),
    overload("capacity_exceeded"),
    rate("slow_down"),
    rate("rate_limit_exceeded"),
    rate("rate_limit_reached_error"),
    rate("RateLimitReached"),
    rate("rate_limit_error"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let owner =
        if API.owns(facts) { Some(&API) } else { COMPATIBLE.iter().find(|api| api.owns(facts)) };
    let buckets = ["requests", "tokens"];
    let names: Vec<&str> = facts
        .response
        .headers
        .iter()
        .map(|(name, _)| name)
        .filter(|name| {
            name.starts_with("x-ratelimit-") && buckets.iter().any(|bucket| name.ends_with(bucket))
        })
        .collect();
    if owner.is_none() && names.is_empty() {
        return;
    }
    let name = owner.map(|api| api.name);
    let named = |claim: Claim| match name {
        Some(name) => claim.provider(name),
        None => claim,
    };
    let spent = |bucket: &str| facts.get(&format!("x-ratelimit-remaining-{bucket}")) == Some("0");
    let unit = match (spent("requests"), spent("tokens")) {
        (false, true) => LimitUnit::Tokens,
        (true, false) => LimitUnit::Requests,
        _ if facts.json().any(|field| field.value == "tokens") => LimitUnit::Tokens,
        _ => LimitUnit::Unknown,
    };
    if names.len() >= 2 {
        let weight = if owner.is_some() { Weight::Proof } else { Weight::Strong };
        let mut claim = Claim::at(
            &OA_1,
            Responder::Origin,
            weight,
            format!("{} and others of one family", names[0]),
        );
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.75).unit(unit);
        }
        sheet.add(named(claim));
    }
    if facts.status < 400 {
        return;
    }
    if let Some(code) = json_code(facts, CODES) {
        let weight = if owner.is_some() { Weight::Strong } else { Weight::Medium };
        let unit = if code.kind == LimitType::Rate { unit } else { code.unit };
        let rule = if MOONSHOT.contains(&code.word) { &OA_3 } else { &OA_2 };
        sheet.add(named(
            Claim::at(
                rule,
                Responder::Origin,
                weight,
                format!("the body holds the code {}", code.word),
            )
            .limit(code.kind, 0.95)
            .unit(unit),
        ));
    }
}
