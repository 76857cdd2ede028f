//! Who may come in, and what every answer carries.

use crate::support::process::Process;
use crate::support::{Answer, TestApp};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use retrylens::domain::time::Millis;
use serde_json::json;

const SENDING: &str = "sending-token-0123456789";
const READING: &str = "reading-token-0123456789";

async fn guarded() -> TestApp {
    TestApp::with(&[("ingest_tokens", SENDING), ("read_tokens", READING)]).await
}

async fn with_headers(
    app: &TestApp,
    method: Method,
    address: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder().method(method).uri(address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn loopback_needs_no_token() {
    let app = TestApp::start().await;
    assert_eq!(app.visit("/").await.status, StatusCode::OK);
    let event = json!({"occurred_at": "2026-11-11T11:59:00Z", "service": "checkout",
        "host": "api.example.com", "status": 429});
    app.store(&[event]).await;
}

#[tokio::test]
async fn sending_and_reading_have_separate_tokens() {
    let app = guarded().await;
    let bearer = |token: &str| format!("Bearer {token}");
    for (address, method, right, wrong) in
        [("/v1/events", Method::POST, SENDING, READING), ("/", Method::GET, READING, SENDING)]
    {
        let ask = |value: String| {
            let (app, method) = (&app, method.clone());
            async move { with_headers(app, method, address, &[("authorization", &value)]).await.status }
        };
        assert_ne!(ask(bearer(right)).await, StatusCode::UNAUTHORIZED, "{address}");
        assert_ne!(ask(format!("bEaReR  {right}")).await, StatusCode::UNAUTHORIZED);
        for refused in [
            bearer(wrong),
            bearer(&format!("{right}x")),
            bearer(right.trim_end_matches('9')),
            format!("Basic {right}"),
            right.to_owned(),
            bearer(""),
        ] {
            assert_eq!(ask(refused.clone()).await, StatusCode::UNAUTHORIZED, "{address} {refused}");
        }
        let none = with_headers(&app, method.clone(), address, &[]).await;
        assert_eq!(none.status, StatusCode::UNAUTHORIZED);
        assert_eq!(none.json()["code"], "token-required");
        assert!(none.header("www-authenticate").starts_with("Bearer"));
        let (right, wrong) = (bearer(right), bearer(wrong));
        let both = [("authorization", right.as_str()), ("authorization", wrong.as_str())];
        let two = with_headers(&app, method, address, &both).await;
        assert_eq!(two.status, StatusCode::UNAUTHORIZED, "two tokens are none");
    }
}

#[tokio::test]
async fn several_tokens_hold_side_by_side_and_as_hashes() {
    let digest = "sha256:b3a8e0e1f9ab1bfe3a36f231f676f78bb30a519d2b21e6c530c0eee8ebb4a5d0";
    let tokens = format!("first-token-0123456789,second-token-0123456789,{digest}");
    let app = TestApp::with(&[("read_tokens", &tokens)]).await;
    for (token, expected) in [
        ("first-token-0123456789", StatusCode::OK),
        ("second-token-0123456789", StatusCode::OK),
        // The digest is that of "456".
        ("456", StatusCode::OK),
        (digest, StatusCode::UNAUTHORIZED),
        ("third-token-0123456789", StatusCode::UNAUTHORIZED),
    ] {
        let value = format!("Bearer {token}");
        let answer = with_headers(&app, Method::GET, "/", &[("authorization", &value)]).await;
        assert_eq!(answer.status, expected, "{token}");
    }
}

#[tokio::test]
async fn people_log_in_once_and_are_led_to_where_they_wanted_to_go() {
    let app = guarded().await;
    let sent = app.visit("/services?from=x&to=y").await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER);
    assert_eq!(sent.header("location"), "/login?next=%2Fservices%3Ffrom%3Dx%26to%3Dy");
    let form = app.visit(sent.header("location")).await;
    assert_eq!(form.status, StatusCode::OK);
    assert!(form.text.contains("value=\"/services?from=x"), "{}", form.text);

    let wrong = app.submit("/login", "token=wrong-token-0123456789&next=/services").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.text.contains("not one of the read tokens"));
    assert!(!wrong.text.contains("wrong-token"), "{}", wrong.text);
    assert_eq!(wrong.header("set-cookie"), "");
    let sender = app.submit("/login", &format!("token={SENDING}&next=/")).await;
    assert_eq!(sender.status, StatusCode::UNAUTHORIZED, "a sender's token doesn't read");

    let right = app.submit("/login", &format!("token={READING}&next=%2Fservices%3Ffrom%3Dx")).await;
    assert_eq!(right.status, StatusCode::SEE_OTHER);
    assert_eq!(right.header("location"), "/services?from=x");
    let cookie = right.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "no https here: {cookie}");
    assert!(!cookie.contains(READING), "{cookie}");
    let session = cookie.split(';').next().unwrap().to_owned();

    let enter = |cookie: String| {
        let app = &app;
        async move { with_headers(app, Method::GET, "/", &[("cookie", &cookie)]).await.status }
    };
    assert_eq!(enter(format!("theme=dark; {session}")).await, StatusCode::OK);
    let inside = with_headers(&app, Method::GET, "/login", &[("cookie", &session)]).await;
    assert!(inside.text.contains("action=\"/logout\""), "{}", inside.text);
    assert_eq!(enter(format!("{session}0")).await, StatusCode::UNAUTHORIZED);
    assert_eq!(enter(session.replace('=', "x=")).await, StatusCode::UNAUTHORIZED);
    app.clock.advance(Millis::from_secs(12 * 3600));
    assert_eq!(enter(session).await, StatusCode::UNAUTHORIZED, "it has ended");

    let out = app.submit("/logout", "").await;
    assert!(out.header("set-cookie").contains("Max-Age=0"));
}

/// Addresses that anybody may ask for: whether it works, how it looks, the way in, and the runbooks,
/// which alerts link to and which tell nothing of what is stored.
const OPEN: [&str; 8] = [
    "/healthz",
    "/readyz",
    "/login",
    "/logout",
    "/favicon.ico",
    "/assets/icon.svg",
    "/assets/retrylens.css",
    "/docs/alerts",
];

#[tokio::test]
async fn every_address_of_the_api_document_is_behind_a_door_but_for_the_known_few() {
    let app = guarded().await;
    let bearer = format!("Bearer {READING}");
    let authorization = [("authorization", bearer.as_str())];
    let document = with_headers(&app, Method::GET, "/api/openapi.json", &authorization).await;
    let document = document.json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20, "{}", paths.len());
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let address = path.replace(['{', '}'], "x");
            let status = with_headers(&app, method.clone(), &address, &[]).await.status;
            let is_guarded = status == StatusCode::UNAUTHORIZED;
            assert_ne!(is_guarded, OPEN.contains(&path.as_str()), "{method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn behind_https_the_session_is_sent_over_https_only() {
    let app =
        TestApp::with(&[("read_tokens", READING), ("public_url", "https://lens.example.com")])
            .await;
    let answer = app.submit("/login", &format!("token={READING}")).await;
    assert!(answer.header("set-cookie").contains("; Secure"));
}

#[tokio::test]
async fn a_login_never_leads_to_another_site() {
    let app = guarded().await;
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let answer = app.submit("/login", &format!("token={READING}&next={next}")).await;
        assert_eq!(answer.header("location"), "/", "{next}");
    }
}

#[tokio::test]
async fn a_host_name_that_is_not_ours_is_refused_for_reads_and_writes() {
    let app = TestApp::with(&[("allowed_hosts", "lens.internal")]).await;
    for (host, expected) in [
        ("localhost:4290", StatusCode::OK),
        ("127.0.0.1:4290", StatusCode::OK),
        ("[::1]:4290", StatusCode::OK),
        ("lens.internal", StatusCode::OK),
        ("evil.example", StatusCode::MISDIRECTED_REQUEST),
        ("localhost.evil.example", StatusCode::MISDIRECTED_REQUEST),
        ("user@localhost", StatusCode::BAD_REQUEST),
        ("", StatusCode::BAD_REQUEST),
    ] {
        let read = with_headers(&app, Method::GET, "/", &[("host", host)]).await;
        assert_eq!(read.status, expected, "{host}");
        let write = with_headers(&app, Method::POST, "/v1/events", &[("host", host)]).await;
        if expected != StatusCode::OK {
            assert_eq!(write.status, expected, "{host}");
        }
    }
    let two = [("host", "localhost"), ("host", "localhost")];
    let two = with_headers(&app, Method::GET, "/", &two).await;
    assert_eq!(two.status, StatusCode::BAD_REQUEST);
    let health = with_headers(&app, Method::GET, "/healthz", &[("host", "10.evil.example")]).await;
    assert_eq!(health.status, StatusCode::OK, "orchestrators name hosts as they like");
}

#[tokio::test]
async fn a_write_from_a_foreign_page_is_refused_on_loopback_too() {
    let app = TestApp::start().await;
    let event = json!({"occurred_at": "2026-11-11T11:59:00Z", "service": "checkout",
        "host": "api.example.com", "status": 429});
    for (headers, is_taken) in [
        (vec![("origin", "http://localhost:4290")], true),
        (vec![("origin", "http://evil.example")], false),
        (vec![("origin", "https://localhost:4290")], true),
        (vec![("origin", "http://localhost:8080")], false),
        (vec![("origin", "null")], false),
        (vec![("sec-fetch-site", "cross-site")], false),
        (vec![("sec-fetch-site", "same-site")], false),
        (vec![], true),
    ] {
        let mut request = Request::post("/v1/events")
            .header("host", "localhost:4290")
            .header("content-type", "application/json");
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let answer = app.send(request.body(Body::from(event.to_string())).unwrap()).await;
        let expected = if is_taken { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(answer.status, expected, "{headers:?}");
        if !is_taken {
            assert_eq!(answer.json()["code"], "foreign-origin");
        }
    }
}

#[tokio::test]
async fn every_answer_carries_the_security_header_fields() {
    let app = TestApp::start().await;
    for answer in [
        app.visit("/").await,
        app.visit("/no-such-page").await,
        app.get("/api/v1/no-such-thing").await,
        app.get("/healthz").await,
        app.get("/assets/retrylens.css").await,
        app.post("/v1/events", &json!([])).await,
    ] {
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert!(!answer.header("x-request-id").is_empty());
        assert!(!answer.header("cache-control").is_empty());
        assert_eq!(answer.header("server"), "");
    }
}

#[tokio::test]
async fn a_request_id_is_kept_where_it_is_plain() {
    let app = TestApp::start().await;
    let ask = |id: &'static str| {
        let app = &app;
        async move {
            let headers = [("x-request-id", id)];
            let answer = with_headers(app, Method::GET, "/healthz", &headers).await;
            answer.header("x-request-id").to_owned()
        }
    };
    assert_eq!(ask("req-01_a.b").await, "req-01_a.b");
    assert_ne!(ask("a b").await, "a b");
    assert_ne!(ask("<script>").await, "<script>");
    let long = ask(Box::leak("x".repeat(65).into_boxed_str())).await;
    assert_eq!(long.len(), 24);
}

#[tokio::test]
async fn an_unknown_address_is_a_page_with_a_way_onward_for_people() {
    let app = TestApp::start().await;
    let page = app.visit("/no/such/%3Cscript%3Ealert(1)%3C/script%3E?x=%3Cb%3E").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.text.contains("href=\"/\"") && page.text.contains("href=\"/lookup\""));
    assert!(!page.text.contains("alert(1)"));

    for program in [
        app.get("/no/such/thing").await,
        app.visit("/api/v1/no-such-thing").await,
        app.visit("/v1/no-such-thing").await,
    ] {
        assert_eq!(program.status, StatusCode::NOT_FOUND);
        assert_eq!(program.header("content-type"), "application/problem+json");
        assert_eq!(program.json()["code"], "not-found");
        assert_eq!(program.json()["status"], 404);
    }
}

#[tokio::test]
async fn a_method_that_is_not_taken_says_which_is() {
    let app = TestApp::start().await;
    let answer = app.get("/v1/events").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("allow"), "POST");
    assert_eq!(answer.json()["code"], "method-not-allowed");
    let page = app.submit("/healthz", "").await;
    assert_eq!(page.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(page.header("allow"), "GET,HEAD");
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_take_it() {
    let app = TestApp::start().await;
    let headers = [("accept-encoding", "gzip"), ("accept", "text/html")];
    let answer = with_headers(&app, Method::GET, "/", &headers).await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.header("vary").contains("accept-encoding"));
    let plain = app.visit("/").await;
    assert_eq!(plain.header("content-encoding"), "");
}

/// Whoever writes a whole body before it reads would else see its connection reset.
#[test]
fn a_sender_of_a_body_that_is_refused_sees_the_answer_and_not_a_broken_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::serve(folder.path(), &[], &[("RETRYLENS_INGEST_TOKENS", SENDING)]);
    let without_token = Process::serve(
        folder.path(),
        &["--database-url", "sqlite://other.db"],
        &[("RETRYLENS_MAX_BODY_BYTES", "4194304")],
    );
    let body = vec![b' '; 12 << 20];
    for (server, path, media_type, status) in [
        (&without_token, "/v1/traces", "application/x-protobuf", 413),
        (&without_token, "/v1/metrics", "application/json", 413),
        (&without_token, "/v1/traces", "text/plain", 415),
        (&without_token, "/v1/events", "application/json", 413),
        (&without_token, "/v1/events", "text/csv", 415),
        (&without_token, "/v1/access-logs/iis", "text/plain", 400),
        (&server, "/v1/logs", "application/json", 401),
        (&server, "/v1/access-logs/auto", "text/plain", 401),
    ] {
        let answer = server.send(path, media_type, &body);
        let answer = answer.unwrap_or_else(|| panic!("{path} {media_type}: no whole answer"));
        assert_eq!(answer.0, status, "{path} {media_type}: {}", answer.1);
    }
    // Who asks for leave first (RFC 9110 section 10.1.1) is refused without having sent anything.
    let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                content-type: application/json\r\ncontent-length: 12582912\r\n\r\n";
    let answer = without_token.raw(head);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}
