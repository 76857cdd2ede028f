//! One stored attempt as lists show it, and in full as the API writes it.

use super::address;
use super::model::Stamp;
use super::words;
use crate::domain::classify::{Certainty, Layer, LimitType, Responder};
use crate::domain::event::{AttemptError, Event, Outcome, RetryLayer, Vantage};
use crate::domain::spans::Marks;
use crate::domain::stored::StoredEvent;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// One stored attempt, as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AttemptOut {
    /// Id of the event.
    pub event_id: String,
    /// Operation it belongs to.
    pub operation_id: Option<String>,
    /// Number in its operation, from 1.
    pub attempt: u32,
    /// When the request was sent.
    pub occurred_at: Stamp,
    /// When it was stored.
    pub received_at: Stamp,
    /// Time from sending to the answer.
    pub duration_ms: Option<i64>,
    /// Who saw it.
    pub vantage: Vantage,
    /// The calling service.
    pub service: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// The upstream host.
    pub upstream: String,
    /// Method.
    pub method: Option<String>,
    /// Route template.
    pub route: Option<String>,
    /// Who re-sent it.
    pub retry_layer: Option<RetryLayer>,
    /// Status code of the answer.
    pub status: Option<u16>,
    /// Why there was no usable answer.
    pub error: Option<AttemptError>,
    /// How the client went on.
    pub outcome: Option<Outcome>,
    /// How many identical attempts it stands for.
    pub count: u32,
    /// Whether a limit refused it.
    pub limited: bool,
    /// Who wrote the answer.
    pub returned_by: Responder,
    /// The layer of that component.
    pub layer: Layer,
    /// The word for the confidence in `returned_by`.
    pub certainty: Certainty,
    /// What kind of limit.
    pub limit_type: LimitType,
    /// Wait that the answer promised.
    pub promised_ms: Option<i64>,
    /// Wait that the client chose after it.
    pub chosen_ms: Option<i64>,
    /// How number and operation were derived from spans; null where the sender told them.
    #[schema(value_type = Option<Object>)]
    pub derived: Option<Box<Marks>>,
    /// Address of its page.
    pub page: String,
    /// Address of its operation's page.
    pub operation_page: Option<String>,
}

impl From<&StoredEvent> for AttemptOut {
    fn from(stored: &StoredEvent) -> Self {
        let (event, verdict) = (&stored.event, &stored.verdict);
        Self {
            event_id: event.event_id.clone(),
            operation_id: event.operation_id.clone(),
            attempt: event.attempt,
            occurred_at: Stamp(event.occurred_at),
            received_at: Stamp(stored.received_at),
            duration_ms: event.duration_ms,
            vantage: event.vantage,
            service: event.service.clone(),
            environment: event.environment.clone(),
            upstream: event.host.clone(),
            method: event.method.clone(),
            route: event.route.clone(),
            retry_layer: event.retry_layer,
            status: event.status,
            error: event.error,
            outcome: event.outcome,
            count: event.count,
            limited: verdict.limited,
            returned_by: verdict.returned_by,
            layer: verdict.layer,
            certainty: verdict.outcome,
            limit_type: verdict.limit_type,
            promised_ms: verdict.promised_ms,
            chosen_ms: event.computed_delay_ms,
            derived: event.derived.clone(),
            page: address::event(&event.event_id),
            operation_page: event.operation_id.as_deref().map(address::operation),
        }
    }
}

impl AttemptOut {
    /// The status code or the word of the error.
    pub fn answer(&self) -> String {
        match (self.status, self.error) {
            (Some(status), None) => status.to_string(),
            (Some(status), Some(error)) => format!("{status}, {error}"),
            (None, Some(error)) => error.as_str().to_owned(),
            (None, None) => "none".to_owned(),
        }
    }

    /// The kind of badge that goes with the answer.
    pub fn badge(&self) -> &'static str {
        if self.limited {
            "limited"
        } else if self.is_served() {
            "served"
        } else {
            "fail"
        }
    }

    /// The word of that badge.
    pub fn badge_word(&self) -> &'static str {
        if self.limited {
            "limited"
        } else if self.is_served() {
            "served"
        } else {
            "failed"
        }
    }

    /// Whether it ended well.
    pub fn is_served(&self) -> bool {
        self.error.is_none()
            && !self.limited
            && self.status.is_some_and(|status| (100..400).contains(&status))
    }

    /// Who answered, with the word for its confidence; nothing for served attempts.
    pub fn responder(&self) -> String {
        match self.certainty {
            Certainty::Unknown => "unknown".to_owned(),
            certainty => format!("{}, {certainty}", self.returned_by),
        }
    }

    /// `POST /v1/orders/{id}`, as far as it is known.
    pub fn request(&self) -> String {
        let parts: Vec<&str> =
            [self.method.as_deref(), self.route.as_deref()].into_iter().flatten().collect();
        if parts.is_empty() { "\u{2013}".to_owned() } else { parts.join(" ") }
    }

    /// The promised wait, worded.
    pub fn promised(&self) -> String {
        words::length_or_dash(self.promised_ms)
    }

    /// The duration, worded.
    pub fn duration(&self) -> String {
        words::length_or_dash(self.duration_ms)
    }

    /// ` × 12` where the event stands for several attempts.
    pub fn times(&self) -> String {
        if self.count > 1 {
            format!(" \u{d7} {}", words::count(i64::from(self.count)))
        } else {
            String::new()
        }
    }
}

/// An event in the form in which senders write it (DESIGN 4): RFC 3339 times, header fields as an
/// object, absent fields left out. Posting it again changes nothing.
pub fn native(event: &Event) -> Value {
    let mut members = match serde_json::to_value(event) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    members.retain(|_, value| !value.is_null());
    members.insert("occurred_at".to_owned(), Value::String(event.occurred_at.to_rfc3339()));
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &event.headers {
        let value = Value::String(value.clone());
        match headers.get_mut(name) {
            None => {
                headers.insert(name.clone(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    if headers.is_empty() {
        members.remove("headers");
    } else {
        members.insert("headers".to_owned(), Value::Object(headers));
    }
    if event.redactions == 0 {
        members.remove("redactions");
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::pages::samples;

    #[test]
    fn an_event_is_written_as_senders_write_it() {
        let mut stored = samples::attempt("e", "o", 2, 0);
        stored.event.headers.push(("ratelimit".into(), "a".into()));
        stored.event.headers.push(("ratelimit".into(), "b".into()));
        stored.event.headers.push(("ratelimit".into(), "c".into()));
        let value = native(&stored.event);
        assert_eq!(value["occurred_at"], "2026-11-11T07:00:00.000Z");
        assert_eq!(value["headers"]["server"], "cloudflare");
        assert_eq!(value["headers"]["ratelimit"], serde_json::json!(["a", "b", "c"]));
        assert_eq!(value["retry_layer"], "sdk");
        assert!(value.get("error").is_none() && value.get("redactions").is_none());
    }
}
