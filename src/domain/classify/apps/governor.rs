//! Rust: `tower_governor` and `actix-governor`.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static IA_1: Rule =
    Rule::new("IA-1", "https://github.com/benwis/tower-governor/blob/main/src/errors.rs");
static IA_1B: Rule = Rule::new("IA-1b", "https://github.com/AaronErhardt/actix-governor");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "governor", rules: &[&IA_1, &IA_1B], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status != 429 {
        return;
    }
    let has_wait = facts.has("x-ratelimit-after");
    let has_text = facts.says("wait for ") && facts.says("too many requests");
    if has_wait {
        let weight = if has_text { Weight::Strong } else { Weight::Medium };
        sheet.add(
            Claim::at(&IA_1, Responder::Origin, weight, facts.quote("x-ratelimit-after"))
                .limit(LimitType::Rate, 0.95)
                .unit(LimitUnit::Requests),
        );
    }
    if has_text && facts.body.len() < 80 {
        sheet.add(
            Claim::at(&IA_1B, Responder::Origin, Weight::Medium, "the text that names the wait")
                .limit(LimitType::Rate, 0.9)
                .unit(LimitUnit::Requests),
        );
    }
}
