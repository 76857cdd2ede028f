//! An example behind a number: the trace of one event that was counted.

use crate::domain::time::UnixMillis;

/// The ids of a trace and of a span in it, as W3C Trace Context writes them
/// (<https://www.w3.org/TR/trace-context/#traceparent-header>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceIds {
    /// 16 bytes, not all zero.
    pub trace: [u8; 16],
    /// 8 bytes, not all zero.
    pub span: Option<[u8; 8]>,
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
        Some(Self { trace: bytes(trace?)?, span: span.and_then(bytes) })
    }

    /// The labels of an exemplar: `trace_id`, and `span_id` where there is one.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, String)> {
        let span = self.span.map(|span| ("span_id", hex::encode(span)));
        std::iter::once(("trace_id", hex::encode(self.trace))).chain(span)
    }
}

/// The bytes that `text` writes in hexadecimal, where it is as long as they are and not all zero.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
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
