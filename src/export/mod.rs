//! What is written for other tools.
