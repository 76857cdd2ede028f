//! Bytes as they arrive, to lines.

/// Bytes of a line that are kept; what is longer is read as a line that was cut here.
const MAX_LINE: usize = 64 * 1024;

/// A line without the line feed at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its number, from 1 for the first one of the file, or of what was read of it.
    pub number: u64,
    /// What is in it, up to a cap.
    pub bytes: Vec<u8>,
}

impl Line {
    /// What is in it without the carriage return of a line end (`\r\n`): the same, whether its end
    /// was written already or not.
    pub fn content(&self) -> &[u8] {
        self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes)
    }
}

/// Cuts bytes at line ends. Memory stays near the longest line that is kept, whatever arrives.
#[derive(Debug)]
pub struct Lines {
    /// Where the line in the making begins.
    offset: u64,
    number: u64,
    /// What is there of it.
    begun: Vec<u8>,
    /// How long it is so far, the part that is not kept included.
    length: u64,
}

impl Lines {
    /// Begins at a byte of a file, the lines before which are not counted.
    pub const fn from_offset(offset: u64) -> Self {
        Self::behind(offset, 0)
    }

    /// Begins at a byte of a file, behind so many lines.
    pub const fn behind(offset: u64, lines: u64) -> Self {
        Self { offset, number: lines, begun: Vec::new(), length: 0 }
    }

    /// Takes bytes, and hands out the lines that they end.
    pub fn feed(&mut self, mut bytes: &[u8], lines: &mut Vec<Line>) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(at);
            self.keep(head);
            self.length = self.length.saturating_add(1);
            lines.push(self.end());
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
    }

    /// The last line, where the file ends without a line end.
    pub fn finish(&mut self) -> Option<Line> {
        (self.length > 0).then(|| self.end())
    }

    /// Where the line in the making begins: everything before was handed out.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of the line that was handed out last; 0 before the first of a file.
    pub const fn count(&self) -> u64 {
        self.number
    }

    /// What is there of the line in the making, up to a cap.
    pub fn unfinished(&self) -> &[u8] {
        &self.begun
    }

    /// Bytes of the line in the making so far.
    pub const fn begun(&self) -> u64 {
        self.length
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.length = self.length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    fn end(&mut self) -> Line {
        let bytes = std::mem::take(&mut self.begun);
        self.number = self.number.saturating_add(1);
        let line = Line { offset: self.offset, number: self.number, bytes };
        self.offset = self.offset.saturating_add(self.length);
        self.length = 0;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_arrive(
            text in "[ab\\r\\n]{0,60}",
            cuts in prop::collection::vec(1_usize..9, 0..20),
        ) {
            let whole = |parts: &[&[u8]]| {
                let (mut lines, mut out) = (Lines::from_offset(7), Vec::new());
                for part in parts {
                    lines.feed(part, &mut out);
                }
                out.extend(lines.finish());
                out
            };
            let mut rest = text.as_bytes();
            let mut parts = Vec::new();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                parts.push(head);
                rest = tail;
            }
            parts.push(rest);
            let lines = whole(&parts);
            prop_assert_eq!(&lines, &whole(&[text.as_bytes()]));
            for line in &lines {
                let at = usize::try_from(line.offset).unwrap() - 7;
                prop_assert!(text.as_bytes()[at..].starts_with(&line.bytes));
            }
        }
    }

    #[test]
    fn a_line_beyond_the_cap_is_cut_and_the_next_one_stands_where_it_stands() {
        let (mut lines, mut out) = (Lines::from_offset(0), Vec::new());
        lines.feed(&vec![b'x'; MAX_LINE + 10], &mut out);
        lines.feed(b"\nshort\n", &mut out);
        assert_eq!((out[0].bytes.len(), out[1].bytes.as_slice()), (MAX_LINE, &b"short"[..]));
        assert_eq!(out[1].offset, u64::try_from(MAX_LINE).unwrap() + 11);
    }
}
