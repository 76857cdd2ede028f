//! What the evaluator and the store promise together, on both databases by the same cases.

use super::fleet::{BASE, Fleet, MIDNIGHT, at, evaluator, event, refused, served, storm};
use retrylens::clock::Clock;
use retrylens::domain::alerts::notice::Subject;
use retrylens::domain::alerts::{AlertState, ReceiverKey, Severity, Transition};
use retrylens::domain::stored::Scope;
use retrylens::domain::time::{DAY_MS, MINUTE_MS, Millis, UnixMillis};
use retrylens::metrics::{Caps, Metrics};
use retrylens::store::{
    Acknowledgement, Alert, Ended, NewSilence, Order, ReceiverHold, Sent, Standing, Store,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite://{}", folder.path().join("alerts.db").display());
                let store = super::Store::open(&url).await.unwrap();
                super::$case(store.clone()).await;
                store.close().await.unwrap();
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(schema) = crate::support::postgres::Schema::create().await else { return };
                let store = super::Store::open(&schema.url()).await.unwrap();
                super::$case(store.clone()).await;
                store.close().await.unwrap();
                schema.drop().await;
            })+
        }
    };
}

on_both!(
    a_storm_pends_fires_and_resolves_and_each_change_is_told_once,
    a_restart_neither_fires_nor_forgets,
    missed_minutes_are_evaluated_as_if_in_time,
    after_a_long_gap_what_was_pending_starts_anew,
    a_clock_that_was_put_back_stops_nothing,
    two_evaluators_evaluate_each_minute_once,
    a_pair_that_only_failed_is_silent_until_it_was_served,
    a_pair_is_counted_from_its_outermost_source,
    environments_are_alerts_of_their_own,
    no_event_from_anybody_is_an_alert,
    a_first_event_is_no_silence_before_it,
    what_is_due_is_given_to_one_at_a_time,
    what_failed_comes_again_with_the_same_key_and_what_is_out_of_date_does_not,
    a_silence_holds_back_what_fires_and_lets_pass_what_is_over,
    an_acknowledgement_lasts_as_long_as_the_firing,
    how_alerts_stand_is_counted,
    what_was_told_of_one_alert_is_listed_newest_first,
    leases_are_freed_at_a_start_only_where_no_other_process_can_have_them,
    what_a_receiver_said_counts_until_it_is_over_and_for_that_address,
    what_waits_for_a_receiver_that_is_gone_is_given_up_in_the_end,
    what_waits_for_a_receiver_that_asks_to_wait_for_too_long_is_given_up_in_the_end,
    what_is_old_is_removed,
    a_firing_that_ended_stays_listed_when_the_alert_pends_again,
);

async fn a_firing_that_ended_stays_listed_when_the_alert_pends_again(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 10, 0).await;
    until_it_fires(&mut fleet).await;
    weather(&mut fleet, 40, 0).await;
    assert_eq!(fleet.status(SPIKE, "checkout").await, "resolved");
    let earlier = async |fleet: &Fleet| {
        let all = store.earlier_firings(fleet.clock.now(), UnixMillis(0), 100).await.unwrap();
        all.into_iter().filter(|alert| alert.known.rule == SPIKE).collect::<Vec<_>>()
    };
    assert_eq!(earlier(&fleet).await, [], "it is what the alert is now");
    let ended = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    // Too short a storm to fire again.
    while fleet.status(SPIKE, "checkout").await != "pending" {
        weather(&mut fleet, 0, 1).await;
    }
    fleet.live(vec![served("checkout", 100_000)]).await;
    let now = store.alert(ended.known.id, fleet.clock.now()).await.unwrap().unwrap();
    assert_eq!((now.known.state, now.known.changes), (AlertState::Inactive, 5));
    let listed = earlier(&fleet).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let one = &listed[0];
    assert_eq!((&one.known, one.since), (&ended.known, ended.since));
    assert_eq!(one.made, ended.made, "the values that made it fire");
    let later = store.earlier_firings(fleet.clock.now(), one.since.plus(Millis(1)), 100).await;
    assert!(later.unwrap().iter().all(|alert| alert.known.rule != SPIKE));
}

const SPIKE: &str = "Retrylens429Spike";
const LEASE: Millis = Millis(30_000);

fn subject(service: &str) -> Subject {
    Subject {
        service: service.to_owned(),
        upstream: "api.example.com".to_owned(),
        environment: String::new(),
    }
}

/// Calm minutes of `checkout`, then stormy ones.
async fn weather(fleet: &mut Fleet, calm: usize, stormy: usize) {
    for _ in 0..calm {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    for _ in 0..stormy {
        fleet.live(storm("checkout")).await;
    }
}

/// Stormy minutes until the spike fires: two, and two in which it is pending.
async fn until_it_fires(fleet: &mut Fleet) {
    for _ in 0..10 {
        fleet.live(storm("checkout")).await;
        if fleet.status(SPIKE, "checkout").await == "firing" {
            return;
        }
    }
    panic!("it doesn't fire");
}

async fn a_storm_pends_fires_and_resolves_and_each_change_is_told_once(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 10, 0).await;
    assert!(fleet.standing().await.is_empty(), "calm");
    until_it_fires(&mut fleet).await;
    let firing = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    let AlertState::Firing { active_since, fired_at, false_since: None } = firing.known.state
    else {
        panic!("{firing:?}");
    };
    assert_eq!(fired_at.since(active_since), Millis(2 * MINUTE_MS), "for two minutes");
    assert_eq!((firing.since, firing.known.changes), (fired_at, 2));
    assert!(
        firing.made.readings.iter().any(|r| r.minutes == 30 && r.limit == "> 5%"),
        "{firing:?}"
    );
    let made = firing.made.value.unwrap();
    assert!(made.part * 5 > made.whole, "{made:?}");

    // Two minutes calm, then stormy again: it fires on all the while.
    weather(&mut fleet, 6, 3).await;
    let on = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    assert_eq!((on.known.state, on.known.changes), (firing.known.state, 2));
    assert_eq!(on.made, firing.made, "the values that made it fire stay");
    assert_ne!(on.latest, firing.latest);
    assert_eq!(on.evaluated_at, at(fleet.minute));

    let due = store.take_due("pager", fleet.clock.now(), LEASE, 100).await.unwrap();
    let told = due.iter().find(|due| due.notice.alert == SPIKE).unwrap().clone();
    for one in &due {
        store.record_sent(one, &Sent::Delivered, fleet.clock.now()).await.unwrap();
    }
    weather(&mut fleet, 20, 0).await;
    assert_eq!(fleet.status(SPIKE, "checkout").await, "resolved");
    let history = store.alert_history(firing.known.id, 10).await.unwrap();
    let changes: Vec<Transition> = history.iter().rev().map(|item| item.change).collect();
    assert_eq!(changes, [Transition::Pended, Transition::Fired, Transition::Resolved]);
    assert_eq!(history.iter().map(|item| item.number).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(history[1].finding, firing.made);
    assert_eq!(history[1].at, fired_at);

    let notice = &told.notice;
    assert_eq!(
        (notice.change, notice.at, notice.severity),
        (Transition::Fired, fired_at, Severity::Critical)
    );
    assert_eq!(notice.subject, subject("checkout"));
    assert_eq!(notice.summary, "api.example.com answers checkout with 429");
    assert!(notice.description.ends_with("% of the attempts of the last 5 minutes got 429."));
    assert_eq!(notice.runbook_url, format!("{BASE}/docs/alerts#429-spike"));
    let from = active_since.plus(Millis(-30 * MINUTE_MS)).to_rfc3339();
    let to = fired_at.to_rfc3339();
    assert_eq!(
        notice.dashboard_url.as_deref(),
        Some(&*format!(
            "{BASE}/triage?service=checkout&upstream=api.example.com&from={from}&to={to}&time=received"
        ))
    );
    let over = store.take_due("pager", fleet.clock.now(), LEASE, 100).await.unwrap();
    let over: Vec<_> = over.iter().filter(|due| due.notice.alert == SPIKE).collect();
    assert_eq!(over.len(), 1, "{over:?}");
    assert_eq!((over[0].notice.change, over[0].alert_id), (Transition::Resolved, told.alert_id));
    assert_ne!(over[0].notice.key, notice.key);
}

async fn a_restart_neither_fires_nor_forgets(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 4).await;
    let before = fleet.standing().await;
    assert!(before.len() > 1, "{before:?}");
    // A new process that knows nothing, in the same minute and in the next.
    fleet.evaluator = evaluator(&store, &Metrics::new(Caps::default()));
    assert_eq!(fleet.evaluator.catch_up(fleet.clock.now()).await.unwrap(), 0);
    assert_eq!(fleet.standing().await, before);
    let (mut stayed, mut twin) = (Vec::new(), Vec::new());
    for minute in 0..12 {
        fleet.evaluator = evaluator(&store, fleet.intake.metrics());
        fleet.live(if minute < 6 { storm("checkout") } else { Vec::new() }).await;
        stayed.push(fleet.status(SPIKE, "checkout").await);
        twin.push("firing");
    }
    assert_eq!(stayed, twin);
}

async fn missed_minutes_are_evaluated_as_if_in_time(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 0).await;
    // The storm comes and goes while nobody evaluates.
    for minute in 0..40 {
        let events = if minute < 8 { storm("checkout") } else { vec![served("checkout", 60)] };
        fleet.send(events).await;
        fleet.pass();
    }
    assert_eq!(fleet.evaluator.catch_up(fleet.clock.now()).await.unwrap(), 40);
    let spike = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    let AlertState::Resolved { active_since, fired_at, resolved_at } = spike.known.state else {
        panic!("{spike:?}");
    };
    assert_eq!(fired_at.since(active_since), Millis(2 * MINUTE_MS));
    let began = active_since.0 / MINUTE_MS - MIDNIGHT;
    assert!((7..9).contains(&began), "{began}");
    assert!(resolved_at < at(fleet.minute - 10), "{spike:?}");
    // Nobody is told of something that was over before anybody could be told.
    let due = store.take_due("pager", fleet.clock.now(), LEASE, 100).await.unwrap();
    assert!(due.iter().all(|due| due.notice.alert != SPIKE), "{due:?}");
}

async fn after_a_long_gap_what_was_pending_starts_anew(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 0).await;
    while fleet.status(SPIKE, "checkout").await != "pending" {
        fleet.live(storm("checkout")).await;
    }
    // Two days; the last hour, which is looked at, begins in the middle of a storm.
    fleet.minute += 2_880 - 70;
    for _ in 0..70 {
        fleet.send(storm("checkout")).await;
        fleet.pass();
    }
    assert_eq!(fleet.evaluator.catch_up(fleet.clock.now()).await.unwrap(), 60);
    let spike = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    let AlertState::Firing { active_since, fired_at, .. } = spike.known.state else {
        panic!("{spike:?}");
    };
    assert_eq!(active_since, at(fleet.minute - 59), "the first minute that was looked at");
    assert_eq!(fired_at.since(active_since), Millis(2 * MINUTE_MS));
}

async fn a_clock_that_was_put_back_stops_nothing(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 3, 0).await;
    let now = fleet.clock.now();
    // A minute back: nothing is evaluated twice.
    fleet.evaluator = evaluator(&store, fleet.intake.metrics());
    let back = now.plus(Millis(-MINUTE_MS));
    assert_eq!(fleet.evaluator.catch_up(back).await.unwrap(), 0);
    // A year ahead by mistake, then right again.
    assert!(fleet.evaluator.catch_up(now.plus(Millis(365 * DAY_MS))).await.unwrap() > 0);
    fleet.evaluator = evaluator(&store, fleet.intake.metrics());
    fleet.live(storm("checkout")).await;
    weather(&mut fleet, 0, 5).await;
    assert_eq!(fleet.status(SPIKE, "checkout").await, "firing");
}

async fn two_evaluators_evaluate_each_minute_once(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 0).await;
    let mut other = evaluator(&store, fleet.intake.metrics());
    let mut evaluated = 0;
    for _ in 0..6 {
        fleet.send(storm("checkout")).await;
        fleet.pass();
        let now = fleet.clock.now();
        let (a, b) = tokio::join!(fleet.evaluator.catch_up(now), other.catch_up(now));
        evaluated += a.unwrap() + b.unwrap();
    }
    assert_eq!(evaluated, 6);
    let spike = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    assert_eq!(spike.known.changes, 2, "{spike:?}");
    let due = store.take_due("pager", fleet.clock.now(), LEASE, 100).await.unwrap();
    assert_eq!(due.iter().filter(|due| due.notice.alert == SPIKE).count(), 1);
}

async fn a_pair_that_only_failed_is_silent_until_it_was_served(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    let failing = || vec![event("broken", json!({"status": 429, "count": 60}))];
    for _ in 0..10 {
        fleet.live(failing()).await;
    }
    assert_eq!(fleet.status(SPIKE, "broken").await, "inactive");
    let mut mixed = failing();
    mixed.push(served("broken", 1));
    fleet.live(mixed).await;
    // Served once, long ago; a restart doesn't forget that.
    fleet.evaluator = evaluator(&store, fleet.intake.metrics());
    for _ in 0..3 {
        fleet.live(failing()).await;
    }
    assert_eq!(fleet.status(SPIKE, "broken").await, "firing");
    // Four days later nothing in any window says so.
    fleet.minute += 4 * 1_440;
    fleet.evaluator = evaluator(&store, fleet.intake.metrics());
    for _ in 0..60 {
        fleet.send(failing()).await;
        fleet.pass();
    }
    assert_eq!(fleet.evaluator.catch_up(fleet.clock.now()).await.unwrap(), 60);
    assert_eq!(fleet.status(SPIKE, "broken").await, "firing");
}

async fn a_pair_is_counted_from_its_outermost_source(store: Store) {
    let seen_by = |vantage: &str, events: Vec<Value>| -> Vec<Value> {
        let with = |mut event: Value| {
            event["vantage"] = json!(vantage);
            event
        };
        events.into_iter().map(with).collect()
    };
    let mut fleet = Fleet::new(store.clone(), 0);
    for minute in 0..12 {
        // One pair only its gateway saw; of the other the client says all is well.
        let mut events = seen_by("gateway", storm("edge"));
        events.extend(seen_by("gateway", storm("both")));
        events.push(served("both", if minute == 0 { 1 } else { 60 }));
        fleet.live(events).await;
    }
    assert_eq!(fleet.status(SPIKE, "edge").await, "firing");
    assert_eq!(fleet.status(SPIKE, "both").await, "inactive");
}

async fn environments_are_alerts_of_their_own(store: Store) {
    let mut fleet = Fleet::new(store.clone(), 0);
    let staging = |mut event: Value| {
        event["environment"] = json!("staging");
        event
    };
    for _ in 0..8 {
        let mut events = vec![served("checkout", 60)];
        events.extend(storm("checkout").into_iter().map(staging));
        fleet.live(events).await;
    }
    let now = fleet.clock.now();
    let alerts = store.alerts(now, now, 100).await.unwrap();
    assert!(!alerts.is_empty());
    assert!(alerts.iter().all(|alert| alert.known.subject.environment == "staging"), "{alerts:?}");
    let due = store.take_due("pager", now, LEASE, 100).await.unwrap();
    let link = due[0].notice.dashboard_url.as_deref().unwrap();
    assert!(link.contains("&environment=staging&"), "{link}");
    let scope = Scope {
        service: Some("checkout".to_owned()),
        upstream: Some("api.example.com".to_owned()),
        ..Scope::default()
    };
    let found = store.alert_about(&scope, now).await.unwrap().unwrap();
    assert!(found.known.state.is_firing());
    let other = Scope { environment: Some("prod".to_owned()), ..scope };
    assert_eq!(store.alert_about(&other, now).await.unwrap(), None);
}

async fn no_event_from_anybody_is_an_alert(store: Store) {
    const STALLED: &str = "RetrylensIngestStalled";
    let mut fleet = Fleet::new(store.clone(), 0);
    fleet.live(Vec::new()).await;
    assert_eq!(fleet.status(STALLED, "").await, "inactive", "nothing was ever connected");
    fleet.live(vec![served("checkout", 1)]).await;
    let mut words = Vec::new();
    for _ in 0..17 {
        fleet.live(Vec::new()).await;
        words.push(fleet.status(STALLED, "").await);
    }
    // The event came half a minute before the first of them ended; over 600 s at the tenth, and
    // five minutes later it fires.
    assert_eq!(words.iter().position(|word| *word == "pending"), Some(9), "{words:?}");
    assert_eq!(words.iter().position(|word| *word == "firing"), Some(14), "{words:?}");
    let due = store.take_due("pager", fleet.clock.now(), LEASE, 100).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].notice.dashboard_url, None);
    assert_eq!(
        due[0].notice.description,
        "Last event 15m 30s ago; every other retrylens alert is blind."
    );
    fleet.live(vec![served("checkout", 1)]).await;
    assert_eq!(fleet.status(STALLED, "").await, "resolved");
}

async fn a_first_event_is_no_silence_before_it(store: Store) {
    // In mid-hour, and between the minute that is evaluated and its evaluation.
    let mut fleet = Fleet::new(store, 37);
    fleet.send(vec![served("checkout", 1)]).await;
    let now = at(fleet.minute).plus(Millis(40_000));
    assert_eq!(fleet.evaluator.catch_up(now).await.unwrap(), 1);
    assert_eq!(fleet.status("RetrylensIngestStalled", "").await, "inactive");
}

/// A fleet whose spike fires, and what is to be told of it alone.
async fn firing(store: &Store) -> Fleet {
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 0).await;
    until_it_fires(&mut fleet).await;
    let now = fleet.clock.now();
    // What else fires is told and done with.
    for due in store.take_due("pager", now, LEASE, 100).await.unwrap() {
        if due.notice.alert == SPIKE {
            let again = Sent::Failed { error: String::new(), next_at: now };
            store.record_sent(&due, &again, now).await.unwrap();
        } else {
            store.record_sent(&due, &Sent::Delivered, now).await.unwrap();
        }
    }
    fleet
}

async fn what_is_due_is_given_to_one_at_a_time(store: Store) {
    let fleet = firing(&store).await;
    let now = fleet.clock.now();
    let taking = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.take_due("pager", now, LEASE, 10).await.unwrap() })
    });
    let mut taken = Vec::new();
    for task in taking.collect::<Vec<_>>() {
        taken.extend(task.await.unwrap());
    }
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0].go, 2);
    // Whoever took it is killed: after the lease it is given out again, with the same key.
    let almost = now.plus(Millis(LEASE.0 - 1));
    assert!(store.take_due("pager", almost, LEASE, 10).await.unwrap().is_empty());
    let again = store.take_due("pager", now.plus(LEASE), LEASE, 10).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].go, &again[0].notice), (3, &taken[0].notice));
    // The first was not killed after all: late news of a failure changes nothing, of success all.
    let failed = Sent::Failed { error: "late".to_owned(), next_at: now };
    store.record_sent(&taken[0], &failed, now).await.unwrap();
    assert!(store.take_due("pager", now.plus(LEASE), LEASE, 10).await.unwrap().is_empty());
    store.record_sent(&taken[0], &Sent::Delivered, now).await.unwrap();
    assert!(store.take_due("pager", now.plus(Millis(DAY_MS)), LEASE, 10).await.unwrap().is_empty());
}

async fn what_failed_comes_again_with_the_same_key_and_what_is_out_of_date_does_not(store: Store) {
    let mut fleet = firing(&store).await;
    let mut now = fleet.clock.now();
    let first = store.take_due("pager", now, LEASE, 10).await.unwrap().pop().unwrap();
    let next_at = now.plus(Millis(5_000));
    let failed = Sent::Failed { error: "503".to_owned(), next_at };
    store.record_sent(&first, &failed, now).await.unwrap();
    let waiting = store.deliveries(Order::Waiting, 10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!((&*waiting[0].last_error, waiting[0].next_at), ("503", next_at));
    assert!(store.take_due("pager", now, LEASE, 10).await.unwrap().is_empty());
    // It is due once its receiver works again.
    store.bring_forward("chat", now).await.unwrap();
    assert!(store.take_due("pager", now, LEASE, 10).await.unwrap().is_empty());
    store.bring_forward("pager", now).await.unwrap();
    let second = store.take_due("pager", now, LEASE, 10).await.unwrap().pop().unwrap();
    assert_eq!((second.go, &second.notice.key), (first.go + 1, &first.notice.key));

    // It ends while that attempt is under way: its end is told after it, never before.
    while fleet.status(SPIKE, "checkout").await == "firing" {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    now = fleet.clock.now();
    let long = Millis(now.since(next_at).0 + MINUTE_MS);
    let of_spike = |all: Vec<retrylens::store::Due>| -> Vec<_> {
        all.into_iter().filter(|due| due.notice.alert == SPIKE).collect()
    };
    let in_order = of_spike(store.take_due("pager", now, LEASE, 10).await.unwrap());
    assert_eq!(in_order.len(), 1, "the lease of the other is over: {long:?}");
    assert_eq!(in_order[0].notice.change, Transition::Resolved);
    let dropped = Sent::Dropped { error: "410".to_owned() };
    store.record_sent(&in_order[0], &dropped, now).await.unwrap();
    // The failed one is out of date and never comes again.
    store.record_sent(&second, &failed, now).await.unwrap();
    let later = now.plus(Millis(DAY_MS));
    assert!(of_spike(store.take_due("pager", later, LEASE, 10).await.unwrap()).is_empty());
    let ended = store.deliveries(Order::Ended, 10).await.unwrap();
    let of = |change| {
        let found =
            ended.iter().find(|d| d.of.notice.alert == SPIKE && d.of.notice.change == change);
        found.unwrap().ended.unwrap().0
    };
    assert_eq!(
        (of(Transition::Fired), of(Transition::Resolved)),
        (Ended::Superseded, Ended::Dropped)
    );
}

async fn a_silence_holds_back_what_fires_and_lets_pass_what_is_over(store: Store) {
    let mut fleet = firing(&store).await;
    let now = fleet.clock.now();
    let of = NewSilence {
        rule: String::new(),
        subject: Subject { service: "checkout".to_owned(), ..Subject::default() },
        from: now,
        until: now.plus(Millis(3_600_000)),
        who: "ann".to_owned(),
        why: "a planned test".to_owned(),
    };
    let elsewhere = NewSilence { subject: subject("search"), ..of.clone() };
    store.add_silence(&elsewhere, now).await.unwrap();
    let silence = store.add_silence(&of, now).await.unwrap();
    assert_eq!(store.silences(now).await.unwrap().len(), 2);
    let alert = fleet.standing().await.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap();
    assert_eq!(alert.silence.as_ref(), Some(&silence));
    assert!(store.take_due("pager", now, LEASE, 10).await.unwrap().is_empty());
    assert!(store.end_silence(silence.id, now).await.unwrap());
    assert!(!store.end_silence(silence.id, now).await.unwrap());
    let due = store.take_due("pager", now, LEASE, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    store.record_sent(&due[0], &Sent::Delivered, now).await.unwrap();
    store.add_silence(&of, now).await.unwrap();
    while fleet.status(SPIKE, "checkout").await == "firing" {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let over = store.take_due("pager", fleet.clock.now(), LEASE, 10).await.unwrap();
    assert!(over.iter().any(|due| due.notice.alert == SPIKE), "{over:?}");
    assert!(over.iter().all(|due| due.notice.change == Transition::Resolved), "{over:?}");
}

async fn an_acknowledgement_lasts_as_long_as_the_firing(store: Store) {
    let mut fleet = firing(&store).await;
    let now = fleet.clock.now();
    let find = |mut all: std::collections::BTreeMap<(String, String), retrylens::store::Alert>| {
        all.remove(&(SPIKE.to_owned(), "checkout".to_owned())).unwrap()
    };
    let by = Acknowledgement {
        who: "ann".to_owned(),
        why: "on it".to_owned(),
        at: now,
        until: now.plus(Millis(DAY_MS)),
    };
    let id = find(fleet.standing().await).known.id;
    assert!(store.acknowledge(id, &by).await.unwrap());
    assert_eq!(find(fleet.standing().await).acknowledged, Some(by.clone()));
    let later = Acknowledgement { why: "still on it".to_owned(), ..by.clone() };
    assert!(store.acknowledge(id, &later).await.unwrap());
    assert_eq!(store.alert(id, now).await.unwrap().unwrap().acknowledged, Some(later));
    assert_eq!(store.alert(id, by.until).await.unwrap().unwrap().acknowledged, None, "it ends");
    assert!(store.withdraw_acknowledgement(id).await.unwrap());
    assert!(!store.withdraw_acknowledgement(id).await.unwrap());
    assert!(store.acknowledge(id, &by).await.unwrap());
    while fleet.status(SPIKE, "checkout").await == "firing" {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let over = find(fleet.standing().await);
    assert_eq!(over.acknowledged, None);
    assert!(!store.acknowledge(id, &by).await.unwrap(), "it doesn't fire");
    until_it_fires(&mut fleet).await;
    let anew = find(fleet.standing().await);
    assert_eq!((anew.known.id, anew.acknowledged), (id, None), "another firing of the same alert");
    assert_eq!(store.alert(id + 1_000, now).await.unwrap(), None);
}

async fn what_a_receiver_said_counts_until_it_is_over_and_for_that_address(store: Store) {
    let key = |address: &str| ReceiverKey { name: "pager".to_owned(), address: address.to_owned() };
    let (here, elsewhere) = (key("one"), key("another"));
    let at = |ms: i64| UnixMillis(1_000_000 + ms);
    assert!(store.hold(&here).await.unwrap().is_open(at(0)));
    store.hold_back(&here, at(20)).await.unwrap();
    store.hold_back(&here, at(10)).await.unwrap();
    let hold = store.hold(&here).await.unwrap();
    assert_eq!(hold.until, at(20), "the longest counts");
    assert_eq!((hold.is_open(at(19)), hold.is_open(at(20))), (false, true));
    assert!(store.hold(&elsewhere).await.unwrap().is_open(at(0)));
    assert_eq!(store.holds(at(19)).await.unwrap(), [(here.clone(), hold)]);
    assert_eq!(store.holds(at(20)).await.unwrap(), []);
    store.note_gone(&here, at(30)).await.unwrap();
    store.note_gone(&here, at(40)).await.unwrap();
    let gone = store.hold(&here).await.unwrap();
    assert_eq!((gone.gone_at, gone.is_open(at(50))), (Some(at(30)), false));
    assert_eq!(store.holds(at(50)).await.unwrap(), [(here.clone(), gone)]);
    store.forget_gone("pager").await.unwrap();
    assert_eq!(store.hold(&here).await.unwrap(), hold, "what it asked for is not forgotten");
    store.tidy_alerts(at(21).plus(Millis(90 * DAY_MS))).await.unwrap();
    assert_eq!(store.hold(&here).await.unwrap(), ReceiverHold::default());
}

async fn what_waits_for_a_receiver_that_asks_to_wait_for_too_long_is_given_up_in_the_end(
    store: Store,
) {
    let fleet = firing(&store).await;
    let now = fleet.clock.now();
    let made_at = store.deliveries(Order::Waiting, 10).await.unwrap()[0].of.made_at;
    let after = made_at.plus(Millis(1));
    let key = ReceiverKey { name: "pager".to_owned(), address: "one".to_owned() };
    store.hold_back(&key, now.plus(Millis(1))).await.unwrap();
    let over = now.plus(Millis(1));
    assert_eq!(store.drop_unknown(&["pager"], after, over).await.unwrap(), 0, "it may be told now");
    assert_eq!(store.drop_unknown(&["pager"], made_at, now).await.unwrap(), 0, "not yet");
    assert_eq!(store.drop_unknown(&["pager"], after, now).await.unwrap(), 1);
    let ended = store.deliveries(Order::Ended, 100).await.unwrap();
    let dropped = ended.iter().find(|one| one.ended.unwrap().0 == Ended::Dropped).unwrap();
    assert!(dropped.last_error.starts_with("its receiver asks to wait"), "{dropped:?}");
}

async fn what_waits_for_a_receiver_that_is_gone_is_given_up_in_the_end(store: Store) {
    let fleet = firing(&store).await;
    let now = fleet.clock.now();
    let made_at = store.deliveries(Order::Waiting, 10).await.unwrap()[0].of.made_at;
    let after = made_at.plus(Millis(1));
    let key = ReceiverKey { name: "pager".to_owned(), address: "one".to_owned() };
    assert_eq!(store.drop_unknown(&["pager"], after, now).await.unwrap(), 0);
    store.note_gone(&key, now).await.unwrap();
    assert_eq!(store.drop_unknown(&["pager"], made_at, now).await.unwrap(), 0, "not yet");
    assert_eq!(store.drop_unknown(&["pager"], after, now).await.unwrap(), 1);
    let ended = store.deliveries(Order::Ended, 100).await.unwrap();
    let dropped = ended.iter().find(|one| one.ended.unwrap().0 == Ended::Dropped).unwrap();
    assert!(dropped.last_error.starts_with("its receiver is gone"), "{dropped:?}");
}

async fn what_is_old_is_removed(store: Store) {
    let mut fleet = firing(&store).await;
    while fleet.status(SPIKE, "checkout").await == "firing" {
        fleet.live(refused("search", 1)).await;
    }
    let now = fleet.clock.now();
    let counts = |at: UnixMillis| {
        let store = store.clone();
        async move {
            store.tidy_alerts(at).await.unwrap();
            let (_, known) = store.known_alerts().await.unwrap();
            let mut history = 0;
            for alert in &known {
                history += store.alert_history(alert.id, 100).await.unwrap().len();
            }
            let told = store.deliveries(Order::Ended, 100).await.unwrap().len();
            (known.len(), history, told)
        }
    };
    let before = counts(now).await;
    assert!(before.0 > 0 && before.1 > before.0 && before.2 > 0, "{before:?}");
    let told = counts(now.plus(Millis(31 * DAY_MS))).await;
    assert_eq!((told.0, told.1), (before.0, before.1));
    // An Alertmanager is told again of what fires, however long it does.
    let of_firing = || async {
        let (_, known) = store.known_alerts().await.unwrap();
        let is_firing = |id| known.iter().any(|one| one.id == id && one.state.is_firing());
        let left = store.deliveries(Order::Ended, 100).await.unwrap();
        left.iter()
            .all(|one| one.of.notice.change == Transition::Fired && is_firing(one.of.alert_id))
    };
    assert!(told.2 < before.2 && of_firing().await, "{told:?}");
    // What waits to be told keeps its alert, and so does what still fires.
    for due in store.take_due("pager", now.plus(Millis(DAY_MS)), LEASE, 100).await.unwrap() {
        store.record_sent(&due, &Sent::Delivered, now).await.unwrap();
    }
    let (_, known) = store.known_alerts().await.unwrap();
    let on = known
        .iter()
        .filter(|k| !matches!(k.state, AlertState::Inactive | AlertState::Resolved { .. }));
    let on = on.count();
    counts(now.plus(Millis(31 * DAY_MS))).await;
    let all = counts(now.plus(Millis(91 * DAY_MS))).await;
    assert_eq!(all.0, on);
    assert!(of_firing().await, "{all:?}");
}

async fn how_alerts_stand_is_counted(store: Store) {
    assert_eq!(store.alerts_standing().await.unwrap(), Standing::default());
    let mut fleet = Fleet::new(store.clone(), 0);
    weather(&mut fleet, 5, 0).await;
    let calm = store.alerts_standing().await.unwrap();
    assert_eq!((calm.firing, calm.pending), (0, 0));
    assert_eq!(calm.evaluated_at, Some(at(fleet.minute)));
    let mut seen = Vec::new();
    for _ in 0..10 {
        fleet.live(storm("checkout")).await;
        let standing = store.alerts_standing().await.unwrap();
        let count = |all: &BTreeMap<(String, String), Alert>, word: &str| {
            let there = all.values().filter(|alert| alert.known.state.as_str() == word).count();
            i64::try_from(there).unwrap()
        };
        let all = fleet.standing().await;
        let counted = (count(&all, "firing"), count(&all, "pending"));
        assert_eq!((standing.firing, standing.pending), counted);
        assert_eq!(standing.evaluated_at, Some(at(fleet.minute)));
        seen.push(counted);
    }
    assert!(seen.iter().any(|one| one.1 > 0) && seen.iter().any(|one| one.0 > 1), "{seen:?}");
    // What is over stands for nothing.
    while fleet.status(SPIKE, "checkout").await != "resolved" {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let over = store.alerts_standing().await.unwrap();
    assert!(over.firing < seen.last().unwrap().0, "{over:?}");
}

async fn what_was_told_of_one_alert_is_listed_newest_first(store: Store) {
    let mut fleet = firing(&store).await;
    let id = fleet.standing().await[&(SPIKE.to_owned(), "checkout".to_owned())].known.id;
    let waiting = store.deliveries_of(id, 10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].of.alert_id, waiting[0].ended), (id, None));
    let now = fleet.clock.now();
    let due = store.take_due("pager", now, LEASE, 10).await.unwrap().pop().unwrap();
    // Within a go: the attempt before is told, and the next one counted.
    let next_at = now.plus(Millis(700));
    store.note_failed(&due, "answered 503", next_at).await.unwrap();
    store.note_attempt(&due).await.unwrap();
    let one = store.deliveries_of(id, 10).await.unwrap().remove(0);
    assert_eq!((one.of.go, one.attempts, &*one.last_error), (2, 3, "answered 503"));
    assert_eq!((one.next_at, one.leased_until), (next_at, now.plus(LEASE)));
    store.record_sent(&due, &Sent::Delivered, now).await.unwrap();
    while fleet.status(SPIKE, "checkout").await != "resolved" {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let both = store.deliveries_of(id, 10).await.unwrap();
    let told: Vec<_> =
        both.iter().map(|one| (one.of.notice.change, one.ended.map(|(how, _)| how))).collect();
    assert_eq!(told, [(Transition::Resolved, None), (Transition::Fired, Some(Ended::Delivered))]);
    assert_eq!(store.deliveries_of(id, 1).await.unwrap(), both[..1]);
    assert_eq!(store.deliveries_of(id + 1_000, 10).await.unwrap(), []);
}

async fn leases_are_freed_at_a_start_only_where_no_other_process_can_have_them(store: Store) {
    let fleet = firing(&store).await;
    let now = fleet.clock.now();
    let taken = store.take_due("pager", now, LEASE, 10).await.unwrap();
    assert_eq!(taken.len(), 1);
    let is_on_postgres = format!("{store:?}").contains("Postgres");
    let freed = store.free_leases().await.unwrap();
    let again = store.take_due("pager", now, LEASE, 10).await.unwrap();
    if is_on_postgres {
        assert_eq!((freed, again.len()), (0, 0), "another replica may be sending it");
    } else {
        assert_eq!((freed, again.len()), (1, 1));
        assert_eq!(again[0].notice, taken[0].notice);
    }
    assert_eq!(store.free_leases().await.unwrap(), usize::from(!is_on_postgres));
}
