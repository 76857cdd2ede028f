//! The task that makes events of spans, once it is known which operation they belong to.
//!
//! All it needs is in the database, so that any replica can go on where another stopped. Events
//! carry the ids of their spans: where a process dies after it stored events and before it noted
//! that, the next one stores them again, which changes nothing.

use super::{Intake, IntakeError};
use crate::clock::Clock;
use crate::domain::sources::Input;
use crate::domain::spans::{Operation, Role, Span, SpanKey, emit, reconstruct, settling};
use crate::domain::time::{Millis, UnixMillis};
use crate::metrics::Operation as StoreOperation;
use crate::store::{HeldSpan, Hood, SpanMark, Store, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How late exporters are: their batch delay, 5 s by default, and one resend. Spans that arrive
/// later are taken too, and marked.
pub const GRACE: Millis = Millis(10_000);
/// How long settled spans are kept, so that late ones find their operation.
pub const KEPT: Millis = Millis(1_800_000);
/// How often it is looked for what is due, where nothing was the last time.
const LOOK: Duration = Duration::from_secs(1);
/// After a pass that settled something the store is left alone for this part of the time it took.
const REST: u32 = 4;
/// How often it is looked for what may be removed.
const TIDY: Millis = Millis(10_000);
/// Neighbourhoods that are settled in one go.
const HOODS: i64 = 64;
/// Events after which a pass ends, so that a stop is never far: what is left is due in the next.
const ENOUGH: usize = 20_000;
/// Spans of one neighbourhood that are looked at together: open ones, and settled ones near them.
const OPEN: i64 = 20_000;
const SETTLED: i64 = 5_000;
/// How much earlier than the open ones settled spans may have begun, in microseconds.
const NEAR_US: i64 = 120_000_000;
/// How far up from attempts parents are read.
const LEVELS: usize = 6;
/// Spans of traces that are read to see whether a call of an SDK has attempts.
const OF_TRACES: i64 = 20_000;
/// Events that are handed to the intake at once.
const BATCH: usize = 1_000;
/// Spans that are removed in one go.
const REMOVED: i64 = 10_000;

/// Settles operations.
#[derive(Debug)]
pub struct Settler {
    store: Store,
    intake: Intake,
    grace: Millis,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The database refused or can't be reached.
    #[error("spans could not be read or marked")]
    Store(#[from] StoreError),
    /// The queue has no room, or the service is stopping.
    #[error("the events of spans could not be stored")]
    Intake(#[from] IntakeError),
}

/// When a span that arrives at `now` may first be settled.
pub const fn first_due(now: UnixMillis) -> UnixMillis {
    now.plus(Millis(GRACE.0 / 2))
}

/// When the last of those spans of a trace that wait is settled, where nothing more of their
/// operations arrives; `None` where none waits. `held` are all spans of the trace: an operation that
/// goes on in other traces may take longer.
pub fn settled_at(held: &[HeldSpan]) -> Option<UnixMillis> {
    let arrived: HashMap<SpanKey, UnixMillis> =
        held.iter().map(|held| (held.span.key, held.received_at)).collect();
    let context: BTreeMap<SpanKey, &Span> =
        held.iter().map(|held| (held.span.key, &held.span)).collect();
    let mut hoods: BTreeMap<Hood, Vec<&HeldSpan>> = BTreeMap::new();
    for one in held {
        if let Some(hood) = Hood::of(&one.span) {
            hoods.entry(hood).or_default().push(one);
        }
    }
    let came = |key: SpanKey| arrived.get(&key).copied();
    let waits = |one: &HeldSpan| one.operation_id.is_none();
    let mut last = None;
    for (hood, of) in hoods {
        if hood.is_servers() {
            let open = of.iter().filter(|one| waits(one));
            last = last.max(open.map(|one| first_due(one.received_at)).max());
            continue;
        }
        let spans: Vec<Span> = of.iter().map(|one| one.span.clone()).collect();
        for operation in reconstruct(&spans, &context, &BTreeMap::new()) {
            let mut all = operation.attempts.iter().flat_map(|attempt| &attempt.spans);
            if all.any(|n| waits(of[*n])) {
                let found = settling::news_and_wait(&operation, &spans, came, GRACE);
                last = last.max(found.map(|(newest, wait)| newest.plus(wait)));
            }
        }
    }
    last
}

impl Settler {
    /// Hands what is settled to `intake`.
    pub fn new(store: Store, intake: Intake) -> Self {
        Self { store, intake, grace: GRACE }
    }

    /// Settles what is due, while this replica has the seat, until `end` is cancelled. Errors are
    /// logged, and what is due is tried again.
    pub async fn run(self, clock: Arc<dyn Clock>, end: CancellationToken) {
        let mut seat = self.store.settling_seat();
        let (mut rest, mut tidied_at) = (LOOK, UnixMillis(i64::MIN));
        loop {
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = end.cancelled() => break,
            }
            rest = LOOK;
            let has_seat = seat.take().await.unwrap_or_else(|error| {
                self.failed(&error, "who settles operations can't be told; trying again");
                false
            });
            if !has_seat {
                continue;
            }
            let (now, begun) = (clock.now(), Instant::now());
            match self.pass(now).await {
                Ok((_, false)) => {}
                Ok((_, true)) => rest = begun.elapsed() / REST,
                Err(error) => {
                    self.failed(&error, "operations could not be settled; trying again");
                }
            }
            if now.since(tidied_at).0 >= TIDY.0 {
                match self.tidy(now).await {
                    Ok(true) => {}
                    Ok(false) => tidied_at = now,
                    Err(error) => {
                        tidied_at = now;
                        self.failed(&error, "old spans could not be removed; trying again");
                    }
                }
            }
        }
        seat.leave().await;
    }

    /// Removes what was kept long enough, a bounded part of it; whether there is more.
    async fn tidy(&self, now: UnixMillis) -> Result<bool, StoreError> {
        let spans = self.store.remove_spans(now.plus(Millis(-KEPT.0)), REMOVED).await?;
        let counts = self.store.tidy_volumes(now, REMOVED).await?;
        let limit = usize::try_from(REMOVED).unwrap_or(usize::MAX);
        Ok(spans >= limit || counts >= limit)
    }

    fn failed(&self, error: &(dyn std::error::Error + 'static), what: &str) {
        self.intake.metrics().store_failed(StoreOperation::Read);
        tracing::warn!(error, "{what}");
    }

    /// Settles what is due at `now`, a bounded part of it; how many events came of it.
    ///
    /// # Errors
    /// Where the store or the queue fails. What was settled before stays; the rest is due again.
    pub async fn settle(&self, now: UnixMillis) -> Result<usize, SettleError> {
        Ok(self.pass(now).await?.0)
    }

    /// How many events came of what is due, and whether more may be due already.
    async fn pass(&self, now: UnixMillis) -> Result<(usize, bool), SettleError> {
        let hoods = self.store.due_hoods(now, HOODS).await?;
        let is_cut = i64::try_from(hoods.len()).is_ok_and(|n| n == HOODS);
        let (mut events, mut failed) = (0, None);
        for hood in hoods {
            let settled = if hood.is_servers() {
                self.settle_servers(&hood).await
            } else {
                self.settle_hood(&hood, now).await
            };
            match settled {
                Ok(count) => events += count,
                // What is wrong with one neighbourhood doesn't hold up the others.
                Err(SettleError::Store(error)) if !error.is_passing() => failed = Some(error),
                Err(error) => return Err(error),
            }
            if events >= ENOUGH {
                break;
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok((events, is_cut || events > 0)),
        }
    }

    /// What servers saw needs nothing beside it but, where a server doesn't say by which name it was
    /// called, the span of who called it.
    async fn settle_servers(&self, hood: &Hood) -> Result<usize, SettleError> {
        let open = self.store.open_spans(hood, OPEN).await?;
        let is_unnamed =
            |span: &Span| span.attempt.as_ref().is_some_and(|a| a.is_named_after_service);
        let above = |span: &Span| Some(SpanKey { trace: span.key.trace, span: span.parent? });
        let mut wanted: Vec<SpanKey> = open
            .iter()
            .filter(|held| is_unnamed(&held.span))
            .filter_map(|held| above(&held.span))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let callers = self.store.spans_with_keys(&wanted).await?;
        let callers: HashMap<SpanKey, &Span> =
            callers.iter().map(|held| (held.span.key, &held.span)).collect();
        let caller = |span: &Span| above(span).and_then(|key| callers.get(&key).copied());
        let events: Vec<_> = open
            .iter()
            .filter_map(|held| emit::server_event(&held.span, caller(&held.span)))
            .collect();
        let marks: Vec<_> =
            open.iter().map(|held| (held.span.key, SpanMark::Settled(String::new()))).collect();
        self.emit(events, marks).await
    }

    async fn settle_hood(&self, hood: &Hood, now: UnixMillis) -> Result<usize, SettleError> {
        let mut held = self.store.open_spans(hood, OPEN).await?;
        let is_cut = i64::try_from(held.len()).is_ok_and(|n| n == OPEN);
        let starts = || held.iter().map(|held| held.span.start_us);
        let (Some(first), Some(last)) = (starts().min(), starts().max()) else { return Ok(0) };
        let near = first.saturating_sub(NEAR_US);
        let settled = self.store.settled_spans(hood, near, last, SETTLED).await?;
        held.extend(settled);
        let around = self.around(&held).await?;
        let context: BTreeMap<SpanKey, &Span> =
            around.iter().map(|held| (held.span.key, &held.span)).collect();
        let arrived: HashMap<SpanKey, UnixMillis> =
            around.iter().chain(&held).map(|held| (held.span.key, held.received_at)).collect();
        let spans: Vec<Span> = held.iter().map(|held| held.span.clone()).collect();
        let (mut events, mut marks) = (Vec::new(), Vec::new());
        let traces = held
            .iter()
            .filter(|held| held.operation_id.is_none())
            .map(|held| held.span.key.trace)
            .collect();
        let logged = self.store.logged_waits(&traces).await?;
        for operation in reconstruct(&spans, &context, &logged) {
            let of: Vec<usize> =
                operation.attempts.iter().flat_map(|attempt| attempt.spans.clone()).collect();
            if of.iter().all(|n| held[*n].operation_id.is_some()) {
                continue;
            }
            let open = of.iter().copied().filter(|n| held[*n].operation_id.is_none());
            let due_at = self.due_at(&operation, &spans, &arrived, is_cut.then_some(last));
            if due_at > now {
                marks.extend(open.map(|n| (spans[n].key, SpanMark::Wait(due_at))));
                continue;
            }
            // Late ones join what was settled; its id stays.
            let known = of.iter().find_map(|n| held[*n].operation_id.clone());
            let is_late = known.is_some();
            let id = known.unwrap_or_else(|| emit::operation_id(&operation, &spans));
            let all = emit::events(&operation, &spans, &id, |_| is_late);
            let is_new = operation
                .attempts
                .iter()
                .map(|attempt| held[attempt.spans[0]].operation_id.is_none());
            events.extend(
                all.into_iter().zip(is_new).filter(|(_, new)| *new).map(|(event, _)| event),
            );
            marks.extend(open.map(|n| (spans[n].key, SpanMark::Settled(id.clone()))));
        }
        // Calls of SDKs whose attempts have spans are no operations of their own.
        let placed: HashSet<SpanKey> = marks.iter().map(|(key, _)| *key).collect();
        let called = held.iter().filter(|held| {
            held.span.role == Role::Sdk
                && held.operation_id.is_none()
                && !placed.contains(&held.span.key)
        });
        marks.extend(
            called.map(|held| (held.span.key, SpanMark::Settled(held.span.key.to_string()))),
        );
        self.emit(events, marks).await
    }

    /// When an operation may be settled. Where more spans are open than were looked at, the rest of
    /// it may be among those, from `cut_us` on; it isn't waited for longer than twice as long.
    fn due_at(
        &self,
        operation: &Operation,
        spans: &[Span],
        arrived: &HashMap<SpanKey, UnixMillis>,
        cut_us: Option<i64>,
    ) -> UnixMillis {
        let found =
            settling::news_and_wait(operation, spans, |key| arrived.get(&key).copied(), self.grace);
        let Some((newest, wait)) = found else { return UnixMillis(i64::MIN) };
        let end_us = operation.attempts.last().map_or(0, |last| spans[last.spans[0]].end_us);
        let may_go_on = cut_us
            .is_some_and(|cut| end_us.saturating_add(wait.0.saturating_mul(1_000)) >= cut)
            && wait.0 > self.grace.0;
        let wait = if may_go_on { Millis(wait.0.saturating_mul(2)) } else { wait };
        newest.plus(wait)
    }

    /// The spans above these, and of calls of SDKs all of their traces.
    async fn around(&self, held: &[HeldSpan]) -> Result<Vec<HeldSpan>, StoreError> {
        let mut known: HashSet<SpanKey> = held.iter().map(|held| held.span.key).collect();
        let mut around: Vec<HeldSpan> = Vec::new();
        let calls: HashSet<SpanKey> = held
            .iter()
            .filter(|held| held.span.role == Role::Sdk && held.operation_id.is_none())
            .map(|held| held.span.key)
            .collect();
        if !calls.is_empty() {
            let traces = calls.into_iter().map(|key| key.trace);
            let all = self.store.spans_of_traces(traces, OF_TRACES).await?;
            around.extend(all.into_iter().filter(|held| known.insert(held.span.key)));
        }
        let above = |span: &Span| Some(SpanKey { trace: span.key.trace, span: span.parent? });
        let mut wanted: Vec<SpanKey> =
            held.iter().chain(&around).filter_map(|held| above(&held.span)).collect();
        for _ in 0..LEVELS {
            wanted.retain(|key| !known.contains(key));
            wanted.sort_unstable();
            wanted.dedup();
            if wanted.is_empty() {
                break;
            }
            let found = self.store.spans_with_keys(&wanted).await?;
            // Who calls a server is another service's business.
            wanted = found
                .iter()
                .filter(|held| held.span.role != Role::Server)
                .filter_map(|held| above(&held.span))
                .collect();
            around.extend(found.into_iter().filter(|held| known.insert(held.span.key)));
        }
        Ok(around)
    }

    /// Stores events, then notes what became of the spans.
    async fn emit(
        &self,
        events: Vec<crate::domain::event::Event>,
        marks: Vec<(SpanKey, SpanMark)>,
    ) -> Result<usize, SettleError> {
        let count = events.len();
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let batch = events.by_ref().take(BATCH).collect();
            self.intake.submit_from(batch, Input::Otlp).await?;
        }
        self.store.mark_spans(&marks).await?;
        Ok(count)
    }
}
