//! When a response was generated, and whether a cache replayed it.

use crate::domain::http_date;
use crate::domain::response::HeaderFields;
use crate::domain::retry_after::{plain_digits, seconds_to_millis};
use crate::domain::time::{Millis, UnixMillis};

/// The response's own `Date`, where it is one of the three forms of RFC 9110 section 5.6.7.
pub(crate) fn server_date(
    headers: &HeaderFields,
    observed_at: Option<UnixMillis>,
) -> Option<UnixMillis> {
    headers.get("date").and_then(|text| http_date::parse(text, observed_at)).map(|(at, _)| at)
}

/// The response's `Age` (RFC 9111 section 5.1); `None` where it is absent or no whole number.
pub(crate) fn age(headers: &HeaderFields) -> Option<Millis> {
    headers.get("age").and_then(plain_digits).and_then(seconds_to_millis)
}

/// Whether the response is a replay, by its `Age` or by what a cache says.
pub(crate) fn is_replay(headers: &HeaderFields) -> bool {
    age(headers).is_some_and(|age| age.0 > 0) || says_hit(headers)
}

/// Whether a cache says in a field other than `Age` that it replayed the response.
/// Fastly writes `x-cache: HIT` on answers that it made itself, so `x-served-by` silences that one.
pub(crate) fn says_hit(headers: &HeaderFields) -> bool {
    let hit = |name: &str| {
        headers.get(name).is_some_and(|value| {
            value
                .split(|c: char| !c.is_ascii_alphanumeric())
                .any(|word| word.eq_ignore_ascii_case("hit") || word.eq_ignore_ascii_case("stale"))
        })
    };
    ["cf-cache-status", "cache-status", "x-cache-status", "x-proxy-cache"].into_iter().any(hit)
        || (hit("x-cache") && !headers.has("x-served-by"))
}
