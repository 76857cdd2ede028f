//! Access logs: their rules are documented, and their lines become observations.

use super::support::TestApp;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use retrylens::domain::classify::{Certainty, LimitType, Responder, Tri};
use retrylens::domain::event::Vantage;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Each rule that reads logs names a heading of `docs/access-logs.md`, and stands below it.
#[test]
fn each_rule_about_logs_is_documented_where_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_to_string(root.join("docs/access-logs.md")).unwrap();
    let section = |anchor: &str| {
        docs.split("\n## ").find(|section| {
            let heading = section.lines().next().unwrap_or_default().to_lowercase();
            heading.replace('\'', "").replace(' ', "-") == anchor
        })
    };
    let mut seen = 0;
    for folder in ["src/domain/access_log", "src/domain/classify"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let anchors: Vec<&str> = source
                .split("docs/access-logs.md#")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            for rule in source.split("Rule::new(\"LG-").skip(1) {
                let id = format!("LG-{}", rule.split('"').next().unwrap());
                let documented = anchors.iter().any(|anchor| {
                    let section = section(anchor);
                    section.is_some_and(|text| text.contains(&format!("| {id} |")))
                });
                assert!(documented, "{id} of {} below {anchors:?}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// A line as nginx writes it in the recommended format.
pub(crate) fn nginx_line(id: &str, second: u32, status: u16, refused: bool) -> String {
    let limit = if refused { "REJECTED" } else { "PASSED" };
    let (addr, code, time) = if refused {
        ("", String::new(), "")
    } else {
        ("192.0.2.3:80", status.to_string(), "0.001")
    };
    format!(
        r#"{{"epoch":1794391{second:03}.250,"gateway":"nginx","request_id":"{id}","gw_request_id":"gw-{id}","traceparent":"00-bfa3a3e0337f46bc8d5396908104{second:04x}-657cf9ab72324664-01","method":"GET","host":"api.example.com","path":"/v1/orders/4711","status":{status},"upstream_addr":"{addr}","upstream_status":"{code}","upstream_connect_s":"{time}","upstream_header_s":"{time}","limit_req_status":"{limit}","limit_conn_status":"","cache_status":"","retry_after":"","duration_s":0.012,"remote_addr":"192.0.2.77"}}"#
    )
}

async fn send(app: &TestApp, address: &str, body: impl Into<Body>) -> (StatusCode, Value) {
    let answer = app.post_text(address, "text/plain", body).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_become_observations_that_prove_who_answered() {
    let app = TestApp::start().await;
    let body = format!(
        "{}\n{}\nnonsense with Bearer abcdefghijklmnopqrstuvwxyz0123\n\n{}\n",
        nginx_line("r-1", 1, 503, true),
        nginx_line("r-2", 2, 200, false),
        nginx_line("r-1", 1, 503, true),
    );
    let address = "/v1/access-logs/auto?service=checkout&environment=prod";
    let (status, told) = send(&app, address, body.clone()).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let number = |name: &str| told[name].as_u64().unwrap();
    assert_eq!(
        [number("lines"), number("stored"), number("comments"), number("wrong")],
        [5, 3, 1, 1]
    );
    assert_eq!(told["rejected"][0]["line"], 3);
    let shown = told["rejected"][0]["text"].as_str().unwrap();
    assert!(shown.contains("[redacted") && !shown.contains("abcdefghijkl"), "{shown}");

    let found = app.state.store.lookup("r-1").await.unwrap().events;
    assert_eq!(found.len(), 2, "two lines that are alike are two requests");
    let (event, verdict) = (&found[0].event, found[0].verdict);
    assert_eq!((event.vantage, event.service.as_str()), (Vantage::Gateway, "checkout"));
    assert_eq!(
        (event.host.as_str(), event.route.as_deref()),
        ("api.example.com", Some("/v1/orders/{id}"))
    );
    assert_eq!(event.ray_id.as_deref(), Some("gw-r-1"));
    assert!(event.client_address_hash.as_deref().unwrap().starts_with("hmac-sha256:"));
    assert!(event.log.is_some());
    assert_eq!((verdict.returned_by, verdict.outcome), (Responder::Nginx, Certainty::Certain));
    assert_eq!((verdict.limited, verdict.limit_type), (true, LimitType::Rate));
    assert_eq!(verdict.reached_origin, Tri::No);
    for id in ["gw-r-2", "bfa3a3e0337f46bc8d53969081040002"] {
        let served = app.state.store.lookup(id).await.unwrap().events;
        assert_eq!(served.len(), 1, "{id}");
        assert!(served[0].event.log.is_none(), "a served line needs no detail");
    }
    let page = app.visit(&format!("/events/{}", event.event_id)).await;
    assert!(page.text.contains("LG-NG-1"), "{}", page.text);
    assert!(page.text.contains("limit_req_status=REJECTED"), "{}", page.text);

    // Sent again, packed: nothing changes.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).unwrap();
    let packed =
        [("gzip", gzip.finish().unwrap()), ("zstd", zstd::encode_all(body.as_bytes(), 3).unwrap())];
    for (encoding, packed) in packed {
        let request = Request::post(address).header("content-encoding", encoding);
        let answer = app.send(request.body(Body::from(packed)).unwrap()).await;
        let told = answer.json();
        assert_eq!(
            (&told["stored"], &told["duplicates"]),
            (&0.into(), &3.into()),
            "{encoding} {told}"
        );
    }
    assert!(app.state.store.recount().await.unwrap().agrees());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_the_origins_own_server_prove_that_it_answered() {
    let app = TestApp::start().await;
    let line =
        r#"192.0.2.1 - - [11/Nov/2026:11:00:00 +0000] "GET /v1/a HTTP/1.1" 429 345 "-" "curl""#;
    let address = "/v1/access-logs/apache?vantage=origin&host=api.example.com";
    let (status, told) = send(&app, address, line).await;
    assert_eq!((status, &told["stored"]), (StatusCode::OK, &1.into()), "{told}");
    let rows = app.get("/api/v1/events?upstream=api.example.com&from=2026-11-11T10:00:00Z&to=2026-11-11T12:00:00Z").await.json();
    let id = rows["items"][0]["event_id"].as_str().unwrap_or_else(|| panic!("{rows}"));
    let found = app.state.store.events_by_id(id).await.unwrap().remove(0);
    assert_eq!((found.event.vantage, found.event.service.as_str()), (Vantage::Origin, "unknown"));
    assert_eq!(
        (found.verdict.returned_by, found.verdict.outcome),
        (Responder::Origin, Certainty::Certain)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_log_is_refused_with_what_would_be_one() {
    let app = TestApp::start().await;
    let (status, told) = send(&app, "/v1/access-logs/iis", "x").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    assert!(told["detail"].as_str().unwrap().contains("haproxy, envoy, apache"), "{told}");
    let (status, told) = send(&app, "/v1/access-logs/nginx?vantage=client", "x").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    let (status, told) = send(&app, "/v1/access-logs/haproxy", nginx_line("a", 1, 429, true)).await;
    assert_eq!(
        (status, &told["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &"nothing-storable".into())
    );
    let said = told["rejected"][0]["error"].as_str().unwrap();
    assert_eq!(said, "the line is one of nginx, not of haproxy");
    let (status, _) = send(&app, "/v1/access-logs/auto", "").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    for (encoding, body, expected) in [
        ("gzip", b"not packed".to_vec(), StatusCode::BAD_REQUEST),
        ("gzip", bomb(), StatusCode::PAYLOAD_TOO_LARGE),
        (
            "zstd",
            zstd::encode_all(vec![b'a'; 64 << 20].as_slice(), 3).unwrap(),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        ("br", Vec::new(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = Request::post("/v1/access-logs/auto").header("content-encoding", encoding);
        let answer = app.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.status, expected, "{encoding} {}", answer.text);
    }
}

/// A gzip body of some ten kilobytes that unpacks to ten megabytes of nothing.
fn bomb() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b'a'; 10 << 20]).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_body_is_stored_in_pieces_and_a_cut_one_keeps_what_arrived() {
    let app = TestApp::start().await;
    let mut body = String::new();
    for n in 0..5_000 {
        writeln!(body, "{}", nginx_line(&format!("l-{n}"), n % 1000, 429, true)).unwrap();
    }
    let (status, told) = send(&app, "/v1/access-logs/nginx", body.clone()).await;
    assert_eq!((status, &told["stored"]), (StatusCode::OK, &5_000.into()), "{told}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.replace("\"l-", "\"m-").as_bytes()).unwrap();
    let mut packed = gzip.finish().unwrap();
    packed.truncate(packed.len() / 2);
    let request = Request::post("/v1/access-logs/nginx").header("content-encoding", "gzip");
    let answer = app.send(request.body(Body::from(packed)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
    let told = answer.json();
    let stored = told["stored"].as_u64().unwrap();
    assert!((500..5_000).contains(&stored), "{stored}");
    assert_eq!((&told["lines"], &told["wrong"]), (&stored.into(), &0.into()), "{told}");
    assert!(told["detail"].as_str().unwrap().contains("whole lines before that are taken"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_without_a_zone_are_read_in_the_one_that_is_named_and_the_answer_says_which() {
    let app = TestApp::start().await;
    let line = |id: &str| {
        format!(
            r#"192.0.2.7:52610 [11/Nov/2026:11:26:57.958] f01 f01/<NOSRV> 0/-1/-1/-1/0 429 225 - - PR-- 1/1/0/0/0 0/0 "GET /v1/{id} HTTP/1.1""#
        )
    };
    let at = async |route: &str| {
        let rows =
            app.get("/api/v1/events?from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z").await;
        let items = rows.json()["items"].as_array().unwrap().clone();
        let found = items.iter().find(|item| item["route"] == route);
        found.unwrap_or_else(|| panic!("{route}: {}", rows.text))["occurred_at"].clone()
    };
    let (_, told) = send(&app, "/v1/access-logs/haproxy", line("a")).await;
    assert_eq!((&told["local_times"], &told["time_zone"]), (&1.into(), &"UTC".into()), "{told}");
    assert_eq!(at("/v1/a").await, "2026-11-11T11:26:57.958Z");
    let address = "/v1/access-logs/auto?time_zone=Asia/Tokyo";
    let (_, told) = send(&app, address, line("b")).await;
    assert_eq!(told["time_zone"], "Asia/Tokyo", "{told}");
    assert_eq!(at("/v1/b").await, "2026-11-11T02:26:57.958Z");
    // A time that names its own is what it says.
    let (_, told) = send(&app, address, nginx_line("z", 1, 429, true)).await;
    assert_eq!((&told["local_times"], &told["time_zone"]), (&0.into(), &Value::Null), "{told}");
    let (status, told) = send(&app, "/v1/access-logs/auto?time_zone=Tokio", line("c")).await;
    assert_eq!((status, &told["parameter"]), (StatusCode::BAD_REQUEST, &"time_zone".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_the_future_are_told_in_the_answer_and_on_the_sources_page() {
    let app = TestApp::start().await;
    let now = "192.0.2.1 - - [11/Nov/2026:12:00:00 +0000] \"GET /v1/a HTTP/1.1\" 429 345";
    let ahead = now.replace("11/Nov/2026:12", "11/Nov/2027:12");
    let address = "/v1/access-logs/nginx?host=api.example.com";
    let (_, told) = send(&app, address, now).await;
    assert_eq!(told["ahead_of_time"], 0, "{told}");
    let hint = "ahead of now";
    assert!(!app.visit("/sources").await.text.contains(hint));
    for expected in [1, 0] {
        let (_, told) = send(&app, address, format!("{now}\n{ahead}\n")).await;
        assert_eq!(told["ahead_of_time"], expected, "of those that are new: {told}");
    }
    assert!(app.visit("/sources").await.text.contains(hint));
    assert_eq!(app.get("/api/v1/sources").await.json()["items"][0]["is_ahead"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_log_of_nginx_is_neither_listed_nor_taken() {
    let app = TestApp::start().await;
    let line = r#"2026/11/11 11:00:00 [error] 32#32: *1269 limiting requests, excess: 20.950 by zone "one", client: 192.0.2.2, server: , request: "GET /a HTTP/1.1", host: "api.example.com""#;
    let (status, told) = send(&app, "/v1/access-logs/nginx-error", line).await;
    let said = told["detail"].as_str().unwrap();
    assert!(status == StatusCode::BAD_REQUEST && said.contains("limit_req_status"), "{told}");
    let (_, told) = send(&app, "/v1/access-logs/auto", line).await;
    assert!(told["rejected"][0]["error"].as_str().unwrap().contains("limit_req_status"), "{told}");
    let (_, told) = send(&app, "/v1/access-logs/iis", line).await;
    assert!(!told["detail"].as_str().unwrap().contains("nginx-error"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_can_not_be_costs_its_line_and_says_so() {
    let app = TestApp::start().await;
    let with = |status: &str| {
        nginx_line("s-1", 1, 429, true).replace("\"status\":429", &format!("\"status\":{status}"))
    };
    for status in ["99999", "0", "-429", "429.5", "600", "true", "{}", "\"4x9\""] {
        let (code, told) = send(&app, "/v1/access-logs/nginx", with(status)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}: {told}");
        let said = told["rejected"][0]["error"].as_str().unwrap();
        assert!(said.starts_with("`status`: expected a code of 100 to 599"), "{status}: {said}");
    }
    let haproxy = r#"{"epoch":1794391003.250,"gateway":"haproxy","path":"/a","status":-1,"term_state":"CR","server":"<NOSRV>","t_connect_ms":-1}"#;
    for line in
        [with("429"), with("000"), with("\"000\""), with("\"-\""), with("null"), haproxy.to_owned()]
    {
        let (code, told) = send(&app, "/v1/access-logs/auto", line.clone()).await;
        assert_eq!((code, &told["stored"]), (StatusCode::OK, &1.into()), "{line}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_that_is_not_known_is_refused_before_anything_is_stored() {
    let app = TestApp::start().await;
    let line = nginx_line("p-1", 1, 429, true);
    let (code, told) = send(&app, "/v1/access-logs/nginx?servce=x", line.clone()).await;
    assert_eq!((code, &told["parameter"]), (StatusCode::BAD_REQUEST, &"servce".into()), "{told}");
    let all =
        ["environment", "host", "name", "offset", "service", "source", "time_zone", "vantage"];
    assert_eq!(told["known"], serde_json::json!(all));
    assert!(app.state.store.lookup("p-1").await.unwrap().events.is_empty());
    let address = "/v1/access-logs/nginx?name=edge&service=x&service=y";
    assert_eq!(send(&app, address, line).await.0, StatusCode::BAD_REQUEST, "which service?");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packed_body_is_known_without_its_header_and_a_mark_costs_no_line() {
    let app = TestApp::start().await;
    let packed = |text: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
    let line = |id: &str| format!("\u{feff}{}\n", nginx_line(id, 1, 429, true));
    for (id, body) in [
        ("b-1", packed(&line("b-1"))),
        ("b-2", zstd(&line("b-2"))),
        ("b-3", line("b-3").into_bytes()),
    ] {
        // Also where the first bytes arrive one by one.
        let parts = body.chunks(1).map(|part| Ok::<_, std::io::Error>(part.to_vec()));
        let parts: Vec<_> = parts.collect();
        let body = Body::from_stream(futures_util::stream::iter(parts));
        let (code, told) = send(&app, "/v1/access-logs/nginx", body).await;
        assert_eq!((code, &told["stored"]), (StatusCode::OK, &1.into()), "{id}: {told}");
        assert_eq!(app.state.store.lookup(id).await.unwrap().events.len(), 1, "{id}");
    }
    // Lines of a storm that differ in their time alone pack to a thousandth and less.
    let storm = nginx_line("storm", 7, 429, true) + "\n";
    let body = zstd(&storm.repeat(4_000));
    assert!(storm.len() * 4_000 > body.len() * 1_000, "{}", body.len());
    let (code, told) = send(&app, "/v1/access-logs/nginx", body).await;
    assert_eq!((code, &told["stored"]), (StatusCode::OK, &4_000.into()), "{told}");
}
