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
    /// The file of a SQLite database can't be opened: give it a folder that can be written.
    #[error("the database file can't be opened: {0}")]
    File(String),
    /// The database can't be reached or is going away: try again later.
    #[error("the database can't be reached")]
    Unavailable(#[source] Cause),
    /// The question took too long and was stopped: ask for less.
    #[error("the question was stopped after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// There is no room left, on the disk or below a quota or a limit on the size of files: make
    /// room, then send again.
    #[error("there is no room left for the database")]
    Full(#[source] Cause),
    /// The database is damaged: restore it from a copy.
    #[error("the database is damaged")]
    Damaged(#[source] Cause),
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
            let code = inner.code().unwrap_or_default().into_owned();
            return if code.len() == 5 {
                Self::of_postgres(&code, error.into())
            } else {
                Self::of_sqlite(code.parse().ok(), error.into())
            };
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
    /// By SQLite's result code. Extended codes keep the primary one in the low byte
    /// (<https://www.sqlite.org/rescode.html>).
    fn of_sqlite(code: Option<i32>, cause: Cause) -> Self {
        // Writing, flushing or growing a file fails so beyond a quota or a limit on its size; on a
        // full disk the code is 13.
        if let Some(778 | 1034 | 4874) = code {
            return Self::Full(cause);
        }
        match code.map(|code| code & 0xff) {
            // Interrupted.
            Some(9) => Self::TimedOut(super::READ_LIMIT),
            Some(13) => Self::Full(cause),
            // Busy, locked, another error of the disk, can't be opened.
            Some(5 | 6 | 10 | 14) => Self::Unavailable(cause),
            // Malformed, not a database.
            Some(11 | 26) => Self::Damaged(cause),
            _ => Self::Database(cause),
        }
    }

    /// By PostgreSQL's error code
    /// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
    fn of_postgres(code: &str, cause: Cause) -> Self {
        match code {
            "57014" => Self::TimedOut(super::READ_LIMIT),
            "53100" => Self::Full(cause),
            // Too many connections, an error of the disk, read-only after a switch to a replica, a
            // batch that was cut off in its middle.
            "53300" | "58030" | "25006" | "25P03" => Self::Unavailable(cause),
            "XX001" | "XX002" => Self::Damaged(cause),
            _ if code.starts_with("08") || code.starts_with("57P") => Self::Unavailable(cause),
            _ => Self::Database(cause),
        }
    }

    /// A value that a driver can't bind.
    pub(super) fn unbound(error: sqlx::error::BoxDynError) -> Self {
        Self::Database(sqlx::Error::Encode(error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sqlite(code: i32) -> StoreError {
        StoreError::of_sqlite(Some(code), sqlx::Error::PoolClosed.into())
    }

    fn of_postgres(code: &str) -> StoreError {
        StoreError::of_postgres(code, sqlx::Error::PoolClosed.into())
    }

    #[test]
    fn a_code_of_the_database_says_what_the_caller_can_do() {
        // 13 full, 778 write failed (quota), 4874 no room for the index of the log.
        for code in [13, 778, 4874] {
            assert!(matches!(of_sqlite(code), StoreError::Full(_)), "{code}");
        }
        // 517 a snapshot that is too old, 266 read failed.
        for code in [5, 6, 517, 266, 14] {
            assert!(matches!(of_sqlite(code), StoreError::Unavailable(_)), "{code}");
        }
        for code in [11, 26, 267] {
            assert!(matches!(of_sqlite(code), StoreError::Damaged(_)), "{code}");
        }
        assert!(matches!(of_sqlite(9), StoreError::TimedOut(_)));
        assert!(matches!(of_sqlite(2067), StoreError::Database(_)));

        assert!(matches!(of_postgres("53100"), StoreError::Full(_)));
        for code in ["08006", "57P01", "57P03", "53300", "25006"] {
            assert!(matches!(of_postgres(code), StoreError::Unavailable(_)), "{code}");
        }
        assert!(matches!(of_postgres("XX001"), StoreError::Damaged(_)));
        assert!(matches!(of_postgres("57014"), StoreError::TimedOut(_)));
        assert!(matches!(of_postgres("23505"), StoreError::Database(_)));
    }
}
