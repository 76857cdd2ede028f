//! The yardstick on PostgreSQL: the rows that the service wrote, inserted again into an empty copy
//! of the table with its indexes and partitions, by `INSERT … SELECT … FROM UNNEST(…)` with one
//! array a column, over one connection, without anything around it. And by `COPY`, for information:
//! it can't skip what is there already.

use crate::raw_sqlite::GROUP;
use crate::report::Rate;
use crate::server::own_cpu_seconds;
use futures_util::TryStreamExt as _;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::fmt::Write as _;
use tokio::time::Instant;

/// How rows are inserted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Unnest,
    Copy,
}

/// Inserts the rows of `events` into an empty copy; reading them does not count.
pub(crate) async fn insert_again(url: &str, way: Way) -> Rate {
    let mut reader = PgConnection::connect(url).await.unwrap();
    let mut writer = PgConnection::connect(url).await.unwrap();
    make_copy(&mut writer).await;
    let columns = columns(&mut reader).await;
    let unnest = unnest(&columns);
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let names = names.join(", ");

    let mut rate = Rate::default();
    let text = format!("SELECT {names} FROM public.events");
    let mut rows = sqlx::query(AssertSqlSafe(text)).fetch(&mut reader);
    loop {
        let mut group = Vec::with_capacity(GROUP);
        while group.len() < GROUP
            && let Some(row) = rows.try_next().await.unwrap()
        {
            group.push(row);
        }
        if group.is_empty() {
            break;
        }
        let (seconds, cpu_seconds) = match way {
            Way::Unnest => {
                let arrays: Vec<Array> = columns.iter().map(|c| c.array(&group)).collect();
                let (begun, cpu) = (Instant::now(), own_cpu_seconds());
                let mut query = sqlx::query(AssertSqlSafe(unnest.clone()));
                for array in arrays {
                    query = match array {
                        Array::Numbers(values) => query.bind(values),
                        Array::Texts(values) => query.bind(values),
                        Array::Bytes(values) => query.bind(values),
                    };
                }
                let done = query.execute(&mut writer).await.unwrap();
                assert_eq!(done.rows_affected(), group.len() as u64);
                (begun.elapsed().as_secs_f64(), own_cpu_seconds() - cpu)
            }
            Way::Copy => {
                let lines = copy_lines(&columns, &group);
                let (begun, cpu) = (Instant::now(), own_cpu_seconds());
                let text = format!("COPY raw.events ({names}) FROM STDIN");
                let mut copy = writer.copy_in_raw(&text).await.unwrap();
                copy.send(lines.as_bytes()).await.unwrap();
                assert_eq!(copy.finish().await.unwrap(), group.len() as u64);
                (begun.elapsed().as_secs_f64(), own_cpu_seconds() - cpu)
            }
        };
        rate.add(Rate { events: group.len() as u64, seconds, cpu_seconds });
    }
    rate
}

/// Makes `raw.events` anew: as `public.events`, with its indexes and partitions, and empty.
async fn make_copy(connection: &mut PgConnection) {
    let run = async |connection: &mut PgConnection, text: String| {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await.unwrap();
    };
    run(connection, "DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw".to_owned()).await;
    let divided: Option<String> =
        sqlx::query_scalar("SELECT pg_get_partkeydef('public.events'::regclass)")
            .fetch_one(&mut *connection)
            .await
            .unwrap();
    let divided = divided.map(|by| format!("PARTITION BY {by}")).unwrap_or_default();
    run(
        connection,
        format!("CREATE TABLE raw.events (LIKE public.events INCLUDING ALL) {divided}"),
    )
    .await;
    let partitions: Vec<(String, String)> = sqlx::query_as(
        "SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid) \
         FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
         WHERE i.inhparent = 'public.events'::regclass",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    for (name, bound) in partitions {
        run(connection, format!("CREATE TABLE raw.{name} PARTITION OF raw.events {bound}")).await;
    }
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND \
                   (tablename = 'events' OR tablename LIKE 'events\\_%')";
    let mut counts = Vec::new();
    for schema in ["public", "raw"] {
        let count: i64 =
            sqlx::query_scalar(indexes).bind(schema).fetch_one(&mut *connection).await.unwrap();
        counts.push(count);
    }
    assert_eq!(counts[0], counts[1], "the copy has as many indexes as the table");
}

/// A column, by its name and type in the database.
struct Column {
    name: String,
    kind: String,
}

/// The values of a column in a group of rows.
enum Array {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Column {
    fn array(&self, rows: &[PgRow]) -> Array {
        fn values<T>(rows: &[PgRow], name: &str) -> Vec<Option<T>>
        where
            T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
        {
            rows.iter().map(|row| row.get(name)).collect()
        }
        match self.kind.as_str() {
            "bigint" => Array::Numbers(values(rows, &self.name)),
            "text" => Array::Texts(values(rows, &self.name)),
            "bytea" => Array::Bytes(values(rows, &self.name)),
            other => panic!("a column of type {other}"),
        }
    }
}

async fn columns(connection: &mut PgConnection) -> Vec<Column> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
         WHERE attrelid = 'public.events'::regclass AND attnum > 0 AND NOT attisdropped \
         AND attidentity = '' AND attgenerated = '' ORDER BY attnum",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    rows.into_iter().map(|(name, kind)| Column { name, kind }).collect()
}

fn unnest(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let arrays: Vec<String> =
        (1..).zip(columns).map(|(n, column)| format!("${n}::{}[]", column.kind)).collect();
    format!(
        "INSERT INTO raw.events ({}) SELECT * FROM UNNEST({}) ON CONFLICT DO NOTHING",
        names.join(", "),
        arrays.join(", ")
    )
}

/// Rows in COPY's text format (postgresql.org/docs/current/sql-copy.html).
fn copy_lines(columns: &[Column], rows: &[PgRow]) -> String {
    let arrays: Vec<Array> = columns.iter().map(|column| column.array(rows)).collect();
    let mut lines = String::new();
    for row in 0..rows.len() {
        for (n, array) in arrays.iter().enumerate() {
            if n > 0 {
                lines.push('\t');
            }
            match array {
                Array::Numbers(values) => match values[row] {
                    Some(number) => write!(lines, "{number}").unwrap(),
                    None => lines.push_str("\\N"),
                },
                Array::Texts(values) => match &values[row] {
                    Some(text) => push_escaped(&mut lines, text),
                    None => lines.push_str("\\N"),
                },
                Array::Bytes(values) => match &values[row] {
                    Some(bytes) => write!(lines, "\\\\x{}", hex::encode(bytes)).unwrap(),
                    None => lines.push_str("\\N"),
                },
            }
        }
        lines.push('\n');
    }
    lines
}

fn push_escaped(lines: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => lines.push_str("\\\\"),
            '\n' => lines.push_str("\\n"),
            '\r' => lines.push_str("\\r"),
            '\t' => lines.push_str("\\t"),
            _ => lines.push(c),
        }
    }
}
