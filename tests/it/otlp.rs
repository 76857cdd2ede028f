//! OTLP from the request to the operation's page: in any order, twice, packed, cut and refused.

use super::support::postgres::Schema;
use super::support::{Process, TestApp};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use retrylens::clock::Clock as _;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::spans::SpanKey;
use retrylens::domain::spans::hints::{DelaySource, ToldWait};
use retrylens::domain::time::{Millis, UnixMillis};
use retrylens::ingest::otlp::{self, Encoding, Options};
use retrylens::pipeline::settler::Settler;
use retrylens::store::{SpanMark, Store};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// When the spans of these tests were sent, in nanoseconds: just before the clock's noon.
const BASE_NS: u64 = 1_794_398_390_000_000_000;
const ADDRESS: &str = "https://api.example.com/v1/items?page=1";

fn id(trace: u8, span: u8) -> (String, String) {
    (
        format!("{:032x}", 0x1000 + u32::from(trace)),
        format!("{:016x}", u32::from(trace) * 256 + u32::from(span)),
    )
}

/// A span from `from` to `to` milliseconds after the base.
fn span(trace: u8, span: u8, parent: Option<u8>, from: u64, to: u64) -> Value {
    let (trace_id, span_id) = id(trace, span);
    let mut made = json!({
        "traceId": trace_id, "spanId": span_id, "kind": 3, "name": "GET",
        "startTimeUnixNano": (BASE_NS + from * 1_000_000).to_string(),
        "endTimeUnixNano": (BASE_NS + to * 1_000_000).to_string(),
        "attributes": [
            attribute("http.request.method", "GET"),
            attribute("url.full", ADDRESS),
        ],
    });
    if let Some(parent) = parent {
        made["parentSpanId"] = json!(id(trace, parent).1);
    }
    made
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn with(mut span: Value, more: &[(&str, &str)]) -> Value {
    let list = span["attributes"].as_array_mut().unwrap();
    list.extend(more.iter().map(|(key, value)| attribute(key, value)));
    span
}

fn answered(span: Value, status: &str) -> Value {
    with(span, &[("http.response.status_code", status)])
}

fn server(trace: u8, from: u64, to: u64) -> Value {
    let mut made = span(trace, 200, None, from, to);
    made["kind"] = json!(2);
    made["attributes"] = json!([
        attribute("http.request.method", "GET"),
        attribute("url.path", "/checkout"),
        attribute("server.address", "shop.example.com"),
        attribute("http.response.status_code", "200"),
    ]);
    made
}

pub(crate) fn request(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", "shop"), attribute("telemetry.sdk.language", "nodejs"),
            attribute("deployment.environment.name", "lab")]},
        "scopeSpans": [{"scope": {"name": "@opentelemetry/instrumentation-undici"}, "spans": spans}],
    }]})
}

/// 429 with a promise of one second, 503, 200 under a server's span.
pub(crate) fn incident() -> Vec<Value> {
    vec![
        with(
            answered(span(1, 1, Some(200), 0, 10), "429"),
            &[
                ("http.response.header.retry-after", "1"),
                ("http.response.header.server", "envoy"),
                ("http.response.header.x-envoy-ratelimited", "true"),
            ],
        ),
        answered(span(1, 2, Some(200), 1_050, 1_060), "503"),
        answered(span(1, 3, Some(200), 1_200, 1_210), "200"),
        server(1, 0, 2_000),
    ]
}

async fn settle(app: &TestApp, after: i64) -> usize {
    let now = app.clock.now().plus(Millis(after));
    let settler = Settler::new(app.state.store.clone(), app.state.intake.clone());
    settler.settle(now).await.unwrap()
}

const SETTLED: i64 = 60_000;

async fn operation(app: &TestApp, id: &str) -> Value {
    let answer = app.get(&format!("/api/v1/operations/{id}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

fn first_id() -> String {
    let (trace, span) = id(1, 1);
    format!("{trace}:{span}")
}

fn attempts(operation: &Value) -> Vec<(Value, Value)> {
    let list = operation["attempts"].as_array().unwrap();
    list.iter().map(|a| (a["attempt"]["attempt"].clone(), a["attempt"]["status"].clone())).collect()
}

#[test]
fn an_export_in_chunks_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let body = request(&incident()).to_string();
    let chunks = body.as_bytes().chunks(100).fold(String::new(), |mut all, chunk| {
        let text = str::from_utf8(chunk).unwrap();
        write!(all, "{:x};a=b\r\n{text}\r\n", chunk.len()).unwrap();
        all
    });
    let answer = process.raw(&format!(
        "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n{chunks}0\r\n\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n{}"), "{answer}");
}

#[tokio::test]
async fn attempts_become_an_operation_in_any_order_and_however_often_they_come() {
    let incident = incident();
    let orders: [&[usize]; 4] = [&[0, 1, 2, 3], &[3, 2, 1, 0], &[2, 0, 3, 1], &[1, 1, 3, 0, 2, 0]];
    for order in orders {
        let app = TestApp::start().await;
        for n in order {
            let answer = app.post("/v1/traces", &request(&incident[*n..=*n])).await;
            assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "{}"));
        }
        assert_eq!(settle(&app, SETTLED).await, 4, "{order:?}");
        assert_eq!(settle(&app, SETTLED).await, 0, "nothing twice");
        let operation = operation(&app, &first_id()).await;
        let expected = [(1, 429), (2, 503), (3, 200)].map(|(n, s)| (json!(n), json!(s)));
        assert_eq!(attempts(&operation), expected, "{order:?}");
        let first = &operation["attempts"][0];
        assert_eq!(first["wait"]["chosen_ms"], 1_040);
        assert_eq!(first["wait"]["real_ms"], 1_040);
        assert_eq!(first["wait"]["promised_ms"], 1_000);
        assert_eq!(first["attempt"]["outcome"], "retrying");
        assert_eq!(first["attempt"]["returned_by"], "envoy");
        let derived = &first["attempt"]["derived"];
        assert_eq!(derived["confidence"], "parent");
        assert_eq!(derived["visibility"], "all");
        assert_eq!(derived["language"], "nodejs");
        assert_eq!(derived["has_headers"], true);
        assert_eq!(operation["attempts"][1]["attempt"]["derived"]["has_headers"], false);
        let notes = operation["notes"].as_array().unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
}

#[tokio::test]
async fn nothing_is_settled_while_it_may_go_on() {
    let app = TestApp::start().await;
    let incident = incident();
    app.post("/v1/traces", &request(&incident[..1])).await;
    assert_eq!(settle(&app, 6_000).await, 0, "a 429 may be retried");
    assert_eq!(settle(&app, 39_000).await, 0);
    app.post("/v1/traces", &request(&incident[1..])).await;
    // The server's own observation, and the operation that ended with 200.
    assert_eq!(settle(&app, 5_000).await, 4);
    assert_eq!(attempts(&operation(&app, &first_id()).await).len(), 3);
}

#[tokio::test]
async fn a_look_up_of_a_trace_says_that_its_spans_wait_to_be_settled() {
    let app = TestApp::start().await;
    app.post("/v1/traces", &request(&incident())).await;
    let (trace, _) = id(1, 1);
    let found = app.get(&format!("/api/v1/lookup?id={trace}")).await.json();
    assert_eq!(found["items"], json!([]));
    assert_eq!(found["waiting"]["spans"], 4, "{found}");
    let due = app.clock.now().plus(Millis(5_000)).to_rfc3339();
    assert_eq!(found["waiting"]["due_at"], due, "{found}");
    let page = app.visit(&format!("/lookup?id={trace}")).await;
    assert!(page.text.contains("4 spans of this trace have arrived and wait"), "{}", page.text);
    assert!(page.text.contains("No attempt has this id yet"), "{}", page.text);
    assert_eq!(settle(&app, SETTLED).await, 4);
    let found = app.get(&format!("/api/v1/lookup?id={trace}")).await.json();
    assert_eq!((&found["waiting"], found["items"].as_array().unwrap().len()), (&Value::Null, 4));
    assert!(!app.visit(&format!("/lookup?id={trace}")).await.text.contains("arrived and wait"));
}

#[tokio::test]
async fn a_look_up_of_a_trace_names_the_time_at_which_it_is_settled_and_no_earlier_one() {
    let [refused, _, served, server] = <[Value; 4]>::try_from(incident()).unwrap();
    let retried_later = answered(span(1, 1, Some(200), 0, 10), "429");
    let retried_later = with(retried_later, &[("http.response.header.retry-after", "90")]);
    for (spans, seconds, why) in [
        (vec![served.clone(), server.clone()], 5, "an answer that nobody retries"),
        (vec![served], 40, "its parent may still come, and so may attempts before it"),
        (vec![refused, server], 40, "it may be retried"),
        (vec![retried_later], 190, "after twice the promised wait"),
    ] {
        let app = TestApp::start().await;
        app.post("/v1/traces", &request(&spans)).await;
        let (trace, _) = id(1, 1);
        let waiting =
            async || app.get(&format!("/api/v1/lookup?id={trace}")).await.json()["waiting"].clone();
        let due = app.clock.now().plus(Millis(seconds * 1_000)).to_rfc3339();
        assert_eq!(waiting().await["due_at"], due, "{why}");
        // Looked at in the meantime, too.
        settle(&app, seconds * 1_000 - 1).await;
        let left = waiting().await;
        assert_eq!(left["due_at"], due, "{why}: {left}");
        settle(&app, seconds * 1_000).await;
        assert_eq!(waiting().await, Value::Null, "{why}");
    }
}

/// As [`request`], of the service that answers: the span of its server under a client's span.
fn answering(trace: u8, caller: u8, from: u64, status: &str) -> Value {
    let mut made = answered(span(trace, caller + 100, Some(caller), from + 1, from + 9), status);
    made["kind"] = json!(2);
    made
}

fn of_the_origin(spans: &[Value]) -> Value {
    let mut body = request(spans);
    body["resourceSpans"][0]["resource"]["attributes"][0] = attribute("service.name", "items");
    body
}

#[tokio::test]
async fn a_clients_span_is_joined_with_the_servers_span_below_it_and_with_no_other_of_its_trace() {
    let app = TestApp::start().await;
    let (mut sent, mut seen) = (Vec::new(), Vec::new());
    // Others before and after, each with its record: what has none was not seen.
    for trace in 2..=21 {
        let from = u64::from(trace) * 400;
        sent.push(answered(span(trace, 1, None, from, from + 10), "200"));
        seen.push(answering(trace, 1, from, "200"));
    }
    // What they were made for, at the beginning of a trace and called by somebody unknown.
    sent.push(server(2, 790, 830));
    let mut called = server(3, 1_190, 1_230);
    called["parentSpanId"] = json!(id(3, 50).1);
    sent.push(called);
    // Of one trace: refused by the origin, refused before it, served by it.
    for (number, from, status) in [(1, 4_000, "429"), (2, 4_100, "503"), (3, 4_200, "200")] {
        sent.push(answered(span(1, number, Some(200), from, from + 10), status));
        if number != 2 {
            seen.push(answering(1, number, from, status));
        }
    }
    sent.push(server(1, 3_900, 4_300));
    app.post("/v1/traces", &request(&sent)).await;
    settle(&app, SETTLED).await;
    let origin = |rung: &Value| -> Value {
        let hops = rung["ladder"]["hops"].as_array().cloned().unwrap_or_default();
        hops.into_iter().find(|hop| hop["name"] == "origin").unwrap_or_default()
    };
    for trace in 1..=4 {
        let (trace, client_span) = id(trace, 1);
        let found = app.get(&format!("/api/v1/events/{trace}:{client_span}")).await.json();
        let hop = origin(&found["items"][0]);
        assert_eq!(hop["sight"], "no-source", "the caller's own server is no origin: {hop}");
    }

    app.post("/v1/traces", &of_the_origin(&seen)).await;
    settle(&app, SETTLED).await;
    let operation = operation(&app, &first_id()).await;
    let rungs = operation["attempts"].as_array().unwrap();
    assert_eq!(rungs.len(), 3, "{operation}");
    for (rung, sight, gave) in
        [(0, "seen", json!(429)), (1, "not-seen", Value::Null), (2, "seen", json!(200))]
    {
        let hop = origin(&rungs[rung]);
        assert_eq!((&hop["sight"], &hop["gave"]), (&json!(sight), &gave), "{rung}: {hop}");
        assert_eq!(hop["records"].as_array().unwrap().len(), usize::from(rung != 1), "{hop}");
    }
    let (trace, server_span) = id(1, 101);
    let event = app.get(&format!("/api/v1/events/{}", first_id())).await.json()["items"][0].clone();
    let record = &origin(&event)["records"][0];
    assert!(record["page"].as_str().unwrap().contains(&server_span), "{trace}: {record}");
    assert_eq!(event["verdict"]["returned_by"], "origin", "{event}");
    assert_eq!(event["verdict"]["reached_origin"], "yes", "{event}");
    let page = app.visit(&format!("/operations/{}", first_id())).await;
    assert!(page.text.contains("origin: 429"), "{}", page.text);
}

#[tokio::test]
async fn a_servers_span_without_an_address_is_the_origins_record_of_its_callers_upstream() {
    let unnamed = |mut made: Value| {
        made["attributes"].as_array_mut().unwrap().retain(|one| one["key"] != "url.full");
        with(made, &[("url.path", "/v1/items"), ("url.scheme", "http")])
    };
    let app = TestApp::start().await;
    let refused = answered(span(1, 1, None, 4_000, 4_010), "429");
    app.post("/v1/traces", &request(&[refused])).await;
    // The second one's caller sends no spans here.
    let seen = [unnamed(answering(1, 1, 4_000, "429")), unnamed(answering(2, 1, 5_000, "503"))];
    let answer = app.post("/v1/traces", &of_the_origin(&seen)).await;
    assert_eq!(answer.text, "{}");
    settle(&app, SETTLED).await;
    for (trace, upstream) in [(1, "api.example.com"), (2, "items")] {
        let (trace, server_span) = id(trace, 101);
        let found = app.get(&format!("/api/v1/events/{trace}:{server_span}")).await.json();
        let event = &found["items"][0]["event"];
        assert_eq!((&event["vantage"], &event["host"]), (&json!("origin"), &json!(upstream)));
    }
    let found = app.get(&format!("/api/v1/events/{}", first_id())).await.json();
    let verdict = &found["items"][0]["verdict"];
    assert_eq!(verdict["returned_by"], "origin", "{found}");
    assert_eq!(verdict["reached_origin"], "yes", "{found}");
}

#[tokio::test]
async fn a_clients_span_that_names_nobody_is_told_in_the_answer() {
    let app = TestApp::start().await;
    let mut nobody = answered(span(1, 1, None, 0, 10), "429");
    nobody["attributes"].as_array_mut().unwrap().retain(|one| one["key"] != "url.full");
    let answer = app.post("/v1/traces", &request(&[nobody])).await;
    assert_eq!(answer.status, StatusCode::OK);
    let told = &answer.json()["partialSuccess"];
    assert_eq!(told["rejectedSpans"], "1", "{told}");
    assert!(told["errorMessage"].as_str().unwrap().contains("no server.address"), "{told}");
}

#[tokio::test]
async fn a_sampled_refusal_that_may_have_been_retried_is_not_called_complete() {
    let app = TestApp::start().await;
    app.post("/v1/traces", &request(&[answered(span(1, 1, None, 0, 10), "429")])).await;
    assert_eq!(settle(&app, SETTLED).await, 1);
    let operation = operation(&app, &first_id()).await;
    assert_eq!(operation["is_complete"], false, "{operation}");
    assert_eq!(operation["is_cut"], false);
    assert_eq!(operation["attempts"][0]["attempt"]["derived"]["visibility"], "at-least");
    let note = operation["notes"][0].as_str().unwrap();
    assert!(note.starts_with("At least these attempts were made"), "{note}");
    let page = app.visit(&format!("/operations/{}", first_id())).await;
    assert!(page.text.contains("at least 1"), "{}", page.text);
}

#[tokio::test]
async fn a_call_of_an_sdk_without_an_http_status_is_an_operation_unless_its_attempts_are_seen() {
    let app = TestApp::start().await;
    let call = |trace, with_attempt: bool| {
        let mut made = span(trace, 1, None, 0, 900);
        made["attributes"] = json!([
            attribute("gen_ai.system", "openai"),
            attribute("error.type", "RateLimitError")
        ]);
        let attempt = answered(span(trace, 2, Some(1), 10, 20), "429");
        if with_attempt { vec![made, attempt] } else { vec![made] }
    };
    let spans = [call(1, false), call(2, true)].concat();
    app.post("/v1/traces", &request(&spans)).await;
    assert_eq!(settle(&app, SETTLED).await, 2);
    let (alone, with_one) = (operation(&app, &first_id()).await, {
        let (trace, span) = id(2, 1);
        operation(&app, &format!("{trace}:{span}")).await
    });
    let attempt = &alone["attempts"][0]["attempt"];
    assert_eq!((&attempt["status"], &attempt["upstream"]), (&json!(429), &json!("openai")));
    assert_eq!(attempt["derived"]["visibility"], "not-visible");
    assert_eq!(alone["is_complete"], false);
    assert_eq!(attempts(&with_one), [(json!(1), json!(429))]);
    assert_eq!(with_one["attempts"][0]["attempt"]["upstream"], "api.example.com");
}

#[tokio::test]
async fn a_late_span_joins_its_operation_and_is_marked() {
    let app = TestApp::start().await;
    let incident = incident();
    app.post("/v1/traces", &request(&incident[..2])).await;
    assert_eq!(settle(&app, SETTLED).await, 2);
    app.post("/v1/traces", &request(&incident[2..])).await;
    assert_eq!(settle(&app, SETTLED).await, 2);
    let operation = operation(&app, &first_id()).await;
    assert_eq!(attempts(&operation).len(), 3);
    let late: Vec<_> = operation["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["attempt"]["derived"]["late"] == true)
        .collect();
    assert_eq!(late, [false, false, true]);
}

#[tokio::test]
async fn a_crash_after_the_events_were_stored_doubles_nothing() {
    let app = TestApp::start().await;
    app.post("/v1/traces", &request(&incident())).await;
    assert_eq!(settle(&app, SETTLED).await, 4);
    // As if the process had died before it noted what it did.
    let keys: Vec<(SpanKey, SpanMark)> = Vec::new();
    app.state.store.mark_spans(&keys).await.unwrap();
    let now = app.clock.now();
    app.state.store.remove_spans(now.plus(Millis(1)), 100).await.unwrap();
    app.post("/v1/traces", &request(&incident())).await;
    assert_eq!(settle(&app, SETTLED).await, 4);
    assert_eq!(attempts(&operation(&app, &first_id()).await).len(), 3);
}

#[tokio::test]
async fn packed_and_protobuf_bodies_are_taken_and_answered_in_kind() {
    let app = TestApp::start().await;
    let text = request(&incident()).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let post = |media: &str, body: Vec<u8>| {
        Request::post("/v1/traces").header("content-type", media).body(Body::from(body)).unwrap()
    };
    let mut packed = post("application/json", gzip.finish().unwrap());
    packed.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(app.send(packed).await.status, StatusCode::OK);
    let empty = app.send(post("application/x-protobuf", Vec::new())).await;
    assert_eq!((empty.status, empty.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(empty.header("content-type"), "application/x-protobuf");
    assert_eq!(settle(&app, SETTLED).await, 4);
}

#[tokio::test]
async fn refusals_are_told_as_exporters_read_them() {
    let app = TestApp::with(&[("max_body_bytes", "2000")]).await;
    let mut bad = span(1, 1, None, 0, 10);
    bad["spanId"] = json!("12");
    let answer = app.post("/v1/traces", &request(&[bad, server(1, 0, 1)])).await;
    assert_eq!(answer.status, StatusCode::OK);
    let told = &answer.json()["partialSuccess"];
    assert_eq!(told["rejectedSpans"], "1");
    assert_eq!(told["errorMessage"], "span 12: span_id: expected 8 bytes, got 1");
    let cases = [
        ("application/json", "{".to_owned(), 400, 3),
        ("text/plain", "{}".to_owned(), 415, 3),
        ("application/json", " ".repeat(3_000), 413, 8),
    ];
    for (media, body, status, code) in cases {
        let answer = app.post_text("/v1/traces", media, body).await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
        assert_eq!(answer.json()["code"], code);
        assert!(!answer.json()["message"].as_str().unwrap().is_empty());
        assert_eq!(answer.header("content-type"), "application/json");
    }
    let answer = app.post_text("/v1/traces", "application/x-protobuf", "\u{1}").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.text.as_bytes()[..2], [8, 3]);
}

#[tokio::test]
async fn a_stopping_service_sends_exporters_away_for_a_while() {
    let app = TestApp::start().await;
    app.state.store.close().await.unwrap();
    let answer = app.post("/v1/traces", &request(&incident())).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert_eq!(answer.json()["code"], 14);
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn traces_need_the_token_that_events_need() {
    let app = TestApp::with(&[("ingest_tokens", "sending-token-0123456789")]).await;
    let answer = app.post("/v1/traces", &request(&incident())).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

/// OTLP/HTTP has a `google.rpc.Status` in the request's media type for every failure, whoever found it.
#[tokio::test]
async fn a_missing_token_and_a_wrong_method_are_told_as_exporters_read_them() {
    let app = TestApp::with(&[("ingest_tokens", "sending-token-0123456789")]).await;
    for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
        let answer = app.post(path, &json!({})).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(
            (answer.header("content-type"), &answer.json()["code"]),
            ("application/json", &json!(16))
        );
        assert!(answer.header("www-authenticate").starts_with("Bearer"), "{path}");
        let answer = app.post_text(path, "application/x-protobuf", "").await;
        assert_eq!(answer.header("content-type"), "application/x-protobuf", "{path}");
        assert_eq!(answer.text.as_bytes()[..2], [8, 16], "{path}");
        let answer = app.get(path).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (StatusCode::METHOD_NOT_ALLOWED, &json!(12))
        );
    }
    let answer = app.post("/v1/events", &json!({})).await;
    assert_eq!(answer.header("content-type"), "application/problem+json", "no route of OTLP");
}

#[tokio::test]
async fn a_wait_that_the_client_logged_is_the_one_it_chose() {
    let app = TestApp::start().await;
    app.post("/v1/traces", &request(&incident())).await;
    let record = |at: u64, text: &str| {
        json!({"timeUnixNano": (BASE_NS + at * 1_000_000).to_string(), "traceId": id(1, 0).0,
               "body": {"stringValue": text}})
    };
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
        record(12, "Retrying request in 0.95 seconds (retry 1 of 2)"),
        record(13, "something else with a secret: sk-live-0123456789abcdefghij"),
        {"body": null, "traceId": null},
    ]}]}]});
    let answer = app.post("/v1/logs", &logs).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "{}"));
    settle(&app, SETTLED).await;
    let operation = operation(&app, &first_id()).await;
    assert_eq!(operation["attempts"][0]["wait"]["chosen_ms"], 950);
    let event = app.get(&format!("/api/v1/events/{}", first_id())).await.json();
    assert_eq!(event["items"][0]["event"]["delay_source"], "log");
}

/// What is kept of spans is the same on both databases.
async fn spans_are_kept_and_marked(store: &Store) {
    let hasher = KeyHasher::new(b"test");
    let options = Options { hasher: &hasher, max_items: 100, ourselves: None };
    let body = request(&incident()).to_string();
    let spans = otlp::traces(body.as_bytes(), Encoding::Json, &options).unwrap().spans;
    let now = UnixMillis(1_000_000);
    let due = now.plus(Millis(5_000));
    for _ in 0..2 {
        store.add_spans(&spans, now, due).await.unwrap();
    }
    assert!(store.due_hoods(now, 10).await.unwrap().is_empty());
    let hoods = store.due_hoods(due, 10).await.unwrap();
    assert_eq!(hoods.len(), 2);
    let hood = hoods.iter().find(|hood| !hood.is_servers()).unwrap();
    let open = store.open_spans(hood, 10).await.unwrap();
    assert_eq!(open.iter().map(|held| held.span.clone()).collect::<Vec<_>>(), spans[..3]);
    let (first, second) = (spans[0].key, spans[1].key);
    let later = due.plus(Millis(1));
    let marks = [
        (first, SpanMark::Settled("op".to_owned())),
        (second, SpanMark::Wait(later)),
        (spans[2].key, SpanMark::Wait(later)),
    ];
    store.mark_spans(&marks).await.unwrap();
    assert_eq!(store.open_spans(hood, 10).await.unwrap().len(), 2);
    assert_eq!(store.due_hoods(due, 10).await.unwrap().len(), 1, "the server's");
    let waiting = async |key: SpanKey| store.waiting_spans(key.trace).await.unwrap();
    assert_eq!(waiting(first).await, Some((3, due)), "two of the client's, and the server's");
    let settled = store.settled_spans(hood, 0, i64::MAX, 10).await.unwrap();
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].operation_id.as_deref(), Some("op"));
    let keys = [first, spans[3].key];
    assert_eq!(store.spans_with_keys(&keys).await.unwrap().len(), 2);
    let traces = keys.map(|key| key.trace);
    assert_eq!(store.spans_of_traces(traces, 10).await.unwrap().len(), 4);
    let wait = |delay_ms| ToldWait { at_us: 5, delay_ms, source: DelaySource::Log };
    let waits = [(first.trace, wait(1)), (first.trace, wait(2))];
    for _ in 0..2 {
        store.add_waits(&waits, now).await.unwrap();
    }
    let logged = store.logged_waits(&[first.trace].into()).await.unwrap();
    assert_eq!(logged[&first.trace], [wait(1), wait(2)]);
    assert_eq!(store.remove_spans(now, 10).await.unwrap(), 0);
    assert_eq!(store.remove_spans(later, 10).await.unwrap(), 1, "only what is settled");
}

#[tokio::test]
async fn sqlite_keeps_spans() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("spans.db").display());
    spans_are_kept_and_marked(&Store::open(&url).await.unwrap()).await;
}

#[tokio::test]
async fn postgres_keeps_spans() {
    let Some(schema) = Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    spans_are_kept_and_marked(&store).await;
    store.close().await.unwrap();
    schema.drop().await;
}

/// A call as any gRPC client makes it; the body of the answer, and its header fields.
pub(crate) async fn call(
    address: &str,
    method: &str,
    token: Option<&str>,
    packed: bool,
    message: Vec<u8>,
) -> (axum::http::HeaderMap, Vec<u8>) {
    let mut body = vec![u8::from(packed)];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(executor, io).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut request = Request::post(format!("http://{address}/{method}"))
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers");
    if packed {
        request = request.header("grpc-encoding", "gzip");
    }
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Body::from(body)).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let (parts, mut incoming) = response.into_parts();
    let (mut headers, mut bytes) = (parts.headers, Vec::new());
    while let Some(frame) = http_body_util::BodyExt::frame(&mut incoming).await {
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => headers.extend(frame.into_trailers().unwrap()),
        }
    }
    driver.abort();
    (headers, bytes)
}

const TRACES: &str = "opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Where a process that serves from `folder` takes calls, from its log.
pub(crate) fn grpc_address(folder: &Path) -> String {
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    let (_, rest) = log.split_once("over gRPC is taken on ").unwrap_or_else(|| panic!("{log}"));
    rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect()
}

/// The smallest request with a span that can't be used: its ids are missing.
const NO_IDS: [u8; 6] = [0x0a, 4, 0x12, 2, 0x12, 0];

#[tokio::test]
async fn grpc_takes_the_same_under_the_same_rule() {
    let folder = tempfile::tempdir().unwrap();
    let token = "sending-token-0123456789";
    let environment =
        [("RETRYLENS_OTLP_GRPC_LISTEN", "127.0.0.1:0"), ("RETRYLENS_INGEST_TOKENS", token)];
    let _process = Process::serve(folder.path(), &[], &environment);
    let address = grpc_address(folder.path());
    let status =
        |headers: &axum::http::HeaderMap| headers["grpc-status"].to_str().unwrap().to_owned();
    let (headers, bytes) = call(&address, TRACES, Some(token), false, Vec::new()).await;
    assert_eq!((status(&headers).as_str(), bytes), ("0", vec![0, 0, 0, 0, 0]));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&NO_IDS).unwrap();
    let (headers, bytes) = call(&address, TRACES, Some(token), true, gzip.finish().unwrap()).await;
    assert_eq!(status(&headers), "0");
    let told = String::from_utf8_lossy(&bytes).into_owned();
    assert!(told.contains("span 1: trace_id: missing: expected 16 bytes"), "{told}");
    let (headers, _) = call(&address, TRACES, None, false, Vec::new()).await;
    assert_eq!(status(&headers), "16", "no token");
    let (headers, _) = call(&address, TRACES, Some(token), false, vec![0xff]).await;
    assert_eq!(status(&headers), "3", "no message");
}

#[test]
fn a_busy_port_of_grpc_is_a_warning() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let _process = Process::serve(folder.path(), &[], &[("RETRYLENS_OTLP_GRPC_LISTEN", &address)]);
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("OTLP over gRPC is not taken") && log.contains(&address), "{log}");
}
