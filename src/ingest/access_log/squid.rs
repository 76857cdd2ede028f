//! The `squid` format, which Squid and Traffic Server write by default.

use super::{Format, LogRecord, line, moment};

/// `epoch elapsed client RESULT/status bytes METHOD URL user HIERARCHY/host type`
pub(super) fn line(format: Format, text: &str) -> Option<LogRecord> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [epoch, elapsed, client, result, _bytes, method, url, _user, hierarchy, ..] =
        words.as_slice()
    else {
        return None;
    };
    let (result, code) = result.rsplit_once('/')?;
    let (hierarchy, host) = hierarchy.rsplit_once('/')?;
    let mut record = LogRecord::of(format);
    let end = moment::epoch_s(epoch)?.at;
    let elapsed: i64 = elapsed.parse().ok()?;
    record.duration_ms = (elapsed >= 0).then_some(elapsed);
    // Both stamp the end.
    record.at = Some(end.plus(crate::domain::time::Millis(elapsed.max(0).saturating_neg())));
    record.status(code);
    record.client_address = line::something(client).map(ToOwned::to_owned);
    record.request_line(&format!("{method} {url}"));
    if format == Format::Trafficserver {
        record.fact("cache_result", result);
        record.fact("server_host", host);
    } else {
        record.fact("result", result);
        record.fact("server_ip", host);
    }
    record.fact("hierarchy", hierarchy);
    Some(record)
}
