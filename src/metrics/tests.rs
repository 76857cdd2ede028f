//! What is counted, and what always holds of it.

#![expect(clippy::float_cmp, reason = "counts are whole, and shares have one way to be made")]

use super::*;
use crate::domain::classify::Responder;
use crate::domain::event::Event;
use crate::domain::time::Millis;
use crate::pipeline::judge;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const NOON: UnixMillis = UnixMillis(1_794_398_400_000);

fn event(fields: &Value) -> Event {
    let mut event = json!({"event_id": "e", "attempt": 1, "occurred_at": NOON, "vantage": "client",
        "service": "checkout", "host": "payments.example.com", "status": 200, "headers": [],
        "count": 1, "redactions": 0});
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    serde_json::from_value(event).unwrap()
}

/// Counts events that are all new, received a second after noon.
fn count(metrics: &Metrics, events: &[Value]) {
    count_at(metrics, NOON.plus(Millis(1_000)), events, Inserted::Stored);
}

fn count_at(metrics: &Metrics, at: UnixMillis, events: &[Value], inserted: Inserted) {
    let new: Vec<_> = events.iter().map(|fields| judge(event(fields))).collect();
    let sights: Vec<_> = new.iter().map(|new| metrics.sight(&new.event, &new.verdict)).collect();
    let names = new.iter().map(|new| {
        let event = &new.event;
        [&*event.service, &*event.host, event.environment.as_deref().unwrap_or_default()]
    });
    metrics.count(at, names.zip(&sights).map(|(names, sight)| (names, sight, inserted)));
}

fn text(metrics: &Metrics) -> String {
    Exposition::Text.write(&metrics.snapshot(NOON.plus(Millis(1_000))))
}

/// Every series with its value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    let all: Vec<(String, f64)> = lines.map(read).collect();
    let map: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(map.len(), all.len(), "a series is there twice:\n{text}");
    map
}

const PAIR: &str = r#"service="checkout",upstream="payments.example.com""#;

#[track_caller]
fn assert_series(metrics: &Metrics, expected: &[(&str, f64)]) {
    let text = text(metrics);
    let series = series(&text);
    for (name, value) in expected {
        let name = name.replace("PAIR", PAIR);
        assert_eq!(series.get(&name), Some(value), "{name} in\n{text}");
    }
}

#[test]
fn a_pair_is_shown_with_all_its_labels_from_its_first_event() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({})]);
    assert_series(
        &metrics,
        &[
            ("retrylens_requests_total{PAIR}", 1.0),
            (r#"retrylens_retries_total{PAIR,layer="sdk"}"#, 0.0),
            (r#"retrylens_retries_total{PAIR,layer="http-client"}"#, 0.0),
            (r#"retrylens_retries_total{PAIR,layer="unknown"}"#, 0.0),
            (r#"retrylens_attempts_total{PAIR,outcome="2xx"}"#, 1.0),
            (r#"retrylens_attempts_total{PAIR,outcome="no-response"}"#, 0.0),
            (r#"retrylens_rate_limited_total{PAIR,source="unknown"}"#, 0.0),
            ("retrylens_limited_total{PAIR}", 0.0),
            (r#"retrylens_limit_kinds_total{PAIR,kind="overload"}"#, 0.0),
            (r#"retrylens_requests_finished_total{PAIR,result="first-try"}"#, 1.0),
            ("retrylens_early_retries_total{PAIR}", 0.0),
            ("retrylens_duplicate_writes_total{PAIR}", 0.0),
            (r#"retrylens_ingest_events_total{result="accepted"}"#, 1.0),
            (r#"retrylens_ingest_events_total{result="late"}"#, 0.0),
            (r#"retrylens_label_overflow_total{label="upstream"}"#, 0.0),
            (r#"retrylens_store_errors_total{operation="insert"}"#, 0.0),
            (r#"retrylens_last_event_timestamp_seconds{service="checkout"}"#, 1_794_398_401.0),
        ],
    );
    assert!(!text(&metrics).contains("key_concentration"), "no refusal, no share");
}

#[test]
fn a_pair_that_only_ever_failed_is_not_shown_and_loses_nothing() {
    let metrics = Metrics::new(Caps::default());
    let refused = json!({"status": 429, "outcome": "retrying"});
    count(&metrics, &[refused.clone(), json!({"status": 200, "attempt": 2}), refused]);
    assert!(!text(&metrics).contains(PAIR), "a retry that was served is no denominator");
    assert_series(&metrics, &[(r#"retrylens_ingest_events_total{result="accepted"}"#, 3.0)]);
    count(&metrics, &[json!({"count": 7})]);
    assert_series(
        &metrics,
        &[
            ("retrylens_requests_total{PAIR}", 9.0),
            (r#"retrylens_attempts_total{PAIR,outcome="429"}"#, 2.0),
            (r#"retrylens_attempts_total{PAIR,outcome="2xx"}"#, 8.0),
        ],
    );
}

#[test]
fn what_the_database_held_before_is_known_from_the_start() {
    let metrics = Metrics::new(Caps::default());
    let names = ["checkout", "payments.example.com", ""];
    metrics.learn(names, Vantage::Client, true);
    assert_series(&metrics, &[("retrylens_requests_total{PAIR}", 0.0)]);
    count(&metrics, &[json!({"status": 429}), json!({"vantage": "gateway"})]);
    assert_series(
        &metrics,
        &[
            ("retrylens_requests_total{PAIR}", 1.0),
            (r#"retrylens_attempts_total{PAIR,outcome="2xx"}"#, 0.0),
        ],
    );
}

#[test]
fn repeats_and_late_events_change_no_number_of_the_domain() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({})]);
    for inserted in [Inserted::Duplicate, Inserted::Expired] {
        count_at(&metrics, NOON, &[json!({})], inserted);
    }
    count_at(&metrics, NOON, &[json!({})], Inserted::IdConflict);
    metrics.rejected(3);
    assert_series(
        &metrics,
        &[
            ("retrylens_requests_total{PAIR}", 2.0),
            (r#"retrylens_ingest_events_total{result="accepted"}"#, 2.0),
            (r#"retrylens_ingest_events_total{result="duplicate"}"#, 1.0),
            (r#"retrylens_ingest_events_total{result="late"}"#, 1.0),
            (r#"retrylens_ingest_events_total{result="rejected"}"#, 3.0),
        ],
    );
}

#[test]
fn sources_are_never_added_up_and_inner_ones_are_labelled() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({"vantage": "origin"})]);
    count(&metrics, &[json!({"vantage": "gateway", "count": 5}), json!({"vantage": "origin"})]);
    assert_series(&metrics, &[(r#"retrylens_requests_total{PAIR,vantage="gateway"}"#, 5.0)]);
    assert!(!text(&metrics).contains("vantage=\"origin\""));
    count(&metrics, &[json!({}), json!({"vantage": "gateway"})]);
    assert_series(&metrics, &[("retrylens_requests_total{PAIR}", 1.0)]);
    assert!(!text(&metrics).contains("vantage"));
}

#[test]
fn an_environment_is_a_label_where_it_is_set() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({}), json!({"environment": "prod", "count": 2})]);
    assert_series(
        &metrics,
        &[
            ("retrylens_requests_total{PAIR}", 1.0),
            (r#"retrylens_requests_total{PAIR,environment="prod"}"#, 2.0),
        ],
    );
}

#[test]
fn an_upstream_is_at_zero_before_its_first_refusal() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({})]);
    let forms = ["seconds", "absent"].map(|form| {
        format!(
            r#"retrylens_retry_after_headers_total{{upstream="payments.example.com",form="{form}"}}"#
        )
    });
    assert_series(&metrics, &forms.each_ref().map(|series| (series.as_str(), 0.0)));
}

#[test]
fn who_answered_and_which_limit_are_told_in_our_own_words() {
    let metrics = Metrics::new(Caps::default());
    let limited = json!({"status": 429, "headers": [["server", "cloudflare"], ["cf-ray", "8aa0b1c2d3e4f567-FRA"],
        ["cache-control", "private, max-age=0, no-store, no-cache, must-revalidate"]],
        "layer": "edge",
        "content_type": "text/plain", "body_sample": "error code: 1015", "retry_after": "30", "count": 3});
    let doubted = json!({"status": 429});
    count(&metrics, &[json!({}), limited, doubted]);
    assert_series(
        &metrics,
        &[
            (r#"retrylens_rate_limited_total{PAIR,source="cloudflare"}"#, 3.0),
            (r#"retrylens_rate_limited_total{PAIR,source="unknown"}"#, 1.0),
            ("retrylens_limited_total{PAIR}", 4.0),
            (r#"retrylens_limit_kinds_total{PAIR,kind="rate"}"#, 4.0),
            (
                r#"retrylens_retry_after_headers_total{upstream="payments.example.com",form="seconds"}"#,
                3.0,
            ),
            (
                r#"retrylens_retry_after_headers_total{upstream="payments.example.com",form="absent"}"#,
                1.0,
            ),
            (
                r#"retrylens_retry_after_seconds_bucket{upstream="payments.example.com",le="15"}"#,
                0.0,
            ),
            (
                r#"retrylens_retry_after_seconds_bucket{upstream="payments.example.com",le="30"}"#,
                3.0,
            ),
            (r#"retrylens_retry_after_seconds_sum{upstream="payments.example.com"}"#, 90.0),
        ],
    );
}

#[test]
fn a_date_of_the_year_9999_counts_as_a_day_in_the_sum_of_promised_waits() {
    let metrics = Metrics::new(Caps::default());
    let far = json!({"status": 429, "retry_after": "Fri, 31 Dec 9999 23:59:59 GMT", "count": 2});
    count(&metrics, &[far, json!({"status": 429, "retry_after": "30"})]);
    let bucket = |le: &str| {
        format!(
            r#"retrylens_retry_after_seconds_bucket{{upstream="payments.example.com",le="{le}"}}"#
        )
    };
    assert_series(
        &metrics,
        &[
            (r#"retrylens_retry_after_seconds_sum{upstream="payments.example.com"}"#, 172_830.0),
            (&bucket("86400"), 1.0),
            (&bucket("+Inf"), 3.0),
        ],
    );
}

#[test]
fn every_form_of_retry_after_is_told() {
    for (fields, expected) in [
        (json!({"retry_after": "30"}), Form::Seconds),
        (json!({"headers": [["Retry-After", " 7 "]]}), Form::Seconds),
        (json!({"retry_after": "Wed, 11 Nov 2026 12:00:30 GMT"}), Form::HttpDate),
        (json!({}), Form::Absent),
        (json!({"retry_after": "soon"}), Form::Invalid),
        (json!({"retry_after": "1.5"}), Form::Invalid),
        (json!({"retry_after": "30, 30"}), Form::Repeated),
        (json!({"headers": [["retry-after", "1"], ["retry-after", "2"]]}), Form::Repeated),
    ] {
        let mut fields = fields;
        fields["status"] = json!(429);
        let new = judge(event(&fields));
        let sight = Metrics::new(Caps::default()).sight(&new.event, &new.verdict);
        assert_eq!(sight.form, Some(expected), "{fields}");
    }
}

/// Attempts of one operation: milliseconds after noon, number, and what else they carry.
fn operation(attempts: &[(i64, u32, Value)]) -> Vec<Value> {
    let one = |(at, attempt, fields): &(i64, u32, Value)| {
        let mut fields = fields.clone();
        fields["operation_id"] = json!("o");
        fields["attempt"] = json!(attempt);
        fields["occurred_at"] = json!(NOON.plus(Millis(*at)));
        fields
    };
    attempts.iter().map(one).collect()
}

#[test]
fn early_retries_are_seen_in_whatever_order_attempts_arrive() {
    let refused = || {
        json!({"status": 429, "retry_after": "10", "duration_ms": 100,
        "outcome": "retrying"})
    };
    for (second_at, expected, why) in [
        (5_100, 1.0, "half of the promise"),
        (9_950, 0.0, "within the tolerance of 2 %"),
        (10_100, 0.0, "as promised"),
        (50, 1.0, "while the answer is on its way, too close for a hedge"),
        (20, 0.0, "a hedge could not know the promise"),
        (-500, 0.0, "clocks that disagree"),
    ] {
        let mut attempts = operation(&[(0, 1, refused()), (second_at, 2, json!({}))]);
        for _ in 0..2 {
            let metrics = Metrics::new(Caps::default());
            count(&metrics, &[json!({})]);
            count(&metrics, &attempts);
            assert_eq!(
                series(&text(&metrics))[&format!("retrylens_early_retries_total{{{PAIR}}}")],
                expected,
                "{why}"
            );
            attempts.reverse();
        }
    }
}

#[test]
fn a_request_is_measured_from_its_first_attempt_to_its_end() {
    let metrics = Metrics::new(Caps::default());
    let failed = json!({"status": 503, "outcome": "retrying", "computed_delay_ms": 2_000,
        "retry_layer": "sdk", "duration_ms": 100});
    let attempts =
        [(0, 1, failed.clone()), (2_100, 2, failed), (4_200, 3, json!({"duration_ms": 50}))];
    count(&metrics, &operation(&attempts));
    count(&metrics, &[json!({"duration_ms": 200}), json!({"status": 503, "outcome": "exhausted"})]);
    assert_series(
        &metrics,
        &[
            (r#"retrylens_request_duration_seconds_bucket{PAIR,le="0.25"}"#, 1.0),
            (r#"retrylens_request_duration_seconds_bucket{PAIR,le="5"}"#, 2.0),
            ("retrylens_request_duration_seconds_sum{PAIR}", 4.45),
            (r#"retrylens_attempts_per_request_bucket{service="checkout",le="1"}"#, 2.0),
            (r#"retrylens_attempts_per_request_bucket{service="checkout",le="3"}"#, 3.0),
            (r#"retrylens_attempts_per_request_sum{service="checkout"}"#, 5.0),
            (r#"retrylens_retry_delay_seconds_count{service="checkout"}"#, 2.0),
            (r#"retrylens_retry_delay_seconds_sum{service="checkout"}"#, 4.0),
            (r#"retrylens_retries_total{PAIR,layer="sdk"}"#, 1.0),
            (r#"retrylens_retries_total{PAIR,layer="unknown"}"#, 1.0),
            (r#"retrylens_requests_finished_total{PAIR,result="first-try"}"#, 1.0),
            (r#"retrylens_requests_finished_total{PAIR,result="after-retry"}"#, 1.0),
            (r#"retrylens_requests_finished_total{PAIR,result="exhausted"}"#, 1.0),
        ],
    );
}

#[test]
fn writes_that_may_have_been_done_twice_are_counted_once_an_operation() {
    let lost =
        || json!({"status": null, "error": "timeout", "method": "POST", "outcome": "retrying"});
    let served = || json!({"status": 201, "method": "POST"});
    for (first, second, expected, why) in [
        (lost(), served(), 1.0, "nobody knows what became of the first"),
        (lost(), json!({"status": 409, "method": "POST"}), 1.0, "the first was carried out"),
        (lost(), json!({"status": 500, "method": "POST"}), 0.0, "not served yet"),
        (lost(), json!({"status": 200, "method": "GET"}), 0.0, "not a write"),
        (json!({"status": 400, "method": "POST"}), served(), 0.0, "the first was refused"),
        (
            json!({"status": null, "error": "connect", "method": "POST"}),
            served(),
            0.0,
            "the first never arrived",
        ),
        (
            json!({"status": null, "error": "timeout", "method": "POST", "idempotency_key_hash": "k"}),
            json!({"status": 201, "method": "POST", "idempotency_key_hash": "k"}),
            0.0,
            "the key makes it safe",
        ),
    ] {
        let metrics = Metrics::new(Caps::default());
        count(&metrics, &[json!({})]);
        count(&metrics, &operation(&[(0, 1, first), (1_000, 2, second)]));
        assert_eq!(
            series(&text(&metrics))[&format!("retrylens_duplicate_writes_total{{{PAIR}}}")],
            expected,
            "{why}"
        );
    }
}

#[test]
fn what_is_remembered_of_operations_is_bounded() {
    let metrics = Metrics::new(Caps::default());
    let refused = json!({"status": 429, "retry_after": "10", "outcome": "retrying"});
    let new = judge(event(&refused));
    for n in 0..4 * recent::GENERATION {
        let mut sight = metrics.sight(&new.event, &new.verdict);
        sight.operation = Some(n as u64);
        metrics.state().recent.see(&sight);
    }
    let remembered = metrics.state().recent.remembered();
    assert!((recent::GENERATION..=2 * recent::GENERATION).contains(&remembered), "{remembered}");
}

#[test]
fn the_busiest_key_is_told_without_its_name() {
    let metrics = Metrics::new(Caps::default());
    let refused = |key: &str, count: u32| json!({"status": 429, "key_hash": key, "count": count});
    count(&metrics, &[json!({}), refused("hmac-sha256:aa", 3), refused("hmac-sha256:bb", 1)]);
    assert_series(&metrics, &[("retrylens_key_concentration_ratio{PAIR}", 0.75)]);
    assert!(!text(&metrics).contains("hmac"));
}

#[test]
fn a_name_beyond_its_cap_is_other_and_sums_stay_right() {
    let caps = Caps { services: 2, upstreams: 2, pairs: 3 };
    let metrics = Metrics::new(caps);
    for (service, host) in [
        ("a", "1.example.com"),
        ("a", "2.example.com"),
        ("a", "3.example.com"),
        ("b", "1.example.com"),
        ("b", "2.example.com"),
        ("c", "1.example.com"),
    ] {
        count(&metrics, &[json!({"service": service, "host": host})]);
    }
    let series = series(&text(&metrics));
    let sum: f64 = series
        .iter()
        .filter(|(name, _)| name.starts_with("retrylens_requests_total"))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(sum, 6.0);
    assert_eq!(series[r#"retrylens_requests_total{service="a",upstream="other"}"#], 1.0);
    assert_eq!(series[r#"retrylens_requests_total{service="other",upstream="other"}"#], 3.0);
    assert_eq!(
        metrics.overflow(),
        [(Overflow::Service, 1), (Overflow::Upstream, 1), (Overflow::Pair, 3)]
    );
    assert_eq!(series[r#"retrylens_label_overflow_total{label="pair"}"#], 3.0);
}

#[test]
fn all_labels_with_all_their_values_stay_below_ten_thousand_series() {
    let metrics = Metrics::new(Caps::default());
    let refused = judge(event(&json!({"status": 429, "key_hash": "k", "retry_after": "1"})));
    let mut sight = metrics.sight(&refused.event, &refused.verdict);
    for n in 0..10_000_usize {
        let names = [&format!("service-{}", n % 70), &*format!("{}.example.com", n % 23), ""];
        metrics.learn(names, Vantage::Client, true);
        sight.source = Responder::ALL[n % Responder::ALL.len()];
        metrics.count(NOON, std::iter::once((names, &sight, Inserted::Stored)));
    }
    let (series, pairs) = (series(&text(&metrics)), metrics.snapshot(NOON).pairs_held());
    assert!((150..=151).contains(&pairs), "{pairs}");
    assert!((8_000..10_000).contains(&series.len()), "{}", series.len());
}

#[test]
fn exemplars_are_written_in_open_metrics_alone() {
    let metrics = Metrics::new(Caps::default());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    count(
        &metrics,
        &[
            json!({}),
            json!({"status": 429, "trace_id": trace, "span_id": "00f067aa0ba902b7", "count": 2, "key_hash": "k",
                "retry_after": "30", "computed_delay_ms": 12_500, "outcome": "retrying"}),
            json!({"status": 429, "trace_id": "not a trace\" 9"}),
        ],
    );
    assert!(!text(&metrics).contains(trace));
    let open = Exposition::OpenMetrics.write(&metrics.snapshot(NOON));
    let ids = format!(r#"# {{trace_id="{trace}",span_id="00f067aa0ba902b7"}}"#);
    for line in [
        format!(r#"retrylens_attempts_total{{{PAIR},outcome="429"}} 3 {ids} 2 1794398401"#),
        format!(
            r#"retrylens_retry_delay_seconds_bucket{{service="checkout",le="30.0"}} 2 {ids} 12.5 1794398401"#
        ),
        "# TYPE retrylens_attempts counter".to_owned(),
        "# TYPE retrylens_build info".to_owned(),
        "# UNIT retrylens_retry_delay_seconds seconds".to_owned(),
        "# UNIT retrylens_key_concentration_ratio ratio".to_owned(),
    ] {
        assert!(open.lines().any(|shown| shown == line), "{line} in\n{open}");
    }
    assert!(open.ends_with("\n# EOF\n") && !open.contains("not a trace"));
    assert!(!text(&metrics).contains("# EOF") && !text(&metrics).contains("# UNIT"));
}

#[test]
fn hostile_names_stay_within_their_quotes() {
    let metrics = Metrics::new(Caps::default());
    count(&metrics, &[json!({"service": "a\"} 1\nb\\c\u{1}", "host": "ä.example.com"})]);
    let text = text(&metrics);
    let line = "retrylens_requests_total{service=\"a\\\"} 1\\nb\\\\c\u{fffd}\",upstream=\"ä.example.com\"} 1";
    assert!(text.lines().any(|shown| shown == line), "{text}");
}

#[test]
fn the_format_is_the_one_that_was_asked_for() {
    let of_prometheus = "application/openmetrics-text;version=1.0.0,\
        application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, expected) in [
        (of_prometheus, Exposition::OpenMetrics),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", Exposition::OpenMetrics),
        ("application/openmetrics-text", Exposition::OpenMetrics),
        ("", Exposition::Text),
        ("*/*", Exposition::Text),
        ("text/html,*/*;q=0.8", Exposition::Text),
        ("text/plain;version=0.0.4", Exposition::Text),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", Exposition::Text),
        ("application/openmetrics-text;q=0", Exposition::Text),
        ("application/openmetrics-text;version=2.0.0", Exposition::Text),
        ("application/vnd.google.protobuf;q=1,text/plain;version=0.0.4;q=0.3", Exposition::Text),
    ] {
        assert_eq!(Exposition::accepted(accept), expected, "{accept}");
    }
}

#[test]
fn alerts_and_receivers_are_shown_from_when_they_are_known() {
    let metrics = Metrics::new(Caps::default());
    metrics.learn_alert("Retrylens429Spike");
    metrics.evaluated("Retrylens429Spike", Evaluated::Ok);
    metrics.learn_receiver("pager");
    metrics.notified("chat", Notified::Dropped);
    metrics.receiver_gone("chat", true);
    metrics.store_failed(Operation::Tidy);
    assert_series(
        &metrics,
        &[
            (r#"retrylens_alert_evaluations_total{alert="Retrylens429Spike",result="ok"}"#, 1.0),
            (
                r#"retrylens_alert_evaluations_total{alert="Retrylens429Spike",result="failed"}"#,
                0.0,
            ),
            (r#"retrylens_notifications_total{receiver="pager",result="delivered"}"#, 0.0),
            (r#"retrylens_notifications_total{receiver="chat",result="dropped"}"#, 1.0),
            (r#"retrylens_receiver_gone{receiver="pager"}"#, 0.0),
            (r#"retrylens_receiver_gone{receiver="chat"}"#, 1.0),
            (r#"retrylens_store_errors_total{operation="tidy"}"#, 1.0),
        ],
    );
}

fn any_event() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec![200, 200, 200, 301, 404, 429, 429, 500, 503, 999, 0]);
    let vantage = prop::sample::select(vec!["client", "client", "gateway", "origin"]);
    let layer = prop::sample::select(vec!["app", "sdk", "queue", ""]);
    let server = prop::sample::select(vec!["cloudflare", "nginx", "awselb/2.0", "x"]);
    (0..4_u8, 0..4_u8, 0..3_u8, 1..4_u32, status, (1..9_u32, vantage, layer, server)).prop_map(
        |(service, host, environment, attempt, status, (count, vantage, layer, server))| {
            let mut event = json!({"service": format!("s{service}"), "vantage": vantage,
                "host": format!("{host}.example.com"), "attempt": attempt, "count": count,
                "headers": [["server", server]], "retry_after": "3", "duration_ms": 50,
                "operation_id": format!("{service}-{host}")});
            event["status"] = if status == 0 { Value::Null } else { json!(status) };
            if environment > 0 {
                event["environment"] = json!(environment.to_string());
            }
            if !layer.is_empty() {
                event["retry_layer"] = json!(layer);
            }
            event
        },
    )
}

/// The sum of a family's series with exactly the labels of `pair` and one more.
fn sum(series: &BTreeMap<String, f64>, family: &str, pair: &str) -> f64 {
    let with_more = series.iter().filter(|(name, _)| {
        let labels = name.strip_prefix(family).and_then(|rest| rest.strip_prefix('{'));
        let more = labels.and_then(|labels| labels.strip_prefix(pair));
        more.is_some_and(|more| {
            more == "}"
                || ["layer", "outcome", "source", "kind"]
                    .iter()
                    .any(|label| more.strip_prefix(&format!(",{label}=")).is_some())
        })
    });
    with_more.map(|(_, value)| value).sum()
}

proptest! {
    #[test]
    fn what_must_hold_holds_whatever_is_reported(
        batches in prop::collection::vec(prop::collection::vec(any_event(), 1..20), 1..8),
        caps in (1..5_usize, 1..5_usize, 1..12_usize),
    ) {
        let caps = Caps { services: caps.0, upstreams: caps.1, pairs: caps.2 };
        let metrics = Metrics::new(caps);
        let mut before: BTreeMap<String, f64> = BTreeMap::new();
        let mut events = 0_u32;
        for batch in &batches {
            count(&metrics, batch);
            events += u32::try_from(batch.len()).unwrap();
            let series = series(&text(&metrics));
            for (name, value) in &before {
                let is_counter = name.contains("_total{") || name.contains("_bucket")
                    || name.contains("_count") || name.contains("_sum");
                if is_counter && let Some(now) = series.get(name) {
                    prop_assert!(now >= value, "{name} fell from {value} to {now}");
                }
            }
            let pairs: Vec<&str> = series
                .keys()
                .filter_map(|name| name.strip_prefix("retrylens_requests_total{")?.strip_suffix('}'))
                .collect();
            prop_assert!(pairs.len() <= caps.pairs + 1, "{pairs:?}");
            for pair in pairs {
                let of = |family: &str| sum(&series, family, pair);
                prop_assert_eq!(
                    of("retrylens_requests_total") + of("retrylens_retries_total"),
                    of("retrylens_attempts_total")
                );
                let refused = series[&format!("retrylens_attempts_total{{{pair},outcome=\"429\"}}")];
                prop_assert!(of("retrylens_limited_total") <= of("retrylens_attempts_total"));
                prop_assert_eq!(refused, of("retrylens_rate_limited_total"));
                prop_assert_eq!(refused, of("retrylens_limit_kinds_total"));
            }
            before = series;
        }
        let accepted = before[r#"retrylens_ingest_events_total{result="accepted"}"#];
        prop_assert_eq!(accepted, f64::from(events));
    }

    #[test]
    fn with_room_for_all_every_attempt_of_a_client_is_counted_by_its_weight(
        batch in prop::collection::vec(any_event(), 1..60),
    ) {
        let metrics = Metrics::new(Caps::default());
        for service in 0..4 {
            for host in 0..4 {
                for environment in ["", "1", "2"] {
                    let names = [&format!("s{service}"), &*format!("{host}.example.com"), environment];
                    metrics.learn(names, Vantage::Client, true);
                }
            }
        }
        count(&metrics, &batch);
        let expected: f64 = batch
            .iter()
            .filter(|event| event["vantage"] == "client")
            .filter_map(|event| event["count"].as_f64())
            .sum();
        let counted: f64 = series(&text(&metrics))
            .iter()
            .filter(|(name, _)| name.starts_with("retrylens_attempts_total{"))
            .map(|(_, n)| n)
            .sum();
        prop_assert_eq!(counted, expected);
    }
}

/// Prints what counting costs; part of `make test-long`, as only an optimised build tells.
#[test]
#[ignore = "a measurement: run it in release with --nocapture"]
fn what_counting_costs_is_printed() {
    let metrics = Metrics::new(Caps::default());
    let mut events: Vec<_> = Vec::new();
    for n in 0..5_000_u32 {
        let mut fields = json!({"service": format!("service-{}", n % 40), "duration_ms": 40,
            "host": format!("api-{}.example.com", n % 7), "operation_id": format!("o{n}"),
            "trace_id": format!("4bf92f3577b34da6a3ce929d{n:08x}"), "span_id": "00f067aa0ba902b7"});
        if n % 10 == 0 {
            fields["status"] = json!(429);
            fields["retry_after"] = json!("30");
            fields["outcome"] = json!("retrying");
        }
        events.push(judge(event(&fields)));
    }
    let rounds = 200_u32;
    let begun = tokio::time::Instant::now();
    let mut sights = Vec::new();
    for _ in 0..rounds {
        sights = events.iter().map(|new| metrics.sight(&new.event, &new.verdict)).collect();
    }
    let seen = begun.elapsed();
    let begun = tokio::time::Instant::now();
    for _ in 0..rounds {
        let names = events.iter().map(|new| [&*new.event.service, &*new.event.host, ""]);
        let stored = names.zip(&sights).map(|(names, sight)| (names, sight, Inserted::Stored));
        metrics.count(NOON, stored);
    }
    let counted = begun.elapsed();
    let begun = tokio::time::Instant::now();
    let snapshot = metrics.snapshot(NOON);
    let copied = begun.elapsed();
    let text = Exposition::OpenMetrics.write(&snapshot);
    let written = begun.elapsed();
    let each = |took: std::time::Duration| took / rounds / 5_000;
    let mut line = String::new();
    writeln!(
        line,
        "an event: looked at in {:?}, counted in {:?}; {} pairs copied in {copied:?}, {} lines of {} \
         bytes written by {written:?}",
        each(seen),
        each(counted),
        snapshot.pairs_held(),
        text.lines().count(),
        text.len()
    )
    .unwrap();
    std::io::Write::write_all(&mut std::io::stdout().lock(), line.as_bytes()).unwrap();
    assert_eq!(metrics.state().own.events[0], u64::from(rounds) * 5_000);
}
