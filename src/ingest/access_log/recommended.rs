//! The JSON line that `docs/access-logs.md` recommends, with the same keys for every product.

use super::line::{Object, something};
use super::moment::{self, Stamp};
use super::{Format, LineError, LogRecord};

/// The keys that each product's rules read.
const fn facts(format: Format) -> &'static [&'static str] {
    match format {
        Format::Nginx | Format::NginxError | Format::Combined => &[
            "upstream_addr",
            "upstream_status",
            "upstream_connect_s",
            "upstream_header_s",
            "limit_req_status",
            "limit_conn_status",
            "cache_status",
            "upstream_retry_after",
        ],
        Format::Haproxy => &[
            "upstream_status",
            "server",
            "term_state",
            "retries",
            "limiter",
            "t_connect_ms",
            "t_response_ms",
        ],
        Format::Envoy => &[
            "code_details",
            "response_flags",
            "upstream_host",
            "upstream_attempts",
            "upstream_bytes_received",
            "grpc_status",
        ],
        Format::Apache => &[
            "upstream_status",
            "upstream_source_port",
            "limiter",
            "qos_event",
            "qos_error",
            "cache_status",
        ],
        Format::Caddy => &["upstream_status", "upstream_addr", "limiter"],
        Format::Varnish => &["handling", "upstream_status", "upstream_retries", "limiter"],
        Format::Trafficserver => {
            &["upstream_status", "cache_result", "server_host", "server_attempts", "error_code"]
        }
        Format::Squid => &["upstream_status", "result", "hierarchy", "server_ip", "err_code"],
        Format::Workerd => &["upstream_status", "upstream_attempts", "limiter", "cache_status"],
        Format::AwsApiGateway => {
            &["response_type", "upstream_status", "integration_status", "waf_status"]
        }
        Format::Kong
        | Format::Traefik
        | Format::AwsAlb
        | Format::Cloudfront
        | Format::Cloudflare => &[],
    }
}

/// Reads one.
pub(super) fn object(format: Format, object: &Object) -> Result<LogRecord, LineError> {
    let mut record = LogRecord::of(format);
    common(object, &mut record);
    for name in facts(format) {
        if let Some(text) = object.text(name) {
            record.fact(name, text);
        }
    }
    if record.facts.status.is_none() && !object.has("status") {
        return Err(LineError::new("the key `status` is missing"));
    }
    Ok(record)
}

/// How a key writes its moment.
type ReadMoment = fn(&str) -> Option<Stamp>;

/// The keys of all products.
pub(super) fn common(object: &Object, record: &mut LogRecord) {
    record.status_of(object, "status");
    let moments: [(&str, ReadMoment); 4] = [
        ("epoch", moment::epoch_s),
        ("epoch_ms", moment::epoch_ms),
        ("ts", moment::any),
        ("time", moment::any),
    ];
    record.stamp(moments.iter().find_map(|(key, read)| read(&object.value(key)?)));
    record.duration_ms = duration(object);
    record.host = object.first(&["host", "authority"]);
    record.request_id = object.value("request_id");
    record.gateway_request_id = object.first(&["gw_request_id", "extended_request_id", "cf_ray"]);
    record.trace_id = object.value("trace_id");
    if let Some(text) = object.value("traceparent") {
        record.traceparent(&text);
    }
    record.method = object.value("method").map(|method| method.to_ascii_uppercase());
    if let Some(path) = object.value("path") {
        record.target(&path);
    }
    record.retry_after =
        object.text("retry_after").and_then(|text| something(&text).map(ToOwned::to_owned));
    record.client_address = object.first(&["client_address", "remote_addr", "client_ip"]);
}

/// The time it took, in whichever unit the key names.
fn duration(object: &Object) -> Option<i64> {
    const UNITS: [(&str, f64); 5] = [
        ("duration_ms", 1.0),
        ("duration_s", 1000.0),
        ("duration_us", 0.001),
        ("t_active_ms", 1.0),
        ("response_latency_ms", 1.0),
    ];
    UNITS.iter().find_map(|(key, to_ms)| whole_ms(object.number(key)? * to_ms))
}

/// Milliseconds, rounded; `None` below zero and beyond a year.
pub(super) fn whole_ms(ms: f64) -> Option<i64> {
    const YEAR_MS: f64 = 366.0 * 86_400_000.0;
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked in the condition")]
    (0.0..=YEAR_MS).contains(&ms).then(|| ms.round() as i64)
}
