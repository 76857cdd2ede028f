//! Traffic Server: the server's own status (`sssc`), the cache result (`crc`) and the host.
//!
//! A refusal of the limiter is logged `TCP_MISS … DIRECT`, and `sca` counts where nothing was sent.

use super::LogFacts;
use super::finding::Finding;
use crate::domain::classify::{LimitType, Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#traffic-server";
static LG_TS_1: Rule = Rule::new("LG-TS-1", SOURCE);
static LG_TS_2: Rule = Rule::new("LG-TS-2", SOURCE);
static LG_TS_3: Rule = Rule::new("LG-TS-3", SOURCE);
static LG_TS_4: Rule = Rule::new("LG-TS-4", SOURCE);

const SHOWN: [&str; 5] =
    ["upstream_status", "cache_result", "server_host", "server_attempts", "error_code"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let result = line.value("cache_result")?;
    let seen = line.quote(&SHOWN);
    let status = line.code("upstream_status");
    let tries = line.count("server_attempts").map(|n| n.saturating_add(1));
    if result.contains("HIT") {
        let contacted = if status.is_some() { Tri::Yes } else { Tri::No };
        return Some(Finding { contacted, ..Finding::cached(&LG_TS_2, seen) });
    }
    if status.is_some() {
        return Some(Finding::upstream(&LG_TS_1, seen).status(status).tries(tries));
    }
    let error = line.value("error_code").unwrap_or_default();
    if error == "Origin server congested" {
        return Some(Finding::refused(&LG_TS_3, LimitType::Concurrency, 0.9, seen));
    }
    let has_host = line.value("server_host").is_some();
    if !line.logs("upstream_status") {
        // The stock line: what it calls a miss with a host was wrong once in 26.
        return Some(if !has_host {
            Finding::itself(&LG_TS_4, Tri::No, seen)
        } else if result.starts_with("ERR_") {
            Finding::itself(&LG_TS_4, Tri::Unknown, seen)
        } else {
            Finding::upstream(&LG_TS_1, seen).weight(Weight::Strong)
        });
    }
    let contacted = match (result, error) {
        _ if !has_host => Tri::No,
        ("ERR_CONNECT_FAIL", "Connection refused") => Tri::No,
        ("ERR_READ_TIMEOUT", _) | (_, "Malformed Server Response Status") => Tri::Yes,
        _ => Tri::Unknown,
    };
    let tries = if has_host { tries } else { Some(0) };
    Some(Finding::itself(&LG_TS_4, contacted, seen).tries(tries))
}
