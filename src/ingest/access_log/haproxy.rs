//! HAProxy's `option httplog`, also behind a syslog header.

use super::tokens::{Kind, tokens};
use super::{Format, LogRecord, moment};

/// `client:port [time] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes - - STATE a/b/c/d/retries
/// q/q {captured} "request"`
pub(super) fn line(text: &str) -> Option<LogRecord> {
    let tokens = tokens(text);
    let time = tokens
        .iter()
        .position(|token| token.kind == Kind::Bracketed && moment::common(token.text).is_some())?;
    let field = |after: usize| {
        tokens.get(time.checked_add(after)?).filter(|t| t.kind == Kind::Bare).map(|t| t.text)
    };
    let (_, server) = field(2)?.rsplit_once('/')?;
    let mut timers = field(3)?.split('/');
    let connect = timers.nth(2)?;
    let response_and_all: Vec<&str> = timers.collect();
    let [response, all] = response_and_all.as_slice() else { return None };
    let state = field(8)?;
    let mut counts = field(9)?.split('/');
    let retries = counts.nth(4)?;
    let mut record = LogRecord::of(Format::Haproxy);
    record.stamp(moment::common(tokens.get(time)?.text));
    record.status(field(4)?);
    record.duration_ms = all.trim_start_matches('+').parse().ok().filter(|ms| *ms >= 0);
    record.fact("server", server);
    record.fact("term_state", state);
    record.fact("retries", retries);
    record.fact("t_connect_ms", connect);
    record.fact("t_response_ms", response);
    let client = time.checked_sub(1).and_then(|before| tokens.get(before));
    let address = client.and_then(|token| token.text.rsplit_once(':'));
    record.client_address = address.map(|(address, _)| address.to_owned());
    if let Some(request) = tokens.iter().rev().find(|token| token.kind == Kind::Quoted) {
        record.request_line(&request.unescaped());
    }
    Some(record)
}
