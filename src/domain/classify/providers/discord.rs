//! Discord: buckets with a scope; blocks by its CDN come in the API's own form.

use super::{Api, Code, json_code, overload, rate};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str = "https://docs.discord.com/developers/topics/rate-limits";
const CODES_PAGE: &str =
    "https://docs.discord.com/developers/topics/opcodes-and-status-codes#json-json-error-codes";
static DC_1: Rule = Rule::new("DC-1", DOCS);
static DC_2: Rule = Rule::new("DC-2", DOCS);
static DC_3: Rule = Rule::new("DC-3", CODES_PAGE);
static DC_4: Rule = Rule::new("DC-4", CODES_PAGE);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "discord", rules: &[&DC_1, &DC_2, &DC_3, &DC_4], look };

const API: Api = Api { name: "discord", domains: &["discord.com", "discordapp.com"] };

/// Documented codes of limits; the 30000s are limits of stored things and no matter of waiting.
const CODES: &[Code] = &[
    rate("20016"),
    rate("20022"),
    rate("20028"),
    rate("20029"),
    rate("40003"),
    rate("40062"),
    overload("130000"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let is_owned = API.owns(facts);
    if is_owned && facts.json_value("code") == Some("40333") {
        // Documented as a block by Cloudflare, in spite of the JSON.
        sheet.add(
            Claim::at(
                &DC_4,
                Responder::Cloudflare,
                Weight::Strong,
                "code 40333: the CDN blocks the client",
            )
            .limit(LimitType::Security, 0.95)
            .provider("discord"),
        );
        sheet.add(
            Claim::at(
                &DC_4,
                Responder::Cloudflare,
                Weight::Medium,
                "its JSON body is the CDN's custom one",
            )
            .group("discord-40333"),
        );
        return;
    }
    if facts.status == 429
        && let Some(scope) = facts.get("x-ratelimit-scope")
        && matches!(scope, "user" | "global" | "shared")
    {
        let weight = API.weigh(facts, Weight::Proof);
        sheet.add(
            Claim::at(&DC_1, Responder::Origin, weight, facts.quote("x-ratelimit-scope"))
                .limit(LimitType::Rate, 0.95)
                .unit(LimitUnit::Requests)
                .provider("discord"),
        );
    } else if facts.has("x-ratelimit-bucket") && facts.has("x-ratelimit-reset-after") {
        let weight = API.weigh(facts, Weight::Proof);
        let mut claim =
            Claim::at(&DC_1, Responder::Origin, weight, facts.quote("x-ratelimit-bucket"))
                .provider("discord");
        if facts.status == 429 {
            claim = claim.limit(LimitType::Rate, 0.95).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    if !is_owned || facts.status < 400 {
        return;
    }
    let has_wait = facts.json_value("retry_after").is_some();
    let has_global = facts.json_value("global").is_some();
    if facts.status == 429 && (has_wait || has_global) {
        let weight = if has_wait && has_global { Weight::Strong } else { Weight::Medium };
        sheet.add(
            Claim::at(
                &DC_2,
                Responder::Origin,
                weight,
                "the body has the documented fields of its refusal",
            )
            .limit(LimitType::Rate, 0.9)
            .unit(LimitUnit::Requests)
            .provider("discord"),
        );
    }
    if let Some(code) = json_code(facts, CODES) {
        sheet.add(
            Claim::at(
                &DC_3,
                Responder::Origin,
                Weight::Strong,
                format!("the body holds the code {}", code.word),
            )
            .limit(code.kind, 0.9)
            .unit(code.unit)
            .provider("discord"),
        );
    }
}
