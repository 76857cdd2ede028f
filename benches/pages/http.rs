//! A connection to the service that is kept, and the time of its answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use tokio::time::Instant;

/// Answers that take less than this together, in milliseconds, are asked for again, …
const SHORT_MS: f64 = 200.0;
/// … up to so many times.
const MANY: usize = 101;

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Asks for a page and gives its status and body.
    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    /// Milliseconds of each of `runs` answers, after one that warms up; of more where they are so
    /// short that a moment of the machine would decide.
    ///
    /// # Panics
    /// Where an answer isn't 200 or is empty.
    pub(crate) fn time(&mut self, path: &str, runs: usize) -> Vec<f64> {
        let mut all = Vec::with_capacity(runs);
        let mut is_warm = false;
        while all.len() < runs || (all.len() < MANY && all.iter().sum::<f64>() < SHORT_MS) {
            let begun = Instant::now();
            let (status, body) = self.get(path);
            let ms = begun.elapsed().as_secs_f64() * 1_000.0;
            assert!(status == 200 && !body.is_empty(), "{status} for {path}: {body}");
            if std::mem::replace(&mut is_warm, true) {
                all.push(ms);
            }
        }
        all
    }
}
