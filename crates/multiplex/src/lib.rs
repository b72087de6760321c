//! The parts that HTTP/2 and HTTP/3 share: field sections with their rules, the coding of their strings and
//! integers, priorities, and the account of cheap frames. It does not know frames, streams, compression
//! tables and I/O.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod account;
mod error_code;
mod field;
mod head;
pub mod huffman;
pub mod integer;
mod parted;
pub mod pool;
mod priority;
pub mod string;
mod target;

pub use field::{Field, FieldVisitor, is_name, is_value};
pub use head::{HeadReader, Parsed, Scheme, Section, StoredHead};
pub use parted::{PartedField, is_trailer};
pub use priority::Priority;
pub use target::RequestTarget;

/// Why an integer or a string cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeError {
    /// The input ends inside it.
    Truncated,
    /// An integer that is too large or has too many bytes (RFC 7541 section 5.1).
    Integer,
    /// Padding of eight bits or more, padding other than ones, or EOS inside a string (RFC 7541 section 5.2).
    Huffman,
}
