//! SQLite: one file, one thread that writes, readers of their own.
//!
//! Durable: write-ahead log with `synchronous=FULL`, so that what is committed survives a loss of
//! power. Reads and schema changes go through sqlx. The writer uses rusqlite on the same SQLite
//! library: a prepared statement costs a microsecond there, where each crosses to another thread
//! and back through sqlx.
//!
//! - `writer`: a batch of events in one transaction.
//! - `slices`: stretches of time in which ids are looked up.
//! - `merge`: old ones become one.
//! - `ids`: ids as they are kept.
//! - `verify`: is every event found by its ids?
//! - `expiry`: what is old goes, in small steps, and the file shrinks.

mod expiry;
pub(super) mod ids;
mod known;
mod merge;
mod slices;
mod verify;
mod writer;

use super::kept::{Keep, Tidied};
use super::reader::{Arg, storable};
use super::rows::Draft;
use super::transact::Statement;
use super::verify::IdFault;
use super::{StoreError, migrations};
use crate::domain::stored::{Inserted, SenderCounts};
use crate::domain::time::UnixMillis;
use rusqlite::types::Value;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use writer::Writer;

/// How many questions are read at once.
const READERS: u32 = 8;
/// Rows that a reader makes ready before it waits for them to be taken.
const ROWS_AT_ONCE: usize = 1_024;
/// How many of them have a second snapshot at once.
const TWINS: u32 = 4;
/// How long a connection waits for another process that writes.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
/// How long a question waits for a free reader.
const READER_WAIT: Duration = Duration::from_secs(10);

/// Something for the writer to do.
type Task = Box<dyn FnOnce(&mut Writer) + Send>;

/// The way to the writer, and the pool of readers.
#[derive(Debug)]
pub(super) struct SqliteStore {
    file: PathBuf,
    pub(super) readers: sqlx::SqlitePool,
    /// For second snapshots of questions that have a reader: apart, so that questions never wait
    /// for each other in a ring.
    pub(super) twins: sqlx::SqlitePool,
    /// `None` once it is closed. The thread ends when nobody can send any more.
    tasks: Mutex<Option<mpsc::Sender<Task>>>,
    /// Resolves when the writer has closed the file.
    ended: tokio::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

impl SqliteStore {
    /// Opens or creates the file and brings its schema up to date. A look at it is stopped after
    /// `read_limit`.
    pub(super) async fn open(url: &str, read_limit: Duration) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|error| StoreError::Address(error.to_string()))?;
        let file = options.get_filename().to_owned();
        if url.contains(":memory:") || file.as_os_str().is_empty() {
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
            .disable_statement_logging();
        let mut making = options.clone().create_if_missing(true);
        if std::fs::metadata(&file).map_or(0, |found| found.len()) == 0 {
            // Lets the file shrink in small steps. It comes before the first table, and writes to
            // the file each time (sqlite.org/pragma.html#pragma_auto_vacuum).
            making = making.auto_vacuum(SqliteAutoVacuum::Incremental);
        }
        let mut connection = making.connect().await.map_err(|error| match error {
            sqlx::Error::Database(inner) => {
                let code = inner.code().and_then(|code| code.parse::<i32>().ok());
                // Can't be opened, or only be read.
                let advice = match code.map(|code| code & 0xff) {
                    Some(8 | 14) => "; it and its folder must exist and be writable",
                    _ => "",
                };
                StoreError::File(format!("{}: {}{advice}", file.display(), inner.message()))
            }
            other => StoreError::from(other),
        })?;
        migrations::apply_sqlite(&mut connection).await?;
        connection.close().await?;
        // Rows cross to the asking thread in bundles, not one by one.
        let reading = options
            .row_buffer_size(ROWS_AT_ONCE)
            .read_only(true)
            .pragma("query_only", "ON")
            .pragma("cache_size", "-16384");
        let pool = |most: u32| {
            SqlitePoolOptions::new()
                .max_connections(most)
                .min_connections(0)
                .acquire_timeout(READER_WAIT)
                .idle_timeout(Duration::from_mins(1))
                // A thread of this process answers, which nothing can cut off.
                .test_before_acquire(false)
                .after_connect(move |connection, _| Box::pin(limit(connection, read_limit)))
                // Ends the transaction of whoever had it; a connection that had none is in a state
                // that it shouldn't be in.
                .after_release(|connection, _| {
                    Box::pin(async { Ok(connection.execute("ROLLBACK").await.is_ok()) })
                })
                .connect_lazy_with(reading.clone())
        };
        let (readers, twins) = (pool(READERS), pool(TWINS));
        let opening = file.clone();
        let (tasks, waiting) = mpsc::channel::<Task>();
        let (opened, is_open) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                match Writer::open(&opening, BUSY_LIMIT) {
                    Err(error) => drop(opened.send(Err(error))),
                    Ok(mut writer) => {
                        drop(opened.send(Ok(())));
                        while let Ok(task) = waiting.recv() {
                            task(&mut writer);
                        }
                    }
                }
                // Its end tells whoever waits.
                drop(end);
            })
            .map_err(sqlx::Error::Io)?;
        is_open.await.map_err(|_| closed())??;
        Ok(Self {
            file,
            readers,
            twins,
            tasks: Mutex::new(Some(tasks)),
            ended: tokio::sync::Mutex::new(Some(ended)),
        })
    }

    /// Closes the readers, then the writer, which puts the log back into the file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.twins.close().await;
        drop(self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(ended) = self.ended.lock().await.take() {
            drop(ended.await);
        }
    }

    /// Stores what is new in `drafts`, with its sums, in one transaction. Goes on to its end even
    /// where the caller goes away.
    pub(super) async fn insert(
        &self,
        drafts: Arc<Vec<Draft>>,
        received_at: UnixMillis,
    ) -> Result<Vec<Inserted>, StoreError> {
        self.with(move |writer| writer.insert(&drafts, received_at)).await
    }

    /// Adds to what is counted of senders.
    pub(super) async fn add_senders(
        &self,
        senders: Vec<(String, SenderCounts)>,
    ) -> Result<(), StoreError> {
        self.with(move |writer| writer.add_senders(&senders)).await
    }

    /// Gathers the sums of one stretch that is over, or else makes a step to fewer slices; whether
    /// there was anything to do.
    pub(super) async fn gather(&self, now: UnixMillis) -> Result<bool, StoreError> {
        self.with(move |writer| Ok(writer.gather(now)? || writer.merge()?)).await
    }

    /// Removes a little of what is old, or gives a little space back.
    pub(super) async fn tidy(&self, keep: Keep, now: UnixMillis) -> Result<Tidied, StoreError> {
        self.with(move |writer| writer.tidy(&keep, now)).await
    }

    /// Checks the file and the look-up of ids.
    pub(super) async fn verify(&self) -> Result<(Vec<String>, Vec<IdFault>), StoreError> {
        let file = self.file.clone();
        let checking = tokio::task::spawn_blocking(move || verify::verify(&file));
        checking.await.map_err(|error| sqlx::Error::Io(error.into()))?
    }

    /// Writes the ids of a slice anew, or without one brings the slices in order.
    pub(super) async fn mend_ids(&self, slice: Option<i64>) -> Result<(), StoreError> {
        self.with(move |writer| writer.mend_ids(slice)).await
    }

    /// Runs statements in one transaction.
    pub(super) async fn mend(&self, statements: Vec<String>) -> Result<(), StoreError> {
        self.with(move |writer| writer.mend(&statements)).await
    }

    /// Runs one statement that writes; its first column of the first row, where there is one.
    pub(super) async fn write(
        &self,
        text: &'static str,
        values: Vec<Value>,
    ) -> Result<Option<i64>, StoreError> {
        self.with(move |writer| writer.write(text, values)).await
    }

    /// Runs statements in one transaction; see [`crate::store::transact::Statement`].
    pub(super) async fn transact(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Option<Vec<Vec<i64>>>, StoreError> {
        self.with(move |writer| writer.transact(&statements)).await
    }

    /// Hands a task to the writer and waits for what it gives.
    async fn with<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        // A caller that went away changes nothing.
        let task: Task = Box::new(move |writer| drop(reply.send(task(writer))));
        {
            let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.as_ref().ok_or_else(closed)?.send(task).map_err(|_| closed())?;
        }
        answer.await.map_err(|_| closed())?
    }
}

/// Stops each transaction of a connection that works for longer than `limit`. It is set once:
/// the time begins when a transaction has worked for 20,000 steps, and ends with its `ROLLBACK`.
async fn limit(connection: &mut SqliteConnection, limit: Duration) -> Result<(), sqlx::Error> {
    let begun = Arc::new(Mutex::new(None::<Instant>));
    let over = Arc::clone(&begun);
    let mut handle = connection.lock_handle().await?;
    handle.set_rollback_hook(move || {
        *over.lock().unwrap_or_else(PoisonError::into_inner) = None;
    });
    handle.set_progress_handler(20_000, move || {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get_or_insert_with(Instant::now).elapsed() < limit
    });
    Ok(())
}

fn closed() -> StoreError {
    sqlx::Error::PoolClosed.into()
}

/// A value as this database takes it.
pub(super) fn value(arg: &Arg) -> Value {
    match arg {
        Arg::Int(n) => Value::Integer(*n),
        Arg::Text(text) | Arg::MaybeText(Some(text)) => Value::Text(storable(text).into_owned()),
        Arg::MaybeText(None) => Value::Null,
        Arg::Id(id) => Value::Blob(ids::pack(&storable(id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::stored::{NewMark, Scope};
    use crate::store::reader::Reader;
    use crate::store::{Pool, Store};
    use std::path::Path;

    async fn store(folder: &Path, read_limit: Duration) -> Store {
        let url = format!("sqlite://{}", folder.join("looks.db").display());
        Store::on(Pool::Sqlite(SqliteStore::open(&url, read_limit).await.unwrap()))
    }

    /// Waits until the one connection is in the pool again.
    async fn one_is_free(store: &Store) {
        let Pool::Sqlite(pool) = &*store.pool else { panic!("not SQLite") };
        while pool.readers.num_idle() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(pool.readers.size(), 1);
    }

    #[tokio::test]
    async fn a_question_that_takes_too_long_is_stopped_and_the_next_has_its_own_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), Duration::from_millis(200)).await;
        let count = |limit: i64| {
            format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {limit}) \
                 SELECT COUNT(*) FROM n"
            )
        };
        for _ in 0..3 {
            let mut reader = Reader::open(&store).await.unwrap();
            let stopped = reader.all(count(-1), &[]).await;
            assert!(matches!(stopped, Err(StoreError::TimedOut(_))), "{stopped:?}");
            drop(reader);
            one_is_free(&store).await;
            // Long enough for its time to be looked at.
            let mut reader = Reader::open(&store).await.unwrap();
            assert_eq!(reader.all(count(5_000), &[]).await.unwrap()[0].int(0).unwrap(), 5_000);
            drop(reader);
            one_is_free(&store).await;
        }
    }

    #[tokio::test]
    async fn what_is_asked_in_one_look_is_of_one_moment() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), Duration::from_secs(10)).await;
        let mut before = Reader::open(&store).await.unwrap();
        assert_eq!(before.marks(&Scope::default()).await.unwrap(), []);
        let mark = NewMark { at: UnixMillis(1), service: None, upstream: None, title: "x".into() };
        let mark = store.add_mark(mark).await.unwrap();
        assert_eq!(before.marks(&Scope::default()).await.unwrap(), []);
        drop(before);
        let mut after = Reader::open(&store).await.unwrap();
        assert_eq!(after.marks(&Scope::default()).await.unwrap(), [mark]);
    }
}
