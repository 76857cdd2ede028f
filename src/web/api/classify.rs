//! `POST /api/v1/classify`: one response or a HAR file in, verdicts out. Nothing is stored.

use super::Problems;
use crate::domain::classify::Verdict;
use crate::web::extract::{CappedBody, Peer};
use crate::web::pages::classify::{Input, Read, answer, find_known};
use crate::web::{AppState, Code, Failure};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A response as text, with what is known around it.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "describes a body in the API document and is never built")]
pub(crate) struct ClassifyRequest {
    /// Comes back with the verdict.
    id: Option<String>,
    /// The response: output of `curl -i` or `curl -v`, or raw HTTP text. Without it at least one
    /// field with a log is needed.
    raw: Option<String>,
    /// The request: `method`, `url` or `host` and `path`, `headers`.
    #[schema(value_type = Option<Object>)]
    request: Option<Value>,
    /// Owner of the API (`github`, `stripe`, …).
    provider: Option<String>,
    /// When the response arrived, RFC 3339.
    #[schema(format = DateTime)]
    observed_at: Option<String>,
    /// The hops from the client's side inwards.
    path: Option<Vec<crate::domain::classify::Responder>>,
    /// The gateway's own log lines of this request, as they are; in `access_log_json` an object
    /// that was parsed already, in `access_log_default` the line of its stock format.
    log: Option<String>,
    /// The format of `log`; it is found out where it is not named.
    log_format: Option<String>,
    #[schema(value_type = Option<Object>)]
    access_log_json: Option<Value>,
    access_log_default: Option<String>,
    /// Lines of the hops further in, in their order: `{gateway, access_log_json, access_log_default}`.
    #[schema(value_type = Option<Vec<Object>>)]
    inner_hops: Option<Value>,
    /// The origin's own lines of this request, each with its `status`.
    #[schema(value_type = Option<Vec<Object>>)]
    origin_log: Option<Value>,
    /// Whether the origin saw the request; "no" needs a log that is known to be complete.
    origin_saw_request: Option<bool>,
    /// Whether the client's request id is in the origin's log.
    origin_saw_request_id: Option<bool>,
}

/// A verdict with what it is about.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifyAnswer {
    /// The `id` that was sent, else null.
    #[schema(value_type = Option<String>)]
    id: Value,
    /// Position in a HAR file, from 0.
    index: Option<usize>,
    /// Address without query string, where a HAR file gives it.
    url: Option<String>,
    /// Status code.
    status: Option<u16>,
    /// The verdict's own fields.
    #[serde(flatten)]
    verdict: Verdict,
    /// What was guessed or cut while reading.
    problems: Option<Vec<String>>,
    /// What is stored under its ids; absent where nothing is.
    stored: Option<crate::web::pages::classify::Known>,
}

/// `POST /api/v1/classify`
#[utoipa::path(post, path = "/api/v1/classify", tag = "classify",
    request_body(description = "One response as text, a HAR file, or an object with `raw`", content(
        (String = "text/plain"), (ClassifyRequest = "application/json"), (Value = "application/har+json"))),
    responses(
        (status = 200, description = "The verdict; for a HAR file `{items, next, exchanges}` with every limited or failed exchange", body = ClassifyAnswer),
        Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    if !matches!(
        essence.trim().to_ascii_lowercase().as_str(),
        "" | "text/plain"
            | "message/http"
            | "application/http"
            | "application/json"
            | "application/har+json"
            | "application/x-www-form-urlencoded"
            | "application/octet-stream"
    ) {
        let detail = "Send text/plain (one response) or application/json (a HAR file, or an \
                      object with raw) or application/har+json.";
        return Err(Failure::new(Code::UnsupportedMediaType, detail));
    }
    let sender = peer.connection(None);
    let mut body = CappedBody::read(&headers, body, &sender, &state.bodies, &state.config).await?;
    let cap = state.config.ingest.max_inflated_bytes;
    let turn = state.bodies.turn().await;
    let reading = tokio::task::spawn_blocking(move || {
        let text = String::from_utf8_lossy(&body.inflate(cap)?).into_owned();
        let input = Input { text, ..Input::default() };
        input.read().map_err(|problem| {
            Failure::new(Code::InvalidBody, "The body can't be read as a response.")
                .with("problem", json!(problem))
        })
    });
    let mut read: Read = reading.await.map_err(|error| Failure::internal(&error))??;
    find_known(&state, &mut read).await?;
    let judging = tokio::task::spawn_blocking(move || {
        drop(turn);
        let mut answers: Vec<Value> = read.judged.iter().map(answer).collect();
        match read.exchanges {
            Some(exchanges) => json!({"items": answers, "next": null, "exchanges": exchanges}),
            None => answers.pop().unwrap_or_default(),
        }
    });
    judging.await.map(Json).map_err(|error| Failure::internal(&error))
}
