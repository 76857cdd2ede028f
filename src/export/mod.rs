//! What is written for other tools and for people to paste elsewhere.
//!
//! - [`verdict`]: one verdict as JSON and as text for people.
//! - [`text`]: hostile text made readable.
//! - [`markdown`]: Markdown in which sent text stays text.

pub mod markdown;
pub mod text;
pub mod verdict;
