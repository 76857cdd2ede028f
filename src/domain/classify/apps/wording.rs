//! Sentences for people. They are the weakest evidence: a code or a header beats them, and none
//! of them names who answered.

use aho_corasick::AhoCorasick;
use std::borrow::Cow;
use std::sync::LazyLock;

use crate::domain::classify::LimitType;
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::limits::is_limit_status;
use crate::domain::headers::{self, FieldKind, FieldUnit};
use crate::domain::time::{DAY_MS, HOUR_MS};

const SECTION: &str = "https://www.rfc-editor.org/rfc/rfc6585#section-4";
static WO_1: Rule = Rule::new("WO-1", SECTION);
static WO_2: Rule = Rule::new("WO-2", SECTION);
static WO_3: Rule = Rule::new("WO-3", "https://www.rfc-editor.org/rfc/rfc9110#section-15.5.4");

static WO_4: Rule = Rule::new("WO-4", SECTION);
static WO_5: Rule = Rule::new("WO-5", SECTION);
static WO_6: Rule =
    Rule::new("WO-6", "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/");

static WO_7: Rule = Rule::new("WO-7", SECTION);
static WO_8: Rule =
    Rule::new("WO-8", "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/");

static WO_9: Rule = Rule::new("WO-9", SECTION);

pub(crate) static SIGNATURE: Signature = Signature {
    id: "wording",
    rules: &[&WO_1, &WO_2, &WO_3, &WO_4, &WO_5, &WO_6, &WO_7, &WO_8, &WO_9],
    look,
};

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
    if is_limit_status(facts.status) {
        far_reset(facts, sheet);
        window_in_body(facts, sheet);
    } else {
        status_in_body(facts, sheet);
        spent_allowance(facts, sheet);
    }
    if facts.body.is_empty() {
        return;
    }
    let text = prose(facts.lower());
    let refuses = is_limit_status(facts.status)
        || may_refuse(facts) && (text.contains("exceed") || text.contains("limit"));
    if refuses {
        named_window(&text, sheet);
    }
    if is_limit_status(facts.status) {
        if let Some((kind, phrase)) = telling_phrase(&text) {
            let seen = format!("the body says {phrase:?}");
            sheet.add(Claim::of_limit(&WO_1, kind, CHANCE, seen));
        }
    } else if may_refuse(facts) {
        clear_sentence(facts, &text, sheet);
    }
}

fn phrases() -> impl Iterator<Item = (LimitType, &'static str)> {
    PHRASES.iter().flat_map(|(kind, phrases)| phrases.iter().map(|phrase| (*kind, *phrase)))
}

/// Looks for all of [`PHRASES`] at once.
static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the list is a constant, far below every bound")]
    AhoCorasick::new(phrases().map(|(_, phrase)| phrase)).expect("a short list of phrases")
});

/// The phrase in `text` that stands first in the list.
fn telling_phrase(text: &str) -> Option<(LimitType, &'static str)> {
    let first = FINDER.find_overlapping_iter(text).map(|found| found.pattern().as_usize()).min()?;
    phrases().nth(first)
}

/// A sentence that says of a status which carries other refusals as well that this is a limit.
fn clear_sentence(facts: &Facts<'_>, text: &str, sheet: &mut Sheet) {
    let find = |phrases: &[&'static str]| phrases.iter().copied().find(|p| text.contains(p));
    let by_status = || match facts.status {
        403 => find(BLOCKED).map(|phrase| (LimitType::Security, phrase)),
        503 if facts.is_json() => find(&["throttled"]).map(|phrase| (LimitType::Rate, phrase)),
        _ => None,
    };
    let sure = find(SURE).map(|phrase| {
        let is_quota = phrase.contains("quota");
        (if is_quota { LimitType::Quota } else { LimitType::Rate }, phrase)
    });
    if let Some((kind, phrase)) = sure.or_else(by_status) {
        sheet.add(Claim::of_limit(&WO_2, kind, 0.6, format!("the body says {phrase:?}")));
    }
}

/// Sentences of pages that a bot rule or a ban sends with 403.
const BLOCKED: &[&str] = &[
    "you have been blocked",
    "request has been blocked",
    "address has been blocked",
    "been banned",
    "temporarily banned",
];

/// The text without addresses of pages: what an address is called says nothing of the limit.
fn prose(lower: &str) -> Cow<'_, str> {
    if !lower.contains("://") && !lower.contains("www.") {
        return Cow::Borrowed(lower);
    }
    let mut kept = String::with_capacity(lower.len());
    for word in lower.split_inclusive([' ', '\n', '\t', '"', '\'', '<', '>', '(', ')']) {
        if !word.contains("://") && !word.starts_with("www.") {
            kept.push_str(word);
        }
    }
    Cow::Owned(kept)
}

/// How long a window is that a sentence names: `per second`, `25/minute`, `per 10 seconds`, `daily
/// limit`. True for each side that is named: below a day, a day or more.
fn windows_named(text: &str) -> (bool, bool) {
    let trim = |word| str::trim_matches(word, |c: char| !c.is_ascii_alphanumeric());
    let (mut short, mut long) = (false, false);
    let mut note = |unit: &str| {
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        short |= matches!(unit, "second" | "sec" | "minute" | "min" | "hour" | "hr");
        long |= matches!(unit, "day" | "week" | "month" | "year");
    };
    let mut words = text.split([' ', '\n', '\t', '"', '_', '-']).map(trim).peekable();
    while let Some(word) = words.next() {
        if word == "per" {
            let number = words.next_if(|w| w.bytes().all(|b| b.is_ascii_digit()));
            if let Some(unit) = words.peek().filter(|_| number != Some("")) {
                note(unit);
            }
        } else if let Some((count, unit)) = word.split_once('/') {
            if count.ends_with(|c: char| c.is_ascii_digit()) || count.starts_with("request") {
                note(unit);
            }
        } else if matches!(word, "daily" | "weekly" | "monthly" | "hourly") {
            let of_limit = words.peek().is_some_and(|next| {
                ["limit", "quota", "request", "api", "usage", "allowance", "cap", "call", "rate"]
                    .iter()
                    .any(|of| next.starts_with(of))
            });
            if of_limit {
                note(if word == "hourly" { "hour" } else { "day" });
            }
        }
    }
    (short, long)
}

/// A sentence that names the window of the limit, and one kind of window only.
fn named_window(text: &str, sheet: &mut Sheet) {
    let (kind, seen) = match windows_named(text) {
        (true, false) => (LimitType::Rate, "the body names a window below a day"),
        (false, true) => (LimitType::Quota, "the body names a window of a day or more"),
        _ => return,
    };
    sheet.add(Claim::of_limit(&WO_9, kind, 0.78, seen));
}

/// Two hours: longer than any window of an hour, however it is measured.
const FAR_MS: i64 = 2 * HOUR_MS;

/// A spent allowance that is renewed only in hours or days, where no shorter wait is asked for.
fn far_reset(facts: &Facts<'_>, sheet: &mut Sheet) {
    let may_have_reset = facts.response.headers.iter().any(|(name, _)| is_far_field(name));
    if !may_have_reset || facts.has("retry-after") {
        return;
    }
    let host = Some(facts.host()).filter(|host| !host.is_empty());
    let fields = headers::read(&facts.response.headers, host, facts.response.observed_at);
    let far = fields.iter().find(|field| {
        field.kind == FieldKind::Reset
            && field.unit != FieldUnit::Unknown
            && field.reset_in.is_some_and(|wait| wait.0 > FAR_MS && wait.0 < 400 * DAY_MS)
    });
    let wait = fields.iter().find(|field| {
        field.kind == FieldKind::Wait
            && field.reset_in.is_some_and(|wait| wait.0 > HOUR_MS && wait.0 < 400 * DAY_MS)
    });
    let named_in_seconds = || {
        let name = "x-rate-limit-retry-after-seconds";
        let seconds = facts.get(name)?.trim().parse::<i64>().ok()?;
        let is_far = seconds > HOUR_MS / 1000 && seconds < 400 * DAY_MS / 1000;
        is_far.then(|| facts.quote(name))
    };
    let wait = wait.map(|field| format!("{}: {}", field.header, field.raw));
    if let Some(field) = wait.or_else(named_in_seconds) {
        let seen = format!("{field} asks to wait for hours");
        sheet.add(Claim::of_limit(&WO_6, LimitType::Quota, 0.78, seen));
        return;
    }
    let is_spent = fields.iter().any(|f| f.kind == FieldKind::Remaining && f.value == Some(0.0));
    if let Some(field) = far.filter(|_| is_spent) {
        let seen = format!("{}: {} lies hours ahead", field.header, field.raw);
        sheet.add(Claim::of_limit(&WO_6, LimitType::Quota, 0.75, seen));
    }
}

/// Whether a limiter's field tells when the allowance is renewed or how long to wait.
fn is_far_field(name: &str) -> bool {
    name == "ratelimit"
        || name.contains("limit") && (name.contains("reset") || name.contains("retry"))
}

/// Fields of a body that name the window or the wait.
fn window_in_body(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WINDOWS: [&str; 9] = [
        "window",
        "period",
        "interval",
        "timeframe",
        "limit_type",
        "limittype",
        "limit_period",
        "scope",
        "granularity",
    ];
    for field in facts.json().take(40) {
        let key = field.key.to_ascii_lowercase();
        if field.is_text && WINDOWS.contains(&key.as_str()) {
            let kind = match field.value.to_ascii_lowercase().as_str() {
                "day" | "daily" | "1d" | "24h" | "per_day" | "month" | "monthly" | "week"
                | "weekly" | "year" => LimitType::Quota,
                "second" | "minute" | "hour" | "1s" | "1m" | "60s" | "1h" | "per_minute"
                | "per_second" | "hourly" => LimitType::Rate,
                "concurrent" | "concurrency" => LimitType::Concurrency,
                _ => continue,
            };
            let seen = format!("the body says {key}: {}", field.value);
            sheet.add(Claim::of_limit(&WO_4, kind, 0.8, seen));
        } else if !field.is_text && is_wait_in_seconds(&key) {
            // Above a month it is a moment or milliseconds.
            let wait = field.value.parse::<f64>().unwrap_or_default();
            if (7200.0..2_700_000.0).contains(&wait) && !facts.has("retry-after") {
                let seen = format!("the body says {key}: {}", field.value);
                sheet.add(Claim::of_limit(&WO_5, LimitType::Quota, 0.76, seen));
            }
        }
    }
}

fn is_wait_in_seconds(key: &str) -> bool {
    matches!(
        key,
        "retry_after"
            | "retryafter"
            | "retry_after_seconds"
            | "retryafterseconds"
            | "retry_in"
            | "seconds_to_wait"
            | "wait_seconds"
            | "reset_in"
            | "resetin"
    )
}

/// Whether a clear sentence may speak of this response: statuses that carry limits, a fault of
/// SOAP (sent with 500), and a short error object that came with 200.
fn may_refuse(facts: &Facts<'_>) -> bool {
    match facts.status {
        400 | 403 | 503 => true,
        500 => facts.body.starts_with('<') && facts.says("fault"),
        200 => {
            facts.body.len() < 1000
                && facts.json().any(|f| {
                    matches!(f.key, "error" | "errors" | "error_msg" | "error_message")
                        || matches!((f.key, f.value), ("status", "0") | ("message", "NOTOK"))
                        || matches!((f.key, f.value), ("success" | "ok", "false"))
                })
        }
        _ => false,
    }
}

/// The number 429 inside an error object, under another status.
fn status_in_body(facts: &Facts<'_>, sheet: &mut Sheet) {
    // A gateway that got no usable answer may quote the one it got.
    if matches!(facts.status, 502 | 504) || !facts.is_json() || !facts.says("429") {
        return;
    }
    let field = facts.json().take(24).find(|field| {
        field.value == "429"
            && matches!(
                field.key.to_ascii_lowercase().as_str(),
                "code"
                    | "status"
                    | "statuscode"
                    | "status_code"
                    | "error_code"
                    | "errorcode"
                    | "httpstatus"
            )
    });
    let is_error = facts.status >= 400 || facts.says("\"error");
    if let Some(field) = field.filter(|_| is_error) {
        let seen = format!("the body says {}: 429 under status {}", field.key, facts.status);
        sheet.add(Claim::of_limit(&WO_7, LimitType::Rate, 0.75, seen));
    }
}

/// A limiter's field that says nothing is left, on a status that carries limits now and then.
fn spent_allowance(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !matches!(facts.status, 400 | 403 | 503) {
        return;
    }
    let spent = facts.response.headers.iter().find(|(name, value)| {
        name.contains("limit") && name.contains("remaining") && value.parse::<f64>() == Ok(0.0)
    });
    if let Some((name, value)) = spent {
        let seen = format!("{name}: {value} with status {}", facts.status);
        sheet.add(Claim::of_limit(&WO_8, LimitType::Rate, 0.75, seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn looking_for_all_phrases_at_once_finds_the_first_of_the_list(
            words in proptest::collection::vec(
                proptest::sample::select(phrases().map(|(_, phrase)| phrase).collect::<Vec<_>>()), 0..4,
            ),
            joint in "[ a-z]{0,3}",
        ) {
            let text = words.join(&joint);
            let one_by_one = phrases().find(|(_, phrase)| text.contains(phrase));
            prop_assert_eq!(telling_phrase(&text), one_by_one);
        }
    }
}
