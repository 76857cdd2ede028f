//! The one place where errors become status codes: problem+json (RFC 9457) for programs, a page
//! with a way onward for people. The visitor reads what to do; the log reads the cause.

use crate::domain::spelling::spelled_enum;
use crate::store::StoreError;
use axum::Json;
use axum::extract::Request;
use axum::extract::rejection::{FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What a visitor is told of a defect of ours.
const LOGGED: &str = "It has been logged. Trying again may help.";

/// After this long the pool has tried to connect again.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(5);
/// Somebody has to make room; asking much sooner changes nothing.
const ROOM_WAIT: Duration = Duration::from_secs(30);

spelled_enum! {
    /// What went wrong, in one stable word: the `code` of a problem+json answer.
    pub enum Code {
        /// The request makes no sense as HTTP: no host, or several.
        BadRequest => "bad-request",
        /// A value in the address or in a form can't be used.
        InvalidParameter => "invalid-parameter",
        /// The body isn't what it says it is.
        InvalidBody => "invalid-body",
        /// The body can't be decompressed.
        InvalidCompression => "invalid-compression",
        /// A token is needed and none, or a wrong one, was sent.
        TokenRequired => "token-required",
        /// A write that another site's page made the browser send.
        ForeignOrigin => "foreign-origin",
        /// There is nothing at this address.
        NotFound => "not-found",
        /// The address doesn't take this method.
        MethodNotAllowed => "method-not-allowed",
        /// It isn't in the state that this needs.
        Conflict => "conflict",
        /// The body took too long to arrive.
        RequestTimeout => "request-timeout",
        /// The body, or what it inflates to, or the number of items, is too large.
        TooLarge => "too-large",
        /// A media type that isn't read here.
        UnsupportedMediaType => "unsupported-media-type",
        /// A content coding that isn't read here.
        UnsupportedEncoding => "unsupported-encoding",
        /// A host name that this service doesn't answer for.
        UnknownHost => "unknown-host",
        /// Nothing in the body could be stored.
        NothingStorable => "nothing-storable",
        /// A defect of ours.
        Internal => "internal",
        /// The queue for writing is full.
        QueueFull => "queue-full",
        /// This sender has its fair share of the queue waiting already; others still get in.
        OverFairShare => "over-fair-share",
        /// The database can't be reached.
        StoreUnavailable => "store-unavailable",
        /// There is no room left for the database.
        StoreFull => "store-full",
        /// The database is damaged.
        StoreDamaged => "store-damaged",
        /// The service is about to stop.
        Stopping => "stopping",
        /// The answer took too long.
        TimedOut => "timed-out",
    }
}

impl Code {
    /// The status code that goes with it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest
            | Self::InvalidParameter
            | Self::InvalidBody
            | Self::InvalidCompression => StatusCode::BAD_REQUEST,
            Self::TokenRequired => StatusCode::UNAUTHORIZED,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict => StatusCode::CONFLICT,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType | Self::UnsupportedEncoding => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::UnknownHost => StatusCode::MISDIRECTED_REQUEST,
            Self::OverFairShare => StatusCode::TOO_MANY_REQUESTS,
            Self::NothingStorable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal | Self::StoreDamaged => StatusCode::INTERNAL_SERVER_ERROR,
            // Not 507 where there is no room: what was answered so must not be sent again by a
            // program (RFC 4918 section 11.5), and senders are to do just that.
            Self::QueueFull
            | Self::StoreUnavailable
            | Self::StoreFull
            | Self::Stopping
            | Self::TimedOut => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// A short summary for people, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request can't be understood",
            Self::InvalidParameter => "A value can't be used",
            Self::InvalidBody => "The body can't be read",
            Self::InvalidCompression => "The body can't be decompressed",
            Self::TokenRequired => "A token is needed",
            Self::ForeignOrigin => "Refused: sent by a page of another site",
            Self::NotFound => "There is nothing at this address",
            Self::MethodNotAllowed => "This address doesn't take this method",
            Self::Conflict => "That isn't possible in this state",
            Self::RequestTimeout => "The request took too long to arrive",
            Self::TooLarge => "Too large",
            Self::UnsupportedMediaType => "This media type isn't read here",
            Self::UnsupportedEncoding => "This content coding isn't read here",
            Self::UnknownHost => "This service doesn't answer for that host name",
            Self::NothingStorable => "Nothing in it could be stored",
            Self::Internal => "Something broke on our side",
            Self::QueueFull => "Too much is waiting to be written",
            Self::OverFairShare => "Too much from this sender is waiting to be written",
            Self::StoreUnavailable => "The database can't be reached",
            Self::StoreFull => "There is no room left for the database",
            Self::StoreDamaged => "The database is damaged",
            Self::Stopping => "The service is about to stop",
            Self::TimedOut => "The answer took too long",
        }
    }
}

/// What a visitor is told when something goes wrong. Handlers return it as their error; it is
/// written as problem+json, and the layers turn it into a page where a person asked.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What went wrong.
    pub code: Code,
    /// What the visitor can do about it; our own words only.
    pub detail: String,
    retry_after: Option<u64>,
    headers: Vec<(HeaderName, HeaderValue)>,
    extra: Map<String, Value>,
    /// A question to the store failed.
    is_of_read: bool,
}

impl Failure {
    /// A failure of this kind; `detail` says what the visitor can do.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (retry_after, headers, extra) = (None, Vec::new(), Map::new());
        Self { code, detail: detail.into(), retry_after, headers, extra, is_of_read: false }
    }

    /// As [`Failure::new`], with an error's text made a sentence. Only for errors whose text is
    /// written for the sender.
    pub(crate) fn told(code: Code, error: &dyn std::error::Error) -> Self {
        let text = error.to_string();
        let mut rest = text.chars();
        let first = rest.next().map(char::to_uppercase);
        Self::new(
            code,
            format!("{}{}.", first.into_iter().flatten().collect::<String>(), rest.as_str()),
        )
    }

    /// Nothing is known under this name or id; `what` says of what kind it would be.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no {what} here under that name or id."))
    }

    /// A value in the address or in a form can't be used.
    pub fn invalid_parameter(name: &str, expected: &str) -> Self {
        Self::new(Code::InvalidParameter, format!("{name}: expected {expected}."))
            .with("parameter", json!(name))
    }

    /// A defect of ours: the cause is logged here, and the visitor is told none of it.
    pub fn internal(cause: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = cause, "a request failed");
        Self::new(Code::Internal, LOGGED)
    }

    /// Says when to come again, in whole seconds from one on, rounded up.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(60));
        self
    }

    /// Whether a question to the store failed, be it that it took too long.
    pub(crate) fn is_of_read(&self) -> bool {
        self.is_of_read
    }

    /// Adds a member to the problem+json.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    /// Adds a header field to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn body(&self) -> Value {
        let mut members = Map::new();
        members.insert("title".to_owned(), json!(self.code.title()));
        members.insert("status".to_owned(), json!(self.code.status().as_u16()));
        members.insert("code".to_owned(), json!(self.code));
        members.insert("detail".to_owned(), json!(self.detail));
        members.extend(self.extra.clone());
        Value::Object(members)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        // The layer that makes pages for people finds it here.
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether whoever asked is a person with a browser at one of the pages: such a visitor gets a page
/// where something goes wrong, everybody else problem+json.
pub(crate) fn wants_page(request: &Request) -> bool {
    let path = request.uri().path();
    let is_for_programs = ["/api/", "/v1/", "/healthz", "/readyz", "/metrics"]
        .iter()
        .any(|start| path.starts_with(start));
    let is_twin = [".json", ".md"].iter().any(|end| path.ends_with(end));
    let accept = request.headers().get_all(header::ACCEPT);
    let takes_html = accept.iter().any(|value| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("text/html"))
    });
    takes_html && !is_for_programs && !is_twin
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let cause = &error as &(dyn std::error::Error + 'static);
        if matches!(error, StoreError::TimedOut(_)) {
            tracing::warn!(error = cause, "a question to the store took too long");
        } else {
            tracing::error!(error = cause, "a question to the store failed");
        }
        Self { is_of_read: true, ..Self::of_store(&error) }
    }
}

impl Failure {
    /// What the store's error means for a visitor; where it was handled, it was logged.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::TimedOut(_) => {
                Self::new(Code::TimedOut, "Ask for a shorter window or a narrower scope.")
            }
            StoreError::Full(_) => {
                let detail = "Nothing was stored. Send it again after the wait; what is stored can \
                              still be read.";
                Self::new(Code::StoreFull, detail).retry_after(ROOM_WAIT)
            }
            StoreError::Damaged(_) => {
                let detail = "It has to be restored from a copy; the log says what was found.";
                Self::new(Code::StoreDamaged, detail)
            }
            _ if error.is_passing() => {
                let detail = "Try again after the wait; what is sent twice is stored once.";
                Self::new(Code::StoreUnavailable, detail).retry_after(STORE_WAIT)
            }
            _ => Self::new(Code::Internal, LOGGED),
        }
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(Code::InvalidParameter, rejection.body_text())
    }
}

impl From<PathRejection> for Failure {
    fn from(rejection: PathRejection) -> Self {
        tracing::debug!(error = &rejection as &dyn std::error::Error, "a path can't be read");
        Self::new(Code::InvalidParameter, "A part of the path can't be read.")
    }
}

impl From<FormRejection> for Failure {
    fn from(rejection: FormRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            _ => Code::InvalidBody,
        };
        Self::new(code, "Expected the fields of a form.")
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            _ => Code::InvalidBody,
        };
        let detail = match &rejection {
            JsonRejection::MissingJsonContentType(_) => {
                "Send it with content-type: application/json.".to_owned()
            }
            JsonRejection::JsonDataError(error) => error.body_text(),
            _ => "Expected JSON.".to_owned(),
        };
        Self::new(code, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_written_in_whole_seconds_rounded_up() {
        for (wait_ms, seconds) in [(0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (30_000, "30")] {
            let failure = Failure::new(Code::QueueFull, "Wait.")
                .retry_after(Duration::from_millis(wait_ms))
                .into_response();
            assert_eq!(failure.headers()[header::RETRY_AFTER], seconds);
            assert_eq!(failure.headers()[header::CACHE_CONTROL], "no-store");
            assert_eq!(failure.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    #[test]
    fn a_defect_of_ours_tells_the_visitor_nothing_of_its_cause() {
        let cause = std::io::Error::other("password=hunter2 at /srv/db");
        let failure = Failure::internal(&cause);
        assert!(!failure.body().to_string().contains("hunter2"));
    }
}
