//! Access logs: one line of a gateway's log to a [`LogRecord`].
//!
//! - [`Format`]: the products, by name; a file each reads its default line and the JSON line that
//!   `docs/access-logs.md` recommends. [`detect()`] finds the format of a line that nobody named.
//! - [`mod@line`]: lenient reading, since logs hold broken UTF-8, escapes that JSON does not know, and
//!   lines cut short.
//! - [`Lines`], [`Reader`]: bytes as they arrive to lines with their place, and to observations.
//!
//! A line that can't be read costs only itself, and says why.

mod aws;
mod caddy;
mod cloudflare;
mod cloudfront;
mod combined;
mod detect;
mod envoy;
mod haproxy;
mod kong;
mod line;
mod moment;
mod nginx;
mod reader;
mod recommended;
mod route;
mod split;
mod squid;
mod tokens;
mod traefik;
mod zone;

pub use detect::detect;
pub use reader::{Naming, Piece, Reader, RejectedLine, Totals};
pub use split::{Line, Lines};
pub use zone::Zone;

use crate::domain::access_log::LogFacts;
use crate::domain::classify::Responder;
use crate::domain::response::Response;
use crate::domain::spelling::spelled_enum;
use crate::domain::time::UnixMillis;
use crate::ingest::authority;
use line::Object;
use serde_json::Value;
use std::borrow::Cow;

spelled_enum! {
    /// The products whose access logs are read.
    pub enum Format {
        /// nginx: `combined`, or the recommended JSON.
        Nginx => "nginx",
        /// nginx's error log: lines about its limits.
        NginxError => "nginx-error",
        /// HAProxy: `option httplog`, or the recommended JSON.
        Haproxy => "haproxy",
        /// Envoy and Istio: the default text, or JSON.
        Envoy => "envoy",
        /// Apache httpd: `common`, `combined`, or the recommended JSON.
        Apache => "apache",
        /// Caddy: JSON.
        Caddy => "caddy",
        /// Varnish: `varnishncsa`, or the recommended JSON.
        Varnish => "varnish",
        /// Traffic Server: the `squid` format as text, or the recommended JSON.
        Trafficserver => "trafficserver",
        /// Squid: the `squid` format, or the recommended JSON.
        Squid => "squid",
        /// Cloudflare Workers: what a Worker's own code logs as JSON.
        Workerd => "workerd",
        /// Kong: a logging plugin's JSON, or its nginx line.
        Kong => "kong",
        /// Traefik: JSON, or its common log format.
        Traefik => "traefik",
        /// AWS API Gateway: the recommended JSON.
        AwsApiGateway => "aws-api-gateway",
        /// AWS Application Load Balancer.
        AwsAlb => "aws-alb",
        /// CloudFront's standard log.
        Cloudfront => "cloudfront",
        /// Cloudflare Logpush, `http_requests`.
        Cloudflare => "cloudflare",
        /// The common or combined format, whoever wrote it: several products share it.
        Combined => "combined",
    }
}

impl Format {
    /// The format that a name means, with the names that people use besides ours, and with a suffix
    /// that says in which form (`envoy-text`, `traefik-json`).
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace(['_', ' '], "-");
        let name = name.split('/').next().unwrap_or_default();
        let by_name = |name: &str| {
            name.parse().ok().or(match name {
                "istio" | "istio-proxy" | "istio-envoy" => Some(Self::Envoy),
                "httpd" | "apache2" => Some(Self::Apache),
                "ats" | "traffic-server" => Some(Self::Trafficserver),
                "worker" | "workers" | "cloudflare-workers" => Some(Self::Workerd),
                "api-gateway" | "apigateway" | "aws-apigateway" | "http-api" => {
                    Some(Self::AwsApiGateway)
                }
                "alb" | "elb" | "aws-elb" => Some(Self::AwsAlb),
                "logpush" | "cloudflare-logpush" => Some(Self::Cloudflare),
                "varnishncsa" => Some(Self::Varnish),
                "common" | "clf" | "ncsa" => Some(Self::Combined),
                "openresty" | "ingress-nginx" | "angie" | "tengine" => Some(Self::Nginx),
                _ => None,
            })
        };
        by_name(name).or_else(|| {
            let (product, form) = name.rsplit_once('-')?;
            let is_form = matches!(
                form,
                "json"
                    | "text"
                    | "http"
                    | "httplog"
                    | "default"
                    | "combined"
                    | "common"
                    | "log"
                    | "access"
                    | "stock"
                    | "diag"
                    | "recommended"
                    | "standard"
                    | "clf"
                    | "ndjson"
            );
            if is_form { Self::named(product) } else { None }
        })
    }

    /// The format of lines that are to become observations, by its name; `None` for `auto`.
    ///
    /// # Errors
    /// What to tell somebody who named another one.
    pub fn of_log(name: &str) -> Result<Option<Self>, String> {
        match Self::named(name) {
            None if name == "auto" => Ok(None),
            None => Err(unknown(name, Self::ALL.iter().filter(|f| **f != Self::NginxError))),
            Some(Self::NginxError) => Err(NO_OBSERVATION.to_owned()),
            format => Ok(format),
        }
    }

    /// The product that writes it; `unknown` where several do.
    pub const fn product(self) -> Responder {
        match self {
            Self::Nginx | Self::NginxError => Responder::Nginx,
            Self::Haproxy => Responder::Haproxy,
            Self::Envoy => Responder::Envoy,
            Self::Apache => Responder::Apache,
            Self::Caddy => Responder::Caddy,
            Self::Varnish => Responder::Varnish,
            Self::Trafficserver => Responder::Trafficserver,
            Self::Squid => Responder::Squid,
            Self::Workerd => Responder::Workerd,
            Self::Kong => Responder::Kong,
            Self::Traefik => Responder::Traefik,
            Self::AwsApiGateway => Responder::AwsApiGateway,
            Self::AwsAlb => Responder::AwsAlb,
            Self::Cloudfront => Responder::Cloudfront,
            Self::Cloudflare => Responder::Cloudflare,
            Self::Combined => Responder::Unknown,
        }
    }

    /// Reads the product's JSON line.
    fn read_object(self, object: &Object) -> Result<LogRecord, LineError> {
        match self {
            Self::Caddy => caddy::object(object),
            Self::Kong => kong::object(object),
            Self::Traefik => traefik::object(object),
            Self::Cloudflare => cloudflare::object(object),
            Self::Envoy => envoy::object(object),
            _ => recommended::object(self, object),
        }
    }

    /// Reads the product's text line; `None` where it does not look like one.
    fn read_text(self, text: &str) -> Option<LogRecord> {
        match self {
            Self::Nginx | Self::Apache | Self::Varnish | Self::Combined => {
                combined::line(self, text)
            }
            Self::NginxError => nginx::error_line(text),
            Self::Haproxy => haproxy::line(text),
            Self::Envoy => envoy::line(text),
            Self::Trafficserver | Self::Squid => squid::line(self, text),
            Self::Kong => kong::line(text),
            Self::Traefik => traefik::line(text),
            Self::AwsAlb => aws::balancer_line(text),
            Self::Cloudfront => cloudfront::line(text),
            Self::Caddy | Self::Workerd | Self::AwsApiGateway | Self::Cloudflare => None,
        }
    }
}

/// What to tell somebody who named a format that is not known.
pub fn unknown_format(name: &str) -> String {
    unknown(name, Format::ALL.iter())
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a Format>) -> String {
    let name: String = name.chars().take(64).collect();
    let all: Vec<&str> = known.map(|format| format.as_str()).collect();
    format!("{name:?} is no format that is known; name one of {}", all.join(", "))
}

/// What to tell somebody who sends lines of nginx's error log.
const NO_OBSERVATION: &str = "lines of nginx's error log have neither a status nor an id, so that \
                              they can't be told from those of the access log; send that one, with \
                              `limit_req_status` in it";

/// One line, as far as it tells something.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each says a thing of its own")]
pub struct LogRecord {
    /// The product, what it sent to its client, and the fields that rules read.
    pub facts: LogFacts,
    /// When the request came in; of products that log the end, the end less the duration. A local
    /// time stands as that of UTC here.
    pub at: Option<UnixMillis>,
    /// The time in the line names no zone: it is the local time of wherever the log is from.
    pub is_local: bool,
    /// How long it took.
    pub duration_ms: Option<i64>,
    /// The client's address, as written. Never stored.
    pub client_address: Option<String>,
    /// The host that was asked for.
    pub host: Option<String>,
    /// The id that the client sent.
    pub request_id: Option<String>,
    /// The id that the gateway gave it.
    pub gateway_request_id: Option<String>,
    /// Trace id, 32 hexadecimal digits, or `1-…` as Amazon writes it.
    pub trace_id: Option<String>,
    /// The caller's span id.
    pub span_id: Option<String>,
    /// Method in upper case.
    pub method: Option<String>,
    /// Path without query string.
    pub path: Option<String>,
    /// `Retry-After` as it was sent.
    pub retry_after: Option<String>,
    /// The request was made by the gateway to itself; it is no client's.
    pub is_internal: bool,
    /// The line ends early; what stood before its end was read.
    pub is_cut: bool,
    /// The status is neither a code nor what the product writes where it sent none.
    has_wrong_status: bool,
}

impl LogRecord {
    /// An empty record of a product.
    fn of(format: Format) -> Self {
        Self {
            facts: LogFacts { product: format.product(), status: None, fields: Vec::new() },
            at: None,
            is_local: false,
            duration_ms: None,
            client_address: None,
            host: None,
            request_id: None,
            gateway_request_id: None,
            trace_id: None,
            span_id: None,
            method: None,
            path: None,
            retry_after: None,
            is_internal: false,
            is_cut: false,
            has_wrong_status: false,
        }
    }

    /// Takes the time.
    fn stamp(&mut self, stamp: Option<moment::Stamp>) {
        self.at = stamp.map(|stamp| stamp.at);
        self.is_local = stamp.is_some_and(|stamp| stamp.is_local);
    }

    /// Takes the status. Without an answer all write `-`, `000` or nothing, HAProxy -1, and some 0.
    fn status(&mut self, text: &str) {
        let Some(text) = line::something(text) else { return };
        let is_none = match text {
            "000" => true,
            "-1" => self.facts.product == Responder::Haproxy,
            "0" => matches!(
                self.facts.product,
                Responder::Envoy
                    | Responder::Caddy
                    | Responder::Traefik
                    | Responder::Trafficserver
                    | Responder::Squid
                    | Responder::Cloudfront
                    | Responder::Cloudflare
            ),
            _ => false,
        };
        if !is_none {
            self.facts.status = text.parse().ok().filter(|code| matches!(code, 100..=599 | 999));
            self.has_wrong_status = self.facts.status.is_none();
        }
    }

    /// Takes the status that stands under a key.
    fn status_of(&mut self, object: &Object, key: &str) {
        match object.text(key) {
            Some(text) => self.status(&text),
            None => self.has_wrong_status = object.has(key),
        }
    }

    /// The record, where its status can be.
    fn checked(self) -> Result<Self, LineError> {
        if self.has_wrong_status {
            let reason = "`status`: expected a code of 100 to 599 or 999, or what the product writes \
                          where it sent none (`-`, 000; HAProxy -1)";
            return Err(LineError::new(reason));
        }
        Ok(self)
    }

    /// Adds a field that rules read; what stands for nothing is kept as empty.
    fn fact(&mut self, name: &'static str, value: impl AsRef<str>) {
        let value = line::something(value.as_ref()).unwrap_or_default();
        let value = line::capped(value, MAX_FIELD);
        self.facts.fields.push((Cow::Borrowed(name), value));
    }

    /// Tells a response of which nothing else is known what the line says of it.
    pub fn fill(&self, response: &mut Response) {
        response.status = self.facts.status;
        response.observed_at = response.observed_at.or(self.at);
        if let Some(wait) = self.retry_after.as_deref().filter(|_| response.headers.is_empty()) {
            response.headers.push("retry-after", wait);
        }
        let request = &mut response.request;
        for (known, logged) in [
            (&mut request.method, &self.method),
            (&mut request.host, &self.host),
            (&mut request.path, &self.path),
        ] {
            if known.is_none() {
                known.clone_from(logged);
            }
        }
    }

    /// Takes method and path from a request line such as `GET /v1/orders?x=1 HTTP/1.1`, with or
    /// without a host.
    fn request_line(&mut self, text: &str) {
        let mut words = text.split_ascii_whitespace();
        if let (Some(method), Some(target)) = (words.next(), words.next())
            && is_method(method)
        {
            self.method = Some(method.to_ascii_uppercase());
            self.target(target);
        }
    }

    /// Takes path and host from a request target.
    fn target(&mut self, target: &str) {
        let (host, path) = match target.split_once("://") {
            Some((scheme, rest)) => {
                let parts = authority::split(Some(scheme), rest);
                (Some(parts.host), if parts.tail.starts_with('/') { parts.tail } else { "/" })
            }
            None => (None, target),
        };
        if let Some(host) = host.filter(|host| !host.is_empty()) {
            self.host.get_or_insert_with(|| host.to_owned());
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        if path.starts_with('/') {
            self.path = Some(line::capped(path, MAX_PATH));
        }
    }

    /// Takes trace id and span id from a W3C `traceparent`.
    fn traceparent(&mut self, text: &str) {
        let mut parts = text.trim().split('-');
        let (Some(version), Some(trace), Some(span)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let is_hex = |text: &str, length: usize| {
            text.len() == length
                && text.bytes().all(|b| b.is_ascii_hexdigit())
                && text.bytes().any(|b| b != b'0')
        };
        if version.len() == 2 && is_hex(trace, 32) && is_hex(span, 16) {
            self.trace_id = Some(trace.to_ascii_lowercase());
            self.span_id = Some(span.to_ascii_lowercase());
        }
    }
}

/// The most that is kept of a field that rules read, in bytes.
const MAX_FIELD: usize = 256;
/// The most that is kept of a path, in bytes.
const MAX_PATH: usize = 1024;

/// Why a line could not be read. The reason never quotes the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct LineError {
    /// What is wrong, and what to do where that is known.
    pub reason: String,
    /// The line is none of a request (a header line, an empty one): no mistake of anybody's.
    pub is_comment: bool,
}

impl LineError {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_comment: false }
    }

    fn comment() -> Self {
        Self { reason: "not a request".to_owned(), is_comment: true }
    }
}

/// Reads one line of a named format, or finds out which one it is.
pub fn parse(format: Option<Format>, bytes: &[u8]) -> Result<LogRecord, LineError> {
    let text = line::decode(bytes);
    // Editors on Windows put a byte order mark before the first line.
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.starts_with('#') {
        return Err(LineError::comment());
    }
    if let Some(object) = line::object(text)? {
        return parse_object(format, &object)?.checked();
    }
    parse_text(format, text)?.checked()
}

/// As [`parse`], of JSON that was read already.
pub fn parse_value(format: Option<Format>, value: &Value) -> Result<LogRecord, LineError> {
    match value {
        Value::String(text) => parse(format, text.as_bytes()),
        Value::Object(_) => parse_object(format, &Object::from(value))?.checked(),
        _ => Err(LineError::new("expected a line of text or a JSON object")),
    }
}

fn parse_object(format: Option<Format>, object: &Object) -> Result<LogRecord, LineError> {
    let told = detect::of_object(object);
    // Log shippers put the line into an object of their own.
    if told.is_none()
        && let Some(inner) = object.wrapped()
    {
        return match line::object(inner.trim())? {
            Some(object) => parse_object_of(format, &object),
            None => parse_text(format, inner),
        };
    }
    if told.is_none()
        && let Some(inner) = object.wrapped_object()
        && detect::of_object(&inner).is_some()
    {
        return parse_object_of(format, &inner);
    }
    parse_object_of(format, object)
}

fn parse_object_of(format: Option<Format>, object: &Object) -> Result<LogRecord, LineError> {
    let told = detect::of_object(object);
    let format = match (format, told) {
        (Some(named), Some(told)) if named != told && named != Format::Combined => {
            return Err(LineError::new(format!("the line is one of {told}, not of {named}")));
        }
        (Some(named), told) => told.unwrap_or(named),
        (None, Some(told)) => told,
        (None, None) => {
            return Err(LineError::new(
                "JSON of no product that is known; name the format, or add the key `gateway`",
            ));
        }
    };
    if let Some(twice) = object.twice.as_deref() {
        // Without `escape: json` Traffic Server lets a header value add keys to the line.
        return Err(LineError::new(format!(
            "the key `{twice}` stands twice in the line: a header value may have added one, so \
             neither can be trusted; let the log escape what it writes"
        )));
    }
    let mut record = format.read_object(object)?;
    record.is_cut = object.is_cut;
    Ok(record)
}

fn parse_text(format: Option<Format>, text: &str) -> Result<LogRecord, LineError> {
    if let Some(format) = format {
        let read = format.read_text(text).or_else(|| {
            // Behind a syslog header, or a container runtime's.
            let (_, inner) = line::without_prefix(text)?;
            match line::object(inner) {
                Ok(Some(object)) => parse_object(Some(format), &object).ok(),
                _ => format.read_text(inner),
            }
        });
        return read.ok_or_else(|| {
            LineError::new(format!("neither {format}'s default line nor a JSON object"))
        });
    }
    if let Some(record) = detect::of_text(text).and_then(|format| format.read_text(text)) {
        return Ok(record);
    }
    if let Some((_, inner)) = line::without_prefix(text) {
        if let Some(object) = line::object(inner)? {
            return parse_object(None, &object);
        }
        if let Some(record) = detect::of_text(inner).and_then(|format| format.read_text(inner)) {
            return Ok(record);
        }
    }
    Err(LineError::new("a line of no format that is known; name the format"))
}

/// Whether a word may be a method (RFC 9110 section 9.1: a token, in upper case in practice).
fn is_method(word: &str) -> bool {
    (2..=24).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
}

#[cfg(test)]
mod tests;
