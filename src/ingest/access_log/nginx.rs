//! nginx's error log: the lines in which its limits speak. They have no status.

use super::{Format, LogRecord, line, moment};

/// `2023/04/02 12:00:00 [error] 32#32: *1269 limiting requests, excess: 20.950 by zone "one", …`
pub(super) fn error_line(text: &str) -> Option<LogRecord> {
    let mut words = text.splitn(3, ' ');
    let at = moment::slashed(words.next()?, words.next()?)?;
    let rest = words.next()?;
    if !rest.starts_with('[') {
        return None;
    }
    let mut record = LogRecord::of(Format::NginxError);
    record.stamp(Some(at));
    let verdict = match () {
        () if rest.contains("delaying request") => "DELAYED",
        () if rest.contains("dry run") => "REJECTED_DRY_RUN",
        () => "REJECTED",
    };
    if rest.contains("limiting requests") || rest.contains("delaying request") {
        record.fact("limit_req_status", verdict);
    } else if rest.contains("limiting connections") {
        record.fact("limit_conn_status", verdict);
    }
    let quoted = |name: &str| {
        let (_, rest) = rest.split_once(name)?;
        rest.strip_prefix('"')?.split('"').next()
    };
    if let Some(zone) = quoted("by zone ") {
        record.fact("zone", zone);
    }
    if let Some(request) = quoted("request: ") {
        record.request_line(request);
    }
    record.host = quoted("host: ").map(ToOwned::to_owned);
    let client = rest.split_once("client: ").and_then(|(_, rest)| rest.split(',').next());
    record.client_address = client.and_then(line::something).map(ToOwned::to_owned);
    Some(record)
}
