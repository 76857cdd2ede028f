//! Numbers, lengths of time and names as the answers write them.

use crate::domain::stats::ratio::Ratio;
use crate::domain::stats::{real, whole};
use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, UnixMillis};

/// `1,204`.
pub fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let size = digits.chars().count();
    let mut out = String::with_capacity(size + size / 3 + 1);
    if n < 0 {
        out.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (size - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 attempt`, `1,204 attempts`.
pub fn many(n: i64, thing: &str) -> String {
    match thing {
        _ if n == 1 => format!("1 {thing}"),
        "retry" => format!("{} retries", count(n)),
        "reply" => format!("{} replies", count(n)),
        "key" => format!("{} keys", count(n)),
        "address" => format!("{} addresses", count(n)),
        _ => format!("{} {thing}s", count(n)),
    }
}

/// `is` or `are`, `was` or `were`: the first for one.
pub const fn verb<'a>(n: i64, one: &'a str, more: &'a str) -> &'a str {
    if n == 1 { one } else { more }
}

/// A share as `67.4 %`; never rounded to all or nothing where it is neither. `no data` without any.
pub fn share(hits: i64, total: i64) -> String {
    Ratio::new(hits, total).share().map_or_else(|| "no data".to_owned(), percent)
}

/// How many of one thing come for each of another, uncapped: `5,900 %` for 295 retries of 5
/// requests; `no data` where there is nothing to compare with.
pub fn proportion(part: i64, of: i64) -> String {
    if of <= 0 {
        return "no data".to_owned();
    }
    let share = real(part) / real(of);
    if share >= 10.0 { format!("{} %", count(whole(share * 100.0))) } else { percent(share) }
}

/// A share of 0 to 1 as `67.4 %`.
pub fn percent(share: f64) -> String {
    let tenths = whole(share * 1_000.0);
    if share > 0.0 && tenths == 0 {
        "<0.1 %".to_owned()
    } else if share < 1.0 && tenths >= 1_000 {
        "99.9 %".to_owned()
    } else if tenths % 1_000 == 0 {
        format!("{} %", tenths / 10)
    } else {
        format!("{}.{} %", tenths / 10, (tenths % 10).abs())
    }
}

/// A share with its 95 % interval: `67.4 % (95 %: 60.1 % to 74.0 %)`.
pub fn share_with_interval(ratio: Ratio) -> String {
    let interval = ratio.wilson();
    ratio.share().map_or_else(
        || "no data".to_owned(),
        |p| {
            format!(
                "{} (95 %: {} to {})",
                percent(p),
                percent(interval.low),
                percent(interval.high)
            )
        },
    )
}

/// A factor as `4.2`, whole from 10 on.
pub fn factor(x: f64) -> String {
    if x >= 1_000.0 {
        "over 1,000".to_owned()
    } else if x >= 9.95 {
        count(whole(x))
    } else {
        format!("{x:.1}")
    }
}

/// A length of time: `0 ms`, `667 ms`, `1.5 s`, `30 s`, `2 min 5 s`, `1 h 2 min`, `3 d 4 h`.
pub fn span(ms: i64) -> String {
    if ms < 0 {
        return format!("-{}", span(ms.saturating_neg()));
    }
    let two = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 {
            format!("{} {unit}", count(whole))
        } else {
            format!("{whole} {unit} {rest} {small}")
        }
    };
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < MINUTE_MS {
        let tenths = (ms + 50) / 100;
        return if tenths % 10 == 0 {
            format!("{} s", tenths / 10)
        } else {
            format!("{}.{} s", tenths / 10, tenths % 10)
        };
    }
    let seconds = ms / 1_000;
    if ms < HOUR_MS {
        two(seconds / 60, "min", seconds % 60, "s")
    } else if ms < DAY_MS {
        two(seconds / 3_600, "h", seconds % 3_600 / 60, "min")
    } else {
        two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h")
    }
}

/// A length of time, or `no data`.
pub fn maybe_span(ms: Option<i64>) -> String {
    ms.map_or_else(|| "no data".to_owned(), span)
}

/// The time of day in UTC: `10:01:15`.
pub fn time_of_day(at: UnixMillis) -> String {
    let seconds = at.0.rem_euclid(DAY_MS) / 1_000;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Text that somebody sent, fit for a sentence: one line, no control or direction marks, at most
/// 80 characters. It is still hostile and must be escaped where it is shown.
pub fn name(text: &str) -> String {
    clip(text, 80)
}

/// As [`name`], with its own limit.
pub fn clip(text: &str, limit: usize) -> String {
    let mut out: String = text
        .chars()
        .take(limit)
        .map(|c| if c.is_control() || is_invisible(c) { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(limit).is_some() {
        out.push('…');
    }
    out
}

/// Marks that change the direction of text, or show nothing.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// A hash short enough to read: its first eight digits after the name of the algorithm.
pub fn short_hash(hash: &str) -> String {
    let digits = hash.rsplit(':').next().unwrap_or(hash);
    clip(digits, 8)
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A ratio of two counts as `2.4`; `no data` without the second.
pub fn quotient(a: i64, b: i64) -> String {
    if b > 0 { factor(real(a) / real(b)) } else { "no data".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(
            [count(0), count(999), count(1_204), count(-1_000_000)].join(" "),
            "0 999 1,204 -1,000,000"
        );
        assert_eq!(many(1, "retry"), "1 retry");
        assert_eq!(many(1_204, "attempt"), "1,204 attempts");
        let table = [
            ((992, 1000), "99.2 %"),
            ((0, 7), "0 %"),
            ((7, 7), "100 %"),
            ((99_999, 100_000), "99.9 %"),
            ((1, 100_000), "<0.1 %"),
            ((91, 100), "91.0 %"),
            ((1, 0), "no data"),
        ];
        for ((hits, total), want) in table {
            assert_eq!(share(hits, total), want);
        }
    }

    #[test]
    fn lengths_of_time_use_the_two_largest_units() {
        let table = [
            (0, "0 ms"),
            (667, "667 ms"),
            (1_500, "1.5 s"),
            (30_000, "30 s"),
            (59_999, "60 s"),
            (125_000, "2 min 5 s"),
            (3_600_000, "1 h"),
            (273_600_000, "3 d 4 h"),
            (-1_500, "-1.5 s"),
        ];
        for (ms, want) in table {
            assert_eq!(span(ms), want);
        }
        assert!(span(i64::MIN).starts_with('-'));
    }

    #[test]
    fn names_lose_what_cannot_be_seen() {
        assert_eq!(name("a\nb\u{202e}c"), "a\u{fffd}b\u{fffd}c");
        assert_eq!(name(&"é".repeat(100)).chars().count(), 81);
        assert_eq!(short_hash("hmac-sha256:9d3f4a5b6c7d"), "9d3f4a5b…");
    }

    proptest! {
        #[test]
        fn any_number_has_words(n in any::<i64>(), x in any::<f64>()) {
            let words = [count(n), span(n), percent(x), factor(x), time_of_day(UnixMillis(n))];
            prop_assert!(words.iter().all(|w| !w.is_empty()));
        }
    }
}
