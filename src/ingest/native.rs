//! The events of DESIGN 4.
