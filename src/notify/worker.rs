//! Tells receivers what the outbox of the store holds.
//!
//! There is a task for each receiver, so that one that is slow or away holds up nobody else. A task
//! takes one notification after the other under a lease, which no other process can take meanwhile,
//! sends it, and keeps what became of it. A process that dies in between leaves the lease to run out;
//! what it may have sent is then sent once more with the same key, by which the receiver knows it.
//!
//! Attempts that follow soon are made in one go, events on one span. What a receiver asks to wait for
//! longer, or what failed several times, goes back to the outbox with the moment of its next go, so
//! that a restart changes nothing about it. When the receiver takes something, what waits only because
//! it failed is tried at once: an alert isn't late by an hour since its receiver was away for some
//! minutes.
//!
//! What a receiver asks for, and that it is gone (410), stands in the store beside the outbox, and is
//! looked up before anything is sent: so it counts for every process, and over a restart. One that is
//! gone is tried again when a process starts, since that is when somebody may have put it right.

use super::client::{Answer, Client, ClientError, Outgoing};
use super::message;
use crate::clock::Clock;
use crate::config::notify::{Notify, Receiver, ReceiverKind};
use crate::domain::alerts::ReceiverKey;
use crate::domain::retry_policy::{Budget, Failure, Gate, Next, Stop};
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};
use crate::metrics::{Metrics, Notified};
use crate::store::{Due, ReceiverHold, Sent, Store, StoreError};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Bytes of an answer that are read: enough for what it says about an error.
const MOST_BYTES: usize = 4_096;
/// For how many of its intervals an Alertmanager believes what it was told: Prometheus has it so.
const BELIEVED: i64 = 4;
/// How long an Alertmanager is told of what is over: Prometheus has it so.
const OVER_TOLD: Millis = Millis(15 * MINUTE_MS);
/// Most alerts in one body.
const BATCH: usize = 100;
/// How often it is looked for what waits for receivers that are no more.
const SWEEP: Duration = Duration::from_hours(1);

/// Tells receivers of alerts.
#[derive(Debug)]
pub struct Notifier {
    store: Store,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    client: Client,
    settings: Notify,
    base: String,
}

/// One receiver, and what is known of it.
struct Line<'a> {
    of: &'a Notifier,
    receiver: &'a Receiver,
    key: ReceiverKey,
    budget: Budget,
    /// What the receiver asked this process for, should the store fail to keep it.
    gate: Gate,
    /// Whether it was noted that the receiver may be there again.
    has_begun: bool,
    end: &'a CancellationToken,
}

impl Notifier {
    /// Links begin with `base`, without a slash at its end.
    pub fn new(
        store: Store,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
        settings: Notify,
        base: String,
    ) -> Result<Self, ClientError> {
        let client = Client::new(settings.timeout, Arc::clone(&clock))?;
        for receiver in &settings.receivers {
            metrics.learn_receiver(receiver.name());
        }
        Ok(Self { store, metrics, clock, client, settings, base })
    }

    /// Sends what is due until `end` is cancelled; an attempt under way is finished before.
    pub async fn run(self, end: CancellationToken) {
        let lines = self.settings.receivers.iter().map(|receiver| {
            let line = Line {
                of: &self,
                receiver,
                key: receiver.key(),
                budget: self.settings.budget,
                gate: Gate::default(),
                has_begun: false,
                end: &end,
            };
            line.run()
        });
        tokio::join!(join_all(lines), self.sweep(&end));
    }

    /// Gives up what waits too long for receivers that take nothing or were taken out of the settings.
    async fn sweep(&self, end: &CancellationToken) {
        let known: Vec<&str> = self.settings.receivers.iter().map(Receiver::name).collect();
        loop {
            let now = self.clock.now();
            let since = now.plus(Millis(-self.settings.later.deadline.0));
            match self.store.drop_unknown(&known, since, now).await {
                Ok(0) => {}
                Ok(n) => {
                    tracing::warn!("{n} notifications wait for no receiver any more; given up");
                }
                Err(error) => warn(&error, "old notifications could not be given up"),
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP) => {}
                () = end.cancelled() => return,
            }
        }
    }
}

impl Line<'_> {
    async fn run(mut self) {
        let resend = Duration::from_millis(self.of.settings.resend.0.unsigned_abs());
        let mut looked: Option<Instant> = None;
        while self.pause(self.of.settings.poll).await {
            if let Err(error) = self.send_due().await {
                warn(&error, "what is to be told could not be read or kept; trying again");
            }
            // Often enough to be in time, seldom enough to cost nothing.
            let is_time = looked.is_none_or(|at| at.elapsed() >= resend / 12);
            if self.receiver.kind == ReceiverKind::Alertmanager && is_time {
                looked = Some(Instant::now());
                if let Err(error) = self.tell_again().await {
                    warn(&error, "an Alertmanager could not be told again; trying again");
                }
            }
        }
    }

    /// Waits; `false` where the end came first.
    async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.end.cancelled() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    /// Whether anything may be sent to the receiver now.
    async fn is_open(&mut self) -> Result<bool, StoreError> {
        let (of, name) = (self.of, self.receiver.name());
        if !self.has_begun {
            of.store.forget_gone(name).await?;
            self.has_begun = true;
        }
        let (hold, now) = (of.store.hold(&self.key).await?, of.clock.now());
        of.metrics.receiver_gone(name, hold.is_lost(now));
        let is_open = hold.is_open(now) && self.gate.closed_until(now).is_none();
        Ok(is_open && !self.end.is_cancelled())
    }

    async fn send_due(&mut self) -> Result<(), StoreError> {
        let of = self.of;
        while self.is_open().await? {
            let (now, lease) = (of.clock.now(), of.settings.lease());
            let taken = of.store.take_due(self.receiver.name(), now, lease, 1).await?;
            let Some(due) = taken.first() else { break };
            let sent = self.deliver(due).await;
            if let Sent::Gone { error } = &sent {
                self.leave_alone(error).await?;
            }
            of.store.record_sent(due, &sent, of.clock.now()).await?;
        }
        Ok(())
    }

    /// The receiver said that it is gone: nothing more is sent to it, by whichever process.
    async fn leave_alone(&self, said: &str) -> Result<(), StoreError> {
        self.of.store.note_gone(&self.key, self.of.clock.now()).await?;
        tracing::error!(
            receiver = self.receiver.name(),
            "a receiver is gone: it {said}; nothing is sent to it until its address is put right or \
             a process starts anew, and what it is to be told waits for notify_give_up_ms"
        );
        Ok(())
    }

    /// One go: attempts until it is delivered, can't be, or has to wait for longer.
    async fn deliver(&mut self, due: &Due) -> Sent {
        let span = tracing::info_span!(
            "notify.deliver",
            otel.kind = "client",
            receiver = self.receiver.name(),
            receiver.kind = self.receiver.kind.as_str(),
            alert = due.notice.alert,
            change = due.notice.change.as_str(),
            notification.key = due.notice.key,
            notification.go = due.go,
            attempts = Empty,
            outcome = Empty,
        );
        self.attempts(due).instrument(span).await
    }

    async fn attempts(&mut self, due: &Due) -> Sent {
        let (of, begun) = (self.of, Instant::now());
        let policy = of.settings.soon;
        self.budget.add_first();
        let mut attempt = 1;
        let (failure, said, stop) = loop {
            let result = self.send(due).await;
            let (failure, said) = match &result {
                Ok(answer) if answer.is_success() => {
                    ended("delivered", attempt);
                    of.metrics.notified(self.receiver.name(), Notified::Delivered);
                    tracing::info!(
                        receiver = self.receiver.name(),
                        alert = due.notice.alert,
                        change = due.notice.change.as_str(),
                        attempt,
                        "a receiver was told of an alert"
                    );
                    return Sent::Delivered;
                }
                Ok(answer) => (answer.failure(), answer.shown()),
                Err(error) => (Failure::NoAnswer, error.to_string()),
            };
            let elapsed = Millis(i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX));
            let next = match policy.next(failure, attempt, elapsed, rand::random()) {
                Next::Wait(_) if !self.budget.take() => Next::Stop(Stop::Budget),
                next => next,
            };
            let Next::Wait(wait) = next else {
                let Next::Stop(stop) = next else { continue };
                break (failure, said, stop);
            };
            of.metrics.notified(self.receiver.name(), Notified::Failed);
            self.hold_back(failure).await;
            let next_at = of.clock.now().plus(wait);
            if let Err(error) = of.store.note_failed(due, &said, next_at).await {
                warn(&error, "why an attempt failed could not be kept");
            }
            tracing::warn!(
                receiver = self.receiver.name(),
                attempt,
                wait_ms = wait.0,
                promised_ms = failure.promised().map(|wait| wait.0),
                "retry: the receiver {said}; trying again after {} ms",
                wait.0
            );
            if !self.pause(Duration::from_millis(wait.0.unsigned_abs())).await {
                // The next go begins where this one would have gone on.
                ended("interrupted", attempt);
                return Sent::Failed { error: said, next_at: of.clock.now().plus(wait) };
            }
            let hold = self.hold().await;
            if !hold.is_open(of.clock.now()) {
                // Another process was asked to wait, or to send no more.
                ended("later", attempt);
                return Sent::Failed { error: said, next_at: hold.until.max(of.clock.now()) };
            }
            attempt += 1;
            if let Err(error) = of.store.note_attempt(due).await {
                warn(&error, "an attempt could not be counted");
            }
        };
        self.later(due, failure, &said, stop, attempt).await
    }

    /// What becomes of a notification that can't be delivered in this go.
    async fn later(
        &mut self,
        due: &Due,
        failure: Failure,
        said: &str,
        stop: Stop,
        attempts: u32,
    ) -> Sent {
        let (of, policy, now) = (self.of, self.of.settings.later, self.of.clock.now());
        let go = u32::try_from(due.go).unwrap_or(u32::MAX);
        let wait = policy.wait(failure, go, rand::random());
        let is_too_late = now.since(due.made_at).0.saturating_add(wait.0) > policy.deadline.0;
        let receiver = self.receiver.name();
        if failure.is_gone() {
            ended("gone", attempts);
            of.metrics.notified(receiver, Notified::Failed);
            return Sent::Gone { error: said.to_owned() };
        }
        self.hold_back(failure).await;
        let given_up = match stop {
            Stop::Final => Some("it can't succeed".to_owned()),
            Stop::PromisedTooLong if is_too_late => {
                let until = now.plus(wait).to_rfc3339();
                Some(format!("it asks to wait until {until}, after notify_give_up_ms"))
            }
            _ if is_too_late => Some("notify_give_up_ms is over".to_owned()),
            _ if go >= policy.attempts => Some("notify_later_attempts were made".to_owned()),
            _ => None,
        };
        if let Some(why) = given_up {
            ended("dropped", attempts);
            of.metrics.notified(receiver, Notified::Dropped);
            tracing::error!(
                receiver,
                alert = due.notice.alert,
                change = due.notice.change.as_str(),
                "a receiver is not told of an alert: it {said}; given up, since {why}"
            );
            return Sent::Dropped { error: format!("{said}; given up: {why}") };
        }
        ended("later", attempts);
        of.metrics.notified(receiver, Notified::Failed);
        let next_at = now.plus(wait);
        tracing::warn!(
            receiver,
            go,
            wait_ms = wait.0,
            promised_ms = failure.promised().map(|wait| wait.0),
            "the receiver {said}; it is told from {} on",
            next_at.to_rfc3339()
        );
        Sent::Failed { error: said.to_owned(), next_at }
    }

    /// Where the receiver asked to wait, nothing else is sent to it for that long either, by whichever
    /// process. What failed by itself waits for longer, by its own jitter. A refusal that no wait helps
    /// says nothing about anything else.
    async fn hold_back(&mut self, failure: Failure) {
        let Some(promised) = failure.promised().filter(|_| !failure.is_final()) else { return };
        let until = self.of.clock.now().plus(promised);
        self.gate.close_until(until);
        if let Err(error) = self.of.store.hold_back(&self.key, until).await {
            warn(&error, "other processes can't be told that a receiver asks to wait");
        }
        if (ReceiverHold { until, gone_at: None }).is_lost(self.of.clock.now()) {
            tracing::error!(
                receiver = self.receiver.name(),
                "a receiver asked with Retry-After for nothing before {}; nothing is sent to it until \
                 then, and what waits for longer than notify_give_up_ms is given up",
                until.to_rfc3339()
            );
        }
    }

    /// What the receiver asked for by now, of whichever process.
    async fn hold(&self) -> ReceiverHold {
        self.of.store.hold(&self.key).await.unwrap_or_else(|error| {
            warn(&error, "what a receiver asked other processes for can't be read");
            ReceiverHold::default()
        })
    }

    /// One attempt.
    async fn send(&self, due: &Due) -> Result<Answer, super::client::NoAnswer> {
        let (of, now) = (self.of, self.of.clock.now());
        match self.receiver.kind {
            ReceiverKind::Alertmanager => {
                let alert = self.for_alertmanager(due, now);
                self.post(&Value::Array(vec![alert]).to_string(), &[]).await
            }
            ReceiverKind::Slack => self.post(&message::slack(due, &of.base), &[]).await,
            ReceiverKind::Webhook => {
                let body = message::webhook(due, &of.base);
                let (key, seconds) = (&due.notice.key, now.0.div_euclid(1_000));
                let signature = message::signature(&self.receiver.keys, key, seconds, &body);
                let seconds = seconds.to_string();
                let headers = [
                    ("webhook-id", key.as_str()),
                    ("webhook-timestamp", &seconds),
                    ("webhook-signature", &signature),
                ];
                self.post(&body, &headers).await
            }
        }
    }

    fn for_alertmanager(&self, due: &Due, now: UnixMillis) -> Value {
        let believe = Millis(self.of.settings.resend.0.saturating_mul(BELIEVED));
        message::alertmanager(due, &self.of.base, now, believe)
    }

    async fn post(
        &self,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, super::client::NoAnswer> {
        let token = self.receiver.token.as_ref().map(|token| format!("Bearer {}", token.expose()));
        let token = token.as_deref().map(|token| ("authorization", token));
        let headers: Vec<_> = headers.iter().copied().chain(token).collect();
        let request = Outgoing {
            method: Method::POST,
            url: self.receiver.url.expose(),
            headers: &headers,
            body: Some(body),
            most_bytes: MOST_BYTES,
        };
        self.of.client.send(&request).await
    }

    /// Tells an Alertmanager again what fires and what ended of late. What fails is told the next
    /// time, well before it takes an alert for over; and so is what fires and was given up, since an
    /// address that was wrong for a while hides nothing that goes on.
    async fn tell_again(&mut self) -> Result<(), StoreError> {
        if !self.is_open().await? {
            return Ok(());
        }
        let (of, now) = (self.of, self.of.clock.now());
        let since = now.plus(Millis(-OVER_TOLD.0));
        let (name, every) = (self.receiver.name(), of.settings.resend);
        let known = of.store.take_known(name, now, of.settings.lease(), every, since).await?;
        let (mut failed, mut told) = (None, 0);
        for batch in known.chunks(BATCH) {
            if let Err((failure, said)) = self.tell_batch(batch, now).await {
                if failure.is_gone() {
                    self.leave_alone(&said).await?;
                }
                self.hold_back(failure).await;
                failed = Some(said);
                break;
            }
            told += batch.len();
        }
        of.store.told_again(&known, told, of.clock.now()).await?;
        if let Some(said) = failed {
            of.metrics.notified(name, Notified::Failed);
            tracing::warn!(
                receiver = name,
                alerts = known.len(),
                "an Alertmanager {said} when told again what fires; trying again"
            );
        } else if !known.is_empty() {
            of.store.bring_forward(name, of.clock.now()).await?;
        }
        Ok(())
    }

    async fn tell_batch(&self, batch: &[Due], now: UnixMillis) -> Result<(), (Failure, String)> {
        let alerts: Vec<Value> = batch.iter().map(|due| self.for_alertmanager(due, now)).collect();
        let span = tracing::info_span!(
            "notify.tell_again",
            otel.kind = "client",
            receiver = self.receiver.name(),
            alerts = batch.len()
        );
        let sent = self.post(&Value::Array(alerts.clone()).to_string(), &[]).instrument(span).await;
        let answer = sent.map_err(|error| (Failure::NoAnswer, error.to_string()))?;
        if answer.is_success() {
            return Ok(());
        }
        // One bad alert spoils the answer for all, and the others were taken (Alertmanager 0.25).
        if answer.status != 400 || batch.len() == 1 {
            return Err((answer.failure(), answer.shown()));
        }
        let mut result = Ok(());
        for alert in alerts {
            match self.post(&Value::Array(vec![alert]).to_string(), &[]).await {
                Ok(answer) if answer.is_success() => {}
                Ok(answer) => result = Err((answer.failure(), answer.shown())),
                Err(error) => return Err((Failure::NoAnswer, error.to_string())),
            }
        }
        result
    }
}

/// Says on the present span how a go ended.
fn ended(outcome: &str, attempts: u32) {
    let span = tracing::Span::current();
    span.record("outcome", outcome);
    span.record("attempts", attempts);
}

fn warn(error: &StoreError, what: &'static str) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "{what}");
}
