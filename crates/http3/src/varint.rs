//! Integers of QUIC (RFC 9000 section 16), whole or in parts; it does not know what they count.

/// The largest integer.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Reads the integer at the start of `input` and moves `input` behind it; none if it is not all there. Forms
/// that are longer than needed are accepted, as RFC 9000 asks.
#[inline]
pub(crate) fn read(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let length = 1 << (first >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3F), |value, &byte| value << 8 | u64::from(byte));
    Some(value)
}

/// Appends `value`, at most [`MAX`], in its shortest form.
#[inline]
pub(crate) fn write_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "an integer of more than 62 bits");
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xC000_0000_0000_0000).to_be_bytes()),
    }
}

/// Bytes of the shortest form of `value`.
pub(crate) fn length(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// The start of one or two integers; the rest has not arrived.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    bytes: [u8; PARTIAL_BYTES],
    length: u8,
}

impl Partial {
    /// Parses what begins with the kept bytes and goes on in `input`, and moves `input` behind it. If it is
    /// not all there, all of `input` is kept. `parse` reads two integers at most.
    #[inline]
    pub(crate) fn read<T>(
        &mut self,
        input: &mut &[u8],
        parse: impl Fn(&mut &[u8]) -> Option<T>,
    ) -> Option<T> {
        if self.length == 0 {
            let mut rest = *input;
            if let Some(value) = parse(&mut rest) {
                *input = rest;
                return Some(value);
            }
        }
        self.read_slowly(input, parse)
    }

    /// Whether bytes are kept.
    pub(crate) fn is_some(&self) -> bool {
        self.length > 0
    }

    fn read_slowly<T>(&mut self, input: &mut &[u8], parse: impl Fn(&mut &[u8]) -> Option<T>) -> Option<T> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            let at = usize::from(self.length);
            *self.bytes.get_mut(at).expect("two integers fill the buffer at most") = byte;
            self.length += 1;
            if let Some(value) = parse(&mut &self.bytes[..=at]) {
                self.length = 0;
                return Some(value);
            }
        }
        None
    }
}

/// Bytes of two integers of the longest form.
const PARTIAL_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The examples of RFC 9000 section A.1.
    #[test]
    fn examples_of_the_rfc() {
        let table: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x40, 0x25], 37),
            (&[0x25], 37),
        ];
        for (bytes, value) in table {
            let mut input = bytes;
            assert_eq!((read(&mut input), input), (Some(value), &[][..]));
            for end in 0..bytes.len() {
                assert_eq!(read(&mut &bytes[..end]), None, "{bytes:?} cut at {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn integers_survive_in_parts(values in [0..=MAX, 0..=MAX], shift in 0..62_u32) {
            let values = values.map(|value| value >> shift);
            let mut out = Vec::new();
            values.iter().for_each(|&value| write_varint(&mut out, value));
            prop_assert_eq!(out.len(), length(values[0]) + length(values[1]));
            let two = |input: &mut &[u8]| Some([read(input)?, read(input)?]);
            for cut in 0..out.len() {
                let mut partial = Partial::default();
                let mut input = &out[..cut];
                prop_assert_eq!(partial.read(&mut input, two), None);
                prop_assert_eq!(partial.is_some(), cut > 0);
                let mut input = &out[cut..];
                prop_assert_eq!(partial.read(&mut input, two), Some(values));
                prop_assert!(input.is_empty() && !partial.is_some());
            }
        }
    }
}
