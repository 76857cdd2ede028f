//! What gateways and the origin wrote down about a request themselves: the strongest evidence of
//! who answered, and the only evidence of hidden retries.
//!
//! - [`LogFacts`]: one line of an access log, as far as it tells something. `ingest::access_log`
//!   makes them, a file per product reads them here (`nginx`, `haproxy`, …).
//! - [`Trail`]: the lines of one request, hop by hop from the client's side inwards.
//! - [`conclude`]: follows the trail until a hop says that it answered by itself.
//!
//! The rules were measured against origins that logged the truth (`docs/access-logs.md`); where a
//! field looks decisive and lied there, it is not asked.

mod apache;
mod aws;
mod caddy;
mod cloudflare;
mod cloudfront;
mod envoy;
mod finding;
mod haproxy;
mod kong;
mod nginx;
mod squid;
mod traefik;
mod trafficserver;
mod trail;
mod varnish;
mod workerd;

pub(crate) use finding::{Finding, Told, read};
pub(crate) use trail::{Conclusion, Step, conclude};

use super::classify::Responder;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What one line of a product's access log tells about one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFacts {
    /// The product that wrote the line; `unknown` for a format that several products share.
    pub product: Responder,
    /// Status code that it sent to its own client.
    pub status: Option<u16>,
    /// Fields that rules read, under the names of `docs/access-logs.md`. An empty value says that
    /// the field was logged and held nothing; a field that is not here was not logged.
    pub fields: Vec<(Cow<'static, str>, String)>,
}

impl LogFacts {
    /// Whether the line tells of more than a request that was served at the first try.
    pub fn is_telling(&self) -> bool {
        self.status.is_none_or(|status| status >= 400)
            || finding::read(self).is_some_and(|finding| {
                finding.limit.is_some() || finding.tries.is_some_and(|tries| tries > 1)
            })
    }

    /// A field as it was logged: `Some("")` where it was logged empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// A field that was logged and holds something.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Whether a field was logged.
    pub(crate) fn logs(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A field as a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// A field as a count.
    pub(crate) fn count(&self, name: &str) -> Option<u32> {
        self.value(name)?.trim().parse().ok()
    }

    /// A field as a status code; `000` and what is no code are none.
    pub(crate) fn code(&self, name: &str) -> Option<u16> {
        self.value(name).and_then(code)
    }

    /// Fields with their values, to show what a rule looked at.
    pub(crate) fn quote(&self, names: &[&str]) -> String {
        let shown = |name: &&str| {
            let value = self.get(name)?;
            let value: String = value.chars().take(80).collect();
            Some(format!("{name}={}", if value.is_empty() { "-" } else { value.as_str() }))
        };
        let fields: Vec<String> = names.iter().filter_map(shown).collect();
        format!("{} access log: {}", self.product, fields.join(" "))
    }
}

/// A status code that a server may send, also with its words behind it (`429 Too Many Requests`).
fn code(text: &str) -> Option<u16> {
    let (number, words) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let is_reason = words.is_empty() || words.trim_start().starts_with(|c: char| c.is_alphabetic());
    number.parse().ok().filter(|code| is_reason && (100..1000).contains(code))
}

/// What is known of one request from logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trail {
    /// The hops whose lines are at hand, from the client's side inwards; each with its lines for
    /// this request in the order they were written. A hop has several where the one before it
    /// tried again.
    pub hops: Vec<Vec<LogFacts>>,
    /// The origin's own record.
    pub origin: Option<OriginRecord>,
}

impl Trail {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty() && self.origin.is_none()
    }
}

/// What the origin's own log or span says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginRecord {
    /// Whether it saw the request; "no" needs a log that is known to be complete.
    pub saw: bool,
    /// What it answered, in order; `None` where it sent no answer.
    pub statuses: Vec<Option<u16>>,
}

impl OriginRecord {
    /// Whether it gave this answer.
    pub(crate) fn answered(&self, status: u16) -> bool {
        self.saw && self.statuses.contains(&Some(status))
    }

    /// Whether it gave any answer.
    pub(crate) fn has_answered(&self) -> bool {
        self.saw && self.statuses.iter().any(Option::is_some)
    }
}
