//! Alerts, silences and acknowledgements for programs.

use super::Problems;
use crate::web::extract::{Json as Body, Path, Query, object};
use crate::web::pages::alerts::forms::{self, AcknowledgeRequest, SilenceRequest};
use crate::web::pages::alerts::model::{AlertOut, SilenceOut, There};
use crate::web::pages::alerts::one::{self, AlertDetail};
use crate::web::pages::alerts::{AlertParams, Alerts, Input};
use crate::web::{AppState, Failure};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// `GET /api/v1/alerts`
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", params(AlertParams),
    responses((status = 200, description = "Alerts: firing, pending, ended lately; silences; what was told and what waits", body = Alerts), Problems))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Query(params): Query<AlertParams>,
) -> Result<Json<Alerts>, Failure> {
    Ok(Json(Alerts::build(&Input::fetch(&state, &params, false).await?)))
}

/// `GET /api/v1/alerts/{id}`
#[utoipa::path(get, path = "/api/v1/alerts/{id}", tag = "alerts",
    params(("id" = i64, Path, description = "Number of the alert")),
    responses((status = 200, description = "One alert with every change of it", body = AlertDetail), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(id): Path<i64>,
) -> Result<Json<AlertDetail>, Failure> {
    Ok(Json(AlertDetail::build(&one::Input::fetch(&state, id).await?)))
}

/// `POST /api/v1/alerts/{id}/acknowledge`
#[utoipa::path(post, path = "/api/v1/alerts/{id}/acknowledge", tag = "alerts",
    params(("id" = i64, Path, description = "Number of the alert")),
    request_body = AcknowledgeRequest,
    responses((status = 200, description = "Acknowledged, until the alert ends or `until` has come. Where there is no such alert the answer is 404, whatever the fields hold", body = AlertOut), Problems))]
pub(crate) async fn acknowledge(
    State(state): State<AppState>,
    Path(id): Path<i64>,
    Body(body): Body<Value>,
) -> Result<Json<AlertOut>, Failure> {
    let request: AcknowledgeRequest = object(body, "an acknowledgement")?;
    forms::acknowledge(&state, id, &request).await?;
    let now = state.clock.now();
    let alert = state.store.alert(id, now).await?.ok_or_else(|| Failure::not_found("alert"))?;
    Ok(Json(AlertOut::of(&alert, &state.config.alerts, now)))
}

/// `DELETE /api/v1/alerts/{id}/acknowledge`
#[utoipa::path(delete, path = "/api/v1/alerts/{id}/acknowledge", tag = "alerts",
    params(("id" = i64, Path, description = "Number of the alert")),
    responses((status = 204, description = "Nobody looks after it any more"), Problems))]
pub(crate) async fn withdraw(
    State(state): State<AppState>,
    Path(id): Path<i64>,
) -> Result<StatusCode, Failure> {
    forms::withdraw(&state, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Silences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Silences {
    /// Those that are not over, the one that ends first first.
    items: Vec<SilenceOut>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// `GET /api/v1/silences`
#[utoipa::path(get, path = "/api/v1/silences", tag = "alerts",
    responses((status = 200, description = "Silences that are not over", body = Silences), Problems))]
pub(crate) async fn silences(State(state): State<AppState>) -> Result<Json<Silences>, Failure> {
    let now = state.clock.now();
    let silences = state.store.silences(now).await?;
    let there = if silences.is_empty() { There::default() } else { forms::there(&state).await? };
    let items = silences.iter().map(|one| SilenceOut::beside(one, &there, now)).collect();
    Ok(Json(Silences { items, next: None }))
}

/// `POST /api/v1/silences`
#[utoipa::path(post, path = "/api/v1/silences", tag = "alerts", request_body = SilenceRequest,
    responses((status = 201, description = "Nobody is told of these alerts until then; they are evaluated and shown all the same", body = SilenceOut), Problems))]
pub(crate) async fn silence(
    State(state): State<AppState>,
    Body(body): Body<Value>,
) -> Result<(StatusCode, Json<SilenceOut>), Failure> {
    let kept = forms::silence(&state, &object(body, "a silence")?).await?;
    let there = forms::there(&state).await?;
    Ok((StatusCode::CREATED, Json(SilenceOut::beside(&kept, &there, state.clock.now()))))
}

/// `DELETE /api/v1/silences/{id}`
#[utoipa::path(delete, path = "/api/v1/silences/{id}", tag = "alerts",
    params(("id" = i64, Path, description = "Number of the silence")),
    responses((status = 204, description = "It is over"), Problems))]
pub(crate) async fn end_silence(
    State(state): State<AppState>,
    Path(id): Path<i64>,
) -> Result<StatusCode, Failure> {
    forms::end(&state, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
