//! Bytes that are read from the front: numbers and vectors with a length, as TLS and MQTT write them. It
//! knows neither.

/// The bytes that were not read yet.
pub(crate) struct ByteCursor<'b>(pub(crate) &'b [u8]);

impl<'b> ByteCursor<'b> {
    /// The next `count` bytes; none if there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of one byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of two bytes.
    pub(crate) fn number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector with a length of one byte in front.
    pub(crate) fn short(&mut self) -> Option<&'b [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// A vector with a length of two bytes in front.
    pub(crate) fn long(&mut self) -> Option<&'b [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}
