//! The metadata of a plugin: what all its uses share. Its fields are the plugin's; this file knows none of
//! them.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The part that all uses of one plugin share; the object's id is the plugin's name.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginMetadata {
    /// The plugin's own fields.
    pub value: Value,
}

impl<'de> Deserialize<'de> for PluginMetadata {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PluginMetadata, D::Error> {
        let fields = Map::<String, Value>::deserialize(deserializer)?;
        Ok(PluginMetadata { value: own_fields(fields) })
    }
}

/// The fields without those the store adds.
pub(crate) fn own_fields(mut fields: Map<String, Value>) -> Value {
    fields.retain(|name, _| !ADDED_BY_THE_STORE.contains(&name.as_str()));
    Value::Object(fields)
}

/// The fields that the Admin API or a resource file puts beside the plugin's.
const ADDED_BY_THE_STORE: [&str; 3] = ["id", "create_time", "update_time"];
