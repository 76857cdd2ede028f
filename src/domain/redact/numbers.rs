//! Numbers that prove themselves (card numbers by Luhn, IBANs by their check digits) or that have a
//! form of their own (social security numbers of the USA).

use super::Part;
use super::around::is_no_card;
use super::prefixes::starts_word;
use super::signs::Signs;
use std::ops::Range;

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
                .filter(|length| !is_other_number(text, at..at + length))
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

/// Whether digits in one piece are called an id or have a unit: one in ten passes the check of cards.
fn is_other_number(text: &str, range: Range<usize>) -> bool {
    let is_one_piece =
        text.get(range.clone()).is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    is_one_piece && is_no_card(text, &range)
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

/// The lengths of IBANs, and the countries that have them (ISO 13616 registry).
const IBAN_COUNTRIES: &[(usize, &[&[u8; 2]])] = &[
    (15, &[b"NO"]),
    (16, &[b"BE"]),
    (18, &[b"DK", b"FI", b"FK", b"FO", b"GL", b"NL", b"SD"]),
    (19, &[b"MK", b"SI"]),
    (20, &[b"AT", b"BA", b"EE", b"KZ", b"LT", b"LU", b"MN", b"XK"]),
    (21, &[b"CH", b"HR", b"LI", b"LV"]),
    (22, &[b"BG", b"BH", b"CR", b"DE", b"GB", b"GE", b"IE", b"ME", b"RS", b"VA"]),
    (23, &[b"AE", b"GI", b"IL", b"IQ", b"OM", b"SO", b"TL"]),
    (24, &[b"AD", b"CZ", b"ES", b"MD", b"PK", b"RO", b"SA", b"SE", b"SK", b"TN", b"VG"]),
    (25, &[b"LY", b"PT", b"ST"]),
    (26, &[b"IS", b"TR"]),
    (27, &[b"BI", b"DJ", b"FR", b"GR", b"IT", b"MC", b"MR", b"SM"]),
    (28, &[b"AL", b"AZ", b"BY", b"CY", b"DO", b"GT", b"HN", b"HU", b"LB", b"NI", b"PL", b"SV"]),
    (29, &[b"BR", b"EG", b"PS", b"QA", b"UA"]),
    (30, &[b"JO", b"KW", b"MU", b"YE"]),
    (31, &[b"MT", b"SC"]),
    (32, &[b"LC"]),
    (33, &[b"RU"]),
];

/// Digits in a row that an IBAN in small letters has; ids in hexadecimal seldom do.
const SMALL_IBAN_DIGITS: usize = 9;

/// Length in bytes of the IBAN at the start of `bytes`, single spaces included, in capitals or in
/// small letters.
fn iban(bytes: &[u8]) -> Option<usize> {
    let country = bytes.first_chunk::<2>()?;
    let rest = bytes.get(2..)?;
    let check = rest.strip_prefix(b" ").unwrap_or(rest).get(..2)?;
    if !check.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let is_small = country.iter().all(u8::is_ascii_lowercase);
    let country = country.map(|letter| letter.to_ascii_uppercase());
    let wanted = (IBAN_COUNTRIES.iter())
        .find_map(|(length, countries)| countries.contains(&&country).then_some(*length))?;
    let mut symbols: Vec<u8> = Vec::with_capacity(wanted);
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => symbols.push(*byte),
            b'A'..=b'Z' if !is_small => symbols.push(*byte),
            b'a'..=b'z' if is_small => symbols.push(byte.to_ascii_uppercase()),
            b' ' if bytes.get(i + 1) != Some(&b' ') => {}
            _ => return None,
        }
        if symbols.len() == wanted {
            let ends_word = !bytes.get(i + 1).is_some_and(u8::is_ascii_alphanumeric);
            let mut numbers = symbols.split(|byte| !byte.is_ascii_digit());
            let is_number = !is_small || numbers.any(|number| number.len() >= SMALL_IBAN_DIGITS);
            return (ends_word && is_number && has_iban_check(&symbols)).then_some(i + 1);
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
