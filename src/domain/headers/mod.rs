//! The dictionary of rate-limit header fields, by owner and unit.

mod capture;
mod hosts;

pub use capture::is_allowed;
pub use hosts::{HOSTS, HostRule, provider_of};

use super::response::HeaderFields;
use super::spelling::spelled_enum;
use super::time::{Millis, UnixMillis};

spelled_enum! {
    /// What a rate-limit field states.
    pub enum FieldKind {
        /// How much is allowed.
        Limit => "limit",
        /// How much is left.
        Remaining => "remaining",
        /// When the allowance is renewed.
        Reset => "reset",
        /// How much is used.
        Used => "used",
        /// A policy: an allowance and its window.
        Policy => "policy",
        /// How long to wait.
        Wait => "wait",
        /// Which limit refused, or that one did.
        Reason => "reason",
        /// Which bucket or whose allowance it is.
        Scope => "scope",
        /// Whether a retry is wanted at all.
        Retryable => "retryable",
    }
}

spelled_enum! {
    /// What the number of a rate-limit field counts.
    pub enum FieldUnit {
        /// Requests.
        Requests => "requests",
        /// Model tokens.
        Tokens => "tokens",
        /// Bytes of content.
        Bytes => "bytes",
        /// Requests in flight.
        Concurrency => "concurrency",
        /// Requests per second.
        PerSecond => "per-second",
        /// Seconds from now.
        Seconds => "seconds",
        /// Milliseconds from now.
        Milliseconds => "milliseconds",
        /// A length of time with its units (`6m0s`).
        Duration => "duration",
        /// Seconds since 1970, possibly with decimals.
        EpochSeconds => "epoch-seconds",
        /// Milliseconds since 1970.
        EpochMilliseconds => "epoch-milliseconds",
        /// A written date: RFC 3339 or one of HTTP's.
        Date => "date",
        /// Words.
        Text => "text",
        /// Not known for this host.
        Unknown => "unknown",
    }
}

/// One rate-limit field of a response, or one member of a field that holds a list.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitField {
    /// Field name in lower case.
    pub header: String,
    /// The value as it came.
    pub raw: String,
    /// What it states.
    pub kind: FieldKind,
    /// Whose documentation gives it this meaning, where that is known.
    pub owner: Option<&'static str>,
    /// What the number counts.
    pub unit: FieldUnit,
    /// The number.
    pub value: Option<f64>,
    /// For a reset or a wait: the time from the response to it, never below 0.
    pub reset_in: Option<Millis>,
    /// The window that the allowance is for.
    pub window: Option<Millis>,
    /// Name of the policy, bucket or throttler.
    pub policy: Option<String>,
    /// What a reader should know about this value.
    pub note: Option<String>,
}

/// Reads every rate-limit field of a response.
pub fn read(
    _headers: &HeaderFields,
    _host: Option<&str>,
    _observed_at: Option<UnixMillis>,
) -> Vec<LimitField> {
    Vec::new()
}

/// The waits that other fields of the same response state.
pub(super) fn waits_beside_retry_after(
    headers: &HeaderFields,
    observed_at: Option<UnixMillis>,
) -> Vec<Millis> {
    read(headers, None, observed_at)
        .into_iter()
        .flat_map(|field| [field.reset_in, field.window])
        .flatten()
        .collect()
}
