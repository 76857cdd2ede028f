//! The rules for Grafana: as a file to provision, and as the provisioning API takes them. Keys
//! differ between the two; what they say is the same.
//!
//! A rule is three nodes: the query, which returns a series for each pair it is true of; whether
//! there is one; and the threshold. That is what Grafana itself makes of an imported Prometheus
//! rule, and an expression that already compares returns nothing while all is well, which is why no
//! data means OK.

use super::annotation::{self, Annotations, Dialect};
use super::dashboards;
use super::prometheus::{groups, minutes};
use super::promql::{Source, expression, reach_seconds};
use crate::domain::alerts::{AlertSettings, Rule};
use serde::Serialize;
use serde_json::{Value, json};

const HEAD: &str = "\
# Alert rules of retrylens, written by `retrylens export rules --format grafana`.
# Put it into provisioning/alerting/. Rules from files can't be edited in Grafana; the form
# `grafana-api` makes rules that can. `keepFiringFor` and `missing_series_evals_to_resolve` are read
# from 12.1.2 on. A rule taken out of this file stays in Grafana until it is deleted there.
";

/// Title and UID of the folder, and prefix of every UID.
pub const FOLDER: &str = "retrylens";

/// How to reach the counters and the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// Address of retrylens, without a slash at its end.
    pub base: String,
    /// UID of the Prometheus data source in Grafana.
    pub datasource: String,
}

/// Most characters of a UID: beyond it Grafana refuses the file and does not start.
const LONGEST_UID: usize = 40;

/// Whether Grafana takes `text` as a UID.
pub fn is_uid(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().count() <= LONGEST_UID && text.chars().all(plain)
}

/// A rule's UID. It never changes, so that a rule exported again is the same rule.
pub fn uid(rule: &Rule) -> String {
    format!("{FOLDER}-{}", rule.slug)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    api_version: u8,
    groups: Vec<FileGroup>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileGroup {
    org_id: u8,
    name: &'static str,
    folder: &'static str,
    interval: String,
    rules: Vec<FileRule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileRule {
    uid: String,
    title: &'static str,
    condition: &'static str,
    #[serde(rename = "for")]
    hold: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_firing_for: Option<String>,
    no_data_state: &'static str,
    exec_err_state: &'static str,
    #[serde(rename = "missing_series_evals_to_resolve")]
    missing_series_evals_to_resolve: u8,
    is_paused: bool,
    dashboard_uid: &'static str,
    panel_id: u32,
    labels: Labels,
    annotations: Annotations,
    data: Vec<Node>,
}

#[derive(Serialize)]
struct Labels {
    severity: &'static str,
}

/// A group as `PUT /api/v1/provisioning/folder/{folderUid}/rule-groups/{title}` takes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup {
    /// Its name.
    pub title: &'static str,
    /// UID of the folder, which must be there.
    pub folder_uid: &'static str,
    /// Seconds from one evaluation to the next.
    pub interval: u32,
    /// Its rules, as `POST /api/v1/provisioning/alert-rules` takes them.
    pub rules: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    ref_id: &'static str,
    datasource_uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_time_range: Option<Range>,
    model: Model,
}

/// Seconds before now.
#[derive(Serialize)]
struct Range {
    from: u32,
    to: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    ref_id: &'static str,
    datasource: DataSource,
    #[serde(flatten)]
    what: What,
}

#[derive(Serialize)]
struct DataSource {
    r#type: &'static str,
    uid: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What {
    #[serde(rename_all = "camelCase")]
    Query {
        editor_mode: &'static str,
        instant: bool,
        range: bool,
        expr: String,
    },
    Math {
        r#type: &'static str,
        expression: &'static str,
    },
    Threshold {
        r#type: &'static str,
        expression: &'static str,
        conditions: [Over; 1],
    },
}

#[derive(Serialize)]
struct Over {
    evaluator: Evaluator,
}

#[derive(Serialize)]
struct Evaluator {
    r#type: &'static str,
    params: [u8; 1],
}

fn nodes(rule: &Rule, settings: &AlertSettings, links: &Links) -> Vec<Node> {
    let expr = expression(rule, settings, Source::Inline);
    let own = |ref_id, what| Node {
        ref_id,
        datasource_uid: "__expr__".to_owned(),
        relative_time_range: None,
        model: Model {
            ref_id,
            datasource: DataSource { r#type: "__expr__", uid: "__expr__".to_owned() },
            what,
        },
    };
    let query = Node {
        ref_id: "query",
        datasource_uid: links.datasource.clone(),
        relative_time_range: Some(Range { from: reach_seconds(rule), to: 0 }),
        model: Model {
            ref_id: "query",
            datasource: DataSource { r#type: "prometheus", uid: links.datasource.clone() },
            what: What::Query { editor_mode: "code", instant: true, range: false, expr },
        },
    };
    let present = "is_number($query) || is_nan($query) || is_inf($query)";
    let over = Over { evaluator: Evaluator { r#type: "gt", params: [0] } };
    vec![
        query,
        own("present", What::Math { r#type: "math", expression: present }),
        own(
            "firing",
            What::Threshold { r#type: "threshold", expression: "present", conditions: [over] },
        ),
    ]
}

fn file_rule(rule: &'static Rule, settings: &AlertSettings, links: &Links) -> FileRule {
    let (dashboard_uid, panel_id) = dashboards::panel_of(rule);
    FileRule {
        uid: uid(rule),
        title: rule.name,
        condition: "firing",
        hold: minutes(rule.hold).unwrap_or_else(|| "0s".to_owned()),
        keep_firing_for: minutes(rule.keep),
        no_data_state: "OK",
        exec_err_state: "Error",
        missing_series_evals_to_resolve: 1,
        is_paused: false,
        dashboard_uid,
        panel_id,
        labels: Labels { severity: rule.severity.as_str() },
        annotations: annotation::of(rule, settings, &links.base, Dialect::Grafana),
        data: nodes(rule, settings, links),
    }
}

/// The rules as a file for `provisioning/alerting/`.
pub fn file(settings: &AlertSettings, links: &Links) -> String {
    let groups = groups().into_iter().map(|(name, rules)| FileGroup {
        org_id: 1,
        name,
        folder: FOLDER,
        interval: minutes(rules.first().map_or(1, |rule| rule.every)).unwrap_or_default(),
        rules: rules.into_iter().map(|rule| file_rule(rule, settings, links)).collect(),
    });
    super::yaml(HEAD, &File { api_version: 1, groups: groups.collect() })
}

/// The rules as the provisioning API takes them, a group each.
pub fn api_groups(settings: &AlertSettings, links: &Links) -> Vec<ApiGroup> {
    let groups = groups().into_iter().map(|(title, rules)| ApiGroup {
        title,
        folder_uid: FOLDER,
        interval: rules.first().map_or(1, |rule| rule.every) * 60,
        rules: rules.into_iter().map(|rule| api_rule(rule, title, settings, links)).collect(),
    });
    groups.collect()
}

fn api_rule(
    rule: &'static Rule,
    group: &'static str,
    settings: &AlertSettings,
    links: &Links,
) -> Value {
    let own = file_rule(rule, settings, links);
    let mut annotations = json!(own.annotations);
    // The API knows the panel by two annotations, both or neither.
    annotations["__dashboardUid__"] = json!(own.dashboard_uid);
    annotations["__panelId__"] = json!(own.panel_id.to_string());
    let mut value = json!({
        "uid": own.uid,
        "title": own.title,
        "ruleGroup": group,
        "folderUID": FOLDER,
        "orgID": 1,
        "condition": own.condition,
        "for": own.hold,
        "noDataState": own.no_data_state,
        "execErrState": own.exec_err_state,
        "missingSeriesEvalsToResolve": own.missing_series_evals_to_resolve,
        "isPaused": own.is_paused,
        "labels": own.labels,
        "annotations": annotations,
        "data": own.data,
    });
    if let Some(keep) = own.keep_firing_for {
        value["keep_firing_for"] = json!(keep);
    }
    value
}

/// The rules as the provisioning API takes them: a JSON array with an object for each group.
pub fn api(settings: &AlertSettings, links: &Links) -> String {
    super::json(&api_groups(settings, links))
}
