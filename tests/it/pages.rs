//! The pages, their JSON twins and the API document, through the whole router.

use crate::support::{Answer, TestApp};
use axum::http::StatusCode;
use scraper::{Html, Selector};
use serde_json::{Value, json};

/// An attempt of an incident: `n` operations of three attempts each, refused by a CDN.
fn incident(operations: u32) -> Vec<Value> {
    let mut events = Vec::new();
    for op in 0..operations {
        for attempt in 1..=3_u32 {
            let second = op * 10 + attempt;
            events.push(json!({
                "event_id": format!("e-{op}-{attempt}"), "operation_id": format!("op-{op}"),
                "attempt": attempt, "duration_ms": 40,
                "occurred_at": format!("2026-11-11T11:{:02}:{:02}.000Z", second / 60, second % 60),
                "service": "checkout", "environment": "prod", "host": "api.example.com",
                "method": "POST", "route": "/v1/orders", "retry_layer": "sdk",
                "status": if attempt == 3 { 201 } else { 429 },
                "retry_after": if attempt == 3 { Value::Null } else { json!("30") },
                "computed_delay_ms": 960, "outcome": if attempt == 3 { "succeeded" } else { "retrying" },
                "request_id": format!("req-{op}-{attempt}"), "ray_id": format!("8f2a{op:012x}-GRU"),
                "trace_id": format!("{op:032x}"),
                "key_hash": "hmac-sha256:9d3f4a5b6c7d8e9f00112233445566778899aabbccddeeff0011223344556677",
                "headers": {"server": "cloudflare", "cf-ray": format!("8f2a{op:012x}-GRU")},
                "content_type": "text/plain",
                "body_sample": if attempt == 3 { Value::Null } else { json!("error code: 1015") },
            }));
        }
    }
    events
}

const WINDOW: &str = "from=2026-11-11T11:00:00Z&to=2026-11-11T12:00:00Z";

/// What every page must hold to; returns it for a closer look.
fn check(answer: &Answer, address: &str) -> Html {
    let html = Html::parse_document(&answer.text);
    assert!(html.errors.is_empty(), "{address}: {:?}", html.errors);
    assert!(answer.header("content-type").starts_with("text/html"), "{address}");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for css in ["script", "style", "[style]", "[onerror]", "[onclick]", "[onmouseover]"] {
        assert_eq!(html.select(&Selector::parse(css).unwrap()).count(), 0, "{address}: {css}");
    }
    for element in html.select(&Selector::parse("[href], [action], [src]").unwrap()) {
        for name in ["href", "action", "src"] {
            let Some(value) = element.value().attr(name) else { continue };
            let is_own =
                (value.starts_with('/') && !value.starts_with("//")) || value.starts_with('#');
            assert!(is_own || value.starts_with("https://"), "{address}: {name}={value}");
        }
    }
    html
}

fn links(html: &Html) -> Vec<String> {
    let anchors = Selector::parse("main a[href^='/']").unwrap();
    let mut links: Vec<String> = html
        .select(&anchors)
        .filter_map(|a| a.value().attr("href"))
        .map(ToOwned::to_owned)
        .collect();
    links.sort();
    links.dedup();
    links
}

fn text(html: &Html, css: &str) -> String {
    html.select(&Selector::parse(css).unwrap()).flat_map(|e| e.text()).collect()
}

#[tokio::test]
async fn an_empty_service_shows_how_to_send_a_first_event() {
    let app = TestApp::start().await;
    let answer = app.visit("/").await;
    let html = check(&answer, "/");
    let command = text(&html, "pre");
    assert!(
        command.contains("curl") && command.contains("http://localhost/v1/events"),
        "{command}"
    );
    // What the page says to send can be sent, and is found where it says.
    let body = command.split('\'').nth(3).unwrap();
    let answer = app.post_text("/v1/events", "application/json", body.to_owned()).await;
    assert_eq!(answer.json()["stored"], 1, "{}", answer.text);
    let html = check(&app.visit("/lookup?id=first-event").await, "/lookup");
    assert!(
        text(&html, "main").contains("Cloudflare returned this 429"),
        "{}",
        text(&html, "main")
    );
}

#[tokio::test]
async fn every_link_of_every_page_leads_somewhere() {
    let app = TestApp::start().await;
    app.store(&incident(30)).await;
    let mut open: Vec<String> = [
        "/",
        "/triage",
        "/alerts",
        "/docs/alerts",
        "/events",
        "/services",
        "/classify",
        "/send",
        "/lookup",
        "/login",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    open.push(format!("/triage?service=checkout&upstream=api.example.com&{WINDOW}"));
    let mut seen = std::collections::BTreeSet::new();
    while let Some(address) = open.pop() {
        let path = address.split('#').next().unwrap_or_default().to_owned();
        // A few of each kind of page are enough.
        let kind: String = path.chars().take_while(|c| !c.is_ascii_digit()).take(24).collect();
        let alike = seen.iter().filter(|other: &&String| other.starts_with(&kind)).count();
        if alike > 6 || !seen.insert(path.clone()) {
            continue;
        }
        let answer = app.visit(&path).await;
        if answer.status == StatusCode::SEE_OTHER {
            open.push(answer.header("location").to_owned());
            continue;
        }
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        if answer.header("content-type").starts_with("text/html") {
            open.extend(links(&check(&answer, &path)));
            let twin = Selector::parse("footer a[href]").unwrap();
            let html = Html::parse_document(&answer.text);
            open.extend(
                html.select(&twin).filter_map(|a| a.value().attr("href")).map(ToOwned::to_owned),
            );
        }
    }
    assert!(seen.len() > 30, "{seen:?}");
}

#[tokio::test]
async fn a_triage_names_the_responder_and_links_its_numbers_to_rows() {
    let app = TestApp::start().await;
    app.store(&incident(40)).await;
    let address = format!("/triage?service=checkout&upstream=api.example.com&{WINDOW}");
    let html = check(&app.visit(&address).await, &address);
    let short = text(&html, ".answer");
    assert!(short.contains("Cloudflare") || short.contains("cloudflare"), "{short}");
    let steps = html.select(&Selector::parse("section.step").unwrap()).count();
    assert_eq!(steps, 8);
    let rows: Vec<String> =
        links(&html).into_iter().filter(|link| link.contains("finding=")).collect();
    assert!(!rows.is_empty());
    for link in rows {
        let html = check(&app.visit(&link).await, &link);
        let rows = html.select(&Selector::parse("tbody tr").unwrap()).count();
        assert!(rows > 0, "{link}");
    }
}

#[tokio::test]
async fn a_triage_is_byte_identical_whenever_it_is_asked_for() {
    let app = TestApp::start().await;
    app.store(&incident(20)).await;
    let query = format!("service=checkout&upstream=api.example.com&{WINDOW}");
    for form in ["/triage.json", "/triage.md", "/api/v1/triage"] {
        let address = format!("{form}?{query}");
        let first = app.get(&address).await;
        app.clock.advance(retrylens::domain::time::Millis(5_400_000));
        let second = app.get(&address).await;
        assert_eq!(first.status, StatusCode::OK, "{}", first.text);
        assert_eq!(first.text, second.text, "{address}");
    }
    let json = app.get(&format!("/triage.json?{query}")).await.text;
    let twin = app.get(&format!("/api/v1/triage?{query}")).await.text;
    assert_eq!(json, twin);
    insta::assert_snapshot!("triage_md", app.get(&format!("/triage.md?{query}")).await.text);
    let value: Value = serde_json::from_str(&json).unwrap();
    insta::assert_json_snapshot!("triage_json", value);
}

#[tokio::test]
async fn a_triage_with_a_marked_change_is_byte_identical_whenever_it_is_asked_for() {
    let app = TestApp::start().await;
    app.store(&incident(60)).await;
    let mark = json!({"at": "2026-11-11T11:05:00Z", "title": "SDK retries off"});
    assert_eq!(app.post("/api/v1/marks", &mark).await.status, StatusCode::CREATED);
    let query = "service=checkout&from=2026-11-11T11:00:00Z&to=2026-11-11T11:08:00Z";
    let texts = async || {
        let mut texts = Vec::new();
        for form in ["/triage.json", "/triage.md", "/api/v1/triage"] {
            let answer = app.get(&format!("{form}?{query}")).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            texts.push(answer.text);
        }
        texts
    };
    let first = texts().await;
    assert!(first[1].contains("in windows of 3 min"), "{}", first[1]);
    for minutes in [1, 30, 600] {
        app.clock.advance(retrylens::domain::time::Millis(minutes * 60_000));
        assert_eq!(texts().await, first, "{minutes} minutes later");
    }
}

#[tokio::test]
async fn a_pair_that_only_a_gateway_saw_has_a_triage_and_rows_that_say_so() {
    let app = TestApp::start().await;
    let mut events = incident(20);
    for event in &mut events {
        event["vantage"] = json!("gateway");
        event["host"] = json!("seen.example.com");
    }
    app.store(&events).await;
    let overview = app.get(&format!("/api/v1/overview?{WINDOW}")).await.json();
    let pair = &overview["pairs"][0];
    assert_eq!((&pair["source"], &pair["attempts"]), (&json!("gateway"), &json!(60)));
    assert_eq!((&overview["source"], &pair["limited"]), (&json!("gateway"), &json!(40)));
    let address = pair["triage"].as_str().unwrap();
    let triage = app.get(&address.replace("/triage", "/triage.json")).await.json();
    assert_eq!(triage["source"], "gateway");
    assert_ne!(triage["steps"][0]["state"], "needs-data", "{}", triage["steps"][0]);
    let html = check(&app.visit(address).await, address);
    let page = text(&html, "main");
    let note = "Counted from what the gateway saw, as no client reported them.";
    assert!(page.contains(note) && !page.contains("Nothing is stored"), "{page}");
    let document = app.get(&address.replace("/triage", "/triage.md")).await.text;
    assert!(document.contains(note), "{document}");
    let rows = app.get(&pair["rows"].as_str().unwrap().replace("/events", "/api/v1/events")).await;
    assert_eq!(rows.json()["items"].as_array().unwrap().len(), 40);
    for link in links(&html) {
        let answer = app.visit(&link).await;
        assert!(answer.status.is_success() || answer.status.is_redirection(), "{link}");
    }

    // A client that reports on another upstream: the sums are the clients', and say what is left out.
    let mut own = incident(1);
    own[0]["event_id"] = json!("own");
    app.store(&own[..1]).await;
    let overview = app.get(&format!("/api/v1/overview?{WINDOW}")).await.json();
    assert_eq!(overview["source"], "client");
    let note = overview["source_note"].as_str().unwrap();
    assert!(note.starts_with("Not in these counts: 1 service and upstream"), "{note}");
    let all = app.get(&format!("/triage.json?{WINDOW}")).await.json();
    assert_eq!(all["source_note"], note);
    let narrow = app.get(&address.replace("/triage", "/triage.json")).await.json();
    assert_eq!(narrow["figures"], triage["figures"]);
}

#[tokio::test]
async fn without_times_a_triage_goes_to_the_hour_of_the_last_limited_attempt() {
    let app = TestApp::start().await;
    app.store(&incident(3)).await;
    app.clock.advance(retrylens::domain::time::Millis(5 * 86_400_000));
    let answer = app.visit("/triage?service=checkout&upstream=api.example.com").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    // The newest limited attempt was sent at 11:00:22; the window is whole five minutes.
    let to = answer.header("location");
    assert!(to.contains("to=2026-11-11T11:05:00.000Z"), "{to}");
    // A pair without any goes to the last hour.
    let answer = app.visit("/triage?service=other").await;
    let to = answer.header("location");
    assert!(to.contains("to=2026-11-16T12:00:00.000Z"), "{to}");
}

#[tokio::test]
async fn the_planner_answers_on_the_page_and_in_the_document() {
    let app = TestApp::start().await;
    let plan = "plan_allowed=120&plan_window_s=60&plan_aimed=90&plan_work=600&plan_answer_ms=2000";
    let json = app.get(&format!("/triage.json?{WINDOW}&{plan}")).await.json();
    assert_eq!(json["plan"]["total_ms"], 400_000);
    assert_eq!(json["plan"]["in_flight"], 3);
    let html = check(&app.visit(&format!("/triage?{WINDOW}&{plan}")).await, "/triage");
    assert!(text(&html, "#step-fix").contains("667 ms"), "{}", text(&html, "#step-fix"));
    let bad = app.get(&format!("/triage.json?{WINDOW}&plan_allowed=x")).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert_eq!(bad.json()["parameter"], "plan_allowed");
}

#[tokio::test]
async fn a_change_is_marked_by_form_and_by_program_and_shown() {
    let app = TestApp::start().await;
    let answer = app
        .submit(
            "/marks",
            &format!("service=checkout&title=SDK+retries+off&at=2026-11-11T11:30:00Z&{WINDOW}"),
        )
        .await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    let html = check(&app.visit(answer.header("location")).await, "after a mark");
    assert!(text(&html, "#step-verify").contains("SDK retries off"));

    let mark = json!({"at": "2026-11-11T11:40:00Z", "upstream": "API.example.com", "title": "limit raised"});
    let answer = app.post("/api/v1/marks", &mark).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    assert_eq!(answer.json()["upstream"], "api.example.com");
    let list = app.get("/api/v1/marks").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(list["next"], Value::Null);

    let bad = app.post("/api/v1/marks", &json!({"title": ""})).await;
    assert_eq!((bad.status, &bad.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!("title")));
}

#[tokio::test]
async fn rows_are_paged_by_key_without_gaps() {
    let app = TestApp::start().await;
    app.store(&incident(20)).await;
    let mut address = format!("/api/v1/events?{WINDOW}&limited=true&limit=7");
    let mut ids = Vec::new();
    loop {
        let page = app.get(&address).await.json();
        ids.extend(page["items"].as_array().unwrap().iter().map(|row| row["event_id"].clone()));
        match page["next"].as_str() {
            Some(next) => address = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids.len(), 40);
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

#[tokio::test]
async fn every_row_behind_a_finding_is_listed_page_by_page() {
    let app = TestApp::start().await;
    app.store(&incident(300)).await;
    let triage = app.get(&format!("/triage.json?service=checkout&{WINDOW}")).await.json();
    let findings: Vec<&Value> = triage["steps"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|step| step["findings"].as_array().unwrap())
        .collect();
    let finding = findings.iter().find(|finding| finding["id"] == "early-retries").unwrap();
    let total = finding["rows_total"].as_u64().unwrap();
    assert!(total > 500, "{finding}");
    let page = finding["rows_page"].as_str().unwrap();
    let mut next = Some(page.replace("/events", "/api/v1/events"));
    let mut seen = Vec::new();
    while let Some(address) = next {
        let list = app.get(&address).await.json();
        assert_eq!((&list["total"], &list["listed"]), (&json!(total), &json!(total)));
        seen.extend(list["items"].as_array().unwrap().iter().map(|row| row["occurred_at"].clone()));
        next = list["next"].as_str().map(ToOwned::to_owned);
    }
    assert_eq!(seen.len() as u64, total);
    assert!(seen.is_sorted_by(|a, b| a.as_str() > b.as_str()), "newest first, each once");
    let html = check(&app.visit(page).await, page);
    let main = text(&html, "main");
    assert!(main.contains(&format!("100 of {total} on this page")), "{main}");
}

#[tokio::test]
async fn any_id_of_an_attempt_leads_to_it() {
    let app = TestApp::start().await;
    app.store(&incident(2)).await;
    for (id, hits) in [
        ("e-1-1", 1),
        ("req-1-2", 1),
        ("op-1", 3),
        ("8f2a000000000001-GRU", 3),
        ("8f2a000000000001", 3),
        ("00000000000000000000000000000001", 3),
        ("nothing", 0),
    ] {
        let found = app.get(&format!("/api/v1/lookup?id={id}")).await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), hits, "{id}");
        check(&app.visit(&format!("/lookup?id={id}")).await, id);
    }
}

#[tokio::test]
async fn a_response_is_classified_from_text_file_and_program() {
    let app = TestApp::start().await;
    let raw =
        "HTTP/2 429\r\nserver: cloudflare\r\ncf-ray: 8f2a01b2c3d4e5f6-GRU\r\n\r\nerror code: 1015";
    let boundary = "x-boundary-x";
    let part = |name: &str, file: &str, body: &str| {
        format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n{body}\r\n"
        )
    };
    let har = json!({"log": {"entries": [
        {"request": {"method": "GET", "url": "https://api.example.com/a"}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "https://api.example.com/b?token=x"},
         "response": {"status": 429, "headers": [{"name": "server", "value": "cloudflare"}],
                      "content": {"text": "error code: 1015"}}}]}})
    .to_string();
    for (form, expected) in [
        (part("raw", "", raw), "Cloudflare returned this 429"),
        (part("raw", "", "") + &part("file", "; filename=\"a.har\"", &har), "1 of 2 exchanges"),
        (
            part("raw", "", "") + &part("file", "; filename=\"a.har\"", &har),
            "Exchange 2: api.example.com/b",
        ),
        (part("raw", "", "<b>nonsense</b>"), "could not be read"),
    ] {
        let body = format!("{form}--{boundary}--\r\n");
        let media_type = format!("multipart/form-data; boundary={boundary}");
        let html = check(&app.post_text("/classify", &media_type, body).await, "/classify");
        assert!(text(&html, "main").contains(expected), "{}", text(&html, "main"));
    }
    let answer = app.post_text("/api/v1/classify", "text/plain", raw).await.json();
    assert_eq!(answer["returned_by"], "cloudflare");
    let answer = app.post("/api/v1/classify", &json!({"id": "a", "raw": raw})).await.json();
    assert_eq!((&answer["id"], &answer["status"]), (&json!("a"), &json!(429)));
    let answer = app.post_text("/api/v1/classify", "application/json", har.clone()).await.json();
    let typed = app.post_text("/api/v1/classify", "application/har+json", har).await;
    assert_eq!(typed.status, StatusCode::OK, "{}", typed.text);
    assert_eq!(typed.json(), answer, "a HAR file by its own media type");
    assert_eq!((&answer["exchanges"], &answer["items"][0]["index"]), (&json!(2), &json!(1)));
    let bad = app.post_text("/api/v1/classify", "text/plain", "hello").await;
    assert_eq!(
        (bad.status, bad.header("content-type")),
        (StatusCode::BAD_REQUEST, "application/problem+json")
    );
    let bad = app.post_text("/api/v1/classify", "image/png", "hello").await;
    assert_eq!(bad.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn hostile_text_in_every_field_stays_text_on_every_page() {
    let app = TestApp::start().await;
    let hostile = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "javascript:alert(1)",
        "[a](javascript:alert(1)) ![x](http://192.0.2.1/x)",
        "a|b`c``d\n# heading\n- item",
        "\u{202e}gnp.exe\u{2066} \u{200b}\u{feff}",
        "../../etc/passwd?x#y",
        "..",
    ];
    let long = "x".repeat(64 * 1024);
    for (i, text) in hostile.iter().copied().chain([long.as_str()]).enumerate() {
        let mut event = json!({"occurred_at": "2026-11-11T11:30:00Z", "status": 429, "attempt": 1});
        for field in [
            "event_id",
            "operation_id",
            "service",
            "environment",
            "instance",
            "priority",
            "method",
            "host",
            "route",
            "retry_after",
            "delay_source",
            "request_id",
            "ray_id",
            "key_hash",
            "key_kind",
            "idempotency_key_hash",
            "body_hash",
            "client_address_hash",
            "account_hash",
            "content_type",
            "error_code",
            "body_sample",
            "trace_id",
            "span_id",
        ] {
            event[field] = json!(text);
        }
        event["headers"] = json!({"server": text, "x-ratelimit-limit": text});
        // Not every text is taken in every field; what is refused is no danger, so the fields that
        // refuse it are given an ordinary value.
        for round in 0.. {
            let answer = app.post("/v1/events", &event).await;
            assert!(round < 40, "{}", answer.text);
            if answer.status == StatusCode::OK {
                break;
            }
            let field =
                answer.json()["rejected"][0]["field"].as_str().unwrap_or_default().to_owned();
            assert!(event.get(&field).is_some(), "{}", answer.text);
            event[&field] = match field.as_str() {
                "method" => json!("POST"),
                _ => json!(format!("plain-{i}")),
            };
        }
    }
    let overview = app.visit(&format!("/?{WINDOW}")).await;
    let mut addresses = links(&check(&overview, "/"));
    for address in [format!("/events?{WINDOW}"), format!("/services?{WINDOW}"), "/send".to_owned()]
    {
        addresses.extend(links(&check(&app.visit(&address).await, &address)));
    }
    let mut triages = 0;
    for address in addresses.iter().filter(|a| !a.starts_with("/classify")) {
        let answer = app.visit(address).await;
        if answer.status == StatusCode::SEE_OTHER {
            continue;
        }
        assert_eq!(answer.status, StatusCode::OK, "{address}");
        let html = check(&answer, address);
        let shown = text(&html, "body");
        assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{2066}']), "{address}");
        if let Some(query) = address.strip_prefix("/triage?") {
            triages += 1;
            let document = app.get(&format!("/triage.md?{query}")).await;
            assert_eq!(document.status, StatusCode::OK);
            assert!(!document.text.contains(['\u{202e}', '\u{200b}', '\r']), "{}", document.text);
            assert!(document.text.len() < 200_000, "{}", document.text.len());
        }
    }
    assert!(triages > 5, "{addresses:?}");
}

#[tokio::test]
async fn the_document_and_the_router_know_the_same_addresses() {
    let app = TestApp::start().await;
    app.store(&incident(2)).await;
    let document = app.get("/api/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(!responses.is_empty(), "{method} {path}");
            let address = path.replace("{id}", "e-1-1").replace("{name}", "checkout");
            let address = address
                .replace("operations/e-1-1", "operations/op-1")
                .replace("dashboards/checkout", "dashboards/retrylens-self");
            let answer = match method.as_str() {
                "get" => app.get(&format!("{address}?id=e-1-1")).await,
                "delete" => {
                    let request = axum::http::Request::delete(&address);
                    app.send(request.body(axum::body::Body::empty()).unwrap()).await
                }
                _ => app.post(&address, &json!({})).await,
            };
            let is_known =
                !matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
            assert!(
                is_known && !answer.status.is_server_error(),
                "{method} {path}: {}",
                answer.text
            );
        }
    }
    // The other way round: every handler in the lists of routes is in the document.
    let source = std::fs::read_to_string("src/web/mod.rs").unwrap();
    let handlers: usize = source
        .split("routes!(")
        .skip(1)
        .map(|part| part.split(')').next().unwrap_or_default().split(',').count())
        .sum();
    let described: usize = paths.values().map(|p| p.as_object().unwrap().len()).sum();
    assert_eq!(described, handlers);
    assert!(!source.contains(".route(\""), "a route that the document does not know");
    let mut ids: Vec<&Value> = paths
        .values()
        .flat_map(|p| p.as_object().unwrap().values())
        .map(|operation| &operation["operationId"])
        .collect();
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), described, "operations share an id: {ids:?}");
    // Whatever is referred to is there.
    let text = document.to_string();
    for name in
        text.split("#/components/schemas/").skip(1).filter_map(|part| part.split('"').next())
    {
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is not described");
    }
}

#[tokio::test]
async fn answers_match_their_description() {
    let app = TestApp::start().await;
    app.store(&incident(12)).await;
    let document = app.get("/api/openapi.json").await.json();
    for (path, address) in [
        ("/api/v1/overview", format!("/api/v1/overview?{WINDOW}")),
        ("/api/v1/triage", format!("/api/v1/triage?service=checkout&{WINDOW}")),
        ("/api/v1/events", format!("/api/v1/events?{WINDOW}")),
        ("/api/v1/events/{id}", "/api/v1/events/e-1-1".to_owned()),
        ("/api/v1/operations/{id}", "/api/v1/operations/op-1".to_owned()),
        ("/api/v1/lookup", "/api/v1/lookup?id=op-1".to_owned()),
        ("/api/v1/services", format!("/api/v1/services?{WINDOW}")),
        ("/api/v1/services/{name}", format!("/api/v1/services/checkout?{WINDOW}")),
        ("/api/v1/send", "/api/v1/send".to_owned()),
        ("/api/v1/alerts", "/api/v1/alerts".to_owned()),
        ("/api/v1/silences", "/api/v1/silences".to_owned()),
    ] {
        let answer = app.get(&address).await.json();
        let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        conforms(&document, schema, &answer, path);
    }
}

/// Whether `value` has the members that `schema` describes, and no others.
fn conforms(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return conforms(document, &document["components"]["schemas"][name], value, at);
    }
    if value.is_null() {
        let text = schema.to_string();
        assert!(text.contains("\"null\""), "{at} is null and should not be: {text}");
        return;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let is_null = |choice: &&Value| choice["type"] == "null";
        if let Some(choice) = choices.iter().find(|choice| !is_null(choice)) {
            conforms(document, choice, value, at);
        }
        return;
    }
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                conforms(document, &schema["items"], item, &format!("{at}[{i}]"));
            }
        }
        Value::Object(members) => {
            let Some(properties) = schema["properties"].as_object() else { return };
            for (name, member) in members {
                let property = properties.get(name);
                let property = property.unwrap_or_else(|| panic!("{at}.{name} is not described"));
                conforms(document, property, member, &format!("{at}.{name}"));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap_or_default();
                assert!(members.contains_key(name), "{at} lacks {name}");
            }
        }
        Value::String(word) => {
            if let Some(words) = schema["enum"].as_array() {
                assert!(words.iter().any(|w| w == word), "{at}: {word} is not one of {words:?}");
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn what_is_not_there_leads_onward() {
    let app = TestApp::start().await;
    for address in ["/events/none", "/operations/none", "/nowhere", "/events?finding=early-retries"]
    {
        let answer = app.visit(address).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{address}");
        assert!(links(&check(&answer, address)).contains(&"/lookup".to_owned()), "{address}");
    }
    let answer = app.get("/api/v1/events/none").await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    for address in [
        "/?from=x",
        "/triage?from=2026-11-11T12:00:00Z&to=2026-11-11T11:00:00Z",
        "/events?limited=perhaps",
    ] {
        let answer = app.visit(address).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{address}");
        check(&answer, address);
    }
}

#[tokio::test]
async fn secrets_of_a_pasted_text_or_a_har_are_not_shown_again() {
    let app = TestApp::start().await;
    let raw = "> GET /v1 HTTP/1.1\n> Authorization: Bearer secret-one\n> cookie: sid=secret-two\n>\n\
               < HTTP/1.1 429 Too Many Requests\n< server: nginx\n< set-cookie: sid=secret-three\n<\n";
    let har = json!({"log": {"entries": [{
        "request": {"method": "GET", "url": "https://api.example.com/b?token=secret-four", "headers": [
            {"name": "authorization", "value": "Basic secret-five"}, {"name": "cookie", "value": "sid=secret-six"}]},
        "response": {"status": 429, "headers": [{"name": "set-cookie", "value": "sid=secret-seven"}]}}]}})
    .to_string();
    let cut_off = har.trim_end_matches('}');
    for pasted in [raw, &har, cut_off] {
        let body = format!(
            "--x\r\ncontent-disposition: form-data; name=\"raw\"\r\n\r\n{pasted}\r\n--x--\r\n"
        );
        let answer = app.post_text("/classify", "multipart/form-data; boundary=x", body).await;
        check(&answer, "/classify");
        assert!(!answer.text.contains("secret-"), "{}", answer.text);
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn pages_that_show_data_are_kept_in_no_cache() {
    let app = TestApp::start().await;
    app.store(&incident(2)).await;
    for address in [
        "/",
        "/events",
        "/events/e-0-1",
        "/services",
        "/services/checkout",
        "/lookup",
        "/send",
        "/classify",
        "/api/v1/events",
        "/triage?service=checkout&upstream=api.example.com",
    ] {
        let answer = app.visit(address).await;
        assert_eq!(answer.header("cache-control"), "no-store", "{address}");
    }
}

#[tokio::test]
async fn the_numbers_of_successes_lead_to_exactly_their_rows() {
    let app = TestApp::start().await;
    let mut events = incident(20);
    // A retry that no limit refused and that did not end well, one that got no response, and a
    // first attempt that did.
    for (id, attempt, status) in [("x1", 2, 404), ("x2", 1, 200), ("x3", 2, 500)] {
        events.push(json!({"event_id": id, "operation_id": id, "attempt": attempt, "status": status,
            "occurred_at": "2026-11-11T11:10:00Z", "service": "checkout", "host": "api.example.com"}));
    }
    events.push(json!({"event_id": "x4", "operation_id": "x4", "attempt": 2, "error": "timeout",
        "occurred_at": "2026-11-11T11:10:00Z", "service": "checkout", "host": "api.example.com"}));
    app.store(&events).await;
    let overview = app.get(&format!("/api/v1/overview?{WINDOW}")).await.json();
    let figures = overview["figures"].as_array().unwrap();
    for (name, expected) in [("success-after-retry", 20), ("success", 21)] {
        let figure = figures.iter().find(|figure| figure["name"] == name).unwrap();
        let address = figure["rows"].as_str().unwrap();
        let twin = address.replacen("/events", "/api/v1/events", 1);
        let rows = app.get(&twin).await.json();
        let items = rows["items"].as_array().unwrap();
        assert_eq!(items.len(), expected, "{name}: {address}");
        assert!(items.iter().all(|item| item["status"].as_u64().unwrap() < 400), "{name}");
        let html = check(&app.visit(address).await, address);
        assert!(text(&html, "h1").contains("that ended well"), "{}", text(&html, "h1"));
    }
    let others = app.get(&format!("/api/v1/events?{WINDOW}&succeeded=false&limited=false")).await;
    assert_eq!(others.json()["items"].as_array().unwrap().len(), 3, "{}", others.text);
}

#[tokio::test]
async fn what_is_wrong_with_a_value_is_said_of_that_value() {
    let app = TestApp::start().await;
    let planner = |query: &str| format!("/triage.json?{WINDOW}&{query}");
    let zero = app.get(&planner("plan_allowed=0&plan_window_s=60")).await;
    assert_eq!(zero.json()["parameter"], "plan_allowed", "{}", zero.text);
    let missing = app.get(&planner("plan_allowed=5&plan_window_s=60")).await.json();
    let detail = missing["detail"].as_str().unwrap();
    assert!(detail.ends_with("missing: plan_aimed, plan_work, plan_answer_ms."), "{detail}");
    let form = app.submit("/marks", "title=x&at=yesterday").await;
    assert_eq!(form.status, StatusCode::BAD_REQUEST);
    assert!(!form.text.contains("in the address"), "{}", form.text);
    for body in [json!([]), json!("x"), json!({"title": 5})] {
        let answer = app.post("/api/v1/marks", &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        let told = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(told.contains("object") || told.contains("expected a string"), "{told}");
    }
}

#[tokio::test]
async fn sending_says_what_becomes_of_other_content_with_the_same_id_and_time() {
    let app = TestApp::start().await;
    let first = json!({"event_id": "a", "occurred_at": "2026-11-11T11:10:00Z", "service": "checkout",
        "host": "api.example.com", "status": 429});
    let mut second = first.clone();
    second["status"] = json!(200);
    app.store(&[first]).await;
    assert_eq!(app.post("/v1/events", &json!([second])).await.json()["duplicates"], 1);
    assert_eq!(app.get("/api/v1/events/a").await.json()["items"][0]["status"], Value::Null);
    let html = check(&app.visit("/send").await, "/send");
    assert!(text(&html, "main").contains("keeps the first and drops the second"));
}

#[tokio::test]
async fn an_empty_window_names_when_the_last_event_of_its_scope_happened() {
    let app = TestApp::start().await;
    let event = |id: &str, service: &str, at: &str| {
        json!({"event_id": id, "occurred_at": at, "service": service, "host": "api.example.com",
            "status": 200})
    };
    app.store(&[
        event("a", "old", "2001-02-03T04:05:06Z"),
        event("b", "fast-clock", "2026-11-11T13:00:30Z"),
        event("c", "far", "2099-01-01T00:00:00Z"),
    ])
    .await;
    for (address, named, to) in [
        (
            format!("/?{WINDOW}"),
            "The last one was sent at 2001-02-03",
            "to=2001-02-03T04:06:00.000Z",
        ),
        (
            format!("/triage?{WINDOW}&service=old"),
            "The last one was sent at 2001-02-03",
            "to=2001-02-03T04:06:00.000Z",
        ),
        (
            format!("/triage?{WINDOW}&service=fast-clock"),
            "was sent later, at 2026-11-11 13:00:30",
            "to=2026-11-11T13:01:00.000Z",
        ),
        (
            format!("/?{WINDOW}&service=far"),
            "was sent later, at 2099-01-01",
            "to=2099-01-01T00:01:00.000Z",
        ),
        (
            format!("/services/far?{WINDOW}"),
            "was sent later, at 2099-01-01",
            "to=2099-01-01T00:01:00.000Z",
        ),
    ] {
        let html = check(&app.visit(&address).await, &address);
        let notice = text(&html, ".notice");
        assert!(notice.contains(named), "{address}: {notice}");
        let link = html.select(&Selector::parse(".notice a").unwrap()).next().unwrap();
        let link = link.value().attr("href").unwrap().replace("%3A", ":");
        assert!(link.contains(to), "{address}: {link}");
        let there = check(&app.visit(&link).await, &link);
        assert!(!text(&there, "main").contains("one was sent"), "{link}");
    }
}

#[tokio::test]
async fn a_service_that_was_never_seen_is_not_found() {
    let app = TestApp::start().await;
    app.store(&[
        json!({"occurred_at": "2026-11-11T11:10:00Z", "service": "edge", "vantage": "gateway",
        "host": "api.example.com", "status": 429}),
    ])
    .await;
    let answer = app.visit("/services/none").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let html = check(&answer, "/services/none");
    assert!(links(&html).contains(&"/services".to_owned()), "{}", answer.text);
    assert_eq!(app.get("/api/v1/services/none").await.status, StatusCode::NOT_FOUND);
    assert_eq!(app.visit("/services/edge").await.status, StatusCode::OK);
}
