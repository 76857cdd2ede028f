//! Dashboards for Grafana, in the classic model, which every version imports. The data source is a
//! variable, so that a file works wherever it is put.

use crate::domain::alerts::{AlertSettings, Rule, Threshold, Watch};
use serde_json::{Value, json};

/// The model's number. Grafana brings older ones up to its own.
const SCHEMA_VERSION: u32 = 42;

/// UID and name of each dashboard: `retrylens-overview` and so on.
pub const NAMES: [&str; 3] = ["retrylens-overview", "retrylens-service", "retrylens-self"];

/// How a panel draws.
#[derive(Clone, Copy)]
enum Draw {
    Lines,
    Stacked,
    Number,
    Table,
}

struct Panel {
    id: u32,
    title: &'static str,
    description: &'static str,
    /// Grafana's word for the unit.
    unit: &'static str,
    draw: Draw,
    /// Columns of 24.
    width: u32,
    /// Query and legend.
    targets: Vec<(String, &'static str)>,
    /// Value from which it is drawn red.
    red_from: Option<f64>,
}

/// One dashboard as JSON; `None` where there is none of that name. Links begin with `base`.
pub fn dashboard(name: &str, settings: &AlertSettings, base: &str) -> Option<String> {
    let made = match name {
        "retrylens-overview" => overview(settings, base),
        "retrylens-service" => service(settings, base),
        "retrylens-self" => own(settings, base),
        _ => return None,
    };
    Some(super::json(&made))
}

/// The panel that shows what a rule watches: the dashboard's UID and the panel's id.
pub(super) fn panel_of(rule: &Rule) -> (&'static str, u32) {
    match (rule.watch, rule.slug) {
        (Watch::Silence | Watch::Absence, _) => ("retrylens-self", 1),
        (_, "retries-outgrow-requests" | "retry-budget-exceeded") => ("retrylens-service", 3),
        (_, "429-spike" | "429-budget-burn" | "429-budget-burn-slow") => ("retrylens-service", 4),
        (_, "limited-spike" | "limited-budget-burn" | "limited-budget-burn-slow") => {
            ("retrylens-service", 5)
        }
        (_, "retries-useless") => ("retrylens-service", 8),
        (_, "layers-multiply") => ("retrylens-service", 9),
        (_, "retry-after-ignored") => ("retrylens-service", 10),
        (_, "duplicate-writes") => ("retrylens-service", 11),
        (_, "wait-accumulates") => ("retrylens-service", 12),
        // The hidden degradation, which compares the two.
        _ => ("retrylens-service", 7),
    }
}

const RATE: &str = "$__rate_interval";

/// `sum by (by) (rate(counter{labels}[…]))`.
fn rate(counter: &str, labels: &str, by: &str) -> String {
    format!("sum by ({by}) (rate({counter}{{{labels}}}[{RATE}]))")
}

fn quantile(q: &str, histogram: &str, labels: &str) -> String {
    format!("histogram_quantile({q}, sum by (le) (rate({histogram}_bucket{{{labels}}}[{RATE}])))")
}

/// A threshold as Grafana draws it: the one place where it becomes a float.
fn line_at(settings: &AlertSettings, threshold: Threshold) -> Option<f64> {
    settings.base().get(threshold).to_string().parse().ok()
}

fn overview(settings: &AlertSettings, base: &str) -> Value {
    let of = r#"service=~"$service""#;
    let pair = "service, upstream";
    let per_pair = "{{service}} to {{upstream}}";
    let share =
        |part: &str, whole: &str| format!("{} / {}", rate(part, of, pair), rate(whole, of, pair));
    let panels = vec![
        Panel {
            id: 1,
            title: "Alerts firing",
            description: "Alerts of retrylens that fire now, whoever evaluates them.",
            unit: "none",
            draw: Draw::Number,
            width: 4,
            targets: vec![(
                r#"count(ALERTS{alertname=~"Retrylens.*",alertstate="firing"}) or vector(0)"#
                    .to_owned(),
                "firing",
            )],
            red_from: Some(1.0),
        },
        Panel {
            id: 2,
            title: "Requests a second",
            description: "First attempts of all chosen services: what callers wanted.",
            unit: "reqps",
            draw: Draw::Number,
            width: 5,
            targets: vec![(
                format!("sum(rate(retrylens_requests_total{{{of}}}[{RATE}]))"),
                "requests",
            )],
            red_from: None,
        },
        Panel {
            id: 3,
            title: "Retries a second",
            description: "Attempts after the first one, on top of the requests.",
            unit: "reqps",
            draw: Draw::Number,
            width: 5,
            targets: vec![(
                format!("sum(rate(retrylens_retries_total{{{of}}}[{RATE}]))"),
                "retries",
            )],
            red_from: None,
        },
        Panel {
            id: 4,
            title: "Time since the last event",
            description: "Without events every number here is blind.",
            unit: "s",
            draw: Draw::Number,
            width: 5,
            targets: vec![(
                "time() - max(retrylens_last_event_timestamp_seconds)".to_owned(),
                "last event",
            )],
            red_from: line_at(settings, Threshold::StalledSeconds),
        },
        Panel {
            id: 5,
            title: "Values folded into other",
            description: "Events of the last hour counted under the name other, since there were too many services or upstreams.",
            unit: "short",
            draw: Draw::Number,
            width: 5,
            targets: vec![(
                "sum(increase(retrylens_label_overflow_total[1h])) or vector(0)".to_owned(),
                "events",
            )],
            red_from: Some(1.0),
        },
        Panel {
            id: 6,
            title: "Share of attempts answered 429",
            description: "429s of all attempts, answered or not, for each pair of service and upstream.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                share("retrylens_rate_limited_total", "retrylens_attempts_total"),
                per_pair,
            )],
            red_from: line_at(settings, Threshold::SpikeShareShort),
        },
        Panel {
            id: 7,
            title: "Retries per request",
            description: "Retries of each pair in relation to its first attempts. Above 100% most of the load is retries.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(share("retrylens_retries_total", "retrylens_requests_total"), per_pair)],
            red_from: line_at(settings, Threshold::RetryShareShort),
        },
        Panel {
            id: 8,
            title: "429 answers a second, by who answered",
            description: "The component that wrote the 429, as far as the evidence tells.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_rate_limited_total", of, "source"), "{{source}}")],
            red_from: None,
        },
        Panel {
            id: 9,
            title: "429 answers a second, by kind of limit",
            description: "A rate limit passes by waiting, a quota by its reset, a security rule not at all.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_limit_kinds_total", of, "kind"), "{{kind}}")],
            red_from: None,
        },
        Panel {
            id: 10,
            title: "Pairs now",
            description: "Retries per request and share of 429 over five minutes. The service's name leads to its triage.",
            unit: "percentunit",
            draw: Draw::Table,
            width: 24,
            targets: vec![
                (
                    format!(
                        "topk(20, sum by ({pair}) (increase(retrylens_retries_total{{{of}}}[5m])) / sum by ({pair}) (increase(retrylens_requests_total{{{of}}}[5m])))"
                    ),
                    "retries per request",
                ),
                (
                    format!(
                        "topk(20, sum by ({pair}) (increase(retrylens_rate_limited_total{{{of}}}[5m])) / sum by ({pair}) (increase(retrylens_attempts_total{{{of}}}[5m])))"
                    ),
                    "share of 429",
                ),
            ],
            red_from: None,
        },
    ];
    let services =
        variable("service", "Service", "label_values(retrylens_requests_total, service)", true);
    let links = vec![link("Open retrylens", &format!("{base}/"))];
    frame("retrylens-overview", "retrylens: fleet", &panels, vec![services], links, base)
}

fn service(settings: &AlertSettings, base: &str) -> Value {
    let of = r#"service="$service",upstream=~"$upstream""#;
    let of_service = r#"service="$service""#;
    let of_upstream = r#"upstream=~"$upstream""#;
    let total = |counter: &str, labels: &str| format!("sum(rate({counter}{{{labels}}}[{RATE}]))");
    let share = |part: &str, whole: &str| {
        let both = "upstream";
        format!("{} / {}", rate(part, of, both), rate(whole, of, both))
    };
    let ended_well = format!(r#"{of},result=~"first[-_]try|after[-_]retry""#);
    let panels = vec![
        Panel {
            id: 1,
            title: "Requests and retries a second",
            description: "First attempts, and what retries add to them.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![
                (total("retrylens_requests_total", of), "requests"),
                (rate("retrylens_retries_total", of, "layer"), "retries by {{layer}}"),
            ],
            red_from: None,
        },
        Panel {
            id: 2,
            title: "Attempts a second, by outcome",
            description: "What became of each attempt; 4xx is without 429.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_attempts_total", of, "outcome"), "{{outcome}}")],
            red_from: None,
        },
        Panel {
            id: 3,
            title: "Retries per request",
            description: "The red line is the budget of five minutes, alert_retry_share_5m.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                share("retrylens_retries_total", "retrylens_requests_total"),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::RetryShareShort),
        },
        Panel {
            id: 4,
            title: "Share of attempts answered 429",
            description: "429s of all attempts, answered or not. The red line is alert_spike_share_5m.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                share("retrylens_rate_limited_total", "retrylens_attempts_total"),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::SpikeShareShort),
        },
        Panel {
            id: 5,
            title: "Share of attempts refused by a limit",
            description: "Refusals whatever the status: some servers answer 503 at their limit.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                share("retrylens_limited_total", "retrylens_attempts_total"),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::SpikeShareShort),
        },
        Panel {
            id: 6,
            title: "429 answers a second, by who answered",
            description: "The component that wrote the 429, as far as the evidence tells.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_rate_limited_total", of, "source"), "{{source}}")],
            red_from: None,
        },
        Panel {
            id: 7,
            title: "Success by request and by attempt",
            description: "Where requests do well and attempts do not, retries hide a degraded dependency.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![
                (
                    format!(
                        "{} / {}",
                        total("retrylens_requests_finished_total", &ended_well),
                        total("retrylens_requests_total", of)
                    ),
                    "requests (effective)",
                ),
                (
                    format!(
                        "{} / {}",
                        total("retrylens_requests_finished_total", &ended_well),
                        total("retrylens_attempts_total", of)
                    ),
                    "attempts (actual)",
                ),
            ],
            red_from: None,
        },
        Panel {
            id: 8,
            title: "Requests that ended, by how",
            description: "Many exhausted and few after-retry: the retries do not help.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_requests_finished_total", of, "result"), "{{result}}")],
            red_from: None,
        },
        Panel {
            id: 9,
            title: "Attempts per request",
            description: "On average, over both. The red line is alert_layers_attempts.",
            unit: "short",
            draw: Draw::Lines,
            width: 8,
            targets: vec![(
                share("retrylens_attempts_total", "retrylens_requests_total"),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::LayersAttempts),
        },
        Panel {
            id: 10,
            title: "Retries sent too early",
            description: "Share of the retries that came before Retry-After had passed.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 8,
            targets: vec![(
                share("retrylens_early_retries_total", "retrylens_retries_total"),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::EarlyShare),
        },
        Panel {
            id: 11,
            title: "Suspected duplicate writes",
            description: "Writes of the last 15 minutes that may have been done twice.",
            unit: "short",
            draw: Draw::Lines,
            width: 8,
            targets: vec![(
                format!(
                    "sum by (upstream) (increase(retrylens_duplicate_writes_total{{{of}}}[15m]))"
                ),
                "{{upstream}}",
            )],
            red_from: line_at(settings, Threshold::DuplicateWrites),
        },
        Panel {
            id: 12,
            title: "How long requests take, waits included",
            description: "From the first attempt to the end. The red line is alert_wait_s, within which alert_wait_share of the requests should end.",
            unit: "s",
            draw: Draw::Lines,
            width: 12,
            targets: vec![
                (quantile("0.5", "retrylens_request_duration_seconds", of), "p50"),
                (quantile("0.95", "retrylens_request_duration_seconds", of), "p95"),
            ],
            red_from: line_at(settings, Threshold::WaitSeconds),
        },
        Panel {
            id: 13,
            title: "Waits: promised and chosen",
            description: "What Retry-After of the upstream promised beside what this service waited before a retry.",
            unit: "s",
            draw: Draw::Lines,
            width: 12,
            targets: vec![
                (quantile("0.5", "retrylens_retry_after_seconds", of_upstream), "promised, p50"),
                (quantile("0.95", "retrylens_retry_after_seconds", of_upstream), "promised, p95"),
                (quantile("0.5", "retrylens_retry_delay_seconds", of_service), "chosen, p50"),
                (quantile("0.95", "retrylens_retry_delay_seconds", of_service), "chosen, p95"),
            ],
            red_from: None,
        },
        Panel {
            id: 14,
            title: "Share of the busiest key in the 429s",
            description: "Near 100%: one key is limited. Low: the limit is about something all share.",
            unit: "percentunit",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                format!("max by (upstream) (retrylens_key_concentration_ratio{{{of}}})"),
                "{{upstream}}",
            )],
            red_from: None,
        },
        Panel {
            id: 15,
            title: "Retry-After headers a second, by form",
            description: "absent and invalid leave clients guessing; repeated means two hops disagree.",
            unit: "reqps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(
                rate("retrylens_retry_after_headers_total", of_upstream, "form"),
                "{{form}}",
            )],
            red_from: None,
        },
    ];
    let variables = vec![
        variable("service", "Service", "label_values(retrylens_requests_total, service)", false),
        variable(
            "upstream",
            "Upstream",
            "label_values(retrylens_requests_total{service=\"$service\"}, upstream)",
            true,
        ),
    ];
    let links = vec![
        link(
            "Triage of this service",
            &format!("{base}/triage?service=${{service:percentencode}}&{TIMES}"),
        ),
        link("Report card", &format!("{base}/services/${{service:percentencode}}?{TIMES}")),
    ];
    frame("retrylens-service", "retrylens: one service", &panels, variables, links, base)
}

fn own(settings: &AlertSettings, base: &str) -> Value {
    let panels = vec![
        Panel {
            id: 1,
            title: "Time since the last event",
            description: "The red line is alert_stalled_s. Without events every alert is blind.",
            unit: "s",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                "time() - max(retrylens_last_event_timestamp_seconds)".to_owned(),
                "last event",
            )],
            red_from: line_at(settings, Threshold::StalledSeconds),
        },
        Panel {
            id: 2,
            title: "Events a second, by what became of them",
            description: "Rejected ones name their field in the answer to the sender; late ones are older than what is kept.",
            unit: "eps",
            draw: Draw::Stacked,
            width: 12,
            targets: vec![(rate("retrylens_ingest_events_total", "", "result"), "{{result}}")],
            red_from: None,
        },
        Panel {
            id: 3,
            title: "Lag of events",
            description: "From the answer to an attempt until its event was stored.",
            unit: "s",
            draw: Draw::Lines,
            width: 12,
            targets: vec![
                (quantile("0.5", "retrylens_ingest_lag_seconds", ""), "p50"),
                (quantile("0.95", "retrylens_ingest_lag_seconds", ""), "p95"),
            ],
            red_from: None,
        },
        Panel {
            id: 4,
            title: "Operations that the database failed",
            description: "By operation; each is tried again or answered with an error.",
            unit: "ops",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(rate("retrylens_store_errors_total", "", "operation"), "{{operation}}")],
            red_from: None,
        },
        Panel {
            id: 5,
            title: "Evaluations of built-in alerts a second",
            description: "By result. It stops on replicas that do not lead.",
            unit: "ops",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(rate("retrylens_alert_evaluations_total", "", "result"), "{{result}}")],
            red_from: None,
        },
        Panel {
            id: 6,
            title: "Notifications a second",
            description: "By receiver and result; each try counts.",
            unit: "ops",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                rate("retrylens_notifications_total", "", "receiver, result"),
                "{{receiver}}: {{result}}",
            )],
            red_from: None,
        },
        Panel {
            id: 10,
            title: "Receivers that are gone",
            description: "1 for a receiver that answered 410 Gone (nothing is sent to it until its url is put right or retrylens starts anew) or asked to wait for more than another hour.",
            unit: "short",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                "max by (receiver) (retrylens_receiver_gone)".to_owned(),
                "{{receiver}}",
            )],
            red_from: Some(1.0),
        },
        Panel {
            id: 7,
            title: "Values folded into other a second",
            description: "Events counted under the name other, since there were too many values of a label.",
            unit: "eps",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(rate("retrylens_label_overflow_total", "", "label"), "{{label}}")],
            red_from: None,
        },
        Panel {
            id: 8,
            title: "Series",
            description: "Series of retrylens that Prometheus holds; a process shows at most 10,000.",
            unit: "short",
            draw: Draw::Lines,
            width: 12,
            targets: vec![(
                r#"count by (instance) ({__name__=~"retrylens_.+"})"#.to_owned(),
                "{{instance}}",
            )],
            red_from: Some(10_000.0),
        },
        Panel {
            id: 9,
            title: "Build",
            description: "Versions that run now.",
            unit: "short",
            draw: Draw::Table,
            width: 12,
            targets: vec![(
                "count by (version, revision) (retrylens_build_info)".to_owned(),
                "processes",
            )],
            red_from: None,
        },
    ];
    let links = vec![link("Open retrylens", &format!("{base}/"))];
    frame("retrylens-self", "retrylens: itself", &panels, Vec::new(), links, base)
}

/// The time range of the dashboard, as addresses of retrylens name it; counters go by receipt.
const TIMES: &str = "from=${__from:date:iso}&to=${__to:date:iso}&time=received";

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn link(title: &str, url: &str) -> Value {
    json!({
        "title": title, "type": "link", "url": url, "icon": "external link", "tooltip": "",
        "tags": [], "asDropdown": false, "targetBlank": true, "includeVars": false,
        "keepTime": false,
    })
}

fn variable(name: &str, label: &str, query: &str, has_all: bool) -> Value {
    let mut made = json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "hide": 0,
        "multi": has_all, "includeAll": has_all,
    });
    if has_all {
        made["allValue"] = json!(".*");
    }
    made
}

fn frame(
    uid: &str,
    title: &str,
    panels: &[Panel],
    variables: Vec<Value>,
    mut links: Vec<Value>,
    base: &str,
) -> Value {
    let choice = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "refresh": 1, "hide": 0, "multi": false, "includeAll": false,
    });
    let has_service = variables.iter().any(|variable| variable["name"] == "service");
    let scope = if has_service { ",service=~\"$service\"" } else { "" };
    links.push(json!({
        "title": "retrylens dashboards", "type": "dashboards", "url": "", "icon": "dashboard",
        "tooltip": "", "tags": ["retrylens"], "asDropdown": true, "targetBlank": false,
        "includeVars": true, "keepTime": true,
    }));
    let all_variables: Vec<Value> = std::iter::once(choice).chain(variables).collect();
    json!({
        "uid": uid,
        "title": title,
        "tags": ["retrylens"],
        "timezone": "utc",
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-3h", "to": "now"},
        "links": links,
        "templating": {"list": all_variables},
        "annotations": {"list": [{
            "name": "Alerts",
            "enable": true,
            "hide": false,
            "iconColor": "red",
            "datasource": source(),
            "expr": format!("ALERTS{{alertname=~\"Retrylens.*\",alertstate=\"firing\"{scope}}}"),
            "titleFormat": "{{alertname}}",
            "textFormat": "{{service}} to {{upstream}}",
        }]},
        "panels": placed(panels, base),
    })
}

/// Panels in rows of 24 columns, in their order.
fn placed(panels: &[Panel], base: &str) -> Vec<Value> {
    let (mut x, mut y, mut tallest) = (0, 0, 0);
    let mut all = Vec::new();
    for panel in panels {
        let height = if matches!(panel.draw, Draw::Number) { 4 } else { 8 };
        if x + panel.width > 24 {
            (x, y, tallest) = (0, y + tallest, 0);
        }
        all.push(drawn(panel, &json!({"h": height, "w": panel.width, "x": x, "y": y}), base));
        x += panel.width;
        tallest = tallest.max(height);
    }
    all
}

fn drawn(panel: &Panel, place: &Value, base: &str) -> Value {
    let mut defaults = json!({"unit": panel.unit, "min": 0});
    if let Some(red_from) = panel.red_from {
        defaults["thresholds"] = json!({"mode": "absolute", "steps": [
            {"color": "green", "value": null}, {"color": "red", "value": red_from},
        ]});
    }
    let tooltip = json!({"mode": "multi", "sort": "desc"});
    let legend = json!({"showLegend": true, "displayMode": "table", "placement": "bottom",
        "calcs": ["lastNotNull", "max"]});
    let (kind, options) = match panel.draw {
        Draw::Lines | Draw::Stacked => {
            let stacking = if matches!(panel.draw, Draw::Stacked) { "normal" } else { "none" };
            let fill = if stacking == "normal" { 40 } else { 0 };
            let line = if panel.red_from.is_some() { "line" } else { "off" };
            defaults["custom"] = json!({
                "fillOpacity": fill, "showPoints": "never",
                "stacking": {"mode": stacking, "group": "A"}, "thresholdsStyle": {"mode": line},
            });
            ("timeseries", json!({"legend": legend, "tooltip": tooltip}))
        }
        Draw::Number => (
            "stat",
            json!({"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "colorMode": "value", "graphMode": "area"}),
        ),
        Draw::Table => ("table", json!({"showHeader": true})),
    };
    let is_instant = matches!(panel.draw, Draw::Table);
    let letters = ["A", "B", "C", "D"];
    let targets = panel.targets.iter().zip(letters).map(|((expr, legend), ref_id)| {
        let mut target = json!({
            "refId": ref_id, "datasource": source(), "editorMode": "code", "expr": expr,
            "legendFormat": legend, "range": !is_instant, "instant": is_instant,
        });
        if is_instant {
            target["format"] = json!("table");
        } else if matches!(panel.draw, Draw::Lines | Draw::Stacked) {
            target["exemplar"] = json!(true);
        }
        target
    });
    let mut made = json!({
        "id": panel.id, "type": kind, "title": panel.title, "description": panel.description,
        "gridPos": place, "datasource": source(),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": targets.collect::<Vec<_>>(),
    });
    if is_instant {
        as_table(&mut made, panel, base);
    }
    made
}

/// Joins the queries of a table into rows, names the columns, and leads from a service to its triage.
fn as_table(made: &mut Value, panel: &Panel, base: &str) {
    let names = panel.targets.iter().zip(["A", "B", "C", "D"]);
    let several = panel.targets.len() > 1;
    let columns = names.map(|((_, title), ref_id)| {
        let column = if several { format!("Value #{ref_id}") } else { "Value".to_owned() };
        (column, json!(title))
    });
    let renamed: serde_json::Map<String, Value> = columns.collect();
    made["transformations"] = json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": true}, "renameByName": renamed}},
    ]);
    if several {
        let triage = format!(
            "{base}/triage?service=${{__data.fields.service:percentencode}}&upstream=${{__data.fields.upstream:percentencode}}&{TIMES}"
        );
        made["fieldConfig"]["overrides"] = json!([{
            "matcher": {"id": "byName", "options": "service"},
            "properties": [{"id": "links", "value": [
                {"title": "Triage", "url": triage, "targetBlank": true},
            ]}],
        }]);
    }
}
