//! Meta's Graph API: numeric codes with 400 or 403, usage in percent.

use super::{Api, Code, rate, security};
use crate::domain::classify::claim::{Claim, Rule, Sheet, Signature};
use crate::domain::classify::facts::Facts;
use crate::domain::classify::{LimitType, Responder, Weight};

const DOCS: &str = "https://developers.facebook.com/docs/graph-api/overview/rate-limiting/";
static ME_1: Rule = Rule::new("ME-1", DOCS);
static ME_2: Rule = Rule::new("ME-2", DOCS);
static ME_3: Rule = Rule::new(
    "ME-3",
    "https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes/",
);

pub(crate) static SIGNATURE: Signature =
    Signature { id: "meta", rules: &[&ME_1, &ME_2, &ME_3], look };

/// The codes of messaging, which have a reference of their own.
const WHATSAPP: &[&str] = &["80007", "130429", "131056"];

const API: Api = Api {
    name: "meta",
    domains: &[
        "graph.facebook.com",
        "graph.instagram.com",
        "graph.threads.net",
        "api.facebook.com",
    ],
};

/// Codes of the application, the user, the page and of business use cases.
const CODES: &[Code] = &[
    rate("4"),
    rate("17"),
    rate("32"),
    rate("613"),
    rate("80000"),
    rate("80001"),
    rate("80002"),
    rate("80003"),
    rate("80004"),
    rate("80005"),
    rate("80006"),
    rate("80007"),
    rate("80008"),
    rate("80009"),
    rate("80014"),
    rate("130429"),
    rate("131056"),
    security("368"),
];

fn look(facts: &Facts<'_>, sheet: &mut Sheet) {
    let usage = ["x-app-usage", "x-business-use-case-usage", "x-ad-account-usage", "x-page-usage"]
        .into_iter()
        .find(|name| facts.has(name));
    if let Some(name) = usage {
        let weight = API.weigh(facts, Weight::Strong);
        sheet.add(
            Claim::at(&ME_2, Responder::Origin, weight, format!("{name} is set")).provider("meta"),
        );
    }
    let is_form = facts.json_value("fbtrace_id").is_some();
    if facts.status < 400 || !(API.owns(facts) || is_form || usage.is_some()) {
        return;
    }
    let number = facts.json().find(|f| f.key == "code" && !f.is_text).map(|f| f.value);
    let code = CODES.iter().find(|code| Some(code.word) == number);
    if let Some(code) = code {
        let weight = if API.owns(facts) || is_form { Weight::Strong } else { Weight::Medium };
        let rule = if WHATSAPP.contains(&code.word) { &ME_3 } else { &ME_1 };
        sheet.add(
            Claim::at(rule, Responder::Origin, weight, format!("error code {}", code.word))
                .limit(code.kind, if code.kind == LimitType::Rate { 0.9 } else { 0.85 })
                .unit(code.unit)
                .provider("meta"),
        );
    }
}
