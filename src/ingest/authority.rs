//! The authority of an address: who logs in, at which host, and what follows.

/// An address behind its scheme, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Whether user information stood before the host.
    pub(crate) had_user: bool,
    /// Host and port as written, unchecked.
    pub(crate) host: &'a str,
    /// From the first `/`, `?`, `#` or `\` behind the host on.
    pub(crate) tail: &'a str,
}

/// Takes `rest` apart, which is an address without `scheme://`.
///
/// The authority ends at the first slash, and user information at the last `@` in it (RFC 3986
/// section 3.2). A password with a slash that nobody has encoded would so leave user and password as
/// host and port: outside of the web, what reads as `user:digits`, a slash and an `@` before a host is
/// user information.
pub(crate) fn split<'a>(scheme: Option<&str>, rest: &'a str) -> Parts<'a> {
    let (authority, tail) = at_end(rest);
    if let Some((_, host)) = authority.rsplit_once('@') {
        return Parts { had_user: true, host, tail };
    }
    match behind_password(scheme, authority, tail) {
        Some(rest) => {
            let (host, tail) = at_end(rest);
            Parts { had_user: true, host, tail }
        }
        None => Parts { had_user: false, host: authority, tail },
    }
}

const ENDS: [char; 4] = ['/', '?', '#', '\\'];

fn at_end(rest: &str) -> (&str, &str) {
    rest.split_at_checked(rest.find(ENDS).unwrap_or(rest.len())).unwrap_or((rest, ""))
}

/// What is behind the `@` that ends user information whose password goes on in `tail`. A path may
/// hold an `@` as well: it does in any address of the web, since whoever asked for it asked the host
/// before the slash.
fn behind_password<'a>(scheme: Option<&str>, authority: &str, tail: &'a str) -> Option<&'a str> {
    let (name, digits) = authority.split_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_of_web = scheme.is_some_and(|scheme| {
        ["http", "https", "ws", "wss"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
    });
    let is_host = name.eq_ignore_ascii_case("localhost")
        || name.split('.').count() == 4 && name.split('.').all(is_number);
    if name.is_empty() || is_host || is_of_web || !is_number(digits) {
        return None;
    }
    let password = tail.get(1..)?;
    let ends = if name.contains('.') { &ENDS[..] } else { &['?', '#'] };
    let end = password.find(ends).unwrap_or(password.len());
    let (before, rest) = tail.split_at_checked(1 + password.get(..end)?.rfind('@')?)?;
    let rest = rest.get(1..)?;
    let is_query = before.starts_with('?') && before.contains('=');
    let is_password = before.len() > 1 && !is_query;
    (is_password && is_name(at_end(rest).0)).then_some(rest)
}

/// Whether a text is the name of a host or an IP address, and no version as in `react@18.2.0`.
fn is_name(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    let last = name.rsplit('.').next().unwrap_or_default();
    host.starts_with('[')
        || name.chars().all(is_word)
            && (last.starts_with(char::is_alphabetic) || name.split('.').count() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_with_a_slash_was_taken_for_a_host() {
        for (scheme, rest, host, tail) in [
            (None, "admin:8443/9@db.example", "db.example", ""),
            (None, "admin:8443/9/x@db.example:5432/app", "db.example:5432", "/app"),
            (None, "jane.doe:12/x@db:5432", "db:5432", ""),
            (None, "admin:8443?9@db.example", "db.example", ""),
            (None, "admin:8443/a@b/c@192.0.2.7/x", "192.0.2.7", "/x"),
            (Some("postgres"), "admin:84/9==@db.example/app?x=a@b", "db.example", "/app?x=a@b"),
            (Some("https"), "u:p@h.example/a@b", "h.example", "/a@b"),
        ] {
            let parts = split(scheme, rest);
            assert_eq!(parts, Parts { had_user: true, host, tail }, "{scheme:?} {rest}");
        }
    }

    #[test]
    fn an_at_sign_in_a_path_was_left_to_the_path() {
        for (scheme, rest, host) in [
            (Some("https"), "h.example:8443/jane@example.com", "h.example:8443"),
            (Some("http"), "payments:8080/users/jane@example.com/mail", "payments:8080"),
            (Some("http"), "payments:8080/jane@example.com", "payments:8080"),
            (Some("http"), "payments:8080/x?mail=jane@example.com", "payments:8080"),
            (Some("http"), "payments:8080?mail=jane@example.com", "payments:8080"),
            (Some("http"), "registry:4873/@scope/pkg", "registry:4873"),
            (Some("http"), "registry:4873/react@18.2.0/x.js", "registry:4873"),
            (None, "h.example:8443/users/jane@example.com", "h.example:8443"),
            (None, "127.0.0.1:8080/jane@example.com", "127.0.0.1:8080"),
            (None, "localhost:8080/jane@example.com", "localhost:8080"),
            (None, "h.example/a@b", "h.example"),
            (Some("https"), "[2001:db8::1]:443/a@b", "[2001:db8::1]:443"),
        ] {
            let parts = split(scheme, rest);
            assert_eq!((parts.had_user, parts.host), (false, host), "{scheme:?} {rest}");
        }
    }
}
