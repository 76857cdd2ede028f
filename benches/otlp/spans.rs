//! Spans as instrumented HTTP clients send them, in protobuf.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value as Any,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;

/// Spans in one body: `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` is 512 by default.
const SPANS: usize = 512;
/// Services that call, and upstreams of each.
const SERVICES: usize = 40;
const UPSTREAMS: usize = 3;
/// 2026-11-29T21:45:31Z.
const START_NS: u64 = 1_795_988_731_000_000_000;

/// An export.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: usize,
}

/// Bodies with `total` spans in all, each once.
pub(crate) fn bodies(total: usize) -> Vec<Body> {
    (0..total)
        .step_by(SPANS)
        .enumerate()
        .map(|(n, from)| {
            let spans = SPANS.min(total - from);
            Body { bytes: export(n, from, spans), spans }
        })
        .collect()
}

fn export(n: usize, from: usize, count: usize) -> Vec<u8> {
    let resource = Resource {
        attributes: vec![
            text("service.name", &format!("service-{}", n % SERVICES)),
            text("service.instance.id", &format!("1f69016e-a157-4d73-ab9d-{n:012x}")),
            text("deployment.environment.name", "prod"),
            text("telemetry.sdk.language", "python"),
            text("telemetry.sdk.name", "opentelemetry"),
            text("telemetry.sdk.version", "1.45.1"),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "opentelemetry.instrumentation.httpx".to_owned(),
        version: "0.66b1".to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = (from..from + count).map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    let resource_spans =
        ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

/// Of four spans, one is refused and one is its retry a second later.
fn span(n: usize) -> Span {
    let is_refused = n.is_multiple_of(4);
    let is_retry = n % 4 == 1;
    let trace = u128::try_from(if is_retry { n - 1 } else { n } + 1).unwrap();
    let host = format!("api-{}.example.com", n % UPSTREAMS);
    let start =
        START_NS + u64::try_from(n).unwrap() * 1_000_000 + if is_retry { 1_000_000_000 } else { 0 };
    let mut attributes = vec![
        text("http.request.method", "GET"),
        text("url.full", &format!("https://{host}/v1/items/{}?page=1", trace % 1_000)),
        text("server.address", &host),
        number("server.port", 443),
        text("network.protocol.version", "1.1"),
        number("http.response.status_code", if is_refused { 429 } else { 200 }),
        list("http.response.header.date", "Sun, 29 Nov 2026 21:45:31 GMT"),
        list("http.response.header.server", "envoy"),
    ];
    if is_refused {
        attributes.push(text("error.type", "429"));
        attributes.push(list("http.response.header.retry_after", "1"));
        attributes.push(list("http.response.header.x_envoy_ratelimited", "true"));
    }
    Span {
        trace_id: (trace << 64 | 0x3977_efb7).to_be_bytes().to_vec(),
        span_id: (u64::try_from(n).unwrap() + 1).to_be_bytes().to_vec(),
        kind: 3,
        name: "GET".to_owned(),
        start_time_unix_nano: start,
        end_time_unix_nano: start + 2_856_107,
        attributes,
        status: is_refused.then(|| Status { code: 2, ..Status::default() }),
        flags: 0x101,
        ..Span::default()
    }
}

fn value(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn text(key: &str, of: &str) -> KeyValue {
    pair(key, value(Any::StringValue(of.to_owned())))
}

fn number(key: &str, of: i64) -> KeyValue {
    pair(key, value(Any::IntValue(of)))
}

fn list(key: &str, of: &str) -> KeyValue {
    let values = vec![value(Any::StringValue(of.to_owned()))];
    pair(key, value(Any::ArrayValue(ArrayValue { values })))
}
