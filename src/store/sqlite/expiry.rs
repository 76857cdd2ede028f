//! What is old goes, and the file shrinks: in small steps between the batches of the writer.
//!
//! A step is one short transaction. It removes events in the order of time, each with its entries
//! in `ids`, so that between two steps everything fits together; then sums, then names that nothing
//! uses any more. The entries in a slice that was made of others go all at once after its last event
//! (`merge`), since one by one they would touch a page each. Pages that became free are used again by what comes in; where they are more than
//! that needs, or more than the disk budget, they are given back from the end of the file.

use super::merge;
use super::slices::Slices;
use super::verify;
use super::writer::{Writer, data_version};
use crate::domain::stored::History;
use crate::domain::time::{HOUR_MS, UnixMillis};
use crate::store::StoreError;
use crate::store::gather::{self, Sheaf};
use crate::store::kept::{self, Keep, Tidied, What};
use crate::store::sums::{self, Sums};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a step takes rows away before it commits.
const STEP: Duration = Duration::from_millis(12);
/// Events that are removed between two looks at the time.
const EVENTS_AT_ONCE: i64 = 100;
/// The same for rows of sums.
const SUMS_AT_ONCE: i64 = 500;
/// Pages given back between two looks at the time.
const PAGES_AT_ONCE: i64 = 16;
/// Free pages that a file keeps for what comes in: this many and one of sixteen.
const SPARE_PAGES: i64 = 256;
/// Of what the disk budget allows, what is left when it has removed enough: 19 of 20.
const SLACK: u64 = 20;
/// A write-ahead log larger than this is emptied when nobody writes; in bytes.
const LARGE_LOG: u64 = 4 << 20;
/// How long nobody may have written then.
const IDLE: Duration = Duration::from_secs(20);

/// How far the removal of what is old has come.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// When a batch was last stored.
    written: Option<Instant>,
    /// Whether the disk budget was used up and the slack is not reached yet.
    is_over_budget: bool,
    /// The table of names that is looked through, and the number it has come to.
    names: Option<(usize, i64)>,
    /// The day for which all names were looked through.
    names_done: Option<i64>,
}

impl Expiry {
    /// Notes that a batch was stored.
    pub(super) fn wrote(&mut self) {
        self.written = Some(Instant::now());
    }
}

/// Pages of the file.
struct Pages {
    all: i64,
    free: i64,
    bytes: i64,
}

impl Pages {
    fn read(connection: &Connection) -> Result<Self, StoreError> {
        let number = |pragma: &str| -> Result<i64, StoreError> {
            Ok(connection.prepare_cached(pragma)?.query_one([], |row| row.get(0))?)
        };
        Ok(Self {
            all: number("PRAGMA page_count")?,
            free: number("PRAGMA freelist_count")?,
            bytes: number("PRAGMA page_size")?,
        })
    }

    fn used_bytes(&self) -> u64 {
        ((self.all - self.free) * self.bytes).unsigned_abs()
    }

    fn file_bytes(&self) -> u64 {
        (self.all * self.bytes).unsigned_abs()
    }
}

/// The table `kept`.
pub(super) fn read(connection: &Connection) -> Result<History, StoreError> {
    let mut statement = connection.prepare_cached(kept::READ)?;
    let rows = statement.query_map([], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
    })?;
    kept::history(&rows.collect::<Result<Vec<_>, _>>()?)
}

impl Writer {
    /// One step.
    pub(super) fn tidy(&mut self, keep: &Keep, now: UnixMillis) -> Result<Tidied, StoreError> {
        if self.remove(keep, now)? || self.spend_budget(keep, now)? || self.give_back(keep)? {
            return Ok(Tidied::More);
        }
        self.empty_log()?;
        Ok(Tidied::Done)
    }

    /// Gathers the sums of one stretch of receipt that is over; whether there was one.
    pub(super) fn gather(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let kept = read(&transaction)?;
        let next: Option<(i64, i64)> = transaction
            .prepare_cached(gather::NEXT)?
            .query_one(gather::next_after(&kept, gather::over_at(now)), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((received, start)) = next else { return Ok(false) };
        let sheaf = Sheaf::of_stretch(received, start);
        for text in sheaf.statements() {
            transaction.execute(&text, [])?;
        }
        let mark = sheaf.mark();
        let values = params![mark.received.0, mark.start.0];
        transaction.prepare_cached(gather::MOVE)?.execute(values)?;
        transaction.commit()?;
        self.kept.gathered = mark;
        Ok(true)
    }

    /// Removes some of what is older than is kept; whether there was any.
    fn remove(&mut self, keep: &Keep, now: UnixMillis) -> Result<bool, StoreError> {
        let end = Instant::now() + STEP;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = data_version(&transaction)?;
        if version != self.version {
            self.slices = Slices::read(&transaction, self.slices.full())?;
            self.kept = read(&transaction)?;
            self.known.clear();
            self.version = version;
        }
        let mut moved = false;
        for (what, old) in [(What::Events, self.kept.events), (What::Sums, self.kept.sums)] {
            let since = kept::by_age(keep, what, now, HOUR_MS);
            if old.since < since {
                advance(&transaction, &self.kept, what, since, false)?;
                moved = true;
            }
        }
        let kept = if moved { read(&transaction)? } else { self.kept };
        let mut slices = self.slices.clone();
        let events = remove_events(&transaction, &mut slices, kept.events.since, end)?;
        let ids = merge::remove_ids(&transaction, &mut slices, end)?;
        let mut sums = [0; 2];
        for (table, what) in kept::SUMS {
            let before = sums::minute(kept_of(&kept, what).since);
            sums[place(what)] += remove_sums(&transaction, table, "", before, end)?;
        }
        for (width, what) in kept::SPANS {
            let before = sums::minute(kept_of(&kept, what).since);
            let only = format!("width = {width} AND ");
            sums[place(what)] += remove_sums(&transaction, SPANS_BY_START, &only, before, end)?;
        }
        let mut found = moved || events > 0 || ids || sums != [0; 2];
        let day = kept::names_since(&kept);
        let mut names = self.expiry.names;
        // Once nothing uses them any more.
        if !found && let Some(begin) = self.expiry.next_names(day) {
            names = remove_names(&transaction, begin, day, end)?;
            found = true;
            if names.is_none() {
                self.expiry.names_done = Some(day);
            }
        }
        for (what, removed) in [(What::Events, events), (What::Sums, sums[1])] {
            if removed > 0 {
                let for_budget = if kept_of(&kept, what).is_for_budget() { removed } else { 0 };
                transaction.prepare_cached(kept::COUNT_REMOVED)?.execute(params![
                    removed,
                    for_budget,
                    what.word()
                ])?;
            }
        }
        if found {
            transaction.commit()?;
            if moved {
                tracing::info!(
                    events_since = %kept.events.since.to_rfc3339(),
                    hours_since = %kept.sums.since.to_rfc3339(),
                    "what is older is not kept any more"
                );
            }
        } else {
            transaction.rollback()?;
        }
        self.expiry.names = names;
        self.kept = kept;
        self.slices = slices;
        Ok(found)
    }

    /// Where the data takes more than it may: lets its oldest part go. Whether it did.
    fn spend_budget(&mut self, keep: &Keep, now: UnixMillis) -> Result<bool, StoreError> {
        let Some(max) = keep.max_bytes else { return Ok(false) };
        let used = Pages::read(&self.connection)?.used_bytes();
        let limit = if self.expiry.is_over_budget { max - max / SLACK } else { max };
        let was_over = std::mem::replace(&mut self.expiry.is_over_budget, used > limit);
        if used <= limit {
            return Ok(false);
        }
        let oldest = UnixMillis(self.slices.end_of_oldest(self.kept.events.since.0));
        let Some((what, since)) = kept::by_budget(&self.kept, now, oldest) else {
            if !was_over {
                tracing::warn!(
                    used_bytes = used,
                    max_bytes = max,
                    "the last hour alone takes more than max_bytes allows; nothing more is removed"
                );
            }
            return Ok(false);
        };
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        advance(&transaction, &self.kept, what, since, true)?;
        let kept = read(&transaction)?;
        transaction.commit()?;
        self.kept = kept;
        tracing::warn!(
            used_bytes = used,
            max_bytes = max,
            since = %since.to_rfc3339(),
            "the disk budget is used up: {} before {} are removed",
            what.word(),
            since.to_rfc3339()
        );
        Ok(true)
    }

    /// Gives some free pages back, where there are more than what comes in needs; whether it did.
    fn give_back(&mut self, keep: &Keep) -> Result<bool, StoreError> {
        let end = Instant::now() + STEP;
        let before = Pages::read(&self.connection)?;
        let spare = SPARE_PAGES + before.all / 16;
        let is_over = keep.max_bytes.is_some_and(|max| before.file_bytes() > max);
        if before.free == 0 || (before.free <= spare && !is_over) {
            return Ok(false);
        }
        let mut more = if is_over { before.free } else { before.free - spare };
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        while more > 0 && Instant::now() < end {
            let mut some = transaction
                .prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
            let mut rows = some.query([])?;
            // A page is given back with each row.
            while rows.next()?.is_some() {}
            more -= PAGES_AT_ONCE;
        }
        transaction.commit()?;
        // A file that was made without `auto_vacuum` keeps its size.
        Ok(Pages::read(&self.connection)?.all < before.all)
    }

    /// Empties a large write-ahead log when nobody writes and nobody reads.
    fn empty_log(&self) -> Result<(), StoreError> {
        let is_idle = self.expiry.written.is_none_or(|written| written.elapsed() >= IDLE);
        let log = self.connection.path().map(|file| format!("{file}-wal"));
        let bytes = log.and_then(|log| std::fs::metadata(log).ok()).map_or(0, |log| log.len());
        if !is_idle || bytes < LARGE_LOG {
            return Ok(());
        }
        // Without waiting for readers: it is tried again.
        let limit: i64 = self.connection.query_one("PRAGMA busy_timeout", [], |row| row.get(0))?;
        self.connection.busy_timeout(Duration::ZERO)?;
        let done = self.connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.connection.busy_timeout(Duration::from_millis(limit.unsigned_abs()))?;
        Ok(done?)
    }
}

impl Expiry {
    /// Where to go on with looking through the names; begins anew where a day ended.
    fn next_names(&self, day: i64) -> Option<(usize, i64)> {
        self.names.or_else(|| (self.names_done != Some(day)).then_some((0, i64::MIN)))
    }
}

/// Spans as they are removed.
const SPANS_BY_START: Sums =
    Sums { table: "spans", columns: &["start", "width", "received"], keys: 3 };

fn place(what: What) -> usize {
    usize::from(what == What::Sums)
}

fn kept_of(kept: &History, what: What) -> crate::domain::stored::Since {
    match what {
        What::Events => kept.events,
        What::Sums => kept.sums,
    }
}

/// Writes down that a kind is kept from `since` on. Fine sums that go are in those of hours then.
fn advance(
    transaction: &Transaction<'_>,
    kept: &History,
    what: What,
    since: UnixMillis,
    is_for_budget: bool,
) -> Result<(), StoreError> {
    if what == What::Events {
        for text in Sheaf::of_past(since, kept).statements() {
            transaction.execute(&text, [])?;
        }
    }
    let last: Option<i64> = transaction
        .prepare_cached(kept::LAST_RECEIVED_OF)?
        .query_one(params![sums::minute(since)], |row| row.get(0))?;
    let budget = if is_for_budget { since.0 } else { i64::MIN };
    let values = params![since.0, kept::received_since(last), budget, what.word()];
    transaction.prepare_cached(kept::ADVANCE)?.execute(values)?;
    Ok(())
}

/// Removes events that happened before `since`, oldest first, with their ids, until `end`.
fn remove_events(
    transaction: &Transaction<'_>,
    slices: &mut Slices,
    since: UnixMillis,
    end: Instant,
) -> Result<i64, StoreError> {
    let mut find = transaction.prepare_cached(
        "SELECT id, occurred_at, event_id, operation_id, request_id, ray_id, trace_id \
         FROM events WHERE occurred_at < ?1 ORDER BY occurred_at LIMIT ?2",
    )?;
    let mut remove = transaction.prepare_cached("DELETE FROM events WHERE id = ?1")?;
    let mut forget =
        transaction.prepare_cached("DELETE FROM ids WHERE slice = ?1 AND key = ?2 AND id = ?3")?;
    let mut removed = 0;
    while Instant::now() < end {
        let mut events: Vec<i64> = Vec::new();
        let mut entries: Vec<(i64, i64, i64)> = Vec::new();
        let mut by_slice: BTreeMap<usize, i64> = BTreeMap::new();
        let mut rows = find.query(params![since.0, EVENTS_AT_ONCE])?;
        while let Some(row) = rows.next()? {
            let (id, place) = (row.get(0)?, slices.at(row.get(1)?));
            events.push(id);
            *by_slice.entry(place).or_default() += 1;
            let slice = slices.id(place);
            if !slices.keeps_entries(place) {
                verify::keys(row, 2, |key| entries.push((slice, key, id)))?;
            }
        }
        if events.is_empty() {
            break;
        }
        removed += i64::try_from(events.len()).unwrap_or_default();
        events.sort_unstable();
        entries.sort_unstable();
        entries.dedup();
        for id in events {
            remove.execute(params![id])?;
        }
        for (slice, key, id) in entries {
            forget.execute(params![slice, key, id])?;
        }
        slices.shrink(transaction, &by_slice)?;
    }
    slices.forget(transaction, since.0)?;
    Ok(removed)
}

/// Removes rows of sums of stretches that begin before a minute, until `end`.
fn remove_sums(
    transaction: &Transaction<'_>,
    sums: Sums,
    only: &str,
    before: i64,
    end: Instant,
) -> Result<i64, StoreError> {
    let table = sums.table;
    let keys = sums.columns.get(..sums.keys).unwrap_or_default().join(", ");
    let start = sums.columns.first().copied().unwrap_or_default();
    let mut remove = transaction.prepare_cached(&format!(
        "DELETE FROM {table} WHERE ({keys}) IN \
         (SELECT {keys} FROM {table} WHERE {only}{start} < ?1 LIMIT ?2)"
    ))?;
    let mut removed = 0;
    while Instant::now() < end {
        let some = remove.execute(params![before, SUMS_AT_ONCE])?;
        removed += i64::try_from(some).unwrap_or_default();
        if some == 0 {
            break;
        }
    }
    Ok(removed)
}

/// Removes names that were last used before a day, until `end`; where to go on.
fn remove_names(
    transaction: &Transaction<'_>,
    begin: (usize, i64),
    since: i64,
    end: Instant,
) -> Result<Option<(usize, i64)>, StoreError> {
    let mut names = Some(begin);
    while let Some((at, after)) = names
        && let Some(table) = kept::NAMES.get(at)
        && Instant::now() < end
    {
        let last: Option<i64> = transaction
            .prepare_cached(&format!(
                "SELECT MAX(id) FROM (SELECT id FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2)"
            ))?
            .query_one(params![after, kept::NAMES_AT_ONCE], |row| row.get(0))?;
        names = match last {
            None => Some((at + 1, i64::MIN)),
            Some(last) => {
                transaction
                    .prepare_cached(&format!(
                        // The last one stays: SQLite would give its number again, which readers
                        // know by its old name.
                        "DELETE FROM {table} WHERE id > ?1 AND id <= ?2 AND used_on < ?3 \
                         AND id < (SELECT MAX(id) FROM {table})"
                    ))?
                    .execute(params![after, last, since])?;
                Some((at, last))
            }
        };
    }
    Ok(names.filter(|(at, _)| *at < kept::NAMES.len()))
}
