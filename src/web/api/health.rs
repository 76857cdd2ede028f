//! Whether the process is alive, and whether it can take and answer requests.

use super::Problems;
use crate::pipeline::Intake;
use crate::store::Store;
use crate::web::{Code, Failure};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// How long the store may take to say that it is there; whoever asks doesn't wait much longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process runs and answers. Says nothing about the store, so that an
/// orchestrator doesn't restart every replica when the database is away.
#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "The process answers", body = String, content_type = "text/plain")))]
pub(crate) async fn alive() -> Response {
    ([(header::CACHE_CONTROL, "no-store")], "ok\n").into_response()
}

/// `GET /readyz`: the store answers, its schema is the one this version needs, the last writing
/// did not fail, and the queue for writing has room.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "Ready for events and questions", body = String, content_type = "text/plain"), Problems))]
pub(crate) async fn ready(
    State(store): State<Store>,
    State(intake): State<Intake>,
) -> Result<Response, Failure> {
    let not_ready = || {
        Failure::new(Code::StoreUnavailable, "The store doesn't answer as it should.")
            .retry_after(Duration::from_secs(5))
    };
    match tokio::time::timeout(PATIENCE, store.ready()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            return Err(not_ready());
        }
        Err(_) => {
            tracing::warn!("not ready: the store does not answer");
            return Err(not_ready());
        }
    }
    if let Some(error) = intake.trouble() {
        tracing::warn!(error = &*error as &dyn std::error::Error, "not ready: writing failed");
        return Err(Failure::of_store(&error));
    }
    if intake.is_full() {
        return Err(Failure::new(Code::QueueFull, "The queue for writing is full.")
            .retry_after(Duration::from_secs(1)));
    }
    Ok(([(header::CACHE_CONTROL, "no-store")], "ready\n").into_response())
}
