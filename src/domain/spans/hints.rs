//! What clients tell about the number of an attempt, the operation it belongs to, and waits.

use super::raw::{RawEvent, RawSpan};
use crate::domain::spelling::spelled_enum;
use serde::{Deserialize, Serialize};

spelled_enum! {
    /// What the number of an attempt was taken from.
    pub enum NumberSource {
        /// The attribute `http.request.resend_count` or one of its older names.
        ResendCount => "resend-count",
        /// The header field `amz-sdk-request` of AWS SDKs.
        AmzSdkRequest => "amz-sdk-request",
        /// The header field `x-stainless-retry-count` of SDKs made with Stainless.
        StainlessRetryCount => "x-stainless-retry-count",
        /// The header field `retry-attempt` of kiota clients.
        RetryAttempt => "retry-attempt",
        /// Its place in the derived operation.
        Place => "place",
    }
}

spelled_enum! {
    /// What an id that attempts share was taken from.
    pub enum SharedIdSource {
        /// `amz-sdk-invocation-id`: one for all attempts of a call.
        AmzInvocation => "amz-sdk-invocation-id",
        /// `idempotency-key`, hashed.
        IdempotencyKey => "idempotency-key",
    }
}

spelled_enum! {
    /// What the wait after an attempt was taken from.
    pub enum DelaySource {
        /// The attribute `http.request.resend_delay`.
        ResendDelay => "resend-delay",
        /// The text of an event of the enclosing span.
        SpanEvent => "span-event",
        /// A line of the client's log.
        Log => "log",
        /// The time between the attempts.
        Gap => "observed-gap",
    }
}

/// A client's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The most attempts there will be, the first one included.
    pub max: Option<u32>,
    /// Where it stands.
    pub source: NumberSource,
}

/// The client's own count, if it tells one. `headers` are the captured ones of the request.
pub fn counter(span: &RawSpan, headers: &[(String, String)]) -> Option<Counter> {
    const RESENT: [&str; 3] =
        ["http.request.resend_count", "http.resend_count", "http.retry_count"];
    let header =
        |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let plain = |attempt: i64, source| {
        let attempt = u32::try_from(attempt).ok().filter(|n| (1..=MAX_ATTEMPT).contains(n))?;
        Some(Counter { attempt, max: None, source })
    };
    if let Some(count) = span.attributes.integer(&RESENT) {
        return plain(count.saturating_add(1), NumberSource::ResendCount);
    }
    if let Some(value) = header("amz-sdk-request")
        && let Some(attempt) = parameter(value, "attempt")
    {
        let max = parameter(value, "max");
        return Some(Counter { attempt, max, source: NumberSource::AmzSdkRequest });
    }
    let number = |name| header(name).and_then(|value| value.trim().parse::<i64>().ok());
    if let Some(count) = number("x-stainless-retry-count") {
        return plain(count.saturating_add(1), NumberSource::StainlessRetryCount);
    }
    plain(number("retry-attempt")?.saturating_add(1), NumberSource::RetryAttempt)
}

/// The highest number of an attempt that is believed.
const MAX_ATTEMPT: u32 = 100_000;

/// A number in `ttl=…; attempt=2; max=4`.
fn parameter(value: &str, name: &str) -> Option<u32> {
    value
        .split(';')
        .filter_map(|part| part.trim().split_once('='))
        .find(|(own, _)| own.trim() == name)
        .and_then(|(_, number)| number.trim().parse().ok())
        .filter(|n| (1..=MAX_ATTEMPT).contains(n))
}

/// A wait that a client told of, and when it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldWait {
    /// When, in microseconds since 1970.
    pub at_us: i64,
    /// How long it is going to wait.
    pub delay_ms: i64,
    /// Where it told so: in an event of a span or in its log.
    pub source: DelaySource,
}

/// The waits that events of a span tell of.
pub fn told_waits(events: &[RawEvent]) -> Vec<ToldWait> {
    let told = events.iter().filter_map(|event| {
        let delay_ms = wait_in(&event.name)
            .or_else(|| wait_in(&event.attributes.text(&["message", "log.message", "body"])?))?;
        let source = DelaySource::SpanEvent;
        Some(ToldWait { at_us: micros(event.at_ns), delay_ms, source })
    });
    told.take(MAX_TOLD).collect()
}

/// The most waits that are read out of one span.
const MAX_TOLD: usize = 100;

/// Nanoseconds as microseconds; stays at the end of the range.
pub fn micros(ns: u64) -> i64 {
    i64::try_from(ns / 1000).unwrap_or(i64::MAX)
}

/// The wait, in milliseconds, that a line of a known client tells of:
///
/// - openai and anthropic (Python): `Retrying request in 0.700000 seconds`, with or without an
///   address between,
/// - reqwest-retry: `Retry attempt #0. Sleeping 116.302627ms before the next attempt`,
/// - botocore: `Retry needed, retrying request after delay of: 0.53` and `sleeping for 0.53 seconds`,
/// - stripe: `sleeping for 0.53 seconds`, `Initiating retry 1 for request … after sleeping 0.50
///   seconds.`
pub fn wait_in(text: &str) -> Option<i64> {
    const BEFORE: [&str; 6] = [
        "Sleeping ",
        "sleeping for ",
        "after sleeping ",
        "retrying request after delay of: ",
        "Retrying request in ",
        " in ",
    ];
    let is_about_retries = ["etry", "leeping for"].iter().any(|word| text.contains(word));
    if !is_about_retries {
        return None;
    }
    BEFORE.iter().find_map(|before| length(text.split_once(before)?.1, *before == " in "))
}

/// A length of time at the beginning of `text`: a number and its unit, seconds where none is written
/// and none has to be.
fn length(text: &str, needs_unit: bool) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    // A full stop may end the sentence.
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let unit: String = rest.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
    let per_unit = match unit.as_str() {
        "ns" => 1e-6,
        "µs" | "μs" | "us" => 1e-3,
        "ms" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "minutes" => 6e4,
        "" if !needs_unit => 1e3,
        _ => return None,
    };
    let ms = (number * per_unit).round();
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked before")]
    (0.0..=MAX_WAIT_MS).contains(&ms).then_some(ms as i64)
}

/// The longest wait that is believed, in milliseconds: a day.
const MAX_WAIT_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_attempt_is_searched_for() {
        let table = [
            ("attempt=1; max=4", Some(1), Some(4)),
            ("ttl=20261129T214731Z; attempt=2; max=4", Some(2), Some(4)),
            ("attempt=0; max=4", None, Some(4)),
            ("max=x", None, None),
            ("", None, None),
        ];
        for (value, attempt, max) in table {
            assert_eq!(parameter(value, "attempt"), attempt, "{value}");
            assert_eq!(parameter(value, "max"), max, "{value}");
        }
    }

    #[test]
    fn waits_are_read_out_of_lines_of_known_clients() {
        let table = [
            ("Retrying request in 0.700000 seconds (retry 1 of 2)", Some(700)),
            ("Retrying request to /v1/chat/completions in 0.491 seconds", Some(491)),
            ("Retry attempt #0. Sleeping 116.302627ms before the next attempt", Some(116)),
            ("Retry attempt #0. Sleeping 334.953µs before the next attempt", Some(0)),
            ("Retry attempt #3. Sleeping 1.5s before the next attempt", Some(1_500)),
            ("Retry needed, retrying request after delay of: 0.5337", Some(534)),
            ("Initiating retry 1 for request POST /v1/x after sleeping 0.50 seconds.", Some(500)),
            ("Response received, sleeping for 2 seconds", Some(2_000)),
            ("Retrying the job in production", None),
            ("Retry in 3 steps", None),
            ("a request took 3 seconds", None),
            ("Retrying request in 99999999999 seconds", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(wait_in(text), expected, "{text}");
        }
    }
}
