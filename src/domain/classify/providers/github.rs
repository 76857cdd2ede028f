//! GitHub REST and GraphQL: primary and secondary limits, with 403 or 429.

use super::Api;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str =
    "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api";
static GH_1: Rule = Rule::new("GH-1", DOCS);
static GH_2: Rule = Rule::new("GH-2", DOCS);
static GH_3: Rule = Rule::new("GH-3", DOCS);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "github", rules: &[&GH_1, &GH_2, &GH_3], look };

const API: Api = Api { name: "github", domains: &["api.github.com", "uploads.github.com"] };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let has_mark = facts.has("x-github-request-id") || facts.server_is("github.com");
    if !(has_mark || API.owns(facts)) {
        return;
    }
    if has_mark {
        let seen = if facts.has("x-github-request-id") {
            "x-github-request-id is set".to_owned()
        } else {
            facts.quote("server")
        };
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&GH_3, Responder::Origin, weight, seen).group("github").provider("github"),
        );
    }
    if !matches!(facts.status, 403 | 429 | 200) {
        return;
    }
    let is_secondary =
        ["secondary rate limit", "secondary-rate-limit", "abuse detection", "abuse-rate-limits"]
            .iter()
            .any(|words| facts.says(words));
    if is_secondary {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(
                &GH_2,
                Responder::Origin,
                weight,
                "the body speaks of the secondary rate limit",
            )
            .limit(LimitType::Rate, 0.9)
            .provider("github"),
        );
    }
    let resource = facts.get("x-ratelimit-resource");
    let is_spent = facts.is("x-ratelimit-remaining", "0");
    if is_spent && (facts.status != 200 || facts.says("rate_limited")) {
        let unit = if resource == Some("graphql") { LimitUnit::Cost } else { LimitUnit::Requests };
        let weight = if resource.is_some() {
            API.weigh(facts, Weight::Proof)
        } else {
            API.weigh(facts, Weight::Strong)
        };
        let bucket = resource.unwrap_or("a bucket");
        sheet.add(
            Claim::at(
                &GH_1,
                Responder::Origin,
                weight,
                format!("x-ratelimit-remaining: 0 of {bucket}"),
            )
            .limit(LimitType::Rate, 0.95)
            .unit(unit)
            .provider("github"),
        );
    } else if resource.is_some()
        && facts.status != 200
        && (facts.has("retry-after") || is_secondary || facts.status == 429)
    {
        // The bucket that is shown has calls left: the secondary limit refused.
        let seen = format!(
            "x-ratelimit-remaining: {} with {}",
            facts.get("x-ratelimit-remaining").unwrap_or("?"),
            if facts.has("retry-after") { "retry-after" } else { "a refusal" }
        );
        sheet.add(
            Claim::at(&GH_1, Responder::Origin, API.weigh(facts, Weight::Proof), seen)
                .limit(LimitType::Rate, 0.85)
                .provider("github"),
        );
    }
}
