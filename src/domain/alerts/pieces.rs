//! The sums of a pair, cut so that every span of the rules is made of whole pieces: what is asked of
//! the store is each minute once, however many windows it falls into.

use super::evaluate::Sums;
use super::rule::{Measure, Rule, Span};
use super::threshold::WHOLE_BUCKETS;
use crate::domain::stored::Counts;

/// The ends of pieces, in minutes before the evaluation, ascending from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuts(Vec<u32>);

impl Cuts {
    /// For all spans of `rules`.
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut ends = vec![0];
        for condition in rules.into_iter().filter_map(Rule::condition) {
            condition.each_sum(&mut |_, span| ends.extend([span.lag, span.reach()]));
        }
        ends.sort_unstable();
        ends.dedup();
        Self(ends)
    }

    /// The pieces, newest first: from how many minutes ago to how many.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = Span> + '_ {
        self.0.windows(2).map(|ends| match ends {
            [lag, reach] => Span { minutes: reach - lag, lag: *lag },
            _ => Span::last(0),
        })
    }

    /// How many minutes they reach back.
    pub fn reach(&self) -> u32 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The pieces that make up a span; `None` where it isn't made of whole ones.
    fn within(&self, span: Span) -> Option<std::ops::Range<usize>> {
        let from = self.0.binary_search(&span.lag).ok()?;
        let to = self.0.binary_search(&span.reach()).ok()?;
        Some(from..to)
    }
}

/// What sums of attempts don't tell of a stretch: how requests ended as their senders tell it, and
/// what only several attempts of an operation show together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// Requests that ended well with their first attempt.
    pub first_try: i64,
    /// Requests that ended well with a later one.
    pub after_retry: i64,
    /// Requests that were given up or ran out of attempts.
    pub unsuccessful: i64,
    /// Retries sent before `Retry-After` had passed.
    pub early: i64,
    /// Suspected duplicate writes.
    pub duplicates: i64,
    /// Requests that ended and whose length is known.
    pub ended: i64,
    /// Of those, the ones that took no longer than each of [`WHOLE_BUCKETS`] seconds.
    pub within: [i64; WHOLE_BUCKETS.len()],
}

impl Noted {
    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.first_try += more.first_try;
        self.after_retry += more.after_retry;
        self.unsuccessful += more.unsuccessful;
        self.early += more.early;
        self.duplicates += more.duplicates;
        self.ended += more.ended;
        for (sum, more) in self.within.iter_mut().zip(more.within) {
            *sum += more;
        }
    }

    /// Adds requests that took so long, in milliseconds, from the first send to the last answer.
    pub fn add_ended(&mut self, ms: i64, n: i64) {
        self.ended += n;
        for (sum, seconds) in self.within.iter_mut().zip(WHOLE_BUCKETS) {
            *sum += if ms <= seconds * 1_000 { n } else { 0 };
        }
    }

    /// A measure of these; `wait_seconds` is one of [`WHOLE_BUCKETS`]. `None` for what the sums of
    /// attempts tell.
    fn of(&self, measure: Measure, wait_seconds: i64) -> Option<i64> {
        match measure {
            Measure::Succeeded => Some(self.first_try + self.after_retry),
            Measure::SavedByRetry => Some(self.after_retry),
            Measure::EndedAfterRetries => Some(self.after_retry + self.unsuccessful),
            Measure::EarlyRetries => Some(self.early),
            Measure::DuplicateWrites => Some(self.duplicates),
            Measure::Ended => Some(self.ended),
            Measure::EndedInTime => {
                let at = WHOLE_BUCKETS.iter().position(|seconds| *seconds == wait_seconds)?;
                self.within.get(at).copied()
            }
            Measure::Requests
            | Measure::Retries
            | Measure::Attempts
            | Measure::Status429
            | Measure::Limited => None,
        }
    }
}

/// The sums of one pair by the pieces of some [`Cuts`], newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Sums of attempts.
    pub counts: Vec<Counts>,
    /// What those don't tell.
    pub noted: Vec<Noted>,
}

impl Pieces {
    /// Nothing, in as many pieces.
    pub fn none(cuts: &Cuts) -> Self {
        let n = cuts.pieces().len();
        Self { counts: vec![Counts::default(); n], noted: vec![Noted::default(); n] }
    }

    /// These, to be evaluated with the number of seconds within which the pair's requests should
    /// end.
    pub const fn waiting<'a>(&'a self, cuts: &'a Cuts, wait_seconds: i64) -> PairSums<'a> {
        PairSums { cuts, pieces: self, wait_seconds }
    }

    /// Whether a first attempt that was served is among them.
    pub fn has_served(&self) -> bool {
        self.counts.iter().any(|counts| counts.succeeded > counts.retry_successes)
    }
}

/// The sums of one pair as a rule reads them.
#[derive(Debug, Clone, Copy)]
pub struct PairSums<'a> {
    cuts: &'a Cuts,
    pieces: &'a Pieces,
    wait_seconds: i64,
}

impl Sums for PairSums<'_> {
    fn sum(&self, measure: Measure, span: Span) -> Option<i64> {
        let within = self.cuts.within(span)?;
        // How requests ended is counted as `/metrics` counts it, so that both forms are the same.
        if let Some(noted) = self.pieces.noted.get(within.clone())
            && Noted::default().of(measure, self.wait_seconds).is_some()
        {
            return noted.iter().map(|noted| noted.of(measure, self.wait_seconds)).sum();
        }
        self.pieces.counts.get(within)?.iter().map(|counts| measure.of(counts)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::RULES;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_span_of_every_rule_is_made_of_whole_pieces() {
        let cuts = Cuts::of(RULES);
        assert_eq!(cuts.reach(), 4_320);
        for condition in RULES.iter().filter_map(Rule::condition) {
            condition.each_sum(&mut |_, span| {
                let pieces: Vec<Span> = cuts.pieces().collect();
                let within = cuts.within(span).unwrap();
                let minutes: u32 = pieces[within.clone()].iter().map(|piece| piece.minutes).sum();
                assert_eq!(minutes, span.minutes, "{span:?}");
                assert_eq!(pieces[within.start].lag, span.lag, "{span:?}");
            });
        }
        let quick = Cuts::of(RULES.iter().filter(|rule| rule.every == 1));
        assert_eq!((quick.reach(), quick.within(Span::last(4_320))), (360, None));
    }

    proptest! {
        #[test]
        fn a_span_is_the_sum_of_its_minutes(minutes in proptest::collection::vec(0_i64..9, 360)) {
            let cuts = Cuts::of(RULES.iter().filter(|rule| rule.every == 1));
            let within = |span: Span| &minutes[span.lag as usize..span.reach() as usize];
            let mut pieces = Pieces::none(&cuts);
            for (at, piece) in cuts.pieces().enumerate() {
                let sum: i64 = within(piece).iter().sum();
                pieces.counts[at].retries = sum;
                pieces.noted[at].early = 2 * sum;
                pieces.noted[at].within[2] = 3 * sum;
            }
            let sums = pieces.waiting(&cuts, 10);
            for span in [2, 5, 10, 15, 30, 60, 360].map(Span::last).into_iter()
                .chain([Span { minutes: 180, lag: 10 }])
            {
                let sum: i64 = within(span).iter().sum();
                prop_assert_eq!(sums.sum(Measure::Retries, span), Some(sum));
                prop_assert_eq!(sums.sum(Measure::EarlyRetries, span), Some(2 * sum));
                prop_assert_eq!(sums.sum(Measure::EndedInTime, span), Some(3 * sum));
            }
        }
    }

    #[test]
    fn lengths_count_in_every_bucket_that_holds_them() {
        let mut noted = Noted::default();
        noted.add_ended(5_000, 2);
        noted.add_ended(120_001, 1);
        assert_eq!((noted.ended, noted.within), (3, [0, 2, 2, 2, 2, 2]));
    }
}
