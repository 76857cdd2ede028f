//! The store: events kept once, and the sums that pages read, on SQLite or PostgreSQL.
//!
//! [`Store`] is cheap to clone and speaks `domain`'s types; SQL and rows do not leave this folder.
//!
//! - `migrations`: the schema. `sql`: every statement. `rows`: events to columns and back.
//! - `batch`: which events are new, and what they add to the sums; shared by both databases.
//! - `sqlite`, `postgres`: opening and writing, where the two differ. `days`: PostgreSQL's events by
//!   day.
//! - `sums`: the tables of sums and which rows stand for a window. `gather`: fine ones become coarse.
//! - `reader`: a snapshot to read from. `names`: what numbers in rows stand for. `counts`, `facts`,
//!   `joins`, `lists`: the questions.
//! - `series`: how many series there may be.
//! - `alert_sums`: what rules are evaluated over. `alerts`: how alerts stand, silences, what is to be
//!   told. `receivers`: what those said about being sent to. `seat`: one replica evaluates.
//!   `transact`: statements that belong together.
//! - `otlp`: spans, until they are events. `volumes`: what clients' own metrics counted. `sources`:
//!   where events come from.
//! - `kept`: how long what is kept. `expiry`, `sqlite::expiry`: what is older goes.
//! - `recount`: do the sums still agree with the events? `verify`: does all fit together?
//!
//! Sums: an insert writes `minute_counts` per minute, and `class_counts`, `actor_counts` and
//! `wait_counts` per five minutes; minutes later they are gathered into `slot_counts` per five
//! minutes and into `hour_counts`, `class_hours`, `actor_hours` and `wait_hours`. A window is
//! answered exactly, from these and from the events themselves at its edges. A series holds the
//! route, so that a view with a route is answered the same way; sums by actor are kept without
//! routes, so that such a view counts its actors from the events.

mod alert_sums;
mod alerts;
mod batch;
mod counts;
mod days;
mod detail;
mod error;
mod expiry;
mod facts;
mod gather;
mod joins;
mod kept;
mod lists;
mod migrations;
mod names;
mod otlp;
#[cfg(test)]
mod plans;
mod postgres;
mod reader;
mod receivers;
mod recount;
mod rows;
mod seat;
mod series;
mod sources;
mod sql;
mod sqlite;
mod sums;
#[cfg(test)]
mod test_schema;
mod transact;
mod verify;
mod volumes;

pub use alert_sums::PairOfSums;
pub use alerts::{
    Acknowledgement, Alert, Changed, Delivery, Due, Ended, Evaluation, HISTORY_KEPT, HistoryItem,
    KnownAlert, NewSilence, Order, Sent, Silence, Standing, TOLD_KEPT,
};
pub use counts::{OTHER, TOP_VALUES};
pub use error::StoreError;
pub use facts::{MAX_ATTEMPTS, MAX_BUCKETS, bucket_width_ms};
pub use kept::{Keep, Tidied};
pub use lists::{LOOKUP_LIMIT, OPERATION_LIMIT, PAGE_LIMIT};
pub use otlp::{HeldSpan, Hood, SpanMark};
pub use receivers::ReceiverHold;
pub use recount::{Difference, Recount};
pub use rows::Draft;
pub use seat::Seat;
pub use series::{Kept, SeriesBound};
pub use sources::{SourceCursor, SourcePage, SourceSums};
pub use verify::{IdFault, Mended, Verified};
pub use volumes::{MAX_VOLUME_SERIES, PairVolume};

use crate::domain::stored::{
    History, Inserted, Labels, Mark, NewEvent, NewMark, Scope, Sender, SenderCounts,
};
use crate::domain::time::{UnixMillis, Window};
use names::Names;
use postgres::PostgresStore;
use reader::{Arg, Reader};
use sqlite::SqliteStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long one question to the database may take before it is stopped.
pub const READ_LIMIT: Duration = Duration::from_secs(15);

/// Where events are kept. Clones share one set of connections.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Arc<Pool>,
    names: Arc<Names>,
    batches: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Pool {
    Sqlite(SqliteStore),
    Postgres(Box<PostgresStore>),
}

/// One look at the database: what is asked through it is of one moment, and costs one snapshot.
#[derive(Debug)]
pub struct Look(Reader);

impl Store {
    /// Begins a [`Look`].
    pub async fn look(&self) -> Result<Look, StoreError> {
        Ok(Look(self.reader().await?))
    }

    /// Opens the database at `sqlite://file` or `postgres://…`, creates a SQLite file that isn't
    /// there, and applies what its schema lacks.
    pub async fn open(database_url: &str) -> Result<Self, StoreError> {
        let scheme = database_url.split(':').next().unwrap_or_default();
        let pool = match scheme {
            "sqlite" => Pool::Sqlite(SqliteStore::open(database_url, READ_LIMIT).await?),
            "postgres" | "postgresql" => {
                Pool::Postgres(Box::new(PostgresStore::open(database_url).await?))
            }
            _ => {
                return Err(StoreError::Address(
                    "it begins neither with sqlite: nor with postgres:".to_owned(),
                ));
            }
        };
        Ok(Self::on(pool))
    }

    fn on(pool: Pool) -> Self {
        Self { pool: Arc::new(pool), names: Arc::default(), batches: Arc::default() }
    }

    /// Stores what is new in `batch` together with its sums in one transaction, and tells of each
    /// event what became of it, in the order given. When it returns, all of it is on disk; after
    /// an error, nothing of it is.
    ///
    /// An event is new if no event with its (`event_id`, `occurred_at`) is stored and none stands
    /// before it in the batch.
    pub async fn insert(
        &self,
        batch: &[NewEvent],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let drafts = batch.iter().cloned().map(Draft::new).collect();
        self.insert_drafts(Arc::new(drafts), received_at).await
    }

    /// As [`Self::insert`], for events that were made ready elsewhere.
    #[tracing::instrument(name = "db.events.insert", level = "debug", skip_all, fields(events = drafts.len()))]
    pub async fn insert_drafts(
        &self,
        drafts: Arc<Vec<Draft>>,
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        match &*self.pool {
            Pool::Sqlite(store) => store.insert(drafts, received_at).await,
            Pool::Postgres(store) => store.insert(&drafts, received_at).await,
        }
    }

    /// How many groups of batches may be handed to [`Self::insert_drafts`] at once. PostgreSQL
    /// writes one while the next is made ready; SQLite's writer does one after the other.
    pub fn groups_at_once(&self) -> usize {
        match &*self.pool {
            Pool::Sqlite(_) => 1,
            Pool::Postgres(_) => 2,
        }
    }

    /// Tells `bound` which series there are.
    pub async fn learn_series(&self, bound: &SeriesBound) -> Result<(), StoreError> {
        let rows = self.reader().await?.all(sql::SERIES_NAMES, &[]).await?;
        for row in rows {
            let names = [row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?];
            bound.learn(names.each_ref().map(|name| &**name));
        }
        Ok(())
    }

    /// Gathers the sums of five minutes that are over at `now` into coarser ones, which makes pages
    /// faster; whether there were any. Writing waits for such a step, some hundredths of a second; a
    /// kill leaves the store in order.
    #[tracing::instrument(name = "db.gather", level = "debug", skip_all)]
    pub async fn gather(&self, now: UnixMillis) -> Result<bool, StoreError> {
        match &*self.pool {
            Pool::Sqlite(store) => store.gather(now).await,
            Pool::Postgres(store) => store.gather(now).await,
        }
    }

    /// Batches that were handed to this process to store.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Removes some rows that are older than `keep` says, or gives some disk space back. To be called again at once where it says [`Tidied::More`], and now and then
    /// otherwise. Writing waits for one such step at most, some hundredths of a second; a kill
    /// leaves the store in order.
    #[tracing::instrument(name = "db.tidy", level = "debug", skip_all)]
    pub async fn tidy(&self, keep: Keep, now: UnixMillis) -> Result<Tidied, StoreError> {
        match &*self.pool {
            Pool::Sqlite(store) => store.tidy(keep, now).await,
            Pool::Postgres(store) => store.tidy(keep, now).await,
        }
    }

    /// Since when there are events and sums.
    pub async fn kept(&self) -> Result<History, StoreError> {
        self.reader().await?.kept().await
    }

    /// Marks a change, to be compared before and after.
    pub async fn add_mark(&self, new: NewMark) -> Result<Mark, StoreError> {
        let texts = [new.service.clone(), new.upstream.clone(), Some(new.title.clone())];
        let id = self
            .write(
                sql::ADD_MARK,
                &[
                    Arg::Int(new.at.0),
                    Arg::MaybeText(texts[0].clone()),
                    Arg::MaybeText(texts[1].clone()),
                    Arg::MaybeText(texts[2].clone()),
                ],
            )
            .await?
            .unwrap_or_default();
        Ok(Mark { id, at: new.at, service: new.service, upstream: new.upstream, title: new.title })
    }

    /// The newest 1,000 marked changes that concern a scope, oldest first.
    pub async fn marks(&self, scope: &Scope) -> Result<Vec<Mark>, StoreError> {
        self.reader().await?.marks(scope).await
    }

    /// Adds to what is counted of senders: fields that no event has, and refused items.
    pub async fn add_sender_counts(
        &self,
        senders: &[(String, SenderCounts)],
    ) -> Result<(), StoreError> {
        if senders.is_empty() {
            return Ok(());
        }
        match &*self.pool {
            Pool::Sqlite(store) => store.add_senders(senders.to_vec()).await,
            Pool::Postgres(store) => store.add_senders(senders).await,
        }
    }

    /// What each service sent and what was wrong with it, worst first, at most 1,000.
    pub async fn senders(&self) -> Result<Vec<Sender>, StoreError> {
        self.reader().await?.senders(sql::SENDERS, &[]).await
    }

    /// What one service sent and what was wrong with it.
    pub async fn sender(&self, service: &str) -> Result<Option<Sender>, StoreError> {
        Ok(self.reader().await?.senders(sql::SENDER, &[service.into()]).await?.pop())
    }

    /// Names of services, upstreams and environments whose traffic falls into the five-minute slots
    /// that `window` touches, at most 1,000 of each.
    pub async fn labels(&self, window: Window) -> Result<Labels, StoreError> {
        self.reader().await?.labels(window).await
    }

    /// When the newest event was received, by this service's clock; `None` in an empty store. (By
    /// the senders' clocks one wrong clock would answer for all.)
    pub async fn last_event_at(&self) -> Result<Option<UnixMillis>, StoreError> {
        let row = self.reader().await?.first(sql::LAST_RECEIVED, &[]).await?;
        Ok(row.map(|row| row.int_or_none(0)).transpose()?.flatten().map(UnixMillis))
    }

    /// The server's own key for hashing what must not be stored. Made once, kept in the database,
    /// the same for all replicas.
    pub async fn hash_key(&self) -> Result<[u8; 32], StoreError> {
        const NAME: &str = "hash-key";
        let mut key = [0_u8; 32];
        rand::fill(&mut key);
        self.write(sql::ADD_SETTING, &[NAME.into(), hex::encode(key).into()]).await?;
        let row = self.reader().await?.first(sql::SETTING, &[NAME.into()]).await?;
        let text = row.map(|row| row.text_or_none(0)).transpose()?.flatten().unwrap_or_default();
        hex::decode_to_slice(text, &mut key).map_err(|error| StoreError::Corrupt {
            table: "settings",
            column: "value",
            reason: error.to_string(),
        })?;
        Ok(key)
    }

    /// Whether the database answers and holds the tables.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.reader().await?.first(sql::READY, &[]).await?;
        Ok(())
    }

    /// Finishes what is being written and closes every connection; later calls fail.
    pub async fn close(&self) -> Result<(), StoreError> {
        match &*self.pool {
            Pool::Sqlite(store) => store.close().await,
            Pool::Postgres(store) => store.close().await,
        }
        Ok(())
    }

    /// Which database this is: `sqlite` or `postgres`.
    pub fn kind(&self) -> &'static str {
        match &*self.pool {
            Pool::Sqlite(_) => "sqlite",
            Pool::Postgres(_) => "postgres",
        }
    }

    async fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(self).await
    }

    async fn write(&self, text: &'static str, args: &[Arg]) -> Result<Option<i64>, StoreError> {
        match &*self.pool {
            Pool::Sqlite(store) => {
                let values = args.iter().map(sqlite::value).collect();
                store.write(text, values).await
            }
            Pool::Postgres(store) => store.write(text, reader::add_postgres(args)?).await,
        }
    }
}
