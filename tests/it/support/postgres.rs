//! A PostgreSQL for tests: the one at `RETRYLENS_TEST_POSTGRES_URL` (`scripts/test-postgres` starts
//! a private one), with a schema or a database of its own for each test.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::sync::atomic::{AtomicU32, Ordering};

/// The address of the server. `None` where tests without PostgreSQL were asked for
/// (`RETRYLENS_TEST_NO_POSTGRES=1`); a database that is missing without that is a failure.
fn server() -> Option<String> {
    if let Ok(server) = std::env::var("RETRYLENS_TEST_POSTGRES_URL") {
        return Some(server);
    }
    let is_left_out = std::env::var("RETRYLENS_TEST_NO_POSTGRES").is_ok_and(|v| v == "1");
    assert!(
        is_left_out,
        "no PostgreSQL to test on: run scripts/test-postgres cargo test, or set \
         RETRYLENS_TEST_POSTGRES_URL, or RETRYLENS_TEST_NO_POSTGRES=1 to leave it out"
    );
    None
}

fn unused_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("t{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst))
}

/// A schema that is dropped by [`Schema::drop`].
pub(crate) struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// Makes an empty schema; `None` where tests without PostgreSQL were asked for.
    pub(crate) async fn create() -> Option<Self> {
        let server = server()?;
        let name = unused_name();
        on(&server, &format!("CREATE SCHEMA {name}")).await;
        Some(Self { server, name })
    }

    /// An address whose tables are in this schema.
    pub(crate) fn url(&self) -> String {
        let sign = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{sign}options[search_path]={}", self.server, self.name)
    }

    /// Removes the schema with all that is in it.
    pub(crate) async fn drop(self) {
        on(&self.server, &format!("DROP SCHEMA {} CASCADE", self.name)).await;
    }
}

/// A database that is dropped by [`Database::drop`].
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Makes an empty database; `None` where tests without PostgreSQL were asked for.
    pub(crate) async fn create() -> Option<Self> {
        let database = Self { server: server()?, name: unused_name() };
        on(&database.server, &format!("CREATE DATABASE {}", database.name)).await;
        Some(database)
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        let (server, options) = self.server.split_once('?').unwrap_or((&self.server, ""));
        let (server, _) = server.rsplit_once('/').unwrap();
        let sign = if options.is_empty() { "" } else { "?" };
        format!("{server}/{}{sign}{options}", self.name)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements in it.
    pub(crate) async fn run(&self, text: &str) {
        on(&self.url(), text).await;
    }

    /// The number that a question gives.
    pub(crate) async fn number(&self, text: &str) -> i64 {
        let mut connection = PgConnection::connect(&self.url()).await.unwrap();
        let row = sqlx::query(AssertSqlSafe(text)).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        row.get(0)
    }

    /// Ends every other connection to it, as a server does that is restarted.
    pub(crate) async fn cut_connections(&self) {
        self.number(
            "SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    }

    /// How many deadlocks there were in it, once all others have left.
    pub(crate) async fn deadlocks(&self) -> i64 {
        self.cut_connections().await;
        self.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            .await
    }

    /// Removes it.
    pub(crate) async fn drop(self) {
        on(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn on(address: &str, text: &str) {
    let mut connection = PgConnection::connect(address).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
