//! `POST /v1/events`: native events in, stored once each.

use super::schema::NativeEvent;
use super::{Problem, Problems};
use crate::domain::event::{Event, MOST_AHEAD};
use crate::domain::sources::Input;
use crate::domain::stored::{Inserted, SenderCounts};
use crate::domain::time::UnixMillis;
use crate::ingest::native::{self, DecodeError, DecodeOptions, Decoded, Format, Reject};
use crate::pipeline::fair::Source;
use crate::pipeline::{Batch, IntakeError};
use crate::web::extract::{CappedBody, Peer};
use crate::web::{AppState, Code, Failure, doors};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::json;
use std::time::Duration;
use utoipa::ToSchema;

/// Bodies beyond this, and packed ones, are read on a thread of their own; in bytes.
const LARGE_BODY: usize = 16 * 1024;

/// What became of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Receipt {
    /// Events that are on disk now and weren't before.
    stored: usize,
    /// Events that were there already, or twice in the batch.
    duplicates: usize,
    /// Stored events whose id another event at another time has too.
    id_conflicts: usize,
    /// Stored events that happened more than five minutes after now: the sender's clock is fast, or
    /// its times are in another unit. They stand at that time, so that what is looked at now doesn't
    /// show them.
    ahead_of_time: usize,
    /// Items that were not stored, by index.
    #[schema(value_type = Vec<super::schema::RejectedItem>)]
    rejected: Vec<Reject>,
    /// Fields that are not ours, left out.
    unknown_fields: u64,
    /// Header fields that are not on the list of those that may be kept, left out.
    dropped_headers: u64,
    /// Texts longer than what is kept, cut.
    shortened: u64,
    /// Values that looked secret, replaced.
    redactions: u64,
}

/// `POST /v1/events`: takes a batch and answers when it is on disk.
#[utoipa::path(post, path = "/v1/events", tag = "events",
    request_body(description = "An event, an array of events, `{\"events\": […]}`, or NDJSON with an event a line; gzip and zstd are taken", content(
        (NativeEvent = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "What became of the batch; it is on disk", body = Receipt),
        (status = 429, description = "`over-fair-share`: this sender has as much waiting to be written as is its share, while others still get in. Nothing was stored; `Retry-After` says when there is room again", content_type = "application/problem+json", body = Problem),
        (status = 503, description = "`queue-full`: too much is waiting to be written, whoever sends more; or `store-unavailable`, `stopping`. Nothing was stored; `Retry-After` says when to send it again", content_type = "application/problem+json", body = Problem),
        Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Receipt>, Failure> {
    let format = format(&headers)?;
    let now = state.clock.now();
    let token = doors::sending_token(&headers, &state.config.access.ingest_tokens);
    let source = peer.source(token);
    state.intake.admits(&source)?;
    let sender = peer.connection(token);
    let body = CappedBody::read(&headers, body, &sender, &state.bodies, &state.config).await?;
    let Read { mut decoded, places, service, batch } = decode(&state, source, body, format).await?;
    let Some(batch) = batch else {
        return Err(nothing_storable(&decoded.rejects));
    };
    let results = state.intake.commit(batch).await?;
    if results.contains(&Inserted::Expired) {
        let expired = expired(&state, &results, &places).await?;
        let rejected = i64::try_from(expired.len()).unwrap_or(i64::MAX);
        state.senders.add(&service, &SenderCounts { rejected, ..SenderCounts::default() });
        decoded.rejects.extend(expired);
        decoded.rejects.sort_by_key(|reject| reject.index);
        if results.iter().all(|result| *result == Inserted::Expired) {
            return Err(nothing_storable(&decoded.rejects));
        }
    }
    let count = |kind: Inserted| results.iter().filter(|result| **result == kind).count();
    let id_conflicts = count(Inserted::IdConflict);
    let is_stored = |result: &Inserted| matches!(result, Inserted::Stored | Inserted::IdConflict);
    let ahead = results
        .iter()
        .zip(&places)
        .filter(|(result, place)| is_stored(result) && place.occurred_at.since(now) > MOST_AHEAD);
    let ahead_of_time = ahead.count();
    if ahead_of_time > 0 {
        tracing::debug!(
            service,
            events = ahead_of_time,
            "events of the future were stored: their sender's clock is fast, or its times are in \
             another unit"
        );
    }
    Ok(Json(Receipt {
        stored: count(Inserted::Stored) + id_conflicts,
        duplicates: count(Inserted::Duplicate),
        id_conflicts,
        ahead_of_time,
        rejected: decoded.rejects,
        unknown_fields: decoded.unknown_fields,
        dropped_headers: decoded.dropped_headers,
        shortened: decoded.shortened,
        redactions: decoded.redactions,
    }))
}

fn nothing_storable(rejects: &[Reject]) -> Failure {
    let detail = if rejects.is_empty() {
        "The body holds no events."
    } else {
        "Every item was rejected; see rejected for the field and what was expected."
    };
    Failure::new(Code::NothingStorable, detail).with("rejected", json!(rejects))
}

/// What is told of events that happened before those that are kept.
async fn expired(
    state: &AppState,
    results: &[Inserted],
    places: &[Place],
) -> Result<Vec<Reject>, Failure> {
    let kept = state.store.kept().await?;
    let since = kept.events.since.to_rfc3339();
    let expired = results.iter().zip(places).filter(|(result, _)| **result == Inserted::Expired);
    Ok(expired
        .map(|(_, place)| Reject {
            index: place.index,
            event_id: Some(place.event_id.clone()),
            field: Some("occurred_at".to_owned()),
            error: format!(
                "expected a moment from {since} on: older events are not kept any more, so that \
                 this one can't be told from a repeat"
            ),
        })
        .collect())
}

/// The service that all events of a batch come from; the empty name where there is none.
fn only_service(events: &[Event]) -> &str {
    let mut names = events.iter().map(|event| event.service.as_str());
    let first = names.next().unwrap_or_default();
    if names.all(|name| name == first) { first } else { "" }
}

/// An event's place in its batch, and what is told of it.
struct Place {
    index: usize,
    event_id: String,
    occurred_at: UnixMillis,
}

/// A body that was read.
struct Read {
    /// What is to be told of it.
    decoded: Decoded,
    /// Where each event stood.
    places: Vec<Place>,
    /// The service that all come from; the empty name where there is none.
    service: String,
    /// The events with their place in the queue, where there are any.
    batch: Option<Batch>,
}

/// Unpacks, reads and judges a body, large ones away from the threads that answer others.
async fn decode(
    state: &AppState,
    source: Source,
    body: CappedBody,
    format: Format,
) -> Result<Read, Failure> {
    if body.is_small(LARGE_BODY) {
        return read(state, source, body, format);
    }
    let turn = state.bodies.turn().await;
    let state = state.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let read = read(&state, source, body, format);
        drop(turn);
        read
    });
    reading.await.map_err(|error| Failure::internal(&error))?
}

fn read(
    state: &AppState,
    source: Source,
    mut body: CappedBody,
    format: Format,
) -> Result<Read, Failure> {
    let limits = &state.config.ingest;
    let options = DecodeOptions {
        hasher: &state.hasher,
        raw_keys: limits.raw_keys,
        max_items: limits.max_items,
        format,
    };
    let mut decoded = native::decode(&body.inflate(limits.max_inflated_bytes)?, &options)?;
    let events = std::mem::take(&mut decoded.events);
    let place = |(index, event): &(usize, Event)| Place {
        index: *index,
        event_id: event.event_id.clone(),
        occurred_at: event.occurred_at,
    };
    let places = events.iter().map(place).collect();
    let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
    let mistakes = SenderCounts {
        unknown_fields: i64::try_from(decoded.unknown_fields).unwrap_or(i64::MAX),
        rejected: i64::try_from(decoded.rejects.len()).unwrap_or(i64::MAX),
        ..SenderCounts::default()
    };
    let service = only_service(&events).to_owned();
    state.metrics.rejected(decoded.rejects.len());
    state.senders.add(state.intake.series().sender(&service), &mistakes);
    if events.is_empty() {
        return Ok(Read { decoded, places, service, batch: None });
    }
    let sender = source.service(&service);
    // The bytes are done with; what was read from them takes their place.
    let memory = body.memory.take();
    drop(body);
    let batch = Some(state.intake.admit(&sender, events, memory, Input::Native)?);
    Ok(Read { decoded, places, service, batch })
}

/// What the sender says the body is; nothing said is looked into.
fn format(headers: &HeaderMap) -> Result<Format, Failure> {
    let mut fields = headers.get_all(header::CONTENT_TYPE).iter();
    let (field, second) = (fields.next(), fields.next());
    let text = field.map(|field| field.to_str().unwrap_or("not text").to_ascii_lowercase());
    let is_utf8 = text.iter().flat_map(|text| text.split(';').skip(1)).all(|parameter| {
        parameter.trim().split_once('=').is_none_or(|(name, value)| {
            name != "charset" || matches!(value.trim_matches('"'), "utf-8" | "utf8" | "us-ascii")
        })
    });
    match Format::from_content_type(text.as_deref()) {
        Some(format) if is_utf8 && second.is_none() => Ok(format),
        _ => {
            let accepted = HeaderValue::from_static("application/json, application/x-ndjson");
            let detail = "Send content-type: application/json or application/x-ndjson, in UTF-8.";
            Err(Failure::new(Code::UnsupportedMediaType, detail)
                .header(HeaderName::from_static("accept-post"), accepted))
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let code = match &error {
            DecodeError::TooManyItems { .. } => Code::TooLarge,
            _ => Code::InvalidBody,
        };
        Self::told(code, &error)
    }
}

impl From<IntakeError> for Failure {
    fn from(error: IntakeError) -> Self {
        match error {
            IntakeError::Full { retry_after } => {
                Self::new(Code::QueueFull, "Nothing was stored. Send it again after the wait.")
                    .retry_after(retry_after)
            }
            IntakeError::OverShare { retry_after } => Self::new(
                Code::OverFairShare,
                "Nothing was stored. Others wait too; send it again after the wait, or fewer \
                 batches at the same time.",
            )
            .retry_after(retry_after),
            IntakeError::Stopped => {
                Self::new(Code::Stopping, "Nothing was stored. Send it again elsewhere or later.")
                    .retry_after(Duration::from_secs(5))
            }
            IntakeError::Store(error) => Self::of_store(&error),
        }
    }
}
