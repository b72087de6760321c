//! String literals (RFC 7541 section 5.2): a bit for the Huffman code, a length, the text. It does not know
//! the meaning of the texts.

use crate::{CodeError, huffman, integer};

/// A string of a block: in the block itself, or decoded into the scratch buffer.
#[derive(Debug, Clone, Copy)]
pub enum Text<'a> {
    /// The bytes of the block.
    Borrowed(&'a [u8]),
    /// Start and end in the scratch buffer.
    Scratch(usize, usize),
}

impl<'a> Text<'a> {
    /// The bytes. `scratch` is the buffer that the string was read with.
    #[inline]
    pub fn of(self, scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Borrowed(text) => text,
            Self::Scratch(start, end) => &scratch[start..end],
        }
    }
}

/// Reads the string at the start of `block` and moves `block` behind it. Its length has a prefix of `bits`
/// bits, and the bit above them stands for the Huffman code.
///
/// # Errors
/// The block ends inside the string, or its length or code is invalid.
#[inline]
pub fn read_string<'a>(
    block: &mut &'a [u8],
    bits: u32,
    scratch: &mut Vec<u8>,
) -> Result<Text<'a>, CodeError> {
    let is_huffman = block.first().is_some_and(|byte| byte & (1 << bits) != 0);
    let length = integer::read_integer(block, bits)?;
    let (text, rest) = block.split_at_checked(length).ok_or(CodeError::Truncated)?;
    *block = rest;
    if !is_huffman {
        return Ok(Text::Borrowed(text));
    }
    let start = scratch.len();
    huffman::decode(text, scratch)?;
    Ok(Text::Scratch(start, scratch.len()))
}

/// Appends a string in the shorter form; a very short one as it is. `pattern` has the bits of the first byte
/// above the bit of the Huffman code, `bits` is the width of the length's prefix.
#[inline]
pub fn write_string(out: &mut Vec<u8>, pattern: u8, bits: u32, text: &[u8]) {
    if text.len() >= HUFFMAN_BYTES_MIN {
        let length = huffman::encoded_length(text);
        if length < text.len() {
            integer::write_integer(out, pattern | 1 << bits, bits, length);
            return huffman::encode(text, out);
        }
    }
    integer::write_integer(out, pattern, bits, text.len());
    out.extend_from_slice(text);
}

/// Appends a name in lower case; otherwise as [`write_string()`].
pub fn write_lower(out: &mut Vec<u8>, pattern: u8, bits: u32, name: &[u8]) {
    let mut short = [0; SHORT_NAME_BYTES];
    if let Some(lower) = short.get_mut(..name.len()) {
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        write_string(out, pattern, bits, lower);
    } else {
        write_string(out, pattern, bits, &name.to_ascii_lowercase());
    }
}

/// A shorter string would save one or two bytes, which is not worth coding it on both sides.
const HUFFMAN_BYTES_MIN: usize = 8;
/// A longer name is copied to the heap.
const SHORT_NAME_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_every_prefix() {
        let long = [b'x'; 300];
        for text in [&b""[..], b"short", b"www.example.com", b"\xFF\xFE\xFD\xFC\xFB\xFA\xF9\xF8\xF7", &long] {
            for bits in [3, 5, 7] {
                let mut out = Vec::new();
                write_string(&mut out, 0, bits, text);
                let (mut rest, mut scratch) = (&out[..], Vec::new());
                let read = read_string(&mut rest, bits, &mut scratch).unwrap();
                assert_eq!((read.of(&scratch), rest), (text, &[][..]));
            }
        }
    }

    #[test]
    fn names_are_written_in_lower_case() {
        let long = "X".repeat(SHORT_NAME_BYTES + 1);
        for name in ["Via", &long] {
            let (mut out, mut same) = (Vec::new(), Vec::new());
            write_lower(&mut out, 0x20, 3, name.as_bytes());
            write_string(&mut same, 0x20, 3, name.to_ascii_lowercase().as_bytes());
            assert_eq!(out, same);
        }
    }

    #[test]
    fn cut_strings_are_refused() {
        for bytes in [&[][..], &[3, b'a'], &[0x7F], &[0x7F, 0x80]] {
            assert_eq!(
                read_string(&mut &bytes[..], 7, &mut Vec::new()).unwrap_err(),
                CodeError::Truncated,
                "{bytes:?}"
            );
        }
    }
}
