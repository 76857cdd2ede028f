//! `retrylens doctor`: shows the settings in force and checks what the service stands on: the
//! settings, the doors, the store, the disk and the clock.
//!
//! A store that isn't there is not made; one that is there is opened as `serve` opens it, which
//! brings its schema up to date.

use super::{SettingArgs, counted};
use crate::app;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Origin};
use crate::domain::alerts::ReceiverKey;
use crate::domain::stored::History;
use crate::domain::time::{MINUTE_MS, UnixMillis};
use crate::notify::client::{Client, Method, Outgoing};
use crate::store::{
    Difference, IdFault, Mended, ReceiverHold, Recount, Store, StoreError, Verified,
};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Below this much room on the data's disk, the check fails; in bytes.
const LEAST_ROOM: u64 = 256 * 1024 * 1024;
/// How long a receiver may take to answer.
const REACH_LIMIT: Duration = Duration::from_secs(5);
/// When this version was made: a clock before it is wrong.
const MADE_AT: UnixMillis = UnixMillis(1_790_000_000_000);

/// What the command is asked for.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingArgs,
    /// Also show the settings that have their default.
    #[arg(long = "settings")]
    all_settings: bool,
    /// Also count every event again and compare with the sums, and check that each is found by its
    /// ids. Reads all that is stored; a service may run meanwhile.
    #[arg(long)]
    verify: bool,
    /// As --verify, then mend what differs and check again.
    #[arg(long)]
    repair: bool,
}

/// What a check found.
enum Finding {
    Good(String),
    Note(String),
    Bad(String),
}

/// What other checks need to know of the store; nothing where there is none that can be asked.
#[derive(Default)]
struct Known {
    /// The time of its newest event.
    last: Option<UnixMillis>,
    /// Receivers that nothing is sent to now.
    holds: Vec<(ReceiverKey, ReceiverHold)>,
}

/// Runs the command. Exit status 1 where a check fails.
pub(super) fn run(args: &Args, output: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let config = args.settings.load()?;
    let runtime = super::runtime()?;
    let now = SystemClock.now();
    let (store, known) = runtime.block_on(check_store(&config, now));
    let mut findings = vec![
        ("settings", settings_found(&config)),
        ("doors", runtime.block_on(check_doors(&config))),
        ("store", store),
        ("disk", check_disk(&config)),
        ("clock", check_clock(now, known.last)),
    ];
    let receivers = runtime.block_on(check_receivers(&config, &known.holds, now));
    findings.extend(receivers.into_iter().map(|finding| ("receivers", finding)));
    if args.verify || args.repair {
        let found = runtime.block_on(verify(&config, args.repair));
        findings.extend(found.into_iter().map(|finding| ("verify", finding)));
    }
    let mut is_well = true;
    for (name, finding) in findings {
        let (word, text) = match finding {
            Finding::Good(text) => ("ok", text),
            Finding::Note(text) => ("note", text),
            Finding::Bad(text) => {
                is_well = false;
                ("FAIL", text)
            }
        };
        writeln!(output, "{word:<5} {name:<9} {text}")?;
    }
    writeln!(output)?;
    show_settings(&config, args.all_settings, output)?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The settings as a file that would bring them about, but for the secrets; those that have their
/// default only where `all` are wanted.
fn show_settings(config: &Config, all: bool, output: &mut dyn Write) -> std::io::Result<()> {
    let mut section = "";
    let (shown, rest): (Vec<_>, Vec<_>) =
        config.effective().iter().partition(|one| all || one.origin != Origin::Default);
    for setting in &shown {
        if setting.section != section {
            section = &setting.section;
            writeln!(output, "[{section}]")?;
        }
        writeln!(output, "{} = {}  # {}", setting.name, setting.value, setting.origin)?;
    }
    match rest.len() {
        0 => Ok(()),
        n => {
            let n = counted(n as u64, "setting has its", "settings have their");
            writeln!(output, "# {n} default; doctor --settings shows all")
        }
    }
}

fn settings_found(config: &Config) -> Finding {
    if config.warnings.is_empty() {
        Finding::Good("every setting can be used".to_owned())
    } else {
        Finding::Note(config.warnings.join("; "))
    }
}

/// Whether each receiver can be reached: any answer to a HEAD of its host's root is good enough. No
/// notification is sent, and nothing at all to one that wants to be left alone.
async fn check_receivers(
    config: &Config,
    holds: &[(ReceiverKey, ReceiverHold)],
    now: UnixMillis,
) -> Vec<Finding> {
    let receivers = &config.notify.receivers;
    if receivers.is_empty() {
        return vec![Finding::Note("none: this server tells nobody of alerts".to_owned())];
    }
    let limit = config.notify.timeout.min(REACH_LIMIT);
    let client = match Client::new(limit, Arc::new(SystemClock)) {
        Ok(client) => client,
        Err(error) => return vec![Finding::Bad(chain(&error))],
    };
    let mut findings = Vec::new();
    for receiver in receivers {
        let (name, kind, origin) = (receiver.name(), receiver.kind.as_str(), receiver.origin());
        let own = receiver.key();
        if let Some((_, hold)) = holds.iter().find(|(key, _)| *key == own) {
            findings.push(held(&format!("{name} ({kind}): {origin}"), *hold, now));
            continue;
        }
        let url = format!("{origin}/");
        let request =
            Outgoing { method: Method::HEAD, url: &url, headers: &[], body: None, most_bytes: 0 };
        findings.push(match client.send(&request).await {
            Ok(_) => Finding::Good(format!("{name} ({kind}): {origin} answers; nothing was sent")),
            Err(error) => Finding::Bad(format!("{name} ({kind}): {origin} {error}")),
        });
    }
    findings
}

/// What a receiver said about being sent to, and what can be done about it.
fn held(receiver: &str, hold: ReceiverHold, now: UnixMillis) -> Finding {
    if let Some(at) = hold.gone_at {
        return Finding::Bad(format!(
            "{receiver} answered 410 Gone at {}, and nothing is sent to it since: put its url right, \
             or start serve anew to have it tried once more",
            at.to_rfc3339()
        ));
    }
    let text = format!(
        "{receiver} asked with Retry-After for nothing before {}; what it is to be told waits until \
         then, and it was not asked now",
        hold.until.to_rfc3339()
    );
    if hold.is_lost(now) {
        Finding::Bad(format!(
            "{text}; what waits for longer than notify_give_up_ms is given up: another url in the \
             settings ends the wait"
        ))
    } else {
        Finding::Note(text)
    }
}

async fn check_doors(config: &Config) -> Finding {
    match app::check_listen(config).await {
        Ok(found) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Finding::Good(format!("{} may be listened on", found.join(", ")))
        }
        Err(error) => Finding::Bad(chain(&error)),
    }
}

/// Asks the store, where there is one, and beside that for what other checks need to know.
async fn check_store(config: &Config, now: UnixMillis) -> (Finding, Known) {
    let url = config.store.shown();
    if let Some(file) = config.store.file().filter(|file| !file.exists()) {
        let text = format!("{} does not exist yet; serve makes it", file.display());
        return (Finding::Note(text), Known::default());
    }
    if let Some((path, error)) = config.store.file().and_then(|file| unwritable(&file)) {
        return (
            Finding::Bad(format!("{} can't be written: {error}", path.display())),
            Known::default(),
        );
    }
    let store = match Store::open(config.store.database_url.expose()).await {
        Ok(store) => store,
        Err(error) => return (Finding::Bad(format!("{url}: {}", chain(&error))), Known::default()),
    };
    let finding = match store.ready().await {
        Ok(()) => {
            let kept = store.kept().await.map(|history| kept(&history, config));
            match kept {
                Ok(kept) => {
                    Finding::Good(format!("{url} answers and its schema is up to date; {kept}"))
                }
                Err(error) => Finding::Bad(format!("{url}: {}", chain(&error))),
            }
        }
        Err(error) => Finding::Bad(format!("{url}: {}", chain(&error))),
    };
    let known = Known {
        last: store.last_event_at().await.ok().flatten(),
        holds: store.holds(now).await.unwrap_or_default(),
    };
    store.close().await.ok();
    (finding, known)
}

/// The first of SQLite's files that is there and can't be written by who runs this.
fn unwritable(file: &Path) -> Option<(PathBuf, rustix::io::Errno)> {
    ["", "-wal", "-shm"].iter().find_map(|end| {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        match rustix::fs::access(&path, rustix::fs::Access::WRITE_OK) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => None,
            Err(error) => Some((path.into(), error)),
        }
    })
}

/// Since when there is what.
fn kept(history: &History, config: &Config) -> String {
    let History { events, sums, .. } = history;
    if !events.is_limited() {
        return "nothing was ever removed".to_owned();
    }
    let size = config.store.keep.max_bytes.map(|bytes| format!(" of {bytes} bytes"));
    let why = if events.is_for_budget() {
        format!(": the disk budget{} is used up", size.unwrap_or_default())
    } else {
        String::new()
    };
    format!(
        "events are kept since {}{why}; sums of hours since {}; {} events were removed, {} of them \
         for the disk budget",
        events.since.to_rfc3339(),
        sums.since.to_rfc3339(),
        events.removed,
        events.removed_for_budget
    )
}

/// Recounts everything, and mends it where that is asked for.
async fn verify(config: &Config, repair: bool) -> Vec<Finding> {
    if config.store.file().is_some_and(|file| !file.exists()) {
        return vec![Finding::Note("there is nothing to verify yet".to_owned())];
    }
    let store = match Store::open(config.store.database_url.expose()).await {
        Ok(store) => store,
        Err(error) => return vec![Finding::Bad(chain(&error))],
    };
    let found = match verify_store(&store, repair).await {
        Ok(found) => found,
        Err(error) => vec![Finding::Bad(chain(&error))],
    };
    store.close().await.ok();
    found
}

async fn verify_store(store: &Store, repair: bool) -> Result<Vec<Finding>, StoreError> {
    let begun = Instant::now();
    let found = store.verify().await?;
    let told = format!(
        "{} counted again in {:.1} s",
        counted(found.recount.events.cast_unsigned(), "event was", "events were"),
        begun.elapsed().as_secs_f64()
    );
    if found.is_well() {
        return Ok(vec![Finding::Good(format!("{told}: all sums agree, every id is found"))]);
    }
    let faults = faults(&found);
    if !repair {
        let advice = "retrylens doctor --repair counts it anew".to_owned();
        let told = std::iter::once(Finding::Note(told));
        let faults = faults.into_iter().map(Finding::Bad);
        return Ok(told.chain(faults).chain([Finding::Note(advice)]).collect());
    }
    let mut findings = vec![Finding::Note(told)];
    findings.extend(faults.into_iter().map(Finding::Note));
    let Mended { stretches, slices } = store.repair(&found).await?;
    findings.push(Finding::Note(format!(
        "mended: {stretches} stretches of sums counted anew, the ids of {slices} slices written anew"
    )));
    let again = store.verify().await?;
    if again.is_well() {
        findings.push(Finding::Good("checked again: all sums agree, every id is found".to_owned()));
    } else {
        findings.extend(self::faults(&again).into_iter().map(Finding::Bad));
    }
    Ok(findings)
}

/// What doesn't fit together, a line each.
fn faults(found: &Verified) -> Vec<String> {
    let mut lines = found.damage.clone();
    let Recount { attempts, summed_attempts, .. } = &found.recount;
    if attempts != summed_attempts {
        lines.push(format!("class_counts: {summed_attempts} attempts instead of {attempts}"));
    }
    for Difference { table, width, rows, stretches } in &found.recount.differences {
        let first = stretches.first().map(|at| at.to_rfc3339()).unwrap_or_default();
        lines.push(format!(
            "{table}: {rows} rows differ from the events, in {} stretches of {width} minutes; the \
             first begins {first}",
            stretches.len()
        ));
    }
    for IdFault { slice, from, missing, orphans, events } in &found.ids {
        let place = slice.map_or_else(
            || "in no slice".to_owned(),
            |slice| match from.0 {
                // The oldest slice has no beginning.
                i64::MIN => format!("in slice {slice}, from the beginning on"),
                _ => format!("in slice {slice}, from {} on", from.to_rfc3339()),
            },
        );
        lines.push(format!(
            "ids {place}: {missing} are missing, {orphans} belong to no event, and the slice counts \
             {events} events too many"
        ));
    }
    lines
}

fn check_disk(config: &Config) -> Finding {
    let Some(file) = config.store.file() else {
        return Finding::Note(
            "the data is on the database server; watch its disk there".to_owned(),
        );
    };
    let absolute = std::path::absolute(&file).unwrap_or(file);
    let folder = absolute.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    match rustix::fs::statvfs(&folder) {
        Err(error) => Finding::Bad(format!("{}: {error}", folder.display())),
        Ok(room) => {
            let free = room.f_bavail.saturating_mul(room.f_frsize);
            let text = format!("{} MiB free in {}", free / (1024 * 1024), folder.display());
            // SQLite makes files of its own beside the database.
            let may_make = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
            match free {
                _ if let Err(error) = rustix::fs::access(&folder, may_make) => {
                    Finding::Bad(format!("{} can't be written: {error}", folder.display()))
                }
                free if free < LEAST_ROOM => Finding::Bad(text),
                _ => Finding::Good(text),
            }
        }
    }
}

fn check_clock(now: UnixMillis, last: Option<UnixMillis>) -> Finding {
    let shown = now.to_rfc3339();
    if now < MADE_AT {
        return Finding::Bad(format!("{shown} is before this version was made"));
    }
    match last {
        Some(last) if last.since(now).0 > MINUTE_MS => Finding::Note(format!(
            "{shown}; the newest event says {}, so this clock is slow or a sender's is fast",
            last.to_rfc3339()
        )),
        _ => Finding::Good(shown),
    }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
