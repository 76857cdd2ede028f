//! `retrylens export`: alert rules and dashboards for other tools.

use super::SettingArgs;
use crate::clock::SystemClock;
use crate::config::secret::Secret;
use crate::domain::alerts::AlertSettings;
use crate::export::grafana::{self, Links, is_uid};
use crate::export::{RuleFormat, dashboards};
use crate::notify::client::Client;
use crate::notify::grafana::{Grafana, TOKEN};
use anyhow::Context as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Write alert rules and dashboards for Prometheus and Grafana.
///
/// Thresholds are those of the settings in force; links lead to `--public-url`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Rules(RuleArgs),
    Dashboards(DashboardArgs),
}

/// Write the alert rules.
#[derive(clap::Args, Debug)]
struct RuleArgs {
    /// For whom: `prometheus` and `grafana` are files to provision, `grafana-api` is an array of
    /// rule groups for Grafana's provisioning API.
    #[arg(long, value_parser = format)]
    format: RuleFormat,
    /// UID of the Prometheus data source in Grafana.
    #[arg(long, value_name = "UID", default_value = "prometheus", value_parser = uid)]
    datasource_uid: String,
    /// File to write; standard output when absent or `-`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Send the rules to this Grafana server instead, by its address; only with `grafana-api`. What
    /// is there already is left alone. The token of a service account is taken from
    /// `RETRYLENS_GRAFANA_TOKEN`.
    #[arg(long, value_name = "URL", conflicts_with = "output")]
    push: Option<String>,
    /// With `--push`: say what differs and change nothing.
    #[arg(long, requires = "push")]
    dry_run: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Write the dashboards for Grafana: the fleet, one service, and retrylens itself.
#[derive(clap::Args, Debug)]
struct DashboardArgs {
    /// Folder to write them into, a file each; without it they go to standard output as an array.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
}

fn format(word: &str) -> Result<RuleFormat, String> {
    word.parse().map_err(|error: crate::domain::spelling::UnknownWord| error.to_string())
}

fn uid(text: &str) -> Result<String, String> {
    let problem = "expected 1 to 40 letters, digits, - or _: the UID, not the name";
    if is_uid(text) { Ok(text.to_owned()) } else { Err(problem.to_owned()) }
}

/// Runs the command.
pub(super) fn run(
    args: &Args,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Rules(args) => {
            let (settings, base) = settings(&args.settings, errors)?;
            let links = Links { base, datasource: args.datasource_uid.clone() };
            if let Some(address) = &args.push {
                anyhow::ensure!(
                    args.format == RuleFormat::GrafanaApi,
                    "--push needs --format grafana-api"
                );
                let groups = grafana::api_groups(&settings, &links);
                super::runtime()?.block_on(push(address, &groups, args.dry_run, output))?;
                return Ok(ExitCode::SUCCESS);
            }
            let text = args.format.write(&settings, &links);
            match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
                Some(path) => write(path, &text)?,
                None => output.write_all(text.as_bytes())?,
            }
        }
        What::Dashboards(args) => {
            let (settings, base) = settings(&args.settings, errors)?;
            let made = dashboards::NAMES
                .into_iter()
                .filter_map(|name| Some((name, dashboards::dashboard(name, &settings, &base)?)));
            if let Some(folder) = &args.output {
                for (name, text) in made {
                    write(&folder.join(format!("{name}.json")), &text)?;
                }
            } else {
                let all: Vec<String> = made.map(|(_, text)| text.trim_end().to_owned()).collect();
                writeln!(output, "[{}]", all.join(",\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Longest time for one request to Grafana.
const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

async fn push(
    address: &str,
    groups: &[grafana::ApiGroup],
    is_dry: bool,
    output: &mut dyn Write,
) -> anyhow::Result<()> {
    let token = std::env::var(TOKEN).ok().filter(|token| !token.trim().is_empty());
    let token = token.with_context(|| {
        format!("{TOKEN} is not set; --push needs the token of a service account of Grafana")
    })?;
    let client = Client::new(PUSH_TIMEOUT, Arc::new(SystemClock))?;
    let grafana = Grafana::new(client, address, Secret::new(token.trim()))?;
    let plan = grafana.plan(groups).await?;
    output.write_all(plan.text.as_bytes())?;
    if plan.is_empty() {
        writeln!(output, "everything is there already; nothing was sent")?;
    } else if is_dry {
        writeln!(output, "nothing was sent: a dry run")?;
    } else {
        grafana.push(&plan).await?;
        writeln!(output, "done")?;
    }
    Ok(())
}

fn settings(args: &SettingArgs, errors: &mut dyn Write) -> anyhow::Result<(AlertSettings, String)> {
    let config = args.load()?;
    let base = config.server.base();
    if config.server.public_url.is_none() {
        writeln!(errors, "retrylens: links lead to {base}; --public-url names another address")?;
    }
    Ok((config.alerts, base))
}

/// Writes a file, in folders that are made where they are missing.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
