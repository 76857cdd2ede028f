//! Reading: one snapshot per question, one way to ask on both databases, and a time limit.

use super::{Pool, READ_LIMIT, StoreError};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Postgres, Row as _, Sqlite, Transaction};
use std::borrow::Cow;
use std::time::Duration;

/// A value handed to a statement.
#[derive(Debug, Clone)]
pub(super) enum Arg {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A text or nothing.
    MaybeText(Option<String>),
}

impl From<i64> for Arg {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A row of either database.
#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// The number in column `at`.
    pub(super) fn int(&self, at: usize) -> Result<i64, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }

    /// The number in column `at`, where there is one.
    pub(super) fn int_or_none(&self, at: usize) -> Result<Option<i64>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }

    /// The text in column `at`.
    pub(super) fn text(&self, at: usize) -> Result<Cow<'_, str>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => Cow::Borrowed(row.try_get::<&str, _>(at)?),
            Self::Postgres(row) => Cow::Borrowed(row.try_get::<&str, _>(at)?),
        })
    }

    /// The text in column `at`, where there is one.
    pub(super) fn text_or_none(&self, at: usize) -> Result<Option<String>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }
}

/// One snapshot of the database: everything asked through one reader fits together.
#[derive(Debug)]
pub(super) enum Reader {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Reader {
    /// Opens a snapshot. Statements in it are stopped after [`READ_LIMIT`]: by a progress handler
    /// in SQLite, by `statement_timeout` (set when the connection was made) in PostgreSQL.
    pub(super) async fn open(pool: &Pool) -> Result<Self, StoreError> {
        Self::open_within(pool, READ_LIMIT).await
    }

    async fn open_within(pool: &Pool, limit: Duration) -> Result<Self, StoreError> {
        match pool {
            Pool::Sqlite(pool) => {
                let mut transaction = pool.readers.begin().await?;
                let end = tokio::time::Instant::now() + limit;
                transaction
                    .lock_handle()
                    .await?
                    .set_progress_handler(20_000, move || tokio::time::Instant::now() < end);
                Ok(Self::Sqlite(transaction))
            }
            Pool::Postgres(pool) => Ok(Self::Postgres(
                pool.readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
            )),
        }
    }

    /// Takes the time limit off this snapshot.
    pub(super) async fn lift_limit(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(transaction) => {
                transaction.lock_handle().await?.remove_progress_handler();
            }
            Self::Postgres(transaction) => {
                sqlx::query("SET LOCAL statement_timeout = 0").execute(&mut **transaction).await?;
            }
        }
        Ok(())
    }

    /// All rows of `sql`, which is made of this program's constants alone; what came from outside
    /// is in `args`.
    pub(super) async fn all(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        #[cfg(test)]
        super::plans::record(&sql, args);
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Sqlite(transaction) => {
                let mut values = SqliteArguments::default();
                add(&mut values, args)?;
                let rows = sqlx::query_with(sql, values).fetch_all(&mut **transaction).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(transaction) => {
                let mut values = PgArguments::default();
                add(&mut values, args)?;
                let rows = sqlx::query_with(sql, values).fetch_all(&mut **transaction).await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// The first row of `sql`, where there is one.
    pub(super) async fn first(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }
}

pub(super) fn add<'q, A>(values: &mut A, args: &[Arg]) -> Result<(), StoreError>
where
    A: Arguments,
    i64: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    String: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    Option<String>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
{
    for arg in args {
        match arg {
            Arg::Int(n) => values.add(*n),
            Arg::Text(text) => values.add(text.clone()),
            Arg::MaybeText(text) => values.add(text.clone()),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn a_question_that_takes_too_long_is_stopped_and_the_next_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("limit.db");
        let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                       SELECT COUNT(*) FROM n";
        let limit = Duration::from_millis(50);
        for _ in 0..3 {
            let mut reader = Reader::open_within(&store.pool, limit).await.unwrap();
            let stopped = reader.all(endless, &[]).await;
            assert!(matches!(stopped, Err(StoreError::TimedOut(_))), "{stopped:?}");
            drop(reader);
            store.ready().await.unwrap();
        }
    }

    #[tokio::test]
    async fn sqlite_is_opened_to_survive_a_loss_of_power() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pragmas.db");
        let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
        let Pool::Sqlite(sqlite) = &*store.pool else { panic!("not SQLite") };
        let mut reader = store.reader().await.unwrap();
        for (pragma, expected) in [("page_size", "16384"), ("journal_mode", "wal")] {
            let rows = reader
                .all(format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), &[])
                .await
                .unwrap();
            assert_eq!(rows[0].text(0).unwrap(), expected, "{pragma}");
        }
        // 2 is FULL: the log is flushed at every commit.
        let durable = sqlite.write("PRAGMA synchronous", SqliteArguments::default()).await;
        assert_eq!(durable.unwrap(), Some(2));
    }
}
