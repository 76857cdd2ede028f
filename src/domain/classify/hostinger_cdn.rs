//! Hostinger's CDN: what it relays tells the time that the upstream took. The vendor's page speaks
//! of its fields in general; their names are known from public captures, so none of them is strong.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{Responder, Tri, Weight};

const HOSTINGER: &str =
    "https://www.hostinger.com/support/8052370-advanced-cdn-header-management-at-hostinger/";

static HC_0: Rule = Rule::new("HC-0", HOSTINGER);
static HC_1: Rule = Rule::new("HC-1", HOSTINGER);
static HC_2: Rule = Rule::new("HC-2", HOSTINGER);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "hostinger-cdn", rules: &[&HC_0, &HC_1, &HC_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::HostingerCdn;
    let named = facts.server_is("hcdn");
    if !named && !facts.has("x-hcdn-request-id") {
        return;
    }
    sheet.add(Claim::on_path(&HC_0, WHO, "server: hcdn or x-hcdn-request-id"));
    if facts.has("x-hcdn-upstream-rt") {
        let seen = facts.quote("x-hcdn-upstream-rt");
        sheet.add(Claim::behind(&HC_2, WHO, Weight::Medium, seen));
    } else if named && facts.status >= 400 && !facts.has("x-hcdn-cache-status") {
        let seen = "server: hcdn without an upstream time or cache status";
        sheet.add(Claim::at(&HC_1, WHO, Weight::Medium, seen).reached(Tri::No));
    }
}
