//! Helpers of the tests.

pub mod postgres;
