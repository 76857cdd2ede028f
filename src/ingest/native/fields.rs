//! How one value of JSON becomes a checked value.

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;

/// A key of a JSON object. One that is no valid Unicode is read as well, and matches nothing.
pub(super) struct Key<'a>(Cow<'a, str>);

impl<'a> Key<'a> {
    /// The key in `bytes`; most are plain UTF-8, which is checked faster than it is mended.
    fn of(bytes: &'a [u8]) -> Self {
        Self(str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.0 == name
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Key<'de>, E> {
                Ok(Key::of(bytes))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(Key::of(bytes).0.into_owned())))
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        // As bytes, a lone surrogate in a key is no error.
        deserializer.deserialize_bytes(Text)
    }
}

/// What kind of JSON value it is, in words.
pub(super) fn describe(raw: &RawValue) -> &'static str {
    match raw.get().bytes().next() {
        Some(b'"') => "a text",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

pub(super) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// The text of a JSON string, or a number as it was written; else what was found instead.
pub(super) fn text_of(raw: &RawValue) -> Result<Cow<'_, str>, &'static str> {
    let json = raw.get();
    if let Some(inner) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return Ok(Cow::Borrowed(inner));
        }
        return serde_json::from_str::<String>(json)
            .map(Cow::Owned)
            .map_err(|_| "a text with half a surrogate pair");
    }
    match describe(raw) {
        "a number" => Ok(Cow::Borrowed(json)),
        other => Err(other),
    }
}

/// A whole number; one written with a fraction of zero counts. `Err` says what was found instead.
pub(super) fn integer_of(raw: &RawValue) -> Result<i64, &'static str> {
    whole_of(raw, |number| {
        (number.fract() == 0.0).then_some(number).ok_or("a number with a fraction")
    })
}

/// A number of milliseconds, rounded to whole ones.
pub(super) fn rounded_of(raw: &RawValue) -> Result<i64, &'static str> {
    whole_of(raw, |number| Ok(number.round()))
}

/// A number, which `whole` makes whole where it isn't written so.
fn whole_of(
    raw: &RawValue,
    whole: fn(f64) -> Result<f64, &'static str>,
) -> Result<i64, &'static str> {
    const BEYOND: &str = "a number beyond all bounds";
    if let Ok(exact) = raw.get().parse() {
        return Ok(exact);
    }
    if describe(raw) != "a number" {
        return Err(describe(raw));
    }
    let number = raw.get().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or(BEYOND)?;
    let number = whole(number)?;
    // Up to 2^53 a float holds whole numbers exactly; no field goes beyond.
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked in the condition")]
    if number.abs() <= 9_007_199_254_740_992.0 {
        return Ok(number as i64);
    }
    Err(BEYOND)
}

/// Without white space at its ends. A tab or a line break becomes a space, which is what rules for
/// secrets know between words; other control characters become U+FFFD, since PostgreSQL's `text` holds
/// no NUL and the others would only confuse a page or a log.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    replace_control(text.trim(), |_| false)
}

/// The same for a body, which keeps its line breaks, tabs and outer space.
pub(super) fn clean_body(text: &str) -> Cow<'_, str> {
    replace_control(text, |c| matches!(c, '\n' | '\r' | '\t'))
}

fn replace_control(text: &str, keeps: fn(char) -> bool) -> Cow<'_, str> {
    // Control characters begin with one of these bytes (U+0080 to U+009F with 0xC2).
    // All bytes are asked, since that takes many at a time.
    let begins_control = |b: u8| b < b' ' || b == 0x7f || b == 0xc2;
    if !text.bytes().fold(false, |found, b| found | begins_control(b)) {
        return Cow::Borrowed(text);
    }
    let is_bad = |c: char| c.is_control() && !keeps(c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let instead = |c: char| match c {
        c if !is_bad(c) => c,
        c if c.is_whitespace() => ' ',
        _ => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(instead).collect())
}

/// Cuts `text` to at most `cap` bytes, `…` at the end included, between characters. Says whether
/// it was cut.
pub(super) fn shorten(mut text: String, cap: usize) -> (String, bool) {
    if text.len() <= cap {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(cap.saturating_sub('…'.len_utf8())));
    text.push('…');
    (text, true)
}

/// The longest id that is kept as it is, in bytes.
const MAX_ID: usize = 200;
/// How much of a longer one stays readable.
const ID_HEAD: usize = 96;

/// Cuts an id so that different ones stay different: its beginning, `~`, and half its SHA-256.
pub(super) fn shorten_id(mut text: String) -> (String, bool) {
    if text.len() <= MAX_ID {
        return (text, false);
    }
    let digest = hex::encode(Sha256::digest(text.as_bytes()));
    text.truncate(text.floor_char_boundary(ID_HEAD));
    text.push('~');
    text.extend(digest.chars().take(32));
    (text, true)
}
