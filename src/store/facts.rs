//! Everything that the eight steps look at, from one snapshot.

use super::counts::{BySeries, TopActors};
use super::joins::joined;
use super::lists::{Only, identity, order};
use super::reader::{Arg, Reader, marks};
use super::{Store, StoreError, sql};
use crate::domain::checklist::{Comparison, Facts, KeyService};
use crate::domain::event::Vantage;
use crate::domain::joins::prove;
use crate::domain::stats::waits::WaitCounts;
use crate::domain::stored::{Bucket, Counts, History, Mark, Scope, StoredEvent, TimeBasis, View};
use crate::domain::time::{HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use std::collections::{BTreeMap, HashSet};

/// Most attempts that facts carry. A share among 1,000 refusals is known to three points in a
/// hundred, and more would hardly change what a step says; reading and judging each takes some 45 µs
/// of CPU.
pub const MAX_ATTEMPTS: usize = 1_500;
/// Most of them that ended well at the first attempt, where there are more attempts than are read: these
/// are much alike.
const MAX_PLAIN: usize = 500;
/// Most stretches that a window is divided into.
pub const MAX_BUCKETS: i64 = 240;
/// Ids looked for in one statement.
const IDS_AT_ONCE: usize = 500;
/// Operations are looked for together that began within this time.
const TOGETHER_MS: i64 = 3 * HOUR_MS;
/// Longest stretch on each side of a marked change.
const MAX_SIDE_MS: i64 = HOUR_MS;

/// Widths of stretches that people can read, in minutes.
const WIDTHS: &[i64] = &[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 10_080];

/// Width of the stretches that a window is divided into: the smallest common one (whole weeks for
/// very long windows) that gives at most [`MAX_BUCKETS`].
pub fn bucket_width_ms(window: Window) -> i64 {
    let length = window.length().0.max(1);
    // One more stretch than the length asks for, where the window begins inside of one.
    let fits = |width: i64| length / width + 2 <= MAX_BUCKETS;
    WIDTHS.iter().map(|minutes| minutes * MINUTE_MS).find(|width| fits(*width)).unwrap_or_else(
        || {
            let week = 10_080 * MINUTE_MS;
            (length / (MAX_BUCKETS - 2) / week + 1).saturating_mul(week)
        },
    )
}

/// Counts, and the attempts themselves; see the fields of [`Facts`].
struct Seen {
    counts: BySeries,
    attempts: Vec<StoredEvent>,
    attempts_complete: bool,
    observations: Vec<StoredEvent>,
    has_gateway_source: bool,
    has_origin_source: bool,
}

/// Counts over time; see the fields of [`Facts`].
struct OverTime {
    before: Counts,
    buckets: Vec<Bucket>,
    promised: Option<WaitCounts>,
}

impl Store {
    /// Everything that the eight steps look at.
    #[tracing::instrument(name = "db.facts.get", level = "debug", skip_all)]
    pub async fn facts(&self, view: &View, now: UnixMillis) -> Result<Facts, StoreError> {
        self.facts_within(view, now, MAX_ATTEMPTS).await
    }

    /// As [`Self::facts`], with at most `cap` attempts.
    pub(super) async fn facts_within(
        &self,
        view: &View,
        now: UnixMillis,
        cap: usize,
    ) -> Result<Facts, StoreError> {
        let mut reader = self.reader().await?;
        let reader = &mut reader;
        let kept = reader.kept().await?;
        let view = &kept.countable(view);
        let since = kept.events.by(view.time);
        let source = self.source_in(reader, view).await?;
        // Two parts are asked side by side. Of all pairs, what is asked of actors takes as long as the
        // rest; of few, the attempts themselves do.
        let mut twin = reader.twin(self).await?;
        let (seen, over_time, (actors, key_services)) = match &mut twin {
            Some(twin) if view.scope == Scope::default() => {
                let rest = async {
                    let seen = self.seen(reader, &kept, view, source, cap).await?;
                    Ok::<_, StoreError>((seen, self.over_time(reader, view, source).await?))
                };
                let ((seen, over_time), actors) =
                    tokio::try_join!(rest, self.actors(twin, view, source))?;
                (seen, over_time, actors)
            }
            Some(twin) => {
                let rest = async {
                    let over_time = self.over_time(twin, view, source).await?;
                    Ok::<_, StoreError>((over_time, self.actors(twin, view, source).await?))
                };
                let (seen, (over_time, actors)) =
                    tokio::try_join!(self.seen(reader, &kept, view, source, cap), rest)?;
                (seen, over_time, actors)
            }
            None => (
                self.seen(reader, &kept, view, source, cap).await?,
                self.over_time(reader, view, source).await?,
                self.actors(reader, view, source).await?,
            ),
        };
        let marks = reader.marks(&view.scope).await?;
        let mark = marks.iter().rev().find(|mark| mark.at < view.window.to && mark.at < now);
        let comparison = match mark {
            // What is older is known by the hour alone, which is too coarse for a comparison.
            Some(mark) if mark.at.0.saturating_sub(MAX_SIDE_MS) >= since.0 => {
                self.comparison(reader, view, source, mark, now).await?
            }
            _ => None,
        };
        Ok(Facts {
            view: view.clone(),
            now,
            source,
            uncounted_pairs: seen.counts.uncounted_pairs,
            totals: seen.counts.totals,
            before: over_time.before,
            buckets: over_time.buckets,
            dimensions: seen.counts.dimensions(actors),
            attempts: seen.attempts,
            attempts_complete: seen.attempts_complete,
            promised: over_time.promised,
            observations: seen.observations,
            has_gateway_source: seen.has_gateway_source,
            has_origin_source: seen.has_origin_source,
            key_services,
            marks,
            comparison,
        })
    }

    /// The actors of a view, and who else uses the keys that are limited most.
    async fn actors(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<(Option<TopActors>, Vec<KeyService>), StoreError> {
        let actors = self.top_actors(reader, view, source).await?;
        let keys = actors.as_ref().map_or(&[][..], |actors| &actors.keys);
        let key_services = self.key_services(reader, view, source, keys).await?;
        Ok((actors, key_services))
    }

    /// Counts over time: of the window before, of each stretch, and of the waits that were promised.
    async fn over_time(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
    ) -> Result<OverTime, StoreError> {
        let from = UnixMillis(view.window.from.0.saturating_sub(view.window.length().0));
        let before = View { window: Window { from, to: view.window.from }, ..view.clone() };
        let before = reader.countable(&before).await?;
        Ok(OverTime {
            before: self.totals_in(reader, &before, source).await?,
            buckets: self.buckets_in(reader, view, source, bucket_width_ms(view.window)).await?,
            promised: self.promised(reader, view, source).await?,
        })
    }

    /// Counts, and the attempts themselves with what others saw of them.
    async fn seen(
        &self,
        reader: &mut Reader,
        kept: &History,
        view: &View,
        source: Vantage,
        cap: usize,
    ) -> Result<Seen, StoreError> {
        let counts = self.by_series(reader, view, source).await?;
        let (mut attempts, mut attempts_complete) =
            sample(reader, view, source, counts.totals.attempts, cap).await?;
        attempts_complete &= kept.events.by(view.time) <= view.window.from;
        let has_observations = reader.has_observations().await?;
        let (mut observations, mut has_gateway_source, mut has_origin_source) =
            (Vec::new(), false, false);
        if has_observations {
            observations = joined(reader, source, &attempts).await?;
            prove(&mut attempts, &observations);
            // What is counted is no observation of itself; only those further inside are.
            has_gateway_source =
                source < Vantage::Gateway && reader.has_vantage(view, Vantage::Gateway).await?;
            has_origin_source =
                source < Vantage::Origin && reader.has_vantage(view, Vantage::Origin).await?;
        }
        Ok(Seen {
            counts,
            attempts,
            attempts_complete,
            observations,
            has_gateway_source,
            has_origin_source,
        })
    }

    /// Two stretches of equal length around a mark: up to an hour, as far as the view's window
    /// goes and time has passed. Nothing behind the window counts, so that one address gives the
    /// same comparison whenever it is asked.
    async fn comparison(
        &self,
        reader: &mut Reader,
        view: &View,
        source: Vantage,
        mark: &Mark,
        now: UnixMillis,
    ) -> Result<Option<Comparison>, StoreError> {
        let end = now.min(view.window.to);
        let side = end.since(mark.at).0.min(MAX_SIDE_MS);
        if side <= 0 {
            return Ok(None);
        }
        let sides = [
            Window { from: UnixMillis(mark.at.0.saturating_sub(side)), to: mark.at },
            Window { from: mark.at, to: UnixMillis(mark.at.0.saturating_add(side)) },
        ]
        .map(|window| View { window, ..view.clone() });
        let [before, after] = &sides;
        Ok(Some(Comparison {
            mark: mark.clone(),
            before_window: before.window,
            after_window: after.window,
            before: self.totals_in(reader, before, source).await?,
            after: self.totals_in(reader, after, source).await?,
            before_p95_ms: duration_p95(reader, before, source).await?,
            after_p95_ms: duration_p95(reader, after, source).await?,
            before_duplicates: duplicates(reader, before, source).await?,
            after_duplicates: duplicates(reader, after, source).await?,
        }))
    }
}

/// Whether an event is one of a part of a sample.
type IsSuch = fn(&StoredEvent) -> bool;

/// The view's attempts in the order they were sent (`counted` of them, weighted), and whether they are all. Beyond the cap:
/// limited ones (at first half of the cap, so that there is room for the next), the others of their
/// operations sent within an hour of them, the rest of the limited, retries, failures, then others
/// (some [`MAX_PLAIN`]); newest first in each.
async fn sample(
    reader: &mut Reader,
    view: &View,
    source: Vantage,
    counted: i64,
    most: usize,
) -> Result<(Vec<StoredEvent>, bool), StoreError> {
    let cap = i64::try_from(most).unwrap_or(i64::MAX);
    let mut kept = Sampled { most, ..Sampled::default() };
    // A row counts for at least one attempt.
    if counted <= cap || reader.attempt_rows(view, source, cap + 1).await? <= cap {
        kept.add(reader.attempts(view, source, &Only::default(), cap).await?);
        return Ok((kept.in_order(), true));
    }
    let limited = Only::of(sql::LIMITED);
    kept.add(reader.attempts(view, source, &limited, cap / 2).await?);
    // All limited attempts after this moment are kept, or all there are; the search for more goes on
    // from here.
    let reached = match kept.events.last() {
        Some(last) if kept.events.len() >= most / 2 => moment(view, last),
        _ => view.window.from,
    };
    // The others of an operation are not far from it, and where to look is what a look-up costs: so
    // operations of one time are looked for together.
    let mut operations: BTreeMap<&str, UnixMillis> = BTreeMap::new();
    for stored in &kept.events {
        if let Some(id) = &stored.event.operation_id {
            let at = operations.entry(id).or_insert(stored.event.occurred_at);
            *at = stored.event.occurred_at.min(*at);
        }
    }
    let mut operations: Vec<(UnixMillis, String)> =
        operations.into_iter().map(|(id, at)| (at, id.to_owned())).collect();
    operations.sort();
    let mut rest = operations.as_slice();
    while let Some((first, _)) = rest.first()
        && kept.room() > 0
    {
        let together = rest
            .iter()
            .take(IDS_AT_ONCE)
            .take_while(|(at, _)| at.since(*first).0 <= TOGETHER_MS)
            .count();
        let (part, later) = rest.split_at(together.max(1));
        rest = later;
        let to = part.last().map_or(*first, |(at, _)| *at);
        let times = around(Window { from: *first, to }, HOUR_MS);
        let ids: Vec<String> = part.iter().map(|(_, id)| id.clone()).collect();
        let room = i64::try_from(kept.room()).unwrap_or(cap);
        let Window { from, to } = view.window;
        let mut args = vec![Arg::Int(from.0), Arg::Int(to.0), Arg::Int(room)];
        let condition = reader.has_id(&["operation_id"], &ids, Some(times), &mut args);
        let reached = marks(&mut args, [Arg::Int(reached.0)]);
        let text = sql::OF_OPERATIONS
            .replace("{operations}", &condition)
            .replace("{served}", sql::SERVED)
            .replace("{reached}", &reached);
        let text = sql::seen_by(&text, source);
        let text =
            sql::scope(&sql::clock(&text, view.time), &view.scope, sql::EACH_SERIES, &mut args);
        kept.add(reader.events(&text, &args).await?);
    }
    let earlier =
        View { window: Window { to: reached.plus(Millis(1)), ..view.window }, ..view.clone() };
    let is_served_first: IsSuch = |s| !s.verdict.limited && s.event.attempt <= 1;
    let parts: [(&View, Only, IsSuch, usize); 4] = [
        (&earlier, limited, |s| s.verdict.limited, most),
        (
            view,
            Only::of(sql::SERVED).retries(true),
            |s| !s.verdict.limited && s.event.attempt > 1,
            most,
        ),
        (view, Only::of(sql::FAILED).retries(false), is_served_first, most),
        (view, Only::of(sql::SERVED).retries(false), is_served_first, MAX_PLAIN),
    ];
    for (part, only, is_such, more) in parts {
        if kept.room() > 0 {
            // Those that are kept already come again, so that as many more are asked for.
            let is_known = |s: &&StoredEvent| is_such(s) && part.window.contains(moment(view, s));
            let known = kept.events.iter().filter(is_known);
            let more = kept.room().min(more);
            let limit = i64::try_from(more + known.count()).unwrap_or(cap);
            kept.add(reader.attempts(part, source, &only, limit).await?);
        }
    }
    Ok((kept.in_order(), false))
}

/// A window with so much more on both sides.
fn around(window: Window, ms: i64) -> Window {
    let Window { from, to } = window;
    Window { from: UnixMillis(from.0.saturating_sub(ms)), to: UnixMillis(to.0.saturating_add(ms)) }
}

/// When an attempt was, by the clock of the view.
fn moment(view: &View, stored: &StoredEvent) -> UnixMillis {
    match view.time {
        TimeBasis::Event => stored.event.occurred_at,
        TimeBasis::Received => stored.received_at,
    }
}

/// Attempts taken into the sample so far, each once.
#[derive(Default)]
struct Sampled {
    most: usize,
    events: Vec<StoredEvent>,
    seen: HashSet<(String, UnixMillis)>,
}

impl Sampled {
    fn room(&self) -> usize {
        self.most.saturating_sub(self.events.len())
    }

    fn add(&mut self, more: Vec<StoredEvent>) {
        for stored in more {
            if self.room() == 0 {
                return;
            }
            if self.seen.insert(identity(&stored)) {
                self.events.push(stored);
            }
        }
    }

    fn in_order(mut self) -> Vec<StoredEvent> {
        self.events.sort_by(|a, b| order(a).cmp(&order(b)));
        self.events
    }
}

/// 95th percentile of the durations of a view by nearest rank, weighted by `count`.
async fn duration_p95(
    reader: &mut Reader,
    view: &View,
    source: Vantage,
) -> Result<Option<i64>, StoreError> {
    let mut args = vec![Arg::Int(view.window.from.0), Arg::Int(view.window.to.0)];
    let text = sql::seen_by(sql::DURATIONS, source);
    let text = sql::scope(&sql::clock(&text, view.time), &view.scope, sql::EACH_SERIES, &mut args);
    let rows = reader.all(text, &args).await?;
    let mut total = 0_i64;
    for row in &rows {
        total += row.int(1)?;
    }
    // The smallest rank that holds 95 of a hundred: ceil(0.95 n) in whole numbers.
    let rank = total.saturating_mul(95).saturating_add(99) / 100;
    let mut below = 0_i64;
    for row in &rows {
        below += row.int(1)?;
        if below >= rank {
            return Ok(Some(row.int(0)?));
        }
    }
    Ok(None)
}

/// Writes that may have been done twice: 409 after a retry, and one idempotency key with two
/// bodies.
async fn duplicates(reader: &mut Reader, view: &View, source: Vantage) -> Result<i64, StoreError> {
    let mut sum = 0;
    for question in [sql::CONFLICTS_AFTER_RETRY, sql::KEYS_WITH_TWO_BODIES] {
        let mut args = vec![Arg::Int(view.window.from.0), Arg::Int(view.window.to.0)];
        let text = sql::seen_by(question, source);
        let text =
            sql::scope(&sql::clock(&text, view.time), &view.scope, sql::EACH_SERIES, &mut args);
        if let Some(row) = reader.first(text, &args).await? {
            sum += row.int(0)?;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_at_most_240_buckets() {
        for (minutes, width) in [
            (1, 1),
            (60, 1),
            (238, 1),
            (240, 2),
            (24 * 60, 10),
            (7 * 24 * 60, 60),
            (525_600, 10_080),
        ] {
            let window = Window { from: UnixMillis(7), to: UnixMillis(7 + minutes * MINUTE_MS) };
            assert_eq!(bucket_width_ms(window), width * MINUTE_MS, "{minutes} minutes");
        }
        let all =
            Window { from: UnixMillis(-62_135_596_800_000), to: UnixMillis(253_402_300_799_000) };
        assert!(all.length().0 / bucket_width_ms(all) + 2 <= MAX_BUCKETS);
    }
}
