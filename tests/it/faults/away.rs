//! The database goes away and comes back while the service runs on.

use super::dice;
use super::ledger::{Ledger, OnDrop};
use crate::support::Process;
use crate::support::http::Client;
use crate::support::postgres_server::Server;
use rand::RngExt as _;
use sqlx::{Connection as _, SqliteConnection};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How a database goes away.
#[derive(Debug, Clone, Copy)]
enum Absence {
    /// Shut down.
    Stopped,
    /// `kill -9` of its first process.
    Killed,
    /// All of its processes stand still: connections stay, answers don't come.
    Frozen,
}

/// Has the database away for `length` under load, then sees all of it stored.
fn away_and_back(absence: Absence, length: Duration) {
    let Some(mut server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let mut process = Process::serve(folder.path(), &[], &[("RETRYLENS_DATABASE_URL", &url)]);
    let (ledger, is_over) = (Ledger::default(), AtomicBool::new(false));
    let mut client = Client::new(process.address);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        scope.spawn(|| ledger.load(process.address, 3, 7, &is_over));
        let began = Instant::now();
        while ledger.batches() < 5 {
            assert!(began.elapsed() < Duration::from_secs(30), "{absence:?}: nothing is stored");
            std::thread::sleep(Duration::from_millis(20));
        }
        match absence {
            Absence::Stopped => server.stop(),
            Absence::Killed => server.kill(),
            Absence::Frozen => server.freeze(true),
        }
        let gone = Instant::now();
        let mut slowest = Duration::ZERO;
        let mut refusals = 0;
        while gone.elapsed() < length || refusals == 0 {
            let asked = Instant::now();
            let reply = ledger.send(&mut client, ledger.fresh(50), true).unwrap();
            slowest = slowest.max(asked.elapsed());
            if reply.status == 503 {
                refusals += 1;
                let code = reply.json()["code"].as_str().unwrap().to_owned();
                // It may wait for its turn behind others that wait for the database, or the queue
                // may be full of them.
                let codes = ["store-unavailable", "queue-full", "timed-out"];
                assert!(codes.contains(&code.as_str()), "{reply:?}");
                reply.assert_asks_to_wait(&code);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(client.get("/healthz").unwrap().status, 200);
        let ready = client.get("/readyz").unwrap();
        ready.assert_asks_to_wait("store-unavailable");
        let page = client.get("/api/v1/overview").unwrap();
        assert_eq!(page.status, 503, "{page:?}");
        eprintln!(
            "{absence:?} for {:.1?}: {refusals} refusals, the slowest answer took {slowest:.1?}",
            gone.elapsed()
        );
        match absence {
            Absence::Stopped | Absence::Killed => server.resume(),
            Absence::Frozen => server.freeze(false),
        }
        let back = Instant::now();
        while client.get("/readyz").unwrap().status != 200 {
            assert!(back.elapsed() < Duration::from_secs(30), "it is not ready again");
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{absence:?}: ready again {:.1?} after the database", back.elapsed());
        is_over.store(true, Ordering::Relaxed);
    });
    ledger.settle(process.address);
    eprintln!("{absence:?}: {}", ledger.told());
    assert!(ledger.counts.refused.load(Ordering::Relaxed) > 0);
    process.signal("TERM");
    assert!(process.wait().success());
    tokio::runtime::Runtime::new().unwrap().block_on(ledger.assert_exact(&url));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_postgres_that_is_stopped_and_started_again_costs_a_wait_and_no_event() {
    away_and_back(Absence::Stopped, Duration::from_secs(4));
}

#[test]
#[ignore = "long: make torture"]
fn a_postgres_that_is_away_or_frozen_for_a_minute_costs_a_wait_and_no_event() {
    for absence in [Absence::Stopped, Absence::Killed, Absence::Frozen] {
        away_and_back(absence, Duration::from_mins(1));
    }
}

/// Kills PostgreSQL, whole or in part, `kills` times under load.
fn kill_postgres(kills: u32, test: &str) {
    let mut dice = dice(test);
    let Some(mut server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let mut process = Process::serve(folder.path(), &[], &[("RETRYLENS_DATABASE_URL", &url)]);
    let (ledger, is_over, seed) = (Ledger::default(), AtomicBool::new(false), dice.random());
    let mut sessions = 0;
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        scope.spawn(|| ledger.load(process.address, 4, seed, &is_over));
        for kill in 0..kills {
            let (batches, began) = (ledger.batches() + dice.random_range(0..10), Instant::now());
            while ledger.batches() < batches && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if kill % 2 == 0 {
                server.kill();
                server.resume();
            } else {
                // The service may not be connected again yet.
                let mut tries = 0..200;
                while !server.kill_a_session() {
                    assert!(tries.next().is_some(), "the service has no session");
                    std::thread::sleep(Duration::from_millis(50));
                }
                sessions += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
    });
    eprintln!("{kills} kills of PostgreSQL, {sessions} of them of a session: {}", ledger.told());
    assert!(sessions > 0, "no session was killed");
    ledger.settle(process.address);
    process.signal("TERM");
    assert!(process.wait().success());
    tokio::runtime::Runtime::new().unwrap().block_on(ledger.assert_exact(&url));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_postgres_killed_under_load_keeps_every_acknowledged_event_once() {
    kill_postgres(3, "kill of PostgreSQL");
}

#[test]
#[ignore = "long: make torture"]
fn twenty_kills_of_postgres_under_load_keep_every_acknowledged_event_once() {
    kill_postgres(20, "20 kills of PostgreSQL");
}

/// A way to the database on which connections can be lost without a word, as behind a router that
/// forgot them or a machine that is gone: what is sent on them is swallowed. New ones get through.
struct LosingWay {
    address: SocketAddr,
    /// Connections that were made before this many losses are lost.
    losses: Arc<AtomicUsize>,
}

impl LosingWay {
    /// A way to `server`, for as long as this process runs.
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, losses) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let known = Arc::clone(&losses);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(server) else { continue };
                let made = known.load(Ordering::SeqCst);
                for (from, to) in [(&from, &to), (&to, &from)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let losses = Arc::clone(&known);
                    std::thread::spawn(move || pass_unless_lost(from, to, made, &losses));
                }
            }
        });
        Self { address, losses }
    }

    /// Loses all connections of now.
    fn lose(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }
}

fn pass_unless_lost(mut from: TcpStream, mut to: TcpStream, made: usize, losses: &AtomicUsize) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let is_lost = losses.load(Ordering::SeqCst) > made;
        if !is_lost && to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    if losses.load(Ordering::SeqCst) == made {
        to.shutdown(Shutdown::Both).ok();
    }
}

#[test]
#[ignore = "long: make torture"]
fn connections_lost_without_a_word_are_given_up_and_made_anew() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let way = LosingWay::to(server.address());
    let url = format!("postgres://postgres@{}/postgres", way.address);
    let mut process = Process::serve(folder.path(), &[], &[("RETRYLENS_DATABASE_URL", &url)]);
    let (ledger, is_over) = (Ledger::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        scope.spawn(|| ledger.load(process.address, 3, 11, &is_over));
        for _ in 0..2 {
            // Readers as many as there are connections for them, so that all may be lost.
            let readers: Vec<_> = (0..12)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = Client::new(process.address);
                        for _ in 0..40 {
                            client.get("/api/v1/triage");
                        }
                    })
                })
                .collect();
            let (batches, began) = (ledger.batches() + 20, Instant::now());
            while ledger.batches() < batches {
                assert!(began.elapsed() < Duration::from_secs(30), "nothing is stored");
                std::thread::sleep(Duration::from_millis(20));
            }
            way.lose();
            let (batches, lost) = (ledger.batches() + 20, Instant::now());
            while ledger.batches() < batches {
                assert!(lost.elapsed() < Duration::from_mins(2), "nothing is stored any more");
                std::thread::sleep(Duration::from_millis(20));
            }
            eprintln!("lost without a word: storing again after {:.1?}", lost.elapsed());
            for reader in readers {
                reader.join().unwrap();
            }
            let mut client = Client::new(process.address);
            while client.get("/api/v1/overview").is_none_or(|reply| reply.status != 200) {
                assert!(lost.elapsed() < Duration::from_mins(2), "nothing is read any more");
            }
            eprintln!("lost without a word: reading again after {:.1?}", lost.elapsed());
        }
    });
    ledger.settle(process.address);
    eprintln!("lost without a word: {}", ledger.told());
    process.signal("TERM");
    assert!(process.wait().success());
    tokio::runtime::Runtime::new().unwrap().block_on(ledger.assert_exact(&server.url()));
}

/// Another program holds SQLite's write lock for longer than the service waits for it.
#[test]
fn a_sqlite_file_that_is_locked_by_another_program_costs_a_wait_and_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path(), &[], &[]);
    let mut client = Client::new(process.address);
    let ledger = Ledger::default();
    ledger.send(&mut client, ledger.fresh(100), true).unwrap();
    let url = format!("sqlite://{}", folder.path().join("retrylens.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut other = runtime.block_on(async {
        let mut other = SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        other
    });
    let asked = Instant::now();
    let reply = ledger.send(&mut client, ledger.fresh(100), true).unwrap();
    reply.assert_asks_to_wait("store-unavailable");
    eprintln!("locked: refused after {:.1?}", asked.elapsed());
    client.get("/readyz").unwrap().assert_asks_to_wait("store-unavailable");
    let day = "from=2026-11-11T00:00:00Z&to=2026-11-12T00:00:00Z";
    let page = client.get(&format!("/api/v1/overview?{day}")).unwrap();
    assert_eq!(page.json()["figures"][0]["note"], "100 attempts", "reading goes on");
    runtime.block_on(async {
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        other.close().await.unwrap();
    });
    ledger.settle(process.address);
    assert_eq!(client.get("/readyz").unwrap().status, 200);
    process.signal("TERM");
    assert!(process.wait().success());
    runtime.block_on(ledger.assert_exact(&url));
}
