//! How long what is kept, and since when there is anything.
//!
//! Events end at a whole hour (on PostgreSQL, which drops days, at a whole day), so that every sum
//! stands for a stretch whose events are all there or all gone. Sums finer than an hour end with the
//! events: what is older is answered by whole hours, one rule for all questions. The moment is
//! written down before anything is removed, and what is older is neither taken nor counted by rows
//! from then on; a kill in the middle leaves some rows for the next start to remove.

use super::StoreError;
use super::sums::{self, HOUR, SLOT, Sums};
use crate::domain::stored::{Gathered, History, Since};
use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis};

/// How long things are kept, and how much room they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How long events are kept, and sums finer than an hour; counted from when they happened.
    pub events: Millis,
    /// How long sums of hours are kept; not shorter than events.
    pub sums: Millis,
    /// Bytes that the data may take on disk, the write-ahead log not counted. Beyond it the oldest
    /// goes first, whatever its age. `None`: no limit.
    pub max_bytes: Option<u64>,
}

/// Whether [`super::Store::tidy`] has more to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tidied {
    /// There is more to do.
    More,
    /// All is done for now.
    Done,
}

/// Which kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Events,
    Sums,
}

impl What {
    /// Its word in the table `kept`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Sums => "sums",
        }
    }
}

/// The rows of `kept`: events, gathered, sums.
pub(super) const READ: &str = "\
SELECT since, received_since, budget_since, removed, removed_for_budget FROM kept ORDER BY what";
/// The latest hour (in minutes) in which anything was received that happened before `$1` (likewise).
pub(super) const LAST_RECEIVED_OF: &str =
    "SELECT MAX(received) FROM spans WHERE width = 60 AND start < $1";
/// Moves the beginning of a kind (`$4`) to `$1`, by receipt to `$2` where that is later; `$3` is the
/// same as `$1` where the disk budget asks for it. (SQLite numbers values as it meets them.)
pub(super) const ADVANCE: &str = "\
UPDATE kept SET since = $1, \
received_since = CASE WHEN received_since < $2 THEN $2 ELSE received_since END, \
budget_since = CASE WHEN budget_since < $3 THEN $3 ELSE budget_since END \
WHERE what = $4 AND since < $1";
/// Counts removed rows of a kind (`$3`), and how many of them for the disk budget.
pub(super) const COUNT_REMOVED: &str = "\
UPDATE kept SET removed = removed + $1, removed_for_budget = removed_for_budget + $2 \
WHERE what = $3";

/// Tables of sums with the width of their rows, the column of their time, and when they end.
pub(super) const SUMS: [(Sums, What); 9] = [
    (sums::MINUTES, What::Events),
    (sums::SLOT_COUNTS, What::Events),
    (sums::CLASS_SUMS, What::Events),
    (sums::ACTOR_SUMS, What::Events),
    (sums::WAIT_SUMS, What::Events),
    (sums::HOUR_COUNTS, What::Sums),
    (sums::CLASS_HOURS, What::Sums),
    (sums::ACTOR_HOURS, What::Sums),
    (sums::WAIT_HOURS, What::Sums),
];
/// Widths of spans, and when those end.
pub(super) const SPANS: [(i64, What); 2] = [(SLOT, What::Events), (HOUR, What::Sums)];
/// The dictionaries from which names go that nothing uses any more.
pub(super) const NAMES: [&str; 2] = ["series", "words"];
/// Numbers of names that are looked through at once.
pub(super) const NAMES_AT_ONCE: i64 = 4_000;

/// What the rows of [`READ`] say.
pub(super) fn history(rows: &[[i64; 5]]) -> Result<History, StoreError> {
    let [events, gathered, sums] = rows else { return Err(missing()) };
    let gathered = Gathered { received: UnixMillis(gathered[0]), start: UnixMillis(gathered[1]) };
    Ok(History { events: since(*events), sums: since(*sums), gathered })
}

fn since([since, received_since, budget_since, removed, removed_for_budget]: [i64; 5]) -> Since {
    Since {
        since: UnixMillis(since),
        received_since: UnixMillis(received_since),
        budget_since: UnixMillis(budget_since),
        removed,
        removed_for_budget,
    }
}

/// The table `kept` doesn't have its three rows.
pub(super) fn missing() -> StoreError {
    StoreError::Corrupt {
        table: "kept",
        column: "what",
        reason: "events, gathered and sums must be there, each once".to_owned(),
    }
}

/// Since when a kind is to be kept by its age, in whole stretches of `width_ms`.
pub(super) fn by_age(keep: &Keep, what: What, now: UnixMillis, width_ms: i64) -> UnixMillis {
    let length = match what {
        What::Events => keep.events,
        What::Sums => keep.sums.max(keep.events),
    };
    UnixMillis(now.0.saturating_sub(length.0)).floor_to(width_ms)
}

/// The moment from which everything received is there, where nothing that happened before `since`
/// is; `last` is the answer to [`LAST_RECEIVED_OF`].
pub(super) fn received_since(last: Option<i64>) -> i64 {
    last.map_or(i64::MIN, |hour| hour.saturating_add(HOUR).saturating_mul(MINUTE_MS))
}

/// The first day whose names stay: a name that was last used on an earlier one is used by nothing.
pub(super) fn names_since(kept: &History) -> i64 {
    kept.sums.since.min(kept.events.since).0.div_euclid(DAY_MS)
}

/// What goes next where the disk budget is used up: events down to a day, then sums down to the
/// events, then both down to an hour; `None` where that is all. `oldest` is where the oldest part of
/// the events ends, by which they go.
pub(super) fn by_budget(
    kept: &History,
    now: UnixMillis,
    oldest: UnixMillis,
) -> Option<(What, UnixMillis)> {
    let ago = |ms: i64| UnixMillis(now.0.saturating_sub(ms)).floor_to(HOUR_MS);
    let (events, sums) = (kept.events.since, kept.sums.since);
    let events_to = |limit: UnixMillis| {
        let end = UnixMillis(oldest.0.saturating_add(HOUR_MS - 1)).floor_to(HOUR_MS);
        (What::Events, end.max(UnixMillis(events.0.saturating_add(HOUR_MS))).min(limit))
    };
    if events < ago(DAY_MS) {
        Some(events_to(ago(DAY_MS)))
    } else if sums < events {
        // A day of sums at a time; where none was ever removed, what is beyond all memory at once.
        let next = sums.0.saturating_add(DAY_MS).max(events.0.saturating_sub(LONGEST_MS));
        Some((What::Sums, UnixMillis(next).floor_to(HOUR_MS).min(events)))
    } else if events < ago(HOUR_MS) {
        Some(events_to(ago(HOUR_MS)))
    } else {
        None
    }
}

/// Ten years: no sums are older where something is kept by its age.
const LONGEST_MS: i64 = 3_650 * DAY_MS;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_794_382_200_000);

    fn kept(events: i64, sums: i64) -> History {
        History {
            events: since([events, events, i64::MIN, 0, 0]),
            sums: since([sums, sums, i64::MIN, 0, 0]),
            gathered: Gathered::NONE,
        }
    }

    #[test]
    fn the_budget_takes_events_then_sums_and_leaves_an_hour() {
        let mut state = kept(i64::MIN, i64::MIN);
        let mut order = Vec::new();
        // The oldest part of the events always ends half a day later.
        while let Some((what, to)) =
            by_budget(&state, NOW, UnixMillis(state.events.since.0.max(NOW.0 - 3 * DAY_MS) + 1))
        {
            assert_eq!(to.0 % HOUR_MS, 0);
            let of = match what {
                What::Events => &mut state.events,
                What::Sums => &mut state.sums,
            };
            assert!(of.since < to, "{what:?} {of:?}");
            of.since = to;
            if order.last() != Some(&what) {
                order.push(what);
            }
        }
        assert_eq!(order[..3], [What::Events, What::Sums, What::Events]);
        assert_eq!(state.events.since, UnixMillis(NOW.0 - HOUR_MS).floor_to(HOUR_MS));
    }

    #[test]
    fn sums_are_never_kept_shorter_than_events() {
        let keep = Keep { events: Millis(2 * DAY_MS), sums: Millis(DAY_MS), max_bytes: None };
        let sums = by_age(&keep, What::Sums, NOW, HOUR_MS);
        assert_eq!(sums, by_age(&keep, What::Events, NOW, HOUR_MS));
        assert_eq!(sums.0 % HOUR_MS, 0);
    }
}
