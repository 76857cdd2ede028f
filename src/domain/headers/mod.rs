//! The dictionary of rate-limit header fields, by owner and unit.
