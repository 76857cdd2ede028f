//! The pages: server-rendered, readable without script. A handler reads the address, fetches,
//! calls a pure function and renders; each page is a structure with what its template shows,
//! already worded and rounded. The JSON twins under `/api/v1/` serialise the same structures.
//!
//! - [`address`]: the whole view is in the address.
//! - [`model`], [`words`], [`chart`], [`escape`]: what several pages are made of.
//! - a file per page; [`alerts`] is a folder.

pub mod address;
pub mod alerts;
pub mod attempt;
pub mod chart;
pub mod classify;
pub mod docs;
pub mod elsewhere;
pub mod escape;
pub mod event;
pub mod kept;
pub mod ladder;
pub mod lookup;
pub mod marks;
pub mod model;
pub mod operation;
pub mod overview;
pub mod rows;
#[cfg(test)]
mod samples;
pub mod send;
pub mod services;
pub mod sources;
pub mod triage;
pub mod verdict;
pub mod words;

use super::Failure;
use super::parameters::Hint;
use crate::config::Config;
use askama::Template;
use axum::http::{HeaderMap, header};
use axum::response::Html;
use model::Shell;

/// Renders a page. A template that fails is a defect of ours.
pub(crate) fn render(page: &impl Template) -> Result<Html<String>, Failure> {
    page.render().map(Html).map_err(|error| Failure::internal(&error))
}

/// A page with the frame around it.
pub(crate) trait Framed: Template {
    /// Its frame.
    fn shell(&mut self) -> &mut Shell;
}

macro_rules! framed {
    ($($page:ty),+ $(,)?) => {
        $(impl $crate::web::pages::Framed for $page {
            fn shell(&mut self) -> &mut $crate::web::pages::model::Shell {
                &mut self.shell
            }
        })+
    };
}
pub(crate) use framed;

/// As [`render`], with a hint above the page where there is one.
pub(crate) fn render_with(mut page: impl Framed, hint: Hint) -> Result<Html<String>, Failure> {
    page.shell().hint = hint.0;
    render(&page)
}

/// The address of this service as the reader reached it: `http://127.0.0.1:4290`. The host was
/// checked at the door.
pub(crate) fn origin(config: &Config, headers: &HeaderMap) -> String {
    if let Some(url) = &config.server.public_url {
        return url.to_string();
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    format!("http://{}", host.unwrap_or(&config.server.listen))
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use scraper::{Html, Selector};

    /// What every page must hold to, whatever was sent.
    fn check(name: &str, html: &str) {
        let document = Html::parse_document(html);
        assert!(document.errors.is_empty(), "{name}: {:?}", document.errors);
        let all = |css: &str| {
            let selector = Selector::parse(css).unwrap();
            document.select(&selector).collect::<Vec<_>>()
        };
        assert!(all("script, style, iframe, object, embed, base, [style]").is_empty(), "{name}");
        assert_eq!(all("html[lang] head title").len(), 1, "{name}");
        assert_eq!(all("main").len(), 1, "{name}");
        assert_eq!(all("h1").len(), 1, "{name}");
        let ids: Vec<_> = all("[id]").iter().filter_map(|e| e.value().id()).collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{name}: an id is there twice");
        for element in all("*") {
            for (attribute, value) in element.value().attrs() {
                assert!(!attribute.starts_with("on"), "{name}: {attribute}");
                if matches!(attribute, "href" | "src" | "action" | "formaction") {
                    let own = value.starts_with('/') && !value.starts_with("//");
                    let known = value.starts_with('#') || value.starts_with("https://");
                    assert!(own || known, "{name}: {attribute}={value}");
                }
            }
        }
        for table in all("table") {
            let caption = Selector::parse("caption").unwrap();
            assert!(table.select(&caption).next().is_some(), "{name}: a table has no caption");
        }
        for label in all("label[for]") {
            let target = label.value().attr("for").unwrap_or_default();
            assert!(ids.contains(&target), "{name}: a label points nowhere: {target}");
        }
        let mut level = 1;
        for heading in all("h1, h2, h3, h4, h5") {
            let own: u32 = heading.value().name().trim_start_matches('h').parse().unwrap();
            assert!(own <= level + 1, "{name}: heading of level {own} after {level}");
            level = own;
        }
        let text: String = document.root_element().text().collect();
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{0}', '\u{1b}']), "{name}");
    }

    fn render_all<T: Template>(page: &str, samples: Vec<(&'static str, T)>) {
        for (name, sample) in samples {
            let html = sample.render().unwrap();
            // To look at them in a browser: RETRYLENS_SAMPLE_DIR=/some/folder cargo test pages
            if let Some(dir) = std::env::var_os("RETRYLENS_SAMPLE_DIR") {
                let file = std::path::Path::new(&dir).join(format!("{page}-{name}.html"));
                std::fs::write(file, &html).unwrap();
            }
            check(&format!("{page} ({name})"), &html);
        }
    }

    #[test]
    fn every_page_holds_its_shape_whatever_was_sent() {
        render_all("overview", super::overview::OverviewPage::samples());
        render_all("classify", super::classify::ClassifyPage::samples());
        render_all("event", super::event::EventPage::samples());
        render_all("lookup", super::lookup::LookupPage::samples());
        render_all("send", super::send::SendPage::samples());
        render_all("sources", super::sources::SourcesPage::samples());
        render_all("services", super::services::ServicesPage::samples());
        render_all("service", super::services::ServicePage::samples());
        render_all("triage", super::triage::TriagePage::samples());
        render_all("operation", super::operation::OperationPage::samples());
        render_all("rows", super::rows::RowsPage::samples());
        render_all("alerts", super::alerts::AlertsPage::samples());
        render_all("alert", super::alerts::one::AlertPage::samples());
        render_all("docs", super::docs::DocsPage::samples());
    }

    /// Reads Markdown as a tracker would, links made of bare addresses included.
    #[test]
    fn markdown_keeps_sent_text_as_text() {
        use comrak::nodes::NodeValue;
        let mut options = comrak::Options::default();
        options.extension.table = true;
        options.extension.autolink = true;
        options.extension.strikethrough = true;
        options.extension.tasklist = true;
        for (name, input) in super::samples::triages() {
            let text = super::triage::Triage::build(&input).markdown("");
            let arena = comrak::Arena::new();
            let root = comrak::parse_document(&arena, &text, &options);
            let mut headings = Vec::new();
            for node in root.descendants() {
                match &node.data.borrow().value {
                    NodeValue::Link(link) => {
                        assert!(link.url.starts_with('/'), "{name}: {}", link.url);
                        assert!(!link.url.starts_with("//"), "{name}: {}", link.url);
                    }
                    NodeValue::Heading(heading) => headings.push(u32::from(heading.level)),
                    NodeValue::Image(_)
                    | NodeValue::HtmlBlock(_)
                    | NodeValue::HtmlInline(_)
                    | NodeValue::Strikethrough
                    | NodeValue::Emph
                    | NodeValue::BlockQuote
                    | NodeValue::ThematicBreak
                    | NodeValue::TaskItem(_) => panic!("{name}: {:?}", node.data.borrow()),
                    _ => {}
                }
            }
            let steps = input.answers.len()
                + usize::from(!input.marks.is_empty())
                + usize::from(input.plan.is_some());
            assert_eq!(headings.iter().filter(|l| **l == 1).count(), 1, "{name}");
            assert_eq!(headings.len(), 1 + steps, "{name}: {headings:?}");
            assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{0}', '\r']), "{name}");
        }
    }
}
