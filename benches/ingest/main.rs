//! How fast the service takes events in, against what the database itself can write.
//!
//! The real binary serves a database that is durable as by default; the load comes over HTTP from
//! this process, on the same machine. The yardstick is the same rows inserted again into an empty
//! database of the same schema, with nothing around it (`raw_sqlite`, `raw_postgres`). Both take
//! turns, so that a machine that slows down slows both.
//!
//! What is printed is not asserted, since it depends on the machine: PASS and FAIL say whether a
//! goal was reached on this one, in this run. Counts are asserted: every event sent is stored once,
//! and the sums agree with a recount.
//!
//! - `RETRYLENS_BENCH_EVENTS` (2,000,000): events stored at full load in SQLite.
//! - `RETRYLENS_BENCH_ROUNDS` (2): how often service and yardstick take turns.
//! - `RETRYLENS_BENCH_SECONDS` (20): how long latency at a steady rate is measured.
//! - `RETRYLENS_BENCH_POSTGRES_URL` (else `RETRYLENS_TEST_POSTGRES_URL`): a PostgreSQL in which
//!   databases may be made and dropped; without it that part is left out.
//! - `RETRYLENS_BENCH_POSTGRES_EVENTS` (1,000,000).

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

mod load;
mod raw_postgres;
mod raw_sqlite;
mod report;
mod server;
#[path = "../../tests/it/workload/mod.rs"]
mod workload;

use load::Answers;
use raw_postgres::Way;
use report::{Goal, Rate, count, say};
use retrylens::store::Store;
use server::{Server, own_cpu_seconds};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Batches of a full load, by turns, and the connections that send them.
const BATCHES: [u64; 3] = [500, 1_000, 2_000];
const CONNECTIONS: usize = 8;
/// Events whose requests are made beforehand and then sent: a point of measurement.
const WINDOW: u64 = 100_000;
/// Latency: events in a batch, the steady rate in events a second, connections.
const SMALL_BATCH: u64 = 100;
const STEADY: u64 = 5_000;
const SMALL_CONNECTIONS: usize = 32;
/// Events of small batches at full load.
const SMALL_EVENTS: u64 = 200_000;

fn main() {
    let events = setting("RETRYLENS_BENCH_EVENTS", 2_000_000).next_multiple_of(WINDOW);
    let rounds = setting("RETRYLENS_BENCH_ROUNDS", 2).max(1);
    let cores = std::thread::available_parallelism().unwrap();
    let begun = own_cpu_seconds();
    let bytes = workload::batch(0, WINDOW, WINDOW).len() / usize::try_from(WINDOW).unwrap();
    let micros = (own_cpu_seconds() - begun) * 1e6 / count(WINDOW);
    say(&format!("{cores} cores; rounds: {rounds}"));
    say(&format!("events of {bytes} bytes, made beforehand in {micros:.1} µs of CPU each"));
    sqlite(events, rounds);
    let url = ["RETRYLENS_BENCH_POSTGRES_URL", "RETRYLENS_TEST_POSTGRES_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    match url {
        Some(url) => {
            let events = setting("RETRYLENS_BENCH_POSTGRES_EVENTS", 1_000_000);
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(postgres(&url, events.next_multiple_of(WINDOW), rounds));
        }
        None => say("\nPostgreSQL: left out, RETRYLENS_BENCH_POSTGRES_URL is not set"),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
}

/// Sends windows of events at full load; gives the rate of each, and says the rate of all.
fn fill(server: &Server, events: u64, total: u64, round: u64) -> Vec<Rate> {
    let mut waits = 0;
    let windows: Vec<Rate> = (0..events)
        .step_by(usize::try_from(WINDOW).unwrap())
        .map(|from| {
            let to = events.min(from + WINDOW);
            let requests = load::requests(from, to, total, &BATCHES);
            let cpu = server.cpu_seconds();
            let answers = load::send_fast(server.address, &requests, CONNECTIONS);
            assert_eq!(answers.stored, to - from, "every event is stored");
            waits += answers.waits;
            let cpu_seconds = server.cpu_seconds() - cpu;
            Rate { events: to - from, seconds: answers.seconds, cpu_seconds }
        })
        .collect();
    sum(&windows).say(&format!("  {round}: service over HTTP"));
    if waits > 0 {
        say(&format!("     asked to wait {waits} times"));
    }
    windows
}

/// A folder in the target folder: the system's for temporary files is in memory on some machines,
/// where nothing is durable.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn sum(rates: &[Rate]) -> Rate {
    rates.iter().fold(Rate::default(), |mut all, rate| {
        all.add(*rate);
        all
    })
}

fn sqlite(events: u64, rounds: u64) {
    say(&format!("\nSQLite, {events} events"));
    let folder = folder();
    let (file, raw_file) = (folder.path().join("events.db"), folder.path().join("raw.db"));
    let url = format!("sqlite://{}", file.display());
    let seconds = setting("RETRYLENS_BENCH_SECONDS", 20);
    let total = events + STEADY * seconds + SMALL_EVENTS;

    let (mut service, mut raw) = (Rate::default(), Rate::default());
    let (mut early, mut late) = (Rate::default(), Rate::default());
    let mut memory = 0.0_f64;
    let mut bytes = 0;
    for round in 1..=rounds {
        remove(&file);
        remove(&raw_file);
        let server = Server::start(folder.path(), &url);
        let windows = fill(&server, events, total, round);
        memory = memory.max(server.memory_mb("VmHWM"));
        server.stop();
        bytes = size(&file);
        service.add(sum(&windows));
        // The windows around a tenth of the events, and the last ones.
        let tenth = windows.len() / 10;
        early.add(sum(&windows[tenth.saturating_sub(1)..=tenth]));
        late.add(sum(&windows[windows.len() - windows.len().min(2)..]));

        let again = raw_sqlite::insert_again(&file, &raw_file);
        again.say(&format!("  {round}: the same rows inserted raw"));
        assert_eq!(again.events, events, "rows of the file");
        raw.add(again);
    }
    remove(&raw_file);

    let server = Server::start(folder.path(), &url);
    let steady = steady(&server, events, seconds, total);
    let begin = events + STEADY * seconds;
    let requests = load::requests(begin, total, total, &[SMALL_BATCH]);
    let small = load::send_fast(server.address, &requests, SMALL_CONNECTIONS);
    assert_eq!(steady.stored + small.stored, total - events, "every event is stored");
    server.stop();

    let latency = |what: &str, answers: &Answers| {
        say(&format!(
            "  {what:<42} {:>9.1} ms p50 {:>8.1} ms p99 {:>8.1} ms max, asked to wait {} times",
            answers.quantile_ms(0.5),
            answers.quantile_ms(0.99),
            answers.quantile_ms(1.0),
            answers.waits
        ));
    };
    latency(&format!("batches of {SMALL_BATCH}, {STEADY} events/s"), &steady);
    let rate = count(small.stored) / small.seconds;
    latency(&format!("batches of {SMALL_BATCH}, full load, {rate:.0} events/s"), &small);

    Goal::AtLeast(0.45).say("  rate over raw", service.per_second() / raw.per_second(), "");
    let cpu = service.cpu_per_million() / raw.cpu_per_million();
    Goal::AtMost(4.5).say("  CPU over raw", cpu, "");
    // The goal is for two million events; with fewer it is easier to reach.
    let what = format!("  rate at {events} stored over at {}", events / 10);
    Goal::AtLeast(0.85).say(&what, late.per_second() / early.per_second(), "");
    Goal::AtMost(30.0).say("  p99, steady", steady.quantile_ms(0.99), "ms");
    Goal::AtMost(250.0).say("  p99, full load", small.quantile_ms(0.99), "ms");
    Goal::AtMost(450.0).say("  file, a stored event", count(bytes) / count(events), "bytes");
    Goal::AtMost(200.0).say("  peak resident memory at full load", memory, "MB");
    recount(&url, total);
}

/// Sends small batches at a steady rate.
fn steady(server: &Server, from: u64, seconds: u64, total: u64) -> Answers {
    let requests = load::requests(from, from + STEADY * seconds, total, &[SMALL_BATCH]);
    let interval = Duration::from_secs(1) * u32::try_from(SMALL_BATCH).unwrap()
        / u32::try_from(STEADY).unwrap();
    load::send_paced(server.address, &requests, SMALL_CONNECTIONS, interval)
}

/// Compares the sums of the database with its events.
fn recount(url: &str, events: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let begun = Instant::now();
    let recount = runtime.block_on(async {
        let store = Store::open(url).await.unwrap();
        let recount = store.recount().await.unwrap();
        store.close().await.unwrap();
        recount
    });
    assert_eq!(u64::try_from(recount.events), Ok(events), "events in the database");
    assert!(recount.agrees(), "{recount:?}");
    say(&format!("  recount agrees, {:.1} s", begun.elapsed().as_secs_f64()));
}

/// Bytes of a database file, with its write-ahead log where there is one.
fn size(file: &Path) -> u64 {
    let of = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    of(file) + of(&file.with_extension("db-wal"))
}

fn remove(file: &Path) {
    for ending in ["db", "db-wal", "db-shm"] {
        std::fs::remove_file(file.with_extension(ending)).ok();
    }
}

async fn postgres(server_url: &str, events: u64, rounds: u64) {
    say(&format!("\nPostgreSQL, {events} events"));
    let name = format!("retrylens_bench_{}", std::process::id());
    let (base, _) = server_url.rsplit_once('/').expect("an address with a database");
    let url = format!("{base}/{name}");
    let mut admin = PgConnection::connect(server_url).await.unwrap();
    let mut run = async |text: String| {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut admin).await.unwrap();
    };
    let folder = folder();
    let (mut service, mut raw, mut copy) = (Rate::default(), Rate::default(), Rate::default());
    let mut memory = 0.0_f64;
    for round in 1..=rounds {
        run(format!("DROP DATABASE IF EXISTS {name}")).await;
        run(format!("CREATE DATABASE {name}")).await;
        let server = Server::start(folder.path(), &url);
        let windows = fill(&server, events, events, round);
        memory = memory.max(server.memory_mb("VmHWM"));
        server.stop();
        service.add(sum(&windows));
        for (way, what, rates) in [
            (Way::Unnest, "the same rows by raw UNNEST", &mut raw),
            (Way::Copy, "the same rows by COPY", &mut copy),
        ] {
            let again = raw_postgres::insert_again(&url, way).await;
            again.say(&format!("  {round}: {what}, its client"));
            assert_eq!(again.events, events, "rows of the table");
            rates.add(again);
        }
    }
    Goal::AtLeast(0.6).say("  rate over raw UNNEST", service.per_second() / raw.per_second(), "");
    let over_copy = service.per_second() / copy.per_second();
    say(&format!("{:<44} {over_copy:>9.2}", "  rate over COPY"));
    say(&format!("{:<44} {memory:>9.0} MB", "  peak resident memory"));
    let checked = url.clone();
    tokio::task::spawn_blocking(move || recount(&checked, events)).await.unwrap();
    run(format!("DROP DATABASE {name}")).await;
}
