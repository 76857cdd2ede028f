//! Large access logs, as `make test-long` runs them: a million lines are joined to a hundred thousand
//! attempts, and an import takes the same memory however long its file is.

#![expect(clippy::print_stderr, reason = "its figures are for people")]

use super::access_logs::nginx_line;
use super::million::{post_ndjson, timed};
use super::support::Process;
use super::support::process::run;
use retrylens::domain::classify::{Certainty, Responder};
use retrylens::domain::joins::{Links, prove};
use retrylens::domain::stored::{RowFilter, Scope, TimeBasis, View};
use retrylens::domain::time::{HOUR_MS, Millis, UnixMillis, Window};
use retrylens::store::Store;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A tenth where nothing is optimised.
const LINES: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
/// A line in ten is of an attempt that a client reports.
const EACH: u64 = 10;
const ATTEMPTS: u64 = LINES / EACH;
/// An attempt in eight is refused.
const REFUSED: u64 = 8;
/// The hour in which all happens, 2026-11-11T10:00Z.
const FROM: i64 = 1_794_391_200_000;
/// Attempts that are joined at once.
const CHUNK: u32 = 500;

const fn is_refused(n: u64) -> bool {
    (n / EACH).is_multiple_of(REFUSED)
}

/// When the request of line `n` of so many is sent, in milliseconds.
fn moment(n: u64, of: u64) -> i64 {
    FROM + HOUR_MS * i64::try_from(n).unwrap() / i64::try_from(of).unwrap()
}

/// Line `n` of a log of one hour with so many of them.
fn line(n: u64, of: u64) -> String {
    let status = if is_refused(n) { 429 } else { 200 };
    let at = moment(n, of);
    nginx_line(&format!("i-{n}"), 0, status, is_refused(n))
        .replace("1794391000.250", &format!("{}.{:03}", at / 1_000, at % 1_000))
        .replace("bfa3a3e0337f46bc8d53969081040000", &format!("bfa3a3e0337f46bc{n:016x}"))
}

/// Writes a log and gives its length in bytes.
fn write_log(path: &Path, lines: u64) -> u64 {
    let mut file = BufWriter::new(std::fs::File::create(path).unwrap());
    for n in 0..lines {
        writeln!(file, "{}", line(n, lines)).unwrap();
    }
    file.into_inner().unwrap().metadata().unwrap().len()
}

/// What the client says of the request of line `n`: it saw headers that any gateway may have sent.
fn attempt(n: u64) -> String {
    let (status, outcome) = if is_refused(n) { (429, "exhausted") } else { (200, "succeeded") };
    let at = moment(n, LINES);
    let operation = n / (EACH * 5);
    format!(
        r#"{{"event_id":"c-{n}","operation_id":"o-{operation}","occurred_at":{at},"duration_ms":30,"service":"checkout","method":"GET","host":"api.example.com","route":"/v1/orders/{{id}}","status":{status},"outcome":"{outcome}","request_id":"i-{n}","headers":{{"server":"envoy"}}}}"#
    )
}

#[test]
#[ignore = "long: make test-long"]
fn a_million_lines_join_a_hundred_thousand_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let log = folder.join("diag.ndjson");
    let bytes = write_log(&log, LINES);
    let server = Process::serve(folder, &[], &[]);
    let numbers: Vec<u64> = (0..LINES).step_by(usize::try_from(EACH).unwrap()).collect();
    timed(&format!("{ATTEMPTS} attempts taken in"), || {
        for part in numbers.chunks(2_000) {
            let body = part.iter().fold(String::new(), |mut body, n| {
                writeln!(body, "{}", attempt(*n)).unwrap();
                body
            });
            let taken = u64::try_from(part.len()).unwrap();
            assert_eq!(post_ndjson(&server, &body), (taken, 0));
        }
    });
    let url = format!("http://{}", server.address);
    let (imported, _) = timed(&format!("{LINES} lines, {} MB, imported", bytes >> 20), || {
        run(folder, &["import", "--url", &url, "--service", "checkout", "diag.ndjson"])
    });
    let said = String::from_utf8_lossy(&imported.stdout);
    let expected = format!("{LINES} lines, {LINES} stored, 0 duplicates, 0 expired, 0 wrong");
    assert!(said.starts_with(&expected), "{said}");

    let hour = "from=2026-11-11T10:00:00Z&to=2026-11-11T11:00:00Z";
    let pair = "service=checkout&upstream=api.example.com";
    let (answer, _) = timed("triage of the hour, its first step proven", || {
        server.get(&format!("/triage.json?{pair}&{hour}"))
    });
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (answer, _) = timed("one attempt with its hops", || server.get("/api/v1/events/c-0"));
    let answer: serde_json::Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let verdict = &answer["items"][0]["verdict"];
    assert_eq!(
        (&verdict["returned_by"], &verdict["outcome"]),
        (&"nginx".into(), &"certain".into())
    );
    drop(server);

    let url = format!("sqlite://{}", folder.join("retrylens.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::open(&url)).unwrap();
    let ((joined, proven), took) =
        timed(&format!("{ATTEMPTS} attempts joined to {LINES} lines"), || {
            runtime.block_on(join_all(&store))
        });
    eprintln!("{:.0} attempts/s", rate(joined, took));
    assert_eq!(joined, ATTEMPTS, "each has its own record, and no other");
    assert_eq!(proven, ATTEMPTS / REFUSED, "each refusal is the gateway's, by its own word");
}

/// Joins all attempts of the hour: how many have the one record that is theirs, and of how many a
/// record proves that nginx refused them.
async fn join_all(store: &Store) -> (u64, u64) {
    let window = Window { from: UnixMillis(FROM), to: UnixMillis(FROM).plus(Millis(HOUR_MS)) };
    let view = View { scope: Scope::default(), window, time: TimeBasis::Event };
    let filter = RowFilter { view, limited: None, retry: None, succeeded: None, value: None };
    let (mut after, mut joined, mut proven) = (None, 0, 0);
    loop {
        let page = store.rows(&filter, after.as_ref(), CHUNK).await.unwrap();
        let mut attempts = page.items;
        let records = store.look().await.unwrap().linked(&attempts).await.unwrap();
        let links = Links::new(&attempts, &records);
        joined += sum(attempts.iter().map(|attempt| {
            let found = links.find(attempt);
            let is_its_own = |id: &Option<String>| *id == attempt.event.request_id;
            matches!(&found.records[..], [record] if is_its_own(&record.event.request_id))
        }));
        prove(&mut attempts, &records);
        proven += sum(attempts.iter().map(|attempt| {
            let verdict = &attempt.verdict;
            (verdict.returned_by, verdict.outcome) == (Responder::Nginx, Certainty::Certain)
        }));
        after = page.next;
        if after.is_none() {
            return (joined, proven);
        }
    }
}

fn sum(all: impl Iterator<Item = bool>) -> u64 {
    all.map(u64::from).sum()
}

fn rate(many: u64, took: Duration) -> f64 {
    f64::from(u32::try_from(many).unwrap()) / took.as_secs_f64()
}

/// Imports a log of so many lines into a database of its own; its megabytes, and the most memory that
/// it took, in bytes (proc(5), `VmHWM`).
fn import(lines: u64) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = write_log(&folder.join("diag.ndjson"), lines);
    let mut child = Command::new(env!("CARGO_BIN_EXE_retrylens"))
        .current_dir(folder)
        .env_clear()
        .env("RETRYLENS_RETENTION_DAYS", "36500")
        .env("RETRYLENS_SUMS_RETENTION_DAYS", "36500")
        .args(["import", "diag.ndjson"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        if let Some(kilobytes) = line.and_then(|line| line.trim().strip_suffix(" kB")) {
            peak = peak.max(kilobytes.parse::<u64>().unwrap() << 10);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(&format!("{lines} lines, {lines} stored, ")), "{said}");
    (bytes >> 20, peak)
}

#[test]
#[ignore = "long: make test-long"]
fn an_import_takes_the_same_memory_however_long_its_file_is() {
    // A hundred megabytes, less where nothing is optimised; caches are full in either.
    let lines = if cfg!(debug_assertions) { 80_000 } else { 200_000 };
    let ((few, short), _) = timed("the short import", || import(lines));
    let ((many, long), _) = timed("one four times as long", || import(4 * lines));
    let slope = i64::try_from(long).unwrap() - i64::try_from(short).unwrap();
    eprintln!(
        "{few} MB take {} MiB at most, {many} MB take {} MiB: {} bytes more for each further MB",
        short >> 20,
        long >> 20,
        slope / i64::try_from(many - few).unwrap()
    );
    assert!(long < short + short / 4, "{short} and {long}");
}
