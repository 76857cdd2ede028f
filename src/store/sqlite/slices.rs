//! Slices: stretches of time (by `occurred_at`) of about as many events each.
//!
//! The table `ids` begins with the slice, so that a batch touches the ids of its own time alone and
//! writing does not slow down as the file grows; a look-up asks each slice, one step of an index
//! each. So slices become larger where many events are stored, as far as the ids of one still fit
//! the writer's cache, and old ones become one (`merge`): 1 million events are in 16 slices, 10
//! million in about 30. Slices follow each other without gaps. The identity of an event holds its
//! time, so that a repeat is found in the slice of its first.

use super::ids;
use crate::store::StoreError;
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// Events after which a slice is ended, while there are few slices.
pub(super) const FULL: i64 = 65_536;
/// From so many slices on each further one holds as large a share of what is stored.
const FEW: i64 = 32;
/// The largest slices hold so many times as many as the smallest.
const LARGEST: i64 = 4;

/// So many slices of a level become one.
const MERGED: usize = 4;
/// The newest slices, which stay as they are.
const NEW: usize = 8;
/// The part of what is stored, as its divisor, that a slice made of others holds at most.
const SHARE: i64 = 8;

/// One stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) id: i64,
    /// First moment, and the first one after it.
    pub(super) from: i64,
    pub(super) to: i64,
    /// Stored events.
    pub(super) events: i64,
    /// At how many events it is divided.
    pub(super) limit: i64,
    /// How often slices became one on the way to it. From 1 on it may hold ids of events that were
    /// removed.
    pub(super) level: i64,
}

impl Slice {
    /// All time, before anything is stored.
    pub(super) const EVER: Self =
        Self { id: 1, from: i64::MIN, to: i64::MAX, events: 0, limit: FULL, level: 0 };

    /// Takes it out of the catalogue.
    fn remove(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        transaction.prepare_cached("DELETE FROM slices WHERE id = ?1")?.execute([self.id])?;
        Ok(())
    }

    /// Adds it to the catalogue.
    pub(super) fn add(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        transaction
            .prepare_cached(
                "INSERT INTO slices (id, from_at, to_at, events, level) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![self.id, self.from, self.to, self.events, self.level])?;
        Ok(())
    }
}

/// All slices in the order of time.
#[derive(Debug, Clone)]
pub(super) struct Slices {
    list: Vec<Slice>,
    /// Events after which a slice is ended, while there are few slices.
    full: i64,
    /// Slices whose ids are on their way, and the slices they go to; 0 where they are removed.
    draining: Vec<(i64, i64)>,
}

impl Slices {
    /// Reads the catalogue; slices end after `full` events while there are few.
    pub(super) fn read(connection: &rusqlite::Connection, full: i64) -> Result<Self, StoreError> {
        let mut statement = connection.prepare_cached(
            "SELECT id, from_at, to_at, events, level FROM slices ORDER BY from_at",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Slice {
                id: row.get(0)?,
                from: row.get(1)?,
                to: row.get(2)?,
                events: row.get(3)?,
                limit: 0,
                level: row.get(4)?,
            })
        })?;
        let list = rows.collect::<Result<_, _>>()?;
        let draining = connection
            .prepare_cached("SELECT slice, target FROM draining ORDER BY target, slice")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut slices = Self { list, full, draining };
        let size = slices.size();
        slices.list.iter_mut().for_each(|slice| slice.limit = size.max(slice.events));
        Ok(slices)
    }

    /// All of them.
    pub(super) fn list(&self) -> &[Slice] {
        &self.list
    }

    /// Stored events.
    fn stored(&self) -> i64 {
        self.list.iter().map(|slice| slice.events).sum()
    }

    /// Events after which a new slice is ended.
    fn size(&self) -> i64 {
        (self.stored() / FEW).clamp(self.full, self.full * LARGEST)
    }

    /// Events after which a slice is ended, while there are few slices.
    pub(super) const fn full(&self) -> i64 {
        self.full
    }

    /// Where the slice of a moment stands in the list.
    pub(super) fn at(&self, occurred_at: i64) -> usize {
        let last = self.list.len().saturating_sub(1);
        self.list.partition_point(|slice| slice.to <= occurred_at).min(last)
    }

    /// The number of the slice at a place, where an entry goes with its event.
    pub(super) fn id(&self, place: usize) -> i64 {
        self.list.get(place).map_or(0, |slice| slice.id)
    }

    /// Whether the entries of a removed event stay in the slice at a place.
    pub(super) fn keeps_entries(&self, place: usize) -> bool {
        self.list.get(place).is_some_and(|slice| slice.level > 0)
    }

    /// The slices whose ids are on their way to `target`.
    pub(super) fn draining_to(&self, target: i64) -> impl Iterator<Item = i64> + use<'_> {
        self.draining.iter().filter(move |(_, to)| *to == target).map(|(slice, _)| *slice)
    }

    /// The slice of a moment and those next to it.
    pub(super) fn near(&self, occurred_at: i64) -> &[Slice] {
        let place = self.at(occurred_at);
        let around = place.saturating_sub(1)..(place + 2).min(self.list.len());
        self.list.get(around).unwrap_or_default()
    }

    /// Counts new events, whose moments are `times`, and ends the slices that are full.
    pub(super) fn grow(
        &mut self,
        transaction: &Transaction<'_>,
        mut times: Vec<i64>,
    ) -> Result<(), StoreError> {
        times.sort_unstable();
        let mut rest = times.as_slice();
        while let Some(first) = rest.first() {
            let place = self.at(*first);
            let Some(slice) = self.list.get_mut(place) else { break };
            let to = slice.to;
            let (inside, after) = rest.split_at(rest.partition_point(|at| *at < to));
            rest = after;
            slice.events += i64::try_from(inside.len()).unwrap_or_default();
            // Nine of ten events of the batch stay: where they arrive in the order of time, few
            // stored ones have to move.
            let last = inside.get(inside.len() * 9 / 10).copied();
            if slice.events >= slice.limit
                && let Some(cut) = last
            {
                self.divide(transaction, place, cut)?;
            }
            let Some(slice) = self.list.get(place) else { break };
            transaction
                .prepare_cached("UPDATE slices SET to_at = ?2, events = ?3 WHERE id = ?1")?
                .execute(params![slice.id, slice.to, slice.events])?;
        }
        Ok(())
    }

    /// Takes away the numbers of removed events by place.
    pub(super) fn shrink(
        &mut self,
        transaction: &Transaction<'_>,
        removed: &BTreeMap<usize, i64>,
    ) -> Result<(), StoreError> {
        for (place, n) in removed {
            if let Some(slice) = self.list.get_mut(*place) {
                slice.events -= n;
                transaction
                    .prepare_cached("UPDATE slices SET events = ?2 WHERE id = ?1")?
                    .execute(params![slice.id, slice.events])?;
            }
        }
        Ok(())
    }

    /// Gives the time of the empty slices that end before `since` to the one after them. Entries that
    /// stayed behind are to be removed.
    pub(super) fn forget(
        &mut self,
        transaction: &Transaction<'_>,
        since: i64,
    ) -> Result<(), StoreError> {
        while let [first, next, ..] = self.list.as_mut_slice()
            && first.to <= since
            && first.events == 0
        {
            first.remove(transaction)?;
            transaction
                .prepare_cached("UPDATE slices SET from_at = ?2 WHERE id = ?1")?
                .execute(params![next.id, first.from])?;
            next.from = first.from;
            let gone = self.list.remove(0);
            if gone.level > 0 {
                let ends = self.draining_to(gone.id).chain([gone.id]).collect::<Vec<_>>();
                self.drain(transaction, &ends, 0)?;
            }
        }
        Ok(())
    }

    /// Lets the ids of slices go to another one, or away (0).
    fn drain(
        &mut self,
        transaction: &Transaction<'_>,
        slices: &[i64],
        target: i64,
    ) -> Result<(), StoreError> {
        let mut note = transaction
            .prepare_cached("INSERT OR REPLACE INTO draining (slice, target) VALUES (?1, ?2)")?;
        for slice in slices {
            note.execute(params![slice, target])?;
        }
        self.draining.retain(|(slice, _)| !slices.contains(slice));
        self.draining.extend(slices.iter().map(|slice| (*slice, target)));
        Ok(())
    }

    /// Notes that nothing is left in a slice.
    pub(super) fn drained(
        &mut self,
        transaction: &Transaction<'_>,
        slice: i64,
    ) -> Result<(), StoreError> {
        transaction.prepare_cached("DELETE FROM draining WHERE slice = ?1")?.execute([slice])?;
        self.draining.retain(|(one, _)| *one != slice);
        Ok(())
    }

    /// The slice that ids are on their way to.
    pub(super) fn target(&self) -> Option<i64> {
        self.draining.iter().map(|(_, target)| *target).find(|target| *target > 0)
    }

    /// Makes the oldest slices of a level one, where there are enough; the new one.
    ///
    /// Those of now stay as they are, for their ids are written to. The new one holds no larger a
    /// share of what is stored than [`SHARE`], so that removal, which empties slice by slice, leaves
    /// few ids behind.
    pub(super) fn merge(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let most = (self.stored() / SHARE).min(self.full * LARGEST * 8);
        let old = self.list.len().saturating_sub(NEW);
        let fits = |some: &[Slice]| {
            let level = some.first().map(|slice| slice.level);
            some.iter().all(|slice| Some(slice.level) == level)
                && some.iter().map(|slice| slice.events).sum::<i64>() <= most
        };
        let list = self.list.get(..old).unwrap_or_default();
        let Some(place) = list.windows(MERGED).position(fits) else { return Ok(None) };
        let id = self.next_number();
        let some: Vec<Slice> = self.list.drain(place..place + MERGED).collect();
        let [first, .., last] = some.as_slice() else { return Ok(None) };
        let events = some.iter().map(|slice| slice.events).sum();
        let one = Slice {
            id,
            from: first.from,
            to: last.to,
            events,
            limit: events + self.full / 8,
            level: first.level + 1,
        };
        let ids: Vec<i64> = some.iter().map(|slice| slice.id).collect();
        some.iter().try_for_each(|slice| slice.remove(transaction))?;
        one.add(transaction)?;
        self.list.insert(place, one);
        self.drain(transaction, &ids, id)?;
        Ok(Some(id))
    }

    /// A number that no slice has or had while its ids are on their way.
    fn next_number(&self) -> i64 {
        let draining = self.draining.iter().map(|(slice, _)| *slice);
        self.list.iter().map(|slice| slice.id).chain(draining).max().unwrap_or_default() + 1
    }

    /// The first moment after the oldest slice that reaches beyond `since`.
    pub(super) fn end_of_oldest(&self, since: i64) -> i64 {
        self.list.iter().map(|slice| slice.to).find(|to| *to > since).unwrap_or(i64::MAX)
    }

    /// Ends the slice at `place` before `cut` and begins the next one there, unless much would have
    /// to move.
    fn divide(
        &mut self,
        transaction: &Transaction<'_>,
        place: usize,
        cut: i64,
    ) -> Result<(), StoreError> {
        let limit = self.size();
        let is_target = self.draining_to(self.id(place)).next().is_some();
        let number = self.next_number();
        let Some(slice) = self.list.get_mut(place) else { return Ok(()) };
        let most = slice.events.min(self.full) / 10;
        let behind: i64 = transaction
            .prepare_cached(
                "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE occurred_at >= ?1 \
                 AND occurred_at < ?2 LIMIT ?3)",
            )?
            .query_one(params![cut, slice.to, most + 1], |row| row.get(0))?;
        if cut <= slice.from || behind > most || is_target {
            slice.limit = slice.events + self.full / 8;
            return Ok(());
        }
        let to = std::mem::replace(&mut slice.to, cut);
        slice.events -= behind;
        let old = slice.id;
        let next = Slice { id: number, from: cut, to, events: behind, limit, level: 0 };
        next.add(transaction)?;
        self.list.insert(place + 1, next);

        let mut read = transaction.prepare_cached(
            "SELECT id, event_id, operation_id, request_id, ray_id, trace_id FROM events \
             WHERE occurred_at >= ?1 AND occurred_at < ?2",
        )?;
        let mut rows = read.query(params![cut, to])?;
        let mut entries: Vec<(i64, i64)> = Vec::new();
        while let Some(row) = rows.next()? {
            for at in 1..=5 {
                if let Some(packed) = row.get_ref(at)?.as_blob_or_null().unwrap_or_default() {
                    entries.push((ids::key(&ids::unpack(packed)?), row.get(0)?));
                }
            }
        }
        entries.sort_unstable();
        entries.dedup();
        let mut delete = transaction
            .prepare_cached("DELETE FROM ids WHERE slice = ?1 AND key = ?2 AND id = ?3")?;
        for (key, id) in &entries {
            delete.execute(params![old, key, id])?;
        }
        add(transaction, entries.into_iter().map(|(key, id)| (number, key, id)))
    }
}

/// Writes entries of ids (slice, key, event), which are best in order.
pub(super) fn add(
    transaction: &Transaction<'_>,
    entries: impl Iterator<Item = (i64, i64, i64)>,
) -> Result<(), StoreError> {
    let mut insert = transaction
        .prepare_cached("INSERT OR IGNORE INTO ids (slice, key, id) VALUES (?1, ?2, ?3)")?;
    for (slice, key, id) in entries {
        for (at, number) in (1..).zip([slice, key, id]) {
            insert.raw_bind_parameter(at, number)?;
        }
        insert.raw_execute()?;
    }
    Ok(())
}
