//! `http.client.request.duration` and its older name: how many requests clients counted.
//!
//! Of a histogram, of either kind, the count alone is read. Its names go through the door of native
//! events as those of spans do, so that both name an upstream alike and nothing secret passes.
//! Everything that a sender says of a series, and its start, make its stream: two processes under
//! one name, or one that was started anew, are told apart by it.

use super::{DecodeError, Encoding, Options, draft, json, protobuf};
use crate::domain::spans::mapping;
use crate::domain::spans::{Attributes, Kind, RawSpan, SpanId, SpanKey, TraceId};
use crate::domain::time::UnixMillis;
use crate::domain::volumes::{Metric, Point, Series, StreamId, Temporality};
use crate::ingest::native;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// What was read of a body.
#[derive(Debug, Default)]
pub struct Volumes {
    /// The data points that count requests of HTTP clients.
    pub points: Vec<Point>,
    /// How many of such could not be read.
    pub rejected: usize,
    /// Whose they are, by service.
    pub rejected_of: BTreeMap<String, usize>,
    /// Why, of the first of them.
    pub problems: Vec<String>,
}

/// A metric around its data points.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) resource: &'a Attributes,
    pub(super) scope: &'a str,
    pub(super) metric: Metric,
    pub(super) temporality: Option<Temporality>,
}

/// A data point as a decoder hands it over.
#[derive(Debug, Default)]
pub(super) struct RawPoint {
    pub(super) attributes: Attributes,
    pub(super) start_ns: u64,
    pub(super) time_ns: u64,
    pub(super) count: u64,
    /// Bit 0: there is no value (`NO_RECORDED_VALUE`).
    pub(super) flags: u64,
}

/// From the number of the enum; `None` for "unspecified" and what isn't known.
pub(super) const fn temporality(number: u64) -> Option<Temporality> {
    match number {
        1 => Some(Temporality::Delta),
        2 => Some(Temporality::Cumulative),
        _ => None,
    }
}

/// The metric of this name, where it is one that is read.
pub(super) fn wanted(name: &str) -> Option<Metric> {
    name.parse().ok()
}

/// Reads an `ExportMetricsServiceRequest`, whole and inflated: data points of HTTP clients' durations.
/// Other metrics are passed over, and nothing of them is kept.
///
/// # Errors
/// Where the body can't be told apart into metrics, or holds too many data points that are read.
pub fn volumes(
    body: &[u8],
    encoding: Encoding,
    options: &Options<'_>,
) -> Result<Volumes, DecodeError> {
    let mut sink = Sink { options, volumes: Volumes::default(), seen: 0 };
    match encoding {
        Encoding::Protobuf => protobuf::metrics(body, &mut sink)?,
        Encoding::Json => json::metrics(body, &mut sink)?,
    }
    Ok(sink.volumes)
}

/// Takes data points while they are read.
pub(super) struct Sink<'o> {
    options: &'o Options<'o>,
    volumes: Volumes,
    seen: usize,
}

impl Sink<'_> {
    /// Counts a data point; no more may follow where the cap is reached.
    pub(super) fn count(&mut self) -> Result<(), DecodeError> {
        self.seen += 1;
        if self.seen > self.options.max_items {
            return Err(DecodeError::TooMany { cap: self.options.max_items });
        }
        Ok(())
    }

    /// Takes a data point, or why it can't be read.
    pub(super) fn take(&mut self, around: &Around<'_>, point: Result<RawPoint, String>) {
        match point.and_then(|raw| point_of(around, &raw, self.options)) {
            Ok(point) => self.volumes.points.extend(point),
            Err(error) => {
                self.volumes.rejected += 1;
                let service = service_of(around, self.options);
                *self.volumes.rejected_of.entry(service).or_default() += 1;
                if self.volumes.problems.len() < super::MAX_PROBLEMS {
                    self.volumes.problems.push(format!("data point {}: {error}", self.seen));
                }
            }
        }
    }
}

/// The fields of a native event that a data point can fill.
#[derive(Serialize)]
struct Draft<'a> {
    occurred_at: u64,
    service: &'a str,
    environment: Option<&'a str>,
    host: &'a str,
    status: Option<u16>,
    error: Option<&'static str>,
}

/// The name of a sender whose data point says nothing that could be used, through the same door.
fn service_of(around: &Around<'_>, options: &Options<'_>) -> String {
    let facts = draft::SenderFacts::of(around.resource);
    let draft = Draft {
        // Any moment will do.
        occurred_at: 1_700_000_000_000,
        service: &facts.service,
        environment: None,
        host: "unknown",
        status: Some(200),
        error: None,
    };
    native::admit(&draft, options.hasher).map(|(event, _)| event.service).unwrap_or_default()
}

/// What a data point says; `None` where it says nothing.
fn point_of(
    around: &Around<'_>,
    raw: &RawPoint,
    options: &Options<'_>,
) -> Result<Option<Point>, String> {
    if raw.flags & 1 == 1 {
        return Ok(None);
    }
    let temporality = around
        .temporality
        .ok_or("aggregationTemporality: expected delta (1) or cumulative (2)".to_owned())?;
    let count =
        i64::try_from(raw.count).map_err(|_| "count: expected less than 2^63".to_owned())?;
    let request = mapping::request(&as_span(raw), around.scope);
    let host = request.host.ok_or_else(|| {
        "attributes: server.address, or its older net.peer.name, is missing, so that nobody knows \
         whom it called (httpx of Python: set OTEL_SEMCONV_STABILITY_OPT_IN=http)"
            .to_owned()
    })?;
    let facts = draft::SenderFacts::of(around.resource);
    let draft = Draft {
        occurred_at: raw.time_ns / 1_000_000,
        service: &facts.service,
        environment: facts.sender.environment.as_deref(),
        host: &host,
        status: request.status,
        error: request.error.map(crate::domain::event::AttemptError::as_str),
    };
    let (event, _) = native::admit(&draft, options.hasher)
        .map_err(|reject| format!("{}: {}", reject.field.unwrap_or_default(), reject.error))?;
    let answer = match (event.status, event.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => error.as_str().to_owned(),
        (None, None) => return Err("neither a status code nor an error".to_owned()),
    };
    let [stream, sender] = streams(around, raw, temporality);
    let at = |ns: u64| UnixMillis(i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX));
    Ok(Some(Point {
        stream,
        sender,
        series: Series {
            metric: around.metric,
            service: event.service,
            environment: event.environment.unwrap_or_default(),
            upstream: event.host,
            answer,
        },
        temporality,
        from: (raw.start_ns > 0).then(|| at(raw.start_ns)),
        to: at(raw.time_ns),
        count,
    }))
}

/// A data point's attributes are those of a client's span, so that they are read alike.
fn as_span(raw: &RawPoint) -> RawSpan {
    RawSpan {
        key: SpanKey { trace: TraceId::ANY, span: SpanId::ANY },
        parent: None,
        kind: Kind::Client,
        name: String::new(),
        start_ns: raw.start_ns,
        end_ns: raw.time_ns,
        attributes: raw.attributes.clone(),
        events: Vec::new(),
        is_error: false,
        status_message: String::new(),
        trace_state: String::new(),
    }
}

/// The ids of a point's own stream and of its sender's.
fn streams(around: &Around<'_>, raw: &RawPoint, temporality: Temporality) -> [StreamId; 2] {
    let mut sender = Sha256::new();
    feed_all(&mut sender, around.resource);
    feed(&mut sender, around.scope.as_bytes());
    feed(&mut sender, around.metric.as_str().as_bytes());
    feed(&mut sender, &raw.start_ns.to_be_bytes());
    let mut own = sender.clone();
    feed_all(&mut own, &raw.attributes);
    if temporality == Temporality::Delta {
        feed(&mut own, &raw.time_ns.to_be_bytes());
    }
    [own, sender].map(|hash| {
        let digest = hash.finalize();
        StreamId(hex::encode(digest.iter().copied().take(16).collect::<Vec<u8>>()))
    })
}

/// Attributes in the order of their names, since no order is promised.
fn feed_all(hash: &mut Sha256, attributes: &Attributes) {
    let mut all: Vec<_> = attributes.0.iter().map(|(name, value)| (name, value.text())).collect();
    all.sort();
    feed(hash, &all.len().to_be_bytes());
    for (name, value) in all {
        feed(hash, name.as_bytes());
        feed(hash, value.unwrap_or_default().as_bytes());
    }
}

/// Bytes behind their number, so that no two lists of them look alike.
fn feed(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(bytes.len().to_be_bytes());
    hash.update(bytes);
}
