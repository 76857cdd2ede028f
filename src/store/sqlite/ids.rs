//! Ids in SQLite: packed where they are written, and found by a number made from them.
//!
//! Ids are a third of an event. Most are hexadecimal digits, UUIDs or ULIDs, whose text is twice as
//! long as what it says; [`pack`] keeps them in half the bytes and gives any other text back as it
//! was. [`key`] is what the table `ids` is ordered by.

use crate::store::StoreError;
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;

/// What a packed id begins with where it is kept as it was: it holds signs beyond printable ASCII.
const PLAIN: u8 = 0x01;
/// A run of hexadecimal digits follows: two digits a byte, as many bytes as this less [`HEX`].
const HEX: u8 = 0x80;
/// Shortest and longest run that is packed, in bytes.
const RUN: std::ops::RangeInclusive<usize> = 4..=0x3f;
/// The 16 bytes of a UUID in lower case follow.
const UUID: u8 = 0xc0;
/// The 16 bytes of a ULID in upper case follow.
const ULID: u8 = 0xc1;

const UUID_LENGTH: usize = 36;
const ULID_LENGTH: usize = 26;
/// The digits of a ULID (Crockford's base 32).
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The value of each digit of [`BASE32`]; 0xff for any other byte.
const BASE32_VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0_u8;
    while (value as usize) < BASE32.len() {
        values[BASE32[value as usize] as usize] = value;
        value += 1;
    }
    values
};

/// The bytes that stand for `text` in the database. Different texts have different bytes.
pub(in crate::store) fn pack(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut packed = Vec::with_capacity(bytes.len());
    if !bytes.iter().all(|b| matches!(b, b' '..=b'~')) {
        packed.push(PLAIN);
        packed.extend_from_slice(bytes);
        return packed;
    }
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        if let Some((uuid, after)) = uuid(rest) {
            packed.push(UUID);
            packed.extend_from_slice(&uuid.to_be_bytes());
            rest = after;
            continue;
        }
        if let Some((ulid, after)) = ulid(rest) {
            packed.push(ULID);
            packed.extend_from_slice(&ulid.to_be_bytes());
            rest = after;
            continue;
        }
        let digits = rest.iter().take(RUN.end() * 2).take_while(|b| hex_digit(**b).is_some());
        let run = digits.count() / 2;
        if RUN.contains(&run) {
            let (digits, after) = rest.split_at(run * 2);
            packed.push(HEX + u8::try_from(run).unwrap_or_default());
            packed.extend(digits.chunks_exact(2).map(|pair| {
                let digit = |at: usize| pair.get(at).and_then(|b| hex_digit(*b)).unwrap_or(0);
                digit(0) << 4 | digit(1)
            }));
            rest = after;
        } else {
            packed.push(*first);
            rest = after;
        }
    }
    packed
}

/// The text that [`pack`] was given.
///
/// # Errors
/// Where the bytes are none that it gives.
pub(in crate::store) fn unpack(packed: &[u8]) -> Result<String, StoreError> {
    text_of(packed).ok_or_else(|| StoreError::Corrupt {
        table: "events",
        column: "an id",
        reason: format!("{} is no packed id", hex::encode(packed)),
    })
}

fn text_of(packed: &[u8]) -> Option<String> {
    if let [PLAIN, text @ ..] = packed {
        return String::from_utf8(text.to_vec()).ok();
    }
    let mut text = String::with_capacity(packed.len() * 2);
    let mut rest = packed;
    while let [tag, after @ ..] = rest {
        rest = match *tag {
            UUID => {
                let (bytes, after) = after.split_first_chunk()?;
                let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
                for (at, digit) in digits.chars().enumerate() {
                    if matches!(at, 8 | 12 | 16 | 20) {
                        text.push('-');
                    }
                    text.push(digit);
                }
                after
            }
            ULID => {
                let (bytes, after) = after.split_first_chunk()?;
                let number = u128::from_be_bytes(*bytes);
                for at in (0..ULID_LENGTH).rev() {
                    let digit = usize::try_from(number >> (5 * at) & 31).ok()?;
                    text.push(char::from(*BASE32.get(digit)?));
                }
                after
            }
            HEX..UUID => {
                let (bytes, after) = after.split_at_checked(usize::from(*tag - HEX))?;
                text.push_str(&hex::encode(bytes));
                after
            }
            b' '..=b'~' => {
                text.push(char::from(*tag));
                after
            }
            _ => return None,
        };
    }
    Some(text)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The UUID in lower case that `text` begins with, and what follows it.
fn uuid(text: &[u8]) -> Option<(u128, &[u8])> {
    let (head, rest) = text.split_at_checked(UUID_LENGTH)?;
    let mut number = 0_u128;
    for (at, byte) in head.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
        } else {
            number = number << 4 | u128::from(hex_digit(*byte)?);
        }
    }
    Some((number, rest))
}

/// The ULID in upper case that `text` begins with, and what follows it.
fn ulid(text: &[u8]) -> Option<(u128, &[u8])> {
    let (head, rest) = text.split_at_checked(ULID_LENGTH)?;
    // 26 digits of 5 bits are two more than a ULID has.
    if !matches!(head.first()?, b'0'..=b'7') {
        return None;
    }
    let mut number = 0_u128;
    for byte in head {
        let digit = BASE32_VALUES[usize::from(*byte)];
        if digit == 0xff {
            return None;
        }
        number = number << 5 | u128::from(digit);
    }
    Some((number, rest))
}

/// Bits of a key: as many as SQLite keeps in six bytes.
const KEY_BITS: u32 = 47;
/// Bits of a key that come from the hash alone.
const HASH_BITS: u32 = 24;
/// Milliseconds, as a power of two, in which ids that begin with their time stay together.
const TIME_STEP: u32 = 17;

/// The number under which an id is looked up, whatever kind of id it is; other ids may have it too.
///
/// A hash, so that all ids spread evenly. Where the id begins with its time (ULID, UUID version 7)
/// that time comes first, in steps of two minutes, so that ids that are written together stand
/// together. The place behind a Cloudflare ray id is left out: it is found with and without it.
pub(in crate::store) fn key(id: &str) -> i64 {
    let id = ray_head(id).unwrap_or(id);
    let mut hasher = SipHasher13::new();
    hasher.write(id.as_bytes());
    let hash = hasher.finish() >> (u64::BITS - KEY_BITS);
    let key = match time_of(id.as_bytes()) {
        None => hash,
        Some(ms) => {
            let time = ms >> TIME_STEP & ((1 << (KEY_BITS - HASH_BITS)) - 1);
            time << HASH_BITS | hash & ((1 << HASH_BITS) - 1)
        }
    };
    i64::try_from(key).unwrap_or_default()
}

/// The digits of a Cloudflare ray id that has a place behind them (`8f2a9c3d1e4b5a60-FRA`).
pub(in crate::store) fn ray_head(id: &str) -> Option<&str> {
    let (head, place) = id.split_once('-')?;
    let is_ray = head.len() >= 4
        && place.len() == 3
        && place.bytes().all(|b| b.is_ascii_uppercase())
        && head.bytes().all(|b| hex_digit(b).is_some());
    is_ray.then_some(head)
}

/// Milliseconds since 1970 that an id begins with.
fn time_of(id: &[u8]) -> Option<u64> {
    let number = match id.len() {
        ULID_LENGTH => ulid(id)?.0,
        UUID_LENGTH => uuid(id)?.0,
        _ => return None,
    };
    // The version of a UUID stands in the 13th digit (RFC 9562, section 4.2).
    if id.len() == UUID_LENGTH && number >> 76 & 0xf != 7 {
        return None;
    }
    u64::try_from(number >> 80).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_ids_take_half_their_bytes_and_read_back() {
        for (id, bytes) in [
            ("4bf92f3577b34da6a3ce929d0e0e4736", 17),
            ("00f067aa0ba902b7", 9),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", 17),
            ("req-f81d4fae-7dec-11d0-a765-00a0c91e6bf6", 21),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 17),
            ("8f2a9c3d1e4b5a60-GRU", 13),
            ("op_01ARZ3NDEKTSV4RRFFQ69G5FAV", 20),
            ("deadbee", 7),
            ("F81D4FAE-7DEC", 13),
            ("", 0),
            ("Grüße", 8),
            ("81ARZ3NDEKTSV4RRFFQ69G5FAV", 26),
        ] {
            let packed = pack(id);
            assert_eq!(unpack(&packed).unwrap(), id);
            assert_eq!(packed.len(), bytes, "{id}");
        }
        let digest = format!("hmac-sha256:{}", "0f".repeat(32));
        assert_eq!(pack(&digest).len(), 12 + 1 + 32);
        assert!(unpack(&[0xff]).is_err() && unpack(&[UUID, 1]).is_err());
    }

    #[test]
    fn ids_of_one_time_have_keys_that_stand_together() {
        let keys: Vec<i64> =
            ["01JCH6000000000000000000AA", "01JCH600000ZZZZZZZZZZZZZZZ"].map(key).to_vec();
        assert_eq!(keys[0] >> HASH_BITS, keys[1] >> HASH_BITS);
        assert_ne!(keys[0], keys[1]);
        let of_version_7 = key("01932c07-209d-7d1c-9d3a-0123456789ab");
        assert_eq!(of_version_7 >> HASH_BITS, (0x0193_2c07_209d >> TIME_STEP) & 0x7f_ffff);
        assert_eq!(key("8f2a9c3d1e4b5a60-GRU"), key("8f2a9c3d1e4b5a60"));
        assert_ne!(key("8f2a9c3d1e4b5a60-other"), key("8f2a9c3d1e4b5a60"));
    }

    proptest! {
        #[test]
        fn any_text_reads_back_and_keys_fit_six_bytes(text in "\\PC*|[0-9a-f-]{0,80}|[0-9A-Z]{20,60}") {
            prop_assert_eq!(unpack(&pack(&text)).unwrap(), text.clone());
            prop_assert!((0..1 << KEY_BITS).contains(&key(&text)));
        }

        #[test]
        fn bytes_that_are_no_id_are_refused_and_never_break(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(text) = unpack(&bytes) {
                prop_assert!(text.len() <= bytes.len() * 3);
            }
        }
    }
}
