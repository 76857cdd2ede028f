//! The eight troubleshooting steps, answered from facts. Pure: facts in, answers out.
//!
//! - [`Facts`]: all that the steps may look at.
//! - [`Answer`]: what a step says.
//! - [`answers`]: the eight, in order; [`report_card()`]: the habits of one service.
//! - a file per step, `s1_source` to `s8_verify`; [`operations`] puts the facts in order for them.
//! - [`planner`]: spacing, time and concurrency for a given allowance.
//! - [`catalogue`]: every finding there is; `docs/steps.md` explains each.
//! - [`samples`]: facts to try the steps and the pages on.

pub mod catalogue;
pub mod operations;
pub mod planner;
pub mod report_card;
mod s1_source;
mod s2_reproduce;
mod s3_limit;
mod s4_scope;
mod s5_time;
mod s6_behaviour;
mod s7_fix;
mod s8_verify;
pub mod samples;
pub mod words;

#[cfg(test)]
mod tests;

pub use planner::{Plan, PlanError, PlannerInput, plan};
pub use report_card::{Grade, GradeMark, LayerCard, ReportCard, report_card};
pub use s2_reproduce::{CurlTwin, curl_twin};

use self::operations::{Analysis, Rows};
use super::event::Vantage;
use super::spelling::spelled_enum;
use super::stats::waits::WaitCounts;
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
    /// Who saw the attempts that are counted: the client, or where no client reported on the scope
    /// in the window, the outermost source that did (DESIGN 14).
    pub source: Vantage,
    /// How many (service, upstream) of the scope only others reported on, so that they are in none
    /// of these counts: sources are never added up.
    pub uncounted_pairs: usize,
    /// Sum over the window.
    pub totals: Counts,
    /// Sum over the stretch of equal length just before the window.
    pub before: Counts,
    /// Minute by minute (or wider for long windows), in order; empty stretches are there as zeros.
    pub buckets: Vec<Bucket>,
    /// Counts by value of each dimension, largest `limited` first.
    pub dimensions: Vec<DimensionCounts>,
    /// Attempts of the window as the source saw them, ordered by `occurred_at`: all of them up to a cap; beyond it
    /// the limited ones, the other attempts of the same operations, retries and failures first.
    pub attempts: Vec<StoredEvent>,
    /// Whether `attempts` holds all of them; `false` where the cap cut some off.
    pub attempts_complete: bool,
    /// The waits that all refusals of the window promised, whether they are among `attempts` or
    /// not; `None` where sums don't tell.
    pub promised: Option<WaitCounts>,
    /// What those further inside than the source saw of these attempts, joined by request, ray or trace id.
    pub observations: Vec<StoredEvent>,
    /// Whether any gateway observation of this scope is stored for the window at all, beside what
    /// is counted.
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

/// How many rows a finding carries at most: no fewer than facts carry attempts, so that the number
/// of a finding leads to all of its rows.
pub const MAX_ROWS: usize = 20_000;

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
    /// On how much the answer rests: `Rests on 1,204 attempts, 812 of them limited.`
    #[serde(default)]
    pub basis: String,
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

/// The eight answers, in order. The same facts give the same answers, in whatever order the lists
/// of facts come.
pub fn answers(facts: &Facts) -> Vec<Answer> {
    let analysis = Analysis::new(facts);
    let mut answers = vec![
        s1_source::answer(&analysis),
        s2_reproduce::answer(&analysis),
        s3_limit::answer(&analysis),
        s4_scope::answer(&analysis),
        s5_time::answer(&analysis),
        s6_behaviour::answer(&analysis),
    ];
    answers.push(s7_fix::answer(&analysis, &answers));
    answers.push(s8_verify::answer(&analysis));
    let basis = basis(&analysis);
    for answer in &mut answers {
        if answer.basis.is_empty() {
            answer.basis.clone_from(&basis);
        }
    }
    answers
}

/// Attempts that a claim about a share needs at least: one refusal never becomes a rule.
pub const SHARE_FLOOR: i64 = 20;

/// On how much the answers rest.
fn basis(analysis: &Analysis<'_>) -> String {
    let totals = &analysis.facts.totals;
    if totals.attempts == 0 {
        return "No attempt of this scope is stored for the window.".to_owned();
    }
    let mut text = format!(
        "Rests on {}, {} of them limited",
        words::many(totals.attempts, "attempt"),
        words::count(totals.limited)
    );
    if !analysis.facts.attempts_complete {
        text.push_str("; one by one on ");
        text.push_str(&words::count(analysis.held()));
        text.push_str(" of them, limited ones, retries and failures first");
    }
    if let Some(source) = source_phrase(analysis.facts.source) {
        text.push_str(", ");
        text.push_str(source);
    }
    text.push('.');
    text
}

/// Where counts come from, where that isn't the client.
pub const fn source_phrase(source: Vantage) -> Option<&'static str> {
    match source {
        Vantage::Client => None,
        Vantage::Gateway => Some("counted from what the gateway saw, as no client reported them"),
        Vantage::Origin => Some("counted from what the origin saw, as no client reported them"),
    }
}

impl Finding {
    /// A finding that asks for action. `id` is one of [`catalogue::ALL`].
    pub(crate) fn new(id: &str, text: impl Into<String>) -> Self {
        debug_assert!(catalogue::find(id).is_some(), "{id} is not in the catalogue");
        Self {
            id: id.to_owned(),
            text: text.into(),
            actionable: true,
            numbers: Vec::new(),
            rows: Vec::new(),
            rows_total: 0,
        }
    }

    /// A finding that only informs.
    pub(crate) fn note(id: &str, text: impl Into<String>) -> Self {
        Self { actionable: false, ..Self::new(id, text) }
    }

    /// Adds a number, as label and worded value.
    #[must_use]
    pub(crate) fn number(mut self, label: &str, value: impl Into<String>) -> Self {
        self.numbers.push((label.to_owned(), value.into()));
        self
    }

    /// Sets the rows behind it.
    #[must_use]
    pub(crate) fn rows(mut self, rows: Rows) -> Self {
        self.rows = rows.refs;
        self.rows_total = rows.total;
        self
    }
}

impl NextAction {
    /// Advice without a command.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), command: None }
    }

    /// Advice with a command or setting to copy.
    pub(crate) fn command(text: impl Into<String>, command: impl Into<String>) -> Self {
        Self { text: text.into(), command: Some(command.into()) }
    }
}

impl Table {
    /// A table; each row has as many cells as there are columns.
    pub(crate) fn new(caption: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()), "{caption}: ragged rows");
        Self {
            caption: caption.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows,
        }
    }
}

impl Answer {
    /// An answer without findings yet.
    pub(crate) fn new(step: Step, state: AnswerState, headline: impl Into<String>) -> Self {
        Self {
            step,
            state,
            headline: headline.into(),
            findings: Vec::new(),
            next: Vec::new(),
            tables: Vec::new(),
            basis: String::new(),
        }
    }

    /// The answer where nothing is stored for the scope and window.
    pub(crate) fn nothing_stored(step: Step) -> Self {
        let mut answer =
            Self::new(step, AnswerState::NeedsData, "Nothing is stored for this scope and window.");
        answer.next.push(NextAction::command(
            "Send attempts, served ones too (`occurred_at`, `service`, `host`, `status`), or widen \
             the window.",
            SEND_EXAMPLE,
        ));
        answer
    }

    /// The answer where attempts are stored and none was limited.
    pub(crate) fn nothing_limited(step: Step, analysis: &Analysis<'_>) -> Self {
        Self::new(
            step,
            AnswerState::Clear,
            format!(
                "None of {} was refused by a limit.",
                words::many(analysis.facts.totals.attempts, "attempt")
            ),
        )
    }
}

/// How to send one event to the default address.
const SEND_EXAMPLE: &str = "curl -sS http://127.0.0.1:4290/v1/events -H 'content-type: application/json' \\
  -d '{\"occurred_at\":\"2026-11-11T07:29:00.120Z\",\"service\":\"checkout\",\"host\":\"api.example.com\",\"status\":429,\"retry_after\":\"30\",\"operation_id\":\"op-7f1c\",\"attempt\":1}'";
