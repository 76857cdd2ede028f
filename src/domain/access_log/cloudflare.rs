//! Cloudflare's Logpush dataset `http_requests`.
//!
//! An origin status of 0 only says that no answer came from the origin: a hit, a Worker, a block
//! and a timeout alike. An empty `EdgeServerIP` says that nobody was asked.

use super::LogFacts;
use super::finding::{Finding, is_refused_otherwise};
use crate::domain::classify::{LimitType, Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#cloudflare-logpush";
static LG_CF_1: Rule = Rule::new("LG-CF-1", SOURCE);
static LG_CF_2: Rule = Rule::new("LG-CF-2", SOURCE);
static LG_CF_3: Rule = Rule::new("LG-CF-3", SOURCE);
static LG_CF_4: Rule = Rule::new("LG-CF-4", SOURCE);

const SHOWN: [&str; 5] =
    ["upstream_status", "edge_server_ip", "cache_status", "security_sources", "security_actions"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let status = line.code("upstream_status");
    let cache = line.value("cache_status").unwrap_or_default();
    if let (None, Some(limit)) = (status, blocked(line)) {
        return Some(Finding::refused(&LG_CF_2, limit, 0.95, seen));
    }
    if matches!(cache, "hit" | "stale" | "updating") {
        return Some(Finding::cached(&LG_CF_3, seen));
    }
    if is_refused_otherwise(line, status) {
        // The origin answered something else: what the client got was made at the edge.
        return Some(Finding::itself(&LG_CF_1, Tri::Yes, seen).weight(Weight::Strong));
    }
    if status.is_some() {
        let weight = if status == line.status { Weight::Proof } else { Weight::Strong };
        return Some(Finding::upstream(&LG_CF_1, seen).status(status).weight(weight));
    }
    line.get("upstream_status")?;
    let contacted = match line.get("edge_server_ip") {
        Some("") => Tri::No,
        _ => Tri::Unknown,
    };
    Some(Finding::itself(&LG_CF_4, contacted, seen).weight(Weight::Strong))
}

/// The kind of rule that refused: sources and actions are parallel lists.
fn blocked(line: &LogFacts) -> Option<LimitType> {
    const REFUSALS: [&str; 6] =
        ["block", "challenge", "jschallenge", "managedChallenge", "connectionClose", "drop"];
    let list = |name: &str| line.value(name).unwrap_or_default().split(',');
    let refused = list("security_sources")
        .zip(list("security_actions"))
        .filter(|(_, action)| {
            let action = action.trim();
            REFUSALS.iter().any(|word| word.eq_ignore_ascii_case(action))
        })
        .map(|(source, _)| source.trim())
        .last();
    match refused {
        Some(source) if source.eq_ignore_ascii_case("ratelimit") => Some(LimitType::Rate),
        Some(_) => Some(LimitType::Security),
        None => {
            let action = line.value("security_action").unwrap_or_default();
            let is_refusal = REFUSALS.iter().any(|word| word.eq_ignore_ascii_case(action));
            is_refusal.then_some(LimitType::Security)
        }
    }
}
