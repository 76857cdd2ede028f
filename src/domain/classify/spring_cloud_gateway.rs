//! Spring Cloud Gateway: the limiter writes its bucket's settings on refusals and on what it lets
//! through.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const SPRING: &str = "https://docs.spring.io/spring-cloud-gateway/reference/spring-cloud-gateway-server-webflux/gatewayfilter-factories/requestratelimiter-factory.html";

static SC_1: Rule = Rule::new("SC-1", SPRING);
static SC_2: Rule = Rule::new("SC-2", SPRING);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "spring-cloud-gateway", rules: &[&SC_1, &SC_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::SpringCloudGateway;
    if !facts.has("x-ratelimit-burst-capacity") || !facts.has("x-ratelimit-replenish-rate") {
        return;
    }
    let spent = facts.get("x-ratelimit-remaining") == Some("0");
    if facts.status == 429 && spent && facts.body.is_empty() {
        let seen = "burst capacity and replenish rate, nothing left and no body";
        sheet.add(rate(Claim::at(&SC_1, WHO, Weight::Strong, seen)).reached(Tri::No));
    } else {
        let seen = "burst capacity and replenish rate beside an answer from further in";
        sheet.add(Claim::behind(&SC_2, WHO, Weight::Medium, seen));
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
