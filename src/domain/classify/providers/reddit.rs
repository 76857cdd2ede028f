//! Reddit: three fields together, reset in seconds from now.

use super::Api;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static RD_1: Rule = Rule::new(
    "RD-1",
    "https://support.reddithelp.com/hc/en-us/articles/16160319875092-Reddit-Data-API-Wiki",
);
static RD_2: Rule = Rule::new("RD-2", "https://github.com/reddit-archive/reddit/wiki/API");

pub(crate) static SIGNATURE: Signature = Signature { id: "reddit", rules: &[&RD_1, &RD_2], look };

const API: Api = Api { name: "reddit", domains: &["reddit.com"] };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !API.owns(facts) {
        return;
    }
    if facts.has("x-ratelimit-used") && facts.has("x-ratelimit-remaining") {
        let mut claim =
            Claim::at(&RD_1, Responder::Origin, Weight::Strong, facts.quote("x-ratelimit-used"))
                .provider("reddit");
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    let is_code = facts.json().any(|field| field.value == "RATELIMIT");
    if facts.status == 429 && facts.is_json() && facts.json_value("error") == Some("429") || is_code
    {
        sheet.add(
            Claim::at(&RD_2, Responder::Origin, Weight::Strong, "its own JSON refusal")
                .limit(LimitType::Rate, 0.9)
                .unit(LimitUnit::Requests)
                .provider("reddit"),
        );
    }
}
