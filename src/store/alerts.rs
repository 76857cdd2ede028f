//! How alerts stand and stood, silences and acknowledgements, and what is to be told to whom.
//!
//! A change of an alert, its place in the history and what is to be told of it are one transaction,
//! which begins by moving the clock of the evaluations on. So a minute is evaluated once, whoever
//! tries, and nothing is told of what didn't happen or is forgotten by a crash in between.

use super::alert_sums::{self, subject};
use super::reader::{Arg, Reader, Row, marks};
use super::transact::Statement;
use super::{Pool, Store, StoreError, receivers};
use crate::domain::alerts::notice::{Addressee, Subject};
use crate::domain::alerts::{AlertState, Finding, Notice, Rule, Transition};
use crate::domain::stored::Scope;
use crate::domain::time::{DAY_MS, MINUTE_MS, Millis, UnixMillis};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long the history of alerts and alerts that are over are kept.
pub const HISTORY_KEPT: Millis = Millis(90 * DAY_MS);
/// How long it is kept what was told.
pub const TOLD_KEPT: Millis = Millis(30 * DAY_MS);

/// An alert as an evaluation finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAlert {
    /// Its number, which is part of its address.
    pub id: i64,
    /// The rule's name.
    pub rule: String,
    /// What it is about.
    pub subject: Subject,
    /// Where it stands.
    pub state: AlertState,
    /// How often its state changed.
    pub changes: i64,
}

/// A change of an alert's state.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The rule.
    pub rule: &'static Rule,
    /// What it is about.
    pub subject: Subject,
    /// What happened.
    pub change: Transition,
    /// The state from now on.
    pub state: AlertState,
    /// How often its state has changed, this time included.
    pub changes: i64,
    /// The values of this evaluation.
    pub finding: Finding,
    /// What is told of it, where anybody is.
    pub notice: Option<Notice>,
}

/// All that the evaluation of a minute changes.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The last evaluated minute (since 1970), as it was read before.
    pub before: Option<i64>,
    /// The evaluated minute.
    pub minute: i64,
    /// Changes of state.
    pub changed: Vec<Changed>,
    /// Alerts that go on as they are, with their present values.
    pub going_on: Vec<(i64, AlertState, Finding)>,
    /// Who may be told.
    pub receivers: Vec<Addressee>,
}

/// An alert with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Which, where it stands and how often that changed.
    pub known: KnownAlert,
    /// When its present state began.
    pub since: UnixMillis,
    /// The evaluation that last looked at it.
    pub evaluated_at: UnixMillis,
    /// The values that made it pending or firing.
    pub made: Finding,
    /// The values of the last evaluation.
    pub latest: Finding,
    /// Somebody looks after this firing.
    pub acknowledged: Option<Acknowledgement>,
    /// Nobody is told of it for now.
    pub silence: Option<Silence>,
}

/// Who looks after a firing alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Who.
    pub who: String,
    /// Why, or what is being done.
    pub why: String,
    /// Since when.
    pub at: UnixMillis,
    /// Until when it counts.
    pub until: UnixMillis,
}

/// A change of an alert, as its history tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryItem {
    /// The how manieth change it was.
    pub number: i64,
    /// The evaluation that changed it.
    pub at: UnixMillis,
    /// What happened.
    pub change: Transition,
    /// The state from then on.
    pub state: AlertState,
    /// The values of that evaluation.
    pub finding: Finding,
}

/// Alerts of which nobody is to be told. An empty name stands for any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSilence {
    /// The rule's name.
    pub rule: String,
    /// What they are about.
    pub subject: Subject,
    /// From when on.
    pub from: UnixMillis,
    /// Until when.
    pub until: UnixMillis,
    /// Who wants it.
    pub who: String,
    /// Why.
    pub why: String,
}

/// A silence that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// Its number.
    pub id: i64,
    /// Of what, how long, who and why.
    pub of: NewSilence,
    /// When it was made.
    pub made_at: UnixMillis,
}

impl Silence {
    /// Whether it covers an alert at a moment.
    pub fn covers(&self, rule: &str, subject: &Subject, at: UnixMillis) -> bool {
        let fits = |own: &str, name: &str| own.is_empty() || own == name;
        let NewSilence { rule: own_rule, subject: own, from, until, .. } = &self.of;
        (*from..*until).contains(&at)
            && fits(own_rule, rule)
            && fits(&own.service, &subject.service)
            && fits(&own.upstream, &subject.upstream)
            && fits(&own.environment, &subject.environment)
    }
}

/// Something to be sent now, by whoever took it and nobody else until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its number.
    pub id: i64,
    /// The alert's number.
    pub alert_id: i64,
    /// To whom, by name.
    pub receiver: String,
    /// What.
    pub notice: Notice,
    /// When it was first to be sent.
    pub made_at: UnixMillis,
    /// The how manieth go this is, which may be several attempts; 1 is the first.
    pub go: i64,
}

/// How a go went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The receiver took it.
    Delivered,
    /// It did not; to be tried again.
    Failed {
        /// Why.
        error: String,
        /// When to try again at the earliest.
        next_at: UnixMillis,
    },
    /// It did not and is not to be tried again.
    Dropped {
        /// Why.
        error: String,
    },
    /// The receiver said that it is gone. What it didn't take waits for it ([`Store::note_gone`]).
    Gone {
        /// What it said.
        error: String,
    },
}

/// How it ended with something to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Dropped,
    /// The alert changed before it could be delivered.
    Superseded,
}

/// Something that was told or waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What, to whom, since when and how many goes.
    pub of: Due,
    /// How many attempts were begun.
    pub attempts: i64,
    /// When it is tried next, while it waits.
    pub next_at: UnixMillis,
    /// Until when somebody has it to send it; in the past where nobody has.
    pub leased_until: UnixMillis,
    /// What went wrong the last time; empty where nothing did.
    pub last_error: String,
    /// How it ended and when; `None` while it waits.
    pub ended: Option<(Ended, UnixMillis)>,
}

/// How alerts stand, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// The last evaluation; `None` before the first.
    pub evaluated_at: Option<UnixMillis>,
    /// How many alerts fire.
    pub firing: i64,
    /// How many are pending.
    pub pending: i64,
}

/// Which deliveries are listed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What waits, the one that is tried next first.
    Waiting,
    /// What has ended, newest first.
    Ended,
}

impl Store {
    /// The last evaluated minute (since 1970), and all alerts that are known.
    #[tracing::instrument(name = "db.alerts.known", level = "debug", skip_all)]
    pub async fn known_alerts(&self) -> Result<(Option<i64>, Vec<KnownAlert>), StoreError> {
        let mut reader = self.reader().await?;
        let clock = reader.first("SELECT minute FROM alert_clock WHERE id = 1", &[]).await?;
        let minute = clock.map(|row| row.int(0)).transpose()?.filter(|minute| *minute > i64::MIN);
        let rows = reader
            .all("SELECT id, rule, service, upstream, environment, state, changes FROM alerts", &[])
            .await?;
        Ok((minute, rows.iter().map(known).collect::<Result<_, _>>()?))
    }

    /// Keeps what the evaluation of a minute changed, with what is to be told of it, in one
    /// transaction. `false`, with nothing done, where that minute or a later one was evaluated in
    /// the meantime.
    #[tracing::instrument(name = "db.alerts.evaluated", level = "debug", skip_all)]
    pub async fn add_evaluation(&self, evaluation: &Evaluation) -> Result<bool, StoreError> {
        let Evaluation { before, minute, changed, going_on, receivers } = evaluation;
        let at = UnixMillis(minute.saturating_mul(MINUTE_MS));
        let mut statements = vec![Statement::guard(
            MOVE_CLOCK,
            vec![Arg::Int(*minute), Arg::Int(before.unwrap_or(i64::MIN))],
        )];
        for (id, state, finding) in going_on {
            statements.push(Statement::new(
                GO_ON,
                vec![json(state)?.into(), at.0.into(), json(finding)?.into(), (*id).into()],
            ));
        }
        for changed in changed {
            change(changed, at, receivers, &mut statements)?;
        }
        Ok(self.transact(statements).await?.is_some())
    }

    /// Removes what is older than is kept: [`HISTORY_KEPT`], [`TOLD_KEPT`], and sums that no
    /// evaluation reads any more.
    pub async fn tidy_alerts(&self, now: UnixMillis) -> Result<(), StoreError> {
        let before = |kept: Millis| Arg::Int(now.plus(Millis(-kept.0)).0);
        let [noted, pairs] = alert_sums::forget(now.0.div_euclid(MINUTE_MS));
        let mut statements = vec![noted, pairs];
        statements.push(Statement::new(FORGET_TOLD, vec![before(TOLD_KEPT)]));
        for text in [FORGET_ALERTS, FORGET_HISTORY, FORGET_SILENCES, receivers::FORGET_HOLDS] {
            statements.push(Statement::new(text, vec![before(HISTORY_KEPT)]));
        }
        statements.push(Statement::new(FORGET_ACKNOWLEDGEMENTS, Vec::new()));
        self.transact(statements).await.map(drop)
    }

    /// How many alerts fire or are pending, and when that was last looked at.
    #[tracing::instrument(name = "db.alerts.standing", level = "debug", skip_all)]
    pub async fn alerts_standing(&self) -> Result<Standing, StoreError> {
        let mut reader = self.reader().await?;
        let clock = reader.first("SELECT minute FROM alert_clock WHERE id = 1", &[]).await?;
        let minute = clock.map(|row| row.int(0)).transpose()?.filter(|minute| *minute > i64::MIN);
        let mut standing = Standing {
            evaluated_at: minute.map(|minute| UnixMillis(minute.saturating_mul(MINUTE_MS))),
            ..Standing::default()
        };
        for row in reader.all(STANDING, &[]).await? {
            let (status, alerts) = (row.text(0)?, row.int(1)?);
            match &*status {
                "firing" => standing.firing = alerts,
                _ => standing.pending = alerts,
            }
        }
        Ok(standing)
    }

    /// Alerts, firing ones first, then pending ones, then those that ended since `recent`; the
    /// newest first of each, at most `limit`.
    pub async fn alerts(
        &self,
        now: UnixMillis,
        recent: UnixMillis,
        limit: i64,
    ) -> Result<Vec<Alert>, StoreError> {
        let text = format!(
            "{ALERTS} WHERE a.status IN ('firing', 'pending') \
             OR (a.status = 'resolved' AND a.since >= $1) \
             ORDER BY CASE a.status WHEN 'firing' THEN 0 WHEN 'pending' THEN 1 ELSE 2 END, \
             a.since DESC, a.id LIMIT $2"
        );
        self.alerts_by(text, &[recent.0.into(), limit.into()], now).await
    }

    /// Firings that ended since `recent` and are no alert's present state any more, since it became true
    /// again: each as it stood when it ended, the newest first, at most `limit`.
    pub async fn earlier_firings(
        &self,
        now: UnixMillis,
        recent: UnixMillis,
        limit: i64,
    ) -> Result<Vec<Alert>, StoreError> {
        self.alerts_by(EARLIER.to_owned(), &[recent.0.into(), limit.into()], now).await
    }

    /// One alert; `None` where there is none with this number.
    pub async fn alert(&self, id: i64, now: UnixMillis) -> Result<Option<Alert>, StoreError> {
        let text = format!("{ALERTS} WHERE a.id = $1");
        Ok(self.alerts_by(text, &[id.into()], now).await?.pop())
    }

    /// The alert of a service, an upstream or a pair that fires, else the one that is pending, else
    /// the one that ended last.
    pub async fn alert_about(
        &self,
        scope: &Scope,
        now: UnixMillis,
    ) -> Result<Option<Alert>, StoreError> {
        let mut args = Vec::new();
        let names = [
            ("service", &scope.service),
            ("upstream", &scope.upstream),
            ("environment", &scope.environment),
        ];
        let conditions: Vec<String> = names
            .into_iter()
            .filter_map(|(column, name)| Some((column, name.as_ref()?)))
            .map(|(column, name)| {
                format!(" AND a.{column} = {}", marks(&mut args, [Arg::Text(name.clone())]))
            })
            .collect();
        let conditions = conditions.concat();
        let text = format!(
            "{ALERTS} WHERE a.status IN ('firing', 'pending', 'resolved') AND a.service <> ''\
             {conditions} ORDER BY CASE a.status WHEN 'firing' THEN 0 WHEN 'pending' THEN 1 \
             ELSE 2 END, a.since DESC, a.id LIMIT 1"
        );
        Ok(self.alerts_by(text, &args, now).await?.pop())
    }

    async fn alerts_by(
        &self,
        text: String,
        args: &[Arg],
        now: UnixMillis,
    ) -> Result<Vec<Alert>, StoreError> {
        let mut reader = self.reader().await?;
        let rows = reader.all(text, args).await?;
        let silences = silences(&mut reader, now).await?;
        rows.iter()
            .map(|row| {
                let known = known(row)?;
                let silence =
                    silences.iter().find(|one| one.covers(&known.rule, &known.subject, now));
                let acknowledged = match row.text_or_none(11)? {
                    Some(who) => Some(Acknowledgement {
                        who,
                        why: row.text(12)?.into_owned(),
                        at: UnixMillis(row.int(13)?),
                        until: UnixMillis(row.int(14)?),
                    }),
                    None => None,
                };
                Ok(Alert {
                    silence: silence.cloned(),
                    acknowledged: acknowledged
                        .filter(|one| known.state.is_firing() && one.until > now),
                    known,
                    since: UnixMillis(row.int(7)?),
                    evaluated_at: UnixMillis(row.int(8)?),
                    made: read("alerts", "made", &row.text(9)?)?,
                    latest: read("alerts", "latest", &row.text(10)?)?,
                })
            })
            .collect()
    }

    /// The newest changes of an alert, newest first.
    pub async fn alert_history(&self, id: i64, limit: i64) -> Result<Vec<HistoryItem>, StoreError> {
        let mut reader = self.reader().await?;
        let rows = reader.all(HISTORY, &[id.into(), limit.into()]).await?;
        rows.iter()
            .map(|row| {
                Ok(HistoryItem {
                    number: row.int(0)?,
                    at: UnixMillis(row.int(1)?),
                    change: word("alert_history", "change", &row.text(2)?)?,
                    state: read("alert_history", "state", &row.text(3)?)?,
                    finding: read("alert_history", "finding", &row.text(4)?)?,
                })
            })
            .collect()
    }

    /// Somebody looks after an alert that fires, until that ends or `until` has come. `false` where
    /// it doesn't fire.
    pub async fn acknowledge(&self, id: i64, by: &Acknowledgement) -> Result<bool, StoreError> {
        let args = vec![
            id.into(),
            by.who.as_str().into(),
            by.why.as_str().into(),
            by.at.0.into(),
            by.until.0.into(),
        ];
        Ok(self.transact(vec![Statement::guard(ACKNOWLEDGE, args)]).await?.is_some())
    }

    /// Nobody looks after an alert any more. `false` where nobody did.
    pub async fn withdraw_acknowledgement(&self, id: i64) -> Result<bool, StoreError> {
        let withdraw = Statement::guard(WITHDRAW, vec![id.into()]);
        Ok(self.transact(vec![withdraw]).await?.is_some())
    }

    /// Keeps a silence; its number.
    pub async fn add_silence(
        &self,
        new: &NewSilence,
        now: UnixMillis,
    ) -> Result<Silence, StoreError> {
        let Subject { service, upstream, environment } = &new.subject;
        let texts = [&new.rule, service, upstream, environment, &new.who, &new.why];
        let mut args: Vec<Arg> = texts.into_iter().map(|text| text.as_str().into()).collect();
        args.extend([new.from.0, new.until.0, now.0].map(Arg::Int));
        let given = self.transact(vec![Statement::guard(ADD_SILENCE, args)]).await?;
        let id = given.and_then(|given| given.first()?.first().copied()).unwrap_or_default();
        Ok(Silence { id, of: new.clone(), made_at: now })
    }

    /// Ends a silence now. `false` where there is none with this number that isn't over.
    pub async fn end_silence(&self, id: i64, now: UnixMillis) -> Result<bool, StoreError> {
        let end = Statement::guard(END_SILENCE, vec![now.0.into(), id.into()]);
        Ok(self.transact(vec![end]).await?.is_some())
    }

    /// Silences that are not over, the one that ends first first.
    pub async fn silences(&self, now: UnixMillis) -> Result<Vec<Silence>, StoreError> {
        silences(&mut self.reader().await?, now).await
    }

    /// Takes what is to be sent to a receiver now, at most `limit`, for `lease`: until then nobody
    /// else gets it, and afterwards it counts as not sent unless [`Self::record_sent`] was called. What is told of
    /// one alert to one receiver is given out one after the other; what a silence covers waits,
    /// except that something is over.
    pub async fn take_due(
        &self,
        receiver: &str,
        now: UnixMillis,
        lease: Millis,
        limit: i64,
    ) -> Result<Vec<Due>, StoreError> {
        let args = vec![now.0.into(), now.plus(lease).0.into(), limit.into(), receiver.into()];
        self.take(TAKE, args).await
    }

    /// Takes, for `lease`, what a receiver knows already and is to be told again: what fires, and
    /// what ended since `ended_since`, each once in `every`; and what fires that it could not be told.
    /// Give it back by [`Self::told_again`].
    pub async fn take_known(
        &self,
        receiver: &str,
        now: UnixMillis,
        lease: Millis,
        every: Millis,
        ended_since: UnixMillis,
    ) -> Result<Vec<Due>, StoreError> {
        let args = vec![
            now.0.into(),
            now.plus(lease).0.into(),
            now.plus(every).0.into(),
            receiver.into(),
            ended_since.0.into(),
            now.plus(Millis(-every.0)).0.into(),
        ];
        self.take(TAKE_KNOWN, args).await
    }

    /// Of what was taken to be told again the first `told` were told at `now`, the others could not
    /// be. Those that had been given up are delivered by that.
    pub async fn told_again(
        &self,
        all: &[Due],
        told: usize,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let of = |some: &[Due], mut args: Vec<Arg>, set: &str| {
            let list = marks(&mut args, some.iter().map(|due| Arg::Int(due.id)));
            let text = format!("UPDATE alert_outbox SET {set} AND id IN ({list})");
            (!some.is_empty()).then(|| Statement::new(text, args))
        };
        let told = all.get(..told).unwrap_or(all);
        let heard =
            "outcome = 'delivered', ended_at = $1, last_error = '' WHERE outcome = 'dropped'";
        let given_back = of(all, Vec::new(), "leased_until = 0 WHERE leased_until > 0");
        let heard = of(told, vec![now.0.into()], heard);
        let both: Vec<Statement> = given_back.into_iter().chain(heard).collect();
        if both.is_empty() { Ok(()) } else { self.transact(both).await.map(drop) }
    }

    /// Gives up what waits since before `since` for receivers that are gone, that ask to wait at `now`,
    /// or that are none of `known`; how much.
    pub async fn drop_unknown(
        &self,
        known: &[&str],
        since: UnixMillis,
        now: UnixMillis,
    ) -> Result<usize, StoreError> {
        let mut args = vec![now.0.into(), since.0.into()];
        let list = marks(&mut args, known.iter().map(|name| Arg::from(*name)));
        let others =
            if list.is_empty() { String::new() } else { format!("AND receiver NOT IN ({list})") };
        let text = DROP_UNKNOWN.replace("{others}", &others);
        let held = HELD.map(|(said, held)| {
            let text = DROP_HELD.replace("{said}", said).replace("{held}", held);
            Statement::new(text, vec![now.0.into(), since.0.into()])
        });
        let drop = std::iter::once(Statement::new(text, args)).chain(held).collect();
        let given = self.transact(drop).await?.unwrap_or_default();
        Ok(given.into_iter().flatten().count())
    }

    async fn take(&self, text: &'static str, args: Vec<Arg>) -> Result<Vec<Due>, StoreError> {
        let lock = match &*self.pool {
            Pool::Sqlite(_) => "",
            Pool::Postgres(_) => "FOR UPDATE OF o SKIP LOCKED",
        };
        let text = text.replace("{lock}", lock).replace("{silence}", SILENCE);
        let take = Statement::new(text, args);
        let given = self.transact(vec![take]).await?.unwrap_or_default();
        let ids = given.into_iter().flatten();
        let mut args = Vec::new();
        let list = marks(&mut args, ids.map(Arg::Int));
        if args.is_empty() {
            return Ok(Vec::new());
        }
        let text = format!("{TOLD} WHERE o.id IN ({list}) ORDER BY o.id");
        let rows = self.reader().await?.all(text, &args).await?;
        rows.iter().map(|row| Ok(delivery(row)?.of)).collect()
    }

    /// Within a go an attempt failed, and the next one follows at `next_at`: whoever looks meanwhile
    /// sees why.
    pub async fn note_failed(
        &self,
        due: &Due,
        error: &str,
        next_at: UnixMillis,
    ) -> Result<(), StoreError> {
        let args = vec![next_at.0.into(), error.into(), due.id.into(), due.go.into()];
        self.transact(vec![Statement::new(NOTE_FAILED, args)]).await.map(drop)
    }

    /// Within a go a further attempt begins.
    pub async fn note_attempt(&self, due: &Due) -> Result<(), StoreError> {
        let args = vec![due.id.into(), due.go.into()];
        self.transact(vec![Statement::new(NOTE_ATTEMPT, args)]).await.map(drop)
    }

    /// Gives back what a process of this store took and left behind when it was killed, where the
    /// store belongs to one process at a time: on SQLite. To be called before anything is sent. On
    /// PostgreSQL another replica may be sending it, so that the lease has to run out. How many.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn free_leases(&self) -> Result<usize, StoreError> {
        if matches!(&*self.pool, Pool::Postgres(_)) {
            return Ok(0);
        }
        let free = Statement::new(FREE_LEASES, Vec::new());
        let given = self.transact(vec![free]).await?.unwrap_or_default();
        Ok(given.into_iter().flatten().count())
    }

    /// Keeps how a go went. Where the receiver took it, all else that waits for it is due too: what
    /// failed before would fail no more.
    pub async fn record_sent(
        &self,
        due: &Due,
        sent: &Sent,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let failed = |next_at: UnixMillis, error: &str| {
            let args = vec![next_at.0.into(), error.into(), due.id.into(), due.go.into()];
            vec![Statement::new(FAILED, args)]
        };
        let statements = match sent {
            Sent::Delivered => vec![
                Statement::new(DELIVERED, vec![now.0.into(), due.id.into()]),
                receivers::forward(&due.receiver, now),
            ],
            Sent::Failed { error, next_at } => failed(*next_at, error),
            Sent::Gone { error } => failed(now, error),
            Sent::Dropped { error } => vec![Statement::new(
                DROPPED,
                vec![now.0.into(), error.as_str().into(), due.id.into(), due.go.into()],
            )],
        };
        self.transact(statements).await.map(drop)
    }

    /// What waits or has ended, at most `limit`.
    pub async fn deliveries(&self, order: Order, limit: i64) -> Result<Vec<Delivery>, StoreError> {
        let part = match order {
            Order::Waiting => "WHERE o.outcome = '' ORDER BY o.next_at, o.id",
            Order::Ended => "WHERE o.outcome <> '' ORDER BY o.ended_at DESC, o.id DESC",
        };
        let text = format!("{TOLD} {part} LIMIT $1");
        let rows = self.reader().await?.all(text, &[limit.into()]).await?;
        rows.iter().map(delivery).collect()
    }

    /// What was told of one alert or waits for it, newest first, at most `limit`.
    pub async fn deliveries_of(&self, id: i64, limit: i64) -> Result<Vec<Delivery>, StoreError> {
        let text = format!("{TOLD} WHERE o.alert_id = $1 ORDER BY o.id DESC LIMIT $2");
        let rows = self.reader().await?.all(text, &[id.into(), limit.into()]).await?;
        rows.iter().map(delivery).collect()
    }
}

/// Moves the clock of the evaluations to `$1` where it stands at `$2`.
const MOVE_CLOCK: &str =
    "UPDATE alert_clock SET minute = $1 WHERE id = 1 AND minute = $2 RETURNING minute";

/// The present values of an alert that goes on.
const GO_ON: &str = "UPDATE alerts SET state = $1, evaluated_at = $2, latest = $3 WHERE id = $4";

/// A change of state. The values that made it stay while it fires and when it is over.
const CHANGE: &str = "\
INSERT INTO alerts (rule, service, upstream, environment, state, status, since, changes, fired_at, \
evaluated_at, made, latest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $7, $10, $10) \
ON CONFLICT (rule, service, upstream, environment) DO UPDATE SET state = excluded.state, \
status = excluded.status, since = excluded.since, changes = excluded.changes, \
fired_at = excluded.fired_at, evaluated_at = excluded.evaluated_at, latest = excluded.latest, \
made = CASE WHEN excluded.status IN ('pending', 'firing') THEN excluded.made ELSE alerts.made END";

/// The condition on an alert by what identifies it.
const IDENTITY: &str = "a.rule = $1 AND a.service = $2 AND a.upstream = $3 AND a.environment = $4";

const ADD_HISTORY: &str = "\
INSERT INTO alert_history (alert_id, number, at, change, state, finding) \
SELECT a.id, a.changes, a.since, CAST($5 AS TEXT), a.state, a.latest FROM alerts a WHERE ";

/// What waits to be told of an alert is out of date.
const SUPERSEDE: &str = "\
UPDATE alert_outbox SET outcome = 'superseded', ended_at = $5 WHERE outcome = '' AND alert_id = \
(SELECT a.id FROM alerts a WHERE ";

const ADD_TO_OUTBOX: &str = "\
INSERT INTO alert_outbox (alert_id, number, receiver, change, key, notice, made_at, attempts, \
next_at, leased_until, last_error, outcome, ended_at) ";

/// It fires: the receiver `$5` is told.
const TELL: &str = "\
SELECT a.id, a.changes, CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT), \
a.since, 0, a.since, 0, '', '', 0 FROM alerts a WHERE ";

/// It is over: those are told who may know that it fires, which was the change before.
const TELL_OVER: &str = "\
SELECT a.id, a.changes, o.receiver, CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), \
a.since, 0, a.since, 0, '', '', 0 FROM alerts a JOIN alert_outbox o ON o.alert_id = a.id \
AND o.number = a.changes - 1 AND o.change = 'fired' AND o.attempts > 0 WHERE ";

/// Alerts with who looks after their firing.
const ALERTS: &str = "\
SELECT a.id, a.rule, a.service, a.upstream, a.environment, a.state, a.changes, a.since, \
a.evaluated_at, a.made, a.latest, k.who, k.why, COALESCE(k.at, 0), COALESCE(k.until_at, 0) \
FROM alerts a LEFT JOIN alert_acknowledgements k \
ON k.alert_id = a.id AND k.fired_at = a.fired_at";

/// As [`ALERTS`], firings that ended at `$1` or later and stand in the history alone. The change before
/// an end is that it fires.
const EARLIER: &str = "\
SELECT a.id, a.rule, a.service, a.upstream, a.environment, h.state, h.number, h.at, h.at, \
COALESCE(f.finding, h.finding), h.finding, CAST(NULL AS TEXT), '', CAST(0 AS BIGINT), CAST(0 AS BIGINT) \
FROM alert_history h JOIN alerts a ON a.id = h.alert_id \
LEFT JOIN alert_history f ON f.alert_id = h.alert_id AND f.number = h.number - 1 \
WHERE h.at >= $1 AND h.change = 'resolved' AND (a.status <> 'resolved' OR a.changes <> h.number) \
ORDER BY h.at DESC, a.id LIMIT $2";

const STANDING: &str = "\
SELECT status, COUNT(*) FROM alerts WHERE status IN ('firing', 'pending') GROUP BY status";

const HISTORY: &str = "\
SELECT number, at, change, state, finding FROM alert_history WHERE alert_id = $1 \
ORDER BY number DESC LIMIT $2";

const ACKNOWLEDGE: &str = "\
INSERT INTO alert_acknowledgements (alert_id, fired_at, who, why, at, until_at) \
SELECT a.id, a.fired_at, CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), \
CAST($5 AS BIGINT) FROM alerts a WHERE a.id = $1 AND a.status = 'firing' \
ON CONFLICT (alert_id, fired_at) DO UPDATE SET who = excluded.who, why = excluded.why, \
at = excluded.at, until_at = excluded.until_at RETURNING alert_id";

const WITHDRAW: &str = "\
DELETE FROM alert_acknowledgements WHERE alert_id = $1 \
AND fired_at = (SELECT fired_at FROM alerts WHERE id = $1) RETURNING alert_id";

const ADD_SILENCE: &str = "\
INSERT INTO alert_silences (rule, service, upstream, environment, who, why, from_at, until_at, \
made_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id";

const END_SILENCE: &str =
    "UPDATE alert_silences SET until_at = $1 WHERE id = $2 AND until_at > $1 RETURNING id";

const SILENCES: &str = "\
SELECT id, rule, service, upstream, environment, from_at, until_at, who, why, made_at \
FROM alert_silences WHERE until_at > $1 ORDER BY until_at, id";

/// Takes what is due at `$1` for the receiver `$4` until `$2`.
const TAKE: &str = "\
UPDATE alert_outbox SET attempts = attempts + 1, tries = tries + 1, leased_until = $2 WHERE id IN (\
SELECT o.id FROM alert_outbox o JOIN alerts a ON a.id = o.alert_id \
WHERE o.receiver = $4 AND o.outcome = '' AND o.next_at <= $1 AND o.leased_until <= $1 \
AND NOT EXISTS (SELECT 1 FROM alert_outbox b WHERE b.alert_id = o.alert_id \
AND b.receiver = o.receiver AND b.number < o.number AND b.leased_until > $1) \
AND (o.change = 'resolved' OR NOT EXISTS ({silence})) \
ORDER BY o.next_at, o.id LIMIT $3 {lock}) RETURNING id";

/// A silence of the alert `a` at `$1`.
const SILENCE: &str = "\
SELECT 1 FROM alert_silences s \
WHERE s.from_at <= $1 AND s.until_at > $1 AND s.rule IN ('', a.rule) \
AND s.service IN ('', a.service) AND s.upstream IN ('', a.upstream) \
AND s.environment IN ('', a.environment)";

/// Takes what the receiver `$4` knows and was not told since `$6`, if that still is how it stands, until
/// `$2`; and what fires that it was not told, since telling it was given up. For what was delivered
/// `next_at` is when it is told again.
const TAKE_KNOWN: &str = "\
UPDATE alert_outbox SET next_at = $3, leased_until = $2 WHERE id IN (\
SELECT o.id FROM alerts a JOIN alert_outbox o ON o.alert_id = a.id AND o.number = a.changes \
WHERE (a.status = 'firing' OR (a.status = 'resolved' AND a.since >= $5)) AND o.receiver = $4 \
AND o.next_at <= $1 AND o.leased_until <= $1 AND o.ended_at <= $6 \
AND (o.outcome = 'delivered' OR (o.outcome = 'dropped' AND o.change = 'fired' \
AND NOT EXISTS ({silence}))) \
{lock}) RETURNING id";

const FREE_LEASES: &str =
    "UPDATE alert_outbox SET leased_until = 0 WHERE leased_until > 0 RETURNING id";

const DROP_UNKNOWN: &str = "\
UPDATE alert_outbox SET outcome = 'dropped', ended_at = $1, leased_until = 0, \
last_error = 'no receiver of this name is in the settings' \
WHERE outcome = '' AND leased_until <= $1 AND made_at < $2 {others} RETURNING id";

/// What a receiver can't be told in time, as it said itself, and how it said so.
const DROP_HELD: &str = "\
UPDATE alert_outbox SET outcome = 'dropped', ended_at = $1, leased_until = 0, \
last_error = 'its receiver {said}; given up: notify_give_up_ms is over' \
WHERE outcome = '' AND leased_until <= $1 AND made_at < $2 \
AND receiver IN (SELECT name FROM alert_receivers WHERE {held}) RETURNING id";

/// How a receiver said that it is sent nothing, and the row that says so.
const HELD: [(&str, &str); 2] = [("is gone", "gone_at > 0"), ("asks to wait", "held_until > $1")];

/// What is told: the columns that [`delivery`] reads.
const TOLD: &str = "\
SELECT o.id, o.alert_id, o.receiver, o.notice, o.made_at, o.attempts, o.next_at, o.last_error, \
o.outcome, o.ended_at, o.tries, o.leased_until FROM alert_outbox o";

/// Whatever was thought of it since: the receiver has it.
const DELIVERED: &str = "\
UPDATE alert_outbox SET outcome = 'delivered', ended_at = $1, leased_until = 0, last_error = '' \
WHERE id = $2 AND outcome <> 'delivered'";
const NOTE_FAILED: &str = "\
UPDATE alert_outbox SET next_at = $1, last_error = $2 \
WHERE id = $3 AND attempts = $4 AND outcome IN ('', 'superseded')";
const NOTE_ATTEMPT: &str =
    "UPDATE alert_outbox SET tries = tries + 1 WHERE id = $1 AND attempts = $2";
/// Only of the newest go, since an older one says nothing about it.
const FAILED: &str = "\
UPDATE alert_outbox SET next_at = $1, last_error = $2, leased_until = 0 \
WHERE id = $3 AND attempts = $4 AND outcome IN ('', 'superseded')";
const DROPPED: &str = "\
UPDATE alert_outbox SET outcome = 'dropped', ended_at = $1, last_error = $2, leased_until = 0 \
WHERE id = $3 AND attempts = $4 AND outcome IN ('', 'superseded')";

/// What is known of an alert that still fires stays, since it is told again.
const FORGET_TOLD: &str = "\
DELETE FROM alert_outbox WHERE outcome <> '' AND ended_at < $1 AND NOT EXISTS (\
SELECT 1 FROM alerts a WHERE a.id = alert_outbox.alert_id AND a.status = 'firing' \
AND a.changes = alert_outbox.number)";
const FORGET_ALERTS: &str = "\
DELETE FROM alerts WHERE status IN ('inactive', 'resolved') AND since < $1 \
AND NOT EXISTS (SELECT 1 FROM alert_outbox o WHERE o.alert_id = alerts.id AND o.outcome = '')";
const FORGET_HISTORY: &str = "DELETE FROM alert_history WHERE at < $1";
const FORGET_SILENCES: &str = "DELETE FROM alert_silences WHERE until_at < $1";
const FORGET_ACKNOWLEDGEMENTS: &str =
    "DELETE FROM alert_acknowledgements WHERE alert_id NOT IN (SELECT id FROM alerts)";

/// The statements of one change.
fn change(
    changed: &Changed,
    at: UnixMillis,
    receivers: &[Addressee],
    statements: &mut Vec<Statement>,
) -> Result<(), StoreError> {
    let Changed { rule, subject, change, state, changes, finding, notice } = changed;
    let Subject { service, upstream, environment } = subject;
    let identity = || -> Vec<Arg> {
        [rule.name, service, upstream, environment].into_iter().map(Arg::from).collect()
    };
    let with = |more: Vec<Arg>| identity().into_iter().chain(more).collect::<Vec<_>>();
    statements.push(Statement::new(
        CHANGE,
        with(vec![
            json(state)?.into(),
            state.as_str().into(),
            at.0.into(),
            (*changes).into(),
            state.fired_at().unwrap_or_default().0.into(),
            json(finding)?.into(),
        ]),
    ));
    let of_alert = |text: &str| format!("{text}{IDENTITY}");
    statements.push(Statement::new(of_alert(ADD_HISTORY), with(vec![change.as_str().into()])));
    let Some(notice) = notice else { return Ok(()) };
    let supersede = format!("{SUPERSEDE}{IDENTITY} AND alert_outbox.number < a.changes)");
    statements.push(Statement::new(supersede, with(vec![at.0.into()])));
    let told = || -> Result<[Arg; 3], StoreError> {
        Ok([change.as_str().into(), notice.key.as_str().into(), json(notice)?.into()])
    };
    let nothing_new = " ON CONFLICT DO NOTHING";
    if *change == Transition::Resolved {
        let text = format!("{ADD_TO_OUTBOX}{TELL_OVER}{IDENTITY}{nothing_new}");
        statements.push(Statement::new(text, with(told()?.to_vec())));
        return Ok(());
    }
    for receiver in receivers.iter().filter(|one| one.wants(rule.severity)) {
        let text = format!("{ADD_TO_OUTBOX}{TELL}{IDENTITY}{nothing_new}");
        let more = std::iter::once(Arg::from(receiver.name.as_str())).chain(told()?).collect();
        statements.push(Statement::new(text, with(more)));
    }
    Ok(())
}

async fn silences(reader: &mut Reader, now: UnixMillis) -> Result<Vec<Silence>, StoreError> {
    let rows = reader.all(SILENCES, &[now.0.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(Silence {
                id: row.int(0)?,
                of: NewSilence {
                    rule: row.text(1)?.into_owned(),
                    subject: subject(row, 2)?,
                    from: UnixMillis(row.int(5)?),
                    until: UnixMillis(row.int(6)?),
                    who: row.text(7)?.into_owned(),
                    why: row.text(8)?.into_owned(),
                },
                made_at: UnixMillis(row.int(9)?),
            })
        })
        .collect()
}

/// The first seven columns of [`ALERTS`].
fn known(row: &Row) -> Result<KnownAlert, StoreError> {
    Ok(KnownAlert {
        id: row.int(0)?,
        rule: row.text(1)?.into_owned(),
        subject: subject(row, 2)?,
        state: read("alerts", "state", &row.text(5)?)?,
        changes: row.int(6)?,
    })
}

/// A row of [`TOLD`].
fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    let ended_at = UnixMillis(row.int(9)?);
    let ended = match &*row.text(8)? {
        "" => None,
        "delivered" => Some((Ended::Delivered, ended_at)),
        "dropped" => Some((Ended::Dropped, ended_at)),
        _ => Some((Ended::Superseded, ended_at)),
    };
    Ok(Delivery {
        of: Due {
            id: row.int(0)?,
            alert_id: row.int(1)?,
            receiver: row.text(2)?.into_owned(),
            notice: read("alert_outbox", "notice", &row.text(3)?)?,
            made_at: UnixMillis(row.int(4)?),
            go: row.int(5)?,
        },
        attempts: row.int(10)?,
        leased_until: UnixMillis(row.int(11)?),
        next_at: UnixMillis(row.int(6)?),
        last_error: row.text(7)?.into_owned(),
        ended,
    })
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt {
        table: "alerts",
        column: "state",
        reason: error.to_string(),
    })
}

fn read<T: DeserializeOwned>(
    table: &'static str,
    column: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt {
        table,
        column,
        reason: error.to_string(),
    })
}

fn word<T: std::str::FromStr<Err: std::fmt::Display>>(
    table: &'static str,
    column: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    text.parse().map_err(|error: T::Err| StoreError::Corrupt {
        table,
        column,
        reason: error.to_string(),
    })
}
