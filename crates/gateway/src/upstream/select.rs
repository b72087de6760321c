//! Division of an upstream's nodes into groups before the balancing method chooses: by usability, priority
//! and the policies of the upstream. Everything is computed when the set or a node's state changes; a request
//! only picks a group.

pub(crate) mod divide;
pub mod group;
pub(crate) mod overflow;
pub(crate) mod plan;
pub(crate) mod plans;
pub mod policies;
pub(crate) mod share;
pub mod slow_start;
pub mod sticky;
pub(crate) mod sticky_sessions;
pub mod subset;
pub mod zone;

pub use policies::Policies;
