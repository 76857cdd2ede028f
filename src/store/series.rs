//! A bound on the number of series, so that a sender that invents names can't make the sums grow
//! without end.
//!
//! A series is a service, an upstream, an environment and a route. Where there are too many, new
//! ones are kept under coarser names: first the route becomes [`OTHER`], then the upstream, then
//! the environment is left out, at last the service becomes `other` too. One service may have a
//! quarter of all, so that it can't use up what others need. Coarser names have some room of their
//! own, so that they can still be told apart when the finest no longer can.
//!
//! What is known stays known: the same names are always kept in the same way once they were kept
//! whole, also after a restart, which reads what the database holds. Several replicas bound what
//! each of them adds, so that together they may add as many times the bound. The event itself keeps
//! its own names; only the sums and lists are coarser.

use super::OTHER;
use super::rows::SeriesKey;
use crate::domain::event::Event;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::{PoisonError, RwLock};

/// One service may have this part of all series.
const SERVICE_PART: usize = 4;
/// For each coarser name, this part of all series is added to what there may be.
const COARSER_PART: usize = 16;

/// How much of an event's names its series keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Kept {
    /// All of them.
    #[default]
    Whole,
    /// Not the route.
    Upstream,
    /// Neither the route nor the upstream.
    Environment,
    /// Only the service.
    Service,
    /// None.
    Nothing,
}

impl Kept {
    const ALL: [Self; 5] =
        [Self::Whole, Self::Upstream, Self::Environment, Self::Service, Self::Nothing];

    /// The names of a series that keeps this much of service, upstream, environment and route.
    pub(super) fn names(self, [service, upstream, environment, route]: Names<'_>) -> Names<'_> {
        match self {
            Self::Whole => [service, upstream, environment, route],
            Self::Upstream => [service, upstream, environment, OTHER],
            Self::Environment => [service, OTHER, environment, OTHER],
            Self::Service => [service, OTHER, "", OTHER],
            Self::Nothing => [OTHER, OTHER, "", OTHER],
        }
    }
}

/// Service, upstream, environment, route.
pub(super) type Names<'a> = [&'a str; 4];

/// Which series there are, and whether there may be more.
#[derive(Debug)]
pub struct SeriesBound {
    most: usize,
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Hashes of names; that two collide is unlikely and costs one series more than the bound.
    all: HashSet<u64, RandomState>,
    /// How many of them a service has, by the hash of its name.
    by_service: HashMap<u64, usize, RandomState>,
}

impl SeriesBound {
    /// Allows `most` series, at least 100, of which there are none yet.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(100), hasher: RandomState::default(), known: RwLock::default() }
    }

    /// Takes over a series that is there.
    pub(super) fn learn(&self, names: Names<'_>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.add(self.hashes(names), self.hasher.hash_one(names[0]));
    }

    /// How much of an event's names its series may keep.
    pub fn keep(&self, event: &Event) -> Kept {
        self.keep_names(SeriesKey::names_of(event))
    }

    /// The name under which something is counted for a service: its own where it has a series or may
    /// still have one.
    pub fn sender<'a>(&self, service: &'a str) -> &'a str {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.all.len() < self.most;
        let is_named = has_room || known.by_service.contains_key(&self.hasher.hash_one(service));
        if is_named || service.is_empty() { service } else { OTHER }
    }

    /// Of a series, and of the same without a route, which sums are kept of too.
    fn hashes(&self, names: Names<'_>) -> [u64; 2] {
        let [service, upstream, environment, _] = names;
        [names, [service, upstream, environment, ""]].map(|names| self.hasher.hash_one(names))
    }

    fn keep_names(&self, names: Names<'_>) -> Kept {
        let whole = self.hasher.hash_one(names);
        let is_known = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.all.contains(&whole)
        };
        if is_known {
            return Kept::Whole;
        }
        let service = self.hasher.hash_one(names[0]);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (step, kept) in Kept::ALL.into_iter().enumerate() {
            let hashes = self.hashes(kept.names(names));
            if known.all.contains(&hashes[0]) {
                return kept;
            }
            let most = self.most + step * (self.most / COARSER_PART);
            let of_service = known.by_service.get(&service).copied().unwrap_or(0);
            if known.all.len() < most && of_service < most / SERVICE_PART {
                known.add(hashes, service);
                return kept;
            }
        }
        Kept::Nothing
    }
}

impl Known {
    fn add(&mut self, series: [u64; 2], service: u64) {
        for series in series {
            if self.all.insert(series) {
                *self.by_service.entry(service).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 1_600;

    /// What is kept of the names, and the series that the database holds then.
    fn keep_all(bound: &SeriesBound, names: &[[String; 4]]) -> (Vec<Kept>, HashSet<[String; 4]>) {
        let mut stored = HashSet::new();
        let kept = names.iter().map(|names| {
            let names = names.each_ref().map(String::as_str);
            let kept = bound.keep_names(names);
            let [service, upstream, environment, route] = kept.names(names).map(str::to_owned);
            stored.insert([service.clone(), upstream.clone(), environment.clone(), String::new()]);
            stored.insert([service, upstream, environment, route]);
            kept
        });
        (kept.collect(), stored)
    }

    fn names(service: &str, upstream: &str, environment: &str, route: &str) -> [String; 4] {
        [service, upstream, environment, route].map(str::to_owned)
    }

    #[test]
    fn invented_routes_become_other_and_other_services_notice_nothing() {
        let bound = SeriesBound::new(MOST);
        let hostile: Vec<_> = (0..100_000)
            .map(|n| names("hostile", "api.example.com", "prod", &n.to_string()))
            .collect();
        let (kept, stored) = keep_all(&bound, &hostile);
        assert_eq!(kept.iter().filter(|kept| **kept == Kept::Whole).count(), MOST / 4 - 1);
        assert_eq!(kept.last(), Some(&Kept::Upstream));
        assert_eq!(stored.len(), MOST / 4 + 1);
        let honest: Vec<_> =
            (0..100).map(|n| names("honest", "api.example.com", "prod", &n.to_string())).collect();
        assert!(keep_all(&bound, &honest).0.iter().all(|kept| *kept == Kept::Whole));
    }

    #[test]
    fn invented_upstreams_and_environments_become_other_too() {
        let bound = SeriesBound::new(MOST);
        let hostile: Vec<_> = (0..100_000)
            .map(|n| names("hostile", &format!("{n}.example"), &(n / 50).to_string(), "/"))
            .collect();
        let (kept, stored) = keep_all(&bound, &hostile);
        assert_eq!(kept.last(), Some(&Kept::Service));
        assert!(stored.len() <= MOST / 4 + 3 * MOST / 64 + 4, "{}", stored.len());
        assert!(stored.contains(&names("hostile", OTHER, "", OTHER)));
    }

    #[test]
    fn invented_services_become_other_at_last_while_those_that_were_there_stay() {
        let bound = SeriesBound::new(MOST);
        let honest = [names("honest", "api.example.com", "prod", "/orders")];
        keep_all(&bound, &honest);
        let hostile: Vec<_> =
            (0..100_000).map(|n| names(&n.to_string(), "api.example.com", "", "/")).collect();
        let (kept, stored) = keep_all(&bound, &hostile);
        assert_eq!(kept.last(), Some(&Kept::Nothing));
        assert!(stored.len() <= MOST + 3 * (MOST / COARSER_PART) + 4, "{}", stored.len());
        assert_eq!(keep_all(&bound, &honest).0, [Kept::Whole]);
        assert_eq!((bound.sender("honest"), bound.sender("one more")), ("honest", OTHER));
    }

    proptest! {
        #[test]
        fn what_was_kept_whole_is_kept_whole_again_also_after_a_restart(
            steps in proptest::collection::vec((0_u8..40, 0_u8..40, 0_u8..4, 0_u8..40), 1..2_000),
        ) {
            let bound = SeriesBound::new(100);
            let steps: Vec<_> = steps
                .iter()
                .map(|(s, u, e, r)| {
                    names(&s.to_string(), &u.to_string(), &e.to_string(), &r.to_string())
                })
                .collect();
            let (first, stored) = keep_all(&bound, &steps);
            prop_assert!(stored.len() <= 100 + 3 * (100 / COARSER_PART) + 4);
            let restarted = SeriesBound::new(100);
            for names in &stored {
                restarted.learn(names.each_ref().map(String::as_str));
            }
            for again in [keep_all(&bound, &steps), keep_all(&restarted, &steps)] {
                for (first, again) in first.iter().zip(again.0) {
                    prop_assert!(*first != Kept::Whole || again == Kept::Whole);
                }
                // Nothing is added by names that were all seen, except what is `other` once more.
                prop_assert!(again.1.len() <= 100 + 3 * (100 / COARSER_PART) + 4);
            }
        }
    }
}
