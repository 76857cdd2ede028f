//! Rules as PromQL: the same conditions as `domain::alerts` evaluates, over counters.
//!
//! An expression reads its sums in one of two ways: from recorded series, which a Prometheus rule
//! file brings along ([`Source::Recorded`]), or straight from the counters ([`Source::Inline`]),
//! where there is nothing to record with.

use crate::domain::alerts::threshold::Threshold;
use crate::domain::alerts::{
    AlertSettings, Condition, Limit, Measure, Override, Rule, Span, Thresholds, Watch,
};

/// Labels of a pair. `environment` is there where it is set; where it isn't, it vanishes.
pub const PAIR: &str = "service, upstream, environment";

/// Where an expression takes its sums from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Series recorded by the rules of [`recordings`].
    Recorded,
    /// The counters themselves.
    Inline,
}

/// One recorded series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// What is recorded.
    pub expr: String,
}

/// The counter, its labels to match, and what it is called when recorded. Words are matched with
/// either joint, so that an underscore, as others spell them, is understood too.
fn family(measure: Measure, thresholds: &Thresholds) -> (&'static str, String, &'static str) {
    let plain = String::new;
    match measure {
        Measure::Requests => ("retrylens_requests_total", plain(), "retrylens_requests"),
        Measure::Retries => ("retrylens_retries_total", plain(), "retrylens_retries"),
        Measure::Attempts => ("retrylens_attempts_total", plain(), "retrylens_attempts"),
        Measure::Status429 => ("retrylens_rate_limited_total", plain(), "retrylens_rate_limited"),
        Measure::Limited => ("retrylens_limited_total", plain(), "retrylens_limited"),
        Measure::Succeeded => (
            "retrylens_requests_finished_total",
            r#"result=~"first[-_]try|after[-_]retry""#.to_owned(),
            "retrylens_requests_succeeded",
        ),
        Measure::SavedByRetry => (
            "retrylens_requests_finished_total",
            r#"result=~"after[-_]retry""#.to_owned(),
            "retrylens_requests_saved",
        ),
        Measure::EndedAfterRetries => (
            "retrylens_requests_finished_total",
            r#"result=~"after[-_]retry|exhausted|gave[-_]up""#.to_owned(),
            "retrylens_requests_ended_after_retries",
        ),
        Measure::EarlyRetries => {
            ("retrylens_early_retries_total", plain(), "retrylens_early_retries")
        }
        Measure::DuplicateWrites => {
            ("retrylens_duplicate_writes_total", plain(), "retrylens_duplicate_writes")
        }
        Measure::Ended => {
            ("retrylens_request_duration_seconds_count", plain(), "retrylens_requests_timed")
        }
        Measure::EndedInTime => (
            "retrylens_request_duration_seconds_bucket",
            // OpenMetrics writes the bound with a decimal, the older format without.
            format!(r#"le=~"{}([.]0)?""#, thresholds.get(Threshold::WaitSeconds)),
            "retrylens_requests_in_time",
        ),
    }
}

/// A span as PromQL writes it: `5m`, `6h`, `3d`.
fn range(minutes: u32) -> String {
    match minutes {
        m if m % 1440 == 0 => format!("{}d", m / 1440),
        m if m % 60 == 0 => format!("{}h", m / 60),
        m => format!("{m}m"),
    }
}

fn offset(span: Span) -> String {
    if span.lag == 0 { String::new() } else { format!(" offset {}", range(span.lag)) }
}

fn recorded_name(measure: Measure, span: Span, thresholds: &Thresholds) -> String {
    let (_, _, base) = family(measure, thresholds);
    let lag = if span.lag == 0 { String::new() } else { format!("_lag{}", range(span.lag)) };
    // Seconds other than those of most have series of their own.
    let own = match measure {
        Measure::EndedInTime => format!("_{}s", thresholds.get(Threshold::WaitSeconds)),
        _ => String::new(),
    };
    format!("service_upstream:{base}{own}:increase{}{lag}", range(span.minutes))
}

fn counted(measure: Measure, span: Span, thresholds: &Thresholds, pair: &str) -> String {
    let (counter, labels, _) = family(measure, thresholds);
    let matchers: Vec<&str> =
        [labels.as_str(), pair].into_iter().filter(|part| !part.is_empty()).collect();
    let matchers =
        if matchers.is_empty() { String::new() } else { format!("{{{}}}", matchers.join(",")) };
    let (range, offset) = (range(span.minutes), offset(span));
    format!("sum by ({PAIR}) (increase({counter}{matchers}[{range}]{offset}))")
}

/// Every series that `rules` read, each after those it is made of. A series stands in the first
/// list in which it is needed: groups have no order among themselves.
pub fn recordings(
    rules: &[&Rule],
    settings: &AlertSettings,
    done: &mut Vec<String>,
) -> Vec<Recording> {
    let mut made = Vec::new();
    let mut add = |name: String, expr: String| {
        if !done.contains(&name) {
            done.push(name.clone());
            made.push(Recording { name, expr });
        }
    };
    let mut wanted: Vec<(Span, Measure, Thresholds)> = Vec::new();
    let mut has_baseline = Vec::new();
    for rule in rules {
        let Some(condition) = rule.condition() else { continue };
        for scope in scopes(rule, settings) {
            condition.each_sum(&mut |measure, span| {
                wanted.push((span, measure, scope.thresholds.clone()));
                if span.lag > 0 && !has_baseline.contains(&span) {
                    has_baseline.push(span);
                }
            });
        }
    }
    // By span, so that short ones are there when longer ones are made of them.
    wanted.sort_by_key(|(span, measure, _)| (*span, *measure));
    for (span, measure, thresholds) in wanted {
        let name = recorded_name(measure, span, &thresholds);
        // Of one day and of three too: sums of recorded five-minute sums would cost less, but count the
        // minutes at their ends in part, and five minutes of a counter that was at zero by too little.
        let sum = counted(measure, span, &thresholds, "");
        let expr = match (measure, span.lag) {
            // Where nothing was retried yet there is no series of retries, which means 0.
            (Measure::Retries, 1..) => {
                let none = recorded_name(Measure::Requests, span, &thresholds);
                format!("  {sum}\nor\n  {none} * 0\n")
            }
            _ => sum,
        };
        add(name, expr);
    }
    for span in has_baseline {
        let of = |measure| recorded_name(measure, span, settings.base());
        let [retries, requests] = [Measure::Retries, Measure::Requests].map(of);
        let [expected, least] = BASELINE_LIMITS.map(|limit| settings.base().get(limit));
        let expr = format!(
            "  clamp_min(\n    {retries}\n      /\n    {requests},\n    {expected}\n  )\n\
             and\n  {requests} >= {least}\n"
        );
        add(BASELINE_RATIO.to_owned(), expr);
    }
    made
}

/// Retries per request that are expected by the baseline; absent where there is none.
const BASELINE_RATIO: &str = "service_upstream:retrylens_retries_per_requests:ratio_baseline";
/// The thresholds in it: what is expected at least, and the requests that make a baseline.
const BASELINE_LIMITS: [Threshold; 2] = [Threshold::GrowthExpected, Threshold::GrowthBaseline];

/// The pairs that share thresholds, as far as one rule depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The pairs; all of them where `None`.
    pub of: Option<Override>,
    /// Those that more specific overrides cover.
    pub but: Vec<Override>,
    /// Their thresholds.
    pub thresholds: Thresholds,
}

/// Cuts all pairs into scopes that share no pair, the most specific first, all others last.
pub fn scopes(rule: &Rule, settings: &AlertSettings) -> Vec<Scope> {
    let mut read = Vec::new();
    if let Some(condition) = rule.condition() {
        condition.each_threshold(&mut |threshold| read.push(threshold));
    }
    // An override that changes nothing here still keeps less specific ones away from its pairs.
    let concerns = |own: &Override| own.changes.keys().any(|changed| read.contains(changed));
    let is_any = settings.overrides().iter().any(concerns);
    let overrides = if is_any { settings.overrides() } else { &[] };
    let overlaps = |a: &Override, b: &Override| {
        let apart = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        !apart(&a.service, &b.service) && !apart(&a.upstream, &b.upstream)
    };
    let mut found: Vec<Scope> = Vec::new();
    for (index, own) in overrides.iter().enumerate() {
        let before = overrides.iter().take(index).filter(|other| overlaps(own, other));
        let thresholds = settings.base().with(&own.changes);
        found.push(Scope { of: Some(own.clone()), but: before.cloned().collect(), thresholds });
    }
    let but = overrides.to_vec();
    found.push(Scope { of: None, but, thresholds: settings.base().clone() });
    found
}

/// A rule as one expression that returns the value for each pair it is true of.
pub fn expression(rule: &Rule, settings: &AlertSettings, source: Source) -> String {
    match &rule.watch {
        Watch::Silence => {
            let seconds = settings.base().get(Threshold::StalledSeconds);
            format!("time() - max(retrylens_last_event_timestamp_seconds) > {seconds}")
        }
        Watch::Absence => "absent(retrylens_build_info)".to_owned(),
        Watch::Pair(condition) => {
            let scopes = scopes(rule, settings);
            let written: Vec<String> =
                scopes.iter().map(|scope| scoped(condition, scope, settings, source)).collect();
            match written.as_slice() {
                [only] => format!("{only}\n"),
                many => {
                    let parts: Vec<String> = many.iter().map(|part| group(part)).collect();
                    format!("{}\n", parts.join("\nor\n"))
                }
            }
        }
    }
}

fn scoped(
    condition: &Condition,
    scope: &Scope,
    settings: &AlertSettings,
    source: Source,
) -> String {
    let writer = Writer { thresholds: &scope.thresholds, base: settings.base(), source };
    let mut text = writer.condition(condition, true);
    let chosen = |own: &Override| {
        let (measure, span) = guard(condition);
        match source {
            Source::Inline => counted(measure, span, writer.thresholds, &matchers(own)),
            Source::Recorded => {
                format!("{}{{{}}}", writer.sum(measure, span), matchers(own))
            }
        }
    };
    if let Some(own) = &scope.of {
        text = format!("{text}\nand\n  {}", chosen(own));
    }
    for own in &scope.but {
        text = format!("{text}\nunless\n  {}", chosen(own));
    }
    text
}

/// Label matchers of an override's pairs.
fn matchers(own: &Override) -> String {
    let named = [("service", &own.service), ("upstream", &own.upstream)];
    let named = named.into_iter().filter_map(|(label, name)| Some((label, name.as_ref()?)));
    named.map(|(label, name)| format!("{label}={}", quoted(name))).collect::<Vec<_>>().join(",")
}

/// A string literal that PromQL and Go templates both read as `text`. Dollar signs are spelled out,
/// as Grafana expands them in files, and braces, which begin a template. Settings let no control
/// character into a name.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '$' => out.push_str("\\x24"),
            '{' => out.push_str("\\x7b"),
            '}' => out.push_str("\\x7d"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `text` in parentheses on lines of their own.
fn group(text: &str) -> String {
    let inner: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    format!("(\n{}\n)", inner.join("\n"))
}

struct Writer<'a> {
    thresholds: &'a Thresholds,
    /// Those of all pairs, by which the baseline is recorded.
    base: &'a Thresholds,
    source: Source,
}

impl Writer<'_> {
    fn sum(&self, measure: Measure, span: Span) -> String {
        match self.source {
            Source::Recorded => recorded_name(measure, span, self.thresholds),
            Source::Inline => counted(measure, span, self.thresholds, ""),
        }
    }

    /// `is_first`: whether its left side is the value of the whole rule.
    fn condition(&self, condition: &Condition, is_first: bool) -> String {
        match condition {
            Condition::All(all) => {
                let mut text = String::new();
                for (index, one) in all.iter().enumerate() {
                    let (sign, one) = match one {
                        Condition::Not(one) => ("unless", *one),
                        one => ("and", one),
                    };
                    let written = self.condition(one, is_first && index == 0);
                    let written = match one {
                        Condition::All(_) | Condition::Any(_) => group(&written),
                        _ => written,
                    };
                    if index > 0 {
                        text.extend(["\n", sign, "\n"]);
                    }
                    text.push_str(&written);
                }
                text
            }
            Condition::Any(any) => {
                let each = any.iter().map(|one| group(&self.condition(one, is_first)));
                each.collect::<Vec<_>>().join("\nor\n")
            }
            // Never first, and inside `All` it is written as `unless`.
            Condition::Not(condition) => self.condition(condition, is_first),
            Condition::AtLeast { sum, span, least } => {
                format!("  {} >= {}", self.sum(*sum, *span), self.thresholds.get(*least))
            }
            Condition::Above { parts, whole, span, limit } => {
                let parts: Vec<String> = parts.iter().map(|part| self.sum(*part, *span)).collect();
                let part = match parts.as_slice() {
                    [only] => only.clone(),
                    many => format!("({})", many.join(" + ")),
                };
                self.compare(&part, ">", *whole, *span, *limit, is_first)
            }
            Condition::Below { part, whole, span, limit } => {
                let own = self.sum(*part, *span);
                // Of one counter, what has no series yet is 0: a part without one is a small part.
                let is_of_one = |a, b| family(a, self.thresholds).0 == family(b, self.thresholds).0;
                let part = if is_of_one(*part, *whole) {
                    format!("({own} or {} * 0)", self.sum(*whole, *span))
                } else {
                    own
                };
                self.compare(&part, "<", *whole, *span, *limit, is_first)
            }
            Condition::Outgrown { span, base } => format!(
                "  {}\n    > {} * {} * {}",
                self.sum(Measure::Retries, *span),
                self.thresholds.get(Threshold::GrowthFactor),
                self.expected(*base),
                self.sum(Measure::Requests, *span),
            ),
            Condition::Excess { span, base } => format!(
                "  {}\n    - {} * {}\n  >= {}",
                self.sum(Measure::Retries, *span),
                self.expected(*base),
                self.sum(Measure::Requests, *span),
                self.thresholds.get(Threshold::GrowthExcess),
            ),
        }
    }

    fn compare(
        &self,
        part: &str,
        sign: &str,
        whole: Measure,
        span: Span,
        limit: Limit,
        is_first: bool,
    ) -> String {
        let (whole, limit) = (self.sum(whole, span), limit.decimal(self.thresholds));
        if is_first {
            // 0 / 0 is NaN, which is neither above nor below anything.
            format!("  {part}\n    /\n  {whole}\n    {sign} {limit}")
        } else {
            format!("  {part}\n    {sign} {limit} * {whole}")
        }
    }

    /// Retries per request that are expected, going by `base`.
    fn expected(&self, base: Span) -> String {
        let is_recorded = |limit| self.thresholds.get(limit) == self.base.get(limit);
        let [retries, requests] = [Measure::Retries, Measure::Requests].map(|m| self.sum(m, base));
        let ratio = match self.source {
            Source::Recorded if BASELINE_LIMITS.into_iter().all(is_recorded) => {
                return BASELINE_RATIO.to_owned();
            }
            // The recorded retries are 0 where there are none.
            Source::Recorded => format!("{retries} / {requests}"),
            Source::Inline => format!("({retries} or {requests} * 0) / {requests}"),
        };
        format!("clamp_min({ratio}, {})", self.thresholds.get(Threshold::GrowthExpected))
    }
}

/// A sum that is there for every pair the condition can be true of: to pick pairs by.
fn guard(condition: &Condition) -> (Measure, Span) {
    let mut first = None;
    condition.each_sum(&mut |measure, span| {
        first.get_or_insert((measure, span));
    });
    first.unwrap_or((Measure::Requests, Span::last(5)))
}

/// Seconds before now of the first sample that `rule` reads, with room to spare.
pub fn reach_seconds(rule: &Rule) -> u32 {
    let mut longest = 5;
    if let Some(condition) = rule.condition() {
        condition.each_sum(&mut |_, span| longest = longest.max(span.reach()));
    }
    (longest + 10) * 60
}
