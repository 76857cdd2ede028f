//! The one reader of the wall clock. Everything else takes `now` as a value or asks a [`Clock`].

use crate::domain::time::{Millis, UnixMillis};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Says what time it is.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// The present moment.
    fn now(&self) -> UnixMillis;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is told to move; for tests and for data made from a recipe.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: UnixMillis) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Puts it to `now`.
    pub fn set(&self, now: UnixMillis) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves it forward, or back where `by` is negative.
    pub fn advance(&self, by: Millis) {
        self.0.fetch_add(by.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

/// A clock that is put forward by hand at first, and runs as the machine's does once it is let go:
/// for made-up data that was received long ago and goes on now.
#[derive(Debug, Default)]
pub struct StagedClock {
    stands_at: AtomicI64,
    /// How far it is ahead of the machine's clock, once it runs.
    ahead: OnceLock<Millis>,
}

impl StagedClock {
    /// A clock that stands at `now`.
    pub fn at(now: UnixMillis) -> Self {
        Self { stands_at: AtomicI64::new(now.0), ahead: OnceLock::new() }
    }

    /// Puts it to `now`, while it stands.
    pub fn set(&self, now: UnixMillis) {
        self.stands_at.store(now.0, Ordering::SeqCst);
    }

    /// Lets it run from where it stands.
    pub fn run(&self) {
        let stands_at = UnixMillis(self.stands_at.load(Ordering::SeqCst));
        self.ahead.get_or_init(|| stands_at.since(SystemClock.now()));
    }
}

impl Clock for StagedClock {
    fn now(&self) -> UnixMillis {
        match self.ahead.get() {
            Some(ahead) => SystemClock.now().plus(*ahead),
            None => UnixMillis(self.stands_at.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::at(UnixMillis(1_000));
        assert_eq!(clock.now(), UnixMillis(1_000));
        clock.advance(Millis(500));
        assert_eq!(clock.now(), UnixMillis(1_500));
        clock.set(UnixMillis(7));
        assert_eq!(clock.now(), UnixMillis(7));
    }

    #[test]
    fn a_staged_clock_stands_and_then_runs_from_there() {
        let clock = StagedClock::at(UnixMillis(1_000));
        assert_eq!(clock.now(), UnixMillis(1_000));
        clock.set(UnixMillis(2_000));
        assert_eq!(clock.now(), UnixMillis(2_000));
        clock.run();
        clock.set(UnixMillis(9_000_000));
        let now = clock.now();
        assert!((UnixMillis(2_000)..UnixMillis(1_000_000)).contains(&now), "{now:?}");
    }

    #[test]
    fn the_system_clock_is_past_the_day_this_was_written() {
        assert!(SystemClock.now() > UnixMillis::parse_rfc3339("2025-01-01T00:00:00Z").unwrap());
    }
}
