//! `/`: limited dependencies, worst first; what retries do; requests and retries on one time axis.

use super::address::{self, Address, ViewParams};
use super::chart::Chart;
use super::elsewhere::Elsewhere;
use super::model::{
    ClientMetric, Figure, Series, Shell, Stamp, ViewOut, bucket_width, figures, scope_title,
    series_width, source_note,
};
use super::{framed, kept, origin, render_with, words};
use crate::domain::event::Vantage;
use crate::domain::stored::{Bucket, Counts, Pair, Scope, TimeBasis, View};
use crate::domain::time::{HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::metrics::{Caps, Overflow};
use crate::store::{PairVolume, Standing};
use crate::web::api::Problems;
use crate::web::extract::Query;
use crate::web::parameters::Hint;
use crate::web::{AppState, Failure};
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Html;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How many services and upstreams the overview lists.
const MAX_PAIRS: usize = 500;

/// One service's calls to one upstream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PairOut {
    /// The calling service.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// Whose observations the counts come from; `client` unless no client reports.
    pub source: Vantage,
    /// First attempts.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
    /// Attempts.
    pub attempts: i64,
    /// Attempts that a limit refused.
    pub limited: i64,
    /// Limited attempts / attempts; null where only failures were ever reported.
    pub limited_ratio: Option<f64>,
    /// Attempts answered 429 / attempts; null likewise.
    pub ratio_429: Option<f64>,
    /// Attempts / requests.
    pub attempts_per_operation: Option<f64>,
    /// Operations that ended well with more than one attempt / operations with more than one.
    pub success_after_retry: Option<f64>,
    /// Operations that ended well / operations.
    pub effective_success: Option<f64>,
    /// Attempts that ended well / attempts.
    pub actual_success: Option<f64>,
    /// What the client's own metric counted; null where none was sent.
    pub client_metric: Option<ClientMetric>,
    /// When the newest attempt was sent.
    pub last_at: Stamp,
    /// Address of the triage of this pair in this window.
    pub triage: String,
    /// Address of its limited attempts.
    pub rows: String,
    /// How long ago the newest attempt was, worded.
    #[serde(skip)]
    pub last: String,
}

impl PairOut {
    fn of(pair: &Pair, volumes: &[PairVolume], view: &View, now: UnixMillis) -> Self {
        let c = &pair.counts;
        let own = volumes.iter().find(|own| {
            own.service == pair.service
                && own.upstream == pair.upstream
                && own.environment == pair.environment
        });
        let view = View {
            scope: Scope {
                service: Some(pair.service.clone()),
                upstream: Some(pair.upstream.clone()),
                environment: pair.environment.clone().or_else(|| view.scope.environment.clone()),
                route: view.scope.route.clone(),
            },
            ..view.clone()
        };
        // Where nothing but failures was reported there is no denominator (DESIGN 14).
        let whole = if c.succeeded > 0 { c.attempts } else { 0 };
        Self {
            service: pair.service.clone(),
            upstream: pair.upstream.clone(),
            environment: pair.environment.clone(),
            source: pair.source,
            requests: c.requests,
            retries: c.retries,
            attempts: c.attempts,
            limited: c.limited,
            limited_ratio: words::ratio(c.limited, whole),
            ratio_429: words::ratio(c.status_429, whole),
            attempts_per_operation: words::ratio(c.attempts, c.requests),
            success_after_retry: words::ratio(c.retry_successes, c.retried_operations),
            effective_success: words::ratio(c.succeeded.min(c.requests), c.requests),
            actual_success: words::ratio(c.succeeded, c.attempts),
            client_metric: own.map(|own| ClientMetric::of(&own.volume, view.window, c.attempts)),
            last_at: Stamp(pair.last_at),
            triage: Address::new("/triage").view(&view).finish(),
            rows: address::rows_of(&view, Some(true), None, None),
            last: words::ago(pair.last_at, now),
        }
    }

    /// `1,204 (+310)`.
    pub fn volume(&self) -> String {
        format!("{} (+{})", words::count(self.requests), words::count(self.retries))
    }

    /// The limited count, grouped.
    pub fn limited_text(&self) -> String {
        words::count(self.limited)
    }

    /// The limited ratio, worded.
    pub fn limited_ratio_text(&self) -> String {
        match self.limited_ratio {
            Some(ratio) => words::percent(ratio),
            None if self.attempts > 0 => "no ratio".to_owned(),
            None => words::NO_DATA.to_owned(),
        }
    }

    /// The 429 ratio, worded.
    pub fn ratio_429_text(&self) -> String {
        match self.ratio_429 {
            Some(ratio) => words::percent(ratio),
            None if self.attempts > 0 => "no ratio".to_owned(),
            None => words::NO_DATA.to_owned(),
        }
    }

    /// Attempts per operation, worded.
    pub fn factor_text(&self) -> String {
        words::factor(self.attempts_per_operation)
    }

    /// Success after retry, worded.
    pub fn saved_text(&self) -> String {
        if self.retries == 0 {
            return "no retries".to_owned();
        }
        words::percent_or_none(self.success_after_retry)
    }

    /// Effective (actual) success, worded.
    pub fn success_text(&self) -> String {
        match (self.effective_success, self.actual_success) {
            (Some(e), Some(a)) => format!("{} ({})", words::percent(e), words::percent(a)),
            _ => words::NO_DATA.to_owned(),
        }
    }

    /// Length of the bar behind the limited ratio, 0 to 100.
    pub fn bar(&self) -> String {
        format!("{:.0}", self.limited_ratio.unwrap_or_default().clamp(0.0, 1.0) * 100.0)
    }
}

/// How many alerts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct AlertCounts {
    /// How many fire.
    pub firing: i64,
    /// How many are pending.
    pub pending: i64,
    /// The last evaluation; null before the first.
    pub evaluated_at: Option<Stamp>,
}

impl AlertCounts {
    /// How many fire and are pending, in words.
    pub fn text(&self) -> String {
        let firing = match self.firing {
            0 => "No alert fires".to_owned(),
            1 => "1 alert fires".to_owned(),
            n => format!("{} alerts fire", words::count(n)),
        };
        match self.pending {
            0 => firing,
            n => format!("{firing}, {} pending", words::count(n)),
        }
    }
}

/// What the overview shows.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Overview {
    /// The view.
    pub view: ViewOut,
    /// Whose observations the numbers count; `client` unless no client reported.
    pub source: Vantage,
    /// What is to know about it; null where the numbers are over all pairs.
    pub source_note: Option<String>,
    /// The numbers over all pairs with that source.
    pub figures: Vec<Figure>,
    /// Alerts of all services, whatever the view.
    pub alerts: AlertCounts,
    /// Services and their upstreams, worst first; the worst 500 of them.
    pub pairs: Vec<PairOut>,
    /// How many there are in all.
    pub pairs_total: usize,
    /// Requests and retries over time.
    pub series: Series,
    /// When the newest event was stored; null where nothing ever was.
    pub last_event_at: Option<Stamp>,
    /// What `/metrics` of this process counts under `other`; null where nothing is.
    pub metrics_note: Option<String>,
}

/// What the overview is made from.
#[derive(Debug, Clone)]
pub struct Input {
    /// The view.
    pub view: View,
    /// What is to be said of a view that begins before the events that are kept.
    pub kept_note: Option<String>,
    /// Whose observations are counted in the sums.
    pub source: Vantage,
    /// Sum over the window.
    pub totals: Counts,
    /// Counts over time.
    pub buckets: Vec<Bucket>,
    /// Services and their upstreams, worst first.
    pub pairs: Vec<Pair>,
    /// What clients' own metrics counted, by pair.
    pub volumes: Vec<PairVolume>,
    /// How alerts stand.
    pub standing: Standing,
    /// When the newest event was stored.
    pub last_event_at: Option<UnixMillis>,
    /// Where the window is empty: an attempt of the scope outside of it.
    pub elsewhere: Option<Elsewhere>,
    /// Events that `/metrics` of this process counts under `other`, by label.
    pub overflow: Vec<(Overflow, u64)>,
    /// How many values its labels may have.
    pub caps: Caps,
    /// The time of asking.
    pub now: UnixMillis,
}

impl Input {
    /// Asks the store for all that the overview of `params` shows.
    pub(crate) async fn fetch(state: &AppState, params: &ViewParams) -> Result<Self, Failure> {
        let now = state.clock.now();
        let (view, kept_note) =
            kept::counted(state, &params.view(address::last_hour(now))?).await?;
        let store = &state.store;
        let mut pairs = store.pairs(view.window, view.time).await?;
        pairs.retain(|pair| is_in(&view.scope, pair));
        let totals = store.totals(&view).await?;
        let is_quiet = totals.attempts == 0 && pairs.is_empty();
        let elsewhere = if is_quiet { Elsewhere::find(state, &view).await? } else { None };
        Ok(Self {
            source: store.source(&view).await?,
            totals,
            elsewhere,
            buckets: store.buckets(&view, bucket_width(view.window)).await?,
            pairs,
            volumes: store.client_volumes(&view.scope, view.window).await?,
            standing: store.alerts_standing().await?,
            last_event_at: store.last_event_at().await?,
            overflow: state.metrics.overflow(),
            caps: state.config.metrics.caps,
            kept_note,
            view,
            now,
        })
    }
}

/// Whether a scope holds a pair. Routes are not part of pairs.
fn is_in(scope: &Scope, pair: &Pair) -> bool {
    scope.service.as_ref().is_none_or(|service| *service == pair.service)
        && scope.upstream.as_ref().is_none_or(|upstream| *upstream == pair.upstream)
        && scope.environment.as_ref().is_none_or(|own| Some(own) == pair.environment.as_ref())
}

/// `GET /`
#[utoipa::path(get, path = "/", tag = "pages", params(ViewParams),
    responses((status = 200, description = "The overview", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Query(params): Query<ViewParams>,
    hint: Hint,
    headers: HeaderMap,
) -> Result<Html<String>, Failure> {
    let input = Input::fetch(&state, &params).await?;
    render_with(OverviewPage::new(&input, &origin(&state.config, &headers)), hint)
}

impl Overview {
    /// Words and rounds the input.
    pub fn build(input: &Input) -> Self {
        let view = &input.view;
        let mut uncounted: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for pair in &input.pairs {
            let is_counted = uncounted.entry((&pair.service, &pair.upstream)).or_default();
            *is_counted |= pair.source == input.source;
        }
        let uncounted = uncounted.values().filter(|is_counted| !**is_counted).count();
        Self {
            view: ViewOut { kept_note: input.kept_note.clone(), ..view.into() },
            source: input.source,
            source_note: source_note(input.source, uncounted),
            figures: figures(view, &input.totals),
            alerts: AlertCounts {
                firing: input.standing.firing,
                pending: input.standing.pending,
                evaluated_at: input.standing.evaluated_at.map(Stamp),
            },
            pairs: input
                .pairs
                .iter()
                .take(MAX_PAIRS)
                .map(|pair| PairOut::of(pair, &input.volumes, view, input.now))
                .collect(),
            pairs_total: input.pairs.len(),
            series: Series::of(
                view.window,
                series_width(view.window, &input.buckets),
                &input.buckets,
            ),
            last_event_at: input.last_event_at.map(Stamp),
            metrics_note: metrics_note(&input.overflow, input.caps),
        }
    }
}

/// What is said of labels of `/metrics` that had too many values.
fn metrics_note(overflow: &[(Overflow, u64)], caps: Caps) -> Option<String> {
    let parts: Vec<String> = overflow
        .iter()
        .map(|(label, events)| {
            let events = words::count(i64::try_from(*events).unwrap_or(i64::MAX));
            let beyond = match label {
                Overflow::Service => format!("{} services (metrics_services)", caps.services),
                Overflow::Upstream => format!("{} upstreams (metrics_upstreams)", caps.upstreams),
                Overflow::Environment => "the environments that are told apart".to_owned(),
                Overflow::Pair => {
                    format!("{} pairs of service and upstream (metrics_pairs)", caps.pairs)
                }
            };
            format!("{events} events beyond {beyond}")
        })
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Since this process started, /metrics counts {} under \u{201c}other\u{201d}, so that \
             alerts made from it don't see them by name. This page does.",
            parts.join(" and ")
        )
    })
}

/// A link to the same page over another stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Where it leads.
    pub href: String,
    /// What it is called.
    pub word: &'static str,
}

/// Links from `path` to the usual windows that end now, with absolute times.
pub fn ranges(path: &'static str, view: &View, now: UnixMillis) -> Vec<Range> {
    let to = address::last_hour(now).to;
    [
        ("15 minutes", 15 * MINUTE_MS),
        ("1 hour", HOUR_MS),
        ("6 hours", 6 * HOUR_MS),
        ("24 hours", 24 * HOUR_MS),
        ("7 days", 7 * 24 * HOUR_MS),
    ]
    .into_iter()
    .map(|(word, span)| {
        let window = Window { from: to.plus(Millis(-span)), to };
        let view = View { window, ..view.clone() };
        Range { href: Address::new(path).view(&view).finish(), word }
    })
    .collect()
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/overview.html")]
pub struct OverviewPage {
    shell: Shell,
    model: Overview,
    chart: Chart,
    ranges: Vec<Range>,
    scope: String,
    /// What is said of pairs that are not listed.
    more: Option<String>,
    /// Where nothing was ever stored: the command that sends a first event.
    first_event: Option<String>,
    /// Where the window is empty: an attempt of the scope outside of it, and its hour's address.
    elsewhere: Option<(Elsewhere, String)>,
    /// Where the window is empty and no attempt is known: the hour of the last receipt.
    last_hour_href: Option<String>,
}

framed!(OverviewPage);

impl OverviewPage {
    /// The page for `input`; `origin` is the address of this service as the reader reached it.
    pub fn new(input: &Input, origin: &str) -> Self {
        let model = Overview::build(input);
        let more = model.pairs_total.saturating_sub(model.pairs.len());
        let more = (more > 0).then(|| {
            let n = words::count(i64::try_from(more).unwrap_or(i64::MAX));
            format!("{n} more with fewer refusals are not listed: narrow the view by service or upstream.")
        });
        let is_quiet = input.totals.attempts == 0 && model.pairs.is_empty();
        let elsewhere = input.elsewhere.clone().filter(|_| is_quiet);
        let is_unknown = is_quiet && elsewhere.is_none();
        let last_hour_href = input.last_event_at.filter(|_| is_unknown).map(|at| {
            let window = address::last_hour(at.plus(Millis(1)));
            let view = View { window, time: TimeBasis::Received, ..input.view.clone() };
            Address::new("/").view(&view).finish()
        });
        Self {
            shell: Shell::new("Overview", "overview")
                .with_twin(Address::new("/api/v1/overview").view(&input.view).finish()),
            chart: model.series.chart(input.view.window),
            ranges: ranges("/", &input.view, input.now),
            scope: scope_title(&input.view.scope),
            more,
            first_event: input
                .last_event_at
                .is_none()
                .then(|| super::send::first_event_command(origin, input.now)),
            elsewhere: elsewhere.map(|one| {
                let href = Address::new("/").view(&one.view).finish();
                (one, href)
            }),
            last_hour_href,
            model,
        }
    }

    /// Pages to look at: empty, quiet, usual, extreme and hostile.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        super::samples::overviews()
            .into_iter()
            .map(|(name, input)| (name, Self::new(&input, "http://127.0.0.1:4290")))
            .collect()
    }
}
