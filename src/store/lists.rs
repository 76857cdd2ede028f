//! Events themselves: by id, and page by page.

use super::batch::ACTORS;
use super::reader::{Arg, Reader, Row, Snapshot, in_slices, is_one_of, marks};
use super::rows::Named;
use super::sqlite::ids;
use super::sums::{SLOT, minute};
use super::{Look, Store, StoreError, rows, sql};
use crate::domain::event::{AttemptError, Vantage};
use crate::domain::stored::{
    Cursor, Dimension, Matches, RowFilter, RowPage, StoredEvent, TimeBasis, View,
};
use crate::domain::time::{MINUTE_MS, UnixMillis, Window};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Most events that a look-up by one id gives.
pub const LOOKUP_LIMIT: i64 = 500;
/// Most events of one operation.
pub const OPERATION_LIMIT: i64 = 10_000;
/// Most rows on a page of a list.
pub const PAGE_LIMIT: u32 = 1_000;
/// A scope of so many series is looked through series by series; one of more by time alone.
const FEW_SERIES: usize = 16;
/// So many rows are worth a second thread.
const MANY: usize = 256;
/// Events fetched by identity in one statement.
const REFS_AT_ONCE: usize = 200;

impl Look {
    /// Every event with one id, oldest first: more than one where a sender used it again at
    /// another time.
    #[tracing::instrument(name = "db.events.by_id", level = "debug", skip_all)]
    pub async fn events_by_id(&mut self, event_id: &str) -> Result<Vec<StoredEvent>, StoreError> {
        let ids = [event_id.to_owned()];
        let matches = self.0.with_id(&["event_id"], &ids, LOOKUP_LIMIT).await?;
        Ok(matches.events)
    }

    /// What was seen of one operation, in the order it was sent; at most [`OPERATION_LIMIT`].
    #[tracing::instrument(name = "db.operations.get", level = "debug", skip_all)]
    pub async fn operation(&mut self, operation_id: &str) -> Result<Matches, StoreError> {
        let ids = [operation_id.to_owned()];
        self.0.with_id(&["operation_id"], &ids, OPERATION_LIMIT).await
    }

    /// Events that carry `id` as event, operation, request, ray or trace id, in the order they were
    /// sent; at most [`LOOKUP_LIMIT`]. A ray id is found with and without the place behind its
    /// hyphen.
    #[tracing::instrument(name = "db.events.lookup", level = "debug", skip_all)]
    pub async fn lookup(&mut self, id: &str) -> Result<Matches, StoreError> {
        let reader = &mut self.0;
        let ids = [id.to_owned()];
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut is_complete = true;
        let mut add = |matches: Matches| {
            is_complete &= matches.is_complete;
            found.extend(matches.events.into_iter().filter(|s| seen.insert(identity(s))));
        };
        let columns = &["event_id", "operation_id", "request_id", "ray_id", "trace_id"];
        let head = ray_digits(id);
        if matches!(reader.snapshot, Snapshot::Sqlite(_)) {
            // One look, wherever the id stands.
            let mut args = Vec::new();
            let mut forms = ids.to_vec();
            forms.extend(head.filter(|head| *head != id).map(str::to_owned));
            let place = in_slices(&forms, None, &mut args);
            let mark = marks(&mut args, [Arg::Id(id.to_owned())]);
            let mut any: Vec<String> =
                columns.iter().map(|column| format!("e.{column} = {mark}")).collect();
            any.extend(head.map(|head| ray_of(head, &mut args)));
            let condition = format!("{place} AND ({})", any.join(" OR "));
            add(reader.some(&condition, args, LOOKUP_LIMIT).await?);
        } else {
            // There is an index for each column.
            for column in columns {
                add(reader.with_id(&[column], &ids, LOOKUP_LIMIT).await?);
            }
            if let Some(head) = head {
                let mut args = Vec::new();
                let condition = ray_of(head, &mut args);
                add(reader.some(&condition, args, LOOKUP_LIMIT).await?);
            }
        }
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        let most = usize::try_from(LOOKUP_LIMIT).unwrap_or(usize::MAX);
        is_complete &= found.len() <= most;
        found.truncate(most);
        Ok(Matches { events: found, is_complete })
    }
}

impl Store {
    /// [`Look::events_by_id`] in a look of its own.
    pub async fn events_by_id(&self, event_id: &str) -> Result<Vec<StoredEvent>, StoreError> {
        self.look().await?.events_by_id(event_id).await
    }

    /// [`Look::operation`] in a look of its own.
    pub async fn operation(&self, operation_id: &str) -> Result<Matches, StoreError> {
        self.look().await?.operation(operation_id).await
    }

    /// [`Look::lookup`] in a look of its own.
    pub async fn lookup(&self, id: &str) -> Result<Matches, StoreError> {
        self.look().await?.lookup(id).await
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
        let mut only = Only { retries: filter.retry, ..Only::default() };
        only.classes.extend(
            filter
                .limited
                .map(|limited| if limited { sql::LIMITED } else { sql::SERVED }.to_owned()),
        );
        only.classes.extend(filter.succeeded.map(|succeeded| {
            if succeeded { sql::SUCCEEDED } else { sql::UNSUCCESSFUL }.to_owned()
        }));
        if let Some((dimension, value)) = &filter.value {
            only.add_value(*dimension, value);
        }
        if let Some(Cursor { at, occurred_at, event_id }) = after {
            let key = [Arg::Int(at.0), Arg::Int(occurred_at.0), Arg::Id(event_id.clone())];
            let key = key.map(|arg| only.mark(arg)).join(", ");
            only.rows.push(format!("(e.{{at}}, e.occurred_at, e.event_id) < ({key})"));
        }
        let source = self.source_in(&mut reader, view).await?;
        let window = Window { to: UnixMillis(to), ..view.window };
        let behind = View { window, ..view.clone() };
        let mut items = reader.attempts(&behind, source, &only, i64::from(limit) + 1).await?;
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

    /// Events that a condition names, in the order they were sent, at most `limit`.
    async fn some(
        &mut self,
        condition: &str,
        mut args: Vec<Arg>,
        limit: i64,
    ) -> Result<Matches, StoreError> {
        // One more than are given tells whether there are more.
        let order = sql::BY_ID.replace("{limit}", &marks(&mut args, [Arg::Int(limit + 1)]));
        let mut events = self.few_events(&format!("WHERE {condition}{order}"), &args).await?;
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

    /// The same, in one question: for those that are found by ids.
    pub(super) async fn few_events(
        &mut self,
        condition: &str,
        args: &[Arg],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let events = sql::EVENTS.replace("FROM events e ", sql::WITH_ACTORS);
        let rows = self.all(format!("{events}{condition}"), args).await?;
        let words = Arc::make_mut(&mut self.words);
        for row in &rows {
            for (number, word) in rows::ACTORS_AT.into_iter().zip(rows::WORDS_AT) {
                if let (Some(id), Some(word)) = (row.int_or_none(number)?, row.text_or_none(word)?)
                {
                    words.insert(id, word);
                }
            }
        }
        self.read(rows).await
    }

    /// Events of a statement with the columns of `sql::EVENTS`.
    async fn some_events(
        &mut self,
        events: &str,
        condition: &str,
        args: &[Arg],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let rows = self.all(format!("{events}{condition}"), args).await?;
        self.read(rows).await
    }

    /// The events of rows with the columns of `sql::EVENTS`, and what their numbers stand for.
    async fn read(&mut self, rows: Vec<Row>) -> Result<Vec<StoredEvent>, StoreError> {
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
        unpacked(rows, named).await
    }

    /// Attempts of a view as `source` saw them, newest first, narrowed by `only`; at most `limit`.
    pub(super) async fn attempts(
        &mut self,
        view: &View,
        source: Vantage,
        only: &Only,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let series = self.few_series(view).await?;
        if let (Some(series), Snapshot::Sqlite(_)) = (&series, &self.snapshot) {
            return self.newest_of(series, view, source, only, limit).await;
        }
        let mut args = only.args(view.window, limit);
        let condition = in_window(view, source, only);
        let newest = sql::clock(sql::NEWEST, view.time);
        let Some(series) = series else {
            let condition = sql::scope(&condition, &view.scope, sql::EACH_SERIES, &mut args);
            return self.events(&format!("WHERE {condition}{newest}"), &args).await;
        };
        // The newest of each series, by the index that begins with it: however rare they are.
        let places = series.iter().map(|id| of_these(&condition, &[*id], &mut args)).collect();
        self.newest_in(places, &newest, &args).await
    }

    /// The newest attempts of all places together, where each is one range of an index.
    async fn newest_in(
        &mut self,
        places: Vec<String>,
        newest: &str,
        args: &[Arg],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let of_each: Vec<String> = places
            .into_iter()
            .map(|place| format!("SELECT * FROM ({}) one", newest_of_place(&place, newest)))
            .collect();
        let of_all = format!("FROM ({}) e ", of_each.join(" UNION ALL "));
        self.some_events(&sql::EVENTS.replace("FROM events e ", &of_all), newest, args).await
    }

    /// [`Self::attempts`] of few series on SQLite. Sums tell in which stretches of five minutes they
    /// are, so that those without are never looked at.
    async fn newest_of(
        &mut self,
        series: &[i64],
        view: &View,
        source: Vantage,
        only: &Only,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let condition = in_window(view, source, only);
        let newest = sql::clock(sql::NEWEST, view.time);
        let mut found: Vec<StoredEvent> = Vec::new();
        let mut window = view.window;
        let mut wanted = limit;
        loop {
            let mut args = only.args(view.window, wanted);
            let here = sql::COUNTED_HERE
                .replace("{counted}", only.counted())
                .replace("{classes}", &only.classes(source))
                .replace("{series}", &marks(&mut args, series.iter().map(|id| Arg::Int(*id))));
            let stretches = self.stretches(window, &here, args).await?;
            let Some(((oldest, _), newer)) = stretches.split_last() else { break };
            let missing = limit - i64::try_from(found.len()).unwrap_or(limit);
            let mut args = only.args(view.window, missing);
            // All of those that are newer are wanted, and maybe not all of the oldest.
            let five = sql::FIVE_MINUTES;
            let of_place = |place: &str| {
                let these = newest_of_place(place, &newest);
                sql::EVENTS.replace("FROM events e ", &format!("FROM ({these}) e "))
            };
            let mut parts = Vec::new();
            if !newer.is_empty() {
                let is_newer = is_one_of(&mut args, newer.iter().map(|(start, _)| start / SLOT));
                let all = of_these(&condition, series, &mut args);
                let place = format!("{five} {is_newer} AND {all}");
                // At first they are no more than the limit.
                let is_few = wanted == limit;
                let few = || format!("{}WHERE {place}", sql::EVENTS);
                parts.push(if is_few { few() } else { of_place(&place) });
            }
            let at_oldest = marks(&mut args, [Arg::Int(oldest / SLOT)]);
            for id in series {
                let each = of_these(&condition, &[*id], &mut args);
                parts.push(of_place(&format!("{five} = {at_oldest} AND {each}")));
            }
            // Put in order here: whole rows are much to sort for the database.
            let mut page = self.some_events(&parts.join(" UNION ALL "), "", &args).await?;
            page.sort_by(newer_first);
            page.truncate(usize::try_from(missing).unwrap_or(usize::MAX));
            found.append(&mut page);
            let counted: i64 = stretches.iter().map(|(_, counted)| counted).sum();
            if counted < wanted || i64::try_from(found.len()).unwrap_or(limit) >= limit {
                break;
            }
            // Attempts that stand for several, or conditions that sums don't know.
            window.to = UnixMillis(oldest.saturating_mul(MINUTE_MS));
            wanted = wanted.saturating_mul(4);
        }
        Ok(found)
    }

    /// How many attempts (rows) a view holds, counted up to `most`.
    pub(super) async fn attempt_rows(
        &mut self,
        view: &View,
        source: Vantage,
        most: i64,
    ) -> Result<i64, StoreError> {
        let only = Only::default();
        let mut args = only.args(view.window, most);
        let condition = in_window(view, source, &only);
        if let (Some(series), Snapshot::Sqlite(_)) = (self.few_series(view).await?, &self.snapshot)
        {
            let condition = of_these(&condition, &series, &mut args);
            let here =
                sql::ROWS_HERE.replace("{five}", sql::FIVE_MINUTES).replace("{place}", &condition);
            let stretches = self.stretches(view.window, &here, args).await?;
            return Ok(stretches.iter().map(|(_, rows)| rows).sum::<i64>().min(most));
        }
        let condition = sql::scope(&condition, &view.scope, sql::EACH_SERIES, &mut args);
        let text = format!("{}{condition} LIMIT $3) counted", sql::ROWS_UP_TO);
        let row = self.first(text, &args).await?;
        Ok(row.map(|row| row.int(0)).transpose()?.unwrap_or_default())
    }

    /// See [`sql::STRETCHES`].
    async fn stretches(
        &mut self,
        window: Window,
        here: &str,
        mut args: Vec<Arg>,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let from = minute(window.from);
        let to = minute(UnixMillis(window.to.0.saturating_sub(1))).saturating_add(1);
        let [from, to] =
            [from - from.rem_euclid(SLOT), to].map(|end| marks(&mut args, [Arg::Int(end)]));
        let text =
            sql::STRETCHES.replace("{here}", here).replace("{from}", &from).replace("{to}", &to);
        let rows = self.all(text, &args).await?;
        rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect()
    }

    /// The numbers of a scope's series where they are few, and there is an index by series and time.
    async fn few_series(&mut self, view: &View) -> Result<Option<Vec<i64>>, StoreError> {
        let mut args = Vec::new();
        let condition = match view.time {
            TimeBasis::Event => sql::of_series(&view.scope, &mut args),
            TimeBasis::Received => None,
        };
        let Some(condition) = condition else { return Ok(None) };
        let text = format!("SELECT id FROM series WHERE {condition} LIMIT {}", FEW_SERIES + 1);
        let rows = self.all(text, &args).await?;
        if rows.len() > FEW_SERIES {
            return Ok(None);
        }
        Ok(Some(rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?))
    }
}

/// The events of rows; those of many on two cores, since most of the work is to decompress and parse
/// what they carry.
async fn unpacked(mut rows: Vec<Row>, named: Named) -> Result<Vec<StoredEvent>, StoreError> {
    let unpack = |rows: &[Row], named: &Named| {
        rows.iter().map(|row| rows::stored_event(row, named)).collect::<Result<Vec<_>, _>>()
    };
    if rows.len() < MANY {
        return unpack(&rows, &named);
    }
    let named = Arc::new(named);
    let (others, names) = (rows.split_off(rows.len() / 2), Arc::clone(&named));
    let others = tokio::task::spawn_blocking(move || unpack(&others, &names));
    let mut events = unpack(&rows, &named)?;
    events.append(&mut others.await.map_err(|error| sqlx::Error::Io(error.into()))??);
    Ok(events)
}

/// What narrows attempts: conditions on their classes and on their rows, each of which holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Only {
    classes: Vec<String>,
    retries: Option<bool>,
    rows: Vec<String>,
    /// The values in them, behind the window and the limit.
    values: Vec<Arg>,
}

impl Only {
    /// Attempts of such classes.
    pub(super) fn of(classes: &str) -> Self {
        Self { classes: vec![classes.to_owned()], ..Self::default() }
    }

    /// Of these the retries alone, or the first attempts.
    pub(super) fn retries(self, are_retries: bool) -> Self {
        Self { retries: Some(are_retries), ..self }
    }

    /// Takes a value for a condition; what stands for it there.
    fn mark(&mut self, value: Arg) -> String {
        self.values.push(value);
        format!("${}", self.values.len() + 3)
    }

    /// The values of a statement: the window, the limit, and those of the conditions.
    fn args(&self, Window { from, to }: Window, limit: i64) -> Vec<Arg> {
        let mut args = vec![Arg::Int(from.0), Arg::Int(to.0), Arg::Int(limit)];
        args.extend_from_slice(&self.values);
        args
    }

    /// The numbers of the classes, as a statement.
    fn classes(&self, source: Vantage) -> String {
        let such = joined_by_and(&self.classes);
        sql::seen_by(sql::SUCH_CLASSES, source).replace("{such}", &such)
    }

    /// The condition on rows.
    fn rows(&self) -> String {
        let mut rows = self.rows.clone();
        rows.extend(self.retries.map(|are_retries| {
            if are_retries { sql::ONLY_RETRIES } else { sql::ONLY_FIRST }.to_owned()
        }));
        joined_by_and(&rows)
    }

    /// What sums by class count of these attempts.
    fn counted(&self) -> &'static str {
        match self.retries {
            None => "c.attempts",
            Some(true) => "c.retries",
            Some(false) => "c.attempts - c.retries",
        }
    }
}

fn joined_by_and(conditions: &[String]) -> String {
    if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") }
}

/// The condition on attempts of a view as `source` saw them; `{scope}` is left.
fn in_window(view: &View, source: Vantage, only: &Only) -> String {
    let text =
        sql::IN_WINDOW.replace("{rows}", &only.rows()).replace("{classes}", &only.classes(source));
    sql::clock(&text, view.time)
}

/// The newest attempts of one place, whole.
fn newest_of_place(place: &str, newest: &str) -> String {
    format!("SELECT e.* FROM events e WHERE {place}{newest}")
}

/// The order of [`sql::NEWEST`] by the time of events, as SQLite has it.
fn newer_first(a: &StoredEvent, b: &StoredEvent) -> Ordering {
    let packed = |one: &StoredEvent| ids::pack(&one.event.event_id);
    let by_time = b.event.occurred_at.cmp(&a.event.occurred_at);
    by_time.then_with(|| packed(b).cmp(&packed(a)))
}

/// Fills `{scope}` with these series; their numbers go behind `args`.
fn of_these(condition: &str, series: &[i64], args: &mut Vec<Arg>) -> String {
    let list = marks(args, series.iter().map(|id| Arg::Int(*id)));
    condition.replace("{scope}", &format!("e.series_id IN ({list})"))
}

/// The identity of an event.
pub(super) fn identity(stored: &StoredEvent) -> (String, UnixMillis) {
    (stored.event.event_id.clone(), stored.event.occurred_at)
}

/// What events are put in order by.
pub(super) fn order(stored: &StoredEvent) -> (UnixMillis, u32, &str) {
    (stored.event.occurred_at, stored.event.attempt, &stored.event.event_id)
}

/// The digits of what can be a Cloudflare ray id: hexadecimal ones, and maybe a hyphen and (the
/// beginning of) the three letters of a place.
fn ray_digits(id: &str) -> Option<&str> {
    let (head, place) = id.split_once('-').unwrap_or((id, ""));
    let is_ray = head.len() >= 4
        && head.bytes().all(|b| b.is_ascii_hexdigit())
        && place.len() <= 3
        && place.bytes().all(|b| b.is_ascii_alphanumeric());
    is_ray.then_some(head)
}

/// The condition that an event has a ray id of these digits, with or without a place behind a hyphen.
fn ray_of(head: &str, args: &mut Vec<Arg>) -> String {
    // The texts between `head-` and `head.`, the next sign after the hyphen.
    let ends = [head.to_owned(), format!("{head}-"), format!("{head}.")];
    let [bare, from, to] = ends.map(|end| marks(args, [Arg::Id(end)]));
    format!("(e.ray_id = {bare} OR (e.ray_id >= {from} AND e.ray_id < {to}))")
}

impl Only {
    /// Narrows attempts to one value of a dimension.
    fn add_value(&mut self, dimension: Dimension, value: &str) {
        let mut mark = |arg: Arg| self.mark(arg);
        let mut series = |column: &str| {
            format!(
                "e.series_id IN (SELECT id FROM series WHERE {column} = {})",
                mark(value.into())
            )
        };
        let row = match dimension {
            Dimension::Service => Some(series("service")),
            Dimension::Environment => Some(series("environment")),
            Dimension::Route => Some(series("route")),
            _ => None,
        };
        let kind = match dimension {
            Dimension::Key => Some(0),
            Dimension::Address => Some(1),
            Dimension::Account => Some(2),
            Dimension::Instance => Some(3),
            _ => None,
        };
        let actor = kind.map(|kind: usize| {
            let column = ACTORS.get(kind).map_or("", |(_, column)| column);
            if value.is_empty() {
                return format!("e.{column} IS NULL");
            }
            let word = mark(value.into());
            format!("e.{column} = (SELECT id FROM words WHERE kind = {kind} AND word = {word})")
        });
        if let Some(row) = row.or(actor) {
            self.rows.push(row);
            return;
        }
        let classes = match dimension {
            Dimension::RetryLayer if value == "unknown" => "retry_layer = ''".to_owned(),
            Dimension::RetryLayer => format!("retry_layer = {}", mark(value.into())),
            Dimension::Responder if value == "unknown" => {
                "(returned_by = 'unknown' OR certainty NOT IN ('certain', 'confident'))".to_owned()
            }
            Dimension::Responder => format!(
                "certainty IN ('certain', 'confident') AND returned_by = {}",
                mark(value.into())
            ),
            Dimension::LimitType if value.is_empty() => sql::SERVED.to_owned(),
            Dimension::LimitType => format!("limited = 1 AND limit_type = {}", mark(value.into())),
            _ => match (value.parse::<u16>(), value.parse::<AttemptError>()) {
                (Ok(status), _) if status > 0 => {
                    format!("status = {}", mark(Arg::Int(i64::from(status))))
                }
                (_, Ok(error)) => {
                    format!("status = 0 AND error = {}", mark(error.as_str().into()))
                }
                _ if value.is_empty() => "status = 0 AND error = ''".to_owned(),
                _ => "1 = 0".to_owned(),
            },
        };
        self.classes.push(classes);
    }
}
