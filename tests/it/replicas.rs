//! More than one machine: real processes over one PostgreSQL, in a database of its own for each
//! test, so that deadlocks can be counted.

use crate::support::Process;
use crate::support::postgres::Database;
use crate::workload;
use retrylens::domain::stored::Inserted;
use retrylens::domain::time::UnixMillis;
use retrylens::store::Store;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

/// Events that a test sends, in batches of [`BATCH`].
const EVENTS: u64 = 3_000;
const BATCH: u64 = 100;

/// A replica with a folder of its own.
struct Replica {
    process: Process,
    folder: tempfile::TempDir,
}

impl Replica {
    fn start(database: &Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = database.url();
        let process =
            Process::serve(folder.path(), &[], &[("RETRYLENS_DATABASE_URL", url.as_str())]);
        Self { process, folder }
    }

    /// Sends the batch that begins with event `from`: how many of it were stored and how many were
    /// there. `None` where no answer came.
    fn send(&self, from: u64) -> Option<(u64, u64)> {
        let body = workload::batch(from, from + BATCH, EVENTS);
        let mut stream =
            TcpStream::connect_timeout(&self.process.address, Duration::from_secs(5)).ok()?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).unwrap();
        let (head, json) = answer.split_once("\r\n\r\n")?;
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}\n{}", self.log());
        let json: serde_json::Value = serde_json::from_str(json).ok()?;
        assert_eq!(json["rejected"], serde_json::json!([]), "{json}");
        Some((json["stored"].as_u64().unwrap(), json["duplicates"].as_u64().unwrap()))
    }

    /// Sends batches one after the other; what was stored and what was there, added up.
    fn send_all(&self, batches: impl Iterator<Item = u64>) -> (u64, u64) {
        batches.map(|from| self.send(from).unwrap()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    fn is_ready(&self) -> bool {
        self.process.get("/readyz").starts_with("HTTP/1.1 200")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// The first events of all batches.
fn batches() -> impl DoubleEndedIterator<Item = u64> + Clone {
    (0..EVENTS / BATCH).map(|n| n * BATCH)
}

/// Every event is there once, the sums agree with a recount, and nobody was in a deadlock.
async fn assert_exact(database: Database) {
    let store = Store::open(&database.url()).await.unwrap();
    let recount = store.recount().await.unwrap();
    assert_eq!(recount.events, i64::try_from(EVENTS).unwrap());
    assert!(recount.agrees(), "{recount:?}");
    let services: i64 = store.senders().await.unwrap().iter().map(|s| s.counts.events).sum();
    assert_eq!(services, recount.events, "senders are counted once as well");
    store.close().await.unwrap();
    assert_eq!(database.deadlocks().await, 0);
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_get_the_same_batches_store_and_count_each_event_once() {
    let Some(database) = Database::create().await else { return };
    for replicas in [2, 3] {
        let all: Vec<Replica> = (0..replicas).map(|_| Replica::start(&database)).collect();
        let sums = std::thread::scope(|scope| {
            let mut senders = Vec::new();
            for (n, replica) in all.iter().enumerate() {
                // Each replica gets every batch twice: from both ends at once.
                senders.push(scope.spawn(move || replica.send_all(batches())));
                senders.push(scope.spawn(move || {
                    replica.send_all(batches().cycle().skip(7 * n).take(batches().count()))
                }));
            }
            senders.into_iter().map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
        });
        let stored: u64 = sums.iter().map(|sum| sum.0).sum();
        let known: u64 = sums.iter().map(|sum| sum.1).sum();
        assert_eq!(stored, if replicas == 2 { EVENTS } else { 0 });
        assert_eq!(stored + known, EVENTS * 2 * replicas);
        assert!(all.iter().all(Replica::is_ready));
    }
    assert_exact(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_start_at_once_on_an_empty_database_and_all_serve() {
    let Some(database) = Database::create().await else { return };
    let all: Vec<Replica> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(|| Replica::start(&database))).collect();
        starting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for replica in &all {
        assert!(replica.is_ready(), "{}", replica.log());
    }
    assert_eq!(
        database.number("SELECT COUNT(*) - COUNT(DISTINCT version) FROM schema_changes").await,
        0
    );
    assert_eq!(database.number("SELECT COUNT(*) FROM settings WHERE name = 'hash-key'").await, 1);
    let stored: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|n| {
                let replica = &all[n];
                scope.spawn(move || replica.send_all(batches().skip(n).step_by(3)).0)
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert_eq!(stored, EVENTS);
    drop(all);
    assert_exact(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_killed_loses_nothing_that_was_acknowledged() {
    let Some(database) = Database::create().await else { return };
    let (victim, other) = (Replica::start(&database), Replica::start(&database));
    let acknowledged = Mutex::new(BTreeSet::new());
    let send = |replica: &Replica, first: usize| {
        for from in batches().skip(first).step_by(3) {
            if replica.send(from).is_some() {
                acknowledged.lock().unwrap().insert(from);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| send(&victim, 0));
        scope.spawn(|| send(&victim, 1));
        scope.spawn(|| send(&other, 2));
        while acknowledged.lock().unwrap().len() < 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
        victim.process.signal("KILL");
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!((8..batches().count()).contains(&acknowledged.len()), "{}", acknowledged.len());
    for from in batches() {
        let (stored, known) = other.send(from).unwrap();
        assert_eq!(stored + known, BATCH);
        // What wasn't acknowledged was stored whole or not at all.
        assert!(known == BATCH || (stored == BATCH && !acknowledged.contains(&from)), "{from}");
    }
    drop(other);
    assert_exact(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_run_on_the_schema_of_a_later_version() {
    let Some(database) = Database::create().await else { return };
    let running = Replica::start(&database);
    let half = batches().count() / 2;
    assert_eq!(running.send_all(batches().take(half)).0, BATCH * half as u64);
    // What a later version may add: a column, a table, an index, a record of the change.
    database
        .run(
            "ALTER TABLE events ADD COLUMN later TEXT;
             ALTER TABLE series ADD COLUMN later BIGINT NOT NULL DEFAULT 0;
             ALTER TABLE class_counts ADD COLUMN later BIGINT NOT NULL DEFAULT 0;
             CREATE TABLE later (id BIGINT PRIMARY KEY);
             CREATE INDEX later_by_body ON events (body_hash) WHERE body_hash IS NOT NULL;
             INSERT INTO schema_changes (version, name) VALUES (9999, '9999_later')",
        )
        .await;
    let started = Replica::start(&database);
    assert!(running.is_ready() && started.is_ready());
    let stored = std::thread::scope(|scope| {
        let first = scope.spawn(|| running.send_all(batches().skip(half)).0);
        let second = scope.spawn(|| started.send_all(batches()).0);
        first.join().unwrap() + second.join().unwrap()
    });
    assert_eq!(stored, EVENTS - BATCH * half as u64);
    assert_eq!(
        database.number("SELECT COUNT(*) FROM schema_changes WHERE version = 9999").await,
        1
    );
    assert!(started.process.get("/").starts_with("HTTP/1.1 200"));
    drop((running, started));
    assert_exact(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_go_on_after_every_connection_was_cut() {
    let Some(database) = Database::create().await else { return };
    let replica = Replica::start(&database);
    for (n, from) in batches().enumerate() {
        if n % 5 == 4 {
            database.cut_connections().await;
        }
        // Connections that were cut while nobody used them are replaced unseen.
        assert_eq!(replica.send(from), Some((BATCH, 0)), "{}", replica.log());
    }
    database.cut_connections().await;
    assert!(replica.is_ready());
    assert!(replica.process.get("/").starts_with("HTTP/1.1 200"));
    drop(replica);
    assert_exact(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_finds_the_server_that_writes_again() {
    let Some(database) = Database::create().await else { return };
    let store = Store::open(&database.url()).await.unwrap();
    let own = |id: &str| vec![crate::store_contract::plain(id)];
    let now = UnixMillis(workload::START_MS);
    store.insert(&own("before"), now).await.unwrap();
    // What a server answers that became a standby; its connections stay open.
    let name = database.name();
    database.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    database.cut_connections().await;
    for _ in 0..3 {
        let refused = store.insert(&own("refused"), now).await.unwrap_err();
        assert!(refused.is_passing(), "{refused:?}");
    }
    // The address now leads to another server; nobody cuts the old connections.
    database
        .run(&format!(
            "BEGIN READ WRITE; ALTER DATABASE {name} RESET default_transaction_read_only; COMMIT"
        ))
        .await;
    assert_eq!(store.insert(&own("after"), now).await.unwrap(), [Inserted::Stored]);
    store.close().await.unwrap();
    database.drop().await;
}

/// Columns that tables are distributed by on Citus, as `docs/scaling.md` has them.
const DISTRIBUTED: &[(&str, &str)] = &[
    ("events", "event_id"),
    ("minute_counts", "series_id"),
    ("slot_counts", "series_id"),
    ("hour_counts", "series_id"),
    ("class_counts", "series_id"),
    ("class_hours", "series_id"),
    ("actor_counts", "series_id"),
    ("actor_hours", "series_id"),
    ("wait_counts", "series_id"),
    ("wait_hours", "series_id"),
];

#[tokio::test]
async fn every_unique_key_holds_the_column_its_table_is_distributed_by() {
    let Some(database) = Database::create().await else { return };
    let store = Store::open(&database.url()).await.unwrap();
    for (table, column) in DISTRIBUTED {
        let unique = format!(
            "SELECT COUNT(*) FROM pg_index WHERE indrelid = '{table}'::regclass AND indisunique"
        );
        assert!(database.number(&unique).await > 0, "{table} has no key");
        let without = format!(
            "{unique} AND NOT (SELECT attnum FROM pg_attribute \
             WHERE attrelid = '{table}'::regclass AND attname = '{column}') = ANY(indkey)"
        );
        assert_eq!(database.number(&without).await, 0, "{table}");
        let numbered = format!(
            "SELECT COUNT(*) FROM pg_attribute \
             WHERE attrelid = '{table}'::regclass AND attidentity <> ''"
        );
        assert_eq!(database.number(&numbered).await, 0, "{table}");
    }
    for forbidden in [
        "SELECT COUNT(*) FROM pg_constraint WHERE contype IN ('f', 'x') \
         AND connamespace = 'public'::regnamespace",
        "SELECT COUNT(*) FROM pg_trigger WHERE NOT tgisinternal",
    ] {
        assert_eq!(database.number(forbidden).await, 0, "{forbidden}");
    }
    store.close().await.unwrap();
    database.drop().await;
}
