//! Every finding there is, by step. `docs/steps.md` says of each what it means, its thresholds and
//! their sources; tests hold that each has its heading there and is raised by some case.

use super::Step;

/// One kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its id, unique over all steps.
    pub id: &'static str,
    /// The step that raises it.
    pub step: Step,
    /// What it says, in a sentence.
    pub meaning: &'static str,
}

/// The finding with this id.
pub fn find(id: &str) -> Option<&'static Known> {
    ALL.iter().find(|known| known.id == id)
}

const fn known(step: Step, id: &'static str, meaning: &'static str) -> Known {
    Known { id, step, meaning }
}

/// All of them, in the order of the steps.
pub const ALL: &[Known] = &[
    known(Step::Source, "answered-by", "The component that wrote most refusals."),
    known(Step::Source, "several-responders", "Two or more components refuse in one scope."),
    known(
        Step::Source,
        "refused-after-processing",
        "A write was refused after the origin was reached.",
    ),
    known(
        Step::Source,
        "claim-contradicted",
        "The client's own claim of the layer differs from the evidence.",
    ),
    known(Step::Source, "responder-unknown", "Refusals whose responder can't be told."),
    known(Step::Source, "seen-by-origin", "The origin recorded refused attempts by id."),
    known(
        Step::Source,
        "not-seen-by-origin",
        "A complete record of the origin does not hold the refused attempts.",
    ),
    known(
        Step::Source,
        "origin-record-incomplete",
        "The origin's record has holes, so absence proves nothing.",
    ),
    known(
        Step::Source,
        "origin-record-hole",
        "The origin's record holds nothing of the minutes around refused attempts.",
    ),
    known(Step::Source, "seen-by-gateway", "A gateway recorded refused attempts by id."),
    known(Step::Source, "proven-by-record", "Records prove who wrote refusals."),
    known(
        Step::Source,
        "limit-behind-another-status",
        "A gateway's log calls failed attempts refused by a limit that aren't counted so.",
    ),
    known(Step::Reproduce, "curl-twin", "The attempt that the curl twin repeats."),
    known(Step::Limit, "limit-rate", "Refusals by a rate limit."),
    known(Step::Limit, "limit-quota", "Refusals by a spent quota."),
    known(Step::Limit, "limit-concurrency", "Refusals by a limit on requests in flight."),
    known(Step::Limit, "limit-security", "Refusals by a firewall or bot rule."),
    known(Step::Limit, "limit-cached", "Old refusals replayed by a cache."),
    known(Step::Limit, "limit-overload", "Refusals by a server that sheds load."),
    known(Step::Limit, "limit-unknown", "Refusals whose kind is not known."),
    known(Step::Limit, "several-limit-types", "Two or more kinds of limit refuse in one scope."),
    known(
        Step::Limit,
        "limit-with-other-status",
        "Limits that arrive with another status than 429.",
    ),
    known(
        Step::Scope,
        "scope-separates",
        "The dimension that tells refused from served attempts best.",
    ),
    known(Step::Scope, "scope-everyone", "No dimension tells refused from served attempts."),
    known(Step::Scope, "scope-key", "One key carries most refusals."),
    known(Step::Scope, "scope-address", "One egress address carries most refusals."),
    known(Step::Scope, "scope-account", "One account carries most refusals."),
    known(Step::Scope, "scope-route", "One route carries most refusals."),
    known(Step::Scope, "scope-service", "One service carries most refusals."),
    known(Step::Scope, "scope-instance", "One instance carries most refusals."),
    known(Step::Scope, "scope-environment", "One environment carries most refusals."),
    known(Step::Scope, "key-shared", "Several services use the key that is refused."),
    known(Step::Scope, "retries-spend-window", "Retries spend a large part of the allowance."),
    known(Step::Scope, "first-attempts-spend-window", "First attempts alone spend the allowance."),
    known(Step::Time, "early-retries", "Retries before the promised time."),
    known(Step::Time, "promise-broken", "Retries after the promised time are refused again."),
    known(
        Step::Time,
        "promise-kept",
        "Retries after the promised time, and how many were refused.",
    ),
    known(Step::Time, "wait-unit-suspect", "Waits a thousand times too short or too long."),
    known(Step::Time, "retry-after-misread", "Waits that a careless parser makes of Retry-After."),
    known(Step::Time, "retry-after-missing", "Refusals without Retry-After."),
    known(
        Step::Time,
        "retry-after-invalid",
        "Refusals with a Retry-After that RFC 9110 does not allow.",
    ),
    known(
        Step::Time,
        "retry-after-doubtful",
        "Retry-After holds a number that is hardly meant in seconds.",
    ),
    known(Step::Time, "retry-after-epoch", "Refusals with seconds since 1970 in Retry-After."),
    known(
        Step::Time,
        "date-without-base",
        "Waits given as dates without a Date to measure them by.",
    ),
    known(Step::Time, "reset-disagrees", "A reset field and Retry-After name different times."),
    known(Step::Time, "clock-skew", "The clocks of caller and server are far apart."),
    known(Step::Time, "clocks-agree", "The clocks of caller and server agree."),
    known(
        Step::Time,
        "boundary-burst",
        "Sends burst at the turn of a second, a minute or an hour.",
    ),
    known(Step::Time, "window-from-first-request", "A fixed window that the first request began."),
    known(Step::Time, "window-on-clock", "A fixed window that ends by the clock."),
    known(Step::Time, "window-not-on-clock", "A fixed window that does not end by the clock."),
    known(Step::Time, "no-duration", "Waits counted from sending, for want of a duration."),
    known(Step::Behaviour, "double-layer-retry", "Two or more layers retry in one operation."),
    known(
        Step::Behaviour,
        "write-without-idempotency-key",
        "POST or PATCH sent again without an idempotency key.",
    ),
    known(Step::Behaviour, "idempotency-key-changes", "Another idempotency key on each attempt."),
    known(
        Step::Behaviour,
        "idempotency-key-two-bodies",
        "One idempotency key with different bodies.",
    ),
    known(
        Step::Behaviour,
        "idempotency-key-two-operations",
        "One idempotency key in several operations.",
    ),
    known(Step::Behaviour, "conflict-after-retry", "A 409 after a retry: possibly already done."),
    known(
        Step::Behaviour,
        "retry-of-permanent",
        "Retries of answers that a repeat does not change.",
    ),
    known(Step::Behaviour, "retry-after-quota", "Retries while a quota is spent."),
    known(Step::Behaviour, "zero-delay", "Retries at once."),
    known(Step::Behaviour, "delay-clipped", "A local cap cuts waits below the promise."),
    known(Step::Behaviour, "fixed-delay", "The same delay every time."),
    known(Step::Behaviour, "no-jitter", "Delays without useful jitter."),
    known(Step::Behaviour, "exact-retry-after", "Waits of exactly Retry-After."),
    known(Step::Behaviour, "retry-waves", "Retries come in waves."),
    known(Step::Behaviour, "retry-budget", "More retries than the budget allows."),
    known(
        Step::Behaviour,
        "retries-outgrow-requests",
        "Retries per request doubled against the stretch before.",
    ),
    known(Step::Behaviour, "amplification", "Two or more attempts for each request on average."),
    known(Step::Behaviour, "sent-after-cancelled", "Attempts after the caller cancelled."),
    known(
        Step::Behaviour,
        "beyond-own-limit",
        "Attempts beyond the client's own maximum or deadline.",
    ),
    known(
        Step::Behaviour,
        "hidden-gateway-retries",
        "A hop between client and origin retries too.",
    ),
    known(
        Step::Behaviour,
        "recorded-twice",
        "The origin recorded one id twice: sent again by a hop, or mirrored.",
    ),
    known(Step::Behaviour, "exhausted", "Operations that were given up."),
    known(Step::Behaviour, "no-final-outcome", "Failed operations without a final outcome."),
    known(Step::Behaviour, "success-after-retry", "How many retried operations ended well."),
    known(Step::Behaviour, "effective-success", "Success by operation beside success by attempt."),
    known(
        Step::Behaviour,
        "several-first-attempts",
        "Several attempts of one operation are all numbered 1.",
    ),
    known(Step::Behaviour, "ungrouped-attempts", "Retries and refusals without an operation id."),
    known(
        Step::Behaviour,
        "only-failures-reported",
        "No success was reported, so shares have no denominator.",
    ),
    known(Step::Fix, "fix-one-retry-layer", "Let one layer retry."),
    known(Step::Fix, "fix-idempotency", "One idempotency key per operation."),
    known(Step::Fix, "fix-reconcile", "Ask for the state before repeating a write."),
    known(Step::Fix, "fix-honour-retry-after", "Retry-After as the floor of every wait."),
    known(Step::Fix, "fix-wait-unit", "Convert Retry-After once, with its unit."),
    known(Step::Fix, "fix-jitter", "Jitter on every wait."),
    known(Step::Fix, "fix-retry-budget", "A cap on retries and attempts."),
    known(Step::Fix, "fix-stop-permanent", "No retries of permanent answers."),
    known(Step::Fix, "fix-stop-on-cancel", "Retries end with cancellation, maximum and deadline."),
    known(Step::Fix, "fix-spread-requests", "First attempts spaced below the limit."),
    known(Step::Fix, "fix-lower-concurrency", "Fewer requests in flight."),
    known(Step::Fix, "fix-quota", "No requests until the quota is renewed."),
    known(Step::Fix, "fix-security-rule", "A change of the firewall rule."),
    known(Step::Fix, "fix-uncache-refusal", "No caching of refusals."),
    known(
        Step::Fix,
        "fix-back-off-overload",
        "Backoff and a breaker for a server that sheds load.",
    ),
    known(Step::Fix, "fix-separate-keys", "A key per service."),
    known(Step::Fix, "fix-clock-start", "Jobs spread away from the turn of the clock."),
    known(Step::Fix, "fix-clock-skew", "Clocks in step."),
    known(Step::Fix, "fix-server-retry-after", "A true Retry-After from the limiter."),
    known(Step::Fix, "fix-limit-status", "429 for limits."),
    known(Step::Fix, "leave-attempts", "Not fixed by more application retries."),
    known(Step::Fix, "leave-origin", "Not fixed at the origin."),
    known(Step::Fix, "leave-edge", "Not fixed at the CDN or gateway."),
    known(Step::Fix, "leave-plan", "Not fixed by a larger plan yet."),
    known(Step::Fix, "leave-backoff", "Not fixed by longer backoff."),
    known(Step::Fix, "leave-hops", "No hop to be changed before step 1 is answered."),
    known(Step::Fix, "budget-plan", "Spacing, time and concurrency from the documented limit."),
    known(Step::Verify, "change-better", "Fewer refusals since the change."),
    known(Step::Verify, "change-none", "No difference since the change."),
    known(Step::Verify, "change-moved-bottleneck", "Fewer refusals and more 5xx since the change."),
    known(Step::Verify, "change-worse", "More refusals, or more 5xx, since the change."),
    known(Step::Verify, "change-not-enough-data", "Too little to judge the change."),
    known(
        Step::Verify,
        "change-more-duplicates",
        "More writes that may have been done twice since the change.",
    ),
    known(Step::Verify, "change-slower", "Slower answers since the change."),
    known(Step::Verify, "change-less-traffic", "Much less traffic since the change."),
];
