//! Alert rules and dashboards, to be provisioned from here.

use super::Problems;
use crate::export::grafana::{Links, is_uid};
use crate::export::{RuleFormat, dashboards};
use crate::web::extract::{Path, Query};
use crate::web::pages::address::AddressError;
use crate::web::{AppState, Code, Failure};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::IntoParams;

/// What is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RuleParams {
    /// `prometheus`, `grafana` (files) or `grafana-api` (an array of rule groups).
    #[param(value_type = String, example = "prometheus")]
    format: Option<String>,
    /// UID of the Prometheus data source in Grafana; `prometheus` where not named.
    datasource_uid: Option<String>,
}

/// `GET /api/v1/export/rules`
#[utoipa::path(get, path = "/api/v1/export/rules", tag = "export", params(RuleParams),
    responses((status = 200, description = "The alert rules with the thresholds in force",
        content((String = "application/yaml"), (Vec<Object> = "application/json"))), Problems))]
pub(crate) async fn rules(
    State(state): State<AppState>,
    Query(params): Query<RuleParams>,
) -> Result<impl IntoResponse, Failure> {
    let format: RuleFormat = params.format.as_deref().unwrap_or_default().parse().map_err(
        |error: crate::domain::spelling::UnknownWord| {
            Failure::from(AddressError::new("format", error.to_string()))
        },
    )?;
    let datasource = params.datasource_uid.unwrap_or_else(|| "prometheus".to_owned());
    if !is_uid(&datasource) {
        let expected = "1 to 40 letters, digits, - or _";
        return Err(Failure::invalid_parameter("datasource_uid", expected));
    }
    let links = Links { base: state.config.server.base(), datasource };
    let text = format.write(&state.config.alerts, &links);
    Ok(([(header::CONTENT_TYPE, format.media_type())], text))
}

/// `GET /api/v1/export/dashboards/{name}`
#[utoipa::path(get, path = "/api/v1/export/dashboards/{name}", tag = "export",
    params(("name" = String, Path, description = "`retrylens-overview`, `retrylens-service` or `retrylens-self`")),
    responses((status = 200, description = "A dashboard in Grafana's classic model", body = Object,
        content_type = "application/json"), Problems))]
pub(crate) async fn dashboard(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Failure> {
    let name = name.strip_suffix(".json").unwrap_or(&name);
    let made = dashboards::dashboard(name, &state.config.alerts, &state.config.server.base());
    let text = made.ok_or_else(|| {
        let detail = format!("The dashboards are: {}.", dashboards::NAMES.join(", "));
        Failure::new(Code::NotFound, detail)
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text))
}
