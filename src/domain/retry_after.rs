//! `Retry-After`: the strict reading of RFC 9110 section 10.2.3 and a lenient one with flags.
//!
//! Both are kept, since they answer different questions. The strict one says what the server
//! promised by the standard; the lenient one says what it most likely meant, and its flags say what
//! is wrong or doubtful about the value. A lenient value never counts as compliant.
//!
//! The client's own clock is asked last: a date is measured against the response's `Date`, so that
//! a skewed clock does not shift the wait.

use super::headers::{self, replay};
use super::http_date::{self, Civil, DAYS, LONG_DAYS, MONTHS};
use super::response::HeaderFields;
use super::spelling::spelled_enum;
use super::time::{Millis, UnixMillis};

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
    /// The value by RFC 9110. Where the field was sent on several lines it is that of the first,
    /// which is the one that clients take; see [`Reading::is_compliant`].
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
/// Above this many plain seconds a wait is hard to believe.
const LONGEST_PLAUSIBLE_S: u64 = 86_400;
/// How far a calendar date written as an integer may lie from the base.
const NEAR: Millis = Millis(366 * super::time::DAY_MS);
/// How many values of a list are looked at.
const MOST_VALUES: usize = 32;
/// The longest text, in bytes, that is searched for anything but digits.
const LONGEST_TEXT: usize = 128;

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

/// One or more ASCII digits of at most 18 digits (leading zeros not counted).
pub(crate) fn plain_digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    match digits.len() {
        0 => Some(0),
        1..=18 => digits.parse().ok(),
        _ => None,
    }
}

pub(crate) fn seconds_to_millis(seconds: u64) -> Option<Millis> {
    i64::try_from(seconds).ok()?.checked_mul(1000).map(Millis)
}

pub(crate) fn wait_until(at: UnixMillis, base: UnixMillis) -> Millis {
    Millis(at.since(base).0.max(0))
}

/// What the plain numbers of a field count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// What a lenient reading understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Delay(Millis),
    Moment(UnixMillis),
}

impl Meaning {
    fn delay(self, base: Option<UnixMillis>) -> Option<Millis> {
        match self {
            Self::Delay(delay) => Some(delay),
            Self::Moment(at) => base.map(|base| wait_until(at, base)),
        }
    }
}

/// What a lenient reading may look at beside the value.
struct Context<'a> {
    headers: &'a HeaderFields,
    base: Option<UnixMillis>,
    observed_at: Option<UnixMillis>,
    unit: Unit,
}

/// Flags, each once.
#[derive(Default)]
struct Flags(Vec<Flag>);

impl Flags {
    fn raise(&mut self, flag: Flag) {
        if !self.has(flag) {
            self.0.push(flag);
        }
    }

    fn has(&self, flag: Flag) -> bool {
        self.0.contains(&flag)
    }
}

/// Every line together: one value, or a list of them.
fn lenient(lines: &[String], context: &Context<'_>, flags: &mut Flags) -> Option<Meaning> {
    if let [line] = lines
        && (line.trim().is_empty()
            || line.bytes().all(|b| b.is_ascii_digit())
            || http_date::parse(line, context.base).is_some())
    {
        return value(line, context, flags);
    }
    let values: Vec<String> =
        lines.iter().flat_map(|line| split_list(line)).take(MOST_VALUES).collect();
    match values.as_slice() {
        [] => {
            flags.raise(Flag::Empty);
            None
        }
        [only] if lines.len() == 1 => {
            // The whole line, so that a stray comma stays visible to the reader of dates.
            let line = lines.first().map_or(only.as_str(), String::as_str);
            value(line, context, flags)
        }
        several => match lines {
            // "November 29, 2026 22:01:50" is one date with a comma of its own.
            [line] if is_one_date(line, context.base) => value(line, context, flags),
            _ => longest(several, context, flags),
        },
    }
}

fn is_one_date(line: &str, now: Option<UnixMillis>) -> bool {
    line.len() <= LONGEST_TEXT && other_date(line, now, &mut Flags::default()).is_some()
}

/// The longest of several waits, and whether they agree.
fn longest(values: &[String], context: &Context<'_>, flags: &mut Flags) -> Option<Meaning> {
    let mut best: Option<Meaning> = None;
    let mut all_equal = true;
    for text in values {
        let found = value(text, context, flags);
        all_equal &= found.is_some() && (best.is_none() || best == found);
        let order = |meaning: &Meaning| match *meaning {
            Meaning::Delay(delay) => delay.0,
            // Without a base two moments still compare with each other.
            Meaning::Moment(at) => context.base.map_or(at.0, |base| wait_until(at, base).0),
        };
        best = best.into_iter().chain(found).max_by_key(order);
    }
    let first = values.first();
    let same_text = values.iter().all(|text| Some(text) == first);
    flags.raise(if all_equal || same_text {
        Flag::DuplicateEqual
    } else {
        Flag::DuplicateConflict
    });
    best
}

/// Splits at commas, but not at the one inside a date: a day name belongs to what follows it.
fn split_list(line: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    let mut day_name: Option<&str> = None;
    for piece in line.split(',').map(str::trim) {
        if let Some(name) = day_name.take() {
            values.push(format!("{name}, {piece}"));
        } else if is_day_name(piece) {
            day_name = Some(piece);
        } else if !piece.is_empty() {
            values.push(piece.to_owned());
        }
    }
    values.extend(day_name.map(str::to_owned));
    values
}

pub(crate) fn is_day_name(text: &str) -> bool {
    DAYS.iter().chain(&LONG_DAYS).any(|name| name.eq_ignore_ascii_case(text))
}

/// One value, tried in a fixed order from what the standard allows to what only people read.
fn value(text: &str, context: &Context<'_>, flags: &mut Flags) -> Option<Meaning> {
    let text = text.trim();
    if text.is_empty() {
        flags.raise(Flag::Empty);
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return digits(text, context, flags);
    }
    if text.len() > LONGEST_TEXT {
        flags.raise(Flag::Text);
        return None;
    }
    let meaning = http_date::parse(text, context.base)
        .map(|(at, _)| Meaning::Moment(at))
        .or_else(|| decimal(text, context, flags))
        .or_else(|| with_unit(text, flags))
        .or_else(|| iso_date(text, flags))
        .or_else(|| iso_duration(text, flags))
        .or_else(|| other_date(text, context.base, flags));
    match meaning {
        Some(Meaning::Moment(at)) if context.base.is_some_and(|base| at < base) => {
            flags.raise(Flag::Past);
        }
        Some(_) => {}
        None if flags.has(Flag::Overflow) => {}
        None => flags.raise(if looks_numeric(text) { Flag::NonDecimal } else { Flag::Text }),
    }
    meaning
}

fn digits(text: &str, context: &Context<'_>, flags: &mut Flags) -> Option<Meaning> {
    let Some(number) = plain_digits(text) else {
        flags.raise(Flag::Overflow);
        return None;
    };
    let signed = i64::try_from(number).unwrap_or(i64::MAX);
    let moment = match number {
        1_000_000_000_000_000.. => {
            flags.raise(Flag::Implausible);
            if seconds_to_millis(number).is_none() {
                flags.raise(Flag::Overflow);
            }
            return None;
        }
        1_000_000_000_000.. => {
            flags.raise(Flag::EpochMs);
            UnixMillis(signed)
        }
        1_000_000_000.. => {
            flags.raise(Flag::EpochS);
            UnixMillis(signed.saturating_mul(1000))
        }
        _ => match calendar_date(text, context.base) {
            Some(at) => {
                flags.raise(Flag::CalendarInt);
                at
            }
            None => return Some(length(number, context, flags)),
        },
    };
    if context.base.is_some_and(|base| moment < base) {
        flags.raise(Flag::Past);
    }
    Some(Meaning::Moment(moment))
}

/// A plain number below 1e9 as a length of time.
fn length(number: u64, context: &Context<'_>, flags: &mut Flags) -> Meaning {
    let millis = i64::try_from(number).unwrap_or(i64::MAX);
    if context.unit == Unit::Milliseconds {
        return Meaning::Delay(Millis(millis));
    }
    if number > LONGEST_PLAUSIBLE_S {
        flags.raise(Flag::Implausible);
    }
    let delay = Millis(millis.saturating_mul(1000));
    if number >= 1000
        && headers::waits_beside_retry_after(context.headers, context.observed_at)
            .into_iter()
            .any(|other| is_about_a_thousandth(other, delay))
    {
        flags.raise(Flag::MsSuspect);
        return Meaning::Delay(Millis(millis));
    }
    Meaning::Delay(delay)
}

/// Whether `other` is smaller than `delay` by a factor from 500 to 2000.
fn is_about_a_thousandth(other: Millis, delay: Millis) -> bool {
    other.0 > 0 && other.0.saturating_mul(500) <= delay.0 && delay.0 <= other.0.saturating_mul(2000)
}

/// Eight digits that are a date of the calendar, near the base.
fn calendar_date(text: &str, base: Option<UnixMillis>) -> Option<UnixMillis> {
    if text.len() != 8 {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    let civil = Civil {
        year: number / 10_000,
        month: number / 100 % 100,
        day: number % 100,
        hour: 0,
        minute: 0,
        second: 0,
    };
    let at = civil.moment()?;
    (at.since(base?).0.saturating_abs() <= NEAR.0).then_some(at)
}

/// `2.0`, `-5`, `-1.5`.
fn decimal(text: &str, context: &Context<'_>, flags: &mut Flags) -> Option<Meaning> {
    let unsigned = text.strip_prefix('-');
    let thousandths = thousandths(unsigned.unwrap_or(text))?;
    if text.contains('.') {
        flags.raise(Flag::Float);
    }
    if unsigned.is_some() {
        flags.raise(Flag::Negative);
        return Some(Meaning::Delay(Millis(0)));
    }
    if context.unit == Unit::Milliseconds {
        return Some(Meaning::Delay(Millis(thousandths.saturating_add(999) / 1000)));
    }
    if thousandths >= 1_000_000_000_000 {
        flags.raise(Flag::EpochS);
        return Some(Meaning::Moment(UnixMillis(thousandths)));
    }
    if thousandths > 86_400_000 {
        flags.raise(Flag::Implausible);
    }
    Some(Meaning::Delay(Millis(thousandths)))
}

/// Digits, with at most one point between digits, in thousandths and rounded up.
pub(crate) fn thousandths(text: &str) -> Option<i64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = i64::try_from(plain_digits(whole)?).ok()?.checked_mul(1000)?;
    let mut part = 0;
    let mut places = fraction.bytes();
    for _ in 0..3 {
        part = part * 10 + places.next().map_or(0, |digit| i64::from(digit - b'0'));
    }
    let above = i64::from(places.any(|digit| digit != b'0'));
    whole.checked_add(part + above)
}

/// `30s`, `500 ms`, `1m30s`, `2 minutes`.
fn with_unit(text: &str, flags: &mut Flags) -> Option<Meaning> {
    let delay = duration(text)?;
    flags.raise(Flag::UnitSuffix);
    Some(Meaning::Delay(delay))
}

/// One or more numbers, each with its unit, in any case and with blanks between them: the
/// durations that Go prints, and what people write. Rounded up to whole milliseconds.
pub(crate) fn duration(text: &str) -> Option<Millis> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text.trim();
    let mut micros: i64 = 0;
    if rest.is_empty() || rest.len() > LONGEST_TEXT {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = rest.split_at_checked(rest.find(|c| !is_number(c))?)?;
        let after = after.trim_start();
        let end = after.find(|c: char| is_number(c) || c.is_whitespace()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let micros_per_unit = match unit.to_ascii_lowercase().as_str() {
            "ns" => 0,
            "us" | "µs" | "μs" => 1,
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000,
            "d" | "day" | "days" => 86_400_000_000,
            _ => return None,
        };
        let thousandths = thousandths(number)?;
        let part = match micros_per_unit {
            // Nanoseconds: a thousandth of a thousandth of a microsecond, rounded up.
            0 => i64::from(thousandths > 0),
            1..=999 => thousandths.checked_add(999)? / 1000,
            per_unit => thousandths.checked_mul(per_unit / 1000)?,
        };
        micros = micros.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(Millis(micros.checked_add(999)? / 1000))
}

/// `2026-11-29T21:38:22Z`, with any offset or none, with a blank for the `T`, or the day alone.
fn iso_date(text: &str, flags: &mut Flags) -> Option<Meaning> {
    let at = iso_moment(text)?;
    flags.raise(Flag::Iso8601);
    Some(Meaning::Moment(at))
}

/// An ISO 8601 date; one without offset is taken as UTC.
pub(crate) fn iso_moment(text: &str) -> Option<UnixMillis> {
    let is_date = text.len() <= LONGEST_TEXT
        && text.bytes().take(4).all(|b| b.is_ascii_digit())
        && text.as_bytes().get(4) == Some(&b'-');
    if !is_date {
        return None;
    }
    UnixMillis::parse_rfc3339(text).or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        let moment = Civil {
            year: local.year().into(),
            month: local.month().into(),
            day: local.day().into(),
            hour: local.hour().into(),
            minute: local.minute().into(),
            second: local.second().into(),
        };
        Some(moment.moment()?.plus(Millis(local.millisecond().into())))
    })
}

/// `PT30S`, `PT1M30S`, `P1DT12H`, `P2W`. Years and months have no fixed length and are not read.
fn iso_duration(text: &str, flags: &mut Flags) -> Option<Meaning> {
    let mut rest = text.strip_prefix(['P', 'p'])?;
    let mut in_time = false;
    let mut total = Millis(0);
    let mut parts = 0;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            if in_time || after.is_empty() {
                return None;
            }
            in_time = true;
            rest = after;
        }
        let (number, after) =
            rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?)?;
        let mut letters = after.chars();
        let seconds = match (letters.next()?.to_ascii_uppercase(), in_time) {
            ('W', false) => 604_800,
            ('D', false) => 86_400,
            ('H', true) => 3600,
            ('M', true) => 60,
            ('S', true) => 1,
            _ => return None,
        };
        let part = thousandths(number)?.checked_mul(seconds)?;
        total = Millis(total.0.checked_add(part)?);
        parts += 1;
        rest = letters.as_str();
    }
    if parts == 0 {
        return None;
    }
    flags.raise(Flag::IsoDuration);
    Some(Meaning::Delay(total))
}

/// A date with a day, a month's name, a year and a time, however arranged: the day name may be
/// missing or wrong, letters in any case, the zone another one.
fn other_date(text: &str, now: Option<UnixMillis>, flags: &mut Flags) -> Option<Meaning> {
    let mut parts = DateParts::default();
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty())
    {
        parts.take(word, now)?;
    }
    let (hour, minute, second, fraction) = parts.time?;
    let civil =
        Civil { year: parts.year?, month: parts.month?, day: parts.day?, hour, minute, second };
    let local = civil.moment()?.plus(fraction);
    let offset = parts.offset.unwrap_or_default();
    if !matches!(parts.zone.as_deref(), None | Some("GMT")) {
        flags.raise(Flag::Zone);
    }
    let as_gmt = match parts.zone.as_deref() {
        Some(zone) => text.replace(zone, "GMT"),
        None => text.to_owned(),
    };
    if http_date::parse(&as_gmt, now).is_none() {
        flags.raise(Flag::DateForm);
    }
    Some(Meaning::Moment(UnixMillis(local.0.checked_sub(offset.0)?)))
}

/// What the words of a date have given so far.
#[derive(Default)]
struct DateParts {
    day_name: bool,
    day: Option<i64>,
    month: Option<i64>,
    year: Option<i64>,
    /// Hour, minute, second and the fraction of a second.
    time: Option<(i64, i64, i64, Millis)>,
    zone: Option<String>,
    /// How far the zone is ahead of UTC.
    offset: Option<Millis>,
}

impl DateParts {
    /// Takes in one word; `None` where it is no part of a date, or a part that is there already.
    fn take(&mut self, word: &str, now: Option<UnixMillis>) -> Option<()> {
        if is_day_name(word.trim_end_matches('.')) {
            return (!std::mem::replace(&mut self.day_name, true)).then_some(());
        }
        if self.time.is_none() && word.contains(':') {
            self.time = Some(time_of_day(word)?);
            return Some(());
        }
        // "06-Nov-94", but not the zone "-0500" and not "+02:00".
        if word.contains('-') && !word.starts_with('-') {
            return word.split('-').try_for_each(|piece| self.number_or_month(piece, now));
        }
        if self.number_or_month(word, now).is_some() {
            return Some(());
        }
        if self.zone.is_some() {
            return None;
        }
        self.offset = Some(zone_offset(word)?);
        self.zone = Some(word.to_owned());
        Some(())
    }

    fn number_or_month(&mut self, word: &str, now: Option<UnixMillis>) -> Option<()> {
        if let Some(month) = month_of(word) {
            return self.month.replace(month).is_none().then_some(());
        }
        let number = i64::try_from(plain_digits(word)?).ok()?;
        match (word.len(), self.day) {
            (1 | 2, None) => self.day = Some(number),
            (2, Some(_)) if self.year.is_none() => {
                self.year = Some(http_date::full_year(number, now));
            }
            (4, _) if self.year.is_none() => self.year = Some(number),
            _ => return None,
        }
        Some(())
    }
}

/// The month whose name, short or long and in any case, `word` is.
fn month_of(word: &str) -> Option<i64> {
    const LONG: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let position = MONTHS
        .iter()
        .position(|name| name.eq_ignore_ascii_case(word))
        .or_else(|| LONG.iter().position(|name| name.eq_ignore_ascii_case(word)))?;
    i64::try_from(position + 1).ok()
}

/// `08:49`, `08:49:37`, `8:49:37.250`.
fn time_of_day(word: &str) -> Option<(i64, i64, i64, Millis)> {
    let mut pieces = word.split(':');
    let small = |piece: Option<&str>| {
        let piece = piece?;
        (piece.len() <= 2)
            .then(|| plain_digits(piece))
            .flatten()
            .and_then(|n| i64::try_from(n).ok())
    };
    let hour = small(pieces.next())?;
    let minute = small(pieces.next())?;
    let seconds = match pieces.next() {
        Some(piece) => thousandths(piece)?,
        None => 0,
    };
    pieces.next().is_none().then_some((hour, minute, seconds / 1000, Millis(seconds % 1000)))
}

/// How far a zone is ahead of UTC: the names of RFC 5322 section 4.3, and `+hhmm`, `+hh:mm`.
fn zone_offset(word: &str) -> Option<Millis> {
    let hours = match word.to_ascii_uppercase().as_str() {
        "GMT" | "UTC" | "UT" | "Z" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        _ => {
            let sign = if word.starts_with('-') { -1 } else { 1 };
            let number = word.strip_prefix(['+', '-'])?.replacen(':', "", 1);
            if number.len() != 4 {
                return None;
            }
            let number = i64::try_from(plain_digits(&number)?).ok()?;
            let (hours, minutes) = (number / 100, number % 100);
            return (hours < 24 && minutes < 60)
                .then(|| Millis::from_secs(sign * (hours * 3600 + minutes * 60)));
        }
    };
    Some(Millis::from_secs(hours * 3600))
}

/// Whether a value looks like a number of a kind that the standard does not have.
fn looks_numeric(text: &str) -> bool {
    let foreign_digit = text.chars().any(|c| !c.is_ascii() && c.is_numeric());
    let digits_first =
        text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let number_letters =
        |c: char| c.is_ascii_hexdigit() || matches!(c, '+' | '-' | '.' | '_' | 'x' | 'X' | '\'');
    foreign_digit || (digits_first && text.chars().all(number_letters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The `Date` of the responses below, and the same moment.
    const DATE: &str = "Sun, 29 Nov 2026 22:00:00 GMT";

    fn date() -> UnixMillis {
        UnixMillis::parse_rfc3339("2026-11-29T22:00:00Z").unwrap()
    }

    fn of(fields: &[(&str, &str)]) -> Reading {
        read(&fields.iter().copied().collect(), None)
    }

    /// Reads one line beside [`DATE`].
    fn line(value: &str) -> Reading {
        of(&[("date", DATE), ("retry-after", value)])
    }

    fn words(reading: &Reading) -> Vec<&'static str> {
        reading.flags.iter().map(|flag| flag.as_str()).collect()
    }

    fn seconds(delay: Option<Millis>) -> Option<f64> {
        delay.map(Millis::as_secs_f64)
    }

    /// One line, its strict wait and its lenient wait in seconds, and its flags.
    type Row<'a> = (&'a str, Option<f64>, Option<f64>, &'a [&'a str]);

    fn check(rows: &[Row<'_>]) {
        for (value, strict, lenient, flags) in rows {
            let reading = line(value);
            assert_eq!(seconds(reading.strict_delay), *strict, "strict of {value:?}");
            assert_eq!(seconds(reading.lenient_delay), *lenient, "lenient of {value:?}");
            assert_eq!(words(&reading), *flags, "flags of {value:?}");
            assert_eq!(reading.is_compliant(), strict.is_some(), "compliance of {value:?}");
            assert_eq!(reading.raw, [value.trim()], "raw is kept");
        }
    }

    #[test]
    fn what_the_standard_allows_carries_no_flag() {
        check(&[
            ("0", Some(0.0), Some(0.0), &[]),
            ("7", Some(7.0), Some(7.0), &[]),
            ("007", Some(7.0), Some(7.0), &[]),
            ("00000000000000000000000000120", Some(120.0), Some(120.0), &[]),
            ("86400", Some(86_400.0), Some(86_400.0), &[]),
            ("Sun, 29 Nov 2026 22:01:50 GMT", Some(110.0), Some(110.0), &[]),
            ("Sunday, 29-Nov-26 22:01:50 GMT", Some(110.0), Some(110.0), &[]),
            ("Sun Nov 29 22:01:50 2026", Some(110.0), Some(110.0), &[]),
            ("Tue Dec  1 22:00:00 2026", Some(172_800.0), Some(172_800.0), &[]),
        ]);
    }

    #[test]
    fn a_decimal_or_negative_number_is_read_and_flagged() {
        check(&[
            ("2.0", None, Some(2.0), &["float"]),
            ("1.5", None, Some(1.5), &["float"]),
            ("0.0001", None, Some(0.001), &["float"]),
            ("-5", None, Some(0.0), &["negative"]),
            ("-1.5", None, Some(0.0), &["float", "negative"]),
            ("100000.5", None, Some(100_000.5), &["float", "implausible"]),
        ]);
    }

    #[test]
    fn a_number_with_its_unit_is_read_and_flagged() {
        check(&[
            ("30s", None, Some(30.0), &["unit_suffix"]),
            ("2.0s", None, Some(2.0), &["unit_suffix"]),
            ("500ms", None, Some(0.5), &["unit_suffix"]),
            ("30 seconds", None, Some(30.0), &["unit_suffix"]),
            ("2 MINUTES", None, Some(120.0), &["unit_suffix"]),
            ("1m23s", None, Some(83.0), &["unit_suffix"]),
            ("6m0s", None, Some(360.0), &["unit_suffix"]),
            ("1h", None, Some(3600.0), &["unit_suffix"]),
            ("1.5s", None, Some(1.5), &["unit_suffix"]),
            ("250µs", None, Some(0.001), &["unit_suffix"]),
            ("12ns", None, Some(0.001), &["unit_suffix"]),
        ]);
    }

    #[test]
    fn a_number_that_counts_from_1970_is_a_moment() {
        let epoch = date().0 / 1000 + 110;
        check(&[
            (&epoch.to_string(), Some(epoch_f64(epoch)), Some(110.0), &["epoch_s"]),
            (&format!("{epoch}000"), Some(epoch_f64(epoch) * 1000.0), Some(110.0), &["epoch_ms"]),
            (&format!("{epoch}.25"), None, Some(110.25), &["float", "epoch_s"]),
            ("1000000000", Some(1e9), Some(0.0), &["epoch_s", "past"]),
            ("1795987809000000", Some(1_795_987_809_000_000.0), None, &["implausible"]),
        ]);
        assert!(!line(&epoch.to_string()).by_date, "strictly it is a number of seconds");
    }

    fn epoch_f64(seconds: i64) -> f64 {
        Millis::from_secs(seconds).as_secs_f64()
    }

    #[test]
    fn iso_8601_is_read_and_flagged() {
        check(&[
            ("2026-11-29T22:01:50Z", None, Some(110.0), &["iso8601"]),
            ("2026-11-29T23:01:50+01:00", None, Some(110.0), &["iso8601"]),
            ("2026-11-29T22:01:50.5Z", None, Some(110.5), &["iso8601"]),
            ("2026-11-29 22:01:50", None, Some(110.0), &["iso8601"]),
            ("2026-11-30", None, Some(7200.0), &["iso8601"]),
            ("2026-11-29T21:38:22Z", None, Some(0.0), &["iso8601", "past"]),
            ("PT30S", None, Some(30.0), &["iso_duration"]),
            ("PT1M30.5S", None, Some(90.5), &["iso_duration"]),
            ("P1DT1H", None, Some(90_000.0), &["iso_duration"]),
            ("P1Y", None, None, &["text"]),
            ("PT", None, None, &["text"]),
            ("P", None, None, &["text"]),
        ]);
    }

    #[test]
    fn eight_digits_are_a_date_only_near_the_base() {
        check(&[
            ("20261201", Some(20_261_201.0), Some(93_600.0), &["calendar_int"]),
            ("20261129", Some(20_261_129.0), Some(0.0), &["calendar_int", "past"]),
            ("20261301", Some(20_261_301.0), Some(20_261_301.0), &["implausible"]),
            ("20501201", Some(20_501_201.0), Some(20_501_201.0), &["implausible"]),
        ]);
        assert_eq!(words(&of(&[("retry-after", "20261201")])), ["implausible"]);
    }

    #[test]
    fn nothing_and_words_mean_nothing() {
        check(&[
            ("", None, None, &["empty"]),
            ("   ", None, None, &["empty"]),
            (",", None, None, &["empty"]),
            ("a while", None, None, &["text"]),
            ("soon", None, None, &["text"]),
            ("Sun", None, None, &["text"]),
            ("null", None, None, &["text"]),
            ("1e3", None, None, &["non_decimal"]),
            ("0x10", None, None, &["non_decimal"]),
            ("+7", None, None, &["non_decimal"]),
            ("1_000", None, None, &["non_decimal"]),
            ("٧", None, None, &["non_decimal"]),
            ("７", None, None, &["non_decimal"]),
            ("5.", None, None, &["non_decimal"]),
        ]);
    }

    #[test]
    fn digits_beyond_counting_overflow() {
        check(&[
            ("9999999999999999999", None, None, &["overflow"]),
            ("18446744073709551616", None, None, &["overflow"]),
            (&"9".repeat(10_000), None, None, &["overflow"]),
        ]);
        let reading = line("999999999999999999");
        assert_eq!(reading.strict, Strict::Seconds(999_999_999_999_999_999));
        assert_eq!(reading.strict_delay, None, "it does not fit into milliseconds");
        assert_eq!(words(&reading), ["implausible", "overflow"]);
    }

    #[test]
    fn other_dates_are_moments_with_flags() {
        check(&[
            ("Sun, 29 Nov 2026 17:01:50 EST", None, Some(110.0), &["zone"]),
            ("Mon, 30 Nov 2026 00:01:50 +0200", None, Some(110.0), &["zone"]),
            ("Mon, 30 Nov 2026 00:01:50 +02:00", None, Some(110.0), &["zone"]),
            ("Sun, 29 Nov 2026 14:01:50 -0800", None, Some(110.0), &["zone"]),
            ("Sun, 29 Nov 2026 22:01:50 UTC", None, Some(110.0), &["zone"]),
            ("29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
            ("sun, 29 nov 2026 22:01:50 gmt", None, Some(110.0), &["zone", "date_form"]),
            ("Mon, 29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
            ("Sun, 29 Nov 2026 22:01:50", None, Some(110.0), &["date_form"]),
            ("Sun, 29 Nov 2026 22:01:50.250 GMT", None, Some(110.25), &["date_form"]),
            ("Sun, 29-Nov-2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
            ("November 29, 2026 22:01:50", None, Some(110.0), &["date_form"]),
            ("Sun, 29 Nov 2026 22:01 GMT", None, Some(60.0), &["date_form"]),
            ("Sun, 31 Nov 2026 22:01:50 GMT", None, None, &["text"]),
            ("Sun, 29 Nov 2026 25:01:50 GMT", None, None, &["text"]),
            ("Sun, 29 Nov 2026 22:01:50 XYZ", None, None, &["text"]),
        ]);
    }

    #[test]
    fn a_date_in_the_past_means_no_wait() {
        check(&[
            ("Sun, 29 Nov 2026 21:50:00 GMT", Some(0.0), Some(0.0), &["past"]),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(0.0), Some(0.0), &["past"]),
        ]);
        let cached =
            of(&[("date", DATE), ("age", "600"), ("retry-after", "Sun, 29 Nov 2026 21:50:00 GMT")]);
        assert_eq!(words(&cached), ["past", "cached"]);
    }

    #[test]
    fn a_list_on_one_line_is_invalid_and_its_longest_wait_is_meant() {
        check(&[
            ("7, 7", None, Some(7.0), &["duplicate_equal"]),
            ("7,07", None, Some(7.0), &["duplicate_equal"]),
            ("7, 60", None, Some(60.0), &["duplicate_conflict"]),
            ("60, 7, 8", None, Some(60.0), &["duplicate_conflict"]),
            ("soon, 60", None, Some(60.0), &["text", "duplicate_conflict"]),
            ("soon, soon", None, None, &["text", "duplicate_equal"]),
            (
                "Sun, 29 Nov 2026 22:01:50 GMT, Sun, 29 Nov 2026 22:01:50 GMT",
                None,
                Some(110.0),
                &["duplicate_equal"],
            ),
            (
                "Sun, 29 Nov 2026 22:01:50 GMT,Sun, 29 Nov 2026 22:02:00 GMT",
                None,
                Some(120.0),
                &["duplicate_conflict"],
            ),
            (
                "Sunday, 29-Nov-26 22:01:50 GMT, Sun Nov 29 22:01:50 2026",
                None,
                Some(110.0),
                &["duplicate_equal"],
            ),
            ("7, Sun, 29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["duplicate_conflict"]),
        ]);
    }

    #[test]
    fn of_several_lines_the_first_is_what_clients_take() {
        let conflict = of(&[("retry-after", "3"), ("retry-after", "60")]);
        assert_eq!(conflict.strict, Strict::Seconds(3));
        assert_eq!(seconds(conflict.lenient_delay), Some(60.0));
        assert_eq!(words(&conflict), ["duplicate_conflict"]);
        assert_eq!(conflict.raw, ["3", "60"]);
        assert!(!conflict.is_compliant());

        let equal = of(&[("retry-after", "7"), ("retry-after", "7")]);
        assert_eq!(equal.strict, Strict::Seconds(7));
        assert_eq!(words(&equal), ["duplicate_equal"]);

        let broken = of(&[("retry-after", "soon"), ("retry-after", "60")]);
        assert_eq!(broken.strict, Strict::Invalid);
        assert_eq!(seconds(broken.lenient_delay), Some(60.0));
    }

    #[test]
    fn seconds_are_suspected_to_be_milliseconds_only_with_a_second_source() {
        let suspect = |fields: &[(&str, &str)]| {
            let mut all = vec![("date", DATE), ("retry-after", "30000")];
            all.extend_from_slice(fields);
            let reading = of(&all);
            assert_eq!(reading.strict, Strict::Seconds(30_000));
            assert_eq!(seconds(reading.strict_delay), Some(30_000.0));
            (seconds(reading.lenient_delay), reading.has(Flag::MsSuspect))
        };
        assert_eq!(suspect(&[]), (Some(30_000.0), false));
        assert_eq!(suspect(&[("ratelimit-reset", "30")]), (Some(30.0), true));
        assert_eq!(suspect(&[("ratelimit", "\"default\";r=0;t=30")]), (Some(30.0), true));
        assert_eq!(suspect(&[("ratelimit-policy", "100;w=60")]), (Some(30.0), true));
        assert_eq!(suspect(&[("ratelimit-reset", "30000")]), (Some(30_000.0), false));
        let in_half_a_minute = (date().0 / 1000 + 30).to_string();
        assert_eq!(suspect(&[("x-ratelimit-reset", &in_half_a_minute)]), (Some(30.0), true));
        assert_eq!(
            suspect(&[("ratelimit-reset", "0")]),
            (Some(30_000.0), false),
            "nothing is a thousandth of 0"
        );
    }

    #[test]
    fn a_date_is_measured_against_the_server_first() {
        let at = "Sun, 29 Nov 2026 22:01:00 GMT";
        let here = date().plus(Millis::from_secs(3600));
        let fields: HeaderFields = [("date", DATE), ("retry-after", at)].into_iter().collect();
        let reading = read(&fields, Some(here));
        assert_eq!(reading.base, Base::Date);
        assert!(reading.by_date);
        assert_eq!(seconds(reading.strict_delay), Some(60.0));
        assert_eq!(reading.clock_skew, Some(Millis::from_secs(-3600)));
        assert_eq!(words(&reading), ["clock_skew"]);

        let fields: HeaderFields = [("retry-after", at)].into_iter().collect();
        let reading = read(&fields, Some(date().plus(Millis(500))));
        assert_eq!(reading.base, Base::Observed);
        assert_eq!(seconds(reading.strict_delay), Some(59.5));
        assert_eq!(words(&reading), ["no_server_date"]);

        let reading = read(&fields, None);
        assert_eq!(reading.base, Base::None);
        assert_eq!(reading.strict, Strict::Date(date().plus(Millis::from_secs(60))));
        assert_eq!(reading.strict_delay, None);
        assert_eq!(reading.lenient_delay, None);
        assert_eq!(words(&reading), ["no_server_date"]);

        let unreadable: HeaderFields =
            [("date", "yesterday"), ("retry-after", at)].into_iter().collect();
        assert_eq!(read(&unreadable, Some(date())).base, Base::Observed);

        let length: HeaderFields = [("retry-after", "7")].into_iter().collect();
        assert_eq!(read(&length, Some(date())).base, Base::None);
    }

    #[test]
    fn age_shortens_what_remains_and_not_the_promise() {
        let reading = of(&[("date", DATE), ("age", "20"), ("retry-after", "60")]);
        assert_eq!(seconds(reading.strict_delay), Some(60.0));
        assert_eq!(seconds(reading.remaining), Some(40.0));
        assert_eq!(words(&reading), ["cached"]);

        let older = of(&[("age", "90"), ("retry-after", "60")]);
        assert_eq!(seconds(older.remaining), Some(0.0));

        let fresh = of(&[("age", "0"), ("retry-after", "60")]);
        assert_eq!(seconds(fresh.remaining), Some(60.0));
        assert!(fresh.flags.is_empty());

        let by_date =
            of(&[("date", DATE), ("age", "2"), ("retry-after", "Sun, 29 Nov 2026 22:01:00 GMT")]);
        assert_eq!(seconds(by_date.strict_delay), Some(60.0));
        assert_eq!(seconds(by_date.remaining), Some(58.0));

        let nonsense = of(&[("age", "-3"), ("retry-after", "60")]);
        assert_eq!(seconds(nonsense.remaining), Some(60.0));
    }

    #[test]
    fn a_replay_without_age_leaves_the_rest_unknown() {
        for field in [
            ("cf-cache-status", "HIT"),
            ("x-cache", "HIT from proxy.example"),
            ("x-cache-status", "STALE"),
            ("cache-status", "ExampleCache; hit; ttl=30"),
        ] {
            let reading = of(&[field, ("retry-after", "60")]);
            assert_eq!(seconds(reading.strict_delay), Some(60.0), "{field:?}");
            assert_eq!(reading.remaining, None, "{field:?}");
            assert_eq!(words(&reading), ["cached"], "{field:?}");
        }
        for field in [
            ("cf-cache-status", "DYNAMIC"),
            ("x-cache", "MISS"),
            ("x-cache", "Error from cloudfront"),
        ] {
            assert_eq!(seconds(of(&[field, ("retry-after", "60")]).remaining), Some(60.0));
        }
        let synthetic =
            of(&[("x-cache", "HIT"), ("x-served-by", "cache-ams1-AMS"), ("retry-after", "60")]);
        assert_eq!(seconds(synthetic.remaining), Some(60.0));
    }

    #[test]
    fn another_name_stands_in_only_where_the_field_is_absent() {
        for (name, value, wait) in [
            ("retry-after-burst", "12", 12.0),
            ("retry-after-ms", "1500", 1.5),
            ("retry-after-ms", "1500.5", 1.501),
            ("x-ms-retry-after-ms", "50", 0.05),
            ("x-amz-retry-after", "2500", 2.5),
        ] {
            let reading = of(&[(name, value)]);
            assert_eq!(reading.strict, Strict::Absent, "{name}");
            assert_eq!(reading.strict_delay, None, "{name}");
            assert_eq!(seconds(reading.lenient_delay), Some(wait), "{name}");
            assert_eq!(reading.field.as_deref(), Some(name));
            assert!(reading.has(Flag::NonstandardName), "{name}");
            assert!(!reading.is_compliant(), "{name}");
        }
        let traefik = of(&[("x-retry-in", "54.2s")]);
        assert_eq!(seconds(traefik.lenient_delay), Some(54.2));
        let both = of(&[("retry-after-burst", "12"), ("retry-after", "3")]);
        assert_eq!(seconds(both.lenient_delay), Some(3.0));
        assert!(both.flags.is_empty());
    }

    #[test]
    fn an_absent_field_says_nothing_but_the_skew_is_known() {
        let fields: HeaderFields = [("date", DATE)].into_iter().collect();
        let reading = read(&fields, Some(date().plus(Millis(-250))));
        assert_eq!(reading.strict, Strict::Absent);
        assert_eq!(reading.field, None);
        assert_eq!(reading.lenient_delay, None);
        assert_eq!(reading.clock_skew, Some(Millis(250)));
        assert!(reading.flags.is_empty());
    }

    #[test]
    fn the_skew_of_a_replay_takes_its_age_into_account() {
        let fields: HeaderFields = [("date", DATE), ("age", "600")].into_iter().collect();
        let here = date().plus(Millis::from_secs(601));
        assert_eq!(read(&fields, Some(here)).clock_skew, Some(Millis::from_secs(-1)));
        let rewritten = read(&fields, Some(date())).clock_skew;
        assert_eq!(rewritten, Some(Millis(0)), "a cache may write its own date");
    }

    #[test]
    fn every_flag_is_raised_by_some_example() {
        let mut raised: Vec<Flag> = Vec::new();
        let epoch = (date().0 / 1000 + 110).to_string();
        let epoch_ms = format!("{epoch}000");
        for value in [
            "1.5",
            "-5",
            "30s",
            &epoch,
            &epoch_ms,
            "2026-11-29T22:01:50Z",
            "PT30S",
            "20261201",
            "",
            "7, 7",
            "7, 60",
            "Sun, 29 Nov 2026 17:01:50 EST",
            "29 Nov 2026 22:01:50 GMT",
            "Sun, 29 Nov 2026 21:50:00 GMT",
            "a while",
            "1e3",
            "9999999999999999999",
            "100000",
        ] {
            raised.extend(line(value).flags);
        }
        raised.extend(of(&[("age", "5"), ("retry-after", "9")]).flags);
        raised.extend(of(&[("retry-after-login", "9")]).flags);
        raised.extend(of(&[("retry-after", "30000"), ("ratelimit-reset", "30")]).flags);
        let late = date().plus(Millis(9000));
        raised.extend(
            read(&[("date", DATE), ("retry-after", "9")].into_iter().collect(), Some(late)).flags,
        );
        let no_date = [("retry-after", "Sun, 29 Nov 2026 22:01:50 GMT")].into_iter().collect();
        raised.extend(read(&no_date, Some(late)).flags);
        for flag in Flag::ALL {
            assert!(raised.contains(flag), "no example raises {flag}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is about time")]
    fn a_very_long_value_is_read_in_bounded_time() {
        let started = std::time::Instant::now();
        for piece in ["9", "9,", "Sun,", "1s", "P", "-", "٧", "29 Nov ", "1:"] {
            let long = piece.repeat(100_000);
            assert_eq!(line(&long).raw.len(), 1);
        }
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn arbitrary_lines_never_panic(
            lines in prop::collection::vec(any::<String>(), 0..4),
            date in any::<Option<String>>(),
            age in any::<Option<String>>(),
            observed in any::<Option<i64>>(),
        ) {
            let mut fields = HeaderFields::new();
            for value in &lines { fields.push("retry-after", value); }
            if let Some(date) = date { fields.push("date", &date); }
            if let Some(age) = age { fields.push("age", &age); }
            let _ = read(&fields, observed.map(UnixMillis));
        }

        #[test]
        fn lines_close_to_a_value_never_panic_and_no_wait_is_negative(
            value in "(-?[0-9]{1,40}(\\.[0-9]{0,5})?(ms|s|m|h|d|µs)?[, ]{0,2}|[PT0-9SMHDW.]{1,12}|(Sun|sunday|Mon)?,? ?[0-9]{1,2}[ -](Nov|feb|June)[ -][0-9]{2,4} [0-9:.]{4,12} ?(GMT|EST|[+-][0-9:]{4,5})?|[0-9T:.Z+-]{4,26}){1,3}",
            observed in any::<Option<i64>>(),
        ) {
            let mut fields = HeaderFields::new();
            fields.push("retry-after", &value);
            let reading = read(&fields, observed.map(UnixMillis));
            for wait in [reading.strict_delay, reading.lenient_delay, reading.remaining] {
                prop_assert!(wait.is_none_or(|wait| wait.0 >= 0), "{value}: {wait:?}");
            }
            if reading.strict == Strict::Invalid {
                prop_assert!(!reading.flags.is_empty(), "{value} is invalid without a reason");
            }
        }

        #[test]
        fn digits_of_any_length_read_as_their_number(number in any::<u32>(), zeros in 0_usize..50) {
            let text = format!("{}{number}", "0".repeat(zeros));
            prop_assert_eq!(line(&text).strict, Strict::Seconds(number.into()));
        }

        #[test]
        fn a_strict_value_and_its_lenient_twin_agree_below_a_day(number in 0_u64..=86_400) {
            let reading = line(&number.to_string());
            prop_assert_eq!(reading.strict_delay, reading.lenient_delay);
            prop_assert!(reading.flags.is_empty());
        }
    }
}
