//! What programs ask and send: a file per resource. The JSON twins of pages serialise the same
//! structures as the pages show; [`schema`] describes the values of `domain` to the document.

pub mod access_logs;
pub mod alerts;
pub mod classify;
pub mod document;
pub mod events;
pub mod export;
pub mod health;
pub mod marks;
pub mod metrics;
pub mod otlp;
pub mod schema;
pub mod twins;

use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// An error as programs get it (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A short summary, the same for every occurrence.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// What went wrong, in one stable word.
    #[schema(example = "invalid-parameter")]
    pub code: String,
    /// What to do about it.
    pub detail: String,
}

/// The errors that any address may answer with.
#[derive(Debug, IntoResponses)]
#[expect(dead_code, reason = "describes answers in the API document and is never built")]
pub(crate) enum Problems {
    /// Something in the request cannot be used.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Refused(Problem),
    /// The service cannot answer now; where it knows, `Retry-After` says when it can.
    #[response(status = "5XX", content_type = "application/problem+json")]
    Failed(Problem),
}
