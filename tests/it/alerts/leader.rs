//! Two replicas over one PostgreSQL: one evaluates, and the other goes on where it stops.

use crate::support::Process;
use crate::support::postgres::Database;
use std::time::Duration;

/// Number of the first half of the lock (`store/seat.rs`).
const HOLDERS: &str = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted \
                       AND classid = 1634493810";
const CLOCK: &str = "SELECT minute FROM alert_clock";
/// It is looked every ten seconds who evaluates.
const PATIENCE: u32 = 20;

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

    /// How often it has begun to evaluate.
    fn begun(&self) -> usize {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.matches("this replica evaluates the alerts").count()
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
             WHERE locktype = 'advisory' AND granted AND classid = 1634493810",
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
