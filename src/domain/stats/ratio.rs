//! Shares with intervals, lift, and comparison of shares.
//!
//! Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
//! JASA 22 (1927); D. Katz et al., "Obtaining confidence intervals for the risk ratio in cohort
//! studies", Biometrics 34 (1978); G. A. Miller, "Note on the bias of information estimates" (1955).

use super::real;

/// Two-sided 95 %.
const Z95: f64 = 1.959_963_984_540_054;

/// From `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// `hits` of `total`; both at least 0, and `hits` no more than `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// How many count.
    pub hits: i64,
    /// Out of how many.
    pub total: i64,
}

impl Ratio {
    /// `hits` of `total`, brought into range where counts from two sources overlap badly.
    pub fn new(hits: i64, total: i64) -> Self {
        let total = total.max(0);
        Self { hits: hits.clamp(0, total), total }
    }

    /// The share, 0 to 1; `None` without any.
    pub fn share(self) -> Option<f64> {
        (self.total > 0).then(|| real(self.hits) / real(self.total))
    }

    /// Wilson's 95 % interval; from 0 to 1 where there is nothing to go by.
    pub fn wilson(self) -> Interval {
        if self.total <= 0 {
            return Interval { low: 0.0, high: 1.0 };
        }
        let n = real(self.total);
        let p = real(self.hits) / n;
        let z2 = Z95 * Z95;
        let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        // At the ends the bound is the end itself; rounding would leave it just inside.
        Interval {
            low: if self.hits <= 0 { 0.0 } else { (middle - half).max(0.0) },
            high: if self.hits >= self.total { 1.0 } else { (middle + half).min(1.0) },
        }
    }

    /// What is left of `whole` without this part.
    #[must_use]
    pub fn rest_of(self, whole: Self) -> Self {
        Self::new(whole.hits - self.hits, whole.total - self.total)
    }
}

/// How many times as often something happens inside a group as outside of it, with Katz's 95 %
/// interval on the logarithm. Half a case is added to each cell, so that an empty one has an
/// interval too. `None` where either side is empty.
pub fn lift(inside: Ratio, outside: Ratio) -> Option<(f64, Interval)> {
    if inside.total <= 0 || outside.total <= 0 {
        return None;
    }
    let (a, n) = (real(inside.hits) + 0.5, real(inside.total) + 1.0);
    let (b, m) = (real(outside.hits) + 0.5, real(outside.total) + 1.0);
    let log = ((a / n) / (b / m)).ln();
    let error = (1.0 / a - 1.0 / n + 1.0 / b - 1.0 / m).max(0.0).sqrt();
    Some((log.exp(), Interval { low: (log - Z95 * error).exp(), high: (log + Z95 * error).exp() }))
}

/// How many standard errors the share of `after` lies above that of `before` (below: negative),
/// with the pooled share under the assumption that nothing changed. 0 where either is empty.
pub fn difference_z(before: Ratio, after: Ratio) -> f64 {
    let (Some(p), Some(q)) = (before.share(), after.share()) else { return 0.0 };
    let (n, m) = (real(before.total), real(after.total));
    let pooled = (real(before.hits) + real(after.hits)) / (n + m);
    let error = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    if error > 0.0 { (q - p) / error } else { 0.0 }
}

/// How well a division into groups tells hits from the rest: mutual information as a share of the
/// hits' entropy, less the bias that many small groups bring (Miller). 0: not at all; 1: wholly.
pub fn separation(groups: &[Ratio]) -> f64 {
    let used: Vec<&Ratio> = groups.iter().filter(|group| group.total > 0).collect();
    let total: i64 = used.iter().map(|group| group.total).sum();
    let hits: i64 = used.iter().map(|group| group.hits).sum();
    if used.len() < 2 || hits <= 0 || hits >= total {
        return 0.0;
    }
    let n = real(total);
    let whole = entropy(real(hits) / n);
    let within: f64 =
        used.iter().map(|g| real(g.total) / n * entropy(real(g.hits) / real(g.total))).sum();
    let bias = (real(super::len(used.len())) - 1.0) / (2.0 * n);
    ((whole - within - bias) / whole).clamp(0.0, 1.0)
}

/// Entropy of a yes-or-no with chance `p`, in nats.
fn entropy(p: f64) -> f64 {
    [p, 1.0 - p].iter().filter(|x| **x > 0.0).map(|x| -x * x.ln()).sum()
}

/// The chance of at least `hits` in `trials` independent trials with chance `p` each (the upper
/// tail of the binomial distribution).
pub fn binomial_tail(hits: i64, trials: i64, p: f64) -> f64 {
    if hits <= 0 {
        return 1.0;
    }
    if hits > trials || p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    let (n, odds) = (real(trials), p / (1.0 - p));
    // The logarithm of the chance of exactly `hits`, then terms by their quotient.
    let mut log = real(trials) * (1.0 - p).ln();
    for k in 1..=hits {
        log += ((n - real(k) + 1.0) / real(k) * odds).ln();
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for k in hits + 1..=trials {
        term *= (n - real(k) + 1.0) / real(k) * odds;
        sum += term;
        if term < sum * 1e-12 && real(k) > n * p {
            break;
        }
    }
    (log + sum.ln()).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 5e-4, "got {got}, want {want}");
    }

    #[test]
    fn wilsons_interval_agrees_with_published_values() {
        // hits, total, low, high: R, prop.test(x, n, correct = FALSE)$conf.int
        let table = [
            (0, 10, 0.0, 0.2775),
            (1, 10, 0.0179, 0.4042),
            (5, 10, 0.2366, 0.7634),
            (81, 263, 0.2553, 0.3662),
            (10, 10, 0.7225, 1.0),
        ];
        for (hits, total, low, high) in table {
            let got = Ratio::new(hits, total).wilson();
            near(got.low, low);
            near(got.high, high);
        }
        assert_eq!(Ratio::new(3, 0).wilson(), Interval { low: 0.0, high: 1.0 });
    }

    #[test]
    fn all_of_404_reaches_up_to_all_and_none_of_them_down_to_none() {
        for total in 1..2_000 {
            assert_eq!(Ratio::new(total, total).wilson().high.to_bits(), 1.0_f64.to_bits());
            assert_eq!(Ratio::new(0, total).wilson().low.to_bits(), 0.0_f64.to_bits());
        }
    }

    #[test]
    fn lift_is_the_quotient_of_two_shares_and_its_interval_narrows_with_data() {
        let (small, wide) = lift(Ratio::new(4, 10), Ratio::new(10, 100)).unwrap();
        let (large, narrow) = lift(Ratio::new(400, 1000), Ratio::new(1000, 10_000)).unwrap();
        assert!((large - 4.0).abs() < 0.01);
        assert!((small - large).abs() < 0.3);
        assert!(wide.low < narrow.low && narrow.high < wide.high);
        assert_eq!(lift(Ratio::new(0, 0), Ratio::new(1, 2)), None);
        assert!(lift(Ratio::new(20, 20), Ratio::new(0, 20)).unwrap().1.low > 1.0);
    }

    #[test]
    fn the_binomial_tail_agrees_with_known_values() {
        near(binomial_tail(8, 10, 0.5), 56.0 / 1024.0);
        near(binomial_tail(1, 3, 0.5), 0.875);
        near(binomial_tail(0, 3, 0.5), 1.0);
        near(binomial_tail(4, 3, 0.5), 0.0);
        near(binomial_tail(3, 3, 1.0), 1.0);
        // R: pbinom(59, 100, 0.5, lower.tail = FALSE)
        near(binomial_tail(60, 100, 0.5), 0.028_44);
        assert!(binomial_tail(5000, 10_000, 0.05) < 1e-300);
    }

    #[test]
    fn separation_is_one_for_a_clean_cut_and_none_for_even_groups() {
        near(separation(&[Ratio::new(500, 500), Ratio::new(0, 500)]), 0.999_3);
        near(separation(&[Ratio::new(50, 500), Ratio::new(50, 500)]), 0.0);
        // A thousand groups of one attempt each would tell all, and know nothing.
        let singles: Vec<Ratio> = (0..1000).map(|i| Ratio::new(i64::from(i % 2 == 0), 1)).collect();
        assert!(separation(&singles) < 0.3);
    }

    #[test]
    fn a_fall_from_a_fifth_to_a_tenth_is_many_errors_below() {
        assert!(difference_z(Ratio::new(200, 1000), Ratio::new(100, 1000)) < -6.0);
        assert!(difference_z(Ratio::new(2, 10), Ratio::new(1, 10)).abs() < 1.0);
        near(difference_z(Ratio::new(0, 10), Ratio::new(0, 10)), 0.0);
    }

    proptest! {
        #[test]
        fn shares_lie_in_their_interval(hits in 0_i64..1_000_000, more in 0_i64..1_000_000) {
            let ratio = Ratio::new(hits, hits + more);
            let interval = ratio.wilson();
            prop_assert!(interval.low >= 0.0 && interval.high <= 1.0);
            if let Some(share) = ratio.share() {
                prop_assert!(interval.low <= share + 1e-9 && share <= interval.high + 1e-9);
            }
        }

        #[test]
        fn a_tail_is_a_chance(hits in -5_i64..300, trials in 0_i64..300, p in 0.0_f64..1.0) {
            let tail = binomial_tail(hits, trials, p);
            prop_assert!((0.0..=1.0).contains(&tail), "{tail}");
        }
    }
}
