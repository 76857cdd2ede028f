//! Small statistics over plain numbers: no types of the domain, no clock, nothing random.
//!
//! - [`ratio`]: shares with intervals, lift, comparison of two shares, which value separates two groups.
//! - [`quantile`]: percentiles, exact and from logarithmic buckets.
//! - [`jitter`]: how far delays that should differ really differ.
//! - [`boundary`]: bursts at the turn of a second, a minute or an hour, tested against chance.
//! - [`waves`]: whether sends come in waves.
//! - [`window`]: where a limit's window ends, and whether the clock or the first request began it.
//! - [`skew`]: how far two clocks are apart.
//! - [`growth`]: whether retries outgrow requests.

pub mod boundary;
pub mod growth;
pub mod jitter;
pub mod quantile;
pub mod ratio;
pub mod skew;
pub mod waits;
pub mod waves;
pub mod window;

/// A whole number as a real one.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and lengths of time here stay far below 2^53, and shares need no more digits"
)]
pub fn real(n: i64) -> f64 {
    n as f64
}

/// A real number as the nearest whole one; not-a-number becomes 0, the ends of the range hold.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the value is rounded, and `as` stops at the ends of the range"
)]
pub fn whole(x: f64) -> i64 {
    x.round() as i64
}

/// A length as a count.
pub fn len(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
