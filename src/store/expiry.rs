//! What is old goes, on PostgreSQL: whole days of events, then sums and names in chunks.
//!
//! Any replica may do it at any time. The moment before which nothing is kept is in a row that every
//! batch holds while it is written, so that a batch is either checked against the new moment, or is
//! committed before anything is removed.

use super::StoreError;
use super::days::{self, Dropped};
use super::gather::{self, Sheaf};
use super::kept::{self, Keep, Tidied, What};
use super::postgres::{ATTEMPTS, PostgresStore, is_broken_off};
use super::sums;
use crate::domain::stored::{Gathered, History};
use crate::domain::time::{DAY_MS, HOUR_MS, UnixMillis};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

/// Rows of sums that one statement deletes.
const ROWS_AT_ONCE: i64 = 20_000;

/// Holds the rows of the events and of what is gathered until the transaction ends, so that they
/// can't move.
const HOLD: &str = "SELECT since, received_since FROM kept WHERE what IN ('events', 'gathered') ORDER BY what FOR SHARE";
/// Holds all, to move them.
const HOLD_ALL: &str = "SELECT 1 FROM kept ORDER BY what FOR UPDATE";
/// Bytes on disk of all our tables, indexes in.
const BYTES: &str = "\
SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c \
WHERE c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'events'::regclass) \
OR c.oid IN ('series'::regclass, 'classes'::regclass, 'words'::regclass, 'spans'::regclass, \
'minute_counts'::regclass, 'slot_counts'::regclass, 'hour_counts'::regclass, \
'class_counts'::regclass, 'class_hours'::regclass, 'actor_counts'::regclass, \
'actor_hours'::regclass, 'wait_counts'::regclass, 'wait_hours'::regclass)";
/// How many rows the statistics say that some tables have; one that is gone has none.
const ESTIMATE: &str = "\
SELECT CAST(COALESCE(SUM(GREATEST(reltuples, 0)), 0) AS BIGINT) FROM pg_class \
WHERE oid IN (SELECT to_regclass(name) FROM unnest($1::text[]) AS t (name))";

/// Since when events are kept, and up to when sums are gathered; neither can move before the
/// transaction ends.
pub(super) async fn hold(
    connection: &mut PgConnection,
) -> Result<(UnixMillis, Gathered), StoreError> {
    let rows = sqlx::query(HOLD).fetch_all(connection).await?;
    let [events, gathered] = rows.as_slice() else { return Err(kept::missing()) };
    let moment = |row: &sqlx::postgres::PgRow, at: usize| row.try_get(at).map(UnixMillis);
    let done = Gathered { received: moment(gathered, 0)?, start: moment(gathered, 1)? };
    Ok((moment(events, 0)?, done))
}

/// A step, done again where the database broke it off to let another one go on.
macro_rules! again {
    ($step:expr) => {{
        let mut attempt = 1;
        loop {
            match $step {
                Err(StoreError::Database(cause))
                    if attempt < ATTEMPTS && is_broken_off(&*cause) =>
                {
                    attempt += 1;
                }
                done => break done,
            }
        }
    }};
}

impl PostgresStore {
    /// Removes what is older than is kept. Done in one go: others can write meanwhile. Tried again
    /// where the database broke it off to let one of them go on.
    pub(super) async fn tidy(&self, keep: Keep, now: UnixMillis) -> Result<Tidied, StoreError> {
        again!(self.tidy_once(keep, now).await)
    }

    /// Gathers the sums of one stretch that is over; whether there was one.
    pub(super) async fn gather(&self, now: UnixMillis) -> Result<bool, StoreError> {
        again!(self.gather_once(now).await)
    }

    async fn gather_once(&self, now: UnixMillis) -> Result<bool, StoreError> {
        let mut connection = self.writers.acquire().await?;
        gather(&mut connection, now).await
    }

    async fn tidy_once(&self, keep: Keep, now: UnixMillis) -> Result<Tidied, StoreError> {
        let mut connection = self.writers.acquire().await?;
        let kept = advance_by_age(&mut connection, &keep, now).await?;
        let is_partial = self.remove_events(&mut connection, &kept).await?;
        let mut removed = 0;
        for (sums, what) in kept::SUMS {
            let start = sums.columns.first().copied().unwrap_or_default();
            let n = remove_rows(&mut connection, sums.table, start, before(&kept, what)).await?;
            removed += if what == What::Sums { n } else { 0 };
        }
        for (width, what) in kept::SPANS {
            let start = format!("width = {width} AND start");
            let n = remove_rows(&mut connection, "spans", &start, before(&kept, what)).await?;
            removed += if what == What::Sums { n } else { 0 };
        }
        count_removed(&mut connection, What::Sums, removed, false).await?;
        if is_partial {
            return Ok(Tidied::Done);
        }
        self.remove_names(&mut connection, kept::names_since(&kept)).await?;
        self.spend_budget(&mut connection, &keep, now).await
    }

    /// Removes the events that are not kept; whether some are left because somebody uses their day.
    async fn remove_events(
        &self,
        connection: &mut PgConnection,
        kept: &History,
    ) -> Result<bool, StoreError> {
        if !kept.events.is_limited() {
            return Ok(false);
        }
        let day = days::day_of(kept.events.since.0);
        let old = self.days().await?;
        let names: Vec<String> =
            old.into_iter().filter(|table| table.day < day).map(|table| table.name).collect();
        let row = sqlx::query(ESTIMATE).bind(&names).fetch_one(&mut *connection).await?;
        let estimate: i64 = row.try_get(0)?;
        let Dropped { days, others, is_partial } = self.drop_days_before(day).await?;
        let others = i64::try_from(others).unwrap_or(i64::MAX);
        if days > 0 || others > 0 {
            tracing::info!(
                days,
                others,
                since = %kept.events.since.to_rfc3339(),
                "events of old days were dropped"
            );
            let removed = estimate.saturating_add(others);
            let for_budget = kept.events.is_for_budget();
            count_removed(connection, What::Events, removed, for_budget).await?;
        }
        Ok(is_partial)
    }

    /// Removes names that were last used before a day, once for each such day.
    async fn remove_names(
        &self,
        connection: &mut PgConnection,
        since: i64,
    ) -> Result<(), StoreError> {
        let done = self.names_done.swap(since, std::sync::atomic::Ordering::Relaxed);
        if done == since {
            return Ok(());
        }
        for table in kept::NAMES {
            let last = format!("SELECT COALESCE(MAX(id), 0) FROM {table}");
            let row = sqlx::query(AssertSqlSafe(last)).fetch_one(&mut *connection).await?;
            let last: i64 = row.try_get(0)?;
            // A name that a batch is about to use is left alone.
            let text = format!(
                "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id > $1 \
                 AND id <= $2 AND used_on < $3 FOR UPDATE SKIP LOCKED)"
            );
            let mut after = 0;
            while after < last {
                let to = after.saturating_add(kept::NAMES_AT_ONCE);
                let query = sqlx::query(AssertSqlSafe(text.clone()));
                query.bind(after).bind(to).bind(since).execute(&mut *connection).await?;
                after = to;
            }
        }
        Ok(())
    }

    /// Where the data takes more than it may: lets its oldest day go.
    async fn spend_budget(
        &self,
        connection: &mut PgConnection,
        keep: &Keep,
        now: UnixMillis,
    ) -> Result<Tidied, StoreError> {
        let Some(max) = keep.max_bytes else { return Ok(Tidied::Done) };
        let mut transaction = connection.begin().await?;
        // One replica at a time; it finds all older days dropped, or leaves them to be dropped.
        sqlx::query(HOLD_ALL).fetch_all(&mut *transaction).await?;
        let kept = read(&mut transaction).await?;
        let row = sqlx::query(BYTES).fetch_one(&mut *transaction).await?;
        let used = row.try_get::<i64, _>(0)?.unsigned_abs();
        let tables = days::partitions(&mut transaction).await?;
        let Some(oldest) = tables.first().filter(|_| used > max) else {
            return Ok(Tidied::Done);
        };
        if oldest.day < days::day_of(kept.events.since.0) {
            return Ok(Tidied::Done);
        }
        let today = days::day_of(now.0);
        if oldest.day >= today {
            tracing::warn!(
                used_bytes = used,
                max_bytes = max,
                "today's events and the sums alone take more than max_bytes allows; nothing more \
                 is removed"
            );
            return Ok(Tidied::Done);
        }
        let since = UnixMillis(oldest.day.saturating_add(1).saturating_mul(DAY_MS));
        advance(&mut transaction, What::Events, since, true).await?;
        transaction.commit().await?;
        tracing::warn!(
            used_bytes = used,
            max_bytes = max,
            since = %since.to_rfc3339(),
            "the disk budget is used up: events before {} are removed",
            since.to_rfc3339()
        );
        Ok(Tidied::More)
    }
}

/// Gathers the sums of one stretch of receipt that is over; whether there was one.
async fn gather(connection: &mut PgConnection, now: UnixMillis) -> Result<bool, StoreError> {
    let over = gather::over_at(now);
    let next = async |connection: &mut PgConnection, kept: &History| {
        let query = gather::next_after(kept, over)
            .into_iter()
            .fold(sqlx::query(gather::NEXT), sqlx::query::Query::bind);
        let row = query.fetch_optional(connection).await?;
        row.map(|row| Ok::<_, sqlx::Error>((row.try_get(0)?, row.try_get(1)?))).transpose()
    };
    // Nobody is held up for nothing.
    let kept = read(connection).await?;
    if next(connection, &kept).await?.is_none() {
        return Ok(false);
    }
    let mut transaction = connection.begin().await?;
    sqlx::query(HOLD_ALL).fetch_all(&mut *transaction).await?;
    let kept = read(&mut transaction).await?;
    // Another replica may have been first.
    let Some((received, start)) = next(&mut transaction, &kept).await? else { return Ok(true) };
    let sheaf = Sheaf::of_stretch(received, start);
    for text in sheaf.statements() {
        sqlx::query(AssertSqlSafe(text)).persistent(false).execute(&mut *transaction).await?;
    }
    let Gathered { received, start } = sheaf.mark();
    let query = sqlx::query(gather::MOVE).bind(received.0).bind(start.0);
    query.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The first minute of which a kind is kept.
fn before(kept: &History, what: What) -> i64 {
    sums::minute(match what {
        What::Events => kept.events.since,
        What::Sums => kept.sums.since,
    })
}

/// The table `kept`.
async fn read(connection: &mut PgConnection) -> Result<History, StoreError> {
    let rows = sqlx::query(kept::READ).fetch_all(connection).await?;
    let read = |row: &sqlx::postgres::PgRow| {
        let number = |at: usize| row.try_get(at);
        Ok::<_, StoreError>([number(0)?, number(1)?, number(2)?, number(3)?, number(4)?])
    };
    kept::history(&rows.iter().map(read).collect::<Result<Vec<_>, _>>()?)
}

/// Moves the beginning of what is kept to where its age asks for it.
async fn advance_by_age(
    connection: &mut PgConnection,
    keep: &Keep,
    now: UnixMillis,
) -> Result<History, StoreError> {
    let kept = read(connection).await?;
    let events = kept::by_age(keep, What::Events, now, DAY_MS);
    let sums = kept::by_age(keep, What::Sums, now, HOUR_MS).min(events);
    if kept.events.since >= events && kept.sums.since >= sums {
        return Ok(kept);
    }
    let mut transaction = connection.begin().await?;
    sqlx::query(HOLD_ALL).fetch_all(&mut *transaction).await?;
    advance(&mut transaction, What::Events, events, false).await?;
    advance(&mut transaction, What::Sums, sums, false).await?;
    let kept = read(&mut transaction).await?;
    transaction.commit().await?;
    Ok(kept)
}

/// Writes down that a kind is kept from `since` on, in a transaction that holds its row: all that
/// was taken before is there to be seen.
async fn advance(
    connection: &mut PgConnection,
    what: What,
    since: UnixMillis,
    is_for_budget: bool,
) -> Result<(), StoreError> {
    if what == What::Events {
        let kept = read(connection).await?;
        for text in Sheaf::of_past(since, &kept).statements() {
            sqlx::query(AssertSqlSafe(text)).persistent(false).execute(&mut *connection).await?;
        }
    }
    let last = sqlx::query(kept::LAST_RECEIVED_OF)
        .bind(sums::minute(since))
        .fetch_one(&mut *connection)
        .await?;
    sqlx::query(kept::ADVANCE)
        .bind(since.0)
        .bind(kept::received_since(last.try_get(0)?))
        .bind(if is_for_budget { since.0 } else { i64::MIN })
        .bind(what.word())
        .execute(connection)
        .await?;
    Ok(())
}

async fn count_removed(
    connection: &mut PgConnection,
    what: What,
    removed: i64,
    for_budget: bool,
) -> Result<(), StoreError> {
    if removed > 0 {
        sqlx::query(kept::COUNT_REMOVED)
            .bind(removed)
            .bind(if for_budget { removed } else { 0 })
            .bind(what.word())
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// Deletes rows of a table whose `start` is before a minute, in chunks; how many.
async fn remove_rows(
    connection: &mut PgConnection,
    table: &str,
    start: &str,
    before: i64,
) -> Result<i64, StoreError> {
    let text = format!(
        "DELETE FROM {table} WHERE ctid = ANY(ARRAY(\
         SELECT ctid FROM {table} WHERE {start} < $1 LIMIT $2))"
    );
    let mut removed = 0;
    loop {
        let query = sqlx::query(AssertSqlSafe(text.clone())).bind(before).bind(ROWS_AT_ONCE);
        let n = query.execute(&mut *connection).await?.rows_affected();
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        removed += n;
        if n < ROWS_AT_ONCE {
            return Ok(removed);
        }
    }
}
