//! A Protocol Buffers definition. Knows its fields, not the language.

use serde::Deserialize;

use super::common::ObjectLabels;
use crate::Id;

/// A Protocol Buffers definition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proto {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The `.proto` text, or a base64 descriptor set.
    pub content: Box<str>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
}
