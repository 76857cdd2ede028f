//! The task that evaluates the alert rules, once a minute, some seconds after the minute has ended.
//!
//! All that an evaluation needs is in the database: sums by time of receipt, how alerts stand, and
//! the last minute that was evaluated. So any replica can go on where another stopped, and a restart
//! neither fires nor forgets.
//!
//! Minutes that were missed are evaluated afterwards, one by one, each over the sums of its own
//! windows: what was received then doesn't change any more, so that the states are those that would
//! have been. Beyond [`MOST_MISSED`] minutes the rest is left out; what was pending before such a
//! gap starts anew, since nobody knows whether it stayed true, and what fires goes on.

use crate::clock::Clock;
use crate::domain::alerts::evaluate::{Finding, Met, Ratio, Reading};
use crate::domain::alerts::notice::{self, Addressee, Subject};
use crate::domain::alerts::{
    AlertSettings, AlertState, Cuts, Decimal, Hold, Notice, Pieces, RULES, Rule, Threshold,
    Transition, Watch, evaluate, is_met, is_silent,
};
use crate::domain::event::Vantage;
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};
use crate::export::links;
use crate::metrics::{Evaluated, Metrics, Operation};
use crate::store::{Changed, Evaluation, KnownAlert, PairOfSums, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long after the end of a minute it is evaluated, so that what was received in it is stored.
pub const DELAY: Millis = Millis(7_000);
/// How many missed minutes are evaluated afterwards.
pub const MOST_MISSED: i64 = 60;
/// By how many minutes the clock of the evaluations may be ahead, which is where ours was put back,
/// before it is put back as well.
const MOST_AHEAD: i64 = 10;
/// The longest time until it is looked again who evaluates.
const LOOK: Duration = Duration::from_secs(10);
/// How often what was noted beside the sums is kept: well within [`DELAY`].
const NOTING: Duration = Duration::from_secs(3);
/// How often, in minutes, what is old is removed.
const TIDYING: i64 = 60;

/// Evaluates the rules.
#[derive(Debug)]
pub struct Evaluator {
    store: Store,
    metrics: Metrics,
    settings: AlertSettings,
    /// What links begin with.
    base: String,
    receivers: Vec<Addressee>,
    /// All pieces of sums, and those of the rules that are evaluated every minute.
    cuts: [Cuts; 2],
    /// Who is furthest out of those that reported on a pair in the time that any rule looks back;
    /// empty until that was looked up.
    sources: BTreeMap<Subject, Vantage>,
    /// The newest minute that this process knows to be evaluated.
    done: Option<i64>,
}

impl Evaluator {
    /// Links begin with `base`, without a slash at its end; `receivers` are told of what they want.
    pub fn new(
        store: Store,
        metrics: Metrics,
        settings: AlertSettings,
        base: String,
        receivers: Vec<Addressee>,
    ) -> Self {
        for rule in RULES.iter().filter(|rule| is_ours(rule)) {
            metrics.learn_alert(rule.name);
        }
        let cuts = [Cuts::of(RULES), Cuts::of(RULES.iter().filter(|rule| rule.every == 1))];
        Self {
            store,
            metrics,
            settings,
            base,
            receivers,
            cuts,
            sources: BTreeMap::new(),
            done: None,
        }
    }

    /// Evaluates each minute, while this replica has the seat, until `end` is cancelled. Errors are
    /// logged and counted, and the minute is tried again.
    pub async fn run(mut self, clock: Arc<dyn Clock>, end: CancellationToken) {
        let mut seat = self.store.seat();
        let mut had_seat = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(until_next(clock.now())) => {}
                () = end.cancelled() => break,
            }
            let has_seat = seat.take().await.unwrap_or_else(|error| {
                self.metrics.store_failed(Operation::Read);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "who evaluates alerts can't be told; trying again");
                false
            });
            if has_seat && !had_seat {
                tracing::info!("this replica evaluates the alerts");
                // Another one may have done so in the meantime.
                self.sources.clear();
                self.done = None;
            } else if had_seat && !has_seat {
                tracing::warn!("this replica no longer evaluates the alerts");
            }
            had_seat = has_seat;
            if has_seat && let Err(error) = self.catch_up(clock.now()).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "alerts could not be evaluated; trying again");
            }
        }
        seat.leave().await;
    }

    /// Evaluates every minute that has ended, in order, and isn't evaluated yet; how many.
    ///
    /// # Errors
    /// Where the store fails. What was evaluated before stays.
    pub async fn catch_up(&mut self, now: UnixMillis) -> Result<usize, StoreError> {
        let due = now.plus(Millis(-DELAY.0)).0.div_euclid(MINUTE_MS);
        let mut evaluated = 0;
        if self.done.is_some_and(|done| done >= due) {
            return Ok(evaluated);
        }
        keep_noted(&self.store, &self.metrics).await?;
        loop {
            let read = self.store.known_alerts().await;
            let (before, known) = self.counted(due, read)?;
            let minute = match before {
                None => due,
                Some(before) if before > due + MOST_AHEAD => {
                    tracing::warn!(
                        "the clock was put back; alerts are evaluated from now on, and what was \
                         pending starts anew"
                    );
                    due
                }
                Some(before) if before >= due => {
                    self.done = Some(due);
                    return Ok(evaluated);
                }
                Some(before) => (before + 1).max(due - MOST_MISSED + 1),
            };
            let is_next = before.is_some_and(|before| before + 1 == minute);
            let result = self.evaluate(minute, before, known, is_next).await;
            if self.counted(minute, result)? {
                evaluated += 1;
            }
        }
    }

    /// Counts the evaluation of a minute that failed.
    fn counted<T>(&self, minute: i64, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            for rule in due_rules(minute) {
                self.metrics.evaluated(rule.name, Evaluated::Failed);
            }
        }
        result
    }

    /// Evaluates a minute; `false` where another process has done so in the meantime.
    #[tracing::instrument(name = "alerts.evaluate", level = "debug", skip_all, fields(minute))]
    async fn evaluate(
        &mut self,
        minute: i64,
        before: Option<i64>,
        known: Vec<KnownAlert>,
        is_next: bool,
    ) -> Result<bool, StoreError> {
        let at = UnixMillis(minute.saturating_mul(MINUTE_MS));
        let reads_all = self.sources.is_empty() || due_rules(minute).any(|rule| rule.every > 1);
        let cuts = if reads_all { self.cuts[0].clone() } else { self.cuts[1].clone() };
        let sums = self.store.alert_sums(minute, &cuts).await?;
        let pairs = self.judged(sums, reads_all).await?;
        let last = self.store.last_event_before(minute).await?;
        let mut evaluation = Evaluation {
            before,
            minute,
            changed: Vec::new(),
            going_on: Vec::new(),
            receivers: self.receivers.clone(),
        };
        let mut standing: BTreeMap<(String, Subject), KnownAlert> = known
            .into_iter()
            .map(|known| ((known.rule.clone(), known.subject.clone()), known))
            .collect();
        for rule in due_rules(minute) {
            let mut seen = Vec::new();
            match &rule.watch {
                Watch::Pair(condition) => {
                    for (subject, pieces) in &pairs {
                        let own = self.settings.of(&subject.service, &subject.upstream);
                        let wait = own.get(Threshold::WaitSeconds).millionths() / Decimal::ONE;
                        let sums = pieces.waiting(&cuts, wait);
                        let known = standing.get(&(rule.name.to_owned(), subject.clone()));
                        // Most are calm: nobody asks for their numbers.
                        if known.is_some_and(|known| is_on(&known.state))
                            || is_met(condition, &own, &sums) != Met::No
                        {
                            seen.push((subject.clone(), evaluate(condition, &own, &sums)));
                        }
                    }
                }
                Watch::Silence => seen.push((Subject::default(), self.silence(last, at))),
                Watch::Absence => continue,
            }
            for (subject, finding) in seen {
                let known = standing.remove(&(rule.name.to_owned(), subject.clone()));
                self.step(rule, subject, finding, known, is_next, &mut evaluation);
            }
        }
        // What is known but had no row: nothing is true of it any more.
        for ((name, subject), known) in standing {
            let is_on =
                matches!(known.state, AlertState::Pending { .. } | AlertState::Firing { .. });
            let rule = due_rules(minute).find(|rule| rule.name == name);
            if let (true, Some(rule)) = (is_on, rule) {
                let nothing = Finding { met: Met::No, value: None, readings: Vec::new() };
                self.step(rule, subject, nothing, Some(known), is_next, &mut evaluation);
            }
        }
        if !self.store.add_evaluation(&evaluation).await? {
            tracing::info!(minute, "another process evaluated this minute");
            return Ok(false);
        }
        for rule in due_rules(minute) {
            self.metrics.evaluated(rule.name, Evaluated::Ok);
        }
        for changed in &evaluation.changed {
            let Subject { service, upstream, environment } = &changed.subject;
            tracing::info!(
                alert = changed.rule.name,
                service,
                upstream,
                environment,
                change = changed.change.as_str(),
                "an alert changed"
            );
        }
        if minute.rem_euclid(TIDYING) == 0
            && let Err(error) = self.store.tidy_alerts(at).await
        {
            self.metrics.store_failed(Operation::Tidy);
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "old alerts could not be removed; trying again in an hour");
        }
        Ok(true)
    }

    /// The pairs that are judged, each by its outermost source: those of which a served first
    /// attempt was ever seen.
    async fn judged(
        &mut self,
        sums: Vec<PairOfSums>,
        reads_all: bool,
    ) -> Result<Vec<(Subject, Pieces)>, StoreError> {
        if reads_all {
            self.sources.clear();
        }
        let mut served = Vec::new();
        for PairOfSums { subject, vantage, was_served, pieces } in &sums {
            let source = self.sources.entry(subject.clone()).or_insert(*vantage);
            *source = (*source).min(*vantage);
            if !was_served && pieces.has_served() {
                served.push((subject.clone(), *vantage));
            }
        }
        self.store.add_served(&served).await?;
        let is_judged = |pair: &PairOfSums| {
            self.sources.get(&pair.subject) == Some(&pair.vantage)
                && (pair.was_served || pair.pieces.has_served())
        };
        Ok(sums.into_iter().filter(is_judged).map(|pair| (pair.subject, pair.pieces)).collect())
    }

    /// Whether no event came from anybody.
    fn silence(&self, last: Option<UnixMillis>, at: UnixMillis) -> Finding {
        let thresholds = self.settings.base();
        let is_silent = is_silent(thresholds, last, at);
        let met = if is_silent { Met::Yes } else { Met::No };
        let value = last.map(|last| Ratio { part: at.since(last).0.max(0) / 1_000, whole: 1 });
        let limit = Threshold::StalledSeconds.shown(thresholds.get(Threshold::StalledSeconds));
        let reading = value.map(|value| Reading {
            what: "seconds since the last event".to_owned(),
            minutes: 0,
            value,
            limit: format!("> {limit}"),
            met,
        });
        Finding { met, value, readings: reading.into_iter().collect() }
    }

    /// Takes an alert a minute further.
    fn step(
        &self,
        rule: &'static Rule,
        subject: Subject,
        finding: Finding,
        known: Option<KnownAlert>,
        is_next: bool,
        evaluation: &mut Evaluation,
    ) {
        let at = UnixMillis(evaluation.minute.saturating_mul(MINUTE_MS));
        let is_true = finding.met == Met::Yes;
        let state = known.as_ref().map_or_else(AlertState::default, |known| known.state);
        let from = if is_next { state } else { after_gap(state, is_true) };
        let (state, change) = from.next(is_true, at, Hold::of(rule));
        let Some(change) = change else {
            if let Some(known) = known
                && is_on(&state)
            {
                evaluation.going_on.push((known.id, state, finding));
            }
            return;
        };
        let is_told = matches!(change, Transition::Fired | Transition::Resolved);
        let notice = is_told.then(|| self.notice(rule, &subject, change, state, &finding, at));
        let changes = known.map_or(0, |known| known.changes) + 1;
        evaluation.changed.push(Changed { rule, subject, change, state, changes, finding, notice });
    }

    fn notice(
        &self,
        rule: &Rule,
        subject: &Subject,
        change: Transition,
        state: AlertState,
        finding: &Finding,
        at: UnixMillis,
    ) -> Notice {
        let thresholds = self.settings.of(&subject.service, &subject.upstream);
        let [summary, description] = notice::texts(rule, subject, finding, &thresholds);
        let view = notice::view(rule, subject, &state, at);
        Notice {
            key: notice::key(rule, subject, change, &state),
            alert: rule.name.to_owned(),
            severity: rule.severity,
            subject: subject.clone(),
            change,
            at,
            state,
            summary,
            description,
            runbook_url: links::runbook(&self.base, rule),
            dashboard_url: view.map(|view| links::triage(&self.base, &view)),
            value: finding.value,
            readings: finding.readings.clone(),
        }
    }
}

/// Whether it is pending or fires.
const fn is_on(state: &AlertState) -> bool {
    matches!(state, AlertState::Pending { .. } | AlertState::Firing { .. })
}

/// Whether this evaluator can tell.
fn is_ours(rule: &Rule) -> bool {
    rule.watch != Watch::Absence
}

/// The rules that are evaluated at a minute.
fn due_rules(minute: i64) -> impl Iterator<Item = &'static Rule> {
    let is_due = move |rule: &&Rule| minute.rem_euclid(i64::from(rule.every.max(1))) == 0;
    RULES.iter().filter(|rule| is_ours(rule)).filter(is_due)
}

/// A state after minutes of which nothing is known. What was pending starts anew; what fires is not
/// over for minutes that nobody looked at.
fn after_gap(state: AlertState, is_true: bool) -> AlertState {
    match state {
        AlertState::Pending { .. } if is_true => AlertState::Inactive,
        AlertState::Firing { active_since, fired_at, .. } => {
            AlertState::Firing { active_since, fired_at, false_since: None }
        }
        state => state,
    }
}

/// How long until there is something to look at.
fn until_next(now: UnixMillis) -> Duration {
    let into = now.plus(Millis(-DELAY.0)).0.rem_euclid(MINUTE_MS);
    Duration::from_millis(u64::try_from(MINUTE_MS - into).unwrap_or(0)).min(LOOK)
}

/// Keeps what was noted beside the sums since the last time; after an error it stays for the next.
///
/// # Errors
/// Where the store fails.
pub async fn keep_noted(store: &Store, metrics: &Metrics) -> Result<(), StoreError> {
    let rows = metrics.take_noted();
    let kept = store.add_noted(&rows).await;
    if kept.is_err() {
        metrics.give_back(&rows);
    }
    kept
}

/// Does so every few seconds, forever. What was noted since is lost when the process is killed.
pub async fn note_regularly(store: &Store, metrics: &Metrics) {
    loop {
        tokio::time::sleep(NOTING).await;
        if let Err(error) = keep_noted(store, metrics).await {
            metrics.store_failed(Operation::Tally);
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "what alerts need beside the sums could not be kept; trying again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_when_a_minute_is_over_and_every_ten_seconds() {
        let at = |ms: i64| until_next(UnixMillis(1_794_382_200_000 + ms));
        assert_eq!(at(0), Duration::from_secs(7));
        assert_eq!(at(7_000), Duration::from_secs(10));
        assert_eq!(at(66_500), Duration::from_millis(500));
    }

    #[test]
    fn what_was_pending_before_a_gap_starts_anew_and_what_fires_goes_on() {
        let at = |minute: i64| UnixMillis(minute * MINUTE_MS);
        let rule = Rule::named("Retrylens429Spike").unwrap();
        let pending = AlertState::Pending { active_since: at(1) };
        let (state, change) = after_gap(pending, true).next(true, at(200), Hold::of(rule));
        assert_eq!(state, AlertState::Pending { active_since: at(200) });
        assert_eq!(change, Some(Transition::Pended));
        let dropped = after_gap(pending, false).next(false, at(200), Hold::of(rule));
        assert_eq!(dropped, (AlertState::Inactive, Some(Transition::Dropped)));
        let firing =
            AlertState::Firing { active_since: at(1), fired_at: at(3), false_since: Some(at(4)) };
        let (state, change) = after_gap(firing, false).next(false, at(200), Hold::of(rule));
        assert!(state.is_firing() && change.is_none(), "{state:?}");
    }

    #[test]
    fn slow_rules_are_evaluated_every_five_minutes() {
        let names = |minute| due_rules(minute).map(|rule| rule.name).collect::<Vec<_>>();
        assert!(names(5).contains(&"Retrylens429BudgetBurnSlow"));
        assert!(!names(6).contains(&"Retrylens429BudgetBurnSlow"));
        assert!(names(6).contains(&"RetrylensIngestStalled"));
        assert!(!names(5).contains(&"RetrylensAbsent"));
    }
}
