//! The plugins that all routes of a contract share.

use serde_json::json;

use crate::resource::{Contract, Plugin, Plugins};

/// The plugin that gives nodes another path than the request has.
const REWRITE_PLUGIN: &str = "proxy-rewrite";

/// The plugins of the contract; where nodes have another base path, also the one that replaces it. A plugin
/// of the contract that rewrites paths does so alone.
pub(super) fn shared_plugins(contract: &Contract, base: &str, upstream_base: &str) -> Plugins {
    if base == upstream_base || contract.plugins.get(REWRITE_PLUGIN).is_some() {
        return contract.plugins.clone();
    }
    let mut plugins: Vec<Plugin> = contract.plugins.iter().cloned().collect();
    let pattern = format!("^{}(/.*)?$", escaped(base));
    let config = json!({ "regex_uri": [pattern, format!("{upstream_base}$1")] });
    plugins.push(Plugin { name: REWRITE_PLUGIN.into(), config });
    Plugins::new(plugins)
}

/// A text as a pattern that matches it alone.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if !(letter.is_alphanumeric() || letter == '/' || letter == '_' || letter == '-') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
