//! From a settled operation to ordinary events.

use super::operations::{Marks, Operation, Placed, is_retryable};
use super::raw::SpanKey;
use super::span::{Role, Span};
use crate::domain::event::{Event, Outcome};

/// The id of an operation: that of an SDK's span, else of its first attempt's. It stays the same as
/// long as that is the first.
pub fn operation_id(operation: &Operation, spans: &[Span]) -> String {
    let first = || operation.attempts.first().map(|attempt| spans[attempt.spans[0]].key);
    operation.sdk.or_else(first).map(|key: SpanKey| key.to_string()).unwrap_or_default()
}

/// The events of an operation, in the order of its attempts. `is_late` says of a span whether it
/// came after the operation was settled.
pub fn events(
    operation: &Operation,
    spans: &[Span],
    operation_id: &str,
    is_late: impl Fn(usize) -> bool,
) -> Vec<Event> {
    let last = operation.attempts.len().saturating_sub(1);
    let placed = operation.attempts.iter().enumerate();
    placed
        .filter_map(|(n, attempt)| {
            let inner = &spans[*attempt.spans.first()?];
            let mut event = inner.attempt.as_ref()?.event.clone();
            for other in attempt.spans.iter().skip(1) {
                merge(&mut event, &spans[*other]);
            }
            event.operation_id = Some(operation_id.to_owned());
            event.attempt = attempt.number;
            if let Some((delay, source)) = attempt.delay {
                event.computed_delay_ms = Some(delay);
                event.delay_source = Some(source.as_str().to_owned());
            }
            event.outcome = outcome(operation, n, n == last, inner, &event);
            event.derived =
                Some(Box::new(marks(operation, attempt, inner, is_late(attempt.spans[0]))));
            Some(event)
        })
        .collect()
}

/// What a second report of the same attempt knows beside the first.
fn merge(event: &mut Event, other: &Span) {
    let Some(other) = &other.attempt else { return };
    let other = &other.event;
    if event.headers.is_empty() {
        event.headers.clone_from(&other.headers);
    }
    macro_rules! fill {
        ($($field:ident),+) => { $(if event.$field.is_none() { event.$field.clone_from(&other.$field); })+ };
    }
    fill!(retry_after, request_id, ray_id, key_hash, key_kind, idempotency_key_hash, attempts_max);
}

/// How the client went on, as far as the operation shows it.
fn outcome(
    operation: &Operation,
    n: usize,
    is_last: bool,
    inner: &Span,
    event: &Event,
) -> Option<Outcome> {
    if !is_last {
        let follows = operation.attempts.get(n + 1)?;
        return (!follows.redirected).then_some(Outcome::Retrying);
    }
    if event.is_success() {
        return Some(Outcome::Succeeded);
    }
    if !is_retryable(inner, operation.sdk.is_some()) {
        return Some(Outcome::NotRetryable);
    }
    // A single failure may be the end of a client that never retries, and what ends openly may have
    // gone on.
    (event.attempt > 1 && !operation.ends_openly).then_some(Outcome::Exhausted)
}

fn marks(operation: &Operation, attempt: &Placed, inner: &Span, late: bool) -> Marks {
    let own = inner.attempt.as_deref();
    Marks {
        confidence: operation.confidence,
        ambiguous: operation.ambiguous,
        visibility: operation.visibility,
        at_least: operation.at_least,
        number_source: attempt.number_source,
        redirected: attempt.redirected,
        late,
        has_headers: own.is_some_and(|attempt| attempt.has_headers),
        language: own.and_then(|attempt| attempt.language.clone()),
        scope: inner.scope.clone(),
    }
}

/// The event of a server's span, which belongs to no operation by itself. Its span id is the
/// caller's, as in a gateway's log: that is what joins it with the attempt. Where the span doesn't
/// say how its server was called, `caller`, the span of the client that it has as its parent, does.
pub fn server_event(span: &Span, caller: Option<&Span>) -> Option<Event> {
    (span.role == Role::Server).then_some(())?;
    let attempt = span.attempt.as_ref()?;
    let mut event = attempt.event.clone();
    if let Some(parent) = span.parent {
        event.span_id = Some(parent.to_string());
    }
    let caller = caller.filter(|caller| {
        attempt.is_named_after_service
            && caller.role == Role::Attempt
            && Some(caller.key.span) == span.parent
    });
    if let Some(called) = caller.and_then(|caller| caller.attempt.as_ref()) {
        event.host.clone_from(&called.event.host);
    }
    Some(event)
}
