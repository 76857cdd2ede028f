//! Telling others of alerts: receivers that limit, fail and vanish, a real Alertmanager, and a server
//! that answers as Grafana does.

pub(crate) mod alertmanager;
mod delivery;
mod grafana;
pub(crate) mod receiver;

use retrylens::clock::{Clock, SystemClock};
use retrylens::config::{Config, Sources};
use retrylens::domain::alerts::evaluate::{Finding, Met};
use retrylens::domain::alerts::notice::{self, Addressee, Subject};
use retrylens::domain::alerts::{AlertState, Notice, Rule, Severity, Transition};
use retrylens::domain::time::{MINUTE_MS, Millis, UnixMillis};
use retrylens::export::links;
use retrylens::metrics::{Caps, Exposition, Metrics};
use retrylens::notify::Notifier;
use retrylens::store::{Changed, Delivery, Evaluation, Order, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The key that webhooks are signed with in tests.
pub(crate) const KEY: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

fn now() -> UnixMillis {
    SystemClock.now()
}

/// A store in a file of its own.
pub(crate) async fn store() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    (Store::open(&url).await.unwrap(), folder)
}

/// Lets the spike of a service fire or end, as an evaluation of one of the last minutes does; the key
/// of that change.
pub(crate) async fn change(
    store: &Store,
    service: &str,
    what: Transition,
    receivers: &[&str],
) -> String {
    loop {
        // Another process may evaluate at the same time.
        if let Some(key) = try_change(store, service, what, receivers).await {
            return key;
        }
    }
}

async fn try_change(
    store: &Store,
    service: &str,
    what: Transition,
    receivers: &[&str],
) -> Option<String> {
    let (before, known) = store.known_alerts().await.unwrap();
    let present = now().0 / MINUTE_MS;
    let minute = before.map_or(present - 5, |before| (before + 1).min(present));
    let at = UnixMillis(minute * MINUTE_MS);
    let rule = Rule::named("Retrylens429Spike").unwrap();
    let subject = Subject {
        service: service.to_owned(),
        upstream: "api.example.com".to_owned(),
        environment: String::new(),
    };
    let known = known.into_iter().find(|known| known.subject == subject);
    let fired_at = known.as_ref().and_then(|known| known.state.fired_at()).unwrap_or(at);
    let active_since = fired_at.plus(Millis(-2 * MINUTE_MS));
    let state = match what {
        Transition::Resolved => AlertState::Resolved { active_since, fired_at, resolved_at: at },
        _ => AlertState::Firing { active_since, fired_at, false_since: None },
    };
    let view = notice::view(rule, &subject, &state, at).unwrap();
    let base = "http://lens.example.com";
    let notice = Notice {
        key: notice::key(rule, &subject, what, &state),
        alert: rule.name.to_owned(),
        severity: rule.severity,
        subject: subject.clone(),
        change: what,
        at,
        state,
        summary: format!("api.example.com answers {service} with 429"),
        description: "52% of the attempts of the last 5 minutes got 429.".to_owned(),
        runbook_url: links::runbook(base, rule),
        dashboard_url: Some(links::triage(base, &view)),
        value: None,
        readings: Vec::new(),
    };
    let key = notice.key.clone();
    let finding = Finding { met: Met::Yes, value: None, readings: Vec::new() };
    let changes = known.map_or(0, |known| known.changes) + 1;
    let changed =
        Changed { rule, subject, change: what, state, changes, finding, notice: Some(notice) };
    let receivers = receivers
        .iter()
        .map(|name| Addressee { name: (*name).to_owned(), severities: Severity::ALL.to_vec() });
    let evaluation = Evaluation {
        before,
        minute,
        changed: vec![changed],
        going_on: Vec::new(),
        receivers: receivers.collect(),
    };
    store.add_evaluation(&evaluation).await.unwrap().then_some(key)
}

/// The settings of a webhook `pager`, as `--set` takes them.
pub(crate) fn pager(url: &str) -> String {
    format!(r#"[{{name = "pager", kind = "webhook", url = "{url}", secret_env = "PAGER_KEY"}}]"#)
}

/// Settings with quick attempts; further ones may follow and win.
fn settings(receivers: &str, more: &[(&str, &str)]) -> Config {
    let quick = [
        ("receivers", receivers),
        ("notify_poll_ms", "20"),
        ("notify_base_ms", "40"),
        ("notify_timeout_ms", "2000"),
        ("notify_later_base_ms", "100"),
        ("notify_later_max_wait_ms", "200"),
    ];
    let flags = quick.iter().chain(more).map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    let environment = vec![("PAGER_KEY".to_owned(), KEY.to_owned())];
    Config::load(&Sources { flags: flags.collect(), environment, file: None }).unwrap()
}

/// A notifier at work. It ends when it is dropped, or in order by [`Self::end`].
struct Running {
    metrics: Metrics,
    end: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(store: &Store, config: &Config) -> Self {
        let metrics = Metrics::new(Caps { services: 9, upstreams: 9, pairs: 9 });
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let base = "http://lens.example.com".to_owned();
        let notifier =
            Notifier::new(store.clone(), metrics.clone(), clock, config.notify.clone(), base);
        let end = CancellationToken::new();
        let task = tokio::spawn(notifier.unwrap().run(end.clone()));
        Self { metrics, end, task }
    }

    async fn end(self) {
        self.end.cancel();
        self.task.await.unwrap();
    }

    /// What `/metrics` counts for `pager`.
    fn counted(&self, result: &str) -> String {
        self.value("retrylens_notifications", result)
    }

    /// Whether `/metrics` has `pager` as gone: 1 or 0.
    fn gone(&self) -> String {
        self.value("retrylens_receiver_gone", "pager")
    }

    /// The value of the first series of a family with a label of that value.
    fn value(&self, family: &str, label: &str) -> String {
        let text = Exposition::Text.write(&self.metrics.snapshot(now()));
        let label = format!("\"{label}\"");
        let line = text.lines().find(|line| line.starts_with(family) && line.contains(&label));
        line.map_or_else(|| text.clone(), |line| line.rsplit(' ').next().unwrap().to_owned())
    }
}

/// Waits until `is_so`, at most ten seconds.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: not within 10 s");
}

async fn waiting(store: &Store) -> Vec<Delivery> {
    store.deliveries(Order::Waiting, 100).await.unwrap()
}

async fn ended(store: &Store) -> Vec<Delivery> {
    store.deliveries(Order::Ended, 100).await.unwrap()
}
