//! The fields of an event that no question filters by, as one compressed text.
//!
//! Events look alike: field names, media types, server names. A dictionary of what is common
//! (`detail-1.dict`, made from answers of many products) lets zstd compress each row by itself to
//! about a quarter. The first byte tells how the rest is kept, so that a later dictionary can stand
//! beside this one; a dictionary that rows were written with is never changed.

use super::StoreError;
use serde::Serialize;
use std::cell::RefCell;
use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// The text follows as it is.
const PLAIN: u8 = 0;
/// A zstd frame of the first dictionary follows, without its magic number, which is always the
/// same (RFC 8878, section 3.1.1).
const DICTIONARY_1: u8 = 1;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LEVEL: i32 = 1;
/// Largest text, in bytes; what the door lets in is far smaller.
const MAX_TEXT: usize = 4 << 20;

static BYTES_1: &[u8] = include_bytes!("detail-1.dict");
static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(BYTES_1, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(BYTES_1));

thread_local! {
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> =
        RefCell::new(Decompressor::with_prepared_dictionary(&DECODER).ok());
}

/// A compressor, and room for what goes in and comes out.
struct Packer {
    /// `None` where there was no memory for it.
    compressor: Option<Compressor<'static>>,
    text: Vec<u8>,
    frame: Vec<u8>,
}

impl Packer {
    fn new() -> Self {
        Self { compressor: compressor().ok(), text: Vec::new(), frame: Vec::new() }
    }

    /// The bytes that stand for `self.text`.
    fn pack(&mut self) -> Vec<u8> {
        let Self { compressor, text, frame } = self;
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(text.len()));
        let is_made = compressor.as_mut().is_some_and(|compressor| {
            compressor.compress_to_buffer(text.as_slice(), frame).is_ok()
        });
        let made = frame.strip_prefix(&MAGIC).filter(|rest| is_made && rest.len() < text.len());
        let (tag, rest) = match made {
            Some(rest) => (DICTIONARY_1, rest),
            None => (PLAIN, text.as_slice()),
        };
        let mut packed = Vec::with_capacity(rest.len() + 1);
        packed.push(tag);
        packed.extend_from_slice(rest);
        packed
    }
}

fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::with_prepared_dictionary(&ENCODER)?;
    compressor.include_checksum(false)?;
    compressor.include_dictid(false)?;
    Ok(compressor)
}

/// The bytes that stand in the database for `detail` as JSON.
pub(super) fn pack(detail: &impl Serialize) -> Vec<u8> {
    PACKER.with_borrow_mut(|packer| {
        packer.text.clear();
        if serde_json::to_writer(&mut packer.text, detail).is_err() {
            packer.text.clear();
        }
        packer.pack()
    })
}

/// The text that [`pack`] made.
///
/// # Errors
/// Where the bytes are none that it gives, or come from a later version.
pub(super) fn unpack(packed: &[u8]) -> Result<String, StoreError> {
    let bytes = match packed {
        [PLAIN, text @ ..] => text.to_vec(),
        [DICTIONARY_1, rest @ ..] => {
            let frame = [&MAGIC, rest].concat();
            let size = zstd::zstd_safe::get_frame_content_size(&frame).ok().flatten();
            let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(MAX_TEXT);
            DECOMPRESSOR
                .with_borrow_mut(|decompressor| {
                    decompressor.as_mut().map(|d| d.decompress(&frame, size.min(MAX_TEXT)))
                })
                .ok_or_else(|| corrupt("no memory to decompress with"))?
                .map_err(|error| corrupt(&error.to_string()))?
        }
        _ => return Err(corrupt("it is kept in a way that this version doesn't know")),
    };
    String::from_utf8(bytes).map_err(|error| corrupt(&error.to_string()))
}

fn corrupt(reason: &str) -> StoreError {
    StoreError::Corrupt { table: "events", column: "detail", reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::Event;
    use crate::ingest::response;
    use crate::pipeline::judge;
    use crate::store::rows::Draft;
    use std::path::Path;

    /// The bytes that stand for a text.
    fn pack(text: &str) -> Vec<u8> {
        let mut packer = Packer::new();
        packer.text.extend_from_slice(text.as_bytes());
        packer.pack()
    }

    /// Details of the sample answers as an event would carry them, and of successes with the same
    /// fields; ids and dates differ from each other.
    fn samples() -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/responses");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let mut samples = Vec::new();
        for (n, file) in files.iter().enumerate() {
            let text = std::fs::read_to_string(file).unwrap();
            let text: String = text
                .lines()
                .filter(|line| !line.starts_with("# "))
                .flat_map(|l| [l, "\n"])
                .collect();
            let Ok(parsed) = response::parse(&text) else { continue };
            for success in [false, true] {
                let n = u64::try_from(n).unwrap() * 2 + u64::from(success);
                let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let refusal = r#""retry_after":"7","computed_delay_ms":7310,
                    "delay_source":"retry-after","error_code":"rate_limited","#;
                let event = format!(
                    r#"{{"event_id":"{n}","attempt":1,"occurred_at":{n},"vantage":"client",
                    "service":"s","host":"h","method":"{method}","status":{status},{refusal}
                    "key_kind":"api-key","attempts_max":5,"timeout_ms":3000,"deadline_ms":10000,
                    "span_id":"{noise:016x}","headers":[],"count":1,"redactions":0}}"#,
                    method = ["GET", "POST", "PUT"][usize::try_from(n % 3).unwrap()],
                    status = if success { 200 } else { parsed.response.status.unwrap_or(429) },
                    refusal = if success { "" } else { refusal },
                );
                let mut event: Event = serde_json::from_str(&event).unwrap();
                event.headers = parsed
                    .response
                    .headers
                    .iter()
                    .filter(|(name, _)| crate::domain::headers::is_allowed(name))
                    .filter(|(name, _)| !success || *name != "retry-after")
                    .map(|(name, value)| {
                        let value = match name {
                            "date" => {
                                format!("Wed, 11 Nov 2026 07:{:02}:{:02} GMT", n % 60, n % 59)
                            }
                            "cf-ray" => format!("{noise:016x}-FRA"),
                            _ => value.to_owned(),
                        };
                        (name.to_owned(), value)
                    })
                    .collect();
                let draft = Draft::new(judge(event));
                samples.push(unpack(&draft.detail).unwrap());
            }
        }
        samples
    }

    /// Makes the dictionary. A new one needs a number and a file of its own: rows stay readable
    /// only with the dictionary that they were written with.
    #[test]
    #[ignore = "writes the dictionary; run it by name"]
    fn write_the_dictionary() {
        let dictionary = zstd::dict::from_samples(&samples(), 16 << 10).unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/detail-1.dict");
        std::fs::write(file, dictionary).unwrap();
    }

    #[test]
    fn details_take_less_than_half_their_bytes_and_read_back() {
        let samples = samples();
        assert!(samples.len() > 900, "{}", samples.len());
        let (mut plain, mut packed) = (0, 0);
        for text in &samples {
            let bytes = pack(text);
            assert_eq!(unpack(&bytes).unwrap(), *text);
            plain += text.len();
            packed += bytes.len();
        }
        assert!(packed * 2 < plain, "{packed} of {plain} bytes");
    }

    #[test]
    fn what_does_not_compress_is_kept_as_it_is_and_other_bytes_are_refused() {
        for text in ["", "x", "{}"] {
            assert_eq!(unpack(&pack(text)).unwrap(), text);
        }
        for bytes in [&[][..], &[1], &[1, 2, 3], &[9, 1], &[0, 0xff]] {
            assert!(unpack(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn rows_that_were_written_with_the_dictionary_stay_readable() {
        // Written by the first version; it must not change.
        use sha2::{Digest, Sha256};
        assert_eq!(hex::encode(Sha256::digest(BYTES_1)), include_str!("detail-1.sha256").trim());
    }
}
