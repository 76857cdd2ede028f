//! Loads events through the intake, as the door does, and prints how fast they are stored and how
//! long pages' questions take on them. Figures are printed and never asserted; what is asserted is
//! that every event is there once and that the sums agree.
//!
//! `RETRYLENS_BENCH_EVENTS` (1,000,000), `RETRYLENS_BENCH_BATCH` (500 events a batch),
//! `RETRYLENS_BENCH_DATABASE_URL` (a SQLite file that is removed afterwards).

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

#[path = "../tests/it/workload/mod.rs"]
mod workload;

use retrylens::clock::SystemClock;
use retrylens::domain::event::Event;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::stored::{Inserted, RowFilter, Scope, TimeBasis, View};
use retrylens::domain::time::{HOUR_MS, UnixMillis, Window};
use retrylens::ingest::native::{self, DecodeOptions, Format, RawKeys};
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::Store;
use std::io::Write as _;
use std::sync::Arc;
use tokio::time::Instant;

/// When the hour that is asked about begins; not at a whole minute, so that it doesn't line up with
/// sums.
const BEGIN: UnixMillis = UnixMillis(workload::START_MS + 10 * HOUR_MS + 13_217);
const SENDERS: usize = 16;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// Events `from` to `to` of the day's load, as the door hands them on.
fn events(from: u64, to: u64, total: u64) -> Vec<Event> {
    let hasher = KeyHasher::new(&[7; 32]);
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Refuse,
        max_items: usize::MAX,
        format: Format::Ndjson,
    };
    let decoded = native::decode(workload::batch(from, to, total).as_bytes(), &options).unwrap();
    assert_eq!(decoded.rejects, []);
    decoded.events.into_iter().map(|(_, event)| event).collect()
}

/// CPU seconds of this process so far, where the system tells (Linux, 100 ticks a second).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| -> f64 {
        behind_name.split_whitespace().nth(at).and_then(|n| n.parse().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

async fn timed<T, E: std::fmt::Debug>(what: &str, question: impl AsyncFn() -> Result<T, E>) -> T {
    let mut best = f64::MAX;
    let mut answer = None;
    for _ in 0..3 {
        let begun = Instant::now();
        answer = Some(question().await.unwrap());
        best = best.min(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    say(&format!("{what:<52} {best:>9.1} ms"));
    answer.unwrap()
}

#[tokio::main]
async fn main() {
    let total = setting("RETRYLENS_BENCH_EVENTS", 1_000_000);
    let batch = setting("RETRYLENS_BENCH_BATCH", 500);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.db");
    let url = std::env::var("RETRYLENS_BENCH_DATABASE_URL")
        .unwrap_or_else(|_| format!("sqlite://{}", file.display()));
    let store = Store::open(&url).await.unwrap();
    let intake = Intake::start(store.clone(), Arc::new(SystemClock), IntakeSettings::default());

    let made = Instant::now();
    drop(events(0, 100_000, total));
    let making = made.elapsed().as_secs_f64() / 100_000.0;

    let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let cpu_before = cpu_seconds();
    let begun = Instant::now();
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let (next, intake) = (Arc::clone(&next), intake.clone());
        senders.spawn(async move {
            let mut stored = 0_u64;
            let mut slowest = 0.0_f64;
            loop {
                let from = next.fetch_add(batch, std::sync::atomic::Ordering::SeqCst);
                if from >= total {
                    return (stored, slowest);
                }
                let events = events(from, total.min(from + batch), total);
                let sent = Instant::now();
                let results = intake.submit(events).await.unwrap();
                slowest = slowest.max(sent.elapsed().as_secs_f64());
                stored += u64::try_from(
                    results.iter().filter(|result| **result == Inserted::Stored).count(),
                )
                .unwrap();
            }
        });
    }
    let (mut stored, mut slowest) = (0, 0.0_f64);
    while let Some(done) = senders.join_next().await {
        let (one, slow) = done.unwrap();
        stored += one;
        slowest = slowest.max(slow);
    }
    let took = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    let count = total as f64;
    say(&format!(
        "{} on {}",
        store.kind(),
        if url.contains("bench.db") { "a file" } else { "a server" }
    ));
    say(&format!("stored {stored} of {total} in {took:.1} s: {:.0} events/s", count / took));
    say(&format!(
        "  CPU {:.1} s a million, making the events taken off",
        (cpu_seconds() - cpu_before - making * count) * 1e6 / count
    ));
    say(&format!("  making the events took {:.1} s of CPU of it", making * count));
    say(&format!("  slowest batch of {batch}: {:.0} ms", slowest * 1_000.0));
    assert_eq!(stored, total);

    let window = Window { from: BEGIN, to: UnixMillis(BEGIN.0 + HOUR_MS) };
    let now = window.to;
    let all = View { scope: Scope::default(), window, time: TimeBasis::Event };
    let some = events(total / 2, total / 2 + 1, total).remove(0);
    let scope = Scope {
        service: Some(some.service.clone()),
        upstream: Some(some.host.clone()),
        ..Scope::default()
    };
    let pair = View { scope: scope.clone(), ..all.clone() };
    let received = View {
        window: Window { from: UnixMillis(0), to: UnixMillis(i64::MAX / 4) },
        time: TimeBasis::Received,
        ..all.clone()
    };
    timed("totals, an hour", async || store.totals(&all).await).await;
    timed("totals by receipt, everything", async || store.totals(&received).await).await;
    timed("buckets, an hour", async || store.buckets(&all, 60_000).await).await;
    timed("dimensions, an hour", async || store.dimensions(&all).await).await;
    timed("dimensions, one service and upstream", async || store.dimensions(&pair).await).await;
    timed("pairs, an hour", async || store.pairs(window, TimeBasis::Event).await).await;
    timed("facts, one service and upstream", async || store.facts(&pair, now).await).await;
    timed("facts, everything", async || store.facts(&all, now).await).await;
    let filter =
        RowFilter { view: pair, limited: Some(true), retry: None, succeeded: None, value: None };
    timed("newest 50 limited of one service and upstream", async || {
        store.rows(&filter, None, 50).await
    })
    .await;
    let request_id = some.request_id.unwrap();
    let found = timed("look up a request id", async || store.lookup(&request_id).await).await;
    assert_eq!(found.events.len(), 1);
    timed("an operation", async || store.operation(some.operation_id.as_deref().unwrap()).await)
        .await;

    let begun = Instant::now();
    let recount = store.recount().await.unwrap();
    say(&format!("recount took {:.1} s: {recount:?}", begun.elapsed().as_secs_f64()));
    assert!(recount.agrees());
    intake.stop().await;
    store.close().await.unwrap();
    if let Ok(metadata) = std::fs::metadata(&file) {
        say(&format!("{} bytes a stored event on disk", metadata.len() / total));
    }
}
