//! Captures of real clients, each with the called server's own record beside it: are operations and
//! attempts those that there were?
//!
//! The captures lie outside of this project; `RETRYLENS_OTLP_CORPUS` names their folder
//! (`make score-otlp`). What they taught is held by the samples in `tests/data/otlp` and by unit
//! tests, which always run.

use super::support::TestApp;
use axum::body::Body;
use axum::http::Request;
use retrylens::clock::Clock as _;
use retrylens::domain::key_hash::KeyHasher;
use retrylens::domain::spans::{Operation, Role, Span, SpanKey, Visibility, reconstruct};
use retrylens::domain::time::Millis;
use retrylens::ingest::otlp::{self, Encoding, Options};
use retrylens::pipeline::settler::Settler;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// An operation as the server saw it: the ids of its exported spans in order, and the waits between
/// requests in seconds.
#[derive(Debug)]
struct True {
    name: String,
    /// Id of the first span's event.
    first: Option<String>,
    spans: Vec<String>,
    waits: Vec<Option<f64>>,
    /// How many requests the server saw.
    made: usize,
}

/// One capture.
pub(crate) struct Capture {
    pub(crate) name: String,
    /// Each export as it was sent.
    pub(crate) exports: Vec<Value>,
    truth: Vec<True>,
}

/// A generator of numbers that is the same everywhere (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(n).unwrap()).unwrap()
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for n in (1..list.len()).rev() {
            list.swap(n, self.below(n + 1));
        }
    }
}

pub(crate) fn captures(folder: &Path) -> Vec<Capture> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let stem = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".truth.json")?;
        Some(name.to_owned())
    };
    names.iter().filter_map(|path| stem(path)).map(|name| capture(folder, name)).collect()
}

fn capture(folder: &Path, name: String) -> Capture {
    let read = |suffix: &str| -> Value {
        let text = std::fs::read_to_string(folder.join(format!("{name}{suffix}"))).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let whole = read(".json");
    let exports: Vec<Value> = whole["resourceSpans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!({ "resourceSpans": [one] }))
        .collect();
    let exported: HashSet<String> = spans_of(&exports)
        .iter()
        .filter(|span| span.role == Role::Attempt)
        .map(|span| span.key.span.to_string())
        .collect();
    let truth = read(".truth.json");
    let truth = truth.as_array().unwrap().iter().map(|op| {
        let attempts = op["attempts"].as_array().unwrap();
        let sent: Vec<&Value> = attempts
            .iter()
            .filter(|a| a["client_span_id"].as_str().is_some_and(|id| exported.contains(id)))
            .collect();
        // Requests that share a span are seen as one.
        let mut spans: Vec<String> =
            sent.iter().map(|a| a["client_span_id"].as_str().unwrap().to_owned()).collect();
        let waits = sent.iter().map(|a| a["wait_before_s"].as_f64()).collect();
        spans.dedup();
        let first = sent.first().map(|a| {
            format!("{}:{}", a["trace_id"].as_str().unwrap(), a["client_span_id"].as_str().unwrap())
        });
        let name = op["op"].as_str().unwrap().to_owned();
        True { name, first, spans, waits, made: attempts.len() }
    });
    let truth = truth.collect();
    Capture { name, exports, truth }
}

fn spans_of(exports: &[Value]) -> Vec<Span> {
    let hasher = KeyHasher::new(b"test");
    let options = Options { hasher: &hasher, max_items: 10_000, ourselves: None };
    exports
        .iter()
        .flat_map(|export| {
            let body = serde_json::to_vec(export).unwrap();
            let read = otlp::traces(&body, Encoding::Json, &options).unwrap();
            assert_eq!(read.rejected, 0, "{:?}", read.problems);
            read.spans
        })
        .collect()
}

/// What is found in `spans`, which may be in any order and repeat themselves: for each operation
/// its attempts, each with all span ids that stand for it.
fn found(spans: &[Span]) -> Vec<(Operation, Vec<Span>)> {
    let mut once: BTreeMap<SpanKey, &Span> = BTreeMap::new();
    let mut neighbourhoods: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for span in spans {
        if once.insert(span.key, span).is_none()
            && let Some(name) = span.neighbourhood()
        {
            neighbourhoods.entry(name).or_default().push(span.clone());
        }
    }
    let context = once;
    neighbourhoods
        .into_values()
        .flat_map(|spans| {
            let operations = reconstruct(&spans, &context, &BTreeMap::new());
            operations.into_iter().map(move |operation| (operation, spans.clone()))
        })
        .collect()
}

fn ids(operation: &Operation, spans: &[Span]) -> Vec<HashSet<String>> {
    operation
        .attempts
        .iter()
        .map(|a| a.spans.iter().map(|n| spans[*n].key.span.to_string()).collect())
        .collect()
}

fn is_exact(truth: &True, ids: &[HashSet<String>]) -> bool {
    truth.spans.len() == ids.len()
        && truth.spans.iter().zip(ids).all(|(span, ids)| ids.contains(span))
}

#[derive(Default)]
struct Score {
    true_ones: usize,
    found: usize,
    exact: usize,
    lone: usize,
    lone_exact: usize,
    worst_wait_ms: f64,
}

fn score(capture: &Capture, spans: &[Span], wrong: &mut Vec<String>) -> Score {
    let found = found(spans);
    let with_ids: Vec<_> = found.iter().map(|(op, spans)| (op, spans, ids(op, spans))).collect();
    let mut score = Score { found: found.len(), ..Score::default() };
    for truth in capture.truth.iter().filter(|truth| !truth.spans.is_empty()) {
        score.true_ones += 1;
        // Others with the same parent and address run beside it.
        let is_lone = !truth.name.starts_with('b') || is_told_apart(&capture.name);
        score.lone += usize::from(is_lone);
        let Some((operation, spans, _)) = with_ids.iter().find(|(.., ids)| is_exact(truth, ids))
        else {
            if is_lone {
                wrong.push(format!("{} {} {:?}", capture.name, truth.name, truth.spans));
            }
            continue;
        };
        score.exact += 1;
        if capture.name.ends_with("-sampled") && truth.spans.len() < truth.made {
            assert_eq!(operation.visibility, Visibility::AtLeast, "{} has holes", truth.name);
        }
        score.lone_exact += usize::from(is_lone);
        if truth.spans.len() < truth.waits.len() {
            continue;
        }
        for n in 1..operation.attempts.len() {
            let end = spans[operation.attempts[n - 1].spans[0]].end_us;
            let start = spans[operation.attempts[n].spans[0]].start_us;
            if let Some(wait) = truth.waits[n] {
                let seen_ms = f64::from(i32::try_from(start - end).unwrap_or(i32::MAX)) / 1e3;
                score.worst_wait_ms = score.worst_wait_ms.max((seen_ms - wait * 1e3).abs());
            }
        }
    }
    score
}

/// Captures in which an id, a count or an SDK's span tells operations apart that run at once.
fn is_told_apart(name: &str) -> bool {
    name.contains("openai")
}

#[test]
#[expect(clippy::print_stderr, reason = "the table is for people")]
#[ignore = "needs the captures; `make score-otlp` runs it"]
fn captures_are_read_as_what_their_servers_saw() {
    let folder = std::env::var("RETRYLENS_OTLP_CORPUS").expect("RETRYLENS_OTLP_CORPUS: a folder");
    let captures = captures(Path::new(&folder));
    assert!(captures.len() > 20, "{} captures", captures.len());
    let (mut total, mut wrong) = (Score::default(), Vec::new());
    eprintln!(
        "capture | true | found | exact | lone | lone exact | worst wait ms | not all visible"
    );
    for capture in &captures {
        let spans = spans_of(&capture.exports);
        let score = score(capture, &spans, &mut wrong);
        let found_ones = found(&spans);
        let marked = found_ones.iter().filter(|(op, _)| op.visibility != Visibility::All).count();
        eprintln!(
            "{} | {} | {} | {} | {} | {} | {:.0} | {marked}",
            capture.name,
            score.true_ones,
            score.found,
            score.exact,
            score.lone,
            score.lone_exact,
            score.worst_wait_ms,
        );
        total.true_ones += score.true_ones;
        total.found += score.found;
        total.exact += score.exact;
        total.lone += score.lone;
        total.lone_exact += score.lone_exact;
        let first = found_ones.iter().map(|(op, spans)| (op.clone(), ids(op, spans)));
        let first: Vec<_> = first.map(|(op, ids)| (ids_sorted(&ids), op.confidence)).collect();
        for seed in 0..10 {
            let mut again = [spans.clone(), spans.clone()].concat();
            Numbers(seed).shuffle(&mut again);
            let again: Vec<_> = found(&again)
                .iter()
                .map(|(op, spans)| (ids_sorted(&ids(op, spans)), op.confidence))
                .collect();
            assert_eq!(again, first, "{} seed {seed}", capture.name);
        }
    }
    eprintln!(
        "total | {} | {} | {} | {} | {}",
        total.true_ones, total.found, total.exact, total.lone, total.lone_exact
    );
    assert!(wrong.is_empty(), "not exact: {wrong:#?}");
    // Of those that run at once, partners may be swapped; that there are so many is told.
    assert!(total.exact * 100 >= total.true_ones * 92, "{} of {}", total.exact, total.true_ones);
}

/// An export as two, with its spans shared out by chance.
fn split(export: &Value, numbers: &mut Numbers) -> [Value; 2] {
    let mut parts = [export.clone(), export.clone()];
    for resource in 0..export["resourceSpans"].as_array().unwrap().len() {
        let at = format!("/resourceSpans/{resource}/scopeSpans");
        for scope in 0..export.pointer(&at).unwrap().as_array().unwrap().len() {
            let at = format!("{at}/{scope}/spans");
            let spans = export.pointer(&at).unwrap().as_array().unwrap();
            let mut shared = [Vec::new(), Vec::new()];
            for span in spans {
                shared[numbers.below(2)].push(span.clone());
            }
            for (part, spans) in parts.iter_mut().zip(shared) {
                *part.pointer_mut(&at).unwrap() = Value::Array(spans);
            }
        }
    }
    parts
}

/// An export on its way: as it is, packed, in pieces without a length before them, or both.
fn sent(export: &Value, how: usize) -> Request<Body> {
    let mut body = serde_json::to_vec(export).unwrap();
    let mut request = Request::post("/v1/traces").header("content-type", "application/json");
    if how & 1 == 1 {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&body).unwrap();
        body = gzip.finish().unwrap();
        request = request.header("content-encoding", "gzip");
    }
    let body = if how & 2 == 2 {
        let pieces: Vec<io::Result<Vec<u8>>> =
            body.chunks(777).map(|piece| Ok(piece.to_vec())).collect();
        Body::from_stream(futures_util::stream::iter(pieces))
    } else {
        Body::from(body)
    };
    request.body(body).unwrap()
}

/// The whole way: exports split over requests, in any order and twice, packed and in pieces, settled,
/// and read back.
#[tokio::test]
#[ignore = "needs the captures; `make score-otlp` runs it"]
async fn captures_that_are_sent_end_up_as_what_their_servers_saw() {
    let folder = std::env::var("RETRYLENS_OTLP_CORPUS").expect("RETRYLENS_OTLP_CORPUS: a folder");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (seed, capture) in (0..).zip(captures(Path::new(&folder))) {
        let app = TestApp::start().await;
        let mut numbers = Numbers(seed);
        let parts: Vec<Value> =
            capture.exports.iter().flat_map(|export| split(export, &mut numbers)).collect();
        let mut exports = [capture.exports.clone(), parts].concat();
        numbers.shuffle(&mut exports);
        for export in &exports {
            let answer = app.send(sent(export, numbers.below(4))).await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "{}"));
        }
        let settler = Settler::new(app.state.store.clone(), app.state.intake.clone());
        let later = app.clock.now().plus(Millis(1_000_000));
        while settler.settle(later).await.unwrap() > 0 {}
        for truth in &capture.truth {
            let is_lone = !truth.name.starts_with('b') || is_told_apart(&capture.name);
            let Some(first) = truth.first.as_ref().filter(|_| is_lone) else { continue };
            checked += 1;
            let event = app.get(&format!("/api/v1/events/{first}")).await.json();
            let id = event["items"][0]["event"]["operation_id"].as_str().map(str::to_owned);
            let id = id.unwrap_or_else(|| panic!("{} {}: {event}", capture.name, truth.name));
            let operation = app.get(&format!("/api/v1/operations/{id}")).await.json();
            let attempts = operation["attempts"].as_array().unwrap();
            let spans: Vec<&str> = attempts
                .iter()
                .filter_map(|a| a["attempt"]["event_id"].as_str()?.rsplit(':').next())
                .collect();
            if spans != truth.spans {
                wrong.push(format!(
                    "{} {}: {spans:?} for {:?}",
                    capture.name, truth.name, truth.spans
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 300, "{checked}");
}

fn ids_sorted(ids: &[HashSet<String>]) -> Vec<Vec<String>> {
    ids.iter()
        .map(|ids| {
            let mut ids: Vec<String> = ids.iter().cloned().collect();
            ids.sort();
            ids
        })
        .collect()
}
