//! The plugin that ended a request with a reply, for logs and metrics.

use crate::plugin::phase_name::PluginPhase;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginReply {
    /// The name of the plugin.
    pub plugin: &'static str,
    /// The phase in which it replied.
    pub phase: PluginPhase,
}
