//! Kong: the record of its logging plugins, which says by itself who answered.

use super::LogFacts;
use super::finding::Finding;
use crate::domain::classify::{LimitType, Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#kong";
static LG_KG_1: Rule = Rule::new("LG-KG-1", SOURCE);
static LG_KG_2: Rule = Rule::new("LG-KG-2", SOURCE);

const SHOWN: [&str; 4] = ["source", "upstream_status", "proxy_ms", "tries"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let tries = line.count("tries");
    let contacted = match line.number("proxy_ms") {
        Some(ms) if ms >= 0.0 => Tri::Yes,
        Some(_) => Tri::No,
        None => Tri::Unknown,
    };
    match line.value("source")? {
        "upstream" | "service" => {
            let status = line.value("upstream_status").and_then(|list| list.rsplit(',').next());
            Some(
                Finding::upstream(&LG_KG_2, seen).status(status.and_then(super::code)).tries(tries),
            )
        }
        "kong" | "exit" | "error" => {
            Some(Finding::itself(&LG_KG_1, contacted, seen).limit(window(line)).tries(tries))
        }
        _ => None,
    }
}

/// The window that Kong's limit headers name.
fn window(line: &LogFacts) -> Option<(LimitType, f64)> {
    if line.status != Some(429) {
        return None;
    }
    let windows = line.value("limit_windows").unwrap_or_default();
    if ["day", "month", "year"].iter().any(|unit| windows.contains(unit)) {
        // A plan that has both names both: which of them ran out is not said.
        let is_only = !["second", "minute", "hour"].iter().any(|unit| windows.contains(unit));
        return is_only.then_some((LimitType::Quota, 0.95));
    }
    (!windows.is_empty()).then_some((LimitType::Rate, 0.95))
}
