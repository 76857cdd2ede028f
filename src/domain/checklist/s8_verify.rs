//! Step 8: did the change help? Counts in two windows of equal length around a mark.

use super::operations::Analysis;
use super::words::{count, many, maybe_span, name, percent, share, share_with_interval, span};
use super::{Answer, AnswerState, Comparison, Finding, NextAction, Step, Table};
use crate::domain::stats::ratio::{Ratio, difference_z};
use crate::domain::stats::real;
use crate::domain::stored::Counts;

/// Attempts that each side needs.
const ATTEMPTS_FLOOR: i64 = 50;
/// Refusals that one of the sides needs.
const LIMITED_FLOOR: i64 = 10;
/// Standard errors that a difference must reach. Attempts of one operation depend on each other,
/// so this is far more than the 1.96 of independent ones.
const SIGNIFICANT_Z: f64 = 4.0;
/// The part by which a ratio must change beside that: a significant trifle is no success.
const MATTERS: f64 = 0.2;

/// Answers step 8.
pub(super) fn answer(a: &Analysis<'_>) -> Answer {
    let Some(c) = &a.facts.comparison else { return no_mark(a) };
    let title = name(&c.mark.title);
    let when = c.mark.at.to_rfc3339();
    let verdict = judge(&c.before, &c.after);
    let numbers = |finding: Finding| {
        finding
            .number("Limited ratio before", limited_word(&c.before))
            .number("Limited ratio after", limited_word(&c.after))
            .number("5xx before", share(c.before.server_errors, c.before.attempts))
            .number("5xx after", share(c.after.server_errors, c.after.attempts))
            .number("Change", format!("{title}, {when}"))
    };
    let change = format!(
        "refusals went from {} to {}",
        share(c.before.limited, c.before.attempts),
        share(c.after.limited, c.after.attempts)
    );
    let (state, finding) = match verdict {
        Verdict::NotEnough => (
            AnswerState::NeedsData,
            Finding::note(
                "change-not-enough-data",
                format!(
                    "Not enough data to judge \"{title}\": {} before and {} after it, {} and {} \
                     refused.",
                    many(c.before.attempts, "attempt"),
                    count(c.after.attempts),
                    count(c.before.limited),
                    count(c.after.limited)
                ),
            ),
        ),
        Verdict::Better => (
            AnswerState::Clear,
            Finding::note("change-better", format!("Better since \"{title}\": {change}.")),
        ),
        Verdict::NoChange => (
            AnswerState::Finding,
            Finding::new("change-none", format!("No change since \"{title}\": {change}.")),
        ),
        Verdict::Moved => (
            AnswerState::Finding,
            Finding::new(
                "change-moved-bottleneck",
                format!(
                    "\"{title}\" moved the bottleneck: {change}, and 5xx went from {} to {}.",
                    share(c.before.server_errors, c.before.attempts),
                    share(c.after.server_errors, c.after.attempts)
                ),
            ),
        ),
        Verdict::Worse => (
            AnswerState::Finding,
            Finding::new("change-worse", format!("Worse since \"{title}\": {change}.")),
        ),
    };
    let mut answer = Answer::new(Step::Verify, state, finding.text.clone());
    answer.findings.push(numbers(finding));
    side_effects(c, &mut answer);
    answer.next = next(verdict, c);
    answer.tables.push(table(c));
    answer.basis = format!(
        "Rests on {} before and {} after {when}, in windows of {}.",
        many(c.before.attempts, "attempt"),
        count(c.after.attempts),
        span(c.after_window.length().0)
    );
    answer
}

/// What the comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Better,
    NoChange,
    Moved,
    Worse,
    NotEnough,
}

fn judge(before: &Counts, after: &Counts) -> Verdict {
    let enough = before.attempts >= ATTEMPTS_FLOOR
        && after.attempts >= ATTEMPTS_FLOOR
        && before.limited.max(after.limited) >= LIMITED_FLOOR;
    if !enough {
        return Verdict::NotEnough;
    }
    let limited = Change::of(before.limited, before.attempts, after.limited, after.attempts);
    let errors =
        Change::of(before.server_errors, before.attempts, after.server_errors, after.attempts);
    match (limited, errors) {
        (Change::Down, Change::Up) => Verdict::Moved,
        (Change::Down, _) => Verdict::Better,
        (Change::Up, _) | (Change::Same, Change::Up) => Verdict::Worse,
        (Change::Same, _) => Verdict::NoChange,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Down,
    Same,
    Up,
}

impl Change {
    fn of(hits: i64, total: i64, later_hits: i64, later_total: i64) -> Self {
        let (before, after) = (Ratio::new(hits, total), Ratio::new(later_hits, later_total));
        let z = difference_z(before, after);
        let (p, q) = (before.share().unwrap_or_default(), after.share().unwrap_or_default());
        let matters = (q - p).abs() >= MATTERS * p.max(q);
        match z {
            z if matters && z <= -SIGNIFICANT_Z => Self::Down,
            z if matters && z >= SIGNIFICANT_Z => Self::Up,
            _ => Self::Same,
        }
    }
}

fn limited_word(counts: &Counts) -> String {
    share_with_interval(Ratio::new(counts.limited, counts.attempts))
}

/// What changed beside the refusals.
fn side_effects(c: &Comparison, answer: &mut Answer) {
    if c.after_duplicates > c.before_duplicates && c.after_duplicates > 0 {
        answer.findings.push(Finding::new(
            "change-more-duplicates",
            format!(
                "Writes that may have been done twice rose to {} from {}.",
                count(c.after_duplicates),
                count(c.before_duplicates)
            ),
        ));
        if answer.state == AnswerState::Clear {
            answer.state = AnswerState::Finding;
        }
    }
    if let (Some(before), Some(after)) = (c.before_p95_ms, c.after_p95_ms)
        && before > 0
        && after.saturating_sub(before) > 100
        && real(after) > 1.5 * real(before)
        && c.after.attempts >= ATTEMPTS_FLOOR
        && c.before.attempts >= ATTEMPTS_FLOOR
    {
        answer.findings.push(Finding::new(
            "change-slower",
            format!("Answers got slower: p95 went from {} to {}.", span(before), span(after)),
        ));
        if answer.state == AnswerState::Clear {
            answer.state = AnswerState::Finding;
        }
    }
    let rate = |counts: &Counts, ms: i64| real(counts.requests) / real(ms.max(1));
    let before = rate(&c.before, c.before_window.length().0);
    let after = rate(&c.after, c.after_window.length().0);
    if c.before.requests >= ATTEMPTS_FLOOR && after < 0.7 * before {
        answer.findings.push(Finding::note(
            "change-less-traffic",
            format!(
                "Requests fell to {} of what they were: less work alone may explain fewer refusals.",
                percent(after / before)
            ),
        ));
    }
}

fn next(verdict: Verdict, c: &Comparison) -> Vec<NextAction> {
    vec![match verdict {
        Verdict::NotEnough => NextAction::text(format!(
            "Wait until each side has {} and one of them {}, served attempts included, with a \
             window that ends late enough; or mark a change that concerns more traffic.",
            many(ATTEMPTS_FLOOR, "attempt"),
            many(LIMITED_FLOOR, "refusal")
        )),
        Verdict::Better => NextAction::text(
            "Keep it, and look again over a whole day: a limit by the day shows later.",
        ),
        Verdict::NoChange => NextAction::text(
            "Check that the change is live in every instance; then take the next one of step 7.",
        ),
        Verdict::Moved => NextAction::text(format!(
            "Don't raise the limit further: what is behind it can't keep up ({} of 5xx). Lower the \
             rate or the concurrency until both are low.",
            many(c.after.server_errors, "attempt")
        )),
        Verdict::Worse => {
            NextAction::text("Take the change back, then look at steps 4 to 6 again.")
        }
    }]
}

fn table(c: &Comparison) -> Table {
    let row = |label: &str, of: &dyn Fn(&Counts) -> String| {
        vec![label.to_owned(), of(&c.before), of(&c.after)]
    };
    Table::new(
        "Before and after",
        &["number", "before", "after"],
        vec![
            row("Attempts", &|x| count(x.attempts)),
            row("Volume", &|x| format!("{} (+{} retries)", count(x.requests), count(x.retries))),
            row("Limited ratio", &limited_word),
            row("429 ratio", &|x| share(x.status_429, x.attempts)),
            row("Success after retry", &|x| {
                share(x.retry_successes.min(x.retried_operations), x.retried_operations)
            }),
            row("5xx", &|x| share(x.server_errors, x.attempts)),
            vec![
                "Duration p95".to_owned(),
                maybe_span(c.before_p95_ms),
                maybe_span(c.after_p95_ms),
            ],
            vec![
                "Possible duplicate writes".to_owned(),
                count(c.before_duplicates),
                count(c.after_duplicates),
            ],
        ],
    )
}

/// The answer where no change is marked.
fn no_mark(a: &Analysis<'_>) -> Answer {
    let marks = a.facts.marks.len();
    let mut answer = Answer::new(
        Step::Verify,
        AnswerState::NeedsData,
        if marks == 0 {
            "No change is marked, so there is nothing to compare."
        } else {
            "No marked change has attempts on both sides yet."
        },
    );
    let scope = &a.facts.view.scope;
    // Without `at` the mark is of the moment it is sent, and the answer does not change with time.
    let mut fields = Vec::new();
    for (label, value) in [("service", &scope.service), ("upstream", &scope.upstream)] {
        if let Some(value) = value {
            fields.push(format!("\"{label}\":\"{}\"", json_text(value)));
        }
    }
    fields.push("\"title\":\"cap SDK retries at 1\"".to_owned());
    answer.next.push(NextAction::command(
        "Mark the change when it takes effect; the comparison then fills itself in.",
        format!(
            "curl -sS http://127.0.0.1:4290/api/v1/marks -H 'content-type: application/json' \\\n  -d {}",
            super::s2_reproduce::quote(&format!("{{{}}}", fields.join(",")))
        ),
    ));
    answer
}

/// Text inside a JSON string.
fn json_text(text: &str) -> String {
    name(text).replace('\\', "\\\\").replace('"', "\\\"")
}
