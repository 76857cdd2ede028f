//! Whether retries outgrow requests, judged by their ratio against its own past.

use super::real;

/// First attempts and retries of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Volume {
    /// First attempts.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
}

impl Volume {
    /// Retries per request; `None` without requests.
    pub fn retry_share(self) -> Option<f64> {
        (self.requests > 0).then(|| real(self.retries) / real(self.requests))
    }
}

/// What the comparison says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// Too little traffic before or now.
    TooFew,
    /// Within bounds.
    Steady,
    /// Retries per request rose from `before` (at least 1 %) to `now`.
    Outgrown {
        /// Retries per request before, floored at 1 %.
        before: f64,
        /// Retries per request now.
        now: f64,
    },
}

/// Compares two stretches with the guards of the alert on retry growth: 100 requests before and
/// 50 now, twice the ratio of before, 5 % in itself, and 20 retries beyond what was expected.
pub fn compare(before: Volume, now: Volume) -> Growth {
    let (Some(past), Some(share)) = (before.retry_share(), now.retry_share()) else {
        return Growth::TooFew;
    };
    if before.requests < 100 || now.requests < 50 {
        return Growth::TooFew;
    }
    let base = past.max(0.01);
    let excess = real(now.retries) - base * real(now.requests);
    if share > 2.0 * base && share > 0.05 && excess >= 20.0 {
        Growth::Outgrown { before: base, now: share }
    } else {
        Growth::Steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_needs_a_past_traffic_and_a_real_excess() {
        let volume = |requests, retries| Volume { requests, retries };
        assert_eq!(compare(volume(99, 0), volume(1000, 900)), Growth::TooFew);
        assert_eq!(compare(volume(1000, 0), volume(49, 40)), Growth::TooFew);
        assert_eq!(compare(volume(1000, 50), volume(1000, 90)), Growth::Steady);
        assert_eq!(compare(volume(1000, 0), volume(1000, 30)), Growth::Steady);
        assert!(matches!(
            compare(volume(1000, 50), volume(1000, 400)),
            Growth::Outgrown { now, .. } if (now - 0.4).abs() < 1e-9
        ));
    }
}
