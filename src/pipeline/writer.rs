//! The one task that writes: takes what waits, commits it together, answers.

use super::intake::Holds;
use super::sources::SourceTally;
use crate::clock::Clock;
use crate::domain::sources::Sighting;
use crate::domain::stored::Inserted;
use crate::domain::time::UnixMillis;
use crate::metrics::{Metrics, Operation, Sight};
use crate::store::{Draft, Store, StoreError};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A batch that waits for its commit.
pub(super) struct Job {
    pub(super) drafts: Vec<Draft>,
    /// What is counted of each, once it is stored.
    pub(super) sights: Vec<(Sight, Sighting)>,
    pub(super) reply: oneshot::Sender<Result<Vec<Inserted>, Arc<StoreError>>>,
    /// Given back when the job is done.
    pub(super) holds: Holds,
}

/// How fast events were written lately.
///
/// Small transactions cost more per event than large ones, since each waits for the disk, so time
/// and events are summed apart: what a few large ones show outweighs many small ones.
#[derive(Debug, Default)]
pub(super) struct Speed(Mutex<Recent>);

#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    seconds: f64,
    events: f64,
}

/// What an event is taken to cost, in seconds, before the first was written.
const FIRST_GUESS: f64 = 100e-6;
/// What the sums keep of what was, with each transaction.
const KEPT: f64 = 0.9;

impl Speed {
    /// Adds a transaction.
    fn record(&self, events: usize, took: Duration) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.seconds = recent.seconds * KEPT + took.as_secs_f64();
        recent.events = recent.events * KEPT + number(events);
    }

    /// Seconds per event.
    fn pace(&self) -> f64 {
        let recent = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.events > 0.0 { (recent.seconds / recent.events).max(1e-9) } else { FIRST_GUESS }
    }

    /// The time that `events` take at this speed.
    pub(super) fn time_for(&self, events: usize) -> Duration {
        Duration::try_from_secs_f64(number(events) * self.pace()).unwrap_or(Duration::MAX)
    }

    /// The events that are written within `time` at this speed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive size; `as` stops at the largest"
    )]
    pub(super) fn events_within(&self, time: Duration) -> usize {
        (time.as_secs_f64() / self.pace()) as usize
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size for an estimate")]
fn number(events: usize) -> f64 {
    events as f64
}

/// Why the last transaction failed, until one succeeds or it is long ago.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<Option<(Instant, Arc<StoreError>)>>);

/// After this long without another try nobody knows whether it would fail again.
const TROUBLE_LASTS: Duration = Duration::from_mins(1);

impl Trouble {
    /// Keeps an error that lies in the database; one that lies in the rows is none.
    fn record(&self, result: Result<(), Arc<StoreError>>) {
        let of_database = |error: &Arc<StoreError>| {
            error.is_passing() || matches!(**error, StoreError::Damaged(_))
        };
        let failed = result.err().filter(of_database).map(|error| (Instant::now(), error));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// The error, where there is one.
    pub(super) fn get(&self) -> Option<Arc<StoreError>> {
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, error) = failed.as_ref()?;
        (at.elapsed() < TROUBLE_LASTS).then(|| Arc::clone(error))
    }
}

/// What the writer works with.
pub(super) struct Writer {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) sources: SourceTally,
    /// Events that are committed together, where that many wait.
    pub(super) commit_events: usize,
    pub(super) speed: Arc<Speed>,
    pub(super) trouble: Arc<Trouble>,
}

impl Writer {
    /// Writes until `end` is cancelled and nothing waits any more. Where the store can make the next
    /// group ready while it writes one, two are under way.
    pub(super) async fn run(
        self,
        mut waiting: mpsc::UnboundedReceiver<Job>,
        end: CancellationToken,
    ) {
        let mut writing = FuturesUnordered::new();
        let mut last_done = Instant::now();
        loop {
            let first = tokio::select! {
                biased;
                Some((events, begun, result)) = writing.next() => {
                    self.trouble.record(result);
                    // What it took beyond the group before it.
                    let now = Instant::now();
                    self.speed.record(events, now.duration_since(last_done.max(begun)));
                    last_done = now;
                    continue;
                }
                job = waiting.recv(), if writing.len() < self.store.groups_at_once() => job,
                () = end.cancelled(), if writing.is_empty() => None,
            };
            let Some(first) = first else {
                while let Some((_, _, result)) = writing.next().await {
                    self.trouble.record(result);
                }
                return;
            };
            let mut events = first.drafts.len();
            let mut jobs = vec![first];
            while events < self.commit_events {
                let Ok(job) = waiting.try_recv() else { break };
                events += job.drafts.len();
                jobs.push(job);
            }
            let begun = Instant::now();
            let group = self.write(jobs);
            writing.push(async move { (events, begun, group.await) });
        }
    }

    /// Commits the jobs together. Where the database refuses that for a reason that lies in the
    /// rows, each is committed alone, so that a bad one costs only itself. The last error, where
    /// there was one.
    async fn write(&self, mut jobs: Vec<Job>) -> Result<(), Arc<StoreError>> {
        let received_at = self.clock.now();
        let mut drafts = Vec::with_capacity(jobs.iter().map(|job| job.drafts.len()).sum());
        let mut sizes = Vec::with_capacity(jobs.len());
        for job in &mut jobs {
            sizes.push(job.drafts.len());
            drafts.append(&mut job.drafts);
        }
        let drafts = Arc::new(drafts);
        match self.insert(Arc::clone(&drafts), received_at).await {
            Ok(results) => {
                let sights = jobs.iter().flat_map(|job| &job.sights);
                self.count(&drafts, sights, &results, received_at);
                let mut results = results.into_iter();
                for (job, size) in jobs.into_iter().zip(sizes) {
                    answer(job, Ok(results.by_ref().take(size).collect()));
                }
                Ok(())
            }
            Err(error) if jobs.len() == 1 || error.is_passing() => {
                tracing::error!(events = drafts.len(), error = %chain(&error), "nothing was stored");
                let error = Arc::new(error);
                for job in jobs {
                    answer(job, Err(Arc::clone(&error)));
                }
                Err(error)
            }
            Err(error) => {
                tracing::warn!(
                    batches = jobs.len(),
                    error = %chain(&error),
                    "a group of batches was refused; storing each alone"
                );
                let (mut begin, mut outcome) = (0, Ok(()));
                for (job, size) in jobs.into_iter().zip(sizes) {
                    let part = drafts.get(begin..begin + size).unwrap_or_default().to_vec();
                    begin += size;
                    let part = Arc::new(part);
                    let result =
                        self.insert(Arc::clone(&part), received_at).await.map_err(Arc::new);
                    match &result {
                        Ok(results) => self.count(&part, job.sights.iter(), results, received_at),
                        Err(error) => {
                            tracing::error!(events = size, error = %chain(error), "nothing was stored");
                            outcome = Err(Arc::clone(error));
                        }
                    }
                    answer(job, result);
                }
                outcome
            }
        }
    }

    async fn insert(
        &self,
        drafts: Arc<Vec<Draft>>,
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let result = self.store.insert_drafts(drafts, received_at).await;
        if result.is_err() {
            self.metrics.store_failed(Operation::Insert);
        }
        result
    }

    /// Counts what is on disk now. Before the senders are answered, so that whoever has an answer
    /// finds its events in the metrics.
    fn count<'a>(
        &self,
        drafts: &[Draft],
        sights: impl Iterator<Item = &'a (Sight, Sighting)> + Clone,
        results: &[Inserted],
        received_at: UnixMillis,
    ) {
        let events = drafts.iter().zip(sights).zip(results);
        self.metrics.count(
            received_at,
            events.clone().map(|((draft, (sight, _)), result)| (draft.names(), sight, *result)),
        );
        let new = events.filter(|(_, result)| result.is_new());
        self.sources.add(
            received_at,
            new.map(|((draft, (_, sighting)), _)| {
                let [service, upstream, _] = draft.names();
                ([service, upstream], sighting)
            }),
        );
    }
}

/// Tells the waiting caller; one that went away changes nothing, the events are stored.
fn answer(job: Job, result: Result<Vec<Inserted>, Arc<StoreError>>) {
    let Job { reply, holds, .. } = job;
    // First, so that whoever has its answer finds room again.
    drop(holds);
    if reply.send(result).is_err() {
        tracing::debug!("the sender of a batch went away before its answer");
    }
}

/// An error with its causes.
fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_follows_what_was_measured() {
        let speed = Speed::default();
        assert_eq!(speed.time_for(1_000), Duration::from_millis(100));
        speed.record(1_000, Duration::from_millis(50));
        assert_eq!(speed.time_for(1_000), Duration::from_millis(50));
        for _ in 0..100 {
            speed.record(1_000, Duration::from_millis(10));
        }
        let settled = speed.time_for(1_000);
        assert!(settled < Duration::from_millis(11), "{settled:?}");
        let within = speed.events_within(Duration::from_secs(1));
        assert!((95_000..=100_000).contains(&within), "{within}");
    }

    #[test]
    fn small_transactions_say_little_about_how_fast_many_events_are_written() {
        let speed = Speed::default();
        for _ in 0..1_000 {
            speed.record(1, Duration::from_millis(5));
        }
        assert_eq!(speed.events_within(Duration::from_secs(1)), 200);
        speed.record(5_000, Duration::from_millis(100));
        assert!(speed.events_within(Duration::from_secs(1)) > 30_000);
        speed.record(1, Duration::from_millis(5));
        assert!(speed.events_within(Duration::from_secs(1)) > 30_000);
    }
}
