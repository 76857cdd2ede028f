//! The same day of events in a SQLite store and in DuckDB.

use crate::duck::{Duck, write_row};
use crate::workload;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::stored::NewEvent;
use retrylens::domain::time::UnixMillis;
use retrylens::ingest::native::{self, DecodeOptions, Format, RawKeys};
use retrylens::pipeline::judge;
use retrylens::store::{Draft, Store};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Stores are filled with so many transactions, spread over the day, as by a live feed.
const GROUPS: u64 = 2_000;
/// Nothing is removed.
/// Rows that DuckDB loads at a time.
const CHUNK: usize = 200_000;

/// Ids of events in the middle of the day, to be looked up.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ids {
    pub(crate) event: String,
    pub(crate) operation: String,
    pub(crate) request: String,
    pub(crate) ray: String,
    pub(crate) trace: String,
}

impl Ids {
    /// Takes what is still missing from an event; operations with a retry, so that there is
    /// something to see.
    fn take(&mut self, new: &NewEvent) {
        let event = &new.event;
        let fill = |id: &mut String, from: Option<&String>| {
            if id.is_empty() {
                *id = from.cloned().unwrap_or_default();
            }
        };
        fill(&mut self.event, new.verdict.limited.then_some(&event.event_id));
        fill(&mut self.operation, event.operation_id.as_ref().filter(|_| event.attempt > 1));
        fill(&mut self.request, event.request_id.as_ref());
        fill(&mut self.ray, event.ray_id.as_ref());
        fill(&mut self.trace, event.trace_id.as_ref());
    }
}

/// Fills `store`, and DuckDB where there is one, with the first `events` of the day's load.
pub(crate) async fn fill(
    store: &Store,
    mut duck: Option<&mut Duck>,
    events: u64,
    folder: &Path,
) -> Ids {
    let group = (events / GROUPS).clamp(1, 10_000);
    let hasher = KeyHasher::new(&[7; 32]);
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Refuse,
        max_items: usize::MAX,
        format: Format::Ndjson,
    };
    let file = folder.join("rows.csv");
    let (mut csv, mut rows) = (String::new(), 0);
    let mut ids = Ids::default();
    let mut from = 0;
    while from < events {
        let to = events.min(from + group);
        let decoded =
            native::decode(workload::batch(from, to, events).as_bytes(), &options).unwrap();
        assert!(decoded.rejects.is_empty(), "the door takes every event");
        let new: Vec<NewEvent> =
            decoded.events.into_iter().map(|(_, event)| judge(event)).collect();
        // They arrive when the last of them is answered.
        let received_at =
            new.iter().map(|one| one.event.answered_at()).max().unwrap_or(UnixMillis(0));
        if duck.is_some() {
            for one in &new {
                write_row(&mut csv, one, received_at);
            }
            rows += new.len();
        }
        if from > events / 2 {
            for one in &new {
                ids.take(one);
            }
        }
        let drafts = new.into_iter().map(Draft::new).collect();
        store.insert_drafts(Arc::new(drafts), received_at).await.unwrap();
        // As the service does beside its inserts.
        while store.gather(received_at).await.unwrap() {}
        from = to;
        if let Some(duck) = duck.as_deref_mut()
            && (rows >= CHUNK || from == events)
        {
            std::fs::write(&file, &csv).unwrap();
            duck.load(&file);
            csv.clear();
            rows = 0;
        }
    }
    std::fs::remove_file(&file).ok();
    ids
}
