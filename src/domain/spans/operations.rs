//! From attempts to operations: which requests belong to one intent.
//!
//! The rule was measured on captures of some thirty client stacks. It goes through the attempts of a
//! neighbourhood by their start and asks of each whether it continues an operation whose last
//! attempt could be retried. It never joins by time alone what a parent or an id keeps apart.

use super::hints::{Counter, DelaySource, NumberSource, ToldWait};
use super::raw::{SpanId, SpanKey, TraceId};
use super::span::{Attempt, Role, Span};
use super::twins;
use crate::domain::spelling::spelled_enum;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

spelled_enum! {
    /// What holds the attempts of an operation together, weakest link first in meaning: an operation
    /// has the confidence of its weakest link.
    pub enum Confidence {
        /// An id that all attempts carry, or the client's own count.
        Explicit => "explicit",
        /// The span of the SDK's call.
        SdkSpan => "sdk-span",
        /// One parent.
        Parent => "parent",
        /// Nothing but path and time: there is no parent, or it can't be one.
        Time => "time",
    }
}

spelled_enum! {
    /// Whether the attempts of an operation can be seen in its spans.
    pub enum Visibility {
        /// Each has a span of its own, as far as is known.
        All => "all",
        /// Some are missing: there are at least as many as are seen.
        AtLeast => "at-least",
        /// The instrumentation covers retries with one span: there may be others.
        NotVisible => "not-visible",
    }
}

/// How an event was derived, kept with it for people to judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each says a thing of its own")]
pub struct Marks {
    /// What holds its operation together.
    pub confidence: Confidence,
    /// More than one operation fitted, or a sibling's first attempt stood where a retry would have.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ambiguous: bool,
    /// Whether all attempts can be seen.
    pub visibility: Visibility,
    /// The fewest attempts there were, where more are known of than are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Where its number comes from.
    pub number_source: NumberSource,
    /// It follows a redirect and is no retry.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redirected: bool,
    /// It arrived after its operation was settled.
    #[serde(default, skip_serializing_if = "is_false")]
    pub late: bool,
    /// Header fields of the answer were captured.
    pub has_headers: bool,
    /// The language of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The instrumentation that made the span.
    pub scope: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(is: &bool) -> bool {
    !is
}

/// An attempt in its operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its spans, by their place in what was given: the innermost first, then what reported it too.
    pub spans: Vec<usize>,
    /// Its number, from 1. A request that follows a redirect has the number of the one before.
    pub number: u32,
    /// Where that comes from.
    pub number_source: NumberSource,
    /// It follows a redirect.
    pub redirected: bool,
    /// The wait after it, in milliseconds, and where that comes from.
    pub delay: Option<(i64, DelaySource)>,
}

/// Attempts made for one intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The call of an SDK that they were made for, by its key.
    pub sdk: Option<SpanKey>,
    /// The attempts in the order of their start. Of a call of an SDK whose attempts have no spans,
    /// this is the call's own span.
    pub attempts: Vec<Placed>,
    /// What holds them together.
    pub confidence: Confidence,
    /// Whether another operation fitted too.
    pub ambiguous: bool,
    /// Whether all attempts can be seen.
    pub visibility: Visibility,
    /// The fewest attempts there were, where more are known of than are seen.
    pub at_least: Option<u32>,
    /// Whether it ends with a failure that clients retry, in a trace of its own: a retry is another
    /// trace then, which a sampler may have dropped, and nothing in a span tells so.
    pub ends_openly: bool,
}

/// How much a start may lie before its parent's, in microseconds: clocks of processes differ little
/// within one machine, and of other machines there are no parents of client spans.
const PARENT_SLACK_US: i64 = 5_000;
/// How much an attempt may begin before the one before it ended: the end is noted in a callback.
const OVERLAP_US: i64 = 2_000;
/// A retry that comes as soon as this may be a sibling's first attempt instead.
const SIBLING_US: i64 = 20_000;
/// The longest time from a redirect to the request that follows it.
const REDIRECT_US: i64 = 1_000_000;
/// The longest silence between attempts that only path and time hold together.
const SILENCE_US: i64 = 30_000_000;
/// The longest silence between attempts of one parent.
const PARENT_SILENCE_US: i64 = 3_600_000_000;
/// How many open operations an attempt is compared with, and how many neighbours in time are asked
/// whether they are siblings: bounds the work in a storm, in which nothing could be told anyway.
const COMPARED: usize = 256;
/// How many parents are gone up in search of an SDK's span.
const DEPTH: usize = 8;

/// Whether the answer to `span` is one that clients retry. `has_id` says whether an id or an SDK's
/// span vouches for it: SDKs of AWS are throttled with status 400.
pub fn is_retryable(span: &Span, has_id: bool) -> bool {
    let Some(attempt) = &span.attempt else { return false };
    match attempt.event.status {
        None | Some(408 | 425 | 429 | 500 | 502 | 503 | 504) => true,
        Some(403) => attempt.event.headers.iter().any(|(name, value)| {
            name == "retry-after" || (name.ends_with("ratelimit-remaining") && value.trim() == "0")
        }),
        Some(400) => has_id,
        _ => false,
    }
}

/// Who an attempt belongs to, as far as its parent can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It began within its parent, or the parent isn't known.
    Parent(TraceId, SpanId),
    /// Its parent had ended or not begun: trace and parent say nothing.
    None,
    /// It has no parent.
    Rootless,
}

struct Node<'a> {
    spans: Vec<usize>,
    inner: &'a Span,
    attempt: &'a Attempt,
    trust: Trust,
    sdk: Option<SpanKey>,
    counter: Option<Counter>,
    shared_id: Option<&'a str>,
    status: Option<u16>,
}

/// How an attempt is linked to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    confidence: Confidence,
    redirected: bool,
}

struct Open<'a> {
    nodes: Vec<usize>,
    links: Vec<Link>,
    paths: Vec<Option<&'a str>>,
    ambiguous: bool,
}

/// Puts the attempts and SDK calls of one neighbourhood into operations. `spans` may be in any
/// order; others of their traces, as far as they are known, are in `context`, and waits that were
/// logged in them in `logged`. Equal spans are to be given once.
pub fn reconstruct(
    spans: &[Span],
    context: &BTreeMap<SpanKey, &Span>,
    logged: &BTreeMap<TraceId, Vec<ToldWait>>,
) -> Vec<Operation> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    // Of two that begin together the longer one is the outer one.
    order.sort_by_key(|n| {
        let span = &spans[*n];
        (span.start_us, -span.end_us, span.key)
    });
    let attempts: Vec<usize> =
        order.iter().copied().filter(|n| spans[*n].role == Role::Attempt).collect();
    let nodes = nodes(spans, &attempts, context);
    let mut operations = link(&nodes);
    let called = called(&nodes, spans, context);
    for n in order {
        let span = &spans[n];
        if span.role == Role::Sdk && !called.contains(&span.key) {
            operations.push(unseen(n, span));
        }
    }
    let waits = waits_by_trace(context, spans, logged);
    let shows_retries = scopes_that_show_retries(spans, &operations);
    for operation in &mut operations {
        finish(operation, spans, &waits, &shows_retries);
    }
    operations.sort_by_key(|operation| {
        let first = &spans[operation.attempts[0].spans[0]];
        (first.start_us, first.key)
    });
    operations
}

/// The SDKs' calls that have attempts with spans, here or in another neighbourhood, or calls of
/// their own: a call of an agent that asks a model is no second one.
fn called(
    nodes: &[Node<'_>],
    spans: &[Span],
    context: &BTreeMap<SpanKey, &Span>,
) -> HashSet<SpanKey> {
    let mut called: HashSet<SpanKey> = nodes.iter().filter_map(|node| node.sdk).collect();
    if spans.iter().any(|span| span.role == Role::Sdk) {
        let own: HashMap<SpanKey, &Span> = spans.iter().map(|span| (span.key, span)).collect();
        let known = |key: SpanKey| own.get(&key).or_else(|| context.get(&key)).copied();
        let calls = spans.iter().filter(|span| span.role == Role::Sdk);
        let others = context.values().copied();
        let others = others.filter(|span| matches!(span.role, Role::Attempt | Role::Sdk));
        called.extend(
            others.chain(calls).filter_map(|span| sdk_above(span, trust(span, &known), &known)),
        );
    }
    called
}

/// An SDK's call of which no attempt has a span.
fn unseen(n: usize, span: &Span) -> Operation {
    let attempt = Placed {
        spans: vec![n],
        number: 1,
        number_source: NumberSource::Place,
        redirected: false,
        delay: None,
    };
    Operation {
        sdk: Some(span.key),
        attempts: vec![attempt],
        confidence: Confidence::SdkSpan,
        ambiguous: false,
        visibility: Visibility::NotVisible,
        at_least: None,
        ends_openly: false,
    }
}

fn nodes<'a>(
    spans: &'a [Span],
    attempts: &[usize],
    context: &BTreeMap<SpanKey, &'a Span>,
) -> Vec<Node<'a>> {
    let own: HashMap<SpanKey, &Span> = spans.iter().map(|span| (span.key, span)).collect();
    let known = |key: SpanKey| own.get(&key).or_else(|| context.get(&key)).copied();
    // Where an instrumentation counts, no count means the first.
    let counting: HashSet<(&str, &str)> = spans
        .iter()
        .filter(|span| counts(span))
        .map(|span| (span.service.as_str(), span.scope.as_str()))
        .collect();
    let in_order: Vec<&Span> = attempts.iter().map(|n| &spans[*n]).collect();
    let mut nodes = Vec::with_capacity(attempts.len());
    for group in twins::merge(&in_order) {
        let group: Vec<usize> = group.into_iter().map(|n| attempts[n]).collect();
        let all = || group.iter().map(|n| &spans[*n]);
        let inner = &spans[group[0]];
        let Some(attempt) = inner.attempt.as_deref() else { continue };
        // The outer one knows the caller: the inner one's parent may be the outer one.
        let outer = all().next_back().unwrap_or(inner);
        let trust = trust(outer, &known);
        let counter = all().find_map(|span| span.attempt.as_ref()?.counter).or_else(|| {
            let is_counted =
                all().any(|span| counting.contains(&(span.service.as_str(), span.scope.as_str())));
            let source = NumberSource::ResendCount;
            is_counted.then_some(Counter { attempt: 1, max: None, source })
        });
        nodes.push(Node {
            inner,
            attempt,
            trust,
            sdk: sdk_above(outer, trust, &known),
            counter,
            shared_id: all().find_map(|span| span.attempt.as_ref()?.shared_id.as_deref()),
            status: attempt.event.status,
            spans: group,
        });
    }
    nodes.sort_by_key(|node| (node.inner.start_us, node.inner.key));
    nodes
}

fn counts(span: &Span) -> bool {
    span.attempt
        .as_ref()
        .and_then(|attempt| attempt.counter)
        .is_some_and(|counter| counter.source == NumberSource::ResendCount && counter.attempt > 1)
}

fn trust<'a>(span: &Span, known: &impl Fn(SpanKey) -> Option<&'a Span>) -> Trust {
    let Some(parent) = span.parent else { return Trust::Rootless };
    let is_within = known(SpanKey { trace: span.key.trace, span: parent }).is_none_or(|parent| {
        parent.start_us.saturating_sub(PARENT_SLACK_US) <= span.start_us
            && span.start_us <= parent.end_us.saturating_add(PARENT_SLACK_US)
    });
    if is_within { Trust::Parent(span.key.trace, parent) } else { Trust::None }
}

/// The SDK's call that an attempt was made for.
fn sdk_above<'a>(
    span: &Span,
    trusted: Trust,
    known: &impl Fn(SpanKey) -> Option<&'a Span>,
) -> Option<SpanKey> {
    let mut above = trusted;
    for _ in 0..DEPTH {
        let Trust::Parent(trace, parent) = above else { return None };
        let parent = known(SpanKey { trace, span: parent })?;
        if parent.role == Role::Sdk {
            return Some(parent.key);
        }
        // A server's span is where the call came in, and a span of another service is further out.
        if parent.role == Role::Server || parent.service != span.service {
            return None;
        }
        above = trust(parent, known);
    }
    None
}

fn link(nodes: &[Node<'_>]) -> Vec<Operation> {
    let mut all: Vec<Open<'_>> = Vec::new();
    let mut of_sdk: HashMap<SpanKey, usize> = HashMap::new();
    let mut of_parent: HashMap<(TraceId, SpanId), Vec<usize>> = HashMap::new();
    // Operations whose last attempt has no parent to be told by, and those that have one.
    let (mut loose, mut bound): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let siblings = siblings(nodes);
    for (b, node) in nodes.iter().enumerate() {
        if let Some(sdk) = node.sdk {
            let open = *of_sdk.entry(sdk).or_insert_with(|| {
                all.push(Open::new());
                all.len() - 1
            });
            let open = &mut all[open];
            let redirected = open.nodes.last().is_some_and(|a| redirects(&nodes[*a], node));
            open.add(b, node, Link { confidence: Confidence::SdkSpan, redirected });
            continue;
        }
        let is_old = |open: &usize| {
            let last = &nodes[all[*open].last()];
            node.inner.start_us.saturating_sub(last.inner.end_us) > longest_silence(last)
        };
        loose.retain(|open| !is_old(open));
        let mut candidates: Vec<usize> = match node.trust {
            Trust::Parent(trace, parent) => {
                let of_parent = of_parent.get(&(trace, parent)).into_iter().flatten();
                loose
                    .iter()
                    .rev()
                    .take(COMPARED)
                    .chain(of_parent.rev().take(COMPARED))
                    .copied()
                    .collect()
            }
            Trust::None => {
                bound.retain(|open| !is_old(open));
                loose
                    .iter()
                    .rev()
                    .take(COMPARED)
                    .chain(bound.iter().rev().take(COMPARED))
                    .copied()
                    .collect()
            }
            Trust::Rootless => loose.iter().rev().take(COMPARED).copied().collect(),
        };
        candidates.sort_unstable();
        let mut is_sibling = false;
        let mut fitting: Vec<(Rank, usize, Link)> = Vec::new();
        for open in candidates {
            match fit(&all[open], nodes, b, &siblings) {
                Fit::Yes(rank, link) => fitting.push((rank, open, link)),
                Fit::Sibling => is_sibling = true,
                Fit::No => {}
            }
        }
        // Of equal ranks the one that waits longest, which is first in the list.
        let best = fitting.iter().max_by_key(|(rank, open, _)| (*rank, usize::MAX - *open));
        let (open, ambiguous) = if let Some(&(rank, open, link)) = best {
            let as_good = fitting.iter().filter(|(other, ..)| other.told() == rank.told()).count();
            all[open].add(b, node, link);
            (open, as_good > 1)
        } else {
            let mut open = Open::new();
            open.add(b, node, Link { confidence: first_confidence(node), redirected: false });
            all.push(open);
            (all.len() - 1, is_sibling)
        };
        all[open].ambiguous |= ambiguous;
        for list in [&mut loose, &mut bound] {
            list.retain(|other| *other != open);
        }
        if let Some(list) = of_parent_of(&mut of_parent, &all[open], nodes) {
            list.retain(|other| *other != open);
        }
        if can_go_on(node) {
            match node.trust {
                Trust::Parent(trace, parent) => {
                    remember(of_parent.entry((trace, parent)).or_default(), open);
                    remember(&mut bound, open);
                }
                Trust::None | Trust::Rootless => remember(&mut loose, open),
            }
        }
    }
    all.into_iter().map(|open| open.close(nodes)).collect()
}

/// Puts an operation at the end of a list of which no more than the last [`COMPARED`] are looked at.
fn remember(list: &mut Vec<usize>, open: usize) {
    if list.len() >= 2 * COMPARED {
        list.drain(..COMPARED);
    }
    list.push(open);
}

/// The list in which an operation stood before its last attempt was added.
fn of_parent_of<'m>(
    of_parent: &'m mut HashMap<(TraceId, SpanId), Vec<usize>>,
    open: &Open<'_>,
    nodes: &[Node<'_>],
) -> Option<&'m mut Vec<usize>> {
    let before = open.nodes.len().checked_sub(2)?;
    match nodes[open.nodes[before]].trust {
        Trust::Parent(trace, parent) => of_parent.get_mut(&(trace, parent)),
        _ => None,
    }
}

/// What a single attempt's operation rests on.
fn first_confidence(node: &Node<'_>) -> Confidence {
    if node.shared_id.is_some() || node.counter.is_some() {
        Confidence::Explicit
    } else if matches!(node.trust, Trust::Parent(..)) {
        Confidence::Parent
    } else {
        Confidence::Time
    }
}

/// Whether anything can follow. 401, 407 and 409 only where a counter says so, which is asked
/// later.
fn can_go_on(node: &Node<'_>) -> bool {
    is_retryable(node.inner, node.shared_id.is_some())
        || is_redirect(node.status)
        || (node.counter.is_some() && matches!(node.status, Some(401 | 407 | 409)))
}

const fn is_redirect(status: Option<u16>) -> bool {
    matches!(status, Some(301 | 302 | 303 | 307 | 308))
}

fn longest_silence(last: &Node<'_>) -> i64 {
    let promised_us = last.attempt.promised_ms.unwrap_or(0).saturating_mul(1_000);
    SILENCE_US.max(promised_us.saturating_mul(2))
}

/// Whether `b` follows a redirect of `a`.
fn redirects(a: &Node<'_>, b: &Node<'_>) -> bool {
    let gap = b.inner.start_us.saturating_sub(a.inner.end_us);
    let leads_there = match (&a.attempt.location, &b.attempt.path) {
        (Some(location), Some(path)) => location == path,
        // Without the field, another path of the same parent right after it.
        (None, Some(path)) => a.trust == b.trust && a.attempt.path.as_ref() != Some(path),
        (_, None) => a.trust == b.trust,
    };
    is_redirect(a.status) && gap < REDIRECT_US && leads_there
}

/// By what an operation is preferred over others, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "compared in this order")]
struct Rank {
    same_id: bool,
    counted: bool,
    redirected: bool,
    has_waited: bool,
}

impl Rank {
    /// The part that something tells: the rest is likelihood.
    fn told(self) -> (bool, bool, bool) {
        (self.same_id, self.counted, self.redirected)
    }
}

enum Fit {
    Yes(Rank, Link),
    /// It would, if it weren't more likely a sibling's first attempt.
    Sibling,
    No,
}

/// Whether node `b` continues an operation.
fn fit(open: &Open<'_>, nodes: &[Node<'_>], b: usize, siblings: &Siblings) -> Fit {
    let last = open.last();
    let (a, b_node) = (&nodes[last], &nodes[b]);
    let same_id = match (a.shared_id, b_node.shared_id) {
        (Some(one), Some(other)) if one == other => true,
        (Some(_), Some(_)) => return Fit::No,
        (Some(_), None) if b_node.status.is_some() => return Fit::No,
        (None, Some(_)) if a.status.is_some() => return Fit::No,
        _ => false,
    };
    let gap = b_node.inner.start_us.saturating_sub(a.inner.end_us);
    if gap < -OVERLAP_US && !same_id {
        return Fit::No;
    }
    let is_bound = match (a.trust, b_node.trust) {
        (Trust::Parent(..), Trust::Rootless) => return Fit::No,
        (Trust::Parent(..), Trust::Parent(..)) if a.trust != b_node.trust => return Fit::No,
        (Trust::Parent(..), Trust::Parent(..)) => true,
        _ => false,
    };
    if gap > if is_bound { PARENT_SILENCE_US } else { longest_silence(a) } {
        return Fit::No;
    }
    let redirected = redirects(a, b_node);
    let path = b_node.attempt.path.as_deref();
    if !redirected && (is_redirect(a.status) || !open.paths.contains(&path)) {
        return Fit::No;
    }
    let counted = match (a.counter, b_node.counter) {
        // A redirect's count goes on in some clients and stays in others.
        (Some(_), Some(_)) if redirected => false,
        (Some(one), Some(next)) if next.attempt == one.attempt.saturating_add(1) => true,
        // A layer outside of the one that counts began again; that vouches for nothing.
        (Some(_), Some(next)) if next.attempt == 1 => false,
        (Some(_), Some(_)) => return Fit::No,
        _ => false,
    };
    let can_be_retried = is_retryable(a.inner, a.shared_id.is_some())
        || redirected
        || (counted && matches!(a.status, Some(401 | 407 | 409)));
    if !can_be_retried {
        return Fit::No;
    }
    if !redirected && !same_id && !counted && gap < SIBLING_US && siblings.overlap(nodes, last, b) {
        return Fit::Sibling;
    }
    let promised_us = a.attempt.promised_ms.unwrap_or(0).saturating_mul(1_000);
    let has_waited = promised_us > 0 && gap >= promised_us.saturating_mul(9) / 10;
    let confidence = if same_id || counted {
        Confidence::Explicit
    } else if is_bound {
        Confidence::Parent
    } else {
        Confidence::Time
    };
    Fit::Yes(Rank { same_id, counted, redirected, has_waited }, Link { confidence, redirected })
}

/// Attempts by parent and path, by their place in the order of starts.
struct Siblings(BTreeMap<(TraceId, SpanId), Vec<usize>>);

fn siblings(nodes: &[Node<'_>]) -> Siblings {
    let mut of = BTreeMap::<_, Vec<usize>>::new();
    for (n, node) in nodes.iter().enumerate() {
        if let Trust::Parent(trace, parent) = node.trust {
            of.entry((trace, parent)).or_default().push(n);
        }
    }
    Siblings(of)
}

impl Siblings {
    /// Whether another attempt of the same parent and path overlaps `a` or `b`.
    fn overlap(&self, nodes: &[Node<'_>], a: usize, b: usize) -> bool {
        let Trust::Parent(trace, parent) = nodes[b].trust else { return false };
        let Some(all) = self.0.get(&(trace, parent)) else { return false };
        let place = all.partition_point(|n| *n < b);
        let before = all.iter().take(place).rev().take(COMPARED);
        let after = all.iter().skip(place + 1).take(COMPARED);
        let overlaps =
            |one: &Span, other: &Span| one.start_us < other.end_us && other.start_us < one.end_us;
        before.chain(after).filter(|n| ![a, b].contains(n)).any(|n| {
            let other = &nodes[*n];
            other.attempt.path == nodes[b].attempt.path
                && (overlaps(other.inner, nodes[a].inner) || overlaps(other.inner, nodes[b].inner))
        })
    }
}

impl<'a> Open<'a> {
    const fn new() -> Self {
        Self { nodes: Vec::new(), links: Vec::new(), paths: Vec::new(), ambiguous: false }
    }

    fn add(&mut self, n: usize, node: &Node<'a>, link: Link) {
        let path = node.attempt.path.as_deref();
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
        self.nodes.push(n);
        self.links.push(link);
    }

    /// The last attempt; there always is one.
    fn last(&self) -> usize {
        self.nodes.last().copied().unwrap_or_default()
    }

    fn close(self, nodes: &[Node<'_>]) -> Operation {
        let mut number = 0;
        let attempts = self.nodes.iter().zip(&self.links).map(|(n, link)| {
            let node = &nodes[*n];
            number += u32::from(!link.redirected);
            // A counter that goes on from here is right even where attempts before it are missing.
            // One that began again counts the inner layer only.
            let (counted, number_source) = match node.counter {
                Some(counter) if counter.attempt >= number && !link.redirected => {
                    (counter.attempt, counter.source)
                }
                _ => (number, NumberSource::Place),
            };
            number = counted;
            Placed {
                spans: node.spans.clone(),
                number: number.max(1),
                number_source,
                redirected: link.redirected,
                delay: None,
            }
        });
        // The first link only says what a single attempt rests on.
        let links = if self.links.len() > 1 { &self.links[1..] } else { &self.links[..] };
        let confidence = links.iter().map(|link| link.confidence).max().unwrap_or(Confidence::Time);
        let attempts: Vec<Placed> = attempts.collect();
        let ends_openly = self.nodes.last().is_some_and(|n| ends_openly(&nodes[*n]));
        Operation {
            sdk: self.nodes.first().and_then(|n| nodes[*n].sdk),
            attempts,
            confidence,
            ambiguous: self.ambiguous,
            visibility: Visibility::All,
            at_least: None,
            ends_openly,
        }
    }
}

/// Whether an attempt after `last` may have been made that a sampler dropped: attempts below one
/// parent are kept or dropped together, others one by one. Of the last one that a client makes, by
/// its own word, nothing is missing.
fn ends_openly(last: &Node<'_>) -> bool {
    let is_the_most = last.counter.is_some_and(|own| own.max.is_some_and(|max| own.attempt >= max));
    last.sdk.is_none()
        && last.trust == Trust::Rootless
        && !is_the_most
        && is_retryable(last.inner, last.shared_id.is_some())
}

/// Instrumentations whose spans show a retry somewhere: what they cover isn't hidden.
fn scopes_that_show_retries<'a>(spans: &'a [Span], operations: &[Operation]) -> HashSet<&'a str> {
    let shown = operations.iter().filter(|operation| {
        operation.attempts.iter().any(|attempt| attempt.number > 1 && !attempt.redirected)
            && operation.attempts.len() > 1
    });
    let shown = shown.flat_map(|operation| &operation.attempts);
    shown.map(|attempt| spans[attempt.spans[0]].scope.as_str()).collect()
}

/// Told waits of each trace.
fn waits_by_trace(
    context: &BTreeMap<SpanKey, &Span>,
    spans: &[Span],
    logged: &BTreeMap<TraceId, Vec<ToldWait>>,
) -> BTreeMap<TraceId, Vec<ToldWait>> {
    let mut waits = logged.clone();
    let all: BTreeMap<SpanKey, &Span> = context
        .iter()
        .map(|(key, span)| (*key, *span))
        .chain(spans.iter().map(|s| (s.key, s)))
        .collect();
    for (key, span) in all {
        if !span.told_waits.is_empty() {
            waits.entry(key.trace).or_default().extend(&span.told_waits);
        }
    }
    waits
}

/// Fills in waits, and what is known of attempts that aren't seen.
fn finish(
    operation: &mut Operation,
    spans: &[Span],
    waits: &BTreeMap<TraceId, Vec<ToldWait>>,
    shows_retries: &HashSet<&str>,
) {
    for n in 1..operation.attempts.len() {
        let next_us = spans[operation.attempts[n].spans[0]].start_us;
        let is_redirect = operation.attempts[n].redirected;
        let before = &spans[operation.attempts[n - 1].spans[0]];
        if !is_redirect {
            operation.attempts[n - 1].delay = wait_between(before, next_us, waits);
        }
    }
    let first = &operation.attempts[0];
    let is_cut = first.number > 1;
    let all = || operation.attempts.iter().flat_map(|attempt| &attempt.spans).map(|n| &spans[*n]);
    let hidden: u32 =
        all().filter_map(|span| span.attempt.as_ref()?.hidden_retries).fold(0, u32::saturating_add);
    let seen = operation.attempts.iter().map(|attempt| attempt.number).max().unwrap_or(1);
    let may_hide = operation.attempts.iter().any(|attempt| {
        let inner = &spans[attempt.spans[0]];
        inner.attempt.as_ref().is_some_and(|a| a.may_hide)
            && (inner.role == Role::Sdk || !shows_retries.contains(inner.scope.as_str()))
    });
    let is_sampled =
        all().any(|span| span.attempt.as_ref().is_some_and(|attempt| attempt.event.count > 1));
    if may_hide || hidden > 0 {
        operation.visibility = Visibility::NotVisible;
    } else if is_cut
        || operation.ends_openly
        || (is_sampled && operation.confidence == Confidence::Time)
    {
        operation.visibility = Visibility::AtLeast;
    }
    if hidden > 0 || is_cut {
        operation.at_least = Some(seen.saturating_add(hidden));
    }
}

/// The wait from the end of `before` to the start of the next attempt.
fn wait_between(
    before: &Span,
    next_us: i64,
    waits: &BTreeMap<TraceId, Vec<ToldWait>>,
) -> Option<(i64, DelaySource)> {
    let own = before.attempt.as_ref().and_then(|attempt| attempt.resend_delay_ms);
    if let Some(delay) = own {
        return Some((delay, DelaySource::ResendDelay));
    }
    let told = waits.get(&before.key.trace).into_iter().flatten().find(|told| {
        // Told right after the answer, long enough before the next attempt.
        told.at_us >= before.end_us.saturating_sub(SIBLING_US)
            && told.at_us.saturating_add(told.delay_ms.saturating_mul(1_000))
                <= next_us.saturating_add(SIBLING_US)
    });
    if let Some(told) = told {
        return Some((told.delay_ms, told.source));
    }
    let gap_us = next_us.saturating_sub(before.end_us);
    (gap_us >= 0).then_some((gap_us / 1_000, DelaySource::Gap))
}
