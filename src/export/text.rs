//! Makes text that somebody sent readable for what it is: characters that hide, reorder or break
//! lines are shown by their number instead of being obeyed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `c` is one that a reader would not see, or that changes how its neighbours are shown:
/// control characters, bidirectional controls (UAX #9), zero-width and filler characters, tags.
/// Line feed and tab stay as they are.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        // Single ones first, then ranges: marks of direction, separators, zero widths, tags.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// `text` with every hidden character written as `⟨U+202E⟩`. CR LF becomes LF.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if is_hidden(c) {
            write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c)).ok();
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The first `limit` characters of `text`, and whether anything was cut off.
pub fn cut(text: &str, limit: usize) -> (&str, bool) {
    match text.char_indices().nth(limit) {
        Some((at, _)) => (text.get(..at).unwrap_or(text), true),
        None => (text, false),
    }
}

/// Takes a sentence apart at pairs of single backticks: its parts in order, `true` for those that
/// stood between two of them. Backticks without a partner stay text.
pub fn code_parts(text: &str) -> Vec<(bool, String)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let inside =
            after.split_once('`').filter(|(code, _)| !code.is_empty() && !code.contains('\n'));
        let Some((code, after)) = inside else { break };
        if !before.is_empty() {
            parts.push((false, before.to_owned()));
        }
        parts.push((true, code.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push((false, rest.to_owned()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_named_and_others_stay() {
        let cases = [
            ("plain é 漢 🙂", "plain é 漢 🙂"),
            ("a\u{202e}b", "a⟨U+202E⟩b"),
            ("a\r\nb\tc", "a\nb\tc"),
            ("a\rb\u{0}", "a⟨U+000D⟩b⟨U+0000⟩"),
            ("\u{feff}\u{200b}x\u{2066}", "⟨U+FEFF⟩⟨U+200B⟩x⟨U+2066⟩"),
            ("\u{85}\u{2028}", "⟨U+0085⟩⟨U+2028⟩"),
        ];
        for (input, expected) in cases {
            assert_eq!(visible(input), expected, "{input:?}");
        }
    }

    #[test]
    fn pairs_of_backticks_are_code() {
        let of = |text: &str| code_parts(text);
        let text = |t: &str| (false, t.to_owned());
        let code = |t: &str| (true, t.to_owned());
        assert_eq!(
            of("send `a` and `b`."),
            [text("send "), code("a"), text(" and "), code("b"), text(".")]
        );
        assert_eq!(of("one ` alone"), [text("one ` alone")]);
        assert_eq!(of("``"), [text("``")]);
        assert_eq!(of(""), []);
    }

    #[test]
    fn cutting_counts_characters_and_never_splits_one() {
        assert_eq!(cut("🙂🙂🙂", 2), ("🙂🙂", true));
        assert_eq!(cut("ab", 2), ("ab", false));
    }
}
