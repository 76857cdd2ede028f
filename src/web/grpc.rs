//! OTLP over gRPC, on a port of its own, since many collectors default to it.
//!
//! A gRPC call with one message each way is an HTTP/2 POST whose body is the message behind five
//! bytes, and whose answer ends with the status in trailers (grpc.io, "gRPC over HTTP2"). That much
//! is done here, over the intake of `api::otlp`; a framework for it would bring a second web server.

use super::api::otlp::{self, Signal};
use super::error::Failure;
use super::extract::{CappedBody, Peer};
use super::serve::accept_all;
use super::{AppState, Code, doors};
use crate::ingest::body;
use crate::ingest::otlp::Encoding;
use crate::shutdown::Shutdown;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Bytes before a message: whether it is packed, and its length.
const PREFIX: usize = 5;
/// Calls at once on one connection.
const MAX_STREAMS: u32 = 64;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Serves calls until a stop is requested, then finishes those under way.
pub(crate) async fn serve(listener: TcpListener, state: AppState, shutdown: &Shutdown) {
    let server = &state.config.server;
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(server.header_timeout)
        .keep_alive_timeout(server.header_timeout)
        .max_header_list_size(16 * 1024);
    let graceful = accept_all(listener, server, shutdown, |stream, peer| {
        let state = state.clone();
        let service = hyper::service::service_fn(move |request| call(state.clone(), peer, request));
        http.serve_connection(stream, service)
    })
    .await;
    tokio::select! {
        () = graceful.shutdown() => {}
        () = shutdown.forced() => {}
    }
}

/// One call. Whatever becomes of it, HTTP says 200 and the trailers say what.
async fn call(
    state: AppState,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let limit = state.config.server.request_timeout;
    let work = tokio::time::timeout(limit, export(&state, Peer::new(peer), request));
    let done = work.await.unwrap_or_else(|_| {
        Err(Failure::new(Code::TimedOut, "It took too long; send it again.").into())
    });
    Ok(match done {
        Ok(message) => answered(&message),
        Err(refusal) => refused(&refusal),
    })
}

/// What a caller is told instead of an answer.
struct Refusal {
    /// The number of `google.rpc.Code`.
    code: u8,
    message: String,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { code: otlp::rpc_code(failure.code), message: failure.detail }
    }
}

async fn export(
    state: &AppState,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Vec<u8>, Refusal> {
    let (parts, incoming) = request.into_parts();
    let is_grpc = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let signal = Signal::of_method(parts.uri.path());
    let Some(signal) = signal.filter(|_| parts.method == Method::POST && is_grpc) else {
        let message = "this port takes calls of Export of OTLP's TraceService, LogsService and \
                       MetricsService";
        return Err(Refusal { code: 12, message: message.to_owned() });
    };
    let known = &state.config.access.ingest_tokens;
    let token = doors::sending_token(&parts.headers, known);
    if !known.is_empty() && token.is_none() {
        let message = "send authorization: Bearer with one of the ingest tokens as metadata";
        return Err(Refusal { code: 16, message: message.to_owned() });
    }
    state.intake.admits(&peer.source(token)).map_err(Failure::from)?;
    let sender = peer.connection(token);
    let body = Body::new(incoming);
    // The message's own packing is named elsewhere.
    let mut body =
        CappedBody::read(&HeaderMap::new(), body, &sender, &state.bodies, &state.config).await?;
    body.encoding = packing(&body.bytes, &parts.headers)?;
    body.bytes.drain(..PREFIX);
    let told = otlp::keep(state, signal, body, Encoding::Protobuf).await?;
    Ok(otlp::export_response(&told))
}

/// How the one message of a body is packed.
fn packing(bytes: &[u8], headers: &HeaderMap) -> Result<body::Encoding, Refusal> {
    let invalid = |message: &str| Refusal { code: 3, message: message.to_owned() };
    let Some((&[flag, a, b, c, d], message)) = bytes.split_first_chunk() else {
        return Err(invalid("the call has no message"));
    };
    if usize::try_from(u32::from_be_bytes([a, b, c, d])) != Ok(message.len()) {
        return Err(invalid("the call has to have one whole message"));
    }
    if flag == 0 {
        return Ok(body::Encoding::Identity);
    }
    let packing = headers.get("grpc-encoding").and_then(|value| value.to_str().ok());
    match body::Encoding::from_header(packing) {
        Ok(encoding) if encoding != body::Encoding::Identity => Ok(encoding),
        _ => Err(Refusal { code: 12, message: "grpc-encoding: send gzip or identity".to_owned() }),
    }
}

fn answered(message: &[u8]) -> Response<Body> {
    let mut bytes = Vec::with_capacity(PREFIX + message.len());
    bytes.push(0);
    bytes.extend(u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(message);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let frames = [Frame::data(Bytes::from(bytes)), Frame::trailers(trailers)];
    let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
    let mut response = Response::new(Body::new(http_body_util::StreamBody::new(frames)));
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

/// Without an answer the trailers are the only header fields.
fn refused(refusal: &Refusal) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, GRPC);
    headers.insert(STATUS, HeaderValue::from(u16::from(refusal.code)));
    let message =
        percent_encoding::utf8_percent_encode(&refusal.message, percent_encoding::CONTROLS);
    if let Ok(message) = HeaderValue::from_str(&message.to_string()) {
        headers.insert(MESSAGE, message);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_is_one_whole_message_or_refused(
            flag in 0_u8..3,
            length in prop_oneof![0_u32..40, any::<u32>()],
            rest in proptest::collection::vec(any::<u8>(), 0..40),
            cut in any::<proptest::sample::Index>(),
            encoding in proptest::option::of("gzip|zstd|identity|br|\\PC{0,6}"),
        ) {
            let mut bytes = vec![flag];
            bytes.extend(length.to_be_bytes());
            bytes.extend(&rest);
            let mut headers = HeaderMap::new();
            if let Some(value) = encoding.and_then(|text| HeaderValue::from_str(&text).ok()) {
                headers.insert("grpc-encoding", value);
            }
            let is_whole = usize::try_from(length) == Ok(rest.len());
            match packing(&bytes, &headers) {
                Ok(packing) => {
                    prop_assert!(is_whole);
                    prop_assert_eq!(packing == body::Encoding::Identity, flag == 0);
                }
                Err(refusal) => prop_assert!(refusal.code == 12 || !is_whole && refusal.code == 3),
            }
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(!is_whole || packing(&bytes, &headers).is_err());
        }
    }
}
