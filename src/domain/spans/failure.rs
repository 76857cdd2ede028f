//! Why a request got no answer, from the many words that clients have for it.

use super::raw::{RawSpan, Value};
use crate::domain::event::AttemptError;

/// Words of `error.type` that say no more than that something failed.
const BLANK_WORDS: [&str; 5] = ["error", "typeerror", "exception", "_other", "baseexception"];

/// Parts of lower-case texts and what they mean, in order: the first that is found counts.
const SIGNS: &[(AttemptError, &[&str])] = &[
    (AttemptError::PoolTimeout, &["pooltimeout", "pool timeout", "connectionpooltimeout"]),
    (
        AttemptError::Timeout,
        &["timeout", "timedout", "timed out", "time out", "econnaborted", "deadline"],
    ),
    (
        AttemptError::Dns,
        &[
            "enotfound",
            "eai_again",
            "getaddrinfo",
            "gaierror",
            "nameresolution",
            "name resolution",
            "unknownhost",
            "no such host",
            "dns error",
            "failed to resolve",
        ],
    ),
    (AttemptError::Tls, &["ssl", "tls", "certificate", "handshake"]),
    (AttemptError::Connect, &["refused", "econnrefused", "unreachable", "newconnectionerror"]),
    (
        AttemptError::ConnectionReset,
        &[
            "reset",
            "readerror",
            "writeerror",
            "connection aborted",
            "remotedisconnected",
            "disconnected",
            "hang up",
            "und_err_socket",
            "epipe",
            "broken pipe",
            "brokenpipe",
            "serviceresponseerror",
            "remoteprotocolerror",
            "incompletemessage",
            "connection closed",
            "incompleteread",
        ],
    ),
    (AttemptError::Connect, &["connecterror", "connectexception", "error trying to connect"]),
    (AttemptError::CircuitOpen, &["circuitbreaker", "callnotpermitted", "brokencircuit"]),
    (AttemptError::Cancelled, &["abort", "cancel"]),
    (AttemptError::Parse, &["decod", "parse", "malformed"]),
];

/// The DOM's number of `TimeoutError`, which Node's instrumentation writes as `error.type`.
const DOM_TIMEOUT: i64 = 23;

/// Why `span`, which has no status code, got no answer. Where nothing is told at all the caller
/// gave up: instrumentations leave the status of an aborted request unset.
pub fn of(span: &RawSpan) -> AttemptError {
    let kind = span.attributes.get("error.type");
    if kind.and_then(Value::integer) == Some(DOM_TIMEOUT) {
        return AttemptError::Timeout;
    }
    let kind = kind.and_then(Value::text).unwrap_or_default();
    let exceptions = span.events.iter().filter(|event| event.name == "exception");
    let mut texts = Vec::new();
    if !is_blank(&kind) {
        texts.push(kind.clone());
    }
    for name in ["exception.type", "exception.message"] {
        texts.extend(exceptions.clone().filter_map(|event| event.attributes.text(&[name])));
    }
    texts.extend(
        ["error.message", "error.cause_chain"]
            .iter()
            .filter_map(|name| span.attributes.text(&[name])),
    );
    texts.push(span.status_message.as_str().into());
    for text in &texts {
        if let Some(error) = sign(text) {
            return error;
        }
    }
    let says_nothing = kind.is_empty() && texts.iter().all(|text| text.is_empty());
    if says_nothing && !span.is_error {
        AttemptError::Cancelled
    } else {
        // Something broke, nobody says what.
        AttemptError::ConnectionReset
    }
}

fn is_blank(kind: &str) -> bool {
    kind.is_empty()
        || kind.bytes().all(|b| b.is_ascii_digit())
        || BLANK_WORDS.iter().any(|word| kind.eq_ignore_ascii_case(word))
}

/// How much of a text is looked at, in characters: causes stand at the beginning, and messages may
/// be long.
const LOOKED_AT: usize = 2_000;

fn sign(text: &str) -> Option<AttemptError> {
    let text: String = text.chars().take(LOOKED_AT).collect::<String>().to_ascii_lowercase();
    SIGNS
        .iter()
        .find(|(_, signs)| signs.iter().any(|sign| text.contains(sign)))
        .map(|(error, _)| *error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_write_is_told_apart() {
        // As measured with the clients named.
        let table = [
            ("ReadTimeout", AttemptError::Timeout), // httpx, requests
            ("UND_ERR_HEADERS_TIMEOUT", AttemptError::Timeout), // undici
            ("ETIMEDOUT", AttemptError::Timeout),   // got
            ("ECONNABORTED", AttemptError::Timeout), // axios
            ("azure.core.exceptions.ServiceResponseTimeoutError", AttemptError::Timeout),
            ("ReadError", AttemptError::ConnectionReset), // httpx
            ("ECONNRESET", AttemptError::ConnectionReset), // Node
            ("azure.core.exceptions.ServiceResponseError", AttemptError::ConnectionReset),
            (
                "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
                AttemptError::ConnectionReset,
            ),
            ("connect ECONNREFUSED 192.0.2.1:80", AttemptError::Connect),
            ("getaddrinfo ENOTFOUND api.example.com", AttemptError::Dns),
            ("PoolTimeout", AttemptError::PoolTimeout),
            ("AbortError", AttemptError::Cancelled),
            (
                "io.github.resilience4j.circuitbreaker.CallNotPermittedException",
                AttemptError::CircuitOpen,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(sign(text), Some(expected), "{text}");
        }
        assert_eq!(sign("something else"), None);
    }
}
