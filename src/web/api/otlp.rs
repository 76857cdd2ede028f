//! `POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP/HTTP (opentelemetry-proto, "OTLP/HTTP"),
//! protobuf and JSON.
//!
//! Spans are acknowledged once they are on disk; what becomes of them is `pipeline::settler`'s. What
//! can be tried again is answered with 503 and `Retry-After`: of the codes that exporters know, all
//! of them try again after that one, while older ones drop what was answered 429 or 500.
//!
//! Nothing here makes a span of our own that is exported: where our exporter was pointed at
//! ourselves, each export would be the reason for the next.

use crate::domain::stored::SenderCounts;
use crate::ingest::otlp::{self, DecodeError, Encoding, Options};
use crate::pipeline::settler;
use crate::store::{MAX_VOLUME_SERIES, StoreError};
use crate::telemetry;
use crate::web::extract::{CappedBody, Peer};
use crate::web::{AppState, Code, Failure, doors};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::time::Duration;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Bodies beyond this, and packed ones, are read on a thread of their own; in bytes.
const LARGE_BODY: usize = 16 * 1024;

/// `POST /v1/traces`: takes spans of any OpenTelemetry exporter or collector and answers when they
/// are on disk.
#[utoipa::path(post, path = "/v1/traces", tag = "otlp",
    request_body(description = "An `ExportTraceServiceRequest` of opentelemetry-proto; gzip and zstd are taken", content(
        (String = "application/x-protobuf"), (serde_json::Value = "application/json"))),
    responses((status = 200, description = "An `ExportTraceServiceResponse` in the request's encoding. The spans are on disk; `partial_success` tells of those that were refused"),
        (status = 400, description = "The body can't be read; a `google.rpc.Status`, as with every refusal"),
        (status = 401, description = "No ingest token, or a wrong one; a `google.rpc.Status`"),
        (status = 413, description = "Too large, or too many spans; a `google.rpc.Status`"),
        (status = 415, description = "Neither protobuf nor JSON, or a content coding that isn't read; a `google.rpc.Status`"),
        (status = 503, description = "Nothing was stored; `Retry-After` says when to send it again; a `google.rpc.Status`")))]
pub(crate) async fn traces(
    State(state): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    export(&state, Signal::Traces, peer, &headers, body).await
}

/// `POST /v1/logs`: takes log records of any OpenTelemetry exporter or collector. Waits that HTTP
/// clients log before they retry are kept; everything else is passed over and not stored.
#[utoipa::path(post, path = "/v1/logs", tag = "otlp",
    request_body(description = "An `ExportLogsServiceRequest` of opentelemetry-proto; gzip and zstd are taken", content(
        (String = "application/x-protobuf"), (serde_json::Value = "application/json"))),
    responses((status = 200, description = "An `ExportLogsServiceResponse` in the request's encoding. What is of use is on disk"),
        (status = 400, description = "The body can't be read; a `google.rpc.Status`, as with every refusal"),
        (status = 401, description = "No ingest token, or a wrong one; a `google.rpc.Status`"),
        (status = 413, description = "Too large, or too many records; a `google.rpc.Status`"),
        (status = 415, description = "Neither protobuf nor JSON, or a content coding that isn't read; a `google.rpc.Status`"),
        (status = 503, description = "Nothing was stored; `Retry-After` says when to send it again; a `google.rpc.Status`")))]
pub(crate) async fn logs(
    State(state): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    export(&state, Signal::Logs, peer, &headers, body).await
}

/// `POST /v1/metrics`: takes metrics of any OpenTelemetry exporter or collector. How many requests
/// HTTP clients counted is kept, by minute; everything else is passed over and not stored.
#[utoipa::path(post, path = "/v1/metrics", tag = "otlp",
    request_body(description = "An `ExportMetricsServiceRequest` of opentelemetry-proto; gzip and zstd are taken", content(
        (String = "application/x-protobuf"), (serde_json::Value = "application/json"))),
    responses((status = 200, description = "An `ExportMetricsServiceResponse` in the request's encoding. What is of use is on disk; `partial_success` tells of data points that were refused"),
        (status = 400, description = "The body can't be read; a `google.rpc.Status`, as with every refusal"),
        (status = 401, description = "No ingest token, or a wrong one; a `google.rpc.Status`"),
        (status = 413, description = "Too large, or too many data points; a `google.rpc.Status`"),
        (status = 415, description = "Neither protobuf nor JSON, or a content coding that isn't read; a `google.rpc.Status`"),
        (status = 503, description = "Nothing was stored; `Retry-After` says when to send it again; a `google.rpc.Status`")))]
pub(crate) async fn metrics(
    State(state): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    export(&state, Signal::Metrics, peer, &headers, body).await
}

/// What is exported; each has a message and an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Data points.
    Metrics,
}

impl Signal {
    /// The method that takes it over gRPC, as a path (opentelemetry-proto, `collector/`).
    pub(crate) fn of_method(path: &str) -> Option<Self> {
        let method = path.strip_prefix("/opentelemetry.proto.collector.")?;
        match method {
            "trace.v1.TraceService/Export" => Some(Self::Traces),
            "logs.v1.LogsService/Export" => Some(Self::Logs),
            "metrics.v1.MetricsService/Export" => Some(Self::Metrics),
            _ => None,
        }
    }

    /// The name of the number of refused items in its answer as JSON.
    const fn rejected(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
            Self::Metrics => "rejectedDataPoints",
        }
    }
}

/// What a sender is told of items that were refused.
#[derive(Debug, Default)]
pub(crate) struct Told {
    rejected: usize,
    problems: Vec<String>,
}

async fn export(
    state: &AppState,
    signal: Signal,
    peer: Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let encoding = encoding(headers).ok_or_else(unread)?;
    let body = receive(state, peer, headers, body).await?;
    let told = keep(state, signal, body, encoding).await?;
    Ok(accepted(signal, &told, encoding))
}

/// Reads a body and keeps what is of use in it; when it returns that is on disk.
pub(crate) async fn keep(
    state: &AppState,
    signal: Signal,
    body: CappedBody,
    encoding: Encoding,
) -> Result<Told, Failure> {
    match signal {
        Signal::Traces => keep_spans(state, body, encoding).await,
        Signal::Logs => keep_waits(state, body, encoding).await,
        Signal::Metrics => keep_volumes(state, body, encoding).await,
    }
}

/// Reads the waits that a body's log records tell of and keeps them.
async fn keep_waits(
    state: &AppState,
    body: CappedBody,
    encoding: Encoding,
) -> Result<Told, Failure> {
    let max_items = state.config.ingest.max_items;
    let read = move |bytes: &[u8]| otlp::logged_waits(bytes, encoding, max_items);
    let (waits, _memory) = decode(state, body, read).await?;
    let added = state.store.add_waits(&waits, state.clock.now()).await;
    added.map_err(|error| not_stored(&error))?;
    Ok(Told::default())
}

/// Reads the data points of a body and keeps what is new in them.
async fn keep_volumes(
    state: &AppState,
    body: CappedBody,
    encoding: Encoding,
) -> Result<Told, Failure> {
    let (hasher, max_items) = (state.hasher.clone(), state.config.ingest.max_items);
    let read = move |bytes: &[u8]| {
        let options = Options { hasher: &hasher, max_items, ourselves: None };
        otlp::metrics::volumes(bytes, encoding, &options)
    };
    let (volumes, _memory) = decode(state, body, read).await?;
    for (service, rejected) in &volumes.rejected_of {
        let rejected = i64::try_from(*rejected).unwrap_or(i64::MAX);
        let counts = SenderCounts { rejected, ..SenderCounts::default() };
        state.senders.add(state.intake.series().sender(service), &counts);
    }
    let mut told = Told { rejected: volumes.rejected, problems: volumes.problems };
    let added = state.store.add_volumes(volumes.points, state.clock.now()).await;
    let without_room = added.map_err(|error| not_stored(&error))?;
    if without_room > 0 {
        told.rejected = told.rejected.saturating_add(without_room);
        told.problems.push(format!(
            "{without_room} data points are of series beyond {MAX_VOLUME_SERIES} of services, \
             upstreams and answers"
        ));
    }
    Ok(told)
}

fn not_stored(error: &StoreError) -> Failure {
    let cause = error as &dyn std::error::Error;
    tracing::warn!(error = cause, "what was sent over OTLP could not be stored");
    Failure::of_store(error)
}

/// A body, as far as there is room for what is in it.
async fn receive(
    state: &AppState,
    peer: Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<CappedBody, Failure> {
    let token = doors::sending_token(headers, &state.config.access.ingest_tokens);
    state.intake.admits(&peer.source(token))?;
    let sender = peer.connection(token);
    CappedBody::read(headers, body, &sender, &state.bodies, &state.config).await
}

/// Reads the spans of a body and keeps them.
async fn keep_spans(
    state: &AppState,
    body: CappedBody,
    encoding: Encoding,
) -> Result<Told, Failure> {
    let (hasher, max_items) = (state.hasher.clone(), state.config.ingest.max_items);
    let read = move |bytes: &[u8]| {
        let ourselves = telemetry::ourselves();
        otlp::traces(bytes, encoding, &Options { hasher: &hasher, max_items, ourselves })
    };
    let (decoded, _memory) = decode(state, body, read).await?;
    if decoded.rejected > 0 {
        state.metrics.rejected(decoded.rejected);
        let service = decoded.spans.first().map_or("", |span| span.service.as_str());
        let rejected = i64::try_from(decoded.rejected).unwrap_or(i64::MAX);
        let counts = SenderCounts { rejected, ..SenderCounts::default() };
        state.senders.add(state.intake.series().sender(service), &counts);
    }
    let now = state.clock.now();
    let due_at = settler::first_due(now);
    let added = state.store.add_spans(&decoded.spans, now, due_at).await;
    added.map_err(|error| not_stored(&error))?;
    Ok(Told { rejected: decoded.rejected, problems: decoded.problems })
}

type Memory = Option<crate::pipeline::fair::Place>;

/// Unpacks and reads a body, large ones away from the threads that answer others. What it occupies
/// is counted until the second part is dropped.
async fn decode<T: Send + 'static>(
    state: &AppState,
    mut body: CappedBody,
    read: impl FnOnce(&[u8]) -> Result<T, DecodeError> + Send + 'static,
) -> Result<(T, Memory), Failure> {
    let cap = state.config.ingest.max_inflated_bytes;
    let is_small = body.is_small(LARGE_BODY);
    let work = move || {
        let decoded = read(&body.inflate(cap)?)?;
        Ok((decoded, body.memory.take()))
    };
    if is_small {
        return work();
    }
    let turn = state.bodies.turn().await;
    let reading = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    reading.await.map_err(|error| Failure::internal(&error))?
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let code = match &error {
            DecodeError::Undecodable { .. } => Code::InvalidBody,
            DecodeError::TooMany { .. } => Code::TooLarge,
        };
        Self::told(code, &error)
    }
}

/// What the sender says the body is; `None` for what isn't read.
fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let media_type = value.split(';').next().unwrap_or_default();
    match media_type.trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" | "application/protobuf" => Some(Encoding::Protobuf),
        "application/json" => Some(Encoding::Json),
        _ => None,
    }
}

/// How a failure at one of these addresses is to be written; `None` for other addresses.
pub(crate) fn answered_in(request: &Request) -> Option<Encoding> {
    let is_ours = matches!(request.uri().path(), "/v1/traces" | "/v1/logs" | "/v1/metrics");
    is_ours.then(|| encoding(request.headers()).unwrap_or(Encoding::Json))
}

/// The answer to a body that is neither.
fn unread() -> Failure {
    let accepted = HeaderValue::from_static("application/x-protobuf, application/json");
    let detail = "Send content-type: application/x-protobuf or application/json.";
    Failure::new(Code::UnsupportedMediaType, detail)
        .header(HeaderName::from_static("accept-post"), accepted)
}

fn answer(body: impl Into<Bytes>, encoding: Encoding) -> Response {
    let media_type = match encoding {
        Encoding::Protobuf => PROTOBUF,
        Encoding::Json => JSON,
    };
    let body: Bytes = body.into();
    ([(header::CONTENT_TYPE, media_type)], body).into_response()
}

fn accepted(signal: Signal, told: &Told, encoding: Encoding) -> Response {
    let response = match encoding {
        Encoding::Protobuf => export_response(told),
        Encoding::Json if told.rejected > 0 => {
            // Numbers of 64 bits are texts in the JSON of protobuf.
            let (rejected, message) = (told.rejected.to_string(), told.problems.join("; "));
            let told = json!({signal.rejected(): rejected, "errorMessage": message});
            json!({ "partialSuccess": told }).to_string().into_bytes()
        }
        Encoding::Json => b"{}".to_vec(),
    };
    answer(response, encoding)
}

/// An answer to an export in protobuf; those of all signals have the same fields.
pub(crate) fn export_response(told: &Told) -> Vec<u8> {
    if told.rejected == 0 {
        return Vec::new();
    }
    // `partial_success` is field 1; in it `rejected_spans` (or what it counts) 1 and
    // `error_message` 2.
    let message = told.problems.join("; ");
    bytes_field(1, &[number_field(1, told.rejected), text_field(2, &message)].concat())
}

/// A failure as exporters understand it: a `google.rpc.Status`, and 503 for all that passes.
pub(crate) fn refused(mut failure: Failure, encoding: Encoding) -> Response {
    match failure.code {
        Code::OverFairShare => failure.code = Code::QueueFull,
        Code::RequestTimeout => {
            failure.code = Code::QueueFull;
            failure = failure.retry_after(Duration::from_secs(1));
        }
        _ => {}
    }
    let (code, detail) = (rpc_code(failure.code), failure.detail.clone());
    let problem = failure.into_response();
    let body = match encoding {
        // `code` is field 1, `message` field 2 (google/rpc/status.proto).
        Encoding::Protobuf => [number_field(1, code.into()), text_field(2, &detail)].concat(),
        Encoding::Json => json!({"code": code, "message": detail}).to_string().into_bytes(),
    };
    let mut response = answer(body, encoding);
    *response.status_mut() = problem.status();
    let (problem, _) = problem.into_parts();
    for (name, value) in &problem.headers {
        if !matches!(*name, header::CONTENT_TYPE | header::CONTENT_LENGTH) {
            response.headers_mut().append(name, value.clone());
        }
    }
    *response.extensions_mut() = problem.extensions;
    response
}

/// The number of `google.rpc.Code` that goes with a failure.
pub(crate) const fn rpc_code(code: Code) -> u8 {
    match code {
        Code::TokenRequired => 16,
        Code::ForeignOrigin => 7,
        Code::NotFound => 5,
        Code::MethodNotAllowed => 12,
        Code::TooLarge => 8,
        // All that passes is `UNAVAILABLE`, which exporters try again after.
        Code::QueueFull
        | Code::OverFairShare
        | Code::RequestTimeout
        | Code::StoreUnavailable
        | Code::StoreFull
        | Code::Stopping
        | Code::TimedOut => 14,
        Code::Internal | Code::StoreDamaged => 13,
        _ => 3,
    }
}

/// A number as a field of a protobuf message; fields up to 15 are known here.
fn number_field(field: u8, number: usize) -> Vec<u8> {
    [&[field << 3], varint(number).as_slice()].concat()
}

/// A text as a field of a protobuf message.
fn text_field(field: u8, text: &str) -> Vec<u8> {
    bytes_field(field, text.as_bytes())
}

fn bytes_field(field: u8, bytes: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2], varint(bytes.len()).as_slice(), bytes].concat()
}

/// Seven bits a byte, the lowest first; all bytes but the last have the eighth.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use prost::Message as _;

    #[tokio::test]
    async fn answers_in_protobuf_are_read_by_others() {
        use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
        let told = Told { rejected: 300, problems: vec!["x".repeat(200)] };
        for (told, rejected) in [(told, Some(300)), (Told::default(), None)] {
            let answer = accepted(Signal::Traces, &told, Encoding::Protobuf);
            let mut body = answer.into_body().into_data_stream();
            let bytes = body.next().await.transpose().unwrap().unwrap_or_default();
            let read = ExportTraceServiceResponse::decode(bytes).unwrap().partial_success;
            assert_eq!(read.as_ref().map(|told| told.rejected_spans), rejected);
            assert!(read.is_none_or(|told| told.error_message == "x".repeat(200)));
        }
    }
}
