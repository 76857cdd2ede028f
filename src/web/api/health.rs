//! Whether the process is alive, and whether it can take and answer requests.

use super::Problems;
use crate::pipeline::Intake;
use crate::store::Store;
use crate::web::{Code, Failure};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// `GET /healthz`: the process runs and answers. Says nothing about the store, so that an
/// orchestrator doesn't restart every replica when the database is away.
#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "The process answers", body = String, content_type = "text/plain")))]
pub(crate) async fn alive() -> Response {
    ([(header::CACHE_CONTROL, "no-store")], "ok\n").into_response()
}

/// `GET /readyz`: the store answers, its schema is the one this version needs, and the queue for
/// writing has room.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "Ready for events and questions", body = String, content_type = "text/plain"), Problems))]
pub(crate) async fn ready(
    State(store): State<Store>,
    State(intake): State<Intake>,
) -> Result<Response, Failure> {
    store.ready().await.map_err(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
        Failure::new(Code::StoreUnavailable, "The store doesn't answer as it should.")
            .retry_after(Duration::from_secs(5))
    })?;
    if intake.is_full() {
        return Err(Failure::new(Code::QueueFull, "The queue for writing is full.")
            .retry_after(Duration::from_secs(1)));
    }
    Ok(([(header::CACHE_CONTROL, "no-store")], "ready\n").into_response())
}
