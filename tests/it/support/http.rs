//! A small HTTP/1.1 client over a kept connection, for senders whose connection may break at any
//! byte: an answer is whole or it is none.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a sender waits for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) text: String,
}

impl Reply {
    /// A header field's value, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.trim())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{error} in {} {}", self.status, self.text))
    }

    /// Checks that it is a refusal that a sender can act on: problem+json with this code, and a
    /// wait of one second to two minutes.
    pub(crate) fn assert_asks_to_wait(&self, code: &str) {
        assert_eq!(self.status, 503, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        assert_eq!(self.header("cache-control"), "no-store", "{self:?}");
        assert_eq!(self.json()["code"], code, "{self:?}");
        let wait: u64 = self.header("retry-after").parse().unwrap_or_default();
        assert!((1..=120).contains(&wait), "{self:?}");
    }
}

/// A client of one address, which connects where it isn't connected.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Connects at the first request.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Posts NDJSON to `/v1/events`. `None` where no whole answer came: what became of the batch
    /// isn't known.
    pub(crate) fn send(&mut self, lines: &str) -> Option<Reply> {
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\
             content-type: application/x-ndjson\r\n\r\n",
            lines.len()
        );
        self.exchange(&[head.as_bytes(), lines.as_bytes()].concat())
    }

    /// `GET`s `path`; once more on a new connection where the kept one was closed meanwhile.
    pub(crate) fn get(&mut self, path: &str) -> Option<Reply> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let was_kept = self.stream.is_some();
        self.exchange(request.as_bytes())
            .or_else(|| was_kept.then(|| self.exchange(request.as_bytes())).flatten())
    }

    /// Sends a whole request and reads its answer.
    fn exchange(&mut self, request: &[u8]) -> Option<Reply> {
        let reply = self.try_exchange(request);
        if reply.is_none() {
            self.stream = None;
        }
        reply
    }

    fn try_exchange(&mut self, request: &[u8]) -> Option<Reply> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5)).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.set_nodelay(true).ok()?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut()?;
        stream.get_mut().write_all(request).ok()?;
        read_reply(stream)
    }
}

/// `GET`s `path` by HTTP/1.0, to which every server answers in one piece, whatever its length; `None`
/// where no answer came.
pub(crate) fn in_one_piece(address: SocketAddr, path: &str) -> Option<Reply> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, head: head.to_owned(), text: body.to_owned() })
}

/// Reads one answer with a `content-length`; `None` where the connection ends before its end.
pub(crate) fn read_reply(stream: &mut impl BufRead) -> Option<Reply> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut reply = Reply { status, head, text: String::new() };
    let length: u64 = reply.header("content-length").parse().ok()?;
    let mut body = Vec::new();
    stream.take(length).read_to_end(&mut body).ok()?;
    reply.text = String::from_utf8(body).ok()?;
    (reply.text.len() as u64 == length).then_some(reply)
}
