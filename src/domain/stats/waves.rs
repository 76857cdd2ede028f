//! Whether sends come in waves: many in one second, then few, again and again.

use super::{len, real};
use std::collections::BTreeMap;

/// Sends needed before anything is said.
pub const MIN_SENDS: usize = 30;
/// Seconds from the first to the last send needed.
const MIN_SECONDS: i64 = 10;
/// How many times the mean a peak must reach, and how many sends it must have.
const PEAK_FACTOR: f64 = 4.0;
/// Sends that a peak must have at least.
const PEAK_SENDS: i64 = 5;

/// Waves that were found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waves {
    /// Sends looked at.
    pub total: i64,
    /// Sends in the busiest second.
    pub peak: i64,
    /// Seconds that are peaks, apart from each other.
    pub peaks: i64,
    /// Share of the sends that lie in peaks.
    pub share: f64,
    /// Variance of the count per second against its mean; 1 for independent sends.
    pub dispersion: f64,
}

/// Looks for waves in moments (milliseconds since 1970). Counts per second of independent sends
/// vary as much as their mean; waves vary far more. At least two peaks must stand apart, and half
/// of all sends must lie in peaks.
pub fn find(sends: &[i64]) -> Option<Waves> {
    if sends.len() < MIN_SENDS {
        return None;
    }
    let mut seconds: BTreeMap<i64, i64> = BTreeMap::new();
    for at in sends {
        *seconds.entry(at.div_euclid(1_000)).or_default() += 1;
    }
    let (first, last) = (*seconds.keys().next()?, *seconds.keys().next_back()?);
    let length = last.saturating_sub(first).saturating_add(1);
    if length < MIN_SECONDS {
        return None;
    }
    let (n, mean) = (real(length), real(len(sends.len())) / real(length));
    let squares: f64 = seconds.values().map(|count| real(*count) * real(*count)).sum();
    let dispersion = (squares / n - mean * mean) / mean;
    let is_peak = |count: i64| count >= PEAK_SENDS && real(count) >= PEAK_FACTOR * mean;
    let peaks: Vec<(i64, i64)> =
        seconds.iter().map(|(s, c)| (*s, *c)).filter(|(_, c)| is_peak(*c)).collect();
    let apart = 1 + len(peaks.windows(2).filter(|p| p[1].0 - p[0].0 > 1).count());
    let share = real(peaks.iter().map(|(_, c)| *c).sum()) / real(len(sends.len()));
    // Under independence (length - 1) * dispersion is near chi-squared: mean n - 1, variance 2(n - 1).
    let z = (n - 1.0) * (dispersion - 1.0) / (2.0 * (n - 1.0)).sqrt();
    let found = peaks.len() >= 2 && apart >= 2 && share >= 0.5 && z > 6.0;
    found.then(|| Waves {
        total: len(sends.len()),
        peak: peaks.iter().map(|(_, c)| *c).max().unwrap_or_default(),
        peaks: apart,
        share,
        dispersion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_come_back_together_make_waves() {
        let sends: Vec<i64> =
            (0..6).flat_map(|w| (0..20).map(move |i| w * 10_000 + i * 9)).collect();
        let found = find(&sends).unwrap();
        assert_eq!((found.peaks, found.peak, found.total), (6, 20, 120));
    }

    #[test]
    fn spread_out_sends_and_a_single_burst_are_no_waves() {
        let even: Vec<i64> = (0..300).map(|i| i * 211 + (i * 7919) % 97).collect();
        assert_eq!(find(&even), None);
        let once: Vec<i64> = (0..200).map(|i| 50_000 + i * 4).chain([0, 90_000]).collect();
        assert_eq!(find(&once), None);
    }
}
