//! The part of FlatBuffers that the messages of runners need: tables, texts, bytes, and lists of tables. A
//! reader that checks every position, and a writer in one pass. It knows no message.

mod reader;
mod writer;

pub(crate) use reader::{FlatTable, FlatTables, MalformedMessage};
pub(crate) use writer::{FlatWriter, Slots};
