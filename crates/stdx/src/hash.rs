//! The hash functions of the house: a quick one for tables, one over bytes with a seed, and CRC-32 for rings
//! that must agree with other programs. It does not know what is hashed.

use std::hash::{BuildHasher, Hasher};

/// The hasher state of tables: seeded per process, so that a peer that does not see the hashes cannot choose
/// keys that collide.
pub type FastState = foldhash::fast::RandomState;
/// A hash map for keys on the request path.
pub type FastMap<K, V> = hashbrown::HashMap<K, V, FastState>;
/// A hash set for keys on the request path.
pub type FastSet<T> = hashbrown::HashSet<T, FastState>;

/// A hash of `bytes` under `seed`: the same in every thread of one process; not to be stored or sent.
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = foldhash::fast::FixedState::with_seed(seed).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// CRC-32 (IEEE 802.3, reflected), the hash of ketama-like rings; the same in every program.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32_continue(0, bytes)
}

/// Goes on with the checksum `crc` of what came before.
pub fn crc32_continue(crc: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(!crc, step)
}

const CRC_POLYNOMIAL: u32 = 0xEDB8_8320;
const CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ CRC_POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums() {
        for (text, expected) in [("", 0), ("123456789", 0xCBF4_3926), ("a", 0xE8B7_BE43)] {
            assert_eq!(crc32(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(crc32_continue(crc32(b"1234"), b"56789"), crc32(b"123456789"));
    }

    #[test]
    fn the_seed_and_every_byte_count() {
        assert_eq!(hash_bytes(1, b"abc"), hash_bytes(1, b"abc"));
        assert_ne!(hash_bytes(1, b"abc"), hash_bytes(2, b"abc"));
        assert_ne!(hash_bytes(1, b"abc"), hash_bytes(1, b"abd"));
    }
}
