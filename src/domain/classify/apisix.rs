//! Apache APISIX: its name is on what it relays too; its limiters answer 503 by default.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const APISIX_COUNT: &str = "https://apisix.apache.org/docs/apisix/plugins/limit-count/";
const APISIX_RESPONSE: &str = "apache/apisix apisix/core/response.lua";

static AX_0: Rule = Rule::new("AX-0", APISIX_RESPONSE);
static AX_1: Rule = Rule::new("AX-1", APISIX_RESPONSE);
static AX_2: Rule = Rule::new("AX-2", APISIX_COUNT);
static AX_3: Rule = Rule::new("AX-3", APISIX_RESPONSE);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "apisix", rules: &[&AX_0, &AX_1, &AX_2, &AX_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Apisix;
    let named = facts.server_is("apisix");
    let powered = facts.status >= 400 && facts.says("https://apisix.apache.org/");
    if !named && !powered {
        return;
    }
    sheet.add(Claim::on_path(&AX_0, WHO, "server: APISIX"));
    if facts.status < 400 {
        return;
    }
    let mut fields = facts.json();
    let first = fields.next();
    let own_json = first.is_some_and(|f| f.key == "error_msg" && f.depth == 1);
    let page = powered || facts.says("<center>openresty</center>");
    let spent = facts.get("x-ratelimit-remaining") == Some("0");
    if own_json || page {
        let seen = if page { "the page of APISIX" } else { "error_msg, the body of its plugins" };
        let claim = Claim::at(&AX_1, WHO, Weight::Strong, seen)
            .group("apisix-body")
            .signs_body()
            .reached(if matches!(facts.status, 502 | 504) { Tri::Unknown } else { Tri::No });
        let refused = spent && matches!(facts.status, 429 | 503);
        sheet.add(if refused { rate(claim) } else { claim });
    }
    if spent && facts.status == 503 {
        // limit-count, limit-req and limit-conn answer 503 unless told otherwise.
        let seen = "503, the default of limit-count, with x-ratelimit-remaining: 0";
        sheet.add(rate(
            Claim::at(&AX_2, WHO, Weight::Strong, seen)
                .group("apisix-body")
                .signs_body()
                .reached(Tri::No),
        ));
    } else if !own_json && !page && facts.is_json() && !facts.body.is_empty() {
        let seen = "the body is not one of APISIX's";
        sheet.add(Claim::behind(&AX_3, WHO, Weight::Medium, seen).group("apisix-body"));
    } else if spent && facts.body.is_empty() {
        let seen = "x-ratelimit-remaining: 0 of limit-count";
        sheet.add(rate(Claim::at(&AX_2, WHO, Weight::Medium, seen).group("apisix-body")));
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}
