//! HAR 1.2: every exchange that a browser or a proxy recorded.
//!
//! Only what the judgement needs is read: address, method, headers, status, body, time. Cookies,
//! posted data and timings stay behind.

use super::response::{BODY_CAP, address, cut, is_whole_head};
use crate::domain::response::{HeaderFields, RequestFacts, Response};
use crate::domain::time::{Millis, UnixMillis};
use serde::Deserialize;

/// One exchange of a HAR file.
#[derive(Debug, Clone, PartialEq)]
pub struct HarEntry {
    /// Position in the file, from 0.
    pub index: usize,
    /// Address without query string and user information.
    pub url: String,
    /// The response with its request.
    pub response: Response,
}

/// Why a text could not be read as a HAR file.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// Not JSON, or JSON of another shape.
    #[error("not a HAR file: expected JSON with `log.entries`, each with `request` and `response`")]
    Shape(#[source] serde_json::Error),
}

/// Whether a text looks like a HAR file: a JSON object whose first member is `log`, or one with
/// `entries` and no `raw`, since some tools write other members first.
pub fn is_har(text: &str) -> bool {
    let start = text.trim_start_matches(|c: char| c == '\u{feff}' || c.is_whitespace());
    let mut letters = start.bytes().filter(|b| !b.is_ascii_whitespace());
    let begins_with_log = b"{\"log\":{".iter().all(|expected| letters.next() == Some(*expected));
    let is_object = start.starts_with('{');
    begins_with_log || is_object && start.contains("\"entries\"") && !start.contains("\"raw\"")
}

/// Reads every exchange that got a response, in the order of the file. Entries without a status
/// (blocked or aborted by the browser) are left out.
pub fn entries(bytes: &[u8]) -> Result<Vec<HarEntry>, HarError> {
    let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let file: File = serde_json::from_slice(start).map_err(HarError::Shape)?;
    let read = file.log.entries.into_iter().enumerate();
    Ok(read.filter_map(|(index, entry)| entry.into_exchange(index)).collect())
}

#[derive(Deserialize)]
struct File {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: Option<String>,
    #[serde(default)]
    time: Option<f64>,
    request: Request,
    response: Answer,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status: i64,
    #[serde(default)]
    status_text: String,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Field>,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
struct Content {
    #[serde(default)]
    size: Option<i64>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
}

impl Entry {
    fn into_exchange(self, index: usize) -> Option<HarEntry> {
        let status = u16::try_from(self.response.status).ok().filter(|status| *status >= 100)?;
        let mut request = RequestFacts {
            method: Some(self.request.method.to_ascii_uppercase()).filter(|m| !m.is_empty()),
            headers: fields(self.request.headers),
            ..RequestFacts::default()
        };
        address(&self.request.url, &mut request);
        let url = format!(
            "{}{}",
            request.host.as_deref().unwrap_or("(no host)"),
            request.path.as_deref().unwrap_or_default()
        );
        let sent = self.started_date_time.as_deref().and_then(UnixMillis::parse_rfc3339);
        let duration = self.time.filter(|ms| (0.0..8.64e7).contains(ms)).map(whole_ms);
        let version = version(&self.response.http_version);
        let headers = fields(self.response.headers);
        let (body, body_complete) = self.response.content.into_text();
        Some(HarEntry {
            index,
            url,
            response: Response {
                status: Some(status),
                reason: Some(self.response.status_text).filter(|reason| !reason.is_empty()),
                headers_complete: is_whole_head(version.as_deref(), &headers),
                version,
                headers,
                body,
                body_complete,
                request,
                observed_at: sent.map(|at| at.plus(duration.unwrap_or_default())),
                duration,
                ..Response::default()
            },
        })
    }
}

/// Header fields without the pseudo-fields of HTTP/2 and HTTP/3.
fn fields(list: Vec<Field>) -> HeaderFields {
    list.into_iter()
        .filter(|field| !field.name.starts_with(':'))
        .map(|field| (field.name, field.value))
        .collect()
}

/// Browsers write `http/1.1`, `h2`, `HTTP/2.0` or `h3`.
fn version(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_prefix("http/").or_else(|| lower.strip_prefix('h'))?;
    let number = number.strip_suffix(".0").filter(|n| *n != "1").unwrap_or(number);
    (!number.is_empty()).then(|| format!("HTTP/{number}"))
}

#[expect(clippy::cast_possible_truncation, reason = "the caller keeps it between 0 and a day")]
fn whole_ms(ms: f64) -> Millis {
    Millis(ms.round() as i64)
}

impl Content {
    fn into_text(self) -> (Option<String>, bool) {
        let Some(text) = self.text else {
            let is_empty = self.size == Some(0);
            return (is_empty.then(String::new), is_empty);
        };
        let text = if self.encoding.as_deref() == Some("base64") {
            match decode_base64(&text, BODY_CAP.saturating_mul(2)) {
                Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                None => return (None, false),
            }
        } else {
            text
        };
        let whole = text.len() <= BODY_CAP;
        let size = self.size.and_then(|size| usize::try_from(size).ok());
        let agrees = size.is_none_or(|size| size <= text.len());
        (Some(cut(&text, BODY_CAP).to_owned()), whole && agrees)
    }
}

/// Decodes base64 (RFC 4648 section 4; white space is skipped), at most `cap` bytes.
fn decode_base64(text: &str, cap: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bits: u32 = 0;
    let mut held: u32 = 0;
    for letter in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
        let value = match letter {
            b'A'..=b'Z' => letter.wrapping_sub(b'A'),
            b'a'..=b'z' => letter.wrapping_sub(b'a').wrapping_add(26),
            b'0'..=b'9' => letter.wrapping_sub(b'0').wrapping_add(52),
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held = held.wrapping_add(6);
        if held >= 8 {
            held = held.wrapping_sub(8);
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
        if out.len() >= cap {
            break;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{ "log": {"version":"1.2","entries":[
      {"startedDateTime":"2026-11-11T07:29:00.000Z","time":120.4,
       "request":{"method":"GET","url":"https://API.example.com/v1/a?key=secret","httpVersion":"h2","headers":[{"name":":authority","value":"x"}]},
       "response":{"status":429,"statusText":"","httpVersion":"h2","headers":[{"name":"Retry-After","value":"7"},{"name":"date","value":"x"},{"name":"server","value":"y"}],
         "content":{"size":12,"mimeType":"text/plain","text":"ZXJyb3IgMTAxNQ==","encoding":"base64"}}},
      {"request":{"method":"GET","url":"data:text/plain,x","headers":[]},"response":{"status":0,"content":{}}},
      {"request":{"method":"POST","url":"http://b.example/x","headers":[]},"response":{"status":200,"content":{"size":5}}}
    ]}}"#;

    #[test]
    fn entries_with_a_status_are_read() {
        assert!(is_har(FILE));
        let read = entries(FILE.as_bytes()).unwrap();
        assert_eq!(read.iter().map(|e| e.index).collect::<Vec<_>>(), [0, 2]);
        let first = &read[0];
        assert_eq!(first.url, "api.example.com/v1/a");
        assert_eq!(first.response.body.as_deref(), Some("error 1015"));
        assert_eq!(first.response.version.as_deref(), Some("HTTP/2"));
        assert_eq!(first.response.observed_at.unwrap().to_rfc3339(), "2026-11-11T07:29:00.120Z");
        assert!(first.response.request.headers.is_empty(), "pseudo-fields are no headers");
        assert!(first.response.headers_complete);
        assert_eq!(read[1].response.body, None);
        assert!(!read[1].response.body_complete);
    }

    #[test]
    fn other_json_says_what_was_expected() {
        let error = entries(b"{\"log\":{}}").unwrap_err();
        assert!(error.to_string().contains("log.entries"));
        assert!(!is_har("HTTP/1.1 429 Too Many Requests"));
        assert!(is_har("\u{feff}{\"comment\": \"\", \"log\": {\"entries\": []}}"));
        assert!(!is_har("{\"raw\": \"HTTP/1.1 429\", \"entries\": 1}"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(0u8..=255, 0..200)) {
            proptest::prop_assert!(entries(&bytes).is_err());
        }

        #[test]
        fn any_text_decodes_without_panic(text in "\\PC{0,80}", cap in 0usize..40) {
            let decoded = decode_base64(&text, cap);
            proptest::prop_assert!(decoded.is_none_or(|bytes| bytes.len() <= cap.max(1)));
        }
    }
}
