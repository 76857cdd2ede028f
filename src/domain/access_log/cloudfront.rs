//! CloudFront's standard log, which has no field for the origin's status.

use super::LogFacts;
use super::finding::Finding;
use crate::domain::classify::{LimitType, Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#cloudfront";
static LG_FR_1: Rule = Rule::new("LG-FR-1", SOURCE);
static LG_FR_2: Rule = Rule::new("LG-FR-2", SOURCE);
static LG_FR_3: Rule = Rule::new("LG-FR-3", SOURCE);

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&["result_type", "response_result_type", "detailed_result_type"]);
    let detailed = line.value("detailed_result_type").or_else(|| line.value("result_type"))?;
    let result = line.value("result_type").unwrap_or(detailed);
    let is_one = |word: &str| detailed == word || result == word;
    if is_one("LimitExceeded") {
        Some(Finding::refused(&LG_FR_1, LimitType::Quota, 0.95, seen))
    } else if is_one("CapacityExceeded") {
        Some(Finding::refused(&LG_FR_1, LimitType::Overload, 0.95, seen))
    } else if detailed.starts_with("Function") {
        Some(Finding::itself(&LG_FR_1, Tri::No, seen))
    } else if matches!(detailed, "Hit" | "RefreshHit" | "OriginShieldHit") {
        Some(Finding::cached(&LG_FR_2, seen))
    } else if detailed == "Miss" {
        Some(Finding::upstream(&LG_FR_3, seen))
    } else if matches!(detailed, "OriginConnectError" | "OriginDnsError") {
        Some(Finding::itself(&LG_FR_1, Tri::No, seen))
    } else if detailed.starts_with("Origin")
        && detailed.ends_with("Error")
        && matches!(line.status, Some(502..=504))
    {
        // With another status it may be what the origin itself answered.
        Some(Finding::itself(&LG_FR_1, Tri::Unknown, seen))
    } else {
        // `Error` with a 4xx is also what an origin's refusal becomes.
        None
    }
}
