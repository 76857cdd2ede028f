//! How numbers, lengths of time and ratios are worded on pages: as the steps word them, so that a
//! page never says the same number in two ways.

use crate::domain::checklist::words::span;
pub use crate::domain::checklist::words::{count, percent};
use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis};

/// What stands where there is nothing to count.
pub const NO_DATA: &str = "no data";

/// `1 attempt`, `2 attempts`.
pub fn counted(n: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `part / whole`, `None` without a whole.
#[expect(clippy::cast_precision_loss, reason = "counts shown to people stay far below 2^53")]
pub fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// As [`percent`], or [`NO_DATA`].
pub fn percent_or_none(share: Option<f64>) -> String {
    share.map_or_else(|| NO_DATA.to_owned(), percent)
}

/// A factor such as attempts per operation: `1.26`.
pub fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| NO_DATA.to_owned(), |v| format!("{v:.2}"))
}

/// A length of time in the unit that fits: `84 ms`, `1.2 s`, `2 min 5 s`, `3 h 4 min`, `2 d 1 h`.
pub fn length(length: Millis) -> String {
    span(length.0)
}

/// As [`length`] for an optional number of milliseconds; `–` where absent.
pub fn length_or_dash(ms: Option<i64>) -> String {
    ms.map_or_else(|| "\u{2013}".to_owned(), |ms| length(Millis(ms)))
}

/// How long ago `at` was, in words: `4 min ago`, `just now`, `in 2 min` for a clock ahead.
pub fn ago(at: UnixMillis, now: UnixMillis) -> String {
    let ms = now.since(at).0;
    let coarse = |ms: i64| match ms {
        ..MINUTE_MS => format!("{} s", ms / 1000),
        MINUTE_MS..HOUR_MS => format!("{} min", ms / MINUTE_MS),
        HOUR_MS..DAY_MS => format!("{} h", ms / HOUR_MS),
        _ => format!("{} d", ms / DAY_MS),
    };
    match ms {
        0..1000 => "just now".to_owned(),
        ..0 => format!("in {}", coarse(ms.saturating_neg())),
        _ => format!("{} ago", coarse(ms)),
    }
}

/// `2026-11-11 07:29:00` (UTC), for people.
pub fn day_and_time(at: UnixMillis) -> String {
    at.to_rfc3339().chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// `07:29:00.120` (UTC).
pub fn time_of_day(at: UnixMillis) -> String {
    at.to_rfc3339().chars().skip(11).take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_data_say_so() {
        assert_eq!(counted(1, "attempt", "attempts"), "1 attempt");
        assert_eq!(counted(1204, "attempt", "attempts"), "1,204 attempts");
        assert_eq!(percent_or_none(ratio(1, 0)), NO_DATA);
        assert_eq!(percent_or_none(ratio(1, 8)), "12.5 %");
        assert_eq!(factor(ratio(5, 4)), "1.25");
        assert_eq!(length_or_dash(None), "\u{2013}");
        assert_eq!(length_or_dash(Some(30_000)), "30 s");
    }

    #[test]
    fn moments_are_worded_from_now() {
        let now = UnixMillis(1_000_000_000);
        assert_eq!(ago(UnixMillis(now.0 - 240_000), now), "4 min ago");
        assert_eq!(ago(UnixMillis(now.0 + 125_000), now), "in 2 min");
        assert_eq!(day_and_time(UnixMillis(0)), "1970-01-01 00:00:00");
        assert_eq!(time_of_day(UnixMillis(120)), "00:00:00.120");
    }
}
