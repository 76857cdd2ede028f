//! The Application Load Balancer's access log.

use super::recommended::whole_ms;
use super::tokens::tokens;
use super::{Format, LogRecord, line, moment};

/// `type time elb client:port target:port request target response elb_status target_status …`
pub(super) fn balancer_line(text: &str) -> Option<LogRecord> {
    let tokens = tokens(text);
    let field = |at: usize| tokens.get(at).map(|token| token.text);
    let mut record = LogRecord::of(Format::AwsAlb);
    let end = moment::iso(field(1)?)?;
    let seconds = |at: usize| field(at).and_then(|text| text.parse::<f64>().ok());
    let times = [seconds(5)?, seconds(6)?, seconds(7)?];
    let total: f64 = times.iter().filter(|time| **time >= 0.0).sum();
    record.duration_ms = whole_ms(total * 1000.0);
    // The time of the answer's beginning; `request_creation_time` is more exact where it is.
    record.stamp(field(21).and_then(moment::iso).or(Some(end)));
    record.status(field(8)?);
    record.client_address = field(3)?.rsplit_once(':').map(|(address, _)| address.to_owned());
    let request = tokens.get(12)?.unescaped().into_owned();
    record.request_line(&request);
    record.host = record.host.map(|host| without_port(&host));
    record.trace_id = field(17).and_then(line::something).map(trace_of);
    record.fact("target_status_code", field(9)?);
    record.fact("target", field(4)?);
    record.fact("target_processing_s", field(6)?);
    record.fact("actions_executed", field(22).unwrap_or_default());
    record.fact("error_reason", field(24).unwrap_or_default());
    Some(record)
}

/// The host of the request line has the listener's port.
fn without_port(host: &str) -> String {
    let port = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80"));
    port.unwrap_or(host).to_owned()
}

/// `Root=1-67891233-abcdef012345678912345678` as the 32 digits of a trace id.
fn trace_of(text: &str) -> String {
    let root = text.split(';').find_map(|part| part.trim().strip_prefix("Root="));
    let root = root.unwrap_or(text);
    match root.strip_prefix("1-").map(|rest| rest.replace('-', "")) {
        Some(digits) if digits.len() == 32 => digits.to_ascii_lowercase(),
        _ => root.to_owned(),
    }
}
