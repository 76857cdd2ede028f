//! OTLP: what OpenTelemetry's exporters send, as protobuf or JSON (opentelemetry-proto 1.x).
//!
//! Both are read by our own walk and leniently, span by span: exporters differ in what they write
//! (null for an empty list, numbers as texts, ids in any case), and a library's decoder refuses a
//! whole request for it. What can't be told apart as spans at all is refused as a whole.
//!
//! - [`wire`]: the wire format of protobuf. [`json`]: the same messages as JSON.
//! - [`protobuf`]: the messages on the wire.
//! - [`draft`]: from a span to what is kept of it, through the door of native events, so that
//!   nothing secret passes that would not pass there.
//! - [`metrics`]: how many requests clients counted.

mod draft;
mod json;
pub mod metrics;
mod protobuf;
mod wire;

use crate::domain::key_hash::KeyHasher;
use crate::domain::spans::hints::{self, DelaySource, ToldWait};
use crate::domain::spans::{Attributes, RawSpan, Span, TraceId};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// How to read a body.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Hashes keys and stands in for redacted ids.
    pub hasher: &'a KeyHasher,
    /// The most spans in one body.
    pub max_items: usize,
    /// The service and the instance whose spans are passed over: this process, which observes others
    /// and not itself.
    pub ourselves: Option<(&'a str, &'a str)>,
}

/// What was read of a body.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The spans that may be kept.
    pub spans: Vec<Span>,
    /// How many could not be read.
    pub rejected: usize,
    /// Why, of the first of them: span and field are named.
    pub problems: Vec<String>,
    /// Values that looked secret, replaced.
    pub redactions: u64,
    /// Header fields that are not on the list of those that may be kept, left out.
    pub dropped_headers: u64,
    /// Texts that were longer than what is kept, cut.
    pub shortened: u64,
}

/// How many problems are told.
const MAX_PROBLEMS: usize = 5;

impl Decoded {
    fn reject(&mut self, problem: String) {
        self.rejected += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

/// Why nothing of a body was taken; the variants say what the sender can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Send a whole and valid request (400).
    #[error("the body is not a valid {message} in {encoding}: {reason}")]
    Undecodable {
        /// What was expected.
        message: &'static str,
        /// How it should have been written.
        encoding: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Send fewer at once (413).
    #[error("more than {cap} items in one body; export them in smaller batches")]
    TooMany {
        /// The most that is taken.
        cap: usize,
    },
}

/// Takes spans while they are read.
struct Sink<'o> {
    options: &'o Options<'o>,
    decoded: Decoded,
    seen: usize,
}

impl Sink<'_> {
    /// Counts a span; no more may follow where the cap is reached.
    fn count(&mut self) -> Result<(), DecodeError> {
        self.seen += 1;
        if self.seen > self.options.max_items {
            return Err(DecodeError::TooMany { cap: self.options.max_items });
        }
        Ok(())
    }

    fn take(&mut self, sender: &draft::SenderFacts, scope: &str, span: Result<RawSpan, Fault>) {
        if self.options.ourselves.is_some_and(|ourselves| sender.is(ourselves)) {
            return;
        }
        match span
            .and_then(|span| draft::keep(&span, sender, scope, self.options, &mut self.decoded))
        {
            Ok(span) => self.decoded.spans.push(span),
            Err(Fault { span, field, error }) => {
                let who =
                    span.map_or_else(|| format!("span {}", self.seen), |id| format!("span {id}"));
                self.decoded.reject(format!("{who}: {field}: {error}"));
            }
        }
    }
}

/// What is wrong with a span.
struct Fault {
    /// Its id, where it has one.
    span: Option<String>,
    field: &'static str,
    error: String,
}

impl Fault {
    fn new(field: &'static str, error: impl Into<String>) -> Self {
        Self { span: None, field, error: error.into() }
    }
}

/// Reads an `ExportTraceServiceRequest`, whole and inflated. An empty one is no error.
///
/// # Errors
/// Where the body can't be told apart into spans, or holds too many.
pub fn traces(
    body: &[u8],
    encoding: Encoding,
    options: &Options<'_>,
) -> Result<Decoded, DecodeError> {
    let mut sink = Sink { options, decoded: Decoded::default(), seen: 0 };
    match encoding {
        Encoding::Protobuf => protobuf::traces(body, &mut sink)?,
        Encoding::Json => json::traces(body, &mut sink)?,
    }
    Ok(sink.decoded)
}

/// What is looked at of a log record.
#[derive(Debug, Default)]
struct Record {
    at_ns: u64,
    trace: Option<TraceId>,
    body: String,
}

impl Record {
    /// A record without a time of its own was logged when it was observed.
    fn or_observed(mut self, observed_ns: u64) -> Self {
        if self.at_ns == 0 {
            self.at_ns = observed_ns;
        }
        self
    }
}

/// Reads an `ExportLogsServiceRequest`: the waits that records of known clients tell of, with the
/// trace they were logged in. Everything else is passed over, and nothing of a record's text is
/// kept.
///
/// # Errors
/// Where the body can't be told apart into records, or holds too many.
pub fn logged_waits(
    body: &[u8],
    encoding: Encoding,
    max_items: usize,
) -> Result<Vec<(TraceId, ToldWait)>, DecodeError> {
    let (mut waits, mut seen) = (Vec::new(), 0);
    let take = |record: Record| {
        seen += 1;
        if seen > max_items {
            return Err(DecodeError::TooMany { cap: max_items });
        }
        if let (Some(trace), Some(delay_ms)) = (record.trace, hints::wait_in(&record.body)) {
            let (at_us, source) = (hints::micros(record.at_ns), DelaySource::Log);
            waits.push((trace, ToldWait { at_us, delay_ms, source }));
        }
        Ok(())
    };
    match encoding {
        Encoding::Protobuf => protobuf::logs(body, take)?,
        Encoding::Json => json::logs(body, take)?,
    }
    Ok(waits)
}

/// The most attributes, events and values in a list that are read of one span or resource.
const MAX_PARTS: usize = 512;
/// How deep values may be nested.
const MAX_DEPTH: usize = 8;

/// Facts about the sender, read once for all of its spans.
fn sender(resource: &Attributes) -> draft::SenderFacts {
    draft::SenderFacts::of(resource)
}

#[cfg(test)]
mod tests;
