//! What becomes of spans where the process is killed in the middle, and where very many wait.

use super::otlp::{incident, request};
use super::support::{Process, TestApp};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use retrylens::clock::Clock as _;
use retrylens::domain::time::Millis;
use retrylens::pipeline::settler::Settler;
use retrylens::store::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../../benches/otlp/spans.rs"]
mod spans;

/// Looks every tenth of a second, a minute at most.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute: {what}");
}

fn in_database<T>(folder: &Path, work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<T>) -> T {
    let database = rusqlite::Connection::open(folder.join("retrylens.db")).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    work(&database).unwrap()
}

fn number(folder: &Path, sql: &str) -> i64 {
    in_database(folder, |database| database.query_row(sql, [], |row| row.get(0)))
}

fn of_incident(process: &Process) -> Option<Value> {
    let incident = incident();
    let id = |name: &str| incident[0][name].as_str().unwrap().to_owned();
    let answer = process.get(&format!("/api/v1/operations/{}:{}", id("traceId"), id("spanId")));
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).unwrap())
}

/// The events are stored; whoever notes that is refused by a trigger, until the process is killed.
/// The next process stores them again, which changes nothing.
#[test]
fn a_kill_between_the_events_and_the_note_of_them_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    drop(Process::serve(folder, &[], &[]));
    in_database(folder, |database| {
        database.execute_batch(
            "CREATE TRIGGER no_note BEFORE UPDATE ON otlp_spans WHEN NEW.due_at IS NULL \
             BEGIN SELECT RAISE(ABORT, 'not now'); END",
        )
    });
    let mut process = Process::serve(folder, &[], &[]);
    let answer = process.post("/v1/traces", &request(&incident()));
    assert_eq!(answer, Some((200, "{}".to_owned())));
    wait_until("the events are stored", || of_incident(&process).is_some());
    let log = || std::fs::read_to_string(folder.join("log")).unwrap();
    wait_until("the note is refused", || log().contains("operations could not be settled"));
    process.signal("KILL");
    process.wait();
    drop(process);
    let open = "SELECT COUNT(*) FROM otlp_spans WHERE due_at IS NOT NULL";
    assert_eq!(number(folder, open), 4, "nothing was noted");
    in_database(folder, |database| database.execute_batch("DROP TRIGGER no_note"));
    let process = Process::serve(folder, &[], &[]);
    wait_until("the note is made", || number(folder, open) == 0);
    let operation = of_incident(&process).unwrap();
    assert_eq!(operation["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(number(folder, "SELECT COUNT(*) FROM events"), 4);
    let window = "from=2026-11-11T11:00:00Z&to=2026-11-11T13:00:00Z";
    let overview = process.get(&format!("/api/v1/overview?{window}"));
    let overview: Value = serde_json::from_str(overview.split_once("\r\n\r\n").unwrap().1).unwrap();
    let pairs = overview["pairs"].as_array().unwrap();
    let pair = pairs.iter().find(|pair| pair["source"] == "client").unwrap();
    assert_eq!((&pair["attempts"], &pair["requests"]), (&json!(3), &json!(1)));
}

/// Takes very many spans, then settles them; how long that takes is for people.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a million spans; `make test-long` runs it"]
#[expect(clippy::print_stderr, reason = "the figures are for people")]
#[expect(clippy::disallowed_methods, reason = "they are about time")]
async fn a_million_waiting_spans_are_settled_in_bounded_passes() {
    const SPANS: usize = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let app = TestApp::start().await;
    let (begun, mut taken) = (Instant::now(), 0);
    for body in spans::bodies(SPANS) {
        taken += body.spans;
        let request = Request::post("/v1/traces").header("content-type", "application/x-protobuf");
        let answer = app.send(request.body(Body::from(body.bytes)).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    }
    assert_eq!(taken, SPANS);
    eprintln!("taken one body after another: {:.0} spans/s", rate(SPANS, begun.elapsed()));
    let settler = Settler::new(app.state.store.clone(), app.state.intake.clone());
    let now = app.clock.now().plus(Millis(3_600_000));
    let (begun, mut settled, mut passes) = (Instant::now(), 0, 0);
    let mut longest = Duration::ZERO;
    while settled < SPANS {
        let pass = Instant::now();
        let events = settler.settle(now).await.unwrap();
        longest = longest.max(pass.elapsed());
        assert!((1..=40_000).contains(&events), "{events} after {settled}");
        settled += events;
        passes += 1;
    }
    let took = begun.elapsed();
    eprintln!("settled: {:.0} spans/s, {passes} passes, {longest:?} at most", rate(SPANS, took));
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(settler.settle(now).await.unwrap(), 0);
    }
    eprintln!("a pass with nothing to do: {:?}", begun.elapsed() / 100);
    let store: &Store = &app.state.store;
    assert_eq!(store.due_hoods(now, 1).await.unwrap().len(), 0);
}

fn rate(spans: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(spans).unwrap()) / took.as_secs_f64()
}
