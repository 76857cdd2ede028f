//! Our own traces, metrics and log lines, as a collector receives them.

use crate::notify;
use crate::notify::receiver::{Receiver, Reply};
use crate::support::Process;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Kind};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message;
use retrylens::domain::alerts::Transition;
use serde_json::{Value, json};
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a collector was sent.
#[derive(Debug, Default)]
struct Received {
    heads: Vec<HeaderMap>,
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    logs: Vec<ExportLogsServiceRequest>,
}

type Collector = Arc<Mutex<Received>>;

/// A body as it was before it was packed.
fn unpacked<M: Message + Default>(headers: &HeaderMap, body: Bytes) -> M {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    if headers.get("content-encoding").is_none_or(|coding| coding != "gzip") {
        return M::decode(body).unwrap();
    }
    let mut plain = Vec::new();
    GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
    M::decode(&plain[..]).unwrap()
}

impl Received {
    fn spans(&self) -> Vec<&Span> {
        let resources = self.traces.iter().flat_map(|request| &request.resource_spans);
        resources
            .flat_map(|resource| &resource.scope_spans)
            .flat_map(|scope| &scope.spans)
            .collect()
    }

    fn lines(&self) -> Vec<&LogRecord> {
        let resources = self.logs.iter().flat_map(|request| &request.resource_logs);
        let scopes = resources.flat_map(|resource| &resource.scope_logs);
        scopes.flat_map(|scope| &scope.log_records).collect()
    }

    /// A metric as it was sent last.
    fn metric(&self, name: &str) -> &Metric {
        let last = self.metrics.last().unwrap();
        let metrics = &last.resource_metrics[0].scope_metrics[0].metrics;
        metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"))
    }
}

/// Starts a collector; gives its address and what it receives.
async fn collector() -> (String, Collector) {
    async fn traces(State(all): State<Collector>, headers: HeaderMap, body: Bytes) {
        let request = unpacked(&headers, body);
        let mut all = all.lock().unwrap();
        all.traces.push(request);
        all.heads.push(headers);
    }
    async fn metrics(State(all): State<Collector>, headers: HeaderMap, body: Bytes) {
        let request = unpacked(&headers, body);
        let mut all = all.lock().unwrap();
        all.metrics.push(request);
        all.heads.push(headers);
    }
    async fn logs(State(all): State<Collector>, headers: HeaderMap, body: Bytes) {
        let request = unpacked(&headers, body);
        let mut all = all.lock().unwrap();
        all.logs.push(request);
        all.heads.push(headers);
    }
    let received = Collector::default();
    let router = Router::new()
        .route("/v1/traces", post(traces))
        .route("/v1/metrics", post(metrics))
        .route("/v1/logs", post(logs))
        .with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (endpoint, received)
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
    let (endpoint, received) = collector().await;
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
    assert!(!received.traces.is_empty(), "nothing was sent before the end");
    for request in &received.traces {
        let resource = request.resource_spans[0].resource.as_ref().unwrap();
        assert_eq!(text(&resource.attributes, "service.name"), "retrylens");
        assert_eq!(text(&resource.attributes, "service.version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(text(&resource.attributes, "service.instance.id").len(), 32);
    }
    let spans = received.spans();
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

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_log_lines_arrive_and_nothing_feeds_itself() {
    let (endpoint, received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let watched = received.clone();
    let scraped = tokio::task::spawn_blocking(move || {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%20key"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=replica-1,team=edge"),
            ("OTEL_SERVICE_NAME", "lens"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "100"),
        ];
        // Even with everything in the log, the exporters' own lines included.
        let arguments = ["--set", "log_filter=trace"];
        let mut process = Process::serve(&path, &arguments, &environment);
        let at = retrylens::clock::Clock::now(&retrylens::clock::SystemClock).to_rfc3339();
        let event = |n: u32, status: u16, count: u32| {
            json!({"event_id": format!("e{n}"), "occurred_at": at, "service": "checkout",
                "host": "api.example.com", "status": status, "count": count, "duration_ms": 300,
                "retry_after": (status == 429).then_some("30"),
                "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"})
        };
        let body = json!([event(1, 200, 1_000_000), event(2, 429, 3)]).to_string();
        let answer = process.raw(&format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // As an exporter does that was pointed at this very process.
        for path in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
            process.post(path, &json!({}));
        }
        // Its own spans would pass for traffic; a replica's are anybody's.
        for (instance, id, waiting) in [("replica-1", "a", 0), ("replica-2", "b", 1)] {
            let trace = id.repeat(32);
            let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
            process.post("/v1/traces", &json!({"resourceSpans": [{
                "resource": {"attributes": [attribute("service.name", "lens"),
                    attribute("service.instance.id", instance)]},
                "scopeSpans": [{"spans": [{"traceId": trace, "spanId": id.repeat(16), "kind": 2,
                    "name": "GET /", "startTimeUnixNano": "1795988731480595525",
                    "endTimeUnixNano": "1795988731483451632", "attributes": [
                        attribute("http.request.method", "GET"),
                        attribute("server.address", "lens.example.com"),
                        json!({"key": "http.response.status_code", "value": {"intValue": "200"}})]}]}]}]}));
            let answer = process.get(&format!("/api/v1/lookup?id={trace}"));
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            let found: Value = serde_json::from_str(body).unwrap();
            let spans = found["waiting"]["spans"].as_i64().unwrap_or_default();
            assert_eq!(spans, waiting, "{instance}: {found}");
        }
        let scraped = process.get("/metrics");
        std::thread::sleep(Duration::from_millis(1_500));
        let counts = || {
            let received = watched.lock().unwrap();
            [received.traces.len(), received.logs.len(), received.metrics.len()]
        };
        let before = counts();
        std::thread::sleep(Duration::from_secs(1));
        let after = counts();
        assert_eq!(before[..2], after[..2], "sending begets spans or lines that are sent");
        assert!(after[2] > before[2], "metrics are sent every 200 ms: {before:?} {after:?}");
        process.signal("TERM");
        assert!(process.wait().success());
        scraped
    })
    .await
    .unwrap();

    let received = received.lock().unwrap();
    for headers in &received.heads {
        assert_eq!(headers["api-key"], "secret key");
        assert_eq!(headers["content-encoding"], "gzip");
    }
    let all = format!("{:?}{:?}", received.traces, received.logs);
    for path in ["/v1/traces", "/v1/metrics\"", "/v1/logs", "secret key"] {
        assert!(!all.contains(path), "{path}");
    }

    let last = received.metrics.last().unwrap();
    let resource = last.resource_metrics[0].resource.as_ref().unwrap();
    for (name, expected) in
        [("service.name", "lens"), ("service.instance.id", "replica-1"), ("team", "edge")]
    {
        assert_eq!(text(&resource.attributes, name), expected);
    }
    let attempts = received.metric("retrylens.attempts");
    assert_eq!(attempts.unit, "{attempt}");
    let Some(Data::Sum(sum)) = &attempts.data else { panic!("{attempts:?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, AggregationTemporality::Cumulative as i32);
    for (outcome, expected) in [("2xx", 1_000_000), ("429", 3), ("5xx", 0)] {
        let point = sum
            .data_points
            .iter()
            .find(|point| text(&point.attributes, "outcome") == outcome)
            .unwrap();
        assert_eq!(point.value, Some(Number::AsInt(expected)), "{outcome}");
        assert_eq!(text(&point.attributes, "service"), "checkout");
        assert!(point.start_time_unix_nano < point.time_unix_nano);
        assert!(scraped.contains(&format!("outcome=\"{outcome}\"}} {expected}")), "{scraped}");
        if expected > 0 {
            assert_eq!(
                hex::encode(&point.exemplars[0].trace_id),
                "4bf92f3577b34da6a3ce929d0e0e4736"
            );
            assert_eq!(hex::encode(&point.exemplars[0].span_id), "00f067aa0ba902b7");
        }
    }
    let promised = received.metric("retrylens.retry_after");
    let Some(Data::Histogram(histogram)) = &promised.data else { panic!("{promised:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((promised.unit.as_str(), point.count, point.sum), ("s", 3, Some(90.0)));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(point.bucket_counts[3], 3, "the bucket up to 30 s");
    let names: Vec<&str> = last.resource_metrics[0].scope_metrics[0]
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    for family in retrylens::metrics::names::ALL {
        let has_series = scraped.contains(&format!("# HELP {}", family.sample_name()));
        if let Some(instrument) = family.instrument.filter(|_| has_series) {
            assert!(names.contains(&instrument), "{instrument} in {names:?}");
        }
    }
    assert!(names.iter().all(|name| !name.is_empty()));

    let lines = received.lines();
    let body = |line: &LogRecord| match &line.body {
        Some(AnyValue { value: Some(Kind::StringValue(text)) }) => text.clone(),
        other => format!("{other:?}"),
    };
    assert!(lines.iter().any(|line| body(line).starts_with("retrylens listens on")));
    let answered: Vec<_> = lines.iter().filter(|line| body(line) == "answered").collect();
    let in_trace = answered
        .iter()
        .find(|line| hex::encode(&line.trace_id) == "0af7651916cd43dd8448eb211c80319c");
    assert!(in_trace.is_some(), "a line belongs to the trace of its request: {answered:?}");
    assert!(lines.iter().all(|line| !line.severity_text.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_one_span_with_its_retries_as_events_and_its_receiver_continues_the_trace() {
    let (endpoint, received) = collector().await;
    let (store, folder) = notify::store().await;
    notify::change(&store, "checkout", Transition::Fired, &["pager"]).await;
    store.close().await.unwrap();
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::retry_after(429, "1"),
        2 => Reply::Status(500, String::new()),
        _ => Reply::ok(),
    })
    .await;
    let (path, receivers) = (folder.path().to_owned(), notify::pager(&receiver.url));
    let receiver = tokio::task::spawn_blocking(move || {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("RETRYLENS_RECEIVERS", &receivers),
            ("PAGER_KEY", notify::KEY),
            ("RETRYLENS_NOTIFY_POLL_MS", "50"),
        ];
        let mut process = Process::serve(&path, &[], &environment);
        for _ in 0..200 {
            if receiver.seen().len() == 3 {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        process.signal("TERM");
        assert!(process.wait().success());
        receiver
    })
    .await
    .unwrap();
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    let received = received.lock().unwrap();
    let spans = received.spans();
    let own: Vec<_> = spans.iter().filter(|span| span.name == "notify.deliver").collect();
    assert_eq!(own.len(), 1, "one span for all attempts");
    let retries: Vec<_> =
        own[0].events.iter().filter(|event| event.name.starts_with("retry: ")).collect();
    assert_eq!(retries.len(), 2, "{:?}", own[0].events);
    assert_eq!(text(&retries[0].attributes, "promised_ms"), "1000");
    assert_eq!(text(&own[0].attributes, "outcome"), "delivered");
    assert_eq!(text(&own[0].attributes, "attempts"), "3");
    assert_eq!(own[0].kind, SpanKind::Client as i32);
    let parent =
        format!("00-{}-{}-01", hex::encode(&own[0].trace_id), hex::encode(&own[0].span_id));
    assert!(seen.iter().all(|one| one.headers["traceparent"] == parent), "{parent}: {seen:?}");
    assert!(!format!("{received:?}").contains("whsec_"));
}

#[test]
fn what_is_not_to_be_sent_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ];
    let mut process = Process::serve(folder.path(), &[], &environment);
    process.get("/no-such-page");
    process.signal("TERM");
    assert!(process.wait().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("can't be delivered"), "{log}");
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_what_it_was_to_get() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
    let mut process = Process::serve(folder.path(), &[], &environment);
    assert!(process.get("/readyz").starts_with("HTTP/1.1 200"));
    process.get("/no-such-page");
    process.signal("TERM");
    assert!(process.wait().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    for signal in ["traces", "metrics", "logs"] {
        let said = format!("{signal} can't be delivered");
        assert_eq!(log.matches(&said).count(), 1, "{said} in {log}");
    }
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
