//! A credential: one way for a consumer to prove its identity. Knows its fields only.

use serde::Deserialize;

use super::Plugins;
use super::common::ObjectLabels;
use crate::Id;

/// One way for a consumer to prove its identity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
}
