//! Facts to try the steps and the pages on: empty, usual, extreme, hostile. Everything in them is
//! made up: documentation hosts, fake ids. The same at every call.

use super::{Comparison, Facts, KeyService};
use crate::domain::classify::{Certainty, LimitType, Responder, Tri};
use crate::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use crate::domain::stats::len;
use crate::domain::stored::{
    Bucket, Counts, Dimension, DimensionCounts, Mark, Scope, StoredEvent, TimeBasis,
    VerdictSummary, View,
};
use crate::domain::time::{HOUR_MS, MINUTE_MS, UnixMillis, Window};
use std::collections::BTreeMap;

/// Start of the window of all samples: 2026-11-11T10:00:00Z.
pub const START: UnixMillis = UnixMillis(1_794_391_200_000);

/// The moment `ms` milliseconds after [`START`].
pub const fn at(ms: i64) -> UnixMillis {
    UnixMillis(START.0.saturating_add(ms))
}

/// A served first attempt, sent at `sent` and answered 40 ms later.
pub fn served(event_id: &str, sent: UnixMillis) -> StoredEvent {
    StoredEvent {
        event: Event {
            event_id: event_id.to_owned(),
            operation_id: None,
            attempt: 1,
            occurred_at: sent,
            duration_ms: Some(40),
            vantage: Vantage::Client,
            service: "checkout".to_owned(),
            environment: Some("prod".to_owned()),
            instance: Some("pod-1".to_owned()),
            retry_layer: None,
            priority: None,
            method: Some("GET".to_owned()),
            host: "api.example.com".to_owned(),
            route: Some("/v1/orders/{id}".to_owned()),
            status: Some(200),
            error: None,
            retry_after: None,
            computed_delay_ms: None,
            delay_source: None,
            request_id: Some(format!("req-{event_id}")),
            ray_id: None,
            layer: None,
            key_hash: Some("hmac-sha256:9d3f0011223344556677".to_owned()),
            key_kind: Some("api-key".to_owned()),
            idempotency_key_hash: None,
            body_hash: None,
            client_address_hash: None,
            account_hash: None,
            outcome: Some(Outcome::Succeeded),
            attempts_max: None,
            timeout_ms: None,
            deadline_ms: None,
            headers: Vec::new(),
            content_type: None,
            error_code: None,
            body_sample: None,
            trace_id: None,
            span_id: None,
            count: 1,
            redactions: 0,
            derived: None,
            log: None,
        },
        verdict: VerdictSummary {
            returned_by: Responder::Origin,
            layer: Responder::Origin.layer(),
            outcome: Certainty::Likely,
            confidence: 0.7,
            limited: false,
            limit_type: LimitType::Unknown,
            reached_origin: Tri::Yes,
            promised_ms: None,
            promised_by_date: false,
            clock_skew_ms: None,
        },
        received_at: UnixMillis(sent.0.saturating_add(1_000)),
    }
}

/// An attempt that `by` refused with 429, promising `wait_s` seconds where given.
pub fn refused(
    event_id: &str,
    sent: UnixMillis,
    by: Responder,
    kind: LimitType,
    wait_s: Option<i64>,
) -> StoredEvent {
    let mut s = served(event_id, sent);
    s.event.status = Some(429);
    s.event.outcome = Some(Outcome::Retrying);
    s.event.retry_after = wait_s.map(|seconds| seconds.to_string());
    s.event.headers = vec![
        ("server".to_owned(), by.to_string()),
        ("date".to_owned(), "Wed, 11 Nov 2026 10:00:00 GMT".to_owned()),
    ];
    s.verdict = VerdictSummary {
        returned_by: by,
        layer: by.layer(),
        outcome: if by == Responder::Origin { Certainty::Likely } else { Certainty::Certain },
        confidence: if by == Responder::Origin { 0.7 } else { 0.995 },
        limited: true,
        limit_type: kind,
        reached_origin: if by == Responder::Origin { Tri::Yes } else { Tri::No },
        promised_ms: wait_s.map(|seconds| seconds.saturating_mul(1_000)),
        promised_by_date: false,
        clock_skew_ms: Some(-500),
    };
    s
}

/// `s` as attempt `number` of the operation `id`, re-sent by `layer`.
#[must_use]
pub fn in_operation(
    mut s: StoredEvent,
    id: &str,
    number: u32,
    layer: Option<RetryLayer>,
) -> StoredEvent {
    s.event.operation_id = Some(id.to_owned());
    s.event.attempt = number;
    s.event.retry_layer = layer;
    s
}

/// Facts made from client attempts as the store makes them: an hour's window from [`START`], counts
/// by minute and by dimension, the key's services.
pub fn facts(attempts: Vec<StoredEvent>) -> Facts {
    let window = Window { from: START, to: at(HOUR_MS) };
    let mut totals = Counts::default();
    let mut buckets: Vec<Bucket> = (0..60)
        .map(|minute| Bucket { start: at(minute * MINUTE_MS), counts: Counts::default() })
        .collect();
    let mut dimensions: BTreeMap<(Dimension, String), [i64; 3]> = BTreeMap::new();
    let mut keys: BTreeMap<(String, String), [i64; 2]> = BTreeMap::new();
    for s in &attempts {
        let counts = Counts::of(&s.event, &s.verdict);
        totals.add(&counts);
        let minute = s.event.occurred_at.since(START).0.div_euclid(MINUTE_MS);
        if let Some(bucket) = usize::try_from(minute).ok().and_then(|i| buckets.get_mut(i)) {
            bucket.counts.add(&counts);
        }
        for (dimension, value) in values(s) {
            let sums = dimensions.entry((dimension, value)).or_default();
            sums[0] += counts.attempts;
            sums[1] += counts.limited;
            sums[2] += counts.retries;
        }
        if let Some(key) = &s.event.key_hash {
            let sums = keys.entry((key.clone(), s.event.service.clone())).or_default();
            sums[0] += counts.attempts;
            sums[1] += counts.limited;
        }
    }
    let mut dimensions: Vec<DimensionCounts> = dimensions
        .into_iter()
        .map(|((dimension, value), [attempts, limited, retries])| DimensionCounts {
            dimension,
            value,
            attempts,
            limited,
            retries,
        })
        .collect();
    dimensions.sort_by_key(|d| std::cmp::Reverse(d.limited));
    Facts {
        view: View { scope: Scope::default(), window, time: TimeBasis::Event },
        now: at(HOUR_MS),
        source: Vantage::Client,
        uncounted_pairs: 0,
        totals,
        before: Counts::default(),
        buckets,
        dimensions,
        attempts,
        attempts_complete: true,
        promised: None,
        observations: Vec::new(),
        has_gateway_source: false,
        has_origin_source: false,
        key_services: keys
            .into_iter()
            .map(|((key, service), [attempts, limited])| KeyService {
                key,
                service,
                attempts,
                limited,
            })
            .collect(),
        marks: Vec::new(),
        comparison: None,
    }
}

/// The value of an attempt in each dimension, as the roll-ups hold them.
fn values(s: &StoredEvent) -> Vec<(Dimension, String)> {
    let e = &s.event;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let sure = matches!(s.verdict.outcome, Certainty::Certain | Certainty::Confident);
    let responder = if sure { s.verdict.returned_by } else { Responder::Unknown };
    let status = e
        .status
        .map(|status| status.to_string())
        .or_else(|| e.error.map(|error| error.to_string()))
        .unwrap_or_default();
    let mut values = vec![
        (Dimension::Service, e.service.clone()),
        (Dimension::Instance, text(&e.instance)),
        (Dimension::Environment, text(&e.environment)),
        (Dimension::Route, text(&e.route)),
        (Dimension::Key, text(&e.key_hash)),
        (Dimension::Address, text(&e.client_address_hash)),
        (Dimension::Account, text(&e.account_hash)),
        (
            Dimension::RetryLayer,
            e.retry_layer.map_or_else(|| "unknown".to_owned(), |layer| layer.to_string()),
        ),
        (Dimension::Responder, responder.to_string()),
        (Dimension::Status, status),
    ];
    if s.verdict.limited {
        values.push((Dimension::LimitType, s.verdict.limit_type.to_string()));
    }
    values
}

/// Nothing stored.
pub fn empty() -> Facts {
    facts(Vec::new())
}

/// An incident: one key meets a CDN's rate rule, its SDK and application both retry without
/// jitter, the origin refuses some other calls behind the same CDN, and a mark has counts on both
/// sides.
pub fn usual() -> Facts {
    let mut attempts = Vec::new();
    for i in 0..600_i64 {
        let mut s = served(&format!("ok-{i}"), at(i * 5_900 + i * 37 % 900));
        s.event.key_hash = Some(format!("hmac-sha256:0a{:02}aabbccddeeff", i % 7));
        s.event.instance = Some(format!("pod-{}", i % 3));
        if i % 3 == 0 {
            "billing".clone_into(&mut s.event.service);
        }
        attempts.push(s);
    }
    for i in 0..60_i64 {
        let id = format!("op-{i}");
        let start = 600_000 + i * 20_000;
        for n in 1..=6_i64 {
            let layer = match n {
                1 => None,
                4 => Some(RetryLayer::App),
                _ => Some(RetryLayer::Sdk),
            };
            let s = refused(
                &format!("cdn-{i}-{n}"),
                at(start + (n - 1) * 1_040),
                Responder::Cloudflare,
                LimitType::Rate,
                Some(10),
            );
            let number = u32::try_from(n).unwrap_or(1);
            let mut s = in_operation(s, &id, number, layer);
            s.event.computed_delay_ms = Some(1_000);
            s.event.method = Some("POST".to_owned());
            s.event.attempts_max = layer.map(|layer| if layer == RetryLayer::Sdk { 3 } else { 2 });
            if n == 6 {
                s.event.outcome = Some(Outcome::Exhausted);
                s.event.computed_delay_ms = None;
            }
            attempts.push(s);
        }
    }
    for i in 0..30_i64 {
        let mut s = refused(
            &format!("origin-{i}"),
            at(700_000 + i * 31_000),
            Responder::Origin,
            LimitType::Concurrency,
            None,
        );
        s.event.route = Some("/v1/reports".to_owned());
        s.event.outcome = Some(Outcome::NotRetryable);
        s.event.operation_id = Some(format!("report-{i}"));
        attempts.push(s);
    }
    let mut facts = facts(attempts);
    facts.view.scope.upstream = Some("api.example.com".to_owned());
    let mark = Mark {
        id: 1,
        at: at(1_800_000),
        service: None,
        upstream: Some("api.example.com".to_owned()),
        title: "SDK retries off".to_owned(),
    };
    facts.marks.push(mark.clone());
    facts.comparison = Some(comparison(mark, [1_000, 390, 5], [900, 40, 6]));
    facts
}

/// A comparison of windows of half an hour: attempts, limited and server errors on each side.
pub fn comparison(mark: Mark, before: [i64; 3], after: [i64; 3]) -> Comparison {
    let counts = |[attempts, limited, server_errors]: [i64; 3]| Counts {
        attempts,
        answered: attempts,
        requests: attempts,
        status_429: limited,
        limited,
        succeeded: attempts - limited - server_errors,
        server_errors,
        ..Counts::default()
    };
    let half = 30 * MINUTE_MS;
    Comparison {
        before_window: Window { from: UnixMillis(mark.at.0 - half), to: mark.at },
        after_window: Window { from: mark.at, to: UnixMillis(mark.at.0 + half) },
        mark,
        before: counts(before),
        after: counts(after),
        before_p95_ms: Some(180),
        after_p95_ms: Some(175),
        before_duplicates: 0,
        after_duplicates: 0,
    }
}

/// The ends of every range: huge counts, far moments, long ladders, many values.
pub fn extreme() -> Facts {
    let mut attempts = Vec::new();
    for i in 0..300_i64 {
        let mut s = refused(
            &format!("far-{i}"),
            if i % 2 == 0 { UnixMillis(i64::MAX - i) } else { UnixMillis(i64::MIN + i) },
            Responder::ALL[usize::try_from(i).unwrap_or_default() % Responder::ALL.len()],
            LimitType::ALL[usize::try_from(i).unwrap_or_default() % LimitType::ALL.len()],
            Some(i64::MAX / 1_000),
        );
        s.event.count = u32::MAX;
        s.event.duration_ms = Some(i64::MAX);
        s.event.computed_delay_ms = Some(i64::MIN);
        s.event.deadline_ms = Some(i64::MIN);
        s.verdict.clock_skew_ms = Some(i64::MIN);
        let layer = RetryLayer::ALL[usize::try_from(i).unwrap_or_default() % RetryLayer::ALL.len()];
        let s = in_operation(s, "one", if i == 0 { 1 } else { u32::MAX }, Some(layer));
        attempts.push(s);
    }
    let mut facts = facts(Vec::new());
    let big = i64::MAX / 4;
    facts.totals = Counts {
        attempts: big,
        answered: big,
        requests: big,
        retries: big,
        status_429: big,
        limited: big,
        limited_retries: big,
        succeeded: big,
        server_errors: big,
        errors: big,
        retried_operations: big,
        retry_successes: big,
        gave_up: big,
    };
    facts.before = facts.totals;
    facts.attempts = attempts;
    facts.attempts_complete = false;
    facts.dimensions = (0..1_001)
        .map(|i| DimensionCounts {
            dimension: Dimension::Key,
            value: if i == 1_000 { "other".to_owned() } else { format!("hmac-sha256:{i:064x}") },
            attempts: 9_000_000_000_000,
            limited: 4_000_000_000_000,
            retries: 1,
        })
        .collect();
    let mark =
        Mark { id: i64::MAX, at: START, service: None, upstream: None, title: String::new() };
    facts.comparison = Some(Comparison {
        before: facts.totals,
        after: facts.totals,
        before_p95_ms: Some(i64::MAX),
        after_p95_ms: Some(i64::MIN),
        before_duplicates: i64::MIN,
        after_duplicates: i64::MAX,
        ..comparison(mark, [1; 3], [1; 3])
    });
    facts
}

/// Text that tries to be more than text, in every field that holds any.
pub fn hostile() -> Facts {
    const TEXT: &str = "<script>alert(1)</script>'\"`$(id)\u{202e}javascript:x|\n# head";
    let long = TEXT.repeat(20);
    let text = || Some(long.clone());
    let mut attempts = Vec::new();
    for i in 0..40_i64 {
        let mut s = if i % 2 == 0 {
            served(&format!("{i}{TEXT}"), at(i * 1_000))
        } else {
            refused(&format!("{i}{TEXT}"), at(i * 1_000), Responder::Nginx, LimitType::Rate, None)
        };
        let e = &mut s.event;
        e.service.clone_from(&long);
        e.host.clone_from(&long);
        e.operation_id = Some(format!("{}{TEXT}", i / 4));
        e.attempt = u32::try_from(i % 4 + 1).unwrap_or(1);
        for field in [
            &mut e.environment,
            &mut e.instance,
            &mut e.priority,
            &mut e.method,
            &mut e.route,
            &mut e.delay_source,
            &mut e.request_id,
            &mut e.ray_id,
            &mut e.key_hash,
            &mut e.key_kind,
            &mut e.idempotency_key_hash,
            &mut e.client_address_hash,
            &mut e.account_hash,
            &mut e.content_type,
            &mut e.error_code,
            &mut e.body_sample,
            &mut e.trace_id,
            &mut e.span_id,
        ] {
            *field = text();
        }
        e.body_hash = Some(format!("{i}{TEXT}"));
        e.retry_after = (i % 2 == 1).then(|| TEXT.to_owned());
        e.headers.push((TEXT.to_owned(), long.clone()));
        e.error = (i % 8 == 3).then_some(AttemptError::Parse);
        attempts.push(s);
    }
    let mut facts = facts(attempts);
    facts.view.scope =
        Scope { service: text(), upstream: text(), environment: text(), route: text() };
    let mark = Mark { id: 1, at: at(0), service: text(), upstream: text(), title: long };
    facts.comparison = Some(comparison(mark.clone(), [len(100), 50, 0], [100, 10, 0]));
    facts.marks.push(mark);
    facts
}
