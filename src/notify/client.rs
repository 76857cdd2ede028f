//! The HTTP client for everything that is sent to others.
//!
//! It follows no redirect: what is sent goes to the address that was configured, or nowhere. Answers
//! are read up to a limit. Nothing it says holds an address, which may be a secret.

use crate::clock::Clock;
use crate::domain::redact;
use crate::domain::response::HeaderFields;
use crate::domain::retry_after::{self, Flag};
use crate::domain::retry_policy::Failure;
use crate::domain::time::Millis;
use crate::export::text;
use opentelemetry::propagation::Injector;
pub use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// TLS can't be set up.
    #[error("the HTTP client can't be built")]
    Build(#[source] reqwest::Error),
}

/// Sends requests.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    clock: Arc<dyn Clock>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Outgoing<'a> {
    /// How.
    pub method: Method,
    /// Where to; may be a secret.
    pub url: &'a str,
    /// Header fields beside those of the client. Values that can't stand in a header are left out.
    pub headers: &'a [(&'a str, &'a str)],
    /// What; sent as JSON.
    pub body: Option<&'a str>,
    /// Bytes of the answer that are read.
    pub most_bytes: usize,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// How long it asks to wait from its arrival on.
    pub promised: Option<Millis>,
    /// Its first bytes.
    pub body: Vec<u8>,
    /// Whether those are all.
    pub is_whole: bool,
}

/// No answer came, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// Characters of an answer that are shown.
const SHOWN_CHARS: usize = 200;

impl Client {
    /// With a limit for the time from the first byte sent to the last one read.
    pub fn new(timeout: Duration, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        // Fails only where a provider is installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .connect_timeout(timeout.min(Duration::from_secs(5)))
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("retrylens/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Build)?;
        Ok(Self { http, clock })
    }

    /// Sends a request once. Where our spans are exported it carries the `traceparent` of the present
    /// one.
    pub async fn send(&self, request: &Outgoing<'_>) -> Result<Answer, NoAnswer> {
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            if let (Ok(name), Ok(mut value)) =
                (HeaderName::try_from(*name), HeaderValue::try_from(*value))
            {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let context = tracing::Span::current().context();
        opentelemetry::global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&context, &mut Fields(&mut headers));
        });
        let mut built = self.http.request(request.method.clone(), request.url).headers(headers);
        if let Some(body) = request.body {
            built = built.header("content-type", "application/json").body(body.to_owned());
        }
        let mut response = built.send().await.map_err(|error| NoAnswer(problem(error)))?;
        let status = response.status().as_u16();
        let promised = promised(response.headers(), &*self.clock);
        let mut body = Vec::new();
        let is_whole = loop {
            match response.chunk().await {
                Ok(None) => break true,
                Ok(Some(chunk)) => {
                    let room = request.most_bytes.saturating_sub(body.len());
                    body.extend(chunk.iter().take(room));
                    if chunk.len() > room {
                        break false;
                    }
                }
                Err(_) => break false,
            }
        };
        Ok(Answer { status, promised, body, is_whole })
    }
}

impl Answer {
    /// Whether it says that it worked.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// As the policy looks at it.
    pub fn failure(&self) -> Failure {
        Failure::Answered { status: self.status, promised: self.promised }
    }

    /// What it says, for people: one short line, with nothing in it that looks secret.
    pub fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let line = body.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = redact::text(&line).text;
        let line = text::visible(&line);
        let (line, is_cut) = text::cut(&line, SHOWN_CHARS);
        let more = if is_cut { "…" } else { "" };
        let line = if line.is_empty() { String::new() } else { format!(": {line}{more}") };
        format!("answered {}{line}", self.status)
    }
}

/// How long an answer asks to wait: all three forms of RFC 9110 section 10.2.3, less its `Age`; where
/// it is none of them, what it most likely means. A moment written as seconds since 1970 is one:
/// nobody asks to wait for fifty years. A number too large to count with is [`LONGEST`].
fn promised(headers: &HeaderMap, clock: &dyn Clock) -> Option<Millis> {
    let fields: HeaderFields = headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let reading = retry_after::read(&fields, Some(clock.now()));
    let moments = [Flag::EpochS, Flag::EpochMs, Flag::CalendarInt];
    let is_moment = moments.into_iter().any(|flag| reading.has(flag));
    let meant = reading.lenient_delay.filter(|_| is_moment);
    let wait = meant.or(reading.remaining).or(reading.strict_delay).or(reading.lenient_delay);
    let is_too_large = reading.has(Flag::Overflow);
    wait.or(is_too_large.then_some(LONGEST)).map(|wait| wait.min(LONGEST))
}

/// What a longer wait counts as: 2^31 seconds, as for caches (RFC 9111 section 1.2.2).
const LONGEST: Millis = Millis((1 << 31) * 1_000);

/// What went wrong, down to its root, without the address.
fn problem(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "gave no answer in time".to_owned();
    }
    let mut said = format!("gave no answer: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    redact::text(&said).text
}

struct Fields<'a>(&'a mut HeaderMap);

impl Injector for Fields<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::time::UnixMillis;

    fn promised_by(fields: &[(&'static str, &'static str)]) -> Option<i64> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let now = UnixMillis::parse_rfc3339("2026-11-11T07:29:05Z").unwrap();
        promised(&headers, &ManualClock::at(now)).map(|wait| wait.0)
    }

    #[test]
    fn every_form_of_retry_after_is_a_wait() {
        let date = ("date", "Wed, 11 Nov 2026 07:29:00 GMT");
        for (fields, expected) in [
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![date, ("retry-after", "Wed, 11 Nov 2026 07:29:30 GMT")], Some(30_000)),
            (vec![date, ("retry-after", "Wednesday, 11-Nov-26 07:29:30 GMT")], Some(30_000)),
            (vec![date, ("retry-after", "Wed Nov 11 07:29:30 2026")], Some(30_000)),
            (vec![("retry-after", "Wed, 11 Nov 2026 07:29:30 GMT")], Some(25_000)),
            (vec![("retry-after", "30"), ("age", "10")], Some(20_000)),
            (vec![("retry-after", "1.5")], Some(1_500)),
            (vec![("retry-after", "1794382175")], Some(30_000)),
            (vec![("retry-after", "1794382175000")], Some(30_000)),
            (vec![("retry-after", "1794382000")], Some(0)),
            (vec![("retry-after", "31536000")], Some(31_536_000_000)),
            (vec![("retry-after", "1000000000000000")], Some(LONGEST.0)),
            (vec![("retry-after", "99999999999999999999")], Some(LONGEST.0)),
            (vec![("retry-after", "-5")], Some(0)),
            (vec![("retry-after", "soon")], None),
            (vec![], None),
        ] {
            assert_eq!(promised_by(&fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn what_is_shown_of_an_answer_is_short_and_keeps_secrets() {
        let answer = |body: &str| Answer {
            status: 400,
            promised: None,
            body: body.as_bytes().to_vec(),
            is_whole: true,
        };
        assert_eq!(answer("").shown(), "answered 400");
        assert_eq!(answer("invalid\r\n blocks ").shown(), "answered 400: invalid blocks");
        assert!(answer(&"x".repeat(900)).shown().chars().count() < 230);
        let shown = answer("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345").shown();
        assert!(!shown.contains("abcdefghijkl"), "{shown}");
    }
}
