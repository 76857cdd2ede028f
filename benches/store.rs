//! Loads events through the intake, as the door does, and prints how fast they are stored and how
//! long pages' questions take on them. Figures are printed and never asserted; what is asserted is
//! that every event is there once and that the sums agree.
//!
//! `RETRYLENS_BENCH_EVENTS` (1,000,000), `RETRYLENS_BENCH_BATCH` (500 events a batch),
//! `RETRYLENS_BENCH_DATABASE_URL` (a SQLite file that is removed afterwards).

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

use retrylens::clock::SystemClock;
use retrylens::domain::event::Event;
use retrylens::domain::stored::{Inserted, RowFilter, Scope, TimeBasis, View};
use retrylens::domain::time::{HOUR_MS, UnixMillis, Window};
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::Store;
use std::io::Write as _;
use std::sync::Arc;
use tokio::time::Instant;

/// When the hour of events begins; not at a whole minute, so that no window lines up with sums.
const BEGIN: UnixMillis = UnixMillis(1_794_378_433_217);
const SENDERS: usize = 16;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// A fleet: 120 services, each calling 3 of 40 upstreams with 3 routes, 4 keys, 16 instances and 3 egress
/// addresses a service; 12 % limited, 10 % retries; time runs evenly through one hour.
fn event(n: u64, total: u64) -> Event {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let at = BEGIN.0 + i64::try_from(n * 3_600_000 / total).unwrap();
    let service = draw(120);
    let upstream = (service + draw(3)) % 40;
    let route = draw(3);
    let is_limited = draw(100) < 12;
    let attempt = if draw(100) < 10 { 2 + draw(3) } else { 1 };
    let operation = n / 2;
    let status = if is_limited {
        429
    } else if draw(100) < 2 {
        503
    } else {
        200
    };
    let key = service * 4 + draw(4);
    let outcome = if is_limited { "\"retrying\"" } else { "\"succeeded\"" };
    let refusal = if is_limited {
        format!(
            r#""retry_after":"{}","computed_delay_ms":{},"delay_source":"retry-after","error_code":"rate_limited","body_sample":"{{\"error\":\"too many requests\"}}","#,
            1 + draw(30),
            1_000 + draw(30_000)
        )
    } else {
        String::new()
    };
    let text = format!(
        r#"{{"event_id":"01JCH6{at:012X}{n:014}","operation_id":"01JCH6op{operation:018}",
        "attempt":{attempt},"occurred_at":{at},"duration_ms":{duration},"vantage":"client",
        "service":"service-{service}","environment":"prod","instance":"service-{service}-{pod}",
        "retry_layer":"sdk","method":"GET","host":"api{upstream}.example.com",
        "route":"/v1/resource{route}/{{id}}","status":{status},{refusal}
        "request_id":"req-{at:x}-{n:016x}","ray_id":"{n:016x}-GRU",
        "key_hash":"hmac-sha256:{key:064x}","key_kind":"api-key",
        "client_address_hash":"hmac-sha256:{address:064x}","outcome":{outcome},"attempts_max":5,
        "timeout_ms":3000,"trace_id":"{operation:032x}","span_id":"{n:016x}",
        "headers":[["server","cloudflare"],["date","Wed, 11 Nov 2026 07:29:00 GMT"],
        ["cf-ray","{n:016x}-GRU"],["content-type","application/json"]],
        "count":1,"redactions":0}}"#,
        duration = 20 + draw(400),
        pod = draw(16),
        address = service * 3 + draw(3),
    );
    serde_json::from_str(&text).unwrap()
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
    drop((0..100_000).map(|n| event(n, total)).collect::<Vec<_>>());
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
                let events = (from..total.min(from + batch)).map(|n| event(n, total)).collect();
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
    let events = total as f64;
    say(&format!(
        "{} on {}",
        store.kind(),
        if url.contains("bench.db") { "a file" } else { "a server" }
    ));
    say(&format!("stored {stored} of {total} in {took:.1} s: {:.0} events/s", events / took));
    say(&format!(
        "  CPU {:.1} s a million, making the events taken off",
        (cpu_seconds() - cpu_before - making * events) * 1e6 / events
    ));
    say(&format!("  making the events took {:.1} s of CPU of it", making * events));
    say(&format!("  slowest batch of {batch}: {:.0} ms", slowest * 1_000.0));
    assert_eq!(stored, total);

    let window = Window { from: BEGIN, to: UnixMillis(BEGIN.0 + HOUR_MS) };
    let now = window.to;
    let all = View { scope: Scope::default(), window, time: TimeBasis::Event };
    let scope = Scope {
        service: Some("service-7".to_owned()),
        upstream: Some("api8.example.com".to_owned()),
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
    let some = event(total / 2, total);
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
