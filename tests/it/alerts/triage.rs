//! A pair's triage without times opens at the pair's alert.

use super::fleet::{Fleet, served, storm};
use crate::support::TestApp;
use retrylens::clock::Clock;
use retrylens::domain::alerts::AlertState;
use retrylens::domain::time::{DAY_MS, MINUTE_MS, Millis};

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
    let of = |all: &std::collections::BTreeMap<(String, String), retrylens::store::Alert>| {
        let found = all.get(&("Retrylens429Spike".to_owned(), "checkout".to_owned()));
        found.unwrap().known.state
    };
    let AlertState::Firing { active_since, .. } = of(&fleet.standing().await) else { panic!() };
    let from = active_since.plus(Millis(-30 * MINUTE_MS)).to_rfc3339();
    let now = fleet.clock.now().to_rfc3339();
    let expected = format!("{TRIAGE}&from={from}&to={now}&time=received");
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
    let ends: Vec<String> = fleet
        .standing()
        .await
        .values()
        .filter_map(|alert| alert.known.state.active()?.1)
        .map(|at| format!("&to={}&", at.to_rfc3339()))
        .collect();
    assert!(ends.iter().any(|end| last.contains(end.as_str())), "{last} {ends:?}");
    // An alert of long ago is none to go back to.
    fleet.clock.advance(Millis(60 * DAY_MS));
    assert!(!goes_to(&fleet, TRIAGE).await.contains("time=received"));
}
