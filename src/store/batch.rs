//! What both databases do with a batch before and after its rows: which events are new, and the
//! sums that they add to.

use super::rows::{Class, Draft, SeriesKey};
use crate::domain::event::Vantage;
use crate::domain::stored::{Counts, Inserted, SenderCounts};
use crate::domain::time::{MINUTE_MS, UnixMillis};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Width of the sums by class and by actor, in milliseconds.
pub(super) const SLOT_MS: i64 = 5 * MINUTE_MS;

/// The actors that sums are kept of: number of the kind, and column of an event.
pub(super) const ACTORS: [(i64, &str); 4] =
    [(0, "key_id"), (1, "address_id"), (2, "account_id"), (3, "instance_id")];

/// Numbers of what an event names, as the database knows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) series: i64,
    pub(super) class: i64,
    pub(super) actors: [Option<i64>; 4],
}

/// Known numbers of series, classes and words; a copy of what the database holds, never ahead of
/// what is committed.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    pub(super) series: HashMap<SeriesKey, i64>,
    pub(super) classes: HashMap<Class, i64>,
    pub(super) words: HashMap<Arc<str>, i64>,
}

/// How many series, and how many words, are remembered; beyond it the copy starts over.
const MAX_REMEMBERED: usize = 400_000;

impl Dictionary {
    /// What `drafts` name and this copy doesn't know, each once and in order: two replicas that
    /// add the same ones then wait for each other instead of blocking each other.
    pub(super) fn missing<'a>(&self, drafts: impl Iterator<Item = &'a Draft>) -> Missing {
        let mut missing = Missing::default();
        for draft in drafts {
            if !self.series.contains_key(&draft.series) {
                missing.series.insert(draft.series.clone(), 0);
            }
            if !self.classes.contains_key(&draft.class) {
                missing.classes.insert(draft.class, 0);
            }
            for word in draft.actors.iter().flatten() {
                if !self.words.contains_key(word) {
                    missing.words.insert(Arc::clone(word), 0);
                }
            }
        }
        missing
    }

    /// Takes over what was found or added.
    pub(super) fn learn(&mut self, found: Missing) {
        if self.words.len() + found.words.len() > MAX_REMEMBERED {
            self.words.clear();
        }
        if self.series.len() + found.series.len() > MAX_REMEMBERED {
            self.series.clear();
        }
        self.series.extend(found.series);
        self.classes.extend(found.classes);
        self.words.extend(found.words);
    }

    /// The numbers for a draft, from this copy or from `found`.
    pub(super) fn ids(&self, draft: &Draft, found: &Missing) -> Option<Ids> {
        let mut actors = [None; 4];
        for (slot, word) in actors.iter_mut().zip(&draft.actors) {
            if let Some(word) = word {
                *slot = Some(*self.words.get(word).or_else(|| found.words.get(word))?);
            }
        }
        Some(Ids {
            series: *self.series.get(&draft.series).or_else(|| found.series.get(&draft.series))?,
            class: *self.classes.get(&draft.class).or_else(|| found.classes.get(&draft.class))?,
            actors,
        })
    }
}

/// What a batch names that is not in the copy; the numbers are filled in by the database.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub(super) series: BTreeMap<SeriesKey, i64>,
    pub(super) classes: BTreeMap<Class, i64>,
    pub(super) words: BTreeMap<Arc<str>, i64>,
}

impl Missing {
    /// Whether nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty() && self.classes.is_empty() && self.words.is_empty()
    }
}

/// Tells new events from repeats. `stored` holds the identities in the database whose id occurs in
/// the batch. Of equal identities in the batch the first is the new one.
pub(super) fn sift<S: AsRef<str>>(drafts: &[Draft], stored: &[(S, i64)]) -> Vec<Inserted> {
    let ids: HashSet<&str> = stored.iter().map(|(id, _)| id.as_ref()).collect();
    let stored: HashSet<(&str, i64)> = stored.iter().map(|(id, at)| (id.as_ref(), *at)).collect();
    let mut seen: HashMap<&str, Vec<i64>> = HashMap::with_capacity(drafts.len());
    drafts
        .iter()
        .map(|draft| {
            let id = draft.event_id.as_str();
            let times = seen.entry(id).or_default();
            if stored.contains(&(id, draft.occurred_at)) || times.contains(&draft.occurred_at) {
                return Inserted::Duplicate;
            }
            times.push(draft.occurred_at);
            if times.len() > 1 || ids.contains(id) {
                return Inserted::IdConflict;
            }
            Inserted::Stored
        })
        .collect()
}

/// What a batch adds to the sums, each row once and in the order of its key.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) minutes: Vec<[i64; 16]>,
    pub(super) classes: Vec<[i64; 7]>,
    pub(super) actors: Vec<[i64; 8]>,
    pub(super) senders: BTreeMap<String, SenderCounts>,
}

/// Adds up the new events of a batch that was received at `received_at`.
pub(super) fn add_up<'a>(
    new: impl Iterator<Item = (&'a Draft, Ids, Inserted)>,
    received_at: UnixMillis,
) -> Sums {
    let received_minute = received_at.floor_to(MINUTE_MS).0;
    let received_slot = received_at.floor_to(SLOT_MS).0;
    let mut minutes: HashMap<[i64; 3], Counts> = HashMap::new();
    let mut classes: HashMap<[i64; 5], (i64, i64)> = HashMap::new();
    let mut actors: HashMap<[i64; 5], [i64; 3]> = HashMap::new();
    let mut senders: HashMap<&str, SenderCounts> = HashMap::new();
    for (draft, ids, inserted) in new {
        let at = UnixMillis(draft.occurred_at);
        let slot = at.floor_to(SLOT_MS).0;
        let n = i64::from(draft.count);
        let class = &draft.class;
        let cell = classes
            .entry([slot, received_slot, ids.series, ids.class, draft.rank()])
            .or_insert((0, at.0));
        cell.0 += n;
        cell.1 = cell.1.max(at.0);
        if class.vantage == Vantage::Client {
            let counts = Counts::of_ending(class.ending(), draft.attempt, n);
            minutes
                .entry([at.floor_to(MINUTE_MS).0, received_minute, ids.series])
                .or_default()
                .add(&counts);
            for ((kind, _), word) in ACTORS.iter().zip(ids.actors) {
                if let Some(word) = word {
                    let sums =
                        actors.entry([slot, received_slot, ids.series, *kind, word]).or_default();
                    sums[0] += counts.attempts;
                    sums[1] += counts.limited;
                    sums[2] += counts.retries;
                }
            }
        }
        let sender = senders.entry(draft.series.service.as_str()).or_default();
        sender.events += 1;
        sender.redactions += i64::from(draft.redactions);
        sender.id_conflicts += i64::from(inserted == Inserted::IdConflict);
    }
    let mut sums = Sums {
        minutes: minutes.into_iter().map(|(key, counts)| minute_row(key, &counts)).collect(),
        classes: classes
            .into_iter()
            .map(|([slot, received, series, class, rank], (n, last))| {
                [slot, received, series, class, rank, n, last]
            })
            .collect(),
        actors: actors
            .into_iter()
            .map(|([slot, received, series, kind, word], [attempts, limited, retries])| {
                [slot, received, series, kind, word, attempts, limited, retries]
            })
            .collect(),
        senders: senders.into_iter().map(|(name, counts)| (name.to_owned(), counts)).collect(),
    };
    sums.minutes.sort_unstable();
    sums.classes.sort_unstable();
    sums.actors.sort_unstable();
    sums
}

/// A row of sums per minute, in the order of `sql::MINUTES`.
fn minute_row([minute, received, series]: [i64; 3], counts: &Counts) -> [i64; 16] {
    let Counts {
        attempts,
        answered,
        requests,
        retries,
        status_429,
        limited,
        limited_retries,
        succeeded,
        server_errors,
        errors,
        retried_operations,
        retry_successes,
        gave_up,
    } = *counts;
    [
        minute,
        received,
        series,
        attempts,
        answered,
        requests,
        retries,
        status_429,
        limited,
        limited_retries,
        succeeded,
        server_errors,
        errors,
        retried_operations,
        retry_successes,
        gave_up,
    ]
}
