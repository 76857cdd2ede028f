//! The record of `/metrics` in the database of a real Prometheus, and what the exported rules find
//! in it there.
//!
//! Prometheus evaluates alerts only as time goes by. So the samples become blocks of its database
//! (`promtool tsdb create-blocks-from`), the recording rules are filled in afterwards in the same way,
//! those that read others after those, and the condition of each alert is asked of the running server
//! at each evaluation of its group. Only the state machine is ours: the one that the SQL form has
//! too, written apart from the program's.

use super::replay::Record;
use super::sql_form::Life;
use crate::support::prometheus::{Prometheus, promtool};
use retrylens::domain::alerts::Rule;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The minutes (since 1970) at which a rule fires for a service, as Prometheus finds it.
pub(super) type Firing = BTreeMap<(String, String), BTreeSet<i64>>;

/// A running server on what was filled in so far. A sample counts for less than a minute, since
/// what was filled in ends without the marks that a rule leaves where it ends.
fn server(folder: &Path) -> Prometheus {
    Prometheus::start(folder, "global: {}\n", &["--query.lookback-delta=59999ms"])
}

fn fill(folder: &Path, arguments: &[&str]) {
    let (is_fine, said) = promtool(folder, &[&["tsdb", "create-blocks-from"], arguments].concat());
    assert!(is_fine, "{said}");
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The samples of which a rule speaks, in the form that promtool takes.
fn samples(rules: &str, scraped: &[(i64, &String)]) -> String {
    let mut out = String::new();
    for (second, text) in scraped {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let sample = line.split(" # ").next().unwrap();
            if sample.split(['{', ' ']).next().is_some_and(|name| rules.contains(name)) {
                writeln!(out, "{sample} {second}").unwrap();
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

/// Evaluates the rule file over samples of `/metrics` with their times in Unix seconds.
pub(super) fn evaluate(rules: &str, scraped: &[(i64, &String)]) -> Firing {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("samples.om"), samples(rules, scraped)).unwrap();
    fill(path, &["openmetrics", "samples.om", "data"]);
    let [first, last] = [scraped.first(), scraped.last()].map(|one| one.unwrap().0);
    let file: Value = serde_saphyr::from_str(rules).unwrap();
    let groups = file["groups"].as_array().unwrap();
    fill_in(path, groups, [first, last]);

    let server = server(path);
    let mut firing = Firing::new();
    for group in groups {
        let every: i64 = match text(group, "interval") {
            "5m" => 300,
            _ => 60,
        };
        // A group is evaluated at a moment of its own within its interval.
        let recorded =
            group["rules"].as_array().unwrap().iter().find(|rule| rule.get("record").is_some());
        let offset = recorded.map_or(30.0, |rule| {
            let asked = format!("timestamp({})", text(rule, "record"));
            let time = last.to_string();
            let found = server.get(
                "query",
                &[("query", &format!("max(max_over_time({asked}[10m:1s]))")), ("time", &time)],
            );
            let stamp: f64 = found["result"][0]["value"][1].as_str().unwrap().parse().unwrap();
            // A little after it, whichever way milliseconds are rounded.
            stamp.rem_euclid(f64::from(i32::try_from(every).unwrap())) + 0.005
        });
        let first = first - first.rem_euclid(every) + every;
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 stay far below 2^53")]
        let span = [first as f64 + offset, (last + 59) as f64];
        for rule in group["rules"].as_array().unwrap() {
            let name = text(rule, "alert");
            if name.is_empty() {
                continue;
            }
            let mut truth: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
            for series in server.range(text(rule, "expr"), span, every) {
                let service = series["metric"]["service"].as_str().unwrap_or_default();
                let minutes = truth.entry(service.to_owned()).or_default();
                minutes.extend(series["values"].as_array().unwrap().iter().map(minute));
            }
            let own = Rule::named(name).unwrap();
            let (hold, keep) = (i64::from(own.hold), i64::from(own.keep));
            for (service, minutes) in truth {
                let mut life = Life::default();
                let mut all = BTreeSet::new();
                let begin = minute(&json!([span[0]]));
                for minute in begin..=last.div_euclid(60) {
                    let is_evaluated = (minute - begin).rem_euclid(every / 60) == 0;
                    let was_firing = all.contains(&(minute - 1));
                    let fires = if is_evaluated {
                        life.step(minutes.contains(&minute), minute, hold, keep) == "firing"
                    } else {
                        was_firing
                    };
                    all.extend(fires.then_some(minute));
                }
                firing.insert((name.to_owned(), service), all);
            }
        }
    }
    firing
}

fn minute(point: &Value) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "whole minutes since 1970")]
    let minute = (point[0].as_f64().unwrap() / 60.0).floor() as i64;
    minute
}

/// Fills the recording rules in, those that read others after those.
fn fill_in(path: &Path, groups: &[Value], [first, last]: [i64; 2]) {
    let is_record = |rule: &&Value| rule.get("record").is_some();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let mut left: BTreeSet<&str> =
        rules.filter(is_record).map(|rule| text(rule, "record")).collect();
    while !left.is_empty() {
        let is_ready = |rule: &&Value| {
            left.contains(text(rule, "record"))
                && !left.iter().any(|name| text(rule, "expr").contains(name))
        };
        let (mut ready, mut names) = (Vec::new(), Vec::new());
        for group in groups {
            let rules: Vec<&Value> =
                group["rules"].as_array().unwrap().iter().filter(is_ready).collect();
            names.extend(rules.iter().map(|rule| text(rule, "record")));
            if !rules.is_empty() {
                let (name, every) = (&group["name"], &group["interval"]);
                ready.push(json!({"name": name, "interval": every, "rules": rules}));
            }
        }
        assert!(!names.is_empty(), "rules that read each other: {left:?}");
        // The same name every time: the moment of a group's evaluation goes by it.
        std::fs::write(path.join("rules.yml"), json!({"groups": ready}).to_string()).unwrap();
        let server = server(path);
        let [start, end] = [first, last + 59].map(|second| second.to_string());
        let url = format!("--url=http://{}", server.address);
        let span = [format!("--start={start}"), format!("--end={end}")];
        fill(path, &["rules", &span[0], &span[1], &url, "--output-dir=data", "rules.yml"]);
        left.retain(|name| !names.contains(name));
    }
}

/// At every minute at which the evaluator is sure within one evaluation to either side, Prometheus
/// says the same. `first` is the minute of the record's first entry.
pub(super) fn compare(record: &Record, first: i64, found: &Firing) {
    let (mut compared, mut all, mut wrong) = (0, 0, Vec::new());
    let mut fired = BTreeSet::new();
    for key in record[0].keys() {
        let (rule, service) = key;
        let margin = usize::try_from(Rule::named(rule).unwrap().every).unwrap();
        for at in 1..record.len() {
            let fires = |at: usize| record[at][key] == "firing";
            all += 1;
            let mut around = at.saturating_sub(margin)..(at + margin + 1).min(record.len());
            if around.any(|other| fires(other) != fires(at)) {
                continue;
            }
            compared += 1;
            let minute = first + i64::try_from(at).unwrap();
            let there = found.get(key).is_some_and(|minutes| minutes.contains(&minute));
            fired.extend(there.then_some(rule));
            if there != fires(at) {
                wrong.push(format!("{rule} of {service:?} at {at}: {there}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared * 100 > all * 95, "{compared} of {all}");
    // What never fires on either side would agree as well.
    let rules: BTreeSet<&String> = record[0].keys().map(|(rule, _)| rule).collect();
    assert_eq!(fired, rules);
}
