//! Arguments to exit code, nothing else.

fn main() {}
