//! Which kind of limit it was: the decision list of gateways.md 3.6 over what signatures saw,
//! then over the codes that many APIs share.

use super::claim::{Claim, LimitHint, Rule, Sheet, Signature};
use super::facts::{Facts, contains_ci};
use super::walk::Answer;
use super::{LimitType, LimitUnit, Responder, Says, logged};
use crate::domain::retry_after::{Flag, Reading, Strict};
use crate::domain::time::{HOUR_MS, Millis};

const RFC_6585: &str = "https://www.rfc-editor.org/rfc/rfc6585#section-4";
const PROBLEM_TYPES: &str =
    "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/";

static LT_1: Rule = Rule::new("LT-1", PROBLEM_TYPES);
static LT_2: Rule = Rule::new("LT-2", PROBLEM_TYPES);
static LT_3: Rule = Rule::new("LT-3", RFC_6585);
static LT_5: Rule = Rule::new("LT-5", RFC_6585);
static LT_4: Rule = Rule::new("LT-4", RFC_6585);
static LT_6: Rule = Rule::new("LT-6", "https://developers.strava.com/docs/rate-limits/");
static LT_7: Rule =
    Rule::new("LT-7", "https://developer.okta.com/docs/reference/rl-best-practices/");
static LT_8: Rule =
    Rule::new("LT-8", "https://kubernetes.io/docs/concepts/cluster-administration/flow-control/");
static LT_9: Rule =
    Rule::new("LT-9", "https://developer.hashicorp.com/vault/api-docs/system/health");

/// Rules that saw the window or the wait itself: a code that only says "rate limit" names the
/// mechanism, so between the two the window decides (gateways.md 3.6).
const WINDOW_RULES: [&str; 6] = ["LT-2", "LT-4", "LT-6", "WO-5", "WO-6", "WO-9"];
/// Rules that read a word whoever wrote it.
const WORD_RULES: [&str; 3] = ["LT-1", "WO-1", "WO-2"];
/// No more than this where window and code disagree.
const DISPUTED_CAP: f64 = 0.75;

/// Kinds of limit that a response tells by codes, windows or words that no single product owns.
pub(crate) static SIGNATURE: Signature = Signature {
    id: "limit-words",
    rules: &[&LT_1, &LT_2, &LT_3, &LT_4, &LT_5, &LT_6, &LT_7, &LT_8, &LT_9],
    look,
};

/// The kind of limit of a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    pub(crate) kind: LimitType,
    pub(crate) chance: f64,
    pub(crate) unit: LimitUnit,
    pub(crate) cached_of: Option<LimitType>,
    /// Whether a limit refused the attempt, whatever its status.
    pub(crate) refused: bool,
}

/// Status codes that are a refusal by a limit without further evidence: 429 (RFC 6585), and the
/// private ones that servers use for nothing else (gateways.md 2.37).
pub(crate) const fn is_limit_status(status: u16) -> bool {
    matches!(status, 429 | 420 | 430 | 509 | 529)
}

/// The order of the decision list: the first kind that applies wins.
const ORDER: [LimitType; 6] = [
    LimitType::Cached,
    LimitType::Security,
    LimitType::Overload,
    LimitType::Concurrency,
    LimitType::Quota,
    LimitType::Rate,
];

/// Decides among what was claimed. Claims of a product that did not answer count only as what
/// was stored (for a replay) or relayed from further in.
pub(crate) fn decide(status: u16, sheet: &Sheet, answer: &Answer) -> Limit {
    if sheet.not_a_limit.is_some() {
        return NO_LIMIT;
    }
    let limit = decide_kind(status, sheet, answer);
    // A code that anybody may write is no surer than who wrote it.
    let told = sheet
        .claims
        .iter()
        .any(|c| c.says != Says::Limit && c.limit.is_some_and(|l| l.kind == limit.kind));
    let is_signed = answer.chance >= 0.9 && !logged::names_no_limit(sheet, answer.responder);
    let cap = if told || is_signed { 1.0 } else { UNSIGNED_CAP };
    Limit { chance: limit.chance.min(cap), ..limit }
}

/// No kind of limit is surer than this where only shared words tell it and who answered is open.
const UNSIGNED_CAP: f64 = 0.79;

/// Nothing was limited, whatever the status says.
const NO_LIMIT: Limit = Limit {
    kind: LimitType::Unknown,
    chance: 0.0,
    unit: LimitUnit::Unknown,
    cached_of: None,
    refused: false,
};

fn decide_kind(status: u16, sheet: &Sheet, answer: &Answer) -> Limit {
    let counts = |claim: &&Claim| {
        claim.limit.is_some()
            && (claim.says != Says::At
                || claim.about == answer.responder
                || claim.about == Responder::Origin
                || answer.responder == Responder::Unknown)
    };
    let hint = |kind: LimitType| -> Option<LimitHint> {
        let hints = sheet.claims.iter().filter(counts).filter_map(|c| c.limit);
        hints.filter(|l| l.kind == kind).max_by(|a, b| a.chance.total_cmp(&b.chance))
    };
    // A surer kind goes first; the order of the list settles what is equally sure.
    let best =
        ORDER.iter().filter_map(|kind| hint(*kind)).fold(None, |best: Option<LimitHint>, l| {
            match best {
                Some(b) if b.kind == LimitType::Cached || b.chance + 0.05 >= l.chance => Some(b),
                _ => Some(l),
            }
        });
    let best = by_window(sheet, best);
    let unit_of = |kind: LimitType, unit: LimitUnit| match (kind, unit) {
        (LimitType::Concurrency, LimitUnit::Unknown) => LimitUnit::Concurrency,
        _ => unit,
    };
    let any_unit = || {
        let units = sheet.claims.iter().filter_map(|c| c.limit).map(|l| l.unit);
        units.filter(|u| *u != LimitUnit::Unknown).min().unwrap_or(LimitUnit::Unknown)
    };
    match best {
        Some(limit) => {
            let stored = || {
                let stored = sheet.claims.iter().filter_map(|c| c.limit);
                stored
                    .filter(|l| l.kind != LimitType::Cached)
                    .max_by(|a, b| a.chance.total_cmp(&b.chance))
                    .map(|l| l.kind)
            };
            let is_cached = limit.kind == LimitType::Cached;
            let unit = if limit.unit == LimitUnit::Unknown { any_unit() } else { limit.unit };
            Limit {
                kind: limit.kind,
                chance: limit.chance,
                unit: unit_of(limit.kind, unit),
                cached_of: is_cached.then(stored).flatten(),
                refused: true,
            }
        }
        None if status == 429 => Limit {
            kind: LimitType::Rate,
            chance: 0.6,
            unit: any_unit(),
            cached_of: None,
            refused: true,
        },
        None => Limit {
            kind: LimitType::Unknown,
            chance: 0.0,
            unit: LimitUnit::Unknown,
            cached_of: None,
            refused: is_limit_status(status),
        },
    }
}

/// Where a window was seen, it settles whether a refusal is a rate's or an allowance's.
fn by_window(sheet: &Sheet, best: Option<LimitHint>) -> Option<LimitHint> {
    let best = best?;
    let other = match best.kind {
        LimitType::Rate => LimitType::Quota,
        LimitType::Quota => LimitType::Rate,
        _ => return Some(best),
    };
    let seen = sheet
        .claims
        .iter()
        .filter(|c| WINDOW_RULES.contains(&c.rule.id))
        .filter_map(|c| c.limit)
        .filter(|l| l.kind == other && l.chance >= DISPUTED_CAP)
        .max_by(|a, b| a.chance.total_cmp(&b.chance));
    // A code of a product that says "quota" knows its own window; a mere word does not.
    let is_word = best.kind == LimitType::Rate
        || sheet
            .claims
            .iter()
            .filter(|c| c.limit.is_some_and(|l| l.kind == best.kind))
            .all(|c| WORD_RULES.contains(&c.rule.id));
    match seen {
        Some(window) if is_word => {
            let unit = if window.unit == LimitUnit::Unknown { best.unit } else { window.unit };
            Some(LimitHint { chance: window.chance.min(DISPUTED_CAP), unit, ..window })
        }
        _ => Some(best),
    }
}

/// Keys under which bodies carry a machine-readable code.
fn is_code_key(key: &str) -> bool {
    const KEYS: [&str; 15] = [
        "code",
        "type",
        "error",
        "errorcode",
        "error_code",
        "reason",
        "status",
        "errortype",
        "error_type",
        "category",
        "metric",
        "__type",
        "name",
        "kind",
        "title",
    ];
    key.len() <= 12 && KEYS.iter().any(|k| key.eq_ignore_ascii_case(k))
}

/// Whether a value is written like a code under whatever key: words joined by marks, no sentence.
fn is_slug(value: &str) -> bool {
    (6..=64).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && value.contains(['_', '-'])
        && value.bytes().any(|b| b.is_ascii_alphabetic())
}

/// A code as words that compare: lower case, letters and digits only.
fn plain(code: &str) -> String {
    // The last part of a URI or URN is its code.
    let tail = code.rsplit(['/', '#']).find(|part| !part.is_empty()).unwrap_or(code);
    tail.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Parts of shared codes for each kind, as [`plain`] writes them, with the chance that the kind is
/// right. The first list that fits wins, so the telling ones stand first.
const CODE_PARTS: &[(LimitType, f64, &[&str])] = &[
    (
        LimitType::Security,
        0.9,
        &[
            "abnormalusage",
            "abusedetected",
            "lockout",
            "lockedout",
            "captcha",
            "botdetected",
            "ipblocked",
            "ipbanned",
            "blocklist",
            "blacklist",
            "bruteforce",
            "toomanyloginattempts",
            "toomanyfailed",
            "accountlocked",
            "temporarilybanned",
            "suspiciousactivity",
        ],
    ),
    (
        LimitType::Overload,
        0.9,
        &[
            "temporaryreducedcapacity",
            "overload",
            "rejectedexecution",
            "serverbusy",
            "loadshed",
            "shedding",
            "insufficientcapacity",
            "capacityexceeded",
            "atcapacity",
            "overcapacity",
            "memorypressure",
            "backpressure",
            "queuefull",
            "highdemand",
        ],
    ),
    (
        LimitType::Concurrency,
        0.9,
        &[
            "concurren",
            "inflight",
            "toomanyconnections",
            "connectionlimit",
            "locktimeout",
            "simultaneous",
            "parallelrequests",
            "toomanysessions",
            "maxconnections",
            "toomanyopen",
            "activerequests",
        ],
    ),
    (
        LimitType::Quota,
        0.9,
        &[
            "insufficientquota",
            "quotaexceeded",
            "quotaexhausted",
            "quotaexceed",
            "overquota",
            "dailylimit",
            "daylimit",
            "dailyrequest",
            "perday",
            "monthlylimit",
            "monthly",
            "weeklylimit",
            "usagelimit",
            "usagecap",
            "capexceeded",
            "spendlimit",
            "spendinglimit",
            "creditlimit",
            "creditbalance",
            "planlimit",
            "subscriptionlimit",
            "billinghardlimit",
            "outofcredits",
            "creditsexhausted",
            "insufficientcredit",
            "notenoughcredit",
            "insufficientbalance",
            "budgetexceeded",
            "trialexpired",
            "freetierlimit",
        ],
    ),
    (LimitType::Quota, 0.8, &["quota"]),
    (
        LimitType::Rate,
        0.9,
        &[
            "ratelimit",
            "ratelimited",
            "toomanyrequests",
            "toomanycalls",
            "throttl",
            "slowdown",
            "requestratetoolarge",
            "rateexceeded",
            "requestlimit",
            "requeststoofrequent",
            "floodwait",
            "perminute",
            "persecond",
            "enhanceyourcalm",
        ],
    ),
    (LimitType::Rate, 0.7, &["resourceexhausted"]),
];

/// Chance that a status phrase in the body is right: it says no more than the status.
const PHRASE_CHANCE: f64 = 0.62;
/// Chance at most for a code that is written as a sentence.
const SENTENCE_CHANCE: f64 = 0.7;

/// What a shared code says, with the chance that it is right.
/// `strict` is for statuses that carry limits only now and then: there a code must name one.
pub(crate) fn kind_of_code(code: &str, strict: bool) -> Option<(LimitType, f64)> {
    if code.len() > 200 || code.split_whitespace().count() > 4 {
        return None;
    }
    let word = plain(code);
    if word == "toomanyrequests" {
        return Some((LimitType::Rate, PHRASE_CHANCE));
    }
    let found = CODE_PARTS
        .iter()
        .find(|(_, _, parts)| parts.iter().any(|part| word.contains(part)))
        .map(|(kind, chance, _)| (*kind, *chance));
    let vague = || {
        let is_limit = word.contains("limitexceeded") || word.contains("limitreached");
        (!strict && is_limit).then_some((LimitType::Rate, 0.8))
    };
    let (kind, chance) = found.or_else(vague)?;
    let is_sentence = code.trim().contains(char::is_whitespace);
    Some((kind, if is_sentence { chance.min(SENTENCE_CHANCE) } else { chance }))
}

/// Seconds in a day.
const DAY_S: u64 = 86_400;

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let is_error = || facts.body.len() < ERROR_BODY && facts.says("\"error");
    if facts.status < 400
        && !is_error()
        && !facts.says("\"errors\"")
        && facts.response.error_code.is_none()
    {
        return;
    }
    documented(facts, sheet);
    codes(facts, sheet);
    windows(facts, sheet);
    if matches!(facts.status, 403 | 429 | 503)
        && facts.body.starts_with('<')
        && CHALLENGES.iter().any(|words| facts.says(words))
    {
        let seen = "a page that asks for proof of being human";
        sheet.add(Claim::of_limit(&LT_5, LimitType::Security, 0.75, seen));
    }
}

/// An error object that came with 200 is short.
const ERROR_BODY: usize = 1000;

/// Forms that single products document for their answers, whoever stands in front of them.
fn documented(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status != 429 {
        return;
    }
    usage_pairs(facts, sheet);
    let is_okta = facts.has("x-okta-request-id")
        || facts.host_in("okta.com")
        || facts.host_in("oktapreview.com");
    if is_okta && facts.is("x-rate-limit-limit", "0") && facts.is("x-rate-limit-remaining", "0") {
        let seen = "x-rate-limit-limit and -remaining are 0: too many transactions at once";
        sheet.add(
            Claim::of_limit(&LT_7, LimitType::Concurrency, 0.95, seen).unit(LimitUnit::Concurrency),
        );
    }
    // Evicting a pod against its disruption budget is refused with 429 as well.
    if facts.first_with_prefix("x-kubernetes-pf-").is_some()
        && (facts.body.is_empty() || facts.says("too many requests, please try again later"))
    {
        let seen = "x-kubernetes-pf-*: no seat was free for this priority level";
        sheet.add(
            Claim::of_limit(&LT_8, LimitType::Concurrency, 0.9, seen).unit(LimitUnit::Concurrency),
        );
    }
    if is_standby(facts) {
        sheet.not_a_limit = Some(
            Claim::of_limit(&LT_9, LimitType::Unknown, 0.0, "a standby node's answer to its check")
                .evidence(),
        );
    }
}

/// Vault answers its health check with 429 on a node that stands by.
fn is_standby(facts: &Facts<'_>) -> bool {
    facts.path().starts_with("/v1/sys/health")
        && (facts.body.is_empty() || (facts.says("\"standby\"") && facts.says("\"sealed\"")))
}

/// Two allowances in one field, `200,2000` with their use beside it: the first is that of a quarter
/// of an hour, the second that of the day.
fn usage_pairs(facts: &Facts<'_>, sheet: &mut Sheet) {
    const FIELDS: [(&str, &str); 2] = [
        ("x-ratelimit-limit", "x-ratelimit-usage"),
        ("x-readratelimit-limit", "x-readratelimit-usage"),
    ];
    let pair = |name: &str| -> Option<(f64, f64)> {
        let (first, second) = facts.get(name)?.split_once(',')?;
        Some((first.trim().parse().ok()?, second.trim().parse().ok()?))
    };
    for (limit, usage) in FIELDS {
        let (Some(limits), Some(used)) = (pair(limit), pair(usage)) else { continue };
        let kind = match (used.0 >= limits.0, used.1 >= limits.1) {
            (_, true) => LimitType::Quota,
            (true, false) => LimitType::Rate,
            _ => continue,
        };
        let seen = format!("{} with {}", facts.quote(usage), facts.quote(limit));
        sheet.add(Claim::of_limit(&LT_6, kind, 0.95, seen).unit(LimitUnit::Requests));
    }
}

/// Words of pages that ask for proof of being human, in lower case.
const CHALLENGES: [&str; 5] = [
    "captcha",
    "unusual traffic",
    "are you a robot",
    "verify you are human",
    "checking your browser",
];

/// Codes in the body and the one the client took from it.
fn codes(facts: &Facts<'_>, sheet: &mut Sheet) {
    // Below 500 a code may speak of anything that was refused; the statuses here carry limits.
    let may_be_limit = is_limit_status(facts.status)
        || matches!(facts.status, 400 | 403 | 402 | 500 | 503)
        || facts.status < 400;
    if !may_be_limit {
        return;
    }
    let strict = !is_limit_status(facts.status) && facts.status != 503;
    let client = facts.response.error_code.as_deref().map(|code| ("error_code", code));
    let body = facts
        .json()
        .filter(|f| f.is_text && (is_code_key(f.key) || is_slug(f.value)))
        .map(|f| (f.key, f.value));
    for (key, code) in client.into_iter().chain(body.take(24)) {
        let Some((kind, chance)) = kind_of_code(code, strict) else { continue };
        let seen = format!("{key}: {}", super::facts::start_of(code, 80));
        sheet.add(Claim::of_limit(&LT_1, kind, chance, seen));
    }
}

/// Windows of a day or more, and waits of more than an hour, are allowances and not rates.
fn windows(facts: &Facts<'_>, sheet: &mut Sheet) {
    if !is_limit_status(facts.status) && !matches!(facts.status, 403 | 503) {
        return;
    }
    for (name, value) in facts.response.headers.iter() {
        let limiter = name.contains("ratelimit") || name.contains("rate-limit");
        if !limiter {
            continue;
        }
        let period = ["-day", "-month", "-year", "-daily", "-monthly"];
        let spent = name.contains("remaining") && value.trim().parse::<f64>() == Ok(0.0);
        if spent && period.iter().any(|p| name.contains(p)) {
            let seen = format!("{name}: {value}");
            sheet
                .add(Claim::of_limit(&LT_2, LimitType::Quota, 0.9, seen).unit(LimitUnit::Requests));
        } else if name == "ratelimit" || name == "ratelimit-policy" {
            policy_windows(facts, sheet);
        }
        if name.contains("-tokens") && spent {
            let seen = format!("{name}: {value}");
            sheet.add(Claim::of_limit(&LT_3, LimitType::Rate, 0.7, seen).unit(LimitUnit::Tokens));
        } else if name.contains("-requests") && spent {
            let seen = format!("{name}: {value}");
            sheet.add(Claim::of_limit(&LT_3, LimitType::Rate, 0.7, seen).unit(LimitUnit::Requests));
        }
    }
}

/// A wait of more than an hour is that of an allowance (gateways.md 3.6), where it can be believed.
pub(crate) fn long_wait(facts: &Facts<'_>, reading: &Reading, sheet: &mut Sheet) {
    let doubtful = [
        Flag::MsSuspect,
        Flag::EpochS,
        Flag::EpochMs,
        Flag::Implausible,
        Flag::Cached,
        Flag::Overflow,
        Flag::ClockSkew,
    ];
    let Some(wait) = reading.lenient_delay else { return };
    if wait > Millis(HOUR_MS)
        && is_limit_status(facts.status)
        && !doubtful.iter().any(|flag| reading.has(*flag))
        && !is_round_thousand(reading, wait)
        && !milliseconds_nearby(facts)
    {
        let seen = format!("a wait of {} s", wait.as_secs_f64());
        // A date that was measured against a foreign clock may be off by hours.
        let chance = if reading.by_date { 0.7 } else { 0.86 };
        sheet.add(Claim::of_limit(&LT_4, LimitType::Quota, chance, seen));
    }
}

/// Whether plain seconds are full thousands but no full hours: `30000` is more likely half a minute
/// in milliseconds than eight hours and twenty minutes.
fn is_round_thousand(reading: &Reading, wait: Millis) -> bool {
    matches!(reading.strict, Strict::Seconds(_)) && wait.0 % 1_000_000 == 0 && wait.0 % HOUR_MS != 0
}

/// Whether the answer writes moments or waits in milliseconds elsewhere: then a large number of
/// seconds is more likely milliseconds too.
fn milliseconds_nearby(facts: &Facts<'_>) -> bool {
    let epoch_ms =
        |v: &str| v.len() >= 12 && v.len() <= 14 && v.bytes().all(|b| b.is_ascii_digit());
    facts.response.headers.iter().any(|(n, v)| n.ends_with("-reset") && epoch_ms(v))
        || facts.json().any(|f| f.key.ends_with("_ms") || f.key.ends_with("Ms"))
}

/// A named policy of `RateLimit-Policy` whose allowance is spent and whose window is a day or more,
/// or that counts requests in flight.
fn policy_windows(facts: &Facts<'_>, sheet: &mut Sheet) {
    let (Some(policy), limits) = (facts.get("ratelimit-policy"), facts.get("ratelimit")) else {
        return;
    };
    let items: Vec<&str> = policy.split(',').map(str::trim).collect();
    let param = |item: &str, name: &str| -> Option<u64> {
        item.split(';').skip(1).find_map(|p| {
            let (n, v) = p.trim().split_once('=')?;
            (n.trim() == name).then(|| v.trim().parse().ok())?
        })
    };
    let spent = |name: &str| {
        limits.is_some_and(|l| {
            l.split(',').any(|item| {
                item.split(';').next().map(str::trim) == Some(name) && param(item, "r") == Some(0)
            })
        })
    };
    for item in &items {
        let name = item.split(';').next().map(str::trim).unwrap_or_default();
        if items.len() > 1 && !spent(name) {
            continue;
        }
        if contains_ci(item, "qu=\"concurrent-requests\"") {
            sheet.add(Claim::of_limit(&LT_2, LimitType::Concurrency, 0.95, *item));
        } else if param(item, "w").is_some_and(|w| w >= DAY_S) {
            sheet.add(Claim::of_limit(&LT_2, LimitType::Quota, 0.9, *item));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_codes_tell_their_kind() {
        let table = [
            ("https://example.com/problems/quota-exceeded", LimitType::Quota),
            ("urn:ietf:params:http-problem-types:temporary-reduced-capacity", LimitType::Overload),
            ("abnormal-usage-detected", LimitType::Security),
            ("TooManyRequestsException", LimitType::Rate),
            ("rate_limit_exceeded", LimitType::Rate),
            ("endpoint-concurrency", LimitType::Concurrency),
            ("insufficient_quota", LimitType::Quota),
            ("overloaded_error", LimitType::Overload),
        ];
        for (code, kind) in table {
            assert_eq!(kind_of_code(code, false).map(|(k, _)| k), Some(kind), "{code}");
        }
        for code in ["invalid_request", "not_found", "Too many cooks spoil the broth here"] {
            assert_eq!(kind_of_code(code, false), None, "{code}");
        }
    }
}
