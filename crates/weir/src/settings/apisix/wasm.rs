//! `wasm` of a `config.yaml`: the plugins have APISIX's form here. Loads no module.

use serde_json::Value;

use super::discovery::tree_to_json;
use super::draft::{Draft, Spot};

/// `wasm`; relative files lie where APISIX has them.
pub(super) fn convert_wasm_plugins(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let mut written = tree_to_json(spot.node);
    let plugins = written.get_mut("plugins").and_then(Value::as_array_mut);
    for plugin in plugins.into_iter().flatten() {
        if let Some(file) = plugin.get("file").and_then(Value::as_str) {
            plugin["file"] = draft.beneath_home(file).into();
        }
    }
    draft.set_one(&spot.at(), "wasm", written.to_string());
}
