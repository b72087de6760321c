//! Division of an upstream's nodes into groups before the balancing method chooses: by usability, priority and the policies
//! of the upstream. Everything is computed when the set or a node's state changes; a request only picks a group.

pub(crate) mod divide;
pub mod group;
pub(crate) mod plan;
