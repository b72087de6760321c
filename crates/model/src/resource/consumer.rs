//! A consumer: a caller that authentication knows. Knows its fields only.

use serde::Deserialize;

use super::common::ObjectLabels;
use super::{Plugins, RequestLimits};
use crate::Id;

/// A caller that authentication knows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The name, also its id.
    pub username: Box<str>,
    /// The group it belongs to.
    pub group_id: Option<Id>,
    /// The plugins by which it proves its identity, and others that run for it.
    #[serde(default)]
    pub plugins: Plugins,
    /// Its limits. Not in APISIX.
    pub limits: Option<RequestLimits>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
}
