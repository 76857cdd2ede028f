//! From a span as it was sent to what is kept of it.
//!
//! What a span says about a request goes through the door of native events, so that header fields,
//! ids, keys and texts are let in, cleaned, redacted and hashed by one set of rules.

use super::{Decoded, Fault, Options};
use crate::domain::headers;
use crate::domain::redact;
use crate::domain::response::HeaderFields;
use crate::domain::retry_after;
use crate::domain::spans::hints::{self, SharedIdSource};
use crate::domain::spans::mapping::{self, Request, Sender};
use crate::domain::spans::{Attempt, Attributes, RawSpan, Role, Span, route, sdk};
use crate::ingest::native;
use serde::Serialize;

/// What is said of a service without a name (OpenTelemetry, "Semantic attributes with dedicated
/// environment variable").
const UNKNOWN_SERVICE: &str = "unknown_service";

/// What the sender says about itself.
pub(super) struct SenderFacts {
    pub(super) sender: Sender,
    pub(super) service: String,
}

impl SenderFacts {
    pub(super) fn of(resource: &Attributes) -> Self {
        let sender = Sender::of(resource);
        let service = sender.service.clone().unwrap_or_else(|| UNKNOWN_SERVICE.to_owned());
        Self { sender, service }
    }

    /// Whether it is this instance of this service.
    pub(super) fn is(&self, (service, instance): (&str, &str)) -> bool {
        self.service == service && self.sender.instance.as_deref() == Some(instance)
    }
}

/// The fields of a native event that a span can fill.
#[derive(Serialize)]
struct Draft<'a> {
    event_id: String,
    occurred_at: u64,
    duration_ms: u64,
    vantage: &'static str,
    service: &'a str,
    environment: Option<&'a str>,
    instance: Option<&'a str>,
    retry_layer: Option<&'static str>,
    method: Option<&'a str>,
    url: Option<&'a str>,
    host: Option<&'a str>,
    route: Option<&'a str>,
    status: Option<u16>,
    error: Option<&'static str>,
    error_code: Option<&'a str>,
    headers: Vec<(&'a str, &'a str)>,
    request_id: Option<&'a str>,
    ray_id: Option<&'a str>,
    key_hash: Option<&'a str>,
    key_kind: Option<&'static str>,
    idempotency_key_hash: Option<&'a str>,
    attempts_max: Option<u32>,
    trace_id: String,
    span_id: String,
    count: u32,
}

/// What is kept of `span`; the reason where nothing is.
pub(super) fn keep(
    span: &RawSpan,
    facts: &SenderFacts,
    scope: &str,
    options: &Options<'_>,
    decoded: &mut Decoded,
) -> Result<Span, Fault> {
    let start_us = hints::micros(span.start_ns);
    let mut kept = Span {
        key: span.key,
        parent: span.parent,
        start_us,
        end_us: hints::micros(span.end_ns).max(start_us),
        role: mapping::role(span),
        scope: short(scope),
        service: short(&facts.service),
        told_waits: hints::told_waits(&span.events),
        attempt: None,
    };
    if kept.role == Role::Context {
        return Ok(kept);
    }
    let mut request = mapping::request(span, scope);
    let has_host = request.url.is_some() || request.host.is_some();
    let is_named_after_service = kept.role == Role::Server && !has_host;
    if is_named_after_service {
        // Who answers is known, though not by which name it was called.
        request.host = Some(sdk::as_host(&facts.service));
    }
    let tells_enough = match kept.role {
        // A call of an SDK that doesn't tell its end is known by its attempts.
        Role::Sdk => has_host && (request.status.is_some() || request.error.is_some()),
        Role::Server => true,
        _ => has_host,
    };
    if tells_enough {
        let mut attempt = attempt(span, &request, facts, kept.role, options, decoded)?;
        attempt.is_named_after_service = is_named_after_service;
        kept.service.clone_from(&attempt.event.service);
        kept.attempt = Some(Box::new(attempt));
    } else if kept.role != Role::Sdk {
        // Nobody knows where it went.
        kept.role = Role::Context;
        decoded.reject(format!(
            "span {}: attributes: no url.full and no server.address: whom it called isn't told, so \
             that it is no attempt",
            span.key.span
        ));
    }
    Ok(kept)
}

/// A name as it is kept where it is no secret and of usual length.
fn short(text: &str) -> String {
    redact::owned(text.chars().take(200).collect()).text
}

fn attempt(
    span: &RawSpan,
    request: &Request,
    facts: &SenderFacts,
    role: Role,
    options: &Options<'_>,
    decoded: &mut Decoded,
) -> Result<Attempt, Fault> {
    let is_word =
        |method: &str| method.len() <= 20 && method.bytes().all(|b| b.is_ascii_alphabetic());
    let method = request.method.as_deref().map(|m| if is_word(m) { m } else { "OTHER" });
    // A path by itself is only of use beside a host.
    let path = request.path.as_deref().filter(|_| request.url.is_none());
    let is_server = role == Role::Server;
    let draft = Draft {
        event_id: span.key.to_string(),
        occurred_at: span.start_ns / 1_000_000,
        duration_ms: span.end_ns.saturating_sub(span.start_ns) / 1_000_000,
        vantage: if is_server { "origin" } else { "client" },
        service: &facts.service,
        environment: facts.sender.environment.as_deref(),
        instance: facts.sender.instance.as_deref(),
        retry_layer: (role == Role::Sdk).then_some("sdk"),
        method,
        url: request.url.as_deref(),
        host: request.host.as_deref().filter(|_| request.url.is_none()),
        route: path,
        status: request.status,
        error: request.error.map(crate::domain::event::AttemptError::as_str),
        error_code: request.error_code.as_deref(),
        headers: request
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
        request_id: request.request_id.as_deref(),
        ray_id: request.edge_id.as_deref(),
        key_hash: request.key.as_ref().map(|(key, _)| key.as_str()),
        key_kind: request.key.as_ref().map(|(_, kind)| *kind),
        idempotency_key_hash: request.idempotency_key.as_deref(),
        attempts_max: request.counter.and_then(|counter| counter.max),
        trace_id: span.key.trace.to_string(),
        span_id: span.key.span.to_string(),
        count: span.weight(),
    };
    let fault = |field: &'static str, error: String| Fault {
        span: Some(span.key.span.to_string()),
        field,
        error,
    };
    let (mut event, read) = native::admit(&draft, options.hasher).map_err(|reject| {
        let field = reject.field.unwrap_or_default();
        fault("attributes", format!("{field}: {}", reject.error))
    })?;
    decoded.redactions += read.redactions;
    decoded.dropped_headers += read.dropped_headers;
    decoded.shortened += read.shortened;
    let path = event.route.take();
    event.route = match &request.template {
        Some(template) => Some(redact::route(&template.chars().take(512).collect::<String>()).text),
        None => path.as_deref().map(route::normalised),
    };
    let shared_id = request.shared_id.as_ref().map(|(id, source)| match source {
        SharedIdSource::AmzInvocation => native::stored_id(id, options.hasher),
        SharedIdSource::IdempotencyKey => {
            event.idempotency_key_hash.clone().unwrap_or_else(|| options.hasher.hash(id))
        }
    });
    let location = mapping::location_path(&request.headers);
    Ok(Attempt {
        promised_ms: promised_ms(&event),
        // As the path it is compared with is kept.
        location: location
            .map(|location| redact::route(&location.chars().take(512).collect::<String>()).text),
        path,
        counter: request.counter,
        shared_id,
        resend_delay_ms: request.resend_delay_ms,
        hidden_retries: request.hidden_retries,
        may_hide: request.may_hide,
        language: facts.sender.language.as_deref().map(short),
        is_named_after_service: false,
        // gRPC's status is told by the span itself.
        has_headers: request
            .headers
            .iter()
            .any(|(name, _)| name != "grpc-status" && headers::is_allowed(name)),
        event,
    })
}

fn promised_ms(event: &crate::domain::event::Event) -> Option<i64> {
    let is_about_waits = event.retry_after.is_some()
        || event.headers.iter().any(|(name, _)| name.starts_with("retry-after"));
    if !is_about_waits {
        return None;
    }
    let mut fields = HeaderFields::with_capacity(event.headers.len());
    for (name, value) in &event.headers {
        fields.push(name, value);
    }
    retry_after::read(&fields, Some(event.answered_at())).remaining.map(|wait| wait.0)
}
