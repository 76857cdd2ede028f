//! What the database's sums of attempts don't tell, per minute of receipt and pair: the same as
//! `/metrics` counts, noted a second time without its cap, until it is kept in the database for the
//! alerts that are evaluated there.

use super::recent::Found;
use super::series::PairNames;
use super::sight::{Finish, Sight, Write};
use crate::domain::alerts::Noted;
use crate::domain::alerts::notice::Subject;
use crate::domain::event::Vantage;
use crate::domain::time::{MINUTE_MS, UnixMillis};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// A minute of receipt (since 1970), a pair, who saw it, and what was noted.
pub type NotedRow = (i64, Subject, Vantage, Noted);

/// Most rows between two takings: some minutes of a thousand pairs. Beyond it, which is where the
/// database doesn't take them, new rows are left out.
const MOST: usize = 10_000;

/// What was noted since it was last taken, by a hash of minute, pair and vantage.
#[derive(Debug, Default)]
pub(super) struct Notes(HashMap<u64, NotedRow, RandomState>);

impl Notes {
    /// Notes an event that is stored.
    pub(super) fn add(
        &mut self,
        hasher: &RandomState,
        received_at: UnixMillis,
        names: PairNames<'_>,
        sight: &Sight,
        found: &Found,
    ) {
        let n = i64::try_from(sight.count).unwrap_or(i64::MAX);
        let when = |yes: bool| if yes { n } else { 0 };
        let early = i64::try_from(found.early).unwrap_or(i64::MAX).saturating_mul(n);
        let mut noted = Noted {
            first_try: when(sight.finish == Some(Finish::FirstTry)),
            after_retry: when(sight.finish == Some(Finish::AfterRetry)),
            unsuccessful: when(matches!(sight.finish, Some(Finish::Exhausted | Finish::GaveUp))),
            early,
            duplicates: when(found.duplicate || sight.write == Write::Conflict),
            ..Noted::default()
        };
        if let Some(ms) = found.took_ms {
            noted.add_ended(ms, n);
        }
        if noted == Noted::default() {
            return;
        }
        let minute = received_at.0.div_euclid(MINUTE_MS);
        let key = hasher.hash_one((minute, names, sight.vantage));
        let sum = self.sum(key, || {
            let [service, upstream, environment] = names.map(ToOwned::to_owned);
            (minute, Subject { service, upstream, environment }, sight.vantage)
        });
        if let Some(sum) = sum {
            sum.add(&noted);
        }
    }

    /// Everything, which is forgotten here.
    pub(super) fn take(&mut self) -> Vec<NotedRow> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    /// Takes back a row.
    pub(super) fn give_back(&mut self, hasher: &RandomState, row: &NotedRow) {
        let (minute, subject, vantage, noted) = row;
        let names: PairNames<'_> = [&subject.service, &subject.upstream, &subject.environment];
        let key = hasher.hash_one((minute, names, vantage));
        if let Some(sum) = self.sum(key, || (*minute, subject.clone(), *vantage)) {
            sum.add(noted);
        }
    }

    fn sum(
        &mut self,
        key: u64,
        row: impl FnOnce() -> (i64, Subject, Vantage),
    ) -> Option<&mut Noted> {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            return None;
        }
        let row = self.0.entry(key).or_insert_with(|| {
            let (minute, subject, vantage) = row();
            (minute, subject, vantage, Noted::default())
        });
        Some(&mut row.3)
    }
}
