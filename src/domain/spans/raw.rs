//! A span as a decoder hands it over: typed, not looked into.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The id of a trace: 16 bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceId(u128);

/// The id of a span within its trace: 8 bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpanId(u64);

/// An id that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id in hexadecimal digits")]
pub struct NotAnId;

macro_rules! id {
    ($name:ident, $number:ty, $digits:literal) => {
        impl $name {
            /// One that stands for none in particular.
            pub(crate) const ANY: Self = Self(1);

            /// From its bytes, of which there have to be as many as an id has; `None` for zero,
            /// which stands for no id (W3C Trace Context).
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let number = <$number>::from_be_bytes(bytes.try_into().ok()?);
                (number != 0).then_some(Self(number))
            }

            /// From hexadecimal digits in any case.
            pub fn from_hex(text: &str) -> Option<Self> {
                let mut bytes = [0; $digits / 2];
                hex::decode_to_slice(text, &mut bytes).ok()?;
                Self::from_bytes(&bytes)
            }

            /// Its bytes, the highest first.
            pub fn bytes(self) -> [u8; $digits / 2] {
                self.0.to_be_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $digits, "x}"), self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAnId;

            fn try_from(text: String) -> Result<Self, NotAnId> {
                Self::from_hex(&text).ok_or(NotAnId)
            }
        }
    };
}

id!(TraceId, u128, 32);
id!(SpanId, u64, 16);

/// What a span is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpanKey {
    /// Its trace.
    pub trace: TraceId,
    /// Itself.
    pub span: SpanId,
}

impl fmt::Display for SpanKey {
    /// `trace:span`, which is also the id of the event that a span becomes (DESIGN 14).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.trace, self.span)
    }
}

/// A span's place between processes (`SpanKind` of opentelemetry-proto).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Within a process, or not said.
    #[default]
    Internal,
    /// Answers a request.
    Server,
    /// Sends a request.
    Client,
    /// Sends or takes a message.
    Message,
}

impl Kind {
    /// From the number of the enum.
    pub const fn from_number(number: i64) -> Self {
        match number {
            2 => Self::Server,
            3 => Self::Client,
            4 | 5 => Self::Message,
            _ => Self::Internal,
        }
    }
}

/// The value of an attribute. Maps are left out: no attribute that matters here has one.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// None, or of a kind that isn't known.
    #[default]
    Empty,
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Any other number, NaN and infinities included.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several of them.
    List(Vec<Self>),
}

impl Value {
    /// As a text: numbers are written out, lists joined by `, `, since some instrumentations cut a
    /// header value at its commas, and a list of character codes is the text that it spells, since
    /// others list the bytes of a value.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Empty => None,
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Int(number) => Some(Cow::Owned(number.to_string())),
            Self::Float(number) => Some(Cow::Owned(number.to_string())),
            Self::Bool(is) => Some(Cow::Borrowed(if *is { "true" } else { "false" })),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes)),
            Self::List(list) => match spelled(list).filter(|_| list.len() > 1) {
                Some(text) => Some(Cow::Owned(text)),
                None => joined(list),
            },
        }
    }

    /// As a whole number; a text of digits counts.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked before")]
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(*number as i64)
            }
            Self::List(list) => match list.as_slice() {
                [only] => only.integer(),
                _ => spelled(list)?.trim().parse().ok(),
            },
            _ => None,
        }
    }
}

fn joined(list: &[Value]) -> Option<Cow<'_, str>> {
    let mut text = String::new();
    for part in list.iter().filter(|part| !matches!(part, Value::List(_))) {
        let Some(part) = part.text() else { continue };
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&part);
    }
    (!text.is_empty()).then_some(Cow::Owned(text))
}

/// The text of a list of codes of printable characters.
fn spelled(list: &[Value]) -> Option<String> {
    let code = |value: &Value| match value {
        Value::Int(code @ (9 | 32..=126)) => u8::try_from(*code).ok().map(char::from),
        _ => None,
    };
    if list.is_empty() {
        return None;
    }
    list.iter().map(code).collect()
}

/// Named values, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(pub Vec<(String, Value)>);

impl Attributes {
    /// The first value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The text of the first of `names` that has one which isn't blank.
    pub fn text(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        names.iter().find_map(|name| {
            self.get(name).and_then(Value::text).filter(|text| !text.trim().is_empty())
        })
    }

    /// The number of the first of `names` that has one.
    pub fn integer(&self, names: &[&str]) -> Option<i64> {
        names.iter().find_map(|name| self.get(name).and_then(Value::integer))
    }

    /// Whether a name begins with `prefix`.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.0.iter().any(|(name, _)| name.starts_with(prefix))
    }

    /// Captured header fields of one side (`http.response.header.`), their names in lower case with
    /// dashes: the Python instrumentations write underscores. Numbers in a list are the bytes of the
    /// value, however few: fields are texts, and the conventions want them as such.
    pub fn headers(&self, prefix: &str) -> Vec<(String, String)> {
        self.0
            .iter()
            .filter_map(|(name, value)| {
                let name = name.strip_prefix(prefix)?;
                let name = name.to_ascii_lowercase().replace('_', "-");
                let spelled = match value {
                    Value::List(list) => spelled(list),
                    _ => None,
                };
                let text = spelled.or_else(|| value.text().map(Cow::into_owned))?;
                Some((name, text))
            })
            .collect()
    }
}

/// Something that happened in a span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawEvent {
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// What.
    pub name: String,
    /// More about it.
    pub attributes: Attributes,
}

/// A span as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct RawSpan {
    /// What it is known by.
    pub key: SpanKey,
    /// The span that it happened in, of the same trace.
    pub parent: Option<SpanId>,
    /// Its place between processes.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// What happened in it.
    pub events: Vec<RawEvent>,
    /// Whether its status is an error.
    pub is_error: bool,
    /// What its status says.
    pub status_message: String,
    /// The W3C `tracestate`.
    pub trace_state: String,
}

impl RawSpan {
    /// How many requests it stands for, by the sampling threshold of its `tracestate`
    /// (`ot=th:c` rejects twelve sixteenths and so stands for four); 1 where none is told.
    pub fn weight(&self) -> u32 {
        let entries = self.trace_state.split(',').map(str::trim);
        let ours = entries.filter_map(|entry| entry.strip_prefix("ot="));
        let mut fields = ours.flat_map(|value| value.split(';'));
        let threshold = fields.find_map(|field| field.strip_prefix("th:"));
        threshold.and_then(weight_of).unwrap_or(1)
    }
}

/// The weight of a rejection threshold of 1 to 14 hexadecimal digits, without trailing zeros: out
/// of 2^56 (OpenTelemetry, "Probability sampling in `TraceState`").
fn weight_of(threshold: &str) -> Option<u32> {
    if threshold.is_empty() || threshold.len() > 14 {
        return None;
    }
    let mut digits = threshold.to_owned();
    while digits.len() < 14 {
        digits.write_char('0').ok()?;
    }
    let rejected = u64::from_str_radix(&digits, 16).ok()?;
    let all = 1_u64 << 56;
    let taken = all - rejected;
    // Rounded to the nearest whole number.
    u32::try_from((all + taken / 2) / taken).ok().filter(|weight| *weight <= MAX_WEIGHT)
}

/// The most requests that one span may stand for; the smallest share that samplers are set to is
/// far larger.
const MAX_WEIGHT: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_any_case_and_have_their_length() {
        let id = TraceId::from_hex("3977EFB7308ec17db38e76032ef278b4").unwrap();
        assert_eq!(id.to_string(), "3977efb7308ec17db38e76032ef278b4");
        assert_eq!(TraceId::from_bytes(&hex::decode(id.to_string()).unwrap()), Some(id));
        for wrong in ["", "00", "+977efb7308ec17db38e76032ef278b4", &"0".repeat(32)] {
            assert_eq!(TraceId::from_hex(wrong), None, "{wrong}");
        }
        assert_eq!(SpanId::from_bytes(&[1; 7]), None);
        assert_eq!(SpanId::from_bytes(&[0; 8]), None);
        assert_eq!(SpanId::from_hex("00000000000000ff").unwrap().to_string(), "00000000000000ff");
    }

    #[test]
    fn values_are_texts_and_numbers_however_they_were_sent() {
        let text = |value: &str| Value::Text(value.to_owned());
        let spelled: Vec<_> = "attempt=1; max=4".bytes().map(|b| Value::Int(b.into())).collect();
        let table = [
            (text("a"), Some("a"), None),
            (text("429"), Some("429"), Some(429)),
            (Value::Int(23), Some("23"), Some(23)),
            (Value::Float(4.0), Some("4"), Some(4)),
            (Value::List(vec![Value::Int(1)]), Some("1"), Some(1)),
            (
                Value::List(vec![text("Sun"), text("29 Nov 2026 21:45:31 GMT")]),
                Some("Sun, 29 Nov 2026 21:45:31 GMT"),
                None,
            ),
            (Value::List(spelled), Some("attempt=1; max=4"), None),
            (Value::List(vec![Value::Int(1), Value::Int(2)]), Some("1, 2"), None),
            (Value::List(Vec::new()), None, None),
            (Value::Empty, None, None),
        ];
        for (value, expected, number) in table {
            assert_eq!(value.text().as_deref(), expected, "{value:?}");
            assert_eq!(value.integer(), number, "{value:?}");
        }
    }

    #[test]
    fn a_header_of_one_byte_was_taken_for_a_number() {
        let bytes = |codes: &[i64]| Value::List(codes.iter().copied().map(Value::Int).collect());
        let table = [
            (bytes(&[50]), "2"),
            (bytes(&[49, 50]), "12"),
            (Value::Bytes(b"2".to_vec()), "2"),
            (Value::Int(50), "50"),
            (Value::List(vec![Value::Text("50".to_owned())]), "50"),
            // No character has this code.
            (bytes(&[7]), "7"),
        ];
        for (value, expected) in table {
            let name = "http.response.header.retry_after".to_owned();
            let of = Attributes(vec![(name, value.clone())]);
            let expected = [("retry-after".to_owned(), expected.to_owned())];
            assert_eq!(of.headers("http.response.header."), expected, "{value:?}");
        }
    }

    #[test]
    fn a_threshold_tells_how_many_a_span_stands_for() {
        let span = |trace_state: &str| RawSpan {
            key: SpanKey {
                trace: TraceId::from_bytes(&[1; 16]).unwrap(),
                span: SpanId::from_bytes(&[1; 8]).unwrap(),
            },
            parent: None,
            kind: Kind::Client,
            name: String::new(),
            start_ns: 0,
            end_ns: 0,
            attributes: Attributes::default(),
            events: Vec::new(),
            is_error: false,
            status_message: String::new(),
            trace_state: trace_state.to_owned(),
        };
        let table = [
            ("", 1),
            ("ot=th:0", 1),
            ("ot=th:8", 2),
            ("ot=th:c", 4),
            ("rojo=00f067aa0ba902b7, ot=rv:abc;th:fd70a3d70a3d71", 100),
            ("ot=th:ffffffffffffff", 1), // one of 2^56: nobody means that
            ("ot=th:xyz", 1),
            ("ot=th:", 1),
            ("other=th:8", 1),
        ];
        for (state, weight) in table {
            assert_eq!(span(state).weight(), weight, "{state}");
        }
    }
}
