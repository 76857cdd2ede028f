//! Prefixes that vendors give their tokens.

use super::signs::{Made, SHORTEST_TOKEN, Signs};
use super::{Part, wording};
use std::ops::Range;

/// What may follow a prefix.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tail {
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
    /// As `Word`, and a part is made up: what begins names of services is no secret.
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
            Self::Mixed => body.len() >= least && has_made_up_piece(body),
            Self::Alnum | Self::Word | Self::Dots | Self::Base64 => body.len() >= least,
        }
    }
}

/// How much of a token shows whether it is made up, in bytes.
const MIXED_HEAD: usize = 64;

/// Whether a part of at least eight letters and digits is none of words and numbers.
fn has_made_up_piece(body: &[u8]) -> bool {
    let head = body.get(..body.len().min(MIXED_HEAD)).unwrap_or_default();
    let head = str::from_utf8(head).unwrap_or_default();
    wording::pieces(head).any(|piece| {
        piece.len() >= 8
            && piece.bytes().any(|b| b.is_ascii_digit())
            && wording::is_opaque_piece(piece)
            && !wording::is_numbered(piece, 4)
    })
}

/// Where the run of characters that a [`Tail`] takes ends. Positions are asked in about ascending order; what was walked once is not walked again, else a
/// text of nothing but prefixes would take time by the square of its length.
#[derive(Default)]
struct Runs {
    /// For each tail a stretch that it takes, up to but without the byte that ends it.
    taken: [Range<usize>; 6],
}

impl Runs {
    /// The end of the run that begins at `from`.
    fn end(&mut self, tail: Tail, bytes: &[u8], from: usize) -> usize {
        extend(&mut self.taken[tail as usize], bytes, from, |byte| tail.takes(byte))
    }
}

/// The first position from `from` on where `takes` does not hold. `known` is a stretch where it
/// holds and that ends where it does not; walking stops where that stretch is met.
pub(super) fn extend(
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
pub(super) type Prefix = (&'static str, Tail, usize, &'static str);

/// Token prefixes as the vendors document them, grouped by their first character.
pub(super) const PREFIXES: &[Prefix] = &[
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
    ("LTAI", Tail::Alnum, 12, "alibaba-key"),
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
pub(super) static STARTS: [(usize, usize); 256] = {
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

pub(super) fn by_prefix(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
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
            let fits = tail.fits(bytes.get(start..end)?, bytes.get(end), *least);
            fits.then_some(Part { range: at..end, kind })
        }));
    }
}

/// Whether a word begins at `at`: at the start, after anything but a letter or digit, or after an
/// escape: `%20`, `\n` or `\u0026` as they are written.
pub(super) fn starts_word(bytes: &[u8], at: usize) -> bool {
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
