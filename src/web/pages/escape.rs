//! The escaper of every template: HTML's special characters are escaped and hidden ones shown.
//!
//! Named in `askama.toml`, so that no template can forget it.

use crate::export::text::visible;
use askama::filters::{Escaper, Html};
use std::fmt;

/// Escapes for HTML after making hidden characters visible (`⟨U+202E⟩`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: fmt::Write>(&self, dest: W, string: &str) -> fmt::Result {
        Html.write_escaped_str(dest, &visible(string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_quotes_and_direction_marks_become_text() {
        let mut out = String::new();
        Visible.write_escaped_str(&mut out, "<b a=\"'\u{202e}'\">&").unwrap();
        assert!(!out.contains(['<', '>', '"', '\'', '\u{202e}']), "{out}");
        assert!(out.contains("U+202E"), "{out}");
    }
}
