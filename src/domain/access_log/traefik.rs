//! Traefik: the status towards the client and that of the service.

use super::LogFacts;
use super::finding::{Finding, is_refused_otherwise};
use crate::domain::classify::{Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#traefik";
static LG_TR_1: Rule = Rule::new("LG-TR-1", SOURCE);
static LG_TR_2: Rule = Rule::new("LG-TR-2", SOURCE);

const SHOWN: [&str; 6] =
    ["upstream_status", "router", "upstream_addr", "retries", "overhead_ns", "duration_ns"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let retries = line.count("retries");
    // What was not spent on a service was all of it.
    let overhead = line.value("overhead_ns");
    let asked_nobody = overhead.is_some() && overhead == line.value("duration_ns");
    match line.get("upstream_status") {
        // The sources set 0 where the documentation says "absent".
        Some("0") if line.value("router").is_some() => {
            Some(Finding::itself(&LG_TR_1, Tri::No, seen).tries(0))
        }
        None if asked_nobody => Some(Finding::itself(&LG_TR_1, Tri::No, seen).tries(0)),
        // Nobody was asked, and it says so as if a service had.
        Some("502" | "503" | "504") if line.value("upstream_addr").is_none() => {
            Some(Finding::itself(&LG_TR_1, Tri::Unknown, seen).weight(Weight::Weak))
        }
        Some(_) if line.code("upstream_status").is_some() => {
            let status = line.code("upstream_status");
            let tries = retries.map(|n| n.saturating_add(1));
            if is_refused_otherwise(line, status) {
                // A middleware made another answer of what the service said, or Traefik itself.
                let is_service = !matches!(status, Some(502..=504));
                let contacted = if is_service { Tri::Yes } else { Tri::Unknown };
                let finding = Finding::itself(&LG_TR_2, contacted, seen).weight(Weight::Strong);
                return Some(finding.tries(tries));
            }
            // It is taken where Traefik writes its own 502 and 504 too.
            let weight = match status {
                Some(502 | 504) => Weight::Medium,
                _ => Weight::Proof,
            };
            let finding = Finding::upstream(&LG_TR_2, seen).status(status).weight(weight);
            Some(finding.tries(tries))
        }
        // Absent: the field may have been dropped by the log's own settings.
        _ if line.value("router").is_some() => {
            Some(Finding::itself(&LG_TR_1, Tri::Unknown, seen).weight(Weight::Weak))
        }
        _ => None,
    }
}
