//! Every test that goes beyond one module, in one binary: a module per subject.

#![expect(clippy::unwrap_used, reason = "helpers in here are not seen as tests")]

mod access_logs;
mod alert_pages;
mod alert_rules;
mod alerts;
mod api;
mod cli;
mod cli_classify;
mod decoders;
mod demo;
mod doors;
mod faults;
mod gateway_corpus;
mod gateway_logs;
mod gateways;
mod import;
mod intake;
mod joins;
mod layering;
mod load;
mod long_logs;
mod metrics;
mod million;
mod notify;
mod otlp;
mod otlp_clients;
mod otlp_corpus;
mod otlp_metrics;
mod otlp_settler;
mod pages;
mod parsers;
mod readme;
mod replicas;
mod retention;
mod secrets;
mod signatures;
mod sources;
mod store_contract;
mod support;
mod telemetry;
mod workload;
