//! What both databases do with a batch before and after its rows: which events are new, and the
//! sums that they add to.

use super::counts::vantage_number;
use super::rows::{Class, Draft, SeriesKey};
use super::sums::{self, HOUR, SLOT, Sums};
use crate::domain::event::Vantage;
use crate::domain::stored::{Counts, Gathered, Inserted, SenderCounts};
use crate::domain::time::{DAY_MS, MINUTE_MS, UnixMillis};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The actors that sums are kept of: number of the kind, and column of an event.
pub(super) const ACTORS: [(i64, &str); 4] =
    [(0, "key_id"), (1, "address_id"), (2, "account_id"), (3, "instance_id")];

/// The series that stands for all in sums.
const ALL: i64 = 0;

/// Looked into several times for each event: a quicker hash than the standard one, seeded like it.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Numbers of what an event names, as the database knows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) series: SeriesId,
    pub(super) class: i64,
    pub(super) actors: [Option<i64>; 4],
}

/// Numbers of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesId {
    /// Its own.
    pub(super) id: i64,
    /// That of the series without the route, by which actors are summed.
    pub(super) pair: i64,
}

/// Known numbers of series, classes and words; a copy of what the database holds, never ahead of
/// what is committed.
///
/// A series or word is known for the days until the one on which it is noted as used, and missing
/// after that: the database is then asked again, which notes the new day. So a copy never gives the
/// number of a name that was removed because nothing used it any more, whoever removed it.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    series: Map<SeriesKey, (SeriesId, i64)>,
    classes: Map<Class, i64>,
    /// By kind of actor.
    words: [Map<Arc<str>, Name>; ACTORS.len()],
}

/// The number of a name, and the last day (since 1970) on which it is noted as used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Name {
    pub(super) id: i64,
    pub(super) used_on: i64,
}

/// The last day on which a draft's names are used, by either clock: nothing of it is kept beyond the
/// time that is kept of that day.
fn used_on(draft: &Draft, received_at: UnixMillis) -> i64 {
    draft.occurred_at.max(received_at.0).div_euclid(DAY_MS)
}

/// How many series, and how many words of a kind, are remembered; beyond it the copy starts over.
const MAX_REMEMBERED: usize = 200_000;

impl Dictionary {
    /// The numbers for a draft where this copy knows all of them.
    pub(super) fn known(&self, draft: &Draft, received_at: UnixMillis) -> Option<Ids> {
        let day = used_on(draft, received_at);
        let (series, _) = *self.series.get(&draft.series).filter(|(_, noted)| *noted >= day)?;
        let mut actors = [None; ACTORS.len()];
        for ((id, known), word) in actors.iter_mut().zip(&self.words).zip(&draft.actors) {
            if let Some(word) = word {
                *id = Some(known.get(word).filter(|name| name.used_on >= day)?.id);
            }
        }
        Some(Ids { series, class: *self.classes.get(&draft.class)?, actors })
    }

    /// What `drafts` name and this copy doesn't know, each once and in order: two replicas that
    /// add the same ones then wait for each other instead of blocking each other.
    pub(super) fn missing<'a>(
        &self,
        drafts: impl Iterator<Item = &'a Draft>,
        received_at: UnixMillis,
    ) -> Missing {
        let mut missing = Missing::default();
        for draft in drafts {
            let day = used_on(draft, received_at);
            if self.series.get(&draft.series).is_none_or(|(_, noted)| *noted < day) {
                for key in [draft.series.pair(), draft.series.clone()] {
                    let name = missing.series.entry(key).or_default();
                    name.used_on = name.used_on.max(day);
                }
            }
            if !self.classes.contains_key(&draft.class) {
                missing.classes.insert(draft.class, 0);
            }
            for (kind, (known, word)) in self.words.iter().zip(&draft.actors).enumerate() {
                let Some(word) = word else { continue };
                if known.get(word).is_none_or(|name| name.used_on < day) {
                    let name = missing.words.entry((kind, Arc::clone(word))).or_default();
                    name.used_on = name.used_on.max(day);
                }
            }
        }
        missing
    }

    /// Takes over what was found or added.
    pub(super) fn learn(&mut self, found: Missing) {
        if self.series.len() + found.series.len() > MAX_REMEMBERED {
            self.series.clear();
        }
        for (key, name) in &found.series {
            if let Some(id) = found.series_id(key) {
                self.series.insert(key.clone(), (id, name.used_on));
            }
        }
        self.classes.extend(found.classes);
        for ((kind, word), name) in found.words {
            if let Some(known) = self.words.get_mut(kind) {
                if known.len() >= MAX_REMEMBERED {
                    known.clear();
                }
                known.insert(word, name);
            }
        }
    }

    /// The numbers for a draft, from `found` or else from this copy.
    pub(super) fn ids(&self, draft: &Draft, found: &Missing) -> Option<Ids> {
        let mut actors = [None; ACTORS.len()];
        for (kind, word) in draft.actors.iter().enumerate() {
            if let Some(word) = word {
                let mut name = None;
                if !found.words.is_empty() {
                    name = found.words.get(&(kind, Arc::clone(word)));
                }
                let name = name.or_else(|| self.words.get(kind)?.get(word))?;
                *actors.get_mut(kind)? = Some(name.id);
            }
        }
        let series = found.series_id(&draft.series);
        Some(Ids {
            series: series.or_else(|| Some(self.series.get(&draft.series)?.0))?,
            class: *self.classes.get(&draft.class).or_else(|| found.classes.get(&draft.class))?,
            actors,
        })
    }
}

/// What a batch names that is not in the copy; the numbers are filled in by the database.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// With the pair of each.
    pub(super) series: BTreeMap<SeriesKey, Name>,
    pub(super) classes: BTreeMap<Class, i64>,
    /// By kind of actor and word.
    pub(super) words: BTreeMap<(usize, Arc<str>), Name>,
}

impl Missing {
    /// Whether nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty() && self.classes.is_empty() && self.words.is_empty()
    }

    /// The numbers of a series that was missing.
    fn series_id(&self, key: &SeriesKey) -> Option<SeriesId> {
        if self.series.is_empty() {
            return None;
        }
        Some(SeriesId { id: self.series.get(key)?.id, pair: self.series.get(&key.pair())?.id })
    }
}

/// Tells new events from repeats. `stored` holds the identities in the database whose id occurs in
/// the batch. Of equal identities in the batch the first is the new one. What is older than the
/// events that are kept (`since`) can't be told from a repeat and is not taken.
pub(super) fn sift<'d, S: AsRef<str>>(
    drafts: &'d [Draft],
    stored: &'d [(S, i64)],
    since: UnixMillis,
) -> Vec<Inserted> {
    // Times of an id: the first of them, and the rest, which there seldom is.
    let mut known: Map<&str, (i64, Vec<i64>)> = Map::default();
    known.reserve(drafts.len());
    for (id, at) in stored {
        note(&mut known, id.as_ref(), *at);
    }
    let tell = |draft: &'d Draft| {
        let Draft { event_id, occurred_at, .. } = draft;
        if *occurred_at < since.0 {
            return Inserted::Expired;
        }
        let result = match known.get(event_id.as_str()) {
            None => Inserted::Stored,
            Some((first, rest)) if first == occurred_at || rest.contains(occurred_at) => {
                return Inserted::Duplicate;
            }
            Some(_) => Inserted::IdConflict,
        };
        note(&mut known, event_id, *occurred_at);
        result
    };
    drafts.iter().map(tell).collect()
}

fn note<'a>(known: &mut Map<&'a str, (i64, Vec<i64>)>, id: &'a str, at: i64) {
    match known.entry(id) {
        Entry::Vacant(place) => {
            place.insert((at, Vec::new()));
        }
        Entry::Occupied(mut place) => place.get_mut().1.push(at),
    }
}

/// What a batch adds to the sums, each row once and in the order of its key.
#[derive(Debug, Default)]
pub(super) struct Added {
    spans: Vec<[i64; 3]>,
    minutes: Vec<[i64; 20]>,
    classes: Vec<[i64; 6]>,
    actors: Vec<[i64; 7]>,
    waits: Vec<[i64; 5]>,
    /// What was received in a stretch that is gathered already is added to the gathered sums as
    /// well: nobody looks at that stretch again.
    late: Option<Late>,
    pub(super) senders: BTreeMap<String, SenderCounts>,
}

/// The rows for gathered sums.
#[derive(Debug)]
struct Late {
    slots: Vec<[i64; 18]>,
    hours: Vec<[i64; 18]>,
    class_hours: Vec<[i64; 6]>,
    all_actors: Vec<[i64; 7]>,
    actor_hours: Vec<[i64; 7]>,
    wait_hours: Vec<[i64; 5]>,
}

impl Added {
    /// Whether gathered sums are added to as well.
    pub(super) const fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// The tables of sums in the order in which they are written, each with its rows end to end.
    pub(super) fn tables(&self) -> Vec<(Sums, &[i64])> {
        let mut tables = vec![
            (sums::SPANS, self.spans.as_flattened()),
            (sums::MINUTES, self.minutes.as_flattened()),
            (sums::CLASS_SUMS, self.classes.as_flattened()),
            (sums::ACTOR_SUMS, self.actors.as_flattened()),
            (sums::WAIT_SUMS, self.waits.as_flattened()),
        ];
        if let Some(late) = &self.late {
            tables.extend([
                (sums::SLOT_COUNTS, late.slots.as_flattened()),
                (sums::HOUR_COUNTS, late.hours.as_flattened()),
                (sums::CLASS_HOURS, late.class_hours.as_flattened()),
                (sums::ACTOR_SUMS, late.all_actors.as_flattened()),
                (sums::ACTOR_HOURS, late.actor_hours.as_flattened()),
                (sums::WAIT_HOURS, late.wait_hours.as_flattened()),
            ]);
        }
        tables
    }
}

/// Adds up the new events of a batch that was received at `received_at`, with sums `gathered` so
/// far.
pub(super) fn add_up<'a>(
    new: impl Iterator<Item = (&'a Draft, Ids, Inserted)>,
    received_at: UnixMillis,
    gathered: Gathered,
) -> Added {
    let [received_minute, received_slot] = stretches(received_at);
    let mut minutes = Tally::<6, _>::new(sums::MINUTES);
    let mut classes = Tally::<4, _>::new(sums::CLASS_SUMS);
    let mut actors = Tally::<4, _>::new(sums::ACTOR_SUMS);
    let mut waits = Tally::<4, _>::new(sums::WAIT_SUMS);
    let mut senders: Map<&str, SenderCounts> = Map::default();
    for (draft, ids, inserted) in new {
        let at = UnixMillis(draft.occurred_at);
        let [minute, slot] = stretches(at);
        let n = i64::from(draft.count);
        let class = &draft.class;
        let counts = Counts::of_ending(class.ending(), draft.attempt, n);
        let of_minute = at.0 - minute * MINUTE_MS;
        let vantage = vantage_number(class.vantage);
        for series in [ALL, ids.series.id] {
            minutes.add(minute_row(
                [slot, received_slot, series, vantage, minute, received_minute],
                &counts,
                of_minute,
            ));
            classes.add([slot, received_slot, series, ids.class, n, counts.retries]);
        }
        if class.vantage == Vantage::Client {
            if let Some(bucket) = draft.wait_bucket {
                for series in [ALL, ids.series.id] {
                    waits.add([slot, received_slot, series, bucket, n]);
                }
            }
            for word in ids.actors.into_iter().flatten() {
                let Counts { attempts, limited, retries, .. } = counts;
                let pair = ids.series.pair;
                actors.add([slot, received_slot, pair, word, attempts, limited, retries]);
            }
        }
        let sender = senders.entry(draft.series.service.as_str()).or_default();
        sender.events += 1;
        sender.redactions += i64::from(draft.redactions);
        sender.id_conflicts += i64::from(inserted == Inserted::IdConflict);
        sender.as_other += i64::from(draft.has_own_names);
    }
    let mut added = Added {
        minutes: minutes.rows(),
        classes: classes.rows(),
        actors: actors.rows(),
        waits: waits.rows(),
        ..Added::default()
    };
    // Every event is in a sum per minute, so that these tell the stretches.
    let spans: BTreeSet<[i64; 3]> = added
        .minutes
        .iter()
        .flat_map(|row| [[SLOT, row[0], row[1]], [HOUR, floor(row[0], HOUR), floor(row[1], HOUR)]])
        .collect();
    added.spans = spans.into_iter().collect();
    let (received, start) = (sums::minute(gathered.received), sums::minute(gathered.start));
    if received_slot < received || (received_slot == received && spans_before(&added, start)) {
        let start = if received_slot < received { i64::MAX } else { start };
        added.late = Some(late(&added, start));
    }
    added.senders = senders.into_iter().map(|(name, counts)| (name.to_owned(), counts)).collect();
    added
}

/// Whether anything happened in a stretch that begins before a minute.
fn spans_before(added: &Added, start: i64) -> bool {
    added.minutes.first().is_some_and(|row| row[0] < start)
}

/// The same as `gather` would make of the rows whose stretch begins before a minute.
fn late(added: &Added, before: i64) -> Late {
    let slots = |row: &[i64; 20]| {
        let mut slot = [0; 18];
        slot[..4].copy_from_slice(&row[..4]);
        slot[4..].copy_from_slice(&row[6..]);
        slot[17] += (row[4] - row[0]) * MINUTE_MS;
        slot
    };
    let actors = || added.actors.iter().filter(|row| row[0] < before);
    let mut late = Late {
        slots: added.minutes.iter().filter(|row| row[0] < before).map(slots).collect(),
        hours: Vec::new(),
        class_hours: hours(added.classes.iter().filter(|row| row[0] < before)),
        all_actors: actors().map(|row| with_series(*row, ALL)).collect(),
        actor_hours: hours(actors()),
        wait_hours: hours(added.waits.iter().filter(|row| row[0] < before)),
    };
    merge::<4, _>(&mut late.slots, sums::SLOT_COUNTS);
    late.hours = hours(late.slots.iter());
    for (hour, slot) in late.hours.iter_mut().zip(&late.slots) {
        hour[17] += (slot[0] - hour[0]) * MINUTE_MS;
    }
    merge::<4, _>(&mut late.all_actors, sums::ACTOR_SUMS);
    late.actor_hours.extend(hours(late.all_actors.iter()));
    merge::<4, _>(&mut late.hours, sums::HOUR_COUNTS);
    merge::<4, _>(&mut late.class_hours, sums::CLASS_HOURS);
    merge::<4, _>(&mut late.actor_hours, sums::ACTOR_HOURS);
    merge::<4, _>(&mut late.wait_hours, sums::WAIT_HOURS);
    late
}

fn with_series(mut row: [i64; 7], series: i64) -> [i64; 7] {
    row[2] = series;
    row
}

/// The minute and the slot of a moment, in minutes since 1970.
fn stretches(at: UnixMillis) -> [i64; 2] {
    let minute = sums::minute(at);
    [minute, floor(minute, SLOT)]
}

/// The first minute of the stretch of `width` minutes that holds a minute.
fn floor(minute: i64, width: i64) -> i64 {
    minute - minute.rem_euclid(width)
}

/// Rows of five minutes as rows of their hours.
fn hours<'a, const N: usize>(rows: impl Iterator<Item = &'a [i64; N]>) -> Vec<[i64; N]> {
    let mut rows: Vec<[i64; N]> = rows.copied().collect();
    for row in &mut rows {
        for minute in row.iter_mut().take(2) {
            *minute = floor(*minute, HOUR);
        }
    }
    rows
}

/// Puts rows in the order of their keys and makes one of those with the same.
fn merge<const K: usize, const N: usize>(rows: &mut Vec<[i64; N]>, sums: Sums) {
    let mut tally: Tally<K, N> = Tally::new(sums);
    rows.drain(..).for_each(|row| tally.add(row));
    *rows = tally.rows();
}

/// Rows of a table of sums, one for each key, which are the first `K` numbers: measures are added,
/// the newest moment stays.
struct Tally<const K: usize, const N: usize> {
    rows: Vec<[i64; N]>,
    places: Map<[i64; K], usize>,
    /// Whether the last number is a moment.
    keeps_newest: bool,
}

impl<const K: usize, const N: usize> Tally<K, N> {
    fn new(sums: Sums) -> Self {
        debug_assert_eq!((sums.keys, sums.columns.len()), (K, N), "{}", sums.table);
        let keeps_newest = sums.columns.last() == Some(&"last_ms");
        Self { rows: Vec::new(), places: Map::default(), keeps_newest }
    }

    fn add(&mut self, row: [i64; N]) {
        let Some(key) = row.first_chunk::<K>() else { return };
        let place = match self.places.entry(*key) {
            Entry::Vacant(place) => {
                place.insert(self.rows.len());
                self.rows.push(row);
                return;
            }
            Entry::Occupied(place) => *place.get(),
        };
        let Some(kept) = self.rows.get_mut(place) else { return };
        let newest = row[N - 1].max(kept[N - 1]);
        for (kept, more) in kept.iter_mut().zip(&row).skip(K) {
            *kept += more;
        }
        if self.keeps_newest {
            kept[N - 1] = newest;
        }
    }

    /// The rows in the order of their keys.
    fn rows(self) -> Vec<[i64; N]> {
        let mut rows = self.rows;
        rows.sort_unstable_by(|a, b| a.first_chunk::<K>().cmp(&b.first_chunk::<K>()));
        rows
    }
}

/// A row of `minute_counts`.
fn minute_row(
    [slot, received_slot, series, vantage, minute, received_minute]: [i64; 6],
    counts: &Counts,
    last_ms: i64,
) -> [i64; 20] {
    let Counts {
        attempts,
        answered,
        requests,
        retries,
        status_429,
        limited,
        limited_retries,
        succeeded,
        server_errors,
        errors,
        retried_operations,
        retry_successes,
        gave_up,
    } = *counts;
    [
        slot,
        received_slot,
        series,
        vantage,
        minute,
        received_minute,
        attempts,
        answered,
        requests,
        retries,
        status_429,
        limited,
        limited_retries,
        succeeded,
        server_errors,
        errors,
        retried_operations,
        retry_successes,
        gave_up,
        last_ms,
    ]
}
