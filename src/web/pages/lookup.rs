//! `/lookup?id=`: any request, ray, trace, operation or event id.

use super::address::{self, Address, filled};
use super::attempt::AttemptOut;
use super::event::EventView;
use super::ladder::{Story, stories};
use super::model::{Shell, Stamp};
use super::{framed, render_with, words};
use crate::domain::spans::TraceId;
use crate::domain::stored::Matches;
#[cfg(test)]
use crate::domain::stored::StoredEvent;
use crate::ingest::native;
use crate::pipeline::settler;
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Longest id that is looked up, in characters; longer ones are never stored as ids.
pub const MAX_ID_CHARS: usize = 1_024;

/// Spans of a trace by which it is told when those that wait are settled.
const OF_TRACE: i64 = 2_000;

/// What is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct LookupParams {
    /// A request, ray, trace, operation or event id.
    #[param(example = "8f2a01b2c3d4e5f6-GRU")]
    pub id: Option<String>,
}

impl LookupParams {
    /// The id, without white space around it; `None` where there is none or it is too long to be
    /// one.
    pub fn wanted(&self) -> Option<&str> {
        filled(self.id.as_deref()).filter(|id| id.chars().nth(MAX_ID_CHARS).is_none())
    }
}

/// What an id stands for.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Lookup {
    /// The id that was looked up.
    pub id: String,
    /// Every attempt and observation with that id, in the order they were sent.
    pub items: Vec<AttemptOut>,
    /// Whether these are all; false where more than 500 have the id, of which the first are listed.
    pub is_complete: bool,
    /// Spans of the trace with this id that are no attempts yet; null where there are none.
    pub waiting: Option<WaitingSpans>,
    /// Always null: a look-up has one page. The page of an operation has up to 10,000.
    pub next: Option<String>,
}

/// Spans that arrived and wait until it is known which operation they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct WaitingSpans {
    /// How many.
    pub spans: i64,
    /// When the last of them is settled, where nothing more of their operations arrives.
    pub due_at: Stamp,
}

impl WaitingSpans {
    /// Those of the trace with this id.
    pub async fn fetch(state: &AppState, id: &str) -> Result<Option<Self>, Failure> {
        let Some(trace) = TraceId::from_hex(id) else { return Ok(None) };
        let Some((spans, looked_at)) = state.store.waiting_spans(trace).await? else {
            return Ok(None);
        };
        let held = state.store.spans_of_traces([trace], OF_TRACE).await?;
        let due_at = settler::settled_at(&held).unwrap_or(looked_at).max(looked_at);
        Ok(Some(Self { spans, due_at: Stamp(due_at) }))
    }

    /// `3 spans of this trace have arrived and wait`.
    pub fn words(&self) -> String {
        let verbs = if self.spans == 1 { "has arrived and waits" } else { "have arrived and wait" };
        format!("{} of this trace {verbs}", words::counted(self.spans, "span", "spans"))
    }
}

impl Lookup {
    /// What was found for `id`.
    pub fn of(id: &str, found: &Matches, waiting: Option<WaitingSpans>) -> Self {
        Self {
            id: id.to_owned(),
            items: found.events.iter().map(Into::into).collect(),
            is_complete: found.is_complete,
            waiting,
            next: None,
        }
    }
}

/// `GET /lookup`
#[utoipa::path(get, path = "/lookup", tag = "pages", params(LookupParams),
    responses((status = 200, description = "What has this id", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(params): Query<LookupParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    // An id that looks secret is stored, found and shown as what stands in for it.
    let stored = |id: &str| native::stored_id(id, &state.hasher);
    let mut found = Matches { events: Vec::new(), is_complete: true };
    let mut told = Vec::new();
    if let Some(id) = params.wanted() {
        let mut look = state.store.look().await?;
        found = look.lookup(&stored(id)).await?;
        // One event is shown whole.
        if let one @ [_] = found.events.as_slice() {
            told = stories(&mut look, one).await?;
        }
    }
    let asked = filled(params.id.as_deref()).map(stored).unwrap_or_default();
    let mut page = LookupPage::new(&asked, &found, told.first());
    page.model.waiting = WaitingSpans::fetch(&state, &asked).await?;
    if found.events.is_empty() {
        let events = state.store.kept().await?.events;
        page.kept_since = events.is_limited().then_some(Stamp(events.since));
    }
    render_with(page, hint)
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/lookup.html")]
pub struct LookupPage {
    shell: Shell,
    model: Lookup,
    /// The event, where exactly one was found.
    one: Option<EventView>,
    summary: String,
    /// The pages of the operations among what was found, at most three.
    operations: Vec<(String, String)>,
    asked: bool,
    /// Where nothing was found: since when events are kept, if some were removed.
    kept_since: Option<Stamp>,
}

framed!(LookupPage);

impl LookupPage {
    /// The page for `id`, which is empty where nothing was asked for.
    pub fn new(id: &str, found: &Matches, story: Option<&Story>) -> Self {
        let model = Lookup::of(id, found, None);
        let mut operations: Vec<String> =
            model.items.iter().filter_map(|row| row.operation_id.clone()).collect();
        operations.dedup();
        operations.sort();
        operations.dedup();
        operations.truncate(3);
        let n = i64::try_from(found.events.len()).unwrap_or(i64::MAX);
        let shell = Shell::new("Look up", "");
        let twin = Address::new("/api/v1/lookup").with("id", id).finish();
        Self {
            shell: if id.is_empty() { shell } else { shell.with_twin(twin) },
            one: match found.events.as_slice() {
                [one] => Some(EventView::of(0, one, story)),
                _ => None,
            },
            summary: if found.is_complete {
                words::counted(n, "attempt or observation", "attempts and observations")
            } else {
                format!("The first {} of more attempts and observations", words::count(n))
            },
            operations: operations
                .into_iter()
                .map(|id| {
                    let page = address::operation(&id);
                    (id, page)
                })
                .collect(),
            asked: !id.is_empty(),
            kept_since: None,
            model,
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let hostile: Vec<StoredEvent> =
            samples::hostile().iter().map(|text| samples::filled_with(text)).collect();
        let page = |id: &str, events: &[StoredEvent], is_complete: bool| {
            Self::new(id, &Matches { events: events.to_vec(), is_complete }, None)
        };
        let mut waiting = page("3977efb7308ec17db38e76032ef278b4", &[], true);
        waiting.model.waiting = Some(WaitingSpans { spans: 3, due_at: Stamp(samples::NOW) });
        vec![
            ("waiting", waiting),
            ("empty", page("", &[], true)),
            ("nothing", page(&samples::hostile()[1], &[], true)),
            ("one", page("evt-1", &[samples::attempt("evt-1", "op", 1, 0)], true)),
            ("several", page("op-7f1c", &samples::operation(), true)),
            ("cut", page("op-7f1c", &samples::operation(), false)),
            ("hostile", page(&samples::hostile()[6], &hostile, true)),
        ]
    }
}
