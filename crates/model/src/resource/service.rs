//! A service: what several routes share. Knows its fields only.

use std::sync::Arc;

use serde::Deserialize;

use super::common::ObjectLabels;
use super::{Plugins, UpstreamConfig};
use crate::Id;

/// The part that several routes share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// Hosts of routes that name none.
    #[serde(default)]
    pub hosts: Box<[Box<str>]>,
    /// Plugins of its routes.
    #[serde(default)]
    pub plugins: Plugins,
    /// An upstream of its own.
    pub upstream: Option<Arc<UpstreamConfig>>,
    /// The upstream its routes forward to.
    pub upstream_id: Option<Id>,
    /// Whether upgrades to WebSocket are let through.
    pub enable_websocket: Option<bool>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
    /// The script of routes that have none.
    pub script: Option<Box<str>>,
}
