//! The sizes of heads and field lists beyond which a message is refused, each with its reason.

/// Bytes a field list may hold after editing: far above any head, far below the 32-bit offsets of its spans.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The limits of a head. Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head; beyond it 431 (RFC 6585 section 5).
    pub max_head_bytes: usize,
    /// The start line of HTTP/1 without its CRLF; beyond it 414 for a request (RFC 9110 section 15.5.15).
    pub max_line_bytes: usize,
    /// The number of fields; beyond it 431.
    pub max_fields: usize,
}

impl HeadLimits {
    /// A whole head: eight times the usual cookie budget of a browser, and what one slow client can hold.
    pub const HEAD_BYTES: usize = 64 * 1024;
    /// A request line: the longest that browsers, caches and nginx agree to carry.
    pub const LINE_BYTES: usize = 8 * 1024;
    /// The limits of a response head of an upstream. Its fields are bounded by the bytes of the head alone,
    /// because applications set many cookies at once and the usual gateways do not count fields of responses.
    pub const OF_UPSTREAMS: Self =
        Self { max_head_bytes: Self::HEAD_BYTES, max_line_bytes: Self::LINE_BYTES, max_fields: usize::MAX };

    /// Fields of one head: ordinary requests have 10 to 30; each costs a table entry and a comparison.
    pub const FIELDS: usize = 100;
}

impl Default for HeadLimits {
    /// They follow what the common servers accept (nginx: 8 KiB lines, 32 KiB heads; Apache: 8190-byte lines,
    /// 100 fields).
    fn default() -> Self {
        Self { max_head_bytes: Self::HEAD_BYTES, max_line_bytes: Self::LINE_BYTES, max_fields: Self::FIELDS }
    }
}
