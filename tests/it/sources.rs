//! `/sources`: who sends what, when it fell silent, and what is missing for which step.

use super::access_logs::nginx_line;
use super::support::TestApp;
use super::support::postgres::Schema;
use retrylens::clock::{Clock, ManualClock};
use retrylens::domain::event::Vantage;
use retrylens::domain::sources::{Fit, Input, fits};
use retrylens::domain::time::UnixMillis;
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::Store;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

fn events() -> Vec<Value> {
    let mut events = Vec::new();
    // Half an hour before noon, every minute but three.
    for minute in (30..58).filter(|minute| !(40..43).contains(minute)) {
        events.push(json!({
            "event_id": format!("e-{minute}"), "occurred_at": format!("2026-11-11T11:{minute}:10Z"),
            "service": "checkout", "host": "api.example.com", "method": "GET", "route": "/v1/a",
            "status": if minute % 2 == 0 { 429 } else { 200 }, "duration_ms": 12,
            "request_id": format!("r-{minute}"),
        }));
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_source_is_listed_with_its_gaps_and_what_it_lacks() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/api/v1/sources").await.json()["items"], json!([]));
    app.post("/v1/events", &Value::Array(events())).await;
    // Sent again: nothing changes.
    app.post("/v1/events", &Value::Array(events())).await;
    app.post("/v1/events", &json!([{"service": "checkout", "status": 200}])).await;
    let mut lines = String::new();
    for n in 0..4 {
        writeln!(lines, "{}", nginx_line(&format!("r-{n}"), n, 429, true)).unwrap();
    }
    app.post_text("/v1/access-logs/auto?service=checkout&name=edge-1", "text/plain", lines).await;

    let sources = app.get("/api/v1/sources").await.json();
    let items = sources["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{sources}");
    let of = |vantage: &str| items.iter().find(|item| item["vantage"] == vantage).unwrap();
    let client = of("client");
    assert_eq!((&client["input"], &client["events"]), (&"native".into(), &25.into()));
    assert_eq!(client["first_at"], "2026-11-11T11:30:10.000Z");
    assert_eq!(client["last_at"], "2026-11-11T11:57:10.000Z");
    let gap = json!([{"from": "2026-11-11T11:40:00.000Z", "to": "2026-11-11T11:43:00.000Z"}]);
    assert_eq!(client["gaps"], gap, "{client}");
    let fit = |source: &Value, step: usize| source["steps"][step - 1]["fit"].clone();
    // No headers of refusals: nobody can say who answered from these alone.
    assert_eq!(fit(client, 1), "lacking");
    assert_eq!(fit(client, 2), "full");
    assert_eq!(fit(client, 6), "lacking");
    let lacks: Vec<&str> = client["lacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lack| lack["lacks"].as_str().unwrap())
        .collect();
    for lack in ["headers", "retry-after", "operation", "delay", "key"] {
        assert!(lacks.contains(&lack), "{lack}: {lacks:?}");
    }
    let gateway = of("gateway");
    assert_eq!((&gateway["name"], &gateway["input"]), (&"edge-1".into(), &"access-log".into()));
    assert_eq!(fit(gateway, 3), "full", "{gateway}");
    // It ships refusals alone: a missing line of it would mean nothing.
    let lacking = gateway["lacks"].as_array().unwrap();
    assert!(lacking.iter().any(|lack| lack["lacks"] == "served"), "{gateway}");
    assert_eq!(sources["without_proof"][0]["lacks_gateway"], false);
    assert_eq!(sources["without_proof"][0]["lacks_origin"], true);
    assert_eq!(sources["senders"][0]["rejected"], 1, "{sources}");

    let page = app.visit("/sources").await;
    for text in ["edge-1", "What the eight steps get", "11:40:00", "idempotency", "operation_id"] {
        let expected = text != "idempotency";
        assert_eq!(page.text.contains(text), expected, "{text}: {}", page.text);
    }
}

async fn counts_add_up(store: Store) {
    let now = UnixMillis::parse_rfc3339("2026-11-11T12:00:00Z").unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(now));
    let intake = Intake::start(store.clone(), clock, IntakeSettings::default());
    let decode = |events: Vec<Value>| {
        let hasher = retrylens::domain::key_hash::KeyHasher::new(&[7; 32]);
        let options = retrylens::ingest::native::DecodeOptions {
            hasher: &hasher,
            raw_keys: retrylens::ingest::native::RawKeys::Hash,
            max_items: 1_000,
            format: retrylens::ingest::native::Format::Detect,
        };
        let body = Value::Array(events).to_string();
        let decoded = retrylens::ingest::native::decode(body.as_bytes(), &options).unwrap();
        decoded.events.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
    };
    let (first, second) = (events(), events());
    let (first, second) = (&first[..10], &second[5..]);
    for part in [first, second] {
        intake.submit_from(decode(part.to_vec()), Input::Otlp).await.unwrap();
        intake.sources().write(&store, now).await.unwrap();
    }
    let sources = store.sources(None, 10, now).await.unwrap().items;
    assert_eq!(sources.len(), 1, "{sources:#?}");
    let source = &sources[0];
    assert_eq!((source.key.vantage, source.key.input), (Vantage::Client, Input::Otlp));
    assert_eq!(source.events, 25);
    assert_eq!(source.minutes.len(), 25);
    assert_eq!(source.gaps(now).len(), 1);
    assert_eq!(fits(source)[1].fit, Fit::Full);
    // Two days later the minutes are forgotten, the source is not.
    let later = now.plus(retrylens::domain::time::Millis(3 * 86_400_000));
    intake
        .submit(decode(vec![json!({
            "event_id": "late", "occurred_at": later.to_rfc3339(), "service": "checkout",
            "host": "api.example.com", "status": 200,
        })]))
        .await
        .unwrap();
    intake.sources().write(&store, later).await.unwrap();
    let sources = store.sources(None, 10, later).await.unwrap().items;
    assert_eq!(sources.len(), 2);
    assert!(sources.iter().any(|one| one.events == 25 && one.minutes.is_empty()));
    // By the clock of receipt, and a service once.
    assert_eq!(store.last_received().await.unwrap(), [("checkout".to_owned(), now)]);
    // Page by page: each once, and whoever is seen elsewhere is known on each page.
    let gateway = json!({
        "event_id": "seen", "occurred_at": later.to_rfc3339(), "service": "edge",
        "vantage": "gateway", "host": "api.example.com", "status": 200,
    });
    intake.submit(decode(vec![gateway])).await.unwrap();
    intake.sources().write(&store, later).await.unwrap();
    let whole = store.sources(None, 3, later).await.unwrap();
    assert_eq!((whole.items.len(), whole.next), (3, None));
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = store.sources(after, 1, later).await.unwrap();
        let by = [Vantage::Client, Vantage::Gateway].into();
        assert_eq!(page.seen, [("api.example.com".to_owned(), by)].into());
        paged.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, whole.items);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sources_are_paged_and_each_address_leads_to_the_next() {
    let app = TestApp::start().await;
    let events: Vec<Value> = (0..120)
        .map(|n| {
            json!({"event_id": format!("e-{n}"), "occurred_at": "2026-11-11T11:59:00Z",
                "service": format!("service-{n:03}"), "host": "api.example.com", "status": 429})
        })
        .collect();
    app.post("/v1/events", &Value::Array(events)).await;
    let (mut names, mut address) = (Vec::new(), "/api/v1/sources".to_owned());
    let mut pages = 0;
    loop {
        let list = app.get(&address).await.json();
        let items = list["items"].as_array().unwrap();
        assert!(items.len() <= 50, "{}", items.len());
        names.extend(items.iter().map(|item| item["service"].as_str().unwrap().to_owned()));
        assert_eq!(list["senders"].as_array().unwrap().is_empty(), pages > 0);
        pages += 1;
        let Some(next) = list["next"].as_str() else { break };
        address = next.to_owned();
    }
    names.sort();
    names.dedup();
    assert_eq!((pages, names.len()), (3, 120));
    let page = app.visit("/sources").await;
    assert!(page.text.len() < 1_000_000, "{}", page.text.len());
    let (_, next) = page.text.split_once("href=\"/sources?after=").unwrap();
    let next = format!("/sources?after={}", next.split('"').next().unwrap());
    assert!(app.visit(&next).await.text.contains("Sources that sent before these"));
    let two = app.get("/api/v1/sources?limit=2").await.json();
    assert!(two["next"].as_str().unwrap().starts_with("/api/v1/sources?limit=2&after="), "{two}");
    for wrong in ["limit=0", "after=x", "after=1"] {
        let answer = app.get(&format!("/api/v1/sources?{wrong}")).await;
        assert_eq!(answer.json()["parameter"], wrong.split('=').next().unwrap(), "{}", answer.text);
    }
    assert!(app.visit("/sources?after=0.0").await.text.contains("No more sources"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_counts_sources() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("sources.db").display());
    counts_add_up(Store::open(&url).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_counts_sources() {
    let Some(schema) = Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    counts_add_up(store.clone()).await;
    store.close().await.unwrap();
    schema.drop().await;
}
