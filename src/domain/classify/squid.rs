//! Squid: its own answers carry `x-squid-error`.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const SQUID_ERRORS: &str = "https://wiki.squid-cache.org/Features/CustomErrors";

static SQ_0: Rule = Rule::new("SQ-0", SQUID_ERRORS);
static SQ_1: Rule = Rule::new("SQ-1", SQUID_ERRORS);
static SQ_2: Rule = Rule::new("SQ-2", SQUID_ERRORS);
static SQ_3: Rule = Rule::new("SQ-3", SQUID_ERRORS);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "squid", rules: &[&SQ_0, &SQ_1, &SQ_2, &SQ_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Squid;
    let error = facts.get("x-squid-error");
    let via = facts.holds("via", "(squid");
    if error.is_none() && !via && !facts.server_is("squid") {
        return;
    }
    sheet.add(Claim::on_path(&SQ_0, WHO, "x-squid-error, via or server of Squid"));
    if let Some(error) = error {
        let reached = if error.contains("ERR_READ") || error.contains("ERR_ZERO_SIZE") {
            Tri::Yes
        } else {
            Tri::No
        };
        let seen = facts.quote("x-squid-error");
        sheet.add(Claim::at(&SQ_1, WHO, Weight::Proof, seen).reached(reached));
        return;
    }
    match facts.get("x-cache") {
        Some(cache) if cache.starts_with("HIT from") => sheet.add(
            Claim::at(&SQ_2, WHO, Weight::Strong, facts.quote("x-cache"))
                .limit(LimitType::Cached, 0.95),
        ),
        Some(cache) if cache.starts_with("MISS from") => {
            sheet.add(Claim::behind(&SQ_3, WHO, Weight::Strong, facts.quote("x-cache")));
        }
        _ if via && facts.not_sent("x-squid-error") && facts.status >= 400 => {
            let seen = "via of Squid without x-squid-error";
            sheet.add(Claim::behind(&SQ_3, WHO, Weight::Medium, seen));
        }
        _ => {}
    }
}
