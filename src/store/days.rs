//! Days of `events` on PostgreSQL: a partition for each day of `occurred_at` (UTC), so that an old
//! day is dropped and not deleted row by row.
//!
//! A day's partition is made ahead, and on demand for late events. Days far from now get none: a
//! sender with a wrong or hostile clock can't make more than [`DAYS_BACK`] + [`DAYS_AHEAD`] + 1 of
//! them. Events of days without one are kept in `events_other`, and move out of it when their day
//! gets a partition.
//!
//! A partition is made beside `events` and then attached, which neither reads nor writes of other
//! days wait for; whoever uses `events_other` waits while its rows are looked through. One replica
//! makes partitions at a time. Nobody waits longer than [`LOCK_WAIT`]: what can't be made now is
//! made later, and its events are kept in `events_other` until then.

use super::StoreError;
use crate::domain::time::{DAY_MS, UnixMillis};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How many days before today a late event's day still gets a partition.
pub(super) const DAYS_BACK: i64 = 35;
/// How many days behind today get a partition ahead of time.
pub(super) const DAYS_AHEAD: i64 = 2;
/// Most partitions that one batch waits for; the newest days come first.
const MADE_AT_ONCE: usize = 4;
/// How long the making or dropping of a partition waits for a lock.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long nothing is made after it could not be.
const REST: Duration = Duration::from_secs(30);
/// How long other days than a batch's own are taken to have no partition.
const KNOWN_LASTS: Duration = Duration::from_secs(10);
/// The table of days that have no partition.
pub(super) const OTHER: &str = "events_other";
/// Most rows of `events_other` that one statement deletes.
const DELETED_AT_ONCE: i64 = 10_000;

/// Held until the transaction ends, for the tables of this schema alone. The first number is ours:
/// "days" in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1684109683, 'events'::regclass::oid::int)";
/// Partitions that hold a day: its number since 1970, the partition's name, its bytes on disk.
const PARTITIONS: &str = "\
SELECT CAST(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \\(''?(-?[0-9]+)') AS BIGINT) \
/ 86400000 AS day, c.oid::regclass::text, pg_total_relation_size(c.oid) \
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
WHERE i.inhparent = 'events'::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT' \
ORDER BY day";

/// The day that holds a moment, counted from 1970-01-01.
pub(super) const fn day_of(at: i64) -> i64 {
    at.div_euclid(DAY_MS)
}

/// Days that may have a partition made when it is `now`, first to last.
pub(super) const fn near(now: UnixMillis) -> (i64, i64) {
    let today = day_of(now.0);
    (today - DAYS_BACK, today + DAYS_AHEAD)
}

/// A partition that holds one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DayTable {
    /// The day, counted from 1970-01-01.
    pub(super) day: i64,
    /// The partition's name, quoted where it must be.
    pub(super) name: String,
    /// Bytes on disk, indexes in.
    pub(super) bytes: i64,
}

/// What [`Days::drop_before`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Days that were dropped.
    pub(super) days: usize,
    /// Events of days without a partition that were deleted.
    pub(super) others: u64,
    /// Whether some days are left because somebody uses them; they go at the next call.
    pub(super) is_partial: bool,
}

/// Which days have a partition, as far as this replica knows.
#[derive(Debug, Default)]
pub(super) struct Days {
    known: RwLock<Known>,
    /// Held while partitions are made; until when none are.
    making: Mutex<Option<Instant>>,
}

/// Names of partitions by day.
#[derive(Debug, Default)]
struct Known {
    names: BTreeMap<i64, String>,
    read_at: Option<Instant>,
}

impl Days {
    /// Makes the partitions that a batch received at `now` needs, and those of the next days. A
    /// batch whose own days have one waits for nobody.
    pub(super) async fn prepare(
        &self,
        connection: &mut PgConnection,
        times: impl Iterator<Item = i64>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let (first, last) = near(now);
        let today = day_of(now.0);
        let wanted: BTreeSet<i64> =
            times.map(day_of).filter(|day| (first..=last).contains(day)).collect();
        let ahead: BTreeSet<i64> = (today..=last).collect();
        // Other replicas make days as well: those that `tables` is asked for are looked for again.
        let around = wanted.iter().flat_map(|day| day - 1..=day + 1).collect();
        if self.is_old() && self.has_unknown(&around) {
            self.read(connection).await?;
        }
        let is_urgent = self.has_unknown(&wanted);
        if !is_urgent && !self.has_unknown(&ahead) {
            return Ok(());
        }
        let mut rest = if is_urgent {
            self.making.lock().await
        } else {
            let Ok(rest) = self.making.try_lock() else { return Ok(()) };
            rest
        };
        if rest.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        if self.has_unknown(&wanted) || self.has_unknown(&ahead) {
            self.read(connection).await?;
        }
        let missing: Vec<i64> = {
            let known = &self.known.read().unwrap_or_else(PoisonError::into_inner).names;
            // The newest of the batch's own days first, then those of the next days.
            let own = wanted.iter().rev().filter(|day| !known.contains_key(day)).take(MADE_AT_ONCE);
            let next = ahead.iter().filter(|day| !known.contains_key(day) && !wanted.contains(day));
            own.chain(next).copied().collect()
        };
        for day in missing {
            match make(connection, day).await {
                Ok(()) => self.change(|known| {
                    known.names.insert(day, name_of(day));
                }),
                Err(error) if is_in_the_way(&error) => {
                    tracing::warn!(
                        day = %UnixMillis(day.saturating_mul(DAY_MS)).to_rfc3339(),
                        "the partition of a day could not be made because others use the table; \
                         its events are kept in events_other until it can"
                    );
                    *rest = Some(Instant::now() + REST);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Drops every day before `day`, a day per transaction, and deletes older events of days
    /// without a partition.
    pub(super) async fn drop_before(
        &self,
        connection: &mut PgConnection,
        day: i64,
    ) -> Result<Dropped, StoreError> {
        let mut dropped = Dropped::default();
        for table in partitions(connection).await? {
            if table.day >= day {
                continue;
            }
            match drop_day(connection, &table).await {
                Ok(()) => {
                    dropped.days += 1;
                    self.change(|known| {
                        known.names.remove(&table.day);
                    });
                }
                Err(error) if is_in_the_way(&error) => dropped.is_partial = true,
                Err(error) => return Err(error.into()),
            }
        }
        let before = day.saturating_mul(DAY_MS);
        loop {
            let deleted = sqlx::query(
                "DELETE FROM events_other WHERE ctid = ANY(ARRAY(\
                 SELECT ctid FROM events_other WHERE occurred_at < $1 LIMIT $2))",
            )
            .bind(before)
            .bind(DELETED_AT_ONCE)
            .execute(&mut *connection)
            .await?
            .rows_affected();
            dropped.others += deleted;
            if deleted < DELETED_AT_ONCE.unsigned_abs() {
                return Ok(dropped);
            }
        }
    }

    /// The tables that hold the events of the days from `first` to `last`.
    pub(super) fn tables(&self, first: i64, last: i64) -> Vec<String> {
        let known = &self.known.read().unwrap_or_else(PoisonError::into_inner).names;
        let mut tables: Vec<String> =
            known.range(first..=last).map(|(_, name)| name.clone()).collect();
        if (first..=last).any(|day| !known.contains_key(&day)) {
            tables.push(OTHER.to_owned());
        }
        tables
    }

    /// Whether a day from `first` to `last` has a partition.
    pub(super) fn has_any(&self, first: i64, last: i64) -> bool {
        let known = &self.known.read().unwrap_or_else(PoisonError::into_inner).names;
        known.range(first..=last).next().is_some()
    }

    /// Forgets which days have a partition: one of them was not there.
    pub(super) fn forget(&self) {
        self.change(|known| *known = Known::default());
    }

    async fn read(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        let found = partitions(connection).await?;
        self.change(|known| {
            known.names = found.into_iter().map(|table| (table.day, table.name)).collect();
            known.read_at = Some(Instant::now());
        });
        Ok(())
    }

    fn is_old(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.read_at.is_none_or(|at| at.elapsed() > KNOWN_LASTS)
    }

    fn has_unknown(&self, days: &BTreeSet<i64>) -> bool {
        let known = &self.known.read().unwrap_or_else(PoisonError::into_inner).names;
        days.iter().any(|day| !known.contains_key(day))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The partitions that hold a day, oldest first.
///
/// One that is dropped meanwhile is left out: the server still lists it, with nothing for its
/// bounds or its size.
pub(super) async fn partitions(
    connection: &mut PgConnection,
) -> Result<Vec<DayTable>, sqlx::Error> {
    let rows = sqlx::query(PARTITIONS).fetch_all(connection).await?;
    let tables = rows.iter().map(|row| {
        let (day, bytes): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(2)?);
        let Some((day, bytes)) = day.zip(bytes) else { return Ok(None) };
        Ok(Some(DayTable { day, name: row.try_get(1)?, bytes }))
    });
    tables.filter_map(Result::transpose).collect()
}

/// Makes the partition of a day, unless another replica has.
async fn make(connection: &mut PgConnection, day: i64) -> Result<(), sqlx::Error> {
    let (from, to) = (day.saturating_mul(DAY_MS), day.saturating_add(1).saturating_mul(DAY_MS));
    let name = name_of(day);
    let mut transaction = connection.begin().await?;
    wait_briefly(&mut transaction).await?;
    sqlx::raw_sql(LOCK).execute(&mut *transaction).await?;
    if partitions(&mut transaction).await?.iter().any(|table| table.day == day) {
        return transaction.rollback().await;
    }
    // Locks are taken in the order in which ATTACH would take them. A batch that was about to write
    // to `events_other` is refused by its new bounds and tried again.
    let text = format!(
        "CREATE TABLE {name} (LIKE events);
         LOCK TABLE ONLY events IN SHARE UPDATE EXCLUSIVE MODE;
         LOCK TABLE events_other IN ACCESS EXCLUSIVE MODE;
         INSERT INTO {name} SELECT * FROM events_other
             WHERE occurred_at >= {from} AND occurred_at < {to};
         DELETE FROM events_other WHERE occurred_at >= {from} AND occurred_at < {to};
         ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to});"
    );
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *transaction).await?;
    transaction.commit().await
}

async fn drop_day(connection: &mut PgConnection, table: &DayTable) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    wait_briefly(&mut transaction).await?;
    sqlx::raw_sql(LOCK).execute(&mut *transaction).await?;
    // Another replica may have dropped it while this one waited.
    let text = format!("DROP TABLE IF EXISTS {}", table.name);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *transaction).await?;
    transaction.commit().await
}

async fn wait_briefly(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let text = format!("SET LOCAL lock_timeout = {}", LOCK_WAIT.as_millis());
    sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await?;
    Ok(())
}

/// `events_20261111`, or the day's number where its date has no four-digit year.
fn name_of(day: i64) -> String {
    let text = UnixMillis(day.saturating_mul(DAY_MS)).to_rfc3339();
    let digits: String =
        text.chars().take_while(|c| *c != 'T').filter(char::is_ascii_digit).collect();
    if day >= 0 && digits.len() == 8 {
        format!("events_{digits}")
    } else {
        format!("events_day_{}_{}", if day < 0 { "before" } else { "after" }, day.unsigned_abs())
    }
}

/// Whether others hold what is needed: 55P03 a lock was not free in time, 57014 the statement took
/// too long.
fn is_in_the_way(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| code == "55P03" || code == "57014")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::postgres::PostgresStore;
    use super::super::rows::Draft;
    use super::super::test_schema::TestSchema;
    use super::super::{Pool, Store};
    use super::*;
    use crate::domain::classify::summarize;
    use crate::domain::event::Event;
    use crate::domain::stored::{Inserted, NewEvent};

    /// 2026-11-11T07:30:00Z.
    const NOW: UnixMillis = UnixMillis(1_794_382_200_000);

    /// Days with a partition, counted from [`NOW`].
    async fn days_of(place: &mut TestSchema) -> Vec<i64> {
        let found = partitions(&mut place.connection).await.unwrap();
        found.iter().map(|table| table.day - day_of(NOW.0)).collect()
    }

    fn postgres(store: &Store) -> &PostgresStore {
        let Pool::Postgres(store) = &*store.pool else { panic!("not PostgreSQL") };
        store
    }

    fn at(day: i64) -> UnixMillis {
        UnixMillis(NOW.0.saturating_add(day.saturating_mul(DAY_MS)))
    }

    fn draft(id: &str, at: UnixMillis) -> Draft {
        let text = format!(
            r#"{{"event_id":"{id}","attempt":1,"occurred_at":{},"vantage":"client","service":"s",
            "host":"u","status":200,"headers":[],"count":1,"redactions":0}}"#,
            at.0
        );
        let event: Event = serde_json::from_str(&text).unwrap();
        let verdict = summarize(&event.response());
        Draft::new(NewEvent { event, verdict })
    }

    #[tokio::test]
    async fn near_days_get_a_partition_and_far_ones_none() {
        let Some(mut place) = TestSchema::create().await else { return };
        let store = place.store().await;
        let days = [0, -3, 1, -DAYS_BACK, -DAYS_BACK - 1, DAYS_AHEAD + 1, -20_000, 3_000_000];
        let drafts: Vec<Draft> = days.iter().map(|day| draft("a", at(*day))).collect();
        for expected in [Inserted::IdConflict, Inserted::Duplicate] {
            let results = store.insert_drafts(Arc::new(drafts.clone()), NOW).await.unwrap();
            assert!(results.iter().skip(1).all(|result| *result == expected), "{results:?}");
        }
        assert_eq!(days_of(&mut place).await, [-DAYS_BACK, -3, 0, 1, 2]);
        assert_eq!(place.count("events").await, 8);
        assert_eq!(place.count("events_other").await, 4);
        assert_eq!(place.count("events_20261111").await, 1);
        place.drop(&[store]).await;
    }

    #[tokio::test]
    async fn an_id_at_another_time_is_found_a_day_either_side_and_by_the_key_alone() {
        let Some(place) = TestSchema::create().await else { return };
        let (store, other) = (place.store().await, place.store().await);
        let insert = async |store: &Store, id: &str, day: i64| {
            store.insert_drafts(Arc::new(vec![draft(id, at(day))]), NOW).await.unwrap()
        };
        for day in [0, -7, 500] {
            assert_eq!(insert(&store, &format!("x{day}"), day).await, [Inserted::Stored]);
        }
        for (id, day) in [("x0", 1), ("x0", -1), ("x-7", -8), ("x-7", -6), ("x500", -500)] {
            assert_eq!(insert(&other, id, day).await, [Inserted::IdConflict], "{id} {day}");
        }
        assert_eq!(insert(&store, "x0", -4).await, [Inserted::Stored], "further than that");

        // A batch may hold thousands of ids, and a plan may be made while a day is empty.
        let tables = postgres(&store).days.tables(day_of(NOW.0) - 1, day_of(NOW.0) + 30);
        assert_eq!(tables.last().map(String::as_str), Some(OTHER));
        let plan = postgres(&store).explain_stored(&tables).await;
        let by_key = plan.iter().filter(|step| step.contains("_pkey")).count();
        assert_eq!(by_key, tables.len());
        let is_other = |step: &&String| {
            ["Seq Scan", "_idx", "events_by", "Gather"].iter().any(|word| step.contains(word))
        };
        assert_eq!(plan.iter().find(is_other), None);
        place.drop(&[store, other]).await;
    }

    #[tokio::test]
    async fn a_batch_whose_day_another_replica_dropped_is_stored() {
        let Some(mut place) = TestSchema::create().await else { return };
        let (store, other) = (place.store().await, place.store().await);
        let late = || Arc::new(vec![draft("late", at(-5))]);
        assert_eq!(store.insert_drafts(late(), NOW).await.unwrap(), [Inserted::Stored]);
        sqlx::raw_sql("DROP TABLE events_20261106").execute(&mut place.connection).await.unwrap();
        assert_eq!(store.insert_drafts(late(), NOW).await.unwrap(), [Inserted::Stored]);
        assert_eq!(other.insert_drafts(late(), NOW).await.unwrap(), [Inserted::Duplicate]);
        assert_eq!(place.count("events_20261106").await, 1);
        store.close().await.unwrap();
        other.close().await.unwrap();
        place.drop(&[]).await;
    }

    #[tokio::test]
    async fn a_batch_of_many_days_makes_a_few_partitions_and_the_next_goes_on() {
        let Some(mut place) = TestSchema::create().await else { return };
        let store = place.store().await;
        let drafts: Vec<Draft> =
            (-DAYS_BACK..=0).map(|day| draft(&format!("d{day}"), at(day))).collect();
        store.insert_drafts(Arc::new(drafts.clone()), NOW).await.unwrap();
        assert_eq!(days_of(&mut place).await, [-3, -2, -1, 0, 1, 2]);
        let results = store.insert_drafts(Arc::new(drafts.clone()), NOW).await.unwrap();
        assert!(results.iter().all(|result| *result == Inserted::Duplicate));
        assert_eq!(days_of(&mut place).await, [-7, -6, -5, -4, -3, -2, -1, 0, 1, 2]);
        assert_eq!(place.count("events_other").await, DAYS_BACK + 1 - 8);
        assert_eq!(place.count("events").await, DAYS_BACK + 1);
        place.drop(&[store]).await;
    }

    #[tokio::test]
    async fn events_of_the_future_move_to_their_day_when_it_comes() {
        let Some(mut place) = TestSchema::create().await else { return };
        let store = place.store().await;
        let early = [draft("early", at(10)), draft("other", at(90))];
        store.insert_drafts(Arc::new(early.to_vec()), NOW).await.unwrap();
        assert_eq!(place.count("events_other").await, 2);
        store.insert_drafts(Arc::new(vec![draft("later", at(9))]), at(9)).await.unwrap();
        assert_eq!(days_of(&mut place).await, [0, 1, 2, 9, 10, 11]);
        assert_eq!(place.count("events_20261121").await, 1);
        assert_eq!(place.count("events_other").await, 1);
        let again = store.insert_drafts(Arc::new(early.to_vec()), at(9)).await.unwrap();
        assert_eq!(again, [Inserted::Duplicate, Inserted::Duplicate]);
        place.drop(&[store]).await;
    }

    #[tokio::test]
    async fn replicas_make_the_same_days_at_once() {
        let Some(mut place) = TestSchema::create().await else { return };
        let stores = [place.store().await, place.store().await, place.store().await];
        let mut tasks = tokio::task::JoinSet::new();
        for (n, store) in stores.iter().enumerate() {
            for day in -3..=0_i64 {
                let store = store.clone();
                tasks.spawn(async move {
                    let drafts = [draft("same", at(day)), draft(&format!("{n}"), at(day))];
                    store.insert_drafts(Arc::new(drafts.to_vec()), NOW).await.unwrap();
                });
            }
        }
        tasks.join_all().await;
        assert_eq!(days_of(&mut place).await, [-3, -2, -1, 0, 1, 2]);
        assert_eq!(place.count("events").await, 4 + 12);
        assert_eq!(place.count("events_other").await, 0);
        place.drop(&stores).await;
    }

    #[tokio::test]
    async fn a_partition_that_cannot_be_made_now_is_made_later() {
        let Some(mut place) = TestSchema::create().await else { return };
        let (store, other) = (place.store().await, place.store().await);
        let mut holder = PgConnection::connect(&place.url).await.unwrap();
        let mut held = holder.begin().await.unwrap();
        sqlx::query("SELECT COUNT(*) FROM events_other").execute(&mut *held).await.unwrap();
        let stored = store.insert_drafts(Arc::new(vec![draft("a", NOW)]), NOW).await.unwrap();
        assert_eq!(stored, [Inserted::Stored]);
        assert_eq!(place.count("events_other").await, 1);
        held.rollback().await.unwrap();
        let again = other
            .insert_drafts(Arc::new(vec![draft("a", NOW), draft("b", NOW)]), NOW)
            .await
            .unwrap();
        assert_eq!(again, [Inserted::Duplicate, Inserted::Stored]);
        assert_eq!(place.count("events_20261111").await, 2);
        assert_eq!(place.count("events_other").await, 0);
        place.drop(&[store, other]).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_batch_that_meets_the_making_of_its_day_is_stored_once() {
        let Some(mut place) = TestSchema::create().await else { return };
        let (maker, writer) = (place.store().await, place.store().await);
        // This one makes nothing itself, so that its rows are on the way to `events_other`.
        *postgres(&writer).days.making.lock().await = Some(Instant::now() + REST);
        let write = async {
            for n in 0..60 {
                let drafts: Vec<Draft> =
                    (-19..=0).map(|day| draft(&format!("w{n}"), at(day))).collect();
                writer.insert_drafts(Arc::new(drafts.clone()), NOW).await.unwrap();
            }
        };
        let make = async {
            for day in (-19..=0).rev() {
                maker.insert_drafts(Arc::new(vec![draft("m", at(day))]), NOW).await.unwrap();
            }
        };
        tokio::join!(write, make);
        assert_eq!(place.count("events").await, 61 * 20);
        assert_eq!(place.count("events_other").await, 0);
        place.drop(&[maker, writer]).await;
    }

    #[tokio::test]
    async fn old_days_are_dropped_with_what_has_no_day() {
        let Some(mut place) = TestSchema::create().await else { return };
        let store = place.store().await;
        let days = [-4, -3, 0, -900, 900];
        let drafts: Vec<Draft> = days.iter().map(|day| draft("a", at(*day))).collect();
        store.insert_drafts(Arc::new(drafts.clone()), NOW).await.unwrap();
        let today = day_of(NOW.0);
        let sizes = postgres(&store).days().await.unwrap();
        assert!(sizes.iter().all(|table| table.bytes > 0), "{sizes:?}");

        let mut holder = PgConnection::connect(&place.url).await.unwrap();
        let mut held = holder.begin().await.unwrap();
        sqlx::query("SELECT COUNT(*) FROM events_20261108").execute(&mut *held).await.unwrap();
        let dropped = postgres(&store).drop_days_before(today - 2).await.unwrap();
        assert_eq!(dropped, Dropped { days: 1, others: 1, is_partial: true });
        held.rollback().await.unwrap();
        let dropped = postgres(&store).drop_days_before(today - 2).await.unwrap();
        assert_eq!(dropped, Dropped { days: 1, others: 0, is_partial: false });
        assert_eq!(days_of(&mut place).await, [0, 1, 2]);
        assert_eq!(place.count("events").await, 2);

        // A day that comes back gets its partition again.
        store.insert_drafts(Arc::new(vec![draft("late", at(-3))]), NOW).await.unwrap();
        assert_eq!(days_of(&mut place).await, [-3, 0, 1, 2]);
        store.close().await.unwrap();
        let recounted = place.store().await;
        assert_eq!(recounted.recount().await.unwrap().events, 3);
        recounted.close().await.unwrap();
        place.drop(&[]).await;
    }

    #[tokio::test]
    async fn a_day_dropped_while_the_days_are_read_is_left_out() {
        let Some(place) = TestSchema::create().await else { return };
        let store = place.store().await;
        store.insert_drafts(Arc::new(vec![draft("a", at(-3))]), NOW).await.unwrap();
        let mut reader = PgConnection::connect(&place.url).await.unwrap();
        let mut reading = reader.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        let listed = partitions(&mut reading).await.unwrap();
        postgres(&store).drop_days_before(day_of(NOW.0)).await.unwrap();
        // This transaction sees the list as it was, as a question does that began before.
        let left = partitions(&mut reading).await.unwrap();
        assert_eq!(left, listed[1..]);
        assert_eq!(left.len(), 3);
        reading.rollback().await.unwrap();
        store.close().await.unwrap();
        place.drop(&[]).await;
    }

    #[test]
    fn partitions_are_named_after_their_date() {
        for (day, name) in [
            (day_of(NOW.0), "events_20261111"),
            (0, "events_19700101"),
            (-1, "events_day_before_1"),
            (4_000_000, "events_day_after_4000000"),
        ] {
            assert_eq!(name_of(day), name);
        }
    }
}
