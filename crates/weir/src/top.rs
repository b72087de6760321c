//! The live view of `weir top`: what the instance answers, the table that is made of it, keys, and the
//! terminal.

pub(crate) mod data;
pub(crate) mod live;
pub(crate) mod numbers;
pub(crate) mod screen;
pub(crate) mod state;
pub(crate) mod table;
