//! Names with a value: pairs such as `token=…`, elements such as `<apiKey>…</apiKey>`.

use super::shapes::{BOUNDARY, QUOTE, compiled, unmarked};
use super::signs::{Made, PAIR_WORD, Signs};
use super::{Part, wording};
use regex::Regex;
use std::sync::LazyLock;

/// Names whose value is secret, as they end; what begins them ends before a sign or a capital.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let word = [
        "pass(?:word|wd|phrase|code)?|pwd|(?:user|db|database)[_.-]?password",
        "(?:client|shared|app|signing|consumer)?[_.-]?secret(?:[_.-]?(?:access[_.-]?)?key)?",
        "(?:api|access|account|private|signing|encryption|master|subscription|license|functions|service|shared[_.-]?access|app|auth|idempotency)[_. -]?key|key",
        "(?:access|auth|refresh|id|session|csrf|xsrf|api|bearer|security|oauth|push|device|personal[_.-]?access)?[_.-]?token",
        "(?:j|php|asp\\.net_)?sess(?:ion)?(?:[_.-]?id)?|sid|connect\\.sid|remember[_.-]me|cf[_.-]clearance",
        "auth|credentials?|jwt|(?:shared[_.-]?access[_.-]?)?signature|sig|otp|pin|cvv|cvc|ssn",
    ]
    .join("|");
    let camel = "(?-i:[A-Za-z0-9]*[a-z0-9](?:Pass(?:word|phrase|code)|Secret|Token|(?:Api|API|Access|Secret|Private|License|Subscription|Shared|Signing|Auth)Key|Session(?:Id|ID)|Credentials?|J(?:wt|WT)))";
    format!("(?P<n>(?:[a-z0-9]+[_.-])*(?:{word}|{camel}))[0-9]?")
});

/// Such a name, then `:` or `=` (also escaped), then the value, quoted or bare.
pub(super) static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r#"(?i){BOUNDARY}{}(?:{QUOTE}|\\+)?(?P<s>\s*(?:[:=]|%(?:25)?3[ad]|\\u003[ad])\s*)(?:\[?\\*"(?P<d>[^"\\]+)|\[?'(?P<q>[^'\\]+)|{QUOTE}?(?P<b>[^\s"'&,;<>{{}}()|\\]+))"#,
        *NAME
    ))
});

/// An element of XML with such a name, up to its end.
static ELEMENT: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r"(?i)<(?:[a-z0-9_.-]+:)?{}(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?(?P<v>[^\s<>\[\]][^<>\]]*)",
        *NAME
    ))
});

/// Such a name as the value of `name`, and its own value beside it: forms and `<meta>` of HTML,
/// lists of fields in JSON.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r#"(?i)(?:name|key)\\*["']?\s*[:=]\s*\\*["']{}\\*["'][^<>{{}}]{{0,80}}?(?:value|content)\\*["']?\s*[:=]\s*\\*["'](?P<v>[^"'<>\\]+)"#,
        *NAME
    ))
});

pub(super) fn by_pair(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    let has_sign = signs.pair || signs.made_with(Made::PERCENT | Made::BACKSLASH);
    if !signs.has(PAIR_WORD) || !has_sign {
        return;
    }
    for found in PAIR.captures_iter(text) {
        let (Some(name), Some(sign)) = (found.name("n"), found.name("s")) else { continue };
        let quoted = found.name("d").or_else(|| found.name("q"));
        let Some(value) = quoted.or_else(|| found.name("b")) else { continue };
        let strength = Strength::of(name.as_str());
        let place = match sign.as_str() {
            sign if quoted.is_none() && sign.ends_with(char::is_whitespace) => Place::Prose,
            sign if sign.contains(':') => Place::Field,
            _ => Place::Form,
        };
        if unmarked(value.as_str()) && strength.holds(value.as_str(), place) {
            parts.push(Part { range: value.range(), kind: strength.kind });
        }
    }
}

pub(super) fn by_element(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if !signs.has(PAIR_WORD) {
        return;
    }
    let has_values =
        signs.made_with(Made::SIGN) && (text.contains("alue") || text.contains("ontent"));
    for pattern in [signs.made_with(Made::ANGLE).then_some(&ELEMENT), has_values.then_some(&NAMED)]
        .into_iter()
        .flatten()
    {
        for found in pattern.captures_iter(text) {
            let (Some(name), Some(value)) = (found.name("n"), found.name("v")) else { continue };
            let strength = Strength::of(name.as_str());
            let secret = value.as_str().trim_end();
            if unmarked(secret) && strength.holds(secret, Place::Field) {
                let range = value.start()..value.start() + secret.len();
                parts.push(Part { range, kind: strength.kind });
            }
        }
    }
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// After a name and white space, where a sentence can go on.
    Prose,
    /// In JSON or XML, where `key` can be the name of anything.
    Field,
    /// In a query string, a form, a cookie or the like.
    Form,
}

/// What opens something with a key, as against keys of caches, tables and translations.
const CREDENTIAL_KEYS: [&str; 14] = [
    "access",
    "account",
    "api",
    "app",
    "auth",
    "encryption",
    "functions",
    "idempotency",
    "license",
    "master",
    "private",
    "service",
    "signing",
    "subscription",
];

/// How sure a name makes it that its value is secret.
struct Strength {
    kind: &'static str,
    /// The value is secret whatever it looks like.
    is_certain: bool,
    /// A short number can be the secret.
    is_numeric: bool,
    /// The name is also a plain word.
    is_plain: bool,
}

impl Strength {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let has = |word: &str| name.contains(word);
        let (last, opened) = (name.rsplit(['_', '.', '-']).next(), name.strip_suffix("key"));
        let opened = opened.unwrap_or_default().trim_end_matches(['_', '.', '-', ' ']);
        let (kind, is_certain) = match () {
            () if has("passw") || has("passp") || has("passc") || has("pwd") => ("password", true),
            () if has("secret") => ("secret", true),
            () if has("key") => {
                ("api-key", CREDENTIAL_KEYS.iter().any(|kind| opened.ends_with(kind)))
            }
            () if has("token") => ("token", name != "token"),
            () if has("sig") => ("signature", false),
            () if has("sess") || has("sid") || has("remember") || has("clearance") => {
                ("session", false)
            }
            () if has("credential") || has("jwt") => ("credentials", true),
            () => ("secret", false),
        };
        let is_numeric = last
            .is_some_and(|last| ["otp", "pin", "cvv", "cvc", "ssn", "passcode"].contains(&last));
        let is_plain = !is_certain || name.contains(' ') || name.starts_with("credential");
        Self { kind, is_certain, is_numeric, is_plain }
    }

    fn holds(&self, value: &str, place: Place) -> bool {
        let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let is_word_of_json = ["true", "false", "null", "none", "nil", "undefined"]
            .iter()
            .any(|w| value.eq_ignore_ascii_case(w));
        let is_masked = value.bytes().all(|b| b"*x.#-".contains(&b));
        if is_word_of_json || is_masked {
            return false;
        }
        let is_password = self.kind == "password" || self.kind == "secret";
        if is_number && self.is_numeric {
            return value.len() >= 3;
        }
        if is_number && value.len() < 6 && !(is_password && self.is_certain) {
            return false;
        }
        match place {
            Place::Prose if self.is_certain && is_password => !wording::is_word(value),
            Place::Prose => {
                wording::is_opaque_or_long(value)
                    || !self.is_plain && value.len() >= 8 && !wording::is_word(value)
            }
            Place::Form if self.is_certain => true,
            Place::Field if self.is_certain => !wording::is_word(value),
            Place::Field if self.kind == "api-key" => wording::is_opaque_or_long(value),
            Place::Field | Place::Form => value.len() >= 4 && !wording::is_word(value),
        }
    }
}
