//! How a call of an SDK ended where its span has no HTTP status: RPC and `GenAI` conventions tell it
//! in words of their own (semantic conventions 1.44, `docs/rpc`, `docs/gen-ai`).

use super::failure;
use super::raw::{Attributes, RawSpan, Value};
use crate::domain::event::AttemptError;

/// How a call ended, in the words of HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// The status code.
    pub status: Option<u16>,
    /// Why there is none.
    pub error: Option<AttemptError>,
    /// gRPC's status, which is a field of the answer.
    pub grpc_status: Option<u16>,
    /// The code in the answer's body.
    pub code: Option<String>,
}

impl End {
    fn of_status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}

/// What the protocol beneath a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Grpc,
    /// HTTP: `GenAI` and AWS.
    Http,
    Other,
}

/// gRPC's codes by number: name, and the HTTP status that google/rpc/code.proto gives each. A limit
/// (8) stays what it is on the wire: 200 with `grpc-status`.
const GRPC: [(&str, u16); 17] = [
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 200),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
];

/// Classes of errors that SDKs raise for one status (openai and anthropic, `_exceptions.py` and
/// `error.ts`; cohere has `TooManyRequestsError`).
const CLASSES: &[(&str, u16)] = &[
    ("RateLimitError", 429),
    ("TooManyRequestsError", 429),
    ("BadRequestError", 400),
    ("AuthenticationError", 401),
    ("PermissionDeniedError", 403),
    ("NotFoundError", 404),
    ("ConflictError", 409),
    ("UnprocessableEntityError", 422),
    ("InternalServerError", 500),
];

/// Codes by which AWS refuses for a limit, with the status that its pages of errors name (Common
/// Errors; `DynamoDB`, Lambda, S3 and EC2, "Error codes").
const AWS_LIMITS: &[(&str, u16)] = &[
    ("ThrottlingException", 400),
    ("Throttling", 400),
    ("ProvisionedThroughputExceededException", 400),
    ("TooManyRequestsException", 429),
    ("SlowDown", 503),
    ("RequestLimitExceeded", 503),
];

/// How the call of `span`, which has no HTTP status, ended; `None` where it doesn't tell.
pub fn end(span: &RawSpan) -> Option<End> {
    match protocol(&span.attributes) {
        Protocol::Grpc => grpc(span),
        Protocol::Http => http(span),
        Protocol::Other => None,
    }
}

/// What the called one is named where no address is: the provider of a model, else the service that
/// was called. In it is nothing that an address hasn't.
pub fn upstream(of: &Attributes) -> Option<String> {
    const NAMES: [&str; 3] = ["gen_ai.provider.name", "gen_ai.system", "rpc.service"];
    of.text(&NAMES).map(|name| as_host(&name))
}

/// A name as one that may stand for a host.
pub fn as_host(name: &str) -> String {
    let is_of_host = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    name.trim().chars().map(|c| if is_of_host(c) { c } else { '-' }).collect()
}

fn protocol(of: &Attributes) -> Protocol {
    if of.has_prefix("gen_ai.") {
        return Protocol::Http;
    }
    match of.text(&["rpc.system.name", "rpc.system"]).as_deref() {
        Some("grpc") => Protocol::Grpc,
        Some("aws-api") => Protocol::Http,
        None if of.get("rpc.grpc.status_code").is_some() => Protocol::Grpc,
        _ => Protocol::Other,
    }
}

fn grpc(span: &RawSpan) -> Option<End> {
    const CODE: [&str; 3] = ["rpc.grpc.status_code", "rpc.response.status_code", "error.type"];
    let code = CODE.iter().find_map(|name| grpc_code(span.attributes.get(name)?))?;
    let (_, status) = GRPC.get(code)?;
    let error = match code {
        1 => Some(AttemptError::Cancelled),
        4 => Some(AttemptError::Timeout),
        // A server that says so, or no server at all: the message may tell.
        14 => failure::told(span),
        _ => None,
    };
    Some(match error {
        Some(error) => End { error: Some(error), ..End::default() },
        None => End {
            status: Some(*status),
            grpc_status: u16::try_from(code).ok().filter(|code| *code > 0),
            ..End::default()
        },
    })
}

fn grpc_code(value: &Value) -> Option<usize> {
    let number = value.integer().and_then(|code| usize::try_from(code).ok());
    number.filter(|code| *code < GRPC.len()).or_else(|| {
        let name = value.text()?;
        GRPC.iter().position(|(own, _)| own.eq_ignore_ascii_case(name.trim()))
    })
}

fn http(span: &RawSpan) -> Option<End> {
    let kind = span.attributes.text(&["error.type"]);
    let exceptions = span.events.iter().filter(|event| event.name == "exception");
    let of_exceptions = |name| exceptions.clone().filter_map(move |e| e.attributes.text(&[name]));
    if !span.is_error && kind.is_none() && exceptions.clone().next().is_none() {
        return Some(End::of_status(200));
    }
    let is_failure = |status: &u16| (400..=599).contains(status);
    if let Some(status) = kind.as_deref().and_then(|kind| kind.parse().ok()).filter(is_failure) {
        return Some(End::of_status(status));
    }
    let messages: Vec<_> = of_exceptions("exception.message")
        .chain((!span.status_message.is_empty()).then(|| span.status_message.as_str().into()))
        .collect();
    let told = messages.iter().find_map(|message| status_in(message)).filter(is_failure);
    if let Some(status) = told {
        return Some(End::of_status(status));
    }
    let kinds = kind.into_iter().chain(of_exceptions("exception.type"));
    let names: Vec<String> = kinds
        .map(|kind| kind.rsplit(['.', '/', ':']).next().unwrap_or_default().to_owned())
        .chain(messages.iter().filter_map(|message| aws_code(message)).map(str::to_owned))
        .collect();
    let known = |table: &[(&str, u16)]| {
        names
            .iter()
            .find_map(|name| table.iter().find(|(own, _)| own == name).copied())
            .map(|(name, status)| (name.to_owned(), status))
    };
    if let Some((code, status)) = known(AWS_LIMITS) {
        return Some(End { code: Some(code), ..End::of_status(status) });
    }
    if let Some((_, status)) = known(CLASSES) {
        return Some(End::of_status(status));
    }
    failure::told(span).map(|error| End { error: Some(error), ..End::default() })
}

/// The status at the beginning of a message: `Error code: 429 - …` of openai and anthropic in
/// Python, `429 Rate limit …` in Node.
fn status_in(message: &str) -> Option<u16> {
    let rest = message.strip_prefix("Error code: ").unwrap_or(message);
    let (digits, rest) = rest.split_at_checked(3)?;
    let ends = rest.is_empty() || rest.starts_with(' ');
    digits.parse().ok().filter(|_| ends && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The code in `An error occurred (SlowDown) when calling …` of botocore.
fn aws_code(message: &str) -> Option<&str> {
    Some(message.strip_prefix("An error occurred (")?.split_once(')')?.0)
}
