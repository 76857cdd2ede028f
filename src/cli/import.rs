//! `retrylens import`: access logs from files, once or while they grow.
//!
//! Where a file was left is remembered by its first line and not by its name, so that a run that was
//! stopped goes on, and a rotated or packed copy of the same file is known again. Each line's id
//! comes from that name and its place, so that nothing is stored twice whatever happens.

use super::{SettingArgs, counted};
use crate::clock::{Clock, SystemClock};
use crate::domain::event::Vantage;
use crate::domain::key_hash::KeyHasher;
use crate::domain::redact;
use crate::domain::retry_policy::{Failure, Next, Policy};
use crate::domain::sources::Input;
use crate::domain::time::{MINUTE_MS, Millis};
use crate::ingest::access_log::{Format, Line, Lines, Naming, Reader, RejectedLine, Totals, Zone};
use crate::ingest::body::Encoding;
use crate::notify::client::{Client, Method, Outgoing};
use crate::pipeline::{Intake, IntakeError, IntakeSettings};
use crate::shutdown::Shutdown;
use crate::store::Store;
use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Send access logs from files into the store or to a running server.
///
/// Reads text, `.gz` and `.zst`. A second run goes on where the first one stopped; lines that are
/// there already change nothing. A last line without its end is read where it is whole, without
/// --follow. Of a file that is damaged or cut short the whole lines before that
/// are taken. A line that can't be read costs only itself: it is counted, and the first ten are
/// shown with their file and number. Exit status, also of --follow when it is told to stop: 0; 1 when no line could be read or
/// a file not to its end.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Files to read; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The product that wrote the lines; each line is looked at where it is not named.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Who called; `unknown` where absent.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The deployment.
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// The upstream, for lines that name no host.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// What the gateway is called, to tell it from others of its product.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The log is that of the application's own server.
    #[arg(long)]
    origin: bool,
    /// The zone of times that name none, as in HAProxy's default line: `Europe/Berlin`, `+02:00`.
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    time_zone: Zone,
    /// Go on reading as the one file grows, through its rotation, until SIGTERM or SIGINT.
    #[arg(long)]
    follow: bool,
    /// Send to this server instead of writing into the store; the token comes from
    /// `RETRYLENS_TOKEN`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where to remember how far files were read.
    #[arg(long, value_name = "FILE", default_value = "retrylens-import.json")]
    state: PathBuf,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Lines and bytes of one piece, whichever comes first.
const PIECE_LINES: usize = 2_000;
const PIECE_BYTES: usize = 512 * 1024;
/// How often a file that is followed is looked at.
const POLL: Duration = Duration::from_millis(300);
/// Bytes at the start of a file by which it is told from the one that takes its place.
const HEAD: usize = 4096;
/// Wrong lines that are printed.
const SHOWN: usize = 10;
/// What the waits for a server are bounded by.
const POLICY: Policy = Policy {
    base: Millis(500),
    longest_wait: Millis(60_000),
    attempts: 12,
    deadline: Millis(300_000),
};

fn zone(text: &str) -> Result<Zone, String> {
    Zone::parse(text).ok_or_else(|| format!("expected {}", Zone::EXPECTED))
}

/// A file that can't be read to its end.
#[derive(Debug, thiserror::Error)]
#[error("damaged or cut short; {} before that taken", counted(*lines, "whole line was", "whole lines were"))]
struct Broken {
    /// Those of this run.
    lines: u64,
    source: io::Error,
}

/// Runs the command.
pub(super) fn run(
    args: &Args,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let format = match args.format.as_deref() {
        None => None,
        Some(name) => Format::of_log(name).map_err(|why| anyhow!("--format: {why}"))?,
    };
    if args.follow && (args.files.len() != 1 || is_stdin(args.files.first())) {
        bail!("--follow takes one file");
    }
    let runtime = super::runtime()?;
    let stop = Shutdown::new();
    if args.follow {
        runtime.block_on(async { stop.on_signals() })?;
    }
    let target = runtime.block_on(Target::open(args))?;
    let hasher = match &target {
        Target::Store { hasher, .. } => hasher.clone(),
        // The server hashes with its own key.
        Target::Server { .. } => KeyHasher::new(&[]),
    };
    let mut work = Work {
        args,
        format,
        runtime: &runtime,
        target: &target,
        hasher: &hasher,
        state: State::load(&args.state, &target.name())?,
        totals: Totals::default(),
        file: String::new(),
        wrong: Vec::new(),
        began: SystemClock.now().0,
        told: 0,
        stop: &stop,
        errors,
    };
    let mut is_whole = true;
    let mut failed = None;
    for file in &args.files {
        let done =
            work.file(file).with_context(|| format!("cannot import all of {}", file.display()));
        match done {
            // The next one may be whole.
            Err(error) if error.is::<Broken>() => {
                is_whole = false;
                writeln!(work.errors, "retrylens: {error:#}").ok();
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
            Ok(()) => {}
        }
    }
    let (totals, wrong, seconds) =
        (std::mem::take(&mut work.totals), std::mem::take(&mut work.wrong), work.seconds());
    runtime.block_on(target.close());
    summary(&totals, &wrong, seconds, output)?;
    if let Some(error) = failed {
        return Err(error);
    }
    let is_well = is_whole && (totals.wrong == 0 || totals.understood() > 0);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_stdin(file: Option<&PathBuf>) -> bool {
    file.is_some_and(|path| path.as_os_str() == "-")
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn summary(
    totals: &Totals,
    wrong_lines: &[WrongLine],
    seconds: f64,
    output: &mut dyn Write,
) -> io::Result<()> {
    let Totals { lines, stored, duplicates, expired, wrong, .. } = totals;
    let rate = *lines as f64 / seconds.max(0.001);
    writeln!(
        output,
        "{}, {stored} stored, {}, {expired} expired, {wrong} wrong; {rate:.0} lines/s",
        counted(*lines, "line", "lines"),
        counted(*duplicates, "duplicate", "duplicates"),
    )?;
    if let Some(zone) = &totals.time_zone {
        let named = counted(totals.local_times, "line names", "lines name");
        writeln!(output, "{named} no zone beside the time: read as {zone} (--time-zone)")?;
    }
    if totals.ahead_of_time > 0 {
        writeln!(
            output,
            "{} happened more than five minutes after now: the gateway's clock is fast, or its \
             times are in another zone",
            counted(totals.ahead_of_time, "line", "lines")
        )?;
    }
    for WrongLine { file, line } in wrong_lines {
        writeln!(output, "{file}: line {}: {}", line.line, line.error)?;
    }
    Ok(())
}

/// A line that could not be read, and the file as it was named.
struct WrongLine {
    file: String,
    line: RejectedLine,
}

/// Where lines go.
enum Target {
    Store { store: Store, intake: Intake, hasher: KeyHasher, name: String },
    Server { client: Client, url: String, token: Option<String> },
}

impl Target {
    async fn open(args: &Args) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        if let Some(url) = &args.url {
            let client = Client::new(Duration::from_mins(2), clock)?;
            let token = std::env::var("RETRYLENS_TOKEN").ok().filter(|token| !token.is_empty());
            return Ok(Self::Server { client, url: url.trim_end_matches('/').to_owned(), token });
        }
        let config = args.settings.load()?;
        let name = config.store.shown();
        let opened = Store::open(config.store.database_url.expose()).await;
        let store = opened.with_context(|| format!("cannot open {name}"))?;
        // Nobody else may have opened the store before: what is too old to be kept is not taken.
        store.tidy(config.store.keep, clock.now()).await?;
        let hasher = KeyHasher::new(&store.hash_key().await?);
        let sizes = IntakeSettings {
            max_series: config.ingest.max_series,
            caps: config.metrics.caps,
            ..IntakeSettings::default()
        };
        let intake = Intake::start(store.clone(), clock, sizes);
        store.learn_series(intake.series()).await?;
        Ok(Self::Store { store, intake, hasher, name })
    }

    fn name(&self) -> String {
        match self {
            Self::Store { name, .. } => name.clone(),
            Self::Server { url, .. } => url.clone(),
        }
    }

    async fn close(&self) {
        if let Self::Store { store, intake, .. } = self {
            intake.stop().await;
            if let Err(error) = intake.sources().write(store, SystemClock.now()).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "what this source sent could not be counted");
            }
        }
    }
}

/// How far a file was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
struct Place {
    /// Bytes of the lines that have an end.
    offset: u64,
    /// How many those are.
    lines: u64,
    /// Bytes of the line behind them that was read without its end; 0 where none was. When it has
    /// grown it is still the same one.
    unfinished: u64,
}

/// A place in the state: an earlier version wrote bytes alone, and what it read is read again, which
/// changes nothing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Place { offset: u64, lines: u64, unfinished: u64 },
    Offset(#[expect(dead_code, reason = "tells the form alone")] u64),
}

impl From<Written> for Place {
    fn from(written: Written) -> Self {
        match written {
            Written::Place { offset, lines, unfinished } => Self { offset, lines, unfinished },
            Written::Offset(_) => Self::default(),
        }
    }
}

/// How far files were read, by target and first line.
struct State {
    file: PathBuf,
    target: String,
    places: BTreeMap<String, Place>,
}

impl State {
    fn load(file: &Path, target: &str) -> anyhow::Result<Self> {
        let places = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is no state of an import", file.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let target = digest(target.as_bytes());
        Ok(Self { file: file.to_owned(), target, places })
    }

    fn key(&self, source: &str) -> String {
        format!("{}:{source}", self.target)
    }

    fn place(&self, source: &str) -> Place {
        self.places.get(&self.key(source)).copied().unwrap_or_default()
    }

    /// Remembers; the old file stays whole until the new one is.
    fn set(&mut self, source: &str, place: Place) -> anyhow::Result<()> {
        self.places.insert(self.key(source), place);
        let new = self.file.with_extension("json.new");
        std::fs::write(&new, serde_json::to_vec_pretty(&self.places)?)
            .and_then(|()| std::fs::rename(&new, &self.file))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut text = hex::encode(Sha256::digest(bytes));
    text.truncate(32);
    text
}

/// A run.
struct Work<'a> {
    args: &'a Args,
    format: Option<Format>,
    runtime: &'a tokio::runtime::Runtime,
    target: &'a Target,
    hasher: &'a KeyHasher,
    state: State,
    totals: Totals,
    /// The file that is read, for people.
    file: String,
    /// The first lines that could not be read; `totals` counts them all.
    wrong: Vec<WrongLine>,
    /// When the run began, in milliseconds.
    began: i64,
    /// Whole seconds of the run when progress was told last.
    told: i64,
    stop: &'a Shutdown,
    errors: &'a mut dyn Write,
}

/// Lines on their way, of one file.
struct Batch {
    cutter: Lines,
    lines: Vec<Line>,
    bytes: usize,
    /// Where it began.
    from: Place,
    /// How far it is now.
    place: Place,
    /// Whether any line of its file was one of this format.
    is_read: bool,
}

impl Batch {
    /// Of a file, from a place in it.
    fn from_place(from: Place) -> Self {
        let cutter = Lines::behind(from.offset, from.lines);
        let is_read = from != Place::default();
        Self { cutter, lines: Vec::new(), bytes: 0, from, place: from, is_read }
    }

    /// Takes what was read.
    fn feed(&mut self, bytes: &[u8]) {
        let before = self.cutter.count();
        self.cutter.feed(bytes, &mut self.lines);
        self.bytes += bytes.len();
        if self.cutter.count() > before {
            if self.place.unfinished > 0 {
                // It was read when it had no end, and is the first one of this run.
                self.lines.remove(0);
            }
            let (offset, lines) = (self.cutter.offset(), self.cutter.count());
            self.place = Place { offset, lines, unfinished: 0 };
        }
    }

    /// Takes the last line, which has no end, where it was not read before.
    fn finish(&mut self) {
        if self.place.unfinished == 0 {
            self.place.unfinished = self.cutter.begun();
            self.lines.extend(self.cutter.finish());
        }
    }

    /// Lines of this run that were cut so far.
    fn count(&self) -> u64 {
        self.cutter.count().saturating_sub(self.from.lines)
    }
}

impl Work<'_> {
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    fn seconds(&self) -> f64 {
        SystemClock.now().0.saturating_sub(self.began).max(1) as f64 / 1000.0
    }

    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        if path.as_os_str() == "-" {
            "standard input".clone_into(&mut self.file);
            let mut input = io::stdin().lock();
            let mut begin = Vec::new();
            (&mut input).take(4).read_to_end(&mut begin)?;
            let encoding = Encoding::of_beginning(&begin);
            let input = io::Cursor::new(begin).chain(input);
            let start = Place::default();
            return match encoding {
                Encoding::Identity => self.stream(input, None, start, None),
                Encoding::Gzip => {
                    self.stream(flate2::read::MultiGzDecoder::new(input), None, start, None)
                }
                Encoding::Zstd => {
                    self.stream(zstd::stream::read::Decoder::new(input)?, None, start, None)
                }
            };
        }
        self.file = path.display().to_string();
        let mut file = File::open(path)?;
        let mut magic = [0; 4];
        let length = file.read(&mut magic)?;
        file.rewind()?;
        match Encoding::of_beginning(magic.get(..length).unwrap_or_default()) {
            Encoding::Gzip => {
                self.packed(|| Ok(flate2::read::MultiGzDecoder::new(File::open(path)?)))
            }
            Encoding::Zstd => self.packed(|| zstd::stream::read::Decoder::new(File::open(path)?)),
            Encoding::Identity if self.args.follow => self.follow(path, file),
            Encoding::Identity => {
                let Some(source) = source_of(&mut file, true)? else { return Ok(()) };
                let place = self.resume(&source, file.metadata()?.len());
                file.seek(SeekFrom::Start(place.offset))?;
                self.stream(file, Some(&source), place, Some(path))
            }
        }
    }

    /// A packed file is opened twice: for its first line, and to be read.
    fn packed<R: Read>(&mut self, open: impl Fn() -> io::Result<R>) -> anyhow::Result<()> {
        let unread = |source| Broken { lines: 0, source };
        let Some(source) = source_of(&mut open()?, true).map_err(unread)? else { return Ok(()) };
        let place = self.state.place(&source);
        let mut input = open()?;
        let mut before = (&mut input).take(place.offset);
        if io::copy(&mut before, &mut io::sink()).map_err(unread)? < place.offset {
            return Ok(());
        }
        self.stream(input, Some(&source), place, None)
    }

    /// Where to go on; from the start where the file is shorter than what was read of it.
    fn resume(&self, source: &str, length: u64) -> Place {
        let place = self.state.place(source);
        if place.offset.saturating_add(place.unfinished) > length {
            Place::default()
        } else {
            place
        }
    }

    /// Reads to the end. A last line without its end is taken; of the file `growing`, which somebody
    /// may be writing, where it is whole.
    fn stream(
        &mut self,
        mut input: impl Read,
        source: Option<&str>,
        place: Place,
        growing: Option<&Path>,
    ) -> anyhow::Result<()> {
        let mut batch = Batch::from_place(place);
        let mut reader =
            Reader::new(self.format, self.naming(source.map(ToOwned::to_owned)), self.hasher);
        let mut buffer = vec![0; 64 * 1024];
        self.pour(&mut input, &mut buffer, &mut batch, &mut reader, source)?;
        let last = batch.cutter.unfinished();
        match growing {
            Some(path) if !reader.is_whole(last) => {
                if batch.place.unfinished == 0 && !is_comment(last) {
                    let (path, line) = (path.display(), batch.cutter.count().saturating_add(1));
                    let said = "has no end and can't be read as it is: left for the next run";
                    writeln!(self.errors, "retrylens: {path}: line {line} {said}").ok();
                }
            }
            _ => batch.finish(),
        }
        self.store(&mut batch, &mut reader, source)
    }

    /// Reads what there is now, and stores the whole pieces of it.
    fn pour(
        &mut self,
        input: &mut impl Read,
        buffer: &mut [u8],
        batch: &mut Batch,
        reader: &mut Reader<'_>,
        source: Option<&str>,
    ) -> anyhow::Result<u64> {
        let mut all = 0_u64;
        loop {
            let length = match input.read(buffer) {
                Ok(0) => return Ok(all),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source_error) => {
                    self.store(batch, reader, source)?;
                    return Err(Broken { lines: batch.count(), source: source_error }.into());
                }
            };
            all = all.saturating_add(u64::try_from(length)?);
            batch.feed(buffer.get(..length).unwrap_or_default());
            if batch.lines.len() >= PIECE_LINES || batch.bytes >= PIECE_BYTES {
                self.store(batch, reader, source)?;
                if self.stop.is_requested() {
                    return Ok(all);
                }
            }
        }
    }

    /// Reads a file as it grows, and the one that takes its place: whether it was renamed and made
    /// anew or copied and emptied, its first bytes are others.
    fn follow(&mut self, path: &Path, mut file: File) -> anyhow::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let head = loop {
                if source_of(&mut file, false)?.is_some() {
                    break head_of(&mut file)?;
                }
                if self.stop.is_requested() {
                    return Ok(());
                }
                std::thread::sleep(POLL);
                file = File::open(path)?;
            };
            let source = source_of(&mut file, false)?.unwrap_or_default();
            let place = self.resume(&source, file.metadata()?.len());
            let mut at = place.offset;
            let mut batch = Batch::from_place(place);
            let mut reader =
                Reader::new(self.format, self.naming(Some(source.clone())), self.hasher);
            loop {
                // Emptied in place: what was read last is not what stands there now.
                if !is_same(&head, &head_of(&mut file)?) || file.metadata()?.len() < at {
                    break;
                }
                file.seek(SeekFrom::Start(at))?;
                let read =
                    self.pour(&mut file, &mut buffer, &mut batch, &mut reader, Some(&source))?;
                at = at.saturating_add(read);
                self.store(&mut batch, &mut reader, Some(&source))?;
                if self.stop.is_requested() {
                    return Ok(());
                }
                let now = File::open(path).and_then(|mut now| head_of(&mut now));
                if read == 0 && now.is_ok_and(|now| !now.is_empty() && !is_same(&head, &now)) {
                    // Nothing is added to a file that has lost its name.
                    batch.finish();
                    self.store(&mut batch, &mut reader, Some(&source))?;
                    break;
                }
                if read == 0 {
                    std::thread::sleep(POLL);
                }
            }
            file = File::open(path)?;
        }
    }

    fn naming(&self, source: Option<String>) -> Naming {
        Naming {
            service: self.args.service.clone(),
            environment: self.args.environment.clone(),
            host: self.args.host.clone(),
            vantage: if self.args.origin { Vantage::Origin } else { Vantage::Gateway },
            name: self.args.name.clone(),
            source,
            time_zone: self.args.time_zone.clone(),
        }
    }

    /// Stores the lines that are there, remembers the place, and tells how it goes.
    fn store(
        &mut self,
        batch: &mut Batch,
        reader: &mut Reader<'_>,
        source: Option<&str>,
    ) -> anyhow::Result<()> {
        let before = self.totals.understood();
        for lines in batch.lines.chunks(PIECE_LINES) {
            match self.target {
                Target::Store { intake, .. } => {
                    let mut piece = reader.read(lines);
                    let events = std::mem::take(&mut piece.events);
                    let results = self.runtime.block_on(submit(intake, events))?;
                    self.totals.add(&piece, &results, SystemClock.now());
                }
                Target::Server { client, url, token } => {
                    // The server works out where a line stands from those before it.
                    for lines in lines.chunk_by(is_next) {
                        let address = self.address(url, lines, source);
                        let to =
                            Receiver { client, url, address: &address, token: token.as_deref() };
                        let sent = send(&to, lines, self.stop, self.errors);
                        let told = self.runtime.block_on(sent)?;
                        self.totals.merge(told, lines.first().map_or(0, |line| line.number));
                    }
                }
            }
        }
        let room = SHOWN.saturating_sub(self.wrong.len());
        let rejected = self.totals.rejected.drain(..).take(room);
        self.wrong.extend(rejected.map(|line| WrongLine { file: self.file.clone(), line }));
        batch.is_read |= self.totals.understood() > before;
        // A file of which nothing could be read, most likely for a wrong format, is still to be read.
        if batch.is_read
            && !batch.lines.is_empty()
            && let Some(source) = source
        {
            self.state.set(source, batch.place)?;
        }
        batch.lines.clear();
        batch.bytes = 0;
        self.tell();
        Ok(())
    }

    /// Progress, once a second.
    fn tell(&mut self) {
        let seconds = SystemClock.now().0.saturating_sub(self.began) / 1000;
        if seconds > self.told {
            self.told = seconds;
            let Totals { lines, stored, wrong, .. } = &self.totals;
            let lines = counted(*lines, "line", "lines");
            let line = format!("{lines}, {stored} stored, {wrong} wrong, {seconds} s");
            // Nobody may be there to read it.
            writeln!(self.errors, "{line}").ok();
        }
    }

    fn address(&self, url: &str, lines: &[Line], source: Option<&str>) -> String {
        let format = self.format.map_or("auto", Format::as_str);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let offset = lines.first().map_or(0, |line| line.offset).to_string();
        let vantage = if self.args.origin { "origin" } else { "gateway" };
        // A server that doesn't know the parameter refuses it.
        let zone = Some(&self.args.time_zone).filter(|zone| **zone != Zone::default());
        for (name, value) in [
            ("service", self.args.service.as_deref()),
            ("environment", self.args.environment.as_deref()),
            ("host", self.args.host.as_deref()),
            ("vantage", Some(vantage)),
            ("name", self.args.name.as_deref()),
            ("source", source),
            ("offset", source.map(|_| offset.as_str())),
            ("time_zone", zone.map(Zone::name)),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        format!("{url}/v1/access-logs/{format}?{}", query.finish())
    }
}

/// The name of a file that stays over rotation and packing: its first line that is no comment.
/// `None` where there is no whole one yet; `is_final` where the last one needs no end. The file stands
/// at its start afterwards only for a caller that seeks.
fn source_of(input: &mut impl Read, is_final: bool) -> io::Result<Option<String>> {
    let (mut lines, mut found) = (Lines::from_offset(0), Vec::new());
    let mut buffer = vec![0; HEAD];
    loop {
        let length = input.read(&mut buffer)?;
        lines.feed(buffer.get(..length).unwrap_or_default(), &mut found);
        if length == 0 && is_final {
            found.extend(lines.finish());
        }
        if let Some(line) = found.iter().find(|line| !is_comment(&line.bytes)) {
            return Ok(Some(digest(line.content())));
        }
        if length == 0 {
            return Ok(None);
        }
        found.clear();
    }
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || line.starts_with(b"#")
}

/// The first bytes of a file.
fn head_of(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut head = Vec::with_capacity(HEAD);
    file.take(u64::try_from(HEAD).unwrap_or(u64::MAX)).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head)
}

/// Whether the same file began so before and now: it may only have grown.
fn is_same(before: &[u8], now: &[u8]) -> bool {
    now.starts_with(before)
}

/// Whether a line stands where one that is sent behind another seems to: not after one that was cut,
/// or whose bytes are no UTF-8 and are sent as others.
fn is_next(line: &Line, next: &Line) -> bool {
    let sent = String::from_utf8_lossy(&line.bytes).len().saturating_add(1);
    u64::try_from(sent).is_ok_and(|sent| line.offset.saturating_add(sent) == next.offset)
}

/// Stores events, and waits for room.
async fn submit(
    intake: &Intake,
    events: Vec<crate::domain::event::Event>,
) -> Result<Vec<crate::domain::stored::Inserted>, IntakeError> {
    loop {
        match intake.submit_from(events.clone(), Input::AccessLog).await {
            Err(IntakeError::Full { retry_after } | IntakeError::OverShare { retry_after }) => {
                tokio::time::sleep(retry_after).await;
            }
            other => return other,
        }
    }
}

/// A server, and where in it lines go.
struct Receiver<'a> {
    client: &'a Client,
    /// As it was given.
    url: &'a str,
    address: &'a str,
    token: Option<&'a str>,
}

/// Sends lines to a server, by the policy that we recommend; tells `errors` when the first try fails.
async fn send(
    to: &Receiver<'_>,
    lines: &[Line],
    stop: &Shutdown,
    errors: &mut dyn Write,
) -> anyhow::Result<Totals> {
    let mut body = Vec::new();
    for line in lines {
        body.extend_from_slice(&line.bytes);
        body.push(b'\n');
    }
    let body = String::from_utf8_lossy(&body);
    let shown = redact::text(to.url).text;
    let bearer = to.token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> =
        bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    let began = SystemClock.now();
    for attempt in 1_u32.. {
        let request = Outgoing {
            method: Method::POST,
            url: to.address,
            headers: &headers,
            body: Some(&body),
            most_bytes: 1 << 20,
        };
        let (failure, said) = match to.client.send(&request).await {
            Ok(answer) if answer.is_success() || answer.status == 422 => {
                return totals_of(&answer.body, lines.len());
            }
            Ok(answer) => (answer.failure(), answer.shown()),
            Err(error) => (Failure::NoAnswer, error.to_string()),
        };
        let elapsed = SystemClock.now().since(began);
        match POLICY.next(failure, attempt, elapsed, rand::random()) {
            Next::Wait(wait) => {
                if attempt == 1 {
                    let (tries, minutes) = (POLICY.attempts - 1, POLICY.deadline.0 / MINUTE_MS);
                    let goes_on = format!("up to {tries} more tries within {minutes} minutes");
                    // Nobody may be there to read it.
                    writeln!(errors, "retrylens: {shown} {said}; {goes_on}").ok();
                }
                let wait = u64::try_from(wait.0).unwrap_or(0);
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(wait)) => {}
                    () = stop.requested() => bail!("stopped while waiting for {shown}, which {said}"),
                }
            }
            Next::Stop(_) => bail!("{shown} {said} ({})", counted(attempt.into(), "try", "tries")),
        }
    }
    bail!("no attempt is left")
}

/// What the server told; of a piece in which no line was right, the reasons.
fn totals_of(body: &[u8], lines: usize) -> anyhow::Result<Totals> {
    if let Ok(totals) = serde_json::from_slice(body) {
        return Ok(totals);
    }
    let problem: serde_json::Value =
        serde_json::from_slice(body).context("no answer of a server")?;
    let rejected = problem.get("rejected").cloned().unwrap_or_default();
    let lines = u64::try_from(lines)?;
    let expired = problem.get("expired").and_then(serde_json::Value::as_u64).unwrap_or(0);
    Ok(Totals {
        lines,
        wrong: lines.saturating_sub(expired),
        expired,
        rejected: serde_json::from_value(rejected)?,
        ..Totals::default()
    })
}
