//! From accepted events to stored rows and roll-ups.
