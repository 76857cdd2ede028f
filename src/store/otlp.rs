//! Spans, until they are events and a while longer.
//!
//! Lists go to the database as one JSON text, so that a batch is one statement whatever its size.

use super::reader::{Arg, Row};
use super::transact::Statement;
use super::{Pool, Store, StoreError};
use crate::domain::spans::hints::{DelaySource, ToldWait};
use crate::domain::spans::{Role, Span, SpanKey, TraceId};
use crate::domain::time::UnixMillis;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Spans that one statement adds or changes.
const CHUNK: usize = 2_000;

/// The name of a neighbourhood: spans that are looked at together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hood(String);

impl Hood {
    /// That of a span; `None` where it only stands around others.
    pub fn of(span: &Span) -> Option<Self> {
        match span.role {
            Role::Server => Some(Self(String::new())),
            _ => span.neighbourhood().map(Self),
        }
    }

    /// Whether its spans are servers', which are settled one by one.
    pub fn is_servers(&self) -> bool {
        self.0.is_empty()
    }
}

/// A span that is kept.
#[derive(Debug, Clone)]
pub struct HeldSpan {
    /// The span.
    pub span: Span,
    /// When it arrived.
    pub received_at: UnixMillis,
    /// The operation it was put into, where it was settled.
    pub operation_id: Option<String>,
}

/// What became of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanMark {
    /// It is an event of this operation, or stands for one that is.
    Settled(String),
    /// It is to be looked at again then.
    Wait(UnixMillis),
}

const COLUMNS: &str = "s.span, s.received_at, s.operation_id";

/// Adds spans (`$1`) that arrived at `$2` and may be settled from `$3` on.
const ADD: [&str; 2] = [
    "INSERT OR IGNORE INTO otlp_spans \
     (trace_id, span_id, hood, received_at, start_us, due_at, span) \
     SELECT value ->> 't', value ->> 's', value ->> 'h', $2, value ->> 'b', \
     CASE WHEN value ->> 'h' IS NULL THEN NULL ELSE $3 END, value -> 'v' FROM json_each($1)",
    "INSERT INTO otlp_spans (trace_id, span_id, hood, received_at, start_us, due_at, span) \
     SELECT k ->> 't', k ->> 's', k ->> 'h', $2, (k ->> 'b')::bigint, \
     CASE WHEN k ->> 'h' IS NULL THEN NULL ELSE $3::bigint END, (k -> 'v')::text \
     FROM json_array_elements($1::json) k ON CONFLICT DO NOTHING",
];

/// Neighbourhoods in which something is due at `$1`, the most overdue first. So many spans are looked
/// at and no more, however many are due.
const DUE: &str = "SELECT hood FROM (SELECT hood, due_at FROM otlp_spans \
                   WHERE due_at <= $1 AND hood IS NOT NULL ORDER BY due_at LIMIT 20000) d \
                   GROUP BY hood ORDER BY MIN(due_at) LIMIT $2";

/// Spans of the neighbourhood `$1` that aren't settled.
const OPEN: &str = "SELECT {columns} FROM otlp_spans s WHERE s.hood = $1 AND s.due_at IS NOT NULL \
                    ORDER BY s.start_us LIMIT $2";

/// Spans of the neighbourhood `$1` that are settled and began from `$2` to `$3`.
const DONE: &str = "SELECT {columns} FROM otlp_spans s WHERE s.hood = $1 AND s.due_at IS NULL \
                    AND s.start_us >= $2 AND s.start_us <= $3 ORDER BY s.start_us DESC LIMIT $4";

/// Spans with the keys `$1`.
const WITH_KEYS: [&str; 2] = [
    "SELECT {columns} FROM json_each($1) k CROSS JOIN otlp_spans s \
     WHERE s.trace_id = k.value ->> 't' AND s.span_id = k.value ->> 's'",
    "SELECT {columns} FROM json_array_elements($1::json) k \
     JOIN otlp_spans s ON s.trace_id = k ->> 't' AND s.span_id = k ->> 's'",
];

/// Spans of the traces `$1`.
const OF_TRACES: [&str; 2] = [
    "SELECT {columns} FROM json_each($1) k CROSS JOIN otlp_spans s \
     WHERE s.trace_id = k.value LIMIT $2",
    "SELECT {columns} FROM json_array_elements_text($1::json) k \
     JOIN otlp_spans s ON s.trace_id = k LIMIT $2",
];

/// How many spans of the trace `$1` aren't settled, and when the first of them is looked at next.
const WAITING: &str = "SELECT COUNT(*), MIN(due_at) FROM otlp_spans \
                       WHERE trace_id = $1 AND due_at IS NOT NULL GROUP BY trace_id";

/// Notes which operation spans (`$1`) are of.
const SETTLE: [&str; 2] = [
    "UPDATE otlp_spans SET due_at = NULL, operation_id = k.value ->> 'o' FROM json_each($1) k \
     WHERE trace_id = k.value ->> 't' AND span_id = k.value ->> 's'",
    "UPDATE otlp_spans s SET due_at = NULL, operation_id = k ->> 'o' \
     FROM json_array_elements($1::json) k WHERE s.trace_id = k ->> 't' AND s.span_id = k ->> 's'",
];

/// Notes when spans (`$1`) are to be looked at again.
const WAIT: [&str; 2] = [
    "UPDATE otlp_spans SET due_at = k.value ->> 'd' FROM json_each($1) k \
     WHERE trace_id = k.value ->> 't' AND span_id = k.value ->> 's' AND due_at IS NOT NULL",
    "UPDATE otlp_spans s SET due_at = (k ->> 'd')::bigint FROM json_array_elements($1::json) k \
     WHERE s.trace_id = k ->> 't' AND s.span_id = k ->> 's' AND s.due_at IS NOT NULL",
];

/// Removes some of what arrived before `$1` and has nothing to be done; tells of each.
const REMOVE: &str = "DELETE FROM otlp_spans WHERE (trace_id, span_id) IN (\
    SELECT trace_id, span_id FROM otlp_spans WHERE due_at IS NULL AND received_at < $1 LIMIT $2) \
    RETURNING received_at";

/// Adds waits (`$1`) that were logged and arrived at `$2`.
const ADD_WAITS: [&str; 2] = [
    "INSERT OR IGNORE INTO otlp_waits (trace_id, at_us, delay_ms, received_at) \
     SELECT value ->> 't', value ->> 'a', value ->> 'd', $2 FROM json_each($1)",
    "INSERT INTO otlp_waits (trace_id, at_us, delay_ms, received_at) \
     SELECT k ->> 't', (k ->> 'a')::bigint, (k ->> 'd')::bigint, $2 \
     FROM json_array_elements($1::json) k ON CONFLICT DO NOTHING",
];

/// Waits that were logged in the traces `$1`.
const WAITS: [&str; 2] = [
    "SELECT w.trace_id, w.at_us, w.delay_ms FROM json_each($1) k CROSS JOIN otlp_waits w \
     WHERE w.trace_id = k.value ORDER BY w.trace_id, w.at_us, w.delay_ms",
    "SELECT w.trace_id, w.at_us, w.delay_ms FROM json_array_elements_text($1::json) k \
     JOIN otlp_waits w ON w.trace_id = k ORDER BY w.trace_id, w.at_us, w.delay_ms",
];

/// Removes some waits that arrived before `$1`; tells of each.
const REMOVE_WAITS: &str = "DELETE FROM otlp_waits WHERE (trace_id, at_us, delay_ms) IN (\
    SELECT trace_id, at_us, delay_ms FROM otlp_waits WHERE received_at < $1 LIMIT $2) RETURNING received_at";

impl Store {
    /// Keeps spans that aren't kept already; when it returns they are on disk. Their operations may
    /// be settled from `due_at` on.
    pub async fn add_spans(
        &self,
        spans: &[Span],
        received_at: UnixMillis,
        due_at: UnixMillis,
    ) -> Result<(), StoreError> {
        if spans.is_empty() {
            return Ok(());
        }
        let mut order: Vec<&Span> = spans.iter().collect();
        // All in one order, so that two batches with the same spans don't wait for each other.
        order.sort_by_key(|span| span.key);
        let statements = order.chunks(CHUNK).map(|chunk| {
            let rows = chunk.iter().map(|span| {
                json!({"t": span.key.trace, "s": span.key.span, "h": Hood::of(span).map(|h| h.0),
                       "b": span.start_us, "v": span})
            });
            let rows = Value::Array(rows.collect()).to_string();
            Statement::new(self.text(ADD), vec![rows.into(), received_at.0.into(), due_at.0.into()])
        });
        self.transact(statements.collect()).await?;
        Ok(())
    }

    /// Neighbourhoods in which spans are due, at most `limit`.
    pub async fn due_hoods(&self, now: UnixMillis, limit: i64) -> Result<Vec<Hood>, StoreError> {
        let rows = self.reader().await?.all(DUE, &[now.0.into(), limit.into()]).await?;
        rows.iter().map(|row| Ok(Hood(row.text(0)?.into_owned()))).collect()
    }

    /// Spans of a neighbourhood that aren't settled, the first to begin first, at most `limit`.
    pub async fn open_spans(&self, hood: &Hood, limit: i64) -> Result<Vec<HeldSpan>, StoreError> {
        let text = OPEN.replace("{columns}", COLUMNS);
        let args = [hood.0.clone().into(), limit.into()];
        self.held(text, &args).await
    }

    /// Settled spans of a neighbourhood that began in a stretch of time (microseconds), at most
    /// `limit`.
    pub async fn settled_spans(
        &self,
        hood: &Hood,
        from_us: i64,
        to_us: i64,
        limit: i64,
    ) -> Result<Vec<HeldSpan>, StoreError> {
        let text = DONE.replace("{columns}", COLUMNS);
        let args = [hood.0.clone().into(), from_us.into(), to_us.into(), limit.into()];
        self.held(text, &args).await
    }

    /// The spans with these keys, as far as they are kept.
    pub async fn spans_with_keys(&self, keys: &[SpanKey]) -> Result<Vec<HeldSpan>, StoreError> {
        let mut found = Vec::new();
        for chunk in keys.chunks(CHUNK) {
            let keys = chunk.iter().map(|key| json!({"t": key.trace, "s": key.span})).collect();
            let text = self.text(WITH_KEYS).replace("{columns}", COLUMNS);
            found.extend(self.held(text, &[Value::Array(keys).to_string().into()]).await?);
        }
        Ok(found)
    }

    /// Spans of these traces, at most `limit`.
    pub async fn spans_of_traces(
        &self,
        traces: impl IntoIterator<Item = TraceId>,
        limit: i64,
    ) -> Result<Vec<HeldSpan>, StoreError> {
        let traces: BTreeSet<TraceId> = traces.into_iter().collect();
        let traces = traces.into_iter().map(|trace| json!(trace)).collect();
        let text = self.text(OF_TRACES).replace("{columns}", COLUMNS);
        self.held(text, &[Value::Array(traces).to_string().into(), limit.into()]).await
    }

    /// How many spans of a trace wait to be settled, and when the first of them is looked at next;
    /// `None` where there are none.
    pub async fn waiting_spans(
        &self,
        trace: TraceId,
    ) -> Result<Option<(i64, UnixMillis)>, StoreError> {
        let found = self.reader().await?.all(WAITING, &[trace.to_string().into()]).await?;
        found.first().map(|row| Ok((row.int(0)?, UnixMillis(row.int(1)?)))).transpose()
    }

    /// Notes what became of spans.
    pub async fn mark_spans(&self, marks: &[(SpanKey, SpanMark)]) -> Result<(), StoreError> {
        let mut marks: Vec<_> = marks.iter().collect();
        marks.sort_by_key(|(key, _)| *key);
        let mut statements = Vec::new();
        for chunk in marks.chunks(CHUNK) {
            let (mut settled, mut waiting) = (Vec::new(), Vec::new());
            for (key, mark) in chunk {
                match mark {
                    SpanMark::Settled(operation) => {
                        settled.push(json!({"t": key.trace, "s": key.span, "o": operation}));
                    }
                    SpanMark::Wait(until) => {
                        waiting.push(json!({"t": key.trace, "s": key.span, "d": until}));
                    }
                }
            }
            for (texts, rows) in [(SETTLE, settled), (WAIT, waiting)] {
                if !rows.is_empty() {
                    let rows = Value::Array(rows).to_string();
                    statements.push(Statement::new(self.text(texts), vec![rows.into()]));
                }
            }
        }
        if !statements.is_empty() {
            self.transact(statements).await?;
        }
        Ok(())
    }

    /// Keeps waits that were logged in traces.
    pub async fn add_waits(
        &self,
        waits: &[(TraceId, ToldWait)],
        received_at: UnixMillis,
    ) -> Result<(), StoreError> {
        let mut waits: Vec<_> = waits.iter().map(|(t, w)| (*t, w.at_us, w.delay_ms)).collect();
        waits.sort_unstable();
        let statements = waits.chunks(CHUNK).map(|chunk| {
            let rows = chunk.iter().map(|(t, a, d)| json!({"t": t, "a": a, "d": d})).collect();
            let rows = Value::Array(rows).to_string();
            Statement::new(self.text(ADD_WAITS), vec![rows.into(), received_at.0.into()])
        });
        let statements: Vec<_> = statements.collect();
        if !statements.is_empty() {
            self.transact(statements).await?;
        }
        Ok(())
    }

    /// Waits that were logged in traces.
    pub async fn logged_waits(
        &self,
        traces: &BTreeSet<TraceId>,
    ) -> Result<BTreeMap<TraceId, Vec<ToldWait>>, StoreError> {
        let traces = traces.iter().map(|trace| json!(trace)).collect();
        let args = [Value::Array(traces).to_string().into()];
        let mut waits: BTreeMap<TraceId, Vec<ToldWait>> = BTreeMap::new();
        for row in self.reader().await?.all(self.text(WAITS), &args).await? {
            let trace = TraceId::from_hex(&row.text(0)?).ok_or_else(|| StoreError::Corrupt {
                table: "otlp_waits",
                column: "trace_id",
                reason: "no id".to_owned(),
            })?;
            let (at_us, delay_ms) = (row.int(1)?, row.int(2)?);
            let wait = ToldWait { at_us, delay_ms, source: DelaySource::Log };
            waits.entry(trace).or_default().push(wait);
        }
        Ok(waits)
    }

    /// Removes at most `limit` spans, and as many logged waits, that arrived before `before` and are done with; how many.
    pub async fn remove_spans(&self, before: UnixMillis, limit: i64) -> Result<usize, StoreError> {
        let remove = [REMOVE, REMOVE_WAITS]
            .map(|text| Statement::new(text, vec![before.0.into(), limit.into()]));
        let removed = self.transact(remove.into()).await?.unwrap_or_default();
        Ok(removed.first().map_or(0, Vec::len))
    }

    pub(super) fn text(&self, texts: [&'static str; 2]) -> &'static str {
        match &*self.pool {
            Pool::Sqlite(_) => texts[0],
            Pool::Postgres(_) => texts[1],
        }
    }

    async fn held(&self, text: String, args: &[Arg]) -> Result<Vec<HeldSpan>, StoreError> {
        self.reader().await?.all(text, args).await?.iter().map(held).collect()
    }
}

fn held(row: &Row) -> Result<HeldSpan, StoreError> {
    let span = serde_json::from_str(&row.text(0)?).map_err(|error| StoreError::Corrupt {
        table: "otlp_spans",
        column: "span",
        reason: error.to_string(),
    })?;
    Ok(HeldSpan { span, received_at: UnixMillis(row.int(1)?), operation_id: row.text_or_none(2)? })
}
