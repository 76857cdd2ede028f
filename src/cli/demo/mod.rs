//! `retrylens demo`: an incident with a known cause, loaded into a store of its own and served.

pub mod story;

use crate::app::{self, App};
use crate::cli::SettingArgs;
use crate::clock::{Clock, StagedClock, SystemClock};
use crate::config::{Config, Sources};
use crate::domain::stored::{Inserted, NewMark};
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};
use crate::ingest::native::{self, DecodeOptions, Format};
use crate::pipeline::alerts::{self, Evaluator};
use crate::shutdown::Shutdown;
use crate::telemetry;
use crate::web::AppState;
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use story::Story;

/// Shows a finished triage: an hour of made-up traffic whose causes are known.
///
/// The data lies in a temporary folder and goes when the command ends. Nothing of your own data is
/// used, and of your settings only those that stand behind the command (and `RETRYLENS_LISTEN`).
#[derive(clap::Args, Debug)]
#[command(mut_arg("database_url", |flag| flag.hide(true)))]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingArgs,
    /// Makes another hour of the same kind.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Ends the hour at this time (RFC 3339) instead of now; the demo's clock goes on from there.
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Writes the events as NDJSON to standard output instead of serving them.
    #[arg(long)]
    print: bool,
}

/// The one variable that counts.
const LISTEN: &str = "RETRYLENS_LISTEN";
/// How many events are stored at once, at most.
const BATCH: usize = 2_000;

/// Runs the command.
pub(super) fn run(args: &Args, output: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let end = match &args.end {
        Some(text) => UnixMillis::parse_rfc3339(text).with_context(|| {
            format!("--end {text:?} is not a time such as 2026-11-11T12:00:00Z")
        })?,
        None => SystemClock.now(),
    };
    let story = story::tell(end, args.seed);
    if args.print {
        for event in &story.events {
            writeln!(output, "{event}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::create()?;
    let database = format!("sqlite://{}", folder.0.join("demo.db").display());
    let config = Arc::new(config(&args.settings, database)?);
    let runtime = super::runtime()?;
    let result = runtime.block_on(serve(config, &story, output));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

/// The settings: what stands behind the command over what suits a look.
fn config(args: &SettingArgs, database: String) -> anyhow::Result<Config> {
    let given = args.flags();
    if given.iter().any(|(name, _)| name == "database_url") {
        bail!("the demo has a database of its own; database_url is for serve");
    }
    let own = [
        // One port is enough for a look.
        ("otlp_grpc_listen", String::new()),
        ("database_url", database),
        // An hour of alerts is played in some seconds: nobody wants to read of each.
        ("log_filter", "warn".to_owned()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let flags = own.into_iter().chain(given).collect();
    let environment = std::env::var(LISTEN).ok().map(|address| (LISTEN.to_owned(), address));
    let environment = environment.into_iter().collect();
    Ok(Config::load(&Sources { file: args.config.clone(), environment, flags })?)
}

async fn serve(config: Arc<Config>, story: &Story, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut telemetry = telemetry::start(&config.log)?;
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let listener = app::bind(&config).await?;
    let staged = Arc::new(StagedClock::at(story.from));
    let clock: Arc<dyn Clock> = Arc::clone(&staged) as Arc<dyn Clock>;
    let app = App::build(Arc::clone(&config), Arc::clone(&clock), listener).await?;
    telemetry.export_metrics(app.state().metrics.clone(), clock)?;
    load(app.state(), story, |now| staged.set(now)).await?;
    staged.run();
    output.write_all(greeting(&format!("http://{}", app.address()), story).as_bytes())?;
    output.flush()?;
    let result = app.run(shutdown).await;
    telemetry.flush(Duration::from_secs(5)).await;
    Ok(result?)
}

/// Sends a story through the same door as a client's events, each minute when it is over, evaluates
/// the alerts after each, and marks the story's change. `set` puts the clock of `state` forward.
///
/// # Errors
/// Where an event is rejected or can't be stored, or alerts can't be evaluated.
pub async fn load(state: &AppState, story: &Story, set: impl Fn(UnixMillis)) -> anyhow::Result<()> {
    let mut evaluator = Evaluator::new(
        state.store.clone(),
        state.metrics.clone(),
        state.config.alerts.clone(),
        state.config.server.base(),
        Vec::new(),
    );
    let minute = |event: &Value| {
        let at = event.get("occurred_at").and_then(Value::as_str);
        at.and_then(UnixMillis::parse_rfc3339).map_or(i64::MIN, |at| at.0.div_euclid(MINUTE_MS))
    };
    for events in story.events.chunk_by(|one, next| minute(one) == minute(next)) {
        let end = UnixMillis((events.first().map_or(0, minute) + 1).saturating_mul(MINUTE_MS));
        set(end.plus(Millis(-1)).min(story.to));
        for part in events.chunks(BATCH) {
            store(state, part).await?;
        }
        if end <= story.to {
            set(end.plus(alerts::DELAY));
            evaluator.catch_up(end.plus(alerts::DELAY)).await?;
        }
    }
    set(story.to.plus(alerts::DELAY));
    let mark = NewMark {
        at: story.changed_at,
        service: Some("checkout".to_owned()),
        upstream: Some("api.example.com".to_owned()),
        title: story.change.to_owned(),
    };
    state.store.add_mark(mark).await?;
    Ok(())
}

/// Stores some events.
async fn store(state: &AppState, events: &[Value]) -> anyhow::Result<()> {
    let body = serde_json::to_vec(events)?;
    let options = DecodeOptions {
        hasher: &state.hasher,
        raw_keys: native::RawKeys::Refuse,
        max_items: BATCH,
        format: Format::Detect,
    };
    let decoded = native::decode(&body, &options)?;
    if let Some(reject) = decoded.rejects.first() {
        bail!("an event of the demo was rejected: {reject:?}");
    }
    let events = decoded.events.into_iter().map(|(_, event)| event).collect();
    let results = state.intake.submit(events).await?;
    if results.iter().any(|result| *result != Inserted::Stored) {
        bail!("an event of the demo was there already");
    }
    Ok(())
}

/// Where to look, with the whole view in each address.
fn greeting(base: &str, story: &Story) -> String {
    let times = format!("from={}&to={}", story.from.to_rfc3339(), story.to.to_rfc3339());
    let triage = |service: &str, upstream: &str| {
        format!("{base}/triage?service={service}&upstream={upstream}&{times}")
    };
    format!(
        "retrylens {version}, demo: {events} made-up events of one hour\n\
         listening: {address}\n\
         overview:  {base}/?{times}\n\
         alerts:    {base}/alerts\n\
         a CDN's rate rule, hit by one key:\n  {checkout}\n\
         the application behind the same CDN:\n  {storefront}\n\
         SDK and application both retry:\n  {catalog}\n  {base}/operations/{operation}\n\
         report cards:\n  {base}/services/billing?{times}\n  {base}/services/notifier?{times}\n  \
         {base}/services/importer?{times}\n\
         any id:\n  {base}/lookup?id={operation}\n\
         Stop it with Ctrl-C; the data goes with it.\n",
        version = env!("CARGO_PKG_VERSION"),
        events = story.events.len(),
        address = base.trim_start_matches("http://"),
        checkout = triage("checkout", "api.example.com"),
        storefront = triage("storefront", "api.example.com"),
        catalog = triage("catalog-sync", "catalog.example.net"),
        operation = story.longest_operation,
    )
}

/// A temporary folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn create() -> anyhow::Result<Self> {
        let name = format!("retrylens-demo-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        let shown = |path: &Path| format!("cannot make the folder {}", path.display());
        builder.create(&path).with_context(|| shown(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
