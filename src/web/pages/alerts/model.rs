//! Alerts, silences and deliveries as the pages and the API write them.

use crate::domain::alerts::evaluate::Ratio;
use crate::domain::alerts::notice::{self, Subject};
use crate::domain::alerts::{AlertSettings, AlertState, Hold, Rule, Severity, Transition};
use crate::domain::stored::Labels;
use crate::domain::time::{Millis, UnixMillis};
use crate::export::readings::{Compared, ReadingOut};
use crate::store::{
    self, Alert, Delivery, Ended, HistoryItem, KnownAlert, NewSilence, ReceiverHold,
};
use crate::web::pages::address::Address;
use crate::web::pages::docs::severity_kind;
use crate::web::pages::model::Stamp;
use crate::web::pages::words;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

impl Compared {
    /// The word for whether it held.
    pub fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "holds",
            Some(false) => "does not",
            None => "not counted",
        }
    }
}

impl ReadingOut {
    /// What is compared, in words.
    pub fn what_text(&self) -> String {
        measures(&self.what)
    }

    /// Over how long.
    pub fn span(&self) -> String {
        match self.minutes {
            0 => "now".to_owned(),
            minutes => words::length(Millis(i64::from(minutes) * 60_000)),
        }
    }

    /// The limit in force when it was made.
    pub fn limit(&self) -> String {
        let side = self.made.as_ref().or(self.latest.as_ref());
        side.map(|side| spaced(&side.limit)).unwrap_or_default()
    }

    /// The present limit, where it is another one.
    pub fn limit_now(&self) -> Option<String> {
        let (made, latest) = (self.made.as_ref()?, self.latest.as_ref()?);
        (made.limit != latest.limit).then(|| spaced(&latest.limit))
    }

    /// The badge of whether a side held: of what it is a sign of, or of enough traffic.
    pub fn kind(&self, side: &Compared) -> &'static str {
        match side.met {
            Some(true) if self.is_floor => "plain",
            Some(true) => "finding",
            Some(false) => "clear",
            None => "not-seen",
        }
    }

    /// A side's number, worded.
    pub fn value(&self, side: &Compared) -> String {
        let is_ratio = self.what.contains('/');
        let (part, whole) = (words::count(side.part), words::count(side.whole));
        if self.minutes == 0 && !is_ratio {
            return words::length(Millis(side.part.saturating_mul(1_000)));
        }
        if !is_ratio {
            return part;
        }
        let Some(ratio) = words::ratio(side.part, side.whole) else {
            return format!("none of {whole}");
        };
        let is_factor = !side.limit.contains('%') && !side.limit.contains('*');
        if is_factor && !side.limit.contains("above") {
            return format!("{} ({part} to {whole})", words::factor(Some(ratio)));
        }
        format!("{} ({part} of {whole})", words::percent(ratio))
    }
}

/// Names of measures as pages write them.
pub(super) fn measures(names: &str) -> String {
    names.replace("status-429", "answered 429").replace('-', " ")
}

/// `20 %` for `20%`, as pages write shares.
fn spaced(limit: &str) -> String {
    limit.replace('%', " %").replace(">=", "\u{2265}").replace('*', "\u{d7}")
}

/// Who looks after a firing alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AcknowledgementOut {
    /// Who.
    pub who: String,
    /// Why, or what is being done.
    pub why: String,
    /// Since when.
    pub at: Stamp,
    /// Until when it counts, unless the alert ends before.
    pub until: Stamp,
}

/// A silence: nobody is told that alerts of it fire. They are evaluated and shown all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SilenceOut {
    /// Its number.
    pub id: i64,
    /// The alert's name; null for any.
    pub alert: Option<String>,
    /// The calling service; null for any.
    pub service: Option<String>,
    /// The upstream host; null for any.
    pub upstream: Option<String>,
    /// The environment; null for any.
    pub environment: Option<String>,
    /// From when on.
    pub from: Stamp,
    /// Until when.
    pub until: Stamp,
    /// Who wants it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When it was made.
    pub made_at: Stamp,
    /// Whether it is in force at the time of asking.
    pub is_active: bool,
    /// What is to be said of it: that it names something that nothing was heard of, which may be a
    /// typo, or that it covers no alert at present. Null where there is nothing, or where that was
    /// not looked at.
    pub note: Option<String>,
}

impl SilenceOut {
    /// A silence as it stands at `now`.
    pub fn of(silence: &store::Silence, now: UnixMillis) -> Self {
        let of = &silence.of;
        Self {
            id: silence.id,
            alert: named(&of.rule),
            service: named(&of.subject.service),
            upstream: named(&of.subject.upstream),
            environment: named(&of.subject.environment),
            from: Stamp(of.from),
            until: Stamp(of.until),
            who: of.who.clone(),
            why: of.why.clone(),
            made_at: Stamp(silence.made_at),
            is_active: (of.from..of.until).contains(&now),
            note: None,
        }
    }

    /// As [`Self::of`], with what is to be said of it beside what is there.
    pub fn beside(silence: &store::Silence, there: &There, now: UnixMillis) -> Self {
        Self { note: there.note(&silence.of), ..Self::of(silence, now) }
    }
}

/// What a silence may cover.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct There {
    /// Names that were heard of lately.
    pub names: Labels,
    /// Alerts that fire or are pending.
    pub alerts: Vec<(String, Subject)>,
}

impl There {
    fn note(&self, silence: &NewSilence) -> Option<String> {
        let NewSilence { rule, subject, .. } = silence;
        let fields = [
            ("service", &subject.service, &self.names.services),
            ("upstream", &subject.upstream, &self.names.upstreams),
            ("environment", &subject.environment, &self.names.environments),
        ];
        let unknown: Vec<String> = fields
            .into_iter()
            .filter(|(_, name, known)| !name.is_empty() && !known.contains(name))
            .map(|(field, name, _)| format!("{field} \u{201c}{name}\u{201d}"))
            .collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(" and ");
            return Some(format!(
                "Nothing was heard of {unknown} in the last 31 days: is it spelt right?"
            ));
        }
        let fits = |own: &str, name: &str| own.is_empty() || own == name;
        let is_covered = self.alerts.iter().any(|(alert, of)| {
            fits(rule, alert)
                && fits(&subject.service, &of.service)
                && fits(&subject.upstream, &of.upstream)
                && fits(&subject.environment, &of.environment)
        });
        (!is_covered).then(|| "No alert that fires or is pending is covered by it now.".to_owned())
    }
}

/// The name where there is one.
pub(super) fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AlertOut {
    /// Its number.
    pub id: i64,
    /// The rule's name.
    #[schema(example = "Retrylens429Spike")]
    pub alert: String,
    /// How bad it is; null for a rule that this version doesn't know.
    pub severity: Option<Severity>,
    /// `firing`, `pending`, `resolved` or `inactive`.
    #[schema(example = "firing")]
    pub state: &'static str,
    /// The calling service; null where it is about retrylens itself.
    pub service: Option<String>,
    /// The upstream host.
    pub upstream: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// One line.
    pub summary: String,
    /// What was seen.
    pub description: String,
    /// When the present state began.
    pub since: Stamp,
    /// The evaluation that found it true first.
    pub active_since: Option<Stamp>,
    /// The evaluation from which it fires or fired.
    pub fired_at: Option<Stamp>,
    /// Of a firing alert: the first evaluation since it was last true that found it false.
    pub false_since: Option<Stamp>,
    /// The evaluation that ended it.
    pub resolved_at: Option<Stamp>,
    /// The evaluation that last looked at it.
    pub evaluated_at: Stamp,
    /// Every comparison of its rule, with its numbers and limits.
    pub readings: Vec<ReadingOut>,
    /// Who looks after it.
    pub acknowledged: Option<AcknowledgementOut>,
    /// The silence that covers it.
    pub silence: Option<SilenceOut>,
    /// Address of its page.
    pub page: String,
    /// Address of its triage, with absolute times by time of receipt; null where it is about no
    /// pair or stands for nothing.
    pub triage: Option<String>,
    /// Address of what to do.
    pub runbook: String,
    /// What comes next, and when.
    #[serde(skip)]
    pub outlook: Option<String>,
}

impl AlertOut {
    /// An alert as it stands at `now`.
    pub fn of(alert: &Alert, settings: &AlertSettings, now: UnixMillis) -> Self {
        let known = &alert.known;
        let subject = &known.subject;
        let rule = Rule::named(&known.rule);
        let thresholds = settings.of(&subject.service, &subject.upstream);
        let texts = rule.map(|rule| notice::texts(rule, subject, &alert.made, &thresholds));
        let [summary, description] = texts.unwrap_or_else(|| {
            [known.rule.clone(), "A rule that this version doesn't know.".to_owned()]
        });
        let active = known.state.active();
        let false_since = match known.state {
            AlertState::Firing { false_since, .. } => false_since,
            _ => None,
        };
        Self {
            id: known.id,
            alert: known.rule.clone(),
            severity: rule.map(|rule| rule.severity),
            state: known.state.as_str(),
            service: named(&subject.service),
            upstream: named(&subject.upstream),
            environment: named(&subject.environment),
            summary,
            description,
            since: Stamp(alert.since),
            active_since: active.map(|(from, _)| Stamp(from)),
            fired_at: known.state.fired_at().map(Stamp),
            false_since: false_since.map(Stamp),
            resolved_at: active.and_then(|(_, over)| over).map(Stamp),
            evaluated_at: Stamp(alert.evaluated_at),
            readings: ReadingOut::all(&alert.made, &alert.latest),
            acknowledged: alert.acknowledged.as_ref().map(|one| AcknowledgementOut {
                who: one.who.clone(),
                why: one.why.clone(),
                at: Stamp(one.at),
                until: Stamp(one.until),
            }),
            silence: alert.silence.as_ref().map(|one| SilenceOut::of(one, now)),
            page: page(known.id),
            triage: rule.and_then(|rule| triage(rule, subject, &known.state, alert.evaluated_at)),
            runbook: rule.map_or_else(|| "/docs/alerts".to_owned(), runbook),
            outlook: rule.and_then(|rule| outlook(&known.state, Hold::of(rule))),
        }
    }

    /// Whether it fires.
    pub fn is_firing(&self) -> bool {
        self.state == "firing"
    }

    /// Whether it is over, or never fired.
    pub fn is_over(&self) -> bool {
        matches!(self.state, "resolved" | "inactive")
    }

    /// The badge of its state.
    pub fn kind(&self) -> &'static str {
        state_kind(self.state)
    }

    /// The badge of its severity.
    pub fn severity_kind(&self) -> &'static str {
        self.severity.map_or("plain", severity_kind)
    }

    /// The word for its severity.
    pub fn severity_word(&self) -> &'static str {
        self.severity.map_or("unknown rule", Severity::as_str)
    }

    /// How long it fired, where it is over.
    pub fn lasted(&self) -> String {
        match (self.fired_at, self.resolved_at) {
            (Some(from), Some(to)) => words::length(to.0.since(from.0)),
            _ => "\u{2013}".to_owned(),
        }
    }

    /// The value that it fired with: the first comparison of its rule that held.
    pub fn value(&self) -> String {
        let held = |one: &&ReadingOut| one.made.as_ref().is_some_and(|side| side.met == Some(true));
        let first = self.readings.iter().filter(|one| !one.is_floor).find(held);
        first
            .and_then(|one| Some(one.value(one.made.as_ref()?)))
            .unwrap_or_else(|| words::NO_DATA.to_owned())
    }

    /// What the column of the values that made it is called.
    pub fn made_word(&self) -> &'static str {
        if self.state == "pending" { "when it became true" } else { "when it fired" }
    }

    /// What the column of the latest values is called.
    pub fn latest_word(&self) -> &'static str {
        if self.is_over() { "when it ended" } else { "now" }
    }
}

/// The badge of a state.
fn state_kind(state: &str) -> &'static str {
    match state {
        "firing" => "finding",
        "pending" => "needs-data",
        _ => "clear",
    }
}

/// The page of an alert.
pub fn page(id: i64) -> String {
    Address::new("/alerts").segment(&id.to_string()).finish()
}

/// What to do when a rule fires.
fn runbook(rule: &Rule) -> String {
    crate::export::links::runbook("", rule)
}

/// The triage of an alert's pair, up to its end or to the last evaluation.
fn triage(
    rule: &Rule,
    subject: &Subject,
    state: &AlertState,
    evaluated_at: UnixMillis,
) -> Option<String> {
    let view = notice::view(rule, subject, state, evaluated_at)?;
    Some(Address::new("/triage").view(&view).finish())
}

/// What comes next, and when.
fn outlook(state: &AlertState, times: Hold) -> Option<String> {
    let at = words::day_and_time;
    match *state {
        AlertState::Pending { active_since } => {
            Some(format!("Fires at {} if it stays true.", at(active_since.plus(times.hold))))
        }
        AlertState::Firing { false_since: Some(first), .. } => Some(format!(
            "Not true since {}; ends at {} unless it becomes true again.",
            at(first),
            at(first.plus(times.keep))
        )),
        _ => None,
    }
}

/// A change of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChangeOut {
    /// The how manieth change it was.
    pub number: i64,
    /// The evaluation that changed it.
    pub at: Stamp,
    /// What happened.
    pub change: Transition,
    /// The state from then on.
    #[schema(example = "firing")]
    pub state: &'static str,
    /// The value of that evaluation; null where nothing was counted.
    pub value: Option<RatioOut>,
    /// Every comparison of that evaluation.
    pub readings: Vec<ReadingOut>,
    /// Address of the triage as of that change, with absolute times by time of receipt; null where it
    /// stands for nothing or is about no pair.
    pub triage: Option<String>,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct RatioOut {
    /// The part.
    pub part: i64,
    /// The whole; 1 for a plain number.
    pub whole: i64,
}

impl ChangeOut {
    /// A change out of the history of an alert.
    pub fn of(item: &HistoryItem, alert: &KnownAlert) -> Self {
        let rule = Rule::named(&alert.rule);
        Self {
            triage: rule.and_then(|rule| triage(rule, &alert.subject, &item.state, item.at)),
            number: item.number,
            at: Stamp(item.at),
            change: item.change,
            state: item.state.as_str(),
            value: item.finding.value.map(|Ratio { part, whole }| RatioOut { part, whole }),
            readings: ReadingOut::latest(&item.finding.readings),
        }
    }

    /// What happened, in words.
    pub fn word(&self) -> &'static str {
        match self.change {
            Transition::Pended => "became true",
            Transition::Dropped => "no longer true, before it fired",
            Transition::Fired => "fires",
            Transition::Resolved => "over",
        }
    }

    /// The badge of the state from then on.
    pub fn kind(&self) -> &'static str {
        state_kind(self.state)
    }

    /// Every comparison in one line each.
    pub fn lines(&self) -> Vec<String> {
        let line = |one: &ReadingOut| {
            let side = one.latest.as_ref()?;
            let holds = match side.met {
                Some(true) => "",
                Some(false) => " (does not hold)",
                None => " (not counted)",
            };
            Some(format!(
                "{} over {}: {} {}{holds}",
                one.what_text(),
                one.span(),
                one.value(side),
                one.limit(),
            ))
        };
        self.readings.iter().filter_map(line).collect()
    }
}

/// Receivers that nothing is sent to now, by name.
pub type Holds = BTreeMap<String, ReceiverHold>;

/// A receiver that nothing is sent to now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HeldReceiver {
    /// Its name in the settings.
    pub receiver: String,
    /// When it answered 410 Gone: it is tried again when retrylens starts anew, or at another
    /// address. Null where it only asked to wait.
    pub gone_at: Option<Stamp>,
    /// Until when it asked to wait (`Retry-After`); null where it is gone.
    pub until: Option<Stamp>,
    /// Whether it is gone or asked to wait for more than another hour, so that whoever it tells must be
    /// told in another way.
    pub is_lost: bool,
}

impl HeldReceiver {
    /// What holds a receiver.
    pub fn of(receiver: &str, hold: ReceiverHold, now: UnixMillis) -> Self {
        let gone_at = hold.gone_at.map(Stamp);
        let until = gone_at.is_none().then_some(Stamp(hold.until));
        Self { receiver: receiver.to_owned(), gone_at, until, is_lost: hold.is_lost(now) }
    }
}

/// Something that is told of an alert to a receiver, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeliveryOut {
    /// Its number.
    pub id: i64,
    /// The alert's number.
    pub alert_id: i64,
    /// The alert's name.
    pub alert: String,
    /// What is told.
    pub change: Transition,
    /// The alert in one line.
    pub summary: String,
    /// To whom, by its name in the settings.
    pub receiver: String,
    /// The same for every attempt: receivers tell repeats by it.
    pub key: String,
    /// `waiting`, `sending` (an attempt is under way), `held` (by a silence), `delivered`, `dropped`
    /// or `superseded` (the alert changed before).
    #[schema(example = "waiting")]
    pub state: &'static str,
    /// How many attempts were begun.
    pub attempts: i64,
    /// How many goes those were: attempts that follow soon are one go.
    pub goes: i64,
    /// When it was first to be sent.
    pub made_at: Stamp,
    /// When it is tried next, at the earliest; null where it isn't, as its receiver is gone or it has
    /// ended, or where it is being sent.
    pub next_at: Option<Stamp>,
    /// While it is being sent: when another attempt follows at the latest where whoever sends it was
    /// killed.
    pub taken_until: Option<Stamp>,
    /// The silence that holds it back.
    pub held_by: Option<SilenceOut>,
    /// What went wrong the last time.
    pub last_error: Option<String>,
    /// When it ended.
    pub ended_at: Option<Stamp>,
    /// Address of the alert's page.
    pub page: String,
}

impl DeliveryOut {
    /// A delivery as it stands at `now`.
    pub fn of(
        delivery: &Delivery,
        silences: &[store::Silence],
        holds: &Holds,
        now: UnixMillis,
    ) -> Self {
        let notice = &delivery.of.notice;
        // What is over is told in spite of a silence.
        let held_by = silences.iter().find(|silence| {
            delivery.ended.is_none()
                && notice.change != Transition::Resolved
                && silence.covers(&notice.alert, &notice.subject, now)
        });
        let hold = holds.get(&delivery.of.receiver).copied().unwrap_or_default();
        let is_waiting = delivery.ended.is_none() && held_by.is_none() && hold.gone_at.is_none();
        // Between the attempts of a go it waits, although it is taken.
        let is_sending =
            delivery.ended.is_none() && delivery.leased_until > now && delivery.next_at <= now;
        Self {
            id: delivery.of.id,
            alert_id: delivery.of.alert_id,
            alert: notice.alert.clone(),
            change: notice.change,
            summary: notice.summary.clone(),
            receiver: delivery.of.receiver.clone(),
            key: notice.key.clone(),
            state: match delivery.ended {
                None if is_sending => "sending",
                None if held_by.is_some() => "held",
                None => "waiting",
                Some((Ended::Delivered, _)) => "delivered",
                Some((Ended::Dropped, _)) => "dropped",
                Some((Ended::Superseded, _)) => "superseded",
            },
            attempts: delivery.attempts,
            goes: delivery.of.go,
            made_at: Stamp(delivery.of.made_at),
            // What is due is sent within a second or so.
            next_at: (is_waiting && !is_sending)
                .then_some(Stamp(delivery.next_at.max(hold.until).max(now))),
            taken_until: is_sending.then_some(Stamp(delivery.leased_until)),
            held_by: held_by.map(|silence| SilenceOut::of(silence, now)),
            last_error: named(&delivery.last_error),
            ended_at: delivery.ended.map(|(_, at)| Stamp(at)),
            page: page(delivery.of.alert_id),
        }
    }

    /// The badge of its state.
    pub fn kind(&self) -> &'static str {
        match self.state {
            "delivered" => "clear",
            "dropped" => "finding",
            "waiting" | "sending" | "held" => "needs-data",
            _ => "plain",
        }
    }

    /// What is told, in a word.
    pub fn change_word(&self) -> &'static str {
        match self.change {
            Transition::Resolved => "over",
            _ => "fires",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::alerts::evaluate::{Finding, Met, Reading};

    fn reading(what: &str, minutes: u32, part: i64, whole: i64, limit: &str) -> ReadingOut {
        let value = Ratio { part, whole };
        let limit = limit.to_owned();
        let one = Reading { what: what.to_owned(), minutes, value, limit, met: Met::Yes };
        let finding = Finding { met: Met::Yes, value: None, readings: vec![one] };
        let nothing = Finding { met: Met::No, value: None, readings: Vec::new() };
        ReadingOut::all(&finding, &nothing).remove(0)
    }

    #[test]
    fn comparisons_are_worded_with_their_numbers() {
        for (one, what, span, limit, value) in [
            (
                reading("status-429 / attempts", 5, 60, 140, "> 20%"),
                "answered 429 / attempts",
                "5 min",
                "> 20 %",
                "42.9 % (60 of 140)",
            ),
            (
                reading("retries / requests", 5, 30, 60, "> 2 * the larger of 3 / 600 and 1%"),
                "retries / requests",
                "5 min",
                "> 2 \u{d7} the larger of 3 / 600 and 1 %",
                "50.0 % (30 of 60)",
            ),
            (
                reading("requests + retries / requests", 10, 240, 60, "> 3"),
                "requests + retries / requests",
                "10 min",
                "> 3",
                "4.00 (240 to 60)",
            ),
            (
                reading("attempts", 30, 1_400, 1, ">= 50"),
                "attempts",
                "30 min",
                "\u{2265} 50",
                "1,400",
            ),
            (
                reading("seconds since the last event", 0, 660, 1, "> 600 s"),
                "seconds since the last event",
                "now",
                "> 600 s",
                "11 min",
            ),
            (
                reading("retries / requests", 5, 0, 0, "> 5%"),
                "retries / requests",
                "5 min",
                "> 5 %",
                "none of 0",
            ),
        ] {
            assert_eq!(one.what_text(), what);
            assert_eq!(one.span(), span, "{what}");
            assert_eq!(one.limit(), limit);
            assert_eq!(one.value(one.made.as_ref().unwrap()), value);
            assert_eq!(one.latest, None);
        }
    }
}
