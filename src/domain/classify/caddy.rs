//! Caddy: what it proxies carries `Via: 1.1 Caddy` and the origin's `Server`, its own answers do not.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{Responder, Tri, Weight};

const CADDY: &str = "https://caddyserver.com/docs/caddyfile/directives/reverse_proxy#defaults";

static CD_0: Rule = Rule::new("CD-0", CADDY);
static CD_1: Rule = Rule::new("CD-1", CADDY);
static CD_2: Rule = Rule::new("CD-2", CADDY);
static CD_3: Rule = Rule::new("CD-3", CADDY);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "caddy", rules: &[&CD_0, &CD_1, &CD_2, &CD_3], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Caddy;
    let via = facts.holds("via", "caddy");
    let named = facts.server_is("caddy");
    if !via && !named {
        return;
    }
    sheet.add(Claim::on_path(&CD_0, WHO, "server or via of Caddy"));
    if via {
        sheet.add(Claim::behind(&CD_2, WHO, Weight::Strong, facts.quote("via")));
        return;
    }
    if facts.status < 400 {
        return;
    }
    if facts.not_sent("via") {
        let reached = if matches!(facts.status, 502 | 504) { Tri::Unknown } else { Tri::No };
        let seen = "server: Caddy without via: not proxied";
        sheet.add(Claim::at(&CD_1, WHO, Weight::Medium, seen).group("caddy-via").reached(reached));
    }
    if facts.body_is_empty() || facts.media_is("text/plain") {
        let seen = "an empty or plain body, as respond and errors have it";
        sheet.add(Claim::at(&CD_3, WHO, Weight::Weak, seen).group("caddy-body"));
    } else if facts.first_with_prefix("x-ratelimit").is_some() {
        // Versions before 2.11 add no `Via`.
        let seen = "limit headers, which Caddy writes none of";
        sheet.add(Claim::behind(&CD_3, WHO, Weight::Medium, seen).group("caddy-body"));
    }
}
