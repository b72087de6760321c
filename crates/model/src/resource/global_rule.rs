//! A global rule: plugins that run on every request. Knows its fields only.

use serde::Deserialize;

use super::Plugins;
use crate::Id;

/// Plugins that run on every request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalRule {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The plugins.
    pub plugins: Plugins,
}
