//! What stands in for a key: a keyed hash, the same for the same key, worth nothing elsewhere.
//!
//! Telling whether a text already is a hash leans to "no": hashing a hash once more keeps every
//! comparison intact, whereas taking a raw key for a hash would store the key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Hashes raw keys with the server's own key (HMAC-SHA256, RFC 2104).
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    /// A hasher over `key`; replicas that share a store share the key, so that hashes agree.
    pub fn new(key: &[u8]) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "HMAC takes keys of any length (RFC 2104 section 2)"
        )]
        Self(Hmac::<Sha256>::new_from_slice(key).expect("any length is accepted"))
    }

    /// The hash of `raw` as it is stored and shown: `hmac-sha256:` and 64 hexadecimal digits.
    pub fn hash(&self, raw: &str) -> String {
        format!("hmac-sha256:{}", self.hex(raw))
    }

    /// The 64 hexadecimal digits alone.
    pub fn hex(&self, raw: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(raw.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

/// Names before the colon that mark a hash.
const ALGORITHMS: [&str; 10] = [
    "hmac-sha256",
    "hmac-sha512",
    "hmac-sha1",
    "sha256",
    "sha384",
    "sha512",
    "sha1",
    "blake2b",
    "blake3",
    "md5",
];

/// Whether `text` is a hash already: an algorithm's name, a colon and 4 to 128 hexadecimal digits
/// (`hmac-sha256:9d3f`), or 64, 96 or 128 bare ones. Bare runs of 32 or 40 are no proof: several
/// vendors' raw keys look just so.
pub fn looks_hashed(text: &str) -> bool {
    let after = |name: &str| {
        let (head, rest) = text.split_at_checked(name.len())?;
        rest.strip_prefix(':').filter(|_| head.eq_ignore_ascii_case(name))
    };
    match ALGORITHMS.into_iter().find_map(after) {
        Some(digest) => (4..=128).contains(&digest.len()) && is_hex(digest),
        None => matches!(text.len(), 64 | 96 | 128) && is_hex(text),
    }
}

fn is_hex(text: &str) -> bool {
    // All bytes are asked, since that takes many at a time.
    text.bytes().fold(true, |is_hex, byte| is_hex & byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_rfc_4231() {
        // RFC 4231 section 4.3, test case 2.
        let hasher = KeyHasher::new(b"Jefe");
        assert_eq!(
            hasher.hash("what do ya want for nothing?"),
            "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn the_key_is_not_in_the_debug_text() {
        assert_eq!(format!("{:?}", KeyHasher::new(b"server key")), "KeyHasher(..)");
    }

    #[test]
    fn a_hash_is_told_from_a_raw_key() {
        let digest = "0123456789abcdef".repeat(4);
        let table = [
            (format!("sha256:{digest}"), true),
            (format!("HMAC-SHA256:{}", digest.to_uppercase()), true),
            ("hmac-sha256:9d3f".to_owned(), true),
            (digest.clone(), true),
            (digest.chars().take(32).collect(), false), // as long as several vendors' raw keys
            ("hmac-sha256:".to_owned(), false),
            ("hmac-sha256:not hex at all".to_owned(), false),
            ("rot13:abcdef".to_owned(), false),
            ("203.0.113.7".to_owned(), false),
            ("my-key".to_owned(), false),
            (String::new(), false),
        ];
        for (text, expected) in table {
            assert_eq!(looks_hashed(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_the_hasher_writes_looks_hashed() {
        assert!(looks_hashed(&KeyHasher::new(b"k").hash("raw")));
    }
}
