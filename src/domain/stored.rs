//! What the store gives back: attempts with their verdict, counts, and the scope they belong to.

use super::classify::{Certainty, Layer, LimitType, Responder, Tri};
use super::event::{AttemptError, Event, Outcome, Vantage};
use super::spelling::spelled_enum;
use super::time::{HOUR_MS, UnixMillis, Window};
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

/// Additive counts, all weighted by an event's `count`, from one source: the client, or where no
/// client reported, the outermost source that did (DESIGN 14).
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
        if event.vantage != Vantage::Client {
            return Self::default();
        }
        Self::seen(event, verdict)
    }

    /// As [`Self::of`], whoever saw the event.
    pub fn seen(event: &Event, verdict: &VerdictSummary) -> Self {
        let ending = Ending {
            status: event.status,
            error: event.error,
            outcome: event.outcome,
            limited: verdict.limited,
        };
        Self::of_ending(ending, event.attempt, i64::from(event.count))
    }

    /// What `n` attempts with this number and this ending add, whoever saw them.
    pub fn of_ending(ending: Ending, attempt: u32, n: i64) -> Self {
        let when = |yes: bool| if yes { n } else { 0 };
        let Ending { status, error, outcome, limited } = ending;
        let is_retry = attempt > 1;
        let ended_well =
            error.is_none() && status.is_some_and(|s| (100..400).contains(&s)) && !limited;
        Self {
            attempts: n,
            answered: when(status.is_some()),
            requests: when(!is_retry),
            retries: when(is_retry),
            status_429: when(status == Some(429)),
            limited: when(limited),
            limited_retries: when(limited && is_retry),
            succeeded: when(ended_well),
            server_errors: when(status.is_some_and(|s| (500..600).contains(&s)) && !limited),
            errors: when(error.is_some()),
            retried_operations: when(attempt == 2),
            retry_successes: when(is_retry && ended_well),
            gave_up: when(matches!(
                outcome,
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

/// How an attempt ended: all that [`Counts`] look at beside its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ending {
    /// Status code of the answer.
    pub status: Option<u16>,
    /// Why there was no usable answer.
    pub error: Option<AttemptError>,
    /// How the client's retry logic went on.
    pub outcome: Option<Outcome>,
    /// Whether a limit refused it.
    pub limited: bool,
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

/// A change to be marked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMark {
    /// When the change took effect.
    pub at: UnixMillis,
    /// Service it concerns; all where absent.
    pub service: Option<String>,
    /// Upstream it concerns; all where absent.
    pub upstream: Option<String>,
    /// What was changed.
    pub title: String,
}

/// Counts of one service's calls to one upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The calling service.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// Where the counts come from: the client, or where no client reports, the outermost source
    /// that does (DESIGN 14). Sources are never added up.
    pub source: Vantage,
    /// The counts.
    pub counts: Counts,
    /// When the newest of these attempts was sent.
    pub last_at: UnixMillis,
}

/// Counts of one service's client attempts to all upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceCounts {
    /// The calling service.
    pub service: String,
    /// The counts.
    pub counts: Counts,
    /// When the newest of these attempts was sent.
    pub last_at: UnixMillis,
}

/// What was wrong with what one service sent; counted from the first event on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderCounts {
    /// Events stored (rows, not weighted by `count`).
    pub events: i64,
    /// Values replaced because they looked secret, in stored events.
    pub redactions: i64,
    /// Fields that no event has.
    pub unknown_fields: i64,
    /// Items refused.
    pub rejected: i64,
    /// Events whose id was already stored with another time.
    pub id_conflicts: i64,
    /// Events in a series that stands for many, as there are too many of its own.
    pub as_other: i64,
}

impl SenderCounts {
    /// Adds `other` to these counts.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.redactions += other.redactions;
        self.unknown_fields += other.unknown_fields;
        self.rejected += other.rejected;
        self.id_conflicts += other.id_conflicts;
        self.as_other += other.as_other;
    }
}

/// What one service sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The service; empty for items that were refused before it could be read.
    pub service: String,
    /// What was counted.
    pub counts: SenderCounts,
}

/// Names that occur in a window, in alphabetical order, to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Calling services.
    pub services: Vec<String>,
    /// Upstream hosts.
    pub upstreams: Vec<String>,
    /// Deployment environments.
    pub environments: Vec<String>,
}

/// Where a list of rows goes on: the last row already shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The row's time by the list's [`TimeBasis`].
    pub at: UnixMillis,
    /// When it was sent.
    pub occurred_at: UnixMillis,
    /// Its id.
    pub event_id: String,
}

/// What has one id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Matches {
    /// The events, in the order they were sent.
    pub events: Vec<StoredEvent>,
    /// Whether these are all; `false` where a limit cut later ones off.
    pub is_complete: bool,
}

/// One page of a list of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowPage {
    /// The rows, newest first.
    pub items: Vec<StoredEvent>,
    /// Who saw them: the client, or where no client reported, the outermost source that did.
    pub source: Vantage,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// An event to store, with what was judged of it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// What was sent.
    pub event: Event,
    /// What was judged.
    pub verdict: VerdictSummary,
}

spelled_enum! {
    /// What became of an event that was handed to the store.
    pub enum Inserted {
        /// It is new and stored.
        Stored => "stored",
        /// It was there already; nothing was changed.
        Duplicate => "duplicate",
        /// It is stored as new, and its id was already there with another time.
        IdConflict => "id-conflict",
        /// It is older than the events that are kept, so that it can't be told from a repeat; it
        /// was not stored.
        Expired => "expired",
    }
}

impl Inserted {
    /// Whether the event is stored now and was not before.
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Stored | Self::IdConflict)
    }
}

/// Since when the store has anything. What is older was removed, and is not taken any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Events, and sums finer than an hour.
    pub events: Since,
    /// Sums of hours.
    pub sums: Since,
    /// What is in the coarser sums as well.
    pub gathered: Gathered,
}

/// How far sums are gathered into coarser ones, by stretches of five minutes: all that was received
/// before one of them, and of what was received in it, all that happened before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathered {
    /// Where the stretch of receipt begins.
    pub received: UnixMillis,
    /// What was received in it is gathered where it happened before this.
    pub start: UnixMillis,
}

impl Gathered {
    /// Nothing is.
    pub const NONE: Self = Self { received: UnixMillis(i64::MIN), start: UnixMillis(i64::MIN) };
}

/// Where the past ends for a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// Everything that happened from here on is there and nothing older: a whole hour, or the
    /// beginning of time where nothing was ever removed.
    pub since: UnixMillis,
    /// Everything that was received from here on is there.
    pub received_since: UnixMillis,
    /// The last `since` that the disk budget set, later than the data's age would have.
    pub budget_since: UnixMillis,
    /// Rows that were removed so far; on PostgreSQL, which drops whole days, by the estimate of its
    /// statistics.
    pub removed: i64,
    /// Those of them that were removed for the disk budget.
    pub removed_for_budget: i64,
}

impl Since {
    /// Everything from here on is there, by a clock.
    pub const fn by(&self, time: TimeBasis) -> UnixMillis {
        match time {
            TimeBasis::Event => self.since,
            TimeBasis::Received => self.received_since,
        }
    }

    /// Whether anything was ever removed.
    pub const fn is_limited(&self) -> bool {
        self.since.0 > i64::MIN
    }

    /// Whether the disk budget and not the data's age set `since`.
    pub const fn is_for_budget(&self) -> bool {
        self.is_limited() && self.budget_since.0 == self.since.0
    }
}

impl History {
    /// The view that can be counted exactly: one that begins before the events that are kept is
    /// widened to whole hours there, of which there are sums.
    #[must_use]
    pub fn countable(&self, view: &View) -> View {
        let since = self.events.by(view.time);
        let Window { from, to } = view.window;
        if from >= since {
            return view.clone();
        }
        let up = |at: UnixMillis| UnixMillis(at.0.saturating_add(HOUR_MS - 1)).floor_to(HOUR_MS);
        let window =
            Window { from: from.floor_to(HOUR_MS), to: if to < since { up(to) } else { to } };
        View { window, ..view.clone() }
    }
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
    /// Only those that ended well (no error, a status below 400, not limited), only others, or
    /// both: the attempts that [`Counts::succeeded`] counts.
    pub succeeded: Option<bool>,
    /// Only this value of one dimension.
    pub value: Option<(Dimension, String)>,
}
