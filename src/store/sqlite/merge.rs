//! Old slices become one, so that a look-up asks few of them however much is stored.
//!
//! First the catalogue: from one commit to the next the stretches of some slices belong to a new one,
//! which holds no ids yet (`Slices::merge`). Then their ids follow, a few thousand a step in the order
//! of the index, so that each page of the new slice is written once; until they have arrived a
//! look-up asks the old slices as well. The same way ids leave the file once nothing is stored of
//! their slice's time any more. A step is one short transaction and a kill between two leaves
//! everything in order.

use super::slices::{self, Slices};
use super::writer::Writer;
use crate::store::StoreError;
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use std::time::Duration;
use tokio::time::Instant;

/// How long a step moves ids before it commits.
const STEP: Duration = Duration::from_millis(12);
/// Ids of one slice between two looks at the time.
const IDS_AT_ONCE: i64 = 500;

impl Writer {
    /// Moves some ids of old slices to the one that these become; whether there was anything to do.
    pub(super) fn merge(&mut self) -> Result<bool, StoreError> {
        self.merge_for(STEP)
    }

    /// [`Self::merge`], for so long and at least once.
    pub(super) fn merge_for(&mut self, time: Duration) -> Result<bool, StoreError> {
        let end = Instant::now() + time;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut slices = Slices::read(&transaction, self.slices.full())?;
        let target = match slices.target() {
            Some(target) => target,
            None => match slices.merge(&transaction)? {
                Some(target) => target,
                None => return Ok(false),
            },
        };
        let sources: Vec<i64> = slices.draining_to(target).collect();
        loop {
            let bound = bound(&transaction, &sources)?;
            let mut entries = Vec::new();
            for slice in &sources {
                take(&transaction, *slice, bound, |key, id| entries.push((target, key, id)))?;
            }
            entries.sort_unstable();
            slices::add(&transaction, entries.into_iter())?;
            if bound == i64::MAX {
                for slice in &sources {
                    slices.drained(&transaction, *slice)?;
                }
                break;
            }
            if Instant::now() >= end {
                break;
            }
        }
        transaction.commit()?;
        // What the filter of the new slice was made of is less than it holds now.
        self.known.forget(target);
        self.slices = slices;
        Ok(true)
    }
}

/// Removes the ids of slices of whose time nothing is stored, until `end`; whether there were any.
pub(super) fn remove_ids(
    transaction: &Transaction<'_>,
    slices: &mut Slices,
    end: Instant,
) -> Result<bool, StoreError> {
    let Some(slice) = slices.draining_to(0).next() else { return Ok(false) };
    while Instant::now() < end {
        let bound = bound(transaction, &[slice])?;
        take(transaction, slice, bound, |_, _| ())?;
        if bound == i64::MAX {
            slices.drained(transaction, slice)?;
            break;
        }
    }
    Ok(true)
}

/// The key up to which no slice has many ids, but for those that share a key; the highest number
/// where none has many left.
fn bound(transaction: &Transaction<'_>, slices: &[i64]) -> Result<i64, StoreError> {
    let mut find = transaction
        .prepare_cached("SELECT key FROM ids WHERE slice = ?1 ORDER BY key LIMIT 1 OFFSET ?2")?;
    let mut bound = i64::MAX;
    for slice in slices {
        let key: Option<i64> =
            find.query_one(params![slice, IDS_AT_ONCE], |row| row.get(0)).optional()?;
        bound = key.unwrap_or(i64::MAX).min(bound);
    }
    Ok(bound)
}

/// Takes the ids of a slice out, up to a key.
fn take(
    transaction: &Transaction<'_>,
    slice: i64,
    bound: i64,
    mut give: impl FnMut(i64, i64),
) -> Result<(), StoreError> {
    let mut read =
        transaction.prepare_cached("SELECT key, id FROM ids WHERE slice = ?1 AND key <= ?2")?;
    let mut rows = read.query(params![slice, bound])?;
    while let Some(row) = rows.next()? {
        give(row.get(0)?, row.get(1)?);
    }
    transaction
        .prepare_cached("DELETE FROM ids WHERE slice = ?1 AND key <= ?2")?
        .execute(params![slice, bound])?;
    Ok(())
}
