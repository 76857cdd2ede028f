//! Amazon's API Gateway and Application Load Balancer.

use super::LogFacts;
use super::finding::{Finding, is_refused_otherwise};
use crate::domain::classify::{LimitType, Rule, Tri, Weight};

static LG_AG_1: Rule = Rule::new("LG-AG-1", "docs/access-logs.md#aws-api-gateway");
static LG_AG_2: Rule = Rule::new("LG-AG-2", "docs/access-logs.md#aws-api-gateway");
static LG_AL_1: Rule = Rule::new("LG-AL-1", "docs/access-logs.md#aws-application-load-balancer");
static LG_AL_2: Rule = Rule::new("LG-AL-2", "docs/access-logs.md#aws-application-load-balancer");

/// The response type says who answered; statuses and bodies of the gateway can be changed by
/// configuration.
pub(super) fn read_api_gateway(line: &LogFacts) -> Option<Finding> {
    const SHOWN: [&str; 4] =
        ["response_type", "upstream_status", "integration_status", "waf_status"];
    let seen = line.quote(&SHOWN);
    match line.value("response_type") {
        Some("THROTTLED") => Some(Finding::refused(&LG_AG_1, LimitType::Rate, 0.99, seen)),
        Some("QUOTA_EXCEEDED") => Some(Finding::refused(&LG_AG_1, LimitType::Quota, 0.99, seen)),
        Some("WAF_FILTERED") => Some(Finding::refused(&LG_AG_1, LimitType::Security, 0.99, seen)),
        Some("INTEGRATION_TIMEOUT") => Some(Finding::itself(&LG_AG_1, Tri::Yes, seen)),
        Some("INTEGRATION_FAILURE" | "DEFAULT_5XX" | "API_CONFIGURATION_ERROR") => {
            Some(Finding::itself(&LG_AG_1, Tri::Unknown, seen))
        }
        Some(_) => Some(Finding::itself(&LG_AG_1, Tri::No, seen)),
        None => {
            let status = line.code("upstream_status");
            let is_asked = status.is_some() || line.code("integration_status").is_some();
            if is_refused_otherwise(line, status) {
                return Some(Finding::itself(&LG_AG_2, Tri::Yes, seen).weight(Weight::Strong));
            }
            is_asked.then(|| Finding::upstream(&LG_AG_2, seen).status(status))
        }
    }
}

/// The balancer limits nobody by rate itself; its firewall and fixed responses do.
pub(super) fn read_balancer(line: &LogFacts) -> Option<Finding> {
    const SHOWN: [&str; 4] = ["target_status_code", "target", "actions_executed", "error_reason"];
    let seen = line.quote(&SHOWN);
    let status = line.code("target_status_code");
    if is_refused_otherwise(line, status) {
        return Some(Finding::itself(&LG_AL_2, Tri::Yes, seen).weight(Weight::Strong));
    }
    if status.is_some() {
        return Some(Finding::upstream(&LG_AL_2, seen).status(status));
    }
    if !line.logs("target_status_code") {
        return None;
    }
    let is_asked = line.value("target").is_some();
    let last = line.value("actions_executed").and_then(|all| all.rsplit(',').next());
    let by_firewall = matches!(last, Some("waf" | "waf-failed")) && !is_asked;
    let contacted = match line.number("target_processing_s") {
        Some(seconds) if seconds >= 0.0 => Tri::Yes,
        _ if is_asked => Tri::Unknown,
        _ => Tri::No,
    };
    let limit = by_firewall.then_some((LimitType::Security, 0.9));
    Some(Finding::itself(&LG_AL_1, contacted, seen).limit(limit))
}
