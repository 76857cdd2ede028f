//! An alert as people and programs are told of it: what changed, the numbers, and where to look.

use super::annotate::filled_in;
use super::evaluate::{Finding, Ratio, Reading};
use super::rule::{Rule, Severity};
use super::state::{AlertState, Transition};
use super::threshold::Thresholds;
use crate::domain::stored::{Scope, TimeBasis, View};
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis, Window};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What an alert is about; all empty where it is about retrylens itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The calling service.
    pub service: String,
    /// The upstream host.
    pub upstream: String,
    /// The environment; empty where none is set.
    pub environment: String,
}

impl Subject {
    /// The scope of its triage; `None` where it is about no pair.
    pub fn scope(&self) -> Option<Scope> {
        let named = |name: &String| (!name.is_empty()).then(|| name.clone());
        (!self.service.is_empty()).then(|| Scope {
            service: named(&self.service),
            upstream: named(&self.upstream),
            environment: named(&self.environment),
            route: None,
        })
    }
}

/// A change of an alert, complete: whoever sends it asks nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same for every attempt to deliver this change, by whichever replica. Letters, digits and
    /// underscores.
    pub key: String,
    /// The rule's name: `alertname`.
    pub alert: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// What happened.
    pub change: Transition,
    /// The evaluation that changed it.
    pub at: UnixMillis,
    /// The state since then.
    #[serde(flatten)]
    pub state: AlertState,
    /// One line.
    pub summary: String,
    /// What was seen.
    pub description: String,
    /// What to do, rule by rule.
    pub runbook_url: String,
    /// The triage of the pair with absolute times, by time of receipt; none where it is about no
    /// pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_url: Option<String>,
    /// The value that it fires with.
    pub value: Option<Ratio>,
    /// Every comparison, with the numbers and the limits in force.
    pub readings: Vec<Reading>,
}

/// A receiver by its name in the settings and by what stands for its address: what was said at one
/// address says nothing about another that has its name later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverKey {
    /// Its name.
    pub name: String,
    /// What stands for its address, which may be secret.
    pub address: String,
}

/// Somebody who is told of alerts: what is known of them where it is decided who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee {
    /// Their name in the settings.
    pub name: String,
    /// Which alerts they are told of.
    pub severities: Vec<Severity>,
}

impl Addressee {
    /// Whether they are told of alerts so bad.
    pub fn wants(&self, severity: Severity) -> bool {
        self.severities.contains(&severity)
    }
}

/// Shortest and longest stretch before an alert began that its link shows.
const LOOK_BACK: (u32, u32) = (30, 360);

/// The stretch in which to look for what made an alert: from as long before it began as its rule
/// looks back (half an hour to six hours) to its end, or to `now` where it isn't over. `None` where
/// it stands for nothing.
pub fn looked_at(rule: &Rule, state: &AlertState, now: UnixMillis) -> Option<Window> {
    let (from, over) = state.active()?;
    let mut reach = 0;
    if let Some(condition) = rule.condition() {
        condition.each_sum(&mut |_, span| reach = reach.max(span.reach()));
    }
    let back = i64::from(reach.clamp(LOOK_BACK.0, LOOK_BACK.1)) * MINUTE_MS;
    Some(Window { from: from.plus(Millis(-back)), to: over.unwrap_or(now).max(from) })
}

/// The view of [`looked_at`]; `None` where the alert is about no pair, or stands for nothing.
pub fn view(rule: &Rule, subject: &Subject, state: &AlertState, now: UnixMillis) -> Option<View> {
    let window = looked_at(rule, state, now)?;
    Some(View { scope: subject.scope()?, window, time: TimeBasis::Received })
}

/// The key of a change: made of what is the same for every replica.
pub fn key(rule: &Rule, subject: &Subject, change: Transition, state: &AlertState) -> String {
    let Subject { service, upstream, environment } = subject;
    let began = state.active().map_or(0, |(at, _)| at.0).to_string();
    let mut hash = Sha256::new();
    for part in [rule.name, service, upstream, environment, &began, change.as_str()] {
        // Each with its length, so that two lists of names never read the same.
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digits = hex::encode(hash.finalize());
    format!("alert_{}", digits.chars().take(32).collect::<String>())
}

/// Summary and description of an alert.
pub fn texts(
    rule: &Rule,
    subject: &Subject,
    finding: &Finding,
    thresholds: &Thresholds,
) -> [String; 2] {
    let pair = (subject.service.as_str(), subject.upstream.as_str());
    [rule.summary, rule.description]
        .map(|text| filled_in(rule, text, pair, finding.value, thresholds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            service: "checkout".to_owned(),
            upstream: "api.example.com".to_owned(),
            environment: String::new(),
        }
    }

    #[test]
    fn the_window_of_an_alert_holds_what_made_it() {
        let spike = Rule::named("Retrylens429Spike").unwrap();
        let at = |minute: i64| UnixMillis(minute * MINUTE_MS);
        let firing =
            AlertState::Firing { active_since: at(100), fired_at: at(102), false_since: None };
        let minutes = |rule: &str, state: &AlertState| {
            let window = looked_at(Rule::named(rule).unwrap(), state, at(110)).unwrap();
            (window.from.0 / MINUTE_MS, window.to.0 / MINUTE_MS)
        };
        assert_eq!(minutes("Retrylens429Spike", &firing), (70, 110));
        assert_eq!(minutes("RetrylensRetriesOutgrowRequests", &firing), (-90, 110));
        assert_eq!(minutes("Retrylens429BudgetBurnSlow", &firing), (-260, 110));
        let over =
            AlertState::Resolved { active_since: at(100), fired_at: at(102), resolved_at: at(107) };
        assert_eq!(minutes("Retrylens429Spike", &over), (70, 107));
        assert_eq!(looked_at(spike, &AlertState::Inactive, at(110)), None);
        assert_eq!(view(spike, &Subject::default(), &firing, at(110)), None);
        assert_eq!(view(spike, &subject(), &firing, at(110)).unwrap().time, TimeBasis::Received);
    }

    #[test]
    fn a_key_tells_changes_apart_and_nothing_else() {
        let rule = Rule::named("Retrylens429Spike").unwrap();
        let at = |ms| UnixMillis(ms);
        let firing = |since| AlertState::Firing {
            active_since: at(since),
            fired_at: at(9),
            false_since: None,
        };
        let first = key(rule, &subject(), Transition::Fired, &firing(1));
        assert_eq!(first, key(rule, &subject(), Transition::Fired, &firing(1)));
        assert!(first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{first}");
        let moved = Subject {
            service: "checkouta".to_owned(),
            upstream: "pi.example.com".to_owned(),
            environment: String::new(),
        };
        let others = [
            key(rule, &subject(), Transition::Resolved, &firing(1)),
            key(rule, &subject(), Transition::Fired, &firing(2)),
            key(rule, &moved, Transition::Fired, &firing(1)),
        ];
        assert!(!others.contains(&first));
    }
}
