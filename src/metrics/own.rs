//! The numbers of retrylens itself.

use super::histogram::{self, Histogram};
use crate::domain::spelling::spelled_enum;
use std::collections::{BTreeMap, BTreeSet};

spelled_enum! {
    /// What became of an event that was sent.
    pub enum Ingested {
        /// It is stored and was not before.
        Accepted => "accepted",
        /// It was there already.
        Duplicate => "duplicate",
        /// It is not an event that can be stored.
        Rejected => "rejected",
        /// It is older than the events that are kept.
        Late => "late",
    }
}

spelled_enum! {
    /// What the database was asked for when it failed.
    pub enum Operation {
        /// To store events.
        Insert => "insert",
        /// To answer a page or the API.
        Read => "read",
        /// To gather sums into coarser ones.
        Gather => "gather",
        /// To remove what is old.
        Tidy => "tidy",
        /// To add to the counts of what senders get wrong.
        Tally => "tally",
    }
}

spelled_enum! {
    /// How the evaluation of an alert went.
    pub enum Evaluated {
        /// Its condition could be told.
        Ok => "ok",
        /// It could not, for example as the database did not answer.
        Failed => "failed",
    }
}

spelled_enum! {
    /// How a try to deliver a notification went.
    pub enum Notified {
        /// The receiver took it.
        Delivered => "delivered",
        /// It did not; another try follows.
        Failed => "failed",
        /// It did not, and no try follows.
        Dropped => "dropped",
    }
}

spelled_enum! {
    /// A label that had too many values. A pair is one of (service, upstream, environment).
    pub enum Overflow {
        /// Calling services.
        Service => "service",
        /// Upstream hosts.
        Upstream => "upstream",
        /// Deployment environments.
        Environment => "environment",
        /// Pairs, each with names that are known.
        Pair => "pair",
    }
}

/// Most receivers and most alerts that are told apart; further ones are `other`.
const MAX_NAMES: usize = 50;

/// What is counted of retrylens itself.
#[derive(Debug, Clone)]
pub(super) struct Own {
    /// By [`Ingested::ALL`].
    pub(super) events: [u64; Ingested::ALL.len()],
    pub(super) lag: Histogram,
    /// By [`Operation::ALL`].
    pub(super) store_errors: [u64; Operation::ALL.len()],
    pub(super) evaluations: BTreeMap<String, [u64; Evaluated::ALL.len()]>,
    pub(super) notifications: BTreeMap<String, [u64; Notified::ALL.len()]>,
    /// Receivers that are gone.
    pub(super) gone: BTreeSet<String>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            events: [0; Ingested::ALL.len()],
            lag: Histogram::new(histogram::DELAYS),
            store_errors: [0; Operation::ALL.len()],
            evaluations: BTreeMap::new(),
            notifications: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }
}

/// Adds `n` to one of the counts that are kept under a name.
pub(super) fn add_under<const N: usize>(
    counts: &mut BTreeMap<String, [u64; N]>,
    name: &str,
    at: usize,
    n: u64,
) {
    let is_full = counts.len() >= MAX_NAMES && !counts.contains_key(name);
    let name = if is_full { super::OTHER } else { name };
    if !counts.contains_key(name) {
        counts.insert(name.to_owned(), [0; N]);
    }
    if let Some(count) = counts.get_mut(name).and_then(|counts| counts.get_mut(at)) {
        *count = count.saturating_add(n);
    }
}
