//! The first bytes of a connection, by which a client tells the origin of layer 4 its wish, and the block of
//! bytes that a bulk transfer repeats. Gateways see bytes like any others.

use std::sync::OnceLock;

/// The wish of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wish {
    /// All bytes come back.
    Echo,
    /// A message of this length comes back, then the origin closes, so that its side keeps the port of the
    /// connection (TIME_WAIT) and a load generator does not run out of ports.
    Once(usize),
    /// The block of [`block`], again and again.
    Block,
}

/// The beginning of all requests; other bytes are sent back.
const MARK: &[u8] = b"weir-lab ";
/// Asks for the block.
const BLOCK: &[u8] = b"weir-lab block\n\n\n\n\n\n";
/// Length of a request, and the shortest message that comes back once: the length stands in five digits.
pub(crate) const REQUEST_BYTES: usize = 20;
const ONCE: &[u8] = b"weir-lab once ";
/// The first byte of a record of TLS with a handshake message, and the bytes before its content.
const HANDSHAKE: u8 = 0x16;
const RECORD_HEAD_BYTES: usize = 5;

/// Reads the wish from the bytes so far; `None` if more are needed. The record of a ClientHello comes back
/// once.
pub(crate) fn wish(bytes: &[u8]) -> Option<Wish> {
    let compared = bytes.len().min(MARK.len());
    if bytes.first() == Some(&HANDSHAKE) {
        let length = bytes.get(3..RECORD_HEAD_BYTES)?;
        let content = usize::from(u16::from_be_bytes([length[0], length[1]]));
        return Some(Wish::Once(RECORD_HEAD_BYTES + content.min(super::BUFFER_BYTES - RECORD_HEAD_BYTES)));
    }
    if bytes[..compared] != MARK[..compared] {
        return Some(Wish::Echo);
    }
    let request = bytes.get(..REQUEST_BYTES)?;
    if request == BLOCK {
        return Some(Wish::Block);
    }
    let digits = request.strip_prefix(ONCE).and_then(|rest| std::str::from_utf8(rest.get(..5)?).ok());
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(length @ REQUEST_BYTES..=super::BUFFER_BYTES) => Some(Wish::Once(length)),
        _ => Some(Wish::Echo),
    }
}

/// A message of this length that comes back once. `bytes` is from [`REQUEST_BYTES`] to
/// [`super::BUFFER_BYTES`].
pub(crate) fn once(bytes: usize) -> Vec<u8> {
    let mut message = format!("weir-lab once {bytes:05}\n").into_bytes();
    message.extend((message.len()..bytes).map(|at| b'a' + (at % 23) as u8));
    message
}

/// The request for the block.
pub(crate) fn request() -> &'static [u8] {
    BLOCK
}

/// A block of [`BLOCK_BYTES`] bytes in which no part is like another, so that lost, repeated and exchanged
/// bytes are noticed.
pub(crate) fn block() -> &'static [u8] {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    MADE.get_or_init(|| {
        let mut state = SEED;
        let mut made = Vec::with_capacity(BLOCK_BYTES + 8);
        while made.len() < BLOCK_BYTES {
            // The generator of Marsaglia with shifts of 13, 7 and 17.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            made.extend_from_slice(&state.to_le_bytes());
        }
        made.truncate(BLOCK_BYTES);
        made
    })
}

/// Length of the block: a megabyte, the unit in which bulk transfers are counted.
pub(crate) const BLOCK_BYTES: usize = 1_000_000;
/// Any number but 0.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_from_first_bytes() {
        let rows: &[(&[u8], Option<Wish>)] = &[
            (b"", None),
            (b"hello", Some(Wish::Echo)),
            (b"we", None),
            (b"weird", Some(Wish::Echo)),
            (b"weir-lab once 00100", None),
            (b"weir-lab once 00100\n", Some(Wish::Once(100))),
            (b"weir-lab once 00100\nab", Some(Wish::Once(100))),
            (b"weir-lab once 00019\n", Some(Wish::Echo)),
            (b"weir-lab once 99999\n", Some(Wish::Echo)),
            (b"weir-lab twice 0000\n", Some(Wish::Echo)),
            (b"\x16\x03\x01", None),
            (b"\x16\x03\x01\x01\x00", Some(Wish::Once(261))),
            (b"\x16\x03\x01\xff\xff", Some(Wish::Once(super::super::BUFFER_BYTES))),
        ];
        for (bytes, wanted) in rows {
            assert_eq!(wish(bytes), *wanted, "{bytes:x?}");
        }
        assert_eq!(wish(request()), Some(Wish::Block));
        assert_eq!((request().len(), ONCE.len() + 6), (REQUEST_BYTES, REQUEST_BYTES));
    }

    #[test]
    fn message_names_its_own_length() {
        for bytes in [REQUEST_BYTES, 100, super::super::BUFFER_BYTES] {
            let message = once(bytes);
            assert_eq!((message.len(), wish(&message)), (bytes, Some(Wish::Once(bytes))));
        }
    }

    #[test]
    fn block_has_no_repeated_part() {
        let block = block();
        assert_eq!(block.len(), BLOCK_BYTES);
        let mut words: Vec<&[u8]> = block.chunks_exact(8).collect();
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
