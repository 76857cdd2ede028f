//! The messages of traces on the wire; numbers of fields are those of opentelemetry-proto.

use super::metrics::{self, RawPoint};
use super::wire::{Broken, Field, Fields};
use super::{DecodeError, Fault, MAX_DEPTH, MAX_PARTS, Record, Sink, sender};
use crate::domain::spans::{Attributes, Kind, RawEvent, RawSpan, SpanId, SpanKey, TraceId, Value};

/// Reads an `ExportTraceServiceRequest`.
pub(super) fn traces(body: &[u8], sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    for field in Fields::of(body) {
        if let (1, Field::Bytes(resource_spans)) = field.map_err(undecodable)? {
            read_resource_spans(resource_spans, sink)?;
        }
    }
    Ok(())
}

fn undecodable(error: Broken) -> DecodeError {
    undecodable_as("ExportTraceServiceRequest", error)
}

fn undecodable_as(message: &'static str, error: Broken) -> DecodeError {
    DecodeError::Undecodable { message, encoding: "protobuf", reason: error.to_string() }
}

fn read_resource_spans(message: &[u8], sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    // The resource may stand behind its spans.
    let mut resource = Attributes::default();
    for field in Fields::of(message) {
        if let (1, Field::Bytes(bytes)) = field.map_err(undecodable)? {
            resource = attributes(bytes, 1);
        }
    }
    let sender = sender(&resource);
    for field in Fields::of(message) {
        if let (2, Field::Bytes(scope_spans)) = field.map_err(undecodable)? {
            let mut scope = String::new();
            for field in Fields::of(scope_spans) {
                if let (1, Field::Bytes(bytes)) = field.map_err(undecodable)? {
                    scope = text_field(bytes, 1);
                }
            }
            for field in Fields::of(scope_spans) {
                if let (2, Field::Bytes(bytes)) = field.map_err(undecodable)? {
                    sink.count()?;
                    sink.take(&sender, &scope, span(bytes));
                }
            }
        }
    }
    Ok(())
}

/// Reads an `ExportLogsServiceRequest` record by record.
pub(super) fn logs(
    body: &[u8],
    mut take: impl FnMut(Record) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for field in Fields::of(body) {
        let (1, Field::Bytes(resource_logs)) = field.map_err(broken_logs)? else { continue };
        for field in Fields::of(resource_logs) {
            let (2, Field::Bytes(scope_logs)) = field.map_err(broken_logs)? else { continue };
            for field in Fields::of(scope_logs) {
                if let (2, Field::Bytes(bytes)) = field.map_err(broken_logs)? {
                    take(record(bytes))?;
                }
            }
        }
    }
    Ok(())
}

fn broken_logs(error: Broken) -> DecodeError {
    undecodable_as("ExportLogsServiceRequest", error)
}

/// Reads an `ExportMetricsServiceRequest` point by point, of the metrics that are wanted.
pub(super) fn metrics(body: &[u8], sink: &mut metrics::Sink<'_>) -> Result<(), DecodeError> {
    for field in Fields::of(body) {
        let (1, Field::Bytes(resource_metrics)) = field.map_err(broken_metrics)? else { continue };
        let mut resource = Attributes::default();
        for field in Fields::of(resource_metrics) {
            if let (1, Field::Bytes(bytes)) = field.map_err(broken_metrics)? {
                resource = attributes(bytes, 1);
            }
        }
        for field in Fields::of(resource_metrics) {
            let (2, Field::Bytes(scope_metrics)) = field.map_err(broken_metrics)? else { continue };
            let mut scope = String::new();
            for field in Fields::of(scope_metrics) {
                if let (1, Field::Bytes(bytes)) = field.map_err(broken_metrics)? {
                    scope = text_field(bytes, 1);
                }
            }
            for field in Fields::of(scope_metrics) {
                if let (2, Field::Bytes(bytes)) = field.map_err(broken_metrics)? {
                    metric(bytes, &resource, &scope, sink)?;
                }
            }
        }
    }
    Ok(())
}

fn broken_metrics(error: Broken) -> DecodeError {
    undecodable_as("ExportMetricsServiceRequest", error)
}

/// Reads a metric, if it is one that is wanted: its histogram (9) or exponential histogram (10).
fn metric(
    message: &[u8],
    resource: &Attributes,
    scope: &str,
    sink: &mut metrics::Sink<'_>,
) -> Result<(), DecodeError> {
    let Some(metric) = metrics::wanted(&text_field(message, 1)) else { return Ok(()) };
    for field in Fields::of(message) {
        let (kind @ (9 | 10), Field::Bytes(histogram)) = field.map_err(broken_metrics)? else {
            continue;
        };
        // How counts go on may stand behind the points.
        let mut temporality = None;
        for field in Fields::of(histogram) {
            if let (2, value) = field.map_err(broken_metrics)? {
                temporality = metrics::temporality(value.number().unwrap_or_default());
            }
        }
        let around = metrics::Around { resource, scope, metric, temporality };
        for field in Fields::of(histogram) {
            if let (1, Field::Bytes(bytes)) = field.map_err(broken_metrics)? {
                sink.count()?;
                sink.take(&around, point(bytes, kind == 10));
            }
        }
    }
    Ok(())
}

/// A data point; both kinds of histogram have the same fields up to `count`, but for where the
/// attributes stand.
fn point(message: &[u8], is_exponential: bool) -> Result<RawPoint, String> {
    let mut read = RawPoint::default();
    let of_attributes = if is_exponential { 1 } else { 9 };
    for field in Fields::of(message) {
        let (number, value) = field.map_err(|error| error.to_string())?;
        match (number, value) {
            (2, value) => read.start_ns = value.number().unwrap_or_default(),
            (3, value) => read.time_ns = value.number().unwrap_or_default(),
            (4, value) => read.count = value.number().unwrap_or_default(),
            (10, value) => read.flags = value.number().unwrap_or_default(),
            _ => {}
        }
    }
    read.attributes = attributes(message, of_attributes);
    Ok(read)
}

fn record(message: &[u8]) -> Record {
    let mut record = Record::default();
    let mut observed_ns = 0;
    for (number, value) in Fields::of(message).map_while(Result::ok) {
        match (number, value) {
            (1, value) => record.at_ns = value.number().unwrap_or_default(),
            (5, Field::Bytes(bytes)) => {
                record.body = any_value(bytes, 0).text().unwrap_or_default().into_owned();
            }
            (9, Field::Bytes(bytes)) => record.trace = TraceId::from_bytes(bytes),
            (11, value) => observed_ns = value.number().unwrap_or_default(),
            _ => {}
        }
    }
    record.or_observed(observed_ns)
}

/// The text in a field of a message; empty where there is none.
fn text_field(message: &[u8], number: u64) -> String {
    let mut fields = Fields::of(message).map_while(Result::ok);
    let field = fields.find(|(own, _)| *own == number);
    field.and_then(|(_, value)| value.text()).unwrap_or_default()
}

fn span(message: &[u8]) -> Result<RawSpan, Fault> {
    let (mut trace, mut id, mut parent) = (None, None, None);
    let mut read = RawSpanParts::default();
    for field in Fields::of(message) {
        let (number, value) = field.map_err(|error| Fault {
            span: id.map(hex::encode),
            field: "span",
            error: error.to_string(),
        })?;
        match (number, value) {
            (1, Field::Bytes(bytes)) => trace = Some(bytes),
            (2, Field::Bytes(bytes)) => id = Some(bytes),
            (3, value) => read.trace_state = value.text().unwrap_or_default(),
            (4, Field::Bytes(bytes)) => parent = Some(bytes),
            (5, value) => read.name = value.text().unwrap_or_default(),
            (6, value) => {
                let number = value.number().unwrap_or_default();
                read.kind = Kind::from_number(i64::try_from(number).unwrap_or_default());
            }
            (7, value) => read.start_ns = value.number().unwrap_or_default(),
            (8, value) => read.end_ns = value.number().unwrap_or_default(),
            (9, Field::Bytes(bytes)) if read.attributes.0.len() < MAX_PARTS => {
                read.attributes.0.extend(key_value(bytes));
            }
            (11, Field::Bytes(bytes)) if read.events.len() < MAX_PARTS => {
                read.events.push(event(bytes));
            }
            (15, Field::Bytes(bytes)) => {
                read.status_message = text_field(bytes, 2);
                read.is_error = Fields::of(bytes)
                    .map_while(Result::ok)
                    .any(|(number, value)| number == 3 && value.number() == Some(2));
            }
            _ => {}
        }
    }
    let key = key_of(
        TraceId::from_bytes(trace.unwrap_or_default()),
        SpanId::from_bytes(id.unwrap_or_default()),
        || hex::encode(id.unwrap_or_default()),
        (trace.map_or(0, <[u8]>::len), id.map_or(0, <[u8]>::len)),
    )?;
    let parent = match parent.unwrap_or_default() {
        [] => None,
        bytes if bytes.iter().all(|b| *b == 0) => None,
        bytes => Some(SpanId::from_bytes(bytes).ok_or_else(|| Fault {
            span: Some(key.span.to_string()),
            field: "parent_span_id",
            error: format!("expected 8 bytes, got {}", bytes.len()),
        })?),
    };
    Ok(read.finish(key, parent))
}

/// The parts of a span beside its ids.
#[derive(Debug, Default)]
pub(super) struct RawSpanParts {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<RawEvent>,
    pub(super) is_error: bool,
    pub(super) status_message: String,
    pub(super) trace_state: String,
}

impl RawSpanParts {
    pub(super) fn finish(self, key: SpanKey, parent: Option<SpanId>) -> RawSpan {
        let Self { kind, name, start_ns, end_ns, attributes, events, .. } = self;
        let Self { is_error, status_message, trace_state, .. } = self;
        RawSpan {
            key,
            parent,
            kind,
            name,
            start_ns,
            end_ns,
            attributes,
            events,
            is_error,
            status_message,
            trace_state,
        }
    }
}

/// The key of a span, or which id is wrong. `lengths` are those that were sent, in bytes.
pub(super) fn key_of(
    trace: Option<TraceId>,
    span: Option<SpanId>,
    shown: impl Fn() -> String,
    lengths: (usize, usize),
) -> Result<SpanKey, Fault> {
    let wrong = |field, bytes: usize, got: usize| {
        let error = match got {
            0 => format!("missing: expected {bytes} bytes"),
            got if got == bytes => "expected an id that is not zero".to_owned(),
            got => format!("expected {bytes} bytes, got {got}"),
        };
        let shown: String = shown().chars().take(32).collect();
        Fault { span: Some(shown).filter(|id| !id.is_empty()), field, error }
    };
    let trace = trace.ok_or_else(|| wrong("trace_id", 16, lengths.0))?;
    let span = span.ok_or_else(|| wrong("span_id", 8, lengths.1))?;
    Ok(SpanKey { trace, span })
}

fn event(message: &[u8]) -> RawEvent {
    let mut event = RawEvent { attributes: attributes(message, 3), ..RawEvent::default() };
    for (number, value) in Fields::of(message).map_while(Result::ok) {
        match number {
            1 => event.at_ns = value.number().unwrap_or_default(),
            2 => event.name = value.text().unwrap_or_default(),
            _ => {}
        }
    }
    event
}

/// The attributes in a field of a message.
pub(super) fn attributes(message: &[u8], number: u64) -> Attributes {
    let fields = Fields::of(message).map_while(Result::ok);
    let values = fields.filter(|(own, _)| *own == number).filter_map(|(_, value)| value.bytes());
    Attributes(values.filter_map(key_value).take(MAX_PARTS).collect())
}

fn key_value(message: &[u8]) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::Empty);
    for (number, field) in Fields::of(message).map_while(Result::ok) {
        match (number, field) {
            (1, field) => key = field.text()?,
            (2, Field::Bytes(bytes)) => value = any_value(bytes, 0),
            _ => {}
        }
    }
    (!key.is_empty()).then_some((key, value))
}

fn any_value(message: &[u8], depth: usize) -> Value {
    let mut value = Value::Empty;
    for (number, field) in Fields::of(message).map_while(Result::ok) {
        value = match (number, field) {
            (1, field) => Value::Text(field.text().unwrap_or_default()),
            (2, field) => Value::Bool(field.number() == Some(1)),
            (3, field) => Value::Int(field.number().unwrap_or_default().cast_signed()),
            (4, Field::Fixed64(bits)) => Value::Float(f64::from_bits(bits)),
            (5, Field::Bytes(list)) if depth < MAX_DEPTH => {
                let items = Fields::of(list).map_while(Result::ok);
                let items = items.filter_map(|(number, item)| item.bytes().filter(|_| number == 1));
                Value::List(items.map(|item| any_value(item, depth + 1)).take(MAX_PARTS).collect())
            }
            (7, Field::Bytes(bytes)) => Value::Bytes(bytes.to_vec()),
            _ => value,
        };
    }
    value
}
