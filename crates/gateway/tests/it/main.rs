//! Engines over real sockets: listeners, sessions of layer 4, datagrams, and workers that stand. Each module
//! is one concern.

mod datagrams;
mod listeners;
mod sessions;
mod stalled_worker;
