//! Texts of alerts as templates of Prometheus and Grafana, which fill in labels and the value.

use super::promql::{quoted, scopes};
use crate::domain::alerts::annotate::{Piece, Wording, pieces, worded};
use crate::domain::alerts::rule::Shown;
use crate::domain::alerts::{AlertSettings, Rule, Threshold};
use serde::Serialize;

/// Whose templates are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `$value` is a number.
    Prometheus,
    /// `$value` is a text; the number stands in `$values.query.Value`.
    Grafana,
}

/// What goes with an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// One line.
    pub summary: String,
    /// What was seen.
    pub description: String,
    /// What to do, rule by rule.
    pub runbook_url: String,
    /// The triage of the pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_url: Option<String>,
}

/// The annotations of a rule; links begin with `base`.
pub fn of(rule: &Rule, settings: &AlertSettings, base: &str, dialect: Dialect) -> Annotations {
    let text = |text| template(rule, text, settings, dialect);
    let label = |name: &str| format!("{name}={{{{ $labels.{name} | urlquery }}}}");
    Annotations {
        summary: text(rule.summary),
        description: text(rule.description),
        runbook_url: format!("{base}/docs/alerts#{}", rule.slug),
        dashboard_url: rule.is_of_a_pair().then(|| {
            format!(
                "{base}/triage?{}&{}{{{{ with $labels.environment }}}}&environment={{{{ . | urlquery }}}}{{{{ end }}}}",
                label("service"),
                label("upstream")
            )
        }),
    }
}

fn template(rule: &Rule, text: &'static str, settings: &AlertSettings, dialect: Dialect) -> String {
    let fill = |piece: Piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Service => "{{ $labels.service }}".to_owned(),
        Piece::Upstream => "{{ $labels.upstream }}".to_owned(),
        Piece::Value => value(rule.shown, dialect),
        Piece::Threshold(threshold, how) => per_scope(rule, threshold, how, settings),
    };
    pieces(text).into_iter().map(fill).collect()
}

fn value(shown: Shown, dialect: Dialect) -> String {
    let function = match shown {
        Shown::Percentage => "humanizePercentage",
        Shown::Number => "humanize",
        Shown::Duration => "humanizeDuration",
    };
    match dialect {
        Dialect::Prometheus => format!("{{{{ $value | {function} }}}}"),
        Dialect::Grafana => format!("{{{{ {function} $values.query.Value }}}}"),
    }
}

/// A threshold in words, and where some pairs have their own, the choice between them.
fn per_scope(rule: &Rule, of: Threshold, how: Wording, settings: &AlertSettings) -> String {
    let base = worded(of, how, settings.base().get(of));
    // Scopes go from the most specific to all others, so the first that fits is right.
    let mut text = String::new();
    for scope in scopes(rule, settings) {
        let Some(own) = scope.of else { continue };
        let names = [("service", own.service), ("upstream", own.upstream)];
        let tests: Vec<String> = names
            .into_iter()
            .filter_map(|(label, name)| Some(format!("(eq $labels.{label} {})", quoted(&name?))))
            .collect();
        let both = if tests.len() > 1 { "and " } else { "" };
        let otherwise = if text.is_empty() { "" } else { "else " };
        let test = [otherwise, "if ", both, &tests.join(" ")].concat();
        let own = worded(of, how, scope.thresholds.get(of));
        text = format!("{text}{{{{ {test} }}}}{own}");
    }
    if text.is_empty() { base } else { format!("{text}{{{{ else }}}}{base}{{{{ end }}}}") }
}
