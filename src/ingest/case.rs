//! One line of `retrylens classify --ndjson`: a response as text and what is known around it, log
//! lines of the hops and the origin's own record among it.

use super::access_log::{self, Format, LogRecord};
use super::response::{self, ResponseError, host_of, without_query};
use crate::domain::access_log::{LogFacts, OriginRecord, Trail};
use crate::domain::classify::Responder;
use crate::domain::response::Response;
use crate::domain::time::UnixMillis;
use serde_json::{Map, Value};

/// Fields of a line that carry a hop's or the origin's own record.
const LOG_FIELDS: [&str; 7] = [
    "log",
    "access_log_json",
    "access_log_default",
    "inner_hops",
    "origin_log",
    "origin_saw_request",
    "origin_saw_request_id",
];
/// How far apart the times of two hops' lines of one request may be: one writes its start, another
/// its end, by their own clocks.
const HOPS_APART_MS: i64 = 60_000;
/// The most lines of logs that are read of one case.
const MAX_LOG_LINES: usize = 64;

/// A line that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The line's `id` as it was sent (a text or a number), else null.
    pub id: Value,
    /// What to judge; without `raw` nothing but the request is known.
    pub response: Response,
    /// What was guessed or left out, in words.
    pub problems: Vec<String>,
}

/// A line that could not be read, with the `id` where that much was readable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct CaseError {
    /// The line's `id`, else null.
    pub id: Value,
    /// The field at fault, where one is.
    pub field: Option<&'static str>,
    /// What is wrong and what was expected.
    pub reason: String,
}

/// Reads one line.
pub fn read(line: &str) -> Result<Case, CaseError> {
    let value: Value = serde_json::from_str(line).map_err(|error| CaseError {
        id: Value::Null,
        field: None,
        reason: format!("not JSON: {error}; expected an object with `id` and `raw`"),
    })?;
    read_value(value)
}

/// Reads what somebody pasted: such a line, one response as text, or a line of an access log.
pub fn of_text(text: &str) -> Result<Case, CaseError> {
    let is_object = text.trim_start().starts_with('{');
    let read = if is_object {
        read(text)
    } else {
        response::parse(text)
            .map(|parsed| Case {
                id: Value::Null,
                response: parsed.response,
                problems: parsed.problems,
            })
            .map_err(|error| CaseError { id: Value::Null, field: None, reason: error.to_string() })
    };
    read.or_else(|error| of_log(text).unwrap_or(Err(error)))
}

/// A line of an access log by itself, or those of one request; `None` where it is none.
fn of_log(text: &str) -> Option<Result<Case, CaseError>> {
    let mut response = Response::default();
    let mut problems = Vec::new();
    let read = Lines { problems: &mut problems, left: MAX_LOG_LINES }.read(
        "log",
        None,
        Some(&Value::from(text)),
    );
    read.last()?.fill(&mut response);
    let (first, rest) = read.split_first()?;
    if let Some(at) = rest.iter().position(|line| are_of_two(first, line)) {
        let number = at.saturating_add(2);
        let reason = format!(
            "these are lines of several requests: number 1 and number {number} of {} are not of one; \
             pick the lines of one request, send each by itself (`--ndjson`), or store the log with \
             `retrylens import`",
            read.len()
        );
        return Some(Err(CaseError { id: Value::Null, field: None, reason }));
    }
    problems.push("read as a line of an access log".to_owned());
    response.logs = Trail { hops: vec![facts(read)], origin: None };
    Some(Ok(Case { id: Value::Null, response, problems }))
}

/// Whether two lines are certainly not of one request: by the ids that both have, and without any
/// by path, time and status. Hops of one request may replace ids and statuses, and their clocks
/// differ somewhat.
fn are_of_two(one: &LogRecord, other: &LogRecord) -> bool {
    let is_one_hop = one.facts.product == other.facts.product;
    let differ = |a: Option<&String>, b: Option<&String>| a.zip(b).map(|(a, b)| a != b);
    let by_request = differ(one.request_id.as_ref(), other.request_id.as_ref());
    let by_gateway = differ(one.gateway_request_id.as_ref(), other.gateway_request_id.as_ref());
    let by_trace = differ(one.trace_id.as_ref(), other.trace_id.as_ref());
    // A trace spans hops, and all attempts.
    let known =
        if is_one_hop { by_request.or(by_gateway).or(by_trace) } else { by_trace.or(by_request) };
    known.unwrap_or_else(|| {
        let apart = one.at.zip(other.at).map_or(0, |(a, b)| a.since(b).0.abs());
        let paths = differ(one.path.as_ref(), other.path.as_ref()).unwrap_or(false);
        // The error log has no status, and whole seconds.
        let statuses = one.facts.status.zip(other.facts.status).filter(|_| is_one_hop);
        let is_late = apart > if statuses.is_some() { 0 } else { HOPS_APART_MS };
        paths || is_late || statuses.is_some_and(|(a, b)| a != b)
    })
}

/// Reads a line that is parsed already; also the body of `POST /api/v1/classify`.
pub fn read_value(value: Value) -> Result<Case, CaseError> {
    let Value::Object(object) = value else {
        return Err(CaseError {
            id: Value::Null,
            field: None,
            reason: "expected an object with `id` and `raw`".to_owned(),
        });
    };
    let id = match object.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id.clone(),
        _ => Value::Null,
    };
    Reader { object: &object }.read(&id).map_err(|(field, reason)| CaseError {
        id,
        field: Some(field),
        reason,
    })
}

type Fault = (&'static str, String);

struct Reader<'a> {
    object: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn read(&self, id: &Value) -> Result<Case, Fault> {
        let has_logs = LOG_FIELDS.iter().any(|name| self.given(name).is_some());
        let (mut response, mut problems) = match self.text("raw")? {
            Some(raw) => {
                let parsed = response::parse(raw)
                    .map_err(|error: ResponseError| ("raw", error.to_string()))?;
                (parsed.response, parsed.problems)
            }
            None if !has_logs => {
                return Err(("raw", "missing; expected an HTTP response as text".to_owned()));
            }
            None => (Response::default(), vec!["no response text was sent".to_owned()]),
        };
        self.request(&mut response)?;
        response.provider = self.text("provider")?.map(str::to_owned);
        response.observed_at = self.observed_at()?;
        response.path = self.path(&mut problems)?;
        if has_logs {
            self.logs(&mut response, &mut problems);
        }
        Ok(Case { id: id.clone(), response, problems })
    }

    /// A field that was sent and is not null.
    fn given(&self, name: &str) -> Option<&Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Reads what hops and the origin wrote down; a line that can't be read is said and left out.
    fn logs(&self, response: &mut Response, problems: &mut Vec<String>) {
        let named = self.given("log_format").and_then(Value::as_str);
        let format = named.and_then(Format::named);
        if let (Some(name), None) = (named, format) {
            problems.push(format!("log_format: {}", access_log::unknown_format(name)));
        }
        let mut lines = Lines { problems, left: MAX_LOG_LINES };
        let mut outermost = lines.read("log", format, self.given("log"));
        if outermost.is_empty() {
            outermost = lines.read("access_log_json", format, self.given("access_log_json"));
        }
        if outermost.is_empty() {
            outermost = lines.read("access_log_default", format, self.given("access_log_default"));
        }
        if let (None, Some(line)) = (response.status, outermost.last()) {
            line.fill(response);
        }
        let mut hops = vec![facts(outermost)];
        for hop in self.given("inner_hops").and_then(Value::as_array).into_iter().flatten() {
            let named = hop.get("gateway").and_then(Value::as_str).and_then(Format::named);
            let mut read = lines.read("inner_hops", named, hop.get("access_log_json"));
            if read.is_empty() {
                read = lines.read("inner_hops", named, hop.get("access_log_default"));
            }
            hops.push(facts(read));
        }
        hops.retain(|lines| !lines.is_empty());
        response.logs = Trail { hops, origin: self.origin() };
    }

    /// The origin's own record: its lines, and whether the sender says that it saw the request. An
    /// id that did not arrive says nothing, since hops replace ids.
    fn origin(&self) -> Option<OriginRecord> {
        let lines: Vec<&Value> = match self.given("origin_log") {
            Some(Value::Array(lines)) => lines.iter().take(MAX_LOG_LINES).collect(),
            Some(line) => vec![line],
            None => Vec::new(),
        };
        let status = |line: &&Value| match line {
            Value::Object(_) => line.get("status").and_then(Value::as_u64),
            Value::String(text) => {
                let record = access_log::parse(None, text.as_bytes()).ok()?;
                record.facts.status.map(u64::from)
            }
            _ => None,
        };
        let statuses: Vec<Option<u16>> = lines
            .iter()
            .map(|line| status(line).and_then(|status| u16::try_from(status).ok()))
            .collect();
        let is_true = |name: &str| self.given(name).and_then(Value::as_bool);
        let saw = match (is_true("origin_saw_request"), is_true("origin_saw_request_id")) {
            (Some(saw), _) => saw,
            (None, Some(true)) => true,
            (None, _) if !statuses.is_empty() => true,
            (None, _) => return None,
        };
        Some(OriginRecord { saw, statuses })
    }

    /// A field that holds a text or nothing.
    fn text(&self, name: &'static str) -> Result<Option<&str>, Fault> {
        text_of(self.object, name, name)
    }

    fn request(&self, response: &mut Response) -> Result<(), Fault> {
        let request = match self.object.get("request") {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(request)) => request,
            Some(_) => return Err(("request", "expected an object".to_owned())),
        };
        let facts = &mut response.request;
        if let Some(url) = text_of(request, "url", "request.url")? {
            response::address(url, facts);
        }
        if let Some(method) = text_of(request, "method", "request.method")? {
            facts.method = Some(method.to_ascii_uppercase());
        }
        if let Some(host) = text_of(request, "host", "request.host")? {
            facts.host = host_of(host);
        }
        for name in ["route", "path"] {
            if let Some(path) = text_of(request, name, "request.path")? {
                facts.path = Some(without_query(path));
            }
        }
        match request.get("headers") {
            None | Some(Value::Null) => {}
            Some(Value::Object(headers)) => {
                for (name, value) in headers {
                    match value {
                        Value::String(value) => facts.headers.push(name, value),
                        Value::Array(values) => values
                            .iter()
                            .filter_map(Value::as_str)
                            .for_each(|value| facts.headers.push(name, value)),
                        _ => {}
                    }
                }
            }
            Some(_) => {
                return Err((
                    "request.headers",
                    "expected an object of names and texts".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn observed_at(&self) -> Result<Option<UnixMillis>, Fault> {
        let expected =
            || ("observed_at", "expected an RFC 3339 time or epoch milliseconds".to_owned());
        match self.object.get("observed_at") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                UnixMillis::parse_rfc3339(text).map(Some).ok_or_else(expected)
            }
            Some(value) => value.as_i64().map(|ms| Some(UnixMillis(ms))).ok_or_else(expected),
        }
    }

    /// The declared hops; a name that is not known is left out and said.
    fn path(&self, problems: &mut Vec<String>) -> Result<Vec<Responder>, Fault> {
        let hops = match self.object.get("path") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(hops)) => hops,
            Some(_) => return Err(("path", "expected a list of responder names".to_owned())),
        };
        let mut known = Vec::new();
        for hop in hops.iter().take(32) {
            match hop.as_str().unwrap_or_default().parse() {
                Ok(hop) => known.push(hop),
                Err(error) => problems.push(format!("path: {error}")),
            }
        }
        Ok(known)
    }
}

fn facts(records: Vec<LogRecord>) -> Vec<LogFacts> {
    records.into_iter().map(|record| record.facts).collect()
}

/// Reads lines of logs out of JSON values, and says what could not be read.
struct Lines<'a> {
    problems: &'a mut Vec<String>,
    left: usize,
}

impl Lines<'_> {
    /// A line, an object that was parsed already, several lines in one text, or a list of them.
    fn read(
        &mut self,
        field: &str,
        format: Option<Format>,
        value: Option<&Value>,
    ) -> Vec<LogRecord> {
        let mut records = Vec::new();
        match value {
            None | Some(Value::Null) => {}
            Some(Value::Array(values)) => {
                for value in values {
                    records.append(&mut self.read(field, format, Some(value)));
                }
            }
            Some(Value::String(text)) => {
                for line in text.lines() {
                    self.take(field, access_log::parse(format, line.as_bytes()), &mut records);
                }
            }
            Some(value) => {
                self.take(field, access_log::parse_value(format, value), &mut records);
            }
        }
        records
    }

    fn take(
        &mut self,
        field: &str,
        read: Result<LogRecord, access_log::LineError>,
        records: &mut Vec<LogRecord>,
    ) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        match read {
            Ok(record) => records.push(record),
            Err(error) if error.is_comment => {}
            Err(error) => self.problems.push(format!("{field}: {error}")),
        }
    }
}

fn text_of<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    shown: &'static str,
) -> Result<Option<&'a str>, Fault> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err((shown, "expected a text".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_response_and_surroundings() {
        let case = read(
            r#"{"id":7,"raw":"HTTP/2 429\r\nretry-after: 3\r\n\r\n","provider":"github",
                "request":{"method":"get","host":"API.example.com:443","route":"/v1/{id}?a=1","headers":{"accept":"text/html"}},
                "observed_at":"2026-11-11T07:29:00Z","path":["cloudflare","teapot"],"log":"x","log_format":"nginx"}"#,
        )
        .unwrap();
        assert_eq!(case.id, 7);
        assert_eq!(case.response.status, Some(429));
        assert_eq!(case.response.request.method.as_deref(), Some("GET"));
        assert_eq!(case.response.request.host.as_deref(), Some("api.example.com"));
        assert_eq!(case.response.request.path.as_deref(), Some("/v1/{id}"));
        assert_eq!(case.response.request.headers.get("accept"), Some("text/html"));
        assert_eq!(case.response.observed_at, Some(UnixMillis(1_794_382_140_000)));
        assert_eq!(case.response.path, [Responder::Cloudflare]);
        assert!(case.problems.iter().any(|p| p.contains("teapot")));
        assert!(case.problems.iter().any(|p| p.starts_with("log: ")), "{:?}", case.problems);
    }

    #[test]
    fn a_line_of_an_access_log_is_a_case_by_itself() {
        let line = r#"[2026-11-29T22:27:12.901Z] "GET /v1/orders/87348 HTTP/1.1" 429 RL 0 18 0 - "-" "curl/7.88.1" "2541e27d" "127.0.0.1:17301" "-""#;
        let json =
            r#"{"gateway":"nginx","status":429,"limit_req_status":"REJECTED","method":"GET"}"#;
        for text in [line, json] {
            let case = of_text(text).unwrap();
            assert_eq!(case.response.status, Some(429), "{text}");
            assert_eq!(case.response.request.method.as_deref(), Some("GET"));
            assert_eq!(case.response.logs.hops.len(), 1);
        }
        assert!(of_text("hello").unwrap_err().reason.contains("HTTP/1.1 429"));
        assert!(of_text("{}").unwrap_err().reason.contains("missing"));
    }

    #[test]
    fn lines_of_hops_and_of_the_origin_are_read() {
        let case = read(
            r#"{"id":1,"raw":"HTTP/1.1 429 X\r\n\r\n","access_log_json":{"gateway":"envoy","status":429,"response_flags":"-","code_details":"via_upstream"},
                "inner_hops":[{"gateway":"nginx/1.22.1","access_log_json":[{"gateway":"nginx","status":429,"limit_req_status":""},{"status":429,"limit_req_status":"REJECTED"}],"access_log_default":["x"]}],
                "origin_saw_request":true,"origin_saw_request_id":false,"origin_log":[{"status":429},{"status":null}]}"#,
        )
        .unwrap();
        let logs = case.response.logs;
        assert_eq!(logs.hops.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(logs.hops[1][1].product, Responder::Nginx);
        assert_eq!(logs.origin, Some(OriginRecord { saw: true, statuses: vec![Some(429), None] }));
        assert!(case.problems.is_empty(), "{:?}", case.problems);
        let only = read(
            r#"{"id":1,"raw":"HTTP/1.1 429 X\r\n\r\n","origin_saw_request_id":false,"origin_log":[]}"#,
        );
        assert_eq!(only.unwrap().response.logs.origin, None, "ids are replaced on the way");
    }

    #[test]
    fn a_bad_line_keeps_its_id() {
        let error = read(r#"{"id":"a","raw":"no response"}"#).unwrap_err();
        assert_eq!((error.id, error.field), (Value::from("a"), Some("raw")));
        assert!(error.reason.contains("HTTP/1.1 429"), "{}", error.reason);
        assert!(read("{").unwrap_err().reason.contains("not JSON"));
        assert!(read("[]").unwrap_err().reason.contains("object"));
        assert_eq!(read(r#"{"raw":5}"#).unwrap_err().field, Some("raw"));
        assert_eq!(read(r#"{"id":"b"}"#).unwrap_err().field, Some("raw"));
    }
}
