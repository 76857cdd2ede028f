//! What several vantages saw of one attempt, put together by identity: request, ray and trace ids,
//! and never by time (DESIGN 14).
//!
//! - [`Links`]: which records of gateways and origins are of an attempt.
//! - [`Ladder`]: who saw it, from the client to the origin, who answered, and who sent it again.
//! - [`Coverage`]: whether a record that isn't there means anything.
//!
//! Gateways replace ids: the id that a hop made is followed to the record of the hop behind it,
//! which has it as the id of its request. An id that several attempts carry names none of them; then
//! the records are told apart by span, by number, or by their order where as many are there with the
//! same answers. Time joins nothing. It puts records that are joined already in order, and rules out
//! what happened long before or after.

mod coverage;
mod ladder;

pub use coverage::{Coverage, NEAR, Sight};
pub use ladder::{Got, Hop, Ladder};

use super::classify::{Responder, summarize};
use super::event::Vantage;
use super::stored::StoredEvent;
use super::time::{MINUTE_MS, UnixMillis};
use std::collections::{HashMap, HashSet};

/// A record further from an attempt than this is of another request that had the same id: a cache
/// replays ids, and some clients use one for ever.
const FAR_MS: i64 = 15 * MINUTE_MS;

/// The forms in which ids of a request stand in records: request id, the id that a hop gave it, and
/// of a ray id also the digits alone, as logs have it.
pub fn ids(stored: &StoredEvent) -> Vec<String> {
    let event = &stored.event;
    let mut ids: Vec<String> = event.request_id.iter().cloned().collect();
    if let Some(ray) = event.ray_id.as_deref() {
        ids.extend(ray_forms(ray));
    }
    ids
}

/// A ray id as the response has it (`8f2a01b2c3d4e5f6-GRU`) and as logs do, without the place.
pub fn ray_forms(ray: &str) -> Vec<String> {
    let mut forms = vec![ray.to_owned()];
    if let Some((digits, place)) = ray.split_once('-')
        && digits.len() >= 4
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && (1..=4).contains(&place.len())
        && place.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        forms.push(digits.to_ascii_lowercase());
    }
    forms
}

/// The hop that wrote a record: `client`, `origin`, or a gateway's own name, else its product.
pub fn hop_name(stored: &StoredEvent) -> String {
    let event = &stored.event;
    match event.vantage {
        Vantage::Client | Vantage::Origin => event.vantage.as_str().to_owned(),
        Vantage::Gateway => match (&event.instance, product(stored)) {
            (Some(name), _) => name.clone(),
            (None, Responder::Unknown) => event.vantage.as_str().to_owned(),
            (None, product) => product.as_str().to_owned(),
        },
    }
}

/// The product that wrote a gateway's record, where it tells.
pub fn product(stored: &StoredEvent) -> Responder {
    let event = &stored.event;
    match (&event.log, &event.instance) {
        (Some(line), _) if line.product != Responder::Unknown => line.product,
        (_, Some(name)) => name.parse().unwrap_or(Responder::Unknown),
        _ => Responder::Unknown,
    }
}

/// What was found of one attempt.
#[derive(Debug, Clone, Default)]
pub struct Joined<'a> {
    /// Records of this very attempt, in the order of their time.
    pub records: Vec<&'a StoredEvent>,
    /// Records that share an id with it and may be of another attempt or another time. Never
    /// evidence.
    pub open: Vec<&'a StoredEvent>,
    /// Whether the attempt carries an id by which it could be found.
    pub has_id: bool,
}

/// Records by what identifies them, and the attempts that they may be of.
#[derive(Debug, Default)]
pub struct Links<'a> {
    by_id: HashMap<String, Vec<&'a StoredEvent>>,
    by_span: HashMap<(&'a str, &'a str), Vec<&'a StoredEvent>>,
    by_number: HashMap<(&'a str, u32), Vec<&'a StoredEvent>>,
    by_trace: HashMap<&'a str, Vec<&'a StoredEvent>>,
    sent_by_id: HashMap<String, Vec<&'a StoredEvent>>,
    sent_by_trace: HashMap<&'a str, Vec<&'a StoredEvent>>,
    sent_spans: HashSet<(&'a str, &'a str)>,
}

/// Trace and span of the caller.
fn span(stored: &StoredEvent) -> Option<(&str, &str)> {
    stored.event.trace_id.as_deref().zip(stored.event.span_id.as_deref())
}

fn is_same(a: &StoredEvent, b: &StoredEvent) -> bool {
    a.event.event_id == b.event.event_id && a.event.occurred_at == b.event.occurred_at
}

/// Whether both may have happened at the same time, whatever the clocks.
fn is_near(a: &StoredEvent, b: &StoredEvent) -> bool {
    let took = a.event.duration_ms.unwrap_or(0).max(b.event.duration_ms.unwrap_or(0)).max(0);
    let apart = a.event.occurred_at.since(b.event.occurred_at).0.saturating_abs();
    apart <= FAR_MS.saturating_add(took)
}

impl<'a> Links<'a> {
    /// Links `records` to `attempts`; attempts among the records are left out.
    pub fn new(
        attempts: impl IntoIterator<Item = &'a StoredEvent>,
        records: impl IntoIterator<Item = &'a StoredEvent>,
    ) -> Self {
        let mut links = Self::default();
        for attempt in attempts {
            for id in ids(attempt) {
                links.sent_by_id.entry(id).or_default().push(attempt);
            }
            if let Some(trace) = attempt.event.trace_id.as_deref() {
                links.sent_by_trace.entry(trace).or_default().push(attempt);
            }
            links.sent_spans.extend(span(attempt));
        }
        for record in records {
            if record.event.vantage == Vantage::Client {
                continue;
            }
            for id in ids(record) {
                links.by_id.entry(id).or_default().push(record);
            }
            if let Some(span) = span(record) {
                links.by_span.entry(span).or_default().push(record);
            }
            if let Some(operation) = record.event.operation_id.as_deref() {
                let number = (operation, record.event.attempt);
                links.by_number.entry(number).or_default().push(record);
            }
            if let Some(trace) = record.event.trace_id.as_deref() {
                links.by_trace.entry(trace).or_default().push(record);
            }
        }
        for sent in links.sent_by_id.values_mut() {
            sent.sort_by_key(|a| (a.event.occurred_at, a.event.attempt));
        }
        links
    }

    /// The records of `attempt`.
    pub fn find(&self, attempt: &'a StoredEvent) -> Joined<'a> {
        let mut search = Search { links: self, attempt, joined: Joined::default() };
        let own = ids(attempt);
        let trace = attempt.event.trace_id.as_deref();
        search.joined.has_id = !own.is_empty() || trace.is_some();
        if let Some(span) = span(attempt) {
            search.take_all(self.by_span.get(&span));
        }
        if let Some(operation) = attempt.event.operation_id.as_deref() {
            search.take_all(self.by_number.get(&(operation, attempt.event.attempt)));
        }
        for id in &own {
            match self.sent_by_id.get(id).map(Vec::as_slice) {
                Some(all @ [_, _, ..]) if all.iter().any(|other| !is_same(other, attempt)) => {
                    search.take_by_order(id, all);
                }
                _ => search.follow(id),
            }
        }
        // Of what a hop recorded, a trace alone doesn't tell which requests were behind it.
        if let Some(trace) = trace.filter(|_| attempt.event.vantage == Vantage::Client) {
            search.take_of_trace(trace);
        }
        let Joined { mut records, mut open, has_id } = search.joined;
        records.sort_by(|a, b| order(a).cmp(&order(b)));
        open.retain(|one| !records.iter().any(|record| is_same(record, one)));
        open.sort_by(|a, b| order(a).cmp(&order(b)));
        open.dedup_by(|a, b| is_same(a, b));
        Joined { records, open, has_id }
    }
}

fn order(stored: &StoredEvent) -> (UnixMillis, &str) {
    (stored.event.occurred_at, &stored.event.event_id)
}

/// Whether a record that doesn't name the attempt's span is of the request in whose course the attempt
/// was made: a server's span where the trace begins, which nobody in the trace called, or one of the
/// attempt's own service.
fn is_of_caller(attempt: &StoredEvent, record: &StoredEvent) -> bool {
    let (attempt, record) = (&attempt.event, &record.event);
    // The id of a span's event; records of other inputs have others.
    let own = record
        .trace_id
        .as_deref()
        .and_then(|trace| record.event_id.strip_prefix(trace)?.strip_prefix(':'));
    own.is_some_and(|own| {
        record.span_id.as_deref() == Some(own) || record.service == attempt.service
    })
}

struct Search<'l, 'a> {
    links: &'l Links<'a>,
    attempt: &'a StoredEvent,
    joined: Joined<'a>,
}

impl<'a> Search<'_, 'a> {
    fn holds(&self, record: &StoredEvent) -> bool {
        self.joined.records.iter().any(|known| is_same(known, record))
    }

    /// Whether a record names another attempt's span as its caller, or is the caller's own.
    fn is_of_another(&self, record: &StoredEvent) -> bool {
        let of = span(record);
        let is_sent = || of.is_some_and(|of| self.links.sent_spans.contains(&of));
        of != span(self.attempt) && (is_sent() || is_of_caller(self.attempt, record))
    }

    fn take_all(&mut self, records: Option<&Vec<&'a StoredEvent>>) {
        for record in records.into_iter().flatten() {
            self.take(record);
        }
    }

    /// Takes a record, and those of hops that know the request by the ids it has there.
    fn take(&mut self, record: &'a StoredEvent) {
        if self.holds(record) || self.is_of_another(record) {
            return;
        }
        if !is_near(self.attempt, record) {
            self.joined.open.push(record);
            return;
        }
        self.joined.records.push(record);
        for id in ids(record) {
            let sent = self.links.sent_by_id.get(&id).map_or(&[][..], Vec::as_slice);
            if sent.iter().all(|other| is_same(other, self.attempt)) {
                self.follow(&id);
            }
        }
    }

    fn follow(&mut self, id: &str) {
        self.take_all(self.links.by_id.get(id));
    }

    /// An id that several attempts carry: where a hop has as many records with it, and the same
    /// answers one by one, the order of both is the same.
    fn take_by_order(&mut self, id: &str, sent: &[&'a StoredEvent]) {
        let records = self.links.by_id.get(id).map_or(&[][..], Vec::as_slice);
        let free: Vec<&StoredEvent> = records
            .iter()
            .copied()
            .filter(|record| !self.holds(record) && !self.is_of_another(record))
            .collect();
        let mut hops: Vec<String> = free.iter().map(|record| hop_name(record)).collect();
        hops.sort();
        hops.dedup();
        let place = sent.iter().position(|other| is_same(other, self.attempt));
        let in_turn =
            sent.windows(2).all(|pair| pair[0].event.answered_at() <= pair[1].event.occurred_at);
        for hop in hops {
            let mut of_hop: Vec<&StoredEvent> =
                free.iter().copied().filter(|record| hop_name(record) == hop).collect();
            of_hop.sort_by(|a, b| order(a).cmp(&order(b)));
            let fits = in_turn
                && of_hop.len() == sent.len()
                && of_hop.iter().zip(sent).all(|(a, b)| a.event.status == b.event.status);
            match place.and_then(|place| of_hop.get(place)).filter(|_| fits) {
                Some(record) => self.take(record),
                None => self.joined.open.extend(of_hop),
            }
        }
    }

    /// A trace names an attempt where it holds no other one, or no other one to that upstream.
    fn take_of_trace(&mut self, trace: &str) {
        let sent = self.links.sent_by_trace.get(trace).map_or(&[][..], Vec::as_slice);
        let others = || sent.iter().filter(|other| !is_same(other, self.attempt));
        let host = &self.attempt.event.host;
        let is_alone = others().next().is_none();
        let is_alone_there = others().all(|other| other.event.host != *host);
        let records = self.links.by_trace.get(trace).map_or(&[][..], Vec::as_slice);
        for record in records {
            if is_alone || (is_alone_there && record.event.host == *host) {
                self.take(record);
            } else if !self.holds(record) && !self.is_of_another(record) {
                let is_there = record.event.host == *host;
                self.joined.open.extend(is_there.then_some(*record));
            }
        }
    }
}

/// Judges attempts anew where records prove who answered, so that what is said of them rests on the
/// proof. Whether an attempt counts as limited stays as it was counted.
pub fn prove(attempts: &mut [StoredEvent], records: &[StoredEvent]) {
    if records.is_empty() {
        return;
    }
    let proven: Vec<_> = {
        let links = Links::new(attempts.iter(), records);
        attempts
            .iter()
            .map(|attempt| {
                if !attempt.verdict.limited {
                    return None;
                }
                let joined = links.find(attempt);
                if joined.records.is_empty() {
                    return None;
                }
                let ladder = Ladder::unjudged(attempt, &joined);
                Some(summarize(ladder.response.as_ref()?))
            })
            .collect()
    };
    for (attempt, summary) in attempts.iter_mut().zip(proven) {
        let Some(summary) = summary else { continue };
        let verdict = &mut attempt.verdict;
        verdict.returned_by = summary.returned_by;
        verdict.layer = summary.layer;
        verdict.outcome = summary.outcome;
        verdict.confidence = summary.confidence;
        verdict.limit_type = summary.limit_type;
        verdict.reached_origin = summary.reached_origin;
    }
}

#[cfg(test)]
mod tests;
