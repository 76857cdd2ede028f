//! The alert rules, in all their forms: what the evaluator finds is what the exported files make
//! Debian's promtool find, and their numbers hold on simulated traffic.

mod files;
mod minutes;
pub(crate) mod promtool;
mod scenarios;
mod simulation;
