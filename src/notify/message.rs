//! An alert in the words of each kind of receiver. The text of one notification is the same in every
//! attempt, except that an Alertmanager is told anew for how long to believe it.

use crate::config::secret::SigningKey;
use crate::domain::alerts::{AlertState, Notice, Transition};
use crate::domain::time::{Millis, UnixMillis};
use crate::export::readings::ReadingOut;
use crate::export::{links, text};
use crate::store::Due;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;

/// An alert as `POST /api/v2/alerts` of an Alertmanager takes it. `believe` is how long it stands
/// where nothing more is heard of it. The same alert has the same labels for good, since those are
/// its identity.
pub fn alertmanager(due: &Due, base: &str, now: UnixMillis, believe: Millis) -> Value {
    let Notice { alert, severity, subject, state, summary, description, runbook_url, .. } =
        &due.notice;
    // An empty label is no label.
    let labels = [
        ("alertname", alert.as_str()),
        ("severity", severity.as_str()),
        ("service", &subject.service),
        ("upstream", &subject.upstream),
        ("environment", &subject.environment),
    ];
    let labels: BTreeMap<_, _> = labels.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let mut annotations = BTreeMap::from([
        ("summary", summary.as_str()),
        ("description", description),
        ("runbook_url", runbook_url),
    ]);
    if let Some(url) = &due.notice.dashboard_url {
        annotations.insert("dashboard_url", url);
    }
    let ends_at = match *state {
        AlertState::Resolved { resolved_at, .. } => resolved_at,
        _ => now.plus(believe),
    };
    json!({
        "labels": labels,
        "annotations": annotations,
        "startsAt": state.fired_at().unwrap_or(due.notice.at).to_rfc3339(),
        "endsAt": ends_at.to_rfc3339(),
        "generatorURL": links::alert(base, due.alert_id),
    })
}

#[derive(Serialize)]
struct Webhook<'a> {
    r#type: &'static str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    alert: &'a str,
    severity: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    service: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    upstream: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    environment: &'a str,
    summary: &'a str,
    description: &'a str,
    active_since: Option<String>,
    fired_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<String>,
    alert_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dashboard_url: Option<&'a str>,
    runbook_url: &'a str,
    readings: Vec<ReadingOut>,
}

/// The body of a webhook, as Standard Webhooks wants it: what happened, when, and to what.
pub fn webhook(due: &Due, base: &str) -> String {
    let notice = &due.notice;
    let active = notice.state.active();
    let data = Data {
        alert: &notice.alert,
        severity: notice.severity.as_str(),
        service: &notice.subject.service,
        upstream: &notice.subject.upstream,
        environment: &notice.subject.environment,
        summary: &notice.summary,
        description: &notice.description,
        active_since: active.map(|(since, _)| since.to_rfc3339()),
        fired_at: notice.state.fired_at().map(UnixMillis::to_rfc3339),
        resolved_at: active.and_then(|(_, over)| over).map(UnixMillis::to_rfc3339),
        alert_url: links::alert(base, due.alert_id),
        dashboard_url: notice.dashboard_url.as_deref(),
        runbook_url: &notice.runbook_url,
        readings: if is_over(notice) {
            ReadingOut::latest(&notice.readings)
        } else {
            ReadingOut::made(&notice.readings)
        },
    };
    let r#type = if is_over(notice) { "alert.resolved" } else { "alert.firing" };
    let body = Webhook { r#type, timestamp: notice.at.to_rfc3339(), data };
    json!(body).to_string()
}

/// The value of `webhook-signature`: for each key `v1,` and the base64 of HMAC-SHA256 over id,
/// timestamp (Unix seconds) and body (Standard Webhooks 1.0.0).
pub fn signature(keys: &[SigningKey], id: &str, timestamp: i64, body: &str) -> String {
    let signed = keys.iter().map(|key| {
        #[expect(
            clippy::expect_used,
            reason = "HMAC takes keys of any length (RFC 2104 section 2)"
        )]
        let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("any length is accepted");
        for part in [id, ".", &timestamp.to_string(), ".", body] {
            mac.update(part.as_bytes());
        }
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    });
    signed.collect::<Vec<_>>().join(" ")
}

/// Most characters of a text in a message, so that escaped it stays within Slack's 3,000.
const SLACK_CHARS: usize = 500;

/// A message for an incoming webhook of Slack.
pub fn slack(due: &Due, base: &str) -> String {
    let notice = &due.notice;
    let word = if is_over(notice) {
        "RESOLVED".to_owned()
    } else {
        notice.severity.as_str().to_ascii_uppercase()
    };
    let [summary, description] = [&notice.summary, &notice.description].map(|text| escaped(text));
    let link = |url: &str, name: &str| format!("<{}|{name}>", url.replace('&', "&amp;"));
    let triage = notice.dashboard_url.as_deref().map(|url| link(url, "Triage"));
    let links = [
        Some(link(&links::alert(base, due.alert_id), "Alert")),
        triage,
        Some(link(&notice.runbook_url, "Runbook")),
    ];
    let links: Vec<String> = links.into_iter().flatten().collect();
    let section = format!("*{word}: {summary}*\n{description}");
    // Verbatim: names in it become neither links nor calls, such as `@here`.
    let shown = |text: String| json!({"type": "mrkdwn", "text": text, "verbatim": true});
    json!({
        "text": format!("{word} {}: {summary}", notice.alert),
        "blocks": [
            {"type": "section", "text": shown(section)},
            {"type": "context", "elements": [shown(links.join(" | "))]},
        ],
    })
    .to_string()
}

fn is_over(notice: &Notice) -> bool {
    notice.change == Transition::Resolved
}

/// Text from traffic as Slack shows it and nothing more: `<!channel>` would call everybody.
fn escaped(given: &str) -> String {
    let shown = text::visible(given);
    let (shown, is_cut) = text::cut(&shown, SLACK_CHARS);
    let shown = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if is_cut { shown + "…" } else { shown }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::alerts::notice::Subject;
    use crate::domain::alerts::{Reading, Severity, evaluate::Met, evaluate::Ratio};

    /// A spike that fires from 07:29 on, or fired until 07:40.
    pub(crate) fn due(is_over: bool, service: &str) -> Due {
        let at = |text: &str| UnixMillis::parse_rfc3339(text).unwrap();
        let (active_since, fired_at) = (at("2026-11-11T07:27:00Z"), at("2026-11-11T07:29:00Z"));
        let resolved_at = at("2026-11-11T07:40:00Z");
        let (change, at, state) = if is_over {
            let state = AlertState::Resolved { active_since, fired_at, resolved_at };
            (Transition::Resolved, resolved_at, state)
        } else {
            let state = AlertState::Firing { active_since, fired_at, false_since: None };
            (Transition::Fired, fired_at, state)
        };
        let subject = Subject {
            service: service.to_owned(),
            upstream: "api.example.com".to_owned(),
            environment: String::new(),
        };
        Due {
            id: 1,
            alert_id: 17,
            receiver: "pager".to_owned(),
            notice: Notice {
                key: "alert_0123".to_owned(),
                alert: "Retrylens429Spike".to_owned(),
                severity: Severity::Critical,
                subject,
                change,
                at,
                state,
                summary: format!("api.example.com answers {service} with 429"),
                description: "52% of the attempts of the last 5 minutes got 429.".to_owned(),
                runbook_url: "https://lens.example.com/docs/alerts#429-spike".to_owned(),
                dashboard_url: Some(
                    "https://lens.example.com/triage?service=a&time=received".into(),
                ),
                value: Some(Ratio { part: 52, whole: 100 }),
                readings: vec![Reading {
                    what: "429 / attempts".to_owned(),
                    minutes: 5,
                    value: Ratio { part: 52, whole: 100 },
                    limit: "> 20%".to_owned(),
                    met: Met::Yes,
                }],
            },
            made_at: at,
            go: 1,
        }
    }

    const BASE_URL: &str = "https://lens.example.com";

    #[test]
    fn an_alertmanager_is_told_until_when_to_believe_it() {
        let now = UnixMillis::parse_rfc3339("2026-11-11T07:30:00Z").unwrap();
        let told = |is_over| {
            alertmanager(&due(is_over, "checkout"), BASE_URL, now, Millis::from_secs(240))
        };
        let (firing, over) = (told(false), told(true));
        assert_eq!(firing["labels"], over["labels"]);
        assert_eq!(
            firing["labels"],
            json!({"alertname": "Retrylens429Spike", "severity": "critical",
                "service": "checkout", "upstream": "api.example.com"})
        );
        assert_eq!(firing["startsAt"], "2026-11-11T07:29:00.000Z");
        assert_eq!(firing["endsAt"], "2026-11-11T07:34:00.000Z");
        assert_eq!(over["startsAt"], firing["startsAt"]);
        assert_eq!(over["endsAt"], "2026-11-11T07:40:00.000Z");
        assert_eq!(firing["generatorURL"], "https://lens.example.com/alerts/17");
        assert!(firing["annotations"]["dashboard_url"].as_str().unwrap().contains("/triage?"));
    }

    #[test]
    fn a_webhook_says_what_happened_and_is_small() {
        let body: Value =
            serde_json::from_str(&webhook(&due(false, "checkout"), BASE_URL)).unwrap();
        assert_eq!(
            (&body["type"], &body["timestamp"]),
            (&json!("alert.firing"), &json!("2026-11-11T07:29:00.000Z"))
        );
        assert_eq!(body["data"]["service"], "checkout");
        assert_eq!(body["data"]["resolved_at"], Value::Null);
        let reading = &body["data"]["readings"][0];
        assert_eq!(reading["made"], reading["latest"]);
        assert_eq!(
            (&reading["made"]["limit"], &reading["made"]["met"]),
            (&json!("> 20%"), &json!(true))
        );
        let over: Value = serde_json::from_str(&webhook(&due(true, "checkout"), BASE_URL)).unwrap();
        assert_eq!(over["data"]["readings"][0]["made"], Value::Null);
        let over = webhook(&due(true, "checkout"), BASE_URL);
        assert!(over.contains("\"alert.resolved\"") && over.contains("\"resolved_at\""), "{over}");
        assert!(over.len() < 20_000);
    }

    #[test]
    fn the_signature_is_that_of_the_published_vector() {
        // The one that the reference libraries of Standard Webhooks are tested with.
        let key = SigningKey::from_setting("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "{\"test\": 2432232314}");
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature(std::slice::from_ref(&key), id, 1_614_265_330, body), expected);
        let other = SigningKey::from_setting("whsec_FxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA").unwrap();
        let both = signature(&[other, key], id, 1_614_265_330, body);
        assert_eq!(both.split(' ').nth(1), Some(expected));
    }

    #[test]
    fn text_from_traffic_calls_nobody_and_fits() {
        let hostile = "<!channel> & \u{202e}".repeat(400);
        let message: Value = serde_json::from_str(&slack(&due(false, &hostile), BASE_URL)).unwrap();
        let text = message["blocks"][0]["text"]["text"].as_str().unwrap();
        assert!(!text.contains('<') && text.contains("&lt;!channel&gt;"), "{text}");
        assert!(text.chars().count() <= 3_000, "{}", text.chars().count());
        let shown = [&message["blocks"][0]["text"], &message["blocks"][1]["elements"][0]];
        assert!(shown.iter().all(|text| text["verbatim"] == true), "@here calls nobody: {message}");
        let links = shown[1]["text"].as_str().unwrap();
        assert!(
            links.contains("<https://lens.example.com/triage?service=a&amp;time=received|Triage>")
        );
        assert!(message["text"].as_str().unwrap().starts_with("CRITICAL Retrylens429Spike: api"));
        let over = slack(&due(true, "checkout"), BASE_URL);
        assert!(over.contains("RESOLVED: api.example.com answers checkout with 429"), "{over}");
    }
}
