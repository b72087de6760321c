//! The engine from outside: frames in, events and frames out. Each module is one concern.
#![allow(clippy::unwrap_used)]

mod client;
mod corpora;
mod cuts;
mod faults;
mod flow;
mod limits;
mod memory;
mod oracle;
mod priorities;
mod segments;
mod shutdown;
mod streams;
mod wire;
