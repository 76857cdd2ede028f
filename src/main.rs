//! Arguments to exit code, nothing else.

/// An event is a few dozen strings, made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;

fn main() -> ExitCode {
    retrylens::cli::run()
}
