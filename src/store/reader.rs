//! Reading: one snapshot per question, one way to ask on both databases, and a time limit.

use super::names::Names;
use super::sqlite::ids;
use super::{Pool, Store, StoreError, kept, sql};
use crate::domain::stored::{History, StoredEvent, View};
use crate::domain::time::{UnixMillis, Window};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Postgres, Row as _, Sqlite, Transaction};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A value handed to a statement.
#[derive(Debug, Clone)]
pub(super) enum Arg {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A text or nothing.
    MaybeText(Option<String>),
    /// An id of an event, which SQLite keeps packed.
    Id(String),
}

impl From<i64> for Arg {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A row of either database.
#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// The number in column `at`.
    pub(super) fn int(&self, at: usize) -> Result<i64, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }

    /// The number in column `at`, where there is one.
    pub(super) fn int_or_none(&self, at: usize) -> Result<Option<i64>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }

    /// The text in column `at`.
    pub(super) fn text(&self, at: usize) -> Result<Cow<'_, str>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => Cow::Borrowed(row.try_get::<&str, _>(at)?),
            Self::Postgres(row) => Cow::Borrowed(row.try_get::<&str, _>(at)?),
        })
    }

    /// The bytes in column `at`.
    pub(super) fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }

    /// The id in column `at`, where there is one.
    pub(super) fn id(&self, at: usize) -> Result<Option<String>, StoreError> {
        match self {
            Self::Sqlite(row) => row.try_get::<Option<&[u8]>, _>(at)?.map(ids::unpack).transpose(),
            Self::Postgres(row) => Ok(row.try_get(at)?),
        }
    }

    /// The text in column `at`, where there is one.
    pub(super) fn text_or_none(&self, at: usize) -> Result<Option<String>, StoreError> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(at)?,
            Self::Postgres(row) => row.try_get(at)?,
        })
    }
}

/// One snapshot of the database: everything asked through one reader fits together.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) snapshot: Snapshot,
    pub(super) names: Arc<Names>,
    /// Number of the newest class, where it is known (on SQLite, from the first question on).
    pub(super) newest_class: Option<i64>,
    /// Once it was asked for.
    kept: Option<History>,
    /// Words read so far, by number.
    pub(super) words: Arc<HashMap<i64, String>>,
}

/// A transaction that reads.
#[derive(Debug)]
pub(super) enum Snapshot {
    Sqlite(SqliteLook),
    Postgres(Transaction<'static, Postgres>),
}

/// A transaction of SQLite. Its beginning goes along with the first question, and its end is the
/// pool's to see to, since each statement by itself is two changes of thread.
#[derive(Debug)]
pub(super) struct SqliteLook {
    connection: PoolConnection<Sqlite>,
    has_begun: bool,
}

impl Reader {
    /// Opens a snapshot. It is stopped after [`READ_LIMIT`](super::READ_LIMIT): by a progress handler
    /// in SQLite, by `statement_timeout` in PostgreSQL, each set when the connection was made.
    pub(super) async fn open(store: &Store) -> Result<Self, StoreError> {
        let snapshot = match &*store.pool {
            Pool::Sqlite(pool) => return Self::on_sqlite(store, &pool.readers).await,
            Pool::Postgres(pool) => Snapshot::Postgres(
                pool.readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
            ),
        };
        Ok(Self::new(store, snapshot))
    }

    fn new(store: &Store, snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            names: Arc::clone(&store.names),
            newest_class: None,
            kept: None,
            words: Arc::default(),
        }
    }

    /// A second snapshot with the same events, for what is asked at the same time. `None` where a
    /// batch came between, and on PostgreSQL, where a page has the server's other cores anyway.
    pub(super) async fn twin(&mut self, store: &Store) -> Result<Option<Self>, StoreError> {
        let Pool::Sqlite(pool) = &*store.pool else { return Ok(None) };
        let own = self.state().await?;
        let mut twin = Self::on_sqlite(store, &pool.twins).await?;
        Ok((twin.state().await? == own).then_some(twin))
    }

    /// What changes with every batch, and whenever something is removed.
    async fn state(&mut self) -> Result<(Option<i64>, History), StoreError> {
        let row = self.first(sql::NEWEST_ROW, &[]).await?;
        let newest = row.map(|row| row.int_or_none(0)).transpose()?.flatten();
        Ok((newest, self.kept().await?))
    }

    async fn on_sqlite(store: &Store, pool: &sqlx::SqlitePool) -> Result<Self, StoreError> {
        let connection = pool.acquire().await?;
        let look = SqliteLook { connection, has_begun: false };
        Ok(Self::new(store, Snapshot::Sqlite(look)))
    }

    /// Since when there are events and sums, in this snapshot.
    pub(super) async fn kept(&mut self) -> Result<History, StoreError> {
        if let Some(kept) = self.kept {
            return Ok(kept);
        }
        let rows = self.all(kept::READ, &[]).await?;
        let read = |row: &Row| {
            Ok::<_, StoreError>([row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?, row.int(4)?])
        };
        let kept = kept::history(&rows.iter().map(read).collect::<Result<Vec<_>, _>>()?)?;
        self.kept = Some(kept);
        Ok(kept)
    }

    /// The view that can be counted exactly in this snapshot.
    pub(super) async fn countable(&mut self, view: &View) -> Result<View, StoreError> {
        Ok(self.kept().await?.countable(view))
    }

    /// Takes the time limit off this snapshot.
    pub(super) async fn lift_limit(&mut self) -> Result<(), StoreError> {
        match &mut self.snapshot {
            Snapshot::Sqlite(look) => {
                // Nobody else gets a connection without one.
                look.connection.close_on_drop();
                look.connection.lock_handle().await?.remove_progress_handler();
            }
            Snapshot::Postgres(transaction) => {
                sqlx::query("SET LOCAL statement_timeout = 0").execute(&mut **transaction).await?;
            }
        }
        Ok(())
    }

    /// The condition that an event has one of `ids` in one of `columns`. Its time is in `times`, if
    /// that is given, or close to it: what narrows the search. The values go behind `args`.
    pub(super) fn has_id(
        &self,
        columns: &[&str],
        ids: &[String],
        times: Option<Window>,
        args: &mut Vec<Arg>,
    ) -> String {
        let any = |is: &dyn Fn(&str) -> String| {
            columns.iter().map(|column| is(column)).collect::<Vec<_>>().join(" OR ")
        };
        match (&self.snapshot, ids) {
            (Snapshot::Postgres(_), _) => {
                let list = marks(args, ids.iter().map(|id| Arg::Id(id.clone())));
                let any = any(&|column| format!("e.{column} IN ({list})"));
                match times {
                    None => format!("({any})"),
                    Some(Window { from, to }) => {
                        let [from, to] = [from, to].map(|at| marks(args, [Arg::Int(at.0)]));
                        format!("({any}) AND e.occurred_at >= {from} AND e.occurred_at < {to}")
                    }
                }
            }
            (Snapshot::Sqlite(_), [id]) => {
                let one = marks(args, [Arg::Id(id.clone())]);
                let any = any(&|column| format!("e.{column} = {one}"));
                format!("{} AND ({any})", in_slices(ids, times, args))
            }
            (Snapshot::Sqlite(_), _) => {
                // One value, whatever their number, so that the statement stays prepared.
                let packed = ids.iter().map(|id| hex::encode_upper(ids::pack(&storable(id))));
                let is_one = is_one_of(args, packed);
                let any = any(&|column| format!("hex(e.{column}) {is_one}"));
                format!("{} AND ({any})", in_slices(ids, times, args))
            }
        }
    }

    /// The condition that an event is none of `known`. One value, whatever their number, so that the
    /// statement stays the same.
    pub(super) fn is_none_of(&self, known: &[&StoredEvent], args: &mut Vec<Arg>) -> String {
        let identities = |written: fn(&str) -> String| {
            known.iter().map(move |StoredEvent { event, .. }| {
                format!("{} {}", written(&storable(&event.event_id)), event.occurred_at.0)
            })
        };
        match &self.snapshot {
            Snapshot::Sqlite(_) => {
                let list = identities(|id| hex::encode_upper(ids::pack(id)));
                format!("(hex(e.event_id) || ' ' || e.occurred_at) NOT {}", is_one_of(args, list))
            }
            Snapshot::Postgres(_) => {
                let list: serde_json::Value = identities(str::to_owned).collect();
                let list = marks(args, [Arg::Text(list.to_string())]);
                format!(
                    "(e.event_id || ' ' || e.occurred_at) NOT IN \
                     (SELECT json_array_elements_text(CAST({list} AS json)))"
                )
            }
        }
    }

    /// All rows of `sql`, which is made of this program's constants alone; what came from outside
    /// is in `args`.
    pub(super) async fn all(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        #[cfg(test)]
        super::plans::record(&sql, args);
        match &mut self.snapshot {
            Snapshot::Sqlite(look) => {
                let values = add_sqlite(args)?;
                let is_first = !std::mem::replace(&mut look.has_begun, true);
                let sql = if is_first { format!("{}{sql}", sql::BEGINNING).into() } else { sql };
                let rows = sqlx::query_with(AssertSqlSafe(sql), values)
                    .fetch_all(&mut *look.connection)
                    .await?;
                let mut rows = rows.into_iter().map(Row::Sqlite);
                if is_first {
                    let row = rows.next();
                    self.newest_class = row.map(|row| row.int_or_none(0)).transpose()?.flatten();
                }
                Ok(rows.collect())
            }
            Snapshot::Postgres(transaction) => {
                let values = add_postgres(args)?;
                let rows = sqlx::query_with(AssertSqlSafe(sql), values)
                    .fetch_all(&mut **transaction)
                    .await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// The first row of `sql`, where there is one.
    pub(super) async fn first(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }
}

/// Puts values behind `args`; what stands for them in a statement (`$4, $5`).
pub(super) fn marks(args: &mut Vec<Arg>, values: impl IntoIterator<Item = Arg>) -> String {
    let before = args.len();
    args.extend(values);
    let marks: Vec<String> = (before + 1..=args.len()).map(|n| format!("${n}")).collect();
    marks.join(", ")
}

/// `IN (…)` on SQLite, with all values in one of `args`, so that the statement stays the same
/// whatever their number.
pub(super) fn is_one_of<T: Into<serde_json::Value>>(
    args: &mut Vec<Arg>,
    values: impl IntoIterator<Item = T>,
) -> String {
    let list = serde_json::Value::Array(values.into_iter().map(Into::into).collect());
    format!("IN (SELECT value FROM json_each({}))", marks(args, [Arg::Text(list.to_string())]))
}

/// The condition, on SQLite, that an event has one of `ids`, or another with the same number, in
/// the slices of `times`.
pub(super) fn in_slices(ids: &[String], times: Option<Window>, args: &mut Vec<Arg>) -> String {
    let ever = Window { from: UnixMillis(i64::MIN), to: UnixMillis(i64::MAX) };
    let Window { from, to } = times.unwrap_or(ever);
    let keys = if let [id] = ids {
        format!("= {}", marks(args, [Arg::Int(ids::key(id))]))
    } else {
        is_one_of(args, ids.iter().map(|id| ids::key(id)))
    };
    sql::IN_SLICES
        .replace("{keys}", &keys)
        .replace("{from}", &marks(args, [Arg::Int(from.0)]))
        .replace("{to}", &marks(args, [Arg::Int(to.0)]))
}

/// A text as it is stored: a zero byte, which PostgreSQL's texts can't hold, stands as U+FFFD on both
/// databases, in what is kept and in what is looked for.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Binds values for SQLite.
fn add_sqlite(args: &[Arg]) -> Result<SqliteArguments, StoreError> {
    let mut values = SqliteArguments::default();
    for arg in args {
        match arg {
            Arg::Int(n) => values.add(*n),
            Arg::Text(text) => values.add(storable(text).into_owned()),
            Arg::MaybeText(text) => {
                values.add(text.as_deref().map(|text| storable(text).into_owned()))
            }
            Arg::Id(id) => values.add(ids::pack(&storable(id))),
        }
        .map_err(StoreError::unbound)?;
    }
    Ok(values)
}

/// Binds values for PostgreSQL.
pub(super) fn add_postgres(args: &[Arg]) -> Result<PgArguments, StoreError> {
    let mut values = PgArguments::default();
    for arg in args {
        match arg {
            Arg::Int(n) => values.add(*n),
            Arg::Text(text) | Arg::Id(text) => values.add(storable(text).into_owned()),
            Arg::MaybeText(text) => {
                values.add(text.as_deref().map(|text| storable(text).into_owned()))
            }
        }
        .map_err(StoreError::unbound)?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sqlite_is_opened_to_survive_a_loss_of_power() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pragmas.db");
        let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
        let Pool::Sqlite(sqlite) = &*store.pool else { panic!("not SQLite") };
        let mut reader = store.reader().await.unwrap();
        for (pragma, expected) in [("page_size", "16384"), ("journal_mode", "wal")] {
            let rows = reader
                .all(format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), &[])
                .await
                .unwrap();
            assert_eq!(rows[0].text(0).unwrap(), expected, "{pragma}");
        }
        // 2 is FULL: the log is flushed at every commit.
        let durable = sqlite.write("PRAGMA synchronous", Vec::new()).await;
        assert_eq!(durable.unwrap(), Some(2));
    }
}
