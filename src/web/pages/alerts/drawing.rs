//! What a rule measures, around its alert: the value at each evaluation, made of the same sums per
//! minute, beside the threshold. Where a measure isn't among them, attempts stand in for it.

use super::model::measures;
use crate::domain::alerts::{
    Condition, Finding, Limit, Measure, Rule, Span, Thresholds, looked_at,
};
use crate::domain::stored::{Bucket, Counts, TimeBasis, View};
use crate::domain::time::{DAY_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::store::Alert;
use crate::web::pages::chart::{self, Chart, Size};
use crate::web::pages::model::{Series, Stamp};
use crate::web::pages::words;
use crate::web::{AppState, Failure};
use serde::Serialize;
use utoipa::ToSchema;

/// The longest stretch that is drawn, in milliseconds.
const LONGEST: i64 = 7 * DAY_MS;
/// Widths that a stretch of sums may have, in minutes.
const WIDTHS: [i64; 7] = [1, 2, 5, 10, 15, 30, 60];
/// The most values that are drawn.
const MAX_VALUES: i64 = 180;

/// A share that a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    parts: &'static [Measure],
    whole: Measure,
    span: Span,
    limit: Limit,
    /// Where it is part, as the reading's words have it, of one measure only.
    single: Option<Measure>,
}

impl Share {
    /// Every share that may give the rule's value.
    fn all(condition: &'static Condition) -> Vec<Self> {
        match condition {
            Condition::All(all) => all.first().map(Self::all).unwrap_or_default(),
            Condition::Any(any) => any.iter().flat_map(Self::all).collect(),
            Condition::Above { parts, whole, span, limit } => {
                vec![Self { parts, whole: *whole, span: *span, limit: *limit, single: None }]
            }
            Condition::Below { part, whole, span, limit } => vec![Self {
                parts: &[],
                whole: *whole,
                span: *span,
                limit: *limit,
                single: Some(*part),
            }],
            _ => Vec::new(),
        }
    }

    /// The one that gave the value of `finding`, else the first.
    fn of(rule: &'static Rule, finding: &Finding) -> Option<Self> {
        let all = Self::all(rule.condition()?);
        let gave = |share: &&Self| {
            finding.readings.iter().any(|one| {
                one.minutes == share.span.minutes
                    && one.what == share.what()
                    && Some(one.value) == finding.value
            })
        };
        all.iter().find(gave).or(all.first()).copied()
    }

    fn names(&self) -> Vec<&'static str> {
        self.parts.iter().chain(self.single.as_ref()).map(|part| part.as_str()).collect()
    }

    /// As its reading has it.
    fn what(&self) -> String {
        format!("{} / {}", self.names().join(" + "), self.whole)
    }

    /// Part and whole of some counts; `None` where one isn't among them.
    fn sums(&self, counts: &Counts) -> Option<(i64, i64)> {
        let parts = self.parts.iter().chain(self.single.as_ref()).map(|part| part.of(counts));
        Some((parts.sum::<Option<i64>>()?, self.whole.of(counts)?))
    }

    #[expect(clippy::cast_precision_loss, reason = "thresholds stay far below 2^53")]
    fn threshold(&self, thresholds: &Thresholds) -> f64 {
        let of = |threshold| thresholds.get(threshold).millionths() as f64 / 1e6;
        match self.limit {
            Limit::At(threshold) => of(threshold),
            Limit::Tenths(threshold, tenths) => of(threshold) * tenths as f64 / 10.0,
            Limit::Percent(percent) => percent as f64 / 100.0,
        }
    }
}

/// What was measured at one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Value {
    /// The evaluation.
    pub at: Stamp,
    /// The part, summed over the minutes before it.
    pub part: i64,
    /// The whole, likewise.
    pub whole: i64,
}

impl Value {
    /// The ratio, worded.
    pub fn text(&self, is_share: bool) -> String {
        match words::ratio(self.part, self.whole) {
            Some(ratio) if is_share => words::percent(ratio),
            Some(ratio) => words::factor(Some(ratio)),
            None => words::NO_DATA.to_owned(),
        }
    }
}

/// What is measured around an alert.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Measured {
    /// What is compared: `retries / requests`.
    pub what: String,
    /// Minutes before each evaluation that it is summed over.
    pub minutes: i64,
    /// What it is compared with now.
    pub threshold: f64,
    /// Whether it is a share, and not a factor.
    pub is_share: bool,
    /// Whether it is true below the threshold, and not above.
    pub is_below: bool,
    /// The values in order.
    pub values: Vec<Value>,
}

/// A drawing around an alert.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// Of what its rule measures.
    Measured(Measured, Window),
    /// Of the attempts, where that isn't among the sums.
    Attempts(Series, Window),
}

/// What is asked of the store for a drawing.
struct Plan {
    share: Option<Share>,
    view: View,
    /// In minutes.
    width: i64,
    /// Over how many minutes each value is summed.
    span: i64,
}

impl Plan {
    /// `None` where the alert stands for nothing.
    fn of(alert: &Alert) -> Option<Self> {
        let known = &alert.known;
        let rule = Rule::named(&known.rule)?;
        let window = looked_at(rule, &known.state, alert.evaluated_at)?;
        let from = window.from.max(window.to.plus(Millis(-LONGEST)));
        let length = window.to.since(from).0 / MINUTE_MS;
        // Of what isn't among the sums nothing is asked.
        let share =
            Share::of(rule, &alert.made).filter(|one| one.sums(&Counts::default()).is_some());
        let width = WIDTHS.into_iter().find(|width| length / width <= MAX_VALUES).unwrap_or(60);
        let span = share.map_or(width, |share| i64::from(share.span.minutes));
        let span = (span.max(width) + width - 1) / width * width;
        let start = from.floor_to(width * MINUTE_MS).plus(Millis(-span * MINUTE_MS));
        let to = window.to;
        let scope = known.subject.scope().unwrap_or_default();
        let view = View { scope, window: Window { from: start, to }, time: TimeBasis::Received };
        Some(Self { share, view, width, span })
    }

    /// What is drawn of the counts.
    fn draw(&self, buckets: &[Bucket], thresholds: &Thresholds) -> Drawing {
        let span_ms = self.span * MINUTE_MS;
        let window =
            Window { from: self.view.window.from.plus(Millis(span_ms)), ..self.view.window };
        let Some(share) = self.share else {
            let within: Vec<Bucket> =
                buckets.iter().filter(|one| window.contains(one.start)).copied().collect();
            return Drawing::Attempts(Series::of(window, self.width * MINUTE_MS, &within), window);
        };
        // Where the events of the window are no longer kept, sums are by the hour.
        let width = match buckets {
            [first, second, ..] => second.start.since(first.start).0,
            _ => self.width * MINUTE_MS,
        };
        let span_ms = (span_ms.max(width) + width - 1) / width * width;
        let values = buckets.iter().filter_map(|last| {
            let at = last.start.plus(Millis(width));
            if at < window.from || at > window.to {
                return None;
            }
            let first = at.plus(Millis(-span_ms));
            let within = buckets.iter().filter(|one| one.start >= first && one.start < at);
            let sums = within.filter_map(|one| share.sums(&one.counts));
            let (part, whole) = sums.fold((0, 0), |(p, w), (part, whole)| (p + part, w + whole));
            Some(Value { at: Stamp(at), part, whole })
        });
        Drawing::Measured(
            Measured {
                what: measures(&share.what()),
                minutes: span_ms / MINUTE_MS,
                threshold: share.threshold(thresholds),
                is_share: is_share(&share),
                is_below: share.single.is_some(),
                values: values.collect(),
            },
            window,
        )
    }
}

/// Whether a comparison is with a share, and not with a factor.
fn is_share(share: &Share) -> bool {
    use crate::domain::alerts::threshold::Kind;
    match share.limit {
        Limit::At(threshold) | Limit::Tenths(threshold, _) => threshold.kind() == Kind::Share,
        Limit::Percent(_) => true,
    }
}

/// Asks the store for what is drawn around an alert; `None` where it stands for nothing.
pub(super) async fn fetch(state: &AppState, alert: &Alert) -> Result<Option<Drawing>, Failure> {
    let Some(plan) = Plan::of(alert) else { return Ok(None) };
    let subject = &alert.known.subject;
    let thresholds = state.config.alerts.of(&subject.service, &subject.upstream);
    let buckets = state.store.buckets(&plan.view, plan.width * MINUTE_MS).await?;
    Ok(Some(plan.draw(&buckets, &thresholds)))
}

/// A drawing as a page shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The drawing.
    pub chart: Chart,
    /// The numbers behind it.
    pub drawing: Drawing,
    /// What it shows.
    pub title: String,
}

impl Drawn {
    /// Draws what was measured around alert `id` that fired and ended at these moments.
    pub fn new(
        id: i64,
        drawing: Drawing,
        fired: Option<UnixMillis>,
        ended: Option<UnixMillis>,
        size: Size,
    ) -> Self {
        let name = format!("alert-{id}");
        let (title, chart) = match &drawing {
            Drawing::Measured(measured, window) => {
                let title = format!(
                    "{}, each value over the {} before it",
                    measured.what,
                    words::length(Millis(measured.minutes * MINUTE_MS))
                );
                let points: Vec<(UnixMillis, Option<f64>)> = measured
                    .values
                    .iter()
                    .map(|value| (value.at.0, words::ratio(value.part, value.whole)))
                    .collect();
                let worded = |value: f64| {
                    if measured.is_share { words::percent(value) } else { format!("{value:.2}") }
                };
                let known = points.iter().filter_map(|(_, value)| *value);
                let highest = known.clone().fold(0.0_f64, f64::max);
                let last = known.clone().next_back();
                let description = format!(
                    "Highest {}, last {}; the threshold is {}.",
                    worded(highest),
                    last.map_or_else(|| words::NO_DATA.to_owned(), worded),
                    worded(measured.threshold),
                );
                let line = chart::Line {
                    window: *window,
                    points: &points,
                    threshold: measured.threshold,
                    is_share: measured.is_share,
                    firing: fired.map(|from| Window { from, to: ended.unwrap_or(window.to) }),
                };
                let chart = chart::line(&name, &title, &description, &line, size);
                (title, chart)
            }
            Drawing::Attempts(series, window) => {
                let title = "Attempts received; what this rule measures is kept for some hours only and not drawn";
                (title.to_owned(), series.chart_of(&name, title, *window, size))
            }
        };
        Self { chart, drawing, title }
    }

    /// What was measured, where it was.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.drawing {
            Drawing::Measured(measured, _) => Some(measured),
            Drawing::Attempts(..) => None,
        }
    }

    /// The attempts, where they stand in.
    pub fn attempts(&self) -> Option<&Series> {
        match &self.drawing {
            Drawing::Attempts(series, _) => Some(series),
            Drawing::Measured(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::alerts::Met::{No, Yes};
    use crate::domain::alerts::{RULES, Ratio, Watch};

    #[test]
    fn every_rule_of_pairs_is_drawn_by_its_first_comparison_or_by_attempts() {
        let nothing =
            Finding { met: crate::domain::alerts::Met::No, value: None, readings: Vec::new() };
        let mut drawn = 0;
        for rule in RULES.iter().filter(|rule| matches!(rule.watch, Watch::Pair(_))) {
            let share = Share::of(rule, &nothing);
            let is_kept = share.is_some_and(|one| one.sums(&Counts::default()).is_some());
            let without = [
                "RetrylensRetryAfterIgnored",
                "RetrylensDuplicateWrites",
                "RetrylensWaitAccumulates",
            ];
            assert_eq!(is_kept, !without.contains(&rule.name), "{}", rule.name);
            drawn += usize::from(is_kept);
        }
        assert!(drawn >= 10, "{drawn}");
    }

    #[test]
    fn of_two_windows_the_one_that_fired_is_drawn() {
        let rule = Rule::named("Retrylens429BudgetBurn").unwrap();
        let value = Ratio { part: 7, whole: 100 };
        let reading = |minutes, value, met| crate::domain::alerts::Reading {
            what: "status-429 / attempts".to_owned(),
            minutes,
            value,
            limit: String::new(),
            met,
        };
        let finding = Finding {
            met: Yes,
            value: Some(value),
            readings: vec![reading(60, Ratio { part: 1, whole: 9 }, No), reading(360, value, Yes)],
        };
        let share = Share::of(rule, &finding).unwrap();
        assert_eq!(share.span.minutes, 360);
        let thresholds = crate::config::Config::load(&crate::config::Sources::default())
            .unwrap()
            .alerts
            .of("a", "b");
        assert!((share.threshold(&thresholds) - 0.06).abs() < 1e-9);
        let first = Share::of(rule, &Finding { value: None, ..finding }).unwrap();
        assert_eq!(first.span.minutes, 60);
        assert!((first.threshold(&thresholds) - 0.144).abs() < 1e-9);
    }
}
