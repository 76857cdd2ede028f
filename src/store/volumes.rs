//! What clients counted themselves: how far their streams were read, and requests by minute.
//!
//! What a batch of points adds depends on what was read before, so batches are added one after
//! another, over all replicas: each is worked out over a snapshot and kept only where no other came
//! between. The exports of a fleet are few, once a minute each.

use super::reader::{Arg, Reader, Row, marks};
use super::transact::Statement;
use super::{Store, StoreError};
use crate::domain::stored::Scope;
use crate::domain::time::{HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::domain::volumes::{self, Point, Read, Series, StreamId, Temporality, Volume};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;

/// The most series of volumes; points of more are refused.
pub const MAX_VOLUME_SERIES: usize = 10_000;
/// How long a stream is remembered after its last point.
const CUMULATIVE_KEPT: Millis = Millis(24 * HOUR_MS);
/// The same for a point that stands alone: as long as an exporter or a collector may send it again.
const DELTA_KEPT: Millis = Millis(2 * HOUR_MS);
/// How often a batch is worked out anew, where others come between.
const TRIES: usize = 50;
/// Rows that one statement adds.
const CHUNK: usize = 2_000;

/// How many batches were added.
const DONE: &str = "SELECT done FROM volume_batches WHERE id = 1";
/// Moves that on, if it is still `$1`.
const ADVANCE: &str =
    "UPDATE volume_batches SET done = done + 1 WHERE id = 1 AND done = $1 RETURNING done";
/// The same, whatever it is.
const OCCUPY: &str = "UPDATE volume_batches SET done = done + 1 WHERE id = 1 RETURNING done";

/// How far the streams `$1` were read.
const STREAMS: [&str; 2] = [
    "SELECT s.id, s.read_to, s.read_before, s.requests \
     FROM json_each($1) k CROSS JOIN metric_streams s WHERE s.id = k.value",
    "SELECT s.id, s.read_to, s.read_before, s.requests \
     FROM json_array_elements_text($1::json) k JOIN metric_streams s ON s.id = k",
];

/// Notes how far streams (`$1`) were read.
const NOTE_STREAMS: [&str; 2] = [
    "INSERT INTO metric_streams (id, read_to, read_before, requests, forget_at) \
     SELECT value ->> 'i', value ->> 't', value ->> 'b', value ->> 'n', value ->> 'f' \
     FROM json_each($1) WHERE true ON CONFLICT (id) DO UPDATE SET read_to = excluded.read_to, \
     read_before = excluded.read_before, requests = excluded.requests, \
     forget_at = excluded.forget_at",
    "INSERT INTO metric_streams (id, read_to, read_before, requests, forget_at) \
     SELECT k ->> 'i', (k ->> 't')::bigint, (k ->> 'b')::bigint, (k ->> 'n')::bigint, \
     (k ->> 'f')::bigint FROM json_array_elements($1::json) k \
     ON CONFLICT (id) DO UPDATE SET read_to = excluded.read_to, \
     read_before = excluded.read_before, requests = excluded.requests, \
     forget_at = excluded.forget_at",
];

/// How many series there are.
const COUNT_SERIES: &str = "SELECT COUNT(*) FROM volume_series";

/// Which of the series `$1` there are.
const SERIES: [&str; 2] = [
    "SELECT s.service, s.upstream, s.environment, s.metric, s.answer \
     FROM json_each($1) k CROSS JOIN volume_series s WHERE s.service = k.value ->> 's' \
     AND s.upstream = k.value ->> 'u' AND s.environment = k.value ->> 'e' \
     AND s.metric = k.value ->> 'k' AND s.answer = k.value ->> 'a'",
    "SELECT s.service, s.upstream, s.environment, s.metric, s.answer \
     FROM json_array_elements($1::json) k JOIN volume_series s ON s.service = k ->> 's' \
     AND s.upstream = k ->> 'u' AND s.environment = k ->> 'e' AND s.metric = k ->> 'k' \
     AND s.answer = k ->> 'a'",
];

/// Adds series (`$1`).
const ADD_SERIES: [&str; 2] = [
    "INSERT OR IGNORE INTO volume_series (service, upstream, environment, metric, answer) \
     SELECT value ->> 's', value ->> 'u', value ->> 'e', value ->> 'k', value ->> 'a' \
     FROM json_each($1)",
    "INSERT INTO volume_series (service, upstream, environment, metric, answer) \
     SELECT k ->> 's', k ->> 'u', k ->> 'e', k ->> 'k', k ->> 'a' \
     FROM json_array_elements($1::json) k ON CONFLICT DO NOTHING",
];

/// Adds requests of minutes (`$1`).
const ADD: [&str; 2] = [
    "INSERT INTO client_volumes (series, minute, requests) \
     SELECT s.id, k.value ->> 'm', k.value ->> 'n' FROM json_each($1) k CROSS JOIN volume_series s \
     WHERE s.service = k.value ->> 's' AND s.upstream = k.value ->> 'u' \
     AND s.environment = k.value ->> 'e' AND s.metric = k.value ->> 'k' \
     AND s.answer = k.value ->> 'a' ON CONFLICT (series, minute) DO UPDATE \
     SET requests = client_volumes.requests + excluded.requests",
    "INSERT INTO client_volumes (series, minute, requests) \
     SELECT s.id, (k ->> 'm')::bigint, (k ->> 'n')::bigint \
     FROM json_array_elements($1::json) k JOIN volume_series s ON s.service = k ->> 's' \
     AND s.upstream = k ->> 'u' AND s.environment = k ->> 'e' AND s.metric = k ->> 'k' \
     AND s.answer = k ->> 'a' ON CONFLICT (series, minute) DO UPDATE \
     SET requests = client_volumes.requests + excluded.requests",
];

/// Requests by pair, metric and answer; `{in}` says of which series and minutes.
const SUMS: &str = "SELECT s.service, s.upstream, s.environment, s.metric, s.answer, \
    CAST(SUM(v.requests) AS BIGINT) FROM volume_series s JOIN client_volumes v ON v.series = s.id \
    WHERE {in} GROUP BY s.service, s.upstream, s.environment, s.metric, s.answer";

/// For how many minutes there is something, by pair and metric.
const MINUTES: &str = "SELECT s.service, s.upstream, s.environment, s.metric, \
    COUNT(DISTINCT v.minute) FROM volume_series s JOIN client_volumes v ON v.series = s.id \
    WHERE {in} GROUP BY s.service, s.upstream, s.environment, s.metric";

/// Removes some of what is before `$1`; tells of each.
const REMOVE: &str = "DELETE FROM client_volumes WHERE (series, minute) IN (\
    SELECT v.series, v.minute FROM volume_series s JOIN client_volumes v ON v.series = s.id \
    WHERE v.minute < $1 LIMIT $2) RETURNING minute";

/// Removes series of which nothing is left.
const REMOVE_SERIES: &str = "DELETE FROM volume_series WHERE NOT EXISTS (\
    SELECT 1 FROM client_volumes v WHERE v.series = volume_series.id)";

/// Forgets some streams that had to be known until `$1`; tells of each.
const FORGET: &str = "DELETE FROM metric_streams WHERE id IN (\
    SELECT id FROM metric_streams WHERE forget_at < $1 LIMIT $2) RETURNING forget_at";

/// What the metric of a service's calls to an upstream counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairVolume {
    /// The calling service.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// What was counted. Where both metrics were sent it is the greater one.
    pub volume: Volume,
}

impl Store {
    /// Adds what is new in data points that arrived at `now`; when it returns that is on disk. How
    /// many points are of series for which there is no room; nothing of those is kept.
    pub async fn add_volumes(
        &self,
        points: Vec<Point>,
        now: UnixMillis,
    ) -> Result<usize, StoreError> {
        if points.is_empty() {
            return Ok(0);
        }
        for _ in 0..TRIES {
            let mut reader = self.reader().await?;
            let done = reader.first(DONE, &[]).await?.map_or(Ok(0), |row| row.int(0))?;
            let (fitting, refused) = self.fitting(&mut reader, &points).await?;
            let mut known = self.streams(&mut reader, &fitting).await?;
            drop(reader);
            let before = known.clone();
            let added = volumes::advance(&mut known, &fitting);
            known.retain(|id, read| before.get(id) != Some(read));
            let mut statements = vec![Statement::guard(ADVANCE, vec![done.into()])];
            statements.extend(self.noted(&known, &fitting, now));
            let series: BTreeSet<&Series> = added.keys().map(|(series, _)| series).collect();
            statements.extend(self.listed(ADD_SERIES, series.into_iter().map(json_of)));
            statements.extend(self.listed(
                ADD,
                added.iter().map(|((series, minute), requests)| {
                    let mut row = json_of(series);
                    row["m"] = json!(minute);
                    row["n"] = json!(requests);
                    row
                }),
            ));
            if statements.len() == 1 || self.transact(statements).await?.is_some() {
                return Ok(refused);
            }
        }
        // Others are always faster; the sender tries again.
        Err(StoreError::Unavailable(std::io::Error::from(ErrorKind::WouldBlock).into()))
    }

    /// The points for whose series there is room, and how many others there are.
    async fn fitting(
        &self,
        reader: &mut Reader,
        points: &[Point],
    ) -> Result<(Vec<Point>, usize), StoreError> {
        let all: BTreeSet<&Series> = points.iter().map(|point| &point.series).collect();
        let count = reader.first(COUNT_SERIES, &[]).await?.map_or(Ok(0), |row| row.int(0))?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count.saturating_add(all.len()) <= MAX_VOLUME_SERIES {
            return Ok((points.to_vec(), 0));
        }
        let list = Value::Array(all.iter().map(|series| json_of(series)).collect());
        let mut room: HashSet<Series> = HashSet::new();
        for row in reader.all(self.text(SERIES), &[list.to_string().into()]).await? {
            let metric = row.text(3)?;
            room.insert(Series {
                service: row.text(0)?.into_owned(),
                upstream: row.text(1)?.into_owned(),
                environment: row.text(2)?.into_owned(),
                metric: metric.parse().map_err(|error| corrupt(&error))?,
                answer: row.text(4)?.into_owned(),
            });
        }
        let free = MAX_VOLUME_SERIES.saturating_sub(count);
        let new: Vec<Series> =
            all.into_iter().filter(|series| !room.contains(series)).take(free).cloned().collect();
        room.extend(new);
        let fitting: Vec<Point> =
            points.iter().filter(|point| room.contains(&point.series)).cloned().collect();
        let refused = points.len() - fitting.len();
        Ok((fitting, refused))
    }

    async fn streams(
        &self,
        reader: &mut Reader,
        points: &[Point],
    ) -> Result<BTreeMap<StreamId, Read>, StoreError> {
        let ids: BTreeSet<&str> = points
            .iter()
            .flat_map(|point| [point.stream.0.as_str(), point.sender.0.as_str()])
            .collect();
        let list = Value::Array(ids.into_iter().map(|id| json!(id)).collect()).to_string();
        let mut known = BTreeMap::new();
        for row in reader.all(self.text(STREAMS), &[list.into()]).await? {
            let to = UnixMillis(row.int(1)?);
            let before = row.int_or_none(2)?.map(UnixMillis);
            let read = Read { to, before, count: row.int(3)? };
            known.insert(StreamId(row.text(0)?.into_owned()), read);
        }
        Ok(known)
    }

    /// Statements that note how far streams were read.
    fn noted(
        &self,
        streams: &BTreeMap<StreamId, Read>,
        points: &[Point],
        now: UnixMillis,
    ) -> Vec<Statement> {
        let alone: HashSet<&StreamId> = points
            .iter()
            .filter(|point| point.temporality == Temporality::Delta)
            .map(|point| &point.stream)
            .collect();
        let rows = streams.iter().map(|(id, read)| {
            let kept = if alone.contains(id) { DELTA_KEPT } else { CUMULATIVE_KEPT };
            json!({"i": id.0, "t": read.to, "b": read.before, "n": read.count,
                   "f": now.plus(kept)})
        });
        self.listed(NOTE_STREAMS, rows)
    }

    /// Statements over lists of rows.
    fn listed(
        &self,
        texts: [&'static str; 2],
        rows: impl Iterator<Item = Value>,
    ) -> Vec<Statement> {
        let rows: Vec<Value> = rows.collect();
        let list = |chunk: &[Value]| Value::Array(chunk.to_vec()).to_string();
        rows.chunks(CHUNK)
            .map(|chunk| Statement::new(self.text(texts), vec![list(chunk).into()]))
            .collect()
    }

    /// What clients' metrics counted in a window, by pair, the largest first. Metrics know no
    /// routes: the scope's is not looked at.
    pub async fn client_volumes(
        &self,
        scope: &Scope,
        window: Window,
    ) -> Result<Vec<PairVolume>, StoreError> {
        let mut args: Vec<Arg> = Vec::new();
        let from = marks(&mut args, [Arg::Int(window.from.floor_to(MINUTE_MS).0)]);
        let to = marks(&mut args, [Arg::Int(window.to.0)]);
        let mut condition = format!("v.minute >= {from} AND v.minute < {to}");
        let columns = [
            ("s.service", &scope.service),
            ("s.upstream", &scope.upstream),
            ("s.environment", &scope.environment),
        ];
        for (column, value) in columns {
            if let Some(value) = value {
                let mark = marks(&mut args, [Arg::Text(value.clone())]);
                condition = format!("{condition} AND {column} = {mark}");
            }
        }
        let mut reader = self.reader().await?;
        let mut found: BTreeMap<[String; 3], BTreeMap<String, Volume>> = BTreeMap::new();
        let mut add = |row: &Row, add: &dyn Fn(&mut Volume)| {
            let text = |at| row.text(at).map(Cow::into_owned);
            let pair = found.entry([text(0)?, text(1)?, text(2)?]).or_default();
            add(pair.entry(text(3)?).or_default());
            Ok::<_, StoreError>(())
        };
        for row in reader.all(SUMS.replace("{in}", &condition), &args).await? {
            let (answer, requests) = (row.text(4)?, row.int(5)?);
            add(&row, &|volume| volume.count(&answer, requests))?;
        }
        for row in reader.all(MINUTES.replace("{in}", &condition), &args).await? {
            let minutes = row.int(4)?;
            add(&row, &|volume| volume.minutes = minutes)?;
        }
        let mut pairs: Vec<PairVolume> = found
            .into_iter()
            .filter_map(|([service, upstream, environment], metrics)| {
                // Instrumentations that change over send both, each request in either.
                let volume = metrics.into_values().max_by_key(|volume| volume.requests)?;
                let environment = Some(environment).filter(|name| !name.is_empty());
                Some(PairVolume { service, upstream, environment, volume })
            })
            .collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.volume.requests));
        Ok(pairs)
    }

    /// Removes at most `limit` minutes that are older than the events that are kept, and forgets as
    /// many streams; how many of both.
    pub async fn tidy_volumes(&self, now: UnixMillis, limit: i64) -> Result<usize, StoreError> {
        let since = self.reader().await?.kept().await?.events.since;
        let statements = vec![
            Statement::new(OCCUPY, Vec::new()),
            Statement::new(REMOVE, vec![since.0.into(), limit.into()]),
            Statement::new(REMOVE_SERIES, Vec::new()),
            Statement::new(FORGET, vec![now.0.into(), limit.into()]),
        ];
        let given = self.transact(statements).await?.unwrap_or_default();
        Ok(given.iter().skip(1).map(Vec::len).sum())
    }
}

fn json_of(series: &Series) -> Value {
    json!({"s": series.service, "u": series.upstream, "e": series.environment,
           "k": series.metric, "a": series.answer})
}

fn corrupt(error: &crate::domain::spelling::UnknownWord) -> StoreError {
    let reason = error.to_string();
    StoreError::Corrupt { table: "volume_series", column: "metric", reason }
}
