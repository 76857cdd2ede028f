//! F5 Distributed Cloud: its limiter answers with an HTML error page.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const F5: &str =
    "https://docs.cloud.f5.com/docs-v2/multi-cloud-app-connect/how-to/adv-networking/rate-limiting";

static F5_0: Rule = Rule::new("F5-0", F5);
static F5_1: Rule = Rule::new("F5-1", F5);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "f5-distributed-cloud", rules: &[&F5_0, &F5_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::F5DistributedCloud;
    let named = facts.server_is("volt-adc");
    let located = facts.has("x-volterra-location");
    let page = facts.status >= 400 && facts.status == 429 && facts.says("<title>error 429</title>");
    if named || located {
        sheet.add(Claim::on_path(&F5_0, WHO, "server: volt-adc or x-volterra-location"));
    }
    if page {
        // Its error page is titled by the number; others write the phrase too.
        let weight = if named || located { Weight::Strong } else { Weight::Medium };
        let seen = "the page is titled Error 429";
        sheet.add(
            Claim::at(&F5_1, WHO, weight, seen)
                .reached(Tri::No)
                .limit(LimitType::Rate, 0.75)
                .unit(LimitUnit::Requests),
        );
    } else if (named || located) && !facts.body.is_empty() && facts.is_json() {
        let seen = "the body is JSON, not its error page";
        sheet.add(Claim::behind(&F5_1, WHO, Weight::Medium, seen));
    }
}
