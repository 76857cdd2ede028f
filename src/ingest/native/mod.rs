//! Native events (DESIGN 4): one JSON object, a list, `{"events":[…]}`, or NDJSON.
//!
//! Every item is read by itself, so that a bad one costs only itself. What is not JSON as a whole
//! is refused as a whole; of NDJSON the whole lines count, and a line cut short is one bad item.
//!
//! - [`item`]: from one JSON object to an [`Event`], field by field.
//! - [`fields`]: how a value of JSON becomes a checked value.
//! - [`upstream`]: host and route out of what was sent.
//! - [`repeats`]: texts that were looked through before.

mod fields;
mod item;
mod repeats;
mod upstream;

use crate::domain::event::Event;
use crate::domain::key_hash::KeyHasher;
use crate::domain::redact;
use crate::domain::spelling::spelled_enum;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::str::Utf8Error;

pub use item::FIELDS;

spelled_enum! {
    /// What is done with a raw key in a field for hashes.
    pub enum RawKeys {
        /// It is hashed with the server's own key, and counted as a redaction.
        Hash => "hash",
        /// The item is rejected, so that its sender learns.
        Refuse => "refuse",
    }
}

/// What the sender says about the shape of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Told by the content: one JSON value, or several in a row, a line each.
    #[default]
    Detect,
    /// A JSON object a line, whatever the first line looks like.
    Ndjson,
}

impl Format {
    /// From the value of `Content-Type`; `None` where it names something that can't hold events.
    /// Senders often leave their tool's default in place (`text/plain`, form data), so those are
    /// looked into as well.
    pub fn from_content_type(value: Option<&str>) -> Option<Self> {
        let media_type = value.unwrap_or_default().split(';').next().unwrap_or_default();
        match media_type.trim().to_ascii_lowercase().as_str() {
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/jsonlines"
            | "application/json-lines" => Some(Self::Ndjson),
            ""
            | "application/json"
            | "text/json"
            | "text/plain"
            | "application/octet-stream"
            | "application/x-www-form-urlencoded" => Some(Self::Detect),
            other if other.ends_with("+json") => Some(Self::Detect),
            _ => None,
        }
    }
}

/// How to read a body.
#[derive(Debug, Clone, Copy)]
pub struct DecodeOptions<'a> {
    /// Hashes raw keys and stands in for redacted ids.
    pub hasher: &'a KeyHasher,
    /// What to do with raw keys.
    pub raw_keys: RawKeys,
    /// The most items in one body.
    pub max_items: usize,
    /// What the sender says the body is.
    pub format: Format,
}

/// What was in a body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// Good items, each with its index in the body, from 0.
    pub events: Vec<(usize, Event)>,
    /// Bad items.
    pub rejects: Vec<Reject>,
    /// Fields that are not part of an event, over all items.
    pub unknown_fields: u64,
    /// Header fields that may not be kept, over all items.
    pub dropped_headers: u64,
    /// Texts cut to the length that is kept, over all items.
    pub shortened: u64,
    /// Values replaced because they looked secret, over all good items.
    pub redactions: u64,
}

/// Why one item was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reject {
    /// Its place in the body, from 0; NDJSON counts lines that are not blank.
    pub index: usize,
    /// Its `event_id`, where it has one.
    pub event_id: Option<String>,
    /// The field at fault, where it is one.
    pub field: Option<String>,
    /// What was expected, and what was found. Never repeats what looked secret.
    pub error: String,
}

/// Why nothing of a body was taken; the variants say what the sender can do.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Send something (400).
    #[error("the body is empty; send a JSON object, a list of them, or one a line")]
    Empty,
    /// Send UTF-8 (400).
    #[error("the body is not UTF-8, from byte {at} on")]
    NotUtf8 {
        /// The first byte that is wrong, from 0.
        at: usize,
    },
    /// Send whole, valid JSON (400).
    #[error("the body is not valid JSON, or it is cut short: line {line}, column {column}")]
    NotJson {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// Send events (400).
    #[error("expected an event, a list of events or {{\"events\": […]}}, got {got}")]
    NotEvents {
        /// What kind of JSON value it was.
        got: &'static str,
    },
    /// Send a list in `events` (400).
    #[error("`events` must be a list of events, got {got}")]
    NotAList {
        /// What kind of JSON value it was.
        got: &'static str,
    },
    /// Send fewer at once (413).
    #[error("more than {cap} items in one body; send them in smaller batches")]
    TooManyItems {
        /// The most that is taken.
        cap: usize,
    },
}

/// Reads a whole, inflated body.
pub fn decode(body: &[u8], options: &DecodeOptions<'_>) -> Result<Decoded, DecodeError> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(DecodeError::Empty);
    }
    match std::str::from_utf8(body) {
        Ok(text) => decode_text(text, options),
        Err(error) => {
            let starts_as_object = body.trim_ascii_start().first() == Some(&b'{');
            if options.format == Format::Ndjson && starts_as_object {
                decode_lines(body.split(|b| *b == b'\n').map(str::from_utf8), options)
            } else {
                Err(DecodeError::NotUtf8 { at: error.valid_up_to() })
            }
        }
    }
}

fn decode_text(text: &str, options: &DecodeOptions<'_>) -> Result<Decoded, DecodeError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first = match values.next() {
        Some(Ok(first)) => first,
        Some(Err(_)) if options.format == Format::Ndjson => {
            return decode_lines(text.split('\n').map(Ok), options);
        }
        Some(Err(source)) => return Err(not_json(source)),
        None => return Err(DecodeError::Empty),
    };
    let is_object = first.get().starts_with('{');
    let rest = text.get(values.byte_offset()..).unwrap_or_default();
    if !rest.trim_ascii().is_empty() {
        if is_object {
            return decode_lines(text.split('\n').map(Ok), options);
        }
        return match values.next() {
            Some(Err(source)) => Err(not_json(source)),
            _ => Err(DecodeError::NotEvents { got: "several JSON values in a row" }),
        };
    }
    let mut decoded = Decoded::default();
    if is_object {
        match events_of(first.get()).map_err(not_json)? {
            Some((list, _)) if !list.get().starts_with('[') => {
                return Err(DecodeError::NotAList { got: fields::describe(list) });
            }
            Some((list, others)) => {
                decoded.unknown_fields += others;
                decode_list(list.get(), options, &mut decoded)?;
            }
            None => item::decode(0, first.get(), options, &mut decoded),
        }
    } else if first.get().starts_with('[') {
        decode_list(first.get(), options, &mut decoded)?;
    } else {
        return Err(DecodeError::NotEvents { got: fields::describe(first) });
    }
    Ok(decoded)
}

fn not_json(source: serde_json::Error) -> DecodeError {
    DecodeError::NotJson { line: source.line(), column: source.column(), source }
}

/// A JSON object a line. Each line stands for itself.
fn decode_lines<'a>(
    lines: impl Iterator<Item = Result<&'a str, Utf8Error>>,
    options: &DecodeOptions<'_>,
) -> Result<Decoded, DecodeError> {
    let mut decoded = Decoded::default();
    let lines = lines.map(|line| line.map(str::trim_ascii)).filter(|line| *line != Ok(""));
    for (index, line) in lines.enumerate() {
        if index >= options.max_items {
            return Err(DecodeError::TooManyItems { cap: options.max_items });
        }
        let problem = match line {
            Err(_) => "the line is not UTF-8".to_owned(),
            Ok(line) => match item::decode_line(index, line, options, &mut decoded) {
                Ok(()) => continue,
                Err(error) if error.is_eof() => {
                    "expected a whole JSON object on one line, but the line ends early".to_owned()
                }
                Err(error) => {
                    format!(
                        "expected a JSON object on one line; not valid JSON at column {}",
                        error.column()
                    )
                }
            },
        };
        decoded.rejects.push(Reject { index, event_id: None, field: None, error: problem });
    }
    Ok(decoded)
}

/// A JSON list, item by item.
fn decode_list(
    list: &str,
    options: &DecodeOptions<'_>,
    decoded: &mut Decoded,
) -> Result<(), DecodeError> {
    let mut is_full = false;
    let seed = Items { options, decoded, is_full: &mut is_full };
    let outcome = seed.deserialize(&mut serde_json::Deserializer::from_str(list));
    if is_full {
        return Err(DecodeError::TooManyItems { cap: options.max_items });
    }
    outcome.map_err(not_json)
}

/// Hands each item of a list to [`item::decode`] while it is read.
struct Items<'s, 'o> {
    options: &'s DecodeOptions<'o>,
    decoded: &'s mut Decoded,
    is_full: &'s mut bool,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(raw) = list.next_element::<&'de RawValue>()? {
            if index >= self.options.max_items {
                *self.is_full = true;
                return Err(serde::de::Error::custom("too many items"));
            }
            item::decode(index, raw.get(), self.options, self.decoded);
            index += 1;
        }
        Ok(())
    }
}

/// What stands in `{"events": …}` and how many other fields stand beside it; `None` for an object
/// without a list there that holds any field of an event, and for one without `events`.
fn events_of(object: &str) -> Result<Option<(&RawValue, u64)>, serde_json::Error> {
    struct Envelope;

    impl<'de> Visitor<'de> for Envelope {
        type Value = Option<(&'de RawValue, u64)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut list = None;
            let mut others = 0;
            let mut is_event = false;
            while let Some(key) = map.next_key::<fields::Key<'de>>()? {
                if key.is("events") && list.is_none() {
                    list = Some(map.next_value::<&'de RawValue>()?);
                } else {
                    is_event |= FIELDS.contains(&key.as_str());
                    map.next_value::<IgnoredAny>()?;
                    others += 1;
                }
            }
            let list = list.filter(|raw| !is_event || raw.get().starts_with('['));
            Ok(list.map(|raw| (raw, others)))
        }
    }

    serde_json::Deserializer::from_str(object).deserialize_map(Envelope)
}

/// Makes an event of what another format tells, given as the fields of a native one, so that one set
/// of rules lets texts in, cleans, redacts and hashes them. With it comes what was counted on the way.
/// Raw keys are hashed: what a library or a log captures can't be told to its owner one by one.
///
/// # Errors
/// The field that no event can have so.
pub fn admit(fields: &impl Serialize, hasher: &KeyHasher) -> Result<(Event, Decoded), Reject> {
    let reject = |error: String| Reject { index: 0, event_id: None, field: None, error };
    let json = serde_json::to_string(fields).map_err(|error| reject(error.to_string()))?;
    let raw_keys = RawKeys::Hash;
    let options = DecodeOptions { hasher, raw_keys, max_items: 1, format: Format::Detect };
    let mut decoded = Decoded::default();
    item::decode(0, &json, &options, &mut decoded);
    match (decoded.events.pop(), decoded.rejects.pop()) {
        (Some((_, event)), None) => Ok((event, decoded)),
        (_, Some(reject)) => Err(reject),
        (None, None) => Err(reject("no event could be made of it".to_owned())),
    }
}

/// How an id that somebody looks for is stored: cleaned, redacted and cut as it was on its way in.
pub fn stored_id(text: &str, hasher: &KeyHasher) -> String {
    fields::shorten_id(redact::id(&fields::clean(text), hasher).text).0
}

#[cfg(test)]
mod tests;
