//! Alerts: one description of each rule, from which every form of it is made.
//!
//! - [`rule`]: what a rule is made of: measures, spans, conditions.
//! - [`rules`]: the rules themselves, as values.
//! - [`threshold`]: the numbers that an operator may set, for all or for one service or upstream.
//! - [`evaluate`](mod@evaluate): a rule over whole-number sums of one pair; no division, no floats.
//! - [`state`]: pending, firing, resolved.
//! - [`annotate`]: the texts that go with an alert.
//! - [`pieces`]: the sums of a pair, cut so that every span of the rules is made of whole pieces.
//! - [`notice`]: an alert as people and programs are told of it.
//!
//! `export` writes the same rules as PromQL and for Grafana. Fetching sums, keeping states and
//! sending notifications is left to others. Definitions, defaults and what was measured about them
//! stand in `docs/alerts.md`.

pub mod annotate;
pub mod evaluate;
pub mod notice;
pub mod pieces;
pub mod rule;
pub mod rules;
pub mod state;
pub mod threshold;

#[cfg(test)]
mod tests;

pub use evaluate::{Finding, Met, Ratio, Reading, Sums, evaluate, is_met, is_silent};
pub use notice::{Notice, ReceiverKey, looked_at};
pub use pieces::{Cuts, Noted, Pieces};
pub use rule::{Condition, Limit, Measure, Rule, Severity, Span, Watch};
pub use rules::RULES;
pub use state::{AlertState, Hold, Transition};
pub use threshold::{AlertSettings, Decimal, Override, Threshold, Thresholds};
