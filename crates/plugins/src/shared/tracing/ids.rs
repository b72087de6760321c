//! Ids of traces and spans: made at random on the worker, read from hexadecimal digits. An id of zeros is
//! none.

use net::env::random_u64;

/// A new id of a trace.
pub(crate) fn new_trace_id() -> [u8; 16] {
    let high = u128::from(random_u64());
    // The low half is not zero, so that it is an id for systems with ids of 64 bits as well.
    (high << 64 | u128::from(nonzero())).to_be_bytes()
}

/// A new id of a span.
pub(crate) fn new_span_id() -> [u8; 8] {
    nonzero().to_be_bytes()
}

fn nonzero() -> u64 {
    random_u64().max(1)
}

/// Reads hexadecimal digits in lower or upper case, exactly two for each byte.
pub(crate) fn read_hexadecimal<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// Reads an id as [`read_hexadecimal`]; one of zeros is none.
pub(crate) fn read_id<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    read_hexadecimal(digits).filter(|id| *id != [0; N])
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_whole_or_not_at_all() {
        assert_eq!(read_id(b"00ffA001"), Some([0, 255, 160, 1]));
        for bad in [&b"00ffa0"[..], b"00ffa00100", b"00ffa00g", b"00000000", b"+0ffa001"] {
            assert_eq!(read_id::<4>(bad), None, "{}", String::from_utf8_lossy(bad));
        }
        assert_ne!(new_trace_id(), new_trace_id());
        assert_ne!(new_span_id(), [0; 8]);
    }
}
