//! Fine sums are gathered into coarser ones, once five minutes of receipt have ended.
//!
//! An insert writes fine sums alone: counts per minute, the others per five minutes. What was
//! received in five minutes that are over doesn't change any more, so that a later step adds it to
//! the counts per five minutes and to all sums per hour, five minutes of what happened at a time, in
//! one transaction that also moves the mark up to which that is done (`kept`). Questions read the
//! coarse rows, and the fine ones of what was received after the mark. An insert behind the mark, by
//! a clock that lags, adds to both (`batch`), so that nothing depends on when a step runs.

use super::sums::{
    ACTOR_HOURS, ACTOR_SUMS, CLASS_HOURS, CLASS_SUMS, HOUR, HOUR_COUNTS, MINUTES, SLOT,
    SLOT_COUNTS, Sums, WAIT_HOURS, WAIT_SUMS, minute,
};
use crate::domain::stored::{Gathered, History};
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};

/// How long five minutes are over before they are gathered: inserts of their last moments are done
/// by then, which saves that they add to both.
const REST: Millis = Millis(10_000);

/// The oldest stretch that isn't gathered yet, by receipt and then by when it happened; values are
/// those of [`next_after`].
pub(super) const NEXT: &str = "\
SELECT received, start FROM spans WHERE width = 5 AND received >= $1 AND received < $2 \
AND (received > $1 OR start >= $3) AND start >= $4 ORDER BY received, start LIMIT 1";

/// What [`NEXT`] asks with, where stretches of receipt before `over` are over.
pub(super) fn next_after(kept: &History, over: i64) -> [i64; 4] {
    let Gathered { received, start } = kept.gathered;
    [minute(received), over, minute(start), minute(kept.events.since)]
}

/// Moves the mark.
pub(super) const MOVE: &str = "\
UPDATE kept SET since = $1, received_since = $2 WHERE what = 'gathered'";

/// The end of the stretches of receipt that are over at `now`, in minutes.
pub(super) fn over_at(now: UnixMillis) -> i64 {
    let minute = minute(UnixMillis(now.0.saturating_sub(REST.0)));
    minute - minute.rem_euclid(SLOT)
}

/// What is gathered at once: the fine sums of one stretch that were received in one, or of a longer
/// past.
#[derive(Debug, Clone)]
pub(super) struct Sheaf {
    /// The condition on stretches `p`.
    spans: String,
    mark: Gathered,
    hours_only: bool,
}

impl Sheaf {
    /// What happened in the five minutes from `start` on and was received in those from `received`
    /// on: so little that writing hardly waits, however much is sent of a long past at once.
    pub(super) fn of_stretch(received: i64, start: i64) -> Self {
        let moment = |minute: i64| UnixMillis(minute.saturating_mul(MINUTE_MS));
        Self {
            spans: format!("p.received = {received} AND p.start = {start}"),
            mark: Gathered { received: moment(received), start: moment(start + SLOT) },
            hours_only: false,
        }
    }

    /// What isn't gathered yet of the past before `since`, whose fine sums are about to be removed.
    pub(super) fn of_past(since: UnixMillis, kept: &History) -> Self {
        let Gathered { received, start } = kept.gathered;
        let [received, start] = [received, start].map(minute);
        Self {
            spans: format!(
                "p.received >= {received} AND (p.received > {received} OR p.start >= {start}) \
                 AND p.start >= {} AND p.start < {}",
                minute(kept.events.since),
                minute(since)
            ),
            mark: kept.gathered,
            hours_only: true,
        }
    }

    /// How far is gathered with it.
    pub(super) fn mark(&self) -> Gathered {
        self.mark
    }

    /// The statements, in order.
    pub(super) fn statements(&self) -> Vec<String> {
        let mut statements = vec![
            self.statement(MINUTES, HOUR_COUNTS, HOUR, None),
            self.statement(CLASS_SUMS, CLASS_HOURS, HOUR, None),
            self.statement(ACTOR_SUMS, ACTOR_HOURS, HOUR, None),
            self.statement(ACTOR_SUMS, ACTOR_HOURS, HOUR, Some(ALL)),
            self.statement(WAIT_SUMS, WAIT_HOURS, HOUR, None),
        ];
        if !self.hours_only {
            // Last: what is added to the fine table must not be gathered itself.
            statements.push(self.statement(MINUTES, SLOT_COUNTS, SLOT, None));
            statements.push(self.statement(ACTOR_SUMS, ACTOR_SUMS, SLOT, Some(ALL)));
        }
        statements
    }

    /// Adds rows of `from` to rows of `to`, which stand for `width` minutes; as rows of `series`
    /// where that is given.
    fn statement(&self, from: Sums, to: Sums, width: i64, series: Option<&str>) -> String {
        let is_minutes = from.table == MINUTES.table;
        let [start, received] =
            if is_minutes { ["c.slot", "c.received_slot"] } else { ["c.start", "c.received"] };
        let floor = |column: &str| match width {
            SLOT => column.to_owned(),
            _ => format!("{column} - (({column} % {width}) + {width}) % {width}"),
        };
        let keys = to.columns.get(2..to.keys).unwrap_or_default().iter().map(|column| {
            match (*column, series) {
                ("series_id", Some(series)) => format!("CAST({series} AS BIGINT)"),
                (column, _) => format!("c.{column}"),
            }
        });
        let own = if is_minutes { "c.minute" } else { start };
        let measures = to.measures().iter().map(|column| match *column {
            "last_ms" => {
                format!("MAX(c.last_ms + ({own} - ({})) * {MINUTE_MS})", floor(start))
            }
            column => format!("CAST(SUM(c.{column}) AS BIGINT)"),
        });
        let columns: Vec<String> =
            [floor(start), floor(received)].into_iter().chain(keys).chain(measures).collect();
        let group: Vec<String> = (1..=to.keys).map(|n| n.to_string()).collect();
        format!(
            "{}SELECT {} FROM spans p CROSS JOIN {} c WHERE p.width = {SLOT} AND {} \
             AND {start} = p.start AND {received} = p.received{} GROUP BY {}{}",
            to.head(),
            columns.join(", "),
            from.table,
            self.spans,
            if from.table == ACTOR_SUMS.table { " AND c.series_id > 0" } else { "" },
            group.join(", "),
            to.tail(),
        )
    }
}

/// The series that stands for all in sums.
const ALL: &str = "0";
