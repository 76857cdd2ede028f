//! F5 Distributed Cloud: its limiter answers with an HTML error page that carries no name, so the
//! page counts only beside the edge's own header fields.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const HEADERS: &str =
    "volterraedge/terraform-provider-volterra docs/resources/volterra_http_loadbalancer.md";
const GUIDE: &str = "https://f5j-dc-waap.readthedocs.io/";

static F5_0: Rule = Rule::new("F5-0", HEADERS);
static F5_1: Rule = Rule::new("F5-1", GUIDE);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "f5-distributed-cloud", rules: &[&F5_0, &F5_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::F5DistributedCloud;
    let named = facts.server_is("volt-adc");
    let located = facts.has("x-volterra-location");
    if !named && !located {
        // Applications title their pages alike.
        return;
    }
    sheet.add(Claim::on_path(&F5_0, WHO, "server: volt-adc or x-volterra-location"));
    if facts.status == 429 && facts.says("<title>error 429</title>") {
        let seen = "the page is titled Error 429";
        sheet.add(
            Claim::at(&F5_1, WHO, Weight::Medium, seen)
                .reached(Tri::No)
                .limit(LimitType::Rate, 0.75)
                .unit(LimitUnit::Requests),
        );
    } else if !facts.body.is_empty() && facts.is_json() {
        let seen = "the body is JSON, not its error page";
        sheet.add(Claim::behind(&F5_1, WHO, Weight::Medium, seen));
    }
}
