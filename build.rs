//! Makes HTML of `docs/alerts.md`, so that the program carries its runbooks and no Markdown parser.

use comrak::adapters::{HeadingAdapter, HeadingMeta};
use comrak::nodes::{NodeValue, Sourcepos};
use comrak::options::Plugins;
use comrak::{Arena, Options, format_html_with_plugins, parse_document};
use std::fmt::{self, Write};
use std::path::PathBuf;

const SOURCE: &str = "docs/alerts.md";

/// Headings with the anchors that links from elsewhere use: `## 429 spike` is `#429-spike`.
struct Anchors;

impl HeadingAdapter for Anchors {
    fn enter(&self, out: &mut dyn Write, of: &HeadingMeta, _: Option<Sourcepos>) -> fmt::Result {
        let anchor: String = of
            .content
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        write!(out, "<h{} id=\"{anchor}\">", of.level)
    }

    fn exit(&self, out: &mut dyn Write, of: &HeadingMeta) -> fmt::Result {
        write!(out, "</h{}>", of.level)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let text = std::fs::read_to_string(SOURCE)?;
    // The page has a title of its own.
    let (_, text) = text.split_once("\n\n").ok_or("no text after the title")?;
    let mut options = Options::default();
    options.extension.table = true;
    let arena = Arena::new();
    let root = parse_document(&arena, text, &options);
    // Links to files of the source tree lead nowhere on a server: their words stay.
    let links: Vec<_> = root
        .descendants()
        .filter(|node| {
            matches!(&node.data.borrow().value,
                NodeValue::Link(link) if !link.url.starts_with(['#', '/']) && !link.url.contains("://"))
        })
        .collect();
    for link in links {
        let words: Vec<_> = link.children().collect();
        for word in words {
            link.insert_before(word);
        }
        link.detach();
    }
    let mut html = String::new();
    let mut plugins = Plugins::default();
    plugins.render.heading_adapter = Some(&Anchors);
    format_html_with_plugins(root, &options, &mut html, &plugins)?;
    // What is wider than a phone scrolls by itself, also by keyboard. Each table has a name of its own.
    let html = html.replace("<pre>", "<pre tabindex=\"0\">").replace("</table>", "</table></div>");
    let mut tables = html.split("<table>");
    let mut html = tables.next().unwrap_or_default().to_owned();
    for (n, table) in (1..).zip(tables) {
        write!(
            html,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table {n}\"><table>\
             <caption><span>Table {n}</span></caption>{table}"
        )?;
    }
    // A panel for each heading.
    let mut parts = html.split("<h2 ");
    let intro = parts.next().unwrap_or_default();
    let mut page =
        format!("<section class=\"panel prose\" aria-label=\"In general\">{intro}</section>\n");
    for part in parts {
        writeln!(page, "<section class=\"panel prose\"><h2 {part}</section>")?;
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    std::fs::write(folder.join("alerts.html"), page)?;
    Ok(())
}
