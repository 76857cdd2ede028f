//! Debian's Alertmanager as a receiver.

use super::receiver::{Receiver, Reply, Seen};
use super::{change, ended, store, until};
use crate::support::Process;
use crate::support::http::in_one_piece;
use retrylens::domain::alerts::Transition::{Fired, Resolved};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// A running Alertmanager with a folder of its own. It is killed when dropped.
pub(crate) struct Alertmanager {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Alertmanager {
    /// Tells `webhook` at once of everything.
    pub(crate) async fn start(webhook: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "route: {{receiver: test, group_by: [alertname, service], group_wait: 0s, \
             group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: test, webhook_configs: [{{url: '{webhook}'}}]}}]\n"
        );
        let file = folder.path().join("alertmanager.yml");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--cluster.listen-address=")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus-alertmanager, which `make packages` installs");
        let own = Self { child, address, folder };
        until("Alertmanager starts", async || own.get("/-/ready").await.is_some()).await;
        own
    }

    /// The answer, if it is one.
    async fn get(&self, path: &str) -> Option<String> {
        let (address, path) = (self.address, path.to_owned());
        let asking = tokio::task::spawn_blocking(move || in_one_piece(address, &path));
        let answer = asking.await.unwrap()?;
        (answer.status == 200).then_some(answer.text)
    }

    pub(crate) async fn alerts(&self) -> Vec<Value> {
        let text = self.get("/api/v2/alerts").await.unwrap_or_else(|| "[]".to_owned());
        serde_json::from_str(&text).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_alertmanager_hears_that_an_alert_fires_and_that_it_is_over() {
    let (store, folder) = store().await;
    let told = Receiver::start(|_| Reply::ok()).await;
    let alertmanager = Alertmanager::start(&told.url).await;
    change(&store, "checkout", Fired, &["am"]).await;
    let receivers = format!(
        r#"[{{name = "am", kind = "alertmanager", url = "http://{}"}}]"#,
        alertmanager.address
    );
    let environment = [
        ("RETRYLENS_RECEIVERS", receivers.as_str()),
        ("RETRYLENS_NOTIFY_POLL_MS", "50"),
        ("RETRYLENS_NOTIFY_RESEND_MS", "500"),
        ("RETRYLENS_PUBLIC_URL", "http://lens.example.com"),
    ];
    let process = Process::serve(folder.path(), &[], &environment);
    until("it fires there", async || !alertmanager.alerts().await.is_empty()).await;
    let alert = alertmanager.alerts().await.remove(0);
    assert_eq!(alert["labels"]["alertname"], "Retrylens429Spike", "{}", alertmanager.log());
    assert_eq!(alert["labels"]["service"], "checkout");
    assert_eq!(alert["labels"]["severity"], "critical");
    assert_eq!(alert["status"]["state"], "active");
    // Its links lead to pages of ours; the host is the public one.
    let link = alert["annotations"]["dashboard_url"].as_str().unwrap();
    let path = link.strip_prefix("http://lens.example.com").unwrap();
    let page = process.get(path);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("checkout"), "{page}");
    assert!(alert["generatorURL"].as_str().unwrap().starts_with("http://lens.example.com/alerts/"));

    // It is told again: it goes on firing beyond what it was told at first, which was two seconds.
    let first = alert["endsAt"].as_str().unwrap().to_owned();
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    let alert = alertmanager.alerts().await.remove(0);
    assert!(alert["endsAt"].as_str().unwrap() > first.as_str(), "{alert}");
    assert_eq!(alert["status"]["state"], "active");

    change(&store, "checkout", Resolved, &["am"]).await;
    until("it is over there", async || {
        told.seen().iter().any(|seen| seen.json()["status"] == "resolved")
    })
    .await;
    let messages: Vec<Value> = told.seen().iter().map(Seen::json).collect();
    assert_eq!(messages[0]["status"], "firing", "{messages:?}");
    let last = messages.last().unwrap();
    assert_eq!(last["alerts"][0]["status"], "resolved", "{last}");
    assert!(last["alerts"][0]["annotations"]["dashboard_url"].is_string());
    let over = ended(&store).await.remove(0);
    let (_, at) = over.of.notice.state.active().unwrap();
    let said = retrylens::domain::time::UnixMillis::parse_rfc3339(
        last["alerts"][0]["endsAt"].as_str().unwrap(),
    );
    assert_eq!(said, at, "its end is the evaluation that ended it");
    until("nothing fires there", async || alertmanager.alerts().await.is_empty()).await;
}
