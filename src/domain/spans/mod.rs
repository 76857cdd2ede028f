//! Spans of standard HTTP instrumentations, and the operations that they tell of.
//!
//! No instrumentation says which requests belong to one intent, so that operations are derived: a
//! pure function over a neighbourhood (service, host, method) that gives the same answer whatever
//! the order in which spans came, and however often.
//!
//! - [`raw`]: a span as a decoder hands it over, and its attributes.
//! - [`mapping`]: what a span says about an attempt, over three generations of attribute names.
//! - [`failure`]: why there was no answer. [`hints`]: counters, ids and waits that clients tell.
//! - [`sdk`]: how a call of an SDK ended.
//! - [`route`]: a path without its ids.
//! - [`words`]: what people are told.
//! - [`span`]: what is kept of a span. [`twins`]: attempts that were reported twice.
//! - [`operations`]: from attempts to operations. [`settling`]: when one is final. [`emit`]: the events
//!   it becomes.
//!
//! Nothing here says who returned an answer; that is `classify`'s, from the captured headers.

pub mod emit;
pub mod failure;
pub mod hints;
pub mod mapping;
pub mod operations;
pub mod raw;
pub mod route;
pub mod sdk;
pub mod settling;
pub mod span;
mod twins;
pub mod words;

#[cfg(test)]
mod tests;

pub use operations::{Confidence, Marks, Operation, Placed, Visibility, reconstruct};
pub use raw::{Attributes, Kind, RawEvent, RawSpan, SpanId, SpanKey, TraceId, Value};
pub use span::{Attempt, Role, Span};
