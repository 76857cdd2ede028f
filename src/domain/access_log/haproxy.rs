//! HAProxy: the termination state, and the server's own status where `http-response` handed it on.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{LimitType, Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#haproxy";
static LG_HA_1: Rule = Rule::new("LG-HA-1", SOURCE);
static LG_HA_2: Rule = Rule::new("LG-HA-2", SOURCE);
static LG_HA_3: Rule = Rule::new("LG-HA-3", SOURCE);
static LG_HA_4: Rule = Rule::new("LG-HA-4", SOURCE);
static LG_HA_5: Rule = Rule::new("LG-HA-5", SOURCE);
static LG_HA_6: Rule = Rule::new("LG-HA-6", SOURCE);

const SHOWN: [&str; 6] =
    ["term_state", "server", "upstream_status", "limiter", "t_connect_ms", "t_response_ms"];

/// Whether a state says that the server's answer was on its way to the client, to its end or until
/// somebody went away: the phases of data and of the last of them. `L` before it is an answer of
/// HAProxy's own.
fn is_passed_on(state: &str, line: &LogFacts) -> bool {
    let has_begun = line.number("t_response_ms").is_none_or(|ms| ms >= 0.0);
    state == "--" || has_begun && state.ends_with(['D', 'L']) && !state.starts_with('L')
}

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let state: String = line.value("term_state").unwrap_or_default().chars().take(2).collect();
    let upstream_status = line.code("upstream_status");
    // A name of a server has no such signs: `<NOSRV>`, or a part of HAProxy itself.
    let (parts, has_server) = match line.value("server") {
        Some(name) if name.starts_with('<') => (Some(name).filter(|n| *n != "<NOSRV>"), false),
        name => (None, name.is_some()),
    };
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
    // A status that is logged and empty says that nobody set it: the backend may lack that line of
    // the configuration. Both times, of the last try, say that a server was connected to and answered.
    let at_least_0 = |name: &str| line.number(name).is_some_and(|ms| ms >= 0.0);
    let is_answered = has_server
        && (!line.logs("upstream_status")
            || state == "--" && line.number("t_response_ms").is_none_or(|ms| ms >= 0.0)
            || at_least_0("t_connect_ms") && at_least_0("t_response_ms"));
    let seen = line.quote(&SHOWN);
    match parts {
        Some("<CACHE>") => return Some(Finding::cached(&LG_HA_6, seen)),
        Some(_) => return Some(Finding::itself(&LG_HA_6, Tri::No, seen).tries(0)),
        None => {}
    }
    let finding = match state.as_str() {
        // `http-response deny`: HAProxy's answer, made after a server had given another one.
        "PH" if (upstream_status.is_some() || is_answered) && upstream_status != line.status => {
            let finding = Finding::itself(&LG_HA_3, Tri::Yes, seen).weight(Weight::Strong);
            finding.status(upstream_status).replaced()
        }
        _ if upstream_status.is_some() => {
            // `LH` and `PH`: HAProxy replaced the page or the status of a server's answer.
            let rule = if matches!(state.as_str(), "LH" | "PH") { &LG_HA_3 } else { &LG_HA_4 };
            Finding::upstream(rule, seen).status(upstream_status)
        }
        "sQ" => Finding::refused(&LG_HA_2, LimitType::Concurrency, 0.99, seen),
        "PR" | "PT" | "LR" => {
            Finding::itself(&LG_HA_1, contacted, seen).limit(line.value("limiter").map(by_name))
        }
        // Without the server's status the state tells.
        "LH" if is_answered => Finding::upstream(&LG_HA_3, seen).replaced(),
        state if is_answered && is_passed_on(state, line) => Finding::upstream(&LG_HA_4, seen),
        "" if !line.logs("upstream_status") => return None,
        _ => Finding::itself(&LG_HA_5, contacted, seen),
    };
    Some(finding.tries(tries))
}
