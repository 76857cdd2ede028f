//! The program as a process, on a port of its own, and a small HTTP client to talk to it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// A running `retrylens`. It is killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) greeting: String,
}

/// The program with a clean environment, working in `folder`.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrylens"));
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

impl Process {
    /// Serves from `folder` on a free port.
    pub(crate) fn serve(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::try_serve(folder, arguments, environment)
            .unwrap_or_else(|said| panic!("it did not say where it listens: {said}"))
    }

    /// As [`Self::serve`]; where it doesn't start, what it said and logged.
    pub(crate) fn try_serve(
        folder: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let log = folder.join("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut child = command(folder)
            .env("RETRYLENS_LISTEN", "127.0.0.1:0")
            // Its usual port is one that all would want.
            .env("RETRYLENS_OTLP_GRPC_LISTEN", "")
            // What tests send happened on a day that stays the same.
            .env("RETRYLENS_RETENTION_DAYS", "36500")
            .env("RETRYLENS_SUMS_RETENTION_DAYS", "36500")
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        let mut address = None;
        for line in lines.by_ref() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("listening:") {
                address = rest.trim().parse().ok();
            }
            greeting.push_str(&line);
            greeting.push('\n');
            if line.contains("/lookup?id=") {
                break;
            }
        }
        let Some(address) = address else {
            child.kill().ok();
            child.wait().unwrap();
            return Err(greeting + &std::fs::read_to_string(&log).unwrap_or_default());
        };
        Ok(Self { child, log, address, greeting })
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, or another signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        for _ in 0..600 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it did not end within 30 s")
    }

    /// Posts JSON; `None` where no whole answer came.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Option<(u16, String)> {
        post(self.address, path, body)
    }

    /// Posts a body of any kind; `None` where no whole answer came.
    pub(crate) fn send(&self, path: &str, media_type: &str, body: &[u8]) -> Option<(u16, String)> {
        send(self.address, path, media_type, body)
    }

    /// Sends `text` as it is and reads until the other side closes.
    pub(crate) fn raw(&self, text: &str) -> String {
        let mut stream = connect(self.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// `GET`s `path` and gives the whole answer, head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        self.raw(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "what it logged explains a test that failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let newest = log.lines().count().saturating_sub(40);
            let newest: Vec<&str> = log.lines().skip(newest).collect();
            eprintln!("{}", newest.join("\n"));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
    Some(stream)
}

/// Posts JSON on a connection of its own; `None` where no whole answer came.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Option<(u16, String)> {
    send(address, path, "application/json", body.to_string().as_bytes())
}

fn send(address: SocketAddr, path: &str, media_type: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = connect(address)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
