//! A verdict as plain text that can be pasted into a chat: the verdict first, then the evidence,
//! then what to do. No colours, fewer than 100 columns, control characters shown as escapes.

use super::advice::{advice, number};
use super::limit_field;
use super::product;
use crate::domain::classify::{Evidence, LimitType, LimitUnit, Responder, Tri, Verdict};
use crate::domain::response::Response;
use crate::export::text::visible;

/// Columns that a line may take.
const WIDTH: usize = 96;

/// Writes everything that is known about one response.
pub fn render(response: &Response, verdict: &Verdict, problems: &[String]) -> String {
    let mut page = Page::default();
    page.paragraph(&headline(response, verdict));
    page.section("Evidence for it", |page| page.evidence(&verdict.evidence));
    page.section("Against it", |page| page.evidence(&verdict.against));
    page.section("Conflicts", |page| page.items(&verdict.conflicts));
    page.section("Path", |page| {
        if !verdict.hops.is_empty() {
            let hops: Vec<&str> = verdict.hops.iter().map(|hop| product(*hop)).collect();
            page.item(&format!("seen from the client inwards: {}", hops.join(", ")));
        }
    });
    page.section("Wait", |page| waits(response, verdict, page));
    page.section("Limit fields", |page| {
        for field in limit_field::views(response) {
            page.item(&field.line());
        }
    });
    let advice = advice(response, verdict);
    page.section("What to do next", |page| page.items(&advice.next));
    page.section("What not to touch", |page| page.items(&advice.leave));
    page.section("While reading", |page| page.items(problems));
    page.text
}

/// One line of text made safe and cut to the width.
pub fn line(text: &str) -> String {
    let safe = visible(text).replace(['\n', '\t'], " ");
    let mut cut: String = safe.chars().take(WIDTH).collect();
    if safe.chars().count() > WIDTH {
        cut.pop();
        cut.push('…');
    }
    cut
}

/// The verdict in a sentence.
pub fn headline(response: &Response, verdict: &Verdict) -> String {
    let status = response.status.map_or_else(|| "response".to_owned(), |code| code.to_string());
    let degree = format!("{}, {}", verdict.outcome, number(verdict.confidence));
    let who = match (verdict.returned_by, verdict.provider.as_deref()) {
        (Responder::Unknown, _) => {
            format!("It is not known who returned this {status} ({degree})")
        }
        (Responder::Origin, Some(provider)) => {
            format!("The origin, the API of {provider}, returned this {status} ({degree})")
        }
        (responder, _) => {
            format!("{} returned this {status} ({degree})", capital(product(responder)))
        }
    };
    let kind = match verdict.limit_type {
        _ if !verdict.limited => "nothing shows that a limit refused it".to_owned(),
        LimitType::Unknown => "which kind of limit is not known".to_owned(),
        LimitType::Rate => "rate limit".to_owned(),
        LimitType::Quota => "quota spent".to_owned(),
        LimitType::Concurrency => "too many requests in flight".to_owned(),
        LimitType::Security => "a security rule".to_owned(),
        LimitType::Cached => match verdict.cached_of {
            Some(kind) => format!("an old refusal replayed by a cache (kind: {kind})"),
            None => "an old refusal replayed by a cache".to_owned(),
        },
        LimitType::Overload => "load shed by the server".to_owned(),
    };
    let sure = if verdict.limited && verdict.limit_type != LimitType::Unknown {
        format!(" ({})", number(verdict.limit_type_confidence))
    } else {
        String::new()
    };
    let unit = match verdict.limit_unit {
        LimitUnit::Unknown => String::new(),
        unit if verdict.limited => format!(", counted in {unit}"),
        _ => String::new(),
    };
    let origin = match verdict.reached_origin {
        Tri::Yes => "the origin saw the request",
        Tri::No => "the origin did not see the request",
        Tri::Unknown => "whether the origin saw the request is not known",
    };
    format!("{who}: {kind}{sure}{unit}; {origin}.")
}

fn waits(response: &Response, verdict: &Verdict, page: &mut Page) {
    let raw: Vec<&str> = response.headers.all("retry-after").collect();
    match verdict.retry_after_seconds {
        Some(seconds) => {
            page.item(&format!(
                "promised: {} s (Retry-After: {})",
                number(seconds),
                raw.join(" | ")
            ));
        }
        None if raw.is_empty() => {}
        None => page.item(&format!("Retry-After is not valid by RFC 9110: {}", raw.join(" | "))),
    }
    if let Some(left) = verdict.retry_after_remaining_seconds
        && verdict.retry_after_seconds.is_some_and(|promised| (promised - left).abs() > 0.5)
    {
        page.item(&format!("left when it arrived: {} s (less its Age)", number(left)));
    }
    if let Some(lenient) = verdict.retry_after_lenient_seconds
        && verdict.retry_after_seconds.is_none_or(|promised| (promised - lenient).abs() > 0.5)
    {
        page.item(&format!("most likely meant: {} s", number(lenient)));
    }
    if !verdict.retry_after_flags.is_empty() {
        page.item(&format!("flags: {}", verdict.retry_after_flags.join(", ")));
    }
    if verdict.limited && raw.is_empty() {
        let how = if response.headers_complete { "sent" } else { "captured" };
        page.item(&format!("no Retry-After was {how}"));
    }
}

/// Text that is being written.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn paragraph(&mut self, text: &str) {
        self.wrapped(text, "", "");
    }

    /// A headed part; left out where it would be empty.
    fn section(&mut self, title: &str, write: impl FnOnce(&mut Self)) {
        let mut part = Self::default();
        write(&mut part);
        if !part.text.is_empty() {
            self.text.push('\n');
            self.text.push_str(title);
            self.text.push('\n');
            self.text.push_str(&part.text);
        }
    }

    fn items(&mut self, items: &[String]) {
        for item in items {
            self.item(item);
        }
    }

    fn item(&mut self, text: &str) {
        self.wrapped(text, "  - ", "    ");
    }

    fn evidence(&mut self, list: &[Evidence]) {
        for piece in list {
            let about = match piece.about {
                Responder::Unknown => String::new(),
                about => format!(" [{} {about}]", piece.says),
            };
            let text = format!("{} ({}){about}: {}", piece.rule, piece.weight, piece.observed);
            self.item(&text);
            if !piece.source.is_empty() {
                self.wrapped(&piece.source, "    source: ", "      ");
            }
        }
    }

    /// Breaks a text at spaces, and longer words where they must be broken.
    fn wrapped(&mut self, text: &str, first: &str, rest: &str) {
        let safe = visible(text);
        let mut column = first.chars().count();
        self.text.push_str(first);
        let mut at_start = true;
        for word in safe.split_whitespace() {
            let mut length = word.chars().count();
            if !at_start && column.saturating_add(length).saturating_add(1) > WIDTH {
                self.text.push('\n');
                self.text.push_str(rest);
                column = rest.chars().count();
                at_start = true;
            }
            if !at_start {
                self.text.push(' ');
                column = column.saturating_add(1);
            }
            for letter in word.chars() {
                if column >= WIDTH {
                    self.text.push('\n');
                    self.text.push_str(rest);
                    column = rest.chars().count();
                }
                self.text.push(letter);
                column = column.saturating_add(1);
                length = length.saturating_sub(1);
            }
            at_start = false;
        }
        self.text.push('\n');
    }
}

fn capital(text: &str) -> String {
    // Makers' own spelling stays (nginx, workerd); only our articles are raised.
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => match text.strip_prefix("an ") {
            Some(rest) => format!("An {rest}"),
            None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_repaint_the_terminal() {
        let mut page = Page::default();
        page.item("a\u{1b}[2Jb\u{202e}c\r\nd");
        assert_eq!(page.text, "  - a\u{27e8}U+001B\u{27e9}[2Jb\u{27e8}U+202E\u{27e9}c d\n");
        assert_eq!(line("a\nb"), "a b");
    }

    #[test]
    fn no_line_is_wider_than_a_chat() {
        let mut page = Page::default();
        page.item(&format!("{} {}", "word ".repeat(60), "x".repeat(400)));
        assert!(page.text.lines().all(|line| line.chars().count() <= WIDTH), "{}", page.text);
        assert!(page.text.lines().count() > 6);
        assert!(line(&"y".repeat(300)).chars().count() <= WIDTH);
    }
}
