//! Where events come from and what they carry, summed in memory as they are stored and written now
//! and then, beside [`super::senders`].
//!
//! What was summed since the last writing is lost when the process is killed; events never are.

use crate::clock::Clock;
use crate::domain::sources::{Share, Sighting, SourceKey};
use crate::domain::time::{DAY_MS, MINUTE_MS, UnixMillis};
use crate::metrics::{Metrics, Operation};
use crate::store::{SourceSums, Store, StoreError};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often sums are written.
const INTERVAL: Duration = Duration::from_secs(5);
/// Most sources between two writings; further ones are left out until then.
const MOST: usize = 2_000;

/// Sums by a hash of the source.
type Sums = HashMap<u64, (SourceKey, SourceSums), RandomState>;

/// Sums by source. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SourceTally {
    hasher: RandomState,
    sums: Arc<Mutex<Sums>>,
}

impl SourceTally {
    /// Adds events that are stored now and weren't before: service and upstream, and what is to be
    /// counted of each.
    pub fn add<'a>(
        &self,
        received_at: UnixMillis,
        events: impl Iterator<Item = ([&'a str; 2], &'a Sighting)>,
    ) {
        let day = received_at.0.div_euclid(DAY_MS);
        let mut sums = self.lock();
        for ([service, upstream], sighting) in events {
            let parts =
                (service, upstream, sighting.vantage, sighting.input, sighting.name.as_str());
            let hash = self.hasher.hash_one(parts);
            if sums.len() >= MOST && !sums.contains_key(&hash) {
                continue;
            }
            let (_, sum) = sums.entry(hash).or_insert_with(|| {
                let key = SourceKey {
                    service: service.to_owned(),
                    upstream: upstream.to_owned(),
                    vantage: sighting.vantage,
                    input: sighting.input,
                    name: sighting.name.clone(),
                };
                (key, none(sighting.at, received_at))
            });
            sum.events += 1;
            sum.first_at = sum.first_at.min(sighting.at);
            sum.last_at = sum.last_at.max(sighting.at);
            sum.received_at = sum.received_at.max(received_at);
            if sighting.language.is_some() {
                sum.language.clone_from(&sighting.language);
            }
            *sum.minutes.entry(sighting.at.0.div_euclid(MINUTE_MS)).or_default() += 1;
            let shares = sum.traits.entry(day).or_default();
            for (kind, has) in sighting.traits() {
                if let Some(share) = shares.get_mut(kind as usize) {
                    share.of += 1;
                    share.had += i64::from(has);
                }
            }
        }
    }

    /// Writes what was summed since the last time; after an error it is kept for the next.
    pub async fn write(&self, store: &Store, now: UnixMillis) -> Result<(), StoreError> {
        let taken: Vec<(SourceKey, SourceSums)> =
            std::mem::take(&mut *self.lock()).into_values().collect();
        let written = store.add_sources(&taken, now).await;
        if written.is_err() {
            let mut sums = self.lock();
            for (key, sum) in taken {
                let parts = (
                    key.service.as_str(),
                    key.upstream.as_str(),
                    key.vantage,
                    key.input,
                    key.name.as_str(),
                );
                let hash = self.hasher.hash_one(parts);
                match sums.get_mut(&hash) {
                    Some((_, known)) => merge(known, sum),
                    None => {
                        sums.insert(hash, (key, sum));
                    }
                }
            }
        }
        written
    }

    /// Writes every few seconds, forever.
    pub async fn write_regularly(&self, store: &Store, clock: &dyn Clock, metrics: &Metrics) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.write(store, clock.now()).await {
                metrics.store_failed(Operation::Tally);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "counts of sources could not be written; trying again");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn none(at: UnixMillis, received_at: UnixMillis) -> SourceSums {
    SourceSums {
        events: 0,
        first_at: at,
        last_at: at,
        received_at,
        language: None,
        minutes: BTreeMap::new(),
        traits: BTreeMap::new(),
    }
}

fn merge(sum: &mut SourceSums, more: SourceSums) {
    sum.events += more.events;
    sum.first_at = sum.first_at.min(more.first_at);
    sum.last_at = sum.last_at.max(more.last_at);
    sum.received_at = sum.received_at.max(more.received_at);
    sum.language = sum.language.take().or(more.language);
    for (minute, n) in more.minutes {
        *sum.minutes.entry(minute).or_default() += n;
    }
    for (day, shares) in more.traits {
        let known = sum.traits.entry(day).or_default();
        for (share, Share { had, of }) in known.iter_mut().zip(shares) {
            share.had += had;
            share.of += of;
        }
    }
}
