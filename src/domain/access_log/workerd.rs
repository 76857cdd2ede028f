//! A Worker: only what its own code logs explains its answer.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#workers";
static LG_WK_1: Rule = Rule::new("LG-WK-1", SOURCE);
static LG_WK_2: Rule = Rule::new("LG-WK-2", SOURCE);

const SHOWN: [&str; 4] = ["upstream_status", "upstream_attempts", "limiter", "cache_status"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let seen = line.quote(&SHOWN);
    let tries = line.count("upstream_attempts");
    if let Some(name) = line.value("limiter") {
        let (kind, chance) = by_name(name);
        let is_asked =
            line.code("upstream_status").is_some() || tries.is_some_and(|tries| tries > 0);
        let refused = Finding::refused(&LG_WK_2, kind, chance, seen).tries(tries);
        return Some(refused.beside(is_asked));
    }
    if line.value("cache_status").is_some_and(|status| status.eq_ignore_ascii_case("hit")) {
        return Some(Finding::cached(&LG_WK_2, seen));
    }
    let status = line.code("upstream_status");
    if status.is_some() {
        return Some(Finding::upstream(&LG_WK_1, seen).status(status).tries(tries));
    }
    // What the code fetched came to no answer, or its status was not written down.
    let contacted = if tries == Some(0) { Tri::No } else { Tri::Unknown };
    line.logs("upstream_status").then(|| Finding::itself(&LG_WK_2, contacted, seen).tries(tries))
}
