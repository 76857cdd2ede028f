//! From the text of a value to a number and a wait, by unit; and from its shape to a unit where
//! nothing better is known.

use super::FieldUnit as Unit;
use crate::domain::http_date;
use crate::domain::retry_after::{duration, iso_moment, thousandths};
use crate::domain::time::{Millis, UnixMillis};

/// From when on waits are counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrival {
    /// The response's `Date` plus its `Age`, else the observer's clock.
    pub(super) base: Option<UnixMillis>,
    /// How long a cache has held the response.
    pub(super) age: Millis,
}

/// A value understood by its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// The number, in the unit; seconds for durations, seconds since 1970 for dates.
    pub(super) value: f64,
    /// The time from the response's arrival to the moment it states, never below 0.
    pub(super) wait: Option<Millis>,
    /// Whether that moment had passed already.
    pub(super) is_past: bool,
}

/// The first second since 1970 that is taken for a moment: September 2001.
const FIRST_EPOCH_MS: i64 = 1_000_000_000_000;
/// No length of time and no moment reaches this many thousandths (year 5138).
const END_MS: i64 = 100_000_000_000_000;

/// Reads `text` as a time in `unit`; `None` where it can't be one.
pub(super) fn time(unit: Unit, text: &str, arrival: Arrival) -> Option<Measured> {
    let text = text.trim();
    match unit {
        Unit::Seconds => {
            let length = thousandths(text).filter(|ms| *ms < FIRST_EPOCH_MS)?;
            Some(length_of(Millis(length), seconds(length), arrival))
        }
        Unit::Milliseconds => {
            let micros = thousandths(text).filter(|us| *us < END_MS)?;
            Some(length_of(Millis(micros.saturating_add(999) / 1000), seconds(micros), arrival))
        }
        Unit::Duration => {
            let length = duration(text)?;
            Some(length_of(length, length.as_secs_f64(), arrival))
        }
        Unit::EpochSeconds => {
            let at = thousandths(text).filter(|ms| (FIRST_EPOCH_MS..END_MS).contains(ms))?;
            Some(moment_of(UnixMillis(at), seconds(at), arrival))
        }
        Unit::EpochMilliseconds => {
            let at = thousandths(text)? / 1000;
            (FIRST_EPOCH_MS..END_MS)
                .contains(&at)
                .then(|| moment_of(UnixMillis(at), Millis(at).as_secs_f64() * 1000.0, arrival))
        }
        Unit::Date => {
            let at = iso_moment(text)
                .or_else(|| http_date::parse(text, arrival.base).map(|(at, _)| at))?;
            Some(moment_of(at, seconds(at.0), arrival))
        }
        Unit::Requests
        | Unit::Tokens
        | Unit::Bytes
        | Unit::Concurrency
        | Unit::PerSecond
        | Unit::Text
        | Unit::Unknown => None,
    }
}

/// Reads a count or a rate: decimals are accepted, a minus sign too (some limiters go below 0).
pub(super) fn amount(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    thousandths(digits)?;
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The unit that the shape of a time suggests, with what a reader should know about the guess;
/// [`Unit::Unknown`] where two readings are about as likely.
pub(super) fn shape(text: &str) -> (Unit, &'static str) {
    let text = text.trim();
    if let Some(ms) = thousandths(text) {
        return match ms / 1000 {
            1_000_000_000_000_000.. => {
                (Unit::Unknown, "unit unknown: too large for milliseconds since 1970")
            }
            1_000_000_000_000.. => {
                (Unit::EpochMilliseconds, "unit read from the size of the value")
            }
            100_000_000_000.. => {
                (Unit::Unknown, "unit unknown: too large for seconds since 1970, too small for ms")
            }
            1_000_000_000.. => (Unit::EpochSeconds, "unit read from the size of the value"),
            100_000.. => (
                Unit::Unknown,
                "unit unknown: seconds would be more than a day, it may be milliseconds",
            ),
            _ => (Unit::Seconds, "unit read from the size of the value: probably seconds from now"),
        };
    }
    if duration(text).is_some() {
        return (Unit::Duration, "the value names its own unit");
    }
    if iso_moment(text).is_some() || http_date::parse(text, None).is_some() {
        return (Unit::Date, "the value is a written date");
    }
    (Unit::Unknown, "unit unknown: the value has no shape that is known")
}

fn seconds(ms: i64) -> f64 {
    Millis(ms).as_secs_f64()
}

fn length_of(length: Millis, value: f64, arrival: Arrival) -> Measured {
    let left = length.0.saturating_sub(arrival.age.0);
    Measured { value, wait: Some(Millis(left.max(0))), is_past: left < 0 }
}

fn moment_of(at: UnixMillis, value: f64, arrival: Arrival) -> Measured {
    let left = arrival.base.map(|base| at.since(base));
    Measured {
        value,
        wait: left.map(|left| Millis(left.0.max(0))),
        is_past: left.is_some_and(|left| left.0 < 0),
    }
}
