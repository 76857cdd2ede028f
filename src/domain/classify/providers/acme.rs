//! Certificate authorities that speak ACME (RFC 8555): `rateLimited` problems.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, Responder, Weight};

static AC_1: Rule = Rule::new("AC-1", "https://www.rfc-editor.org/rfc/rfc8555#section-6.6");
static AC_2: Rule = Rule::new("AC-2", "https://www.rfc-editor.org/rfc/rfc8555#section-6.5");
static AC_3: Rule = Rule::new("AC-3", "https://letsencrypt.org/docs/rate-limits/");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "acme", rules: &[&AC_1, &AC_2, &AC_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let problem = facts.json_value("type").unwrap_or_default();
    let is_acme = problem.starts_with("urn:ietf:params:acme:error:")
        || problem.starts_with("urn:acme:error:");
    if facts.has("replay-nonce") && facts.status >= 400 {
        sheet.add(Claim::at(
            &AC_2,
            Responder::Origin,
            Weight::Strong,
            "replay-nonce is set by the server",
        ));
    }
    if !is_acme {
        return;
    }
    let mut claim =
        Claim::at(&AC_1, Responder::Origin, Weight::Strong, format!("problem type {problem}"));
    if problem.ends_with(":rateLimited") {
        // The documented limits of orders count over hours to a week; only the request limits
        // of an address are short, and their problem says "too many requests".
        let is_short = facts.says("requests per second") || facts.path().ends_with("new-nonce");
        claim = if is_short {
            claim.limit(LimitType::Rate, 0.8)
        } else {
            claim.limit(LimitType::Quota, 0.95)
        };
        let rule_page = Claim::of_limit(&AC_3, LimitType::Quota, 0.7, "limits over days or a week");
        if !is_short && (facts.path().contains("new-cert") || facts.path().contains("new-order")) {
            sheet.add(rule_page);
        }
    }
    sheet.add(claim);
}
