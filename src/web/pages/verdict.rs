//! One verdict as pages show it: the sentence first, then evidence, then what to do.

use crate::domain::classify::{Evidence, Responder, Verdict, Weight, classify};
use crate::domain::response::Response;
use crate::domain::{headers, retry_after};
use crate::export::verdict::advice::{Advice, advice};
use crate::export::verdict::{product, text};
use std::fmt::Write as _;

/// A header field that says something about a limit, and how it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldView {
    /// Field name.
    pub header: String,
    /// Its value as it came.
    pub raw: String,
    /// What it states, in words.
    pub meaning: String,
}

/// A verdict with all that its part of a page shows.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictView {
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub headline: String,
    /// Numbers and words in short: label and value.
    pub facts: Vec<(&'static str, String)>,
    /// What to do and what to leave alone.
    pub advice: Advice,
    /// Header fields that speak of limits.
    pub fields: Vec<FieldView>,
    /// Hops from the client's side inwards, by their makers' names.
    pub hops: String,
}

/// A number without trailing zeros: `30`, `0.25`.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds(value: Option<f64>) -> Option<String> {
    value.map(|seconds| format!("{} s", number(seconds)))
}

impl VerdictView {
    /// Judges `response` and words the result.
    pub fn of(response: &Response) -> Self {
        let verdict = classify(response);
        Self::worded(response, verdict)
    }

    fn worded(response: &Response, verdict: Verdict) -> Self {
        let mut facts = vec![
            ("Returned by", format!("{} ({})", product(verdict.returned_by), verdict.returned_by)),
            ("Layer", verdict.layer.to_string()),
            ("Confidence", format!("{}, {}", verdict.outcome, number(verdict.confidence))),
            ("Limited", if verdict.limited { "yes" } else { "no" }.to_owned()),
            (
                "Limit type",
                if verdict.limited {
                    format!("{}, {}", verdict.limit_type, number(verdict.limit_type_confidence))
                } else {
                    "\u{2013}".to_owned()
                },
            ),
            ("Limit counts", verdict.limit_unit.to_string()),
            ("Reached the origin", verdict.reached_origin.to_string()),
        ];
        if let Some(provider) = &verdict.provider {
            facts.push(("API of", provider.clone()));
        }
        if let Some(retries) = verdict.hidden_retries {
            facts.push(("Sent again by a hop", retries.to_string()));
        }
        let waits = [
            ("Retry-After, strict", verdict.retry_after_seconds),
            ("Retry-After, what was left", verdict.retry_after_remaining_seconds),
            ("Retry-After, most likely meant", verdict.retry_after_lenient_seconds),
        ];
        for (label, value) in waits {
            if let Some(text) = seconds(value) {
                facts.push((label, text));
            }
        }
        if !verdict.retry_after_flags.is_empty() {
            facts.push(("Retry-After flags", verdict.retry_after_flags.join(", ")));
        }
        let hops: Vec<&str> = verdict.hops.iter().map(|hop| product(*hop)).collect();
        Self {
            headline: text::headline(response, &verdict),
            facts,
            // The datum to collect has a place of its own on the page.
            advice: advice(response, &Verdict { collect_next: None, ..verdict.clone() }),
            fields: fields(response),
            hops: hops.join(", then "),
            verdict,
        }
    }
}

/// Every header field that speaks of limits, and how it reads.
fn fields(response: &Response) -> Vec<FieldView> {
    let mut fields = Vec::new();
    let wait = retry_after::read(&response.headers, response.observed_at);
    for raw in &wait.raw {
        let meaning = match wait.strict {
            retry_after::Strict::Seconds(seconds) => format!("a wait of {seconds} s"),
            retry_after::Strict::Date(at) => {
                format!("a wait until {}, measured against {}", at.to_rfc3339(), wait.base)
            }
            _ => "not valid by RFC 9110".to_owned(),
        };
        let header = wait.field.clone().unwrap_or_else(|| "retry-after".to_owned());
        fields.push(FieldView { header, raw: raw.clone(), meaning });
    }
    let host = response.request.host.as_deref();
    for field in headers::read(&response.headers, host, response.observed_at) {
        if field.header == "retry-after" {
            continue;
        }
        let mut meaning = format!("{}, {}", field.kind, field.unit);
        if field.unit == headers::FieldUnit::Unknown {
            meaning = format!("{}, unit unknown", field.kind);
        }
        if let Some(value) = field.value {
            write!(meaning, ": {}", number(value)).ok();
        }
        if let Some(reset) = field.reset_in {
            write!(meaning, ", {} from the answer", super::words::length(reset)).ok();
        }
        if let Some(window) = field.window {
            write!(meaning, ", window {}", super::words::length(window)).ok();
        }
        if let Some(policy) = &field.policy {
            write!(meaning, ", policy {policy}").ok();
        }
        if let Some(owner) = field.owner {
            write!(meaning, ", as documented by {owner}").ok();
        }
        if let Some(note) = &field.note {
            write!(meaning, ". {note}").ok();
        }
        fields.push(FieldView { header: field.header, raw: field.raw, meaning });
    }
    fields
}

/// How much a piece of evidence weighs, in words.
pub fn weight(piece: &Evidence) -> &'static str {
    match piece.weight {
        Weight::None => "presence only",
        weight => weight.as_str(),
    }
}

/// What a piece of evidence says, in words.
pub fn says(piece: &Evidence) -> String {
    match piece.about {
        Responder::Unknown => piece.says.to_string(),
        about => format!("{} {}", piece.says, product(about)),
    }
}

/// A link to a source, where it is an address on the web that may be followed.
pub fn source_href(source: &str) -> Option<&str> {
    let is_plain = source.starts_with("https://")
        && source.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>'));
    is_plain.then_some(source)
}
