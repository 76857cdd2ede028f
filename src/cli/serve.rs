//! `retrylens serve`: the dashboard, the API and the intake, until told to stop.

use super::SettingArgs;
use crate::app::{self, App};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, LogFormat};
use crate::domain::time::UnixMillis;
use crate::shutdown::Shutdown;
use crate::telemetry::{self, Telemetry};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Longest time for sending the last traces, metrics and log lines at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) fn run(settings: &SettingArgs, output: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let config = Arc::new(settings.load()?);
    let runtime = super::runtime()?;
    let result = runtime.block_on(serve(Arc::clone(&config), output));
    // Tasks that hang must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        // Where machines read the log, the reason belongs into it, as an object like the others.
        Err(error) if config.log.format == LogFormat::Json => {
            tracing::error!("stopped: {error:#}");
            Ok(ExitCode::FAILURE)
        }
        other => other.map(|()| ExitCode::SUCCESS),
    }
}

async fn serve(config: Arc<Config>, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut telemetry = telemetry::start(&config.log)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let result = built_and_run(config, &mut telemetry, output).await;
    telemetry.flush(FLUSH_LIMIT).await;
    result
}

async fn built_and_run(
    config: Arc<Config>,
    telemetry: &mut Telemetry,
    output: &mut dyn Write,
) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let clock = Arc::new(SystemClock);
    let listener = app::bind(&config).await?;
    let app =
        App::build(Arc::clone(&config), Arc::clone(&clock) as Arc<dyn Clock>, listener).await?;
    telemetry.export_metrics(app.state().metrics.clone(), Arc::clone(&clock) as Arc<dyn Clock>)?;
    let greeting = greeting(&config, app.address(), clock.now());
    output.write_all(greeting.as_bytes())?;
    output.flush()?;
    tracing::info!(server.address = %app.address(), "retrylens listens on {}", app.address());
    app.run(shutdown).await?;
    Ok(())
}

/// What the person who started it wants to know: where it listens, where the data is, and how to
/// send a first event.
fn greeting(config: &Config, address: SocketAddr, now: UnixMillis) -> String {
    let base = match &config.server.public_url {
        Some(url) => url.to_string(),
        None => format!("http://{}", reachable(address)),
    };
    let token = if config.access.ingest_tokens.is_empty() {
        ""
    } else {
        " \\\n    -H \"authorization: Bearer $INGEST_TOKEN\""
    };
    let at = now.to_rfc3339();
    format!(
        "retrylens {version}\n\
         dashboard: {base}/\n\
         listening: {address}\n\
         data:      {data}\n\
         send a first event:\n  \
         curl -sS {base}/v1/events \\\n    \
         -H 'content-type: application/json'{token} \\\n    \
         -d '{{\"event_id\":\"first-event\",\"occurred_at\":\"{at}\",\"service\":\"checkout\",\
         \"host\":\"api.example.com\",\"status\":429,\"retry_after\":\"30\",\
         \"headers\":{{\"server\":\"cloudflare\"}},\"body_sample\":\"error code: 1015\"}}'\n\
         then open:\n  {base}/lookup?id=first-event\n",
        version = env!("CARGO_PKG_VERSION"),
        data = data(config),
    )
}

/// The database's address; for a file also where it lies.
fn data(config: &Config) -> String {
    let url = config.store.shown();
    match config.store.file().and_then(|path| std::path::absolute(path).ok()) {
        Some(file) => format!("{url} ({})", file.display()),
        None => url,
    }
}

/// An address that this machine can be asked at: loopback where it listens on all.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}
