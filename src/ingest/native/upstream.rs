//! Host and route out of what was sent: no user, no default port, no query string.

use crate::ingest::authority;

/// What an address told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upstream<'a> {
    /// As it was sent, without a user and a default port, its case kept.
    pub(super) host: &'a str,
    /// From the first slash on; `None` where there was none.
    pub(super) path: Option<&'a str>,
    /// What followed `?` or `#`; it is never stored.
    pub(super) query: Option<&'a str>,
    /// Whether a user, and perhaps a password, stood before the host.
    pub(super) had_user: bool,
}

impl<'a> Upstream<'a> {
    /// A host and nothing else, unchecked.
    pub(super) const fn whole(host: &'a str) -> Self {
        Self { host, path: None, query: None, had_user: false }
    }
}

/// Takes an address apart: `https://user:pass@api.example.com:443/v1/x?y`, or a part of it such as
/// `api.example.com:443`. `None` where no host is in it.
pub(super) fn parse(text: &str) -> Option<Upstream<'_>> {
    let (scheme, rest) = text.split_once("://").map_or((None, text), |(s, r)| (Some(s), r));
    let parts = authority::split(scheme, rest);
    let (path, query) = without_query(parts.tail);
    let host = without_default_port(scheme, parts.host);
    let host = host.strip_suffix('.').unwrap_or(host);
    is_host(host).then_some(Upstream {
        host,
        path: (!path.is_empty()).then_some(path),
        query,
        had_user: parts.had_user,
    })
}

/// The part before `?` or `#`, and the part after.
pub(super) fn without_query(text: &str) -> (&str, Option<&str>) {
    text.split_once(['?', '#']).map_or((text, None), |(path, query)| (path, Some(query)))
}

/// Without a scheme, both default ports are dropped.
fn without_default_port<'a>(scheme: Option<&str>, host: &'a str) -> &'a str {
    let ports: &[&str] = match scheme.map(str::to_ascii_lowercase).as_deref() {
        Some("http" | "ws") => &[":80", ":"],
        Some("https" | "wss") => &[":443", ":"],
        Some(_) => &[":"],
        None => &[":80", ":443", ":"],
    };
    ports.iter().find_map(|port| host.strip_suffix(port).filter(|h| is_whole(h))).unwrap_or(host)
}

/// Whether what is left is a name and not the inside of an IPv6 address (`::80`).
fn is_whole(host: &str) -> bool {
    !host.contains(':') || host.ends_with(']')
}

/// Names, IPv4 and bracketed IPv6 addresses, with or without a port. Lenient on letters: names of
/// containers and international names count.
fn is_host(host: &str) -> bool {
    if host.is_empty() || host.len() > 260 {
        return false;
    }
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            address.bytes().all(|b| b.is_ascii_hexdigit() || b".:%".contains(&b))
                && address.contains(':')
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        });
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(n, p)| (n, Some(p)));
    let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '~'));
    is_name && name.contains(char::is_alphanumeric) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let table = [
            ("api.example.com", Some(("api.example.com", None, None, false))),
            ("API.Example.com:443", Some(("API.Example.com", None, None, false))),
            ("api.example.com:80", Some(("api.example.com", None, None, false))),
            ("api.example.com:8443", Some(("api.example.com:8443", None, None, false))),
            ("api.example.com.", Some(("api.example.com", None, None, false))),
            ("https://h.example:443/a?b=c", Some(("h.example", Some("/a"), Some("b=c"), false))),
            ("https://h.example:80/", Some(("h.example:80", Some("/"), None, false))),
            ("http://u:p@h.example/a#f", Some(("h.example", Some("/a"), Some("f"), true))),
            ("https://h.example?q=1", Some(("h.example", None, Some("q=1"), false))),
            ("admin:8443/9@h.example", Some(("h.example", None, None, true))),
            ("u@h.example", Some(("h.example", None, None, true))),
            ("https://[2001:db8::1]:443/x", Some(("[2001:db8::1]", Some("/x"), None, false))),
            ("[2001:db8::80]", Some(("[2001:db8::80]", None, None, false))),
            ("web_1", Some(("web_1", None, None, false))),
            ("münchen.example", Some(("münchen.example", None, None, false))),
            ("", None),
            ("https://", None),
            ("two words", None),
            ("<script>", None),
            ("h.example:port", None),
            ("h.example:99999", None),
            ("[::1", None),
            ("...", None),
        ];
        for (input, expected) in table {
            let found = parse(input);
            let found = found.as_ref().map(|u| (u.host, u.path, u.query, u.had_user));
            assert_eq!(found, expected, "{input}");
        }
    }
}
