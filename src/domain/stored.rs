//! What the store gives back: attempts with their verdict, counts, and the scope they belong to.

use super::classify::{Certainty, Layer, LimitType, Responder, Tri};
use super::event::Event;
use super::spelling::spelled_enum;
use super::time::{UnixMillis, Window};
use serde::{Deserialize, Serialize};

/// The part of a verdict that is kept beside each attempt; evidence is made anew from the facts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// The component that wrote the response.
    pub returned_by: Responder,
    /// Its layer.
    pub layer: Layer,
    /// The word for its confidence.
    pub outcome: Certainty,
    /// Chance that it is right, 0 to 1.
    pub confidence: f64,
    /// Whether a limit refused the attempt.
    pub limited: bool,
    /// What kind of limit.
    pub limit_type: LimitType,
    /// Whether the origin saw the request.
    pub reached_origin: Tri,
    /// Wait that the answer promised, counted from the answer, `Age` taken off.
    pub promised_ms: Option<i64>,
    /// Whether `promised_ms` comes from a date (rounded to a second) and not from seconds.
    pub promised_by_date: bool,
    /// The server's clock less the observer's, where `Date` tells (whole seconds at best).
    pub clock_skew_ms: Option<i64>,
}

/// One stored attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// What was sent.
    pub event: Event,
    /// What was judged when it came in.
    pub verdict: VerdictSummary,
    /// When it was stored, by this service's clock.
    pub received_at: UnixMillis,
}

/// Which attempts a question is about; an empty field means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// The calling service.
    pub service: Option<String>,
    /// The upstream host.
    pub upstream: Option<String>,
    /// Deployment environment.
    pub environment: Option<String>,
    /// Route template.
    pub route: Option<String>,
}

spelled_enum! {
    /// Whether a window goes by when things happened or when they were received.
    pub enum TimeBasis {
        /// When the attempt was sent.
        Event => "event",
        /// When this service stored it.
        Received => "received",
    }
}

/// A question's scope, window and time basis: what an address on the site names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Which attempts.
    pub scope: Scope,
    /// When.
    pub window: Window,
    /// By which clock.
    pub time: TimeBasis,
}

/// Additive counts, all weighted by an event's `count`. Only client observations are in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Attempts, with or without a response.
    pub attempts: i64,
    /// Attempts with a status code.
    pub answered: i64,
    /// First attempts: operations started.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
    /// Attempts answered 429.
    pub status_429: i64,
    /// Attempts that a limit refused, whatever the status.
    pub limited: i64,
    /// Limited attempts above the first.
    pub limited_retries: i64,
    /// Attempts that ended well (status below 400).
    pub succeeded: i64,
    /// Attempts answered 500 to 599 that are not limited.
    pub server_errors: i64,
    /// Attempts that ended without a response.
    pub errors: i64,
    /// Second attempts: operations that retried at all.
    pub retried_operations: i64,
    /// Attempts above the first that ended well: operations saved by a retry.
    pub retry_successes: i64,
    /// Attempts whose client gave up (`exhausted`, `deadline-exceeded`, `dead-lettered`).
    pub gave_up: i64,
}

impl Counts {
    /// What one event adds: its `count` in every column it belongs to. Observations of gateways
    /// and origins add nothing (DESIGN 14).
    pub fn of(event: &Event, verdict: &VerdictSummary) -> Self {
        use super::event::{Outcome, Vantage};
        if event.vantage != Vantage::Client {
            return Self::default();
        }
        let n = i64::from(event.count);
        let when = |yes: bool| if yes { n } else { 0 };
        let is_retry = event.attempt > 1;
        Self {
            attempts: n,
            answered: when(event.status.is_some()),
            requests: when(!is_retry),
            retries: when(is_retry),
            status_429: when(event.status == Some(429)),
            limited: when(verdict.limited),
            limited_retries: when(verdict.limited && is_retry),
            succeeded: when(event.is_success() && !verdict.limited),
            server_errors: when(
                event.status.is_some_and(|s| (500..600).contains(&s)) && !verdict.limited,
            ),
            errors: when(event.error.is_some()),
            retried_operations: when(event.attempt == 2),
            retry_successes: when(is_retry && event.is_success() && !verdict.limited),
            gave_up: when(matches!(
                event.outcome,
                Some(Outcome::Exhausted | Outcome::DeadlineExceeded | Outcome::DeadLettered)
            )),
        }
    }

    /// Adds `other` to these counts.
    pub fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.answered += other.answered;
        self.requests += other.requests;
        self.retries += other.retries;
        self.status_429 += other.status_429;
        self.limited += other.limited;
        self.limited_retries += other.limited_retries;
        self.succeeded += other.succeeded;
        self.server_errors += other.server_errors;
        self.errors += other.errors;
        self.retried_operations += other.retried_operations;
        self.retry_successes += other.retry_successes;
        self.gave_up += other.gave_up;
    }
}

/// Counts of one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its first moment.
    pub start: UnixMillis,
    /// Its counts.
    pub counts: Counts,
}

spelled_enum! {
    /// By what limited attempts are told apart in step 4.
    pub enum Dimension {
        /// The calling service.
        Service => "service",
        /// The calling process.
        Instance => "instance",
        /// Deployment environment.
        Environment => "environment",
        /// Route template.
        Route => "route",
        /// Hashed API key.
        Key => "key",
        /// Hashed egress address.
        Address => "address",
        /// Hashed account.
        Account => "account",
        /// Who re-sent it; `unknown` where not said.
        RetryLayer => "retry-layer",
        /// Who answered, `confident` or better; `unknown` else.
        Responder => "responder",
        /// Which kind of limit; `unknown` where not known, absent for attempts that were served.
        LimitType => "limit-type",
        /// Status code or error word.
        Status => "status",
    }
}

/// Counts of one value of a dimension. `other` stands for values beyond the top 1,000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionCounts {
    /// The dimension.
    pub dimension: Dimension,
    /// The value; an empty string where attempts did not carry one.
    pub value: String,
    /// Attempts, limited ones and retries among them.
    pub attempts: i64,
    /// Attempts that a limit refused.
    pub limited: i64,
    /// Attempts above the first.
    pub retries: i64,
}

/// A change that somebody marked, to compare before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Id given by the store.
    pub id: i64,
    /// When the change took effect.
    pub at: UnixMillis,
    /// Service it concerns; all where absent.
    pub service: Option<String>,
    /// Upstream it concerns; all where absent.
    pub upstream: Option<String>,
    /// What was changed.
    pub title: String,
}

/// Which stored attempts a list shows; every number on a page links to one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFilter {
    /// Scope, window and time basis.
    pub view: View,
    /// Only limited ones, only others, or both.
    pub limited: Option<bool>,
    /// Only retries, only first attempts, or both.
    pub retry: Option<bool>,
    /// Only this value of one dimension.
    pub value: Option<(Dimension, String)>,
}
