//! Markdown in which sent text stays text: no link, image, heading, table cell or HTML can come
//! out of it, and hidden characters are shown. Written for GitHub's flavour, which the chats and
//! trackers that people paste into mostly follow (<https://github.github.com/gfm/>).

use super::text::{code_parts, cut, visible};
use std::fmt::Write as _;

/// Longest value that is written in full, in characters; the page behind a link has the rest.
pub const MAX_CHARS: usize = 300;

/// A sentence that may hold sent text, on one line. Characters that mean something are escaped;
/// words that a reader would turn into links become code.
pub fn sentence(text: &str) -> String {
    let (short, is_cut) = cut(text, MAX_CHARS * 4);
    let line = visible(short).replace(['\n', '\t'], " ");
    let mut out = String::with_capacity(line.len() + 16);
    for (i, (is_code, part)) in code_parts(&line).into_iter().enumerate() {
        if is_code {
            out.push_str(&code(&part));
        } else {
            words(&mut out, &part, i == 0);
        }
    }
    if is_cut {
        out.push('…');
    }
    out
}

/// Words outside code; `is_start` where the first of them begins the line.
fn words(out: &mut String, line: &str, is_start: bool) {
    for (i, word) in line.split(' ').enumerate() {
        if i > 0 {
            out.push(' ');
        }
        if is_link_like(word) {
            out.push_str(&code(word));
        } else {
            out.push_str(&escaped(word, is_start && i == 0));
        }
    }
}

/// Whether a reader might make a link of `word`: addresses, host names with `www.`, e-mail
/// addresses and mentions, issue numbers.
fn is_link_like(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.contains("://")
        || lower.contains("www.")
        || lower.contains("mailto:")
        || word.contains('@')
}

fn escaped(word: &str, is_first: bool) -> String {
    let chars: Vec<char> = word.chars().collect();
    let mut out = String::with_capacity(word.len() + 8);
    // A number at the start of a line makes a list, and these characters lists, headings, quotes.
    let digits = chars.iter().take_while(|c| c.is_ascii_digit()).count();
    for (i, c) in chars.iter().copied().enumerate() {
        let starts_block = is_first
            && ((i == 0 && matches!(c, '#' | '+' | '-' | '=' | ':'))
                || (i > 0 && i == digits && i + 1 == chars.len() && matches!(c, '.' | ')')));
        let inside_word = |at: Option<usize>| {
            at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphanumeric())
        };
        let is_special = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' => true,
            // Emphasis by underscores needs a word's edge.
            '_' => !(inside_word(i.checked_sub(1)) && inside_word(Some(i + 1))),
            '!' => chars.get(i + 1) == Some(&'['),
            // Issue references.
            '#' => chars.get(i + 1).is_some_and(char::is_ascii_digit),
            _ => false,
        };
        if starts_block || is_special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A value as code on one line, cut where it is long.
pub fn code(value: &str) -> String {
    let (short, is_cut) = cut(value, MAX_CHARS);
    let mut text = visible(short).replace(['\n', '\t'], " ");
    if is_cut {
        write!(text, "… ({} characters)", value.chars().count()).ok();
    }
    if text.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(&text) + 1);
    // A space keeps a backtick at the edge from joining the fence.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// A cell of a table: a sentence whose bars are escaped wherever they stand.
pub fn cell(text: &str) -> String {
    // In tables a bar ends the cell even inside code, unless it is escaped.
    let mut out = String::new();
    let mut before = ' ';
    for c in sentence(text).chars() {
        if c == '|' && before != '\\' {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    if out.trim().is_empty() { "–".to_owned() } else { out }
}

/// A block of code to copy, its fence longer than any in it.
pub fn block(text: &str, language: &str) -> String {
    let text = visible(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A table; rows shorter than the head are filled up, longer ones cut.
pub fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(columns.iter().map(|text| cell(text)).collect()));
    out.push_str(&line(vec!["---".to_owned(); columns.len()]));
    for row in rows {
        let cells = (0..columns.len())
            .map(|i| cell(row.get(i).map(String::as_str).unwrap_or_default()))
            .collect();
        out.push_str(&line(cells));
    }
    out
}

/// A link with our own words to one of our own addresses, whose parts are percent-encoded.
pub fn link(words: &str, address: &str) -> String {
    let safe: String = address
        .chars()
        .filter(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '(' | ')' | '"' | '\\'))
        .collect();
    format!("[{}](<{safe}>)", sentence(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_is_escaped_and_the_rest_stays_readable() {
        let cases = [
            ("429 from api.example.com in 1.2 s", "429 from api.example.com in 1.2 s"),
            ("1. one", "1\\. one"),
            ("- item", "\\- item"),
            ("# x", "\\# x"),
            ("request_id _em_ *b*", "request_id \\_em\\_ \\*b\\*"),
            ("[a](javascript:x)", "\\[a\\](javascript:x)"),
            ("![a](b)", "\\!\\[a\\](b)"),
            ("<b>&lt;", "\\<b\\>\\&lt;"),
            ("see http://192.0.2.1/x", "see `http://192.0.2.1/x`"),
            ("me@example.com", "`me@example.com`"),
            ("a\nb\u{202e}c", "a b⟨U+202E⟩c"),
            ("a|b", "a\\|b"),
            ("send `a_b` now", "send `a_b` now"),
            ("one ` alone", "one \\` alone"),
        ];
        for (input, expected) in cases {
            assert_eq!(sentence(input), expected, "{input:?}");
        }
    }

    #[test]
    fn code_cannot_be_left() {
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("```x"), "```` ```x ````");
        assert_eq!(code(""), "(empty)");
        assert!(code(&"x".repeat(70_000)).ends_with("… (70000 characters)`"));
        let block = block("a\n````\nb", "");
        assert!(block.starts_with("`````\n") && block.ends_with("\n`````\n"), "{block}");
    }

    #[test]
    fn a_cell_never_ends_early() {
        assert_eq!(cell("a|b"), "a\\|b");
        assert_eq!(cell("x http://a/|b"), "x `http://a/\\|b`");
        assert_eq!(cell(" "), "–");
        let table = table(
            &["a".to_owned(), "b".to_owned()],
            &[vec!["1\n|2".to_owned()], vec!["x".to_owned(); 5]],
        );
        for line in table.lines() {
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(bars, 3, "{line}");
        }
    }

    #[test]
    fn links_lead_to_own_addresses_only() {
        assert_eq!(link("rows [x]", "/events?a=%3C"), "[rows \\[x\\]](</events?a=%3C>)");
    }
}
