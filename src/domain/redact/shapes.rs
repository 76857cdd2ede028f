//! Secrets that have a shape: URLs with a password, `Authorization` values, cookies, e-mail
//! addresses, key blocks.

use super::signs::{
    ATTRIBUTE_WORD, CODE_WORD, FIELD_WORD, HOOK_WORD, Made, PAIR_WORD, SCHEME_WORD, Signs,
};
use super::{Part, around, paths, wording};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Where a word begins: as `starts_word` sees it, in patterns without regard to case.
pub(super) const BOUNDARY: &str = r"(?:^|%(?:25)?[0-9a-f]{2}|\\u[0-9a-f]{4}|\\[nrt]|[^a-z0-9])";

/// A quotation mark: as it is, after backslashes, or as HTML, URLs and JSON escape it.
pub(super) const QUOTE: &str =
    r#"(?:\\*["']|&(?:quot|apos|\#3[49]|\#x2[27]);|%(?:25)?2[27]|\\u002[27])"#;

/// White space, also as JSON and URLs escape it, or none.
pub(super) const GAP: &str = r"(?:\s|\\+[nrt]|%20)*";

/// What sets a name apart from its value: a colon, equals signs, an arrow; also escaped, and in full
/// width. A thin arrow within words of a program leads to a part of a thing, not to its value.
pub(super) const SIGN: &str = r"(?:=&gt;|={1,3}>?|:=?|\s->\s|[：＝]|&\#(?:58|61|x3[ad]);|%(?:25)?3[ad](?:%(?:25)?3e)?|\\u003[ad](?:\\u003e)?)";

/// A shape: the group `v` of the expression is replaced, where `guard` agrees to it and to the group
/// `n`, if there is one.
pub(super) struct Shape {
    kind: &'static str,
    pattern: Regex,
    wants: fn(&Signs) -> bool,
    guard: fn(&str, &str) -> bool,
    /// Whether what stands around it in the text speaks for it.
    around: fn(&str, &Range<usize>) -> bool,
}

#[expect(clippy::expect_used, reason = "the pattern is a constant; a test compiles each")]
pub(super) fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

pub(super) static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let shape = |kind, pattern: &str, wants, guard| {
        let parts = [("BOUNDARY", BOUNDARY), ("QUOTE", QUOTE), ("GAP", GAP), ("SIGN", SIGN)];
        let pattern =
            parts.iter().fold(pattern.to_owned(), |all, (name, part)| all.replace(name, part));
        let pattern = compiled(&pattern);
        Shape { kind, pattern, wants, guard, around: |_, _| true }
    };
    vec![
        // PEM and OpenPGP private keys, also cut short, line breaks as they are or escaped.
        shape(
            "private-key",
            r"(?s)(?P<v>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z))",
            |s| s.dashes,
            always,
        ),
        shape(
            "url-credentials",
            r#"//(?P<v>[^\s/?#@"'<>]+)@"#,
            |s| s.made_with(Made::AT) && s.made_with(Made::SLASH),
            always,
        ),
        // Without a scheme; Go's drivers put the protocol behind. What names an image by its digest
        // looks alike.
        shape(
            "url-credentials",
            r#"(?i)(?:^|[\s"'(=<>,])(?P<v>[a-z_][a-z0-9_.%+-]*:[^\s@"'/]+)@(?P<n>[a-z][a-z0-9_.-]*|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::[0-9]|/)"#,
            |s| s.made_with(Made::AT) && s.made_with(Made::SIGN),
            |host, _| !host.starts_with("sha"),
        ),
        shape(
            "url-credentials",
            r#"(?P<v>[^\s:"'/@]+:[^\s"']+)@(?:tcp|udp|unix)[46]?\("#,
            |s| s.made_with(Made::AT) && s.made_with(Made::SIGN),
            always,
        ),
        // Oracle's way to log in, with and without its driver.
        shape(
            "url-credentials",
            r#"(?i)(?:jdbc:oracle:[a-z0-9]+:|\b(?:sqlplus|sqlcl|sqlldr|expdp|impdp)\s+(?:-[a-z]+\s+)*QUOTE?)(?P<v>[^\s"'/@:]+/(?:"[^"\s]+"|[^\s"'@]+))@"#,
            |s| s.made_with(Made::AT) && s.made_with(Made::SLASH),
            always,
        ),
        // What curl and the like log in with.
        shape(
            "password",
            r#"(?:^|\s)-(?:u|-user|-proxy-user)(?:\s+|=)QUOTE?(?P<n>[^\s:"'\\]*):(?P<v>[^\s"'\\]+)"#,
            |s| s.option && s.pair,
            is_login,
        ),
        // The same joined to its flag.
        shape(
            "password",
            r#"\b(?:curl|wget)\s(?:[^\n|;]*?\s)?-[a-zA-Z]*[uU]\s*QUOTE?(?P<n>[^\s:"'\\-][^\s:"'\\]*):(?P<v>[^\s"'\\]+)"#,
            |s| s.option && s.made_with(Made::SIGN),
            is_login,
        ),
        // Flags of a password, joined to it or not. MySQL's clients take it joined alone.
        shape(
            "password",
            r#"\b(?:(?:mysql[a-z]*|mariadb(?:-[a-z]+)?)\s(?:[^\n|;]*?\s)?-p|(?:sshpass|mongo[a-z]*)\s(?:[^\n|;]*?\s)?-p\s*|redis-cli\s(?:[^\n|;]*?\s)?-a\s*|ldap(?:add|compare|delete|modify|passwd|search|whoami)\s(?:[^\n|;]*?\s)?-w\s*|(?:sqlcmd|bcp|mosquitto_(?:pub|sub)|unzip)\s(?:[^\n|;]*?\s)?-P\s*)QUOTE?(?P<v>[^\s"'\\-][^\s"'\\]*)"#,
            |s| s.option,
            |_, value| !OTHER_FLAGS.contains(&value),
        ),
        // Also internationalised (RFC 6531), and percent-encoded in an address.
        shape(
            "email",
            r"(?P<n>:?)(?P<v>[\p{L}\p{M}\p{N}._%+-]+(?:'[\p{L}\p{M}\p{N}._%+-]+)*(?:@|%(?:25)?40)(?:(?:[\p{L}\p{M}\p{N}_-]|%[0-9A-Fa-f]{2})+\.)+(?:[Xx][Nn]--[A-Za-z0-9-]+|[\p{L}\p{M}]{2,}|(?:%[0-9A-Fa-f]{2}){4,}))",
            |s| s.made_with(Made::AT | Made::PERCENT),
            |sign, address| !sign.is_empty() || !is_process(address),
        ),
        // Header fields inside a text: all up to the end of the line or the quote.
        shape(
            "authorization",
            r#"(?i)authorization(?:\s+header)?QUOTE?GAPSIGNGAP(?:\[GAPQUOTE|QUOTE?)(?P<v>[^\s"'\\{][^\r\n"'\\]*)"#,
            |s| s.pair && s.has(FIELD_WORD),
            |_, value| is_no_sentence(value),
        ),
        shape(
            "cookie",
            r#"(?i)(?:^|[^a-z0-9])(?:set-)?cookies?(?:\s+header)?QUOTE?GAPSIGNGAP(?:\[GAPQUOTE|QUOTE?)(?P<v>[^\s"'\\{][^\r\n"\\]*)"#,
            |s| s.pair && s.has(FIELD_WORD),
            |_, value| is_no_sentence(value),
        ),
        shape(
            "cookie",
            r"(?i)(?:^|[^;\s]\s+|[^;\sa-z0-9_.!%-])(?P<n>[a-z0-9_.!%-]+)=(?P<v>[^;\s,]+)\s*;\s*(?:path=|domain=|expires=|max-age=|samesite=|secure(?:;|$)|httponly|partitioned)",
            |s| s.made_with(Made::SIGN) && s.made_with(Made::SEMICOLON) && s.has(ATTRIBUTE_WORD),
            |name, value| {
                let is_short = value.len() < 6 && value.bytes().all(|b| b.is_ascii_digit());
                let is_attribute = ATTRIBUTES.iter().any(|known| name.eq_ignore_ascii_case(known));
                !is_short && !is_attribute && !wording::is_moment(value)
            },
        ),
        shape(
            "bearer",
            r"(?i)BOUNDARYbearer(?:\s+|%20|\+)(?P<v>[a-z0-9._~+/-]{3,}=*)",
            |s| s.has(SCHEME_WORD),
            |_, value| {
                let value = value.trim_end_matches('.');
                !BEARER_WORDS
                    .iter()
                    .any(|word| value.trim_end_matches('=').eq_ignore_ascii_case(word))
            },
        ),
        shape(
            "basic-auth",
            r"(?i)BOUNDARYbasic(?:\s+|%20|\+)(?P<v>[a-z0-9+/_-]{6,}={0,2})",
            |s| s.has(SCHEME_WORD),
            holds_user_and_password,
        ),
        shape(
            "digest-auth",
            r"(?i)BOUNDARYdigest\s+(?P<v>[a-z]+=[^\r\n]*response=[^\r\n]*)",
            |s| s.has(SCHEME_WORD) && s.pair,
            always,
        ),
        // Signatures with their time or version (Stripe, Slack, GitHub, Standard Webhooks).
        shape(
            "signature",
            r"(?i)signature(?:-(?:v?[0-9]+|sha-?[0-9]+))?QUOTE?GAPSIGNGAP(?:\[GAP)?QUOTE?(?P<v>(?:ts?|v[0-9]|sha-?(?:1|256|512))[=,][a-z0-9+/_.-]+=*(?:[,;\s]\s?(?:ts?|v[0-9]|sha-?(?:1|256|512))[=,][a-z0-9+/_.-]+=*)*)",
            |s| s.has(PAIR_WORD) && s.longest_run >= 12,
            |_, value| {
                value.split([',', '=', ';', ' ']).any(|part| {
                    part.len() >= 16 && (wording::is_long_and_opaque(part) || is_hexadecimal(part))
                })
            },
        ),
        // Keys of licences in groups, where they are called so.
        shape(
            "license-key",
            r"(?i:licen[cs]e|product\s?key)[^\n]{0,40}?[^A-Za-z0-9_-](?P<v>[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){2,7})(?:$|[^A-Za-z0-9_-])",
            |s| s.made_with(Made::DASH) && s.longest_run >= 14,
            |_, value| {
                let groups_with = |is: fn(&u8) -> bool| {
                    value.split('-').filter(|group| group.as_bytes().iter().any(is)).count()
                };
                groups_with(u8::is_ascii_digit) >= 2 && groups_with(u8::is_ascii_alphabetic) >= 2
            },
        ),
        // Codes to log in with, told by what stands behind them.
        shape(
            "secret",
            r"(?i)(?:(?P<n>[a-z]+)[\s_-]+)?code(?:\s+is)?\s*[:=]?\s*QUOTE?(?P<v>[0-9]{3,4}[\s-][0-9]{3,4}|[0-9]{4,10})QUOTE?[.,;]?\s*(?:[(\[]\s*(?:your\s)?|(?:for|to)\s+(?:your\s+)?)(?:2fa|mfa|t?otp|two-?factor|one-?time|sign(?:ing)?[\s-]?in|log(?:ging)?[\s-]?in|verif)",
            |s| s.has(CODE_WORD),
            |name, _| !OTHER_CODES.iter().any(|other| name.eq_ignore_ascii_case(other)),
        ),
        // Links that let their bearer in, by a short name.
        shape(
            "token",
            r"(?i)(?:[?&]|%(?:25)?(?:3f|26)|\\u0026|&amp;)(?:t|tkn?|ott|ml|magic|magiclink|invite|confirm|verify|reset)(?:=|%(?:25)?3d|\\u003d)(?P<v>[a-z0-9_-]{20,})",
            |s| s.longest_run >= 20 && s.made_with(Made::EQUALS | Made::PERCENT | Made::BACKSLASH),
            |_, value| {
                paths::is_jumbled_segment(value) || value.len() >= 32 && is_hexadecimal(value)
            },
        ),
        // Hawk's parameters; an account or key with a signature, of AWS and Azure.
        shape(
            "authorization",
            r"(?i)BOUNDARY(?:hawk|mac|aws|sharedkey(?:lite)?)\s+(?P<v>[a-z]+=[^\r\n]*mac=[^\r\n]*|[a-z0-9_-]{3,}:[a-z0-9+/_-]{16,}=*)",
            |s| s.has(SCHEME_WORD) && s.pair,
            always,
        ),
        // What OAuth hands out in an address or a form (RFC 6749 section 4.1.2).
        shape(
            "authorization-code",
            r#"(?i)(?:^|[?&\s"'(]|%(?:25)?(?:3f|26)|\\u0026|&amp;)(?:(?:auth|authorization|device)[_.-]?)?code(?:_verifier)?(?:=|%(?:25)?3d|\\u003d)(?P<v>[^\s"'&<>(),;\\]+)"#,
            |s| s.has(CODE_WORD) && s.made_with(Made::EQUALS | Made::PERCENT | Made::BACKSLASH),
            is_grant,
        ),
        shape(
            "slack-webhook",
            r"(?P<v>(?:services/)?T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,})",
            |s| s.made_with(Made::SLASH) && s.longest_run >= 16,
            always,
        ),
        shape(
            "zapier-webhook",
            r"hooks/(?:catch|standard)/(?P<v>[0-9]+/[A-Za-z0-9]+)",
            |s| s.has(HOOK_WORD) && s.made_with(Made::SLASH),
            always,
        ),
        shape(
            "discord-webhook",
            r"webhooks/(?P<v>[0-9]{15,}/[A-Za-z0-9_-]{20,})",
            |s| s.has(HOOK_WORD) && s.made_with(Made::SLASH) && s.longest_run >= 20,
            always,
        ),
        shape(
            "teams-webhook",
            r"(?i)webhookb2/(?P<v>[^\s]{20,})",
            |s| s.has(HOOK_WORD) && s.made_with(Made::SLASH),
            always,
        ),
        shape(
            "discord-token",
            r"(?:^|[^A-Za-z0-9_-])(?P<v>[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
            |s| s.made_with(Made::DOT) && s.longest_run >= 27,
            always,
        ),
        shape(
            "telegram-token",
            r"(?:^|[^A-Za-z0-9]|bot)(?P<v>[0-9]{8,10}(?::|%3[Aa])AA[A-Za-z0-9_-]{30,})",
            |s| s.made_with(Made::SIGN | Made::PERCENT) && s.longest_run >= 30,
            always,
        ),
        shape(
            "mailchimp-key",
            r"(?:^|[^A-Za-z0-9])(?P<v>[0-9a-f]{32}-us[0-9]{1,2})",
            |s| s.made_with(Made::U) && s.made_with(Made::DASH) && s.longest_run >= 36,
            always,
        ),
        // Behind the id of its key, whatever the sign between.
        shape(
            "aws-secret",
            r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9+](?P<v>[A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+])",
            |s| s.longest_run >= 20,
            always,
        ),
        // Joined to what stands around it, where that is of AWS.
        Shape {
            around: around::is_near_secret,
            ..shape(
                "aws-secret",
                r"(?:^|%(?:25)?[0-9A-Fa-f]{2}|\\[nrt]|[^A-Za-z0-9/+_-]|(?i:aws|amazon)[/+])(?P<v>[A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+_-])",
                |s| s.jumble >= 40,
                is_jumbled,
            )
        },
        Shape {
            around: around::may_be_secret,
            ..shape(
                "aws-secret",
                r"(?:^|[^A-Za-z0-9/+=_.-])(?P<v>[A-Za-z0-9/+]{40})(?:$|\.(?:$|\s)|[^A-Za-z0-9/+=_.-])",
                |s| s.jumble >= 40,
                is_jumbled,
            )
        },
    ]
});

pub(super) fn by_shape(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    for shape in SHAPES.iter().filter(|shape| (shape.wants)(signs)) {
        for found in shape.pattern.captures_iter(text) {
            let name = found.name("n").map_or("", |name| name.as_str());
            let Some(value) = found.name("v").filter(|v| (shape.guard)(name, v.as_str())) else {
                continue;
            };
            if (shape.around)(text, &value.range()) {
                parts.push(Part { range: value.range(), kind: shape.kind });
            }
        }
    }
    parts.retain(|part| text.get(part.range.clone()).is_some_and(unmarked));
}

fn always(_: &str, _: &str) -> bool {
    true
}

/// Whether a user and what follows a colon are what somebody logs in with, and no numbers of a user
/// and a group, and no address.
fn is_login(user: &str, value: &str) -> bool {
    let value = value.trim_end_matches([',', ';', '.']);
    let is_number = value.bytes().all(|b| b.is_ascii_digit());
    value != user && !is_number && !value.starts_with("//")
}

/// What follows `-p` where it begins the name of a flag.
const OTHER_FLAGS: [&str; 4] = ["assword", "ipe", "ort", "rotocol"];

/// What a code is of that nobody logs in with.
const OTHER_CODES: [&str; 10] =
    ["area", "country", "error", "exit", "http", "postal", "return", "source", "status", "zip"];

/// Whether a text is a number in hexadecimal, with digits and letters.
fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_alphabetic())
}

/// Attributes of a cookie and directives of a cache, which look like a cookie before others.
const ATTRIBUTES: [&str; 7] =
    ["domain", "expires", "max-age", "path", "s-maxage", "samesite", "version"];

/// Whether what is behind `Authorization:` or `Cookie:` is no sentence about the field.
fn is_no_sentence(value: &str) -> bool {
    let first = value.split([' ', ',', ';']).next().unwrap_or_default();
    // "Signature" is a scheme too.
    !wording::is_word(first) || first.eq_ignore_ascii_case("signature")
}

/// Whether what looks like an e-mail address is a process on a machine, such as `celery@host-1.internal`:
/// its domain is of a private network (RFC 6762 appendix G, and `internal`, which is reserved for
/// that), and nothing in it is like a person's name.
fn is_process(address: &str) -> bool {
    let Some((user, host)) = address.rsplit_once('@') else { return false };
    let Some((host, domain)) = host.rsplit_once('.') else { return false };
    let is = |known: &str| domain.eq_ignore_ascii_case(known);
    let is_numbered = host.bytes().any(|b| b.is_ascii_digit());
    !user.contains('.')
        && (is("internal") || is_numbered && ["lan", "local", "localdomain"].into_iter().any(is))
}

/// Words in brackets that stand where others took a secret out: `[redacted]`, Rails' `[FILTERED]`.
const MASKS: [&str; 5] = ["filtered", "hidden", "masked", "redacted", "removed"];

/// Whether `value` is neither a marker of ours nor one that others leave.
pub(super) fn unmarked(value: &str) -> bool {
    let is_mask = |inside: &str| MASKS.iter().any(|mask| inside.eq_ignore_ascii_case(mask));
    let others = |rest: &str| rest.split_once(']').is_some_and(|(inside, _)| is_mask(inside));
    !value.starts_with("[redacted:") && !value.strip_prefix('[').is_some_and(others)
}

/// What follows the word "bearer" in prose and in challenges.
const BEARER_WORDS: [&str; 34] = [
    "and",
    "auth",
    "authentication",
    "authorization",
    "cannot",
    "credential",
    "credentials",
    "error",
    "expired",
    "for",
    "format",
    "from",
    "has",
    "header",
    "invalid",
    "is",
    "missing",
    "must",
    "not",
    "realm",
    "required",
    "scheme",
    "scope",
    "should",
    "the",
    "token",
    "tokens",
    "type",
    "value",
    "was",
    "were",
    "which",
    "with",
    "you",
];

/// Whether the value of a `code` is a grant. Codes of errors are words, numbers, or a number after
/// capitals.
fn is_grant(_: &str, value: &str) -> bool {
    let name = value.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_of_error = name.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-'));
    value.len() >= 6 && wording::is_opaque(value) && !is_of_error && !value.starts_with("0x")
}

/// Whether a `Basic` value is base64 of `user:password` (RFC 7617), and no word of prose.
fn holds_user_and_password(_: &str, value: &str) -> bool {
    value.ends_with('=') || decoded_base64(value).contains(&b':')
}

/// The bytes behind base64 text of either alphabet; stops at the first foreign character.
fn decoded_base64(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xFF) as u8);
        }
    }
    out
}

/// Whether letters and digits change as often as in random base64, unlike in a path of words.
fn is_jumbled(_: &str, value: &str) -> bool {
    let class = |b: u8| match b {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let bytes = value.as_bytes();
    let count = |wanted: u8| bytes.iter().filter(|b| class(**b) == wanted).count();
    let changes = bytes
        .windows(2)
        .filter(|pair| {
            let classes: Vec<u8> = pair.iter().map(|b| class(*b)).collect();
            !classes.contains(&0) && classes.first() != classes.last()
        })
        .count();
    let is_of_no_words = count(3) >= 1 || count(2) * 3 > value.len();
    changes >= 10 && count(1) >= 5 && count(2) >= 5 && is_of_no_words
}
