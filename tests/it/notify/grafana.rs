//! `retrylens export rules --push` against a small server that keeps state as Grafana's provisioning
//! API does. From its documentation and reference/alerting.md 6.2: a group is replaced whole by PUT,
//! its folder must exist, answers carry what Grafana adds (id, updated, provenance, defaults of
//! models), the provenance is "api" unless `X-Disable-Provenance` is there at creation and can't be
//! taken away later.

use crate::support::process::command;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Output;
use std::sync::{Arc, Mutex};

const TOKEN: &str = "glsa_test-token-0123456789";

/// What the server holds, and what it was asked to write.
#[derive(Debug, Default)]
struct Held {
    folders: BTreeMap<String, Value>,
    groups: BTreeMap<(String, String), Value>,
    writes: Vec<String>,
    /// Answers before the next request is served.
    busy: Vec<u16>,
}

type Grafana = Arc<Mutex<Held>>;
type Answer = (StatusCode, HeaderMap, Json<Value>);

fn say(status: u16, body: Value) -> Answer {
    (StatusCode::from_u16(status).unwrap(), HeaderMap::new(), Json(body))
}

/// What stands before every answer: the token, and being busy.
fn refused(held: &mut Held, headers: &HeaderMap) -> Option<Answer> {
    if let Some(status) = held.busy.pop() {
        let mut answer = say(status, json!({"message": "busy"}));
        answer.1.insert("retry-after", "1".parse().unwrap());
        return Some(answer);
    }
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    (token != Some(&format!("Bearer {TOKEN}")))
        .then(|| say(401, json!({"message": "Invalid API key"})))
}

async fn folder(State(all): State<Grafana>, headers: HeaderMap, Path(uid): Path<String>) -> Answer {
    let mut held = all.lock().unwrap();
    if let Some(answer) = refused(&mut held, &headers) {
        return answer;
    }
    match held.folders.get(&uid) {
        Some(folder) => say(200, folder.clone()),
        None => say(404, json!({"message": "folder not found", "status": "not-found"})),
    }
}

async fn make(State(all): State<Grafana>, headers: HeaderMap, Json(body): Json<Value>) -> Answer {
    let mut held = all.lock().unwrap();
    if let Some(answer) = refused(&mut held, &headers) {
        return answer;
    }
    let uid = body["uid"].as_str().unwrap().to_owned();
    held.writes.push(format!("POST folder {uid}"));
    held.folders.insert(uid, body.clone());
    say(200, body)
}

async fn read(
    State(all): State<Grafana>,
    headers: HeaderMap,
    Path((folder, group)): Path<(String, String)>,
) -> Answer {
    let mut held = all.lock().unwrap();
    if let Some(answer) = refused(&mut held, &headers) {
        return answer;
    }
    match held.groups.get(&(folder, group)) {
        Some(group) => say(200, group.clone()),
        None => say(404, json!({"message": "alert rule group not found"})),
    }
}

async fn replace(
    State(all): State<Grafana>,
    headers: HeaderMap,
    Path((folder, group)): Path<(String, String)>,
    Json(mut body): Json<Value>,
) -> Answer {
    let mut held = all.lock().unwrap();
    if let Some(answer) = refused(&mut held, &headers) {
        return answer;
    }
    if !held.folders.contains_key(&folder) {
        return say(400, json!({"message": "folder does not exist"}));
    }
    let place = (folder, group.clone());
    let before = held.groups.get(&place).cloned().unwrap_or_default();
    let provenance = if headers.contains_key("x-disable-provenance") { "" } else { "api" };
    for (n, rule) in body["rules"].as_array_mut().unwrap().iter_mut().enumerate() {
        assert!(rule["uid"].as_str().unwrap().len() <= 40);
        let old = before["rules"].as_array().into_iter().flatten();
        if let Some(old) = old.into_iter().find(|old| old["uid"] == rule["uid"])
            && old["provenance"] == "api"
            && provenance.is_empty()
        {
            let text = "cannot changed provenance from 'api' to ''";
            return say(409, json!({"message": text}));
        }
        rule["id"] = json!(n + 1);
        rule["orgID"] = json!(4);
        rule["updated"] = json!("2026-11-11T07:29:00Z");
        rule["provenance"] = json!(provenance);
        rule["notification_settings"] = Value::Null;
        if rule.get("keep_firing_for").is_none() {
            rule["keep_firing_for"] = json!("0s");
        }
        for node in rule["data"].as_array_mut().unwrap() {
            node["queryType"] = json!("");
            node["model"]["intervalMs"] = json!(1000);
            node["model"]["maxDataPoints"] = json!(43_200);
            if node.get("relativeTimeRange").is_none() {
                node["relativeTimeRange"] = json!({"from": 0, "to": 0});
            }
        }
    }
    held.writes.push(format!("PUT {group}"));
    held.groups.insert(place, body.clone());
    say(200, body)
}

/// Starts the server below a sub-path; its address and what it holds.
async fn grafana() -> (String, Grafana) {
    let held = Grafana::default();
    let api = Router::new()
        .route("/api/folders/{uid}", get(folder))
        .route("/api/folders", post(make))
        .route("/api/v1/provisioning/folder/{folder}/rule-groups/{group}", get(read).put(replace))
        .with_state(Arc::clone(&held));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/grafana/", listener.local_addr().unwrap());
    let router = Router::new().nest("/grafana", api);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, held)
}

async fn push_with(token: &str, address: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command
        .args(["export", "rules", "--format", "grafana-api", "--push", address])
        .args(["--public-url", "https://lens.example.com"])
        .args(more)
        .env("RETRYLENS_GRAFANA_TOKEN", token);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What a push that works says.
async fn push(address: &str, more: &[&str]) -> String {
    let output = push_with(TOKEN, address, more).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

async fn fails(token: &str, address: &str, more: &[&str]) -> String {
    let output = push_with(token, address, more).await;
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(token.is_empty() || !errors.contains(token), "{errors}");
    errors
}

fn writes(held: &Grafana) -> Vec<String> {
    std::mem::take(&mut held.lock().unwrap().writes)
}

/// A rule that is there.
fn with_rule(held: &Grafana, uid: &str, change: impl FnOnce(&mut Value)) {
    let mut held = held.lock().unwrap();
    let mut rules =
        held.groups.values_mut().flat_map(|group| group["rules"].as_array_mut().unwrap());
    change(rules.find(|rule| rule["uid"] == uid).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_sends_what_differs_and_a_second_one_nothing() {
    let (address, held) = grafana().await;
    let said = push(&address, &["--dry-run"]).await;
    assert!(said.starts_with("+ folder retrylens\n+ group retrylens\n  + "), "{said}");
    assert!(said.ends_with("nothing was sent: a dry run\n"), "{said}");
    assert_eq!(said.matches("\n  + ").count(), retrylens::domain::alerts::RULES.len());
    assert_eq!(writes(&held), [""; 0], "a dry run writes nothing");

    let done = push(&address, &[]).await;
    assert_eq!(done, said.replace("nothing was sent: a dry run", "done"));
    let groups = held.lock().unwrap().groups.len();
    let written = writes(&held);
    assert_eq!((written.len(), written[0].as_str()), (1 + groups, "POST folder retrylens"));
    assert_eq!(push(&address, &[]).await, "everything is there already; nothing was sent\n");
    assert_eq!(writes(&held), [""; 0]);

    // A threshold changes, somebody changes a rule, pauses another and adds one of their own.
    with_rule(&held, "retrylens-429-spike", |rule| rule["labels"]["team"] = json!("edge"));
    with_rule(&held, "retrylens-retry-budget-exceeded", |rule| rule["isPaused"] = json!(true));
    {
        let mut held = held.lock().unwrap();
        let group = held.groups.get_mut(&("retrylens".to_owned(), "retrylens".to_owned())).unwrap();
        let rules = group["rules"].as_array_mut().unwrap();
        rules.push(json!({"uid": "theirs", "title": "Theirs", "data": []}));
        rules.push(json!({"uid": "retrylens-old-rule", "title": "OldRule", "data": []}));
    }
    let more = ["--set", "alert_spike_share_5m=30%"];
    let said = push(&address, &[&more[..], &["--dry-run"]].concat()).await;
    for line in [
        "~ group retrylens\n",
        "\n  ~ Retrylens429Spike\n",
        "\n      labels.team: \"edge\" → nothing\n",
        "data[0].model.expr: ",
        "\n  - OldRule\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("Theirs") && !said.contains("BudgetExceeded"), "{said}");
    push(&address, &more).await;
    assert_eq!(writes(&held), ["PUT retrylens"], "only the group that differs");
    with_rule(&held, "theirs", |rule| assert_eq!(rule["title"], "Theirs"));
    with_rule(&held, "retrylens-retry-budget-exceeded", |rule| assert_eq!(rule["isPaused"], true));
    assert!(push(&address, &more).await.starts_with("everything is there already"));
    // Rules can be edited there.
    with_rule(&held, "retrylens-429-spike", |rule| assert_eq!(rule["provenance"], ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_were_locked_are_updated_as_such_and_those_of_a_file_left_alone() {
    let (address, held) = grafana().await;
    push(&address, &[]).await;
    with_rule(&held, "retrylens-429-spike", |rule| {
        rule["provenance"] = json!("api");
        rule["for"] = json!("1h");
    });
    let said = push(&address, &[]).await;
    assert!(said.contains("for: \"1h\" → "), "{said}");
    with_rule(&held, "retrylens-429-spike", |rule| {
        assert_eq!(rule["provenance"], "api");
        rule["provenance"] = json!("file");
        rule["for"] = json!("1h");
    });
    let said = fails(TOKEN, &address, &[]).await;
    assert!(said.contains("was provisioned from a file"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_waits_for_a_busy_server_and_says_what_is_wrong() {
    let (address, held) = grafana().await;
    held.lock().unwrap().busy = vec![503, 429];
    let begun = tokio::time::Instant::now();
    push(&address, &[]).await;
    assert!(begun.elapsed().as_secs() >= 2, "both waits were kept");

    for (token, address, expected) in [
        (
            "wrong-token",
            address.as_str(),
            "does not accept the token (401); set RETRYLENS_GRAFANA_TOKEN",
        ),
        ("", &address, "RETRYLENS_GRAFANA_TOKEN is not set"),
        (
            TOKEN,
            &address.replace("grafana/", ""),
            "is it the address of Grafana, with its sub-path?",
        ),
        (TOKEN, "grafana.example.com", "--push expects the address of a Grafana server"),
    ] {
        let said = fails(token, address, &[]).await;
        assert!(said.contains(expected), "{said}");
    }
    // Another service there, whose answer to what it doesn't know is JSON as well.
    let other = axum::Router::new()
        .fallback(async || say(404, json!({"title": "There is nothing at this address"})));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, other).await.unwrap() });
    let said = fails(TOKEN, &other_address, &["--dry-run"]).await;
    assert!(said.contains("is it the address of Grafana"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let said = command(folder.path())
        .args(["export", "rules", "--format", "prometheus", "--push", &address])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("--push needs --format grafana-api"));
}
