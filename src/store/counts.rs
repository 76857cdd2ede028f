//! Counts of a window: from the sums where they cover whole stretches, from the events at the edges.

use super::reader::{Arg, Reader, Row, Snapshot, marks};
use super::rows::{Class, SeriesKey};
use super::sums::{self, HOUR, Kind, Question, SLOT, Tiers, Widths};
use super::{Store, StoreError, sql};
use crate::domain::checklist::KeyService;
use crate::domain::classify::Certainty;
use crate::domain::event::{AttemptError, RetryLayer, Vantage};
use crate::domain::stats::waits::WaitCounts;
use crate::domain::stored::{
    Bucket, Counts, Dimension, DimensionCounts, Labels, Mark, Pair, Scope, Sender, SenderCounts,
    ServiceCounts, TimeBasis, View,
};
use crate::domain::time::{MINUTE_MS, UnixMillis, Window};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// How many values of a dimension are told apart; the rest is added up as `other`.
pub const TOP_VALUES: usize = 1_000;
/// The value that stands for all beyond [`TOP_VALUES`].
pub const OTHER: &str = "other";
/// Most names of a kind to choose from.
const MAX_LABELS: usize = 1_000;
/// Keys whose services are looked for.
const SHARED_KEYS: usize = 50;

/// The dimensions of actors in the order of their kinds.
const ACTOR_DIMENSIONS: [Dimension; 4] =
    [Dimension::Key, Dimension::Address, Dimension::Account, Dimension::Instance];

/// What a view's attempts add up to, by all that series and classes tell.
pub(super) struct BySeries {
    /// All of them.
    pub(super) totals: Counts,
    /// How many (service, upstream) only sources further inside reported on.
    pub(super) uncounted_pairs: usize,
    sums: HashMap<(Dimension, String), [i64; 3]>,
}

/// The actors of a view with the most limited attempts.
#[derive(Default)]
pub(super) struct TopActors {
    /// Numbers of the most limited keys.
    pub(super) keys: Vec<i64>,
    sums: Vec<(usize, String, [i64; 3])>,
}

impl BySeries {
    /// The counts by each dimension. Without `actors`, where only the events could tell them, those
    /// dimensions are left out.
    pub(super) fn dimensions(self, actors: Option<TopActors>) -> Vec<DimensionCounts> {
        let Self { totals, mut sums, .. } = self;
        let Some(actors) = actors else { return ranked(sums) };
        let mut told = [(0_usize, [0_i64; 3]); ACTOR_DIMENSIONS.len()];
        for (kind, value, sum) in actors.sums {
            let (values, total) = &mut told[kind];
            *values += 1;
            add_up(total, sum);
            sums.insert((ACTOR_DIMENSIONS[kind], value), sum);
        }
        for (dimension, (values, told)) in ACTOR_DIMENSIONS.iter().zip(told) {
            // Below the cap every value is there, so that the rest carried none.
            let value = if values < TOP_VALUES { "" } else { OTHER };
            let rest =
                [totals.attempts - told[0], totals.limited - told[1], totals.retries - told[2]];
            if rest[0] > 0 {
                add_up(sums.entry((*dimension, value.to_owned())).or_default(), rest);
            }
        }
        ranked(sums)
    }
}

/// What attempts add up to, and when the newest of them was sent.
#[derive(Debug, Clone, Copy)]
struct Tally {
    counts: Counts,
    last_at: i64,
}

/// Tallies by number of the series (0 for all) and by who saw the attempts.
type Tallies = HashMap<(i64, Vantage), Tally>;

impl Tally {
    fn none() -> Self {
        Self { counts: Counts::default(), last_at: i64::MIN }
    }

    fn add(&mut self, counts: &Counts, last_at: i64) {
        self.counts.add(counts);
        self.last_at = self.last_at.max(last_at);
    }
}

impl Store {
    /// Whose view of a view's attempts is counted: the client's where any client reported on the
    /// pairs of the scope in the window, else the outermost source's (DESIGN 14). Sources are never
    /// added up. Routes aren't part of pairs, so that they don't decide.
    #[tracing::instrument(name = "db.counts.source", level = "debug", skip_all)]
    pub async fn source(&self, view: &View) -> Result<Vantage, StoreError> {
        let mut reader = self.reader().await?;
        let view = &reader.countable(view).await?;
        self.source_in(&mut reader, view).await
    }

    pub(super) async fn source_in(
        &self,
        reader: &mut Reader,
        view: &View,
    ) -> Result<Vantage, StoreError> {
        // Nearly every store holds client attempts alone, and this is quick to see.
        if !reader.has_observations().await? {
            return Ok(Vantage::Client);
        }
        let scope = Scope { route: None, ..view.scope.clone() };
        let tallies = tallies(reader, view, &scope, Series::Together).await?;
        Ok(tallies.keys().map(|(_, vantage)| *vantage).min().unwrap_or(Vantage::Client))
    }

    /// Counts of a view's attempts, from its [`Self::source`].
    #[tracing::instrument(name = "db.counts.total", level = "debug", skip_all)]
    pub async fn totals(&self, view: &View) -> Result<Counts, StoreError> {
        let mut reader = self.reader().await?;
        let view = &reader.countable(view).await?;
        let source = self.source_in(&mut reader, view).await?;
        self.totals_in(&mut reader, view, source).await
    }

    /// Counts of a view's attempts, from its [`Self::source`], per `width_ms` milliseconds (rounded up to whole
    /// minutes), in order, from the stretch that holds the window's first moment to the one that
    /// holds its last; stretches without attempts are there as zeros.
    #[tracing::instrument(name = "db.counts.buckets", level = "debug", skip_all)]
    pub async fn buckets(&self, view: &View, width_ms: i64) -> Result<Vec<Bucket>, StoreError> {
        let mut reader = self.reader().await?;
        let view = &reader.countable(view).await?;
        let source = self.source_in(&mut reader, view).await?;
        self.buckets_in(&mut reader, view, source, width_ms).await
    }

    /// Counts of a view's attempts, from its [`Self::source`], by each dimension, largest `limited` first within a
    /// dimension; the top [`TOP_VALUES`] of each and the rest as [`OTHER`].
    #[tracing::instrument(name = "db.counts.dimensions", level = "debug", skip_all)]
    pub async fn dimensions(&self, view: &View) -> Result<Vec<DimensionCounts>, StoreError> {
        let mut reader = self.reader().await?;
        let view = &reader.countable(view).await?;
        let source = self.source_in(&mut reader, view).await?;
        let counts = self.by_series(&mut reader, view, source).await?;
        let actors = self.top_actors(&mut reader, view, source).await?;
        Ok(counts.dimensions(actors))
    }

    /// Counts of every (service, upstream, environment) with traffic in a window, most limited
    /// first.
    #[tracing::instrument(name = "db.counts.pairs", level = "debug", skip_all)]
    pub async fn pairs(&self, window: Window, time: TimeBasis) -> Result<Vec<Pair>, StoreError> {
        let mut reader = self.reader().await?;
        let view = View { scope: Scope::default(), window, time };
        let view = reader.countable(&view).await?;
        let tallies = tallies(&mut reader, &view, &view.scope, Series::Each).await?;
        let series = reader.series(tallies.keys().map(|(series, _)| *series)).await?;
        let mut pairs: BTreeMap<([String; 3], Vantage), Tally> = BTreeMap::new();
        for ((series_id, vantage), Tally { counts, last_at }) in tallies {
            let SeriesKey { service, upstream, environment, .. } = named(&series, series_id)?;
            pairs
                .entry(([service, upstream, environment].map(String::clone), vantage))
                .or_insert_with(Tally::none)
                .add(&counts, last_at);
        }
        let mut list: Vec<Pair> = Vec::with_capacity(pairs.len());
        // In the order of the map the client's view of a pair comes first, then the outermost.
        for (([service, upstream, environment], source), Tally { counts, last_at }) in pairs {
            let environment = Some(environment).filter(|e| !e.is_empty());
            let is_known = list.last().is_some_and(|last| {
                last.service == service
                    && last.upstream == upstream
                    && last.environment == environment
            });
            if !is_known {
                let last_at = UnixMillis(last_at);
                list.push(Pair { service, upstream, environment, source, counts, last_at });
            }
        }
        list.sort_by_key(|pair| Reverse((pair.counts.limited, pair.counts.attempts)));
        Ok(list)
    }

    /// Counts of every service with client attempts in a window (by event time), most limited
    /// first.
    #[tracing::instrument(name = "db.counts.services", level = "debug", skip_all)]
    pub async fn services(&self, window: Window) -> Result<Vec<ServiceCounts>, StoreError> {
        let mut reader = self.reader().await?;
        let view = View { scope: Scope::default(), window, time: TimeBasis::Event };
        let view = reader.countable(&view).await?;
        let mut tallies = tallies(&mut reader, &view, &view.scope, Series::Each).await?;
        tallies.retain(|(_, vantage), _| *vantage == Vantage::Client);
        let series = reader.series(tallies.keys().map(|(series, _)| *series)).await?;
        let mut services: BTreeMap<String, Tally> = BTreeMap::new();
        for ((series_id, _), Tally { counts, last_at }) in tallies {
            let service = named(&series, series_id)?.service.clone();
            services.entry(service).or_insert_with(Tally::none).add(&counts, last_at);
        }
        let mut list: Vec<ServiceCounts> = services
            .into_iter()
            .map(|(service, Tally { counts, last_at })| ServiceCounts {
                service,
                counts,
                last_at: UnixMillis(last_at),
            })
            .collect();
        list.sort_by_key(|service| Reverse((service.counts.limited, service.counts.attempts)));
        Ok(list)
    }

    pub(super) async fn totals_in(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<Counts, StoreError> {
        let mut totals = Counts::default();
        let tallies = tallies(reader, view, &view.scope, Series::Together).await?;
        for ((_, vantage), tally) in tallies {
            if vantage == source {
                totals.add(&tally.counts);
            }
        }
        Ok(totals)
    }

    pub(super) async fn buckets_in(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
        width_ms: i64,
    ) -> Result<Vec<Bucket>, StoreError> {
        let Window { from, to } = view.window;
        let kept = reader.kept().await?;
        // What is older than the events is known by the hour alone.
        let width = if from < kept.events.by(view.time) { HOUR } else { 1 } * MINUTE_MS;
        let width_ms = width_ms.max(1).saturating_add(width - 1) / width * width;
        let mut buckets: BTreeMap<i64, Counts> = BTreeMap::new();
        let mut start = from.floor_to(width_ms).0;
        while start < to.0 {
            buckets.insert(start, Counts::default());
            start = start.saturating_add(width_ms);
        }
        let width = width_ms / MINUTE_MS;
        // The coarsest rows that fall into one bucket each.
        let coarsest = [HOUR, SLOT].into_iter().find(|rows| width % rows == 0).unwrap_or(1);
        let tiers = Tiers::new(view.window, Widths { finest: 1, coarsest });
        let mut args = vec![Arg::Int(width), Arg::Int(vantage_number(source))];
        let columns = format!("{{time}} AS time, c.vantage AS vantage, {}", measures("c."));
        let question =
            Question { kind: sums::COUNTS, columns: &columns, gathered: "{sums}", fine: "{sums}" };
        let parts = question.parts(&tiers, view.time, &kept, &mut args);
        if let Some(parts) = sums::together(&parts, view.time) {
            // The double remainder rounds moments before 1970 downwards as well.
            let text = format!(
                "SELECT time - ((time % $1) + $1) % $1, {} FROM ({parts}) parts \
                 WHERE vantage = $2 GROUP BY 1",
                added_up()
            );
            let text = sql::scope(&text, &view.scope, sql::ALL_SERIES, &mut args);
            for row in reader.all(text, &args).await? {
                buckets.entry(row.int(0)? * MINUTE_MS).or_default().add(&counts(&row, 1)?);
            }
        }
        for (from, to) in tiers.edges.into_iter().filter(|(from, to)| from < to) {
            let mut args = vec![Arg::Int(from), Arg::Int(to), Arg::Int(width_ms)];
            let text = sql::clock(sql::EVENT_BUCKETS, view.time);
            let text = sql::scope(&text, &view.scope, sql::EACH_SERIES, &mut args);
            let rows = reader.all(text, &args).await?;
            let classes = classes(reader, &rows).await?;
            for row in rows {
                let class = class_of(&classes, row.int(0)?)?;
                if class.vantage == source {
                    let counts = Counts::of_ending(class.ending(), rank(&row, 1)?, row.int(2)?);
                    buckets.entry(row.int(3)?).or_default().add(&counts);
                }
            }
        }
        Ok(buckets
            .into_iter()
            .map(|(start, counts)| Bucket { start: UnixMillis(start), counts })
            .collect())
    }

    /// Totals of a view from one source, and its sums by what series and classes tell.
    pub(super) async fn by_series(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<BySeries, StoreError> {
        let tallies = tallies(reader, view, &view.scope, Series::Each).await?;
        let series = reader.series(tallies.keys().map(|(series, _)| *series)).await?;
        let mut totals = Counts::default();
        let mut sums: HashMap<(Dimension, String), [i64; 3]> = HashMap::new();
        let mut outermost: HashMap<(&str, &str), Vantage> = HashMap::new();
        for ((series_id, seen), Tally { counts, .. }) in tallies {
            let SeriesKey { service, upstream, environment, route } = named(&series, series_id)?;
            outermost
                .entry((service, upstream))
                .and_modify(|least| *least = seen.min(*least))
                .or_insert(seen);
            if seen == source {
                totals.add(&counts);
                let sum = [counts.attempts, counts.limited, counts.retries];
                for (dimension, value) in [
                    (Dimension::Service, service),
                    (Dimension::Environment, environment),
                    (Dimension::Route, route),
                ] {
                    add_up(sums.entry((dimension, value.clone())).or_default(), sum);
                }
            }
        }
        for (class, [attempts, retries]) in by_class(reader, view, source).await? {
            let limited = if class.limited { attempts } else { 0 };
            for value in values_of(class) {
                add_up(sums.entry(value).or_default(), [attempts, limited, retries]);
            }
        }
        let uncounted_pairs = outermost.values().filter(|least| **least > source).count();
        Ok(BySeries { totals, uncounted_pairs, sums })
    }

    /// The actors with the most limited attempts; `None` where only events could tell, and those
    /// are gone.
    pub(super) async fn top_actors(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<Option<TopActors>, StoreError> {
        let is_kept = reader.kept().await?.events.by(view.time) <= view.window.from;
        if !is_kept && !has_actor_sums(&view.scope, source) {
            return Ok(None);
        }
        let mut top = TopActors::default();
        let asked = Actors { question: sql::TOP_ACTORS, kinds: sql::ALL_KINDS, words: None };
        let all = view.scope == Scope::default();
        for row in actors(reader, asked, all, view, &view.scope, source).await? {
            let kind = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
            let Some(dimension) = ACTOR_DIMENSIONS.get(kind) else { continue };
            if *dimension == Dimension::Key && top.keys.len() < SHARED_KEYS {
                top.keys.push(row.int(5)?);
            }
            let sum = [row.int(2)?, row.int(3)?, row.int(4)?];
            top.sums.push((kind, row.text(1)?.into_owned(), sum));
        }
        Ok(Some(top))
    }

    /// The waits that a view's refusals promised; sums of them are kept of client attempts alone.
    pub(super) async fn promised(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<Option<WaitCounts>, StoreError> {
        if source != Vantage::Client {
            return Ok(None);
        }
        let tiers = Tiers::new(view.window, sums::WAITS.widths());
        let mut args = Vec::new();
        let question = Question {
            kind: sums::WAITS,
            columns: "c.bucket AS bucket, c.n AS n",
            gathered: "{sums}",
            fine: "{sums}",
        };
        let mut parts = question.parts(&tiers, view.time, &reader.kept().await?, &mut args);
        for (from, to) in tiers.edges.into_iter().filter(|(from, to)| from < to) {
            let ends = [from, to].map(|end| marks(&mut args, [Arg::Int(end)]));
            parts.push(format!(
                "SELECT wait_bucket AS bucket, count AS n FROM events WHERE {{at}} >= {} \
                 AND {{at}} < {} AND {{scope}} AND wait_bucket IS NOT NULL",
                ends[0], ends[1]
            ));
        }
        let Some(parts) = sums::together(&parts, view.time) else {
            return Ok(Some(WaitCounts::default()));
        };
        let text =
            format!("SELECT bucket, CAST(SUM(n) AS BIGINT) FROM ({parts}) parts GROUP BY bucket");
        let text = sql::scope(&text, &view.scope, sql::ALL_SERIES, &mut args);
        let mut waits = WaitCounts::default();
        for row in reader.all(text, &args).await? {
            waits.add(row.int(0)?, row.int(1)?);
        }
        Ok(Some(waits))
    }

    /// Use of the given keys by every service that calls the scope's upstream.
    pub(super) async fn key_services(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
        keys: &[i64],
    ) -> Result<Vec<KeyService>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let scope = Scope { service: None, route: None, ..view.scope.clone() };
        let asked = Actors {
            question: sql::KEY_SERVICES,
            kinds: sql::ONLY_KEYS,
            words: Some(words.join(", ")),
        };
        let rows = actors(reader, asked, false, view, &scope, source).await?;
        rows.iter()
            .map(|row| {
                Ok(KeyService {
                    key: row.text(0)?.into_owned(),
                    service: row.text(1)?.into_owned(),
                    attempts: row.int(2)?,
                    limited: row.int(3)?,
                })
            })
            .collect()
    }
}

impl Reader {
    /// Whether an event of `vantage` is stored for the slots that the view touches. Gateways and
    /// origins report under their own names, so that the upstream decides where one is given.
    pub(super) async fn has_vantage(
        &mut self,
        view: &View,
        vantage: Vantage,
    ) -> Result<bool, StoreError> {
        let mut scope = Scope { route: None, ..view.scope.clone() };
        if scope.upstream.is_some() {
            scope.service = None;
        }
        let (from, to) = stretches(view.window, SLOT);
        let mut args = vec![Arg::Int(from), Arg::Int(to), vantage.as_str().into()];
        let text = sql::clock(sql::HAS_VANTAGE, view.time);
        let text = sql::scope(&text, &scope, sql::ALL_SERIES, &mut args);
        Ok(self.first(text, &args).await?.is_some())
    }

    pub(super) async fn marks(&mut self, scope: &Scope) -> Result<Vec<Mark>, StoreError> {
        let args = [Arg::MaybeText(scope.service.clone()), Arg::MaybeText(scope.upstream.clone())];
        let rows = self.all(sql::MARKS, &args).await?;
        rows.iter()
            .rev()
            .map(|row| {
                Ok(Mark {
                    id: row.int(0)?,
                    at: UnixMillis(row.int(1)?),
                    service: row.text_or_none(2)?,
                    upstream: row.text_or_none(3)?,
                    title: row.text(4)?.into_owned(),
                })
            })
            .collect()
    }

    pub(super) async fn senders(
        &mut self,
        text: &'static str,
        args: &[Arg],
    ) -> Result<Vec<Sender>, StoreError> {
        let rows = self.all(text, args).await?;
        rows.iter()
            .map(|row| {
                Ok(Sender {
                    service: row.text(0)?.into_owned(),
                    counts: SenderCounts {
                        events: row.int(1)?,
                        redactions: row.int(2)?,
                        unknown_fields: row.int(3)?,
                        rejected: row.int(4)?,
                        id_conflicts: row.int(5)?,
                        as_other: row.int(6)?,
                    },
                })
            })
            .collect()
    }

    pub(super) async fn labels(&mut self, window: Window) -> Result<Labels, StoreError> {
        let kept = self.kept().await?;
        let view = View { scope: Scope::default(), window, time: TimeBasis::Event };
        let Window { from, to } = kept.countable(&view).window;
        // Five minutes are told apart, no less.
        let up = UnixMillis(to.0.saturating_add(SLOT * MINUTE_MS - 1));
        let [from, to] = [from, up].map(|at| at.floor_to(SLOT * MINUTE_MS));
        let tiers = Tiers::new(Window { from, to }, sums::COUNTS.widths());
        let question = Question {
            kind: sums::COUNTS,
            columns: "DISTINCT c.series_id AS series_id",
            gathered: sql::EACH_SERIES,
            fine: sql::EACH_SERIES,
        };
        let mut args = Vec::new();
        let parts = question.parts(&tiers, view.time, &kept, &mut args);
        let mut ids = BTreeSet::new();
        if let Some(parts) = sums::together(&parts, view.time) {
            for row in self.all(parts, &args).await? {
                ids.insert(row.int(0)?);
            }
        }
        let series = self.series(ids.iter().copied()).await?;
        let mut lists: [BTreeSet<&str>; 3] = Default::default();
        for id in ids {
            let SeriesKey { service, upstream, environment, .. } = named(&series, id)?;
            for (list, name) in lists.iter_mut().zip([service, upstream, environment]) {
                list.insert(name);
            }
        }
        let [services, upstreams, environments] = lists.map(|list| {
            let names = list.into_iter().filter(|name| !name.is_empty());
            names.take(MAX_LABELS).map(ToOwned::to_owned).collect()
        });
        Ok(Labels { services, upstreams, environments })
    }
}

/// Which rows a question about counts is answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    /// All series of the scope together.
    Together,
    /// Each by itself.
    Each,
}

/// The columns of counts, from a table.
pub(super) fn measures(table: &str) -> String {
    let named = |column: &&str| format!("{table}{column} AS {column}");
    count_columns().iter().map(named).collect::<Vec<_>>().join(", ")
}

/// The columns of counts, each added up.
pub(super) fn added_up() -> String {
    let sum = |column: &&str| format!("CAST(SUM({column}) AS BIGINT)");
    count_columns().iter().map(sum).collect::<Vec<_>>().join(", ")
}

/// What the attempts of a scope add up to.
async fn tallies(
    reader: &mut Reader,
    view: &View,
    scope: &Scope,
    series: Series,
) -> Result<Tallies, StoreError> {
    let tiers = Tiers::new(view.window, sums::COUNTS.widths());
    let (column, unscoped) = match series {
        Series::Together => ("CAST(0 AS BIGINT)", sql::ALL_SERIES),
        Series::Each => ("c.series_id", sql::EACH_SERIES),
    };
    let columns = format!(
        "{column} AS series_id, c.vantage AS vantage, {}, {{newest}} AS last_at",
        measures("c.")
    );
    let question =
        Question { kind: sums::COUNTS, columns: &columns, gathered: "{sums}", fine: "{sums}" };
    let mut args = Vec::new();
    let parts = question.parts(&tiers, view.time, &reader.kept().await?, &mut args);
    let mut tallies = Tallies::new();
    let mut add = |key, counts: &Counts, last_at| {
        tallies.entry(key).or_insert_with(Tally::none).add(counts, last_at);
    };
    if let Some(parts) = sums::together(&parts, view.time) {
        let text = format!(
            "SELECT series_id, vantage, {}, MAX(last_at) FROM ({parts}) parts GROUP BY 1, 2",
            added_up()
        );
        let text = sql::scope(&text, scope, unscoped, &mut args);
        for row in reader.all(text, &args).await? {
            let key = (row.int(0)?, vantage(&row, 1)?);
            add(key, &counts(&row, 2)?, row.int(2 + count_columns().len())?);
        }
    }
    if tiers.has_edges() {
        let mut args = tiers.edge_args();
        let text = sql::EDGES.replace("{series}", column.trim_start_matches("c."));
        let text = sql::scope(&sql::clock(&text, view.time), scope, unscoped, &mut args);
        let rows = reader.all(text, &args).await?;
        let classes = classes(reader, &rows).await?;
        for row in rows {
            let class = class_of(&classes, row.int(0)?)?;
            let counts = Counts::of_ending(class.ending(), rank(&row, 1)?, row.int(2)?);
            add((row.int(4)?, class.vantage), &counts, row.int(3)?);
        }
    }
    Ok(tallies)
}

/// Attempts and retries of a view by class, from one source.
async fn by_class(
    reader: &mut Reader,
    view: &View,
    source: Vantage,
) -> Result<Vec<(Class, [i64; 2])>, StoreError> {
    let tiers = Tiers::new(view.window, sums::CLASSES.widths());
    let question = Question {
        kind: sums::CLASSES,
        columns: "c.class_id AS class_id, c.attempts AS attempts, c.retries AS retries",
        gathered: "{sums}",
        fine: "{sums}",
    };
    let mut args = Vec::new();
    let parts = question.parts(&tiers, view.time, &reader.kept().await?, &mut args);
    let mut sums: HashMap<i64, [i64; 2]> = HashMap::new();
    let mut add = |class, attempts, retries| {
        let sum = sums.entry(class).or_default();
        sum[0] += attempts;
        sum[1] += retries;
    };
    if let Some(parts) = sums::together(&parts, view.time) {
        let text = format!(
            "SELECT class_id, CAST(SUM(attempts) AS BIGINT), CAST(SUM(retries) AS BIGINT) \
             FROM ({parts}) parts GROUP BY class_id"
        );
        let text = sql::scope(&text, &view.scope, sql::ALL_SERIES, &mut args);
        for row in reader.all(text, &args).await? {
            add(row.int(0)?, row.int(1)?, row.int(2)?);
        }
    }
    if tiers.has_edges() {
        let mut args = tiers.edge_args();
        let text = sql::EDGES.replace("{series}", "CAST(0 AS BIGINT)");
        let text = sql::clock(&text, view.time);
        let text = sql::scope(&text, &view.scope, sql::ALL_SERIES, &mut args);
        for row in reader.all(text, &args).await? {
            let (n, is_retry) = (row.int(2)?, row.int(1)? > 1);
            add(row.int(0)?, n, if is_retry { n } else { 0 });
        }
    }
    let classes = reader.classes(sums.keys().copied()).await?;
    let mut by_class = Vec::with_capacity(sums.len());
    for (id, sum) in sums {
        let class = class_of(&classes, id)?;
        if class.vantage == source {
            by_class.push((class, sum));
        }
    }
    Ok(by_class)
}

/// The number of a vantage in sums.
pub(super) const fn vantage_number(vantage: Vantage) -> i64 {
    match vantage {
        Vantage::Client => 0,
        Vantage::Gateway => 1,
        Vantage::Origin => 2,
    }
}

pub(super) fn vantage(row: &Row, at: usize) -> Result<Vantage, StoreError> {
    Ok(match row.int(at)? {
        0 => Vantage::Client,
        1 => Vantage::Gateway,
        _ => Vantage::Origin,
    })
}

/// The classes that the first columns of rows name.
async fn classes(
    reader: &mut Reader,
    rows: &[Row],
) -> Result<Arc<HashMap<i64, Class>>, StoreError> {
    let ids: Vec<i64> = rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
    reader.classes(ids).await
}

/// The names of a series that was asked for.
fn named(series: &HashMap<i64, Arc<SeriesKey>>, id: i64) -> Result<&SeriesKey, StoreError> {
    series.get(&id).map(AsRef::as_ref).ok_or_else(|| StoreError::Corrupt {
        table: "class_counts",
        column: "series_id",
        reason: format!("{id} is not in series"),
    })
}

/// Whether sums by actor are kept of what a question asks for.
fn has_actor_sums(scope: &Scope, source: Vantage) -> bool {
    source == Vantage::Client && scope.route.is_none()
}

/// A question about actors.
#[derive(Debug)]
struct Actors {
    question: &'static str,
    kinds: &'static str,
    /// Only these; the sums of others are left out before they are put together.
    words: Option<String>,
}

/// Asks about actors; `all` of them together, or by pair.
async fn actors(
    reader: &mut Reader,
    asked: Actors,
    all: bool,
    view: &View,
    scope: &Scope,
    source: Vantage,
) -> Result<Vec<Row>, StoreError> {
    let kind: Kind = match (&asked.words, &reader.snapshot) {
        _ if all => sums::ALL_ACTORS,
        (Some(_), Snapshot::Sqlite(_)) => sums::FEW_ACTORS,
        _ => sums::ACTORS,
    };
    let tiers = if has_actor_sums(scope, source) {
        Tiers::new(view.window, kind.widths())
    } else {
        Tiers::all_edge(view.window)
    };
    let mut args = vec![Arg::Int(i64::try_from(TOP_VALUES).unwrap_or(i64::MAX))];
    let only = asked
        .words
        .as_ref()
        .map_or_else(String::new, |words| format!(" AND c.word_id IN ({words})"));
    let by_pair = format!("{{sums}}{only}");
    let question = Question {
        kind,
        columns: "c.series_id AS series_id, c.word_id AS word_id, c.attempts AS attempts, \
                  c.limited AS limited, c.retries AS retries",
        gathered: if all { sql::ALL_SERIES } else { &by_pair },
        fine: &by_pair,
    };
    let mut parts = question.parts(&tiers, view.time, &reader.kept().await?, &mut args);
    for (from, to) in tiers.edges.into_iter().filter(|(from, to)| from < to) {
        let [from, to] = [from, to].map(|end| marks(&mut args, [Arg::Int(end)]));
        let edge = sql::seen_by(sql::ACTOR_EDGE, source).replace("{kinds}", asked.kinds);
        parts.push(edge.replace("{from}", &from).replace("{to}", &to));
    }
    let Some(parts) = sums::together(&parts, view.time) else { return Ok(Vec::new()) };
    let text = asked
        .question
        .replace("{parts}", &parts)
        .replace("{words}", asked.words.as_deref().unwrap_or_default());
    let text = sql::scope(&text, scope, sql::EACH_SERIES, &mut args);
    reader.all(text, &args).await
}

/// The whole stretches of `width` minutes that a window touches, in minutes: (from, to).
fn stretches(window: Window, width: i64) -> (i64, i64) {
    let floor = |at: UnixMillis| at.floor_to(width * MINUTE_MS).0 / MINUTE_MS;
    (floor(window.from), floor(UnixMillis(window.to.0.saturating_sub(1))).saturating_add(width))
}

fn rank(row: &Row, at: usize) -> Result<u32, StoreError> {
    Ok(u32::try_from(row.int(at)?).unwrap_or(u32::MAX))
}

fn class_of(classes: &HashMap<i64, Class>, id: i64) -> Result<Class, StoreError> {
    classes.get(&id).copied().ok_or_else(|| StoreError::Corrupt {
        table: "events",
        column: "class_id",
        reason: format!("{id} is not in classes"),
    })
}

/// The columns of counts, in the order in which [`counts`] reads them: all measures but when the
/// newest was sent.
fn count_columns() -> &'static [&'static str] {
    sums::HOUR_COUNTS.measures().split_last().map_or(&[], |(_, counts)| counts)
}

/// Reads [`count_columns`] from column `at` on.
pub(super) fn counts(row: &Row, at: usize) -> Result<Counts, StoreError> {
    let n = |i: usize| row.int(at + i);
    Ok(Counts {
        attempts: n(0)?,
        answered: n(1)?,
        requests: n(2)?,
        retries: n(3)?,
        status_429: n(4)?,
        limited: n(5)?,
        limited_retries: n(6)?,
        succeeded: n(7)?,
        server_errors: n(8)?,
        errors: n(9)?,
        retried_operations: n(10)?,
        retry_successes: n(11)?,
        gave_up: n(12)?,
    })
}

/// The values of the dimensions that a class tells.
fn values_of(class: Class) -> [(Dimension, String); 4] {
    let responder = match class.certainty {
        Certainty::Certain | Certainty::Confident => class.returned_by.as_str(),
        Certainty::Likely | Certainty::Unknown => "unknown",
    };
    let status = match (class.status, class.error) {
        (Some(status), _) => status.to_string(),
        (None, error) => error.map_or("", AttemptError::as_str).to_owned(),
    };
    let limit_type = if class.limited { class.limit_type.as_str() } else { "" };
    [
        (Dimension::RetryLayer, class.retry_layer.map_or("unknown", RetryLayer::as_str).to_owned()),
        (Dimension::Responder, responder.to_owned()),
        (Dimension::LimitType, limit_type.to_owned()),
        (Dimension::Status, status),
    ]
}

fn add_up(sum: &mut [i64; 3], more: [i64; 3]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Puts sums in order and adds up what is beyond the cap.
fn ranked(sums: HashMap<(Dimension, String), [i64; 3]>) -> Vec<DimensionCounts> {
    let mut by_dimension: BTreeMap<Dimension, Vec<DimensionCounts>> = BTreeMap::new();
    for ((dimension, value), [attempts, limited, retries]) in sums {
        by_dimension.entry(dimension).or_default().push(DimensionCounts {
            dimension,
            value,
            attempts,
            limited,
            retries,
        });
    }
    let mut all = Vec::new();
    for (dimension, mut list) in by_dimension {
        list.sort_by(|a, b| {
            (b.limited, b.attempts, &a.value).cmp(&(a.limited, a.attempts, &b.value))
        });
        // An `other` that came with the list stays the last of it.
        let mut rest = [0; 3];
        let mut kept = 0;
        list.retain(|counts| {
            let stays = kept < TOP_VALUES && counts.value != OTHER;
            if stays {
                kept += 1;
            } else {
                rest[0] += counts.attempts;
                rest[1] += counts.limited;
                rest[2] += counts.retries;
            }
            stays
        });
        all.append(&mut list);
        let [attempts, limited, retries] = rest;
        if attempts > 0 {
            all.push(DimensionCounts {
                dimension,
                value: OTHER.to_owned(),
                attempts,
                limited,
                retries,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_cap_are_added_up() {
        let sums = (0..TOP_VALUES + 5)
            .map(|n| ((Dimension::Route, format!("/{n}")), [10, i64::from(n < 3), 1]))
            .collect();
        let list = ranked(sums);
        assert_eq!(list.len(), TOP_VALUES + 1);
        assert_eq!(list[0].limited, 1);
        let other = list.last().unwrap();
        assert_eq!((other.value.as_str(), other.attempts, other.retries), (OTHER, 50, 5));
    }
}
