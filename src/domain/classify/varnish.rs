//! Varnish Cache: two ids in `x-varnish` are a replay; its own pages wait 5 seconds whatever the
//! limit.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::{Facts, contains_ci};
use super::{LimitType, Responder, Tri, Weight};

const BUILTIN_VCL: &str = "https://varnish-cache.org/docs/7.1/users-guide/vcl-built-in-subs.html";
const X_VARNISH: &str = "https://varnish-cache.org/docs/7.1/users-guide/operation-logging.html";

static VA_0: Rule = Rule::new("VA-0", X_VARNISH);
static VA_1: Rule = Rule::new("VA-1", BUILTIN_VCL);
static VA_2: Rule = Rule::new("VA-2", X_VARNISH);
static VA_3: Rule = Rule::new("VA-3", X_VARNISH);
static VA_4: Rule = Rule::new("VA-4", BUILTIN_VCL);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "varnish", rules: &[&VA_0, &VA_1, &VA_2, &VA_3, &VA_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Varnish;
    let ids = facts.get("x-varnish");
    // Fastly is built on Varnish and signs alike.
    if ids.is_none() && facts.get("x-served-by").is_some_and(|v| v.contains("cache-")) {
        return;
    }
    let named = facts.server_is("varnish");
    let via = facts.has("via")
        && facts.response.headers.all("via").any(|v| contains_ci(v, "varnish"))
        && !facts.get("x-served-by").is_some_and(|v| v.contains("cache-"));
    if ids.is_none() && !named && !via {
        return;
    }
    sheet.add(Claim::on_path(&VA_0, WHO, "x-varnish, via or server of Varnish"));
    // A comma stands between the lines of two servers in a chain, a space between the two ids of one.
    let all_ids = || {
        let lines = ids.is_some().then(|| facts.response.headers.all("x-varnish"));
        lines.into_iter().flatten().flat_map(|line| line.split(','))
    };
    if all_ids().any(|ids| ids.split_whitespace().count() == 2) {
        sheet.add(
            Claim::at(&VA_2, WHO, Weight::Proof, facts.quote("x-varnish"))
                .limit(LimitType::Cached, 0.98),
        );
        return;
    }
    let page = facts.status >= 400 && facts.says("guru meditation");
    if page {
        let fetch = facts.has("age") || via;
        // A failed fetch goes through the cache, a page made in VCL does not.
        let reached = if fetch { Tri::Unknown } else { Tri::No };
        let seen = "Varnish's page with Guru Meditation";
        sheet.add(
            Claim::at(&VA_1, WHO, Weight::Strong, seen)
                .group("varnish-page")
                .signs_body()
                .reached(reached),
        );
        let xid = facts.lower().split_once("xid: ").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        });
        let mut ids = all_ids().filter_map(|id| id.trim().parse::<u64>().ok());
        if let Some(xid) = xid
            && let Some(id) = ids.find(|id| xid == *id || xid == id.saturating_add(1))
        {
            let seen = format!("XID {xid} of the page belongs to x-varnish: {id}");
            sheet.add(
                Claim::at(&VA_4, WHO, Weight::Medium, seen).group("varnish-id").reached(reached),
            );
        }
    } else if ids.is_some() && facts.has("age") && via {
        sheet.add(Claim::behind(&VA_3, WHO, Weight::Strong, "one id in x-varnish, age and via"));
    } else if ids.is_some() && facts.not_sent("age") && facts.not_sent("via") && named {
        let seen = "server: Varnish and one id, without age and via: made in VCL";
        sheet.add(Claim::at(&VA_4, WHO, Weight::Strong, seen).group("varnish-page"));
    } else if via && !named && ids.is_some() {
        sheet.add(Claim::behind(&VA_3, WHO, Weight::Medium, "via of Varnish"));
    }
}
