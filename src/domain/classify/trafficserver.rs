//! Apache Traffic Server: a verbose `Via` tells whether the cache or the server answered.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, Responder, Tri, Weight};

const ATS_VIA: &str = "https://docs.trafficserver.apache.org/en/9.2.x/appendices/faq.en.html#how-do-i-interpret-the-via-header-code";
const ATS_PAGES: &str = "apache/trafficserver configs/body_factory";

static TS_0: Rule = Rule::new("TS-0", ATS_VIA);
static TS_1: Rule = Rule::new("TS-1", ATS_VIA);
static TS_2: Rule = Rule::new("TS-2", ATS_VIA);
static TS_3: Rule = Rule::new("TS-3", ATS_VIA);
static TS_4: Rule = Rule::new("TS-4", ATS_PAGES);

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "trafficserver", rules: &[&TS_0, &TS_1, &TS_2, &TS_3, &TS_4], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Trafficserver;
    let via = facts
        .has("via")
        .then(|| facts.response.headers.all("via").find(|v| v.contains("ApacheTrafficServer")))
        .flatten();
    let named = facts.server_is("ats/") || facts.server.eq_ignore_ascii_case("ats");
    if via.is_none() && !named {
        return;
    }
    sheet.add(Claim::on_path(&TS_0, WHO, "server or via of Traffic Server"));
    let page = facts.status >= 400
        && facts.says("<font face=\"helvetica,arial\"><b>")
        && facts.says("description:");
    let mut code = via.and_then(via_code);
    if let Some(letters) = code.map(|c| c.split(':').next().unwrap_or(c)) {
        let letter = |key: char| {
            let mut chars = letters.chars();
            chars.by_ref().find(|c| *c == key);
            chars.next()
        };
        let seen = format!("via: [{letters}…]");
        match (letter('c'), letter('s')) {
            (Some('H' | 'S' | 'R'), server) if server != Some('S') => {
                sheet
                    .add(Claim::at(&TS_1, WHO, Weight::Proof, seen).limit(LimitType::Cached, 0.97));
            }
            (_, Some('S')) => sheet.add(Claim::behind(&TS_2, WHO, Weight::Strong, seen)),
            (_, Some(' ')) => {
                sheet.add(
                    Claim::at(&TS_3, WHO, Weight::Strong, seen).group("ats-via").reached(Tri::No),
                );
                if facts.status == 429 {
                    sheet.add(Claim::of_limit(
                        &TS_3,
                        LimitType::Concurrency,
                        0.65,
                        "the rate_limit plugin counts transactions in flight",
                    ));
                }
            }
            (_, Some('E')) => {
                let reached = server_error(facts);
                let claim =
                    Claim::at(&TS_3, WHO, Weight::Strong, seen).group("ats-via").reached(reached);
                let congested = facts
                    .response
                    .reason
                    .as_deref()
                    .is_some_and(|r| r.eq_ignore_ascii_case("origin server congested"));
                sheet.add(if congested { claim.limit(LimitType::Concurrency, 0.8) } else { claim });
            }
            _ => code = None,
        }
    }
    if page {
        let seen = "one of Traffic Server's pages";
        sheet.add(
            Claim::at(&TS_4, WHO, Weight::Strong, seen)
                .group("ats-page")
                .signs_body()
                .reached(if code.is_some() { server_error(facts) } else { Tri::Unknown }),
        );
    } else if code.is_none() && via.is_some() && facts.has("age") {
        sheet.add(Claim::behind(&TS_2, WHO, Weight::Medium, "age and via of Traffic Server"));
    } else if code.is_none() && facts.status >= 400 && !facts.body.is_empty() {
        let seen = "the body is not one of Traffic Server's pages";
        sheet.add(Claim::behind(&TS_4, WHO, Weight::Medium, seen).group("ats-page"));
    }
}

/// The letters that follow `key` in the bracketed code of a verbose `Via`, such as `cHs f ` in
/// `[uScHs f p eN:t cCHp s ]`.
fn via_code(via: &str) -> Option<&str> {
    let (_, rest) = via.split_once("ApacheTrafficServer")?;
    let (_, code) = rest.split_once('[')?;
    code.split_once(']').map(|(code, _)| code)
}

/// Whether a failed exchange with the origin got as far as the origin.
fn server_error(facts: &Facts<'_>) -> Tri {
    let reason = facts.response.reason.as_deref().unwrap_or_default().to_ascii_lowercase();
    if ["refused", "congested", "cannot find server", "could not connect", "host lookup"]
        .iter()
        .any(|word| reason.contains(word))
    {
        Tri::No
    } else if ["malformed", "timed out", "invalid", "timeout", "closed"]
        .iter()
        .any(|word| reason.contains(word))
    {
        Tri::Yes
    } else if facts.status == 429 {
        Tri::No
    } else {
        Tri::Unknown
    }
}
