//! The command line: a file per command.

pub mod classify;
pub mod demo;
mod doctor;
mod export;
mod import;
mod migrate;
mod serve;

use crate::config::{Config, Sources};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Says who returned a 429, with evidence, and what to do about it.
///
/// Without a command it serves the dashboard and takes events, as `serve` does.
#[derive(Parser, Debug)]
#[command(name = "retrylens", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: SettingArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve the dashboard and take events, until told to stop.
    Serve(SettingArgs),
    Classify(classify::Args),
    Demo(demo::Args),
    Export(export::Args),
    Import(import::Args),
    /// Bring the schema of the database up to this version; `serve` does it by itself.
    Migrate(SettingArgs),
    /// Show the settings in force and check what the service stands on.
    Doctor(doctor::Args),
}

// Settings as flags. A plain comment, since clap would take another for the command's own help.
// Tokens have no flag of their own, since other users can read a command line.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct SettingArgs {
    /// Settings file in TOML; `RETRYLENS_CONFIG` names one too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:4290].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address and port to take OTLP over gRPC on; empty: not at all [default: 127.0.0.1:4317].
    #[arg(long, value_name = "ADDRESS")]
    otlp_grpc_listen: Option<String>,
    /// `sqlite://FILE` or `postgres://…` [default: `sqlite://retrylens.db`].
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The address that people open, behind a proxy.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Host name that requests may name, beside localhost and IP addresses; may be repeated.
    #[arg(long = "allowed-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// How log lines are written: text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log: a level, or directives such as `info,retrylens::web=debug`.
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// Any other setting; `retrylens doctor` lists them all. May be repeated. The environment
    /// works too: `RETRYLENS_` and the name in upper case.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, String)>,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

impl SettingArgs {
    /// Loads the settings: these flags over the environment over the file over the defaults.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let file = self.config.clone().or_else(|| {
            let named = environment.iter().find(|(name, _)| name == "RETRYLENS_CONFIG");
            named.filter(|(_, path)| !path.is_empty()).map(|(_, path)| PathBuf::from(path))
        });
        Ok(Config::load(&Sources { file, environment, flags: self.flags() })?)
    }

    fn flags(&self) -> Vec<(String, String)> {
        let named = [
            ("listen", &self.listen),
            ("otlp_grpc_listen", &self.otlp_grpc_listen),
            ("database_url", &self.database_url),
            ("public_url", &self.public_url),
            ("log_format", &self.log_format),
            ("log_filter", &self.log_filter),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let hosts = (!self.allowed_hosts.is_empty()).then(|| self.allowed_hosts.join(","));
        let hosts = hosts.map(|hosts| ("allowed_hosts", hosts));
        let named = named.chain(hosts).map(|(name, value)| (name.to_owned(), value));
        named.chain(self.set.iter().cloned()).collect()
    }
}

/// Reads the arguments, runs the command and gives the exit code: 0 done, 1 failed, 2 wrong usage.
pub fn run() -> ExitCode {
    run_from(std::env::args_os(), &mut io::stdout(), &mut io::stderr())
}

fn run_from(
    arguments: impl IntoIterator<Item = OsString>,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version are no failure; usage errors are 2.
            usage.print().ok();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let result = match cli.command {
        None => serve::run(&cli.serve, output),
        Some(Command::Serve(settings)) => serve::run(&settings, output),
        Some(Command::Classify(args)) => classify::run(&args),
        Some(Command::Demo(args)) => demo::run(&args, output),
        Some(Command::Export(args)) => export::run(&args, output, errors),
        Some(Command::Import(args)) => import::run(&args, output, errors),
        Some(Command::Migrate(settings)) => migrate::run(&settings, output),
        Some(Command::Doctor(args)) => doctor::run(&args, output),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(errors, "retrylens: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

/// The runtime that commands with something to wait for run on.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// `1 line`, `2 lines`.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Whether the reader of our output went away, as `head` does; no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
