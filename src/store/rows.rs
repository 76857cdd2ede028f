//! Between events and rows: what each column holds, written and read back.

use super::reader::Row;
use super::series::Names;
use super::{Kept, StoreError, detail};
use crate::domain::access_log::LogFacts;
use crate::domain::checklist::operations::promise_bucket;
use crate::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};
use crate::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use crate::domain::spans::Marks;
use crate::domain::stored::{Ending, NewEvent, StoredEvent, VerdictSummary};
use crate::domain::time::UnixMillis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

/// Longest id that is kept as it is, in bytes. PostgreSQL can't index more than about 2,700 bytes
/// of a row; the door refuses far shorter ones, so that this is a second line of defence.
const MAX_ID: usize = 1_000;
/// As [`MAX_ID`], for texts that share one index entry with three others.
const MAX_NAME: usize = 600;

/// An event made ready for the database: everything that can be computed without it.
#[derive(Debug, Clone)]
pub struct Draft {
    pub(super) event_id: String,
    pub(super) occurred_at: i64,
    pub(super) series: SeriesKey,
    /// Whether its series keeps only part of its names.
    pub(super) has_own_names: bool,
    pub(super) class: Class,
    pub(super) attempt: u32,
    pub(super) count: u32,
    pub(super) duration_ms: Option<i64>,
    /// Key, address, account, instance: the order of [`super::batch::ACTORS`].
    pub(super) actors: [Option<Arc<str>>; 4],
    /// Of a limited client attempt: the bucket of the wait that was promised.
    pub(super) wait_bucket: Option<i64>,
    pub(super) operation_id: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) ray_id: Option<String>,
    pub(super) trace_id: Option<String>,
    pub(super) idempotency_key_hash: Option<String>,
    pub(super) body_hash: Option<String>,
    /// Compressed ([`super::detail`]).
    pub(super) detail: Vec<u8>,
    pub(super) redactions: u32,
}

impl Draft {
    /// Makes `new` ready. Zero bytes, which PostgreSQL's texts can't hold, become U+FFFD on both
    /// databases, so that an event is the same on both.
    pub fn new(new: NewEvent) -> Self {
        Self::keeping(new, Kept::Whole)
    }

    /// As [`Self::new`], in a series that keeps only so much of the event's names; the event keeps
    /// them all.
    pub fn keeping(new: NewEvent, kept: Kept) -> Self {
        let NewEvent { event, verdict } = new;
        let class = Class::of(&event, &verdict);
        let is_refusal = class.vantage == Vantage::Client && class.limited;
        let received_at = event.occurred_at;
        let stored = StoredEvent { event, verdict, received_at };
        let wait_bucket = is_refusal.then(|| promise_bucket(&stored));
        let StoredEvent { mut event, .. } = stored;
        let fit = |name: String| fitting(name, MAX_NAME);
        let series = (kept != Kept::Whole)
            .then(|| kept.names(SeriesKey::names_of(&event)).map(|name| fit(name.to_owned())));
        let own_names = [
            std::mem::take(&mut event.service),
            std::mem::take(&mut event.host),
            event.environment.take().unwrap_or_default(),
            event.route.take().unwrap_or_default(),
        ]
        .map(fit);
        let ([service, upstream, environment, route], own_names) = match series {
            Some(series) => (series, Some(own_names)),
            None => (own_names, None),
        };
        let redactions = event.redactions;
        let word = |text: Option<String>| text.map(|t| Arc::from(fitting(t, MAX_NAME)));
        let id = |text: Option<String>| text.map(|t| fitting(t, MAX_ID));
        let detail = Detail {
            priority: event.priority,
            method: event.method,
            retry_after: event.retry_after,
            computed_delay_ms: event.computed_delay_ms,
            delay_source: event.delay_source,
            layer: event.layer,
            key_kind: event.key_kind,
            attempts_max: event.attempts_max,
            timeout_ms: event.timeout_ms,
            deadline_ms: event.deadline_ms,
            headers: event.headers,
            content_type: event.content_type,
            error_code: event.error_code,
            body_sample: event.body_sample,
            span_id: event.span_id,
            log: event.log,
            redactions,
            confidence: verdict.confidence,
            promised_ms: verdict.promised_ms,
            promised_by_date: verdict.promised_by_date,
            clock_skew_ms: verdict.clock_skew_ms,
            derived: event.derived,
            own_names,
        };
        Self {
            event_id: fitting(event.event_id, MAX_ID),
            occurred_at: event.occurred_at.0,
            series: SeriesKey { service, upstream, environment, route },
            has_own_names: kept != Kept::Whole,
            class,
            attempt: event.attempt,
            count: event.count,
            duration_ms: event.duration_ms,
            actors: [
                word(event.key_hash),
                word(event.client_address_hash),
                word(event.account_hash),
                word(event.instance),
            ],
            wait_bucket,
            operation_id: id(event.operation_id),
            request_id: id(event.request_id),
            ray_id: id(event.ray_id),
            trace_id: id(event.trace_id),
            idempotency_key_hash: id(event.idempotency_key_hash),
            body_hash: id(event.body_hash),
            detail: detail::pack(&detail),
            redactions,
        }
    }

    /// Service, upstream and environment of its series; an empty text for no environment.
    pub fn names(&self) -> [&str; 3] {
        [&self.series.service, &self.series.upstream, &self.series.environment]
    }
}

/// A text without zero bytes that fits an index: a longer one is cut and its hash put behind, so
/// that two long ones stay two.
fn fitting(text: String, limit: usize) -> String {
    let has_zero = memchr::memchr(0, text.as_bytes()).is_some();
    let text = if has_zero { text.replace('\0', "\u{fffd}") } else { text };
    if text.len() <= limit {
        return text;
    }
    let head: String = text.chars().take(limit / 4 - 70).collect();
    format!("{head}… sha256:{}", hex::encode(Sha256::digest(text.as_bytes())))
}

/// Names of a series; an empty text where the event has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) service: String,
    pub(super) upstream: String,
    pub(super) environment: String,
    pub(super) route: String,
}

impl SeriesKey {
    /// The same without the route.
    pub(super) fn pair(&self) -> Self {
        Self { route: String::new(), ..self.clone() }
    }

    /// The names of an event's series; an empty text for what it doesn't have.
    pub(super) fn names_of(event: &Event) -> Names<'_> {
        [
            &event.service,
            &event.host,
            event.environment.as_deref().unwrap_or_default(),
            event.route.as_deref().unwrap_or_default(),
        ]
    }
}

/// What became of an attempt: every word that counts depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) vantage: Vantage,
    pub(super) status: Option<u16>,
    pub(super) error: Option<AttemptError>,
    pub(super) outcome: Option<Outcome>,
    pub(super) retry_layer: Option<RetryLayer>,
    pub(super) returned_by: Responder,
    pub(super) layer: Layer,
    pub(super) certainty: Certainty,
    pub(super) limited: bool,
    pub(super) limit_type: LimitType,
    pub(super) reached_origin: Tri,
}

impl Class {
    fn of(event: &Event, verdict: &VerdictSummary) -> Self {
        Self {
            vantage: event.vantage,
            status: event.status,
            error: event.error,
            outcome: event.outcome,
            retry_layer: event.retry_layer,
            returned_by: verdict.returned_by,
            layer: verdict.layer,
            certainty: verdict.outcome,
            limited: verdict.limited,
            limit_type: verdict.limit_type,
            reached_origin: verdict.reached_origin,
        }
    }

    /// The part that [`crate::domain::stored::Counts`] look at.
    pub(super) const fn ending(&self) -> Ending {
        Ending {
            status: self.status,
            error: self.error,
            outcome: self.outcome,
            limited: self.limited,
        }
    }

    /// Status as stored; 0 where there was none.
    pub(super) fn status_code(&self) -> i64 {
        self.status.map_or(0, i64::from)
    }

    /// The other columns as stored, in the order of the table.
    pub(super) fn texts(&self) -> [&'static str; 9] {
        [
            self.vantage.as_str(),
            self.error.map_or("", AttemptError::as_str),
            self.outcome.map_or("", Outcome::as_str),
            self.retry_layer.map_or("", RetryLayer::as_str),
            self.returned_by.as_str(),
            self.layer.as_str(),
            self.certainty.as_str(),
            self.limit_type.as_str(),
            self.reached_origin.as_str(),
        ]
    }

    /// Reads the columns of a class from column `at` on.
    pub(super) fn read(row: &Row, at: usize) -> Result<Self, StoreError> {
        let status = row.int(at + 1)?;
        Ok(Self {
            vantage: word(row, at, "vantage")?,
            status: match status {
                0 => None,
                code => Some(u16::try_from(code).map_err(|_| corrupt("classes", "status", &code))?),
            },
            error: optional_word(row, at + 2, "error")?,
            outcome: optional_word(row, at + 3, "outcome")?,
            retry_layer: optional_word(row, at + 4, "retry_layer")?,
            returned_by: word(row, at + 5, "returned_by")?,
            layer: word(row, at + 6, "layer")?,
            certainty: word(row, at + 7, "certainty")?,
            limited: row.int(at + 8)? != 0,
            limit_type: word(row, at + 9, "limit_type")?,
            reached_origin: word(row, at + 10, "reached_origin")?,
        })
    }
}

/// The fields of an event and its verdict that no question filters by, as one JSON text.
#[derive(Debug, Serialize, Deserialize)]
struct Detail {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    computed_delay_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<Layer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_sample: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Box<LogFacts>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    redactions: u32,
    confidence: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    promised_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "is_false")]
    promised_by_date: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_skew_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    derived: Option<Box<Marks>>,
    /// Service, upstream, environment and route, where the series keeps only part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_names: Option<[String; 4]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(b: &bool) -> bool {
    !*b
}

/// Where the numbers of an event's row are that stand for names: series, class, and each actor.
pub(super) const SERIES_AT: usize = 6;
pub(super) const CLASS_AT: usize = 7;
pub(super) const ACTORS_AT: [usize; 4] = [8, 9, 10, 11];
/// Where the word of each actor is, in a row that has it.
pub(super) const WORDS_AT: [usize; 4] = [19, 20, 21, 22];

/// What the numbers in the rows of some events stand for.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) series: Arc<HashMap<i64, Arc<SeriesKey>>>,
    pub(super) classes: Arc<HashMap<i64, Class>>,
    pub(super) words: Arc<HashMap<i64, String>>,
}

impl Named {
    pub(super) fn series(&self, id: i64) -> Result<&SeriesKey, StoreError> {
        let series = self.series.get(&id).ok_or_else(|| unnamed("series_id", id))?;
        Ok(series)
    }

    pub(super) fn class(&self, id: i64) -> Result<Class, StoreError> {
        self.classes.get(&id).copied().ok_or_else(|| unnamed("class_id", id))
    }

    fn word(&self, row: &Row, at: usize) -> Result<Option<String>, StoreError> {
        let word = |id| self.words.get(&id).cloned().ok_or_else(|| unnamed("words", id));
        row.int_or_none(at)?.map(word).transpose()
    }
}

fn unnamed(column: &'static str, id: i64) -> StoreError {
    corrupt("events", column, &format_args!("nothing has the number {id}"))
}

/// Reads the columns of a stored event.
pub(super) fn stored_event(row: &Row, named: &Named) -> Result<StoredEvent, StoreError> {
    let some = |text: String| Some(text).filter(|t| !t.is_empty());
    let series = named.series(row.int(SERIES_AT)?)?;
    let class = named.class(row.int(CLASS_AT)?)?;
    let [key, address, account, instance] = ACTORS_AT;
    let detail: Detail = serde_json::from_str(&detail::unpack(row.bytes(18)?)?)
        .map_err(|error| corrupt("events", "detail", &error))?;
    let number = |at: usize, column| {
        u32::try_from(row.int(at)?).map_err(|error| corrupt("events", column, &error))
    };
    let [service, host, environment, route] = detail.own_names.unwrap_or_else(|| {
        let SeriesKey { service, upstream, environment, route } = series;
        [service, upstream, environment, route].map(String::clone)
    });
    let event = Event {
        event_id: row.id(0)?.unwrap_or_default(),
        operation_id: row.id(12)?,
        attempt: number(3, "attempt")?,
        occurred_at: UnixMillis(row.int(1)?),
        duration_ms: row.int_or_none(5)?,
        vantage: class.vantage,
        service,
        environment: some(environment),
        instance: named.word(row, instance)?,
        retry_layer: class.retry_layer,
        priority: detail.priority,
        method: detail.method,
        host,
        route: some(route),
        status: class.status,
        error: class.error,
        retry_after: detail.retry_after,
        computed_delay_ms: detail.computed_delay_ms,
        delay_source: detail.delay_source,
        request_id: row.id(13)?,
        ray_id: row.id(14)?,
        layer: detail.layer,
        key_hash: named.word(row, key)?,
        key_kind: detail.key_kind,
        idempotency_key_hash: row.id(16)?,
        body_hash: row.id(17)?,
        client_address_hash: named.word(row, address)?,
        account_hash: named.word(row, account)?,
        outcome: class.outcome,
        attempts_max: detail.attempts_max,
        timeout_ms: detail.timeout_ms,
        deadline_ms: detail.deadline_ms,
        headers: detail.headers,
        content_type: detail.content_type,
        error_code: detail.error_code,
        body_sample: detail.body_sample,
        trace_id: row.id(15)?,
        span_id: detail.span_id,
        count: number(4, "count")?,
        redactions: detail.redactions,
        derived: detail.derived,
        log: detail.log,
    };
    let verdict = VerdictSummary {
        returned_by: class.returned_by,
        layer: class.layer,
        outcome: class.certainty,
        confidence: detail.confidence,
        limited: class.limited,
        limit_type: class.limit_type,
        reached_origin: class.reached_origin,
        promised_ms: detail.promised_ms,
        promised_by_date: detail.promised_by_date,
        clock_skew_ms: detail.clock_skew_ms,
    };
    Ok(StoredEvent { event, verdict, received_at: UnixMillis(row.int(2)?) })
}

fn word<T: FromStr>(row: &Row, at: usize, column: &'static str) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    row.text(at)?.parse().map_err(|error| corrupt("classes", column, &error))
}

fn optional_word<T: FromStr>(
    row: &Row,
    at: usize,
    column: &'static str,
) -> Result<Option<T>, StoreError>
where
    T::Err: std::fmt::Display,
{
    let text = row.text(at)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| corrupt("classes", column, &error))
}

fn corrupt(
    table: &'static str,
    column: &'static str,
    reason: &dyn std::fmt::Display,
) -> StoreError {
    StoreError::Corrupt { table, column, reason: reason.to_string() }
}
