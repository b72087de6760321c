//! The part of FlatBuffers that the messages of runners need: tables, texts, bytes, and lists of tables. A reader that checks
//! every position, and a writer in one pass. It knows no message.

mod reader;
mod writer;

pub(crate) use reader::{MalformedMessage, FlatTable, FlatTables};
pub(crate) use writer::{Slots, FlatWriter};
