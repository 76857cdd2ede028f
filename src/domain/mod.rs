//! The judgement of retrylens: plain functions over plain values.
//!
//! Nothing here reads a clock, a socket, a file or the environment; `now` comes in as a value.
//! In reading order:
//!
//! - [`spelling`]: one spelling per word, used by the database, the API, labels and pages alike.
//! - [`time`], [`http_date`]: moments and lengths of time, and the dates that HTTP writes.
//! - [`response`], [`event`]: what one party saw of one attempt.
//! - [`retry_after`], [`headers`]: what a server said about waiting and about its limits.
//! - [`access_log`]: what hops wrote down themselves, and what that proves.
//! - [`classify`]: who wrote the response, and which kind of limit it was.
//! - [`redact`], [`key_hash`]: what must never be stored, and what stands in for it.
//! - [`stored`], [`stats`], [`checklist`]: from stored attempts to the eight steps.
//! - [`joins`]: what several vantages saw of one attempt, put together by its ids.
//! - [`sources`]: where events come from, and what each source lacks.
//! - [`alerts`]: rules as values, their evaluation, and the life of an alert.
//! - [`spans`]: spans of OpenTelemetry, and the operations that they tell of.
//! - [`volumes`]: what clients' own metrics counted, beside what their attempts tell.
//! - [`retry_policy`]: the policy that we recommend, and keep for everything we send.

pub mod access_log;
pub mod alerts;
pub mod checklist;
pub mod classify;
pub mod event;
pub mod headers;
pub mod http_date;
pub mod joins;
pub mod key_hash;
pub mod redact;
pub mod response;
pub mod retry_after;
pub mod retry_policy;
pub mod sources;
pub mod spans;
pub mod spelling;
pub mod stats;
pub mod stored;
pub mod time;
pub mod volumes;
