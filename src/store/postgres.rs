//! PostgreSQL: any number of replicas write to one database.
//!
//! A batch is one statement with an array per column (`UNNEST`), and what is there already is left
//! out by `ON CONFLICT DO NOTHING`. Everything that two replicas may write at once is written in
//! the order of its key, so that they wait for each other and never block each other.
//!
//! Events are divided by day (`days`). The same id at another time is found within a day on either
//! side of the batch's own days, so that look-ups don't grow with the number of days kept.

use super::batch::{self, Dictionary, Ids, Missing, Name};
use super::days::{self, DayTable, Days, Dropped};
use super::rows::{Draft, SeriesKey};
use super::sums::{self, Sums};
use super::{READ_LIMIT, StoreError, expiry, migrations, sql};
use crate::domain::stored::{Gathered, Inserted, SenderCounts};
use crate::domain::time::UnixMillis;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool,
    Postgres, Row as _,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::RwLock;

/// How many questions are read at once by one replica.
const READERS: u32 = 8;
/// How many connections of one replica write.
const WRITERS: u32 = 4;
/// How long a caller waits for a free connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// How long one statement of a batch may take.
const STATEMENT_LIMIT: Duration = Duration::from_secs(15);
/// How long a batch may take by this program's clock. A database that is cut off or frozen breaks no
/// connection, so that the system alone would wait for a quarter of an hour.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// How long the server waits for the next statement of a batch. A replica that stops in the middle
/// of one would hold up all others.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// How often a batch is tried again that the database broke off to free another one.
pub(super) const ATTEMPTS: usize = 4;

/// Pools of connections, and the known numbers.
#[derive(Debug)]
pub(super) struct PostgresStore {
    pub(super) readers: PgPool,
    pub(super) writers: PgPool,
    dictionary: RwLock<Dictionary>,
    /// Whether a connection was made since the dictionary was last known to fit: perhaps to a
    /// standby that took over and may not have the newest numbers.
    is_new_server: Arc<AtomicBool>,
    pub(super) days: Days,
    /// The day for which names that nothing uses were last removed.
    pub(super) names_done: AtomicI64,
    /// What `kept` said when it was last read: since when events are kept, up to when sums are
    /// gathered.
    held: Mutex<Option<(UnixMillis, Gathered)>>,
    /// Whether a batch can't be one statement here.
    is_long_way: AtomicBool,
    statements: Statements,
}

#[derive(Debug)]
struct Statements {
    /// A whole batch with its sums; see [`Statements::batch`].
    batch: Arc<str>,
    events: Arc<str>,
    /// By table.
    sums: HashMap<&'static str, Arc<str>>,
}

impl Statements {
    fn new() -> Self {
        let sums = |sums: Sums| {
            let arrays: Vec<String> =
                (1..=sums.columns.len()).map(|n| format!("${n}::bigint[]")).collect();
            let text = format!(
                "{}SELECT * FROM unnest({}){}",
                sums.head(),
                arrays.join(", "),
                sums.tail()
            );
            (sums.table, Arc::from(text))
        };
        Self {
            batch: Arc::from(Self::batch()),
            events: Arc::from(format!("{} RETURNING event_id, occurred_at", insert_events())),
            sums: sums::FINE.into_iter().chain(sums::GATHERED).map(sums).collect(),
        }
    }
}

impl Statements {
    /// One statement, which is a transaction of its own, for a batch that was looked through
    /// beforehand: its events, their sums and what is counted of senders. It fails with [`MOVED`]
    /// where what was seen then isn't so any more: that all these events are new, since when events
    /// are kept, and up to when sums are gathered.
    ///
    /// The server works through it without waiting for the next question, which is half of the time
    /// that a statement for each table takes.
    fn batch() -> String {
        let mut next = sql::EVENT_INSERT.len() + 1;
        let mut arrays = |kinds: &[&str]| {
            let from = next;
            next += kinds.len();
            let arrays: Vec<String> =
                (from..next).zip(kinds).map(|(n, kind)| format!("${n}::{kind}[]")).collect();
            arrays.join(", ")
        };
        let of_senders =
            arrays(&["text", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint"]);
        // The server runs them from the last to the first, after what the question itself names
        // (`es_auxmodifytables` in its nodeModifyTable.c): the order in which batches that go the
        // long way add to the tables, so that the two never block each other.
        let sums: Vec<String> = sums::FINE
            .iter()
            .rev()
            .map(|sums| {
                let of_rows = arrays(&vec!["bigint"; sums.columns.len()]);
                let (table, head, tail) = (sums.table, sums.head(), sums.tail());
                format!("to_{table} AS ({head}SELECT * FROM unnest({of_rows}){tail})")
            })
            .collect();
        format!(
            "WITH held AS MATERIALIZED (SELECT what, since, received_since FROM kept \
             WHERE what IN ('events', 'gathered') FOR SHARE), \
             added AS ({} RETURNING 1), to_senders AS ({}), {} \
             SELECT CAST(CASE WHEN (SELECT since FROM held WHERE what = 'events') = ${next} \
             AND (SELECT since FROM held WHERE what = 'gathered') = ${} \
             AND (SELECT received_since FROM held WHERE what = 'gathered') = ${} \
             AND (SELECT COUNT(*) FROM added) = ${} THEN '1' ELSE 'moved' END AS BIGINT)",
            insert_events(),
            add_senders_from(&of_senders),
            sums.join(", "),
            next + 1,
            next + 2,
            next + 3
        )
    }
}

/// How a batch's one statement fails: a word that is no number (`invalid_text_representation`).
const MOVED: &str = "22P02";
/// How it fails where the tables are distributed by Citus, which has no such statement
/// (`feature_not_supported`).
const NOT_SUPPORTED: &str = "0A000";

/// The insert of events, whose columns are the first values.
fn insert_events() -> String {
    let arrays: Vec<String> = sql::EVENT_INSERT
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let kind = match *column {
                "detail" => "bytea",
                column if is_number(column) => "bigint",
                _ => "text",
            };
            format!("${}::{kind}[]", i + 1)
        })
        .collect();
    format!(
        "INSERT INTO events ({}) SELECT * FROM unnest({}) ON CONFLICT DO NOTHING",
        sql::EVENT_INSERT.join(", "),
        arrays.join(", ")
    )
}

fn is_number(column: &str) -> bool {
    matches!(
        column,
        "occurred_at"
            | "received_at"
            | "series_id"
            | "class_id"
            | "attempt"
            | "count"
            | "duration_ms"
            | "key_id"
            | "address_id"
            | "account_id"
            | "instance_id"
            | "wait_bucket"
    )
}

/// `sql::ADD_SENDER` for many, whose columns are `arrays`.
fn add_senders_from(arrays: &str) -> String {
    format!(
        "INSERT INTO senders \
         (service, events, redactions, unknown_fields, rejected, id_conflicts, as_other) \
         SELECT * FROM unnest({arrays}) ON CONFLICT (service) DO UPDATE SET \
         events = senders.events + excluded.events, \
         redactions = senders.redactions + excluded.redactions, \
         unknown_fields = senders.unknown_fields + excluded.unknown_fields, \
         rejected = senders.rejected + excluded.rejected, \
         id_conflicts = senders.id_conflicts + excluded.id_conflicts, \
         as_other = senders.as_other + excluded.as_other"
    )
}

const ADD_SERIES: &str = "\
INSERT INTO series (service, upstream, environment, route, used_on) \
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) \
ON CONFLICT (service, upstream, environment, route) \
DO UPDATE SET used_on = GREATEST(series.used_on, excluded.used_on)";
const FIND_SERIES: &str = "SELECT s.id, s.service, s.upstream, s.environment, s.route \
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
AS u (service, upstream, environment, route) \
JOIN series s USING (service, upstream, environment, route)";
const ADD_WORDS: &str = "INSERT INTO words (kind, word, used_on) \
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT (kind, word) \
DO UPDATE SET used_on = GREATEST(words.used_on, excluded.used_on)";
const FIND_WORDS: &str = "SELECT w.id, w.kind, w.word \
FROM unnest($1::bigint[], $2::text[]) AS u (kind, word) JOIN words w USING (kind, word)";

impl PostgresStore {
    /// Connects and brings the schema up to date.
    pub(super) async fn open(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| StoreError::Address(error.to_string()))?
            .application_name("retrylens")
            .disable_statement_logging();
        // The schema is changed without a time limit: an index on a large table takes its time.
        let connecting = PgConnection::connect_with(&options);
        let mut connection = tokio::time::timeout(CONNECTION_WAIT, connecting)
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)??;
        migrations::apply_postgres(&mut connection).await?;
        connection.close().await?;
        let pool = |connections| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(CONNECTION_WAIT)
                .after_release(|connection, _| Box::pin(answers(connection)))
        };
        let millis = |limit: Duration| limit.as_millis().to_string();
        let limited = options.clone().options([("statement_timeout", millis(READ_LIMIT))]);
        let readers = pool(READERS).connect_lazy_with(limited);
        let limited = options.options([
            ("statement_timeout", millis(STATEMENT_LIMIT)),
            ("idle_in_transaction_session_timeout", millis(SILENCE_LIMIT)),
            // Whatever a batch looks for it finds by a key. A plan that was made while a table was
            // small is kept when it has grown.
            ("enable_seqscan", "off".to_owned()),
            ("max_parallel_workers_per_gather", "0".to_owned()),
        ]);
        let is_new_server = Arc::new(AtomicBool::new(false));
        let made = Arc::clone(&is_new_server);
        let writers = pool(WRITERS)
            .after_connect(move |_, _| {
                made.store(true, Ordering::SeqCst);
                Box::pin(async { Ok(()) })
            })
            .connect_lazy_with(limited);
        Ok(Self {
            readers,
            writers,
            dictionary: RwLock::default(),
            is_new_server,
            days: Days::default(),
            names_done: AtomicI64::new(i64::MIN),
            held: Mutex::default(),
            is_long_way: AtomicBool::new(false),
            statements: Statements::new(),
        })
    }

    /// Closes every connection.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }

    /// Stores what is new in `drafts`, with its sums, in one transaction.
    pub(super) async fn insert(
        &self,
        drafts: &[Draft],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let mut connection = self.writers.acquire().await?;
        let writing = self.insert_on(&mut connection, drafts, received_at);
        let gone = || StoreError::Unavailable(std::io::Error::from(ErrorKind::TimedOut).into());
        let done = tokio::time::timeout(WRITE_LIMIT, writing).await;
        let done = match done.unwrap_or_else(|_| Err(gone())) {
            Err(StoreError::TimedOut(_)) => Err(gone()),
            done => done,
        };
        if matches!(done, Err(StoreError::Unavailable(_))) {
            // What became of it isn't known, and the server may have become a standby: the next
            // batch looks for the one that writes.
            connection.close_on_drop();
        }
        done
    }

    async fn insert_on(
        &self,
        connection: &mut PgConnection,
        drafts: &[Draft],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        if self.is_new_server.swap(false, Ordering::SeqCst) {
            *self.dictionary.write().await = Dictionary::default();
        }
        let ids = self.ids(connection, drafts, received_at).await?;
        let mut attempt = 1;
        loop {
            let times = drafts.iter().map(|draft| draft.occurred_at);
            self.days.prepare(connection, times, received_at).await?;
            if let Some(done) = self.insert_at_once(connection, drafts, &ids, received_at).await? {
                return Ok(done);
            }
            match self.insert_once(connection, drafts, &ids, received_at).await {
                Err(StoreError::Database(cause))
                    if attempt < ATTEMPTS && is_broken_off(&*cause) =>
                {
                    self.days.forget();
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// How the database would look for ids in tables.
    #[cfg(test)]
    pub(super) async fn explain_stored(&self, tables: &[String]) -> Vec<String> {
        let text = format!("EXPLAIN {}", stored_in(tables));
        let ids: Vec<String> = (0..5_000).map(|n| format!("id-{n}")).collect();
        let rows = sqlx::query(AssertSqlSafe(text)).bind(ids).fetch_all(&self.writers).await;
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// The numbers of what `drafts` name. Turns around where another batch made the copy start over
    /// in the meantime.
    async fn ids(
        &self,
        connection: &mut PgConnection,
        drafts: &[Draft],
        received_at: UnixMillis,
    ) -> Result<Vec<Ids>, StoreError> {
        loop {
            let missing = {
                let dictionary = self.dictionary.read().await;
                let known = drafts.iter().map(|draft| dictionary.known(draft, received_at));
                if let Some(ids) = known.collect() {
                    return Ok(ids);
                }
                dictionary.missing(drafts.iter(), received_at)
            };
            let found = name_all(connection, missing).await?;
            self.dictionary.write().await.learn(found);
        }
    }

    /// Stores a batch by one statement, after one that looks for its ids. `None` where that isn't
    /// possible, because something else happened in between; nothing is stored then.
    async fn insert_at_once(
        &self,
        connection: &mut PgConnection,
        drafts: &[Draft],
        ids: &[Ids],
        received_at: UnixMillis,
    ) -> Result<Option<Vec<Inserted>>, StoreError> {
        let held = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((since, gathered)) = held.filter(|_| !self.is_long_way.load(Ordering::Relaxed))
        else {
            return Ok(None);
        };
        let stored = match stored(connection, &self.days, drafts).await {
            // A day was dropped.
            Err(StoreError::Database(cause)) if is_broken_off(&*cause) => return Ok(None),
            stored => stored?,
        };
        let results = batch::sift(drafts, &stored, since);
        let new = in_order(drafts, &results);
        if new.is_empty() {
            return Ok(Some(results));
        }
        let added = batch::add_up(
            new.iter().map(|at| (&drafts[*at], ids[*at], results[*at])),
            received_at,
            gathered,
        );
        if added.is_late() {
            return Ok(None);
        }
        let mut values = PgArguments::default();
        add_event_values(&mut values, drafts, ids, &new, received_at)?;
        add_sender_values(&mut values, &added.senders)?;
        for (table, numbers) in added.tables().into_iter().rev() {
            add_row_values(&mut values, table.columns.len(), numbers)?;
        }
        add(&mut values, since.0)?;
        add(&mut values, gathered.received.0)?;
        add(&mut values, gathered.start.0)?;
        add(&mut values, i64::try_from(new.len()).unwrap_or(i64::MAX))?;
        match fetch(connection, &self.statements.batch, values).await {
            Ok(_) => Ok(Some(results)),
            Err(StoreError::Database(cause))
                if is_broken_off(&*cause) || has_code(&*cause, MOVED) =>
            {
                Ok(None)
            }
            Err(StoreError::Database(cause)) if has_code(&*cause, NOT_SUPPORTED) => {
                self.is_long_way.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn insert_once(
        &self,
        connection: &mut PgConnection,
        drafts: &[Draft],
        ids: &[Ids],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let mut transaction = connection.begin().await?;
        let (since, gathered) = expiry::hold(&mut transaction).await?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some((since, gathered));
        let stored = stored(&mut transaction, &self.days, drafts).await?;
        let mut results = batch::sift(drafts, &stored, since);
        let mut new = in_order(drafts, &results);
        let added = self.add_events(&mut transaction, drafts, ids, &new, received_at).await?;
        if added.len() < new.len() {
            // Another replica has stored some since they were looked up.
            let added: HashSet<(&str, i64)> = added
                .iter()
                .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
                .collect::<Result<_, sqlx::Error>>()?;
            new.retain(|at| {
                let draft = &drafts[*at];
                let is_added = added.contains(&(&*draft.event_id, draft.occurred_at));
                if !is_added {
                    results[*at] = Inserted::Duplicate;
                }
                is_added
            });
        }
        if new.is_empty() {
            transaction.rollback().await?;
            return Ok(results);
        }
        let added = batch::add_up(
            new.iter().map(|at| (&drafts[*at], ids[*at], results[*at])),
            received_at,
            gathered,
        );
        for (table, numbers) in added.tables() {
            let text = self.statements.sums.get(table.table).cloned().unwrap_or_default();
            add_rows(&mut transaction, &text, table.columns.len(), numbers).await?;
        }
        add_senders(&mut transaction, &added.senders).await?;
        transaction.commit().await?;
        Ok(results)
    }

    /// Adds the events at `new`; the identities (id, moment) that were not there yet.
    async fn add_events(
        &self,
        connection: &mut PgConnection,
        drafts: &[Draft],
        ids: &[Ids],
        new: &[usize],
        received_at: UnixMillis,
    ) -> Result<Vec<PgRow>, StoreError> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = PgArguments::default();
        add_event_values(&mut values, drafts, ids, new, received_at)?;
        fetch(connection, &self.statements.events, values).await
    }

    /// Adds to what is counted of senders.
    pub(super) async fn add_senders(
        &self,
        senders: &[(String, SenderCounts)],
    ) -> Result<(), StoreError> {
        let sorted: BTreeMap<String, SenderCounts> = senders.iter().cloned().collect();
        add_senders(&mut *self.writers.acquire().await?, &sorted).await
    }

    /// Drops the days before `day` (counted from 1970-01-01, UTC) with their events.
    pub(super) async fn drop_days_before(&self, day: i64) -> Result<Dropped, StoreError> {
        self.days.drop_before(&mut *self.writers.acquire().await?, day).await
    }

    /// The days that have a partition, oldest first, with their size.
    pub(super) async fn days(&self) -> Result<Vec<DayTable>, StoreError> {
        Ok(days::partitions(&mut *self.writers.acquire().await?).await?)
    }

    /// Runs one statement that writes; its first column of the first row, where there is one.
    pub(super) async fn write(
        &self,
        text: &'static str,
        values: PgArguments,
    ) -> Result<Option<i64>, StoreError> {
        let row = sqlx::query_with(text, values).fetch_optional(&self.writers).await?;
        Ok(row.map(|row: PgRow| row.try_get(0)).transpose()?)
    }
}

/// Whether a connection that is given back answers. One whose question was given up may never do
/// so, and would be missing from its pool for as long as the system holds it.
async fn answers(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let ping = tokio::time::timeout(WRITE_LIMIT, connection.ping());
    ping.await.map_err(|_| sqlx::Error::Io(ErrorKind::TimedOut.into()))?.map(|()| true)
}

/// Gives every missing series, class and word its number, adding those that are new. Committed
/// on its own, so that no batch holds up another for long.
async fn name_all(
    connection: &mut PgConnection,
    mut missing: Missing,
) -> Result<Missing, StoreError> {
    if !missing.series.is_empty() {
        for text in [ADD_SERIES, FIND_SERIES] {
            let keys = || missing.series.keys();
            let mut query = sqlx::query(text)
                .bind(keys().map(|key| key.service.clone()).collect::<Vec<_>>())
                .bind(keys().map(|key| key.upstream.clone()).collect::<Vec<_>>())
                .bind(keys().map(|key| key.environment.clone()).collect::<Vec<_>>())
                .bind(keys().map(|key| key.route.clone()).collect::<Vec<_>>());
            if text == ADD_SERIES {
                query = query.bind(days(missing.series.values()));
            }
            for row in query.fetch_all(&mut *connection).await? {
                let key = SeriesKey {
                    service: row.try_get(1)?,
                    upstream: row.try_get(2)?,
                    environment: row.try_get(3)?,
                    route: row.try_get(4)?,
                };
                if let Some(series) = missing.series.get_mut(&key) {
                    series.id = row.try_get(0)?;
                }
            }
        }
    }
    if !missing.words.is_empty() {
        let kinds: Vec<i64> = missing
            .words
            .keys()
            .map(|(kind, _)| i64::try_from(*kind).unwrap_or(i64::MAX))
            .collect();
        let words: Vec<String> = missing.words.keys().map(|(_, word)| word.to_string()).collect();
        for text in [ADD_WORDS, FIND_WORDS] {
            let mut query = sqlx::query(text).bind(&kinds).bind(&words);
            if text == ADD_WORDS {
                query = query.bind(days(missing.words.values()));
            }
            for row in query.fetch_all(&mut *connection).await? {
                let kind = usize::try_from(row.try_get::<i64, _>(1)?).unwrap_or(usize::MAX);
                let word: String = row.try_get(2)?;
                if let Some(name) = missing.words.get_mut(&(kind, Arc::from(word))) {
                    name.id = row.try_get(0)?;
                }
            }
        }
    }
    name_classes(connection, &mut missing.classes).await?;
    Ok(missing)
}

/// The days on which names are used, in their order.
fn days<'a>(names: impl Iterator<Item = &'a Name>) -> Vec<i64> {
    names.map(|name| name.used_on).collect()
}

/// Identities of stored events whose id occurs in `drafts`, as far as a day on either side of each
/// one's own. Days without a partition around them are looked through together.
///
/// The days' own tables are asked, each by its key: a condition on the time would let the planner
/// take the index by time instead and read a whole day for every batch, which it did where its plan
/// was made while the day was empty.
async fn stored(
    connection: &mut PgConnection,
    days: &Days,
    drafts: &[Draft],
) -> Result<Vec<(String, i64)>, StoreError> {
    let mut all: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for draft in drafts {
        all.entry(days::day_of(draft.occurred_at)).or_default().push(&draft.event_id);
    }
    let (by_day, far): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(day, _)| days.has_any(day - 1, day + 1));
    let mut found = Vec::new();
    // Neighbouring days are one question.
    let mut by_day = by_day.into_iter().peekable();
    while let Some((begin, mut ids)) = by_day.next() {
        let mut end = begin;
        while let Some((day, more)) = by_day.next_if(|(day, _)| *day <= end + 2) {
            end = day;
            ids.extend(more);
        }
        let tables = days.tables(begin - 1, end + 1);
        found.extend(identities(connection, &tables, ids).await?);
    }
    if !far.is_empty() {
        let ids = far.into_values().flatten().collect();
        found.extend(identities(connection, &[days::OTHER.to_owned()], ids).await?);
    }
    Ok(found)
}

async fn identities(
    connection: &mut PgConnection,
    tables: &[String],
    ids: Vec<&str>,
) -> Result<Vec<(String, i64)>, StoreError> {
    let rows = sqlx::query(AssertSqlSafe(stored_in(tables))).bind(ids).fetch_all(connection);
    rows.await?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Identities in tables whose id is in an array.
fn stored_in(tables: &[String]) -> String {
    let parts: Vec<String> = tables
        .iter()
        .map(|table| {
            format!("SELECT event_id, occurred_at FROM {table} WHERE event_id = ANY($1::text[])")
        })
        .collect();
    parts.join(" UNION ALL ")
}

/// Whether the database broke a transaction off that may succeed when tried again: 40001
/// serialization failure, 40P01 deadlock, 23514 a row that no longer belongs to `events_other`
/// because its day got a partition in the meantime, 42P01 a day that was dropped.
pub(super) fn is_broken_off(cause: &(dyn std::error::Error + 'static)) -> bool {
    ["40001", "40P01", "23514", "42P01"].iter().any(|code| has_code(cause, code))
}

/// Whether an error is one of the database with this `SQLSTATE`.
fn has_code(cause: &(dyn std::error::Error + 'static), code: &str) -> bool {
    cause
        .downcast_ref::<sqlx::Error>()
        .and_then(sqlx::Error::as_database_error)
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|own| own == code)
}

async fn name_classes(
    connection: &mut PgConnection,
    classes: &mut BTreeMap<super::rows::Class, i64>,
) -> Result<(), StoreError> {
    let columns = sql::CLASS_INSERT;
    let marks: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
    let conditions: Vec<String> =
        columns.iter().zip(&marks).map(|(column, mark)| format!("{column} = {mark}")).collect();
    let insert: Arc<str> = Arc::from(format!(
        "INSERT INTO classes ({}) VALUES ({}) ON CONFLICT DO NOTHING",
        columns.join(", "),
        marks.join(", ")
    ));
    let find: Arc<str> =
        Arc::from(format!("SELECT id FROM classes WHERE {}", conditions.join(" AND ")));
    for (class, id) in classes {
        for text in [&insert, &find] {
            let mut values = PgArguments::default();
            for word in class.texts() {
                add(&mut values, word)?;
            }
            add(&mut values, class.status_code())?;
            add(&mut values, i64::from(class.limited))?;
            for row in fetch(connection, text, values).await? {
                *id = row.try_get(0)?;
            }
        }
    }
    Ok(())
}

/// The new ones among drafts, in the order of their identities: two replicas that add the same ones
/// then wait for each other instead of blocking each other.
fn in_order(drafts: &[Draft], results: &[Inserted]) -> Vec<usize> {
    let mut new: Vec<usize> = (0..drafts.len()).filter(|at| results[*at].is_new()).collect();
    new.sort_unstable_by_key(|at| (&drafts[*at].event_id, drafts[*at].occurred_at));
    new
}

/// Binds the events at `new`, column by column.
fn add_event_values(
    values: &mut PgArguments,
    drafts: &[Draft],
    ids: &[Ids],
    new: &[usize],
    received_at: UnixMillis,
) -> Result<(), StoreError> {
    let rows = || new.iter().map(|at| (&drafts[*at], ids[*at]));
    add(values, rows().map(|(d, _)| &*d.event_id).collect::<Vec<&str>>())?;
    let numbers: [fn(&Draft, Ids) -> Option<i64>; 11] = [
        |_, ids| Some(ids.series.id),
        |_, ids| Some(ids.class),
        |draft, _| Some(i64::from(draft.attempt)),
        |draft, _| Some(i64::from(draft.count)),
        |draft, _| draft.duration_ms,
        |_, ids| ids.actors[0],
        |_, ids| ids.actors[1],
        |_, ids| ids.actors[2],
        |_, ids| ids.actors[3],
        |draft, _| draft.wait_bucket,
        |draft, _| Some(draft.occurred_at),
    ];
    let column = |read: fn(&Draft, Ids) -> Option<i64>| -> Vec<Option<i64>> {
        rows().map(|(draft, ids)| read(draft, ids)).collect()
    };
    add(values, column(numbers[10]))?;
    add(values, vec![received_at.0; new.len()])?;
    for read in &numbers[..10] {
        add(values, column(*read))?;
    }
    let texts: [fn(&Draft) -> Option<&str>; 6] = [
        |draft| draft.operation_id.as_deref(),
        |draft| draft.request_id.as_deref(),
        |draft| draft.ray_id.as_deref(),
        |draft| draft.trace_id.as_deref(),
        |draft| draft.idempotency_key_hash.as_deref(),
        |draft| draft.body_hash.as_deref(),
    ];
    for read in texts {
        let column: Vec<Option<&str>> = rows().map(|(draft, _)| read(draft)).collect();
        add(values, column)?;
    }
    add(values, rows().map(|(draft, _)| &*draft.detail).collect::<Vec<&[u8]>>())?;
    Ok(())
}

/// Binds rows that lie end to end, column by column.
fn add_row_values(
    values: &mut PgArguments,
    columns: usize,
    numbers: &[i64],
) -> Result<(), StoreError> {
    for column in 0..columns {
        let of_rows = numbers.iter().skip(column).step_by(columns).copied();
        add(values, of_rows.collect::<Vec<i64>>())?;
    }
    Ok(())
}

/// Binds what is counted of senders, column by column.
fn add_sender_values(
    values: &mut PgArguments,
    senders: &BTreeMap<String, SenderCounts>,
) -> Result<(), StoreError> {
    let numbers: [fn(&SenderCounts) -> i64; 6] = [
        |counts| counts.events,
        |counts| counts.redactions,
        |counts| counts.unknown_fields,
        |counts| counts.rejected,
        |counts| counts.id_conflicts,
        |counts| counts.as_other,
    ];
    add(values, senders.keys().map(String::as_str).collect::<Vec<&str>>())?;
    for read in numbers {
        add(values, senders.values().map(read).collect::<Vec<i64>>())?;
    }
    Ok(())
}

/// Adds rows of so many columns, whose numbers lie end to end, to a table of sums.
async fn add_rows(
    connection: &mut PgConnection,
    text: &Arc<str>,
    columns: usize,
    numbers: &[i64],
) -> Result<(), StoreError> {
    if numbers.is_empty() {
        return Ok(());
    }
    let mut values = PgArguments::default();
    add_row_values(&mut values, columns, numbers)?;
    sqlx::query_with(AssertSqlSafe(Arc::clone(text)), values).execute(connection).await?;
    Ok(())
}

async fn add_senders(
    connection: &mut PgConnection,
    senders: &BTreeMap<String, SenderCounts>,
) -> Result<(), StoreError> {
    let mut values = PgArguments::default();
    add_sender_values(&mut values, senders)?;
    let text = add_senders_from(
        "$1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
         $7::bigint[]",
    );
    sqlx::query_with(AssertSqlSafe(text), values).execute(connection).await?;
    Ok(())
}

/// Binds one value.
pub(super) fn add<'q, T>(values: &mut PgArguments, value: T) -> Result<(), StoreError>
where
    T: sqlx::Encode<'q, Postgres> + sqlx::Type<Postgres>,
{
    values.add(value).map_err(StoreError::unbound)
}

async fn fetch(
    connection: &mut PgConnection,
    text: &Arc<str>,
    values: PgArguments,
) -> Result<Vec<PgRow>, StoreError> {
    Ok(sqlx::query_with(AssertSqlSafe(Arc::clone(text)), values).fetch_all(connection).await?)
}
