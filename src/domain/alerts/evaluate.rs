//! A rule over the sums of one pair. Ratios are cross-multiplied, so nothing divides by zero,
//! nothing is rounded, and every database gives the same answer.

use super::rule::{Condition, Limit, Measure, Span};
use super::threshold::{Decimal, Threshold, Thresholds};
use crate::domain::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// Sums of one pair of service and upstream in one environment, by time of receipt.
pub trait Sums {
    /// The sum of `measure` over `span`; missing minutes count as zero. `None` where it is not
    /// counted at all, which makes what depends on it [`Met::Unknown`].
    fn sum(&self, measure: Measure, span: Span) -> Option<i64>;
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Met {
    /// It holds.
    Yes,
    /// It does not.
    No,
    /// A measure that decides it is not counted.
    Unknown,
}

impl Met {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// A part of a whole, or a plain number where `whole` is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// The part.
    pub part: i64,
    /// The whole.
    pub whole: i64,
}

/// One comparison of a rule, with its numbers: what a page shows beside the threshold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What was compared, in words: `retries / requests`.
    pub what: String,
    /// Minutes it was summed over.
    pub minutes: u32,
    /// The numbers.
    pub value: Ratio,
    /// What it was compared with, with the sign: `> 20%`.
    pub limit: String,
    /// Whether it holds.
    pub met: Met,
}

/// What evaluating a rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether the rule is true of the pair.
    pub met: Met,
    /// The value shown with an alert; `None` while nothing is known or nothing was counted.
    pub value: Option<Ratio>,
    /// Every comparison, in the order of the rule.
    pub readings: Vec<Reading>,
}

/// Evaluates `condition` over the sums of a pair, with the thresholds of that pair.
pub fn evaluate(condition: &Condition, thresholds: &Thresholds, sums: &impl Sums) -> Finding {
    let mut seen = Evaluator { thresholds, sums, readings: Vec::new() };
    let (met, value) = seen.judge(condition);
    Finding { met, value, readings: seen.readings }
}

/// Whether no event came for longer than [`Threshold::StalledSeconds`]. A service that never got
/// one is not yet connected rather than stalled.
pub fn is_silent(thresholds: &Thresholds, last: Option<UnixMillis>, now: UnixMillis) -> bool {
    let limit = thresholds.get(Threshold::StalledSeconds).millionths() / (Decimal::ONE / 1000);
    last.is_some_and(|last| now.since(last).0 > limit)
}

struct Evaluator<'a, S> {
    thresholds: &'a Thresholds,
    sums: &'a S,
    readings: Vec<Reading>,
}

impl<S: Sums> Evaluator<'_, S> {
    fn judge(&mut self, condition: &Condition) -> (Met, Option<Ratio>) {
        match condition {
            Condition::All(all) => {
                // All are judged, so that all readings are there.
                let judged: Vec<_> = all.iter().map(|one| self.judge(one)).collect();
                let value = judged.first().and_then(|(_, value)| *value);
                (worst(&judged, Met::No, Met::Yes), value)
            }
            Condition::Any(any) => {
                let judged: Vec<_> = any.iter().map(|one| self.judge(one)).collect();
                let met = judged.iter().find(|(met, _)| *met == Met::Yes).or(judged.first());
                (worst(&judged, Met::Yes, Met::No), met.and_then(|(_, value)| *value))
            }
            Condition::Not(condition) => {
                let from = self.readings.len();
                let (met, _) = self.judge(condition);
                // Comparisons of another rule would only confuse beside those of this one.
                self.readings.truncate(from);
                let met = match met {
                    Met::Yes => Met::No,
                    Met::No => Met::Yes,
                    Met::Unknown => Met::Unknown,
                };
                (met, None)
            }
            Condition::AtLeast { sum, span, least } => {
                let value = self.sums.sum(*sum, *span).map(|part| Ratio { part, whole: 1 });
                let least_of = self.thresholds.get(*least);
                let holds =
                    |n: Ratio| times(n.part, Decimal::ONE) >= i128::from(least_of.millionths());
                let limit = format!(">= {}", least.shown(least_of));
                self.read(sum.as_str().to_owned(), *span, value, limit, holds)
            }
            Condition::Above { parts, whole, span, limit } => {
                let part = parts.iter().map(|part| self.sums.sum(*part, *span)).sum();
                let names: Vec<_> = parts.iter().map(|part| part.as_str()).collect();
                let value = self.ratio(part, *whole, *span);
                let scaled = limit.scaled(self.thresholds);
                let holds = |n: Ratio| times(n.part, Limit::UNIT) > times(n.whole, scaled);
                let shown = format!("> {}", self.shown(*limit));
                self.read(format!("{} / {whole}", names.join(" + ")), *span, value, shown, holds)
            }
            Condition::Below { part, whole, span, limit } => {
                let value = self.ratio(self.sums.sum(*part, *span), *whole, *span);
                let scaled = limit.scaled(self.thresholds);
                let holds = |n: Ratio| times(n.part, Limit::UNIT) < times(n.whole, scaled);
                let shown = format!("< {}", self.shown(*limit));
                self.read(format!("{part} / {whole}"), *span, value, shown, holds)
            }
            Condition::Outgrown { span, base } => {
                let factor = self.thresholds.get(Threshold::GrowthFactor);
                let f = factor.millionths();
                self.growth(*span, *base, &format!("> {factor} *"), |now, past, expected| {
                    times(now.part, past.whole).saturating_mul(ONE)
                        > times(past.part, now.whole).saturating_mul(i128::from(f))
                        && times(now.part, Decimal::ONE).saturating_mul(ONE)
                            > times(now.whole, expected).saturating_mul(i128::from(f))
                })
            }
            Condition::Excess { span, base } => {
                let excess = self.thresholds.get(Threshold::GrowthExcess);
                let n = excess.millionths() / Decimal::ONE;
                self.growth(*span, *base, &format!(">= {excess} above"), |now, past, expected| {
                    let beyond = now.part.saturating_sub(n);
                    times(beyond, past.whole) >= times(past.part, now.whole)
                        && times(beyond, Decimal::ONE) >= times(now.whole, expected)
                })
            }
        }
    }

    /// Compares retries per request of `span` with those of `base`, which are at least expected.
    fn growth(
        &mut self,
        span: Span,
        base: Span,
        sign: &str,
        holds: impl Fn(Ratio, Ratio, i64) -> bool,
    ) -> (Met, Option<Ratio>) {
        let past = self.ratio(self.sums.sum(Measure::Retries, base), Measure::Requests, base);
        let now = self.ratio(self.sums.sum(Measure::Retries, span), Measure::Requests, span);
        let expected = self.thresholds.get(Threshold::GrowthExpected);
        let (Some(now), Some(past)) = (now, past) else {
            return self
                .read("retries / requests".to_owned(), span, None, String::new(), |_| false);
        };
        let limit = format!(
            "{sign} the larger of {} / {} ({} minutes that ended {} minutes ago) and {}",
            past.part,
            past.whole,
            base.minutes,
            base.lag,
            expected.percent()
        );
        // Without a request in the base there is no ratio to have outgrown.
        let holds = |now: Ratio| past.whole > 0 && holds(now, past, expected.millionths());
        self.read("retries / requests".to_owned(), span, Some(now), limit, holds)
    }

    fn ratio(&self, part: Option<i64>, whole: Measure, span: Span) -> Option<Ratio> {
        Some(Ratio { part: part?, whole: self.sums.sum(whole, span)? })
    }

    /// A limit as people read it; all limits of a share but attempts per request are percentages.
    fn shown(&self, limit: Limit) -> String {
        match limit {
            Limit::At(threshold) => threshold.shown(self.thresholds.get(threshold)),
            Limit::Tenths(..) | Limit::Percent(_) => {
                let millionths = limit.scaled(self.thresholds) / 10;
                Decimal::from_millionths(millionths).percent()
            }
        }
    }

    fn read(
        &mut self,
        what: String,
        span: Span,
        value: Option<Ratio>,
        limit: String,
        holds: impl Fn(Ratio) -> bool,
    ) -> (Met, Option<Ratio>) {
        let met = value.map_or(Met::Unknown, |value| Met::of(holds(value)));
        let seen = value.unwrap_or(Ratio { part: 0, whole: 0 });
        self.readings.push(Reading { what, minutes: span.minutes, value: seen, limit, met });
        (met, value)
    }
}

/// [`Decimal::ONE`], wide.
const ONE: i128 = Decimal::ONE as i128;

/// A product of two numbers of 64 bits, which 128 bits hold.
fn times(a: i64, b: i64) -> i128 {
    i128::from(a).saturating_mul(i128::from(b))
}

/// [`Met::No`] or [`Met::Yes`] where `decides` is among them, else unknown where anything is.
fn worst(judged: &[(Met, Option<Ratio>)], decides: Met, otherwise: Met) -> Met {
    let has = |wanted: Met| judged.iter().any(|(met, _)| *met == wanted);
    if has(decides) {
        decides
    } else if has(Met::Unknown) {
        Met::Unknown
    } else {
        otherwise
    }
}
