//! One replica evaluates alerts, and one settles operations: the one that holds a lock of PostgreSQL,
//! on a connection of its own.
//!
//! The server frees the lock when that connection ends: at once where the process dies, within some
//! forty seconds where its machine or the network is gone (keep-alives), within a minute where the
//! process stands still. Whatever happens to the lock, a minute is evaluated once: moving the clock
//! of the evaluations on is part of each evaluation's transaction.

use super::{Pool, Store, StoreError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};
use std::io::ErrorKind;
use std::time::Duration;

/// How long each step on the connection may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The lock of this schema; other schemas of the database have their own. The numbers are ours
/// alone: "aler" and "span" in ASCII.
const LOCK: [&str; 2] = [
    "SELECT pg_try_advisory_lock(1634493810, hashtext(current_schema()))",
    "SELECT pg_try_advisory_lock(1936744814, hashtext(current_schema()))",
];

/// Ends the session where nothing was asked for a minute; since PostgreSQL 14.
const END_WHEN_SILENT: &str = "\
SELECT set_config(name, '60s', false) FROM pg_settings WHERE name = 'idle_session_timeout'";

/// The seat of the replica that does a task. Freed when it is dropped.
#[derive(Debug)]
pub struct Seat {
    store: Store,
    lock: &'static str,
    connection: Option<PgConnection>,
    is_held: bool,
}

impl Seat {
    /// Whether this process has the seat, after trying to take it. To be asked again every few
    /// seconds: a lock that was lost is noticed then, and a free one taken. On SQLite, where one
    /// process owns the file, it always has it.
    ///
    /// # Errors
    /// Where the database can't be asked; the seat is lost then.
    pub async fn take(&mut self) -> Result<bool, StoreError> {
        let Pool::Postgres(postgres) = &*self.store.pool else { return Ok(true) };
        let options = PgConnectOptions::clone(&postgres.readers.connect_options());
        let options = options.application_name("retrylens seat").options([
            ("tcp_keepalives_idle", "20"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "4"),
        ]);
        let connection = self.connection.take();
        let was_held = std::mem::take(&mut self.is_held);
        let lock = self.lock;
        let work = async {
            let mut connection = if let Some(connection) = connection {
                connection
            } else {
                let mut connection = options.connect().await?;
                sqlx::query(END_WHEN_SILENT).fetch_optional(&mut connection).await?;
                connection
            };
            let is_held = if was_held {
                connection.ping().await?;
                true
            } else {
                sqlx::query(lock).fetch_one(&mut connection).await?.try_get(0)?
            };
            Ok::<_, sqlx::Error>((connection, is_held))
        };
        // Where it fails the connection is dropped, and with it what it may have held.
        let done = tokio::time::timeout(LIMIT, work).await;
        let (connection, is_held) =
            done.map_err(|_| sqlx::Error::Io(ErrorKind::TimedOut.into()))??;
        (self.connection, self.is_held) = (Some(connection), is_held);
        Ok(is_held)
    }

    /// Gives the seat up, so that another replica can take it at once.
    pub async fn leave(mut self) {
        if let Some(connection) = self.connection.take() {
            drop(tokio::time::timeout(LIMIT, connection.close()).await);
        }
    }
}

impl Store {
    /// The seat of who evaluates alerts, not taken yet.
    pub fn seat(&self) -> Seat {
        Seat { store: self.clone(), lock: LOCK[0], connection: None, is_held: false }
    }

    /// The seat of who settles operations, not taken yet.
    pub fn settling_seat(&self) -> Seat {
        Seat { store: self.clone(), lock: LOCK[1], connection: None, is_held: false }
    }
}
