//! The rules, in the order of `docs/alerts.md`. Windows and the shape of conditions are fixed; every
//! number is a [`Threshold`] with its default in the built-in settings file.

use super::rule::Condition::{Above, All, Any, AtLeast, Below, Excess, Not, Outgrown};
use super::rule::Limit::{At, Percent, Tenths};
use super::rule::Measure::{
    Attempts, DuplicateWrites, EarlyRetries, Ended, EndedAfterRetries, EndedInTime, Limited,
    Requests, Retries, SavedByRetry, Status429, Succeeded,
};
use super::rule::{Condition, Measure, Rule, Severity, Shown, Span, Watch};
use super::threshold::Threshold;

const M2: Span = Span::last(2);
const M5: Span = Span::last(5);
const M10: Span = Span::last(10);
const M15: Span = Span::last(15);
const M30: Span = Span::last(30);
const H1: Span = Span::last(60);
const H2: Span = Span::last(120);
const H6: Span = Span::last(360);
const D1: Span = Span::last(1440);
const D3: Span = Span::last(4320);
/// What is normal: three hours that ended ten minutes ago.
const BASELINE: Span = Span { minutes: 180, lag: 10 };

const fn share(
    parts: &'static [Measure],
    whole: Measure,
    span: Span,
    over: Threshold,
) -> Condition {
    Above { parts, whole, span, limit: At(over) }
}

const fn floor(sum: Measure, span: Span, least: Threshold) -> Condition {
    AtLeast { sum, span, least }
}

/// `parts` burn the budget of refusals so many times (in tenths) faster than a month allows.
const fn burns(parts: &'static [Measure], span: Span, tenths: i64) -> Condition {
    Above { parts, whole: Attempts, span, limit: Tenths(Threshold::LimitBudget, tenths) }
}

static OUTGROW: Condition = All(&[
    share(&[Retries], Requests, M5, Threshold::GrowthShare),
    floor(Requests, BASELINE, Threshold::GrowthBaseline),
    floor(Requests, M5, Threshold::MinRequests),
    Outgrown { span: M5, base: BASELINE },
    Excess { span: M5, base: BASELINE },
    // It is still going on.
    Outgrown { span: M2, base: BASELINE },
    share(&[Retries], Requests, M2, Threshold::GrowthShare),
]);

static BUDGET: Condition = All(&[
    share(&[Retries], Requests, M5, Threshold::RetryShareShort),
    floor(Requests, M5, Threshold::MinRequests),
    floor(Retries, M5, Threshold::MinRetries),
    share(&[Retries], Requests, M30, Threshold::RetryShareLong),
]);

/// Spike, burn and slow burn of one measure of refusals.
macro_rules! refusals {
    ($spike:ident, $burn:ident, $slow:ident, $refused:expr) => {
        static $spike: Condition = All(&[
            share(&[$refused], Attempts, M5, Threshold::SpikeShareShort),
            floor(Attempts, M5, Threshold::MinAttempts),
            floor($refused, M5, Threshold::MinLimited),
            share(&[$refused], Attempts, M30, Threshold::SpikeShareLong),
        ]);
        static $burn: Condition = Any(&[
            All(&[
                burns(&[$refused], H1, 144),
                burns(&[$refused], M5, 144),
                floor(Attempts, M5, Threshold::MinAttempts),
                floor($refused, M5, Threshold::MinLimited),
            ]),
            All(&[
                burns(&[$refused], H6, 60),
                burns(&[$refused], M30, 60),
                floor(Attempts, M30, Threshold::MinAttempts),
                floor($refused, M30, Threshold::MinLimited),
            ]),
        ]);
        static $slow: Condition = Any(&[
            All(&[
                burns(&[$refused], D1, 30),
                burns(&[$refused], H2, 30),
                floor($refused, H2, Threshold::MinLimitedSlow),
            ]),
            All(&[
                burns(&[$refused], D3, 10),
                burns(&[$refused], H6, 10),
                floor($refused, H6, Threshold::MinLimitedSlow),
            ]),
        ]);
    };
}

refusals!(SPIKE, BURN, BURN_SLOW, Status429);
refusals!(LIMITED_ALL_SPIKE, LIMITED_ALL_BURN, LIMITED_ALL_BURN_SLOW, Limited);

/// Nearly all refusals of `span` are 429s: what there is to say, the 429 alert says.
const fn mostly_429(span: Span) -> Condition {
    Above { parts: &[Status429], whole: Limited, span, limit: Percent(80) }
}

static MOSTLY_429_M5: Condition = mostly_429(M5);
static MOSTLY_429_M30: Condition = mostly_429(M30);
static MOSTLY_429_H6: Condition = mostly_429(H6);

/// The twins: the same on refusals of any status, where the 429 alert is not true by itself.
static LIMITED_SPIKE: Condition = All(&[LIMITED_ALL_SPIKE, Not(&SPIKE), Not(&MOSTLY_429_M5)]);
static LIMITED_BURN: Condition = All(&[LIMITED_ALL_BURN, Not(&BURN), Not(&MOSTLY_429_M30)]);
static LIMITED_BURN_SLOW: Condition =
    All(&[LIMITED_ALL_BURN_SLOW, Not(&BURN_SLOW), Not(&MOSTLY_429_H6)]);

static FEW_RETRIES: Condition =
    Below { part: Retries, whole: EndedAfterRetries, span: M30, limit: Percent(50) };

static USELESS: Condition = All(&[
    Below {
        part: SavedByRetry,
        whole: EndedAfterRetries,
        span: M30,
        limit: At(Threshold::UselessShare),
    },
    floor(EndedAfterRetries, M30, Threshold::UselessRequests),
    // Requests can be given up without any retry; they say nothing about retries.
    Not(&FEW_RETRIES),
]);

static MULTIPLY: Condition = All(&[
    share(&[Requests, Retries], Requests, M10, Threshold::LayersAttempts),
    floor(Requests, M10, Threshold::MinRequests),
]);

static IGNORED: Condition = All(&[
    share(&[EarlyRetries], Retries, M15, Threshold::EarlyShare),
    floor(EarlyRetries, M15, Threshold::MinEarly),
]);

static DUPLICATES: Condition = All(&[floor(DuplicateWrites, M15, Threshold::DuplicateWrites)]);

static HIDDEN: Condition = All(&[
    Below { part: Succeeded, whole: Attempts, span: M30, limit: At(Threshold::HiddenActual) },
    Below { part: Succeeded, whole: Attempts, span: M5, limit: At(Threshold::HiddenActual) },
    share(&[Succeeded], Requests, M30, Threshold::HiddenEffective),
    floor(Requests, M5, Threshold::MinRequests),
    floor(Retries, M30, Threshold::MinRetries),
]);

static WAITS: Condition = All(&[
    Below { part: EndedInTime, whole: Ended, span: M10, limit: At(Threshold::WaitShare) },
    floor(Ended, M10, Threshold::MinRequests),
    share(&[Retries], Requests, M10, Threshold::WaitRetryShare),
    floor(Retries, M10, Threshold::MinRetries),
]);

/// Every rule.
pub static RULES: &[Rule] = &[
    Rule {
        name: "RetrylensRetriesOutgrowRequests",
        slug: "retries-outgrow-requests",
        severity: Severity::Warning,
        watch: Watch::Pair(OUTGROW),
        hold: 3,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "Retries of {service} to {upstream} grow faster than its requests",
        description: "{value} of the requests of the last 5 minutes were retried, more than {growth} the share seen before.",
    },
    Rule {
        name: "RetrylensRetryBudgetExceeded",
        slug: "retry-budget-exceeded",
        severity: Severity::Critical,
        watch: Watch::Pair(BUDGET),
        hold: 2,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "Retry budget of {service} to {upstream} is spent",
        description: "{value} retries per request over 5 minutes, and more than {alert_retry_share_30m} over 30 minutes.",
    },
    Rule {
        name: "Retrylens429Spike",
        slug: "429-spike",
        severity: Severity::Critical,
        watch: Watch::Pair(SPIKE),
        hold: 2,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "{upstream} answers {service} with 429",
        description: "{value} of the attempts of the last 5 minutes got 429.",
    },
    Rule {
        name: "Retrylens429BudgetBurn",
        slug: "429-budget-burn",
        severity: Severity::Critical,
        watch: Watch::Pair(BURN),
        hold: 2,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "{service} spends its 429 budget for {upstream} too fast",
        description: "{value} of the attempts in the long window got 429; the budget is {alert_limit_budget}.",
    },
    Rule {
        name: "Retrylens429BudgetBurnSlow",
        slug: "429-budget-burn-slow",
        severity: Severity::Warning,
        watch: Watch::Pair(BURN_SLOW),
        hold: 15,
        keep: 60,
        every: 5,
        shown: Shown::Percentage,
        summary: "{service} steadily gets 429 from {upstream}",
        description: "{value} of the attempts in the long window got 429; the budget is {alert_limit_budget}.",
    },
    Rule {
        name: "RetrylensLimitedSpike",
        slug: "limited-spike",
        severity: Severity::Critical,
        watch: Watch::Pair(LIMITED_SPIKE),
        hold: 2,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "{upstream} refuses {service} by a limit, mostly without status 429",
        description: "{value} of the attempts of the last 5 minutes were refused by a limit.",
    },
    Rule {
        name: "RetrylensLimitedBudgetBurn",
        slug: "limited-budget-burn",
        severity: Severity::Critical,
        watch: Watch::Pair(LIMITED_BURN),
        hold: 2,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "{service} spends its budget of refusals for {upstream} too fast",
        description: "{value} of the attempts in the long window were refused by a limit, many without status 429; the budget is {alert_limit_budget}.",
    },
    Rule {
        name: "RetrylensLimitedBudgetBurnSlow",
        slug: "limited-budget-burn-slow",
        severity: Severity::Warning,
        watch: Watch::Pair(LIMITED_BURN_SLOW),
        hold: 15,
        keep: 60,
        every: 5,
        shown: Shown::Percentage,
        summary: "{upstream} steadily refuses {service} by a limit, mostly without status 429",
        description: "{value} of the attempts in the long window were refused by a limit; the budget is {alert_limit_budget}.",
    },
    Rule {
        name: "RetrylensRetriesUseless",
        slug: "retries-useless",
        severity: Severity::Warning,
        watch: Watch::Pair(USELESS),
        hold: 10,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "Retries of {service} to {upstream} hardly ever succeed",
        description: "{value} of the requests that ended after a retry in the last 30 minutes ended well; under {alert_useless_share} the retries only add load.",
    },
    Rule {
        name: "RetrylensLayersMultiply",
        slug: "layers-multiply",
        severity: Severity::Warning,
        watch: Watch::Pair(MULTIPLY),
        hold: 10,
        keep: 10,
        every: 1,
        shown: Shown::Number,
        summary: "{service} sends {upstream} each request too many times",
        description: "{value} attempts per request over 10 minutes, more than {alert_layers_attempts}: likely several layers retry, each on top of the other.",
    },
    Rule {
        name: "RetrylensRetryAfterIgnored",
        slug: "retry-after-ignored",
        severity: Severity::Warning,
        watch: Watch::Pair(IGNORED),
        hold: 10,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "{service} retries {upstream} before Retry-After has passed",
        description: "{value} of the retries of the last 15 minutes came too early.",
    },
    Rule {
        name: "RetrylensDuplicateWrites",
        slug: "duplicate-writes",
        severity: Severity::Warning,
        watch: Watch::Pair(DUPLICATES),
        hold: 0,
        // Its window of 15 minutes keeps it on by itself.
        keep: 0,
        every: 1,
        shown: Shown::Number,
        summary: "Retries of {service} may have written twice at {upstream}",
        description: "About {value} suspected duplicate writes in 15 minutes: retried after an attempt that may have taken effect.",
    },
    Rule {
        name: "RetrylensDegradationHidden",
        slug: "degradation-hidden",
        severity: Severity::Warning,
        watch: Watch::Pair(HIDDEN),
        hold: 10,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "Retries of {service} hide that {upstream} is degraded",
        description: "Only {value} of the attempts of the last 30 minutes ended well, while more than {alert_hidden_effective} of the requests did.",
    },
    Rule {
        name: "RetrylensWaitAccumulates",
        slug: "wait-accumulates",
        severity: Severity::Warning,
        watch: Watch::Pair(WAITS),
        hold: 5,
        keep: 10,
        every: 1,
        shown: Shown::Percentage,
        summary: "Waits between attempts of {service} to {upstream} add up",
        description: "Only {value} of the requests of the last 10 minutes ended within {alert_wait_s}, retries and their waits included; {alert_wait_share} should.",
    },
    Rule {
        name: "RetrylensIngestStalled",
        slug: "ingest-stalled",
        severity: Severity::Warning,
        watch: Watch::Silence,
        hold: 5,
        keep: 0,
        every: 1,
        shown: Shown::Duration,
        summary: "retrylens has received no event for over {stalled}",
        description: "Last event {value} ago; every other retrylens alert is blind.",
    },
    Rule {
        name: "RetrylensAbsent",
        slug: "absent",
        severity: Severity::Warning,
        watch: Watch::Absence,
        hold: 5,
        keep: 0,
        every: 1,
        shown: Shown::Number,
        summary: "retrylens is not scraped",
        description: "No retrylens_build_info series; the service is down or the scrape is broken.",
    },
];
