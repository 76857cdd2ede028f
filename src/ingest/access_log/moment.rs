//! Moments as logs write them.

use crate::domain::time::{DAY_MS, UnixMillis};

/// A moment as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The moment; where no zone is written, that of UTC.
    pub(super) at: UnixMillis,
    /// No zone is written: it is the local time of wherever the log is from.
    pub(super) is_local: bool,
}

impl Stamp {
    const fn fixed(at: UnixMillis) -> Self {
        Self { at, is_local: false }
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Any of the forms below.
pub(super) fn any(text: &str) -> Option<Stamp> {
    iso(text).or_else(|| common(text)).or_else(|| epoch_s(text))
}

/// `2026-11-29T22:27:33.258+0000`, `2026-11-29T22:27:33Z`, `2026-11-29 22:27:33`.
pub(super) fn iso(text: &str) -> Option<Stamp> {
    let text = text.trim();
    UnixMillis::parse_rfc3339(text).map(Stamp::fixed).or_else(|| {
        // ISO 8601 allows an offset without a colon, RFC 3339 does not.
        let (head, tail) = text.split_at_checked(text.len().checked_sub(5)?)?;
        let (sign, digits) = tail.split_at_checked(1)?;
        let is_offset = matches!(sign, "+" | "-") && digits.bytes().all(|b| b.is_ascii_digit());
        let (hours, minutes) = digits.split_at_checked(2)?;
        if is_offset {
            UnixMillis::parse_rfc3339(&format!("{head}{sign}{hours}:{minutes}")).map(Stamp::fixed)
        } else {
            let at = UnixMillis::parse_rfc3339(&format!("{text}Z"))?;
            Some(Stamp { at, is_local: true })
        }
    })
}

/// `29/Nov/2026:22:26:26 +0000` (NCSA), `29/Nov/2026:22:26:57.958` (HAProxy).
pub(super) fn common(text: &str) -> Option<Stamp> {
    let text = text.trim();
    let (stamp, offset) = text.split_once(' ').map_or((text, None), |(s, o)| (s, Some(o)));
    let mut parts = stamp.split(['/', ':', '.']);
    let day: i64 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let year: i64 = parts.next()?.parse().ok()?;
    let clock = clock(&mut parts)?;
    let date = days(year, i64::try_from(month).ok()?.checked_add(1)?, day)?;
    let ms = date.checked_mul(DAY_MS)?.checked_add(clock)?;
    let offset_ms = offset.map_or(Some(0), offset_ms)?;
    Some(Stamp { at: UnixMillis(ms.checked_sub(offset_ms)?), is_local: offset.is_none() })
}

/// `2023/04/02 12:00:00`, nginx's error log.
pub(super) fn slashed(date: &str, time: &str) -> Option<Stamp> {
    let mut parts = date.split('/');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let date = days(number()?, number()?, number()?)?;
    let clock = clock(&mut time.split([':', '.']))?;
    let at = UnixMillis(date.checked_mul(DAY_MS)?.checked_add(clock)?);
    Some(Stamp { at, is_local: true })
}

/// Seconds since 1970 with a fraction: `1795991186.952`.
pub(super) fn epoch_s(text: &str) -> Option<Stamp> {
    let (seconds, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if seconds.len() < 9 || seconds.len() > 11 {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let at = seconds.checked_mul(1000)?.checked_add(thousandths(fraction))?;
    Some(Stamp::fixed(UnixMillis(at)))
}

/// Milliseconds since 1970.
pub(super) fn epoch_ms(text: &str) -> Option<Stamp> {
    let ms: i64 = text.trim().parse().ok()?;
    (100_000_000_000..100_000_000_000_000).contains(&ms).then_some(Stamp::fixed(UnixMillis(ms)))
}

/// Hours, minutes, seconds and perhaps a fraction, in milliseconds.
fn clock<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<i64> {
    let mut number =
        |most: i64| parts.next()?.parse::<i64>().ok().filter(|number| (0..=most).contains(number));
    // 60: a leap second.
    let (hours, minutes, seconds) = (number(23)?, number(59)?, number(60)?);
    let fraction = parts.next().unwrap_or_default();
    Some((hours * 3600 + minutes * 60 + seconds) * 1000 + thousandths(fraction))
}

/// The first three digits of a fraction of a second.
fn thousandths(fraction: &str) -> i64 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    digits.fold(0, |sum, digit| sum * 10 + i64::from(digit.saturating_sub(b'0').min(9)))
}

/// `+0100` in milliseconds.
fn offset_ms(text: &str) -> Option<i64> {
    let (sign, digits) = text.trim().split_at_checked(1)?;
    let (hours, minutes) = digits.split_at_checked(2)?;
    let ms = (hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?) * 60_000;
    match sign {
        "+" => Some(ms),
        "-" => Some(-ms),
        _ => None,
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}
