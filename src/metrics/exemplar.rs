//! An example behind a number: the trace of one event that was counted.

use crate::domain::spans::{SpanId, TraceId};
use crate::domain::time::UnixMillis;

/// The ids of a trace and of a span in it, as W3C Trace Context writes them
/// (<https://www.w3.org/TR/trace-context/#traceparent-header>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceIds {
    /// The trace.
    pub trace: TraceId,
    /// A span in it.
    pub span: Option<SpanId>,
}

/// An event that was counted. Names and values of its labels together take 63 characters of the
/// 128 that OpenMetrics allows
/// (<https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md#exemplars>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// Its trace.
    pub ids: TraceIds,
    /// What was counted of it, in thousandths.
    pub value: u64,
    /// When it was received.
    pub at: UnixMillis,
}

impl TraceIds {
    /// Reads ids in hexadecimal; `None` where the trace id is none. A span id that is none is left
    /// out.
    pub fn parse(trace: Option<&str>, span: Option<&str>) -> Option<Self> {
        Some(Self { trace: TraceId::from_hex(trace?)?, span: span.and_then(SpanId::from_hex) })
    }

    /// The labels of an exemplar: `trace_id`, and `span_id` where there is one.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, String)> {
        let span = self.span.map(|span| ("span_id", span.to_string()));
        std::iter::once(("trace_id", self.trace.to_string())).chain(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_ids_become_exemplars() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let ids = TraceIds::parse(Some(trace), Some(span)).unwrap();
        let labels: Vec<_> = ids.labels().collect();
        assert_eq!(labels, [("trace_id", trace.to_owned()), ("span_id", span.to_owned())]);
        let length: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(length, 63);
        assert_eq!(TraceIds::parse(Some(trace), Some("12")).unwrap().span, None);
        let zeros = "0".repeat(32);
        let signed = format!("+{}", trace.chars().skip(1).collect::<String>());
        for bad in [
            None,
            Some(""),
            Some("x"),
            Some(&*zeros),
            Some(&*signed),
            Some("4bf92f3577b34da6a3ce929d0e0e473\""),
        ] {
            assert_eq!(TraceIds::parse(bad, Some(span)), None, "{bad:?}");
        }
    }
}
