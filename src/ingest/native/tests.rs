//! Bodies and items as senders make them, good and bad.

use super::*;
use crate::domain::classify::Layer;
use crate::domain::event::{AttemptError, Outcome, RetryLayer, Vantage};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn hasher() -> KeyHasher {
    KeyHasher::new(b"server key")
}

fn decode_as(body: &[u8], format: Format, raw_keys: RawKeys) -> Result<Decoded, DecodeError> {
    let hasher = hasher();
    decode(body, &DecodeOptions { hasher: &hasher, raw_keys, max_items: 100, format })
}

fn read(body: &str) -> Result<Decoded, DecodeError> {
    decode_as(body.as_bytes(), Format::Detect, RawKeys::Hash)
}

fn base() -> Value {
    json!({"occurred_at": "2026-11-11T07:29:00.120Z", "service": "checkout",
           "host": "api.example.com", "status": 429})
}

fn with(field: &str, value: Value) -> Value {
    let mut item = base();
    item[field] = value;
    item
}

fn one(item: &Value) -> Event {
    let mut decoded = read(&item.to_string()).unwrap();
    assert_eq!(decoded.rejects, [], "{item}");
    decoded.events.pop().unwrap().1
}

fn rejected(item: &Value) -> Reject {
    let mut decoded = read(&item.to_string()).unwrap();
    assert_eq!(decoded.events, [], "{item}");
    decoded.rejects.pop().unwrap()
}

#[test]
fn the_least_event_gets_the_defaults() {
    let event = one(&base());
    assert_eq!((event.attempt, event.count, event.vantage), (1, 1, Vantage::Client));
    assert_eq!((event.service.as_str(), event.host.as_str()), ("checkout", "api.example.com"));
    assert_eq!(event.occurred_at.to_rfc3339(), "2026-11-11T07:29:00.120Z");
    assert_eq!(event.event_id.len(), 64);
    assert_eq!(event.redactions, 0);
}

#[test]
fn the_whole_event_of_the_design_is_read() {
    let digest = "9d3f".repeat(16);
    let event = one(&json!({"event_id":"01JCH6X8Y4Q2V7M3N9K5R1T6B8","operation_id":"op-7f1c",
        "attempt":2,"occurred_at":"2026-11-11T07:29:00.120Z","duration_ms":84,"vantage":"client",
        "service":"checkout","environment":"prod","instance":"pod-7","retry_layer":"sdk",
        "priority":"interactive","method":"POST","host":"api.example.com",
        "route":"/v1/orders/{id}","status":429,"error":null,"retry_after":"30",
        "computed_delay_ms":30412,"delay_source":"retry-after","request_id":"req_01",
        "ray_id":"8f2a-GRU","layer":"edge","key_hash":format!("hmac-sha256:{digest}"),
        "key_kind":"api-key","idempotency_key_hash":format!("hmac-sha256:{digest}"),
        "body_hash":format!("sha256:{digest}"),
        "client_address_hash":format!("hmac-sha256:{digest}"),
        "account_hash":format!("hmac-sha256:{digest}"),"outcome":"retrying","attempts_max":5,
        "timeout_ms":3000,"deadline_ms":120_000,
        "headers":{"server":"cloudflare","date":"Wed, 11 Nov 2026 07:29:00 GMT"},
        "content_type":"text/html","error_code":"quota_exceeded","body_sample":"error code: 1015",
        "trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","count":1}));
    assert_eq!(event.redactions, 0);
    assert_eq!(event.event_id, "01JCH6X8Y4Q2V7M3N9K5R1T6B8");
    assert_eq!((event.attempt, event.duration_ms), (2, Some(84)));
    assert_eq!(event.retry_layer, Some(RetryLayer::Sdk));
    assert_eq!(event.outcome, Some(Outcome::Retrying));
    assert_eq!(event.layer, Some(Layer::Edge));
    assert_eq!(event.route.as_deref(), Some("/v1/orders/{id}"));
    assert_eq!(event.retry_after.as_deref(), Some("30"));
    assert_eq!(event.key_hash, Some(format!("hmac-sha256:{digest}")));
    assert_eq!(event.headers.len(), 2);
    assert_eq!(event.body_sample.as_deref(), Some("error code: 1015"));
    let written: Value = serde_json::to_value(&event).unwrap();
    for field in FIELDS.iter().filter(|field| !matches!(**field, "url" | "error")) {
        assert!(!written[field].is_null(), "{field} was lost");
    }
}

#[test]
fn every_shape_of_body_is_read() {
    let item = base().to_string();
    let table = [
        (item.clone(), 1),
        (format!(" \n{item}\n "), 1),
        (format!("\u{feff}{item}"), 1),
        (serde_json::to_string_pretty(&base()).unwrap(), 1),
        (format!("[{item},{item}]"), 2),
        ("[]".to_owned(), 0),
        (format!("{{\"events\":[{item},{item},{item}],\"sender\":\"x\"}}"), 3),
        (format!("{item}\n{item}\n"), 2),
        (format!("{item}\r\n\r\n{item}"), 2),
    ];
    for (body, expected) in table {
        let decoded = read(&body).unwrap();
        assert_eq!((decoded.events.len(), decoded.rejects.len()), (expected, 0), "{body}");
        assert!(decoded.events.iter().enumerate().all(|(i, (index, _))| i == *index));
    }
}

#[test]
fn a_body_that_is_no_json_is_refused_as_a_whole() {
    let item = base().to_string();
    let cut: String = item.chars().take(item.len() - 5).collect();
    for body in [cut.clone(), format!("[{item},{cut}"), "not json".to_owned(), format!("[{item}]x")]
    {
        assert!(matches!(read(&body), Err(DecodeError::NotJson { .. })), "{body}");
    }
    assert!(matches!(read("  \n"), Err(DecodeError::Empty)));
    for (body, got) in [
        (r#"{"events":{}}"#, "an object"),
        (r#"{"events":"x"}"#, "a text"),
        (r#"{"sent_by":"a","events":null}"#, "null"),
    ] {
        let error = read(body).unwrap_err().to_string();
        assert_eq!(error, format!("`events` must be a list of events, got {got}"), "{body}");
    }
    // A field of an event that has that name is an unknown field like others.
    let event = r#"{"occurred_at":"2026-11-11T07:29:00Z","service":"a","host":"h.example","status":429,"events":5}"#;
    assert_eq!(read(event).unwrap().events.len(), 1);
    assert!(matches!(read("12"), Err(DecodeError::NotEvents { got: "a number" })));
    assert!(matches!(read("[1] [2]"), Err(DecodeError::NotEvents { .. })));
    let latin: &[u8] = b"{\"service\":\"caf\xe9\"}";
    let found = decode_as(latin, Format::Detect, RawKeys::Hash);
    assert!(matches!(found, Err(DecodeError::NotUtf8 { at: 15 })), "{found:?}");
}

#[test]
fn ndjson_cut_in_mid_line_keeps_the_whole_lines() {
    let item = base().to_string();
    let cut: String = item.chars().take(40).collect();
    for format in [Format::Detect, Format::Ndjson] {
        let body = format!("{item}\n{item}\n{cut}");
        let decoded = decode_as(body.as_bytes(), format, RawKeys::Hash).unwrap();
        assert_eq!(decoded.events.len(), 2);
        assert_eq!(decoded.rejects.len(), 1);
        assert_eq!(decoded.rejects[0].index, 2);
        assert!(decoded.rejects[0].error.contains("ends early"), "{:?}", decoded.rejects);
    }
    // A first line that is bad, or not even UTF-8, needs the content type to be seen as one.
    let body =
        [b"{oops}\n", item.as_bytes(), b"\n{\"service\":\"\xff\"}\n", item.as_bytes()].concat();
    let decoded = decode_as(&body, Format::Ndjson, RawKeys::Hash).unwrap();
    let good: Vec<usize> = decoded.events.iter().map(|(index, _)| *index).collect();
    let bad: Vec<usize> = decoded.rejects.iter().map(|reject| reject.index).collect();
    assert_eq!((good, bad), (vec![1, 3], vec![0, 2]));
}

#[test]
fn one_bad_item_costs_only_itself() {
    let mut bad = base();
    bad["event_id"] = json!("evt-9");
    bad.as_object_mut().unwrap().remove("service");
    let decoded = read(&json!([base(), bad, 7, null, "x", [base()], base()]).to_string()).unwrap();
    assert_eq!(decoded.events.len(), 2);
    let first = &decoded.rejects[0];
    assert_eq!((first.index, first.event_id.as_deref()), (1, Some("evt-9")));
    assert_eq!(first.field.as_deref(), Some("service"));
    assert!(first.error.contains("expected the name of the calling service"));
    let others: Vec<&str> = decoded.rejects.iter().skip(1).map(|r| r.error.as_str()).collect();
    assert_eq!(
        others,
        [
            "expected an event as a JSON object, got a number",
            "expected an event as a JSON object, got null",
            "expected an event as a JSON object, got a text",
            "expected an event as a JSON object, got a list",
        ]
    );
}

#[test]
fn a_wrong_value_names_its_field_and_what_was_expected() {
    let table = [
        ("service", json!(""), "missing"),
        ("service", json!("  "), "missing"),
        ("service", json!({"a":1}), "expected a text, got an object"),
        ("host", json!("two words"), "expected a host name"),
        ("host", json!(null), "missing"),
        ("occurred_at", json!(null), "missing"),
        ("occurred_at", json!("yesterday"), "RFC 3339"),
        ("occurred_at", json!(1_762_846_140), "looks like seconds"),
        ("occurred_at", json!("1999-01-01T00:00:00Z"), "between the years 2000 and 2100"),
        ("occurred_at", json!("9999-12-31T23:59:59Z"), "2000 and 2100, got 9999-12-31T23:59:59Z"),
        ("occurred_at", json!("0000-02-29T00:00:00Z"), "between the years 2000 and 2100"),
        ("occurred_at", json!("9999-13-31T23:59:59Z"), "RFC 3339"),
        ("occurred_at", json!([]), "got a list"),
        ("status", json!(null), "missing: expected a status code"),
        ("status", json!("429"), "expected a status code as a number from 100 to 599, got a text"),
        ("status", json!(42), "from 100 to 599, got 42"),
        ("status", json!(429.5), "got a number with a fraction"),
        ("status", json!(70_000), "from 100 to 599, got 70000"),
        ("status", json!(1000), "from 100 to 599, got 1000"),
        ("status", json!(99), "from 100 to 599, got 99"),
        ("attempt", json!(0), "from 1 to 1000000, got 0"),
        ("attempt", json!(-1), "got -1"),
        ("count", json!(0), "from 1 to 100000000, got 0"),
        ("count", json!(1e18), "got a number beyond all bounds"),
        ("duration_ms", json!(-1), "expected milliseconds from 0"),
        ("duration_ms", json!(true), "got true or false"),
        ("error", json!("oops"), "timeout, connection-reset"),
        ("vantage", json!("server"), "client, gateway, origin"),
        ("layer", json!("cdn"), "edge, gateway, proxy"),
        ("method", json!("GET /x"), "expected an HTTP method"),
        ("headers", json!("server: x"), "expected an object of header fields"),
        ("headers", json!([["server"]]), "got a list in the list"),
        ("headers", json!({"server": {"a": 1}}), "got an object as a value"),
    ];
    for (field, value, expected) in table {
        let reject = rejected(&with(field, value.clone()));
        assert_eq!(reject.field.as_deref(), Some(field), "{field}: {value} {reject:?}");
        assert!(reject.error.contains(expected), "{field}: {value}: {}", reject.error);
    }
    let twice = r#"{"service":"a","service":"b"}"#;
    let reject = read(twice).unwrap().rejects.pop().unwrap();
    assert_eq!(
        (reject.field.as_deref(), reject.error.as_str()),
        (Some("service"), "given more than once")
    );
    let number = r#"{"service":"a","host":"h","occurred_at":1e999,"status":429}"#;
    assert_eq!(read(number).unwrap().rejects[0].field.as_deref(), Some("occurred_at"));
}

#[test]
fn what_is_only_written_differently_is_forgiven() {
    assert_eq!(
        one(&with("occurred_at", json!(1_762_846_140_120_i64))).occurred_at.0,
        1_762_846_140_120
    );
    let offset = with("occurred_at", json!("2026-11-11T08:29:00.120+01:00"));
    assert_eq!(one(&offset).occurred_at, one(&base()).occurred_at);
    assert_eq!(one(&with("duration_ms", json!(84.6))).duration_ms, Some(85));
    assert_eq!(one(&with("status", json!(429.0))).status, Some(429));
    assert_eq!(one(&with("retry_after", json!(30))).retry_after.as_deref(), Some("30"));
    assert_eq!(one(&with("request_id", json!(17))).request_id.as_deref(), Some("17"));
    assert_eq!(one(&with("method", json!("post"))).method.as_deref(), Some("POST"));
    assert_eq!(
        one(&with("outcome", json!("DEADLINE_EXCEEDED"))).outcome,
        Some(Outcome::DeadlineExceeded)
    );
    assert_eq!(one(&with("error", json!("pool-timeout"))).error, Some(AttemptError::PoolTimeout));
    assert_eq!(one(&with("operation_id", json!(""))).operation_id, None);
    assert_eq!(one(&with("host", json!("API.Example.com:443"))).host, "api.example.com");
}

#[test]
fn host_and_route_come_out_of_an_address_without_its_secrets() {
    let table = [
        ("https://API.example.com/v1/x?page=2#top", "api.example.com", "/v1/x", 0),
        ("https://api.example.com", "api.example.com", "/", 0),
        ("https://api.example.com?next=/a/b", "api.example.com", "/", 0),
        ("https://jane:pw@api.example.com:8443/v1", "api.example.com:8443", "/v1", 1),
        ("jane:pw@api.example.com:8443/v1", "api.example.com:8443", "/v1", 1),
        ("https://api.example.com/v1?api_key=abcdef", "api.example.com", "/v1", 1),
        ("http://[2001:db8::1]:80/v1", "[2001:db8::1]", "/v1", 0),
    ];
    for (url, host, route, redactions) in table {
        let mut item = with("url", json!(url));
        item.as_object_mut().unwrap().remove("host");
        let event = one(&item);
        assert_eq!(
            (event.host.as_str(), event.route.as_deref(), event.redactions),
            (host, Some(route), redactions),
            "{url}"
        );
    }
    let both = one(&with("url", json!("https://other.example/v2/y?z=1")));
    assert_eq!((both.host.as_str(), both.route.as_deref()), ("api.example.com", Some("/v2/y")));
    assert_eq!(one(&with("route", json!("/v1/x?token=abcd"))).route.as_deref(), Some("/v1/x"));
    assert_eq!(one(&base()).route, None);
}

#[test]
fn only_listed_header_fields_are_kept() {
    let event = one(&with(
        "headers",
        json!({"Server": "cloudflare", "Set-Cookie": "sid=1", "Authorization": "Bearer x",
               "X-RateLimit-Remaining": 0, "retry-after": ["30", "60"], "x-foo": "bar"}),
    ));
    let expected = [
        ("retry-after", "30"),
        ("retry-after", "60"),
        ("server", "cloudflare"),
        ("x-ratelimit-remaining", "0"),
    ];
    let mut kept: Vec<(&str, &str)> =
        event.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    kept.sort_unstable();
    assert_eq!(kept, expected);
    assert_eq!(event.retry_after.as_deref(), Some("30"));
    let pairs = json!([["Server", "a"], {"name": "Via", "value": "b"}]);
    let event = one(&with("headers", pairs));
    assert_eq!(event.headers.len(), 2);
    assert_eq!(event.headers[1], ("via".to_owned(), "b".to_owned()));
    let many: Vec<Value> = (0..500).map(|i| json!(["server", format!("n{i}")])).collect();
    let decoded = read(&with("headers", json!(many)).to_string()).unwrap();
    assert_eq!((decoded.events[0].1.headers.len(), decoded.dropped_headers), (64, 436));
}

#[test]
fn ids_that_the_answer_carries_fill_the_gaps() {
    let headers = json!({"cf-ray": "8f2a1c-GRU", "x-request-id": "req_77"});
    let event = one(&with("headers", headers.clone()));
    assert_eq!(event.ray_id.as_deref(), Some("8f2a1c-GRU"));
    assert_eq!(event.request_id.as_deref(), Some("req_77"));
    let mut named = with("headers", headers);
    named["request_id"] = json!("mine");
    assert_eq!(one(&named).request_id.as_deref(), Some("mine"));
}

#[test]
fn an_id_in_a_header_field_that_looks_secret_joins_as_anywhere_else() {
    let long = "r".repeat(400);
    for id in ["4539578763621486", "jane@example.com", &long] {
        let (named, header) = (
            one(&with("request_id", json!(id))),
            one(&with("headers", json!({"X-Request-Id": id, "CF-Ray": [id]}))),
        );
        assert_eq!(named.request_id, header.request_id, "{id}");
        assert_eq!(header.ray_id, header.request_id);
        assert_eq!(named.request_id, Some(stored_id(id, &hasher())), "a look-up finds it");
        let written = serde_json::to_string(&(named, header)).unwrap();
        assert!(!written.contains(id), "{written}");
    }
}

#[test]
fn raw_keys_are_hashed_or_refused() {
    for field in
        ["key_hash", "idempotency_key_hash", "body_hash", "client_address_hash", "account_hash"]
    {
        let item = with(field, json!("my raw value"));
        let event = one(&item);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written[field], json!(hasher().hash("my raw value")));
        assert_eq!(event.redactions, 1);
        let refused =
            decode_as(item.to_string().as_bytes(), Format::Detect, RawKeys::Refuse).unwrap();
        assert_eq!(refused.rejects[0].field.as_deref(), Some(field));
        assert!(!refused.rejects[0].error.contains("my raw value"));
    }
}

#[test]
fn a_body_is_kept_only_for_attempts_that_failed() {
    assert!(one(&with("body_sample", json!("slow down"))).body_sample.is_some());
    let mut served = with("body_sample", json!("{\"orders\":[]}"));
    served["status"] = json!(200);
    assert_eq!(one(&served).body_sample, None);
    let long = one(&with("body_sample", json!("é".repeat(5000)))).body_sample.unwrap();
    assert!(long.len() <= 2048 && long.ends_with('…'), "{}", long.len());
}

#[test]
fn a_tab_or_a_line_break_does_not_hide_a_secret() {
    for space in ["\t", "\n", "\r\n", "\u{b}", "\u{85}"] {
        let text = format!("sent Bearer{space}q7Zp2LxV9sKd4TfB");
        for field in ["error_code", "route", "priority", "body_sample"] {
            let event = one(&with(field, json!(text)));
            let kept = format!("{event:?}");
            assert!(!kept.contains("q7Zp2LxV9sKd4TfB"), "{field} with {space:?}: {kept}");
        }
    }
}

#[test]
fn a_process_or_a_service_was_taken_for_a_secret() {
    for (field, text) in [
        ("instance", "celery@host-1.internal"),
        ("instance", "celery@worker"),
        ("service", "sk-orders-gateway-v2-eu1"),
        ("route", "/api/GetUserV2ByAccountIdV3"),
        ("route", "/v1/sessions/20261130"),
    ] {
        let event = one(&with(field, json!(text)));
        assert_eq!(serde_json::to_value(&event).unwrap()[field], json!(text));
        assert_eq!(event.redactions, 0);
    }
}

#[test]
fn control_characters_never_arrive() {
    let event = one(&with("instance", json!("pod\u{0}\u{1b}[31m7")));
    assert_eq!(event.instance.as_deref(), Some("pod\u{fffd}\u{fffd}[31m7"));
    let body = one(&with("body_sample", json!("a\u{0}\nb\tc"))).body_sample;
    assert_eq!(body.as_deref(), Some("a\u{fffd}\nb\tc"));
    let lone = r#"{"service":"a","host":"h","occurred_at":"2026-11-11T07:29:00Z","status":429,
                   "instance":"\ud800","\ud800":1}"#;
    let reject = read(&format!("[{lone},{}]", base())).unwrap();
    assert_eq!(reject.events.len(), 1);
    assert_eq!(reject.rejects[0].field.as_deref(), Some("instance"));
    assert!(reject.rejects[0].error.contains("half a surrogate pair"));
    assert_eq!(reject.unknown_fields, 1);
}

#[test]
fn what_is_too_long_is_cut_and_ids_stay_apart() {
    let a = "a".repeat(65_536);
    let b = format!("{a}b");
    for field in ["event_id", "operation_id", "service", "environment", "instance", "trace_id"] {
        let (one, two) = (one(&with(field, json!(a))), one(&with(field, json!(b))));
        let (one, two) = (serde_json::to_value(one).unwrap(), serde_json::to_value(two).unwrap());
        assert!(one[field].as_str().unwrap().len() <= 200);
        if !matches!(field, "event_id") {
            continue;
        }
        assert_eq!(one[field].as_str().unwrap().len(), two[field].as_str().unwrap().len());
    }
    let (x, y) = ("a".repeat(300), format!("{}b", "a".repeat(299)));
    assert_ne!(
        one(&with("event_id", json!(x))).event_id,
        one(&with("event_id", json!(y))).event_id
    );
    let decoded = read(&with("error_code", json!("e".repeat(65_536))).to_string()).unwrap();
    assert_eq!(decoded.events[0].1.error_code.as_ref().unwrap().len(), 128);
    assert_eq!(decoded.shortened, 1);
    assert_eq!(rejected(&with("host", json!(a))).field.as_deref(), Some("host"));
}

#[test]
fn a_text_longer_than_32_kib_was_counted_twice_as_shortened() {
    let long = |unit: &str| unit.repeat(40_000 / unit.len());
    for (field, value) in [
        ("error_code", json!(long("error "))),
        ("body_sample", json!(long("a"))),
        ("operation_id", json!(long("a"))),
        ("instance", json!(long("pod "))),
        ("route", json!(long("/orders"))),
        ("url", json!(format!("https://h.example{}", long("/orders")))),
        ("headers", json!({"server": long("nginx ")})),
    ] {
        let decoded = read(&with(field, value).to_string()).unwrap();
        assert_eq!((decoded.events.len(), decoded.shortened), (1, 1), "{field}");
    }
    let mut two = with("error_code", json!(long("e")));
    two["body_sample"] = json!(long("b"));
    assert_eq!(read(&two.to_string()).unwrap().shortened, 2);
}

#[test]
fn unknown_fields_are_left_out_and_counted() {
    let mut item = with("colour", json!({"deep": [[[{}]]]}));
    item["speed"] = json!(7);
    let decoded = read(&json!([item, base()]).to_string()).unwrap();
    assert_eq!((decoded.events.len(), decoded.unknown_fields), (2, 2));
}

#[test]
fn deep_nesting_costs_neither_stack_nor_the_batch() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let item = base().to_string();
    let unknown = item.replacen('{', &format!("{{\"x\":{deep},"), 1);
    let known = item.replacen('{', &format!("{{\"headers\":{deep},"), 1);
    let decoded = read(&format!("[{unknown},{known},{item}]")).unwrap();
    assert_eq!((decoded.events.len(), decoded.rejects.len()), (2, 1));
}

#[test]
fn too_many_items_are_refused_as_a_whole() {
    let item = base().to_string();
    let list = format!("[{}]", vec![item.clone(); 101].join(","));
    let lines = vec![item; 101].join("\n");
    for body in [list, lines] {
        assert!(matches!(read(&body), Err(DecodeError::TooManyItems { cap: 100 })));
    }
}

#[test]
fn a_derived_id_depends_on_the_content_alone() {
    let a = r#"{"service":"s","host":"h","occurred_at":"2026-11-11T07:29:00Z","status":429,"headers":{"via":"1","age":"2"}}"#;
    let b = r#"{ "headers":{"Age":"2","Via":"1"}, "status":429.0, "attempt":1, "x":0,
                 "occurred_at":"2026-11-11T08:29:00+01:00","host":"H:443","service":" s "}"#;
    let id = |body: &str| read(body).unwrap().events[0].1.event_id.clone();
    assert_eq!(id(a), id(b));
    assert_ne!(id(a), id(&a.replace("429", "428")));
    // Pinned: a change of the canonical form would make re-sent events look new.
    assert_eq!(id(a), "88ac0341be4341c63248d7c28e84f748b4d5a9c0826218ff00d3f64957d55239");
}

#[test]
fn every_field_but_two_is_in_the_derived_id() {
    let whole = one(&json!({"occurred_at": "2026-11-11T07:29:00Z", "service": "s", "host": "h",
        "route": "/", "status": 429, "error": "parse", "attempt": 2, "count": 3, "event_id": "e",
        "operation_id": "o", "duration_ms": 1, "vantage": "origin", "environment": "p",
        "instance": "i", "retry_layer": "app", "priority": "p", "method": "GET",
        "retry_after": "1", "computed_delay_ms": 1, "delay_source": "x", "request_id": "r",
        "ray_id": "y", "layer": "edge", "key_hash": "md5:00ff", "key_kind": "k",
        "idempotency_key_hash": "md5:00ff", "body_hash": "md5:00ff",
        "client_address_hash": "md5:00ff", "account_hash": "md5:00ff", "outcome": "retrying",
        "attempts_max": 3, "timeout_ms": 1, "deadline_ms": 1, "headers": {"via": "1", "age": "1"},
        "content_type": "text/plain", "error_code": "c", "body_sample": "b", "trace_id": "t",
        "span_id": "s"}));
    let written = serde_json::to_value(&whole).unwrap();
    let mut sorted: std::collections::BTreeMap<String, Value> =
        written.as_object().unwrap().clone().into_iter().collect();
    assert!(sorted.values().all(|value| !value.is_null()), "fill in every field: {written}");
    sorted.remove("event_id");
    sorted.remove("redactions");
    let canonical = serde_json::to_string(&sorted).unwrap();
    assert_eq!(item::derived_id(&whole), hex::encode(Sha256::digest(canonical.as_bytes())));
}

#[test]
fn a_reject_does_not_repeat_a_secret() {
    for value in ["Bearer abcdefgh12345678", "jane.doe@example.com"] {
        for field in ["error", "vantage", "method", "occurred_at", "host", "layer"] {
            let mut item = with(field, json!(value));
            item["event_id"] = json!(value);
            item.as_object_mut().unwrap().remove("service");
            let text = serde_json::to_string(&rejected(&item)).unwrap();
            assert!(!text.contains("abcdefgh12345678") && !text.contains("jane.doe"), "{text}");
            item["service"] = json!("s");
            if let Some(reject) = read(&item.to_string()).unwrap().rejects.pop() {
                let text = serde_json::to_string(&reject).unwrap();
                assert!(!text.contains("abcdefgh12345678") && !text.contains("jane.doe"), "{text}");
            }
        }
    }
}

#[test]
fn a_looked_for_id_is_changed_as_a_stored_one() {
    let raw = "jane.doe@example.com";
    assert_eq!(one(&with("request_id", json!(raw))).request_id, Some(stored_id(raw, &hasher())));
    let long = "r".repeat(300);
    assert_eq!(one(&with("request_id", json!(long))).request_id, Some(stored_id(&long, &hasher())));
    assert_eq!(stored_id(" req_01 ", &hasher()), "req_01");
}

#[test]
fn content_types_tell_the_format() {
    let table = [
        (None, Some(Format::Detect)),
        (Some("application/json; charset=utf-8"), Some(Format::Detect)),
        (Some("application/x-ndjson"), Some(Format::Ndjson)),
        (Some("Application/JSONL"), Some(Format::Ndjson)),
        (Some("application/x-www-form-urlencoded"), Some(Format::Detect)),
        (Some("application/cloudevents+json"), Some(Format::Detect)),
        (Some("application/x-protobuf"), None),
        (Some("multipart/form-data; boundary=x"), None),
        (Some("text/html"), None),
    ];
    for (value, expected) in table {
        assert_eq!(Format::from_content_type(value), expected, "{value:?}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Detect, Format::Ndjson] {
            let _outcome = decode_as(&bytes, format, RawKeys::Hash);
        }
    }

    #[test]
    fn any_value_in_any_field_is_taken_or_rejected(
        field in proptest::sample::select(FIELDS), value in any_json()
    ) {
        let decoded = read(&with(field, value).to_string()).unwrap();
        prop_assert_eq!(decoded.events.len() + decoded.rejects.len(), 1);
        for (_, event) in &decoded.events {
            let written = serde_json::to_string(event).unwrap();
            prop_assert!(!written.contains("\\u0000"));
            // What was accepted is accepted again, unchanged.
            let again = read(&written).unwrap();
            prop_assert_eq!(again.rejects.len(), 0, "{:?}", again.rejects);
            let mut second = again.events[0].1.clone();
            second.redactions = event.redactions;
            prop_assert_eq!(&second, event);
        }
    }

    #[test]
    fn key_order_does_not_change_a_derived_id(order in Just(base()).prop_flat_map(|item| {
        let fields: Vec<(String, Value)> = item.as_object().unwrap().clone().into_iter().collect();
        Just(fields).prop_shuffle()
    })) {
        let parts: Vec<String> =
            order.iter().map(|(k, v)| format!("{}:{v}", Value::from(k.clone()))).collect();
        let decoded = read(&format!("{{{}}}", parts.join(","))).unwrap();
        prop_assert_eq!(&decoded.events[0].1.event_id, &one(&base()).event_id);
    }
}

#[test]
fn an_address_that_is_null_or_blank_is_none_however_often_its_host_comes() {
    for url in [json!(null), json!(""), json!("  ")] {
        let mut event = with("url", url.clone());
        event.as_object_mut().unwrap().insert("host".to_owned(), json!("api.example.com"));
        event.as_object_mut().unwrap().remove("route");
        let routes: Vec<Option<String>> = (0..4).map(|_| one(&event).route).collect();
        assert!(routes.iter().all(Option::is_none), "{url}: {routes:?}");
    }
    let whole = with("url", json!("https://api.example.com"));
    assert!((0..4).all(|_| one(&whole).route.as_deref() == Some("/")));
}
