//! Pending, firing, resolved: the life of one alert, as Prometheus has it (`rules/alerting.go`). A
//! state is a plain value that can be stored after each evaluation and read back before the next.

use super::super::spelling::spelled_enum;
use super::rule::Rule;
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};
use serde::{Deserialize, Serialize};

/// How long a rule waits at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// How long it must be true before it fires.
    pub hold: Millis,
    /// How long it fires on after it was last true.
    pub keep: Millis,
}

impl Hold {
    /// Of a rule.
    pub fn of(rule: &Rule) -> Self {
        let minutes = |n: u32| Millis(i64::from(n) * MINUTE_MS);
        Self { hold: minutes(rule.hold), keep: minutes(rule.keep) }
    }
}

/// Where an alert stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum AlertState {
    /// Never true, or not for long enough the last time.
    #[default]
    Inactive,
    /// True, but not yet for long enough.
    Pending {
        /// The evaluation that found it true first.
        active_since: UnixMillis,
    },
    /// It fires.
    Firing {
        /// The evaluation that found it true first.
        active_since: UnixMillis,
        /// The evaluation from which it fires.
        fired_at: UnixMillis,
        /// The first evaluation since it was last true that found it false.
        false_since: Option<UnixMillis>,
    },
    /// It fired and is over.
    Resolved {
        /// The evaluation that found it true first.
        active_since: UnixMillis,
        /// The evaluation from which it fired.
        fired_at: UnixMillis,
        /// The evaluation that ended it.
        resolved_at: UnixMillis,
    },
}

spelled_enum! {
    /// A change worth telling somebody.
    pub enum Transition {
        /// It became true; nobody is told yet.
        Pended => "pended",
        /// It was not true for long enough.
        Dropped => "dropped",
        /// It fires from now on.
        Fired => "fired",
        /// It is over.
        Resolved => "resolved",
    }
}

impl AlertState {
    /// The state after an evaluation at `now` that found the rule true or not. With `hold` 0 it
    /// fires at once. `now` must not go back.
    #[must_use]
    pub fn next(self, is_true: bool, now: UnixMillis, times: Hold) -> (Self, Option<Transition>) {
        match (self, is_true) {
            (Self::Inactive | Self::Resolved { .. }, true) if times.hold.0 <= 0 => {
                Self::fire(now, now)
            }
            (Self::Inactive | Self::Resolved { .. }, true) => {
                (Self::Pending { active_since: now }, Some(Transition::Pended))
            }
            (Self::Pending { active_since }, true) if now.since(active_since) >= times.hold => {
                Self::fire(active_since, now)
            }
            (Self::Inactive | Self::Resolved { .. }, false) | (Self::Pending { .. }, true) => {
                (self, None)
            }
            (Self::Pending { .. }, false) => (Self::Inactive, Some(Transition::Dropped)),
            (Self::Firing { active_since, fired_at, .. }, true) => {
                (Self::Firing { active_since, fired_at, false_since: None }, None)
            }
            (Self::Firing { active_since, fired_at, false_since }, false) => {
                let first = false_since.unwrap_or(now);
                if now.since(first) < times.keep {
                    (Self::Firing { active_since, fired_at, false_since: Some(first) }, None)
                } else {
                    let over = Self::Resolved { active_since, fired_at, resolved_at: now };
                    (over, Some(Transition::Resolved))
                }
            }
        }
    }

    fn fire(active_since: UnixMillis, now: UnixMillis) -> (Self, Option<Transition>) {
        let firing = Self::Firing { active_since, fired_at: now, false_since: None };
        (firing, Some(Transition::Fired))
    }

    /// The evaluation that found it true first, and the one that ended it where it is over; `None`
    /// where it stands for nothing.
    pub const fn active(&self) -> Option<(UnixMillis, Option<UnixMillis>)> {
        match *self {
            Self::Inactive => None,
            Self::Pending { active_since } | Self::Firing { active_since, .. } => {
                Some((active_since, None))
            }
            Self::Resolved { active_since, resolved_at, .. } => {
                Some((active_since, Some(resolved_at)))
            }
        }
    }

    /// The evaluation from which it fires or fired.
    pub const fn fired_at(&self) -> Option<UnixMillis> {
        match *self {
            Self::Inactive | Self::Pending { .. } => None,
            Self::Firing { fired_at, .. } | Self::Resolved { fired_at, .. } => Some(fired_at),
        }
    }

    /// Whether it fires.
    pub const fn is_firing(&self) -> bool {
        matches!(self, Self::Firing { .. })
    }

    /// Its one word: `inactive`, `pending`, `firing` or `resolved`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending { .. } => "pending",
            Self::Firing { .. } => "firing",
            Self::Resolved { .. } => "resolved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(minute: i64) -> UnixMillis {
        UnixMillis(minute * MINUTE_MS)
    }

    fn hold(hold: i64, keep: i64) -> Hold {
        Hold { hold: Millis(hold * MINUTE_MS), keep: Millis(keep * MINUTE_MS) }
    }

    /// The words of a run over minutes 0, 1, 2, …; `x` is true.
    fn run(truth: &str, times: Hold) -> String {
        let mut state = AlertState::default();
        let each = truth.chars().enumerate().map(|(minute, c)| {
            state = state.next(c == 'x', at(i64::try_from(minute).unwrap()), times).0;
            state.as_str().chars().next().unwrap()
        });
        each.collect()
    }

    #[test]
    fn lives_of_an_alert() {
        for (truth, times, expected, why) in [
            ("....", hold(2, 3), "iiii", "nothing"),
            ("x.xx.", hold(2, 3), "pippi", "pending and false: dropped"),
            ("xxxx", hold(2, 3), "ppff", "fires when it was true for two minutes"),
            ("xxx....", hold(2, 3), "ppffffr", "three minutes after the first false one"),
            ("xxx..x....", hold(2, 3), "ppfffffffr", "one true evaluation forgets the first false"),
            ("xxx.xx", hold(2, 0), "ppfrpp", "after the end it begins as pending"),
            ("x.x", hold(0, 0), "frf", "nothing to wait for"),
            ("x..", hold(0, 1), "ffr", "kept for a minute"),
            ("x....x", hold(0, 1), "ffrrrf", "resolved is remembered"),
        ] {
            assert_eq!(run(truth, times), expected, "{why}: {truth}");
        }
    }

    #[test]
    fn a_gap_between_evaluations_is_time_like_any_other() {
        let times = hold(3, 10);
        let (state, _) = AlertState::default().next(true, at(0), times);
        let (state, told) = state.next(true, at(40), times);
        assert_eq!(told, Some(Transition::Fired));
        let (state, told) = state.next(false, at(41), times);
        assert_eq!(told, None);
        let (_, told) = state.next(false, at(90), times);
        assert_eq!(told, Some(Transition::Resolved));
    }

    /// What the words of alerting.go say, over the whole past instead of step by step.
    fn fires(past: &[bool], hold: usize, keep: usize) -> bool {
        // When it last was resolved or never had begun, everything starts anew, so go forward.
        let (mut since, mut firing, mut last_false) = (None, false, None);
        for (minute, is_true) in past.iter().enumerate() {
            if *is_true {
                let since = *since.get_or_insert(minute);
                firing |= minute - since >= hold;
                last_false = None;
            } else if firing {
                let first = *last_false.get_or_insert(minute);
                if minute - first >= keep {
                    (since, firing, last_false) = (None, false, None);
                }
            } else {
                since = None;
            }
        }
        firing
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_words_and_survives_being_stored(
            truth in proptest::collection::vec(any::<bool>(), 0..60),
            holding in 0_usize..6,
            keeping in 0_usize..6,
        ) {
            let times = hold(i64::try_from(holding).unwrap(), i64::try_from(keeping).unwrap());
            let mut state = AlertState::default();
            let mut stored = state;
            for minute in 0..truth.len() {
                let now = at(i64::try_from(minute).unwrap());
                let (next, told) = state.next(truth[minute], now, times);
                prop_assert_eq!(next.is_firing(), fires(&truth[..=minute], holding, keeping));
                prop_assert_eq!(told == Some(Transition::Fired), next.is_firing() && !state.is_firing());
                prop_assert_eq!(told == Some(Transition::Resolved), !next.is_firing() && state.is_firing());
                // A restart between any two evaluations changes nothing.
                let text = serde_json::to_string(&stored).unwrap();
                stored = serde_json::from_str::<AlertState>(&text).unwrap().next(truth[minute], now, times).0;
                state = next;
                prop_assert_eq!(stored, state);
            }
        }

        #[test]
        fn it_never_fires_before_its_time_nor_resolves_while_true(
            truth in proptest::collection::vec(any::<bool>(), 1..40), holding in 0_i64..6,
        ) {
            let times = hold(holding, 2);
            let mut state = AlertState::default();
            for (minute, is_true) in truth.iter().enumerate() {
                state = state.next(*is_true, at(i64::try_from(minute).unwrap()), times).0;
                if let AlertState::Firing { active_since, fired_at, .. } = state {
                    prop_assert!(fired_at.since(active_since) >= times.hold);
                    // All minutes until it fired were true.
                    let (from, to) = (active_since.0 / MINUTE_MS, fired_at.0 / MINUTE_MS);
                    prop_assert!((from..=to).all(|m| truth[usize::try_from(m).unwrap()]));
                }
                prop_assert!(!*is_true || state.as_str() != "resolved");
            }
        }
    }
}
