//! How the words and values of `domain` are described in the OpenAPI document. They are described
//! here and not there, since `domain` knows nothing of the web.

use crate::domain::alerts::{Severity, Transition};
use crate::domain::checklist::{AnswerState, GradeMark, NextAction, Step, Table};
use crate::domain::classify::{
    Certainty, CollectNext, Evidence, Layer, LimitType, LimitUnit, Responder, Says, Tri, Verdict,
    Weight,
};
use crate::domain::event::{AttemptError, Outcome, RetryLayer, Vantage};
use crate::domain::joins::Sight;
use crate::domain::sources::{Fit, Input, Trait};
use crate::domain::stored::{Dimension, TimeBasis};
use std::borrow::Cow;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// Describes enums that own their spelling: the list of words is the list in the document.
macro_rules! words {
    ($($name:ident: $about:literal,)+) => { $(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .enum_values(Some(Self::ALL.iter().map(|word| word.as_str())))
                    .description(Some($about))
                    .into()
            }
        }
        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )+ };
}

words! {
    Responder: "The component that wrote a response.",
    Layer: "Where in the path a responder stands, by product.",
    LimitType: "What kind of limit refused the attempt.",
    LimitUnit: "What a limit counts.",
    Tri: "Yes, no, or not known.",
    Certainty: "The word for a confidence.",
    Weight: "How much one piece of evidence can prove.",
    Says: "What a piece of evidence says of the product it is about.",
    Vantage: "From where an attempt was seen.",
    Sight: "Whether a hop saw a request.",
    Input: "By which way events came in.",
    Trait: "What events carry or lack.",
    Fit: "Whether a step has what it needs from a source.",
    RetryLayer: "Who re-sent an attempt.",
    AttemptError: "Why there was no usable response.",
    Outcome: "How the client's retry logic went on after this attempt.",
    TimeBasis: "Whether a window goes by when things happened or when they were received.",
    Dimension: "By what limited attempts are told apart.",
    Step: "One of the eight steps.",
    AnswerState: "What a step says.",
    GradeMark: "The mark of one mistake or habit.",
    Severity: "How bad an alert is: `critical` wakes someone, `warning` is a ticket.",
    Transition: "A change of an alert.",
}

/// Refers to another described type.
fn of<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// A list of another described type.
fn list<T: ToSchema>() -> RefOr<Schema> {
    ArrayBuilder::new().items(of::<T>()).into()
}

/// Another described type, or null.
fn maybe<T: ToSchema>() -> RefOr<Schema> {
    OneOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::Null)).item(of::<T>()).into()
}

/// A type's own description and those of the types it is made of.
fn with_parts<T: ToSchema>() -> Vec<(String, RefOr<Schema>)> {
    let mut parts = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut parts);
    parts
}

/// Describes a structure of `domain` field by field; a trailing `?` marks what may be absent.
macro_rules! fields {
    ($name:ident: $about:literal { $($field:ident $(($optional:tt))?: $schema:expr,)+ } uses [$($used:ty),*]) => {
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let mut object = ObjectBuilder::new().description(Some($about));
                $(
                    object = object.property(stringify!($field), $schema);
                    fields!(@required object $field $($optional)?);
                )+
                object.into()
            }
        }
        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                let parts: Vec<Vec<(String, RefOr<Schema>)>> = vec![$(with_parts::<$used>()),*];
                schemas.extend(parts.into_iter().flatten());
            }
        }
    };
    (@required $object:ident $field:ident ?) => {};
    (@required $object:ident $field:ident) => { $object = $object.required(stringify!($field)); };
}

fields!(Evidence: "One observed fact and what it speaks for or against." {
    rule: String::schema(),
    observed: String::schema(),
    about: of::<Responder>(),
    says: of::<Says>(),
    weight: of::<Weight>(),
    source: String::schema(),
} uses [Responder, Says, Weight]);

fields!(CollectNext: "The one datum to collect next when a verdict is open or weak." {
    datum: String::schema(),
    reads_as: String::schema(),
    command: Option::<String>::schema(),
} uses []);

fields!(Verdict: "Who returned a response, why we think so, and what it means for waiting." {
    returned_by: of::<Responder>(),
    layer: of::<Layer>(),
    confidence: f64::schema(),
    outcome: of::<Certainty>(),
    limited: bool::schema(),
    limit_type: of::<LimitType>(),
    limit_type_confidence: f64::schema(),
    limit_unit: of::<LimitUnit>(),
    reached_origin: of::<Tri>(),
    provider(?): String::schema(),
    cached_of(?): of::<LimitType>(),
    retry_after_seconds: Option::<f64>::schema(),
    retry_after_remaining_seconds: Option::<f64>::schema(),
    retry_after_lenient_seconds: Option::<f64>::schema(),
    retry_after_flags: Vec::<String>::schema(),
    evidence: list::<Evidence>(),
    against: list::<Evidence>(),
    conflicts: Vec::<String>::schema(),
    hops: list::<Responder>(),
    collect_next: maybe::<CollectNext>(),
    hidden_retries(?): u32::schema(),
} uses [Responder, Layer, Certainty, LimitType, LimitUnit, Tri, Evidence, CollectNext]);

fields!(NextAction: "What to do next." {
    text: String::schema(),
    command: Option::<String>::schema(),
} uses []);

fields!(Table: "A small table in an answer." {
    caption: String::schema(),
    columns: Vec::<String>::schema(),
    rows: Vec::<Vec<String>>::schema(),
} uses []);

/// An event as senders write it (DESIGN 4). Required are `occurred_at`, `service`, `host` or
/// `url`, and one of `status` and `error`. Fields that are not listed are left out and counted.
#[derive(Debug, ToSchema)]
pub struct NativeEvent {
    /// Id that makes a re-sent batch harmless; derived from the content where absent.
    pub event_id: Option<String>,
    /// Groups the attempts of one intent.
    pub operation_id: Option<String>,
    /// Number of this attempt in its operation, from 1.
    #[schema(minimum = 1, default = 1)]
    pub attempt: Option<u32>,
    /// When the request was sent, RFC 3339.
    #[schema(format = DateTime)]
    pub occurred_at: String,
    /// Time from sending to the answer, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Who saw it; `client` where absent.
    pub vantage: Option<Vantage>,
    /// The calling service.
    pub service: String,
    /// Deployment environment.
    pub environment: Option<String>,
    /// The calling process.
    pub instance: Option<String>,
    /// Who re-sent it.
    pub retry_layer: Option<RetryLayer>,
    /// The sender's own word for how urgent it is.
    pub priority: Option<String>,
    /// Method.
    pub method: Option<String>,
    /// The upstream host; or send `url`.
    pub host: Option<String>,
    /// Address from which host and path are taken; its query string is dropped.
    pub url: Option<String>,
    /// Route template or path.
    pub route: Option<String>,
    /// Status code of the answer.
    pub status: Option<u16>,
    /// Why there was no usable answer.
    pub error: Option<AttemptError>,
    /// `Retry-After` exactly as received.
    pub retry_after: Option<String>,
    /// The wait chosen after this attempt, in milliseconds.
    pub computed_delay_ms: Option<i64>,
    /// What the wait was taken from, in the sender's words.
    pub delay_source: Option<String>,
    /// Request id.
    pub request_id: Option<String>,
    /// Ray id.
    pub ray_id: Option<String>,
    /// The layer that the client claims answered.
    pub layer: Option<Layer>,
    /// Hash of the API key; a raw key is hashed or refused.
    pub key_hash: Option<String>,
    /// What the key is.
    pub key_kind: Option<String>,
    /// Hash of the idempotency key.
    pub idempotency_key_hash: Option<String>,
    /// Hash of the request body.
    pub body_hash: Option<String>,
    /// Hash of the address that the server sees.
    pub client_address_hash: Option<String>,
    /// Hash of the account.
    pub account_hash: Option<String>,
    /// How the retry logic went on.
    pub outcome: Option<Outcome>,
    /// The client's limit of attempts, the first one counted.
    pub attempts_max: Option<u32>,
    /// The client's time limit for one attempt, in milliseconds.
    pub timeout_ms: Option<i64>,
    /// The client's time limit for the operation, in milliseconds.
    pub deadline_ms: Option<i64>,
    /// Response header fields; those off the allow-list are dropped.
    #[schema(value_type = Option<Object>)]
    pub headers: Option<serde_json::Value>,
    /// Media type of the answer's body.
    pub content_type: Option<String>,
    /// Machine-readable code from the answer's body.
    pub error_code: Option<String>,
    /// The start of the answer's body, at most 2 KiB.
    pub body_sample: Option<String>,
    /// Trace id.
    pub trace_id: Option<String>,
    /// Span id.
    pub span_id: Option<String>,
    /// How many identical attempts this event stands for.
    #[schema(minimum = 1, default = 1)]
    pub count: Option<u32>,
}

/// An item of a batch that was not stored.
#[derive(Debug, ToSchema)]
pub struct RejectedItem {
    /// Its position in the batch, from 0.
    pub index: usize,
    /// Its id, where that could be read.
    pub event_id: Option<String>,
    /// The field at fault, where one is.
    pub field: Option<String>,
    /// What is wrong and what was expected.
    pub error: String,
}
