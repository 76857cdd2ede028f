//! Signals, soft and hard stop.
