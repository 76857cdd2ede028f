//! Small statistics: ratios with intervals, quantiles, jitter, boundaries, skew.
