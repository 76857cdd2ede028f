//! Moments and lengths of time. Raw numbers that travel between functions wear one of these.

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

/// A length of time in milliseconds; negative where the later moment came first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// Milliseconds in a minute.
pub const MINUTE_MS: i64 = 60_000;
/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds in a day.
pub const DAY_MS: i64 = 86_400_000;

impl UnixMillis {
    /// This moment moved by `by`; stays at the end of the range where it would overflow.
    #[must_use]
    pub const fn plus(self, by: Millis) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// The time from `earlier` to this moment.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// The start of the stretch of `width_ms` milliseconds (more than 0) that holds this moment.
    #[must_use]
    pub const fn floor_to(self, width_ms: i64) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(width_ms)))
    }

    /// Reads RFC 3339 (`2026-11-11T07:29:00.120Z`, any offset); sub-milliseconds are cut off.
    /// `None` for anything else and for moments outside the years 0 to 9999.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let stamp: jiff::Timestamp = text.trim().parse().ok()?;
        Some(Self(stamp.as_millisecond()))
    }

    /// Writes RFC 3339 in UTC with milliseconds: `2026-11-11T07:29:00.120Z`.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| format!("{} ms", self.0), |stamp| format!("{stamp:.3}"))
    }
}

impl Millis {
    /// From whole seconds; stays at the end of the range where it would overflow.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// In seconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths shown to people stay far below 2^53 ms"
    )]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// A stretch of time, the first moment in it, the last not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The first moment that belongs to it.
    pub from: UnixMillis,
    /// The first moment after it.
    pub to: UnixMillis,
}

impl Window {
    /// Whether `at` lies in it.
    pub fn contains(&self, at: UnixMillis) -> bool {
        self.from <= at && at < self.to
    }

    /// Its length.
    pub const fn length(&self) -> Millis {
        self.to.since(self.from)
    }

    /// The window that pages and the API answer for this one: where it is an hour or longer it is
    /// widened to whole five minutes, of which all sums are kept, so that no answer has to read
    /// the events at its ends. A shorter one stays as it is.
    #[must_use]
    pub fn widened(self) -> Self {
        if self.length().0 < HOUR_MS {
            return self;
        }
        let up = UnixMillis(self.to.0.saturating_add(STEP_MS - 1));
        Self { from: self.from.floor_to(STEP_MS), to: up.floor_to(STEP_MS) }
    }
}

/// What long windows are widened to.
const STEP_MS: i64 = 5 * MINUTE_MS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_reads_and_writes_milliseconds() {
        let at = UnixMillis::parse_rfc3339("2026-11-11T08:29:00.1205+01:00").unwrap();
        assert_eq!(at.to_rfc3339(), "2026-11-11T07:29:00.120Z");
        assert_eq!(UnixMillis::parse_rfc3339("2026-11-11"), None);
        assert_eq!(UnixMillis(0).to_rfc3339(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_window_of_an_hour_is_widened_to_whole_five_minutes() {
        let window = |from, to| Window { from: UnixMillis(from), to: UnixMillis(to) };
        for (asked, answered) in [
            (window(1, HOUR_MS), window(1, HOUR_MS)),
            (window(0, HOUR_MS), window(0, HOUR_MS)),
            (window(1, HOUR_MS + 1), window(0, HOUR_MS + STEP_MS)),
            (window(-1, HOUR_MS - 1), window(-STEP_MS, HOUR_MS)),
        ] {
            assert_eq!(asked.widened(), answered, "{asked:?}");
            assert_eq!(answered.widened(), answered, "{answered:?}");
        }
    }

    #[test]
    fn a_moment_before_1970_floors_downwards() {
        assert_eq!(UnixMillis(-1).floor_to(MINUTE_MS), UnixMillis(-60_000));
    }
}
