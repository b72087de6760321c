//! The sizes beyond which a message is refused, each with its reason. It does not know where they are
//! configured.

/// The named ceilings of this crate.
pub struct Limits;

impl Limits {
    /// Fields of a head that the parser keeps on the stack (8 KiB). Where more are configured, it allocates
    /// entries for each head.
    pub const FIELDS_ON_STACK: usize = 256;
    /// Elements of all Connection fields of a head: each is looked up among the fields, so more would be a
    /// way to burn time; ordinary messages have one or two.
    pub const CONNECTION_OPTIONS: u32 = 100;
    /// Bytes of chunk extensions in one message: they are practically unused, so that more than this is an
    /// attack on parsers.
    pub const CHUNK_EXTENSION_BYTES: usize = 16 * 1024;
    /// Digits of a chunk size: what fits 64 bits.
    pub const CHUNK_SIZE_DIGITS: u8 = 16;
    /// The trailer section of one message, line ends included.
    pub const TRAILER_BYTES: usize = 16 * 1024;
    /// Trailer fields of one message, the dropped ones included.
    pub const TRAILER_FIELDS: usize = 100;
}
