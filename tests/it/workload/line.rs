//! An attempt as a line of NDJSON. Written by hand, since the load must cost much less than what
//! it is a load for.

use super::dice::Dice;
use super::fleet::FLEET;
use super::story::{Attempt, Ending, Promise, Story};
use super::{DAY_MS, START_MS, answers};

/// Writes event `n`, which is in `story`.
pub(super) fn write(out: &mut String, story: &Story, n: u64) {
    let attempt = story.attempt(n);
    let operation = &story.operations[attempt.operation as usize];
    let series = &FLEET.series[operation.series];
    let service = &FLEET.services[series.service];
    let mut whole = operation.dice.clone();
    let mut own = Dice::new(whole.next(), attempt.number.into());

    out.push_str(r#"{"event_id":""#);
    ulid(out, attempt.answered_ms(), &mut own);
    out.push_str(r#"","operation_id":""#);
    ulid(out, operation.begun_ms, &mut whole);
    out.push_str(r#"","attempt":"#);
    digits(out, attempt.number);
    out.push_str(r#","occurred_at":"2026-11-11T"#);
    clock(out, attempt.sent_ms);
    out.push('.');
    padded::<3>(out, attempt.sent_ms % 1_000);
    out.push_str(r#"Z","duration_ms":"#);
    digits(out, attempt.duration_ms);
    out.push_str(&service.fields);
    out.push_str(r#","instance":""#);
    out.push_str(&service.pods[whole.below(16) as usize]);
    out.push('"');
    out.push_str(&series.fields);
    out.push_str(&service.keys[whole.below(3) as usize]);
    if let Some(address) = service.addresses.get(whole.below(3) as usize) {
        out.push_str(address);
    }
    if series.is_write && service.has_idempotency_keys {
        out.push_str(r#","idempotency_key_hash":"hmac-sha256:"#);
        for _ in 0..4 {
            hex::<16>(out, whole.next());
        }
        out.push('"');
    }
    if whole.percent(60) {
        out.push_str(r#","trace_id":""#);
        hex::<16>(out, whole.next());
        hex::<16>(out, whole.next());
        out.push_str(r#"","span_id":""#);
        hex::<16>(out, own.next());
        out.push('"');
    }
    ending(out, attempt);
    answers::write(out, attempt, &FLEET.upstreams[series.upstream], &mut own);
    out.push_str("}\n");
}

/// What became of it, as far as it is the same for every gateway.
fn ending(out: &mut String, attempt: &Attempt) {
    if let Ending::Error(word) = attempt.ending {
        out.push_str(r#","error":""#);
        out.push_str(word);
        out.push('"');
    }
    if let Ending::Limited(promise) = attempt.ending
        && promise != Promise::None
    {
        out.push_str(r#","retry_after":""#);
        retry_after(out, promise, attempt);
        out.push('"');
    }
    out.push_str(r#","outcome":""#);
    out.push_str(attempt.outcome);
    out.push('"');
    if let Some(wait) = attempt.wait {
        out.push_str(r#","computed_delay_ms":"#);
        digits(out, wait.ms);
        out.push_str(r#","delay_source":""#);
        out.push_str(if wait.is_promised { "retry-after" } else { "backoff" });
        out.push('"');
    }
}

/// The value of `Retry-After`.
pub(super) fn retry_after(out: &mut String, promise: Promise, attempt: &Attempt) {
    match promise {
        Promise::None => {}
        Promise::Seconds(seconds) => digits(out, seconds),
        Promise::Date(seconds) => http_date(out, attempt.answered_ms() + seconds * 1_000),
        Promise::Invalid(text) => out.push_str(text),
    }
}

/// `Wed, 11 Nov 2026 07:29:00 GMT`, for milliseconds of the day or the next.
pub(super) fn http_date(out: &mut String, ms: u32) {
    out.push_str(if ms < DAY_MS { "Wed, 11 Nov 2026 " } else { "Thu, 12 Nov 2026 " });
    clock(out, ms % DAY_MS);
    out.push_str(" GMT");
}

/// `07:29:00`.
fn clock(out: &mut String, ms: u32) {
    padded::<2>(out, ms / 3_600_000);
    out.push(':');
    padded::<2>(out, ms / 60_000 % 60);
    out.push(':');
    padded::<2>(out, ms / 1_000 % 60);
}

pub(super) fn digits(out: &mut String, n: u32) {
    match n {
        0..10 => padded::<1>(out, n),
        10..100 => padded::<2>(out, n),
        100..1_000 => padded::<3>(out, n),
        1_000..10_000 => padded::<4>(out, n),
        10_000..100_000 => padded::<5>(out, n),
        _ => {
            digits(out, n / 100_000);
            padded::<5>(out, n % 100_000);
        }
    }
}

/// Decimal digits, with zeros in front.
fn padded<const WIDTH: usize>(out: &mut String, mut n: u32) {
    let mut text = [b'0'; WIDTH];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + u8::try_from(n % 10).unwrap();
        n /= 10;
    }
    push_ascii(out, &text);
}

/// The last hexadecimal digits of a number.
pub(super) fn hex<const WIDTH: usize>(out: &mut String, n: u64) {
    push_ascii(out, &coded::<WIDTH>(n.into(), 4, b"0123456789abcdef"));
}

/// A random UUID (RFC 9562, version 4).
pub(super) fn uuid(out: &mut String, dice: &mut Dice) {
    let (high, low) = (dice.next(), dice.next());
    hex::<8>(out, high >> 32);
    out.push('-');
    hex::<4>(out, high >> 16);
    out.push_str("-4");
    hex::<3>(out, high);
    out.push('-');
    hex::<4>(out, low >> 50 | 0x8000);
    out.push('-');
    hex::<12>(out, low);
}

/// An id that begins with its time (github.com/ulid/spec).
fn ulid(out: &mut String, ms: u32, dice: &mut Dice) {
    let at = u128::try_from(START_MS + i64::from(ms)).unwrap();
    let random = (u128::from(dice.next()) << 64 | u128::from(dice.next())) >> 48;
    let text = coded::<26>(at << 80 | random, 5, b"0123456789ABCDEFGHJKMNPQRSTVWXYZ");
    push_ascii(out, &text);
}

/// The last `WIDTH` digits of a number, of `bits` bits each.
fn coded<const WIDTH: usize>(mut n: u128, bits: u32, alphabet: &[u8]) -> [u8; WIDTH] {
    let mut text = [0; WIDTH];
    for digit in text.iter_mut().rev() {
        *digit = alphabet[usize::try_from(n & ((1 << bits) - 1)).unwrap()];
        n >>= bits;
    }
    text
}

fn push_ascii(out: &mut String, text: &[u8]) {
    out.push_str(std::str::from_utf8(text).unwrap());
}
