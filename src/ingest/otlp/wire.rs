//! The wire format of protobuf (protobuf.dev, "Encoding"): fields by number, nothing copied.

/// A field's value as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// It ends within a field.
    #[error("it is cut short")]
    Short,
    /// A number is longer than ten bytes.
    #[error("a number is too long")]
    Long,
    /// A wire type that there isn't, or the number 0 of a field.
    #[error("an unknown kind of field")]
    Unknown,
}

/// Goes through the fields of a message. Groups, which no message of OTLP has, are refused.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Broken::Short)?;
        self.0 = rest;
        Ok(head)
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0_u64;
        for n in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or(Broken::Short)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).wrapping_shl(7 * n);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Broken::Long)
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), Broken> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(Broken::Unknown);
        }
        let value = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| Broken::Short)?;
                Field::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Broken::Short)?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?.try_into().map_err(|_| Broken::Short)?;
                Field::Fixed32(u32::from_le_bytes(bytes))
            }
            _ => return Err(Broken::Unknown),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Field<'a> {
    /// The bytes of a field that has some.
    pub(super) const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A text; what is no UTF-8 in it is replaced.
    pub(super) fn text(self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A number without a sign, in whichever form.
    pub(super) const fn number(self) -> Option<u64> {
        match self {
            Self::Varint(number) | Self::Fixed64(number) => Some(number),
            Self::Fixed32(number) => Some(number as u64),
            Self::Bytes(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_field_is_read_and_a_cut_one_is_told() {
        let message = [
            8, 0x96, 1, // 1: 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0, // 2: fixed 1
            0x1a, 2, b'h', b'i', // 3: "hi"
            0x25, 7, 0, 0, 0, // 4: fixed 7
        ];
        let fields: Vec<_> = Fields::of(&message).map(Result::unwrap).collect();
        let expected = [
            (1, Field::Varint(150)),
            (2, Field::Fixed64(1)),
            (3, Field::Bytes(b"hi")),
            (4, Field::Fixed32(7)),
        ];
        assert_eq!(fields, expected);
        for (bytes, error) in [
            (&message[..2], Broken::Short),
            (&message[..6], Broken::Short),
            (&[0x1a, 9, 1][..], Broken::Short),
            (&[0x0b][..], Broken::Unknown),
            (&[0x00, 0x01][..], Broken::Unknown),
            (&[0xff; 12][..], Broken::Long),
        ] {
            assert_eq!(Fields::of(bytes).last(), Some(Err(error)), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_on(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Fields::of(&bytes).count() <= bytes.len());
        }
    }
}
