//! The command line: a file per command.

pub mod classify;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// Says who returned a 429, with evidence, and what to do about it.
#[derive(Parser, Debug)]
#[command(name = "retrylens", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Classify(classify::Args),
}

/// Reads the arguments, runs the command and gives the exit code: 0 done, 1 failed, 2 wrong usage.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Classify(args) => classify::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr().lock(), "retrylens: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output went away, as `head` does; no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
