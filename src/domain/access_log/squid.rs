//! Squid as an accelerator: result, hierarchy, and the server's status and address.

use super::LogFacts;
use super::finding::Finding;
use crate::domain::classify::{Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#squid";
static LG_SQ_1: Rule = Rule::new("LG-SQ-1", SOURCE);
static LG_SQ_2: Rule = Rule::new("LG-SQ-2", SOURCE);
static LG_SQ_3: Rule = Rule::new("LG-SQ-3", SOURCE);

const SHOWN: [&str; 5] = ["result", "hierarchy", "upstream_status", "server_ip", "err_code"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    let result = line.value("result")?;
    let seen = line.quote(&SHOWN);
    let status = line.code("upstream_status");
    if result.contains("HIT") {
        let contacted = if status.is_some() { Tri::Yes } else { Tri::No };
        return Some(Finding { contacted, ..Finding::cached(&LG_SQ_2, seen) });
    }
    if result.contains("DENIED") {
        return Some(Finding::itself(&LG_SQ_3, Tri::No, seen).tries(0));
    }
    if status.is_some() {
        return Some(Finding::upstream(&LG_SQ_1, seen).status(status));
    }
    let is_asked = line.value("server_ip").is_some();
    if line.logs("upstream_status") {
        let contacted = if is_asked { Tri::Yes } else { Tri::No };
        let tries = (!is_asked).then_some(0);
        return Some(Finding::itself(&LG_SQ_3, contacted, seen).tries(tries));
    }
    // The stock line has neither: a peer's address in the hierarchy is a strong hint.
    Some(if is_asked {
        Finding::upstream(&LG_SQ_1, seen).weight(Weight::Strong)
    } else {
        Finding::itself(&LG_SQ_3, Tri::No, seen).tries(0)
    })
}
