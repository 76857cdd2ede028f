//! Step 1: who returned it. From the verdicts; then proof by identity: did a gateway or the origin
//! record the same request, ray or trace id? Never by time.

use super::operations::{Analysis, MAX_RECORDS, Rows, is_served, joined_attempts, tally, weight};
use super::words::{count, list, many, name, share, time_of_day, verb};
use super::{Answer, AnswerState, Finding, NextAction, SHARE_FLOOR, Step, Table};
use crate::domain::classify::{Certainty, CollectNext, Layer, LimitType, Responder, Tri, classify};
use crate::domain::event::Vantage;
use crate::domain::joins::{Joined, Links, NEAR};
use crate::domain::stats::ratio::Ratio;
use crate::domain::stored::StoredEvent;
use crate::domain::time::{DAY_MS, MINUTE_MS, UnixMillis};

/// A responder needs this many refusals before it is named as one of several.
const SEVERAL_FLOOR: i64 = 3;
/// The share of served attempts that a record must hold before absence from it means anything.
const COMPLETE_FROM: f64 = 0.95;
/// How long refusals must be over before that is said.
const OVER_AFTER_MS: i64 = 10 * MINUTE_MS;
/// How many unknown answers are judged anew to learn what to collect.
const JUDGED_ANEW: usize = 30;

/// Answers step 1.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    let totals = &a.facts.totals;
    if totals.attempts == 0 {
        return Answer::nothing_stored(Step::Source);
    }
    if totals.limited == 0 && a.limited == 0 {
        return Answer::nothing_limited(Step::Source, a);
    }
    if a.limited == 0 {
        let mut answer = Answer::new(
            Step::Source,
            AnswerState::NeedsData,
            format!(
                "{} are counted, but none is held one by one.",
                many(totals.limited, "refusal")
            ),
        );
        answer.next.push(NextAction::text("Narrow the window to where refusals are still stored."));
        return answer;
    }
    let by_responder = tally(a.limited_attempts().map(|s| (named(s), weight(s))));
    let unknown = sum(&by_responder, |r| r == Responder::Unknown);
    let several: Vec<(Responder, i64)> = by_responder
        .iter()
        .copied()
        .filter(|(r, n)| *r != Responder::Unknown && *n >= SEVERAL_FLOOR && *n * 50 >= a.limited)
        .collect();
    let mut answer = Answer::new(Step::Source, AnswerState::Finding, String::new());
    answer.headline = headline(a, &by_responder, &several, unknown);
    if let Some(end) = ended(a) {
        answer.headline.push(' ');
        answer.headline.push_str(&end);
    }
    if unknown * 2 > a.limited {
        answer.state = AnswerState::NeedsData;
    }
    if let Some((top, n)) = by_responder.iter().find(|(r, _)| *r != Responder::Unknown) {
        answer.findings.push(who(a, *top, *n));
    }
    if several.len() > 1 {
        answer.findings.push(two_sources(a, &several));
    }
    let proof = Proof::new(a);
    proof.findings(a, &mut answer);
    already_processed(a, &mut answer);
    claims(a, &mut answer);
    if unknown > 0 {
        open(a, unknown, &mut answer);
    }
    answer.tables.push(table(a));
    if let Some(table) = proof.table() {
        answer.tables.push(table);
    }
    answer
}

/// The responder of an attempt, where the verdict names one at all.
fn named(s: &StoredEvent) -> Responder {
    if s.verdict.outcome == Certainty::Unknown { Responder::Unknown } else { s.verdict.returned_by }
}

fn sum(tally: &[(Responder, i64)], keep: impl Fn(Responder) -> bool) -> i64 {
    tally.iter().filter(|(r, _)| keep(*r)).map(|(_, n)| *n).sum()
}

/// The word for the certainty that most of a responder's refusals carry, and how many do.
fn certainty(a: &Analysis<'_>, responder: Responder) -> Certainty {
    tally(
        a.limited_attempts()
            .filter(|s| named(s) == responder)
            .map(|s| (s.verdict.outcome, weight(s))),
    )
    .first()
    .map_or(Certainty::Unknown, |(outcome, _)| *outcome)
}

fn headline(
    a: &Analysis<'_>,
    by_responder: &[(Responder, i64)],
    several: &[(Responder, i64)],
    unknown: i64,
) -> String {
    if unknown * 2 > a.limited {
        return format!("Who returned {} of {} is not known yet.", count(unknown), a.refusals());
    }
    if several.len() > 1 {
        let parts: Vec<String> =
            several.iter().map(|(r, n)| format!("{r} ({})", share(*n, a.limited))).collect();
        return format!(
            "{} components refuse here and need different fixes: {}.",
            number_word(several.len()),
            list(&parts)
        );
    }
    let Some((top, n)) = by_responder.iter().find(|(r, _)| *r != Responder::Unknown) else {
        return format!("Who returned {} is not known yet.", a.refusals());
    };
    format!(
        "{} returned {} of {} ({}).",
        who_word(*top),
        count(*n),
        a.refusals(),
        certainty(a, *top)
    )
}

/// When refusals stopped, where that is [`OVER_AFTER_MS`] or more before the end of what was asked.
fn ended(a: &Analysis<'_>) -> Option<String> {
    let last = a.limited_attempts().last()?.event.occurred_at;
    let end = a.facts.view.window.to.0.min(a.facts.now.0);
    let after: i64 =
        a.facts.buckets.iter().filter(|b| b.start > last).map(|b| b.counts.attempts).sum();
    // Refusals that are counted and not held may be newer.
    let is_last = !a.facts.buckets.iter().any(|b| b.start > last && b.counts.limited > 0);
    (is_last && end.saturating_sub(last.0) >= OVER_AFTER_MS).then(|| {
        let when = if end.saturating_sub(last.0) < DAY_MS {
            format!("{} UTC", time_of_day(last))
        } else {
            last.to_rfc3339()
        };
        if after > 0 {
            format!("No refusal since {when} ({} later).", many(after, "attempt"))
        } else {
            format!("No refusal since {when}, and no attempt either.")
        }
    })
}

/// How a responder is called in a sentence.
pub(super) fn who_word(responder: Responder) -> String {
    match responder {
        Responder::Origin => "The origin".to_owned(),
        Responder::Client => "The caller itself".to_owned(),
        Responder::Unknown => "An unknown component".to_owned(),
        other => other.to_string(),
    }
}

fn number_word(n: usize) -> String {
    match n {
        2 => "Two".to_owned(),
        3 => "Three".to_owned(),
        4 => "Four".to_owned(),
        n => n.to_string(),
    }
}

fn who(a: &Analysis<'_>, top: Responder, n: i64) -> Finding {
    let rows: Rows = a.limited_attempts().filter(|s| named(s) == top).collect();
    let outcome = certainty(a, top);
    let mut finding = Finding::note(
        "answered-by",
        format!(
            "{} wrote {} of {} ({}), layer {}; the verdict is {outcome}.",
            who_word(top),
            count(n),
            a.refusals(),
            share(n, a.limited),
            top.layer()
        ),
    )
    .number("Refusals", count(n))
    .number("Share of all refusals", super::words::share_with_interval(Ratio::new(n, a.limited)));
    if let Some(newest) = a.limited_attempts().filter(|s| named(s) == top).last() {
        let verdict = classify(&newest.event.response());
        for evidence in verdict.evidence.iter().take(3) {
            finding = finding.number(
                &format!("Evidence {}", evidence.rule),
                super::words::clip(&evidence.observed, 160),
            );
        }
        for conflict in verdict.conflicts.iter().take(2) {
            finding = finding.number("Speaks against it", super::words::clip(conflict, 160));
        }
    }
    finding.rows(rows)
}

fn two_sources(a: &Analysis<'_>, several: &[(Responder, i64)]) -> Finding {
    let parts: Vec<String> = several
        .iter()
        .map(|(r, n)| {
            let kinds = tally(
                a.limited_attempts()
                    .filter(|s| named(s) == *r)
                    .map(|s| (s.verdict.limit_type, weight(s))),
            );
            let kind = kinds.first().map_or(LimitType::Unknown, |(kind, _)| *kind);
            format!("{r} refused {} (mostly {kind}, {})", count(*n), certainty(a, *r))
        })
        .collect();
    let edge = several.iter().any(|(r, _)| r.layer() == Layer::Edge);
    let origin = several.iter().any(|(r, _)| r.layer() == Layer::Origin);
    let hint = if edge && origin {
        " The edge relays the origin's refusals too, so its name in the headers alone does not \
         tell them apart; the verdict of each does."
    } else {
        ""
    };
    let kept: Vec<Responder> = several.iter().map(|(r, _)| *r).collect();
    let mut finding = Finding::new("several-responders", format!("{}.{hint}", list(&parts)))
        .rows(a.limited_attempts().filter(|s| kept.contains(&named(s))).collect());
    for (responder, n) in several {
        finding =
            finding.number(responder.as_str(), format!("{} ({})", count(*n), share(*n, a.limited)));
    }
    finding
}

/// A refusal after the application did the work: a repeated write may be done twice.
fn already_processed(a: &Analysis<'_>, answer: &mut Answer) {
    let rows: Rows = a
        .limited_attempts()
        .filter(|s| {
            super::operations::is_write(s)
                && s.verdict.reached_origin == Tri::Yes
                && s.verdict.layer != Layer::Origin
        })
        .collect();
    if !rows.is_empty() {
        answer.findings.push(
            Finding::new(
                "refused-after-processing",
                format!(
                    "Writes refused although the origin was reached: {}. They may be done already: \
                     repeat one only with the same idempotency key.",
                    count(rows.total)
                ),
            )
            .rows(rows),
        );
    }
}

/// Where the client's own claim of the layer and a sure verdict differ.
fn claims(a: &Analysis<'_>, answer: &mut Answer) {
    let rows: Rows = a
        .limited_attempts()
        .filter(|s| {
            matches!(s.verdict.outcome, Certainty::Certain | Certainty::Confident)
                && s.event.layer.is_some_and(|l| l != Layer::Unknown && l != s.verdict.layer)
        })
        .collect();
    if !rows.is_empty() {
        answer.findings.push(
            Finding::note(
                "claim-contradicted",
                format!(
                    "The client's own `layer` differs from the evidence on {}; the evidence decides.",
                    many(rows.total, "refusal")
                ),
            )
            .rows(rows),
        );
    }
}

/// What to collect for refusals whose responder is open.
fn open(a: &Analysis<'_>, unknown: i64, answer: &mut Answer) {
    let open: Vec<&StoredEvent> =
        a.limited_attempts().filter(|s| named(s) == Responder::Unknown).collect();
    answer.findings.push(
        Finding::new(
            "responder-unknown",
            format!(
                "{} of {} ({}) can't be traced to a component with what was sent.",
                count(unknown),
                a.refusals(),
                share(unknown, a.limited)
            ),
        )
        .rows(open.iter().copied().collect()),
    );
    let mut wanted: Vec<(CollectNext, i64)> = Vec::new();
    for s in open.iter().rev().take(JUDGED_ANEW) {
        if let Some(next) = classify(&s.event.response()).collect_next {
            match wanted.iter_mut().find(|(known, _)| *known == next) {
                Some((_, n)) => *n += weight(s),
                None => wanted.push((next, weight(s))),
            }
        }
    }
    wanted.sort_by(|x, y| y.1.cmp(&x.1).then_with(|| x.0.datum.cmp(&y.0.datum)));
    for (next, _) in wanted.into_iter().take(2) {
        answer.next.push(NextAction { text: next.sentences(), command: next.command });
    }
    let bare = open.iter().filter(|s| s.event.headers.is_empty()).count();
    if bare * 2 > open.len() {
        answer.next.push(NextAction::text(
            "Send the response's `headers` (server, via, date, age, cf-*, x-amz*, x-envoy-*, \
             x-kong-*, retry-after*, ratelimit*), its `content_type` and up to 2 KiB of the body \
             as `body_sample` with each limited attempt.",
        ));
    }
    if answer.next.is_empty() {
        answer.next.push(NextAction::text(
            "Send one curl from outside the application against the edge and, where you may, one \
             straight to the origin with the same host header and key; then compare the headers.",
        ));
    }
}

/// The table of who answered.
fn table(a: &Analysis<'_>) -> Table {
    let rows = tally(
        a.limited_attempts()
            .map(|s| ((named(s), s.verdict.limit_type, s.verdict.outcome), weight(s))),
    )
    .into_iter()
    .map(|((responder, kind, outcome), n)| {
        vec![
            responder.to_string(),
            responder.layer().to_string(),
            kind.to_string(),
            outcome.to_string(),
            count(n),
            share(n, a.limited),
        ]
    })
    .collect();
    Table::new(
        "Who returned the refusals",
        &["responder", "layer", "limit type", "certainty", "refusals", "share"],
        rows,
    )
}

/// What one kind of record says of the limited attempts, joined by id alone.
#[derive(Debug, Default)]
struct Seen {
    /// Limited attempts with an id that the record holds.
    limited: Rows,
    /// Of these, recorded as refused.
    refused_there: i64,
    /// Limited attempts with an id that it does not hold, though it holds others of the minute before
    /// and of the minute after them.
    missing: Rows,
    /// Limited attempts with an id that it does not hold, of a time when it isn't known to have been
    /// written.
    in_a_hole: Rows,
    /// Limited attempts without any id.
    without_id: i64,
    /// Served attempts with an id, and how many of them it holds.
    served: i64,
    served_held: i64,
}

#[derive(Debug)]
struct Proof {
    /// Refusals of which records prove who wrote them.
    by_log: Rows,
    /// Failed attempts that a gateway's own log calls refused by a limit, and that are not counted as
    /// limited, because the answer alone doesn't tell.
    uncounted: Rows,
    origin: Seen,
    gateway: Seen,
    has_origin: bool,
    has_gateway: bool,
}

impl Proof {
    fn new(a: &Analysis<'_>) -> Self {
        let links = Links::new(a.attempts.iter().copied(), a.observations.iter().copied());
        let mut looked_up = joined_attempts(a.attempts.iter().copied());
        looked_up.reverse();
        if !a.facts.has_origin_source && !a.facts.has_gateway_source && a.observations.is_empty() {
            // Nothing was recorded at all: only attempts without an id matter.
            looked_up.retain(|s| s.verdict.limited);
        }
        // A look-up that was cut may have left out the very record that is missing.
        let is_cut = a.observations.len() >= MAX_RECORDS;
        let joined: Vec<Joined<'_>> = looked_up.iter().map(|attempt| links.find(attempt)).collect();
        let look = |vantage: Vantage| {
            let mut seen = Seen::default();
            // When the record is known to have been written and delivered.
            let mut delivered: Vec<UnixMillis> = looked_up
                .iter()
                .zip(&joined)
                .filter(|(_, joined)| matches!(found(joined, vantage), Found::Seen(_)))
                .map(|(attempt, _)| attempt.event.occurred_at)
                .collect();
            delivered.sort_unstable();
            for (attempt, joined) in looked_up.iter().zip(&joined) {
                let found = match found(joined, vantage) {
                    Found::NotSeen if is_cut => continue,
                    found => found,
                };
                match (attempt.verdict.limited, found) {
                    (true, Found::Seen(record)) => {
                        seen.limited.push(attempt);
                        if record.event.status == attempt.event.status || record.verdict.limited {
                            seen.refused_there += weight(attempt);
                        }
                    }
                    (true, Found::NotSeen) => {
                        if is_surrounded(&delivered, attempt.event.occurred_at) {
                            seen.missing.push(attempt);
                        } else {
                            seen.in_a_hole.push(attempt);
                        }
                    }
                    (true, Found::NoId) => seen.without_id += weight(attempt),
                    (false, Found::Seen(_)) if is_served(attempt) => {
                        seen.served += weight(attempt);
                        seen.served_held += weight(attempt);
                    }
                    (false, Found::NotSeen) if is_served(attempt) => seen.served += weight(attempt),
                    (false, _) => {}
                }
            }
            seen
        };
        let mut by_log = Rows::default();
        let mut uncounted = Rows::default();
        for (attempt, joined) in looked_up.iter().zip(&joined) {
            let is_proof = |record: &&&StoredEvent| {
                record.event.vantage == Vantage::Origin || record.event.log.is_some()
            };
            let has_proof = joined.records.iter().any(|record| is_proof(&record));
            if attempt.verdict.limited && attempt.verdict.outcome == Certainty::Certain && has_proof
            {
                by_log.push(attempt);
            }
            if !attempt.verdict.limited
                && !is_served(attempt)
                && joined.records.iter().any(|r| r.event.log.is_some() && r.verdict.limited)
            {
                uncounted.push(attempt);
            }
        }
        Self {
            by_log,
            uncounted,
            origin: look(Vantage::Origin),
            gateway: look(Vantage::Gateway),
            has_origin: a.facts.has_origin_source,
            has_gateway: a.facts.has_gateway_source,
        }
    }

    fn findings(&self, a: &Analysis<'_>, answer: &mut Answer) {
        if !self.by_log.is_empty() {
            answer.findings.push(
                Finding::note(
                    "proven-by-record",
                    format!(
                        "Records of gateways and the origin, joined by id, prove who wrote {} of \
                         {}: this stands above what their headers look like.",
                        count(self.by_log.total),
                        a.refusals()
                    ),
                )
                .number("Share proven", share(self.by_log.total, a.limited))
                .rows(self.by_log.clone()),
            );
        }
        if !self.uncounted.is_empty() {
            answer.findings.push(
                Finding::new(
                    "limit-behind-another-status",
                    format!(
                        "{} {} by a limit, as the gateway's own log says; with that status the \
                         answer alone doesn't tell, so that they aren't counted as limited.",
                        many(self.uncounted.total, "failed attempt"),
                        verb(self.uncounted.total, "was refused", "were refused")
                    ),
                )
                .rows(self.uncounted.clone()),
            );
            answer.next.push(NextAction::command(
                "Let the gateway answer limits with 429, so that clients can tell them from \
                 outages.",
                "limit_req_status 429;   # nginx\nlimit_conn_status 429;",
            ));
        }
        let seen = &self.origin;
        if !seen.limited.is_empty() {
            let after = seen.limited.total - seen.refused_there;
            let tail = if after > 0 {
                format!(
                    " {} {} recorded there with another status: something in front refused \
                     afterwards, and a repeated write may be done twice.",
                    count(after),
                    verb(after, "is", "are")
                )
            } else {
                " It answered them itself.".to_owned()
            };
            answer.findings.push(
                Finding::note(
                    "seen-by-origin",
                    format!(
                        "The origin recorded {} of {} by id.{tail}",
                        count(seen.limited.total),
                        many(a.limited, "refusal")
                    ),
                )
                .rows(seen.limited.clone()),
            );
        }
        if self.has_origin {
            absent(seen, answer);
        }
        if !self.gateway.limited.is_empty() {
            answer.findings.push(
                Finding::note(
                    "seen-by-gateway",
                    format!(
                        "A gateway recorded {} of {} by id, {} of them as refused.",
                        count(self.gateway.limited.total),
                        many(a.limited, "refusal"),
                        count(self.gateway.refused_there)
                    ),
                )
                .rows(self.gateway.limited.clone()),
            );
        }
        self.ask(a, answer);
    }

    /// What is missing for a proof.
    fn ask(&self, a: &Analysis<'_>, answer: &mut Answer) {
        if self.origin.without_id * 2 > a.limited {
            answer.next.push(NextAction::text(format!(
                "{} of {} carry no `request_id`, `ray_id` or `trace_id`: send one with each attempt, \
                 so that logs can prove who saw it.",
                count(self.origin.without_id),
                many(a.limited, "refusal")
            )));
        } else if !self.has_origin {
            let id = a.limited_attempts().rev_ids().next();
            answer.next.push(NextAction::command(
                "No record of the origin is stored: send what it saw (the same id, \
                 `\"vantage\":\"origin\"`), or search its log for this id. Found: it was reached. Not \
                 found in a complete log: it was refused in front.",
                id.map_or_else(
                    || "grep -F \"$REQUEST_ID\" access.log".to_owned(),
                    |id| format!("grep -F {} access.log", super::s2_reproduce::quote(&name(&id))),
                ),
            ));
        }
    }

    fn table(&self) -> Option<Table> {
        let row = |label: &str, has: bool, seen: &Seen| {
            vec![
                label.to_owned(),
                if has { count(seen.limited.total) } else { "no record".to_owned() },
                if has { count(seen.missing.total) } else { "no record".to_owned() },
                if has { count(seen.in_a_hole.total) } else { "no record".to_owned() },
                count(seen.without_id),
                if has { share(seen.served_held, seen.served) } else { "no record".to_owned() },
            ]
        };
        (self.has_origin || self.has_gateway).then(|| {
            Table::new(
                "Proof by identity: refusals found by request, ray or trace id",
                &[
                    "record",
                    "seen",
                    "not seen",
                    "no record: a hole",
                    "without an id of its own",
                    "served attempts it holds",
                ],
                vec![
                    row("gateway", self.has_gateway, &self.gateway),
                    row("origin", self.has_origin, &self.origin),
                ],
            )
        })
    }
}

/// What it means that the origin's record lacks refused attempts: something where it holds what was
/// served, and others of the minutes around each.
fn absent(seen: &Seen, answer: &mut Answer) {
    let coverage = Ratio::new(seen.served_held, seen.served);
    let complete =
        seen.served >= SHARE_FLOOR && coverage.share().is_some_and(|p| p >= COMPLETE_FROM);
    if !complete {
        let mut missing = seen.missing.clone();
        missing.add(&seen.in_a_hole);
        if !missing.is_empty() {
            answer.findings.push(
                Finding::note(
                    "origin-record-incomplete",
                    format!(
                        "{} {} not in the origin's record, but it holds only {} of {} served \
                         attempts by id: absence proves nothing yet.",
                        many(missing.total, "refusal"),
                        verb(missing.total, "is", "are"),
                        count(seen.served_held),
                        count(seen.served)
                    ),
                )
                .rows(missing),
            );
        }
        return;
    }
    if !seen.missing.is_empty() {
        answer.findings.push(
            Finding::note(
                "not-seen-by-origin",
                format!(
                    "The origin's record holds {} of the served attempts and not {} of the refused \
                     ones: they were refused in front of it.",
                    share(seen.served_held, seen.served),
                    count(seen.missing.total)
                ),
            )
            .number("Served attempts with an id", count(seen.served))
            .number("Of these in the origin's record", count(seen.served_held))
            .rows(seen.missing.clone()),
        );
    }
    if !seen.in_a_hole.is_empty() {
        answer.findings.push(
            Finding::note(
                "origin-record-hole",
                format!(
                    "{} {} not in the origin's record, which holds nothing of the minute before or \
                     after: whether they reached it is not known.",
                    many(seen.in_a_hole.total, "refusal"),
                    verb(seen.in_a_hole.total, "is", "are")
                ),
            )
            .rows(seen.in_a_hole.clone()),
        );
    }
}

/// Ids of attempts, newest first.
trait RevIds {
    fn rev_ids(self) -> std::vec::IntoIter<String>;
}

impl<'a, I: Iterator<Item = &'a StoredEvent>> RevIds for I {
    fn rev_ids(self) -> std::vec::IntoIter<String> {
        let mut ids: Vec<String> = self
            .filter_map(|s| s.event.request_id.clone().or_else(|| s.event.ray_id.clone()))
            .collect();
        ids.reverse();
        ids.into_iter()
    }
}

/// What is known of one attempt from one kind of record.
enum Found<'a> {
    Seen(&'a StoredEvent),
    NotSeen,
    /// Without an id, or with one that doesn't tell it from others.
    NoId,
}

/// What records of a vantage say of an attempt.
fn found<'a>(joined: &Joined<'a>, vantage: Vantage) -> Found<'a> {
    let of = |records: &[&'a StoredEvent]| {
        records.iter().copied().rev().find(|record| record.event.vantage == vantage)
    };
    match (of(&joined.records), of(&joined.open)) {
        (Some(record), _) => Found::Seen(record),
        (None, None) if joined.has_id => Found::NotSeen,
        (None, _) => Found::NoId,
    }
}

/// Whether one of these moments, in order, is within a minute before `at` and one within a minute
/// after it.
fn is_surrounded(moments: &[UnixMillis], at: UnixMillis) -> bool {
    let behind = moments.partition_point(|moment| *moment <= at);
    let before = behind.checked_sub(1).and_then(|last| moments.get(last));
    before.is_some_and(|moment| at.since(*moment) <= NEAR)
        && moments.get(behind).is_some_and(|moment| moment.since(at) <= NEAR)
}
