//! What an evaluation costs, with three days of rows of 150 pairs.

use super::fleet::{MIDNIGHT, at, evaluator};
use retrylens::domain::alerts::{Cuts, RULES};
use retrylens::domain::time::{MINUTE_MS, UnixMillis};
use retrylens::metrics::{Caps, Metrics};
use retrylens::store::Store;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tokio::time::Instant;

const PAIRS: i64 = 150;
const MINUTES: i64 = 4_320;

/// Statements that write sums per minute of every pair, as inserts do.
fn fill() -> Vec<String> {
    let (from, to) = (MIDNIGHT - MINUTES, MIDNIGHT);
    let numbers = |name: &str, from: i64, to: i64| {
        format!(
            "{name} (i) AS (SELECT CAST({from} AS BIGINT) UNION ALL SELECT i + 1 FROM {name} \
             WHERE i < {})",
            to - 1
        )
    };
    let (minutes, pairs) = (numbers("m", from, to), numbers("p", 0, PAIRS));
    let span = |width: i64| {
        format!(
            "INSERT INTO spans (width, start, received) WITH RECURSIVE {minutes} SELECT DISTINCT \
             {width}, i - i % {width}, i - i % {width} FROM m"
        )
    };
    vec![
        format!(
            "INSERT INTO series (service, upstream, environment, route) WITH RECURSIVE {pairs} \
             SELECT 'service-' || i, 'api.example.com', '', '' FROM p"
        ),
        span(5),
        span(60),
        format!(
            "INSERT INTO minute_counts (slot, received_slot, series_id, vantage, minute, \
             received_minute, attempts, answered, requests, retries, status_429, limited, \
             limited_retries, succeeded, server_errors, errors, retried_operations, \
             retry_successes, gave_up, last_ms) WITH RECURSIVE {minutes} \
             SELECT i - i % 5, i - i % 5, s.id, 0, i, i, 62, 62, 60, 2, 1, 1, 0, 60, 1, 0, 2, 2, \
             0, 0 FROM m CROSS JOIN series s"
        ),
    ]
}

#[expect(clippy::print_stdout, reason = "figures are what it is for")]
async fn measure(store: &Store) {
    while store.gather(at(MIDNIGHT)).await.unwrap() {}
    let all = Cuts::of(RULES);
    let quick = Cuts::of(RULES.iter().filter(|rule| rule.every == 1));
    for (name, cuts) in [("sums, six hours", &quick), ("sums, three days", &all)] {
        let begun = Instant::now();
        let sums = store.alert_sums(MIDNIGHT, cuts).await.unwrap();
        println!("{} {name}: {:?}", store.kind(), begun.elapsed());
        assert_eq!(sums.len(), usize::try_from(PAIRS).unwrap());
        let attempts = |sums: &retrylens::store::PairOfSums| -> i64 {
            sums.pieces.counts.iter().map(|counts| counts.attempts).sum()
        };
        assert!(sums.iter().all(|sums| attempts(sums) == 62 * i64::from(cuts.reach())));
    }
    let mut evaluator = evaluator(store, &Metrics::new(Caps::default()));
    for minute in 0..6 {
        let now = UnixMillis((MIDNIGHT + minute) * MINUTE_MS + 8_000);
        let begun = Instant::now();
        assert_eq!(evaluator.catch_up(now).await.unwrap(), 1);
        println!("{} evaluation {minute}: {:?}", store.kind(), begun.elapsed());
    }
    let (_, known) = store.known_alerts().await.unwrap();
    let slow = known.iter().filter(|alert| alert.rule == "Retrylens429BudgetBurnSlow").count();
    assert_eq!(slow, usize::try_from(PAIRS).unwrap(), "1.6% of three days are over the budget");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints what an evaluation costs"]
async fn an_evaluation_of_150_pairs_with_three_days_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("cost.db").display());
    let store = Store::open(&url).await.unwrap();
    let mut beside = SqliteConnection::connect(&url).await.unwrap();
    for text in fill() {
        sqlx::query(AssertSqlSafe(text)).execute(&mut beside).await.unwrap();
    }
    measure(&store).await;
    store.close().await.unwrap();
    let Some(schema) = crate::support::postgres::Schema::create().await else { return };
    let store = Store::open(&schema.url()).await.unwrap();
    let mut beside = PgConnection::connect(&schema.url()).await.unwrap();
    for text in fill() {
        sqlx::query(AssertSqlSafe(text)).execute(&mut beside).await.unwrap();
    }
    sqlx::query("ANALYZE").execute(&mut beside).await.unwrap();
    beside.close().await.unwrap();
    measure(&store).await;
    store.close().await.unwrap();
    schema.drop().await;
}
