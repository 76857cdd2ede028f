//! An event: what one vantage saw of one attempt, after the door has checked and cleaned it.

use super::access_log::{LogFacts, OriginRecord, Trail};
use super::classify::Layer;
use super::response::{HeaderFields, RequestFacts, Response};
use super::spans::Marks;
use super::spelling::spelled_enum;
use super::time::{MINUTE_MS, Millis, UnixMillis};
use serde::{Deserialize, Serialize};

/// How far ahead of our clock an event may be before it is told: its sender's clock is fast, or its
/// times are in another unit or zone.
pub const MOST_AHEAD: Millis = Millis(5 * MINUTE_MS);

spelled_enum! {
    /// From where an attempt was seen.
    pub enum Vantage {
        /// The caller. Only these count in numbers and alerts (DESIGN 14).
        Client => "client",
        /// A hop on the path.
        Gateway => "gateway",
        /// The application that was called.
        Origin => "origin",
    }
}

spelled_enum! {
    /// Who re-sent an attempt.
    pub enum RetryLayer {
        /// The application's own loop.
        App => "app",
        /// A vendor's SDK.
        Sdk => "sdk",
        /// The HTTP client library.
        HttpClient => "http-client",
        /// A gateway or proxy.
        Gateway => "gateway",
        /// A queue that delivers again.
        Queue => "queue",
    }
}

spelled_enum! {
    /// Why there was no usable response.
    pub enum AttemptError {
        /// No answer in time.
        Timeout => "timeout",
        /// The connection broke.
        ConnectionReset => "connection-reset",
        /// No connection could be made.
        Connect => "connect",
        /// The name did not resolve.
        Dns => "dns",
        /// The TLS handshake failed.
        Tls => "tls",
        /// The caller gave up.
        Cancelled => "cancelled",
        /// No connection was free in the caller's pool.
        PoolTimeout => "pool-timeout",
        /// The response could not be read.
        Parse => "parse",
        /// The caller's own breaker was open; never a server's limit.
        CircuitOpen => "circuit-open",
    }
}

spelled_enum! {
    /// How the client's retry logic went on after this attempt.
    pub enum Outcome {
        /// Another attempt will follow.
        Retrying => "retrying",
        /// The operation ended well.
        Succeeded => "succeeded",
        /// No attempts were left.
        Exhausted => "exhausted",
        /// No time was left.
        DeadlineExceeded => "deadline-exceeded",
        /// The caller gave up.
        Cancelled => "cancelled",
        /// The answer is not one to retry.
        NotRetryable => "not-retryable",
        /// Handed to a later run.
        Rescheduled => "rescheduled",
        /// Put aside for a person.
        DeadLettered => "dead-lettered",
    }
}

/// One attempt as one vantage saw it. Built by `ingest` alone, which checks lengths, removes
/// secrets and query strings, and hashes raw keys; field meanings are those of DESIGN 4.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Id given by the sender, else the SHA-256 of the accepted content (DESIGN 14).
    pub event_id: String,
    /// Groups the attempts of one intent.
    pub operation_id: Option<String>,
    /// Number of this attempt in its operation, from 1.
    pub attempt: u32,
    /// When the request was sent.
    pub occurred_at: UnixMillis,
    /// Time from sending to the answer.
    pub duration_ms: Option<i64>,
    /// Who saw it.
    pub vantage: Vantage,
    /// The calling service.
    pub service: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// The calling process.
    pub instance: Option<String>,
    /// Who re-sent it.
    pub retry_layer: Option<RetryLayer>,
    /// The sender's own word for how urgent it is.
    pub priority: Option<String>,
    /// Method in upper case.
    pub method: Option<String>,
    /// The upstream: host in lower case, without a default port.
    pub host: String,
    /// Route template or path, without a query string.
    pub route: Option<String>,
    /// Status code of the answer.
    pub status: Option<u16>,
    /// Why there was no usable answer.
    pub error: Option<AttemptError>,
    /// `Retry-After` exactly as received.
    pub retry_after: Option<String>,
    /// The wait chosen after this attempt.
    pub computed_delay_ms: Option<i64>,
    /// What the wait was taken from, in the sender's words.
    pub delay_source: Option<String>,
    /// Request id.
    pub request_id: Option<String>,
    /// Ray id.
    pub ray_id: Option<String>,
    /// The layer that the client claims answered.
    pub layer: Option<Layer>,
    /// Hash of the API key.
    pub key_hash: Option<String>,
    /// What the key is: `api-key`, `token`, …
    pub key_kind: Option<String>,
    /// Hash of the idempotency key.
    pub idempotency_key_hash: Option<String>,
    /// Hash of the request body.
    pub body_hash: Option<String>,
    /// Hash of the address that the server sees.
    pub client_address_hash: Option<String>,
    /// Hash of the account.
    pub account_hash: Option<String>,
    /// How the retry logic went on.
    pub outcome: Option<Outcome>,
    /// The client's limit of attempts, the first one counted.
    pub attempts_max: Option<u32>,
    /// The client's time limit for one attempt.
    pub timeout_ms: Option<i64>,
    /// The client's time limit for the operation.
    pub deadline_ms: Option<i64>,
    /// Allow-listed response header fields.
    pub headers: Vec<(String, String)>,
    /// Media type of the answer's body, where `headers` has none.
    pub content_type: Option<String>,
    /// Machine-readable code from the answer's body.
    pub error_code: Option<String>,
    /// The start of the answer's body, at most 2 KiB, only for limited or failed attempts.
    pub body_sample: Option<String>,
    /// Trace id.
    pub trace_id: Option<String>,
    /// Span id.
    pub span_id: Option<String>,
    /// How many identical attempts this event stands for.
    pub count: u32,
    /// How many values were replaced because they looked secret.
    pub redactions: u32,
    /// How it was derived, where it was: number and operation of an attempt are then not the
    /// sender's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<Box<Marks>>,
    /// What the gateway's own log line says of it; of limited and failed requests alone, and of
    /// those that the gateway repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<LogFacts>>,
}

impl Event {
    /// When the answer came: sent time plus duration, or the sent time where none is known.
    pub fn answered_at(&self) -> UnixMillis {
        self.occurred_at.plus(Millis(self.duration_ms.unwrap_or(0)))
    }

    /// A status code below 400 without an error.
    pub fn is_success(&self) -> bool {
        self.error.is_none() && self.status.is_some_and(|status| (100..400).contains(&status))
    }

    /// The response in this event, as `classify` judges it. Headers of an event are an allow-listed
    /// part, so they never count as complete.
    pub fn response(&self) -> Response {
        self.clone().lend()
    }

    /// What `look` makes of [`Self::response`], whose texts are this event's own meanwhile: every
    /// event is judged as it comes in, and copies would cost more than the verdict. Header names
    /// are in lower case afterwards, and values without white space at their ends.
    pub fn with_response<T>(&mut self, look: impl FnOnce(&Response) -> T) -> T {
        let own = self.headers.len();
        let response = self.lend();
        let seen = look(&response);
        let Response { headers, body, request, ray_id, error_code, .. } = response;
        self.headers = headers.into_fields();
        self.headers.truncate(own);
        self.body_sample = body;
        self.method = request.method;
        self.host = request.host.unwrap_or_default();
        self.route = request.path;
        self.ray_id = ray_id;
        self.error_code = error_code;
        seen
    }

    /// The response; its texts are taken out of the event.
    fn lend(&mut self) -> Response {
        let mut headers = HeaderFields::from_fields(std::mem::take(&mut self.headers));
        let extra = [
            ("retry-after", self.retry_after.as_ref()),
            ("content-type", self.content_type.as_ref()),
        ];
        for (name, value) in extra {
            if let Some(value) = value.filter(|_| !headers.has(name)) {
                headers.push(name, value);
            }
        }
        Response {
            status: self.status,
            headers,
            body: self.body_sample.take(),
            observed_at: Some(self.answered_at()),
            duration: self.duration_ms.map(Millis),
            // Only the caller can know that its own breaker was open.
            claimed_layer: match self.error {
                Some(AttemptError::CircuitOpen) => Some(Layer::Client),
                _ => self.layer,
            },
            ray_id: self.ray_id.take(),
            error_code: self.error_code.take(),
            logs: self.logs(),
            request: RequestFacts {
                method: self.method.take(),
                host: Some(std::mem::take(&mut self.host)),
                path: self.route.take(),
                headers: HeaderFields::new(),
            },
            ..Response::default()
        }
    }

    /// What the log line proves: a gateway's what its rules say of it, the origin's that it gave
    /// this answer.
    fn logs(&self) -> Trail {
        let Some(line) = &self.log else { return Trail::default() };
        if self.vantage == Vantage::Origin {
            let statuses = vec![self.status];
            return Trail { hops: Vec::new(), origin: Some(OriginRecord { saw: true, statuses }) };
        }
        Trail { hops: vec![vec![(**line).clone()]], origin: None }
    }
}
