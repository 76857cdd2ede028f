//! `/triage`: the eight steps for a scope and a window, as a page, as JSON and as Markdown at one
//! permalink.

use super::address::{self, Address, AddressError, ViewParams, filled};
use super::chart::Chart;
use super::elsewhere::Elsewhere;
use super::model::{
    ClientMetric, Figure, Series, Shell, Stamp, ViewOut, figures, scope_title, series_width,
    source_note,
};
use super::overview::{Range, ranges};
use super::{framed, kept, render_with, words};
use crate::config::Config;
use crate::domain::alerts::{self, Rule};
use crate::domain::checklist::{
    Answer, AnswerState, Finding, NextAction, PlannerInput, Step, Table, answers, plan,
};
use crate::domain::event::Vantage;
use crate::domain::stored::{Bucket, Counts, Labels, Mark, RowFilter, Scope, TimeBasis, View};
use crate::domain::time::{Millis, UnixMillis, Window};
use crate::domain::volumes::Volume;
use crate::export::markdown;
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use utoipa::{IntoParams, ToSchema};

/// How many rows of a finding the document lists; its address leads to all.
const ROWS_LISTED: usize = 20;
/// How many names a picker offers.
const NAMES_OFFERED: usize = 200;

/// A number behind a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NumberOut {
    /// What it is.
    pub label: String,
    /// Its value, worded.
    pub value: String,
}

impl NumberOut {
    /// Longest value that stands in a line with others, in characters.
    const IN_LINE: usize = 48;

    /// Whether it is a number, which links to its rows, and not words.
    pub fn is_figure(&self) -> bool {
        let starts = self.value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '<' | '-'));
        (starts || self.value.starts_with("over ") || self.value == words::NO_DATA)
            && self.value.chars().nth(Self::IN_LINE).is_none()
            && !self.is_code()
    }

    /// Whether it is a setting to copy.
    pub fn is_code(&self) -> bool {
        self.label == "Setting" || self.value.contains('\n')
    }
}

impl FindingOut {
    /// Whether any of its numbers is a figure.
    pub fn has_figures(&self) -> bool {
        self.numbers.iter().any(NumberOut::is_figure)
    }

    /// Whether any of its numbers is words.
    pub fn has_words(&self) -> bool {
        !self.numbers.iter().all(NumberOut::is_figure)
    }

    /// Whether the page says `text` with this finding.
    fn says(&self, text: &str) -> bool {
        self.text.contains(text)
            || self.numbers.iter().any(|n| n.value.contains(text) || n.label == text)
    }
}

/// An attempt behind a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RowRef {
    /// Id of the event.
    pub event_id: String,
    /// When it was sent.
    pub occurred_at: Stamp,
    /// Address of its page.
    pub page: String,
}

/// One thing that a step found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FindingOut {
    /// Stable id.
    #[schema(example = "early-retries")]
    pub id: String,
    /// One sentence in plain words.
    pub text: String,
    /// Whether it asks for action, or only informs.
    pub actionable: bool,
    /// Numbers behind it.
    pub numbers: Vec<NumberOut>,
    /// How many attempts or operations are behind it in all.
    pub rows_total: i64,
    /// The first attempts behind it.
    pub rows: Vec<RowRef>,
    /// Address of the list of attempts behind it; null where there are none.
    pub rows_page: Option<String>,
}

/// The answer of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StepOut {
    /// Its number, 1 to 8.
    pub number: u8,
    /// Which step.
    pub step: Step,
    /// Its title.
    pub title: &'static str,
    /// What it says.
    pub state: AnswerState,
    /// The answer in one sentence.
    pub headline: String,
    /// What the answer rests on.
    pub basis: String,
    /// What was found.
    pub findings: Vec<FindingOut>,
    /// What to do next, most useful first.
    pub next: Vec<NextAction>,
    /// Tables behind it.
    pub tables: Vec<Table>,
}

impl StepOut {
    /// Whether every row of a table is said by one of the findings above it, so that a page for
    /// people may leave it out; also true for an empty table.
    pub fn repeats(&self, table: &Table) -> bool {
        table.rows.iter().all(|row| {
            self.findings.iter().any(|finding| row.iter().all(|cell| finding.says(cell)))
        })
    }

    fn shown_tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| !self.repeats(table))
    }

    /// The table that is shown at once.
    pub fn first_table(&self) -> Option<&Table> {
        self.shown_tables().next()
    }

    /// The tables behind a click.
    pub fn more_tables(&self) -> Vec<&Table> {
        self.shown_tables().skip(1).collect()
    }

    /// What the click says.
    pub fn more_tables_word(&self) -> String {
        let captions: Vec<&str> =
            self.more_tables().iter().map(|table| table.caption.as_str()).collect();
        format!("More in numbers: {}", captions.join(", "))
    }

    /// The actions that no finding above them spells out with its setting.
    pub fn open_actions(&self) -> Vec<&NextAction> {
        let is_told = |action: &NextAction| {
            self.findings.iter().any(|finding| {
                finding.text == action.text && finding.numbers.iter().any(NumberOut::is_code)
            })
        };
        self.next.iter().filter(|action| !is_told(action)).collect()
    }

    /// Its title in the list of steps.
    pub fn short_title(&self) -> &'static str {
        match self.step {
            Step::Source => "Who returned it",
            Step::Reproduce => "Reproduce it",
            Step::Limit => "Kind of limit",
            Step::Scope => "Whose traffic",
            Step::Time => "Waits, windows",
            Step::Behaviour => "Client's retries",
            Step::Fix => "Fix",
            Step::Verify => "Verify",
        }
    }

    /// The word on its badge.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            AnswerState::Clear => "clear",
            AnswerState::Finding => "finding",
            AnswerState::NeedsData => "needs data",
        }
    }
}

/// A marked change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MarkOut {
    /// Its id.
    pub id: i64,
    /// When the change took effect.
    pub at: Stamp,
    /// Service it concerns; null for all.
    pub service: Option<String>,
    /// Upstream it concerns; null for all.
    pub upstream: Option<String>,
    /// What was changed.
    pub title: String,
}

impl From<&Mark> for MarkOut {
    fn from(mark: &Mark) -> Self {
        Self {
            id: mark.id,
            at: Stamp(mark.at),
            service: mark.service.clone(),
            upstream: mark.upstream.clone(),
            title: mark.title.clone(),
        }
    }
}

/// A question and its answer at the top of a triage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SummaryLine {
    /// The question in a word or two.
    pub label: &'static str,
    /// The answer in one sentence.
    pub text: String,
    /// The step it comes from.
    pub step: Step,
}

/// The eight steps for a scope and a window. The same data and the same absolute times give the
/// same document, byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Triage {
    /// The view.
    pub view: ViewOut,
    /// Address of this triage with absolute times.
    pub permalink: String,
    /// Who calls whom.
    pub scope: String,
    /// Whose observations are counted; `client` unless no client reported on the scope.
    pub source: Vantage,
    /// What is to know about the source of the counts; null where clients reported all of them.
    pub source_note: Option<String>,
    /// What the clients' own metric counted; null where none was sent.
    pub client_metric: Option<ClientMetric>,
    /// The answers in short.
    pub summary: Vec<SummaryLine>,
    /// The numbers of the window.
    pub figures: Vec<Figure>,
    /// The eight steps.
    pub steps: Vec<StepOut>,
    /// What the planner says, where it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// Changes that were marked for this scope.
    pub marks: Vec<MarkOut>,
    /// Requests and retries over time.
    pub series: Series,
}

/// What a triage is made from.
#[derive(Debug, Clone)]
pub struct Input {
    /// The view.
    pub view: View,
    /// What is to be said of a view that begins before the events that are kept.
    pub kept_note: Option<String>,
    /// Whose observations are counted.
    pub source: Vantage,
    /// How many pairs of the scope others reported on alone.
    pub uncounted_pairs: usize,
    /// What the clients' own metric counted, where there is one.
    pub volume: Option<Volume>,
    /// Sum over the window.
    pub totals: Counts,
    /// Counts over time.
    pub buckets: Vec<Bucket>,
    /// The eight answers.
    pub answers: Vec<Answer>,
    /// Marked changes that concern the scope.
    pub marks: Vec<Mark>,
    /// What the planner is asked.
    pub plan: Option<PlannerInput>,
    /// What the facts suggest to ask it.
    pub suggested: Option<PlannerInput>,
}

fn finding_out(view: &View, finding: &Finding) -> FindingOut {
    let rows_page = (!finding.rows.is_empty())
        .then(|| Address::new("/events").view(view).with("finding", &finding.id).finish());
    FindingOut {
        id: finding.id.clone(),
        text: finding.text.clone(),
        actionable: finding.actionable,
        numbers: finding
            .numbers
            .iter()
            .map(|(label, value)| NumberOut { label: label.clone(), value: value.clone() })
            .collect(),
        rows_total: finding.rows_total,
        rows: finding
            .rows
            .iter()
            .take(ROWS_LISTED)
            .map(|(event_id, at)| RowRef {
                event_id: event_id.clone(),
                occurred_at: Stamp(*at),
                page: address::event(event_id),
            })
            .collect(),
        rows_page,
    }
}

fn step_out(view: &View, answer: &Answer) -> StepOut {
    StepOut {
        number: answer.step.number(),
        step: answer.step,
        title: answer.step.title(),
        state: answer.state,
        headline: answer.headline.clone(),
        basis: answer.basis.clone(),
        findings: answer.findings.iter().map(|finding| finding_out(view, finding)).collect(),
        next: answer.next.clone(),
        tables: answer.tables.clone(),
    }
}

/// What not to touch: the first thing that step 7 says to leave alone.
fn leave_alone(answers: &[Answer]) -> Option<SummaryLine> {
    const START: &str = "Leave alone: ";
    let fix = answers.iter().find(|answer| answer.step == Step::Fix)?;
    let finding = fix.findings.iter().find(|finding| finding.id.starts_with("leave-"))?;
    let text = finding.text.strip_prefix(START).unwrap_or(&finding.text);
    let mut rest = text.chars();
    let text = rest.next()?.to_uppercase().chain(rest).collect();
    Some(SummaryLine { label: "What to leave alone", text, step: Step::Fix })
}

impl Triage {
    /// Words and links the answers.
    pub fn build(input: &Input) -> Self {
        let view = &input.view;
        let summary = [
            ("Who returned it", Step::Source),
            ("Which limit", Step::Limit),
            ("Whose traffic", Step::Scope),
            ("How it is retried", Step::Behaviour),
            ("What to change", Step::Fix),
        ]
        .into_iter()
        .filter_map(|(label, step)| {
            let answer = input.answers.iter().find(|answer| answer.step == step)?;
            Some(SummaryLine { label, text: answer.headline.clone(), step })
        })
        .chain(leave_alone(&input.answers))
        .collect();
        Self {
            view: ViewOut { kept_note: input.kept_note.clone(), ..view.into() },
            permalink: Address::new("/triage").view(view).finish(),
            scope: scope_title(&view.scope),
            source: input.source,
            source_note: source_note(input.source, input.uncounted_pairs),
            client_metric: input
                .volume
                .map(|volume| ClientMetric::of(&volume, view.window, input.totals.attempts)),
            summary,
            figures: figures(view, &input.totals),
            steps: input.answers.iter().map(|answer| step_out(view, answer)).collect(),
            plan: input.plan.as_ref().map(PlanOut::of),
            marks: input.marks.iter().map(Into::into).collect(),
            series: Series::of(
                view.window,
                series_width(view.window, &input.buckets),
                &input.buckets,
            ),
        }
    }

    /// The document as Markdown. `origin` is put before addresses, so that links work where the
    /// text is pasted; empty where no public address is set.
    pub fn markdown(&self, origin: &str) -> String {
        let mut out = String::new();
        let href = |path: &str| format!("{origin}{path}");
        let basis = match self.view.time {
            TimeBasis::Event => "event time",
            TimeBasis::Received => "time of receipt",
        };
        writeln!(out, "# Triage: {}\n", markdown::sentence(&self.scope)).ok();
        writeln!(
            out,
            "{} to {} (UTC, by {basis}). {}\n",
            self.view.from,
            self.view.to,
            markdown::link("This triage", &href(&self.permalink)),
        )
        .ok();
        let own = self.client_metric.as_ref().map(|metric| metric.text.clone());
        for note in [&self.view.kept_note, &self.source_note, &own].into_iter().flatten() {
            writeln!(out, "{note}\n").ok();
        }
        for line in &self.summary {
            writeln!(out, "- **{}**: {}", line.label, markdown::sentence(&line.text)).ok();
        }
        out.push('\n');
        let rows: Vec<Vec<String>> = self
            .figures
            .iter()
            .map(|f| vec![f.label.to_owned(), f.text.clone(), f.note.clone().unwrap_or_default()])
            .collect();
        let columns = ["number", "value", "rests on"].map(ToOwned::to_owned);
        out.push_str(&markdown::table(&columns, &rows));
        for step in &self.steps {
            writeln!(out, "\n## {}. {} ({})\n", step.number, step.title, step.state_word()).ok();
            writeln!(out, "{}", markdown::sentence(&step.headline)).ok();
            Self::findings(&mut out, step, &href);
            for table in &step.tables {
                writeln!(out, "\n{}\n", markdown::sentence(&table.caption)).ok();
                out.push_str(&markdown::table(&table.columns, &table.rows));
            }
            if !step.next.is_empty() {
                out.push_str("\nNext:\n");
            }
            for action in &step.next {
                writeln!(out, "\n- {}", markdown::sentence(&action.text)).ok();
                if let Some(command) = &action.command {
                    write!(out, "\n{}", markdown::block(command, "sh")).ok();
                }
            }
            if !step.basis.is_empty() {
                writeln!(out, "\n{}", markdown::sentence(&step.basis)).ok();
            }
        }
        if let Some(plan) = &self.plan {
            out.push_str("\n## Plan\n\n");
            for sentence in &plan.sentences {
                writeln!(out, "- {}", markdown::sentence(sentence)).ok();
            }
        }
        if !self.marks.is_empty() {
            out.push_str("\n## Marked changes\n\n");
            for mark in &self.marks {
                writeln!(out, "- {} {}", mark.at, markdown::sentence(&mark.title)).ok();
            }
        }
        out
    }

    fn findings(out: &mut String, step: &StepOut, href: &dyn Fn(&str) -> String) {
        if !step.findings.is_empty() {
            out.push('\n');
        }
        for finding in &step.findings {
            write!(out, "- {}", markdown::sentence(&finding.text)).ok();
            let numbers: Vec<String> = finding
                .numbers
                .iter()
                .map(|n| {
                    format!("{}: {}", markdown::sentence(&n.label), markdown::sentence(&n.value))
                })
                .collect();
            if !numbers.is_empty() {
                write!(out, " ({})", numbers.join("; ")).ok();
            }
            if let Some(page) = &finding.rows_page {
                let words = words::counted(finding.rows_total, "row", "rows");
                write!(out, " {}", markdown::link(&words, &href(page))).ok();
            }
            out.push('\n');
        }
    }
}

/// What the planner is asked, as the address names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct PlanParams {
    /// Planner: requests that the limit allows per window.
    pub plan_allowed: Option<String>,
    /// Planner: length of the window in seconds.
    pub plan_window_s: Option<String>,
    /// Planner: requests per window to aim at.
    pub plan_aimed: Option<String>,
    /// Planner: requests to do.
    pub plan_work: Option<String>,
    /// Planner: time of an answer in milliseconds.
    pub plan_answer_ms: Option<String>,
}

impl PlanParams {
    fn texts(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("plan_allowed", filled(self.plan_allowed.as_deref())),
            ("plan_window_s", filled(self.plan_window_s.as_deref())),
            ("plan_aimed", filled(self.plan_aimed.as_deref())),
            ("plan_work", filled(self.plan_work.as_deref())),
            ("plan_answer_ms", filled(self.plan_answer_ms.as_deref())),
        ]
    }

    /// What is asked; `None` where nothing is.
    pub fn input(&self) -> Result<Option<PlannerInput>, AddressError> {
        let texts = self.texts();
        if texts.iter().all(|(_, text)| text.is_none()) {
            return Ok(None);
        }
        let number = |at: usize| -> Result<u64, AddressError> {
            let (name, text) = texts[at];
            text.and_then(|text| text.parse().ok())
                .ok_or_else(|| AddressError::new(name, "expected a whole number"))
        };
        // What is given is judged before what is missing is asked for.
        let missing: Vec<&str> =
            texts.iter().filter(|(_, text)| text.is_none()).map(|(name, _)| *name).collect();
        if let Some(first) = missing.first().and_then(|one| texts.iter().find(|t| t.0 == *one)) {
            for (at, (name, _)) in texts.iter().enumerate().filter(|(_, (_, text))| text.is_some())
            {
                if number(at)? == 0 {
                    return Err(AddressError::new(name, "expected a whole number from 1 on"));
                }
            }
            let all = missing.join(", ");
            return Err(AddressError::new(
                first.0,
                format!("the planner needs all of its five numbers, and these are missing: {all}"),
            ));
        }
        let small = |at: usize| -> Result<u32, AddressError> {
            u32::try_from(number(at)?)
                .map_err(|_| AddressError::new(texts[at].0, "expected a smaller number"))
        };
        let length = |at: usize, factor: i64| -> Result<i64, AddressError> {
            let value = i64::try_from(number(at)?).unwrap_or(i64::MAX);
            Ok(value.saturating_mul(factor))
        };
        Ok(Some(PlannerInput {
            allowed: small(0)?,
            window_ms: length(1, 1_000)?,
            aimed: small(2)?,
            work: number(3)?,
            answer_ms: length(4, 1)?,
        }))
    }

    fn add_to(&self, address: Address) -> Address {
        self.texts()
            .into_iter()
            .fold(address, |address, (name, text)| address.with_some(name, text))
    }
}

/// What the planner says.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PlanOut {
    /// Milliseconds from one send to the next; null where there is no plan.
    pub spacing_ms: Option<f64>,
    /// The least time for all of the work, in milliseconds.
    pub total_ms: Option<i64>,
    /// Requests in flight at once.
    pub in_flight: Option<u64>,
    /// The plan in sentences, or why there is none.
    pub sentences: Vec<String>,
}

impl PlanOut {
    fn of(input: &PlannerInput) -> Self {
        match plan(input) {
            Ok(plan) => Self {
                spacing_ms: Some(plan.spacing_ms),
                total_ms: Some(plan.total_ms),
                in_flight: Some(plan.in_flight),
                sentences: plan.sentences,
            },
            Err(error) => Self {
                spacing_ms: None,
                total_ms: None,
                in_flight: None,
                sentences: vec![format!("There is no plan: {error}.")],
            },
        }
    }
}

/// The planner's form: what is asked, or what to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlanForm {
    allowed: String,
    window_s: String,
    aimed: String,
    work: String,
    answer_ms: String,
}

impl PlanForm {
    fn of(input: Option<PlannerInput>) -> Self {
        // The example of the planner's own documentation, where nothing better is known.
        let input = input.unwrap_or(PlannerInput {
            allowed: 120,
            window_ms: 60_000,
            aimed: 90,
            work: 600,
            answer_ms: 2_000,
        });
        Self {
            allowed: input.allowed.to_string(),
            window_s: (input.window_ms / 1_000).max(1).to_string(),
            aimed: input.aimed.to_string(),
            work: input.work.to_string(),
            answer_ms: input.answer_ms.to_string(),
        }
    }
}

/// The view of an address. Where it names a pair and no times, that is the pair's alert: the one
/// that fires, else the one that is pending, else the last one (DESIGN 14), by time of receipt.
async fn asked_view(state: &AppState, params: &ViewParams) -> Result<View, Failure> {
    if let Some(view) = alert_view(state, params).await? {
        return Ok(view);
    }
    Ok(params.view(default_window(state, params).await?)?)
}

async fn alert_view(state: &AppState, params: &ViewParams) -> Result<Option<View>, Failure> {
    let scope = params.scope();
    if params.has_times() || scope.service.is_none() || scope.upstream.is_none() {
        return Ok(None);
    }
    let now = state.clock.now();
    let Some(alert) = state.store.alert_about(&scope, now).await? else { return Ok(None) };
    let window = Rule::named(&alert.known.rule)
        .and_then(|rule| alerts::looked_at(rule, &alert.known.state, now));
    let oldest = now.plus(Millis(-address::MAX_WINDOW_MS));
    // An alert of long ago is no reason to look back that far.
    let Some(window) = window.filter(|window| window.to > oldest) else { return Ok(None) };
    let window = Window { from: window.from.max(oldest), to: window.to };
    let received = || TimeBasis::Received.as_str().to_owned();
    let time = params.time.clone().filter(|time| !time.is_empty()).unwrap_or_else(received);
    Ok(Some(ViewParams { time: Some(time), ..params.clone() }.view(window)?))
}

/// The window of a scope whose address names none: the hour that ends with its newest limited
/// attempt, else the last hour.
async fn default_window(state: &AppState, params: &ViewParams) -> Result<Window, Failure> {
    let now = state.clock.now();
    let last_hour = address::last_hour(now);
    if params.has_times() || params.scope() == Scope::default() {
        return Ok(last_hour);
    }
    let window =
        Window { from: last_hour.to.plus(Millis(-address::MAX_WINDOW_MS)), to: last_hour.to };
    let view = View { scope: params.scope(), window, time: params.time()? };
    let filter = RowFilter { view, limited: Some(true), retry: None, succeeded: None, value: None };
    let page = state.store.rows(&filter, None, 1).await?;
    Ok(page.items.first().map_or(last_hour, |newest| {
        let at = match filter.view.time {
            TimeBasis::Event => newest.event.occurred_at,
            TimeBasis::Received => newest.received_at,
        };
        address::last_hour(at.plus(Millis(1)))
    }))
}

/// The address in the commands that the steps write.
const DEFAULT_ORIGIN: &str = "http://127.0.0.1:4290";

/// The address in the commands that a reader copies: the public one, else the one listened on.
fn command_origin(config: &Config) -> String {
    config
        .server
        .public_url
        .as_ref()
        .map_or_else(|| format!("http://{}", config.server.listen), ToString::to_string)
}

impl Input {
    /// Asks the store for the facts of `params` and answers the eight steps.
    pub(crate) async fn fetch(
        state: &AppState,
        params: &ViewParams,
        plan: &PlanParams,
    ) -> Result<Self, Failure> {
        let view = asked_view(state, params).await?;
        let (view, kept_note) = kept::counted(state, &view).await?;
        let facts = state.store.facts(&view, state.clock.now()).await?;
        let volume = volume(state, &view).await?;
        let asked = plan.input()?;
        // Many attempts take a while to judge; others are answered meanwhile.
        let origin = command_origin(&state.config);
        let judging = tokio::task::spawn_blocking(move || {
            let mut answers = answers(&facts);
            for action in answers.iter_mut().flat_map(|answer| &mut answer.next) {
                if let Some(command) = &mut action.command {
                    *command = command.replace(DEFAULT_ORIGIN, &origin);
                }
            }
            let suggested = PlannerInput::from_facts(&facts);
            Self {
                view,
                kept_note,
                source: facts.source,
                uncounted_pairs: facts.uncounted_pairs,
                volume,
                totals: facts.totals,
                answers,
                buckets: facts.buckets,
                marks: facts.marks,
                plan: asked,
                suggested,
            }
        });
        judging.await.map_err(|error| Failure::internal(&error))
    }
}

/// What clients' own metric counted in a view; nothing for a route, which metrics don't know.
async fn volume(state: &AppState, view: &View) -> Result<Option<Volume>, Failure> {
    if view.scope.route.is_some() {
        return Ok(None);
    }
    let pairs = state.store.client_volumes(&view.scope, view.window).await?;
    let mut pairs = pairs.into_iter().map(|pair| pair.volume);
    let Some(mut sum) = pairs.next() else { return Ok(None) };
    for other in pairs {
        sum.add(&other);
    }
    Ok(Some(sum))
}

/// `GET /triage`
#[utoipa::path(get, path = "/triage", tag = "pages", params(ViewParams, PlanParams),
    responses(
        (status = 200, description = "The eight steps", body = String, content_type = "text/html"),
        (status = 303, description = "The same with absolute times, where the address names none"),
        Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    Query(plan): Query<PlanParams>,
    hint: Hint,
) -> Result<Response, Failure> {
    if !params.has_times() && hint.0.is_none() {
        let view = asked_view(&state, &params).await?;
        let address = plan.add_to(Address::new("/triage").view(&view)).finish();
        return Ok(Redirect::to(&address).into_response());
    }
    let window = asked_view(&state, &params).await?.window;
    let labels = async { Ok(state.store.labels(window).await?) };
    let (input, labels) = tokio::try_join!(Input::fetch(&state, &params, &plan), labels)?;
    let elsewhere = match input.totals.attempts {
        0 => Elsewhere::find(&state, &input.view).await?,
        _ => None,
    };
    let page = TriagePage::new(&input, labels, elsewhere, state.clock.now());
    Ok(render_with(page, hint)?.into_response())
}

/// `GET /triage.json`
#[utoipa::path(get, path = "/triage.json", tag = "triage", params(ViewParams, PlanParams),
    responses((status = 200, description = "The eight steps", body = Triage), Problems))]
pub(crate) async fn json(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    Query(plan): Query<PlanParams>,
) -> Result<Json<Triage>, Failure> {
    Ok(Json(Triage::build(&Input::fetch(&state, &params, &plan).await?)))
}

/// `GET /triage.md`
#[utoipa::path(get, path = "/triage.md", tag = "triage", params(ViewParams, PlanParams),
    responses((status = 200, description = "The eight steps as Markdown", body = String, content_type = "text/markdown"), Problems))]
pub(crate) async fn document(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    Query(plan): Query<PlanParams>,
) -> Result<Response, Failure> {
    let input = Input::fetch(&state, &params, &plan).await?;
    let text = Triage::build(&input).markdown(&state.config.server.base());
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/triage.html")]
pub struct TriagePage {
    shell: Shell,
    model: Triage,
    chart: Chart,
    labels: Labels,
    ranges: Vec<Range>,
    is_received: bool,
    /// Whether the picker is unfolded: where nothing is picked yet.
    is_open: bool,
    rows: String,
    form: PlanForm,
    /// When a change that is marked now took effect, to begin with.
    mark_at: Stamp,
    /// Where the window is empty: an attempt of the scope outside of it, and its hour's address.
    elsewhere: Option<(Elsewhere, String)>,
}

framed!(TriagePage);

impl TriagePage {
    /// The page for `input`; `labels` are offered in the picker.
    /// Where the window holds no attempt, `elsewhere` is one of the scope outside of it.
    pub fn new(
        input: &Input,
        mut labels: Labels,
        elsewhere: Option<Elsewhere>,
        now: UnixMillis,
    ) -> Self {
        let model = Triage::build(input);
        let view = &input.view;
        labels.services.truncate(NAMES_OFFERED);
        labels.upstreams.truncate(NAMES_OFFERED);
        labels.environments.truncate(NAMES_OFFERED);
        Self {
            shell: Shell::new(format!("Triage: {}", model.scope), "triage")
                .with_twin(Address::new("/triage.json").view(view).finish())
                .with_markdown(Address::new("/triage.md").view(view).finish()),
            chart: model.series.chart(view.window),
            ranges: ranges("/triage", view, now),
            is_received: view.time == TimeBasis::Received,
            is_open: view.scope == Scope::default(),
            rows: address::rows_of(view, None, None, None),
            form: PlanForm::of(input.plan.or(input.suggested)),
            mark_at: Stamp(now.floor_to(1_000)),
            elsewhere: elsewhere.map(|one| {
                let href = Address::new("/triage").view(&one.view).finish();
                (one, href)
            }),
            labels,
            model,
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        super::samples::triages()
            .into_iter()
            .map(|(name, input)| {
                let labels = Labels {
                    services: super::samples::hostile(),
                    upstreams: super::samples::hostile(),
                    environments: super::samples::hostile(),
                };
                let elsewhere = (input.totals.attempts == 0)
                    .then(|| Elsewhere::at(&input.view, UnixMillis(0), true));
                (name, Self::new(&input, labels, elsewhere, super::samples::NOW))
            })
            .collect()
    }
}
