//! What a span says about a request (reference: HTTP semantic conventions 1.44, the old names from
//! before 1.21, and the older name of a resend's count).

use super::failure;
use super::hints::{self, Counter, SharedIdSource, ToldWait};
use super::raw::{Attributes, Kind, RawSpan};
use super::sdk;
use super::span::Role;
use crate::domain::event::AttemptError;
use crate::domain::headers::REQUEST_IDS;
use std::borrow::Cow;

/// Who sent a span: the attributes of its resource that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sender {
    /// `service.name`.
    pub service: Option<String>,
    /// `service.instance.id`, else the pod's or the host's name.
    pub instance: Option<String>,
    /// `deployment.environment.name` or its older name.
    pub environment: Option<String>,
    /// `telemetry.sdk.language`.
    pub language: Option<String>,
}

impl Sender {
    /// Reads a resource.
    pub fn of(resource: &Attributes) -> Self {
        let text = |names: &[&str]| resource.text(names).map(Cow::into_owned);
        Self {
            service: text(&["service.name"]),
            instance: text(&["service.instance.id", "k8s.pod.name", "host.name"]),
            environment: text(&["deployment.environment.name", "deployment.environment"]),
            language: text(&["telemetry.sdk.language"]),
        }
    }
}

/// A request as a span tells of it, neither checked nor cleaned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The method.
    pub method: Option<String>,
    /// The whole address, where it is told.
    pub url: Option<String>,
    /// Host and port, where there is no address.
    pub host: Option<String>,
    /// The path, where there is no address.
    pub path: Option<String>,
    /// The path's template.
    pub template: Option<String>,
    /// The status code.
    pub status: Option<u16>,
    /// Why there is none.
    pub error: Option<AttemptError>,
    /// The code in the answer's body.
    pub error_code: Option<String>,
    /// Captured header fields of the answer.
    pub headers: Vec<(String, String)>,
    /// The id of the request that the answer carries.
    pub request_id: Option<String>,
    /// What the edge calls it.
    pub edge_id: Option<String>,
    /// The client's own count.
    pub counter: Option<Counter>,
    /// An id that all attempts of an operation share.
    pub shared_id: Option<(String, SharedIdSource)>,
    /// A key, raw, and what kind it is: to be hashed at once.
    pub key: Option<(String, &'static str)>,
    /// The idempotency key, raw: to be hashed at once.
    pub idempotency_key: Option<String>,
    /// The wait after it, where the span tells one.
    pub resend_delay_ms: Option<i64>,
    /// How many more attempts the span says it stands for.
    pub hidden_retries: Option<u32>,
    /// Whether its instrumentation covers a loop of retries with one span.
    pub may_hide: bool,
}

const METHOD: [&str; 2] = ["http.request.method", "http.method"];
const STATUS: [&str; 2] = ["http.response.status_code", "http.status_code"];

/// What a span stands for.
pub fn role(span: &RawSpan) -> Role {
    let has_method = span.attributes.text(&METHOD).is_some();
    match span.kind {
        Kind::Client if has_method => Role::Attempt,
        Kind::Client if is_sdk(&span.attributes) => Role::Sdk,
        Kind::Server if has_method => Role::Server,
        _ => Role::Context,
    }
}

/// RPC and `GenAI` conventions: one span for a call with all its attempts.
fn is_sdk(attributes: &Attributes) -> bool {
    attributes.has_prefix("rpc.") || attributes.has_prefix("gen_ai.")
}

/// Instrumentations that see a call from outside of its client's own loop of retries: requests and
/// urllib3 with a mounted `Retry`, botocore, AWS SDKs of Java, Google's and Apache's clients of Java
/// with the agent, Guzzle with its middleware.
const OUTSIDE_OF_LOOPS: [&str; 8] = [
    "opentelemetry.instrumentation.requests",
    "opentelemetry.instrumentation.urllib3",
    "opentelemetry.instrumentation.botocore",
    "io.opentelemetry.aws-sdk",
    "io.opentelemetry.google-http-client",
    "io.opentelemetry.apache-httpclient-4.0",
    "io.opentelemetry.apache-httpclient-5.0",
    "io.opentelemetry.contrib.php.guzzle",
];

/// Attributes that name a request.
const REQUEST_ID_ATTRIBUTES: [&str; 3] =
    ["aws.request_id", "aws.request.id", "az.service_request_id"];

/// Header fields that name a request at the edge.
const EDGE_IDS: [&str; 3] = ["cf-ray", "x-amz-cf-id", "x-served-by"];

/// Request header fields that hold a key, and what kind it is.
const KEYS: [(&str, &str); 4] = [
    ("authorization", "authorization"),
    ("x-api-key", "api-key"),
    ("api-key", "api-key"),
    ("cookie", "cookie"),
];

/// Reads a span of an instrumentation called `scope`.
pub fn request(span: &RawSpan, scope: &str) -> Request {
    let of = &span.attributes;
    let text = |names: &[&str]| of.text(names).map(Cow::into_owned);
    let sent = of.headers("http.request.header.");
    let mut headers = of.headers("http.response.header.");
    let find = |fields: &[(String, String)], name: &str| {
        fields.iter().find(|(own, value)| own == name && !value.is_empty()).map(|(_, v)| v.clone())
    };
    let status = of.integer(&STATUS).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| matches!(status, 100..=599 | 999));
    let role = role(span);
    let told = if role == Role::Sdk { sdk::end(span) } else { None };
    let mut end = match (status, told) {
        // gRPC fails with status 200.
        (Some(200), Some(told)) if told.grpc_status.is_some() => told,
        (Some(_), _) => sdk::End { status, ..sdk::End::default() },
        (None, told) if role == Role::Sdk => told.unwrap_or_default(),
        (None, _) => sdk::End { error: Some(failure::of(span)), ..sdk::End::default() },
    };
    if let Some(code) = end.grpc_status {
        headers.push(("grpc-status".to_owned(), code.to_string()));
    }
    let idempotency_key = find(&sent, "idempotency-key");
    let invocation = find(&sent, "amz-sdk-invocation-id");
    let shared_id = invocation
        .map(|id| (id, SharedIdSource::AmzInvocation))
        .or_else(|| idempotency_key.clone().map(|id| (id, SharedIdSource::IdempotencyKey)));
    let told = hints::told_waits(&span.events);
    Request {
        method: text(&METHOD),
        url: text(&["url.full", "http.url"]),
        host: host(span).or_else(|| sdk::upstream(of).filter(|_| role == Role::Sdk)),
        path: text(&["url.path", "http.target"]),
        template: text(&["url.template", "http.route"]),
        error: end.error,
        error_code: end.code.take(),
        status: end.status,
        request_id: REQUEST_IDS
            .iter()
            .find_map(|name| find(&headers, name))
            .or_else(|| find(&sent, "x-request-id").filter(|_| span.kind == Kind::Server))
            .or_else(|| text(&REQUEST_ID_ATTRIBUTES)),
        edge_id: EDGE_IDS.iter().find_map(|name| find(&headers, name)),
        counter: hints::counter(span, &sent),
        shared_id,
        key: KEYS.iter().find_map(|(name, kind)| Some((find(&sent, name)?, *kind))),
        idempotency_key,
        resend_delay_ms: of
            .integer(&["http.request.resend_delay"])
            .filter(|delay| (0..=DAY_MS).contains(delay)),
        hidden_retries: hidden_retries(of, &told),
        may_hide: OUTSIDE_OF_LOOPS.iter().any(|own| scope.starts_with(own)) || is_sdk(of),
        headers,
    }
}

const DAY_MS: i64 = crate::domain::time::DAY_MS;

/// Retries that the span says were made within it.
fn hidden_retries(of: &Attributes, told: &[ToldWait]) -> Option<u32> {
    let counted = of.integer(&["retry_attempts"]).and_then(|n| u32::try_from(n).ok());
    counted.or_else(|| u32::try_from(told.len()).ok().filter(|n| *n > 0))
}

/// Host and port without an address.
fn host(span: &RawSpan) -> Option<String> {
    let of = &span.attributes;
    // To a server, the peer is its client.
    let (names, ports): (&[&str], &[&str]) = if span.kind == Kind::Server {
        (
            &["server.address", "http.host", "net.host.name", "http.request.header.host"],
            &["server.port", "net.host.port"],
        )
    } else {
        (&["server.address", "net.peer.name", "http.host"], &["server.port", "net.peer.port"])
    };
    let name = of.text(names)?;
    let port = of.integer(ports);
    let scheme = of.text(&["url.scheme", "http.scheme"]);
    let is_default = matches!(
        (port, scheme.as_deref()),
        (None, _) | (Some(443), Some("https") | None) | (Some(80), Some("http") | None)
    );
    let has_port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let is_v6 = name.matches(':').count() > 1 && !name.starts_with('[');
    let name = if is_v6 { format!("[{name}]") } else { name.into_owned() };
    Some(match port {
        Some(port) if !is_default && (is_v6 || !has_port) => format!("{name}:{port}"),
        _ => name,
    })
}

/// The path that `location` leads to, without a query.
pub fn location_path(headers: &[(String, String)]) -> Option<String> {
    let (_, value) = headers.iter().find(|(name, _)| name == "location")?;
    let (path, _) = value.split_once(['?', '#']).unwrap_or((value, ""));
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => path,
    };
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::spans::raw::{SpanId, SpanKey, TraceId, Value};

    fn span(kind: Kind, attributes: &[(&str, Value)]) -> RawSpan {
        RawSpan {
            key: SpanKey {
                trace: TraceId::from_bytes(&[1; 16]).unwrap(),
                span: SpanId::from_bytes(&[1; 8]).unwrap(),
            },
            parent: None,
            kind,
            name: "GET".to_owned(),
            start_ns: 0,
            end_ns: 0,
            attributes: Attributes(
                attributes
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone()))
                    .collect(),
            ),
            events: Vec::new(),
            is_error: false,
            status_message: String::new(),
            trace_state: String::new(),
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn roles_are_told_by_kind_and_attributes() {
        let method = ("http.method", text("GET"));
        let table = [
            (span(Kind::Client, std::slice::from_ref(&method)), Role::Attempt),
            (span(Kind::Server, std::slice::from_ref(&method)), Role::Server),
            (span(Kind::Internal, &[method]), Role::Context),
            (span(Kind::Client, &[("rpc.system", text("aws-api"))]), Role::Sdk),
            (span(Kind::Client, &[("gen_ai.system", text("openai"))]), Role::Sdk),
            (span(Kind::Client, &[("db.system", text("postgresql"))]), Role::Context),
        ];
        for (span, role) in table {
            assert_eq!(super::role(&span), role, "{span:?}");
        }
    }

    #[test]
    fn names_of_three_generations_say_the_same() {
        let stable = span(
            Kind::Client,
            &[
                ("http.request.method", text("GET")),
                ("url.full", text("https://api.example.com/v1/x?y=z")),
                ("http.response.status_code", Value::Int(429)),
                ("http.request.resend_count", Value::Int(1)),
                ("http.response.header.retry_after", Value::List(vec![text("1")])),
            ],
        );
        let old = span(
            Kind::Client,
            &[
                ("http.method", text("GET")),
                ("http.url", text("https://api.example.com/v1/x?y=z")),
                ("http.status_code", text("429")),
                ("http.retry_count", Value::Int(1)),
                ("http.response.header.retry-after", Value::List(vec![text("1")])),
            ],
        );
        assert_eq!(request(&stable, ""), request(&old, ""));
        let read = request(&stable, "");
        assert_eq!(read.status, Some(429));
        assert_eq!(read.counter.map(|counter| counter.attempt), Some(2));
        assert_eq!(read.headers, [("retry-after".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn one_span_for_a_loop_of_retries_was_taken_for_one_attempt() {
        let span = span(Kind::Client, &[("http.request.method", text("GET"))]);
        for (scope, may_hide) in [
            ("opentelemetry.instrumentation.requests", true),
            ("io.opentelemetry.aws-sdk-2.2", true),
            ("io.opentelemetry.google-http-client-1.19", true),
            ("io.opentelemetry.apache-httpclient-5.0", true),
            ("io.opentelemetry.contrib.php.guzzle", true),
            // Within the chain of the client, or at its transport.
            ("io.opentelemetry.apache-httpclient-5.2", false),
            ("io.opentelemetry.okhttp-3.0", false),
            ("System.Net.Http", false),
            ("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", false),
        ] {
            assert_eq!(request(&span, scope).may_hide, may_hide, "{scope}");
        }
    }

    #[test]
    fn a_host_without_an_address_keeps_its_port_unless_it_is_the_usual_one() {
        let table = [
            (
                vec![("server.address", text("h.example")), ("server.port", text("8080"))],
                "h.example:8080",
            ),
            (
                vec![("server.address", text("h.example")), ("server.port", Value::Int(443))],
                "h.example",
            ),
            (
                vec![("net.peer.name", text("2001:db8::1")), ("net.peer.port", Value::Int(81))],
                "[2001:db8::1]:81",
            ),
            (
                vec![("http.host", text("h.example:8080")), ("net.peer.port", Value::Int(8080))],
                "h.example:8080",
            ),
        ];
        for (attributes, expected) in table {
            assert_eq!(host(&span(Kind::Client, &attributes)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_redirect_leads_to_a_path() {
        let table = [
            ("/moved/v1/old?x=1", "/moved/v1/old"),
            ("https://h.example/a/b#c", "/a/b"),
            ("https://h.example", "/"),
        ];
        for (value, expected) in table {
            let headers = [("location".to_owned(), value.to_owned())];
            assert_eq!(location_path(&headers).as_deref(), Some(expected), "{value}");
        }
    }
}
