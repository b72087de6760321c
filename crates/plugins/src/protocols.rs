//! The protocols that stream routes may name in `protocol`, one file each.

mod redis;

use exchange::plugin::stream::protocol::ProtocolKind;

/// Every protocol, by name.
pub const ALL: &[&ProtocolKind] = &[&redis::KIND];
