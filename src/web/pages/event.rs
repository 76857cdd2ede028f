//! `/events/{id}`: the raw facts of one event, its verdict with evidence, JSON and curl.

use super::address::{self, Address};
use super::attempt::{AttemptOut, native};
use super::ladder::{LadderOut, Story, stories};
use super::model::{Shell, Stamp};
use super::verdict::VerdictView;
use super::{render, words};
use crate::domain::checklist::curl_twin;
use crate::domain::classify::{Certainty, LimitType, Responder, Verdict, classify};
use crate::domain::response::Response;
use crate::domain::stored::{Scope, StoredEvent, TimeBasis, View};
use crate::domain::time::{HOUR_MS, Millis, Window};
use crate::export::markdown;
use crate::web::api::Problems;
use crate::web::extract::Path;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse as _};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use utoipa::ToSchema;

/// One event with its verdict, judged anew from the stored facts.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct EventOut {
    /// The event as senders write it.
    #[schema(value_type = crate::web::api::schema::NativeEvent)]
    pub event: Value,
    /// When it was stored.
    pub received_at: Stamp,
    /// The verdict, judged now from the stored facts and from what gateways and the origin recorded
    /// under the same ids.
    pub verdict: Verdict,
    /// Who saw it, hop by hop, joined by ids.
    pub ladder: Option<LadderOut>,
    /// Who was judged to have answered when it came in; numbers and alerts count by this.
    pub stored_returned_by: Responder,
    /// The word for the confidence at that time.
    pub stored_certainty: Certainty,
    /// The kind of limit that was judged at that time.
    pub stored_limit_type: LimitType,
    /// Whether it was counted as limited at that time.
    pub stored_limited: bool,
    /// The same request with curl, without secrets.
    pub curl: String,
    /// Address of its page.
    pub page: String,
    /// Address of its operation's page.
    pub operation_page: Option<String>,
    /// Address of the triage of its service and upstream around it.
    pub triage: String,
}

/// An event's own view: its service and upstream, the half hour before and after it.
pub fn view_around(stored: &StoredEvent) -> View {
    let at = stored.event.occurred_at.floor_to(60_000);
    View {
        scope: Scope {
            service: Some(stored.event.service.clone()),
            upstream: Some(stored.event.host.clone()),
            environment: stored.event.environment.clone(),
            route: None,
        },
        window: Window { from: at.plus(Millis(-HOUR_MS / 2)), to: at.plus(Millis(HOUR_MS / 2)) },
        time: TimeBasis::Event,
    }
}

impl EventOut {
    /// Judges `stored` anew, with what others saw of it.
    pub fn of(stored: &StoredEvent, story: Option<&Story>) -> Self {
        let verdict = classify(&judged(stored, story));
        Self::worded(stored, story, verdict, curl_twin(stored).command)
    }

    fn worded(stored: &StoredEvent, story: Option<&Story>, verdict: Verdict, curl: String) -> Self {
        Self {
            event: native(&stored.event),
            received_at: Stamp(stored.received_at),
            verdict,
            ladder: story.map(|story| story.ladder.clone()),
            stored_returned_by: stored.verdict.returned_by,
            stored_certainty: stored.verdict.outcome,
            stored_limit_type: stored.verdict.limit_type,
            stored_limited: stored.verdict.limited,
            curl,
            page: address::event(&stored.event.event_id),
            operation_page: stored.event.operation_id.as_deref().map(address::operation),
            triage: Address::new("/triage").view(&view_around(stored)).finish(),
        }
    }
}

/// What is judged of an event: its own response, with what others recorded of it.
fn judged(stored: &StoredEvent, story: Option<&Story>) -> Response {
    story.and_then(|story| story.response.clone()).unwrap_or_else(|| stored.event.response())
}

/// A fact as the page lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The field's name as senders write it.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it means for people: a length of time in words.
    pub note: Option<String>,
}

/// One event as its page and the look-up show it.
#[derive(Debug, Clone, PartialEq)]
pub struct EventView {
    /// In a list of several: what makes ids of headings unique.
    pub index: usize,
    /// What tells its headings from those of others: nothing for the first, then ` 2`, ` 3`.
    pub suffix: String,
    /// What the API answers.
    pub out: EventOut,
    /// As a row of a list.
    pub row: AttemptOut,
    /// The verdict, worded.
    pub verdict: VerdictView,
    /// Every field that was sent.
    pub facts: Vec<Fact>,
    /// Every header field that was kept.
    pub headers: Vec<(String, String)>,
    /// The body sample.
    pub body: Option<String>,
    /// The event as senders write it, indented.
    pub json: String,
    /// Set where the verdict of today differs from the one that was counted.
    pub changed: Option<String>,
    /// What the curl twin leaves to the person: part and reason.
    pub warnings: Vec<(String, String)>,
    /// How the event was changed at the door, where it was.
    pub redactions: Option<String>,
}

impl EventView {
    /// Words one event, with what others saw of it.
    pub fn of(index: usize, stored: &StoredEvent, story: Option<&Story>) -> Self {
        let verdict = VerdictView::of(&judged(stored, story));
        let twin = curl_twin(stored);
        let out = EventOut::worded(stored, story, verdict.verdict.clone(), twin.command);
        let was = &stored.verdict;
        let is = &verdict.verdict;
        let changed = (was.returned_by != is.returned_by
            || was.limited != is.limited
            || was.limit_type != is.limit_type)
            .then(|| {
                format!(
                    "When it was stored it was judged {} ({}), limit type {}. Totals count it so.",
                    was.returned_by, was.outcome, was.limit_type
                )
            });
        let n = i64::from(stored.event.redactions);
        let redactions = (n > 0).then(|| {
            format!(
                "{} replaced at the door.",
                words::counted(n, "secret-looking value was", "secret-looking values were")
            )
        });
        Self {
            index,
            suffix: if index == 0 { String::new() } else { format!(" {}", index + 1) },
            row: stored.into(),
            facts: facts(&out.event),
            headers: stored.event.headers.clone(),
            body: stored.event.body_sample.clone(),
            json: serde_json::to_string_pretty(&out.event).unwrap_or_default(),
            changed,
            redactions,
            warnings: twin.warnings,
            verdict,
            out,
        }
    }
}

impl EventView {
    /// Verdict, hops and evidence as Markdown. `origin` is put before addresses.
    pub fn markdown(&self, origin: &str) -> String {
        let mut out = String::new();
        let row = &self.row;
        writeln!(out, "# Event {}\n", markdown::code(&row.event_id)).ok();
        writeln!(
            out,
            "{} to {}, attempt {}, sent {} UTC: {}. {}\n",
            markdown::sentence(&row.service),
            markdown::sentence(&row.upstream),
            row.attempt,
            row.occurred_at,
            row.answer(),
            markdown::link("This event", &format!("{origin}{}", self.out.page)),
        )
        .ok();
        writeln!(out, "{}\n", markdown::sentence(&self.verdict.headline)).ok();
        if let Some(ladder) = self.ladder() {
            writeln!(out, "## Hops, joined by ids\n\n{}", ladder.markdown()).ok();
        }
        out.push_str("## Evidence\n\n");
        for piece in &self.verdict.verdict.evidence {
            writeln!(out, "- {}: {}", piece.rule, markdown::sentence(&piece.observed)).ok();
        }
        for conflict in &self.verdict.verdict.conflicts {
            writeln!(out, "- Contradiction: {}", markdown::sentence(conflict)).ok();
        }
        out.push('\n');
        out
    }

    /// Who saw it, where there is anything to show of others.
    pub fn ladder(&self) -> Option<&LadderOut> {
        self.out.ladder.as_ref().filter(|ladder| ladder.tells())
    }

    /// Whether it is known that nobody else sends anything about this upstream.
    pub fn is_alone(&self) -> bool {
        self.out.ladder.as_ref().is_some_and(|ladder| !ladder.tells())
    }
}

/// The members of a native event, in the order in which people look for them.
fn facts(event: &Value) -> Vec<Fact> {
    const ORDER: [&str; 37] = [
        "event_id",
        "operation_id",
        "attempt",
        "occurred_at",
        "duration_ms",
        "vantage",
        "service",
        "environment",
        "instance",
        "retry_layer",
        "priority",
        "method",
        "host",
        "route",
        "status",
        "error",
        "retry_after",
        "computed_delay_ms",
        "delay_source",
        "outcome",
        "attempts_max",
        "timeout_ms",
        "deadline_ms",
        "request_id",
        "ray_id",
        "trace_id",
        "span_id",
        "layer",
        "key_hash",
        "key_kind",
        "account_hash",
        "client_address_hash",
        "idempotency_key_hash",
        "body_hash",
        "content_type",
        "error_code",
        "count",
    ];
    ORDER
        .into_iter()
        .filter_map(|name| {
            let (value, number) = match event.get(name)? {
                Value::String(text) => (text.clone(), None),
                Value::Number(n) => (n.to_string(), n.as_i64()),
                other => (other.to_string(), None),
            };
            let note = number
                .filter(|n| name.ends_with("_ms") && n.abs() >= 1_000)
                .map(|ms| words::length(Millis(ms)));
            Some(Fact { name: name.to_owned(), value, note })
        })
        .collect()
}

/// The events with an id, at least one, each with its story.
pub(crate) async fn fetch(
    state: &AppState,
    id: &str,
) -> Result<(Vec<StoredEvent>, Vec<Story>), Failure> {
    let mut look = state.store.look().await?;
    let events = look.events_by_id(id).await?;
    if events.is_empty() {
        return Err(Failure::not_found("event"));
    }
    let stories = stories(&mut look, &events).await?;
    Ok((events, stories))
}

/// `GET /events/{id}`
#[utoipa::path(get, path = "/events/{id}", tag = "pages",
    params(("id" = String, Path, description = "Id of the event")),
    responses((status = 200, description = "One event", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Html<String>, Failure> {
    let (events, stories) = fetch(&state, &id).await?;
    render(&EventPage::new(&id, &events, &stories))
}

/// `GET /events/{id}/document.md`
#[utoipa::path(get, path = "/events/{id}/document.md", tag = "pages",
    params(("id" = String, Path, description = "Id of the event")),
    responses((status = 200, description = "Verdict and hops as Markdown", body = String, content_type = "text/markdown"), Problems))]
pub(crate) async fn document(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<axum::response::Response, Failure> {
    let (events, stories) = fetch(&state, &id).await?;
    let base = state.config.server.base();
    let mut text = String::new();
    for (index, (stored, story)) in events.iter().zip(&stories).enumerate() {
        text.push_str(&EventView::of(index, stored, Some(story)).markdown(&base));
    }
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
}

/// The page; several events where one id was stored with several times.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/event.html")]
pub struct EventPage {
    shell: Shell,
    events: Vec<EventView>,
}

impl EventPage {
    /// The page of `events`, at least one.
    pub fn new(event_id: &str, events: &[StoredEvent], stories: &[Story]) -> Self {
        let twin = Address::new("/api/v1/events").segment(event_id).finish();
        let document = format!("{}/document.md", address::event(event_id));
        let shell = Shell::new("Event", "events");
        Self {
            shell: if matches!(event_id, "." | "..") {
                shell
            } else {
                shell.with_twin(twin).with_markdown(document)
            },
            events: events
                .iter()
                .enumerate()
                .map(|(i, event)| EventView::of(i, event, stories.get(i)))
                .collect(),
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let usual = samples::attempt("evt-1", "op-7f1c", 1, 1_000);
        let mut bare = samples::timed_out(usual.clone());
        bare.event.headers.clear();
        bare.event.operation_id = None;
        bare.event.method = None;
        bare.event.route = None;
        let hostile: Vec<StoredEvent> =
            samples::hostile().iter().map(|text| samples::filled_with(text)).collect();
        let mut extreme = usual.clone();
        extreme.event.count = u32::MAX;
        extreme.event.attempt = u32::MAX;
        extreme.event.duration_ms = Some(i64::MAX);
        extreme.event.redactions = 12;
        extreme.event.headers =
            (0..200).map(|i| (format!("x-ratelimit-{i}"), "9".repeat(400))).collect();
        let story = samples::story();
        let hostile_stories: Vec<Story> =
            samples::hostile().iter().map(|text| samples::hostile_story(text)).collect();
        vec![
            ("usual", Self::new("evt-1", &[usual], &[story])),
            ("bare", Self::new("evt-1", &[bare], &[])),
            ("extreme", Self::new("evt-1", &[extreme], &[])),
            ("hostile", Self::new("..", &hostile, &hostile_stories)),
        ]
    }
}
