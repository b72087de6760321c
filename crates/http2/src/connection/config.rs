//! The settings of a connection that its driver chooses, with defaults; it does not know where users
//! configure it.

use message::HeadLimits;

use crate::Limits;
use crate::flow::DEFAULT_WINDOW;
use crate::frame::MAX_31_BITS;

/// The settings of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Streams that may be open at the same time: a server refuses more, a client starts no more, whatever
    /// its peer allows.
    pub max_streams: u32,
    /// Bytes of one stream that may wait for the gateway. 0 to 2^31-1.
    pub stream_window_bytes: u32,
    /// Bytes of all streams that may wait for the gateway. 65,535 (the protocol's minimum) to 2^31-1.
    pub connection_window_bytes: u32,
    /// The limits of heads and trailers; `max_line_bytes` has no meaning here. The size counts 32 bytes for
    /// each field besides its name and value (RFC 9113 section 6.5.2).
    pub head: HeadLimits,
    /// The decoder's table, at most 65,535 bytes.
    pub header_table_bytes: u32,
    /// Bytes in the output beyond which streams wait.
    pub output_bytes: usize,
    /// Whether a server takes extended CONNECT (RFC 8441). A client may always send it if its server takes
    /// it.
    pub extended_connect: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_streams: Limits::STREAMS,
            stream_window_bytes: Limits::STREAM_WINDOW_BYTES,
            connection_window_bytes: Limits::CONNECTION_WINDOW_BYTES,
            head: HeadLimits::default(),
            header_table_bytes: Limits::HEADER_TABLE_BYTES,
            output_bytes: Limits::OUTPUT_BYTES,
            extended_connect: true,
        }
    }
}

impl Config {
    /// The table that the peer's encoder may use before it has seen our SETTINGS: the protocol's default.
    pub(super) const TABLE_BEFORE_ACKNOWLEDGEMENT: usize = Limits::HEADER_TABLE_BYTES as usize;

    /// The same with every value inside its range.
    pub(super) fn within_bounds(mut self) -> Self {
        self.stream_window_bytes = self.stream_window_bytes.min(MAX_31_BITS);
        self.connection_window_bytes = self.connection_window_bytes.clamp(DEFAULT_WINDOW, MAX_31_BITS);
        self.header_table_bytes = self.header_table_bytes.min(u32::from(u16::MAX));
        self.output_bytes = self.output_bytes.max(1);
        self
    }

    /// The largest compressed header block.
    pub(super) fn block_bytes(&self) -> usize {
        self.head.max_head_bytes.max(Limits::HEAD_BLOCK_BYTES)
    }

    /// The most streams with a slot.
    pub(super) fn slots(&self) -> usize {
        (self.max_streams as usize).saturating_mul(Limits::SLOTS_PER_STREAM)
    }
}
