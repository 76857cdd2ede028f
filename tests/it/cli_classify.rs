//! `retrylens classify` as a person or a script runs it.

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_retrylens");

const KONG: &str = "HTTP/1.1 429 Too Many Requests\r\nDate: Wed, 11 Nov 2026 07:29:00 GMT\r\n\
    Content-Type: application/json; charset=utf-8\r\nContent-Length: 37\r\nRetry-After: 18\r\n\
    X-RateLimit-Limit-Minute: 3\r\nX-RateLimit-Remaining-Minute: 0\r\n\
    X-Kong-Response-Latency: 1\r\nServer: kong/3.4.0\r\n\r\n{\"message\":\"API rate limit exceeded\"}";

/// Runs the command with this input and waits for it.
fn classify(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(BINARY)
        .arg("classify")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn verdict(input: &str) -> Value {
    let output = classify(&["--format", "json"], input.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_text_says_the_verdict_first_and_fits_a_chat() {
    let output = classify(&[], KONG.as_bytes());
    assert!(output.status.success());
    let said = text(&output.stdout);
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("Kong Gateway returned this 429 (certain, 0.99"), "{said}");
    let order = ["Evidence for it", "Wait", "Limit fields", "What to do next", "What not to touch"];
    let places: Vec<usize> = order.iter().map(|part| said.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{said}");
    let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["KG-1", "18 s", "the origin did not see", "x-ratelimit-remaining-minute: 0"] {
        assert!(unwrapped.contains(part), "{part}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() < 100), "{said}");
    assert!(!said.contains('\u{1b}'), "no colours");
}

#[test]
fn line_ends_and_curl_marks_change_nothing() {
    let plain = verdict(KONG);
    assert_eq!(plain["returned_by"], "kong");
    assert_eq!(plain["retry_after_seconds"], 18.0);
    assert_eq!(verdict(&KONG.replace("\r\n", "\n")), plain);
    let (head, body) = KONG.split_once("\r\n\r\n").unwrap();
    let marked = format!("< {}\n", head.replace("\r\n", "\n< "));
    let verbose = format!(
        "*   Trying 192.0.2.1:443...\n> GET /v1/x HTTP/1.1\n> Host: api.example.com\n> \n\
         {marked}< \n{body}* Connection #0 to host api.example.com left intact\n"
    );
    let verbose = verdict(&verbose);
    assert_eq!(verbose["evidence"], plain["evidence"]);
    assert_eq!(verbose["confidence"], plain["confidence"]);
    let http_2 = KONG.replace("HTTP/1.1 429 Too Many Requests", "HTTP/2 429");
    assert_eq!(verdict(&http_2)["returned_by"], "kong");
}

#[test]
fn the_last_response_of_several_is_judged() {
    let several = format!("HTTP/1.1 301 Moved\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n{KONG}");
    let judged = verdict(&several);
    assert_eq!(judged["status"], 429);
    assert!(judged["problems"][0].as_str().unwrap().contains("301"), "{judged}");
}

#[test]
fn a_file_is_read_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answer.txt");
    std::fs::write(&path, KONG).unwrap();
    let output = classify(&[path.to_str().unwrap()], b"");
    assert!(text(&output.stdout).starts_with("Kong"));
    let output = classify(&["no-such-file.txt"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-file.txt"));
}

#[test]
fn text_without_a_response_says_what_was_expected() {
    for input in ["", "server: cloudflare\nretry-after: 3\n", "\u{0}\u{1}\u{2}"] {
        let output = classify(&[], input.as_bytes());
        assert_eq!(output.status.code(), Some(1), "{input:?}");
        let said = text(&output.stderr);
        assert!(said.contains("curl -i") && !said.contains('\u{1}'), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_unknown_flag_is_wrong_usage() {
    assert_eq!(classify(&["--colour"], b"").status.code(), Some(2));
    assert_eq!(classify(&["--ndjson", "--har"], b"").status.code(), Some(2));
}

fn har() -> String {
    let entry = |status: u16, host: &str, headers: Value, body: &str| {
        json!({"startedDateTime": "2026-11-11T07:29:00.000Z", "time": 12,
            "request": {"method": "GET", "url": format!("https://{host}/v1/x?token=secret"), "headers": []},
            "response": {"status": status, "statusText": "", "httpVersion": "h2", "headers": headers,
                "content": {"size": body.len(), "mimeType": "application/json", "text": body}}})
    };
    let json = json!([{"name": "content-type", "value": "application/json"}]);
    json!({"log": {"version": "1.2", "entries": [
        entry(200, "a.example.com", json.clone(), "{\"ok\":true}"),
        entry(429, "b.example.com", json.clone(), "{\"code\":\"rate_limit_exceeded\"}"),
        entry(200, "c.example.com", json.clone(),
            "{\"errors\":[{\"extensions\":{\"code\":\"RATE_LIMITED\"}}]}"),
        entry(404, "d.example.com", json, "{\"error\":\"not found\"}"),
    ]}})
    .to_string()
}

#[test]
fn a_head_without_any_field_was_cut_and_names_nobody() {
    let output = classify(&["--format", "json"], b"HTTP/1.1 429 Too Many Requests\r\n\r\n");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["returned_by"], "unknown", "{answer}");
    assert_eq!(answer["reached_origin"], "unknown", "{answer}");
    assert_eq!(answer["limit_type"], "rate", "{answer}");
    let next = answer["collect_next"]["datum"].as_str().unwrap();
    assert!(next.contains("response headers (server, date, via"), "{next}");
    let said = text(&classify(&[], b"HTTP/1.1 429 Too Many Requests\r\n\r\n").stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("To settle who answered, send the response headers (server"), "{said}");
    assert!(!said.contains(".."), "{said}");
    assert!(said.contains("no Retry-After was captured"), "{said}");
    assert!(!said.contains("Retry-After was sent"), "{said}");
}

#[test]
fn a_har_file_gives_every_limited_or_failed_exchange() {
    let output = classify(&["--format", "json"], har().as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    let seen: Vec<(i64, bool)> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["index"].as_i64().unwrap(), a["limited"].as_bool().unwrap()))
        .collect();
    assert_eq!(seen, [(1, true), (2, true), (3, false)]);
    assert_eq!(answers[0]["url"], "b.example.com/v1/x");
    let said = text(&classify(&["--har"], har().as_bytes()).stdout);
    assert!(said.starts_with("3 of 4 exchanges were limited or failed."), "{said}");
    assert!(said.contains("Exchange 2: GET b.example.com/v1/x"), "{said}");
    assert!(!said.contains("secret"));
}

#[test]
fn a_bad_ndjson_line_costs_only_itself() {
    let input = format!(
        "{}\nnot json\n\n{}\n{}\n",
        json!({"id": "a", "raw": KONG}),
        json!({"id": "b", "raw": "no response"}),
        json!({"id": "c", "raw": KONG, "log": "x", "path": ["cloudflare", "kong"]}),
    );
    let output = classify(&["--ndjson"], input.as_bytes());
    assert_eq!(output.status.code(), Some(1), "something could not be read");
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["id"], &lines[0]["returned_by"]), (&json!("a"), &json!("kong")));
    assert_eq!((&lines[1]["id"], &lines[1]["line"]), (&Value::Null, &json!(2)));
    assert_eq!((&lines[2]["id"], &lines[2]["field"]), (&json!("b"), &json!("raw")));
    assert!(lines[2]["error"].as_str().unwrap().contains("HTTP/1.1 429"));
    assert_eq!(lines[3]["id"], "c");
    let problem = lines[3]["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("log: a line of no format that is known"), "{problem}");
    for field in [
        "id",
        "returned_by",
        "layer",
        "limit_type",
        "reached_origin",
        "retry_after_seconds",
        "confidence",
        "evidence",
        "outcome",
        "limit_type_confidence",
        "limit_unit",
    ] {
        assert!(lines[0].get(field).is_some(), "{field}");
    }
}

#[test]
fn a_sender_that_waits_for_each_answer_gets_it() {
    let mut child = Command::new(BINARY)
        .args(["classify", "--ndjson"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    for id in ["one", "two"] {
        writeln!(stdin, "{}", json!({"id": id, "raw": KONG})).unwrap();
        stdin.flush().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stdout.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer["id"], id);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(BINARY)
        .args(["classify", "--ndjson"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let line = format!("{}\n", json!({"id": 1, "raw": KONG}));
    let writer = std::thread::spawn(move || {
        // Far more than a pipe holds; the write fails once the other side is gone.
        let _ends = (0..5000).try_for_each(|_| stdin.write_all(line.as_bytes()));
    });
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 64];
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    writer.join().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn huge_and_binary_input_ends_soon_and_without_panic() {
    let huge = format!("HTTP/1.1 429 Too Many Requests\r\n\r\n{}", "{\"a\":[\"".repeat(2_000_000));
    let output = classify(&["--format", "json"], huge.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(judged["problems"][0].as_str().unwrap().contains("65536"), "{judged}");

    let mut binary: Vec<u8> = b"HTTP/1.1 429 X\r\nServer: \xff\xfe\x00\x1b[31m\r\n\r\n".to_vec();
    binary.extend((0..=255_u8).cycle().take(100_000));
    let output = classify(&[], &binary);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(!said.contains('\u{1b}') && !said.contains('\u{0}'), "escaped");
}

#[test]
fn hostile_values_stay_text() {
    let raw = "HTTP/1.1 429 \u{202e}evil\r\nRetry-After: \u{1b}]0;owned\u{7}\r\n\
        X-RateLimit-Remaining: \u{1b}[2J\r\nServer: kong/\u{1b}[31m\r\nX-Kong-Response-Latency: 1\r\n\r\n";
    let said = text(&classify(&[], raw.as_bytes()).stdout);
    assert!(said.contains("Kong"), "{said}");
    let hidden = ['\u{1b}', '\u{7}', '\u{202e}'];
    assert!(!said.contains(hidden), "{said:?}");
}

#[test]
fn lines_of_several_requests_get_no_verdict_together() {
    let line = super::access_logs::nginx_line;
    let one = classify(&[], line("c-1", 1, 429, true).as_bytes());
    assert!(one.status.success(), "{}", text(&one.stderr));
    let plain = |second: u32| {
        format!(
            "192.0.2.1 - - [11/Nov/2026:11:00:0{second} +0000] \"GET /v1/a HTTP/1.1\" 429 345 \"-\" \"curl\""
        )
    };
    for (a, b) in [(line("c-1", 1, 429, true), line("c-2", 2, 200, false)), (plain(1), plain(2))] {
        let both = classify(&[], format!("{a}\n{b}\n").as_bytes());
        assert_eq!(both.status.code(), Some(1), "{}", text(&both.stdout));
        let said = text(&both.stderr);
        assert!(said.contains("several requests") && said.contains("retrylens import"), "{said}");
    }
}
