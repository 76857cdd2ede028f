//! Problem documents (RFC 9457): a media type that applications use and default pages do not.

use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{Responder, Weight};

static PB_1: Rule = Rule::new("PB-1", "https://www.rfc-editor.org/rfc/rfc9457#section-3");
static PB_2: Rule = Rule::new("PB-2", "https://www.rfc-editor.org/rfc/rfc9457#section-3.1.1");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "problem-documents", rules: &[&PB_1, &PB_2], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status < 400 {
        return;
    }
    let is_problem =
        facts.media_is("application/problem+json") || facts.media_is("application/problem+xml");
    if is_problem {
        sheet.add(
            Claim::at(
                &PB_1,
                Responder::Origin,
                Weight::Medium,
                format!("content-type: {}", facts.media),
            )
            .group("body-form"),
        );
    }
    let own_type = facts
        .json()
        .find(|field| field.depth == 1 && field.key == "type")
        .map(|field| field.value)
        .filter(|kind| kind.starts_with("https://") || kind.starts_with("http://"));
    let (Some(kind), true) = (own_type, is_problem) else { return };
    // A problem type on the API's own domain is written by who owns the API.
    let host = kind.split('/').nth(2).unwrap_or_default().to_ascii_lowercase();
    let domain = registrable(&host);
    if !domain.is_empty() && facts.host_in(domain) {
        sheet.add(
            Claim::at(
                &PB_2,
                Responder::Origin,
                Weight::Medium,
                format!("its problem type is on {host}"),
            )
            .group("problem-type"),
        );
    }
}

/// The last two labels of a host; good enough to compare two names of one owner.
fn registrable(host: &str) -> &str {
    let mut dots = host.rmatch_indices('.').skip(1);
    match dots.next() {
        Some((at, _)) => host.get(at.saturating_add(1)..).unwrap_or(host),
        None => host,
    }
}
