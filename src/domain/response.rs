//! One HTTP response as a client or a capture holds it, with the little that is known around it.

use super::access_log::Trail;
use super::classify::Responder;
use super::time::{Millis, UnixMillis};

/// Response header fields in the order they arrived, names in lower case, repeats kept apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderFields(Vec<(String, String)>);

impl HeaderFields {
    /// No fields.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// No fields, with room for `fields` of them.
    pub fn with_capacity(fields: usize) -> Self {
        Self(Vec::with_capacity(fields))
    }

    /// Takes over fields as [`Self::push`] adds them, without copying those that are so already.
    pub fn from_fields(mut fields: Vec<(String, String)>) -> Self {
        // White space begins and ends with one of other bytes.
        let is_trimmed = |text: &str| {
            let ends = [text.as_bytes().first(), text.as_bytes().last()];
            ends.into_iter().flatten().all(u8::is_ascii_graphic)
        };
        for (name, value) in &mut fields {
            name.make_ascii_lowercase();
            for text in [name, value] {
                if is_trimmed(text) {
                    continue;
                }
                let trimmed = text.trim();
                if trimmed.len() < text.len() {
                    *text = trimmed.to_owned();
                }
            }
        }
        Self(fields)
    }

    /// The fields themselves.
    pub fn into_fields(self) -> Vec<(String, String)> {
        self.0
    }

    /// Adds a field; the name is put in lower case and the value loses white space at its ends.
    pub fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }

    /// The first value of `name` (given in lower case).
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Every value of `name` (given in lower case), in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether `name` (given in lower case) is there.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Every field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for HeaderFields {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(fields: T) -> Self {
        let fields = fields.into_iter();
        let mut out = Self::with_capacity(fields.size_hint().0);
        for (name, value) in fields {
            out.push(name.as_ref(), value.as_ref());
        }
        out
    }
}

/// The request that a response answers, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// Method in upper case.
    pub method: Option<String>,
    /// Host in lower case, without a default port.
    pub host: Option<String>,
    /// Path or route template, without a query string.
    pub path: Option<String>,
    /// Request header fields, where a capture holds them.
    pub headers: HeaderFields,
}

/// What `classify` judges: one response and what is known around it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Response {
    /// Status code; `None` where the exchange ended without one.
    pub status: Option<u16>,
    /// Reason phrase of an HTTP/1 status line.
    pub reason: Option<String>,
    /// Protocol as written: `HTTP/1.1`, `HTTP/2`.
    pub version: Option<String>,
    /// Header fields.
    pub headers: HeaderFields,
    /// Whether `headers` holds every field that was sent. Rules that use absence need this:
    /// "not sent" is evidence, "not captured" is none.
    pub headers_complete: bool,
    /// Body as text, cut to a bounded length.
    pub body: Option<String>,
    /// Whether `body` holds the whole body.
    pub body_complete: bool,
    /// The request.
    pub request: RequestFacts,
    /// Who owns the API, where the sender says so (`github`, `stripe`, …).
    pub provider: Option<String>,
    /// When the response arrived, by the observer's clock.
    pub observed_at: Option<UnixMillis>,
    /// Time from request to response.
    pub duration: Option<Millis>,
    /// The hops that the sender declares, from the client's side inwards.
    pub path: Vec<Responder>,
    /// The layer that the client's own instrumentation claims. Weighs as evidence, never decides.
    pub claimed_layer: Option<super::classify::Layer>,
    /// The ray id that the client took from the response, where it did not hand over the field.
    pub ray_id: Option<String>,
    /// A machine-readable error code that the client took from the body.
    pub error_code: Option<String>,
    /// What hops and the origin wrote down about the request themselves.
    pub logs: Trail,
}

impl Response {
    /// The body as text, empty where there is none.
    pub fn body_text(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    /// The media type of the body in lower case, without parameters.
    pub fn media_type(&self) -> Option<String> {
        let value = self.headers.get("content-type")?;
        Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}
