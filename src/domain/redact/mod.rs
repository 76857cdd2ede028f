//! Finds what looks secret in free text and replaces it by what it was.
//!
//! Kinds of rules, each behind a cheap look at the text, since every stored field of every event
//! comes by here:
//!
//! - prefixes that vendors give their tokens ([`PREFIXES`]),
//! - shapes (URLs with a password, `Authorization` values, cookies, e-mail addresses, key blocks),
//!   as regular expressions,
//! - names with a value: pairs such as `token=…`, elements such as `<apiKey>…</apiKey>`,
//! - words before or after what looks made up, in prose ([`wording`]) and in paths (`/reset/…`),
//! - numbers that prove themselves (card numbers by Luhn, IBANs by their check digits) or that have
//!   a form of their own (social security numbers of the USA).
//!
//! It leans to removing too much. It does not hunt for mere randomness, except in routes: request
//! ids, ray ids and hashes look random too, and they are what joins are made of.

mod wording;

use super::key_hash::KeyHasher;
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A text without what looked secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text that may be stored.
    pub text: String,
    /// How many parts were replaced.
    pub count: u32,
}

/// Replaces each credential-like part of `input` by `[redacted: <kind>]`. What it returns, it
/// leaves alone the next time.
pub fn text(input: &str) -> Redacted {
    owned(input.to_owned())
}

/// [`text`] of a text that is not needed any more; the usual one comes back untouched.
pub fn owned(text: String) -> Redacted {
    let mut out = Redacted { text, count: 0 };
    // A replaced part can lay bare another one; each round takes text away, so this ends early.
    for _ in 0..MAX_ROUNDS {
        let found = find(&out.text);
        if found.is_empty() {
            return out;
        }
        out.count = out.count.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
        out.text = replace(&out.text, &found);
    }
    Redacted { text: marker("unsettled"), count: out.count }
}

/// The same for the path of a request, which nothing is joined by. An encoded query string goes as
/// a plain one does, and parts that are too jumbled for names and for ids of a common form
/// (hexadecimal texts, UUIDs, ULIDs) are taken for secrets.
pub fn route(path: &str) -> Redacted {
    let (path, query) = match ENCODED_QUERY.find(path) {
        Some(mark) => (
            path.get(..mark.start()).unwrap_or_default(),
            path.get(mark.end()..).map(|query| text(&format!("?{query}")).count),
        ),
        None => (path, None),
    };
    let mut out = text(path);
    out.count = out.count.saturating_add(query.unwrap_or_default());
    if out.text.len() >= 20 && out.text.split('/').any(wording::is_jumbled_segment) {
        let parts: Vec<String> = (out.text.split('/'))
            .map(|part| {
                if !wording::is_jumbled_segment(part) {
                    return part.to_owned();
                }
                out.count = out.count.saturating_add(1);
                marker("token")
            })
            .collect();
        out.text = parts.join("/");
    }
    out
}

/// A question mark, encoded once or twice.
static ENCODED_QUERY: LazyLock<Regex> = LazyLock::new(|| compiled("%(?:25)?3[Ff]"));

/// The same for an id: where any part looks secret, the whole becomes `redacted:<kind>:<HMAC>`, so
/// that different ids stay different (DESIGN 14).
pub fn id(input: &str, hasher: &KeyHasher) -> Redacted {
    match kind_of(input) {
        Some(kind) => {
            let digest: String = hasher.hex(input).chars().take(32).collect();
            Redacted { text: format!("redacted:{kind}:{digest}"), count: 1 }
        }
        None => Redacted { text: input.to_owned(), count: 0 },
    }
}

/// The kind of the first credential-like part, if there is one. Ids that [`id`] wrote have none.
pub fn kind_of(input: &str) -> Option<&'static str> {
    if is_redacted_id(input) {
        return None;
    }
    find(input).first().map(|part| part.kind)
}

/// More rounds than any text needs; beyond it the whole text goes.
const MAX_ROUNDS: usize = 8;

/// One part to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    range: Range<usize>,
    kind: &'static str,
}

fn marker(kind: &str) -> String {
    format!("[redacted: {kind}]")
}

fn is_redacted_id(text: &str) -> bool {
    text.strip_prefix("redacted:").and_then(|rest| rest.split_once(':')).is_some_and(
        |(kind, digest)| {
            kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
                && digest.len() == 32
                && digest.bytes().all(|b| b.is_ascii_hexdigit())
        },
    )
}

/// The parts to replace, in order, none touching another.
fn find(text: &str) -> Vec<Part> {
    let made = Made::of(text);
    if text.len() < SHORTEST_TOKEN && made.is_one_word() {
        return Vec::new();
    }
    let signs = Signs::of(text, made);
    let shortest = SHORTEST_PLAIN_SHAPES[usize::from(!made.has(Made::U))];
    if text.len() < shortest && made.is_plain() && signs.digits < MIN_NUMBER_DIGITS {
        // What has a shape of its own has more than letters, digits and dashes, or is longer.
        let mut parts = Vec::new();
        by_prefix(text, &signs, &mut parts);
        if parts.is_empty() {
            return parts;
        }
    }
    find_by(text, &signs)
}

fn find_by(text: &str, signs: &Signs) -> Vec<Part> {
    let mut parts = Vec::new();
    by_prefix(text, signs, &mut parts);
    by_shape(text, signs, &mut parts);
    by_pair(text, signs, &mut parts);
    by_element(text, signs, &mut parts);
    wording::by_wording(text, signs, &mut parts);
    by_path(text, signs, &mut parts);
    by_number(text, signs, &mut parts);
    parts.sort_by_key(|part| (part.range.start, usize::MAX - part.range.end));
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            // A password before a host looks like an address; the host is to stay.
            Some(last)
                if part.range.start < last.range.end
                    && (last.kind, part.kind) == ("url-credentials", "email") => {}
            Some(last) if part.range.start < last.range.end => {
                last.range.end = last.range.end.max(part.range.end);
            }
            _ => merged.push(part),
        }
    }
    merged
}

fn replace(text: &str, parts: &[Part]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for part in parts {
        out.push_str(text.get(from..part.range.start).unwrap_or_default());
        out.push_str(&marker(part.kind));
        from = part.range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

// ---- the cheap look ---------------------------------------------------------------------------

/// The kinds of bytes in a text, a bit for each.
#[derive(Debug, Default, Clone, Copy)]
struct Made(u16);

impl Made {
    const DIGIT: u16 = 1;
    const DASH: u16 = 1 << 1;
    /// The letter `u`: of ids in hexadecimal, UUIDs and the like none has it.
    const U: u16 = 1 << 2;
    const DOT: u16 = 1 << 3;
    const SLASH: u16 = 1 << 4;
    const PLUS: u16 = 1 << 5;
    const AT: u16 = 1 << 6;
    const PERCENT: u16 = 1 << 7;
    const SEMICOLON: u16 = 1 << 8;
    /// `:` and `=`.
    const SIGN: u16 = 1 << 9;
    /// White space, also what of other bytes may be some.
    const SPACE: u16 = 1 << 10;
    const OTHER: u16 = 1 << 11;
    const BACKSLASH: u16 = 1 << 12;
    /// `<`, which begins elements.
    const ANGLE: u16 = 1 << 13;
    /// `=` alone.
    const EQUALS: u16 = 1 << 14;

    fn of(text: &str) -> Self {
        Self(text.bytes().fold(0, |made, byte| made | KINDS[usize::from(byte)]))
    }

    fn has(self, kinds: u16) -> bool {
        self.0 & kinds != 0
    }

    /// Whether nothing sets words apart as names from values, schemes from tokens or users from
    /// hosts, and no number is set in dashes: only a token by itself can match.
    fn is_one_word(self) -> bool {
        let is_number = self.has(Self::DIGIT) && self.has(Self::DASH);
        !is_number && !self.has(!(Self::DIGIT | Self::DASH | Self::U | Self::DOT | Self::SEMICOLON))
    }

    /// Whether it is but letters, digits, `_` and `-`.
    fn is_plain(self) -> bool {
        !self.has(!(Self::DIGIT | Self::DASH | Self::U))
    }
}

/// The kind of each byte; letters and `_` have none of their own.
static KINDS: [u16; 256] = {
    let mut kinds = [Made::SPACE; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        kinds[byte as usize] = match byte {
            b'u' | b'U' => Made::U,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => 0,
            b'0'..=b'9' => Made::DIGIT,
            b'-' => Made::DASH,
            b'.' => Made::DOT,
            b'/' => Made::SLASH,
            b'+' => Made::PLUS,
            b'@' => Made::AT,
            b'%' => Made::PERCENT,
            b';' => Made::SEMICOLON,
            b':' => Made::SIGN,
            b'=' => Made::SIGN | Made::EQUALS,
            b'\\' => Made::BACKSLASH,
            b'<' => Made::ANGLE,
            b'\t'..=b'\r' | b' ' => Made::SPACE,
            _ => Made::OTHER,
        };
        byte += 1;
    }
    kinds
};

/// The length of the shortest token that a prefix gives away. Numbers and what has a shape of its
/// own are longer.
const SHORTEST_TOKEN: usize = {
    let mut shortest = 14;
    let mut i = 0;
    while i < PREFIXES.len() {
        let length = PREFIXES[i].0.len() + PREFIXES[i].2;
        if length < shortest {
            shortest = length;
        }
        i += 1;
    }
    shortest
};

/// The lengths of the shortest texts of letters, digits, `_` and `-` alone that have a shape of their
/// own: with a `u` `mailchimp-key`, without `aws-secret`.
const SHORTEST_PLAIN_SHAPES: [usize; 2] = [36, 40];

/// What one pass over the bytes tells about which rules can match at all.
#[derive(Debug, Default)]
struct Signs {
    made: Made,
    /// The sign of a pair with a name before it; in a time of day it is a number.
    pair: bool,
    dashes: bool,
    /// Which of [`WORDS`] may begin somewhere: a bit for each group.
    words: u8,
    /// Most digits in a row, spaces and dashes between them passed over.
    digits: usize,
    /// Longest run of letters, digits, `_` and `-`.
    longest_run: usize,
    /// Longest run of letters, digits, `/` and `+`.
    jumble: usize,
}

impl Signs {
    fn of(text: &str, made: Made) -> Self {
        let digits = if made.has(Made::DIGIT) { most_digits(text) } else { 0 };
        if made.is_plain() {
            // Ids, for the most part: no word in them tells anything.
            let (longest_run, jumble) = (text.len(), text.len());
            return Self { made, digits, longest_run, jumble, ..Self::default() };
        }
        let mut signs = Self { made, digits, ..Self::default() };
        let (mut run, mut jumble) = (0_usize, 0_usize);
        let mut previous = 0_u8;
        let mut three = 0;
        // Whether a letter is in the word so far.
        let mut is_named = false;
        for &byte in text.as_bytes() {
            if byte.is_ascii_alphanumeric() {
                run += 1;
                jumble += 1;
                if byte.is_ascii_digit() {
                    three = 0;
                } else {
                    is_named = true;
                    three = pushed(three, byte);
                    signs.words |= WORD_BITS[three];
                }
            } else {
                three = 0;
                match byte {
                    b'_' | b'-' => {
                        run += 1;
                        signs.dashes |= byte == b'-' && previous == b'-';
                    }
                    _ => signs.longest_run = signs.longest_run.max(std::mem::take(&mut run)),
                }
                match byte {
                    b'/' | b'+' => jumble += 1,
                    _ => signs.jumble = signs.jumble.max(std::mem::take(&mut jumble)),
                }
                let is_number = previous.is_ascii_digit() && !is_named;
                signs.pair |= byte == b'=' || byte == b':' && !is_number;
                is_named = false;
            }
            previous = byte;
        }
        signs.longest_run = signs.longest_run.max(run);
        signs.jumble = signs.jumble.max(jumble);
        signs
    }

    fn has(&self, group: u8) -> bool {
        self.words & group != 0
    }

    fn made_with(&self, kinds: u16) -> bool {
        self.made.has(kinds)
    }
}

/// Most digits in a row, spaces and dashes between them passed over.
fn most_digits(text: &str) -> usize {
    let (mut most, mut digits) = (0, 0);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                most = most.max(digits);
            }
            b' ' | b'-' => {}
            _ => digits = 0,
        }
    }
    most
}

/// Names of pairs.
const PAIR_WORD: u8 = 1;
/// The words "authorization" and "cookie".
const FIELD_WORD: u8 = 1 << 1;
/// The word "code".
const CODE_WORD: u8 = 1 << 2;
/// Attributes of a cookie.
const ATTRIBUTE_WORD: u8 = 1 << 3;
/// Schemes of `Authorization` that are told by more than [`wording`].
const SCHEME_WORD: u8 = 1 << 4;
/// Words before which or after which a secret stands in a path.
const LINK_WORD: u8 = 1 << 5;
/// What stands before a secret in prose.
const TOKEN_WORD: u8 = 1 << 6;
/// Words of a webhook's address.
const HOOK_WORD: u8 = 1 << 7;

/// Three letters of the words that rules wait for, and the rules' group.
const WORDS: &[(&[u8; 3], u8)] = &[
    (b"pas", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"pwd", PAIR_WORD | TOKEN_WORD),
    (b"sec", PAIR_WORD | ATTRIBUTE_WORD | TOKEN_WORD | LINK_WORD),
    (b"key", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"tok", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"aut", PAIR_WORD | FIELD_WORD),
    (b"ses", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"sid", PAIR_WORD),
    (b"rem", PAIR_WORD),
    (b"cle", PAIR_WORD),
    (b"cre", PAIR_WORD | TOKEN_WORD),
    (b"jwt", PAIR_WORD | TOKEN_WORD),
    (b"sig", PAIR_WORD | TOKEN_WORD),
    (b"otp", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"pin", PAIR_WORD | TOKEN_WORD),
    (b"cvv", PAIR_WORD),
    (b"cvc", PAIR_WORD),
    (b"ssn", PAIR_WORD),
    (b"cod", CODE_WORD | TOKEN_WORD),
    (b"coo", FIELD_WORD | TOKEN_WORD),
    (b"pat", ATTRIBUTE_WORD),
    (b"dom", ATTRIBUTE_WORD),
    (b"exp", ATTRIBUTE_WORD),
    (b"max", ATTRIBUTE_WORD),
    (b"sam", ATTRIBUTE_WORD),
    (b"htt", ATTRIBUTE_WORD),
    (b"par", ATTRIBUTE_WORD),
    (b"bea", SCHEME_WORD),
    (b"bas", SCHEME_WORD),
    (b"dig", SCHEME_WORD),
    (b"haw", SCHEME_WORD),
    (b"mac", SCHEME_WORD),
    (b"aws", SCHEME_WORD),
    // Of "SharedKey".
    (b"edk", SCHEME_WORD),
    (b"neg", TOKEN_WORD),
    (b"ntl", TOKEN_WORD),
    (b"dpo", TOKEN_WORD),
    (b"web", HOOK_WORD),
    // Of "reset", "verify", "confirm", "activate", "invite", "join", "magic", "unsubscribe",
    // "recover", "hook" and "share": letters that few other words have.
    (b"ese", LINK_WORD),
    (b"rif", LINK_WORD),
    (b"irm", LINK_WORD),
    (b"iva", LINK_WORD),
    (b"vit", LINK_WORD),
    (b"joi", LINK_WORD),
    (b"gic", LINK_WORD),
    (b"bsc", LINK_WORD),
    (b"cov", LINK_WORD),
    (b"hoo", LINK_WORD),
    (b"sha", LINK_WORD),
];

/// The last three letters as a number of 15 bits, after `letter`. Case does not matter.
const fn pushed(three: usize, letter: u8) -> usize {
    ((three << 5) | (letter & 0x1f) as usize) & 0x7fff
}

/// For each three letters the groups that wait for them.
static WORD_BITS: [u8; 0x8000] = {
    let mut bits = [0; 0x8000];
    let mut i = 0;
    while i < WORDS.len() {
        let [a, b, c] = *WORDS[i].0;
        bits[pushed(pushed(pushed(0, a), b), c)] |= WORDS[i].1;
        i += 1;
    }
    bits
};

// ---- prefixes ---------------------------------------------------------------------------------

/// What may follow a prefix.
#[derive(Debug, Clone, Copy)]
enum Tail {
    /// Letters and digits.
    Alnum,
    /// Also `_` and `-`.
    Word,
    /// As `Word`, and `.`.
    Dots,
    /// As `Word`, and `+`, `/`, `=`, `.`.
    Base64,
    /// Hexadecimal digits, exactly as many as asked for.
    Hex,
    /// As `Word`, with at least one digit: what the prefix begins may be common words.
    Mixed,
}

impl Tail {
    fn takes(self, byte: u8) -> bool {
        let alnum = byte.is_ascii_alphanumeric();
        match self {
            Self::Alnum => alnum,
            Self::Word | Self::Mixed => alnum || b"_-".contains(&byte),
            Self::Dots => alnum || b"_-.".contains(&byte),
            Self::Base64 => alnum || b"_-.+/=".contains(&byte),
            Self::Hex => byte.is_ascii_hexdigit(),
        }
    }

    fn fits(self, body: &[u8], next: Option<&u8>, least: usize) -> bool {
        match self {
            Self::Hex => body.len() == least && !next.is_some_and(u8::is_ascii_alphanumeric),
            // Whether a digit is among them is asked of `Runs`.
            Self::Mixed | Self::Alnum | Self::Word | Self::Dots | Self::Base64 => {
                body.len() >= least
            }
        }
    }
}

/// Where the run of characters that a [`Tail`] takes ends, and where the next digit stands.
/// Positions are asked in about ascending order; what was walked once is not walked again, else a
/// text of nothing but prefixes would take time by the square of its length.
#[derive(Default)]
struct Runs {
    /// For each tail a stretch that it takes, up to but without the byte that ends it.
    taken: [Range<usize>; 6],
    /// A stretch without digits, up to one or to the end of the text.
    digitless: Range<usize>,
}

impl Runs {
    /// The end of the run that begins at `from`.
    fn end(&mut self, tail: Tail, bytes: &[u8], from: usize) -> usize {
        extend(&mut self.taken[tail as usize], bytes, from, |byte| tail.takes(byte))
    }

    /// Whether there is a digit from `from` to before `end`.
    fn has_digit(&mut self, bytes: &[u8], from: usize, end: usize) -> bool {
        extend(&mut self.digitless, bytes, from, |byte| !byte.is_ascii_digit()) < end
    }
}

/// The first position from `from` on where `takes` does not hold. `known` is a stretch where it
/// holds and that ends where it does not; walking stops where that stretch is met.
fn extend(
    known: &mut Range<usize>,
    bytes: &[u8],
    from: usize,
    takes: impl Fn(u8) -> bool,
) -> usize {
    if !(known.start..=known.end).contains(&from) || known.start >= known.end {
        let mut end = from;
        while bytes.get(end).is_some_and(|byte| takes(*byte)) {
            end += 1;
            if end == known.start && known.start < known.end {
                end = known.end;
                break;
            }
        }
        *known = from..end;
    }
    known.end
}

/// A vendor's prefix: (prefix, characters that may follow, how many at least, kind).
type Prefix = (&'static str, Tail, usize, &'static str);

/// Token prefixes as the vendors document them, grouped by their first character.
const PREFIXES: &[Prefix] = &[
    ("1//0", Tail::Word, 24, "google-token"),
    ("ABIA", Tail::Alnum, 12, "aws-key"),
    ("AC", Tail::Hex, 32, "twilio-key"),
    ("ACCA", Tail::Alnum, 12, "aws-key"),
    ("AGE-SECRET-KEY-1", Tail::Alnum, 20, "age-key"),
    ("AIDA", Tail::Alnum, 16, "aws-key"),
    ("AIza", Tail::Word, 20, "google-key"),
    ("AKCp", Tail::Alnum, 20, "artifactory-key"),
    ("AKIA", Tail::Alnum, 12, "aws-key"),
    ("AROA", Tail::Alnum, 16, "aws-key"),
    ("ASIA", Tail::Alnum, 12, "aws-key"),
    ("ATATT3", Tail::Dots, 16, "atlassian-token"),
    ("ATCTT3", Tail::Dots, 16, "atlassian-token"),
    ("APA91b", Tail::Word, 40, "firebase-key"),
    ("CFPAT-", Tail::Word, 20, "contentful-token"),
    ("EAA", Tail::Alnum, 40, "facebook-token"),
    ("FlyV1 ", Tail::Base64, 16, "fly-token"),
    ("GOCSPX-", Tail::Word, 16, "google-secret"),
    ("HRKU-", Tail::Word, 20, "heroku-key"),
    ("NRAK-", Tail::Alnum, 16, "new-relic-key"),
    ("PMAK-", Tail::Word, 20, "postman-key"),
    ("SG.", Tail::Dots, 20, "sendgrid-key"),
    ("SK", Tail::Hex, 32, "twilio-key"),
    ("amzn.mws.", Tail::Word, 20, "aws-key"),
    ("atlasv1.", Tail::Word, 20, "terraform-token"),
    ("dapi", Tail::Hex, 32, "databricks-token"),
    ("dckr_oat_", Tail::Word, 16, "docker-token"),
    ("dckr_pat_", Tail::Word, 16, "docker-token"),
    ("doo_v1_", Tail::Alnum, 20, "digitalocean-token"),
    ("dop_v1_", Tail::Alnum, 20, "digitalocean-token"),
    ("dor_v1_", Tail::Alnum, 20, "digitalocean-token"),
    ("dp.pt.", Tail::Alnum, 20, "doppler-token"),
    ("dp.st.", Tail::Dots, 20, "doppler-token"),
    ("dt0c01.", Tail::Dots, 20, "dynatrace-token"),
    ("eyJ", Tail::Dots, 10, "jwt"),
    ("figd_", Tail::Word, 20, "figma-token"),
    ("fm2_", Tail::Base64, 16, "fly-token"),
    ("fo1_", Tail::Word, 20, "fly-token"),
    ("gho_", Tail::Alnum, 16, "github-token"),
    ("ghp_", Tail::Alnum, 16, "github-token"),
    ("ghr_", Tail::Alnum, 16, "github-token"),
    ("ghs_", Tail::Dots, 16, "github-token"),
    ("ghu_", Tail::Alnum, 16, "github-token"),
    ("github_pat_", Tail::Word, 20, "github-token"),
    ("glagent-", Tail::Word, 16, "gitlab-token"),
    ("glc_", Tail::Base64, 20, "grafana-token"),
    ("glcbt-", Tail::Word, 16, "gitlab-token"),
    ("gldt-", Tail::Word, 16, "gitlab-token"),
    ("glft-", Tail::Word, 16, "gitlab-token"),
    ("glimt-", Tail::Word, 16, "gitlab-token"),
    ("gloas-", Tail::Word, 16, "gitlab-token"),
    ("glpat-", Tail::Dots, 16, "gitlab-token"),
    ("glptt-", Tail::Word, 16, "gitlab-token"),
    ("glrt-", Tail::Dots, 16, "gitlab-token"),
    ("glsa_", Tail::Word, 20, "grafana-token"),
    ("glsoat-", Tail::Word, 16, "gitlab-token"),
    ("gsk_", Tail::Alnum, 20, "groq-key"),
    ("hf_", Tail::Alnum, 20, "hugging-face-token"),
    ("hvb.", Tail::Word, 20, "vault-token"),
    ("hvr.", Tail::Word, 20, "vault-token"),
    ("hvs.", Tail::Word, 20, "vault-token"),
    ("key-", Tail::Hex, 32, "mailgun-key"),
    ("lin_api_", Tail::Alnum, 20, "linear-key"),
    ("lsv2_", Tail::Word, 20, "langsmith-key"),
    ("nfp_", Tail::Alnum, 20, "netlify-token"),
    ("npm_", Tail::Alnum, 20, "npm-token"),
    ("ntn_", Tail::Alnum, 20, "notion-token"),
    ("ops_eyJ", Tail::Dots, 10, "one-password-token"),
    ("oy2", Tail::Alnum, 40, "nuget-key"),
    ("pat-eu1-", Tail::Word, 20, "hubspot-token"),
    ("pat-na1-", Tail::Word, 20, "hubspot-token"),
    ("phc_", Tail::Alnum, 20, "posthog-key"),
    ("phx_", Tail::Alnum, 20, "posthog-key"),
    ("pplx-", Tail::Alnum, 20, "perplexity-key"),
    ("pscale_oauth_", Tail::Dots, 16, "planetscale-token"),
    ("pscale_pw_", Tail::Dots, 16, "planetscale-token"),
    ("pscale_tkn_", Tail::Dots, 16, "planetscale-token"),
    ("pypi-Ag", Tail::Word, 16, "pypi-token"),
    ("r8_", Tail::Alnum, 20, "replicate-token"),
    ("rk_live_", Tail::Alnum, 8, "stripe-key"),
    ("rk_test_", Tail::Alnum, 8, "stripe-key"),
    ("rubygems_", Tail::Alnum, 20, "rubygems-key"),
    ("sbp_", Tail::Alnum, 20, "supabase-token"),
    ("secret_", Tail::Mixed, 20, "secret-key"),
    ("shpat_", Tail::Alnum, 20, "shopify-token"),
    ("shpca_", Tail::Alnum, 20, "shopify-token"),
    ("shppa_", Tail::Alnum, 20, "shopify-token"),
    ("shpss_", Tail::Alnum, 20, "shopify-token"),
    ("shippo_live_", Tail::Alnum, 16, "shippo-token"),
    ("sk-", Tail::Mixed, 16, "secret-key"),
    ("sk_live_", Tail::Word, 8, "stripe-key"),
    ("sk_test_", Tail::Word, 8, "stripe-key"),
    ("sl.", Tail::Word, 40, "dropbox-token"),
    ("sntrys_", Tail::Base64, 20, "sentry-token"),
    ("sntryu_", Tail::Alnum, 20, "sentry-token"),
    ("sq0atp-", Tail::Word, 16, "square-token"),
    ("sq0csp-", Tail::Word, 16, "square-token"),
    ("whsec_", Tail::Base64, 16, "webhook-secret"),
    ("xai-", Tail::Mixed, 20, "xai-key"),
    ("xapp-", Tail::Word, 12, "slack-token"),
    ("xkeysib-", Tail::Word, 20, "brevo-key"),
    ("xoxa-", Tail::Word, 8, "slack-token"),
    ("xoxb-", Tail::Word, 8, "slack-token"),
    ("xoxc-", Tail::Word, 8, "slack-token"),
    ("xoxd-", Tail::Base64, 8, "slack-token"),
    ("xoxe-", Tail::Word, 8, "slack-token"),
    ("xoxe.", Tail::Word, 8, "slack-token"),
    ("xoxo-", Tail::Word, 8, "slack-token"),
    ("xoxp-", Tail::Word, 8, "slack-token"),
    ("xoxr-", Tail::Word, 8, "slack-token"),
    ("xoxs-", Tail::Word, 8, "slack-token"),
    ("ya29.", Tail::Word, 12, "google-token"),
];

/// For each byte the stretch of [`PREFIXES`] that begins with it.
static STARTS: [(usize, usize); 256] = {
    let mut starts = [(0, 0); 256];
    let mut i = 0;
    while i < PREFIXES.len() {
        let first = PREFIXES[i].0.as_bytes()[0] as usize;
        if starts[first].1 == 0 {
            starts[first].0 = i;
        }
        i += 1;
        starts[first].1 = i;
    }
    starts
};

/// A letter or digit.
const IN_WORD: u8 = 1;
/// The first byte of a prefix.
const BEGINS_PREFIX: u8 = 1 << 1;

/// Both marks of each byte.
static MARKS: [u8; 256] = {
    let mut marks = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        let at = byte as usize;
        if byte.is_ascii_alphanumeric() {
            marks[at] |= IN_WORD;
        }
        if STARTS[at].1 > 0 {
            marks[at] |= BEGINS_PREFIX;
        }
        byte += 1;
    }
    marks
};

fn by_prefix(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if text.len() < SHORTEST_TOKEN {
        return;
    }
    let bytes = text.as_bytes();
    let has_escapes = signs.made_with(Made::PERCENT | Made::BACKSLASH);
    let mut runs = Runs::default();
    let mut mark = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let before = std::mem::replace(&mut mark, MARKS[usize::from(byte)]);
        let is_inside = before & IN_WORD != 0;
        if mark & BEGINS_PREFIX == 0 || is_inside && !(has_escapes && starts_word(bytes, at)) {
            continue;
        }
        let (from, to) = STARTS[usize::from(byte)];
        let rest = bytes.get(at..).unwrap_or_default();
        let candidates = PREFIXES.get(from..to).unwrap_or_default();
        parts.extend(candidates.iter().find_map(|(prefix, tail, least, kind)| {
            rest.strip_prefix(prefix.as_bytes())?;
            let start = at + prefix.len();
            let end = runs.end(*tail, bytes, start);
            let fits = tail.fits(bytes.get(start..end)?, bytes.get(end), *least)
                && (!matches!(tail, Tail::Mixed) || runs.has_digit(bytes, start, end));
            fits.then_some(Part { range: at..end, kind })
        }));
    }
}

/// Whether a word begins at `at`: at the start, after anything but a letter or digit, or after an
/// escape: `%20`, `\n` or `\u0026` as they are written.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|i| bytes.get(i)) else { return true };
    if !before.is_ascii_alphanumeric() {
        return true;
    }
    let escape = |mark: &[u8], digits: usize| {
        let from = at.checked_sub(mark.len() + digits);
        let escape = from.and_then(|from| bytes.get(from..at));
        escape
            .and_then(|escape| escape.strip_prefix(mark))
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    escape(b"%", 2)
        || escape(b"\\u", 4)
        || matches!(before, b'n' | b'r' | b't')
            && at.checked_sub(2).and_then(|i| bytes.get(i)) == Some(&b'\\')
}

// ---- shapes -----------------------------------------------------------------------------------

/// Where a word begins: as [`starts_word`] sees it, in patterns without regard to case.
const BOUNDARY: &str = r"(?:^|[^a-z0-9]|%(?:25)?[0-9a-f]{2}|\\u[0-9a-f]{4}|\\[nrt])";

/// A quotation mark: as it is, after backslashes, or as HTML, URLs and JSON escape it.
const QUOTE: &str = r#"(?:\\*["']|&(?:quot|apos|\#3[49]|\#x2[27]);|%(?:25)?2[27]|\\u002[27])"#;

/// A shape: the group `v` of the expression is replaced, where `guard` agrees.
struct Shape {
    kind: &'static str,
    pattern: Regex,
    wants: fn(&Signs) -> bool,
    guard: fn(&str) -> bool,
}

#[expect(clippy::expect_used, reason = "the pattern is a constant; a test compiles each")]
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let shape = |kind, pattern: &str, wants, guard| {
        let pattern = compiled(&pattern.replace("BOUNDARY", BOUNDARY));
        Shape { kind, pattern, wants, guard }
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
            r#"://(?P<v>[^\s/?#@"'<>]+)@"#,
            |s| s.made_with(Made::AT) && s.made_with(Made::SLASH),
            always,
        ),
        // Also internationalised (RFC 6531), and percent-encoded in an address.
        shape(
            "email",
            r"(?P<v>[\p{L}\p{M}\p{N}._%+-]+(?:'[\p{L}\p{M}\p{N}._%+-]+)*(?:@|%(?:25)?40)(?:(?:[\p{L}\p{M}\p{N}_-]|%[0-9A-Fa-f]{2})+\.)+(?:[Xx][Nn]--[A-Za-z0-9-]+|[\p{L}\p{M}]{2,}|(?:%[0-9A-Fa-f]{2}){4,}))",
            |s| s.made_with(Made::AT | Made::PERCENT),
            always,
        ),
        // Header fields inside a text: all up to the end of the line or the quote.
        shape(
            "authorization",
            r#"(?i)authorization\\*["']?\s*[:=]\s*\\*["']?(?P<v>[^\s"'\\][^\r\n"'\\]*)"#,
            |s| s.pair && s.has(FIELD_WORD),
            always,
        ),
        shape(
            "cookie",
            r#"(?i)(?:^|[^a-z0-9])(?:set-)?cookies?\\*["']?\s*[:=]\s*\\*["']?(?P<v>[^\s"'\\][^\r\n"\\]*)"#,
            |s| s.pair && s.has(FIELD_WORD),
            always,
        ),
        shape(
            "cookie",
            r"(?i)(?:^|[^;\s]\s+|[^;\sa-z0-9_.!%-])[a-z0-9_.!%-]+=(?P<v>[^;\s,]+)\s*;\s*(?:path=|domain=|expires=|max-age=|samesite=|secure(?:;|$)|httponly|partitioned)",
            |s| s.made_with(Made::SIGN) && s.made_with(Made::SEMICOLON) && s.has(ATTRIBUTE_WORD),
            always,
        ),
        shape(
            "bearer",
            r"(?i)BOUNDARYbearer(?:\s+|%20|\+)(?P<v>[a-z0-9._~+/-]{3,}=*)",
            |s| s.has(SCHEME_WORD),
            |value| {
                let value = value.trim_end_matches('.');
                !BEARER_WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
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
            "discord-webhook",
            r"webhooks/(?P<v>[0-9]{15,}/[A-Za-z0-9_-]{20,})",
            |s| s.has(HOOK_WORD) && s.made_with(Made::SLASH) && s.longest_run >= 20,
            always,
        ),
        shape(
            "teams-webhook",
            r"(?i)webhookb2/(?P<v>[^\s]{20,})",
            |s| s.has(HOOK_WORD) && s.made_with(Made::SLASH),
            unmarked,
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
        shape(
            "aws-secret",
            r"(?:^|[^A-Za-z0-9/+=_.-])(?P<v>[A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+=_.-])",
            |s| s.jumble >= 40,
            is_jumbled,
        ),
    ]
});

fn by_shape(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    for shape in SHAPES.iter().filter(|shape| (shape.wants)(signs)) {
        for found in shape.pattern.captures_iter(text) {
            if let Some(value) = found.name("v").filter(|v| (shape.guard)(v.as_str())) {
                parts.push(Part { range: value.range(), kind: shape.kind });
            }
        }
    }
    parts.retain(|part| text.get(part.range.clone()).is_some_and(unmarked));
}

fn always(_: &str) -> bool {
    true
}

/// Whether `value` is not a marker of ours.
fn unmarked(value: &str) -> bool {
    !value.starts_with("[redacted:")
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
fn is_grant(value: &str) -> bool {
    let name = value.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_of_error = name.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-'));
    value.len() >= 6 && wording::is_opaque(value) && !is_of_error && !value.starts_with("0x")
}

/// Whether a `Basic` value is base64 of `user:password` (RFC 7617), and no word of prose.
fn holds_user_and_password(value: &str) -> bool {
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
fn is_jumbled(value: &str) -> bool {
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
    changes >= 10 && count(1) >= 5 && count(2) >= 5 && count(3) >= 1
}

// ---- pairs ------------------------------------------------------------------------------------

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
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
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

fn by_pair(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
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

fn by_element(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
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

// ---- paths ------------------------------------------------------------------------------------

/// A part of a path, also encoded, after which comes what lets its bearer in, and the slash.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)(?:/|%2f)(?:[a-z]+[_-])*(?:reset|verify|verification|confirm|confirmation|activate|activation|invite|invites|invitation|invitations|join|tokens?|magic|magiclink|otp|unsubscribe|recover|recovery|passwordless|sessions?|secrets?|apikeys?|keys?|hooks?|webhooks?|shared?)(?:[_-][a-z]+)*(?:/|%2f)",
    )
});

fn by_path(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if !signs.has(LINK_WORD) || !signs.made_with(Made::SLASH | Made::PERCENT) {
        return;
    }
    for found in LINK.find_iter(text) {
        let mut at = found.end();
        // `/reset/…`, `/verify/email/…`, `/reset/42/…`
        for _ in 0..2 {
            let rest = text.get(at..).unwrap_or_default();
            let ends = |c: char| !c.is_ascii_alphanumeric() && !"-_.~=+*!".contains(c);
            let length = rest.find(ends).unwrap_or(rest.len());
            let segment = rest.get(..length).unwrap_or_default().trim_end_matches('.');
            if wording::is_link_secret(segment) {
                parts.push(Part { range: at..at + segment.len(), kind: "token" });
            }
            let Some(next) = rest.get(length..).and_then(|rest| rest.strip_prefix('/')) else {
                break;
            };
            at = text.len() - next.len();
        }
    }
}

// ---- numbers ----------------------------------------------------------------------------------

/// Card numbers have 14 digits and more, IBANs at least 10 in a row, social security numbers 9.
const MIN_NUMBER_DIGITS: usize = 9;

fn by_number(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if signs.digits < MIN_NUMBER_DIGITS {
        return;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let hit = if starts_word(bytes, at) {
            card(rest)
                .filter(|_| !follows_decimal_point(bytes, at))
                .map(|length| (length, "card-number"))
                .or_else(|| iban(rest).map(|length| (length, "iban")))
                .or_else(|| ssn(text, at).map(|length| (length, "ssn")))
        } else {
            None
        };
        match hit {
            Some((length, kind)) => {
                parts.push(Part { range: at..at + length, kind });
                at += length;
            }
            None => at += 1,
        }
    }
}

/// Digits after a decimal point are a fraction.
fn follows_decimal_point(bytes: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|i| bytes.get(i));
    before(1) == Some(&b'.') && before(2).is_some_and(u8::is_ascii_digit)
}

/// Length in bytes of the card number at the start of `bytes`: in one piece, or in groups of four
/// (four, six and five for 15 digits), set apart by single spaces or dashes.
fn card(bytes: &[u8]) -> Option<usize> {
    if !bytes.first().is_some_and(|b| (b'2'..=b'6').contains(b)) {
        return None;
    }
    let mut digits: Vec<u8> = Vec::with_capacity(19);
    let mut groups: Vec<usize> = Vec::new();
    let mut group = 0;
    let mut length = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let next_is_digit = bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
        if byte.is_ascii_digit() && digits.len() < 20 {
            digits.push(byte - b'0');
            group += 1;
            length = i + 1;
        } else if b" -".contains(byte) && next_is_digit && group > 0 {
            groups.push(group);
            group = 0;
            if is_card(&digits, &groups) {
                return Some(length);
            }
        } else {
            break;
        }
    }
    groups.push(group);
    let ends_word = !bytes.get(length).is_some_and(u8::is_ascii_alphanumeric);
    (ends_word && is_card(&digits, &groups)).then_some(length)
}

fn is_card(digits: &[u8], groups: &[usize]) -> bool {
    let grouped = match groups {
        [_] | [4, 6, 5 | 4] => true,
        [first @ .., last] => first.iter().all(|n| *n == 4) && *last <= 4,
        [] => false,
    };
    grouped && has_card_issuer(digits) && luhn(digits)
}

/// Whether number range and length belong to an issuer of cards (ISO/IEC 7812).
fn has_card_issuer(digits: &[u8]) -> bool {
    let head = |n: usize| digits.iter().take(n).fold(0_u32, |sum, d| sum * 10 + u32::from(*d));
    match digits.len() {
        14 => matches!(head(2), 36 | 38 | 39) || (300..=305).contains(&head(3)),
        15 => matches!(head(2), 34 | 37),
        16 => {
            head(1) == 4
                || (51..=55).contains(&head(2))
                || (2221..=2720).contains(&head(4))
                || head(4) == 6011
                || matches!(head(2), 35 | 62 | 65)
                || (644..=649).contains(&head(3))
        }
        17..=19 => head(2) == 62,
        _ => false,
    }
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, digit)| {
            let value = u32::from(*digit) << (i % 2);
            value / 10 + value % 10
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Length in bytes of the social security number of the USA at `at`: three, two and four digits
/// with dashes between; with spaces or none where it is called so before. Numbers that are never
/// given out (area 000, 666 and from 900 on, group 00, serial 0000) are none.
fn ssn(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mark = bytes.get(at + 3).filter(|b| !b.is_ascii_digit());
    let step = usize::from(mark.is_some());
    let length = 9 + 2 * step;
    let number = bytes.get(at..at + length)?;
    let (area, rest) = number.split_at_checked(3)?;
    let (group, rest) = rest.get(step..)?.split_at_checked(2)?;
    let serial = rest.get(step..)?;
    let is_number = [area, group, serial].iter().all(|part| part.iter().all(u8::is_ascii_digit));
    let is_joined = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let before = at.checked_sub(1).and_then(|i| bytes.get(i));
    if !is_number
        || mark.is_some() && rest.first() != mark
        || bytes.get(at + length).is_some_and(is_joined)
        || before.is_some_and(|b| matches!(b, b'-' | b'.'))
        || matches!(area, b"000" | b"666" | [b'9', ..])
        || group == b"00"
        || serial == b"0000"
    {
        return None;
    }
    let is_called_so = || {
        let from = text.floor_char_boundary(at.saturating_sub(40));
        let before = text.get(from..at).unwrap_or_default().to_ascii_lowercase();
        before.contains("ssn") || before.contains("social security")
    };
    (mark == Some(&b'-') || matches!(mark, None | Some(b' ')) && is_called_so()).then_some(length)
}

/// Countries and the length of their IBANs (ISO 13616 registry), those with much traffic.
const IBAN_LENGTHS: [(&[u8; 2], usize); 30] = [
    (b"AT", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"CH", 21),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DK", 18),
    (b"EE", 20),
    (b"ES", 24),
    (b"FI", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GR", 27),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IT", 27),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"MT", 31),
    (b"NL", 18),
    (b"NO", 15),
    (b"PL", 28),
    (b"PT", 25),
    (b"RO", 24),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
];

/// Length in bytes of the IBAN at the start of `bytes`, single spaces included.
fn iban(bytes: &[u8]) -> Option<usize> {
    let country = bytes.get(..2)?;
    let (_, wanted) = IBAN_LENGTHS.iter().find(|(code, _)| code.as_slice() == country)?;
    let mut symbols: Vec<u8> = Vec::with_capacity(*wanted);
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' => symbols.push(*byte),
            b' ' if bytes.get(i + 1) != Some(&b' ') => {}
            _ => return None,
        }
        if symbols.len() == *wanted {
            let ends_word = !bytes.get(i + 1).is_some_and(u8::is_ascii_alphanumeric);
            return (ends_word && has_iban_check(&symbols)).then_some(i + 1);
        }
    }
    None
}

/// The check of ISO 7064: the first four moved to the end, letters as 10 to 35, rest 1 by 97.
fn has_iban_check(symbols: &[u8]) -> bool {
    let (front, back) = symbols.split_at(4.min(symbols.len()));
    let rest = back.iter().chain(front).fold(0_u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_pattern_compiles_and_every_prefix_is_reached() {
        assert!(SHAPES.len() > 10);
        assert!(PAIR.is_match("token=abcd"));
        for (i, (prefix, tail, least, kind)) in PREFIXES.iter().enumerate() {
            let (from, to) = STARTS[usize::from(prefix.as_bytes()[0])];
            assert!((from..to).contains(&i), "{prefix} stands apart from its letter's group");
            let tail = if matches!(tail, Tail::Hex) { "0f" } else { "a1" };
            let made: String = prefix.chars().chain(tail.chars().cycle().take(*least)).collect();
            assert_eq!(text(&format!("<{made}>")).text, format!("<[redacted: {kind}]>"));
        }
    }

    /// Fake values, cut in two so that no scanner takes this file for a leak.
    #[test]
    fn what_looks_secret_is_replaced_by_what_it_was() {
        let pem = format!(
            "-----BEGIN {} KEY-----\nMIIE\nAB==\n-----END {} KEY-----",
            "RSA PRIVATE", "RSA PRIVATE"
        );
        let pem_cut = format!("-----BEGIN {} KEY-----\\nMIIE", "PRIVATE");
        let aws = format!("x {}{} y", "wJalrXUtnFEMI/K7MD", "ENG/bPxRfiCYEXAMPLEKEY");
        let table: Vec<(&str, &str)> = vec![
            ("Authorization: Bearer abc.def", "Authorization: [redacted: authorization]"),
            ("sent Bearer mysecrettoken to", "sent Bearer [redacted: bearer] to"),
            ("Bearer%20abcdef123", "Bearer%20[redacted: bearer]"),
            ("Basic dXNlcjpwYXNz", "Basic [redacted: basic-auth]"),
            (
                "Digest username=\"a\", realm=\"r\", response=\"00ff\"",
                "Digest [redacted: digest-auth]",
            ),
            ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln b", "a [redacted: jwt] b"),
            ("/v1/x?token=abcd&page=2", "/v1/x?token=[redacted: token]&page=2"),
            ("/v1/x;jsessionid=8A8F", "/v1/x;jsessionid=[redacted: session]"),
            ("api_key%3Dabcdef", "api_key%3D[redacted: api-key]"),
            (r#"{"apiKey":"a b","n":1}"#, r#"{"apiKey":"[redacted: api-key]","n":1}"#),
            (r#"{\"client_secret\":\"xy\"}"#, r#"{\"client_secret\":\"[redacted: secret]\"}"#),
            ("password: hunter2 ok", "password: [redacted: password] ok"),
            ("MY_DB_PASSWORD=hunter", "MY_DB_PASSWORD=[redacted: password]"),
            ("Cookie: a=b; c=d", "Cookie: [redacted: cookie]"),
            ("shop=abc; Path=/; HttpOnly", "shop=[redacted: cookie]; Path=/; HttpOnly"),
            (
                "see https://u:p@api.example.com/x",
                "see https://[redacted: url-credentials]@api.example.com/x",
            ),
            ("for jane.doe+x@example.co.uk!", "for [redacted: email]!"),
            ("/users/jane%40example.com/x", "/users/[redacted: email]/x"),
            ("card 4111 1111 1111 1111.", "card [redacted: card-number]."),
            ("card 4111-1111-1111-1111 2030", "card [redacted: card-number] 2030"),
            ("3782 822463 10005", "[redacted: card-number]"),
            ("n=378282246310005", "n=[redacted: card-number]"),
            ("DE89 3704 0044 0532 0130 00 EUR", "[redacted: iban] EUR"),
            ("GB82WEST12345698765432", "[redacted: iban]"),
            (
                "Incorrect API key provided: abcd1234. See docs",
                "Incorrect API key provided: [redacted: api-key]. See docs",
            ),
            ("invalid token \"a1b2c3d4\"", "invalid token \"[redacted: token]\""),
            ("'a1b2c3d4' is not a valid API key", "'[redacted: api-key]' is not a valid API key"),
            ("<apiKey>abc</apiKey>", "<apiKey>[redacted: api-key]</apiKey>"),
            (
                "<input name='csrf' /><meta name=\"csrf-token\" content=\"ab12\">",
                "<input name='csrf' /><meta name=\"csrf-token\" content=\"[redacted: token]\">",
            ),
            (r#"{"api_key":["abc"]}"#, r#"{"api_key":["[redacted: api-key]"]}"#),
            (
                "<add key='AccessToken' value='abc'/>",
                "<add key='[redacted: api-key]' value='[redacted: token]'/>",
            ),
            ("Session k3yV4lu3abcdef99 has expired", "Session [redacted: session] has expired"),
            ("GET /cb?x=1&code=abc123", "GET /cb?x=1&code=[redacted: authorization-code]"),
            ("DPoP a1b2c3d4e5", "DPoP [redacted: token]"),
            ("Hawk id=\"a\", mac=\"b\"", "Hawk [redacted: authorization]"),
            ("access_token: abcdefghij", "access_token: [redacted: token]"),
            ("/cb?code=a1b2c3d4e5&state=x", "/cb?code=[redacted: authorization-code]&state=x"),
            ("/x%3Ftoken=abcd", "/x%3Ftoken=[redacted: token]"),
            ("/reset/abcd1234", "/reset/[redacted: token]"),
            ("/verify/email/493817?x", "/verify/email/[redacted: token]?x"),
            ("is 219-09-9999 his", "is [redacted: ssn] his"),
            ("Social Security number 219 09 9999", "Social Security number [redacted: ssn]"),
            ("für jörg@bücher.example!", "für [redacted: email]!"),
            ("jane@xn--bcher-kva.xn--p1ai", "[redacted: email]"),
            (r"at\nAKIAIOSFODNN7EXAMPLE", r"at\n[redacted: aws-key]"),
            (&pem, "[redacted: private-key]"),
            (&pem_cut, "[redacted: private-key]"),
            (&aws, "x [redacted: aws-secret] y"),
        ];
        for (input, expected) in table {
            let out = text(input);
            assert_eq!(out.text, expected, "{input}");
            assert!(out.count >= 1, "{input}");
        }
    }

    #[test]
    fn what_joins_and_diagnoses_is_left_alone() {
        let table = [
            "checkout",
            "api.example.com:8443",
            "/v1/orders/{id}/items",
            "01JCH6X8Y4Q2V7M3N9K5R1T6B8",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "00f067aa0ba902b7",
            "8f2a1c3d4e5f6a7b-GRU",
            "c6f3ac01-4a33-4c9b-9d2a-2f6c1d3e4b5a",
            "RQ0123456789abcdef0123456789abcdef",
            "hmac-sha256:9d3f00aa",
            "Wed, 11 Nov 2026 07:29:00 GMT",
            "2026-11-11T07:29:00.120Z",
            "1762848540123",
            "1762848540123456",
            "1762848540123456789",
            "0.4111111111111111",
            "\"default\";q=100;w=60;pk=:cHsdsRa894==:",
            "limit=100, remaining=0, reset=30",
            "cfEdge;dur=6,cfOrigin;dur=149",
            "TooManyRequestsException:http://internal.amazon.com/coral/com.amazon.coral.availability/",
            "k5zX1lH8m2Qp0vR7tY3uW9aB4cD6eF8gH0jK2lM4nO6pQ8rS0tU2vW==",
            "1.1 varnish, 1.1 a1b2c3d4.cloudfront.net (CloudFront)",
            "error code: 1015",
            "Bearer authentication is required",
            "Basic authentication is required",
            "Invalid token provided",
            "Rate limit reached for requests",
            "invalid token count 4096",
            "key is required",
            "secret sauce",
            "Missing key requestId in the body, invalid key maxTokens",
            "Invalid API key. Request 8f2a1c3d4e5f6a7b was refused",
            "API key expired 2026-11-11T07:29:00Z, token valid for 1h30m0s",
            "No API key found in request",
            "token sha256 mismatch, invalid key ed25519",
            "Unexpected token a1b2c3d4 in JSON at position 0",
            "duplicate key value violates unique constraint \"users_email_key\"",
            "key 'user:2024' is rate limited, key per minute: 128000",
            "Your api key: ****0000 is invalid",
            "password: must be at least 8 characters, api_key: required",
            r#"{"code":"rate_limit_exceeded","key":"email","token":"invalid"}"#,
            r#"{"error":{"code":"activityLimitReached","innerError":{"code":"E11000Duplicate"}}}"#,
            r#"{"cache_key":"orders:eu","translationKey":"errors.rate_limit"}"#,
            "<Error><Code>SlowDown</Code><Key>photos/2006/image.jpg</Key></Error>",
            "code=AADSTS50011&status_code=429, code=0x80070005",
            "/v1/tokens/refresh, /reset/password, /keys/{id}, /oauth2/token/v2",
            "call 123-456-7890, 900-12-3456, ref 2026-123-45-6789",
            "Access denied for user 'app' (using password: YES)",
            "error code: 10013, /src/token/parser2.rs, /keys/user123",
            "npm i left-pad@1.3.0 and nginx@sha256:0a1b2c3d",
            "max_tokens: 4096, nextPage: 2, token: required",
            "Rate limit reached for tokens per min. Limit: 10000 / min. Current: 10020 / min.",
            r#"{"error":{"message":"Too many requests","type":"tokens","code":"rate_limit_exceeded"}}"#,
            r#"{"max_tokens":4096,"token":null,"key":12}"#,
            "password=********",
            "sk-payments-gateway-europe",
            "6m0s",
            "token-bucket",
        ];
        for input in table {
            assert_eq!(text(input), Redacted { text: input.to_owned(), count: 0 });
        }
    }

    /// As if every rule could match.
    const EVERYTHING: Signs = Signs {
        made: Made(u16::MAX),
        pair: true,
        dashes: true,
        words: u8::MAX,
        digits: usize::MAX,
        longest_run: usize::MAX,
        jumble: usize::MAX,
    };

    #[test]
    fn a_cookie_with_a_digit_before_its_value_is_found() {
        assert_eq!(
            text("visitor1=q7Zp2LxV; HttpOnly").text,
            "visitor1=[redacted: cookie]; HttpOnly"
        );
    }

    #[test]
    fn a_secret_of_letters_and_digits_alone_is_found_without_any_other_sign() {
        for (secret, kind) in [
            ("aA1bB2cC3dD4eE5fF6gG7hH8iI9jJ0kK1lL2mM3n", "aws-secret"),
            ("0123456789abcdef0123456789abcdef-us7", "mailchimp-key"),
        ] {
            assert_eq!(kind_of(secret), Some(kind), "{secret}");
        }
    }

    #[test]
    fn a_redacted_id_stays_distinct_and_stays_as_it_is() {
        let hasher = KeyHasher::new(b"server key");
        let one = id("jane@example.com", &hasher);
        let two = id("john@example.com", &hasher);
        assert!(one.text.starts_with("redacted:email:") && one.count == 1, "{one:?}");
        assert_ne!(one.text, two.text);
        assert_eq!(id(&one.text, &hasher), Redacted { text: one.text.clone(), count: 0 });
        assert_eq!(id("req_01", &hasher).text, "req_01");
        for kind in ["api-key", "token", "session", "password"] {
            let kept = format!("redacted:{kind}:{}", "0f".repeat(16));
            assert_eq!(id(&kept, &hasher).count, 0);
        }
    }

    #[test]
    fn a_long_hostile_text_takes_linear_time() {
        for piece in [
            "a@",
            "eyJ",
            "://",
            "token=",
            "4111 ",
            "-----BEGIN PRIVATE KEY-----",
            "Bearer ",
            "T0000000/",
            "key ",
            "key=",
            "token is ",
            ",token",
            "is key ",
            "/key/",
            "<key ",
            "name=\"key\"",
            "hawk a=",
            "code=",
            "ssn 219 ",
            "a'a@",
        ] {
            let long = piece.repeat(200_000 / piece.len());
            assert!(text(&long).text.len() < long.len() * 12);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_cheap_look_hides_nothing(
            parts in proptest::collection::vec(prop_oneof![
                proptest::sample::select(TRIGGERS),
                proptest::sample::select(PREFIXES).prop_map(|prefix| prefix.0),
            ], 0..4),
            noise in proptest::collection::vec("[A-Za-z0-9]{0,20}|[0-9a-f]{32}|[A-Za-z0-9/+_.-]{20,60}|\\PC{0,6}", 1..5),
            order in any::<u64>(),
        ) {
            let mut all: Vec<&str> = parts;
            all.extend(noise.iter().map(String::as_str));
            let turn = usize::try_from(order % 7).unwrap() % all.len();
            all.rotate_left(turn);
            if order % 2 == 0 {
                all.reverse();
            }
            let input = all.concat();
            prop_assert_eq!(find(&input), find_by(&input, &EVERYTHING));
        }
    }

    /// How each kind of secret comes into a text, with `*` where it stands.
    const FORMS: &[&str] = &[
        "Incorrect API key provided: *.",
        "invalid API key *",
        "Invalid key *",
        "your token is *",
        "invalid token \"*\"",
        "access token (*) has expired",
        "'*' is not a valid token",
        "using secret * here",
        "wrong password '*'",
        "access_token: *",
        "client_secret=*",
        "<apiKey>*</apiKey>",
        "<ns:secret-key a=\"b\">*</ns:secret-key>",
        "{\"accessToken\":\"*\"}",
        "{\\\"api_key\\\":\\\"*\\\"}",
        "&quot;password&quot;: &quot;*&quot;",
        "Bearer *",
        "Token *",
        "DPoP *",
        "Negotiate *",
        "https://h.example/cb?code=*&state=1",
        "code%3D*",
        "/a%3Ftoken=*",
        "/a;jsessionid=*",
        "/reset/*",
        "https://h.example/verify/email/*/x",
        "/invite/*",
        "/magic-link/*",
        "/token/*",
    ];

    /// What may be around it.
    const PROSE: &[&str] = &[
        "Rate limit reached for requests",
        "the",
        "key",
        "token",
        "is required",
        "upstream",
        "429 Too Many Requests",
        "(try again in 20s)",
        "see https://docs.example.com/errors",
        "\"status\": 429",
        "password",
        "secret",
        "code",
        "limit: 100",
        "—",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_secret_of_any_kind_in_any_prose_is_found(
            form in proptest::sample::select(FORMS),
            secret in "[A-Za-z]{3,20}[0-9]{2,4}[A-Za-z0-9]{3,20}",
            before in proptest::collection::vec(proptest::sample::select(PROSE), 0..5),
            after in proptest::collection::vec(proptest::sample::select(PROSE), 0..5),
        ) {
            let form = form.replace('*', &secret);
            let input = format!("{} {form} {}", before.join(" "), after.join(" "));
            let out = text(&input);
            prop_assert!(!out.text.contains(&secret), "{input} became {}", out.text);
            prop_assert!(out.text.contains("[redacted: "), "{}", out.text);
        }

        #[test]
        fn prose_without_a_secret_is_left_alone(
            parts in proptest::collection::vec(proptest::sample::select(PROSE), 0..8),
        ) {
            let input = parts.join(" ");
            prop_assert_eq!(text(&input), Redacted { text: input, count: 0 });
        }
    }

    /// What rules wait for, and what stands around it.
    const TRIGGERS: &[&str] = &[
        "token=",
        "password: ",
        "Bearer ",
        "basic+",
        "Basic ",
        "api key ",
        "negotiate%20",
        "Incorrect API key provided: ",
        "invalid token \"",
        " is not a valid key",
        "<apiKey>",
        "<pin a='b'>",
        "name=\"token\" value=\"",
        "stripeToken1=",
        "\\n",
        "\\u0026",
        "&quot;",
        "DPoP ",
        "Hawk ",
        "mac=",
        "SharedKey a1b:",
        "?code=",
        "%3Fcode%3D",
        "/reset/",
        "%2Fjoin%2F",
        "/key/",
        "219-09-9999",
        "SSN ",
        "219099999",
        "jörg@bücher.example",
        "://",
        "u:p@h.com",
        "jane%40example.com",
        "\"",
        "'",
        "\\",
        " ",
        ";",
        "; Path=/",
        "; httponly",
        "sid1=",
        "4111",
        "4111111111111111",
        "378282246310005",
        "-",
        "=",
        ":",
        "%3A",
        "/",
        "+",
        ".",
        "GB82WEST12345698765432",
        "DE89 3704 0044 0532 0130 00",
        "[redacted: jwt]",
        "@",
        "%40",
        "Cookie: ",
        "authorization:",
        "-----BEGIN PRIVATE KEY-----",
        "digest a=b, response=",
        "\n",
        "services/T0000000/B0000000/",
        "webhooks/123456789012345/",
        "WebhookB2/",
        "-us12",
        "\u{a0}",
        "M00000000000000000000000.000000.",
        "bot110201543:AA",
        "0123456789abcdef0123456789abcdef-us7",
    ];

    proptest! {
        #[test]
        fn it_never_panics_and_leaves_its_own_output_alone(input in "\\PC{0,80}") {
            let once = text(&input);
            prop_assert_eq!(text(&once.text), Redacted { text: once.text.clone(), count: 0 });
        }

        #[test]
        fn the_same_holds_for_texts_made_of_triggers(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "token=", "password: ", "Bearer ", "eyJhbGciOiJIUzI1NiJ9", "jane@example.com", "://",
                "u:p@h.com", "\"", "'", "\\", " ", ";", "Path=/", "4111", "111111111111", "-", "=", ":",
                "[redacted: jwt]", "[", "]", "sk-", "abc123def456ghi789", "%40", "%20", "Cookie: ",
                "authorization", "-----BEGIN PRIVATE KEY-----", "/", "\n", "é", "Basic ", "dXNlcjpw",
            ]), 0..12)
        ) {
            let input = parts.concat();
            let once = text(&input);
            prop_assert_eq!(text(&once.text), Redacted { text: once.text.clone(), count: 0 });
        }
    }
}
