//! The one reader of the wall clock.
