//! Recent attempts, to see what only two of them together show: a retry that came too early, a
//! write that may have been done twice, how long a request took in all.
//!
//! An attempt is remembered while fewer than [`GENERATION`] others came after it, and forgotten at
//! the latest when twice as many did; nothing is read back from the database. So whatever is
//! counted here is a lower bound: what was forgotten, arrived at another replica, before a restart
//! or carries no `operation_id` is not seen. Attempts may arrive in any order.

use super::mixed::Quick;
use super::sight::{Promise, Sight, Write};
use crate::domain::time::UnixMillis;
use std::collections::HashMap;

/// Attempts in each of two generations. An entry takes some 100 bytes, so that all of them stay
/// below 8 MB.
pub(super) const GENERATION: usize = 32_768;

/// Between sending an attempt and the answer to the one before, the times of one caller may differ
/// by this much, in milliseconds.
const OVERLAP_MS: i64 = 50;

/// The attempts that are remembered, by operation and number.
#[derive(Debug, Default)]
pub(super) struct Recent {
    young: HashMap<(u64, u32), Attempt, Quick>,
    old: HashMap<(u64, u32), Attempt, Quick>,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    sent: UnixMillis,
    answered: UnixMillis,
    promised: Option<Promise>,
    has_chosen: bool,
    write: Write,
    is_served: bool,
    /// A duplicate of this operation was counted already.
    is_counted: bool,
}

/// What an attempt shows together with those around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Retries that were sent before the promised wait had passed: this one, or the one after it
    /// that came first.
    pub(super) early: u64,
    /// The request may have been carried out twice.
    pub(super) duplicate: bool,
    /// Where this attempt ended its request and the first one is known: the time of both and all
    /// between.
    pub(super) took_ms: Option<i64>,
}

impl Recent {
    /// Looks at an attempt and remembers it.
    pub(super) fn see(&mut self, sight: &Sight) -> Found {
        let mut found = Found::default();
        let is_end = sight.finish.is_some();
        if sight.attempt <= 1 {
            found.took_ms = sight.duration_ms.filter(|_| is_end);
        }
        let Some(operation) = sight.operation else { return found };
        // Most requests need one attempt, of which nothing is to be remembered.
        if sight.attempt <= 1 && is_end {
            return found;
        }
        let mut this = Attempt {
            sent: sight.sent,
            answered: sight.answered,
            promised: sight.promised.filter(|promise| promise.ms > 0),
            has_chosen: sight.chosen_ms.is_some(),
            write: sight.write,
            is_served: sight.is_served,
            is_counted: false,
        };
        if sight.attempt > 1 {
            if let Some(before) = self.get(operation, sight.attempt - 1) {
                found.early += u64::from(is_early(&before, this.sent));
                found.duplicate = is_duplicate(&before, &this);
                this.is_counted = before.is_counted;
            }
            if is_end {
                let first = self.get(operation, 1);
                found.took_ms = first.map(|first| sight.answered.since(first.sent).0.max(0));
            }
        }
        if let Some(after) = sight.attempt.checked_add(1).and_then(|n| self.get(operation, n)) {
            found.early += u64::from(is_early(&this, after.sent));
            found.duplicate |= is_duplicate(&this, &after);
            this.is_counted |= after.is_counted;
        }
        found.duplicate &= !this.is_counted;
        this.is_counted |= found.duplicate;
        if self.young.len() >= GENERATION {
            // With the room they have: growing anew would move every attempt several times.
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert((operation, sight.attempt), this);
        found
    }

    /// How many attempts are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn get(&self, operation: u64, attempt: u32) -> Option<Attempt> {
        let key = (operation, attempt);
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }
}

/// Whether the attempt after `before`, sent at `sent`, came before the promised time, as
/// `domain::checklist` judges it: a hedge, sent without waiting for the answer, is none, and
/// neither is a wait between clocks that disagree.
fn is_early(before: &Attempt, sent: UnixMillis) -> bool {
    let Some(Promise { ms, tolerance_ms }) = before.promised else { return false };
    let real = sent.since(before.answered).0;
    let is_hedge = real < -OVERLAP_MS && sent > before.sent && !before.has_chosen;
    let is_clock_step = sent < before.sent;
    !is_hedge && !is_clock_step && real < ms.saturating_sub(tolerance_ms)
}

/// Whether a write was sent again, and served, after one that may have been carried out.
fn is_duplicate(before: &Attempt, after: &Attempt) -> bool {
    before.write == Write::Open && after.write != Write::Safe && after.is_served
}
