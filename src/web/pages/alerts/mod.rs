//! `/alerts`: what fires, what is pending, what ended lately; who silenced what; what was told to
//! whom and what waits.
//!
//! - [`model`]: alerts, silences and deliveries as the pages and the API write them.
//! - [`drawing`]: what a rule measures, around its alert.
//! - [`one`]: the page of one alert.
//! - [`forms`]: silences and acknowledgements as they are asked for.

pub mod drawing;
pub mod forms;
pub mod model;
pub mod one;

use super::address::{self, Address, AddressError, filled};
use super::chart::Size;
use super::model::{Shell, Stamp};
use super::overview::Range;
use super::{framed, render_with, words};
use crate::config::notify::Receiver;
use crate::domain::alerts::{AlertSettings, RULES, ReceiverKey, Rule, Severity, Watch};
use crate::domain::stored::TimeBasis;
use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::store::{Alert, Delivery, Order, Silence, Standing};
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use drawing::{Drawing, Drawn};
use model::{AlertOut, DeliveryOut, HeldReceiver, Holds, SilenceOut, There};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How many alerts are asked for, and how many are listed.
const MAX_ASKED: i64 = 5_000;
const MAX_LISTED: usize = 500;
/// How many alerts have a card, and how many of those a drawing; the others are rows.
const MAX_CARDS: usize = 40;
const MAX_DRAWN: usize = 12;
/// How many deliveries are listed of those that wait, and of those that ended.
const MAX_DELIVERIES: i64 = 50;
/// After this long without an evaluation something is wrong.
const LATE: Millis = Millis(3 * MINUTE_MS);

/// Which alerts are asked for. An empty value, as forms send it, is the same as an absent one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct AlertParams {
    /// The alert's name.
    #[param(example = "Retrylens429Spike")]
    pub alert: Option<String>,
    /// The calling service.
    pub service: Option<String>,
    /// The upstream host.
    pub upstream: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Alerts that ended since then are listed too, RFC 3339; a day before now where absent.
    #[param(example = "2026-11-11T07:00:00Z")]
    pub from: Option<String>,
    /// Alerts that ended from then on are not listed, RFC 3339; what fires or is pending is, since it
    /// is so now.
    #[param(example = "2026-11-11T08:00:00Z")]
    pub to: Option<String>,
    /// `received`, as everywhere; alerts go by nothing else.
    pub time: Option<String>,
}

/// Which alerts are asked for, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The alert's name.
    pub alert: Option<String>,
    /// The calling service.
    pub service: Option<String>,
    /// The upstream host.
    pub upstream: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Since when ended ones are listed.
    pub from: UnixMillis,
    /// Until when.
    pub to: Option<UnixMillis>,
}

impl AlertParams {
    /// Reads them.
    pub fn wanted(&self, now: UnixMillis) -> Result<Wanted, AddressError> {
        let own = |text: &Option<String>| filled(text.as_deref()).map(ToOwned::to_owned);
        let alert = own(&self.alert);
        if let Some(name) = &alert {
            known_rule("alert", name)?;
        }
        if filled(self.time.as_deref()).is_some_and(|word| word != TimeBasis::Received.as_str()) {
            return Err(AddressError::new(
                "time",
                "expected received: alerts go by time of receipt",
            ));
        }
        let day_ago = address::last_hour(now).to.plus(Millis(-DAY_MS));
        Ok(Wanted {
            alert,
            service: own(&self.service),
            upstream: own(&self.upstream).map(|host| host.to_ascii_lowercase()),
            environment: own(&self.environment),
            from: filled(self.from.as_deref())
                .map_or(Ok(day_ago), |text| address::moment("from", text))?,
            to: filled(self.to.as_deref()).map(|text| address::moment("to", text)).transpose()?,
        })
    }
}

/// The rule of a name in parameter `parameter`.
pub(super) fn known_rule(
    parameter: &'static str,
    name: &str,
) -> Result<&'static Rule, AddressError> {
    evaluated_rules().find(|rule| rule.name == name).ok_or_else(|| {
        AddressError::new(
            parameter,
            "expected the name of an alert that is evaluated here, such as Retrylens429Spike",
        )
    })
}

impl Wanted {
    fn holds(&self, alert: &Alert) -> bool {
        let fits = |own: &Option<String>, name: &str| own.as_deref().is_none_or(|own| own == name);
        let subject = &alert.known.subject;
        fits(&self.alert, &alert.known.rule)
            && fits(&self.service, &subject.service)
            && fits(&self.upstream, &subject.upstream)
            && fits(&self.environment, &subject.environment)
            && (is_on(alert) || self.to.is_none_or(|to| alert.since < to))
    }

    /// The address of these alerts below `path`.
    fn address(&self, path: &'static str) -> String {
        Address::new(path)
            .with_some("alert", self.alert.as_deref())
            .with_some("service", self.service.as_deref())
            .with_some("upstream", self.upstream.as_deref())
            .with_some("environment", self.environment.as_deref())
            .with("from", &self.from.to_rfc3339())
            .with_some("to", self.to.map(UnixMillis::to_rfc3339).as_deref())
            .finish()
    }

    fn is_of_all(&self) -> bool {
        *self == Self { from: self.from, ..Self::default() }
    }
}

/// All alerts of a filter, silences, and what was told.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Alerts {
    /// The last evaluation; null before the first.
    pub evaluated_at: Option<Stamp>,
    /// What is wrong with the evaluation; null where nothing is.
    pub evaluation_note: Option<String>,
    /// How many rules are evaluated here: all that are exported but `RetrylensAbsent`, which only
    /// somebody else can tell.
    pub rules: usize,
    /// How many pairs of service and upstream called in the hour before the last evaluation.
    pub pairs: usize,
    /// How many alerts of this filter fire.
    pub firing: usize,
    /// Of those, how many are silenced.
    pub silenced: usize,
    /// Of those, how many somebody looks after.
    pub acknowledged: usize,
    /// How many alerts of this filter are pending.
    pub pending: usize,
    /// Since when ended alerts are listed.
    pub from: Stamp,
    /// Alerts: firing ones, then pending ones, critical ones first of each; then those that ended.
    /// The newest first; at most 500.
    pub items: Vec<AlertOut>,
    /// How many there are in all.
    pub total: usize,
    /// Always null: the list has one page.
    pub next: Option<String>,
    /// Silences that are not over.
    pub silences: Vec<SilenceOut>,
    /// Who is told, by name.
    pub receivers: Vec<String>,
    /// Those of them that nothing is sent to now, and why.
    pub held: Vec<HeldReceiver>,
    /// What waits to be told, next first; at most 50.
    pub waiting: Vec<DeliveryOut>,
    /// What was told or given up, newest first; at most 50.
    pub told: Vec<DeliveryOut>,
}

/// What the page is made from.
#[derive(Debug, Clone)]
pub struct Input {
    /// What was asked for.
    pub wanted: Wanted,
    /// How alerts stand.
    pub standing: Standing,
    /// Pairs that called in the last hour.
    pub pairs: usize,
    /// Alerts of the filter.
    pub alerts: Vec<Alert>,
    /// Drawings around some of them, by number.
    pub drawings: BTreeMap<i64, Drawing>,
    /// Silences that are not over.
    pub silences: Vec<Silence>,
    /// What those may cover.
    pub there: There,
    /// Who is told.
    pub receivers: Vec<String>,
    /// Who of them is sent nothing now.
    pub holds: Holds,
    /// What waits.
    pub waiting: Vec<Delivery>,
    /// What ended.
    pub ended: Vec<Delivery>,
    /// Thresholds in force.
    pub settings: AlertSettings,
    /// The time of asking.
    pub now: UnixMillis,
}

impl Input {
    /// Asks the store for all that the list of `params` shows; drawings only where they are.
    pub(crate) async fn fetch(
        state: &AppState,
        params: &AlertParams,
        with_drawings: bool,
    ) -> Result<Self, Failure> {
        let now = state.clock.now();
        let wanted = params.wanted(now)?;
        let store = &state.store;
        let standing = store.alerts_standing().await?;
        let mut alerts = store.alerts(now, wanted.from, MAX_ASKED).await?;
        alerts.extend(store.earlier_firings(now, wanted.from, MAX_ASKED).await?);
        alerts.retain(|alert| wanted.holds(alert));
        // What wakes someone comes first, the newest first among equals.
        alerts.sort_by_key(|alert| (rank(alert), severity(alert), Reverse(alert.since)));
        let mut drawings = BTreeMap::new();
        let drawn = alerts.iter().filter(|alert| is_on(alert)).take(MAX_DRAWN);
        for alert in drawn.take_while(|_| with_drawings) {
            if let Some(drawing) = drawing::fetch(state, alert).await? {
                drawings.insert(alert.known.id, drawing);
            }
        }
        let to = standing.evaluated_at.unwrap_or(now);
        let silences = store.silences(now).await?;
        let there =
            if silences.is_empty() { There::default() } else { forms::there(state).await? };
        let hour = Window { from: to.plus(Millis(-HOUR_MS)), to };
        Ok(Self {
            standing,
            pairs: store.pairs(hour, TimeBasis::Received).await?.len(),
            alerts,
            drawings,
            silences,
            there,
            receivers: receivers(state),
            holds: holds(state, now).await?,
            waiting: store.deliveries(Order::Waiting, MAX_DELIVERIES).await?,
            ended: store.deliveries(Order::Ended, MAX_DELIVERIES).await?,
            settings: state.config.alerts.clone(),
            wanted,
            now,
        })
    }
}

/// Whether an alert fires or is pending.
fn is_on(alert: &Alert) -> bool {
    matches!(alert.known.state.as_str(), "firing" | "pending")
}

/// Firing ones, then pending ones, then the others.
fn rank(alert: &Alert) -> u8 {
    match alert.known.state.as_str() {
        "firing" => 0,
        "pending" => 1,
        _ => 2,
    }
}

/// How bad an alert that fires or is pending is, the worst first.
fn severity(alert: &Alert) -> Option<Severity> {
    let rule = Rule::named(&alert.known.rule).filter(|_| is_on(alert));
    rule.map(|rule| rule.severity)
}

/// Who is told of alerts, by name.
pub(super) fn receivers(state: &AppState) -> Vec<String> {
    state.config.notify.receivers.iter().map(|one| one.name().to_owned()).collect()
}

/// Receivers of the settings that nothing is sent to at `now`.
pub(super) async fn holds(state: &AppState, now: UnixMillis) -> Result<Holds, Failure> {
    let ours: Vec<ReceiverKey> = state.config.notify.receivers.iter().map(Receiver::key).collect();
    let holds = state.store.holds(now).await?.into_iter();
    Ok(holds.filter(|(key, _)| ours.contains(key)).map(|(key, hold)| (key.name, hold)).collect())
}

/// The rules that are evaluated here.
pub(super) fn evaluated_rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(|rule| rule.watch != Watch::Absence)
}

impl Alerts {
    /// Words the input.
    pub fn build(input: &Input) -> Self {
        let Input { alerts, now, .. } = input;
        let count = |holds: &dyn Fn(&Alert) -> bool| alerts.iter().filter(|one| holds(one)).count();
        let is_firing = |one: &Alert| one.known.state.is_firing();
        let told = |list: &[Delivery]| {
            let out = |one| DeliveryOut::of(one, &input.silences, &input.holds, *now);
            list.iter().map(out).collect()
        };
        Self {
            evaluated_at: input.standing.evaluated_at.map(Stamp),
            evaluation_note: evaluation_note(input.standing.evaluated_at, *now),
            rules: evaluated_rules().count(),
            pairs: input.pairs,
            firing: count(&is_firing),
            silenced: count(&|one| is_firing(one) && one.silence.is_some()),
            acknowledged: count(&|one| is_firing(one) && one.acknowledged.is_some()),
            pending: count(&|one| one.known.state.as_str() == "pending"),
            from: Stamp(input.wanted.from),
            items: alerts
                .iter()
                .take(MAX_LISTED)
                .map(|alert| AlertOut::of(alert, &input.settings, *now))
                .collect(),
            total: alerts.len(),
            next: None,
            silences: input
                .silences
                .iter()
                .map(|one| SilenceOut::beside(one, &input.there, *now))
                .collect(),
            receivers: input.receivers.clone(),
            held: input
                .holds
                .iter()
                .map(|(receiver, hold)| HeldReceiver::of(receiver, *hold, input.now))
                .collect(),
            waiting: told(&input.waiting),
            told: told(&input.ended),
        }
    }
}

/// What is wrong with the evaluation, if anything.
pub(super) fn evaluation_note(evaluated_at: Option<UnixMillis>, now: UnixMillis) -> Option<String> {
    let at = evaluated_at?;
    (now.since(at) > LATE).then(|| {
        format!(
            "Alerts were last evaluated {}: what is shown is how they stood then. The log says why; \
             on PostgreSQL one replica evaluates, and another takes over within two minutes.",
            words::ago(at, now)
        )
    })
}

/// `GET /alerts`
#[utoipa::path(get, path = "/alerts", tag = "pages", params(AlertParams),
    responses((status = 200, description = "Alerts: firing, pending, ended lately", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(params): Query<AlertParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    render_with(AlertsPage::new(Input::fetch(&state, &params, true).await?), hint)
}

/// An alert with its drawing.
#[derive(Debug, Clone)]
pub(super) struct Card {
    alert: AlertOut,
    drawn: Option<Drawn>,
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/alerts.html")]
pub struct AlertsPage {
    shell: Shell,
    model: Alerts,
    firing: Vec<Card>,
    pending: Vec<Card>,
    /// Firing and pending ones that have no card.
    more: Vec<AlertOut>,
    ended: Vec<AlertOut>,
    ranges: Vec<Range>,
    names: Vec<&'static str>,
    silence: forms::SilenceForm,
    is_filtered: bool,
    headline: String,
    evaluated: Option<String>,
}

framed!(AlertsPage);

impl AlertsPage {
    /// The page for `input`.
    pub fn new(mut input: Input) -> Self {
        let model = Alerts::build(&input);
        let (mut firing, mut pending) = (Vec::new(), Vec::new());
        let (mut more, mut ended) = (Vec::new(), Vec::new());
        for alert in model.items.iter().cloned() {
            if alert.is_over() {
                ended.push(alert);
            } else if firing.len() + pending.len() >= MAX_CARDS {
                more.push(alert);
            } else {
                let drawing = input.drawings.remove(&alert.id);
                let fired = alert.fired_at.map(|at| at.0);
                let drawn = drawing.map(|one| Drawn::new(alert.id, one, fired, None, Size::Half));
                let cards = if alert.is_firing() { &mut firing } else { &mut pending };
                cards.push(Card { alert, drawn });
            }
        }
        let wanted = input.wanted;
        let now = input.now;
        Self {
            shell: Shell::new("Alerts", "alerts").with_twin(wanted.address("/api/v1/alerts")),
            ranges: ranges(&wanted, now),
            names: evaluated_rules().map(|rule| rule.name).collect(),
            silence: forms::SilenceForm::of(&wanted, now),
            is_filtered: !wanted.is_of_all(),
            headline: headline(&model),
            evaluated: input.standing.evaluated_at.map(|at| words::ago(at, now)),
            model,
            firing,
            pending,
            more,
            ended,
        }
    }

    /// Pages to look at: empty, calm, usual, extreme and hostile.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        super::samples::alert_lists()
            .into_iter()
            .map(|(name, input)| (name, Self::new(input)))
            .collect()
    }
}

/// How alerts stand, in a sentence.
fn headline(model: &Alerts) -> String {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut text = match model.firing {
        0 => "No alert fires".to_owned(),
        1 => "1 alert fires".to_owned(),
        n => format!("{} alerts fire", words::count(count(n))),
    };
    let parts = [(model.silenced, "silenced"), (model.acknowledged, "acknowledged")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", words::count(count(n))))
        .collect();
    if !parts.is_empty() {
        text = format!("{text} ({})", parts.join(", "));
    }
    match model.pending {
        0 => text,
        n => format!("{text}, {} pending", words::count(count(n))),
    }
}

/// Links to the same page with those that ended in the last day, week, month or quarter.
fn ranges(wanted: &Wanted, now: UnixMillis) -> Vec<Range> {
    let to = address::last_hour(now).to;
    [("24 hours", 1), ("7 days", 7), ("30 days", 30), ("90 days", 90)]
        .into_iter()
        .map(|(word, days)| {
            let wanted =
                Wanted { from: to.plus(Millis(-days * DAY_MS)), to: None, ..wanted.clone() };
            Range { href: wanted.address("/alerts"), word }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_back_as_itself_and_names_what_is_wrong() {
        let now = UnixMillis(1_794_384_000_000);
        let params = AlertParams {
            alert: Some("Retrylens429Spike".to_owned()),
            service: Some(" che&ck ".to_owned()),
            upstream: Some("API.example.com".to_owned()),
            environment: Some(String::new()),
            from: None,
            to: Some("2026-11-11T08:00:00Z".to_owned()),
            time: Some("received".to_owned()),
        };
        let wanted = params.wanted(now).unwrap();
        assert_eq!(wanted.from, now.plus(Millis(-DAY_MS)));
        let address = wanted.address("/alerts");
        let uri = format!("http://x{address}").parse().unwrap();
        let read: AlertParams = axum::extract::Query::try_from_uri(&uri).unwrap().0;
        assert_eq!(read.wanted(now.plus(Millis(DAY_MS))).unwrap(), wanted);
        let odd = AlertParams { alert: Some("x".to_owned()), ..AlertParams::default() };
        assert_eq!(odd.wanted(now).unwrap_err().name, "alert");
        let odd = AlertParams { from: Some("x".to_owned()), ..AlertParams::default() };
        assert_eq!(odd.wanted(now).unwrap_err().name, "from");
        let odd = AlertParams { time: Some("event".to_owned()), ..AlertParams::default() };
        assert_eq!(odd.wanted(now).unwrap_err().name, "time");
    }

    #[test]
    fn an_evaluation_that_is_late_is_told() {
        let now = UnixMillis(1_794_384_000_000);
        let at = |minutes: i64| Some(now.plus(Millis(-minutes * MINUTE_MS)));
        assert_eq!(evaluation_note(None, now), None);
        assert_eq!(evaluation_note(at(3), now), None);
        let note = evaluation_note(at(4), now).unwrap();
        assert!(note.contains("4 min ago"), "{note}");
    }
}
