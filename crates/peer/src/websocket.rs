//! WebSocket (RFC 6455): the proof of a handshake and the headers of frames. Which frames a side may send is
//! checked by the other side.

use aws_lc_rs::digest;
use data_encoding::BASE64;

/// The bit of the first byte for the last frame of a message.
pub const FINAL: u8 = 0x80;
/// The bits of the first byte for extensions.
pub const RESERVED: u8 = 0x70;
/// The bit of the second byte: a mask follows the length.
pub const MASKED: u8 = 0x80;
/// Opcodes (RFC 6455 5.2). Those from [`CLOSE`] on are of control frames, which have at most 125 bytes.
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;
/// The longest header: two bytes, eight of length, four of mask.
pub const HEADER_BYTES_MAX: usize = 14;

/// A whole header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The final bit, the reserved bits and the opcode.
    pub first: u8,
    /// The length of the payload.
    pub length: u64,
    /// The mask of a client's frame.
    pub mask: Option<[u8; 4]>,
}

impl Header {
    /// The header that `bytes` are, `None` while it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let &[first, second, ref rest @ ..] = bytes else { return None };
        let (length, mask) = match (second & !MASKED, rest) {
            (126, &[a, b, ref mask @ ..]) => (u64::from(u16::from_be_bytes([a, b])), mask),
            (127, &[a, b, c, d, e, f, g, h, ref mask @ ..]) => {
                (u64::from_be_bytes([a, b, c, d, e, f, g, h]), mask)
            }
            (126 | 127, _) => return None,
            (length, mask) => (u64::from(length), mask),
        };
        let mask = if second & MASKED == 0 { None } else { Some(mask.try_into().ok()?) };
        Some(Header { first, length, mask })
    }

    /// Writes the header in its shortest form.
    pub fn write(&self, output: &mut Vec<u8>) {
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        output.push(self.first);
        match self.length {
            length @ 0..=125 => output.push(masked | length as u8),
            length @ 126..=0xffff => {
                output.push(masked | 126);
                output.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                output.push(masked | 127);
                output.extend_from_slice(&length.to_be_bytes());
            }
        }
        output.extend(self.mask.iter().flatten());
    }
}

/// A whole frame, its payload masked if there is a mask.
pub fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX + payload.len());
    Header { first, length: payload.len() as u64, mask }.write(&mut bytes);
    let mask = mask.unwrap_or_default();
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The value of `Sec-WebSocket-Accept` that answers a key (RFC 6455 4.2.2).
pub fn accept(key: &str) -> String {
    let text = format!("{key}{GUID}");
    BASE64.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// RFC 6455 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_that_of_rfc_6455() {
        // The example of section 1.3.
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn headers_are_read_as_written() {
        let check = |length: u64, mask: Option<[u8; 4]>, second: u8, bytes: usize| {
            let header = Header { first: FINAL | BINARY, length, mask };
            let mut written = Vec::new();
            header.write(&mut written);
            assert_eq!((written[1], written.len()), (second, bytes), "{length}");
            assert_eq!(Header::parse(&written), Some(header), "{length}");
            for cut in 0..bytes {
                assert_eq!(Header::parse(&written[..cut]), None, "{length} cut at {cut}");
            }
        };
        check(0, None, 0, 2);
        check(125, Some(*b"mask"), MASKED | 125, 6);
        check(126, None, 126, 4);
        check(65_535, Some(*b"mask"), MASKED | 126, 8);
        check(65_536, None, 127, 10);
        check(u64::MAX, Some(*b"mask"), MASKED | 127, HEADER_BYTES_MAX);
    }

    #[test]
    fn frame_masks_its_payload() {
        assert_eq!(frame(FINAL | TEXT, b"hi", None), [0x81, 2, b'h', b'i']);
        assert_eq!(
            frame(FINAL | PONG, b"hi", Some([1, 2, 3, 4])),
            [0x8a, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]
        );
    }
}
