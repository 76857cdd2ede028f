//! Lines to observations of a gateway or of the origin.
//!
//! Each goes through the same door as a native event: lengths, hosts and times are checked there,
//! and what looks secret is replaced.

use super::split::Line;
use super::{Format, LogRecord, NO_OBSERVATION, Zone, line, parse, route};
use crate::domain::access_log::LogFacts;
use crate::domain::classify::Responder;
use crate::domain::event::{Event, MOST_AHEAD, Vantage};
use crate::domain::key_hash::KeyHasher;
use crate::domain::redact;
use crate::domain::stored::Inserted;
use crate::domain::time::UnixMillis;
use crate::ingest::native::{self, DecodeOptions, RawKeys};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Rejected lines that are kept for a look, of all that were read.
const KEPT_REJECTS: usize = 100;
/// Characters of a rejected line that are kept.
const SHOWN: usize = 200;
/// Lines that are remembered to tell repeats in one body from each other.
const REMEMBERED: usize = 200_000;
/// The service, where nobody says who called.
const UNKNOWN: &str = "unknown";

/// What the sender says about the lines, beside what they say themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Who called; `unknown` where absent.
    pub service: Option<String>,
    /// The deployment.
    pub environment: Option<String>,
    /// The upstream, for lines that name no host.
    pub host: Option<String>,
    /// Who wrote the log: a gateway, or the origin.
    pub vantage: Vantage,
    /// What the gateway is called, to tell it from others; its product where absent.
    pub name: Option<String>,
    /// A name of the file that stays the same over rotation: lines are then told apart by their
    /// place in it, and by their content where absent.
    pub source: Option<String>,
    /// The zone of times that name none.
    pub time_zone: Zone,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            service: None,
            environment: None,
            host: None,
            vantage: Vantage::Gateway,
            name: None,
            source: None,
            time_zone: Zone::default(),
        }
    }
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub error: String,
    /// Its beginning, with what looks secret replaced.
    pub text: String,
}

/// Some lines, read.
#[derive(Debug, Default)]
pub struct Piece {
    /// Lines that were looked at.
    pub lines: u64,
    /// What they are, in their order.
    pub events: Vec<Event>,
    /// When each of these happened.
    pub times: Vec<UnixMillis>,
    /// Lines that could not be read.
    pub rejected: Vec<RejectedLine>,
    /// Header lines and empty ones.
    pub comments: u64,
    /// Requests that the gateway made to itself.
    pub internal: u64,
    /// Lines that end early and were read as far as they go.
    pub cut: u64,
    /// Lines whose time names no zone.
    pub local_times: u64,
    /// The zone that those were read in.
    pub time_zone: String,
    /// Values replaced because they looked secret.
    pub redactions: u64,
}

/// Reads lines of one log.
#[derive(Debug)]
pub struct Reader<'h> {
    format: Option<Format>,
    /// The format of the last line, tried first where none is named.
    last: Option<Format>,
    naming: Naming,
    hasher: &'h KeyHasher,
    seen: HashMap<[u8; 16], u32>,
}

impl<'h> Reader<'h> {
    /// Without a format each line is looked at.
    pub fn new(format: Option<Format>, naming: Naming, hasher: &'h KeyHasher) -> Self {
        Self { format, last: None, naming, hasher, seen: HashMap::new() }
    }

    /// Reads some lines.
    pub fn read(&mut self, lines: &[Line]) -> Piece {
        let time_zone = self.naming.time_zone.name().to_owned();
        let mut piece = Piece { time_zone, ..Piece::default() };
        let mut body = Vec::with_capacity(lines.len().saturating_mul(400));
        let mut kept: Vec<(&Line, Option<LogFacts>)> = Vec::with_capacity(lines.len());
        for line in lines {
            piece.lines = piece.lines.saturating_add(1);
            match self.record(&line.bytes) {
                Ok(record) if record.is_internal => piece.internal += 1,
                Ok(record) => {
                    piece.cut += u64::from(record.is_cut);
                    piece.local_times += u64::from(record.is_local);
                    match self.native(&record, line) {
                        Ok(item) => {
                            // A struct of texts and numbers has nothing that can't be written.
                            if serde_json::to_writer(&mut body, &item).is_ok() {
                                body.push(b'\n');
                                let facts = record.facts;
                                kept.push((line, facts.is_telling().then_some(facts)));
                            }
                        }
                        Err(error) => piece.reject(line, error),
                    }
                }
                Err(error) if error.is_comment => piece.comments += 1,
                Err(error) => piece.reject(line, error.reason),
            }
        }
        self.admit(&body, kept, &mut piece);
        piece
    }

    /// Whether a line that has no end yet can be read, and nothing of it is missing that shows.
    pub fn is_whole(&mut self, unfinished: &[u8]) -> bool {
        self.record(unfinished).is_ok_and(|record| !record.is_cut)
    }

    fn record(&mut self, bytes: &[u8]) -> Result<LogRecord, super::LineError> {
        let named = self.format.or(self.last);
        let first = parse(named, bytes);
        if self.format.is_some() || named.is_none() || first.is_ok() {
            self.last = self.last.or_else(|| super::detect(bytes));
            return first;
        }
        match parse(None, bytes) {
            Ok(record) => {
                self.last = super::detect(bytes);
                Ok(record)
            }
            Err(error) => Err(error),
        }
    }

    /// The record as a native event.
    fn native<'r>(&mut self, record: &'r LogRecord, line: &Line) -> Result<Native<'r>, String> {
        if self.format == Some(Format::NginxError) || self.last == Some(Format::NginxError) {
            return Err(NO_OBSERVATION.to_owned());
        }
        let Some(at) = record.at else { return Err("no time that can be read".to_owned()) };
        let at = if record.is_local { self.naming.time_zone.local(at) } else { at };
        let product = record.facts.product.as_str();
        let host = record.host.as_deref().filter(|host| is_host(host)).map(ToOwned::to_owned);
        let host = host.or_else(|| self.naming.host.clone());
        let service = self.naming.service.clone();
        let address = record.client_address.as_deref();
        let name = self.naming.name.clone().or_else(|| {
            let is_known = record.facts.product != Responder::Unknown;
            (is_known && self.naming.vantage == Vantage::Gateway).then(|| product.to_owned())
        });
        Ok(Native {
            event_id: self.event_id(line),
            occurred_at: at.0,
            duration_ms: record.duration_ms,
            vantage: self.naming.vantage,
            service: service.unwrap_or_else(|| UNKNOWN.to_owned()),
            environment: self.naming.environment.clone(),
            instance: name,
            method: record.method.as_deref(),
            host: host.unwrap_or_else(|| product.to_owned()),
            route: record.path.as_deref().map(route::of_path),
            status: record.facts.status,
            // The client went away before there was an answer.
            error: record.facts.status.is_none().then_some("cancelled"),
            retry_after: record.retry_after.as_deref(),
            request_id: record.request_id.as_deref(),
            ray_id: record.gateway_request_id.as_deref(),
            trace_id: record.trace_id.as_deref(),
            span_id: record.span_id.as_deref(),
            client_address_hash: address.map(|address| self.hasher.hash(address)),
        })
    }

    /// An id that the same line has whenever it is sent again.
    fn event_id(&mut self, line: &Line) -> String {
        let mut digest = Sha256::new();
        digest.update(self.naming.vantage.as_str());
        if let Some(source) = &self.naming.source {
            digest.update([1]);
            digest.update(source);
            digest.update([0]);
            digest.update(line.offset.to_be_bytes());
            digest.update(line.content());
            return short(&digest.finalize());
        }
        digest.update([0]);
        for name in [&self.naming.service, &self.naming.environment, &self.naming.host] {
            digest.update(name.as_deref().unwrap_or_default());
            digest.update([0]);
        }
        digest.update(line.content());
        let content = digest.clone().finalize();
        let mut key = [0; 16];
        key.iter_mut().zip(content).for_each(|(to, from)| *to = from);
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let times = self.seen.entry(key).or_default();
        digest.update(times.to_be_bytes());
        *times = times.saturating_add(1);
        short(&digest.finalize())
    }

    /// Takes the events through the door of native ones, and puts back what their lines told.
    fn admit(&self, body: &[u8], kept: Vec<(&Line, Option<LogFacts>)>, piece: &mut Piece) {
        let options = DecodeOptions {
            hasher: self.hasher,
            raw_keys: RawKeys::Hash,
            max_items: usize::MAX,
            format: native::Format::Ndjson,
        };
        let Ok(decoded) = native::decode(body, &options) else { return };
        piece.redactions = decoded.redactions;
        for reject in decoded.rejects {
            if let Some((line, _)) = kept.get(reject.index) {
                let field = reject.field.map(|field| format!("{field}: ")).unwrap_or_default();
                piece.reject(line, format!("{field}{}", reject.error));
            }
        }
        piece.rejected.sort_by_key(|rejected| rejected.line);
        let mut kept: Vec<Option<(&Line, Option<LogFacts>)>> = kept.into_iter().map(Some).collect();
        for (index, mut event) in decoded.events {
            let Some((_, facts)) = kept.get_mut(index).and_then(Option::take) else { continue };
            event.log = facts.map(|facts| Box::new(redacted(facts, &mut event.redactions)));
            piece.times.push(event.occurred_at);
            piece.events.push(event);
        }
    }
}

/// The fields of a native event that lines fill.
#[derive(Serialize)]
struct Native<'r> {
    event_id: String,
    occurred_at: i64,
    duration_ms: Option<i64>,
    vantage: Vantage,
    service: String,
    environment: Option<String>,
    instance: Option<String>,
    method: Option<&'r str>,
    host: String,
    route: Option<String>,
    status: Option<u16>,
    error: Option<&'static str>,
    retry_after: Option<&'r str>,
    request_id: Option<&'r str>,
    ray_id: Option<&'r str>,
    trace_id: Option<&'r str>,
    span_id: Option<&'r str>,
    client_address_hash: Option<String>,
}

impl Piece {
    fn reject(&mut self, line: &Line, error: String) {
        let text = shown(&line.bytes);
        self.rejected.push(RejectedLine { line: line.number, error, text });
    }
}

/// What became of all lines that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that are on disk now and weren't before.
    pub stored: u64,
    /// Lines that were there already.
    pub duplicates: u64,
    /// Lines of before what is kept; not stored.
    pub expired: u64,
    /// Header lines and empty ones.
    pub comments: u64,
    /// Requests that the gateway made to itself; not stored.
    pub internal: u64,
    /// Lines that end early and were read as far as they go.
    pub cut: u64,
    /// Stored lines that happened more than five minutes after now.
    pub ahead_of_time: u64,
    /// Lines whose time names no zone.
    pub local_times: u64,
    /// The zone that those were read in, where there were any.
    pub time_zone: Option<String>,
    /// Values that looked secret, replaced.
    pub redactions: u64,
    /// Lines that could not be read.
    pub wrong: u64,
    /// The first of them.
    pub rejected: Vec<RejectedLine>,
}

impl Totals {
    /// Lines that were requests of this format.
    pub const fn understood(&self) -> u64 {
        self.lines.saturating_sub(self.comments).saturating_sub(self.wrong)
    }

    /// Adds a piece with what became of its events up to `now`.
    pub fn add(&mut self, piece: &Piece, results: &[Inserted], now: UnixMillis) {
        let count = |kinds: &[Inserted]| {
            let found = results.iter().filter(|result| kinds.contains(result)).count();
            u64::try_from(found).unwrap_or(u64::MAX)
        };
        self.lines += piece.lines;
        self.stored += count(&[Inserted::Stored, Inserted::IdConflict]);
        self.duplicates += count(&[Inserted::Duplicate]);
        self.expired += count(&[Inserted::Expired]);
        self.comments += piece.comments;
        self.internal += piece.internal;
        self.cut += piece.cut;
        let is_ahead =
            |(result, at): &(&Inserted, &UnixMillis)| result.is_new() && at.since(now) > MOST_AHEAD;
        let ahead = results.iter().zip(&piece.times).filter(is_ahead).count();
        self.ahead_of_time += u64::try_from(ahead).unwrap_or(u64::MAX);
        self.local_times += piece.local_times;
        if piece.local_times > 0 {
            self.time_zone = Some(piece.time_zone.clone());
        }
        self.redactions += piece.redactions;
        self.wrong += u64::try_from(piece.rejected.len()).unwrap_or(u64::MAX);
        let room = KEPT_REJECTS.saturating_sub(self.rejected.len());
        self.rejected.extend(piece.rejected.iter().take(room).cloned());
    }
}

impl Totals {
    /// Adds what a server told of a body whose first line is number `first` of the whole.
    pub fn merge(&mut self, told: Self, first: u64) {
        self.lines += told.lines;
        self.stored += told.stored;
        self.duplicates += told.duplicates;
        self.expired += told.expired;
        self.comments += told.comments;
        self.internal += told.internal;
        self.cut += told.cut;
        self.ahead_of_time += told.ahead_of_time;
        self.local_times += told.local_times;
        self.time_zone = told.time_zone.or(self.time_zone.take());
        self.redactions += told.redactions;
        self.wrong += told.wrong;
        let room = KEPT_REJECTS.saturating_sub(self.rejected.len());
        let before = first.saturating_sub(1);
        self.rejected.extend(told.rejected.into_iter().take(room).map(|rejected| RejectedLine {
            line: rejected.line.saturating_add(before),
            ..rejected
        }));
    }
}

/// Half a digest in hexadecimal: enough to tell lines apart.
fn short(digest: &[u8]) -> String {
    hex::encode(digest.get(..16).unwrap_or(digest))
}

/// The beginning of a line, for a person.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(4096)).unwrap_or_default());
    let text = redact::text(&text.replace(|c: char| c.is_control(), " ")).text;
    line::capped(&text, SHOWN)
}

/// Whether a host that a client sent may be one; whatever else stands there is not kept.
fn is_host(text: &str) -> bool {
    let is_part =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
    (1..=253).contains(&text.len())
        && text.bytes().all(is_part)
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

/// Fields with what looks secret replaced: a server may write anything into its status or name.
fn redacted(mut facts: LogFacts, redactions: &mut u32) -> LogFacts {
    for (_, value) in &mut facts.fields {
        let clean = redact::text(value);
        *redactions = redactions.saturating_add(clean.count);
        *value = clean.text.replace(|c: char| c.is_control(), "\u{fffd}");
    }
    facts
}
