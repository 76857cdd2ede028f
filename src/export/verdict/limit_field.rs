//! The rate-limit fields of one response, for JSON and for text.

use super::advice::number;
use crate::domain::headers::{self, FieldKind, FieldUnit, LimitField};
use crate::domain::response::Response;
use crate::domain::time::Millis;
use serde::Serialize;
use std::fmt::Write as _;

/// Most fields that are shown of one response.
const SHOWN: usize = 48;

/// One rate-limit field as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitFieldView {
    /// Field name in lower case.
    pub header: String,
    /// The value as it came, shortened.
    pub raw: String,
    /// What it states.
    pub kind: FieldKind,
    /// Whose documentation gives it this meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<&'static str>,
    /// What the number counts; `unknown` where no documentation of this host tells.
    pub unit: FieldUnit,
    /// The number, in the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Seconds from the response to the reset or to the end of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_in_seconds: Option<f64>,
    /// Seconds that the allowance is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<f64>,
    /// Name of the policy, bucket or throttler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What a reader should know about this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Every rate-limit field of a response, `Retry-After` aside.
pub fn views(response: &Response) -> Vec<LimitFieldView> {
    let host = response.request.host.as_deref();
    headers::read(&response.headers, host, response.observed_at)
        .into_iter()
        .filter(|field| field.header != "retry-after")
        .take(SHOWN)
        .map(view)
        .collect()
}

fn view(field: LimitField) -> LimitFieldView {
    LimitFieldView {
        header: field.header,
        raw: field.raw.chars().take(200).collect(),
        kind: field.kind,
        owner: field.owner,
        unit: field.unit,
        value: field.value,
        reset_in_seconds: field.reset_in.map(Millis::as_secs_f64),
        window_seconds: field.window.map(Millis::as_secs_f64),
        policy: field.policy,
        note: field.note,
    }
}

impl LimitFieldView {
    /// The field in a line.
    pub fn line(&self) -> String {
        let mut line = format!("{}: {} ({}", self.header, self.raw, self.kind);
        let unit = match self.unit {
            FieldUnit::Unknown => "unit unknown",
            unit => unit.as_str(),
        };
        if !matches!(self.kind, FieldKind::Reason | FieldKind::Scope | FieldKind::Retryable) {
            line.push_str(", ");
            line.push_str(unit);
        }
        if let Some(seconds) = self.reset_in_seconds {
            write!(line, ", in {} s", number(seconds)).ok();
        }
        if let Some(seconds) = self.window_seconds {
            write!(line, ", for {} s", number(seconds)).ok();
        }
        if let Some(owner) = self.owner {
            write!(line, ", documented by {owner}").ok();
        }
        line.push(')');
        if let Some(note) = &self.note {
            write!(line, ": {note}").ok();
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_says_its_unit_or_that_it_is_not_known() {
        let mut response = Response {
            headers: [
                ("x-ratelimit-reset", "1794382200"),
                ("date", "Wed, 11 Nov 2026 07:29:00 GMT"),
            ]
            .into_iter()
            .collect(),
            ..Response::default()
        };
        response.request.host = Some("api.github.com".to_owned());
        let shown = views(&response);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].reset_in_seconds, Some(60.0));
        assert!(shown[0].line().contains("in 60 s"), "{}", shown[0].line());
    }
}
