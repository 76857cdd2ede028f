//! Waits that refusals promised, counted in logarithmic buckets, which add up over any stretch of
//! time.

use super::{real, whole};
use std::collections::BTreeMap;

/// The bucket of refusals without `Retry-After`.
pub const MISSING: i64 = -1;
/// The bucket of refusals whose `Retry-After` is no wait that can be kept to.
pub const UNUSABLE: i64 = -2;

/// Bucket *i* holds waits above `BASE`^(*i* - 1) up to `BASE`^*i* milliseconds.
const BASE: f64 = 1.1;
/// How far a percentile is from the true one at most, as a share of it.
pub const ERROR: f64 = 0.05;

/// The bucket of a wait in milliseconds; 0 for no wait and up to 1 ms.
pub fn bucket(wait_ms: i64) -> i64 {
    if wait_ms <= 1 { 0 } else { whole((real(wait_ms).ln() / BASE.ln()).ceil()) }
}

/// How many refusals promised how long a wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitCounts {
    counts: BTreeMap<i64, i64>,
}

impl WaitCounts {
    /// Adds `n` refusals of a bucket.
    pub fn add(&mut self, bucket: i64, n: i64) {
        *self.counts.entry(bucket).or_default() += n;
    }

    /// Refusals without `Retry-After`.
    pub fn missing(&self) -> i64 {
        self.counts.get(&MISSING).copied().unwrap_or_default()
    }

    /// Refusals whose `Retry-After` is no wait that can be kept to.
    pub fn unusable(&self) -> i64 {
        self.counts.get(&UNUSABLE).copied().unwrap_or_default()
    }

    /// Refusals that promised a wait.
    pub fn promised(&self) -> i64 {
        self.counts.range(0..).map(|(_, n)| n).sum()
    }

    /// A percentile of the promised waits in milliseconds (nearest rank), off by [`ERROR`] at most:
    /// the geometric middle of its bucket. `None` where nothing was promised.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let total = self.promised();
        let rank = whole((q.clamp(0.0, 1.0) * real(total)).ceil()).max(1);
        let mut seen = 0_i64;
        for (bucket, n) in self.counts.range(0..) {
            seen += n;
            if seen >= rank {
                let bucket = i32::try_from(*bucket).unwrap_or(i32::MAX);
                let middle = BASE.powf(f64::from(bucket) - 0.5);
                return Some(if bucket == 0 { 0 } else { whole(middle.round()) });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::stats::quantile::Sorted;
    use proptest::prelude::*;

    #[test]
    fn refusals_without_a_usable_wait_are_counted_beside_the_waits() {
        let mut counts = WaitCounts::default();
        assert_eq!(counts.quantile(0.5), None);
        for (bucket, n) in [(MISSING, 3), (UNUSABLE, 2), (bucket(0), 1), (bucket(30_000), 4)] {
            counts.add(bucket, n);
        }
        assert_eq!((counts.missing(), counts.unusable(), counts.promised()), (3, 2, 5));
        assert_eq!(counts.quantile(0.0), Some(0));
        let p95 = counts.quantile(0.95).unwrap();
        assert!((28_500..=31_500).contains(&p95), "{p95}");
    }

    proptest! {
        #[test]
        fn a_percentile_is_within_its_error_of_the_true_one(
            waits in prop::collection::vec((1_i64..1_000_000_000, 1_i64..50), 1..60),
            q in 0.0_f64..1.0,
        ) {
            let mut counts = WaitCounts::default();
            for (wait, n) in &waits {
                counts.add(bucket(*wait), *n);
            }
            let (near, exact) = (
                counts.quantile(q).unwrap(),
                Sorted::new(waits.iter().copied()).quantile(q).unwrap(),
            );
            // A millisecond is what rounding takes.
            let off = real((near - exact).abs());
            prop_assert!(off <= real(exact) * ERROR + 1.0, "{near} for {exact}");
        }
    }
}
