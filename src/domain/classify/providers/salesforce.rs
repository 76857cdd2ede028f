//! Salesforce: the day's allowance of an organisation comes as 403, requests in flight as 503.

use super::{Api, Code, concurrency, json_code, overload, quota, xml_code};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, LimitUnit, Responder, Weight};

const DOCS: &str =
    "https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm";
static SF_1: Rule = Rule::new("SF-1", DOCS);
static SF_2: Rule = Rule::new(
    "SF-2",
    "https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm",
);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "salesforce", rules: &[&SF_1, &SF_2], look };

const API: Api =
    Api { name: "salesforce", domains: &["salesforce.com", "force.com", "database.com"] };

const CODES: &[Code] = &[
    concurrency("ConcurrentPerOrgLongTxn"),
    concurrency("ConcurrentRequests"),
    quota("REQUEST_LIMIT_EXCEEDED"),
    overload("SERVER_UNAVAILABLE"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let usage = facts.get("sforce-limit-info");
    if let Some(usage) = usage {
        let weight = API.weigh(facts, Weight::Strong);
        let mut claim =
            Claim::at(&SF_2, Responder::Origin, weight, format!("sforce-limit-info: {usage}"))
                .provider("salesforce");
        let spent = usage.split_once("api-usage=").and_then(|(_, rest)| rest.split_once('/')).is_some_and(
            |(used, size)| {
                let size: String = size.chars().take_while(char::is_ascii_digit).collect();
                matches!((used.parse::<u64>(), size.parse::<u64>()), (Ok(used), Ok(size)) if used >= size)
            },
        );
        if spent && facts.status >= 400 {
            claim = claim.limit(LimitType::Quota, 0.9).unit(LimitUnit::Requests);
        }
        sheet.add(claim);
    }
    if facts.status < 400 {
        return;
    }
    let is_list = facts.body.starts_with('[');
    let code = json_code(facts, CODES).or_else(|| xml_code(facts, CODES));
    let Some(code) = code else { return };
    // The list with `errorCode` is this API's form also on a host of one's own.
    if !API.owns(facts) && usage.is_none() && !(is_list && code.word == "REQUEST_LIMIT_EXCEEDED") {
        return;
    }
    let weight = if API.owns(facts) { Weight::Strong } else { Weight::Medium };
    // One code for both: the text before "Limit exceeded" is a documented name of the limit.
    let is_in_flight = facts.says("concurrentrequests") || facts.says("concurrentperorglongtxn");
    let kind = if is_in_flight { LimitType::Concurrency } else { code.kind };
    sheet.add(
        Claim::at(&SF_1, Responder::Origin, weight, format!("the documented code {}", code.word))
            .limit(kind, 0.95)
            .unit(if is_in_flight { LimitUnit::Concurrency } else { LimitUnit::Requests })
            .provider("salesforce"),
    );
}
