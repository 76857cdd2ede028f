//! The queue in front of the store: groups, refuses when full, answers after the commit, drains.

use retrylens::clock::{Clock, ManualClock};
use retrylens::domain::event::Event;
use retrylens::domain::stored::{Inserted, Scope, TimeBasis, View};
use retrylens::domain::time::{UnixMillis, Window};
use retrylens::pipeline::{Intake, IntakeError, IntakeSettings};
use retrylens::store::Store;
use std::sync::Arc;
use std::time::Duration;

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
    let intake = start(&store, IntakeSettings { queue_events: 100, commit_events: 50 });
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
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0 && taken > 0, "{taken} taken, {refused} refused");
    assert_eq!(intake.waiting(), 0);
    assert!(!intake.is_full());
    // A batch larger than the queue is taken when nothing else waits.
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
