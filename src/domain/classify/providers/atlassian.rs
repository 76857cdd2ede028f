//! Atlassian: Jira and Confluence in the cloud (a reason header) and in a data centre (a token
//! bucket that says its size).

use super::Api;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static AT_1: Rule =
    Rule::new("AT-1", "https://developer.atlassian.com/cloud/jira/platform/rate-limiting/");
static AT_2: Rule = Rule::new(
    "AT-2",
    "https://confluence.atlassian.com/adminjiraserver/improving-instance-stability-with-rate-limiting-983794911.html",
);
static AT_3: Rule =
    Rule::new("AT-3", "https://developer.atlassian.com/cloud/jira/platform/rest/v3/intro/");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "atlassian", rules: &[&AT_1, &AT_2, &AT_3], look };

const API: Api = Api {
    name: "atlassian",
    domains: &["atlassian.net", "api.atlassian.com", "api.bitbucket.org", "jira.com"],
};

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if let Some(reason) = facts.get("ratelimit-reason") {
        let weight = API.weigh(facts, Weight::Proof);
        // The quotas count points in an hour: a window like that of a rate, whatever their name.
        let (chance, unit) = if reason.contains("quota") {
            (0.85, LimitUnit::Cost)
        } else {
            (0.95, LimitUnit::Requests)
        };
        sheet.add(
            Claim::at(&AT_1, Responder::Origin, weight, facts.quote("ratelimit-reason"))
                .limit(LimitType::Rate, chance)
                .unit(unit)
                .provider("atlassian"),
        );
    }
    if facts.has("x-ratelimit-fillrate") && facts.has("x-ratelimit-interval-seconds") {
        let mut claim =
            Claim::at(&AT_2, Responder::Origin, Weight::Proof, facts.quote("x-ratelimit-fillrate"))
                .provider("atlassian");
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    let mark = ["x-arequestid", "x-aaccountid", "atl-traceid", "x-anodeid", "x-asessionid"]
        .into_iter()
        .find(|name| facts.has(name));
    if let Some(name) = mark {
        let weight = API.weigh(facts, Weight::Strong);
        // `atl-traceid` is written by the cloud's edge as well.
        let weight = if name == "atl-traceid" { weight.lowered() } else { weight };
        sheet.add(
            Claim::at(&AT_3, Responder::Origin, weight, format!("{name} is set"))
                .provider("atlassian"),
        );
    }
}
