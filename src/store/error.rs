//! What can go wrong between a question and the database, by what the caller can do about it.

use std::time::Duration;

/// What a database driver said.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address names no database that can be opened: change the setting.
    #[error("the database address can't be used: {0}")]
    Address(String),
    /// The database can't be reached or is going away: try again later.
    #[error("the database can't be reached")]
    Unavailable(#[source] Cause),
    /// The question took too long and was stopped: ask for less.
    #[error("the question was stopped after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// There is no room left: make room, then send again.
    #[error("the disk that holds the database is full")]
    Full(#[source] Cause),
    /// A stored value is not what this version can read.
    #[error("{table}.{column} holds a value that can't be read: {reason}")]
    Corrupt {
        /// Table of the value.
        table: &'static str,
        /// Its column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A change of the schema failed; nothing of it was kept.
    #[error("schema change {name} failed")]
    Migration {
        /// File name of the change.
        name: &'static str,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Anything else that the database reports.
    #[error("the database reports an error")]
    Database(#[source] Cause),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_) | Self::TimedOut(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(inner) = &error {
            // PostgreSQL's codes are five characters long (appendix A of its manual), SQLite's at
            // most four.
            let code = inner.code().unwrap_or_default();
            if code.len() == 5 {
                return match code.as_ref() {
                    "53100" => Self::Full(error.into()),
                    "57014" => Self::TimedOut(super::READ_LIMIT),
                    _ if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
                        Self::Unavailable(error.into())
                    }
                    _ => Self::Database(error.into()),
                };
            }
            return Self::of_sqlite(code.parse().ok(), error.into());
        }
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.into()),
            other => Self::Database(other.into()),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().map(|inner| inner.extended_code);
        Self::of_sqlite(code, error.into())
    }
}

impl StoreError {
    /// By SQLite's result code: 5 busy, 6 locked, 9 interrupted, 13 full, 14 can't open; extended
    /// codes keep the primary one in the low byte (sqlite.org/rescode.html).
    fn of_sqlite(code: Option<i32>, cause: Cause) -> Self {
        match code.map(|code| code & 0xff) {
            Some(9) => Self::TimedOut(super::READ_LIMIT),
            Some(13) => Self::Full(cause),
            Some(5 | 6 | 14) => Self::Unavailable(cause),
            _ => Self::Database(cause),
        }
    }

    /// A value that a driver can't bind.
    pub(super) fn unbound(error: sqlx::error::BoxDynError) -> Self {
        Self::Database(sqlx::Error::Encode(error).into())
    }
}
