//! Tests of the eight steps as a whole: a case for each finding, and what holds for all facts.

use super::samples::{at, facts, in_operation, refused, served};
use super::*;
use crate::domain::access_log::LogFacts;
use crate::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};
use crate::domain::event::{AttemptError, Outcome, RetryLayer, Vantage};
use crate::domain::stored::Dimension;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CF: Responder = Responder::Cloudflare;
const RATE: LimitType = LimitType::Rate;
const SDK: Option<RetryLayer> = Some(RetryLayer::Sdk);
const APP: Option<RetryLayer> = Some(RetryLayer::App);

/// One case: the findings that must be raised, those that must not, and the facts.
struct Case {
    name: &'static str,
    raised: &'static [&'static str],
    silent: &'static [&'static str],
    facts: Facts,
}

fn case(
    name: &'static str,
    raised: &'static [&'static str],
    silent: &'static [&'static str],
    facts: Facts,
) -> Case {
    Case { name, raised, silent, facts }
}

/// `n` served attempts, spread over the hour.
fn traffic(n: i64) -> Vec<StoredEvent> {
    (0..n).map(|i| served(&format!("s{i}"), at(i * 3_600_000 / n + i * 7_919 % 977))).collect()
}

/// `n` refusals of first attempts, spread over ten minutes, changed by `change`.
fn refusals(n: i64, change: impl Fn(i64, &mut StoredEvent)) -> Vec<StoredEvent> {
    (0..n)
        .map(|i| {
            let mut s = refused(&format!("r{i}"), at(i * 600_000 / n + i * 37), CF, RATE, Some(30));
            change(i, &mut s);
            s
        })
        .collect()
}

/// `n` operations of two attempts: refused with a promise of `promised_s`, then, `waits(i)`
/// milliseconds after that answer, served. `change` gets both.
fn pairs(
    n: i64,
    promised_s: Option<i64>,
    waits: impl Fn(i64) -> i64,
    change: impl Fn(i64, &mut StoredEvent, &mut StoredEvent),
) -> Vec<StoredEvent> {
    (0..n)
        .flat_map(|i| {
            let id = format!("op{i}");
            let start = i * 3_000_000 / n + i * 31 % 700;
            let first = refused(&format!("p{i}a"), at(start), CF, RATE, promised_s);
            let second = served(&format!("p{i}b"), at(start + 40 + waits(i)));
            let mut first = in_operation(first, &id, 1, None);
            let mut second = in_operation(second, &id, 2, Some(RetryLayer::App));
            change(i, &mut first, &mut second);
            [first, second]
        })
        .collect()
}

/// `operations` of `attempts` each that all fail, the next sent `wait(number)` after an answer.
fn storm(operations: i64, attempts: u32, wait: impl Fn(i64, u32) -> i64) -> Vec<StoredEvent> {
    (0..operations)
        .flat_map(|i| {
            let mut sent = i * 1_700;
            let mut all = Vec::new();
            for number in 1..=attempts {
                let s = refused(&format!("m{i}-{number}"), at(sent), CF, RATE, None);
                let mut s = in_operation(s, &format!("storm{i}"), number, APP);
                s.verdict.limited = false;
                s.event.status = Some(503);
                let ms = wait(i, number);
                s.event.computed_delay_ms = Some(ms);
                sent += 40 + ms;
                all.push(s);
            }
            all
        })
        .collect()
}

/// Two attempts without a limit: the first failed.
fn failed_pairs(
    n: i64,
    waits: impl Fn(i64) -> i64,
    change: impl Fn(i64, &mut StoredEvent, &mut StoredEvent),
) -> Vec<StoredEvent> {
    pairs(n, None, waits, |i, first, second| {
        first.event.status = Some(503);
        first.verdict.limited = false;
        first.verdict.reached_origin = Tri::Unknown;
        change(i, first, second);
    })
}

fn join(parts: impl IntoIterator<Item = Vec<StoredEvent>>) -> Vec<StoredEvent> {
    parts.into_iter().flatten().collect()
}

fn spread(i: i64) -> i64 {
    i * 7_919 % 1_000
}

fn keyed(s: &mut StoredEvent, key: &str) {
    s.event.method = Some("POST".to_owned());
    s.event.idempotency_key_hash = Some(format!("hmac-sha256:{key}"));
}

fn observed(s: &StoredEvent, vantage: Vantage, status: u16) -> StoredEvent {
    let mut record = s.clone();
    record.event.event_id = format!("{vantage}-{}", s.event.event_id);
    record.event.vantage = vantage;
    record.event.status = Some(status);
    record.verdict.limited = status == 429;
    record
}

/// A line of nginx: what its upstreams answered, one entry a try.
fn nginx_line(status: u16, upstream: &str) -> LogFacts {
    let tries = upstream.split(',').filter(|entry| !entry.trim().is_empty()).count();
    let each = |value: &str| vec![value; tries].join(", ");
    let fields = [
        ("upstream_status", upstream.to_owned()),
        ("upstream_addr", each("192.0.2.1:80")),
        ("upstream_connect_s", each("0.001")),
        ("upstream_header_s", each("0.002")),
        ("limit_req_status", if tries == 0 { "REJECTED" } else { "" }.to_owned()),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    LogFacts { product: Responder::Nginx, status: Some(status), fields }
}

fn with_records(
    attempts: Vec<StoredEvent>,
    vantage: Vantage,
    keep: impl Fn(&StoredEvent) -> Option<u16>,
) -> Facts {
    let records = attempts.iter().filter_map(|s| Some(observed(s, vantage, keep(s)?))).collect();
    let mut facts = facts(attempts);
    facts.observations = records;
    facts.has_origin_source = vantage == Vantage::Origin;
    facts.has_gateway_source = vantage == Vantage::Gateway;
    facts
}

fn compared(before: [i64; 3], after: [i64; 3]) -> Facts {
    let mark = Mark { id: 1, at: at(0), service: None, upstream: None, title: "cap".to_owned() };
    let mut facts = facts(traffic(30));
    facts.comparison = Some(samples::comparison(mark, before, after));
    facts
}

/// A fixed window of 60 s of one key: first call, then refusals as (second after ten, wait).
fn fixed_window(first_s: i64, refused_s: &[(i64, i64)]) -> Vec<StoredEvent> {
    let mut attempts = vec![served("first", at(first_s * 1_000))];
    for (i, (second, wait)) in refused_s.iter().enumerate() {
        let mut s = refused(&format!("w{i}"), at(second * 1_000), CF, RATE, Some(*wait));
        s.event.duration_ms = Some(0);
        attempts.push(s);
    }
    attempts
}

/// Two services of which one key, address, account, route, service, instance and environment is
/// refused; `only` is the one that tells, all others are the same everywhere.
fn concentrated(only: Dimension) -> Facts {
    let change = |s: &mut StoredEvent, is_hot: bool| {
        let value = |name: &str| Some(format!("{name}-{}", if is_hot { "hot" } else { "cold" }));
        let e = &mut s.event;
        match only {
            Dimension::Key => e.key_hash = value("key"),
            Dimension::Address => e.client_address_hash = value("address"),
            Dimension::Account => e.account_hash = value("account"),
            Dimension::Route => e.route = value("/route"),
            Dimension::Service => e.service = value("service").unwrap_or_default(),
            Dimension::Instance => e.instance = value("instance"),
            _ => e.environment = value("environment"),
        }
    };
    let mut cold = traffic(300);
    for s in &mut cold {
        change(s, false);
    }
    let mut hot = traffic(40);
    for (i, s) in hot.iter_mut().enumerate() {
        s.event.event_id = format!("h{i}");
        change(s, true);
    }
    facts(join([cold, hot, refusals(60, |_, s| change(s, true))]))
}

/// The cases of step 1 and 2.
fn source_cases() -> Vec<Case> {
    let mixed = || join([traffic(100), refusals(30, |_, _| {})]);
    vec![
        case(
            "a CDN refuses",
            &["answered-by", "curl-twin", "leave-attempts", "leave-origin"],
            &["several-responders", "responder-unknown", "leave-edge"],
            facts(mixed()),
        ),
        case(
            "CDN and origin refuse in one scope",
            &["several-responders", "leave-edge", "leave-attempts"],
            &["responder-unknown"],
            facts(join([
                traffic(50),
                refusals(60, |i, s| {
                    if i % 3 == 0 {
                        s.verdict.returned_by = Responder::Origin;
                        s.verdict.layer = Layer::Origin;
                        s.verdict.outcome = Certainty::Likely;
                        s.verdict.reached_origin = Tri::Yes;
                    }
                }),
            ])),
        ),
        case(
            "one stray refusal of another component is not two sources",
            &["answered-by"],
            &["several-responders"],
            facts(refusals(60, |i, s| {
                if i == 0 {
                    s.verdict.returned_by = Responder::Nginx;
                    s.verdict.layer = Layer::Proxy;
                }
            })),
        ),
        case(
            "nobody knows who",
            &["responder-unknown", "leave-hops"],
            &["answered-by", "leave-attempts"],
            facts(refusals(30, |_, s| {
                s.verdict.returned_by = Responder::Unknown;
                s.verdict.layer = Layer::Unknown;
                s.verdict.outcome = Certainty::Unknown;
            })),
        ),
        case(
            "the client claims another layer",
            &["claim-contradicted"],
            &[],
            facts(refusals(5, |_, s| s.event.layer = Some(Layer::Origin))),
        ),
        case(
            "a write is refused after the origin was reached",
            &["refused-after-processing", "fix-reconcile"],
            &[],
            facts(refusals(5, |_, s| {
                s.event.method = Some("POST".to_owned());
                s.verdict.reached_origin = Tri::Yes;
            })),
        ),
        case(
            "the origin recorded the refusals",
            &["seen-by-origin"],
            &["not-seen-by-origin"],
            with_records(mixed(), Vantage::Origin, |s| s.event.status),
        ),
        case(
            "a complete record of the origin lacks the refusals",
            &["not-seen-by-origin"],
            &["seen-by-origin", "origin-record-incomplete"],
            with_records(mixed(), Vantage::Origin, |s| s.event.status.filter(|x| *x == 200)),
        ),
        case(
            "a record with holes proves nothing by absence",
            &["origin-record-incomplete"],
            &["not-seen-by-origin"],
            with_records(mixed(), Vantage::Origin, |s| {
                s.event.status.filter(|x| *x == 200 && s.event.event_id.ends_with('3'))
            }),
        ),
        case(
            "a record that was not written at that time says nothing",
            &["origin-record-hole"],
            &["origin-record-incomplete"],
            with_records(mixed(), Vantage::Origin, |s| {
                s.event.status.filter(|x| *x == 200 && s.event.occurred_at > at(120_000))
            }),
        ),
        case(
            "a gateway recorded the refusals",
            &["seen-by-gateway"],
            &["seen-by-origin"],
            with_records(mixed(), Vantage::Gateway, |s| s.event.status),
        ),
    ]
}

/// The cases of steps 3 and 4.
fn limit_cases() -> Vec<Case> {
    let of = |kind: LimitType| facts(refusals(30, move |_, s| s.verdict.limit_type = kind));
    let shared = |service: &'static str| {
        refusals(30, move |i, s| {
            s.event.event_id = format!("{service}{i}");
            s.event.service = service.to_owned();
        })
    };
    vec![
        case("rate", &["limit-rate", "fix-spread-requests"], &["fix-quota"], of(RATE)),
        case(
            "quota",
            &["limit-quota", "fix-quota", "leave-backoff"],
            &["fix-spread-requests"],
            of(LimitType::Quota),
        ),
        case(
            "concurrency",
            &["limit-concurrency", "fix-lower-concurrency"],
            &["fix-spread-requests"],
            of(LimitType::Concurrency),
        ),
        case(
            "security",
            &["limit-security", "fix-security-rule", "leave-backoff"],
            &[],
            of(LimitType::Security),
        ),
        case("cached", &["limit-cached", "fix-uncache-refusal"], &[], of(LimitType::Cached)),
        case(
            "overload",
            &["limit-overload", "fix-back-off-overload"],
            &[],
            of(LimitType::Overload),
        ),
        case("unknown kind", &["limit-unknown"], &["limit-rate"], of(LimitType::Unknown)),
        case(
            "two kinds",
            &["several-limit-types"],
            &[],
            facts(refusals(30, |i, s| {
                s.verdict.limit_type = if i % 2 == 0 { RATE } else { LimitType::Quota };
            })),
        ),
        case(
            "a limit with 503",
            &["limit-with-other-status", "fix-limit-status"],
            &[],
            facts(refusals(30, |_, s| s.event.status = Some(503))),
        ),
        case(
            "one key",
            &["scope-key", "scope-separates"],
            &["scope-everyone"],
            concentrated(Dimension::Key),
        ),
        case("one address", &["scope-address"], &["scope-key"], concentrated(Dimension::Address)),
        case("one account", &["scope-account"], &["scope-key"], concentrated(Dimension::Account)),
        case("one route", &["scope-route"], &["scope-key"], concentrated(Dimension::Route)),
        case("one service", &["scope-service"], &["scope-key"], concentrated(Dimension::Service)),
        case(
            "one instance",
            &["scope-instance"],
            &["scope-key"],
            concentrated(Dimension::Instance),
        ),
        case(
            "one environment",
            &["scope-environment"],
            &["scope-key"],
            concentrated(Dimension::Environment),
        ),
        case(
            "everyone alike",
            &["scope-everyone"],
            &["scope-key", "scope-instance", "scope-separates"],
            facts(
                join([traffic(300), refusals(90, |_, _| {})])
                    .into_iter()
                    .enumerate()
                    .map(|(i, mut s)| {
                        s.event.instance = Some(format!("pod-{}", i % 3));
                        s
                    })
                    .collect(),
            ),
        ),
        case(
            "few refusals make no claim about scope",
            &["limit-rate"],
            &["scope-key", "scope-everyone", "scope-separates", "scope-instance"],
            facts(join([
                traffic(100),
                refusals(1, |_, s| s.event.instance = Some("pod-9".to_owned())),
            ])),
        ),
        case(
            "two services share a key",
            &["key-shared", "fix-separate-keys"],
            &[],
            facts(join([shared("checkout"), shared("billing")])),
        ),
        case(
            "first attempts spend the window",
            &["first-attempts-spend-window"],
            &["retries-spend-window"],
            facts(join([traffic(100), refusals(30, |_, _| {})])),
        ),
    ]
}

/// The cases of step 5.
fn time_cases() -> Vec<Case> {
    let kept = |i: i64| 10_000 + 200 + spread(i);
    let raw = |text: &'static str| {
        facts(refusals(30, move |_, s| {
            s.event.retry_after = Some(text.to_owned());
            s.verdict.promised_ms = None;
        }))
    };
    vec![
        case(
            "early",
            &["early-retries", "fix-honour-retry-after"],
            &["promise-kept", "wait-unit-suspect"],
            facts(pairs(30, Some(10), |i| 1_000 + spread(i), |_, _, _| {})),
        ),
        case(
            "within the tolerance of 2 %",
            &[],
            &["early-retries"],
            facts(pairs(30, Some(10), |_| 9_810, |_, _, _| {})),
        ),
        case(
            "a date has a second more",
            &[],
            &["early-retries"],
            facts(pairs(
                30,
                Some(10),
                |_| 8_850,
                |_, first, _| first.verdict.promised_by_date = true,
            )),
        ),
        case(
            "a hedge is no early retry",
            &[],
            &["early-retries", "zero-delay"],
            facts(pairs(
                30,
                Some(10),
                |_| 100,
                |_, first, _| first.event.duration_ms = Some(5_000),
            )),
        ),
        case(
            "a retry at the very time of an attempt that took a while is early",
            &["early-retries"],
            &[],
            facts(pairs(30, Some(10), |_| -40, |_, first, _| first.event.duration_ms = Some(60))),
        ),
        case(
            "milliseconds in Retry-After accuse no retry of being early",
            &["retry-after-doubtful", "fix-wait-unit"],
            &["early-retries", "retry-after-quota", "retry-after-epoch"],
            facts(pairs(
                30,
                Some(30_000),
                |i| 31_000 + spread(i),
                |_, first, _| {
                    first.verdict.limit_type = LimitType::Quota;
                    first.event.headers.push(("retry-after-ms".to_owned(), "30000".to_owned()));
                },
            )),
        ),
        case(
            "two days in Retry-After are told, and no retry is early by them",
            &["retry-after-doubtful"],
            &["early-retries", "fix-wait-unit"],
            facts(pairs(30, Some(172_800), |i| 20_000 + spread(i), |_, _, _| {})),
        ),
        case(
            "retries after a moment since 1970 are not early by years",
            &["retry-after-epoch"],
            &["early-retries", "promise-broken", "promise-kept", "wait-unit-suspect"],
            facts(pairs(30, Some(1_794_391_260), |i| 20_000 + spread(i), |_, _, _| {})),
        ),
        case(
            "kept",
            &["promise-kept", "success-after-retry"],
            &["promise-broken", "early-retries", "exact-retry-after"],
            facts(pairs(30, Some(10), kept, |_, _, _| {})),
        ),
        case(
            "refused again after the promised time",
            &["promise-broken"],
            &["promise-kept"],
            facts(pairs(30, Some(10), kept, |i, _, second| {
                if i % 2 == 0 {
                    second.verdict.limited = true;
                    second.event.status = Some(429);
                }
            })),
        ),
        case(
            "seconds taken for milliseconds",
            &["wait-unit-suspect", "fix-wait-unit"],
            &["zero-delay", "delay-clipped"],
            facts(pairs(
                30,
                Some(30),
                |_| 34,
                |_, first, _| first.event.computed_delay_ms = Some(30),
            )),
        ),
        case(
            "milliseconds taken for seconds",
            &["wait-unit-suspect"],
            &[],
            facts(pairs(
                4,
                Some(10),
                |_| 60_000,
                |_, first, _| {
                    first.event.computed_delay_ms = Some(10_000_000);
                },
            )),
        ),
        case(
            "digits at the front of a date",
            &["retry-after-misread", "fix-wait-unit"],
            &[],
            facts(pairs(
                5,
                Some(10),
                |_| 20_000,
                |_, first, _| {
                    first.event.retry_after = Some("2026-11-11T10:10:00Z".to_owned());
                    first.event.computed_delay_ms = Some(2_026_000);
                },
            )),
        ),
        case(
            "no Retry-After",
            &["retry-after-missing", "fix-server-retry-after"],
            &[],
            facts(refusals(30, |_, s| {
                s.event.retry_after = None;
                s.verdict.promised_ms = None;
            })),
        ),
        case(
            "headers that nobody captured are not missing",
            &[],
            &["retry-after-missing"],
            facts(refusals(30, |_, s| {
                s.event.retry_after = None;
                s.event.headers.clear();
                s.verdict.promised_ms = None;
            })),
        ),
        case("invalid", &["retry-after-invalid"], &["retry-after-epoch"], raw("1.5")),
        case(
            "epoch",
            &["retry-after-epoch", "fix-wait-unit"],
            &["retry-after-invalid"],
            raw("1794391260"),
        ),
        case(
            "a date without Date",
            &["date-without-base"],
            &["retry-after-invalid"],
            facts(refusals(5, |_, s| {
                s.event.headers.clear();
                s.event.retry_after = Some("Wed, 11 Nov 2026 10:30:00 GMT".to_owned());
            })),
        ),
        case(
            "the reset says something else",
            &["reset-disagrees"],
            &[],
            facts(refusals(30, |_, s| {
                s.event.headers.push(("ratelimit-remaining".to_owned(), "0".to_owned()));
                s.event.headers.push(("ratelimit-limit".to_owned(), "100".to_owned()));
                s.event.headers.push(("ratelimit-reset".to_owned(), "300".to_owned()));
            })),
        ),
        case(
            "the reset agrees",
            &[],
            &["reset-disagrees"],
            facts(refusals(30, |_, s| {
                s.event.headers.push(("ratelimit-remaining".to_owned(), "0".to_owned()));
                s.event.headers.push(("ratelimit-limit".to_owned(), "100".to_owned()));
                s.event.headers.push(("ratelimit-reset".to_owned(), "30".to_owned()));
            })),
        ),
        case(
            "a slow clock",
            &["clock-skew", "fix-clock-skew"],
            &["clocks-agree"],
            facts(refusals(30, |_, s| s.verdict.clock_skew_ms = Some(89_500))),
        ),
        case("clocks agree", &["clocks-agree"], &["clock-skew"], facts(refusals(30, |_, _| {}))),
        case(
            "jobs at the turn of the minute",
            &["boundary-burst", "fix-clock-start"],
            &[],
            facts(
                (0..200)
                    .map(|i| served(&format!("c{i}"), at(i / 10 * 60_000 + i % 10 * 90)))
                    .collect(),
            ),
        ),
        case("even traffic", &[], &["boundary-burst"], facts(traffic(500))),
        case(
            "the window of the acceptance table",
            &["window-from-first-request", "fix-spread-requests"],
            &["window-on-clock", "window-not-on-clock"],
            facts(fixed_window(15, &[(63, 12), (70, 5)])),
        ),
        case(
            "a window on the clock",
            &["window-on-clock"],
            &["window-from-first-request"],
            facts(fixed_window(15, &[(48, 12), (55, 5)])),
        ),
        case(
            "a window that neither began",
            &["window-not-on-clock"],
            &["window-from-first-request"],
            facts(fixed_window(2, &[(63, 12), (70, 5)])),
        ),
        case(
            "no durations",
            &["no-duration"],
            &[],
            facts(pairs(3, Some(10), kept, |_, first, _| first.event.duration_ms = None)),
        ),
    ]
}

/// The cases of step 6.
fn behaviour_cases() -> Vec<Case> {
    let ladder = |layers: &'static [Option<RetryLayer>], max: [Option<u32>; 2]| {
        (0..5_i64)
            .flat_map(move |i| {
                layers.iter().enumerate().map(move |(n, layer)| {
                    let number = u32::try_from(n + 1).unwrap_or(1);
                    let sent = at(i * 200_000 + i64::from(number) * 11_000 + spread(i));
                    let s = refused(&format!("l{i}-{n}"), sent, CF, RATE, Some(10));
                    let mut s = in_operation(s, &format!("op{i}"), number, *layer);
                    s.event.attempts_max = match layer {
                        Some(RetryLayer::Sdk) => max[0],
                        Some(RetryLayer::App) => max[1],
                        _ => None,
                    };
                    s
                })
            })
            .collect::<Vec<_>>()
    };
    let post = |change: fn(i64, &mut StoredEvent, &mut StoredEvent)| {
        facts(failed_pairs(6, |i| 500 + spread(i), change))
    };
    let outcome = |word: Outcome| {
        facts(refusals(5, move |i, s| {
            s.event.operation_id = Some(format!("o{i}"));
            s.event.outcome = Some(word);
        }))
    };
    vec![
        case(
            "SDK and application retry",
            &["double-layer-retry", "fix-one-retry-layer", "retries-spend-window", "leave-plan"],
            &["beyond-own-limit"],
            facts(ladder(
                &[None, SDK, SDK, APP, SDK, SDK, APP, SDK, SDK, APP, SDK, SDK],
                [Some(3), Some(4)],
            )),
        ),
        case(
            "one layer retries",
            &["retries-spend-window"],
            &["double-layer-retry"],
            facts(ladder(&[None, SDK, SDK, SDK], [Some(4), None])),
        ),
        case(
            "POST again without a key",
            &["write-without-idempotency-key", "fix-idempotency"],
            &["idempotency-key-changes"],
            post(|_, first, second| {
                first.event.method = Some("POST".to_owned());
                second.event.method = Some("POST".to_owned());
            }),
        ),
        case(
            "POST again with its key",
            &[],
            &[
                "write-without-idempotency-key",
                "idempotency-key-changes",
                "idempotency-key-two-operations",
            ],
            post(|i, first, second| {
                keyed(first, &i.to_string());
                keyed(second, &i.to_string());
            }),
        ),
        case(
            "another key each time",
            &["idempotency-key-changes", "fix-idempotency"],
            &["write-without-idempotency-key"],
            post(|i, first, second| {
                keyed(first, &format!("{i}a"));
                keyed(second, &format!("{i}b"));
            }),
        ),
        case(
            "one key, two bodies",
            &["idempotency-key-two-bodies"],
            &["idempotency-key-two-operations"],
            post(|i, first, second| {
                keyed(first, &i.to_string());
                keyed(second, &i.to_string());
                first.event.body_hash = Some("sha256:aa".to_owned());
                second.event.body_hash = Some("sha256:bb".to_owned());
            }),
        ),
        case(
            "one key in all operations",
            &["idempotency-key-two-operations"],
            &["idempotency-key-two-bodies"],
            post(|_, first, second| {
                keyed(first, "same");
                keyed(second, "same");
            }),
        ),
        case(
            "409 after a time-out",
            &["conflict-after-retry", "fix-reconcile"],
            &["retry-of-permanent"],
            post(|_, first, second| {
                first.event.status = None;
                first.event.error = Some(AttemptError::Timeout);
                second.event.status = Some(409);
            }),
        ),
        case(
            "404 again",
            &["retry-of-permanent", "fix-stop-permanent"],
            &["conflict-after-retry"],
            post(|_, first, _| first.event.status = Some(404)),
        ),
        case(
            "a renewed token is no mistake",
            &[],
            &["retry-of-permanent"],
            post(|_, first, _| first.event.status = Some(401)),
        ),
        case(
            "a 403 that is a limit is no permanent error",
            &[],
            &["retry-of-permanent"],
            post(|_, first, _| {
                first.event.status = Some(403);
                first.verdict.limited = true;
            }),
        ),
        case(
            "on while the quota is spent",
            &["retry-after-quota", "fix-quota"],
            &[],
            facts(pairs(
                6,
                None,
                |i| 2_000 + spread(i),
                |_, first, second| {
                    first.verdict.limit_type = LimitType::Quota;
                    second.verdict.limited = true;
                    second.event.status = Some(429);
                },
            )),
        ),
        case(
            "at once",
            &["zero-delay", "fix-jitter", "fix-honour-retry-after"],
            &["fixed-delay", "wait-unit-suspect"],
            facts(failed_pairs(20, |i| i % 4, |_, _, _| {})),
        ),
        case(
            "cut at 30 s",
            &["delay-clipped", "fix-honour-retry-after"],
            &["fixed-delay"],
            facts(pairs(
                20,
                Some(60),
                |_| 30_010,
                |_, first, _| {
                    first.event.computed_delay_ms = Some(30_000);
                    first.event.delay_source = Some("retry-after".to_owned());
                },
            )),
        ),
        case(
            "one second whatever was promised is the client's own delay, not a cap",
            &["fixed-delay", "early-retries"],
            &["delay-clipped"],
            facts(pairs(
                20,
                Some(10),
                |_| 1_010,
                |_, first, _| first.event.computed_delay_ms = Some(1_000),
            )),
        ),
        case(
            "always one second",
            &["fixed-delay", "fix-jitter"],
            &["no-jitter", "zero-delay"],
            facts(failed_pairs(20, |i| 1_000 + i % 5, |_, _, _| {})),
        ),
        case(
            "a storm of few operations with one fixed delay",
            &["fixed-delay", "amplification", "retry-budget", "fix-jitter", "fix-retry-budget"],
            &["no-jitter"],
            facts(storm(5, 60, |_, _| 2_000)),
        ),
        case(
            "one operation of 1,500 attempts with one fixed delay",
            &["fixed-delay", "amplification"],
            &[],
            facts(storm(1, 1_500, |_, _| 2_000)),
        ),
        case(
            "few operations that grow their delay alike",
            &["no-jitter"],
            &["fixed-delay"],
            facts(storm(3, 8, |_, number| 100 << number)),
        ),
        case(
            "few operations with jitter",
            &[],
            &["fixed-delay", "no-jitter"],
            facts(storm(4, 8, |i, number| spread(i * 31 + i64::from(number) * 17) + 50)),
        ),
        case(
            "a quota said to be spent that served the retries",
            &[],
            &["retry-after-quota"],
            facts(pairs(
                30,
                Some(600),
                |i| 2_000 + spread(i),
                |_, first, _| first.verdict.limit_type = LimitType::Quota,
            )),
        ),
        case(
            "jitter of a tenth",
            &["no-jitter", "fix-jitter"],
            &["fixed-delay"],
            facts(failed_pairs(40, |i| 1_000 + spread(i) / 7, |_, _, _| {})),
        ),
        case(
            "full jitter",
            &[],
            &["fixed-delay", "no-jitter", "zero-delay"],
            facts(failed_pairs(40, |i| 100 + spread(i), |_, _, _| {})),
        ),
        case(
            "exactly Retry-After",
            &["exact-retry-after", "fix-jitter"],
            &["early-retries"],
            facts(pairs(20, Some(10), |i| 10_000 + i % 9, |_, _, _| {})),
        ),
        case(
            "all come back together",
            &["retry-waves", "fix-jitter"],
            &[],
            facts(
                (0..120)
                    .flat_map(|i| {
                        let (wave, n) = (i / 20, i % 20);
                        let first = refused(
                            &format!("w{i}"),
                            at(wave * 60_000 + n * 2_400),
                            CF,
                            RATE,
                            None,
                        );
                        let second = served(&format!("v{i}"), at((wave + 1) * 60_000 + n * 11));
                        [
                            in_operation(first, &format!("o{i}"), 1, None),
                            in_operation(second, &format!("o{i}"), 2, APP),
                        ]
                    })
                    .collect(),
            ),
        ),
        case(
            "over the budget",
            &["retry-budget", "fix-retry-budget"],
            &["amplification"],
            facts(join([traffic(60), failed_pairs(30, |i| 500 + spread(i), |_, _, _| {})])),
        ),
        case(
            "within the budget",
            &["effective-success"],
            &["retry-budget", "amplification", "retries-outgrow-requests"],
            facts(join([traffic(600), failed_pairs(30, |i| 500 + spread(i), |_, _, _| {})])),
        ),
        case("more than before", &["retries-outgrow-requests", "fix-retry-budget"], &[], {
            let mut facts =
                facts(join([traffic(60), failed_pairs(60, |i| 500 + spread(i), |_, _, _| {})]));
            facts.before = Counts { attempts: 1_000, requests: 1_000, ..Counts::default() };
            facts
        }),
        case(
            "four sends a request",
            &["amplification"],
            &[],
            facts(
                (0..25_i64)
                    .flat_map(|i| {
                        (1..=4_i64).map(move |n| {
                            let sent = at(i * 100_000 + n * 10_500 + spread(i + n));
                            let s = refused(&format!("a{i}-{n}"), sent, CF, RATE, Some(10));
                            in_operation(s, &format!("op{i}"), u32::try_from(n).unwrap_or(1), APP)
                        })
                    })
                    .collect(),
            ),
        ),
        case(
            "after cancelled",
            &["sent-after-cancelled", "fix-stop-on-cancel"],
            &[],
            post(|_, first, _| first.event.outcome = Some(Outcome::Cancelled)),
        ),
        case(
            "beyond the own maximum",
            &["beyond-own-limit", "fix-stop-on-cancel"],
            &[],
            post(|_, _, second| second.event.attempts_max = Some(1)),
        ),
        case(
            "a gateway's log tells of its retries",
            &["hidden-gateway-retries", "fix-one-retry-layer", "proven-by-record"],
            &["recorded-twice"],
            {
                let attempts = refusals(10, |_, _| {});
                let mut facts = with_records(attempts, Vantage::Gateway, |_| Some(429));
                for record in &mut facts.observations {
                    record.event.log = Some(Box::new(nginx_line(429, "502, 429")));
                }
                facts
            },
        ),
        case(
            "a gateway's log tells of a limit behind another status",
            &["limit-behind-another-status"],
            &[],
            {
                let failed = refusals(5, |_, s| {
                    s.event.status = Some(503);
                    s.verdict.limited = false;
                });
                let all = join([failed, fixed_window(0, &[(20, 30)])]);
                let mut facts = with_records(all, Vantage::Gateway, |s| {
                    s.event.status.filter(|status| *status == 503)
                });
                for record in &mut facts.observations {
                    record.event.log = Some(Box::new(nginx_line(503, "")));
                    record.verdict.limited = true;
                }
                facts
            },
        ),
        case("the origin recorded ids twice", &["recorded-twice"], &["hidden-gateway-retries"], {
            let attempts = refusals(10, |_, _| {});
            let mut facts = with_records(attempts.clone(), Vantage::Origin, |_| Some(503));
            facts.observations.extend(attempts.iter().map(|s| {
                let mut record = observed(s, Vantage::Origin, 503);
                record.event.event_id.push_str("-again");
                record
            }));
            facts
        }),
        case("given up", &["exhausted"], &["no-final-outcome"], outcome(Outcome::Exhausted)),
        case(
            "no word on the end",
            &["no-final-outcome"],
            &["exhausted"],
            outcome(Outcome::Retrying),
        ),
        case(
            "several attempts that all say they are the first",
            &["several-first-attempts"],
            &["ungrouped-attempts"],
            facts(pairs(
                30,
                None,
                |i| 500 + spread(i),
                |_, _, second| {
                    second.event.attempt = 1;
                    second.event.retry_layer = None;
                },
            )),
        ),
        case("no operation id", &["ungrouped-attempts"], &[], facts(refusals(5, |_, _| {}))),
        case(
            "only failures",
            &["only-failures-reported"],
            &["effective-success"],
            facts(refusals(40, |_, _| {})),
        ),
    ]
}

/// The cases of steps 7 and 8.
fn verify_cases() -> Vec<Case> {
    let policy = |s: &mut StoredEvent| {
        s.event.headers.push(("ratelimit-policy".to_owned(), "\"default\";q=120;w=60".to_owned()));
        s.event.headers.push(("ratelimit".to_owned(), "\"default\";r=0;t=30".to_owned()));
    };
    let mut slower = compared([1_000, 400, 5], [1_000, 20, 5]);
    if let Some(c) = &mut slower.comparison {
        c.after_p95_ms = Some(900);
        c.after_duplicates = 4;
        c.after.requests = 100;
    }
    vec![
        case(
            "a documented limit is planned with",
            &["budget-plan"],
            &[],
            facts(refusals(30, |_, s| policy(s))),
        ),
        case(
            "better",
            &["change-better"],
            &["change-none"],
            compared([1_000, 400, 5], [900, 20, 6]),
        ),
        case(
            "no change",
            &["change-none"],
            &["change-better"],
            compared([1_000, 100, 5], [1_000, 96, 6]),
        ),
        case(
            "moved",
            &["change-moved-bottleneck"],
            &["change-better"],
            compared([1_000, 400, 5], [1_000, 20, 200]),
        ),
        case(
            "worse",
            &["change-worse"],
            &["change-better"],
            compared([1_000, 20, 5], [1_000, 400, 5]),
        ),
        case(
            "too little",
            &["change-not-enough-data"],
            &["change-better"],
            compared([20, 8, 0], [1_000, 0, 0]),
        ),
        case(
            "side effects",
            &["change-better", "change-slower", "change-more-duplicates", "change-less-traffic"],
            &[],
            slower,
        ),
    ]
}

fn cases() -> Vec<Case> {
    [source_cases(), limit_cases(), time_cases(), behaviour_cases(), verify_cases()]
        .into_iter()
        .flatten()
        .collect()
}

fn ids(answers: &[Answer]) -> BTreeSet<String> {
    answers.iter().flat_map(|a| &a.findings).map(|f| f.id.clone()).collect()
}

#[test]
fn each_case_raises_its_findings_and_no_other_of_its_kind() {
    let mut wrong = Vec::new();
    for case in cases() {
        let got = ids(&answers(&case.facts));
        for id in case.raised.iter().filter(|id| !got.contains(**id)) {
            wrong.push(format!("{}: {id} is not raised; raised: {got:?}", case.name));
        }
        for id in case.silent.iter().filter(|id| got.contains(**id)) {
            wrong.push(format!("{}: {id} is raised", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_finding_is_raised_by_some_case_and_explained() {
    let raised: BTreeSet<&str> =
        cases().iter().flat_map(|case| case.raised.iter().copied()).collect();
    let docs = include_str!("../../../docs/steps.md");
    let headings: BTreeSet<&str> =
        docs.lines().filter_map(|line| line.strip_prefix("#### `")?.strip_suffix('`')).collect();
    for known in catalogue::ALL {
        assert!(raised.contains(known.id), "no case raises {}", known.id);
        assert!(headings.contains(known.id), "docs/steps.md does not explain {}", known.id);
    }
    for id in raised.iter().chain(&headings) {
        assert!(catalogue::find(id).is_some(), "{id} is not in the catalogue");
    }
    let unique: BTreeSet<&str> = catalogue::ALL.iter().map(|known| known.id).collect();
    assert_eq!(unique.len(), catalogue::ALL.len());
}

#[test]
fn findings_belong_to_the_step_of_the_catalogue_and_rows_never_exceed_their_total() {
    for case in cases() {
        for answer in answers(&case.facts) {
            for finding in &answer.findings {
                let known = catalogue::find(&finding.id).unwrap();
                assert_eq!(known.step, answer.step, "{}: {}", case.name, finding.id);
                assert!(finding.rows.len() <= MAX_ROWS);
                let shown = i64::try_from(finding.rows.len()).unwrap();
                assert!(shown <= finding.rows_total, "{}: {}", case.name, finding.id);
            }
            if answer.state == AnswerState::NeedsData {
                assert!(!answer.next.is_empty(), "{}: {}", case.name, answer.headline);
            }
            let acts = answer.findings.iter().any(|f| f.actionable);
            assert!(!(answer.state == AnswerState::Clear && acts), "{}: {answer:?}", case.name);
        }
    }
}

#[test]
fn the_samples_answer_all_eight_steps() {
    for facts in [samples::empty(), samples::usual(), samples::extreme(), samples::hostile()] {
        let answers = answers(&facts);
        let numbers: Vec<u8> = answers.iter().map(|answer| answer.step.number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(answers.iter().all(|answer| !answer.headline.is_empty()));
        let card = report_card(&facts);
        assert_eq!((card.mistakes.len(), card.habits.len()), (12, 10));
    }
}

#[test]
fn without_attempts_every_step_but_none_says_clear() {
    for answer in answers(&samples::empty()) {
        assert_eq!(answer.state, AnswerState::NeedsData, "{}", answer.headline);
    }
}

#[test]
fn good_traffic_is_clear_in_the_first_seven_steps() {
    let mut good = facts(traffic(400));
    for s in &mut good.attempts {
        s.event.operation_id = Some(s.event.event_id.clone());
    }
    for answer in &answers(&good)[..7] {
        assert_eq!(answer.state, AnswerState::Clear, "{}: {}", answer.step, answer.headline);
    }
}

#[test]
fn the_usual_sample_tells_its_story() {
    let answers = answers(&samples::usual());
    let head = |step: usize| answers[step - 1].headline.clone();
    assert_eq!(
        head(1),
        "Two components refuse here and need different fixes: cloudflare (92.3 %) and origin (7.7 %). \
         No refusal since 10:29:45 UTC (294 attempts later)."
    );
    assert_eq!(
        head(6),
        "Both sdk and app retry in the same operation: sdk 3 × app 2 = up to 6 attempts for one intent."
    );
    assert!(head(4).starts_with("One key is refused: 9d3f0011…"), "{}", head(4));
    assert!(head(8).starts_with("Better since \"SDK retries off\""), "{}", head(8));
    let twin = answers[1].next[0].command.clone().unwrap();
    assert!(twin.contains("'https://api.example.com/v1/orders/'\"$ROUTE_ID\""), "{twin}");
    assert!(twin.ends_with("| retrylens classify"), "{twin}");
    assert!(!twin.contains("9d3f"), "no part of a key belongs into a command: {twin}");
}

#[test]
fn the_acceptance_window_is_said_in_one_sentence() {
    let answer = &answers(&facts(fixed_window(15, &[(63, 12), (70, 5)])))[4];
    assert_eq!(
        answer.headline,
        "The window ends at 10:01:15 UTC, began at the first request (10:00:15) and is not aligned \
         with the clock; it lasts 1 min."
    );
}

#[test]
fn an_sdk_with_three_tries_under_an_application_with_four_sends_up_to_twelve() {
    // Seen: one operation, and only part of the ladder; the settings tell the rest.
    let layers = [None, Some(RetryLayer::Sdk), Some(RetryLayer::App), Some(RetryLayer::Sdk)];
    let attempts = layers.iter().enumerate().map(|(n, layer)| {
        let number = u32::try_from(n + 1).unwrap();
        let s = refused(&format!("e{n}"), at(i64::from(number) * 11_000), CF, RATE, Some(10));
        let mut s = in_operation(s, "op", number, *layer);
        s.event.attempts_max = layer.map(|l| if l == RetryLayer::Sdk { 3 } else { 4 });
        s
    });
    let answer = &answers(&facts(attempts.collect()))[5];
    assert!(answer.headline.contains("sdk 3 × app 4 = up to 12 attempts"), "{}", answer.headline);
}

#[test]
fn numbers_started_anew_are_a_layer_above() {
    // An SDK that numbers its own attempts, called twice by an application in one operation.
    let attempts = [(1, 0), (2, 11_000), (1, 22_000), (2, 33_000)].map(|(number, ms)| {
        let s = refused(&format!("e{ms}"), at(ms), CF, RATE, Some(10));
        in_operation(s, "op", number, Some(RetryLayer::Sdk))
    });
    let answer = &answers(&facts(attempts.to_vec()))[5];
    assert!(answer.headline.contains("sdk 2 × app 2 = up to 4"), "{}", answer.headline);
}

#[test]
fn weights_count_and_not_events() {
    let mut attempts = traffic(10);
    for s in &mut attempts {
        s.event.count = 99;
    }
    attempts.extend(refusals(2, |_, s| s.event.count = 5));
    let answers = answers(&facts(attempts));
    let head = &answers[0].headline;
    assert!(head.starts_with("cloudflare returned 10 of 10 refusals (certain)."), "{head}");
    assert!(head.ends_with(" UTC (891 attempts later)."), "{head}");
    assert_eq!(answers[0].basis, "Rests on 1,000 attempts, 10 of them limited.");
}

#[test]
fn the_report_card_grades_by_what_was_seen() {
    let marks = |facts: &Facts| {
        let card = report_card(facts);
        let of = |grades: &[Grade]| grades.iter().map(|g| g.mark).collect::<Vec<_>>();
        (of(&card.mistakes), of(&card.habits))
    };
    let (mistakes, habits) = marks(&samples::empty());
    assert!(mistakes.iter().chain(&habits).all(|mark| *mark == GradeMark::NotSeen));

    let card = report_card(&samples::usual());
    let failed: Vec<u8> =
        card.mistakes.iter().filter(|g| g.mark == GradeMark::Fail).map(|g| g.number).collect();
    assert_eq!(failed, [1, 5, 8], "{:#?}", card.mistakes);
    assert_eq!(
        card.layers.iter().map(|l| l.layer).collect::<Vec<_>>(),
        [RetryLayer::App, RetryLayer::Sdk]
    );

    // A careful client: waits as promised with jitter, in both forms, and keeps its keys.
    let careful = pairs(
        40,
        Some(10),
        |i| 11_200 + spread(i) * 3,
        |i, first, second| {
            first.verdict.promised_by_date = i % 2 == 0;
            for s in [first, second] {
                keyed(s, &i.to_string());
                s.event.attempts_max = Some(3);
                s.event.deadline_ms = Some(60_000);
            }
        },
    );
    let (mistakes, habits) = marks(&facts(join([traffic(600), careful])));
    let passed = |marks: &[GradeMark]| {
        marks
            .iter()
            .enumerate()
            .filter(|(_, m)| **m == GradeMark::Pass)
            .map(|(i, _)| i + 1)
            .collect::<Vec<_>>()
    };
    assert!(!mistakes.contains(&GradeMark::Fail), "{mistakes:?}");
    assert!(!habits.contains(&GradeMark::Fail), "{habits:?}");
    assert_eq!(passed(&mistakes), [1, 2, 3, 5, 8, 9, 11, 12]);
    assert_eq!(passed(&habits), [2, 4, 6, 7, 10]);
}

/// Facts with everything in them that a store could hand over, and more.
fn any_facts() -> impl Strategy<Value = Facts> {
    let time = prop_oneof![
        8 => (0_i64..3_600_000).prop_map(|ms| at(ms).0),
        1 => any::<i64>(),
    ];
    let small = prop_oneof![8 => -10_i64..100_000, 1 => any::<i64>()];
    let event = (
        (time, prop::option::of(small.clone()), 0_u32..6, prop::option::of(0_u8..6)),
        (
            prop::option::of(0_usize..5),
            prop::option::of(100_u16..600),
            prop::option::of(0_usize..9),
        ),
        (prop::option::of(".{0,12}"), prop::option::of(small.clone()), prop::option::of(0_u8..3)),
        (
            any::<bool>(),
            prop::option::of(small.clone()),
            any::<bool>(),
            prop::option::of(small.clone()),
        ),
        (0_usize..30, 0_usize..7, prop_oneof![8 => Just(1_u32), 1 => any::<u32>()], 0_usize..8),
        (
            prop::option::of(small),
            prop::option::of(0_u8..3),
            0_usize..3,
            prop::option::of(0_u32..5),
        ),
    );
    prop::collection::vec(event, 0..60).prop_map(|events| {
        let list = events.into_iter().enumerate().map(|(i, fields)| {
            let (when, who, wait, verdict, kind, rest) = fields;
            let mut s = served(&format!("e{i}"), UnixMillis(when.0));
            let e = &mut s.event;
            e.duration_ms = when.1;
            e.attempt = when.2;
            e.operation_id = when.3.map(|n| format!("op{n}"));
            e.retry_layer = who.0.map(|n| RetryLayer::ALL[n]);
            e.status = who.1;
            e.error = who.2.map(|n| AttemptError::ALL[n]);
            e.retry_after.clone_from(&wait.0);
            e.computed_delay_ms = wait.1;
            e.idempotency_key_hash = wait.2.map(|n| format!("k{n}"));
            e.count = kind.2;
            e.outcome = Some(Outcome::ALL[kind.3]);
            e.deadline_ms = rest.0;
            e.body_hash = rest.1.map(|n| format!("b{n}"));
            e.vantage = Vantage::ALL[rest.2];
            e.attempts_max = rest.3;
            s.verdict.limited = verdict.0;
            s.verdict.promised_ms = verdict.1;
            s.verdict.promised_by_date = verdict.2;
            s.verdict.clock_skew_ms = verdict.3;
            s.verdict.returned_by = Responder::ALL[kind.0];
            s.verdict.layer = s.verdict.returned_by.layer();
            s.verdict.limit_type = LimitType::ALL[kind.1];
            s
        });
        let (clients, others): (Vec<_>, Vec<_>) =
            list.partition(|s| s.event.vantage == Vantage::Client);
        let mut facts = facts(clients);
        facts.has_origin_source = others.iter().any(|s| s.event.vantage == Vantage::Origin);
        facts.has_gateway_source = others.iter().any(|s| s.event.vantage == Vantage::Gateway);
        facts.observations = others;
        facts
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_facts_have_answers_that_do_not_depend_on_order(facts in any_facts()) {
        let first = answers(&facts);
        prop_assert_eq!(first.len(), 8);
        let card = report_card(&facts);
        let mut turned = facts.clone();
        turned.attempts.reverse();
        turned.observations.reverse();
        turned.dimensions.reverse();
        turned.key_services.reverse();
        prop_assert_eq!(&first, &answers(&turned));
        prop_assert_eq!(card, report_card(&turned));
    }

    #[test]
    fn shares_of_responders_and_kinds_sum_to_all_refusals(facts in any_facts()) {
        let limited = facts.totals.limited;
        for (step, column) in [(0, 4), (2, 1)] {
            let answer = &answers(&facts)[step];
            let Some(table) = answer.tables.first() else { continue };
            let sum: i64 = table
                .rows
                .iter()
                .map(|row| row[column].replace(',', "").parse::<i64>().unwrap())
                .sum();
            prop_assert_eq!(sum, limited);
        }
    }
}

/// As many attempts as facts ever carry: half of them refused, in operations of four, with headers.
fn heavy() -> Facts {
    let attempts = (0..20_000_i64).map(|i| {
        let (operation, number) = (i / 4, i % 4 + 1);
        let sent = at(operation * 700 + number * 11_000 + spread(i));
        let mut s = if i % 2 == 0 {
            refused(&format!("e{i}"), sent, CF, RATE, Some(10))
        } else {
            served(&format!("e{i}"), sent)
        };
        let layer =
            (number > 1).then_some(if i % 3 == 0 { RetryLayer::App } else { RetryLayer::Sdk });
        s = in_operation(s, &format!("op{operation}"), u32::try_from(number).unwrap(), layer);
        keyed(&mut s, &operation.to_string());
        s.event.key_hash = Some(format!("hmac-sha256:{:064x}", operation % 500));
        s.event.instance = Some(format!("pod-{}", operation % 40));
        s.event.computed_delay_ms = Some(9_000 + spread(i));
        s.event.body_hash = Some(format!("sha256:{operation:064x}"));
        s.event.trace_id = Some(format!("{operation:032x}"));
        s.event.headers.push(("ratelimit-limit".to_owned(), "100".to_owned()));
        s.event.headers.push(("ratelimit-remaining".to_owned(), "0".to_owned()));
        s.event.headers.push(("ratelimit-reset".to_owned(), "10".to_owned()));
        s
    });
    facts(attempts.collect())
}

#[test]
#[ignore = "prints a time; run in release"]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement for people, not part of the program"
)]
fn measure_20_000_attempts() {
    let facts = heavy();
    for run in 1..=5 {
        let start = std::time::Instant::now();
        let answers = answers(&facts);
        let answered = start.elapsed();
        let card = report_card(&facts);
        println!(
            "run {run}: {} answers in {answered:.1?}, report card of {} layers in {:.1?}",
            answers.len(),
            card.layers.len(),
            start.elapsed().saturating_sub(answered)
        );
    }
}

/// The headline of a step and the grade of a mistake for the same facts.
fn head_and_grade(facts: &Facts, step: Step, mistake: usize) -> (Answer, Grade) {
    let answer = answers(facts).swap_remove(usize::from(step.number()) - 1);
    (answer, report_card(facts).mistakes.swap_remove(mistake - 1))
}

#[test]
fn a_storm_of_few_operations_with_a_fixed_delay_is_never_called_clean() {
    for (operations, attempts) in [(5, 60), (1, 1_500), (3, 1_000)] {
        let facts = facts(storm(operations, attempts, |_, _| 2_000));
        let (answer, grade) = head_and_grade(&facts, Step::Behaviour, 1);
        assert_eq!(answer.state, AnswerState::Finding, "{operations} × {attempts}");
        assert!(
            answer.headline.ends_with("waited the same 2 s every time."),
            "{}",
            answer.headline
        );
        assert_eq!(grade.mark, GradeMark::Fail, "{}", grade.evidence);
    }
}

#[test]
fn a_share_of_retries_above_the_requests_is_not_capped() {
    let facts = facts(storm(5, 60, |_, _| 2_000));
    let (answer, _) = head_and_grade(&facts, Step::Behaviour, 1);
    let table = answer.tables.iter().find(|t| t.caption == "Retries in numbers").unwrap();
    let row = table.rows.iter().find(|row| row[0].starts_with("Retry share")).unwrap();
    assert_eq!(row[1], "5,900 %");
    let budget = answer.findings.iter().find(|f| f.id == "retry-budget").unwrap();
    assert!(budget.text.contains("295 retries for 5 requests: 5,900 %"), "{}", budget.text);
}

#[test]
fn waits_that_can_not_be_compared_are_neither_clear_nor_passed() {
    let facts = facts(storm(2, 8, |_, number| 100 << number));
    let (answer, grade) = head_and_grade(&facts, Step::Behaviour, 1);
    assert_eq!(answer.state, AnswerState::NeedsData, "{}", answer.headline);
    assert_eq!(grade.mark, GradeMark::NotSeen, "{}", grade.evidence);
}

#[test]
fn what_to_leave_alone_does_not_forbid_fewer_attempts() {
    let facts = facts(join([traffic(100), refusals(30, |_, _| {})]));
    let fix = &answers(&facts)[6];
    let leave = fix.findings.iter().find(|f| f.id == "leave-attempts").unwrap();
    assert!(leave.text.starts_with("Don't add attempts in the application"), "{}", leave.text);
}

#[test]
fn nobody_is_told_to_wait_as_promised_where_nothing_was() {
    let head = |attempts| answers(&facts(attempts))[2].headline.clone();
    let none = head(refusals(30, |_, s| {
        s.event.retry_after = None;
        s.verdict.promised_ms = None;
    }));
    assert!(none.contains("no wait was promised: back off with full jitter"), "{none}");
    let epoch = head(refusals(30, |_, s| {
        s.event.retry_after = Some("1794391260".to_owned());
        s.verdict.promised_ms = Some(1_794_391_260_000);
    }));
    assert!(epoch.contains("the promised wait can't be used"), "{epoch}");
    let promised = head(refusals(30, |_, _| {}));
    assert!(promised.contains("wait as promised"), "{promised}");
}

#[test]
fn a_sample_is_not_presented_as_the_total() {
    let mut facts = facts(refusals(40, |_, _| {}));
    facts.totals.limited = 28_600;
    facts.totals.attempts = 30_000;
    facts.attempts_complete = false;
    let answers = answers(&facts);
    for step in [0, 2] {
        let head = &answers[step].headline;
        assert!(head.contains("40 looked at of 28,600 refusals"), "{head}");
    }
}

#[test]
fn refusals_that_stopped_are_told_with_the_time() {
    let facts = facts(join([traffic(100), refusals(30, |_, _| {})]));
    let head = &answers(&facts)[0].headline;
    assert!(head.contains("No refusal since 10:09:"), "{head}");
    let lasting = super::samples::facts(refusals(30, |i, s| s.event.occurred_at = at(i * 120_000)));
    let head = &answers(&lasting)[0].headline;
    assert!(!head.contains("No refusal since"), "{head}");
}

#[test]
fn a_kind_of_limit_shows_what_a_machine_wrote_before_wording() {
    let worded = facts(refusals(30, |_, s| {
        s.event.content_type = Some("application/json".to_owned());
        s.event.error_code = Some("rate_limit_exceeded".to_owned());
        s.event.body_sample = Some(
            r#"{"code":"rate_limit_exceeded","message":"Too many requests, slow down."}"#
                .to_owned(),
        );
        s.event.headers.push(("x-ratelimit-remaining".to_owned(), "0".to_owned()));
    }));
    let rate = answers(&worded)[2].findings.iter().find(|f| f.id == "limit-rate").unwrap().clone();
    let labels: Vec<&str> = rate.numbers.iter().map(|(label, _)| &**label).collect();
    assert!(labels.iter().any(|l| l.starts_with("Evidence")), "{labels:?}");
    assert!(labels.last().is_some_and(|l| l.starts_with("Wording")), "{labels:?}");
    for facts in [worded, samples::usual(), samples::extreme(), samples::hostile()] {
        for finding in &answers(&facts)[2].findings {
            let labels: Vec<&str> = finding.numbers.iter().map(|(label, _)| &**label).collect();
            let wording = labels.iter().position(|label| label.starts_with("Wording"));
            let machine = labels.iter().rposition(|label| label.starts_with("Evidence"));
            assert!(wording.zip(machine).is_none_or(|(w, m)| m < w), "{labels:?}");
            assert!(!labels.iter().any(|label| label.starts_with("Evidence WO-")), "{labels:?}");
        }
    }
}

#[test]
fn several_windows_are_told_by_length_and_latest_end() {
    // Three windows of 60 s, each begun by its own first request, off the clock.
    let mut attempts = Vec::new();
    for round in 0..3_i64 {
        for mut s in fixed_window(15, &[(63, 12), (70, 5)]) {
            s.event.event_id = format!("{}-{round}", s.event.event_id);
            s.event.occurred_at.0 += round * 200_000;
            attempts.push(s);
        }
    }
    let head = answers(&facts(attempts))[4].headline.clone();
    assert_eq!(
        head,
        "The window lasts 1 min, begins at the first request and is not aligned with the clock (3 \
         windows seen, the latest ended at 10:07:55 UTC)."
    );
}
