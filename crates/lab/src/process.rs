//! Programs that the laboratory starts: each with a guard that ends all of it when the laboratory ends, however it ends,
//! and with what its whole tree of processes takes. It knows no gateway and no load generator.

pub mod cores;
mod group;
pub mod guard;
mod tree;

pub use group::{Ended, Group, Start};
pub use tree::{Cpu, Memory, Switches, Tree};
