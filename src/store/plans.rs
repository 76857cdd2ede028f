//! Test: no question reads all events. Every public question is asked with its statements recorded,
//! then the planner of each database is asked how it would answer them.

use super::reader::Arg;
use super::{Store, sql};
use crate::domain::classify::summarize;
use crate::domain::event::{Event, Vantage};
use crate::domain::stored::{Cursor, Dimension, NewEvent, RowFilter, Scope, TimeBasis, View};
use crate::domain::time::{HOUR_MS, UnixMillis, Window};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::cell::RefCell;
use std::collections::BTreeMap;

tokio::task_local! {
    static RECORDED: RefCell<BTreeMap<String, Vec<Arg>>>;
}

/// Keeps a statement, where the calling test asked for it.
pub(super) fn record(text: &str, args: &[Arg]) {
    let kept = RECORDED.try_with(|all| all.borrow_mut().insert(text.to_owned(), args.to_vec()));
    drop(kept);
}

/// A few operations of two limited attempts and a success, one of them seen by the origin.
fn storm() -> Vec<NewEvent> {
    let mut events = Vec::new();
    for operation in 0..5_i64 {
        for attempt in 1..=3_u32 {
            let at = UnixMillis(1_794_382_300_000 + operation * 1_000 + i64::from(attempt));
            let status = if attempt < 3 { 429 } else { 200 };
            let text = format!(
                r#"{{"event_id":"{operation}-{attempt}","operation_id":"op{operation}",
                "attempt":{attempt},"occurred_at":{},"vantage":"client","service":"s","host":"u",
                "environment":"e","route":"r","status":{status},"headers":[],"count":1,
                "request_id":"{operation}-{attempt}","trace_id":"t{operation}","ray_id":"8f2a",
                "key_hash":"hmac-sha256:1","redactions":0}}"#,
                at.0
            );
            events.push(serde_json::from_str::<Event>(&text).unwrap());
        }
    }
    let mut seen = events[0].clone();
    seen.event_id = "seen".to_owned();
    seen.vantage = Vantage::Origin;
    events.push(seen);
    let judged = |event: Event| {
        let verdict = summarize(&event.response());
        NewEvent { event, verdict }
    };
    events.into_iter().map(judged).collect()
}

/// Every question, with and without a scope, by both clocks.
async fn ask_everything(store: &Store) -> BTreeMap<String, Vec<Arg>> {
    let some = |text: &str| Some(text.to_owned());
    let scopes = [
        Scope::default(),
        Scope { service: some("s"), upstream: some("u"), environment: some("e"), route: some("r") },
    ];
    let (from, to) = (UnixMillis(1_794_382_200_123), UnixMillis(1_794_385_800_456));
    let window = Window { from, to };
    store.insert(&storm(), from).await.unwrap();
    RECORDED
        .scope(RefCell::default(), async {
            for time in [TimeBasis::Event, TimeBasis::Received] {
                for scope in scopes.clone() {
                    let view = View { scope, window, time };
                    let now = UnixMillis(to.0 + HOUR_MS);
                    store.facts(&view, now).await.unwrap();
                    store.facts_within(&view, now, 4).await.unwrap();
                    store
                        .key_services(
                            &mut store.reader().await.unwrap(),
                            &view,
                            Vantage::Client,
                            &[1, 2],
                        )
                        .await
                        .unwrap();
                    for (limited, retry) in [(None, None), (Some(true), Some(true))] {
                        let mut filter = RowFilter {
                            view: view.clone(),
                            limited,
                            retry,
                            succeeded: None,
                            value: None,
                        };
                        let after = Cursor { at: to, occurred_at: from, event_id: "x".to_owned() };
                        store.rows(&filter, Some(&after), 50).await.unwrap();
                        for dimension in Dimension::ALL {
                            filter.value = Some((*dimension, "429".to_owned()));
                            store.rows(&filter, None, 50).await.unwrap();
                        }
                    }
                }
                store.pairs(window, time).await.unwrap();
            }
            store.services(window).await.unwrap();
            store.labels(window).await.unwrap();
            store.lookup("8f2a-GRU").await.unwrap();
            store.events_by_id("x").await.unwrap();
            store.operation("x").await.unwrap();
            let refs: Vec<(String, UnixMillis)> = (0..200).map(|n| (n.to_string(), from)).collect();
            store.rows_by_refs(&refs).await.unwrap();
            store.last_event_at().await.unwrap();
            store.senders().await.unwrap();
            store.ready().await.unwrap();
            RECORDED.with(RefCell::take)
        })
        .await
}

#[tokio::test]
async fn sqlite_reads_no_table_of_events_or_sums_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    let statements = ask_everything(&store).await;
    assert!(statements.len() > 60, "{}", statements.len());
    let mut reader = store.reader().await.unwrap();
    for (text, args) in &statements {
        for row in reader.all(format!("EXPLAIN QUERY PLAN {text}"), args).await.unwrap() {
            let step = row.text(3).unwrap();
            for table in ["e", "events", "minute_counts", "class_counts", "actor_counts"] {
                let is_scan =
                    step == format!("SCAN {table}") || step.starts_with(&format!("SCAN {table} "));
                assert!(!is_scan, "{step}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn postgres_has_an_index_for_every_question_about_events_and_sums() {
    let Ok(server) = std::env::var("RETRYLENS_TEST_POSTGRES_URL") else {
        assert!(
            std::env::var("RETRYLENS_TEST_NO_POSTGRES").is_ok_and(|v| v == "1"),
            "no PostgreSQL to test on: see scripts/test-postgres"
        );
        return;
    };
    let schema = format!("plans_{}", std::process::id());
    let mut connection = PgConnection::connect(&server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&mut connection)
        .await
        .unwrap();
    // Without sequential scans the planner uses an index wherever one fits; tables as small as
    // these would be read whole otherwise.
    let url = format!("{server}?options[search_path]={schema}&options[enable_seqscan]=off");
    let store = Store::open(&url).await.unwrap();
    let statements = ask_everything(&store).await;
    let mut reader = store.reader().await.unwrap();
    for (text, args) in &statements {
        let plan: Vec<String> = reader
            .all(format!("EXPLAIN {text}"), args)
            .await
            .unwrap()
            .iter()
            .map(|row| row.text(0).unwrap().into_owned())
            .collect();
        for (at, step) in plan.iter().enumerate() {
            let is_ours = step.contains("Scan")
                && [" on events", " on minute_counts", " on class_counts", " on actor_counts"]
                    .iter()
                    .any(|table| step.contains(table));
            let details = plan.iter().skip(at + 1).take_while(|line| !line.contains("->"));
            let has_condition = details.into_iter().any(|line| line.contains(" Cond: "));
            assert!(!is_ours || has_condition, "{step}: {text}\n{}", plan.join("\n"));
        }
    }
    drop(reader);
    store.close().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE")))
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_sample_holds_limited_attempts_and_the_rest_of_their_operations_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.insert(&storm(), UnixMillis(1_794_382_400_000)).await.unwrap();
    let window = Window { from: UnixMillis(0), to: UnixMillis(2_000_000_000_000) };
    let view = View { scope: Scope::default(), window, time: TimeBasis::Event };
    for (cap, expected) in [
        (4, &["3-2", "4-1", "4-2", "4-3"][..]),
        (6, &["3-1", "3-2", "3-3", "4-1", "4-2", "4-3"]),
        (
            13,
            &[
                "0-1", "0-2", "1-1", "1-2", "2-1", "2-2", "2-3", "3-1", "3-2", "3-3", "4-1", "4-2",
                "4-3",
            ],
        ),
        (
            14,
            &[
                "0-1", "0-2", "1-1", "1-2", "1-3", "2-1", "2-2", "2-3", "3-1", "3-2", "3-3", "4-1",
                "4-2", "4-3",
            ],
        ),
        (15, &[]),
    ] {
        let facts = store.facts_within(&view, window.to, cap).await.unwrap();
        let ids: Vec<&str> = facts.attempts.iter().map(|s| s.event.event_id.as_str()).collect();
        assert_eq!(facts.attempts_complete, cap == 15);
        assert_eq!(ids.len(), cap);
        assert!(expected.is_empty() || ids == expected, "{cap}: {ids:?}");
        assert_eq!(facts.totals.attempts, 15, "counts do not depend on the sample");
    }
}

#[test]
fn marks_in_statements_are_all_known() {
    let mut args = Vec::new();
    let text = sql::scope(
        &sql::clock(sql::EVENT_BUCKETS, TimeBasis::Event),
        &Scope::default(),
        sql::EACH_SERIES,
        &mut args,
    );
    assert!(!text.contains('{'), "{text}");
}
