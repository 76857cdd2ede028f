//! Caps and inflates request bodies, so that no sender decides how much memory is used.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// How a body is packed (`Content-Encoding`, RFC 9110 section 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// RFC 1952; several members in a row are one body.
    Gzip,
    /// RFC 8878, with the window of at most 8 MiB that RFC 9659 sets for HTTP.
    Zstd,
}

impl Encoding {
    /// How bytes that begin so are packed: what a file says of itself where no header field does
    /// (RFC 1952 section 2.3.1, RFC 8878 section 3.1.1).
    pub const fn of_beginning(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Identity,
        }
    }
}

/// Beyond this many inflated bytes, a body that grows more than [`MAX_RATIO`]-fold is refused.
const RATIO_FLOOR: usize = 1 << 20;
/// Events of one storm shrink to a thirtieth or so; only made-up bodies shrink to a 500th.
const MAX_RATIO: usize = 500;
/// Base-two logarithm of the largest zstd window (RFC 9659 section 3).
const ZSTD_WINDOW_LOG: u32 = 23;

/// Why a body could not be taken; the variants say what the sender can do.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Send less at once (413).
    #[error("the body is larger than {cap} bytes{}", if *.inflated { " when unpacked" } else { "" })]
    TooLarge {
        /// The most that is taken, in bytes.
        cap: usize,
        /// Whether the unpacked size is meant.
        inflated: bool,
    },
    /// Send it packed less, or in parts (413).
    #[error("the body unpacks to more than {MAX_RATIO} times its size, {cap} bytes")]
    TooDense {
        /// The most that a body of its packed size may unpack to, in bytes.
        cap: usize,
    },
    /// Send it again, whole (400).
    #[error("the body can't be unpacked as {encoding}: it is damaged or cut short")]
    Corrupt {
        /// What the sender said it was.
        encoding: Encoding,
        /// What the decoder said.
        #[source]
        source: std::io::Error,
    },
    /// Send it in another encoding (415).
    #[error("content-encoding is not supported; send gzip, zstd or identity")]
    UnsupportedEncoding,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

impl Encoding {
    /// Reads the value of `Content-Encoding`; an absent or empty one means identity. Encodings in
    /// a row are refused, `identity` in such a list is passed over.
    pub fn from_header(value: Option<&str>) -> Result<Self, BodyError> {
        let mut found = Self::Identity;
        for word in value.unwrap_or_default().split(',') {
            let encoding = match word.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Self::Gzip,
                "zstd" => Self::Zstd,
                _ => return Err(BodyError::UnsupportedEncoding),
            };
            if found != Self::Identity {
                return Err(BodyError::UnsupportedEncoding);
            }
            found = encoding;
        }
        Ok(found)
    }
}

/// Gathers a body that arrives in parts, up to a cap.
#[derive(Debug)]
pub struct Collector {
    bytes: Vec<u8>,
    cap: usize,
}

impl Collector {
    /// Takes at most `cap` bytes; `announced` is the sender's `Content-Length`, refused here already
    /// where it is too large.
    pub fn new(cap: usize, announced: Option<u64>) -> Result<Self, BodyError> {
        let announced = usize::try_from(announced.unwrap_or(0)).unwrap_or(usize::MAX);
        if announced > cap {
            return Err(BodyError::TooLarge { cap, inflated: false });
        }
        Ok(Self { bytes: Vec::with_capacity(announced.min(RATIO_FLOOR)), cap })
    }

    /// Adds a part.
    pub fn push(&mut self, part: &[u8]) -> Result<(), BodyError> {
        if self.bytes.len().saturating_add(part.len()) > self.cap {
            return Err(BodyError::TooLarge { cap: self.cap, inflated: false });
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// All that was gathered.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Unpacks `bytes` to at most `cap` bytes. A stream that ends early is an error: nothing of it is
/// used. Memory stays near `cap` whatever the stream claims.
pub fn inflate(bytes: &[u8], encoding: Encoding, cap: usize) -> Result<Cow<'_, [u8]>, BodyError> {
    let corrupt = |source| BodyError::Corrupt { encoding, source };
    match encoding {
        Encoding::Identity if bytes.len() > cap => {
            Err(BodyError::TooLarge { cap, inflated: false })
        }
        Encoding::Identity => Ok(Cow::Borrowed(bytes)),
        Encoding::Gzip => {
            let reader = flate2::read::MultiGzDecoder::new(bytes);
            read_capped(reader, bytes.len(), cap, corrupt).map(Cow::Owned)
        }
        Encoding::Zstd => {
            if bytes.is_empty() {
                let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(corrupt(source));
            }
            let mut reader = zstd::stream::read::Decoder::with_buffer(bytes).map_err(corrupt)?;
            reader.window_log_max(ZSTD_WINDOW_LOG).map_err(corrupt)?;
            read_capped(reader, bytes.len(), cap, corrupt).map(Cow::Owned)
        }
    }
}

fn read_capped(
    reader: impl Read,
    packed: usize,
    cap: usize,
    corrupt: impl Fn(std::io::Error) -> BodyError,
) -> Result<Vec<u8>, BodyError> {
    let by_ratio = packed.saturating_mul(MAX_RATIO).max(RATIO_FLOOR);
    let cap = cap.min(by_ratio);
    let mut out = Vec::with_capacity(packed.saturating_mul(4).min(cap));
    let limit = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(&mut out).map_err(corrupt)?;
    match out.len() > cap {
        true if by_ratio <= cap => Err(BodyError::TooDense { cap }),
        true => Err(BodyError::TooLarge { cap, inflated: true }),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const CAP: usize = 4 << 20;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 3).unwrap()
    }

    #[test]
    fn what_was_packed_comes_back() {
        let text = br#"{"service":"checkout"}"#.repeat(1000);
        let table = [
            (text.clone(), Encoding::Identity),
            (gzip(&text), Encoding::Gzip),
            (zstd(&text), Encoding::Zstd),
        ];
        for (packed, encoding) in table {
            assert_eq!(inflate(&packed, encoding, CAP).unwrap(), text, "{encoding}");
        }
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(inflate(&two, Encoding::Gzip, CAP).unwrap().as_ref(), b"one two");
    }

    #[test]
    fn a_cut_or_foreign_stream_is_corrupt() {
        for (packed, encoding) in
            [(gzip(&[7; 5000]), Encoding::Gzip), (zstd(&[7; 5000]), Encoding::Zstd)]
        {
            for length in 0..packed.len() {
                let error = inflate(&packed[..length], encoding, CAP).unwrap_err();
                assert!(matches!(error, BodyError::Corrupt { .. }), "{encoding} {length}: {error}");
            }
            let error = inflate(b"{\"service\":1}", encoding, CAP).unwrap_err();
            assert!(matches!(error, BodyError::Corrupt { .. }), "{encoding}: {error}");
        }
    }

    #[test]
    fn a_bomb_is_too_large_and_costs_no_more_than_the_cap() {
        let bomb = vec![0; 16 << 20];
        for (packed, encoding) in [(gzip(&bomb), Encoding::Gzip), (zstd(&bomb), Encoding::Zstd)] {
            let error = inflate(&packed, encoding, usize::MAX).unwrap_err();
            let is_dense = matches!(error, BodyError::TooDense { cap } if cap < bomb.len());
            assert!(is_dense && error.to_string().contains("500 times its size"), "{error}");
            let error = inflate(&packed, encoding, 1 << 19).err();
            assert!(matches!(error, Some(BodyError::TooLarge { inflated: true, .. })));
        }
        let error = inflate(&bomb, Encoding::Identity, CAP).err();
        assert!(matches!(error, Some(BodyError::TooLarge { inflated: false, .. })));
    }

    #[test]
    fn a_zstd_frame_that_asks_for_a_huge_window_is_refused() {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[1; 4096]).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(matches!(inflate(&packed, Encoding::Zstd, CAP), Err(BodyError::Corrupt { .. })));
    }

    #[test]
    fn content_encoding_is_read_by_its_words() {
        let table = [
            (None, Some(Encoding::Identity)),
            (Some(""), Some(Encoding::Identity)),
            (Some("identity"), Some(Encoding::Identity)),
            (Some("GZIP"), Some(Encoding::Gzip)),
            (Some("x-gzip"), Some(Encoding::Gzip)),
            (Some("identity, zstd"), Some(Encoding::Zstd)),
            (Some("gzip, gzip"), None),
            (Some("br"), None),
            (Some("deflate"), None),
        ];
        for (value, expected) in table {
            assert_eq!(Encoding::from_header(value).ok(), expected, "{value:?}");
        }
    }

    #[test]
    fn a_body_in_parts_is_capped_while_it_arrives() {
        assert!(Collector::new(10, Some(11)).is_err());
        let mut collector = Collector::new(10, Some(4)).unwrap();
        collector.push(b"12345").unwrap();
        collector.push(b"67890").unwrap();
        assert!(collector.push(b"1").is_err());
        assert_eq!(collector.finish(), b"1234567890");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for encoding in [Encoding::Identity, Encoding::Gzip, Encoding::Zstd] {
                if let Ok(out) = inflate(&bytes, encoding, 1000) {
                    prop_assert!(out.len() <= 1000);
                }
            }
        }
    }
}
