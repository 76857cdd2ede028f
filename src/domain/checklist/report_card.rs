//! The report card of a service: twelve mistakes to find and ten habits to confirm (DESIGN 3), each
//! `pass`, `fail` or `not-seen`, with its evidence and rows; for the whole and per retry layer.
//!
//! `not-seen` is no praise: it says that nothing was sent by which to judge.

use super::operations::{Analysis, Gap, Operation, Rows, group_by, is_served, is_write};
use super::s6_behaviour as behaviour;
use super::words::{count, many, proportion, share};
use super::{Facts, Finding, SHARE_FLOOR, s5_time};
use crate::domain::classify::LimitType;
use crate::domain::event::{Outcome, RetryLayer};
use crate::domain::headers::{self, FieldKind};
use crate::domain::spelling::spelled_enum;
use crate::domain::stats::jitter::MIN_DELAYS;
use crate::domain::stats::{len, real};
use crate::domain::stored::StoredEvent;
use crate::domain::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

spelled_enum! {
    /// The mark of one grade.
    pub enum GradeMark {
        /// Looked at and right.
        Pass => "pass",
        /// Looked at and wrong.
        Fail => "fail",
        /// Nothing was sent by which to judge.
        NotSeen => "not-seen",
    }
}

/// One mistake or habit, graded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Its number in the list, from 1.
    pub number: u8,
    /// What is graded.
    pub title: String,
    /// The mark.
    pub mark: GradeMark,
    /// What the mark rests on, in a sentence with numbers.
    pub evidence: String,
    /// The attempts behind it: (`event_id`, `occurred_at`), at most [`super::MAX_ROWS`].
    pub rows: Vec<(String, UnixMillis)>,
    /// How many attempts or operations are behind it in all.
    pub rows_total: i64,
}

/// The grades of one retry layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerCard {
    /// The layer.
    pub layer: RetryLayer,
    /// Attempts of the operations in which it re-sent.
    pub attempts: i64,
    /// The twelve mistakes.
    pub mistakes: Vec<Grade>,
    /// The ten habits.
    pub habits: Vec<Grade>,
}

/// The report card of a service, or of the whole scope where it names none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportCard {
    /// The service.
    pub service: Option<String>,
    /// Attempts it rests on.
    pub attempts: i64,
    /// The twelve mistakes.
    pub mistakes: Vec<Grade>,
    /// The ten habits.
    pub habits: Vec<Grade>,
    /// The same per retry layer, for layers that re-sent anything.
    pub layers: Vec<LayerCard>,
}

/// How many answers are read for one grade that needs their header fields.
const READ_AT_MOST: usize = 500;

/// Titles of the mistakes, in order.
pub const MISTAKES: [&str; 12] = [
    "Retries at once or after a fixed time",
    "Waits exactly Retry-After without jitter, or many callers without a common gate",
    "Takes seconds for milliseconds",
    "Judges by wording where a code exists",
    "Sends POST or PATCH again without an idempotency key, or with a new one",
    "Retries on while the quota is spent",
    "Retries 400, 401, 403, 404, 409 or 422",
    "Retries in several layers",
    "Has no limit of attempts or no total deadline",
    "Reads a reset header in the wrong unit",
    "Server answers 429 for a failed login, or knows the reset and sends no Retry-After",
    "A refusal is cached and replayed",
];

/// Titles of the habits, in order.
pub const HABITS: [&str; 10] = [
    "Tells 429 from permanent errors",
    "Honours both forms of Retry-After and never goes below",
    "Uses full, equal or decorrelated jitter without the header",
    "Has ceilings on delay, attempts and total time",
    "Limits concurrency before sending",
    "Makes writes idempotent, or reconciles them",
    "Sends nothing secret",
    "Ends retries with cancellation",
    "Always reports a final outcome",
    "Keeps retries within the budget",
];

/// Grades the facts of one service.
pub fn report_card(facts: &Facts) -> ReportCard {
    let whole = Analysis::new(facts);
    let layers = RetryLayer::ALL
        .iter()
        .copied()
        .filter(|layer| {
            whole.gaps.iter().any(|gap| gap.after.event.retry_layer == Some(*layer))
                || whole
                    .attempts
                    .iter()
                    .any(|s| s.event.attempt > 1 && s.event.retry_layer == Some(*layer))
        })
        .map(|layer| {
            let part = whole.of_layer(layer);
            LayerCard {
                layer,
                attempts: part.totals.attempts,
                mistakes: mistakes(&part),
                habits: habits(&part),
            }
        })
        .collect();
    ReportCard {
        service: facts.view.scope.service.clone(),
        attempts: facts.totals.attempts,
        mistakes: mistakes(&whole),
        habits: habits(&whole),
        layers,
    }
}

/// What was looked at for one grade.
struct Looked {
    /// The mistake, where there is one.
    wrong: Option<Finding>,
    /// Cases in which it could have shown, and how many are needed to pass.
    cases: (Rows, i64),
    /// The evidence when it passes.
    right: String,
    /// What to send when it is not seen.
    unseen: &'static str,
}

impl Looked {
    fn grade(self, titles: &[&str], index: usize) -> Grade {
        let (mark, evidence, rows, rows_total) = match self.wrong {
            Some(finding) => (GradeMark::Fail, finding.text, finding.rows, finding.rows_total),
            None if self.cases.0.total >= self.cases.1 && self.cases.1 > 0 => {
                (GradeMark::Pass, self.right, self.cases.0.refs, self.cases.0.total)
            }
            None => {
                (GradeMark::NotSeen, self.unseen.to_owned(), self.cases.0.refs, self.cases.0.total)
            }
        };
        Grade {
            number: u8::try_from(index + 1).unwrap_or(u8::MAX),
            title: titles.get(index).copied().unwrap_or_default().to_owned(),
            mark,
            evidence,
            rows,
            rows_total,
        }
    }
}

fn grades(looked: Vec<Looked>, titles: &[&str]) -> Vec<Grade> {
    looked.into_iter().enumerate().map(|(i, looked)| looked.grade(titles, i)).collect()
}

/// The twelve, looked at.
fn mistakes(a: &Analysis<'_>) -> Vec<Grade> {
    let judged = behaviour::judged_waits(a);
    let promised: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .filter(|g| !g.is_hedge() && g.promised_ms().is_some_and(|ms| ms > 0))
        .collect();
    let long: Vec<&Gap<'_>> = promised
        .iter()
        .copied()
        .filter(|g| g.promised_ms().is_some_and(|ms| ms >= 5_000))
        .collect();
    let kept: Vec<&Gap<'_>> = promised.iter().copied().filter(|gap| !gap.is_early()).collect();
    let floor = len(MIN_DELAYS);
    let looked = vec![
        Looked {
            wrong: behaviour::zero_delay(a).or_else(|| behaviour::fixed_delay(a)),
            right: format!("{} waited, and not the same each time.", many(judged.total, "retry")),
            cases: (judged, floor),
            unseen: "Too few retries of one caller with `operation_id` and `attempt` to judge waits \
                     by.",
        },
        Looked {
            wrong: behaviour::exact_retry_after(a).or_else(|| behaviour::in_waves(a)),
            right: format!("{} after a promised wait came spread out.", many(sum(&kept), "retry")),
            cases: (Rows::of_gaps(kept.iter().copied()), floor),
            unseen: "Too few retries that kept to a promised wait.",
        },
        Looked {
            wrong: s5_time::unit(&promised),
            right: format!(
                "{} after a promise of 5 s or more waited in the right unit.",
                many(sum(&long), "retry")
            ),
            cases: (Rows::of_gaps(long.iter().copied()), 3),
            unseen: "No retries after a promised wait of 5 s or more.",
        },
        wording(a),
        writes(a, behaviour::no_idempotency_key(a).or_else(|| behaviour::changing_key(a))),
        quota(a),
        permanent(a),
        layers(a),
        ceilings(a),
        reset_unit(a),
        server(a),
        cached(a),
    ];
    grades(looked, &MISTAKES)
}

/// The ten, looked at.
fn habits(a: &Analysis<'_>) -> Vec<Grade> {
    let looked = vec![
        tells_apart(a),
        honours(a),
        jitter(a),
        ceilings(a),
        concurrency(a),
        writes(
            a,
            behaviour::no_idempotency_key(a)
                .or_else(|| behaviour::changing_key(a))
                .or_else(|| behaviour::key_with_two_bodies(a))
                .or_else(|| behaviour::conflict_after_retry(a)),
        ),
        secrets(a),
        cancellation(a),
        outcomes(a),
        budget(a),
    ];
    grades(looked, &HABITS)
}

fn sum(gaps: &[&Gap<'_>]) -> i64 {
    gaps.iter().map(|gap| gap.weight).sum()
}

fn wrong(text: String, rows: Rows) -> Option<Finding> {
    (!rows.is_empty()).then(|| Finding {
        id: String::new(),
        text,
        actionable: true,
        numbers: Vec::new(),
        rows: rows.refs,
        rows_total: rows.total,
    })
}

/// Mistake 4: refusals whose body holds a code that the client does not report, or whose layer it
/// claims against the evidence.
fn wording(a: &Analysis<'_>) -> Looked {
    let coded: Vec<&StoredEvent> = a.limited_attempts().filter(|s| has_code(s)).collect();
    let unread: Rows = coded.iter().copied().filter(|s| s.event.error_code.is_none()).collect();
    let all: Rows = coded.into_iter().collect();
    let mostly = unread.total >= 3 && unread.total * 2 > all.total;
    Looked {
        wrong: wrong(
            format!(
                "{} of {} hold a machine-readable code that the client does not report as \
                 `error_code`.",
                count(unread.total),
                many(all.total, "refusal")
            ),
            unread,
        )
        .filter(|_| mostly),
        right: format!(
            "The code is reported for most of {} that have one.",
            many(all.total, "refusal")
        ),
        cases: (all, 3),
        unseen: "No refusals whose body holds a machine-readable code.",
    }
}

/// Whether the body is JSON with a code, or the client reports one.
fn has_code(s: &StoredEvent) -> bool {
    s.event.error_code.is_some()
        || s.event.body_sample.as_deref().is_some_and(|body| {
            body.trim_start().starts_with('{')
                && ["\"code\"", "\"error_code\"", "\"__type\"", "\"type\""]
                    .iter()
                    .any(|member| body.contains(member))
        })
}

/// Writes that were sent again.
fn writes(a: &Analysis<'_>, wrong: Option<Finding>) -> Looked {
    let rows = Rows::of_gaps(a.gaps.iter().filter(|gap| is_write(gap.after)));
    Looked {
        wrong,
        right: format!("{} kept one idempotency key.", many(rows.total, "repeated write")),
        cases: (rows, 1),
        unseen: "No POST or PATCH was sent again.",
    }
}

fn quota(a: &Analysis<'_>) -> Looked {
    let rows: Rows = a
        .limited_attempts()
        .filter(|s| s.verdict.limit_type == LimitType::Quota && s.event.operation_id.is_some())
        .collect();
    Looked {
        wrong: behaviour::after_quota(a),
        right: format!(
            "{} by a quota, and none was retried before its renewal.",
            many(rows.total, "refusal")
        ),
        cases: (rows, 1),
        unseen: "No refusal by a quota in an operation.",
    }
}

fn permanents(a: &Analysis<'_>) -> Rows {
    a.attempts
        .iter()
        .copied()
        .filter(|s| {
            s.event.operation_id.is_some()
                && !s.verdict.limited
                && matches!(s.event.status, Some(400 | 401 | 403 | 404 | 409 | 422))
        })
        .collect()
}

fn permanent(a: &Analysis<'_>) -> Looked {
    let rows = permanents(a);
    Looked {
        wrong: behaviour::retry_of_permanent(a),
        right: format!("{} ended there.", many(rows.total, "permanent error")),
        cases: (rows, 1),
        unseen: "No answer 400, 401, 403, 404, 409 or 422 in an operation.",
    }
}

fn layers(a: &Analysis<'_>) -> Looked {
    let rows = Rows::of_gaps(a.gaps.iter().filter(|gap| gap.after.event.retry_layer.is_some()));
    Looked {
        wrong: behaviour::double_layer(a),
        right: format!("{} came from one layer per operation.", many(rows.total, "retry")),
        cases: (rows, len(MIN_DELAYS)),
        unseen: "Too few retries that say their `retry_layer`.",
    }
}

/// Mistake 9 and habit 4: a maximum of attempts and a deadline, both kept.
fn ceilings(a: &Analysis<'_>) -> Looked {
    let retried: Vec<&Operation<'_>> =
        a.operations.iter().filter(|operation| operation.attempts.len() > 1).collect();
    let says = |operation: &Operation<'_>, of: fn(&StoredEvent) -> bool| {
        operation.attempts.iter().any(|s| of(s))
    };
    let max = |s: &StoredEvent| s.event.attempts_max.is_some_and(|n| n > 0);
    let deadline = |s: &StoredEvent| s.event.deadline_ms.is_some_and(|ms| ms > 0);
    let mut endless = Rows::default();
    let mut bounded = Rows::default();
    for operation in &retried {
        let (has_max, has_deadline) = (says(operation, max), says(operation, deadline));
        if has_max && has_deadline {
            bounded.push_weighted(operation.last(), operation.weight());
        }
        // Ten attempts are twice what anyone advises; no ceiling is reported for them.
        if (!has_max && operation.size() >= behaviour::LONG_FROM)
            || (!has_deadline && operation.length_ms() > 900_000)
        {
            endless.push_weighted(operation.last(), operation.weight());
        }
    }
    let all = bounded.total == retried.iter().map(|operation| operation.weight()).sum::<i64>();
    Looked {
        wrong: behaviour::beyond_maximum(a).or_else(|| {
            wrong(
                format!(
                    "{} took 10 attempts or 15 minutes and more, and no ceiling is reported.",
                    many(endless.total, "operation")
                ),
                endless,
            )
        }),
        right: format!(
            "{} kept to a reported maximum of attempts and a deadline.",
            many(bounded.total, "retried operation")
        ),
        cases: (bounded, i64::from(all)),
        unseen: "Not every retried operation reports `attempts_max` and `deadline_ms`.",
    }
}

/// Mistake 10: the chosen wait is a thousand times a reset field, or a thousandth, or a moment.
fn reset_unit(a: &Analysis<'_>) -> Looked {
    let (mut misread, mut right) = (Rows::default(), Rows::default());
    // Where the answer promises a wait in both, only the client can say which one it read.
    let reads_reset = |gap: &Gap<'_>| {
        gap.promised_ms().is_none()
            || gap.before.event.delay_source.as_deref().is_some_and(|word| word.contains("reset"))
    };
    let candidates = a.gaps.iter().filter(|gap| {
        gap.chosen_ms().is_some()
            && gap.before.verdict.limited
            && !gap.before.event.headers.is_empty()
            && reads_reset(gap)
    });
    for gap in candidates.take(READ_AT_MOST) {
        let chosen = real(gap.chosen_ms().unwrap_or_default());
        let response = gap.before.event.response();
        let resets: Vec<f64> = headers::read(
            &response.headers,
            response.request.host.as_deref(),
            response.observed_at,
        )
        .into_iter()
        .filter(|field| field.kind == FieldKind::Reset)
        .filter_map(|field| Some(real(field.reset_in?.0)))
        .filter(|ms| *ms >= 1_000.0)
        .collect();
        let is_near =
            |factor: f64| resets.iter().any(|ms| (chosen / (ms * factor) - 1.0).abs() < 0.1);
        if is_near(1.0) {
            right.push_weighted(gap.after, gap.weight);
        } else if !resets.is_empty() && (is_near(1_000.0) || is_near(0.001) || chosen >= 1e9) {
            misread.push_weighted(gap.after, gap.weight);
        }
    }
    Looked {
        wrong: wrong(
            format!(
                "{} chose a wait a thousand times off what the reset field means.",
                many(misread.total, "retry")
            ),
            misread,
        ),
        right: format!("{} waited as long as a reset field said.", many(right.total, "retry")),
        cases: (right, 3),
        unseen: "No retries whose chosen wait follows a reset field.",
    }
}

/// Mistake 11, the server's.
fn server(a: &Analysis<'_>) -> Looked {
    const LOGIN: [&str; 9] = [
        "invalid_credentials",
        "bad_credentials",
        "invalid_password",
        "invalid_grant",
        "invalid_login",
        "login_failed",
        "authentication_failed",
        "unauthorized",
        "invalid_token",
    ];
    let login: Rows = a
        .attempts
        .iter()
        .copied()
        .filter(|s| {
            s.event.status == Some(429)
                && s.event.error_code.as_deref().is_some_and(|code| {
                    let code = code.to_ascii_lowercase().replace(['-', ' '], "_");
                    LOGIN.contains(&code.as_str())
                })
        })
        .collect();
    let captured: Vec<&StoredEvent> = a
        .limited_attempts()
        .filter(|s| !s.event.headers.is_empty() || s.event.retry_after.is_some())
        .take(READ_AT_MOST)
        .collect();
    let silent: Rows = captured
        .iter()
        .copied()
        .filter(|s| {
            let response = s.event.response();
            !response.headers.has("retry-after")
                && headers::read(&response.headers, Some(&s.event.host), response.observed_at)
                    .iter()
                    .any(|field| field.kind == FieldKind::Reset && field.reset_in.is_some())
        })
        .collect();
    let rows: Rows = captured.into_iter().collect();
    Looked {
        wrong: wrong(
            format!("{} answered 429 for a failed login.", many(login.total, "attempt")),
            login,
        )
        .or_else(|| {
            wrong(
                format!(
                    "{} know the reset and send no Retry-After.",
                    many(silent.total, "refusal")
                ),
                silent,
            )
        }),
        right: format!(
            "{} with captured headers: none hides its reset, none is a failed login.",
            many(rows.total, "refusal")
        ),
        cases: (rows, SHARE_FLOOR),
        unseen: "Too few refusals with captured headers.",
    }
}

fn cached(a: &Analysis<'_>) -> Looked {
    let replayed: Rows =
        a.limited_attempts().filter(|s| s.verdict.limit_type == LimitType::Cached).collect();
    let rows: Rows = a.limited_attempts().collect();
    Looked {
        wrong: wrong(
            format!("{} replayed from a cache.", many(replayed.total, "refusal")),
            replayed,
        ),
        right: format!("None of {} shows a sign of a cache.", many(rows.total, "refusal")),
        cases: (rows, SHARE_FLOOR),
        unseen: "Too few refusals to judge.",
    }
}

/// Habit 1: limits are retried or rescheduled, permanent errors are not.
fn tells_apart(a: &Analysis<'_>) -> Looked {
    let permanent = permanents(a);
    let retried = Rows::of_gaps(a.gaps.iter().filter(|gap| gap.before.verdict.limited));
    let both = permanent.total > 0 && retried.total > 0;
    Looked {
        wrong: behaviour::retry_of_permanent(a),
        right: format!(
            "{} after a limit, none after {}.",
            many(retried.total, "retry"),
            many(permanent.total, "permanent error")
        ),
        cases: (retried, i64::from(both)),
        unseen: "Not both seen in operations: retried limits and permanent errors.",
    }
}

/// Habit 2: both forms, never below.
fn honours(a: &Analysis<'_>) -> Looked {
    let promised: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .filter(|g| !g.is_hedge() && g.promised_ms().is_some_and(|ms| ms > 0))
        .collect();
    let early: Vec<&Gap<'_>> = promised.iter().copied().filter(|gap| gap.is_early()).collect();
    let dates = promised.iter().filter(|gap| gap.before.verdict.promised_by_date).count();
    let both = dates > 0 && dates < promised.len();
    Looked {
        wrong: wrong(
            format!(
                "{} of {} went below the promised wait ({}).",
                count(sum(&early)),
                many(sum(&promised), "retry"),
                share(sum(&early), sum(&promised))
            ),
            Rows::of_gaps(early.iter().copied()),
        ),
        right: format!(
            "{} kept to Retry-After, {} of them given as dates.",
            many(sum(&promised), "retry"),
            count(len(dates))
        ),
        cases: (Rows::of_gaps(promised.iter().copied()), if both { 2 } else { 0 }),
        unseen: "Not both forms of Retry-After were met by a retry: seconds and date.",
    }
}

/// Habit 3.
fn jitter(a: &Analysis<'_>) -> Looked {
    let free: Vec<&Gap<'_>> =
        a.gaps.iter().filter(|g| g.promised_ms().is_none() && !g.is_overlapping()).collect();
    let enough = behaviour::has_judged_habit(a);
    Looked {
        wrong: behaviour::zero_delay(a)
            .or_else(|| behaviour::fixed_delay(a))
            .or_else(|| behaviour::no_jitter(a)),
        right: format!(
            "{} without a promise are spread as jitter spreads them.",
            many(sum(&free), "retry")
        ),
        cases: (Rows::of_gaps(free.iter().copied()), i64::from(enough)),
        unseen: "Fewer than 10 retries of one caller that can be compared and had no promised wait.",
    }
}

/// Habit 5: attempts in flight at once, by caller.
fn concurrency(a: &Analysis<'_>) -> Looked {
    let refused: Rows =
        a.limited_attempts().filter(|s| s.verdict.limit_type == LimitType::Concurrency).collect();
    let timed: Vec<&StoredEvent> = a
        .attempts
        .iter()
        .copied()
        .filter(|s| s.event.count == 1 && s.event.duration_ms.is_some_and(|ms| ms > 0))
        .collect();
    let (most, times, below) = in_flight(&timed);
    // Without a ceiling the highest level is reached rarely; at one, callers crowd.
    let is_flat = most >= 2 && times >= 20 && times >= below;
    let rows: Rows = timed.into_iter().collect();
    Looked {
        wrong: wrong(
            format!(
                "{} for too many at once, with up to {} of one caller in flight.",
                many(refused.total, "refusal"),
                count(most)
            ),
            refused,
        ),
        right: format!(
            "Never more than {} of one caller in flight, a level that was reached {} times.",
            count(most),
            count(times)
        ),
        cases: (rows, i64::from(is_flat)),
        unseen: "No sign of a ceiling on attempts in flight, and no refusal for too many.",
    }
}

/// The most attempts of one caller in flight at once, how many sends reached that level, and how
/// many the one below.
fn in_flight(timed: &[&StoredEvent]) -> (i64, i64, i64) {
    let callers = group_by(timed.iter().map(|s| {
        let e = &s.event;
        ((e.service.as_str(), e.host.as_str(), e.instance.as_deref()), *s)
    }));
    let levels = callers.into_iter().map(|(_, attempts)| {
        let mut steps: Vec<(i64, i64)> = attempts
            .iter()
            .flat_map(|s| [(s.event.occurred_at.0, 1), (s.event.answered_at().0, -1)])
            .collect();
        // An end before a start at the same moment.
        steps.sort_unstable();
        let (mut now, mut reached) = (0_i64, BTreeMap::<i64, i64>::new());
        for (_, step) in steps {
            now += step;
            if step > 0 {
                *reached.entry(now).or_default() += 1;
            }
        }
        let (most, times) = reached.iter().next_back().map_or((0, 0), |(level, n)| (*level, *n));
        (most, times, reached.get(&(most - 1)).copied().unwrap_or_default())
    });
    levels.max().unwrap_or_default()
}

/// Habit 7: what the door had to replace.
fn secrets(a: &Analysis<'_>) -> Looked {
    let redacted: Vec<&StoredEvent> =
        a.attempts.iter().copied().filter(|s| s.event.redactions > 0).collect();
    let values: i64 = redacted.iter().map(|s| i64::from(s.event.redactions)).sum();
    let rows: Rows = a.attempts.iter().copied().collect();
    Looked {
        wrong: wrong(
            format!("{} that looked secret had to be replaced.", many(values, "value")),
            redacted.into_iter().collect(),
        ),
        right: format!("Nothing in {} looked secret.", many(rows.total, "attempt")),
        cases: (rows, 1),
        unseen: "No attempts.",
    }
}

fn cancellation(a: &Analysis<'_>) -> Looked {
    let rows: Rows = a
        .attempts
        .iter()
        .copied()
        .filter(|s| s.event.operation_id.is_some() && s.event.outcome == Some(Outcome::Cancelled))
        .collect();
    Looked {
        wrong: behaviour::after_cancelled(a),
        right: format!("Nothing was sent after {}.", many(rows.total, "cancellation")),
        cases: (rows, 1),
        unseen: "No operation reports the outcome `cancelled`.",
    }
}

fn outcomes(a: &Analysis<'_>) -> Looked {
    let rows: Rows = a
        .operations
        .iter()
        .map(Operation::last)
        .filter(|s| !is_served(s) && !matches!(s.event.outcome, None | Some(Outcome::Retrying)))
        .collect();
    Looked {
        wrong: behaviour::no_final_outcome(a),
        right: format!("{} report their final outcome.", many(rows.total, "failed operation")),
        cases: (rows, 1),
        unseen: "No operation that did not end well.",
    }
}

fn budget(a: &Analysis<'_>) -> Looked {
    let t = &a.totals;
    let rows: Rows = a.attempts.iter().copied().filter(|s| s.event.attempt > 1).collect();
    let enough = t.requests >= 50 && real(t.retries) <= behaviour::BUDGET * real(t.requests);
    Looked {
        wrong: behaviour::budget(a),
        right: format!(
            "{} for {} ({}).",
            many(t.retries, "retry"),
            many(t.requests, "request"),
            proportion(t.retries, t.requests)
        ),
        cases: (Rows { total: rows.total.max(1), ..rows }, i64::from(enough)),
        unseen: "Too few requests (50) or retries (20) to judge a share.",
    }
}
