//! The budget planner of step 7: given an allowance, a target below it, the work and the time of
//! an answer, how far apart to send, how long it takes at least, and how many are in flight.
//!
//! In flight = rate × time in the system (J. D. C. Little, Operations Research 9, 1961).

use super::Facts;
use super::words::{count, many, percent, share, span};
use crate::domain::headers::{self, FieldKind, FieldUnit};
use crate::domain::stats::quantile::Sorted;
use crate::domain::stats::{real, whole};
use crate::domain::stored::StoredEvent;
use crate::domain::time::MINUTE_MS;
use serde::{Deserialize, Serialize};

/// What the planner is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannerInput {
    /// Requests that the limit allows per window.
    pub allowed: u32,
    /// Length of the window in milliseconds.
    pub window_ms: i64,
    /// Requests per window to aim at; at most `allowed`.
    pub aimed: u32,
    /// Requests to do.
    pub work: u64,
    /// Time from sending to the answer in milliseconds.
    pub answer_ms: i64,
}

/// What the planner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What was asked.
    pub input: PlannerInput,
    /// Milliseconds from one send to the next.
    pub spacing_ms: f64,
    /// The least time for all of the work, in milliseconds.
    pub total_ms: i64,
    /// Requests in flight at once, rounded up.
    pub in_flight: u64,
    /// Share of the allowance that is kept free, 0 to 1.
    pub reserve: f64,
    /// The plan in sentences.
    pub sentences: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number that must be more than 0 is not.
    #[error("{0} must be more than 0")]
    NotPositive(&'static str),
    /// More is aimed at than the limit allows.
    #[error("{aimed} aimed at is more than the {allowed} that are allowed")]
    AboveLimit {
        /// What was aimed at.
        aimed: u32,
        /// What is allowed.
        allowed: u32,
    },
    /// A number is too large to plan with.
    #[error("{0} is too large to plan with")]
    TooLarge(&'static str),
}

/// A year: longer plans help nobody.
const LONGEST_MS: f64 = 366.0 * 86_400_000.0 * 10.0;

/// Plans the spacing, the least time and the concurrency.
pub fn plan(input: &PlannerInput) -> Result<Plan, PlanError> {
    let positive = [
        ("the number of allowed requests", input.allowed > 0),
        ("the window", input.window_ms > 0),
        ("the number of requests aimed at", input.aimed > 0),
        ("the work", input.work > 0),
        ("the time of an answer", input.answer_ms > 0),
    ];
    if let Some((name, _)) = positive.iter().find(|(_, is_positive)| !is_positive) {
        return Err(PlanError::NotPositive(name));
    }
    if input.aimed > input.allowed {
        return Err(PlanError::AboveLimit { aimed: input.aimed, allowed: input.allowed });
    }
    let work = i64::try_from(input.work).map_err(|_| PlanError::TooLarge("the work"))?;
    let spacing_ms = real(input.window_ms) / f64::from(input.aimed);
    let total = spacing_ms * real(work);
    if total > LONGEST_MS {
        return Err(PlanError::TooLarge("the time for the work"));
    }
    // 2.9999999 in flight is 3, not 4: take off what rounding adds.
    let busy = real(input.answer_ms) / spacing_ms;
    let in_flight = u64::try_from(whole((busy - 1e-9).ceil())).unwrap_or(1).max(1);
    let reserve = 1.0 - f64::from(input.aimed) / f64::from(input.allowed);
    let total_ms = whole(total);
    let sentences = vec![
        format!(
            "Send one every {} ({} of the {} allowed in {}).",
            spacing_word(spacing_ms),
            count(i64::from(input.aimed)),
            count(i64::from(input.allowed)),
            span(input.window_ms)
        ),
        format!("{} take {} in all, at least.", many(work, "request"), total_word(total_ms)),
        format!(
            "At {} an answer, {} in flight at once {} enough; hold a semaphore at that.",
            span(input.answer_ms),
            count(i64::try_from(in_flight).unwrap_or(i64::MAX)),
            if in_flight == 1 { "is" } else { "are" }
        ),
        format!(
            "Retries and every other caller with the same key spend the same allowance: the {} kept \
             free is all there is for them.",
            percent(reserve)
        ),
    ];
    Ok(Plan { input: *input, spacing_ms, total_ms, in_flight, reserve, sentences })
}

/// The spacing, exact to the millisecond where it has one.
fn spacing_word(ms: f64) -> String {
    if ms < 1.0 {
        format!("{ms:.3} ms")
    } else if ms < 10_000.0 {
        format!("{} ms", count(whole(ms)))
    } else {
        span(whole(ms))
    }
}

/// Seconds up to an hour, since people compare them with windows.
fn total_word(ms: i64) -> String {
    if (1_000..3_600_000).contains(&ms) {
        let seconds = format!("{} s", count(whole(real(ms) / 1_000.0)));
        if ms < MINUTE_MS { seconds } else { format!("{seconds} ({})", span(ms)) }
    } else {
        span(ms)
    }
}

impl PlannerInput {
    /// What the facts tell: the newest documented allowance with a window, three quarters of it to
    /// aim at, the requests of the window as the work, and the median answer time. `None` where no
    /// refusal or answer documents an allowance.
    pub fn from_facts(facts: &Facts) -> Option<Self> {
        let mut newest: Vec<&StoredEvent> =
            facts.attempts.iter().filter(|s| !s.event.headers.is_empty()).collect();
        newest.sort_by(|x, y| {
            let key = |s: &StoredEvent| s.event.occurred_at;
            key(y).cmp(&key(x)).then_with(|| y.event.event_id.cmp(&x.event.event_id))
        });
        let (allowed, window_ms) = newest.iter().take(50).find_map(|s| {
            let response = s.event.response();
            let fields =
                headers::read(&response.headers, Some(&s.event.host), Some(s.event.answered_at()));
            fields.iter().find_map(|field| {
                let is_count = matches!(field.kind, FieldKind::Limit | FieldKind::Policy)
                    && matches!(field.unit, FieldUnit::Requests);
                let value = field.value.filter(|v| is_count && (1.0..=1e9).contains(v))?;
                let window = field.window.filter(|w| w.0 > 0)?;
                Some((u32::try_from(whole(value)).ok()?, window.0))
            })
        })?;
        let durations = Sorted::new(
            facts
                .attempts
                .iter()
                .filter(|s| s.event.is_success())
                .filter_map(|s| Some((s.event.duration_ms?, i64::from(s.event.count)))),
        );
        Some(Self {
            allowed,
            window_ms,
            aimed: (allowed - allowed / 4).max(1),
            work: u64::try_from(facts.totals.requests.max(1)).unwrap_or(1),
            answer_ms: durations.median().unwrap_or(1_000).max(1),
        })
    }
}

impl Plan {
    /// How much of the allowance is aimed at, in words.
    pub fn aim(&self) -> String {
        share(i64::from(self.input.aimed), i64::from(self.input.allowed))
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use proptest::prelude::*;

    const USUAL: PlannerInput =
        PlannerInput { allowed: 120, window_ms: 60_000, aimed: 90, work: 600, answer_ms: 2_000 };

    #[test]
    fn six_hundred_requests_at_ninety_a_minute_take_400_s_with_3_in_flight() {
        let plan = plan(&USUAL).unwrap();
        assert_eq!(whole(plan.spacing_ms), 667);
        assert_eq!((plan.total_ms, plan.in_flight), (400_000, 3));
        let text = plan.sentences.join(" ");
        for part in ["667 ms", "400 s", "3 in flight", "25.0 %", "same allowance"] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    }

    #[test]
    fn what_cannot_be_planned_is_refused_with_the_reason() {
        let table = [
            (PlannerInput { aimed: 0, ..USUAL }, "aimed at must be more than 0"),
            (PlannerInput { aimed: 121, ..USUAL }, "121 aimed at is more than the 120"),
            (PlannerInput { window_ms: 0, ..USUAL }, "the window must be"),
            (PlannerInput { work: u64::MAX, ..USUAL }, "the work is too large"),
            (PlannerInput { work: 1 << 60, ..USUAL }, "the time for the work is too large"),
        ];
        for (input, want) in table {
            let error = plan(&input).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_plan_never_exceeds_the_allowance(
            allowed in 1_u32.., aimed in 1_u32.., window_ms in 1_i64.., work in 1_u64.., answer_ms in 1_i64..,
        ) {
            let input = PlannerInput { allowed, window_ms, aimed, work, answer_ms };
            if let Ok(plan) = plan(&input) {
                prop_assert!(plan.spacing_ms * f64::from(allowed) >= real(window_ms) * 0.999_999);
                prop_assert!(plan.in_flight >= 1);
            }
        }
    }
}
