//! The retry policy that we recommend, and keep ourselves for everything we send.
//!
//! - A promised wait (`Retry-After`, RFC 9110 section 10.2.3) is a floor: jitter comes on top of it,
//!   nothing is taken off. One that is longer than may be waited is not clipped: it is for later.
//! - Without a promise the wait is full jitter: anything from nothing to a bound that doubles.
//! - There is an end: of a single wait, of attempts, of the whole time, and of the share of retries.
//! - What can't succeed is not tried again.
//!
//! Everything here is a value or a pure function; chance is handed in.

use super::time::{Millis, UnixMillis};

/// Why an attempt did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No answer came: the name, the connection, TLS or the time failed. Whether the other side has
    /// done what it was asked can't be told.
    NoAnswer,
    /// An answer that is no success.
    Answered {
        /// Its status.
        status: u16,
        /// How long it asks to wait, counted from its arrival.
        promised: Option<Millis>,
    },
}

impl Failure {
    /// Whether the same request can't succeed later either. Worth another attempt are 5xx, 408 and
    /// 425, which say so (RFC 9110 section 15.5.9, RFC 8470 section 5.2), 429, and 413 where it
    /// comes with `Retry-After` and so is temporary (RFC 9110 section 15.5.14).
    pub const fn is_final(self) -> bool {
        match self {
            Self::NoAnswer => false,
            Self::Answered { status: 413, promised } => promised.is_none(),
            Self::Answered { status, .. } => {
                !matches!(status, 408 | 425 | 429) && (status < 500 || status > 599)
            }
        }
    }

    /// Whether nothing is to be sent there any more: 410 says that what was there is gone, most likely
    /// for good (RFC 9110 section 15.5.11), and Standard Webhooks has receivers end it so.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Answered { status: 410, .. })
    }

    /// How long the other side asks to wait.
    pub const fn promised(self) -> Option<Millis> {
        match self {
            Self::NoAnswer => None,
            Self::Answered { promised, .. } => promised,
        }
    }
}

/// Bounds of a series of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Bound of the wait before the second attempt where nothing is promised; it doubles from then on.
    pub base: Millis,
    /// Longest wait. Bounds both what is chosen here and how long a promise may be to be waited for.
    pub longest_wait: Millis,
    /// Most attempts, the first one included.
    pub attempts: u32,
    /// Longest time from the first attempt to the beginning of the last.
    pub deadline: Millis,
}

/// What follows an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt after this wait.
    Wait(Millis),
    /// None within these bounds.
    Stop(Stop),
}

/// Why no attempt follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It can't succeed.
    Final,
    /// The other side asks for a longer wait than may be waited.
    PromisedTooLong,
    /// No attempt is left.
    Attempts,
    /// The next attempt would begin after the deadline.
    Deadline,
    /// Retries are too large a share of what is sent.
    Budget,
}

impl Policy {
    /// What follows attempt number `attempt` (1 is the first), which failed `elapsed` after the first
    /// one began. `chance` is from 0 to 1, 1 excluded.
    pub fn next(&self, failure: Failure, attempt: u32, elapsed: Millis, chance: f64) -> Next {
        if failure.is_final() {
            return Next::Stop(Stop::Final);
        }
        if failure.promised().is_some_and(|promised| promised > self.longest_wait) {
            return Next::Stop(Stop::PromisedTooLong);
        }
        if attempt >= self.attempts {
            return Next::Stop(Stop::Attempts);
        }
        let wait = self.wait(failure, attempt, chance);
        if elapsed.0.saturating_add(wait.0) > self.deadline.0 {
            return Next::Stop(Stop::Deadline);
        }
        Next::Wait(wait)
    }

    /// The wait after attempt number `attempt`, however long was promised: the promise plus jitter,
    /// or jitter alone.
    pub fn wait(&self, failure: Failure, attempt: u32, chance: f64) -> Millis {
        let jitter = part(self.bound(attempt), chance);
        Millis(failure.promised().map_or(0, |wait| wait.0.max(0)).saturating_add(jitter.0))
    }

    /// The bound of jitter after attempt number `attempt`.
    fn bound(&self, attempt: u32) -> Millis {
        let doubled = 1_i64.checked_shl(attempt.saturating_sub(1)).filter(|n| *n > 0);
        let bound = self.base.0.saturating_mul(doubled.unwrap_or(i64::MAX));
        Millis(bound.min(self.longest_wait.0).max(0))
    }
}

/// A share of a length of time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "waits stay far below 2^53 ms, and the product lies between 0 and the whole"
)]
fn part(whole: Millis, chance: f64) -> Millis {
    Millis((whole.0 as f64 * chance.clamp(0.0, 1.0)) as i64)
}

/// Bounds the share of retries: every first attempt adds a part of a retry, every retry takes one,
/// and a reserve lets a quiet sender retry at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// In hundredths of a retry.
    balance: u64,
    reserve: u64,
    percent: u64,
}

/// Hundredths in a retry.
const RETRY: u64 = 100;

impl Budget {
    /// `percent` retries for a hundred first attempts, and `reserve` retries at the beginning and at
    /// most.
    pub const fn new(percent: u64, reserve: u64) -> Self {
        let reserve = reserve.saturating_mul(RETRY);
        Self { balance: reserve, reserve, percent }
    }

    /// A first attempt was made.
    pub fn add_first(&mut self) {
        self.balance = self.balance.saturating_add(self.percent).min(self.reserve);
    }

    /// Takes a retry; `false` where none is left.
    pub fn take(&mut self) -> bool {
        let left = self.balance.checked_sub(RETRY);
        self.balance = left.unwrap_or(self.balance);
        left.is_some()
    }
}

/// The moment until which nothing is sent to somebody who asked to wait; the latest one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gate(Option<UnixMillis>);

impl Gate {
    /// Keeps it closed until then, if it isn't closed for longer.
    pub fn close_until(&mut self, at: UnixMillis) {
        self.0 = self.0.max(Some(at));
    }

    /// Until when it is closed; `None` where it is open.
    pub fn closed_until(self, now: UnixMillis) -> Option<UnixMillis> {
        self.0.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: Policy = Policy {
        base: Millis(500),
        longest_wait: Millis(10_000),
        attempts: 4,
        deadline: Millis(60_000),
    };

    const fn answered(status: u16, promised: Option<i64>) -> Failure {
        let promised = match promised {
            Some(ms) => Some(Millis(ms)),
            None => None,
        };
        Failure::Answered { status, promised }
    }

    #[test]
    fn what_follows_a_failure() {
        let wait = |ms| Next::Wait(Millis(ms));
        for (failure, attempt, elapsed, chance, expected, why) in [
            (Failure::NoAnswer, 1, 0, 0.0, wait(0), "full jitter begins at nothing"),
            (Failure::NoAnswer, 1, 0, 0.5, wait(250), "half of the base"),
            (answered(500, None), 2, 0, 0.5, wait(500), "the bound doubles"),
            (answered(503, None), 3, 0, 0.5, wait(1_000), "and again"),
            (answered(429, Some(7_000)), 1, 0, 0.0, wait(7_000), "the promise is a floor"),
            (answered(429, Some(7_000)), 1, 0, 0.5, wait(7_250), "with jitter above"),
            (answered(503, Some(10_000)), 1, 0, 0.9, wait(10_450), "jitter may pass the bound"),
            (answered(503, Some(10_001)), 1, 0, 0.0, Next::Stop(Stop::PromisedTooLong), "no clip"),
            (answered(413, Some(1_000)), 1, 0, 0.0, wait(1_000), "413 that says when"),
            (answered(413, None), 1, 0, 0.0, Next::Stop(Stop::Final), "413 that doesn't"),
            (answered(400, Some(1)), 1, 0, 0.0, Next::Stop(Stop::Final), "400 whatever it says"),
            (answered(410, None), 1, 0, 0.0, Next::Stop(Stop::Final), "gone"),
            (answered(302, None), 1, 0, 0.0, Next::Stop(Stop::Final), "redirects aren't followed"),
            (answered(408, None), 1, 0, 0.0, wait(0), "408 says so itself"),
            (Failure::NoAnswer, 4, 0, 0.0, Next::Stop(Stop::Attempts), "the fourth was the last"),
            (Failure::NoAnswer, 1, 59_900, 0.1, wait(50), "just in time"),
            (Failure::NoAnswer, 1, 59_900, 0.9, Next::Stop(Stop::Deadline), "too late"),
            (answered(429, Some(9_000)), 1, 55_000, 0.0, Next::Stop(Stop::Deadline), "not clipped"),
        ] {
            assert_eq!(POLICY.next(failure, attempt, Millis(elapsed), chance), expected, "{why}");
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_never_below_what_was_promised(
            promised in -5_i64..i64::MAX,
            attempt in 1_u32..200,
            chance in 0.0_f64..1.0,
        ) {
            let failure = answered(429, Some(promised));
            prop_assert!(POLICY.wait(failure, attempt, chance).0 >= promised.max(0));
            if let Next::Wait(wait) = POLICY.next(failure, attempt, Millis(0), chance) {
                prop_assert!(wait.0 >= promised);
                prop_assert!(promised <= POLICY.longest_wait.0);
            }
        }

        #[test]
        fn without_a_promise_no_wait_passes_the_bound(
            attempt in 1_u32..200,
            chance in 0.0_f64..1.0,
        ) {
            let wait = POLICY.wait(Failure::NoAnswer, attempt, chance);
            prop_assert!((0..=POLICY.longest_wait.0).contains(&wait.0));
        }

        #[test]
        fn every_series_ends(chance in 0.0_f64..1.0, status in 100_u16..600) {
            let mut elapsed = Millis(0);
            let mut attempt = 1;
            while let Next::Wait(wait) =
                POLICY.next(answered(status, None), attempt, elapsed, chance)
            {
                elapsed.0 += wait.0;
                attempt += 1;
            }
            prop_assert!(attempt <= POLICY.attempts);
            prop_assert!(elapsed <= POLICY.deadline);
        }
    }

    #[test]
    fn only_410_says_that_nothing_is_to_be_sent_any_more() {
        let gone = (100..600).filter(|status| answered(*status, None).is_gone());
        assert_eq!(gone.collect::<Vec<_>>(), [410]);
        assert!(!Failure::NoAnswer.is_gone());
    }

    #[test]
    fn retries_stay_a_share_of_what_is_sent() {
        let mut budget = Budget::new(10, 3);
        assert_eq!(
            (0..5).map(|_| budget.take()).collect::<Vec<_>>(),
            [true, true, true, false, false]
        );
        let mut retries = 0;
        for _ in 0..1_000 {
            budget.add_first();
            retries += i32::from(budget.take());
        }
        assert_eq!(retries, 100);
        for _ in 0..1_000 {
            budget.add_first();
        }
        assert_eq!((0..9).filter(|_| budget.take()).count(), 3, "what is saved is bounded");
    }

    #[test]
    fn the_longest_wait_that_was_asked_for_counts() {
        let mut gate = Gate::default();
        let at = UnixMillis;
        assert_eq!(gate.closed_until(at(5)), None);
        gate.close_until(at(20));
        gate.close_until(at(10));
        assert_eq!(gate.closed_until(at(19)), Some(at(20)));
        assert_eq!(gate.closed_until(at(20)), None);
    }
}
