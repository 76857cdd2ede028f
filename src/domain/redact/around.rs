//! What the text around a long number or a jumble calls it.

use std::ops::Range;

/// How much before and behind is looked at, in bytes.
const NEAR: usize = 80;
/// How much before a number is looked at for what it is beside its name, in bytes.
const NEXT: usize = 24;

/// Last parts of names whose value tells things apart, orders them or measures something.
const IDS: [&str; 34] = [
    "checksum",
    "commit",
    "correlation",
    "count",
    "counter",
    "cursor",
    "digest",
    "epoch",
    "etag",
    "eventid",
    "generation",
    "hash",
    "id",
    "ids",
    "messageid",
    "nanos",
    "ns",
    "offset",
    "ray",
    "requestid",
    "revision",
    "seq",
    "sequence",
    "sha",
    "span",
    "spanid",
    "time",
    "timestamp",
    "trace",
    "traceid",
    "ts",
    "uid",
    "us",
    "version",
];

/// Units of what is counted or measured in numbers that long.
const UNITS: [&str; 10] =
    ["b", "byte", "bytes", "cycles", "microseconds", "nanos", "nanoseconds", "ns", "ticks", "us"];

/// Words that make a long number one of a card, whatever else is said of it.
const CARDS: [&str; 4] = ["amex", "card", "credit", "visa"];

/// Words near which a jumble is a secret.
const SECRETS: [&str; 10] = [
    "akia",
    "amazon",
    "asia",
    "aws",
    "bedrock",
    "boto",
    "credential",
    "key",
    "secret",
    "signature",
];

/// Whether a number is called an id, a count or a moment, and not one of a card.
pub(super) fn is_no_card(text: &str, number: &Range<usize>) -> bool {
    let behind = text.get(number.end..).unwrap_or_default();
    let behind = behind.strip_prefix(' ').unwrap_or(behind);
    let unit = behind.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    (is_among(unit, &UNITS) || is_called_id(text, number.start))
        && !holds(before(text, number.start, NEXT), &CARDS)
}

/// Whether a jumble as long as AWS's secret keys may be one: ids have no `/` and `+`, for the most
/// part, so that without those only what stands around tells.
pub(super) fn may_be_secret(text: &str, jumble: &Range<usize>) -> bool {
    let has_signs = text.get(jumble.clone()).is_some_and(|jumble| jumble.contains(['/', '+']));
    is_near_secret(text, jumble) || has_signs && !is_called_id(text, jumble.start)
}

/// Whether what stands around a jumble speaks of secrets, above all of AWS's.
pub(super) fn is_near_secret(text: &str, jumble: &Range<usize>) -> bool {
    let end = text.floor_char_boundary(jumble.end.saturating_add(NEAR));
    let behind = text.get(jumble.end..end).unwrap_or_default();
    [before(text, jumble.start, NEAR), behind].into_iter().any(|near| holds(near, &SECRETS))
}

fn before(text: &str, at: usize, most: usize) -> &str {
    text.get(text.ceil_char_boundary(at.saturating_sub(most))..at).unwrap_or_default()
}

fn holds(near: &str, words: &[&str]) -> bool {
    let near = near.to_ascii_lowercase();
    words.iter().any(|word| near.contains(word))
}

fn is_among(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether the name right before is that of an id: `trace_id: `, `"requestId":"`, `seq=`.
fn is_called_id(text: &str, at: usize) -> bool {
    let before = before(text, at, NEAR);
    let name = before.trim_end_matches(|c: char| c.is_whitespace() || ":=\"'`\\([{<>#".contains(c));
    let part = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let bytes = part.as_bytes();
    let hump = bytes.windows(2).rposition(|two| {
        two.first().is_some_and(u8::is_ascii_lowercase)
            && two.last().is_some_and(u8::is_ascii_uppercase)
    });
    let last = hump.and_then(|hump| part.get(hump + 1..)).unwrap_or(part);
    is_among(part, &IDS) || is_among(last, &IDS)
}
