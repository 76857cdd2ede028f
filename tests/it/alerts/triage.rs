//! A pair's triage without times opens at the pair's alert.

use super::fleet::{Fleet, served, storm};
use crate::support::TestApp;
use retrylens::clock::Clock;
use retrylens::domain::alerts::{AlertState, Rule, looked_at};
use retrylens::domain::stored::Scope;
use retrylens::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};

const TRIAGE: &str = "/triage?service=checkout&upstream=api.example.com";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pairs_triage_opens_at_its_present_or_last_alert() {
    let app = TestApp::start().await;
    let mut fleet = Fleet::new(app.state.store.clone(), 0);
    let goes_to = |fleet: &Fleet, address: &'static str| {
        app.clock.set(fleet.clock.now());
        let app = &app;
        async move { app.visit(address).await.header("location").to_owned() }
    };
    for _ in 0..10 {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let calm = goes_to(&fleet, TRIAGE).await;
    assert!(calm.contains("&from=") && !calm.contains("time=received"), "{calm}");

    while fleet.status("Retrylens429Spike", "checkout").await != "firing" {
        fleet.live(storm("checkout")).await;
    }
    // Several alerts fire; it is the window of one of them, which holds the storm.
    let scope = Scope {
        service: Some("checkout".to_owned()),
        upstream: Some("api.example.com".to_owned()),
        ..Scope::default()
    };
    let now = fleet.clock.now();
    let alert = fleet.store.alert_about(&scope, now).await.unwrap().unwrap();
    assert!(alert.known.state.is_firing(), "{alert:?}");
    let rule = Rule::named(&alert.known.rule).unwrap();
    let Window { from, to } = looked_at(rule, &alert.known.state, now).unwrap();
    // A window of an hour or more is widened to whole five minutes.
    let five = 5 * MINUTE_MS;
    let (from, to) = if to.since(from).0 >= HOUR_MS {
        (from.floor_to(five), UnixMillis(to.0 + five - 1).floor_to(five))
    } else {
        (from, to)
    };
    let (from, to) = (from.to_rfc3339(), to.to_rfc3339());
    let expected = format!("{TRIAGE}&from={from}&to={to}&time=received");
    assert_eq!(goes_to(&fleet, TRIAGE).await, expected);
    // Whoever names times gets those, and a service alone has no one alert.
    let own = "/triage?service=checkout&upstream=api.example.com&from=2026-11-11T00:00:00Z&to=2026-11-11T00:30:00Z";
    assert_eq!(goes_to(&fleet, own).await, "");
    assert!(!goes_to(&fleet, "/triage?service=checkout").await.contains("time=received"));
    let by_event = goes_to(&fleet, "/triage?service=checkout&upstream=api.example.com&time=event");
    let by_event = by_event.await;
    assert!(
        by_event.contains(&format!("&from={from}")) && !by_event.contains("received"),
        "{by_event}"
    );

    while !fleet
        .standing()
        .await
        .values()
        .all(|a| matches!(a.known.state, AlertState::Resolved { .. }))
    {
        fleet.live(vec![served("checkout", 600)]).await;
    }
    for _ in 0..5 {
        fleet.live(vec![served("checkout", 60)]).await;
    }
    let last = goes_to(&fleet, TRIAGE).await;
    assert!(last.ends_with("&time=received"), "{last}");
    // An alert of long ago is none to go back to.
    fleet.clock.advance(Millis(60 * DAY_MS));
    assert!(!goes_to(&fleet, TRIAGE).await.contains("time=received"));
}
