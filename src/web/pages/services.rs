//! `/services`: the calling services. `/services/{name}`: the report card of one, twelve mistakes
//! to find and ten habits to confirm, for the whole and per retry layer.

use super::address::{self, Address, AddressError, ViewParams};
use super::elsewhere::Elsewhere;
use super::model::{Figure, Shell, Stamp, ViewOut, figures};
use super::overview::{Range, ranges};
use super::triage::RowRef;
use super::{framed, kept, render_with, words};
use crate::domain::checklist::{Facts, Grade, GradeMark, LayerCard, ReportCard, report_card};
use crate::domain::event::RetryLayer;
use crate::domain::stored::{Counts, Scope, Sender, ServiceCounts, TimeBasis, View};
use crate::domain::time::{DAY_MS, Millis, UnixMillis, Window};
use crate::web::api::Problems;
use crate::web::extract::{Path, Query};
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How many rows of a grade the document lists; its address leads to all.
const ROWS_LISTED: usize = 20;

/// The day before `now`, up to the end of the running minute: a policy shows over more than an
/// hour.
pub fn last_day(now: UnixMillis) -> Window {
    let to = address::last_hour(now).to;
    Window { from: to.plus(Millis(-DAY_MS)), to }
}

/// The view of a service's card; the service in the path stands above one in the query.
pub fn card_view(
    service: &str,
    params: &ViewParams,
    now: UnixMillis,
) -> Result<View, AddressError> {
    let view = params.view(last_day(now))?;
    Ok(View { scope: Scope { service: Some(service.to_owned()), ..view.scope }, ..view })
}

/// One calling service.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServiceOut {
    /// Its name.
    pub service: String,
    /// First attempts.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
    /// Attempts that a limit refused.
    pub limited: i64,
    /// Limited attempts / attempts.
    pub limited_ratio: Option<f64>,
    /// Attempts / requests.
    pub attempts_per_operation: Option<f64>,
    /// When its newest attempt was sent.
    pub last_at: Stamp,
    /// Address of its report card.
    pub page: String,
    /// Address of its triage.
    pub triage: String,
    /// How long ago the newest attempt was, worded.
    #[serde(skip)]
    pub last: String,
}

impl ServiceOut {
    /// `1,204 (+310)`.
    pub fn volume(&self) -> String {
        format!("{} (+{})", words::count(self.requests), words::count(self.retries))
    }

    /// The limited count, grouped.
    pub fn limited_text(&self) -> String {
        words::count(self.limited)
    }

    /// The limited ratio, worded.
    pub fn ratio_text(&self) -> String {
        words::percent_or_none(self.limited_ratio)
    }

    /// Attempts per operation, worded.
    pub fn factor_text(&self) -> String {
        words::factor(self.attempts_per_operation)
    }
}

/// The calling services of a window.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Services {
    /// The view.
    pub view: ViewOut,
    /// The services, most limited first.
    pub items: Vec<ServiceOut>,
    /// Always null: the list has one page.
    pub next: Option<String>,
}

impl Services {
    /// Words the counts.
    pub fn build(view: &View, services: &[ServiceCounts], now: UnixMillis) -> Self {
        let items = services
            .iter()
            .map(|one| {
                let c = &one.counts;
                let scope = Scope { service: Some(one.service.clone()), ..view.scope.clone() };
                let own = View { scope, ..view.clone() };
                ServiceOut {
                    service: one.service.clone(),
                    requests: c.requests,
                    retries: c.retries,
                    limited: c.limited,
                    limited_ratio: words::ratio(c.limited, c.attempts),
                    attempts_per_operation: words::ratio(c.attempts, c.requests),
                    last_at: Stamp(one.last_at),
                    page: card_address(&one.service, &own),
                    triage: Address::new("/triage").view(&own).finish(),
                    last: words::ago(one.last_at, now),
                }
            })
            .collect();
        Self { view: view.into(), items, next: None }
    }
}

/// Address of a service's card over a view's window.
fn card_address(service: &str, view: &View) -> String {
    let base = address::service(service);
    let query = Address::new("")
        .with("from", &view.window.from.to_rfc3339())
        .with("to", &view.window.to.to_rfc3339())
        .with_some("environment", view.scope.environment.as_deref())
        .with_some("upstream", view.scope.upstream.as_deref())
        .with_some("time", (view.time != TimeBasis::Event).then(|| view.time.as_str()))
        .finish();
    if base.contains('?') {
        format!("{base}{}", query.replacen('?', "&", 1))
    } else {
        base + &query
    }
}

/// Which service, for the few names that no path can carry.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct NameParams {
    /// The service whose report card it is.
    name: Option<String>,
}

/// `GET /services`
#[utoipa::path(get, path = "/services", tag = "pages", params(ViewParams, NameParams),
    responses((status = 200, description = "The calling services", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    Query(name): Query<NameParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    if let Some(name) = name.name {
        return card(&state, &name, &params, hint).await;
    }
    let now = state.clock.now();
    let (view, kept_note) = kept::counted(&state, &params.view(last_day(now))?).await?;
    let services = state.store.services(view.window).await?;
    let mut page = ServicesPage::new(&view, &services, now);
    page.model.view.kept_note = kept_note;
    render_with(page, hint)
}

/// `GET /services/{name}`
#[utoipa::path(get, path = "/services/{name}", tag = "pages",
    params(("name" = String, Path, description = "The service"), ViewParams),
    responses((status = 200, description = "The report card of a service", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(params): Query<ViewParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    card(&state, &name, &params, hint).await
}

async fn card(
    state: &AppState,
    name: &str,
    params: &ViewParams,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    let now = state.clock.now();
    let (view, kept_note) = kept::counted(state, &card_view(name, params, now)?).await?;
    let (facts, elsewhere) = seen(state, &view, now).await?;
    let mut page = ServicePage::new(&view, &facts.totals, &report_card(&facts), elsewhere, now);
    page.model.view.kept_note = kept_note;
    render_with(page, hint)
}

/// The facts of a service's view; where they hold no attempt, also one outside of the window.
///
/// # Errors
/// Not found, where no event of the service was ever stored.
pub(crate) async fn seen(
    state: &AppState,
    view: &View,
    now: UnixMillis,
) -> Result<(Facts, Option<Elsewhere>), Failure> {
    let facts = state.store.facts(view, now).await?;
    if facts.totals.attempts > 0 {
        return Ok((facts, None));
    }
    let service = view.scope.service.clone();
    let mut elsewhere = Elsewhere::find(state, view).await?;
    if elsewhere.is_none() {
        // Perhaps it calls another upstream, or from another environment.
        let scope = Scope { service: service.clone(), ..Scope::default() };
        elsewhere = Elsewhere::find(state, &View { scope, ..view.clone() }).await?;
    }
    if elsewhere.is_none() {
        // Gateways and origins report as well.
        let senders = state.store.senders().await?;
        let is_known = |one: &Sender| Some(&one.service) == service.as_ref();
        if !senders.iter().any(|one| is_known(one) && one.counts.events > 0) {
            return Err(Failure::not_found("service"));
        }
    }
    Ok((facts, elsewhere))
}

/// The list of services.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/services.html")]
pub struct ServicesPage {
    shell: Shell,
    model: Services,
    ranges: Vec<Range>,
}

framed!(ServicesPage);

impl ServicesPage {
    /// The page of a window.
    pub fn new(view: &View, services: &[ServiceCounts], now: UnixMillis) -> Self {
        Self {
            shell: Shell::new("Services", "services")
                .with_twin(Address::new("/api/v1/services").view(view).finish()),
            model: Services::build(view, services, now),
            ranges: ranges("/services", view, now),
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let view = samples::view(None, None);
        let of = |name: &str, counts: Counts| ServiceCounts {
            service: name.to_owned(),
            counts,
            last_at: samples::NOW,
        };
        let hostile: Vec<ServiceCounts> = samples::hostile()
            .iter()
            .map(|text| of(text, samples::counts(1 << 40, 9, 8)))
            .chain([of("..", Counts::default())])
            .collect();
        vec![
            ("empty", Self::new(&view, &[], samples::NOW)),
            (
                "usual",
                Self::new(&view, &[of("checkout", samples::counts(900, 300, 200))], samples::NOW),
            ),
            ("hostile", Self::new(&view, &hostile, samples::NOW)),
        ]
    }
}

/// One mistake or habit, graded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct GradeOut {
    /// Its number in the list, from 1.
    pub number: u8,
    /// What is graded.
    pub title: String,
    /// The mark.
    pub mark: GradeMark,
    /// What the mark rests on.
    pub evidence: String,
    /// How many attempts or operations are behind it in all.
    pub rows_total: i64,
    /// The first attempts behind it.
    pub rows: Vec<RowRef>,
    /// Address of the list of attempts behind it; null where there are none.
    pub rows_page: Option<String>,
}

impl GradeOut {
    /// The word on its badge.
    pub fn word(&self) -> &'static str {
        match self.mark {
            GradeMark::Pass => "pass",
            GradeMark::Fail => "fail",
            GradeMark::NotSeen => "not seen",
        }
    }

    /// How many rows are behind it, grouped.
    pub fn rows_text(&self) -> String {
        words::count(self.rows_total)
    }
}

/// The grades of one retry layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LayerOut {
    /// The layer.
    pub layer: RetryLayer,
    /// Attempts of the operations in which it re-sent.
    pub attempts: i64,
    /// The twelve mistakes.
    pub mistakes: Vec<GradeOut>,
    /// The ten habits.
    pub habits: Vec<GradeOut>,
}

impl LayerOut {
    /// What the table of its mistakes is called.
    pub fn mistakes_caption(&self) -> String {
        format!("Mistakes where the layer {} re-sends", self.layer)
    }

    /// What the table of its habits is called.
    pub fn habits_caption(&self) -> String {
        format!("Habits where the layer {} re-sends", self.layer)
    }

    /// How it did, in words.
    pub fn summary(&self) -> String {
        let count = |mark| {
            let all = self.mistakes.iter().chain(&self.habits);
            all.filter(|grade| grade.mark == mark).count()
        };
        format!(
            "{}: {} fail, {} pass, {} not seen, over {}",
            self.layer,
            count(GradeMark::Fail),
            count(GradeMark::Pass),
            count(GradeMark::NotSeen),
            words::counted(self.attempts, "attempt", "attempts"),
        )
    }
}

/// The report card of a service.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Card {
    /// The view.
    pub view: ViewOut,
    /// The service.
    pub service: String,
    /// Attempts that the card rests on.
    pub attempts: i64,
    /// The numbers of the window.
    pub figures: Vec<Figure>,
    /// The twelve mistakes.
    pub mistakes: Vec<GradeOut>,
    /// The ten habits.
    pub habits: Vec<GradeOut>,
    /// The same per retry layer, for layers that re-sent anything.
    pub layers: Vec<LayerOut>,
    /// Address of the triage of the same view.
    pub triage: String,
}

/// Whether a grade is of a mistake or of a habit: part of the id under which its rows are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of the twelve.
    Mistake,
    /// One of the ten.
    Habit,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Mistake => "mistake",
            Self::Habit => "habit",
        }
    }
}

/// The id under which the rows of a grade are listed: `mistake-3`, `habit-2-sdk`.
fn grade_id(kind: Kind, number: u8, layer: Option<RetryLayer>) -> String {
    layer.map_or_else(
        || format!("{}-{number}", kind.word()),
        |layer| format!("{}-{number}-{layer}", kind.word()),
    )
}

/// The grade with this id.
pub fn find_grade<'a>(card: &'a ReportCard, id: &str) -> Option<&'a Grade> {
    let lists = |layer: Option<RetryLayer>, mistakes: &'a [Grade], habits: &'a [Grade]| {
        let one = move |kind, grade: &'a Grade| (grade_id(kind, grade.number, layer), grade);
        let mistakes = mistakes.iter().map(move |grade| one(Kind::Mistake, grade));
        mistakes.chain(habits.iter().map(move |grade| one(Kind::Habit, grade)))
    };
    lists(None, &card.mistakes, &card.habits)
        .chain(
            card.layers.iter().flat_map(|layer: &LayerCard| {
                lists(Some(layer.layer), &layer.mistakes, &layer.habits)
            }),
        )
        .find_map(|(own, grade)| (own == id).then_some(grade))
}

impl Card {
    /// Words and links a card.
    pub fn build(view: &View, totals: &Counts, card: &ReportCard) -> Self {
        let grades = |kind, list: &[Grade], layer: Option<RetryLayer>| -> Vec<GradeOut> {
            list.iter()
                .map(|grade| GradeOut {
                    number: grade.number,
                    title: grade.title.clone(),
                    mark: grade.mark,
                    evidence: grade.evidence.clone(),
                    rows_total: grade.rows_total,
                    rows: grade
                        .rows
                        .iter()
                        .take(ROWS_LISTED)
                        .map(|(event_id, at)| RowRef {
                            event_id: event_id.clone(),
                            occurred_at: Stamp(*at),
                            page: address::event(event_id),
                        })
                        .collect(),
                    rows_page: (!grade.rows.is_empty()).then(|| {
                        let id = grade_id(kind, grade.number, layer);
                        Address::new("/events").view(view).with("finding", &id).finish()
                    }),
                })
                .collect()
        };
        Self {
            view: view.into(),
            service: view.scope.service.clone().unwrap_or_default(),
            attempts: card.attempts,
            figures: figures(view, totals),
            mistakes: grades(Kind::Mistake, &card.mistakes, None),
            habits: grades(Kind::Habit, &card.habits, None),
            layers: card
                .layers
                .iter()
                .map(|layer| LayerOut {
                    layer: layer.layer,
                    attempts: layer.attempts,
                    mistakes: grades(Kind::Mistake, &layer.mistakes, Some(layer.layer)),
                    habits: grades(Kind::Habit, &layer.habits, Some(layer.layer)),
                })
                .collect(),
            triage: Address::new("/triage").view(view).finish(),
        }
    }
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/service.html")]
pub struct ServicePage {
    shell: Shell,
    model: Card,
    summary: String,
    ranges: Vec<Range>,
    /// Where the window is empty: an attempt outside of it, and its hour's address.
    elsewhere: Option<(Elsewhere, String)>,
}

/// Links to the same card over the usual windows that end now.
fn card_ranges(service: &str, view: &View, now: UnixMillis) -> Vec<Range> {
    let to = address::last_hour(now).to;
    [("1 hour", DAY_MS / 24), ("6 hours", DAY_MS / 4), ("24 hours", DAY_MS), ("7 days", 7 * DAY_MS)]
        .into_iter()
        .map(|(word, span)| {
            let window = Window { from: to.plus(Millis(-span)), to };
            let view = View { window, ..view.clone() };
            Range { href: card_address(service, &view), word }
        })
        .collect()
}

framed!(ServicePage);

impl ServicePage {
    /// The page of a card.
    /// Where the window holds no attempt, `elsewhere` is one of the service outside of it.
    pub fn new(
        view: &View,
        totals: &Counts,
        card: &ReportCard,
        elsewhere: Option<Elsewhere>,
        now: UnixMillis,
    ) -> Self {
        let model = Card::build(view, totals, card);
        let count = |list: &[GradeOut], mark| list.iter().filter(|g| g.mark == mark).count();
        let n = |list: &[GradeOut], mark| i64::try_from(count(list, mark)).unwrap_or(0);
        let summary = if model.attempts == 0 {
            "Nothing was sent for this service in this window.".to_owned()
        } else {
            format!(
                "{} found and {} confirmed, over {}.",
                words::counted(n(&model.mistakes, GradeMark::Fail), "mistake", "mistakes"),
                words::counted(n(&model.habits, GradeMark::Pass), "habit", "habits"),
                words::counted(model.attempts, "attempt", "attempts"),
            )
        };
        let shell = Shell::new(format!("Report card: {}", model.service), "services");
        let twin = format!("/api/v1{}", card_address(&model.service, view));
        Self {
            shell: if twin.contains("/services?") { shell } else { shell.with_twin(twin) },
            ranges: card_ranges(&model.service, view, now),
            elsewhere: elsewhere.map(|one| {
                let href = card_address(&model.service, &one.view);
                (one, href)
            }),
            summary,
            model,
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        use crate::domain::checklist::samples as facts;
        let page = |facts: &crate::domain::checklist::Facts, service: &str| {
            let mut view = facts.view.clone();
            view.scope.service = Some(service.to_owned());
            let elsewhere =
                (facts.totals.attempts == 0).then(|| Elsewhere::at(&view, UnixMillis(0), false));
            Self::new(&view, &facts.totals, &report_card(facts), elsewhere, samples::NOW)
        };
        let mut hostile = report_card(&facts::hostile());
        for grade in hostile.mistakes.iter_mut().chain(&mut hostile.habits) {
            grade.evidence = samples::hostile().concat();
            grade.rows = vec![(samples::hostile()[1].clone(), samples::NOW)];
        }
        let view = samples::view(Some(&samples::hostile()[0]), None);
        vec![
            ("empty", page(&facts::empty(), "checkout")),
            ("usual", page(&facts::usual(), "checkout")),
            ("extreme", page(&facts::extreme(), "checkout")),
            ("hostile", Self::new(&view, &Counts::default(), &hostile, None, samples::NOW)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::checklist::samples as facts;

    #[test]
    fn every_grade_with_rows_is_found_by_the_id_in_its_address() {
        let card = report_card(&facts::usual());
        let view = facts::usual().view;
        let model = Card::build(&view, &Counts::default(), &card);
        let whole = model.mistakes.iter().chain(&model.habits);
        let layers = model.layers.iter().flat_map(|l| l.mistakes.iter().chain(&l.habits));
        let mut seen = 0;
        for grade in whole.chain(layers) {
            let Some(page) = &grade.rows_page else { continue };
            let id = page.rsplit_once("finding=").unwrap().1;
            assert_eq!(find_grade(&card, id).unwrap().evidence, grade.evidence, "{id}");
            seen += 1;
        }
        assert!(seen > 5, "{seen}");
        assert_eq!(find_grade(&card, "mistake-99"), None);
    }
}
