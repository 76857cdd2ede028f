//! SQLite: one file, one writer, readers of their own.
//!
//! Durable: write-ahead log with `synchronous=FULL`, so that what is committed survives a loss of
//! power. Rows are written in statements of fixed sizes (a *ladder*), because a statement costs far
//! more than a row (measured in the storage notes of the project).

use super::batch::{self, Dictionary, Ids, Missing};
use super::rows::{Class, Draft, SeriesKey};
use super::{StoreError, migrations, sql};
use crate::domain::stored::{Inserted, SenderCounts};
use crate::domain::time::UnixMillis;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, Sqlite,
    SqliteConnection,
};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How many questions are read at once.
const READERS: u32 = 8;
/// How long a connection waits for another process that writes.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
/// How long a question waits for a free reader.
const READER_WAIT: Duration = Duration::from_secs(10);
/// Rows of events in a statement. SQLite takes 32,766 values in one (sqlite.org/limits.html).
const EVENT_RUNGS: &[usize] = &[1000, 250, 64, 16, 4, 1];
/// Rows of sums in a statement.
const SUM_RUNGS: &[usize] = &[1000, 250, 64, 16, 4, 1];
/// Names or ids looked up in a statement.
const LOOKUP_RUNGS: &[usize] = &[1000, 250, 64, 16, 4, 1];

/// The writer's lock, and the pool of readers.
#[derive(Debug)]
pub(super) struct SqliteStore {
    pub(super) readers: sqlx::SqlitePool,
    writer: Mutex<Option<Writer>>,
}

/// The one connection that writes, and what it knows.
#[derive(Debug)]
struct Writer {
    connection: SqliteConnection,
    dictionary: Dictionary,
    statements: Arc<Statements>,
}

/// Statement texts, made once.
#[derive(Debug)]
struct Statements {
    stored: Ladder,
    events: Ladder,
    minutes: Ladder,
    classes: Ladder,
    actors: Ladder,
    find_series: Ladder,
    add_series: Ladder,
    find_words: Ladder,
    add_words: Ladder,
}

/// One statement in several sizes, largest first.
#[derive(Debug)]
struct Ladder(Vec<(usize, Arc<str>)>);

impl Ladder {
    /// `head`, then `row` (`(?, ?)`) once per row with commas between, then `tail`.
    fn new(rungs: &[usize], head: &str, row: &str, tail: &str) -> Self {
        Self(
            rungs
                .iter()
                .map(|n| {
                    let rows = vec![row; *n].join(", ");
                    (*n, Arc::from(format!("{head}{rows}{tail}")))
                })
                .collect(),
        )
    }

    /// Cuts `rows` rows into statements: (text, how many rows it takes).
    fn cut(&self, mut rows: usize) -> Vec<(Arc<str>, usize)> {
        let mut cuts = Vec::new();
        for (size, text) in &self.0 {
            while rows >= *size {
                cuts.push((Arc::clone(text), *size));
                rows -= size;
            }
        }
        cuts
    }
}

fn marks(columns: usize) -> String {
    format!("({})", vec!["?"; columns].join(", "))
}

impl Statements {
    fn new() -> Self {
        let sums = |sums: sql::Sums| {
            Ladder::new(
                SUM_RUNGS,
                &format!("{}VALUES ", sums.head()),
                &marks(sums.columns.len()),
                &sums.tail(),
            )
        };
        Self {
            stored: Ladder::new(
                LOOKUP_RUNGS,
                "SELECT event_id, occurred_at FROM events WHERE event_id IN (",
                "?",
                ")",
            ),
            events: Ladder::new(
                EVENT_RUNGS,
                &format!("INSERT INTO events ({}) VALUES ", sql::EVENT_INSERT.join(", ")),
                &marks(sql::EVENT_INSERT.len()),
                "",
            ),
            minutes: sums(sql::MINUTES),
            classes: sums(sql::CLASS_SUMS),
            actors: sums(sql::ACTOR_SUMS),
            find_series: Ladder::new(
                LOOKUP_RUNGS,
                "SELECT id, service, upstream, environment, route FROM series \
                 WHERE (service, upstream, environment, route) IN (VALUES ",
                &marks(4),
                ")",
            ),
            add_series: Ladder::new(
                LOOKUP_RUNGS,
                "INSERT INTO series (service, upstream, environment, route) VALUES ",
                &marks(4),
                " RETURNING id, service, upstream, environment, route",
            ),
            find_words: Ladder::new(
                LOOKUP_RUNGS,
                "SELECT id, word FROM words WHERE word IN (",
                "?",
                ")",
            ),
            add_words: Ladder::new(
                LOOKUP_RUNGS,
                "INSERT INTO words (word) VALUES ",
                "(?)",
                " RETURNING id, word",
            ),
        }
    }
}

impl SqliteStore {
    /// Opens or creates the file and brings its schema up to date.
    pub(super) async fn open(url: &str) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|error| StoreError::Address(error.to_string()))?;
        if url.contains(":memory:") || options.get_filename().as_os_str().is_empty() {
            return Err(StoreError::Address(
                "a database in memory can't be shared by a writer and readers: name a file, \
                 such as sqlite://retrylens.db"
                    .to_owned(),
            ));
        }
        // The page size comes before the journal mode: it can't be changed once the file is in WAL
        // mode (sqlite.org/pragma.html#pragma_page_size).
        let options = options
            .page_size(16_384)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_LIMIT)
            .foreign_keys(false)
            .pragma("temp_store", "MEMORY")
            .statement_cache_capacity(200)
            .disable_statement_logging();
        let writing = options
            .clone()
            .create_if_missing(true)
            .pragma("cache_size", "-65536")
            .pragma("wal_autocheckpoint", "4000");
        let mut connection = writing.connect().await.map_err(|error| match error {
            sqlx::Error::Database(inner) => StoreError::Address(format!(
                "{}: {}",
                options.get_filename().display(),
                inner.message()
            )),
            other => StoreError::from(other),
        })?;
        migrations::apply_sqlite(&mut connection).await?;
        let reading =
            options.read_only(true).pragma("query_only", "ON").pragma("cache_size", "-16384");
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .acquire_timeout(READER_WAIT)
            .idle_timeout(Duration::from_mins(1))
            .connect_lazy_with(reading);
        let writer = Writer {
            connection,
            dictionary: Dictionary::default(),
            statements: Arc::new(Statements::new()),
        };
        Ok(Self { readers, writer: Mutex::new(Some(writer)) })
    }

    /// Closes the readers, then the writer, which puts the log back into the file.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.readers.close().await;
        if let Some(writer) = self.writer.lock().await.take() {
            writer.connection.close().await?;
        }
        Ok(())
    }

    /// Stores what is new in `drafts`, with its sums, in one transaction.
    pub(super) async fn insert(
        &self,
        drafts: &[Draft],
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        let mut guard = self.writer.lock().await;
        let writer = guard.as_mut().ok_or_else(closed)?;
        let statements = Arc::clone(&writer.statements);
        let mut transaction = writer.connection.begin_with("BEGIN IMMEDIATE").await?;

        let stored = stored_identities(&mut transaction, &statements, drafts).await?;
        let results = batch::sift(drafts, &stored);
        let new: Vec<(&Draft, Inserted)> = drafts
            .iter()
            .zip(results.iter().copied())
            .filter(|(_, result)| *result != Inserted::Duplicate)
            .collect();
        if new.is_empty() {
            transaction.rollback().await?;
            return Ok(results);
        }
        let mut found = writer.dictionary.missing(new.iter().map(|(draft, _)| *draft));
        name_all(&mut transaction, &statements, &mut found).await?;
        let ids: Vec<Ids> = new
            .iter()
            .map(|(draft, _)| writer.dictionary.ids(draft, &found).ok_or_else(unnamed))
            .collect::<Result<_, _>>()?;
        let sums = batch::add_up(
            new.iter().zip(&ids).map(|((draft, result), ids)| (*draft, *ids, *result)),
            received_at,
        );
        let rows = new.iter().zip(&ids).map(|((draft, _), ids)| (*draft, ids));
        add_events(&mut transaction, &statements.events, rows, received_at).await?;
        add_rows(&mut transaction, &statements.minutes, &sums.minutes).await?;
        add_rows(&mut transaction, &statements.classes, &sums.classes).await?;
        add_rows(&mut transaction, &statements.actors, &sums.actors).await?;
        for (service, counts) in &sums.senders {
            add_sender(&mut transaction, service, counts).await?;
        }
        transaction.commit().await?;
        writer.dictionary.learn(found);
        Ok(results)
    }

    /// Adds to what is counted of senders.
    pub(super) async fn add_senders(
        &self,
        senders: &[(String, SenderCounts)],
    ) -> Result<(), StoreError> {
        let mut guard = self.writer.lock().await;
        let writer = guard.as_mut().ok_or_else(closed)?;
        let mut transaction = writer.connection.begin_with("BEGIN IMMEDIATE").await?;
        for (service, counts) in senders {
            add_sender(&mut transaction, service, counts).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Runs one statement that writes; its first column of the first row, where there is one.
    pub(super) async fn write(
        &self,
        text: &'static str,
        values: SqliteArguments,
    ) -> Result<Option<i64>, StoreError> {
        let mut guard = self.writer.lock().await;
        let writer = guard.as_mut().ok_or_else(closed)?;
        let row = sqlx::query_with(text, values).fetch_optional(&mut writer.connection).await?;
        Ok(row.map(|row: SqliteRow| row.try_get(0)).transpose()?)
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable(sqlx::Error::PoolClosed)
}

fn unnamed() -> StoreError {
    StoreError::Corrupt {
        table: "series, classes or words",
        column: "id",
        reason: "a name that was just added can't be found".to_owned(),
    }
}

/// Identities in the database whose event id occurs in the batch. The index alone answers this, and
/// its pages are the ones that the insert touches next.
async fn stored_identities(
    connection: &mut SqliteConnection,
    statements: &Statements,
    drafts: &[Draft],
) -> Result<Vec<(String, i64)>, StoreError> {
    let mut stored = Vec::new();
    let mut ids = drafts.iter().map(|draft| &draft.event_id);
    for (text, rows) in statements.stored.cut(drafts.len()) {
        let mut values = SqliteArguments::default();
        for id in ids.by_ref().take(rows) {
            add(&mut values, Arc::clone(id))?;
        }
        for row in fetch(connection, text, values).await? {
            stored.push((row.try_get(0)?, row.try_get(1)?));
        }
    }
    Ok(stored)
}

/// Gives every missing series, class and word its number, adding those that are new.
async fn name_all(
    connection: &mut SqliteConnection,
    statements: &Statements,
    missing: &mut Missing,
) -> Result<(), StoreError> {
    let keys: Vec<SeriesKey> = missing.series.keys().cloned().collect();
    find_series(connection, &statements.find_series, &keys, missing).await?;
    let keys: Vec<SeriesKey> =
        missing.series.iter().filter(|(_, id)| **id == 0).map(|(key, _)| key.clone()).collect();
    find_series(connection, &statements.add_series, &keys, missing).await?;

    let words: Vec<Arc<str>> = missing.words.keys().cloned().collect();
    find_words(connection, &statements.find_words, &words, missing).await?;
    let words: Vec<Arc<str>> = missing
        .words
        .iter()
        .filter(|(_, id)| **id == 0)
        .map(|(word, _)| Arc::clone(word))
        .collect();
    find_words(connection, &statements.add_words, &words, missing).await?;

    for (class, id) in &mut missing.classes {
        *id = name_class(connection, class).await?;
    }
    Ok(())
}

async fn find_series(
    connection: &mut SqliteConnection,
    ladder: &Ladder,
    keys: &[SeriesKey],
    found: &mut Missing,
) -> Result<(), StoreError> {
    let mut keys_left = keys.iter();
    for (text, rows) in ladder.cut(keys.len()) {
        let mut values = SqliteArguments::default();
        for key in keys_left.by_ref().take(rows) {
            for name in [&key.service, &key.upstream, &key.environment, &key.route] {
                add(&mut values, name.clone())?;
            }
        }
        for row in fetch(connection, text, values).await? {
            let key = SeriesKey {
                service: row.try_get(1)?,
                upstream: row.try_get(2)?,
                environment: row.try_get(3)?,
                route: row.try_get(4)?,
            };
            found.series.insert(key, row.try_get(0)?);
        }
    }
    Ok(())
}

async fn find_words(
    connection: &mut SqliteConnection,
    ladder: &Ladder,
    words: &[Arc<str>],
    found: &mut Missing,
) -> Result<(), StoreError> {
    let mut words_left = words.iter();
    for (text, rows) in ladder.cut(words.len()) {
        let mut values = SqliteArguments::default();
        for word in words_left.by_ref().take(rows) {
            add(&mut values, Arc::clone(word))?;
        }
        for row in fetch(connection, text, values).await? {
            let word: String = row.try_get(1)?;
            found.words.insert(Arc::from(word), row.try_get(0)?);
        }
    }
    Ok(())
}

/// The number of a class, which is added where it is new.
async fn name_class(connection: &mut SqliteConnection, class: &Class) -> Result<i64, StoreError> {
    let columns = sql::CLASS_INSERT;
    let conditions: Vec<String> =
        columns.iter().enumerate().map(|(i, c)| format!("{c} = ${}", i + 1)).collect();
    let find = format!("SELECT id FROM classes WHERE {}", conditions.join(" AND "));
    let insert = format!(
        "INSERT INTO classes ({}) VALUES {} RETURNING id",
        columns.join(", "),
        marks(columns.len())
    );
    for text in [find, insert] {
        let mut values = SqliteArguments::default();
        for word in class.texts() {
            add(&mut values, word)?;
        }
        add(&mut values, class.status_code())?;
        add(&mut values, i64::from(class.limited))?;
        let rows = fetch(connection, Arc::from(text), values).await?;
        if let Some(row) = rows.first() {
            return Ok(row.try_get(0)?);
        }
    }
    Err(unnamed())
}

async fn add_events<'a>(
    connection: &mut SqliteConnection,
    ladder: &Ladder,
    mut rows_left: impl ExactSizeIterator<Item = (&'a Draft, &'a Ids)>,
    received_at: UnixMillis,
) -> Result<(), StoreError> {
    for (text, rows) in ladder.cut(rows_left.len()) {
        let mut values = SqliteArguments::default();
        values.reserve(rows * sql::EVENT_INSERT.len(), 0);
        for (draft, ids) in rows_left.by_ref().take(rows) {
            let [key, address, account, instance] = ids.actors;
            add(&mut values, draft.event_id.clone())?;
            add(&mut values, draft.occurred_at)?;
            add(&mut values, received_at.0)?;
            add(&mut values, ids.series)?;
            add(&mut values, ids.class)?;
            add(&mut values, i64::from(draft.attempt))?;
            add(&mut values, i64::from(draft.count))?;
            add(&mut values, draft.duration_ms)?;
            add(&mut values, key)?;
            add(&mut values, address)?;
            add(&mut values, account)?;
            add(&mut values, instance)?;
            add(&mut values, draft.operation_id.clone())?;
            add(&mut values, draft.request_id.clone())?;
            add(&mut values, draft.ray_id.clone())?;
            add(&mut values, draft.trace_id.clone())?;
            add(&mut values, draft.idempotency_key_hash.clone())?;
            add(&mut values, draft.body_hash.clone())?;
            add(&mut values, draft.detail.clone())?;
        }
        execute(connection, text, values).await?;
    }
    Ok(())
}

async fn add_rows<const N: usize>(
    connection: &mut SqliteConnection,
    ladder: &Ladder,
    rows: &[[i64; N]],
) -> Result<(), StoreError> {
    let mut rows_left = rows.iter();
    for (text, n) in ladder.cut(rows.len()) {
        let mut values = SqliteArguments::default();
        values.reserve(n * N, 0);
        for number in rows_left.by_ref().take(n).flatten() {
            add(&mut values, *number)?;
        }
        execute(connection, text, values).await?;
    }
    Ok(())
}

async fn add_sender(
    connection: &mut SqliteConnection,
    service: &str,
    counts: &SenderCounts,
) -> Result<(), StoreError> {
    let mut values = SqliteArguments::default();
    add(&mut values, service)?;
    for n in [
        counts.events,
        counts.redactions,
        counts.unknown_fields,
        counts.rejected,
        counts.id_conflicts,
    ] {
        add(&mut values, n)?;
    }
    sqlx::query_with(sql::ADD_SENDER, values).execute(connection).await?;
    Ok(())
}

/// Binds one value.
pub(super) fn add<'q, T>(values: &mut SqliteArguments, value: T) -> Result<(), StoreError>
where
    T: sqlx::Encode<'q, Sqlite> + sqlx::Type<Sqlite>,
{
    values.add(value).map_err(|error| StoreError::Database(sqlx::Error::Encode(error)))
}

async fn fetch(
    connection: &mut SqliteConnection,
    text: Arc<str>,
    values: SqliteArguments,
) -> Result<Vec<SqliteRow>, StoreError> {
    Ok(sqlx::query_with(AssertSqlSafe(text), values).fetch_all(connection).await?)
}

async fn execute(
    connection: &mut SqliteConnection,
    text: Arc<str>,
    values: SqliteArguments,
) -> Result<(), StoreError> {
    sqlx::query_with(AssertSqlSafe(text), values).execute(connection).await?;
    Ok(())
}
