//! Express with express-rate-limit, in each of its header styles.

use super::has_limit_fields;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const SOURCE: &str =
    "https://github.com/express-rate-limit/express-rate-limit/blob/main/source/headers.ts";
static EX_1: Rule = Rule::new("EX-1", "https://expressjs.com/en/api.html#app.settings.table");
static EX_2: Rule = Rule::new("EX-2", SOURCE);
static EX_3: Rule = Rule::new("EX-3", SOURCE);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "express", rules: &[&EX_1, &EX_2, &EX_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let is_express = facts.is("x-powered-by", "express");
    if is_express {
        sheet.add(
            Claim::at(&EX_1, Responder::Origin, Weight::Strong, "x-powered-by: Express")
                .group("framework"),
        );
    }
    if facts.status != 429 {
        return;
    }
    let is_default = facts.body.starts_with("Too many requests, please try again later");
    if is_default {
        sheet.add(
            Claim::at(
                &EX_2,
                Responder::Origin,
                Weight::Medium,
                "the default text of express-rate-limit",
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.8)
            .unit(LimitUnit::Requests),
        );
    }
    let combined =
        facts.get("ratelimit").is_some_and(|v| v.starts_with("limit=") || v.contains("; r="));
    let separate = facts.has("ratelimit-limit") && facts.has("ratelimit-policy");
    if (combined || separate || has_limit_fields(facts)) && (is_express || is_default) {
        sheet.add(
            Claim::at(
                &EX_3,
                Responder::Origin,
                Weight::Medium,
                "limit fields in a style of express-rate-limit",
            )
            .group("express-fields")
            .limit(LimitType::Rate, 0.8)
            .unit(LimitUnit::Requests),
        );
    }
}
