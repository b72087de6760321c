//! Groups: routes that share their counters, all with the same configuration.

use std::sync::Arc;

use exchange::plugin::state::StateRegistry;
use serde_json::Value;

use super::{LimitCountStore, NAME};
use crate::shared::config;

/// Routes that share their counters.
pub(super) struct LimitCountGroup {
    identity: String,
    pub(super) store: LimitCountStore,
}

/// Refuses a configuration of a group that running routes use with another one.
pub(super) fn check(states: &StateRegistry, config: &Value) -> Result<(), String> {
    check_of(NAME, states, config)
}

/// As [`check`], for groups of the plugin `plugin`.
pub(super) fn check_of(plugin: &str, states: &StateRegistry, config: &Value) -> Result<(), String> {
    let Some(name) = config.get("group").and_then(Value::as_str) else { return Ok(()) };
    let running = states.held::<LimitCountGroup>(&key(plugin, name));
    running.map_or(Ok(()), |running| running.admits(&config::identity(config)))
}

/// The key of a group's state. Keys of other counters have a slash behind the plugin.
fn key(plugin: &str, name: &str) -> String {
    format!("{plugin} group {name}")
}

impl LimitCountGroup {
    /// The group `name` of the plugin `plugin`: the one that running routes have, or a new one with `store`.
    ///
    /// # Errors
    /// Running routes have another configuration, or there is no store.
    pub(super) fn join(
        states: &StateRegistry,
        plugin: &str,
        name: &str,
        identity: &str,
        store: impl FnOnce() -> Result<LimitCountStore, String>,
    ) -> Result<Arc<LimitCountGroup>, String> {
        let key = key(plugin, name);
        let group = match states.held::<LimitCountGroup>(&key) {
            Some(group) => group,
            None => {
                let store = store()?;
                states.keep(&key, || LimitCountGroup { identity: identity.to_owned(), store })
            }
        };
        group.admits(identity)?;
        Ok(group)
    }

    /// Whether a route with this configuration may count here.
    fn admits(&self, identity: &str) -> Result<(), String> {
        if self.identity == identity { Ok(()) } else { Err("group conf mismatched".to_owned()) }
    }
}
