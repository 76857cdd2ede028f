//! Percentiles, exact from values and near from logarithmic buckets.

use super::{real, whole};

/// Values with weights, sorted once, asked often.
#[derive(Debug, Clone, Default)]
pub struct Sorted {
    values: Vec<(i64, i64)>,
    weight: i64,
}

impl Sorted {
    /// From `(value, weight)`; weights of 0 or less are left out.
    pub fn new(values: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut values: Vec<(i64, i64)> = values.into_iter().filter(|(_, w)| *w > 0).collect();
        values.sort_unstable();
        let weight = values.iter().fold(0_i64, |sum, (_, w)| sum.saturating_add(*w));
        Self { values, weight }
    }

    /// Sum of the weights.
    pub const fn weight(&self) -> i64 {
        self.weight
    }

    /// How many values there are, whatever their weights.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The smallest value that at least the share `q` (0 to 1) of the weight does not exceed
    /// (nearest rank); `None` without values.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let rank = whole((q.clamp(0.0, 1.0) * real(self.weight)).ceil()).max(1);
        let mut seen = 0_i64;
        for (value, weight) in &self.values {
            seen = seen.saturating_add(*weight);
            if seen >= rank {
                return Some(*value);
            }
        }
        self.max()
    }

    /// The values with their weights, in order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.values.iter().copied()
    }

    /// The median.
    pub fn median(&self) -> Option<i64> {
        self.quantile(0.5)
    }

    /// The largest.
    pub fn max(&self) -> Option<i64> {
        self.values.last().map(|(value, _)| *value)
    }

    /// The smallest.
    pub fn min(&self) -> Option<i64> {
        self.values.first().map(|(value, _)| *value)
    }

    /// How many different values there are.
    pub fn distinct(&self) -> usize {
        let mut values: Vec<i64> = self.values.iter().map(|(value, _)| *value).collect();
        values.dedup();
        values.len()
    }
}

/// A percentile from counts in logarithmic buckets: bucket *i* holds the values above
/// `base`^(*i* - 1) up to `base`^*i*, bucket 0 those up to 1. The answer is the geometric middle
/// of the bucket, so it is wrong by half a bucket's width at most: with a base of 1.1, by 5 %.
pub fn from_log_buckets(counts: &[i64], base: f64, q: f64) -> Option<f64> {
    let total = counts.iter().fold(0_i64, |sum, n| sum.saturating_add((*n).max(0)));
    if total <= 0 || base <= 1.0 {
        return None;
    }
    let rank = whole((q.clamp(0.0, 1.0) * real(total)).ceil()).max(1);
    let mut seen = 0_i64;
    for (i, n) in counts.iter().enumerate() {
        seen = seen.saturating_add((*n).max(0));
        if seen >= rank {
            let i = i32::try_from(i).unwrap_or(i32::MAX);
            return Some(if i == 0 { 1.0 } else { base.powf(f64::from(i) - 0.5) });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_go_by_nearest_rank_and_weight() {
        let plain = Sorted::new((1..=100).map(|i| (i, 1)));
        assert_eq!(plain.quantile(0.5), Some(50));
        assert_eq!(plain.quantile(0.95), Some(95));
        assert_eq!(plain.quantile(0.0), Some(1));
        assert_eq!(plain.quantile(1.0), Some(100));
        let weighted = Sorted::new([(10, 99), (1000, 1)]);
        assert_eq!((weighted.median(), weighted.quantile(0.99)), (Some(10), Some(10)));
        assert_eq!(weighted.quantile(0.995), Some(1000));
        assert_eq!(Sorted::default().median(), None);
    }

    #[test]
    fn a_percentile_from_buckets_is_near_the_true_one() {
        let mut counts = vec![0_i64; 120];
        for value in 1..=10_000_i64 {
            let bucket = whole((real(value).ln() / 1.1_f64.ln()).ceil());
            counts[usize::try_from(bucket).unwrap()] += 1;
        }
        for (q, want) in [(0.5, 5000.0), (0.95, 9500.0), (0.1, 1000.0)] {
            let got = from_log_buckets(&counts, 1.1, q).unwrap();
            assert!((got / want - 1.0).abs() < 0.06, "q {q}: {got}");
        }
        assert_eq!(from_log_buckets(&[0, 0], 1.1, 0.5), None);
    }

    proptest! {
        #[test]
        fn percentiles_rise(values in prop::collection::vec((any::<i64>(), 1_i64..1000), 1..50)) {
            let sorted = Sorted::new(values);
            let asked: Vec<i64> =
                [0.0, 0.25, 0.5, 0.95, 1.0].iter().filter_map(|q| sorted.quantile(*q)).collect();
            prop_assert_eq!(asked.len(), 5);
            prop_assert!(asked.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
