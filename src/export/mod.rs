//! What is written for other tools and for people to paste elsewhere.
//!
//! - [`promql`], [`annotation`]: alert rules as expressions and templates.
//! - [`prometheus`], [`grafana`]: alert rules as files; [`dashboards`]: dashboards for Grafana.
//! - [`links`]: addresses of pages, for those who are told of an alert.
//! - [`readings`]: the comparisons of an alert with their numbers.
//! - [`verdict`]: one verdict as JSON and as text for people.
//! - [`text`]: hostile text made readable.
//! - [`markdown`]: Markdown in which sent text stays text.

pub mod annotation;
pub mod dashboards;
pub mod grafana;
pub mod links;
pub mod markdown;
pub mod prometheus;
pub mod promql;
pub mod readings;
pub mod text;
pub mod verdict;

use crate::domain::alerts::AlertSettings;
use crate::domain::spelling::spelled_enum;

spelled_enum! {
    /// A form of the alert rules.
    pub enum RuleFormat {
        /// A rule file for Prometheus.
        Prometheus => "prometheus",
        /// A file for Grafana to provision.
        Grafana => "grafana",
        /// Rule groups for Grafana's provisioning API.
        GrafanaApi => "grafana-api",
    }
}

impl RuleFormat {
    /// The rules in this form.
    pub fn write(self, settings: &AlertSettings, links: &grafana::Links) -> String {
        match self {
            Self::Prometheus => prometheus::rules(settings, &links.base),
            Self::Grafana => grafana::file(settings, links),
            Self::GrafanaApi => grafana::api(settings, links),
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus | Self::Grafana => "application/yaml",
            Self::GrafanaApi => "application/json",
        }
    }
}

/// A value as YAML, below `head`, which is comments or nothing.
fn yaml(head: &str, value: &impl serde::Serialize) -> String {
    // Lines are left whole: templates and links are read and searched by people.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(value, options)
        .expect("a tree of texts and numbers can be written");
    format!("{head}{text}")
}

/// A value as indented JSON with a line end.
fn json(value: &impl serde::Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("a tree of texts and numbers can be written");
    text.push('\n');
    text
}
