//! Reads requests: bodies under caps, and axum's extractors with failures of our own.

use super::error::{Code, Failure};
use crate::config::{Config, Ingest};
use crate::ingest::body::{self, BodyError, Collector, Encoding};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::StreamExt;
use std::borrow::Cow;
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

/// How much of request bodies is in memory over all requests, and how many are unpacked and read
/// at the same time.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    bytes: Arc<Semaphore>,
    readers: Arc<Semaphore>,
}

impl BodyBudget {
    pub(crate) fn new(limits: &Ingest) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            bytes: Arc::new(Semaphore::new(limits.max_buffered_bytes)),
            readers: Arc::new(Semaphore::new(cores.max(2))),
        }
    }

    /// Waits for a turn to unpack and read a body, which takes many times its size in memory.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.readers).acquire_owned().await.ok()
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.bytes).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

/// A body as it arrived, within the caps. It counts against the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct CappedBody {
    /// What arrived, packed or not.
    pub(crate) bytes: Vec<u8>,
    /// How it is packed.
    pub(crate) encoding: Encoding,
    _budget: Option<OwnedSemaphorePermit>,
}

impl CappedBody {
    /// Reads `body` as far as size, time and budget allow. Size and coding are judged by the
    /// header fields before anything is read.
    pub(crate) async fn read(
        headers: &HeaderMap,
        body: Body,
        budget: &BodyBudget,
        config: &Config,
    ) -> Result<Self, Failure> {
        let encoding = encoding(headers)?;
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let announced = announced.and_then(|digits| digits.parse().ok());
        let collector = Collector::new(config.ingest.max_body_bytes, announced)?;
        let limit = config.server.body_timeout;
        let collected = tokio::time::timeout(limit, collect(body, budget, collector)).await;
        let (bytes, budget) = collected.map_err(|_| {
            let detail = format!("The body has to arrive within {} ms.", limit.as_millis());
            Failure::new(Code::RequestTimeout, detail)
                .header(header::CONNECTION, HeaderValue::from_static("close"))
        })??;
        Ok(Self { bytes, encoding, _budget: budget })
    }

    /// Whether it is unpacked already and no larger than `bytes`.
    pub(crate) fn is_small(&self, bytes: usize) -> bool {
        self.encoding == Encoding::Identity && self.bytes.len() <= bytes
    }

    /// What was packed, up to `cap` bytes of it.
    pub(crate) fn inflate(&self, cap: usize) -> Result<Cow<'_, [u8]>, Failure> {
        Ok(body::inflate(&self.bytes, self.encoding, cap)?)
    }
}

async fn collect(
    body: Body,
    budget: &BodyBudget,
    mut collector: Collector,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Failure> {
    let mut held = None::<OwnedSemaphorePermit>;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            tracing::debug!(error = &error as &dyn std::error::Error, "a body broke off");
            Failure::new(Code::InvalidBody, "The body broke off before its end.")
        })?;
        collector.push(&chunk)?;
        let more = budget.take(chunk.len()).ok_or_else(|| {
            Failure::new(Code::QueueFull, "Too many bodies are being read. Send it later.")
                .retry_after(Duration::from_secs(1))
        })?;
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
    }
    Ok((collector.finish(), held))
}

/// The content coding that the header fields name; several fields are one list (RFC 9110
/// section 5.3).
fn encoding(headers: &HeaderMap) -> Result<Encoding, Failure> {
    let fields: Result<Vec<&str>, _> =
        headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::to_str).collect();
    let list = fields.map_err(|_| BodyError::UnsupportedEncoding)?.join(",");
    Ok(Encoding::from_header(Some(&list))?)
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let code = match &error {
            BodyError::TooLarge { .. } => Code::TooLarge,
            BodyError::Corrupt { .. } => Code::InvalidCompression,
            BodyError::UnsupportedEncoding => {
                return Self::new(Code::UnsupportedEncoding, "Send gzip, zstd or neither.")
                    .header(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"));
            }
        };
        Self::told(code, &error)
    }
}
