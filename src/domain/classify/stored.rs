//! An `Age` above zero on an error: some cache on the path stored it (RFC 9111, section 5.1). Where
//! one cache alone is seen, and nothing says that it passed the answer through, it is that one.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::{Facts, contains_ci};
use super::{LimitType, Responder, Weight};

static AGE_1: Rule = Rule::new("AGE-1", "https://www.rfc-editor.org/rfc/rfc9111#section-5.1");

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature { id: "stored-answers", rules: &[&AGE_1], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let Some(age) = facts.age().filter(|age| *age > 0) else { return };
    if facts.status < 400 || !facts.response.headers_complete || foreign_cache(facts) {
        return;
    }
    // What already told of a hit knows better.
    if sheet.claims.iter().any(Claim::is_replay) {
        return;
    }
    let mut open = CACHES.iter().filter(|cache| (cache.is_seen)(facts) && !(cache.passed)(facts));
    if let (Some(cache), None) = (open.next(), open.next()) {
        let seen = format!("age: {age}, and no other cache that could have stored it is seen");
        let claim = Claim::at(&AGE_1, cache.who, Weight::Strong, seen);
        sheet.add(claim.limit(LimitType::Cached, 0.75));
    }
}

/// A cache with the marks of its presence and of an answer that it fetched just now.
struct Cache {
    who: Responder,
    is_seen: fn(&Facts<'_>) -> bool,
    passed: fn(&Facts<'_>) -> bool,
}

/// Caches that write `Age` on what they stored. Under Cloudflare's and nginx's names their own
/// cache status tells, so they are not in the list.
const CACHES: &[Cache] = &[
    Cache {
        who: Responder::Cloudfront,
        is_seen: |facts| {
            facts.holds("via", "(cloudfront)")
                || facts.get("x-cache").is_some_and(|cache| cache.ends_with("from cloudfront"))
        },
        passed: |facts| facts.get("x-cache").is_some_and(|cache| cache.starts_with("Miss")),
    },
    Cache {
        who: Responder::Fastly,
        is_seen: |facts| facts.get("x-served-by").is_some_and(|v| v.contains("cache-")),
        passed: |facts| last_word_is_miss(facts),
    },
    Cache {
        who: Responder::Varnish,
        is_seen: |facts| {
            !facts.get("x-served-by").is_some_and(|v| v.contains("cache-"))
                && (facts.has("x-varnish") || facts.holds("via", "varnish"))
        },
        // One id is that of a request which went on to the backend.
        passed: |facts| facts.has("x-varnish"),
    },
    Cache {
        who: Responder::Squid,
        is_seen: |facts| facts.holds("via", "(squid"),
        passed: |facts| facts.has("x-squid-error") || last_word_is_miss(facts),
    },
    Cache {
        who: Responder::Trafficserver,
        is_seen: |facts| facts.holds("via", "apachetrafficserver"),
        // A verbose code tells by itself.
        passed: |facts| facts.holds("via", "apachetrafficserver") && facts.holds("via", "["),
    },
    Cache {
        who: Responder::AzureFrontDoor,
        is_seen: |facts| facts.has("x-azure-ref"),
        passed: |facts| {
            facts
                .get("x-cache")
                .is_none_or(|cache| contains_ci(cache, "miss") || contains_ci(cache, "nocache"))
        },
    },
    Cache {
        who: Responder::Gcp,
        is_seen: |facts| {
            facts.get("via").is_some_and(|v| v.split(',').any(|p| p.trim() == "1.1 google"))
        },
        passed: |_| false,
    },
];

fn last_word_is_miss(facts: &Facts<'_>) -> bool {
    facts.get("x-cache").and_then(|v| v.rsplit(',').next()).is_some_and(|word| {
        let word = word.trim_start();
        ["miss", "pass"].iter().any(|w| word.get(..4).is_some_and(|x| x.eq_ignore_ascii_case(w)))
    })
}

/// Whether a hop is named in `Via`, or a cache by its own field, that the list does not know: then
/// it may be the one that stored the answer.
fn foreign_cache(facts: &Facts<'_>) -> bool {
    const KNOWN: [&str; 5] =
        ["(cloudfront)", "varnish", "(squid", "apachetrafficserver", "1.1 google"];
    let hops = facts.response.headers.all("via").flat_map(|value| value.split(','));
    hops.into_iter().any(|hop| !KNOWN.iter().any(|name| contains_ci(hop, name)))
        || facts.first_with_prefix("x-akamai-").is_some()
        || facts.has("x-vercel-cache")
        || facts.has("x-cache-status")
}
