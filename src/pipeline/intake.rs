//! The way in: accepts a batch while there is room, judges its events, waits for the commit.
//!
//! How long the answer takes is decided at the door. Events are written in the order in which they
//! came, so a batch waits as long as everything before it takes. The queue is therefore bounded
//! twice: `queue_events` bounds it for all, and whoever has events waiting already may add more
//! only while all that waits can be written within `max_wait` at the measured speed. A fleet in
//! which everybody sends one batch at a time may so use the whole queue, which takes a burst in;
//! many connections of one sender can't build a queue that stands. They are refused, with a
//! `Retry-After` that is true: waiting longer would not make the database faster, and a sender that
//! times out sends again what is stored already. Sooner than after a second nobody is refused by
//! default, since a refusal costs a second itself: `Retry-After` has no smaller unit.
//!
//! Who gets how much of the queue is decided by [`super::fair`].

use super::fair::{self, Place, Refusal, Room, Rule, Sender, Source};
use super::sources::SourceTally;
use super::writer::{Job, Speed, Trouble, Writer};
use crate::clock::Clock;
use crate::domain::event::Event;
use crate::domain::sources::{Input, Sighting};
use crate::domain::stored::Inserted;
use crate::metrics::{Caps, Metrics, Sight};
use crate::store::{Draft, Kept, SeriesBound, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Sizes of the queue and of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntakeSettings {
    /// Events that may wait for their commit. Beyond it batches are refused.
    pub queue_events: u32,
    /// Events that are committed together, where that many wait. A batch is never divided.
    pub commit_events: usize,
    /// How long a batch may have to wait for its commit before senders that have several waiting
    /// are refused more. Two full transactions may wait, however long they take: one that is
    /// written, and one that gathers meanwhile.
    pub max_wait: Duration,
    /// Series there may be in the database.
    pub max_series: usize,
    /// How many values labels of metrics may have.
    pub caps: Caps,
}

impl Default for IntakeSettings {
    fn default() -> Self {
        Self {
            queue_events: 50_000,
            commit_events: 5_000,
            max_wait: Duration::from_secs(1),
            max_series: 50_000,
            caps: Caps::default(),
        }
    }
}

/// Why a batch was not stored; nothing of it was.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntakeError {
    /// Too many events wait, whoever sends more. Send the batch again after `retry_after`: the time
    /// that the queue needs at its measured speed to make room, in whole seconds, with up to a
    /// quarter more, so that senders do not come back at the same moment.
    #[error("the queue is full")]
    Full {
        /// How long to wait.
        retry_after: Duration,
    },
    /// Too many of the events that wait are this sender's; others would still get in.
    #[error("this sender has its share of the queue")]
    OverShare {
        /// How long to wait until there is room in its share.
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
    room: Room,
    series: SeriesBound,
    metrics: Metrics,
    sources: SourceTally,
    jobs: mpsc::UnboundedSender<Job>,
    speed: Arc<Speed>,
    trouble: Arc<Trouble>,
    /// Batches that were taken and not answered yet; closed to stop.
    batches: TaskTracker,
    /// Ends the writer once nothing waits.
    end: CancellationToken,
    /// Cancelled when the writer has ended, for whatever reason.
    ended: CancellationToken,
}

/// A batch that has its place in the queue and is judged. Dropping it gives the place up.
#[derive(Debug)]
pub struct Batch {
    drafts: Vec<Draft>,
    /// What is counted of each, once it is stored.
    sights: Vec<(Sight, Sighting)>,
    holds: Holds,
}

/// What a batch holds until it is answered, and gives back when this is dropped.
#[derive(Debug)]
pub(super) struct Holds {
    _room: Place,
    _memory: Option<Place>,
    _batch: TaskTrackerToken,
}

/// From this many events on a batch is judged away from the threads that answer others.
const JUDGED_IN_PLACE: usize = 32;

impl Intake {
    /// Starts the writer.
    pub fn start(store: Store, clock: Arc<dyn Clock>, settings: IntakeSettings) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let inner = Inner {
            settings,
            room: Room::new(usize::try_from(settings.queue_events).unwrap_or(usize::MAX)),
            series: SeriesBound::new(settings.max_series),
            metrics: Metrics::new(settings.caps),
            sources: SourceTally::default(),
            jobs,
            speed: Arc::default(),
            trouble: Arc::default(),
            batches: TaskTracker::new(),
            end: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let has_ended = inner.ended.clone().drop_guard();
        let writer = Writer {
            store,
            clock,
            metrics: inner.metrics.clone(),
            sources: inner.sources.clone(),
            commit_events: settings.commit_events,
            speed: Arc::clone(&inner.speed),
            trouble: Arc::clone(&inner.trouble),
        };
        let run = writer.run(waiting, inner.end.clone());
        tokio::spawn(async move {
            let _has_ended = has_ended;
            run.await;
        });
        Self { inner: Arc::new(inner) }
    }

    /// Which series there are; [`Store::learn_series`] tells it those of before.
    pub fn series(&self) -> &SeriesBound {
        &self.inner.series
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// What sources sent.
    pub fn sources(&self) -> &SourceTally {
        &self.inner.sources
    }

    /// Judges and stores a batch of our own. When it returns, all of it is on disk; what became of
    /// each event is told in the order given.
    pub async fn submit(&self, events: Vec<Event>) -> Result<Vec<Inserted>, IntakeError> {
        self.submit_from(events, Input::Native).await
    }

    /// As [`Self::submit`], for what came in by another way than native events.
    pub async fn submit_from(
        &self,
        events: Vec<Event>,
        input: Input,
    ) -> Result<Vec<Inserted>, IntakeError> {
        let sender = Source::default().service("");
        if events.len() < JUDGED_IN_PLACE {
            return self.commit(self.admit(&sender, events, None, input)?).await;
        }
        let intake = self.clone();
        let judging =
            tokio::task::spawn_blocking(move || intake.admit(&sender, events, None, input));
        self.commit(judging.await.map_err(|_| IntakeError::Stopped)??).await
    }

    /// Whether somebody new from `source` would find room, asked before its events are read: so a
    /// refusal costs nothing.
    pub fn admits(&self, source: &Source) -> Result<(), IntakeError> {
        self.inner.room.admits(source).map_err(|refusal| self.refused(refusal))
    }

    /// Takes a place in the queue for events of `sender` and judges them: work for a thread that
    /// may be kept busy. `memory` is what they occupy, given back together with the place.
    pub(crate) fn admit(
        &self,
        sender: &Sender,
        events: Vec<Event>,
        memory: Option<Place>,
        input: Input,
    ) -> Result<Batch, IntakeError> {
        let inner = &*self.inner;
        // Counted first: a stop waits for it, or it sees the stop.
        let batch = inner.batches.token();
        if inner.batches.is_closed() {
            return Err(IntakeError::Stopped);
        }
        let in_time = inner.speed.events_within(inner.settings.max_wait);
        // One transaction that is written, and one that gathers meanwhile.
        let two = inner.settings.commit_events.saturating_mul(2);
        let rule = Rule::Batch { at_most: in_time.max(two) };
        let amount = events.len().max(1);
        let room =
            inner.room.take(sender, amount, rule).map_err(|refusal| self.refused(refusal))?;
        let (drafts, sights) = events
            .into_iter()
            .map(|event| {
                let kept = inner.series.keep(&event);
                let new = super::judge(event);
                let sight = inner.metrics.sight(&new.event, &new.verdict);
                let source = Sighting::of(&new.event, &new.verdict, input);
                (Draft::keeping(new, kept), (sight.coarse(kept != Kept::Whole), source))
            })
            .unzip();
        Ok(Batch { drafts, sights, holds: Holds { _room: room, _memory: memory, _batch: batch } })
    }

    /// Stores a batch. When it returns, all of it is on disk; what became of each event is told in
    /// its order. Where the caller goes away, the batch is stored all the same.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<Vec<Inserted>, IntakeError> {
        let Batch { drafts, sights, holds } = batch;
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        self.inner
            .jobs
            .send(Job { drafts, sights, reply, holds })
            .map_err(|_| IntakeError::Stopped)?;
        answer.await.map_err(|_| IntakeError::Stopped)?.map_err(IntakeError::Store)
    }

    /// Events that wait for their commit; of a batch larger than its sender's share, only that
    /// share.
    pub fn waiting(&self) -> usize {
        self.inner.room.used()
    }

    /// Whether there is no room for even one event, whoever sends it.
    pub fn is_full(&self) -> bool {
        self.inner.room.is_full()
    }

    /// Why the last transaction failed, unless one succeeded since or it is more than a minute
    /// ago: then only another try can tell.
    pub fn trouble(&self) -> Option<Arc<StoreError>> {
        self.inner.trouble.get()
    }

    /// Refuses new batches, waits until those that were taken are stored, then ends the writer.
    pub async fn stop(&self) {
        let inner = &*self.inner;
        inner.batches.close();
        tokio::select! {
            () = inner.batches.wait() => {}
            () = inner.ended.cancelled() => {}
        }
        inner.end.cancel();
        inner.ended.cancelled().await;
    }

    /// Returns when the writer has ended: after [`Self::stop`], or because it broke.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }

    /// Says how long to wait until what is missing is written at the measured speed.
    fn refused(&self, refusal: Refusal) -> IntakeError {
        let wait = |missing| fair::with_jitter(self.inner.speed.time_for(missing));
        match refusal {
            Refusal::Full { missing } => IntakeError::Full { retry_after: wait(missing) },
            Refusal::OverShare { missing } => IntakeError::OverShare { retry_after: wait(missing) },
        }
    }
}
