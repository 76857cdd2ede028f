//! retrylens: who returned this 429, and what do we do now?
//!
//! The modules in reading order:
//!
//! - [`domain`]: parsing, classifying and judging; pure.
//! - [`ingest`]: bytes to events.
//! - [`store`]: SQLite and PostgreSQL behind one type.
//! - [`metrics`]: what `/metrics` shows.
//! - [`pipeline`]: from accepted events to stored rows and roll-ups.
//! - [`export`]: what is written for other tools.
//! - [`notify`]: what is sent to others: alerts to receivers, rules to Grafana.
//! - [`web`]: the API and the pages.
//! - [`app`]: everything built and run; [`shutdown`]: how it stops.
//! - [`cli`]: a file per command.
//! - [`clock`], [`config`], [`telemetry`]: used from everywhere but `domain`.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod export;
pub mod ingest;
pub mod metrics;
pub mod notify;
pub mod pipeline;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod web;
