//! `POST /v1/events` and the health checks, through the router.

use crate::support::{Answer, TestApp};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::io::Write;

fn event(id: &str) -> Value {
    json!({"event_id": id, "occurred_at": "2026-11-11T11:59:00Z", "service": "checkout",
        "host": "api.example.com", "status": 429, "retry_after": "30"})
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn packed(app: &TestApp, encodings: &[&str], body: Vec<u8>) -> Answer {
    let mut request = Request::post("/v1/events").header("content-type", "application/json");
    for encoding in encodings {
        request = request.header("content-encoding", *encoding);
    }
    app.send(request.body(Body::from(body)).unwrap()).await
}

fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.header("cache-control"), "no-store");
    let problem = answer.json();
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
}

#[tokio::test]
async fn all_four_forms_of_a_batch_are_taken() {
    let app = TestApp::start().await;
    let lines = format!("{}\n{}\n", event("e"), event("f"));
    for (body, media_type, stored) in [
        (event("a").to_string(), "application/json", 1),
        (json!([event("b"), event("c")]).to_string(), "application/json; charset=utf-8", 2),
        (json!({"events": [event("d")]}).to_string(), "text/plain", 1),
        (lines, "application/x-ndjson", 2),
    ] {
        let answer = app.post_text("/v1/events", media_type, body.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{body}: {}", answer.text);
        assert_eq!(answer.json()["stored"], stored, "{body}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_batch_sent_again_changes_nothing() {
    let app = TestApp::start().await;
    let batch = json!([event("a"), event("b"), event("a")]);
    let first = app.post("/v1/events", &batch).await.json();
    assert_eq!((&first["stored"], &first["duplicates"]), (&json!(2), &json!(1)), "{first}");
    let second = app.post("/v1/events", &batch).await.json();
    assert_eq!((&second["stored"], &second["duplicates"]), (&json!(0), &json!(3)), "{second}");
}

#[tokio::test]
async fn a_bad_item_costs_only_itself_and_is_named() {
    let app = TestApp::start().await;
    let mut bad = event("bad");
    bad.as_object_mut().unwrap().remove("service");
    let answer = app.post("/v1/events", &json!([event("a"), bad, event("b")])).await.json();
    assert_eq!(answer["stored"], 2, "{answer}");
    let rejected = &answer["rejected"];
    assert_eq!(rejected.as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(rejected[0]["index"], 1);
    assert_eq!(rejected[0]["event_id"], "bad");
    assert_eq!(rejected[0]["field"], "service");
    assert!(rejected[0]["error"].is_string());
}

#[tokio::test]
async fn unknown_fields_and_redactions_are_counted() {
    let app = TestApp::start().await;
    let mut odd = event("odd");
    odd["colour"] = json!("red");
    odd["instance"] = json!("ops@example.com");
    let answer = app.post("/v1/events", &odd).await.json();
    assert_eq!(answer["stored"], 1, "{answer}");
    assert_eq!(answer["unknown_fields"], 1, "{answer}");
    assert_eq!(answer["redactions"], 1, "{answer}");
}

#[tokio::test]
async fn nothing_storable_is_422_with_the_reasons() {
    let app = TestApp::start().await;
    let answer = app.post("/v1/events", &json!([{"service": "checkout"}, 7])).await;
    assert_problem(&answer, 422, "nothing-storable");
    assert_eq!(answer.json()["rejected"].as_array().unwrap().len(), 2);
    assert_problem(&app.post("/v1/events", &json!([])).await, 422, "nothing-storable");
}

#[tokio::test]
async fn packed_bodies_are_unpacked() {
    let app = TestApp::start().await;
    let body = json!([event("a"), event("b")]).to_string();
    let zstd = zstd::encode_all(body.as_bytes(), 1).unwrap();
    assert_eq!(packed(&app, &["gzip"], gzip(body.as_bytes())).await.json()["stored"], 2);
    assert_eq!(packed(&app, &["ZSTD"], zstd).await.json()["duplicates"], 2);
    assert_eq!(packed(&app, &["identity"], body.into_bytes()).await.json()["duplicates"], 2);
}

#[tokio::test]
async fn a_body_that_is_not_json_or_badly_packed_is_400() {
    let app = TestApp::start().await;
    for body in ["", "nonsense", "[{\"service\":", "[[[[", "\u{0}", "\"text\"", "{\"events\": 7}"] {
        let answer = app.post_text("/v1/events", "application/json", body).await;
        let status = answer.status.as_u16();
        assert!(status == 400 || status == 422, "{body:?}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    let truncated = json!([event("a")]).to_string();
    let truncated = truncated.split_at(40).0.to_owned();
    let answer = app.post_text("/v1/events", "application/json", truncated).await;
    assert_problem(&answer, 400, "invalid-body");

    let whole = gzip(json!([event("a")]).to_string().as_bytes());
    let cut = whole.iter().copied().take(whole.len() - 9).collect();
    for bytes in [cut, b"not gzip at all".to_vec(), Vec::new()] {
        assert_problem(&packed(&app, &["gzip"], bytes).await, 400, "invalid-compression");
    }
    let answer = packed(&app, &["zstd"], b"nor zstd".to_vec()).await;
    assert_problem(&answer, 400, "invalid-compression");
}

#[tokio::test]
async fn what_is_not_read_here_is_415_and_says_what_is() {
    let app = TestApp::start().await;
    for media_type in [
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/xml",
        "*/*",
    ] {
        let body = event("a").to_string();
        let answer = app.post_text("/v1/events", media_type, body).await;
        assert_problem(&answer, 415, "unsupported-media-type");
        assert!(answer.header("accept-post").contains("application/json"), "{media_type}");
    }
    for encodings in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["deflate"], &["gzip;q=1"]]
    {
        let answer = packed(&app, encodings, gzip(b"{}")).await;
        assert_problem(&answer, 415, "unsupported-encoding");
        assert_eq!(answer.header("accept-encoding"), "gzip, zstd");
    }
}

#[tokio::test]
async fn what_is_too_large_is_413() {
    let app = TestApp::with(&[
        ("max_body_bytes", "4096"),
        ("max_inflated_bytes", "8192"),
        ("max_items", "5"),
    ])
    .await;
    let spaces = " ".repeat(5000);
    let answer = app.post_text("/v1/events", "application/json", spaces.clone()).await;
    assert_problem(&answer, 413, "too-large");
    let streamed = Body::from_stream(futures_util::stream::iter(
        (0..9).map(|_| Ok::<_, std::io::Error>(" ".repeat(1000))),
    ));
    let answer = app.post_text("/v1/events", "application/json", streamed).await;
    assert_problem(&answer, 413, "too-large");
    let bomb = gzip(" ".repeat(100_000).as_bytes());
    assert!(bomb.len() < 4096);
    assert_problem(&packed(&app, &["gzip"], bomb).await, 413, "too-large");
    let many: Vec<Value> = (0..6).map(|n| event(&n.to_string())).collect();
    let lines: String = many.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    assert_problem(&app.post("/v1/events", &json!(many)).await, 413, "too-large");
    let answer = app.post_text("/v1/events", "application/x-ndjson", lines).await;
    assert_problem(&answer, 413, "too-large");
}

#[tokio::test]
async fn without_room_for_bodies_the_sender_is_asked_to_wait() {
    let app = TestApp::with(&[("max_body_bytes", "2048"), ("max_buffered_bytes", "4096")]).await;
    let (finish, finished) = tokio::sync::oneshot::channel();
    let parts = [Some(" ".repeat(1500)), None];
    let parts =
        futures_util::stream::iter(parts).zip(futures_util::stream::iter([None, Some(finished)]));
    let slow = parts.then(|(spaces, finished)| async move {
        if let Some(finished) = finished {
            finished.await.unwrap();
        }
        Ok::<_, std::io::Error>(spaces.unwrap_or_else(|| event("slow").to_string()))
    });
    let slow = app.post_text("/v1/events", "application/json", Body::from_stream(slow));
    let others = async {
        // What has arrived of the slow one is held.
        let answer = app.post_text("/v1/events", "application/json", " ".repeat(1500)).await;
        assert_problem(&answer, 503, "queue-full");
        assert!((1..=2).contains(&answer.header("retry-after").parse::<u32>().unwrap()));
        finish.send(()).unwrap();
    };
    let (slow, ()) = futures_util::future::join(slow, others).await;
    assert_eq!(slow.status, StatusCode::OK, "{}", slow.text);
    let large =
        app.post_text("/v1/events", "application/json", " ".repeat(1500) + &event("a").to_string());
    assert_eq!(large.await.status, StatusCode::OK, "what was held is given back");
}

#[tokio::test]
async fn a_full_queue_asks_to_wait_and_says_how_long() {
    let app = TestApp::with(&[("queue_events", "2")]).await;
    let batches: Vec<Value> =
        (0..6).map(|n| json!([event(&format!("{n}a")), event(&format!("{n}b"))])).collect();
    let posts = batches.iter().map(|batch| app.post("/v1/events", batch));
    let answers = futures_util::future::join_all(posts).await;
    let (taken, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == StatusCode::OK);
    assert!(!taken.is_empty() && !refused.is_empty(), "{} {}", taken.len(), refused.len());
    for answer in refused {
        assert_problem(answer, 503, "queue-full");
        assert!((1..=75).contains(&answer.header("retry-after").parse::<u32>().unwrap()));
    }
    for batch in &batches {
        assert_eq!(app.post("/v1/events", batch).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn what_a_sender_gets_wrong_is_counted_for_its_service() {
    let app = TestApp::start().await;
    let mut odd = event("odd");
    odd["colour"] = json!("red");
    app.post("/v1/events", &json!([odd, {"service": "checkout"}])).await;
    app.state.senders.write(&app.state.store).await.unwrap();
    let sender = app.state.store.sender("checkout").await.unwrap().unwrap();
    assert_eq!((sender.counts.unknown_fields, sender.counts.rejected), (1, 1), "{sender:?}");
    assert_eq!(sender.counts.events, 1);
}

#[tokio::test]
async fn a_store_that_is_away_is_503_and_not_ready_yet_alive() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/readyz").await.status, StatusCode::OK);
    app.state.store.close().await.unwrap();
    let answer = app.post("/v1/events", &event("a")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert!(answer.header("retry-after").parse::<u32>().unwrap() >= 1);
    assert_eq!(answer.header("cache-control"), "no-store");
    let ready = app.get("/readyz").await;
    assert_problem(&ready, 503, "store-unavailable");
    assert_eq!(app.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn no_problem_tells_of_the_inside() {
    let app = TestApp::start().await;
    app.state.store.close().await.unwrap();
    for answer in [
        app.post("/v1/events", &event("a")).await,
        app.get("/readyz").await,
        app.get("/v1/events").await,
    ] {
        for word in ["sqlx", "sqlite", "panic", "src/", ".rs", "pool"] {
            assert!(!answer.text.to_lowercase().contains(word), "{word} in {}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_misspelt_filter_is_refused_by_its_name_at_every_address_for_programs() {
    let app = TestApp::start().await;
    let document = app.get("/api/openapi.json").await.json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let is_for_programs =
            path.starts_with("/api/") || matches!(path.as_str(), "/triage.json" | "/triage.md");
        if !is_for_programs || methods["get"].is_null() {
            continue;
        }
        let address = path.replace("{id}", "1").replace("{name}", "x");
        let answer = app.get(&format!("{address}?servce=checkout")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{address}: {}", answer.text);
        let problem = answer.json();
        assert_eq!(problem["parameter"], "servce", "{address}");
        let parameters = methods["get"]["parameters"].as_array();
        for one in parameters.into_iter().flatten().filter(|one| one["in"] == "query") {
            let known = problem["known"].as_array().unwrap();
            assert!(known.contains(&one["name"]), "{address}: {problem}");
        }
        asked += 1;
    }
    assert!(asked > 15, "{asked}");
    let twice = app.get("/api/v1/overview?service=a&service=b").await;
    assert_eq!(twice.json()["parameter"], "service", "{}", twice.text);
    // The seven that DESIGN 14 names are known wherever a scope is.
    let all = "service=a&upstream=b&environment=c&route=%2Fd&from=2026-11-11T11:00:00Z\
               &to=2026-11-11T12:00:00Z&time=received";
    for address in ["overview", "triage", "events", "services", "marks"] {
        let answer = app.get(&format!("/api/v1/{address}?{all}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_page_says_which_part_of_its_address_it_did_not_use() {
    let app = TestApp::start().await;
    for page in ["/", "/triage", "/events", "/lookup", "/services", "/alerts"] {
        let answer = app.visit(&format!("{page}?servce=%3Cscript%3E")).await;
        assert_eq!(answer.status, StatusCode::OK, "{page}");
        let hint = "there is no such parameter here; this address takes";
        assert!(answer.text.contains(hint), "{page}");
        assert!(!answer.text.contains("<script>"), "{page}");
        let query = if page == "/lookup" { "id=x" } else { "service=x" };
        let fine = app.visit(&format!("{page}?{query}")).await;
        assert!(!fine.text.contains(hint), "{page}");
    }
}

#[tokio::test]
async fn events_of_the_future_are_counted_in_the_receipt() {
    let app = TestApp::start().await;
    let at = |id: &str, time: &str| {
        let mut event = event(id);
        event["occurred_at"] = json!(time);
        event
    };
    let batch = json!([
        at("a", "2026-11-11T12:04:59Z"),
        at("b", "2026-11-11T12:05:01Z"),
        at("c", "2029-11-11T12:00:00Z"),
    ]);
    let receipt = app.post("/v1/events", &batch).await.json();
    assert_eq!((&receipt["stored"], &receipt["ahead_of_time"]), (&json!(3), &json!(2)));
    let again = app.post("/v1/events", &batch).await.json();
    assert_eq!((&again["duplicates"], &again["ahead_of_time"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn a_field_of_the_wrong_type_is_named() {
    let app = TestApp::start().await;
    for (address, body, field) in [
        ("/api/v1/silences", json!({"service": 5}), "service"),
        ("/api/v1/silences", json!({"servce": "x"}), "servce"),
        ("/api/v1/silences", json!({"service": "x", "who": ["a"]}), "who"),
        ("/api/v1/alerts/1/acknowledge", json!({"who": {}, "why": "x"}), "who"),
        ("/api/v1/alerts/1/acknowledge", json!({"who": "a", "for": 3}), "for"),
        ("/api/v1/marks", json!({"title": 7}), "title"),
        ("/api/v1/marks", json!({"title": "x", "sevice": "y"}), "sevice"),
        ("/api/v1/marks", json!({"at": "noon", "title": "x"}), "at"),
    ] {
        let answer = app.post(address, &body).await;
        let problem = answer.json();
        let named = (answer.status, problem["parameter"].as_str());
        assert_eq!(named, (StatusCode::BAD_REQUEST, Some(field)), "{address} {body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(field), "{problem}");
    }
    for (address, name) in [
        ("/api/v1/export/rules?format=yaml", "format"),
        ("/api/v1/export/rules?format=grafana&datasource_uid=a%20b", "datasource_uid"),
        ("/api/v1/lookup", "id"),
        ("/api/v1/alerts?alert=x", "alert"),
        ("/api/v1/alerts?time=event", "time"),
    ] {
        assert_eq!(app.get(address).await.json()["parameter"], name, "{address}");
    }
}
