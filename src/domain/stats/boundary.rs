//! Bursts at the turn of a second, a minute or an hour: do more sends fall just after it than
//! chance would put there?

use super::ratio::binomial_tail;
use super::{len, real};
use std::collections::BTreeSet;

/// A period and the stretch after its start that counts as its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its name: `second`, `minute`, `hour`.
    pub name: &'static str,
    /// Its length in milliseconds.
    pub length_ms: i64,
    /// The stretch after its start, in milliseconds.
    pub turn_ms: i64,
}

/// The periods that are looked at.
pub const PERIODS: [Period; 3] = [
    Period { name: "second", length_ms: 1_000, turn_ms: 50 },
    Period { name: "minute", length_ms: 60_000, turn_ms: 2_000 },
    Period { name: "hour", length_ms: 3_600_000, turn_ms: 60_000 },
];

/// Sends needed before anything is said.
pub const MIN_SENDS: usize = 40;
/// The chance under an even spread below which a burst is called one. Three periods are tested,
/// and sends of one client depend on each other, so it is far stricter than 5 %.
const MAX_CHANCE: f64 = 1e-6;
/// How many times the even share must fall into the turn.
const MIN_FACTOR: f64 = 3.0;
/// The share of all sends that must fall into the turn.
const MIN_SHARE: f64 = 0.2;

/// A burst that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// At the turn of what.
    pub period: Period,
    /// Sends in the turn.
    pub hits: i64,
    /// Sends looked at.
    pub total: i64,
    /// How many turns have such sends.
    pub turns: i64,
    /// The chance of as many under an even spread.
    pub chance: f64,
}

/// Looks for a burst at the turn of `period` in moments (milliseconds since 1970). One burst that
/// happens to lie there is none: it must come back at three turns at least, and at a third of
/// the periods that have sends at all. `None` too where moments have whole seconds only and
/// seconds are asked for.
pub fn find(sends: &[i64], period: Period) -> Option<Burst> {
    if sends.len() < MIN_SENDS {
        return None;
    }
    let whole_seconds = sends.iter().filter(|at| at.rem_euclid(1_000) == 0).count();
    if period.length_ms <= 1_000 && whole_seconds * 2 > sends.len() {
        return None;
    }
    let (mut hits, mut turns, mut active) = (0_i64, BTreeSet::new(), BTreeSet::new());
    for at in sends {
        let start = at.div_euclid(period.length_ms);
        active.insert(start);
        if at.rem_euclid(period.length_ms) < period.turn_ms {
            hits += 1;
            turns.insert(start);
        }
    }
    let total = len(sends.len());
    let even = real(period.turn_ms) / real(period.length_ms);
    let share = real(hits) / real(total);
    let comes_back = turns.len() >= 3 && turns.len() * 3 >= active.len();
    if !comes_back || share < MIN_SHARE || share < MIN_FACTOR * even {
        return None;
    }
    let chance = binomial_tail(hits, total, even);
    (chance < MAX_CHANCE).then_some(Burst { period, hits, total, turns: len(turns.len()), chance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_on_the_minute_is_found_and_even_traffic_is_not() {
        let minute = PERIODS[1];
        let cron: Vec<i64> =
            (0..10).flat_map(|m| (0..20).map(move |i| m * 60_000 + i * 37)).collect();
        let found = find(&cron, minute).unwrap();
        assert_eq!((found.hits, found.total, found.turns), (200, 200, 10));
        let even: Vec<i64> = (0..2_000).map(|i| i * 317).collect();
        for period in PERIODS {
            assert_eq!(find(&even, period), None, "{}", period.name);
        }
    }

    #[test]
    fn one_burst_that_happens_to_lie_at_a_turn_is_no_pattern() {
        let burst: Vec<i64> = (0..500).map(|i| i * 3).collect();
        assert_eq!(find(&burst, PERIODS[1]), None);
        assert_eq!(find(&burst, PERIODS[2]), None);
    }

    #[test]
    fn whole_second_stamps_say_nothing_about_the_turn_of_a_second() {
        let coarse: Vec<i64> = (0..500).map(|i| i * 1_000).collect();
        assert_eq!(find(&coarse, PERIODS[0]), None);
        let ticking: Vec<i64> =
            (0..100).flat_map(|s| (0..5).map(move |i| s * 1_000 + 1 + i * 7)).collect();
        assert_eq!(find(&ticking, PERIODS[0]).unwrap().turns, 100);
    }
}
