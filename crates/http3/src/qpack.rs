//! QPACK (RFC 9204) with tables of capacity zero: static references and literals. It does not know frames,
//! streams and the meaning of a field for a message.

mod decoder;
mod encoder;
mod static_table;

pub use decoder::decode;
pub(crate) use encoder::{Pseudo, pseudo};
pub use encoder::{begin, field};
use multiplex::CodeError;
pub use multiplex::{Field, FieldVisitor};

/// Why a field section cannot be decoded. Each is a QPACK_DECOMPRESSION_FAILED of the connection (RFC 9204
/// section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpackError {
    /// The section ends inside its prefix or a field.
    Truncated,
    /// An integer that is too large.
    Integer,
    /// An invalid Huffman code.
    Huffman,
    /// An index beyond the static table (RFC 9204 section 3.1).
    Index,
    /// A reference to the dynamic table, or a prefix that announces one: its capacity is zero.
    Dynamic,
}

impl QpackError {
    /// The fault in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "field section ends inside a field",
            Self::Integer => "integer overflow in a field section",
            Self::Huffman => "invalid Huffman code in a field section",
            Self::Index => "invalid static index in a field section",
            Self::Dynamic => "reference to a dynamic table of capacity zero",
        }
    }
}

impl From<CodeError> for QpackError {
    fn from(error: CodeError) -> Self {
        match error {
            CodeError::Truncated => Self::Truncated,
            CodeError::Integer => Self::Integer,
            CodeError::Huffman => Self::Huffman,
        }
    }
}

impl std::fmt::Display for QpackError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for QpackError {}
