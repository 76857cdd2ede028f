//! Debian's Prometheus and its promtool, as processes.

use super::http::{Client, in_one_piece};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running Prometheus. It is killed when dropped.
pub(crate) struct Prometheus {
    child: Child,
    pub(crate) address: SocketAddr,
    log: std::path::PathBuf,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A loopback address that nobody listens on now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Prometheus {
    /// Starts on `folder/data` with these settings and further arguments, and waits until it is ready.
    pub(crate) fn start(folder: &Path, settings: &str, arguments: &[&str]) -> Self {
        let address = free_address();
        std::fs::write(folder.join("prometheus.yml"), settings).unwrap();
        let log = folder.join("prometheus.log");
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new("prometheus")
            .current_dir(folder)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            // What is replayed may be older than what is kept by default.
            .arg("--storage.tsdb.retention.time=100y")
            .arg(format!("--web.listen-address={address}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus: {error}: `make packages` installs it"));
        let own = Self { child, address, log };
        for _ in 0..600 {
            if Client::new(address).get("/-/ready").is_some_and(|answer| answer.status == 200) {
                return own;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it is not ready within 30 s: {}", own.said());
    }

    /// What it logged.
    pub(crate) fn said(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let newest = log.lines().count().saturating_sub(10);
        log.lines().skip(newest).flat_map(|line| [line, "\n"]).collect()
    }

    /// The data that `/api/v1/{path}` answers with these parameters.
    pub(crate) fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let answer = in_one_piece(self.address, &format!("/api/v1/{path}?{query}"));
        let mut answer = answer.unwrap_or_else(|| panic!("no answer: {}", self.said())).json();
        assert_eq!(answer["status"], "success", "{path} {parameters:?}: {answer}");
        answer["data"].take()
    }

    /// The series that an expression gives from `start` to `end` (Unix seconds) every `step` seconds.
    pub(crate) fn range(&self, expression: &str, [start, end]: [f64; 2], step: i64) -> Vec<Value> {
        let (start, end, step) = (start.to_string(), end.to_string(), step.to_string());
        let asked = [("query", expression), ("start", &start), ("end", &end), ("step", &step)];
        match self.get("query_range", &asked)["result"].take() {
            Value::Array(all) => all,
            other => panic!("{other}"),
        }
    }
}

/// Runs promtool in `folder`; whether it succeeded, and what it said.
pub(crate) fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("promtool")
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("promtool: {error}: `make packages` installs it"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}
