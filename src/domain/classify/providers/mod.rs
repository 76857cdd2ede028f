//! Signatures of API providers: refusals that the provider's own documentation describes.
//!
//! The responder is `origin`, with the provider beside it. A provider's name comes from the host,
//! from what the sender states, or from a header that only this provider writes. Codes count as
//! whole values, never as parts of a sentence; sentences count only where the provider documents
//! no code.

mod acme;
mod anthropic;
mod atlassian;
mod aws;
mod discord;
mod documented;
mod github;
mod gitlab;
mod google;
mod meta;
mod microsoft;
mod openai;
mod platforms;
mod reddit;
mod salesforce;
mod shopify;
mod slack;
mod stated;
mod stripe;
mod twilio;
mod x;

use super::claim::Signature;
use super::facts::Facts;
use super::{LimitType, LimitUnit, Weight};

/// Every signature of a provider.
pub(super) static ALL: &[&Signature] = &[
    &acme::SIGNATURE,
    &anthropic::SIGNATURE,
    &atlassian::SIGNATURE,
    &aws::SIGNATURE,
    &discord::SIGNATURE,
    &documented::SIGNATURE,
    &github::SIGNATURE,
    &gitlab::SIGNATURE,
    &google::SIGNATURE,
    &meta::SIGNATURE,
    &microsoft::SIGNATURE,
    &openai::SIGNATURE,
    &platforms::SIGNATURE,
    &reddit::SIGNATURE,
    &salesforce::SIGNATURE,
    &shopify::SIGNATURE,
    &slack::SIGNATURE,
    &stated::SIGNATURE,
    &stripe::SIGNATURE,
    &twilio::SIGNATURE,
    &x::SIGNATURE,
];

/// The owner of an API and the hosts that its documentation names.
#[derive(Debug)]
struct Api {
    /// One word per provider.
    name: &'static str,
    /// Domains in lower case; hosts below them belong too.
    domains: &'static [&'static str],
}

impl Api {
    /// Whether the request went to this provider, by its host or by what the sender states.
    fn owns(&self, facts: &Facts<'_>) -> bool {
        self.is_stated(facts) || self.domains.iter().any(|domain| facts.host_in(domain))
    }

    /// Whether the sender names this provider, alone or with a product (`azure-openai`).
    fn is_stated(&self, facts: &Facts<'_>) -> bool {
        facts.response.provider.as_deref().is_some_and(|stated| {
            stated
                .strip_prefix(self.name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    }

    /// The weight of a mark that only this provider writes: one class lower elsewhere, since
    /// gateways and test doubles copy headers.
    fn weigh(&self, facts: &Facts<'_>, weight: Weight) -> Weight {
        if self.owns(facts) { weight } else { weight.lowered() }
    }
}

/// A documented machine-readable code and the limit it stands for.
#[derive(Debug, Clone, Copy)]
struct Code {
    word: &'static str,
    kind: LimitType,
    unit: LimitUnit,
}

const fn rate(word: &'static str) -> Code {
    Code { word, kind: LimitType::Rate, unit: LimitUnit::Requests }
}

const fn quota(word: &'static str) -> Code {
    Code { word, kind: LimitType::Quota, unit: LimitUnit::Unknown }
}

const fn concurrency(word: &'static str) -> Code {
    Code { word, kind: LimitType::Concurrency, unit: LimitUnit::Concurrency }
}

const fn overload(word: &'static str) -> Code {
    Code { word, kind: LimitType::Overload, unit: LimitUnit::Unknown }
}

const fn security(word: &'static str) -> Code {
    Code { word, kind: LimitType::Security, unit: LimitUnit::Unknown }
}

/// Keys whose values are prose for people.
const PROSE: &[&str] = &["message", "msg", "detail", "details", "description", "error_description"];

/// The first of `codes` that a JSON body holds as a whole value, letter case aside; a number
/// counts as its digits. Order the list by what decides when several are there.
fn json_code<'c>(facts: &Facts<'_>, codes: &'c [Code]) -> Option<&'c Code> {
    if !facts.is_json() {
        return None;
    }
    let holds = |code: &&Code| {
        facts.json().any(|field| {
            !(field.is_text && PROSE.contains(&field.key))
                && bare_code(field.value).eq_ignore_ascii_case(code.word)
        })
    };
    codes.iter().find(holds)
}

/// A code without the name space in front of it and the address behind it
/// (`com.example#Throttling:http://…`).
fn bare_code(value: &str) -> &str {
    let value = value.rsplit('#').next().unwrap_or(value);
    value.split(':').next().unwrap_or(value)
}

/// The text of the first XML element `<name>`, letter case aside.
fn xml_text<'a>(facts: &'a Facts<'_>, name: &str) -> Option<&'a str> {
    if !facts.body.starts_with('<') {
        return None;
    }
    let (_, rest) = facts.lower().split_once(&format!("<{name}>"))?;
    Some(rest.split('<').next().unwrap_or_default().trim())
}

/// The first of `codes` that an XML body holds in `<Code>`, letter case aside.
fn xml_code<'c>(facts: &Facts<'_>, codes: &'c [Code]) -> Option<&'c Code> {
    let text = xml_text(facts, "code")?;
    codes.iter().find(|code| code.word.eq_ignore_ascii_case(text))
}
