//! What senders get wrong: fields that no event has and items that were refused, summed in memory
//! and written now and then, so that a careless sender doesn't cost a transaction per request.
//!
//! What was summed since the last writing is lost when the process is killed; events never are.

use crate::domain::stored::SenderCounts;
use crate::metrics::{Metrics, Operation};
use crate::store::{Store, StoreError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often sums are written.
const INTERVAL: Duration = Duration::from_secs(5);
/// Most names held between two writings; further ones are summed under the empty name.
const MAX_NAMES: usize = 1_000;

/// Sums by service. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SenderTally {
    sums: Arc<Mutex<HashMap<String, SenderCounts>>>,
}

impl SenderTally {
    /// Adds to the sums of `service`; the empty name stands for senders that aren't known.
    pub fn add(&self, service: &str, counts: &SenderCounts) {
        if *counts == SenderCounts::default() {
            return;
        }
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = sums.len() >= MAX_NAMES && !sums.contains_key(service);
        match sums.entry(if is_full { String::new() } else { service.to_owned() }) {
            Entry::Occupied(mut sum) => sum.get_mut().add(counts),
            Entry::Vacant(empty) => {
                empty.insert(*counts);
            }
        }
    }

    /// Writes what was summed since the last time; after an error it is kept for the next.
    pub async fn write(&self, store: &Store) -> Result<(), StoreError> {
        let taken: Vec<(String, SenderCounts)> = {
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.drain().collect()
        };
        let written = store.add_sender_counts(&taken).await;
        if written.is_err() {
            for (service, counts) in &taken {
                self.add(service, counts);
            }
        }
        written
    }

    /// Writes every few seconds, forever.
    pub async fn write_regularly(&self, store: &Store, metrics: &Metrics) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.write(store).await {
                metrics.store_failed(Operation::Tally);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "counts of senders could not be written; trying again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_names_are_bounded() {
        let tally = SenderTally::default();
        let one = SenderCounts { rejected: 1, ..SenderCounts::default() };
        for n in 0..MAX_NAMES + 5 {
            tally.add(&format!("service-{n}"), &one);
        }
        tally.add("service-0", &one);
        tally.add("nothing", &SenderCounts::default());
        let sums = tally.sums.lock().unwrap();
        assert_eq!(sums.len(), MAX_NAMES + 1);
        assert_eq!(sums["service-0"].rejected, 2);
        assert_eq!(sums[""].rejected, 5);
    }
}
