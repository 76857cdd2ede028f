//! Varnish: what VCL handed on of the backend's answer, and the handling.
//!
//! `handling` says `miss` for a backend's answer and for a failed fetch alike.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#varnish";
static LG_VA_1: Rule = Rule::new("LG-VA-1", SOURCE);
static LG_VA_2: Rule = Rule::new("LG-VA-2", SOURCE);
static LG_VA_3: Rule = Rule::new("LG-VA-3", SOURCE);
static LG_VA_4: Rule = Rule::new("LG-VA-4", SOURCE);

const SHOWN: [&str; 4] = ["handling", "upstream_status", "limiter", "upstream_retries"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let handling = line.value("handling").unwrap_or_default();
    if handling == "hit" || line.value("upstream_status") == Some("cached") {
        return Some(Finding::cached(&LG_VA_2, seen));
    }
    if let Some(name) = line.value("limiter") {
        let (kind, chance) = by_name(name);
        let is_asked = line.code("upstream_status").is_some();
        return Some(Finding::refused(&LG_VA_1, kind, chance, seen).beside(is_asked));
    }
    let retries = line.count("upstream_retries");
    let tries = retries.map(|n| n.saturating_add(1));
    let status = line.code("upstream_status");
    if status.is_some() && status != line.status && handling == "synth" {
        // The backend answered, and VCL made another answer of it.
        return Some(Finding::itself(&LG_VA_1, Tri::Yes, seen).tries(tries));
    }
    if status.is_some() {
        // VCL may have set another status, or thrown the answer away for a page of its own: then
        // what the client got has to tell.
        let weight = if status == line.status { Weight::Proof } else { Weight::Medium };
        let finding = Finding::upstream(&LG_VA_3, seen).status(status).weight(weight);
        return Some(finding.tries(tries));
    }
    if line.value("upstream_status") == Some("none") {
        return Some(Finding::itself(&LG_VA_4, Tri::Unknown, seen).tries(tries));
    }
    (handling == "synth").then(|| Finding::itself(&LG_VA_1, Tri::No, seen).tries(0))
}
