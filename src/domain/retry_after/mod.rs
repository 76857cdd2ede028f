//! `Retry-After`: the strict reading of RFC 9110 section 10.2.3 and a lenient one with flags.
//!
//! Both are kept, since they answer different questions. The strict one says what the server
//! promised by the standard; the lenient one says what it most likely meant, and its flags say what
//! is wrong or doubtful about the value. A lenient value never counts as compliant.
//!
//! The client's own clock is asked last: a date is measured against the response's `Date`, so that
//! a skewed clock does not shift the wait.

mod chosen;
mod forms;
mod lenient;
mod written_date;

#[cfg(test)]
mod tests;

pub use chosen::{Choice, Judgement, judge};
pub(crate) use forms::{duration, iso_moment, plain_digits, seconds_to_millis, thousandths};

use super::headers::replay;
use super::http_date;
use super::response::HeaderFields;
use super::spelling::spelled_enum;
use super::time::{Millis, UnixMillis};
use lenient::{Context, Flags, Meaning, Unit, lenient};

spelled_enum! {
    /// What is wrong or doubtful about a `Retry-After`, or how it had to be read.
    pub enum Flag {
        /// Seconds with a decimal point (`2.0`); the standard has whole seconds.
        Float => "float",
        /// A negative number, read as no wait.
        Negative => "negative",
        /// A number with a unit (`30s`, `500ms`, `1m30s`).
        UnitSuffix => "unit_suffix",
        /// Milliseconds under a name that means seconds: a second source is about 1000 times smaller.
        MsSuspect => "ms_suspect",
        /// Seconds since 1970, read as a moment.
        EpochS => "epoch_s",
        /// Milliseconds since 1970, read as a moment.
        EpochMs => "epoch_ms",
        /// An ISO 8601 date, read as a moment.
        Iso8601 => "iso8601",
        /// An ISO 8601 duration (`PT30S`).
        IsoDuration => "iso_duration",
        /// Eight digits that are a calendar date near the base (`20261201`).
        CalendarInt => "calendar_int",
        /// Nothing but white space.
        Empty => "empty",
        /// Several values that mean the same.
        DuplicateEqual => "duplicate_equal",
        /// Several values that differ; the longest wait is taken.
        DuplicateConflict => "duplicate_conflict",
        /// A date with another zone than `GMT`.
        Zone => "zone",
        /// A date in none of the three forms of HTTP, or with the wrong day name.
        DateForm => "date_form",
        /// A moment before the base, read as no wait.
        Past => "past",
        /// The response is a replay from a cache.
        Cached => "cached",
        /// Words without a value.
        Text => "text",
        /// A number that is not written in plain ASCII decimals (`1e3`, `0x10`, `+7`).
        NonDecimal => "non_decimal",
        /// Read from another header field (`retry-after-<name>`, `retry-after-ms`, …).
        NonstandardName => "nonstandard_name",
        /// More digits than can be counted with.
        Overflow => "overflow",
        /// More than a day in plain seconds, or a number no unit makes sense of.
        Implausible => "implausible",
        /// A moment that could not be measured against a `Date` of the server.
        NoServerDate => "no_server_date",
        /// The server's `Date` and the observer's clock differ by more than 5 seconds.
        ClockSkew => "clock_skew",
    }
}

/// The value by RFC 9110.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    /// There is no `retry-after` field. Whether it was not sent or not captured is for the caller
    /// to know.
    Absent,
    /// `delay-seconds`.
    Seconds(u64),
    /// One of the three dates.
    Date(UnixMillis),
    /// Anything else.
    Invalid,
}

spelled_enum! {
    /// Which moment a date was measured against.
    pub enum Base {
        /// The response's own `Date`.
        Date => "date",
        /// The observer's clock; less trustworthy.
        Observed => "observed",
        /// None: the value is no date, or there was nothing to measure it against.
        None => "none",
    }
}

/// Everything that one response says in `Retry-After`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The header field that was read; `None` where there is no such field.
    pub field: Option<String>,
    /// Every line of that field as it came.
    pub raw: Vec<String>,
    /// The value by RFC 9110, section 10.2.3. A field on several lines is none that the RFC allows:
    /// each line may still be a valid value, and that of the first is taken, as clients do, equal
    /// lines or not; see [`Reading::is_compliant`]. A list in one line is invalid.
    pub strict: Strict,
    /// The strict value as a wait: digits, or date minus base, never below 0; `Age` is not
    /// subtracted. `None` where it is absent, invalid or can't be measured.
    pub strict_delay: Option<Millis>,
    /// What was left of the strict wait when the response arrived: `Age` subtracted, floor 0.
    /// `None` also for seconds replayed by a cache that does not say how old they are.
    pub remaining: Option<Millis>,
    /// The wait that the sender most likely meant; equals `strict_delay` for a plain value.
    pub lenient_delay: Option<Millis>,
    /// Whether the wait comes from a moment rather than from a length of time.
    pub by_date: bool,
    /// What that moment was measured against.
    pub base: Base,
    /// What is wrong or doubtful, each once, in the order it was noticed.
    pub flags: Vec<Flag>,
    /// The server's `Date` minus the observer's clock, where both are known; positive where the
    /// server's clock is ahead. `Date` counts in whole seconds.
    pub clock_skew: Option<Millis>,
}

impl Reading {
    /// Whether the field is there and as RFC 9110 wants it: one line, one valid value.
    pub fn is_compliant(&self) -> bool {
        matches!(self.strict, Strict::Seconds(_) | Strict::Date(_)) && self.raw.len() == 1
    }

    /// Whether `flag` is raised.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// The header fields that stand in for an absent `retry-after`, with their unit. Those named
/// `retry-after-<name>` come first; see [`stand_in`].
const STAND_INS: [(&str, Unit); 4] = [
    ("retry-after-ms", Unit::Milliseconds),
    ("x-ms-retry-after-ms", Unit::Milliseconds),
    ("x-amz-retry-after", Unit::Milliseconds),
    ("x-retry-in", Unit::Seconds),
];

/// How much the two clocks may differ before it is worth a flag.
const SKEW_TOLERANCE: Millis = Millis(5000);

/// Reads what a response says about waiting. `observed_at` is when it arrived by the observer's
/// clock; it is the base for dates only where the response has no valid `Date`.
pub fn read(headers: &HeaderFields, observed_at: Option<UnixMillis>) -> Reading {
    let date = replay::server_date(headers, observed_at);
    let age = replay::age(headers);
    let base_moment = date.or(observed_at);
    let clock_skew = date.zip(observed_at).map(|(date, here)| skew(date, age, here));

    let mut flags = Flags::default();
    let (field, raw, unit) = find_field(headers, &mut flags);
    let mut reading = Reading {
        field,
        raw,
        strict: Strict::Absent,
        strict_delay: None,
        remaining: None,
        lenient_delay: None,
        by_date: false,
        base: Base::None,
        flags: Vec::new(),
        clock_skew,
    };
    if reading.raw.is_empty() {
        return reading;
    }
    if !flags.has(Flag::NonstandardName) {
        reading.strict =
            reading.raw.first().map_or(Strict::Invalid, |line| strict(line, base_moment));
    }
    reading.strict_delay = match reading.strict {
        Strict::Seconds(seconds) => seconds_to_millis(seconds),
        Strict::Date(at) => base_moment.map(|base| wait_until(at, base)),
        Strict::Absent | Strict::Invalid => None,
    };

    let context = Context { headers, base: base_moment, observed_at, unit };
    let meaning = lenient(&reading.raw, &context, &mut flags);
    reading.lenient_delay = meaning.and_then(|meaning| meaning.delay(base_moment));
    reading.by_date = match reading.strict {
        Strict::Date(_) => true,
        Strict::Seconds(_) => false,
        Strict::Absent | Strict::Invalid => matches!(meaning, Some(Meaning::Moment(_))),
    };

    let any_moment =
        matches!(reading.strict, Strict::Date(_)) || matches!(meaning, Some(Meaning::Moment(_)));
    if any_moment {
        reading.base = match (date, observed_at) {
            (Some(_), _) => Base::Date,
            (None, Some(_)) => Base::Observed,
            (None, None) => Base::None,
        };
        if date.is_none() {
            flags.raise(Flag::NoServerDate);
        }
    }
    let replayed = replay::says_hit(headers);
    if age.is_some_and(|age| age.0 > 0) || replayed {
        flags.raise(Flag::Cached);
    }
    if clock_skew.is_some_and(|skew| skew.0.saturating_abs() > SKEW_TOLERANCE.0) {
        flags.raise(Flag::ClockSkew);
    }
    reading.remaining = remaining(&reading, age, replayed);
    reading.flags = flags.0;
    reading
}

/// The field to read, its lines and the unit of its plain numbers.
fn find_field(headers: &HeaderFields, flags: &mut Flags) -> (Option<String>, Vec<String>, Unit) {
    let lines = |name: &str| headers.all(name).map(str::to_owned).collect::<Vec<_>>();
    let raw = lines("retry-after");
    if !raw.is_empty() {
        return (Some("retry-after".to_owned()), raw, Unit::Seconds);
    }
    let Some((name, unit)) = stand_in(headers) else {
        return (None, Vec::new(), Unit::Seconds);
    };
    flags.raise(Flag::NonstandardName);
    let raw = lines(&name);
    (Some(name), raw, unit)
}

/// The field that stands in for an absent `retry-after`.
fn stand_in(headers: &HeaderFields) -> Option<(String, Unit)> {
    let named = headers.iter().map(|(name, _)| name).find(|name| {
        name.strip_prefix("retry-after-").is_some_and(|rest| !rest.is_empty() && rest != "ms")
    });
    if let Some(name) = named {
        return Some((name.to_owned(), Unit::Seconds));
    }
    STAND_INS
        .iter()
        .find(|(name, _)| headers.has(name))
        .map(|(name, unit)| ((*name).to_owned(), *unit))
}

/// Server clock minus observer's clock. A cache may hand on the origin's old `Date` or write its
/// own; of the two explanations the one with the smaller difference is taken.
fn skew(date: UnixMillis, age: Option<Millis>, here: UnixMillis) -> Millis {
    let fresh = date.since(here);
    let aged = date.plus(age.unwrap_or_default()).since(here);
    if aged.0.saturating_abs() < fresh.0.saturating_abs() { aged } else { fresh }
}

fn remaining(reading: &Reading, age: Option<Millis>, replayed: bool) -> Option<Millis> {
    let delay = reading.strict_delay?;
    match (reading.strict, reading.base, age) {
        // Measured against the moment of arrival, nothing of the wait has passed.
        (Strict::Date(_), Base::Observed, _) => Some(delay),
        (_, _, Some(age)) => Some(Millis(delay.0.saturating_sub(age.0).max(0))),
        // A replay counts from when it was generated; nobody says when that was.
        (Strict::Seconds(_), _, None) if replayed => None,
        (_, _, None) => Some(delay),
    }
}

/// The value of one line by RFC 9110.
fn strict(line: &str, now: Option<UnixMillis>) -> Strict {
    if let Some(seconds) = plain_digits(line) {
        return Strict::Seconds(seconds);
    }
    http_date::parse(line, now).map_or(Strict::Invalid, |(at, _)| Strict::Date(at))
}

fn wait_until(at: UnixMillis, base: UnixMillis) -> Millis {
    Millis(at.since(base).0.max(0))
}
