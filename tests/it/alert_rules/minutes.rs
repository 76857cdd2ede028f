//! A pair's traffic minute by minute, and what the evaluator makes of it.

use retrylens::config::{Config, Sources};
use retrylens::domain::alerts::{
    AlertSettings, AlertState, Hold, Measure, Met, Rule, Span, Sums, Thresholds, is_met,
};
use retrylens::domain::time::{MINUTE_MS, UnixMillis};

/// What one minute of a pair counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Minute {
    pub(super) requests: i64,
    pub(super) retries: i64,
    pub(super) status_429: i64,
    /// Refused with another status.
    pub(super) limited_otherwise: i64,
    pub(super) first_try: i64,
    pub(super) after_retry: i64,
    pub(super) exhausted: i64,
    pub(super) early: i64,
    pub(super) duplicates: i64,
    pub(super) ended: i64,
    pub(super) ended_in_time: i64,
}

impl Minute {
    pub(super) fn of(self, measure: Measure) -> i64 {
        match measure {
            Measure::Requests => self.requests,
            Measure::Retries => self.retries,
            Measure::Attempts => self.requests + self.retries,
            Measure::Status429 => self.status_429,
            Measure::Limited => self.status_429 + self.limited_otherwise,
            Measure::Succeeded => self.first_try + self.after_retry,
            Measure::SavedByRetry => self.after_retry,
            Measure::EndedAfterRetries => self.after_retry + self.exhausted,
            Measure::EarlyRetries => self.early,
            Measure::DuplicateWrites => self.duplicates,
            Measure::Ended => self.ended,
            Measure::EndedInTime => self.ended_in_time,
        }
    }
}

/// Sums of a run of minutes, ready for every window.
pub(super) struct Traffic {
    /// Sums before each minute, a row per measure.
    before: Vec<Vec<i64>>,
    length: usize,
}

impl Traffic {
    pub(super) fn new(minutes: &[Minute]) -> Self {
        let of = |measure: &Measure| {
            let mut sum = 0;
            let running = minutes.iter().map(|minute| {
                sum += minute.of(*measure);
                sum
            });
            std::iter::once(0).chain(running).collect()
        };
        Self { before: Measure::ALL.iter().map(of).collect(), length: minutes.len() }
    }

    /// The windows that end before minute `now`.
    pub(super) fn at(&self, now: usize) -> At<'_> {
        At { traffic: self, now }
    }

    /// For each minute from 0 to the last: whether `rule` fires after the evaluation at its start.
    pub(super) fn firing(&self, rule: &Rule, thresholds: &Thresholds) -> Vec<bool> {
        let condition = rule.condition().unwrap();
        let mut state = AlertState::default();
        let each = (0..=self.length).map(|now| {
            let met = is_met(condition, thresholds, &self.at(now));
            assert_ne!(met, Met::Unknown, "all measures are known here");
            let at = UnixMillis(i64::try_from(now).unwrap() * MINUTE_MS);
            state = state.next(met == Met::Yes, at, Hold::of(rule)).0;
            state.is_firing()
        });
        each.collect()
    }
}

pub(super) struct At<'a> {
    traffic: &'a Traffic,
    now: usize,
}

impl Sums for At<'_> {
    fn sum(&self, measure: Measure, span: Span) -> Option<i64> {
        let row = &self.traffic.before[measure as usize];
        let end = self.now.saturating_sub(span.lag as usize);
        let start = end.saturating_sub(span.minutes as usize);
        Some(row[end] - row[start])
    }
}

/// The settings with some given as flags.
pub(super) fn settings(flags: &[(&str, &str)]) -> AlertSettings {
    let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(&Sources { flags: flags.collect(), ..Sources::default() }).unwrap().alerts
}
