//! The tables of sums, and which of their rows stand for a window.
//!
//! Inserts write the fine ones: counts per minute, the others per five minutes. When five minutes of
//! receipt have ended, what was received in them is gathered into coarser ones (`gather`). A window
//! is made of whole hours, whole five minutes and whole minutes; each is read from the coarsest rows
//! that have it, and what was received since the last gathering from the fine ones.

use super::reader::{Arg, marks};
use super::sql;
use crate::domain::stored::{Gathered, History, TimeBasis};
use crate::domain::time::{MINUTE_MS, UnixMillis, Window};

/// Minutes that fine sums by class, actor and wait stand for.
pub(super) const SLOT: i64 = 5;
/// Minutes that the coarsest ones stand for.
pub(super) const HOUR: i64 = 60;

/// A table of sums: rows with a key in front and measures behind, added to what is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    /// Its name.
    pub(super) table: &'static str,
    /// Its columns.
    pub(super) columns: &'static [&'static str],
    /// How many of them are the key.
    pub(super) keys: usize,
}

/// The stretches that there are sums of.
pub(super) const SPANS: Sums =
    Sums { table: "spans", columns: &["width", "start", "received"], keys: 3 };

/// The columns of a key, and behind them those of counts and of when the newest was sent.
macro_rules! with_counts {
    ($($key:literal),+) => {
        &[
            $($key,)+
            "attempts",
            "answered",
            "requests",
            "retries",
            "status_429",
            "limited",
            "limited_retries",
            "succeeded",
            "server_errors",
            "errors",
            "retried_operations",
            "retry_successes",
            "gave_up",
            "last_ms",
        ]
    };
}

/// Counts per minute, series and vantage.
pub(super) const MINUTES: Sums = Sums {
    table: "minute_counts",
    columns: with_counts!(
        "slot",
        "received_slot",
        "series_id",
        "vantage",
        "minute",
        "received_minute"
    ),
    keys: 6,
};

/// The same per five minutes; gathered.
pub(super) const SLOT_COUNTS: Sums = Sums {
    table: "slot_counts",
    columns: with_counts!("start", "received", "series_id", "vantage"),
    keys: 4,
};

/// The same per hour; gathered.
pub(super) const HOUR_COUNTS: Sums = Sums { table: "hour_counts", ..SLOT_COUNTS };

/// Sums per five minutes, series and class.
pub(super) const CLASS_SUMS: Sums = Sums {
    table: "class_counts",
    columns: &["start", "received", "series_id", "class_id", "attempts", "retries"],
    keys: 4,
};

/// The same per hour; gathered.
pub(super) const CLASS_HOURS: Sums = Sums { table: "class_hours", ..CLASS_SUMS };

/// Sums per five minutes, pair and actor; those for all pairs are gathered.
pub(super) const ACTOR_SUMS: Sums = Sums {
    table: "actor_counts",
    columns: &["start", "received", "series_id", "word_id", "attempts", "limited", "retries"],
    keys: 4,
};

/// The same per hour; gathered.
pub(super) const ACTOR_HOURS: Sums = Sums { table: "actor_hours", ..ACTOR_SUMS };

/// Sums per five minutes, series and bucket of the promised wait.
pub(super) const WAIT_SUMS: Sums = Sums {
    table: "wait_counts",
    columns: &["start", "received", "series_id", "bucket", "n"],
    keys: 4,
};

/// The same per hour; gathered.
pub(super) const WAIT_HOURS: Sums = Sums { table: "wait_hours", ..WAIT_SUMS };

/// What inserts write, in the order in which a batch is added to them.
pub(super) const FINE: [Sums; 5] = [SPANS, MINUTES, CLASS_SUMS, ACTOR_SUMS, WAIT_SUMS];
/// What is gathered from it.
pub(super) const GATHERED: [Sums; 5] =
    [SLOT_COUNTS, HOUR_COUNTS, CLASS_HOURS, ACTOR_HOURS, WAIT_HOURS];

impl Sums {
    /// `INSERT INTO t (columns) `, the head of the statement.
    pub(super) fn head(&self) -> String {
        format!("INSERT INTO {} ({}) ", self.table, self.columns.join(", "))
    }

    /// The columns behind the key.
    pub(super) fn measures(&self) -> &'static [&'static str] {
        self.columns.get(self.keys..).unwrap_or_default()
    }

    /// What happens to a row that is there: measures are added, the newest moment stays.
    pub(super) fn tail(&self) -> String {
        let table = self.table;
        let (keys, measures) = self.columns.split_at(self.keys);
        let set: Vec<String> = measures
            .iter()
            .map(|column| match *column {
                "last_ms" => format!(
                    "last_ms = CASE WHEN excluded.last_ms > {table}.last_ms \
                     THEN excluded.last_ms ELSE {table}.last_ms END"
                ),
                _ => format!("{column} = {table}.{column} + excluded.{column}"),
            })
            .collect();
        match set.as_slice() {
            [] => " ON CONFLICT DO NOTHING".to_owned(),
            set => format!(" ON CONFLICT ({}) DO UPDATE SET {}", keys.join(", "), set.join(", ")),
        }
    }
}

/// A window cut at whole stretches: what the sums answer, and what is left at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    inner: (i64, i64),
    edges: [(i64, i64); 2],
}

impl Cut {
    /// The multiples of `width` around `from` and `to`.
    fn around((from, to): (i64, i64), width: i64) -> (i64, i64) {
        let up = to.saturating_add(width - 1);
        (from - from.rem_euclid(width), up - up.rem_euclid(width))
    }

    /// Cuts `from` to `to` at multiples of `width`.
    fn new((from, to): (i64, i64), width: i64) -> Self {
        let to = to.max(from);
        let down = |at: i64| at.saturating_sub(at.rem_euclid(width));
        let first = if down(from) == from { from } else { down(from).saturating_add(width) };
        let last = down(to);
        if first <= last {
            Self { inner: (first, last), edges: [(from, first), (last, to)] }
        } else {
            // An empty part keeps its place, so that parts follow each other without a gap.
            Self { inner: (from, from), edges: [(from, from), (from, to)] }
        }
    }
}

/// A window cut for sums: hours, five minutes and minutes are in minutes since 1970, edges in
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiers {
    hours: (i64, i64),
    slots: [(i64, i64); 2],
    minutes: [(i64, i64); 2],
    /// What only events tell.
    pub(super) edges: [(i64, i64); 2],
}

/// The finest and the coarsest stretches that sums are read by, in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) finest: i64,
    pub(super) coarsest: i64,
}

impl Tiers {
    pub(super) fn new(window: Window, widths: Widths) -> Self {
        let ends = (window.from.0, window.to.0);
        let Cut { inner, edges } = Cut::new(ends, widths.finest * MINUTE_MS);
        let all = (inner.0.div_euclid(MINUTE_MS), inner.1.div_euclid(MINUTE_MS));
        let (of_slots, minutes) = if widths.coarsest >= SLOT {
            let cut = Cut::new(all, SLOT);
            (cut.inner, cut.edges)
        } else {
            ((all.0, all.0), [(all.0, all.0), all])
        };
        let (hours, slots) = if widths.coarsest >= HOUR {
            let cut = Cut::new(of_slots, HOUR);
            (cut.inner, cut.edges)
        } else {
            ((of_slots.0, of_slots.0), [(of_slots.0, of_slots.0), of_slots])
        };
        Self { hours, slots, minutes, edges }
    }

    /// All of a window as an edge: for what no sums are kept of.
    pub(super) fn all_edge(window: Window) -> Self {
        let Window { from, to } = window;
        let nothing = (0, 0);
        Self {
            hours: nothing,
            slots: [nothing; 2],
            minutes: [nothing; 2],
            edges: [(from.0, to.0.max(from.0)), nothing],
        }
    }

    /// Whether something is left that only events tell.
    pub(super) fn has_edges(&self) -> bool {
        self.edges.iter().any(|(from, to)| from < to)
    }

    /// The edges as values, in milliseconds.
    pub(super) fn edge_args(&self) -> Vec<Arg> {
        self.edges.into_iter().flat_map(|(from, to)| [Arg::Int(from), Arg::Int(to)]).collect()
    }
}

/// One kind of sums by the width of its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// What inserts write.
    fine: Sums,
    /// Gathered rows of five minutes, where the fine ones are not of five minutes.
    slots: Option<Sums>,
    hours: Sums,
    /// By what index of theirs rows of hours are found that are of few words, by the time of events;
    /// others by the list of stretches.
    by_word: Option<&'static str>,
}

/// Counts.
pub(super) const COUNTS: Kind =
    Kind { fine: MINUTES, slots: Some(SLOT_COUNTS), hours: HOUR_COUNTS, by_word: None };
/// By class.
pub(super) const CLASSES: Kind =
    Kind { fine: CLASS_SUMS, slots: None, hours: CLASS_HOURS, by_word: None };
/// By pair and actor.
pub(super) const ACTORS: Kind =
    Kind { fine: ACTOR_SUMS, slots: None, hours: ACTOR_HOURS, by_word: None };
/// By actor, of all pairs together: rows of series 0 once they are gathered.
pub(super) const ALL_ACTORS: Kind = Kind { slots: Some(ACTOR_SUMS), ..ACTORS };
/// By pair and actor, of few actors, on SQLite. PostgreSQL's server answers on cores of its own.
pub(super) const FEW_ACTORS: Kind = Kind { by_word: Some("actor_hours_by_word"), ..ACTORS };
/// By promised wait.
pub(super) const WAITS: Kind =
    Kind { fine: WAIT_SUMS, slots: None, hours: WAIT_HOURS, by_word: None };

impl Kind {
    /// The finest and the coarsest rows.
    pub(super) fn widths(&self) -> Widths {
        Widths { finest: if self.is_by_minute() { 1 } else { SLOT }, coarsest: HOUR }
    }

    fn is_by_minute(&self) -> bool {
        self.fine.table == MINUTES.table
    }
}

/// Which rows of sums are read, and what of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) kind: Kind,
    /// Columns of the rows `c`; `{time}` stands for the start of a row's stretch, by the question's
    /// clock, and `{newest}` for the moment of its newest attempt.
    pub(super) columns: &'a str,
    /// The condition on the series of gathered rows, or `{sums}`.
    pub(super) gathered: &'a str,
    /// The same for fine rows.
    pub(super) fine: &'a str,
}

impl Question<'_> {
    /// The rows of a view, cut so, in one snapshot (`kept`), as statements to be put together.
    /// Values go behind `args`.
    pub(super) fn parts(
        &self,
        tiers: &Tiers,
        time: TimeBasis,
        kept: &History,
        args: &mut Vec<Arg>,
    ) -> Vec<String> {
        let Kind { fine, slots, hours, by_word } = self.kind;
        let [before, after] = tiers.slots;
        let part = |table, width, range| Part { table, width, range, is_tail: false, index: None };
        let index = by_word.filter(|_| time == TimeBasis::Event);
        let gathered = [(Part { index, ..part(hours, HOUR, tiers.hours) }, self.gathered)];
        let mut all = gathered.to_vec();
        if let Some(slots) = slots {
            all.push((part(slots, SLOT, before), self.gathered));
            all.push((part(slots, SLOT, after), self.gathered));
            let tail = Part { is_tail: true, ..part(fine, SLOT, (before.0, after.1)) };
            all.push((tail, self.fine));
        } else {
            all.push((part(fine, SLOT, before), self.fine));
            all.push((part(fine, SLOT, after), self.fine));
            all.push((Part { is_tail: true, ..part(fine, SLOT, tiers.hours) }, self.fine));
        }
        if self.kind.is_by_minute() {
            all.extend(tiers.minutes.map(|range| (part(fine, SLOT, range), self.fine)));
        }
        all.into_iter()
            .filter(|(part, _)| part.range.0 < part.range.1)
            .map(|(part, series)| part.statement(self.columns, series, time, kept, args))
            .collect()
    }
}

/// The rows of one table for one stretch, in minutes.
#[derive(Debug, Clone, Copy)]
struct Part {
    table: Sums,
    width: i64,
    range: (i64, i64),
    /// Only of what isn't gathered yet.
    is_tail: bool,
    /// By this index instead of by the list of stretches.
    index: Option<&'static str>,
}

impl Part {
    fn statement(
        &self,
        columns: &str,
        series: &str,
        time: TimeBasis,
        kept: &History,
        args: &mut Vec<Arg>,
    ) -> String {
        let Self { table, width, range: (from, to), is_tail, index } = *self;
        if let Some(index) = index {
            let [from, to] = [from, to].map(|end| marks(args, [Arg::Int(end)]));
            return format!(
                "SELECT {columns} FROM {} c INDEXED BY {index} \
                 WHERE c.start >= {from} AND c.start < {to} AND {series}",
                table.table
            );
        }
        let is_minutes = table.table == MINUTES.table;
        let [start, received] =
            if is_minutes { ["c.slot", "c.received_slot"] } else { ["c.start", "c.received"] };
        let own = match (is_minutes, time) {
            (true, TimeBasis::Event) => "c.minute",
            (true, TimeBasis::Received) => "c.received_minute",
            (false, TimeBasis::Event) => "c.start",
            (false, TimeBasis::Received) => "c.received",
        };
        let mut at_least =
            |column: &str, minute: i64| format!("{column} >= {}", marks(args, [Arg::Int(minute)]));
        // The stretches that hold the minutes.
        let spans = Cut::around((from, to), if is_minutes { SLOT } else { 1 });
        let mut conditions = vec![format!("p.width = {width}"), at_least("p.{start}", spans.0)];
        if is_tail {
            let Gathered { received, start } = kept.gathered;
            let received = minute(received);
            conditions.push(at_least("p.received", received));
            let later = at_least("p.received", received.saturating_add(1));
            conditions.push(format!("({later} OR {})", at_least("p.start", minute(start))));
        }
        if width == SLOT && kept.events.is_limited() {
            // What is older is in the hours, and about to be removed.
            conditions.push(at_least("p.start", minute(kept.events.since)));
        }
        let is_cut = spans != (from, to);
        if is_cut {
            conditions.push(at_least(own, from));
        }
        let mut before =
            |column: &str, minute: i64| format!("{column} < {}", marks(args, [Arg::Int(minute)]));
        conditions.push(before("p.{start}", spans.1));
        if is_cut {
            conditions.push(before(own, to));
        }
        conditions.push(format!("{start} = p.start AND {received} = p.received AND {series}"));
        let newest = if is_minutes { "c.minute" } else { "c.start" };
        format!(
            "SELECT {columns} FROM spans p CROSS JOIN {} c WHERE {}",
            table.table,
            conditions.join(" AND ")
        )
        .replace("{time}", own)
        .replace("{newest}", &format!("{newest} * {MINUTE_MS} + c.last_ms"))
    }
}

/// The moment as minutes since 1970.
pub(super) const fn minute(at: UnixMillis) -> i64 {
    at.0.div_euclid(MINUTE_MS)
}

/// Statements put together; `None` where there are none.
pub(super) fn together(parts: &[String], time: TimeBasis) -> Option<String> {
    (!parts.is_empty()).then(|| sql::clock(&parts.join(" UNION ALL "), time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_cut_at_whole_stretches() {
        for (ends, inner, edges) in [
            ((100, 300), (100, 300), [(100, 100), (300, 300)]),
            ((150, 320), (200, 300), [(150, 200), (300, 320)]),
            ((150, 220), (200, 200), [(150, 200), (200, 220)]),
            ((150, 180), (150, 150), [(150, 150), (150, 180)]),
            ((-150, -20), (-100, -100), [(-150, -100), (-100, -20)]),
            ((300, 100), (300, 300), [(300, 300), (300, 300)]),
        ] {
            assert_eq!(Cut::new(ends, 100), Cut { inner, edges }, "{ends:?}");
        }
    }

    #[test]
    fn the_parts_of_a_window_follow_each_other() {
        let minutes = |from: i64, to: i64| Window {
            from: UnixMillis(from * MINUTE_MS + 1),
            to: UnixMillis(to * MINUTE_MS + 2),
        };
        for (from, to) in [(0, 1), (3, 4), (3, 61), (58, 200), (-7, 7), (61, 62), (1, 1_500)] {
            for coarsest in [1, SLOT, HOUR] {
                for finest in [1, SLOT] {
                    if finest > coarsest {
                        continue;
                    }
                    let window = minutes(from, to);
                    let tiers = Tiers::new(window, Widths { finest, coarsest });
                    let ms = |(from, to): (i64, i64)| (from * MINUTE_MS, to * MINUTE_MS);
                    let parts = [
                        tiers.edges[0],
                        ms(tiers.minutes[0]),
                        ms(tiers.slots[0]),
                        ms(tiers.hours),
                        ms(tiers.slots[1]),
                        ms(tiers.minutes[1]),
                        tiers.edges[1],
                    ];
                    let mut at = window.from.0;
                    for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
                        assert_eq!(from, at, "{window:?} {tiers:?}");
                        at = to;
                    }
                    assert_eq!(at, window.to.0, "{window:?} {tiers:?}");
                }
            }
        }
    }
}
