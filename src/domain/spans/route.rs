//! A path without what differs from request to request.

/// `path` with the segments that look like ids replaced by `{id}`: numbers, UUIDs, and long ones in
/// which digits are mixed with letters.
pub fn normalised(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for (n, segment) in path.split('/').enumerate() {
        if n > 0 {
            out.push('/');
        }
        out.push_str(if is_id(segment) { "{id}" } else { segment });
    }
    out
}

fn is_id(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_made_of = |kind: fn(&u8) -> bool| segment.bytes().all(|b| kind(&b));
    if digits == 0 || !is_made_of(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return false;
    }
    let is_number = digits == segment.len();
    let is_hex = is_made_of(|b| b.is_ascii_hexdigit() || *b == b'-') && segment.len() >= 8;
    // `chat-completions-2024-05-13` is a name; `cus_9s6XKzkNRiz8i3` is none.
    let is_mixed = segment.len() >= 16 && digits >= 3 && !segment.contains('-');
    is_number || is_hex || is_mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_and_names_stay() {
        let table = [
            ("/v1/items/42", "/v1/items/{id}"),
            ("/v1/items", "/v1/items"),
            ("/v2/orders/6f1c1f2e-0a4b-4c3d-9e8f-001122334455/lines", "/v2/orders/{id}/lines"),
            ("/v1/customers/cus_9s6XKzkNRiz8i3", "/v1/customers/{id}"),
            ("/models/chat-completions-2024-05-13", "/models/chat-completions-2024-05-13"),
            ("/s3/report.csv", "/s3/report.csv"),
            ("/", "/"),
            ("", ""),
        ];
        for (path, expected) in table {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }
}
