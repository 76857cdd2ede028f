//! Apigee: a fault names the policy that refused, whatever the status (500 in old organisations).

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const APIGEE: &str = "https://docs.cloud.google.com/apigee/docs/api-platform/develop/comparing-quota-and-spike-arrest-policies";

static GP_1: Rule = Rule::new("GP-1", APIGEE);
static GP_2: Rule = Rule::new("GP-2", APIGEE);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature { id: "apigee", rules: &[&GP_1, &GP_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Apigee;
    if facts.status < 400 || !facts.body.contains("fault") {
        return;
    }
    let code = facts.json_value("errorcode");
    let quota = |claim: Claim| claim.limit(LimitType::Quota, 0.9).unit(LimitUnit::Requests);
    match code.and_then(|code| code.strip_prefix("policies.ratelimit.")) {
        Some("QuotaViolation") => {
            let seen = "errorcode: policies.ratelimit.QuotaViolation";
            sheet.add(quota(Claim::at(&GP_1, WHO, Weight::Proof, seen).signs_body()));
        }
        Some("SpikeArrestViolation") => {
            let seen = "errorcode: policies.ratelimit.SpikeArrestViolation";
            sheet.add(rate(Claim::at(&GP_1, WHO, Weight::Proof, seen).signs_body()));
        }
        Some("ConcurrentRatelimtViolation" | "ConcurrentRatelimitViolation") => {
            let seen = "errorcode: policies.ratelimit.ConcurrentRatelimtViolation";
            let claim = Claim::at(&GP_1, WHO, Weight::Proof, seen).signs_body();
            sheet.add(claim.limit(LimitType::Concurrency, 0.95));
        }
        Some(other) => {
            let seen = format!("errorcode: policies.ratelimit.{other}");
            sheet.add(rate(Claim::at(&GP_1, WHO, Weight::Proof, seen).signs_body()));
        }
        None => {
            let Some(text) = facts.json_value("faultstring") else { return };
            if text.starts_with("Rate limit quota violation") {
                sheet.add(quota(Claim::at(
                    &GP_2,
                    WHO,
                    Weight::Strong,
                    "faultstring: quota violation",
                )));
            } else if text.starts_with("Spike arrest violation") {
                sheet.add(rate(Claim::at(&GP_2, WHO, Weight::Strong, "faultstring: spike arrest")));
            } else if code.is_some_and(|code| {
                ["policies.", "messaging.", "steps.", "keymanagement.", "protocol."]
                    .iter()
                    .any(|p| code.starts_with(p))
            }) {
                sheet.add(
                    Claim::at(&GP_2, WHO, Weight::Strong, "an Apigee fault").reached(Tri::Unknown),
                );
            }
        }
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
