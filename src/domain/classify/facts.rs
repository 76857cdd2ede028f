//! What signatures look at: one response behind questions that cost little and never allocate for
//! a signature that has nothing to say.

use super::body::{self, JsonField};
use crate::domain::response::Response;
use std::borrow::Cow;
use std::cell::OnceCell;

/// How many bytes of a body are looked at.
const BODY_LOOK: usize = 16 * 1024;

/// One response, prepared for signatures.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// The response itself.
    pub(crate) response: &'a Response,
    /// Its status code; 0 where there is none.
    pub(crate) status: u16,
    /// `Server` as sent; empty where absent.
    pub(crate) server: &'a str,
    /// Media type as sent, without parameters; empty where absent.
    pub(crate) media: &'a str,
    /// The start of the body, without white space at its ends.
    pub(crate) body: &'a str,
    /// Names that are surely absent have a bit missing here.
    names: u64,
    lower: OnceCell<Cow<'a, str>>,
    json: OnceCell<Vec<JsonField<'a>>>,
}

/// The bit of a header name: cheap, and different enough for the few dozen names in use.
const fn name_bit(name: &str) -> u64 {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return 1;
    }
    let (first, last) = (bytes[0] as usize, bytes[bytes.len() - 1] as usize);
    let middle = bytes[bytes.len() / 2] as usize;
    1 << ((bytes.len() * 31 + first * 7 + middle * 13 + last * 3) % 64)
}

/// The first `limit` bytes of `text`, cut at a character.
pub(crate) fn start_of(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while end > 0 && !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Whether `text` starts with `prefix`, letter case of ASCII aside.
pub(crate) fn starts_with_ci(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

impl<'a> Facts<'a> {
    /// Looks at `response` once.
    pub(crate) fn of(response: &'a Response) -> Self {
        let mut names = 0;
        for (name, _) in response.headers.iter() {
            names |= name_bit(name);
        }
        let media = response.headers.get("content-type").unwrap_or_default();
        Self {
            response,
            status: response.status.unwrap_or_default(),
            server: response.headers.get("server").unwrap_or_default(),
            media: media.split(';').next().unwrap_or_default().trim(),
            body: start_of(response.body_text(), BODY_LOOK).trim(),
            names,
            lower: OnceCell::new(),
            json: OnceCell::new(),
        }
    }

    /// The first value of a header (name in lower case).
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        if self.names & name_bit(name) == 0 {
            return None;
        }
        self.response.headers.get(name)
    }

    /// Whether a header is there (name in lower case).
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a header is there with this value, letter case aside.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|v| v.eq_ignore_ascii_case(value))
    }

    /// Whether any value of a header holds `part`, letter case aside.
    pub(crate) fn holds(&self, name: &'a str, part: &str) -> bool {
        self.has(name) && self.response.headers.all(name).any(|v| contains_ci(v, part))
    }

    /// The header whose name starts with `prefix` (lower case) and comes first in the alphabet, so
    /// that the order in which fields were sent changes nothing.
    pub(crate) fn first_with_prefix(&self, prefix: &str) -> Option<(&'a str, &'a str)> {
        let all = self.response.headers.iter().filter(|(name, _)| name.starts_with(prefix));
        all.min_by_key(|(name, _)| *name)
    }

    /// Whether this header was surely not sent: it is not here and the capture holds every field.
    pub(crate) fn not_sent(&self, name: &str) -> bool {
        self.response.headers_complete && !self.has(name)
    }

    /// Whether `Server` starts with this product token, letter case aside.
    pub(crate) fn server_is(&self, product: &str) -> bool {
        starts_with_ci(self.server, product)
    }

    /// Whether the media type is this one, letter case aside.
    pub(crate) fn media_is(&self, media: &str) -> bool {
        self.media.eq_ignore_ascii_case(media)
    }

    /// Whether the media type or the body itself says JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.body.starts_with('{')
            || self.body.starts_with('[')
            || (self.body.is_empty()
                && (self.media.ends_with("json") || self.media.ends_with("JSON")))
    }

    /// The body in lower case, made once.
    pub(crate) fn lower(&self) -> &str {
        self.lower.get_or_init(|| {
            if self.body.bytes().any(|b| b.is_ascii_uppercase()) {
                Cow::Owned(self.body.to_ascii_lowercase())
            } else {
                Cow::Borrowed(self.body)
            }
        })
    }

    /// Whether the body holds `phrase` (lower case), letter case aside.
    pub(crate) fn says(&self, phrase: &str) -> bool {
        self.body.len() >= phrase.len() && self.lower().contains(phrase)
    }

    /// The scalar values in a JSON body, with their keys; nothing for other bodies. Read once.
    pub(crate) fn json(&self) -> impl Iterator<Item = JsonField<'a>> {
        self.json.get_or_init(|| body::fields(self.body).collect()).iter().copied()
    }

    /// The first string or number under `key` anywhere in a JSON body.
    pub(crate) fn json_value(&self, key: &str) -> Option<&'a str> {
        self.json().find(|f| f.key == key).map(|f| f.value)
    }

    /// The body is known to be empty: captured whole and without a byte, or announced as zero.
    pub(crate) fn body_is_empty(&self) -> bool {
        self.body.is_empty()
            && (self.get("content-length") == Some("0")
                || (self.response.body_complete && !self.has("content-length")))
    }

    /// `Content-Length` as a number.
    pub(crate) fn content_length(&self) -> Option<usize> {
        self.get("content-length")?.parse().ok()
    }

    /// `Age` as a number of seconds.
    pub(crate) fn age(&self) -> Option<u64> {
        self.get("age")?.parse().ok()
    }

    /// The request's host; empty where not known.
    pub(crate) fn host(&self) -> &'a str {
        self.response.request.host.as_deref().unwrap_or_default()
    }

    /// The request's path or route; empty where not known.
    pub(crate) fn path(&self) -> &'a str {
        self.response.request.path.as_deref().unwrap_or_default()
    }

    /// Whether the request's host is `domain` or lies below it (both lower case).
    pub(crate) fn host_in(&self, domain: &str) -> bool {
        let host = self.host();
        let Some(start) = host.len().checked_sub(domain.len()) else { return false };
        // Most domains that are asked about differ in their first letter already.
        host.as_bytes().get(start) == domain.as_bytes().first()
            && host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// A header as it is shown in evidence: `name: value`, the value shortened.
    pub(crate) fn quote(&self, name: &str) -> String {
        format!("{name}: {}", start_of(self.get(name).unwrap_or_default(), 80))
    }
}

/// Whether `text` holds `part`, letter case of ASCII aside.
pub(crate) fn contains_ci(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_matches_its_domain_and_what_lies_below() {
        let mut response = Response::default();
        response.request.host = Some("eu.api.example.com".into());
        let facts = Facts::of(&response);
        assert!(facts.host_in("api.example.com") && facts.host_in("example.com"));
        assert!(!facts.host_in("i.example.com") && !facts.host_in("api.example.org"));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(start_of("aé", 2), "a");
        assert_eq!(start_of("aé", 3), "aé");
    }
}
