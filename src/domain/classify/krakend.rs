//! KrakenD: its limiters answer with an empty body, 503 for an endpoint and 429 for a client.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const KRAKEND: &str = "https://www.krakend.io/docs/endpoints/rate-limit/";

static KD_0: Rule = Rule::new("KD-0", KRAKEND);
static KD_1: Rule = Rule::new("KD-1", KRAKEND);
static KD_2: Rule = Rule::new("KD-2", KRAKEND);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "krakend", rules: &[&KD_0, &KD_1, &KD_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Krakend;
    let completed = facts.get("x-krakend-completed");
    if completed.is_none() && !facts.has("x-krakend") {
        return;
    }
    sheet.add(Claim::on_path(&KD_0, WHO, "x-krakend or x-krakend-completed"));
    if completed.is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        let seen = facts.quote("x-krakend-completed");
        sheet.add(Claim::behind(&KD_2, WHO, Weight::Strong, seen));
    } else if matches!(facts.status, 429 | 503) && facts.body_is_empty() {
        // The router refuses before any backend is asked, with an empty body.
        let seen = "an empty body, as the router's limiter has it";
        let claim = Claim::at(&KD_1, WHO, Weight::Strong, seen).reached(Tri::No);
        // 503 is the endpoint's own limit, but a router without room answers so too.
        sheet.add(if facts.status == 429 {
            rate(claim)
        } else {
            claim.limit(LimitType::Rate, 0.7)
        });
    } else if facts.status == 500 && facts.body_is_empty() {
        let seen = "500 with an empty body: any backend error is turned into it";
        sheet.add(Claim::at(&KD_1, WHO, Weight::Medium, seen).reached(Tri::Unknown));
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
