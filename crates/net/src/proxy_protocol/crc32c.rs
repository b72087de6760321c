//! The checksum CRC-32C (RFC 3720 section 12.1), with which a sender can protect a header. A header is short
//! and rare, so a table of 1 KiB does.

/// The polynomial of Castagnoli with its bits in reverse.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < u8::BITS {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The checksum of the bytes.
pub(super) fn checksum(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |rest: u32, byte: u8| rest >> 8 ^ TABLE[usize::from(rest as u8 ^ byte)];
    !bytes.into_iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_met() {
        let ascending = (0..32).collect();
        let rows: [(Vec<u8>, u32); 5] = [
            (Vec::new(), 0),
            (b"123456789".to_vec(), 0xe306_9283),
            // RFC 3720 appendix B.4, where the bytes stand in the order of the wire.
            (vec![0; 32], 0xaa36_918a_u32.swap_bytes()),
            (vec![0xff; 32], 0x43ab_a862_u32.swap_bytes()),
            (ascending, 0x4e79_dd46_u32.swap_bytes()),
        ];
        for (bytes, expected) in rows {
            assert_eq!(checksum(bytes.iter().copied()), expected, "{bytes:?}");
        }
    }
}
