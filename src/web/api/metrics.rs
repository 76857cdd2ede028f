//! `GET /metrics`: all numbers of this process, for Prometheus.

use super::Problems;
use crate::metrics::Exposition;
use crate::web::{AppState, Failure};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// `GET /metrics`: in OpenMetrics 1.0 with exemplars where `Accept` names it, else in the text format
/// 0.0.4. Read tokens hold here as for pages; Prometheus sends one with `authorization` in its
/// `scrape_config`.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "All numbers of this process", content(
        (String = "application/openmetrics-text"), (String = "text/plain"))), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Exposition::accepted(&accept.collect::<Vec<_>>().join(","));
    let numbers = state.metrics.snapshot(state.clock.now());
    // Some megabytes where the caps were raised: not on a thread that answers others.
    let text = tokio::task::spawn_blocking(move || format.write(&numbers)).await;
    let text = text.map_err(|error| Failure::internal(&error))?;
    let content_type = HeaderValue::from_static(format.content_type());
    let vary = HeaderValue::from_static("accept");
    Ok(([(header::CONTENT_TYPE, content_type), (header::VARY, vary)], text).into_response())
}
