//! A fleet whose traffic goes through the intake minute by minute, under a clock that is moved, and
//! the evaluator run after each.

use retrylens::clock::{Clock, ManualClock};
use retrylens::config::{Config, Sources};
use retrylens::domain::alerts::notice::Addressee;
use retrylens::domain::alerts::{AlertSettings, Severity};
use retrylens::domain::event::Event;
use retrylens::domain::stored::Inserted;
use retrylens::domain::time::{MINUTE_MS, UnixMillis};
use retrylens::metrics::{Exposition, Metrics};
use retrylens::pipeline::alerts::Evaluator;
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::{Alert, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The minute (since 1970) at which tests begin: 2026-11-11T00:00:00Z.
pub(super) const MIDNIGHT: i64 = 1_794_355_200_000 / MINUTE_MS;
/// What links begin with.
pub(super) const BASE: &str = "https://lens.example.com";

pub(super) fn at(minute: i64) -> UnixMillis {
    UnixMillis(minute * MINUTE_MS)
}

/// A fleet and its evaluator.
pub(super) struct Fleet {
    pub(super) store: Store,
    pub(super) intake: Intake,
    pub(super) clock: Arc<ManualClock>,
    pub(super) evaluator: Evaluator,
    /// The present minute.
    pub(super) minute: i64,
    sent: u64,
}

pub(super) fn config() -> Config {
    Config::load(&Sources::default()).unwrap()
}

pub(super) fn settings() -> AlertSettings {
    config().alerts
}

/// An evaluator as a replica makes one, with a receiver `pager`.
pub(super) fn evaluator(store: &Store, metrics: &Metrics) -> Evaluator {
    let receivers =
        vec![Addressee { name: "pager".to_owned(), severities: Severity::ALL.to_vec() }];
    Evaluator::new(store.clone(), metrics.clone(), settings(), BASE.to_owned(), receivers)
}

impl Fleet {
    /// Begins at [`MIDNIGHT`] plus `minute`.
    pub(super) fn new(store: Store, minute: i64) -> Self {
        let clock = Arc::new(ManualClock::at(at(MIDNIGHT + minute)));
        let config = config();
        let sizes = IntakeSettings {
            queue_events: config.ingest.queue_events,
            commit_events: config.ingest.commit_events,
            max_wait: config.ingest.max_wait,
            max_series: config.ingest.max_series,
            caps: config.metrics.caps,
        };
        let intake = Intake::start(store.clone(), Arc::clone(&clock) as Arc<dyn Clock>, sizes);
        let evaluator = evaluator(&store, intake.metrics());
        Self { store, intake, clock, evaluator, minute: MIDNIGHT + minute, sent: 0 }
    }

    /// Stores what happens in the present minute, without evaluating anything.
    pub(super) async fn send(&mut self, events: Vec<Value>) {
        let now = UnixMillis(self.minute * MINUTE_MS + 30_000);
        self.clock.set(now);
        let whole = |mut event: Value| -> Event {
            self.sent += 1;
            let fields = json!({"event_id": format!("e{}", self.sent), "vantage": "client",
                "attempt": 1, "occurred_at": now.0, "headers": [], "count": 1, "redactions": 0});
            for (name, value) in fields.as_object().unwrap() {
                if event.get(name).is_none() {
                    event[name] = value.clone();
                }
            }
            serde_json::from_value(event).unwrap()
        };
        let events: Vec<Event> = events.into_iter().map(whole).collect();
        if events.is_empty() {
            return;
        }
        let stored = self.intake.submit(events).await.unwrap();
        assert!(stored.iter().all(|one| *one == Inserted::Stored), "{stored:?}");
    }

    /// Lets the present minute end.
    pub(super) fn pass(&mut self) {
        self.minute += 1;
        self.clock.set(UnixMillis(self.minute * MINUTE_MS + 8_000));
    }

    /// Stores what happens in the present minute, lets it end, and evaluates.
    pub(super) async fn live(&mut self, events: Vec<Value>) {
        self.send(events).await;
        self.pass();
        assert_eq!(self.evaluator.catch_up(self.clock.now()).await.unwrap(), 1);
    }

    /// All alerts that stand for something, by rule and service.
    pub(super) async fn standing(&self) -> BTreeMap<(String, String), Alert> {
        let now = self.clock.now();
        let alerts = self.store.alerts(now, UnixMillis(0), 10_000).await.unwrap();
        alerts
            .into_iter()
            .map(|alert| {
                let known = &alert.known;
                ((known.rule.clone(), known.subject.service.clone()), alert)
            })
            .collect()
    }

    /// The word for how an alert stands, `inactive` where it is not there.
    pub(super) async fn status(&self, rule: &str, service: &str) -> &'static str {
        let standing = self.standing().await;
        let alert = standing.get(&(rule.to_owned(), service.to_owned()));
        alert.map_or("inactive", |alert| alert.known.state.as_str())
    }

    /// `/metrics` as it is now.
    pub(super) fn metrics(&self) -> String {
        Exposition::OpenMetrics.write(&self.intake.metrics().snapshot(self.clock.now()))
    }
}

/// An event of a service at `api.example.com`, with some fields.
#[expect(clippy::needless_pass_by_value, reason = "fields are written where they are handed over")]
pub(super) fn event(service: &str, fields: Value) -> Value {
    let mut event = json!({"service": service, "host": "api.example.com"});
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// So many requests that are served at once.
pub(super) fn served(service: &str, count: i64) -> Value {
    event(service, json!({"status": 200, "duration_ms": 120, "count": count}))
}

/// So many requests that are answered 429 and served by a retry.
pub(super) fn refused(service: &str, count: i64) -> Vec<Value> {
    vec![
        event(service, json!({"status": 429, "outcome": "retrying", "count": count})),
        event(service, json!({"status": 200, "attempt": 2, "count": count})),
    ]
}

/// A minute of a service that gets 429 for half of its requests.
pub(super) fn storm(service: &str) -> Vec<Value> {
    let mut events = refused(service, 30);
    events.push(served(service, 30));
    events
}
