//! The load: requests made beforehand, sent over connections that are kept. Each connection comes
//! from an address of its own, since a fleet is many senders and a single one is held to its share.

use crate::workload;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::time::Instant;

/// Whole requests with events `from` to `to` of `total`, in batches of these sizes by turns.
pub(crate) fn requests(from: u64, to: u64, total: u64, sizes: &[u64]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut begin = from;
    for size in sizes.iter().cycle() {
        if begin == to {
            break;
        }
        let end = to.min(begin + size);
        let body = workload::batch(begin, end, total);
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        requests.push([head.as_bytes(), body.as_bytes()].concat());
        begin = end;
    }
    requests
}

/// What the service said, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) stored: u64,
    /// How often it asked to wait (503 or 429); the request is sent again then.
    pub(crate) waits: u64,
    /// Of each request, in milliseconds.
    pub(crate) latencies_ms: Vec<f64>,
    /// From the first request to the last answer.
    pub(crate) seconds: f64,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.waits += other.waits;
        self.latencies_ms.extend(other.latencies_ms);
    }

    /// The time within which `share` of the requests were answered, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank among a few thousand"
        )]
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.max(1) - 1]
    }
}

/// Sends all of it, each connection its next request as soon as the last is answered.
pub(crate) fn send_fast(address: SocketAddr, requests: &[Vec<u8>], connections: usize) -> Answers {
    let next = AtomicUsize::new(0);
    on_connections(address, connections, |_, connection, answers| {
        while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
            connection.send(request, Instant::now(), answers);
        }
    })
}

/// Sends a request every `interval`, whether the ones before are answered or not. Latency counts
/// from when a request was due, so that one slow answer shows in those that wait behind it.
pub(crate) fn send_paced(
    address: SocketAddr,
    requests: &[Vec<u8>],
    connections: usize,
    interval: Duration,
) -> Answers {
    let begun = Instant::now() + interval;
    on_connections(address, connections, |which, connection, answers| {
        for (n, request) in requests.iter().enumerate().skip(which).step_by(connections) {
            let due = begun + interval * u32::try_from(n).unwrap();
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.send(request, due, answers);
        }
    })
}

/// Runs `work` on a thread for each of some connections.
fn on_connections(
    address: SocketAddr,
    count: usize,
    work: impl Fn(usize, &mut Connection, &mut Answers) + Sync,
) -> Answers {
    let begun = Instant::now();
    let mut all = Answers::default();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..count)
            .map(|which| {
                let work = &work;
                scope.spawn(move || {
                    let mut connection = Connection::open(address, which);
                    let mut answers = Answers::default();
                    work(which, &mut connection, &mut answers);
                    answers
                })
            })
            .collect();
        for sender in senders {
            all.add(sender.join().unwrap());
        }
    });
    all.seconds = begun.elapsed().as_secs_f64();
    all
}

/// The part of an answer that counts.
#[derive(serde::Deserialize)]
struct Told {
    stored: u64,
    duplicates: u64,
    rejected: Vec<serde_json::Value>,
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects from 127.0.1.0 and up: all of 127.0.0.0/8 is this machine on Linux (RFC 1122).
    fn open(address: SocketAddr, which: usize) -> Self {
        let own = Ipv4Addr::new(127, 0, 1, u8::try_from(which).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((own, 0).into()).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        Self { stream, answer: Vec::new() }
    }

    /// Sends a request until it is taken.
    fn send(&mut self, request: &[u8], due: Instant, answers: &mut Answers) {
        loop {
            self.stream.write_all(request).unwrap();
            let (head, body) = self.read();
            match head.split(' ').nth(1) {
                Some("200") => {
                    let told: Told = serde_json::from_str(&body).unwrap();
                    assert!(told.rejected.is_empty() && told.duplicates == 0, "{body}");
                    answers.stored += told.stored;
                    answers.latencies_ms.push(due.elapsed().as_secs_f64() * 1_000.0);
                    return;
                }
                Some("503" | "429") => {
                    let seconds = field(&head, "retry-after:").expect("it says how long to wait");
                    answers.waits += 1;
                    std::thread::sleep(Duration::from_secs(seconds));
                }
                _ => panic!("{head}\n{body}"),
            }
        }
    }

    /// Head and body of the next answer.
    fn read(&mut self) -> (String, String) {
        self.answer.clear();
        let mut part = [0; 8_192];
        loop {
            let read = self.stream.read(&mut part).unwrap();
            assert!(read > 0, "the service closed a connection");
            self.answer.extend_from_slice(&part[..read]);
            let Ok(text) = std::str::from_utf8(&self.answer) else { continue };
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && field(head, "content-length:") == u64::try_from(body.len()).ok()
            {
                return (head.to_ascii_lowercase(), body.to_owned());
            }
        }
    }
}

/// The number in a header field.
fn field(head: &str, name: &str) -> Option<u64> {
    head.lines().find_map(|line| {
        let value = line.get(name.len()..)?;
        line.get(..name.len())?.eq_ignore_ascii_case(name).then(|| value.trim().parse().ok())?
    })
}
