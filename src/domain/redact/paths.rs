//! Parts of a path that let their bearer in, told by the word before (`/reset/…`) or, in routes, by
//! how jumbled they are.

use super::Part;
use super::shapes::compiled;
use super::signs::{LINK_WORD, Made, Signs};
use super::wording::{changes, is_moment, is_numbered, is_opaque, is_opaque_piece, pieces};
use regex::Regex;
use std::sync::LazyLock;

/// A part of a path, also encoded, after which comes what lets its bearer in, and the slash; `c`
/// where that may be a number.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    let codes = "reset|verify|verification|confirm|confirmation|activate|activation|invites?|\
                 invitations?|join|magic|magiclink|otp|unsubscribe|recover|recovery|passwordless|\
                 passwords?";
    let others = "tokens?|sessions?|secrets?|apikeys?|keys?|hooks?(?:\\.[a-z0-9-]+)*|webhooks?|shared?|\
                  accept|login|signin|download|callback|authorize";
    compiled(&format!(
        r"(?i)(?:/|%2f)(?:[a-z]+[_-])*(?:(?P<c>{codes})|{others})(?:[_-][a-z]+)*(?:/|%2f)"
    ))
});

pub(super) fn by_path(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if !signs.has(LINK_WORD) || !signs.made_with(Made::SLASH | Made::PERCENT) {
        return;
    }
    for found in LINK.captures_iter(text) {
        let Some(mut at) = found.get(0).map(|link| link.end()) else { continue };
        let is_code = found.name("c").is_some();
        // `/reset/…`, `/verify/email/…`, `/reset/42/…`
        for _ in 0..2 {
            let rest = text.get(at..).unwrap_or_default();
            let ends = |c: char| !c.is_ascii_alphanumeric() && !"-_.~=+*!".contains(c);
            let length = rest.find(ends).unwrap_or(rest.len());
            let segment = rest.get(..length).unwrap_or_default().trim_end_matches('.');
            if is_link_secret(segment, is_code) {
                parts.push(Part { range: at..at + segment.len(), kind: "token" });
            }
            let Some(next) = rest.get(length..).and_then(|rest| rest.strip_prefix('/')) else {
                break;
            };
            at = text.len() - next.len();
        }
    }
}

/// Whether a part of a path after a word such as `reset` is what lets its bearer in. A number is,
/// and a name with as many digits as a code has, where `is_code`.
fn is_link_secret(segment: &str, is_code: bool) -> bool {
    if segment.bytes().all(|b| b.is_ascii_digit()) {
        return is_code && segment.len() >= 6 && !is_moment(segment);
    }
    let most = if is_code { 3 } else { 4 };
    is_opaque(segment)
        && pieces(segment).any(|piece| is_opaque_piece(piece) && !is_numbered(piece, most))
}

/// Whether a part of a path is too jumbled and long for a name, and no id of a common form:
/// hexadecimal texts, UUIDs and ULIDs stay.
pub(super) fn is_jumbled_segment(segment: &str) -> bool {
    // ASP.NET puts what others keep in a cookie into `(S(…))`.
    let body = segment.strip_prefix("(S(").and_then(|rest| rest.strip_suffix("))"));
    let body = body.unwrap_or(segment).trim_end_matches('=');
    let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if body.len() < 20 || !body.bytes().all(is_token) {
        return false;
    }
    let class = |b: u8| match b {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        b'a'..=b'z' => 2,
        _ => 3,
    };
    let count = |wanted: u8| body.bytes().filter(|b| class(*b) == wanted).count();
    let changes = changes(body, class);
    let numbers = body.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).count();
    if count(1) >= 2 && count(2) >= 2 {
        return numbers >= 2 && changes * 2 >= body.len() && in_words(body) * 2 < body.len();
    }
    let is_ulid = body.len() == 26 && body.starts_with(|c: char| ('0'..='7').contains(&c));
    let is_hex = body.bytes().all(|b| b.is_ascii_hexdigit());
    body.len() >= 24
        && count(3) == 0
        && numbers >= 3
        && changes * 4 >= body.len()
        && !is_ulid
        && !is_hex
}

/// How many letters stand in words of camel case: a capital and at least two small letters.
fn in_words(body: &str) -> usize {
    (body.split(|c: char| c.is_ascii_uppercase()).skip(1))
        .map(|rest| rest.bytes().take_while(u8::is_ascii_lowercase).count())
        .filter(|small| *small >= 2)
        .map(|small| small + 1)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_path_is_told_from_a_name_and_an_id() {
        for segment in [
            "q7Zp2LxV9sKd4TfB8nWm3RgY6hJc",
            "lit3py55t21z5v55vlm25s55",
            "aB3-dE6_fG9hJ2kL5mN8",
            "(S(lit3py55t21z5v55vlm25s55))",
        ] {
            assert!(is_jumbled_segment(segment), "{segment}");
        }
        for segment in [
            "orders",
            "chat-completions-2024-05-13",
            "GetUserByAccountIdAndRegion",
            "c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "01JCH6X8Y4Q2V7M3N9K5R1T6B8",
            "internationalization-settings-2",
            "anthropic.claude-3-5-sonnet-20241022-v2",
        ] {
            assert!(!is_jumbled_segment(segment), "{segment}");
        }
    }
}
