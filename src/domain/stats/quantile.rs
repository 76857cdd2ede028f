//! Percentiles, exact from values.

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
