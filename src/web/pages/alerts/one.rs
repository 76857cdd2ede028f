//! `/alerts/{id}`: one alert with every change of it, what was told of it, and the forms to
//! acknowledge and to silence it.

use super::drawing::{self, Drawing, Drawn, Measured};
use super::forms::SilenceForm;
use super::model::{AlertOut, ChangeOut, DeliveryOut, Holds};
use super::{Wanted, evaluated_rules, evaluation_note, holds, receivers};
use crate::domain::alerts::{AlertSettings, Transition};
use crate::domain::time::UnixMillis;
use crate::store::{Alert, Delivery, HistoryItem, Silence};
use crate::web::api::Problems;
use crate::web::extract::Path;
use crate::web::pages::chart::Size;
use crate::web::pages::model::Shell;
use crate::web::pages::render;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::Serialize;
use utoipa::ToSchema;

/// How many changes and deliveries are listed.
const MAX_ROWS: i64 = 500;

/// One alert with its history.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AlertDetail {
    /// The alert.
    pub alert: AlertOut,
    /// What its rule measures, around it; null where that isn't among the sums per minute.
    pub measured: Option<Measured>,
    /// Its changes, newest first; at most 500.
    pub history: Vec<ChangeOut>,
    /// What was told of it or waits, newest first; at most 500.
    pub deliveries: Vec<DeliveryOut>,
}

/// What the page is made from.
#[derive(Debug, Clone)]
pub struct Input {
    /// The alert.
    pub alert: Alert,
    /// What is drawn around it.
    pub drawing: Option<Drawing>,
    /// Its changes, newest first.
    pub history: Vec<HistoryItem>,
    /// What was told of it or waits.
    pub deliveries: Vec<Delivery>,
    /// Silences that are not over.
    pub silences: Vec<Silence>,
    /// Who is told.
    pub receivers: Vec<String>,
    /// Who of them is sent nothing now.
    pub holds: Holds,
    /// The last evaluation.
    pub evaluated_at: Option<UnixMillis>,
    /// Thresholds in force.
    pub settings: AlertSettings,
    /// The time of asking.
    pub now: UnixMillis,
}

impl Input {
    /// Asks the store for all that the page of alert `id` shows.
    pub(crate) async fn fetch(state: &AppState, id: i64) -> Result<Self, Failure> {
        let now = state.clock.now();
        let store = &state.store;
        let alert = store.alert(id, now).await?.ok_or_else(|| Failure::not_found("alert"))?;
        Ok(Self {
            drawing: drawing::fetch(state, &alert).await?,
            history: store.alert_history(id, MAX_ROWS).await?,
            deliveries: store.deliveries_of(id, MAX_ROWS).await?,
            silences: store.silences(now).await?,
            receivers: receivers(state),
            holds: holds(state, now).await?,
            evaluated_at: store.alerts_standing().await?.evaluated_at,
            settings: state.config.alerts.clone(),
            alert,
            now,
        })
    }
}

impl AlertDetail {
    /// Words the input.
    pub fn build(input: &Input) -> Self {
        let measured = match &input.drawing {
            Some(Drawing::Measured(measured, _)) => Some(measured.clone()),
            _ => None,
        };
        let change = |item| ChangeOut::of(item, &input.alert.known);
        let history: Vec<ChangeOut> = input.history.iter().map(change).collect();
        let mut alert = AlertOut::of(&input.alert, &input.settings, input.now);
        // Of one that stands for nothing now: what the last message about it led to.
        let last_end = || history.iter().find(|change| change.change == Transition::Resolved);
        alert.triage = alert.triage.or_else(|| last_end()?.triage.clone());
        Self {
            alert,
            measured,
            history,
            deliveries: input
                .deliveries
                .iter()
                .map(|one| DeliveryOut::of(one, &input.silences, &input.holds, input.now))
                .collect(),
        }
    }
}

/// `GET /alerts/{id}`
#[utoipa::path(get, path = "/alerts/{id}", tag = "pages",
    params(("id" = i64, Path, description = "Number of the alert")),
    responses((status = 200, description = "One alert with its history", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(id): Path<i64>,
) -> Result<Html<String>, Failure> {
    render(&AlertPage::new(Input::fetch(&state, id).await?))
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/alert.html")]
pub struct AlertPage {
    shell: Shell,
    model: AlertDetail,
    drawn: Option<Drawn>,
    note: Option<String>,
    silence: SilenceForm,
    names: Vec<&'static str>,
    receivers: Vec<String>,
}

impl AlertPage {
    /// The page for `input`.
    pub fn new(input: Input) -> Self {
        let model = AlertDetail::build(&input);
        let alert = &model.alert;
        let id = alert.id;
        let [fired, ended] = [alert.fired_at, alert.resolved_at].map(|at| at.map(|at| at.0));
        let drawn = input.drawing.map(|one| Drawn::new(id, one, fired, ended, Size::Full));
        let of = Wanted {
            alert: Some(alert.alert.clone()),
            service: alert.service.clone(),
            upstream: alert.upstream.clone(),
            environment: alert.environment.clone(),
            from: input.now,
            to: None,
        };
        let note = evaluation_note(input.evaluated_at, input.now).filter(|_| !alert.is_over());
        let twin = format!("/api/v1{}", alert.page);
        Self {
            shell: Shell::new(format!("{} · alert {id}", alert.alert), "alerts").with_twin(twin),
            drawn,
            note,
            silence: SilenceForm::of(&of, input.now),
            names: evaluated_rules().map(|rule| rule.name).collect(),
            receivers: input.receivers,
            model,
        }
    }

    /// Pages to look at: firing, pending, over, silenced, about retrylens itself, and hostile.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        crate::web::pages::samples::alerts()
            .into_iter()
            .map(|(name, input)| (name, Self::new(input)))
            .collect()
    }
}
