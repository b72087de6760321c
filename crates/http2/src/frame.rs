//! The frame header and the frames of fixed size (RFC 9113 section 4 and 6); it does not know streams and
//! states.

use crate::ErrorCode;

/// Bytes of a frame header.
pub(crate) const HEADER_BYTES: usize = 9;
/// The connection preface of a client (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest identifier of a stream, and the largest window.
pub(crate) const MAX_31_BITS: u32 = 0x7FFF_FFFF;

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    /// RFC 9218 section 7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Frame flags.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// A parsed frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Bytes of the payload, 24 bits.
    pub(crate) length: u32,
    /// The type; unknown ones are possible.
    pub(crate) kind: u8,
    /// The flags; their meaning depends on the type.
    pub(crate) flags: u8,
    /// The stream, without the reserved bit.
    pub(crate) stream: u32,
}

impl FrameHeader {
    /// Reads the header at the start of `input`, which has at least [`HEADER_BYTES`].
    #[inline]
    pub(crate) fn read(input: &[u8]) -> Self {
        let bytes: &[u8; HEADER_BYTES] =
            input.first_chunk().expect("the caller waits for a whole frame header");
        Self {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & MAX_31_BITS,
        }
    }

    /// Whether one of the bits of `flag` is set.
    #[inline]
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The header as bytes.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; HEADER_BYTES] {
        let length = self.length.to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [length[1], length[2], length[3], self.kind, self.flags, stream[0], stream[1], stream[2], stream[3]]
    }
}

/// Appends a frame header.
#[inline]
pub(crate) fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    debug_assert!(length < 1 << 24, "a frame longer than its length field");
    out.extend_from_slice(&FrameHeader { length: length as u32, kind, flags, stream }.bytes());
}

/// Appends RST_STREAM.
pub(crate) fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_header(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE; stream 0 is the connection.
pub(crate) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_header(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends PING.
pub(crate) fn write_ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    write_header(out, payload.len(), kind::PING, flags, 0);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY with debug data.
pub(crate) fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, debug: &str) {
    write_header(out, 8 + debug.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug.as_bytes());
}

/// The first 32 bits of a payload, which has at least four bytes.
#[inline]
pub(crate) fn read_u32(payload: &[u8]) -> u32 {
    u32::from_be_bytes(*payload.first_chunk().expect("the frame's size was checked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_survives_a_round_trip() {
        for (length, kind, flags, stream) in
            [(0, 0, 0, 0), (16_384, kind::HEADERS, 0x25, 1), (0xFF_FFFF, 0xFF, 0xFF, MAX_31_BITS)]
        {
            let header = FrameHeader { length, kind, flags, stream };
            assert_eq!(FrameHeader::read(&header.bytes()), header);
        }
    }

    #[test]
    fn reserved_bit_of_stream_is_ignored() {
        assert_eq!(FrameHeader::read(&[0, 0, 1, 0, 0, 0x80, 0, 0, 3]).stream, 3);
    }
}
