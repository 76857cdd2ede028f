//! What is written for other tools.
//!
//! - [`verdict`]: one verdict as JSON and as text for people.

pub mod verdict;
