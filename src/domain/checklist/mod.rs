//! The eight troubleshooting steps, answered from facts. Pure: facts in, answers out.
//!
//! - [`Facts`]: all that the steps may look at.
//! - [`Answer`]: what a step says.
//! - a file per step, `s1_source` to `s8_verify`, each with one `pub fn answer(&Facts) -> Answer`.

use super::spelling::spelled_enum;
use super::stored::{Bucket, Counts, DimensionCounts, Mark, StoredEvent, View};
use super::time::{UnixMillis, Window};
use serde::{Deserialize, Serialize};

/// All that the steps may look at. Counts are exact for what was stored; `attempts` may be cut.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Scope, window and time basis of the question.
    pub view: View,
    /// When the question was asked.
    pub now: UnixMillis,
    /// Sum over the window.
    pub totals: Counts,
    /// Sum over the stretch of equal length just before the window.
    pub before: Counts,
    /// Minute by minute (or wider for long windows), in order; empty stretches are there as zeros.
    pub buckets: Vec<Bucket>,
    /// Counts by value of each dimension, largest `limited` first.
    pub dimensions: Vec<DimensionCounts>,
    /// Client attempts of the window, ordered by `occurred_at`: all of them up to a cap; beyond it
    /// the limited ones, the other attempts of the same operations, retries and failures first.
    pub attempts: Vec<StoredEvent>,
    /// Whether `attempts` holds all of them; `false` where the cap cut some off.
    pub attempts_complete: bool,
    /// What gateways and origins saw of these attempts, joined by request, ray or trace id.
    pub observations: Vec<StoredEvent>,
    /// Whether any gateway or origin observation of this scope is stored for the window at all.
    pub has_gateway_source: bool,
    /// As above, for origins.
    pub has_origin_source: bool,
    /// Services seen with the keys of this scope in the window: (key hash, service, attempts, limited).
    pub key_services: Vec<KeyService>,
    /// Marked changes that concern the scope, oldest first.
    pub marks: Vec<Mark>,
    /// Counts around the newest mark in or before the window, where there is one.
    pub comparison: Option<Comparison>,
}

/// Use of one key by one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyService {
    /// Hashed key.
    pub key: String,
    /// Calling service.
    pub service: String,
    /// Its attempts with that key.
    pub attempts: i64,
    /// Limited ones.
    pub limited: i64,
}

/// Before and after a marked change, in two windows of equal length.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The change.
    pub mark: Mark,
    /// The window before it.
    pub before_window: Window,
    /// The window after it.
    pub after_window: Window,
    /// Counts before.
    pub before: Counts,
    /// Counts after.
    pub after: Counts,
    /// 95th percentile of the duration before, in milliseconds, where durations are known.
    pub before_p95_ms: Option<i64>,
    /// The same after.
    pub after_p95_ms: Option<i64>,
    /// Writes that may have been done twice before (409 after a retry, one key with two bodies).
    pub before_duplicates: i64,
    /// The same after.
    pub after_duplicates: i64,
}

spelled_enum! {
    /// One of the eight steps.
    pub enum Step {
        /// 1: who returned it.
        Source => "source",
        /// 2: reproduce it outside the application.
        Reproduce => "reproduce",
        /// 3: what kind of limit.
        Limit => "limit",
        /// 4: one key, one address, one route, everyone?
        Scope => "scope",
        /// 5: waits and windows.
        Time => "time",
        /// 6: how the client retries.
        Behaviour => "behaviour",
        /// 7: what to change, where.
        Fix => "fix",
        /// 8: did it help?
        Verify => "verify",
    }
}

impl Step {
    /// Its number, 1 to 8.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its title on pages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Source => "Who returned it",
            Self::Reproduce => "Reproduce it outside the application",
            Self::Limit => "What kind of limit",
            Self::Scope => "Whose traffic",
            Self::Time => "Waits and windows",
            Self::Behaviour => "How the client retries",
            Self::Fix => "Fix the right layer",
            Self::Verify => "Verify the change",
        }
    }
}

spelled_enum! {
    /// What a step says.
    pub enum AnswerState {
        /// Looked at, nothing wrong.
        Clear => "clear",
        /// Something to act on.
        Finding => "finding",
        /// Can't be told yet; the next action says what to send.
        NeedsData => "needs-data",
    }
}

/// One thing that a step found, with the rows behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable id in kebab-case, unique over all steps: `early-retries`.
    pub id: String,
    /// One sentence in plain words, numbers included.
    pub text: String,
    /// Whether it asks for action, or only informs.
    pub actionable: bool,
    /// Numbers behind it, as label and worded value, in the order to show.
    pub numbers: Vec<(String, String)>,
    /// The attempts behind it: (`event_id`, `occurred_at`), at most [`MAX_ROWS`]; the page lists them.
    pub rows: Vec<(String, UnixMillis)>,
    /// How many attempts or operations are behind it in all.
    pub rows_total: i64,
}

/// How many rows a finding carries at most.
pub const MAX_ROWS: usize = 200;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextAction {
    /// One sentence.
    pub text: String,
    /// A command or setting to copy.
    pub command: Option<String>,
}

/// The answer of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Which step.
    pub step: Step,
    /// What it says.
    pub state: AnswerState,
    /// The answer in one sentence.
    pub headline: String,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What to do next, most useful first.
    pub next: Vec<NextAction>,
    /// Tables to show below, such as who answered how often.
    pub tables: Vec<Table>,
}

/// A small table in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Column heads.
    pub columns: Vec<String>,
    /// Cells, a row each.
    pub rows: Vec<Vec<String>>,
}
