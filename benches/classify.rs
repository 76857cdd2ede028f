//! What a verdict costs on the way in: events of the fleet in `tests/it/workload` go through
//! decoding (with redaction), verdict and draft on one thread, in batches as the door takes them.
//! Each phase is timed by itself; what is printed is the mean over batches of the median
//! over rounds, in microseconds an event. Behind the bar stand the parts of a verdict (the response put together, the decision) and
//! what the whole verdict costs with its evidence in words, which only pages ask for.
//!
//! The goals: a verdict in at most 3 µs over the whole mix, 20 µs for limited ones alone. Times are
//! printed and never asserted; what is asserted is that every event is decoded and judged.
//!
//! `RETRYLENS_BENCH_EVENTS` (20,000), `RETRYLENS_BENCH_BATCH` (100), `RETRYLENS_BENCH_ROUNDS` (31).

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

#[path = "../tests/it/workload/mod.rs"]
mod workload;

use retrylens::domain::classify::{classify, summarize};
use retrylens::domain::event::Event;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::ingest::native::{DecodeOptions, Format, RawKeys, decode};
use retrylens::ingest::response;
use retrylens::pipeline::judge;
use retrylens::store::Draft;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use tokio::time::Instant;

/// The most that a verdict may cost, in microseconds: over the mix, and where a limit refused.
const GOAL_US: f64 = 3.0;
const LIMITED_GOAL_US: f64 = 20.0;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// Microseconds an event, by phase.
type Cost = [f64; 6];
const DECODE: usize = 0;
const JUDGE: usize = 1;
const DRAFT: usize = 2;
/// The parts of a verdict, in runs of their own: the response put together, the decision.
const RESPONSE: usize = 3;
const DECISION: usize = 4;
/// The whole verdict in words, as a page asks for it.
const IN_WORDS: usize = 5;

/// Runs `work` and says how long it took, in microseconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = black_box(work());
    (result, begun.elapsed().as_secs_f64() * 1e6)
}

/// Sends a body through every phase once.
fn pass(body: &str, options: &DecodeOptions<'_>) -> Cost {
    let mut cost = [0.0; 6];
    let (decoded, took) = timed(|| decode(body.as_bytes(), options).unwrap());
    cost[DECODE] = took;
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects.first());
    let events: Vec<Event> = decoded.events.into_iter().map(|(_, event)| event).collect();

    let (responses, took) = timed(|| events.iter().map(Event::response).collect::<Vec<_>>());
    cost[RESPONSE] = took;
    (_, cost[DECISION]) = timed(|| responses.iter().map(summarize).collect::<Vec<_>>());
    (_, cost[IN_WORDS]) = timed(|| responses.iter().map(classify).collect::<Vec<_>>());
    drop(responses);

    let (judged, took) = timed(|| events.into_iter().map(judge).collect::<Vec<_>>());
    cost[JUDGE] = took;
    let (drafts, took) = timed(|| judged.into_iter().map(Draft::new).collect::<Vec<_>>());
    cost[DRAFT] = took;
    assert_eq!(drafts.len(), body.lines().count());
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    cost.map(|sum| sum / drafts.len() as f64)
}

/// The cost of each phase: the mean over the batches of each one's median over `rounds`, after one
/// round that warms up.
fn cost(lines: &[&str], batch: usize, rounds: u64, options: &DecodeOptions<'_>) -> Cost {
    let bodies: Vec<String> = lines.chunks(batch).map(|part| part.join("\n")).collect();
    let round = || bodies.iter().map(|body| pass(body, options)).collect::<Vec<Cost>>();
    round();
    let rounds: Vec<Vec<Cost>> = (0..rounds).map(|_| round()).collect();
    std::array::from_fn(|phase| {
        let medians = (0..bodies.len()).map(|at| median(rounds.iter().map(|r| r[at][phase])));
        #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
        let mean = medians.sum::<f64>() / bodies.len() as f64;
        mean
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The answers in `tests/data/responses` as lines of NDJSON: what the products of every signature
/// write themselves, not only the few gateways of the fleet.
fn samples() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/responses");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "http"));
    paths.sort();
    paths.iter().map(|path| line_of(&std::fs::read_to_string(path).unwrap())).collect()
}

/// The event that a client sends of one sample.
fn line_of(sample: &str) -> String {
    let (mut rest, mut host, mut route) = (sample, "api.example.com", None);
    while let Some((line, after)) = rest.strip_prefix('#').and_then(|r| r.split_once('\n')) {
        match line.trim().split_once(':') {
            Some(("host", value)) => host = value.trim(),
            Some(("path", value)) => route = Some(value.trim()),
            _ => {}
        }
        rest = after;
    }
    let response = response::parse(rest).unwrap().response;
    serde_json::json!({
        "occurred_at": workload::START_MS,
        "duration_ms": 120,
        "service": "checkout",
        "host": host,
        "route": route,
        "status": response.status,
        "headers": response.headers.iter().collect::<Vec<_>>(),
        "body_sample": response.body,
    })
    .to_string()
}

/// Whether the event of a line was refused by a limit.
fn is_limited(line: &str, options: &DecodeOptions<'_>) -> bool {
    let events = decode(line.as_bytes(), options).unwrap().events;
    events.into_iter().all(|(_, event)| judge(event).verdict.limited)
}

fn main() {
    let total = setting("RETRYLENS_BENCH_EVENTS", 20_000);
    let batch = usize::try_from(setting("RETRYLENS_BENCH_BATCH", 100)).unwrap();
    let rounds = setting("RETRYLENS_BENCH_ROUNDS", 31);
    let hasher = KeyHasher::new(b"server key");
    let options = DecodeOptions {
        hasher: &hasher,
        raw_keys: RawKeys::Hash,
        max_items: 100_000,
        format: Format::Ndjson,
    };

    let fleet = workload::batch(0, total, total);
    let all: Vec<&str> = fleet.lines().collect();
    let (limited, others): (Vec<&str>, Vec<&str>) =
        all.iter().partition(|line| is_limited(line, &options));
    let samples = samples();
    let (refusals, near_misses): (Vec<&str>, Vec<&str>) =
        samples.iter().map(String::as_str).partition(|line| is_limited(line, &options));
    say(&format!(
        "{} events, {:.1} % limited; {} samples of other products, {} limited",
        all.len(),
        per_cent(limited.len(), all.len()),
        samples.len(),
        refusals.len()
    ));

    let head = ["decode", "verdict", "draft", "response", "decision", "in words"];
    let line = |what: &str, cells: [String; 6]| {
        let [decode, judge, draft, response, decision, words] = cells;
        say(&format!(
            "{what:<24}{decode:>9}{judge:>9}{draft:>9}  |{response:>9}{decision:>10}{words:>10}"
        ));
    };
    line("µs an event", head.map(str::to_owned));
    let show = |what: &str, lines: &[&str]| -> Cost {
        let cost = cost(lines, batch, rounds, &options);
        line(what, cost.map(|us| format!("{us:.2}")));
        cost
    };
    let mix = show("the fleet", &all);
    show("  not limited", &others);
    let refused = show("  limited", &limited);
    let foreign = show("samples, limited", &refusals);
    show("samples, not limited", &near_misses);

    let verdict = |what: &str, cost: f64, goal: f64| {
        let word = if cost <= goal { "PASS" } else { "FAIL" };
        say(&format!("{word}  {what}: {cost:.2} µs, goal {goal:.0} µs"));
    };
    verdict("a verdict over the fleet", mix[JUDGE], GOAL_US);
    verdict("a verdict on a limited event of the fleet", refused[JUDGE], LIMITED_GOAL_US);
    verdict("a verdict on a limited sample", foreign[JUDGE], LIMITED_GOAL_US);
}

fn per_cent(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    let ratio = part as f64 / whole as f64;
    ratio * 100.0
}
