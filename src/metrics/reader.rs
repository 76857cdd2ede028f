//! Walks over all numbers, family by family.

use super::OTHER;
use super::exemplar::Exemplar;
use super::histogram::Histogram;
use super::names::{self, Family};
use super::own::{Evaluated, Ingested, Notified, Operation, Overflow, Own};
use super::series::{Counter, LAYERS, Pair, Series, Upstream};
use super::sight::{Ended, Finish, Form};
use crate::domain::classify::{LimitType, Responder};
use crate::domain::event::{RetryLayer, Vantage};
use crate::domain::time::{MINUTE_MS, UnixMillis};

/// A label: its name and its value.
pub type Label<'a> = (&'static str, &'a str);

/// What is done with the numbers, in the order in which they come: a family, then its series.
pub trait Reader {
    /// A family begins.
    fn family(&mut self, family: &'static Family);
    /// A series of a counter.
    fn counter(&mut self, labels: &[Label<'_>], value: u64, exemplar: Option<&Exemplar>);
    /// A series of a gauge or of facts.
    fn gauge(&mut self, labels: &[Label<'_>], value: f64);
    /// A series of a histogram.
    fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram);
}

/// All numbers at one moment.
#[derive(Debug)]
pub struct Snapshot {
    series: Series,
    own: Own,
    now: UnixMillis,
}

/// The commit that this was built from, where the build was told: `RETRYLENS_REVISION`.
const REVISION: &str = match option_env!("RETRYLENS_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

impl Snapshot {
    pub(super) fn new(series: Series, own: Own, now: UnixMillis) -> Self {
        Self { series, own, now }
    }

    /// How many pairs are held, shown or not.
    #[cfg(test)]
    pub(super) fn pairs_held(&self) -> usize {
        self.series.pairs.len()
    }

    /// When it was taken.
    pub fn at(&self) -> UnixMillis {
        self.now
    }

    /// Shows every family that has a series.
    pub fn read(&self, to: &mut impl Reader) {
        self.of_pairs(to);
        self.of_upstreams(to);
        self.of_services(to);
        self.of_ourselves(to);
    }

    /// The pairs that are shown, with the labels that all their series have.
    fn pairs(&self) -> impl Iterator<Item = (&Pair, Vec<Label<'_>>)> {
        let series = &self.series;
        series.pairs.iter().filter(|pair| pair.is_shown).map(|pair| {
            let mut labels = Vec::with_capacity(5);
            labels.push(("service", series.service_names.name(pair.service)));
            labels.push(("upstream", series.upstream_names.name(pair.upstream)));
            let environment = series.environment_names.name(pair.environment);
            if !environment.is_empty() {
                labels.push(("environment", environment));
            }
            if pair.vantage != Vantage::Client {
                labels.push(("vantage", pair.vantage.as_str()));
            }
            (pair, labels)
        })
    }

    fn of_pairs(&self, to: &mut impl Reader) {
        self.pair_counters(to, &names::REQUESTS, |pair, add| add(None, pair.requests, None));
        self.pair_counters(to, &names::RETRIES, |pair, add| {
            for (layer, counter) in layers().zip(&pair.retries) {
                add(Some(("layer", layer)), counter.n, counter.exemplar.as_ref());
            }
        });
        self.pair_counters(to, &names::ATTEMPTS, |pair, add| {
            for (ended, counter) in Ended::ALL.iter().zip(&pair.attempts) {
                add(Some(("outcome", ended.as_str())), counter.n, counter.exemplar.as_ref());
            }
        });
        self.pair_counters(to, &names::RATE_LIMITED, |pair, add| {
            for (source, counter) in &pair.sources {
                let source = source.map_or(OTHER, Responder::as_str);
                add(Some(("source", source)), counter.n, counter.exemplar.as_ref());
            }
        });
        let alone = |to: &mut _, family, counter: fn(&Pair) -> &Counter| {
            self.pair_counters(to, family, |pair, add| {
                let counter = counter(pair);
                add(None, counter.n, counter.exemplar.as_ref());
            });
        };
        alone(to, &names::LIMITED, |pair| &pair.limited);
        self.pair_counters(to, &names::LIMIT_KINDS, |pair, add| {
            for (kind, n) in LimitType::ALL.iter().zip(pair.kinds) {
                add(Some(("kind", kind.as_str())), n, None);
            }
        });
        self.pair_counters(to, &names::REQUESTS_FINISHED, |pair, add| {
            for (finish, n) in Finish::ALL.iter().zip(pair.finished) {
                add(Some(("result", finish.as_str())), n, None);
            }
        });
        alone(to, &names::EARLY_RETRIES, |pair| &pair.early);
        alone(to, &names::DUPLICATE_WRITES, |pair| &pair.duplicates);
        to.family(&names::REQUEST_DURATION);
        for (pair, labels) in self.pairs() {
            to.histogram(&labels, &pair.duration);
        }
        to.family(&names::KEY_CONCENTRATION);
        let minute = self.now.0.div_euclid(MINUTE_MS);
        for (pair, labels) in self.pairs() {
            if let Some(share) = pair.keys.busiest(minute) {
                to.gauge(&labels, share);
            }
        }
    }

    /// A counter of every pair that is shown, with one more label where it has one.
    fn pair_counters(
        &self,
        to: &mut impl Reader,
        family: &'static Family,
        counts: impl Fn(&Pair, &mut dyn FnMut(Option<Label<'static>>, u64, Option<&Exemplar>)),
    ) {
        to.family(family);
        for (pair, mut labels) in self.pairs() {
            let common = labels.len();
            counts(pair, &mut |label, n, exemplar| {
                labels.truncate(common);
                labels.extend(label);
                to.counter(&labels, n, exemplar);
            });
        }
    }

    fn of_upstreams(&self, to: &mut impl Reader) {
        let is_limited = |upstream: &Upstream| upstream.forms.iter().any(|n| *n > 0);
        // At zero from its first event on, so that the first refusal is seen as a growth; the sum of
        // all beyond the cap only where there are any.
        let known = || {
            let named = self.series.upstreams.iter().enumerate();
            let used = named.filter(|(place, upstream)| *place > 0 || is_limited(upstream));
            used.map(|(place, upstream)| (self.series.upstream_names.name(place), upstream))
        };
        to.family(&names::RETRY_AFTER_HEADERS);
        for (name, upstream) in known() {
            for (form, n) in Form::ALL.iter().zip(upstream.forms) {
                to.counter(&[("upstream", name), ("form", form.as_str())], n, None);
            }
        }
        to.family(&names::RETRY_AFTER);
        for (name, upstream) in known().filter(|(_, upstream)| is_limited(upstream)) {
            to.histogram(&[("upstream", name)], &upstream.promised);
        }
    }

    fn of_services(&self, to: &mut impl Reader) {
        let named = || {
            let services = self.series.services.iter().enumerate();
            let used = services.filter(|(_, service)| service.last.is_some());
            used.map(|(place, service)| (self.series.service_names.name(place), service))
        };
        to.family(&names::RETRY_DELAY);
        for (name, service) in named() {
            to.histogram(&[("service", name)], &service.delay);
        }
        to.family(&names::ATTEMPTS_PER_REQUEST);
        for (name, service) in named() {
            to.histogram(&[("service", name)], &service.attempts);
        }
        to.family(&names::LAST_EVENT);
        for (name, service) in named() {
            if let Some(at) = service.last {
                to.gauge(&[("service", name)], crate::domain::time::Millis(at.0).as_secs_f64());
            }
        }
    }

    fn of_ourselves(&self, to: &mut impl Reader) {
        let own = &self.own;
        to.family(&names::INGEST_EVENTS);
        for (result, n) in Ingested::ALL.iter().zip(own.events) {
            to.counter(&[("result", result.as_str())], n, None);
        }
        to.family(&names::INGEST_LAG);
        to.histogram(&[], &own.lag);
        to.family(&names::STORE_ERRORS);
        for (operation, n) in Operation::ALL.iter().zip(own.store_errors) {
            to.counter(&[("operation", operation.as_str())], n, None);
        }
        to.family(&names::ALERT_EVALUATIONS);
        for (alert, counts) in &own.evaluations {
            for (result, n) in Evaluated::ALL.iter().zip(counts) {
                to.counter(&[("alert", alert), ("result", result.as_str())], *n, None);
            }
        }
        to.family(&names::NOTIFICATIONS);
        for (receiver, counts) in &own.notifications {
            for (result, n) in Notified::ALL.iter().zip(counts) {
                to.counter(&[("receiver", receiver), ("result", result.as_str())], *n, None);
            }
        }
        to.family(&names::RECEIVER_GONE);
        for receiver in own.notifications.keys() {
            let is_gone = own.gone.contains(receiver);
            to.gauge(&[("receiver", receiver)], f64::from(u8::from(is_gone)));
        }
        to.family(&names::LABEL_OVERFLOW);
        for (label, n) in Overflow::ALL.iter().zip(self.series.overflow) {
            to.counter(&[("label", label.as_str())], n, None);
        }
        to.family(&names::BUILD);
        to.gauge(&[("version", env!("CARGO_PKG_VERSION")), ("revision", REVISION)], 1.0);
    }
}

/// The names of the layers that may send a retry, in the order of their counts.
fn layers() -> impl Iterator<Item = &'static str> {
    let known = RetryLayer::ALL.iter().map(|layer| layer.as_str());
    known.chain(std::iter::once("unknown")).take(LAYERS)
}
