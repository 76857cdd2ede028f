//! What every request passes through, and in which order.

use super::api::otlp;
use super::doors;
use super::error::{Code, Failure, STORE_WAIT, wants_page};
use super::state::AppState;
use crate::domain::redact;
use crate::metrics::Operation;
use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::any::Any;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tracing::Instrument;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Puts all layers around `router`. The last one here is the outermost: a request passes them from
/// the bottom up, its answer from the top down.
pub(super) fn apply(router: Router, state: &AppState) -> Router {
    router
        // Hosts and origins, before any handler runs.
        .layer(from_fn_with_state(state.clone(), doors::own_site))
        // A limit on the time of everything within.
        .layer(from_fn_with_state(state.clone(), time_limit))
        // A panic costs its own request only, and the answer still passes the layers below.
        .layer(CatchPanicLayer::custom(panicked))
        // Failures become pages for people, and what OTLP says for exporters.
        .layer(from_fn(as_asked))
        // Only whole answers are compressed, so below all that may replace one.
        .layer(CompressionLayer::new().gzip(true))
        // Every answer carries these, error or not.
        .layer(from_fn(answer_headers))
        // Outermost: the span sees the final status and all of the time.
        .layer(from_fn(in_span))
}

async fn time_limit(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with("/v1/access-logs/") {
        // A log may be long; its reader has a limit for each part that arrives.
        return next.run(request).await;
    }
    let limit = state.config.server.request_timeout;
    let response = tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        tracing::warn!("a request took longer than its limit");
        Failure::new(Code::TimedOut, "Ask for less at once, or try again later.")
            .retry_after(STORE_WAIT)
            .into_response()
    });
    if response.extensions().get::<Failure>().is_some_and(Failure::is_of_read) {
        state.metrics.store_failed(Operation::Read);
    }
    response
}

/// The panic itself is logged by the hook that `telemetry` sets.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    Failure::new(Code::Internal, "It has been logged. Trying again may help.").into_response()
}

async fn as_asked(request: Request, next: Next) -> Response {
    let is_person = wants_page(&request);
    let exporter = otlp::answered_in(&request);
    let response = next.run(request).await;
    match (response.extensions().get::<Failure>().cloned(), exporter) {
        (Some(failure), _) if is_person => super::error_page::replace(&failure, response),
        (Some(failure), Some(encoding)) => otlp::refused(failure, encoding),
        _ => response,
    }
}

/// Header fields of every answer. The policy names no source but this one and allows nothing
/// inline (<https://www.w3.org/TR/CSP3/>). `same-origin` as referrer policy, because with
/// `no-referrer` browsers hide the origin of our own forms.
const ANSWER_HEADERS: [(HeaderName, HeaderValue); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), geolocation=(), microphone=()"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

async fn answer_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.extend(ANSWER_HEADERS);
    // What was sent here, or pasted, stays in no cache, unless its handler knows better (assets).
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The caller's request id where it is short and plain, else one of our own.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match given.filter(|id| (1..=64).contains(&id.len()) && id.chars().all(plain)) {
        Some(id) => redact::text(id).text,
        None => hex::encode(rand::random::<[u8; 12]>()),
    }
}

/// The method as OpenTelemetry names it: one of the known ones or `_OTHER`.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => "_OTHER",
    }
}

/// Requests that come all the time, and those of an OTLP exporter: where ours was pointed at
/// ourselves, a span or a line about one would be sent in the next, for ever.
fn is_quiet(path: &str) -> bool {
    const QUIET: [&str; 6] =
        ["/healthz", "/readyz", "/metrics", "/v1/traces", "/v1/metrics", "/v1/logs"];
    QUIET.contains(&path)
}

/// A span per request, named by the route's template, with the names of the semantic conventions
/// (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>). A trace that the caller began
/// is continued. The query is left out, and the path of a route with parameters is cleaned: what
/// people look up may be secret.
async fn in_span(request: Request<Body>, next: Next) -> Response {
    let id = request_id(request.headers());
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let path = request.uri().path();
    let shown = match &route {
        Some(route) if route == path => path.to_owned(),
        _ => redact::text(&path.chars().take(256).collect::<String>()).text,
    };
    let name =
        route.as_ref().map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
    macro_rules! request_span {
        ($level:expr) => {
            tracing::span!(
                $level,
                "request",
                otel.name = name,
                otel.kind = "server",
                otel.status_code = Empty,
                http.request.method = method,
                http.route = route,
                http.response.status_code = Empty,
                url.scheme = "http",
                url.path = shown,
                error.r#type = Empty,
                request.id = id,
            )
        };
    }
    let is_quiet = is_quiet(path);
    let span = if is_quiet {
        request_span!(tracing::Level::DEBUG)
    } else {
        request_span!(tracing::Level::INFO)
    };
    if request.headers().contains_key("traceparent") {
        let caller = opentelemetry::global::get_text_map_propagator(|propagator| {
            propagator.extract(&opentelemetry_http::HeaderExtractor(request.headers()))
        });
        // Without an exporter there is nothing to continue.
        drop(span.set_parent(caller));
    }
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", status.as_str());
    }
    if !is_quiet {
        span.in_scope(|| tracing::debug!(http.response.status_code = status.as_u16(), "answered"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::{Config, Sources};
    use crate::pipeline::{Intake, IntakeSettings};
    use crate::store::Store;
    use axum::http::StatusCode;
    use axum::routing::get;
    use std::sync::Arc;
    use std::time::Duration;
    use tower::ServiceExt;

    async fn broken() -> &'static str {
        panic!("broken on purpose")
    }

    async fn slow() -> &'static str {
        tokio::time::sleep(Duration::from_mins(1)).await;
        "late"
    }

    async fn answer(path: &str, accept: &str) -> Response {
        let folder = tempfile::tempdir().unwrap();
        let flags = vec![("request_timeout_ms".to_owned(), "50".to_owned())];
        let config = Config::load(&Sources { flags, ..Sources::default() }).unwrap();
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        let store = Store::open(&url).await.unwrap();
        let clock = Arc::new(SystemClock);
        let intake = Intake::start(store.clone(), clock.clone(), IntakeSettings::default());
        let state = AppState::new(store, intake, clock, Arc::new(config), b"key");
        let routes = Router::new().route("/broken", get(broken)).route("/slow", get(slow));
        let request = Request::get(path).header("host", "localhost").header("accept", accept);
        apply(routes, &state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn a_panic_and_a_slow_handler_cost_their_own_request_only() {
        for (path, status, code) in [
            ("/broken", StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
            ("/slow", StatusCode::SERVICE_UNAVAILABLE, Code::TimedOut),
        ] {
            for (accept, media_type) in
                [("*/*", "application/problem+json"), ("text/html", "text/html; charset=utf-8")]
            {
                let response = answer(path, accept).await;
                assert_eq!(response.status(), status, "{path}");
                assert_eq!(response.headers()[header::CONTENT_TYPE], media_type, "{path}");
                assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY));
                assert!(response.headers().contains_key(REQUEST_ID));
                assert_eq!(response.extensions().get::<Failure>().map(|f| f.code), Some(code));
            }
        }
    }
}
