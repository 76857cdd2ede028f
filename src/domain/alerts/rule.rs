//! What a rule is made of. Everything here is a plain value that can stand in a `static`; nothing
//! says how it is evaluated or written down.

use super::super::spelling::spelled_enum;
use super::super::stored::Counts;
use super::threshold::{Decimal, Threshold};

spelled_enum! {
    /// Something that is counted per minute for a pair of service and upstream.
    pub enum Measure {
        /// First attempts.
        Requests => "requests",
        /// Attempts above the first.
        Retries => "retries",
        /// All attempts.
        Attempts => "attempts",
        /// Attempts answered 429.
        Status429 => "status-429",
        /// Attempts that a limit refused, whatever the status.
        Limited => "limited",
        /// Requests that ended well, with their first attempt or a later one.
        Succeeded => "succeeded",
        /// Requests that ended well with a later attempt than the first.
        SavedByRetry => "saved-by-retry",
        /// Requests that ended well after a retry, or were given up.
        EndedAfterRetries => "ended-after-retries",
        /// Retries sent before `Retry-After` had passed.
        EarlyRetries => "early-retries",
        /// Suspected duplicate writes.
        DuplicateWrites => "duplicate-writes",
        /// Requests that ended and whose length is known, from the first send to the last answer.
        Ended => "ended",
        /// Of those, the ones that took no longer than the pair's [`Threshold::WaitSeconds`].
        EndedInTime => "ended-in-time",
    }
}

impl Measure {
    /// This measure of a stretch of time, where the sums kept per minute carry it.
    pub const fn of(self, counts: &Counts) -> Option<i64> {
        match self {
            Self::Requests => Some(counts.requests),
            Self::Retries => Some(counts.retries),
            Self::Attempts => Some(counts.attempts),
            Self::Status429 => Some(counts.status_429),
            Self::Limited => Some(counts.limited),
            Self::Succeeded => Some(counts.succeeded),
            Self::SavedByRetry => Some(counts.retry_successes),
            Self::EndedAfterRetries => Some(counts.retry_successes + counts.gave_up),
            Self::EarlyRetries | Self::DuplicateWrites | Self::Ended | Self::EndedInTime => None,
        }
    }
}

/// Whole minutes before the minute of an evaluation: those `m` with
/// `now - lag - minutes <= m < now - lag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// How many.
    pub minutes: u32,
    /// How long ago they end, in minutes.
    pub lag: u32,
}

impl Span {
    /// The last `minutes` minutes.
    pub const fn last(minutes: u32) -> Self {
        Self { minutes, lag: 0 }
    }

    /// Minutes from its first one to now.
    pub const fn reach(self) -> u32 {
        self.minutes + self.lag
    }
}

/// A limit for a share: a threshold times a fixed factor, or a fixed share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The threshold as it is.
    At(Threshold),
    /// The threshold times so many tenths.
    Tenths(Threshold, i64),
    /// So many percent, not to be set.
    Percent(i64),
}

/// When a rule is true of a pair. Every comparison is between whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// All hold. The first one gives the value that is shown.
    All(&'static [Self]),
    /// One holds. The first that does gives the value.
    Any(&'static [Self]),
    /// It does not hold. Never first.
    Not(&'static Self),
    /// `sum >= least`.
    AtLeast {
        /// What is counted.
        sum: Measure,
        /// Over which minutes.
        span: Span,
        /// How many.
        least: Threshold,
    },
    /// `parts > limit * whole`.
    Above {
        /// What is counted, added up.
        parts: &'static [Measure],
        /// What it is a share of.
        whole: Measure,
        /// Over which minutes.
        span: Span,
        /// Which share.
        limit: Limit,
    },
    /// `part < limit * whole`.
    Below {
        /// What is counted.
        part: Measure,
        /// What it is a share of.
        whole: Measure,
        /// Over which minutes.
        span: Span,
        /// Which share.
        limit: Limit,
    },
    /// Retries outgrew requests: `r > factor * b * q`, where `b` is the larger of the ratio in
    /// `base` and [`Threshold::GrowthExpected`].
    Outgrown {
        /// Over which minutes.
        span: Span,
        /// The minutes to compare with.
        base: Span,
    },
    /// Enough retries stand behind it: `r - b * q >= excess`, `b` as above.
    Excess {
        /// Over which minutes.
        span: Span,
        /// The minutes to compare with.
        base: Span,
    },
}

/// What a rule watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Each pair of service and upstream, in each environment.
    Pair(Condition),
    /// The whole service: no event from anybody for [`Threshold::StalledSeconds`].
    Silence,
    /// The service itself. Only somebody else can tell, so the built-in evaluator leaves it out.
    Absence,
}

spelled_enum! {
    /// How bad it is.
    pub enum Severity {
        /// Wakes someone.
        Critical => "critical",
        /// Is a ticket.
        Warning => "warning",
    }
}

/// How the value of a rule is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// As a percentage.
    Percentage,
    /// As a number.
    Number,
    /// As a length of time, from seconds.
    Duration,
}

/// One alert rule: all that its forms are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name: `alertname`.
    pub name: &'static str,
    /// Its heading in `docs/alerts.md`, and the end of its UID in Grafana.
    pub slug: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it watches, and when it is true.
    pub watch: Watch,
    /// Minutes for which it must be true before it fires.
    pub hold: u32,
    /// Minutes for which it fires on after it was last true.
    pub keep: u32,
    /// Minutes from one evaluation to the next.
    pub every: u32,
    /// How the value is shown.
    pub shown: Shown,
    /// One line. `{service}`, `{upstream}`, `{value}` and the names of thresholds in braces are
    /// filled in by [`super::annotate`].
    pub summary: &'static str,
    /// What was seen, filled in likewise.
    pub description: &'static str,
}

impl Rule {
    /// The rule of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        super::RULES.iter().find(|rule| rule.name == name)
    }

    /// Whether one service or upstream may have thresholds of its own in it.
    pub const fn is_of_a_pair(&self) -> bool {
        matches!(self.watch, Watch::Pair(_))
    }

    /// Its condition, where it watches pairs.
    pub const fn condition(&self) -> Option<&Condition> {
        match &self.watch {
            Watch::Pair(condition) => Some(condition),
            Watch::Silence | Watch::Absence => None,
        }
    }
}

impl Condition {
    /// Calls `see` with every measure and its span, in the order of the rule; some more than once.
    pub fn each_sum(&self, see: &mut impl FnMut(Measure, Span)) {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().for_each(|c| c.each_sum(see)),
            Self::Not(condition) => condition.each_sum(see),
            Self::AtLeast { sum, span, .. } => see(*sum, *span),
            Self::Above { parts, whole, span, .. } => {
                parts.iter().for_each(|part| see(*part, *span));
                see(*whole, *span);
            }
            Self::Below { part, whole, span, .. } => {
                see(*part, *span);
                see(*whole, *span);
            }
            Self::Outgrown { span, base } | Self::Excess { span, base } => {
                for span in [*span, *base] {
                    see(Measure::Retries, span);
                    see(Measure::Requests, span);
                }
            }
        }
    }

    /// Calls `see` with every threshold it depends on; some more than once.
    pub fn each_threshold(&self, see: &mut impl FnMut(Threshold)) {
        self.each_sum(&mut |measure, _| {
            if measure == Measure::EndedInTime {
                see(Threshold::WaitSeconds);
            }
        });
        self.each_own_threshold(see);
    }

    fn each_own_threshold(&self, see: &mut impl FnMut(Threshold)) {
        match self {
            Self::All(all) | Self::Any(all) => all.iter().for_each(|c| c.each_own_threshold(see)),
            Self::Not(condition) => condition.each_own_threshold(see),
            Self::AtLeast { least, .. } => see(*least),
            Self::Above { limit, .. } | Self::Below { limit, .. } => match limit {
                Limit::At(threshold) | Limit::Tenths(threshold, _) => see(*threshold),
                Limit::Percent(_) => (),
            },
            Self::Outgrown { .. } => {
                see(Threshold::GrowthFactor);
                see(Threshold::GrowthExpected);
            }
            Self::Excess { .. } => {
                see(Threshold::GrowthExcess);
                see(Threshold::GrowthExpected);
            }
        }
    }
}

impl Limit {
    /// Its value in tenths of millionths, exact.
    pub(super) fn scaled(self, thresholds: &super::Thresholds) -> i64 {
        match self {
            Self::At(threshold) => thresholds.get(threshold).millionths().saturating_mul(10),
            Self::Tenths(threshold, tenths) => {
                thresholds.get(threshold).millionths().saturating_mul(tenths)
            }
            Self::Percent(percent) => percent.saturating_mul(Decimal::ONE / 10),
        }
    }

    /// Units in one of [`Self::scaled`].
    pub(super) const UNIT: i64 = Decimal::ONE * 10;

    /// As people read it.
    pub fn shown(self, thresholds: &super::Thresholds) -> String {
        match self {
            Self::At(threshold) => threshold.shown(thresholds.get(threshold)),
            Self::Tenths(..) | Self::Percent(_) => {
                Decimal::from_millionths(self.scaled(thresholds) / 10).percent()
            }
        }
    }

    /// Its value as a decimal number: `0.144`.
    pub fn decimal(self, thresholds: &super::Thresholds) -> String {
        let scaled = self.scaled(thresholds);
        let (whole, rest) = (scaled / Self::UNIT, scaled % Self::UNIT);
        match rest {
            0 => whole.to_string(),
            _ => format!("{whole}.{}", format!("{rest:07}").trim_end_matches('0')),
        }
    }
}
