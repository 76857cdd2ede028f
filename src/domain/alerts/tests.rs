//! Rules against the conditions as they are published, in whole numbers, and at their edges.

use super::annotate::{Piece, filled_in, pieces};
use super::*;
use crate::config::{Config, Sources};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn thresholds() -> Thresholds {
    Config::load(&Sources::default()).unwrap().alerts.base().clone()
}

/// Sums given one by one; all others are 0.
#[derive(Debug, Clone, Default)]
struct Given(BTreeMap<(Measure, u32, u32), i64>);

impl Given {
    fn with(mut self, measure: Measure, span: Span, sum: i64) -> Self {
        self.0.insert((measure, span.minutes, span.lag), sum);
        self
    }
}

impl Sums for Given {
    fn sum(&self, measure: Measure, span: Span) -> Option<i64> {
        Some(self.0.get(&(measure, span.minutes, span.lag)).copied().unwrap_or(0))
    }
}

fn met(rule: &str, sums: &impl Sums) -> bool {
    let condition = Rule::named(rule).unwrap().condition().unwrap();
    evaluate(condition, &thresholds(), sums).met == Met::Yes
}

const BASE: Span = Span { minutes: 180, lag: 10 };

/// The conditions as published in SQL, over the sums of their windows.
fn reference(rule: &str, of: impl Fn(Measure, Span) -> i64) -> bool {
    let q = |minutes| of(Measure::Requests, Span::last(minutes));
    let r = |minutes| of(Measure::Retries, Span::last(minutes));
    let a = |minutes| of(Measure::Attempts, Span::last(minutes));
    let n = |minutes| of(Measure::Status429, Span::last(minutes));
    let (qb, rb) = (of(Measure::Requests, BASE), of(Measure::Retries, BASE));
    match rule {
        "RetrylensRetriesOutgrowRequests" => {
            qb >= 100
                && q(5) >= 50
                && r(5) * 20 > q(5)
                && r(2) * 20 > q(2)
                && r(5) * qb > 2 * rb * q(5)
                && r(5) * 100 > 2 * q(5)
                && r(2) * qb > 2 * rb * q(2)
                && r(2) * 100 > 2 * q(2)
                && (r(5) - 20) * qb >= rb * q(5)
                && (r(5) - 20) * 100 >= q(5)
        }
        "RetrylensRetryBudgetExceeded" => {
            q(5) >= 50 && r(5) >= 20 && r(5) * 5 > q(5) && r(30) * 10 > q(30)
        }
        "Retrylens429Spike" => a(5) >= 50 && n(5) >= 20 && n(5) * 5 > a(5) && n(30) * 20 > a(30),
        "Retrylens429BudgetBurn" => {
            (a(5) >= 50 && n(5) >= 20 && n(5) * 1000 > 144 * a(5) && n(60) * 1000 > 144 * a(60))
                || (a(30) >= 50
                    && n(30) >= 20
                    && n(30) * 100 > 6 * a(30)
                    && n(360) * 100 > 6 * a(360))
        }
        "Retrylens429BudgetBurnSlow" => {
            (n(120) >= 50 && n(120) * 100 > 3 * a(120) && n(1440) * 100 > 3 * a(1440))
                || (n(360) >= 50 && n(360) * 100 > a(360) && n(4320) * 100 > a(4320))
        }
        _ => unreachable!(),
    }
}

const PUBLISHED: [&str; 5] = [
    "RetrylensRetriesOutgrowRequests",
    "RetrylensRetryBudgetExceeded",
    "Retrylens429Spike",
    "Retrylens429BudgetBurn",
    "Retrylens429BudgetBurnSlow",
];

/// Sums near the edges of the conditions: whole multiples of small numbers, and one beside them.
fn sums_of(rule: &'static str) -> impl Strategy<Value = Given> {
    let mut wanted = Vec::new();
    Rule::named(rule).unwrap().condition().unwrap().each_sum(&mut |m, s| wanted.push((m, s)));
    wanted.sort();
    wanted.dedup();
    let one = prop_oneof![
        (0_i64..12, -1_i64..=1).prop_map(|(n, beside)| (n * 10 + beside).max(0)),
        (0_i64..2000, -1_i64..=1).prop_map(|(n, beside)| (n * 5 + beside).max(0)),
    ];
    proptest::collection::vec(one, wanted.len()).prop_map(move |values| {
        let each = wanted.iter().zip(values);
        each.fold(Given::default(), |all, ((m, s), value)| all.with(*m, *s, value))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_published_conditions_hold_exactly_where_the_rules_do(
        sums in proptest::sample::select(&PUBLISHED[..])
            .prop_flat_map(|rule| sums_of(rule).prop_map(move |sums| (rule, sums)))
    ) {
        let (rule, sums) = sums;
        let expected = reference(rule, |measure, span| sums.sum(measure, span).unwrap());
        prop_assert_eq!(met(rule, &sums), expected, "{}", rule);
    }
}

#[test]
fn the_random_sums_reach_both_answers_of_every_rule() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for rule in PUBLISHED {
        let strategy = sums_of(rule);
        let mut sample = || strategy.new_tree(&mut runner).unwrap().current();
        let held = (0..3000).filter(|_| met(rule, &sample())).count();
        assert!((10..2990).contains(&held), "{rule}: {held} of 3000");
    }
}

#[test]
fn a_share_exactly_at_its_limit_does_not_fire() {
    let budget = |retries| {
        Given::default()
            .with(Measure::Requests, Span::last(5), 500)
            .with(Measure::Retries, Span::last(5), retries)
            .with(Measure::Requests, Span::last(30), 3000)
            .with(Measure::Retries, Span::last(30), 301)
    };
    assert!(!met("RetrylensRetryBudgetExceeded", &budget(100)), "exactly 20%");
    assert!(met("RetrylensRetryBudgetExceeded", &budget(101)));
}

#[test]
fn numbers_as_large_as_can_be_stored_change_no_answer() {
    for huge in [i64::MAX, i64::MAX / 2] {
        let sums = |retries| {
            Given::default()
                .with(Measure::Requests, BASE, huge)
                .with(Measure::Requests, Span::last(5), huge)
                .with(Measure::Requests, Span::last(2), huge)
                .with(Measure::Retries, Span::last(5), retries)
                .with(Measure::Retries, Span::last(2), retries)
        };
        assert!(met("RetrylensRetriesOutgrowRequests", &sums(huge / 2)));
        assert!(!met("RetrylensRetriesOutgrowRequests", &sums(huge / 100)));
    }
}

#[test]
fn a_measure_that_is_not_counted_leaves_its_rules_unknown_and_no_others() {
    struct Without(Measure);
    impl Sums for Without {
        fn sum(&self, measure: Measure, _: Span) -> Option<i64> {
            (measure != self.0).then_some(1000)
        }
    }
    let all = thresholds();
    let of = |rule: &str, sums: &Without| {
        evaluate(Rule::named(rule).unwrap().condition().unwrap(), &all, sums)
    };
    let early = of("RetrylensRetryAfterIgnored", &Without(Measure::EarlyRetries));
    assert_eq!((early.met, early.value), (Met::Unknown, None));
    // One condition that does not hold settles it all the same.
    assert_eq!(of("RetrylensLayersMultiply", &Without(Measure::Limited)).met, Met::No);
    assert_eq!(of("Retrylens429Spike", &Without(Measure::EarlyRetries)).met, Met::Yes);
}

#[test]
fn readings_show_every_comparison_with_its_numbers() {
    let sums = Given::default()
        .with(Measure::Requests, Span::last(5), 400)
        .with(Measure::Retries, Span::last(5), 100)
        .with(Measure::Requests, Span::last(30), 4000)
        .with(Measure::Retries, Span::last(30), 100);
    let condition = Rule::named("RetrylensRetryBudgetExceeded").unwrap().condition().unwrap();
    let found = evaluate(condition, &thresholds(), &sums);
    assert_eq!(found.met, Met::No);
    assert_eq!(found.value, Some(Ratio { part: 100, whole: 400 }));
    let shown: Vec<String> = found
        .readings
        .iter()
        .map(|r| {
            let Ratio { part, whole } = r.value;
            format!("{} of {} min: {part}/{whole} {} {:?}", r.what, r.minutes, r.limit, r.met)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "retries / requests of 5 min: 100/400 > 20% Yes",
            "requests of 5 min: 400/1 >= 50 Yes",
            "retries of 5 min: 100/1 >= 20 Yes",
            "retries / requests of 30 min: 100/4000 > 10% No",
        ]
    );
}

#[test]
fn texts_are_filled_in() {
    let all = thresholds();
    let rule = Rule::named("RetrylensRetryBudgetExceeded").unwrap();
    let pair = ("checkout", "api.example.com");
    let value = Some(Ratio { part: 1, whole: 3 });
    assert_eq!(
        filled_in(rule, rule.description, pair, value, &all),
        "33.33% retries per request over 5 minutes, and more than 10% over 30 minutes."
    );
    assert_eq!(
        filled_in(rule, rule.summary, pair, value, &all),
        "Retry budget of checkout to api.example.com is spent"
    );
    let rule = Rule::named("RetrylensIngestStalled").unwrap();
    assert_eq!(
        filled_in(rule, rule.summary, ("", ""), None, &all),
        "retrylens has received no event for over 10 minutes"
    );
    let value = Some(Ratio { part: 700, whole: 1 });
    assert_eq!(
        filled_in(rule, rule.description, ("", ""), value, &all),
        "Last event 11m 40s ago; every other retrylens alert is blind."
    );
    for rule in RULES {
        for text in [rule.summary, rule.description] {
            let written: String = pieces(text)
                .into_iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text,
                    _ => "",
                })
                .collect();
            assert!(!written.contains("alert_") && !written.contains(['{', '}']), "{written}");
            let markers = text.matches('{').count();
            let known = pieces(text).iter().filter(|p| !matches!(p, Piece::Text(_))).count();
            assert_eq!(known, markers, "a marker names nothing: {text}");
        }
    }
}

#[test]
fn silence_begins_after_the_limit_and_not_before_the_first_event() {
    use crate::domain::time::UnixMillis;
    let all = thresholds();
    let now = UnixMillis(10_000_000);
    let ago = |seconds: i64| Some(UnixMillis(now.0 - seconds * 1000));
    assert!(!is_silent(&all, None, now));
    assert!(!is_silent(&all, ago(600), now));
    assert!(is_silent(&all, ago(601), now));
}
