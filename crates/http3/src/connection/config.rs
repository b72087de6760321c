//! The settings of a connection that its driver chooses, with defaults; it does not know where users
//! configure it.

use message::HeadLimits;

use crate::Limits;

/// The settings of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The limits of heads and trailers; `max_line_bytes` has no meaning here. The size counts 32 bytes for
    /// each field besides its name and value (RFC 9114 section 4.2.2), and is announced to the peer.
    pub head: HeadLimits,
    /// Whether a server takes extended CONNECT (RFC 9220). A client may always send it if its server takes
    /// it.
    pub extended_connect: bool,
    /// A random number, from which a setting and a frame are made that receivers have to ignore, so that
    /// peers stay tolerant (RFC 9114 section 7.2.4.1 and 7.2.8). None sends neither.
    pub grease: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self { head: HeadLimits::default(), extended_connect: true, grease: None }
    }
}

impl Config {
    /// The largest payload of a HEADERS frame.
    pub(crate) fn block_bytes(&self) -> usize {
        self.head.max_head_bytes.max(Limits::HEAD_BLOCK_BYTES)
    }
}
