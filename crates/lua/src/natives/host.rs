//! Facts of the process that modules show: settings, the name of the machine, the identity of the instance,
//! metadata of plugins. The runtime puts them into the application data of its interpreter.

use std::sync::{Arc, OnceLock};

use mlua::{Lua, Table, Value};

use super::schema::to_lua;

/// The longest name of a machine, in bytes (Linux has at most 64).
const HOSTNAME_BYTES_MAX: usize = 256;

/// See the module.
#[derive(Clone, Default)]
pub struct Host {
    /// The settings as modules see them, without secrets: the tree of APISIX's `config.yaml`.
    pub settings: Arc<serde_json::Value>,
    /// The identity of the instance.
    pub instance_id: Option<Arc<str>>,
}

pub(super) fn install_host_facts(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let settings = lua.create_function(|lua, ()| {
        let settings = lua.app_data_ref::<Host>().map(|host| host.settings.clone());
        match settings.as_deref() {
            Some(settings @ serde_json::Value::Object(_)) => to_lua(lua, settings),
            _ => lua.create_table().map(Value::Table),
        }
    })?;
    native.raw_set("settings", settings)?;
    let identity = lua.create_function(|lua, ()| {
        let id = lua.app_data_ref::<Host>().and_then(|host| host.instance_id.clone());
        id.map(|id| lua.create_string(id.as_bytes())).transpose()
    })?;
    native.raw_set("instance_id", identity)?;
    native.raw_set("hostname", hostname())?;
    native.raw_set("log_level", lua.create_function(|_, ()| Ok(log_level()))?)?;
    // The runtime sets the metadata of each plugin under its name.
    native.raw_set("metadata", lua.create_table()?)
}

/// The level of the log as a number of nginx: 4 for errors up to 8 for everything.
fn log_level() -> u8 {
    match tracing::level_filters::LevelFilter::current() {
        level if level >= tracing::level_filters::LevelFilter::DEBUG => 8,
        tracing::level_filters::LevelFilter::INFO => 7,
        tracing::level_filters::LevelFilter::WARN => 5,
        tracing::level_filters::LevelFilter::ERROR => 4,
        _ => 0,
    }
}

/// The name of the machine, read once; `unknown` where the kernel shows none.
fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        match read.trim() {
            name if !name.is_empty() && name.len() <= HOSTNAME_BYTES_MAX => name.to_owned(),
            _ => "unknown".to_owned(),
        }
    })
}
