//! What the pages' tests are made of: an empty, a usual, an extreme and a hostile case of each.

use super::alerts::drawing::{self, Drawing};
use super::ladder::{HopOut, LadderOut, LoggedField, LoggedOut, RecordOut, Story};
use super::model::Stamp;
use super::{alerts, overview, triage};
use crate::domain::alerts::notice::Subject;
use crate::domain::alerts::{
    AlertSettings, AlertState, Finding as AlertFinding, Measure, Met, Notice, Rule, Severity, Span,
    Sums, Transition, evaluate,
};
use crate::domain::checklist::{
    Answer, AnswerState, Facts, Finding, NextAction, PlannerInput, Step, Table, answers,
    samples as facts,
};
use crate::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};
use crate::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use crate::domain::joins::Sight;
use crate::domain::stored::{
    Bucket, Counts, Mark, Pair, Scope, StoredEvent, TimeBasis, VerdictSummary, View,
};
use crate::domain::time::{HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use crate::domain::volumes::Volume;
use crate::metrics::Overflow;
use crate::store::{
    Acknowledgement, Alert, Delivery, Due, Ended, HistoryItem, KnownAlert, NewSilence, PairVolume,
    ReceiverHold, Silence, Standing,
};

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
            derived: None,
            log: None,
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

/// An attempt that nginx refused, as nginx and the origin's silence tell it.
pub(crate) fn story() -> Story {
    let hop = |vantage, name: &str, product, sight| HopOut {
        vantage,
        name: name.to_owned(),
        product,
        sight,
        why: None,
        records: Vec::new(),
        logged: Vec::new(),
        gave: None,
        got: None,
        asked_nobody: false,
        answered: false,
        took_ms: None,
        resent: None,
        retry_layer: None,
    };
    let record = RecordOut { event_id: "gw-1".to_owned(), page: "/events/gw-1".to_owned() };
    let field =
        |name: &str, value: &str| LoggedField { name: name.to_owned(), value: value.to_owned() };
    let logged = LoggedOut {
        record: record.clone(),
        at: Stamp(NOW),
        status: Some(429),
        fields: vec![
            field("upstream_status", "502, 429"),
            field("upstream_connect_s", "0.000, 0.001"),
            field("limit_req_status", ""),
        ],
    };
    let hops = vec![
        HopOut {
            got: Some("429".to_owned()),
            took_ms: Some(84),
            ..hop(Vantage::Client, "checkout", Responder::Client, Sight::Seen)
        },
        HopOut {
            records: vec![record.clone()],
            logged: vec![logged],
            gave: Some(429),
            got: Some("502, 429".to_owned()),
            took_ms: Some(80),
            resent: Some(1),
            retry_layer: Some(RetryLayer::Gateway),
            ..hop(Vantage::Gateway, "edge-1", Responder::Nginx, Sight::Seen)
        },
        HopOut {
            why: Some("Its record has holes.".to_owned()),
            ..hop(Vantage::Gateway, "haproxy", Responder::Haproxy, Sight::Hole)
        },
        HopOut {
            why: Some("It holds all others.".to_owned()),
            ..hop(Vantage::Origin, "origin", Responder::Origin, Sight::NotSeen)
        },
    ];
    let notes = vec!["edge-1 sent this attempt again once.".to_owned()];
    let ladder = LadderOut { hops, notes, candidates: vec![record], upstream_requests: Some(2) };
    Story { ladder, response: None, records: Vec::new() }
}

/// The same with sent text wherever it can stand.
pub(crate) fn hostile_story(text: &str) -> Story {
    let mut story = story();
    for hop in &mut story.ladder.hops {
        hop.name = text.to_owned();
        hop.got = Some(text.to_owned());
        hop.why = Some(text.to_owned());
        for field in hop.logged.iter_mut().flat_map(|logged| &mut logged.fields) {
            (field.name, field.value) = (text.to_owned(), text.to_owned());
        }
    }
    story.ladder.notes = vec![text.to_owned()];
    story.ladder.candidates =
        vec![RecordOut { event_id: text.to_owned(), page: super::address::event(text) }];
    story
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
        volumes: Vec::new(),
        standing: Standing::default(),
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
        volumes: vec![PairVolume {
            service: "checkout".to_owned(),
            upstream: "api.example.com".to_owned(),
            environment: pair("checkout", "api.example.com", Counts::default()).environment,
            volume: Volume { requests: 2_411, status_429: 903, unanswered: 4, minutes: 60 },
        }],
        standing: Standing { evaluated_at: Some(NOW), firing: 2, pending: 1 },
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
        volume: None,
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
            volume: Some(Volume { requests: 1 << 40, status_429: 1, unanswered: 1, minutes: 3 }),
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
        volume: None,
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

/// Sixty requests a minute, and so many more of whatever is bad.
struct Stormy(i64);
impl Sums for Stormy {
    fn sum(&self, measure: Measure, span: Span) -> Option<i64> {
        let per_minute = match measure {
            Measure::Attempts => 60 + self.0,
            Measure::Requests | Measure::Succeeded => 60,
            _ => self.0,
        };
        Some(per_minute * i64::from(span.minutes))
    }
}

/// An alert as the evaluator finds it, with stormy values when it was made and calm ones now.
pub(crate) fn alert(id: i64, rule: &str, service: &str, state: AlertState) -> Alert {
    let rule = Rule::named(rule).unwrap();
    let (service, upstream) =
        if rule.is_of_a_pair() { (service, "api.example.com") } else { ("", "") };
    let thresholds = alert_settings().of(service, upstream);
    let found = |storm| match rule.condition() {
        Some(condition) => evaluate(condition, &thresholds, &Stormy(storm)),
        None => AlertFinding { met: Met::No, value: None, readings: Vec::new() },
    };
    Alert {
        known: KnownAlert {
            id,
            rule: rule.name.to_owned(),
            subject: Subject {
                service: service.to_owned(),
                upstream: upstream.to_owned(),
                environment: if service.is_empty() { String::new() } else { "prod".to_owned() },
            },
            state,
            changes: 2,
        },
        since: state.fired_at().unwrap_or(NOW),
        evaluated_at: NOW,
        made: found(44),
        latest: found(3),
        acknowledged: None,
        silence: None,
    }
}

fn alert_settings() -> AlertSettings {
    crate::config::Config::load(&crate::config::Sources::default()).unwrap().alerts
}

fn ago(minutes: i64) -> UnixMillis {
    NOW.plus(Millis(-minutes * MINUTE_MS))
}

fn firing() -> AlertState {
    AlertState::Firing { active_since: ago(22), fired_at: ago(20), false_since: None }
}

fn silence(text: &str) -> Silence {
    Silence {
        id: 7,
        of: NewSilence {
            rule: "Retrylens429Spike".to_owned(),
            subject: Subject { service: text.to_owned(), ..Subject::default() },
            from: ago(30),
            until: ago(-90),
            who: text.to_owned(),
            why: text.to_owned(),
        },
        made_at: ago(30),
    }
}

/// A receiver that nothing is sent to for three more minutes, or at all.
fn held(name: &str, gone_at: Option<UnixMillis>) -> (String, ReceiverHold) {
    (name.to_owned(), ReceiverHold { until: ago(-3), gone_at })
}

fn delivery(alert: &Alert, text: &str, ended: Option<Ended>) -> Delivery {
    let Alert { known, made, .. } = alert;
    Delivery {
        of: Due {
            id: 3,
            alert_id: known.id,
            receiver: text.to_owned(),
            notice: Notice {
                key: "alert_00112233445566778899aabbccddeeff".to_owned(),
                alert: known.rule.clone(),
                severity: Severity::Critical,
                subject: known.subject.clone(),
                change: Transition::Fired,
                at: ago(20),
                state: known.state,
                summary: text.to_owned(),
                description: text.to_owned(),
                runbook_url: text.to_owned(),
                dashboard_url: None,
                value: made.value,
                readings: made.readings.clone(),
            },
            made_at: ago(20),
            go: 2,
        },
        attempts: 5,
        leased_until: UnixMillis(0),
        next_at: ago(-2),
        last_error: text.to_owned(),
        ended: ended.map(|how| (how, ago(5))),
    }
}

fn drawing() -> Drawing {
    let values = (0..60_i64).map(|minute| drawing::Value {
        at: crate::web::pages::model::Stamp(ago(60 - minute)),
        part: if (20..45).contains(&minute) { minute * 4 } else { minute % 5 },
        whole: if minute == 12 { 0 } else { 300 },
    });
    let measured = drawing::Measured {
        what: "answered 429 / attempts".to_owned(),
        minutes: 5,
        threshold: 0.2,
        is_share: true,
        is_below: false,
        values: values.collect(),
    };
    Drawing::Measured(measured, window())
}

pub(crate) fn alert_lists() -> Vec<(&'static str, alerts::Input)> {
    let empty = alerts::Input {
        wanted: alerts::Wanted { from: ago(24 * 60), ..alerts::Wanted::default() },
        standing: Standing::default(),
        pairs: 0,
        alerts: Vec::new(),
        drawings: std::collections::BTreeMap::new(),
        silences: Vec::new(),
        there: alerts::model::There::default(),
        receivers: Vec::new(),
        holds: alerts::model::Holds::new(),
        waiting: Vec::new(),
        ended: Vec::new(),
        settings: alert_settings(),
        now: NOW,
    };
    let standing = |minutes| Standing { evaluated_at: Some(ago(minutes)), firing: 0, pending: 0 };
    let calm = alerts::Input { standing: standing(0), pairs: 12, ..empty.clone() };
    let late = alerts::Input { standing: standing(40), pairs: 12, ..empty.clone() };
    let spike = alert(1, "Retrylens429Spike", "checkout", firing());
    let silenced = Alert {
        silence: Some(silence("sam")),
        acknowledged: Some(Acknowledgement {
            who: "sam".to_owned(),
            why: "asked for a higher limit".to_owned(),
            at: ago(10),
            until: ago(-100),
        }),
        ..alert(2, "RetrylensRetryBudgetExceeded", "search", firing())
    };
    let over =
        AlertState::Resolved { active_since: ago(90), fired_at: ago(88), resolved_at: ago(40) };
    let pending = AlertState::Pending { active_since: ago(1) };
    let usual = alerts::Input {
        receivers: vec!["pager".to_owned()],
        holds: [held("pager", None), held("chat", Some(ago(5)))].into(),
        alerts: vec![
            spike.clone(),
            silenced,
            alert(3, "RetrylensIngestStalled", "", firing()),
            alert(4, "RetrylensRetriesOutgrowRequests", "checkout", pending),
            alert(5, "RetrylensLayersMultiply", "catalog-sync", over),
            alert(6, "RetrylensWaitAccumulates", "mail", over),
        ],
        drawings: [(1, drawing()), (2, drawing())].into_iter().collect(),
        silences: vec![silence("checkout")],
        waiting: vec![delivery(&spike, "pager", None)],
        ended: vec![
            delivery(&spike, "chat", Some(Ended::Delivered)),
            delivery(&spike, "hook", Some(Ended::Dropped)),
            delivery(&spike, "hook", Some(Ended::Superseded)),
        ],
        ..calm.clone()
    };
    let extreme = alerts::Input {
        alerts: (0..700)
            .map(|id| alert(id, "Retrylens429Spike", &format!("service-{id}"), firing()))
            .collect(),
        ..calm.clone()
    };
    let hostile = alerts::Input {
        alerts: (0..)
            .zip(hostile())
            .map(|(id, text)| Alert {
                silence: Some(silence(&text)),
                ..alert(id, "Retrylens429Spike", &text, firing())
            })
            .collect(),
        silences: hostile().iter().map(|text| silence(text)).collect(),
        receivers: hostile(),
        holds: hostile().iter().map(|text| held(text, Some(ago(5)))).collect(),
        waiting: hostile().iter().map(|text| delivery(&spike, text, None)).collect(),
        wanted: alerts::Wanted { service: Some(hostile()[1].clone()), ..empty.wanted.clone() },
        ..calm.clone()
    };
    vec![
        ("empty", empty),
        ("calm", calm),
        ("late", late),
        ("usual", usual),
        ("extreme", extreme),
        ("hostile", hostile),
    ]
}

pub(crate) fn alerts() -> Vec<(&'static str, alerts::one::Input)> {
    let changes = |alert: &Alert| {
        let (state, finding) = (alert.known.state, alert.made.clone());
        let all =
            [Transition::Resolved, Transition::Fired, Transition::Pended, Transition::Dropped];
        (0..).zip(all).map(move |(number, change)| HistoryItem {
            number,
            at: ago(20 + number),
            change,
            state,
            finding: finding.clone(),
        })
    };
    let of = |alert: Alert, drawing: Option<Drawing>, text: &str| alerts::one::Input {
        drawing,
        history: changes(&alert).collect(),
        deliveries: vec![delivery(&alert, text, None)],
        silences: vec![silence(text)],
        receivers: vec![text.to_owned()],
        holds: [held(text, None)].into(),
        evaluated_at: Some(NOW),
        settings: alert_settings(),
        now: NOW,
        alert,
    };
    let over =
        AlertState::Resolved { active_since: ago(90), fired_at: ago(88), resolved_at: ago(40) };
    let spike = |service: &str, state| alert(1, "Retrylens429Spike", service, state);
    let attempts = Drawing::Attempts(
        crate::web::pages::model::Series::of(window(), MINUTE_MS, &buckets()),
        window(),
    );
    let gone = alerts::one::Input {
        history: Vec::new(),
        deliveries: Vec::new(),
        receivers: Vec::new(),
        ..of(spike("checkout", AlertState::Inactive), None, "pager")
    };
    let mut samples = vec![
        ("firing", of(spike("checkout", firing()), Some(drawing()), "pager")),
        ("over", of(spike("checkout", over), Some(drawing()), "pager")),
        (
            "waits",
            of(alert(9, "RetrylensWaitAccumulates", "mail", firing()), Some(attempts), "pager"),
        ),
        ("own", of(alert(8, "RetrylensIngestStalled", "", firing()), None, "pager")),
        ("gone", gone),
    ];
    samples.extend(hostile().iter().map(|text| {
        let alert = Alert { silence: Some(silence(text)), ..spike(text, firing()) };
        ("hostile", of(alert, Some(drawing()), text))
    }));
    samples
}
