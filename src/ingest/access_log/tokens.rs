//! Words of a text line: bare, in quotes, or in brackets.

use std::borrow::Cow;

/// How a word stands in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bare,
    Quoted,
    Bracketed,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

impl Token<'_> {
    /// Its text without the backslashes before quotes.
    pub(super) fn unescaped(&self) -> Cow<'_, str> {
        if self.text.contains('\\') {
            Cow::Owned(self.text.replace("\\\"", "\"").replace("\\\\", "\\"))
        } else {
            Cow::Borrowed(self.text)
        }
    }
}

/// The words of a line, at most `MOST`. What follows a quote that is never closed is one word.
pub(super) fn tokens(line: &str) -> Vec<Token<'_>> {
    const MOST: usize = 96;
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && tokens.len() < MOST {
        let (kind, start, end) = match rest.as_bytes().first() {
            Some(b'"') => (Kind::Quoted, 1, closing(rest)),
            Some(b'[') => (Kind::Bracketed, 1, rest.find(']')),
            _ => (Kind::Bare, 0, rest.find([' ', '\t'])),
        };
        let end = end.unwrap_or(rest.len());
        tokens.push(Token { kind, text: rest.get(start..end).unwrap_or_default() });
        let next = end.saturating_add(usize::from(kind != Kind::Bare));
        rest = rest.get(next..).unwrap_or_default().trim_start();
    }
    tokens
}

/// Where a text that begins with a quote ends.
fn closing(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().enumerate().skip(1).find_map(|(at, byte)| match byte {
        _ if is_escaped => {
            is_escaped = false;
            None
        }
        b'\\' => {
            is_escaped = true;
            None
        }
        b'"' => Some(at),
        _ => None,
    })
}
