//! Which format a line is in, by what only that format writes.

use super::Format;
use super::line::{Object, decode, object, without_prefix};
use super::tokens::{Kind, tokens};

/// The format of a line, where it shows. Combined lines are written alike by several products, so
/// they are [`Format::Combined`].
pub fn detect(bytes: &[u8]) -> Option<Format> {
    let text = decode(bytes);
    let text = text.trim();
    match object(text) {
        Ok(Some(found)) => of_object(&found).or_else(|| {
            if let Some(inner) = found.wrapped_object() {
                return of_object(&inner);
            }
            let inner = found.wrapped()?.trim();
            match object(inner) {
                Ok(Some(found)) => of_object(&found),
                _ => of_text(inner),
            }
        }),
        Ok(None) => of_text(text).or_else(|| {
            let (_, inner) = without_prefix(text)?;
            if inner.starts_with('{') { detect(inner.as_bytes()) } else { of_text(inner) }
        }),
        Err(_) => None,
    }
}

/// The product of a JSON line.
pub(super) fn of_object(object: &Object) -> Option<Format> {
    if let Some(name) = object.value("gateway") {
        return Format::named(&name);
    }
    let has = |key: &str| object.has(key);
    if has("EdgeResponseStatus") {
        Some(Format::Cloudflare)
    } else if has("DownstreamStatus") {
        Some(Format::Traefik)
    } else if has("latencies") && has("request") && has("response") {
        Some(Format::Kong)
    } else if has("request") && has("status") && (has("resp_headers") || has("bytes_read")) {
        Some(Format::Caddy)
    } else if has("response_flags") {
        Some(Format::Envoy)
    } else if has("term_state") {
        Some(Format::Haproxy)
    } else if has("limit_req_status") || has("upstream_header_s") {
        Some(Format::Nginx)
    } else if has("response_type") && has("integration_status") {
        Some(Format::AwsApiGateway)
    } else if has("qos_event") || has("upstream_source_port") {
        Some(Format::Apache)
    } else if has("cache_result") && has("server_attempts") {
        Some(Format::Trafficserver)
    } else if has("hitmiss") || has("handling") {
        Some(Format::Varnish)
    } else if has("result") && has("hierarchy") {
        Some(Format::Squid)
    } else {
        None
    }
}

/// The product of a text line.
pub(super) fn of_text(text: &str) -> Option<Format> {
    // From the format that is hardest to mistake to the one that others extend.
    const BY_FORM: [Format; 5] =
        [Format::Cloudfront, Format::AwsAlb, Format::NginxError, Format::Haproxy, Format::Envoy];
    if let Some(format) = BY_FORM.into_iter().find(|format| format.read_text(text).is_some()) {
        return Some(format);
    }
    if let Some(record) = Format::Squid.read_text(text) {
        let hierarchy = record.facts.get("hierarchy").unwrap_or_default();
        let is_squid = hierarchy.starts_with("HIER_") || hierarchy.ends_with("_PARENT");
        return Some(if is_squid { Format::Squid } else { Format::Trafficserver });
    }
    if text.contains("kong_request_id: \"") && Format::Kong.read_text(text).is_some() {
        return Some(Format::Kong);
    }
    if Format::Traefik.read_text(text).is_some() {
        return Some(Format::Traefik);
    }
    Format::Combined.read_text(text)?;
    // Varnish logs the whole address.
    let request = tokens(text).into_iter().find(|token| token.kind == Kind::Quoted)?;
    let target = request.text.split_ascii_whitespace().nth(1).unwrap_or_default();
    let is_whole = target.starts_with("http://") || target.starts_with("https://");
    Some(if is_whole { Format::Varnish } else { Format::Combined })
}
