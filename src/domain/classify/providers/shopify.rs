//! Shopify: a leaky bucket for REST, cost points for GraphQL, 430 for a security rejection.

use super::Api;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static SH_1: Rule = Rule::new("SH-1", "https://shopify.dev/docs/api/admin-rest/usage/rate-limits");
static SH_2: Rule = Rule::new("SH-2", "https://shopify.dev/docs/api/usage/limits");
static SH_3: Rule = Rule::new("SH-3", "https://shopify.dev/docs/api/usage/response-codes");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "shopify", rules: &[&SH_1, &SH_2, &SH_3], look };

const API: Api =
    Api { name: "shopify", domains: &["myshopify.com", "api.shopify.com", "partners.shopify.com"] };

const BUCKET: &str = "x-shopify-shop-api-call-limit";

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if let Some(bucket) = facts.get(BUCKET) {
        let weight = API.weigh(facts, Weight::Proof);
        let mut claim =
            Claim::at(&SH_1, Responder::Origin, weight, facts.quote(BUCKET)).provider("shopify");
        if facts.status == 429 {
            claim = if is_full(bucket) {
                claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
            } else {
                // The bucket that is shown has room: another limit refused.
                claim.limit(LimitType::Rate, 0.5)
            };
        }
        sheet.add(claim);
    } else if facts.has("x-shopify-api-version")
        || facts.has("x-shopify-stage")
        || facts.has("x-shopid")
    {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&SH_1, Responder::Origin, weight, "a header of Shopify's application is set")
                .provider("shopify"),
        );
    }
    let is_shop = API.owns(facts) || facts.first_with_prefix("x-shop").is_some();
    let is_throttled = facts.json().any(|f| f.key == "code" && f.value == "THROTTLED");
    if is_throttled
        && (is_shop || facts.json_value("throttleStatus").is_some() || facts.says("throttlestatus"))
    {
        sheet.add(
            Claim::at(&SH_2, Responder::Origin, Weight::Strong, "GraphQL error code THROTTLED")
                .limit(LimitType::Rate, 0.95)
                .unit(LimitUnit::Cost)
                .provider("shopify"),
        );
    }
    if is_shop && facts.status == 430 {
        sheet.add(
            Claim::at(&SH_3, Responder::Origin, Weight::Medium, "status 430: security rejection")
                .limit(LimitType::Security, 0.85)
                .provider("shopify"),
        );
    }
}

/// `40/40`: used of size.
fn is_full(bucket: &str) -> bool {
    bucket.split_once('/').is_some_and(|(used, size)| {
        match (used.trim().parse::<f64>(), size.trim().parse::<f64>()) {
            (Ok(used), Ok(size)) => used >= size - 1.0,
            _ => false,
        }
    })
}
