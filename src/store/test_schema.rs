//! For tests of PostgreSQL alone: a schema of its own and a connection to look into it.

use super::Store;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::sync::atomic::{AtomicU32, Ordering};

/// A schema that is dropped by [`TestSchema::drop`].
pub(super) struct TestSchema {
    pub(super) url: String,
    name: String,
    pub(super) connection: PgConnection,
}

impl TestSchema {
    /// Makes an empty schema at `RETRYLENS_TEST_POSTGRES_URL` (see `scripts/test-postgres`); `None`
    /// where tests without PostgreSQL were asked for.
    pub(super) async fn create() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("RETRYLENS_TEST_POSTGRES_URL") else {
            assert!(
                std::env::var("RETRYLENS_TEST_NO_POSTGRES").is_ok_and(|v| v == "1"),
                "no PostgreSQL to test on: see scripts/test-postgres"
            );
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let name = format!("u{}_{number}", std::process::id());
        let url = format!("{server}?options[search_path]={name}");
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let create = format!("CREATE SCHEMA {name}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        Some(Self { url, name, connection })
    }

    /// Opens a store in it: each is a replica of its own.
    pub(super) async fn store(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }

    /// Rows of a table.
    pub(super) async fn count(&mut self, table: &str) -> i64 {
        let text = format!("SELECT COUNT(*) FROM {table}");
        sqlx::query(AssertSqlSafe(text)).fetch_one(&mut self.connection).await.unwrap().get(0)
    }

    /// Closes the stores, whose sums have to agree with their events, and removes the schema.
    pub(super) async fn drop(mut self, stores: &[Store]) {
        for store in stores {
            let recount = store.recount().await.unwrap();
            assert!(recount.agrees(), "{recount:?}");
            store.close().await.unwrap();
        }
        let drop = format!("DROP SCHEMA {} CASCADE", self.name);
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut self.connection).await.unwrap();
    }
}
