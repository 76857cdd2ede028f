//! The three dates of HTTP (RFC 9110 section 5.6.7).
//!
//! [`parse`] takes only what the RFC allows: names are case-sensitive, the zone is `GMT`, and the
//! day name must be the one of that day. What servers write beside that is read, with flags, by
//! [`super::retry_after`].

use super::time::UnixMillis;

/// Which of the three forms a date was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateForm {
    /// `Sun, 06 Nov 1994 08:49:37 GMT`: the only form that may be sent.
    ImfFixdate,
    /// `Sunday, 06-Nov-94 08:49:37 GMT`: obsolete, must be accepted.
    Rfc850,
    /// `Sun Nov  6 08:49:37 1994`: obsolete, must be accepted; always UTC.
    Asctime,
}

/// Short day names as HTTP spells them, Sunday first.
pub(crate) const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Long day names as the RFC 850 form spells them, Sunday first.
pub(crate) const LONG_DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Month names as HTTP spells them.
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The moment that two-digit years are judged from where the caller knows no better one:
/// 2026-01-01T00:00:00Z. Without a base no wait can be measured, so nothing hangs on it.
const FALLBACK_NOW: UnixMillis = UnixMillis(1_767_225_600_000);

/// Reads one of the three date forms, strictly.
///
/// `now` decides the century of the RFC 850 form: a year more than 50 years ahead of it is the
/// latest past year with the same two digits.
pub fn parse(text: &str, now: Option<UnixMillis>) -> Option<(UnixMillis, DateForm)> {
    // The longest form is "Wednesday, 06-Nov-94 08:49:37 GMT".
    if text.len() > 40 {
        return None;
    }
    imf_fixdate(text)
        .map(|at| (at, DateForm::ImfFixdate))
        .or_else(|| Some((rfc850(text, now)?, DateForm::Rfc850)))
        .or_else(|| Some((asctime(text)?, DateForm::Asctime)))
}

/// Writes `Sun, 06 Nov 1994 08:49:37 GMT`; milliseconds are dropped, and moments outside the
/// years 0000 to 9999 become the nearest one inside.
pub fn format_imf(at: UnixMillis) -> String {
    let seconds = at.0.div_euclid(1000).clamp(FIRST_SECOND, LAST_SECOND);
    let days = seconds.div_euclid(86_400);
    let second_of_day = seconds.rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let day_name = DAYS.get(weekday(days)).copied().unwrap_or_default();
    let month_name = usize::try_from(month - 1).ok().and_then(|m| MONTHS.get(m)).copied();
    format!(
        "{day_name}, {day:02} {month_name} {year:04} {hour:02}:{minute:02}:{second:02} GMT",
        month_name = month_name.unwrap_or_default(),
        hour = second_of_day / 3600,
        minute = second_of_day / 60 % 60,
        second = second_of_day % 60,
    )
}

/// 0000-01-01T00:00:00Z in seconds.
const FIRST_SECOND: i64 = -62_167_219_200;
/// 9999-12-31T23:59:59Z in seconds.
const LAST_SECOND: i64 = 253_402_300_799;

/// A date and a time of day in UTC, as read from text and not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    /// Year, 0 to 9999.
    pub(crate) year: i64,
    /// Month, 1 to 12.
    pub(crate) month: i64,
    /// Day of the month, from 1.
    pub(crate) day: i64,
    /// Hour, 0 to 23.
    pub(crate) hour: i64,
    /// Minute, 0 to 59.
    pub(crate) minute: i64,
    /// Second, 0 to 60; 60 is a leap second and means the next second.
    pub(crate) second: i64,
}

impl Civil {
    /// The moment; `None` where the calendar has no such day or the clock no such time.
    pub(crate) fn moment(self) -> Option<UnixMillis> {
        let days = self.days()?;
        let fits = (0..=23).contains(&self.hour)
            && (0..=59).contains(&self.minute)
            && (0..=60).contains(&self.second);
        let seconds = self.hour * 3600 + self.minute * 60 + self.second;
        fits.then(|| UnixMillis((days * 86_400 + seconds) * 1000))
    }

    /// The day's name as an index into [`DAYS`].
    pub(crate) fn weekday(self) -> Option<usize> {
        self.days().map(weekday)
    }

    /// Days since 1970-01-01; `None` where the calendar has no such day.
    fn days(self) -> Option<i64> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let last = match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + i64::from(leap),
            _ => return None,
        };
        let fits = (0..=9999).contains(&self.year) && (1..=last).contains(&self.day);
        fits.then(|| days_from_civil(self.year, self.month, self.day))
    }
}

/// The full year of a two-digit one (RFC 9110 section 5.6.7): the latest year with these last two
/// digits that is at most 50 years ahead of `now`.
pub(crate) fn full_year(two_digits: i64, now: Option<UnixMillis>) -> i64 {
    let seconds = now.unwrap_or(FALLBACK_NOW).0.div_euclid(1000).clamp(FIRST_SECOND, LAST_SECOND);
    let (year, _, _) = civil_from_days(seconds.div_euclid(86_400));
    let latest = year + 50;
    latest - (latest - two_digits).rem_euclid(100)
}

fn imf_fixdate(text: &str) -> Option<UnixMillis> {
    let mut scan = Scan(text.as_bytes());
    let day_name = scan.name(&DAYS)?;
    scan.literal(b", ")?;
    let day = scan.digits(2)?;
    scan.literal(b" ")?;
    let month = scan.month()?;
    scan.literal(b" ")?;
    let year = scan.digits(4)?;
    scan.literal(b" ")?;
    let (hour, minute, second) = scan.time()?;
    scan.literal(b" GMT")?;
    scan.end()?;
    checked(day_name, Civil { year, month, day, hour, minute, second })
}

fn rfc850(text: &str, now: Option<UnixMillis>) -> Option<UnixMillis> {
    let mut scan = Scan(text.as_bytes());
    let day_name = scan.name(&LONG_DAYS)?;
    scan.literal(b", ")?;
    let day = scan.digits(2)?;
    scan.literal(b"-")?;
    let month = scan.month()?;
    scan.literal(b"-")?;
    let year = full_year(scan.digits(2)?, now);
    scan.literal(b" ")?;
    let (hour, minute, second) = scan.time()?;
    scan.literal(b" GMT")?;
    scan.end()?;
    checked(day_name, Civil { year, month, day, hour, minute, second })
}

fn asctime(text: &str) -> Option<UnixMillis> {
    let mut scan = Scan(text.as_bytes());
    let day_name = scan.name(&DAYS)?;
    scan.literal(b" ")?;
    let month = scan.month()?;
    scan.literal(b" ")?;
    // A day below 10 is padded with a space; a leading zero is no part of the form.
    let day = if scan.literal(b" ").is_some() {
        scan.digits(1)?
    } else {
        scan.digits(2).filter(|day| *day >= 10)?
    };
    scan.literal(b" ")?;
    let (hour, minute, second) = scan.time()?;
    scan.literal(b" ")?;
    let year = scan.digits(4)?;
    scan.end()?;
    checked(day_name, Civil { year, month, day, hour, minute, second })
}

/// The moment, provided that the day name is the right one.
fn checked(day_name: usize, civil: Civil) -> Option<UnixMillis> {
    (civil.weekday()? == day_name).then(|| civil.moment())?
}

/// Reads fixed pieces from the front of a text.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let mut value = 0;
        for digit in digits {
            value = value * 10 + i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        }
        self.0 = rest;
        Some(value)
    }

    fn name(&mut self, names: &[&str]) -> Option<usize> {
        let found = names.iter().position(|name| self.0.starts_with(name.as_bytes()))?;
        self.literal(names.get(found)?.as_bytes())?;
        Some(found)
    }

    fn month(&mut self) -> Option<i64> {
        i64::try_from(self.name(&MONTHS)? + 1).ok()
    }

    fn time(&mut self) -> Option<(i64, i64, i64)> {
        let hour = self.digits(2)?;
        self.literal(b":")?;
        let minute = self.digits(2)?;
        self.literal(b":")?;
        Some((hour, minute, self.digits(2)?))
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The day's name as an index into [`DAYS`], for days counted from 1970-01-01 (a Thursday).
fn weekday(days: i64) -> usize {
    usize::try_from((days + 4).rem_euclid(7)).unwrap_or_default()
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so
/// that the leap day is the last of its year; 400 years always have 146 097 days.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day counted from 1970-01-01; the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let from_march_0 = days + 719_468;
    let era = from_march_0.div_euclid(146_097);
    let day_of_era = from_march_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: UnixMillis = UnixMillis(784_111_777_000);

    fn at(text: &str) -> UnixMillis {
        UnixMillis::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn all_three_forms_name_the_same_moment() {
        let now = Some(at("2026-11-29T00:00:00Z"));
        for (text, form) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", DateForm::ImfFixdate),
            ("Sunday, 06-Nov-94 08:49:37 GMT", DateForm::Rfc850),
            ("Sun Nov  6 08:49:37 1994", DateForm::Asctime),
        ] {
            assert_eq!(parse(text, now), Some((SAMPLE, form)), "{text}");
        }
        assert_eq!(format_imf(SAMPLE), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn edges_of_the_calendar_are_read() {
        for (text, moment) in [
            ("Thu, 29 Feb 2024 23:59:59 GMT", "2024-02-29T23:59:59Z"),
            ("Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00Z"),
            ("Sat, 31 Dec 2016 23:59:60 GMT", "2017-01-01T00:00:00Z"),
            ("Thu, 30 Dec 9999 12:00:00 GMT", "9999-12-30T12:00:00Z"),
            ("Thu Jan  1 00:00:00 1970", "1970-01-01T00:00:00Z"),
            ("Wed Dec 31 23:59:59 1969", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(parse(text, None).map(|found| found.0), Some(at(moment)), "{text}");
        }
    }

    #[test]
    fn what_the_rfc_does_not_allow_is_refused() {
        for (text, why) in [
            ("", "empty"),
            ("Sun, 06 Nov 1994 08:49:37 UTC", "zone is not GMT"),
            ("Sun, 06 Nov 1994 08:49:37 +0000", "zone is not GMT"),
            ("Sun, 06 Nov 1994 08:49:37", "no zone"),
            ("sun, 06 nov 1994 08:49:37 gmt", "names are case-sensitive"),
            ("Sun, 06 Nov 1994 08:49:37 gmt", "zone is case-sensitive"),
            ("Mon, 06 Nov 1994 08:49:37 GMT", "wrong day name"),
            ("06 Nov 1994 08:49:37 GMT", "no day name"),
            ("Sun, 6 Nov 1994 08:49:37 GMT", "day has two digits"),
            ("Sun, 06 Nov 94 08:49:37 GMT", "year has four digits"),
            ("Sun, 06 Nov 1994  08:49:37 GMT", "two spaces"),
            ("Sun, 06 Nov 1994 8:49:37 GMT", "hour has two digits"),
            ("Sun, 06 Nov 1994 08:49 GMT", "no seconds"),
            ("Sun, 06 Nov 1994 08:49:37.5 GMT", "fraction"),
            ("Sun, 06 Nov 1994 24:00:00 GMT", "no such hour"),
            ("Sun, 06 Nov 1994 08:60:00 GMT", "no such minute"),
            ("Sun, 06 Nov 1994 08:49:61 GMT", "no such second"),
            ("Wed, 29 Feb 2023 00:00:00 GMT", "no such day"),
            ("Thu, 31 Nov 1994 00:00:00 GMT", "no such day"),
            ("Tue, 00 Nov 1994 00:00:00 GMT", "no such day"),
            ("Sun, 06-Nov-94 08:49:37 GMT", "RFC 850 uses long day names"),
            ("Sunday, 06 Nov 1994 08:49:37 GMT", "IMF-fixdate uses short day names"),
            ("Sunday, 06-Nov-1994 08:49:37 GMT", "RFC 850 has two-digit years"),
            ("Sun Nov 6 08:49:37 1994", "asctime pads the day"),
            ("Sun Nov 06 08:49:37 1994", "asctime pads with a space"),
            ("Sun Nov  6 08:49:37 1994 GMT", "asctime has no zone"),
            ("Sun, 06 Nov 1994 08:49:37 GMT ", "trailing space"),
            ("Sun, 06 Nov 1994 08:49:37 GMT, x", "list"),
            ("Sun, ٠٦ Nov 1994 08:49:37 GMT", "digits are ASCII"),
        ] {
            assert_eq!(parse(text, None), None, "{text}: {why}");
        }
    }

    #[test]
    fn a_two_digit_year_more_than_50_years_ahead_is_past() {
        let now = Some(at("2026-06-01T00:00:00Z"));
        for (digits, year) in
            [(74, 2074), (75, 2075), (76, 2076), (77, 1977), (94, 1994), (0, 2000), (26, 2026)]
        {
            assert_eq!(full_year(digits, now), year, "{digits}");
            let civil = Civil { year, month: 11, day: 6, hour: 8, minute: 49, second: 37 };
            let name = LONG_DAYS[civil.weekday().unwrap()];
            let text = format!("{name}, 06-Nov-{digits:02} 08:49:37 GMT");
            assert_eq!(parse(&text, now), Some((civil.moment().unwrap(), DateForm::Rfc850)));
        }
        let later = Some(at("2090-01-01T00:00:00Z"));
        assert_eq!(full_year(10, later), 2110);
        assert_eq!(full_year(41, later), 2041);
    }

    #[test]
    fn moments_outside_four_digit_years_are_written_as_the_nearest_inside() {
        assert_eq!(format_imf(UnixMillis(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(format_imf(UnixMillis(i64::MIN)), "Sat, 01 Jan 0000 00:00:00 GMT");
        assert_eq!(format_imf(UnixMillis(-1)), "Wed, 31 Dec 1969 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn every_moment_reads_back_from_its_text(seconds in FIRST_SECOND..=LAST_SECOND) {
            let moment = UnixMillis(seconds * 1000);
            prop_assert_eq!(
                parse(&format_imf(moment), None),
                Some((moment, DateForm::ImfFixdate))
            );
        }

        #[test]
        fn the_calendar_agrees_with_an_independent_one(
            // The other calendar ends a little before ours.
            seconds in FIRST_SECOND..LAST_SECOND - 200_000,
        ) {
            let moment = UnixMillis(seconds * 1000);
            let stamp = jiff::Timestamp::from_second(seconds).unwrap();
            prop_assert_eq!(
                format_imf(moment),
                stamp.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
            );
        }

        #[test]
        fn arbitrary_text_never_panics(text in any::<String>(), now in any::<Option<i64>>()) {
            let _ = parse(&text, now.map(UnixMillis));
        }

        #[test]
        fn text_close_to_a_date_never_panics(
            text in "[A-Z][a-z]{2,8},? [0-9 ]{2}[ -][A-Z][a-z]{2}[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?",
            now in any::<i64>(),
        ) {
            let _ = parse(&text, Some(UnixMillis(now)));
        }

        #[test]
        fn any_moment_can_be_written(at in any::<i64>()) {
            prop_assert_eq!(format_imf(UnixMillis(at)).len(), 29);
        }
    }
}
