//! Envoy and what is built on it: Istio, Envoy Gateway, Contour, App Mesh.
//!
//! Measured on 1.40: the local rate limit filter answers 429 with the body `local_rate_limited` and
//! no `x-envoy-ratelimited`; the rate limit service filter sends that header and an empty body. A
//! relayed answer carries `x-envoy-upstream-service-time`, also where the next hop is another
//! Envoy that refused. `server: envoy` is on both.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const RATELIMIT: &str = "envoyproxy/envoy source/extensions/filters/http/ratelimit/ratelimit.cc";
const LOCAL: &str =
    "envoyproxy/envoy source/extensions/filters/http/local_ratelimit/local_ratelimit.cc";
const ROUTER: &str =
    "https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter";
const ISTIO: &str = "https://istio.io/latest/docs/tasks/policy-enforcement/rate-limit/";

static EN_0: Rule = Rule::new("EN-0", ROUTER);
static EN_1: Rule = Rule::new("EN-1", RATELIMIT);
static EN_2: Rule = Rule::new("EN-2", LOCAL);
static EN_3: Rule = Rule::new("EN-3", ROUTER);
static EN_4: Rule = Rule::new("EN-4", ROUTER);
static EN_5: Rule = Rule::new("EN-5", ROUTER);
static EN_6: Rule = Rule::new("EN-6", ISTIO);
static EN_7: Rule = Rule::new("EN-7", ROUTER);
static EN_8: Rule = Rule::new("EN-8", LOCAL);
static EN_9: Rule = Rule::new("EN-9", ROUTER);
static EN_10: Rule = Rule::new("EN-10", ROUTER);
static EN_11: Rule = Rule::new("EN-11", ROUTER);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature {
    id: "envoy",
    rules: &[&EN_0, &EN_1, &EN_2, &EN_3, &EN_4, &EN_5, &EN_6, &EN_7, &EN_8, &EN_9, &EN_10, &EN_11],
    look,
};

const WHO: Responder = Responder::Envoy;
const LOCAL_BODY: &str = "local_rate_limited";

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let named = facts.server_is("envoy") || facts.server_is("istio-envoy");
    let relayed = facts.has("x-envoy-upstream-service-time");
    if named {
        sheet.add(Claim::on_path(&EN_0, WHO, facts.quote("server")));
    }
    if let Some(attempts) = facts.get("x-envoy-attempt-count").and_then(|v| v.parse().ok()) {
        let seen = facts.quote("x-envoy-attempt-count");
        sheet.add(Claim::on_path(&EN_11, WHO, seen).retries(u32::saturating_sub(attempts, 1)));
    }
    let made = own_refusal(facts, sheet, relayed);
    if relayed {
        if made {
            sheet.add(
                Claim::at(
                    &EN_5,
                    WHO,
                    Weight::Proof,
                    "an outer Envoy relayed the refusal of an inner one",
                )
                .reached(Tri::No),
            );
        } else if sheet.claims.iter().any(|claim| claim.rule == &EN_1 && claim.weight.is_strong()) {
            // The header alone may also be what the origin sent.
            let seen = "an outer Envoy relayed what looks like the refusal of an inner one";
            sheet.add(Claim::at(&EN_5, WHO, Weight::Strong, seen).group("envoy-refusal"));
        } else {
            let seen = facts.quote("x-envoy-upstream-service-time");
            sheet.add(Claim::behind(&EN_4, WHO, Weight::Strong, seen));
        }
    } else if named && facts.response.headers_complete && sheet.conflicts.is_empty() {
        let seen = "server: envoy without x-envoy-upstream-service-time";
        sheet.add(Claim::at(&EN_7, WHO, Weight::Medium, seen));
    }
}

/// Writes down marks of refusals that Envoy makes itself; whether any proves one.
fn own_refusal(facts: &Facts<'_>, sheet: &mut Sheet, relayed: bool) -> bool {
    let flagged = facts.has("x-envoy-ratelimited");
    let local = facts.body == LOCAL_BODY || facts.is("grpc-message", LOCAL_BODY);
    if flagged && local {
        // The service filter sends the header without this body, the local filter this body
        // without the header.
        sheet.add(
            Claim::at(&EN_8, WHO, Weight::Weak, "x-envoy-ratelimited with local_rate_limited")
                .limit(LimitType::Rate, 0.9)
                .unit(LimitUnit::Requests),
        );
        sheet.conflict(
            "x-envoy-ratelimited and the body local_rate_limited come from two filters that don't \
             answer together: a copy of Envoy's marks, or a changed configuration",
        );
        if relayed {
            let seen = facts.quote("x-envoy-upstream-service-time");
            sheet.add(Claim::behind(&EN_4, WHO, Weight::Medium, seen));
        }
        return false;
    }
    let mut made = false;
    if flagged {
        let seen = facts.quote("x-envoy-ratelimited");
        let weight = weight_of_flag(facts, relayed);
        let claim = Claim::at(&EN_1, WHO, weight, seen)
            .group("envoy-refusal")
            .limit(LimitType::Rate, 0.97)
            .unit(LimitUnit::Requests);
        sheet.add(if weight.is_strong() { claim } else { claim.reached(Tri::Unknown) });
        made = weight == Weight::Proof;
    }
    if local {
        let seen = "body or grpc-message: local_rate_limited";
        sheet.add(
            Claim::at(&EN_2, WHO, Weight::Strong, seen)
                .group("envoy-body")
                .signs_body()
                .limit(LimitType::Rate, 0.97)
                .unit(LimitUnit::Requests),
        );
        made = true;
    }
    if facts.is("x-local-rate-limit", "true") {
        let seen = facts.quote("x-local-rate-limit");
        sheet.add(
            Claim::at(&EN_6, WHO, Weight::Strong, seen)
                .limit(LimitType::Rate, 0.97)
                .unit(LimitUnit::Requests),
        );
        made = true;
    }
    if facts.has("x-envoy-overloaded") {
        let seen = facts.quote("x-envoy-overloaded");
        sheet.add(
            Claim::at(&EN_3, WHO, Weight::Proof, seen)
                .group("envoy-refusal")
                .limit(LimitType::Overload, 0.95),
        );
        made = true;
    }
    made | (facts.status >= 400 && error_body(facts, sheet))
}

/// What `x-envoy-ratelimited` proves. An origin may send it too; the filter's own answer has no
/// body and no type of one, unless its service gives a body. The less it looks like that, the less
/// it proves.
fn weight_of_flag(facts: &Facts<'_>, relayed: bool) -> Weight {
    let is_bare = facts.body.is_empty()
        && !facts.has("content-type")
        && facts.content_length().is_none_or(|length| length == 0);
    let other_server =
        facts.has("server") && !facts.server_is("envoy") && !facts.server_is("istio-envoy");
    match (is_bare, relayed || other_server) {
        (true, false) => Weight::Proof,
        (true, true) => Weight::Strong,
        (false, false) if !facts.is_json() => Weight::Medium,
        (false, _) => Weight::Weak,
    }
}

/// The bodies that Envoy writes when it cannot get an answer.
fn error_body(facts: &Facts<'_>, sheet: &mut Sheet) -> bool {
    let body = facts.body;
    if body.len() > 400 {
        return false;
    }
    let claim = |observed: &str| {
        Claim::at(&EN_9, WHO, Weight::Strong, format!("body: {observed}"))
            .group("envoy-body")
            .signs_body()
    };
    if body.starts_with("upstream connect error or disconnect/reset before headers") {
        let reset = |reason: &str| body.contains(reason);
        let claim = claim("upstream connect error");
        sheet.add(if reset("reset reason: overflow") {
            claim.limit(LimitType::Overload, 0.95).reached(Tri::No)
        } else if reset("connection termination") || reset("remote reset") {
            claim.reached(Tri::Yes)
        } else if reset("remote connection failure") || reset("local connection failure") {
            claim.reached(Tri::No)
        } else {
            claim.reached(Tri::Unknown)
        });
        return true;
    }
    let fixed: [(&str, Tri, Option<LimitType>); 5] = [
        ("no healthy upstream", Tri::No, None),
        ("envoy overloaded", Tri::No, Some(LimitType::Overload)),
        ("upstream request timeout", Tri::Yes, None),
        ("fault filter abort", Tri::No, None),
        ("RBAC: access denied", Tri::No, None),
    ];
    if let Some((text, reached, limit)) = fixed.iter().find(|(text, ..)| body == *text) {
        let claim = claim(text).reached(*reached);
        sheet.add(match limit {
            Some(kind) => claim.limit(*kind, 0.95),
            None => claim,
        });
        return true;
    }
    if !body.is_empty() && facts.server_is("envoy") && facts.is_json() {
        let seen = "the body is JSON, Envoy's own are plain text";
        sheet.add(Claim::behind(&EN_10, WHO, Weight::Weak, seen).group("envoy-body"));
    }
    false
}
