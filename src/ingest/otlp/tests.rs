//! What exporters send and what they ought not to.

use super::*;
use crate::domain::event::AttemptError;
use crate::domain::spans::{Role, SpanKey};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value as Any,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value as Json, json};

const TRACE: &str = "3977efb7308ec17db38e76032ef278b4";
const SPAN: &str = "ea48206a22e3b870";

fn read(body: &[u8], encoding: Encoding) -> Result<Decoded, DecodeError> {
    let hasher = KeyHasher::new(b"test");
    traces(
        body,
        encoding,
        &Options {
            hasher: &hasher,
            max_items: 100,
            ourselves: Some(("retrylens", "this-process")),
        },
    )
}

fn read_json(body: &Json) -> Decoded {
    read(body.to_string().as_bytes(), Encoding::Json).unwrap()
}

/// A client's span with these attributes, its fields replaced by those of `changes`.
fn span(attributes: &Json, changes: &Json) -> Json {
    let list: Vec<Json> = attributes
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Json::String(text) => json!({ "stringValue": text }),
                Json::Number(number) => json!({ "intValue": number.to_string() }),
                other => other.clone(),
            };
            json!({ "key": key, "value": value })
        })
        .collect();
    let mut span = json!({
        "traceId": TRACE, "spanId": SPAN, "kind": 3, "name": "GET",
        "startTimeUnixNano": "1795988731480595525", "endTimeUnixNano": 1_795_988_731_483_451_632_u64,
        "attributes": list, "status": {"code": 2},
    });
    for (name, value) in changes.as_object().unwrap() {
        span[name] = value.clone();
    }
    span
}

fn request(spans: &[Json]) -> Json {
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": "shop"}},
            {"key": "telemetry.sdk.language", "value": {"stringValue": "python"}}]},
        "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans}]}]})
}

#[test]
fn spans_of_this_very_process_are_passed_over() {
    let of = |service: &str, instance: &str| {
        json!({"resourceSpans": [{
            "resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": service}},
                {"key": "service.instance.id", "value": {"stringValue": instance}}]},
            "scopeSpans": [{"spans": [span(&usual(), &json!({}))]}]}]})
    };
    for (service, instance, kept) in
        [("retrylens", "this-process", 0), ("retrylens", "another", 1), ("shop", "this-process", 1)]
    {
        let decoded = read_json(&of(service, instance));
        assert_eq!((decoded.spans.len(), decoded.rejected), (kept, 0), "{service} {instance}");
    }
}

fn usual() -> Json {
    json!({"http.request.method": "GET", "http.response.status_code": 429,
           "url.full": "https://user:pass@api.example.com/v1/items/42?token=abc"})
}

#[test]
fn a_clients_span_becomes_an_event_without_secrets() {
    let mut attributes = usual();
    attributes["http.request.header.authorization"] = json!("Bearer sk-live-0123456789abcdefghij");
    attributes["http.request.header.idempotency_key"] = json!("order-7f1c");
    attributes["http.response.header.retry_after"] = json!("7");
    attributes["http.response.header.set_cookie"] = json!("sid=0123456789abcdef");
    attributes["http.response.header.cf-ray"] = json!("8f2a-GRU");
    let read = read_json(&request(&[span(&attributes, &json!({}))]));
    let kept = &read.spans[0];
    let attempt = kept.attempt.as_deref().unwrap();
    let event = &attempt.event;
    assert_eq!(event.event_id, format!("{TRACE}:{SPAN}"));
    assert_eq!(
        (event.host.as_str(), event.route.as_deref()),
        ("api.example.com", Some("/v1/items/{id}"))
    );
    assert_eq!(attempt.path.as_deref(), Some("/v1/items/42"));
    assert_eq!((event.status, event.error), (Some(429), None));
    assert_eq!(event.occurred_at.0, 1_795_988_731_480);
    assert_eq!(event.retry_after.as_deref(), Some("7"));
    assert_eq!(attempt.promised_ms, Some(7_000));
    assert_eq!(event.ray_id.as_deref(), Some("8f2a-GRU"));
    assert!(event.key_hash.as_deref().is_some_and(|hash| hash.starts_with("hmac-sha256:")));
    assert_eq!(attempt.shared_id, event.idempotency_key_hash);
    assert_eq!(event.count, 1);
    assert_eq!(kept.neighbourhood().as_deref(), Some("GET api.example.com shop"));
    let text = serde_json::to_string(kept).unwrap();
    for secret in ["sk-live", "0123456789abcdef", "pass@", "token=abc", "order-7f1c"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn what_exporters_write_otherwise_is_read_all_the_same() {
    let lenient = json!({
        "parentSpanId": null, "events": null, "status": null, "links": null, "flags": "257",
        "kind": "SPAN_KIND_CLIENT", "traceId": TRACE.to_uppercase(), "unknownField": {"a": [1]},
        "attributes": [
            {"key": "http.request.method", "value": {"stringValue": "GET"}},
            {"key": "url.full", "value": {"stringValue": "http://api.example.com/a"}},
            {"key": "http.response.status_code", "value": {"stringValue": "503"}},
            {"key": "http.response.header.retry-after", "value": {"arrayValue": {}}},
            {"key": "http.response.header.date", "value": {"arrayValue": {"values": [
                {"stringValue": "Sun"}, {"stringValue": "29 Nov 2026 21:45:31 GMT"}]}}},
            {"key": "x", "value": {"doubleValue": "NaN"}},
            {"key": "y", "value": null},
            {"key": null, "value": {"intValue": "1"}},
        ],
    });
    let read = read_json(&request(&[span(&json!({}), &lenient)]));
    assert_eq!(read.problems, Vec::<String>::new());
    let event = &read.spans[0].attempt.as_deref().unwrap().event;
    assert_eq!(event.status, Some(503));
    assert_eq!(event.retry_after, None);
    assert_eq!(event.headers, [("date".to_owned(), "Sun, 29 Nov 2026 21:45:31 GMT".to_owned())]);
    for empty in ["{}", r#"{"resourceSpans":null}"#, r#"{"resourceSpans":[{"scopeSpans":null}]}"#] {
        assert!(super::tests::read(empty.as_bytes(), Encoding::Json).unwrap().spans.is_empty());
    }
}

#[test]
fn a_bad_span_costs_itself_and_is_named() {
    let good = span(&usual(), &json!({}));
    let table = [
        (json!({"traceId": "3977"}), "span ea48206a22e3b870: trace_id: expected 16 bytes, got 2"),
        (json!({"spanId": ""}), "span 1: span_id: missing: expected 8 bytes"),
        (json!({"spanId": "0000000000000000"}), "span_id: expected an id that is not zero"),
        (json!({"parentSpanId": "zz"}), "parentSpanId: expected 16 hexadecimal digits"),
        (json!({"startTimeUnixNano": "-5"}), "startTimeUnixNano: expected nanoseconds"),
        (json!({"startTimeUnixNano": 0}), "attributes: occurred_at: expected a time"),
        (json!({"traceId": "OXfvtzCOwX2zjnYDLvJ4tA=="}), "trace_id: expected 16 bytes"),
    ];
    for (changes, expected) in table {
        let read = read_json(&request(&[span(&usual(), &changes), good.clone()]));
        assert_eq!((read.spans.len(), read.rejected), (1, 1), "{changes}");
        assert!(read.problems[0].contains(expected), "{} lacks {expected}", read.problems[0]);
    }
    let read = read_json(&request(&[json!("no span"), json!(null), good]));
    assert_eq!((read.spans.len(), read.rejected), (1, 2));
}

#[test]
fn roles_decide_what_is_kept() {
    let table = [
        (usual(), 3, Role::Attempt, true),
        (usual(), 2, Role::Server, true),
        (usual(), 1, Role::Context, false),
        (json!({"http.request.method": "GET"}), 3, Role::Context, false),
        (json!({"gen_ai.system": "openai"}), 3, Role::Sdk, false),
        (json!({"gen_ai.system": "openai", "error.type": "RateLimitError"}), 3, Role::Sdk, true),
        (
            json!({"rpc.system": "aws-api", "server.address": "dynamodb.example.com",
                   "http.status_code": 200, "retry_attempts": 2}),
            3,
            Role::Sdk,
            true,
        ),
    ];
    for (attributes, kind, role, has_attempt) in table {
        let read = read_json(&request(&[span(&attributes, &json!({ "kind": kind }))]));
        let kept = &read.spans[0];
        assert_eq!((kept.role, kept.attempt.is_some()), (role, has_attempt), "{attributes}");
    }
}

#[test]
fn a_servers_span_that_does_not_say_how_it_was_called_was_dropped() {
    let base = json!({"http.request.method": "GET", "http.route": "/v1/items/:id",
                      "url.path": "/v1/items/42", "url.scheme": "http",
                      "http.response.status_code": 429});
    let table = [
        (json!({}), "shop", true),
        (json!({"net.host.name": "items.example.com"}), "items.example.com", false),
        (json!({"http.host": "items.example.com:8080"}), "items.example.com:8080", false),
        (json!({"http.request.header.host": "items.example.com"}), "items.example.com", false),
        (json!({"server.address": "items.example.com"}), "items.example.com", false),
    ];
    for (more, host, is_stood_in) in table {
        let mut attributes = base.clone();
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = read_json(&request(&[span(&attributes, &json!({"kind": 2}))]));
        assert_eq!(read.rejected, 0, "{:?}", read.problems);
        let kept = &read.spans[0];
        let attempt = kept.attempt.as_deref().unwrap();
        assert_eq!((kept.role, attempt.event.host.as_str()), (Role::Server, host), "{more}");
        assert_eq!(attempt.is_named_after_service, is_stood_in, "{more}");
        assert_eq!(attempt.event.status, Some(429));
        assert_eq!(attempt.event.route.as_deref(), Some("/v1/items/:id"));
    }
}

#[test]
fn a_service_with_an_odd_name_keeps_its_servers_spans() {
    let mut body = request(&[span(
        &json!({"http.request.method": "GET", "http.response.status_code": 503}),
        &json!({"kind": 2}),
    )]);
    for (name, host) in [
        ("unknown_service:java", "unknown_service-java"),
        ("Orders (blue)/eu", "orders--blue--eu"),
        (" ", "unknown_service"),
    ] {
        body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"] = json!(name);
        let read = read_json(&body);
        assert_eq!(read.problems, Vec::<String>::new());
        assert_eq!(read.spans[0].attempt.as_deref().unwrap().event.host, host);
    }
}

#[test]
fn a_clients_span_that_names_nobody_was_dropped_without_a_word() {
    let nobody =
        span(&json!({"http.request.method": "GET", "http.response.status_code": 429}), &json!({}));
    let read = read_json(&request(&[nobody]));
    // It may still be the parent of others.
    assert_eq!((read.spans.len(), read.spans[0].role, read.rejected), (1, Role::Context, 1));
    assert!(read.problems[0].starts_with(&format!("span {SPAN}: attributes: no url.full")));
}

#[test]
fn calls_of_sdks_without_an_http_status_vanished() {
    let grpc = |code: Json| {
        json!({"rpc.system": "grpc", "rpc.service": "shop.Items",
                                    "server.address": "items.example.com",
                                    "rpc.grpc.status_code": code})
    };
    let model = |error: &str| json!({"gen_ai.system": "openai", "error.type": error});
    let aws = |error: &str| {
        json!({"rpc.system": "aws-api", "rpc.service": "DynamoDB",
                                   "error.type": error})
    };
    let message = |text: &str| json!({"status": {"code": 2, "message": text}});
    let fine = json!({"status": {}});
    let (limited, timeout) = (Some(429), Some(AttemptError::Timeout));
    let table = [
        (grpc(json!(8)), json!({}), "items.example.com", Some(200), None),
        (grpc(json!(0)), fine.clone(), "items.example.com", Some(200), None),
        (grpc(json!(4)), json!({}), "items.example.com", None, timeout),
        (grpc(json!(14)), json!({}), "items.example.com", Some(503), None),
        (
            grpc(json!(14)),
            message("connection refused"),
            "items.example.com",
            None,
            Some(AttemptError::Connect),
        ),
        (
            json!({"rpc.system.name": "grpc", "rpc.service": "shop.Items",
                   "rpc.response.status_code": "RESOURCE_EXHAUSTED"}),
            json!({}),
            "shop.items",
            Some(200),
            None,
        ),
        (model("RateLimitError"), json!({}), "openai", limited, None),
        (model("openai.RateLimitError"), json!({}), "openai", limited, None),
        (model("429"), json!({}), "openai", limited, None),
        (
            model("APIStatusError"),
            message("Error code: 529 - overloaded"),
            "openai",
            Some(529),
            None,
        ),
        (model("Error"), message("429 Rate limit reached"), "openai", limited, None),
        (model("APITimeoutError"), json!({}), "openai", None, timeout),
        (json!({"gen_ai.system": "openai"}), fine.clone(), "openai", Some(200), None),
        (aws("ThrottlingException"), json!({}), "dynamodb", Some(400), None),
        (
            aws("ClientError"),
            message("An error occurred (SlowDown) when calling the GetObject operation"),
            "dynamodb",
            Some(503),
            None,
        ),
        (aws("ConnectTimeoutError"), json!({}), "dynamodb", None, timeout),
    ];
    for (attributes, changes, host, status, error) in table {
        let read = read_json(&request(&[span(&attributes, &changes)]));
        let kept = &read.spans[0];
        let event = &kept.attempt.as_deref().unwrap_or_else(|| panic!("{attributes}")).event;
        let found = (kept.role, event.host.as_str(), event.status, event.error);
        assert_eq!(found, (Role::Sdk, host, status, error), "{attributes} {changes}");
        assert!(kept.neighbourhood().is_some());
    }
    // What its end was isn't told, so that none is made up.
    for attributes in [
        model("SomethingElse"),
        json!({"rpc.system": "java_rmi", "server.address": "h.example"}),
        json!({"rpc.system": "grpc", "server.address": "h.example"}),
    ] {
        let read = read_json(&request(&[span(&attributes, &json!({}))]));
        assert_eq!((read.spans[0].role, read.spans[0].attempt.is_some()), (Role::Sdk, false));
    }
}

#[test]
fn a_limit_of_grpc_is_one() {
    let attributes = json!({"rpc.system": "grpc", "server.address": "items.example.com",
                            "http.response.status_code": 200, "rpc.grpc.status_code": 8});
    let read = read_json(&request(&[span(&attributes, &json!({}))]));
    let event = &read.spans[0].attempt.as_deref().unwrap().event;
    let verdict = event.clone().with_response(crate::domain::classify::summarize);
    assert!(verdict.limited, "{verdict:?}");
    let attributes = json!({"rpc.system": "aws-api", "rpc.service": "DynamoDB",
                            "error.type": "ThrottlingException"});
    let read = read_json(&request(&[span(&attributes, &json!({}))]));
    let event = &read.spans[0].attempt.as_deref().unwrap().event;
    let verdict = event.clone().with_response(crate::domain::classify::summarize);
    assert!(verdict.limited, "{verdict:?}");
}

#[test]
fn failures_are_told_from_what_the_span_says() {
    let table = [
        (json!({"error.type": 23}), json!({}), AttemptError::Timeout),
        (json!({"error.type": "ReadTimeout"}), json!({}), AttemptError::Timeout),
        (
            json!({"error.type": "Error"}),
            json!({"events": [{"name": "exception", "attributes": [
                {"key": "exception.type", "value": {"stringValue": "ECONNRESET"}}]}]}),
            AttemptError::ConnectionReset,
        ),
        (json!({}), json!({"status": {}}), AttemptError::Cancelled),
        (json!({"error.type": "name_resolution_error"}), json!({}), AttemptError::Dns),
        (
            json!({"error.type": "ConnectError"}),
            json!({"events": [{"name": "exception", "attributes": [
                {"key": "exception.message",
                 "value": {"stringValue": "[Errno -2] Name or service not known"}}]}]}),
            AttemptError::Dns,
        ),
        (
            json!({"error.type": "System.Threading.Tasks.TaskCanceledException"}),
            json!({"status": {"code": 2, "message": "canceled due to the configured HttpClient.Timeout"}}),
            AttemptError::Timeout,
        ),
        (json!({"error.type": "ConnectError"}), json!({}), AttemptError::Connect),
        (json!({"error.type": "SomethingElse"}), json!({}), AttemptError::ConnectionReset),
        (json!({"error.cause_chain": "operation timed out"}), json!({}), AttemptError::Timeout),
    ];
    for (more, changes, expected) in table {
        let mut attributes = usual();
        attributes.as_object_mut().unwrap().remove("http.response.status_code");
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = read_json(&request(&[span(&attributes, &changes)]));
        let event = &read.spans[0].attempt.as_deref().unwrap().event;
        assert_eq!(event.error, Some(expected), "{attributes} {changes}");
    }
}

fn value(text: &str) -> AnyValue {
    AnyValue { value: Some(Any::StringValue(text.to_owned())) }
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn in_protobuf(spans: Vec<Sent>) -> Vec<u8> {
    let resource = Resource {
        attributes: vec![
            pair("service.name", value("shop")),
            pair("telemetry.sdk.language", value("python")),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope { name: "lib".to_owned(), ..InstrumentationScope::default() };
    let scope_spans = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

fn sent() -> Sent {
    let list = AnyValue { value: Some(Any::ArrayValue(ArrayValue { values: vec![value("7")] })) };
    Sent {
        trace_id: hex::decode(TRACE).unwrap(),
        span_id: hex::decode(SPAN).unwrap(),
        kind: 3,
        name: "GET".to_owned(),
        start_time_unix_nano: 1_795_988_731_480_595_525,
        end_time_unix_nano: 1_795_988_731_483_451_632,
        trace_state: "ot=th:8".to_owned(),
        attributes: vec![
            pair("http.request.method", value("GET")),
            pair("url.full", value("https://user:pass@api.example.com/v1/items/42?token=abc")),
            pair("http.response.status_code", AnyValue { value: Some(Any::IntValue(429)) }),
            pair("http.response.header.retry_after", list),
        ],
        ..Sent::default()
    }
}

#[test]
fn protobuf_and_json_say_the_same() {
    let protobuf = read(&in_protobuf(vec![sent()]), Encoding::Protobuf).unwrap();
    let mut attributes = usual();
    attributes["http.response.header.retry_after"] = json!("7");
    let json = read_json(&request(&[span(&attributes, &json!({"traceState": "ot=th:8"}))]));
    assert_eq!(protobuf.spans, json.spans);
    assert_eq!(protobuf.spans[0].attempt.as_deref().unwrap().event.count, 2);
}

#[test]
fn a_bad_span_in_protobuf_costs_itself_and_a_cut_body_everything() {
    let short = Sent { span_id: vec![1, 2], ..sent() };
    let body = in_protobuf(vec![short, sent()]);
    let decoded = read(&body, Encoding::Protobuf).unwrap();
    assert_eq!((decoded.spans.len(), decoded.rejected), (1, 1));
    assert_eq!(decoded.problems, ["span 0102: span_id: expected 8 bytes, got 2"]);
    for length in [1, 3, body.len() / 2, body.len() - 1] {
        let error = read(&body[..length], Encoding::Protobuf).unwrap_err();
        assert!(matches!(error, DecodeError::Undecodable { .. }), "{length}");
    }
    assert!(read(b"", Encoding::Protobuf).unwrap().spans.is_empty());
    for body in [&b""[..], b"{", b"[]", b"\xff", b"{\"resourceSpans\":[5]}"] {
        let error = read(body, Encoding::Json).unwrap_err();
        assert!(matches!(error, DecodeError::Undecodable { .. }), "{body:?}");
    }
}

#[test]
fn the_number_of_spans_is_capped_in_both_encodings() {
    // Empty spans cost two bytes each on the wire.
    let many = in_protobuf(vec![Sent::default(); 101]);
    assert_eq!(read(&many, Encoding::Protobuf).unwrap_err(), DecodeError::TooMany { cap: 100 });
    let many = request(&vec![json!({}); 101]).to_string();
    let error = read(many.as_bytes(), Encoding::Json).unwrap_err();
    assert_eq!(error, DecodeError::TooMany { cap: 100 });
}

#[test]
fn deep_and_wide_values_are_cut() {
    let mut deep = json!({"intValue": "1"});
    for _ in 0..20 {
        deep = json!({"arrayValue": {"values": [deep]}});
    }
    let wide = vec![json!({"stringValue": "x"}); 10_000];
    let mut attributes = usual();
    attributes["deep"] = deep;
    attributes["http.response.header.via"] = json!({"arrayValue": {"values": wide}});
    let read = read_json(&request(&[span(&attributes, &json!({}))]));
    let event = &read.spans[0].attempt.as_deref().unwrap().event;
    assert!(event.headers[0].1.len() <= 1024);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            drop(read(&bytes, encoding));
        }
    }

    #[test]
    fn no_change_of_a_byte_makes_it_panic(at in 0_usize..400, byte in any::<u8>()) {
        let mut attributes = usual();
        attributes["http.response.header.retry_after"] = json!("7");
        let json = request(&[span(&attributes, &json!({}))]).to_string().into_bytes();
        let bodies = [(json, Encoding::Json), (in_protobuf(vec![sent()]), Encoding::Protobuf)];
        for (mut body, encoding) in bodies {
            let at = at % body.len();
            body[at] = byte;
            drop(read(&body, encoding));
        }
    }
}

#[test]
fn the_key_of_a_span_is_the_id_of_its_event() {
    let kept = &read_json(&request(&[span(&usual(), &json!({}))])).spans[0];
    let key: SpanKey = kept.key;
    assert_eq!(key.to_string(), kept.attempt.as_deref().unwrap().event.event_id);
}
