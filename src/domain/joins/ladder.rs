//! The hops of one attempt, from the client to the origin: who saw it, what each got and gave, who
//! answered, and who sent it again.

use super::coverage::{Coverage, Sight};
use super::{Joined, hop_name, product};
use crate::domain::access_log::{self, LogFacts, OriginRecord, Told, Trail};
use crate::domain::classify::{Certainty, Layer, Responder, Tri, classify};
use crate::domain::event::Vantage;
use crate::domain::response::Response;
use crate::domain::stored::StoredEvent;
use crate::domain::time::UnixMillis;
use std::cmp::Reverse;

/// What a hop got from the one behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// These status codes, in the log's own spelling: `429`, `502, 429`.
    Statuses(String),
    /// It asked nobody.
    AskedNobody,
    /// The record doesn't tell.
    Untold,
}

/// One hop.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop<'a> {
    /// From where it saw the request.
    pub vantage: Vantage,
    /// Its name: see [`hop_name`].
    pub name: String,
    /// Its product, where that is known.
    pub product: Responder,
    /// Whether it saw the request.
    pub sight: Sight,
    /// Why that is said, where it has no record.
    pub why: Option<String>,
    /// Its records of this attempt.
    pub records: Vec<&'a StoredEvent>,
    /// The status that it gave.
    pub gave: Option<u16>,
    /// What it got from the hop behind it.
    pub got: Got,
    /// It wrote the answer.
    pub answered: bool,
    /// From its first record's beginning to its last one's end.
    pub took_ms: Option<i64>,
    /// How many times it sent the request again by itself; `None` where that isn't known.
    pub resent: Option<u32>,
}

/// All hops of one attempt.
#[derive(Debug, Clone)]
pub struct Ladder<'a> {
    /// From the outermost inwards: the client, gateways, the origin.
    pub hops: Vec<Hop<'a>>,
    /// Records that share an id and may be of another attempt; never evidence.
    pub open: Vec<&'a StoredEvent>,
    /// What is to be said beside the hops, in sentences.
    pub notes: Vec<String>,
    /// The attempt's response with what the records say of it, to be judged; `None` where no record
    /// says anything.
    pub response: Option<Response>,
    /// Requests that reached the innermost gateway's upstream for this attempt, where its log tells.
    pub upstream_requests: Option<u32>,
}

/// Lines of one hop, in the order of their time.
struct Group<'a> {
    name: String,
    depth: usize,
    records: Vec<&'a StoredEvent>,
}

impl<'a> Ladder<'a> {
    /// The hops of `attempt`. Without a `coverage` nothing is said of hops that have no record.
    pub fn new(attempt: &'a StoredEvent, joined: &Joined<'a>, coverage: Option<&Coverage>) -> Self {
        let mut ladder = Self::build(attempt, joined, coverage);
        ladder.find_author();
        ladder
    }

    /// As [`Self::new`], without judging who answered, which is what takes time.
    pub fn unjudged(attempt: &'a StoredEvent, joined: &Joined<'a>) -> Self {
        Self::build(attempt, joined, None)
    }

    fn build(attempt: &'a StoredEvent, joined: &Joined<'a>, coverage: Option<&Coverage>) -> Self {
        let mut records = joined.records.clone();
        let is_client = attempt.event.vantage == Vantage::Client;
        if !is_client && !records.iter().any(|record| super::is_same(record, attempt)) {
            records.push(attempt);
        }
        let (gateways, origin): (Vec<_>, Vec<_>) = records
            .into_iter()
            .filter(|record| record.event.vantage != Vantage::Client)
            .partition(|record| record.event.vantage == Vantage::Gateway);
        let groups = grouped(gateways);
        let told = Lines::of(&groups);
        let outermost = match groups.first() {
            Some(group) if !is_client => group.records.last().copied().unwrap_or(attempt),
            _ => attempt,
        };
        let unseen = origin_record(&origin).or_else(|| {
            let (sight, _) = coverage?.of_missing(Vantage::Origin, Vantage::Origin.as_str());
            (origin.is_empty() && sight == Sight::NotSeen)
                .then_some(OriginRecord { saw: false, statuses: Vec::new() })
        });
        let trail = Trail { hops: told.trail.clone(), origin: unseen };
        let response = (!trail.is_empty()).then(|| {
            let mut response = outermost.event.response();
            response.logs = trail;
            response
        });
        let mut ladder = Self {
            hops: Vec::new(),
            open: joined.open.clone(),
            notes: Vec::new(),
            response,
            upstream_requests: told.upstream_requests,
        };
        if is_client {
            ladder.hops.push(client(attempt));
        }
        for (group, tries) in groups.iter().zip(&told.tries) {
            ladder.hops.push(gateway(group, *tries));
        }
        if !origin.is_empty() {
            ladder.hops.push(of_origin(&origin));
        }
        ladder.add_missing(attempt, coverage);
        ladder.note(&groups, &told, &origin);
        ladder
    }

    /// Whether any gateway or origin has a record of it.
    pub fn is_joined(&self) -> bool {
        self.hops.iter().any(|hop| hop.vantage != Vantage::Client && !hop.records.is_empty())
    }

    /// Requests that gateways sent again by themselves, as far as their logs tell.
    pub fn resent(&self) -> Option<u32> {
        self.upstream_requests.map(|sent| sent.saturating_sub(1))
    }

    /// Marks the hop that wrote the answer, where the verdict is sure of one.
    fn find_author(&mut self) {
        let Some(response) = &self.response else { return };
        let verdict = classify(response);
        if !matches!(verdict.outcome, Certainty::Certain | Certainty::Confident) {
            return;
        }
        let is_author = |hop: &&mut Hop<'_>| {
            hop.sight == Sight::Seen
                && match verdict.returned_by {
                    Responder::Origin => hop.vantage == Vantage::Origin,
                    product => hop.vantage == Vantage::Gateway && hop.product == product,
                }
        };
        if let Some(hop) = self.hops.iter_mut().rev().find(is_author) {
            hop.answered = true;
        }
    }

    /// Adds the hops that have no record, with what that means.
    fn add_missing(&mut self, attempt: &StoredEvent, coverage: Option<&Coverage>) {
        let has = |hops: &[Hop<'_>], vantage: Vantage, name: &str| {
            hops.iter().any(|hop| hop.vantage == vantage && (hop.name == name || name.is_empty()))
        };
        let refused_by = self.hops.iter().find(|hop| hop.got == Got::AskedNobody);
        let refused_by = refused_by.map(|hop| hop.name.clone());
        let Some(coverage) = coverage else { return };
        if attempt.event.vantage == Vantage::Client {
            let known: Vec<String> = coverage
                .hops()
                .filter(|(vantage, _)| *vantage == Vantage::Gateway)
                .map(|(_, name)| name.to_owned())
                .collect();
            for name in &known {
                if !has(&self.hops, Vantage::Gateway, name) {
                    let (mut sight, mut why) = coverage.of_missing(Vantage::Gateway, name);
                    if sight == Sight::Hole
                        && let Some(by) = &refused_by
                    {
                        why = format!("{by}'s own log says that it asked nobody.");
                        sight = Sight::NotSeen;
                    }
                    self.put_in(missing(Vantage::Gateway, name.clone(), sight, why));
                }
            }
            if known.is_empty() && !has(&self.hops, Vantage::Gateway, "") {
                let (sight, why) = coverage.of_missing(Vantage::Gateway, "gateway");
                self.put_in(missing(Vantage::Gateway, "gateway".to_owned(), sight, why));
            }
        }
        if !has(&self.hops, Vantage::Origin, "") && attempt.event.vantage != Vantage::Origin {
            let name = Vantage::Origin.as_str();
            let (mut sight, mut why) = coverage.of_missing(Vantage::Origin, name);
            if sight != Sight::NotSeen
                && let Some(by) = &refused_by
            {
                sight = Sight::NotSeen;
                why = format!("{by}'s own log says that it asked nobody.");
            }
            self.hops.push(missing(Vantage::Origin, name.to_owned(), sight, why));
        }
    }

    /// Puts a gateway before the origin.
    fn put_in(&mut self, hop: Hop<'a>) {
        let at = self.hops.iter().position(|hop| hop.vantage == Vantage::Origin);
        self.hops.insert(at.unwrap_or(self.hops.len()), hop);
    }

    fn note(&mut self, groups: &[Group<'a>], told: &Lines, origin: &[&StoredEvent]) {
        for hop in &self.hops {
            if let Some(times) =
                hop.resent.filter(|times| *times > 0 && hop.vantage == Vantage::Gateway)
            {
                self.notes.push(format!(
                    "{} sent this attempt again {}: {} upstream requests for one of the client's. It \
                     is a retry layer of its own (`gateway`), which the client doesn't see.",
                    hop.name,
                    if times == 1 { "once".to_owned() } else { format!("{times} times") },
                    times.saturating_add(1)
                ));
            }
        }
        let asked_nobody = self.hops.iter().find(|hop| hop.got == Got::AskedNobody);
        if let Some(hop) = asked_nobody
            && let Some(inner) = origin.first()
        {
            self.notes.push(format!(
                "A contradiction: {}'s log says that it asked nobody, and the origin has a record \
                 with the same id ({}). One of them is of another request, or an id is used twice.",
                hop.name, inner.event.event_id
            ));
        }
        if origin.len() > 1 {
            let asked = told.upstream_requests.and_then(|n| usize::try_from(n).ok());
            self.notes.push(match asked {
                Some(asked) if asked < origin.len() => format!(
                    "The origin has {} records of it and was asked {}: the others are copies \
                     (mirrored requests), no retries.",
                    origin.len(),
                    if asked == 1 { "once".to_owned() } else { format!("{asked} times") }
                ),
                Some(_) => format!("The origin has a record of each of {} tries.", origin.len()),
                None => format!(
                    "The origin has {} records of it under one id: a hop between sent it again, or \
                     copied it (a mirror). The gateway's own log tells which.",
                    origin.len()
                ),
            });
        }
        for group in groups {
            let made = group.records.iter().find_map(|r| r.event.ray_id.as_deref());
            let Some(made) = made else { continue };
            let is_behind = |record: &&StoredEvent| {
                record.event.request_id.as_deref() == Some(made)
                    && !group.records.iter().any(|own| super::is_same(own, record))
            };
            let mut inner = groups.iter().flat_map(|g| g.records.iter().copied());
            if let Some(record) =
                inner.find(is_behind).or_else(|| origin.iter().copied().find(is_behind))
            {
                self.notes.push(format!(
                    "{} gave the request an id of its own, `{made}`, under which {} recorded it.",
                    group.name,
                    hop_name(record)
                ));
            }
        }
        if !self.open.is_empty() {
            let n = self.open.len();
            self.notes.push(format!(
                "{n} {} an id with this attempt and may be of another attempt or another time. \
                 {} listed, and no evidence.",
                if n == 1 { "more record shares" } else { "more records share" },
                if n == 1 { "It is" } else { "They are" }
            ));
        }
    }
}

/// What the lines of gateways say, hop by hop.
struct Lines {
    trail: Vec<Vec<LogFacts>>,
    tries: Vec<Option<u32>>,
    upstream_requests: Option<u32>,
}

impl Lines {
    fn of(groups: &[Group<'_>]) -> Self {
        let mut trail: Vec<Vec<LogFacts>> = Vec::new();
        let mut tries: Vec<Option<u32>> = Vec::new();
        // How often the hop before asked, and what it passed on.
        let mut asked: Option<u32> = None;
        let mut passed_on: Option<u16> = None;
        let mut upstream_requests = None;
        for group in groups {
            let mut lines: Vec<&LogFacts> =
                group.records.iter().filter_map(|record| record.event.log.as_deref()).collect();
            // More than were asked for are copies: the one that was delivered has its status.
            let most = asked.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
            if let Some(most) = most.filter(|most| lines.len() > *most) {
                if let Some(status) = passed_on {
                    lines.retain(|line| line.status == Some(status));
                }
                let extra = lines.len().saturating_sub(most);
                lines.drain(..extra);
            }
            let findings: Vec<_> = lines.iter().map(|line| access_log::read(line)).collect();
            let told: Option<u32> = findings
                .iter()
                .map(|finding| finding.as_ref().and_then(|finding| finding.tries))
                .sum();
            let told = told.filter(|_| !lines.is_empty());
            tries.push(told);
            asked = told;
            passed_on = findings.last().and_then(|f| f.as_ref()?.upstream_status);
            upstream_requests = match (told, upstream_requests) {
                (Some(told), before) => Some(told.max(before.unwrap_or(0))),
                (None, before) => before,
            };
            if !lines.is_empty() {
                trail.push(lines.into_iter().cloned().collect());
            }
        }
        Self { trail, tries, upstream_requests }
    }
}

/// The origin's records as evidence.
fn origin_record(origin: &[&StoredEvent]) -> Option<OriginRecord> {
    (!origin.is_empty()).then(|| OriginRecord {
        saw: true,
        statuses: origin.iter().map(|record| record.event.status).collect(),
    })
}

/// Gateways' records by hop, from the outermost inwards.
fn grouped(mut records: Vec<&StoredEvent>) -> Vec<Group<'_>> {
    records.sort_by(|a, b| super::order(a).cmp(&super::order(b)));
    let depths: Vec<usize> = (0..records.len()).map(|at| depth(&records, at)).collect();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (record, depth) in records.iter().copied().zip(depths) {
        let name = hop_name(record);
        // Of one name: a line within another one's time is a hop behind it, one after it a try.
        let inside = groups
            .iter()
            .filter(|group| group.name == name && group.depth == depth)
            .filter(|group| group.records.iter().any(|outer| is_within(record, outer)))
            .count();
        let place = groups
            .iter_mut()
            .filter(|group| group.name == name && group.depth == depth)
            .nth(inside);
        match place {
            Some(group) => group.records.push(record),
            None => groups.push(Group { name, depth, records: vec![record] }),
        }
    }
    // Those of one name stand in the order in which they were found: outer ones begin first.
    let mut indexed: Vec<(usize, Group<'_>)> = groups.into_iter().enumerate().collect();
    indexed.sort_by_key(|(at, group)| {
        let edge = group.records.iter().any(|record| product(record).layer() == Layer::Edge);
        let itself = group.records.last().is_some_and(|record| told_itself(record));
        let took = took(&group.records);
        (group.depth, !edge, itself, Reverse(took), group.records.first().map(|r| start(r)), *at)
    });
    indexed.into_iter().map(|(_, group)| group).collect()
}

fn start(record: &StoredEvent) -> UnixMillis {
    record.event.occurred_at
}

/// How many hops made ids one behind the other before this record's.
fn depth(records: &[&StoredEvent], at: usize) -> usize {
    let (mut depth, mut here) = (0, at);
    while depth < records.len() {
        let Some(id) = records.get(here).and_then(|r| r.event.request_id.as_deref()) else { break };
        let outer = records.iter().enumerate().position(|(other, record)| {
            other != here
                && record.event.ray_id.as_deref() == Some(id)
                && record.event.request_id.as_deref() != Some(id)
        });
        let Some(outer) = outer else { break };
        depth += 1;
        here = outer;
    }
    depth
}

fn is_within(inner: &StoredEvent, outer: &StoredEvent) -> bool {
    inner.event.duration_ms.zip(outer.event.duration_ms).is_some_and(|(a, b)| a <= b && b > 0)
        && inner.event.occurred_at >= outer.event.occurred_at
        && inner.event.answered_at() <= outer.event.answered_at()
}

fn told_itself(record: &StoredEvent) -> bool {
    record
        .event
        .log
        .as_deref()
        .and_then(access_log::read)
        .is_some_and(|finding| finding.told == Told::Itself)
}

/// From the first beginning to the last end.
fn took(records: &[&StoredEvent]) -> Option<i64> {
    let ends = records.iter().filter(|r| r.event.duration_ms.is_some());
    let end = ends.map(|r| r.event.answered_at()).max()?;
    let begin = records.iter().map(|r| r.event.occurred_at).min()?;
    Some(end.since(begin).0)
}

fn client(attempt: &StoredEvent) -> Hop<'_> {
    Hop {
        vantage: Vantage::Client,
        name: attempt.event.service.clone(),
        product: Responder::Client,
        sight: Sight::Seen,
        why: None,
        records: vec![attempt],
        gave: None,
        got: attempt.event.status.map_or_else(
            || {
                attempt
                    .event
                    .error
                    .map_or(Got::Untold, |error| Got::Statuses(error.as_str().to_owned()))
            },
            |status| Got::Statuses(status.to_string()),
        ),
        answered: false,
        took_ms: attempt.event.duration_ms,
        resent: None,
    }
}

fn gateway<'a>(group: &Group<'a>, tries: Option<u32>) -> Hop<'a> {
    let last = group.records.last();
    let line = last.and_then(|record| record.event.log.as_deref());
    let finding = line.and_then(access_log::read);
    let got = match (&finding, line) {
        (Some(finding), _) if finding.told == Told::Itself && finding.contacted == Tri::No => {
            Got::AskedNobody
        }
        (finding, Some(line)) => match (line.value("upstream_status"), finding) {
            (Some(statuses), _) => Got::Statuses(statuses.to_owned()),
            (None, Some(finding)) if finding.told == Told::Upstream => finding
                .upstream_status
                .or(line.status.filter(|_| !finding.is_replaced))
                .map_or(Got::Untold, |status| Got::Statuses(status.to_string())),
            _ => Got::Untold,
        },
        _ => Got::Untold,
    };
    Hop {
        vantage: Vantage::Gateway,
        name: group.name.clone(),
        product: group.records.iter().map(|r| product(r)).next().unwrap_or(Responder::Unknown),
        sight: Sight::Seen,
        why: None,
        gave: last.and_then(|record| record.event.status),
        got,
        answered: false,
        took_ms: took(&group.records),
        resent: tries.map(|tries| {
            // A line for each request that it was sent: its own repeats come on top.
            let sent = u32::try_from(group.records.len()).unwrap_or(u32::MAX);
            tries.saturating_sub(sent)
        }),
        records: group.records.clone(),
    }
}

fn of_origin<'a>(records: &[&'a StoredEvent]) -> Hop<'a> {
    Hop {
        vantage: Vantage::Origin,
        name: Vantage::Origin.as_str().to_owned(),
        product: Responder::Origin,
        sight: Sight::Seen,
        why: None,
        gave: records.last().and_then(|record| record.event.status),
        got: Got::Untold,
        answered: false,
        took_ms: took(records),
        resent: None,
        records: records.to_vec(),
    }
}

fn missing<'a>(vantage: Vantage, name: String, sight: Sight, why: String) -> Hop<'a> {
    Hop {
        vantage,
        product: name.parse().unwrap_or(Responder::Unknown),
        name,
        sight,
        why: Some(why),
        records: Vec::new(),
        gave: None,
        got: Got::Untold,
        answered: false,
        took_ms: None,
        resent: None,
    }
}
