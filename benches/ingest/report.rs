//! What is printed: rates, and goals with what was reached of them.

use std::io::Write as _;

/// How fast events were written, and what it cost.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

impl Rate {
    pub(crate) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }

    /// Events a second.
    pub(crate) fn per_second(&self) -> f64 {
        count(self.events) / self.seconds
    }

    /// CPU seconds a million events.
    pub(crate) fn cpu_per_million(&self) -> f64 {
        self.cpu_seconds * 1e6 / count(self.events)
    }

    /// A line of the table.
    pub(crate) fn say(&self, what: &str) {
        let (rate, cpu) = (self.per_second(), self.cpu_per_million());
        say(&format!("{what:<44} {rate:>9.0} events/s {cpu:>8.1} CPU s a million"));
    }
}

/// A bound that a figure should keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// Prints whether `value` keeps it.
    pub(crate) fn say(self, what: &str, value: f64, unit: &str) {
        let (is_kept, sign, bound) = match self {
            Self::AtLeast(bound) => (value >= bound, "≥", bound),
            Self::AtMost(bound) => (value <= bound, "≤", bound),
        };
        let word = if is_kept { "PASS" } else { "FAIL" };
        say(&format!("{what:<44} {value:>9.2} {unit:<8} goal {sign} {bound:<6} {word}"));
    }
}

pub(crate) fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn count(n: u64) -> f64 {
    n as f64
}
