//! Caddy's JSON, with the request nested as it writes it and the fields that `log_append` adds.

use super::line::{Object, scalar, something};
use super::recommended::{self, whole_ms};
use super::{Format, LineError, LogRecord};
use serde_json::Value;

/// Reads one.
pub(super) fn object(object: &Object) -> Result<LogRecord, LineError> {
    let mut record = recommended::object(Format::Caddy, object)?;
    let Some(request) = object.get("request") else { return Ok(record) };
    let field = |name: &str| {
        let text = scalar(request.get(name)?)?;
        something(&text).map(ToOwned::to_owned)
    };
    if let Some(uri) = field("uri") {
        record.target(&uri);
    }
    record.method = record.method.or_else(|| field("method"));
    record.host = record.host.or_else(|| field("host"));
    record.client_address = field("client_ip").or_else(|| field("remote_ip"));
    record.duration_ms = object.number("duration").and_then(|s| whole_ms(s * 1000.0));
    let header = |message: Option<&Value>, name: &str| -> Option<String> {
        let fields = message?.as_object()?;
        let (_, value) = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        let text = scalar(value)?;
        something(&text).map(ToOwned::to_owned)
    };
    let sent = request.get("headers");
    record.request_id = record.request_id.or_else(|| header(sent, "x-request-id"));
    if record.trace_id.is_none()
        && let Some(text) = header(sent, "traceparent")
    {
        record.traceparent(&text);
    }
    let answered = object.get("resp_headers");
    record.retry_after = header(answered, "retry-after").or(record.retry_after);
    // Caddy stamps the end of the request.
    record.at = record.at.map(|end| match record.duration_ms {
        Some(ms) => end.plus(crate::domain::time::Millis(-ms)),
        None => end,
    });
    Ok(record)
}
