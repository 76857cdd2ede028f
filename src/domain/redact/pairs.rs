//! Names with a value: pairs such as `token=…`, elements such as `<apiKey>…</apiKey>`.

use super::shapes::{BOUNDARY, GAP, QUOTE, SIGN, compiled, unmarked};
use super::signs::{Made, PAIR_WORD, Signs};
use super::{Part, wording};
use regex::{Captures, Regex};
use std::ops::Range;
use std::sync::LazyLock;

/// Names whose value is secret: `n`, as they end, whatever begins them; `t`, what may follow a name
/// of the value itself; `p` where there are several.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let word = [
        "pass(?:word|wd|phrase|code)?(?:[_.-]?(?:hash|digest))?",
        "secret(?:[_.-]?(?:access[_.-]?)?key(?:[_.-]?base)?)?",
        "(?:api|access|account|private|signing|encryption|master|subscription|license|functions|service|shared[_.-]?access|app|auth|idempotency)[_. -]?key|access[_.-]?key[_.-]?id|key",
        "(?:j|php|asp\\.net_)?sess(?:ion)?(?:[_.-]?id)?|sid|remember[_.-]me|cf[_.-](?:clearance|bm)|wordpress_(?:logged_in|sec)(?:_[a-z0-9]+)?",
        "auth(?:orization)?|cookie|bearer|csrf|xsrf|saml[_.-]?(?:response|request|art)|(?:client[_.-]?)?assertion|ticket",
        "(?:shared[_.-]?access[_.-]?)?signature|sig|otp|pin|cvv|cvc|ssn",
        // In one piece with what is before: `PGPASSWORD`, `stripeToken`.
        "[a-z0-9]*(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|(?:api|access|secret|private|license|subscription|shared|signing|auth|master|encryption)key|session[_.-]?id|credentials?|jwt)",
    ]
    .join("|");
    let of_value = "[_.-]?(?:confirm(?:ation)?|repeat|again|verify|value|hint)| header";
    format!("(?P<n>[_.-]*(?:[a-z0-9]+[_.-])*(?:{word}))(?P<t>{of_value})?(?P<p>s)?[0-9]?")
});

/// Such a name, a sign, then the value: quoted, also with backslashes (`e`), bare or behind an escaped
/// quotation mark (`k`), the first of a list (`a`), or an object that has it (`o`). Or both quoted as
/// parts of a list (`l`).
pub(super) static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    let (bare, name) = (r#"\s"'&,;<>{}()|\\"#, &*NAME);
    let value = format!(
        r#"(?P<a>\[{GAP})?(?:"(?P<d>(?:[^"\\]|\\.)*)|\\+"(?P<e>[^"\\]*)|'(?P<q>[^'\\]*))|(?P<k>{QUOTE})?(?P<b>[^{bare}:=][^{bare}]*)|(?P<o>\{{)"#
    );
    compiled(&format!(
        r#"(?i){BOUNDARY}{name}(?:(?:{QUOTE}|\\+)?(?:[\[\]]|%(?:25)?5[bd])*{GAP}(?P<s>{SIGN})(?P<g>{GAP})(?:{value})|{QUOTE}{GAP},{GAP}{QUOTE}(?P<l>[^"'&<>\\]+))"#
    ))
});

/// The next of a list, behind the one before.
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    let quoted = r#""(?P<d>(?:[^"\\]|\\.)*)"#;
    compiled(&format!(r#"^{QUOTE}?{GAP},{GAP}(?:{quoted}|{QUOTE}?(?P<v>[^"'&<>\\,\[\]{{}}]*))"#))
});

/// What an object has as its value: `{"value":"…"}`, `{"S":"…"}`.
static INNER: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r#"(?i)(?:^|[^a-z0-9_])(?:value|val|raw|plain|plaintext|text|content|data|string|s|_|\$t?|#text)(?:{QUOTE}|\\+)?{GAP}{SIGN}{GAP}(?:{QUOTE}(?P<v>[^"'&<>\\]+)|(?P<w>[^\s"'&,;<>{{}}\\]+))"#
    ))
});

/// How far into an object its value is looked for, in bytes.
const LONGEST_OBJECT: usize = 200;

/// Up to this length, in bytes, a value without quotes is looked into for further pairs.
const LONGEST_BARE: usize = 256;

/// An element of XML with such a name, up to its end.
static ELEMENT: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r"(?i)<(?:[a-z0-9_.-]+:)?{}(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?(?P<v>[^\s<>\[\]][^<>\]]*)",
        *NAME
    ))
});

/// Such a name as the value of `name` or as an element, and its own value beside it: forms and
/// `<meta>` of HTML, settings in XML, lists of fields in JSON.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r#"(?i)(?:(?:name|key)\\*["']?\s*[:=]\s*\\*["']|<(?:[a-z0-9_.-]+:)?){}(?:\\*["']|\s)[^<>{{}}]{{0,80}}?(?:value|content)\\*["']?\s*[:=]\s*\\*["'](?P<v>[^"'<>\\]+)"#,
        *NAME
    ))
});

/// Such a name with its value beside it and no sign between: in quotes, or in the next column of a
/// table.
static BESIDE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r#"(?i){BOUNDARY}{}(?:[ \t]+["'`](?P<v>[^"'`<>\\\r\n]+)["'`]|["'`]?[ \t]*[|│][ \t]*["'`]?(?P<w>[^\s"'`|│&,;<>\\]+))"#,
        *NAME
    ))
});

pub(super) fn by_neighbour(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if !signs.has(PAIR_WORD) || !text.contains(['"', '\'', '`', '|', '│']) {
        return;
    }
    for found in BESIDE.captures_iter(text) {
        let quoted = found.name("v");
        let (Some(strength), Some(value)) =
            (Strength::of(&found), quoted.or_else(|| found.name("w")))
        else {
            continue;
        };
        // A name of one word can be that of a thing: `secret "db-tls" not found`; and in the next
        // column can be the next name.
        let is_field = found.name("n").is_some_and(|name| {
            name.as_str().contains(['_', '-', '.']) && !name.as_str().contains(' ')
        });
        // What has a sign behind it is a name itself.
        let behind = found.get(0).and_then(|all| text.get(all.end()..)).unwrap_or_default();
        if behind.trim_start().starts_with([':', '=']) {
            continue;
        }
        let place = if is_field && quoted.is_some() { Place::Paired } else { Place::Listed };
        if unmarked(value.as_str()) && strength.holds(value.as_str(), place) {
            parts.push(Part { range: value.range(), kind: strength.kind });
        }
    }
}

pub(super) fn by_pair(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    let has_sign = signs.pair || signs.made_with(Made::PERCENT | Made::BACKSLASH);
    if !signs.has(PAIR_WORD) || !has_sign {
        return;
    }
    let mut at = 0;
    while let Some(found) = PAIR.captures_at(text, at) {
        let Some(name) = found.name("n") else { return };
        // What is not replaced may itself hold a pair.
        at = name.end();
        let Some(strength) = Strength::of(&found) else { continue };
        for (value, place) in values(text, &found) {
            let secret = text.get(value.clone()).unwrap_or_default();
            if !unmarked(secret) {
                continue;
            }
            let is_bare = found.name("b").is_some_and(|bare| bare.end() == value.end);
            let end = if is_bare && strength.is_password() {
                wording::end_of_password(text, value.end)
            } else {
                value.end
            };
            let rest = text.get(value.end..end).unwrap_or_default();
            if strength.holds(secret, place) || wording::pieces(rest).any(wording::is_opaque) {
                at = end;
                parts.push(Part { range: value.start..end, kind: strength.kind });
            }
        }
        // Else a text of nothing but names and signs would take time by the square of its length.
        if let Some(bare) = found.name("b").filter(|bare| bare.len() > LONGEST_BARE) {
            at = at.max(bare.end());
        }
    }
}

/// The values of a pair that was found, and where each stands.
fn values(text: &str, found: &Captures<'_>) -> Vec<(Range<usize>, Place)> {
    let group = |name: &str| found.name(name).map(|part| part.range());
    if let Some(open) = group("o") {
        let end = text.floor_char_boundary(open.end.saturating_add(LONGEST_OBJECT));
        let object = text.get(open.end..end).unwrap_or_default();
        let object = object.split('}').next().unwrap_or_default();
        let inner = INNER
            .captures_iter(object)
            .filter_map(|inner| inner.name("v").or_else(|| inner.name("w")));
        return inner
            .map(|value| (open.end + value.start()..open.end + value.end(), Place::Field))
            .collect();
    }
    if let Some(listed) = group("l") {
        let name = group("n").unwrap_or_default();
        let place =
            if is_pair(text, name.start, listed.end) { Place::Paired } else { Place::Listed };
        return vec![(listed, place)];
    }
    let sign = found.name("s").map_or("", |sign| sign.as_str());
    let quoted = ["d", "e", "q"].into_iter().find_map(group);
    let is_bare = quoted.is_none();
    let has_gap = sign.contains("->") || group("g").is_some_and(|gap| !gap.is_empty());
    let mut place = if is_bare && has_gap && group("k").is_none() {
        Place::Prose
    } else if sign.contains([':', '：', '>']) || sign.starts_with("==") {
        Place::Field
    } else {
        Place::Form
    };
    let Some(mut value) = quoted.or_else(|| group("b")) else { return Vec::new() };
    let mut is_list = group("a").is_some();
    if is_bare
        && text.get(value.clone()).is_some_and(|bare| bare.starts_with('[') && unmarked(bare))
    {
        is_list = true;
        value.start += 1;
        let bare = text.get(value.clone()).unwrap_or_default();
        value.end = value.start + bare.trim_end_matches(']').len();
    }
    if is_list {
        place = Place::Item;
    }
    let mut all = Vec::new();
    loop {
        let end = value.end;
        all.push((value, place));
        let next = text.get(end..).filter(|_| is_list).and_then(|rest| ITEM.captures(rest));
        let next = next.and_then(|next| next.name("d").or_else(|| next.name("v")));
        let Some(next) = next else { return all };
        value = end + next.start()..end + next.end();
    }
}

/// Whether two quoted texts, from within the first to within the second, are all that stands in
/// round brackets, or in square ones within others.
fn is_pair(text: &str, start: usize, end: usize) -> bool {
    let quotes = ['"', '\'', '\\'];
    let before = text.get(..start).unwrap_or_default().trim_end_matches(quotes);
    let within = |outer: &str| outer.trim_end().ends_with(['[', ',']);
    let after = text.get(end..).unwrap_or_default().trim_start_matches(quotes);
    after.starts_with([')', ']'])
        && (before.ends_with('(') || before.strip_suffix('[').is_some_and(within))
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
            let (Some(strength), Some(value)) = (Strength::of(&found), found.name("v")) else {
                continue;
            };
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
    /// In JSON or XML, in a table or a comparison, where `key` can be the name of anything.
    Field,
    /// In a query string, a form, a cookie or the like.
    Form,
    /// In a list of values.
    Item,
    /// Behind its name in a list, where names can stand as well.
    Listed,
    /// The same where name and value are alone.
    Paired,
}

/// What opens something with a key, as against keys of caches, tables and translations.
const CREDENTIALS: [&str; 17] = [
    "access",
    "account",
    "api",
    "app",
    "auth",
    "bearer",
    "encryption",
    "functions",
    "idempotency",
    "license",
    "master",
    "private",
    "refresh",
    "service",
    "session",
    "signing",
    "subscription",
];

/// What is before "pass" in words that mean no password.
const OTHER_PASSES: [&str; 6] = ["by", "com", "over", "sur", "tres", "under"];

/// How sure a name makes it that its value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sureness {
    /// The name is that of much else: only a long jumble is.
    Loose,
    /// Unless it reads like a word.
    Likely,
    /// Whatever it looks like.
    Certain,
}

use Sureness::{Certain, Likely, Loose};

/// What a name tells of its value.
struct Strength {
    kind: &'static str,
    sureness: Sureness,
    /// A short number can be the secret.
    is_numeric: bool,
    /// The name is also a plain word.
    is_plain: bool,
    /// The name is one of several values, or of a count.
    is_plural: bool,
}

impl Strength {
    /// `None` where the name only ends like one of a secret.
    fn of(found: &Captures<'_>) -> Option<Self> {
        let name = found.name("n")?.as_str().to_ascii_lowercase();
        let is_plural = found.name("p").is_some();
        let is_of_header = found.name("t").is_some_and(|tail| tail.as_str().starts_with(' '));
        let has = |word: &str| name.contains(word);
        let follows = |word: &str, openers: &[&str]| {
            name.strip_suffix(word).is_some_and(|before| {
                let before = before.trim_end_matches(['_', '.', '-', ' ']);
                openers.iter().any(|opener| before.ends_with(opener))
            })
        };
        let is_cursor = name.strip_suffix("token").is_some_and(wording::follows_cursor);
        if is_cursor || follows("pass", &OTHER_PASSES) {
            return None;
        }
        let certain_if = |is_certain| if is_certain { Certain } else { Likely };
        let (kind, sureness) = match () {
            () if has("passw") || has("passp") || has("passc") || has("pwd") => {
                ("password", Certain)
            }
            () if name.ends_with("pass") => ("password", Likely),
            () if has("secret") => ("secret", Certain),
            () if has("key") => ("api-key", certain_if(follows("key", &CREDENTIALS))),
            () if has("token") && is_plural => {
                ("token", certain_if(follows("token", &CREDENTIALS)))
            }
            () if has("token") => ("token", certain_if(name != "token")),
            () if has("authorization") => ("authorization", Certain),
            () if has("cookie") => ("cookie", Certain),
            () if has("bearer") => ("token", Certain),
            () if has("srf") => ("token", Likely),
            () if has("ticket") => ("token", Loose),
            () if has("client") && has("assertion") || has("saml") => ("credentials", Certain),
            () if has("assertion") => ("credentials", Loose),
            () if has("sig") => ("signature", Likely),
            () if has("sess") || has("sid") || has("remember") || has("cf") || has("wordpress") => {
                ("session", Likely)
            }
            () if has("credential") || has("jwt") => ("credentials", Certain),
            () => ("secret", Likely),
        };
        let is_numeric = ["otp", "pin", "cvv", "cvc", "ssn", "passcode"]
            .contains(&name.rsplit(['_', '.', '-']).next().unwrap_or_default());
        let is_plain = sureness != Certain
            || is_of_header
            || name.contains(' ')
            || name.starts_with("credential");
        Some(Self { kind, sureness, is_numeric, is_plain, is_plural })
    }

    /// Whether the value is one that people choose, with any sign in it.
    fn is_password(&self) -> bool {
        self.sureness == Certain && (self.kind == "password" || self.kind == "secret")
    }

    fn holds(&self, value: &str, place: Place) -> bool {
        let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let is_word_of_json = ["true", "false", "null", "none", "nil", "undefined"]
            .iter()
            .any(|w| value.eq_ignore_ascii_case(w));
        // Masked already, or what stands between two texts in quotes.
        let is_nothing = value.bytes().all(|b| b"*x.#-,:;{}[] ".contains(&b));
        let is_said = matches!(place, Place::Field | Place::Item)
            && wording::is_message(value)
            && !(self.is_numeric && value.bytes().any(|b| b.is_ascii_digit()));
        if is_word_of_json || is_nothing || is_said {
            return false;
        }
        let is_certain = self.sureness == Certain;
        let is_password = self.is_password();
        if is_number && self.is_numeric {
            return value.len() >= 3;
        }
        if is_number && (self.is_plural || value.len() < 6 && !is_password) {
            return false;
        }
        match place {
            _ if self.sureness == Loose => {
                is_service_ticket(value) || wording::is_long_and_opaque(value)
            }
            _ if !is_password && wording::is_moment(value) => false,
            Place::Listed => {
                let is_field = self.kind == "authorization" || self.kind == "cookie";
                is_field && value.contains(['=', ' ']) || wording::is_opaque_or_long(value)
            }
            _ if self.is_plural && (!is_certain || place == Place::Prose) => {
                wording::is_opaque_or_long(value)
            }
            Place::Paired => {
                wording::is_opaque_or_long(value) || is_certain && !wording::is_word(value)
            }
            Place::Prose if is_password => !wording::is_word(value),
            Place::Prose => {
                wording::is_opaque_or_long(value)
                    || !self.is_plain && value.len() >= 8 && !wording::is_word(value)
            }
            Place::Item | Place::Form if is_certain => true,
            Place::Field if is_certain => !wording::is_word(value),
            // What a limit counts by is a key as well, most often an address or a plain name.
            Place::Field | Place::Item | Place::Form if self.kind == "api-key" => {
                wording::is_opaque_or_long(value)
            }
            Place::Field | Place::Item | Place::Form => {
                value.len() >= 4 && !wording::is_word(value)
            }
        }
    }
}

/// Whether `value` is a ticket of CAS (its protocol, section 3): `ST-1856339-aA5Yuvrxzpv8Tau1cYQ7`.
fn is_service_ticket(value: &str) -> bool {
    let mut parts = value.splitn(3, '-');
    matches!(parts.next(), Some("ST" | "PT" | "PGT" | "PGTIOU" | "TGT"))
        && parts.nth(1).is_some_and(|rest| !rest.is_empty())
}
