//! An API whose owner is known, by its host or by the sender's word, and nothing that shows one
//! of its own refusals: on the owner's host the owner is the likely responder, unless an edge
//! shows that it made the response (gateways.md 2.27).

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{Responder, Weight};
use crate::domain::headers::provider_of;

static PV_1: Rule = Rule::new("PV-1", "https://www.rfc-editor.org/rfc/rfc9110#section-7.2");
static PV_2: Rule = Rule::new("PV-2", "https://www.rfc-editor.org/rfc/rfc9110#section-3.6");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "known-provider", rules: &[&PV_1, &PV_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let by_host =
        provider_of(facts.host(), Some(facts.path())).filter(|_| !facts.host().is_empty());
    if facts.body.starts_with('<') {
        // Pages are what edges and proxies make; they say nothing for the owner.
        return;
    }
    if let Some(provider) = by_host {
        sheet.add(
            Claim::at(
                &PV_1,
                Responder::Origin,
                Weight::Weak,
                format!("the host belongs to {provider}"),
            )
            .group("known-provider")
            .provider(provider),
        );
    } else if let Some(provider) = facts.response.provider.as_deref() {
        sheet.add(
            Claim::at(
                &PV_2,
                Responder::Origin,
                Weight::Weak,
                format!("the sender names {provider}"),
            )
            .group("known-provider"),
        );
    }
}
