//! The numbers of what was reported, by service, upstream and environment, under a cap.
//!
//! A name beyond the cap is counted under `other`, so that sums stay right. First come, first
//! served: which names are known is decided anew at each start.

use super::exemplar::{Exemplar, TraceIds};
use super::histogram::{self, Histogram};
use super::keys::KeyShares;
use super::mixed::Quick;
use super::recent::{Found, Recent};
use super::sight::{Ended, Finish, Form, Sight, Write};
use super::{Caps, OTHER, Overflow};
use crate::domain::classify::{LimitType, Responder};
use crate::domain::event::{RetryLayer, Vantage};
use crate::domain::time::{MINUTE_MS, UnixMillis};
use std::collections::HashMap;

/// Most values of `environment`, and most of `source` for one pair; further ones are `other`.
const MAX_ENVIRONMENTS: usize = 20;
const MAX_SOURCES: usize = 12;

/// The place of the empty name among the environments.
const NO_ENVIRONMENT: usize = 1;

/// A count with the last event in it that carried a trace.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counter {
    pub(super) n: u64,
    pub(super) exemplar: Option<Exemplar>,
}

impl Counter {
    fn add(&mut self, n: u64, exemplar: Option<Exemplar>) {
        self.n = self.n.saturating_add(n);
        if exemplar.is_some() {
            self.exemplar = exemplar;
        }
    }
}

/// What one service's calls to one upstream in one environment came to, as one vantage saw them.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) service: usize,
    pub(super) upstream: usize,
    pub(super) environment: usize,
    pub(super) vantage: Vantage,
    /// A first attempt that was served has been seen. Before that there is no denominator, and
    /// nothing is shown (DESIGN 14).
    pub(super) is_shown: bool,
    pub(super) requests: u64,
    /// By [`RetryLayer::ALL`], then those of which it isn't known.
    pub(super) retries: [Counter; LAYERS],
    /// By [`Ended::ALL`].
    pub(super) attempts: [Counter; Ended::ALL.len()],
    /// By who answered; `None` stands for `other`.
    pub(super) sources: Vec<(Option<Responder>, Counter)>,
    /// Refused by a limit, whatever the status.
    pub(super) limited: Counter,
    /// By [`LimitType::ALL`].
    pub(super) kinds: [u64; LimitType::ALL.len()],
    /// By [`Finish::ALL`].
    pub(super) finished: [u64; Finish::ALL.len()],
    pub(super) early: Counter,
    pub(super) duplicates: Counter,
    pub(super) duration: Histogram,
    pub(super) keys: KeyShares,
}

/// The layers that may send a retry, and "not known".
pub(super) const LAYERS: usize = RetryLayer::ALL.len() + 1;

/// What is counted by service alone.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) delay: Histogram,
    pub(super) attempts: Histogram,
    /// When its newest event was received.
    pub(super) last: Option<UnixMillis>,
}

/// What is counted by upstream alone.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    /// By [`Form::ALL`].
    pub(super) forms: [u64; Form::ALL.len()],
    pub(super) promised: Histogram,
}

/// Names under a cap. The first is [`OTHER`].
#[derive(Debug, Clone)]
pub(super) struct Names {
    most: usize,
    places: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    pub(super) all: Vec<Box<str>>,
}

impl Names {
    fn new(most: usize) -> Self {
        Self { most, places: HashMap::default(), all: vec![OTHER.into()] }
    }

    /// The place of a name, new ones included while there is room, else that of [`OTHER`].
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        if self.places.len() >= self.most {
            return 0;
        }
        let place = self.all.len();
        self.places.insert(name.into(), place);
        self.all.push(name.into());
        place
    }

    pub(super) fn name(&self, place: usize) -> &str {
        self.all.get(place).map_or(OTHER, |name| name)
    }
}

/// Service, upstream and environment; an empty text for no environment.
pub type PairNames<'a> = [&'a str; 3];

/// Everything that was counted.
#[derive(Debug, Clone)]
pub(super) struct Series {
    most_pairs: usize,
    pub(super) service_names: Names,
    pub(super) upstream_names: Names,
    pub(super) environment_names: Names,
    pub(super) services: Vec<Service>,
    pub(super) upstreams: Vec<Upstream>,
    places: HashMap<(usize, usize, usize), usize, Quick>,
    pub(super) pairs: Vec<Pair>,
    /// By [`Overflow::ALL`].
    pub(super) overflow: [u64; Overflow::ALL.len()],
}

impl Series {
    pub(super) fn new(caps: Caps) -> Self {
        let mut series = Self {
            most_pairs: caps.pairs,
            service_names: Names::new(caps.services),
            upstream_names: Names::new(caps.upstreams),
            environment_names: Names::new(MAX_ENVIRONMENTS),
            services: Vec::new(),
            upstreams: Vec::new(),
            places: HashMap::default(),
            pairs: Vec::new(),
            overflow: [0; Overflow::ALL.len()],
        };
        series.environment_names.place("");
        series.make_room();
        series
    }

    /// Takes over that a pair is known from before this process began, so that it is shown from the
    /// start, at 0.
    pub(super) fn learn(&mut self, names: PairNames<'_>, vantage: Vantage, is_served: bool) {
        let places = self.places_of(names, false);
        if let Some(pair) = self.pair(places, vantage) {
            pair.is_shown |= is_served;
        }
    }

    /// Takes over when the newest event of a service was received before this process began.
    pub(super) fn learn_last(&mut self, service: &str, at: UnixMillis) {
        let place = self.service_names.place(service);
        self.make_room();
        if let Some(service) = self.services.get_mut(place) {
            service.last = service.last.max(Some(at));
        }
    }

    /// Counts an event that is new; what it showed together with others, where it counts in a pair.
    pub(super) fn count(
        &mut self,
        names: PairNames<'_>,
        sight: &Sight,
        received_at: UnixMillis,
        recent: &mut Recent,
    ) -> Option<Found> {
        let places = self.places_of(names, sight.is_coarse);
        let [service, upstream, _] = places;
        if let Some(service) = self.services.get_mut(service) {
            service.last = service.last.max(Some(received_at));
        }
        let pair = self.pair(places, sight.vantage)?;
        let found = recent.see(sight);
        pair.count(sight, &found, received_at);
        let exemplar = exemplar(sight, received_at);
        if let Some(service) = self.services.get_mut(service) {
            if let Some(ms) = sight.chosen_ms {
                service.delay.add(ms, sight.count, exemplar);
            }
            if sight.finish.is_some() {
                service.attempts.add(i64::from(sight.attempt) * 1_000, sight.count, exemplar);
            }
        }
        if let Some(upstream) = self.upstreams.get_mut(upstream) {
            if let Some(form) = sight.form {
                add(&mut upstream.forms, form as usize, sight.count);
            }
            if let Some(promise) = sight.promised {
                upstream.promised.add(promise.ms, sight.count, exemplar);
            }
        }
        Some(found)
    }

    /// The places of names, and of the pair's. Where one is beyond its cap that is counted.
    fn places_of(
        &mut self,
        [service, upstream, environment]: PairNames<'_>,
        is_coarse: bool,
    ) -> [usize; 3] {
        let places = [
            self.service_names.place(service),
            self.upstream_names.place(upstream),
            self.environment_names.place(environment),
        ];
        let labels = [Overflow::Service, Overflow::Upstream, Overflow::Environment];
        for ((place, name), label) in
            places.into_iter().zip([service, upstream, environment]).zip(labels)
        {
            let is_other = place == 0 || (is_coarse && name == OTHER);
            add(&mut self.overflow, label as usize, u64::from(is_other));
        }
        self.make_room();
        places
    }

    fn make_room(&mut self) {
        while self.services.len() < self.service_names.all.len() {
            self.services.push(Service {
                delay: Histogram::new(histogram::DELAYS),
                attempts: Histogram::new(histogram::ATTEMPTS),
                last: None,
            });
        }
        while self.upstreams.len() < self.upstream_names.all.len() {
            self.upstreams.push(Upstream {
                forms: [0; Form::ALL.len()],
                promised: Histogram::bounded(histogram::PROMISES),
            });
        }
    }

    /// The pair in which an observation counts; `None` where it counts in none, as one from further
    /// out is known. Where this is the first one from further out, what the inner vantage had
    /// counted is shown no more, so that sources are never added up.
    fn pair(&mut self, mut names: [usize; 3], vantage: Vantage) -> Option<&mut Pair> {
        let mut place = self.places.get(&names.into()).copied();
        if place.is_none() && self.pairs.len() >= self.most_pairs {
            add(&mut self.overflow, Overflow::Pair as usize, 1);
            // The service with other upstreams where it has such a pair, else the pair of all.
            names = [names[0], 0, NO_ENVIRONMENT];
            place = self.places.get(&names.into()).copied();
            if place.is_none() {
                names = [0, 0, NO_ENVIRONMENT];
                place = self.places.get(&names.into()).copied();
            }
        }
        let place = place.unwrap_or_else(|| {
            self.pairs.push(Pair::new(names, vantage));
            self.places.insert(names.into(), self.pairs.len() - 1);
            self.pairs.len() - 1
        });
        let pair = self.pairs.get_mut(place)?;
        if vantage < pair.vantage {
            *pair = Pair::new(names, vantage);
        }
        (vantage == pair.vantage).then_some(pair)
    }
}

impl Pair {
    fn new([service, upstream, environment]: [usize; 3], vantage: Vantage) -> Self {
        Self {
            service,
            upstream,
            environment,
            vantage,
            is_shown: false,
            requests: 0,
            retries: [Counter::default(); LAYERS],
            attempts: [Counter::default(); Ended::ALL.len()],
            sources: vec![(Some(Responder::Unknown), Counter::default())],
            limited: Counter::default(),
            kinds: [0; LimitType::ALL.len()],
            finished: [0; Finish::ALL.len()],
            early: Counter::default(),
            duplicates: Counter::default(),
            duration: Histogram::new(histogram::DURATIONS),
            keys: KeyShares::default(),
        }
    }

    fn count(&mut self, sight: &Sight, found: &Found, received_at: UnixMillis) {
        let n = sight.count;
        let exemplar = exemplar(sight, received_at);
        if let Some(attempts) = self.attempts.get_mut(sight.ended as usize) {
            attempts.add(n, exemplar);
        }
        if sight.attempt > 1 {
            let layer = sight.layer.map_or(LAYERS - 1, |layer| layer as usize);
            if let Some(retries) = self.retries.get_mut(layer) {
                retries.add(n, exemplar);
            }
        } else {
            self.requests = self.requests.saturating_add(n);
            self.is_shown |= sight.is_served;
        }
        if sight.ended == Ended::TooMany {
            self.source(sight.source).add(n, exemplar);
            add(&mut self.kinds, sight.kind as usize, n);
            self.keys.add(received_at.0.div_euclid(MINUTE_MS), sight.key, n);
        }
        if sight.is_limited {
            self.limited.add(n, exemplar);
        }
        if let Some(finish) = sight.finish {
            add(&mut self.finished, finish as usize, n);
        }
        if found.early > 0 {
            self.early.add(found.early.saturating_mul(n), exemplar);
        }
        if found.duplicate || sight.write == Write::Conflict {
            self.duplicates.add(n, exemplar);
        }
        if let Some(ms) = found.took_ms {
            self.duration.add(ms, n, exemplar);
        }
    }

    /// The count of attempts answered 429 by `source`.
    fn source(&mut self, source: Responder) -> &mut Counter {
        let has_room = self.sources.len() < MAX_SOURCES - 1;
        let is_known = self.sources.iter().any(|(known, _)| *known == Some(source));
        let name = (is_known || has_room).then_some(source);
        let found = self.sources.iter().position(|(known, _)| *known == name);
        let place = found.unwrap_or_else(|| {
            self.sources.push((name, Counter::default()));
            self.sources.len() - 1
        });
        &mut self.sources[place].1
    }
}

fn exemplar(sight: &Sight, at: UnixMillis) -> Option<Exemplar> {
    let with = |ids: TraceIds| Exemplar { ids, value: sight.count.saturating_mul(1_000), at };
    sight.ids.map(with)
}

fn add<const N: usize>(counts: &mut [u64; N], at: usize, n: u64) {
    if let Some(count) = counts.get_mut(at) {
        *count = count.saturating_add(n);
    }
}
