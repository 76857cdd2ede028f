//! Envoy's default text, Istio's longer one, and JSON under our keys or under Istio's.

use super::line::Object;
use super::recommended::{self, whole_ms};
use super::tokens::{Kind, Token, tokens};
use super::{Format, LineError, LogRecord, line, moment};

/// Keys of Istio's JSON with the names of ours.
const ISTIO: [(&str, &str); 5] = [
    ("response_code_details", "code_details"),
    ("response_flags", "response_flags"),
    ("upstream_host", "upstream_host"),
    ("upstream_request_attempt_count", "upstream_attempts"),
    ("upstream_wire_bytes_received", "upstream_bytes_received"),
];

/// Reads JSON.
pub(super) fn object(object: &Object) -> Result<LogRecord, LineError> {
    if !object.has("response_code") {
        return recommended::object(Format::Envoy, object);
    }
    let mut record = LogRecord::of(Format::Envoy);
    recommended::common(object, &mut record);
    record.status_of(object, "response_code");
    if let Some(start) = object.value("start_time").as_deref().and_then(moment::any) {
        record.stamp(Some(start));
    }
    record.duration_ms = object.number("duration").and_then(whole_ms).or(record.duration_ms);
    for (theirs, ours) in ISTIO {
        if let Some(text) = object.text(theirs) {
            record.fact(ours, text);
        }
    }
    Ok(record)
}

/// `[time] "METHOD path proto" status FLAGS [details termination "failure"] received sent duration
/// service-time "xff" "agent" "request-id" "authority" "upstream-host"`
pub(super) fn line(text: &str) -> Option<LogRecord> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let mut record = LogRecord::of(Format::Envoy);
    if let Some((time, after)) = rest.split_first()
        && time.kind == Kind::Bracketed
    {
        record.stamp(Some(moment::iso(time.text)?));
        rest = after;
    }
    let [request, code, flags, after @ ..] = rest else { return None };
    if request.kind != Kind::Quoted || !is_flags(flags) {
        return None;
    }
    code.text.parse::<f64>().ok()?;
    record.status(code.text);
    record.request_line(&request.unescaped());
    record.fact("response_flags", flags.text);
    let mut rest = after;
    if rest.first().is_some_and(|token| token.text.parse::<u64>().is_err()) {
        // Istio: code details, how the connection ended, why the upstream failed. Older ones put
        // two quoted fields there, of which the first is no code.
        if let Some(details) = rest.first().filter(|token| token.kind == Kind::Bare) {
            record.fact("code_details", details.text);
        }
        let numbers = rest.iter().position(|token| token.text.parse::<u64>().is_ok())?;
        rest = rest.get(numbers..)?;
    }
    let [_received, _sent, duration, _service, quoted @ ..] = rest else { return None };
    record.duration_ms = duration.text.parse().ok().filter(|ms| *ms >= 0);
    let field =
        |at: usize| quoted.get(at).and_then(|token: &Token<'_>| line::something(token.text));
    record.request_id = field(2).map(ToOwned::to_owned);
    record.host = field(3).map(ToOwned::to_owned);
    if let Some(host) = quoted.get(4) {
        record.fact("upstream_host", host.text);
    }
    Some(record)
}

/// Response flags: upper-case words with commas between, or nothing.
fn is_flags(token: &Token<'_>) -> bool {
    token.kind == Kind::Bare
        && !token.text.is_empty()
        && token.text.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b',' | b'-' | b'_'))
}
