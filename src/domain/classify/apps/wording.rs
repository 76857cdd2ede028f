//! Sentences for people. They are the weakest evidence: a code or a header beats them, and none
//! of them names who answered.

use crate::domain::classify::LimitType;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::limits::is_limit_status;

const SECTION: &str = "https://www.rfc-editor.org/rfc/rfc6585#section-4";
static WO_1: Rule = Rule::new("WO-1", SECTION);
static WO_2: Rule = Rule::new("WO-2", SECTION);
static WO_3: Rule = Rule::new("WO-3", "https://www.rfc-editor.org/rfc/rfc9110#section-15.5.4");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "wording", rules: &[&WO_1, &WO_2, &WO_3], look };

/// Chance that a sentence names the right kind; below what a code gives, above a bare 429.
const CHANCE: f64 = 0.65;

/// Phrases for each kind, the telling ones first. The last list is the usual one.
const PHRASES: &[(LimitType, &[&str])] = &[
    (
        LimitType::Security,
        &[
            "captcha",
            "unusual traffic",
            "not a robot",
            "you have been blocked",
            "has been blocked",
            "been banned",
            "temporarily banned",
            "suspicious activity",
            "failed login attempts",
            "too many failed",
            "too many login attempts",
            "account is locked",
            "account locked",
            "temporarily locked",
            "locked out",
            "access denied",
            "security rule",
        ],
    ),
    (
        LimitType::Concurrency,
        &[
            "concurrent",
            "simultaneous",
            "parallel requests",
            "in flight",
            "in-flight",
            "too many connections",
            "too many open",
        ],
    ),
    (
        LimitType::Overload,
        &[
            "overloaded",
            "over capacity",
            "at capacity",
            "server is busy",
            "too busy",
            "high load",
            "heavy load",
            "out of memory",
            "memory limit",
            "queue is full",
            "high demand",
        ],
    ),
    (
        LimitType::Quota,
        &[
            "quota",
            "daily limit",
            "per day",
            "day limit",
            "daily request",
            "for today",
            "per month",
            "monthly",
            "weekly",
            "usage limit",
            "plan limit",
            "upgrade your plan",
            "current plan",
            "billing",
            "credit",
            "24 hours",
            "spending limit",
            "allowance",
        ],
    ),
    (
        LimitType::Rate,
        &[
            "too many requests",
            "rate limit",
            "rate-limit",
            "ratelimit",
            "throttl",
            "per second",
            "per minute",
            "per hour",
            "slow down",
            "request limit",
            "too frequent",
            "too fast",
        ],
    ),
];

/// Phrases that make a limit of a status that carries other refusals as well.
const SURE: &[&str] = &[
    "rate limit exceeded",
    "rate limit reached",
    "too many requests",
    "quota exceeded",
    "request limit exceeded",
    "api rate limit",
    "exceeded your quota",
    "exceeded the rate limit",
    "rate limited",
    "request was throttled",
    "requests are throttled",
    "reduce your request rate",
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let path = facts.path();
    if is_limit_status(facts.status) && (path.contains("captcha") || path.contains("challenge")) {
        let seen = "the request went to a page for a captcha or challenge";
        sheet.add(Claim::of_limit(&WO_3, LimitType::Security, 0.75, seen));
    }
    if facts.body.is_empty() {
        return;
    }
    if is_limit_status(facts.status) {
        for (kind, phrases) in PHRASES {
            if let Some(phrase) = phrases.iter().find(|phrase| facts.says(phrase)) {
                let seen = format!("the body says {phrase:?}");
                sheet.add(Claim::of_limit(&WO_1, *kind, CHANCE, seen));
                return;
            }
        }
    } else if matches!(facts.status, 400 | 403 | 503)
        && let Some(phrase) = SURE.iter().find(|phrase| facts.says(phrase))
    {
        let kind = if phrase.contains("quota") { LimitType::Quota } else { LimitType::Rate };
        sheet.add(Claim::of_limit(&WO_2, kind, 0.6, format!("the body says {phrase:?}")));
    }
}
