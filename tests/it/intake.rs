//! The queue in front of the store: groups, refuses when full, answers after the commit, drains.

#![expect(clippy::print_stderr, reason = "waits are printed, not asserted")]

use super::support::Process;
use retrylens::clock::{Clock, ManualClock};
use retrylens::domain::event::Event;
use retrylens::domain::stored::{Inserted, Scope, TimeBasis, View};
use retrylens::domain::time::{UnixMillis, Window};
use retrylens::pipeline::{Intake, IntakeError, IntakeSettings};
use retrylens::store::{OTHER, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const NOW: UnixMillis = UnixMillis(1_794_382_200_000);

fn events(from: u64, count: u64) -> Vec<Event> {
    (from..from + count)
        .map(|n| {
            let text = format!(
                r#"{{"event_id":"i{n}","attempt":1,"occurred_at":{},"vantage":"client",
                "service":"checkout","host":"api.example.com","status":429,
                "retry_after":"30","headers":[["server","nginx"]],"count":1,"redactions":0}}"#,
                NOW.0 - 1_000
            );
            serde_json::from_str(&text).unwrap()
        })
        .collect()
}

async fn open(folder: &tempfile::TempDir) -> Store {
    let file = folder.path().join("intake.db");
    Store::open(&format!("sqlite://{}", file.display())).await.unwrap()
}

fn start(store: &Store, settings: IntakeSettings) -> Intake {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW));
    Intake::start(store.clone(), clock, settings)
}

fn always() -> View {
    View {
        scope: Scope::default(),
        window: Window { from: UnixMillis(0), to: UnixMillis(NOW.0 * 2) },
        time: TimeBasis::Event,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_sent_at_once_are_judged_stored_and_answered_in_their_own_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let intake = start(&store, IntakeSettings::default());
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..20 {
        let intake = intake.clone();
        senders.spawn(async move {
            // The last three of each batch are the first three of the next.
            let results = intake.submit(events(n * 97, 100)).await.unwrap();
            assert_eq!(results.len(), 100);
            assert!(results[3..97].iter().all(|r| *r == Inserted::Stored));
        });
    }
    while let Some(done) = senders.join_next().await {
        done.unwrap();
    }
    assert_eq!(intake.submit(Vec::new()).await.unwrap(), []);
    intake.stop().await;
    assert_eq!(store.totals(&always()).await.unwrap().attempts, 19 * 97 + 100);
    let got = store.events_by_id("i5").await.unwrap().pop().unwrap();
    assert_eq!(got.received_at, NOW);
    assert!(got.verdict.limited);
    assert_eq!(got.verdict.promised_ms, Some(30_000));
    assert!(store.recount().await.unwrap().agrees());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_says_how_long_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let settings =
        IntakeSettings { queue_events: 100, commit_events: 50, ..IntakeSettings::default() };
    let intake = start(&store, settings);
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..40 {
        let intake = intake.clone();
        senders.spawn(async move { intake.submit(events(n * 40, 40)).await });
    }
    let (mut taken, mut refused) = (0, 0);
    while let Some(done) = senders.join_next().await {
        match done.unwrap() {
            Ok(results) => taken += results.len(),
            Err(IntakeError::Full { retry_after }) => {
                assert!(retry_after >= Duration::from_secs(1), "{retry_after:?}");
                assert!(retry_after <= Duration::from_secs(75), "{retry_after:?}");
                assert_eq!(retry_after.subsec_nanos(), 0, "Retry-After has whole seconds");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0 && taken > 0, "{taken} taken, {refused} refused");
    assert_eq!(intake.waiting(), 0);
    assert!(!intake.is_full());
    // A batch larger than the queue is taken from whoever has nothing waiting.
    assert_eq!(intake.submit(events(100_000, 250)).await.unwrap().len(), 250);
    intake.stop().await;
    let stored = store.recount().await.unwrap().events;
    assert_eq!(stored, i64::try_from(taken + 250).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_stores_what_was_taken_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let intake = start(&store, IntakeSettings { commit_events: 10, ..IntakeSettings::default() });
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..50 {
        let intake = intake.clone();
        senders.spawn(async move { intake.submit(events(n * 20, 20)).await });
    }
    tokio::task::yield_now().await;
    intake.stop().await;
    let mut taken = 0;
    while let Some(done) = senders.join_next().await {
        match done.unwrap() {
            Ok(results) => taken += results.len(),
            Err(IntakeError::Stopped) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let refused = intake.submit(events(0, 1)).await;
    assert!(matches!(refused, Err(IntakeError::Stopped)));
    intake.ended().await;
    assert_eq!(store.recount().await.unwrap().events, i64::try_from(taken).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_when_the_database_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let intake = start(&store, IntakeSettings::default());
    store.close().await.unwrap();
    let result = intake.submit(events(0, 10)).await;
    assert!(matches!(result, Err(IntakeError::Store(_))), "{result:?}");
    intake.stop().await;
    let store = open(&folder).await;
    assert_eq!(store.recount().await.unwrap().events, 0);
}

/// Events of services that invent routes and hosts, and one that doesn't.
fn labelled(from: u64, count: u64) -> Vec<Event> {
    let mut events = events(from, count);
    for (n, event) in (from..).zip(&mut events) {
        match n % 4 {
            0 => event.route = Some(format!("/orders/{n}")),
            1 => event.host = format!("{n}.example.com"),
            2 => event.service = format!("service-{n}"),
            _ => event.route = Some("/orders/{id}".to_owned()),
        }
        if n % 4 < 2 {
            "hostile".clone_into(&mut event.service);
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_names_are_summed_as_other_and_the_events_keep_their_own() {
    const EVENTS: u64 = 4_000;
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let settings = IntakeSettings { max_series: 400, ..IntakeSettings::default() };
    let intake = start(&store, settings);
    intake.submit(events(EVENTS * 2, 1)).await.unwrap();
    let results = intake.submit(labelled(0, EVENTS)).await.unwrap();
    assert!(results.iter().all(|result| *result == Inserted::Stored));
    intake.stop().await;

    // A restart knows what was known, and what is sent again changes nothing.
    let intake = start(&store, settings);
    store.learn_series(intake.series()).await.unwrap();
    let results = intake.submit(labelled(0, EVENTS)).await.unwrap();
    assert!(results.iter().all(|result| *result == Inserted::Duplicate));
    let results = intake.submit(labelled(EVENTS, EVENTS)).await.unwrap();
    assert!(results.iter().all(|result| *result == Inserted::Stored));
    intake.stop().await;

    let totals = store.totals(&always()).await.unwrap();
    assert_eq!(totals.attempts, i64::try_from(EVENTS * 2 + 1).unwrap(), "sums stay exact");
    assert!(store.recount().await.unwrap().agrees());
    for n in [EVENTS - 4, EVENTS - 3, EVENTS - 2] {
        let expected = labelled(n, 1).pop().unwrap();
        let stored = store.events_by_id(&format!("i{n}")).await.unwrap().pop().unwrap();
        assert_eq!(stored.event, expected, "an event keeps its own names");
    }
    let labels = store.labels(always().window).await.unwrap();
    assert!(labels.services.len() <= 450, "{}", labels.services.len());
    assert!(labels.services.iter().any(|service| service == OTHER));
    assert!(labels.upstreams.iter().any(|upstream| upstream == OTHER));
    let sender = async |name| store.sender(name).await.unwrap().unwrap().counts;
    assert!(sender("hostile").await.as_other > 0);
    assert!(sender(OTHER).await.as_other > 0);
    let honest = sender("checkout").await;
    assert_eq!((honest.events, honest.as_other), (i64::try_from(EVENTS / 2).unwrap() + 1, 0));
}

/// A batch of `count` events of `service`, whose ids begin with its name and `serial`.
fn batch_of(service: &str, serial: u64, count: u64) -> String {
    let event = |n| {
        format!(
            r#"{{"event_id":"{service}-{serial}-{n}","occurred_at":"2026-11-11T07:29:00Z","service":"{service}","host":"api.example.com","status":200}}"#
        )
    };
    (0..count).map(event).collect::<Vec<_>>().join("\n")
}

/// Sends it on a connection of its own and gives the whole answer.
fn send(server: &Process, body: &str) -> String {
    server.raw(&format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
    head.lines().filter_map(|line| line.split_once(": ")).find(|(n, _)| *n == name).map(|(_, v)| v)
}

#[test]
fn a_greedy_sender_with_fifty_connections_does_not_keep_a_polite_one_out() {
    const GREEDY: u64 = 50;
    const GREEDY_EVENTS: u64 = 100;
    const POLITE_EVENTS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--set", "queue_events=3000", "--set", "commit_events=500"];
    let server = Process::serve(folder.path(), &settings, &[]);
    let (serial, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut stored = 0;
    let mut refused = 0;
    std::thread::scope(|scope| {
        let greedy: Vec<_> = (0..GREEDY)
            .map(|_| {
                scope.spawn(|| {
                    let (mut stored, mut refused) = (0, Vec::new());
                    while !is_over.load(Ordering::SeqCst) {
                        let serial = serial.fetch_add(1, Ordering::SeqCst);
                        // It sends again at once, whatever it is told.
                        let answer = send(&server, &batch_of("greedy", serial, GREEDY_EVENTS));
                        if answer.starts_with("HTTP/1.1 200") {
                            stored += GREEDY_EVENTS;
                        } else {
                            refused.push(answer);
                        }
                    }
                    (stored, refused)
                })
            })
            .collect();
        let mut slowest = Duration::ZERO;
        for n in 0..15 {
            std::thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            let answer = send(&server, &batch_of("polite", n, POLITE_EVENTS));
            slowest = slowest.max(begun.elapsed());
            assert!(answer.starts_with("HTTP/1.1 200"), "the polite one was refused: {answer}");
            stored += POLITE_EVENTS;
        }
        is_over.store(true, Ordering::SeqCst);
        for worker in greedy {
            let (greedy_stored, answers) = worker.join().unwrap();
            stored += greedy_stored;
            for answer in answers {
                let problem = (answer.split_once("\r\n\r\n").unwrap().1).to_owned();
                // Before the polite one came, the greedy one was everybody.
                if answer.starts_with("HTTP/1.1 503") {
                    assert!(problem.contains(r#""code":"queue-full""#), "{answer}");
                } else {
                    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
                    assert!(problem.contains(r#""code":"over-fair-share""#), "{answer}");
                    refused += 1;
                }
                let wait: u64 = header(&answer, "retry-after").unwrap().parse().unwrap();
                assert!((1..=75).contains(&wait), "{answer}");
                assert_eq!(header(&answer, "cache-control"), Some("no-store"));
                assert_eq!(header(&answer, "content-type"), Some("application/problem+json"));
            }
        }
        eprintln!("the polite one waited {slowest:.0?} at most; {refused} batches were refused");
    });
    assert!(refused > 0, "the greedy one was never told that it is over its share");
    drop(server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recount = runtime.block_on(async {
        let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
        Store::open(&url).await.unwrap().recount().await.unwrap()
    });
    assert!(recount.agrees(), "{recount:?}");
    assert!(recount.events >= i64::try_from(stored).unwrap(), "what was acknowledged is there");
}
