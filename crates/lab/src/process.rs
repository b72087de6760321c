//! Programs that the laboratory starts: each with a guard that ends all its processes when the laboratory
//! ends, even by a crash, and with accounting of its whole process tree. It knows no gateway and no load
//! generator.

pub mod cores;
mod group;
pub mod guard;
mod tree;

pub use group::{ProcessExit, ProcessGroup, Start};
pub use tree::{Cpu, Memory, ProcessTree, Switches};
