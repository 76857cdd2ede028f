//! Akamai: the edge signs the pages that it makes, and nothing that it relays.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const AKAMAI: &str = "https://techdocs.akamai.com/application-security/reference/deny-name-values";
const AKAMAI_API: &str = "https://github.com/akamai/terraform-provider-akamai/issues/500";

static AK_0: Rule = Rule::new("AK-0", AKAMAI);
static AK_1: Rule = Rule::new("AK-1", AKAMAI);
static AK_2: Rule = Rule::new("AK-2", AKAMAI);
static AK_3: Rule = Rule::new("AK-3", AKAMAI_API);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "akamai", rules: &[&AK_0, &AK_1, &AK_2, &AK_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Akamai;
    let named = facts.server_is("akamaighost") || facts.server_is("akamainetstorage");
    let reference = facts.status >= 400
        && facts.body.len() > 40
        && (facts.says("errors.edgesuite.net")
            || facts.says("access denied") && facts.says("reference&#32;&#35;")
            || facts.says("access denied") && facts.says("reference #"));
    let own_api = facts.host_in("akamaiapis.net") || facts.says("akamaiapis.net/");
    if facts.status >= 400 && own_api && facts.says("waf deny rule ") {
        // The edge in front of Akamai's own APIs names the rule in a problem document.
        let rate = facts.says("waf deny rule ipblock-burst");
        let claim = Claim::at(&AK_3, WHO, Weight::Strong, "detail: WAF deny rule …").signs_body();
        sheet.add(if rate {
            claim.limit(LimitType::Rate, 0.9).unit(LimitUnit::Requests)
        } else {
            claim.limit(LimitType::Security, 0.85)
        });
        return;
    }
    if named {
        sheet.add(Claim::on_path(&AK_0, WHO, facts.quote("server")));
    } else if facts.has("x-akamai-transformed")
        || facts.has("akamai-grn")
        || facts.has("akamai-cache-status")
    {
        sheet.add(Claim::on_path(&AK_0, WHO, "a header field of Akamai"));
    }
    if reference {
        let seen = "Access Denied with a reference number";
        let claim = Claim::at(&AK_1, WHO, Weight::Strong, seen).group("akamai-page").signs_body();
        sheet.add(claim.reached(Tri::No).limit(LimitType::Security, 0.8));
        if named {
            let seen = facts.quote("server");
            sheet.add(Claim::at(&AK_2, WHO, Weight::Weak, seen).group("akamai-server"));
        }
    } else if named && facts.status >= 400 {
        // The edge signs only the pages that it makes.
        let seen = facts.quote("server");
        sheet.add(Claim::at(&AK_2, WHO, Weight::Strong, seen).group("akamai-page").signs_body());
    }
}
