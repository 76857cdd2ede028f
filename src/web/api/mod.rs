//! The API.
pub mod schema;
