//! Plugin objects as written: names with free configurations. Knows `_meta`, and no plugin.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::number;

/// One plugin with its configuration, as written (with `_meta`).
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The plugin's name.
    pub name: Box<str>,
    /// Its configuration object.
    pub config: Value,
}

impl Plugin {
    /// The values of `_meta`; the defaults when it is not written.
    #[must_use]
    pub fn meta(&self) -> PluginMeta<'_> {
        PluginMeta::of(&self.config)
    }
}

/// The plugins of an object in the order written. A clone shares them.
#[derive(Clone, PartialEq)]
pub struct Plugins(Arc<[Plugin]>);

impl Plugins {
    /// No plugins.
    #[must_use]
    pub fn none() -> &'static Plugins {
        static NONE: std::sync::LazyLock<Plugins> = std::sync::LazyLock::new(|| Plugins(Arc::new([])));
        &NONE
    }

    /// Those plugins.
    #[must_use]
    pub fn new(plugins: Vec<Plugin>) -> Plugins {
        if plugins.is_empty() { Plugins::none().clone() } else { Plugins(plugins.into()) }
    }

    /// The plugin of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Plugin> {
        self.0.iter().find(|plugin| &*plugin.name == name)
    }

    /// In the order written.
    pub fn iter(&self) -> std::slice::Iter<'_, Plugin> {
        self.0.iter()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Plugins {
    fn default() -> Plugins {
        Plugins::none().clone()
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter().map(|plugin| (&plugin.name, &plugin.config))).finish()
    }
}

impl<'a> IntoIterator for &'a Plugins {
    type Item = &'a Plugin;
    type IntoIter = std::slice::Iter<'a, Plugin>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'de> Deserialize<'de> for Plugins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plugins, D::Error> {
        deserializer.deserialize_map(PluginsVisitor)
    }
}

/// The fields of `_meta`, which every plugin object may have beside its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PluginMeta<'a> {
    /// Leave the plugin out.
    pub disable: bool,
    /// The body in place of that of a refusal (status 400 and above).
    pub error_response: Option<&'a Value>,
    /// Its place among the plugins of the same object, instead of the plugin's own priority.
    pub priority: Option<i64>,
    /// Only when this expression holds.
    pub filter: Option<&'a Value>,
    /// A function in Lua that runs before each phase of the plugin.
    pub pre_function: Option<&'a str>,
}

impl<'a> PluginMeta<'a> {
    /// The meta part of a plugin's configuration.
    #[must_use]
    pub fn of(config: &'a Value) -> PluginMeta<'a> {
        let Some(meta) = config.get("_meta").and_then(Value::as_object) else {
            return PluginMeta::default();
        };
        PluginMeta {
            disable: flag(meta, "disable"),
            error_response: meta.get("error_response"),
            priority: meta.get("priority").and_then(integer),
            filter: meta.get("filter"),
            pre_function: meta.get("pre_function").and_then(Value::as_str),
        }
    }
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().and_then(number::integer_of))
}

fn flag(meta: &Map<String, Value>, name: &str) -> bool {
    meta.get(name).and_then(Value::as_bool).unwrap_or(false)
}

struct PluginsVisitor;

impl<'de> Visitor<'de> for PluginsVisitor {
    type Value = Plugins;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of plugins by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Plugins, A::Error> {
        let mut plugins = Vec::with_capacity(map.size_hint().unwrap_or(0));
        while let Some((name, config)) = map.next_entry::<Box<str>, Value>()? {
            plugins.push(Plugin { name, config });
        }
        Ok(Plugins::new(plugins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_keep_their_order_and_their_meta() {
        let plugins: Plugins = serde_json::from_str(
            r#"{"b":{"_meta":{"disable":true,"priority":7,"filter":[["arg_x","==","1"]]}},"a":{}}"#,
        )
        .unwrap();
        assert_eq!(plugins.iter().map(|plugin| &*plugin.name).collect::<Vec<_>>(), ["b", "a"]);
        let meta = plugins.get("b").unwrap().meta();
        assert!(meta.disable && meta.priority == Some(7) && meta.filter.is_some());
        assert_eq!(plugins.get("a").unwrap().meta(), PluginMeta::default());
    }

    #[test]
    fn no_plugins_cost_no_allocation_of_their_own() {
        assert!(Arc::ptr_eq(&Plugins::new(Vec::new()).0, &Plugins::none().0));
    }
}
