//! Fastly: `x-cache: HIT` is on answers that its own code made too, so a hit is no proof of a
//! replay.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const FASTLY_X_CACHE: &str =
    "https://www.fastly.com/documentation/reference/http/http-headers/X-Cache/";
const FASTLY_TIMER: &str =
    "https://www.fastly.com/documentation/reference/http/http-headers/X-Timer/";
const FASTLY_ERRORS: &str = "https://www.fastly.com/documentation/guides/concepts/errors/";

static FS_0: Rule = Rule::new("FS-0", FASTLY_X_CACHE);
static FS_1: Rule = Rule::new("FS-1", FASTLY_X_CACHE);
static FS_2: Rule = Rule::new("FS-2", FASTLY_X_CACHE);
static FS_3: Rule = Rule::new("FS-3", FASTLY_ERRORS);
static FS_4: Rule = Rule::new("FS-4", FASTLY_TIMER);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "fastly", rules: &[&FS_0, &FS_1, &FS_2, &FS_3, &FS_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Fastly;
    let served = facts.get("x-served-by").filter(|v| v.contains("cache-"));
    let page = facts.status >= 400
        && (facts.body.starts_with("Fastly error:")
            || facts.says("fastly error: unknown domain")
            || facts.says("guru mediation") && facts.says("details: cache-"));
    if page {
        let seen = "one of Fastly's own error pages";
        sheet.add(
            Claim::at(&FS_3, WHO, Weight::Strong, seen)
                .group("fastly-page")
                .signs_body()
                .reached(Tri::No),
        );
    }
    if served.is_none() && !facts.has("x-fastly-request-id") && !facts.server_is("fastly") {
        return;
    }
    sheet.add(Claim::on_path(&FS_0, WHO, "x-served-by: cache-… of Fastly"));
    if page || served.is_none() {
        return;
    }
    let last = facts.get("x-cache").and_then(|v| v.rsplit(',').next()).map(str::trim);
    match last {
        Some(word) if word.eq_ignore_ascii_case("miss") && took_no_time(facts) => {
            let seen = format!("{}: a miss that asked nobody", facts.quote("x-timer"));
            sheet.add(
                Claim::at(&FS_4, WHO, Weight::Strong, seen).group("fastly-cache").reached(Tri::No),
            );
        }
        Some(word) if word.eq_ignore_ascii_case("miss") || word.eq_ignore_ascii_case("pass") => {
            let seen = facts.quote("x-cache");
            sheet.add(Claim::behind(&FS_1, WHO, Weight::Medium, seen).group("fastly-cache"));
        }
        Some(word) if word.eq_ignore_ascii_case("hit") => {
            // Synthetic answers are reported as hits too; only an age tells a replay.
            let claim = Claim::at(&FS_2, WHO, Weight::Strong, facts.quote("x-cache"))
                .group("fastly-cache")
                .reached(Tri::No);
            sheet.add(if facts.age().is_some_and(|age| age > 0) {
                claim.limit(LimitType::Cached, 0.85)
            } else {
                claim
            });
        }
        _ => {}
    }
}

/// Whether one cache node alone was asked and spent less than a millisecond: for a miss `VE` holds the time that
/// the answer of the origin took, so with `VE0` none was asked.
fn took_no_time(facts: &Facts<'_>) -> bool {
    // With several nodes the field tells of one of them.
    !facts.get("x-cache").is_some_and(|cache| cache.contains(','))
        && facts
            .get("x-timer")
            .and_then(|timer| timer.rsplit(',').next())
            .is_some_and(|last| last.trim().eq_ignore_ascii_case("VE0"))
}
