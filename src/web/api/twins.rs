//! The JSON twins of the pages.

use super::Problems;
use crate::domain::checklist::report_card;
use crate::web::extract::{Path, Query};
use crate::web::pages::address::ViewParams;
use crate::web::pages::event::{self, EventOut};
use crate::web::pages::kept;
use crate::web::pages::lookup::{Lookup, LookupParams, WaitingSpans};
use crate::web::pages::operation::Operation;
use crate::web::pages::origin;
use crate::web::pages::overview::{self, Overview};
use crate::web::pages::rows::{Found, RowParams, Rows};
use crate::web::pages::send::Send;
use crate::web::pages::services::{self, Card, Services};
use crate::web::pages::sources::{SourceList, SourceParams};
use crate::web::pages::triage::{self, PlanParams, Triage};
use crate::web::{AppState, Failure};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;

/// `GET /api/v1/overview`
#[utoipa::path(get, path = "/api/v1/overview", tag = "overview", params(ViewParams),
    responses((status = 200, description = "Limited dependencies, worst first", body = Overview), Problems))]
pub(crate) async fn overview(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
) -> Result<Json<Overview>, Failure> {
    Ok(Json(Overview::build(&overview::Input::fetch(&state, &params).await?)))
}

/// `GET /api/v1/triage`
#[utoipa::path(get, path = "/api/v1/triage", tag = "triage", params(ViewParams, PlanParams),
    responses((status = 200, description = "The eight steps", body = Triage), Problems))]
pub(crate) async fn triage(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    Query(plan): Query<PlanParams>,
) -> Result<Json<Triage>, Failure> {
    Ok(Json(Triage::build(&triage::Input::fetch(&state, &params, &plan).await?)))
}

/// `GET /api/v1/events`
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(ViewParams, RowParams),
    responses((status = 200, description = "Attempts, newest first", body = Rows), Problems))]
pub(crate) async fn events(
    State(state): State<AppState>,
    Query(view): Query<ViewParams>,
    Query(params): Query<RowParams>,
) -> Result<Json<Rows>, Failure> {
    Ok(Json(Found::fetch(&state, "/api/v1/events", &view, &params).await?.rows))
}

/// Every event with one id: more than one where it was sent with several times.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Events {
    items: Vec<EventOut>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// `GET /api/v1/events/{id}`
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "Id of the event")),
    responses((status = 200, description = "The events with this id, each with its verdict", body = Events), Problems))]
pub(crate) async fn event(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json<Events>, Failure> {
    let (events, stories) = event::fetch(&state, &id).await?;
    let items = events.iter().zip(&stories).map(|(one, story)| EventOut::of(one, Some(story)));
    Ok(Json(Events { items: items.collect(), next: None }))
}

/// `GET /api/v1/operations/{id}`
#[utoipa::path(get, path = "/api/v1/operations/{id}", tag = "events",
    params(("id" = String, Path, description = "Id of the operation")),
    responses((status = 200, description = "The attempts of one operation and the waits between them", body = Operation), Problems))]
pub(crate) async fn operation(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json<Operation>, Failure> {
    Operation::fetch(&state.store, &id)
        .await?
        .map(Json)
        .ok_or_else(|| Failure::not_found("operation"))
}

/// `GET /api/v1/lookup`
#[utoipa::path(get, path = "/api/v1/lookup", tag = "events", params(LookupParams),
    responses((status = 200, description = "Everything with this id; an empty list where nothing has it", body = Lookup), Problems))]
pub(crate) async fn lookup(
    State(state): State<AppState>,
    Query(params): Query<LookupParams>,
) -> Result<Json<Lookup>, Failure> {
    let id = params.wanted().ok_or_else(|| {
        Failure::invalid_parameter("id", "a request, ray, trace, operation or event id")
    })?;
    let id = crate::ingest::native::stored_id(id, &state.hasher);
    let waiting = WaitingSpans::fetch(&state, &id).await?;
    Ok(Json(Lookup::of(&id, &state.store.lookup(&id).await?, waiting)))
}

/// `GET /api/v1/services`
#[utoipa::path(get, path = "/api/v1/services", tag = "services", params(ViewParams),
    responses((status = 200, description = "The calling services, most limited first", body = Services), Problems))]
pub(crate) async fn services(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
) -> Result<Json<Services>, Failure> {
    let now = state.clock.now();
    let (view, kept_note) = kept::counted(&state, &params.view(services::last_day(now))?).await?;
    let counted = state.store.services(view.window).await?;
    let mut services = Services::build(&view, &counted, now);
    services.view.kept_note = kept_note;
    Ok(Json(services))
}

/// `GET /api/v1/services/{name}`
#[utoipa::path(get, path = "/api/v1/services/{name}", tag = "services",
    params(("name" = String, Path, description = "The service"), ViewParams),
    responses((status = 200, description = "The report card of a service", body = Card), Problems))]
pub(crate) async fn service(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(params): Query<ViewParams>,
) -> Result<Json<Card>, Failure> {
    let now = state.clock.now();
    let view = services::card_view(&name, &params, now)?;
    let (view, kept_note) = kept::counted(&state, &view).await?;
    let (facts, _) = services::seen(&state, &view, now).await?;
    let mut card = Card::build(&view, &facts.totals, &report_card(&facts));
    card.view.kept_note = kept_note;
    Ok(Json(card))
}

/// `GET /api/v1/sources`
#[utoipa::path(get, path = "/api/v1/sources", tag = "events", params(SourceParams),
    responses((status = 200, description = "Where events come from, and what each source lacks for which step", body = SourceList), Problems))]
pub(crate) async fn sources(
    State(state): State<AppState>,
    Query(params): Query<SourceParams>,
) -> Result<Json<SourceList>, Failure> {
    Ok(Json(SourceList::fetch(&state, "/api/v1/sources", &params).await?))
}

/// `GET /api/v1/send`
#[utoipa::path(get, path = "/api/v1/send", tag = "events",
    responses((status = 200, description = "How to send data, and what became of what was sent", body = Send), Problems))]
pub(crate) async fn send(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Send>, Failure> {
    let senders = state.store.senders().await?;
    let needs_token = !state.config.access.ingest_tokens.is_empty();
    let origin = origin(&state.config, &headers);
    Ok(Json(Send::build(&origin, needs_token, &senders, state.clock.now())))
}
