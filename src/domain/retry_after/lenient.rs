//! What the sender most likely meant, with a flag for everything that is wrong or doubtful.

use super::forms::{
    LONGEST_TEXT, duration, iso_duration, iso_moment, plain_digits, seconds_to_millis, thousandths,
};
use super::written_date::{is_day_name, written_date};
use super::{Flag, wait_until};
use crate::domain::headers;
use crate::domain::http_date::{self, Civil};
use crate::domain::response::HeaderFields;
use crate::domain::time::{DAY_MS, Millis, UnixMillis};

/// Above this many plain seconds a wait is hard to believe.
const LONGEST_PLAUSIBLE_S: u64 = 86_400;

/// How far a calendar date written as an integer may lie from the base.
const NEAR: Millis = Millis(366 * DAY_MS);

/// How many values of a list are looked at.
const MOST_VALUES: usize = 32;

/// What the plain numbers of a field count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// What a lenient reading understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Delay(Millis),
    Moment(UnixMillis),
}

impl Meaning {
    pub(super) fn delay(self, base: Option<UnixMillis>) -> Option<Millis> {
        match self {
            Self::Delay(delay) => Some(delay),
            Self::Moment(at) => base.map(|base| wait_until(at, base)),
        }
    }
}

/// What a lenient reading may look at beside the value.
pub(super) struct Context<'a> {
    pub(super) headers: &'a HeaderFields,
    pub(super) base: Option<UnixMillis>,
    pub(super) observed_at: Option<UnixMillis>,
    pub(super) unit: Unit,
}

/// Flags, each once.
#[derive(Default)]
pub(super) struct Flags(pub(super) Vec<Flag>);

impl Flags {
    pub(super) fn raise(&mut self, flag: Flag) {
        if !self.has(flag) {
            self.0.push(flag);
        }
    }

    pub(super) fn has(&self, flag: Flag) -> bool {
        self.0.contains(&flag)
    }
}

/// Every line together: one value, or a list of them.
pub(super) fn lenient(
    lines: &[String],
    context: &Context<'_>,
    flags: &mut Flags,
) -> Option<Meaning> {
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
    line.len() <= LONGEST_TEXT && written_date(line, now).is_some()
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
        .or_else(|| {
            let length = iso_duration(text)?;
            flags.raise(Flag::IsoDuration);
            Some(Meaning::Delay(length))
        })
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

/// `30s`, `500 ms`, `1m30s`, `2 minutes`.
fn with_unit(text: &str, flags: &mut Flags) -> Option<Meaning> {
    let delay = duration(text)?;
    flags.raise(Flag::UnitSuffix);
    Some(Meaning::Delay(delay))
}

/// `2026-11-29T21:38:22Z`, with any offset or none, with a blank for the `T`, or the day alone.
fn iso_date(text: &str, flags: &mut Flags) -> Option<Meaning> {
    let at = iso_moment(text)?;
    flags.raise(Flag::Iso8601);
    Some(Meaning::Moment(at))
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

fn other_date(text: &str, now: Option<UnixMillis>, flags: &mut Flags) -> Option<Meaning> {
    let date = written_date(text, now)?;
    if date.has_other_zone {
        flags.raise(Flag::Zone);
    }
    if date.has_other_form {
        flags.raise(Flag::DateForm);
    }
    Some(Meaning::Moment(date.at))
}
