//! What happens to a notification while its receiver limits, fails or is away, and while we die.

use super::receiver::{Receiver, Reply, Seen};
use super::{KEY, Running, change, ended, now, pager, settings, store, until, waiting};
use crate::support::Process;
use crate::support::postgres::Database;
use retrylens::domain::alerts::Transition::{Fired, Resolved};
use retrylens::domain::alerts::notice::Subject;
use retrylens::domain::time::Millis;
use retrylens::store::{Delivery, Ended, NewSilence, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

/// A receiver that answers `status`, and 204 once the flag beside it is set.
async fn failing(status: u16) -> (Receiver, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let receiver = Receiver::start(move |_| {
        Reply::Status(if well.load(Relaxed) { 204 } else { status }, String::new())
    })
    .await;
    (receiver, is_well)
}

/// How something ended, once it has.
async fn outcome(store: &Store) -> (Ended, String) {
    until("it ends", async || !ended(store).await.is_empty()).await;
    let delivery = ended(store).await.remove(0);
    (delivery.ended.unwrap().0, delivery.last_error)
}

/// Attempts that failed are repeated within an hour, one to a go.
const FAR: [(&str, &str); 3] = [
    ("notify_attempts", "1"),
    ("notify_later_base_ms", "3600000"),
    ("notify_later_max_wait_ms", "3600000"),
];

/// A case for two processes over one database, on SQLite and on PostgreSQL.
async fn on_both(case: impl AsyncFn([Store; 2])) {
    let (file, _folder) = store().await;
    case([file.clone(), file]).await;
    let Some(database) = Database::create().await else { return };
    let open = async || Store::open(&database.url()).await.unwrap();
    let stores = [open().await, open().await];
    case(stores.clone()).await;
    for store in stores {
        store.close().await.unwrap();
    }
    database.drop().await;
}

/// Waits until `count` notifications failed and nobody is at them.
async fn failed(store: &Store, count: usize) {
    until("they failed", async || {
        let waiting = waiting(store).await;
        let has_failed = |one: &Delivery| one.leased_until.0 == 0 && !one.last_error.is_empty();
        waiting.len() == count && waiting.iter().all(has_failed)
    })
    .await;
}

fn ids(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.headers["webhook-id"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_signed_and_its_key_stays_the_same_over_failures_of_every_kind() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::Status(500, String::new()),
        2 => Reply::Reset,
        3 => Reply::Status(503, String::new()),
        _ => Reply::ok(),
    })
    .await;
    let key = change(&store, "checkout", Fired, &["pager"]).await;
    let running = Running::start(&store, &settings(&pager(&receiver.url), &[]));
    assert_eq!(outcome(&store).await, (Ended::Delivered, String::new()));
    let seen = receiver.seen();
    assert_eq!(ids(&seen), [key.as_str(); 4]);
    for one in &seen {
        assert!(one.is_signed_with(KEY), "{one:?}");
        assert!(!one.is_signed_with("whsec_FxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"));
        assert_eq!((&one.body, one.path.as_str()), (&seen[0].body, "/hook"));
    }
    let body = seen[0].json();
    assert_eq!(body["type"], "alert.firing");
    assert!(body["data"]["dashboard_url"].as_str().unwrap().contains("time=received"), "{body}");
    assert_eq!(running.counted("failed"), "3");
    assert_eq!(running.counted("delivered"), "1");
    assert_eq!(ended(&store).await[0].of.go, 1, "all in one go");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_is_counted_and_its_error_shown_while_others_follow() {
    let (store, _folder) = store().await;
    // The second one has it and doesn't answer before the time is over.
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::Status(500, String::new()),
        2 => Reply::Nothing,
        _ => Reply::ok(),
    })
    .await;
    change(&store, "checkout", Fired, &["pager"]).await;
    let running = Running::start(&store, &settings(&pager(&receiver.url), &[]));
    until("the second attempt is under way", async || receiver.seen().len() == 2).await;
    let one = waiting(&store).await.remove(0);
    assert_eq!((one.of.go, one.attempts, one.last_error.as_str()), (1, 2, "answered 500"));
    assert!(one.leased_until > now(), "{one:?}");
    outcome(&store).await;
    assert_eq!((receiver.seen().len(), ended(&store).await[0].attempts), (3, 3));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_asked_for_is_waited_by_everything_for_that_receiver() {
    let (store, _folder) = store().await;
    // It really limits: one request, then none for a second; whoever comes early waits anew.
    let mut until = None;
    let receiver = Receiver::start(move |seen| {
        let now = seen.last().unwrap().at;
        if seen.len() == 1 || until.is_some_and(|until| now < until) {
            until = Some(now + Duration::from_secs(1));
            return Reply::retry_after(429, "1");
        }
        Reply::ok()
    })
    .await;
    change(&store, "checkout", Fired, &["pager"]).await;
    change(&store, "search", Fired, &["pager"]).await;
    let running = Running::start(&store, &settings(&pager(&receiver.url), &[]));
    super::until("both are told", async || ended(&store).await.len() == 2).await;
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3, "{seen:?}");
    let gap = seen[1].at - seen[0].at;
    assert!(gap >= Duration::from_secs(1), "{gap:?}");
    assert_eq!(seen[0].headers["webhook-id"], seen[1].headers["webhook-id"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_wait_than_may_be_waited_is_kept_over_a_restart_and_not_shortened() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::retry_after(503, "2"),
        _ => Reply::ok(),
    })
    .await;
    let key = change(&store, "checkout", Fired, &["pager"]).await;
    let config = settings(&pager(&receiver.url), &[("notify_max_wait_ms", "200")]);
    let running = Running::start(&store, &config);
    until("it goes back to the outbox", async || {
        waiting(&store).await.first().is_some_and(|one| !one.last_error.is_empty())
    })
    .await;
    let one = waiting(&store).await.remove(0);
    assert_eq!(one.last_error, "answered 503");
    running.end().await;
    // Another alert, and another process that knows nothing of the wait but what the store says.
    let running = Running::start(&store, &config);
    outcome(&store).await;
    let seen = receiver.seen();
    assert_eq!(ids(&seen), [key.as_str(); 2]);
    let gap = seen[1].at - seen[0].at;
    assert!(gap >= Duration::from_secs(2), "{gap:?}");
    assert_eq!(ended(&store).await[0].of.go, 2, "a go of its own");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_beyond_the_end_is_given_up_at_once_and_said_so_and_waited_by_all_else() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|_| Reply::retry_after(429, "86401")).await;
    change(&store, "checkout", Fired, &["pager"]).await;
    let config = settings(&pager(&receiver.url), &[]);
    let running = Running::start(&store, &config);
    let (how, why) = outcome(&store).await;
    assert_eq!(how, Ended::Dropped);
    assert!(why.contains("answered 429; given up: it asks to wait until 2"), "{why}");
    assert_eq!((receiver.seen().len(), running.counted("dropped")), (1, "1".to_owned()));
    // What comes later may still be told in time, and is held back like everything else.
    change(&store, "search", Fired, &["pager"]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((receiver.seen().len(), waiting(&store).await.len()), (1, 1));
    let hold = store.hold(&config.notify.receivers[0].key()).await.unwrap();
    assert!(hold.until.since(now()).0 > 86_390_000, "{hold:?}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_can_not_be_waited_out_holds_nothing_else_back() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::retry_after(404, "3600"),
        _ => Reply::ok(),
    })
    .await;
    change(&store, "checkout", Fired, &["pager"]).await;
    let running = Running::start(&store, &settings(&pager(&receiver.url), &[]));
    assert_eq!(outcome(&store).await.0, Ended::Dropped);
    change(&store, "search", Fired, &["pager"]).await;
    until("the next is told", async || ended(&store).await.len() == 2).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alertmanager_that_refused_for_a_while_hears_of_what_still_fires_and_is_not_silenced() {
    on_both(async |[store, _]| {
        let (receiver, is_well) = failing(404).await;
        let receivers =
            format!(r#"[{{name = "am", kind = "alertmanager", url = "{}"}}]"#, receiver.url);
        let config = settings(&receivers, &[("notify_resend_ms", "1200")]);
        let running = Running::start(&store, &config);
        for service in ["checkout", "search", "catalog"] {
            change(&store, service, Fired, &["am"]).await;
        }
        until("all are given up", async || ended(&store).await.len() == 3).await;
        assert!(ended(&store).await.iter().all(|one| one.ended.unwrap().0 == Ended::Dropped));
        change(&store, "catalog", Resolved, &["am"]).await;
        let silence = NewSilence {
            subject: Subject { service: "search".to_owned(), ..Subject::default() },
            from: now(),
            until: now().plus(Millis(60_000)),
            ..NewSilence::default()
        };
        let silence = store.add_silence(&silence, now()).await.unwrap().id;
        is_well.store(true, Relaxed);
        let delivered = async || {
            let all = ended(&store).await;
            let of = |one: &Delivery| one.of.notice.subject.service.clone();
            let fired = all.iter().filter(|one| one.of.notice.change == Fired);
            let heard = fired.filter(|one| one.ended.unwrap().0 == Ended::Delivered).map(of);
            heard.collect::<BTreeSet<String>>()
        };
        until("what fires is told", async || !delivered().await.is_empty()).await;
        assert_eq!(delivered().await, ["checkout".to_owned()].into());
        assert!(store.end_silence(silence, now()).await.unwrap());
        let both = ["checkout".to_owned(), "search".to_owned()].into();
        until("what is silenced no more too", async || delivered().await == both).await;
        running.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_succeed_ends_at_once_and_no_redirect_is_followed() {
    let elsewhere = Receiver::start(|_| Reply::ok()).await;
    let moved = Reply::Status(307, format!("location: {}\r\n", elsewhere.url));
    for reply in [Reply::Status(400, String::new()), Reply::Status(404, String::new()), moved] {
        let (store, _folder) = store().await;
        let answer = reply.clone();
        let receiver = Receiver::start(move |_| answer.clone()).await;
        change(&store, "checkout", Fired, &["pager"]).await;
        let running = Running::start(&store, &settings(&pager(&receiver.url), &[]));
        let (how, why) = outcome(&store).await;
        assert_eq!(how, Ended::Dropped, "{reply:?}");
        assert!(why.ends_with("given up: it can't succeed"), "{why}");
        assert!(!why.contains("127.0.0.1"), "no address in it: {why}");
        assert_eq!(receiver.seen().len(), 1);
        running.end().await;
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_away_for_long_learns_what_is_so_now_and_nothing_out_of_date() {
    let (store, _folder) = store().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("http://{address}/hook");
    let config = settings(&pager(&url), &[("notify_attempts", "2")]);
    let running = Running::start(&store, &config);
    change(&store, "checkout", Fired, &["pager"]).await;
    change(&store, "search", Fired, &["pager"]).await;
    until("several goes failed", async || {
        let waiting = waiting(&store).await;
        waiting.len() == 2 && waiting.iter().all(|one| one.of.go >= 3)
    })
    .await;
    let one = waiting(&store).await.remove(0);
    assert!(one.last_error.contains("refused") && one.ended.is_none(), "{one:?}");
    let over = change(&store, "checkout", Resolved, &["pager"]).await;
    let receiver = Receiver::listen(TcpListener::bind(address).await.unwrap(), |_| Reply::ok());
    until("both are told", async || waiting(&store).await.is_empty()).await;
    let told: BTreeMap<String, String> = receiver
        .seen()
        .iter()
        .map(|seen| (seen.json()["data"]["service"].to_string(), seen.json()["type"].to_string()))
        .collect();
    let expected = [("\"checkout\"", "\"alert.resolved\""), ("\"search\"", "\"alert.firing\"")];
    assert_eq!(told, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    assert!(ids(&receiver.seen()).contains(&over.as_str()));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_since_a_receiver_failed_is_told_as_soon_as_it_takes_something() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|seen| match seen.len() {
        1 | 2 => Reply::Status(500, String::new()),
        _ => Reply::ok(),
    })
    .await;
    let running = Running::start(&store, &settings(&pager(&receiver.url), &FAR));
    change(&store, "checkout", Fired, &["pager"]).await;
    change(&store, "search", Fired, &["pager"]).await;
    failed(&store, 2).await;
    assert_eq!(receiver.seen().len(), 2, "each waits up to an hour");
    change(&store, "catalog", Fired, &["pager"]).await;
    until("all are told", async || ended(&store).await.len() == 3).await;
    let seen = receiver.seen();
    assert_eq!(seen.len(), 5);
    assert_eq!(ids(&seen[..2]).iter().filter(|id| ids(&seen[3..]).contains(id)).count(), 2);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_told_after_a_restart_too_as_soon_as_the_receiver_takes_something() {
    on_both(async |[first, second]| {
        let (receiver, is_up) = failing(500).await;
        let config = settings(&pager(&receiver.url), &FAR);
        let running = Running::start(&first, &config);
        change(&first, "checkout", Fired, &["pager"]).await;
        change(&first, "search", Fired, &["pager"]).await;
        failed(&first, 2).await;
        running.end().await;
        is_up.store(true, Relaxed);
        let running = Running::start(&second, &config);
        change(&second, "catalog", Fired, &["pager"]).await;
        until("all are told", async || ended(&second).await.len() == 3).await;
        assert_eq!(receiver.seen().len(), 5);
        running.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_was_asked_for_counts_for_every_process_and_over_a_restart() {
    on_both(async |[first, second]| {
        let receiver = Receiver::start(|seen| match seen.len() {
            1 => Reply::retry_after(429, "2"),
            _ => Reply::ok(),
        })
        .await;
        let config = settings(&pager(&receiver.url), &[("notify_max_wait_ms", "200")]);
        change(&first, "checkout", Fired, &["pager"]).await;
        let one = Running::start(&first, &config);
        failed(&first, 1).await;
        // An alert of which nothing waited when the receiver asked, another process, and a restart.
        change(&first, "search", Fired, &["pager"]).await;
        let other = Running::start(&second, &config);
        one.end().await;
        let one = Running::start(&first, &config);
        until("both are told", async || ended(&second).await.len() == 2).await;
        let seen = receiver.seen();
        assert_eq!(seen.len(), 3);
        let gap = seen[1].at - seen[0].at;
        assert!(gap >= Duration::from_secs(2), "{gap:?}");
        for one in [one, other] {
            one.end().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_under_way_heed_what_another_process_was_asked_for() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|_| Reply::Status(500, String::new())).await;
    let quick = [("notify_attempts", "20"), ("notify_max_wait_ms", "40")];
    let config = settings(&pager(&receiver.url), &quick);
    change(&store, "checkout", Fired, &["pager"]).await;
    let running = Running::start(&store, &config);
    until("it is tried", async || receiver.seen().len() >= 2).await;
    let key = config.notify.receivers[0].key();
    store.hold_back(&key, now().plus(Millis(1_000))).await.unwrap();
    let held_at = tokio::time::Instant::now();
    // What was sent at that moment may still arrive.
    let is_late = |seen: &Seen| seen.at > held_at + Duration::from_millis(200);
    until("it is tried again", async || receiver.seen().iter().any(is_late)).await;
    let again = receiver.seen().into_iter().find(is_late).unwrap();
    assert!(again.at - held_at >= Duration::from_millis(990), "{:?}", again.at - held_at);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_is_left_alone_by_all_until_one_starts_anew() {
    on_both(async |[first, second]| {
        let (receiver, is_back) = failing(410).await;
        let config = settings(&pager(&receiver.url), &[]);
        let running = [&first, &second].map(|store| Running::start(store, &config));
        assert_eq!(running[0].gone(), "0");
        change(&first, "checkout", Fired, &["pager"]).await;
        until("all know it", async || running.iter().all(|one| one.gone() == "1")).await;
        let told = receiver.seen().len();
        assert!(told <= 2, "{told}: once more where the other one started later");
        change(&second, "search", Fired, &["pager"]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(receiver.seen().len(), told, "nothing is sent to it");
        let left = waiting(&first).await;
        assert_eq!(left.len(), 2, "and nothing is lost: {left:?}");
        assert!(left.iter().any(|one| one.last_error == "answered 410"), "{left:?}");
        for one in running {
            one.end().await;
        }
        is_back.store(true, Relaxed);
        let running = Running::start(&second, &config);
        until("both are told", async || ended(&second).await.len() == 2).await;
        assert_eq!((receiver.seen().len(), running.gone()), (told + 2, "0".to_owned()));
        running.end().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_stay_within_their_budget() {
    let (store, _folder) = store().await;
    let receiver = Receiver::start(|_| Reply::Status(500, String::new())).await;
    for n in 0..4 {
        change(&store, &format!("service-{n}"), Fired, &["pager"]).await;
    }
    let budget = [
        ("notify_retry_percent", "0"),
        ("notify_retry_reserve", "3"),
        ("notify_attempts", "3"),
        ("notify_later_base_ms", "3600000"),
        ("notify_later_max_wait_ms", "3600000"),
    ];
    let running = Running::start(&store, &settings(&pager(&receiver.url), &budget));
    until("each had its go", async || {
        let given_back = |one: &Delivery| one.leased_until.0 == 0 && !one.last_error.is_empty();
        waiting(&store).await.iter().all(given_back)
    })
    .await;
    assert_eq!(receiver.seen().len(), 4 + 3, "four first attempts and three retries");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_send_and_record_it_is_sent_once_more_with_the_same_key() {
    let (store, folder) = store().await;
    let key = change(&store, "checkout", Fired, &["pager"]).await;
    store.close().await.unwrap();
    // It has it, and its answer never comes.
    let receiver = Receiver::start(|seen| match seen.len() {
        1 => Reply::Nothing,
        _ => Reply::ok(),
    })
    .await;
    let receivers = pager(&receiver.url);
    let start = || {
        let environment = [
            ("RETRYLENS_RECEIVERS", receivers.as_str()),
            ("PAGER_KEY", KEY),
            ("RETRYLENS_NOTIFY_POLL_MS", "50"),
        ];
        Process::serve(folder.path(), &[], &environment)
    };
    let process = start();
    until("it is sent", async || receiver.seen().len() == 1).await;
    // Its lease lasts 80 seconds; whoever starts on the same file doesn't wait for its end.
    process.signal("KILL");
    drop(process);
    let process = start();
    until("it is sent again", async || receiver.seen().len() == 2).await;
    let seen = receiver.seen();
    assert_eq!(ids(&seen), [key.as_str(); 2]);
    assert_eq!(seen[0].body, seen[1].body);
    // Nothing follows: it is recorded by now, and over a restart too.
    let metrics = || process.get("/metrics");
    until("it is counted", async || {
        metrics().lines().any(|line| line.contains("\"delivered\"") && line.ends_with(" 1"))
    })
    .await;
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("whsec_") && !log.contains("/hook"), "{log}");
    drop(process);
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let store = Store::open(&url).await.unwrap();
    let ended = ended(&store).await;
    assert_eq!((ended.len(), ended[0].attempts), (1, 2));
    assert_eq!(ended[0].ended.unwrap().0, Ended::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_sends_each_notification() {
    let Some(database) = Database::create().await else { return };
    let stores =
        [Store::open(&database.url()).await.unwrap(), Store::open(&database.url()).await.unwrap()];
    let in_flight: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&in_flight);
    let receiver = Receiver::start(move |seen| {
        let id = seen.last().unwrap().headers["webhook-id"].clone();
        *counted.lock().unwrap().entry(id).or_default() += 1;
        // Long enough that the other one would take it too, if it could.
        Reply::Slow(Duration::from_millis(60))
    })
    .await;
    for n in 0..20 {
        change(&stores[0], &format!("service-{n}"), Fired, &["pager"]).await;
    }
    let config = settings(&pager(&receiver.url), &[]);
    let running = stores.each_ref().map(|store| Running::start(store, &config));
    until("all are told", async || ended(&stores[0]).await.len() == 20).await;
    let sent = in_flight.lock().unwrap().clone();
    assert_eq!(sent.len(), 20);
    assert!(sent.values().all(|n| *n == 1), "{sent:?}");
    let shares = running.each_ref().map(|one| one.counted("delivered").parse::<u32>().unwrap());
    assert_eq!(shares[0] + shares[1], 20);
    assert!(shares.iter().all(|n| *n > 0), "both took part: {shares:?}");
    for one in running {
        one.end().await;
    }
    for store in stores {
        store.close().await.unwrap();
    }
    database.drop().await;
}
