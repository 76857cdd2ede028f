//! The exported files: what stands in `dashboards/`, and whether Grafana would take it.

use super::minutes::settings;
use super::promtool;
use crate::support::process::run;
use retrylens::domain::alerts::{RULES, Threshold};
use retrylens::export::grafana::is_uid;
use retrylens::export::promql::{Source, expression};
use retrylens::export::{RuleFormat, grafana::Links};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn kept(name: &str) -> String {
    read(&top().join("dashboards").join(name))
}

/// Every file below `folder`, relative to it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|below| name.join(below)));
        } else {
            found.insert(name);
        }
    }
    found
}

#[test]
fn the_files_in_dashboards_are_what_the_default_settings_give() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new(top().join("scripts/write-dashboards"))
        .arg(folder.path())
        .env("RETRYLENS", env!("CARGO_BIN_EXE_retrylens"))
        .status()
        .unwrap();
    assert!(made.success());
    let there = top().join("dashboards");
    assert_eq!(files(&there), files(folder.path()), "`make dashboards` writes them anew");
    for name in files(folder.path()) {
        let same = read(&there.join(&name)) == read(&folder.path().join(&name));
        assert!(same, "{} is not what is exported; `make dashboards`", name.display());
    }
}

#[test]
fn promtool_takes_the_rule_file_without_a_complaint() {
    let rules = kept("prometheus/retrylens.rules.yml");
    let written = rules.matches("- alert: ").count() + rules.matches("- record: ").count();
    assert_eq!(promtool::check(&rules), written);
    assert_eq!(rules.matches("- alert: ").count(), RULES.len());
    for newer in ["query_offset", "limit:"] {
        assert!(!rules.contains(newer), "Prometheus 2.42 refuses a file with {newer}");
    }
    // The expressions for Grafana and those of dashboards are PromQL too.
    let settings = settings(&[]);
    let inline = RULES.iter().map(|rule| expression(rule, &settings, Source::Inline));
    let drawn = dashboards().into_iter().flat_map(|(_, dashboard)| queries(&dashboard));
    let records: Vec<Value> = inline
        .chain(drawn)
        .enumerate()
        .map(|(n, expr)| json!({"record": format!("level:expression:number{n}"), "expr": expr}))
        .collect();
    let count = records.len();
    assert!(count > 50, "{count}");
    let file = json!({"groups": [{"name": "all", "rules": records}]});
    assert_eq!(promtool::check(&file.to_string()), count);
}

#[test]
fn the_documented_rule_tells_of_a_receiver_that_is_gone_on_any_replica() {
    let docs = read(&top().join("docs/alerts.md"));
    let section = docs.split("\n## ").find(|part| part.starts_with("Receivers\n")).unwrap();
    let rule = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(promtool::check(rule), 1);
    let gone = |instance: &str, receiver: &str, values: &str| {
        let series =
            format!("retrylens_receiver_gone{{instance=\"{instance}\",receiver=\"{receiver}\"}}");
        json!({"series": series, "values": values})
    };
    let firing = |at: &str, receivers: &[&str]| {
        let samples: Vec<Value> = receivers
            .iter()
            .map(|receiver| json!({"labels": format!("{{receiver=\"{receiver}\"}}"), "value": 1}))
            .collect();
        let expr =
            "sum by (receiver) (ALERTS{alertname=\"RetrylensReceiverGone\",alertstate=\"firing\"})";
        json!({"expr": expr, "eval_time": at, "exp_samples": samples})
    };
    let test = json!({
        "interval": "1m",
        "input_series": [
            gone("one", "pager", "0x4 1x20 0x20"),
            gone("two", "pager", "0x40"),
            gone("one", "chat", "0x40"),
        ],
        "promql_expr_test": [
            firing("9m", &[]), firing("10m", &["pager"]), firing("25m", &["pager"]), firing("26m", &[]),
        ],
    });
    promtool::test(rule, &[test]).unwrap();
}

/// The three dashboards by name.
fn dashboards() -> Vec<(&'static str, Value)> {
    let names = retrylens::export::dashboards::NAMES;
    let read = |name| (name, serde_json::from_str(&kept(&format!("grafana/{name}.json"))).unwrap());
    names.into_iter().map(read).collect()
}

/// Every query of a dashboard, variables filled in.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let annotations = dashboard["annotations"]["list"].as_array().unwrap();
    let fill = |expr: &Value| {
        let expr = expr.as_str().unwrap().replace("$__rate_interval", "1m");
        expr.replace("$service", "checkout").replace("$upstream", "api.example.com")
    };
    targets.chain(annotations).map(|target| fill(&target["expr"])).collect()
}

/// The rules of the file form and of the API form, with the name of their group.
fn grafana_rules() -> [Vec<(String, Value)>; 2] {
    let file: Value = serde_saphyr::from_str(&kept("grafana/retrylens-alerts.yaml")).unwrap();
    let api: Value = serde_json::from_str(&kept("grafana/retrylens-alerts-api.json")).unwrap();
    assert_eq!(file["apiVersion"], 1);
    let of = |groups: &Value, name: &str| {
        let groups = groups.as_array().unwrap().iter();
        groups
            .flat_map(|group| {
                let rules = group["rules"].as_array().unwrap().iter();
                rules.map(|rule| (group[name].as_str().unwrap().to_owned(), rule.clone()))
            })
            .collect()
    };
    for group in file["groups"].as_array().unwrap() {
        assert!(["1m", "5m"].contains(&group["interval"].as_str().unwrap()), "{group}");
        assert!(!group["folder"].as_str().unwrap().contains('/'), "a slash makes a folder in it");
    }
    for group in api.as_array().unwrap() {
        // Grafana's base interval is ten seconds.
        assert_eq!(group["interval"].as_i64().unwrap() % 10, 0);
    }
    [of(&file["groups"], "name"), of(&api, "title")]
}

#[test]
fn grafana_would_take_every_rule() {
    let panels: Vec<(String, Vec<i64>)> = dashboards()
        .into_iter()
        .map(|(name, dashboard)| {
            let ids = dashboard["panels"].as_array().unwrap().iter();
            (name.to_owned(), ids.map(|panel| panel["id"].as_i64().unwrap()).collect())
        })
        .collect();
    let [file, api] = grafana_rules();
    assert_eq!(file.len(), RULES.len());
    for (form, rules) in [("file", &file), ("api", &api)] {
        let uids: BTreeSet<_> = rules.iter().map(|(_, rule)| rule["uid"].to_string()).collect();
        let titles: BTreeSet<_> = rules.iter().map(|(_, rule)| rule["title"].to_string()).collect();
        assert_eq!((uids.len(), titles.len()), (RULES.len(), RULES.len()), "{form}");
        for (_, rule) in rules {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            assert!(is_uid(&text(&rule["uid"])), "{rule}");
            assert_eq!(rule["noDataState"], "OK", "quiet pairs give no data");
            assert_eq!(rule["execErrState"], "Error");
            for (_, label) in rule["labels"].as_object().unwrap() {
                assert!(!text(label).contains('$'), "Grafana expands it away: {label}");
            }
            for (name, annotation) in rule["annotations"].as_object().unwrap() {
                assert!(!text(annotation).contains("${"), "{name}: {annotation}");
            }
            let description = text(&rule["annotations"]["description"]);
            assert!(!description.contains("$value "), "it is a text in Grafana: {description}");

            let data = rule["data"].as_array().unwrap();
            let ids: Vec<String> = data.iter().map(|node| text(&node["refId"])).collect();
            assert_eq!(ids, ["query", "present", "firing"]);
            assert_eq!(rule["condition"], "firing");
            for node in data {
                assert_eq!(node["refId"], node["model"]["refId"]);
                assert_eq!(node["datasourceUid"], node["model"]["datasource"]["uid"]);
            }
            let range = &data[0]["relativeTimeRange"];
            assert!(range["from"].as_i64() > range["to"].as_i64(), "{range}");
            assert_eq!(data[0]["model"]["instant"], true, "a range would need a reduce node");
            // Every expression refers to a node before it.
            assert!(text(&data[1]["model"]["expression"]).contains("$query"));
            assert_eq!(data[2]["model"]["expression"], "present");
            assert_eq!(data[2]["model"]["conditions"][0]["evaluator"]["params"], json!([0]));

            let (dashboard, panel) = if form == "file" {
                (text(&rule["dashboardUid"]), rule["panelId"].as_i64().unwrap())
            } else {
                let annotations = &rule["annotations"];
                let id = text(&annotations["__panelId__"]).parse().unwrap();
                (text(&annotations["__dashboardUid__"]), id)
            };
            let there = panels.iter().find(|(name, _)| *name == dashboard).unwrap();
            assert!(there.1.contains(&panel), "{dashboard} has no panel {panel}");
        }
    }
    // Both forms say the same under their own keys.
    for ((group, file), (own_group, api)) in file.iter().zip(&api) {
        assert_eq!(group, own_group);
        assert_eq!(api["ruleGroup"].as_str(), Some(group.as_str()));
        for (key, own) in [
            ("uid", "uid"),
            ("title", "title"),
            ("for", "for"),
            ("keepFiringFor", "keep_firing_for"),
            ("missing_series_evals_to_resolve", "missingSeriesEvalsToResolve"),
            ("labels", "labels"),
            ("data", "data"),
        ] {
            assert_eq!(file[key], api[own], "{key}");
        }
        for form in [file, api] {
            let keys: Vec<_> = form.as_object().unwrap().keys().collect();
            let wrong = if form == file { "keep_firing_for" } else { "keepFiringFor" };
            assert!(!keys.iter().any(|key| *key == wrong), "{keys:?}");
        }
    }
}

#[test]
fn uids_never_change() {
    let uids: Vec<String> = RULES.iter().map(retrylens::export::grafana::uid).collect();
    insta::assert_json_snapshot!("grafana_uids", uids);
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    for (name, dashboard) in dashboards() {
        assert_eq!(dashboard["uid"], name);
        assert!(is_uid(name));
        assert!(dashboard.get("id").is_none() && dashboard.get("__inputs").is_none());
        assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_i64().unwrap()), "{name}: {}", panel["id"]);
            let says = panel["description"].as_str().unwrap();
            assert!(says.len() > 20 && says.ends_with('.'), "{name}: {says}");
            assert!(!panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap().is_empty());
            let targets = panel["targets"].as_array().unwrap();
            let refs: BTreeSet<_> = targets.iter().map(|t| t["refId"].to_string()).collect();
            assert_eq!(refs.len(), targets.len());
            for part in targets.iter().chain([panel]) {
                assert_eq!(part["datasource"]["uid"], "${datasource}");
            }
        }
        let links = dashboard["links"].to_string() + &dashboard["panels"].to_string();
        if name != "retrylens-self" {
            assert!(links.contains("/triage?service=${"), "{name} leads to no triage");
        }
    }
}

#[test]
fn panels_overlap_nowhere() {
    for (name, dashboard) in dashboards() {
        let mut taken = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let at = |key: &str| panel["gridPos"][key].as_i64().unwrap();
            assert!(at("x") + at("w") <= 24, "{name}: {}", panel["title"]);
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{name}: {} at {x},{y}", panel["title"]);
                }
            }
        }
    }
}

#[test]
fn the_documentation_has_each_alert_and_each_threshold() {
    let docs = read(&top().join("docs/alerts.md"));
    for rule in RULES {
        let begin = format!("\n`{}` (", rule.name);
        let part = docs.split("\n## ").find(|part| part.contains(&begin)).unwrap_or_default();
        let heading = part.lines().next().unwrap_or_default().to_lowercase().replace(' ', "-");
        assert_eq!(heading, rule.slug, "the heading of {} makes its anchor", rule.name);
        for said in ["**Means**", "**Check first**", "**Do not**"] {
            assert!(part.contains(said), "{}: {said}", rule.name);
        }
        for number in ["\n1. ", "\n2. ", "\n3. "] {
            assert!(part.contains(number), "{}: three checks", rule.name);
        }
    }
    for threshold in Threshold::ALL {
        assert!(docs.contains(&format!("`{threshold}`")), "{threshold} is not explained");
    }
}

#[test]
fn an_alertmanager_takes_the_routing_of_the_documentation_and_knows_its_alerts() {
    let docs = read(&top().join("docs/alerts.md"));
    let blocks: Vec<&str> =
        docs.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let routing = blocks.iter().find(|block| block.starts_with("route:")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("alertmanager.yml"), routing).unwrap();
    let amtool = |arguments: &[&str]| {
        let output = std::process::Command::new("amtool")
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("amtool: {error}: `make packages` installs it"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    amtool(&["check-config", "alertmanager.yml"]);
    for (severity, receiver) in [("critical", "page"), ("warning", "default")] {
        let label = format!("severity={severity}");
        let routed =
            amtool(&["config", "routes", "test", "--config.file=alertmanager.yml", &label]);
        assert_eq!(routed.trim(), receiver);
    }
    let names: Vec<&str> = routing
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.starts_with("Retrylens"))
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names {
        assert!(RULES.iter().any(|rule| rule.name == name), "{name}");
    }
}

#[test]
fn the_documented_commands_write_their_files_into_an_empty_folder() {
    let docs = read(&top().join("docs/alerts.md"));
    let block = docs.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for line in block.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let output = run(folder.path(), &words[1..]);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        written.extend(words.iter().skip_while(|word| **word != "-o").nth(1).copied());
    }
    assert_eq!(written.len(), 3, "{block}");
    for path in written {
        assert!(folder.path().join(path).exists(), "{path}");
    }
}

#[test]
fn the_command_and_the_address_give_the_same_with_the_address_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let public = "https://lens.example.com";
    let server = crate::support::Process::serve(folder.path(), &["--public-url", public], &[]);
    for format in RuleFormat::ALL {
        let output = run(
            folder.path(),
            &["export", "rules", "--format", format.as_str(), "--public-url", public],
        );
        assert!(output.status.success() && output.stderr.is_empty());
        let printed = String::from_utf8(output.stdout).unwrap();
        let answer = server.get(&format!("/api/v1/export/rules?format={format}"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, printed, "{format}");
        assert!(head.contains(format.media_type()), "{head}");
        assert!(printed.contains("https://lens.example.com/docs/alerts#429-spike"));
        assert!(!printed.contains("127.0.0.1"), "{format}");
        let links = Links { base: public.to_owned(), datasource: "prometheus".to_owned() };
        assert_eq!(printed, format.write(&settings(&[]), &links));
    }
    let answer = server.get("/api/v1/export/rules?format=yaml");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("prometheus, grafana, grafana-api"), "{answer}");

    let output =
        run(folder.path(), &["export", "dashboards", "--public-url", public, "-o", "made"]);
    assert!(output.status.success());
    for name in retrylens::export::dashboards::NAMES {
        let written = read(&folder.path().join(format!("made/{name}.json")));
        let answer = server.get(&format!("/api/v1/export/dashboards/{name}"));
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, written);
        assert!(written.contains("https://lens.example.com/"));
    }
    let answer = server.get("/api/v1/export/dashboards/other");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");

    // Without an address of its own it says where links lead, on the error stream.
    let output =
        run(folder.path(), &["export", "rules", "--format", "grafana", "-o", "rules.yaml"]);
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("links lead to http://127.0.0.1:4290")
    );
    let named =
        run(folder.path(), &["export", "rules", "--format", "grafana", "--datasource-uid", "a b"]);
    assert_eq!(named.status.code(), Some(2));
}
