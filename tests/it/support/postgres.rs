//! A PostgreSQL for tests: the one at `RETRYLENS_TEST_POSTGRES_URL` (`scripts/test-postgres` starts
//! a private one), with a schema of its own for each test.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::sync::atomic::{AtomicU32, Ordering};

/// A schema that is dropped by [`Schema::drop`].
pub(crate) struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// Makes an empty schema. `None` where tests without PostgreSQL were asked for
    /// (`RETRYLENS_TEST_NO_POSTGRES=1`); a database that is missing without that is a failure.
    pub(crate) async fn create() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("RETRYLENS_TEST_POSTGRES_URL") else {
            let is_left_out = std::env::var("RETRYLENS_TEST_NO_POSTGRES").is_ok_and(|v| v == "1");
            assert!(
                is_left_out,
                "no PostgreSQL to test on: run scripts/test-postgres cargo test, or set \
                 RETRYLENS_TEST_POSTGRES_URL, or RETRYLENS_TEST_NO_POSTGRES=1 to leave it out"
            );
            return None;
        };
        let name = format!("t{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let mut connection = PgConnection::connect(&server).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {name}")))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        Some(Self { server, name })
    }

    /// An address whose tables are in this schema.
    pub(crate) fn url(&self) -> String {
        let sign = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{sign}options[search_path]={}", self.server, self.name)
    }

    /// Removes the schema with all that is in it.
    pub(crate) async fn drop(self) {
        let mut connection = PgConnection::connect(&self.server).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.name)))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }
}
