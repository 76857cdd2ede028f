//! Builds everything from a configuration and a listener, then runs until told to stop.
