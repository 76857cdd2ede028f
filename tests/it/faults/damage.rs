//! Damaged files: a write-ahead log whose end is torn or wrong, and a database with broken pages.

use super::ledger::{lines, receipt};
use crate::support::Process;
use crate::support::http::Client;
use retrylens::store::Store;
use sqlx::{Connection as _, SqliteConnection};
use std::ops::Range;
use std::path::Path;

/// Events in a batch of these tests.
const BATCH: u64 = 100;
/// Bytes of the log's own header, and of the header of each frame
/// (<https://www.sqlite.org/fileformat2.html#walformat>).
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Where each committed transaction lies in a write-ahead log.
fn commits(log: &[u8]) -> Vec<Range<usize>> {
    let frame = FRAME_HEADER + number(log, 8) as usize;
    let salts = &log[16..24];
    let (mut commits, mut begin, mut at) = (Vec::new(), LOG_HEADER, LOG_HEADER);
    while at + frame <= log.len() && log[at + 8..at + 16] == *salts {
        let pages_after_commit = number(log, at + 4);
        at += frame;
        if pages_after_commit != 0 {
            commits.push(begin..at);
            begin = at;
        }
    }
    commits
}

/// What SQLite itself says of a file.
fn integrity(file: &Path) -> String {
    let url = format!("sqlite://{}", file.display());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let said: Result<Vec<String>, _> =
            sqlx::query_scalar("PRAGMA integrity_check(5)").fetch_all(&mut connection).await;
        said.map_or_else(|error| error.to_string(), |lines| lines.join("; "))
    })
}

/// The leaves of a table, in the order of its rows, counted from 0
/// (<https://www.sqlite.org/dbstat.html>).
fn pages_of(file: &Path, table: &str) -> Vec<usize> {
    let url = format!("sqlite://{}", file.display());
    let pages: Vec<i64> = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let pages = "SELECT pageno FROM dbstat WHERE name = $1 AND pagetype = 'leaf' ORDER BY path";
        let pages = sqlx::query_scalar(pages).bind(table).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        pages
    });
    assert!(pages.len() > 3, "{table} has {} leaves", pages.len());
    pages.into_iter().map(|page| usize::try_from(page).unwrap() - 1).collect()
}

fn recount_agrees(file: &Path, events: u64) {
    let url = format!("sqlite://{}", file.display());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = Store::open(&url).await.unwrap();
        let recount = store.recount().await.unwrap();
        assert_eq!(recount.events, i64::try_from(events).unwrap());
        assert!(recount.agrees(), "{recount:?}");
        store.close().await.unwrap();
    });
}

fn batch(n: u64) -> String {
    lines(&(n * BATCH..(n + 1) * BATCH))
}

/// A service killed after `batches` acknowledged ones; its files stay in the folder.
fn killed_after(batches: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let mut client = Client::new(process.address);
    for n in 0..batches {
        assert_eq!(receipt(&client.send(&batch(n)).unwrap()), (BATCH, 0));
    }
    process.signal("KILL");
    process.wait();
    folder
}

#[test]
fn a_damaged_end_of_the_log_costs_only_the_transactions_in_it() {
    const BATCHES: u64 = 8;
    let killed = killed_after(BATCHES);
    let log = std::fs::read(killed.path().join("retrylens.db-wal")).unwrap();
    let commits = commits(&log);
    assert!(commits.len() as u64 >= BATCHES, "{commits:?}");
    let last = commits.last().unwrap().clone();
    let third_last = commits[commits.len() - 3].clone();
    let middle = |range: &Range<usize>| range.start.midpoint(range.end);
    // Damage, and the most batches that it may cost.
    let cases: Vec<(&str, Vec<u8>, u64, u64)> = vec![
        (
            "a torn frame behind the last commit",
            [&log[..last.end], &[0xa5; 9_000][..]].concat(),
            0,
            0,
        ),
        ("cut in the last transaction", log[..middle(&last)].to_vec(), 0, 1),
        ("cut in the third last", log[..middle(&third_last)].to_vec(), 1, 3),
        ("a flipped bit in the third last", flipped(&log, middle(&third_last)), 1, 3),
        ("zeros from the third last on", zeroed(&log, middle(&third_last)), 1, 3),
        ("a log without its header", zeroed(&log, 0), BATCHES, BATCHES),
        ("an empty log", Vec::new(), BATCHES, BATCHES),
    ];
    for (what, damaged, least, most) in cases {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("retrylens.db");
        std::fs::copy(killed.path().join("retrylens.db"), &file).unwrap();
        std::fs::write(folder.path().join("retrylens.db-wal"), damaged).unwrap();

        let mut process = Process::serve(folder.path(), &[], &[]);
        let mut client = Client::new(process.address);
        assert_eq!(client.get("/readyz").unwrap().status, 200, "{what}");
        assert_eq!(integrity(&file), "ok", "{what}");
        let there: Vec<bool> = (0..BATCHES)
            .map(|n| match receipt(&client.send(&batch(n)).unwrap()) {
                (0, BATCH) => true,
                (BATCH, 0) => false,
                other => panic!("{what}: half of batch {n} was there: {other:?}"),
            })
            .collect();
        let lost = there.iter().filter(|is_there| !**is_there).count() as u64;
        assert!((least..=most).contains(&lost), "{what}: {there:?}");
        assert!(there.is_sorted_by(|a, b| a >= b), "{what}: only the newest go: {there:?}");
        process.signal("TERM");
        assert!(process.wait().success(), "{what}");
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(!log.contains("ERROR") && !log.contains("panicked"), "{what}: {log}");
        recount_agrees(&file, BATCHES * BATCH);
    }
}

fn flipped(log: &[u8], at: usize) -> Vec<u8> {
    let mut log = log.to_vec();
    log[at] ^= 0x10;
    log
}

fn zeroed(log: &[u8], from: usize) -> Vec<u8> {
    let mut log = log.to_vec();
    log[from..].fill(0);
    log
}

#[test]
fn broken_pages_in_the_database_are_told_and_nothing_panics() {
    let killed = killed_after(30);
    let mut process = Process::serve(killed.path(), &[], &[]);
    process.signal("TERM");
    assert!(process.wait().success());
    let file = killed.path().join("retrylens.db");
    let whole = std::fs::read(&file).unwrap();
    let page = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    assert_eq!(page, 16_384);
    let pages = whole.len() / page;
    assert!(pages > 40, "{pages} pages");
    let day = "from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";
    let (mut told_damaged, mut served) = (0, 0);
    // Pages of all tables, also of those that the start reads; then only such as hold events, but
    // for the newest.
    let mut of_events = pages_of(&file, "events");
    of_events.pop();
    let sets: [Vec<usize>; 3] =
        [(3..pages).step_by(2).collect(), (4..pages).step_by(3).collect(), of_events];
    for broken in sets {
        let mut bytes = whole.clone();
        for n in &broken {
            bytes[n * page..(n + 1) * page].fill(0x5a);
        }
        put_alone(&file, &bytes);
        assert_ne!(integrity(&file), "ok");
        // The start either meets a broken page and says so, or the service goes on without it.
        let process = match Process::try_serve(killed.path(), &[], &[]) {
            Ok(process) => process,
            Err(said) => {
                assert!(said.contains("the database is damaged"), "{said}");
                told_damaged += 1;
                continue;
            }
        };
        let mut client = Client::new(process.address);
        let first: serde_json::Value = serde_json::from_str(&lines(&(0..1))).unwrap();
        let id = first["event_id"].as_str().unwrap();
        let mut replies = vec![client.send(&batch(7)).unwrap(), client.send(&batch(50)).unwrap()];
        for path in [
            format!("/api/v1/overview?{day}"),
            format!("/api/v1/triage?{day}"),
            format!("/api/v1/events?{day}"),
            format!("/api/v1/services?{day}"),
            format!("/api/v1/lookup?id={id}"),
        ] {
            replies.push(client.get(&path).unwrap());
        }
        for reply in replies {
            match reply.status {
                // Answered from pages that are whole.
                200 | 404 => {}
                500 => {
                    assert_eq!(reply.header("content-type"), "application/problem+json");
                    assert_eq!(reply.json()["code"], "store-damaged", "{reply:?}");
                    told_damaged += 1;
                }
                _ => panic!("{reply:?}"),
            }
        }
        assert_eq!(client.get("/healthz").unwrap().status, 200, "the process goes on");
        served += 1;
    }
    assert!(told_damaged >= 3 && served > 0, "told {told_damaged} times, served {served} times");
    let log = std::fs::read_to_string(killed.path().join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");

    // A file whose beginning is gone is refused at the start.
    let mut bytes = whole;
    bytes[..100].fill(0x5a);
    put_alone(&file, &bytes);
    let started = Process::try_serve(killed.path(), &[], &[]);
    let said = started.err().expect("it served a file that is no database");
    assert!(said.contains("retrylens.db") && said.contains("not a database"), "{said}");
}

/// Puts a database in place without a log beside it, from which SQLite would mend it.
fn put_alone(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap();
    for left in ["db-wal", "db-shm"] {
        std::fs::remove_file(file.with_extension(left)).ok();
    }
}
