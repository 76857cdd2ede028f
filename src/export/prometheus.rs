//! The rules as a Prometheus rule file. It needs Prometheus 2.42 (`keep_firing_for`) and uses
//! nothing newer.

use super::annotation::{self, Dialect};
use super::promql::{Source, expression, recordings};
use crate::domain::alerts::{AlertSettings, RULES, Rule, Watch};
use serde::Serialize;

const HEAD: &str = "\
# Alert rules of retrylens, written by `retrylens export rules --format prometheus`.
# Needs Prometheus 2.42 or newer (keep_firing_for), and a scrape at least once a minute.
# Sums and the alerts that read them share a group: a group runs in order, two groups do not.
";

#[derive(Serialize)]
struct File<'a> {
    groups: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct Group<'a> {
    name: &'static str,
    interval: String,
    rules: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Record {
        record: String,
        expr: String,
    },
    Alert {
        alert: &'a str,
        expr: String,
        #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
        hold: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        keep_firing_for: Option<String>,
        labels: Labels,
        annotations: annotation::Annotations,
    },
}

#[derive(Serialize)]
struct Labels {
    severity: &'static str,
}

/// The group in which a rule stands, in the file for Prometheus as in Grafana.
pub(super) const fn group_of(rule: &Rule) -> &'static str {
    match rule.watch {
        Watch::Pair(_) if rule.every == 1 => "retrylens",
        Watch::Pair(_) => "retrylens.slow",
        Watch::Silence | Watch::Absence => "retrylens.self",
    }
}

/// The groups in their order, with their rules.
pub(super) fn groups() -> Vec<(&'static str, Vec<&'static Rule>)> {
    let mut found: Vec<(&'static str, Vec<&'static Rule>)> = Vec::new();
    for name in ["retrylens", "retrylens.slow", "retrylens.self"] {
        found.push((name, RULES.iter().filter(|rule| group_of(rule) == name).collect()));
    }
    found
}

/// Minutes as Prometheus and Grafana write them; `None` for none.
pub(super) fn minutes(n: u32) -> Option<String> {
    match n {
        0 => None,
        n if n % 60 == 0 => Some(format!("{}h", n / 60)),
        n => Some(format!("{n}m")),
    }
}

/// The rule file. Links begin with `base`, an address without a slash at its end.
pub fn rules(settings: &AlertSettings, base: &str) -> String {
    let mut done = Vec::new();
    let groups = groups().into_iter().map(|(name, rules)| {
        let records = recordings(&rules, settings, &mut done).into_iter();
        let mut entries: Vec<Entry<'_>> =
            records.map(|made| Entry::Record { record: made.name, expr: made.expr }).collect();
        entries.extend(rules.iter().map(|rule| Entry::Alert {
            alert: rule.name,
            expr: expression(rule, settings, Source::Recorded),
            hold: minutes(rule.hold),
            keep_firing_for: minutes(rule.keep),
            labels: Labels { severity: rule.severity.as_str() },
            annotations: annotation::of(rule, settings, base, Dialect::Prometheus),
        }));
        let every = rules.first().map_or(1, |rule| rule.every);
        Group { name, interval: minutes(every).unwrap_or_default(), rules: entries }
    });
    super::yaml(HEAD, &File { groups: groups.collect() })
}
