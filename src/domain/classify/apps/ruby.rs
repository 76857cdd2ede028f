//! Ruby: rack-attack's throttle and Rails.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static RB_1: Rule = Rule::new("RB-1", "https://github.com/rack/rack-attack#throttling");
static RB_2: Rule = Rule::new("RB-2", "https://github.com/rack/rack/blob/main/lib/rack/runtime.rb");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "ruby-apps", rules: &[&RB_1, &RB_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    // `X-Runtime` holds seconds with decimals.
    let runtime = facts.get("x-runtime").and_then(|value| value.parse::<f64>().ok());
    if runtime.is_some() {
        sheet.add(
            Claim::at(&RB_2, Responder::Origin, Weight::Strong, facts.quote("x-runtime"))
                .group("framework"),
        );
    }
    if facts.status == 429 && facts.body == "Retry later" {
        sheet.add(
            Claim::at(&RB_1, Responder::Origin, Weight::Strong, "rack-attack's default text")
                .group("body-form")
                .limit(LimitType::Rate, 0.9)
                .unit(LimitUnit::Requests),
        );
    }
}
