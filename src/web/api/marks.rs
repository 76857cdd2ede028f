//! Marked changes, to compare before and after.

use super::Problems;
use crate::domain::time::Window;
use crate::web::extract::{Json as Body, Query, object};
use crate::web::pages::address::{self, ViewParams};
use crate::web::pages::marks::MarkRequest;
use crate::web::pages::triage::MarkOut;
use crate::web::{AppState, Failure};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a mark looks like.
const WHAT: &str = "a mark, such as {\"title\": \"SDK retries off\"}";

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
    let mut marks = state.store.marks(&params.scope()).await?;
    if params.has_times() {
        let Window { from, to } = params.view(address::last_hour(state.clock.now()))?.window;
        marks.retain(|mark| (from..to).contains(&mark.at));
    }
    Ok(Json(Marks { items: marks.iter().map(Into::into).collect(), next: None }))
}

/// `POST /api/v1/marks`
#[utoipa::path(post, path = "/api/v1/marks", tag = "marks", request_body = MarkRequest,
    responses((status = 201, description = "Marked", body = MarkOut), Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Body(body): Body<Value>,
) -> Result<(StatusCode, Json<MarkOut>), Failure> {
    let request: MarkRequest = object(body, WHAT)?;
    let mark = state.store.add_mark(request.mark(state.clock.now())?).await?;
    Ok((StatusCode::CREATED, Json((&mark).into())))
}
