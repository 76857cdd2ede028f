//! What the store promises, checked on both databases by the same cases.

use crate::support::postgres::Schema;
use retrylens::domain::classify::{Certainty, Layer, LimitType, Responder, Tri};
use retrylens::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use retrylens::domain::stored::{
    Counts, Cursor, Dimension, Inserted, NewEvent, NewMark, RowFilter, Scope, SenderCounts,
    TimeBasis, VerdictSummary, View,
};
use retrylens::domain::time::{HOUR_MS, MINUTE_MS, UnixMillis, Window};
use retrylens::store::{self, Store, StoreError};

/// Runs every case on a SQLite file of its own and in a PostgreSQL schema of its own.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let store = super::sqlite_store(&folder).await;
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
    an_event_reads_back_as_it_was_sent,
    a_batch_that_comes_again_changes_nothing,
    repeats_inside_a_batch_count_once,
    one_id_at_two_times_is_two_events_and_a_conflict,
    counts_are_weighted_and_only_clients_count,
    sums_agree_with_the_events_for_odd_clocks_and_late_events,
    any_window_is_counted_exactly,
    sums_are_the_same_before_and_after_they_are_gathered,
    a_window_by_receipt_is_counted_exactly,
    buckets_are_filled_with_zeros_and_add_up,
    dimensions_add_up_to_the_total,
    values_beyond_the_top_are_other,
    attempts_of_an_operation_come_in_order,
    a_long_operation_comes_whole_and_says_where_it_was_cut,
    any_id_finds_its_events,
    lists_are_paged_without_gaps_or_repeats,
    lists_are_narrowed_by_each_dimension,
    facts_of_an_empty_store_are_empty,
    facts_join_observations_by_id_and_never_by_time,
    facts_compare_around_the_newest_mark,
    a_comparison_ends_with_the_window_however_late_it_is_asked_for,
    a_shared_key_names_its_services,
    pairs_without_a_client_are_counted_from_the_outermost_source,
    a_triage_of_what_only_a_gateway_saw_counts_what_the_overview_counts,
    marks_concern_their_scope,
    what_senders_did_wrong_is_counted,
    the_hash_key_stays_the_same,
    hostile_texts_are_kept_as_text,
    a_zero_byte_in_a_question_or_a_text_is_no_error,
    labels_are_what_occurs_in_the_window,
    concurrent_writers_store_each_event_once,
    an_insert_that_is_cut_off_leaves_all_or_nothing,
);

const NOW: UnixMillis = UnixMillis(1_794_382_200_000); // 2026-11-11T07:30:00Z

async fn sqlite_store(folder: &tempfile::TempDir) -> Store {
    let file = folder.path().join("store.db");
    Store::open(&format!("sqlite://{}", file.display())).await.unwrap()
}

fn event(id: &str, occurred_at: UnixMillis) -> Event {
    Event {
        event_id: id.to_owned(),
        operation_id: None,
        attempt: 1,
        occurred_at,
        duration_ms: None,
        vantage: Vantage::Client,
        service: "checkout".to_owned(),
        environment: None,
        instance: None,
        retry_layer: None,
        priority: None,
        method: None,
        host: "api.example.com".to_owned(),
        route: None,
        status: Some(200),
        error: None,
        retry_after: None,
        computed_delay_ms: None,
        delay_source: None,
        request_id: None,
        ray_id: None,
        layer: None,
        key_hash: None,
        key_kind: None,
        idempotency_key_hash: None,
        body_hash: None,
        client_address_hash: None,
        account_hash: None,
        outcome: None,
        attempts_max: None,
        timeout_ms: None,
        deadline_ms: None,
        headers: Vec::new(),
        content_type: None,
        error_code: None,
        body_sample: None,
        trace_id: None,
        span_id: None,
        count: 1,
        redactions: 0,
        derived: None,
        log: None,
    }
}

fn new(event: Event) -> NewEvent {
    let limited = event.status == Some(429);
    let verdict = VerdictSummary {
        returned_by: if limited { Responder::Cloudflare } else { Responder::Unknown },
        layer: if limited { Layer::Edge } else { Layer::Unknown },
        outcome: if limited { Certainty::Confident } else { Certainty::Unknown },
        confidence: if limited { 0.95 } else { 0.0 },
        limited,
        limit_type: if limited { LimitType::Rate } else { LimitType::Unknown },
        reached_origin: if limited { Tri::No } else { Tri::Unknown },
        promised_ms: limited.then_some(30_000),
        promised_by_date: false,
        clock_skew_ms: None,
    };
    NewEvent { event, verdict }
}

/// An event that says only what it must.
pub(crate) fn plain(id: &str) -> NewEvent {
    new(event(id, NOW))
}

/// An event with every field said.
fn full(id: &str, occurred_at: UnixMillis) -> NewEvent {
    let text = |text: &str| Some(text.to_owned());
    let event = Event {
        operation_id: text("op-7f1c"),
        attempt: 2,
        duration_ms: Some(84),
        environment: text("prod"),
        instance: text("pod-7"),
        retry_layer: Some(RetryLayer::Sdk),
        priority: text("interactive"),
        method: text("POST"),
        route: text("/v1/orders/{id}"),
        status: Some(429),
        retry_after: text("30"),
        computed_delay_ms: Some(30_412),
        delay_source: text("retry-after"),
        request_id: text("req_01"),
        ray_id: text("8f2a-GRU"),
        layer: Some(Layer::Edge),
        key_hash: text("hmac-sha256:9d3f"),
        key_kind: text("api-key"),
        idempotency_key_hash: text("hmac-sha256:11"),
        body_hash: text("sha256:22"),
        client_address_hash: text("hmac-sha256:33"),
        account_hash: text("hmac-sha256:44"),
        outcome: Some(Outcome::Retrying),
        attempts_max: Some(5),
        timeout_ms: Some(3_000),
        deadline_ms: Some(120_000),
        headers: vec![
            ("server".to_owned(), "cloudflare".to_owned()),
            ("date".to_owned(), "Wed, 11 Nov 2026 07:29:00 GMT".to_owned()),
        ],
        content_type: text("text/html"),
        error_code: text("quota_exceeded"),
        body_sample: text("error code: 1015"),
        trace_id: text("4bf92f3577b34da6a3ce929d0e0e4736"),
        span_id: text("00f067aa0ba902b7"),
        count: 3,
        redactions: 2,
        ..event(id, occurred_at)
    };
    let mut stored = new(event);
    stored.verdict.promised_by_date = true;
    stored.verdict.clock_skew_ms = Some(-1_500);
    stored
}

/// A mixed lot: several services, hosts, routes, keys, statuses and vantages, spread over three
/// hours around [`NOW`] without a pattern that lines up with minutes.
fn mixed(n: u64) -> Vec<NewEvent> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..n)
        .map(|i| {
            let at = NOW.0 - HOUR_MS - HOUR_MS / 2 + i64::try_from(draw(10_800_000)).unwrap();
            let mut one = event(&format!("m{i}"), UnixMillis(at));
            one.service =
                ["checkout", "billing", "search"][usize::try_from(draw(3)).unwrap()].into();
            one.host = format!("api{}.example.com", draw(3));
            one.route = (draw(4) > 0).then(|| format!("/r{}", draw(3)));
            one.environment = (draw(2) > 0).then(|| "prod".to_owned());
            one.attempt = u32::try_from(1 + draw(5)).unwrap();
            one.operation_id = (draw(3) > 0).then(|| format!("op{}", draw(200)));
            one.key_hash = (draw(4) > 0).then(|| format!("hmac-sha256:k{}", draw(9)));
            one.instance = (draw(4) > 0).then(|| format!("pod-{}", draw(5)));
            one.count = u32::try_from(1 + draw(4)).unwrap();
            one.duration_ms = (draw(5) > 0).then(|| i64::try_from(draw(900)).unwrap());
            match draw(10) {
                0..=2 => one.status = Some(429),
                3 => one.status = Some(503),
                4 => {
                    one.status = None;
                    one.error = Some(AttemptError::Timeout);
                    one.outcome = Some(Outcome::Exhausted);
                }
                _ => {}
            }
            if draw(20) == 0 {
                one.vantage = Vantage::Gateway;
            }
            new(one)
        })
        .collect()
}

fn view(from: i64, to: i64) -> View {
    View {
        scope: Scope::default(),
        window: Window { from: UnixMillis(from), to: UnixMillis(to) },
        time: TimeBasis::Event,
    }
}

/// Everything that can be in a store.
fn always() -> View {
    view(-100_000_000_000_000, 300_000_000_000_000)
}

fn filter(view: View) -> RowFilter {
    RowFilter { view, limited: None, retry: None, succeeded: None, value: None }
}

fn counted<'a>(events: impl Iterator<Item = &'a NewEvent>) -> Counts {
    let mut sum = Counts::default();
    for one in events {
        sum.add(&Counts::of(&one.event, &one.verdict));
    }
    sum
}

fn is_in(scope: &Scope, event: &Event) -> bool {
    scope.service.as_ref().is_none_or(|s| *s == event.service)
        && scope.upstream.as_ref().is_none_or(|s| *s == event.host)
        && scope.environment.as_ref().is_none_or(|s| Some(s) == event.environment.as_ref())
        && scope.route.as_ref().is_none_or(|s| Some(s) == event.route.as_ref())
}

async fn assert_sums(store: &Store) {
    let recount = store.recount().await.unwrap();
    assert!(recount.agrees(), "{recount:?}");
}

async fn an_event_reads_back_as_it_was_sent(store: Store) {
    let sent = full("e1", NOW);
    let bare = new(event("e2", NOW));
    let received = UnixMillis(NOW.0 + 250);
    let inserted = store.insert(&[sent.clone(), bare.clone()], received).await.unwrap();
    assert_eq!(inserted, [Inserted::Stored, Inserted::Stored]);
    let got = store.events_by_id("e1").await.unwrap().pop().unwrap();
    assert_eq!((got.event, got.verdict), (sent.event, sent.verdict));
    assert_eq!(got.received_at, received);
    let got = store.events_by_id("e2").await.unwrap().pop().unwrap();
    assert_eq!((got.event, got.verdict), (bare.event, bare.verdict));
    assert_eq!(store.last_event_at().await.unwrap(), Some(received));
    store.ready().await.unwrap();
}

async fn a_batch_that_comes_again_changes_nothing(store: Store) {
    let batch = mixed(700);
    let first = store.insert(&batch, NOW).await.unwrap();
    assert!(first.iter().all(|r| *r == Inserted::Stored));
    let totals = store.totals(&always()).await.unwrap();
    let mut more = batch.clone();
    more.push(new(event("fresh", NOW)));
    let again = store.insert(&more, UnixMillis(NOW.0 + 60_000)).await.unwrap();
    assert!(again[..700].iter().all(|r| *r == Inserted::Duplicate));
    assert_eq!(again[700], Inserted::Stored);
    let mut expected = totals;
    expected.add(&counted([&more[700]].into_iter()));
    assert_eq!(store.totals(&always()).await.unwrap(), expected);
    assert_eq!(store.recount().await.unwrap().events, 701);
    assert_sums(&store).await;
}

async fn repeats_inside_a_batch_count_once(store: Store) {
    let one = new(event("same", NOW));
    let inserted = store.insert(&[one.clone(), one.clone(), one], NOW).await.unwrap();
    assert_eq!(inserted, [Inserted::Stored, Inserted::Duplicate, Inserted::Duplicate]);
    assert_eq!(store.totals(&always()).await.unwrap().attempts, 1);
    assert_sums(&store).await;
}

async fn one_id_at_two_times_is_two_events_and_a_conflict(store: Store) {
    let at = |ms: i64| new(event("again", UnixMillis(NOW.0 + ms)));
    let inserted = store.insert(&[at(0), at(1)], NOW).await.unwrap();
    assert_eq!(inserted, [Inserted::Stored, Inserted::IdConflict]);
    let inserted = store.insert(&[at(2), at(1)], NOW).await.unwrap();
    assert_eq!(inserted, [Inserted::IdConflict, Inserted::Duplicate]);
    assert_eq!(store.events_by_id("again").await.unwrap().len(), 3);
    let sender = store.sender("checkout").await.unwrap().unwrap();
    assert_eq!((sender.counts.id_conflicts, sender.counts.events), (2, 3));
    assert_sums(&store).await;
}

async fn counts_are_weighted_and_only_clients_count(store: Store) {
    let mut bulk = event("bulk", NOW);
    bulk.count = 5_000;
    let mut refused = event("refused", NOW);
    refused.status = Some(429);
    refused.attempt = 2;
    refused.count = 7;
    let mut seen = event("seen", NOW);
    seen.vantage = Vantage::Origin;
    seen.count = 9;
    store.insert(&[new(bulk), new(refused), new(seen)], NOW).await.unwrap();
    let totals = store.totals(&always()).await.unwrap();
    assert_eq!(totals.attempts, 5_007);
    assert_eq!(totals.requests, 5_000);
    assert_eq!((totals.status_429, totals.limited, totals.limited_retries), (7, 7, 7));
    assert_eq!(totals.retried_operations, 7);
    assert_sums(&store).await;
}

async fn sums_agree_with_the_events_for_odd_clocks_and_late_events(store: Store) {
    let times = [
        0,
        -1,
        -61_000,
        -62_135_596_800_000,
        4_102_444_800_000,
        253_402_300_799_999,
        NOW.0,
        NOW.0 - 24 * HOUR_MS,
        NOW.0 + HOUR_MS,
    ];
    let batch: Vec<NewEvent> = times
        .iter()
        .enumerate()
        .map(|(i, at)| new(event(&format!("odd{i}"), UnixMillis(*at))))
        .collect();
    store.insert(&batch, NOW).await.unwrap();
    assert_sums(&store).await;
    for at in times {
        let one = store.totals(&view(at, at + 1)).await.unwrap();
        assert_eq!(one.attempts, 1, "the moment {at}");
        let minute = UnixMillis(at).floor_to(MINUTE_MS).0;
        let bucket = store.buckets(&view(minute, minute + MINUTE_MS), MINUTE_MS).await.unwrap();
        assert!(bucket.iter().any(|b| b.start.0 == minute && b.counts.attempts > 0), "{at}");
    }
    assert_eq!(store.totals(&always()).await.unwrap().attempts, 9);
    let all = store.facts(&always(), NOW).await.unwrap();
    assert!(all.buckets.len() <= usize::try_from(store::MAX_BUCKETS).unwrap());
    assert_eq!(all.buckets.iter().map(|b| b.counts.attempts).sum::<i64>(), 9);
}

/// Gathers the sums of all that was received before a moment; nothing is removed.
async fn gather(store: &Store, now: UnixMillis) {
    while store.gather(now).await.unwrap() {}
}

/// Stores events in parts that are received minutes apart, two of them by a clock that is behind,
/// while sums are gathered now and then; what was received last is left as it is.
async fn store_over_time(store: &Store, batch: &[NewEvent]) {
    let minutes = [-31, -30, -16, -29, -14, -2, -40, 0];
    for (part, minutes) in batch.chunks(batch.len().div_ceil(minutes.len())).zip(minutes) {
        store.insert(part, UnixMillis(NOW.0 + minutes * MINUTE_MS + 777)).await.unwrap();
        if minutes % 2 == 0 {
            gather(store, UnixMillis(NOW.0 + minutes * MINUTE_MS)).await;
        }
        assert_sums(store).await;
    }
}

async fn sums_are_the_same_before_and_after_they_are_gathered(store: Store) {
    let batch = mixed(1_500);
    store_over_time(&store, &batch).await;
    let windows = [(NOW.0 - 2 * HOUR_MS, NOW.0 + HOUR_MS), (NOW.0 - 3_333_333, NOW.0 - 1)];
    let times = [TimeBasis::Event, TimeBasis::Received];
    let ask = async || {
        let mut answers = Vec::new();
        for ((from, to), time) in windows.into_iter().flat_map(|w| times.map(|time| (w, time))) {
            for service in [None, Some("billing".to_owned())] {
                let scope = Scope { service, ..Scope::default() };
                let asked = View { scope, time, ..view(from, to) };
                let facts = store.facts(&asked, NOW).await.unwrap();
                let pairs = store.pairs(asked.window, time).await.unwrap();
                answers.push((
                    facts.totals,
                    facts.buckets,
                    facts.dimensions,
                    facts.promised,
                    pairs,
                ));
            }
        }
        answers
    };
    let before = ask().await;
    assert!(before.iter().all(|(totals, ..)| totals.attempts > 0));
    // In the middle of it as well, whatever is stored meanwhile by a clock that is behind.
    let mut steps = 0;
    while store.gather(UnixMillis(NOW.0 + HOUR_MS)).await.unwrap() {
        steps += 1;
        if steps % 4 == 1 {
            assert_sums(&store).await;
            assert_eq!(ask().await, before, "after {steps} steps");
        }
    }
    assert!(steps > 8, "{steps}");
    assert_sums(&store).await;
    assert_eq!(ask().await, before);
    // What was received in five minutes that are gathered to the middle.
    let more: Vec<NewEvent> = mixed(1_600).split_off(1_500);
    store.insert(&more[..50], UnixMillis(NOW.0 + 2 * HOUR_MS)).await.unwrap();
    let later = UnixMillis(NOW.0 + 3 * HOUR_MS);
    assert!(store.gather(later).await.unwrap());
    store.insert(&more[50..], UnixMillis(NOW.0 + 2 * HOUR_MS + 1)).await.unwrap();
    assert_sums(&store).await;
    let everything = counted(batch.iter().chain(&more));
    assert_eq!(store.totals(&always()).await.unwrap(), everything);
    gather(&store, later).await;
    assert_sums(&store).await;
    assert_eq!(store.totals(&always()).await.unwrap(), everything);
}

async fn any_window_is_counted_exactly(store: Store) {
    let batch = mixed(3_000);
    store_over_time(&store, &batch).await;
    let none = Scope::default();
    let scopes = [
        none.clone(),
        Scope { service: Some("billing".into()), ..none.clone() },
        Scope { upstream: Some("api1.example.com".into()), ..none.clone() },
        Scope { environment: Some("prod".into()), route: Some("/r2".into()), ..none.clone() },
        Scope {
            service: Some("search".into()),
            upstream: Some("api0.example.com".into()),
            route: Some("/r0".into()),
            ..none.clone()
        },
        Scope { service: Some("nobody".into()), ..none },
    ];
    let windows = [
        (NOW.0 - HOUR_MS, NOW.0),
        (NOW.0 - HOUR_MS + 1, NOW.0 - 1),
        (NOW.0 - 7_123_456, NOW.0 - 123),
        (NOW.0 - 61_234, NOW.0 - 60_001),
        (NOW.0 - 500, NOW.0),
        (NOW.0, NOW.0),
        (NOW.0 - 301_000, NOW.0 - 299_000),
    ];
    for scope in &scopes {
        for (from, to) in windows {
            let question = View { scope: scope.clone(), ..view(from, to) };
            let expected = counted(batch.iter().filter(|one| {
                is_in(scope, &one.event) && question.window.contains(one.event.occurred_at)
            }));
            let got = store.totals(&question).await.unwrap();
            assert_eq!(got, expected, "{scope:?} {from}..{to}");
            let mut sum = Counts::default();
            for bucket in store.buckets(&question, 3 * MINUTE_MS).await.unwrap() {
                sum.add(&bucket.counts);
            }
            assert_eq!(sum, expected, "buckets of {scope:?} {from}..{to}");
        }
    }
}

async fn a_window_by_receipt_is_counted_exactly(store: Store) {
    let batch = mixed(600);
    for (i, part) in batch.chunks(200).enumerate() {
        let received = UnixMillis(NOW.0 + i64::try_from(i).unwrap() * 7 * MINUTE_MS + 11);
        store.insert(part, received).await.unwrap();
        gather(&store, received).await;
    }
    let window = |from: i64, to: i64| View { time: TimeBasis::Received, ..view(from, to) };
    for (from, to, part) in [
        (NOW.0, NOW.0 + 12, &batch[..200]),
        (NOW.0 + 12, NOW.0 + 8 * MINUTE_MS, &batch[200..400]),
        (NOW.0, NOW.0 + HOUR_MS, &batch[..]),
        (NOW.0 + HOUR_MS, NOW.0 + 2 * HOUR_MS, &batch[..0]),
    ] {
        let question = window(from, to);
        let expected = counted(part.iter());
        assert_eq!(store.totals(&question).await.unwrap(), expected);
        let buckets = store.buckets(&question, MINUTE_MS).await.unwrap();
        assert_eq!(buckets.iter().map(|b| b.counts.limited).sum::<i64>(), expected.limited);
        let listed = store.rows(&filter(question.clone()), None, 1_000).await.unwrap();
        let clients = part.iter().filter(|one| one.event.vantage == Vantage::Client).count();
        assert_eq!(listed.items.len(), clients);
        let facts = store.facts(&question, NOW).await.unwrap();
        assert_eq!(facts.totals, expected);
        assert_eq!(facts.attempts.len(), clients);
    }
}

async fn buckets_are_filled_with_zeros_and_add_up(store: Store) {
    let at = |ms: i64| new(event(&format!("b{ms}"), UnixMillis(NOW.0 + ms)));
    store.insert(&[at(0), at(1), at(5 * MINUTE_MS + 30_000)], NOW).await.unwrap();
    let question = view(NOW.0 - 30_000, NOW.0 + 6 * MINUTE_MS);
    let buckets = store.buckets(&question, MINUTE_MS).await.unwrap();
    let counts: Vec<i64> = buckets.iter().map(|b| b.counts.attempts).collect();
    assert_eq!(counts, [0, 2, 0, 0, 0, 0, 1]);
    assert_eq!(buckets[0].start, UnixMillis(NOW.0 - MINUTE_MS));
}

async fn dimensions_add_up_to_the_total(store: Store) {
    let batch = mixed(2_000);
    store_over_time(&store, &batch).await;
    let question = view(NOW.0 - 4_321_987, NOW.0 + 1_234_567);
    let inside = || {
        batch.iter().filter(|one| {
            question.window.contains(one.event.occurred_at) && one.event.vantage == Vantage::Client
        })
    };
    let totals = counted(inside());
    let list = store.dimensions(&question).await.unwrap();
    for dimension in Dimension::ALL {
        let of: Vec<_> = list.iter().filter(|d| d.dimension == *dimension).collect();
        let sum = |read: fn(&&retrylens::domain::stored::DimensionCounts) -> i64| -> i64 {
            of.iter().map(read).sum()
        };
        assert_eq!(sum(|d| d.attempts), totals.attempts, "{dimension}");
        assert_eq!(sum(|d| d.limited), totals.limited, "{dimension}");
        assert_eq!(sum(|d| d.retries), totals.retries, "{dimension}");
        assert!(of.is_sorted_by(|a, b| a.limited >= b.limited), "{dimension}");
    }
    let expected =
        counted(inside().filter(|one| one.event.key_hash.as_deref() == Some("hmac-sha256:k3")));
    let got =
        list.iter().find(|d| d.dimension == Dimension::Key && d.value == "hmac-sha256:k3").unwrap();
    assert_eq!((got.attempts, got.limited), (expected.attempts, expected.limited));
    let refused = list
        .iter()
        .find(|d| d.dimension == Dimension::Responder && d.value == "cloudflare")
        .unwrap();
    assert_eq!(refused.limited, totals.limited);
    assert!(list.iter().any(|d| d.dimension == Dimension::Status && d.value == "timeout"));
}

async fn values_beyond_the_top_are_other(store: Store) {
    let batch: Vec<NewEvent> = (0..1_200)
        .map(|i| {
            let mut one = event(&format!("k{i}"), UnixMillis(NOW.0 + i % 50));
            one.key_hash = Some(format!("hmac-sha256:{i}"));
            one.route = Some(format!("/{i}"));
            one.status = Some(if i < 3 { 429 } else { 200 });
            new(one)
        })
        .collect();
    store.insert(&batch, NOW).await.unwrap();
    for question in [view(NOW.0, NOW.0 + 1_000), view(NOW.0 - HOUR_MS, NOW.0 + HOUR_MS)] {
        let list = store.dimensions(&question).await.unwrap();
        for dimension in [Dimension::Key, Dimension::Route] {
            let of: Vec<_> = list.iter().filter(|d| d.dimension == dimension).collect();
            assert_eq!(of.len(), store::TOP_VALUES + 1, "{dimension}");
            assert_eq!(of[0].limited, 1);
            let last = of.last().unwrap();
            assert_eq!((last.value.as_str(), last.attempts), (store::OTHER, 200));
        }
    }
}

async fn attempts_of_an_operation_come_in_order(store: Store) {
    let attempt = |n: u32, at: i64| {
        let mut one = event(&format!("a{n}"), UnixMillis(NOW.0 + at));
        one.operation_id = Some("op-1".into());
        one.attempt = n;
        new(one)
    };
    let batch = [attempt(3, 900), attempt(1, 0), attempt(2, 0), new(event("alone", NOW))];
    store.insert(&batch, NOW).await.unwrap();
    let got = store.operation("op-1").await.unwrap().events;
    let numbers: Vec<u32> = got.iter().map(|s| s.event.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(store.operation("op-2").await.unwrap().events.is_empty());
}

async fn a_long_operation_comes_whole_and_says_where_it_was_cut(store: Store) {
    let limit = u32::try_from(store::OPERATION_LIMIT).unwrap();
    let attempt = |n: u32| {
        let mut one = event(&format!("a{n}"), UnixMillis(NOW.0 + i64::from(n) * 10));
        one.operation_id = Some("op-long".into());
        one.attempt = n;
        new(one)
    };
    let batch: Vec<NewEvent> = (1..=limit + 1).map(attempt).collect();
    for part in batch[..batch.len() - 1].chunks(2_500) {
        store.insert(part, NOW).await.unwrap();
    }
    let got = store.operation("op-long").await.unwrap();
    assert!(got.is_complete);
    let numbers: Vec<u32> = got.events.iter().map(|s| s.event.attempt).collect();
    assert_eq!(numbers, (1..=limit).collect::<Vec<u32>>());
    let found = store.lookup("op-long").await.unwrap();
    assert!(!found.is_complete);
    assert_eq!(found.events.len(), 500);
    store.insert(&batch[batch.len() - 1..], NOW).await.unwrap();
    let got = store.operation("op-long").await.unwrap();
    assert_eq!((got.is_complete, got.events.len()), (false, numbers.len()));
}

async fn any_id_finds_its_events(store: Store) {
    store.insert(&[full("e1", NOW), new(event("e2", NOW))], NOW).await.unwrap();
    for id in ["e1", "op-7f1c", "req_01", "8f2a-GRU", "8f2a", "4bf92f3577b34da6a3ce929d0e0e4736"] {
        let got = store.lookup(id).await.unwrap().events;
        assert_eq!(got.len(), 1, "{id}");
        assert_eq!(got[0].event.event_id, "e1");
    }
    // Ids that look like a ray id's beginning and are none.
    for id in ["dead-12", "beef", "cafe-4bf9-77b3"] {
        store.insert(&[new(event(id, NOW))], NOW).await.unwrap();
        assert_eq!(store.lookup(id).await.unwrap().events.len(), 1, "{id}");
    }
    for id in ["", "8f2", "8f2a-", "8f2a-GR", "nothing", "%", "e1\0"] {
        let is_ray = id == "8f2a-" || id == "8f2a-GR";
        assert_eq!(store.lookup(id).await.unwrap().events.len(), usize::from(is_ray), "{id}");
    }
}

async fn lists_are_paged_without_gaps_or_repeats(store: Store) {
    let mut batch: Vec<NewEvent> = mixed(500);
    batch.extend((0..120).map(|i| new(event(&format!("tie{i:03}"), NOW))));
    store.insert(&batch[..400], UnixMillis(NOW.0 + 1)).await.unwrap();
    store.insert(&batch[400..], UnixMillis(NOW.0 + 2)).await.unwrap();
    let clients = batch.iter().filter(|one| one.event.vantage == Vantage::Client).count();
    for time in [TimeBasis::Event, TimeBasis::Received] {
        let question = filter(View { time, ..always() });
        let mut cursor: Option<Cursor> = None;
        let mut seen = std::collections::HashSet::new();
        let mut last = i64::MAX;
        loop {
            let page = store.rows(&question, cursor.as_ref(), 37).await.unwrap();
            for item in page.items {
                let at = match time {
                    TimeBasis::Event => item.event.occurred_at.0,
                    TimeBasis::Received => item.received_at.0,
                };
                assert!(at <= last);
                last = at;
                assert!(seen.insert(item.event.event_id));
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), clients, "{time}");
    }
}

async fn lists_are_narrowed_by_each_dimension(store: Store) {
    let mut batch = mixed(800);
    batch.push(full("full", NOW));
    store.insert(&batch, NOW).await.unwrap();
    let question = always();
    // Rows and counts agree for every value of every dimension.
    for one in store.dimensions(&question).await.unwrap() {
        let mut narrowed = filter(question.clone());
        narrowed.value = Some((one.dimension, one.value.clone()));
        let rows = store.rows(&narrowed, None, 1_000).await.unwrap().items;
        let sum: i64 = rows.iter().map(|s| i64::from(s.event.count)).sum();
        assert_eq!(sum, one.attempts, "{} {:?}", one.dimension, one.value);
        narrowed.limited = Some(true);
        let rows = store.rows(&narrowed, None, 1_000).await.unwrap().items;
        let sum: i64 = rows.iter().map(|s| i64::from(s.event.count)).sum();
        assert_eq!(sum, one.limited, "limited {} {:?}", one.dimension, one.value);
        narrowed.limited = None;
        narrowed.retry = Some(true);
        let rows = store.rows(&narrowed, None, 1_000).await.unwrap().items;
        let sum: i64 = rows.iter().map(|s| i64::from(s.event.count)).sum();
        assert_eq!(sum, one.retries, "retries {} {:?}", one.dimension, one.value);
    }
    let refs: Vec<(String, UnixMillis)> = batch
        .iter()
        .take(450)
        .map(|one| (one.event.event_id.clone(), one.event.occurred_at))
        .chain([("nothing".to_owned(), NOW)])
        .collect();
    assert_eq!(store.rows_by_refs(&refs).await.unwrap().len(), 450);
}

async fn facts_of_an_empty_store_are_empty(store: Store) {
    let facts = store.facts(&view(NOW.0 - HOUR_MS, NOW.0), NOW).await.unwrap();
    assert_eq!((facts.totals, facts.before), (Counts::default(), Counts::default()));
    assert_eq!(facts.buckets.len(), 60);
    assert!(facts.attempts.is_empty() && facts.attempts_complete && facts.dimensions.is_empty());
    assert!(facts.comparison.is_none() && !facts.has_gateway_source);
    assert_eq!(store.last_event_at().await.unwrap(), None);
    assert!(store.pairs(always().window, TimeBasis::Event).await.unwrap().is_empty());
}

async fn facts_join_observations_by_id_and_never_by_time(store: Store) {
    let mut attempt = event("c1", NOW);
    attempt.request_id = Some("req-1".into());
    attempt.ray_id = Some("8f2a-GRU".into());
    attempt.status = Some(429);
    let mut gateway = event("g1", UnixMillis(NOW.0 - 40 * HOUR_MS));
    gateway.vantage = Vantage::Gateway;
    gateway.service = "edge".into();
    gateway.request_id = Some("req-1".into());
    let mut same_time = event("g2", NOW);
    same_time.vantage = Vantage::Origin;
    same_time.request_id = Some("req-2".into());
    store.insert(&[new(attempt), new(gateway), new(same_time)], NOW).await.unwrap();
    let question = View {
        scope: Scope { upstream: Some("api.example.com".into()), ..Scope::default() },
        ..view(NOW.0 - HOUR_MS, NOW.0 + 1)
    };
    let facts = store.facts(&question, NOW).await.unwrap();
    let ids: Vec<&str> = facts.observations.iter().map(|s| s.event.event_id.as_str()).collect();
    assert_eq!(ids, ["g1"]);
    assert_eq!(facts.attempts.len(), 1);
    assert!(facts.has_origin_source && !facts.has_gateway_source);
}

async fn facts_compare_around_the_newest_mark(store: Store) {
    let at = UnixMillis(NOW.0 - 20 * MINUTE_MS);
    let mut batch = Vec::new();
    for i in 0..100 {
        let mut before = event(&format!("b{i}"), UnixMillis(at.0 - 1 - i * 1_000));
        before.status = Some(429);
        before.duration_ms = Some(i);
        before.attempt = 2;
        batch.push(new(before));
        let mut after = event(&format!("a{i}"), UnixMillis(at.0 + i * 1_000));
        after.duration_ms = Some(10);
        batch.push(new(after));
    }
    let mut twice = event("twice", UnixMillis(at.0 - 5));
    twice.status = Some(409);
    twice.attempt = 2;
    twice.count = 4;
    let mut body = event("body1", UnixMillis(at.0 - 6));
    body.idempotency_key_hash = Some("hmac-sha256:i".into());
    body.body_hash = Some("sha256:1".into());
    let mut other_body = body.clone();
    other_body.event_id = "body2".into();
    other_body.body_hash = Some("sha256:2".into());
    batch.extend([new(twice), new(body), new(other_body)]);
    store.insert(&batch, NOW).await.unwrap();
    let mark = |at: UnixMillis, service: Option<&str>| NewMark {
        at,
        service: service.map(str::to_owned),
        upstream: None,
        title: "lower concurrency".into(),
    };
    store.add_mark(mark(UnixMillis(at.0 - HOUR_MS), None)).await.unwrap();
    let newest = store.add_mark(mark(at, Some("checkout"))).await.unwrap();
    store.add_mark(mark(UnixMillis(at.0 + 1), Some("billing"))).await.unwrap();
    let question = View {
        scope: Scope { service: Some("checkout".into()), ..Scope::default() },
        ..view(NOW.0 - HOUR_MS, NOW.0)
    };
    let facts = store.facts(&question, NOW).await.unwrap();
    assert_eq!(facts.marks.len(), 2);
    let comparison = facts.comparison.unwrap();
    assert_eq!(comparison.mark, newest);
    assert_eq!(comparison.before_window.length(), comparison.after_window.length());
    assert_eq!(comparison.before_window.length().0, 20 * MINUTE_MS);
    assert_eq!((comparison.before.limited, comparison.after.limited), (100, 0));
    assert_eq!((comparison.before_p95_ms, comparison.after_p95_ms), (Some(94), Some(10)));
    assert_eq!((comparison.before_duplicates, comparison.after_duplicates), (5, 0));
}

async fn a_comparison_ends_with_the_window_however_late_it_is_asked_for(store: Store) {
    let at = UnixMillis(NOW.0 - 20 * MINUTE_MS);
    let batch: Vec<NewEvent> = (-60..60)
        .map(|minute| new(event(&format!("e{minute}"), UnixMillis(at.0 + minute * MINUTE_MS))))
        .collect();
    store.insert(&batch, NOW).await.unwrap();
    let mark = NewMark { at, service: None, upstream: None, title: "lower concurrency".into() };
    store.add_mark(mark).await.unwrap();
    let question = view(NOW.0 - HOUR_MS, NOW.0);
    let first = store.facts(&question, NOW).await.unwrap().comparison.unwrap();
    assert_eq!((first.before.attempts, first.after.attempts), (20, 20));
    assert_eq!(first.after_window.to, NOW);
    for later in [1, MINUTE_MS, 3 * HOUR_MS] {
        let facts = store.facts(&question, UnixMillis(NOW.0 + later)).await.unwrap();
        assert_eq!(facts.comparison.as_ref(), Some(&first), "{later} ms later");
    }
}

async fn a_shared_key_names_its_services(store: Store) {
    let used = |id: &str, service: &str, status: u16| {
        let mut one = event(id, NOW);
        one.service = service.into();
        one.key_hash = Some("hmac-sha256:shared".into());
        one.status = Some(status);
        new(one)
    };
    let batch = [
        used("1", "checkout", 429),
        used("2", "batch-import", 429),
        used("3", "batch-import", 200),
        new(event("4", NOW)),
    ];
    store.insert(&batch, NOW).await.unwrap();
    let scope = Scope { service: Some("checkout".into()), ..Scope::default() };
    for (from, to) in [(NOW.0 - HOUR_MS, NOW.0 + HOUR_MS), (NOW.0, NOW.0 + 1)] {
        let question = View { scope: scope.clone(), ..view(from, to) };
        let facts = store.facts(&question, NOW).await.unwrap();
        let got: Vec<(&str, i64, i64)> = facts
            .key_services
            .iter()
            .map(|k| (k.service.as_str(), k.attempts, k.limited))
            .collect();
        assert_eq!(got, [("batch-import", 2, 1), ("checkout", 1, 1)]);
    }
}

async fn pairs_without_a_client_are_counted_from_the_outermost_source(store: Store) {
    let seen = |id: &str, host: &str, vantage: Vantage, count: u32| {
        let mut one = event(id, NOW);
        one.host = host.into();
        one.vantage = vantage;
        one.status = Some(429);
        one.count = count;
        new(one)
    };
    let batch = [
        seen("1", "a.example.com", Vantage::Client, 1),
        seen("2", "a.example.com", Vantage::Gateway, 50),
        seen("3", "b.example.com", Vantage::Gateway, 20),
        seen("4", "b.example.com", Vantage::Origin, 30),
    ];
    store.insert(&batch, NOW).await.unwrap();
    let pairs = store.pairs(view(NOW.0, NOW.0 + 1).window, TimeBasis::Event).await.unwrap();
    let got: Vec<(&str, Vantage, i64)> =
        pairs.iter().map(|p| (p.upstream.as_str(), p.source, p.counts.limited)).collect();
    assert_eq!(
        got,
        [("b.example.com", Vantage::Gateway, 20), ("a.example.com", Vantage::Client, 1)]
    );
    assert_eq!(pairs[0].last_at, NOW);
    let services = store.services(view(NOW.0, NOW.0 + 1).window).await.unwrap();
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].counts.limited, 1);
}

async fn a_triage_of_what_only_a_gateway_saw_counts_what_the_overview_counts(store: Store) {
    let mut batch = Vec::new();
    for i in 0..300_i64 {
        let vantage = if i % 3 == 0 { Vantage::Origin } else { Vantage::Gateway };
        let mut one = event(&format!("g{i}"), UnixMillis(NOW.0 - i * 11_003));
        one.vantage = vantage;
        one.host = "seen.example.com".into();
        one.status = Some(if i % 2 == 0 { 429 } else { 200 });
        one.attempt = if i % 5 == 0 { 2 } else { 1 };
        one.key_hash = Some(format!("hmac-sha256:{}", i % 4));
        one.duration_ms = Some(i);
        one.request_id = Some(format!("req-{}", i / 3));
        one.count = 2;
        batch.push(new(one));
    }
    batch.push(new(event("c", NOW)));
    let mut inside = event("o", NOW);
    inside.host = "inside.example.com".into();
    inside.vantage = Vantage::Origin;
    batch.push(new(inside));
    store.insert(&batch, NOW).await.unwrap();
    let scope = |service: Option<&str>, upstream: Option<&str>| Scope {
        service: service.map(str::to_owned),
        upstream: upstream.map(str::to_owned),
        ..Scope::default()
    };
    for time in [TimeBasis::Event, TimeBasis::Received] {
        let (from, to) = (NOW.0 - 3_000_123, NOW.0 + 1);
        let question = View {
            scope: scope(Some("checkout"), Some("seen.example.com")),
            time,
            ..view(from, to)
        };
        let seen: Vec<&NewEvent> = batch
            .iter()
            .filter(|one| {
                let at = if time == TimeBasis::Event { one.event.occurred_at } else { NOW };
                one.event.vantage == Vantage::Gateway && question.window.contains(at)
            })
            .collect();
        let mut expected = Counts::default();
        for one in &seen {
            expected.add(&Counts::seen(&one.event, &one.verdict));
        }
        assert!(expected.limited > 0 && expected.retries > 0, "{expected:?}");
        let pairs = store.pairs(question.window, time).await.unwrap();
        let pair = pairs.iter().find(|pair| pair.upstream == "seen.example.com").unwrap();
        assert_eq!((pair.source, pair.counts), (Vantage::Gateway, expected));

        assert_eq!(store.source(&question).await.unwrap(), Vantage::Gateway);
        assert_eq!(store.totals(&question).await.unwrap(), expected);
        for width in [MINUTE_MS, 10 * MINUTE_MS] {
            let mut sum = Counts::default();
            for bucket in store.buckets(&question, width).await.unwrap() {
                sum.add(&bucket.counts);
            }
            assert_eq!(sum, expected, "buckets by {time}");
        }
        for dimension in Dimension::ALL {
            let list = store.dimensions(&question).await.unwrap();
            let of = || list.iter().filter(|d| d.dimension == *dimension);
            assert_eq!(of().map(|d| d.attempts).sum::<i64>(), expected.attempts, "{dimension}");
            assert_eq!(of().map(|d| d.limited).sum::<i64>(), expected.limited, "{dimension}");
            if *dimension == Dimension::Key {
                assert_eq!(of().count(), 4, "each key is named");
            }
        }
        let page = store.rows(&filter(question.clone()), None, 1_000).await.unwrap();
        assert_eq!((page.items.len(), page.source), (seen.len(), Vantage::Gateway));
        let facts = store.facts(&question, NOW).await.unwrap();
        assert_eq!((facts.source, facts.totals), (Vantage::Gateway, expected));
        assert_eq!(facts.attempts.len(), seen.len());
        assert!(facts.attempts.iter().all(|s| s.event.vantage == Vantage::Gateway));
        assert!(!facts.has_gateway_source && facts.has_origin_source);
        assert!(!facts.observations.is_empty());
        assert!(facts.observations.iter().all(|s| s.event.vantage == Vantage::Origin));
        assert_eq!(facts.uncounted_pairs, 0);

        // One client attempt anywhere in a wider scope: only clients count there, and it says so.
        let wide = View { scope: scope(Some("checkout"), None), ..question.clone() };
        let facts = store.facts(&wide, NOW).await.unwrap();
        assert_eq!((facts.source, facts.totals.attempts), (Vantage::Client, 1));
        assert_eq!(facts.uncounted_pairs, 2);
        assert_eq!(store.rows(&filter(wide), None, 10).await.unwrap().items.len(), 1);
        // Nor does a client's pair ever take a gateway's attempts, whatever the route.
        let route = Scope { route: Some("/none".into()), ..scope(Some("checkout"), None) };
        let routed = View { scope: route, ..question };
        assert_eq!(store.source(&routed).await.unwrap(), Vantage::Client);
    }
}

async fn marks_concern_their_scope(store: Store) {
    let mark = |service: Option<&str>, upstream: Option<&str>| NewMark {
        at: NOW,
        service: service.map(str::to_owned),
        upstream: upstream.map(str::to_owned),
        title: "t".into(),
    };
    for one in [
        mark(None, None),
        mark(Some("checkout"), None),
        mark(Some("billing"), None),
        mark(Some("checkout"), Some("api.example.com")),
    ] {
        store.add_mark(one).await.unwrap();
    }
    let count = async |service: Option<&str>, upstream: Option<&str>| {
        let scope = Scope {
            service: service.map(str::to_owned),
            upstream: upstream.map(str::to_owned),
            ..Scope::default()
        };
        store.marks(&scope).await.unwrap().len()
    };
    assert_eq!(count(None, None).await, 4);
    assert_eq!(count(Some("checkout"), None).await, 3);
    assert_eq!(count(Some("billing"), Some("other.example.com")).await, 2);
}

async fn what_senders_did_wrong_is_counted(store: Store) {
    store.insert(&[full("e1", NOW), full("e1", NOW)], NOW).await.unwrap();
    let wrong = SenderCounts { unknown_fields: 4, rejected: 1, ..SenderCounts::default() };
    let list = [("checkout".to_owned(), wrong), (String::new(), wrong)];
    store.add_sender_counts(&list).await.unwrap();
    store.add_sender_counts(&list[..1]).await.unwrap();
    let senders = store.senders().await.unwrap();
    assert_eq!(senders.len(), 2);
    assert_eq!(senders[0].service, "checkout");
    assert_eq!(
        senders[0].counts,
        SenderCounts {
            events: 1,
            redactions: 2,
            unknown_fields: 8,
            rejected: 2,
            ..SenderCounts::default()
        }
    );
    assert_eq!(store.sender("nobody").await.unwrap(), None);
}

async fn the_hash_key_stays_the_same(store: Store) {
    let key = store.hash_key().await.unwrap();
    assert_ne!(key, [0; 32]);
    assert_eq!(store.hash_key().await.unwrap(), key);
}

async fn a_zero_byte_in_a_question_or_a_text_is_no_error(store: Store) {
    let mut one = event("zero", NOW);
    "a\0b".clone_into(&mut one.service);
    store.insert(&[new(one)], NOW).await.unwrap();
    let zero = Some("a\0b".to_owned());
    // It is found as it is stored.
    let of_service = Scope { service: zero.clone(), ..Scope::default() };
    let asked = View { scope: of_service, ..always() };
    assert_eq!(store.totals(&asked).await.unwrap().attempts, 1);
    let (a, b, c) = (zero.clone(), zero.clone(), zero.clone());
    for scope in [
        Scope { upstream: a, ..Scope::default() },
        Scope { environment: b, ..Scope::default() },
        Scope { route: c, ..Scope::default() },
    ] {
        let asked = View { scope, ..always() };
        assert_eq!(store.facts(&asked, NOW).await.unwrap().totals.attempts, 0);
        let rows = store.rows(&filter(asked), None, 10).await.unwrap();
        assert!(rows.items.is_empty());
    }
    for dimension in Dimension::ALL {
        let value = Some((*dimension, "x\0".to_owned()));
        let rows = store.rows(&RowFilter { value, ..filter(always()) }, None, 10).await.unwrap();
        assert!(rows.items.is_empty(), "{dimension}");
    }
    assert!(store.sender("a\0b").await.unwrap().is_some());
    let title = "a \0 b".to_owned();
    let mark = NewMark { at: NOW, service: zero, upstream: None, title };
    store.add_mark(mark).await.unwrap();
    let marks = store.marks(&asked.scope).await.unwrap();
    assert_eq!(marks.last().unwrap().title, "a \u{fffd} b");
}

async fn hostile_texts_are_kept_as_text(store: Store) {
    let long = "ж".repeat(40_000);
    let texts = ["'; DROP TABLE events; --", "<script>\"&'", "\u{202e}abc", "$1 {scope} ?1", &long];
    let mut batch = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let mut one = full(&format!("{text}{i}"), NOW).event;
        for field in [
            &mut one.operation_id,
            &mut one.environment,
            &mut one.route,
            &mut one.request_id,
            &mut one.ray_id,
            &mut one.key_hash,
            &mut one.instance,
            &mut one.body_sample,
            &mut one.trace_id,
        ] {
            *field = Some((*text).to_owned());
        }
        (*text).clone_into(&mut one.service);
        batch.push(new(one));
    }
    let mut zero = event("zero\0byte", NOW);
    zero.body_sample = Some("a\0b".into());
    batch.push(new(zero));
    let inserted = store.insert(&batch, NOW).await.unwrap();
    assert!(inserted.iter().all(|r| *r == Inserted::Stored));
    for text in &texts[..4] {
        let got = store.lookup(text).await.unwrap().events;
        assert_eq!(got.len(), 1, "{text}");
        assert_eq!(got[0].event.body_sample.as_deref(), Some(*text));
        let scope = Scope { service: Some((*text).to_owned()), ..Scope::default() };
        let question = View { scope, ..always() };
        assert_eq!(store.totals(&question).await.unwrap().attempts, 3);
        let mut narrowed = filter(question);
        narrowed.value = Some((Dimension::Key, (*text).to_owned()));
        assert_eq!(store.rows(&narrowed, None, 10).await.unwrap().items.len(), 1);
    }
    let again = store.insert(&batch, NOW).await.unwrap();
    assert!(again.iter().all(|r| *r == Inserted::Duplicate));
    assert_sums(&store).await;
}

async fn labels_are_what_occurs_in_the_window(store: Store) {
    let mut old = event("old", UnixMillis(NOW.0 - 10 * HOUR_MS));
    old.service = "retired".into();
    store.insert(&[full("e1", NOW), new(old)], NOW).await.unwrap();
    let labels = store.labels(view(NOW.0 - HOUR_MS, NOW.0 + 1).window).await.unwrap();
    assert_eq!(labels.services, ["checkout"]);
    assert_eq!(labels.upstreams, ["api.example.com"]);
    assert_eq!(labels.environments, ["prod"]);
}

async fn concurrent_writers_store_each_event_once(store: Store) {
    let batch = mixed(900);
    let mut tasks = Vec::new();
    for turn in 0..4 {
        let (store, mut batch) = (store.clone(), batch.clone());
        // The same events in another order.
        batch.rotate_left(turn * 211);
        if turn % 2 == 1 {
            batch.reverse();
        }
        tasks.push(tokio::spawn(async move {
            let mut stored = 0;
            for part in batch.chunks(150) {
                let results = store.insert(part, NOW).await.unwrap();
                stored += results.iter().filter(|r| **r == Inserted::Stored).count();
            }
            stored
        }));
    }
    let mut stored = 0;
    for task in tasks {
        stored += task.await.unwrap();
    }
    assert_eq!(stored, 900);
    let mut all = batch.iter();
    assert_eq!(store.totals(&always()).await.unwrap(), counted(all.by_ref()));
    assert_sums(&store).await;
}

async fn an_insert_that_is_cut_off_leaves_all_or_nothing(store: Store) {
    let batch = mixed(1_200);
    for (turn, part) in batch.chunks(60).enumerate() {
        let limit = std::time::Duration::from_micros(u64::try_from(turn).unwrap() * 400);
        // Whether it was in time is open, and is what the next call finds out.
        drop(tokio::time::timeout(limit, store.insert(part, NOW)).await);
        let again = store.insert(part, NOW).await.unwrap();
        let stored = again.iter().filter(|r| **r == Inserted::Stored).count();
        assert!(stored == 0 || stored == part.len(), "{stored} of {}", part.len());
    }
    assert_eq!(store.recount().await.unwrap().events, 1_200);
    assert_sums(&store).await;
}

#[tokio::test]
async fn a_database_address_that_cannot_be_used_says_why() {
    for url in ["mysql://localhost/x", "sqlite::memory:", ""] {
        let error = Store::open(url).await.unwrap_err();
        assert!(matches!(error, StoreError::Address(_)), "{url}: {error:?}");
    }
    let error = Store::open("sqlite:///nowhere/at/all/x.db").await.unwrap_err();
    assert!(matches!(error, StoreError::File(_)), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("/nowhere/at/all/x.db") && said.contains("folder"), "{said}");
}

#[tokio::test]
async fn a_store_opens_again_with_what_was_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite_store(&folder).await;
    let key = store.hash_key().await.unwrap();
    store.insert(&mixed(300), NOW).await.unwrap();
    store.close().await.unwrap();
    assert!(store.insert(&mixed(1), NOW).await.is_err());
    let store = sqlite_store(&folder).await;
    assert_eq!(store.hash_key().await.unwrap(), key);
    let again = store.insert(&mixed(301), NOW).await.unwrap();
    assert_eq!(again.iter().filter(|r| **r == Inserted::Stored).count(), 1);
    assert_sums(&store).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_change_the_schema_once() {
    let Some(schema) = Schema::create().await else { return };
    let url = schema.url();
    let (first, second, third) =
        tokio::join!(Store::open(&url), Store::open(&url), Store::open(&url));
    let stores = [first.unwrap(), second.unwrap(), third.unwrap()];
    assert_eq!(stores[0].hash_key().await.unwrap(), stores[2].hash_key().await.unwrap());
    let batch = mixed(400);
    let [one, two, three] = &stores;
    let (at_one, at_two, at_three) =
        tokio::join!(one.insert(&batch, NOW), two.insert(&batch, NOW), three.insert(&batch, NOW));
    let stored = [at_one.unwrap(), at_two.unwrap(), at_three.unwrap()]
        .iter()
        .flatten()
        .filter(|r| **r == Inserted::Stored)
        .count();
    assert_eq!(stored, 400);
    assert_sums(one).await;
    for store in &stores {
        store.close().await.unwrap();
    }
    schema.drop().await;
}
