//! Counts of a window: from the sums where they cover whole stretches, from the events at the edges.

use super::batch::{HOUR, SLOT};
use super::reader::{Arg, Reader, Row};
use super::rows::{Class, SeriesKey};
use super::sql::Unscoped;
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
use std::hash::Hash;
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

/// A window cut at whole stretches: what the sums answer, and what is left at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    inner: (i64, i64),
    edges: [(i64, i64); 2],
}

impl Cut {
    fn new(window: Window, width_ms: i64) -> Self {
        let (from, to) = (window.from.0, window.to.0.max(window.from.0));
        let down = |at: i64| UnixMillis(at).floor_to(width_ms).0;
        let first = if down(from) == from { from } else { down(from).saturating_add(width_ms) };
        let last = down(to);
        if first <= last {
            Self { inner: (first, last), edges: [(from, first), (last, to)] }
        } else {
            Self { inner: (0, 0), edges: [(from, to), (0, 0)] }
        }
    }

    /// All of a window as an edge: for what no sums are kept of.
    fn all_edge(window: Window) -> Self {
        let Window { from, to } = window;
        Self { inner: (0, 0), edges: [(from.0, to.0.max(from.0)), (0, 0)] }
    }
}

/// A window cut for sums of hours and of five minutes: (from, to) of each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tiers {
    /// Whole hours, in minutes.
    hours: (i64, i64),
    /// Whole five minutes before and after them, in minutes.
    fine: [(i64, i64); 2],
    /// What is left at the ends, in milliseconds.
    edges: [(i64, i64); 2],
}

impl Tiers {
    fn new(window: Window) -> Self {
        Self::of(Cut::new(window, SLOT * MINUTE_MS))
    }

    /// How sums by actor answer for `source`. They are kept of client attempts, and without routes.
    /// Where they don't answer, the events do.
    fn of_actors(view: &View, scope: &Scope, source: Vantage) -> Self {
        match source {
            _ if has_actor_sums(scope, source) => Self::new(view.window),
            _ => Self::of(Cut::all_edge(view.window)),
        }
    }

    fn of(cut: Cut) -> Self {
        let (from, to) = cut.inner;
        let inner = Window { from: UnixMillis(from), to: UnixMillis(to) };
        let hours = Cut::new(inner, HOUR * MINUTE_MS);
        let minutes = |(from, to): (i64, i64)| (from / MINUTE_MS, to / MINUTE_MS);
        Self { hours: minutes(hours.inner), fine: hours.edges.map(minutes), edges: cut.edges }
    }

    /// The ten bounds in the order of `sql::CELLS`.
    fn args(&self) -> Vec<Arg> {
        let [before, after] = self.fine;
        let [first, last] = self.edges;
        [self.hours, before, after, first, last]
            .into_iter()
            .flat_map(|(from, to)| [Arg::Int(from), Arg::Int(to)])
            .collect()
    }
}

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

/// A group of equal attempts in the sums.
struct Cell {
    class_id: i64,
    class: Class,
    rank: u32,
    n: i64,
    last_at: i64,
    /// Number of its series; 0 where the question didn't ask for them.
    series_id: i64,
}

impl Cell {
    fn counts(&self) -> Counts {
        Counts::of_ending(self.class.ending(), self.rank, self.n)
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
        if reader.first(sql::HAS_OBSERVATIONS, &[]).await?.is_none() {
            return Ok(Vantage::Client);
        }
        let scope = Scope { route: None, ..view.scope.clone() };
        let rows = totals(reader, view, &scope).await?;
        let cells = cells(reader, &rows, false).await?;
        Ok(cells.iter().map(|cell| cell.class.vantage).min().unwrap_or(Vantage::Client))
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
        let cells = cells_by_series(&mut reader, &view).await?;
        let series = reader.series(cells.iter().map(|cell| cell.series_id)).await?;
        let mut pairs: BTreeMap<([String; 3], Vantage), (Counts, i64)> = BTreeMap::new();
        for ((series_id, vantage), (counts, last_at)) in
            sums_by(&cells, |cell| (cell.series_id, cell.class.vantage))
        {
            let SeriesKey { service, upstream, environment, .. } = named(&series, series_id)?;
            let sum = pairs
                .entry(([service, upstream, environment].map(String::clone), vantage))
                .or_insert((Counts::default(), last_at));
            sum.0.add(&counts);
            sum.1 = sum.1.max(last_at);
        }
        let mut list: Vec<Pair> = Vec::with_capacity(pairs.len());
        // In the order of the map the client's view of a pair comes first, then the outermost.
        for (([service, upstream, environment], source), (counts, last_at)) in pairs {
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
        let mut cells = cells_by_series(&mut reader, &view).await?;
        cells.retain(|cell| cell.class.vantage == Vantage::Client);
        let series = reader.series(cells.iter().map(|cell| cell.series_id)).await?;
        let mut services: BTreeMap<String, (Counts, i64)> = BTreeMap::new();
        for (series_id, (counts, last_at)) in sums_by(&cells, |cell| cell.series_id) {
            let service = named(&series, series_id)?.service.clone();
            let sum = services.entry(service).or_insert((Counts::default(), last_at));
            sum.0.add(&counts);
            sum.1 = sum.1.max(last_at);
        }
        let mut list: Vec<ServiceCounts> = services
            .into_iter()
            .map(|(service, (counts, last_at))| ServiceCounts {
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
        let rows = totals(reader, view, &view.scope).await?;
        let mut totals = Counts::default();
        for cell in cells(reader, &rows, false).await? {
            if cell.class.vantage == source {
                totals.add(&cell.counts());
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
        let since = reader.kept().await?.events.by(view.time);
        // What is older than the events is known by the hour alone.
        let width = if from < since { HOUR } else { 1 } * MINUTE_MS;
        let width_ms = width_ms.max(1).saturating_add(width - 1) / width * width;
        let mut buckets: BTreeMap<i64, Counts> = BTreeMap::new();
        let mut start = from.floor_to(width_ms).0;
        while start < to.0 {
            buckets.insert(start, Counts::default());
            start = start.saturating_add(width_ms);
        }
        if from < since {
            let old = Window { from, to: to.min(since) };
            self.old_buckets(reader, &View { window: old, ..view.clone() }, source, width_ms)
                .await?
                .into_iter()
                .for_each(|(start, counts)| buckets.entry(start).or_default().add(&counts));
        }
        let window = Window { from: from.max(since), to: to.max(since) };
        let cut = match source {
            Vantage::Client => Cut::new(window, MINUTE_MS),
            Vantage::Gateway | Vantage::Origin => Cut::all_edge(window),
        };
        let inner = Window { from: UnixMillis(cut.inner.0), to: UnixMillis(cut.inner.1) };
        let (first, last) = stretches(inner, HOUR);
        let mut args: Vec<Arg> =
            [inner.from.0 / MINUTE_MS, inner.to.0 / MINUTE_MS, width_ms / MINUTE_MS, first, last]
                .map(Arg::Int)
                .to_vec();
        let text = sql::clock(sql::BUCKETS, view.time);
        let text = sql::scope(&text, &view.scope, Unscoped::Summed, &mut args);
        for row in reader.all(text, &args).await? {
            buckets.entry(row.int(0)? * MINUTE_MS).or_default().add(&counts(&row, 1)?);
        }
        for (from, to) in cut.edges.into_iter().filter(|(from, to)| from < to) {
            let mut args = vec![Arg::Int(from), Arg::Int(to), Arg::Int(width_ms)];
            let text = sql::clock(sql::EVENT_BUCKETS, view.time);
            let text = sql::scope(&text, &view.scope, Unscoped::Each, &mut args);
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

    /// Counts by bucket of a view of whole hours, from the sums of hours.
    async fn old_buckets(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
        width_ms: i64,
    ) -> Result<Vec<(i64, Counts)>, StoreError> {
        let (first, last) = stretches(view.window, HOUR);
        let mut args = vec![Arg::Int(first), Arg::Int(last), Arg::Int(width_ms / MINUTE_MS)];
        let text = sql::sums_of(sql::OLD_BUCKETS, sql::CLASS_HOURS, sql::CLASS_SUMS);
        let text = sql::clock(&text, view.time);
        let text = sql::scope(&text, &view.scope, Unscoped::Summed, &mut args);
        let rows = reader.all(text, &args).await?;
        let classes = classes(reader, &rows).await?;
        let mut buckets = Vec::new();
        for row in rows {
            let class = class_of(&classes, row.int(0)?)?;
            if class.vantage == source {
                let counts = Counts::of_ending(class.ending(), rank(&row, 1)?, row.int(2)?);
                buckets.push((row.int(3)? * MINUTE_MS, counts));
            }
        }
        Ok(buckets)
    }

    /// Totals of a view from one source, and its sums by what series and classes tell.
    pub(super) async fn by_series(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<BySeries, StoreError> {
        let mut totals = Counts::default();
        let mut outermost: HashMap<i64, Vantage> = HashMap::new();
        let mut by_series: HashMap<i64, [i64; 3]> = HashMap::new();
        let mut by_class: HashMap<i64, (Class, [i64; 3])> = HashMap::new();
        for cell in cells_by_series(reader, view).await? {
            let seen = cell.class.vantage;
            outermost
                .entry(cell.series_id)
                .and_modify(|least| *least = seen.min(*least))
                .or_insert(seen);
            if seen == source {
                let counts = cell.counts();
                totals.add(&counts);
                add_to(by_series.entry(cell.series_id).or_default(), &counts);
                add_to(
                    &mut by_class.entry(cell.class_id).or_insert((cell.class, [0; 3])).1,
                    &counts,
                );
            }
        }
        let series = reader.series(outermost.keys().copied()).await?;
        let mut sums: HashMap<(Dimension, String), [i64; 3]> = HashMap::new();
        let mut add = |(dimension, value), sum: [i64; 3]| {
            add_up(sums.entry((dimension, value)).or_default(), sum);
        };
        for (series_id, sum) in by_series {
            let SeriesKey { service, environment, route, .. } = named(&series, series_id)?;
            add((Dimension::Service, service.clone()), sum);
            add((Dimension::Environment, environment.clone()), sum);
            add((Dimension::Route, route.clone()), sum);
        }
        for (class, sum) in by_class.into_values() {
            for value in values_of(class) {
                add(value, sum);
            }
        }
        let mut pairs: HashMap<(&str, &str), Vantage> = HashMap::new();
        for (series_id, seen) in outermost {
            let SeriesKey { service, upstream, .. } = named(&series, series_id)?;
            pairs
                .entry((service, upstream))
                .and_modify(|least| *least = seen.min(*least))
                .or_insert(seen);
        }
        let uncounted_pairs = pairs.values().filter(|least| **least > source).count();
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
        let rows =
            actors(reader, sql::TOP_ACTORS, sql::ALL_KINDS, view, &view.scope, source).await?;
        for row in rows {
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
        let mut args = Tiers::new(view.window).args();
        let text = sql::sums_of(sql::WAITS, sql::WAIT_HOURS, sql::WAIT_SUMS);
        let text = sql::clock(&text, view.time);
        let text = sql::scope(&text, &view.scope, Unscoped::Summed, &mut args);
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
        let text = sql::KEY_SERVICES.replace("{actor_cells}", sql::ACTOR_CELLS);
        // The sums of other actors are left out before they are put together.
        let text = text
            .replace("{sums}", "{sums} AND c.word_id IN ({words})")
            .replace("{words}", &words.join(", "));
        let rows = actors(reader, &text, sql::ONLY_KEYS, view, &scope, source).await?;
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

    /// Whether an event of `vantage` is stored for the slots that the view touches. Gateways and
    /// origins report under their own names, so that the upstream decides where one is given.
    pub(super) async fn has_vantage(
        &self,
        reader: &mut Reader,
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
        let text = sql::scope(&text, &scope, Unscoped::Summed, &mut args);
        Ok(reader.first(text, &args).await?.is_some())
    }
}

impl Reader {
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
        let (from, to) = stretches(window, HOUR);
        let mut ids = Vec::new();
        for row in self.all(sql::SERIES_BETWEEN, &[Arg::Int(from), Arg::Int(to)]).await? {
            ids.push(row.int(0)?);
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

async fn cells_by_series(reader: &mut Reader, view: &View) -> Result<Vec<Cell>, StoreError> {
    let mut args = Tiers::new(view.window).args();
    let text = sql::TOTALS_BY_SERIES.replace("{cells}", sql::CELLS);
    let text = sql::sums_of(&text, sql::CLASS_HOURS, sql::CLASS_SUMS);
    let text = sql::clock(&text, view.time);
    let text = sql::scope(&text, &view.scope, Unscoped::Each, &mut args);
    let rows = reader.all(text, &args).await?;
    cells(reader, &rows, true).await
}

async fn cells(
    reader: &mut Reader,
    rows: &[Row],
    has_series: bool,
) -> Result<Vec<Cell>, StoreError> {
    let classes = classes(reader, rows).await?;
    rows.iter()
        .map(|row| {
            let class_id = row.int(0)?;
            Ok(Cell {
                class_id,
                class: class_of(&classes, class_id)?,
                rank: rank(row, 1)?,
                n: row.int(2)?,
                last_at: row.int(3)?,
                series_id: if has_series { row.int(4)? } else { 0 },
            })
        })
        .collect()
}

/// The classes that the first columns of rows name.
async fn classes(
    reader: &mut Reader,
    rows: &[Row],
) -> Result<Arc<HashMap<i64, Class>>, StoreError> {
    let ids: Vec<i64> = rows.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
    reader.classes(ids).await
}

/// What cells add up to, with the newest moment, by a part of them.
fn sums_by<K: Eq + Hash>(cells: &[Cell], key: impl Fn(&Cell) -> K) -> HashMap<K, (Counts, i64)> {
    let mut sums: HashMap<K, (Counts, i64)> = HashMap::new();
    for cell in cells {
        let (counts, last_at) = sums.entry(key(cell)).or_insert((Counts::default(), cell.last_at));
        counts.add(&cell.counts());
        *last_at = cell.last_at.max(*last_at);
    }
    sums
}

/// The names of a series that was asked for.
fn named(series: &HashMap<i64, Arc<SeriesKey>>, id: i64) -> Result<&SeriesKey, StoreError> {
    series.get(&id).map(AsRef::as_ref).ok_or_else(|| StoreError::Corrupt {
        table: "class_counts",
        column: "series_id",
        reason: format!("{id} is not in series"),
    })
}

/// Counts of a scope by class and rank.
async fn totals(reader: &mut Reader, view: &View, scope: &Scope) -> Result<Vec<Row>, StoreError> {
    let mut args = Tiers::new(view.window).args();
    let text = sql::TOTALS.replace("{cells}", sql::CELLS);
    let text = sql::sums_of(&text, sql::CLASS_HOURS, sql::CLASS_SUMS);
    let text = sql::clock(&text, view.time);
    let text = sql::scope(&text, scope, Unscoped::Summed, &mut args);
    reader.all(text, &args).await
}

/// Whether sums by actor are kept of what a question asks for.
fn has_actor_sums(scope: &Scope, source: Vantage) -> bool {
    source == Vantage::Client && scope.route.is_none()
}

/// A question about some `kinds` of actors.
async fn actors(
    reader: &mut Reader,
    question: &str,
    kinds: &str,
    view: &View,
    scope: &Scope,
    source: Vantage,
) -> Result<Vec<Row>, StoreError> {
    let mut args = Tiers::of_actors(view, scope, source).args();
    args.push(Arg::Int(i64::try_from(TOP_VALUES).unwrap_or(i64::MAX)));
    let text = question.replace("{actor_cells}", sql::ACTOR_CELLS).replace("{kinds}", kinds);
    let text = sql::sums_of(&text, sql::ACTOR_HOURS, sql::ACTOR_SUMS);
    let text = sql::clock(&sql::seen_by(&text, source), view.time);
    let text = sql::scope(&text, scope, Unscoped::Each, &mut args);
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

/// Reads the measures of `sql::MINUTES` from column `at` on.
fn counts(row: &Row, at: usize) -> Result<Counts, StoreError> {
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

fn add_to(sum: &mut [i64; 3], counts: &Counts) {
    sum[0] += counts.attempts;
    sum[1] += counts.limited;
    sum[2] += counts.retries;
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
    fn a_window_is_cut_at_whole_stretches() {
        let cut = |from, to| Cut::new(Window { from: UnixMillis(from), to: UnixMillis(to) }, 100);
        for ((from, to), inner, edges) in [
            ((100, 300), (100, 300), [(100, 100), (300, 300)]),
            ((150, 320), (200, 300), [(150, 200), (300, 320)]),
            ((150, 220), (200, 200), [(150, 200), (200, 220)]),
            ((150, 180), (0, 0), [(150, 180), (0, 0)]),
            ((-150, -20), (-100, -100), [(-150, -100), (-100, -20)]),
            ((300, 100), (300, 300), [(300, 300), (300, 300)]),
        ] {
            assert_eq!(cut(from, to), Cut { inner, edges }, "{from}..{to}");
        }
    }

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
