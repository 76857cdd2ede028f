//! The messages of traces as JSON (OTLP 1.x, "JSON Protobuf Encoding"), read leniently: null stands
//! for absent, a list without `values` for an empty one, numbers may be texts, names of enums count,
//! and ids are hexadecimal in any case.

use super::metrics::{self, RawPoint};
use super::protobuf::{RawSpanParts, key_of};
use super::{DecodeError, Fault, MAX_DEPTH, MAX_PARTS, Record, Sink, sender};
use crate::domain::spans::{Attributes, Kind, RawEvent, RawSpan, SpanId, TraceId, Value};
use crate::domain::volumes::Temporality;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// The largest span, in bytes of JSON: what is read of it takes many times that.
const MAX_SPAN: usize = 1 << 20;

/// An object of which only some fields matter. Null is as good as absent.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Request<'a> {
    #[serde(borrow, rename = "resourceSpans")]
    resource_spans: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceSpans<'a> {
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow, rename = "scopeSpans")]
    scope_spans: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ScopeSpans<'a> {
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow)]
    spans: Option<Vec<&'a RawValue>>,
}

/// Reads an `ExportTraceServiceRequest`.
pub(super) fn traces(body: &[u8], sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|error| undecodable(&error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let request: Option<Request<'_>> = object(text)?;
    let all = request.and_then(|request| request.resource_spans).unwrap_or_default();
    for resource_spans in all {
        let Some(resource_spans) = object::<ResourceSpans<'_>>(resource_spans.get())? else {
            continue;
        };
        let resource = resource_spans.resource.filter(|raw| raw.get().len() <= MAX_SPAN);
        let resource = resource.map(|raw| read::<Json>(raw.get())).transpose()?;
        let sender = sender(&attributes(resource.as_ref().and_then(|r| r.get("attributes"))));
        for scope_spans in resource_spans.scope_spans.unwrap_or_default() {
            let Some(scope_spans) = object::<ScopeSpans<'_>>(scope_spans.get())? else {
                continue;
            };
            let scope = scope_spans.scope.filter(|raw| raw.get().len() <= MAX_SPAN);
            let scope = scope.map(|raw| read::<Json>(raw.get())).transpose()?;
            let scope = scope.as_ref().and_then(|s| s.get("name")).and_then(Json::as_str);
            for raw in scope_spans.spans.unwrap_or_default() {
                sink.count()?;
                sink.take(&sender, scope.unwrap_or_default(), span(raw));
            }
        }
    }
    Ok(())
}

/// An object, or nothing where it is null.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<T>, DecodeError> {
    // To serde a list would do as well.
    if text.trim_ascii_start().starts_with('[') {
        let error: serde_json::Error = serde::de::Error::custom("expected an object, got a list");
        return Err(undecodable(&error));
    }
    read(text)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(text).map_err(|error| undecodable(&error))
}

fn undecodable(error: &dyn std::error::Error) -> DecodeError {
    // What serde says may repeat what was sent, though never more than a word of it.
    let reason = crate::domain::redact::text(&error.to_string()).text;
    DecodeError::Undecodable { message: "request of OTLP", encoding: "JSON", reason }
}

/// Any of the three levels that records lie in.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LogsLevel<'a> {
    #[serde(borrow, rename = "resourceLogs")]
    resource_logs: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "scopeLogs")]
    scope_logs: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "logRecords")]
    records: Option<Vec<&'a RawValue>>,
}

/// Reads an `ExportLogsServiceRequest` record by record.
pub(super) fn logs(
    body: &[u8],
    mut take: impl FnMut(Record) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|error| undecodable(&error))?;
    let request = object::<LogsLevel<'_>>(text.trim_start_matches('\u{feff}'))?;
    for resource in request.and_then(|logs| logs.resource_logs).unwrap_or_default() {
        let resource = object::<LogsLevel<'_>>(resource.get())?;
        for scope in resource.and_then(|logs| logs.scope_logs).unwrap_or_default() {
            let scope = object::<LogsLevel<'_>>(scope.get())?;
            for raw in scope.and_then(|logs| logs.records).unwrap_or_default() {
                take(record(raw))?;
            }
        }
    }
    Ok(())
}

/// Any of the levels that data points lie in.
#[derive(Deserialize, Default)]
#[serde(default)]
struct MetricsLevel<'a> {
    #[serde(borrow, rename = "resourceMetrics")]
    resource_metrics: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow, rename = "scopeMetrics")]
    scope_metrics: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow)]
    metrics: Option<Vec<&'a RawValue>>,
}

/// A metric. Names of other shapes than a text are none that is wanted.
#[derive(Deserialize, Default)]
#[serde(default)]
struct MetricLevel<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    histogram: Option<&'a RawValue>,
    #[serde(borrow, rename = "exponentialHistogram")]
    exponential: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Histogram<'a> {
    #[serde(borrow, rename = "dataPoints")]
    points: Option<Vec<&'a RawValue>>,
    #[serde(rename = "aggregationTemporality")]
    temporality: Option<Json>,
}

/// Reads an `ExportMetricsServiceRequest` point by point, of the metrics that are wanted.
pub(super) fn metrics(body: &[u8], sink: &mut metrics::Sink<'_>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|error| undecodable(&error))?;
    let request = object::<MetricsLevel<'_>>(text.trim_start_matches('\u{feff}'))?;
    for of_resource in request.and_then(|level| level.resource_metrics).unwrap_or_default() {
        let of_resource = object::<MetricsLevel<'_>>(of_resource.get())?.unwrap_or_default();
        let resource = small(of_resource.resource)?;
        let resource = attributes(resource.as_ref().and_then(|json| json.get("attributes")));
        for of_scope in of_resource.scope_metrics.unwrap_or_default() {
            let of_scope = object::<MetricsLevel<'_>>(of_scope.get())?.unwrap_or_default();
            let scope = small(of_scope.scope)?;
            let scope = scope.as_ref().map_or("", |scope| self::text(scope, "name"));
            for raw in of_scope.metrics.unwrap_or_default() {
                metric(raw, &resource, scope, sink)?;
            }
        }
    }
    Ok(())
}

/// An object that is of use where it isn't too large.
fn small(raw: Option<&RawValue>) -> Result<Option<Json>, DecodeError> {
    raw.filter(|raw| raw.get().len() <= MAX_SPAN).map(|raw| read(raw.get())).transpose()
}

fn metric(
    raw: &RawValue,
    resource: &Attributes,
    scope: &str,
    sink: &mut metrics::Sink<'_>,
) -> Result<(), DecodeError> {
    let Some(level) = object::<MetricLevel<'_>>(raw.get())? else { return Ok(()) };
    let name = level.name.and_then(|name| serde_json::from_str::<String>(name.get()).ok());
    let Some(metric) = name.as_deref().and_then(metrics::wanted) else { return Ok(()) };
    for histogram in [level.histogram, level.exponential].into_iter().flatten() {
        let Some(histogram) = object::<Histogram<'_>>(histogram.get())? else { continue };
        let temporality = match histogram.temporality.as_ref().and_then(Json::as_str) {
            Some("AGGREGATION_TEMPORALITY_DELTA") => Some(Temporality::Delta),
            Some("AGGREGATION_TEMPORALITY_CUMULATIVE") => Some(Temporality::Cumulative),
            _ => unsigned(histogram.temporality.as_ref()).and_then(metrics::temporality),
        };
        let around = metrics::Around { resource, scope, metric, temporality };
        for raw in histogram.points.unwrap_or_default() {
            sink.count()?;
            sink.take(&around, point(raw));
        }
    }
    Ok(())
}

fn point(raw: &RawValue) -> Result<RawPoint, String> {
    if raw.get().len() > MAX_SPAN {
        return Err(format!("larger than {MAX_SPAN} bytes"));
    }
    let json: Json = serde_json::from_str(raw.get())
        .map_err(|_| "nested too deeply, or half a surrogate pair in a text".to_owned())?;
    let number = |name: &str| {
        unsigned(json.get(name)).ok_or_else(|| format!("{name}: expected a whole number"))
    };
    Ok(RawPoint {
        attributes: attributes(json.get("attributes")),
        start_ns: number("startTimeUnixNano")?,
        time_ns: number("timeUnixNano")?,
        count: number("count")?,
        flags: number("flags")?,
    })
}

fn record(raw: &RawValue) -> Record {
    let json = Some(raw.get()).filter(|text| text.len() <= MAX_SPAN);
    let json: Json = json.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let observed_ns = unsigned(json.get("observedTimeUnixNano")).unwrap_or_default();
    let record = Record {
        at_ns: unsigned(json.get("timeUnixNano")).unwrap_or_default(),
        trace: TraceId::from_hex(text(&json, "traceId")),
        body: any_value(json.get("body"), 0).text().unwrap_or_default().into_owned(),
    };
    record.or_observed(observed_ns)
}

fn span(raw: &RawValue) -> Result<RawSpan, Fault> {
    if raw.get().len() > MAX_SPAN {
        return Err(Fault::new("span", format!("larger than {MAX_SPAN} bytes")));
    }
    let json: Json = serde_json::from_str(raw.get())
        .map_err(|_| Fault::new("span", "nested too deeply, or half a surrogate pair in a text"))?;
    if !json.is_object() {
        return Err(Fault::new("span", "expected an object"));
    }
    let (trace, id) = (text(&json, "traceId"), text(&json, "spanId"));
    let key = key_of(
        TraceId::from_hex(trace),
        SpanId::from_hex(id),
        || crate::domain::redact::text(id).text,
        (trace.len().div_ceil(2), id.len().div_ceil(2)),
    )?;
    let parent = match text(&json, "parentSpanId") {
        "" => None,
        zeros if zeros.bytes().all(|b| b == b'0') => None,
        text => Some(SpanId::from_hex(text).ok_or_else(|| Fault {
            span: Some(key.span.to_string()),
            field: "parentSpanId",
            error: "expected 16 hexadecimal digits".to_owned(),
        })?),
    };
    let time = |field: &'static str| {
        unsigned(json.get(field)).ok_or_else(|| Fault {
            span: Some(key.span.to_string()),
            field,
            error: "expected nanoseconds since 1970 as a whole number".to_owned(),
        })
    };
    let status = json.get("status");
    let code = status.and_then(|status| status.get("code"));
    let parts = RawSpanParts {
        kind: kind(json.get("kind")),
        name: text(&json, "name").to_owned(),
        start_ns: time("startTimeUnixNano")?,
        end_ns: time("endTimeUnixNano")?,
        attributes: attributes(json.get("attributes")),
        events: list(json.get("events")).take(MAX_PARTS).map(event).collect(),
        is_error: code.and_then(Json::as_str) == Some("STATUS_CODE_ERROR")
            || unsigned(code) == Some(2),
        status_message: status.map_or("", |status| text(status, "message")).to_owned(),
        trace_state: text(&json, "traceState").to_owned(),
    };
    Ok(parts.finish(key, parent))
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// A number without a sign, or a text of one; absent and null are 0, anything else is `None`.
fn unsigned(json: Option<&Json>) -> Option<u64> {
    match json {
        None | Some(Json::Null) => Some(0),
        Some(Json::Number(number)) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Some(Json::String(text)) => match text.trim() {
            "" => Some(0),
            text => text.parse().ok().or_else(|| whole(text.parse().ok()?)),
        },
        _ => None,
    }
}

/// Some exporters write nanoseconds as floats.
fn whole(number: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the bounds are checked before"
    )]
    (0.0..1.8e19).contains(&number).then_some(number as u64)
}

fn kind(json: Option<&Json>) -> Kind {
    let number = match json.and_then(Json::as_str) {
        Some("SPAN_KIND_SERVER") => 2,
        Some("SPAN_KIND_CLIENT") => 3,
        Some("SPAN_KIND_PRODUCER") => 4,
        Some("SPAN_KIND_CONSUMER") => 5,
        _ => unsigned(json).and_then(|number| i64::try_from(number).ok()).unwrap_or_default(),
    };
    Kind::from_number(number)
}

fn list(json: Option<&Json>) -> impl Iterator<Item = &Json> {
    json.and_then(Json::as_array).into_iter().flatten()
}

fn event(json: &Json) -> RawEvent {
    RawEvent {
        at_ns: unsigned(json.get("timeUnixNano")).unwrap_or_default(),
        name: text(json, "name").to_owned(),
        attributes: attributes(json.get("attributes")),
    }
}

/// A list of `{"key", "value"}`.
pub(super) fn attributes(json: Option<&Json>) -> Attributes {
    let pair = |json: &Json| {
        let key = json.get("key")?.as_str().filter(|key| !key.is_empty())?;
        Some((key.to_owned(), any_value(json.get("value"), 0)))
    };
    Attributes(list(json).filter_map(pair).take(MAX_PARTS).collect())
}

fn any_value(json: Option<&Json>, depth: usize) -> Value {
    let Some(Json::Object(value)) = json else { return Value::Empty };
    for (name, json) in value {
        let read = match (name.as_str(), json) {
            ("stringValue", Json::String(text)) => Some(Value::Text(text.clone())),
            ("boolValue", Json::Bool(is)) => Some(Value::Bool(*is)),
            ("intValue", Json::Number(number)) => match number.as_i64() {
                Some(number) => Some(Value::Int(number)),
                None => number.as_f64().map(Value::Float),
            },
            ("intValue", Json::String(text)) => text.trim().parse().ok().map(Value::Int),
            ("doubleValue", Json::Number(number)) => number.as_f64().map(Value::Float),
            // Also `NaN`, `Infinity` and `-Infinity`.
            ("doubleValue", Json::String(text)) => text.trim().parse().ok().map(Value::Float),
            ("bytesValue", Json::String(text)) => {
                use base64::Engine as _;
                base64::engine::general_purpose::STANDARD.decode(text).ok().map(Value::Bytes)
            }
            ("arrayValue", Json::Object(array)) if depth < MAX_DEPTH => {
                let items = list(array.get("values")).take(MAX_PARTS);
                Some(Value::List(items.map(|item| any_value(Some(item), depth + 1)).collect()))
            }
            _ => None,
        };
        if let Some(value) = read {
            return value;
        }
    }
    Value::Empty
}
