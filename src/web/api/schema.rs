//! How the words and values of `domain` are described in the OpenAPI document. They are described
//! here and not there, since `domain` knows nothing of the web.

use crate::domain::checklist::{AnswerState, NextAction, Step, Table};
use crate::domain::classify::{
    Certainty, CollectNext, Evidence, Layer, LimitType, LimitUnit, Responder, Says, Tri, Verdict,
    Weight,
};
use crate::domain::event::{AttemptError, Outcome, RetryLayer, Vantage};
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
    RetryLayer: "Who re-sent an attempt.",
    AttemptError: "Why there was no usable response.",
    Outcome: "How the client's retry logic went on after this attempt.",
    TimeBasis: "Whether a window goes by when things happened or when they were received.",
    Dimension: "By what limited attempts are told apart.",
    Step: "One of the eight steps.",
    AnswerState: "What a step says.",
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
