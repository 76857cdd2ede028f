//! What is kept of a span until its operation is settled, and a while longer.

use super::hints::{Counter, ToldWait};
use super::raw::{SpanId, SpanKey};
use crate::domain::event::Event;
use crate::domain::spelling::spelled_enum;
use serde::{Deserialize, Serialize};

spelled_enum! {
    /// What a span stands for.
    pub enum Role {
        /// One request of a client, as far as its instrumentation can see.
        Attempt => "attempt",
        /// A call of an SDK, with all its attempts.
        Sdk => "sdk",
        /// A request as the server saw it.
        Server => "server",
        /// Anything else: kept because attempts may have it as their parent.
        Context => "context",
    }
}

/// A span without anything secret: its event went through the same door as native ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// What it is known by.
    pub key: SpanKey,
    /// The span that it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// Its start, in microseconds since 1970.
    pub start_us: i64,
    /// Its end; never before its start.
    pub end_us: i64,
    /// What it stands for.
    pub role: Role,
    /// The instrumentation that made it.
    pub scope: String,
    /// The service that sent it.
    pub service: String,
    /// Waits that its events tell of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_waits: Vec<ToldWait>,
    /// What it says about a request: of attempts, of servers' spans, and of calls of SDKs that have
    /// a status code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Box<Attempt>>,
}

/// What a span says about a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The event that it becomes; operation, number, wait and outcome are filled in when its
    /// operation is settled.
    pub event: Event,
    /// The path without its query; the event's route may be a template.
    pub path: Option<String>,
    /// The path that a redirect leads to.
    pub location: Option<String>,
    /// The client's own count.
    pub counter: Option<Counter>,
    /// An id that all attempts of an operation share.
    pub shared_id: Option<String>,
    /// The wait after it, where the span itself tells one.
    pub resend_delay_ms: Option<i64>,
    /// The promised wait in milliseconds, as far as it is needed to tell operations apart.
    pub promised_ms: Option<i64>,
    /// How many more attempts the span says it stands for (`retry_attempts` of botocore, or events
    /// that tell of a retry within it).
    pub hidden_retries: Option<u32>,
    /// Whether its instrumentation is one that covers a whole loop of retries with one span.
    pub may_hide: bool,
    /// The language of the client (`telemetry.sdk.language`), for what to switch on.
    pub language: Option<String>,
    /// Whether header fields of the answer were captured.
    pub has_headers: bool,
    /// Whether the upstream is the sender's own name: a server's span that doesn't say how it was
    /// called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_named_after_service: bool,
}

/// Spans of one neighbourhood are looked at together: those of a service that send a method to a
/// host. Only attempts and calls of SDKs have one.
impl Span {
    /// The name of its neighbourhood.
    pub fn neighbourhood(&self) -> Option<String> {
        if !matches!(self.role, Role::Attempt | Role::Sdk) {
            return None;
        }
        let event = &self.attempt.as_ref()?.event;
        let method = event.method.as_deref().unwrap_or_default();
        Some(format!("{method} {} {}", event.host, event.service))
    }

    /// Its status code.
    pub fn status(&self) -> Option<u16> {
        self.attempt.as_ref().and_then(|attempt| attempt.event.status)
    }
}
