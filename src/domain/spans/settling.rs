//! When an operation is final.

use super::operations::{Operation, is_retryable};
use super::raw::SpanKey;
use super::span::Span;
use crate::domain::time::{Millis, UnixMillis};

/// How long nothing may have arrived of an operation that could go on: as long as a silence between
/// attempts may be.
pub const SILENCE: Millis = Millis(30_000);
/// The longest promised wait that is waited for.
pub const LONGEST_SILENCE: Millis = Millis(600_000);

/// When the newest span of an operation arrived, and how long after that it is final where nothing
/// more of it arrives; `None` for an operation without attempts. `spans` are those that its attempts
/// name, `arrived` says when one of these or of others in their traces came.
pub fn news_and_wait(
    operation: &Operation,
    spans: &[Span],
    arrived: impl Fn(SpanKey) -> Option<UnixMillis>,
    grace: Millis,
) -> Option<(UnixMillis, Millis)> {
    let last = &spans[operation.attempts.last()?.spans[0]];
    let all = operation.attempts.iter().flat_map(|attempt| &attempt.spans);
    let newest = all.filter_map(|n| arrived(spans[*n].key)).max();
    let parent_is_here = last
        .parent
        .is_none_or(|parent| arrived(SpanKey { trace: last.key.trace, span: parent }).is_some());
    Some((newest.unwrap_or_default(), time_to_wait(last, parent_is_here, grace)))
}

/// How long after its last span arrived an operation is final, given what the last attempt tells
/// and whether the attempt's parent has arrived. `grace` is how late exporters are: their batch
/// delay (5 s by default) and one resend.
///
/// An attempt that nobody retries ends its operation; what its exporter sent before is there, or on
/// its way for no longer than a batch takes.
pub fn time_to_wait(last: &Span, parent_is_here: bool, grace: Millis) -> Millis {
    if parent_is_here && !is_retryable(last, true) {
        return Millis(grace.0 / 2);
    }
    let promised = last.attempt.as_ref().and_then(|attempt| attempt.promised_ms).unwrap_or(0);
    let silence = promised.saturating_mul(2).clamp(SILENCE.0, LONGEST_SILENCE.0);
    Millis(silence.saturating_add(grace.0))
}
