//! Kong Gateway: a refusal of its own carries `x-kong-response-latency`, a relayed answer
//! `x-kong-upstream-latency`.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const HANDLER: &str = "Kong/kong kong/runloop/handler.lua";
const PLUGIN: &str = "https://developer.konghq.com/plugins/rate-limiting/";
const RESPONSE_PLUGIN: &str = "https://developer.konghq.com/plugins/response-ratelimiting/";

static KG_0: Rule = Rule::new("KG-0", HANDLER);
static KG_1: Rule = Rule::new("KG-1", HANDLER);
static KG_2: Rule = Rule::new("KG-2", HANDLER);
static KG_3: Rule = Rule::new("KG-3", RESPONSE_PLUGIN);
static KG_4: Rule = Rule::new("KG-4", PLUGIN);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "kong", rules: &[&KG_0, &KG_1, &KG_2, &KG_3, &KG_4], look };

const WHO: Responder = Responder::Kong;

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let own = facts.has("x-kong-response-latency");
    let relayed = facts.has("x-kong-upstream-latency") || facts.has("x-kong-proxy-latency");
    let named = facts.server_is("kong/");
    let present =
        own || relayed || named || facts.has("x-kong-request-id") || facts.holds("via", "kong/");
    if present {
        sheet.add(Claim::on_path(&KG_0, WHO, "server, via or x-kong-* of Kong"));
    } else if facts.status != 429 {
        return;
    }
    if relayed {
        if facts.status >= 400 && facts.body_is_empty() && named_period(facts) {
            let seen = "x-kong-upstream-latency, an empty body and a limit per period";
            let claim = Claim::at(&KG_3, WHO, Weight::Medium, seen).reached(Tri::Yes);
            sheet.add(of_window(facts, claim));
        } else {
            sheet.add(Claim::behind(&KG_2, WHO, Weight::Strong, "x-kong-upstream-latency"));
        }
        return;
    }
    let says_limit = facts.status == 429
        || facts.says("rate limit exceeded")
        || facts.first_with_prefix("x-ratelimit-remaining").is_some_and(|(_, v)| v == "0");
    if own && facts.status >= 400 {
        let seen = facts.quote("x-kong-response-latency");
        let claim = Claim::at(&KG_1, WHO, Weight::Proof, seen).signs_body().reached(Tri::No);
        sheet.add(if says_limit { of_window(facts, claim) } else { claim });
    } else if (named || named_period(facts)) && facts.says("\"api rate limit exceeded\"") {
        let seen = "the rate limiting plugin's message with its name or a limit per period";
        sheet.add(of_window(facts, Claim::at(&KG_4, WHO, Weight::Strong, seen)));
    }
}

/// Whether a limit header names a period.
fn named_period(facts: &Facts<'_>) -> bool {
    const PERIODS: [&str; 6] = ["-second", "-minute", "-hour", "-day", "-month", "-year"];
    facts.response.headers.iter().any(|(name, _)| {
        name.starts_with("x-ratelimit-") && PERIODS.iter().any(|period| name.ends_with(period))
    })
}

/// Rate or quota by the window whose allowance is spent.
fn of_window(facts: &Facts<'_>, claim: Claim) -> Claim {
    let spent = |period: &str| {
        facts.response.headers.iter().any(|(name, value)| {
            name.contains("ratelimit-remaining") && name.contains(period) && value == "0"
        })
    };
    let long = ["-day", "-month", "-year"].iter().any(|p| spent(p));
    let short = ["-second", "-minute", "-hour"].iter().any(|p| spent(p));
    let kind = if long && !short { LimitType::Quota } else { LimitType::Rate };
    let tokens =
        facts.first_with_prefix("x-ai-ratelimit").is_some() || facts.says("token rate limit");
    claim.limit(kind, 0.95).unit(if tokens { LimitUnit::Tokens } else { LimitUnit::Requests })
}
