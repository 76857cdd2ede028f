//! A line of each product, broken lines, and lines of other products.

use super::*;
use crate::domain::access_log::Trail;
use crate::domain::classify::{Certainty, LimitType, Responder, Tri, classify};
use crate::domain::response::Response as Answer;
use proptest::prelude::*;

/// The verdict of a line alone.
fn judged(format: Option<Format>, text: &str) -> crate::domain::classify::Verdict {
    let record = parse(format, text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut response = Answer::default();
    record.fill(&mut response);
    response.logs = Trail { hops: vec![vec![record.facts]], origin: None };
    classify(&response)
}

/// A line, the format that it shows, who answered, which limit, whether the request went on.
type Case<'a> = (&'a str, Format, Responder, LimitType, Tri);

/// Lines as the products wrote them, or as their documentation shows them.
const LINES: &[Case<'_>] = &[
    (
        r#"{"ts":"2026-11-29T22:26:26+00:00","epoch":1795991186.952,"gateway":"nginx","request_id":"0f58","gw_request_id":"9c21","traceparent":"","method":"GET","path":"/v1/orders/42322","status":503,"upstream_addr":"","upstream_status":"","upstream_connect_s":"","upstream_header_s":"","limit_req_status":"REJECTED","limit_conn_status":"","cache_status":"","retry_after":"","duration_s":0.0}"#,
        Format::Nginx,
        Responder::Nginx,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"{"gateway":"nginx","status":502,"upstream_addr":"127.0.0.1:17901, pair","upstream_status":"429, 502","upstream_connect_s":"0.000, -","upstream_header_s":"0.001, -","limit_req_status":"","limit_conn_status":"","cache_status":""}"#,
        Format::Nginx,
        Responder::Nginx,
        LimitType::Rate,
        Tri::Yes,
    ),
    (
        r#"2023/04/02 12:00:00 [error] 32#32: *1269 limiting requests, excess: 20.950 by zone "one", client: 192.0.2.2, server: , request: "GET /a?b=c HTTP/1.1", host: "api.example.com""#,
        Format::NginxError,
        Responder::Nginx,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"192.0.2.7:52610 [29/Nov/2026:22:26:57.958] f01 f01/<NOSRV> 0/-1/-1/-1/0 429 225 - - PR-- 1/1/0/0/0 0/0 "GET /v1/orders/38183 HTTP/1.1""#,
        Format::Haproxy,
        Responder::Haproxy,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"Sep 23 10:05:05 host haproxy[2149]: 203.0.113.110:52096 [23/Sep/2022:10:05:05.544] web web/<NOSRV> 0/402/-1/-1/402 503 225 - - sQ-- 3/3/0/0/0 0/0 {192.0.2.|hey/0.0.1} "GET / HTTP/1.1""#,
        Format::Haproxy,
        Responder::Haproxy,
        LimitType::Concurrency,
        Tri::No,
    ),
    (
        r#"{"epoch":1795991217.958,"gateway":"haproxy","request_id":"-","status":429,"upstream_status":"429","server":"s2","term_state":"--","retries":"+2","limiter":"-","t_connect_ms":0,"path":"\/v1\/orders","retry_after":"7"}"#,
        Format::Haproxy,
        Responder::Origin,
        LimitType::Rate,
        Tri::Yes,
    ),
    (
        r#"[2026-11-29T22:27:12.901Z] "GET /v1/orders/87348 HTTP/1.1" 429 RL 0 18 0 - "-" "curl/7.88.1" "2541e27d" "127.0.0.1:17301" "-""#,
        Format::Envoy,
        Responder::Envoy,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"[2024-09-15T16:27:47.687Z] "HEAD / HTTP/1.1" 429 RL local_rate_limited - "-" 0 0 0 - "192.0.2.106" "curl/8.5.0" "81e5ee85" "nginx.test.local" "-" inbound|80|| - 198.51.100.75:80 192.0.2.106:0 outbound_.80 default"#,
        Format::Envoy,
        Responder::Envoy,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"[2021-08-05T17:18:40.397Z] "GET /index HTTP/1.1" 503 UO "-" "-" 0 81 0 - "-" "python-requests/2.26.0" "83775855" "pyserver" "-" - - 198.51.100.9:80 192.0.2.12:48556 - default"#,
        Format::Envoy,
        Responder::Envoy,
        LimitType::Overload,
        Tri::No,
    ),
    (
        r#"{"authority":"api.example.com","duration":3,"method":"GET","path":"/a?b=c","request_id":"81e5","response_code":429,"response_code_details":"via_upstream","response_flags":"-","start_time":"2026-11-29T22:27:12.901Z","upstream_host":"192.0.2.3:80"}"#,
        Format::Envoy,
        Responder::Origin,
        LimitType::Rate,
        Tri::Yes,
    ),
    (
        r#"{"ts":"2026-11-29T22:27:33.258+0000","gateway":"apache","status":500,"upstream_status":"-","upstream_source_port":"-","handler":"proxy-server","limiter":"-","qos_event":"D;","qos_error":"010","path":"/caf\xc3\xa9"}"#,
        Format::Apache,
        Responder::Apache,
        LimitType::Concurrency,
        Tri::No,
    ),
    (
        r#"{"level":"info","ts":1795991265.6683996,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"127.0.0.1","client_ip":"127.0.0.1","method":"GET","host":"api.example.com","uri":"/v1/orders/10531?x=1","headers":{"X-Request-Id":["26cf"]}},"bytes_read":0,"duration":0.25,"status":429,"resp_headers":{"Server":["Caddy"]},"limiter":"key_rule","retry_after":"20","upstream_status":null,"upstream_addr":null,"gateway":"caddy"}"#,
        Format::Caddy,
        Responder::Caddy,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"{"ts":"2026-11-29T22:27:54Z","gateway":"varnish","method":"GET","path":"/v1/orders/24822","status":429,"handling":"hit","hitmiss":"hit","upstream_status":"cached","upstream_backend":"","upstream_retries":"","limiter":"","age":"2","retry_after":"5"}"#,
        Format::Varnish,
        Responder::Varnish,
        LimitType::Cached,
        Tri::No,
    ),
    (
        r#"{"epoch":1795991296.69,"gateway":"trafficserver","status":504,"upstream_status":"000","cache_result":"ERR_READ_TIMEOUT","server_host":"127.0.0.1","server_attempts":"2","error_code":"Connection Timed Out"}"#,
        Format::Trafficserver,
        Responder::Trafficserver,
        LimitType::Unknown,
        Tri::Yes,
    ),
    (
        "1795991296.690 0 127.0.0.1 TCP_MISS/429 515 GET http://api.example.com/v1/orders - DIRECT/- text/html",
        Format::Trafficserver,
        Responder::Trafficserver,
        LimitType::Rate,
        Tri::No,
    ),
    (
        "1795991431.410      1 127.0.0.1 TCP_DENIED/429 448 GET http://127.0.0.1:17802/v1/orders/58069 - HIER_NONE/- text/html",
        Format::Squid,
        Responder::Squid,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"{"ts":"2026-11-29T22:30:44.676Z","gateway":"workerd","status":429,"upstream_status":null,"upstream_attempts":0,"limiter":"LIMITER"}"#,
        Format::Workerd,
        Responder::Workerd,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"{"request":{"id":"f1","uri":"/v1/a?b","method":"GET","headers":{"host":"api.example.com","x-request-id":"c1"}},"response":{"status":429,"headers":{"x-ratelimit-limit-day":"10","retry-after":"60"}},"latencies":{"proxy":-1,"kong":3,"request":4},"tries":[],"source":"kong","started_at":1795991186952,"client_ip":"192.0.2.9"}"#,
        Format::Kong,
        Responder::Kong,
        LimitType::Quota,
        Tri::No,
    ),
    (
        r#"{"ClientHost":"203.0.113.42","RequestMethod":"POST","RequestPath":"/a?b","RequestHost":"api.example.com","DownstreamStatus":429,"OriginStatus":0,"Duration":1873000,"RouterName":"web@file","RetryAttempts":0,"StartUTC":"2026-04-26T10:14:22.5Z"}"#,
        Format::Traefik,
        Responder::Traefik,
        LimitType::Rate,
        Tri::No,
    ),
    (
        r#"{"epoch_ms":"1795991186952","gateway":"aws_apigateway","request_id":"r","status":"429","upstream_status":"-","integration_status":"-","response_type":"QUOTA_EXCEEDED","path":"/prod/a"}"#,
        Format::AwsApiGateway,
        Responder::AwsApiGateway,
        LimitType::Quota,
        Tri::No,
    ),
    (
        r#"https 2026-11-29T22:23:00.186641Z app/my-lb/50dc6c495c0c9188 192.0.2.131:2817 - -1 -1 -1 403 - 34 366 "GET https://api.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 - "Root=1-58337262-36d228ad5d99923122bbe354" "api.example.com" "arn:aws:acm:x" 0 2026-11-29T22:22:48.364000Z "waf" "-" "-" "-" "-" "-" "-""#,
        Format::AwsAlb,
        Responder::AwsAlb,
        LimitType::Security,
        Tri::No,
    ),
    (
        "2026-11-29\t22:27:33\tFRA56\t500\t192.0.2.10\tGET\td1.cloudfront.net\t/v1/a\t503\t-\tcurl\t-\t-\tError\tSOX4xwn4XV6Q==\tapi.example.com\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE\tError\tHTTP/2.0\t-\t-\t11040\t0.001\tCapacityExceeded\ttext/html\t78\t-\t-",
        Format::Cloudfront,
        Responder::Cloudfront,
        LimitType::Overload,
        Tri::No,
    ),
    (
        r#"{"EdgeStartTimestamp":"2026-11-29T22:27:33Z","EdgeEndTimestamp":"2026-11-29T22:27:34Z","RayID":"8f2a","ClientRequestMethod":"GET","ClientRequestHost":"api.example.com","ClientRequestPath":"/v1/a","ClientRequestSource":"eyeball","EdgeResponseStatus":429,"OriginResponseStatus":0,"EdgeServerIP":"","CacheCacheStatus":"unknown","SecuritySources":["firewallCustom","rateLimit"],"SecurityActions":["log","block"]}"#,
        Format::Cloudflare,
        Responder::Cloudflare,
        LimitType::Rate,
        Tri::No,
    ),
];

#[test]
fn a_line_of_each_product_is_found_out_and_says_who_answered() {
    for (text, format, who, limit, reached) in LINES {
        assert_eq!(detect(text.as_bytes()), Some(*format), "{text}");
        for named in [None, Some(*format)] {
            let verdict = judged(named, text);
            assert_eq!(verdict.returned_by, *who, "{text}\n{verdict:#?}");
            assert_eq!(verdict.limit_type, *limit, "{text}\n{verdict:#?}");
            assert_eq!(verdict.reached_origin, *reached, "{text}\n{verdict:#?}");
            // Behind every known hop is no proof; what a product says of itself is.
            let certain = verdict.outcome == Certainty::Certain;
            assert_eq!(certain, *who != Responder::Origin, "{text}\n{verdict:#?}");
            assert!(verdict.confidence >= 0.5 || *who == Responder::Unknown, "{text}");
        }
    }
}

#[test]
fn a_line_that_all_write_alike_names_nobody() {
    let combined = r#"192.0.2.1 - alice [29/Nov/2026:22:27:33 +0100] "GET /v1/a?key=1 HTTP/1.1" 429 345 "-" "curl \"7\"""#;
    assert_eq!(detect(combined.as_bytes()), Some(Format::Combined));
    let record = parse(None, combined.as_bytes()).unwrap();
    assert_eq!(record.at, UnixMillis::parse_rfc3339("2026-11-29T21:27:33Z"));
    assert_eq!((record.facts.status, record.path.as_deref()), (Some(429), Some("/v1/a")));
    for format in [Format::Nginx, Format::Apache, Format::Combined] {
        assert_eq!(judged(Some(format), combined).returned_by, Responder::Unknown, "{format}");
    }
}

#[test]
fn ids_hosts_paths_and_times_are_read() {
    let of = |text: &str| parse(None, text.as_bytes()).unwrap();
    let find = |format: Format| {
        let (text, ..) = LINES.iter().find(|(_, f, ..)| *f == format).unwrap();
        of(text)
    };
    let kong = find(Format::Kong);
    assert_eq!(kong.request_id.as_deref(), Some("c1"));
    assert_eq!(kong.gateway_request_id.as_deref(), Some("f1"));
    assert_eq!(
        (kong.host.as_deref(), kong.path.as_deref()),
        (Some("api.example.com"), Some("/v1/a"))
    );
    assert_eq!(kong.retry_after.as_deref(), Some("60"));
    let caddy = find(Format::Caddy);
    assert_eq!(caddy.duration_ms, Some(250));
    assert_eq!(caddy.at, Some(UnixMillis(1_795_991_265_418)), "the start, not the end");
    let balancer = find(Format::AwsAlb);
    assert_eq!(balancer.trace_id.as_deref(), Some("5833726236d228ad5d99923122bbe354"));
    assert_eq!(balancer.host.as_deref(), Some("api.example.com"));
    assert_eq!(balancer.client_address.as_deref(), Some("192.0.2.131"));
    let apache = find(Format::Apache);
    assert_eq!(apache.path.as_deref(), Some("/café"));
    assert_eq!(apache.at, UnixMillis::parse_rfc3339("2026-11-29T22:27:33.258Z"));
    let nginx = find(Format::Nginx);
    assert_eq!(nginx.at, Some(UnixMillis(1_795_991_186_952)), "the milliseconds of `epoch`");
    let cloudflare = find(Format::Cloudflare);
    assert_eq!(cloudflare.duration_ms, Some(1000));
    let traced = of(
        r#"{"gateway":"envoy","status":429,"response_flags":"RL","code_details":"local_rate_limited","traceparent":"00-BFA3a3e0337f46bc8d53969081042e63-657cf9ab72324664-01"}"#,
    );
    assert_eq!(traced.trace_id.as_deref(), Some("bfa3a3e0337f46bc8d53969081042e63"));
    assert_eq!(traced.span_id.as_deref(), Some("657cf9ab72324664"));
}

#[test]
fn broken_lines_are_read_as_far_as_they_go() {
    let cut = r#"{"gateway":"haproxy","status":429,"term_state":"PR","server":"<NOSRV>","upstream_status":"-","path":"/a,b","retry_a"#;
    let record = parse(None, cut.as_bytes()).unwrap();
    assert!(record.is_cut);
    assert_eq!(record.path.as_deref(), Some("/a,b"));
    assert_eq!(judged(None, cut).returned_by, Responder::Haproxy);
    let mut bytes =
        br#"{"gateway":"nginx","status":"429","limit_req_status":"REJECTED","path":"/"#.to_vec();
    bytes.extend([0xff, 0xfe]);
    bytes.extend(br#"a"}"#);
    let record = parse(None, &bytes).unwrap();
    assert_eq!(record.path.as_deref(), Some("/\u{fffd}\u{fffd}a"));
    assert_eq!(record.facts.status, Some(429), "a number as text");
    let quoted = r#"{"gateway":"apache","status":429,"path":"/a\x22b\\x","upstream_status":"-"}"#;
    assert_eq!(parse(None, quoted.as_bytes()).unwrap().path.as_deref(), Some("/a\"b\\x"));
}

/// As nginx writes a client that closed early, and others write that there is no value.
#[test]
fn a_bare_status_that_is_no_json_is_read_as_no_status() {
    for (line, status) in [
        (r#"{"gateway":"nginx","status":000,"upstream_status":"","path":"/a"}"#, None),
        (r#"{"gateway":"nginx","status": 000 , "upstream_header_s":0.001, -,"path":"/a"}"#, None),
        (r#"{"path":"/a","gateway":"apache","upstream_status":-,"status":-}"#, None),
        (
            r#"{"gateway":"haproxy","path":"/a","status":-1,"t_connect_ms":,"term_state":"CR"}"#,
            None,
        ),
        (
            r#"{"gateway":"nginx","path":"/a","status":429,"duration_s":00.5,"limit_req_status":""}"#,
            Some(429),
        ),
    ] {
        let record = parse(None, line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(record.facts.status, status, "{line}");
        assert_eq!(record.path.as_deref(), Some("/a"), "{line}");
    }
    let tries = r#"{"gateway":"nginx","status":000,"upstream_header_s":0.001, -}"#;
    let record = parse(None, tries.as_bytes()).unwrap();
    assert_eq!(record.facts.get("upstream_header_s"), Some("0.001, -"));
    // Inside of a string nothing is changed, and what is no number stays a mistake.
    let quoted = r#"{"gateway":"nginx","status":000,"path":"/a:000,\\"}"#;
    assert_eq!(parse(None, quoted.as_bytes()).unwrap().path.as_deref(), Some("/a:000,\\"));
    for wrong in
        [r#"{"gateway":"nginx","status":oops,"path":"/a"}"#, r#"{"gateway":"nginx","status":042}"#]
    {
        assert!(parse(None, wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn a_key_that_stands_twice_makes_the_line_untrusted() {
    let line = r#"{"gateway":"trafficserver","request_id":"x","status":200,"x":"y","status":429,"upstream_status":"000","cache_result":"TCP_MISS"}"#;
    let error = parse(None, line.as_bytes()).unwrap_err();
    assert!(error.reason.contains("`status`") && error.reason.contains("twice"), "{error}");
}

#[test]
fn the_line_inside_of_what_a_shipper_wraps_it_in_is_read() {
    let (line, format, who, ..) = LINES[0];
    let json = serde_json::to_string(line).unwrap();
    for wrapped in [
        format!(r#"{{"log":{json},"stream":"stdout","time":"2026-11-29T22:26:27Z"}}"#),
        format!(r#"{{"message":{json},"host":"node-1","timestamp":"2026-11-29T22:26:27Z"}}"#),
        format!("2026-11-29T22:26:27.1Z stdout F {line}"),
        format!("<134>Nov 29 22:26:27 node-1 nginx: {line}"),
    ] {
        assert_eq!(detect(wrapped.as_bytes()), Some(format), "{wrapped}");
        assert_eq!(judged(None, &wrapped).returned_by, who, "{wrapped}");
    }
}

#[test]
fn names_that_people_use_find_their_format() {
    for (name, format) in [
        ("istio", Some(Format::Envoy)),
        ("envoy-text", Some(Format::Envoy)),
        ("haproxy-http", Some(Format::Haproxy)),
        ("nginx/1.22.1", Some(Format::Nginx)),
        ("nginx-error", Some(Format::NginxError)),
        ("aws_apigateway", Some(Format::AwsApiGateway)),
        ("ALB", Some(Format::AwsAlb)),
        ("traefik-json", Some(Format::Traefik)),
        ("json", None),
        ("", None),
        ("---json", None),
    ] {
        assert_eq!(Format::named(name), format, "{name}");
    }
}

#[test]
fn a_line_of_another_product_is_refused_by_name_and_comments_are_no_mistakes() {
    let (nginx, ..) = LINES[0];
    let error = parse(Some(Format::Haproxy), nginx.as_bytes()).unwrap_err();
    assert_eq!(error.reason, "the line is one of nginx, not of haproxy");
    for text in ["", "   ", "#Version: 1.0"] {
        assert!(parse(None, text.as_bytes()).unwrap_err().is_comment, "{text}");
    }
    for text in ["hello", "{}", "[1]", "{\"a\":", "429"] {
        assert!(!parse(None, text.as_bytes()).unwrap_err().is_comment, "{text}");
    }
}

#[test]
fn an_answer_that_haproxy_passed_on_or_made_itself_was_taken_for_the_other() {
    use Responder::{Haproxy, Origin};
    for (server, times, status, state, who, reached) in [
        // The answer had begun, whoever ended it.
        ("app/s1", "0/0/0/2/30", 429, "PD--", Origin, Tri::Yes),
        ("app/s1", "0/0/0/2/30", 429, "KD--", Origin, Tri::Yes),
        ("app/s1", "0/0/0/2/30", 429, "CL--", Origin, Tri::Yes),
        ("app/s1", "0/0/0/2/30", 429, "cD--", Origin, Tri::Yes),
        // The request was on its way, and nothing had come back.
        ("app/s1", "0/0/0/-1/30", 400, "CD--", Haproxy, Tri::Yes),
        ("app/s1", "0/0/0/-1/30", 502, "SD--", Haproxy, Tri::Yes),
        ("app/s1", "0/0/0/-1/3000", 504, "sH--", Haproxy, Tri::Yes),
        // A part of HAProxy stands in the server's place.
        ("api/<CACHE>", "0/0/0/0/0", 429, "----", Haproxy, Tri::No),
        ("api/<STATS>", "0/0/0/0/0", 503, "LR--", Haproxy, Tri::No),
        ("api/<lua.limit>", "0/0/0/0/0", 429, "----", Haproxy, Tri::No),
        ("api/<NOSRV>", "0/-1/-1/-1/0", 429, "LR--", Haproxy, Tri::No),
    ] {
        let text = format!(
            "192.0.2.7:38088 [01/Dec/2026:01:54:22.229] api {server} {times} {status} 51 - - \
             {state} 1/1/0/0/0 0/0 \"GET /a HTTP/1.1\""
        );
        let verdict = judged(None, &text);
        assert_eq!((verdict.returned_by, verdict.reached_origin), (who, reached), "{text}");
        assert_eq!(verdict.outcome == Certainty::Certain, who == Haproxy, "{text}");
        assert_eq!(verdict.hidden_retries, Some(0), "{text}");
    }
    let json = r#"{"gateway":"haproxy","epoch":1795991217.958,"path":"/a","status":429,"upstream_status":"429","server":"<CACHE>","term_state":"--","retries":"0","t_connect_ms":0}"#;
    let verdict = judged(None, json);
    assert_eq!((verdict.returned_by, verdict.limit_type), (Haproxy, LimitType::Cached));
}

#[test]
fn what_a_product_says_without_a_word_for_it_was_lost_or_taken_for_too_much() {
    let traefik = |more: &str| {
        format!(
            r#"{{"RequestMethod":"GET","RequestPath":"/a","RequestHost":"api.example.com","DownstreamStatus":429,"Duration":1873000,"RouterName":"web@file","RetryAttempts":0,"StartUTC":"2026-11-29T22:27:33.258Z"{more}}}"#
        )
    };
    // All of the time was its own.
    let verdict = judged(None, &traefik(r#","Overhead":1873000"#));
    assert_eq!((verdict.returned_by, verdict.reached_origin), (Responder::Traefik, Tri::No));
    for more in ["", r#","Overhead":73000"#] {
        assert_eq!(judged(None, &traefik(more)).outcome, Certainty::Unknown, "{more}");
    }
    // No server to ask.
    let alone = traefik(r#","OriginStatus":503"#).replace(":429", ":503");
    assert_ne!(judged(None, &alone).returned_by, Responder::Origin);

    let envoy = r#"{"start_time":"2026-11-29T22:27:12.901Z","method":"GET","path":"/a","response_code":429,"response_flags":"FI","response_code_details":"fault_filter_abort","upstream_host":null}"#;
    let verdict = judged(None, envoy);
    assert_eq!((verdict.returned_by, verdict.limited), (Responder::Envoy, false));

    let cloudfront = |status: u16| {
        let (text, ..) = LINES.iter().find(|(_, f, ..)| *f == Format::Cloudfront).unwrap();
        text.replace("\t503\t", &format!("\t{status}\t")).replace("CapacityExceeded", "OriginError")
    };
    assert_eq!(judged(None, &cloudfront(502)).returned_by, Responder::Cloudfront);
    assert_eq!(judged(None, &cloudfront(429)).outcome, Certainty::Unknown);
}

#[test]
fn haproxys_stock_line_says_that_the_last_try_went_elsewhere() {
    let line = |server: &str, times: &str, status: u16, state: &str, retries: &str| {
        format!(
            "192.0.2.7:38088 [01/Dec/2026:01:54:22.229] api app/{server} {times} {status} 51 - - \
             {state} 1/1/0/0/{retries} 0/0 \"GET /a HTTP/1.1\""
        )
    };
    for (server, times, status, state, retries, reached) in [
        ("live", "0/0/5/0/5", 429, "----", "+1", Tri::Yes),
        // A server before this one may have answered.
        ("dead", "0/1/-1/-1/2", 503, "SC--", "+2", Tri::Unknown),
        // The same dead server three times over.
        ("dead", "0/0/-1/-1/3008", 503, "SC--", "3", Tri::No),
    ] {
        let text = line(server, times, status, state, retries);
        let record = parse(None, text.as_bytes()).unwrap();
        assert_eq!(record.facts.value("server"), Some(server), "{text}");
        assert_eq!(record.facts.value("retries"), Some(retries), "{text}");
        let verdict = judged(None, &text);
        assert_eq!(verdict.reached_origin, reached, "{text}");
        let resent: u32 = retries.trim_start_matches('+').parse().unwrap();
        assert_eq!(verdict.hidden_retries, Some(resent), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [None].into_iter().chain(Format::ALL.iter().copied().map(Some)) {
            if let Ok(record) = parse(format, &bytes) {
                prop_assert!(record.facts.fields.iter().all(|(_, value)| value.len() <= MAX_FIELD));
            }
        }
        detect(&bytes);
    }

    #[test]
    fn no_damage_to_a_real_line_makes_a_parser_panic(
        line in prop::sample::select(LINES),
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        new in any::<u8>(),
    ) {
        let mut bytes = line.0.as_bytes().to_vec();
        let place = at.index(bytes.len());
        bytes[place] = new;
        bytes.truncate(cut.index(bytes.len()) + 1);
        for format in [None, Some(line.1)] {
            if let Ok(record) = parse(format, &bytes) {
                let mut response = Answer::default();
                record.fill(&mut response);
                response.logs = Trail { hops: vec![vec![record.facts]], origin: None };
                classify(&response);
            }
        }
    }
}

/// What a line says of one symptom: who answered, how sure, and whether the request went on.
type Symptom<'a> = (&'a str, &'a str, Responder, Option<Certainty>, Tri);

#[test]
fn contact_that_a_line_shows_is_not_denied_by_another_of_its_fields() {
    let limiter = "the limiter refused; a page for it may have come from any upstream";
    let other = "another status than the one behind: made by the gateway, after contact";
    let gone = "the client went away: nobody returned this";
    let certain = Some(Certainty::Certain);
    let cases: &[Symptom<'_>] = &[
        (
            "a variable that no backend sets is no proof that no server was asked",
            r#"{"gateway":"haproxy","status":429,"upstream_status":"-","server":"s1","term_state":"--","t_connect_ms":0,"t_response_ms":1}"#,
            Responder::Origin,
            None,
            Tri::Yes,
        ),
        (
            "the same with an answer that HAProxy denied",
            r#"{"gateway":"haproxy","status":429,"upstream_status":"-","server":"s1","term_state":"PH","t_connect_ms":0,"t_response_ms":1}"#,
            Responder::Haproxy,
            Some(Certainty::Likely),
            Tri::Yes,
        ),
        (
            "no server, no contact",
            r#"{"gateway":"haproxy","status":429,"upstream_status":"-","server":"<NOSRV>","term_state":"PR","t_connect_ms":-1,"t_response_ms":-1}"#,
            Responder::Haproxy,
            certain,
            Tri::No,
        ),
        (
            "a server that did not answer",
            r#"{"gateway":"haproxy","status":504,"upstream_status":"-","server":"s1","term_state":"sH","t_connect_ms":0,"t_response_ms":-1}"#,
            Responder::Haproxy,
            certain,
            Tri::Yes,
        ),
        (
            "a status with its words",
            r#"{"gateway":"apache","status":429,"upstream_status":"429 Too Many Requests","upstream_source_port":"45990"}"#,
            Responder::Origin,
            None,
            Tri::Yes,
        ),
        (
            limiter,
            r#"{"gateway":"nginx","status":429,"upstream_addr":"127.0.0.1:17901","upstream_status":"429","upstream_connect_s":"0.000","upstream_header_s":"0.001","limit_req_status":"REJECTED"}"#,
            Responder::Nginx,
            certain,
            Tri::Unknown,
        ),
        (
            limiter,
            r#"{"gateway":"varnish","status":429,"upstream_status":"200","limiter":"vsthrottle","handling":"miss"}"#,
            Responder::Varnish,
            certain,
            Tri::Unknown,
        ),
        (
            limiter,
            r#"{"gateway":"apache","status":429,"upstream_status":"200","upstream_source_port":"45990","limiter":"modsec_ip_reqs"}"#,
            Responder::Apache,
            certain,
            Tri::Unknown,
        ),
        (
            limiter,
            r#"{"gateway":"workerd","status":429,"upstream_status":"200","upstream_attempts":1,"limiter":"rate"}"#,
            Responder::Workerd,
            certain,
            Tri::Unknown,
        ),
        (
            "a limiter, and a group of upstreams without a live server",
            r#"{"gateway":"nginx","status":429,"upstream_addr":"busy","upstream_status":"502","upstream_connect_s":"-","upstream_header_s":"-","limit_req_status":"REJECTED"}"#,
            Responder::Nginx,
            certain,
            Tri::No,
        ),
        (
            other,
            r#"{"gateway":"varnish","status":429,"upstream_status":"503","handling":"synth"}"#,
            Responder::Varnish,
            certain,
            Tri::Yes,
        ),
        (
            other,
            r#"{"EdgeResponseStatus":429,"OriginResponseStatus":200,"EdgeServerIP":"192.0.2.9","RayID":"8f0","EdgeStartTimestamp":"2026-11-29T22:26:26Z"}"#,
            Responder::Cloudflare,
            Some(Certainty::Likely),
            Tri::Yes,
        ),
        (
            other,
            r#"{"DownstreamStatus":429,"OriginStatus":200,"RouterName":"web@file","ServiceAddr":"192.0.2.9:80","StartUTC":"2026-11-29T22:26:26Z"}"#,
            Responder::Traefik,
            Some(Certainty::Likely),
            Tri::Yes,
        ),
        (
            "no service was asked",
            r#"{"DownstreamStatus":502,"OriginStatus":502,"RouterName":"web@file","Duration":0,"StartUTC":"2026-11-29T22:26:26Z"}"#,
            Responder::Unknown,
            None,
            Tri::Unknown,
        ),
        (
            gone,
            r#"{"gateway":"nginx","status":499,"upstream_addr":"127.0.0.1:17901","upstream_status":"-","upstream_connect_s":"0.000","upstream_header_s":"-","limit_req_status":""}"#,
            Responder::Unknown,
            Some(Certainty::Unknown),
            Tri::Unknown,
        ),
        (
            "a 499 that the upstream sent",
            r#"{"gateway":"nginx","status":499,"upstream_addr":"127.0.0.1:17901","upstream_status":"499","upstream_connect_s":"0.000","upstream_header_s":"0.001","limit_req_status":""}"#,
            Responder::Origin,
            None,
            Tri::Yes,
        ),
    ];
    for (symptom, line, who, outcome, reached) in cases {
        let verdict = judged(None, line);
        assert_eq!(verdict.returned_by, *who, "{symptom}: {line}\n{verdict:#?}");
        assert_eq!(verdict.reached_origin, *reached, "{symptom}: {line}\n{verdict:#?}");
        if let Some(outcome) = outcome {
            assert_eq!(verdict.outcome, *outcome, "{symptom}: {line}\n{verdict:#?}");
        }
    }
}

#[test]
fn a_line_in_an_envelope_of_syslog_or_of_a_shipper_that_read_it_is_unwrapped() {
    let inner = r#"{"gateway":"nginx","status":503,"upstream_addr":"","upstream_status":"","limit_req_status":"REJECTED"}"#;
    let wrapped = [
        format!("<190>1 2026-11-30T09:56:40.123Z host nginx 12 - - {inner}"),
        format!("<190>1 - - - - - - {inner}"),
        format!(r#"<190>1 2026-11-30T09:56:40Z host nginx 12 - [x y="z"] {inner}"#),
        format!(r#"<190>1 2026-11-30T09:56:40Z host nginx 12 id [x@1 y="\] \" z"][q] {inner}"#),
        format!(r#"{{"log":{inner},"stream":"stdout"}}"#),
        format!(r#"{{"message":{inner}}}"#),
    ];
    for line in wrapped {
        assert_eq!(detect(line.as_bytes()), Some(Format::Nginx), "{line}");
        for format in [None, Some(Format::Nginx)] {
            assert_eq!(judged(format, &line).returned_by, Responder::Nginx, "{line}");
        }
    }
    for broken in [
        format!("<190>1 2026-11-30T09:56:40Z host {inner}"),
        format!(r#"<190>1 - - - - - [x y="z {inner}"#),
    ] {
        assert!(parse(None, broken.as_bytes()).is_err(), "{broken}");
    }
}
