//! Arguments to exit code, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    retrylens::cli::run()
}
