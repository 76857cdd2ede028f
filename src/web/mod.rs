//! The API and the pages.
pub mod api;
pub mod assets;
pub mod pages;
