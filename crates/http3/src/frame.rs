//! Frame types, stream types and the frame header (RFC 9114 section 6.2 and 7); it does not know where a
//! frame may be.

use crate::varint;

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
    /// RFC 9218 section 7.2, for a request stream.
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// RFC 9218 section 7.2, for a push.
    pub(crate) const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
    /// PRIORITY, PING, WINDOW_UPDATE and CONTINUATION of HTTP/2 (RFC 9114 section 7.2.8).
    pub(crate) const HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// Types of unidirectional streams.
pub(crate) mod stream {
    pub(crate) const CONTROL: u64 = 0x0;
    pub(crate) const PUSH: u64 = 0x1;
    pub(crate) const QPACK_ENCODER: u64 = 0x2;
    pub(crate) const QPACK_DECODER: u64 = 0x3;
}

/// A parsed frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The type; unknown ones are possible.
    pub(crate) kind: u64,
    /// Bytes of the payload.
    pub(crate) length: u64,
}

/// Reads a frame header, as [`varint::read`].
#[inline]
pub(crate) fn read_header(input: &mut &[u8]) -> Option<FrameHeader> {
    Some(FrameHeader { kind: varint::read(input)?, length: varint::read(input)? })
}

/// A type or setting that receivers ignore (RFC 9114 section 7.2.4.1 and 7.2.8), chosen by a random number.
pub(crate) fn reserved(random: u64) -> u64 {
    // A factor of 32 bits stays far below 62 bits.
    (random & 0xFFFF_FFFF) * 0x1f + 0x21
}
