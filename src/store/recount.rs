//! Do the sums agree with the events? Counts all events anew, in the database's own words and not
//! by the code that wrote the sums, and compares. Sums of stretches whose events are not kept any
//! more have nothing to be compared with.

use super::batch::{ACTORS, HOUR, SLOT};
use super::reader::Reader;
use super::{Store, StoreError, sql};
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
    pub(super) sums: sql::Sums,
    /// Minutes that each row stands for.
    pub(super) width: i64,
    /// The column of a row's time.
    start: &'static str,
    recount: fn(i64, &Range) -> String,
}

/// All of them.
pub(super) const RECOUNTED: [Recounted; 9] = [
    Recounted { sums: sql::SPANS, width: SLOT, start: "start", recount: spans },
    Recounted { sums: sql::SPANS, width: HOUR, start: "start", recount: spans },
    Recounted {
        sums: sql::MINUTES,
        width: HOUR,
        start: "hour",
        recount: |_, range| minutes(range),
    },
    Recounted { sums: sql::CLASS_SUMS, width: SLOT, start: "start", recount: classes },
    Recounted { sums: sql::CLASS_HOURS, width: HOUR, start: "start", recount: classes },
    Recounted { sums: sql::ACTOR_SUMS, width: SLOT, start: "start", recount: actors },
    Recounted { sums: sql::ACTOR_HOURS, width: HOUR, start: "start", recount: actors },
    Recounted { sums: sql::WAIT_SUMS, width: SLOT, start: "start", recount: waits },
    Recounted { sums: sql::WAIT_HOURS, width: HOUR, start: "start", recount: waits },
];

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
            recounted = (self.recount)(self.width, range),
        )
    }

    /// Statements that make the rows of a stretch anew.
    pub(super) fn mend(&self, range: &Range) -> [String; 2] {
        let recounted = (self.recount)(self.width, range);
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

/// Sums per minute, counted from the events.
fn minutes(range: &Range) -> String {
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
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, {}, {}, {} FROM events e CROSS JOIN classes c \
             WHERE c.id = e.class_id AND c.vantage = 'client' AND {} GROUP BY 1, 2, 3, 4, 5",
            floor("e.occurred_at", HOUR),
            floor("e.received_at", HOUR),
            floor("e.occurred_at", 1),
            floor("e.received_at", 1),
            measures.join(", "),
            range.of_events("e.")
        )
    };
    format!("{} UNION ALL {}", by_series("e.series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// Sums by class per `width` minutes, counted from the events.
fn classes(width: i64, range: &Range) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, class_id, \
             CAST(CASE WHEN attempt > 2 THEN 3 WHEN attempt = 2 THEN 2 ELSE 1 END AS BIGINT), \
             CAST(SUM(count) AS BIGINT), MAX(occurred_at - {} * {MINUTE_MS}) \
             FROM events WHERE {} GROUP BY 1, 2, 3, 4, 5",
            floor("occurred_at", width),
            floor("received_at", width),
            floor("occurred_at", width),
            range.of_events(""),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// Sums by pair and actor per `width` minutes, counted from the events.
fn actors(width: i64, range: &Range) -> String {
    let parts: Vec<String> = ACTORS
        .iter()
        .map(|(_, column)| {
            format!(
                "SELECT {}, {}, p.id, e.{column}, \
                 CAST(SUM(e.count) AS BIGINT), CAST(SUM(e.count * c.limited) AS BIGINT), \
                 CAST(SUM(CASE WHEN e.attempt > 1 THEN e.count ELSE 0 END) AS BIGINT) \
                 FROM events e CROSS JOIN classes c CROSS JOIN series s CROSS JOIN series p \
                 WHERE c.id = e.class_id AND c.vantage = 'client' AND s.id = e.series_id \
                 AND p.service = s.service AND p.upstream = s.upstream \
                 AND p.environment = s.environment AND p.route = '' AND e.{column} IS NOT NULL \
                 AND {} GROUP BY 1, 2, 3, 4",
                floor("e.occurred_at", width),
                floor("e.received_at", width),
                range.of_events("e.")
            )
        })
        .collect();
    parts.join(" UNION ALL ")
}

/// Sums by bucket of the promised wait per `width` minutes, counted from the events.
fn waits(width: i64, range: &Range) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, wait_bucket, CAST(SUM(count) AS BIGINT) FROM events \
             WHERE wait_bucket IS NOT NULL AND {} GROUP BY 1, 2, 3, 4",
            floor("occurred_at", width),
            floor("received_at", width),
            range.of_events(""),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// The stretches of `width` minutes, counted from the events.
fn spans(width: i64, range: &Range) -> String {
    format!(
        "SELECT DISTINCT CAST({width} AS BIGINT), {}, {} FROM events WHERE {}",
        floor("occurred_at", width),
        floor("received_at", width),
        range.of_events("")
    )
}

impl Store {
    /// Counts all events anew and compares with the sums. Reads everything that is stored: meant
    /// for tests and for upkeep, not for pages.
    pub async fn recount(&self) -> Result<Recount, StoreError> {
        let mut reader = self.reader().await?;
        reader.lift_limit().await?;
        let range = Range::since(reader.kept().await?.events.since);
        let (of_events, of_sums) = (range.of_events(""), range.of_sums("start"));
        let mut numbers = [0_i64; 3];
        for (number, text) in numbers.iter_mut().zip([
            format!("SELECT COUNT(*) FROM events WHERE {of_events}"),
            format!("SELECT CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM events WHERE {of_events}"),
            format!(
                "SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM class_counts \
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
