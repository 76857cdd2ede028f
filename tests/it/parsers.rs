//! Whatever text comes in, the way from bytes to a verdict neither panics nor stalls, and what
//! comes out keeps its promises.

use proptest::prelude::*;
use retrylens::domain::classify::{Certainty, LimitType, Responder, Verdict, classify};
use retrylens::domain::redact;
use retrylens::domain::response::Response;
use retrylens::ingest::{case, har, response};
use std::time::{Duration, Instant};

/// Far above what any of these inputs needs on a slow machine without optimisation, far below what
/// a quadratic reader would take.
const PATIENCE: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "the tests are about time")]
fn within_patience<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let out = work();
    let took = started.elapsed();
    assert!(took < PATIENCE, "{what} took {took:?}");
    out
}

/// Field names that rules look at.
const NAMES: [&str; 36] = [
    "server",
    "via",
    "date",
    "age",
    "x-cache",
    "x-served-by",
    "cache-status",
    "content-type",
    "retry-after",
    "retry-after-ms",
    "retry-after-login",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-reset",
    "ratelimit-observed",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-scope",
    "cf-ray",
    "cf-cache-status",
    "cf-mitigated",
    "x-amzn-errortype",
    "x-amzn-requestid",
    "x-amz-cf-id",
    "x-envoy-ratelimited",
    "x-envoy-upstream-service-time",
    "x-kong-response-latency",
    "x-varnish",
    "x-azure-ref",
    "x-vercel-id",
    "x-powered-by",
    "x-request-id",
    "grpc-status",
    "x-github-request-id",
];

/// Values that rules look for, and some that they should survive.
const VALUES: [&str; 34] = [
    "",
    "0",
    "1",
    "30",
    "-5",
    "1.5",
    "7, 60",
    "60000",
    "1795989660",
    "1795989660000",
    "99999999999999999999999999",
    "Sun, 29 Nov 2026 22:01:00 GMT",
    "Sunday, 29-Nov-26 22:01:00 GMT",
    "Sun Nov 29 22:01:00 2026",
    "2026-11-29T22:01:00Z",
    "PT30S",
    "soon",
    "cloudflare",
    "nginx",
    "nginx/1.27.0",
    "envoy",
    "istio-envoy",
    "kong/3.9.1",
    "1.1 varnish",
    "HIT",
    "HIT, MISS",
    "DYNAMIC",
    "Express",
    "application/json",
    "text/html",
    "\"default\";r=0;t=30",
    "100, 100;w=60",
    "TooManyRequestsException",
    "٣٠\u{202e}\u{1F600}",
];

const BODIES: [&str; 9] = [
    "",
    "error code: 1015",
    "{\"message\":\"Too Many Requests\"}",
    "{\"error\":{\"code\":\"rate_limit_exceeded\",\"type\":\"requests\"}}",
    "{\"errors\":[{\"extensions\":{\"code\":\"THROTTLED\"}}]}",
    "local_rate_limited",
    "<html><head><title>429 Too Many Requests</title></head></html>",
    "{\"a\":[[[[[[[[",
    "\u{0}\u{fffd}\u{202e}<script>",
];

fn any_response_text() -> impl Strategy<Value = String> {
    let field = (
        prop::sample::select(&NAMES[..]),
        prop_oneof![
            4 => prop::sample::select(&VALUES[..]).prop_map(str::to_owned),
            1 => ".{0,40}".prop_map(|text: String| text),
        ],
    );
    let status = prop::sample::select(vec![
        200_u16, 400, 401, 403, 420, 429, 430, 500, 502, 503, 504, 509, 529, 999,
    ]);
    let body = prop_oneof![
        4 => prop::sample::select(&BODIES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.0", "HTTP/2", "HTTP/3"]);
    (version, status, prop::collection::vec(field, 0..12), body, any::<bool>()).prop_map(
        |(version, status, fields, body, crlf)| {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = format!("{version} {status}{end}");
            for (name, value) in fields {
                text.extend([name, ": ", &value, end]);
            }
            text.push_str(end);
            text.push_str(&body);
            text
        },
    )
}

/// What every verdict promises, whatever it was made from (DESIGN 14).
fn keeps_its_promises(verdict: &Verdict) -> Result<(), TestCaseError> {
    let confidence = verdict.confidence;
    prop_assert!((0.0..=1.0).contains(&confidence), "{confidence}");
    prop_assert!(!(0.795..0.9).contains(&confidence), "{confidence} lies in the gap");
    let word = match confidence {
        c if c >= 0.99 => Certainty::Certain,
        c if c >= 0.90 => Certainty::Confident,
        c if c >= 0.50 => Certainty::Likely,
        _ => Certainty::Unknown,
    };
    prop_assert_eq!(verdict.outcome, word);
    prop_assert_eq!(verdict.returned_by == Responder::Unknown, word == Certainty::Unknown);
    prop_assert_eq!(verdict.layer, verdict.returned_by.layer());
    prop_assert!((0.0..=1.0).contains(&verdict.limit_type_confidence));
    if !verdict.limited {
        prop_assert_eq!(verdict.limit_type, LimitType::Unknown);
    }
    for wait in [
        verdict.retry_after_seconds,
        verdict.retry_after_remaining_seconds,
        verdict.retry_after_lenient_seconds,
    ] {
        prop_assert!(wait.is_none_or(|wait| wait.is_finite() && wait >= 0.0), "{wait:?}");
    }
    if word == Certainty::Unknown {
        prop_assert!(verdict.collect_next.is_some(), "unknown without a datum to collect");
    }
    let json = serde_json::to_string(verdict);
    let back: Result<Verdict, _> = serde_json::from_str(&json.unwrap());
    prop_assert!(back.is_ok(), "{back:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_verdict_keeps_its_promises(text in any_response_text()) {
        let parsed = response::parse(&text).unwrap();
        keeps_its_promises(&classify(&parsed.response))?;
    }

    #[test]
    fn the_same_response_gets_the_same_verdict(text in any_response_text()) {
        let parsed = response::parse(&text).unwrap();
        prop_assert_eq!(classify(&parsed.response), classify(&parsed.response));
    }

    #[test]
    fn line_ends_do_not_change_the_verdict(text in any_response_text()) {
        let unix = text.replace("\r\n", "\n");
        prop_assume!(!unix.contains('\r'));
        let windows = unix.replace('\n', "\r\n");
        let head = |text: &str| response::parse(text).unwrap().response.headers;
        prop_assert_eq!(head(&unix), head(&windows));
    }

    #[test]
    fn redacting_twice_changes_nothing_more(
        parts in prop::collection::vec(prop_oneof![
            Just("Bearer ".to_owned()), Just("sk-".to_owned()), Just("ghp_".to_owned()),
            Just("AKIAIOSFODNN7EXAMPLE".to_owned()), Just("token=".to_owned()),
            Just("https://user:pass@example.com/".to_owned()), Just("eyJhbGciOi.eyJzdWIi.c2ln".to_owned()),
            Just("4111 1111 1111 1111".to_owned()), Just("[redacted: jwt]".to_owned()),
            "[A-Za-z0-9]{20,40}", ".{0,12}",
        ], 0..8),
    ) {
        let once = redact::text(&parts.concat());
        let twice = redact::text(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert_eq!(twice.count, 0);
        prop_assert_eq!(redact::kind_of(&once.text), None);
    }
}

proptest! {
    #[test]
    fn any_text_is_survived_by_every_door(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(response::parse_all(&text));
        drop(case::read(&text));
        drop(har::entries(&bytes));
        drop(redact::text(&text));
    }

    #[test]
    fn a_case_line_gets_a_verdict_that_keeps_its_promises(
        raw in any_response_text(),
        host in prop::option::of("[a-z.]{1,20}"),
        observed_at in prop::option::of(any::<i64>()),
    ) {
        let line = serde_json::json!({
            "id": "case-1",
            "raw": raw,
            "request": {"method": "GET", "host": host, "path": "/v1/orders"},
            "observed_at": observed_at,
        });
        if let Ok(case) = case::read_value(line) {
            keeps_its_promises(&classify(&case.response))?;
        }
    }
}

#[test]
fn nothing_known_is_unknown_and_no_limit() {
    let verdict = classify(&Response::default());
    assert_eq!(verdict.returned_by, Responder::Unknown);
    assert!(!verdict.limited);
}

#[test]
fn hostile_sizes_are_read_in_bounded_time() {
    for piece in [
        "a",
        "@",
        "a@b.",
        "=",
        ":",
        "/",
        "//",
        "Bearer ",
        "sk-",
        "eyJ",
        ".",
        "-",
        "1",
        "4 ",
        "\"",
        "{",
        "[",
        "\\",
        "<",
        "\n",
        "\r",
        "\r\n",
        " ",
        "\t",
        ",",
        ";",
        "%41",
        "&token=",
        "é",
        "HTTP/1.1 429\n",
        "< HTTP/1.1 429\n",
        "x: y\n",
        "-----BEGIN ",
        "user:pass@",
    ] {
        let long = piece.repeat(64 * 1024 / piece.len());
        within_patience(&format!("redacting {piece:?}"), || redact::text(&long));
        within_patience(&format!("reading {piece:?}"), || response::parse_all(&long));
        let line = within_patience(&format!("a line of {piece:?}"), || case::read(&long));
        assert!(line.is_err(), "{piece:?} is no line of JSON");
        let text = format!(
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: {value}\r\nserver: {value}\r\n\
             via: {value}\r\nratelimit: {value}\r\nx-ratelimit-reset: {value}\r\n\r\n{long}",
            value = long.replace(['\r', '\n'], " "),
        );
        let verdict = within_patience(&format!("judging {piece:?}"), || {
            response::parse(&text).map(|parsed| classify(&parsed.response))
        });
        assert!(verdict.is_ok_and(|verdict| verdict.limited));
    }
}
