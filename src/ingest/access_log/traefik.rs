//! Traefik: its JSON, and its line in common log format.

use super::line::Object;
use super::recommended::whole_ms;
use super::tokens::{Kind, tokens};
use super::{Format, LineError, LogRecord, combined, moment};

/// Reads JSON. Durations are in nanoseconds.
pub(super) fn object(object: &Object) -> Result<LogRecord, LineError> {
    let mut record = LogRecord::of(Format::Traefik);
    record.status_of(object, "DownstreamStatus");
    if record.facts.status.is_none() && !object.has("DownstreamStatus") {
        return Err(LineError::new("the key `DownstreamStatus` is missing"));
    }
    let started = object.first(&["StartUTC", "StartLocal", "time"]);
    record.stamp(started.as_deref().and_then(moment::iso));
    record.duration_ms = object.number("Duration").and_then(|ns| whole_ms(ns / 1_000_000.0));
    record.client_address = object.first(&["ClientHost", "ClientAddr"]);
    record.host = object.value("RequestHost").or_else(|| object.value("RequestAddr"));
    record.method = object.value("RequestMethod").map(|method| method.to_ascii_uppercase());
    if let Some(path) = object.value("RequestPath") {
        record.target(&path);
    }
    record.request_id = object.first(&["request_X-Request-Id", "request_X-Request-ID"]);
    record.trace_id = object.first(&["TraceId", "TraceID"]);
    record.span_id = object.first(&["SpanId", "SpanID"]);
    if let Some(text) = object.value("request_Traceparent") {
        record.traceparent(&text);
    }
    record.retry_after = object.value("downstream_Retry-After");
    for (theirs, ours) in [
        ("OriginStatus", "upstream_status"),
        ("RouterName", "router"),
        ("ServiceAddr", "upstream_addr"),
        ("RetryAttempts", "retries"),
        ("Overhead", "overhead_ns"),
        ("Duration", "duration_ns"),
    ] {
        if let Some(text) = object.text(theirs) {
            record.fact(ours, text);
        }
    }
    Ok(record)
}

/// Combined, then request count, router, server URL and duration: ` 42 "web@file" "http://…" 12ms`.
pub(super) fn line(text: &str) -> Option<LogRecord> {
    let tokens = tokens(text);
    let mut record = combined::head(Format::Traefik, &tokens)?;
    let [.., router, server, duration] = tokens.as_slice() else { return None };
    let ms = duration.text.strip_suffix("ms")?.parse().ok()?;
    if router.kind != Kind::Quoted || server.kind != Kind::Quoted {
        return None;
    }
    record.duration_ms = whole_ms(ms);
    record.fact("router", router.text);
    record.fact("upstream_addr", server.text);
    Some(record)
}
