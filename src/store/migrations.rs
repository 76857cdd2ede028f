//! The schema: files in `migrations/`, built into the program and applied when a store is opened.
//!
//! A change only ever adds (expand, then contract a release later), so that an older program runs
//! on a newer schema: changes that it does not know are left alone.

use super::StoreError;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};

struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// The migration of a number and a name: the files of that name in both folders.
macro_rules! migration {
    ($version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        }
    };
}

const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_attempts"),
    migration!(2, "0002_kept"),
    migration!(3, "0003_alerts"),
    migration!(4, "0004_otlp"),
    migration!(6, "0006_outbox_tries"),
    migration!(7, "0007_client_volumes"),
    migration!(8, "0008_sources"),
    migration!(9, "0009_receivers"),
    migration!(10, "0010_merged_slices"),
    migration!(11, "0011_actor_hours_by_word"),
];

/// Holds the versions that were applied.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_changes (\
    version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)";
const APPLIED: &str = "SELECT version FROM schema_changes";
const RECORD: &str = "INSERT INTO schema_changes (version, name) VALUES ($1, $2)";
/// Held until the transaction ends, so that one replica changes the schema at a time. The number is
/// ours alone: "retrylen" in ASCII, the highest bit clear.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8243126122091734382)";

/// Applies what is missing. The write lock is taken first, so that a second process waits.
pub(super) async fn apply_sqlite(connection: &mut SqliteConnection) -> Result<u32, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(CREATE).execute(&mut *transaction).await?;
    let applied: Vec<i64> = sqlx::query(APPLIED)
        .fetch_all(&mut *transaction)
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let mut done = 0;
    for migration in MIGRATIONS.iter().filter(|m| !applied.contains(&m.version)) {
        let failed = |source| StoreError::Migration { name: migration.name, source };
        sqlx::raw_sql(AssertSqlSafe(migration.sqlite))
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        sqlx::query(RECORD)
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        done += 1;
    }
    transaction.commit().await?;
    Ok(done)
}

/// Applies what is missing, one replica at a time.
pub(super) async fn apply_postgres(connection: &mut PgConnection) -> Result<u32, StoreError> {
    apply_to_postgres(connection, MIGRATIONS).await
}

async fn apply_to_postgres(
    connection: &mut PgConnection,
    migrations: &[Migration],
) -> Result<u32, StoreError> {
    let mut transaction = connection.begin().await?;
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    sqlx::query(CREATE).execute(&mut *transaction).await?;
    let applied: Vec<i64> = sqlx::query(APPLIED)
        .fetch_all(&mut *transaction)
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let mut done = 0;
    for migration in migrations.iter().filter(|m| !applied.contains(&m.version)) {
        let failed = |source| StoreError::Migration { name: migration.name, source };
        sqlx::raw_sql(AssertSqlSafe(migration.postgres))
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        sqlx::query(RECORD)
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        done += 1;
    }
    transaction.commit().await?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::super::test_schema::TestSchema;
    use super::*;
    use crate::domain::classify::summarize;
    use crate::domain::event::Event;
    use crate::domain::stored::{Inserted, NewEvent};
    use crate::domain::time::UnixMillis;

    const LATER: Migration = Migration {
        version: 9_999,
        name: "9999_later",
        sqlite: "",
        postgres: "ALTER TABLE events ADD COLUMN later TEXT;
            CREATE INDEX events_by_later ON events (later) WHERE later IS NOT NULL;
            CREATE TABLE later (id BIGINT PRIMARY KEY);",
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_schema_is_brought_up_by_one_replica_while_another_takes_events() {
        let Some(mut place) = TestSchema::create().await else { return };
        let store = place.store().await;
        let at = 1_794_382_200_000;
        let write = async {
            for n in 0..150 {
                let text = format!(
                    r#"{{"event_id":"{n}","attempt":1,"occurred_at":{},"vantage":"client",
                    "service":"s","host":"u","status":200,"headers":[],"count":1,
                    "redactions":0}}"#,
                    at + n * 3_600_000
                );
                let event: Event = serde_json::from_str(&text).unwrap();
                let verdict = summarize(&event.response());
                let stored = store.insert(&[NewEvent { event, verdict }], UnixMillis(at)).await;
                assert_eq!(stored.unwrap(), [Inserted::Stored]);
            }
        };
        let change = async {
            let migrations = [&MIGRATIONS[0], &LATER].map(|one| Migration { ..*one });
            let mut all = Vec::new();
            for _ in 0..2 {
                all.push(PgConnection::connect(&place.url).await.unwrap());
            }
            let [first, second] = &mut all[..] else { panic!("two connections") };
            let (first, second) = tokio::join!(
                apply_to_postgres(first, &migrations),
                apply_to_postgres(second, &migrations)
            );
            assert_eq!(first.unwrap() + second.unwrap(), 1, "one of them changed the schema");
        };
        tokio::join!(write, change);
        assert_eq!(place.count("events").await, 150);
        assert_eq!(place.count("events WHERE later IS NULL").await, 150);
        let newer = place.store().await;
        place.drop(&[store, newer]).await;
    }
}
