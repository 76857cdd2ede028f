//! How far delays that should differ from each other really differ.
//!
//! The names follow M. Brooker, "Exponential backoff and jitter" (AWS Architecture Blog, 2015):
//! full jitter draws from 0 to the backoff, equal jitter from half of it to all of it.

use super::quantile::Sorted;
use super::real;

/// What a set of delays with one common cause (same client, same attempt number) looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spread {
    /// Nearly all are nothing: the client sends again at once.
    Zero,
    /// All are the same to within [`NONE_BELOW`].
    None,
    /// They differ, but by less than [`LITTLE_BELOW`]: too little to part clients.
    Little,
    /// As equal jitter, or a like part of the delay, gives.
    Some,
    /// As full jitter gives.
    Full,
}

/// A wait below this is none, in milliseconds: a timer and a scheduler take as long.
pub const ZERO_MS: i64 = 20;
/// Relative spread below which delays count as the same.
pub const NONE_BELOW: f64 = 0.05;
/// Relative spread below which jitter is too little to help.
pub const LITTLE_BELOW: f64 = 0.20;
/// Relative spread from which jitter counts as full (equal jitter has 0.53, full jitter 1.6).
const FULL_FROM: f64 = 1.0;
/// How many delays a judgement needs at least.
pub const MIN_DELAYS: usize = 10;
/// Scheduling noise that real waits carry, in milliseconds, not counted as jitter.
const NOISE_MS: i64 = 25;

/// The distance between the 10th and the 90th percentile, against the median; `None` without
/// delays or with a median of 0.
pub fn relative_spread(delays: &Sorted) -> Option<f64> {
    let (low, middle, high) = (delays.quantile(0.1)?, delays.median()?, delays.quantile(0.9)?);
    (middle > 0).then(|| real(high.saturating_sub(low)) / real(middle))
}

/// Judges delays with one common cause; `None` below [`MIN_DELAYS`].
pub fn judge(delays: &Sorted) -> Option<Spread> {
    if delays.len() < MIN_DELAYS {
        return None;
    }
    if delays.quantile(0.8)? < ZERO_MS {
        return Some(Spread::Zero);
    }
    let (low, high) = (delays.quantile(0.1)?, delays.quantile(0.9)?);
    if high.saturating_sub(low) <= NOISE_MS && delays.median()? > 2 * NOISE_MS {
        return Some(Spread::None);
    }
    Some(match relative_spread(delays)? {
        x if x < NONE_BELOW => Spread::None,
        x if x < LITTLE_BELOW => Spread::Little,
        x if x < FULL_FROM => Spread::Some,
        _ => Spread::Full,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are spread evenly over 0 to 1, the same at every run.
    fn even(n: i64) -> impl Iterator<Item = f64> {
        (0..n).map(move |i| (real(i) + 0.5) / real(n))
    }

    fn of(delays: impl IntoIterator<Item = f64>) -> Sorted {
        Sorted::new(delays.into_iter().map(|d| (super::super::whole(d), 1)))
    }

    #[test]
    fn each_kind_of_jitter_is_told_apart() {
        let table: [(&str, Sorted, Option<Spread>); 8] = [
            ("too few", of([100.0; 9]), None),
            ("at once", of(even(50).map(|u| 5.0 * u)), Some(Spread::Zero)),
            ("fixed", of([1000.0; 50]), Some(Spread::None)),
            ("fixed with timer noise", of(even(50).map(|u| 200.0 + 20.0 * u)), Some(Spread::None)),
            ("ten per cent", of(even(50).map(|u| 1000.0 + 100.0 * u)), Some(Spread::Little)),
            ("equal", of(even(50).map(|u| 500.0 + 500.0 * u)), Some(Spread::Some)),
            ("full", of(even(50).map(|u| 1000.0 * u)), Some(Spread::Full)),
            ("a quarter either way", of(even(50).map(|u| 750.0 + 500.0 * u)), Some(Spread::Some)),
        ];
        for (name, delays, want) in table {
            assert_eq!(judge(&delays), want, "{name}");
        }
    }
}
