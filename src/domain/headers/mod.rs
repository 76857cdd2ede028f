//! The dictionary of rate-limit header fields, by owner and unit.
//!
//! The same name has different units at different owners (`x-ratelimit-reset` is seconds since
//! 1970 at one, seconds from now at the next), so there is no universal parser. Who owns a field is
//! decided in this order: the host's documentation, the companions of the field, a name that only
//! one owner has, the shape of the value (said so in a note), and else the unit stays unknown.
//!
//! One registry, [`FAMILIES`], a file per family, is the source of this behaviour and of
//! `docs/headers.md`. Who wrote a response is not judged here; that is [`super::classify`].

mod capture;
mod docs;
mod entry;
mod gateways;
mod hosts;
mod ietf;
mod measure;
mod owners;
mod providers;
mod read;
pub(crate) mod replay;
mod shared_names;
mod structured;
mod waits;

#[cfg(test)]
mod tests;

pub use capture::is_allowed;
pub use docs::markdown;
pub use entry::{Entry, Family};
pub use hosts::{HOSTS, HostRule, provider_of};
pub use owners::{SIGNATURES, Signature};
pub use read::read;
pub(crate) use read::waits_beside_retry_after;

use super::spelling::spelled_enum;
use super::time::Millis;

/// Fields of a response that name its request, most specific first.
pub const REQUEST_IDS: [&str; 8] = [
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "apigw-requestid",
    "x-github-request-id",
    "twilio-request-id",
    "x-kong-request-id",
];

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

spelled_enum! {
    /// What the owner and unit of a rate-limit field rest on, best first.
    pub enum Basis {
        /// The documentation of the host's owner.
        Host => "host",
        /// Companions that only this owner sends beside the field.
        Companions => "companions",
        /// A name that only this owner has, or that a standard defines.
        Name => "name",
        /// The shape of the value; a guess.
        Shape => "shape",
        /// Nothing: the unit is unknown.
        None => "none",
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
    /// What owner and unit rest on.
    pub basis: Basis,
    /// What the number counts.
    pub unit: FieldUnit,
    /// The number, in the unit: seconds for a duration, seconds since 1970 for a date.
    pub value: Option<f64>,
    /// For a reset or a wait: the time from the response's arrival to it, never below 0. `None`
    /// also for a moment that there is nothing to measure against.
    pub reset_in: Option<Millis>,
    /// The window that the allowance is for.
    pub window: Option<Millis>,
    /// Name of the policy, bucket or throttler.
    pub policy: Option<String>,
    /// What a reader should know about this value.
    pub note: Option<String>,
}

impl LimitField {
    fn new(header: &str, raw: &str, kind: FieldKind) -> Self {
        Self {
            header: header.to_owned(),
            raw: raw.to_owned(),
            kind,
            owner: None,
            basis: Basis::None,
            unit: FieldUnit::Unknown,
            value: None,
            reset_in: None,
            window: None,
            policy: None,
            note: None,
        }
    }
}

/// Every entry of the dictionary, by family.
pub const FAMILIES: &[Family] =
    &[waits::FAMILY, ietf::FAMILY, shared_names::FAMILY, providers::FAMILY, gateways::FAMILY];
