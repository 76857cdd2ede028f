//! What is joined and what isn't, and what a ladder says.

use super::*;
use crate::domain::access_log::LogFacts;
use crate::domain::checklist::samples::{at, refused, served};
use crate::domain::classify::{Certainty, LimitType, Tri, classify};
use crate::domain::stored::StoredEvent;
use crate::domain::time::Millis;

const CF: Responder = Responder::Cloudflare;

/// An attempt of a client that was refused, with these ids and no headers that tell who refused.
fn sent(id: &str, ms: i64, request_id: Option<&str>) -> StoredEvent {
    let mut s = refused(id, at(ms), CF, LimitType::Rate, None);
    s.event.request_id = request_id.map(ToOwned::to_owned);
    s.event.ray_id = None;
    s.event.trace_id = None;
    s.event.span_id = None;
    s.event.operation_id = None;
    s.event.headers.clear();
    s.event.body_sample = None;
    s.event.content_type = None;
    s.event.duration_ms = Some(40);
    s
}

/// A record of the same moment by somebody else.
fn seen(of: &StoredEvent, vantage: Vantage, id: &str, status: u16) -> StoredEvent {
    let mut record = of.clone();
    record.event.event_id = id.to_owned();
    record.event.vantage = vantage;
    record.event.status = Some(status);
    record.event.instance = None;
    record.event.duration_ms = Some(30);
    record.event.occurred_at = of.event.occurred_at.plus(Millis(5));
    record
}

#[expect(clippy::unnecessary_wraps, reason = "an event's log is optional")]
fn line(product: Responder, status: u16, fields: &[(&'static str, &str)]) -> Option<Box<LogFacts>> {
    let fields = fields.iter().map(|(n, v)| ((*n).into(), (*v).to_owned())).collect();
    Some(Box::new(LogFacts { product, status: Some(status), fields }))
}

/// A line of nginx that passed on what its upstreams answered.
fn passed_on(status: u16, upstreams: &str) -> Option<Box<LogFacts>> {
    let n = upstreams.split(',').count();
    let each = |value: &str| vec![value; n].join(", ");
    line(
        Responder::Nginx,
        status,
        &[
            ("upstream_status", upstreams),
            ("upstream_addr", &each("192.0.2.1:80")),
            ("upstream_connect_s", &each("0.001")),
            ("upstream_header_s", &each("0.002")),
            ("limit_req_status", ""),
        ],
    )
}

fn refused_here(status: u16) -> Option<Box<LogFacts>> {
    let fields = [("limit_req_status", "REJECTED"), ("upstream_addr", "")];
    line(Responder::Nginx, status, &fields)
}

fn of_haproxy(status: u16, fields: &[(&'static str, &str)]) -> Option<Box<LogFacts>> {
    line(Responder::Haproxy, status, fields)
}

fn names(joined: &Joined<'_>) -> Vec<String> {
    joined.records.iter().map(|record| record.event.event_id.clone()).collect()
}

fn hops(ladder: &Ladder<'_>) -> Vec<String> {
    ladder.hops.iter().map(|hop| hop.name.clone()).collect()
}

#[test]
fn ids_that_hops_made_are_followed_inwards() {
    let attempt = sent("c", 0, Some("r"));
    let mut gateway = seen(&attempt, Vantage::Gateway, "g", 429);
    gateway.event.ray_id = Some("made-by-nginx".to_owned());
    gateway.event.log = passed_on(429, "429");
    let mut inner = seen(&attempt, Vantage::Gateway, "h", 429);
    inner.event.request_id = Some("made-by-nginx".to_owned());
    inner.event.ray_id = Some("made-by-haproxy".to_owned());
    inner.event.log = of_haproxy(
        429,
        &[("upstream_status", "429"), ("term_state", "--"), ("server", "o"), ("retries", "0")],
    );
    let mut origin = seen(&attempt, Vantage::Origin, "o", 429);
    origin.event.request_id = Some("made-by-haproxy".to_owned());
    // In any order.
    for records in [[&origin, &inner, &gateway], [&gateway, &origin, &inner]] {
        let links = Links::new([&attempt], records);
        let joined = links.find(&attempt);
        assert_eq!(joined.records.len(), 3, "{:?}", names(&joined));
        let ladder = Ladder::new(&attempt, &joined, None);
        assert_eq!(hops(&ladder), [attempt.event.service.as_str(), "nginx", "haproxy", "origin"]);
        let verdict = classify(ladder.response.as_ref().unwrap());
        assert_eq!(
            (verdict.returned_by, verdict.outcome, verdict.reached_origin),
            (Responder::Origin, Certainty::Certain, Tri::Yes),
            "{verdict:#?}"
        );
        assert!(ladder.hops[3].answered);
        assert!(ladder.notes.iter().any(|n| n.contains("made-by-nginx")), "{:?}", ladder.notes);
    }
}

#[test]
fn time_alone_joins_nothing() {
    let attempt = sent("c", 0, Some("r"));
    let mut other = seen(&attempt, Vantage::Origin, "o", 429);
    other.event.request_id = Some("another".to_owned());
    let links = Links::new([&attempt], [&other]);
    let joined = links.find(&attempt);
    assert!(joined.records.is_empty() && joined.open.is_empty() && joined.has_id);
}

#[test]
fn the_same_id_at_another_time_is_a_candidate_and_no_evidence() {
    let attempt = sent("c", 0, Some("r"));
    let mut record = seen(&attempt, Vantage::Gateway, "g", 429);
    record.event.occurred_at = at(-3_600_000);
    record.event.log = refused_here(429);
    let links = Links::new([&attempt], [&record]);
    let joined = links.find(&attempt);
    assert_eq!((joined.records.len(), joined.open.len()), (0, 1));
    assert!(Ladder::new(&attempt, &joined, None).response.is_none());
}

#[test]
fn an_id_that_several_attempts_carry_is_told_apart_by_order_where_all_fits() {
    let attempts = [sent("a", 0, Some("r")), sent("b", 1_000, Some("r"))];
    let mut records: Vec<StoredEvent> = attempts
        .iter()
        .map(|a| seen(a, Vantage::Gateway, &format!("g-{}", a.event.event_id), 429))
        .collect();
    let links = Links::new(&attempts, &records);
    assert_eq!(names(&links.find(&attempts[0])), ["g-a"]);
    assert_eq!(names(&links.find(&attempts[1])), ["g-b"]);
    // One line is missing: nobody knows whose the other is.
    records.pop();
    let links = Links::new(&attempts, &records);
    for attempt in &attempts {
        let joined = links.find(attempt);
        assert_eq!((joined.records.len(), joined.open.len()), (0, 1));
    }
}

#[test]
fn spans_tell_the_attempts_of_one_trace_apart() {
    let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
    let spans = ["00f067aa0ba902b7", "00f067aa0ba902b8"];
    let attempts: Vec<StoredEvent> = spans
        .iter()
        .zip(["a", "b"])
        .map(|(span, id)| {
            let mut s = sent(id, 0, None);
            s.event.trace_id.clone_from(&trace);
            s.event.span_id = Some((*span).to_owned());
            s
        })
        .collect();
    let records: Vec<StoredEvent> = attempts
        .iter()
        .map(|a| seen(a, Vantage::Origin, &format!("o-{}", a.event.event_id), 429))
        .collect();
    let links = Links::new(&attempts, &records);
    assert_eq!(names(&links.find(&attempts[0])), ["o-a"]);
    assert_eq!(names(&links.find(&attempts[1])), ["o-b"]);
    // Without spans a trace of two attempts names neither.
    let bare: Vec<StoredEvent> = records
        .into_iter()
        .map(|mut record| {
            record.event.span_id = None;
            record
        })
        .collect();
    let links = Links::new(&attempts, &bare);
    let joined = links.find(&attempts[0]);
    assert!(joined.records.is_empty());
    assert_eq!(joined.open.len(), 2);
    // A trace with one attempt does.
    let links = Links::new(&attempts[..1], &bare[..1]);
    assert_eq!(names(&links.find(&attempts[0])), ["o-a"]);
}

#[test]
fn the_server_in_whose_course_an_attempt_was_made_is_not_behind_it() {
    let (trace, own) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut attempt = sent("c", 0, Some("r"));
    attempt.event.trace_id = Some(trace.to_owned());
    attempt.event.span_id = Some("00f067aa0ba902b8".to_owned());
    let (caller, unknown) = (attempt.event.span_id.as_deref(), Some("00f067aa0ba902b9"));
    for (service, of, is_behind, why) in [
        ("billing", caller, true, "it names the attempt's span"),
        ("checkout", caller, true, "a service may call itself"),
        ("billing", unknown, true, "a hop between them made a span of its own"),
        ("checkout", unknown, false, "of the attempt's own service, called by somebody else"),
        ("billing", Some(own), false, "nobody called it: the trace begins there"),
    ] {
        attempt.event.service = "checkout".to_owned();
        let mut server = seen(&attempt, Vantage::Origin, &format!("{trace}:{own}"), 200);
        server.event.service = service.to_owned();
        server.event.span_id = of.map(ToOwned::to_owned);
        let links = Links::new([&attempt], [&server]);
        let joined = links.find(&attempt);
        assert_eq!(joined.records.len(), usize::from(is_behind), "{why}");
        assert_eq!(joined.open.len(), 0, "{why}");
        // A line of a log names the caller as its service.
        server.event.event_id = "line".to_owned();
        let links = Links::new([&attempt], [&server]);
        assert_eq!(links.find(&attempt).records.len(), 1, "{why}");
    }
}

#[test]
fn a_gateways_own_line_proves_its_refusal_against_what_the_headers_look_like() {
    let mut attempt = sent("c", 0, Some("r"));
    attempt.event.headers = vec![
        ("server".to_owned(), "cloudflare".to_owned()),
        ("x-envoy-ratelimited".to_owned(), "true".to_owned()),
    ];
    let mut gateway = seen(&attempt, Vantage::Gateway, "g", 429);
    gateway.event.log = refused_here(429);
    let links = Links::new([&attempt], [&gateway]);
    let joined = links.find(&attempt);
    let ladder = Ladder::new(&attempt, &joined, Some(&Coverage::default()));
    let verdict = classify(ladder.response.as_ref().unwrap());
    assert_eq!((verdict.returned_by, verdict.outcome), (Responder::Nginx, Certainty::Certain));
    assert_eq!(verdict.reached_origin, Tri::No);
    assert!(!verdict.conflicts.is_empty(), "{verdict:#?}");
    assert_eq!(ladder.hops[1].got, Got::AskedNobody);
    assert!(ladder.hops[1].answered);
    // The gateway asked nobody: that the origin has no record needs no coverage.
    let origin = ladder.hops.last().unwrap();
    assert_eq!((origin.vantage, origin.sight), (Vantage::Origin, Sight::NotSeen));
    let mut attempts = [attempt.clone()];
    prove(&mut attempts, std::slice::from_ref(&gateway));
    assert_eq!(attempts[0].verdict.returned_by, Responder::Nginx);
    assert_eq!(attempts[0].verdict.outcome, Certainty::Certain);
}

#[test]
fn a_gateways_repeats_are_counted_and_mirrored_copies_are_none() {
    let attempt = sent("c", 0, Some("r"));
    let mut gateway = seen(&attempt, Vantage::Gateway, "g", 429);
    gateway.event.log = passed_on(429, "502, 429");
    let origins: Vec<StoredEvent> =
        (0..2).map(|n| seen(&attempt, Vantage::Origin, &format!("o{n}"), 429)).collect();
    let links = Links::new([&attempt], [&gateway].into_iter().chain(&origins));
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert_eq!((ladder.upstream_requests, ladder.resent()), (Some(2), Some(1)));
    assert_eq!(ladder.hops[1].resent, Some(1));
    assert_eq!(ladder.hops[1].got, Got::Statuses("502, 429".to_owned()));
    assert!(ladder.notes.iter().any(|n| n.contains("retry layer")), "{:?}", ladder.notes);
    // Asked once, recorded twice.
    gateway.event.log = passed_on(429, "429");
    let links = Links::new([&attempt], [&gateway].into_iter().chain(&origins));
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert_eq!((ladder.upstream_requests, ladder.resent()), (Some(1), Some(0)));
    assert!(ladder.notes.iter().any(|n| n.contains("mirrored")), "{:?}", ladder.notes);
    // Without the gateway's log nobody can say which.
    let links = Links::new([&attempt], &origins);
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert_eq!(ladder.upstream_requests, None);
    assert!(ladder.notes.iter().any(|n| n.contains("tells which")), "{:?}", ladder.notes);
}

#[test]
fn a_record_that_contradicts_a_log_is_shown() {
    let attempt = sent("c", 0, Some("r"));
    let mut gateway = seen(&attempt, Vantage::Gateway, "g", 429);
    gateway.event.log = refused_here(429);
    let origin = seen(&attempt, Vantage::Origin, "o", 200);
    let links = Links::new([&attempt], [&gateway, &origin]);
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert!(ladder.notes.iter().any(|n| n.contains("contradiction")), "{:?}", ladder.notes);
}

#[test]
fn not_seen_needs_records_of_that_minute_before_and_after_it() {
    let attempt = sent("c", 60_000, Some("r"));
    let others: Vec<StoredEvent> = (0..10)
        .map(|n| {
            let mut s = served(&format!("s{n}"), at(20_000 + n * 8_000));
            s.event.request_id = Some(format!("r{n}"));
            s.event.ray_id = None;
            s.event.trace_id = None;
            s
        })
        .collect();
    let record =
        |s: &StoredEvent| seen(s, Vantage::Origin, &format!("o-{}", s.event.event_id), 200);
    let all: Vec<StoredEvent> = others.iter().map(record).collect();
    let sight = |others: &[StoredEvent], records: &[StoredEvent], sends: bool| {
        Coverage::new(&attempt, others, records, [false, sends])
            .of_missing(Vantage::Origin, "origin")
            .0
    };
    assert_eq!(sight(&others, &all, true), Sight::NotSeen);
    // The log ends before it.
    assert_eq!(sight(&others[..5], &all[..5], true), Sight::Hole);
    // It lacks some.
    assert_eq!(sight(&others, &all[..7], true), Sight::Hole);
    // It knows the requests by other ids.
    assert_eq!(sight(&others, &[], true), Sight::Hole);
    // Nothing else happened.
    assert_eq!(sight(&[], &[], true), Sight::Hole);
    assert_eq!(sight(&others, &[], false), Sight::NoSource);
}

#[test]
fn lines_of_one_product_are_hops_where_one_is_inside_the_other_and_tries_where_they_follow() {
    let attempt = sent("c", 0, Some("r"));
    let hop = |id: &str, from: i64, took: i64| {
        let mut record = seen(&attempt, Vantage::Gateway, id, 429);
        record.event.occurred_at = at(from);
        record.event.duration_ms = Some(took);
        record.event.log = passed_on(429, "429");
        record
    };
    let (outer, inner, again) = (hop("g1", 1, 30), hop("g2", 5, 10), hop("g3", 40, 10));
    let links = Links::new([&attempt], [&outer, &inner]);
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert_eq!(ladder.hops.len(), 3, "{:?}", hops(&ladder));
    assert_eq!(ladder.hops[1].records[0].event.event_id, "g1");
    let links = Links::new([&attempt], [&outer, &again]);
    let ladder = Ladder::new(&attempt, &links.find(&attempt), None);
    assert_eq!(ladder.hops.len(), 2, "{:?}", hops(&ladder));
}
