//! Fastify and NestJS: an error object with `statusCode`, and their limiters' fields.

use super::has_limit_fields;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static FY_1: Rule =
    Rule::new("FY-1", "https://github.com/fastify/fastify-rate-limit/blob/main/index.js");
static FY_2: Rule =
    Rule::new("FY-2", "https://github.com/nestjs/throttler/blob/master/src/throttler.guard.ts");
static FY_3: Rule = Rule::new("FY-3", "https://github.com/fastify/fastify-rate-limit#options");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "fastify", rules: &[&FY_1, &FY_2, &FY_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !matches!(facts.status, 403 | 429) || !facts.body.starts_with('{') {
        named_throttler(facts, sheet);
        return;
    }
    let has = |key| facts.json_value(key).is_some();
    let status = facts.json_value("statusCode").and_then(|code| code.parse().ok());
    // Azure API Management sends `statusCode` and `message` without `error`.
    let is_object = status == Some(facts.status) && has("error") && has("message");
    if is_object {
        let weight = if has_limit_fields(facts) { Weight::Strong } else { Weight::Medium };
        let claim = Claim::at(
            &FY_1,
            Responder::Origin,
            weight,
            "an error object with statusCode, error, message",
        )
        .group("body-form");
        // Without its fields the object is that of any error of the framework.
        sheet.add(if facts.status == 429 && has_limit_fields(facts) {
            claim.limit(LimitType::Rate, 0.7).unit(LimitUnit::Requests)
        } else {
            claim
        });
    }
    if facts.says("throttlerexception") {
        sheet.add(
            Claim::at(
                &FY_2,
                Responder::Origin,
                Weight::Strong,
                "the body names ThrottlerException",
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.9)
            .unit(LimitUnit::Requests),
        );
    }
    let is_spent = has_limit_fields(facts) && facts.is("x-ratelimit-remaining", "0");
    if facts.status == 403 && is_object && is_spent {
        sheet.add(
            Claim::at(
                &FY_3,
                Responder::Origin,
                Weight::Medium,
                "403 with a spent limit: banned by the limiter",
            )
            .limit(LimitType::Security, 0.85),
        );
    }
    named_throttler(facts, sheet);
}

/// `retry-after-<name>` and `x-ratelimit-reset-<name>` of a named throttler.
fn named_throttler(facts: &Facts<'_>, sheet: &mut Sheet) {
    let named = facts.first_with_prefix("retry-after-").filter(|(name, _)| {
        // The last three are those of another gateway's throttling filter.
        !matches!(
            *name,
            "retry-after-ms"
                | "retry-after-seconds"
                | "retry-after-partition"
                | "retry-after-rate"
                | "retry-after-rule"
        )
    });
    if let Some((name, value)) = named
        && facts.status == 429
    {
        sheet.add(
            Claim::at(&FY_2, Responder::Origin, Weight::Strong, format!("{name}: {value}"))
                .group("fastify-named")
                .limit(LimitType::Rate, 0.85)
                .unit(LimitUnit::Requests),
        );
    }
}
