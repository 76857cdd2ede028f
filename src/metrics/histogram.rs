//! Counts of values up to fixed bounds, with an exemplar a bucket.
//!
//! Values are whole thousandths (milliseconds, or thousandths of an attempt), so that sums are
//! exact and never depend on the order in which they were added.

use super::exemplar::Exemplar;

/// Bounds for waits and durations: 0.1 s to 5 minutes.
pub(super) const DELAYS: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];
/// Bounds for the duration of a request: those of [`DELAYS`] up to 2 minutes.
pub(super) const DURATIONS: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000];
/// Bounds for what servers promise: a second to a day. Longer ones are no waits that anybody keeps to
/// (a number of more is left out as implausible), so that a date of the year 9999 counts as a day in
/// the sum.
pub(super) const PROMISES: &[u64] = &[
    1_000, 5_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000, 3_600_000, 21_600_000,
    86_400_000,
];
/// Bounds for attempts of a request: 1 to 25.
pub(super) const ATTEMPTS: &[u64] = &[1_000, 2_000, 3_000, 4_000, 5_000, 8_000, 13_000, 25_000];

/// A histogram.
#[derive(Debug, Clone)]
pub struct Histogram {
    bounds: &'static [u64],
    /// Those up to each bound and above the one before, and those above the last.
    buckets: Box<[Bucket]>,
    sum: u64,
    /// What a value counts as in the sum at most.
    most: u64,
}

/// What lies between two bounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    /// How many values, not those of lower buckets.
    pub count: u64,
    /// One of them.
    pub exemplar: Option<Exemplar>,
}

impl Histogram {
    /// An empty one with these bounds, ascending, in thousandths.
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = vec![Bucket::default(); bounds.len() + 1].into();
        Self { bounds, buckets, sum: 0, most: u64::MAX }
    }

    /// As [`Self::new`], where values above the last bound count as that bound in the sum.
    pub fn bounded(bounds: &'static [u64]) -> Self {
        Self { most: bounds.last().copied().unwrap_or(u64::MAX), ..Self::new(bounds) }
    }

    /// Adds a value, in thousandths, `n` times; what is negative counts as 0.
    pub fn add(&mut self, value: i64, n: u64, exemplar: Option<Exemplar>) {
        let value = u64::try_from(value).unwrap_or_default();
        let at = self.bounds.iter().position(|bound| value <= *bound);
        if let Some(bucket) = self.buckets.get_mut(at.unwrap_or(self.bounds.len())) {
            bucket.count = bucket.count.saturating_add(n);
            if let Some(exemplar) = exemplar {
                bucket.exemplar = Some(Exemplar { value, ..exemplar });
            }
        }
        self.sum = self.sum.saturating_add(value.min(self.most).saturating_mul(n));
    }

    /// The bounds, in thousandths, without infinity.
    pub fn bounds(&self) -> &'static [u64] {
        self.bounds
    }

    /// The buckets; the last one has no bound.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The sum of all values, in thousandths; of a bounded one each as far as its last bound.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_bound_belongs_below_it() {
        let mut histogram = Histogram::new(ATTEMPTS);
        for (value, n) in [(1_000, 3), (1_001, 1), (25_000, 1), (25_001, 2), (-5, 1)] {
            histogram.add(value, n, None);
        }
        let counts: Vec<u64> = histogram.buckets().iter().map(|bucket| bucket.count).collect();
        assert_eq!(counts, [4, 1, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((histogram.count(), histogram.sum()), (8, 79_003));
    }
}
