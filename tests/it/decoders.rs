//! Every decoder against real bodies that were damaged on their way: bits turned, ends cut, parts
//! moved and repeated, lengths that lie, values nested without end. None panics, none takes long,
//! and what comes out is no larger than what went in allows.

use super::otlp::{call, grpc_address, incident, request};
use super::support::{Process, TestApp};
use axum::body::Body;
use axum::http::Request;
use proptest::prelude::*;
use retrylens::domain::classify::classify;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::ingest::access_log::{self, Format, Lines, Naming, Reader};
use retrylens::ingest::native::{self, RawKeys};
use retrylens::ingest::otlp::metrics::volumes;
use retrylens::ingest::otlp::{self, Encoding, Options};
use retrylens::ingest::{body, case, har, response};
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Far above what any of these bodies needs on a slow machine without optimisation.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that may be kept of a body, in bytes for each of its own.
const GROWTH: usize = 40;

/// A way to damage a body. Places are parts of its length, in 1/65536.
#[derive(Debug, Clone)]
enum Damage {
    Turn(u16, u8),
    Cut(u16),
    Remove(u16, u16),
    Repeat(u16, u16, u8),
    Put(u16, Vec<u8>),
    Write(u16, Vec<u8>),
}

/// Bytes that mean much to one format or another.
const MEANING: [&[u8]; 22] = [
    // Lengths and numbers of protobuf: the largest, one that is too long, a field without a number.
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x00",
    b"\x0b\x0c",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
    b"null",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"1e999999",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"NaN",
    b"\n",
    b"\t",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b"Bearer sk-live-0123456789abcdefghij",
    b"[29/Feb/2027:25:61:61 +9999]",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::sample::select(&MEANING[..]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (prop::sample::select(&MEANING[..]), 1_usize..2_000)
            .prop_map(|(bytes, times)| bytes.repeat(times)),
    ]
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        4 => (any::<u16>(), 0_u8..8).prop_map(|(at, bit)| Damage::Turn(at, bit)),
        1 => any::<u16>().prop_map(Damage::Cut),
        2 => (any::<u16>(), any::<u16>()).prop_map(|(at, to)| Damage::Remove(at, to)),
        2 => (any::<u16>(), any::<u16>(), 1_u8..40)
            .prop_map(|(at, to, times)| Damage::Repeat(at, to, times)),
        3 => (any::<u16>(), bytes()).prop_map(|(at, bytes)| Damage::Put(at, bytes)),
        2 => (any::<u16>(), bytes()).prop_map(|(at, bytes)| Damage::Write(at, bytes)),
    ];
    prop::collection::vec(one, 1..6)
}

/// The largest body that damage makes.
const LARGEST: usize = 256 * 1024;

fn damaged(body: &[u8], all: &[Damage]) -> Vec<u8> {
    let mut body = body.to_vec();
    for damage in all {
        let place = |at: u16| usize::from(at) * body.len() / 65_536;
        let range = |a: u16, b: u16| place(a).min(place(b))..place(a).max(place(b));
        match damage {
            Damage::Turn(at, bit) => {
                let at = place(*at);
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Damage::Cut(at) => body.truncate(place(*at)),
            Damage::Remove(from, to) => drop(body.drain(range(*from, *to))),
            Damage::Repeat(from, to, times) => {
                let range = range(*from, *to);
                let part = body[range.clone()].repeat(usize::from(*times));
                body.splice(range.end..range.end, part);
            }
            Damage::Put(at, bytes) => {
                let at = place(*at);
                body.splice(at..at, bytes.iter().copied());
            }
            Damage::Write(at, bytes) => {
                let at = place(*at);
                let end = body.len().min(at + bytes.len());
                body.splice(at..end, bytes.iter().copied());
            }
        }
        body.truncate(LARGEST);
    }
    body
}

#[expect(clippy::disallowed_methods, reason = "the tests are about time")]
fn within_patience<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let out = work();
    let took = started.elapsed();
    assert!(took < PATIENCE, "took {took:?}");
    out
}

/// What is kept of a body is bounded by it. A few names are added to each item.
fn assert_bounded(kept: &impl std::fmt::Debug, body: &[u8]) {
    let size = format!("{kept:?}").len();
    assert!(size <= 65_536 + GROWTH * body.len(), "{size} bytes of {}", body.len());
}

/// Bodies as exporters sent them (`tests/data/otlp/README.md`).
static SENT: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/otlp");
    let mut bodies: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "pb" || kind == "json"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    bodies.sort();
    bodies
});

/// Reads a body by each reader of OTLP; how many spans, waits and data points it has.
fn read_otlp(body: &[u8], encoding: Encoding) -> [usize; 3] {
    let hasher = KeyHasher::new(b"test");
    let options = Options { hasher: &hasher, max_items: 1_000, ourselves: None };
    let traces = otlp::traces(body, encoding, &options);
    let waits = otlp::logged_waits(body, encoding, 1_000);
    let points = volumes(body, encoding, &options);
    if let Ok(read) = &traces {
        assert!(read.spans.len() <= 1_000 && read.problems.len() <= 5);
        assert_bounded(&read.spans, body);
    }
    if let Ok(read) = &points {
        assert_bounded(&read.points, body);
    }
    [
        traces.map_or(0, |read| read.spans.len()),
        waits.map_or(0, |read| read.len()),
        points.map_or(0, |read| read.points.len()),
    ]
}

fn encoding(name: &str) -> Encoding {
    match name.rsplit_once('.') {
        Some((_, "pb")) => Encoding::Protobuf,
        _ => Encoding::Json,
    }
}

#[test]
fn what_exporters_send_is_read() {
    let mut found = [0; 3];
    for (name, body) in SENT.iter() {
        let read = read_otlp(body, encoding(name));
        let at = ["traces", "logs", "metrics"].iter().position(|kind| name.contains(kind));
        let at = at.unwrap_or_else(|| panic!("{name}: of which signal?"));
        assert!(read[at] > 0 || name.contains("logs"), "{name}: {read:?}");
        for (sum, n) in found.iter_mut().zip(read) {
            *sum += n;
        }
    }
    assert!(found[0] > 10 && found[2] >= 10, "{found:?}");
}

/// Lines as gateways write them, a format each.
const LINES: [(&str, &str); 20] = [
    (
        "nginx",
        r#"{"epoch":1795991186.952,"gateway":"nginx","request_id":"0f58","traceparent":"00-bfa3a3e0337f46bc8d53969081042e63-657cf9ab72324664-01","method":"GET","host":"api.example.com","path":"/v1/orders/42322","status":502,"upstream_addr":"192.0.2.3:80, pair","upstream_status":"429, 502","upstream_connect_s":"0.000, -","upstream_header_s":"0.001, -","limit_req_status":"","cache_status":"","duration_s":0.012}"#,
    ),
    (
        "nginx-error",
        r#"2026/04/02 12:00:00 [error] 32#32: *1269 limiting requests, excess: 20.950 by zone "one", client: 192.0.2.2, server: , request: "GET /a?b=c HTTP/1.1", host: "api.example.com""#,
    ),
    (
        "haproxy",
        r#"192.0.2.7:52610 [29/Nov/2026:22:26:57.958] f01 f01/<NOSRV> 0/-1/-1/-1/0 429 225 - - PR-- 1/1/0/0/0 0/0 "GET /v1/orders/38183 HTTP/1.1""#,
    ),
    (
        "envoy",
        r#"[2026-11-29T22:27:12.901Z] "GET /v1/orders/87348 HTTP/1.1" 429 RL 0 18 0 - "-" "curl/7.88.1" "2541e27d" "192.0.2.3:17301" "-""#,
    ),
    (
        "combined",
        r#"192.0.2.1 - - [29/Nov/2026:22:27:33 +0100] "GET /v1/a?key=1 HTTP/1.1" 429 345 "-" "curl \"7\"""#,
    ),
    (
        "caddy",
        r#"{"level":"info","ts":1795991265.6683996,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.1","method":"GET","host":"api.example.com","uri":"/v1/orders/1"},"duration":0.0001,"size":0,"status":429}"#,
    ),
    (
        "varnish",
        r#"{"ts":"2026-11-29T22:27:54Z","gateway":"varnish","method":"GET","host":"api.example.com","path":"/v1/orders/24822","status":429,"handling":"hit","hitmiss":"hit","upstream_status":"cached"}"#,
    ),
    (
        "trafficserver",
        r#"{"epoch":1795991296.69,"gateway":"trafficserver","host":"api.example.com","status":504,"upstream_status":"000","cache_result":"ERR_READ_TIMEOUT","server_attempts":"2"}"#,
    ),
    (
        "kong",
        r#"{"request":{"id":"f1","uri":"/v1/a?b","method":"GET","headers":{"host":"api.example.com","x-request-id":"c1"}},"response":{"status":429,"headers":{"retry-after":"60"}},"latencies":{"proxy":-1,"kong":1,"request":2},"started_at":1795991186952}"#,
    ),
    (
        "traefik",
        r#"{"ClientHost":"203.0.113.42","RequestMethod":"POST","RequestPath":"/a?b","RequestHost":"api.example.com","DownstreamStatus":429,"OriginStatus":0,"Duration":1873000,"RouterName":"web@file","RetryAttempts":0,"StartUTC":"2026-11-29T22:27:33.258Z"}"#,
    ),
    (
        "aws-api-gateway",
        r#"{"epoch_ms":"1795991186952","gateway":"aws_apigateway","host":"api.example.com","request_id":"r","status":"429","integration_status":"-","response_type":"QUOTA_EXCEEDED","path":"/prod/a"}"#,
    ),
    (
        "cloudflare",
        r#"{"EdgeStartTimestamp":"2026-11-29T22:27:33Z","EdgeEndTimestamp":"2026-11-29T22:27:34Z","RayID":"8f2a","ClientRequestMethod":"GET","ClientRequestHost":"api.example.com","ClientRequestPath":"/v1/a","EdgeResponseStatus":429,"OriginResponseStatus":0}"#,
    ),
    (
        "workerd",
        r#"{"ts":"2026-11-29T22:30:44.676Z","gateway":"workerd","host":"api.example.com","status":429,"upstream_status":null,"limiter":"LIMITER"}"#,
    ),
    (
        "apache",
        r#"{"ts":"2026-11-29T22:27:33.258+0000","gateway":"apache","host":"api.example.com","status":500,"handler":"proxy-server","limiter":"-","qos_event":"D;","qos_error":"010","path":"/caf\xc3\xa9"}"#,
    ),
    (
        "haproxy",
        r#"{"epoch":1795991217.958,"gateway":"haproxy","request_id":"r1","method":"GET","path":"/v1/a","status":429,"upstream_status":"","backend":"app","server":"<NOSRV>","term_state":"PR","retries":"0","limiter":"src_http_req_rate","t_connect_ms":-1}"#,
    ),
    (
        "squid",
        "1795991431.410      1 127.0.0.1 TCP_DENIED/429 448 GET http://api.example.com/v1/orders/58069 - HIER_NONE/- text/html",
    ),
    (
        "kong",
        r#"192.0.2.1 - - [29/Nov/2026:22:27:33 +0000] "GET /v1/a?b HTTP/1.1" 429 38 "-" "curl/8" kong_request_id: "8f2a1c3d4e5f6a7b8f2a1c3d4e5f6a7b""#,
    ),
    (
        "traefik",
        r#"192.0.2.1 - - [29/Nov/2026:22:27:33 +0000] "GET /v1/a?b HTTP/1.1" 429 17 "-" "-" 12 "web@file" "-" 1ms"#,
    ),
    (
        "aws-alb",
        r#"https 2026-11-29T22:23:00.186641Z app/my-lb/50dc6c495c0c9188 192.0.2.131:2817 - -1 -1 -1 403 - 34 366 "GET https://api.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 - "Root=1-58337262-36d228ad5d99923122bbe354" "api.example.com" "arn:aws:acm:x" 0 2026-11-29T22:22:48.364000Z "waf" "-" "-" "-" "-" "-" "-""#,
    ),
    (
        "cloudfront",
        "2026-11-29\t22:27:33\tFRA56\t500\t192.0.2.10\tGET\td1.cloudfront.net\t/v1/a\t503\t-\tcurl\t-\t-\tError\tSOX4xwn4XV6Q==\tapi.example.com\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE\tError\tHTTP/2.0\t-\t-\t11040\t0.001\tCapacityExceeded\ttext/html\t78\t-\t-",
    ),
];

/// Reads bytes as a log, cut at places that have nothing to do with its lines.
fn read_log(format: Option<Format>, body: &[u8]) -> usize {
    let hasher = KeyHasher::new(b"test");
    let mut reader = Reader::new(format, Naming::default(), &hasher);
    let (mut lines, mut cut) = (Lines::from_offset(0), Vec::new());
    for part in body.chunks(1_000) {
        lines.feed(part, &mut cut);
    }
    cut.extend(lines.finish());
    let piece = reader.read(&cut);
    assert_bounded(&piece, body);
    piece.events.len()
}

#[test]
fn the_lines_that_are_damaged_are_good_ones() {
    for (name, line) in LINES {
        let format = Format::named(name).unwrap();
        assert!(access_log::parse(Some(format), line.as_bytes()).is_ok(), "{name}");
    }
}

/// Texts that a reader may look through again and again, where each of them begins another search.
const ENDLESS: [&str; 24] = [
    ":",
    ",",
    "\"",
    "\\",
    "\\x",
    "{\"a\":",
    "\"a\":1,",
    "[",
    "{",
    " ",
    "=",
    "a=b&",
    "a: ",
    "/",
    "%25",
    "<",
    "-",
    "a@",
    "Bearer ",
    "password=",
    "https://",
    "1.",
    "\\\"a\\\":",
    "key ",
];

/// A line with so many bytes of a text in it, at a place that is so many tenths of its length.
fn stretched(line: &str, text: &str, tenths: usize, bytes: usize) -> Vec<u8> {
    let (head, tail) = line.split_at(line.floor_char_boundary(line.len() * tenths / 10));
    [head, &text.repeat(bytes / text.len()), tail, "\n"].concat().into_bytes()
}

/// How long this thread has been running, whatever else the machine does (proc(5), `schedstat`).
fn running_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Fails where a body that is four times as long takes more than nine times as long.
fn assert_linear(told: &str, read: impl Fn(&[u8]), body: impl Fn(usize) -> Vec<u8>) {
    let [short, long] = [15_000, 60_000].map(body);
    let time = |body: &[u8]| {
        let started = running_time();
        read(body);
        running_time().saturating_sub(started)
    };
    let (mut all, mut part) = (time(&long), Duration::MAX);
    for _ in 0..4 {
        // What takes no time can't be compared.
        if all < Duration::from_millis(200) {
            return;
        }
        part = part.min(time(&short));
        if all < part * 9 {
            return;
        }
        all = all.min(time(&long));
    }
    panic!("{told}: {part:?} and then {all:?}");
}

#[test]
fn a_line_four_times_as_long_takes_no_more_than_a_few_times_as_long() {
    for (name, line) in LINES {
        let format = Format::named(name);
        for (text, tenths) in ENDLESS.iter().flat_map(|text| [5, 9].map(|tenths| (text, tenths))) {
            assert_linear(
                &format!("{name}, {text:?} at {tenths}"),
                |body| assert!(read_log(format, body) <= 2),
                |bytes| stretched(line, text, tenths, bytes),
            );
        }
    }
}

#[test]
fn an_event_four_times_as_long_takes_no_more_than_a_few_times_as_long() {
    let event = native_body();
    for (text, field) in ENDLESS
        .iter()
        .flat_map(|text| ["error code: 1015", "/v1/orders/7", "cloudflare"].map(|at| (text, at)))
    {
        let quoted = serde_json::to_string(text).unwrap();
        let quoted = quoted.trim_matches('"');
        assert_linear(&format!("{text:?} in {field:?}"), read_native, |bytes| {
            let many = format!("{field}{}", quoted.repeat(bytes / text.len()));
            event.replace(field, &many).into_bytes()
        });
    }
}

/// What people paste: a response, two of curl, a HAR file, a case with its logs.
const PASTES: [&str; 4] = [
    "HTTP/1.1 429 Too Many Requests\r\nserver: nginx\r\nretry-after: 30\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "* Trying 192.0.2.1:443...\n> GET /v1/x HTTP/2\n> Host: api.example.com\n>\n< HTTP/2 301\n< location: /b\n<\n< HTTP/2 429\n< cf-ray: 8f2a1c-GRU\n<\nerror code: 1015",
    r#"{"log":{"version":"1.2","entries":[{"startedDateTime":"2026-11-29T22:27:33.258Z","time":12.5,"request":{"method":"GET","url":"https://api.example.com/v1/a","headers":[]},"response":{"status":429,"statusText":"","httpVersion":"h2","headers":[{"name":"Retry-After","value":"7"}],"content":{"size":5,"mimeType":"text/plain","text":"aGVsbG8=","encoding":"base64"}}}]}}"#,
    r#"{"id":"c1","raw":"HTTP/1.1 429 Too Many Requests\r\nserver: envoy\r\n\r\n","request":{"method":"GET","path":"/v1/a"},"access_log_json":{"gateway":"envoy","status":429,"response_flags":"RL","code_details":"local_rate_limited"},"origin_log":[],"origin_saw_request":false}"#,
];

#[test]
fn the_pastes_that_are_damaged_are_good_ones() {
    for paste in PASTES {
        let read = har::entries(paste.as_bytes()).unwrap_or_default();
        let told = read.last().map(|read| read.response.status);
        let told = told.unwrap_or_else(|| case::of_text(paste).unwrap().response.status);
        assert_eq!(told, Some(429), "{paste}");
    }
}

fn native_body() -> String {
    let event = r#"{"event_id":"01JCH6X8Y4Q2V7M3N9K5R1T6B8","operation_id":"op-7f1c","attempt":2,"occurred_at":"2026-11-11T07:29:00.120Z","duration_ms":84,"service":"checkout","instance":"pod-7","method":"POST","url":"https://api.example.com/v1/orders/7?key=sk-live-0123456789abcdef","status":429,"retry_after":"30","computed_delay_ms":30412,"headers":{"server":"cloudflare","date":"Wed, 11 Nov 2026 07:29:00 GMT","ratelimit":"\"default\";r=0;t=30"},"body_sample":"error code: 1015","count":3}"#;
    format!("[{event},{event}]")
}

fn read_native(body: &[u8]) {
    let hasher = KeyHasher::new(b"test");
    for format in [native::Format::Detect, native::Format::Ndjson] {
        let options = native::DecodeOptions {
            hasher: &hasher,
            raw_keys: RawKeys::Hash,
            max_items: 1_000,
            format,
        };
        if let Ok(read) = native::decode(body, &options) {
            assert!(read.events.len() + read.rejects.len() <= 1_000);
            assert_bounded(&read, body);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_exports_are_read_or_refused(which in any::<prop::sample::Index>(), all in damage()) {
        let (name, body) = which.get(&SENT);
        let body = damaged(body, &all);
        within_patience(|| read_otlp(&body, encoding(name)));
    }

    #[test]
    fn damaged_events_are_read_or_refused(all in damage()) {
        let body = damaged(native_body().as_bytes(), &all);
        within_patience(|| read_native(&body));
    }

    #[test]
    fn damaged_packed_bodies_are_unpacked_or_refused(all in damage(), is_gzip in any::<bool>()) {
        const CAP: usize = 1 << 20;
        let body = native_body().repeat(20).into_bytes();
        let (packed, encoding) = if is_gzip {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&body).unwrap();
            (gzip.finish().unwrap(), body::Encoding::Gzip)
        } else {
            (zstd::stream::encode_all(&body[..], 3).unwrap(), body::Encoding::Zstd)
        };
        let damaged = damaged(&packed, &all);
        if let Ok(read) = within_patience(|| body::inflate(&damaged, encoding, CAP)) {
            prop_assert!(read.len() <= CAP);
            within_patience(|| read_native(&read));
        }
    }

    #[test]
    fn damaged_pastes_are_read_or_refused(
        which in prop::sample::select(&PASTES[..]), all in damage(),
    ) {
        let bytes = damaged(which.as_bytes(), &all);
        let text = String::from_utf8_lossy(&bytes);
        let exported = within_patience(|| har::entries(&bytes).unwrap_or_default());
        let pasted = within_patience(|| response::parse_all(&text));
        prop_assert!(exported.len().max(pasted.len()) <= bytes.len());
        assert_bounded(&exported, &bytes);
        assert_bounded(&pasted, &bytes);
        let case = within_patience(|| case::of_text(&text));
        if let Ok(case) = case {
            assert_bounded(&case, &bytes);
            within_patience(|| classify(&case.response));
        }
    }

    #[test]
    fn damaged_lines_cost_themselves(
        which in any::<prop::sample::Index>(), all in damage(), is_named in any::<bool>(),
    ) {
        let (name, line) = which.get(&LINES);
        let mut body = damaged(line.as_bytes(), &all);
        body.push(b'\n');
        body.extend(line.as_bytes());
        let format = Format::named(name).filter(|_| is_named);
        let read = within_patience(|| read_log(format, &body));
        // What is behind a damaged line is read, unless it was read as another format's.
        if is_named {
            prop_assert!(read >= read_log(format, line.as_bytes()), "{name}");
        }
    }
}

/// Bodies made to be as hard as can be for what they weigh, each of two megabytes.
fn hard() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    const SIZE: usize = 2 << 20;
    let json = |head: &str, part: &str, tail: &str| {
        let times = (SIZE - head.len() - tail.len()) / part.len();
        let body = [head, &part.repeat(times), tail].concat();
        ("application/json", body.into_bytes())
    };
    let wrap = |number: u8, inner: &[u8]| {
        let mut length = inner.len();
        let mut field = vec![number << 3 | 2];
        while length >= 0x80 {
            field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        field.push(u8::try_from(length).unwrap());
        field.extend_from_slice(inner);
        field
    };
    let spans = |span: &[u8]| wrap(1, &wrap(2, span));
    let empty_spans = spans(&wrap(2, &[]).repeat(SIZE / 2));
    // Lists in lists, each two bytes and its length, as deep as the size allows.
    let mut deep = Vec::new();
    while deep.len() < 60_000 {
        deep = wrap(5, &wrap(1, &deep));
    }
    let attribute = wrap(9, &[wrap(1, b"http.request.method"), wrap(2, &deep)].concat());
    let deep_spans = spans(&wrap(2, &attribute.repeat(SIZE / attribute.len())));
    let small_attributes = spans(&wrap(2, &wrap(9, &wrap(1, b"a")).repeat(SIZE / 5)));
    let [protobuf, traces, metrics] = ["application/x-protobuf", "/v1/traces", "/v1/metrics"];
    let mut bodies = vec![
        (traces, protobuf, empty_spans),
        (traces, protobuf, deep_spans),
        (traces, protobuf, small_attributes),
        (metrics, protobuf, wrap(1, &wrap(2, &wrap(2, &[]).repeat(SIZE / 2)))),
    ];
    let in_json = [
        (traces, r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, "{},", "{}]}]}]}"),
        (traces, r#"{"resourceSpans":["#, "{},", "{}]}"),
        (traces, "", "[", ""),
        (traces, r#"{"resourceSpans":[{"resource":"#, "[", "]}]}"),
        (traces, r#"{"resourceSpans":""#, "a", "\"}"),
        (
            metrics,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"http.client.duration","histogram":{"dataPoints":["#,
            "{},",
            "{}]}}]}]}]}",
        ),
        ("/v1/logs", r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":["#, "{},", "{}]}]}]}"),
        ("/v1/events", "[", "{},", "{}]"),
        ("/v1/events", "", "[", ""),
    ];
    for (path, head, part, tail) in in_json {
        let (media, body) = json(head, part, tail);
        bodies.push((path, media, body));
    }
    bodies.push(("/v1/access-logs/auto", "text/plain", vec![b'{'; SIZE]));
    bodies.push(("/v1/access-logs/auto", "text/plain", b"{\n".repeat(SIZE / 2)));
    bodies.push(("/v1/access-logs/nginx", "text/plain", vec![b'"'; SIZE]));
    bodies
}

/// The most memory a process has had, in bytes (proc(5), `VmHWM`).
fn peak(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}

#[test]
#[expect(clippy::print_stderr, reason = "how much it took is for people")]
fn hard_bodies_take_no_more_memory_than_a_few_times_the_largest_body() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path(), &[], &[]);
    let before = peak(&process);
    for round in 0..2 {
        for (path, media, body) in hard() {
            let answer = process.send(path, media, &body);
            let (status, _) = answer.unwrap_or_else(|| panic!("{path} {media}: no answer"));
            assert!((200..500).contains(&status), "{path} {media} {round}: {status}");
        }
    }
    let grown = peak(&process).saturating_sub(before);
    eprintln!("hard bodies of 2 MiB: {} MiB more at most", grown >> 20);
    assert!(grown < 64 * (2 << 20), "{} MiB", grown >> 20);
}

/// A gzip body of some ten kilobytes that unpacks to ten megabytes.
fn bomb() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 10 << 20]).unwrap();
    let packed = gzip.finish().unwrap();
    assert!((9_000..12_000).contains(&packed.len()), "{}", packed.len());
    packed
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_much_is_refused_on_every_route() {
    let app = TestApp::start().await;
    let json = "application/json";
    let routes = [
        ("/v1/events", json),
        ("/v1/traces", json),
        ("/v1/traces", "application/x-protobuf"),
        ("/v1/logs", json),
        ("/v1/logs", "application/x-protobuf"),
        ("/v1/metrics", json),
        ("/v1/metrics", "application/x-protobuf"),
        ("/v1/access-logs/auto", "text/plain"),
        ("/v1/access-logs/nginx", "text/plain"),
    ];
    for (path, media) in routes {
        let request = Request::post(path)
            .header("content-type", media)
            .header("content-encoding", "gzip")
            .body(Body::from(bomb()));
        let answer = app.send(request.unwrap()).await;
        assert_eq!(answer.status.as_u16(), 413, "{path} {media}: {}", answer.text);
    }
    // It isn't unpacked here, so it is no body that can be read.
    let request = Request::post("/api/v1/classify")
        .header("content-type", "text/plain")
        .header("content-encoding", "gzip")
        .body(Body::from(bomb()));
    let answer = app.send(request.unwrap()).await;
    assert!(answer.status.is_client_error(), "{}", answer.text);
}

#[tokio::test]
async fn a_call_that_unpacks_to_much_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("RETRYLENS_OTLP_GRPC_LISTEN", "127.0.0.1:0")];
    let _process = Process::serve(folder.path(), &[], &environment);
    let address = grpc_address(folder.path());
    for service in ["trace.v1.TraceService", "logs.v1.LogsService", "metrics.v1.MetricsService"] {
        let method = format!("opentelemetry.proto.collector.{service}/Export");
        let (headers, _) = call(&address, &method, None, true, bomb()).await;
        assert_eq!(headers["grpc-status"], "8", "{service}");
    }
}

/// The samples above are what these tests damage; the one made for other tests is read, too.
#[test]
fn the_incident_of_other_tests_is_read() {
    let body = request(&incident()).to_string();
    assert_eq!(read_otlp(body.as_bytes(), Encoding::Json)[0], 4);
}
