//! The load of `make test-long`: a million events through `POST /v1/events` of the real binary.

#![expect(clippy::print_stderr, reason = "its figures are printed, not asserted")]

use super::support::Process;
use super::workload;
use retrylens::domain::time::{DAY_MS, Millis, UnixMillis};
use retrylens::store::{Keep, Store, Tidied};
use std::time::Duration;
use tokio::time::Instant;

const EVENTS: u64 = 1_000_000;
const BATCH: u64 = 2_000;

/// Posts NDJSON on a connection of its own and gives the counts of the answer.
pub(super) fn post_ndjson(server: &Process, body: &str) -> (u64, u64) {
    let answer = server.raw(&format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, json) = answer.split_once("\r\n\r\n").unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["rejected"], serde_json::json!([]), "{json}");
    (json["stored"].as_u64().unwrap(), json["duplicates"].as_u64().unwrap())
}

/// Sends every batch from four connections at a time; returns what was stored and was known.
fn send_all(server: &Process, from: u64, to: u64) -> (u64, u64) {
    let starts: Vec<u64> = (from..to).step_by(usize::try_from(BATCH).unwrap()).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let starts = &starts;
                scope.spawn(move || {
                    let mut sums = (0, 0);
                    for start in starts.iter().skip(worker).step_by(4) {
                        let body = workload::batch(*start, (start + BATCH).min(to), EVENTS);
                        let (stored, duplicates) = post_ndjson(server, &body);
                        sums = (sums.0 + stored, sums.1 + duplicates);
                    }
                    sums
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    })
}

pub(super) fn timed<T>(what: &str, run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let out = run();
    let took = start.elapsed();
    eprintln!("{what}: {took:.2?}");
    (out, took)
}

#[test]
#[ignore = "long: make test-long"]
fn a_million_events_are_a_million_rows_and_the_sums_agree() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::serve(folder.path(), &[], &[]);
    let ((stored, duplicates), took) =
        timed("a million events, durable", || send_all(&server, 0, EVENTS));
    assert_eq!((stored, duplicates), (EVENTS, 0));
    eprintln!("{:.0} events/s", 1e6 / took.as_secs_f64());

    let (again, _) = timed("100,000 of them again", || send_all(&server, 0, 100_000));
    assert_eq!(again, (0, 100_000), "sending again changes nothing");

    let size = std::fs::metadata(folder.path().join("retrylens.db")).unwrap().len();
    eprintln!("{} bytes an event in the database file", size / EVENTS);

    let day = "from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";
    let (answer, _) =
        timed("overview of the day", || server.get(&format!("/api/v1/overview?{day}")));
    let overview: serde_json::Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        overview["figures"][0]["note"], "1,000,000 attempts",
        "the sums hold every event once"
    );

    let hour = "from=2026-11-11T10:00:00Z&to=2026-11-11T11:00:00Z";
    let some: serde_json::Value =
        serde_json::from_str(&workload::batch(EVENTS / 2, EVENTS / 2 + 1, EVENTS)).unwrap();
    let name = |field: &str| some[field].as_str().unwrap();
    let pair = format!("service={}&upstream={}", name("service"), name("host"));
    for path in ["/triage", "/triage.json", "/triage.md"] {
        let (answer, _) = timed(&format!("{path}, one pair, an hour"), || {
            server.get(&format!("{path}?{pair}&{hour}"))
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let (answer, _) =
        timed("/triage, everything, an hour", || server.get(&format!("/triage?{hour}")));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(server);

    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::open(&url)).unwrap();
    let (found, _) = timed("doctor --verify", || runtime.block_on(store.verify()).unwrap());
    assert_eq!(found.recount.events, i64::try_from(EVENTS).unwrap());
    assert!(found.is_well(), "{found:?}");

    // Twelve hours go, as they would a day later.
    let keep = Keep { events: Millis(DAY_MS), sums: Millis(400 * DAY_MS), max_bytes: None };
    let now = UnixMillis(workload::START_MS + DAY_MS + DAY_MS / 2);
    let mut steps = Vec::new();
    let (removed, took) = timed("half of them removed, and the space given back", || {
        loop {
            let begun = Instant::now();
            let done = runtime.block_on(store.tidy(keep, now)).unwrap();
            steps.push(begun.elapsed());
            if done == Tidied::Done {
                return runtime.block_on(store.kept()).unwrap().events.removed;
            }
        }
    });
    steps.sort_unstable();
    let at = |part: usize| steps[(steps.len() - 1) * part / 100];
    eprintln!(
        "{} steps, half within {:.1?}, 99 of 100 within {:.1?}, the longest {:.1?}; {:.0} events/s",
        steps.len(),
        at(50),
        at(99),
        at(100),
        f64::from(u32::try_from(removed).unwrap()) / took.as_secs_f64()
    );
    let found = runtime.block_on(store.verify()).unwrap();
    assert!(found.is_well(), "{found:?}");
    assert_eq!(found.recount.events + removed, i64::try_from(EVENTS).unwrap());
    runtime.block_on(store.close()).unwrap();
    let after = std::fs::metadata(folder.path().join("retrylens.db")).unwrap().len();
    eprintln!("the file had {size} bytes and has {after}");
    assert!(after < size * 3 / 4, "{size} {after}");
}
