//! `kill -9` under load, and a start on what is left. (A killed process loses no write that the
//! system took; that the writes are flushed too, for a loss of power, is checked where the
//! database is opened.)

use super::dice;
use super::ledger::{Ledger, OnDrop};
use crate::support::Process;
use crate::support::process::command;
use rand::RngExt as _;
use rand::rngs::StdRng;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Connections that send at once.
const SENDERS: u64 = 4;

/// Kills the service `kills` times at random moments under load on one growing database, sends
/// everything again, and checks that each event is there once.
fn kill_and_check(folder: &Path, url: &str, kills: u32, dice: &mut StdRng) {
    let ledger = Ledger::default();
    let environment = [("RETRYLENS_DATABASE_URL", url)];
    let (mut in_flight, mut at_start) = (0, 0);
    let began = Instant::now();
    for kill in 0..kills {
        if dice.random_range(0..6) == 0 {
            // In the middle of a start, which may be the one that recovers or makes the tables.
            let mut starting = command(folder)
                .env("RETRYLENS_LISTEN", "127.0.0.1:0")
                .env("RETRYLENS_RETENTION_DAYS", "36500")
                .env("RETRYLENS_SUMS_RETENTION_DAYS", "36500")
                .envs(environment)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(dice.random_range(0..60_000)));
            starting.kill().unwrap();
            starting.wait().unwrap();
            at_start += 1;
            continue;
        }
        let mut process = Process::serve(folder, &[], &environment);
        let (address, is_over) = (process.address, AtomicBool::new(false));
        let open_before = ledger.counts.unanswered.load(Ordering::Relaxed);
        // At a random moment of a random batch, however fast the machine is.
        let batches = ledger.batches() + dice.random_range(0..30);
        let delay = Duration::from_micros(dice.random_range(0..30_000));
        let (seed, started) = (dice.random(), Instant::now());
        std::thread::scope(|scope| {
            let _over = OnDrop(&is_over);
            scope.spawn(|| ledger.load(address, SENDERS, seed, &is_over));
            while ledger.batches() < batches && started.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(delay);
            process.signal("KILL");
            is_over.store(true, Ordering::Relaxed);
            process.wait();
        });
        in_flight += i32::from(ledger.counts.unanswered.load(Ordering::Relaxed) > open_before);
        if kill % 20 == 19 {
            eprintln!("after {} kills: {}", kill + 1, ledger.told());
        }
    }
    let mut process = Process::serve(folder, &[], &environment);
    eprintln!(
        "{kills} kills in {:.1?}, {in_flight} with batches in flight, {at_start} during a start: {}",
        began.elapsed(),
        ledger.told()
    );
    assert!(ledger.acknowledged() > 0, "nothing was acknowledged");
    assert!(in_flight > 0, "no kill hit a batch in flight: {}", ledger.told());
    ledger.settle(process.address);
    process.signal("TERM");
    assert!(process.wait().success());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(ledger.assert_exact(url));
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

fn on_sqlite(kills: u32, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    kill_and_check(folder.path(), &url, kills, &mut dice(test));
}

fn on_postgres(kills: u32, test: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(schema) = runtime.block_on(crate::support::postgres::Schema::create()) else { return };
    let folder = tempfile::tempdir().unwrap();
    kill_and_check(folder.path(), &schema.url(), kills, &mut dice(test));
    runtime.block_on(schema.drop());
}

#[test]
fn a_service_killed_under_load_keeps_every_acknowledged_event_once() {
    on_sqlite(6, "kill, SQLite");
}

#[test]
fn a_service_killed_under_load_on_postgres_keeps_every_acknowledged_event_once() {
    on_postgres(4, "kill, PostgreSQL");
}

#[test]
#[ignore = "long: make torture"]
fn a_hundred_kills_under_load_keep_every_acknowledged_event_once() {
    on_sqlite(100, "100 kills, SQLite");
}

#[test]
#[ignore = "long: make torture"]
fn thirty_kills_under_load_on_postgres_keep_every_acknowledged_event_once() {
    on_postgres(30, "30 kills, PostgreSQL");
}
