//! Step 5: waits and windows. Promised, chosen and real wait side by side; whether the client
//! keeps to the promise and the server to its word; clocks, units, bursts and fixed windows.

use super::operations::{
    Analysis, Gap, Rows, doubt, group_by, promised_ms, tally, weight, whereabouts,
};
use super::words::{
    count, many, maybe_span, name, percent, share, share_with_interval, short_hash, span,
    time_of_day, verb,
};
use super::{Answer, AnswerState, Finding, NextAction, SHARE_FLOOR, Step, Table};
use crate::domain::event::Event;
use crate::domain::headers::{self, FieldKind};
use crate::domain::response::HeaderFields;
use crate::domain::retry_after::{self, Base, Choice, Flag, Strict};
use crate::domain::stats::quantile::Sorted;
use crate::domain::stats::ratio::Ratio;
use crate::domain::stats::waits;
use crate::domain::stats::window::{self, Begin, Refusal};
use crate::domain::stats::{boundary, len, real, skew};
use crate::domain::stored::StoredEvent;
use crate::domain::time::{Millis, UnixMillis};
use std::collections::HashSet;

/// Early retries from this number on ask for action; fewer are told.
const EARLY_FLOOR: i64 = 3;
/// The lower end of the share refused again, from which a promise counts as not kept.
const BROKEN_FROM: f64 = 0.2;
/// Waits below this say nothing about a unit, in milliseconds.
const UNIT_FROM_MS: i64 = 5_000;
/// How many answers are read for fields that disagree.
const READ_AT_MOST: usize = 500;

/// Answers step 5.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    if a.facts.totals.attempts == 0 {
        return Answer::nothing_stored(Step::Time);
    }
    let mut answer = Answer::new(Step::Time, AnswerState::Clear, String::new());
    let promised: Vec<&Gap<'_>> =
        a.gaps.iter().filter(|gap| gap.promised_ms().is_some() && !gap.is_hedge()).collect();
    answer.findings.extend(windows(a));
    answer.findings.extend(unit(&promised));
    answer.findings.extend(misread(a));
    answer.findings.extend(early(&promised));
    answer.findings.extend(promise(&promised));
    retry_after_fields(a, &mut answer);
    answer.findings.extend(resets(a));
    answer.findings.extend(clocks(a));
    answer.findings.extend(bursts(a));
    answer.findings.extend(without_duration(a));
    if let Some(table) = waits(a) {
        answer.tables.push(table);
    }
    state(a, &promised, &mut answer);
    next(&mut answer);
    answer
}

/// Ids in the order in which they make the headline.
const HEADLINES: [&str; 14] = [
    "window-from-first-request",
    "wait-unit-suspect",
    "retry-after-misread",
    "retry-after-epoch",
    "retry-after-doubtful",
    "early-retries",
    "promise-broken",
    "window-on-clock",
    "window-not-on-clock",
    "boundary-burst",
    "clock-skew",
    "reset-disagrees",
    "retry-after-missing",
    "retry-after-invalid",
];

fn state(a: &Analysis<'_>, promised: &[&Gap<'_>], answer: &mut Answer) {
    let first = HEADLINES
        .iter()
        .find_map(|id| answer.findings.iter().find(|f| f.id == *id && f.actionable))
        .or_else(|| answer.findings.iter().find(|f| f.actionable));
    if let Some(finding) = first {
        answer.state = AnswerState::Finding;
        answer.headline.clone_from(&finding.text);
        return;
    }
    if a.limited == 0 && promised.is_empty() {
        "No attempt was refused and no wait was promised; nothing is wrong with time."
            .clone_into(&mut answer.headline);
    } else if promised.is_empty() {
        answer.state = AnswerState::NeedsData;
        "No retry after a promised wait is known, so waits can't be compared."
            .clone_into(&mut answer.headline);
        answer.next.push(NextAction::text(
            "Send `operation_id` and `attempt` with every attempt, `retry_after` as received, \
             `duration_ms`, `computed_delay_ms`, and the `date` header: then promised, chosen and \
             real wait stand side by side.",
        ));
    } else {
        let n: i64 = promised.iter().map(|gap| gap.weight).sum();
        answer.headline = format!("{} kept to the promised wait.", many(n, "retry"));
    }
}

fn next(answer: &mut Answer) {
    let has = |id: &str| answer.findings.iter().any(|f| f.id == id && f.actionable);
    let mut next = Vec::new();
    if has("early-retries") {
        next.push(NextAction::text(
            "Make Retry-After the floor of the wait and add jitter on top of it, never below it.",
        ));
    }
    if has("wait-unit-suspect") {
        next.push(NextAction::text(
            "Look for the place where seconds are handed to a timer that takes milliseconds (or \
             the other way round).",
        ));
    }
    if has("clock-skew") {
        next.push(NextAction::command(
            "Check that the caller's clock is in step, and measure dates against the answer's \
             `Date`, not the own clock.",
            "chronyc tracking || timedatectl timesync-status",
        ));
    }
    if has("window-from-first-request") || has("window-on-clock") || has("window-not-on-clock") {
        next.push(NextAction::text(
            "Spread requests over the whole window instead of sending until it is spent; step 7 \
             has the planner.",
        ));
    }
    answer.next.extend(next);
}

/// Waits between attempts against the promise.
fn early(promised: &[&Gap<'_>]) -> Option<Finding> {
    let early: Vec<&&Gap<'_>> = promised.iter().filter(|gap| gap.is_early()).collect();
    let total: i64 = promised.iter().map(|gap| gap.weight).sum();
    let mut rows = Rows::default();
    for gap in &early {
        rows.push_weighted(gap.after, gap.weight);
    }
    if rows.is_empty() {
        return None;
    }
    let lost = Sorted::new(early.iter().map(|gap| {
        (gap.promised_ms().unwrap_or_default().saturating_sub(gap.real_ms.max(0)), gap.weight)
    }));
    let text = format!(
        "{} of {} were sent before the promised time ({}), by {} in the median.",
        count(rows.total),
        many(total, "retry"),
        share(rows.total, total),
        maybe_span(lost.median())
    );
    let again: i64 =
        early.iter().filter(|gap| gap.after.verdict.limited).map(|gap| gap.weight).sum();
    let finding = if rows.total >= EARLY_FLOOR {
        Finding::new("early-retries", text)
    } else {
        Finding::note("early-retries", text)
    };
    Some(
        finding
            .number("Early share", share_with_interval(Ratio::new(rows.total, total)))
            .number("Refused again", share(again, rows.total))
            .number("Where", whereabouts(early.iter().map(|gap| gap.after)))
            .number("Tolerance", "100 ms or 2 %, whichever is more; 1 s more for dates")
            .rows(rows),
    )
}

/// Whether waiting as promised helps.
fn promise(promised: &[&Gap<'_>]) -> Option<Finding> {
    let kept: Vec<&&Gap<'_>> = promised.iter().filter(|gap| gap.is_after_promise()).collect();
    let total: i64 = kept.iter().map(|gap| gap.weight).sum();
    if total == 0 {
        return None;
    }
    let mut rows = Rows::default();
    for gap in kept.iter().filter(|gap| gap.after.verdict.limited) {
        rows.push_weighted(gap.after, gap.weight);
    }
    let ratio = Ratio::new(rows.total, total);
    let number = share_with_interval(ratio);
    let finding = if total >= SHARE_FLOOR && ratio.wilson().low >= BROKEN_FROM {
        Finding::new(
            "promise-broken",
            format!(
                "Waiting as promised is not enough: {} of {} sent after the promised time were \
                 refused again ({}).",
                count(rows.total),
                many(total, "retry"),
                share(rows.total, total)
            ),
        )
        .rows(rows)
    } else {
        let mut all = Rows::default();
        for gap in &kept {
            all.push_weighted(gap.after, gap.weight);
        }
        let caution = if total < SHARE_FLOOR { " (too few for a rule)" } else { "" };
        Finding::note(
            "promise-kept",
            format!(
                "Of {} sent after the promised time, {} {} refused again{caution}.",
                many(total, "retry"),
                count(rows.total),
                verb(rows.total, "was", "were")
            ),
        )
        .rows(all)
    };
    Some(finding.number("Refused again after the promised time", number))
}

/// Seconds taken for milliseconds, or the other way round.
pub(super) fn unit(promised: &[&Gap<'_>]) -> Option<Finding> {
    let long: Vec<&&Gap<'_>> = promised
        .iter()
        .filter(|gap| gap.promised_ms().unwrap_or_default() >= UNIT_FROM_MS)
        .collect();
    let near = |wait: i64, promised: i64, factor: f64, slack: f64| {
        let want = real(promised) * factor;
        real(wait) >= want * 0.9 && real(wait) <= want * slack
    };
    let thousandth = |gap: &Gap<'_>| {
        let promised = gap.promised_ms().unwrap_or_default();
        match gap.chosen_ms() {
            Some(chosen) => near(chosen, promised, 0.001, 1.1),
            // A timer and a new connection take a few milliseconds more; a client that sends at
            // once takes as long, so short waits say nothing.
            None => promised >= 20_000 && near(gap.real_ms, promised, 0.001, 1.5),
        }
    };
    let thousandfold = |gap: &Gap<'_>| {
        let promised = gap.promised_ms().unwrap_or_default();
        gap.chosen_ms().is_some_and(|chosen| near(chosen, promised, 1_000.0, 1.1))
    };
    for (test, word) in [
        (&thousandth as &dyn Fn(&Gap<'_>) -> bool, "a thousandth of"),
        (&thousandfold, "a thousand times"),
    ] {
        let hits: Vec<&&&Gap<'_>> = long.iter().filter(|gap| test(gap)).collect();
        let (n, total): (i64, i64) =
            (hits.iter().map(|g| g.weight).sum(), long.iter().map(|g| g.weight).sum());
        if n >= 3 && n * 2 >= total {
            let mut rows = Rows::default();
            for gap in &hits {
                rows.push_weighted(gap.after, gap.weight);
            }
            let example = hits[0];
            let waited = example.chosen_ms().unwrap_or(example.real_ms);
            return Some(
                Finding::new(
                    "wait-unit-suspect",
                    format!(
                        "{} of {} waited about {word} what was promised: seconds and milliseconds \
                         are mixed up.",
                        count(n),
                        many(total, "retry")
                    ),
                )
                .number(
                    "Example",
                    format!(
                        "promised {}, waited {}",
                        span(example.promised_ms().unwrap_or_default()),
                        span(waited)
                    ),
                )
                .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
                .rows(rows),
            );
        }
    }
    None
}

/// Waits that a careless parser makes of an unusual `Retry-After`.
fn misread(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let mut example = None;
    for gap in &a.gaps {
        let unusual = field(gap.before).filter(|raw| !is_plain_seconds(raw));
        let (Some(raw), Some(chosen)) = (unusual, gap.chosen_ms()) else { continue };
        let reading =
            retry_after::read(&header_fields(gap.before), Some(gap.before.event.answered_at()));
        let judged = retry_after::judge(&reading, Millis(chosen));
        if let Some(judged) = judged.filter(|judged| judged.choice == Choice::Misparsed) {
            rows.push_weighted(gap.after, gap.weight);
            example.get_or_insert_with(|| {
                format!("{} became {}: {}", name(raw), span(chosen), judged.reason)
            });
        }
    }
    (!rows.is_empty()).then(|| {
        Finding::new(
            "retry-after-misread",
            format!(
                "{} misread an unusual Retry-After and waited for something else.",
                many(rows.total, "retry")
            ),
        )
        .number("Example", example.unwrap_or_default())
        .rows(rows)
    })
}

/// What the refusals say in `Retry-After`: missing, invalid, epoch, base of dates.
fn retry_after_fields(a: &Analysis<'_>, answer: &mut Answer) {
    let capturing: HashSet<&str> = a
        .attempts
        .iter()
        .filter(|s| s.event.retry_after.is_some() || !s.event.headers.is_empty())
        .map(|s| s.event.service.as_str())
        .collect();
    let (mut missing, mut invalid, mut epoch, mut observed) =
        (Rows::default(), Rows::default(), Rows::default(), Rows::default());
    let (mut total, mut dates) = (0_i64, 0_i64);
    let (mut doubted, mut is_unit) = (Rows::default(), false);
    for s in a.limited_attempts().filter(|s| capturing.contains(s.event.service.as_str())) {
        total += weight(s);
        if let Some(flag) = doubt(s).filter(|f| !matches!(f, Flag::EpochS | Flag::EpochMs)) {
            doubted.push(s);
            is_unit |= flag != Flag::Implausible;
        }
        match field(s) {
            None => missing.push(s),
            Some(raw) if is_plain_seconds(raw) => {}
            Some(_) => {
                let reading = retry_after::read(&header_fields(s), Some(s.event.answered_at()));
                if reading.has(Flag::EpochS) || reading.has(Flag::EpochMs) {
                    epoch.push(s);
                } else if reading.strict == Strict::Absent {
                    missing.push(s);
                } else if !reading.is_compliant() {
                    invalid.push(s);
                }
                if matches!(reading.strict, Strict::Date(_)) {
                    dates += weight(s);
                    if reading.base == Base::Observed {
                        observed.push(s);
                    }
                }
            }
        }
    }
    if total == 0 {
        return;
    }
    if !missing.is_empty() {
        let text = format!(
            "{} of {} came without Retry-After ({}).",
            count(missing.total),
            many(total, "refusal"),
            share(missing.total, total)
        );
        let many_missing = missing.total >= EARLY_FLOOR && missing.total * 10 >= total;
        let finding = if many_missing {
            Finding::new("retry-after-missing", text)
        } else {
            Finding::note("retry-after-missing", text)
        };
        answer.findings.push(finding.rows(missing));
    }
    if !invalid.is_empty() {
        let example = a
            .limited_attempts()
            .filter_map(field)
            .find(|raw| !is_plain_seconds(raw))
            .unwrap_or_default();
        answer.findings.push(
            Finding::new(
                "retry-after-invalid",
                format!(
                    "{} of {} carried a Retry-After that RFC 9110 does not allow; clients read it \
                     in different ways.",
                    count(invalid.total),
                    many(total, "refusal")
                ),
            )
            .number("Example", name(example))
            .rows(invalid),
        );
    }
    if !epoch.is_empty() {
        answer.findings.push(
            Finding::new(
                "retry-after-epoch",
                format!(
                    "{} of {} gave Retry-After as a moment in seconds since 1970, where seconds to \
                     wait are due: many clients then retry at once or wait for years.",
                    count(epoch.total),
                    many(total, "refusal")
                ),
            )
            .rows(epoch),
        );
    }
    if !doubted.is_empty() {
        let text = format!(
            "{} of {} gave a Retry-After that is hardly meant in seconds (milliseconds, digits of a \
             date, or more than a day): retries are not measured by it.",
            count(doubted.total),
            many(total, "refusal")
        );
        let example =
            a.limited_attempts().find(|s| doubt(s).is_some()).and_then(field).unwrap_or_default();
        // More than a day may be meant, as for a quota by the month.
        let finding = if is_unit {
            Finding::new("retry-after-doubtful", text)
        } else {
            Finding::note("retry-after-doubtful", text)
        };
        answer.findings.push(finding.number("Example", name(example)).rows(doubted));
    }
    if !observed.is_empty() {
        answer.findings.push(
            Finding::note(
                "date-without-base",
                format!(
                    "{} of {} given as dates came without `Date`: they are measured by the \
                     observer's clock and less sure.",
                    count(observed.total),
                    many(dates, "wait")
                ),
            )
            .rows(observed),
        );
    }
}

/// The raw `Retry-After` of an attempt.
pub(super) fn field(s: &StoredEvent) -> Option<&str> {
    field_of(&s.event)
}

pub(super) fn field_of(event: &Event) -> Option<&str> {
    event.retry_after.as_deref().or_else(|| {
        let field = event.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("retry-after"));
        field.map(|(_, value)| value.as_str())
    })
}

/// Up to five digits: valid, and nothing to doubt.
fn is_plain_seconds(raw: &str) -> bool {
    let raw = raw.trim();
    (1..=5).contains(&raw.len()) && raw.bytes().all(|b| b.is_ascii_digit())
}

pub(super) fn header_fields(s: &StoredEvent) -> HeaderFields {
    header_fields_of(&s.event)
}

pub(super) fn header_fields_of(event: &Event) -> HeaderFields {
    let mut fields: HeaderFields = event.headers.iter().map(|(n, v)| (n, v)).collect();
    if let Some(raw) = event.retry_after.as_deref().filter(|_| !fields.has("retry-after")) {
        fields.push("retry-after", raw);
    }
    fields
}

/// Resets that disagree with `Retry-After`, or that are read in the wrong unit.
fn resets(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let (mut compared, mut example, mut thousand) = (0_i64, None, 0_i64);
    let mut candidates: Vec<&StoredEvent> = a
        .limited_attempts()
        .filter(|s| s.verdict.promised_ms.is_some() && !s.event.headers.is_empty())
        // A moment in place of seconds is told by itself.
        .filter(|s| !matches!(doubt(s), Some(Flag::EpochS | Flag::EpochMs)))
        .collect();
    let older = candidates.len().saturating_sub(READ_AT_MOST);
    for s in candidates.drain(older..) {
        let promised = s.verdict.promised_ms.unwrap_or_default();
        let fields =
            headers::read(&header_fields(s), Some(&s.event.host), Some(s.event.answered_at()));
        // Several buckets have several resets; the one that refused need only be among them.
        let resets: Vec<(&str, i64)> = fields
            .iter()
            .filter(|field| field.kind == FieldKind::Reset)
            .filter_map(|field| Some((field.header.as_str(), field.reset_in?.0)))
            .collect();
        if resets.is_empty() {
            continue;
        }
        compared += weight(s);
        let slack = 2_000 + if s.verdict.promised_by_date { 1_000 } else { 0 };
        if resets
            .iter()
            .any(|(_, reset)| (reset.saturating_sub(promised)).saturating_abs() <= slack)
        {
            continue;
        }
        rows.push(s);
        let (header, reset) = resets[0];
        let factor = real(reset.max(1)) / real(promised.max(1));
        if (500.0..=2_000.0).contains(&factor) || (0.000_5..=0.002).contains(&factor) {
            thousand += weight(s);
        }
        example.get_or_insert_with(|| {
            format!("{header} says {}, Retry-After {}", span(reset), span(promised))
        });
    }
    if rows.is_empty() || rows.total * 5 < compared {
        return None;
    }
    let unit = if thousand * 2 > rows.total {
        " They differ by a factor near 1,000: one of them is in milliseconds."
    } else {
        ""
    };
    Some(
        Finding::new(
            "reset-disagrees",
            format!(
                "Reset field and Retry-After name different times on {} of {}.{unit} Retry-After \
                 wins.",
                count(rows.total),
                many(compared, "refusal")
            ),
        )
        .number("Example", example.unwrap_or_default())
        .rows(rows),
    )
}

/// Clocks of client and server.
fn clocks(a: &Analysis<'_>) -> Option<Finding> {
    let all = || a.attempts.iter().filter_map(|s| Some((s, s.verdict.clock_skew_ms?)));
    let found = skew::summarise(all().map(|(s, ms)| (ms, weight(s))))?;
    let direction = if found.median_ms > 0 { "behind" } else { "ahead of" };
    let text = format!(
        "The caller's clock is {} {direction} the server's `Date` (median of {}).",
        span(found.median_ms.saturating_abs()),
        many(found.samples, "answer")
    );
    let finding = if found.is_large() && found.samples >= 3 {
        let by_instance =
            tally(all().filter(|(_, ms)| ms.saturating_abs() > skew::REPORT_BEYOND_MS).map(
                |(s, _)| (s.event.instance.as_deref().unwrap_or(&s.event.service), weight(s)),
            ));
        let worst: Vec<String> = by_instance
            .iter()
            .take(3)
            .map(|(i, n)| format!("{} ({})", name(i), count(*n)))
            .collect();
        Finding::new("clock-skew", format!("{text} Waits given as dates shift by as much."))
            .number("Where", worst.join(", "))
            .rows(
                all()
                    .filter(|(_, ms)| ms.saturating_abs() > skew::REPORT_BEYOND_MS)
                    .map(|(s, _)| *s)
                    .collect(),
            )
    } else {
        Finding::note(
            "clocks-agree",
            format!("{text} That is within what a `Date` of whole seconds can show."),
        )
        .rows(all().map(|(s, _)| *s).collect())
    };
    if !found.is_large() || found.samples >= 3 {
        return Some(
            finding
                .number("10th percentile", span(found.low_ms))
                .number("90th percentile", span(found.high_ms)),
        );
    }
    None
}

/// Bursts at the turn of a second, a minute or an hour.
fn bursts(a: &Analysis<'_>) -> Vec<Finding> {
    let sends: Vec<i64> = a
        .attempts
        .iter()
        .filter(|s| s.event.attempt == 1 && s.event.count == 1)
        .map(|s| s.event.occurred_at.0)
        .collect();
    boundary::PERIODS
        .iter()
        .filter_map(|period| boundary::find(&sends, *period))
        .map(|burst| {
            let at_turn = |s: &&StoredEvent| {
                s.event.attempt == 1
                    && s.event.count == 1
                    && s.event.occurred_at.0.rem_euclid(burst.period.length_ms)
                        < burst.period.turn_ms
            };
            Finding::new(
                "boundary-burst",
                format!(
                    "{} of {} are sent within {} after the turn of a {}, where an even spread puts \
                     {}: something starts them by the clock.",
                    count(burst.hits),
                    many(burst.total, "first attempt"),
                    span(burst.period.turn_ms),
                    burst.period.name,
                    percent(real(burst.period.turn_ms) / real(burst.period.length_ms))
                ),
            )
            .number("Share", share(burst.hits, burst.total))
            .number("Turns with such a burst", count(burst.turns))
            .number("Chance under an even spread", chance(burst.chance))
            .rows(a.attempts.iter().copied().filter(at_turn).collect())
        })
        .collect()
}

fn chance(p: f64) -> String {
    if p < 1e-9 { "below 1 in 1,000,000,000".to_owned() } else { format!("{p:.1e}") }
}

/// Whose allowance an attempt spends: key, else account, else address, else service and
/// environment.
fn spender(s: &StoredEvent) -> (&'static str, &str) {
    let e = &s.event;
    e.key_hash
        .as_deref()
        .map(|key| ("key", key))
        .or_else(|| e.account_hash.as_deref().map(|account| ("account", account)))
        .or_else(|| e.client_address_hash.as_deref().map(|address| ("address", address)))
        .unwrap_or(("service", &e.service))
}

/// Fixed windows per upstream and key, and what began them.
fn windows(a: &Analysis<'_>) -> Vec<Finding> {
    let offset = skew::summarise(
        a.attempts.iter().filter_map(|s| Some((s.verdict.clock_skew_ms?, weight(s)))),
    )
    .filter(skew::Skew::is_large)
    .map_or(0, |skew| skew.median_ms);
    // Without two refusals there is no end to agree on; most callers are left out here.
    let mut groups = group_by(a.attempts.iter().map(|s| ((s.event.host.as_str(), spender(s)), *s)));
    groups.retain(|(_, attempts)| {
        attempts.iter().filter(|s| s.verdict.limited && promised_ms(s).is_some()).count() > 1
    });
    groups.sort_by_key(|(key, _)| *key);
    let mut found: Vec<(i64, Finding)> = Vec::new();
    for ((host, (kind, who)), attempts) in groups {
        let sends: Vec<i64> = attempts.iter().map(|s| s.event.occurred_at.0).collect();
        let refused: Vec<(&StoredEvent, Refusal)> = attempts
            .iter()
            .filter(|s| s.verdict.limited)
            .filter_map(|s| {
                let wait_ms = promised_ms(s)?;
                Some((*s, Refusal { answered_at: s.event.answered_at().0, wait_ms }))
            })
            .collect();
        let refusals: Vec<Refusal> = refused.iter().map(|(_, refusal)| *refusal).collect();
        let windows = window::find(&sends, &refusals, offset);
        // The newest tells most about now, one begun by the first request tells most at all.
        let best = windows
            .iter()
            .rev()
            .find(|w| matches!(w.begin, Begin::FirstRequest { .. }))
            .or_else(|| windows.last());
        if let Some(best) = best {
            let who = if kind == "service" { name(who) } else { short_hash(who) };
            let rows: Rows = refused.iter().map(|(s, _)| *s).collect();
            let latest = windows.iter().map(|w| w.ends_at).max().unwrap_or(best.ends_at);
            let finding = describe(best, len(windows.len()), UnixMillis(latest))
                .number("Of", format!("{kind} {who} at {}", name(host)))
                .number("Refusals that name this end", count(best.refusals));
            found.push((rows.total, finding.rows(rows)));
        }
    }
    found.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    found.into_iter().take(5).map(|(_, finding)| finding).collect()
}

fn describe(window: &window::FixedWindow, of: i64, latest: UnixMillis) -> Finding {
    let end = UnixMillis(window.ends_at);
    let seen =
        format!("{} seen, the latest ended at {} UTC", many(of, "window"), time_of_day(latest));
    let finding = match window.begin {
        Begin::FirstRequest { at, length_ms } if of > 1 => Finding::new(
            "window-from-first-request",
            format!(
                "The window lasts {}, begins at the first request and is not aligned with the \
                 clock ({seen}).",
                span(length_ms)
            ),
        )
        .number("Began", UnixMillis(at).to_rfc3339())
        .number("Length", span(length_ms)),
        Begin::Clock if of > 1 => Finding::new(
            "window-on-clock",
            format!(
                "The window is fixed and ends at the turn of a minute by the clock ({seen}): all \
                 its callers start anew together."
            ),
        ),
        Begin::Elsewhere if of > 1 => Finding::new(
            "window-not-on-clock",
            format!(
                "The window is fixed and does not end at the turn of a minute ({seen}); what began \
                 it can't be shown."
            ),
        ),
        Begin::FirstRequest { at, length_ms } => Finding::new(
            "window-from-first-request",
            format!(
                "The window ends at {} UTC, began at the first request ({}) and is not aligned \
                 with the clock; it lasts {}.",
                time_of_day(end),
                time_of_day(UnixMillis(at)),
                span(length_ms)
            ),
        )
        .number("Began", UnixMillis(at).to_rfc3339())
        .number("Length", span(length_ms)),
        Begin::Clock => Finding::new(
            "window-on-clock",
            format!(
                "The window is fixed and ends at {} UTC, at the turn of a minute by the clock: all \
                 its callers start anew together.",
                time_of_day(end)
            ),
        ),
        Begin::Elsewhere => Finding::new(
            "window-not-on-clock",
            format!(
                "The window is fixed and ends at {} UTC, not at the turn of a minute; what began \
                 it can't be shown.",
                time_of_day(end)
            ),
        ),
    };
    finding
        .number("Ends", end.to_rfc3339())
        .number("Latest end", latest.to_rfc3339())
        .number("Windows seen", count(of))
}

/// Waits are counted from sending where no duration is known.
fn without_duration(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    for gap in a.gaps.iter().filter(|gap| gap.before.event.duration_ms.is_none()) {
        rows.push_weighted(gap.before, gap.weight);
    }
    let total: i64 = a.gaps.iter().map(|gap| gap.weight).sum();
    (!rows.is_empty()).then(|| {
        Finding::note(
            "no-duration",
            format!(
                "{} of {} carry no `duration_ms`: their waits are counted from sending, not from \
                 the answer, and look longer than they were.",
                count(rows.total),
                many(total, "retried attempt")
            ),
        )
        .rows(rows)
    })
}

/// Promised, chosen and real wait side by side.
fn waits(a: &Analysis<'_>) -> Option<Table> {
    let gaps = || a.gaps.iter().filter(|gap| !gap.is_overlapping());
    let promised =
        Sorted::new(a.limited_attempts().filter_map(|s| Some((promised_ms(s)?, weight(s)))));
    let chosen = Sorted::new(gaps().filter_map(|g| Some((g.chosen_ms()?, g.weight))));
    let real = Sorted::new(gaps().map(|g| (g.real_ms.max(0), g.weight)));
    let after_promise = |of: &dyn Fn(&Gap<'_>) -> Option<i64>| {
        Sorted::new(
            a.gaps
                .iter()
                .filter(|g| !g.is_hedge() && g.promised_ms().is_some())
                .filter_map(|g| Some((of(g)?, g.weight))),
        )
    };
    let lines = [
        ("promised", promised),
        ("promised, where retried", after_promise(&|g| g.promised_ms())),
        ("chosen after a promise", after_promise(&|g| g.chosen_ms())),
        ("real after a promise", after_promise(&|g| Some(g.real_ms.max(0)))),
        ("chosen, all", chosen),
        ("real, all", real),
    ];
    // Where not all refusals are looked at one by one, sums know the waits of all.
    let summed = a.facts.promised.as_ref().filter(|_| !a.facts.attempts_complete);
    let all = summed.filter(|waits| waits.promised() > 0).map(|waits| {
        vec![
            format!("promised, every refusal (within {:.0} %)", waits::ERROR * 100.0),
            maybe_span(waits.quantile(0.5)),
            maybe_span(waits.quantile(0.95)),
            maybe_span(waits.quantile(1.0)),
            count(waits.promised()),
        ]
    });
    let looked_at = lines.iter().filter(|(_, sorted)| !sorted.is_empty()).map(|(label, sorted)| {
        vec![
            (*label).to_owned(),
            maybe_span(sorted.median()),
            maybe_span(sorted.quantile(0.95)),
            maybe_span(sorted.max()),
            count(sorted.weight()),
        ]
    });
    let rows: Vec<Vec<String>> = all.into_iter().chain(looked_at).collect();
    (!rows.is_empty())
        .then(|| Table::new("Waits", &["wait", "p50", "p95", "max", "rests on"], rows))
}
