//! nginx, with the variables of `$upstream_*`, and its error log's lines about limits.
//!
//! `upstream_addr` and `upstream_status` alone lie: without a live server they name the group and
//! say 502 though nothing was asked. A connect time proves contact, a header time an answer.

use super::finding::{Finding, Told};
use super::{LogFacts, code};
use crate::domain::classify::{LimitType, Rule, Tri, Weight};

const SOURCE: &str = "docs/access-logs.md#nginx";
static LG_NG_1: Rule = Rule::new("LG-NG-1", SOURCE);
static LG_NG_2: Rule = Rule::new("LG-NG-2", SOURCE);
static LG_NG_3: Rule = Rule::new("LG-NG-3", SOURCE);
static LG_NG_4: Rule = Rule::new("LG-NG-4", SOURCE);
static LG_NG_5: Rule = Rule::new("LG-NG-5", SOURCE);

const SHOWN: [&str; 4] =
    ["upstream_addr", "upstream_status", "upstream_connect_s", "upstream_header_s"];

pub(super) fn read(line: &LogFacts) -> Option<Finding> {
    // A page for the refusal may come from an upstream (`error_page` with a proxy behind it).
    let is_asked = line.value("upstream_addr").or(line.value("upstream_status")).is_some()
        && contacted(line) != Tri::No;
    // `DELAYED` and `REJECTED_DRY_RUN` are no refusals.
    if line.value("limit_req_status") == Some("REJECTED") {
        let seen = line.quote(&["limit_req_status", "zone", "upstream_status"]);
        return Some(Finding::refused(&LG_NG_1, LimitType::Rate, 0.99, seen).beside(is_asked));
    }
    if line.value("limit_conn_status") == Some("REJECTED") {
        let seen = line.quote(&["limit_conn_status", "zone", "upstream_status"]);
        let refused = Finding::refused(&LG_NG_2, LimitType::Concurrency, 0.99, seen);
        return Some(refused.beside(is_asked));
    }
    line.status?;
    // On a hit the upstream's fields are filled from the stored copy.
    if matches!(line.value("cache_status"), Some("HIT" | "STALE" | "UPDATING")) {
        return Some(Finding::cached(&LG_NG_4, line.quote(&["cache_status"])));
    }
    let contacted = contacted(line);
    let tries = line.get("upstream_addr").map(tries);
    let upstream_status = line.get("upstream_status").and_then(last).and_then(code);
    let seen = line.quote(&SHOWN);
    let finding = if let Some(header) = line.get("upstream_header_s") {
        if is_number(last(header)) {
            Finding::upstream(&LG_NG_3, seen).status(upstream_status)
        } else {
            Finding::itself(&LG_NG_5, contacted, seen).limit(earlier_limit(line))
        }
    } else {
        by_status(line, upstream_status, contacted, seen)?
    };
    Some(Finding { contacted: widest(finding.told, contacted), ..finding.tries(tries) })
}

/// An answer of an upstream needs contact, whatever was logged of it.
fn widest(told: Told, contacted: Tri) -> Tri {
    if told == Told::Upstream { Tri::Yes } else { contacted }
}

/// Formats without a header time: the status alone can't tell a gateway's own 502 or 504.
fn by_status(
    line: &LogFacts,
    upstream_status: Option<u16>,
    contacted: Tri,
    seen: String,
) -> Option<Finding> {
    let logged = line.get("upstream_status")?;
    let asked = line.get("upstream_addr").is_none_or(|addr| last(addr).is_some_and(is_address));
    match upstream_status {
        None if logged.is_empty() => Some(Finding::itself(&LG_NG_5, Tri::No, seen)),
        None => Some(Finding::itself(&LG_NG_5, contacted, seen)),
        Some(_) if !asked => Some(Finding::itself(&LG_NG_5, contacted, seen)),
        Some(502 | 504) => None,
        Some(_) => {
            Some(Finding::upstream(&LG_NG_3, seen).status(upstream_status).weight(Weight::Strong))
        }
    }
}

/// Whether any upstream was connected to.
fn contacted(line: &LogFacts) -> Tri {
    let any = |name: &str| line.get(name).map(|list| entries(list).any(|e| is_number(Some(e))));
    match (any("upstream_connect_s"), any("upstream_header_s")) {
        (Some(true), _) | (_, Some(true)) => Tri::Yes,
        (Some(false), _) => Tri::No,
        _ if line.get("upstream_addr") == Some("") => Tri::No,
        _ => Tri::Unknown,
    }
}

/// A 429 that an upstream gave before nginx ran out of upstreams: that is what was limited.
fn earlier_limit(line: &LogFacts) -> Option<(LimitType, f64)> {
    let mut statuses = entries(line.get("upstream_status")?);
    statuses.any(|status| status == "429").then_some((LimitType::Rate, 0.6))
}

/// The entries of `$upstream_*`: commas between tries, colons between groups after an internal
/// redirect.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    groups(list).flat_map(|group| group.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
}

fn groups(list: &str) -> impl Iterator<Item = &str> {
    list.split(" : ")
}

fn last(list: &str) -> Option<&str> {
    entries(list).last()
}

fn is_number(entry: Option<&str>) -> bool {
    entry.is_some_and(|entry| entry.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether an entry is an address and not the name of a group.
fn is_address(entry: &str) -> bool {
    entry.starts_with("unix:")
        || entry
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// How often an upstream was tried. Groups after an internal redirect are other requests.
fn tries(list: &str) -> u32 {
    let in_group = |group: &str| group.split(',').filter(|e| is_address(e.trim())).count();
    let most = groups(list).map(in_group).max().unwrap_or(0);
    u32::try_from(most).unwrap_or(u32::MAX)
}
