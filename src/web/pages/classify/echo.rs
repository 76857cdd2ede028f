//! What the form shows again of a pasted text: never its secrets (DESIGN 11).

use crate::domain::redact;

/// Longest text that is shown again, in characters.
const MAX_ECHO: usize = 64 * 1024;

/// Stands where a value was.
const GONE: &str = "[redacted]";

/// Header fields whose values are credentials (RFC 9110 section 11, RFC 6265 sections 4.1 and 4.2,
/// and the usual names of API keys).
const SECRET_FIELDS: [&str; 10] = [
    "proxy-authorization",
    "authorization",
    "set-cookie",
    "cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-csrf-token",
    "x-amz-security-token",
];

/// The pasted text without its secrets, for another try. Nothing of a HAR file or another JSON
/// document, whose fields are too many to know, and nothing of what is very long.
pub(super) fn shown_again(text: &str) -> String {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if start.starts_with(['{', '[']) || text.chars().nth(MAX_ECHO).is_some() {
        return String::new();
    }
    let mut shown = String::with_capacity(text.len());
    let mut after_secret = false;
    for line in text.split_inclusive('\n') {
        // A line that begins with a space goes on with the field before it (RFC 9112 section 5.2).
        if after_secret && line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            continue;
        }
        let masked = mask(line);
        after_secret = masked.is_some();
        shown.push_str(masked.as_deref().unwrap_or(line));
    }
    redact::owned(shown).text
}

/// The line up to its secret field's value; `None` where it holds none. The field may stand
/// anywhere in it: after the marks of `curl -v`, or in a command with `-H`.
fn mask(line: &str) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    // Upper and lower case of ASCII have the same length, so that positions hold in both.
    let at = SECRET_FIELDS.iter().filter_map(|name| value_after(&lower, name)).min()?;
    let (head, value) = line.split_at_checked(at)?;
    let end = value.trim_start_matches(|c| !matches!(c, '\r' | '\n'));
    Some(format!("{head} {GONE}{end}"))
}

/// Where the value begins that follows the whole word `name` and a colon.
fn value_after(lower: &str, name: &str) -> Option<usize> {
    lower.match_indices(name).find_map(|(at, _)| {
        let before = lower.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return None;
        }
        let behind = lower.get(at + name.len()..)?;
        let rest = behind.trim_start_matches(['"', '\'', ' ', '\t']).strip_prefix(':')?;
        Some(lower.len() - rest.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_pasted_text_are_not_shown_again() {
        let text = "> GET /v1 HTTP/1.1\r\n> Authorization: Basic c2VjcmV0LW9uZTpzZWNyZXQtb25l\r\n\
                    > Cookie: sid=secret-two; other=secret-two\r\n> x-api-key: secret-three\r\n\
                    < HTTP/1.1 429 Too Many Requests\r\n< Set-Cookie: sid=secret-four; Path=/; HttpOnly\r\n\
                    < Retry-After: 30\r\n\r\nerror code: 1015";
        let shown = shown_again(text);
        assert!(!shown.contains("secret-") && !shown.contains("c2VjcmV0"), "{shown}");
        assert!(
            shown.contains("< Set-Cookie: [redacted") && shown.contains("> x-api-key: [redacted"),
            "{shown}"
        );
        assert!(shown.starts_with("> GET /v1 HTTP/1.1\r\n> Authorization: [redacted"), "{shown}");
        assert!(shown.ends_with("< Retry-After: 30\r\n\r\nerror code: 1015"), "{shown}");
    }

    #[test]
    fn a_field_inside_a_line_and_one_over_two_lines_are_masked() {
        let shown = shown_again(
            "curl -H 'Authorization: token abc-1' https://api.example.com\n\
             * [HTTP/2] [1] [cookie: sid=abc-2]\ncookie: a=1;\n b=abc-3\nHTTP/1.1 429\nserver: nginx\n",
        );
        assert!(!shown.contains("abc-"), "{shown}");
        assert!(shown.ends_with("HTTP/1.1 429\nserver: nginx\n"), "{shown}");
    }

    #[test]
    fn nothing_of_a_json_document_is_shown_again() {
        for text in [r#"{"log":{"entries":[]}}"#, "\u{feff} {\"raw\": \"HTTP/1.1 429\"}", "[1]"] {
            assert_eq!(shown_again(text), "", "{text}");
        }
        assert_eq!(shown_again("HTTP/1.1 429\nserver: nginx"), "HTTP/1.1 429\nserver: nginx");
    }
}
