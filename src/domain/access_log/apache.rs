//! Apache httpd: the proxy's notes. `handler` is `proxy-server` even where a limiter refused.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{LimitType, Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#apache";
static LG_AP_1: Rule = Rule::new("LG-AP-1", SOURCE);
static LG_AP_2: Rule = Rule::new("LG-AP-2", SOURCE);
static LG_AP_3: Rule = Rule::new("LG-AP-3", SOURCE);
static LG_AP_4: Rule = Rule::new("LG-AP-4", SOURCE);

const SHOWN: [&str; 6] = [
    "upstream_status",
    "upstream_source_port",
    "qos_event",
    "qos_error",
    "limiter",
    "cache_status",
];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let is_asked =
        line.code("upstream_status").is_some() || line.value("upstream_source_port").is_some();
    if line.value("qos_event").is_some_and(|event| event.contains('D')) {
        // mod_qos numbers its refusals: 010, 011 and 03x count requests or connections at a time.
        let kind = match line.value("qos_error").unwrap_or_default() {
            error if error.starts_with("03") || matches!(error, "010" | "011") => {
                LimitType::Concurrency
            }
            _ => LimitType::Rate,
        };
        return Some(Finding::refused(&LG_AP_2, kind, 0.95, seen).beside(is_asked));
    }
    if let Some(name) = line.value("limiter") {
        let (kind, chance) = by_name(name);
        return Some(Finding::refused(&LG_AP_2, kind, chance, seen).beside(is_asked));
    }
    // A miss and a hit that had to be validated name the backend's answer.
    if line.value("cache_status").is_some_and(|status| status.starts_with("cache hit")) {
        return Some(Finding::cached(&LG_AP_4, seen));
    }
    let contacted = match line.get("upstream_source_port") {
        Some("") => Tri::No,
        Some(_) => Tri::Yes,
        None => Tri::Unknown,
    };
    let status = line.code("upstream_status");
    if status.is_some() {
        Some(Finding::upstream(&LG_AP_1, seen).status(status))
    } else if line.logs("upstream_status") {
        Some(Finding::itself(&LG_AP_3, contacted, seen))
    } else {
        None
    }
}
