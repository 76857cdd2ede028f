//! Do the sums agree with the events? Counts all events anew, in the database's own words and not
//! by the code that wrote the sums, and compares. Sums of stretches whose events are not kept any
//! more have nothing to be compared with.

use super::batch::ACTORS;
use super::reader::Reader;
use super::sums::{self, HOUR, SLOT, Sums};
use super::{Store, StoreError};
use crate::domain::time::{MINUTE_MS, UnixMillis};

/// What a recount found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recount {
    /// Stored events.
    pub events: i64,
    /// Attempts that the events stand for (their `count`s added up), whoever saw them.
    pub attempts: i64,
    /// The same from the sums by class.
    pub summed_attempts: i64,
    /// What is not as a recount has it, a table each.
    pub differences: Vec<Difference>,
}

/// How a table of sums differs from a recount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: &'static str,
    /// Minutes that each of its rows stands for.
    pub width: i64,
    /// Rows that are missing, too many or wrong.
    pub rows: i64,
    /// Where the stretches of time with such rows begin, in order.
    pub stretches: Vec<UnixMillis>,
}

impl Recount {
    /// Whether all sums agree with the events.
    pub fn agrees(&self) -> bool {
        self.attempts == self.summed_attempts && self.differences.is_empty()
    }
}

/// A stretch of time, in whole hours or wider than all time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    from: i64,
    to: i64,
}

/// As far as moments go here, in milliseconds: beyond every year that an event can have.
const EVER: i64 = 1 << 62;

impl Range {
    /// All from a moment on.
    pub(super) fn since(since: UnixMillis) -> Self {
        Self { from: since.0.max(-EVER), to: EVER }
    }

    /// The stretch of `width` minutes that begins at a moment.
    pub(super) fn stretch(start: UnixMillis, width: i64) -> Self {
        Self { from: start.0, to: start.0.saturating_add(width * MINUTE_MS) }
    }

    /// The condition that an event is in it and gathered.
    fn of_gathered(&self, alias: &str) -> String {
        let mark = |column: &str| format!("(SELECT {column} FROM kept WHERE what = 'gathered')");
        let (received, start) = (mark("since"), mark("received_since"));
        format!(
            "{} AND {alias}received_at < {received} + CASE WHEN {alias}occurred_at < {start} \
             THEN {} ELSE 0 END",
            self.of_events(alias),
            SLOT * MINUTE_MS
        )
    }

    /// The condition that an event is in it.
    fn of_events(&self, alias: &str) -> String {
        let Self { from, to } = self;
        format!("{alias}occurred_at >= {from} AND {alias}occurred_at < {to}")
    }

    /// The condition that a row of sums is in it; `start` is the column of its time.
    fn of_sums(&self, start: &str) -> String {
        let (from, to) = (self.from.div_euclid(MINUTE_MS), self.to.div_euclid(MINUTE_MS));
        format!("{start} >= {from} AND {start} < {to}")
    }
}

/// A table of sums, or the rows of `spans` of one width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recounted {
    pub(super) sums: Sums,
    /// Minutes that each row stands for.
    pub(super) width: i64,
    /// The column of a row's time.
    start: &'static str,
    recount: fn(&Range) -> String,
}

/// All of them.
pub(super) const RECOUNTED: [Recounted; 11] = [
    Recounted {
        sums: sums::SPANS,
        width: SLOT,
        start: "start",
        recount: |range| spans(SLOT, &range.of_events("")),
    },
    Recounted {
        sums: sums::SPANS,
        width: HOUR,
        start: "start",
        recount: |range| spans(HOUR, &range.of_events("")),
    },
    Recounted {
        sums: sums::MINUTES,
        width: SLOT,
        start: "slot",
        recount: |range| counts(SLOT, true, &range.of_events("e.")),
    },
    Recounted {
        sums: sums::SLOT_COUNTS,
        width: SLOT,
        start: "start",
        recount: |range| counts(SLOT, false, &range.of_gathered("e.")),
    },
    Recounted {
        sums: sums::HOUR_COUNTS,
        width: HOUR,
        start: "start",
        recount: |range| counts(HOUR, false, &range.of_gathered("e.")),
    },
    Recounted {
        sums: sums::CLASS_SUMS,
        width: SLOT,
        start: "start",
        recount: |range| classes(SLOT, &range.of_events("")),
    },
    Recounted {
        sums: sums::CLASS_HOURS,
        width: HOUR,
        start: "start",
        recount: |range| classes(HOUR, &range.of_gathered("")),
    },
    Recounted {
        sums: sums::ACTOR_SUMS,
        width: SLOT,
        start: "start",
        recount: |range| {
            let pairs = actors(SLOT, "p.id", &range.of_events("e."));
            format!("{pairs} UNION ALL {}", actors(SLOT, ALL, &range.of_gathered("e.")))
        },
    },
    Recounted {
        sums: sums::ACTOR_HOURS,
        width: HOUR,
        start: "start",
        recount: |range| {
            let events = range.of_gathered("e.");
            format!("{} UNION ALL {}", actors(HOUR, "p.id", &events), actors(HOUR, ALL, &events))
        },
    },
    Recounted {
        sums: sums::WAIT_SUMS,
        width: SLOT,
        start: "start",
        recount: |range| waits(SLOT, &range.of_events("")),
    },
    Recounted {
        sums: sums::WAIT_HOURS,
        width: HOUR,
        start: "start",
        recount: |range| waits(HOUR, &range.of_gathered("")),
    },
];

/// The series that stands for all in sums.
const ALL: &str = "CAST(0 AS BIGINT)";

impl Recounted {
    /// The condition that a row is one of these, in a stretch of time.
    fn rows(&self, range: &Range) -> String {
        let rows = range.of_sums(self.start);
        if self.sums.keys == self.sums.columns.len() {
            format!("width = {} AND {rows}", self.width)
        } else {
            rows
        }
    }

    /// How many rows differ by stretch (in minutes), in order.
    fn differing(&self, range: &Range) -> String {
        let sums = self.sums;
        let columns = sums.columns.join(", ");
        let keys = sums.columns.get(..sums.keys).unwrap_or_default().join(", ");
        let kept = format!("SELECT {columns} FROM {} WHERE {}", sums.table, self.rows(range));
        // Each side adds its key-unique rows to the other: a row that is on both sides is there
        // twice.
        format!(
            "SELECT stretch, COUNT(*) FROM (SELECT DISTINCT {keys}, {start} AS stretch FROM (\
             SELECT {columns} FROM ({kept} UNION ALL {recounted}) both_sides \
             GROUP BY {columns} HAVING COUNT(*) <> 2) rows) differing \
             GROUP BY stretch ORDER BY stretch",
            start = self.start,
            recounted = (self.recount)(range),
        )
    }

    /// Statements that make the rows of a stretch anew.
    pub(super) fn mend(&self, range: &Range) -> [String; 2] {
        let recounted = (self.recount)(range);
        [
            format!("DELETE FROM {} WHERE {}", self.sums.table, self.rows(range)),
            format!("{}{recounted}", self.sums.head()),
        ]
    }

    /// Compares the rows of a stretch of time.
    pub(super) async fn compare(
        &self,
        reader: &mut Reader,
        range: &Range,
    ) -> Result<Option<Difference>, StoreError> {
        let (mut rows, mut stretches) = (0, Vec::new());
        for row in reader.all(self.differing(range), &[]).await? {
            stretches.push(UnixMillis(row.int(0)?.saturating_mul(MINUTE_MS)));
            rows += row.int(1)?;
        }
        let Self { sums, width, .. } = *self;
        Ok((rows > 0).then_some(Difference { table: sums.table, width, rows, stretches }))
    }
}

/// The first minute of the stretch of `width` minutes that holds `column`.
fn floor(column: &str, width: i64) -> String {
    let ms = width * MINUTE_MS;
    format!("({column} - (({column} % {ms}) + {ms}) % {ms}) / {MINUTE_MS}")
}

/// Counts per `width` minutes, or by minute within them, counted from the events.
fn counts(width: i64, by_minute: bool, events: &str) -> String {
    let sum = |condition: &str| {
        format!("CAST(SUM(CASE WHEN {condition} THEN e.count ELSE 0 END) AS BIGINT)")
    };
    let ended_well = "c.error = '' AND c.status >= 100 AND c.status < 400 AND c.limited = 0";
    let measures = [
        sum("1 = 1"),
        sum("c.status <> 0"),
        sum("e.attempt <= 1"),
        sum("e.attempt > 1"),
        sum("c.status = 429"),
        sum("c.limited = 1"),
        sum("c.limited = 1 AND e.attempt > 1"),
        sum(ended_well),
        sum("c.status >= 500 AND c.status < 600 AND c.limited = 0"),
        sum("c.error <> ''"),
        sum("e.attempt = 2"),
        sum(&format!("e.attempt > 1 AND {ended_well}")),
        sum("c.outcome IN ('exhausted', 'deadline-exceeded', 'dead-lettered')"),
    ];
    let [start, received] = ["e.occurred_at", "e.received_at"];
    let vantage = "CAST(CASE c.vantage WHEN 'client' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END \
                   AS BIGINT)";
    let (minutes, own) = if by_minute {
        (format!("{}, {}, ", floor(start, 1), floor(received, 1)), 1)
    } else {
        (String::new(), width)
    };
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, {vantage}, {minutes}{}, \
             MAX({start} - {} * {MINUTE_MS}) FROM events e CROSS JOIN classes c \
             WHERE c.id = e.class_id AND {events} GROUP BY {}",
            floor(start, width),
            floor(received, width),
            measures.join(", "),
            floor(start, own),
            if by_minute { "1, 2, 3, 4, 5, 6" } else { "1, 2, 3, 4" },
        )
    };
    format!("{} UNION ALL {}", by_series("e.series_id"), by_series(ALL))
}

/// Sums by class per `width` minutes, counted from the events.
fn classes(width: i64, events: &str) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, class_id, CAST(SUM(count) AS BIGINT), \
             CAST(SUM(CASE WHEN attempt > 1 THEN count ELSE 0 END) AS BIGINT) \
             FROM events WHERE {events} GROUP BY 1, 2, 3, 4",
            floor("occurred_at", width),
            floor("received_at", width),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series(ALL))
}

/// Sums by pair (`series` is its number) and actor per `width` minutes, counted from the events.
fn actors(width: i64, series: &str, events: &str) -> String {
    let parts: Vec<String> = ACTORS
        .iter()
        .map(|(_, column)| {
            format!(
                "SELECT {}, {}, {series}, e.{column}, \
                 CAST(SUM(e.count) AS BIGINT), CAST(SUM(e.count * c.limited) AS BIGINT), \
                 CAST(SUM(CASE WHEN e.attempt > 1 THEN e.count ELSE 0 END) AS BIGINT) \
                 FROM events e CROSS JOIN classes c CROSS JOIN series s CROSS JOIN series p \
                 WHERE c.id = e.class_id AND c.vantage = 'client' AND s.id = e.series_id \
                 AND p.service = s.service AND p.upstream = s.upstream \
                 AND p.environment = s.environment AND p.route = '' AND e.{column} IS NOT NULL \
                 AND {events} GROUP BY 1, 2, 3, 4",
                floor("e.occurred_at", width),
                floor("e.received_at", width),
            )
        })
        .collect();
    parts.join(" UNION ALL ")
}

/// Sums by bucket of the promised wait per `width` minutes, counted from the events.
fn waits(width: i64, events: &str) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, wait_bucket, CAST(SUM(count) AS BIGINT) FROM events \
             WHERE wait_bucket IS NOT NULL AND {events} GROUP BY 1, 2, 3, 4",
            floor("occurred_at", width),
            floor("received_at", width),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series(ALL))
}

/// The stretches of `width` minutes, counted from the events.
fn spans(width: i64, events: &str) -> String {
    format!(
        "SELECT DISTINCT CAST({width} AS BIGINT), {}, {} FROM events WHERE {events}",
        floor("occurred_at", width),
        floor("received_at", width),
    )
}

impl Store {
    /// Counts all events anew and compares with the sums. Reads everything that is stored: meant
    /// for tests and for upkeep, not for pages.
    pub async fn recount(&self) -> Result<Recount, StoreError> {
        let mut reader = self.reader().await?;
        reader.lift_limit().await?;
        let kept = reader.kept().await?;
        let range = Range::since(kept.events.since);
        let (of_events, of_sums) = (range.of_events(""), range.of_sums("start"));
        let mut numbers = [0_i64; 3];
        for (number, text) in numbers.iter_mut().zip([
            format!("SELECT COUNT(*) FROM events WHERE {of_events}"),
            format!("SELECT CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM events WHERE {of_events}"),
            format!(
                "SELECT CAST(COALESCE(SUM(attempts), 0) AS BIGINT) FROM class_counts \
                 WHERE series_id = 0 AND {of_sums}"
            ),
        ]) {
            if let Some(row) = reader.first(text, &[]).await? {
                *number = row.int(0)?;
            }
        }
        let mut differences = Vec::new();
        for recounted in RECOUNTED {
            differences.extend(recounted.compare(&mut reader, &range).await?);
        }
        let [events, attempts, summed_attempts] = numbers;
        Ok(Recount { events, attempts, summed_attempts, differences })
    }
}
