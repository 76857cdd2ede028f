//! What several pages are made of: moments, numbers with the rows behind them, long values, and
//! the frame around every page.

use super::words;
use crate::domain::checklist::source_phrase;
use crate::domain::event::Vantage;
use crate::domain::stored::{Bucket, Counts, Dimension, Scope, TimeBasis, View};
use crate::domain::time::{Millis, UnixMillis, Window};
use crate::domain::volumes::{self, Volume};
use crate::export::text;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

/// A moment as pages and the API write it: RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub UnixMillis);

impl Stamp {
    /// `2026-11-11 07:29:00`, for people.
    pub fn short(&self) -> String {
        words::day_and_time(self.0)
    }

    /// `2026-11-11T07:29:00Z`, for a form; milliseconds only where there are any.
    pub fn input(&self) -> String {
        self.0.to_rfc3339().replace(".000Z", "Z")
    }

    /// `07:29:00.120`, for people who look at one operation.
    pub fn clock(&self) -> String {
        words::time_of_day(self.0)
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.to_rfc3339())
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl utoipa::PartialSchema for Stamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A moment in UTC, RFC 3339 with milliseconds."))
            .examples(["2026-11-11T07:29:00.120Z"])
            .into()
    }
}

impl ToSchema for Stamp {
    fn name() -> std::borrow::Cow<'static, str> {
        "Moment".into()
    }
}

/// How many characters of a value are shown before the rest goes behind a click.
pub const SHOWN_CHARS: usize = 160;

/// A value cut for showing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its beginning.
    pub start: String,
    /// Whether there is more.
    pub is_cut: bool,
    /// Its whole length in characters, grouped by thousands.
    pub length: String,
}

impl Piece {
    /// Cuts `value` to [`SHOWN_CHARS`].
    pub fn of(value: &(impl AsRef<str> + ?Sized)) -> Self {
        let value = value.as_ref();
        let (start, is_cut) = text::cut(value, SHOWN_CHARS);
        let length = i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
        Self { start: start.to_owned(), is_cut, length: words::count(length) }
    }
}

/// How many characters of a sentence are shown before the rest goes behind a click.
pub const SENTENCE_CHARS: usize = 700;

/// A sentence with its parts in backticks as code. Sent text may hold backticks, too: then some of
/// it is shown as code, and nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Its parts in order; `true` for code.
    pub parts: Vec<(bool, String)>,
    /// Whether there is more.
    pub is_cut: bool,
    /// Its whole length in characters, grouped by thousands.
    pub length: String,
}

impl Sentence {
    /// Cuts `text` to [`SENTENCE_CHARS`] and takes it apart.
    pub fn of(text: &(impl AsRef<str> + ?Sized)) -> Self {
        let text = text.as_ref();
        let (start, is_cut) = text::cut(text, SENTENCE_CHARS);
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        Self { parts: text::code_parts(start), is_cut, length: words::count(length) }
    }
}

/// One number of a page: its exact value, its wording, and the address of the rows behind it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Figure {
    /// Stable name in kebab-case.
    #[schema(example = "limited-ratio")]
    pub name: &'static str,
    /// What it is called on the page.
    pub label: &'static str,
    /// The number; ratios from 0 to 1; null without data.
    pub value: Option<f64>,
    /// The number as worded on the page.
    pub text: String,
    /// What it rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Address of the rows behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
}

/// A view as the API writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ViewOut {
    /// The calling service; null for all.
    pub service: Option<String>,
    /// The upstream host; null for all.
    pub upstream: Option<String>,
    /// Deployment environment; null for all.
    pub environment: Option<String>,
    /// Route template; null for all.
    pub route: Option<String>,
    /// First moment of the window.
    pub from: Stamp,
    /// First moment after it.
    pub to: Stamp,
    /// Whether the window goes by `event` time or by time of receipt (`received`).
    pub time: TimeBasis,
    /// Where the window begins before the events that are kept, or a disk budget is used up: since
    /// when events are kept, and how what is older was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_note: Option<String>,
}

impl From<&View> for ViewOut {
    fn from(view: &View) -> Self {
        Self {
            service: view.scope.service.clone(),
            upstream: view.scope.upstream.clone(),
            environment: view.scope.environment.clone(),
            route: view.scope.route.clone(),
            from: Stamp(view.window.from),
            to: Stamp(view.window.to),
            time: view.time,
            kept_note: None,
        }
    }
}

impl ViewOut {
    /// The length of the window, worded.
    pub fn length(&self) -> String {
        words::length(self.to.0.since(self.from.0))
    }
}

/// What is to know about where counts come from: whose they are, where no client reported, and how
/// many pairs are left out of them, as sources are never added up.
pub fn source_note(source: Vantage, uncounted_pairs: usize) -> Option<String> {
    let mut sentences = Vec::new();
    if let Some(phrase) = source_phrase(source) {
        let mut rest = phrase.chars();
        let first = rest.next().map(|c| c.to_ascii_uppercase());
        sentences.push(format!("{}{}.", first.unwrap_or_default(), rest.as_str()));
    }
    if uncounted_pairs > 0 {
        let n = i64::try_from(uncounted_pairs).unwrap_or(i64::MAX);
        let whom = match source {
            Vantage::Client => "gateways or origins alone reported on",
            Vantage::Gateway | Vantage::Origin => "an origin alone reported on",
        };
        sentences.push(format!(
            "Not in these counts: {} that {whom}; each has a triage of its own.",
            words::counted(n, "service and upstream", "pairs of service and upstream"),
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// What clients' own metric `http.client.request.duration` counted, beside our counts and never
/// added to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ClientMetric {
    /// Requests.
    pub requests: i64,
    /// How many of them were answered 429.
    pub status_429: i64,
    /// How many got no answer.
    pub unanswered: i64,
    /// Minutes of the window that the metric covers.
    pub minutes: i64,
    /// Minutes of the window.
    pub minutes_in_window: i64,
    /// The same in words.
    pub text: String,
}

impl ClientMetric {
    /// What was counted in `window`, where `attempts` were counted here.
    pub fn of(volume: &Volume, window: Window, attempts: i64) -> Self {
        Self {
            requests: volume.requests,
            status_429: volume.status_429,
            unanswered: volume.unanswered,
            minutes: volume.minutes,
            minutes_in_window: volumes::minutes_of(window),
            text: volume.sentence(window, attempts),
        }
    }

    /// `own metric 1,204`.
    pub fn short(&self) -> String {
        format!("own metric {}", words::count(self.requests))
    }
}

/// Who calls whom, in a few words: `checkout to api.example.com`.
pub fn scope_title(scope: &Scope) -> String {
    let mut title = match (&scope.service, &scope.upstream) {
        (Some(service), Some(upstream)) => format!("{service} to {upstream}"),
        (Some(service), None) => format!("{service} to everything"),
        (None, Some(upstream)) => format!("everything to {upstream}"),
        (None, None) => "all traffic".to_owned(),
    };
    if let Some(route) = &scope.route {
        title.push(' ');
        title.push_str(route);
    }
    if let Some(environment) = &scope.environment {
        title.push_str(" in ");
        title.push_str(environment);
    }
    title
}

/// Counts of one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PointOut {
    /// Its first moment.
    pub start: Stamp,
    /// First attempts: operations started.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
    /// Attempts that a limit refused.
    pub limited: i64,
    /// Attempts answered 429.
    pub status_429: i64,
}

/// Counts over time, in stretches of one width.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Series {
    /// Width of a stretch in milliseconds.
    pub width_ms: i64,
    /// Width of a stretch, worded.
    #[serde(skip)]
    pub width: String,
    /// The stretches in order.
    pub points: Vec<PointOut>,
}

/// Widths that a time line may have, in milliseconds: minutes to days.
const WIDTHS: [i64; 10] = [
    60_000,
    2 * 60_000,
    5 * 60_000,
    10 * 60_000,
    15 * 60_000,
    30 * 60_000,
    3_600_000,
    3 * 3_600_000,
    6 * 3_600_000,
    12 * 3_600_000,
];

/// The width that splits `window` into at most 120 stretches.
pub fn bucket_width(window: Window) -> i64 {
    let length = window.length().0;
    WIDTHS.into_iter().find(|width| length / width <= 120).unwrap_or(24 * 3_600_000)
}

/// The width of a time line over `window` that sums whole `buckets`.
pub fn series_width(window: Window, buckets: &[Bucket]) -> i64 {
    let wanted = bucket_width(window);
    let given = match buckets {
        [first, second, ..] => second.start.since(first.start).0,
        _ => wanted,
    };
    if given > 0 && wanted % given == 0 { wanted } else { given.max(60_000) }
}

impl Series {
    /// Sums `buckets` (of any finer width that divides `width_ms`) into stretches of `width_ms`,
    /// empty ones included, from the window's first to its last.
    pub fn of(window: Window, width_ms: i64, buckets: &[Bucket]) -> Self {
        let mut points: Vec<PointOut> = Vec::new();
        let mut start = window.from.floor_to(width_ms);
        while start < window.to && points.len() < 4_000 {
            points.push(PointOut {
                start: Stamp(start),
                requests: 0,
                retries: 0,
                limited: 0,
                status_429: 0,
            });
            start = start.plus(Millis(width_ms));
        }
        for bucket in buckets {
            let at = Stamp(bucket.start.floor_to(width_ms));
            if let Ok(index) = points.binary_search_by(|p| p.start.cmp(&at))
                && let Some(point) = points.get_mut(index)
            {
                point.requests += bucket.counts.requests;
                point.retries += bucket.counts.retries;
                point.limited += bucket.counts.limited;
                point.status_429 += bucket.counts.status_429;
            }
        }
        Self { width_ms, width: words::length(Millis(width_ms)), points }
    }

    /// The drawing of this series.
    pub fn chart(&self, window: Window) -> super::chart::Chart {
        self.chart_of(
            "timeline",
            "Requests and retries over time",
            window,
            super::chart::Size::Full,
        )
    }

    /// The drawing of this series with an id, a title and a size of its own.
    pub fn chart_of(
        &self,
        id: &str,
        title: &str,
        window: Window,
        size: super::chart::Size,
    ) -> super::chart::Chart {
        let points: Vec<super::chart::Point> = self
            .points
            .iter()
            .map(|p| super::chart::Point {
                start: p.start.0,
                requests: p.requests,
                retries: p.retries,
                limited: p.limited,
            })
            .collect();
        let sum = |part: fn(&PointOut) -> i64| self.points.iter().map(part).sum::<i64>();
        let description = format!(
            "{} and {}, of which {} refused by a limit, in stretches of {}.",
            words::counted(sum(|p| p.requests), "request", "requests"),
            words::counted(sum(|p| p.retries), "retry", "retries"),
            words::counted(sum(|p| p.limited), "attempt was", "attempts were"),
            self.width,
        );
        super::chart::timeline(
            id,
            title,
            &description,
            window,
            Millis(self.width_ms),
            &points,
            size,
        )
    }
}

/// The numbers of DESIGN 6 for a view, each with the rows behind it.
pub fn figures(view: &View, counts: &Counts) -> Vec<Figure> {
    use super::address::{rows_of, successes_of};
    let c = counts;
    let all = || Some(rows_of(view, None, None, None));
    let limited = words::ratio(c.limited, c.attempts);
    let r429 = words::ratio(c.status_429, c.attempts);
    let actual = words::ratio(c.succeeded, c.attempts);
    let effective = words::ratio(c.succeeded.min(c.requests), c.requests);
    let per_operation = words::ratio(c.attempts, c.requests);
    let saved = words::ratio(c.retry_successes, c.retried_operations);
    let share = words::ratio(c.retries, c.requests);
    vec![
        Figure {
            name: "volume",
            label: "Requests (+ retries)",
            value: words::ratio(c.requests, 1),
            text: format!("{} (+{} retries)", words::count(c.requests), words::count(c.retries)),
            note: Some(words::counted(c.attempts, "attempt", "attempts")),
            rows: all(),
        },
        Figure {
            name: "limited-ratio",
            label: "Limited ratio",
            value: limited,
            text: words::percent_or_none(limited),
            note: Some(format!("{} limited, any status", words::count(c.limited))),
            rows: Some(rows_of(view, Some(true), None, None)),
        },
        Figure {
            name: "ratio-429",
            label: "429 ratio",
            value: r429,
            text: words::percent_or_none(r429),
            note: Some(format!(
                "{} of {} answered: {}",
                words::count(c.status_429),
                words::count(c.answered),
                words::percent_or_none(words::ratio(c.status_429, c.answered)),
            )),
            rows: Some(rows_of(view, None, None, Some((Dimension::Status, "429")))),
        },
        Figure {
            name: "attempts-per-operation",
            label: "Attempts per operation",
            value: per_operation,
            text: words::factor(per_operation),
            note: Some(share.map_or_else(
                || "no first attempt to set retries against".to_owned(),
                |share| format!("retries are {} of requests", words::percent_or_none(Some(share))),
            )),
            rows: Some(rows_of(view, None, Some(true), None)),
        },
        Figure {
            name: "success-after-retry",
            label: "Success after retry",
            value: saved,
            text: words::percent_or_none(saved),
            note: Some(format!(
                "{} of {} retried operations",
                words::count(c.retry_successes),
                words::count(c.retried_operations)
            )),
            rows: Some(successes_of(view, Some(true))),
        },
        Figure {
            name: "success",
            label: "Effective (actual) success",
            value: effective,
            text: match (effective, actual) {
                (Some(e), Some(a)) => format!("{} ({})", words::percent(e), words::percent(a)),
                (None, Some(a)) => format!("{} ({})", words::NO_DATA, words::percent(a)),
                _ => words::NO_DATA.to_owned(),
            },
            note: Some("by operation (by attempt)".to_owned()),
            rows: Some(successes_of(view, None)),
        },
    ]
}

/// The frame around every page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// The page's title.
    pub title: String,
    /// Which entry of the navigation this page belongs to.
    pub current: &'static str,
    /// Address of the style sheet, with its version.
    pub style: &'static str,
    /// Address of the JSON twin.
    pub twin: Option<String>,
    /// Address of the Markdown twin.
    pub markdown: Option<String>,
    /// What is to be said of the address before anything else.
    pub hint: Option<String>,
}

impl Shell {
    /// A frame without twins.
    pub fn new(title: impl Into<String>, current: &'static str) -> Self {
        Self {
            title: title.into(),
            current,
            style: crate::web::assets::style_address(),
            twin: None,
            markdown: None,
            hint: None,
        }
    }

    /// Adds the address of the JSON twin.
    #[must_use]
    pub fn with_twin(mut self, address: String) -> Self {
        self.twin = Some(address);
        self
    }

    /// Adds the address of the Markdown twin.
    #[must_use]
    pub fn with_markdown(mut self, address: String) -> Self {
        self.markdown = Some(address);
        self
    }

    /// The entries of the navigation: name, address, word.
    pub fn nav(&self) -> [(&'static str, &'static str, &'static str); 8] {
        [
            ("overview", "/", "Overview"),
            ("triage", "/triage", "Triage"),
            ("alerts", "/alerts", "Alerts"),
            ("events", "/events", "Attempts"),
            ("services", "/services", "Services"),
            ("classify", "/classify", "Classify"),
            ("sources", "/sources", "Sources"),
            ("send", "/send", "Send data"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::HOUR_MS;

    #[test]
    fn a_series_keeps_the_sum_and_shows_empty_stretches() {
        let window = Window { from: UnixMillis(0), to: UnixMillis(HOUR_MS) };
        let one = Counts { attempts: 3, requests: 2, retries: 1, ..Counts::default() };
        let buckets: Vec<Bucket> = (0..60)
            .step_by(7)
            .map(|m| Bucket { start: UnixMillis(m * 60_000), counts: one })
            .collect();
        let series = Series::of(window, 5 * 60_000, &buckets);
        assert_eq!(series.points.len(), 12);
        assert_eq!(series.points.iter().map(|p| p.requests).sum::<i64>(), 18);
        assert_eq!(series.points.iter().map(|p| p.retries).sum::<i64>(), 9);
    }

    #[test]
    fn widths_keep_a_time_line_readable() {
        let of = |ms| bucket_width(Window { from: UnixMillis(0), to: UnixMillis(ms) });
        assert_eq!(of(HOUR_MS), 60_000);
        assert_eq!(of(24 * HOUR_MS), 15 * 60_000);
        assert_eq!(of(31 * 24 * HOUR_MS), 12 * HOUR_MS);
    }

    #[test]
    fn long_values_are_cut_by_characters() {
        let piece = Piece::of(&"é".repeat(64 * 1024));
        assert!(piece.is_cut);
        assert_eq!(piece.start.chars().count(), SHOWN_CHARS);
        assert_eq!(piece.length, "65,536");
    }
}
