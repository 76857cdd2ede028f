//! HAProxy: the termination state, and the server's own status where `http-response` handed it on.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{LimitType, Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#haproxy";
static LG_HA_1: Rule = Rule::new("LG-HA-1", SOURCE);
static LG_HA_2: Rule = Rule::new("LG-HA-2", SOURCE);
static LG_HA_3: Rule = Rule::new("LG-HA-3", SOURCE);
static LG_HA_4: Rule = Rule::new("LG-HA-4", SOURCE);
static LG_HA_5: Rule = Rule::new("LG-HA-5", SOURCE);

const SHOWN: [&str; 5] = ["term_state", "server", "upstream_status", "limiter", "t_connect_ms"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let state: String = line.value("term_state").unwrap_or_default().chars().take(2).collect();
    let upstream_status = line.code("upstream_status");
    let has_server = line.value("server").is_some_and(|server| server != "<NOSRV>");
    let retries = line.value("retries");
    // The last try went to another server; what those before it came to isn't logged.
    let was_redispatched = retries.is_some_and(|text| text.starts_with('+'));
    // Below 0: the last try made no connection.
    let contacted = match line.number("t_connect_ms") {
        Some(ms) if ms >= 0.0 => Tri::Yes,
        Some(_) if was_redispatched => Tri::Unknown,
        Some(_) => Tri::No,
        None if line.logs("server") && !has_server => Tri::No,
        None => Tri::Unknown,
    };
    let retries = retries.and_then(|text| text.trim_start_matches('+').parse::<u32>().ok());
    let tries = retries.map(|n| n.saturating_add(u32::from(has_server || n > 0)));
    let seen = line.quote(&SHOWN);
    let finding = match state.as_str() {
        _ if upstream_status.is_some() => {
            // `LH` and `PH`: HAProxy replaced the page or the status of a server's answer.
            let rule = if matches!(state.as_str(), "LH" | "PH") { &LG_HA_3 } else { &LG_HA_4 };
            Finding::upstream(rule, seen).status(upstream_status)
        }
        "sQ" => Finding::refused(&LG_HA_2, LimitType::Concurrency, 0.99, seen),
        "PR" | "PT" | "LR" => {
            Finding::itself(&LG_HA_1, contacted, seen).limit(line.value("limiter").map(by_name))
        }
        // A log without the server's status tells by its state alone.
        "LH" | "PH" if !line.logs("upstream_status") && has_server => {
            Finding::upstream(&LG_HA_3, seen).replaced()
        }
        // The server's answer had begun when somebody went away.
        "--" | "CD" | "cD" | "SD" | "sD" if !line.logs("upstream_status") && has_server => {
            Finding::upstream(&LG_HA_4, seen)
        }
        "" if !line.logs("upstream_status") => return None,
        _ => Finding::itself(&LG_HA_5, contacted, seen),
    };
    Some(finding.tries(tries))
}
