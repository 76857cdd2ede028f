//! A receiver over plain sockets, so that it can limit, fail and break off as real ones do.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether the signature is right, by another implementation: Python's.
    pub(crate) fn is_signed_with(&self, key: &str) -> bool {
        const CHECK: &str = "\
import base64, hashlib, hmac, os, sys
signed = os.environ['ID'] + '.' + os.environ['TIMESTAMP'] + '.' + sys.stdin.read()
key = base64.b64decode(os.environ['KEY'].removeprefix('whsec_'))
right = 'v1,' + base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
sys.exit(0 if right in os.environ['SIGNATURE'].split(' ') else 1)";
        let mut python = Command::new("python3")
            .args(["-c", CHECK])
            .env("ID", &self.headers["webhook-id"])
            .env("TIMESTAMP", &self.headers["webhook-timestamp"])
            .env("SIGNATURE", &self.headers["webhook-signature"])
            .env("KEY", key)
            .stdin(Stdio::piped())
            .spawn()
            .expect("python3, which `make packages` installs");
        python.stdin.take().unwrap().write_all(self.body.as_bytes()).unwrap();
        python.wait().unwrap().success()
    }
}

/// How a request is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// With a status and further header lines, each with its line end.
    Status(u16, String),
    /// The connection is reset.
    Reset,
    /// After this time, by 204.
    Slow(Duration),
    /// Never.
    Nothing,
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status(204, String::new())
    }

    pub(crate) fn retry_after(status: u16, value: &str) -> Self {
        Self::Status(status, format!("retry-after: {value}\r\n"))
    }
}

type Decide = dyn FnMut(&[Seen]) -> Reply + Send;

/// A receiver; it stops when dropped.
pub(crate) struct Receiver {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// On a free port; `decide` sees everything that came, the newest last.
    pub(crate) async fn start(decide: impl FnMut(&[Seen]) -> Reply + Send + 'static) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), decide)
    }

    pub(crate) fn listen(
        listener: TcpListener,
        decide: impl FnMut(&[Seen]) -> Reply + Send + 'static,
    ) -> Self {
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let decide: Arc<Mutex<Box<Decide>>> = Arc::new(Mutex::new(Box::new(decide)));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&decide)));
            }
        });
        Self { url, seen, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Answers one request on a connection.
async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<Seen>>>,
    decide: Arc<Mutex<Box<Decide>>>,
) {
    let Some(request) = read(&mut stream).await else { return };
    let reply = {
        let mut seen = seen.lock().unwrap();
        seen.push(request);
        (decide.lock().unwrap())(&seen)
    };
    let (status, headers) = match reply {
        Reply::Status(status, headers) => (status, headers),
        Reply::Slow(time) => {
            tokio::time::sleep(time).await;
            (204, String::new())
        }
        Reply::Reset => return stream.set_zero_linger().unwrap(),
        Reply::Nothing => return std::future::pending().await,
    };
    let answer =
        format!("HTTP/1.1 {status} x\r\n{headers}connection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.ok();
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let n = stream.read(&mut part).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let path = lines.next()?.split(' ').nth(1)?.to_owned();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length: usize = headers.get("content-length").map_or(0, |n| n.parse().unwrap());
        if body.len() >= length {
            let body = body.to_owned();
            return Some(Seen { at: Instant::now(), path, headers, body });
        }
    }
}
