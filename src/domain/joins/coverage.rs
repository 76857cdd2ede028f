//! Does a record that isn't there mean anything? Only where its source is known to have written and
//! delivered what happened around it, under ids that are ours.

use super::{Links, hop_name};
use crate::domain::event::Vantage;
use crate::domain::spelling::spelled_enum;
use crate::domain::stored::StoredEvent;
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis, Window};
use std::collections::BTreeMap;

/// How far around an attempt others are looked at.
pub const NEAR: Millis = Millis(MINUTE_MS);
/// So many others around it have to be looked at before a missing record means anything.
const FEW: usize = 3;

spelled_enum! {
    /// Whether a hop saw a request.
    pub enum Sight {
        /// It has a record with an id of the request.
        Seen => "seen",
        /// It has none, and is known to have recorded that minute.
        NotSeen => "not-seen",
        /// It has none, and it isn't known whether it recorded that minute.
        Hole => "hole",
        /// Nothing of such a hop arrives at all.
        NoSource => "no-source",
    }
}

/// What each hop recorded of served attempts in the minute before one and the minute after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    before: usize,
    after: usize,
    held: BTreeMap<(Vantage, String), [usize; 2]>,
    /// Whether any gateway and any origin sent records about that upstream around that time.
    sends: [bool; 2],
}

impl Coverage {
    /// Looks at `others`, attempts to the same upstream that were served, and their records.
    /// `sends` says whether gateways and origins sent anything about the upstream at that time.
    pub fn new(
        attempt: &StoredEvent,
        others: &[StoredEvent],
        records: &[StoredEvent],
        sends: [bool; 2],
    ) -> Self {
        let at = attempt.event.occurred_at;
        let near = Window {
            from: at.plus(Millis(-NEAR.0)),
            to: UnixMillis(at.plus(NEAR).0.saturating_add(1)),
        };
        let links = Links::new(others, records);
        let mut coverage = Self { sends, ..Self::default() };
        for other in others.iter().filter(|other| near.contains(other.event.occurred_at)) {
            if other.event.event_id == attempt.event.event_id {
                continue;
            }
            let joined = links.find(other);
            if !joined.has_id {
                continue;
            }
            let is_after = usize::from(other.event.occurred_at > at);
            if is_after == 1 {
                coverage.after += 1;
            } else {
                coverage.before += 1;
            }
            let mut hops: Vec<(Vantage, String)> =
                joined.records.iter().map(|r| (r.event.vantage, hop_name(r))).collect();
            hops.sort();
            hops.dedup();
            for hop in hops {
                coverage.held.entry(hop).or_default()[is_after] += 1;
            }
        }
        coverage
    }

    /// The gateways, and the origin, that have records of others around it.
    pub fn hops(&self) -> impl Iterator<Item = (Vantage, &str)> {
        self.held.keys().map(|(vantage, name)| (*vantage, name.as_str()))
    }

    /// What it means that a hop has no record, and why.
    pub fn of_missing(&self, vantage: Vantage, name: &str) -> (Sight, String) {
        let all = self.before + self.after;
        let Some([before, after]) = self.held.get(&(vantage, name.to_owned())).copied() else {
            return self.of_silent(vantage);
        };
        let held = before + after;
        let around = format!(
            "It holds {held} of the {all} served attempts looked at in the minutes around it, by id"
        );
        // 95 of a hundred, in whole numbers.
        let is_complete = all >= FEW && held * 100 >= all * 95;
        if is_complete && before > 0 && after > 0 {
            (Sight::NotSeen, format!("{around}, before and after it: a record would be there."))
        } else if is_complete {
            let side = if before == 0 { "before" } else { "after" };
            (Sight::Hole, format!("{around}, but none {side} it: the record may have a hole here."))
        } else {
            (
                Sight::Hole,
                format!("{around}: its record has holes, so that absence proves nothing."),
            )
        }
    }

    /// What a hop that has none of the others either is to be told of.
    fn of_silent(&self, vantage: Vantage) -> (Sight, String) {
        let sends = self.sends[usize::from(vantage == Vantage::Origin)];
        let all = self.before + self.after;
        if !sends {
            let what = match vantage {
                Vantage::Origin => "No log or server span of the origin arrives for this upstream.",
                _ => "No log of a gateway arrives for this upstream.",
            };
            (Sight::NoSource, what.to_owned())
        } else if all >= FEW {
            let text = format!(
                "Its records of that time hold none of {all} served attempts around this one by id: \
                 it logs other ids, or has a hole here."
            );
            (Sight::Hole, text)
        } else {
            let text = "It sends records, but too few served attempts with an id are around this \
                        one to tell whether this one would be there.";
            (Sight::Hole, text.to_owned())
        }
    }
}
