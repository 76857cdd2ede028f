//! One line of `retrylens classify --ndjson`: a response as text and what is known around it.
//!
//! Fields that carry log lines are taken and named in [`Case::ignored`]; they are not judged here.

use super::response::{self, ResponseError, host_of, without_query};
use crate::domain::classify::Responder;
use crate::domain::response::Response;
use crate::domain::time::UnixMillis;
use serde_json::{Map, Value};

/// Fields of a line that carry a hop's or the origin's own record.
const LOG_FIELDS: [&str; 8] = [
    "log",
    "log_format",
    "access_log_json",
    "access_log_default",
    "origin_saw_request",
    "origin_saw_request_id",
    "origin_log",
    "inner_hops",
];

/// A line that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The line's `id` as it was sent (a text or a number), else null.
    pub id: Value,
    /// What to judge; without `raw` nothing but the request is known.
    pub response: Response,
    /// What was guessed or left out, in words.
    pub problems: Vec<String>,
    /// Fields that were sent and not used.
    pub ignored: Vec<&'static str>,
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
        let ignored: Vec<&'static str> = LOG_FIELDS
            .into_iter()
            .filter(|name| self.object.get(*name).is_some_and(|value| !value.is_null()))
            .collect();
        let (mut response, mut problems) = match self.text("raw")? {
            Some(raw) => {
                let parsed = response::parse(raw)
                    .map_err(|error: ResponseError| ("raw", error.to_string()))?;
                (parsed.response, parsed.problems)
            }
            None if ignored.is_empty() => {
                return Err(("raw", "missing; expected an HTTP response as text".to_owned()));
            }
            None => (Response::default(), vec!["no response text was sent".to_owned()]),
        };
        self.request(&mut response)?;
        response.provider = self.text("provider")?.map(str::to_owned);
        response.observed_at = self.observed_at()?;
        response.path = self.path(&mut problems)?;
        Ok(Case { id: id.clone(), response, problems, ignored })
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
        assert_eq!(case.ignored, ["log", "log_format"]);
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
