//! Limits inside protocols that answer 200: gRPC, GraphQL and JSON-RPC.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static PR_1: Rule = Rule::new("PR-1", "https://grpc.io/docs/guides/status-codes/");
static PR_2: Rule = Rule::new("PR-2", "https://spec.graphql.org/October2021/#sec-Errors");
static PR_3: Rule = Rule::new("PR-3", "https://eips.ethereum.org/EIPS/eip-1474#error-codes");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "protocols", rules: &[&PR_1, &PR_2, &PR_3], look };

/// Codes in `extensions.code` that servers and their plug-ins document.
const GRAPHQL: &[&str] = &[
    "RATE_LIMITED",
    "RATELIMITED",
    "THROTTLED",
    "TOO_MANY_REQUESTS",
    "RATE_LIMIT_EXCEEDED",
    "RATE_LIMIT",
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.is("grpc-status", "8") {
        // RESOURCE_EXHAUSTED covers per-caller allowances and a full disk alike.
        sheet.add(
            Claim::at(
                &PR_1,
                Responder::Origin,
                Weight::Weak,
                "grpc-status: 8 (RESOURCE_EXHAUSTED)",
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.7),
        );
    }
    if !facts.is_json() || facts.body.is_empty() {
        return;
    }
    let is_graphql = facts.says("\"errors\"") && facts.says("\"extensions\"");
    let code =
        facts.json().find(|f| matches!(f.key, "code" | "type") && GRAPHQL.contains(&f.value));
    if let (true, Some(field)) = (is_graphql, code) {
        sheet.add(
            Claim::at(
                &PR_2,
                Responder::Origin,
                Weight::Medium,
                format!("GraphQL error code {}", field.value),
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.9),
        );
    }
    if facts.json_value("jsonrpc").is_some()
        && facts.json().any(|f| f.key == "code" && f.value == "-32005")
    {
        sheet.add(
            Claim::at(
                &PR_3,
                Responder::Origin,
                Weight::Medium,
                "JSON-RPC error -32005 (limit exceeded)",
            )
            .group("body-form")
            .limit(LimitType::Rate, 0.85)
            .unit(LimitUnit::Requests),
        );
    }
}
