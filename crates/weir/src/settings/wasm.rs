//! The setting `wasm`: plugins in WebAssembly that are loaded at the start, in the form that APISIX has for
//! them.

use std::path::PathBuf;

use discovery::BlockFault;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::written::SettingTexts;

/// Plugins of the settings. Each takes memory on every worker.
const PLUGINS_MAX: usize = 200;

/// The plugins, with the paths of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WasmPlugins(pub(crate) Vec<WasmPlugin>);

/// A plugin of the settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WasmPlugin {
    /// The name under which objects use it.
    pub(crate) name: String,
    /// The file with the module.
    pub(crate) file: PathBuf,
    /// Where it runs among other plugins.
    pub(crate) priority: i64,
    /// The phase in which it sees requests.
    #[serde(default)]
    pub(crate) http_request_phase: HttpRequestPhase,
}

/// The phase in which a plugin sees requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HttpRequestPhase {
    /// After authentication.
    #[default]
    Access,
    /// Before authentication.
    Rewrite,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WasmBlock {
    #[serde(default)]
    plugins: Vec<WasmPlugin>,
}

/// The plugins, as one JSON object; nothing is none.
pub(super) fn parse_wasm_plugins(given: &SettingTexts) -> Result<WasmPlugins, String> {
    let Some(text) = given.values.first().filter(|text| !text.is_empty()) else {
        return Ok(WasmPlugins::default());
    };
    let written: Value = serde_json::from_str(text).map_err(|_| {
        "is no JSON object; write `{\"plugins\": [{\"name\": \"my-filter\", \"priority\": 7999, \"file\": \"my.wasm\"}]}`"
            .to_owned()
    })?;
    let mut plugins = read(&written)?;
    for plugin in &mut plugins.0 {
        plugin.file = given.resolve(&plugin.file.to_string_lossy());
    }
    Ok(plugins)
}

/// The fault of a map in a settings file, if it has one.
pub(super) fn check_wasm_plugins(written: &Map<String, Value>) -> Vec<BlockFault> {
    let checked = read(&Value::Object(written.clone()));
    checked.err().map(|reason| BlockFault { pointer: String::new(), reason }).into_iter().collect()
}

fn read(written: &Value) -> Result<WasmPlugins, String> {
    let WasmBlock { plugins } = WasmBlock::deserialize(written).map_err(|error| error.to_string())?;
    if plugins.len() > PLUGINS_MAX {
        return Err(format!("has {} plugins; {PLUGINS_MAX} are allowed", plugins.len()));
    }
    for (index, plugin) in plugins.iter().enumerate() {
        if plugins[..index].iter().any(|other| other.name == plugin.name) {
            return Err(format!("plugins[{index}]: there are two plugins `{}`", plugin.name));
        }
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if plugin.name.is_empty() || !plugin.name.bytes().all(is_letter) {
            return Err(format!(
                "plugins[{index}]: `{}` is no name of a plugin, such as `my-filter`",
                plugin.name
            ));
        }
        if ::plugins::ALL.iter().any(|kind| kind.name == plugin.name) {
            return Err(format!(
                "plugins[{index}]: there is a plugin `{}` already; take another name",
                plugin.name
            ));
        }
    }
    Ok(WasmPlugins(plugins))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn block_has_the_form_of_apisix() {
        let read = |plugins: Value| read(&json!({ "plugins": plugins }));
        let good = read(
            json!([{ "name": "a", "priority": 7999, "file": "a.wasm", "http_request_phase": "rewrite" },
            { "name": "b", "priority": -1, "file": "/b.wasm" }]),
        );
        let phases: Vec<HttpRequestPhase> =
            good.unwrap().0.iter().map(|plugin| plugin.http_request_phase).collect();
        assert_eq!(phases, [HttpRequestPhase::Rewrite, HttpRequestPhase::Access]);
        for (plugins, expected) in [
            (json!([{ "name": "a", "file": "x" }]), "priority"),
            (json!([{ "name": "a", "priority": 1 }]), "file"),
            (json!([{ "name": "a", "priority": 1, "file": "x", "http_request_phase": "log" }]), "rewrite"),
            (json!([{ "name": "a", "priority": 1, "file": "x", "phase": "log" }]), "phase"),
            (json!([{ "name": "a b", "priority": 1, "file": "x" }]), "no name"),
            (json!([{ "name": "key-auth", "priority": 1, "file": "x" }]), "already"),
            (
                json!([{ "name": "a", "priority": 1, "file": "x" }, { "name": "a", "priority": 1, "file": "y" }]),
                "two",
            ),
        ] {
            let reason = read(plugins.clone()).unwrap_err();
            assert!(reason.contains(expected), "{plugins}: {reason}");
        }
    }
}
