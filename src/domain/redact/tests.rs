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
            "<add key='AccessToken' value='[redacted: token]'/>",
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
        "sk-orders-api",
        "Bearer realm=\"api\", error=\"invalid_token\"",
        "x-api-key: [redacted]",
        "password=[FILTERED]&page=2",
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

/// The secret stands as `*`; the rest is to stay as it is.
fn is_replaced(form: &str, kind: &str) {
    for secret in ["q7Zp2LxV9sKd4TfB8nWm", "hunter2fake9"] {
        let out = text(&form.replace('*', secret));
        assert_eq!(out.text, form.replace('*', &marker(kind)), "{form}");
    }
}

#[test]
fn a_secret_was_kept_behind_an_arrow_a_bracket_or_an_escape() {
    for (form, kind) in [
        (r#"{"password"=>"*", "n"=>1}"#, "password"),
        ("{:password=>'*'}", "password"),
        ("password -> *", "password"),
        ("password =&gt; *", "password"),
        ("password := *", "password"),
        ("password == \"*\"", "password"),
        ("user[password]=*&x=1", "password"),
        ("user%5Bpassword%5D=*&x=1", "password"),
        (r#"config["password"] = "*""#, "password"),
        (r#"{\"password\":\t\"*\"}"#, "password"),
        (r#"{\"password\"\n:\n\"*\"}"#, "password"),
        ("{\"password\":\\t\"*\"}", "password"),
        ("password：*", "password"),
        ("password&#x3D;*", "password"),
        ("&quot;password&quot;: &quot;*&quot;", "password"),
    ] {
        is_replaced(form, kind);
    }
    assert_eq!(text(r#"{"password":"ab\"cd"}"#).text, r#"{"password":"[redacted: password]"}"#);
}

#[test]
fn a_secret_was_kept_in_a_list_an_object_or_beside_its_name() {
    for (form, kind) in [
        (r#"{"api_keys":["*"]}"#, "api-key"),
        (r#"{"secret":{"value":"*"}}"#, "secret"),
        (r#"{"password":{"version":1,"value":"*"}}"#, "password"),
        (r#"{"password":{"S":"*"}}"#, "password"),
        (r#"[["x-api-key","*"]]"#, "api-key"),
        (r#"setHeader("api_key", "*")"#, "api-key"),
        ("('token', '*')", "token"),
        (r#"["authorization","*"]"#, "authorization"),
        (r#"{"Authorization":["*"]}"#, "authorization"),
        (r#"["Cookie","*"]"#, "cookie"),
        (r#"<password value="*"/>"#, "password"),
        (r#"<ns:apiKey id="1" value='*' />"#, "api-key"),
        (r#"{"name":"password","value":"*"}"#, "password"),
        ("Authorization header: *", "authorization"),
        ("X-Api-Key header: *", "api-key"),
        ("bearer: *", "token"),
        ("{\"bearer\":\"*\"}", "token"),
        ("bearer=*", "token"),
    ] {
        is_replaced(form, kind);
    }
    assert_eq!(
        text(r#"{"api_keys":["a", "d e"],"n":["x"]}"#).text,
        r#"{"api_keys":["[redacted: api-key]", "[redacted: api-key]"],"n":["x"]}"#
    );
    for (input, expected) in [
        (r#"[["x-api-key","letmein"]]"#, r#"[["x-api-key","[redacted: api-key]"]]"#),
        (
            "[('user', 'jane'), ('password', 'letmein')]",
            "[('user', 'jane'), ('password', '[redacted: password]')]",
        ),
    ] {
        assert_eq!(text(input).text, expected);
    }
    assert_eq!(
        text("api_keys: [q7Zp2LxV, 9sKd4TfB]").text,
        "api_keys: [[redacted: api-key], [redacted: api-key]]"
    );
}

#[test]
fn a_secret_was_kept_behind_a_name_that_goes_on_or_is_joined() {
    for name in [
        "password_confirmation",
        "passwordConfirm",
        "new_password_again",
        "PGPASSWORD",
        "MYSQL_PWD",
        "userpasswd",
    ] {
        is_replaced(&format!("{name}=*"), "password");
        is_replaced(&format!("{{\"{name}\":\"*\"}}"), "password");
    }
    for (form, kind) in [
        ("secret_key_base: *", "secret"),
        ("token_value=*", "token"),
        ("DBPASS=*", "password"),
        ("GITHUBTOKEN=*", "token"),
        ("MYAPIKEY=*", "api-key"),
        ("SAMLResponse=*&RelayState=x", "credentials"),
        ("client_assertion=*", "credentials"),
        ("id_token_hint=*", "token"),
        ("csrf=*", "token"),
        ("xsrf: '*'", "token"),
        ("__cf_bm=*; a=b", "session"),
        ("wordpress_logged_in_0a1b2c=*", "session"),
        ("password_hash: *", "password"),
        ("--token=*", "token"),
    ] {
        is_replaced(form, kind);
    }
    for (input, expected) in [
        ("?ticket=ST-1856339-aA5Y", "?ticket=[redacted: token]"),
        ("assertion=PHNhbWw9q7Zp2LxV9sKd", "assertion=[redacted: credentials]"),
    ] {
        assert_eq!(text(input).text, expected);
    }
}

#[test]
fn a_secret_was_kept_in_an_address() {
    for (form, kind) in [
        ("curl -u admin:* https://h.example/", "password"),
        ("curl --user 'admin:*' -v", "password"),
        ("/password/*/edit", "token"),
        ("/accept/*", "token"),
        ("/login/*", "token"),
        ("/download/*?x", "token"),
        ("/oauth/callback/*", "token"),
        ("https://hook.eu1.make.example/*", "token"),
        ("https://chat.example/hooks/*", "token"),
    ] {
        let out = text(&form.replace('*', "q7Zp2LxV9sKd4TfB8nWm"));
        assert_eq!(out.text, form.replace('*', &marker(kind)), "{form}");
    }
    for (input, expected) in [
        ("root:p/w@x@tcp(db:3306)/app", "[redacted: url-credentials]@tcp(db:3306)/app"),
        ("root:hunter@db-1:5432/app", "[redacted: url-credentials]@db-1:5432/app"),
        ("see //a:pw@h/x", "see //[redacted: url-credentials]@h/x"),
        (
            "https://hooks.zapier.example/hooks/catch/123456/abcdef/",
            "https://hooks.zapier.example/hooks/catch/[redacted: zapier-webhook]/",
        ),
    ] {
        assert_eq!(text(input).text, expected);
    }
}

/// The examples of the registry.
#[test]
fn a_bank_account_of_any_country_was_kept_in_small_letters() {
    for iban in [
        "AD1200012030200359100100",
        "AE070331234567890123456",
        "BE68539007547034",
        "BR1800360305000010009795493C1",
        "FR1420041010050500013M02606",
        "GB29NWBK60161331926819",
        "GI75NWBK000000007099453",
        "KZ86125KZT5004100100",
        "MT84MALT011000012345MTLCAST001S",
        "NO9386011117947",
        "SA0380000000608010167519",
        "TR330006100519786457841326",
        "UA213223130000026007233566001",
        "XK051212012345678906",
    ] {
        for text_of in [iban.to_owned(), iban.to_lowercase()] {
            assert_eq!(kind_of(&text_of), Some("iban"), "{text_of}");
            let groups: Vec<&str> =
                text_of.as_bytes().chunks(4).map(|group| str::from_utf8(group).unwrap()).collect();
            let out = text(&format!("to {} today", groups.join(" ")));
            assert_eq!(out.text, "to [redacted: iban] today");
        }
        let wrong = iban.replace(|c: char| c.is_ascii_digit(), "7");
        assert_eq!(kind_of(&wrong), None, "{wrong}");
    }
}

/// What a person on call reads, and what was taken for a secret.
const ORDINARY: &[&str] = &[
    "rate limited: key=203.0.113.7",
    "descriptor key=ip:203.0.113.7 exceeded",
    "limited by key=orders",
    "sort_key=created_at",
    "Signature expired: 20261130T120000Z is now earlier than 20261130T121500Z",
    "max-age=3600; path=/",
    "sk-orders-gateway-v2-eu1",
    "page_token=CAUQAA",
    "nextPageToken: CAUQAA1b2c3d",
    "PIN 1234 retries",
    "key=2026-11-30",
    "user@host-1.internal",
    "rabbit@ip-10-0-1-2.local",
    "celery@worker",
    "/api/GetUserV2ByAccountIdV3",
    "/tokens/v1beta1/count",
    "/invite/team2026",
    "/v1/sessions/20261130",
    "/download/ubuntu2204",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db/password-a1B2c3",
    "bypass=cache",
    "compass: north",
    "ticket=INC0012345",
    "assertion=failed",
    "csrf: disabled",
    "max_tokens=1048576",
    "\"tokens\": \"unlimited\"",
    "$this->token->getValue()",
    "Token::Invalid at token::Parser",
    "key == \"error\"",
    "docker run -u 1000:1000",
    "app:1.25@sha256:0a1b2c3d",
    "Authorization header: missing",
    "{\"required\":[\"password\",\"username\"]}",
    "INFO:celery@worker: ready",
    "at 12:30@office/x",
    "retries=3; path=/x",
    "be539007547034aa",
];

#[test]
fn what_people_on_call_read_was_taken_for_a_secret() {
    for input in ORDINARY {
        assert_eq!(text(input), Redacted { text: (*input).to_owned(), count: 0 });
        assert_eq!(route(input).count, 0, "{input}");
    }
}

proptest! {
    #[test]
    fn ordinary_words_in_any_order_stay(
        parts in proptest::collection::vec(proptest::sample::select(ORDINARY), 0..6),
        sign in proptest::sample::select(&[" ", ", ", "\n", " | "][..]),
    ) {
        let input = parts.join(sign);
        prop_assert_eq!(text(&input), Redacted { text: input, count: 0 });
    }

    #[test]
    fn an_ordinary_name_keeps_its_value_whatever_the_sign(
        name in proptest::sample::select(&[
            "status", "max_tokens", "compass", "page_token", "nextPageToken", "keyboard", "author",
            "tokenizer", "passenger", "secretary", "signal", "resident", "opinion", "token_type",
            "session_count", "public_key_id", "assertions_total", "tickets",
        ][..]),
        form in proptest::sample::select(SIGNS),
        value in proptest::sample::select(&["required", "orders", "CAUQAA", "4096", "high"][..]),
    ) {
        let input = form.replace('@', name).replace('*', value);
        prop_assert_eq!(text(&input), Redacted { text: input, count: 0 });
    }

    #[test]
    fn a_secret_behind_any_name_and_any_sign_is_found(
        name in proptest::sample::select(&[
            "password", "PGPASSWORD", "DBPASS", "GITHUBTOKEN", "MYAPIKEY", "password_confirmation",
            "passwordConfirm", "secret_key_base", "token_value", "x-api-key", "SAMLResponse",
            "client_assertion", "id_token_hint", "bearer", "csrf", "accessToken", "api_keys",
            "wordpress_sec_0a1b", "__cf_bm", "sessionId", "sig",
        ][..]),
        form in proptest::sample::select(SIGNS),
        secret in "[A-Za-z]{3,20}[0-9]{2,4}[A-Za-z][A-Za-z0-9]{2,19}",
        before in proptest::collection::vec(proptest::sample::select(PROSE), 0..3),
        after in proptest::collection::vec(proptest::sample::select(PROSE), 0..3),
    ) {
        let form = form.replace('@', name).replace('*', &secret);
        let input = format!("{} {form} {}", before.join(" "), after.join(" "));
        let out = text(&input);
        prop_assert!(!out.text.contains(&secret), "{input} became {}", out.text);
    }
}

/// How a value `*` is set beside its name `@`.
const SIGNS: &[&str] = &[
    "@=*",
    "@: *",
    "@:*",
    "@ = *",
    "@=>*",
    "@ -> *",
    "@ := '*'",
    "@：*",
    "@%3D*",
    "@\\u003d*",
    "\"@\":\"*\"",
    "'@': '*'",
    "\"@\"=>\"*\"",
    "\\\"@\\\":\\\"*\\\"",
    "\"@\":\\t\"*\"",
    "\\\"@\\\" :\\n\\\"*\\\"",
    "&quot;@&quot;:&quot;*&quot;",
    "\"@\":[\"*\"]",
    "\"@\":[\"\",\"*\"]",
    "\"@\":{\"value\":\"*\"}",
    "[[\"@\",\"*\"]]",
    "(\"@\", \"*\")",
    "user[@]=*",
    "user%5B@%5D=*",
    "config['@'] = '*'",
    "<@>*</@>",
    "<@ value=\"*\"/>",
    "<input name=\"@\" value=\"*\">",
    "{\"name\":\"@\",\"value\":\"*\"}",
    "?a=1&@=*&b=2",
    "failed\\n@=*",
];

/// As if every rule could match.
const EVERYTHING: Signs = Signs {
    made: Made(u16::MAX),
    pair: true,
    dashes: true,
    option: true,
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
    assert_eq!(kind_of("0123456789abcdef0123456789abcdef-us7"), Some("mailchimp-key"));
}

#[test]
fn an_id_of_forty_characters_was_taken_for_a_secret_of_aws() {
    let (plain, signed) =
        ("aA1bB2cC3dD4eE5fF6gG7hH8iI9jJ0kK1lL2mM3n", "aA1bB2cC3dD4eE5/F6gG7hH8iI9jJ0kK1lL+mM3n");
    for form in ["*", "request *", "ray: * was refused", "{\"trace_id\":\"*\"}", "for (*)"] {
        assert_eq!(text(&form.replace('*', plain)).count, 0, "{form}");
    }
    for form in ["{\"requestId\":\"*\"}", "etag: \"*\"", "correlation=*"] {
        assert_eq!(text(&form.replace('*', signed)).count, 0, "{form}");
    }
    for (form, secret) in [
        ("aws *", plain),
        ("* is the secret", plain),
        (&["AKI", "AIOSFODNN7EXAMPLE *"].concat(), plain),
        ("*", signed),
        ("x * y", signed),
        ("aws id *", signed),
    ] {
        let out = text(&form.replace('*', secret)).text;
        assert!(!out.contains(secret) && out.contains("[redacted: aws-secret]"), "{out}");
    }
}

#[test]
fn a_number_that_is_called_an_id_was_taken_for_a_card() {
    let number = "4539578763621486";
    assert_eq!(text(&format!("charged {number} twice")).count, 1, "it passes the check");
    for form in [
        "trace=*",
        "{\"request_id\":\"*\"}",
        "{\"spanId\": *}",
        "seq *",
        "start_time_ns=*",
        "took * ns",
        "read * bytes",
        "<trace-id>*</trace-id>",
    ] {
        let input = form.replace('*', number);
        assert_eq!(text(&input), Redacted { text: input.clone(), count: 0 });
    }
    for form in ["*", "n=*", "card_id=*", "invalid *", "paid *", "{\"pan\":\"*\"}", "card id: *"] {
        assert_eq!(text(&form.replace('*', number)).count, 1, "{form}");
    }
    assert_eq!(text("id 4539 5787 6362 1486").count, 1, "in groups it is a card's");
}

#[test]
fn a_message_about_a_password_was_taken_for_one() {
    for input in [
        r#"{"password":["This field is required."]}"#,
        r#"{"password":["is too short (minimum is 8 characters)","can't be blank"]}"#,
        r#"{"new_password":["This password is too common."],"n":1}"#,
        r#"{"password":"This field is required."}"#,
        r#"{"token":"This field may not be blank.","api_key":"API key is missing"}"#,
        r#"{"password":"The password field must contain at least one symbol."}"#,
        r#"{"password":"\"password\" is not allowed to be empty"}"#,
        r#"{"password":"Path `password` is required."}"#,
        r#"{\"client_secret\":\"client_secret is required\"}"#,
        r#"{"password":"size must be between 8 and 128"}"#,
        r#"{"password":"String must contain at least 8 character(s)"}"#,
        r#"{"password":{"message":"The two password fields didn’t match."}}"#,
        r#"{"pin":"must be a number"}"#,
        "<password>must not be blank</password>",
        "authorization: 'Authorization header is missing'",
    ] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
    let hidden = r#"{"password":"[redacted: password]"}"#;
    for value in [
        "correct horse fake",
        "it is hunter2fake9",
        "the password letmein is too common",
        "Invalid password: letmein",
        "must not be 4711",
        "this is the value",
        "no $$$$ is required",
        "is aBcDeFgH required",
        "Ce champ est obligatoire",
    ] {
        assert_eq!(text(&format!(r#"{{"password":"{value}"}}"#)).text, hidden, "{value}");
        let listed = text(&format!(r#"{{"password":["{value}"]}}"#)).text;
        assert_eq!(listed, r#"{"password":["[redacted: password]"]}"#, "{value}");
    }
    for input in
        ["?password=must not", "password='this field is required'", r#"{"pin":"not 4711"}"#]
    {
        assert_eq!(text(input).count, 1, "{input}");
    }
}

#[test]
fn the_rest_of_a_password_was_kept_behind_a_sign_in_it() {
    for sign in ["&", ",", ";", "|", "(", ")", "@", "#", "&&", "&amp;"] {
        let secret = format!("hunter2fake9{sign}zeBra7");
        for (form, kind) in [
            ("password: * ok", "password"),
            ("password=*", "password"),
            ("/x?password=*&page=2", "password"),
            ("client_secret=*&grant_type=x", "secret"),
            ("wrong password * ok", "password"),
            ("the password is *", "password"),
            ("PGPASSWORD=* psql", "password"),
        ] {
            let out = text(&form.replace('*', &secret));
            assert_eq!(out.text, form.replace('*', &marker(kind)), "{form} {sign}");
        }
    }
    assert_eq!(text("password: wrong&Horse9 ok").text, "password: [redacted: password] ok");
    for (input, expected) in [
        ("password=a1&user=b;c=d", "password=[redacted: password]&user=b;c=d"),
        ("password=hunter2, then", "password=[redacted: password], then"),
        ("(password: hunter2)", "(password: [redacted: password])"),
        ("password=a1&amp;user=b", "password=[redacted: password]&amp;user=b"),
        ("password=hunter2&quot;, x", "password=[redacted: password]&quot;, x"),
        ("token=abcd&debug", "token=[redacted: token]&debug"),
        ("{password:hunter2,user:jane}", "{password:[redacted: password],user:jane}"),
    ] {
        assert_eq!(text(input).text, expected);
    }
    for input in ["password: required,invalid", "password: missing|wrong", "password: must(see"] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
}

/// Each sign as likely as any other.
fn random_base64(length: usize) -> impl Strategy<Value = String> {
    let signs: Vec<char> =
        ('a'..='z').chain('A'..='Z').chain('0'..='9').chain("+/".chars()).collect();
    proptest::collection::vec(proptest::sample::select(signs), length).prop_map(String::from_iter)
}

/// How a key of AWS stands where AWS is spoken of.
const AWS_FORMS: &[&str] = &[
    "aws *",
    "aws=*&x=1",
    "AWS: *.",
    "the AWS key * was refused",
    "aws.*",
    "aws *=x",
    "/aws/*",
    "aws\\n*\\n",
    "aws%20*%20",
    "aws|*|",
    "* (boto3)",
    "bedrock said: *",
    "SignatureDoesNotMatch *",
    "The AWS credentials that were configured for this machine: *",
    "AKIAIOSFODNN7EXAMPLE/*",
    "AKIAIOSFODNN7EXAMPLE:*",
    "Access key ID,Secret access key\nAKIAIOSFODNN7EXAMPLE,*",
];

proptest! {
    #[test]
    fn a_key_of_aws_was_kept_where_aws_is_spoken_of(
        form in proptest::sample::select(AWS_FORMS),
        key in random_base64(40).prop_filter("a jumble, as nearly all are", |key| {
            let count = |is: fn(&u8) -> bool| key.as_bytes().iter().filter(|b| is(b)).count();
            let cases = wording::pieces(key).map(|piece| {
                wording::changes(piece, |b| u8::from(b.is_ascii_uppercase()))
            });
            count(u8::is_ascii_lowercase) >= 5
                && count(u8::is_ascii_uppercase) >= 5
                && count(u8::is_ascii_digit) >= 1
                && cases.sum::<usize>() >= 10
        }),
    ) {
        let out = text(&form.replace('*', &key)).text;
        prop_assert!(!out.contains(&key) && out.contains("[redacted: "), "{form}: {out}");
    }

    #[test]
    fn names_of_the_interface_of_aws_stay(
        form in proptest::sample::select(&["aws *", "aws.*", "aws/*", "AWS said: *."][..]),
        words in proptest::collection::vec(
            proptest::sample::select(&["Get", "Secret", "Bucket", "Version", "Describe", "Limit"][..]),
            1..10,
        ),
    ) {
        let input = form.replace('*', &words.concat());
        prop_assert_eq!(text(&input), Redacted { text: input, count: 0 });
    }

    #[test]
    fn a_message_of_known_words_stays_and_one_with_any_other_word_does_not(
        before in proptest::collection::vec(proptest::sample::select(MESSAGE), 0..4),
        complaint in proptest::sample::select(&["required", "must", "invalid", "not", "short"][..]),
        after in proptest::collection::vec(proptest::sample::select(MESSAGE), 0..4),
        other in "[b-df-hj-np-tv-z]{4,9}[0-9]{0,3}",
        name in proptest::sample::select(&["password", "new_password", "client_secret", "pwd"][..]),
        form in proptest::sample::select(&[
            "{\"@\":\"*\"}", "{\"@\":[\"*\"]}", "{\"@\":[\"a x\",\"*\"]}", "{'@': '*'}", "<@>*</@>",
            "{\\\"@\\\":\\\"*\\\"}",
        ][..]),
    ) {
        let form = form.replace('@', name);
        let mut words = [before, vec![complaint], after].concat();
        let message = words.join(" ");
        let out = text(&form.replace('*', &message)).text;
        prop_assert!(out.contains(&message), "{out}");
        words.insert(words.len() / 2, &other);
        let out = text(&form.replace('*', &words.join(" "))).text;
        prop_assert!(!out.contains(&other), "{out}");
    }

    #[test]
    fn a_password_with_signs_in_it_goes_whole(
        form in proptest::sample::select(&[
            "password: *", "password=*", "?a=1&pwd=*&b=2", "wrong password * here", "PGPASSWORD=*",
            "the password is *", "client_secret: *",
        ][..]),
        head in "[a-z]{3,8}[0-9]{2,3}[a-z]{1,4}",
        rest in proptest::collection::vec(("[&,;|()@#]{1,2}", "[a-z]{2,6}[0-9]{2}"), 1..4),
    ) {
        let rest: Vec<String> = rest.into_iter().map(|(sign, part)| sign + &part).collect();
        let out = text(&form.replace('*', &format!("{head}{}", rest.concat()))).text;
        for part in rest.iter().map(|part| part.trim_start_matches(|c: char| c.is_ascii_punctuation())) {
            prop_assert!(!out.contains(part), "{form}: {out}");
        }
        prop_assert!(!out.contains(&head) && !form.contains("&b=2") || out.ends_with("&b=2"), "{out}");
    }
}

/// Words of messages about fields.
const MESSAGE: &[&str] = &[
    "This",
    "field",
    "is",
    "the",
    "password",
    "8",
    "characters",
    "(minimum",
    "at",
    "least",
    "be",
    "\u{201c}token\u{201d}",
    "null.",
    "character(s)",
    "8-20",
    "client_secret",
    "in",
    "a",
    "string,",
];

#[test]
fn a_password_joined_to_its_flag_was_kept() {
    for form in [
        "mysql -p*",
        "mysqldump -h db -u root -p* app > x.sql",
        "mariadb-dump -p'*' app",
        "curl -uadmin:* https://h.example/",
        "curl -sSuadmin:* https://h.example/",
        "sshpass -p * ssh h",
        "redis-cli -h cache -a * ping",
        "mongodump -u app -p*",
        "ldapsearch -D cn=app -w * -b dc=x",
        "sqlcmd -S db -U app -P *",
    ] {
        let out = text(&form.replace('*', "S3cretX"));
        assert_eq!(out.text, form.replace('*', "[redacted: password]"), "{form}");
    }
    for (input, expected) in [
        (
            "jdbc:oracle:thin:scott/tiger@host:1521:x",
            "jdbc:oracle:thin:[redacted: url-credentials]@host:1521:x",
        ),
        (
            "sqlplus scott/tiger@db.example.com/x",
            "sqlplus [redacted: url-credentials]@db.example.com/x",
        ),
    ] {
        assert_eq!(text(input).text, expected);
    }
    for input in [
        "mysql -p -u root app",
        "mysql -P 3306 -h db",
        "mysql -port 3306",
        "mysql - please wait",
        "curl -u admin https://h.example:8443/",
        "curl -X PUT http://h.example:80/a",
        "docker run -p 8080:80 mysql:8",
        "ps -ef | grep mysql",
    ] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
}

#[test]
fn a_secret_was_kept_beside_its_name_or_behind_the_version_of_a_signature() {
    let hex = "5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd";
    for (form, kind) in [
        ("Stripe-Signature: t=1492774577,v1=*", "signature"),
        ("X-Hub-Signature-256: sha256=*", "signature"),
        ("x-slack-signature: v0=* was refused", "signature"),
        ("webhook-signature: v1,*", "signature"),
    ] {
        let out = text(&form.replace('*', hex)).text;
        assert!(!out.contains(hex) && out.contains(&marker(kind)), "{out}");
        assert_eq!(out.ends_with(" was refused"), form.ends_with(" was refused"), "{out}");
    }
    for (form, kind) in [
        ("access_key_id \"*\"", "api-key"),
        ("client_secret '*';", "secret"),
        ("api_key | *", "api-key"),
        ("| password | * |", "password"),
        ("access_key_id: *", "api-key"),
    ] {
        is_replaced(form, kind);
    }
    assert_eq!(
        text("db_password \"letmein\" host \"db\"").text,
        "db_password \"[redacted: password]\" host \"db\""
    );
    for input in [
        "secret \"db-tls\" not found",
        "| id | api_key | created_at |",
        "password | required",
        "the key \"user\" is limited",
        "Signature: v1, v2 and sha256 are supported",
        "cat token | base64",
    ] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
}

#[test]
fn a_license_key_or_a_code_to_log_in_was_kept_in_groups() {
    for (input, expected) in [
        ("license ABCD1-2345E-F6G7H-89JKL", "license [redacted: license-key]"),
        ("Your licence key is ABCD1-2345E-F6G7H.", "Your licence key is [redacted: license-key]."),
        ("code: 482913 (2FA)", "code: [redacted: secret] (2FA)"),
        ("code 482913 to sign in", "code [redacted: secret] to sign in"),
        ("Your code is 482 913", "Your code is [redacted: secret]"),
        ("sign-in code: 482-913.", "sign-in code: [redacted: secret]."),
        ("482913 is your verification code", "[redacted: secret] is your verification code"),
    ] {
        assert_eq!(text(input).text, expected);
    }
    for input in [
        "license GPL-2.0-or-later",
        "id ABCD1-2345E-F6G7H-89JKL",
        "license F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
        "license ERROR-LIMIT-REACHED-0001",
        "error code: 10013 to log in again",
        "status code 4290 (2FA required)",
        "code: 482913 in 20 s",
        "Your code is 404",
    ] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
    }
}

#[test]
fn a_link_that_lets_its_bearer_in_was_kept_behind_a_short_name() {
    let random = "q7Zp2LxV9sKd4TfB8nWm3RgY6hJc";
    for form in [
        "https://app.example.com/in?t=*",
        "see /welcome?lang=de&t=* now",
        "/x%3Ft%3D*",
        "/oauth/authorize/code/*",
        "https://h.example/oauth2/authorize/*",
    ] {
        let out = text(&form.replace('*', random));
        assert_eq!(out.text, form.replace('*', "[redacted: token]"), "{form}");
    }
    for input in [
        "/x?t=1762848540123",
        "/x?t=chat-completions-2024-05-13",
        "/x?t=c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
        "/oauth/authorize/code/invalid",
    ] {
        assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
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
        "\"key\":[\"key\",",
        "key:[a,",
        "key=[",
        "key:",
        "secret:{",
        "key -> ",
        "a:b@",
        "arn:aws:s:::secret:ab12cd34,",
        "sk-",
        " -u a:",
        "be68",
        "curl -u",
        "mysql -p ",
        "license ",
        "license A1B2-",
        "key | ",
        "key \"",
        "code 482 ",
        "?t=",
        "signature: t=1,",
        "scott/",
        "sqlplus -a ",
        "4539578763621486 ",
        "password(a1b2c3|",
        "password a1b2c3&",
        "password=a1&b",
        "password: a1,",
        "aA1bB2cC3dD4eE5/F6gG7hH8iI9jJ0kK1lL+mM3n ",
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
    "/password/*",
    "/login/*",
    "Authorization header: *",
    "https://h.example/hooks/catch/12345/*/",
    "jane:*@db.example.com:5432",
    "root:*@tcp(db:3306)/app",
    "//jane:*@h.example/",
    "curl -u jane:* -v",
    "curl -ujane:* -v",
    "mysql -u jane -p* app",
    "jdbc:oracle:thin:jane/*@db:1521:x",
    "access_key_id \"*\"",
    "api_key | *",
    "/oauth/authorize/code/*",
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
    "Signature expired: 20261130T120000Z",
    "sk-orders-api",
    "user@host-1.internal",
    "page_token=CAUQAA",
    "PIN 1234 retries",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_secret_of_any_kind_in_any_prose_is_found(
        form in proptest::sample::select(FORMS),
        secret in "[A-Za-z]{3,20}[0-9]{2,4}[A-Za-z][A-Za-z0-9]{2,19}",
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
    "\"password\"=>\"",
    "token -> ",
    "password：",
    "&#61;",
    "user[password]=",
    "\"api_keys\":[\"",
    "\",\"",
    "\"secret\":{\"value\":\"",
    "(\"api_key\", \"",
    "<password value=\"",
    "SAMLResponse=",
    "assertion=",
    "xsrf=",
    "ticket=ST-1-",
    "__cf_bm=",
    "wordpress_sec_1=",
    "bearer=",
    "root:x@tcp(",
    "a:b@h/",
    " -u a:",
    "hooks/catch/1/",
    "/login/",
    "/callback/",
    "/signin/",
    "/accept/",
    "/download/",
    "be68539007547034",
    "arn:aws:s:::",
    "@h-1.internal",
    "curl -u",
    "mysql -p",
    "sqlplus a/b@",
    "jdbc:oracle:thin:a/b@",
    "license ",
    "ABCD1-2345E-F6G7H",
    "api_key | ",
    "access_key \"",
    "Signature-256: sha256=",
    "signature: t=1,v1=",
    "&t=",
    "code 482 913",
    "(2FA)",
    "/authorize/",
    "trace_id ",
    " ns",
    "LTAI",
    "aA1bB2cC3dD4eE5/F6gG7hH8iI9jJ0kK1lL+mM3n",
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
