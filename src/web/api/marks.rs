//! Marked changes, to compare before and after.

use super::Problems;
use crate::web::extract::{Json as Body, Query};
use crate::web::pages::address::ViewParams;
use crate::web::pages::marks::MarkRequest;
use crate::web::pages::triage::MarkOut;
use crate::web::{AppState, Code, Failure};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a mark looks like.
const EXPECTED: &str = "Expected a JSON object such as {\"title\": \"SDK retries off\"}.";

/// Marked changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Marks {
    /// The changes, oldest first, at most the newest 1,000.
    items: Vec<MarkOut>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// `GET /api/v1/marks`
#[utoipa::path(get, path = "/api/v1/marks", tag = "marks", params(ViewParams),
    responses((status = 200, description = "The marked changes that concern a scope", body = Marks), Problems))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
) -> Result<Json<Marks>, Failure> {
    let marks = state.store.marks(&params.scope()).await?;
    Ok(Json(Marks { items: marks.iter().map(Into::into).collect(), next: None }))
}

/// `POST /api/v1/marks`
#[utoipa::path(post, path = "/api/v1/marks", tag = "marks", request_body = MarkRequest,
    responses((status = 201, description = "Marked", body = MarkOut), Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Body(body): Body<Value>,
) -> Result<(StatusCode, Json<MarkOut>), Failure> {
    // A list would be read as the fields in their order.
    let request: MarkRequest = match body {
        Value::Object(_) => serde_json::from_value(body).map_err(|error| {
            Failure::new(Code::InvalidBody, format!("A field of the mark can't be used: {error}."))
        })?,
        _ => return Err(Failure::new(Code::InvalidBody, EXPECTED)),
    };
    let mark = state.store.add_mark(request.mark(state.clock.now())?).await?;
    Ok((StatusCode::CREATED, Json((&mark).into())))
}
