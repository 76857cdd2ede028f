//! Stripe: the reason header tells rate from concurrency; `lock_timeout` is contention.

use super::{Api, Code, concurrency, json_code, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str = "https://docs.stripe.com/rate-limits";
static ST_1: Rule = Rule::new("ST-1", DOCS);
static ST_2: Rule = Rule::new("ST-2", DOCS);
static ST_3: Rule =
    Rule::new("ST-3", "https://github.com/stripe/stripe-node/blob/master/src/RequestSender.ts");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "stripe", rules: &[&ST_1, &ST_2, &ST_3], look };

const API: Api = Api { name: "stripe", domains: &["api.stripe.com", "files.stripe.com"] };

const CODES: &[Code] = &[concurrency("lock_timeout"), rate("rate_limit"), rate("rate_limit_error")];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if let Some(reason) = facts.get("stripe-rate-limited-reason") {
        let weight = API.weigh(facts, Weight::Proof);
        let mut claim =
            Claim::at(&ST_1, Responder::Origin, weight, facts.quote("stripe-rate-limited-reason"))
                .provider("stripe");
        claim = match reason {
            "global-concurrency" | "endpoint-concurrency" => {
                claim.limit(LimitType::Concurrency, 0.99).unit(LimitUnit::Concurrency)
            }
            "global-rate" | "endpoint-rate" | "resource-specific" => {
                claim.limit(LimitType::Rate, 0.99).unit(LimitUnit::Requests)
            }
            _ => claim.limit(LimitType::Rate, 0.6),
        };
        sheet.add(claim);
        return;
    }
    if facts.has("stripe-should-retry") || facts.has("stripe-version") {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&ST_3, Responder::Origin, weight, "a header of Stripe's API is set")
                .provider("stripe"),
        );
    }
    if API.owns(facts)
        && facts.status == 429
        && let Some(code) = json_code(facts, CODES)
    {
        let observed = format!("the body holds the code {}", code.word);
        sheet.add(
            Claim::at(&ST_2, Responder::Origin, Weight::Strong, observed)
                .limit(code.kind, if code.kind == LimitType::Rate { 0.85 } else { 0.95 })
                .unit(code.unit)
                .provider("stripe"),
        );
    }
}
