//! What can go wrong between a question and the database, by what the caller can do about it.

use std::time::Duration;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address names no database that can be opened: change the setting.
    #[error("the database address can't be used: {0}")]
    Address(String),
    /// The database can't be reached or is going away: try again later.
    #[error("the database can't be reached")]
    Unavailable(#[source] sqlx::Error),
    /// The question took too long and was stopped: ask for less.
    #[error("the question was stopped after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// There is no room left: make room, then send again.
    #[error("the disk that holds the database is full")]
    Full(#[source] sqlx::Error),
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
    Database(#[source] sqlx::Error),
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
            // SQLite: 5 busy, 6 locked, 9 interrupted, 13 full, 14 can't open; extended codes keep
            // the primary one in the low byte (sqlite.org/rescode.html). PostgreSQL's are five
            // characters long (appendix A of its manual), SQLite's at most four.
            let code = inner.code().unwrap_or_default();
            if code.len() == 5 {
                return match code.as_ref() {
                    "53100" => Self::Full(error),
                    "57014" => Self::TimedOut(super::READ_LIMIT),
                    _ if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
                        Self::Unavailable(error)
                    }
                    _ => Self::Database(error),
                };
            }
            return match code.parse::<i32>().map(|c| c & 0xff) {
                Ok(9) => Self::TimedOut(super::READ_LIMIT),
                Ok(13) => Self::Full(error),
                Ok(5 | 6 | 14) => Self::Unavailable(error),
                _ => Self::Database(error),
            };
        }
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error),
            other => Self::Database(other),
        }
    }
}
