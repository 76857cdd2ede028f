//! Pages of products that have no name of their own here: application firewalls and platform
//! routers. They answered, so nobody else did; the answer stays `unknown`.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const IMPERVA: &str = "EnableSecurity/wafw00f wafw00f/plugins/incapsula.py";
const SUCURI: &str = "EnableSecurity/wafw00f wafw00f/plugins/sucuri.py";
const APPGW: &str =
    "https://learn.microsoft.com/azure/web-application-firewall/ag/configure-custom-response-code";
const HEROKU: &str = "https://devcenter.heroku.com/articles/error-pages";

static UN_1: Rule = Rule::new("UN-1", IMPERVA);
static UN_2: Rule = Rule::new("UN-2", SUCURI);
static UN_3: Rule = Rule::new("UN-3", APPGW);
static UN_4: Rule = Rule::new("UN-4", HEROKU);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "unnamed-products", rules: &[&UN_1, &UN_2, &UN_3, &UN_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 || !facts.body.starts_with('<') {
        return;
    }
    let page = |rule: &'static Rule, seen: &'static str| {
        Claim::at(rule, Responder::Unknown, Weight::Strong, seen).reached(Tri::No).signs_body()
    };
    if facts.says("incapsula incident id") {
        let claim = page(&UN_1, "Imperva's page with an incident id");
        sheet.add(claim.limit(LimitType::Security, 0.85));
    } else if facts.says("sucuri website firewall") {
        sheet.add(page(&UN_2, "Sucuri's firewall page").limit(LimitType::Security, 0.85));
    } else if facts.says("<center>microsoft-azure-application-gateway/") {
        sheet.add(page(&UN_3, "the page of Azure Application Gateway"));
    } else if facts.says("herokucdn.com/error-pages/") {
        sheet.add(page(&UN_4, "the page of Heroku's router").reached(Tri::Unknown));
    }
}
