//! Dates that are none of HTTP's three forms but that a person reads without doubt.

use super::forms::{plain_digits, thousandths};
use crate::domain::http_date::{self, Civil, DAYS, LONG_DAYS, MONTHS};
use crate::domain::time::{Millis, UnixMillis};

/// A date and how far it strays from the standard.
pub(super) struct WrittenDate {
    /// The moment.
    pub(super) at: UnixMillis,
    /// Whether its zone is written otherwise than `GMT`.
    pub(super) has_other_zone: bool,
    /// Whether anything but the zone is none of HTTP's forms.
    pub(super) has_other_form: bool,
}

pub(super) fn is_day_name(text: &str) -> bool {
    DAYS.iter().chain(&LONG_DAYS).any(|name| name.eq_ignore_ascii_case(text))
}

/// A date with a day, a month's name, a year and a time, however arranged: the day name may be
/// missing or wrong, letters in any case, the zone another one.
pub(super) fn written_date(text: &str, now: Option<UnixMillis>) -> Option<WrittenDate> {
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
    let as_gmt = match parts.zone.as_deref() {
        Some(zone) => text.replace(zone, "GMT"),
        None => text.to_owned(),
    };
    Some(WrittenDate {
        at: UnixMillis(local.0.checked_sub(offset.0)?),
        has_other_zone: !matches!(parts.zone.as_deref(), None | Some("GMT")),
        has_other_form: http_date::parse(&as_gmt, now).is_none(),
    })
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
