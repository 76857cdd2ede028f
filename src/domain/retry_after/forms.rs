//! The ways in which a number, a length of time or a date is written, each without judgement.

use crate::domain::http_date::Civil;
use crate::domain::time::{Millis, UnixMillis};

/// The longest text, in bytes, that is searched for anything but digits.
pub(super) const LONGEST_TEXT: usize = 128;

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
pub(super) fn iso_duration(text: &str) -> Option<Millis> {
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
    (parts > 0).then_some(total)
}
