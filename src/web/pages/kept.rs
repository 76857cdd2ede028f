//! What is said of a window that begins before the events that are kept, and of a disk budget that
//! is used up.

use super::words;
use crate::domain::stored::{History, View};
use crate::web::{AppState, Failure};

/// The view that is counted exactly (widened to whole hours where only those are known), and what is
/// to be said about it.
pub(crate) async fn counted(
    state: &AppState,
    view: &View,
) -> Result<(View, Option<String>), Failure> {
    let history = state.store.kept().await?;
    let note = note(&history, view, state.config.store.keep.max_bytes);
    Ok((history.countable(view), note))
}

/// What is to be said about a view; nothing where every event of it is kept and no disk budget is
/// used up. `max_bytes` is that budget.
pub fn note(history: &History, view: &View, max_bytes: Option<u64>) -> Option<String> {
    let since = history.events.by(view.time);
    let is_older = view.window.from < since;
    let for_budget = history.events.is_for_budget();
    if !is_older && !for_budget {
        return None;
    }
    let why = match max_bytes {
        _ if !for_budget => String::new(),
        Some(bytes) => format!(", because the disk budget of {} is used up", size(bytes)),
        None => ", because a disk budget was used up".to_owned(),
    };
    let mut sentences =
        vec![format!("Events before {} are no longer kept{why}.", words::day_and_time(since))];
    if is_older {
        sentences.push(
            "Counts before that are by whole hours, and their rows can't be listed.".to_owned(),
        );
    }
    let sums = history.sums.by(view.time);
    if view.window.from < sums {
        sentences.push(format!("Before {} there are no counts.", words::day_and_time(sums)));
    }
    Some(sentences.join(" "))
}

/// A size in bytes in its largest whole unit: `20 GB`.
pub fn size(bytes: u64) -> String {
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)]
        .into_iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| format!("{bytes} bytes"), |(name, unit)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::stored::{Scope, Since, TimeBasis};
    use crate::domain::time::{DAY_MS, UnixMillis, Window};

    #[test]
    fn a_window_that_is_kept_whole_has_no_note_and_others_say_what_is_missing() {
        let now = 1_794_355_200_000;
        let days = |n: i64| UnixMillis(now - n * DAY_MS);
        let since = |n: i64, budget: bool| Since {
            since: days(n),
            received_since: days(n),
            budget_since: if budget { days(n) } else { UnixMillis(i64::MIN) },
            removed: 0,
            removed_for_budget: 0,
        };
        let view = |from: i64| View {
            scope: Scope::default(),
            window: Window { from: days(from), to: days(0) },
            time: TimeBasis::Event,
        };
        let aged = History {
            events: since(30, false),
            sums: since(400, false),
            gathered: crate::domain::stored::Gathered::NONE,
        };
        assert_eq!(note(&aged, &view(30), None), None);
        let older = note(&aged, &view(31), None).unwrap();
        assert!(
            older.starts_with("Events before 2026-10-12 00:00:00 are no longer kept."),
            "{older}"
        );
        assert!(older.contains("by whole hours") && !older.contains("no counts"), "{older}");
        let oldest = note(&aged, &view(401), None).unwrap();
        assert!(oldest.ends_with("Before 2025-10-07 00:00:00 there are no counts."), "{oldest}");
        let budget = History { events: since(3, true), ..aged };
        let told = note(&budget, &view(1), Some(20_000_000_000)).unwrap();
        assert!(told.ends_with("because the disk budget of 20 GB is used up."), "{told}");
        assert!(note(&budget, &view(1), None).unwrap().ends_with("a disk budget was used up."));
    }

    #[test]
    fn sizes_are_written_in_their_largest_whole_unit() {
        for (bytes, text) in
            [(20_000_000_000, "20 GB"), (1_500_000_000, "1500 MB"), (1_025, "1025 bytes")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
