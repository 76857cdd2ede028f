//! `retrylens migrate`: brings the database's schema up to this version, and nothing else.
//!
//! `serve` does the same at its start; this is for those who give the service no right to change
//! the schema.

use super::SettingArgs;
use crate::store::Store;
use anyhow::Context as _;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
pub(super) fn run(settings: &SettingArgs, output: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let config = settings.load()?;
    let url = config.store.shown();
    super::runtime()?.block_on(async {
        let store = Store::open(config.store.database_url.expose())
            .await
            .with_context(|| format!("cannot bring the schema of {url} up to date"))?;
        store.close().await.context("the database could not be closed in order")
    })?;
    writeln!(output, "the schema of {url} is up to date")?;
    Ok(ExitCode::SUCCESS)
}
