//! Is the file whole, and is every event found by each of its ids? And mending what is not.
//!
//! Reads one snapshot through a connection of its own, so that a running service goes on.

use super::expiry;
use super::ids;
use super::slices::{self, Slice, Slices};
use super::writer::{Writer, data_version};
use crate::domain::time::UnixMillis;
use crate::store::StoreError;
use crate::store::verify::IdFault;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use std::path::Path;

/// Faults of the file that are told at most.
const FAULTS: usize = 20;

/// The events of a stretch with their ids.
const IDS_OF: &str = "\
SELECT id, event_id, operation_id, request_id, ray_id, trace_id FROM events \
WHERE occurred_at >= ?1 AND occurred_at < ?2";

/// What SQLite says of the file, nothing where it is whole; and each slice whose ids don't fit.
pub(super) fn verify(file: &Path) -> Result<(Vec<String>, Vec<IdFault>), StoreError> {
    let connection = Connection::open(file)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -65536; BEGIN;")?;
    let mut damage: Vec<String> = connection
        .prepare(&format!("PRAGMA integrity_check({FAULTS})"))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    damage.retain(|line| line != "ok");
    let slices = Slices::read(&connection, slices::FULL)?;
    if !follows(slices.list()) {
        damage.push("the stretches in slices leave gaps or overlap".to_owned());
    }
    let since = expiry::read(&connection)?.events.since;
    let mut faults = Vec::new();
    for slice in slices.list() {
        let Slice { id, from, to, events, level, .. } = *slice;
        let (wanted, found_events) = entries(&connection, from, to)?;
        let mut read = connection.prepare_cached(ENTRIES_OF)?;
        let mut found: Vec<(i64, i64)> = read
            .query_map(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        found.sort_unstable();
        if level > 0 && from < since.0 {
            // The entries of events that were removed may stay.
            let mut events: Vec<i64> = wanted.iter().map(|(_, event)| *event).collect();
            events.sort_unstable();
            found.retain(|(_, event)| events.binary_search(event).is_ok());
        }
        let fault = IdFault {
            slice: Some(id),
            from: UnixMillis(from),
            missing: beyond(&wanted, &found),
            orphans: beyond(&found, &wanted),
            events: events - found_events,
        };
        faults.extend(fault.is_one().then_some(fault));
    }
    let strays: i64 =
        connection.query_one(&format!("SELECT COUNT(*) {STRAYS}"), [], |row| row.get(0))?;
    if strays > 0 {
        let from = UnixMillis(i64::MIN);
        faults.push(IdFault { slice: None, from, missing: 0, orphans: strays, events: 0 });
    }
    Ok((damage, faults))
}

/// Entries of a slice, and those that are on their way to it.
const ENTRIES_OF: &str = "\
SELECT key, id FROM ids WHERE slice = ?1 \
OR slice IN (SELECT d.slice FROM draining d WHERE d.target = ?1)";

/// Entries of slices that there are not.
const STRAYS: &str = "\
FROM ids WHERE slice NOT IN (SELECT id FROM slices UNION ALL SELECT slice FROM draining)";

/// Whether slices cover all time, each moment once.
fn follows(slices: &[Slice]) -> bool {
    let ends = [slices.first().map(|s| s.from), slices.last().map(|s| s.to)];
    ends == [Some(i64::MIN), Some(i64::MAX)]
        && slices.iter().zip(slices.iter().skip(1)).all(|(a, b)| a.to == b.from)
}

/// The entries (key, event) that the events of a stretch have, in order, and how many events.
fn entries(
    connection: &Connection,
    from: i64,
    to: i64,
) -> Result<(Vec<(i64, i64)>, i64), StoreError> {
    let mut read = connection.prepare_cached(IDS_OF)?;
    let mut rows = read.query(params![from, to])?;
    let (mut entries, mut events) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        keys(row, 1, |key| entries.push((key, id)))?;
        events += 1;
    }
    entries.sort_unstable();
    entries.dedup();
    Ok((entries, events))
}

/// Gives the keys of an event's ids, which are in five columns from `first` on.
pub(super) fn keys(
    row: &Row<'_>,
    first: usize,
    mut give: impl FnMut(i64),
) -> Result<(), StoreError> {
    for at in first..first + 5 {
        if let Some(packed) = row.get_ref(at)?.as_blob_or_null().unwrap_or_default() {
            give(ids::key(&ids::unpack(packed)?));
        }
    }
    Ok(())
}

/// How many of `some` are not among `others`, which are in order.
fn beyond(some: &[(i64, i64)], others: &[(i64, i64)]) -> i64 {
    let n = some.iter().filter(|one| others.binary_search(one).is_err()).count();
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Writer {
    /// Runs statements in one transaction.
    pub(super) fn mend(&mut self, statements: &[String]) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for text in statements {
            transaction.execute(text, [])?;
        }
        Ok(transaction.commit()?)
    }

    /// Makes the entries of one slice and its number of events anew, or, without a slice, puts the
    /// slices one behind the other and removes the entries of slices that there are not.
    pub(super) fn mend_ids(&mut self, slice: Option<i64>) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match slice {
            None => mend_catalogue(&transaction)?,
            Some(id) => mend_slice(&transaction, id)?,
        }
        transaction.commit()?;
        self.slices = Slices::read(&self.connection, self.slices.full())?;
        self.known.clear();
        self.version = data_version(&self.connection)?;
        Ok(())
    }
}

fn mend_slice(transaction: &Transaction<'_>, id: i64) -> Result<(), StoreError> {
    let slices = Slices::read(transaction, slices::FULL)?;
    let Some(slice) = slices.list().iter().find(|slice| slice.id == id) else {
        return Ok(());
    };
    let (entries, events) = entries(transaction, slice.from, slice.to)?;
    for slice in slices.draining_to(id) {
        transaction.execute("DELETE FROM ids WHERE slice = ?1", [slice])?;
        transaction.execute("DELETE FROM draining WHERE slice = ?1", [slice])?;
    }
    transaction.execute("DELETE FROM ids WHERE slice = ?1", params![id])?;
    slices::add(transaction, entries.into_iter().map(|(key, event)| (id, key, event)))?;
    transaction.execute("UPDATE slices SET events = ?2 WHERE id = ?1", params![id, events])?;
    Ok(())
}

fn mend_catalogue(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let slices = Slices::read(transaction, slices::FULL)?;
    let slices = slices.list();
    if !follows(slices) {
        transaction.execute("DELETE FROM slices", [])?;
        let mut from = i64::MIN;
        for (at, slice) in slices.iter().enumerate() {
            let to = slices.get(at + 1).map_or(i64::MAX, |next| next.from);
            if to > from {
                Slice { from, to, ..*slice }.add(transaction)?;
                from = to;
            }
        }
        if slices.is_empty() {
            Slice::EVER.add(transaction)?;
        }
    }
    // The ids on their way to a slice that there is not are removed as strays.
    transaction.execute(
        "DELETE FROM draining WHERE target > 0 AND target NOT IN (SELECT id FROM slices) \
         OR slice IN (SELECT id FROM slices)",
        [],
    )?;
    transaction.execute(&format!("DELETE {STRAYS}"), [])?;
    Ok(())
}
