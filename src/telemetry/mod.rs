//! Our own logs and traces.
