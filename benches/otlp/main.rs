//! How fast spans are taken over OTLP/HTTP, beside rotel, a collector in Rust, and what an answer of
//! each is worth.
//!
//! All get the same bodies, by turns, over the same connections, each with an empty folder. A body
//! has 512 spans, as many as an OpenTelemetry SDK sends at once. retrylens answers when spans are
//! committed to SQLite; what rotel answers for is seen by killing both after the last answer and
//! counting what is on disk. The packaged rotel has no exporter to files: its spans go to one by
//! its OTLP exporter and a writer in this process ([`sink`]); that, and throwing them away, its
//! fastest, are measured.
//!
//! What is printed is not asserted, since it depends on the machine. Counts are asserted: every
//! body is answered 200, and every span that retrylens answered for is there after the kill.
//!
//! - `RETRYLENS_BENCH_ROTEL`: the program of rotel (`make bench-otlp` installs it).
//! - `RETRYLENS_BENCH_PROGRAM`: a retrylens; else the one that is built with this.
//! - `RETRYLENS_BENCH_SPANS` (200,000): spans of a round.
//! - `RETRYLENS_BENCH_ROUNDS` (3): how often they take turns.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

mod sink;
mod spans;

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::time::Instant;

/// Connections that send, each from an address of its own: a fleet is many senders.
const CONNECTIONS: u8 = 8;

fn main() {
    let rotel = std::env::var_os("RETRYLENS_BENCH_ROTEL").map(PathBuf::from);
    let rotel =
        rotel.expect("RETRYLENS_BENCH_ROTEL: the program of rotel; `make bench-otlp` sets it");
    let total = setting("RETRYLENS_BENCH_SPANS", 200_000);
    let rounds = setting("RETRYLENS_BENCH_ROUNDS", 3).max(1);
    let bodies = spans::bodies(total);
    let total: usize = bodies.iter().map(|body| body.spans).sum();
    let bytes: usize = bodies.iter().map(|body| body.bytes.len()).sum();
    let cores = std::thread::available_parallelism().unwrap();
    say(&format!(
        "{cores} cores; {total} spans of {} bytes in {} bodies, {CONNECTIONS} connections",
        bytes / total,
        bodies.len()
    ));
    let mut rates = [(); 3].map(|()| Vec::new());
    for round in 1..=rounds {
        for (which, rates) in rates.iter_mut().enumerate() {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let server = match which {
                0 => Server::retrylens(folder.path()),
                1 => Server::rotel_to_file(folder.path(), &rotel),
                _ => Server::rotel_to_nothing(folder.path(), &rotel),
            };
            let seconds = send(server.address, &bodies);
            let (cpu, name) = (server.cpu_seconds(), server.name);
            server.kill();
            let kept = match which {
                0 => kept_by_retrylens(folder.path()),
                1 => sink::kept(folder.path()),
                _ => 0,
            };
            let rate = count(total) / seconds;
            say(&format!(
                "{round}: {name:<22} {rate:>8.0} spans/s  {:>6.1} CPU s a million  {kept} of \
                 {total} on disk when killed after the last answer",
                cpu * 1e6 / count(total)
            ));
            assert!(which > 0 || kept == total, "retrylens lost spans that it answered for");
            rates.push(rate);
        }
    }
    let [ours, file, nothing] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    say(
        "retrylens answers once spans are read, redacted and committed to its database; rotel once",
    );
    say("they are read and in its memory, whatever becomes of them.");
    say(&format!(
        "ratio of the medians: {:.2} of rotel to a file ({ours:.0} against {file:.0} spans/s), \
         {:.2} of rotel to nothing ({nothing:.0})",
        ours / file,
        ours / nothing
    ));
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
}

fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}

/// A program that takes spans. It is killed when dropped.
struct Server {
    child: Child,
    name: &'static str,
    address: SocketAddr,
}

fn log(folder: &Path) -> File {
    File::create(folder.join("log")).unwrap()
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Server {
    /// Ours, with the settings that it has by default, on SQLite.
    fn retrylens(folder: &Path) -> Self {
        let program = std::env::var_os("RETRYLENS_BENCH_PROGRAM")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_retrylens").into());
        let mut child = Command::new(program)
            .current_dir(folder)
            .env_clear()
            .env("RETRYLENS_LISTEN", "127.0.0.1:0")
            .env("RETRYLENS_OTLP_GRPC_LISTEN", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log(folder))
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening:")?.trim().parse().ok());
        let address = address.unwrap_or_else(|| panic!("{}", said(folder)));
        Self { child, name: "retrylens to SQLite", address }
    }

    /// Rotel, whose OTLP exporter sends to a file by way of [`sink`].
    fn rotel_to_file(folder: &Path, program: &Path) -> Self {
        let sink = sink::start(folder);
        let endpoint = format!("http://{sink}");
        let to = ["--exporter", "otlp", "--otlp-exporter-protocol", "http"];
        let more = ["--otlp-exporter-endpoint", &endpoint];
        Self::rotel(folder, program, "rotel to a file", &[&to[..], &more].concat())
    }

    /// Rotel, which throws away what it took.
    fn rotel_to_nothing(folder: &Path, program: &Path) -> Self {
        Self::rotel(folder, program, "rotel to nothing", &["--exporter", "blackhole"])
    }

    fn rotel(folder: &Path, program: &Path, name: &'static str, exporter: &[&str]) -> Self {
        let (address, grpc) = (free_address(), free_address());
        let child = Command::new(program)
            .arg("start")
            .args(exporter)
            .args(["--otlp-http-endpoint", &address.to_string()])
            .args(["--otlp-grpc-endpoint", &grpc.to_string()])
            .current_dir(folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log(folder))
            .stderr(File::create(folder.join("errors")).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let server = Self { child, name, address };
        for _ in 0..200 {
            if TcpStream::connect(address).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("rotel does not listen: {}", said(folder));
    }

    /// User and system time so far (proc(5), 100 ticks a second).
    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        let ticks = behind_name.split_whitespace().skip(11).take(2);
        ticks.map(|n| n.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }

    fn kill(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn said(folder: &Path) -> String {
    ["log", "errors"]
        .iter()
        .filter_map(|name| std::fs::read_to_string(folder.join(name)).ok())
        .collect()
}

/// Sends all bodies, each connection its next one as soon as the last is answered; how long it took
/// until the last answer, in seconds.
fn send(address: SocketAddr, bodies: &[spans::Body]) -> f64 {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for which in 0..CONNECTIONS {
            let next = &next;
            scope.spawn(move || {
                let mut stream = open(address, which);
                while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    while let Err(seconds) = post(&mut stream, body) {
                        std::thread::sleep(Duration::from_secs(seconds));
                    }
                }
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

/// Connects from 127.0.1.0 and up: all of 127.0.0.0/8 is this machine on Linux (RFC 1122).
fn open(address: SocketAddr, which: u8) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 1, which), 0).into()).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

/// Sends a body; for how many seconds it is asked to wait, where it isn't taken.
fn post(stream: &mut TcpStream, body: &spans::Body) -> Result<(), u64> {
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.bytes.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body.bytes).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    loop {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the connection was closed");
        answer.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.strip_prefix(name));
            lines.next().and_then(|value| value.trim().parse::<usize>().ok())
        };
        // Heads are ASCII, so that their length is the same in both.
        if answer.len() < head.len() + 4 + field("content-length:").unwrap_or(0) {
            continue;
        }
        match head.split(' ').nth(1) {
            Some("200") => return Ok(()),
            Some("503" | "429") => {
                return Err(u64::try_from(field("retry-after:").unwrap_or(1)).unwrap());
            }
            _ => panic!("{text}"),
        }
    }
}

/// Spans in the database that a killed retrylens left.
fn kept_by_retrylens(folder: &Path) -> usize {
    let database = rusqlite::Connection::open(folder.join("retrylens.db")).unwrap();
    let count = "SELECT COUNT(*) FROM otlp_spans";
    let kept: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
    usize::try_from(kept).unwrap()
}
