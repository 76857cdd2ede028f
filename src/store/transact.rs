//! Statements that belong together: all of them are done, or nothing.

use super::reader::{self, Arg};
use super::{Pool, Store, StoreError};
use sqlx::{AssertSqlSafe, Connection as _, PgPool, Row as _};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::time::Duration;

/// How long a transaction may take on PostgreSQL, by this program's clock.
const LIMIT: Duration = Duration::from_secs(20);

/// A statement of a transaction. Its text is made of this program's constants alone.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) text: Cow<'static, str>,
    pub(super) args: Vec<Arg>,
    /// Where it gives no row, nothing of the transaction is done.
    pub(super) is_guard: bool,
}

impl Statement {
    pub(super) fn new(text: impl Into<Cow<'static, str>>, args: Vec<Arg>) -> Self {
        Self { text: text.into(), args, is_guard: false }
    }

    /// One that must give a row.
    pub(super) fn guard(text: impl Into<Cow<'static, str>>, args: Vec<Arg>) -> Self {
        Self { is_guard: true, ..Self::new(text, args) }
    }
}

impl Store {
    /// Runs statements in one transaction; the numbers in the first column of what each gives.
    /// `None`, with nothing done, where a guard gives no row.
    pub(super) async fn transact(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Option<Vec<Vec<i64>>>, StoreError> {
        match &*self.pool {
            Pool::Sqlite(store) => store.transact(statements).await,
            Pool::Postgres(store) => {
                let working = on_postgres(&store.writers, &statements);
                // After that long it isn't known what became of it.
                let late =
                    || StoreError::Unavailable(std::io::Error::from(ErrorKind::TimedOut).into());
                tokio::time::timeout(LIMIT, working).await.unwrap_or_else(|_| Err(late()))
            }
        }
    }
}

async fn on_postgres(
    pool: &PgPool,
    statements: &[Statement],
) -> Result<Option<Vec<Vec<i64>>>, StoreError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    let mut given = Vec::with_capacity(statements.len());
    for Statement { text, args, is_guard } in statements {
        let values = reader::add_postgres(args)?;
        let text = AssertSqlSafe(text.clone());
        let rows = sqlx::query_with(text, values).fetch_all(&mut *transaction).await?;
        if *is_guard && rows.is_empty() {
            transaction.rollback().await?;
            return Ok(None);
        }
        given.push(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, sqlx::Error>>()?);
    }
    transaction.commit().await?;
    Ok(Some(given))
}
