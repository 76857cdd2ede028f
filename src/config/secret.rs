//! Values that must not be shown: they print nothing of themselves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// A text that is never printed. `Debug` shows that there is one and nothing else.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that uses it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The SHA-256 of an access token; the token itself is dropped as soon as it was read.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

/// Shortest token that is accepted, in characters.
pub const MIN_TOKEN_CHARS: usize = 16;

impl TokenHash {
    /// Reads a token, or its hash as `sha256:<64 hex digits>`. The error says what is expected and
    /// holds nothing of the token.
    pub fn from_setting(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if let Some(digits) = text.strip_prefix("sha256:") {
            let mut hash = [0; 32];
            hex::decode_to_slice(digits, &mut hash)
                .map_err(|_| "sha256: and 64 hex digits for a hashed token")?;
            return Ok(Self(hash));
        }
        if text.chars().count() < MIN_TOKEN_CHARS {
            return Err("a token of 16 characters or more");
        }
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err("a token without spaces and without characters beyond ASCII");
        }
        Ok(Self::of(text))
    }

    /// The hash of a token as it was presented.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether both are the hash of the same token; takes the same time whatever they hold.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The bytes of the hash, to derive something from.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(hidden)")
    }
}

/// A key to sign webhooks with, as Standard Webhooks writes it: `whsec_` and the base64 of 24 to 64
/// random bytes. `Debug` shows that there is one and nothing else.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// Reads one. The error says what is expected and holds nothing of the key.
    pub fn from_setting(text: &str) -> Result<Self, &'static str> {
        let problem = "whsec_ and the base64 of 24 to 64 random bytes";
        let digits = text.trim().strip_prefix("whsec_").ok_or(problem)?;
        let key = BASE64.decode(digits).map_err(|_| problem)?;
        if (24..=64).contains(&key.len()) { Ok(Self(key)) } else { Err(problem) }
    }

    /// The bytes, for the one place that signs.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(hidden)")
    }
}

/// A database address without its password: in the authority and in `password` or
/// `sslpassword` parameters.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains('@') { "(hidden)".to_owned() } else { url.to_owned() };
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // The last `@` ends the user information: a password may hold `@` and `/` unescaped.
    let shown = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:hidden@{host}"),
            None => format!("{user}@{host}"),
        },
        None => rest.to_owned(),
    };
    let query = query.map_or_else(String::new, |query| {
        let parts: Vec<String> = query
            .split('&')
            .map(|part| match part.split_once('=') {
                Some((name, _)) if name.to_ascii_lowercase().contains("password") => {
                    format!("{name}=hidden")
                }
                _ => part.to_owned(),
            })
            .collect();
        format!("?{}", parts.join("&"))
    });
    format!("{scheme}://{shown}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_print_nothing_of_themselves() {
        let secret = Secret::new("correct-horse-battery");
        let hash = TokenHash::of("correct-horse-battery");
        let shown = format!("{secret:?} {hash:?} {secret:#?}");
        assert!(!shown.contains("horse"), "{shown}");
        assert!(!shown.contains(&hex::encode(hash.bytes())), "{shown}");
    }

    #[test]
    fn a_token_and_its_hash_are_the_same_setting() {
        let plain = TokenHash::from_setting("correct-horse-battery").unwrap();
        let digits = hex::encode(plain.bytes());
        let hashed = TokenHash::from_setting(&format!("sha256:{digits}")).unwrap();
        assert!(plain.matches(&hashed));
        assert!(!plain.matches(&TokenHash::of("correct-horse-batterx")));
    }

    #[test]
    fn a_weak_token_is_refused() {
        for weak in
            ["", "short", "with a space in it somewhere", "sha256:abcd", "äöüäöüäöüäöüäöüäöü"]
        {
            assert!(TokenHash::from_setting(weak).is_err(), "{weak:?}");
        }
    }

    #[test]
    fn a_database_address_loses_its_password() {
        for (url, shown) in [
            ("sqlite://retrylens.db", "sqlite://retrylens.db"),
            ("postgres://lens@db.example/x", "postgres://lens@db.example/x"),
            ("postgres://lens:pa:ss@db.example/x", "postgres://lens:hidden@db.example/x"),
            ("postgres://lens:p@ss/w@db.example/x", "postgres://lens:hidden@db.example/x"),
            (
                "postgres://db.example/x?user=a&password=b&sslmode=require",
                "postgres://db.example/x?user=a&password=hidden&sslmode=require",
            ),
            ("lens:pw@db.example/x", "(hidden)"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
