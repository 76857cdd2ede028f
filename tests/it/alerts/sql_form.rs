//! The rules as SQL, in the form in which they were published, over a table of whole minutes: an
//! answer of its own to the question whether a rule is true. The first five are those of the
//! definition; the others are written down here in the same shape.

use super::fleet::MIDNIGHT;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};
use std::collections::{BTreeMap, BTreeSet};

/// Rule and condition. A letter and a number are the sum over the last so many minutes: `q` first
/// attempts, `r` retries, `a` both, `n` answered 429, `l` refused by a limit, `s` ended well, `v`
/// saved by a retry, `g` ended after retries, `e` early retries, `d` duplicates, `t` ended, `u` ended
/// within ten seconds; `qb` and `rb` those of the baseline.
pub(super) const RULES: [(&str, &str); 14] = [
    (
        "RetrylensRetriesOutgrowRequests",
        "qb >= 100 AND q5 >= 50 AND r5 * 20 > q5 AND r2 * 20 > q2 \
         AND r5 * qb > 2 * rb * q5 AND r5 * 100 > 2 * q5 \
         AND r2 * qb > 2 * rb * q2 AND r2 * 100 > 2 * q2 \
         AND (r5 - 20) * qb >= rb * q5 AND (r5 - 20) * 100 >= q5",
    ),
    ("RetrylensRetryBudgetExceeded", "q5 >= 50 AND r5 >= 20 AND r5 * 5 > q5 AND r30 * 10 > q30"),
    ("Retrylens429Spike", SPIKE),
    ("Retrylens429BudgetBurn", BURN),
    ("Retrylens429BudgetBurnSlow", SLOW),
    (
        "RetrylensLimitedSpike",
        "a5 >= 50 AND l5 >= 20 AND l5 * 5 > a5 AND l30 * 20 > a30 \
         AND NOT ({spike}) AND NOT (n5 * 100 > 80 * l5)",
    ),
    (
        "RetrylensLimitedBudgetBurn",
        "((a5 >= 50 AND l5 >= 20 AND l5 * 1000 > 144 * a5 AND l60 * 1000 > 144 * a60) OR \
         (a30 >= 50 AND l30 >= 20 AND l30 * 100 > 6 * a30 AND l360 * 100 > 6 * a360)) \
         AND NOT ({burn}) AND NOT (n30 * 100 > 80 * l30)",
    ),
    (
        "RetrylensLimitedBudgetBurnSlow",
        "((l120 >= 50 AND l120 * 100 > 3 * a120 AND l1440 * 100 > 3 * a1440) OR \
         (l360 >= 50 AND l360 * 100 > a360 AND l4320 * 100 > a4320)) \
         AND NOT ({slow}) AND NOT (n360 * 100 > 80 * l360)",
    ),
    ("RetrylensRetriesUseless", "g30 >= 100 AND v30 * 5 < g30 AND NOT (r30 * 2 < g30)"),
    ("RetrylensLayersMultiply", "q10 >= 50 AND q10 + r10 > 3 * q10"),
    ("RetrylensRetryAfterIgnored", "e15 >= 20 AND e15 * 20 > r15"),
    ("RetrylensDuplicateWrites", "d15 >= 1"),
    (
        "RetrylensDegradationHidden",
        "q5 >= 50 AND r30 >= 20 AND s30 * 10 < 9 * a30 AND s5 * 10 < 9 * a5 AND s30 * 100 > 95 * q30",
    ),
    (
        "RetrylensWaitAccumulates",
        "t10 >= 50 AND r10 >= 20 AND u10 * 100 < 95 * t10 AND r10 * 20 > q10",
    ),
];

const SPIKE: &str = "a5 >= 50 AND n5 >= 20 AND n5 * 5 > a5 AND n30 * 20 > a30";
const BURN: &str = "(a5 >= 50 AND n5 >= 20 AND n5 * 1000 > 144 * a5 AND n60 * 1000 > 144 * a60) OR \
(a30 >= 50 AND n30 >= 20 AND n30 * 100 > 6 * a30 AND n360 * 100 > 6 * a360)";
const SLOW: &str = "(n120 >= 50 AND n120 * 100 > 3 * a120 AND n1440 * 100 > 3 * a1440) OR \
(n360 >= 50 AND n360 * 100 > a360 AND n4320 * 100 > a4320)";

/// The columns by the letters of the conditions.
const COLUMNS: [(char, &str); 12] = [
    ('q', "requests"),
    ('r', "retries"),
    ('a', "requests + retries"),
    ('n', "limited_429"),
    ('l', "limited"),
    ('s', "ended_well"),
    ('v', "saved"),
    ('g', "ended_after_retries"),
    ('e', "early"),
    ('d', "duplicates"),
    ('t', "timed"),
    ('u', "in_time"),
];

const CREATE: &str = "CREATE TABLE retry_minute (\
service TEXT NOT NULL, upstream TEXT NOT NULL, minute BIGINT NOT NULL, requests BIGINT NOT NULL, \
retries BIGINT NOT NULL, limited_429 BIGINT NOT NULL, limited BIGINT NOT NULL, \
ended_well BIGINT NOT NULL, saved BIGINT NOT NULL, ended_after_retries BIGINT NOT NULL, \
early BIGINT NOT NULL, duplicates BIGINT NOT NULL, timed BIGINT NOT NULL, \
in_time BIGINT NOT NULL, PRIMARY KEY (service, upstream, minute))";

/// A minute of what the store has, as its inserts wrote it: the sums per minute, never the gathered
/// ones.
const COPY: &str = "INSERT INTO retry_minute \
SELECT x.service, x.upstream, x.minute, x.requests, x.retries, x.n429, x.limited, \
COALESCE(n.first_try + n.after_retry, 0), COALESCE(n.after_retry, 0), \
COALESCE(n.after_retry + n.unsuccessful, 0), COALESCE(n.early, 0), COALESCE(n.duplicates, 0), \
COALESCE(n.ended, 0), COALESCE(n.within_10s, 0) FROM (\
SELECT s.service, s.upstream, c.received_minute AS minute, \
CAST(SUM(c.requests) AS BIGINT) AS requests, CAST(SUM(c.retries) AS BIGINT) AS retries, \
CAST(SUM(c.status_429) AS BIGINT) AS n429, CAST(SUM(c.limited) AS BIGINT) AS limited \
FROM minute_counts c JOIN series s ON s.id = c.series_id \
WHERE c.received_minute = {minute} AND c.vantage = 0 \
GROUP BY s.service, s.upstream, c.received_minute) x LEFT JOIN alert_minutes n \
ON n.minute = x.minute AND n.service = x.service AND n.upstream = x.upstream AND n.vantage = 0";

/// A connection beside the store's.
pub(super) enum Beside {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Beside {
    pub(super) async fn open(url: &str) -> Self {
        let mut beside = if url.starts_with("sqlite") {
            Self::Sqlite(SqliteConnection::connect(url).await.unwrap())
        } else {
            Self::Postgres(PgConnection::connect(url).await.unwrap())
        };
        beside.run(CREATE).await;
        beside
    }

    /// Runs a statement; the texts of the first columns, as many as `columns`.
    async fn ask(&mut self, text: &str, columns: usize) -> Vec<Vec<String>> {
        let text = AssertSqlSafe(text);
        match self {
            Self::Sqlite(connection) => {
                let rows = sqlx::query(text).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| (0..columns).map(|at| row.get(at)).collect()).collect()
            }
            Self::Postgres(connection) => {
                let rows = sqlx::query(text).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| (0..columns).map(|at| row.get(at)).collect()).collect()
            }
        }
    }

    async fn run(&mut self, text: &str) {
        self.ask(text, 0).await;
    }

    /// Copies what was received in a minute.
    pub(super) async fn copy(&mut self, minute: i64) {
        self.run(&COPY.replace("{minute}", &minute.to_string())).await;
    }

    /// The services of which each rule is true at `minute`.
    pub(super) async fn truth(&mut self, minute: i64) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut truth = BTreeMap::new();
        for (rule, condition) in RULES {
            let is_slow = rule.ends_with("Slow");
            if is_slow && minute % 5 != 0 {
                continue;
            }
            let rows = self.ask(&question(condition, minute), 1).await;
            truth.insert(rule, rows.into_iter().flatten().collect());
        }
        truth
    }
}

/// The question with the sums that its condition names.
fn question(condition: &str, now: i64) -> String {
    let condition =
        condition.replace("{spike}", SPIKE).replace("{burn}", BURN).replace("{slow}", SLOW);
    let words: BTreeSet<&str> =
        condition.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let mut sums = Vec::new();
    let mut reach = 0;
    for word in words {
        let letter = word.chars().next().unwrap();
        let Some((_, column)) = COLUMNS.iter().find(|(own, _)| *own == letter) else { continue };
        let window = if word.ends_with('b') {
            reach = reach.max(190);
            format!("minute >= {} AND minute < {}", now - 190, now - 10)
        } else {
            let minutes: i64 = word.trim_start_matches(letter).parse().unwrap();
            reach = reach.max(minutes);
            format!("minute >= {}", now - minutes)
        };
        sums.push(format!(
            "CAST(SUM(CASE WHEN {window} THEN {column} ELSE 0 END) AS BIGINT) AS {word}"
        ));
    }
    format!(
        "WITH w AS (SELECT service, {} FROM retry_minute WHERE minute >= {} AND minute < {now} \
         GROUP BY service, upstream) SELECT service FROM w WHERE {condition}",
        sums.join(", "),
        now - reach
    )
}

/// The life of an alert in the words of its definition, from what was true at each evaluation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Life {
    since: Option<i64>,
    is_firing: bool,
    first_false: Option<i64>,
}

impl Life {
    /// A minute further; how it stands.
    pub(super) fn step(
        &mut self,
        is_true: bool,
        minute: i64,
        hold: i64,
        keep: i64,
    ) -> &'static str {
        if is_true {
            let since = *self.since.get_or_insert(minute);
            self.is_firing |= minute - since >= hold;
            self.first_false = None;
        } else if self.is_firing {
            let first = *self.first_false.get_or_insert(minute);
            if minute - first >= keep {
                *self = Self::default();
            }
        } else {
            self.since = None;
        }
        match (self.is_firing, self.since) {
            (true, _) => "firing",
            (false, Some(_)) => "pending",
            (false, None) => "inactive",
        }
    }
}

#[test]
fn questions_name_the_sums_of_their_conditions() {
    let text = question(RULES[0].1, MIDNIGHT);
    for sum in ["AS qb", "AS rb", "AS q5", "AS r5", "AS q2", "AS r2"] {
        assert!(text.contains(sum), "{text}");
    }
    assert!(text.contains(&format!("minute >= {}", MIDNIGHT - 190)), "{text}");
}
