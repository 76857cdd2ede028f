//! What is old goes, and nothing else: on both databases, while events come in, and after a kill.

#![expect(clippy::print_stderr, reason = "figures are printed, not asserted")]

use crate::support::app::{NOON, TestApp};
use crate::support::postgres::Schema;
use crate::support::process::Process;
use retrylens::domain::event::Event;
use retrylens::domain::stored::{Dimension, Inserted, NewEvent, RowFilter, Scope, TimeBasis, View};
use retrylens::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use retrylens::pipeline::judge;
use retrylens::store::{Keep, Store, Tidied};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use std::time::Duration;
use tokio::time::Instant;

/// 2026-11-11T07:30:00Z.
const NOW: UnixMillis = UnixMillis(1_794_382_200_000);

/// A store and where it is.
struct Place {
    store: Store,
    url: String,
}

impl Place {
    fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite")
    }

    /// Runs statements behind the store's back.
    async fn execute(&self, text: &str) {
        let text = AssertSqlSafe(text.to_owned());
        if self.is_sqlite() {
            let mut connection = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(text).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        } else {
            let mut connection = sqlx::PgConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(text).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
    }

    /// The number that a question gives.
    async fn number(&self, text: &str) -> i64 {
        let text = AssertSqlSafe(text.to_owned());
        if self.is_sqlite() {
            let mut connection = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::query(text).fetch_one(&mut connection).await.unwrap().get(0)
        } else {
            let mut connection = sqlx::PgConnection::connect(&self.url).await.unwrap();
            sqlx::query(text).fetch_one(&mut connection).await.unwrap().get(0)
        }
    }
}

macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite://{}", folder.path().join("store.db").display());
                let store = super::Store::open(&url).await.unwrap();
                super::$case(super::Place { store: store.clone(), url }).await;
                store.close().await.unwrap();
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(schema) = super::Schema::create().await else { return };
                let url = schema.url();
                let store = super::Store::open(&url).await.unwrap();
                super::$case(super::Place { store: store.clone(), url }).await;
                store.close().await.unwrap();
                schema.drop().await;
            })+
        }
    };
}

on_both!(
    old_events_go_and_their_hours_stay,
    a_window_that_begins_before_the_events_is_counted_by_whole_hours,
    a_window_by_receipt_stays_exact_when_events_have_gone,
    sums_go_at_their_own_time,
    names_go_with_the_last_that_used_them,
    a_budget_takes_the_oldest_first_and_says_so,
    events_come_in_while_others_go,
    repeats_that_meet_the_removal_are_never_counted_twice,
    damage_of_each_table_is_named_and_mended,
);

fn days(n: i64) -> Millis {
    Millis(n * DAY_MS)
}

fn keep(events: i64, sums: i64) -> Keep {
    Keep { events: days(events), sums: days(sums), max_bytes: None }
}

/// An attempt, limited where its number is a multiple of three.
fn event(id: &str, at: UnixMillis, n: usize) -> NewEvent {
    let text = format!(
        r#"{{"event_id":"{id}","operation_id":"op-{id}","attempt":{},"occurred_at":{},
        "vantage":"client","service":"checkout","host":"api{}.example.com","status":{},
        "retry_after":"30","headers":[["retry-after","30"]],
        "key_hash":"hmac-sha256:k{}","count":1,"redactions":0}}"#,
        1 + n % 4,
        at.0,
        n % 3,
        if n.is_multiple_of(3) { 429 } else { 200 },
        n % 5,
    );
    judge(serde_json::from_str::<Event>(&text).unwrap())
}

/// `n` events over the day that ends `ago` days before [`NOW`].
fn day(ago: i64, n: usize) -> Vec<NewEvent> {
    let step = DAY_MS / i64::try_from(n).unwrap();
    (0..n)
        .map(|i| {
            let at = NOW.0 - (ago + 1) * DAY_MS + i64::try_from(i).unwrap() * step + 7;
            event(&format!("d{ago}-{i}"), UnixMillis(at), i)
        })
        .collect()
}

fn view(from: i64, to: i64, time: TimeBasis) -> View {
    let window = Window { from: UnixMillis(from), to: UnixMillis(to) };
    View { scope: Scope::default(), window, time }
}

async fn store_all(store: &Store, events: &[NewEvent], at: UnixMillis) {
    for part in events.chunks(500) {
        let results = store.insert(part, at).await.unwrap();
        assert!(results.iter().all(|result| *result == Inserted::Stored), "{results:?}");
    }
}

/// Gathers and tidies until nothing is left to do; how many steps of removal it took.
async fn tidy(store: &Store, keep: Keep, now: UnixMillis) -> usize {
    while store.gather(now).await.unwrap() {}
    for steps in 0..2_000 {
        if store.tidy(keep, now).await.unwrap() == Tidied::Done {
            return steps;
        }
    }
    panic!("it does not come to an end")
}

async fn assert_agrees(store: &Store) -> i64 {
    let recount = store.recount().await.unwrap();
    assert!(recount.agrees(), "{recount:?}");
    recount.events
}

async fn rows(store: &Store, view: View) -> usize {
    let filter = RowFilter { view, limited: None, retry: None, succeeded: None, value: None };
    store.rows(&filter, None, 1_000).await.unwrap().items.len()
}

async fn old_events_go_and_their_hours_stay(place: Place) {
    let store = &place.store;
    for ago in [5, 4, 0] {
        store_all(store, &day(ago, 300), NOW).await;
    }
    let old = view(NOW.0 - 6 * DAY_MS, NOW.0 - 3 * DAY_MS, TimeBasis::Event);
    let old = store.kept().await.unwrap().countable(&old);
    let before = store.totals(&old).await.unwrap();
    assert_eq!(before.attempts, 600);

    tidy(store, keep(2, 400), NOW).await;
    let kept = store.kept().await.unwrap();
    assert!(kept.events.since > UnixMillis(NOW.0 - 4 * DAY_MS), "{kept:?}");
    assert!(kept.events.since <= UnixMillis(NOW.0 - 2 * DAY_MS), "{kept:?}");
    assert!(!kept.events.is_for_budget());
    assert_eq!(assert_agrees(store).await, 300);
    assert_eq!(place.number("SELECT COUNT(*) FROM events").await, 300);
    let old = kept.countable(&old);
    assert_eq!(store.totals(&old).await.unwrap(), before, "from the sums of hours");
    assert_eq!(rows(store, old.clone()).await, 0);
    assert_eq!(store.lookup("d5-7").await.unwrap().events.len(), 0);
    assert_eq!(store.lookup("d0-7").await.unwrap().events.len(), 1);
    let facts = store.facts(&old, NOW).await.unwrap();
    assert_eq!((facts.totals, facts.attempts_complete), (before, false));
    assert_eq!(facts.attempts.len(), 0);

    // What is older is refused, alone: it may be a repeat.
    let batch = [event("late", UnixMillis(kept.events.since.0 - 1), 1), event("new", NOW, 1)];
    let results = store.insert(&batch, NOW).await.unwrap();
    assert_eq!(results, [Inserted::Expired, Inserted::Stored]);
    let at_the_edge = [event("edge", kept.events.since, 1)];
    assert_eq!(store.insert(&at_the_edge, NOW).await.unwrap(), [Inserted::Stored]);
    assert_eq!(assert_agrees(store).await, 302);
    assert_eq!(tidy(store, keep(2, 400), NOW).await, 0, "nothing is left to do");
}

async fn a_window_that_begins_before_the_events_is_counted_by_whole_hours(place: Place) {
    let store = &place.store;
    for ago in [3, 2, 1, 0] {
        store_all(store, &day(ago, 480), NOW).await;
    }
    let windows = [
        (NOW.0 - 3 * DAY_MS + 11 * MINUTE_MS, NOW.0 - 3 * DAY_MS + 22 * MINUTE_MS),
        (NOW.0 - 3 * DAY_MS + 50 * MINUTE_MS, NOW.0 - 3 * DAY_MS + 70 * MINUTE_MS),
        (NOW.0 - 3 * DAY_MS + 5, NOW.0 - 7 * MINUTE_MS - 5),
        (NOW.0 - 2 * HOUR_MS + 5, NOW.0 - 7 * MINUTE_MS - 5),
    ];
    let all = view(NOW.0 - 4 * DAY_MS, NOW.0, TimeBasis::Event);
    // What the answers must be, asked while every event is there.
    let widened = |(from, to): (i64, i64), since: UnixMillis| {
        if from >= since.0 {
            return view(from, to, TimeBasis::Event);
        }
        let to = if to < since.0 { to.div_euclid(HOUR_MS) * HOUR_MS + HOUR_MS } else { to };
        view(from.div_euclid(HOUR_MS) * HOUR_MS, to, TimeBasis::Event)
    };
    let since = UnixMillis(
        (NOW.0 - DAY_MS).div_euclid(if place.is_sqlite() { HOUR_MS } else { DAY_MS })
            * if place.is_sqlite() { HOUR_MS } else { DAY_MS },
    );
    let mut expected = Vec::new();
    for window in windows {
        let view = widened(window, since);
        let totals = store.totals(&view).await.unwrap();
        assert!(totals.attempts > 0);
        let dimensions = store.dimensions(&view).await.unwrap();
        let hours = store.buckets(&view, HOUR_MS).await.unwrap();
        expected.push((view, totals, dimensions, hours));
    }
    let pairs = store.pairs(all.window, all.time).await.unwrap();

    tidy(store, keep(1, 400), NOW).await;
    let kept = store.kept().await.unwrap();
    assert_eq!(kept.events.since, since);
    for ((from, to), (whole, totals, dimensions, hours)) in windows.into_iter().zip(expected) {
        let asked = view(from, to, TimeBasis::Event);
        assert_eq!(kept.countable(&asked), whole, "the window that is said to be counted");
        assert_eq!(store.totals(&asked).await.unwrap(), totals, "{whole:?}");
        assert_eq!(store.dimensions(&asked).await.unwrap(), dimensions, "{whole:?}");
        assert_eq!(store.facts(&asked, NOW).await.unwrap().view, whole);
        let width = if from < since.0 { MINUTE_MS } else { HOUR_MS };
        assert_eq!(store.buckets(&asked, width).await.unwrap(), hours, "{whole:?}");
    }
    assert_eq!(store.pairs(all.window, all.time).await.unwrap(), pairs);
}

async fn a_window_by_receipt_stays_exact_when_events_have_gone(place: Place) {
    let store = &place.store;
    // Some events of each hour come at once, some hours or days later.
    let mut received = Vec::new();
    for hour in (0..96_i64).rev() {
        let at = UnixMillis(NOW.0 - hour * HOUR_MS);
        let batch: Vec<NewEvent> = (0..6_i64)
            .map(|n| {
                let late = [0, 3, 20, 3 * 60, 7 * 60, 20 * 60][usize::try_from(n).unwrap()];
                let happened = UnixMillis(at.0 - late * MINUTE_MS - n);
                event(&format!("r{hour}-{n}"), happened, usize::try_from(hour + n).unwrap())
            })
            .collect();
        store_all(store, &batch, at).await;
        received.push(at);
    }
    let windows: Vec<(i64, i64)> = (0..90)
        .flat_map(|n| {
            let end = NOW.0 - n * HOUR_MS + 9;
            [(end - 25 * MINUTE_MS, end), (end - 5 * HOUR_MS, end)]
        })
        .collect();
    let of = |(from, to): (i64, i64)| {
        let within = |at: &&UnixMillis| from <= at.0 && at.0 < to;
        i64::try_from(received.iter().filter(within).count() * 6).unwrap()
    };
    for window in &windows {
        let asked = view(window.0, window.1, TimeBasis::Received);
        assert_eq!(store.totals(&asked).await.unwrap().attempts, of(*window));
    }
    tidy(store, keep(1, 400), NOW).await;
    let kept = store.kept().await.unwrap();
    // Events that happened before are received up to 20 hours later.
    assert!(kept.events.received_since > kept.events.since);
    let mut coarse = 0;
    for window in &windows {
        let asked = view(window.0, window.1, TimeBasis::Received);
        let whole = kept.countable(&asked);
        let (from, to) = (whole.window.from.0, whole.window.to.0);
        assert!(from <= window.0 && to >= window.1);
        coarse += usize::from(whole != asked);
        assert_eq!(store.totals(&asked).await.unwrap().attempts, of((from, to)), "{whole:?}");
    }
    assert!(coarse > 0 && coarse < windows.len(), "{coarse}");
}

async fn sums_go_at_their_own_time(place: Place) {
    let store = &place.store;
    for ago in [9, 5, 0] {
        // Long enough ago that the sums are gathered.
        store_all(store, &day(ago, 240), UnixMillis(NOW.0 - 10 * MINUTE_MS)).await;
    }
    let all = view(NOW.0 - 30 * DAY_MS, NOW.0 + HOUR_MS, TimeBasis::Event);
    tidy(store, keep(2, 7), NOW).await;
    assert_eq!(store.totals(&all).await.unwrap().attempts, 480);
    let kept = store.kept().await.unwrap();
    let since = kept.sums.since.0 / MINUTE_MS;
    let since_events = kept.events.since.0 / MINUTE_MS;
    for (table, start, since) in [
        ("class_hours", "start", since),
        ("actor_hours", "start", since),
        ("wait_hours", "start", since),
        ("wait_counts", "start", since_events),
        ("class_counts", "start", since_events),
        ("actor_counts", "start", since_events),
        ("minute_counts", "slot", since_events),
        ("slot_counts", "start", since_events),
        ("hour_counts", "start", since),
    ] {
        let old = format!("SELECT COUNT(*) FROM {table} WHERE {start} < {since}");
        assert_eq!(place.number(&old).await, 0, "{table}");
        assert!(place.number(&format!("SELECT COUNT(*) FROM {table}")).await > 0, "{table}");
    }
    assert!(kept.sums.removed > 0);
    assert_agrees(store).await;
}

async fn names_go_with_the_last_that_used_them(place: Place) {
    let store = &place.store;
    let old = UnixMillis(NOW.0 - 20 * DAY_MS);
    let of = |id: &str, at: UnixMillis, service: &str, key: &str| {
        let mut one = event(id, at, 3);
        service.clone_into(&mut one.event.service);
        one.event.key_hash = Some(key.to_owned());
        one
    };
    let batch: Vec<NewEvent> = (0..300)
        .map(|n| of(&format!("h{n}"), old, &format!("hostile-{n}"), &format!("hmac-sha256:h{n}")))
        .collect();
    store_all(store, &batch, old).await;
    store_all(store, &[of("stays", old, "both", "hmac-sha256:both")], old).await;
    store_all(store, &[of("young", NOW, "both", "hmac-sha256:both")], NOW).await;
    let names = "SELECT (SELECT COUNT(*) FROM series) * 1000 + (SELECT COUNT(*) FROM words)";
    assert_eq!(place.number(names).await, 301 * 1000 + 301);
    tidy(store, keep(2, 30), NOW).await;
    assert_eq!(place.number(names).await, 301 * 1000 + 301, "the sums still use them");
    tidy(store, keep(2, 5), NOW).await;
    assert_eq!(place.number(names).await, 1000 + 1);

    // The writer, which knew the names, gives them new numbers.
    let again: Vec<NewEvent> = (0..20)
        .map(|n| of(&format!("a{n}"), NOW, &format!("hostile-{n}"), &format!("hmac-sha256:h{n}")))
        .collect();
    store_all(store, &again, NOW).await;
    let today = view(NOW.0 - HOUR_MS, NOW.0 + HOUR_MS, TimeBasis::Event);
    let dimensions = store.dimensions(&today).await.unwrap();
    for dimension in [Dimension::Service, Dimension::Key] {
        let named = dimensions.iter().filter(|d| d.dimension == dimension && !d.value.is_empty());
        assert_eq!(named.count(), 21, "{dimension:?}");
    }
    assert_eq!(store.lookup("a7").await.unwrap().events[0].event.service, "hostile-7");
    assert_agrees(store).await;
}

async fn a_budget_takes_the_oldest_first_and_says_so(place: Place) {
    let store = &place.store;
    for ago in (0..6).rev() {
        store_all(store, &day(ago, 1_500), NOW).await;
    }
    assert_eq!(tidy(store, keep(30, 400), NOW).await > 0, place.is_sqlite(), "names are checked");
    assert_eq!(assert_agrees(store).await, 9_000);
    let used = if place.is_sqlite() {
        place
            .number(
                "SELECT (c.page_count - f.freelist_count) * s.page_size \
            FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size s",
            )
            .await
    } else {
        // The least that is left: everything but today.
        1
    };
    let max = if place.is_sqlite() { used * 2 / 3 } else { 1 };
    let keep = Keep { max_bytes: Some(max.unsigned_abs()), ..keep(30, 400) };
    tidy(store, keep, NOW).await;
    let kept = store.kept().await.unwrap();
    assert!(kept.events.is_for_budget(), "{kept:?}");
    assert!(kept.events.since > UnixMillis(NOW.0 - 5 * DAY_MS), "{kept:?}");
    let left = assert_agrees(store).await;
    assert!(left > 0 && left < 9_000, "{left}");
    // What is left is all that is young enough.
    let expected = (0..6)
        .flat_map(|ago| day(ago, 1_500))
        .filter(|one| one.event.occurred_at >= kept.events.since)
        .count();
    assert_eq!(left, i64::try_from(expected).unwrap());
    if place.is_sqlite() {
        assert_eq!(kept.events.removed, 9_000 - left);
        assert_eq!(kept.events.removed_for_budget, 9_000 - left);
        let file = place
            .number(
                "SELECT c.page_count * s.page_size \
            FROM pragma_page_count c, pragma_page_size s",
            )
            .await;
        assert!(file <= max, "{file} of {max}");
    }
}

async fn events_come_in_while_others_go(place: Place) {
    let store = place.store.clone();
    for ago in [4, 3] {
        store_all(&store, &day(ago, 4_000), NOW).await;
    }
    let removing = {
        let store = store.clone();
        tokio::spawn(async move { tidy(&store, keep(1, 400), NOW).await })
    };
    let (mut batches, mut longest) = (0, Duration::ZERO);
    while !removing.is_finished() || batches < 10 {
        let batch: Vec<NewEvent> =
            (0..50).map(|n| event(&format!("b{batches}-{n}"), NOW, n)).collect();
        let begun = Instant::now();
        store_all(&store, &batch, NOW).await;
        longest = longest.max(begun.elapsed());
        batches += 1;
    }
    let steps = removing.await.unwrap();
    eprintln!("{batches} batches of 50 beside {steps} steps, the longest took {longest:?}");
    assert_eq!(assert_agrees(&store).await, batches * 50);
}

async fn repeats_that_meet_the_removal_are_never_counted_twice(place: Place) {
    let store = place.store.clone();
    let old = day(3, 1_200);
    store_all(&store, &old, NOW).await;
    let hours = store.kept().await.unwrap().countable(&view(
        NOW.0 - 9 * DAY_MS,
        NOW.0 - DAY_MS,
        TimeBasis::Event,
    ));
    let before = store.totals(&hours).await.unwrap();
    // Other processes, which don't hear of the removal but through the database.
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..3 {
        let (other, old) = (Store::open(&place.url).await.unwrap(), old.clone());
        senders.spawn(async move {
            let (mut known, mut refused) = (0, 0);
            for round in 0.. {
                let part = &old[(round * 97 + n * 400) % 1_100..][..100];
                for result in other.insert(part, NOW).await.unwrap() {
                    match result {
                        Inserted::Duplicate => known += 1,
                        Inserted::Expired => refused += 1,
                        Inserted::Stored | Inserted::IdConflict => panic!("counted again"),
                    }
                }
                if refused > 500 {
                    break;
                }
            }
            other.close().await.unwrap();
            (known, refused)
        });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    tidy(&store, keep(1, 400), NOW).await;
    let results = senders.join_all().await;
    eprintln!("repeats known and refused by three senders: {results:?}");
    assert_eq!(store.totals(&hours).await.unwrap(), before);
    assert_eq!(assert_agrees(&store).await, 0);
}

async fn damage_of_each_table_is_named_and_mended(place: Place) {
    let store = &place.store;
    for ago in [3, 1, 0] {
        // Long enough ago that the sums are gathered.
        store_all(store, &day(ago, 240), UnixMillis(NOW.0 - 10 * MINUTE_MS)).await;
    }
    tidy(store, keep(2, 400), NOW).await;
    assert!(store.verify().await.unwrap().is_well());
    let untouched = store.totals(&view(NOW.0 - 9 * DAY_MS, NOW.0, TimeBasis::Event)).await.unwrap();
    let since = store.kept().await.unwrap().events.since.0 / MINUTE_MS;
    let sums = [
        ("spans", "start", "received = received + 7"),
        ("minute_counts", "slot", "limited = limited + 1"),
        ("slot_counts", "start", "last_ms = last_ms + 1"),
        ("hour_counts", "start", "gave_up = gave_up + 1"),
        ("class_counts", "start", "retries = retries + 1"),
        ("class_hours", "start", "attempts = attempts - 1"),
        ("actor_counts", "start", "retries = 0, attempts = attempts + 1"),
        ("actor_hours", "start", "limited = limited + 1"),
        ("wait_counts", "start", "n = n + 5"),
        ("wait_hours", "start", "bucket = bucket + 100000"),
    ];
    for (table, start, change) in sums {
        let newest = format!("(SELECT MAX({start}) FROM {table})");
        for damage in [
            format!("UPDATE {table} SET {change} WHERE {start} = {newest}"),
            format!("DELETE FROM {table} WHERE {start} = {newest}"),
        ] {
            place.execute(&damage).await;
            let found = store.verify().await.unwrap();
            assert!(!found.is_well(), "{damage}");
            let tables: Vec<&str> = found.recount.differences.iter().map(|d| d.table).collect();
            assert!(tables.contains(&table), "{damage}: {tables:?}");
            let of = found.recount.differences.iter().find(|d| d.table == table).unwrap();
            assert!(of.rows > 0 && !of.stretches.is_empty(), "{of:?}");
            assert!(store.repair(&found).await.unwrap().stretches > 0);
            let again = store.verify().await.unwrap();
            assert!(again.is_well(), "{damage}: {again:?}");
        }
        // What has no events to be compared with is left as it is.
        let old = format!("SELECT COUNT(*) FROM {table} WHERE {start} < {since}");
        let is_by_hour = table.ends_with("_hours") || matches!(table, "hour_counts" | "spans");
        assert_eq!(place.number(&old).await > 0, is_by_hour, "{table}");
    }
    let all = view(NOW.0 - 9 * DAY_MS, NOW.0, TimeBasis::Event);
    assert_eq!(store.totals(&all).await.unwrap(), untouched);
    if !place.is_sqlite() {
        return;
    }
    for damage in [
        "DELETE FROM ids WHERE id % 7 = 3",
        "INSERT INTO ids (slice, key, id) SELECT slice, key + 1, id FROM ids LIMIT 5",
        "INSERT INTO ids (slice, key, id) SELECT slice + 999, key, id FROM ids LIMIT 5",
        "UPDATE slices SET events = events + 3",
        "UPDATE slices SET from_at = 0",
        "DELETE FROM slices",
    ] {
        place.execute(damage).await;
        let found = store.verify().await.unwrap();
        assert!(!found.is_well(), "{damage}");
        assert!(!found.ids.is_empty() || !found.damage.is_empty(), "{damage}");
        store.repair(&found).await.unwrap();
        let again = store.verify().await.unwrap();
        assert!(again.is_well(), "{damage}: {again:?}");
        assert_eq!(store.lookup("d1-7").await.unwrap().events.len(), 1, "{damage}");
    }
    // The writer goes on with what was mended.
    let again = store.insert(&day(0, 240), NOW).await.unwrap();
    assert!(again.iter().all(|result| *result == Inserted::Duplicate), "{again:?}");
}

#[test]
fn doctor_verifies_and_repairs_beside_a_running_service() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let process = Process::serve(folder.path(), &[], &[]);
    let send = |from: usize| {
        let now = SystemNow::read();
        let events: Vec<serde_json::Value> = (from..from + 50)
            .map(|n| {
                serde_json::json!({"event_id": format!("v{n}"), "occurred_at": now.to_rfc3339(),
                    "service": "checkout", "host": "api.example.com", "status": 429})
            })
            .collect();
        let (status, said) = process.post("/v1/events", &events.into()).unwrap();
        assert_eq!(status, 200, "{said}");
    };
    let doctor = |flag: &str| {
        let output = crate::support::process::run(folder.path(), &["doctor", flag]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    send(0);
    let (code, said) = doctor("--verify");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ok    verify    50 events were counted again in"), "{said}");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        let place = Place { store: store.clone(), url: url.clone() };
        place
            .execute(
                "UPDATE class_counts SET attempts = attempts + 1; DELETE FROM ids WHERE id = 7",
            )
            .await;
        store.close().await.unwrap();
    });
    let (code, said) = doctor("--verify");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAIL  verify    class_counts: "), "{said}");
    assert!(said.contains("FAIL  verify    ids in slice 1, "), "{said}");
    send(50);
    let (code, said) = doctor("--repair");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("mended: "), "{said}");
    assert!(said.contains("ok    verify    checked again"), "{said}");
    send(100);
    let (code, said) = doctor("--verify");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("150 events were counted again"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_older_than_is_kept_is_rejected_alone() {
    let app = TestApp::start().await;
    let now = UnixMillis::parse_rfc3339(NOON).unwrap();
    tidy(&app.state.store, app.state.config.store.keep, now).await;
    let one = |id: &str, days: i64| {
        serde_json::json!({"event_id": id,
            "occurred_at": UnixMillis(now.0 - days * DAY_MS).to_rfc3339(),
            "service": "checkout", "host": "api.example.com", "status": 429})
    };
    let bad = serde_json::json!({"event_id": "bad"});
    let batch =
        serde_json::json!([one("a", 1), one("old", 31), bad, one("b", 29), one("older", 99)]);
    let answer = app.post("/v1/events", &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let receipt = answer.json();
    assert_eq!(receipt["stored"], 2);
    let rejected = receipt["rejected"].as_array().unwrap();
    let indexes: Vec<_> = rejected.iter().map(|reject| reject["index"].as_i64().unwrap()).collect();
    assert_eq!(indexes, [1, 2, 4]);
    assert_eq!(rejected[0]["event_id"], "old");
    assert_eq!(rejected[0]["field"], "occurred_at");
    let error = rejected[0]["error"].as_str().unwrap();
    assert!(error.contains("from 2026-10-12T12:00:00.000Z on"), "{error}");

    let answer = app.post("/v1/events", &serde_json::json!([one("old", 31)])).await;
    assert_eq!(answer.json()["rejected"][0]["field"], "occurred_at", "{}", answer.text);
    assert!(answer.status.is_client_error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_window_before_the_events_say_so_and_still_count() {
    let app = TestApp::start().await;
    let now = UnixMillis::parse_rfc3339(NOON).unwrap();
    let old = UnixMillis(now.0 - 40 * DAY_MS - 20 * MINUTE_MS);
    let events: Vec<serde_json::Value> = (0..9)
        .map(|n| {
            serde_json::json!({"event_id": format!("p{n}"), "occurred_at": old.to_rfc3339(),
                "service": "checkout", "host": "api.example.com", "status": 429})
        })
        .collect();
    app.store(&events).await;
    let window = format!(
        "from={}&to={}",
        UnixMillis(old.0 - 10 * MINUTE_MS).to_rfc3339(),
        UnixMillis(old.0 + 10 * MINUTE_MS).to_rfc3339()
    );
    let note = "Events before 2026-10-12 12:00:00 are no longer kept. Counts before that are by";
    let pages = ["/", "/triage", "/events", "/services", "/services/checkout"];
    for page in pages {
        let answer = app.visit(&format!("{page}?{window}")).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.text);
        assert!(!answer.text.contains("no longer kept"), "{page}");
    }
    let count = async || {
        let answer = app.get(&format!("/api/v1/overview?{window}")).await.json();
        (answer["pairs"][0]["attempts"].clone(), answer["view"].clone())
    };
    let (before, _) = count().await;
    assert_eq!(before, 9);
    tidy(&app.state.store, app.state.config.store.keep, now).await;
    let (after, view) = count().await;
    assert_eq!(after, 9);
    assert!(view["kept_note"].as_str().unwrap().starts_with(note), "{view}");
    assert_eq!(view["from"], "2026-10-02T11:00:00.000Z");
    assert_eq!(view["to"], "2026-10-02T12:00:00.000Z");
    for page in pages {
        let answer = app.visit(&format!("{page}?{window}")).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.text);
        assert!(answer.text.contains(note), "{page}: {}", answer.text);
    }
    let recent = app.visit("/").await;
    assert!(!recent.text.contains("no longer kept"));
    let gone = app.visit("/lookup?id=p3").await;
    assert!(gone.text.contains("are no longer kept"), "{}", gone.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_shrinks_in_small_steps_and_the_log_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    for ago in [3, 2] {
        let mut events = day(ago, 6_000);
        for (n, one) in events.iter_mut().enumerate() {
            // Texts that don't compress, so that there is something to give back.
            let noise =
                |i: usize| format!("{:x}", (n * 31 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            one.event.body_sample = Some((0..60).map(noise).collect());
        }
        store_all(&store, &events, NOW).await;
    }
    store_all(&store, &day(0, 100), NOW).await;
    let longest = async {
        let mut longest = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let done = store.tidy(keep(1, 400), NOW).await.unwrap();
            longest = longest.max(begun.elapsed());
            if done == Tidied::Done {
                return longest;
            }
            assert!(longest < Duration::from_secs(20), "it does not come to an end");
        }
    };
    let place = Place { store: store.clone(), url: format!("sqlite://{}", file.display()) };
    let size = "SELECT c.page_count * s.page_size FROM pragma_page_count c, pragma_page_size s";
    let before = place.number(size).await.unsigned_abs();
    let longest = longest.await;
    eprintln!("the longest step took {longest:?}");
    assert_eq!(assert_agrees(&store).await, 100);
    store.close().await.unwrap();
    let after = std::fs::metadata(&file).unwrap().len();
    eprintln!("{before} bytes before, {after} after");
    // 256 pages of 16 KiB are kept for what comes in.
    assert!(after < before / 2 && after < 6_500_000, "{before} {after}");
}

#[test]
fn a_kill_while_events_go_leaves_sums_that_agree_and_the_next_start_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // By the real clock, which the process goes by.
    let now = SystemNow::read();
    let events: Vec<NewEvent> = (0..24_000_i64)
        .map(|n| {
            let at = UnixMillis(now.0 - 4 * DAY_MS + n * 7_000);
            event(&format!("k{n}"), at, usize::try_from(n).unwrap())
        })
        .collect();
    let expected = |since: UnixMillis| {
        i64::try_from(events.iter().filter(|one| one.event.occurred_at >= since).count()).unwrap()
    };
    runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        store_all(&store, &events, now).await;
        store.close().await.unwrap();
    });
    let settings = [("RETRYLENS_RETENTION_DAYS", "3")];
    let process = Process::serve(folder.path(), &[], &settings);
    let removed = |url: &str| {
        runtime.block_on(async {
            let store = Store::open(url).await.unwrap();
            let removed = store.kept().await.unwrap().events.removed;
            store.close().await.unwrap();
            removed
        })
    };
    let begun = Instant::now();
    while removed(&url) == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing is removed");
        std::thread::sleep(Duration::from_millis(5));
    }
    process.signal("KILL");
    drop(process);
    runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        let kept = store.kept().await.unwrap();
        eprintln!(
            "killed after {} of {} events",
            kept.events.removed,
            24_000 - expected(kept.events.since)
        );
        let recount = store.recount().await.unwrap();
        assert!(recount.agrees(), "{recount:?}");
        assert_eq!(recount.events, expected(kept.events.since));
        tidy(&store, keep(3, 400), now).await;
        let kept = store.kept().await.unwrap();
        assert_eq!(assert_agrees(&store).await, expected(kept.events.since));
        assert_eq!(kept.events.removed, 24_000 - expected(kept.events.since));
        store.close().await.unwrap();
    });
}

/// The real time.
struct SystemNow;

impl SystemNow {
    fn read() -> UnixMillis {
        use retrylens::clock::{Clock as _, SystemClock};
        SystemClock.now()
    }
}
