//! Cloudflare in front of somebody's origin.
//!
//! `server: cloudflare` and `cf-ray` are on every answer. What tells who made it: `cf-mitigated`,
//! the 1xxx pages, the cache status (a firewall or rate rule acts before the cache) and
//! `cfOrigin` in `Server-Timing`.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const RULES: &str = "https://developers.cloudflare.com/waf/rate-limiting-rules/parameters/";
const DETECT: &str = "https://developers.cloudflare.com/cloudflare-challenges/challenge-types/challenge-pages/detect-response/";
const ERRORS: &str = "https://developers.cloudflare.com/support/troubleshooting/http-status-codes/";
const CACHE: &str = "https://developers.cloudflare.com/cache/concepts/cache-responses/";
const HEADERS: &str = "https://developers.cloudflare.com/fundamentals/reference/http-headers/";

static CF_0: Rule = Rule::new("CF-0", HEADERS);
static CF_1: Rule = Rule::new("CF-1", DETECT);
static CF_2: Rule = Rule::new("CF-2", ERRORS);
static CF_3: Rule = Rule::new("CF-3", HEADERS);
static CF_4: Rule = Rule::new("CF-4", HEADERS);
static CF_5: Rule = Rule::new("CF-5", CACHE);
static CF_6: Rule = Rule::new("CF-6", CACHE);
static CF_7: Rule = Rule::new("CF-7", RULES);
static CF_8: Rule = Rule::new("CF-8", ERRORS);
static CF_9: Rule = Rule::new("CF-9", HEADERS);

/// The signature.
pub(crate) static SIGNATURE: Signature = Signature {
    id: "cloudflare",
    rules: &[&CF_0, &CF_1, &CF_2, &CF_3, &CF_4, &CF_5, &CF_6, &CF_7, &CF_8, &CF_9],
    look,
};

const WHO: Responder = Responder::Cloudflare;

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let named = facts.server_is("cloudflare");
    let ray = facts.get("cf-ray");
    let mitigated = facts.has("cf-mitigated");
    if ray.is_none()
        && let Some(id) = facts.response.ray_id.as_deref().filter(|id| is_ray_id(id))
    {
        sheet.add(Claim::on_path(&CF_9, WHO, format!("ray id {id}, as the client sent it")));
    }
    if !named && ray.is_none() && !mitigated && !facts.has("cf-cache-status") {
        if facts.status >= 400 && facts.body.len() > 15 {
            error_page(facts, sheet, false);
        }
        return;
    }
    sheet.add(Claim::on_path(&CF_0, WHO, facts.quote(if named { "server" } else { "cf-ray" })));
    // Cloudflare signs as `Server` whatever it hands out. Under another name, or relayed by
    // somebody's own proxy, its marks belong to an inner hop or were copied.
    let outermost = named && !relayed_by_own_proxy(facts);
    let weight = |weight: Weight| if outermost { weight } else { weight.lowered() };
    if mitigated {
        let seen = facts.quote("cf-mitigated");
        sheet.add(
            Claim::at(&CF_1, WHO, weight(Weight::Proof), seen)
                .group("cf-page")
                .signs_body()
                .limit(LimitType::Security, 0.99),
        );
    }
    if facts.status >= 400 {
        error_page(facts, sheet, outermost);
    }
    timing(facts, sheet);
    match facts.get("cf-cache-status") {
        Some(status)
            if ["HIT", "STALE", "UPDATING"].iter().any(|s| status.eq_ignore_ascii_case(s)) =>
        {
            let seen = facts.quote("cf-cache-status");
            sheet.add(
                Claim::at(&CF_6, WHO, weight(Weight::Strong), seen)
                    .group("cf-cache")
                    .limit(LimitType::Cached, 0.95),
            );
        }
        Some(status)
            if ["DYNAMIC", "MISS", "BYPASS", "EXPIRED", "REVALIDATED"]
                .iter()
                .any(|s| status.eq_ignore_ascii_case(s)) =>
        {
            let seen = facts.quote("cf-cache-status");
            sheet.add(Claim::behind(&CF_5, WHO, Weight::Strong, seen).group("cf-cache"));
        }
        other => {
            let absent = other.is_none() && facts.response.headers_complete;
            if ray.is_some() && outermost && !mitigated && (absent || other.is_some()) {
                let seen = "cf-ray without a cache status: made before the cache";
                sheet.add(Claim::at(&CF_7, WHO, Weight::Medium, seen).group("cf-cache"));
            }
        }
    }
}

/// Whether an id is written like a ray id with the data centre behind it: `8aa0b1c2d3e4f567-FRA`.
/// The sixteen digits alone are the form of span ids too.
fn is_ray_id(id: &str) -> bool {
    id.split_once('-').is_some_and(|(ray, place)| {
        ray.len() == 16
            && ray.bytes().all(|b| b.is_ascii_hexdigit())
            && place.len() == 3
            && place.bytes().all(|b| b.is_ascii_uppercase())
    })
}

/// Whether a proxy that people run themselves relayed this response to the client: an edge stands
/// in front of those, not behind them.
fn relayed_by_own_proxy(facts: &Facts<'_>) -> bool {
    facts.has("x-varnish")
        || facts.has("x-squid-error")
        || ["caddy", "(squid/", "apachetrafficserver", "(varnish/"]
            .iter()
            .any(|proxy| facts.holds("via", proxy))
}

/// `cfOrigin;dur` in `Server-Timing`: the time that the origin took.
fn timing(facts: &Facts<'_>, sheet: &mut Sheet) {
    let metric =
        facts.response.headers.all("server-timing").flat_map(|v| v.split(',')).find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            (parts.next()?.eq_ignore_ascii_case("cfOrigin")).then_some(())?;
            parts.find_map(|p| p.strip_prefix("dur="))?.parse::<f64>().ok()
        });
    match metric {
        Some(ms) if ms > 0.0 => {
            let seen = format!("server-timing: cfOrigin;dur={ms}");
            sheet.add(Claim::behind(&CF_3, WHO, Weight::Strong, seen).group("cf-timing"));
        }
        Some(_) => {
            let seen = "server-timing: cfOrigin;dur=0";
            sheet.add(Claim::at(&CF_4, WHO, Weight::Strong, seen).group("cf-timing"));
        }
        None => {}
    }
}

/// The number of a 1xxx page or a 52x error in the forms that Cloudflare writes.
fn error_number(facts: &Facts<'_>) -> Option<u16> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end).and_then(|d| d.parse::<u16>().ok())
    };
    if let Some(rest) = facts.body.strip_prefix("error code: ") {
        return (rest.len() <= 5).then(|| digits(rest)).flatten();
    }
    if facts.body.starts_with('{') && facts.says("\"cloudflare_error\"") {
        return facts.json_value("error_code").and_then(digits);
    }
    if facts.says("you are being rate limited") && facts.says("cloudflare") {
        return Some(1015);
    }
    let lower = facts.lower();
    ["cf-error-code\">", "code-label\">error code ", "code-label\">"]
        .iter()
        .find_map(|mark| lower.split_once(mark).and_then(|(_, rest)| digits(rest)))
}

/// The pages that Cloudflare makes: 1xxx and 52x errors, blocks and challenges.
fn error_page(facts: &Facts<'_>, sheet: &mut Sheet, outermost: bool) {
    let mut weight = Weight::Strong;
    if !outermost {
        weight = weight.lowered();
    }
    let number = error_number(facts);
    let page = number.is_some()
        || facts.says("/cdn-cgi/challenge-platform/")
        || facts.says("__cf_chl_")
        || facts.says("used cloudflare to restrict access")
        || facts.says("attention required! | cloudflare")
        || facts.says("cloudflare ray id");
    if !page {
        if outermost && matches!(facts.status, 520..=527 | 530) {
            let seen = format!("status {}, which only Cloudflare writes", facts.status);
            sheet.add(
                Claim::at(&CF_8, WHO, Weight::Strong, seen)
                    .group("cf-page")
                    .signs_body()
                    .reached(reached(facts.status)),
            );
        }
        return;
    }
    if let (Some(ray), Some((_, shown))) = (facts.get("cf-ray"), facts.lower().split_once("ray id"))
        && let Some(id) = ray.split('-').next()
        && !shown.contains(&id.to_ascii_lowercase())
    {
        weight = weight.lowered();
        sheet.conflict(
            "the page names another ray id than cf-ray: an inner Cloudflare zone made it",
        );
    }
    let seen = number.map_or_else(
        || "one of Cloudflare's own pages".to_owned(),
        |number| format!("Cloudflare's error {number}"),
    );
    let claim = Claim::at(&CF_2, WHO, weight, seen).group("cf-page").signs_body();
    sheet.add(match number {
        Some(1015) => claim.limit(LimitType::Rate, 0.97).unit(LimitUnit::Requests),
        Some(1027) => claim.limit(LimitType::Quota, 0.97).unit(LimitUnit::Requests),
        Some(1102) => claim.limit(LimitType::Overload, 0.95),
        Some(1004..=1012 | 1020) => claim.limit(LimitType::Security, 0.95),
        Some(number @ 500..=599) => claim.reached(reached(number)),
        Some(1000..=1999) => claim,
        _ if facts.says("/cdn-cgi/challenge-platform/")
            || facts.says("__cf_chl_")
            || facts.says("attention required!") =>
        {
            claim.limit(LimitType::Security, 0.9)
        }
        _ if facts.status == 429 || facts.status == 403 => claim.limit(LimitType::Security, 0.7),
        _ => claim,
    });
}

/// Whether the origin saw the request behind one of the 52x errors.
const fn reached(status: u16) -> Tri {
    match status {
        520 | 524 => Tri::Yes,
        521 | 522 | 523 | 525 | 526 | 530 => Tri::No,
        _ => Tri::Unknown,
    }
}
