//! A path with its ids taken out: logs hold addresses, and a page needs routes.

/// `/v1/orders/85797` as `/v1/orders/{id}`.
pub(super) fn of_path(path: &str) -> String {
    let mut route = String::with_capacity(path.len());
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            route.push('/');
        }
        route.push_str(if is_id(segment) { "{id}" } else { segment });
    }
    route
}

/// Whether a part of a path looks like an id: a number, a UUID, a long hexadecimal text, or a long
/// mix of letters and digits. `v1`, `oauth2` and `2fa` are words.
fn is_id(segment: &str) -> bool {
    let letters = segment.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = segment.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    match segment.len() {
        0 => false,
        _ if letters == 0 && digits > 0 => true,
        _ if segment.contains('@') || segment.contains("%40") => true,
        12.. if is_hex && digits > 1 => true,
        20.. => digits > 3 && letters > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_and_words_stay() {
        for (path, route) in [
            ("/v1/orders/85797", "/v1/orders/{id}"),
            ("/v1/orders/85797/items/3", "/v1/orders/{id}/items/{id}"),
            ("/u/7e4b1c34-95f8-4b21-9b07-4b8a1c6f2d10/x", "/u/{id}/x"),
            ("/u/01JCH6X8Y4Q2V7M3N9K5R1T6B8", "/u/{id}"),
            ("/repos/acme/0a1b2c3d4e5f60718293", "/repos/acme/{id}"),
            ("/users/anna@example.com/mail", "/users/{id}/mail"),
            ("/oauth2/v1/2fa/wp-login.php", "/oauth2/v1/2fa/wp-login.php"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(of_path(path), route);
        }
    }
}
