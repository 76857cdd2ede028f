//! Secrets that slip into what clients send: none is kept, whatever the field (DESIGN 11).

use crate::support::{Process, secrets as list};
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::redact::text as text_of;
use retrylens::ingest::native::{DecodeOptions, Decoded, FIELDS, Format, RawKeys, decode};
use serde_json::{Value, json};

/// Every place of an event that takes text, header names and fields of no name among them.
fn places() -> Vec<String> {
    let fields = FIELDS.iter().map(|field| (*field).to_owned());
    let headers =
        ["server", "via", "x-request-id", "retry-after", "x-ratelimit-reset", "set-cookie"];
    let headers = headers.iter().map(|name| format!("headers/{name}"));
    let others = ["headers/*", "unknown", "*"].map(str::to_owned);
    fields.chain(headers).chain(others).collect()
}

fn event_with(place: &str, text: &str) -> Value {
    let mut item = json!({"occurred_at": "2026-11-11T07:29:00.120Z", "service": "checkout",
                          "host": "api.example.com", "status": 429, "error": null});
    match place.split_once('/') {
        Some((_, "*")) => item["headers"] = json!({text: "x", format!("x-ratelimit-{text}"): "x"}),
        Some((_, name)) => item["headers"] = json!({name: text}),
        None if place == "*" => item[text] = json!("x"),
        None => item[place] = json!(text),
    }
    item
}

fn read(body: &Value) -> Decoded {
    let hasher = KeyHasher::new(b"server key");
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Hash,
        max_items: 100_000,
        format: Format::Detect,
    };
    decode(body.to_string().as_bytes(), &options).unwrap()
}

#[test]
fn no_kind_of_secret_is_kept_in_any_field() {
    let secrets = list::all();
    assert!(secrets.len() >= 40);
    let mut found = Vec::new();
    for secret in &secrets {
        let texts = [
            secret.text.clone(),
            format!("it failed with {} again", secret.text),
            format!("({}), <{}>", secret.text, secret.text),
            format!("{{\"message\":\"got '{}'\"}}", secret.text),
        ];
        for place in places() {
            let items: Vec<Value> = texts.iter().map(|text| event_with(&place, text)).collect();
            let decoded = read(&json!(items));
            let events = serde_json::to_string(&decoded.events).unwrap();
            let rejects = serde_json::to_string(&decoded.rejects).unwrap();
            let core = json!(secret.core).to_string();
            let core = core.trim_matches('"');
            if (events + &rejects).to_lowercase().contains(&core.to_lowercase()) {
                found.push(format!("{} in {place}: {}", secret.name, secret.text));
            }
        }
    }
    assert!(found.is_empty(), "{} leaks, such as\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_replaced_value_is_counted() {
    for secret in list::all() {
        for place in ["service", "instance", "error_code", "operation_id", "headers/server"] {
            let decoded = read(&event_with(place, &secret.text));
            assert!(decoded.redactions >= 1, "{} in {place}", secret.name);
            assert_eq!(u64::from(decoded.events[0].1.redactions), decoded.redactions);
        }
    }
}

#[test]
fn different_secrets_in_an_id_field_stay_different() {
    let items: Vec<Value> =
        list::all().iter().map(|secret| event_with("operation_id", &secret.text)).collect();
    let decoded = read(&json!(items));
    let ids: std::collections::HashSet<_> =
        decoded.events.iter().map(|(_, event)| event.operation_id.clone()).collect();
    assert_eq!(ids.len(), items.len());
}

#[test]
fn an_encoded_query_and_jumbled_parts_are_no_part_of_a_route() {
    for (sent, stored) in [
        ("/v1/orders%3Fcustomer=jane", "/v1/orders"),
        ("/v1/orders%3fcustomer=jane", "/v1/orders"),
        ("/v1/orders%253Fcustomer%253Djane", "/v1/orders"),
        ("/cart;jsessionid=8A8Fq7Zp2LxV", "/cart;jsessionid=[redacted: session]"),
        ("/reset/abcd1234/confirm", "/reset/[redacted: token]/confirm"),
        ("/d/q7Zp2LxV9sKd4TfB8nWm3RgY6hJc/view", "/d/[redacted: token]/view"),
        ("/v1/orders/42/items", "/v1/orders/42/items"),
        ("/v1/{module}/:id/reset/password", "/v1/{module}/:id/reset/password"),
        ("/oauth2/token", "/oauth2/token"),
        ("/v1/verify/{token}", "/v1/verify/{token}"),
        ("/tags/c%23", "/tags/c%23"),
        (
            "/v1/users/c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
            "/v1/users/c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
        ),
    ] {
        for item in
            [event_with("route", sent), event_with("url", &format!("https://h.example{sent}"))]
        {
            let decoded = read(&item);
            assert_eq!(decoded.events[0].1.route.as_deref(), Some(stored), "{item}");
        }
    }
}

#[test]
fn answers_of_real_servers_are_kept_as_they_are() {
    let mut seen = 0;
    let mut changed = Vec::new();
    for folder in std::fs::read_dir("tests/data/responses").unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let answer = std::fs::read_to_string(&path).unwrap();
            let (head, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
            let is_kept = |line: &&str| !line.starts_with('#') && !line.starts_with("Set-Cookie:");
            for text in head.lines().filter(is_kept).chain([body]) {
                let kept = text_of(text);
                if kept.count > 0 {
                    changed.push(format!("{}: {}", path.display(), kept.text));
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 2000, "{seen}");
    assert!(changed.is_empty(), "{} changed, such as\n{}", changed.len(), changed.join("\n"));
}

/// The bytes of every file in `folder`: the database with what belongs to it, and the log.
fn files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn no_secret_reaches_the_database_the_log_or_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = list::all();
    let mut pages = Vec::new();
    {
        let mut process = Process::serve(folder.path(), &["--log-filter", "debug"], &[]);
        // The first moment of 2026-11-11; each event gets one of its own, so that none is a
        // duplicate of another.
        let mut at = 1_794_355_200_000_i64;
        for secret in &secrets {
            let mut items: Vec<Value> = places()
                .iter()
                .flat_map(|place| {
                    let sentence = format!("it failed with {} again", secret.text);
                    [event_with(place, &secret.text), event_with(place, &sentence)]
                })
                .collect();
            for item in &mut items {
                if item["occurred_at"].as_str().is_some_and(|at| at.contains(".120")) {
                    item["occurred_at"] = json!(at);
                    at += 1;
                }
            }
            let (status, answer) = process.post("/v1/events", &json!(items)).unwrap();
            assert_eq!(status, 200, "{}: {answer}", secret.name);
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert!(answer["stored"].as_u64().unwrap() > 50, "{answer}");
            pages.push(answer.to_string());
            // A broken body and a strange address with the secret in it.
            process.post("/v1/events", &json!(secret.text));
            let escaped: Vec<String> = secret.text.bytes().map(|b| format!("%{b:02x}")).collect();
            let escaped = escaped.concat();
            for page in ["/lookup", "/api/v1/lookup"] {
                pages.push(process.get(&format!("{page}?id={escaped}")));
            }
        }
        let view = "service=checkout&upstream=api.example.com\
                    &from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";
        for page in ["/", "/triage", "/triage.json", "/triage.md", "/events", "/services/checkout"]
        {
            let answer = process.get(&format!("{page}?{view}"));
            assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
            pages.push(answer);
        }
        process.signal("TERM");
        assert!(process.wait().success());
    }
    let mut kept = files(folder.path());
    assert!(
        kept.iter().any(|(path, bytes)| path.ends_with("retrylens.db") && bytes.len() > 100_000)
    );
    assert!(kept.iter().any(|(path, bytes)| path.ends_with("log") && bytes.len() > 1_000));
    kept.extend(pages.into_iter().map(|page| ("a page".to_owned(), page.into_bytes())));
    let mut found = Vec::new();
    for (place, bytes) in &kept {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        for secret in &secrets {
            if text.contains(&secret.core.to_lowercase()) {
                let around: String = text
                    .split(&secret.core.to_lowercase())
                    .next()
                    .map(|before| before.chars().rev().take(80).collect())
                    .unwrap_or_default();
                let around: String = around.chars().rev().collect();
                found.push(format!("{} in {place} after {around}", secret.name));
            }
        }
    }
    assert!(found.is_empty(), "{} leaks, such as\n{}", found.len(), found.join("\n"));
}
