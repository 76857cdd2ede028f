//! The pages: server-rendered, readable without script.

pub mod address;
pub mod chart;
pub mod escape;
pub mod words;
pub mod model;
