//! `POST /v1/access-logs/{format}`: lines of a gateway's access log in, observations stored.
//!
//! A body may be of any length: it is unpacked, read and stored in pieces while it arrives, so that
//! memory stays the same. What was stored stays stored when the rest never comes; sending the same
//! lines again changes nothing.

use super::{Problem, Problems};
use crate::domain::event::Vantage;
use crate::domain::sources::Input;
use crate::domain::stored::SenderCounts;
use crate::domain::time::UnixMillis;
use crate::ingest::access_log::{Format, Line, Lines, Naming, Reader, Totals, Zone};
use crate::ingest::body::Encoding;
use crate::pipeline::fair::Sender;
use crate::pipeline::{Intake, IntakeError};
use crate::web::extract::{Path, Peer, Query, encoding};
use crate::web::{AppState, Code, Failure, doors};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{self, Read};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use utoipa::{IntoParams, ToSchema};

/// Bodies that are read at the same time; each has a thread and a few hundred kibibytes.
static READERS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(MOST_READERS));
const MOST_READERS: usize = 16;
/// Lines that are stored together.
const PIECE_LINES: usize = 1_000;
/// Bytes after which a piece is stored, however few lines they are.
const PIECE_BYTES: usize = 256 * 1024;
/// Beyond this many bytes, a body that unpacks to more than [`MAX_RATIO`] times its size is refused.
const RATIO_FLOOR: u64 = 1 << 20;
/// Lines of a storm that are nearly alike pack to a few thousandths; zstd goes down to a 30,000th.
const MAX_RATIO: u64 = 10_000;
/// The most bytes that one packed body may unpack to: so long does a reader work for one sender.
const MOST_UNPACKED: u64 = 64 << 30;
/// A packed body with a longer line is no log.
const LONGEST_LINE: u64 = 1 << 20;
/// How often a piece that finds the queue full is offered again before the sender is told.
const TRIES: u32 = 20;
/// Base-two logarithm of the largest zstd window: what `zstd -19` and Vector write needs 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;

/// What the lines do not say themselves.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Who called; `unknown` without it.
    service: Option<String>,
    /// The deployment.
    environment: Option<String>,
    /// The upstream, for lines that name no host; the product's name without it.
    host: Option<String>,
    /// Who wrote the log: `gateway` or `origin`.
    vantage: Option<String>,
    /// What the gateway is called, to tell it from others of its product; the product without it.
    name: Option<String>,
    /// A name of the file that stays the same over rotation; lines are then known by their place.
    source: Option<String>,
    /// Where in that file the body begins, in bytes (unpacked).
    offset: Option<u64>,
    /// The zone of times that name none, as in HAProxy's default line: `Europe/Berlin`, `+02:00`;
    /// UTC without it.
    time_zone: Option<String>,
}

/// A line that was not stored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RejectedLogLine {
    /// Its number in the body, from 1.
    line: u64,
    /// What is wrong with it.
    error: String,
    /// Its beginning, with what looks secret replaced.
    text: String,
}

/// What became of the lines.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogReceipt {
    /// Lines that were read.
    lines: u64,
    /// Lines that are on disk now and weren't before.
    stored: u64,
    /// Lines that were there already.
    duplicates: u64,
    /// Lines of before what is kept.
    expired: u64,
    /// Header lines and empty ones.
    comments: u64,
    /// Requests that the gateway made to itself.
    internal: u64,
    /// Lines that end early and were read as far as they go.
    cut: u64,
    /// Stored lines that happened more than five minutes after now: the gateway's clock is fast, or
    /// its times are in another zone. They stand at that time, so that what is looked at now doesn't
    /// show them.
    ahead_of_time: u64,
    /// Lines whose time names no zone.
    local_times: u64,
    /// The zone that those were read in, where there were any.
    time_zone: Option<String>,
    /// Values that looked secret, replaced.
    redactions: u64,
    /// Lines that could not be read.
    wrong: u64,
    /// The first hundred of them.
    rejected: Vec<RejectedLogLine>,
}

/// `POST /v1/access-logs/{format}`: takes lines and answers when all of them are on disk.
#[utoipa::path(post, path = "/v1/access-logs/{format}", tag = "events",
    params(("format" = String, Path, description = "The product that wrote the lines, or `auto`"), LogParams),
    request_body(description = "Lines as the product writes them, text or NDJSON, of any length; gzip and zstd are taken", content(
        (String = "text/plain"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "What became of the lines; they are on disk", body = LogReceipt),
        (status = 400, description = "`invalid-compression`, `invalid-body`: the body is damaged or cut short; its whole lines before that are stored, and counted as with 200", content_type = "application/problem+json", body = Problem),
        (status = 422, description = "`nothing-storable`: no line could be read; `rejected` says why", content_type = "application/problem+json", body = Problem),
        (status = 503, description = "`queue-full`, `store-unavailable`, `stopping`: what `stored` counts is stored; send the body again after `Retry-After`", content_type = "application/problem+json", body = Problem),
        Problems))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Path(format): Path<String>,
    Query(params): Query<LogParams>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Totals>, Failure> {
    let named = Format::of_log(&format).map_err(|why| Failure::new(Code::InvalidParameter, why))?;
    let (naming, offset) = naming(params)?;
    let encoding = encoding(&headers)?;
    let token = doors::sending_token(&headers, &state.config.access.ingest_tokens);
    let source = peer.source(token);
    state.intake.admits(&source)?;
    let Ok(turn) = READERS.try_acquire() else {
        let detail = "Too many logs are being read. Send it after the wait.";
        return Err(Failure::new(Code::QueueFull, detail).retry_after(Duration::from_secs(2)));
    };
    let service = naming.service.clone().unwrap_or_default();
    let sender = source.service(&service);
    let (parts, arriving) = mpsc::channel::<io::Result<Bytes>>(4);
    let pass = hand_over(body, parts, state.config.server.body_timeout);
    let runtime = Handle::current();
    let (intake, hasher) = (state.intake.clone(), state.hasher.clone());
    let now = state.clock.now();
    let reading = tokio::task::spawn_blocking(move || {
        let totals = Totals::default();
        let mut work = Work { intake: &intake, sender: &sender, runtime: &runtime, now, totals };
        let mut reader = Reader::new(named, naming, &hasher);
        let done = work.all(Arriving::new(arriving), encoding, offset, &mut reader);
        (work.totals, done)
    });
    let ((), read) = tokio::join!(pass, reading);
    drop(turn);
    let (totals, done) = read.map_err(|error| Failure::internal(&error))?;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    state.metrics.rejected(usize::try_from(totals.wrong).unwrap_or(usize::MAX));
    let mistakes = SenderCounts { rejected: count(totals.wrong), ..SenderCounts::default() };
    state.senders.add(state.intake.series().sender(&service), &mistakes);
    done.map_err(|failure| telling(failure, &totals))?;
    if totals.stored + totals.duplicates + totals.internal + totals.comments == 0 {
        let detail = match totals.lines {
            0 => "The body holds no lines.",
            _ => "No line could be stored; see rejected for the reasons.",
        };
        return Err(telling(Failure::new(Code::NothingStorable, detail), &totals));
    }
    Ok(Json(totals))
}

/// A failure that tells what became of the lines all the same.
fn telling(failure: Failure, totals: &Totals) -> Failure {
    let counts = json!(totals);
    let counts = counts.as_object().into_iter().flatten();
    counts.fold(failure, |failure, (name, count)| failure.with(name, count.clone()))
}

/// Checks what the address says.
fn naming(params: LogParams) -> Result<(Naming, u64), Failure> {
    let vantage = match params.vantage.as_deref() {
        None | Some("gateway") => Vantage::Gateway,
        Some("origin") => Vantage::Origin,
        Some(_) => return Err(Failure::invalid_parameter("vantage", "gateway or origin")),
    };
    let text = |value: Option<String>| value.filter(|text| !text.trim().is_empty());
    let time_zone = match text(params.time_zone).as_deref().map(Zone::parse) {
        None => Zone::default(),
        Some(Some(zone)) => zone,
        Some(None) => return Err(Failure::invalid_parameter("time_zone", Zone::EXPECTED)),
    };
    let naming = Naming {
        service: text(params.service),
        environment: text(params.environment),
        host: text(params.host),
        vantage,
        name: text(params.name),
        source: text(params.source),
        time_zone,
    };
    Ok((naming, params.offset.unwrap_or(0)))
}

/// Hands the body over as it arrives. No part may take longer than a whole body of events.
async fn hand_over(body: Body, parts: mpsc::Sender<io::Result<Bytes>>, wait: Duration) {
    let mut chunks = body.into_data_stream();
    loop {
        let part = match tokio::time::timeout(wait, chunks.next()).await {
            Ok(None) => return,
            Ok(Some(Ok(chunk))) => Ok(chunk),
            Ok(Some(Err(error))) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a log broke off");
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let is_last = part.is_err();
        // Where nobody reads on, the answer is a failure.
        if parts.send(part).await.is_err() || is_last {
            return;
        }
    }
}

/// A body in parts, to be read on a thread of its own.
struct Arriving {
    parts: mpsc::Receiver<io::Result<Bytes>>,
    part: Bytes,
    /// Bytes that were taken.
    taken: u64,
}

/// What is told of a body that can't be read to its end.
const KEPT: &str = "The whole lines before that are taken; a last one that was cut is not.";

/// Bytes by which a packed body is known.
const MAGIC: usize = 4;

impl Arriving {
    fn new(parts: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { parts, part: Bytes::new(), taken: 0 }
    }

    /// How the body is packed, by its first bytes; they are still there to be read.
    fn encoding(&mut self) -> io::Result<Encoding> {
        while self.part.len() < MAGIC {
            let Some(more) = self.parts.blocking_recv() else { break };
            self.part = [self.part.as_ref(), more?.as_ref()].concat().into();
        }
        Ok(Encoding::of_beginning(&self.part))
    }
}

impl Read for Arriving {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.parts.blocking_recv() {
                Some(part) => self.part = part?,
                None => return Ok(0),
            }
        }
        let head = self.part.split_to(self.part.len().min(out.len()));
        out.iter_mut().zip(&head).for_each(|(to, from)| *to = *from);
        self.taken = self.taken.saturating_add(u64::try_from(head.len()).unwrap_or(u64::MAX));
        Ok(head.len())
    }
}

/// Where a body stands.
struct Work<'a> {
    intake: &'a Intake,
    sender: &'a Sender,
    runtime: &'a Handle,
    now: UnixMillis,
    totals: Totals,
}

impl Work<'_> {
    /// Reads a body to its end.
    fn all(
        &mut self,
        mut arriving: Arriving,
        named: Encoding,
        offset: u64,
        reader: &mut Reader<'_>,
    ) -> Result<(), Failure> {
        // Nothing that begins as packed bytes do is text.
        let found = if named == Encoding::Identity { arriving.encoding() } else { Ok(named) };
        let encoding = *found.as_ref().unwrap_or(&named);
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::ConnectionAborted => Failure::new(
                Code::InvalidBody,
                format!("The body broke off before its end. {KEPT}"),
            ),
            io::ErrorKind::TimedOut => {
                Failure::new(Code::RequestTimeout, "Nothing of the body arrived for too long.")
            }
            _ => Failure::new(
                Code::InvalidCompression,
                format!(
                    "The body can't be unpacked as {encoding}: it is damaged or cut short. {KEPT}"
                ),
            ),
        };
        found.map_err(&broken)?;
        match encoding {
            Encoding::Identity => self.lines(arriving, |_| None, offset, reader, &broken),
            Encoding::Gzip => {
                let unpacked = flate2::read::MultiGzDecoder::new(arriving);
                self.lines(unpacked, |d| Some(d.get_ref().taken), offset, reader, &broken)
            }
            Encoding::Zstd => {
                let mut unpacked = zstd::stream::read::Decoder::new(arriving).map_err(&broken)?;
                unpacked.window_log_max(ZSTD_WINDOW_LOG).map_err(&broken)?;
                let taken = |d: &zstd::stream::read::Decoder<'_, io::BufReader<Arriving>>| {
                    Some(d.get_ref().get_ref().taken)
                };
                self.lines(unpacked, taken, offset, reader, &broken)
            }
        }
    }

    /// Cuts what comes out of `input` into lines and stores them piece by piece. `packed` says how
    /// many packed bytes that took.
    fn lines<R: Read>(
        &mut self,
        mut input: R,
        packed: impl Fn(&R) -> Option<u64>,
        offset: u64,
        reader: &mut Reader<'_>,
        broken: &impl Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; 64 * 1024];
        let mut cutter = Lines::from_offset(offset);
        let (mut lines, mut bytes, mut all) = (Vec::new(), 0, 0_u64);
        loop {
            let length = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // What arrived whole is stored.
                    self.store(&lines, reader)?;
                    return Err(broken(error));
                }
            };
            all = all.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            cutter.feed(buffer.get(..length).unwrap_or_default(), &mut lines);
            bytes += length;
            if let Some(taken) = packed(&input) {
                let excess = if all > taken.saturating_mul(MAX_RATIO).max(RATIO_FLOOR) {
                    format!("more than {MAX_RATIO} times its size")
                } else if all > MOST_UNPACKED {
                    format!("more than {} GiB; send it in parts", MOST_UNPACKED >> 30)
                } else if cutter.begun() > LONGEST_LINE {
                    format!("a line of more than {} MiB", LONGEST_LINE >> 20)
                } else {
                    String::new()
                };
                if !excess.is_empty() {
                    self.store(&lines, reader)?;
                    let detail = format!("The body unpacks to {excess}.");
                    return Err(Failure::new(Code::TooLarge, detail));
                }
            }
            if lines.len() >= PIECE_LINES || bytes >= PIECE_BYTES {
                self.store(&lines, reader)?;
                lines.clear();
                bytes = 0;
            }
        }
        lines.extend(cutter.finish());
        self.store(&lines, reader)
    }

    /// Stores some lines, and waits for room where others are faster.
    fn store(&mut self, lines: &[Line], reader: &mut Reader<'_>) -> Result<(), Failure> {
        for lines in lines.chunks(PIECE_LINES) {
            let mut piece = reader.read(lines);
            let events = std::mem::take(&mut piece.events);
            let results = if events.is_empty() {
                Vec::new()
            } else {
                self.runtime.block_on(offered(self.intake, self.sender, events))?
            };
            self.totals.add(&piece, &results, self.now);
        }
        Ok(())
    }
}

/// Offers a piece until there is room for it.
async fn offered(
    intake: &Intake,
    sender: &Sender,
    events: Vec<crate::domain::event::Event>,
) -> Result<Vec<crate::domain::stored::Inserted>, Failure> {
    let mut tries = 0;
    loop {
        match intake.admit(sender, events.clone(), None, Input::AccessLog) {
            Ok(batch) => return Ok(intake.commit(batch).await?),
            Err(IntakeError::Full { retry_after } | IntakeError::OverShare { retry_after })
                if tries < TRIES =>
            {
                tries += 1;
                tokio::time::sleep(retry_after).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
