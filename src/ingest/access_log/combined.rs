//! The common and combined log formats of NCSA, which nginx, Apache, Varnish and others write. They
//! say what the client got, and nothing about who answered.

use super::tokens::{Kind, Token, tokens};
use super::{Format, LogRecord, line, moment};

/// `address - user [time] "METHOD path proto" status bytes "referer" "agent"`
pub(super) fn line(format: Format, text: &str) -> Option<LogRecord> {
    head(format, &tokens(text))
}

/// The fields that all forms begin with.
pub(super) fn head(format: Format, tokens: &[Token<'_>]) -> Option<LogRecord> {
    let time = tokens.iter().position(|token| token.kind == Kind::Bracketed)?;
    let request = tokens.get(time.checked_add(1)?)?;
    let code = tokens.get(time.checked_add(2)?)?;
    if time > 4 || request.kind != Kind::Quoted {
        return None;
    }
    let mut record = LogRecord::of(format);
    record.stamp(Some(moment::common(tokens.get(time)?.text)?));
    record.request_line(&request.unescaped());
    code.text.parse::<f64>().ok()?;
    record.status(code.text);
    let address = tokens.first().and_then(|token| line::something(token.text));
    record.client_address = address.map(ToOwned::to_owned);
    Some(record)
}
