//! workerd, the runtime of Workers, run by its owner: its answers have neither `Server` nor `Date`,
//! and the runtime writes the character set without a blank and in capitals.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{Responder, Weight};

const RUNTIME: &str = "cloudflare/workerd src/workerd/api/http.c++";

static WK_1: Rule = Rule::new("WK-1", RUNTIME);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature { id: "workerd", rules: &[&WK_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let ours = facts.status >= 400
        && facts.get("content-type").is_some_and(|v| v.ends_with(";charset=UTF-8"))
        && facts.not_sent("server")
        && facts.not_sent("date")
        && facts.not_sent("via");
    if ours {
        let seen = "no server, no date, and text of the runtime's character set";
        sheet.add(Claim::at(&WK_1, Responder::Workerd, Weight::Medium, seen));
    }
}
