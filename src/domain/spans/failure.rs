//! Why a request got no answer, from the many words that clients have for it.

use super::raw::{RawSpan, Value};
use crate::domain::event::AttemptError;
use std::borrow::Cow;

/// Words of `error.type` that say no more than that something failed.
const BLANK_WORDS: [&str; 5] = ["error", "typeerror", "exception", "_other", "baseexception"];

/// Parts of lower-case texts and what they mean, in order: the first that is found counts. Names are
/// those of Python, Java, Go, Node, .NET and Rust clients (.NET: `HttpRequestError` in the lower case
/// of its telemetry, "dotnet-network-traces" of the semantic conventions).
const SIGNS: &[(AttemptError, &[&str])] = &[
    (
        AttemptError::PoolTimeout,
        &["pooltimeout", "pool timeout", "connectionpooltimeout", "poolacquire"],
    ),
    (
        AttemptError::Timeout,
        &["timeout", "timedout", "timed out", "time out", "econnaborted", "deadline"],
    ),
    (
        AttemptError::Dns,
        &[
            "enotfound",
            "eai_again",
            "eai_nodata",
            "eai_noname",
            "getaddrinfo",
            "gaierror",
            "nameresolution",
            "name resolution",
            "name_resolution",
            "name or service not known",
            "nodename nor servname",
            "unknownhost",
            "unknown host",
            "unresolvedaddress",
            "no such host",
            "server misbehaving",
            "dnserror",
            "dns error",
            "dnsnameresolver",
            "failed to resolve",
            "failed to lookup",
            "could not resolve",
        ],
    ),
    (
        AttemptError::Tls,
        &[
            "ssl",
            "tls",
            "x509",
            "certificate",
            "handshake",
            "secure_connection_error",
            "cert_",
            "_cert",
            "unable_to_verify",
        ],
    ),
    (
        AttemptError::Connect,
        &[
            "refused",
            "unreachable",
            "hostunreach",
            "netunreach",
            "noroutetohost",
            "no route to host",
            "eaddrnotavail",
            "newconnectionerror",
            "proxy_tunnel_error",
        ],
    ),
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
            "connectionclosed",
            "closedchannel",
            "incompleteread",
            "chunkedencoding",
            "clientpayload",
            "nohttpresponse",
            "prematureclose",
            "premature end",
            "response_ended",
            "unexpected eof",
            "unexpectedeof",
            "unexpected end of file",
            "eoferror",
            "eofexception",
        ],
    ),
    (AttemptError::CircuitOpen, &["circuitbreaker", "callnotpermitted", "brokencircuit"]),
    (AttemptError::Parse, &["decod", "parse", "malformed", "invalid_response", "hpe_"]),
];

/// Words that more than one cause has: another text may say which it was. No connection could be
/// made because the name did not resolve, say, or a request was cancelled by a timer.
const VAGUE: &[(AttemptError, &[&str])] = &[
    (
        AttemptError::Connect,
        &[
            "connecterror",
            "connectexception",
            "connectorerror",
            "connection_error",
            "endpointconnectionerror",
            "error trying to connect",
        ],
    ),
    (AttemptError::Cancelled, &["abort", "cancel"]),
];

/// The DOM's number of `TimeoutError`, which Node's instrumentation writes as `error.type`.
const DOM_TIMEOUT: i64 = 23;

/// Why `span`, which has no status code, got no answer. Where nothing is told at all the caller
/// gave up: instrumentations leave the status of an aborted request unset.
pub fn of(span: &RawSpan) -> AttemptError {
    if let Some(error) = told(span) {
        return error;
    }
    let says_nothing = span.attributes.text(&["error.type"]).is_none() && texts(span).is_empty();
    if says_nothing && !span.is_error {
        AttemptError::Cancelled
    } else {
        // Something broke, nobody says what.
        AttemptError::ConnectionReset
    }
}

/// Why `span` got no answer, where a word of it tells.
pub fn told(span: &RawSpan) -> Option<AttemptError> {
    let kind = span.attributes.get("error.type");
    if kind.and_then(Value::integer) == Some(DOM_TIMEOUT) {
        return Some(AttemptError::Timeout);
    }
    let mut vague = None;
    for text in texts(span) {
        match sign(&text) {
            Some(Sign::Plain(error)) => return Some(error),
            Some(Sign::Vague(error)) => vague = vague.or(Some(error)),
            None => {}
        }
    }
    vague
}

/// What may tell, the shortest and most exact first.
fn texts(span: &RawSpan) -> Vec<Cow<'_, str>> {
    let kind = span.attributes.text(&["error.type"]).filter(|kind| !is_blank(kind));
    let exceptions = span.events.iter().filter(|event| event.name == "exception");
    let of_exceptions = |name| exceptions.clone().filter_map(move |e| e.attributes.text(&[name]));
    let of_span = |name| span.attributes.text(&[name]);
    let status = Cow::Borrowed(span.status_message.as_str());
    kind.into_iter()
        .chain(of_exceptions("exception.type"))
        .chain(of_exceptions("exception.message"))
        .chain(of_span("error.message"))
        .chain(of_span("error.cause_chain"))
        .chain((!status.is_empty()).then_some(status))
        .collect()
}

fn is_blank(kind: &str) -> bool {
    kind.is_empty()
        || kind.bytes().all(|b| b.is_ascii_digit())
        || BLANK_WORDS.iter().any(|word| kind.eq_ignore_ascii_case(word))
}

/// How much of a text is looked at, in characters: causes stand at the beginning, and messages may
/// be long.
const LOOKED_AT: usize = 2_000;

/// What a text says, and whether it says so plainly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plain(AttemptError),
    Vague(AttemptError),
}

fn sign(text: &str) -> Option<Sign> {
    let text: String = text.chars().take(LOOKED_AT).collect::<String>().to_ascii_lowercase();
    // urllib3 names the address first, then what happened.
    let text = text.rsplit_once("caused by").map_or(text.as_str(), |(_, cause)| cause);
    // Paths and addresses may hold any word.
    let is_one_word = !text.trim().contains(char::is_whitespace);
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| is_one_word || !word.contains('/')).collect();
    let text = words.join(" ");
    let find = |signs: &[(AttemptError, &[&str])]| {
        let found = signs.iter().find(|(_, signs)| signs.iter().any(|sign| text.contains(sign)));
        found.map(|(error, _)| *error)
    };
    find(SIGNS).map(Sign::Plain).or_else(|| find(VAGUE).map(Sign::Vague))
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
            let found = sign(text).map(|sign| match sign {
                Sign::Plain(error) | Sign::Vague(error) => error,
            });
            assert_eq!(found, Some(expected), "{text}");
        }
        assert_eq!(sign("something else"), None);
    }

    #[test]
    fn a_name_that_did_not_resolve_was_called_a_broken_connection() {
        let table = [
            ("name_resolution_error", AttemptError::Dns), // .NET
            ("java.net.UnknownHostException", AttemptError::Dns),
            ("java.nio.channels.UnresolvedAddressException", AttemptError::Dns),
            ("*net.DNSError", AttemptError::Dns), // Go
            ("dial tcp: lookup api.example.com: no such host", AttemptError::Dns),
            ("getaddrinfo EAI_AGAIN api.example.com", AttemptError::Dns),
            ("[Errno -2] Name or service not known", AttemptError::Dns),
            ("socket.gaierror", AttemptError::Dns),
            ("ClientConnectorDNSError", AttemptError::Dns), // aiohttp
            (
                "HTTPSConnectionPool(host='h', port=443): Max retries exceeded with url: \
                 /timeout (Caused by NameResolutionError(\"Failed to resolve 'h'\"))",
                AttemptError::Dns,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(sign(text), Some(Sign::Plain(expected)), "{text}");
        }
    }

    #[test]
    fn names_of_many_clients_have_one_meaning() {
        let table = [
            // .NET
            ("connection_error", Sign::Vague(AttemptError::Connect)),
            ("secure_connection_error", Sign::Plain(AttemptError::Tls)),
            ("response_ended", Sign::Plain(AttemptError::ConnectionReset)),
            ("invalid_response", Sign::Plain(AttemptError::Parse)),
            ("System.Threading.Tasks.TaskCanceledException", Sign::Vague(AttemptError::Cancelled)),
            // Java
            ("java.net.SocketTimeoutException", Sign::Plain(AttemptError::Timeout)),
            ("javax.net.ssl.SSLHandshakeException", Sign::Plain(AttemptError::Tls)),
            ("java.net.ConnectException", Sign::Vague(AttemptError::Connect)),
            ("org.apache.http.NoHttpResponseException", Sign::Plain(AttemptError::ConnectionReset)),
            // Go
            ("read tcp: i/o timeout", Sign::Plain(AttemptError::Timeout)),
            ("context deadline exceeded", Sign::Plain(AttemptError::Timeout)),
            ("x509: certificate signed by unknown authority", Sign::Plain(AttemptError::Tls)),
            ("unexpected EOF", Sign::Plain(AttemptError::ConnectionReset)),
            // Node
            ("EHOSTUNREACH", Sign::Plain(AttemptError::Connect)),
            ("CERT_HAS_EXPIRED", Sign::Plain(AttemptError::Tls)),
            ("HPE_INVALID_CONSTANT", Sign::Plain(AttemptError::Parse)),
            ("ERR_CANCELED", Sign::Vague(AttemptError::Cancelled)),
            // Python
            (
                "botocore.exceptions.ConnectionClosedError",
                Sign::Plain(AttemptError::ConnectionReset),
            ),
            ("ConnectError", Sign::Vague(AttemptError::Connect)),
        ];
        for (text, expected) in table {
            assert_eq!(sign(text), Some(expected), "{text}");
        }
    }
}
