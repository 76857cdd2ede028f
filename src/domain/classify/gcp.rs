//! Google Cloud: load balancer with Cloud Armor, API Gateway and Endpoints, Cloud Run's front.

use super::claim::{Claim, Rule, Sheet, Signature};
use super::facts::Facts;
use super::{LimitType, LimitUnit, Responder, Tri, Weight};

const ARMOR: &str = "https://docs.cloud.google.com/armor/docs/rate-limiting-overview";
const CLOUD_RUN: &str = "https://docs.cloud.google.com/run/docs/troubleshooting#429";
const ESP: &str = "https://docs.cloud.google.com/endpoints/docs/openapi/quotas-overview";

static GC_0: Rule = Rule::new("GC-0", ARMOR);
static GC_1: Rule = Rule::new("GC-1", ARMOR);
static GC_2: Rule = Rule::new("GC-2", CLOUD_RUN);
static GC_3: Rule = Rule::new("GC-3", ESP);
static GC_4: Rule = Rule::new("GC-4", ARMOR);
static GC_5: Rule =
    Rule::new("GC-5", "https://docs.cloud.google.com/appengine/docs/standard/quotas");

/// The signature.
pub(crate) static SIGNATURE: Signature =
    Signature { id: "gcp", rules: &[&GC_0, &GC_1, &GC_2, &GC_3, &GC_4, &GC_5], look };

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    const WHO: Responder = Responder::Gcp;
    let via = facts.get("via").is_some_and(|v| v.split(',').any(|p| p.trim() == "1.1 google"));
    let front = facts.server_is("google frontend");
    if via || front {
        sheet.add(Claim::on_path(&GC_0, WHO, "via: 1.1 google or server: Google Frontend"));
    }
    if facts.status < 400 {
        return;
    }
    let is_html = facts.media_is("text/html") || facts.media.is_empty();
    if facts.body == "Rate exceeded." && facts.status == 429 && is_html {
        let weight = if front { Weight::Strong } else { Weight::Medium };
        let seen = "body: Rate exceeded. (no instance of the service was free)";
        sheet.add(
            Claim::at(&GC_2, WHO, weight, seen)
                .group("gcp-page")
                .signs_body()
                .reached(Tri::No)
                .limit(LimitType::Overload, 0.85),
        );
        if front {
            let seen = facts.quote("server");
            sheet.add(Claim::at(&GC_2, WHO, Weight::Weak, seen).group("gcp-server"));
        }
    } else if is_balancer_page(facts) {
        let claim = Claim::at(&GC_1, WHO, Weight::Strong, "the load balancer's own page")
            .group("gcp-page")
            .signs_body()
            .reached(if matches!(facts.status, 502 | 504) { Tri::Unknown } else { Tri::No });
        // A rule of Cloud Armor denies with 403, 404 or 502; of these only 403 is rarely another's.
        sheet.add(match facts.status {
            429 => rate(claim),
            403 => claim.limit(LimitType::Security, 0.75),
            _ => claim,
        });
    } else if facts.status == 503
        && facts.body.starts_with('<')
        && facts.says("over quota")
        && facts.says("serving quota")
    {
        let claim = Claim::at(&GC_5, WHO, Weight::Strong, "App Engine's page: Over Quota");
        sheet.add(
            claim.group("gcp-page").signs_body().reached(Tri::No).limit(LimitType::Quota, 0.95),
        );
        if front {
            let seen = facts.quote("server");
            sheet.add(Claim::at(&GC_5, WHO, Weight::Weak, seen).group("gcp-server"));
        }
    } else if (via || front)
        && facts.is_json()
        && !facts.body.is_empty()
        && !facts.says("quota exceeded for quota metric")
    {
        let seen = "Google's front and a body that is not the load balancer's page";
        sheet.add(Claim::behind(&GC_4, WHO, Weight::Medium, seen).group("gcp-page"));
    } else if facts.says("resource_exhausted") && facts.says("quota exceeded for quota metric") {
        // The proxy of API Gateway and Endpoints answers in this form before the backend.
        let flat = facts.json().next().is_some_and(|f| f.depth == 1);
        if flat {
            sheet.add(
                Claim::at(
                    &GC_3,
                    WHO,
                    Weight::Strong,
                    "RESOURCE_EXHAUSTED: Quota exceeded for quota metric",
                )
                .group("gcp-page")
                .signs_body()
                .reached(Tri::No)
                .limit(LimitType::Quota, 0.7),
            );
        }
    }
}

fn rate(claim: Claim) -> Claim {
    claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests)
}

/// `<title>429</title>429 Too Many Requests`, the load balancer's page.
fn is_balancer_page(facts: &Facts<'_>) -> bool {
    let title = format!("<title>{0}</title>{0} ", facts.status);
    facts.body.len() < 400
        && facts.says("<meta name=viewport content=")
        && facts.lower().contains(&title)
}
