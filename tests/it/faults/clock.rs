//! Clocks that are wrong: this service's, and the senders'.

use crate::support::TestApp;
use crate::support::app::NOON;
use retrylens::domain::time::{Millis, UnixMillis};
use serde_json::{Value, json};
use std::collections::HashSet;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn noon() -> UnixMillis {
    UnixMillis::parse_rfc3339(NOON).unwrap()
}

fn event(id: &str, at: UnixMillis) -> Value {
    json!({"event_id": id, "occurred_at": at.to_rfc3339(), "service": "checkout",
        "host": "api.example.com", "status": 429, "retry_after": "30", "operation_id": "op-1"})
}

/// The query for a window of `minutes` that begins `from` minutes after noon.
fn window(from: i64, minutes: i64, time: &str) -> String {
    let at = |minute: i64| noon().plus(Millis(minute * MINUTE)).to_rfc3339();
    format!("from={}&to={}&time={time}", at(from), at(from + minutes))
}

/// Attempts in a window as the overview's figure says it, after checking that its table, its time
/// line and the list of rows say the same.
async fn attempts(app: &TestApp, query: &str) -> i64 {
    let overview = app.get(&format!("/api/v1/overview?{query}")).await.json();
    let note = overview["figures"][0]["note"].as_str().unwrap().replace(',', "");
    let said: i64 = note.split(' ').next().unwrap().parse().unwrap();
    let sum = |list: &Value, fields: &[&str]| -> i64 {
        let list = list.as_array().unwrap().iter();
        list.flat_map(|row| fields.iter().map(|f| row[*f].as_i64().unwrap())).sum()
    };
    assert_eq!(sum(&overview["pairs"], &["attempts"]), said, "{query}: {overview}");
    let points = &overview["series"]["points"];
    assert_eq!(sum(points, &["requests", "retries"]), said, "{query}: {overview}");

    let mut seen = HashSet::new();
    let mut address = format!("/api/v1/events?{query}&limit=7");
    loop {
        let page = app.get(&address).await.json();
        for item in page["items"].as_array().unwrap() {
            let key = (item["event_id"].to_string(), item["occurred_at"].to_string());
            assert!(seen.insert(key), "{query}: {item} is listed twice");
        }
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut address),
            None => break,
        }
    }
    assert_eq!(i64::try_from(seen.len()).unwrap(), said, "{query}: the list and the figure");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hour_forth_and_back_while_events_arrive_counts_each_once() {
    const SENDERS: i64 = 6;
    const BATCHES: i64 = 12;
    // Small, so that it is full now and then while the clock jumps.
    let app = TestApp::with(&[("queue_events", "12"), ("commit_events", "10")]).await;
    let app = std::sync::Arc::new(app);
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..SENDERS {
        let app = std::sync::Arc::clone(&app);
        senders.spawn(async move {
            for batch in 0..BATCHES {
                // The senders' own clocks are right: all of it happens around noon.
                let events: Vec<Value> = (0..5)
                    .map(|n| {
                        let at = noon().plus(Millis((batch * 5 + n) * 1_000));
                        event(&format!("s{sender}-{batch}-{n}"), at)
                    })
                    .collect();
                loop {
                    let answer = app.post("/v1/events", &Value::Array(events.clone())).await;
                    if answer.status.as_u16() == 200 {
                        assert_eq!(answer.json()["stored"], 5, "{}", answer.text);
                        break;
                    }
                    assert_eq!(answer.status.as_u16(), 503, "{}", answer.text);
                    let wait: i64 = answer.header("retry-after").parse().unwrap();
                    assert!((1..=75).contains(&wait), "a wait of {wait} s");
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let mut jumps = [HOUR, -HOUR, -HOUR, HOUR, 2 * HOUR, -2 * HOUR].iter().cycle();
    loop {
        tokio::select! {
            done = senders.join_next() => match done {
                Some(done) => done.unwrap(),
                None => break,
            },
            () = tokio::time::sleep(std::time::Duration::from_millis(3)) => {
                app.clock.advance(Millis(*jumps.next().unwrap()));
            }
        }
    }
    let all = SENDERS * BATCHES * 5;
    assert_eq!(attempts(&app, &window(-5, 65, "event")).await, all);
    assert_eq!(attempts(&app, &window(-360, 720, "received")).await, all);
    // By receipt they stand where the clock stood, and the parts add up.
    let mut parts = Vec::new();
    for hour in -2..=3 {
        parts.push(attempts(&app, &window(hour * 60 - 30, 60, "received")).await);
    }
    assert_eq!(parts.iter().sum::<i64>(), all, "{parts:?}");
    assert!(parts.iter().filter(|n| **n > 0).count() >= 2, "the clock did jump: {parts:?}");
    let recount = app.state.store.recount().await.unwrap();
    assert!(recount.agrees() && recount.events == all, "{recount:?}");

    // Sent again under yet another clock, nothing changes.
    app.clock.set(noon().plus(Millis(-3 * HOUR)));
    let again = app.post("/v1/events", &json!([event("s0-0-0", noon())])).await.json();
    assert_eq!((&again["stored"], &again["duplicates"]), (&json!(0), &json!(1)), "{again}");
    assert_eq!(attempts(&app, &window(-360, 720, "received")).await, all);
}

/// What the pages say after an event arrived.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// Stored, duplicates and id conflicts of the receipt.
    receipt: [i64; 3],
    /// Attempts from 11:00 to 12:00, by event time.
    hour: i64,
    /// Attempts of the same hour a day earlier, by event time.
    day_before: i64,
    /// Attempts from 13:00 to 14:00, by event time.
    hour_ahead: i64,
    /// Attempts in the minute of receipt, by receipt.
    received: i64,
    /// Id conflicts of the sender in all.
    conflicts: i64,
    /// Events under the id that was sent.
    under_id: i64,
    /// Attempts of the operation that all of them name.
    of_operation: i64,
}

#[tokio::test]
async fn what_each_page_says_of_events_that_come_again_late_or_early() {
    let app = TestApp::start().await;
    let day = 24 * HOUR;
    let usual = event("a", noon().plus(Millis(-MINUTE)));
    let other_time = event("a", noon().plus(Millis(-2 * MINUTE)));
    let late = event("late", noon().plus(Millis(-day - MINUTE)));
    let early = event("early", noon().plus(Millis(HOUR)));
    let said = |receipt, [hour, day_before, hour_ahead, received, conflicts, under_id, of_operation]: [i64; 7]| {
        Said { receipt, hour, day_before, hour_ahead, received, conflicts, under_id, of_operation }
    };
    let cases = [
        ("an event", &usual, said([1, 0, 0], [1, 0, 0, 1, 0, 1, 1])),
        ("the same again", &usual, said([0, 1, 0], [1, 0, 0, 1, 0, 1, 1])),
        ("its id at another time", &other_time, said([1, 0, 1], [2, 0, 0, 2, 1, 2, 2])),
        ("that again", &other_time, said([0, 1, 0], [2, 0, 0, 2, 1, 2, 2])),
        ("a day late", &late, said([1, 0, 0], [2, 1, 0, 3, 1, 1, 3])),
        ("a day late again", &late, said([0, 1, 0], [2, 1, 0, 3, 1, 1, 3])),
        ("an hour ahead", &early, said([1, 0, 0], [2, 1, 1, 4, 1, 1, 4])),
        ("an hour ahead again", &early, said([0, 1, 0], [2, 1, 1, 4, 1, 1, 4])),
        ("the first once more", &usual, said([0, 1, 0], [2, 1, 1, 4, 1, 2, 4])),
    ];
    for (what, sent, expected) in cases {
        let receipt = app.post("/v1/events", sent).await.json();
        let senders = app.get("/api/v1/send").await.json();
        let id = sent["event_id"].as_str().unwrap();
        let count = |list: &Value| i64::try_from(list.as_array().unwrap().len()).unwrap();
        let got = Said {
            receipt: ["stored", "duplicates", "id_conflicts"].map(|n| receipt[n].as_i64().unwrap()),
            hour: attempts(&app, &window(-60, 60, "event")).await,
            day_before: attempts(&app, &window(-60 - 24 * 60, 60, "event")).await,
            hour_ahead: attempts(&app, &window(60, 60, "event")).await,
            received: attempts(&app, &window(0, 1, "received")).await,
            conflicts: senders["senders"][0]["id_conflicts"].as_i64().unwrap(),
            under_id: count(&app.get(&format!("/api/v1/events/{id}")).await.json()["items"]),
            of_operation: count(&app.get("/api/v1/operations/op-1").await.json()["attempts"]),
        };
        assert_eq!(got, expected, "{what}");
    }
    // Without times a page shows the last hour up to now: what is dated ahead is not on it yet.
    let page = app.get("/api/v1/overview").await.json();
    assert_eq!(page["figures"][0]["note"], "2 attempts", "{page}");
    app.clock.advance(Millis(HOUR + MINUTE));
    let page = app.get("/api/v1/overview").await.json();
    assert_eq!(page["figures"][0]["note"], "1 attempt", "{page}");
    assert!(app.state.store.recount().await.unwrap().agrees());
}
