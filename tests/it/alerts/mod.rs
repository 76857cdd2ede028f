//! The evaluator over a real store: alerts as they stand, what is told of them, and who evaluates.

mod contract;
mod cost;
mod fleet;
mod leader;
mod live;
mod replay;
mod replay_prometheus;
mod sql_form;
mod triage;
