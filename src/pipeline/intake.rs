//! The way in: accepts a batch while there is room, judges its events, waits for the commit.

use super::writer::{self, Job, Speed};
use crate::clock::Clock;
use crate::domain::event::Event;
use crate::domain::stored::Inserted;
use crate::store::{Draft, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Sizes of the queue and of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntakeSettings {
    /// Events that may wait for their commit. Beyond it batches are refused.
    pub queue_events: u32,
    /// Events that are committed together, where that many wait. A batch is never divided.
    pub commit_events: usize,
}

impl Default for IntakeSettings {
    fn default() -> Self {
        Self { queue_events: 50_000, commit_events: 5_000 }
    }
}

/// Why a batch was not stored; nothing of it was.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntakeError {
    /// Too many events wait. Send the batch again after `retry_after`: the time that the queue
    /// needs at its measured speed, with up to a quarter more, so that senders do not come back at
    /// the same moment.
    #[error("the queue is full")]
    Full {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The database refused or can't be reached.
    #[error("the events could not be stored")]
    Store(#[source] Arc<StoreError>),
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopped,
}

/// The queue in front of the store. Clones share it.
#[derive(Debug, Clone)]
pub struct Intake {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: IntakeSettings,
    /// A permit per event that may wait.
    room: Arc<Semaphore>,
    jobs: mpsc::UnboundedSender<Job>,
    speed: Arc<Speed>,
    is_stopping: AtomicBool,
    /// Ends the writer once nothing waits.
    end: CancellationToken,
    /// Cancelled when the writer has ended, for whatever reason.
    ended: CancellationToken,
}

/// From this many events on a batch is judged on the threads for blocking work, in parts.
const JUDGED_IN_PLACE: usize = 32;
/// Events judged by one such thread at a time.
const JUDGED_AT_ONCE: usize = 1_000;
/// Bounds of the wait that a full queue asks for.
const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_mins(1);

impl Intake {
    /// Starts the writer.
    pub fn start(store: Store, clock: Arc<dyn Clock>, settings: IntakeSettings) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let inner = Inner {
            settings,
            room: Arc::new(Semaphore::new(semaphore_size(settings.queue_events))),
            jobs,
            speed: Arc::default(),
            is_stopping: AtomicBool::new(false),
            end: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let has_ended = inner.ended.clone().drop_guard();
        let run = writer::run(
            store,
            clock,
            settings.commit_events,
            waiting,
            Arc::clone(&inner.speed),
            inner.end.clone(),
        );
        tokio::spawn(async move {
            let _has_ended = has_ended;
            run.await;
        });
        Self { inner: Arc::new(inner) }
    }

    /// Judges and stores a batch. When it returns, all of it is on disk; what became of each event
    /// is told in the order given.
    pub async fn submit(&self, events: Vec<Event>) -> Result<Vec<Inserted>, IntakeError> {
        let inner = &*self.inner;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        if inner.is_stopping.load(Ordering::SeqCst) {
            return Err(IntakeError::Stopped);
        }
        // A batch larger than the queue is taken when nothing else waits.
        let permits =
            u32::try_from(events.len()).unwrap_or(u32::MAX).min(inner.settings.queue_events.max(1));
        let room = Arc::clone(&inner.room)
            .try_acquire_many_owned(permits)
            .map_err(|_| IntakeError::Full { retry_after: self.drain_time(permits) })?;
        let drafts = judge_all(events).await?;
        let (reply, answer) = oneshot::channel();
        inner.jobs.send(Job { drafts, reply, room }).map_err(|_| IntakeError::Stopped)?;
        answer.await.map_err(|_| IntakeError::Stopped)?.map_err(IntakeError::Store)
    }

    /// Events that wait for their commit.
    pub fn waiting(&self) -> usize {
        semaphore_size(self.inner.settings.queue_events)
            .saturating_sub(self.inner.room.available_permits())
    }

    /// Whether there is no room for even one event.
    pub fn is_full(&self) -> bool {
        self.inner.room.available_permits() == 0
    }

    /// Refuses new batches, waits until those that were taken are stored, then ends the writer.
    pub async fn stop(&self) {
        let inner = &*self.inner;
        inner.is_stopping.store(true, Ordering::SeqCst);
        let all = u32::try_from(semaphore_size(inner.settings.queue_events)).unwrap_or(u32::MAX);
        tokio::select! {
            all_back = inner.room.acquire_many(all) => drop(all_back),
            () = inner.ended.cancelled() => {}
        }
        inner.end.cancel();
        inner.ended.cancelled().await;
    }

    /// Returns when the writer has ended: after [`Self::stop`], or because it broke.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }

    /// The time that the queue needs to make room for `permits` events at its measured speed, with
    /// up to a quarter more.
    fn drain_time(&self, permits: u32) -> Duration {
        let missing = self.waiting().saturating_add(permits as usize);
        let missing = missing.saturating_sub(self.inner.settings.queue_events as usize).max(1);
        let wait = self.inner.speed.time_for(missing).clamp(MIN_WAIT, MAX_WAIT);
        wait.mul_f64(rand::random_range(1.0..=1.25))
    }
}

fn semaphore_size(events: u32) -> usize {
    (events.max(1) as usize).min(Semaphore::MAX_PERMITS)
}

/// Judges the events of a batch; a large one in parallel.
async fn judge_all(events: Vec<Event>) -> Result<Vec<Draft>, IntakeError> {
    let ready = |events: Vec<Event>| -> Vec<Draft> {
        events.into_iter().map(super::judge).map(Draft::new).collect()
    };
    if events.len() < JUDGED_IN_PLACE {
        return Ok(ready(events));
    }
    let mut parts = Vec::new();
    let mut events = events.into_iter();
    loop {
        let part: Vec<Event> = events.by_ref().take(JUDGED_AT_ONCE).collect();
        if part.is_empty() {
            break;
        }
        parts.push(tokio::task::spawn_blocking(move || ready(part)));
    }
    let mut drafts = Vec::new();
    for part in parts {
        drafts.append(&mut part.await.map_err(|_| IntakeError::Stopped)?);
    }
    Ok(drafts)
}
