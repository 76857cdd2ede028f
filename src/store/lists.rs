//! Events themselves: by id, and page by page.

use super::batch::ACTORS;
use super::reader::{Arg, Reader, Snapshot, in_slices, marks};
use super::rows::Named;
use super::{Store, StoreError, rows, sql};
use crate::domain::event::{AttemptError, Vantage};
use crate::domain::stored::{
    Cursor, Dimension, Matches, RowFilter, RowPage, Scope, StoredEvent, TimeBasis, View,
};
use crate::domain::time::{UnixMillis, Window};
use std::collections::{BTreeSet, HashSet};

/// Most events that a look-up by one id gives.
pub const LOOKUP_LIMIT: i64 = 500;
/// Most events of one operation.
pub const OPERATION_LIMIT: i64 = 10_000;
/// Most rows on a page of a list.
pub const PAGE_LIMIT: u32 = 1_000;
/// A scope of so many series is looked through series by series; one of more by time alone.
const FEW_SERIES: usize = 16;
/// Events fetched by identity in one statement.
const REFS_AT_ONCE: usize = 200;

impl Store {
    /// Every event with one id, oldest first: more than one where a sender used it again at
    /// another time.
    #[tracing::instrument(name = "db.events.by_id", level = "debug", skip_all)]
    pub async fn events_by_id(&self, event_id: &str) -> Result<Vec<StoredEvent>, StoreError> {
        let ids = [event_id.to_owned()];
        let matches = self.reader().await?.with_id(&["event_id"], &ids, LOOKUP_LIMIT).await?;
        Ok(matches.events)
    }

    /// What was seen of one operation, in the order it was sent; at most [`OPERATION_LIMIT`].
    #[tracing::instrument(name = "db.operations.get", level = "debug", skip_all)]
    pub async fn operation(&self, operation_id: &str) -> Result<Matches, StoreError> {
        let ids = [operation_id.to_owned()];
        self.reader().await?.with_id(&["operation_id"], &ids, OPERATION_LIMIT).await
    }

    /// Events that carry `id` as event, operation, request, ray or trace id, in the order they were
    /// sent; at most [`LOOKUP_LIMIT`]. A ray id is found with and without the place behind its
    /// hyphen.
    #[tracing::instrument(name = "db.events.lookup", level = "debug", skip_all)]
    pub async fn lookup(&self, id: &str) -> Result<Matches, StoreError> {
        let mut reader = self.reader().await?;
        let ids = [id.to_owned()];
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut is_complete = true;
        let mut add = |matches: Matches| {
            is_complete &= matches.is_complete;
            found.extend(matches.events.into_iter().filter(|s| seen.insert(identity(s))));
        };
        // SQLite finds an id wherever it stands; PostgreSQL has an index for each column.
        let columns = &["event_id", "operation_id", "request_id", "ray_id", "trace_id"];
        match &reader.snapshot {
            Snapshot::Sqlite(_) => add(reader.with_id(columns, &ids, LOOKUP_LIMIT).await?),
            Snapshot::Postgres(_) => {
                for column in columns {
                    add(reader.with_id(&[column], &ids, LOOKUP_LIMIT).await?);
                }
            }
        }
        if let Some(head) = id.split('-').next().filter(|head| is_ray(head)) {
            add(reader.with_ray(head).await?);
        }
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        let most = usize::try_from(LOOKUP_LIMIT).unwrap_or(usize::MAX);
        is_complete &= found.len() <= most;
        found.truncate(most);
        Ok(Matches { events: found, is_complete })
    }

    /// Attempts that a filter names, from the view's [`Self::source`], newest first, at most `limit` (and [`PAGE_LIMIT`]),
    /// from the one behind `after` on.
    #[tracing::instrument(name = "db.events.list", level = "debug", skip_all)]
    pub async fn rows(
        &self,
        filter: &RowFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RowPage, StoreError> {
        let mut reader = self.reader().await?;
        let limit = limit.clamp(1, PAGE_LIMIT);
        let view = &filter.view;
        let mut to = view.window.to.0;
        if let Some(cursor) = after {
            to = to.min(cursor.at.0.saturating_add(1));
        }
        let mut args =
            vec![Arg::Int(view.window.from.0), Arg::Int(to), Arg::Int(i64::from(limit) + 1)];
        let mut only: Vec<String> = Vec::new();
        only.extend(
            filter.limited.map(|limited| {
                if limited { sql::ONLY_LIMITED } else { sql::ONLY_SERVED }.to_owned()
            }),
        );
        only.extend(
            filter
                .retry
                .map(|retry| if retry { sql::ONLY_RETRIES } else { sql::ONLY_FIRST }.to_owned()),
        );
        only.extend(filter.succeeded.map(|succeeded| {
            if succeeded { sql::ONLY_SUCCEEDED } else { sql::ONLY_UNSUCCESSFUL }.to_owned()
        }));
        if let Some((dimension, value)) = &filter.value {
            only.push(only_value(*dimension, value, &mut args));
        }
        if let Some(cursor) = after {
            args.extend([
                Arg::Int(cursor.at.0),
                Arg::Int(cursor.occurred_at.0),
                Arg::Id(cursor.event_id.clone()),
            ]);
            let n = args.len();
            only.push(format!(
                "(e.{{at}}, e.occurred_at, e.event_id) < (${}, ${}, ${n})",
                n - 2,
                n - 1
            ));
        }
        let source = self.source_in(&mut reader, view).await?;
        let mut items = reader.attempts(view, source, &only, args).await?;
        let has_more = items.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = items.last().filter(|_| has_more).map(|last| Cursor {
            at: match view.time {
                TimeBasis::Event => last.event.occurred_at,
                TimeBasis::Received => last.received_at,
            },
            occurred_at: last.event.occurred_at,
            event_id: last.event.event_id.clone(),
        });
        Ok(RowPage { items, source, next })
    }

    /// The events with these identities that are stored, in the order they were sent.
    #[tracing::instrument(name = "db.events.by_refs", level = "debug", skip_all)]
    pub async fn rows_by_refs(
        &self,
        refs: &[(String, UnixMillis)],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut reader = self.reader().await?;
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for part in refs.chunks(REFS_AT_ONCE) {
            let part: Vec<&(String, UnixMillis)> =
                part.iter().filter(|one| seen.insert(*one)).collect();
            let times = part.iter().map(|(_, at)| *at);
            let (Some(from), Some(to)) = (times.clone().min(), times.max()) else { continue };
            let window = Window { from, to: UnixMillis(to.0.saturating_add(1)) };
            let ids: Vec<String> = part.iter().map(|(id, _)| id.clone()).collect();
            let mut args = Vec::with_capacity(part.len() * 4);
            let place = reader.has_id(&["event_id"], &ids, Some(window), &mut args);
            let pairs: Vec<String> = part
                .iter()
                .map(|(id, at)| {
                    format!("({})", marks(&mut args, [Arg::Id(id.clone()), Arg::Int(at.0)]))
                })
                .collect();
            let condition = format!(
                "WHERE {place} AND (e.event_id, e.occurred_at) IN (VALUES {})",
                pairs.join(", ")
            );
            found.append(&mut reader.events(&condition, &args).await?);
        }
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok(found)
    }
}

impl Reader {
    /// Events that have one of `ids` in one of `columns`, in the order they were sent, at most
    /// `limit`.
    async fn with_id(
        &mut self,
        columns: &[&str],
        ids: &[String],
        limit: i64,
    ) -> Result<Matches, StoreError> {
        if ids.iter().any(|id| id.contains('\0')) {
            return Ok(Matches { events: Vec::new(), is_complete: true });
        }
        let mut args = Vec::new();
        let condition = self.has_id(columns, ids, None, &mut args);
        self.some(&condition, args, limit).await
    }

    /// Events with a ray id of these digits, with or without a place behind a hyphen.
    async fn with_ray(&mut self, head: &str) -> Result<Matches, StoreError> {
        let bare = self.with_id(&["ray_id"], &[head.to_owned()], LOOKUP_LIMIT).await?;
        // The texts between `head-` and `head.`, the next sign after the hyphen.
        let mut args = Vec::new();
        let range = |args: &mut Vec<Arg>| {
            let ends = [format!("{head}-"), format!("{head}.")];
            let ends = ends.map(|end| marks(args, [Arg::Id(end)]));
            format!("e.ray_id >= {} AND e.ray_id < {}", ends[0], ends[1])
        };
        let condition = match &self.snapshot {
            Snapshot::Postgres(_) => range(&mut args),
            Snapshot::Sqlite(_) => {
                let place = in_slices(&[head.to_owned()], None, &mut args);
                format!("{place} AND {}", range(&mut args))
            }
        };
        let mut placed = self.some(&condition, args, LOOKUP_LIMIT).await?;
        placed.events.extend(bare.events);
        placed.is_complete &= bare.is_complete;
        Ok(placed)
    }

    /// Events that a condition names, in the order they were sent, at most `limit`.
    async fn some(
        &mut self,
        condition: &str,
        mut args: Vec<Arg>,
        limit: i64,
    ) -> Result<Matches, StoreError> {
        // One more than are given tells whether there are more.
        let order = sql::BY_ID.replace("{limit}", &marks(&mut args, [Arg::Int(limit + 1)]));
        let mut events = self.events(&format!("WHERE {condition}{order}"), &args).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_complete = events.len() <= most;
        events.truncate(most);
        Ok(Matches { events, is_complete })
    }

    /// Events that a condition names.
    pub(super) async fn events(
        &mut self,
        condition: &str,
        args: &[Arg],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.some_events(sql::EVENTS, condition, args).await
    }

    /// Events of a statement with the columns of `sql::EVENTS`.
    async fn some_events(
        &mut self,
        events: &str,
        condition: &str,
        args: &[Arg],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let rows = self.all(format!("{events}{condition}"), args).await?;
        let numbers = |at: usize| rows.iter().map(|row| row.int(at)).collect::<Result<Vec<_>, _>>();
        let (series, classes) = (numbers(rows::SERIES_AT)?, numbers(rows::CLASS_AT)?);
        let mut words = BTreeSet::new();
        for (row, at) in rows.iter().flat_map(|row| rows::ACTORS_AT.map(|at| (row, at))) {
            words.extend(row.int_or_none(at)?);
        }
        let named = Named {
            series: self.series(series).await?,
            classes: self.classes(classes).await?,
            words: self.words(words).await?,
        };
        rows.iter().map(|row| rows::stored_event(row, &named)).collect()
    }

    /// Attempts of a view as `source` saw them, newest first, narrowed by conditions of `sql`; `args` begins with
    /// the window and the limit.
    pub(super) async fn attempts(
        &mut self,
        view: &View,
        source: Vantage,
        only: &[String],
        mut args: Vec<Arg>,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let only = if only.is_empty() { "1 = 1".to_owned() } else { only.join(" AND ") };
        let text = sql::seen_by(&sql::ATTEMPTS.replace("{only}", &only), source);
        let text = sql::clock(&text, view.time);
        let few = match view.time {
            TimeBasis::Event => self.few_series(&view.scope).await?,
            TimeBasis::Received => None,
        };
        let Some(series) = few else {
            let text = sql::scope(&text, &view.scope, sql::EACH_SERIES, &mut args);
            return self.events(&text, &args).await;
        };
        // The newest of each series, by its own index: however rare they are among all.
        let of_each: Vec<String> = series
            .into_iter()
            .map(|id| {
                let own = format!("e.series_id = {}", marks(&mut args, [Arg::Int(id)]));
                let text = text.replace("{scope}", &own);
                format!("SELECT * FROM (SELECT e.* FROM events e {text}) one")
            })
            .collect();
        if of_each.is_empty() {
            return Ok(Vec::new());
        }
        let of_all = format!("FROM ({}) e ", of_each.join(" UNION ALL "));
        let newest = "ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT $3";
        self.some_events(&sql::EVENTS.replace("FROM events e ", &of_all), newest, &args).await
    }

    /// The numbers of a scope's series where they are few.
    async fn few_series(&mut self, scope: &Scope) -> Result<Option<Vec<i64>>, StoreError> {
        let mut args = Vec::new();
        let Some(condition) = sql::of_series(scope, &mut args) else { return Ok(None) };
        let text = format!("SELECT id FROM series WHERE {condition} LIMIT {}", FEW_SERIES + 1);
        let rows = self.all(text, &args).await?;
        if rows.len() > FEW_SERIES {
            return Ok(None);
        }
        Ok(Some(rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?))
    }
}

/// The identity of an event.
pub(super) fn identity(stored: &StoredEvent) -> (String, UnixMillis) {
    (stored.event.event_id.clone(), stored.event.occurred_at)
}

/// What events are put in order by.
pub(super) fn order(stored: &StoredEvent) -> (UnixMillis, u32, &str) {
    (stored.event.occurred_at, stored.event.attempt, &stored.event.event_id)
}

/// Whether a text can be the first part of a Cloudflare ray id: hexadecimal digits.
fn is_ray(head: &str) -> bool {
    head.len() >= 4 && head.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The condition for one value of a dimension; the value goes behind `args`.
fn only_value(dimension: Dimension, value: &str, args: &mut Vec<Arg>) -> String {
    let class =
        |condition: &str| format!("e.class_id IN (SELECT id FROM classes WHERE {condition})");
    let mut mark = |arg: Arg| {
        args.push(arg);
        format!("${}", args.len())
    };
    let mut series = |column: &str| {
        format!("e.series_id IN (SELECT id FROM series WHERE {column} = {})", mark(value.into()))
    };
    match dimension {
        Dimension::Service => return series("service"),
        Dimension::Environment => return series("environment"),
        Dimension::Route => return series("route"),
        _ => {}
    }
    let mut actor = |kind: usize| {
        let column = ACTORS.get(kind).map_or("", |(_, column)| column);
        if value.is_empty() {
            return format!("e.{column} IS NULL");
        }
        let word = mark(value.into());
        format!("e.{column} = (SELECT id FROM words WHERE kind = {kind} AND word = {word})")
    };
    match dimension {
        Dimension::Key => return actor(0),
        Dimension::Address => return actor(1),
        Dimension::Account => return actor(2),
        Dimension::Instance => return actor(3),
        _ => {}
    }
    match dimension {
        Dimension::RetryLayer if value == "unknown" => class("retry_layer = ''"),
        Dimension::RetryLayer => class(&format!("retry_layer = {}", mark(value.into()))),
        Dimension::Responder if value == "unknown" => {
            class("returned_by = 'unknown' OR certainty NOT IN ('certain', 'confident')")
        }
        Dimension::Responder => class(&format!(
            "certainty IN ('certain', 'confident') AND returned_by = {}",
            mark(value.into())
        )),
        Dimension::LimitType if value.is_empty() => class("limited = 0"),
        Dimension::LimitType => {
            class(&format!("limited = 1 AND limit_type = {}", mark(value.into())))
        }
        _ => match (value.parse::<u16>(), value.parse::<AttemptError>()) {
            (Ok(status), _) if status > 0 => {
                class(&format!("status = {}", mark(Arg::Int(i64::from(status)))))
            }
            (_, Ok(error)) => {
                class(&format!("status = 0 AND error = {}", mark(error.as_str().into())))
            }
            _ if value.is_empty() => class("status = 0 AND error = ''"),
            _ => "1 = 0".to_owned(),
        },
    }
}
