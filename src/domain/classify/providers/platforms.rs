//! The APIs of hosting platforms themselves (not the sites they host). Heroku's router
//! tells its error codes in the platform's log alone, so no response shows them.

use super::{Api, Code, json_code, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

static PL_1: Rule =
    Rule::new("PL-1", "https://developers.cloudflare.com/fundamentals/api/reference/limits/");
static PL_2: Rule =
    Rule::new("PL-2", "https://www.fastly.com/documentation/reference/api/#rate-limiting");
static PL_3: Rule = Rule::new("PL-3", "https://docs.netlify.com/api/get-started/#rate-limiting");
static PL_4: Rule =
    Rule::new("PL-4", "https://vercel.com/docs/rest-api/reference/welcome#rate-limits");
static PL_5: Rule =
    Rule::new("PL-5", "https://devcenter.heroku.com/articles/platform-api-reference#rate-limits");
static PL_8: Rule = Rule::new("PL-8", "digitalocean/openapi specification/shared/headers.yml");

pub(crate) static SIGNATURE: Signature =
    Signature { id: "platform-apis", rules: &[&PL_1, &PL_2, &PL_3, &PL_4, &PL_5, &PL_8], look };

/// An API with the limiter field that its documentation names.
struct Platform {
    api: Api,
    rule: &'static Rule,
    field: &'static str,
}

const PLATFORMS: &[Platform] = &[
    Platform {
        api: Api { name: "cloudflare", domains: &["api.cloudflare.com"] },
        rule: &PL_1,
        field: "ratelimit",
    },
    Platform {
        api: Api { name: "fastly", domains: &["api.fastly.com"] },
        rule: &PL_2,
        field: "fastly-ratelimit-remaining",
    },
    Platform {
        api: Api { name: "netlify", domains: &["api.netlify.com"] },
        rule: &PL_3,
        field: "x-ratelimit-remaining",
    },
    Platform {
        api: Api { name: "vercel", domains: &["api.vercel.com"] },
        rule: &PL_4,
        field: "x-ratelimit-remaining",
    },
    Platform {
        api: Api { name: "heroku", domains: &["api.heroku.com"] },
        rule: &PL_5,
        field: "ratelimit-remaining",
    },
    Platform {
        api: Api { name: "digitalocean", domains: &["api.digitalocean.com"] },
        rule: &PL_8,
        field: "ratelimit-remaining",
    },
];

const CODES: &[Code] = &[rate("rate_limit"), rate("rate_limited"), rate("too_many_requests")];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    if facts.status != 429 {
        return;
    }
    let Some(platform) = PLATFORMS.iter().find(|p| p.api.domains.iter().any(|d| facts.host_in(d)))
    else {
        return;
    };
    let code = json_code(facts, CODES);
    if facts.has(platform.field) {
        sheet.add(
            Claim::at(
                platform.rule,
                Responder::Origin,
                Weight::Strong,
                facts.quote(platform.field),
            )
            .limit(LimitType::Rate, 0.9)
            .unit(LimitUnit::Requests)
            .provider(platform.api.name),
        );
    }
    if let Some(code) = code {
        sheet.add(
            Claim::at(
                platform.rule,
                Responder::Origin,
                Weight::Strong,
                format!("the body holds the code {}", code.word),
            )
            .group("platform-code")
            .limit(LimitType::Rate, 0.95)
            .unit(LimitUnit::Requests)
            .provider(platform.api.name),
        );
    }
}
