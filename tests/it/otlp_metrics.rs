//! What clients' own metrics counted, from the request to the page: each request once, however its
//! points arrive, and beside the attempts, never among them.

use super::otlp::{call, grpc_address};
use super::support::postgres::Schema;
use super::support::{Process, TestApp};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
    metric::Data,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::stored::Scope;
use retrylens::domain::time::{Millis, UnixMillis, Window};
use retrylens::ingest::otlp::metrics::volumes;
use retrylens::ingest::otlp::{Encoding, Options};
use retrylens::store::{MAX_VOLUME_SERIES, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Noon of the tests' clock, in seconds.
const NOON_S: u64 = 1_794_398_400;

fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        other => json!({ "stringValue": other }),
    };
    json!({ "key": key, "value": value })
}

/// A data point of the answer `status`, in seconds before noon.
fn point(status: &Value, from: u64, to: u64, count: u64) -> Value {
    let nanoseconds = |before: u64| ((NOON_S - before) * 1_000_000_000).to_string();
    let (key, of_status) = match status {
        Value::Number(_) => ("http.response.status_code", status),
        _ => ("error.type", status),
    };
    json!({
        "startTimeUnixNano": nanoseconds(from), "timeUnixNano": nanoseconds(to),
        "count": count.to_string(), "sum": 1.5, "bucketCounts": ["1"], "explicitBounds": [],
        "attributes": [
            attribute("http.request.method", &json!("GET")),
            attribute("server.address", &json!("API.example.com")),
            attribute("server.port", &json!(443)), attribute(key, of_status)],
    })
}

fn export(service: &str, name: &str, temporality: &Value, points: &[Value]) -> Value {
    json!({"resourceMetrics": [{
        "resource": {"attributes": [attribute("service.name", &json!(service))]},
        "scopeMetrics": [{"scope": {"name": "lib"}, "metrics": [
            {"name": "process.cpu.time", "sum": {"dataPoints": [{"asInt": "1"}]}},
            {"name": name, "unit": "s", "histogram": {
                "aggregationTemporality": temporality, "dataPoints": points}}]}]}]})
}

const STABLE: &str = "http.client.request.duration";

fn cumulative(points: &[Value]) -> Value {
    export("shop", STABLE, &json!(2), points)
}

async fn metric(app: &TestApp) -> Value {
    let query =
        "service=shop&upstream=api.example.com&from=2026-11-11T11:30:00Z&to=2026-11-11T12:00:00Z";
    app.get(&format!("/triage.json?{query}")).await.json()["client_metric"].clone()
}

async fn send(app: &TestApp, body: &Value) {
    let answer = app.post("/v1/metrics", body).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "{}"));
}

#[tokio::test]
async fn requests_are_counted_once_through_repeats_and_a_restart() {
    let app = TestApp::start().await;
    assert_eq!(metric(&app).await, Value::Null);
    let first = cumulative(&[
        point(&json!(200), 600, 540, 40),
        point(&json!(429), 600, 540, 9),
        point(&json!("ReadTimeout"), 600, 540, 1),
    ]);
    let second = cumulative(&[point(&json!(200), 600, 480, 90), point(&json!(429), 600, 480, 16)]);
    let restarted = cumulative(&[point(&json!(200), 450, 420, 5)]);
    for body in [&first, &first, &second, &first, &restarted, &second, &restarted] {
        send(&app, body).await;
    }
    let told = metric(&app).await;
    assert_eq!(
        [&told["requests"], &told["status_429"], &told["unanswered"], &told["minutes"]],
        [112, 16, 1, 3].map(|n| json!(n)).each_ref()
    );
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("112 requests, 16 of them answered 429"), "{text}");
    assert!(text.contains("3 of its 30 minutes are covered"), "{text}");
    // They are no attempts.
    let overview = app.get("/api/v1/overview?from=2026-11-11T11:30:00Z&to=2026-11-11T12:00:00Z");
    assert_eq!(overview.await.json()["pairs"], json!([]));
}

#[tokio::test]
async fn both_names_and_both_temporalities_are_read_and_never_added_up() {
    let app = TestApp::start().await;
    let points = [point(&json!(429), 300, 240, 7), point(&json!(200), 300, 240, 3)];
    for (name, temporality) in [
        ("http.client.duration", json!("AGGREGATION_TEMPORALITY_DELTA")),
        (STABLE, json!(1)),
        (STABLE, json!(1)),
    ] {
        send(&app, &export("shop", name, &temporality, &points)).await;
    }
    let told = metric(&app).await;
    assert_eq!((&told["requests"], &told["status_429"]), (&json!(10), &json!(7)));
    for n in [180, 120] {
        send(&app, &export("shop", STABLE, &json!(1), &[point(&json!(200), n + 60, n, 4)])).await;
    }
    assert_eq!(metric(&app).await["requests"], 18);
}

#[tokio::test]
async fn the_pages_show_the_metric_beside_their_own_count() {
    let app = TestApp::start().await;
    app.store(&[json!({"occurred_at": "2026-11-11T11:55:30Z", "service": "shop",
                       "host": "api.example.com", "status": 200})])
        .await;
    send(&app, &cumulative(&[point(&json!(200), 300, 240, 40), point(&json!(429), 300, 240, 2)]))
        .await;
    let window = "from=2026-11-11T11:55:00Z&to=2026-11-11T11:56:00Z";
    let page = app.visit(&format!("/triage?service=shop&upstream=api.example.com&{window}")).await;
    assert!(page.text.contains("counted 42 requests, 2 of them answered 429"), "{}", page.text);
    assert!(page.text.contains("the denominator to trust"), "{}", page.text);
    let page = app.visit(&format!("/?{window}")).await;
    assert!(page.text.contains("own metric 42"), "{}", page.text);
    let document =
        app.get(&format!("/triage.md?service=shop&upstream=api.example.com&{window}")).await;
    assert!(document.text.contains("counted 42 requests"), "{}", document.text);
    let overview = app.get(&format!("/api/v1/overview?{window}")).await.json();
    assert_eq!(overview["pairs"][0]["client_metric"]["requests"], 42);
    assert_eq!(overview["pairs"][0]["attempts"], 1);
}

#[tokio::test]
async fn a_bad_point_costs_itself_and_is_named() {
    let app = TestApp::start().await;
    let mut bad = [(); 3].map(|()| point(&json!(200), 300, 240, 1));
    bad[0]["attributes"] = json!([attribute("http.request.method", &json!("GET"))]);
    bad[1]["count"] = json!("-1");
    bad[2]["timeUnixNano"] = json!(0);
    for (point_sent, expected) in bad.iter().zip(["server.address", "count", "occurred_at"]) {
        let good = point(&json!(200), 300, 240, 5);
        let answer = app.post("/v1/metrics", &cumulative(&[point_sent.clone(), good])).await;
        let told = answer.json()["partialSuccess"].clone();
        assert_eq!((answer.status, &told["rejectedDataPoints"]), (StatusCode::OK, &json!("1")));
        assert!(told["errorMessage"].as_str().unwrap().contains(expected), "{told}");
    }
    let odd = export("shop", STABLE, &json!(0), &[point(&json!(200), 300, 240, 1)]);
    let told = app.post("/v1/metrics", &odd).await.json()["partialSuccess"].clone();
    assert!(told["errorMessage"].as_str().unwrap().contains("aggregationTemporality"), "{told}");
    assert_eq!(metric(&app).await["requests"], 5);
    // Whose they are is counted, as of events.
    let senders = app.get("/api/v1/sources").await.json()["senders"].clone();
    assert_eq!((&senders[0]["service"], &senders[0]["rejected"]), (&json!("shop"), &json!(4)));
    for (body, status) in [("{", 400), (r#"{"resourceMetrics":[5]}"#, 400), ("{}", 200)] {
        let answer = app.post_text("/v1/metrics", "application/json", body).await;
        assert_eq!(answer.status.as_u16(), status, "{body}");
    }
    // A point without a value, as exporters write of a series that has ended.
    let mut ended = point(&json!(200), 300, 200, 99);
    ended["flags"] = json!(1);
    send(&app, &cumulative(&[ended])).await;
    assert_eq!(metric(&app).await["requests"], 5);
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Any::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn exponential() -> Vec<u8> {
    let number = |key: &str, n: i64| {
        let value = AnyValue { value: Some(Any::IntValue(n)) };
        KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
    };
    let data_point = ExponentialHistogramDataPoint {
        attributes: vec![
            text("server.address", "api.example.com"),
            number("server.port", 443),
            number("http.response.status_code", 429),
        ],
        start_time_unix_nano: (NOON_S - 300) * 1_000_000_000,
        time_unix_nano: (NOON_S - 240) * 1_000_000_000,
        count: 12,
        ..ExponentialHistogramDataPoint::default()
    };
    let histogram =
        ExponentialHistogram { data_points: vec![data_point], aggregation_temporality: 2 };
    let metric = Metric {
        name: STABLE.to_owned(),
        data: Some(Data::ExponentialHistogram(histogram)),
        ..Metric::default()
    };
    let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
    let resource =
        Resource { attributes: vec![text("service.name", "shop")], ..Resource::default() };
    let resource_metrics = vec![ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scope],
        ..ResourceMetrics::default()
    }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

#[tokio::test]
async fn exponential_histograms_in_protobuf_are_counted() {
    let app = TestApp::start().await;
    let request = Request::post("/v1/metrics").header("content-type", "application/x-protobuf");
    let answer = app.send(request.body(Body::from(exponential())).unwrap()).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(metric(&app).await["status_429"], 12);
}

#[tokio::test]
async fn grpc_takes_metrics_and_logs_too() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("RETRYLENS_OTLP_GRPC_LISTEN", "127.0.0.1:0")];
    let process = Process::serve(folder.path(), &[], &environment);
    let address = grpc_address(folder.path());
    let method = |name: &str| format!("opentelemetry.proto.collector.{name}/Export");
    let (headers, bytes) =
        call(&address, &method("metrics.v1.MetricsService"), None, false, exponential()).await;
    assert_eq!(headers["grpc-status"], "0");
    let message = ExportMetricsServiceResponse::decode(&bytes[5..]).unwrap();
    assert_eq!(message.partial_success, None);
    let (headers, _) =
        call(&address, &method("logs.v1.LogsService"), None, false, Vec::new()).await;
    assert_eq!(headers["grpc-status"], "0");
    let (headers, _) = call(&address, &method("profiles.Service"), None, false, Vec::new()).await;
    assert_eq!(headers["grpc-status"], "12");
    let query = "service=shop&from=2026-11-11T11:30:00Z&to=2026-11-11T12:00:00Z";
    let answer = process.get(&format!("/triage.json?{query}"));
    assert!(answer.contains("12 requests, 12 of them answered 429"), "{answer}");
}

/// What is kept is the same on both databases, also where several replicas add to it at once.
async fn volumes_are_kept(store: &Store) {
    let hasher = KeyHasher::new(b"test");
    let options = Options { hasher: &hasher, max_items: 100_000, ourselves: None };
    let read =
        |body: &Value| volumes(body.to_string().as_bytes(), Encoding::Json, &options).unwrap();
    let noon = UnixMillis(i64::try_from(NOON_S).unwrap() * 1_000);
    let window = Window { from: noon.plus(Millis(-1_800_000)), to: noon };
    let scope = Scope { service: Some("shop".to_owned()), ..Scope::default() };
    let bodies: Vec<_> = (1..=8)
        .map(|n| {
            let (to, count) = (600 - n * 60, n * 10);
            read(&cumulative(&[point(&json!(200), 600, to, count), point(&json!(429), 600, to, n)]))
        })
        .collect();
    let adding =
        bodies.iter().chain(&bodies).map(|body| store.add_volumes(body.points.clone(), noon));
    for refused in futures_util::future::join_all(adding).await {
        assert_eq!(refused.unwrap(), 0);
    }
    let pairs = store.client_volumes(&scope, window).await.unwrap();
    assert_eq!(pairs.len(), 1);
    let found = pairs[0].volume;
    assert_eq!((found.requests, found.status_429, found.minutes), (88, 8, 8));
    assert_eq!(pairs[0].upstream, "api.example.com");
    let other = Scope { environment: Some("prod".to_owned()), ..Scope::default() };
    assert!(store.client_volumes(&other, window).await.unwrap().is_empty());
    // Series beyond the bound are refused, those that there are go on.
    let many: Vec<_> = (0..10)
        .flat_map(|n| {
            let points: Vec<Value> = (0..MAX_VOLUME_SERIES / 10)
                .map(|m| {
                    let mut point = point(&json!(200), 300, 240, 1);
                    point["attributes"][1] =
                        attribute("server.address", &json!(format!("h{n}-{m}.example.com")));
                    point
                })
                .collect();
            read(&cumulative(&points)).points
        })
        .collect();
    let sent = many.len();
    let refused = store.add_volumes(many, noon).await.unwrap();
    assert_eq!((sent, refused), (MAX_VOLUME_SERIES, 2));
    let later = read(&cumulative(&[point(&json!(200), 600, 60, 100)]));
    assert_eq!(store.add_volumes(later.points, noon).await.unwrap(), 0);
    let pairs = store.client_volumes(&scope, window).await.unwrap();
    assert_eq!(pairs.iter().map(|pair| pair.volume.requests).sum::<i64>(), 108 + 9_998);
    // Streams are forgotten a day later; nothing else goes while events are kept.
    assert_eq!(store.tidy_volumes(noon, 100).await.unwrap(), 0);
    let day = noon.plus(Millis(86_400_001));
    assert_eq!(store.tidy_volumes(day, 100_000).await.unwrap(), 10_002);
    assert_eq!(store.client_volumes(&scope, window).await.unwrap().len(), 9_999);
}

#[tokio::test]
async fn sqlite_keeps_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("volumes.db").display());
    volumes_are_kept(&Store::open(&url).await.unwrap()).await;
}

#[tokio::test]
async fn postgres_keeps_volumes() {
    let Some(schema) = Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    volumes_are_kept(&store).await;
    store.close().await.unwrap();
    schema.drop().await;
}

#[tokio::test]
#[ignore = "needs the captures; `make score-otlp` runs it"]
async fn captured_metrics_count_what_the_server_answered() {
    let folder = std::env::var("RETRYLENS_OTLP_CORPUS").expect("RETRYLENS_OTLP_CORPUS: a folder");
    let mut checked = 0;
    for entry in std::fs::read_dir(Path::new(&folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(stem) = name.strip_suffix(".metrics.json") else { continue };
        let truth = std::fs::read_to_string(path.with_file_name(format!("{stem}.truth.json")));
        let truth: Value = serde_json::from_str(&truth.unwrap()).unwrap();
        let results = || {
            let attempts = |op: &Value| op["attempts"].as_array().unwrap().clone();
            truth.as_array().unwrap().iter().flat_map(attempts).map(|a| a["result"].clone())
        };
        let answered = results().filter(Value::is_number).count();
        let (all, of_429) = (results().count(), results().filter(|r| *r == 429).count());
        let app = TestApp::start().await;
        let body: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for _ in 0..2 {
            send(&app, &body).await;
        }
        let ever = Window { from: UnixMillis(0), to: UnixMillis(4_000_000_000_000) };
        let pairs = app.state.store.client_volumes(&Scope::default(), ever).await.unwrap();
        let by_upstream: BTreeMap<_, _> =
            pairs.iter().map(|pair| (pair.upstream.clone(), pair.volume)).collect();
        assert_eq!(pairs.len(), 1, "{name}: {by_upstream:?}");
        let found = pairs[0].volume;
        let [requests, status_429, unanswered] =
            [found.requests, found.status_429, found.unanswered]
                .map(|n| usize::try_from(n).unwrap());
        assert_eq!((requests - unanswered, status_429), (answered, of_429), "{name}");
        // Some instrumentations count what got an answer and nothing else (httpx).
        assert!(requests == all || unanswered == 0, "{name}: {found:?} of {all}");
        checked += 1;
    }
    assert!(checked > 0);
}
