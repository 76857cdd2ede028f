//! `/sources`: where events come from, their gaps, and what each source lacks for which of the eight
//! steps, with the setting that would supply it.

use super::address::{Address, AddressError, filled};
use super::model::{Shell, Stamp};
use super::rows::page_rows;
use super::{framed, render_with, words};
use crate::domain::checklist::Step;
use crate::domain::event::Vantage;
use crate::domain::sources::{Fit, Gap, Input, Lack, Source, StepFit, Trait, fits};
use crate::domain::stored::{Sender, SenderCounts};
use crate::domain::time::UnixMillis;
use crate::store::{SourceCursor, SourcePage};
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Gaps that are listed of a source.
const GAPS: usize = 5;
/// Sources of a page unless asked otherwise.
const PAGE_SOURCES: u32 = 50;

/// Which sources are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct SourceParams {
    /// Sources in a page, at most 1,000; 50 where absent.
    #[param(example = "50")]
    pub limit: Option<String>,
    /// Where the page begins: `next` of the page before.
    pub after: Option<String>,
}

impl SourceParams {
    /// Where the page begins.
    fn cursor(&self) -> Result<Option<SourceCursor>, AddressError> {
        filled(self.after.as_deref())
            .map(|text| {
                let (at, id) = text.split_once('.').unwrap_or_default();
                let at = at.parse().ok().map(UnixMillis);
                at.zip(id.parse().ok())
                    .map(|(received_at, id)| SourceCursor { received_at, id })
                    .ok_or_else(|| AddressError::new("after", "the next of another page"))
            })
            .transpose()
    }
}

/// Address of the page of sources at `path` that begins at a cursor.
fn page_address(path: &'static str, limit: u32, after: SourceCursor) -> String {
    let SourceCursor { received_at, id } = after;
    let limit = (limit != PAGE_SOURCES).then(|| limit.to_string());
    let address = Address::new(path).with_some("limit", limit.as_deref());
    address.with("after", &format!("{}.{id}", received_at.0)).finish()
}

/// A stretch of minutes without an event of a source that normally sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct GapOut {
    /// The first minute without one.
    pub from: Stamp,
    /// The minute after the last.
    pub to: Stamp,
}

impl From<&Gap> for GapOut {
    fn from(gap: &Gap) -> Self {
        Self { from: Stamp(gap.from), to: Stamp(gap.to) }
    }
}

impl GapOut {
    /// How long it was.
    pub fn length(&self) -> String {
        words::length(self.to.0.since(self.from.0))
    }
}

/// Something that a source lacks for a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LackOut {
    /// What.
    pub lacks: Trait,
    /// The steps that ask for it.
    pub steps: Vec<u8>,
    /// How many events carry it.
    pub had: i64,
    /// Of how many that should.
    pub of: i64,
    /// What is missing, in words.
    pub what: &'static str,
    /// What would supply it.
    pub how: String,
    /// A setting to copy.
    pub setting: Option<String>,
}

impl LackOut {
    /// `3 of 40`.
    pub fn share(&self) -> String {
        format!("{} of {}", words::count(self.had), words::count(self.of))
    }

    /// `steps 1, 5`.
    pub fn for_steps(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(u8::to_string).collect();
        let word = if steps.len() == 1 { "step" } else { "steps" };
        format!("{word} {}", steps.join(", "))
    }
}

/// What a step gets from a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct FitOut {
    /// The step's number.
    pub step: u8,
    /// Whether it has what it needs.
    pub fit: Fit,
}

impl FitOut {
    /// The kind of badge.
    pub fn badge(&self) -> &'static str {
        match self.fit {
            Fit::Full => "clear",
            Fit::Part => "needs-data",
            Fit::Lacking => "finding",
            Fit::Open | Fit::NotAsked => "plain",
        }
    }

    /// Its word.
    pub fn word(&self) -> &'static str {
        match self.fit {
            Fit::Full => "all",
            Fit::Part => "part",
            Fit::Lacking => "lacks",
            Fit::Open => "open",
            Fit::NotAsked => "\u{2013}",
        }
    }
}

/// One source.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceOut {
    /// The calling service, as its events say.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// Who saw it.
    pub vantage: Vantage,
    /// The way in.
    pub input: Input,
    /// A gateway's name or product; empty for clients and origins.
    pub name: String,
    /// The language of its instrumentation; empty where not said.
    pub language: String,
    /// When its first event happened.
    pub first_at: Stamp,
    /// When its newest event happened.
    pub last_at: Stamp,
    /// Whether its newest event happened more than five minutes after now: its clock is fast, or its
    /// times are in another unit or zone. What is looked at now doesn't show such events.
    pub is_ahead: bool,
    /// When its newest event was received.
    pub received_at: Stamp,
    /// Events stored from it.
    pub events: i64,
    /// Events a minute over the last quarter of an hour.
    pub per_minute: f64,
    /// Whether it has events in most minutes, so that one without is a gap.
    pub is_steady: bool,
    /// The newest stretches without events within the last three hours, oldest first.
    pub gaps: Vec<GapOut>,
    /// Gaps in all.
    pub gaps_in_all: usize,
    /// What each of the eight steps gets from it.
    pub steps: Vec<FitOut>,
    /// What it lacks.
    pub lacks: Vec<LackOut>,
}

impl SourceOut {
    fn of(source: &Source, now: UnixMillis) -> Self {
        let gaps = source.gaps(now);
        let fits = fits(source);
        let key = source.key.clone();
        Self {
            service: key.service,
            upstream: key.upstream,
            vantage: key.vantage,
            input: key.input,
            name: key.name,
            language: source.language.clone(),
            first_at: Stamp(source.first_at),
            last_at: Stamp(source.last_at),
            is_ahead: source.is_ahead(now),
            received_at: Stamp(source.received_at),
            events: source.events,
            per_minute: source.per_minute(now),
            is_steady: source.is_steady(),
            gaps: gaps.iter().skip(gaps.len().saturating_sub(GAPS)).map(Into::into).collect(),
            gaps_in_all: gaps.len(),
            steps: fits
                .iter()
                .map(|fit| FitOut { step: fit.step.number(), fit: fit.fit })
                .collect(),
            lacks: lacks(&fits),
        }
    }

    /// What it is called: `checkout to api.example.com`, and who saw it.
    pub fn title(&self) -> String {
        format!("{} to {}", self.service, self.upstream)
    }

    /// Who saw it and by which way it came: `gateway nginx, access-log`.
    pub fn kind(&self) -> String {
        let mut kind = self.vantage.to_string();
        for part in [&self.name, &self.language] {
            if !part.is_empty() {
                kind.push(' ');
                kind.push_str(part);
            }
        }
        format!("{kind}, {}", self.input)
    }

    /// Events a minute, in words.
    pub fn rate(&self) -> String {
        if self.per_minute == 0.0 {
            "none lately".to_owned()
        } else if self.per_minute < 10.0 {
            format!("{:.1}", self.per_minute)
        } else {
            format!("{:.0}", self.per_minute)
        }
    }

    /// Its gaps, in words.
    pub fn gap_words(&self) -> String {
        match (self.is_steady, self.gaps_in_all) {
            (false, _) => "sends now and then".to_owned(),
            (true, 0) => "none".to_owned(),
            (true, n) => words::counted(i64::try_from(n).unwrap_or(i64::MAX), "gap", "gaps"),
        }
    }

    /// Address of the triage of its pair.
    pub fn triage(&self) -> String {
        Address::new("/triage")
            .with("service", &self.service)
            .with("upstream", &self.upstream)
            .finish()
    }
}

/// Each thing that is missing once, with the steps that ask for it.
fn lacks(fits: &[StepFit]) -> Vec<LackOut> {
    let mut order: Vec<Trait> = Vec::new();
    let mut found: BTreeMap<Trait, LackOut> = BTreeMap::new();
    for (step, lack) in fits.iter().flat_map(|fit| fit.lacks.iter().map(|l| (fit.step, l))) {
        let Lack { kind, share, what, how, setting } = lack;
        let out = found.entry(*kind).or_insert_with(|| {
            order.push(*kind);
            LackOut {
                lacks: *kind,
                steps: Vec::new(),
                had: share.had,
                of: share.of,
                what,
                how: how.clone(),
                setting: setting.clone(),
            }
        });
        out.steps.push(step.number());
    }
    order.into_iter().filter_map(|kind| found.remove(&kind)).collect()
}

/// What was wrong with what a service sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SourceSender {
    /// The service; empty for items that were refused before it could be read.
    pub service: String,
    /// Events stored.
    pub events: i64,
    /// Values that looked secret, replaced.
    pub redactions: i64,
    /// Fields that no event has.
    pub unknown_fields: i64,
    /// Items refused.
    pub rejected: i64,
    /// Events whose id was stored with another time already.
    pub id_conflicts: i64,
}

impl From<&Sender> for SourceSender {
    fn from(sender: &Sender) -> Self {
        let SenderCounts { events, redactions, unknown_fields, rejected, id_conflicts, .. } =
            sender.counts;
        let service = sender.service.clone();
        Self { service, events, redactions, unknown_fields, rejected, id_conflicts }
    }
}

/// Where events come from.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceList {
    /// The sources, those that sent last first. One that sends while they are paged moves to the
    /// front.
    pub items: Vec<SourceOut>,
    /// Address of the next page; null at the end.
    pub next: Option<String>,
    /// What was wrong with what each service sent, worst first, at most 1,000; on the first page.
    pub senders: Vec<SourceSender>,
    /// For each upstream of these sources with a client's attempts: which vantages are missing that
    /// would prove who answered.
    pub without_proof: Vec<WithoutProof>,
}

/// An upstream of which nobody but the client tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WithoutProof {
    /// The upstream host.
    pub upstream: String,
    /// No gateway sends its log.
    pub lacks_gateway: bool,
    /// The origin sends neither log nor spans.
    pub lacks_origin: bool,
}

impl WithoutProof {
    /// What is missing, in words.
    pub fn words(&self) -> &'static str {
        match (self.lacks_gateway, self.lacks_origin) {
            (true, true) => "neither a gateway's log nor the origin's log or spans",
            (true, false) => "no gateway's log",
            (false, _) => "no log or spans of the origin",
        }
    }
}

impl SourceList {
    /// Reads a page of sources, with what was counted up to now; `path` is the address of the list.
    pub(crate) async fn fetch(
        state: &AppState,
        path: &'static str,
        params: &SourceParams,
    ) -> Result<Self, Failure> {
        let (after, limit) = (params.cursor()?, page_rows(params.limit.as_deref(), PAGE_SOURCES)?);
        let now = state.clock.now();
        state.intake.sources().write(&state.store, now).await?;
        state.senders.write(&state.store).await?;
        let page = state.store.sources(after, limit, now).await?;
        let senders = if after.is_none() { state.store.senders().await? } else { Vec::new() };
        let next = page.next.map(|cursor| page_address(path, limit, cursor));
        Ok(Self { next, ..Self::build(&page, &senders, now) })
    }

    /// Words a page of sources, as if it were the last one.
    pub fn build(page: &SourcePage, senders: &[Sender], now: UnixMillis) -> Self {
        let without_proof = page
            .seen
            .iter()
            .filter(|(_, by)| by.contains(&Vantage::Client))
            .map(|(upstream, by)| WithoutProof {
                upstream: upstream.clone(),
                lacks_gateway: !by.contains(&Vantage::Gateway),
                lacks_origin: !by.contains(&Vantage::Origin),
            })
            .filter(|one| one.lacks_gateway || one.lacks_origin);
        Self {
            without_proof: without_proof.collect(),
            items: page.items.iter().map(|source| SourceOut::of(source, now)).collect(),
            next: None,
            senders: senders.iter().map(Into::into).collect(),
        }
    }
}

/// `GET /sources`
#[utoipa::path(get, path = "/sources", tag = "pages", params(SourceParams),
    responses((status = 200, description = "Where events come from, and what each source lacks", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(params): Query<SourceParams>,
    hint: Hint,
) -> Result<Html<String>, Failure> {
    let is_first = filled(params.after.as_deref()).is_none();
    let list = SourceList::fetch(&state, "/sources", &params).await?;
    render_with(SourcesPage::new(list, is_first), hint)
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/sources.html")]
pub struct SourcesPage {
    shell: Shell,
    model: SourceList,
    is_first: bool,
    /// The eight steps: number and title.
    steps: Vec<(u8, &'static str)>,
}

framed!(SourcesPage);

impl SourcesPage {
    /// The page of `model`; `is_first` where no other one comes before it.
    pub fn new(model: SourceList, is_first: bool) -> Self {
        let shell = Shell::new("Sources", "sources").with_twin("/api/v1/sources".to_owned());
        let steps = Step::ALL.iter().map(|step| (step.number(), step.title())).collect();
        Self { shell, model, is_first, steps }
    }

    /// Whether any source sends events of the future.
    fn has_ahead(&self) -> bool {
        self.model.items.iter().any(|source| source.is_ahead)
    }

    /// Whether any source lacks anything.
    fn has_lacks(&self) -> bool {
        self.model.items.iter().any(|source| !source.lacks.is_empty())
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        use crate::domain::sources::{Share, SourceKey};
        use crate::domain::time::Millis;
        let now = samples::NOW;
        let minute = now.0.div_euclid(60_000);
        let source = |text: &str, vantage: Vantage, input: Input| Source {
            key: SourceKey {
                service: text.to_owned(),
                upstream: text.to_owned(),
                vantage,
                input,
                name: text.to_owned(),
            },
            first_at: now.plus(Millis(-86_400_000)),
            last_at: if text == "nginx" { now.plus(Millis(7_200_000)) } else { now },
            received_at: now,
            events: 12_345,
            language: "python".to_owned(),
            minutes: (minute - 60..minute).filter(|m| m % 20 != 0).map(|m| (m, 40)).collect(),
            traits: Trait::ALL.iter().map(|kind| (*kind, Share { had: 3, of: 40 })).collect(),
        };
        let sender = |text: &str| Sender {
            service: text.to_owned(),
            counts: SenderCounts { rejected: 3, redactions: i64::MAX, ..SenderCounts::default() },
        };
        let usual = [
            source("checkout", Vantage::Client, Input::Otlp),
            source("nginx", Vantage::Gateway, Input::AccessLog),
            source("api", Vantage::Origin, Input::Native),
        ];
        let hostile: Vec<Source> = samples::hostile()
            .iter()
            .map(|text| source(text, Vantage::Client, Input::Native))
            .collect();
        let senders: Vec<Sender> = samples::hostile().iter().map(|text| sender(text)).collect();
        let page = |sources: &[Source]| SourcePage {
            items: sources.to_vec(),
            next: None,
            seen: sources
                .iter()
                .map(|one| (one.key.upstream.clone(), [one.key.vantage].into()))
                .collect(),
        };
        let list = |sources: &[Source], senders: &[Sender]| {
            SourceList::build(&page(sources), senders, now)
        };
        let long = ["a-service-of-a-department-with-a-long-name"; 2].join(".");
        let long = [source(&long, Vantage::Client, Input::Otlp)];
        let cut = SourceList { next: Some("/sources?after=1.2".to_owned()), ..list(&long, &[]) };
        vec![
            ("empty", Self::new(list(&[], &[]), true)),
            ("after", Self::new(list(&[], &[]), false)),
            ("usual", Self::new(list(&usual, &[sender("checkout")]), true)),
            ("long", Self::new(cut, true)),
            ("hostile", Self::new(list(&hostile, &senders), true)),
        ]
    }
}
