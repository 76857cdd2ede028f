//! Finds what looks secret in free text and replaces it by what it was.
//!
//! Kinds of rules, each behind a cheap look at the text ([`signs`]), since every stored field of
//! every event comes by here:
//!
//! - [`prefixes`] that vendors give their tokens,
//! - [`shapes`] (URLs with a password, `Authorization` values, cookies, e-mail addresses, key
//!   blocks), as regular expressions,
//! - names with a value ([`pairs`]): `token=…`, `<apiKey>…</apiKey>`,
//! - words before or after what looks made up, in prose ([`wording`]) and in [`paths`],
//! - [`numbers`] that prove themselves or have a form of their own.
//!
//! It leans to removing too much. It does not hunt for mere randomness, except in routes: request
//! ids, ray ids and hashes look random too, and they are what joins are made of.

mod around;
mod numbers;
mod pairs;
mod paths;
mod plain_id;
mod prefixes;
mod shapes;
mod signs;
mod wording;

use super::key_hash::KeyHasher;
use numbers::{MIN_NUMBER_DIGITS, by_number};
use pairs::{by_element, by_neighbour, by_pair};
use paths::{by_path, is_jumbled_segment};
use plain_id::is_plain_id;
use prefixes::by_prefix;
use regex::Regex;
use shapes::{by_shape, compiled};
use signs::{Made, SHORTEST_PLAIN_SHAPES, SHORTEST_TOKEN, Signs};
use std::ops::Range;
use std::sync::LazyLock;
use wording::by_wording;

/// A text without what looked secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text that may be stored.
    pub text: String,
    /// How many parts were replaced.
    pub count: u32,
}

/// Replaces each credential-like part of `input` by `[redacted: <kind>]`. What it returns, it
/// leaves alone the next time.
pub fn text(input: &str) -> Redacted {
    owned(input.to_owned())
}

/// [`text`] of a text that is not needed any more; the usual one comes back untouched.
pub fn owned(text: String) -> Redacted {
    let mut out = Redacted { text, count: 0 };
    // A replaced part can lay bare another one; each round takes text away, so this ends early.
    for _ in 0..MAX_ROUNDS {
        let found = find(&out.text);
        if found.is_empty() {
            return out;
        }
        out.count = out.count.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
        out.text = replace(&out.text, &found);
    }
    Redacted { text: marker("unsettled"), count: out.count }
}

/// The same for the path of a request, which nothing is joined by. An encoded query string goes as
/// a plain one does, and parts that are too jumbled for names and for ids of a common form
/// (hexadecimal texts, UUIDs, ULIDs) are taken for secrets.
pub fn route(path: &str) -> Redacted {
    let (path, query) = match ENCODED_QUERY.find(path) {
        Some(mark) => (
            path.get(..mark.start()).unwrap_or_default(),
            path.get(mark.end()..).map(|query| text(&format!("?{query}")).count),
        ),
        None => (path, None),
    };
    let mut out = text(path);
    out.count = out.count.saturating_add(query.unwrap_or_default());
    if out.text.len() >= 20 && out.text.split('/').any(is_jumbled_segment) {
        let parts: Vec<String> = (out.text.split('/'))
            .map(|part| {
                if !is_jumbled_segment(part) {
                    return part.to_owned();
                }
                out.count = out.count.saturating_add(1);
                marker("token")
            })
            .collect();
        out.text = parts.join("/");
    }
    out
}

/// A question mark, encoded once or twice.
static ENCODED_QUERY: LazyLock<Regex> = LazyLock::new(|| compiled("%(?:25)?3[Ff]"));

/// The same for an id: where any part looks secret, the whole becomes `redacted:<kind>:<HMAC>`, so
/// that different ids stay different (DESIGN 14).
pub fn id(input: &str, hasher: &KeyHasher) -> Redacted {
    match kind_of(input) {
        Some(kind) => {
            let digest: String = hasher.hex(input).chars().take(32).collect();
            Redacted { text: format!("redacted:{kind}:{digest}"), count: 1 }
        }
        None => Redacted { text: input.to_owned(), count: 0 },
    }
}

/// The kind of the first credential-like part, if there is one. Ids that [`id`] wrote have none.
pub fn kind_of(input: &str) -> Option<&'static str> {
    if is_redacted_id(input) {
        return None;
    }
    find(input).first().map(|part| part.kind)
}

/// More rounds than any text needs; beyond it the whole text goes.
const MAX_ROUNDS: usize = 8;

/// One part to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    range: Range<usize>,
    kind: &'static str,
}

fn marker(kind: &str) -> String {
    format!("[redacted: {kind}]")
}

fn is_redacted_id(text: &str) -> bool {
    text.strip_prefix("redacted:").and_then(|rest| rest.split_once(':')).is_some_and(
        |(kind, digest)| {
            kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
                && digest.len() == 32
                && digest.bytes().all(|b| b.is_ascii_hexdigit())
        },
    )
}

/// The parts to replace, in order, none touching another.
fn find(text: &str) -> Vec<Part> {
    let made = Made::of(text);
    let is_short = text.len() < SHORTEST_TOKEN && made.is_one_word();
    if is_short || is_plain_id(text) {
        return Vec::new();
    }
    let signs = Signs::of(text, made);
    let shortest = SHORTEST_PLAIN_SHAPES[usize::from(!made.has(Made::U))];
    if text.len() < shortest && made.is_plain() && signs.digits < MIN_NUMBER_DIGITS {
        // What has a shape of its own has more than letters, digits and dashes, or is longer.
        let mut parts = Vec::new();
        by_prefix(text, &signs, &mut parts);
        if parts.is_empty() {
            return parts;
        }
    }
    find_by(text, &signs)
}

/// The name of a resource of AWS: what it calls a secret is where that is kept, not what it is.
static RESOURCE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]*:[A-Za-z0-9/:_+=.@*-]*")
});

fn find_by(text: &str, signs: &Signs) -> Vec<Part> {
    let mut parts = Vec::new();
    by_prefix(text, signs, &mut parts);
    by_shape(text, signs, &mut parts);
    let mut named = Vec::new();
    by_pair(text, signs, &mut named);
    by_element(text, signs, &mut named);
    by_neighbour(text, signs, &mut named);
    by_wording(text, signs, &mut named);
    by_path(text, signs, &mut named);
    if !named.is_empty() && text.contains("arn:") {
        let names: Vec<_> = RESOURCE.find_iter(text).map(|name| name.range()).collect();
        named.retain(|part| !names.iter().any(|name| name.contains(&part.range.start)));
    }
    parts.append(&mut named);
    by_number(text, signs, &mut parts);
    parts.sort_by_key(|part| (part.range.start, usize::MAX - part.range.end));
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            // A password before a host looks like an address; the host is to stay.
            Some(last)
                if part.range.start < last.range.end
                    && (last.kind, part.kind) == ("url-credentials", "email") => {}
            Some(last) if part.range.start < last.range.end => {
                last.range.end = last.range.end.max(part.range.end);
            }
            _ => merged.push(part),
        }
    }
    merged
}

fn replace(text: &str, parts: &[Part]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for part in parts {
        out.push_str(text.get(from..part.range.start).unwrap_or_default());
        out.push_str(&marker(part.kind));
        from = part.range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;
