//! What has an id in common with attempts: records of gateways and origins, also under the ids that
//! hops gave a request on its way.

use super::lists::{Only, identity, order};
use super::reader::Reader;
use super::{Look, StoreError, sql};
use crate::domain::checklist::operations::{MAX_RECORDS, joined_attempts};
use crate::domain::event::Vantage;
use crate::domain::joins::{self, Coverage, NEAR};
use crate::domain::stored::{Scope, StoredEvent, TimeBasis, View};
use crate::domain::time::{HOUR_MS, Millis, UnixMillis, Window};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Ids looked for in one statement.
const IDS_AT_ONCE: usize = 500;
/// How often ids that were found are looked for in turn: a chain of so many hops, each of which gives
/// the request an id of its own.
const ROUNDS: usize = 4;
/// Most events that are linked to one attempt or operation; a trace may hold many.
const MOST_LINKED: usize = 2_000;
/// Served attempts on each side of one that are looked at.
const OTHERS: i64 = 40;
/// So far from an attempt records of sources are looked for that say nothing of it.
const SENDS_MS: i64 = HOUR_MS;
/// Further than this from the attempts, no record is looked for by the ids of attempts or of hops.
const FOLLOWED_MS: i64 = HOUR_MS;

type Found = BTreeMap<(UnixMillis, String), StoredEvent>;

impl Look {
    /// Everything with a request, ray or trace id in common with `events`, themselves left out, in
    /// the order it was sent, within [`FOLLOWED_MS`] of them; at most [`MOST_LINKED`]. Ids of what was
    /// found are followed.
    #[tracing::instrument(name = "db.joins.linked", level = "debug", skip_all)]
    pub async fn linked(&mut self, events: &[StoredEvent]) -> Result<Vec<StoredEvent>, StoreError> {
        let reader = &mut self.0;
        let times = || events.iter().map(|stored| stored.event.occurred_at);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Ok(Vec::new());
        };
        let near =
            Window { from: first.plus(Millis(-FOLLOWED_MS)), to: last.plus(Millis(FOLLOWED_MS)) };
        let mut seen: HashSet<(String, UnixMillis)> = events.iter().map(identity).collect();
        let mut asked: HashSet<String> = HashSet::new();
        let mut found: Vec<StoredEvent> = Vec::new();
        // Where those begin that were found in the round before.
        let mut fresh_from = None;
        for _ in 0..ROUNDS {
            let fresh = fresh_from.map_or(events, |from| found.get(from..).unwrap_or_default());
            let requests = new_ids(fresh, joins::ids, &mut asked);
            let traces = new_ids(fresh, |s| s.event.trace_id.iter().cloned().collect(), &mut asked);
            let known: Vec<&StoredEvent> = events.iter().chain(&found).collect();
            let mut further = reader.holding_any(&requests, &traces, near, &known).await?;
            further.retain(|stored| seen.insert(identity(stored)));
            further.truncate(MOST_LINKED.saturating_sub(found.len()));
            if further.is_empty() {
                break;
            }
            fresh_from = Some(found.len());
            found.append(&mut further);
        }
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok(found)
    }

    /// What gateways and origins recorded of attempts to the same upstream around one, so that a
    /// record which is missing can be told from one that was never kept.
    #[tracing::instrument(name = "db.joins.coverage", level = "debug", skip_all)]
    pub async fn coverage(&mut self, attempt: &StoredEvent) -> Result<Coverage, StoreError> {
        let reader = &mut self.0;
        let at = attempt.event.occurred_at;
        let source = attempt.event.vantage;
        if !reader.has_observations().await? {
            return Ok(Coverage::default());
        }
        let scope = Scope { upstream: Some(attempt.event.host.clone()), ..Scope::default() };
        let view = |from: UnixMillis, to: UnixMillis| View {
            scope: scope.clone(),
            window: Window { from, to },
            time: TimeBasis::Event,
        };
        let wide = view(at.plus(Millis(-SENDS_MS)), at.plus(Millis(SENDS_MS)));
        let sends = [
            reader.has_vantage(&wide, Vantage::Gateway).await?,
            reader.has_vantage(&wide, Vantage::Origin).await?,
        ];
        let mut others = Vec::new();
        let sides =
            [(at.plus(Millis(-NEAR.0)), at.plus(Millis(1))), (at.plus(Millis(1)), at.plus(NEAR))];
        for (from, to) in sides {
            let only = Only::of(sql::SUCCEEDED);
            others.extend(reader.attempts(&view(from, to), source, &only, OTHERS).await?);
        }
        let records = joined(reader, source, &others).await?;
        Ok(Coverage::new(attempt, &others, &records, sends))
    }
}

/// The ids of events that were not looked for yet.
fn new_ids(
    events: &[StoredEvent],
    read: impl Fn(&StoredEvent) -> Vec<String>,
    asked: &mut HashSet<String>,
) -> Vec<String> {
    events.iter().flat_map(read).filter(|id| asked.insert(id.clone())).collect()
}

/// What those further inside than `source` saw of these attempts: records with the same request,
/// ray or trace id, and with the ids that hops gave them. Which attempts are looked for is
/// [`joined_attempts`]'s to say, so that the steps know what was not.
pub(super) async fn joined(
    reader: &mut Reader,
    source: Vantage,
    attempts: &[StoredEvent],
) -> Result<Vec<StoredEvent>, StoreError> {
    let inside = match source {
        Vantage::Client => "<> 'client'",
        Vantage::Gateway => "= 'origin'",
        Vantage::Origin => return Ok(Vec::new()),
    };
    let is_inside = format!("e.class_id IN (SELECT id FROM classes WHERE vantage {inside})");
    let chosen = joined_attempts(attempts);
    let mut found = Found::new();
    let mut asked: HashSet<String> = HashSet::new();
    let ids: BTreeSet<String> = chosen.iter().flat_map(|s| joins::ids(s)).collect();
    let traces: BTreeSet<String> = chosen.iter().filter_map(|s| s.event.trace_id.clone()).collect();
    asked.extend(ids.iter().cloned());
    let looks: [(&[&str], BTreeSet<String>); 2] =
        [(&["request_id", "ray_id"], ids), (&["trace_id"], traces)];
    for (columns, ids) in looks {
        let ids: Vec<String> = ids.into_iter().collect();
        for stored in reader.holding(columns, &ids, None, &[], &is_inside, MAX_RECORDS).await? {
            let (event_id, at) = identity(&stored);
            found.insert((at, event_id), stored);
        }
    }
    // A hop behind one that made an id of its own knows the request by that id alone.
    let times = chosen.iter().map(|s| s.event.occurred_at);
    if let (Some(from), Some(to)) = (times.clone().min(), times.max()) {
        let near =
            Window { from: from.plus(Millis(-FOLLOWED_MS)), to: to.plus(Millis(FOLLOWED_MS)) };
        let records: Vec<StoredEvent> = found.values().cloned().collect();
        let made = new_ids(&records, |s| s.event.ray_id.iter().cloned().collect(), &mut asked);
        let of_these = &["request_id"];
        for stored in
            reader.holding(of_these, &made, Some(near), &[], &is_inside, MAX_RECORDS).await?
        {
            let (event_id, at) = identity(&stored);
            found.insert((at, event_id), stored);
        }
    }
    Ok(found.into_values().collect())
}

impl Reader {
    /// Events near a time that have one of `requests` as request or ray id, or one of `traces` as
    /// trace id, and are none of `known`; at most [`MOST_LINKED`] of each [`IDS_AT_ONCE`] ids. One
    /// look for both kinds.
    async fn holding_any(
        &mut self,
        requests: &[String],
        traces: &[String],
        near: Window,
        known: &[&StoredEvent],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let columns = &["request_id", "ray_id", "trace_id"];
        let ids = [requests, traces].concat();
        let mut found =
            self.holding(columns, &ids, Some(near), known, "1 = 1", MOST_LINKED).await?;
        let [requests, traces] = [requests, traces].map(set_of);
        found.retain(|StoredEvent { event, .. }| {
            is_one(&requests, event.request_id.as_deref())
                || is_one(&requests, event.ray_id.as_deref())
                || is_one(&traces, event.trace_id.as_deref())
        });
        Ok(found)
    }

    /// Events that have one of `ids` in one of `columns`, are none of `known` and fulfil a condition,
    /// at most `most` of each [`IDS_AT_ONCE`] ids. Those that are known are left out by the database:
    /// to read an event takes longer than to find it.
    async fn holding(
        &mut self,
        columns: &[&str],
        ids: &[String],
        times: Option<Window>,
        known: &[&StoredEvent],
        condition: &str,
        most: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut found = Vec::new();
        let usable: Vec<String> = ids.iter().filter(|id| !id.contains('\0')).cloned().collect();
        for part in usable.chunks(IDS_AT_ONCE) {
            let mut args = Vec::new();
            let place = self.has_id(columns, part, times, &mut args);
            let asked = set_of(part);
            let has_one = |StoredEvent { event, .. }: &StoredEvent| {
                [&event.request_id, &event.ray_id, &event.trace_id]
                    .into_iter()
                    .any(|id| is_one(&asked, id.as_deref()))
            };
            let known: Vec<&StoredEvent> =
                known.iter().copied().filter(|one| has_one(one)).collect();
            let is_new = if known.is_empty() {
                "1 = 1".to_owned()
            } else {
                self.is_none_of(&known, &mut args)
            };
            let condition = format!("WHERE {place} AND {is_new} AND {condition} LIMIT {most}");
            found.append(&mut self.few_events(&condition, &args).await?);
        }
        Ok(found)
    }
}

fn set_of(ids: &[String]) -> HashSet<&str> {
    ids.iter().map(String::as_str).collect()
}

fn is_one(ids: &HashSet<&str>, id: Option<&str>) -> bool {
    id.is_some_and(|id| ids.contains(id))
}
