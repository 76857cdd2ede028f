//! Texts with secrets in every shape, and texts that only look as if they had some.

use super::pairs::PAIR;
use super::prefixes::{PREFIXES, STARTS, Tail};
use super::shapes::SHAPES;
use super::*;
use proptest::prelude::*;

#[test]
fn every_pattern_compiles_and_every_prefix_is_reached() {
    assert!(SHAPES.len() > 10);
    assert!(PAIR.is_match("token=abcd"));
    for (i, (prefix, tail, least, kind)) in PREFIXES.iter().enumerate() {
        let (from, to) = STARTS[usize::from(prefix.as_bytes()[0])];
        assert!((from..to).contains(&i), "{prefix} stands apart from its letter's group");
        let tail = if matches!(tail, Tail::Hex) { "0f" } else { "a1" };
        let made: String = prefix.chars().chain(tail.chars().cycle().take(*least)).collect();
        assert_eq!(text(&format!("<{made}>")).text, format!("<[redacted: {kind}]>"));
    }
}

/// Fake values, cut in two so that no scanner takes this file for a leak.
#[test]
fn what_looks_secret_is_replaced_by_what_it_was() {
    let pem = format!(
        "-----BEGIN {} KEY-----\nMIIE\nAB==\n-----END {} KEY-----",
        "RSA PRIVATE", "RSA PRIVATE"
    );
    let pem_cut = format!("-----BEGIN {} KEY-----\\nMIIE", "PRIVATE");
    let aws = format!("x {}{} y", "wJalrXUtnFEMI/K7MD", "ENG/bPxRfiCYEXAMPLEKEY");
    let table: Vec<(&str, &str)> = vec![
        ("Authorization: Bearer abc.def", "Authorization: [redacted: authorization]"),
        ("sent Bearer mysecrettoken to", "sent Bearer [redacted: bearer] to"),
        ("Bearer%20abcdef123", "Bearer%20[redacted: bearer]"),
        ("Basic dXNlcjpwYXNz", "Basic [redacted: basic-auth]"),
        ("Digest username=\"a\", realm=\"r\", response=\"00ff\"", "Digest [redacted: digest-auth]"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln b", "a [redacted: jwt] b"),
        ("/v1/x?token=abcd&page=2", "/v1/x?token=[redacted: token]&page=2"),
        ("/v1/x;jsessionid=8A8F", "/v1/x;jsessionid=[redacted: session]"),
        ("api_key%3Dabcdef", "api_key%3D[redacted: api-key]"),
        (r#"{"apiKey":"a b","n":1}"#, r#"{"apiKey":"[redacted: api-key]","n":1}"#),
        (r#"{\"client_secret\":\"xy\"}"#, r#"{\"client_secret\":\"[redacted: secret]\"}"#),
        ("password: hunter2 ok", "password: [redacted: password] ok"),
        ("MY_DB_PASSWORD=hunter", "MY_DB_PASSWORD=[redacted: password]"),
        ("Cookie: a=b; c=d", "Cookie: [redacted: cookie]"),
        ("shop=abc; Path=/; HttpOnly", "shop=[redacted: cookie]; Path=/; HttpOnly"),
        (
            "see https://u:p@api.example.com/x",
            "see https://[redacted: url-credentials]@api.example.com/x",
        ),
        ("for jane.doe+x@example.co.uk!", "for [redacted: email]!"),
        ("/users/jane%40example.com/x", "/users/[redacted: email]/x"),
        ("card 4111 1111 1111 1111.", "card [redacted: card-number]."),
        ("card 4111-1111-1111-1111 2030", "card [redacted: card-number] 2030"),
        ("3782 822463 10005", "[redacted: card-number]"),
        ("n=378282246310005", "n=[redacted: card-number]"),
        ("DE89 3704 0044 0532 0130 00 EUR", "[redacted: iban] EUR"),
        ("GB82WEST12345698765432", "[redacted: iban]"),
        (
            "Incorrect API key provided: abcd1234. See docs",
            "Incorrect API key provided: [redacted: api-key]. See docs",
        ),
        ("invalid token \"a1b2c3d4\"", "invalid token \"[redacted: token]\""),
        ("'a1b2c3d4' is not a valid API key", "'[redacted: api-key]' is not a valid API key"),
        ("<apiKey>abc</apiKey>", "<apiKey>[redacted: api-key]</apiKey>"),
        (
            "<input name='csrf' /><meta name=\"csrf-token\" content=\"ab12\">",
            "<input name='csrf' /><meta name=\"csrf-token\" content=\"[redacted: token]\">",
        ),
        (r#"{"api_key":["abc"]}"#, r#"{"api_key":["[redacted: api-key]"]}"#),
        (
            "<add key='AccessToken' value='abc'/>",
            "<add key='[redacted: api-key]' value='[redacted: token]'/>",
        ),
        ("Session k3yV4lu3abcdef99 has expired", "Session [redacted: session] has expired"),
        ("GET /cb?x=1&code=abc123", "GET /cb?x=1&code=[redacted: authorization-code]"),
        ("DPoP a1b2c3d4e5", "DPoP [redacted: token]"),
        ("Hawk id=\"a\", mac=\"b\"", "Hawk [redacted: authorization]"),
        ("access_token: abcdefghij", "access_token: [redacted: token]"),
        ("/cb?code=a1b2c3d4e5&state=x", "/cb?code=[redacted: authorization-code]&state=x"),
        ("/x%3Ftoken=abcd", "/x%3Ftoken=[redacted: token]"),
        ("/reset/abcd1234", "/reset/[redacted: token]"),
        ("/verify/email/493817?x", "/verify/email/[redacted: token]?x"),
        ("is 219-09-9999 his", "is [redacted: ssn] his"),
        ("Social Security number 219 09 9999", "Social Security number [redacted: ssn]"),
        ("für jörg@bücher.example!", "für [redacted: email]!"),
        ("jane@xn--bcher-kva.xn--p1ai", "[redacted: email]"),
        (r"at\nAKIAIOSFODNN7EXAMPLE", r"at\n[redacted: aws-key]"),
        (&pem, "[redacted: private-key]"),
        (&pem_cut, "[redacted: private-key]"),
        (&aws, "x [redacted: aws-secret] y"),
    ];
    for (input, expected) in table {
        let out = text(input);
        assert_eq!(out.text, expected, "{input}");
        assert!(out.count >= 1, "{input}");
    }
}

#[test]
fn what_joins_and_diagnoses_is_left_alone() {
    let table = [
        "checkout",
        "api.example.com:8443",
        "/v1/orders/{id}/items",
        "01JCH6X8Y4Q2V7M3N9K5R1T6B8",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
        "8f2a1c3d4e5f6a7b-GRU",
        "c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
        "RQ0123456789abcdef0123456789abcdef",
        "hmac-sha256:9d3f00aa",
        "Wed, 11 Nov 2026 07:29:00 GMT",
        "2026-11-11T07:29:00.120Z",
        "1762848540123",
        "1762848540123456",
        "1762848540123456789",
        "0.4111111111111111",
        "\"default\";q=100;w=60;pk=:cHsdsRa894==:",
        "limit=100, remaining=0, reset=30",
        "cfEdge;dur=6,cfOrigin;dur=149",
        "TooManyRequestsException:http://internal.amazon.com/coral/com.amazon.coral.availability/",
        "k5zX1lH8m2Qp0vR7tY3uW9aB4cD6eF8gH0jK2lM4nO6pQ8rS0tU2vW==",
        "1.1 varnish, 1.1 a1b2c3d4.cloudfront.net (CloudFront)",
        "error code: 1015",
        "Bearer authentication is required",
        "Basic authentication is required",
        "Invalid token provided",
        "Rate limit reached for requests",
        "invalid token count 4096",
        "key is required",
        "secret sauce",
        "Missing key requestId in the body, invalid key maxTokens",
        "Invalid API key. Request 8f2a1c3d4e5f6a7b was refused",
        "API key expired 2026-11-11T07:29:00Z, token valid for 1h30m0s",
        "No API key found in request",
        "token sha256 mismatch, invalid key ed25519",
        "Unexpected token a1b2c3d4 in JSON at position 0",
        "duplicate key value violates unique constraint \"users_email_key\"",
        "key 'user:2024' is rate limited, key per minute: 128000",
        "Your api key: ****0000 is invalid",
        "password: must be at least 8 characters, api_key: required",
        r#"{"code":"rate_limit_exceeded","key":"email","token":"invalid"}"#,
        r#"{"error":{"code":"activityLimitReached","innerError":{"code":"E11000Duplicate"}}}"#,
        r#"{"cache_key":"orders:eu","translationKey":"errors.rate_limit"}"#,
        "<Error><Code>SlowDown</Code><Key>photos/2006/image.jpg</Key></Error>",
        "code=AADSTS50011&status_code=429, code=0x80070005",
        "/v1/tokens/refresh, /reset/password, /keys/{id}, /oauth2/token/v2",
        "call 123-456-7890, 900-12-3456, ref 2026-123-45-6789",
        "Access denied for user 'app' (using password: YES)",
        "error code: 10013, /src/token/parser2.rs, /keys/user123",
        "npm i left-pad@1.3.0 and nginx@sha256:0a1b2c3d",
        "max_tokens: 4096, nextPage: 2, token: required",
        "Rate limit reached for tokens per min. Limit: 10000 / min. Current: 10020 / min.",
        r#"{"error":{"message":"Too many requests","type":"tokens","code":"rate_limit_exceeded"}}"#,
        r#"{"max_tokens":4096,"token":null,"key":12}"#,
        "password=********",
        "sk-payments-gateway-europe",
        "6m0s",
        "token-bucket",
    ];
    for input in table {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
}

/// As if every rule could match.
const EVERYTHING: Signs = Signs {
    made: Made(u16::MAX),
    pair: true,
    dashes: true,
    words: u8::MAX,
    digits: usize::MAX,
    longest_run: usize::MAX,
    jumble: usize::MAX,
};

#[test]
fn a_cookie_with_a_digit_before_its_value_is_found() {
    assert_eq!(text("visitor1=q7Zp2LxV; HttpOnly").text, "visitor1=[redacted: cookie]; HttpOnly");
}

#[test]
fn a_secret_of_letters_and_digits_alone_is_found_without_any_other_sign() {
    for (secret, kind) in [
        ("aA1bB2cC3dD4eE5fF6gG7hH8iI9jJ0kK1lL2mM3n", "aws-secret"),
        ("0123456789abcdef0123456789abcdef-us7", "mailchimp-key"),
    ] {
        assert_eq!(kind_of(secret), Some(kind), "{secret}");
    }
}

#[test]
fn a_redacted_id_stays_distinct_and_stays_as_it_is() {
    let hasher = KeyHasher::new(b"server key");
    let one = id("jane@example.com", &hasher);
    let two = id("john@example.com", &hasher);
    assert!(one.text.starts_with("redacted:email:") && one.count == 1, "{one:?}");
    assert_ne!(one.text, two.text);
    assert_eq!(id(&one.text, &hasher), Redacted { text: one.text.clone(), count: 0 });
    assert_eq!(id("req_01", &hasher).text, "req_01");
    for kind in ["api-key", "token", "session", "password"] {
        let kept = format!("redacted:{kind}:{}", "0f".repeat(16));
        assert_eq!(id(&kept, &hasher).count, 0);
    }
}

#[test]
fn a_long_hostile_text_takes_linear_time() {
    for piece in [
        "a@",
        "eyJ",
        "://",
        "token=",
        "4111 ",
        "-----BEGIN PRIVATE KEY-----",
        "Bearer ",
        "T0000000/",
        "key ",
        "key=",
        "token is ",
        ",token",
        "is key ",
        "/key/",
        "<key ",
        "name=\"key\"",
        "hawk a=",
        "code=",
        "ssn 219 ",
        "a'a@",
    ] {
        let long = piece.repeat(200_000 / piece.len());
        assert!(text(&long).text.len() < long.len() * 12);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_cheap_look_hides_nothing(
        parts in proptest::collection::vec(prop_oneof![
            proptest::sample::select(TRIGGERS),
            proptest::sample::select(PREFIXES).prop_map(|prefix| prefix.0),
        ], 0..4),
        noise in proptest::collection::vec("[A-Za-z0-9]{0,20}|[0-9a-f]{32}|[A-Za-z0-9/+_.-]{20,60}|\\PC{0,6}", 1..5),
        order in any::<u64>(),
    ) {
        let mut all: Vec<&str> = parts;
        all.extend(noise.iter().map(String::as_str));
        let turn = usize::try_from(order % 7).unwrap() % all.len();
        all.rotate_left(turn);
        if order % 2 == 0 {
            all.reverse();
        }
        let input = all.concat();
        prop_assert_eq!(find(&input), find_by(&input, &EVERYTHING));
    }
}

/// How each kind of secret comes into a text, with `*` where it stands.
const FORMS: &[&str] = &[
    "Incorrect API key provided: *.",
    "invalid API key *",
    "Invalid key *",
    "your token is *",
    "invalid token \"*\"",
    "access token (*) has expired",
    "'*' is not a valid token",
    "using secret * here",
    "wrong password '*'",
    "access_token: *",
    "client_secret=*",
    "<apiKey>*</apiKey>",
    "<ns:secret-key a=\"b\">*</ns:secret-key>",
    "{\"accessToken\":\"*\"}",
    "{\\\"api_key\\\":\\\"*\\\"}",
    "&quot;password&quot;: &quot;*&quot;",
    "Bearer *",
    "Token *",
    "DPoP *",
    "Negotiate *",
    "https://h.example/cb?code=*&state=1",
    "code%3D*",
    "/a%3Ftoken=*",
    "/a;jsessionid=*",
    "/reset/*",
    "https://h.example/verify/email/*/x",
    "/invite/*",
    "/magic-link/*",
    "/token/*",
];

/// What may be around it.
const PROSE: &[&str] = &[
    "Rate limit reached for requests",
    "the",
    "key",
    "token",
    "is required",
    "upstream",
    "429 Too Many Requests",
    "(try again in 20s)",
    "see https://docs.example.com/errors",
    "\"status\": 429",
    "password",
    "secret",
    "code",
    "limit: 100",
    "—",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_secret_of_any_kind_in_any_prose_is_found(
        form in proptest::sample::select(FORMS),
        secret in "[A-Za-z]{3,20}[0-9]{2,4}[A-Za-z0-9]{3,20}",
        before in proptest::collection::vec(proptest::sample::select(PROSE), 0..5),
        after in proptest::collection::vec(proptest::sample::select(PROSE), 0..5),
    ) {
        let form = form.replace('*', &secret);
        let input = format!("{} {form} {}", before.join(" "), after.join(" "));
        let out = text(&input);
        prop_assert!(!out.text.contains(&secret), "{input} became {}", out.text);
        prop_assert!(out.text.contains("[redacted: "), "{}", out.text);
    }

    #[test]
    fn prose_without_a_secret_is_left_alone(
        parts in proptest::collection::vec(proptest::sample::select(PROSE), 0..8),
    ) {
        let input = parts.join(" ");
        prop_assert_eq!(text(&input), Redacted { text: input, count: 0 });
    }
}

/// What rules wait for, and what stands around it.
const TRIGGERS: &[&str] = &[
    "token=",
    "password: ",
    "Bearer ",
    "basic+",
    "Basic ",
    "api key ",
    "negotiate%20",
    "Incorrect API key provided: ",
    "invalid token \"",
    " is not a valid key",
    "<apiKey>",
    "<pin a='b'>",
    "name=\"token\" value=\"",
    "stripeToken1=",
    "\\n",
    "\\u0026",
    "&quot;",
    "DPoP ",
    "Hawk ",
    "mac=",
    "SharedKey a1b:",
    "?code=",
    "%3Fcode%3D",
    "/reset/",
    "%2Fjoin%2F",
    "/key/",
    "219-09-9999",
    "SSN ",
    "219099999",
    "jörg@bücher.example",
    "://",
    "u:p@h.com",
    "jane%40example.com",
    "\"",
    "'",
    "\\",
    " ",
    ";",
    "; Path=/",
    "; httponly",
    "sid1=",
    "4111",
    "4111111111111111",
    "378282246310005",
    "-",
    "=",
    ":",
    "%3A",
    "/",
    "+",
    ".",
    "GB82WEST12345698765432",
    "DE89 3704 0044 0532 0130 00",
    "[redacted: jwt]",
    "@",
    "%40",
    "Cookie: ",
    "authorization:",
    "-----BEGIN PRIVATE KEY-----",
    "digest a=b, response=",
    "\n",
    "services/T0000000/B0000000/",
    "webhooks/123456789012345/",
    "WebhookB2/",
    "-us12",
    "\u{a0}",
    "M00000000000000000000000.000000.",
    "bot110201543:AA",
    "0123456789abcdef0123456789abcdef-us7",
];

proptest! {
    #[test]
    fn it_never_panics_and_leaves_its_own_output_alone(input in "\\PC{0,80}") {
        let once = text(&input);
        prop_assert_eq!(text(&once.text), Redacted { text: once.text.clone(), count: 0 });
    }

    #[test]
    fn the_same_holds_for_texts_made_of_triggers(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "token=", "password: ", "Bearer ", "eyJhbGciOiJIUzI1NiJ9", "jane@example.com", "://",
            "u:p@h.com", "\"", "'", "\\", " ", ";", "Path=/", "4111", "111111111111", "-", "=", ":",
            "[redacted: jwt]", "[", "]", "sk-", "abc123def456ghi789", "%40", "%20", "Cookie: ",
            "authorization", "-----BEGIN PRIVATE KEY-----", "/", "\n", "é", "Basic ", "dXNlcjpw",
        ]), 0..12)
    ) {
        let input = parts.concat();
        let once = text(&input);
        prop_assert_eq!(text(&once.text), Redacted { text: once.text.clone(), count: 0 });
    }
}
