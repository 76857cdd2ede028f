//! Signatures of limiters inside applications and of application servers: a file per family, a
//! line in [`ALL`].
//!
//! A hit means that the application process answered. What a framework writes on each of its
//! answers counts too: no proxy or gateway writes it on a refusal of its own.

mod aspnet;
mod error_body;
mod express;
mod fastify;
mod frameworks;
mod go_limiters;
mod governor;
mod java;
mod php;
mod problem;
mod protocols;
mod python;
mod ruby;
mod wording;

use super::LimitType;
use super::claim::Signature;
use super::facts::Facts;

/// Every signature of an application's own limiter.
pub(super) static ALL: &[&Signature] = &[
    &aspnet::SIGNATURE,
    &error_body::SIGNATURE,
    &express::SIGNATURE,
    &fastify::SIGNATURE,
    &frameworks::SIGNATURE,
    &go_limiters::SIGNATURE,
    &governor::SIGNATURE,
    &java::SIGNATURE,
    &php::SIGNATURE,
    &problem::SIGNATURE,
    &protocols::SIGNATURE,
    &python::SIGNATURE,
    &ruby::SIGNATURE,
    &wording::SIGNATURE,
];

/// Whether a limiter's three usual fields are there, in the spelling with `x-ratelimit-`.
fn has_limit_fields(facts: &Facts<'_>) -> bool {
    facts.has("x-ratelimit-limit") && facts.has("x-ratelimit-remaining")
}

/// The kind of limit that a window in words stands for: a day or longer is an allowance.
fn kind_of_window(text: &str) -> LimitType {
    let long = ["day", "week", "month", "year"];
    if long.iter().any(|word| text.contains(word)) { LimitType::Quota } else { LimitType::Rate }
}
