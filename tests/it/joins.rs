//! What client, gateways and origin saw of one request, put together by ids: pages, API, triage.

use super::access_logs::nginx_line;
use super::support::TestApp;
use super::support::postgres::Schema;
use retrylens::domain::classify::{Certainty, Responder, Tri, summarize};
use retrylens::domain::event::Event;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::stored::{NewEvent, StoredEvent};
use retrylens::domain::time::UnixMillis;
use retrylens::ingest::access_log::{Lines, Naming, Reader};
use retrylens::ingest::native::{self, DecodeOptions, Format, RawKeys};
use retrylens::pipeline::{Intake, IntakeSettings};
use retrylens::store::Store;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// The second that lines of [`nginx_line`] count from.
const SECOND: &str = "2026-11-11T10:30:";

/// A client's attempt at a second of the hour's half, with an id in common with a line.
fn sent(id: &str, second: u32, status: u16, operation: &str, number: u32) -> Value {
    json!({
        "event_id": format!("c-{id}"), "operation_id": operation, "attempt": number,
        "occurred_at": format!("{SECOND}{second:02}.240Z"), "duration_ms": 30,
        "service": "checkout", "environment": "prod", "method": "GET", "host": "api.example.com",
        "route": "/v1/orders/{id}", "status": status, "request_id": id,
        "outcome": if status < 400 { "succeeded" } else { "retrying" },
        // What the gateway writes over everything that it passes on.
        "headers": {"server": "envoy", "x-envoy-ratelimited": "true"},
    })
}

/// The second of 2026-11-11T10:30:00Z, as `nginx_line` counts them: 1794391000 is 09:56:40.
fn line(id: &str, second: u32, status: u16, refused: bool) -> String {
    nginx_line(id, second, status, refused)
        .replace(&format!("1794391{second:03}.250"), &format!("{}.250", 1_794_393_000 + second))
}

async fn told(app: &TestApp) {
    let mut events = Vec::new();
    let mut lines = String::new();
    for second in 1..=20 {
        let id = format!("ok-{second}");
        events.push(sent(&id, second, 200, &format!("op-{id}"), 1));
        writeln!(lines, "{}", line(&id, second, 200, false)).unwrap();
    }
    events.push(sent("bad-1", 10, 429, "op-x", 1));
    events.push(sent("bad-2", 11, 429, "op-x", 2));
    writeln!(lines, "{}", line("bad-1", 10, 429, true)).unwrap();
    writeln!(lines, "{}", line("bad-2", 11, 429, true)).unwrap();
    // Known to the client alone.
    events.push(sent("lost-1", 12, 429, "op-lost", 1));
    let answer = app.post("/v1/events", &Value::Array(events)).await;
    assert_eq!(answer.json()["stored"], 23, "{}", answer.text);
    let address = "/v1/access-logs/nginx?service=checkout&environment=prod&name=edge-1";
    let answer = app.post_text(address, "text/plain", lines).await;
    assert_eq!(answer.json()["stored"], 22, "{}", answer.text);
}

fn hop<'v>(ladder: &'v Value, name: &str) -> &'v Value {
    let hops = ladder["hops"].as_array().unwrap();
    hops.iter().find(|hop| hop["name"] == name).unwrap_or_else(|| panic!("{name}: {ladder}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_judged_by_what_the_gateways_own_log_says_of_it() {
    let app = TestApp::start().await;
    told(&app).await;
    let event = app.get("/api/v1/events/c-bad-1").await.json()["items"][0].clone();
    let verdict = &event["verdict"];
    assert_eq!(verdict["returned_by"], "nginx", "{verdict}");
    assert_eq!(
        (&verdict["outcome"], &verdict["reached_origin"]),
        (&"certain".into(), &"no".into())
    );
    assert!(!verdict["conflicts"].as_array().unwrap().is_empty(), "{verdict}");
    assert_ne!(event["stored_returned_by"], "nginx", "by the answer alone it looked otherwise");
    let edge = hop(&event["ladder"], "edge-1");
    assert_eq!(edge["sight"], "seen");
    assert_eq!((&edge["gave"], &edge["asked_nobody"]), (&429.into(), &true.into()));
    assert_eq!(edge["answered"], true, "{edge}");
    // Nobody sends the origin's log, and the gateway says that it asked nobody.
    assert_eq!(hop(&event["ladder"], "origin")["sight"], "not-seen");

    let logged = &edge["logged"][0];
    assert_eq!((&logged["status"], &logged["record"]), (&429.into(), &edge["records"][0]));
    let field = json!({"name": "limit_req_status", "value": "REJECTED"});
    assert!(logged["fields"].as_array().unwrap().contains(&field), "{logged}");

    let page = app.visit("/events/c-bad-1").await;
    let told = ["What their logs say", "limit_req_status", "REJECTED"];
    for text in ["Who saw it", "edge-1", "asked nobody", "LG-NG-1", "answered"].iter().chain(&told)
    {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let document = app.get("/events/c-bad-1/document.md").await;
    assert!(document.header("content-type").starts_with("text/markdown"));
    assert!(
        document.text.contains("edge-1") && document.text.contains("not seen"),
        "{}",
        document.text
    );

    // A gateway's own record leads to the same story.
    let record = edge["records"][0]["page"].as_str().unwrap();
    let page = app.visit(record).await;
    assert!(page.text.contains("Who saw it") && page.text.contains("checkout"), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_missing_is_not_seen_only_where_others_of_that_minute_are_there() {
    let app = TestApp::start().await;
    told(&app).await;
    let lost = app.get("/api/v1/events/c-lost-1").await.json()["items"][0].clone();
    let edge = hop(&lost["ladder"], "edge-1");
    assert_eq!(edge["sight"], "not-seen", "{edge}");
    assert!(edge["why"].as_str().unwrap().contains("20 of the 20"), "{edge}");
    assert_eq!(hop(&lost["ladder"], "origin")["sight"], "no-source");
    // An hour later nothing is known of the minute.
    let mut later = sent("later", 0, 429, "op-later", 1);
    later["occurred_at"] = "2026-11-11T11:00:00Z".into();
    assert_eq!(app.post("/v1/events", &later).await.json()["stored"], 1);
    let event = app.get("/api/v1/events/c-later").await.json()["items"][0].clone();
    let gateway = hop(&event["ladder"], "gateway");
    assert_eq!(gateway["sight"], "hole", "{gateway}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_shows_who_saw_each_attempt() {
    let app = TestApp::start().await;
    told(&app).await;
    let operation = app.get("/api/v1/operations/op-x").await.json();
    let attempts = operation["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    for rung in attempts {
        assert_eq!(rung["attempt"]["returned_by"], "nginx", "{rung}");
        assert_eq!(rung["attempt"]["certainty"], "certain");
        assert_eq!(hop(&rung["ladder"], "edge-1")["sight"], "seen");
    }
    assert_eq!(operation["observations"].as_array().unwrap().len(), 2);
    // Refused by the gateway: it asked nobody, and nothing was sent again.
    assert_eq!(operation["resent_by_gateways"], 0);
    let page = app.visit("/operations/op-x").await;
    assert!(
        page.text.contains("Who saw each attempt") && page.text.contains("edge-1: 429, answered")
    );
    let document = app.get("/operations/op-x/document.md").await.text;
    assert!(document.contains("Hops of attempt 2"), "{document}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_triage_rests_on_what_logs_prove() {
    let app = TestApp::start().await;
    told(&app).await;
    let address = "/api/v1/triage?service=checkout&upstream=api.example.com\
                   &from=2026-11-11T10:30:00Z&to=2026-11-11T10:31:00Z";
    let triage = app.get(address).await.json();
    let source = &triage["steps"][0];
    assert!(source["headline"].as_str().unwrap().starts_with("nginx returned 2 of 3"), "{source}");
    let ids: Vec<&str> =
        source["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"proven-by-record"), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pasted_response_and_a_har_are_joined_by_their_ids() {
    let app = TestApp::start().await;
    told(&app).await;
    let raw = "HTTP/1.1 429 Too Many Requests\r\nserver: envoy\r\nx-request-id: bad-1\r\n\r\n";
    let answer = app.post_text("/api/v1/classify", "text/plain", raw).await.json();
    assert_eq!(answer["returned_by"], "nginx", "{answer}");
    assert_eq!(
        (&answer["outcome"], &answer["stored"]["is_proven"]),
        (&"certain".into(), &true.into())
    );
    let records = answer["stored"]["records"].as_array().unwrap();
    assert_eq!(records.len(), 2, "the attempt and the gateway's line: {answer}");
    let har = json!({"log": {"entries": [{
        "startedDateTime": "2026-11-11T10:30:11.240Z",
        "request": {"method": "GET", "url": "https://api.example.com/v1/orders/1",
            "headers": [{"name": "X-Request-Id", "value": "bad-2"}]},
        "response": {"status": 429, "headers": [{"name": "server", "value": "envoy"}]},
    }]}});
    let answer = app.post("/api/v1/classify", &har).await.json();
    assert_eq!(answer["items"][0]["returned_by"], "nginx", "{answer}");
    // Nothing is stored under this one, and nothing under no id.
    for raw in [raw.replace("bad-1", "nobody"), raw.replace("x-request-id: bad-1\r\n", "")] {
        let answer = app.post_text("/api/v1/classify", "text/plain", raw).await.json();
        assert_ne!(answer["returned_by"], "nginx");
        assert!(answer.get("stored").is_none(), "{answer}");
    }
}

/// Events and lines as they are stored on either database.
async fn stored(store: &Store) -> Intake {
    let clock: Arc<dyn retrylens::clock::Clock> = Arc::new(retrylens::clock::ManualClock::at(
        UnixMillis::parse_rfc3339("2026-11-11T12:00:00Z").unwrap(),
    ));
    let intake = Intake::start(store.clone(), clock, IntakeSettings::default());
    let hasher = KeyHasher::new(&[7; 32]);
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Hash,
        max_items: 1_000,
        format: Format::Detect,
    };
    let mut events: Vec<Value> =
        (1..=9).map(|n| sent(&format!("ok-{n}"), n, 200, &format!("op-{n}"), 1)).collect();
    events.push(sent("bad", 5, 429, "op-x", 1));
    // Recorded by the origin under the id that nginx gave it.
    let mut origin = sent("gw-bad", 5, 429, "op-none", 1);
    origin["event_id"] = "o-bad".into();
    origin["operation_id"] = Value::Null;
    origin["vantage"] = "origin".into();
    events.push(origin);
    let decoded = native::decode(Value::Array(events).to_string().as_bytes(), &options).unwrap();
    intake.submit(decoded.events.into_iter().map(|(_, event)| event).collect()).await.unwrap();
    let mut text = String::new();
    for n in 1..=9 {
        writeln!(text, "{}", line(&format!("ok-{n}"), n, 200, false)).unwrap();
    }
    writeln!(text, "{}", line("bad", 5, 429, false)).unwrap();
    let mut lines = Vec::new();
    let mut cutter = Lines::from_offset(0);
    cutter.feed(text.as_bytes(), &mut lines);
    lines.extend(cutter.finish());
    let naming = Naming { service: Some("checkout".to_owned()), ..Naming::default() };
    let piece = Reader::new(None, naming, &hasher).read(&lines);
    intake.submit(piece.events).await.unwrap();
    intake
}

async fn joins_are_followed(store: Store) {
    use retrylens::domain::joins::{Ladder, Links, Sight};
    let intake = stored(&store).await;
    let attempt = store.events_by_id("c-bad").await.unwrap();
    let linked = store.look().await.unwrap().linked(&attempt).await.unwrap();
    let has = |id: &str| linked.iter().any(|one| one.event.request_id.as_deref() == Some(id));
    assert!(has("bad") && has("gw-bad"), "{linked:#?}");
    let coverage = store.look().await.unwrap().coverage(&attempt[0]).await.unwrap();
    assert_eq!(
        coverage.of_missing(retrylens::domain::event::Vantage::Gateway, "nginx").0,
        Sight::NotSeen
    );
    let links = Links::new(&attempt, &linked);
    let joined = links.find(&attempt[0]);
    let ladder = Ladder::new(&attempt[0], &joined, Some(&coverage));
    let names: Vec<&str> = ladder.hops.iter().map(|hop| hop.name.as_str()).collect();
    assert_eq!(names, ["checkout", "nginx", "origin"]);
    let verdict = retrylens::domain::classify::classify(ladder.response.as_ref().unwrap());
    assert_eq!((verdict.returned_by, verdict.outcome), (Responder::Origin, Certainty::Certain));
    assert_eq!(verdict.reached_origin, Tri::Yes);
    // The facts of a triage follow the same ids.
    let at = UnixMillis::parse_rfc3339("2026-11-11T10:30:00Z").unwrap();
    let view = retrylens::domain::stored::View {
        scope: retrylens::domain::stored::Scope {
            service: Some("checkout".to_owned()),
            ..Default::default()
        },
        window: retrylens::domain::time::Window {
            from: at,
            to: at.plus(retrylens::domain::time::Millis(60_000)),
        },
        time: retrylens::domain::stored::TimeBasis::Event,
    };
    let facts = store.facts(&view, at).await.unwrap();
    let bad: Vec<&StoredEvent> = facts.attempts.iter().filter(|a| a.verdict.limited).collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(
        (bad[0].verdict.returned_by, bad[0].verdict.outcome),
        (Responder::Origin, Certainty::Certain)
    );
    assert_eq!(facts.observations.len(), 11);
    intake.stop().await;
}

/// A trace of more attempts than are read of one id, and behind them the record of a gateway.
async fn a_long_trace_is_joined(store: Store) {
    let event = |id: &str, vantage: &str| {
        let event = json!({
            "event_id": id, "occurred_at": 1_794_393_000_000_i64, "service": "checkout",
            "host": "api.example.com", "status": 200, "vantage": vantage,
            "headers": [], "attempt": 1, "count": 1, "redactions": 0,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        });
        serde_json::from_value::<Event>(event).unwrap()
    };
    let at = UnixMillis(1_794_393_100_000);
    let judged = |event: Event| {
        let verdict = summarize(&event.response());
        NewEvent { event, verdict }
    };
    let sent: Vec<NewEvent> =
        (0..2_100).map(|n| judged(event(&format!("c-{n}"), "client"))).collect();
    store.insert(&sent, at).await.unwrap();
    store.insert(&[judged(event("line", "gateway"))], at).await.unwrap();
    let stored =
        |NewEvent { event, verdict }: NewEvent| StoredEvent { event, verdict, received_at: at };
    let sent: Vec<StoredEvent> = sent.into_iter().map(stored).collect();
    let linked = store.look().await.unwrap().linked(&sent).await.unwrap();
    let ids: Vec<&str> = linked.iter().map(|one| one.event.event_id.as_str()).collect();
    assert_eq!(ids, ["line"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_finds_the_record_of_a_trace_with_more_attempts_than_are_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("joins.db").display());
    a_long_trace_is_joined(Store::open(&url).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_finds_the_record_of_a_trace_with_more_attempts_than_are_read_at_once() {
    let Some(schema) = Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    a_long_trace_is_joined(store.clone()).await;
    store.close().await.unwrap();
    schema.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_follows_ids_from_hop_to_hop() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("joins.db").display());
    joins_are_followed(Store::open(&url).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_follows_ids_from_hop_to_hop() {
    let Some(schema) = Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    joins_are_followed(store.clone()).await;
    store.close().await.unwrap();
    schema.drop().await;
}
