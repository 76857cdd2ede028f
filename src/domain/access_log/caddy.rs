//! Caddy: what its reverse proxy knew, appended to the log. Without those fields a line says
//! nothing about the upstream.

use super::LogFacts;
use super::finding::{Finding, by_name};
use crate::domain::classify::{Rule, Tri};

const SOURCE: &str = "docs/access-logs.md#caddy";
static LG_CA_1: Rule = Rule::new("LG-CA-1", SOURCE);
static LG_CA_2: Rule = Rule::new("LG-CA-2", SOURCE);
static LG_CA_3: Rule = Rule::new("LG-CA-3", SOURCE);

const SHOWN: [&str; 3] = ["upstream_status", "upstream_addr", "limiter"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let logged = line.logs("upstream_status");
    let seen = line.quote(&SHOWN);
    if let Some(name) = line.value("limiter") {
        let (kind, chance) = by_name(name);
        let is_asked = line.code("upstream_status").is_some();
        return Some(Finding::refused(&LG_CA_2, kind, chance, seen).beside(is_asked));
    }
    let status = line.code("upstream_status");
    if status.is_some() {
        return Some(Finding::upstream(&LG_CA_1, seen).status(status));
    }
    // An address alone: it was chosen, and perhaps connected to.
    let is_chosen = line.value("upstream_addr").is_some();
    let contacted = if is_chosen { Tri::Unknown } else { Tri::No };
    let tries = (!is_chosen).then_some(0);
    logged.then(|| Finding::itself(&LG_CA_3, contacted, seen).tries(tries))
}
