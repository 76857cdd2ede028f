//! Operations out of attempts, each case named for the trap that it shows.

use super::operations::{Confidence, Operation, Visibility, reconstruct};
use super::*;
use crate::domain::spans::hints::{Counter, DelaySource, NumberSource, ToldWait};
use std::collections::BTreeMap;

/// A span in the making: ids and times are small numbers, times in milliseconds.
#[derive(Clone)]
struct Make(Span);

fn key(trace: u8, span: u8) -> SpanKey {
    SpanKey {
        trace: TraceId::from_bytes(&[trace; 16]).unwrap(),
        span: SpanId::from_bytes(&[0, 0, 0, 0, 0, 0, trace, span]).unwrap(),
    }
}

fn base(trace: u8, span: u8, parent: Option<u8>, from: i64, to: i64) -> Make {
    let event = serde_json::json!({
        "event_id": key(trace, span).to_string(), "attempt": 1, "occurred_at": from,
        "vantage": "client", "service": "shop", "host": "api.example.com", "method": "GET",
        "headers": [], "count": 1, "redactions": 0,
    });
    Make(Span {
        key: key(trace, span),
        parent: parent.map(|parent| key(trace, parent).span),
        start_us: from * 1_000,
        end_us: to * 1_000,
        role: Role::Attempt,
        scope: "lib".to_owned(),
        service: "shop".to_owned(),
        told_waits: Vec::new(),
        attempt: Some(Box::new(Attempt {
            event: serde_json::from_value(event).unwrap(),
            path: Some("/v1/items".to_owned()),
            location: None,
            counter: None,
            shared_id: None,
            resend_delay_ms: None,
            promised_ms: None,
            hidden_retries: None,
            may_hide: false,
            language: None,
            has_headers: false,
            is_named_after_service: false,
        })),
    })
}

impl Make {
    fn attempt(&mut self) -> &mut Attempt {
        self.0.attempt.as_mut().unwrap()
    }

    fn status(mut self, status: u16) -> Self {
        self.attempt().event.status = Some(status);
        self
    }

    fn path(mut self, path: &str) -> Self {
        self.attempt().path = Some(path.to_owned());
        self
    }

    fn location(mut self, path: &str) -> Self {
        self.attempt().location = Some(path.to_owned());
        self
    }

    fn promised(mut self, ms: i64) -> Self {
        self.attempt().promised_ms = Some(ms);
        self
    }

    fn id(mut self, id: &str) -> Self {
        self.attempt().shared_id = Some(id.to_owned());
        self
    }

    fn counted(mut self, attempt: u32) -> Self {
        let source = NumberSource::StainlessRetryCount;
        self.attempt().counter = Some(Counter { attempt, max: None, source });
        self
    }

    fn scope(mut self, scope: &str) -> Self {
        scope.clone_into(&mut self.0.scope);
        self
    }

    fn hides(mut self) -> Self {
        self.attempt().may_hide = true;
        self
    }

    fn role(mut self, role: Role) -> Self {
        self.0.role = role;
        self
    }

    fn told(mut self, at: i64, delay_ms: i64) -> Self {
        self.0.told_waits.push(ToldWait {
            at_us: at * 1_000,
            delay_ms,
            source: DelaySource::SpanEvent,
        });
        self
    }
}

/// The operations of these spans, in any order and with context among them.
fn operations(spans: Vec<Make>) -> (Vec<Operation>, Vec<Span>) {
    let all: Vec<Span> = spans.into_iter().map(|make| make.0).collect();
    let context: BTreeMap<SpanKey, &Span> = all.iter().map(|span| (span.key, span)).collect();
    let own: Vec<Span> =
        all.iter().filter(|s| matches!(s.role, Role::Attempt | Role::Sdk)).cloned().collect();
    let found = reconstruct(&own, &context, &BTreeMap::new());
    let mut backwards = own.clone();
    backwards.reverse();
    let again = reconstruct(&backwards, &context, &BTreeMap::new());
    assert_eq!(shape(&again, &backwards), shape(&found, &own), "the order made a difference");
    (found, own)
}

/// The operations as the last bytes of their spans' ids.
fn shape(operations: &[Operation], spans: &[Span]) -> Vec<Vec<String>> {
    let id = |n: usize| spans[n].key.span.to_string().split_off(14);
    operations
        .iter()
        .map(|op| op.attempts.iter().map(|attempt| id(attempt.spans[0])).collect())
        .collect()
}

fn shapes(spans: Vec<Make>) -> Vec<Vec<String>> {
    let (operations, spans) = operations(spans);
    shape(&operations, &spans)
}

const PARENT: u8 = 9;

fn parent(from: i64, to: i64) -> Make {
    base(1, PARENT, None, from, to).role(Role::Server)
}

#[test]
fn siblings_under_one_parent_are_one_operation_with_its_waits() {
    let (found, spans) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429).promised(1_000),
        base(1, 2, Some(PARENT), 1_015, 1_020).status(503),
        base(1, 3, Some(PARENT), 1_200, 1_210).status(200),
        parent(0, 2_000),
    ]);
    assert_eq!(shape(&found, &spans), [["01", "02", "03"]]);
    assert_eq!(found[0].confidence, Confidence::Parent);
    assert!(!found[0].ambiguous);
    assert_eq!(found[0].visibility, Visibility::All);
    let numbers: Vec<_> = found[0].attempts.iter().map(|a| (a.number, a.delay)).collect();
    let gap = |ms| Some((ms, DelaySource::Gap));
    assert_eq!(numbers, [(1, gap(1_005)), (2, gap(180)), (3, None)]);
}

#[test]
fn attempts_without_a_parent_are_traces_of_their_own() {
    let (found, spans) = operations(vec![
        base(1, 1, None, 0, 10).status(429),
        base(2, 2, None, 200, 210).status(200),
        base(3, 3, None, 300, 310).status(200),
        base(4, 4, None, 400, 410).status(429).path("/other"),
    ]);
    assert_eq!(shape(&found, &spans), [vec!["01", "02"], vec!["03"], vec!["04"]]);
    assert_eq!(found[0].confidence, Confidence::Time);
}

#[test]
fn a_long_silence_ends_what_only_time_holds_together() {
    let spans = |promised: i64| {
        vec![
            base(1, 1, None, 0, 10).status(429).promised(promised),
            base(2, 2, None, 45_000, 45_010).status(200),
        ]
    };
    assert_eq!(shapes(spans(0)).len(), 2);
    assert_eq!(shapes(spans(40_000)).len(), 1);
}

#[test]
fn a_parent_that_had_ended_says_nothing() {
    // The retries of an agent that runs later carry the trace and parent of somebody else.
    let (found, spans) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429),
        parent(0, 2_000),
        base(2, 2, Some(PARENT), 1_000, 1_010).status(200),
        base(2, PARENT, None, 0, 50).role(Role::Server),
    ]);
    assert_eq!(shape(&found, &spans), [["01", "02"]]);
    assert_eq!(found[0].confidence, Confidence::Time);
}

#[test]
fn attempts_of_other_parents_never_meet() {
    let found = shapes(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429),
        parent(0, 2_000),
        base(2, 2, Some(PARENT), 100, 110).status(200),
        base(2, PARENT, None, 0, 2_000).role(Role::Server),
        base(3, 3, None, 120, 130).status(200),
    ]);
    assert_eq!(found.len(), 3);
}

#[test]
fn what_is_not_retried_ends_its_operation() {
    for status in [200, 400, 401, 404, 409, 501] {
        let found = shapes(vec![
            base(1, 1, Some(PARENT), 0, 10).status(status),
            base(1, 2, Some(PARENT), 500, 510).status(200),
            parent(0, 2_000),
        ]);
        assert_eq!(found.len(), 2, "{status}");
    }
    let throttled = shapes(vec![
        base(1, 1, Some(PARENT), 0, 10).status(400).id("i"),
        base(1, 2, Some(PARENT), 500, 510).status(200).id("i"),
        parent(0, 2_000),
    ]);
    assert_eq!(throttled.len(), 1, "an SDK of AWS");
}

#[test]
fn an_id_tells_operations_apart_that_run_at_once() {
    let (found, spans) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429).id("a"),
        base(1, 2, Some(PARENT), 1, 11).status(429).id("b"),
        base(1, 3, Some(PARENT), 500, 510).status(200).id("b"),
        base(1, 4, Some(PARENT), 501, 511).status(200).id("a"),
        parent(0, 2_000),
    ]);
    assert_eq!(shape(&found, &spans), [["01", "04"], ["02", "03"]]);
    assert!(found.iter().all(|op| op.confidence == Confidence::Explicit && !op.ambiguous));
}

#[test]
fn without_an_id_such_operations_are_marked() {
    let (found, _) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429),
        base(1, 2, Some(PARENT), 1, 11).status(429),
        base(1, 3, Some(PARENT), 500, 510).status(200),
        base(1, 4, Some(PARENT), 501, 511).status(200),
        parent(0, 2_000),
    ]);
    assert_eq!(found.len(), 2);
    assert!(found[0].ambiguous);
}

#[test]
fn a_siblings_first_attempt_is_no_retry() {
    let found = shapes(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429),
        base(1, 2, Some(PARENT), 5, 15).status(200),
        base(1, 3, Some(PARENT), 12, 22).status(200),
        parent(0, 2_000),
    ]);
    assert_eq!(found.len(), 3);
}

#[test]
fn an_id_may_be_missing_where_the_transport_failed() {
    let found = shapes(vec![
        base(1, 1, Some(PARENT), 0, 10),
        base(1, 2, Some(PARENT), 100, 110).status(200).id("a"),
        parent(0, 2_000),
    ]);
    assert_eq!(found.len(), 1);
}

#[test]
fn a_count_that_begins_again_is_an_outer_layer() {
    let counts = [1, 2, 3, 1, 2];
    let attempts = (1_u8..).zip(counts).map(|(n, count)| {
        let from = i64::from(n) * 100;
        base(1, n, Some(PARENT), from, from + 10).status(429).counted(count)
    });
    let (found, _) = operations(attempts.chain([parent(0, 2_000)]).collect());
    assert_eq!(found.len(), 1);
    let numbers: Vec<u32> = found[0].attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(found[0].confidence, Confidence::Parent, "the step between layers isn't counted");
}

#[test]
fn a_count_above_one_at_the_beginning_is_a_hole() {
    let (found, _) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429).counted(3),
        base(1, 2, Some(PARENT), 500, 510).status(200).counted(4),
    ]);
    assert_eq!(found[0].visibility, Visibility::AtLeast);
    assert_eq!(found[0].at_least, Some(4));
    assert_eq!(found[0].attempts[0].number, 3);
}

#[test]
fn a_sampled_refusal_in_a_trace_of_its_own_was_called_the_whole_operation() {
    let lone = |status| base(1, 1, None, 0, 10).status(status);
    let below = base(1, 1, Some(PARENT), 0, 10).status(429);
    let most = |attempt| {
        let mut last = lone(429);
        let source = NumberSource::AmzSdkRequest;
        last.attempt().counter = Some(Counter { attempt, max: Some(1), source });
        last
    };
    for (spans, ends_openly, why) in [
        (vec![lone(429)], true, "its retry would be another trace"),
        (vec![base(1, 1, None, 0, 10)], true, "so would that of a time-out"),
        (vec![lone(429).id("a")], true, "an id finds only what was kept"),
        (vec![lone(200)], false, "nobody retries it"),
        (vec![lone(401)], false, "nobody retries it"),
        (vec![below, parent(0, 2_000)], false, "a trace is kept or dropped whole"),
        (vec![most(1)], false, "the client says that it was the last"),
        (vec![lone(429), base(2, 2, None, 100, 110).status(503)], true, "the last one counts"),
        (vec![lone(429), base(2, 2, None, 100, 110).status(200)], false, "it ended"),
        (
            vec![base(1, 1, Some(PARENT), 900, 910).status(429), parent(0, 800)],
            false,
            "whose trace it is in isn't known, and nothing speaks for a hole",
        ),
    ] {
        let (found, _) = operations(spans);
        assert_eq!((found.len(), found[0].ends_openly), (1, ends_openly), "{why}");
        let expected = if ends_openly { Visibility::AtLeast } else { Visibility::All };
        assert_eq!(found[0].visibility, expected, "{why}");
    }
}

#[test]
fn a_redirect_is_followed_and_is_no_retry() {
    let (found, spans) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(302).location("/moved"),
        base(1, 2, Some(PARENT), 12, 20).status(429).path("/moved"),
        base(1, 3, Some(PARENT), 500, 510).status(200),
        parent(0, 2_000),
    ]);
    assert_eq!(shape(&found, &spans), [["01", "02", "03"]]);
    let numbers: Vec<_> = found[0].attempts.iter().map(|a| (a.number, a.redirected)).collect();
    assert_eq!(numbers, [(1, false), (1, true), (2, false)]);
}

#[test]
fn all_attempts_below_an_sdks_span_are_one_operation() {
    let sdk = |from, to| {
        let mut sdk = base(1, 8, Some(PARENT), from, to).role(Role::Sdk);
        sdk.0.attempt = None;
        sdk
    };
    let (found, spans) = operations(vec![
        sdk(0, 900),
        base(1, 1, Some(8), 0, 10).status(400),
        base(1, 2, Some(8), 500, 510).status(200),
        parent(0, 2_000),
    ]);
    assert_eq!(shape(&found, &spans), [["01", "02"]]);
    assert_eq!(found[0].confidence, Confidence::SdkSpan);
    assert_eq!(found[0].sdk, Some(key(1, 8)));
}

#[test]
fn a_call_of_an_sdk_without_attempts_says_that_they_are_not_visible() {
    let mut sdk = base(1, 8, None, 0, 900).role(Role::Sdk).status(200).hides();
    sdk.attempt().hidden_retries = Some(2);
    let (found, _) = operations(vec![sdk]);
    assert_eq!(found[0].visibility, Visibility::NotVisible);
    assert_eq!(found[0].at_least, Some(3));
}

#[test]
fn a_call_of_an_agent_around_a_call_of_a_model_is_no_second_operation() {
    let call = |span, above, from, to| base(1, span, above, from, to).role(Role::Sdk).status(200);
    let (found, spans) = operations(vec![call(7, None, 0, 900), call(8, Some(7), 10, 800).hides()]);
    assert_eq!(shape(&found, &spans), [["08"]]);
    assert_eq!(found[0].sdk, Some(key(1, 8)));
}

#[test]
fn one_attempt_that_was_reported_twice_is_one() {
    let (found, spans) = operations(vec![
        base(1, 1, Some(PARENT), 0, 12).status(429).scope("outer").counted(1),
        base(1, 2, Some(PARENT), 1, 11).status(429).scope("inner"),
        base(1, 3, Some(PARENT), 500, 512).scope("outer").counted(2),
        base(1, 4, Some(3), 501, 511).status(200).scope("inner"),
        parent(0, 2_000),
    ]);
    assert_eq!(shape(&found, &spans), [["02", "04"]]);
    assert_eq!(found[0].confidence, Confidence::Explicit);
    assert_eq!(found[0].attempts[0].spans.len(), 2);
}

#[test]
fn a_scope_that_covers_loops_hides_them_until_it_shows_one() {
    let hidden = operations(vec![base(1, 1, None, 0, 10).status(200).hides()]).0;
    assert_eq!(hidden[0].visibility, Visibility::NotVisible);
    let shown = operations(vec![
        base(1, 1, None, 0, 10).status(200).hides(),
        base(2, 2, None, 100, 110).status(429).hides(),
        base(3, 3, None, 300, 310).status(200).hides(),
    ])
    .0;
    assert!(shown.iter().all(|op| op.visibility == Visibility::All));
}

#[test]
fn the_wait_that_was_told_goes_before_the_one_that_was_seen() {
    let (found, _) = operations(vec![
        base(1, 1, Some(PARENT), 0, 10).status(429),
        base(1, 2, Some(PARENT), 130, 140).status(200),
        parent(0, 2_000).told(11, 116),
    ]);
    assert_eq!(found[0].attempts[0].delay, Some((116, DelaySource::SpanEvent)));
}

#[test]
fn a_wait_that_was_logged_counts_where_it_lies_between_two_attempts() {
    let spans: Vec<Span> = [
        base(1, 1, Some(PARENT), 0, 10).status(429),
        base(1, 2, Some(PARENT), 715, 720).status(429),
        base(1, 3, Some(PARENT), 2_000, 2_010).status(200),
    ]
    .map(|make| make.0)
    .into();
    let wait =
        |at: i64, delay_ms| ToldWait { at_us: at * 1_000, delay_ms, source: DelaySource::Log };
    let logged = BTreeMap::from([(key(1, 1).trace, vec![wait(11, 700), wait(721, 9_000)])]);
    let found = reconstruct(&spans, &BTreeMap::new(), &logged);
    let delays: Vec<_> = found[0].attempts.iter().map(|attempt| attempt.delay).collect();
    let expected = [Some((700, DelaySource::Log)), Some((1_280, DelaySource::Gap)), None];
    assert_eq!(delays, expected, "nine seconds were not waited");
}

#[test]
fn a_storm_without_ids_is_gone_through_in_time() {
    // Forty thousand refusals at once, none with a parent: no pairs are asked for.
    let one = base(1, 1, None, 0, 10).status(429).0;
    let spans: Vec<Span> = (1_u64..=40_000)
        .map(|n| {
            let mut span = one.clone();
            span.key.span = SpanId::from_bytes(&n.to_be_bytes()).unwrap();
            span.key.trace = TraceId::from_bytes(&u128::from(n).to_be_bytes()).unwrap();
            span.start_us = i64::try_from(n * 500).unwrap();
            span.end_us = span.start_us + 2_000;
            span
        })
        .collect();
    let found = reconstruct(&spans, &BTreeMap::new(), &BTreeMap::new());
    let attempts: usize = found.iter().map(|op| op.attempts.len()).sum();
    assert_eq!(attempts, spans.len());
}
