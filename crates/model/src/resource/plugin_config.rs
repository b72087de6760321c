//! A plugin config: plugins that routes share. Knows its fields only.

use serde::Deserialize;

use super::Plugins;
use super::common::ObjectLabels;
use crate::Id;

/// Plugins that routes share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginConfig {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The plugins.
    pub plugins: Plugins,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
}
