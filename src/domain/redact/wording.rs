//! Secrets that nothing gives away but the words around them: `Incorrect API key provided: …`.
//!
//! A word stands for a secret (`key`, `token`, `password`, the name of a scheme); few words may
//! come between it and its value (`provided`, `is`); and the value must look like no word.

use super::Part;
use super::prefixes::{extend, starts_word};
use super::signs::{Signs, TOKEN_WORD};
use aho_corasick::{AhoCorasick, MatchKind};
use std::ops::Range;
use std::sync::LazyLock;

/// How little a value may tell of itself to be taken for a secret after a noun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearness {
    /// The noun also means other things: only a long value.
    Loose,
    /// Whatever is no word.
    Close,
    /// As `Close`; four digits are enough.
    Numeric,
}

use Nearness::{Close, Loose, Numeric};

/// Nouns, what is behind them, and how close they are to it. What a noun means can hang on the
/// word before: see [`by_wording`].
const NOUNS: &[(&str, &str, Nearness)] = &[
    ("apikey", "api-key", Close),
    ("code", "secret", Loose),
    ("cookie", "cookie", Loose),
    ("credential", "credentials", Close),
    ("credentials", "credentials", Close),
    ("dpop", "token", Close),
    ("jwt", "credentials", Close),
    ("key", "api-key", Loose),
    ("negotiate", "token", Close),
    ("ntlm", "token", Close),
    ("otp", "secret", Numeric),
    ("passcode", "password", Numeric),
    ("passphrase", "password", Close),
    ("passwd", "password", Close),
    ("password", "password", Close),
    ("pin", "secret", Numeric),
    ("pwd", "password", Close),
    ("secret", "secret", Close),
    ("session", "session", Loose),
    ("session id", "session", Close),
    ("session_id", "session", Close),
    ("sessionid", "session", Close),
    ("signature", "signature", Loose),
    ("token", "token", Close),
];

#[expect(clippy::expect_used, reason = "the words are constants; a test builds it")]
static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(NOUNS.iter().map(|noun| noun.0))
        .expect("a few short words")
});

/// Words before "key" that make it a credential: what it opens, or what is wrong with it.
const KEY_WORDS: &[&str] = &[
    "access",
    "account",
    "api",
    "auth",
    "bad",
    "encryption",
    "expired",
    "given",
    "incorrect",
    "invalid",
    "license",
    "malformed",
    "master",
    "private",
    "provided",
    "revoked",
    "secret",
    "service",
    "signing",
    "subscription",
    "supplied",
    "wrong",
    "your",
];

/// Words before "code" that make it one to log in with.
const CODE_WORDS: &[&str] = &[
    "2fa",
    "access",
    "activation",
    "auth",
    "authorization",
    "backup",
    "confirmation",
    "device",
    "factor",
    "login",
    "mfa",
    "otp",
    "recovery",
    "reset",
    "security",
    "sms",
    "time",
    "totp",
    "verification",
    "your",
];

/// Words that may stand between a noun and its value.
const FILLERS: &[&str] = &[
    "been",
    "does",
    "exist",
    "expired",
    "found",
    "given",
    "has",
    "incorrect",
    "invalid",
    "is",
    "malformed",
    "not",
    "passed",
    "presented",
    "provided",
    "received",
    "rejected",
    "revoked",
    "sent",
    "specified",
    "string",
    "submitted",
    "supplied",
    "unknown",
    "used",
    "value",
    "was",
    "with",
    "wrong",
    "you",
];

/// Those after which a colon tells that the value comes.
const TELLING: &[&str] = &["provided", "given", "supplied", "received", "sent", "presented"];

/// More words between a noun and its value than sentences have.
const MOST_FILLERS: usize = 4;
/// More bytes than those words take.
const MOST_BETWEEN: usize = 80;
/// How much of a value is looked at, in bytes.
const LONGEST_HEAD: usize = 200;

/// Words that may stand between a value and the noun in "… is not a valid API key".
const LINKS: &[&str] = &[
    "a",
    "access",
    "active",
    "an",
    "api",
    "auth",
    "correct",
    "existing",
    "expired",
    "incorrect",
    "invalid",
    "known",
    "not",
    "registered",
    "revoked",
    "the",
    "valid",
];

pub(super) fn by_wording(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
    if !signs.has(TOKEN_WORD) {
        return;
    }
    // The last word that was looked at: its length is not asked for again.
    let mut known = 0..0;
    // Up to where a value was found: what is in it needs no second look.
    let mut done = 0;
    for found in FINDER.find_iter(text) {
        if found.start() < done {
            continue;
        }
        let (Some((noun, kind, usual)), Some(before)) =
            (NOUNS.get(found.pattern().as_usize()), text.get(..found.start()))
        else {
            continue;
        };
        if !begins_word(text.as_bytes(), found.start()) || before.ends_with("nexpected ") {
            continue;
        }
        if *noun == "token" && follows_cursor(before) {
            continue;
        }
        let nearness = match *noun {
            "key" if follows(before, KEY_WORDS) => Close,
            "code" if follows(before, CODE_WORDS) || follows_sign_in(before) => Numeric,
            _ => *usual,
        };
        let range = value_behind(text, found.end(), nearness, &mut known).or_else(|| {
            let next = text.as_bytes().get(found.end());
            let goes_on = next.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(b));
            (nearness != Loose && !goes_on).then(|| value_before(before, nearness)).flatten()
        });
        parts.extend(range.map(|mut range| {
            if matches!(*kind, "password" | "secret") && range.start >= found.end() {
                range.end = end_of_password(text, range.end);
                done = range.end;
            }
            Part { range, kind }
        }));
    }
}

/// Whether a word begins at `at`, or a part of one in camel case.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|i| bytes.get(i));
    starts_word(bytes, at)
        || before.is_some_and(u8::is_ascii_lowercase)
            && bytes.get(at).is_some_and(u8::is_ascii_uppercase)
}

/// Whether one of `words` is the last in `before`.
fn follows(before: &str, words: &[&str]) -> bool {
    let end = before.trim_end_matches([' ', '-', '_']);
    let word = end.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    is_among(word, words)
}

/// What begins the name of a token that is a place in a list and opens nothing: `page_token`.
const CURSOR_WORDS: &[&str] =
    &["page", "next", "continuation", "cursor", "paging", "pagination", "previous", "prev", "sync"];

/// Whether `before`, up to the word "token", ends with one of them and a sign, or in camel case.
pub(super) fn follows_cursor(before: &str) -> bool {
    let bytes = before.trim_end_matches(['-', '_', '.']).as_bytes();
    CURSOR_WORDS.iter().any(|word| {
        let end = bytes.len().checked_sub(word.len()).and_then(|at| bytes.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn is_among(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The value behind a noun that ends at `from`.
fn value_behind(
    text: &str,
    from: usize,
    nearness: Nearness,
    known: &mut Range<usize>,
) -> Option<Range<usize>> {
    let mut at = from;
    let mut is_told = false;
    for _ in 0..=MOST_FILLERS {
        let gap = gap_of(text.get(at..)?, at == from);
        let has_colon = text.get(at..at + gap)?.contains(':');
        at += gap;
        if gap == 0 || text.as_bytes().get(at) == Some(&b'/') {
            return None;
        }
        let word = text.get(at..extend(known, text.as_bytes(), at, is_of_value))?;
        let value = word.trim_end_matches(['.', ':', '!']);
        // What is longer shows within this what it is.
        let head = value.get(..value.len().min(LONGEST_HEAD))?;
        let is_secret = match nearness {
            Loose => is_long_and_opaque(head),
            Close => is_opaque(head),
            Numeric => {
                let behind = text.get(at + word.len()..).unwrap_or_default();
                is_opaque(head) || is_short_number(head) && !is_counted(behind)
            }
        };
        if nearness == Numeric
            && let Some(length) = grouped_code(text.get(at..)?)
        {
            return Some(at..at + length);
        }
        // After "provided:" comes what was provided.
        let is_told_so =
            is_told && has_colon && nearness != Loose && head.len() >= 8 && !is_word(head);
        if (is_secret || is_told_so) && !head.contains("://") {
            return Some(at..at + value.len());
        }
        let filler = word.strip_suffix(':').unwrap_or(word);
        if !is_among(filler, FILLERS) {
            return None;
        }
        is_told = is_among(filler, TELLING);
        at += filler.len();
    }
    None
}

/// The value before a noun, of which `text` is what precedes.
fn value_before(text: &str, nearness: Nearness) -> Option<Range<usize>> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(MOST_BETWEEN));
    let mut rest = text.trim_end_matches([' ', '-', '_']);
    for _ in 0..=MOST_FILLERS {
        let start = from + rest.get(from..)?.rfind(' ')? + 1;
        let word = rest.get(start..)?;
        rest = rest.get(..start)?.trim_end();
        if is_among(word, &["is", "was", "isn't", "wasn't"]) {
            let end = rest.trim_end_matches(['"', '\'', '`', '\\', ')', ']', '>']).len();
            let bytes = rest.get(..end)?.bytes().rev();
            let range = end - bytes.take_while(|b| is_of_value(*b)).count()..end;
            let value = rest.get(range.clone())?;
            let is_secret = is_opaque(value) || nearness == Numeric && is_short_number(value);
            return (is_secret && !value.starts_with('/')).then_some(range);
        }
        if !(is_among(word, LINKS) || nearness == Numeric && is_among(word, CODE_WORDS)) {
            return None;
        }
    }
    None
}

/// The length in bytes of what may stand between a noun and the next word.
fn gap_of(text: &str, is_first: bool) -> usize {
    let mut rest = text;
    loop {
        let next = ["%20", "%22", "%27", "&quot;", "&#39;", "&#34;", "\\n", "\\r", "\\t"]
            .iter()
            .find_map(|escape| rest.strip_prefix(escape));
        let next = next.or_else(|| {
            let mark = |c: char| {
                c.is_whitespace() || ":=\"'`([<\\“”‘’«„".contains(c) || is_first && c == '+'
            };
            rest.strip_prefix(mark)
        });
        match next {
            Some(next) => rest = next,
            None => return text.len() - rest.len(),
        }
    }
}

const fn is_of_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=' | b'*' | b'$' | b'!' | b':'
        )
}

/// What numbers count.
const COUNTED: &[&str] = &[
    "attempts",
    "calls",
    "characters",
    "codes",
    "days",
    "digits",
    "errors",
    "failures",
    "hours",
    "minutes",
    "ms",
    "pins",
    "requests",
    "retries",
    "s",
    "seconds",
    "times",
    "tokens",
    "tries",
    "users",
];

/// Whether the text behind a number says what it counts.
fn is_counted(behind: &str) -> bool {
    let words = behind.strip_prefix(' ').unwrap_or_default();
    is_among(words.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default(), COUNTED)
}

/// Whether the last words in `before` are "sign in" or "log in".
fn follows_sign_in(before: &str) -> bool {
    let end = before.trim_end_matches([' ', '-', '_']);
    ["sign in", "sign-in", "log in", "log-in"].iter().any(|words| {
        let at = end.len().checked_sub(words.len());
        at.and_then(|at| end.get(at..)).is_some_and(|last| last.eq_ignore_ascii_case(words))
    })
}

/// The length of a code in two groups of three or four digits at the beginning of a text: `482 913`.
fn grouped_code(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let first = digits(text);
    let rest = text.get(first..)?.strip_prefix([' ', '-'])?;
    let length = first + 1 + first;
    let ends = !text.as_bytes().get(length).is_some_and(u8::is_ascii_alphanumeric);
    ((3..=4).contains(&first) && digits(rest) == first && ends && !is_counted(text.get(length..)?))
        .then_some(length)
}

fn is_short_number(word: &str) -> bool {
    (4..=10).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit())
}

/// Whether `word` looks like what machines make up: letters and digits in one piece, letters of
/// both cases in a jumble, a long number, or longer than words are. Moments, lengths of time,
/// names of algorithms and what is masked already do not.
pub(super) fn is_opaque(word: &str) -> bool {
    if word.len() < 6 || word.contains("**") || is_moment(word) || is_duration(word) {
        return false;
    }
    let is_number = word.bytes().all(|b| b.is_ascii_digit());
    is_number && word.len() >= 8 || pieces(word).any(is_opaque_piece)
}

/// [`is_opaque`] of at least twelve letters and digits in one piece, and no name with a number or
/// words run together.
pub(super) fn is_long_and_opaque(word: &str) -> bool {
    let is_jumble = |piece: &str| changes(piece, |b| u8::from(b.is_ascii_digit())) >= 3;
    is_opaque(word)
        && pieces(word).any(|piece| piece.len() >= 12 && (is_jumble(piece) || is_cased(piece)))
}

/// [`is_opaque`], or longer in one piece than most words are.
pub(super) fn is_opaque_or_long(word: &str) -> bool {
    is_opaque(word) || pieces(word).any(|piece| piece.len() >= 16 && capitals(piece) == 0)
}

/// How often the class of a byte is not the class of the next.
pub(super) fn changes(piece: &str, class: fn(u8) -> u8) -> usize {
    piece.bytes().zip(piece.bytes().skip(1)).filter(|(a, b)| class(*a) != class(*b)).count()
}

/// Upper-case letters beyond the first.
fn capitals(piece: &str) -> usize {
    piece.bytes().skip(1).filter(u8::is_ascii_uppercase).count()
}

/// Whether letters of both cases are a jumble: in camel case capitals are few, or stand together.
fn is_cased(piece: &str) -> bool {
    let case = changes(piece, |b| u8::from(b.is_ascii_uppercase()));
    capitals(piece) * 3 > piece.len() && case * 3 > piece.len()
}

pub(super) fn pieces(word: &str) -> impl Iterator<Item = &str> {
    word.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| !piece.is_empty())
}

/// Whether a piece is a name with a number behind it: `parser2`, `user123`, `team2026`. A number of
/// as many digits as a year has is one where it is a year, or where that many, `most`, are taken.
pub(super) fn is_numbered(piece: &str, most: usize) -> bool {
    let name = piece.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = piece.strip_prefix(name).unwrap_or_default();
    let is_year = || number.len() == 4 && number.parse().is_ok_and(is_year);
    name.bytes().all(|b| b.is_ascii_alphabetic())
        && ((1..=most).contains(&number.len()) || is_year())
}

/// Whether a piece is a version: `v1`, `v2beta1`, `v1alpha12`.
fn is_version(piece: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(rest) = piece.strip_prefix(['v', 'V']).filter(|rest| rest.starts_with(is_digit))
    else {
        return false;
    };
    let stage = rest.trim_start_matches(is_digit).trim_end_matches(is_digit);
    matches!(stage, "" | "alpha" | "beta" | "rc" | "p" | "b" | "a")
}

/// What begins names of algorithms, formats and protocols that end with digits.
const NUMBERED: &[&str] = &[
    "aes", "base", "chacha", "ed", "error", "hmac", "http", "iso", "oauth", "rfc", "rsa", "sha",
    "x",
];

pub(super) fn is_opaque_piece(piece: &str) -> bool {
    let length = piece.len();
    let digits = piece.bytes().filter(u8::is_ascii_digit).count();
    if digits == length || is_version(piece) {
        return false;
    }
    if digits == 0 {
        return length >= 20 && capitals(piece) == 0 || length >= 6 && is_cased(piece);
    }
    let name = piece.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = NUMBERED.iter().any(|known| known.eq_ignore_ascii_case(name));
    length >= 6 && !is_numbered
        || length >= 4 && changes(piece, |b| u8::from(b.is_ascii_digit())) >= 2
}

/// Whether a word is a day or a moment: `2026-11-30`, `20261130`, `2026-11-30T12:00:00Z`,
/// `20261130T120000Z`.
pub(super) fn is_moment(word: &str) -> bool {
    let dashed = b"dddd-dd-dd";
    let fits = |shape: &[u8]| {
        word.len() >= shape.len()
            && word.bytes().zip(shape).all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                _ => byte == *wanted,
            })
    };
    let length = if fits(dashed) {
        dashed.len()
    } else if fits(b"dddddddd") {
        8
    } else {
        return false;
    };
    let (day, time) = word.split_at_checked(length).unwrap_or_default();
    let mut digits = day.bytes().filter(u8::is_ascii_digit).map(|b| u32::from(b - b'0'));
    let mut number = |length| digits.by_ref().take(length).fold(0, |sum, digit| sum * 10 + digit);
    let is_day =
        is_year(number(4)) && (1..=12).contains(&number(2)) && (1..=31).contains(&number(2));
    let is_time = |byte: u8| byte.is_ascii_digit() || b":.,+-Zz".contains(&byte);
    is_day
        && (time.is_empty()
            || time.starts_with(['T', 't', '_']) && time.bytes().skip(1).all(is_time))
}

/// Whether a number is a year of our time.
fn is_year(number: u32) -> bool {
    (1900..2100).contains(&number)
}

/// Whether a word is a length of time such as `1m30.5s`.
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let next = unit.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let name = unit.strip_suffix(next).unwrap_or(unit);
        let is_unit = ["ns", "us", "ms", "s", "sec", "m", "min", "h", "d", "w"].contains(&name);
        if unit.len() == rest.len() || !is_unit {
            return false;
        }
        rest = next;
    }
    true
}

/// Words that messages say of a field, where its value could stand.
const SAID_OF_FIELDS: &[&str] = &[
    "a",
    "an",
    "at",
    "audience",
    "bad",
    "can",
    "cannot",
    "character",
    "characters",
    "contact",
    "do",
    "does",
    "empty",
    "field",
    "format",
    "has",
    "header",
    "in",
    "incorrect",
    "invalid",
    "is",
    "issuer",
    "it",
    "length",
    "malformed",
    "may",
    "mismatch",
    "missing",
    "must",
    "no",
    "not",
    "or",
    "parameter",
    "please",
    "see",
    "should",
    "signature",
    "string",
    "the",
    "this",
    "to",
    "too",
    "unauthorized",
    "unknown",
    "use",
    "value",
    "was",
    "were",
    "wrong",
    "yes",
    "you",
    "your",
];

/// Whether a value reads as a word of a sentence rather than as a password.
pub(super) fn is_word(value: &str) -> bool {
    let value = value.trim_end_matches(['.', '!']);
    if !value.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let ends = |ending: &str| {
        value
            .len()
            .checked_sub(ending.len())
            .and_then(|at| value.get(at..))
            .is_some_and(|tail| value.len() >= 7 && tail.eq_ignore_ascii_case(ending))
    };
    SAID_OF_FIELDS.iter().any(|word| word.eq_ignore_ascii_case(value))
        || ["ed", "ing", "ion", "able", "ible", "ment"].iter().any(|ending| ends(ending))
}

/// Words of a message that something is wrong with a field.
const COMPLAINTS: &[&str] = &[
    "bad",
    "blank",
    "can't",
    "cannot",
    "common",
    "denied",
    "disabled",
    "doesn't",
    "empty",
    "expected",
    "expired",
    "failed",
    "fewer",
    "incorrect",
    "insufficient",
    "invalid",
    "isn't",
    "least",
    "long",
    "malformed",
    "match",
    "maximum",
    "minimum",
    "mismatch",
    "missing",
    "must",
    "no",
    "not",
    "null",
    "numeric",
    "required",
    "reserved",
    "revoked",
    "short",
    "should",
    "similar",
    "taken",
    "unauthorized",
    "unknown",
    "unrecognized",
    "unsupported",
    "weak",
    "wrong",
];

/// The other words that frameworks put into such messages, with those of [`SAID_OF_FIELDS`].
const OF_MESSAGES: &[&str] = &[
    "accepted",
    "access",
    "account",
    "again",
    "all",
    "allowed",
    "alphanumeric",
    "already",
    "also",
    "and",
    "any",
    "api",
    "appeared",
    "are",
    "as",
    "authentication",
    "authorization",
    "be",
    "bearer",
    "been",
    "between",
    "both",
    "breach",
    "but",
    "by",
    "bytes",
    "check",
    "choose",
    "client",
    "code",
    "combination",
    "configured",
    "confirmation",
    "contain",
    "contains",
    "correct",
    "credentials",
    "current",
    "data",
    "did",
    "didn't",
    "different",
    "digit",
    "digits",
    "don't",
    "either",
    "email",
    "enough",
    "ensure",
    "enter",
    "entirely",
    "equal",
    "error",
    "fields",
    "for",
    "found",
    "from",
    "given",
    "greater",
    "have",
    "id",
    "if",
    "included",
    "input",
    "its",
    "key",
    "keys",
    "larger",
    "leak",
    "less",
    "letter",
    "letters",
    "list",
    "log",
    "login",
    "longer",
    "lower",
    "lowercase",
    "mixed",
    "more",
    "most",
    "new",
    "number",
    "numbers",
    "of",
    "old",
    "on",
    "one",
    "only",
    "passphrase",
    "passcode",
    "password",
    "passwords",
    "path",
    "previous",
    "previously",
    "property",
    "provide",
    "provided",
    "received",
    "refresh",
    "request",
    "same",
    "secret",
    "sent",
    "session",
    "set",
    "shorter",
    "sign",
    "size",
    "smaller",
    "special",
    "strong",
    "such",
    "supplied",
    "symbol",
    "symbols",
    "than",
    "that",
    "there",
    "token",
    "tokens",
    "try",
    "two",
    "type",
    "undefined",
    "upper",
    "uppercase",
    "used",
    "user",
    "username",
    "valid",
    "with",
    "without",
];

/// What stands around the words of a message.
const PUNCTUATION: &[char] =
    &['.', ',', ';', ':', '!', '?', '(', ')', '"', '\'', '`', '\\', '“', '”', '‘', '’'];

/// Whether a text is what a message says of a field: made of nothing but words that such messages
/// have, one of them a complaint, and of short numbers. A sentence with any other word in it may be a
/// password.
pub(super) fn is_message(text: &str) -> bool {
    let is_number = |word: &str| {
        word.split('-')
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_known = |word: &str| {
        [COMPLAINTS, SAID_OF_FIELDS, OF_MESSAGES].iter().any(|all| is_among(word, all))
    };
    let words = || {
        text.split_whitespace().map(|word| word.trim_end_matches("(s)").trim_matches(PUNCTUATION))
    };
    words().any(|word| is_among(word, COMPLAINTS))
        && words().all(|word| word.is_empty() || is_number(word) || word.split('_').all(is_known))
}

/// Signs that set values apart and that passwords hold as well.
const WITHIN_PASSWORDS: &[u8] = b"&,;|()@#^?";

/// Signs of HTML that no password without quotes goes on behind.
const ENTITIES: &[&str] =
    &["&quot;", "&apos;", "&lt;", "&gt;", "&nbsp;", "&#34;", "&#39;", "&#x22;", "&#x27;"];

/// Where a password without quotes ends that was read up to `end`: what is joined to it by a sign
/// belongs to it, up to the name of the next pair.
pub(super) fn end_of_password(text: &str, mut end: usize) -> usize {
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let ampersand = "&amp;".len() * usize::from(rest.starts_with("&amp;"));
        if ENTITIES.iter().any(|entity| rest.starts_with(entity)) {
            return end;
        }
        let bytes = rest.as_bytes().get(ampersand..).unwrap_or_default();
        let signs = bytes.iter().take_while(|b| WITHIN_PASSWORDS.contains(b)).count();
        let more = bytes.get(signs..).unwrap_or_default();
        let is_in_run = |b: &&u8| {
            !b.is_ascii_whitespace() && !b"\"'<>{}\\:=".contains(b) && !WITHIN_PASSWORDS.contains(b)
        };
        let run = more.iter().take_while(is_in_run).count();
        let begins_pair = more.get(run).is_some_and(|b| b":=".contains(b));
        if ampersand + signs == 0 || run == 0 || begins_pair {
            return end;
        }
        end += ampersand + signs + run;
    }
}

#[cfg(test)]
mod tests {
    use super::super::signs::Made;
    use super::*;

    #[test]
    fn the_finder_is_built_and_knows_each_noun() {
        for (noun, ..) in NOUNS {
            assert!(FINDER.is_match(noun), "{noun}");
            let text = format!("{noun} ");
            assert!(Signs::of(&text, Made::of(&text)).has(TOKEN_WORD), "{noun}");
        }
    }

    #[test]
    fn what_is_made_up_is_told_from_words_and_names() {
        for word in [
            "abcd1234",
            "hunter2",
            "tok_1a2b",
            "aBcDeFgH",
            "12345678",
            "c6f3ac01-4a33-4c9b",
            "correcthorsebatterystaple",
            "Ab1x9f/Cd+Ef3==",
            "1a2b3c",
        ] {
            assert!(is_opaque(word), "{word}");
        }
        for word in [
            "sauce",
            "provided",
            "requestId",
            "maxTokensPerMinute",
            "activityLimitReached",
            "JSONWebToken",
            "OAuthAPI",
            "RATE_LIMIT_EXCEEDED",
            "rate-limit-exceeded",
            "sha256",
            "ed25519",
            "OAuth2",
            "4096",
            "128000",
            "1m30.5s",
            "2026-11-11T07",
            "us-east-1",
            "gpt-4o-mini",
            "application/json",
            "v1.2.3",
            "****1234",
            "authentication",
            "",
        ] {
            assert!(!is_opaque(word), "{word}");
        }
    }
}
