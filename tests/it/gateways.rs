//! Real gateways, started for the test on loopback, and what `classify` makes of their answers:
//! limited by the gateway, limited by the application behind it, and both chained.
//!
//! The response alone can't settle every case. So the rule is: name the right one or say
//! `unknown`; never be confident and wrong. Versions come from the system's packages.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use retrylens::domain::classify::{Responder, Verdict, classify};
use retrylens::ingest::response;

/// A gateway process of this test; stopped by its id when dropped.
pub(crate) struct Gateway {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl Gateway {
    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its own folder.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Gateway {
    /// Asks it to end, so that it ends its own workers too, and insists after five seconds.
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        drop(Command::new("kill").args(["-s", "TERM", &id]).status());
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that nobody listens on, and that nobody else is given while the tests run.
pub(crate) fn dead_port() -> u16 {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    // It is bound until the process ends.
    std::mem::forget(socket);
    port
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a gateway on a free port; on another one where somebody else took it meanwhile.
fn start(config: &str, next: u16, command: impl Fn(&Path, &Path, u16) -> Command) -> Gateway {
    let mut problem = String::new();
    for _ in 0..3 {
        match try_start(config, next, &command) {
            Ok(gateway) => return gateway,
            Err(output) => problem = output,
        }
    }
    panic!("the gateway does not start: {problem}")
}

/// Writes `config` (with `{port}`, `{dir}` and `{next}` filled in), starts `command` on it and
/// waits until it listens. What it printed, where it ended instead.
fn try_start(
    config: &str,
    next: u16,
    command: impl Fn(&Path, &Path, u16) -> Command,
) -> Result<Gateway, String> {
    let dir = tempfile::Builder::new().prefix("retrylens-gateway-").tempdir().unwrap();
    let port = free_port();
    let text = config
        .replace("{port}", &port.to_string())
        .replace("{next}", &next.to_string())
        .replace("{dir}", dir.path().to_str().unwrap());
    let file = dir.path().join("gateway.conf");
    std::fs::write(&file, text).unwrap();
    let log = std::fs::File::create(dir.path().join("output.log")).unwrap();
    let child = command(dir.path(), &file, port)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{error}: `make packages` installs the gateways"));
    let mut gateway = Gateway { child, port, dir };
    // Varnish compiles its configuration first, which takes its time on a busy machine.
    for _ in 0..1200 {
        if let Some(status) = gateway.child.try_wait().unwrap() {
            let output = std::fs::read_to_string(gateway.dir.path().join("output.log")).unwrap();
            return Err(format!("ended with {status}: {output}"));
        }
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(gateway);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("did not listen within a minute".to_owned())
}

const NGINX: &str = "
worker_processes 1; daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  limit_req_zone $remote_addr zone=one:1m rate=1r/m;
  server {
    listen 127.0.0.1:{port};
    location /own { limit_req zone=one; limit_req_status 429; proxy_pass http://127.0.0.1:{next}; }
    location /own503 { limit_req zone=one; proxy_pass http://127.0.0.1:{next}; }
    location / { proxy_pass http://127.0.0.1:{next}; }
  }
}";

const HAPROXY: &str = "
defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port}
  http-request deny deny_status 429 if { path_beg /own /haproxy }
  default_backend b
backend b
  server o 127.0.0.1:{next}
";

const VARNISH: &str = "vcl 4.1;
backend default { .host = \"127.0.0.1\"; .port = \"{next}\"; }
sub vcl_recv { if (req.url ~ \"^/own\") { return (synth(429)); } return (pass); }
";

const APACHE: &str = "
ServerRoot /etc/apache2
ServerName gateway.example
Listen 127.0.0.1:{port}
PidFile {dir}/apache.pid
Mutex file:{dir}
ErrorLog {dir}/error.log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule rewrite_module /usr/lib/apache2/modules/mod_rewrite.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
User nobody
Group nogroup
RewriteEngine On
RewriteRule ^/own - [R=429,L]
ProxyPass / http://127.0.0.1:{next}/
";

fn nginx(next: u16) -> Gateway {
    start_nginx(NGINX, next)
}

/// nginx with this inside of `http`.
pub(crate) fn nginx_with(http: &str, next: u16) -> Gateway {
    let config = format!(
        "worker_processes 1; daemon off; pid {{dir}}/nginx.pid; error_log {{dir}}/error.log;
events {{ worker_connections 64; }}
http {{
  client_body_temp_path {{dir}}/b; proxy_temp_path {{dir}}/p; fastcgi_temp_path {{dir}}/f;
  uwsgi_temp_path {{dir}}/u; scgi_temp_path {{dir}}/s;
  {http}
}}"
    );
    start_nginx(&config, next)
}

/// HAProxy with this configuration.
pub(crate) fn haproxy_with(config: &str, next: u16) -> Gateway {
    start(config, next, |_, file, _| {
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(file);
        command
    })
}

/// Envoy as `make packages` installs it, with a local rate limit on `/envoy` and the recommended log.
pub(crate) fn envoy(next: u16) -> Gateway {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_to_string(root.join("docs/access-logs.md")).unwrap();
    let section = docs.split("\n## ").find(|part| part.starts_with("Envoy")).unwrap();
    let block = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let log: Vec<String> = block.lines().map(|line| format!("          {line}")).collect();
    let log = log.join("\n");
    let config = ENVOY.replace("{log}", &log);
    let program = std::env::var_os("RETRYLENS_TEST_ENVOY")
        .map_or_else(|| root.join("target/envoy/envoy"), std::path::PathBuf::from);
    start(&config, next, |_, file, _| {
        let mut command = Command::new(&program);
        command.args(["--log-level", "error", "--disable-hot-restart", "--concurrency", "1"]);
        command.args(["--config-yaml", &std::fs::read_to_string(file).unwrap()]);
        command
    })
}

const ENVOY: &str = r#"
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: {port} } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: i
          preserve_external_request_id: true
{log}
          http_filters:
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: l
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: /envoy }
                route: { cluster: next }
                typed_per_filter_config:
                  envoy.filters.http.local_ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                    stat_prefix: l
                    token_bucket: { max_tokens: 1, tokens_per_fill: 1, fill_interval: 600s }
                    filter_enabled: { default_value: { numerator: 100, denominator: HUNDRED } }
                    filter_enforced: { default_value: { numerator: 100, denominator: HUNDRED } }
              - match: { prefix: /limited-again }
                route:
                  cluster: next
                  retry_policy:
                    retry_on: retriable-status-codes
                    retriable_status_codes: [429]
                    num_retries: 2
              - match: { prefix: / }
                route: { cluster: next }
  clusters:
  - name: next
    connect_timeout: 2s
    type: STATIC
    load_assignment:
      cluster_name: next
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: {next} } } }
"#;

fn start_nginx(config: &str, next: u16) -> Gateway {
    start(config, next, |dir, file, _| {
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-e").arg(dir.join("start.log")).arg("-c").arg(file);
        command
    })
}

fn haproxy(next: u16) -> Gateway {
    start(HAPROXY, next, |_, file, _| {
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(file);
        command
    })
}

fn varnish(next: u16) -> Gateway {
    start(VARNISH, next, |dir, file, port| {
        let mut command = Command::new("/usr/sbin/varnishd");
        command.args(["-F", "-j", "none", "-s", "malloc,8m", "-a"]);
        command.arg(format!("127.0.0.1:{port}")).arg("-n").arg(dir.join("work"));
        command.arg("-f").arg(file);
        command
    })
}

fn apache(next: u16) -> Gateway {
    start(APACHE, next, |_, file, _| {
        let mut command = Command::new("/usr/sbin/apache2");
        command.arg("-DFOREGROUND").arg("-f").arg(file);
        command
    })
}

/// An application with a limiter of its own: a documented kind of refusal for `/limited`, and a
/// plain answer otherwise. Ends with the test's process.
pub(crate) fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0_u8; 1];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    let limited = head.starts_with(b"GET /limited");
    let (status, body) = if limited {
        (
            "429 Too Many Requests",
            r#"{"type":"about:blank","title":"Too many orders","status":429,"code":"rate_limit_exceeded"}"#,
        )
    } else {
        ("200 OK", r#"{"orders":[]}"#)
    };
    let mut text = format!("HTTP/1.1 {status}\r\n");
    text.push_str("Date: Wed, 11 Nov 2026 07:29:00 GMT\r\nX-Powered-By: Express\r\n");
    if limited {
        text.push_str("Content-Type: application/problem+json\r\nRetry-After: 30\r\n");
        text.push_str("X-RateLimit-Limit: 60\r\nX-RateLimit-Remaining: 0\r\n");
    } else {
        text.push_str("Content-Type: application/json\r\n");
    }
    write!(text, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).unwrap();
    // The peer may have gone; the test sees that on its own side.
    drop(stream.write_all(text.as_bytes()));
}

/// The raw answer to `GET path`.
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).unwrap();
    String::from_utf8_lossy(&raw).into_owned()
}

fn judge(raw: &str) -> Verdict {
    classify(&response::parse(raw).unwrap().response)
}

/// Fails where the verdict is confident and not `truth`.
fn never_confidently_wrong(what: &str, raw: &str, truth: Responder) -> Verdict {
    let verdict = judge(raw);
    assert!(
        verdict.returned_by == truth || verdict.confidence < 0.8,
        "{what}: {} returned it, but the verdict is {} at {}\n{raw}",
        truth,
        verdict.returned_by,
        verdict.confidence,
    );
    verdict
}

type Start = fn(u16) -> Gateway;

#[test]
fn a_real_gateway_that_refuses_is_named() {
    let application = application();
    let gateways: [(&str, Start, Responder); 4] = [
        ("nginx", nginx, Responder::Nginx),
        ("haproxy", haproxy, Responder::Haproxy),
        ("varnish", varnish, Responder::Varnish),
        ("apache", apache, Responder::Apache),
    ];
    for (name, start, truth) in gateways {
        let gateway = start(application);
        drop(get(gateway.port, "/own")); // the first call spends nginx's only token
        let raw = get(gateway.port, "/own");
        assert!(raw.starts_with("HTTP/1.1 429"), "{name}: {raw}");
        let verdict = never_confidently_wrong(name, &raw, truth);
        assert_eq!(verdict.returned_by, truth, "{name} wrote this itself:\n{raw}");
        assert!(verdict.limited, "{name}");
    }
}

#[test]
fn an_application_that_refuses_behind_a_real_gateway_is_not_taken_for_the_gateway() {
    let application = application();
    let gateways: [(&str, Start); 4] =
        [("nginx", nginx), ("haproxy", haproxy), ("varnish", varnish), ("apache", apache)];
    for (name, start) in gateways {
        let gateway = start(application);
        let raw = get(gateway.port, "/limited");
        assert!(raw.starts_with("HTTP/1.1 429"), "{name}: {raw}");
        let verdict = never_confidently_wrong(name, &raw, Responder::Origin);
        assert!(
            matches!(verdict.returned_by, Responder::Origin | Responder::Unknown),
            "behind {name}: {} at {}\n{raw}",
            verdict.returned_by,
            verdict.confidence
        );
        assert_eq!(verdict.retry_after_seconds, Some(30.0), "{name}");
    }
}

#[test]
fn an_inner_gateway_is_not_taken_for_the_outer_one() {
    let application = application();
    let inner = haproxy(application);
    let outer = nginx(inner.port);
    let raw = get(outer.port, "/haproxy");
    assert!(raw.starts_with("HTTP/1.1 429"), "{raw}");
    never_confidently_wrong("haproxy behind nginx", &raw, Responder::Haproxy);
}

#[test]
fn a_503_of_nginx_may_be_a_limit_and_may_be_a_dead_upstream() {
    let application = application();
    let gateway = nginx(application);
    drop(get(gateway.port, "/own503"));
    let raw = get(gateway.port, "/own503");
    assert!(raw.starts_with("HTTP/1.1 503"), "{raw}");
    let verdict = never_confidently_wrong("nginx 503", &raw, Responder::Nginx);
    assert!(!verdict.limited, "a plain 503 page does not tell a limit from a dead upstream");
    assert!(verdict.collect_next.is_some(), "the log variable that tells is named");
}
