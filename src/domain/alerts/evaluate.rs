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
    let mut seen = Evaluator { thresholds, sums, readings: Some(Vec::new()) };
    let (met, value) = seen.judge(condition);
    Finding { met, value, readings: seen.readings.unwrap_or_default() }
}

/// As [`evaluate`], without the readings: for all pairs that nobody looks at.
pub fn is_met(condition: &Condition, thresholds: &Thresholds, sums: &impl Sums) -> Met {
    Evaluator { thresholds, sums, readings: None }.judge(condition).0
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
    /// Where somebody wants to read them.
    readings: Option<Vec<Reading>>,
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
                // Comparisons of another rule would only confuse beside those of this one.
                let readings = self.readings.take();
                let (met, _) = self.judge(condition);
                self.readings = readings;
                let met = match met {
                    Met::Yes => Met::No,
                    Met::No => Met::Yes,
                    Met::Unknown => Met::Unknown,
                };
                (met, None)
            }
            Condition::AtLeast { sum, span, least } => {
                let value = self.sums.sum(*sum, *span).map(|part| Ratio { part, whole: 1 });
                let limit = self.thresholds.get(*least);
                let holds =
                    |n: Ratio| times(n.part, Decimal::ONE) >= i128::from(limit.millionths());
                self.read(*span, value, holds, |_| {
                    (sum.as_str().to_owned(), format!(">= {}", least.shown(limit)))
                })
            }
            Condition::Above { parts, whole, span, limit } => {
                let part = parts.iter().map(|part| self.sums.sum(*part, *span)).sum();
                let value = self.ratio(part, *whole, *span);
                let scaled = limit.scaled(self.thresholds);
                let holds = |n: Ratio| times(n.part, Limit::UNIT) > times(n.whole, scaled);
                self.read(*span, value, holds, |thresholds| {
                    let names: Vec<_> = parts.iter().map(|part| part.as_str()).collect();
                    let what = format!("{} / {whole}", names.join(" + "));
                    (what, format!("> {}", limit.shown(thresholds)))
                })
            }
            Condition::Below { part, whole, span, limit } => {
                let value = self.ratio(self.sums.sum(*part, *span), *whole, *span);
                let scaled = limit.scaled(self.thresholds);
                let holds = |n: Ratio| times(n.part, Limit::UNIT) < times(n.whole, scaled);
                self.read(*span, value, holds, |thresholds| {
                    (format!("{part} / {whole}"), format!("< {}", limit.shown(thresholds)))
                })
            }
            Condition::Outgrown { span, base } => {
                let factor = self.thresholds.get(Threshold::GrowthFactor);
                let f = i128::from(factor.millionths());
                let holds = |now: Ratio, past: Ratio, expected| {
                    times(now.part, past.whole).saturating_mul(ONE)
                        > times(past.part, now.whole).saturating_mul(f)
                        && times(now.part, Decimal::ONE).saturating_mul(ONE)
                            > times(now.whole, expected).saturating_mul(f)
                };
                self.growth(*span, *base, holds, || format!("> {factor} *"))
            }
            Condition::Excess { span, base } => {
                let excess = self.thresholds.get(Threshold::GrowthExcess);
                let n = excess.millionths() / Decimal::ONE;
                let holds = |now: Ratio, past: Ratio, expected| {
                    let beyond = now.part.saturating_sub(n);
                    times(beyond, past.whole) >= times(past.part, now.whole)
                        && times(beyond, Decimal::ONE) >= times(now.whole, expected)
                };
                self.growth(*span, *base, holds, || format!(">= {excess} above"))
            }
        }
    }

    /// Compares retries per request of `span` with those of `base`, which are at least expected.
    fn growth(
        &mut self,
        span: Span,
        base: Span,
        holds: impl Fn(Ratio, Ratio, i64) -> bool,
        sign: impl FnOnce() -> String,
    ) -> (Met, Option<Ratio>) {
        let past = self.ratio(self.sums.sum(Measure::Retries, base), Measure::Requests, base);
        let now = self.ratio(self.sums.sum(Measure::Retries, span), Measure::Requests, span);
        let expected = self.thresholds.get(Threshold::GrowthExpected);
        let past_or_none = past.unwrap_or(Ratio { part: 0, whole: 0 });
        let now = past.and(now);
        // Without a request in the base there is no ratio to have outgrown.
        let holds =
            |now: Ratio| past_or_none.whole > 0 && holds(now, past_or_none, expected.millionths());
        self.read(span, now, holds, |_| {
            let limit = format!(
                "{} the larger of {} / {} ({} minutes that ended {} minutes ago) and {}",
                sign(),
                past_or_none.part,
                past_or_none.whole,
                base.minutes,
                base.lag,
                expected.percent()
            );
            ("retries / requests".to_owned(), limit)
        })
    }

    fn ratio(&self, part: Option<i64>, whole: Measure, span: Span) -> Option<Ratio> {
        Some(Ratio { part: part?, whole: self.sums.sum(whole, span)? })
    }

    /// Compares, and notes it with the texts for what was compared and with what.
    fn read(
        &mut self,
        span: Span,
        value: Option<Ratio>,
        holds: impl Fn(Ratio) -> bool,
        texts: impl FnOnce(&Thresholds) -> (String, String),
    ) -> (Met, Option<Ratio>) {
        let met = value.map_or(Met::Unknown, |value| Met::of(holds(value)));
        if let Some(readings) = &mut self.readings {
            let (what, limit) = texts(self.thresholds);
            let value = value.unwrap_or(Ratio { part: 0, whole: 0 });
            readings.push(Reading { what, minutes: span.minutes, value, limit, met });
        }
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
