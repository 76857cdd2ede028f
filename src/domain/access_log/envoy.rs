//! Envoy and Istio: response flags and code details.
//!
//! `upstream_host` and an attempt count appear for a circuit breaker that asked nobody, so received
//! bytes prove contact, and the flags of a timeout or a reset.

use super::LogFacts;
use super::finding::Finding;
use crate::domain::classify::{LimitType, Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#envoy";
static LG_EN_1: Rule = Rule::new("LG-EN-1", SOURCE);
static LG_EN_2: Rule = Rule::new("LG-EN-2", SOURCE);
static LG_EN_3: Rule = Rule::new("LG-EN-3", SOURCE);
static LG_EN_4: Rule = Rule::new("LG-EN-4", SOURCE);
static LG_EN_5: Rule = Rule::new("LG-EN-5", SOURCE);
static LG_EN_6: Rule = Rule::new("LG-EN-6", SOURCE);
static LG_EN_7: Rule = Rule::new("LG-EN-7", SOURCE);
static LG_EN_8: Rule = Rule::new("LG-EN-8", SOURCE);

const SHOWN: [&str; 5] = [
    "response_flags",
    "code_details",
    "upstream_host",
    "upstream_attempts",
    "upstream_bytes_received",
];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let flags = line.get("response_flags")?;
    let has = |flag: &str| flags.split(',').any(|f| f.trim() == flag);
    let details = line.value("code_details").unwrap_or_default();
    let seen = line.quote(&SHOWN);
    let tries = line.count("upstream_attempts");
    // A limiter that can't be asked is no limit, and a fault made on purpose is none: nobody was over
    // any.
    if has("RLSE") || has("FI") || matches!(details, "rate_limiter_error" | "fault_filter_abort") {
        let finding = Finding::itself(&LG_EN_5, Tri::No, seen).tries(tries);
        return Some(Finding { is_no_limit: true, ..finding });
    }
    if has("RL") || matches!(details, "local_rate_limited" | "request_rate_limited") {
        return Some(Finding::refused(&LG_EN_1, LimitType::Rate, 0.99, seen));
    }
    if has("UO") {
        let finding = Finding::refused(&LG_EN_2, LimitType::Overload, 0.95, seen);
        return Some(finding.tries(tries));
    }
    if matches!(details, "denied_by_admission_control" | "overload") {
        return Some(Finding::refused(&LG_EN_7, LimitType::Overload, 0.95, seen));
    }
    let received = line.number("upstream_bytes_received");
    let contacted = if received.is_some_and(|bytes| bytes > 0.0) || has("UT") || has("UC") {
        Tri::Yes
    } else if received.is_some()
        || has("UF")
        || has("UH")
        || has("NR")
        || (line.logs("upstream_host") && line.value("upstream_host").is_none())
    {
        Tri::No
    } else {
        Tri::Unknown
    };
    let finding = match details {
        "via_upstream" => Finding::upstream(&LG_EN_3, seen),
        "" if line.logs("code_details") && received.is_some() => {
            // A response policy replaced the upstream's answer and left no details.
            if contacted == Tri::Yes {
                Finding::upstream(&LG_EN_6, seen).replaced()
            } else {
                Finding::itself(&LG_EN_8, contacted, seen)
            }
        }
        "" => {
            let is_plain = flags.is_empty() || flags == "URX";
            if is_plain && line.value("upstream_host").is_some() {
                Finding::upstream(&LG_EN_3, seen)
            } else if !is_plain || line.logs("upstream_host") {
                Finding::itself(&LG_EN_8, contacted, seen)
            } else {
                return None;
            }
        }
        "direct_response" => Finding::itself(&LG_EN_4, Tri::No, seen),
        _ => Finding::itself(&LG_EN_8, contacted, seen),
    };
    Some(finding.tries(tries))
}
