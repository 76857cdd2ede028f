//! Traffic that each rule must see, and traffic it must not: judged by the evaluator and by
//! promtool on the exported files, which must agree within a minute.

use super::minutes::{Minute, Traffic, settings};
use super::promtool;
use retrylens::domain::alerts::{AlertSettings, RULES, Rule, is_silent};
use retrylens::domain::alerts::{AlertState, Hold};
use retrylens::domain::time::{MINUTE_MS, UnixMillis};
use retrylens::export::grafana::{self, Links};
use retrylens::export::prometheus;
use retrylens::export::promql::{Source, expression};
use serde_json::{Value, json};

const BASE: &str = "https://retrylens.example.com";

/// What happens to the counters beside being counted.
#[derive(Clone, Copy, PartialEq)]
enum Mishap {
    None,
    /// The process starts again at this minute: its counters begin at 0.
    Restart(usize),
    /// Nothing is scraped from minute to minute, these included.
    Gap(usize, usize),
}

struct Scenario {
    name: &'static str,
    minutes: Vec<Minute>,
    mishap: Mishap,
    /// Alert, and the minutes between which it must begin to fire.
    fires: Vec<(&'static str, usize, usize)>,
}

/// A minute of `requests`, of which `percent` fail `times` times each before they end well.
fn traffic(requests: i64, percent: i64, times: i64) -> Minute {
    let failed = requests * percent / 100;
    Minute {
        requests,
        retries: failed * times,
        first_try: requests - failed,
        after_retry: if times > 0 { failed } else { 0 },
        exhausted: if times > 0 { 0 } else { failed },
        ended: requests,
        ended_in_time: requests,
        ..Minute::default()
    }
}

/// The same with every failure a 429.
fn refused(requests: i64, percent: i64, times: i64) -> Minute {
    let minute = traffic(requests, percent, times);
    Minute { status_429: requests * percent / 100 * times.max(1), ..minute }
}

/// The same with every failure a refusal by another status.
fn refused_otherwise(requests: i64, percent: i64, times: i64) -> Minute {
    let minute = refused(requests, percent, times);
    Minute { status_429: 0, limited_otherwise: minute.status_429, ..minute }
}

fn run(parts: &[(usize, Minute)]) -> Vec<Minute> {
    parts.iter().flat_map(|(n, minute)| std::iter::repeat_n(*minute, *n)).collect()
}

/// Requests without a hitch.
fn calm(n: usize) -> (usize, Minute) {
    (n, traffic(60, 0, 1))
}

fn scenarios() -> Vec<Scenario> {
    let of = |name, parts: &[(usize, Minute)], fires: &[(&'static str, usize, usize)]| Scenario {
        name,
        minutes: run(parts),
        mishap: Mishap::None,
        fires: fires.to_vec(),
    };
    let slow = Minute { ended_in_time: 50, ..traffic(60, 10, 1) };
    let useless =
        Minute { after_retry: 1, exhausted: 9, first_try: 50, retries: 20, ..traffic(60, 0, 1) };
    let early = Minute { early: 4, ..traffic(60, 10, 1) };
    let duplicate = Minute { duplicates: 1, ..traffic(60, 0, 1) };
    // Half of the refusals are 429, a tenth of the attempts each.
    let mixed = Minute { status_429: 9, limited_otherwise: 9, ..traffic(60, 25, 1) };
    vec![
        of("calm", &[(300, traffic(60, 1, 1))], &[]),
        of(
            "growth to ten times the requests, retries alike",
            &[(200, traffic(60, 5, 1)), (60, traffic(600, 5, 1))],
            &[],
        ),
        of(
            "growth to ten times the requests, no retries",
            &[calm(200), (60, traffic(600, 0, 1))],
            &[],
        ),
        of("low traffic, all retried", &[(200, traffic(6, 0, 1)), (60, traffic(6, 100, 1))], &[]),
        of("no requests", &[(200, Minute::default())], &[]),
        of("requests end", &[(200, traffic(60, 2, 1)), (60, Minute::default())], &[]),
        of(
            "storm of retries",
            &[(200, traffic(60, 2, 1)), (40, traffic(60, 30, 2)), (40, traffic(60, 2, 1))],
            &[
                ("RetrylensRetriesOutgrowRequests", 202, 208),
                ("RetrylensRetryBudgetExceeded", 203, 209),
                ("RetrylensDegradationHidden", 210, 230),
            ],
        ),
        of(
            "storm without a baseline",
            &[(60, traffic(60, 30, 2))],
            &[("RetrylensRetryBudgetExceeded", 2, 8), ("RetrylensDegradationHidden", 10, 20)],
        ),
        of(
            "mild growth below the budget",
            &[(200, traffic(100, 2, 1)), (60, traffic(100, 9, 1))],
            &[("RetrylensRetriesOutgrowRequests", 203, 212)],
        ),
        of(
            "429 for half the attempts",
            &[calm(200), (40, refused(60, 50, 1)), calm(60)],
            &[
                ("Retrylens429Spike", 202, 208),
                ("Retrylens429BudgetBurn", 210, 225),
                ("RetrylensRetriesOutgrowRequests", 202, 208),
                ("RetrylensRetryBudgetExceeded", 203, 209),
                ("RetrylensDegradationHidden", 210, 225),
                ("Retrylens429BudgetBurnSlow", 218, 235),
            ],
        ),
        of(
            "503 at the limit for half the attempts",
            &[calm(200), (40, refused_otherwise(60, 50, 1)), calm(60)],
            &[
                ("RetrylensLimitedSpike", 202, 208),
                ("RetrylensLimitedBudgetBurn", 210, 225),
                ("RetrylensRetriesOutgrowRequests", 202, 208),
                ("RetrylensRetryBudgetExceeded", 203, 209),
                ("RetrylensDegradationHidden", 210, 225),
                ("RetrylensLimitedBudgetBurnSlow", 218, 235),
            ],
        ),
        of(
            "429 and 503 at the limit, neither enough alone",
            &[calm(200), (40, mixed)],
            &[
                ("RetrylensLimitedSpike", 202, 209),
                ("RetrylensLimitedBudgetBurn", 215, 240),
                ("RetrylensRetriesOutgrowRequests", 202, 208),
                ("RetrylensRetryBudgetExceeded", 210, 218),
                ("Retrylens429BudgetBurnSlow", 225, 240),
                ("RetrylensDegradationHidden", 210, 230),
            ],
        ),
        of(
            "429 for one attempt in twenty, for hours",
            &[(300, refused(60, 5, 1))],
            &[("Retrylens429BudgetBurnSlow", 15, 60)],
        ),
        of(
            "503 at the limit for one attempt in twenty, for hours",
            &[(300, refused_otherwise(60, 5, 1))],
            &[("RetrylensLimitedBudgetBurnSlow", 15, 60)],
        ),
        of(
            "retries that never help",
            &[calm(200), (60, useless)],
            &[
                ("RetrylensRetriesUseless", 215, 230),
                ("RetrylensRetriesOutgrowRequests", 202, 208),
                ("RetrylensRetryBudgetExceeded", 203, 212),
            ],
        ),
        of("given up at once, without a retry", &[(120, traffic(60, 50, 0))], &[]),
        of(
            "three layers retry",
            &[(120, traffic(60, 90, 3))],
            &[
                ("RetrylensLayersMultiply", 10, 13),
                ("RetrylensRetryBudgetExceeded", 2, 6),
                ("RetrylensDegradationHidden", 10, 13),
            ],
        ),
        of("waits cut short", &[(120, early)], &[("RetrylensRetryAfterIgnored", 12, 18)]),
        of(
            "one duplicate write",
            &[calm(60), (1, duplicate), calm(60)],
            &[("RetrylensDuplicateWrites", 61, 62)],
        ),
        of(
            "waits add up",
            &[(200, traffic(60, 10, 1)), (60, slow)],
            &[("RetrylensWaitAccumulates", 205, 213)],
        ),
        of(
            "slow without retries",
            &[(100, Minute { ended_in_time: 30, ..traffic(60, 0, 1) })],
            &[],
        ),
        Scenario {
            mishap: Mishap::Restart(225),
            ..of(
                "a storm and a restart in it",
                &[calm(200), (60, refused(60, 50, 1))],
                &[
                    ("Retrylens429Spike", 202, 208),
                    ("Retrylens429BudgetBurn", 210, 225),
                    ("RetrylensRetriesOutgrowRequests", 202, 208),
                    ("RetrylensRetryBudgetExceeded", 203, 209),
                    ("RetrylensDegradationHidden", 210, 225),
                    ("Retrylens429BudgetBurnSlow", 218, 235),
                ],
            )
        },
        Scenario {
            mishap: Mishap::Restart(100),
            ..of("calm and a restart in it", &[(200, traffic(60, 2, 1))], &[])
        },
        Scenario {
            mishap: Mishap::Gap(100, 103),
            ..of("calm and a gap", &[(200, traffic(60, 2, 1))], &[])
        },
        Scenario {
            mishap: Mishap::Gap(230, 233),
            ..of(
                "a storm and a gap in it",
                &[(200, traffic(60, 2, 1)), (60, traffic(60, 30, 2))],
                &[
                    ("RetrylensRetriesOutgrowRequests", 202, 208),
                    ("RetrylensRetryBudgetExceeded", 203, 209),
                    ("RetrylensDegradationHidden", 210, 226),
                ],
            )
        },
    ]
}

/// Samples every 30 seconds of a counter that grows by `each` a minute.
fn samples(minutes: &[Minute], mishap: Mishap, each: impl Fn(&Minute) -> i64) -> String {
    let mut total = 0;
    let mut shown = vec!["0".to_owned()];
    for (index, minute) in minutes.iter().enumerate() {
        if mishap == Mishap::Restart(index) {
            total = 0;
        }
        let n = each(minute);
        for part in [n / 2, n - n / 2] {
            total += part;
            // The second one stands at the start of the next minute.
            shown.push(total.to_string());
        }
    }
    if let Mishap::Gap(from, to) = mishap {
        shown[from * 2..=to * 2].fill("_".to_owned());
    }
    shown.join(" ")
}

/// The families of `/metrics` that a pair's traffic makes.
fn series(service: &str, scenario: &Scenario) -> Vec<Value> {
    let pair = format!(r#"service="{service}",upstream="api.example.com""#);
    let values = |each: &dyn Fn(&Minute) -> i64| samples(&scenario.minutes, scenario.mishap, each);
    let one = |family: &str, labels: &str, each: &dyn Fn(&Minute) -> i64| json!({"series": format!("retrylens_{family}{{{pair}{labels}}}"), "values": values(each)});
    vec![
        one("requests_total", "", &|m| m.requests),
        one("retries_total", r#",layer="sdk""#, &|m| m.retries),
        one("retries_total", r#",layer="app""#, &|_| 0),
        one("attempts_total", r#",outcome="2xx""#, &|m| m.requests + m.retries - m.status_429),
        one("attempts_total", r#",outcome="429""#, &|m| m.status_429),
        one("rate_limited_total", r#",source="envoy""#, &|m| m.status_429),
        one("rate_limited_total", r#",source="unknown""#, &|_| 0),
        one("limited_total", "", &|m| m.status_429 + m.limited_otherwise),
        one("requests_finished_total", r#",result="first-try""#, &|m| m.first_try),
        one("requests_finished_total", r#",result="after-retry""#, &|m| m.after_retry),
        one("requests_finished_total", r#",result="exhausted""#, &|m| m.exhausted),
        one("requests_finished_total", r#",result="gave-up""#, &|_| 0),
        one("early_retries_total", "", &|m| m.early),
        one("duplicate_writes_total", "", &|m| m.duplicates),
        one("request_duration_seconds_count", "", &|m| m.ended),
        one("request_duration_seconds_bucket", r#",le="5.0""#, &|_| 0),
        one("request_duration_seconds_bucket", r#",le="10.0""#, &|m| m.ended_in_time),
        one("request_duration_seconds_bucket", r#",le="+Inf""#, &|m| m.ended),
    ]
}

/// One test of promtool over all scenarios, each as a service of its own: at every minute at which
/// the evaluator is sure of its answer within an evaluation to either side, exactly the same alerts
/// fire. Beside it how many minutes are compared.
fn test_of(scenarios: &[(String, Scenario)], settings: &AlertSettings) -> (Value, usize) {
    let mut checks = Vec::new();
    let mut input = Vec::new();
    for (service, scenario) in scenarios {
        input.extend(series(service, scenario));
        checks.extend(checks_of(service, scenario, settings));
    }
    let count = checks.len();
    (json!({"interval": "30s", "input_series": input, "promql_expr_test": checks}), count)
}

fn checks_of(service: &str, scenario: &Scenario, settings: &AlertSettings) -> Vec<Value> {
    let traffic = Traffic::new(&scenario.minutes);
    let thresholds = settings.of(service, "api.example.com");
    let firing: Vec<(&Rule, Vec<bool>)> = RULES
        .iter()
        .filter(|rule| rule.condition().is_some())
        .map(|rule| (rule, traffic.firing(rule, &thresholds)))
        .collect();
    let mut checks = Vec::new();
    for now in 1..scenario.minutes.len() {
        // One evaluation to either side: a minute, or five for the slow rules.
        let is_sure = firing.iter().all(|(rule, minutes)| {
            let margin = rule.every as usize;
            let around = now.saturating_sub(margin)..(now + margin + 1).min(minutes.len());
            minutes[around].iter().all(|is| *is == minutes[now])
        });
        if !is_sure {
            continue;
        }
        let expected: Vec<Value> = firing
            .iter()
            .filter(|(_, minutes)| minutes[now])
            .map(|(rule, _)| json!({"labels": format!("{{alertname=\"{}\"}}", rule.name), "value": 1}))
            .collect();
        checks.push(json!({
            "expr": format!("count by (alertname) (ALERTS{{alertstate=\"firing\",service=\"{service}\"}})"),
            "eval_time": format!("{now}m"),
            "exp_samples": expected,
        }));
    }
    checks
}

/// Every scenario with a service of its own.
fn named_scenarios() -> Vec<(String, Scenario)> {
    let named = |(index, scenario): (usize, Scenario)| {
        let words: String = scenario.name.replace([' ', ','], "-");
        (format!("s{index}-{words}"), scenario)
    };
    scenarios().into_iter().enumerate().map(named).collect()
}

/// The scenario whose name begins so, as the traffic of `checkout`.
fn checkout(begin: &str) -> Vec<(String, Scenario)> {
    let found = scenarios().into_iter().find(|scenario| scenario.name.starts_with(begin));
    vec![("checkout".to_owned(), found.unwrap())]
}

/// The rules of the Grafana file as a Prometheus file: its expressions, held and kept alike.
fn grafana_as_rules(settings: &AlertSettings) -> String {
    let pairs = RULES.iter().map(|rule| {
        let mut entry = json!({
            "alert": rule.name, "expr": expression(rule, settings, Source::Inline),
            "labels": {"severity": rule.severity},
        });
        for (key, minutes) in [("for", rule.hold), ("keep_firing_for", rule.keep)] {
            if minutes > 0 {
                entry[key] = json!(format!("{minutes}m"));
            }
        }
        entry
    });
    json!({"groups": [{"name": "grafana", "rules": pairs.collect::<Vec<_>>()}]}).to_string()
}

#[test]
fn each_rule_fires_in_time_and_nothing_else_does() {
    let settings = settings(&[]);
    let mut wrong = Vec::new();
    for scenario in scenarios() {
        let traffic = Traffic::new(&scenario.minutes);
        for rule in RULES.iter().filter(|rule| rule.condition().is_some()) {
            let firing = traffic.firing(rule, settings.base());
            let began = firing.iter().position(|is| *is);
            let expected = scenario.fires.iter().find(|(name, ..)| *name == rule.name);
            let expected = expected.map(|(_, from, to)| *from..=*to);
            let is_right = match (&expected, began) {
                (None, None) => true,
                (Some(minutes), Some(began)) => minutes.contains(&began),
                _ => false,
            };
            if !is_right {
                let (scenario, rule) = (scenario.name, rule.name);
                wrong.push(format!("{scenario}: {rule} at {began:?}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let is_covered = |rule: &Rule| {
        rule.condition().is_none()
            || scenarios().iter().any(|s| s.fires.iter().any(|(name, ..)| *name == rule.name))
    };
    for rule in RULES {
        assert!(is_covered(rule), "no scenario makes {} fire", rule.name);
    }
}

#[test]
fn promtool_finds_in_the_prometheus_file_what_the_evaluator_finds() {
    let settings = settings(&[]);
    let (test, checked) = test_of(&named_scenarios(), &settings);
    assert!(checked > 3000, "only {checked} minutes were compared");
    promtool::test(&prometheus::rules(&settings, BASE), &[test]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn promtool_finds_in_the_expressions_for_grafana_what_the_evaluator_finds() {
    let settings = settings(&[]);
    let (test, _) = test_of(&named_scenarios(), &settings);
    promtool::test(&grafana_as_rules(&settings), &[test]).unwrap_or_else(|e| panic!("{e}"));
    // What was tested is what the file says.
    let links = Links { base: BASE.to_owned(), datasource: "prometheus".to_owned() };
    let groups = serde_json::to_value(grafana::api_groups(&settings, &links)).unwrap();
    for rule in RULES {
        let all = groups.as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap());
        let own = all.clone().find(|own| own["title"] == rule.name).unwrap();
        let expr = expression(rule, &settings, Source::Inline);
        assert_eq!(own["data"][0]["model"]["expr"], expr, "{}", rule.name);
    }
}

/// A wrong expectation must fail, or the comparison above means nothing.
#[test]
fn promtool_tells_when_the_forms_differ() {
    let strict = settings(&[("alert_spike_share_5m", "60%")]);
    let (test, _) = test_of(&checkout("429 for half"), &strict);
    let rules = prometheus::rules(&settings(&[]), BASE);
    let said = promtool::test(&rules, &[test]).unwrap_err();
    assert!(said.contains("Retrylens429Spike"), "{said}");
}

#[test]
fn thresholds_of_one_pair_reach_every_form() {
    let own = settings(&[(
        "alert_overrides",
        r#"[{service = "checkout", alert_retry_share_5m = "300%", alert_growth_share = "400%"},
            {upstream = "api.example.com", alert_retry_share_5m = "1%"},
            {service = "other \"$x\" {{ }}", upstream = "api.example.com", alert_wait_s = 30,
             alert_retry_share_30m = "90%", alert_limit_budget = "2%"}]"#,
    )]);
    let chosen = [checkout("storm of"), checkout("429 for half")];
    let tests: Vec<Value> = chosen.iter().map(|scenario| test_of(scenario, &own).0).collect();
    let budget = RULES.iter().find(|rule| rule.name == "RetrylensRetryBudgetExceeded").unwrap();
    let traffic = Traffic::new(&chosen[0][0].1.minutes);
    let fires = |settings: &AlertSettings| {
        let thresholds = settings.of("checkout", "api.example.com");
        traffic.firing(budget, &thresholds).contains(&true)
    };
    assert!(fires(&settings(&[])) && !fires(&own), "the override decides");
    let rules = prometheus::rules(&own, BASE);
    assert!(promtool::check(&rules) > 50);
    promtool::test(&rules, &tests).unwrap_or_else(|e| panic!("{e}"));
    promtool::test(&grafana_as_rules(&own), &tests).unwrap_or_else(|e| panic!("{e}"));

    // Other services at the same upstream have its numbers, and the text says whose they are.
    let other = own.of("search", "api.example.com");
    assert!(traffic.firing(budget, &other).contains(&true));
    let text = rules.replace("checkout", "search");
    assert_ne!(text, rules);
    let choice = r#"{{ if and (eq $labels.service "other \"\x24x\" \x7b\x7b \x7d\x7d") (eq $labels.upstream "api.example.com") }}90%{{ else if (eq $labels.service "checkout") }}10%"#;
    let escaped = choice.replace('\\', "\\\\").replace('"', "\\\"");
    assert!(rules.contains(choice) || rules.contains(&escaped), "{rules}");
}

#[test]
fn a_pair_with_a_baseline_of_its_own_is_judged_by_that() {
    let quiet =
        Minute { requests: 1, first_try: 1, ended: 1, ended_in_time: 1, ..Minute::default() };
    let none = Minute::default();
    let sparse = [quiet, none, none, none].repeat(50);
    // Over before it becomes part of what it is compared with.
    let storm = run(&[(9, traffic(60, 40, 1))]);
    let scenario = |minutes: Vec<Minute>| Scenario {
        name: "quiet, then a storm",
        minutes,
        mishap: Mishap::None,
        fires: Vec::new(),
    };
    let minutes = [sparse, storm].concat();
    let pairs =
        ["checkout", "search"].map(|service| (service.to_owned(), scenario(minutes.clone())));
    let own = settings(&[(
        "alert_overrides",
        r#"[{service = "checkout", alert_growth_baseline_requests = 20, alert_growth_expected = "0.3%"}]"#,
    )]);
    let growth = Rule::named("RetrylensRetriesOutgrowRequests").unwrap();
    let fires = |service: &str| {
        let thresholds = own.of(service, "api.example.com");
        Traffic::new(&minutes).firing(growth, &thresholds).contains(&true)
    };
    assert!(fires("checkout") && !fires("search"));
    let (test, checked) = test_of(&pairs, &own);
    assert!(checked > 350, "{checked}");
    for rules in [prometheus::rules(&own, BASE), grafana_as_rules(&own)] {
        promtool::test(&rules, std::slice::from_ref(&test)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Other rules and panels may read it: it is there only while there is a baseline, and never below
/// what is expected at least.
#[test]
fn the_recorded_baseline_is_the_expected_share_and_absent_where_too_little_is_known() {
    const RATIO: &str = "service_upstream:retrylens_retries_per_requests:ratio_baseline";
    let rules = prometheus::rules(&settings(&[]), BASE);
    let series = |family: &str, service: &str, values: &str| {
        let of = format!("{{service=\"{service}\",upstream=\"api.example.com\"}}");
        json!({"series": format!("retrylens_{family}_total{of}"), "values": values})
    };
    let found = |at: &str, share: f64, services: &[&str]| {
        let one =
            |service: &&str| json!({"labels": format!("{{service=\"{service}\"}}"), "value": 1});
        json!({
            "expr": format!("count by (service) (abs({RATIO} - {share}) < 0.0001)"),
            "eval_time": at,
            "exp_samples": services.iter().map(one).collect::<Vec<_>>(),
        })
    };
    let test = json!({
        "interval": "1m",
        "input_series": [
            series("requests", "retried", "0+10x240"), series("retries", "retried", "0+2x240"),
            series("requests", "never-retried", "0+10x240"),
            series("requests", "seldom", "0+0.5x240"), series("retries", "seldom", "0+0.5x240"),
        ],
        "promql_expr_test": [
            found("15m", 0.2, &[]),
            found("230m", 0.2, &["retried"]),
            found("230m", 0.01, &["never-retried"]),
            json!({"expr": format!("count({RATIO})"), "eval_time": "230m",
                "exp_samples": [{"labels": "{}", "value": 2}]}),
        ],
    });
    promtool::test(&rules, &[test]).unwrap_or_else(|e| panic!("{e}"));
}

/// A Prometheus that never saw a retried request end well has no series of them.
#[test]
fn retries_that_never_once_helped_are_told_without_a_series_of_those_that_did() {
    let mut useless = checkout("retries that never help");
    for minute in &mut useless[0].1.minutes {
        minute.exhausted += std::mem::take(&mut minute.after_retry);
    }
    let settings = settings(&[]);
    let (mut test, checked) = test_of(&useless, &settings);
    let fires = Traffic::new(&useless[0].1.minutes)
        .firing(Rule::named("RetrylensRetriesUseless").unwrap(), settings.base());
    assert!(checked > 150 && fires.contains(&true));
    let input = test["input_series"].as_array_mut().unwrap();
    let before = input.len();
    input.retain(|one| !one["series"].as_str().unwrap().contains("after-retry"));
    assert_eq!(input.len(), before - 1);
    for rules in [prometheus::rules(&settings, BASE), grafana_as_rules(&settings)] {
        promtool::test(&rules, std::slice::from_ref(&test)).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn labels_and_annotations_are_those_of_the_contract() {
    let (_, storm) = checkout("429 for half").remove(0);
    let in_staging: Vec<Value> = series("checkout", &storm)
        .into_iter()
        .map(|mut one| {
            let name =
                one["series"].as_str().unwrap().replace("{service", "{environment=\"a b\",service");
            one["series"] = json!(name);
            one
        })
        .collect();
    let alert = |labels: Value, more: &str| {
        json!([{
            "alertname": "Retrylens429Spike", "eval_time": "215m",
            "exp_alerts": [{
                "exp_labels": labels,
                "exp_annotations": {
                    "summary": "api.example.com answers checkout with 429",
                    "description": "33.33% of the attempts of the last 5 minutes got 429.",
                    "runbook_url": "https://retrylens.example.com/docs/alerts#429-spike",
                    "dashboard_url": format!("https://retrylens.example.com/triage?service=checkout&upstream=api.example.com{more}"),
                },
            }],
        }])
    };
    let mut plain =
        json!({"severity": "critical", "service": "checkout", "upstream": "api.example.com"});
    let first = json!({"interval": "30s", "input_series": series("checkout", &storm), "alert_rule_test": alert(plain.clone(), "")});
    plain["environment"] = json!("a b");
    let second = json!({"interval": "30s", "input_series": in_staging, "alert_rule_test": alert(plain, "&environment=a+b")});
    let rules = prometheus::rules(&settings(&[]), BASE);
    promtool::test(&rules, &[first, second]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn silence_and_absence_are_told_by_promtool_as_by_the_evaluator() {
    // Events until minute 20, then none; scraped until minute 60.
    let last = |minute: i64| minute.min(20) * 60;
    let values: Vec<String> = (0..=60).map(|minute| last(minute).to_string()).collect();
    let settings = settings(&[]);
    let rule = RULES.iter().find(|rule| rule.name == "RetrylensIngestStalled").unwrap();
    let mut state = AlertState::default();
    let firing: Vec<bool> = (0..=60)
        .map(|minute| {
            let now = UnixMillis(minute * MINUTE_MS);
            let silent = is_silent(settings.base(), Some(UnixMillis(last(minute) * 1000)), now);
            state = state.next(silent, now, Hold::of(rule)).0;
            state.is_firing()
        })
        .collect();
    assert_eq!(firing.iter().position(|is| *is), Some(36), "silent from 31 on, for 5 minutes");
    let of = |alert: &str, minute: usize, is: bool| {
        let labels = format!("{{alertname=\"{alert}\"}}");
        let samples = if is { vec![json!({"labels": labels, "value": 1})] } else { Vec::new() };
        json!({
            "expr": format!("count by (alertname) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})"),
            "eval_time": format!("{minute}m"), "exp_samples": samples,
        })
    };
    let mut checks: Vec<Value> =
        (0..=60).map(|minute| of(rule.name, minute, firing[minute])).collect();
    // The lookback of five minutes keeps the last sample alive; then absent for five more.
    checks.extend((61..=70).map(|minute| of("RetrylensAbsent", minute, false)));
    checks.extend((72..=80).map(|minute| of("RetrylensAbsent", minute, true)));
    let test = json!({
        "interval": "1m",
        "input_series": [
            {"series": "retrylens_last_event_timestamp_seconds{service=\"checkout\"}", "values": values.join(" ")},
            {"series": "retrylens_build_info{version=\"0.1.0\",revision=\"0000000\"}", "values": "1x60"},
        ],
        "promql_expr_test": checks,
    });
    for rules in [prometheus::rules(&settings, BASE), grafana_as_rules(&settings)] {
        promtool::test(&rules, std::slice::from_ref(&test)).unwrap_or_else(|e| panic!("{e}"));
    }
}
