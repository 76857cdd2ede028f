//! Step 3: what kind of limit. From the verdicts, which rest on documented codes and headers;
//! says which fix follows.

use super::operations::{Analysis, Rows, promised_ms, tally, weight};
use super::s5_time::field;
use super::words::{clip, count, many, percent, share, share_with_interval};
use super::{Answer, AnswerState, Finding, NextAction, Step, Table};
use crate::domain::classify::{Evidence, LimitType, Says, classify};
use crate::domain::stats::ratio::Ratio;
use crate::domain::stored::StoredEvent;

/// A type needs this many refusals before it is named as one of several.
const SEVERAL_FLOOR: i64 = 3;

/// Answers step 3.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    if a.facts.totals.attempts == 0 {
        return Answer::nothing_stored(Step::Limit);
    }
    if a.limited == 0 {
        return Answer::nothing_limited(Step::Limit, a);
    }
    let kinds = tally(a.limited_attempts().map(|s| (s.verdict.limit_type, weight(s))));
    let (top, n) = kinds[0];
    let unknown = kinds.iter().find(|(k, _)| *k == LimitType::Unknown).map_or(0, |(_, n)| *n);
    let mut answer = if unknown * 2 > a.limited {
        let mut answer = Answer::new(
            Step::Limit,
            AnswerState::NeedsData,
            format!("The kind of limit is not known for {} of {}.", count(unknown), a.refusals()),
        );
        answer.next.push(NextAction::text(
            "Send the machine-readable code of the body as `error_code`, the rate-limit fields in \
             `headers` (ratelimit*, x-ratelimit*, retry-after*), and up to 2 KiB of the body as \
             `body_sample`: wording alone decides nothing, a documented code does.",
        ));
        answer
    } else {
        Answer::new(
            Step::Limit,
            AnswerState::Finding,
            format!(
                "It is a {} limit ({} of {}): {}.",
                kind_word(top),
                share(n, a.limited),
                a.refusals(),
                follows(a, top).0
            ),
        )
    };
    for (kind, n) in &kinds {
        answer.findings.push(one_kind(a, *kind, *n));
    }
    let several: Vec<&(LimitType, i64)> = kinds
        .iter()
        .filter(|(k, n)| *k != LimitType::Unknown && *n >= SEVERAL_FLOOR && *n * 50 >= a.limited)
        .collect();
    if several.len() > 1 {
        answer.findings.push(Finding::new(
            "several-limit-types",
            format!(
                "{} kinds of limit refuse here; one fix does not serve them all.",
                several.len()
            ),
        ));
    }
    hidden(a, &mut answer);
    for (kind, _) in &several {
        answer.next.push(NextAction::text(follows(a, *kind).1));
    }
    answer.tables.push(Table::new(
        "Kinds of limit",
        &["limit type", "refusals", "share", "what follows"],
        kinds
            .iter()
            .map(|(kind, n)| {
                vec![
                    kind.to_string(),
                    count(*n),
                    share(*n, a.limited),
                    follows(a, *kind).0.to_owned(),
                ]
            })
            .collect(),
    ));
    answer
}

/// The word before "limit" in a sentence.
const fn kind_word(kind: LimitType) -> &'static str {
    match kind {
        LimitType::Rate => "rate",
        LimitType::Quota => "quota",
        LimitType::Concurrency => "concurrency",
        LimitType::Security => "security",
        LimitType::Cached => "cached",
        LimitType::Overload => "overload",
        LimitType::Unknown => "not yet known",
    }
}

/// The id of the finding of a kind.
const fn id(kind: LimitType) -> &'static str {
    match kind {
        LimitType::Rate => "limit-rate",
        LimitType::Quota => "limit-quota",
        LimitType::Concurrency => "limit-concurrency",
        LimitType::Security => "limit-security",
        LimitType::Cached => "limit-cached",
        LimitType::Overload => "limit-overload",
        LimitType::Unknown => "limit-unknown",
    }
}

/// Which fix follows, short and as an instruction.
const fn fix(kind: LimitType) -> (&'static str, &'static str) {
    match kind {
        LimitType::Rate => (
            "wait as promised and send fewer per window",
            "Wait at least Retry-After plus jitter, and space first attempts out to stay under the \
             limit.",
        ),
        LimitType::Quota => (
            "stop until it is renewed, use less, or change the plan",
            "Stop retrying until the quota is renewed; then use less or change the plan. Backoff \
             of seconds can't help.",
        ),
        LimitType::Concurrency => (
            "lower the number of requests in flight",
            "Lower the number of requests in flight (a semaphore before sending); spacing alone \
             does not help.",
        ),
        LimitType::Security => (
            "have the rule changed, or change what is sent",
            "Find the rule by the id in the answer and have it changed, or change what the client \
             sends; more requests may lengthen a ban.",
        ),
        LimitType::Cached => (
            "purge the stored refusal and stop storing it",
            "Purge the stored refusal and stop the cache from storing 429 (RFC 6585 section 4).",
        ),
        LimitType::Overload => (
            "back off; the server sheds load for everyone",
            "Back off with full jitter and a retry budget; talk to the owner of the server about \
             its capacity.",
        ),
        LimitType::Unknown => ("find out first", "Find out the kind before changing a setting."),
    }
}

/// Which fix follows, by what was promised: nobody can wait as promised where nothing was.
fn follows(a: &Analysis<'_>, kind: LimitType) -> (&'static str, &'static str) {
    if kind != LimitType::Rate {
        return fix(kind);
    }
    let of = || a.limited_attempts().filter(|s| s.verdict.limit_type == kind);
    if of().any(|s| promised_ms(s).is_some()) {
        fix(kind)
    } else if of().any(|s| field(s).is_some()) {
        (
            "the promised wait can't be used: back off with full jitter and send fewer per window",
            "Back off with full jitter, since the Retry-After that was sent is no usable wait, and \
             space first attempts out to stay under the limit.",
        )
    } else {
        (
            "no wait was promised: back off with full jitter and send fewer per window",
            "Back off with full jitter, since no Retry-After came, and space first attempts out to \
             stay under the limit.",
        )
    }
}

fn one_kind(a: &Analysis<'_>, kind: LimitType, n: i64) -> Finding {
    let of = |s: &&StoredEvent| s.verdict.limit_type == kind;
    let rows: Rows = a.limited_attempts().filter(of).collect();
    let text = match kind {
        LimitType::Unknown => format!("{} without a sign of its kind.", many(n, "refusal")),
        kind => format!(
            "{} by a {} limit: {}.",
            many(n, "refusal"),
            kind_word(kind),
            follows(a, kind).0
        ),
    };
    let mut finding = if kind == LimitType::Unknown {
        Finding::note(id(kind), text)
    } else {
        Finding::new(id(kind), text)
    }
    .number("Share of refusals", share_with_interval(Ratio::new(n, a.limited)));
    if let Some(newest) = a.limited_attempts().filter(of).last() {
        let verdict = classify(&newest.event.response());
        if verdict.limit_type == kind && kind != LimitType::Unknown {
            finding = finding
                .number("Chance that the kind is right", percent(verdict.limit_type_confidence));
        }
        // What a machine wrote for machines first; wording only adds to it.
        let is_wording = |e: &Evidence| e.rule.starts_with("WO-");
        let limits = || verdict.evidence.iter().filter(|e| e.says == Says::Limit);
        let machine = || limits().filter(|e| !is_wording(e));
        let others = verdict
            .evidence
            .iter()
            .filter(|e| machine().next().is_none() && e.says == Says::At && !is_wording(e));
        for evidence in machine().chain(others).chain(limits().filter(|e| is_wording(e))).take(3) {
            let label = if is_wording(evidence) { "Wording" } else { "Evidence" };
            finding = finding
                .number(&format!("{label} {}", evidence.rule), clip(&evidence.observed, 160));
        }
    }
    finding.rows(rows)
}

/// Limits that arrive with another status than 429.
fn hidden(a: &Analysis<'_>, answer: &mut Answer) {
    let hidden: Vec<&StoredEvent> = a
        .limited_attempts()
        .filter(|s| s.event.status.is_some_and(|status| status != 429))
        .collect();
    if hidden.is_empty() {
        return;
    }
    let by_status: Vec<String> =
        tally(hidden.iter().map(|s| (s.event.status.unwrap_or_default(), weight(s))))
            .into_iter()
            .take(5)
            .map(|(status, n)| format!("{status} ({})", count(n)))
            .collect();
    let rows: Rows = hidden.into_iter().collect();
    answer.findings.push(
        Finding::new(
            "limit-with-other-status",
            format!(
                "{} arrived with another status than 429: {}. Whoever looks for 429 alone misses \
                 them.",
                many(rows.total, "limit"),
                by_status.join(", ")
            ),
        )
        .rows(rows),
    );
}
