//! Everything at once and by the real clock: the program, a Prometheus that scrapes it and has the
//! exported rules, and an Alertmanager. The short form takes two minutes, the long one less than six.

use crate::notify::alertmanager::Alertmanager;
use crate::notify::receiver::{Receiver, Reply};
use crate::support::Process;
use crate::support::prometheus::{Prometheus, free_address};
use retrylens::domain::time::UnixMillis;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The trace of every event that is sent.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

struct Live {
    program: Process,
    prometheus: Prometheus,
    alertmanager: Alertmanager,
    base: String,
    told: Receiver,
    sent: u64,
    _folders: [tempfile::TempDir; 2],
}

/// How the alert stands: since when it is true, and whether it fires.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stands {
    since: UnixMillis,
    fires: bool,
}

impl Live {
    async fn start() -> Self {
        let told = Receiver::start(|_| Reply::ok()).await;
        let alertmanager = Alertmanager::start(&told.url).await;
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let address = free_address().to_string();
        let base = format!("http://{address}");
        let receivers = format!(
            r#"[{{name = "am", kind = "alertmanager", url = "http://{}"}}]"#,
            alertmanager.address
        );
        let environment = [
            ("RETRYLENS_LISTEN", address.as_str()),
            ("RETRYLENS_PUBLIC_URL", base.as_str()),
            ("RETRYLENS_RECEIVERS", receivers.as_str()),
            ("RETRYLENS_NOTIFY_POLL_MS", "100"),
        ];
        let program = Process::serve(folders[0].path(), &[], &environment);
        // As somebody who follows the documentation.
        let rules = program.get("/api/v1/export/rules?format=prometheus");
        let (head, rules) = rules.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        std::fs::write(folders[1].path().join("rules.yml"), rules).unwrap();
        let settings = json!({
            "global": {"scrape_interval": "5s", "evaluation_interval": "1m"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{
                "job_name": "retrylens",
                "static_configs": [{"targets": [address]}],
            }],
        });
        let prometheus = Prometheus::start(
            folders[1].path(),
            &settings.to_string(),
            &["--enable-feature=exemplar-storage"],
        );
        Self { program, prometheus, alertmanager, base, told, sent: 0, _folders: folders }
    }

    fn send(&mut self, fields: &[Value]) {
        let whole = |fields: &Value| {
            self.sent += 1;
            let now = retrylens::clock::Clock::now(&retrylens::clock::SystemClock);
            let mut event = json!({"event_id": format!("live-{}", self.sent),
                "occurred_at": now.to_rfc3339(), "service": "checkout", "host": "api.example.com",
                "trace_id": TRACE, "span_id": "00f067aa0ba902b7", "duration_ms": 20});
            for (name, value) in fields.as_object().unwrap() {
                event[name] = value.clone();
            }
            event
        };
        let events: Vec<Value> = fields.iter().map(whole).collect();
        let (status, answer) = self.program.post("/v1/events", &json!(events)).unwrap();
        assert!(status == 200 && answer.contains("\"rejected\":[]"), "{answer}");
    }

    /// How an alert stands in Prometheus.
    fn in_prometheus(&self, name: &str) -> Option<Stands> {
        let alerts = self.prometheus.get("alerts", &[]);
        let alerts = alerts["alerts"].as_array().unwrap();
        let alert = alerts.iter().find(|one| {
            one["labels"]["alertname"] == name && one["labels"]["service"] == "checkout"
        })?;
        let since = UnixMillis::parse_rfc3339(alert["activeAt"].as_str()?).unwrap();
        Some(Stands { since, fires: alert["state"] == "firing" })
    }

    /// How it stands with us, and its number.
    fn with_us(&self, name: &str) -> Option<(i64, Stands)> {
        let answer = self.program.get(&format!("/api/v1/alerts?alert={name}&service=checkout"));
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let alerts: Value = serde_json::from_str(body).unwrap();
        let alert = &alerts["items"][0];
        let since = UnixMillis::parse_rfc3339(alert["active_since"].as_str()?)?;
        Some((alert["id"].as_i64()?, Stands { since, fires: alert["state"] == "firing" }))
    }

    /// Follows a link from a message.
    fn follow(&self, link: &str) -> String {
        let path = link.strip_prefix(&self.base).unwrap_or_else(|| panic!("{link}"));
        let page = self.program.get(path.split('#').next().unwrap());
        assert!(page.starts_with("HTTP/1.1 200"), "{link}: {page}");
        page
    }

    /// Sends `calm` until Prometheus has seen it, then `storm` every few seconds until the alert
    /// fires on both sides and in the Alertmanager; each within a minute of the other.
    async fn fires_everywhere(&mut self, name: &str, calm: &[Value], storm: &[Value], limit: u64) {
        let begun = Instant::now();
        let scraped = |live: &Self| {
            let asked = [("query", "count(retrylens_requests_total{service=\"checkout\"})")];
            live.prometheus.get("query", &asked)["result"][0].is_object()
        };
        while !scraped(self) {
            self.send(calm);
            assert!(begun.elapsed() < Duration::from_mins(1), "{}", self.prometheus.said());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let mut fired = [None::<Instant>; 2];
        while fired.iter().any(Option::is_none) {
            assert!(begun.elapsed() < Duration::from_secs(limit), "{name}: {fired:?}");
            self.send(storm);
            let fires = [
                self.with_us(name).is_some_and(|(_, one)| one.fires),
                self.in_prometheus(name).is_some_and(|one| one.fires),
            ];
            for (at, fires) in fired.iter_mut().zip(fires) {
                *at = at.or_else(|| fires.then(Instant::now));
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let [ours, theirs] = fired.map(Option::unwrap);
        let apart = ours.max(theirs) - ours.min(theirs);
        // They were looked at every two seconds.
        assert!(apart <= Duration::from_secs(64), "{apart:?}");
        let (id, us) = self.with_us(name).unwrap();
        let them = self.in_prometheus(name).unwrap();
        let apart = us.since.since(them.since).0.abs();
        assert!(apart <= 60_000, "{us:?} {them:?}");

        let mut told = None;
        for _ in 0..100 {
            let alerts = self.alertmanager.alerts().await;
            told = alerts.into_iter().find(|one| one["labels"]["alertname"] == name);
            if told.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let alert = told.expect("the Alertmanager has it");
        let generator = alert["generatorURL"].as_str().unwrap();
        assert_eq!(generator, format!("{}/alerts/{id}", self.base));
        let page = self.follow(generator);
        assert!(page.contains(name) && page.contains("firing"), "{page}");
        let runbook = alert["annotations"]["runbook_url"].as_str().unwrap();
        let (_, anchor) = runbook.split_once('#').unwrap();
        let page = self.follow(runbook);
        assert!(page.contains(&format!("<h2 id=\"{anchor}\"")), "{runbook}");
        let triage = self.follow(alert["annotations"]["dashboard_url"].as_str().unwrap());
        assert!(triage.contains("checkout") && triage.contains("api.example.com"), "{triage}");
        for _ in 0..100 {
            if !self.told.seen().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let message = self.told.seen().first().expect("the Alertmanager tells others").json();
        assert_eq!(message["status"], "firing");
    }

    /// The trace ids of the exemplars that Prometheus keeps of a family.
    fn exemplars(&self, family: &str) -> Vec<String> {
        let now = retrylens::clock::Clock::now(&retrylens::clock::SystemClock).0 / 1_000;
        let (start, end) = ((now - 600).to_string(), (now + 60).to_string());
        let asked = [("query", family), ("start", start.as_str()), ("end", end.as_str())];
        let found = self.prometheus.get("query_exemplars", &asked);
        let series = found.as_array().unwrap().iter();
        let all = series.flat_map(|one| one["exemplars"].as_array().unwrap());
        all.map(|one| one["labels"]["trace_id"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_an_alert_starts_in_both_forms_and_its_links_lead_to_its_pages() {
    let mut live = Live::start().await;
    let calm = [json!({"status": 200, "count": 30})];
    // A write that timed out and was sent again without a key.
    let lost = json!({"method": "POST", "error": "timeout", "outcome": "retrying",
        "operation_id": "op-1"});
    let again = json!({"method": "POST", "status": 201, "attempt": 2, "operation_id": "op-1"});
    live.fires_everywhere("RetrylensDuplicateWrites", &calm, &[lost, again], 180).await;
    let traces = live.exemplars("retrylens_attempts_total");
    assert!(!traces.is_empty() && traces.iter().all(|trace| trace == TRACE), "{traces:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes five minutes; `make test-long` runs it"]
async fn live_a_spike_is_pending_and_fires_in_both_forms() {
    let mut live = Live::start().await;
    let calm = [json!({"status": 200, "count": 10})];
    let storm = [
        json!({"status": 200, "count": 6}),
        json!({"status": 429, "outcome": "retrying", "retry_after": "30", "count": 6,
            "headers": {"server": "cloudflare"}, "body_sample": "error code: 1015"}),
        json!({"status": 200, "attempt": 2, "count": 6}),
    ];
    live.fires_everywhere("Retrylens429Spike", &calm, &storm, 340).await;
    assert!(!live.exemplars("retrylens_rate_limited_total").is_empty());
}
