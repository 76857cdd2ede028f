//! What is counted of an event: worked out once, before it is stored, small enough to be kept
//! beside it until it is.

use super::exemplar::TraceIds;
use crate::domain::checklist::operations::{believable_ms, tolerance_ms};
use crate::domain::classify::{Certainty, LimitType, Responder, Tri};
use crate::domain::event::{Event, Outcome, RetryLayer, Vantage};
use crate::domain::http_date;
use crate::domain::retry_after::plain_digits;
use crate::domain::spelling::spelled_enum;
use crate::domain::stored::VerdictSummary;
use crate::domain::time::UnixMillis;
use foldhash::fast::RandomState;
use std::hash::BuildHasher as _;

spelled_enum! {
    /// How an attempt ended, by its status code.
    pub enum Ended {
        /// Served: 200 to 299, and what the HTTP client shows below that.
        Served => "2xx",
        /// 300 to 399.
        Redirected => "3xx",
        /// 400 to 499 without 429.
        Refused => "4xx",
        /// 429.
        TooMany => "429",
        /// 500 and more.
        Failed => "5xx",
        /// No status code came.
        NoResponse => "no-response",
    }
}

spelled_enum! {
    /// How a logical request ended.
    pub enum Finish {
        /// Well, with its first attempt.
        FirstTry => "first-try",
        /// Well, with a later one.
        AfterRetry => "after-retry",
        /// No attempts were left.
        Exhausted => "exhausted",
        /// Given up for another reason: no time left, cancelled, not to be retried, put aside.
        GaveUp => "gave-up",
    }
}

spelled_enum! {
    /// How a refusal wrote its `Retry-After`.
    pub enum Form {
        /// Whole seconds.
        Seconds => "seconds",
        /// One of HTTP's dates.
        HttpDate => "http-date",
        /// It had none, or none was reported.
        Absent => "absent",
        /// Neither (RFC 9110 section 10.2.3).
        Invalid => "invalid",
        /// On several lines, or several numbers on one.
        Repeated => "repeated",
    }
}

/// What is counted of an event.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    pub(super) vantage: Vantage,
    pub(super) attempt: u32,
    /// For how many attempts it stands.
    pub(super) count: u64,
    pub(super) ended: Ended,
    /// A status below 400, no error, and no limit refused it.
    pub(super) is_served: bool,
    /// A limit refused it, whatever the status.
    pub(super) is_limited: bool,
    pub(super) layer: Option<RetryLayer>,
    /// Who answered, where that is at least `confident`.
    pub(super) source: Responder,
    pub(super) kind: LimitType,
    pub(super) finish: Option<Finish>,
    /// Of a refusal.
    pub(super) form: Option<Form>,
    /// The wait that a refusal promised, where its value is a believable wait.
    pub(super) promised: Option<Promise>,
    pub(super) sent: UnixMillis,
    pub(super) answered: UnixMillis,
    /// From sending to the answer, where it was reported.
    pub(super) duration_ms: Option<i64>,
    /// The wait that the client chose before its next attempt.
    pub(super) chosen_ms: Option<i64>,
    /// The operation, hashed with its service and vantage.
    pub(super) operation: Option<u64>,
    pub(super) write: Write,
    /// The key, hashed once more; of attempts answered 429 alone.
    pub(super) key: Option<u64>,
    pub(super) ids: Option<TraceIds>,
    /// Its series in the database has not all of its names.
    pub(super) is_coarse: bool,
}

/// A promised wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) ms: i64,
    /// By how much a wait may fall short of it.
    pub(super) tolerance_ms: i64,
}

/// What an attempt says about work that may be done twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Nothing: no POST or PATCH, or one with an idempotency key.
    Safe,
    /// A POST or PATCH without an idempotency key, and it is known whether it was carried out.
    Known,
    /// Such a one that may have been carried out although it did not end well: no answer, or an
    /// error of the server that did not come from a limit or from in front of the origin.
    Open,
    /// A retry, of whatever method, answered 409: the attempt before may have been carried out.
    Conflict,
}

impl Sight {
    /// Looks at an event; `hasher` is the same for all.
    pub fn of(event: &Event, verdict: &VerdictSummary, hasher: &RandomState) -> Self {
        let is_served = event.is_success() && !verdict.limited;
        let is_429 = event.status == Some(429);
        let is_refusal = is_429 || verdict.limited;
        let is_known = matches!(verdict.outcome, Certainty::Certain | Certainty::Confident);
        let promised = if is_refusal { believable_ms(event, verdict) } else { None };
        Self {
            vantage: event.vantage,
            attempt: event.attempt,
            count: u64::from(event.count),
            ended: ended(event.status),
            is_served,
            is_limited: verdict.limited,
            layer: event.retry_layer,
            source: if is_known { verdict.returned_by } else { Responder::Unknown },
            kind: verdict.limit_type,
            finish: finish(event, is_served),
            form: is_refusal.then(|| form(event)),
            promised: promised
                .map(|ms| Promise { ms, tolerance_ms: tolerance_ms(ms, verdict.promised_by_date) }),
            sent: event.occurred_at,
            answered: event.answered_at(),
            duration_ms: event.duration_ms,
            chosen_ms: event
                .computed_delay_ms
                .filter(|_| matches!(event.outcome, None | Some(Outcome::Retrying))),
            operation: event
                .operation_id
                .as_ref()
                .map(|id| hasher.hash_one((&event.service, id, event.vantage))),
            write: write(event, verdict, is_served),
            key: event.key_hash.as_ref().filter(|_| is_429).map(|key| hasher.hash_one(key)),
            ids: TraceIds::parse(event.trace_id.as_deref(), event.span_id.as_deref()),
            is_coarse: false,
        }
    }

    /// The same, where the database keeps the event in a coarser series than its own.
    #[must_use]
    pub fn coarse(self, is_coarse: bool) -> Self {
        Self { is_coarse, ..self }
    }
}

fn ended(status: Option<u16>) -> Ended {
    match status {
        None => Ended::NoResponse,
        Some(429) => Ended::TooMany,
        Some(..=299) => Ended::Served,
        Some(300..=399) => Ended::Redirected,
        Some(400..=499) => Ended::Refused,
        Some(500..) => Ended::Failed,
    }
}

/// How the request ended with this attempt, as far as can be told: an attempt that was served ends
/// it; of any other only the sender can know.
fn finish(event: &Event, is_served: bool) -> Option<Finish> {
    match event.outcome {
        Some(Outcome::Retrying | Outcome::Rescheduled) => None,
        Some(Outcome::Succeeded) => Some(well(event.attempt)),
        Some(Outcome::Exhausted) => Some(Finish::Exhausted),
        Some(
            Outcome::DeadlineExceeded
            | Outcome::Cancelled
            | Outcome::NotRetryable
            | Outcome::DeadLettered,
        ) => Some(Finish::GaveUp),
        None => is_served.then(|| well(event.attempt)),
    }
}

fn well(attempt: u32) -> Finish {
    if attempt > 1 { Finish::AfterRetry } else { Finish::FirstTry }
}

fn form(event: &Event) -> Form {
    let is_field = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("retry-after");
    let mut lines = event.headers.iter().filter(is_field).map(|(_, value)| value.as_str());
    let (line, second) = (lines.next(), lines.next());
    let Some(line) = line.or(event.retry_after.as_deref()).map(str::trim) else {
        return Form::Absent;
    };
    if second.is_some() {
        return Form::Repeated;
    }
    if plain_digits(line).is_some() {
        return Form::Seconds;
    }
    if http_date::parse(line, Some(event.answered_at())).is_some() {
        return Form::HttpDate;
    }
    let is_list = line.contains(',') && line.split(',').all(|n| plain_digits(n.trim()).is_some());
    if is_list { Form::Repeated } else { Form::Invalid }
}

fn write(event: &Event, verdict: &VerdictSummary, is_served: bool) -> Write {
    if event.attempt > 1 && event.status == Some(409) {
        return Write::Conflict;
    }
    let is_write = matches!(event.method.as_deref(), Some("POST" | "PATCH"));
    if !is_write || event.idempotency_key_hash.is_some() {
        return Write::Safe;
    }
    let is_lost = event.status.is_none_or(|status| status >= 500);
    let may_be_done = is_lost
        && !is_served
        && !verdict.limited
        && verdict.reached_origin != Tri::No
        && !event.error.is_some_and(never_arrived);
    if may_be_done { Write::Open } else { Write::Known }
}

/// Whether nothing can have reached the server.
fn never_arrived(error: crate::domain::event::AttemptError) -> bool {
    use crate::domain::event::AttemptError::{CircuitOpen, Connect, Dns, PoolTimeout, Tls};
    matches!(error, CircuitOpen | Connect | Dns | PoolTimeout | Tls)
}
