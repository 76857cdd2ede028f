//! DuckDB on the same rows, through a Python process (`duck.py`).

use retrylens::domain::event::{AttemptError, Outcome, RetryLayer};
use retrylens::domain::stored::NewEvent;
use retrylens::domain::time::UnixMillis;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running DuckDB. It ends when dropped.
pub(crate) struct Duck {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Duck {
    /// Opens a database file by the Python that has DuckDB.
    pub(crate) fn open(python: &str, file: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pages/duck.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), stdout, child }
    }

    fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("DuckDB's answer")
    }

    /// Adds rows from a CSV file.
    pub(crate) fn load(&mut self, file: &Path) {
        self.ask(&json!({ "load": file }));
    }

    /// The whole number that a statement gives.
    pub(crate) fn value(&mut self, sql: &str) -> i64 {
        self.ask(&json!({ "value": sql }))["value"].as_i64().unwrap()
    }

    /// Milliseconds that all of `sql` takes, warm, run by run.
    pub(crate) fn time(&mut self, sql: &[String], runs: usize) -> Vec<f64> {
        let answer = self.ask(&json!({ "runs": runs, "sql": sql }));
        answer["ms"].as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).collect()
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        // It ends with its input.
        self.stdin.take();
        self.child.wait().ok();
    }
}

/// Writes an event as a line of CSV, in the order of the columns in `duck.py`.
pub(crate) fn write_row(out: &mut String, new: &NewEvent, received_at: UnixMillis) {
    let NewEvent { event, verdict } = new;
    let number = |n: Option<i64>| n.map(|n| n.to_string());
    let word = |text: &str| Some(text.to_owned());
    let headers = (!event.headers.is_empty()).then(|| serde_json::to_string(&event.headers));
    let fields = [
        word(&event.event_id),
        event.operation_id.clone(),
        number(Some(event.attempt.into())),
        number(Some(event.occurred_at.0)),
        number(Some(received_at.0)),
        number(event.duration_ms),
        word(event.vantage.as_str()),
        word(&event.service),
        word(&event.host),
        event.environment.clone(),
        event.instance.clone(),
        event.retry_layer.map(RetryLayer::as_str).and_then(word),
        event.method.clone(),
        event.route.clone(),
        number(event.status.map(Into::into)),
        event.error.map(AttemptError::as_str).and_then(word),
        event.outcome.map(Outcome::as_str).and_then(word),
        event.retry_after.clone(),
        number(verdict.promised_ms),
        number(event.computed_delay_ms),
        event.delay_source.clone(),
        event.request_id.clone(),
        event.ray_id.clone(),
        event.trace_id.clone(),
        event.span_id.clone(),
        event.key_hash.clone(),
        event.key_kind.clone(),
        event.client_address_hash.clone(),
        event.account_hash.clone(),
        event.idempotency_key_hash.clone(),
        event.body_hash.clone(),
        number(event.attempts_max.map(Into::into)),
        number(event.timeout_ms),
        number(event.deadline_ms),
        headers.map(Result::unwrap),
        event.content_type.clone(),
        event.error_code.clone(),
        event.body_sample.clone(),
        number(Some(event.count.into())),
        word(verdict.returned_by.as_str()),
        word(verdict.layer.as_str()),
        word(verdict.outcome.as_str()),
        Some(verdict.confidence.to_string()),
        Some(verdict.limited.to_string()),
        word(verdict.limit_type.as_str()),
        word(verdict.reached_origin.as_str()),
    ];
    for (n, field) in fields.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        if let Some(text) = field {
            out.push('"');
            out.push_str(&text.replace('"', "\"\""));
            out.push('"');
        }
    }
    out.push('\n');
}
