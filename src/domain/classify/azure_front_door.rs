//! Azure Front Door and its firewall: `x-azure-ref` is on every answer.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const AFD: &str = "https://learn.microsoft.com/azure/web-application-firewall/afds/waf-front-door-configure-custom-response-code";
const AFD_CACHE: &str =
    "https://learn.microsoft.com/azure/frontdoor/front-door-http-headers-protocol";

static FD_0: Rule = Rule::new("FD-0", AFD);
static FD_1: Rule = Rule::new("FD-1", AFD);
static FD_2: Rule = Rule::new("FD-2", AFD_CACHE);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "azure-front-door", rules: &[&FD_0, &FD_1, &FD_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::AzureFrontDoor;
    let reference = facts.has("x-azure-ref") || facts.has("x-msedge-ref");
    if !reference {
        return;
    }
    let id = if facts.has("x-azure-ref") { "x-azure-ref" } else { "x-msedge-ref" };
    sheet.add(Claim::on_path(&FD_0, WHO, facts.quote(id)));
    if facts.status >= 400 && facts.says("the request is blocked") {
        let kind = if facts.status == 429 { LimitType::Rate } else { LimitType::Security };
        let seen = "The request is blocked.";
        sheet.add(
            Claim::at(&FD_1, WHO, Weight::Strong, seen)
                .group("afd-page")
                .signs_body()
                .reached(Tri::No)
                .limit(kind, 0.85),
        );
    } else if facts.status >= 400 && facts.says("our services aren't available right now") {
        let seen = "Front Door's page: Our services aren't available right now";
        sheet.add(Claim::at(&FD_1, WHO, Weight::Strong, seen).group("afd-page").signs_body());
    }
    match facts.get("x-cache") {
        Some("TCP_HIT" | "TCP_REMOTE_HIT") => sheet.add(
            Claim::at(&FD_2, WHO, Weight::Strong, facts.quote("x-cache"))
                .limit(LimitType::Cached, 0.9),
        ),
        Some("TCP_MISS" | "CONFIG_NOCACHE" | "PRIVATE_NOSTORE") => {
            // Written for what was fetched; a blocked request never gets to the cache.
            sheet.add(Claim::behind(&FD_2, WHO, Weight::Medium, facts.quote("x-cache")));
        }
        _ => {}
    }
}
