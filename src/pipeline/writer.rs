//! The one task that writes: takes what waits, commits it together, answers.

use crate::clock::Clock;
use crate::domain::stored::Inserted;
use crate::store::{Draft, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A batch that waits for its commit.
pub(super) struct Job {
    pub(super) drafts: Vec<Draft>,
    pub(super) reply: oneshot::Sender<Result<Vec<Inserted>, Arc<StoreError>>>,
    /// Its room in the queue, given back when the job is done.
    pub(super) room: OwnedSemaphorePermit,
}

/// How fast events were written lately.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Nanoseconds per event, averaged over the last transactions; 0 before the first.
    nanos_per_event: AtomicU64,
}

/// What an event is taken to cost before the first was written.
const FIRST_GUESS_NANOS: u64 = 100_000;

impl Speed {
    /// Adds a transaction; each new one weighs a fifth.
    fn record(&self, events: usize, took: Duration) {
        let events = u64::try_from(events).unwrap_or(u64::MAX).max(1);
        let now = (u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / events).max(1);
        let before = self.nanos_per_event.load(Ordering::Relaxed);
        let mean = if before == 0 { now } else { before - before / 5 + now / 5 };
        self.nanos_per_event.store(mean, Ordering::Relaxed);
    }

    /// The time that `events` take at this speed.
    pub(super) fn time_for(&self, events: usize) -> Duration {
        let nanos = match self.nanos_per_event.load(Ordering::Relaxed) {
            0 => FIRST_GUESS_NANOS,
            nanos => nanos,
        };
        Duration::from_nanos(nanos.saturating_mul(u64::try_from(events).unwrap_or(u64::MAX)))
    }
}

/// Writes until `end` is cancelled and nothing waits any more.
pub(super) async fn run(
    store: Store,
    clock: Arc<dyn Clock>,
    commit_events: usize,
    mut waiting: mpsc::UnboundedReceiver<Job>,
    speed: Arc<Speed>,
    end: CancellationToken,
) {
    loop {
        let first = tokio::select! {
            biased;
            job = waiting.recv() => job,
            () = end.cancelled() => None,
        };
        let Some(first) = first else { return };
        let mut events = first.drafts.len();
        let mut jobs = vec![first];
        while events < commit_events {
            let Ok(job) = waiting.try_recv() else { break };
            events += job.drafts.len();
            jobs.push(job);
        }
        let begun = Instant::now();
        write(&store, &*clock, jobs).await;
        speed.record(events, begun.elapsed());
    }
}

/// Commits the jobs together. Where the database refuses that for a reason that lies in the rows,
/// each is committed alone, so that a bad one costs only itself.
async fn write(store: &Store, clock: &dyn Clock, mut jobs: Vec<Job>) {
    let received_at = clock.now();
    let mut drafts = Vec::with_capacity(jobs.iter().map(|job| job.drafts.len()).sum());
    let mut sizes = Vec::with_capacity(jobs.len());
    for job in &mut jobs {
        sizes.push(job.drafts.len());
        drafts.append(&mut job.drafts);
    }
    let drafts = Arc::new(drafts);
    match store.insert_drafts(Arc::clone(&drafts), received_at).await {
        Ok(results) => {
            let mut results = results.into_iter();
            for (job, size) in jobs.into_iter().zip(sizes) {
                answer(job, Ok(results.by_ref().take(size).collect()));
            }
        }
        Err(error) if jobs.len() == 1 || error.is_passing() => {
            tracing::error!(events = drafts.len(), error = %chain(&error), "nothing was stored");
            let error = Arc::new(error);
            for job in jobs {
                answer(job, Err(Arc::clone(&error)));
            }
        }
        Err(error) => {
            tracing::warn!(
                batches = jobs.len(),
                error = %chain(&error),
                "a group of batches was refused; storing each alone"
            );
            let mut begin = 0;
            for (job, size) in jobs.into_iter().zip(sizes) {
                let part = drafts.get(begin..begin + size).unwrap_or_default().to_vec();
                begin += size;
                let result = store.insert_drafts(Arc::new(part), received_at).await;
                if let Err(error) = &result {
                    tracing::error!(events = size, error = %chain(error), "nothing was stored");
                }
                answer(job, result.map_err(Arc::new));
            }
        }
    }
}

/// Tells the waiting caller; one that went away changes nothing, the events are stored.
fn answer(job: Job, result: Result<Vec<Inserted>, Arc<StoreError>>) {
    let Job { reply, room, .. } = job;
    if reply.send(result).is_err() {
        tracing::debug!("the sender of a batch went away before its answer");
    }
    drop(room);
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
    }
}
