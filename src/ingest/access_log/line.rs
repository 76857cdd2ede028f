//! Lenient reading of one line: broken UTF-8, `\xHH`, cut ends, keys given twice, envelopes of log
//! shippers, and the many ways to write "nothing".

use super::LineError;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// A JSON object as it stands in the line.
#[derive(Debug, Default)]
pub(super) struct Object {
    entries: HashMap<String, Value>,
    /// A key that stands twice.
    pub(super) twice: Option<String>,
    /// The line ended before the object did.
    pub(super) is_cut: bool,
}

impl From<&Value> for Object {
    fn from(value: &Value) -> Self {
        let entries = value.as_object().into_iter().flatten();
        let entries = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { entries, twice: None, is_cut: false }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object::default();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    // The first counts.
                    match object.entries.entry(key) {
                        Entry::Occupied(known) => {
                            object.twice.get_or_insert_with(|| known.key().clone());
                        }
                        Entry::Vacant(free) => {
                            free.insert(value);
                        }
                    }
                }
                Ok(object)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// Where shippers put the line: Fluent Bit (`log`), Vector (`message`), journald (`MESSAGE`), others.
const ENVELOPE: [&str; 5] = ["log", "message", "MESSAGE", "line", "msg"];

impl Object {
    /// What stands under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Whether a key is there, whatever it holds.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A scalar as text, as it is written: `Some("")` for null. `None` where the key is absent, or
    /// holds an object.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        scalar(self.get(key)?)
    }

    /// A scalar that holds something.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        something(&text).map(ToOwned::to_owned)
    }

    /// The first of several keys that holds something.
    pub(super) fn first(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.value(key))
    }

    /// A number, also where it was written as text.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// The line inside of an envelope.
    pub(super) fn wrapped(&self) -> Option<&str> {
        ENVELOPE
            .iter()
            .find_map(|key| self.get(key).and_then(Value::as_str).filter(|text| text.len() > 20))
    }

    /// The same where the shipper has read the line already and put an object there.
    pub(super) fn wrapped_object(&self) -> Option<Self> {
        ENVELOPE
            .iter()
            .find_map(|key| self.get(key).filter(|value| value.is_object()).map(Self::from))
    }
}

/// A scalar as text.
pub(super) fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => Some(Cow::Borrowed("")),
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(yes) => Some(Cow::Borrowed(if *yes { "true" } else { "false" })),
        Value::Array(values) => {
            let all: Vec<Cow<'_, str>> = values.iter().filter_map(scalar).collect();
            Some(Cow::Owned(all.join(",")))
        }
        Value::Object(_) => None,
    }
}

/// A text that holds something: `-` stands for nothing.
pub(super) fn something(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && text != "-").then_some(text)
}

/// The first `cap` bytes of a text, cut at a character.
pub(super) fn capped(text: &str, cap: usize) -> String {
    text.get(..text.floor_char_boundary(cap)).unwrap_or_default().to_owned()
}

/// Bytes as text: what is no UTF-8 becomes U+FFFD.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Reads a line that is a JSON object; `None` for one that is none. A line with escapes or bare
/// values that JSON doesn't know is repaired, of a line that ends early the whole fields are kept.
pub(super) fn object(text: &str) -> Result<Option<Object>, LineError> {
    let text = text.trim();
    if !text.starts_with('{') {
        return Ok(None);
    }
    let first = match serde_json::from_str::<Object>(text) {
        Ok(object) => return Ok(Some(object)),
        Err(error) => error,
    };
    let repaired = quote_bare(&repair(text));
    let error = match serde_json::from_str::<Object>(&repaired) {
        Ok(object) => return Ok(Some(object)),
        Err(error) if error.is_eof() => match whole_fields(&repaired) {
            Some(object) => return Ok(Some(object)),
            None => error,
        },
        Err(_) => first,
    };
    Err(LineError::new(match error.classify() {
        serde_json::error::Category::Eof => "the line ends before its first whole field".to_owned(),
        _ => format!("not valid JSON at column {}", error.column()),
    }))
}

/// The fields that stand whole in an object which was cut.
fn whole_fields(text: &str) -> Option<Object> {
    let mut in_string = false;
    let mut is_escaped = false;
    let mut depth = 0_u32;
    let mut last_comma = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => last_comma = Some(at),
            _ => {}
        }
    }
    let whole = text.get(..last_comma?)?;
    let mut object: Object = serde_json::from_str(&format!("{whole}}}")).ok()?;
    object.is_cut = true;
    Some(object)
}

/// Puts quotes around values that logs write bare and JSON doesn't know: `000` of nginx where the
/// client went away, `-` and nothing where there is no value, `0.001, 0.002` of two tries.
fn quote_bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Up to where the text is copied, and up to where no value is found: each byte is looked at once.
    let (mut done, mut barren) = (0, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if at < done => {}
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b':' if !in_string && at >= barren => {
                let (value, is_bare) = bare_value(text.get(at + 1..).unwrap_or_default());
                let end = at + 1 + value.len();
                if is_bare {
                    out.push_str(text.get(done..=at).unwrap_or_default());
                    out.extend(["\"", value.trim(), "\""]);
                    done = end;
                } else {
                    barren = end;
                }
            }
            _ => {}
        }
    }
    out + text.get(done..).unwrap_or_default()
}

/// What a text begins with that may be a number as logs write it, and whether it is one that JSON
/// doesn't know: it ends with its object, or at a comma that the next key is behind.
fn bare_value(text: &str) -> (&str, bool) {
    let rest = |at: usize| text.get(at..).unwrap_or_default();
    let end = text.bytes().enumerate().find(|(at, byte)| match byte {
        b',' => rest(at + 1).trim_start().starts_with('"'),
        byte => !byte.is_ascii_digit() && !b" .:+-".contains(byte),
    });
    let at = end.map_or(text.len(), |(at, _)| at);
    let value = text.get(..at).unwrap_or_default();
    let is_whole = matches!(end, Some((_, b'}' | b',')));
    (value, is_whole && serde_json::from_str::<Value>(value).is_err())
}

/// Turns `\xHH`, which Apache and Varnish write for bytes that they hold for unprintable, into what
/// JSON knows; bytes in a row are one UTF-8 text again.
fn repair(text: &str) -> Cow<'_, str> {
    if !text.contains("\\x") {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let rest = bytes.as_slice_of(text);
        match (rest.first(), rest.get(1..3).and_then(hex_byte)) {
            (Some(b'x'), Some(value)) => {
                bytes.nth(2);
                match value {
                    0..=0x1f | b'"' | b'\\' | 0x7f => {
                        out.extend(format!("\\u{value:04x}").bytes());
                    }
                    _ => out.push(value),
                }
            }
            (Some(next), _) => {
                out.extend([b'\\', *next]);
                bytes.next();
            }
            (None, _) => out.push(b'\\'),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// What an iterator over the bytes of a text has not passed yet.
trait Rest {
    fn as_slice_of<'a>(&self, text: &'a str) -> &'a [u8];
}

impl Rest for std::str::Bytes<'_> {
    fn as_slice_of<'a>(&self, text: &'a str) -> &'a [u8] {
        text.as_bytes().get(text.len().saturating_sub(self.len())..).unwrap_or_default()
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Takes a syslog header (`<134>Nov 30 … haproxy[12]: `, RFC 3164 and 5424) or a container
/// runtime's (`2026-… stdout F `) off a line: the header and the rest.
pub(super) fn without_prefix(text: &str) -> Option<(&str, &str)> {
    let by_runtime = [" stdout F ", " stderr F "];
    if let Some(split) = by_runtime.iter().find_map(|mark| text.split_once(mark)) {
        return Some(split);
    }
    if let Some(split) = without_syslog_header(text) {
        return Some(split);
    }
    // `host haproxy[2149]: …`, `host envoy: …`
    let (header, rest) = text.split_once(": ")?;
    let tag = header.rsplit(' ').next()?;
    let name = tag.split('[').next()?;
    let is_tag = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
        && header.len() < 120
        && !header.contains('"');
    is_tag.then_some((header, rest.trim_start()))
}

/// A header of RFC 5424 section 6 and the message behind it:
/// `<190>1 2026-11-30T09:56:40.123Z host nginx 12 - [x@1 y="z"] …`.
fn without_syslog_header(text: &str) -> Option<(&str, &str)> {
    let (priority, rest) = text.strip_prefix('<')?.split_once(">1 ")?;
    if !(1..=3).contains(&priority.len()) || !priority.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Time, host, application, process and kind of message.
    let mut rest = rest;
    for _ in 0..5 {
        let (field, behind) = rest.split_once(' ')?;
        if field.is_empty() || field.contains(['"', '{']) {
            return None;
        }
        rest = behind;
    }
    let message = match rest.strip_prefix('-') {
        Some(message) => message,
        None => without_elements(rest)?,
    };
    let message = message.strip_prefix(' ')?;
    let header = text.get(..text.len().saturating_sub(message.len()))?;
    Some((header.trim_end(), message.trim_start_matches('\u{feff}').trim_start()))
}

/// What stands behind elements of structured data, `[id name="value"][…]`; in a value a backslash
/// stands before `"`, `\` and `]`.
fn without_elements(text: &str) -> Option<&str> {
    let (mut is_quoted, mut is_escaped, mut is_inside) = (false, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' if is_inside => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'[' if !is_inside => is_inside = true,
            b']' if is_inside => is_inside = false,
            _ if is_inside => {}
            _ => return if at == 0 { None } else { text.get(at..) },
        }
    }
    None
}
