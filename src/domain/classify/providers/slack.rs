//! Slack: per method, workspace and app.

use super::{Api, Code, json_code, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str = "https://docs.slack.dev/apis/web-api/rate-limits";
static SL_1: Rule = Rule::new("SL-1", DOCS);
static SL_2: Rule = Rule::new("SL-2", DOCS);

pub(crate) static SIGNATURE: Signature = Signature { id: "slack", rules: &[&SL_1, &SL_2], look };

const API: Api = Api { name: "slack", domains: &["slack.com"] };

const CODES: &[Code] = &[rate("ratelimited"), rate("rate_limited"), rate("message_limit_exceeded")];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let is_owned = API.owns(facts);
    if facts.has("x-slack-req-id") || facts.has("x-slack-backend") {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&SL_2, Responder::Origin, weight, "a header of Slack's backend is set")
                .provider("slack"),
        );
    }
    if !is_owned {
        return;
    }
    let text = facts.body;
    let is_plain = facts.status == 429 && (text == "rate_limited" || text == "ratelimited");
    if let Some(code) = json_code(facts, CODES).map(|code| code.word).or(is_plain.then_some(text)) {
        sheet.add(
            Claim::at(
                &SL_1,
                Responder::Origin,
                Weight::Strong,
                format!("the body holds the code {code}"),
            )
            .limit(LimitType::Rate, 0.95)
            .unit(LimitUnit::Requests)
            .provider("slack"),
        );
    } else if facts.status == 429 && facts.has("retry-after") && !text.starts_with('<') {
        sheet.add(
            Claim::at(
                &SL_1,
                Responder::Origin,
                Weight::Medium,
                "429 with retry-after from its host",
            )
            .limit(LimitType::Rate, 0.85)
            .unit(LimitUnit::Requests)
            .provider("slack"),
        );
    }
}
