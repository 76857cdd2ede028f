//! Attempts put together: operations by their id, the waits between attempts, and who re-sent.
//!
//! Attempts without an `operation_id` stay alone: nothing is joined by time (DESIGN 14).

use super::words::{count, many};
use super::{Facts, MAX_ROWS};
use crate::domain::event::{Event, RetryLayer};
use crate::domain::retry_after::{self, Flag};
use crate::domain::stats::{len, waits};
use crate::domain::stored::{Counts, StoredEvent, VerdictSummary};
use crate::domain::time::UnixMillis;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::Hash;

/// The facts, put in order once for all steps. The same whatever the order of the facts was.
#[derive(Debug)]
pub struct Analysis<'a> {
    /// What it was made from.
    pub facts: &'a Facts,
    /// Attempts by time, then operation, number and id.
    pub attempts: Vec<&'a StoredEvent>,
    /// Operations with an id, by the time of their first attempt.
    pub operations: Vec<Operation<'a>>,
    /// Waits between attempts that follow each other in an operation.
    pub gaps: Vec<Gap<'a>>,
    /// What gateways and origins saw, in order.
    pub observations: Vec<&'a StoredEvent>,
    /// Attempts that no operation id groups, weighted.
    pub ungrouped: i64,
    /// Limited attempts among `attempts`, weighted.
    pub limited: i64,
    /// Counts over the window: exact for all, made from the attempts held for one retry layer.
    pub totals: Counts,
    /// Which of `gaps` a local cap cut; found by step 6 when it is first asked for.
    pub(super) clipped: OnceCell<Vec<bool>>,
    /// `attempts` by idempotency key; grouped when first asked for.
    by_key: OnceCell<Vec<Vec<&'a StoredEvent>>>,
}

/// All attempts that are known of one intent, in the order they were sent.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its attempts, at least one.
    pub attempts: Vec<&'a StoredEvent>,
    /// How many times each layer sent at most under one send of the layers around it, innermost
    /// first; only layers that re-sent. Three tries by an SDK under four by the application:
    /// `[(sdk, 3), (app, 4)]`.
    pub layer_factors: Vec<(RetryLayer, i64)>,
}

/// Two attempts of an operation, the second sent right after the first.
#[derive(Debug, Clone, Copy)]
pub struct Gap<'a> {
    /// The attempt that was answered.
    pub before: &'a StoredEvent,
    /// The attempt that was sent next.
    pub after: &'a StoredEvent,
    /// Next send less this answer; below 0 where the next went out before the answer.
    pub real_ms: i64,
    /// For how many alike it stands.
    pub weight: i64,
    /// The wait that the answer promised, where it can be trusted.
    promised: Option<i64>,
}

impl<'a> Analysis<'a> {
    /// Puts facts in order.
    pub fn new(facts: &'a Facts) -> Self {
        let mut attempts: Vec<&StoredEvent> =
            facts.attempts.iter().filter(|a| a.event.vantage == facts.source).collect();
        attempts.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut observations: Vec<&StoredEvent> = facts.observations.iter().collect();
        observations.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut index: HashMap<(&str, &str), usize> = HashMap::new();
        let mut operations: Vec<Operation<'_>> = Vec::new();
        let mut ungrouped = 0_i64;
        for attempt in &attempts {
            let Some(id) = attempt.event.operation_id.as_deref() else {
                ungrouped = ungrouped.saturating_add(weight(attempt));
                continue;
            };
            let at = *index.entry((&attempt.event.service, id)).or_insert_with(|| {
                operations.push(Operation { id, attempts: Vec::new(), layer_factors: Vec::new() });
                operations.len() - 1
            });
            operations[at].attempts.push(attempt);
        }
        for operation in &mut operations {
            put_in_order(&mut operation.attempts);
            operation.layer_factors = operation.find_layer_factors();
        }
        let gaps = operations.iter().flat_map(Operation::gaps).collect();
        let limited = attempts
            .iter()
            .filter(|a| a.verdict.limited)
            .fold(0_i64, |sum, a| sum.saturating_add(weight(a)));
        Self {
            facts,
            attempts,
            operations,
            gaps,
            observations,
            ungrouped,
            limited,
            totals: facts.totals,
            clipped: OnceCell::new(),
            by_key: OnceCell::new(),
        }
    }

    /// The limited attempts, in order.
    pub fn limited_attempts(&self) -> impl Iterator<Item = &'a StoredEvent> + '_ {
        self.attempts.iter().copied().filter(|a| a.verdict.limited)
    }

    /// The refusals that shares rest on: `404 refusals`, or `10,000 looked at of 28,600 refusals`
    /// where more are stored than are held one by one.
    pub fn refusals(&self) -> String {
        let all = many(self.totals.limited.max(self.limited), "refusal");
        if self.totals.limited > self.limited {
            format!("{} looked at of {all}", count(self.limited))
        } else {
            all
        }
    }

    /// The attempts by idempotency key, of one service and upstream each.
    pub fn by_idempotency_key(&self) -> &[Vec<&'a StoredEvent>] {
        self.by_key.get_or_init(|| {
            let keyed = self.attempts.iter().filter_map(|s| {
                let key = s.event.idempotency_key_hash.as_deref()?;
                Some(((key, s.event.service.as_str(), s.event.host.as_str()), *s))
            });
            group_by(keyed).into_iter().map(|(_, attempts)| attempts).collect()
        })
    }

    /// Sum of the weights of the attempts, as far as they are held.
    pub fn held(&self) -> i64 {
        self.attempts.iter().fold(0_i64, |sum, a| sum.saturating_add(weight(a)))
    }

    /// The same facts with only the operations that a layer re-sent at least once, for the report
    /// card by retry layer.
    #[must_use]
    pub fn of_layer(&self, layer: RetryLayer) -> Self {
        let of = |a: &StoredEvent| a.event.retry_layer == Some(layer);
        let operations: Vec<Operation<'a>> = self
            .operations
            .iter()
            .filter(|operation| operation.attempts.iter().any(|a| of(a)))
            .cloned()
            .collect();
        let gaps =
            operations.iter().flat_map(Operation::gaps).filter(|gap| of(gap.after)).collect();
        let mut attempts: Vec<&'a StoredEvent> = operations
            .iter()
            .flat_map(|operation| operation.attempts.iter().copied())
            .chain(
                self.attempts.iter().copied().filter(|a| a.event.operation_id.is_none() && of(a)),
            )
            .collect();
        attempts.sort_by(|a, b| order(a).cmp(&order(b)));
        let limited = attempts.iter().filter(|a| a.verdict.limited).map(|a| weight(a)).sum();
        let mut totals = Counts::default();
        for attempt in &attempts {
            totals.add(&Counts::seen(&attempt.event, &attempt.verdict));
        }
        Self {
            facts: self.facts,
            attempts,
            operations,
            gaps,
            observations: Vec::new(),
            ungrouped: 0,
            limited,
            totals,
            clipped: OnceCell::new(),
            by_key: OnceCell::new(),
        }
    }
}

impl<'a> Operation<'a> {
    /// The first attempt that is known.
    pub fn first(&self) -> &'a StoredEvent {
        self.attempts[0]
    }

    /// The last attempt that is known.
    pub fn last(&self) -> &'a StoredEvent {
        self.attempts[self.attempts.len() - 1]
    }

    /// For how many alike it stands.
    pub fn weight(&self) -> i64 {
        weight(self.first())
    }

    /// Whether its last attempt was served.
    pub fn ended_well(&self) -> bool {
        is_served(self.last())
    }

    /// How many attempts it had: those that are known, or more where the numbers say so.
    pub fn size(&self) -> i64 {
        let highest = self.attempts.iter().map(|a| i64::from(a.event.attempt)).max();
        len(self.attempts.len()).max(highest.unwrap_or_default())
    }

    /// From the first send to the last answer.
    pub fn length_ms(&self) -> i64 {
        let end = self.attempts.iter().map(|a| a.event.answered_at()).max();
        end.unwrap_or_default().since(self.first().event.occurred_at).0
    }

    /// Waits between attempts whose numbers follow each other, or where a layer above started the
    /// numbers anew.
    fn gaps(&self) -> Vec<Gap<'a>> {
        self.attempts
            .windows(2)
            .filter(|pair| {
                let (a, b) = (pair[0].event.attempt, pair[1].event.attempt);
                a.checked_add(1) == Some(b) || b == 1
            })
            .map(|pair| Gap::new(pair[0], pair[1]))
            .collect()
    }

    /// Its layers with their factors; see the field of that name.
    fn find_layer_factors(&self) -> Vec<(RetryLayer, i64)> {
        let resends = self.resends();
        let mut layers: Vec<RetryLayer> = resends.clone();
        layers.sort_by_key(|layer| depth(*layer));
        layers.dedup();
        layers
            .into_iter()
            .map(|layer| {
                let (mut run, mut most) = (0_i64, 0_i64);
                for by in &resends {
                    if *by == layer {
                        run += 1;
                        most = most.max(run);
                    } else if depth(*by) > depth(layer) {
                        run = 0;
                    }
                }
                (layer, most + 1)
            })
            .collect()
    }

    /// Who re-sent each attempt after the first, where it is known. An attempt numbered 1 after
    /// others was started anew by a layer above the one that counts: the application, unless it
    /// says otherwise.
    fn resends(&self) -> Vec<RetryLayer> {
        self.attempts
            .windows(2)
            .filter_map(|pair| {
                let by = pair[1].event.retry_layer;
                let is_anew = pair[1].event.attempt == 1;
                let counted = pair[0].event.retry_layer;
                if is_anew && (by.is_none() || by == counted) && counted.is_some() {
                    return Some(RetryLayer::App);
                }
                by
            })
            .collect()
    }
}

/// How far out a retry layer stands: the innermost sends most often.
pub(super) const fn depth(layer: RetryLayer) -> u8 {
    match layer {
        RetryLayer::Gateway => 0,
        RetryLayer::HttpClient => 1,
        RetryLayer::Sdk => 2,
        RetryLayer::App => 3,
        RetryLayer::Queue => 4,
    }
}

/// Milliseconds by which a wait may fall short before it is early.
const EARLY_MS: i64 = 100;
/// One second more where the promise was a date, which is cut to seconds.
const EARLY_DATE_MS: i64 = 1_000;

impl<'a> Gap<'a> {
    /// The wait between two attempts, the second of which followed the first.
    pub fn new(before: &'a StoredEvent, after: &'a StoredEvent) -> Self {
        Self {
            before,
            after,
            real_ms: after.event.occurred_at.since(before.event.answered_at()).0,
            weight: weight(before).min(weight(after)),
            promised: promised_ms(before),
        }
    }

    /// The wait that the answer promised; none where its value is no believable wait, see
    /// [`promised_ms`].
    pub const fn promised_ms(&self) -> Option<i64> {
        self.promised
    }

    /// The wait that the client chose.
    pub const fn chosen_ms(&self) -> Option<i64> {
        self.before.event.computed_delay_ms
    }

    /// How far below the promise still counts as kept, see [`tolerance_ms`].
    pub fn tolerance_ms(&self) -> i64 {
        let promised = self.promised_ms().unwrap_or_default();
        tolerance_ms(promised, self.before.verdict.promised_by_date)
    }

    /// Whether the next attempt, by its number, carries an earlier time than this one: the clocks
    /// disagree, and the wait is not real.
    pub fn is_clock_step(&self) -> bool {
        self.after.event.occurred_at < self.before.event.occurred_at
    }

    /// Whether the next attempt was sent before the promised time. A hedge could not know the
    /// promise and is none; neither is a wait between clocks that disagree.
    pub fn is_early(&self) -> bool {
        !self.is_hedge()
            && !self.is_clock_step()
            && self
                .promised_ms()
                .is_some_and(|promised| self.real_ms < promised.saturating_sub(self.tolerance_ms()))
    }

    /// Whether the next attempt was sent after the promised time, rounding of dates included.
    pub fn is_after_promise(&self) -> bool {
        let date = if self.before.verdict.promised_by_date { EARLY_DATE_MS } else { 0 };
        self.promised_ms().is_some_and(|promised| self.real_ms >= promised.saturating_add(date))
    }

    /// Whether the next attempt went out before this one was answered, going by the times sent.
    pub const fn is_overlapping(&self) -> bool {
        self.real_ms < -50
    }

    /// Whether the next attempt was sent on purpose without waiting for this answer: later than
    /// this one, before its answer, and without a wait chosen for it. Two attempts with one and
    /// the same time are a retry at once, or times that are not each attempt's own.
    pub fn is_hedge(&self) -> bool {
        self.is_overlapping()
            && self.after.event.occurred_at > self.before.event.occurred_at
            && self.chosen_ms().is_none()
    }
}

/// Puts the attempts of one operation, which come by time, in the order they were sent: by number
/// where each number occurs once (clocks of one caller may jump), else as they come.
pub fn put_in_order(attempts: &mut [&StoredEvent]) {
    let mut numbers: Vec<u32> = attempts.iter().map(|a| a.event.attempt).collect();
    numbers.sort_unstable();
    if numbers.windows(2).all(|pair| pair[0] != pair[1]) {
        attempts.sort_by_key(|a| a.event.attempt);
    }
}

/// The order of attempts that does not depend on how they were handed over.
fn order(attempt: &StoredEvent) -> (UnixMillis, &str, u32, &str, &str) {
    let event = &attempt.event;
    (
        event.occurred_at,
        event.operation_id.as_deref().unwrap_or_default(),
        event.attempt,
        &event.event_id,
        &event.service,
    )
}

/// For how many attempts an event stands.
pub fn weight(attempt: &StoredEvent) -> i64 {
    i64::from(attempt.event.count)
}

/// Waits from here on are read anew, in seconds: a thousandth of less is no wait that a limiter
/// asks for.
const DOUBTED_FROM_S: u64 = 1_000;

/// What makes the value of `Retry-After` no believable wait: a moment since 1970 or milliseconds
/// where seconds are due, or a number that makes no sense.
pub fn doubt(s: &StoredEvent) -> Option<Flag> {
    doubt_of(&s.event)
}

fn doubt_of(event: &Event) -> Option<Flag> {
    let raw = super::s5_time::field_of(event)?.trim();
    // A date is never doubted, and whatever else is not digits promises nothing.
    let is_digits = raw.bytes().all(|b| b.is_ascii_digit());
    if !is_digits || raw.parse::<u64>().is_ok_and(|seconds| seconds < DOUBTED_FROM_S) {
        return None;
    }
    let reading =
        retry_after::read(&super::s5_time::header_fields_of(event), Some(event.answered_at()));
    [
        Flag::EpochS,
        Flag::EpochMs,
        Flag::MsSuspect,
        Flag::CalendarInt,
        Flag::Implausible,
        Flag::Overflow,
    ]
    .into_iter()
    .find(|flag| reading.has(*flag))
}

/// The wait that an answer promised; none where its value is no believable wait.
pub fn promised_ms(s: &StoredEvent) -> Option<i64> {
    believable_ms(&s.event, &s.verdict)
}

/// As [`promised_ms`], of an event that isn't stored yet.
pub fn believable_ms(event: &Event, verdict: &VerdictSummary) -> Option<i64> {
    verdict.promised_ms.filter(|_| doubt_of(event).is_none())
}

/// How far below a promise still counts as kept: 100 ms or 2 %, whichever is more, and one second
/// more for a date (DESIGN 14).
pub fn tolerance_ms(promised: i64, by_date: bool) -> i64 {
    let date = if by_date { EARLY_DATE_MS } else { 0 };
    EARLY_MS.max(promised / 50).saturating_add(date)
}

/// The bucket of [`waits`] that a refusal counts in.
pub fn promise_bucket(s: &StoredEvent) -> i64 {
    match promised_ms(s) {
        Some(ms) => waits::bucket(ms),
        None if super::s5_time::field(s).is_none() => waits::MISSING,
        None => waits::UNUSABLE,
    }
}

/// Whether an attempt was served: a status below 400 that no limit hides behind.
pub fn is_served(attempt: &StoredEvent) -> bool {
    attempt.event.is_success() && !attempt.verdict.limited
}

/// Whether an attempt writes without being safe to repeat by its method (RFC 9110 section 9.2.2).
pub fn is_write(attempt: &StoredEvent) -> bool {
    matches!(attempt.event.method.as_deref(), Some("POST" | "PATCH"))
}

/// The rows of a finding and for how many attempts they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// At most [`MAX_ROWS`] references.
    pub refs: Vec<(String, UnixMillis)>,
    /// Weighted total.
    pub total: i64,
}

impl Rows {
    /// Adds one attempt.
    pub fn push(&mut self, attempt: &StoredEvent) {
        self.push_weighted(attempt, weight(attempt));
    }

    /// The later attempts of gaps.
    pub fn of_gaps<'a>(gaps: impl IntoIterator<Item = &'a Gap<'a>>) -> Self {
        let mut rows = Self::default();
        for gap in gaps {
            rows.push_weighted(gap.after, gap.weight);
        }
        rows
    }

    /// Adds the rows of another finding.
    pub fn add(&mut self, more: &Self) {
        let room = MAX_ROWS.saturating_sub(self.refs.len());
        self.refs.extend(more.refs.iter().take(room).cloned());
        self.total = self.total.saturating_add(more.total);
    }

    /// Adds one attempt that stands for `weight`.
    pub fn push_weighted(&mut self, attempt: &StoredEvent, weight: i64) {
        if self.refs.len() < MAX_ROWS {
            self.refs.push((attempt.event.event_id.clone(), attempt.event.occurred_at));
        }
        self.total = self.total.saturating_add(weight);
    }

    /// Whether nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }
}

impl<'a> Extend<&'a StoredEvent> for Rows {
    fn extend<T: IntoIterator<Item = &'a StoredEvent>>(&mut self, attempts: T) {
        for attempt in attempts {
            self.push(attempt);
        }
    }
}

impl<'a> FromIterator<&'a StoredEvent> for Rows {
    fn from_iter<T: IntoIterator<Item = &'a StoredEvent>>(attempts: T) -> Self {
        let mut rows = Self::default();
        rows.extend(attempts);
        rows
    }
}

/// Sums weights by a key, largest first, then by key.
pub fn tally<K: Ord + Hash>(items: impl IntoIterator<Item = (K, i64)>) -> Vec<(K, i64)> {
    // Neighbours often have the same key, and comparing is far cheaper than hashing.
    let mut sums: HashMap<K, i64> = HashMap::new();
    let mut run: Option<(K, i64)> = None;
    let mut add = |(key, weight): (K, i64)| {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(weight);
    };
    for (key, weight) in items {
        match &mut run {
            Some((last, sum)) if *last == key => *sum = sum.saturating_add(weight),
            _ => {
                if let Some(done) = run.replace((key, weight)) {
                    add(done);
                }
            }
        }
    }
    if let Some(done) = run {
        add(done);
    }
    let mut sums: Vec<(K, i64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// Puts items together by a key, in the order in which each key first came.
pub fn group_by<K: Eq + Hash + Copy, V>(
    items: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut index: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut last: Option<(K, usize)> = None;
    for (key, value) in items {
        let at = match last {
            Some((same, at)) if same == key => at,
            _ => *index.entry(key).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            }),
        };
        last = Some((key, at));
        groups[at].1.push(value);
    }
    groups
}

/// Most limited, served and failed attempts for which records of gateways and origins are looked up.
const JOINED: [usize; 3] = [1_500, 500, 300];
/// Most records that one look-up returns; as many or more may mean that some are missing.
pub const MAX_RECORDS: usize = 2_000;

/// The attempts for which records are looked up by id: the newest limited ones; since absence means
/// something only in a record that holds what was served, the newest served ones; and the newest that
/// failed, which a limit may be behind. Only these can be said to be seen or not.
pub fn joined_attempts<'a>(
    attempts: impl IntoIterator<Item = &'a StoredEvent>,
) -> Vec<&'a StoredEvent> {
    let has_id = |a: &StoredEvent| {
        a.event.request_id.is_some() || a.event.ray_id.is_some() || a.event.trace_id.is_some()
    };
    let mut lists: [Vec<&StoredEvent>; 3] = Default::default();
    for attempt in attempts {
        let [limited, served, failed] = &mut lists;
        if attempt.verdict.limited {
            limited.push(attempt);
        } else if has_id(attempt) {
            if is_served(attempt) { served } else { failed }.push(attempt);
        }
    }
    let mut chosen = Vec::new();
    for (mut list, most) in lists.into_iter().zip(JOINED) {
        list.sort_by(|a, b| order(b).cmp(&order(a)));
        list.truncate(most);
        chosen.append(&mut list);
    }
    chosen
}

/// Which services and retry layers attempts come from, most frequent first: `checkout (sdk) 12`.
pub fn whereabouts<'a>(attempts: impl IntoIterator<Item = &'a StoredEvent>) -> String {
    let sums = tally(
        attempts.into_iter().map(|a| ((a.event.service.as_str(), a.event.retry_layer), weight(a))),
    );
    let more = sums.len().saturating_sub(3);
    let mut parts: Vec<String> = sums
        .into_iter()
        .take(3)
        .map(|((service, layer), n)| {
            let layer = layer.map_or(String::new(), |layer| format!(" ({layer})"));
            format!("{}{layer} {}", super::words::name(service), super::words::count(n))
        })
        .collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}
