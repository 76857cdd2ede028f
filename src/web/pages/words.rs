//! How numbers, lengths of time and ratios are worded on pages. Each wording is exact enough to
//! act on and never claims more than the number says: 99.96 % is not shown as 100 %.

use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis};

/// What stands where there is nothing to count.
pub const NO_DATA: &str = "no data";

/// `1204` as `1,204`.
pub fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if n < 0 {
        out.push('-');
    }
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 attempt`, `2 attempts`.
pub fn counted(n: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `part / whole`, `None` without a whole.
#[expect(clippy::cast_precision_loss, reason = "counts shown to people stay far below 2^53")]
pub fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A share from 0 to 1 as a percentage with one decimal; the ends are kept for the true ends.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value <= 0.0 {
        "0 %".to_owned()
    } else if value < 0.1 {
        "< 0.1 %".to_owned()
    } else if value < 100.0 && value > 99.9 {
        "> 99.9 %".to_owned()
    } else if (value - 100.0).abs() < f64::EPSILON {
        "100 %".to_owned()
    } else {
        format!("{value:.1} %")
    }
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
pub fn length(span: Millis) -> String {
    let ms = span.0.saturating_abs();
    let sign = if span.0 < 0 { "-" } else { "" };
    let two = |whole: i64, unit: &str, rest: i64, sub: &str| {
        if rest == 0 {
            format!("{sign}{whole} {unit}")
        } else {
            format!("{sign}{whole} {unit} {rest} {sub}")
        }
    };
    match ms {
        0..1000 => format!("{sign}{ms} ms"),
        1000..MINUTE_MS if ms % 1000 == 0 => format!("{sign}{} s", ms / 1000),
        1000..MINUTE_MS => format!("{sign}{:.1} s", Millis(ms).as_secs_f64()),
        MINUTE_MS..HOUR_MS => two(ms / MINUTE_MS, "min", ms % MINUTE_MS / 1000, "s"),
        HOUR_MS..DAY_MS => two(ms / HOUR_MS, "h", ms % HOUR_MS / MINUTE_MS, "min"),
        _ => two(ms / DAY_MS, "d", ms % DAY_MS / HOUR_MS, "h"),
    }
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
    fn counts_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (1204, "1,204"), (-1_000_000, "-1,000,000")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(counted(1, "attempt", "attempts"), "1 attempt");
    }

    #[test]
    fn a_share_never_rounds_to_an_end_that_it_has_not_reached() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_4, "< 0.1 %"),
            (0.042, "4.2 %"),
            (0.999_6, "> 99.9 %"),
            (1.0, "100 %"),
            (1.31, "131.0 %"),
        ] {
            assert_eq!(percent(share), text);
        }
        assert_eq!(percent_or_none(ratio(1, 0)), NO_DATA);
    }

    #[test]
    fn lengths_use_the_unit_that_fits() {
        for (ms, text) in [
            (0, "0 ms"),
            (84, "84 ms"),
            (1_230, "1.2 s"),
            (30_000, "30 s"),
            (125_000, "2 min 5 s"),
            (3_600_000, "1 h"),
            (90_000_000, "1 d 1 h"),
            (-1_500, "-1.5 s"),
        ] {
            assert_eq!(length(Millis(ms)), text, "{ms}");
        }
        assert!(length(Millis(i64::MIN)).starts_with('-'));
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
