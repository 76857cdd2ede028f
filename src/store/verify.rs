//! Does everything in the store fit together? And mending what does not.
//!
//! Sums are compared with a recount of the events; on SQLite the file itself is checked, and that
//! every event is found by each of its ids. Reading goes by snapshots and mending by short
//! transactions, a stretch of time each, so that a service can run beside it.

use super::recount::{RECOUNTED, Range, Recounted};
use super::{Difference, Pool, Recount, Store, StoreError};
use crate::domain::time::UnixMillis;
use sqlx::{AssertSqlSafe, Connection as _};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The sums beside the events.
    pub recount: Recount,
    /// What SQLite says is wrong with the file; this can't be mended.
    pub damage: Vec<String>,
    /// Slices of SQLite's `ids` that don't fit the events.
    pub ids: Vec<IdFault>,
}

/// How the look-up of ids differs from the events in one slice of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdFault {
    /// The slice; `None` for entries of slices that there are not.
    pub slice: Option<i64>,
    /// Where it begins.
    pub from: UnixMillis,
    /// Ids of events that are not found.
    pub missing: i64,
    /// Entries without an event.
    pub orphans: i64,
    /// How many more events the slice is said to have than it has.
    pub events: i64,
}

impl IdFault {
    /// Whether anything is wrong at all.
    pub(super) const fn is_one(&self) -> bool {
        self.missing != 0 || self.orphans != 0 || self.events != 0
    }
}

impl Verified {
    /// Whether everything fits together.
    pub fn is_well(&self) -> bool {
        self.recount.agrees() && self.damage.is_empty() && self.ids.is_empty()
    }
}

/// What was mended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mended {
    /// Stretches of time of a table of sums that were counted anew.
    pub stretches: usize,
    /// Slices whose ids were written anew.
    pub slices: usize,
}

impl Store {
    /// Checks everything. Reads all that is stored, which takes about half a minute for a million
    /// events.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        let (damage, ids) = match &*self.pool {
            Pool::Sqlite(store) => store.verify().await?,
            Pool::Postgres(_) => (Vec::new(), Vec::new()),
        };
        Ok(Verified { recount: self.recount().await?, damage, ids })
    }

    /// Mends what a check found: sums are counted anew and ids written anew, each stretch of time
    /// in a transaction of its own.
    pub async fn repair(&self, found: &Verified) -> Result<Mended, StoreError> {
        let mut mended = Mended::default();
        if let Pool::Sqlite(store) = &*self.pool {
            // First the slices themselves; the ids of all of them may have to be looked at again.
            store.mend_ids(None).await?;
            let (_, faults) = store.verify().await?;
            for slice in faults.iter().filter_map(|fault| fault.slice) {
                store.mend_ids(Some(slice)).await?;
                mended.slices += 1;
            }
        }
        for Difference { table, width, stretches, .. } in &found.recount.differences {
            let recounted =
                RECOUNTED.iter().find(|one| one.sums.table == *table && one.width == *width);
            for start in stretches {
                if let Some(recounted) = recounted {
                    self.mend(recounted, &Range::stretch(*start, *width)).await?;
                    mended.stretches += 1;
                }
            }
        }
        Ok(mended)
    }

    async fn mend(&self, recounted: &Recounted, range: &Range) -> Result<(), StoreError> {
        let statements = recounted.mend(range);
        match &*self.pool {
            Pool::Sqlite(store) => store.mend(statements.to_vec()).await,
            Pool::Postgres(store) => {
                let mut connection = store.writers.acquire().await?;
                let mut transaction = connection.begin().await?;
                // A batch that has added to the table already is waited for, and its events are
                // seen; one that has not waits, and adds to what is counted here.
                let lock = format!("LOCK TABLE {} IN EXCLUSIVE MODE", recounted.sums.table);
                for text in [lock].into_iter().chain(statements) {
                    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *transaction).await?;
                }
                Ok(transaction.commit().await?)
            }
        }
    }
}
