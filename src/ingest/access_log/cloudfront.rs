//! CloudFront's standard log: tabs between the fields that its header lines name.

use super::recommended::whole_ms;
use super::{Format, LogRecord, line, moment};

/// The fields in the order of the documentation.
pub(super) fn line(text: &str) -> Option<LogRecord> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    let field = |at: usize| fields.get(at).copied();
    if fields.len() < 14 {
        return None;
    }
    let mut record = LogRecord::of(Format::Cloudfront);
    let end = moment::iso(&format!("{}T{}Z", field(0)?, field(1)?))?.at;
    record.client_address = field(4).and_then(line::something).map(ToOwned::to_owned);
    record.method = field(5).and_then(line::something).map(str::to_ascii_uppercase);
    if let Some(stem) = field(7) {
        record.target(stem);
    }
    record.status(field(8)?);
    let host = field(15).and_then(line::something).or_else(|| field(6).and_then(line::something));
    record.host = host.map(ToOwned::to_owned);
    record.gateway_request_id = field(14).and_then(line::something).map(ToOwned::to_owned);
    record.duration_ms =
        field(18).and_then(|text| text.parse::<f64>().ok()).and_then(|s| whole_ms(s * 1000.0));
    let took = record.duration_ms.unwrap_or(0);
    record.at = Some(end.plus(crate::domain::time::Millis(-took)));
    record.fact("result_type", field(13)?);
    record.fact("response_result_type", field(22).unwrap_or_default());
    record.fact("detailed_result_type", field(28).unwrap_or_default());
    Some(record)
}
