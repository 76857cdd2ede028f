//! The load that `workload` makes is what it says it is.

use super::workload::{START_MS, batch};
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::time::UnixMillis;
use retrylens::ingest::native::{self, DecodeOptions, Format, RawKeys};
use retrylens::pipeline::judge;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const TOTAL: u64 = 100_000;

/// The day as it is sent.
static DAY: LazyLock<String> = LazyLock::new(|| batch(0, TOTAL, TOTAL));
static EVENTS: LazyLock<Vec<Sent<'static>>> =
    LazyLock::new(|| DAY.lines().map(|line| serde_json::from_str(line).unwrap()).collect());

/// What the tests look at of an event.
#[derive(serde::Deserialize)]
struct Sent<'a> {
    event_id: &'a str,
    operation_id: &'a str,
    attempt: u32,
    occurred_at: &'a str,
    duration_ms: i64,
    service: &'a str,
    instance: &'a str,
    host: &'a str,
    route: &'a str,
    status: Option<u16>,
    retry_after: Option<&'a str>,
    computed_delay_ms: Option<i64>,
    outcome: &'a str,
    trace_id: Option<&'a str>,
    idempotency_key_hash: Option<&'a str>,
}

impl Sent<'_> {
    fn is_limited(&self) -> bool {
        self.status == Some(429)
    }

    /// In milliseconds of the day.
    fn sent_ms(&self) -> i64 {
        UnixMillis::parse_rfc3339(self.occurred_at).unwrap().0 - START_MS
    }

    fn answered_ms(&self) -> i64 {
        self.sent_ms() + self.duration_ms
    }
}

/// How many of all `events` are so, from 0 to 1.
fn share<'a>(
    events: impl Iterator<Item = &'a Sent<'static>>,
    is: impl Fn(&Sent<'_>) -> bool,
) -> f64 {
    let (mut all, mut such) = (0, 0);
    for event in events {
        all += 1;
        such += u32::from(is(event));
    }
    f64::from(such) / f64::from(all)
}

#[test]
fn an_event_is_the_same_whichever_way_it_is_asked_for() {
    assert_eq!(batch(5, 8, 1_000), batch(5, 8, 1_000));
    assert_ne!(batch(5, 6, 1_000), batch(6, 7, 1_000));
    let late = batch(70_000, 70_200, TOTAL);
    assert_eq!(batch(100, 300, TOTAL).lines().nth(7), DAY.lines().nth(107));
    assert_eq!(batch(70_000, 70_200, TOTAL), late);
    // The load does not change unnoticed, so that figures of different days compare.
    insta::assert_snapshot!(batch(600, 603, 1_000));
}

#[test]
fn the_door_takes_it_as_it_is() {
    let hasher = KeyHasher::new(&[7; 32]);
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Refuse,
        max_items: 10_000,
        format: Format::Ndjson,
    };
    let body = batch(42_000, 44_000, TOTAL);
    let decoded = native::decode(body.as_bytes(), &options).unwrap();
    assert_eq!((decoded.events.len(), decoded.rejects), (2_000, vec![]));
    assert_eq!((decoded.unknown_fields, decoded.dropped_headers, decoded.shortened), (0, 0, 0));
    // Now and then a random id happens to look like the number of a card.
    assert!(decoded.redactions < 3, "{}", decoded.redactions);
    let refusals = decoded.events.into_iter().filter(|(_, event)| event.status == Some(429));
    let judged: BTreeSet<&str> =
        refusals.map(|(_, event)| judge(event).verdict.returned_by.as_str()).collect();
    assert!(judged.len() >= 7, "{judged:?}");
}

#[test]
fn a_day_of_a_fleet() {
    fn count<'a>(of: fn(&Sent<'a>) -> &'a str, events: &[Sent<'a>]) -> usize {
        events.iter().map(of).collect::<BTreeSet<_>>().len()
    }
    assert_eq!(count(|e| e.event_id, &EVENTS), EVENTS.len());
    assert_eq!(count(|e| e.service, &EVENTS), 200);
    assert_eq!(count(|e| e.instance, &EVENTS), 200 * 16);
    assert_eq!(count(|e| e.host, &EVENTS), 60);
    let series: BTreeSet<_> = EVENTS.iter().map(|e| (e.service, e.host, e.route)).collect();
    assert_eq!(series.len(), 800);

    let bytes = DAY.len() / EVENTS.len();
    assert!((870..910).contains(&bytes), "{bytes} bytes an event");
    let limited = share(EVENTS.iter(), |e| e.status == Some(429));
    assert!((0.115..0.125).contains(&limited), "{limited}");
    let retries = share(EVENTS.iter(), |e| e.attempt > 1);
    assert!((0.05..0.15).contains(&retries), "{retries}");
    let traced = share(EVENTS.iter(), |e| e.trace_id.is_some());
    assert!((0.55..0.65).contains(&traced), "{traced}");

    let refusals = || EVENTS.iter().filter(|e| e.is_limited());
    let silent = share(refusals(), |e| e.retry_after.is_none());
    assert!((0.3..0.6).contains(&silent), "{silent}");
    let said_badly = ["soon", "-1", "1.5", "30s", "1m"];
    let bad = share(refusals(), |e| e.retry_after.is_some_and(|text| said_badly.contains(&text)));
    assert!((0.005..0.05).contains(&bad), "{bad}");
}

#[test]
fn events_arrive_nearly_in_order_and_follow_the_day() {
    let mut newest = 0;
    let mut by_hour = [0; 24];
    for event in EVENTS.iter() {
        let at = event.answered_ms();
        // A sender delivers within three seconds; a request that times out takes ten at most.
        assert!(newest - at < 10_005, "an event is {} ms late", newest - at);
        newest = newest.max(at);
        by_hour[usize::try_from(event.sent_ms() / 3_600_000).unwrap()] += 1;
    }
    assert!(by_hour[14] > 4 * by_hour[3], "{by_hour:?}");
}

#[test]
fn attempts_of_an_operation_follow_one_another() {
    let mut operations = BTreeMap::<&str, Vec<&Sent<'_>>>::new();
    for event in EVENTS.iter() {
        operations.entry(event.operation_id).or_default().push(event);
    }
    let mut longest = 0;
    for (id, mut attempts) in operations {
        attempts.sort_by_key(|event| event.attempt);
        longest = longest.max(attempts.len());
        for (number, event) in (1..).zip(&attempts) {
            assert_eq!(event.attempt, number, "{id}");
            assert_eq!(event.service, attempts[0].service, "{id}");
            assert_eq!(event.idempotency_key_hash, attempts[0].idempotency_key_hash, "{id}");
        }
        for pair in attempts.windows(2) {
            assert_eq!(pair[0].outcome, "retrying", "{id}");
            assert_ne!(pair[0].status, Some(200), "{id}");
            let gap = pair[1].sent_ms() - pair[0].answered_ms();
            let over = gap - pair[0].computed_delay_ms.unwrap();
            assert!((0..4).contains(&over), "{id} waited {over} ms more than it said");
        }
        let last = attempts.last().unwrap();
        assert_ne!(last.outcome, "retrying", "{id}");
        assert_eq!(last.status == Some(200), last.outcome == "succeeded", "{id}");
    }
    assert!(longest > 3, "{longest}");
}

#[test]
fn limits_come_in_storms() {
    let mut storms = BTreeMap::<(&str, i64), u32>::new();
    for event in EVENTS.iter() {
        *storms.entry((event.host, event.sent_ms() / 600_000)).or_default() +=
            u32::from(event.is_limited());
    }
    let mut worst: Vec<u32> = storms.into_values().collect();
    worst.sort_by_key(|limited| std::cmp::Reverse(*limited));
    let fifth: u32 = worst.iter().take(worst.len() / 5).sum();
    let all: u32 = worst.iter().sum();
    assert!(f64::from(fifth) > 0.75 * f64::from(all), "{fifth} of {all}");
}
