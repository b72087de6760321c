//! The Huffman code of RFC 7541 appendix B; it does not know what the strings are.
//!
//! The code is canonical: symbols in order of length and value have consecutive codes. The lengths are
//! therefore the whole table, and codes and look-up tables are computed from them at compile time.

use crate::CodeError;

/// Appends the decoded string. At most 8/5 of the input's length is appended.
///
/// # Errors
/// The padding is faulty or EOS is inside. Nothing is appended then.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), CodeError> {
    let start = out.len();
    // Writing into a slice of the greatest length costs less than growing with each symbol.
    out.resize(start + input.len() * 8 / SHORTEST_BITS as usize + 1, 0);
    let length = decode_into(input, &mut out[start..]);
    out.truncate(start + length.unwrap_or(0));
    length.map(drop)
}

/// Decodes into a slice that is long enough; returns the length of the string.
fn decode_into(input: &[u8], out: &mut [u8]) -> Result<usize, CodeError> {
    let mut written = 0;
    // The unread bits, from the top; bits below the `count` highest are zero.
    let (mut bits, mut count, mut rest) = (0_u64, 0_u32, input);
    loop {
        if count <= 32 {
            if let Some((word, behind)) = rest.split_first_chunk::<4>() {
                bits |= u64::from(u32::from_be_bytes(*word)) << (32 - count);
                count += 32;
                rest = behind;
            } else {
                while let Some((&byte, behind)) = rest.split_first() {
                    bits |= u64::from(byte) << (56 - count);
                    count += 8;
                    rest = behind;
                }
            }
        }
        let entry = FIRST_BITS[(bits >> (64 - FIRST_BITS_WIDTH)) as usize];
        let (symbol, length) = if entry.length > 0 {
            (u16::from(entry.symbol), u32::from(entry.length))
        } else {
            long_symbol((bits >> 32) as u32)
        };
        if length > count {
            break;
        }
        if symbol == END_OF_STRING {
            return Err(CodeError::Huffman);
        }
        out[written] = symbol as u8;
        written += 1;
        bits <<= length;
        count -= length;
    }
    // The padding is the start of EOS, shorter than a byte: all bits are ones.
    let is_padding = count < 8 && bits.leading_ones() >= count;
    if is_padding { Ok(written) } else { Err(CodeError::Huffman) }
}

/// Bytes of the encoded string.
pub fn encoded_length(input: &[u8]) -> usize {
    let bits: usize = input.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded string.
pub fn encode(input: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for &byte in input {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xFF >> count);
    }
}

/// The symbol with a code longer than [`FIRST_BITS_WIDTH`] at the top of `window`, and its length. Every
/// window of 32 bits begins with a symbol, because the code is complete.
#[cold]
fn long_symbol(window: u32) -> (u16, u32) {
    let mut length = FIRST_BITS_WIDTH + 1;
    // `LIMITS[n]` is the first window above all codes of at most n bits.
    while length < LONGEST_BITS && u64::from(window) >= LIMITS[length as usize] {
        length += 1;
    }
    let code = window >> (32 - length);
    let rank = FIRST_RANK[length as usize] + (code - FIRST_CODE[length as usize]);
    (BY_RANK[rank as usize], length)
}

const SYMBOLS: usize = 257;
const END_OF_STRING: u16 = 256;
const SHORTEST_BITS: u32 = 5;
const LONGEST_BITS: u32 = 30;
/// Ten bits cover letters, digits and the usual marks in 2 KiB, which stay in the first-level cache.
const FIRST_BITS_WIDTH: u32 = 10;

#[derive(Clone, Copy)]
struct FirstBits {
    symbol: u8,
    /// Zero for a code that is longer than the window.
    length: u8,
}

/// The lengths of the codes of all bytes and EOS, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6,
    6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6,
    6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22,
    20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
    22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
    23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
    25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// All that follows from the lengths.
struct Canonical {
    codes: [u32; SYMBOLS],
    by_rank: [u16; SYMBOLS],
    first_code: [u32; 32],
    first_rank: [u32; 32],
    limits: [u64; 32],
}

const CANONICAL: Canonical = canonical();
static CODES: [u32; SYMBOLS] = CANONICAL.codes;
static BY_RANK: [u16; SYMBOLS] = CANONICAL.by_rank;
static FIRST_CODE: [u32; 32] = CANONICAL.first_code;
static FIRST_RANK: [u32; 32] = CANONICAL.first_rank;
static LIMITS: [u64; 32] = CANONICAL.limits;
static FIRST_BITS: [FirstBits; 1 << FIRST_BITS_WIDTH] = first_bits();

const fn canonical() -> Canonical {
    let mut tables = Canonical {
        codes: [0; SYMBOLS],
        by_rank: [0; SYMBOLS],
        first_code: [0; 32],
        first_rank: [0; 32],
        limits: [0; 32],
    };
    let (mut code, mut rank, mut length) = (0_u32, 0, 1);
    while length <= LONGEST_BITS as usize {
        code <<= 1;
        tables.first_code[length] = code;
        tables.first_rank[length] = rank as u32;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                tables.by_rank[rank] = symbol as u16;
                code += 1;
                rank += 1;
            }
            symbol += 1;
        }
        tables.limits[length] = (code as u64) << (32 - length);
        length += 1;
    }
    assert!(code == 1 << LONGEST_BITS, "the lengths make a complete code");
    tables
}

const fn first_bits() -> [FirstBits; 1 << FIRST_BITS_WIDTH] {
    let mut table = [FirstBits { symbol: 0, length: 0 }; 1 << FIRST_BITS_WIDTH];
    let mut symbol = 0;
    while symbol < SYMBOLS - 1 {
        let length = LENGTHS[symbol];
        if length as u32 <= FIRST_BITS_WIDTH {
            let spare = FIRST_BITS_WIDTH - length as u32;
            let mut window = CANONICAL.codes[symbol] << spare;
            let end = window + (1 << spare);
            while window < end {
                table[window as usize] = FirstBits { symbol: symbol as u8, length };
                window += 1;
            }
        }
        symbol += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, CodeError> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    /// Codes of RFC 7541 appendix B, of the shortest and of the longest.
    #[test]
    fn codes_are_those_of_the_appendix() {
        for (symbol, code) in [
            (b'0', 0x0),
            (b'a', 0x3),
            (b' ', 0x14),
            (b':', 0x5c),
            (b'&', 0xf8),
            (b'!', 0x3f8),
            (b'<', 0x7ffc),
            (0, 0x1ff8),
            (10, 0x3fff_fffc),
            (22, 0x3fff_fffe),
            (255, 0x3ff_ffee),
        ] {
            assert_eq!(CODES[usize::from(symbol)], code, "{symbol}");
        }
        assert_eq!(CODES[usize::from(END_OF_STRING)], 0x3fff_ffff);
    }

    #[test]
    fn strings_of_the_appendix_are_coded() {
        let table: [(&str, &[u8]); 3] = [
            ("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("302", &[0x64, 0x02]),
        ];
        for (text, bytes) in table {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((&out[..], encoded_length(text.as_bytes())), (bytes, bytes.len()), "{text}");
            assert_eq!(decoded(bytes), Ok(text.as_bytes().to_vec()));
        }
    }

    #[test]
    fn faulty_padding_and_eos_are_refused() {
        // "a" is 00011, padded with ones to 0x1f.
        assert_eq!(decoded(&[0x1f]), Ok(b"a".to_vec()));
        for bad in [&[0x1f, 0xff][..], &[0xff], &[0x18], &[0x1e], &[0xff, 0xff, 0xff, 0xff], &[0x3f, 0xff]] {
            assert_eq!(decoded(bad), Err(CodeError::Huffman), "{bad:?}");
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn every_string_survives_a_round_trip(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            encode(&text, &mut out);
            prop_assert_eq!(out.len(), encoded_length(&text));
            prop_assert_eq!(decoded(&out), Ok(text));
        }

        #[test]
        fn accepted_strings_are_encoded_the_same(input in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(text) = decoded(&input) {
                let mut out = Vec::new();
                encode(&text, &mut out);
                prop_assert_eq!(out, input);
            }
        }
    }
}
