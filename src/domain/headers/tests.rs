//! What is read from which field of which host, and what stays unknown.

use super::*;
use crate::domain::headers::read::MOST_FIELDS;
use crate::domain::response::HeaderFields;
use crate::domain::time::UnixMillis;
use proptest::prelude::*;

/// 2026-11-29T22:00:00Z.
const DATE: &str = "Sun, 29 Nov 2026 22:00:00 GMT";
/// One minute later, in seconds since 1970.
const IN_A_MINUTE: &str = "1795989660";

fn fields_of(host: Option<&str>, fields: &[(&str, &str)]) -> Vec<LimitField> {
    let mut all: HeaderFields = [("date", DATE)].into_iter().collect();
    for (name, value) in fields {
        all.push(name, value);
    }
    read(&all, host, None)
}

fn one(host: Option<&str>, fields: &[(&str, &str)], name: &str) -> LimitField {
    fields_of(host, fields)
        .into_iter()
        .find(|field| field.header == name)
        .unwrap_or_else(|| panic!("{name} was not read"))
}

fn seconds(length: Option<Millis>) -> Option<f64> {
    length.map(Millis::as_secs_f64)
}

#[test]
fn one_name_has_the_unit_of_its_host() {
    for (host, name, value, unit, wait) in [
        ("api.github.com", "x-ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        ("discord.com", "x-ratelimit-reset", "1795989660.25", FieldUnit::EpochSeconds, 60.25),
        ("oauth.reddit.com", "x-ratelimit-reset", "289", FieldUnit::Seconds, 289.0),
        ("api.netlify.com", "x-ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        ("api.vercel.com", "x-ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        ("api.x.com", "x-rate-limit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        (
            "org.okta.com/api/v1/users",
            "x-rate-limit-reset",
            IN_A_MINUTE,
            FieldUnit::EpochSeconds,
            60.0,
        ),
        ("gitlab.com/api/v4", "ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        ("api.digitalocean.com", "ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
        ("api.pagerduty.com", "ratelimit-reset", "12", FieldUnit::Seconds, 12.0),
        ("api.fastly.com", "fastly-ratelimit-reset", IN_A_MINUTE, FieldUnit::EpochSeconds, 60.0),
    ] {
        let field = one(Some(host), &[(name, value)], name);
        assert_eq!(field.unit, unit, "{host} {name}");
        assert_eq!(seconds(field.reset_in), Some(wait), "{host} {name}");
        assert_eq!(field.basis, Basis::Host, "{host} {name}");
        assert!(field.owner.is_some());
    }
}

#[test]
fn a_value_that_is_not_what_the_host_documents_stays_unknown() {
    let field = one(Some("api.github.com"), &[("x-ratelimit-reset", "60")], "x-ratelimit-reset");
    assert_eq!(field.unit, FieldUnit::Unknown);
    assert_eq!(field.reset_in, None);
    assert_eq!(field.value, None);
    assert!(field.note.unwrap().contains("documented as epoch-seconds"));
}

#[test]
fn companions_give_the_owner_away() {
    for (companion, name, value, owner, unit) in [
        (
            ("x-github-request-id", "ABCD"),
            "x-ratelimit-reset",
            IN_A_MINUTE,
            "github",
            FieldUnit::EpochSeconds,
        ),
        (
            ("x-ratelimit-bucket", "abcd1234"),
            "x-ratelimit-reset",
            "1795989660.5",
            "discord",
            FieldUnit::EpochSeconds,
        ),
        (
            ("ratelimit-observed", "61"),
            "ratelimit-reset",
            IN_A_MINUTE,
            "gitlab",
            FieldUnit::EpochSeconds,
        ),
        (
            ("x-ratelimit-limit", "100, 100;w=60"),
            "x-ratelimit-reset",
            "23",
            "envoy",
            FieldUnit::Seconds,
        ),
        (
            ("retry-after-login", "23"),
            "x-ratelimit-reset",
            "23",
            "nestjs-throttler",
            FieldUnit::Seconds,
        ),
        (
            ("x-powered-by", "Express"),
            "x-ratelimit-reset",
            IN_A_MINUTE,
            "express-rate-limit",
            FieldUnit::EpochSeconds,
        ),
        (
            ("x-ratelimit-burst-capacity", "20"),
            "x-ratelimit-remaining",
            "0",
            "spring-cloud-gateway",
            FieldUnit::Requests,
        ),
    ] {
        let field = one(None, &[companion, (name, value)], name);
        assert_eq!(field.owner, Some(owner), "{companion:?}");
        assert_eq!(field.unit, unit, "{companion:?}");
        assert_eq!(field.basis, Basis::Companions, "{companion:?}");
    }
    let misfit =
        one(None, &[("x-powered-by", "Express"), ("x-ratelimit-reset", "34")], "x-ratelimit-reset");
    assert_eq!(misfit.owner, None, "34 can't be a moment, so it is another limiter's");
    assert_eq!((misfit.basis, misfit.unit), (Basis::Shape, FieldUnit::Seconds));
}

#[test]
fn without_an_owner_only_the_shape_speaks_and_says_so() {
    for (value, unit, wait) in [
        ("42", FieldUnit::Seconds, Some(42.0)),
        ("1.5", FieldUnit::Seconds, Some(1.5)),
        ("99999", FieldUnit::Seconds, Some(99_999.0)),
        ("100000", FieldUnit::Unknown, None),
        ("600000", FieldUnit::Unknown, None),
        ("999999999", FieldUnit::Unknown, None),
        (IN_A_MINUTE, FieldUnit::EpochSeconds, Some(60.0)),
        ("1795989660.5", FieldUnit::EpochSeconds, Some(60.5)),
        ("905212800000", FieldUnit::Unknown, None),
        ("1795989660000", FieldUnit::EpochMilliseconds, Some(60.0)),
        ("1795989660000000", FieldUnit::Unknown, None),
        ("6m0s", FieldUnit::Duration, Some(360.0)),
        ("120ms", FieldUnit::Duration, Some(0.12)),
        ("2026-11-29T22:01:00Z", FieldUnit::Date, Some(60.0)),
        ("Sun, 29 Nov 2026 22:01:00 GMT", FieldUnit::Date, Some(60.0)),
        ("soon", FieldUnit::Unknown, None),
        ("-1", FieldUnit::Unknown, None),
        ("", FieldUnit::Unknown, None),
        ("99999999999999999999999", FieldUnit::Unknown, None),
    ] {
        let field =
            one(Some("api.example.com"), &[("x-ratelimit-reset", value)], "x-ratelimit-reset");
        assert_eq!(field.unit, unit, "{value}");
        assert_eq!(seconds(field.reset_in), wait, "{value}");
        assert_eq!(field.owner, None, "{value}");
        let basis = if unit == FieldUnit::Unknown { Basis::None } else { Basis::Shape };
        assert_eq!(field.basis, basis, "{value}");
        assert!(field.note.is_some(), "{value} is guessed without saying so");
    }
    let count = one(None, &[("x-ratelimit-remaining", "12")], "x-ratelimit-remaining");
    assert_eq!((count.unit, count.value), (FieldUnit::Unknown, Some(12.0)));
}

#[test]
fn names_with_one_owner_need_no_host() {
    for (name, value, owner, unit, number, wait) in [
        ("retry-after-ms", "1500", "openai", FieldUnit::Milliseconds, Some(1500.0), Some(1.5)),
        ("x-ms-retry-after-ms", "50", "azure", FieldUnit::Milliseconds, Some(50.0), Some(0.05)),
        ("x-amz-retry-after", "700", "aws", FieldUnit::Milliseconds, Some(700.0), Some(0.7)),
        ("x-retry-in", "1m2.5s", "traefik", FieldUnit::Duration, Some(62.5), Some(62.5)),
        ("x-ratelimit-after", "9", "tower-governor", FieldUnit::Seconds, Some(9.0), Some(9.0)),
        (
            "x-ratelimit-reset-tokens",
            "6m0s",
            "openai",
            FieldUnit::Duration,
            Some(360.0),
            Some(360.0),
        ),
        (
            "x-ratelimit-reset-requests",
            "120ms",
            "openai",
            FieldUnit::Duration,
            Some(0.12),
            Some(0.12),
        ),
        ("x-ratelimit-limit-tokens", "150000", "openai", FieldUnit::Tokens, Some(150_000.0), None),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "2026-11-29T22:01:00Z",
            "anthropic",
            FieldUnit::Date,
            Some(1_795_989_660.0),
            Some(60.0),
        ),
        (
            "anthropic-ratelimit-requests-remaining",
            "0",
            "anthropic",
            FieldUnit::Requests,
            Some(0.0),
            None,
        ),
        (
            "anthropic-ratelimit-output-tokens-limit",
            "8000",
            "anthropic",
            FieldUnit::Tokens,
            Some(8000.0),
            None,
        ),
        (
            "x-amzn-ratelimit-limit",
            "0.0167",
            "amazon-sp-api",
            FieldUnit::PerSecond,
            Some(0.0167),
            None,
        ),
        (
            "x-ratelimit-next",
            "2026-11-29T22:00:30Z",
            "akamai-api",
            FieldUnit::Date,
            Some(1_795_989_630.0),
            Some(30.0),
        ),
        (
            "x-ratelimit-limit-per-second",
            "0.5",
            "akamai-api",
            FieldUnit::PerSecond,
            Some(0.5),
            None,
        ),
        ("twilio-concurrent-requests", "101", "twilio", FieldUnit::Concurrency, Some(101.0), None),
        ("ratelimit-remaining", "17", "ietf", FieldUnit::Requests, Some(17.0), None),
        ("ratelimit-reset", "30", "ietf", FieldUnit::Seconds, Some(30.0), Some(30.0)),
        (
            "x-ms-ratelimit-remaining-subscription-reads",
            "11999",
            "azure-resource-manager",
            FieldUnit::Requests,
            Some(11_999.0),
            None,
        ),
    ] {
        let field = one(None, &[(name, value)], name);
        assert_eq!(field.owner, Some(owner), "{name}");
        assert_eq!(field.unit, unit, "{name}");
        assert_eq!(field.value, number, "{name}");
        assert_eq!(seconds(field.reset_in), wait, "{name}");
        assert_eq!(field.basis, Basis::Name, "{name}");
    }
}

#[test]
fn the_standard_name_with_a_moment_in_it_is_only_a_guess() {
    let field = one(None, &[("ratelimit-reset", IN_A_MINUTE)], "ratelimit-reset");
    assert_eq!(field.owner, None);
    assert_eq!((field.basis, field.unit), (Basis::Shape, FieldUnit::EpochSeconds));
    assert_eq!(seconds(field.reset_in), Some(60.0));
}

#[test]
fn a_window_in_the_name_is_read() {
    let minute = one(None, &[("x-ratelimit-limit-minute", "60")], "x-ratelimit-limit-minute");
    assert_eq!((minute.owner, seconds(minute.window)), (Some("kong"), Some(60.0)));
    assert_eq!(minute.policy.as_deref(), Some("minute"));
    let quota =
        one(None, &[("x-ratelimit-remaining-sms-day", "3")], "x-ratelimit-remaining-sms-day");
    assert_eq!((quota.policy.as_deref(), seconds(quota.window)), (Some("sms"), Some(86_400.0)));
    let month = one(None, &[("x-ratelimit-limit-month", "60")], "x-ratelimit-limit-month");
    assert_eq!(month.window, None, "months differ in length");
}

#[test]
fn a_named_throttler_is_read_beside_its_wait() {
    let fields = fields_of(
        None,
        &[
            ("retry-after-burst", "4"),
            ("x-ratelimit-limit-burst", "10"),
            ("x-ratelimit-reset-burst", "4"),
        ],
    );
    assert!(fields.iter().all(|field| field.owner == Some("nestjs-throttler")), "{fields:?}");
    assert!(fields.iter().all(|field| field.policy.as_deref() == Some("burst")));
    let alone = one(None, &[("x-ratelimit-limit-usd", "10")], "x-ratelimit-limit-usd");
    assert_eq!((alone.owner, alone.unit), (None, FieldUnit::Unknown));
}

#[test]
fn shopify_writes_used_and_size_in_one() {
    let fields = fields_of(None, &[("x-shopify-shop-api-call-limit", "39/40")]);
    let read: Vec<_> = fields.iter().map(|field| (field.kind, field.value)).collect();
    assert_eq!(read, [(FieldKind::Used, Some(39.0)), (FieldKind::Limit, Some(40.0))]);
    let broken = fields_of(None, &[("x-shopify-shop-api-call-limit", "39/many")]);
    assert_eq!(broken.first().and_then(|field| field.value), None);
}

#[test]
fn draft_03_appends_policies_to_the_limit() {
    let fields = fields_of(None, &[("ratelimit-limit", "100, 100;w=60, 1000;w=3600")]);
    let read: Vec<_> = fields.iter().map(|f| (f.kind, f.value, seconds(f.window))).collect();
    assert_eq!(
        read,
        [
            (FieldKind::Limit, Some(100.0), None),
            (FieldKind::Policy, Some(100.0), Some(60.0)),
            (FieldKind::Policy, Some(1000.0), Some(3600.0)),
        ]
    );
    let envoy = fields_of(None, &[("x-ratelimit-limit", "4, 4;w=60;name=\"per-ip\"")]);
    assert_eq!(envoy.get(1).and_then(|field| field.policy.as_deref()), Some("per-ip"));
    assert_eq!(envoy.first().and_then(|field| field.owner), Some("envoy"));
}

#[test]
fn drafts_04_to_07_have_a_policy_of_their_own() {
    let field = one(None, &[("ratelimit-policy", "100;w=60")], "ratelimit-policy");
    assert_eq!(
        (field.kind, field.value, seconds(field.window)),
        (FieldKind::Policy, Some(100.0), Some(60.0))
    );
}

#[test]
fn draft_07_is_one_dictionary() {
    let fields = fields_of(None, &[("ratelimit", "limit=100, remaining=50, reset=30")]);
    let read: Vec<_> = fields.iter().map(|f| (f.kind, f.value, seconds(f.reset_in))).collect();
    assert_eq!(
        read,
        [
            (FieldKind::Limit, Some(100.0), None),
            (FieldKind::Remaining, Some(50.0), None),
            (FieldKind::Reset, Some(30.0), Some(30.0)),
        ]
    );
}

#[test]
fn drafts_from_08_on_are_lists_of_named_items() {
    let fields = fields_of(
        None,
        &[
            ("ratelimit", "\"burst\";r=0;t=30"),
            ("ratelimit", "\"day\"; r=999"),
            (
                "ratelimit-policy",
                "\"burst\";q=100;w=60, \"day\"; q=5000; w=86400; qu=\"content-bytes\"; pk=:YWJj:",
            ),
        ],
    );
    let read: Vec<_> = fields
        .iter()
        .map(|f| {
            (f.kind, f.policy.as_deref(), f.value, seconds(f.reset_in), seconds(f.window), f.unit)
        })
        .collect();
    assert_eq!(
        read,
        [
            (FieldKind::Remaining, Some("burst"), Some(0.0), None, Some(60.0), FieldUnit::Requests),
            (
                FieldKind::Reset,
                Some("burst"),
                Some(30.0),
                Some(30.0),
                Some(60.0),
                FieldUnit::Seconds
            ),
            (
                FieldKind::Remaining,
                Some("day"),
                Some(999.0),
                None,
                Some(86_400.0),
                FieldUnit::Bytes
            ),
            (FieldKind::Policy, Some("burst"), Some(100.0), None, Some(60.0), FieldUnit::Requests),
            (FieldKind::Policy, Some("day"), Some(5000.0), None, Some(86_400.0), FieldUnit::Bytes),
        ]
    );
    let token = one(None, &[("ratelimit", "quota;r=3")], "ratelimit");
    assert_eq!(token.policy.as_deref(), Some("quota"));
    assert!(token.note.unwrap().contains("not quoted"));
}

#[test]
fn a_malformed_structured_field_is_ignored_as_a_whole() {
    for (name, value) in [
        ("ratelimit", "\"a\";r=1;t=-5"),
        ("ratelimit", "\"a\";r=1, \"b\""),
        ("ratelimit", "\"a\";r=1.5"),
        ("ratelimit", "\"a\";t=1"),
        ("ratelimit", "\"a;r=1"),
        ("ratelimit", "limit=ten, remaining=5"),
        ("ratelimit", "limit=10, remaining=(1 2)"),
        ("ratelimit", "5"),
        ("ratelimit", ""),
        ("ratelimit-policy", "\"a\";w=60"),
        ("ratelimit-policy", "100;w=sixty"),
        ("ratelimit-policy", "(1 2);w=5"),
    ] {
        let fields = fields_of(None, &[(name, value)]);
        assert_eq!(fields.len(), 1, "{value}");
        let field = fields.first().unwrap();
        assert_eq!((field.value, field.reset_in, field.window), (None, None, None), "{value}");
        assert!(field.note.as_deref().unwrap().contains("malformed"), "{value}");
        assert_eq!(field.raw, value);
    }
}

#[test]
fn retry_after_wins_and_a_replay_silences() {
    let beside = fields_of(None, &[("retry-after", "9"), ("ratelimit", "\"a\";r=0;t=30")]);
    let reset = beside.iter().find(|field| field.kind == FieldKind::Reset).unwrap();
    assert!(reset.note.as_deref().unwrap().contains("retry-after"));
    assert!(beside.iter().all(|field| field.header != "retry-after"));

    for replay in [("age", "9"), ("cf-cache-status", "HIT")] {
        let fields =
            fields_of(None, &[replay, ("ratelimit", "\"a\";r=0;t=30"), ("ratelimit-reset", "30")]);
        assert_eq!(fields.len(), 3);
        for field in fields {
            assert_eq!((field.value, field.reset_in), (None, None), "{replay:?}");
            assert!(field.note.unwrap().contains("replayed"));
        }
    }
}

#[test]
fn a_vendors_wait_in_a_replay_has_its_age_subtracted() {
    let relative =
        one(None, &[("age", "20"), ("x-ratelimit-reset-after", "30.5")], "x-ratelimit-reset-after");
    assert_eq!(seconds(relative.reset_in), Some(10.5));
    let moment = one(
        Some("api.github.com"),
        &[("age", "20"), ("x-ratelimit-reset", IN_A_MINUTE)],
        "x-ratelimit-reset",
    );
    assert_eq!(seconds(moment.reset_in), Some(40.0));
    let old =
        one(None, &[("age", "21909"), ("x-ratelimit-reset", IN_A_MINUTE)], "x-ratelimit-reset");
    assert_eq!(seconds(old.reset_in), Some(0.0));
    assert!(old.note.unwrap().contains("already past"));
}

#[test]
fn a_moment_without_any_base_has_no_wait() {
    let headers: HeaderFields = [("x-ratelimit-reset", IN_A_MINUTE)].into_iter().collect();
    let fields = read(&headers, Some("api.github.com"), None);
    let field = fields.first().unwrap();
    assert_eq!(field.reset_in, None);
    assert_eq!(field.value, Some(1_795_989_660.0));
    assert!(field.note.as_deref().unwrap().contains("no Date"));
    let observed = read(&headers, Some("api.github.com"), Some(UnixMillis(1_795_989_650_000)));
    assert_eq!(seconds(observed.first().and_then(|field| field.reset_in)), Some(10.0));
}

#[test]
fn two_limiters_in_series_keep_their_lines_apart() {
    let fields = fields_of(
        None,
        &[
            ("x-powered-by", "Express"),
            ("x-ratelimit-reset", IN_A_MINUTE),
            ("x-ratelimit-reset", "34"),
        ],
    );
    let read: Vec<_> = fields.iter().map(|field| (field.unit, seconds(field.reset_in))).collect();
    assert_eq!(read, [(FieldUnit::EpochSeconds, Some(60.0)), (FieldUnit::Seconds, Some(34.0))]);
}

#[test]
fn everything_in_the_dictionary_may_be_captured_and_is_read() {
    for entry in FAMILIES.iter().flat_map(|family| family.entries) {
        let name = entry.name.replace("<period>", "hour");
        let name = name.replace(['<', '>'], "");
        assert!(is_allowed(&name), "{name}");
        if name != "retry-after" {
            assert!(!fields_of(None, &[(&name, "1")]).is_empty(), "{name}");
        }
    }
}

#[test]
fn an_owner_states_a_field_once() {
    let entries: Vec<&Entry> = FAMILIES.iter().flat_map(|family| family.entries).collect();
    for (index, entry) in entries.iter().enumerate() {
        let twin = entries
            .iter()
            .skip(index + 1)
            .find(|other| (other.name, other.owner) == (entry.name, entry.owner));
        assert_eq!(twin, None, "{} {}", entry.name, entry.owner);
    }
    for signature in SIGNATURES {
        assert!(entries.iter().any(|entry| entry.owner == signature.owner), "{}", signature.owner);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about time")]
fn hostile_fields_are_read_in_bounded_time() {
    let started = std::time::Instant::now();
    let mut headers = HeaderFields::new();
    for index in 0..2000 {
        headers.push(&format!("x-ratelimit-limit-{}{index}", "a-".repeat(500)), "1");
    }
    headers.push("ratelimit", &"\"a\";r=1,".repeat(20_000));
    headers.push("ratelimit-policy", &"(".repeat(100_000));
    assert!(read(&headers, None, None).len() <= MOST_FIELDS + 64);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn arbitrary_fields_never_panic(
        fields in prop::collection::vec(("[a-z-]{0,12}(ratelimit|rate-limit|retry-after)[a-z-]{0,20}", any::<String>()), 0..6),
        host in any::<Option<String>>(),
        observed in any::<Option<i64>>(),
    ) {
        let headers: HeaderFields = fields.into_iter().collect();
        for field in read(&headers, host.as_deref(), observed.map(UnixMillis)) {
            prop_assert!(field.reset_in.is_none_or(|wait| wait.0 >= 0));
            prop_assert!(field.value.is_none_or(f64::is_finite));
        }
    }

    #[test]
    fn fields_close_to_real_ones_never_panic(
        name in prop::sample::select(vec!["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-reset", "x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "x-retry-in", "anthropic-ratelimit-tokens-reset", "x-shopify-shop-api-call-limit"]),
        value in "(\"?[a-z]{0,3}\"?[;, =rtwq0-9.-]{0,12}|[0-9]{1,30}|[0-9a-zµ.]{1,12}|[0-9TZ:. +-]{1,30}|limit=[0-9]{0,20}){1,3}",
        date in any::<i64>(),
    ) {
        let headers: HeaderFields = [(name, value.as_str()), ("age", "3")].into_iter().collect();
        for field in read(&headers, None, Some(UnixMillis(date))) {
            prop_assert!(field.reset_in.is_none_or(|wait| wait.0 >= 0));
        }
    }
}
