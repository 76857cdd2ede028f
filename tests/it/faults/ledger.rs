//! Who was promised what: batches that were acknowledged, and batches whose fate isn't known.
//!
//! Senders under a fault do as they are told to: what was not acknowledged is sent again, the same
//! events in the same batch, until it is.

use crate::support::http::{Client, Reply};
use crate::workload;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use retrylens::store::Store;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Events of the fleet in its day; the tests send the first of them.
const DAY: u64 = 2_000_000;
/// Sizes of batches: single events, usual batches, bulk. An unoptimized service gets less of it.
const SIZES: [u64; 6] =
    if cfg!(debug_assertions) { [1, 10, 20, 50, 100, 250] } else { [1, 20, 100, 100, 500, 2_000] };

/// Batches by what is known of them. Threads share it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The first event that was never sent.
    next: AtomicU64,
    acknowledged: Mutex<Vec<Range<u64>>>,
    /// Sent, and no answer or a refusal came.
    open: Mutex<Vec<Range<u64>>>,
    pub(super) counts: Counts,
}

/// What happened, for the log and to see that a test really met what it is about.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Batches whose answer never came.
    pub(super) unanswered: AtomicU64,
    /// Of those, batches that turned out to be stored.
    pub(super) stored_unseen: AtomicU64,
    /// Batches that were refused with a wait.
    pub(super) refused: AtomicU64,
    /// Acknowledged batches that were sent again.
    pub(super) repeated: AtomicU64,
}

/// Ends a load where the test that began it ends, however it does: a scope waits for its threads.
pub(super) struct OnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The events of a batch as NDJSON.
pub(super) fn lines(batch: &Range<u64>) -> String {
    workload::batch(batch.start, batch.end, DAY)
}

/// Stored and duplicates of a receipt that rejected nothing.
pub(super) fn receipt(reply: &Reply) -> (u64, u64) {
    let receipt = reply.json();
    assert_eq!(receipt["rejected"], serde_json::json!([]), "{receipt}");
    (receipt["stored"].as_u64().unwrap(), receipt["duplicates"].as_u64().unwrap())
}

impl Ledger {
    /// A batch that was never sent.
    pub(super) fn fresh(&self, events: u64) -> Range<u64> {
        let start = self.next.fetch_add(events, Ordering::SeqCst);
        assert!(start + events <= DAY, "the fleet's day is over");
        start..start + events
    }

    /// Events that were sent at all.
    pub(super) fn sent(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Batches that were acknowledged.
    pub(super) fn batches(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Events that were acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.lock().unwrap().iter().map(|batch| batch.end - batch.start).sum()
    }

    /// How many batches are neither acknowledged nor given up.
    pub(super) fn open(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    /// Sends a batch once and books what is known of it then.
    pub(super) fn send(
        &self,
        client: &mut Client,
        batch: Range<u64>,
        is_new: bool,
    ) -> Option<Reply> {
        let reply = client.send(&lines(&batch));
        match &reply {
            Some(reply) if reply.status == 200 => {
                let (stored, duplicates) = receipt(reply);
                assert_eq!(stored + duplicates, batch.end - batch.start, "{reply:?}");
                if is_new {
                    assert_eq!(duplicates, 0, "events that were never sent are there: {reply:?}");
                }
                // A batch is one transaction: all of it is there or nothing.
                assert!(stored == 0 || duplicates == 0, "half a batch was there: {reply:?}");
                if duplicates > 0 {
                    self.counts.stored_unseen.fetch_add(1, Ordering::Relaxed);
                }
                self.acknowledged.lock().unwrap().push(batch);
            }
            Some(reply) => {
                assert!(matches!(reply.status, 429 | 503), "{reply:?}");
                assert!(!reply.header("retry-after").is_empty(), "{reply:?}");
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.open.lock().unwrap().push(batch);
            }
            None => {
                self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
                self.open.lock().unwrap().push(batch);
            }
        }
        reply
    }

    /// Sends an acknowledged batch again: all of it has to be there. Whether it was answered, or
    /// refused with a time to wait.
    pub(super) fn repeat(&self, client: &mut Client, batch: &Range<u64>) -> bool {
        let Some(reply) = client.send(&lines(batch)) else { return false };
        if reply.status == 200 {
            let counts = receipt(&reply);
            let size = batch.end - batch.start;
            assert_eq!(counts, (0, size), "acknowledged events {batch:?} are missing: {reply:?}");
            self.counts.repeated.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(matches!(reply.status, 429 | 503), "{reply:?}");
            assert!(!reply.header("retry-after").is_empty(), "{reply:?}");
            eprintln!("a repeat was refused: {reply:?}");
        }
        reply.status == 200
    }

    /// Sends from `senders` connections until `is_over`: what is open first, then new batches, now
    /// and then an acknowledged one again.
    pub(super) fn load(&self, address: SocketAddr, senders: u64, seed: u64, is_over: &AtomicBool) {
        std::thread::scope(|scope| {
            for sender in 0..senders {
                scope.spawn(move || {
                    let mut dice = StdRng::seed_from_u64(seed.wrapping_add(sender));
                    let mut client = Client::new(address);
                    while !is_over.load(Ordering::Relaxed) {
                        let open = self.open.lock().unwrap().pop();
                        let is_new = open.is_none();
                        let size = SIZES[dice.random_range(0..SIZES.len())];
                        let batch = open.unwrap_or_else(|| self.fresh(size));
                        match self.send(&mut client, batch, is_new) {
                            Some(reply) if reply.status == 200 => {}
                            _ => std::thread::sleep(Duration::from_millis(50)),
                        }
                        if dice.random_range(0..8) == 0
                            && let Some(known) = self.any_acknowledged(&mut dice)
                        {
                            self.repeat(&mut client, &known);
                        }
                    }
                });
            }
        });
    }

    fn any_acknowledged(&self, dice: &mut StdRng) -> Option<Range<u64>> {
        let acknowledged = self.acknowledged.lock().unwrap();
        let at = dice.random_range(0..acknowledged.len().max(1));
        acknowledged.get(at).cloned()
    }

    /// Sends what is open until all of it is acknowledged, then every acknowledged batch again.
    pub(super) fn settle(&self, address: SocketAddr) {
        let mut client = Client::new(address);
        for _ in 0..1_000 {
            let Some(batch) = self.open.lock().unwrap().pop() else { break };
            match self.send(&mut client, batch, false) {
                Some(reply) if reply.status == 200 => {}
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
        assert_eq!(self.open(), 0, "batches are still refused");
        let all = self.acknowledged.lock().unwrap().clone();
        let mut refused = 0;
        for batch in &all {
            // A connection of the pool may still be a lost one, which costs a refusal each.
            while !self.repeat(&mut client, batch) {
                refused += 1;
                assert!(refused < 100, "batches that are stored are still refused");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        if refused > 0 {
            eprintln!("{refused} repeats were refused before they were answered");
        }
    }

    /// After [`Self::settle`]: as many events are stored as were ever sent, a sample of them is
    /// found by its id once each, and every sum agrees with a recount.
    pub(super) async fn assert_exact(&self, url: &str) {
        assert_eq!(self.acknowledged(), self.sent());
        let store = Store::open(url).await.unwrap();
        let recount = store.recount().await.unwrap();
        assert_eq!(recount.events, i64::try_from(self.sent()).unwrap(), "each event once");
        assert!(recount.agrees(), "{recount:?}");
        let step = (self.sent() / 200).max(1);
        for n in (0..self.sent()).step_by(usize::try_from(step).unwrap()) {
            let line: serde_json::Value = serde_json::from_str(&lines(&(n..n + 1))).unwrap();
            let id = line["event_id"].as_str().unwrap();
            let found = store.events_by_id(id).await.unwrap();
            assert_eq!(found.len(), 1, "{id}");
            assert_eq!(found[0].event.occurred_at.to_rfc3339(), line["occurred_at"], "{id}");
        }
        store.close().await.unwrap();
    }

    /// What happened, in one line.
    pub(super) fn told(&self) -> String {
        format!(
            "{} events sent, {} acknowledged, {} batches open, {:?}",
            self.sent(),
            self.acknowledged(),
            self.open(),
            self.counts
        )
    }
}
