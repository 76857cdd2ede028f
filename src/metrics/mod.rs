//! What `/metrics` shows and what leaves over OTLP: the domain's numbers, and our own health.
//!
//! Counters count **what this process accepted since it started**, each event once, after it is on
//! disk; several replicas add up with `sum`, and a restart is an ordinary counter reset. They count
//! attempts as DESIGN 14 does: weighted by `count`, from the client's observations alone; a pair
//! without them is counted from its outermost source, in series with the label `vantage`. Which
//! source that is, each process knows from what it received itself and from what the database held
//! of the last day when it started. When a source further out reports for the first time, its series
//! take the place of the inner one's. Where the client's events and a gateway's
//! go to two replicas, the second counts the gateway's until its next start: `vantage=""` selects
//! the client's alone.
//!
//! Most families are exact for what was accepted. Four can only be lower bounds, since they rest on
//! what senders say about outcomes, or on two attempts seen together (the file `recent.rs` says
//! which are remembered): `requests_finished` with `attempts_per_request` and `request_duration`
//! for failures without an `outcome`, `early_retries` and `duplicate_writes`.
//!
//! - [`names`]: every family.
//! - `sight`: what is counted of one event. `recent`: what two together show. `keys`: whose refusals.
//! - `series`: the numbers by service and upstream, under a cap. `own`: the numbers of ourselves.
//! - `notes`: what is kept in the database for alerts that are evaluated there.
//! - [`Exposition`]: the text formats of Prometheus. [`Reader`]: walks over all numbers.

mod exemplar;
mod histogram;
mod keys;
mod mixed;
pub mod names;
mod notes;
mod own;
mod reader;
mod recent;
mod series;
mod sight;
#[cfg(test)]
mod tests;
mod text;

pub use exemplar::{Exemplar, TraceIds};
pub use histogram::{Bucket, Histogram};
pub use notes::NotedRow;
pub use own::{Evaluated, Ingested, Notified, Operation, Overflow};
pub use reader::{Label, Reader, Snapshot};
pub use series::PairNames;
pub use sight::{Ended, Finish, Form, Sight};
pub use text::Exposition;

use crate::domain::event::{Event, Vantage};
use crate::domain::stored::{Inserted, VerdictSummary};
use crate::domain::time::UnixMillis;
use foldhash::fast::RandomState;
use notes::Notes;
use own::Own;
use recent::Recent;
use series::Series;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What stands for values beyond a cap.
pub const OTHER: &str = "other";

/// How many values labels may have. Memory and the size of `/metrics` follow from the pairs: some
/// 60 series and 6 kB each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Calling services.
    pub services: usize,
    /// Upstream hosts.
    pub upstreams: usize,
    /// Pairs of a service and an upstream in an environment.
    pub pairs: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { services: 50, upstreams: 20, pairs: 150 }
    }
}

/// All numbers of this process. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    series: Series,
    own: Own,
    recent: Recent,
    noted: Notes,
}

impl Metrics {
    /// All numbers at 0.
    pub fn new(caps: Caps) -> Self {
        let state = State {
            series: Series::new(caps),
            own: Own::default(),
            recent: Recent::default(),
            noted: Notes::default(),
        };
        let shared = Shared { hasher: RandomState::default(), state: Mutex::new(state) };
        Self { shared: Arc::new(shared) }
    }

    /// What is to be counted of an event once it is stored. Takes no lock.
    pub fn sight(&self, event: &Event, verdict: &VerdictSummary) -> Sight {
        Sight::of(event, verdict, &self.shared.hasher)
    }

    /// Counts a batch that is on disk since `received_at`: each event with its names and what became
    /// of it.
    pub fn count<'a>(
        &self,
        received_at: UnixMillis,
        events: impl Iterator<Item = (PairNames<'a>, &'a Sight, Inserted)>,
    ) {
        let mut state = self.state();
        let State { series, own, recent, noted } = &mut *state;
        for (names, sight, inserted) in events {
            let result = match inserted {
                Inserted::Stored | Inserted::IdConflict => Ingested::Accepted,
                Inserted::Duplicate => Ingested::Duplicate,
                Inserted::Expired => Ingested::Late,
            };
            if let Some(count) = own.events.get_mut(result as usize) {
                *count = count.saturating_add(1);
            }
            if inserted.is_new() {
                own.lag.add(received_at.since(sight.answered).0, 1, None);
                if let Some(found) = series.count(names, sight, received_at, recent) {
                    noted.add(&self.shared.hasher, received_at, names, sight, &found);
                }
            }
        }
    }

    /// Takes what was noted of pairs since the last time, to be kept beside the sums of the database.
    pub fn take_noted(&self) -> Vec<NotedRow> {
        self.state().noted.take()
    }

    /// Gives back what could not be kept, for the next time.
    pub fn give_back(&self, rows: &[NotedRow]) {
        let mut state = self.state();
        for row in rows {
            state.noted.give_back(&self.shared.hasher, row);
        }
    }

    /// Makes a pair known that the database holds from before, so that it is shown from the start.
    /// `is_served` says whether a first attempt was ever served.
    pub fn learn(&self, names: PairNames<'_>, vantage: Vantage, is_served: bool) {
        self.state().series.learn(names, vantage, is_served);
    }

    /// Makes known when the newest event of a service was received, by whichever process: silence
    /// that began before a restart goes on after it.
    pub fn learn_last(&self, service: &str, at: UnixMillis) {
        self.state().series.learn_last(service, at);
    }

    /// Counts items that are no events that can be stored.
    pub fn rejected(&self, items: usize) {
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        if let Some(count) = self.state().own.events.get_mut(Ingested::Rejected as usize) {
            *count = count.saturating_add(items);
        }
    }

    /// Counts an operation that the database failed.
    pub fn store_failed(&self, operation: Operation) {
        if let Some(count) = self.state().own.store_errors.get_mut(operation as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// Makes an alert known, so that its counts are shown from the start, at 0.
    pub fn learn_alert(&self, alert: &str) {
        own::add_under(&mut self.state().own.evaluations, alert, 0, 0);
    }

    /// Counts an evaluation of an alert, by its name (`Retrylens429Spike`).
    pub fn evaluated(&self, alert: &str, result: Evaluated) {
        own::add_under(&mut self.state().own.evaluations, alert, result as usize, 1);
    }

    /// Makes a receiver known, so that its counts are shown from the start, at 0.
    pub fn learn_receiver(&self, receiver: &str) {
        own::add_under(&mut self.state().own.notifications, receiver, 0, 0);
    }

    /// Counts a try to deliver a notification to a receiver, by its name in the settings.
    pub fn notified(&self, receiver: &str, result: Notified) {
        own::add_under(&mut self.state().own.notifications, receiver, result as usize, 1);
    }

    /// Notes whether nothing is sent to a receiver, for good or for long.
    pub fn receiver_gone(&self, receiver: &str, is_gone: bool) {
        let gone = &mut self.state().own.gone;
        if is_gone {
            gone.insert(receiver.to_owned());
        } else {
            gone.remove(receiver);
        }
    }

    /// How many events were counted under `other`, by label; empty where none were.
    pub fn overflow(&self) -> Vec<(Overflow, u64)> {
        let counts = self.state().series.overflow;
        Overflow::ALL.iter().copied().zip(counts).filter(|(_, n)| *n > 0).collect()
    }

    /// All numbers as they are now, copied, so that reading them holds up nobody.
    pub fn snapshot(&self, now: UnixMillis) -> Snapshot {
        let state = self.state();
        Snapshot::new(state.series.clone(), state.own.clone(), now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
