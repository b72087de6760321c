//! The plugins, one file each. A file holds, in this order: its user documentation, its kind (name, priority, phases),
//! its JSON Schema, its configuration, its compiled form, its behaviour, its tests. `ALL` is the only list of them.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use gateway::plugin::PluginKind;

/// Every plugin of this gateway, by priority.
pub const ALL: &[&PluginKind] = &[];
