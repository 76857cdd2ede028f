//! Apiman: a refusal by a policy carries its code, kind and message in header fields.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const APIMAN: &str = "apiman/apiman gateway/platforms/servlet/src/main/java/io/apiman/gateway/platforms/servlet/GatewayServlet.java";

static AM_1: Rule = Rule::new("AM-1", APIMAN);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature { id: "apiman", rules: &[&AM_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !facts.has("x-policy-failure-code") && !facts.has("x-policy-failure-type") {
        return;
    }
    let says = |part: &str| facts.holds("x-policy-failure-message", part);
    let seen = facts.quote("x-policy-failure-code");
    let claim =
        Claim::at(&AM_1, Responder::Apiman, Weight::Proof, seen).signs_body().reached(Tri::No);
    sheet.add(if says("rate limit") {
        rate(claim)
    } else if says("quota") {
        claim.limit(LimitType::Quota, 0.9)
    } else {
        claim
    });
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
