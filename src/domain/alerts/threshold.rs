//! The numbers that an operator may set: each with a name, a kind and a range. Their defaults are
//! those of the built-in settings file, and nowhere else.

use super::super::spelling::spelled_enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number of at most six decimals, exact, not negative: kept in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decimal(i64);

impl Decimal {
    /// Units in one.
    pub const ONE: i64 = 1_000_000;

    /// A whole number.
    pub const fn whole(n: i64) -> Self {
        Self(n.saturating_mul(Self::ONE))
    }

    /// So many millionths.
    pub const fn from_millionths(n: i64) -> Self {
        Self(n)
    }

    /// In millionths.
    pub const fn millionths(self) -> i64 {
        self.0
    }

    /// Reads `14.4`, `0.2` or `20%`: digits, at most six decimals (four with a percent sign).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, places) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 4),
            None => (text, 6),
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) || decimals.len() > places {
            return None;
        }
        format!("{whole}{decimals:0<places$}").parse().ok().map(Self)
    }

    /// As a percentage: `20%`, `14.4%`.
    pub fn percent(self) -> String {
        format!("{}%", Self(self.0.saturating_mul(100)))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / Self::ONE, self.0 % Self::ONE);
        match rest {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
        }
    }
}

/// What kind of number a threshold is: how it is read, and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of things.
    Count,
    /// A part of a whole, written as a percentage.
    Share,
    /// A number to multiply with.
    Factor,
    /// A length of time in whole seconds.
    Seconds,
    /// A whole number of seconds at which `retrylens_request_duration_seconds` has a bucket.
    Bucket,
}

/// Upper bounds of the buckets of request durations that are whole seconds.
pub const WHOLE_BUCKETS: [i64; 6] = [1, 5, 10, 30, 60, 120];

spelled_enum! {
    /// The name of a threshold: that of its setting.
    pub enum Threshold {
        /// How often more retries per request than in the baseline count as growth.
        GrowthFactor => "alert_growth_factor",
        /// Retries per request below which growth does not matter.
        GrowthShare => "alert_growth_share",
        /// Retries per request that are expected at least, however quiet the baseline was.
        GrowthExpected => "alert_growth_expected",
        /// Retries beyond the expected ones that must stand behind growth.
        GrowthExcess => "alert_growth_excess",
        /// Requests that make a baseline.
        GrowthBaseline => "alert_growth_baseline_requests",
        /// Retries per request of five minutes that spend the budget.
        RetryShareShort => "alert_retry_share_5m",
        /// Retries per request of thirty minutes that spend the budget.
        RetryShareLong => "alert_retry_share_30m",
        /// Requests without which retry rules stay silent.
        MinRequests => "alert_min_requests",
        /// Retries without which retry rules stay silent.
        MinRetries => "alert_min_retries",
        /// Share of the attempts of five minutes that makes a spike.
        SpikeShareShort => "alert_spike_share_5m",
        /// Share of the attempts of thirty minutes that makes a spike.
        SpikeShareLong => "alert_spike_share_30m",
        /// Share of all attempts that may be refused over a month.
        LimitBudget => "alert_limit_budget",
        /// Attempts without which rules about limits stay silent.
        MinAttempts => "alert_min_attempts",
        /// Refused attempts without which rules about limits stay silent.
        MinLimited => "alert_min_limited",
        /// Refused attempts in the short window of the slow burn.
        MinLimitedSlow => "alert_min_limited_slow",
        /// Requests that ended after retries, without which nothing is said about their use.
        UselessRequests => "alert_useless_requests",
        /// Share of them that must end well.
        UselessShare => "alert_useless_share",
        /// Attempts per request that are too many.
        LayersAttempts => "alert_layers_attempts",
        /// Share of retries sent before `Retry-After` had passed.
        EarlyShare => "alert_early_share",
        /// Early retries without which the rule stays silent.
        MinEarly => "alert_min_early",
        /// Suspected duplicate writes.
        DuplicateWrites => "alert_duplicate_writes",
        /// Share of requests that end well above which callers see nothing.
        HiddenEffective => "alert_hidden_effective",
        /// Share of attempts that end well below which the dependency is degraded.
        HiddenActual => "alert_hidden_actual",
        /// Seconds within which requests should end, waits included.
        WaitSeconds => "alert_wait_s",
        /// Share of requests that must end within them.
        WaitShare => "alert_wait_share",
        /// Share of requests that must be retried for waits to explain it.
        WaitRetryShare => "alert_wait_retry_share",
        /// Seconds without any event.
        StalledSeconds => "alert_stalled_s",
    }
}

impl Threshold {
    /// How it is read and shown.
    pub const fn kind(self) -> Kind {
        match self {
            Self::GrowthFactor | Self::LayersAttempts => Kind::Factor,
            Self::GrowthShare
            | Self::GrowthExpected
            | Self::RetryShareShort
            | Self::RetryShareLong
            | Self::SpikeShareShort
            | Self::SpikeShareLong
            | Self::LimitBudget
            | Self::UselessShare
            | Self::EarlyShare
            | Self::HiddenEffective
            | Self::HiddenActual
            | Self::WaitShare
            | Self::WaitRetryShare => Kind::Share,
            Self::StalledSeconds => Kind::Seconds,
            Self::WaitSeconds => Kind::Bucket,
            _ => Kind::Count,
        }
    }

    /// Whether one service or upstream may have its own.
    pub const fn is_of_a_pair(self) -> bool {
        !matches!(self, Self::StalledSeconds)
    }

    /// Reads a value of it; the error says what would be right.
    pub fn read(self, text: &str) -> Result<Decimal, String> {
        let value = Decimal::parse(text);
        let whole = value.filter(|v| v.millionths() % Decimal::ONE == 0 && !text.contains('%'));
        let between = |value: Option<Decimal>, least: Decimal, most: Decimal| {
            value.filter(|value| (least..=most).contains(value))
        };
        let (found, expected) = match self.kind() {
            Kind::Count => (
                between(whole, Decimal::whole(1), Decimal::whole(1_000_000_000)),
                "a whole number from 1 to 1000000000".to_owned(),
            ),
            // Retries per request can exceed 1; a part of a whole can't.
            Kind::Share if self.can_exceed_one() => (
                between(value, Decimal(100), Decimal::whole(100)),
                "a share from \"0.01%\" to \"10000%\", such as \"20%\"".to_owned(),
            ),
            Kind::Share => (
                between(value, Decimal(100), Decimal(999_999)),
                "a share from \"0.01%\" to \"99.9999%\", such as \"20%\"".to_owned(),
            ),
            Kind::Factor => (
                between(
                    value.filter(|_| !text.contains('%')),
                    Decimal::whole(1),
                    Decimal::whole(100),
                ),
                "a number from \"1\" to \"100\", such as \"2\" or \"1.5\"".to_owned(),
            ),
            Kind::Seconds => (
                between(whole, Decimal::whole(60), Decimal::whole(86_400)),
                "whole seconds from 60 to 86400".to_owned(),
            ),
            Kind::Bucket => (
                whole.filter(|v| WHOLE_BUCKETS.iter().any(|bound| Decimal::whole(*bound) == *v)),
                format!("one of {WHOLE_BUCKETS:?}, the bucket bounds of request durations"),
            ),
        };
        found.ok_or(expected)
    }

    const fn can_exceed_one(self) -> bool {
        matches!(
            self,
            Self::GrowthShare
                | Self::GrowthExpected
                | Self::RetryShareShort
                | Self::RetryShareLong
                | Self::WaitRetryShare
        )
    }

    /// `value` as people read a value of this kind.
    pub fn shown(self, value: Decimal) -> String {
        match self.kind() {
            Kind::Share => value.percent(),
            Kind::Seconds | Kind::Bucket => format!("{value} s"),
            Kind::Count | Kind::Factor => value.to_string(),
        }
    }
}

/// A value for every threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds(Vec<Decimal>);

impl Thresholds {
    /// Asks `value` for each threshold.
    pub fn build<E>(value: impl FnMut(Threshold) -> Result<Decimal, E>) -> Result<Self, E> {
        Threshold::ALL.iter().copied().map(value).collect::<Result<_, E>>().map(Self)
    }

    /// The value in force.
    pub fn get(&self, threshold: Threshold) -> Decimal {
        self.0.get(threshold as usize).copied().unwrap_or(Decimal(0))
    }

    /// These with some changed.
    #[must_use]
    pub fn with(&self, changes: &BTreeMap<Threshold, Decimal>) -> Self {
        let values = Threshold::ALL.iter().map(|t| changes.get(t).copied().unwrap_or(self.get(*t)));
        Self(values.collect())
    }
}

/// Thresholds of one service, one upstream, or one pair of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The calling service; any where not named.
    pub service: Option<String>,
    /// The upstream host; any where not named.
    pub upstream: Option<String>,
    /// What differs from the thresholds of all.
    pub changes: BTreeMap<Threshold, Decimal>,
}

impl Override {
    /// Whether it is about this pair.
    pub fn covers(&self, service: &str, upstream: &str) -> bool {
        let is = |own: &Option<String>, name: &str| own.as_deref().is_none_or(|own| own == name);
        is(&self.service, service) && is(&self.upstream, upstream)
    }

    /// More specific ones come first: a pair, then a service, then an upstream.
    fn rank(&self) -> u8 {
        u8::from(self.service.is_none()) * 2 + u8::from(self.upstream.is_none())
    }
}

/// All thresholds. Of several overrides that cover a pair, the most specific applies alone: the one
/// that names both, else the one that names the service, else the one that names the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertSettings {
    base: Thresholds,
    overrides: Vec<Override>,
}

impl AlertSettings {
    /// Puts them together; what is more specific goes first.
    pub fn new(base: Thresholds, mut overrides: Vec<Override>) -> Self {
        overrides.sort_by_key(Override::rank);
        Self { base, overrides }
    }

    /// The thresholds of whatever no override covers.
    pub const fn base(&self) -> &Thresholds {
        &self.base
    }

    /// The overrides, the first that covers a pair applies.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// The thresholds in force for a pair.
    pub fn of(&self, service: &str, upstream: &str) -> Thresholds {
        let own = self.overrides.iter().find(|own| own.covers(service, upstream));
        own.map_or_else(|| self.base.clone(), |own| self.base.with(&own.changes))
    }
}
