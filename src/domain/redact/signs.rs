//! The cheap look: what one pass over the bytes of a text tells about which rules can match at all.

use super::prefixes::PREFIXES;

/// The kinds of bytes in a text, a bit for each.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Made(pub(super) u16);

impl Made {
    pub(super) const DIGIT: u16 = 1;
    pub(super) const DASH: u16 = 1 << 1;
    /// The letter `u`: of ids in hexadecimal, UUIDs and the like none has it.
    pub(super) const U: u16 = 1 << 2;
    pub(super) const DOT: u16 = 1 << 3;
    pub(super) const SLASH: u16 = 1 << 4;
    const PLUS: u16 = 1 << 5;
    pub(super) const AT: u16 = 1 << 6;
    pub(super) const PERCENT: u16 = 1 << 7;
    pub(super) const SEMICOLON: u16 = 1 << 8;
    /// `:` and `=`.
    pub(super) const SIGN: u16 = 1 << 9;
    /// White space, also what of other bytes may be some.
    const SPACE: u16 = 1 << 10;
    const OTHER: u16 = 1 << 11;
    pub(super) const BACKSLASH: u16 = 1 << 12;
    /// `<`, which begins elements.
    pub(super) const ANGLE: u16 = 1 << 13;
    /// `=` alone.
    pub(super) const EQUALS: u16 = 1 << 14;

    pub(super) fn of(text: &str) -> Self {
        Self(text.bytes().fold(0, |made, byte| made | KINDS[usize::from(byte)]))
    }

    pub(super) fn has(self, kinds: u16) -> bool {
        self.0 & kinds != 0
    }

    /// Whether nothing sets words apart as names from values, schemes from tokens or users from
    /// hosts, and no number is set in dashes: only a token by itself can match.
    pub(super) fn is_one_word(self) -> bool {
        let is_number = self.has(Self::DIGIT) && self.has(Self::DASH);
        !is_number && !self.has(!(Self::DIGIT | Self::DASH | Self::U | Self::DOT | Self::SEMICOLON))
    }

    /// Whether it is but letters, digits, `_` and `-`.
    pub(super) fn is_plain(self) -> bool {
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
pub(super) const SHORTEST_TOKEN: usize = {
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
/// own: with a `u` `mailchimp-key`, without one none.
pub(super) const SHORTEST_PLAIN_SHAPES: [usize; 2] = [36, usize::MAX];

/// Small letters and capitals, as [`case_of`] counts them.
const BOTH_CASES: u8 = 3;

/// The case of a letter, a bit for each; 0 for other bytes.
fn case_of(byte: u8) -> u8 {
    u8::from(byte.is_ascii_lowercase()) | u8::from(byte.is_ascii_uppercase()) << 1
}

/// The length of a run as a jumble, which has letters of both cases.
fn jumbled(length: usize, cases: u8) -> usize {
    if cases == BOTH_CASES { length } else { 0 }
}

/// What one pass over the bytes tells about which rules can match at all.
#[derive(Debug, Default)]
pub(super) struct Signs {
    pub(super) made: Made,
    /// What sets a name apart from its value: `:`, unless it stands in a time of day, `=`, an arrow,
    /// or a comma behind a quotation mark.
    pub(super) pair: bool,
    pub(super) dashes: bool,
    /// A dash that begins a word, as options of commands have.
    pub(super) option: bool,
    /// Which of [`WORDS`] may begin somewhere: a bit for each group.
    pub(super) words: u8,
    /// Most digits in a row, spaces and dashes between them passed over.
    pub(super) digits: usize,
    /// Longest run of letters, digits, `_` and `-`.
    pub(super) longest_run: usize,
    /// Longest run of letters, digits, `/` and `+` in which there are letters of both cases.
    pub(super) jumble: usize,
}

impl Signs {
    pub(super) fn of(text: &str, made: Made) -> Self {
        let digits = if made.has(Made::DIGIT) { most_digits(text) } else { 0 };
        if made.is_plain() {
            // Ids, for the most part: no word in them tells anything.
            let longest_run = text.len();
            let cases = text.bytes().fold(0, |cases, byte| cases | case_of(byte));
            let jumble = jumbled(longest_run, cases);
            return Self { made, digits, longest_run, jumble, ..Self::default() };
        }
        let mut signs = Self { made, digits, ..Self::default() };
        let (mut run, mut jumble) = (0_usize, 0_usize);
        let mut cases = 0;
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
                    cases |= case_of(byte);
                    three = pushed(three, byte);
                    signs.words |= WORD_BITS[three];
                }
            } else {
                three = if byte == b'_' { pushed(three, byte) } else { 0 };
                signs.words |= WORD_BITS[three];
                match byte {
                    b'_' | b'-' => {
                        run += 1;
                        signs.dashes |= byte == b'-' && previous == b'-';
                        signs.option |= byte == b'-' && !previous.is_ascii_graphic();
                    }
                    _ => signs.longest_run = signs.longest_run.max(std::mem::take(&mut run)),
                }
                match byte {
                    b'/' | b'+' => jumble += 1,
                    _ => {
                        let ended =
                            jumbled(std::mem::take(&mut jumble), std::mem::take(&mut cases));
                        signs.jumble = signs.jumble.max(ended);
                    }
                }
                signs.pair |= match byte {
                    b'=' => true,
                    b':' => is_named || !previous.is_ascii_digit(),
                    b'>' => previous == b'-',
                    // Of an escape in HTML.
                    b'#' => previous == b'&',
                    b',' => matches!(previous, b'"' | b'\'' | b';'),
                    // The last two bytes of a full-width colon or equals sign.
                    0x9A | 0x9D => previous == 0xBC,
                    _ => false,
                };
                is_named = false;
            }
            previous = byte;
        }
        signs.longest_run = signs.longest_run.max(run);
        signs.jumble = signs.jumble.max(jumbled(jumble, cases));
        signs
    }

    pub(super) fn has(&self, group: u8) -> bool {
        self.words & group != 0
    }

    pub(super) fn made_with(&self, kinds: u16) -> bool {
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
pub(super) const PAIR_WORD: u8 = 1;
/// The words "authorization" and "cookie".
pub(super) const FIELD_WORD: u8 = 1 << 1;
/// The word "code".
pub(super) const CODE_WORD: u8 = 1 << 2;
/// Attributes of a cookie.
pub(super) const ATTRIBUTE_WORD: u8 = 1 << 3;
/// Schemes of `Authorization` that are told by more than [`super::wording`].
pub(super) const SCHEME_WORD: u8 = 1 << 4;
/// Words before which or after which a secret stands in a path.
pub(super) const LINK_WORD: u8 = 1 << 5;
/// What stands before a secret in prose.
pub(super) const TOKEN_WORD: u8 = 1 << 6;
/// Words of a webhook's address.
pub(super) const HOOK_WORD: u8 = 1 << 7;

/// Three letters, or `_`, of the words that rules wait for, and the rules' group.
const WORDS: &[(&[u8; 3], u8)] = &[
    (b"pas", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"pwd", PAIR_WORD | TOKEN_WORD),
    (b"sec", PAIR_WORD | ATTRIBUTE_WORD | TOKEN_WORD | LINK_WORD),
    (b"key", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"tok", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"aut", PAIR_WORD | FIELD_WORD),
    (b"ses", PAIR_WORD | TOKEN_WORD | LINK_WORD),
    (b"sid", PAIR_WORD),
    // Of "assertion", "csrf", "ticket", "wordpress" and the cookie `__cf_bm`.
    (b"sse", PAIR_WORD),
    (b"srf", PAIR_WORD),
    (b"ick", PAIR_WORD),
    (b"rdp", PAIR_WORD),
    (b"cf_", PAIR_WORD),
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
    (b"coo", PAIR_WORD | FIELD_WORD | TOKEN_WORD),
    (b"pat", ATTRIBUTE_WORD),
    (b"dom", ATTRIBUTE_WORD),
    (b"exp", ATTRIBUTE_WORD),
    (b"max", ATTRIBUTE_WORD),
    (b"sam", ATTRIBUTE_WORD | PAIR_WORD),
    (b"htt", ATTRIBUTE_WORD),
    (b"par", ATTRIBUTE_WORD),
    (b"bea", SCHEME_WORD | PAIR_WORD),
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
    // "recover", "hook", "share", "accept", "login", "sign in", "download", "callback" and "authorize":
    // letters that few other words have.
    (b"ese", LINK_WORD),
    (b"rif", LINK_WORD),
    (b"irm", LINK_WORD),
    (b"iva", LINK_WORD),
    (b"vit", LINK_WORD),
    (b"joi", LINK_WORD),
    (b"gic", LINK_WORD),
    (b"bsc", LINK_WORD),
    (b"cov", LINK_WORD),
    (b"hoo", LINK_WORD | HOOK_WORD),
    (b"sha", LINK_WORD),
    (b"cep", LINK_WORD),
    (b"ogi", LINK_WORD),
    (b"nin", LINK_WORD),
    (b"wnl", LINK_WORD),
    (b"lba", LINK_WORD),
    (b"riz", LINK_WORD),
];

/// The last three letters as a number of 15 bits, after `letter`. Case does not matter; `_` counts as
/// a letter of its own.
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
