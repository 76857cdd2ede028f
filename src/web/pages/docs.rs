//! `/docs/alerts`: what each alert means, what to check and what not to do: `docs/alerts.md`, made
//! into HTML when the program was built. It holds nothing of anybody's data, so that it opens from
//! a pager without a login.

use super::model::Shell;
use super::render;
use crate::domain::alerts::{RULES, Severity};
use crate::web::Failure;
use askama::Template;
use axum::response::Html;

/// The text, with an anchor for each heading.
const ALERTS: &str = include_str!(concat!(env!("OUT_DIR"), "/alerts.html"));

/// A rule in the list at the top.
#[derive(Debug, Clone, Copy)]
struct Entry {
    name: &'static str,
    slug: &'static str,
    severity: Severity,
}

impl Entry {
    fn kind(&self) -> &'static str {
        severity_kind(self.severity)
    }
}

/// The badge of a severity.
pub(super) const fn severity_kind(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "finding",
        Severity::Warning => "plain",
    }
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/docs.html")]
pub struct DocsPage {
    shell: Shell,
    rules: Vec<Entry>,
    text: &'static str,
}

impl DocsPage {
    fn new() -> Self {
        let entry = |rule: &crate::domain::alerts::Rule| Entry {
            name: rule.name,
            slug: rule.slug,
            severity: rule.severity,
        };
        Self {
            shell: Shell::new("What alerts mean", "alerts"),
            rules: RULES.iter().map(entry).collect(),
            text: ALERTS,
        }
    }

    /// The one page there is.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        vec![("usual", Self::new())]
    }
}

/// `GET /docs/alerts`
#[utoipa::path(get, path = "/docs/alerts", tag = "pages",
    responses((status = 200, description = "What each alert means and what to do", body = String, content_type = "text/html")))]
pub(crate) async fn alerts() -> Result<Html<String>, Failure> {
    render(&DocsPage::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runbook_link_finds_its_heading() {
        let html = DocsPage::new().render().unwrap();
        for rule in RULES {
            assert!(html.contains(&format!("<h2 id=\"{}\">", rule.slug)), "{}", rule.slug);
        }
        assert!(!html.contains("href=\"../"), "a link into the source tree");
    }
}
