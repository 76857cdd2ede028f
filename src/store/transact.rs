//! Statements that belong together: all of them are done, or nothing.

use super::reader::Arg;
use super::{Pool, Store, StoreError};
use std::borrow::Cow;

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
            Pool::Postgres(store) => store.transact(&statements).await,
        }
    }
}
