//! `/operations/{id}`: the attempts of one intent as a ladder, with the waits between them.

use super::address::Address;
use super::attempt::AttemptOut;
use super::chart::{Chart, MAX_RUNGS, Rung, RungEnd, ladder};
use super::event::view_around;
use super::model::{Shell, Stamp};
use super::{render, words};
use crate::domain::checklist::operations::Gap;
use crate::domain::event::Vantage;
use crate::domain::stored::StoredEvent;
use crate::domain::time::Millis;
use crate::web::api::Problems;
use crate::web::extract::Path;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::Serialize;
use utoipa::ToSchema;

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
            Some(_) => "kept the promise",
            None => "nothing promised",
        }
    }

    /// The kind of badge that goes with that word.
    pub fn badge(&self) -> &'static str {
        match self.promised_ms {
            _ if self.is_early => "finding",
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
}

impl RungOut {
    /// `+1.1 s`.
    pub fn sent_after(&self) -> String {
        format!("+{}", words::length(Millis(self.sent_after_ms)))
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
    /// The attempts in the order they were sent.
    pub attempts: Vec<RungOut>,
    /// What gateways and origins saw of them.
    pub observations: Vec<AttemptOut>,
    /// Address of the triage of its service and upstream around it.
    pub triage: String,
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
    /// Puts `events` of one operation (at least one, ordered by time) into a ladder.
    pub fn of(operation_id: &str, events: &[StoredEvent]) -> Option<Self> {
        let (own, observed): (Vec<&StoredEvent>, Vec<&StoredEvent>) =
            events.iter().partition(|e| e.event.vantage == Vantage::Client);
        // Without a client observation the ladder is made of what others saw.
        let (rungs, observed) = if own.is_empty() { (observed, own) } else { (own, observed) };
        let first = rungs.first()?;
        let start = first.event.occurred_at;
        let nexts = rungs.iter().skip(1).map(Some).chain([None]);
        let attempts: Vec<RungOut> = rungs
            .iter()
            .zip(nexts)
            .map(|(stored, next)| RungOut {
                attempt: (*stored).into(),
                sent_after_ms: stored.event.occurred_at.since(start).0,
                wait: next.map(|next| wait(stored, next)),
            })
            .collect();
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
            observations: observed.into_iter().map(Into::into).collect(),
            triage: Address::new("/triage").view(&view_around(first)).finish(),
            attempts,
        })
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
    let events = state.store.operation(&id).await?;
    let operation = Operation::of(&id, &events).ok_or_else(|| Failure::not_found("operation"))?;
    render(&OperationPage::new(operation))
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
    service: String,
    upstream: String,
    service_page: String,
}

impl OperationPage {
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
        let facts = vec![
            ("Attempts", words::count(n)),
            ("Ended", outcome),
            ("First send to last answer", words::length(Millis(model.length_ms))),
            ("Waited in all", words::length(Millis(model.waited_ms))),
            ("Promised waits in all", told(words::length(Millis(model.promised_ms)))),
            ("Sent too early", told(words::count(i64::try_from(model.early).unwrap_or(0)))),
        ];
        let cut = (model.attempts.len() > MAX_RUNGS)
            .then(|| format!("The drawing shows the first {MAX_RUNGS}; the table has all."));
        let service = last.map(|row| row.service.clone()).unwrap_or_default();
        Self {
            shell: Shell::new("Operation", "events").with_twin(
                Address::new("/api/v1/operations").segment(&model.operation_id).finish(),
            ),
            chart: model.chart(),
            facts,
            cut,
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
        let page = |id: &str, events: &[StoredEvent]| Self::new(Operation::of(id, events).unwrap());
        let many: Vec<StoredEvent> = (1..300)
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
        let operation = Operation::of("op", &samples::operation()).unwrap();
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
    fn nothing_makes_no_ladder() {
        assert_eq!(Operation::of("op", &[]), None);
    }
}
