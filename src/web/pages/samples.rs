//! What the pages' tests are made of: an empty, a usual, an extreme and a hostile case of each.

use super::{overview, triage};
use crate::domain::checklist::{
    Answer, AnswerState, Facts, Finding, NextAction, PlannerInput, Step, Table, answers,
    samples as facts,
};
use crate::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};
use crate::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use crate::domain::stored::{
    Bucket, Counts, Mark, Pair, Scope, StoredEvent, TimeBasis, VerdictSummary, View,
};
use crate::domain::time::{HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::metrics::Overflow;

/// The moment at which samples are asked for: 2026-11-11T08:00:00Z.
pub(crate) const NOW: UnixMillis = UnixMillis(1_794_384_000_000);

/// Strings that must stay text wherever they are shown.
pub(crate) fn hostile() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".to_owned(),
        "\"><img src=x onerror=alert(1)>".to_owned(),
        "' onmouseover='alert(1)".to_owned(),
        "javascript:alert(1)".to_owned(),
        "[click](javascript:alert(1)) ![x](http://192.0.2.1/x.png) <http://192.0.2.1/>".to_owned(),
        "a|b`c``d```e*f_g_~h~#\n# heading\n- item\n1. one\n| a | b |\n|---|---|".to_owned(),
        "\u{202e}gnp.exe\u{202c} \u{200b}\u{feff}\u{2066}x\u{2069}".to_owned(),
        "\u{0}\u{1b}[31mred\u{1b}[0m\r\nSet-Cookie: a=b".to_owned(),
        "{{ 7*7 }} {% raw %} ${7*7} &lt;b&gt; &#x3c;".to_owned(),
        "../../etc/passwd?x#y%2e%2e".to_owned(),
        "x".repeat(64 * 1024),
    ]
}

pub(crate) fn window() -> Window {
    Window { from: NOW.plus(Millis(-HOUR_MS)), to: NOW }
}

pub(crate) fn view(service: Option<&str>, upstream: Option<&str>) -> View {
    View {
        scope: Scope {
            service: service.map(ToOwned::to_owned),
            upstream: upstream.map(ToOwned::to_owned),
            environment: None,
            route: None,
        },
        window: window(),
        time: TimeBasis::Event,
    }
}

/// A limited attempt as a CDN refuses it, `at` milliseconds into the window.
pub(crate) fn attempt(id: &str, operation: &str, number: u32, at: i64) -> StoredEvent {
    StoredEvent {
        event: Event {
            event_id: id.to_owned(),
            operation_id: Some(operation.to_owned()),
            attempt: number,
            occurred_at: window().from.plus(Millis(at)),
            duration_ms: Some(84),
            vantage: Vantage::Client,
            service: "checkout".to_owned(),
            environment: Some("prod".to_owned()),
            instance: Some("pod-7".to_owned()),
            retry_layer: (number > 1).then_some(RetryLayer::Sdk),
            priority: None,
            method: Some("POST".to_owned()),
            host: "api.example.com".to_owned(),
            route: Some("/v1/orders/{id}".to_owned()),
            status: Some(429),
            error: None,
            retry_after: Some("30".to_owned()),
            computed_delay_ms: Some(1_000),
            delay_source: Some("backoff".to_owned()),
            request_id: Some("req_01".to_owned()),
            ray_id: Some("8f2a01b2c3d4e5f6-GRU".to_owned()),
            layer: None,
            key_hash: Some("hmac-sha256:9d3f4a5b6c7d".to_owned()),
            key_kind: Some("api-key".to_owned()),
            idempotency_key_hash: None,
            body_hash: None,
            client_address_hash: None,
            account_hash: None,
            outcome: Some(Outcome::Retrying),
            attempts_max: Some(5),
            timeout_ms: Some(3_000),
            deadline_ms: Some(120_000),
            headers: vec![
                ("server".to_owned(), "cloudflare".to_owned()),
                ("date".to_owned(), "Wed, 11 Nov 2026 07:29:00 GMT".to_owned()),
            ],
            content_type: Some("text/html".to_owned()),
            error_code: None,
            body_sample: Some("error code: 1015".to_owned()),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
            span_id: Some("00f067aa0ba902b7".to_owned()),
            count: 1,
            redactions: 0,
        },
        verdict: VerdictSummary {
            returned_by: Responder::Cloudflare,
            layer: Layer::Edge,
            outcome: Certainty::Certain,
            confidence: 0.99,
            limited: true,
            limit_type: LimitType::Rate,
            reached_origin: Tri::No,
            promised_ms: Some(30_000),
            promised_by_date: false,
            clock_skew_ms: Some(0),
        },
        received_at: window().from.plus(Millis(at + 400)),
    }
}

/// The same attempt, served.
pub(crate) fn served(mut attempt: StoredEvent) -> StoredEvent {
    attempt.event.status = Some(201);
    attempt.event.retry_after = None;
    attempt.event.computed_delay_ms = None;
    attempt.event.body_sample = None;
    attempt.event.outcome = Some(Outcome::Succeeded);
    attempt.verdict = VerdictSummary {
        returned_by: Responder::Origin,
        layer: Layer::Origin,
        outcome: Certainty::Likely,
        confidence: 0.7,
        limited: false,
        limit_type: LimitType::Unknown,
        reached_origin: Tri::Yes,
        promised_ms: None,
        ..attempt.verdict
    };
    attempt
}

/// The same attempt, broken off by a time-out.
pub(crate) fn timed_out(mut attempt: StoredEvent) -> StoredEvent {
    attempt = served(attempt);
    attempt.event.status = None;
    attempt.event.error = Some(AttemptError::Timeout);
    attempt.event.outcome = Some(Outcome::DeadlineExceeded);
    attempt.verdict.returned_by = Responder::Unknown;
    attempt.verdict.layer = Layer::Unknown;
    attempt
}

/// An attempt with `text` in every field that takes text.
pub(crate) fn filled_with(text: &str) -> StoredEvent {
    let mut attempt = attempt(text, text, 1, 60_000);
    let own = || Some(text.to_owned());
    let event = &mut attempt.event;
    event.service = text.to_owned();
    event.host = text.to_owned();
    event.environment = own();
    event.instance = own();
    event.priority = own();
    event.method = own();
    event.route = own();
    event.retry_after = own();
    event.delay_source = own();
    event.request_id = own();
    event.ray_id = own();
    event.key_hash = own();
    event.key_kind = own();
    event.idempotency_key_hash = own();
    event.body_hash = own();
    event.client_address_hash = own();
    event.account_hash = own();
    event.headers = vec![(text.to_owned(), text.to_owned())];
    event.content_type = own();
    event.error_code = own();
    event.body_sample = own();
    event.trace_id = own();
    event.span_id = own();
    attempt
}

/// An operation of four attempts: two refused, one timed out, one served.
pub(crate) fn operation() -> Vec<StoredEvent> {
    vec![
        attempt("evt-1", "op-7f1c", 1, 1_000),
        attempt("evt-2", "op-7f1c", 2, 2_100),
        timed_out(attempt("evt-3", "op-7f1c", 3, 33_000)),
        served(attempt("evt-4", "op-7f1c", 4, 37_500)),
    ]
}

pub(crate) fn counts(requests: i64, retries: i64, limited: i64) -> Counts {
    Counts {
        attempts: requests + retries,
        answered: requests + retries,
        requests,
        retries,
        status_429: limited,
        limited,
        limited_retries: limited / 2,
        succeeded: requests + retries - limited,
        server_errors: 0,
        errors: 0,
        retried_operations: retries / 2,
        retry_successes: retries / 3,
        gave_up: retries / 9,
    }
}

pub(crate) fn buckets() -> Vec<Bucket> {
    (0..60)
        .map(|minute| {
            let storm = (20..40).contains(&minute);
            let retries = if storm { 30 + minute * 2 } else { minute % 3 };
            let limited = if storm { 40 + minute } else { 0 };
            Bucket {
                start: window().from.plus(Millis(minute * MINUTE_MS)),
                counts: counts(40 + minute % 7, retries, limited),
            }
        })
        .collect()
}

fn pair(service: &str, upstream: &str, counts: Counts) -> Pair {
    Pair {
        service: service.to_owned(),
        upstream: upstream.to_owned(),
        environment: Some("prod".to_owned()),
        source: Vantage::Client,
        counts,
        last_at: NOW.plus(Millis(-240_000)),
    }
}

pub(crate) fn overviews() -> Vec<(&'static str, overview::Input)> {
    let base = overview::Input {
        view: view(None, None),
        kept_note: None,
        source: Vantage::Client,
        totals: Counts::default(),
        buckets: Vec::new(),
        pairs: Vec::new(),
        last_event_at: None,
        elsewhere: None,
        overflow: Vec::new(),
        caps: crate::metrics::Caps::default(),
        now: NOW,
    };
    let usual = overview::Input {
        totals: counts(2_600, 1_100, 900),
        buckets: buckets(),
        pairs: vec![
            pair("checkout", "api.example.com", counts(1_204, 900, 840)),
            pair("search", "index.example.net", counts(1_300, 120, 60)),
            Pair { source: Vantage::Gateway, ..pair("mail", "smtp.example.org", counts(96, 0, 0)) },
        ],
        last_event_at: Some(NOW),
        ..base.clone()
    };
    let extreme = overview::Input {
        totals: Counts { succeeded: 0, ..counts(1 << 40, 1 << 42, 1 << 42) },
        buckets: vec![Bucket { start: window().from, counts: counts(1 << 40, 1 << 42, 1 << 41) }],
        pairs: (0..600)
            .map(|i| pair(&format!("service-{i}"), "api.example.com", counts(1 << 40, 1 << 42, i)))
            .collect(),
        last_event_at: Some(NOW),
        overflow: Overflow::ALL.iter().map(|label| (*label, u64::MAX)).collect(),
        ..base.clone()
    };
    let kept = overview::Input {
        kept_note: Some("Events before 2026-11-01 00:00:00 are no longer kept.".to_owned()),
        ..usual.clone()
    };
    let quiet = overview::Input { last_event_at: Some(UnixMillis(0)), ..base.clone() };
    let past = overview::Input {
        elsewhere: Some(super::elsewhere::Elsewhere::at(&base.view, UnixMillis(0), false)),
        ..quiet.clone()
    };
    let hostile = overview::Input {
        pairs: hostile().iter().map(|text| pair(text, text, counts(10, 2, 1))).collect(),
        last_event_at: Some(NOW),
        view: view(Some(&hostile()[0]), Some(&hostile()[6])),
        ..base.clone()
    };
    vec![
        ("empty", base),
        ("kept", kept),
        ("quiet", quiet),
        ("past", past),
        ("usual", usual),
        ("extreme", extreme),
        ("hostile", hostile),
    ]
}

/// Answers with `text` in every place that takes text.
fn answers_with(text: &str) -> Vec<Answer> {
    Step::ALL
        .iter()
        .map(|step| Answer {
            step: *step,
            state: match step.number() % 3 {
                0 => AnswerState::Clear,
                1 => AnswerState::Finding,
                _ => AnswerState::NeedsData,
            },
            headline: text.to_owned(),
            findings: vec![Finding {
                id: format!("finding-{step}"),
                text: text.to_owned(),
                actionable: step.number() % 2 == 0,
                numbers: vec![(text.to_owned(), text.to_owned())],
                rows: vec![(text.to_owned(), NOW)],
                rows_total: 1 << 40,
            }],
            next: vec![NextAction { text: text.to_owned(), command: Some(text.to_owned()) }],
            tables: vec![Table {
                caption: text.to_owned(),
                columns: vec![text.to_owned(), "b".to_owned()],
                rows: vec![vec![text.to_owned(), text.to_owned()], vec![text.to_owned()]],
            }],
            basis: text.to_owned(),
        })
        .collect()
}

pub(crate) fn triages() -> Vec<(&'static str, triage::Input)> {
    let mark = |text: &str| Mark {
        id: 1,
        at: NOW,
        service: Some(text.to_owned()),
        upstream: None,
        title: text.to_owned(),
    };
    let empty = triage::Input {
        view: view(None, None),
        kept_note: None,
        source: Vantage::Client,
        uncounted_pairs: 0,
        totals: Counts::default(),
        buckets: Vec::new(),
        answers: Vec::new(),
        marks: Vec::new(),
        plan: None,
        suggested: None,
    };
    let mut samples: Vec<(&'static str, triage::Input)> = hostile()
        .into_iter()
        .map(|text| {
            let input = triage::Input {
                view: view(Some(&text), Some(&text)),
                answers: answers_with(&text),
                marks: vec![mark(&text)],
                ..empty.clone()
            };
            ("hostile", input)
        })
        .collect();
    samples.push((
        "usual",
        triage::Input {
            kept_note: None,
            view: view(Some("checkout"), Some("api.example.com")),
            source: Vantage::Gateway,
            uncounted_pairs: 2,
            totals: counts(2_600, 1_100, 900),
            buckets: buckets(),
            answers: answers_with("Cloudflare refused 900 of 3,700 attempts by a rate rule."),
            marks: vec![mark("Lowered the SDK's attempts to 2")],
            plan: Some(PlannerInput {
                allowed: 120,
                window_ms: 60_000,
                aimed: 90,
                work: 600,
                answer_ms: 2_000,
            }),
            suggested: None,
        },
    ));
    samples.push(("empty", empty));
    let of = |facts: &Facts| triage::Input {
        view: facts.view.clone(),
        kept_note: None,
        source: facts.source,
        uncounted_pairs: facts.uncounted_pairs,
        totals: facts.totals,
        buckets: facts.buckets.clone(),
        answers: answers(facts),
        marks: facts.marks.clone(),
        plan: None,
        suggested: PlannerInput::from_facts(facts),
    };
    samples.push(("incident", of(&facts::usual())));
    samples.push(("nothing", of(&facts::empty())));
    samples.push(("extreme", of(&facts::extreme())));
    samples.push(("hostile-facts", of(&facts::hostile())));
    samples
}
