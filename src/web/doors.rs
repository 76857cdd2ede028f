//! Who may come in: known hosts, writes from our own pages only, tokens, and sessions for people.
//!
//! An empty list of tokens leaves that door open; [`crate::app`] allows that on loopback only.

use super::error::{Code, Failure};
use super::state::AppState;
use crate::config::Server;
use crate::config::secret::TokenHash;
use crate::domain::time::{Millis, UnixMillis};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::IpAddr;
use std::time::Duration;

/// Name of the cookie that carries a session.
pub(crate) const SESSION_COOKIE: &str = "retrylens_session";

/// The host names that requests may name. `localhost` and IP addresses always count as known: a
/// page of another site can make its own *name* point here, but not an address.
#[derive(Debug, Clone)]
pub(crate) struct KnownHosts(Vec<String>);

impl KnownHosts {
    /// Takes the names from the settings.
    pub(crate) fn new(server: &Server) -> Self {
        let mut names: Vec<String> = server.allowed_hosts.iter().map(|h| host_of(h)).collect();
        names.extend(server.public_url.iter().map(|url| host_of(&url.authority)));
        names.push(host_of(&server.listen));
        names.push("localhost".to_owned());
        Self(names)
    }

    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(&host);
        literal.parse::<IpAddr>().is_ok() || self.0.contains(&host)
    }
}

/// The host of `HOST[:PORT]`, in lower case and without a closing dot.
fn host_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    };
    host.trim().trim_end_matches('.').to_ascii_lowercase()
}

/// Refuses a request that names no host or an unknown one, and a write that a page of another
/// site made the browser send.
pub(crate) async fn own_site(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") {
        return Ok(next.run(request).await);
    }
    let authority = authority(&request)?;
    if !state.hosts.knows(&authority) {
        return Err(Failure::new(
            Code::UnknownHost,
            "Use the address that the service prints at start, or add this host name to the \
             setting allowed_hosts.",
        ));
    }
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if is_write && !is_own_origin(request.headers(), &authority, &state.config.server) {
        return Err(Failure::new(
            Code::ForeignOrigin,
            "Writes are taken from our own pages and from programs. Behind a proxy, set \
             public_url to the address that people open.",
        ));
    }
    Ok(next.run(request).await)
}

/// The one host that the request names (RFC 9112 section 3.2: exactly one, in the target or in
/// `Host`).
fn authority(request: &Request) -> Result<String, Failure> {
    let bad = |detail: &str| Failure::new(Code::BadRequest, detail);
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(bad("Name the host once."));
    }
    let host = match host {
        Some(host) => Some(host.to_str().map_err(|_| bad("The host has odd characters."))?),
        None => None,
    };
    let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
    match (target, host) {
        (Some(target), Some(host)) if !target.eq_ignore_ascii_case(host) => {
            Err(bad("The request names two different hosts."))
        }
        (Some(name), _) | (None, Some(name)) if !name.is_empty() && !name.contains('@') => {
            Ok(name.to_ascii_lowercase())
        }
        _ => Err(bad("Name the host.")),
    }
}

/// Whether a write comes from a page of ours, or from a program that isn't a browser.
fn is_own_origin(headers: &HeaderMap, authority: &str, server: &Server) -> bool {
    let fetch_site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        // Every browser sends an origin with a cross-site write.
        (None, _) => fetch_site.is_none_or(|site| matches!(site, b"same-origin" | b"none")),
        (Some(_), Some(_)) => false,
        (Some(origin), None) => {
            let Ok(origin) = origin.to_str() else { return false };
            if origin == "null" {
                // Sent for our own forms where a referrer policy hides the origin; only the
                // browser itself can write the other header.
                return fetch_site == Some(b"same-origin");
            }
            let Some((scheme, from)) = origin.split_once("://") else { return false };
            let scheme = scheme.to_ascii_lowercase();
            let default_port = match scheme.as_str() {
                "http" => ":80",
                "https" => ":443",
                _ => return false,
            };
            let from = from.to_ascii_lowercase();
            let bare = |name: &str| name.strip_suffix(default_port).unwrap_or(name).to_owned();
            bare(&from) == bare(authority)
                || server.public_url.as_ref().is_some_and(|url| {
                    url.is_https == (scheme == "https") && bare(&from) == bare(&url.authority)
                })
        }
    }
}

/// The door for senders: a token that may send, where any is set.
pub(crate) async fn sending(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let known = &state.config.access.ingest_tokens;
    if !known.is_empty() && sending_token(request.headers(), known).is_none() {
        return Err(token_required("Send Authorization: Bearer with one of the ingest tokens."));
    }
    Ok(next.run(request).await)
}

/// Which of the known tokens a sender presents, by its place among them.
pub(crate) fn sending_token(headers: &HeaderMap, known: &[TokenHash]) -> Option<usize> {
    if known.is_empty() { None } else { place_among(&bearer(headers)?, known) }
}

/// The door for readers: a token that may read or a session, where any token is set. People are
/// led to the login page.
pub(crate) async fn reading(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let known = &state.config.access.read_tokens;
    if known.is_empty() {
        return next.run(request).await;
    }
    let headers = request.headers();
    if headers.contains_key(header::AUTHORIZATION) {
        if bearer(headers).is_some_and(|token| is_one_of(&token, known)) {
            return next.run(request).await;
        }
    } else if state.sessions.admits(headers, known, state.clock.now()) {
        return next.run(request).await;
    }
    let is_visit = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_visit && super::error::wants_page(&request) {
        let here = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let next = percent_encoding::utf8_percent_encode(here, percent_encoding::NON_ALPHANUMERIC);
        let mut response = Redirect::to(&format!("/login?next={next}")).into_response();
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        return response;
    }
    token_required("Send Authorization: Bearer with one of the read tokens, or log in at /login.")
        .into_response()
}

fn token_required(detail: &str) -> Failure {
    Failure::new(Code::TokenRequired, detail)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"retrylens\""))
}

/// The token of `Authorization: Bearer …`, hashed; `None` where there is none or more than one.
fn bearer(headers: &HeaderMap) -> Option<TokenHash> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    let (scheme, token) = field.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| TokenHash::of(token.trim()))
}

/// Whether a presented token is one of the known ones.
pub(crate) fn is_one_of(presented: &TokenHash, known: &[TokenHash]) -> bool {
    place_among(presented, known).is_some()
}

/// Where a presented token stands among the known ones. Looks at all of them, whichever matches.
fn place_among(presented: &TokenHash, known: &[TokenHash]) -> Option<usize> {
    let mut found = None;
    for (place, token) in known.iter().enumerate() {
        if token.matches(presented) {
            found = Some(place);
        }
    }
    found
}

/// Sessions of people who logged in. Nothing is kept: the cookie says until when it holds and
/// proves with a keyed hash that we wrote it for a token that is still known.
#[derive(Clone)]
pub(crate) struct Sessions {
    key: [u8; 32],
    length: Duration,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions(hidden)")
    }
}

type HmacSha256 = Hmac<Sha256>;

impl Sessions {
    /// Sessions signed with a key of their own, derived from the store's; replicas share it.
    pub(crate) fn new(store_key: &[u8], length: Duration) -> Self {
        let key = keyed(store_key, &[b"retrylens session key"]).finalize().into_bytes().into();
        Self { key, length }
    }

    /// The value of the cookie for somebody who presented `token`.
    pub(crate) fn begin(&self, token: &TokenHash, now: UnixMillis) -> String {
        let length = Millis(i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX));
        let until = now.plus(length).0.to_string();
        let proof = keyed(&self.key, &[until.as_bytes(), b".", token.bytes()]).finalize();
        format!("{until}.{}", hex::encode(proof.into_bytes()))
    }

    /// How long a session lasts.
    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// Whether the cookies hold a session that has not ended, for a token that is still known.
    pub(crate) fn admits(&self, headers: &HeaderMap, known: &[TokenHash], now: UnixMillis) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|c| c.to_str().ok());
        cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == SESSION_COOKIE)
            .any(|(_, value)| self.holds(value, known, now))
    }

    fn holds(&self, value: &str, known: &[TokenHash], now: UnixMillis) -> bool {
        let Some((until, proof)) = value.split_once('.') else { return false };
        let Ok(proof) = hex::decode(proof) else { return false };
        if !until.parse().is_ok_and(|until| now < UnixMillis(until)) {
            return false;
        }
        known.iter().any(|token| {
            let expected = keyed(&self.key, &[until.as_bytes(), b".", token.bytes()]);
            expected.verify_slice(&proof).is_ok()
        })
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length (RFC 2104)")]
fn keyed(key: &[u8], parts: &[&[u8]]) -> HmacSha256 {
    let mut mac = HmacSha256::new_from_slice(key).expect("every key length is valid");
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    fn server(pairs: &[(&str, &str)]) -> Server {
        let flags = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Config::load(&Sources { flags, ..Sources::default() }).unwrap().server
    }

    #[test]
    fn hosts_are_known_by_name_whatever_their_case_port_or_closing_dot() {
        let hosts = KnownHosts::new(&server(&[
            ("allowed_hosts", "lens.internal"),
            ("public_url", "https://Lens.example.com:8443"),
        ]));
        for known in [
            "localhost:4290",
            "LOCALHOST.",
            "127.0.0.1",
            "[::1]:4290",
            "10.1.2.3:80",
            "lens.internal:99",
            "lens.example.com",
        ] {
            assert!(hosts.knows(known), "{known}");
        }
        for unknown in [
            "evil.example",
            "localhost.evil.example",
            "xlens.internal",
            "1.2.3.4.evil.example",
            "[::1",
        ] {
            assert!(!hosts.knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn writes_come_from_our_own_pages_or_from_programs() {
        let server = server(&[("public_url", "https://lens.example.com")]);
        let asks = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_own_origin(&headers, "127.0.0.1:4290", &server)
        };
        assert!(asks(&[]), "a program sends no origin");
        assert!(asks(&[("origin", "http://127.0.0.1:4290")]));
        assert!(asks(&[("origin", "https://lens.example.com")]), "behind the proxy");
        assert!(asks(&[("origin", "https://lens.example.com:443")]));
        assert!(asks(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(!asks(&[("origin", "null")]));
        assert!(!asks(&[("origin", "http://lens.example.com")]), "other scheme");
        assert!(!asks(&[("origin", "http://127.0.0.1:9999")]), "other port");
        assert!(!asks(&[("origin", "http://evil.example")]));
        assert!(!asks(&[("origin", "http://127.0.0.1:4290"), ("origin", "http://evil.example")]));
        assert!(!asks(&[("sec-fetch-site", "cross-site")]));
        assert!(!asks(&[("origin", "garbage")]));
    }

    #[test]
    fn a_session_holds_until_its_end_for_a_known_token_and_as_written() {
        let sessions = Sessions::new(b"store key", Duration::from_hours(1));
        let token = TokenHash::of("correct-horse-battery");
        let known = [TokenHash::of("another-token-here"), token.clone()];
        let now = UnixMillis(1_000_000);
        let value = sessions.begin(&token, now);
        assert!(sessions.holds(&value, &known, now));
        assert!(sessions.holds(&value, &known, now.plus(Millis(3_599_999))));
        assert!(!sessions.holds(&value, &known, now.plus(Millis(3_600_000))), "it has ended");
        assert!(!sessions.holds(&value, &known[..1], now), "the token was taken away");
        let (_, proof) = value.split_once('.').unwrap();
        let longer = format!("99999999999.{proof}");
        assert!(!sessions.holds(&longer, &known, now), "the end was changed");
        for garbage in ["", ".", "9999999999.", "9999999999.zz", "x"] {
            assert!(!sessions.holds(garbage, &known, now), "{garbage:?}");
        }
        let elsewhere = Sessions::new(b"other key", Duration::from_hours(1));
        assert!(!elsewhere.holds(&value, &known, now));
    }
}
