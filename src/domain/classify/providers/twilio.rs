//! Twilio: numeric codes in the body; 20429 counts requests in flight.

use super::{Api, Code, concurrency, json_code, quota, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, Responder, Weight};

static TW_1: Rule = Rule::new("TW-1", "https://www.twilio.com/docs/api/errors");
static TW_2: Rule = Rule::new("TW-2", "https://www.twilio.com/docs/usage/twilios-response");

pub(crate) static SIGNATURE: Signature = Signature { id: "twilio", rules: &[&TW_1, &TW_2], look };

const API: Api = Api { name: "twilio", domains: &["twilio.com"] };

const CODES: &[Code] = &[
    concurrency("20429"),
    rate("60212"),
    rate("60202"),
    rate("60203"),
    rate("14107"),
    quota("63038"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let has_mark = facts.first_with_prefix("twilio-").is_some();
    if has_mark {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&TW_2, Responder::Origin, weight, "a header of Twilio's API is set")
                .provider("twilio"),
        );
    }
    if facts.status >= 400
        && (API.owns(facts) || has_mark)
        && let Some(code) = json_code(facts, CODES)
    {
        let chance = if code.kind == LimitType::Rate { 0.9 } else { 0.95 };
        sheet.add(
            Claim::at(
                &TW_1,
                Responder::Origin,
                Weight::Strong,
                format!("the body holds the code {}", code.word),
            )
            .limit(code.kind, chance)
            .unit(code.unit)
            .provider("twilio"),
        );
    }
}
