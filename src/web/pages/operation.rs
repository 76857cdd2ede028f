//! `/operations/{id}`: the attempts of one intent as a ladder, with the waits between them.

use super::address::Address;
use super::attempt::AttemptOut;
use super::chart::{Chart, MAX_RUNGS, Rung, RungEnd, ladder};
use super::event::view_around;
use super::ladder::{LadderOut, Story, stories_with};
use super::model::{Shell, Stamp};
use super::{render, words};
use crate::domain::checklist::operations::{Gap, put_in_order};
use crate::domain::classify::summarize;
use crate::domain::event::Vantage;
use crate::domain::spans::{self, Marks, Visibility};
use crate::domain::stored::{Matches, Scope, StoredEvent};
use crate::domain::time::{MINUTE_MS, Millis, Window};
use crate::export::markdown;
use crate::store::{Store, StoreError};
use crate::web::api::Problems;
use crate::web::extract::Path;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse as _, Response};
use serde::Serialize;
use std::fmt::Write as _;
use utoipa::ToSchema;

/// How many attempts the table has from the start, and how many from the end, of an operation with
/// more than both.
const LISTED: usize = 250;
/// Of how many attempts it is looked up what others saw.
const LADDERS: usize = 100;

/// The wait between two attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WaitOut {
    /// Number of the attempt that was answered.
    pub after_attempt: u32,
    /// The wait that its answer promised.
    pub promised_ms: Option<i64>,
    /// The wait that the client chose.
    pub chosen_ms: Option<i64>,
    /// The time from the answer to the next send; below 0 where the next went out before it.
    pub real_ms: i64,
    /// Whether the next attempt was sent before the promised time, tolerance included.
    pub is_early: bool,
}

impl WaitOut {
    /// What the wait was like, in a word or two.
    pub fn word(&self) -> &'static str {
        match self.promised_ms {
            _ if self.is_early => "too early",
            _ if self.real_ms < 0 => "sent before the answer",
            Some(_) => "kept the promise",
            None => "nothing promised",
        }
    }

    /// The kind of badge that goes with that word.
    pub fn badge(&self) -> &'static str {
        match self.promised_ms {
            _ if self.is_early => "finding",
            _ if self.real_ms < 0 => "plain",
            Some(_) => "clear",
            None => "plain",
        }
    }
}

/// An attempt and the wait after it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RungOut {
    /// The attempt.
    pub attempt: AttemptOut,
    /// From the operation's first send to this send.
    pub sent_after_ms: i64,
    /// The wait before the next attempt; null after the last one.
    pub wait: Option<WaitOut>,
    /// Who saw it, hop by hop, joined by ids; null beyond the first hundred attempts.
    pub ladder: Option<LadderOut>,
}

impl RungOut {
    /// The hops that saw it or did not, in short.
    pub fn seen_by(&self) -> Vec<String> {
        self.ladder.as_ref().map(LadderOut::short).unwrap_or_default()
    }

    /// What is to know of its hops.
    pub fn hop_notes(&self) -> &[String] {
        self.ladder.as_ref().map_or(&[], |ladder| ladder.notes.as_slice())
    }

    /// `+1.1 s`.
    pub fn sent_after(&self) -> String {
        let sign = if self.sent_after_ms < 0 { '−' } else { '+' };
        format!("{sign}{}", words::length(Millis(self.sent_after_ms.saturating_abs())))
    }
}

/// All that is known of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Operation {
    /// Its id.
    pub operation_id: String,
    /// When its first attempt was sent.
    pub started_at: Stamp,
    /// From the first send to the last answer.
    pub length_ms: i64,
    /// Sum of the real waits.
    pub waited_ms: i64,
    /// Sum of the promised waits.
    pub promised_ms: i64,
    /// How many waits were shorter than promised.
    pub early: usize,
    /// Whether the last attempt that is known ended well.
    pub ended_well: bool,
    /// Whether these are all of its attempts, as far as can be told: false where spans of it may be
    /// missing or hide retries, in which case there are at least as many as are here, and where more
    /// is stored than is here.
    pub is_complete: bool,
    /// Whether more of it is stored than is here: beyond 10,000 attempts and observations, of which
    /// the first are.
    pub is_cut: bool,
    /// How many attempts carry an earlier time than the one that they follow by number: the clocks
    /// disagree, and the waits across such a step are not real.
    pub clock_steps: usize,
    /// The attempts in the order they were sent: by number where each number occurs once, else by
    /// time.
    pub attempts: Vec<RungOut>,
    /// What gateways and origins saw of them, joined by ids.
    pub observations: Vec<AttemptOut>,
    /// Requests that gateways sent again by themselves, which the client doesn't see; null where no
    /// gateway's log tells.
    pub resent_by_gateways: Option<u32>,
    /// How it was put together from spans, and what can't be seen of it; empty where the sender
    /// told its operations.
    pub notes: Vec<String>,
    /// Address of the triage of its service and upstream around it.
    pub triage: String,
}

/// The attempts of an operation in the order they were sent, and what others saw of them. Without a
/// client's attempts they are made of what others saw.
fn parted(matches: &Matches) -> (Vec<&StoredEvent>, Vec<&StoredEvent>) {
    let (own, observed): (Vec<&StoredEvent>, Vec<&StoredEvent>) =
        matches.events.iter().partition(|e| e.event.vantage == Vantage::Client);
    let (mut rungs, observed) = if own.is_empty() { (observed, own) } else { (own, observed) };
    put_in_order(&mut rungs);
    (rungs, observed)
}

/// What others saw: by the operation's id, and by the ids of its attempts. Each once, by time.
fn with_joined<'a>(observed: Vec<&'a StoredEvent>, stories: &'a [Story]) -> Vec<&'a StoredEvent> {
    let mut all = observed;
    all.extend(stories.iter().flat_map(|story| &story.records));
    all.sort_by_key(|one| (one.event.occurred_at, one.event.event_id.as_str()));
    all.dedup_by_key(|one| (one.event.occurred_at, one.event.event_id.as_str()));
    all
}

/// An attempt as lists show it, judged with what others recorded of it.
fn proven(stored: &StoredEvent, story: Option<&Story>) -> AttemptOut {
    let mut out = AttemptOut::from(stored);
    if let Some(response) = story.and_then(|story| story.response.as_ref()) {
        let verdict = summarize(response);
        out.returned_by = verdict.returned_by;
        out.layer = verdict.layer;
        out.certainty = verdict.outcome;
        out.limit_type = verdict.limit_type;
    }
    out
}

/// Whether each attempt has a span of its own, as far as is known, or was told by its sender.
fn is_seen_whole(matches: &Matches) -> bool {
    matches.events.iter().all(|stored| {
        let derived = stored.event.derived.as_deref();
        derived.is_none_or(|marks| marks.visibility == Visibility::All)
    })
}

fn wait(before: &StoredEvent, after: &StoredEvent) -> WaitOut {
    let gap = Gap::new(before, after);
    WaitOut {
        after_attempt: before.event.attempt,
        promised_ms: gap.promised_ms(),
        chosen_ms: gap.chosen_ms(),
        real_ms: gap.real_ms,
        is_early: gap.is_early(),
    }
}

impl Operation {
    /// Reads an operation with what others saw of it; `None` where nothing has the id.
    pub async fn fetch(store: &Store, operation_id: &str) -> Result<Option<Self>, StoreError> {
        let mut look = store.look().await?;
        let matches = look.operation(operation_id).await?;
        let (rungs, observed) = parted(&matches);
        let first: Vec<StoredEvent> = rungs.into_iter().take(LADDERS).cloned().collect();
        let observed: Vec<StoredEvent> = observed.into_iter().cloned().collect();
        let stories = match first.as_slice() {
            [] => Vec::new(),
            first => stories_with(&mut look, first, &observed).await?,
        };
        drop(look);
        let mut operation = Self::of(operation_id, &matches, &stories);
        if let (Some(operation), Some(first)) = (&mut operation, first.first())
            && !is_seen_whole(&matches)
        {
            operation.notes.extend(operation.own_metric(store, first).await?);
        }
        Ok(operation)
    }

    /// What the metric of the client that made attempt `one` counted around this operation.
    async fn own_metric(
        &self,
        store: &Store,
        one: &StoredEvent,
    ) -> Result<Option<String>, StoreError> {
        let scope = Scope {
            service: Some(one.event.service.clone()),
            upstream: Some(one.event.host.clone()),
            environment: one.event.environment.clone(),
            route: None,
        };
        let end = self.started_at.0.plus(Millis(self.length_ms));
        let window = Window {
            from: self.started_at.0.floor_to(MINUTE_MS),
            to: end.floor_to(MINUTE_MS).plus(Millis(MINUTE_MS)),
        };
        let pairs = store.client_volumes(&scope, window).await?;
        Ok(pairs.first().map(|pair| pair.volume.around(window)))
    }

    /// Puts `events` of one operation (at least one, ordered by time) into a ladder; `stories` are of
    /// its first attempts.
    pub fn of(operation_id: &str, matches: &Matches, stories: &[Story]) -> Option<Self> {
        let (rungs, observed) = parted(matches);
        let observed = with_joined(observed, stories);
        let first = rungs.first()?;
        let start = first.event.occurred_at;
        let nexts = rungs.iter().skip(1).map(Some).chain([None]);
        let attempts: Vec<RungOut> = rungs
            .iter()
            .zip(nexts)
            .enumerate()
            .map(|(place, (stored, next))| RungOut {
                attempt: proven(stored, stories.get(place)),
                sent_after_ms: stored.event.occurred_at.since(start).0,
                wait: next.map(|next| wait(stored, next)),
                ladder: stories.get(place).map(|story| story.ladder.clone()),
            })
            .collect();
        let resent = attempts.iter().filter_map(|rung| rung.ladder.as_ref()?.upstream_requests);
        let resent_by_gateways =
            resent.map(|sent| sent.saturating_sub(1)).reduce(u32::saturating_add);
        let marks: Vec<&Marks> = rungs.iter().filter_map(|e| e.event.derived.as_deref()).collect();
        let end = rungs.iter().map(|e| e.event.answered_at()).max().unwrap_or(start);
        let waits = || attempts.iter().filter_map(|rung| rung.wait.as_ref());
        let sum = |values: &mut dyn Iterator<Item = i64>| {
            values.fold(0_i64, |sum, ms| sum.saturating_add(ms.max(0)))
        };
        Some(Self {
            operation_id: operation_id.to_owned(),
            started_at: Stamp(start),
            length_ms: end.since(start).0,
            waited_ms: sum(&mut waits().map(|wait| wait.real_ms)),
            promised_ms: sum(&mut waits().filter_map(|wait| wait.promised_ms)),
            early: waits().filter(|wait| wait.is_early).count(),
            ended_well: attempts.last().is_some_and(|rung| rung.attempt.is_served()),
            notes: spans::words::notes(&marks),
            observations: observed.into_iter().map(Into::into).collect(),
            resent_by_gateways,
            triage: Address::new("/triage").view(&view_around(first)).finish(),
            is_complete: matches.is_complete && is_seen_whole(matches),
            is_cut: !matches.is_complete,
            clock_steps: attempts
                .windows(2)
                .filter(|pair| pair[1].sent_after_ms < pair[0].sent_after_ms)
                .count(),
            attempts,
        })
    }

    /// The attempts and what others saw of each, as Markdown. `origin` is put before addresses.
    pub fn markdown(&self, origin: &str) -> String {
        let mut out = String::new();
        let page = super::address::operation(&self.operation_id);
        writeln!(out, "# Operation {}\n", markdown::code(&self.operation_id)).ok();
        let link = markdown::link("This operation", &format!("{origin}{page}"));
        writeln!(out, "Started {} UTC. {link}\n", self.started_at).ok();
        for note in &self.notes {
            writeln!(out, "- {}", markdown::sentence(note)).ok();
        }
        let columns = ["attempt", "sent", "answer", "returned by", "real wait", "seen by"];
        let rows: Vec<Vec<String>> = self
            .attempts
            .iter()
            .take(LISTED)
            .map(|rung| {
                vec![
                    rung.attempt.attempt.to_string(),
                    rung.attempt.occurred_at.to_string(),
                    rung.attempt.answer(),
                    rung.attempt.responder(),
                    words::length_or_dash(rung.wait.as_ref().map(|wait| wait.real_ms)),
                    rung.seen_by().join("; "),
                ]
            })
            .collect();
        out.push_str(&markdown::table(&columns.map(ToOwned::to_owned), &rows));
        for rung in self.attempts.iter().take(LADDERS) {
            let Some(ladder) = rung.ladder.as_ref().filter(|ladder| ladder.tells()) else {
                continue;
            };
            let number = rung.attempt.attempt;
            writeln!(out, "\n## Hops of attempt {number}\n\n{}", ladder.markdown()).ok();
        }
        out
    }

    fn chart(&self) -> Chart {
        let rungs: Vec<Rung> = self
            .attempts
            .iter()
            .map(|rung| {
                let answered =
                    rung.sent_after_ms.saturating_add(rung.attempt.duration_ms.unwrap_or(0));
                Rung {
                    attempt: rung.attempt.attempt,
                    sent_ms: rung.sent_after_ms,
                    answered_ms: answered,
                    promised_ms: rung.attempt.promised_ms.map(|ms| answered.saturating_add(ms)),
                    end: if rung.attempt.limited {
                        RungEnd::Limited
                    } else if rung.attempt.is_served() {
                        RungEnd::Served
                    } else {
                        RungEnd::Failed
                    },
                }
            })
            .collect();
        let description = format!(
            "{} within {}, {} of them sent before the promised time.",
            words::counted(i64::try_from(rungs.len()).unwrap_or(0), "attempt", "attempts"),
            words::length(Millis(self.length_ms)),
            self.early,
        );
        ladder(
            "ladder",
            "Attempts of the operation and the waits between them",
            &description,
            &rungs,
        )
    }
}

/// `GET /operations/{id}`
#[utoipa::path(get, path = "/operations/{id}", tag = "pages",
    params(("id" = String, Path, description = "Id of the operation")),
    responses((status = 200, description = "One operation", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Html<String>, Failure> {
    let operation = Operation::fetch(&state.store, &id).await?;
    render(&OperationPage::new(operation.ok_or_else(|| Failure::not_found("operation"))?))
}

/// `GET /operations/{id}/document.md`
#[utoipa::path(get, path = "/operations/{id}/document.md", tag = "pages",
    params(("id" = String, Path, description = "Id of the operation")),
    responses((status = 200, description = "Attempts, waits and hops as Markdown", body = String, content_type = "text/markdown"), Problems))]
pub(crate) async fn document(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let operation = Operation::fetch(&state.store, &id).await?;
    let operation = operation.ok_or_else(|| Failure::not_found("operation"))?;
    let text = operation.markdown(&state.config.server.base());
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/operation.html")]
pub struct OperationPage {
    shell: Shell,
    model: Operation,
    chart: Chart,
    facts: Vec<(&'static str, String)>,
    cut: Option<String>,
    /// What is said of clocks that disagree.
    clocks: Option<String>,
    service: String,
    upstream: String,
    service_page: String,
}

impl OperationPage {
    /// The attempts of the table: all, or the first and the last of many.
    fn parts(&self) -> Vec<&[RungOut]> {
        let all = self.model.attempts.as_slice();
        match (all.get(..LISTED), all.len().checked_sub(LISTED).and_then(|at| all.get(at..))) {
            (Some(head), Some(tail)) if all.len() > 2 * LISTED => vec![head, tail],
            _ => vec![all],
        }
    }

    /// How many attempts the table leaves out.
    fn left_out(&self) -> String {
        let shown: usize = self.parts().iter().map(|part| part.len()).sum();
        let n = self.model.attempts.len().saturating_sub(shown);
        words::counted(i64::try_from(n).unwrap_or(i64::MAX), "attempt", "attempts")
    }

    /// The first of what others saw.
    fn observations(&self) -> &[AttemptOut] {
        let all = self.model.observations.as_slice();
        all.get(..2 * LISTED).unwrap_or(all)
    }

    /// Whether anything is to show of what others saw of its attempts.
    fn has_hops(&self) -> bool {
        self.model.attempts.iter().any(|rung| !rung.seen_by().is_empty())
    }

    /// What the table of observations is of.
    fn observed(&self) -> String {
        let joined = "Gateways and origins that saw the same requests, joined by id";
        let (shown, all) = (self.observations().len(), self.model.observations.len());
        if shown == all {
            joined.to_owned()
        } else {
            format!("{joined}: the first {shown} of {all}")
        }
    }

    /// The page of `model`.
    pub fn new(model: Operation) -> Self {
        let n = i64::try_from(model.attempts.len()).unwrap_or(i64::MAX);
        let last = model.attempts.last().map(|rung| &rung.attempt);
        let outcome = last.and_then(|row| row.outcome).map_or_else(
            || if model.ended_well { "served" } else { "not known" }.to_owned(),
            |outcome| outcome.to_string(),
        );
        let has_promise = model
            .attempts
            .iter()
            .any(|rung| rung.wait.as_ref().is_some_and(|wait| wait.promised_ms.is_some()));
        let told = |text: String| if has_promise { text } else { "none".to_owned() };
        let attempts = match (model.is_cut, model.is_complete) {
            (true, _) => format!("first {}", words::count(n)),
            (false, true) => words::count(n),
            (false, false) => format!("at least {}", words::count(n)),
        };
        let facts = vec![
            ("Attempts", attempts),
            ("Ended", outcome),
            ("First send to last answer", words::length(Millis(model.length_ms))),
            ("Waited in all", words::length(Millis(model.waited_ms))),
            ("Promised waits in all", told(words::length(Millis(model.promised_ms)))),
            ("Sent too early", told(words::count(i64::try_from(model.early).unwrap_or(0)))),
        ];
        let mut facts = facts;
        if let Some(resent) = model.resent_by_gateways {
            facts.push(("Sent again by gateways", words::count(i64::from(resent))));
        }
        let mut cuts = Vec::new();
        if model.attempts.len() > MAX_RUNGS {
            cuts.push(format!("The drawing shows the first {MAX_RUNGS} attempts."));
        }
        if model.attempts.len() > 2 * LISTED {
            cuts.push(format!(
                "The table has the first and the last {LISTED} of {}; the numbers above rest on \
                 all of them.",
                words::count(n)
            ));
        }
        if model.is_cut {
            cuts.push(format!(
                "More of this operation is stored than is looked at: all of this page rests on \
                 the first {}.",
                words::counted(n, "attempt", "attempts")
            ));
        }
        let cut = (!cuts.is_empty()).then(|| cuts.join(" "));
        let clocks = (model.clock_steps > 0).then(|| {
            let n = i64::try_from(model.clock_steps).unwrap_or(i64::MAX);
            format!(
                "The clocks of these attempts disagree: {} an earlier time than the attempt before \
                 it. The order is by number, and waits across such a step are not real.",
                words::counted(n, "attempt carries", "attempts carry")
            )
        });
        let service = last.map(|row| row.service.clone()).unwrap_or_default();
        Self {
            shell: Shell::new("Operation", "events")
                .with_twin(Address::new("/api/v1/operations").segment(&model.operation_id).finish())
                .with_markdown(format!(
                    "{}/document.md",
                    super::address::operation(&model.operation_id)
                )),
            chart: model.chart(),
            facts,
            cut,
            clocks,
            upstream: last.map(|row| row.upstream.clone()).unwrap_or_default(),
            service_page: super::address::service(&service),
            service,
            model,
        }
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let page = |id: &str, events: &[StoredEvent]| {
            let matches = Matches { events: events.to_vec(), is_complete: events.len() < 600 };
            Self::new(Operation::of(id, &matches, &[samples::story()]).unwrap())
        };
        let many: Vec<StoredEvent> = (1..800)
            .map(|i| samples::attempt(&format!("e{i}"), "op", i, i64::from(i) * i64::from(i) * 10))
            .collect();
        let mut extreme = samples::operation();
        extreme[0].verdict.promised_ms = Some(i64::MAX);
        extreme[1].event.duration_ms = Some(i64::MAX);
        extreme[2].event.occurred_at = crate::domain::time::UnixMillis(i64::MIN);
        let hostile: Vec<StoredEvent> =
            samples::hostile().iter().map(|text| samples::filled_with(text)).collect();
        let mut seen = samples::operation();
        seen.push(StoredEvent {
            event: crate::domain::event::Event {
                vantage: Vantage::Origin,
                ..samples::attempt("o-1", "op-7f1c", 1, 1_020).event
            },
            ..samples::served(samples::attempt("o-1", "op-7f1c", 1, 1_020))
        });
        vec![
            ("usual", page("op-7f1c", &seen)),
            ("one", page("op-7f1c", &seen[..1])),
            ("many", page("op", &many)),
            ("extreme", page("op", &extreme)),
            ("hostile", page(&samples::hostile()[0], &hostile)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::pages::samples;

    #[test]
    fn waits_are_measured_from_the_answer_and_early_ones_are_counted() {
        let matches = Matches { events: samples::operation(), is_complete: true };
        let operation = Operation::of("op", &matches, &[]).unwrap();
        let waits: Vec<_> = operation.attempts.iter().filter_map(|r| r.wait.clone()).collect();
        // Sent at 1.0 s and answered at 1.084 s; the next went out at 2.1 s.
        assert_eq!((waits[0].real_ms, waits[0].is_early), (1_016, true));
        // Answered at 2.184 s with 30 s promised; the next went out at 33.0 s.
        assert_eq!((waits[1].real_ms, waits[1].is_early), (30_816, false));
        assert_eq!(waits.len(), 3);
        assert!(operation.ended_well);
        assert_eq!(operation.early, 1);
    }

    #[test]
    fn attempts_go_by_number_where_a_clock_jumped_back_and_the_page_says_so() {
        // Attempt 2's clock is 50 s behind attempt 1's.
        let events = vec![
            samples::attempt("e2", "op", 2, 0),
            samples::attempt("e1", "op", 1, 50_000),
            samples::attempt("e3", "op", 3, 60_000),
        ];
        let operation = Operation::of("op", &Matches { events, is_complete: true }, &[]).unwrap();
        let numbers: Vec<u32> = operation.attempts.iter().map(|r| r.attempt.attempt).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(operation.clock_steps, 1);
        assert_eq!(operation.attempts[1].sent_after(), "−50 s");
        let wait = operation.attempts[0].wait.as_ref().unwrap();
        assert_eq!((wait.word(), wait.is_early), ("sent before the answer", false));
        let page = OperationPage::new(operation);
        assert!(page.clocks.unwrap().contains("1 attempt carries an earlier time"));
    }

    #[test]
    fn the_table_of_a_long_operation_has_both_ends_and_says_what_is_left_out() {
        let events: Vec<StoredEvent> = (1..=5_000)
            .map(|i| samples::attempt(&format!("e{i}"), "op", i, i64::from(i) * 1_000))
            .collect();
        let matches = Matches { events, is_complete: true };
        let page = OperationPage::new(Operation::of("op", &matches, &[]).unwrap());
        let parts = page.parts();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0][249].attempt.attempt, 250);
        assert_eq!(parts[1][0].attempt.attempt, 4_751);
        assert_eq!(page.left_out(), "4,500 attempts");
        assert_eq!(page.facts[0].1, "5,000");
        assert_eq!(page.model.length_ms, 4_999_084);
    }

    #[test]
    fn nothing_makes_no_ladder() {
        assert_eq!(Operation::of("op", &Matches::default(), &[]), None);
    }
}
