//! Kong: the JSON of its logging plugins, and its nginx line.

use super::line::{Object, scalar, something};
use super::recommended::whole_ms;
use super::tokens::{Kind, tokens};
use super::{Format, LineError, LogRecord, combined, moment};
use serde_json::Value;

/// Reads one record of file-log, http-log and their like.
pub(super) fn object(object: &Object) -> Result<LogRecord, LineError> {
    let mut record = LogRecord::of(Format::Kong);
    let (request, response) = (object.get("request"), object.get("response"));
    let within = |outer: Option<&Value>, name: &str| {
        let text = scalar(outer?.get(name)?)?;
        something(&text).map(ToOwned::to_owned)
    };
    let code = within(response, "status");
    let code = code.ok_or_else(|| LineError::new("`response.status` is missing"))?;
    record.status(&code);
    record.stamp(object.value("started_at").as_deref().and_then(moment::epoch_ms));
    let latencies = object.get("latencies");
    record.duration_ms =
        within(latencies, "request").and_then(|ms| ms.parse().ok()).and_then(whole_ms);
    record.client_address = object.value("client_ip");
    record.method = within(request, "method").map(|method| method.to_ascii_uppercase());
    let header = |message: Option<&Value>, name: &str| within(message?.get("headers"), name);
    record.host = header(request, "host");
    if let Some(uri) = within(request, "uri") {
        record.target(&uri);
    }
    record.request_id = header(request, "x-request-id").or_else(|| object.value("correlation_id"));
    record.gateway_request_id = within(request, "id");
    if let Some(text) = header(request, "traceparent") {
        record.traceparent(&text);
    }
    if record.trace_id.is_none() {
        let trace = object.get("trace_id");
        record.trace_id = within(trace, "w3c").or_else(|| object.value("trace_id"));
    }
    record.retry_after = header(response, "retry-after");
    if let Some(source) = object.text("source") {
        record.fact("source", source);
    }
    if let Some(status) = object.text("upstream_status") {
        record.fact("upstream_status", status);
    }
    if let Some(ms) = within(latencies, "proxy") {
        record.fact("proxy_ms", ms);
    }
    if let Some(tries) = object.get("tries").and_then(Value::as_array) {
        record.fact("tries", tries.len().to_string());
    }
    let names = response.and_then(|r| r.get("headers")).and_then(Value::as_object);
    let windows: Vec<&str> = names
        .into_iter()
        .flat_map(|fields| fields.keys())
        .filter_map(|name| name.strip_prefix("x-ratelimit-limit-"))
        .collect();
    record.fact("limit_windows", windows.join(","));
    Ok(record)
}

/// The default line: combined, then `kong_request_id: "…"`.
pub(super) fn line(text: &str) -> Option<LogRecord> {
    let tokens = tokens(text);
    let mut record = combined::head(Format::Kong, &tokens)?;
    let label = tokens.iter().position(|token| token.text == "kong_request_id:");
    let id = label.and_then(|at| tokens.get(at.checked_add(1)?));
    record.gateway_request_id =
        id.filter(|token| token.kind == Kind::Quoted).map(|token| token.text.to_owned());
    Some(record)
}
