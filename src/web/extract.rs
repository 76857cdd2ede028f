//! Reads requests: bodies under caps, and axum's extractors with failures of our own.

use super::error::{Code, Failure};
use crate::config::{Config, Ingest};
use crate::ingest::body::{self, BodyError, Collector, Encoding};
use crate::pipeline::fair::{self, Place, Refusal, Room, Rule, Sender, Source};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The parameters after `?`, with a failure of ours where they can't be read.
#[derive(Debug, Clone, FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Failure))]
pub struct Query<T>(pub T);

/// The parameters in the path, with a failure of ours where they can't be read.
#[derive(Debug, Clone, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Failure))]
pub struct Path<T>(pub T);

/// A form's fields, with a failure of ours where they can't be read.
#[derive(Debug, Clone, FromRequest)]
#[from_request(via(axum::extract::Form), rejection(Failure))]
pub struct Form<T>(pub T);

/// A JSON body, with a failure of ours where it can't be read.
#[derive(Debug, Clone, FromRequest)]
#[from_request(via(axum::extract::Json), rejection(Failure))]
pub struct Json<T>(pub T);

/// Reads `what` out of a JSON body; where a field can't be used it is named. A list would be read as
/// the fields in their order.
pub(crate) fn object<T: DeserializeOwned>(
    body: serde_json::Value,
    what: &str,
) -> Result<T, Failure> {
    if !body.is_object() {
        return Err(Failure::new(Code::InvalidBody, format!("Expected a JSON object: {what}.")));
    }
    serde_path_to_error::deserialize(body).map_err(|error| {
        let field = error.path().to_string();
        let detail = format!("A field of {what} can't be used: {field}: {}.", error.inner());
        Failure::new(Code::InvalidBody, detail).with("parameter", serde_json::json!(field))
    })
}

/// The other end of the connection that a request came on, as [`super::serve`] puts it there; of a
/// request without a connection nothing is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(Option<SocketAddr>);

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(Some(address))
    }

    /// The peer of a request.
    pub(crate) fn of(request: &Extensions) -> Self {
        request.get().copied().unwrap_or(Self(None))
    }

    /// Where its requests come from, with the token that they carry, if any.
    pub(crate) fn source(self, token: Option<usize>) -> Source {
        Source::new(token, self.0.map(|address| address.ip()))
    }

    /// Its connection, as somebody who sends bodies.
    pub(crate) fn connection(self, token: Option<usize>) -> Sender {
        self.source(token).connection(self.0.map(|address| address.port()))
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// How much of request bodies is in memory over all requests, and how many are unpacked and read
/// at the same time.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    bytes: Room,
    readers: Arc<Semaphore>,
}

impl BodyBudget {
    pub(crate) fn new(limits: &Ingest) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            bytes: Room::new(limits.max_buffered_bytes),
            readers: Arc::new(Semaphore::new(cores.max(2))),
        }
    }

    /// Waits for a turn to unpack and read a body, which takes many times its size in memory.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.readers).acquire_owned().await.ok()
    }
}

/// The answer where there is no memory for more of a body.
fn no_memory(refusal: Refusal) -> Failure {
    // When others are done with theirs can't be known; they have to be soon.
    let wait = fair::with_jitter(Duration::ZERO);
    match refusal {
        Refusal::Full { .. } => {
            Failure::new(Code::QueueFull, "Too many bodies are being read. Send it after the wait.")
        }
        Refusal::OverShare { .. } => Failure::new(
            Code::OverFairShare,
            "Too many bodies of this sender are being read. Send it after the wait.",
        ),
    }
    .retry_after(wait)
}

/// A body as it arrived, within the caps. It counts against the budget until `memory` is dropped.
#[derive(Debug)]
pub(crate) struct CappedBody {
    /// What arrived, packed or not.
    pub(crate) bytes: Vec<u8>,
    /// How it is packed.
    pub(crate) encoding: Encoding,
    /// What it occupies; `None` for one without a byte.
    pub(crate) memory: Option<Place>,
}

impl CappedBody {
    /// Reads the body that `sender` sends as far as size, time and budget allow. Size and coding
    /// are judged by the header fields before anything is read.
    pub(crate) async fn read(
        headers: &HeaderMap,
        body: Body,
        sender: &Sender,
        budget: &BodyBudget,
        config: &Config,
    ) -> Result<Self, Failure> {
        let encoding = encoding(headers)?;
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let announced = announced.and_then(|digits| digits.parse().ok());
        let collector = Collector::new(config.ingest.max_body_bytes, announced)?;
        let limit = config.server.body_timeout;
        let collected = tokio::time::timeout(limit, collect(body, sender, budget, collector)).await;
        let (bytes, memory) = collected.map_err(|_| {
            let detail = format!("The body has to arrive within {} ms.", limit.as_millis());
            Failure::new(Code::RequestTimeout, detail)
                .header(header::CONNECTION, HeaderValue::from_static("close"))
        })??;
        Ok(Self { bytes, encoding, memory })
    }

    /// Whether it is unpacked already and no larger than `bytes`.
    pub(crate) fn is_small(&self, bytes: usize) -> bool {
        self.encoding == Encoding::Identity && self.bytes.len() <= bytes
    }

    /// What was packed, up to `cap` bytes of it; what came out counts against the budget too.
    pub(crate) fn inflate(&mut self, cap: usize) -> Result<Cow<'_, [u8]>, Failure> {
        let inflated = body::inflate(&self.bytes, self.encoding, cap)?;
        if let (Cow::Owned(bytes), Some(memory)) = (&inflated, &mut self.memory) {
            memory.grow(bytes.len(), Rule::Grown).map_err(no_memory)?;
        }
        Ok(inflated)
    }
}

async fn collect(
    body: Body,
    sender: &Sender,
    budget: &BodyBudget,
    mut collector: Collector,
) -> Result<(Vec<u8>, Option<Place>), Failure> {
    let mut memory = None::<Place>;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            tracing::debug!(error = &error as &dyn std::error::Error, "a body broke off");
            Failure::new(Code::InvalidBody, "The body broke off before its end.")
        })?;
        collector.push(&chunk)?;
        if let Some(memory) = &mut memory {
            memory.grow(chunk.len(), Rule::Part).map_err(no_memory)?;
        } else {
            let place = budget.bytes.take(sender, chunk.len(), Rule::Part);
            memory = Some(place.map_err(no_memory)?);
        }
    }
    Ok((collector.finish(), memory))
}

/// The content coding that the header fields name; several fields are one list (RFC 9110
/// section 5.3).
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Failure> {
    let fields: Result<Vec<&str>, _> =
        headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::to_str).collect();
    let list = fields.map_err(|_| BodyError::UnsupportedEncoding)?.join(",");
    Ok(Encoding::from_header(Some(&list))?)
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let code = match &error {
            BodyError::TooLarge { .. } | BodyError::TooDense { .. } => Code::TooLarge,
            BodyError::Corrupt { .. } => Code::InvalidCompression,
            BodyError::UnsupportedEncoding => {
                return Self::new(Code::UnsupportedEncoding, "Send gzip, zstd or neither.")
                    .header(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"));
            }
        };
        Self::told(code, &error)
    }
}
