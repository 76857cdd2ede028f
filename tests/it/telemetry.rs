//! Our own traces, as a collector receives them.

use crate::support::Process;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Kind};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message;
use std::sync::{Arc, Mutex};

type Received = Arc<Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>>;

async fn receive(State(received): State<Received>, headers: HeaderMap, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    received.lock().unwrap().push((headers, request));
}

fn value<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Kind> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    found.value.as_ref().and_then(|AnyValue { value }| value.as_ref())
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    match value(attributes, name) {
        Some(Kind::StringValue(text)) => text.clone(),
        Some(Kind::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_arrive_as_spans_that_continue_the_callers_trace() {
    let received = Received::default();
    let collector = Router::new().route("/v1/traces", post(receive)).with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, collector).await });

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
        let mut process = Process::serve(&path, &["--log-format", "json"], &environment);
        let body = "{\"service\":\"checkout\"}";
        let answer = process.raw(&format!(
            "POST /v1/events?token=secret-in-query HTTP/1.1\r\nhost: localhost\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
        let event = "{\"occurred_at\":\"2026-11-11T11:59:00Z\",\"service\":\"a\",\"host\":\"b\",\"status\":200}";
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        assert_eq!(process.post("/v1/events", &event).unwrap().0, 200);
        process.get("/no/such/ops@example.com");
        process.get("/healthz");
        process.signal("TERM");
        assert!(process.wait().success());
    })
    .await
    .unwrap();

    let received = received.lock().unwrap();
    assert!(!received.is_empty(), "nothing was sent before the end");
    for (headers, request) in received.iter() {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let resource = request.resource_spans[0].resource.as_ref().unwrap();
        assert_eq!(text(&resource.attributes, "service.name"), "retrylens");
        assert_eq!(text(&resource.attributes, "service.version"), env!("CARGO_PKG_VERSION"));
    }
    let spans: Vec<&Span> = received
        .iter()
        .flat_map(|(_, request)| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
        .collect();
    let posted = spans.iter().find(|span| span.name == "POST /v1/events").unwrap();
    assert_eq!(hex::encode(&posted.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex::encode(&posted.parent_span_id), "b7ad6b7169203331");
    assert_eq!(posted.kind, SpanKind::Server as i32);
    assert!(posted.end_time_unix_nano > posted.start_time_unix_nano);
    for (name, expected) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/events"),
        ("http.response.status_code", "422"),
        ("url.path", "/v1/events"),
        ("url.scheme", "http"),
    ] {
        assert_eq!(text(&posted.attributes, name), expected, "{name}");
    }
    assert!(value(&posted.attributes, "error.type").is_none(), "422 is the sender's error");
    assert!(spans.iter().any(|span| span.name == "db.events.insert"), "the store has spans too");
    let unknown = spans.iter().find(|span| span.name == "GET").unwrap();
    assert!(value(&unknown.attributes, "http.route").is_none());
    assert_eq!(text(&unknown.attributes, "http.response.status_code"), "404");
    assert!(!spans.iter().any(|span| span.name.contains("healthz")), "health checks are quiet");
    let all = format!("{received:?}");
    assert!(!all.contains("secret-in-query") && !all.contains("ops@example.com"));

    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.trim().is_empty());
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_the_traces() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
    let mut process = Process::serve(folder.path(), &[], &environment);
    assert!(process.get("/readyz").starts_with("HTTP/1.1 200"));
    process.get("/no-such-page");
    process.signal("TERM");
    assert!(process.wait().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("traces can't be delivered"), "{log}");
}

#[test]
fn a_protocol_that_is_not_spoken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::support::process::command(folder.path())
        .args(["--listen", "127.0.0.1:0"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("OTEL_EXPORTER_OTLP_PROTOCOL") && said.contains("http/protobuf"),
        "{said}"
    );
}
