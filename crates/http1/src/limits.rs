//! The sizes beyond which a message is refused, each with its reason; it refuses to know who configures them.

/// The named defaults and ceilings of this crate.
///
/// They follow what the common servers accept (nginx: 8 KiB lines, 32 KiB heads; Apache: 8190-byte lines,
/// 100 fields), so that whatever passes there passes here, and nothing much larger.
pub struct Limits;

impl Limits {
    /// A whole head: eight times the usual cookie budget of a browser; what one slow client can hold.
    pub const HEAD_BYTES: usize = 64 * 1024;
    /// A request line: the longest that browsers, caches and nginx agree to carry.
    pub const LINE_BYTES: usize = 8 * 1024;
    /// Fields of one head: ordinary requests have 10 to 30; each costs a table entry and a comparison.
    pub const FIELDS: usize = 100;
    /// The most fields that can be configured: the parser keeps that many entries (8 KiB) on the stack.
    pub const FIELDS_CEILING: usize = 256;
    /// Elements of all Connection fields of a head: each is looked up among the fields, so more would be a way
    /// to burn time; ordinary messages have one or two.
    pub const CONNECTION_OPTIONS: u32 = 100;
    /// Bytes a field list may hold after editing: far above any head, far below the 32-bit offsets.
    pub const HEADERS_BYTES: usize = 16 * 1024 * 1024;
    /// Chunk extensions of one message: nobody uses them, so more than this is an attack on parsers.
    pub const CHUNK_EXTENSION_BYTES: usize = 16 * 1024;
    /// Digits of a chunk size: what fits 64 bits.
    pub const CHUNK_SIZE_DIGITS: u8 = 16;
    /// The trailer section of one message, line ends included.
    pub const TRAILER_BYTES: usize = 16 * 1024;
    /// Trailer fields of one message, the dropped ones included.
    pub const TRAILER_FIELDS: usize = 100;
}

/// What a head may measure. Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head with its empty line; beyond it 431 (RFC 6585 section 5).
    pub max_head_bytes: usize,
    /// The start line without its CRLF; beyond it 414 for a request (RFC 9110 section 15.5.15).
    pub max_line_bytes: usize,
    /// The number of fields; beyond it 431. More than [`Limits::FIELDS_CEILING`] counts as the ceiling.
    pub max_fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            max_head_bytes: Limits::HEAD_BYTES,
            max_line_bytes: Limits::LINE_BYTES,
            max_fields: Limits::FIELDS,
        }
    }
}
