//! Ids of a common form, in which no rule finds a secret.

/// The fewest digits of a card number.
const CARD_DIGITS: usize = 13;

/// A digit of hexadecimal numbers in lower case, in upper case, of a ULID (Crockford's base 32).
const LOWER: u8 = 1;
const UPPER: u8 = 1 << 1;
const BASE32: u8 = 1 << 2;

/// What each byte can be a digit of.
static DIGITS: [u8; 256] = {
    let mut digits = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        digits[byte as usize] = match byte {
            b'0'..=b'9' => LOWER | UPPER | BASE32,
            b'a'..=b'f' => LOWER,
            b'A'..=b'F' => UPPER | BASE32,
            b'G'..=b'Z' if !matches!(byte, b'I' | b'L' | b'O' | b'U') => BASE32,
            _ => 0,
        };
        byte += 1;
    }
    digits
};

/// Whether an id is a UUID, a ULID, a trace or span id in hexadecimal, or a ray id of Cloudflare, with
/// no number in it that is long enough for a card's.
pub(super) fn is_plain_id(id: &str) -> bool {
    let bytes = id.as_bytes();
    let all = |bytes: &[u8], kind: u8| {
        bytes.iter().fold(kind, |kinds, byte| kinds & DIGITS[usize::from(*byte)]) == kind
    };
    let has_form = match bytes {
        [a @ .., b'-', x, y, z] if a.len() == 16 => {
            all(a, LOWER) && [x, y, z].iter().all(|b| b.is_ascii_uppercase())
        }
        [first, ..] if bytes.len() == 26 => matches!(first, b'0'..=b'7') && all(bytes, BASE32),
        _ if matches!(bytes.len(), 16 | 32) => all(bytes, LOWER),
        _ if bytes.len() == 36 => {
            let (mut lower, mut upper, mut dashes) = (LOWER, UPPER, 0);
            for (at, byte) in bytes.iter().enumerate() {
                if matches!(at, 8 | 13 | 18 | 23) {
                    dashes += usize::from(*byte == b'-');
                } else {
                    lower &= DIGITS[usize::from(*byte)];
                    upper &= DIGITS[usize::from(*byte)];
                }
            }
            dashes == 4 && lower | upper != 0
        }
        _ => false,
    };
    has_form && longest_number(bytes) < CARD_DIGITS
}

/// Most digits in a row from the beginning of a word on, dashes between them passed over, and the two
/// letters with which the number of a bank account begins.
fn longest_number(bytes: &[u8]) -> usize {
    let (mut longest, mut digits, mut letters) = (0, 0, 0);
    for byte in bytes {
        match byte {
            b'0'..=b'9' if letters <= 2 => digits += 1,
            b'0'..=b'9' => {}
            b'-' if letters == 0 => {}
            b'-' => (digits, letters) = (0, 0),
            _ => {
                letters = if digits == 0 { letters + 1 } else { 3 };
            }
        }
        longest = longest.max(digits);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::super::find_by;
    use super::super::{Made, Signs};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_of_common_forms_are_plain_and_what_may_be_a_number_or_a_key_is_not() {
        for id in [
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "00f067aa0ba902b7",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "8f2a9c3d1e4b5a60-GRU",
        ] {
            assert!(is_plain_id(id), "{id}");
        }
        for id in [
            "4111111111111111",
            "41111111-1111-1111-a765-00a0c91e6bf6",
            "be68539007547034",
            "f81d4fae-7dec-11d0-A765-00a0c91e6bf6",
            "sk_live_4eC39HqLyjWDarjt",
            "81ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01arz3ndektsv4rrffq69g5fav",
            "8f2a9c3d1e4b5a60-gru",
            "op_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "",
        ] {
            assert!(!is_plain_id(id), "{id}");
        }
    }

    proptest! {
        #[test]
        fn no_rule_finds_a_secret_in_a_plain_id(
            id in "[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{16}-[A-Z]{3}|[0-7][0-9A-HJKMNP-TV-Z]{25}\
                   |[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}\
                   |[0-9]{10}[a-f][0-9]{5}|[0-9a]{8}(-[0-9]{4}){3}-[0-9b]{12}"
        ) {
            if is_plain_id(&id) {
                let signs = Signs::of(&id, Made::of(&id));
                prop_assert_eq!(find_by(&id, &signs), []);
            } else {
                prop_assert!(longest_number(id.as_bytes()) >= CARD_DIGITS);
            }
        }
    }
}
