//! Two replicas over one PostgreSQL: one evaluates, and the other goes on where it stops.

use crate::notify::receiver::{Receiver, Reply};
use crate::notify::{KEY, pager};
use crate::support::Process;
use crate::support::postgres::Database;
use retrylens::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of the first half of the lock (`store/seat.rs`).
const HOLDERS: &str = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted \
                       AND classid = 1634493810 AND database = \
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
const CLOCK: &str = "SELECT minute FROM alert_clock";
/// It is looked every ten seconds who evaluates.
const PATIENCE: u32 = 20;

struct Replica {
    process: Process,
    folder: tempfile::TempDir,
}

impl Replica {
    fn start(database: &Database) -> Self {
        Self::with(database, &[])
    }

    fn with(database: &Database, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = database.url();
        let environment = [&[("RETRYLENS_DATABASE_URL", url.as_str())], more].concat();
        let process = Process::serve(folder.path(), &[], &environment);
        Self { process, folder }
    }

    /// How often it has begun to evaluate.
    fn begun(&self) -> usize {
        self.logged("this replica evaluates the alerts")
    }

    /// How often it logged some words.
    fn logged(&self, words: &str) -> usize {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.matches(words).count()
    }
}

/// Waits for the clock of the evaluations to reach `minute`; one replica at most has the lock all
/// the while.
async fn until(database: &Database, minute: i64) {
    for _ in 0..PATIENCE * 4 {
        assert!(database.number(HOLDERS).await <= 1);
        if database.number(CLOCK).await >= minute {
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("nobody evaluated within {PATIENCE} s");
}

/// Puts the clock some minutes back, as if nobody had evaluated since, and tells where it stood.
async fn miss(database: &Database) -> i64 {
    let stood = database.number(CLOCK).await;
    database.run("UPDATE alert_clock SET minute = minute - 3").await;
    stood
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_evaluates_and_another_takes_over_when_it_dies_or_is_cut_off() {
    let Some(database) = Database::create().await else { return };
    let replicas = [Replica::start(&database), Replica::start(&database)];
    until(&database, 0).await;
    let begun = || replicas.each_ref().map(Replica::begun);
    let leader = match begun() {
        [1, 0] => 0,
        [0, 1] => 1,
        both => panic!("{both:?}"),
    };
    assert_eq!(database.number(HOLDERS).await, 1);

    // Its connection is cut: one of the two goes on, once.
    let stood = miss(&database).await;
    database
        .number(
            "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_locks \
             WHERE locktype = 'advisory' AND granted AND classid = 1634493810 AND database = \
             (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        .await;
    until(&database, stood).await;
    let sum = |counts: [usize; 2]| counts[0] + counts[1];
    assert_eq!(sum(begun()), 2);

    // The one that has it now is killed.
    let counts = begun();
    let leader = if counts[1 - leader] == 1 { 1 - leader } else { leader };
    let stood = miss(&database).await;
    replicas[leader].process.signal("KILL");
    until(&database, stood).await;
    assert_eq!(sum(begun()), 3);
    assert!(replicas[1 - leader].begun() > counts[1 - leader], "the other one");
    drop(replicas);
    database.drop().await;
}

/// Waits until `is_so`, at most `seconds`.
async fn soon(what: &str, seconds: u32, mut is_so: impl FnMut() -> bool) {
    for _ in 0..seconds * 4 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("{what}: not within {seconds} s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_is_replaced_and_nothing_is_told_twice_when_it_thaws() {
    let Some(database) = Database::create().await else { return };
    let receiver = Receiver::start(|_| Reply::ok()).await;
    let receivers = pager(&receiver.url);
    let environment = [("RETRYLENS_RECEIVERS", receivers.as_str()), ("PAGER_KEY", KEY)];
    let replicas = [Replica::with(&database, &environment), Replica::with(&database, &environment)];
    until(&database, 0).await;
    let leader = usize::from(replicas[1].begun() > 0);
    let [frozen, other] = [&replicas[leader], &replicas[1 - leader]];
    assert_eq!((frozen.begun(), other.begun()), (1, 0));

    frozen.process.signal("STOP");
    let now = SystemClock.now();
    let event = |id: &str, fields: Value| {
        let mut event = json!({"event_id": id, "occurred_at": now.to_rfc3339(),
            "service": "checkout", "host": "api.example.com"});
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    };
    // A write that timed out and was sent again without a key: an alert as soon as it is evaluated.
    let events = json!([
        event("a", json!({"status": 200, "count": 60})),
        event(
            "b",
            json!({"method": "POST", "error": "timeout", "outcome": "retrying",
            "operation_id": "op"})
        ),
        event("c", json!({"method": "POST", "status": 201, "attempt": 2, "operation_id": "op"})),
    ]);
    let (status, answer) = other.process.post("/v1/events", &events).unwrap();
    assert_eq!(status, 200, "{answer}");
    // The server ends the session of who says nothing for a minute; within two minutes in all.
    soon("the other takes over", 120, || other.begun() == 1).await;
    soon("it tells of the alert", 90, || !receiver.seen().is_empty()).await;

    frozen.process.signal("CONT");
    soon("it learns that it no longer evaluates", 30, || {
        frozen.logged("this replica no longer evaluates the alerts") == 1
    })
    .await;
    // Both may try their hand at the next minute.
    let stood = database.number(CLOCK).await;
    let mut waited = 0;
    while database.number(CLOCK).await == stood {
        assert!(waited < 90, "no minute was evaluated for {waited} s");
        waited += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let seen = receiver.seen();
    let ids: BTreeSet<&str> = seen.iter().map(|one| one.headers["webhook-id"].as_str()).collect();
    assert_eq!(ids.len(), seen.len(), "each is told once");
    let fired = seen.iter().filter(|one| one.json()["type"] == "alert.firing");
    let names: Vec<String> = fired.map(|one| one.json()["data"]["alert"].to_string()).collect();
    assert_eq!(names, ["\"RetrylensDuplicateWrites\""]);
    assert_eq!((frozen.begun(), other.begun()), (1, 1));
    drop(replicas);
    database.drop().await;
}
