//! HPACK (RFC 7541): tables, decoder and encoder. It does not know frames, streams and what a field means for
//! a message, except where the encoder decides which fields to put into its table.

mod decoder;
mod encoder;
mod policy;
mod static_table;
mod table;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub(crate) use encoder::Pseudo;
use multiplex::CodeError;
pub use multiplex::{Field, FieldVisitor};

/// Why a header block cannot be decoded. Each is a COMPRESSION_ERROR of the connection (RFC 9113 section
/// 4.3), because the tables of both sides may differ afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends inside a field.
    Truncated,
    /// An integer does not fit 32 bits or has too many bytes (RFC 7541 section 5.1).
    Integer,
    /// An index of zero or beyond both tables (section 2.3.3).
    Index,
    /// Padding of eight bits or more, padding other than ones, or EOS inside a string (section 5.2).
    Huffman,
    /// A table size above the limit, not at the start of a block, or missing after the limit fell (section
    /// 4.2).
    TableSize,
}

impl HpackError {
    /// The fault in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "header block ends inside a field",
            Self::Integer => "integer overflow in a header block",
            Self::Index => "invalid index in a header block",
            Self::Huffman => "invalid Huffman code in a header block",
            Self::TableSize => "invalid table size update in a header block",
        }
    }
}

impl From<CodeError> for HpackError {
    fn from(error: CodeError) -> Self {
        match error {
            CodeError::Truncated => Self::Truncated,
            CodeError::Integer => Self::Integer,
            CodeError::Huffman => Self::Huffman,
        }
    }
}

impl std::fmt::Display for HpackError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for HpackError {}
