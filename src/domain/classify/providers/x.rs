//! X (Twitter): hyphenated fields, numeric codes, usage caps as problem types.

use super::{Api, Code, json_code, quota, rate, security};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static XT_1: Rule = Rule::new("XT-1", "https://docs.x.com/x-api/fundamentals/rate-limits");
static XT_2: Rule =
    Rule::new("XT-2", "https://docs.x.com/x-api/fundamentals/response-codes-and-errors");

pub(crate) static SIGNATURE: Signature = Signature { id: "x", rules: &[&XT_1, &XT_2], look };

const APIS: &[Api] = &[
    Api { name: "x", domains: &["api.x.com"] },
    Api { name: "twitter", domains: &["api.twitter.com"] },
];

const CODES: &[Code] = &[
    quota("UsageCapExceeded"),
    quota("https://api.twitter.com/2/problems/usage-capped"),
    quota("https://api.x.com/2/problems/usage-capped"),
    quota("185"),
    security("326"),
    rate("88"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !APIS.iter().any(|api| api.owns(facts)) || facts.status < 400 {
        return;
    }
    if facts.has("x-rate-limit-limit") || facts.has("x-rate-limit-remaining") {
        let mut claim =
            Claim::at(&XT_1, Responder::Origin, Weight::Strong, "x-rate-limit-… on its own host")
                .provider("x");
        if matches!(facts.status, 420 | 429) {
            claim = claim.limit(LimitType::Rate, 0.85).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    let capped = facts.says("/problems/usage-capped");
    if let Some(code) = json_code(facts, CODES).or_else(|| CODES.first().filter(|_| capped)) {
        sheet.add(
            Claim::at(
                &XT_2,
                Responder::Origin,
                Weight::Strong,
                format!("the body holds {}", code.word),
            )
            .limit(code.kind, 0.95)
            .unit(code.unit)
            .provider("x"),
        );
    } else if facts.status == 420 {
        sheet.add(
            Claim::at(&XT_2, Responder::Origin, Weight::Medium, "status 420 of the older API")
                .limit(LimitType::Rate, 0.85)
                .provider("x"),
        );
    }
}
