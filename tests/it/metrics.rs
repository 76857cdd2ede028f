//! `/metrics`: who may read it, in which form, what real tools make of it, and that it stays small.

use crate::support::{Answer, Process, TestApp};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use flate2::read::GzDecoder;
use futures_util::StreamExt as _;
use retrylens::domain::time::Millis;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tower::ServiceExt as _;

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0,\
    application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What a small storm looks like: served, refused, retried.
fn storm(at: &str) -> Vec<Value> {
    let event = |n: u32, fields: Value| {
        let mut event = json!({"event_id": format!("storm-{n}"), "occurred_at": at,
            "service": "checkout", "host": "api.example.com", "duration_ms": 120});
        for (name, value) in fields.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    };
    vec![
        event(1, json!({"status": 200, "count": 50})),
        event(
            2,
            json!({"status": 429, "retry_after": "30", "outcome": "retrying", "method": "GET",
            "operation_id": "o", "computed_delay_ms": 30_000, "trace_id": TRACE,
            "span_id": "00f067aa0ba902b7", "headers": {"server": "cloudflare", "cf-ray": "8aa0b1c2d3e4f567-FRA",
                "cache-control": "private, max-age=0, no-store, no-cache, must-revalidate"},
            "layer": "edge",
            "content_type": "text/plain", "body_sample": "error code: 1015"}),
        ),
        event(3, json!({"status": 200, "attempt": 2, "operation_id": "o", "retry_layer": "sdk"})),
        event(4, json!({"status": 500, "environment": "staging", "service": "bad \"name\\"})),
        event(5, json!({"status": 200, "environment": "staging", "service": "bad \"name\\"})),
    ]
}

async fn scrape(app: &TestApp, accept: &str) -> Answer {
    let request = Request::get("/metrics").header("accept", accept);
    app.send(request.body(Body::empty()).unwrap()).await
}

/// A tool of Debian's `prometheus`, from `RETRYLENS_TEST_PROMETHEUS` where it lies elsewhere.
fn tool(name: &str) -> PathBuf {
    let folders = std::env::var("RETRYLENS_TEST_PROMETHEUS");
    let folders = folders.unwrap_or_else(|_| std::env::var("PATH").unwrap_or_default());
    let found = folders.split(':').map(|folder| Path::new(folder).join(name)).find(|p| p.exists());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is missing: scripts/install-packages prometheus installs it, or set \
             RETRYLENS_TEST_PROMETHEUS to the folder it lies in"
        )
    })
}

#[tokio::test]
async fn the_format_is_negotiated_and_packed() {
    let app = TestApp::start().await;
    app.store(&storm("2026-11-11T11:59:59Z")).await;
    let text = scrape(&app, "*/*").await;
    assert_eq!(text.status, StatusCode::OK);
    assert_eq!(text.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(text.header("cache-control"), "no-store");
    assert!(text.header("vary").contains("accept"));
    assert!(!text.text.contains(TRACE));
    let open = scrape(&app, OPEN_METRICS).await;
    assert_eq!(
        open.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(open.text.contains(TRACE) && open.text.ends_with("# EOF\n"));

    let head = Request::builder().method(Method::HEAD).uri("/metrics");
    let head = app.send(head.header("accept", OPEN_METRICS).body(Body::empty()).unwrap()).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.header("content-type"), open.header("content-type"));

    let packed = Request::get("/metrics").header("host", "localhost");
    let packed = packed.header("accept", OPEN_METRICS).header("accept-encoding", "gzip");
    let packed = app.router.clone().oneshot(packed.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let mut bytes = Vec::new();
    let mut chunks = packed.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    let mut unpacked = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, open.text);
}

#[tokio::test]
async fn whoever_may_not_read_pages_may_not_read_metrics() {
    let (sending, reading) = ("sending-token-0123456789", "reading-token-0123456789");
    let app = TestApp::with(&[("ingest_tokens", sending), ("read_tokens", reading)]).await;
    let ask = |token: Option<&str>| {
        let mut request = Request::get("/metrics").header("accept", OPEN_METRICS);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        app.send(request.body(Body::empty()).unwrap())
    };
    assert_eq!(ask(None).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(Some(sending)).await.status, StatusCode::UNAUTHORIZED);
    let read = ask(Some(reading)).await;
    assert_eq!(read.status, StatusCode::OK);
    assert!(read.text.contains("retrylens_build_info"));
}

#[tokio::test]
async fn what_is_sent_is_counted_when_it_is_on_disk_and_once() {
    let app = TestApp::start().await;
    let events = storm("2026-11-11T11:59:00Z");
    app.store(&events).await;
    let again = app.post("/v1/events", &json!(events)).await;
    assert_eq!(again.json()["duplicates"], events.len());
    let broken = app.post("/v1/events", &json!([{"service": "checkout"}])).await;
    assert_eq!(broken.status, StatusCode::UNPROCESSABLE_ENTITY);
    app.clock.advance(Millis(1_000));
    let text = scrape(&app, "").await.text;
    let pair = r#"service="checkout",upstream="api.example.com""#;
    for line in [
        format!("retrylens_requests_total{{{pair}}} 51"),
        format!("retrylens_retries_total{{{pair},layer=\"sdk\"}} 1"),
        format!("retrylens_rate_limited_total{{{pair},source=\"cloudflare\"}} 1"),
        format!("retrylens_early_retries_total{{{pair}}} 1"),
        r#"retrylens_requests_total{service="bad \"name\\",upstream="api.example.com",environment="staging"} 2"#.to_owned(),
        r#"retrylens_ingest_events_total{result="accepted"} 5"#.to_owned(),
        r#"retrylens_ingest_events_total{result="duplicate"} 5"#.to_owned(),
        r#"retrylens_ingest_events_total{result="rejected"} 1"#.to_owned(),
        r#"retrylens_ingest_lag_seconds_bucket{le="60"} 5"#.to_owned(),
        r#"retrylens_last_event_timestamp_seconds{service="checkout"} 1794398400"#.to_owned(),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn promtool_finds_nothing_to_complain_of() {
    let app = TestApp::start().await;
    app.store(&storm("2026-11-11T11:59:00Z")).await;
    app.state.metrics.learn_alert("Retrylens429Spike");
    app.state.metrics.learn_receiver("pager");
    let text = scrape(&app, "text/plain").await.text;
    let mut promtool = Command::new(tool("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}\n{text}",
        String::from_utf8_lossy(&said)
    );
}

#[tokio::test]
async fn a_hundred_thousand_hosts_stay_within_the_cap_and_are_told() {
    let app = TestApp::start().await;
    let events: Vec<Value> = (0..100_000)
        .map(|n| {
            json!({"event_id": format!("host-{n}"), "occurred_at": "2026-11-11T11:59:00Z",
                "service": format!("service-{}", n % 400), "host": format!("h{n}.example.com"),
                "environment": format!("e{}", n % 50), "status": 200})
        })
        .collect();
    for batch in events.chunks(10_000) {
        let answer = app.post("/v1/events", &json!(batch)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    }
    let begun = tokio::time::Instant::now();
    let text = scrape(&app, OPEN_METRICS).await.text;
    let took = begun.elapsed();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    writeln!(
        std::io::stdout().lock(),
        "100,000 hosts of 400 services: {series} series, {} bytes, in {took:?}",
        text.len()
    )
    .unwrap();
    assert!(series <= 10_000, "{series}");
    let counted: u64 = text
        .lines()
        .filter(|line| line.starts_with("retrylens_requests_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, 100_000, "sums stay right");
    let overview =
        app.get("/api/v1/overview?from=2026-11-11T11:00:00Z&to=2026-11-11T12:00:00Z").await;
    let note = overview.json()["metrics_note"].clone();
    assert!(note.as_str().unwrap().contains("beyond 20 upstreams (metrics_upstreams)"), "{note}");
    let page = app.visit("/?from=2026-11-11T11:00:00Z&to=2026-11-11T12:00:00Z").await;
    assert!(page.text.contains("beyond 20 upstreams (metrics_upstreams)"));
}

/// `Retrylens429Spike` fired for such a pair and `/metrics` hid it, so that Prometheus stayed silent.
#[test]
fn a_pair_that_was_served_days_before_a_restart_is_shown_as_the_evaluator_knows_it() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = retrylens::store::Store::open(&url).await.unwrap();
        let pair = retrylens::domain::alerts::notice::Subject {
            service: "checkout".to_owned(),
            upstream: "api.example.com".to_owned(),
            environment: String::new(),
        };
        store.add_served(&[(pair, retrylens::domain::event::Vantage::Client)]).await.unwrap();
        store.close().await.unwrap();
    });
    let process = Process::serve(folder.path(), &["--database-url", &url], &[]);
    let line = r#"retrylens_requests_total{service="checkout",upstream="api.example.com"} 0"#;
    let shown = process.get("/metrics");
    assert!(shown.lines().any(|shown| shown.trim() == line), "{shown}");
}

#[test]
fn after_a_restart_a_pair_is_known_although_only_failures_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let now = retrylens::clock::Clock::now(&retrylens::clock::SystemClock).to_rfc3339();
    let pair = r#"service="checkout",upstream="api.example.com""#;
    for (requests, events) in [
        (51, storm(&now)),
        (
            1,
            vec![{
                json!({"event_id": "after", "occurred_at": now, "service": "checkout",
            "host": "api.example.com", "status": 429})
            }],
        ),
    ] {
        let mut process = Process::serve(folder.path(), &[], &[]);
        if requests == 1 {
            let line = format!("retrylens_requests_total{{{pair}}} 0");
            let shown = process.get("/metrics");
            assert!(shown.lines().any(|shown| shown.trim() == line), "{shown}");
        }
        assert_eq!(process.post("/v1/events", &json!(events)).unwrap().0, 200);
        let line = format!("retrylens_requests_total{{{pair}}} {requests}");
        let shown = process.get("/metrics");
        assert!(shown.lines().any(|shown| shown.trim() == line), "{line} in {shown}");
        process.signal("TERM");
        assert!(process.wait().success());
    }
}

#[test]
fn a_silence_of_all_senders_that_began_before_a_restart_is_still_seen_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let newest = |process: &Process| {
        let shown = process.get("/metrics");
        let line = shown.lines().find(|line| line.starts_with("retrylens_last_event_timestamp"));
        line.map(|line| line.trim().to_owned())
    };
    let mut process = Process::serve(folder.path(), &[], &[]);
    assert_eq!(newest(&process), None, "never connected is not silent");
    let now = retrylens::clock::Clock::now(&retrylens::clock::SystemClock).to_rfc3339();
    assert_eq!(process.post("/v1/events", &json!(storm(&now))).unwrap().0, 200);
    let before = newest(&process).unwrap();
    assert!(before.contains(r#"{service="checkout"} "#), "{before}");
    process.signal("TERM");
    assert!(process.wait().success());
    let process = Process::serve(folder.path(), &[], &[]);
    assert_eq!(newest(&process).as_ref(), Some(&before));
}

/// A Prometheus of the test's own; it is killed when dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(folder: &Path, config: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new(tool("prometheus"))
            .current_dir(folder)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"])
            .args(["--enable-feature=exemplar-storage", "--log.level=debug"])
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// Asks the API; `None` where it doesn't answer yet.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut client = crate::support::http::Client::new(self.address.parse().unwrap());
        client.get(path).filter(|reply| reply.status == 200).map(|reply| reply.json())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_prometheus_scrapes_it_with_its_token_and_keeps_the_exemplars() {
    let folder = tempfile::tempdir().unwrap();
    let (sending, reading) = ("sending-token-0123456789", "reading-token-0123456789");
    let mut process = Process::serve(
        folder.path(),
        &[],
        &[("RETRYLENS_INGEST_TOKENS", sending), ("RETRYLENS_READ_TOKENS", reading)],
    );
    let now = retrylens::clock::Clock::now(&retrylens::clock::SystemClock);
    let body = json!(storm(&now.to_rfc3339())).to_string();
    let answer = process.raw(&format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {sending}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let page = process.raw(&format!(
        "GET /send HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {reading}\r\n\
         connection: close\r\n\r\n",
        process.address
    ));
    let shown = page.split_once("scrape_configs:").unwrap().1.split_once("</pre>").unwrap().0;
    std::fs::write(folder.path().join("token"), reading).unwrap();
    let config = format!("scrape_configs:{}", shown.replace("&#39;", "'"))
        .replace("scrape_interval: 15s", "scrape_interval: 1s\n    scrape_timeout: 1s")
        .replace("/etc/prometheus/retrylens-token", "token");
    let prometheus = Prometheus::start(folder.path(), &config);
    let log = || std::fs::read_to_string(folder.path().join("prometheus.log")).unwrap();
    let attempts = "/api/v1/query?query=retrylens_attempts_total%7Boutcome%3D%22429%22%7D";
    let exemplars = format!(
        "/api/v1/query_exemplars?query=retrylens_attempts_total&start={}&end={}",
        now.0 / 1000 - 60,
        now.0 / 1000 + 60
    );
    let (mut scraped, mut kept) = (Value::Null, Value::Null);
    for _ in 0..120 {
        std::thread::sleep(Duration::from_millis(500));
        scraped = prometheus.ask(attempts).unwrap_or_default();
        kept = prometheus.ask(&exemplars).unwrap_or_default();
        if scraped["data"]["result"][0].is_object() && kept["data"][0].is_object() {
            break;
        }
    }
    let values = scraped["data"]["result"].as_array().unwrap_or_else(|| panic!("{}", log()));
    assert!(
        values.iter().any(|series| {
            series["metric"]["service"] == "checkout" && series["value"][1] == "1"
        }),
        "{scraped} {}",
        log()
    );
    let exemplar = &kept["data"][0]["exemplars"][0];
    assert_eq!(exemplar["labels"]["trace_id"], TRACE, "{kept} {}", log());
    assert_eq!(exemplar["labels"]["span_id"], "00f067aa0ba902b7");
    let target = prometheus.ask("/api/v1/targets").unwrap()["data"]["activeTargets"][0].clone();
    assert_eq!(target["health"], "up", "{target}");
    assert_eq!(target["lastError"], "", "{target}");
    let log = log();
    for complaint in ["append failed", "Error on ingesting", "out-of-order exemplar"] {
        assert!(!log.contains(complaint), "{log}");
    }
    drop(prometheus);
    process.signal("TERM");
    assert!(process.wait().success());
}
