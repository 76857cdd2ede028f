//! Numbers that prove themselves (card numbers by Luhn, IBANs by their check digits) or that have a
//! form of their own (social security numbers of the USA).

use super::Part;
use super::prefixes::starts_word;
use super::signs::Signs;

/// Card numbers have 14 digits and more, IBANs at least 10 in a row, social security numbers 9.
pub(super) const MIN_NUMBER_DIGITS: usize = 9;

pub(super) fn by_number(text: &str, signs: &Signs, parts: &mut Vec<Part>) {
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
