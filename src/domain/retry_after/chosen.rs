//! What a client made of `Retry-After`: its chosen wait held against what was meant.

use super::Reading;
use crate::domain::spelling::spelled_enum;
use crate::domain::time::Millis;

spelled_enum! {
    /// How a chosen wait stands to what the server meant.
    pub enum Choice {
        /// The same, within a second or a tenth.
        Honoured => "honoured",
        /// Longer, as jitter on top of the promise makes it.
        Longer => "longer",
        /// Cut to a ceiling that a client library is known to have.
        Capped => "capped",
        /// What a careless parser makes of the value.
        Misparsed => "misparsed",
        /// Shorter, for no reason that can be told from here.
        IgnoredOrShort => "ignored-or-short",
    }
}

/// How a chosen wait stands to what the server meant, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The word for it.
    pub choice: Choice,
    /// What happened, in a sentence; names the library where a ceiling or a parser gives it away.
    pub reason: String,
}

/// Ceilings that published client libraries put on a promised wait.
const CEILINGS: [(Millis, &str); 3] = [
    (Millis(20_000), "smithy (the older retry strategy)"),
    (Millis(30_000), "undici"),
    (Millis(21_600_000), "urllib3"),
];

/// The longest time that the timers of JavaScript hold; anything above fires at once.
const TIMER_END: Millis = Millis(2_147_483_647);

/// Holds the wait that a client chose against what one response said. `None` where the response
/// said nothing that could be obeyed.
pub fn judge(reading: &Reading, chosen: Millis) -> Option<Judgement> {
    let meant = reading.lenient_delay?;
    let (choice, reason) = if chosen > TIMER_END && chosen > meant {
        (Choice::Misparsed, "longer than a JavaScript timer holds: it fires at once".to_owned())
    } else if is_near(chosen, meant) {
        (Choice::Honoured, "the wait that was meant".to_owned())
    } else if let Some(number) = prefix_number(reading).filter(|n| is_same(chosen, *n)) {
        let seconds = number.as_secs_f64();
        (Choice::Misparsed, format!("only the digits at the front were read, as {seconds} s"))
    } else if is_same(Millis(chosen.0.saturating_mul(1000)), meant) {
        (Choice::Misparsed, "seconds were taken for milliseconds".to_owned())
    } else if is_same(chosen, Millis(meant.0.saturating_mul(1000))) {
        (Choice::Misparsed, "milliseconds were taken for seconds".to_owned())
    } else if chosen > meant {
        (Choice::Longer, "longer than was meant".to_owned())
    } else if let Some((_, who)) = CEILINGS.iter().find(|(ceiling, _)| is_same(chosen, *ceiling)) {
        (Choice::Capped, format!("a ceiling that {who} has"))
    } else {
        (Choice::IgnoredOrShort, "shorter than was meant".to_owned())
    };
    Some(Judgement { choice, reason })
}

/// Within one second or a tenth of what was meant, whichever is more.
fn is_near(chosen: Millis, meant: Millis) -> bool {
    let tolerance = (meant.0 / 10).max(1000);
    chosen.0.saturating_sub(meant.0).saturating_abs() <= tolerance
}

/// The same but for a hundredth: what two computations of one number differ by.
fn is_same(one: Millis, other: Millis) -> bool {
    other.0 > 0 && one.0.saturating_sub(other.0).saturating_abs() <= other.0 / 100
}

/// What a parser that stops at the first letter reads from a value that is no plain number.
fn prefix_number(reading: &Reading) -> Option<Millis> {
    let line = reading.raw.first()?;
    let end = line.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
    let (number, _) = line.split_at_checked(end)?;
    super::thousandths(number.trim_end_matches('.')).map(Millis)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use proptest::prelude::*;

    fn word(value: &str, chosen_ms: i64) -> Option<&'static str> {
        let fields = [("date", "Sun, 29 Nov 2026 22:00:00 GMT"), ("retry-after", value)]
            .into_iter()
            .collect();
        judge(&read(&fields, None), Millis(chosen_ms)).map(|judgement| judgement.choice.as_str())
    }

    #[test]
    fn a_chosen_wait_is_held_against_what_was_meant() {
        for (value, chosen_ms, expected, why) in [
            ("7", 7000, Some("honoured"), "as said"),
            ("7", 7900, Some("honoured"), "jitter below a second"),
            ("7", 9000, Some("longer"), "jitter above the promise"),
            ("7", 0, Some("ignored-or-short"), "at once"),
            ("7", 1500, Some("ignored-or-short"), "own backoff"),
            ("300", 325_000, Some("honoured"), "within a tenth"),
            ("0", 500, Some("honoured"), "within a second"),
            ("120", 30_000, Some("capped"), "undici"),
            ("86400", 21_600_000, Some("capped"), "urllib3"),
            ("30", 20_000, Some("capped"), "smithy"),
            ("10", 20_000, Some("longer"), "a ceiling never lengthens"),
            ("30", 30, Some("misparsed"), "seconds as milliseconds"),
            ("30", 30_000_000, Some("misparsed"), "milliseconds as seconds"),
            ("500ms", 500_000, Some("misparsed"), "prefix parser"),
            ("500ms", 500, Some("honoured"), "unit was read"),
            ("2026-11-29T22:01:50Z", 2_026_000, Some("misparsed"), "prefix parser"),
            ("29 Nov 2026 22:01:50 GMT", 29_000, Some("misparsed"), "prefix parser"),
            ("7, 60", 7000, Some("misparsed"), "prefix parser"),
            ("Sun, 29 Nov 2026 22:01:50 GMT", 110_000, Some("honoured"), "date"),
            ("1795989660", 1_795_989_660_000, Some("misparsed"), "epoch taken literally"),
            ("a while", 1000, None, "nothing to obey"),
            ("", 1000, None, "nothing to obey"),
        ] {
            assert_eq!(word(value, chosen_ms), expected, "{value:?} {chosen_ms}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_value_and_wait_is_survived(value in any::<String>(), chosen in any::<i64>()) {
            let _ = word(&value, chosen);
        }

        #[test]
        fn the_promise_itself_is_always_honoured(seconds in 0_i64..86_400) {
            prop_assert_eq!(word(&seconds.to_string(), seconds * 1000), Some("honoured"));
        }
    }
}
