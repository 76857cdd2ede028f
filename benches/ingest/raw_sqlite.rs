//! The yardstick on SQLite: the rows that the service wrote, inserted again into an empty file of
//! the same schema by prepared statements, a row each, without anything around it.
//!
//! Rows are those of `events`, in the order of arrival, and those of `ids`, which is the index of
//! their ids. What is derived (sums and dictionaries) is not written: it is the service's own cost.

use crate::report::Rate;
use crate::server::own_cpu_seconds;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params_from_iter};
use std::path::Path;
use tokio::time::Instant;

/// Rows in memory at a time.
const CHUNK: u32 = 50_000;
/// Rows in a transaction, as the service commits under load.
pub(crate) const GROUP: usize = 5_000;

/// Inserts the rows of `source` into `target`, which is made; reading them does not count.
pub(crate) fn insert_again(source: &Path, target: &Path) -> Rate {
    let source = Connection::open_with_flags(source, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut target = open_empty(target, &source);
    let mut rows = Rows::new(&source);
    let mut rate = Rate::default();
    loop {
        let chunk = rows.next_chunk();
        if chunk.is_empty() {
            break;
        }
        let (begun, cpu) = (Instant::now(), own_cpu_seconds());
        for group in chunk.chunks(GROUP) {
            insert(&mut target, &rows, group);
        }
        rate.add(Rate {
            events: chunk.len() as u64,
            seconds: begun.elapsed().as_secs_f64(),
            cpu_seconds: own_cpu_seconds() - cpu,
        });
    }
    for table in ["events", "ids"] {
        let count = |of: &Connection| has_table(of, table).then(|| count(of, table));
        assert_eq!(count(&target), count(&source), "rows of {table}");
    }
    rate
}

/// An empty file with the schema and the settings of the service.
fn open_empty(file: &Path, like: &Connection) -> Connection {
    let target = Connection::open(file).unwrap();
    target
        .execute_batch(
            "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000; \
             PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;",
        )
        .unwrap();
    let mut schema = like
        .prepare(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' \
             ORDER BY type = 'table' DESC, rowid",
        )
        .unwrap();
    let texts = schema.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for text in texts {
        target.execute_batch(&text.unwrap()).unwrap();
    }
    target
}

/// A row of `events`, and how many rows of `ids` belong to it.
struct Event {
    values: Vec<Value>,
    ids: std::ops::Range<usize>,
}

/// The rows to insert, in the order of arrival.
struct Rows<'c> {
    source: &'c Connection,
    columns: usize,
    last_id: i64,
    /// Event, slice and key of every row of `ids`, by event.
    ids: Vec<[i64; 3]>,
    ids_taken: usize,
}

impl<'c> Rows<'c> {
    fn new(source: &'c Connection) -> Self {
        let mut ids = Vec::new();
        if has_table(source, "ids") {
            let mut all = source.prepare("SELECT id, slice, key FROM ids").unwrap();
            let rows =
                all.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])).unwrap();
            ids.extend(rows.map(Result::unwrap));
            ids.sort_unstable();
        }
        let columns = source.prepare("SELECT * FROM events").unwrap().column_count();
        Self { source, columns, last_id: i64::MIN, ids, ids_taken: 0 }
    }

    fn next_chunk(&mut self) -> Vec<Event> {
        let mut next = self
            .source
            .prepare_cached("SELECT id, * FROM events WHERE id > ?1 ORDER BY id LIMIT ?2")
            .unwrap();
        let mut rows = next.query((self.last_id, CHUNK)).unwrap();
        let mut chunk = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            self.last_id = row.get(0).unwrap();
            let values = (1..=self.columns).map(|n| row.get(n).unwrap()).collect();
            let begin = self.ids_taken;
            while self.ids.get(self.ids_taken).is_some_and(|id| id[0] == self.last_id) {
                self.ids_taken += 1;
            }
            chunk.push(Event { values, ids: begin..self.ids_taken });
        }
        chunk
    }
}

/// One transaction.
fn insert(target: &mut Connection, rows: &Rows<'_>, group: &[Event]) {
    let marks = vec!["?"; rows.columns].join(", ");
    let transaction = target.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    {
        let text = format!("INSERT INTO events VALUES ({marks})");
        let mut add_event = transaction.prepare_cached(&text).unwrap();
        let mut add_id = (!rows.ids.is_empty()).then(|| {
            transaction
                .prepare_cached("INSERT INTO ids (id, slice, key) VALUES (?1, ?2, ?3)")
                .unwrap()
        });
        for event in group {
            add_event.execute(params_from_iter(&event.values)).unwrap();
            if let Some(add_id) = &mut add_id {
                for id in &rows.ids[event.ids.clone()] {
                    add_id.execute(*id).unwrap();
                }
            }
        }
    }
    transaction.commit().unwrap();
}

fn has_table(connection: &Connection, name: &str) -> bool {
    connection.table_exists(None, name).unwrap()
}

fn count(connection: &Connection, table: &str) -> i64 {
    let text = format!("SELECT count(*) FROM {table}");
    connection.query_row(&text, [], |row| row.get(0)).unwrap()
}
