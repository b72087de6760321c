//! A plugin of the user. Knows its fields, not the language.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::common::ObjectLabels;
use crate::Id;
use crate::extension::LoadedExtension;

/// A plugin of the user, with its versions. The contents stay in the written text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
    /// The language of its versions.
    pub language: Box<str>,
    #[serde(rename = "content")]
    _content: Option<IgnoredAny>,
    #[serde(rename = "versions", default)]
    _versions: Vec<ExtensionVersion>,
    /// The version that serves; none: the last one.
    pub active: Option<Box<str>>,
    /// The version that served before, for a rollback.
    pub previous: Option<Box<str>>,
    /// The version that serves a share of the requests.
    pub canary: Option<Canary>,
    /// Whether the plugin can be used.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The versions that can serve, loaded by the check; none while it is switched off.
    #[serde(skip)]
    pub loaded: Option<LoadedExtension>,
}

/// A version as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtensionVersion {
    #[serde(rename = "version")]
    _version: Option<Box<str>>,
    #[serde(rename = "content")]
    _content: IgnoredAny,
    #[serde(rename = "desc")]
    _desc: Option<Box<str>>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "author")]
    _author: Option<Box<str>>,
}

/// A version on trial: it serves the requests that pass `vars`, and of these `percent`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// The version.
    pub version: Box<str>,
    /// The share of the requests, in percent.
    pub percent: Option<f64>,
    /// An expression over the request.
    pub vars: Option<Value>,
}

fn yes() -> bool {
    true
}
