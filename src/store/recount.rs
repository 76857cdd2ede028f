//! Do the sums agree with the events? Counts all events anew, in the database's own words and not
//! by the code that wrote the sums, and compares.

use super::batch::{ACTORS, HOUR, SLOT};
use super::{Store, StoreError, sql};
use crate::domain::time::MINUTE_MS;

/// What a recount found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recount {
    /// Stored events.
    pub events: i64,
    /// Attempts that the events stand for (their `count`s added up), whoever saw them.
    pub attempts: i64,
    /// The same from the sums by class.
    pub summed_attempts: i64,
    /// For each table of sums: how many rows it has that a recount has not, and the other way round.
    pub differences: Vec<(&'static str, i64)>,
}

impl Recount {
    /// Whether all sums agree with the events.
    pub fn agrees(&self) -> bool {
        self.attempts == self.summed_attempts && self.differences.iter().all(|(_, n)| *n == 0)
    }
}

/// The first minute of the stretch of `width` minutes that holds `column`.
fn floor(column: &str, width: i64) -> String {
    let ms = width * MINUTE_MS;
    format!("({column} - (({column} % {ms}) + {ms}) % {ms}) / {MINUTE_MS}")
}

/// Sums per minute, counted from the events.
fn minutes() -> String {
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
             WHERE c.id = e.class_id AND c.vantage = 'client' GROUP BY 1, 2, 3, 4, 5",
            floor("e.occurred_at", HOUR),
            floor("e.received_at", HOUR),
            floor("e.occurred_at", 1),
            floor("e.received_at", 1),
            measures.join(", ")
        )
    };
    format!("{} UNION ALL {}", by_series("e.series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// Sums by class per `width` minutes, counted from the events.
fn classes(width: i64) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, class_id, \
             CAST(CASE WHEN attempt > 2 THEN 3 WHEN attempt = 2 THEN 2 ELSE 1 END AS BIGINT), \
             CAST(SUM(count) AS BIGINT), MAX(occurred_at - {} * {MINUTE_MS}) \
             FROM events GROUP BY 1, 2, 3, 4, 5",
            floor("occurred_at", width),
            floor("received_at", width),
            floor("occurred_at", width),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// Sums by pair and actor per `width` minutes, counted from the events.
fn actors(width: i64) -> String {
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
                 GROUP BY 1, 2, 3, 4",
                floor("e.occurred_at", width),
                floor("e.received_at", width)
            )
        })
        .collect();
    parts.join(" UNION ALL ")
}

/// Sums by bucket of the promised wait per `width` minutes, counted from the events.
fn waits(width: i64) -> String {
    let by_series = |series: &str| {
        format!(
            "SELECT {}, {}, {series}, wait_bucket, CAST(SUM(count) AS BIGINT) FROM events \
             WHERE wait_bucket IS NOT NULL GROUP BY 1, 2, 3, 4",
            floor("occurred_at", width),
            floor("received_at", width),
        )
    };
    format!("{} UNION ALL {}", by_series("series_id"), by_series("CAST(0 AS BIGINT)"))
}

/// The stretches of `width` minutes, counted from the events.
fn spans(width: i64) -> String {
    format!(
        "SELECT DISTINCT CAST({width} AS BIGINT), {}, {} FROM events",
        floor("occurred_at", width),
        floor("received_at", width)
    )
}

impl Store {
    /// Counts all events anew and compares with the sums. Reads everything that is stored: meant
    /// for tests and for upkeep, not for pages.
    pub async fn recount(&self) -> Result<Recount, StoreError> {
        let mut reader = self.reader().await?;
        reader.lift_limit().await?;
        let mut numbers = [0_i64; 3];
        for (number, text) in numbers.iter_mut().zip([
            "SELECT COUNT(*) FROM events",
            "SELECT CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM events",
            "SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM class_counts WHERE series_id = 0",
        ]) {
            if let Some(row) = reader.first(text, &[]).await? {
                *number = row.int(0)?;
            }
        }
        let mut differences = Vec::new();
        for (sums, recounted) in [
            (sql::SPANS, format!("{} UNION ALL {}", spans(SLOT), spans(HOUR))),
            (sql::MINUTES, minutes()),
            (sql::CLASS_SUMS, classes(SLOT)),
            (sql::CLASS_HOURS, classes(HOUR)),
            (sql::ACTOR_SUMS, actors(SLOT)),
            (sql::ACTOR_HOURS, actors(HOUR)),
            (sql::WAIT_SUMS, waits(SLOT)),
            (sql::WAIT_HOURS, waits(HOUR)),
        ] {
            let kept = format!("SELECT {} FROM {}", sums.columns.join(", "), sums.table);
            // Each side adds its key-unique rows to the other: a row that is on both sides is
            // there twice.
            let text = format!(
                "SELECT COUNT(*) FROM (SELECT 1 FROM ({kept} UNION ALL {recounted}) both_sides \
                 GROUP BY {columns} HAVING COUNT(*) <> 2) differing",
                columns = sums.columns.join(", ")
            );
            let row = reader.first(text, &[]).await?;
            let differing = row.map(|row| row.int(0)).transpose()?.unwrap_or_default();
            differences.push((sums.table, differing));
        }
        let [events, attempts, summed_attempts] = numbers;
        Ok(Recount { events, attempts, summed_attempts, differences })
    }
}
