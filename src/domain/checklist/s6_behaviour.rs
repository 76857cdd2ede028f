//! Step 6: how the client retries. Attempts per operation and layer, delays and jitter, retries
//! that can't help, writes that may be done twice, and what retries buy.
//!
//! Each finding is a function of its own over the attempts in order, so that the report card can
//! ask the same of one retry layer.

use super::operations::{
    Analysis, Gap, Operation, Rows, group_by, is_served, is_write, promised_ms, tally, weight,
    whereabouts,
};
use super::words::{
    count, factor, many, maybe_span, name, proportion, quotient, share, share_with_interval, span,
    verb,
};
use super::{Answer, AnswerState, Finding, NextAction, Step, Table};
use crate::domain::classify::{LimitType, Tri};
use crate::domain::event::{Outcome, RetryLayer, Vantage};
use crate::domain::joins::{Ladder, Links};
use crate::domain::retry_after::{self, Choice};
use crate::domain::stats::growth::{self, Growth, Volume};
use crate::domain::stats::jitter::{self, Spread, ZERO_MS};
use crate::domain::stats::quantile::Sorted;
use crate::domain::stats::ratio::Ratio;
use crate::domain::stats::{len, real, waves};
use crate::domain::stored::StoredEvent;
use crate::domain::time::{HOUR_MS, Millis};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Retries per request that a budget allows.
pub(super) const BUDGET: f64 = 0.10;
/// Requests and retries needed before the budget is judged.
const BUDGET_FLOOR: (i64, i64) = (50, 20);
/// Cases needed before a habit of waiting is claimed.
const HABIT_FLOOR: i64 = 5;
/// Attempts per operation from which sending is called amplified.
const AMPLIFIED_FROM: f64 = 2.0;
/// Attempts of one operation from which it alone is a finding: twice what anyone advises.
pub(super) const LONG_FROM: i64 = 10;
/// Statuses that a repeat does not change, unless a limit hides behind them.
const PERMANENT: [u16; 6] = [400, 401, 403, 404, 409, 422];

/// A finding that is looked for.
type Look = fn(&Analysis<'_>) -> Option<Finding>;

/// What is looked for, the most harmful first: the first that is found makes the headline.
const LOOKS: [Look; 25] = [
    double_layer,
    no_idempotency_key,
    changing_key,
    key_with_two_bodies,
    conflict_after_retry,
    retry_of_permanent,
    after_quota,
    zero_delay,
    clipped,
    fixed_delay,
    no_jitter,
    exact_retry_after,
    in_waves,
    budget,
    outgrown,
    amplified,
    after_cancelled,
    beyond_maximum,
    key_in_two_operations,
    hidden_retries,
    recorded_twice,
    exhausted,
    no_final_outcome,
    success_after_retry,
    effective_success,
];

/// Answers step 6.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    if a.facts.totals.attempts == 0 {
        return Answer::nothing_stored(Step::Behaviour);
    }
    let mut answer = Answer::new(Step::Behaviour, AnswerState::Clear, String::new());
    answer.findings = LOOKS.iter().filter_map(|look| look(a)).collect();
    let first = answer.findings.iter().find(|f| f.actionable);
    if let Some(first) = first {
        answer.state = AnswerState::Finding;
        answer.headline.clone_from(&first.text);
    }
    reporting(a, &mut answer);
    if answer.headline.is_empty() {
        answer.headline = if a.totals.retries == 0 {
            format!("No retry among {}.", many(a.totals.attempts, "attempt"))
        } else {
            quiet(a, &mut answer)
        };
    }
    answer.tables.push(volume(a));
    if let Some(table) = by_layer(a) {
        answer.tables.push(table);
    }
    answer
}

/// The headline where retries were sent and nothing was found wrong with them: it praises only
/// what could be judged.
fn quiet(a: &Analysis<'_>, answer: &mut Answer) -> String {
    let retries = if a.totals.requests > 0 {
        format!(
            "{} for {} ({})",
            many(a.totals.retries, "retry"),
            many(a.totals.requests, "request"),
            proportion(a.totals.retries, a.totals.requests)
        )
    } else {
        format!("{}, whose first attempts are not in the window", many(a.totals.retries, "retry"))
    };
    let judged = judged_waits(a).total;
    if judged >= len(jitter::MIN_DELAYS) {
        return format!("{retries}, and nothing wrong with them.");
    }
    if a.totals.retries < len(jitter::MIN_DELAYS) {
        return format!(
            "{retries}: too few to judge their waits, and nothing else wrong with them."
        );
    }
    answer.state = AnswerState::NeedsData;
    answer.next.push(NextAction::text(
        "Send `operation_id`, `attempt`, `duration_ms` and `computed_delay_ms` of every attempt, or \
         widen the window: waits are judged from 10 retries of one caller on.",
    ));
    format!("{retries}; their waits can't be judged, with too few alike to compare.")
}

/// What is missing in what was reported.
fn reporting(a: &Analysis<'_>, answer: &mut Answer) {
    let alone: Vec<&StoredEvent> = a
        .attempts
        .iter()
        .copied()
        .filter(|s| s.event.operation_id.is_none() && (s.event.attempt > 1 || s.verdict.limited))
        .collect();
    if !alone.is_empty() {
        let rows: Rows = alone.into_iter().collect();
        answer.findings.push(
            Finding::note(
                "ungrouped-attempts",
                format!(
                    "Retries and refusals without `operation_id`: {}. They can't be put together \
                     to operations, and are not guessed by time.",
                    count(rows.total)
                ),
            )
            .rows(rows.clone()),
        );
        answer.next.push(NextAction::text(
            "Send one `operation_id` for all attempts of one intent, and `attempt` from 1.",
        ));
        if a.operations.is_empty() && answer.state == AnswerState::Clear {
            answer.state = AnswerState::NeedsData;
            answer.headline = format!(
                "Retries can't be judged: {} of {} carry no `operation_id`.",
                count(a.ungrouped),
                many(a.held(), "attempt")
            );
        }
    }
    unnumbered(a, answer);
    let t = &a.totals;
    if t.attempts >= super::SHARE_FLOOR && t.succeeded == 0 {
        answer.findings.push(Finding::note(
            "only-failures-reported",
            format!(
                "Only failures were reported ({}): shares of success and of refusals have no \
                 denominator.",
                many(t.attempts, "attempt")
            ),
        ));
        answer.next.push(NextAction::text(
            "Report successes too; one event may stand for many with `count`.",
        ));
    }
    if t.retries > 0 && a.attempts.iter().all(|s| s.event.retry_layer.is_none()) {
        answer.next.push(NextAction::text(
            "Send `retry_layer` (app, sdk, http-client, gateway, queue) with retries, to see \
             whether two layers retry.",
        ));
    }
}

/// Operations of several attempts that all call themselves the first: nobody sends `attempt`, so
/// retries are counted as requests.
fn unnumbered(a: &Analysis<'_>, answer: &mut Answer) {
    let mut rows = Rows::default();
    let mut operations = 0_i64;
    for operation in a.operations.iter().filter(|operation| {
        operation.attempts.len() > 1
            && operation
                .attempts
                .iter()
                .all(|s| s.event.attempt == 1 && s.event.retry_layer.is_none())
    }) {
        operations += operation.weight();
        rows.extend(operation.attempts.iter().skip(1).copied());
    }
    if operations == 0 {
        return;
    }
    let text = format!(
        "{} {} several first attempts ({} beyond the first): send `attempt`, from 1 on. Until then \
         retries are counted as requests.",
        many(operations, "operation"),
        verb(operations, "has", "have"),
        count(rows.total)
    );
    if answer.state == AnswerState::Clear {
        answer.state = AnswerState::NeedsData;
        answer.headline.clone_from(&text);
    }
    answer.findings.push(Finding::note("several-first-attempts", text).rows(rows));
    answer.next.push(NextAction::text(
        "Number the attempts of one operation with `attempt`: 1 for the first, 2 for its retry.",
    ));
}

/// More than one layer re-sends in one operation: the factors multiply.
pub(super) fn double_layer(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let mut operations = 0_i64;
    let mut seen: BTreeMap<RetryLayer, i64> = BTreeMap::new();
    let mut longest = 0_i64;
    let mut hit: Vec<&Operation<'_>> = Vec::new();
    for operation in &a.operations {
        let factors = &operation.layer_factors;
        if factors.len() < 2 {
            continue;
        }
        operations += operation.weight();
        longest = longest.max(operation.size());
        for (layer, n) in factors {
            let most = seen.entry(*layer).or_default();
            *most = (*most).max(*n);
        }
        for s in operation.attempts.iter().skip(1) {
            rows.push(s);
        }
        hit.push(operation);
    }
    if hit.is_empty() {
        return None;
    }
    // A layer's own setting tells more than what happened to be seen, unless it stands for the
    // whole operation.
    let configured = |layer: RetryLayer| {
        hit.iter()
            .flat_map(|operation| operation.attempts.iter())
            .filter(|s| s.event.retry_layer == Some(layer))
            .filter_map(|s| s.event.attempts_max.map(i64::from))
            .max()
    };
    let settings: Vec<Option<i64>> = seen.keys().map(|layer| configured(*layer)).collect();
    let is_shared = settings.windows(2).all(|pair| pair[0] == pair[1])
        && settings.first().copied().flatten().is_some_and(|n| n >= longest);
    let mut layers: Vec<RetryLayer> = seen.keys().copied().collect();
    layers.sort_by_key(|layer| super::operations::depth(*layer));
    let factors: Vec<(RetryLayer, i64)> = layers
        .into_iter()
        .map(|layer| {
            let most = seen.get(&layer).copied().unwrap_or(1);
            let set = configured(layer).filter(|_| !is_shared).unwrap_or(most);
            (layer, most.max(set))
        })
        .collect();
    let product = factors.iter().fold(1_i64, |product, (_, n)| product.saturating_mul(*n));
    let formula: Vec<String> = factors.iter().map(|(layer, n)| format!("{layer} {n}")).collect();
    Some(
        Finding::new(
            "double-layer-retry",
            format!(
                "{} retry in the same operation: {} = up to {} for one intent.",
                layers_word(&factors),
                formula.join(" × "),
                many(product, "attempt")
            ),
        )
        .number("Factor", format!("{} = {}", formula.join(" × "), count(product)))
        .number("Operations with both", count(operations))
        .number("Most attempts seen in one", count(longest))
        .number("Where", whereabouts(hit.iter().flat_map(|o| o.attempts.iter().copied())))
        .rows(rows),
    )
}

fn layers_word(factors: &[(RetryLayer, i64)]) -> String {
    let names: Vec<String> = factors.iter().map(|(layer, _)| layer.to_string()).collect();
    let mut text = super::words::list(&names);
    if names.len() == 2 {
        text = format!("Both {text}");
    }
    text
}

/// POST or PATCH sent again without an idempotency key.
pub(super) fn no_idempotency_key(a: &Analysis<'_>) -> Option<Finding> {
    let hits: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .filter(|gap| is_write(gap.after) && gap.after.event.idempotency_key_hash.is_none())
        .collect();
    let safe: i64 = hits
        .iter()
        .filter(|gap| gap.before.verdict.reached_origin == Tri::No)
        .map(|g| g.weight)
        .sum();
    let rows = Rows::of_gaps(hits.iter().copied());
    (!rows.is_empty()).then(|| {
        Finding::new(
            "write-without-idempotency-key",
            format!(
                "{} without an idempotency key: the work may be done twice.",
                writes_sent_again(rows.total)
            ),
        )
        .number("After a refusal that never reached the origin (safe)", count(safe))
        .number("After an answer, or none, that leaves it open", count(rows.total - safe))
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

fn writes_sent_again(n: i64) -> String {
    if n == 1 {
        "1 POST or PATCH was sent again".to_owned()
    } else {
        format!("{} POST or PATCH attempts were sent again", count(n))
    }
}

/// Another idempotency key on each attempt.
pub(super) fn changing_key(a: &Analysis<'_>) -> Option<Finding> {
    let hits: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .filter(|gap| {
            let keys =
                (&gap.before.event.idempotency_key_hash, &gap.after.event.idempotency_key_hash);
            matches!(keys, (Some(x), Some(y)) if x != y)
        })
        .collect();
    let rows = Rows::of_gaps(hits.iter().copied());
    (!rows.is_empty()).then(|| {
        Finding::new(
            "idempotency-key-changes",
            format!(
                "{} came with another idempotency key than the attempt before: the server can't \
                 know that it is the same.",
                many(rows.total, "retry")
            ),
        )
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

/// One idempotency key with two bodies.
pub(super) fn key_with_two_bodies(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let mut keys = 0_i64;
    for attempts in a.by_idempotency_key() {
        let bodies: BTreeSet<&str> =
            attempts.iter().filter_map(|s| s.event.body_hash.as_deref()).collect();
        if bodies.len() > 1 {
            keys += 1;
            rows.extend(attempts.iter().copied());
        }
    }
    (keys > 0).then(|| {
        Finding::new(
            "idempotency-key-two-bodies",
            format!(
                "{} sent with different bodies: the server refuses it or answers with the result of \
                 the other.",
                if keys == 1 { "1 idempotency key was".to_owned() } else { format!("{} idempotency keys were", count(keys)) }
            ),
        )
        .rows(rows)
    })
}

/// One idempotency key in two operations.
pub(super) fn key_in_two_operations(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let mut keys = 0_i64;
    for attempts in a.by_idempotency_key() {
        let operations: BTreeSet<&str> =
            attempts.iter().filter_map(|s| s.event.operation_id.as_deref()).collect();
        if operations.len() > 1 {
            keys += 1;
            rows.extend(attempts.iter().copied());
        }
    }
    (keys > 0).then(|| {
        Finding::new(
            "idempotency-key-two-operations",
            format!(
                "{} in more than one operation: either a layer above repeats the operation, or \
                 unlike work shares a key.",
                if keys == 1 {
                    "1 idempotency key is".to_owned()
                } else {
                    format!("{} idempotency keys are", count(keys))
                }
            ),
        )
        .rows(rows)
    })
}

/// A 409 after a retry: the first attempt may have done the work.
pub(super) fn conflict_after_retry(a: &Analysis<'_>) -> Option<Finding> {
    let rows = Rows::of_gaps(a.gaps.iter().filter(|gap| is_possibly_done(gap)));
    (!rows.is_empty()).then(|| {
        Finding::new(
            "conflict-after-retry",
            format!(
                "{} answered 409 after an attempt that left it open: possibly already done. \
                 Reconcile before anyone sends it again.",
                if rows.total == 1 {
                    "1 retry was".to_owned()
                } else {
                    format!("{} retries were", count(rows.total))
                }
            ),
        )
        .rows(rows)
    })
}

fn is_possibly_done(gap: &Gap<'_>) -> bool {
    gap.after.event.status == Some(409)
        && !gap.after.verdict.limited
        && gap.before.event.status != Some(409)
        && gap.before.verdict.reached_origin != Tri::No
}

/// Retries of what a repeat does not change.
pub(super) fn retry_of_permanent(a: &Analysis<'_>) -> Option<Finding> {
    let hits: Vec<&Gap<'_>> = a.gaps.iter().filter(|gap| is_of_permanent(gap)).collect();
    let rows = Rows::of_gaps(hits.iter().copied());
    if rows.is_empty() {
        return None;
    }
    let statuses =
        tally(hits.iter().map(|g| (g.before.event.status.unwrap_or_default(), g.weight)));
    let listed: Vec<String> =
        statuses.iter().map(|(status, n)| format!("{status} ({})", count(*n))).collect();
    let served: i64 = hits.iter().filter(|g| is_served(g.after)).map(|g| g.weight).sum();
    Some(
        Finding::new(
            "retry-of-permanent",
            format!(
                "{} after an answer that a repeat does not change: {}.",
                many(rows.total, "retry"),
                listed.join(", ")
            ),
        )
        .number("Served at the repeat", count(served))
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows),
    )
}

/// A 401 that another answer follows is a renewed token, and no mistake.
fn is_of_permanent(gap: &Gap<'_>) -> bool {
    gap.before.event.status.is_some_and(|status| PERMANENT.contains(&status))
        && !gap.before.verdict.limited
        && (gap.before.event.status != Some(401) || gap.after.event.status == Some(401))
}

/// Retries while a quota is spent.
pub(super) fn after_quota(a: &Analysis<'_>) -> Option<Finding> {
    let hits: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .filter(|gap| {
            gap.before.verdict.limited
                && gap.before.verdict.limit_type == LimitType::Quota
                && gap.promised_ms().map_or(gap.real_ms < HOUR_MS, |_| gap.is_early())
        })
        .collect();
    // What was served shows that the quota was not spent, whatever the refusal said.
    let (served, hits): (Vec<&Gap<'_>>, Vec<&Gap<'_>>) =
        hits.into_iter().partition(|gap| is_served(gap.after));
    let served: i64 = served.iter().map(|gap| gap.weight).sum();
    let rows = Rows::of_gaps(hits.iter().copied());
    (rows.total > served).then(|| {
        let text = if served == 0 {
            format!(
                "{} while the quota was spent, and none was served: they can't succeed before it is \
                 renewed.",
                many(rows.total, "retry")
            )
        } else {
            format!(
                "{} of {} before the quota's renewal were not served.",
                count(rows.total),
                many(rows.total.saturating_add(served), "retry")
            )
        };
        Finding::new("retry-after-quota", text)
        .number("Served nonetheless", count(served))
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

/// The delay to judge: as chosen where it is known, else as it was.
fn delay(gap: &Gap<'_>) -> i64 {
    gap.chosen_ms().unwrap_or(gap.real_ms).max(0)
}

/// Retries at once.
pub(super) fn zero_delay(a: &Analysis<'_>) -> Option<Finding> {
    let judged: Vec<&Gap<'_>> =
        a.gaps.iter().filter(|gap| !gap.is_overlapping() && gap.promised_ms() != Some(0)).collect();
    // A token that is renewed or a connection that broke may be tried again at once, once.
    let hits: Vec<&&Gap<'_>> = judged
        .iter()
        .filter(|gap| gap.real_ms < ZERO_MS && gap.before.event.status.is_some())
        .collect();
    let rows = Rows::of_gaps(hits.iter().map(|gap| **gap));
    let total: i64 = judged.iter().map(|gap| gap.weight).sum();
    (rows.total >= HABIT_FLOOR && rows.total * 10 >= total).then(|| {
        Finding::new(
            "zero-delay",
            format!(
                "{} of {} were sent at once (within {}).",
                count(rows.total),
                many(total, "retry"),
                span(ZERO_MS)
            ),
        )
        .number("Share", share_with_interval(Ratio::new(rows.total, total)))
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

/// One client's own way of waiting: without a promise, or whatever was promised.
struct Habit<'a> {
    /// Gaps of one service, upstream and layer.
    gaps: Vec<&'a Gap<'a>>,
    /// Spread per attempt number, where there are enough, with the median.
    spreads: Vec<(Spread, i64)>,
}

fn habits<'a>(a: &'a Analysis<'_>) -> Vec<Habit<'a>> {
    let own = a.gaps.iter().zip(clipped_gaps(a)).filter(|(gap, is_clipped)| {
        !gap.is_overlapping()
            && match gap.promised_ms() {
                None | Some(0) => true,
                // The promise was ignored, so the wait is the client's own; a unit mistaken is not.
                Some(promised) => gap.is_early() && delay(gap) > promised / 500 && !**is_clipped,
            }
    });
    group_by(own.map(|(gap, _)| (caller(gap), gap)))
        .into_iter()
        .map(|(_, gaps)| {
            let mut numbers: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
            for gap in &gaps {
                numbers.entry(gap.before.event.attempt).or_default().push((delay(gap), 1));
            }
            let numbers: Vec<Sorted> = numbers.into_values().map(Sorted::new).collect();
            Habit { gaps, spreads: spreads(&numbers) }
        })
        .collect()
}

/// The spread and median of the delays of each attempt number. Where no number has enough of them
/// (few operations, many attempts), all are judged together: either they are the same whatever
/// the number, or each is set against the median of its own number.
fn spreads(numbers: &[Sorted]) -> Vec<(Spread, i64)> {
    let each: Vec<(Spread, i64)> =
        numbers.iter().filter_map(|s| Some((jitter::judge(s)?, s.median()?))).collect();
    if !each.is_empty() {
        return each;
    }
    let together = Sorted::new(numbers.iter().flat_map(Sorted::iter));
    if let Some((spread, median)) = jitter::judge(&together).zip(together.median())
        && matches!(spread, Spread::Zero | Spread::None)
    {
        return vec![(spread, median)];
    }
    // In thousandths of the median of the number; two alike say nothing about a spread.
    let comparable: Vec<(&Sorted, i64)> = numbers
        .iter()
        .filter(|s| s.len() > 2)
        .filter_map(|s| Some((s, s.median().filter(|median| *median > 0)?)))
        .collect();
    let relative = Sorted::new(comparable.iter().flat_map(|(delays, median)| {
        delays.iter().map(|(delay, n)| (delay.saturating_mul(1_000) / *median, n))
    }));
    let Some(spread) = jitter::judge(&relative) else { return Vec::new() };
    comparable.into_iter().map(|(_, median)| (spread, median)).collect()
}

/// The retries whose waits could be judged: those of a habit with a spread, and those that kept
/// to a promise.
pub(super) fn judged_waits(a: &Analysis<'_>) -> Rows {
    let mut rows = Rows::of_gaps(
        habits(a).iter().filter(|h| !h.spreads.is_empty()).flat_map(|h| h.gaps.iter().copied()),
    );
    for gap in a.gaps.iter().filter(|gap| {
        !gap.is_overlapping() && !gap.is_early() && gap.promised_ms().is_some_and(|ms| ms > 0)
    }) {
        rows.push_weighted(gap.after, gap.weight);
    }
    rows
}

impl Habit<'_> {
    fn worst(&self) -> Option<Spread> {
        self.spreads.iter().map(|(spread, _)| *spread).max()
    }

    /// Whether the median stays the same from attempt to attempt.
    fn is_level(&self) -> bool {
        let medians = || self.spreads.iter().map(|(_, median)| *median);
        let (low, high) =
            (medians().min().unwrap_or_default(), medians().max().unwrap_or_default());
        real(high - low) <= real(low.max(1)) * 0.05
    }
}

fn of_habits(
    a: &Analysis<'_>,
    id: &str,
    keep: impl Fn(&Habit<'_>) -> bool,
    word: impl Fn(i64, &str) -> String,
) -> Option<Finding> {
    let habits: Vec<Habit<'_>> = habits(a).into_iter().filter(|habit| keep(habit)).collect();
    let rows = Rows::of_gaps(habits.iter().flat_map(|habit| habit.gaps.iter().copied()));
    if rows.is_empty() {
        return None;
    }
    let first = habits.iter().max_by_key(|habit| habit.gaps.len())?;
    let mut medians: Vec<String> =
        first.spreads.iter().take(4).map(|(_, median)| span(*median)).collect();
    if first.spreads.len() > 4 {
        medians.push("…".to_owned());
    }
    let finding = Finding::new(id, word(rows.total, &medians.join(", ")))
        .number("Median by attempt", medians.join(", "))
        .number(
            "Where",
            whereabouts(habits.iter().flat_map(|h| h.gaps.iter().map(|gap| gap.after))),
        );
    Some(finding.rows(rows))
}

/// The same delay every time.
pub(super) fn fixed_delay(a: &Analysis<'_>) -> Option<Finding> {
    of_habits(
        a,
        "fixed-delay",
        |habit| habit.worst() == Some(Spread::None) && habit.is_level(),
        |n, medians| {
            let first = medians.split(", ").next().unwrap_or_default();
            format!("{} waited the same {first} every time.", many(n, "retry"))
        },
    )
}

/// Growing delays without jitter, or with too little to part clients.
pub(super) fn no_jitter(a: &Analysis<'_>) -> Option<Finding> {
    of_habits(
        a,
        "no-jitter",
        |habit| match habit.worst() {
            Some(Spread::None) => !habit.is_level(),
            Some(Spread::Little) => true,
            _ => false,
        },
        |n, medians| {
            format!(
                "{} waited nearly alike at each attempt ({medians}): no useful jitter.",
                many(n, "retry")
            )
        },
    )
}

/// Exactly `Retry-After`, without jitter on top.
pub(super) fn exact_retry_after(a: &Analysis<'_>) -> Option<Finding> {
    let kept = a.gaps.iter().filter(|gap| {
        let promised = gap.promised_ms().unwrap_or_default();
        promised > 0 && !gap.is_early() && delay(gap) >= promised.saturating_sub(gap.tolerance_ms())
    });
    let exact: Vec<&Gap<'_>> = group_by(kept.map(|gap| (caller(gap), gap)))
        .into_iter()
        .map(|(_, gaps)| gaps)
        .filter(|gaps| {
            let extra = Sorted::new(
                gaps.iter()
                    .map(|g| (delay(g).saturating_sub(g.promised_ms().unwrap_or_default()), 1)),
            );
            let promised =
                Sorted::new(gaps.iter().map(|g| (g.promised_ms().unwrap_or_default(), 1)));
            let slack = 100.max(promised.median().unwrap_or_default() / 20);
            extra.len() >= jitter::MIN_DELAYS
                && extra
                    .quantile(0.9)
                    .unwrap_or_default()
                    .saturating_sub(extra.quantile(0.1).unwrap_or_default())
                    <= slack
                && extra.median().unwrap_or_default() <= slack
        })
        .flatten()
        .collect();
    let rows = Rows::of_gaps(exact.iter().copied());
    (!rows.is_empty()).then(|| {
        let callers: BTreeSet<(&str, Option<&str>)> = exact
            .iter()
            .map(|g| (g.after.event.service.as_str(), g.after.event.instance.as_deref()))
            .collect();
        Finding::new(
            "exact-retry-after",
            format!(
                "{} waited exactly Retry-After without jitter: callers refused together come back \
                 together.",
                many(rows.total, "retry")
            ),
        )
        .number("Callers", callers.len().to_string())
        .number("Where", whereabouts(exact.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

/// Retries that come in waves although first attempts do not.
pub(super) fn in_waves(a: &Analysis<'_>) -> Option<Finding> {
    let mut hosts: BTreeMap<&str, (Vec<i64>, Vec<i64>)> = BTreeMap::new();
    for s in a.attempts.iter().filter(|s| s.event.count == 1) {
        let (firsts, retries) = hosts.entry(&s.event.host).or_default();
        let list = if s.event.attempt > 1 { retries } else { firsts };
        list.push(s.event.occurred_at.0);
    }
    let (host, found) = hosts
        .into_iter()
        .filter_map(|(host, (firsts, retries))| {
            let found = waves::find(&retries)?;
            let own = waves::find(&firsts).map_or(1.0, |waves| waves.dispersion);
            (found.dispersion >= 2.0 * own).then_some((host, found))
        })
        .max_by(|x, y| x.1.total.cmp(&y.1.total))?;
    Some(
        Finding::new(
            "retry-waves",
            format!(
                "Retries come in waves: {} peaks of up to {} a second hold {} of {}.",
                count(found.peaks),
                count(found.peak),
                super::words::percent(found.share),
                many(found.total, "retry")
            ),
        )
        .number("Upstream", name(host))
        .number("Variance against mean per second", factor(found.dispersion))
        .rows(
            a.attempts
                .iter()
                .copied()
                .filter(|s| s.event.attempt > 1 && s.event.count == 1 && s.event.host == host)
                .collect(),
        ),
    )
}

/// Delays that a local cap cuts below the promise.
pub(super) fn clipped(a: &Analysis<'_>) -> Option<Finding> {
    let hits: Vec<&Gap<'_>> = a
        .gaps
        .iter()
        .zip(clipped_gaps(a))
        .filter_map(|(gap, is_clipped)| is_clipped.then_some(gap))
        .collect();
    let rows = Rows::of_gaps(hits.iter().copied());
    (!rows.is_empty()).then(|| {
        let at = Sorted::new(hits.iter().filter_map(|g| Some((g.chosen_ms()?, g.weight))));
        let promised = Sorted::new(hits.iter().filter_map(|g| Some((g.promised_ms()?, g.weight))));
        Finding::new(
            "delay-clipped",
            format!(
                "A local cap near {} cut {} below the promised {} (median).",
                maybe_span(at.median()),
                many(rows.total, "wait"),
                maybe_span(promised.median())
            ),
        )
        .number("Where", whereabouts(hits.iter().map(|gap| gap.after)))
        .rows(rows)
    })
}

/// The gaps whose chosen wait is a cap and not the client's own backoff: the client says so, or it
/// honours promises below that cap.
fn clipped_gaps<'a>(a: &'a Analysis<'_>) -> &'a [bool] {
    a.clipped.get_or_init(|| find_clipped(a))
}

fn find_clipped(a: &Analysis<'_>) -> Vec<bool> {
    let mut is_clipped = vec![false; a.gaps.len()];
    let promised =
        a.gaps.iter().enumerate().filter_map(|(i, gap)| {
            Some((caller(gap), (i, gap, gap.promised_ms()?, gap.chosen_ms()?)))
        });
    for (_, group) in group_by(promised) {
        let is_short = |gap: &Gap<'_>, promised: i64, chosen: i64| {
            // A thousandth is another mistake, and no wait at all as well.
            chosen < promised.saturating_sub(gap.tolerance_ms())
                && chosen >= 500
                && chosen > promised / 500
        };
        let short: Vec<(usize, &Gap<'_>, i64)> = group
            .iter()
            .filter(|(_, gap, promised, chosen)| is_short(gap, *promised, *chosen))
            .map(|(i, gap, _, chosen)| (*i, *gap, *chosen))
            .collect();
        let Some((cap, n)) =
            tally(short.iter().map(|(_, gap, chosen)| (chosen / 100, gap.weight))).first().copied()
        else {
            continue;
        };
        // One look at the most frequent wait is enough: it is the cap, if there is one.
        let is_known = short
            .iter()
            .find(|(_, _, chosen)| chosen / 100 == cap)
            .is_some_and(|(_, gap, chosen)| is_known_cap(gap, *chosen));
        let honours_less = group.iter().any(|(_, gap, promised, chosen)| {
            *promised >= 1_000
                && *promised <= cap.saturating_add(1).saturating_mul(100)
                && *chosen >= promised.saturating_sub(gap.tolerance_ms())
        });
        let is_cap = is_known || (honours_less && n >= 3);
        for (i, gap, chosen) in short {
            is_clipped[i] = says_capped(gap) || (is_cap && (chosen / 100 - cap).abs() <= 1);
        }
    }
    is_clipped
}

/// Whose waits are judged together: one service, upstream and retry layer.
fn caller<'a>(gap: &Gap<'a>) -> (&'a str, &'a str, Option<RetryLayer>) {
    let e = &gap.after.event;
    (&e.service, &e.host, e.retry_layer)
}

/// Whether a wait is a ceiling that a published client library is known to have.
fn is_known_cap(gap: &Gap<'_>, chosen: i64) -> bool {
    let fields = super::s5_time::header_fields(gap.before);
    let reading = retry_after::read(&fields, Some(gap.before.event.answered_at()));
    retry_after::judge(&reading, Millis(chosen)).is_some_and(|j| j.choice == Choice::Capped)
}

/// Whether the client says that a wait was taken from `Retry-After` or cut.
fn says_capped(gap: &Gap<'_>) -> bool {
    gap.before.event.delay_source.as_deref().is_some_and(|word| {
        let word = word.to_ascii_lowercase();
        ["retry-after", "retry_after", "cap", "max", "clip"].iter().any(|part| word.contains(part))
    })
}

/// More retries than the budget allows.
pub(super) fn budget(a: &Analysis<'_>) -> Option<Finding> {
    let t = &a.totals;
    // So many retries are over the budget of as many requests as are needed to judge it.
    let has_enough = t.requests >= BUDGET_FLOOR.0 || t.requests > 0 && t.retries >= BUDGET_FLOOR.0;
    let is_over =
        has_enough && t.retries >= BUDGET_FLOOR.1 && real(t.retries) > BUDGET * real(t.requests);
    is_over.then(|| {
        Finding::new(
            "retry-budget",
            format!(
                "{} for {}: {}, where the budget is 10 %.",
                many(t.retries, "retry"),
                many(t.requests, "request"),
                proportion(t.retries, t.requests)
            ),
        )
        .number("Where", whereabouts(a.attempts.iter().copied().filter(|s| s.event.attempt > 1)))
        .rows(retries(a))
    })
}

fn retries(a: &Analysis<'_>) -> Rows {
    let mut rows: Rows = a.attempts.iter().copied().filter(|s| s.event.attempt > 1).collect();
    rows.total = rows.total.max(a.totals.retries);
    rows
}

/// Retries grow faster than requests.
fn outgrown(a: &Analysis<'_>) -> Option<Finding> {
    let volume = |requests, retries| Volume { requests, retries };
    let (b, t) = (&a.facts.before, &a.totals);
    let Growth::Outgrown { before, now } =
        growth::compare(volume(b.requests, b.retries), volume(t.requests, t.retries))
    else {
        return None;
    };
    Some(
        Finding::new(
            "retries-outgrow-requests",
            format!(
                "Retries per request rose to {} from {} in the stretch before.",
                super::words::percent(now),
                super::words::percent(before)
            ),
        )
        .number("Before", format!("{} (+{} retries)", count(b.requests), count(b.retries)))
        .number("Now", format!("{} (+{} retries)", count(t.requests), count(t.retries)))
        .rows(retries(a)),
    )
}

/// Many attempts for each operation.
fn amplified(a: &Analysis<'_>) -> Option<Finding> {
    let t = &a.totals;
    let per_operation = real(t.attempts) / real(t.requests.max(1));
    let is_amplified = t.requests >= super::SHARE_FLOOR && per_operation >= AMPLIFIED_FROM;
    let mut long = Rows::default();
    for operation in a.operations.iter().filter(|o| o.size() >= LONG_FROM) {
        long.push_weighted(operation.last(), operation.weight());
    }
    let sizes = Sorted::new(a.operations.iter().map(|o| (o.size(), o.weight())));
    (is_amplified || !long.is_empty()).then(|| {
        let mut text = String::new();
        if is_amplified {
            text = format!(
                "Each request is sent {} times on average ({} for {}).",
                factor(per_operation),
                many(t.attempts, "attempt"),
                many(t.requests, "request")
            );
        }
        if !long.is_empty() {
            let space = if text.is_empty() { "" } else { " " };
            text = format!(
                "{text}{space}{} took {LONG_FROM} attempts or more for one intent, up to {}.",
                many(long.total, "operation"),
                count(sizes.max().unwrap_or_default())
            );
        }
        Finding::new("amplification", text)
            .number(
                "Attempts per operation, p95",
                sizes.quantile(0.95).map_or_else(|| "no data".to_owned(), count),
            )
            .number(
                "Most in one operation",
                sizes.max().map_or_else(|| "no data".to_owned(), count),
            )
            .rows(retries(a))
    })
}

/// Attempts after the caller gave up.
pub(super) fn after_cancelled(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    for operation in &a.operations {
        let cancelled =
            operation.attempts.iter().position(|s| s.event.outcome == Some(Outcome::Cancelled));
        for s in operation.attempts.iter().skip(cancelled.map_or(usize::MAX, |at| at + 1)) {
            rows.push(s);
        }
    }
    (!rows.is_empty()).then(|| {
        Finding::new(
            "sent-after-cancelled",
            format!("{} sent after the caller had cancelled.", sent(rows.total)),
        )
        .rows(rows)
    })
}

fn sent(n: i64) -> String {
    if n == 1 { "1 attempt was".to_owned() } else { format!("{} attempts were", count(n)) }
}

/// Attempts beyond the client's own maximum, or after its deadline.
pub(super) fn beyond_maximum(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    for operation in &a.operations {
        let start = operation.first().event.occurred_at;
        let knows_start = operation.first().event.attempt == 1;
        // Where two layers retry, each has its own maximum, and attempts are numbered through.
        let has_one_layer = operation.layer_factors.len() < 2;
        for s in &operation.attempts {
            let e = &s.event;
            let too_many =
                has_one_layer && e.attempts_max.is_some_and(|max| max > 0 && e.attempt > max);
            let too_late = knows_start
                && e.deadline_ms.is_some_and(|ms| ms > 0 && e.occurred_at.since(start).0 > ms);
            if too_many || too_late {
                rows.push(s);
            }
        }
    }
    (!rows.is_empty()).then(|| {
        Finding::new(
            "beyond-own-limit",
            format!(
                "{} sent beyond the client's own `attempts_max` or after its `deadline_ms`.",
                sent(rows.total)
            ),
        )
        .rows(rows)
    })
}

/// Extra requests behind the client, made by a gateway, by its own account.
fn hidden_retries(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    let mut by: Vec<(String, i64)> = Vec::new();
    let (mut extra, mut told) = (0_i64, 0_i64);
    let mut of_operation: HashMap<(&str, &str), i64> = HashMap::new();
    for (attempt, ladder) in ladders(a) {
        let Some(resent) = ladder.resent() else { continue };
        let n = weight(attempt);
        if let Some(operation) = attempt.event.operation_id.as_deref() {
            *of_operation.entry((&attempt.event.service, operation)).or_default() +=
                i64::from(resent) + 1;
        }
        told = told.saturating_add(n);
        if resent == 0 {
            continue;
        }
        extra = extra.saturating_add(i64::from(resent).saturating_mul(n));
        rows.push(attempt);
        let hops = ladder.hops.iter().filter(|hop| hop.resent.is_some_and(|times| times > 0));
        by.extend(hops.map(|hop| (hop.name.clone(), n)));
    }
    (extra > 0).then(|| {
        let who: Vec<String> = tally(by).into_iter().take(3).map(|(name, _)| name).collect();
        let who: Vec<String> = who.iter().map(|hop| name(hop)).collect();
        let finding = Finding::new(
            "hidden-gateway-retries",
            format!(
                "{} sent {} more than the client did: a retry layer of its own (`gateway`) that the \
                 client doesn't see, and that multiplies with its retries.",
                super::words::list(&who),
                many(extra, "request")
            ),
        )
        .number("Attempts with a gateway's record that tells", count(told))
        .number(
            "Upstream requests for each of them",
            factor(real(told.saturating_add(extra)) / real(told)),
        );
        let most = of_operation.into_values().max();
        let finding = match most {
            Some(most) => finding.number("Most upstream requests for one operation", count(most)),
            None => finding,
        };
        finding.rows(rows)
    })
}

/// One id that the origin recorded twice, where no gateway's log tells why.
fn recorded_twice(a: &Analysis<'_>) -> Option<Finding> {
    let mut rows = Rows::default();
    for (attempt, ladder) in ladders(a) {
        let origin = ladder.hops.iter().find(|hop| hop.vantage == Vantage::Origin);
        if ladder.upstream_requests.is_none() && origin.is_some_and(|hop| hop.records.len() > 1) {
            rows.push(attempt);
        }
    }
    (!rows.is_empty()).then(|| {
        Finding::note(
            "recorded-twice",
            format!(
                "The origin has two records or more of {} under one id: a hop between sent them \
                 again, or copied them to a mirror. The gateway's own log tells which.",
                many(rows.total, "attempt")
            ),
        )
        .rows(rows)
    })
}

/// The attempts that others recorded, with their hops.
fn ladders<'a>(a: &Analysis<'a>) -> Vec<(&'a StoredEvent, Ladder<'a>)> {
    if a.observations.is_empty() {
        return Vec::new();
    }
    let links = Links::new(a.attempts.iter().copied(), a.observations.iter().copied());
    a.attempts
        .iter()
        .filter_map(|attempt| {
            let joined = links.find(attempt);
            let tells = !joined.records.is_empty();
            tells.then(|| (*attempt, Ladder::unjudged(attempt, &joined)))
        })
        .collect()
}

/// Operations that were given up.
fn exhausted(a: &Analysis<'_>) -> Option<Finding> {
    let n = a.totals.gave_up;
    (n > 0).then(|| {
        let gave_up = |s: &&StoredEvent| {
            matches!(
                s.event.outcome,
                Some(Outcome::Exhausted | Outcome::DeadlineExceeded | Outcome::DeadLettered)
            )
        };
        let mut rows: Rows = a.attempts.iter().copied().filter(gave_up).collect();
        rows.total = rows.total.max(n);
        let text = format!(
            "{} given up after the last attempt ({} of {}).",
            if n == 1 {
                "1 operation was".to_owned()
            } else {
                format!("{} operations were", count(n))
            },
            share(n, a.totals.requests.max(n)),
            many(a.totals.requests.max(n), "request")
        );
        let finding =
            if n >= 3 { Finding::new("exhausted", text) } else { Finding::note("exhausted", text) };
        finding.rows(rows)
    })
}

/// Operations that end without a word on how.
pub(super) fn no_final_outcome(a: &Analysis<'_>) -> Option<Finding> {
    // What was sent in the last ten minutes may still be going on.
    let settled = a.facts.now.0.min(a.facts.view.window.to.0).saturating_sub(600_000);
    let mut rows = Rows::default();
    let mut ended = 0_i64;
    for operation in &a.operations {
        let last = operation.last();
        let pause = promised_ms(last).or(last.event.computed_delay_ms).unwrap_or_default();
        if is_served(last) || last.event.answered_at().0.saturating_add(pause) > settled {
            continue;
        }
        ended += operation.weight();
        if matches!(last.event.outcome, None | Some(Outcome::Retrying)) {
            rows.push_weighted(last, operation.weight());
        }
    }
    (!rows.is_empty()).then(|| {
        Finding::note(
            "no-final-outcome",
            format!(
                "{} of {} that did not end well report no final `outcome`.",
                count(rows.total),
                many(ended, "operation")
            ),
        )
        .rows(rows)
    })
}

/// What retries buy.
fn success_after_retry(a: &Analysis<'_>) -> Option<Finding> {
    let t = &a.totals;
    (t.retried_operations > 0).then(|| {
        let good = t.retry_successes.min(t.retried_operations);
        Finding::note(
            "success-after-retry",
            format!(
                "{} of {} ended well after a retry ({}).",
                count(good),
                many(t.retried_operations, "retried operation"),
                share(good, t.retried_operations)
            ),
        )
        .number("Share", share_with_interval(Ratio::new(good, t.retried_operations)))
        .rows({
            let mut rows: Rows = a
                .attempts
                .iter()
                .copied()
                .filter(|s| s.event.attempt > 1 && is_served(s))
                .collect();
            rows.total = rows.total.max(good);
            rows
        })
    })
}

/// Success by operation beside success by attempt.
fn effective_success(a: &Analysis<'_>) -> Option<Finding> {
    let t = &a.totals;
    (t.requests > 0 && t.succeeded > 0).then(|| {
        let effective = share(t.succeeded, t.requests.max(t.succeeded));
        let actual = share(t.succeeded, t.attempts);
        Finding::note(
            "effective-success",
            format!("{effective} of operations succeed ({actual} of attempts)."),
        )
        .number("Effective (actual) success", format!("{effective} ({actual})"))
        .number("Volume", format!("{} (+{} retries)", count(t.requests), count(t.retries)))
    })
}

fn volume(a: &Analysis<'_>) -> Table {
    let t = &a.totals;
    let line = |label: &str, value: String| vec![label.to_owned(), value];
    let waited = Sorted::new(a.operations.iter().filter(|o| o.attempts.len() > 1).map(|o| {
        let waits = o
            .attempts
            .windows(2)
            .map(|pair| pair[1].event.occurred_at.since(pair[0].event.answered_at()).0.max(0));
        (waits.fold(0_i64, i64::saturating_add), o.weight())
    }));
    Table::new(
        "Retries in numbers",
        &["number", "value"],
        vec![
            line("Volume", format!("{} (+{} retries)", count(t.requests), count(t.retries))),
            line("Attempts per operation", quotient(t.attempts, t.requests)),
            line("Retry share (budget 10 %)", proportion(t.retries, t.requests)),
            line(
                "Success after retry",
                share(t.retry_successes.min(t.retried_operations), t.retried_operations),
            ),
            line("Given up", share(t.gave_up, t.requests.max(t.gave_up))),
            line("Accumulated wait per retried operation, p50", maybe_span(waited.median())),
            line("Accumulated wait per retried operation, p95", maybe_span(waited.quantile(0.95))),
            line("Attempts without operation_id", count(a.ungrouped)),
        ],
    )
}

fn by_layer(a: &Analysis<'_>) -> Option<Table> {
    let layers = tally(a.attempts.iter().map(|s| (s.event.retry_layer, weight(s))));
    if layers.iter().all(|(layer, _)| layer.is_none()) {
        return None;
    }
    let rows = layers
        .into_iter()
        .map(|(layer, n)| {
            let of = || a.attempts.iter().copied().filter(|s| s.event.retry_layer == layer);
            let retries: i64 = of().filter(|s| s.event.attempt > 1).map(weight).sum();
            let limited: i64 = of().filter(|s| s.verdict.limited).map(weight).sum();
            let most = a
                .operations
                .iter()
                .flat_map(|operation| &operation.layer_factors)
                .filter(|(l, _)| Some(*l) == layer)
                .map(|(_, n)| *n)
                .max();
            vec![
                layer.map_or_else(|| "not said".to_owned(), |layer| layer.to_string()),
                count(n),
                count(retries),
                count(limited),
                most.map_or_else(|| "no data".to_owned(), count),
            ]
        })
        .collect();
    Some(Table::new(
        "Attempts by retry layer",
        &["retry layer", "attempts", "retries", "limited", "most sends under one above"],
        rows,
    ))
}

/// Whether there are enough delays without a promise to judge their jitter.
pub(super) fn has_judged_habit(a: &Analysis<'_>) -> bool {
    habits(a).iter().any(|habit| !habit.spreads.is_empty())
}
