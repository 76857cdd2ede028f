//! Attempts that two instrumentations reported: one by the library above, one by the library below.

use super::raw::TraceId;
use super::span::Span;
use std::collections::HashMap;

/// How far an inner interval may reach out of the outer one: both clocks are the same, but some
/// instrumentations end a span in a callback. In microseconds.
const SLACK_US: i64 = 2_000;
/// How many spans that began before are looked at for a twin.
const LOOKED_AT: usize = 256;

/// Attempts that are one, the inner span first. `spans` are attempts of one neighbourhood in the
/// order of their start; each appears once in what is returned, in that order.
pub(super) fn merge(spans: &[&Span]) -> Vec<Vec<usize>> {
    let mut inner_of: Vec<Option<usize>> = vec![None; spans.len()];
    let mut is_inner = vec![false; spans.len()];
    let mut traces: HashMap<TraceId, Vec<usize>> = HashMap::new();
    // Without a parent each of the two is a trace of its own.
    let mut rootless: Vec<usize> = Vec::new();
    for (n, inner) in spans.iter().enumerate() {
        let of_trace = traces.entry(inner.key.trace).or_default();
        let others = if inner.parent.is_none() { &rootless } else { &*of_trace };
        // The tightest outer span that has no inner one yet.
        let outer = others.iter().rev().take(LOOKED_AT).copied().find(|outer| {
            inner_of[*outer].is_none() && !is_inner[*outer] && are_twins(spans[*outer], inner)
        });
        if let Some(outer) = outer {
            inner_of[outer] = Some(n);
            is_inner[n] = true;
        }
        of_trace.push(n);
        if inner.parent.is_none() {
            rootless.push(n);
        }
    }
    let whole = |n: usize| match inner_of[n] {
        Some(inner) => vec![inner, n],
        None => vec![n],
    };
    (0..spans.len()).filter(|n| !is_inner[*n]).map(whole).collect()
}

/// Whether `inner` is what `outer` did, seen further down. Both are of one trace and neighbourhood.
fn are_twins(outer: &Span, inner: &Span) -> bool {
    let (Some(above), Some(below)) = (&outer.attempt, &inner.attempt) else { return false };
    let is_related = outer.parent == inner.parent || inner.parent == Some(outer.key.span);
    let is_within = inner.start_us >= outer.start_us.saturating_sub(SLACK_US)
        && inner.end_us <= outer.end_us.saturating_add(SLACK_US);
    let agrees = match (above.event.status, below.event.status) {
        (Some(above), Some(below)) => above == below,
        _ => true,
    };
    outer.scope != inner.scope
        && above.event.instance == below.event.instance
        && is_related
        && is_within
        && agrees
        && (above.path == below.path || above.path.is_none() || below.path.is_none())
}
