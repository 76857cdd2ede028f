//! A recorded storm, minute by minute: the evaluator's alerts against the SQL form of the rules over
//! the same rows, which must be equal at every minute, and against Prometheus over `/metrics` as it
//! was at each of them, which must be equal within one evaluation.

use super::fleet::{Fleet, MIDNIGHT, event, refused, served, settings};
use super::replay_prometheus;
use super::sql_form::{self, Beside, Life};
use crate::alert_rules::promtool;
use retrylens::domain::alerts::Rule;
use retrylens::domain::time::{MINUTE_MS, UnixMillis};
use retrylens::export::prometheus;
use retrylens::pipeline::alerts::keep_noted;
use retrylens::store::Store;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Minutes before the record of which `/metrics` was scraped alone: with the calm of the record, as
/// many as the windows look back of the rules that wake somebody.
const BEFORE: i64 = 320;
/// Minutes of calm, of storm, and of calm again.
const CALM: i64 = 50;
const STORM: i64 = 35;
const AFTER: i64 = 75;
/// Minutes of calm behind the storm until the alerts on a budget that burns slowly are over: they look
/// six hours back and stay for one.
const LONG_AFTER: i64 = 470;
/// Minutes in which nobody sends anything, and of calm behind them.
const SILENT: i64 = 19;
const BACK: i64 = 3;
/// The rule that watches for that.
const STALLED: &str = "RetrylensIngestStalled";

/// Who takes part. Each has one kind of trouble.
const SERVICES: [&str; 13] = [
    "calm",
    "tenfold",
    "retrying",
    "limited",
    "limited-503",
    "mixed",
    "useless",
    "layers",
    "early",
    "twice",
    "slow",
    "broken",
    "leaving",
];

fn failed(service: &str, count: i64) -> Vec<Value> {
    vec![
        event(service, json!({"status": 500, "outcome": "retrying", "count": count})),
        event(service, json!({"status": 200, "attempt": 2, "count": count})),
    ]
}

/// A refusal by Envoy with a status of its operator's choice, and the retry that is served.
fn refused_otherwise(service: &str, count: i64) -> Vec<Value> {
    vec![
        event(
            service,
            json!({"status": 503, "outcome": "retrying", "count": count,
                "headers": [["server", "envoy"], ["x-envoy-ratelimited", "true"]]}),
        ),
        event(service, json!({"status": 200, "attempt": 2, "count": count})),
    ]
}

/// What a service does in a minute of the storm; the minutes differ a little from each other.
fn stormy(service: &str, minute: i64) -> Vec<Value> {
    let wave = (minute * 7).rem_euclid(5);
    let at = |seconds: i64| (MIDNIGHT + minute) * 60_000 + seconds * 1_000;
    let mut events = vec![served(service, 40 + wave)];
    match service {
        "tenfold" => events = vec![served(service, 600 + wave)],
        "retrying" => events.extend(failed(service, 25 + wave)),
        "limited" => events.extend(refused(service, 20 + 2 * wave)),
        "limited-503" => events.extend(refused_otherwise(service, 20 + wave)),
        "mixed" => {
            events.extend(refused(service, 10 + wave));
            events.extend(refused_otherwise(service, 12));
        }
        "useless" => {
            events.push(event(service, json!({"status": 500, "outcome": "retrying", "count": 20})));
            let last = json!({"status": 500, "attempt": 2, "outcome": "exhausted", "count": 20});
            events.push(event(service, last));
        }
        "layers" => {
            events.push(event(service, json!({"status": 500, "attempt": 3, "count": 130 + wave})));
        }
        "early" => {
            let id = format!("early-{minute}");
            let refusal = json!({"status": 429, "outcome": "retrying", "retry_after": "30",
                "operation_id": id, "occurred_at": at(1), "duration_ms": 100, "count": 6 + wave});
            let retry = json!({"status": 200, "attempt": 2, "operation_id": id,
                "occurred_at": at(3), "count": 6 + wave});
            events.extend([event(service, refusal), event(service, retry)]);
        }
        "twice" if minute % 20 == 7 => {
            let id = format!("twice-{minute}");
            let lost = json!({"method": "POST", "error": "timeout", "outcome": "retrying",
                "operation_id": id, "occurred_at": at(1)});
            let again = json!({"method": "POST", "status": 201, "attempt": 2, "operation_id": id,
                "occurred_at": at(3)});
            events.extend([event(service, lost), event(service, again)]);
        }
        "slow" => {
            let id = format!("slow-{minute}");
            let first = json!({"status": 500, "outcome": "retrying", "operation_id": id,
                "occurred_at": at(1), "duration_ms": 100, "count": 9});
            let last = json!({"status": 200, "attempt": 2, "operation_id": id,
                "occurred_at": at(14), "duration_ms": 100, "count": 9});
            events.extend([event(service, first), event(service, last)]);
        }
        "leaving" => events.clear(),
        _ => {}
    }
    events
}

/// What the whole fleet does in a minute from the beginning of a record that has `after` minutes of calm
/// behind the storm.
fn minute_of(minute: i64, after: i64) -> Vec<Value> {
    if (CALM + STORM + after..CALM + STORM + after + SILENT).contains(&minute) {
        return Vec::new();
    }
    let is_stormy = (CALM..CALM + STORM).contains(&minute);
    let of = |service: &&str| match *service {
        "broken" => vec![event("broken", json!({"status": 429, "count": 60}))],
        // It goes away in the middle of its storm, and never comes back.
        "leaving" if (CALM..CALM + 12).contains(&minute) => stormy("limited", minute)
            .into_iter()
            .map(|mut event| {
                event["service"] = json!("leaving");
                event
            })
            .collect(),
        "leaving" if minute >= CALM + 12 => Vec::new(),
        service if is_stormy => stormy(service, minute),
        service => {
            let mut events = vec![served(service, 58)];
            events.extend(failed(service, i64::from(minute.rem_euclid(3) == 0)));
            events.retain(|event| event["count"] != json!(0));
            events
        }
    };
    SERVICES.iter().flat_map(of).collect()
}

/// How every rule stands for every service after each minute; what is about nobody stands under no
/// name.
pub(super) type Record = Vec<BTreeMap<(String, String), &'static str>>;

/// Replays the record, with `after` minutes of calm behind the storm, on `store`. With `history` it
/// begins after days of other traffic, gathered.
async fn replay(store: &Store, url: &str, history: bool, after: i64) -> (Record, Vec<String>) {
    let mut fleet = Fleet::new(store.clone(), 0);
    let mut beside = Beside::open(url).await;
    if history {
        for hours in 1..=80_i64 {
            fleet.minute = MIDNIGHT - (81 - hours) * 60 + hours * 13 % 60;
            fleet
                .send(vec![served("limited", 15), served("retrying", 20), served("calm", 9)])
                .await;
            beside.copy(fleet.minute).await;
        }
        fleet.minute = MIDNIGHT;
    }
    let (mut record, mut scraped) = (Record::new(), Vec::new());
    if !history {
        fleet.minute -= BEFORE;
        for minute in -BEFORE..0 {
            fleet.send(minute_of(minute, after)).await;
            fleet.pass();
            scraped.push(fleet.metrics());
            keep_noted(store, fleet.intake.metrics()).await.unwrap();
            beside.copy(fleet.minute - 1).await;
        }
    }
    let mut lives: BTreeMap<(&str, &str), Life> = BTreeMap::new();
    let mut stalled = Life::default();
    let mut heard = 0;
    for minute in 0..CALM + STORM + after + SILENT + BACK {
        let events = minute_of(minute, after);
        if !events.is_empty() {
            // As `Fleet::send` has it.
            heard = fleet.minute * 60 + 30;
        }
        fleet.live(events).await;
        scraped.push(fleet.metrics());
        beside.copy(fleet.minute - 1).await;
        if minute % 7 == 3 {
            let now = UnixMillis(fleet.minute * MINUTE_MS + 30_000);
            while store.gather(now).await.unwrap() {}
        }
        let truth = beside.truth(fleet.minute).await;
        let standing = fleet.standing().await;
        let mut words = BTreeMap::new();
        for (rule, _) in sql_form::RULES {
            for service in SERVICES {
                let key = (rule.to_owned(), service.to_owned());
                let word = standing.get(&key).map_or("inactive", |a| a.known.state.as_str());
                let word = if word == "resolved" { "inactive" } else { word };
                if let Some(services) = truth.get(rule) {
                    let Rule { hold, keep, .. } = Rule::named(rule).unwrap();
                    // Of a pair that was never served there is nothing to say.
                    let is_true = service != "broken" && services.contains(service);
                    let life = lives.entry((rule, service)).or_default();
                    let expected =
                        life.step(is_true, fleet.minute, i64::from(*hold), i64::from(*keep));
                    assert_eq!(word, expected, "{rule} of {service} at {minute}");
                }
                words.insert(key, word);
            }
        }
        let word = standing.get(&(STALLED.to_owned(), String::new()));
        let word = word.map_or("inactive", |one| one.known.state.as_str());
        let word = if word == "resolved" { "inactive" } else { word };
        let is_silent = fleet.minute * 60 - heard > 600;
        assert_eq!(word, stalled.step(is_silent, fleet.minute, 5, 0), "{STALLED} at {minute}");
        words.insert((STALLED.to_owned(), String::new()), word);
        record.push(words);
    }
    let last = beside.truth(fleet.minute).await;
    assert!(last["Retrylens429Spike"].contains("broken"), "the SQL form knows of no such rule");
    (record, scraped)
}

/// Every rule fires for some service, and for none that has no trouble.
fn assert_eventful(record: &Record) {
    let fired: BTreeSet<(&str, &str)> = record
        .iter()
        .flatten()
        .filter(|(_, word)| **word == "firing")
        .map(|((rule, service), _)| (rule.as_str(), service.as_str()))
        .collect();
    for (rule, _) in sql_form::RULES {
        assert!(fired.iter().any(|(own, _)| *own == rule), "{rule} never fires");
        for service in ["calm", "tenfold", "broken"] {
            assert!(!fired.contains(&(rule, service)), "{rule} of {service}");
        }
    }
    assert!(fired.contains(&(STALLED, "")), "{STALLED} never fires");
    let over = record.last().unwrap();
    assert_eq!(over[&(STALLED.to_owned(), String::new())], "inactive");
    assert_eq!(over[&("Retrylens429Spike".to_owned(), "limited".to_owned())], "inactive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_the_evaluator_and_the_sql_form_are_equal_at_every_minute() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("replay.db").display());
    let store = Store::open(&url).await.unwrap();
    let (record, _) = replay(&store, &url, true, AFTER).await;
    assert_eventful(&record);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_the_evaluator_and_the_sql_form_are_equal_at_every_minute() {
    let Some(schema) = crate::support::postgres::Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    let (record, _) = replay(&store, &schema.url(), true, AFTER).await;
    assert_eventful(&record);
    store.close().await.unwrap();
    schema.drop().await;
}

/// Samples of `/metrics` by series, one for each minute.
fn series(scraped: &[String]) -> Vec<Value> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (minute, text) in scraped.iter().enumerate() {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let sample = line.split(" # ").next().unwrap();
            let (name, value) = sample.rsplit_once(' ').unwrap();
            if !name.contains("service=") {
                continue;
            }
            let values = all.entry(name).or_default();
            values.resize(minute, "_");
            values.push(value);
        }
    }
    // The first sample stands at the end of the first minute.
    let one = |(name, values): (&str, Vec<&str>)| json!({"series": name, "values": format!("_ {}", values.join(" "))});
    all.into_iter().map(one).collect()
}

/// At every minute, for every service, the rules of which the evaluator is sure within one evaluation
/// to either side.
fn checks(record: &Record) -> (Vec<Value>, usize) {
    let (mut checks, mut compared) = (Vec::new(), 0);
    for service in SERVICES {
        for minute in 1..record.len() {
            let (mut firing, mut unsure) = (Vec::new(), vec!["none".to_owned()]);
            for (rule, _) in sql_form::RULES {
                let fires = |minute: usize| {
                    record[minute][&(rule.to_owned(), service.to_owned())] == "firing"
                };
                let margin = usize::try_from(Rule::named(rule).unwrap().every).unwrap();
                let around = minute.saturating_sub(margin)..(minute + margin + 1).min(record.len());
                if around.clone().any(|other| fires(other) != fires(minute)) {
                    unsure.push(rule.to_owned());
                    continue;
                }
                compared += 1;
                if fires(minute) {
                    firing.push(json!({"labels": format!("{{alertname=\"{rule}\"}}"), "value": 1}));
                }
            }
            checks.push(json!({
                "expr": format!(
                    "count by (alertname) (ALERTS{{alertstate=\"firing\",service=\"{service}\",\
                     alertname!~\"{}\"}})", unsure.join("|")),
                // The record's first minute is evaluated at its end.
                "eval_time": format!("{}m", BEFORE + 1 + i64::try_from(minute).unwrap()),
                "exp_samples": firing,
            }));
        }
    }
    (checks, compared)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_fires_and_resolves_with_the_evaluator_for_every_rule_and_pair() {
    against_prometheus(AFTER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten hours of a record"]
async fn prometheus_ends_alerts_on_slow_burns_with_the_evaluator() {
    let last = against_prometheus(LONG_AFTER).await;
    for (rule, service) in [
        ("Retrylens429BudgetBurnSlow", "limited"),
        ("RetrylensLimitedBudgetBurnSlow", "limited-503"),
    ] {
        assert_eq!(last[&(rule.to_owned(), service.to_owned())], "inactive", "{rule}");
    }
}

/// Compares a record with Prometheus; how everything stands at its end.
async fn against_prometheus(after: i64) -> BTreeMap<(String, String), &'static str> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("replay.db").display());
    let store = Store::open(&url).await.unwrap();
    let (record, scraped) = replay(&store, &url, false, after).await;
    assert_eventful(&record);
    store.close().await.unwrap();
    let (checks, compared) = checks(&record);
    let all = SERVICES.len() * sql_form::RULES.len() * (record.len() - 1);
    assert!(compared * 100 > all * 95, "{compared} of {all}");
    let rules = prometheus::rules(&settings(), "https://lens.example.com");
    // The samples stand at the ends of the minutes.
    let stamped =
        scraped.iter().zip(MIDNIGHT - BEFORE + 1..).map(|(text, minute)| (minute * 60, text));
    let found = replay_prometheus::evaluate(&rules, &stamped.collect::<Vec<_>>());
    replay_prometheus::compare(&record, MIDNIGHT + 1, &found);
    let test = |checks: Vec<Value>| json!({"interval": "1m", "input_series": series(&scraped), "promql_expr_test": checks});
    promtool::test(&rules, &[test(checks.clone())]).unwrap_or_else(|e| panic!("{e}"));
    // A comparison that can't fail would mean nothing.
    let mut wrong = checks;
    wrong.retain(|check| check["exp_samples"] != json!([]));
    for check in &mut wrong {
        check["exp_samples"] = json!([]);
    }
    assert!(promtool::test(&rules, &[test(wrong)]).is_err());
    record.last().unwrap().clone()
}
