//! Vercel: the firewall says when it answered, a function's own limiter is the application.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const VERCEL: &str = "https://vercel.com/docs/errors";
const VERCEL_FIREWALL: &str = "https://vercel.com/docs/vercel-firewall";

static VE_0: Rule = Rule::new("VE-0", VERCEL);
static VE_1: Rule = Rule::new("VE-1", VERCEL_FIREWALL);
static VE_2: Rule = Rule::new("VE-2", VERCEL);
static VE_3: Rule = Rule::new("VE-3", VERCEL);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "vercel", rules: &[&VE_0, &VE_1, &VE_2, &VE_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Vercel;
    let mitigated = facts.has("x-vercel-mitigated");
    let error = facts.get("x-vercel-error");
    if !mitigated && error.is_none() && !facts.has("x-vercel-id") && !facts.server_is("vercel") {
        return;
    }
    sheet.add(Claim::on_path(&VE_0, WHO, "server or x-vercel-id of Vercel"));
    if mitigated {
        sheet.add(
            Claim::at(&VE_1, WHO, Weight::Proof, facts.quote("x-vercel-mitigated"))
                .reached(Tri::No)
                .limit(LimitType::Security, 0.97),
        );
    }
    if let Some(error) = error {
        let claim = Claim::at(&VE_2, WHO, Weight::Strong, facts.quote("x-vercel-error"));
        sheet.add(if error.starts_with("FUNCTION_THROTTLED") {
            claim.reached(Tri::No).limit(LimitType::Concurrency, 0.95)
        } else if error.starts_with("FUNCTION_INVOCATION") {
            claim.reached(Tri::Yes)
        } else {
            claim.reached(Tri::Unknown)
        });
    }
    match facts.get("x-vercel-cache") {
        Some("HIT" | "STALE" | "PRERENDER") => sheet.add(
            Claim::at(&VE_3, WHO, Weight::Strong, facts.quote("x-vercel-cache"))
                .limit(LimitType::Cached, 0.9),
        ),
        Some("MISS" | "BYPASS" | "REVALIDATED") => {
            sheet.add(Claim::behind(&VE_3, WHO, Weight::Strong, facts.quote("x-vercel-cache")));
        }
        _ => {}
    }
}
