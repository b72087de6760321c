//! Integers with a prefix of 1 to 8 bits (RFC 7541 section 5.1); it does not know what they count.

use crate::CodeError;

/// Bytes behind the prefix: five groups of seven bits hold 32 bits. More would only be zeros, which no
/// encoder sends.
const CONTINUATION_BYTES_MAX: u32 = 5;
/// Nine groups hold 62 bits.
const LONG_CONTINUATION_BYTES_MAX: u32 = 9;
const LONG_MAX: u64 = (1 << 62) - 1;

/// Reads the integer at the start of `input` with a prefix of `bits` bits and moves `input` behind it.
///
/// # Errors
/// The input ends inside the integer, or it has more than 32 bits.
#[inline]
pub fn read_integer(input: &mut &[u8], bits: u32) -> Result<usize, CodeError> {
    let (&first, rest) = input.split_first().ok_or(CodeError::Truncated)?;
    *input = rest;
    let mask = (1_u32 << bits) - 1;
    let prefix = u32::from(first) & mask;
    if prefix < mask {
        return Ok(prefix as usize);
    }
    read_rest(input, prefix)
}

/// Reads an integer of up to 62 bits, as QPACK needs it (RFC 9204 section 4.1.1); otherwise as
/// [`read_integer`].
///
/// # Errors
/// The input ends inside the integer, or it is larger.
pub fn read_long(input: &mut &[u8], bits: u32) -> Result<u64, CodeError> {
    let (&first, rest) = input.split_first().ok_or(CodeError::Truncated)?;
    *input = rest;
    let mask = (1_u64 << bits) - 1;
    let mut value = u64::from(first) & mask;
    if value < mask {
        return Ok(value);
    }
    for group in 0..LONG_CONTINUATION_BYTES_MAX {
        let (&byte, rest) = input.split_first().ok_or(CodeError::Truncated)?;
        *input = rest;
        // Nine groups have 63 bits, and a prefix of eight adds less than a ninth group's highest bit.
        value += u64::from(byte & 0x7F) << (7 * group);
        if byte & 0x80 == 0 {
            return if value <= LONG_MAX { Ok(value) } else { Err(CodeError::Integer) };
        }
    }
    Err(CodeError::Integer)
}

fn read_rest(input: &mut &[u8], prefix: u32) -> Result<usize, CodeError> {
    let mut value = u64::from(prefix);
    for group in 0..CONTINUATION_BYTES_MAX {
        let (&byte, rest) = input.split_first().ok_or(CodeError::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7F) << (7 * group);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).map_err(|_| CodeError::Integer)?;
            return Ok(value as usize);
        }
    }
    Err(CodeError::Integer)
}

/// Appends `value` with a prefix of `bits` bits; `pattern` has the bits of the first byte above the prefix.
#[inline]
pub fn write_integer(out: &mut Vec<u8>, pattern: u8, bits: u32, value: usize) {
    let mask = (1_usize << bits) - 1;
    if value < mask {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 & 0x7F | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7541 section C.1 and the borders of the groups.
    #[test]
    fn integers_are_written_and_read() {
        let table: [(u32, usize, &[u8]); 8] = [
            (5, 10, &[10]),
            (5, 1337, &[31, 154, 10]),
            (8, 42, &[42]),
            (5, 30, &[30]),
            (5, 31, &[31, 0]),
            (7, 127 + 127, &[127, 127]),
            (7, 127 + 128, &[127, 128, 1]),
            (4, u32::MAX as usize, &[15, 240, 255, 255, 255, 15]),
        ];
        for (bits, value, bytes) in table {
            let mut out = Vec::new();
            write_integer(&mut out, 0, bits, value);
            assert_eq!(out, bytes, "{value}");
            let mut input = bytes;
            assert_eq!((read_integer(&mut input, bits), input), (Ok(value), &[][..]));
            assert_eq!(read_long(&mut &bytes[..], bits), Ok(value as u64));
        }
    }

    #[test]
    fn faulty_integers_are_refused() {
        let table: [(&[u8], CodeError); 5] = [
            (&[], CodeError::Truncated),
            (&[31], CodeError::Truncated),
            (&[31, 0x80], CodeError::Truncated),
            (&[31, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F], CodeError::Integer),
            (&[31, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], CodeError::Integer),
        ];
        for (bytes, error) in table {
            assert_eq!(read_integer(&mut &bytes[..], 5), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn long_integers_are_bounded() {
        let at_most = [0xFF, 0x80, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F];
        let mut written = Vec::new();
        write_integer(&mut written, 0, 8, LONG_MAX as usize);
        assert_eq!(written, at_most);
        assert_eq!(read_long(&mut &at_most[..], 8), Ok(LONG_MAX));
        let mut above = at_most;
        above[1] += 1;
        assert_eq!(read_long(&mut &above[..], 8), Err(CodeError::Integer));
        assert_eq!(read_long(&mut &[0xFF; 12][..], 8), Err(CodeError::Integer));
        assert_eq!(read_long(&mut &at_most[..9], 8), Err(CodeError::Truncated));
    }
}
