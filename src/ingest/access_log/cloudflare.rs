//! Cloudflare Logpush, dataset `http_requests`.

use super::line::{Object, scalar, something};
use super::recommended::whole_ms;
use super::{Format, LineError, LogRecord, moment};
use crate::domain::time::UnixMillis;

/// Reads one.
pub(super) fn object(object: &Object) -> Result<LogRecord, LineError> {
    let mut record = LogRecord::of(Format::Cloudflare);
    record.status_of(object, "EdgeResponseStatus");
    if record.facts.status.is_none() && !object.has("EdgeResponseStatus") {
        return Err(LineError::new("the key `EdgeResponseStatus` is missing"));
    }
    let start = object.value("EdgeStartTimestamp");
    record.at = start.as_deref().and_then(stamp);
    let end = object.value("EdgeEndTimestamp").as_deref().and_then(stamp);
    record.duration_ms = match (record.at, end) {
        (Some(start), Some(end)) if end >= start => Some(end.since(start).0),
        _ => object.number("EdgeTimeToFirstByteMs").and_then(whole_ms),
    };
    record.client_address = object.value("ClientIP");
    record.host = object.value("ClientRequestHost");
    record.method = object.value("ClientRequestMethod").map(|m| m.to_ascii_uppercase());
    if let Some(path) = object.first(&["ClientRequestPath", "ClientRequestURI"]) {
        record.target(&path);
    }
    record.gateway_request_id = object.value("RayID");
    // Custom fields: the job selects them.
    let header = |outer: &str, name: &str| {
        let text = scalar(object.get(outer)?.get(name)?)?;
        something(&text).map(ToOwned::to_owned)
    };
    record.request_id = header("RequestHeaders", "x-request-id");
    if let Some(text) = header("RequestHeaders", "traceparent") {
        record.traceparent(&text);
    }
    record.retry_after = header("ResponseHeaders", "retry-after");
    for (theirs, ours) in [
        ("OriginResponseStatus", "upstream_status"),
        ("EdgeServerIP", "edge_server_ip"),
        ("CacheCacheStatus", "cache_status"),
        ("SecuritySources", "security_sources"),
        ("SecurityActions", "security_actions"),
        ("SecurityAction", "security_action"),
    ] {
        if let Some(text) = object.text(theirs) {
            record.fact(ours, text);
        }
    }
    // Early hints and the like are requests of Cloudflare to itself.
    let source = object.first(&["ClientRequestSource", "RequestSource"]);
    record.is_internal = source.is_some_and(|source| source != "eyeball");
    Ok(record)
}

/// RFC 3339, or seconds, milliseconds or nanoseconds since 1970, as the job is set.
fn stamp(text: &str) -> Option<UnixMillis> {
    if text.len() == 19 && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<i64>().ok().map(|ns| UnixMillis(ns / 1_000_000));
    }
    let written = moment::iso(text).or_else(|| moment::epoch_s(text));
    written.or_else(|| moment::epoch_ms(text)).map(|stamp| stamp.at)
}
