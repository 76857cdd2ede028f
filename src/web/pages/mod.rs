//! The pages: server-rendered, readable without script.

pub mod address;
pub mod chart;
pub mod escape;
pub mod model;
pub mod words;
