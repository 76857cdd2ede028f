//! What is sent to others, and only to addresses that an operator named.
//!
//! - [`client`]: one HTTP client with limits of time and size, which follows no redirect.
//! - [`message`]: an alert in the words of each kind of receiver.
//! - [`worker`]: tells receivers what the outbox of the store holds, until they know or it is given
//!   up.
//! - [`grafana`]: alert rules to a Grafana server.
//!
//! When and how often something is tried again says [`retry_policy`](crate::domain::retry_policy).

pub mod client;
pub mod grafana;
pub mod message;
pub mod worker;

pub use worker::Notifier;
