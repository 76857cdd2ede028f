//! How far two clocks are apart, from stamps that are cut to whole seconds.

use super::quantile::Sorted;

/// What many comparisons of a server's `Date` with the observer's clock say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    /// Median of server less observer, in milliseconds, with half a second added for the cut.
    pub median_ms: i64,
    /// 10th percentile.
    pub low_ms: i64,
    /// 90th percentile.
    pub high_ms: i64,
    /// How many comparisons.
    pub samples: i64,
}

/// A difference beyond this is reported, in milliseconds: `Date` is cut to a second, and the
/// answer travels.
pub const REPORT_BEYOND_MS: i64 = 5_000;

/// Summarises `(server - observer, weight)` in milliseconds; `None` without any. `Date` is cut to
/// the second (RFC 9110 section 5.6.7), so half a second is added.
pub fn summarise(differences: impl IntoIterator<Item = (i64, i64)>) -> Option<Skew> {
    let sorted = Sorted::new(differences.into_iter().map(|(d, w)| (d.saturating_add(500), w)));
    Some(Skew {
        median_ms: sorted.median()?,
        low_ms: sorted.quantile(0.1)?,
        high_ms: sorted.quantile(0.9)?,
        samples: sorted.weight(),
    })
}

impl Skew {
    /// Whether it is large enough to shift waits given as dates.
    pub const fn is_large(&self) -> bool {
        self.median_ms.saturating_abs() > REPORT_BEYOND_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_stamp_is_no_skew_and_a_slow_clock_is() {
        let cut = summarise((0..100).map(|i| (-i * 10, 1))).unwrap();
        assert!(cut.median_ms.abs() <= 10 && !cut.is_large());
        let slow = summarise((0..100).map(|i| (90_000 - i * 10, 1))).unwrap();
        assert!(slow.is_large() && (slow.median_ms - 90_000).abs() <= 10);
        assert_eq!(summarise([]), None);
        assert!(summarise([(i64::MIN, 1)]).unwrap().is_large());
    }
}
