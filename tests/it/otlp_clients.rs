//! Real clients, each with the standard packages of OpenTelemetry and nothing of ours, against a
//! server that limits them, exporting to a running retrylens: does a page show what the server saw,
//! or say that it can't be seen and how to change that?
//!
//! `scripts/install-otlp-clients` installs them (`make test` runs it); one that is missing fails.

use super::otlp::grpc_address;
use super::support::Process;
use retrylens::clock::{Clock as _, SystemClock};
use retrylens::domain::time::{Millis, UnixMillis};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A request as the server saw it.
#[derive(Debug, Clone)]
struct Seen {
    status: u16,
    /// `trace:span` of the client's span, as its `traceparent` says.
    span: String,
    arrived: Instant,
    answered: Instant,
}

/// A server that refuses as the path says, and writes down what it saw.
struct Limiter {
    address: String,
    seen: Arc<Mutex<BTreeMap<String, Vec<Seen>>>>,
}

/// What the request to `path` with this number (from 0) is answered.
fn plan(path: &str, number: usize) -> (u16, Option<u32>) {
    let of: &[(u16, Option<u32>)] = match path.trim_start_matches("/v1/") {
        "once" => &[(429, Some(1)), (200, None)],
        "twice" => &[(429, Some(1)), (503, None), (200, None)],
        "spent" => &[(429, Some(1)); 8],
        _ => &[(200, None)],
    };
    of.get(number).or(of.last()).copied().unwrap()
}

impl Limiter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen: Arc<Mutex<BTreeMap<String, Vec<Seen>>>> = Arc::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer(stream, &shared));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> BTreeMap<String, Vec<Seen>> {
        self.seen.lock().unwrap().clone()
    }
}

/// Answers requests of one connection until it is closed.
fn answer(stream: TcpStream, seen: &Mutex<BTreeMap<String, Vec<Seen>>>) {
    stream.set_nodelay(true).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let arrived = Instant::now();
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut span = String::new();
        for line in lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("traceparent")
            {
                let parts: Vec<&str> = value.trim().split('-').collect();
                span = format!("{}:{}", parts[1], parts[2]);
            }
        }
        let number = seen.lock().unwrap().get(&path).map_or(0, Vec::len);
        let (status, retry_after) = plan(&path, number);
        let asked = retry_after.map_or_else(String::new, |s| format!("retry-after: {s}\r\n"));
        let head = format!(
            "HTTP/1.1 {status} Told\r\nserver: limiter\r\n{asked}content-length: 2\r\n\r\nok"
        );
        writer.write_all(head.as_bytes()).ok();
        let one = Seen { status, span, arrived, answered: Instant::now() };
        seen.lock().unwrap().entry(path).or_default().push(one);
    }
}

/// A client and how it exports.
#[derive(Debug, Clone, Copy)]
struct Client {
    script: &'static str,
    /// `grpc`, `http/protobuf` or `http/json`.
    protocol: &'static str,
    /// Whether each attempt has a span of its own.
    is_visible: bool,
    /// More of its environment.
    environment: &'static [(&'static str, &'static str)],
}

const STABLE: (&str, &str) = ("OTEL_SEMCONV_STABILITY_OPT_IN", "http");
const BOTH: (&str, &str) = ("OTEL_SEMCONV_STABILITY_OPT_IN", "http/dup");
const GZIP: (&str, &str) = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
const DELTA: (&str, &str) = ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta");
const EXPONENTIAL: (&str, &str) = (
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "base2_exponential_bucket_histogram",
);

const fn client(
    script: &'static str,
    protocol: &'static str,
    environment: &'static [(&'static str, &'static str)],
) -> Client {
    let is_visible = !matches!(script.as_bytes(), b"requests_urllib3.py");
    Client { script, protocol, is_visible, environment }
}

/// One of each, in all protocols.
const USUAL: [Client; 4] = [
    client("requests_urllib3.py", "http/protobuf", &[GZIP]),
    client("httpx_tenacity.py", "grpc", &[STABLE]),
    client("fetch_loop.mjs", "http/json", &[]),
    client("got.mjs", "http/protobuf", &[]),
];

/// Every one in every protocol it has, and with what changes what is sent.
const MATRIX: [Client; 13] = [
    client("requests_urllib3.py", "grpc", &[STABLE]),
    client("requests_urllib3.py", "http/protobuf", &[BOTH, GZIP]),
    client("requests_urllib3.py", "http/protobuf", &[DELTA]),
    client("httpx_tenacity.py", "grpc", &[GZIP]),
    client("httpx_tenacity.py", "http/protobuf", &[BOTH]),
    client("httpx_tenacity.py", "http/protobuf", &[STABLE, DELTA, GZIP]),
    client("httpx_tenacity.py", "http/protobuf", &[STABLE, EXPONENTIAL]),
    client("fetch_loop.mjs", "http/protobuf", &[GZIP]),
    client("fetch_loop.mjs", "http/json", &[GZIP]),
    client("fetch_loop.mjs", "http/protobuf", &[DELTA]),
    client("got.mjs", "http/json", &[]),
    client("got.mjs", "http/json", &[GZIP]),
    client("got.mjs", "http/protobuf", &[DELTA]),
];

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn is_python(client: &Client) -> bool {
    Path::new(client.script).extension().is_some_and(|kind| kind == "py")
}

/// The client as a command; panics where what it needs isn't installed.
fn command(client: &Client) -> Command {
    let scripts = top().join("tests/otlp-clients");
    let needed = |path: PathBuf| {
        assert!(path.exists(), "{} is missing: `make otlp-clients` installs it", path.display());
        path
    };
    let mut command = if is_python(client) {
        let folder = top().join("target/otlp-clients/bin");
        let mut command = Command::new(needed(folder.join("opentelemetry-instrument")));
        command.arg(folder.join("python"));
        command
    } else {
        needed(scripts.join("node_modules/@opentelemetry/sdk-node"));
        let mut command = Command::new("node");
        command.arg("--require").arg("./telemetry.cjs");
        command
    };
    command.current_dir(&scripts).arg(client.script).env_clear();
    for kept in ["PATH", "HOME", "LANG"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Runs a client to its end.
fn run(client: &Client, service: &str, endpoint: &str, limiter: &Limiter, paths: &[&str]) {
    let done = command(client)
        .arg(format!("http://{}", limiter.address))
        .args(paths)
        .env("OTEL_SERVICE_NAME", service)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", client.protocol)
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .env("OTEL_LOGS_EXPORTER", "otlp")
        .env("OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_RESPONSE", "retry-after,date,server")
        .envs(client.environment.iter().copied())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", client.script));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{}: {said}", client.script);
    // What exporters say of a refusal.
    for word in ["Failed to export", "Transient error", "OTLPExporterError"] {
        assert!(!said.contains(word), "{}: {said}", client.script);
    }
}

fn json(process: &Process, path: &str) -> Value {
    let answer = process.get(path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error} in {head}\n{body}"))
}

/// The operation that the event `id` belongs to, once it is settled.
fn operation(process: &Process, id: &str) -> Value {
    let begun = Instant::now();
    loop {
        let event = json(process, &format!("/api/v1/events/{id}"));
        if let Some(operation) = event["items"][0]["event"]["operation_id"].as_str() {
            return json(process, &format!("/api/v1/operations/{operation}"));
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "{id} isn't settled: {event}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What was compared of one client.
#[derive(Debug, Default)]
struct Outcome {
    operations: usize,
    requests: usize,
    /// The largest difference of a wait from the server's own record.
    worst_wait: Duration,
    /// What the client's own metric counted.
    metric: Option<i64>,
}

/// Compares pages with what the server saw.
fn check(client: &Client, service: &str, process: &Process, limiter: &Limiter) -> Outcome {
    let seen = limiter.seen();
    let mut outcome = Outcome::default();
    for (path, requests) in &seen {
        let about = format!("{service} {path} {requests:?}");
        outcome.operations += 1;
        outcome.requests += requests.len();
        let operation = operation(process, &requests[0].span);
        let rungs = operation["attempts"].as_array().unwrap();
        let id = operation["operation_id"].as_str().unwrap();
        let page = process.get(&format!("/operations/{id}"));
        let attempts: Vec<(String, Value)> = rungs
            .iter()
            .map(|rung| {
                let attempt = &rung["attempt"];
                let id = attempt["event_id"].as_str().unwrap().to_owned();
                (id, attempt["status"].clone())
            })
            .collect();
        if client.is_visible {
            let truth: Vec<(String, Value)> =
                requests.iter().map(|one| (one.span.clone(), one.status.into())).collect();
            assert_eq!(attempts, truth, "{about}");
            assert!(!page.contains("Attempts not visible"), "{about}");
            for (pair, rung) in requests.windows(2).zip(rungs) {
                let real = pair[1].arrived.duration_since(pair[0].answered);
                let told = rung["wait"]["real_ms"].as_i64().unwrap();
                let told = Duration::from_millis(u64::try_from(told).unwrap());
                outcome.worst_wait = outcome.worst_wait.max(real.abs_diff(told));
                let promised = plan(path, 0).1.filter(|_| pair[0].status == 429);
                let promised = promised.map(|seconds| u64::from(seconds) * 1_000);
                assert_eq!(rung["wait"]["promised_ms"].as_u64(), promised, "{about}");
            }
        } else {
            let last = requests.last().unwrap();
            assert_eq!(attempts.len(), 1, "{about}");
            assert!(requests.iter().all(|one| one.span == last.span), "{about}");
            let note = operation["notes"][0].as_str().unwrap();
            assert!(note.starts_with("Attempts not visible"), "{about}: {note}");
            for told in ["Attempts not visible", "retry in the application"] {
                assert!(page.contains(told), "{about}: {told}");
            }
        }
    }
    let now = SystemClock.now();
    let at = |by: i64| UnixMillis::to_rfc3339(now.plus(Millis(by)));
    let (from, to) = (at(-1_800_000), at(600_000));
    let upstream = &limiter.address;
    let query = format!("?service={service}&upstream={upstream}&from={from}&to={to}");
    let overview = json(process, &format!("/api/v1/overview{query}"));
    let pair = &overview["pairs"][0];
    let (operations, requests) = (outcome.operations, outcome.requests);
    assert_eq!(pair["requests"], operations, "{service}: {pair}");
    let on_the_wire = if client.is_visible { requests } else { operations };
    assert_eq!(pair["attempts"], on_the_wire, "{service}: {pair}");
    let triage = json(process, &format!("/triage.json{query}"));
    let metric = &triage["client_metric"];
    outcome.metric = metric["requests"].as_i64();
    // What counts around a loop of retries counts it once.
    if let Some(counted) = outcome.metric {
        assert_eq!(counted, i64::try_from(on_the_wire).unwrap(), "{service}: {metric}");
        let of_429 = seen.values().flatten().filter(|one| one.status == 429).count();
        if client.is_visible {
            assert_eq!(metric["status_429"], of_429, "{service}: {metric}");
        }
    }
    outcome
}

/// Runs clients one after another, so that they don't disturb each other's waits, and compares.
#[expect(clippy::print_stderr, reason = "the table is for people")]
fn run_all(clients: &[Client], paths: &[&str], slack: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("RETRYLENS_OTLP_GRPC_LISTEN", "127.0.0.1:0")];
    let process = Process::serve(folder.path(), &[], &environment);
    let http = format!("http://{}", process.address);
    let grpc = format!("http://{}", grpc_address(Path::new(folder.path())));
    let runs: Vec<(String, &Client, Limiter)> = (1..)
        .zip(clients)
        .map(|(n, client)| {
            let limiter = Limiter::start();
            let service = format!("{n}-{}", client.script.split('.').next().unwrap());
            let endpoint = if client.protocol == "grpc" { &grpc } else { &http };
            run(client, &service, endpoint, &limiter, paths);
            (service, client, limiter)
        })
        .collect();
    eprintln!("client | protocol | operations | requests | worst wait | own metric");
    for (service, client, limiter) in &runs {
        let outcome = check(client, service, &process, limiter);
        let Outcome { operations, requests, worst_wait, metric } = outcome;
        eprintln!(
            "{service} {:?} | {} | {operations} | {requests} | {worst_wait:?} | {metric:?}",
            client.environment, client.protocol
        );
        assert!(operations >= paths.len() && requests > operations, "{service} did nothing");
        assert!(worst_wait <= slack, "{service}: a wait is {worst_wait:?} off");
        // By its older names httpx doesn't say whom it called.
        let names = client.environment.iter().any(|one| *one == STABLE || *one == BOTH);
        let has_metric = names || client.script != "httpx_tenacity.py";
        assert_eq!(metric.is_some(), has_metric, "{service}: a metric that can be placed");
    }
}

#[test]
fn pages_show_what_real_clients_did_or_say_that_it_cannot_be_seen() {
    // Other tests run beside it: waits are compared closely in the long form.
    run_all(&USUAL, &["/v1/fine", "/v1/once", "/v1/twice"], Duration::from_millis(500));
}

#[test]
#[ignore = "takes minutes; `make test-long` runs it"]
fn every_client_in_every_protocol_is_shown_as_it_was() {
    let paths = ["/v1/fine", "/v1/once", "/v1/twice", "/v1/spent"];
    run_all(&MATRIX, &paths, Duration::from_millis(100));
}
