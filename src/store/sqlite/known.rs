//! Which event ids a slice can hold, in memory.
//!
//! Most events are new, and to find that out in `ids` costs as much as to write one of its entries.
//! A Bloom filter (B. H. Bloom, 1970) for each slice that is written to tells it without a look; where
//! it can't, `ids` is asked. A filter knows all ids of its slice or doesn't exist.

use super::slices::Slice;
use crate::store::StoreError;
use rusqlite::Transaction;
use std::collections::HashMap;

/// Filters that are kept: for the slices of now, and of what comes late.
const FILTERS: usize = 8;
/// A slice of so many events is read to make its filter.
const FEW: i64 = 8_192;
/// Bits of a filter for each event of a full slice: of 100 ids that it doesn't hold, less than one
/// seems to be there.
const BITS: usize = 16;
/// Bits that are set for an id, cut from its key and a product of it.
const PROBES: u32 = 4;

/// The filters by slice.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<i64, Filter>);

#[derive(Debug)]
struct Filter(Box<[u64]>);

impl Filter {
    /// A filter for so many ids.
    fn new(ids: i64) -> Self {
        let bits = usize::try_from(ids).unwrap_or_default().max(64) * BITS;
        Self(vec![0; bits.next_power_of_two() / 64].into_boxed_slice())
    }

    /// Places (word, bit) of a key.
    fn places(&self, key: i64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let last = u64::try_from(self.0.len() * 64 - 1).unwrap_or_default();
        let mixed = key.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let step = (mixed >> 32) | 1;
        (0..u64::from(PROBES)).map(move |n| {
            let bit = mixed.wrapping_add(n.wrapping_mul(step)) & last;
            (usize::try_from(bit >> 6).unwrap_or_default(), 1 << (bit & 63))
        })
    }

    fn add(&mut self, key: i64) {
        for (word, bit) in self.places(key) {
            if let Some(word) = self.0.get_mut(word) {
                *word |= bit;
            }
        }
    }

    fn may_hold(&self, key: i64) -> bool {
        self.places(key).all(|(word, bit)| self.0.get(word).is_some_and(|word| word & bit > 0))
    }
}

impl Known {
    /// Makes the filter of a slice, where that is cheap and it has none.
    pub(super) fn prepare(
        &mut self,
        transaction: &Transaction<'_>,
        slice: &Slice,
    ) -> Result<(), StoreError> {
        if slice.events > FEW || self.0.contains_key(&slice.id) {
            return Ok(());
        }
        let mut filter = Filter::new(slice.limit);
        let mut keys = transaction.prepare_cached("SELECT key FROM ids WHERE slice = ?1")?;
        let mut rows = keys.query([slice.id])?;
        while let Some(row) = rows.next()? {
            filter.add(row.get(0)?);
        }
        if self.0.len() >= FILTERS
            && let Some(oldest) = self.0.keys().min().copied()
        {
            self.0.remove(&oldest);
        }
        self.0.insert(slice.id, filter);
        Ok(())
    }

    /// Notes that a slice is to hold an id with this key.
    pub(super) fn add(&mut self, slice: i64, key: i64) {
        if let Some(filter) = self.0.get_mut(&slice) {
            filter.add(key);
        }
    }

    /// Whether a slice can hold an id with this key; `false` is certain.
    pub(super) fn may_hold(&self, slice: i64, key: i64) -> bool {
        self.0.get(&slice).is_none_or(|filter| filter.may_hold(key))
    }

    /// Forgets what a slice holds.
    pub(super) fn forget(&mut self, slice: i64) {
        self.0.remove(&slice);
    }

    /// Forgets everything: others wrote to the file, or it was mended.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::ids;

    #[test]
    fn a_filter_forgets_nothing_and_takes_few_others_for_known() {
        let mut filter = Filter::new(65_536);
        let key = |kind: &str, n: u32| ids::key(&format!("{kind}-{n:08x}"));
        (0..65_536).for_each(|n| filter.add(key("event", n)));
        assert!((0..65_536).all(|n| filter.may_hold(key("event", n))));
        let wrong = (0..65_536).filter(|n| filter.may_hold(key("other", *n))).count();
        assert!(wrong < 655, "{wrong} of 65536");
    }
}
