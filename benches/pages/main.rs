//! How long every page takes at one and at ten million events, beside DuckDB on the same rows.
//!
//! The real binary serves a SQLite file; pages are asked for over HTTP on one connection, one
//! after the other, warm. What a page is put together from is asked of the store in this process
//! as well. DuckDB answers the same questions in SQL, in its own process without HTTP, warm, with
//! two threads, from one wide table in the order of arrival; where a page shows several answers,
//! the time of all their statements counts (`questions`). The day's events are the same in both,
//! and their counts are asserted to agree.
//!
//! Times depend on the machine: they are printed and not asserted. PASS and FAIL say whether a
//! goal was reached in this run: at most DuckDB's time at the largest size (look-ups by id a
//! tenth of it), at most twice the time at the smallest size, pages of the eight steps below
//! 150 ms, a cold start below 100 ms, 30 MB when idle.
//!
//! - `RETRYLENS_BENCH_SIZES` (1000000,10000000): how many events, smallest first.
//! - `RETRYLENS_BENCH_RUNS` (11): how often each question is asked.
//! - `RETRYLENS_BENCH_PYTHON`: a Python with `duckdb`; without it, that column is left out.
//! - `RETRYLENS_BENCH_FOLDER`: where files are kept and used again; else they are removed.
//! - `RETRYLENS_BENCH_ONLY`: only questions whose name holds this text.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

mod data;
mod duck;
mod http;
mod questions;
#[path = "../ingest/report.rs"]
#[expect(dead_code, reason = "rates are for bench-ingest")]
mod report;
#[path = "../ingest/server.rs"]
#[expect(dead_code, reason = "CPU time is for bench-ingest")]
mod server;
#[path = "../../tests/it/workload/mod.rs"]
mod workload;

use data::Ids;
use duck::Duck;
use http::Client;
use questions::{Kind, Part, Question};
use report::say;
use retrylens::domain::stored::{RowFilter, Scope, View};
use retrylens::domain::time::{DAY_MS, HOUR_MS, UnixMillis, Window};
use retrylens::store::{Store, bucket_width_ms};
use server::Server;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tokio::time::Instant;

/// The windows asked about: the busiest hour and 24 hours. They line up with no whole minute; what
/// is answered are whole five minutes ([`Window::widened`]), and DuckDB is asked for the same.
const HOUR: Window = stretch(14 * HOUR_MS + 7 * 60_000 + 23_417, HOUR_MS);
const DAY: Window = stretch(2 * 60_000 + 11_613, DAY_MS);

const fn stretch(from: i64, length: i64) -> Window {
    let from = workload::START_MS + from;
    Window { from: UnixMillis(from), to: UnixMillis(from + length) }
}

/// Times of one question, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    median: f64,
    p90: f64,
}

impl Times {
    fn of(mut ms: Vec<f64>) -> Self {
        ms.sort_by(f64::total_cmp);
        let at = |tenths: usize| ms[(ms.len() * tenths / 10).min(ms.len() - 1)];
        Self { median: at(5), p90: at(9) }
    }
}

/// A question with its times at each size.
struct Line {
    question: Question,
    ours: Vec<Times>,
    duck: Option<Times>,
}

fn main() {
    let setting =
        |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let sizes: Vec<u64> = setting("RETRYLENS_BENCH_SIZES", "1000000,10000000")
        .split(',')
        .map(|n| n.trim().parse().expect("numbers in RETRYLENS_BENCH_SIZES"))
        .collect();
    let runs: usize = setting("RETRYLENS_BENCH_RUNS", "11").parse().expect("a number of runs");
    let only = setting("RETRYLENS_BENCH_ONLY", "");
    let python = std::env::var("RETRYLENS_BENCH_PYTHON").ok();
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var("RETRYLENS_BENCH_FOLDER").ok().map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();

    let mut lines: Vec<Line> = Vec::new();
    for (n, &events) in sizes.iter().enumerate() {
        let is_last = n + 1 == sizes.len();
        let python = python.as_deref().filter(|_| is_last);
        let file = folder.join(format!("{events}.db"));
        let (ids, mut duck) = runtime.block_on(filled(&file, events, python));
        let server = start(folder, &file, events);
        let mut client = Client::connect(server.address);
        let (busy, quiet) = pairs(&mut client);
        let mut asked = questions::all(&busy, &quiet, &ids, HOUR, DAY);
        asked.retain(|question| question.name.contains(&only));
        if lines.is_empty() {
            lines.extend(asked.into_iter().map(|question| Line {
                question,
                ours: Vec::new(),
                duck: None,
            }));
        } else {
            // The ids that are looked up are others.
            lines.iter_mut().zip(asked).for_each(|(line, question)| line.question = question);
        }
        let is_page = |line: &&mut Line| !matches!(line.question.kind, Kind::Part(..));
        for line in lines.iter_mut().filter(is_page) {
            line.ours.push(Times::of(client.time(&line.question.path, runs)));
        }
        drop(client);
        server.stop();
        runtime.block_on(ask_parts(&file, &mut lines, runs, duck.as_mut()));
        if let Some(duck) = &mut duck {
            for line in &mut lines {
                line.duck = Some(Times::of(duck.time(&line.question.sql, runs.min(5))));
            }
        }
        drop(duck);
        if kept.is_none() {
            for ending in ["db", "db-wal", "db-shm", "duckdb"] {
                std::fs::remove_file(file.with_extension(ending)).ok();
            }
        }
    }
    print(&lines, &sizes);
}

/// A store with so many events, and DuckDB with the same; what is there already is used.
async fn filled(file: &Path, events: u64, python: Option<&str>) -> (Ids, Option<Duck>) {
    let known = file.with_extension("ids");
    let base = file.with_extension("duckdb");
    if let Ok(ids) = std::fs::read(&known) {
        let duck = python.filter(|_| base.exists()).map(|python| Duck::open(python, &base));
        return (serde_json::from_slice(&ids).unwrap(), duck);
    }
    let begun = Instant::now();
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    let is_filled = base.exists();
    let mut duck = python.map(|python| Duck::open(python, &base));
    let filling = duck.as_mut().filter(|_| !is_filled);
    let ids = data::fill(&store, filling, events, file.parent().unwrap()).await;
    store.close().await.unwrap();
    std::fs::write(&known, serde_json::to_vec(&ids).unwrap()).unwrap();
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    say(&format!(
        "{events} events in {:.0} s: {} MB in SQLite{}",
        begun.elapsed().as_secs_f64(),
        bytes(file) / 1_000_000,
        duck.as_ref()
            .map(|_| format!(", {} MB in DuckDB", bytes(&base) / 1_000_000))
            .unwrap_or_default()
    ));
    (ids, duck)
}

/// Starts the service and tells how long it takes to be ready and how much memory it holds.
fn start(folder: &Path, file: &Path, events: u64) -> Server {
    let url = format!("sqlite://{}", file.display());
    let ready = || {
        let begun = Instant::now();
        let server = Server::start(folder, &url);
        let (status, _) = Client::connect(server.address).get("/readyz");
        let ms = begun.elapsed().as_secs_f64() * 1_000.0;
        assert_eq!(status, 200, "/readyz");
        (server, ms)
    };
    let mut times = Vec::new();
    for _ in 0..4 {
        let (server, ms) = ready();
        times.push(ms);
        server.stop();
    }
    let (server, ms) = ready();
    times.push(ms);
    let start = Times::of(times);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let memory = server.memory_mb("VmRSS");
    report::Goal::AtMost(100.0).say(&format!("start at {events} events"), start.median, "ms");
    report::Goal::AtMost(30.0).say(&format!("memory when idle at {events}"), memory, "MB");
    server
}

/// The pairs with the most and the fewest attempts of the day, of those that the overview lists.
fn pairs(client: &mut Client) -> (Scope, Scope) {
    let path =
        format!("/api/v1/overview?from={}&to={}", DAY.from.to_rfc3339(), DAY.to.to_rfc3339());
    let (_, body) = client.get(&path);
    let overview: serde_json::Value = serde_json::from_str(&body).unwrap();
    let pairs = overview["pairs"].as_array().unwrap();
    let attempts = |pair: &&serde_json::Value| pair["attempts"].as_i64();
    let scope = |pair: &serde_json::Value| {
        let name = |field: &str| pair[field].as_str().map(ToOwned::to_owned);
        Scope { service: name("service"), upstream: name("upstream"), ..Scope::default() }
    };
    let [busy, quiet] =
        [pairs.iter().max_by_key(attempts), pairs.iter().min_by_key(attempts)].map(Option::unwrap);
    (scope(busy), scope(quiet))
}

/// Asks the store for the parts of pages, and compares what it counts with DuckDB.
async fn ask_parts(file: &Path, lines: &mut [Line], runs: usize, mut duck: Option<&mut Duck>) {
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    for line in lines {
        let Kind::Part(part, view) = &line.question.kind else { continue };
        let mut ms = Vec::with_capacity(runs);
        for run in 0..=runs {
            let begun = Instant::now();
            ask_part(&store, *part, view).await;
            if run > 0 {
                ms.push(begun.elapsed().as_secs_f64() * 1_000.0);
            }
        }
        line.ours.push(Times::of(ms));
        if let (Part::Totals, Some(duck)) = (part, duck.as_deref_mut()) {
            let rows = questions::condition(&view.scope, view.window);
            let counted = store.totals(view).await.unwrap();
            for (what, expected) in [("true", counted.attempts), ("limited", counted.limited)] {
                let sql = format!(
                    "SELECT coalesce(sum(count) FILTER ({what}), 0)::BIGINT FROM events WHERE {rows}"
                );
                assert_eq!(duck.value(&sql), expected, "{what} of {view:?}");
            }
        }
    }
    store.close().await.unwrap();
}

async fn ask_part(store: &Store, part: Part, view: &View) {
    match part {
        Part::Totals => drop(store.totals(view).await.unwrap()),
        Part::Buckets => {
            drop(store.buckets(view, bucket_width_ms(view.window)).await.unwrap());
        }
        Part::Dimensions => drop(store.dimensions(view).await.unwrap()),
        Part::Pairs => drop(store.pairs(view.window, view.time).await.unwrap()),
        Part::Services => drop(store.services(view.window).await.unwrap()),
        Part::Labels => drop(store.labels(view.window).await.unwrap()),
        Part::Facts => drop(store.facts(view, view.window.to).await.unwrap()),
        Part::NewestLimited => {
            let filter = RowFilter {
                view: view.clone(),
                limited: Some(true),
                retry: None,
                succeeded: None,
                value: None,
            };
            drop(store.rows(&filter, None, 100).await.unwrap());
        }
    }
}

/// The table: medians in milliseconds, how they grow, and DuckDB's.
fn print(lines: &[Line], sizes: &[u64]) {
    let mut head = format!("\n{:<44}", "median ms (p90 at the largest)");
    for size in sizes {
        write!(head, " {:>10}", size_word(*size)).unwrap();
    }
    say(&format!("{head} {:>8} {:>7} {:>9} {:>6}", "p90", "growth", "DuckDB", "ratio"));
    let mut missed = 0;
    for line in lines {
        let (Some(first), Some(last)) = (line.ours.first(), line.ours.last()) else { continue };
        let growth = last.median / first.median;
        let ratio = line.duck.map(|duck| last.median / duck.median);
        let most = if line.question.kind == Kind::Id { 0.1 } else { 1.0 };
        let mut failed = Vec::new();
        if ratio.is_some_and(|ratio| ratio > most) {
            failed.push(if most < 1.0 { "over a tenth of DuckDB" } else { "over DuckDB" });
        }
        if growth > 2.0 {
            failed.push("grows");
        }
        if line.question.kind == Kind::Triage && last.median >= 150.0 {
            failed.push("over 150 ms");
        }
        missed += usize::from(!failed.is_empty());
        let mut text = format!("{:<44}", line.question.name);
        for times in &line.ours {
            write!(text, " {:>10.2}", times.median).unwrap();
        }
        let duck = line.duck.map_or_else(|| "-".to_owned(), |duck| format!("{:.1}", duck.median));
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let verdict = if failed.is_empty() {
            "PASS".to_owned()
        } else {
            format!("FAIL: {}", failed.join(", "))
        };
        say(&format!("{text} {:>8.2} {growth:>7.2} {duck:>9} {ratio:>6}  {verdict}", last.p90));
    }
    say(&format!("{} questions, {missed} of them miss a goal", lines.len()));
}

fn size_word(events: u64) -> String {
    match events {
        n if n % 1_000_000 == 0 => format!("{} M", n / 1_000_000),
        n => format!("{} k", n / 1_000),
    }
}
