//! The policies that narrow the choice of a node, as written. None of them is in APISIX; without them an
//! upstream behaves as there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::common::on;
use crate::number;

/// The policies of an upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectionPolicies {
    /// Percent of the weight of a priority that must be usable; below it all nodes are used. 0: only where
    /// none is.
    pub panic_threshold: u32,
    /// Weights of new nodes that grow.
    pub slow_start: Option<SlowStart>,
    /// When a part of the requests goes to a lower priority; none: when no node of a higher one is left.
    pub overflow: Option<Overflow>,
    /// Preference for nodes in the zone of the instance.
    pub zone_aware: Option<ZoneAware>,
    /// Selection by metadata.
    pub subset: Option<Subset>,
    /// Requests of a session that stay at one node.
    pub sticky: Option<Sticky>,
}

/// The weight of a node that is new or usable again grows over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowStart {
    /// The window; above zero.
    #[serde(deserialize_with = "number::seconds")]
    pub window: Duration,
    /// Percent of the weight at the start.
    #[serde(default = "ten", deserialize_with = "number::deserialize_integer")]
    pub min_weight_percent: u32,
}

/// Part of the requests goes to a lower priority while too little of a priority is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overflow {
    /// Percent of the weight that must be usable for all requests.
    #[serde(default = "seventy", deserialize_with = "number::deserialize_integer")]
    pub percent: u32,
}

/// Nodes in the zone of the instance are preferred.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneAware {
    /// The metadata of a node that names its zone.
    #[serde(default = "zone")]
    pub key: Box<str>,
    /// With fewer usable nodes in the own zone there is no preference.
    #[serde(default = "one", deserialize_with = "number::deserialize_integer")]
    pub min_nodes: u32,
    /// Percent of the own zone's weight that must be usable for all requests.
    #[serde(default = "seventy", deserialize_with = "number::deserialize_integer")]
    pub percent: u32,
}

/// Only nodes with certain metadata are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subset {
    /// The wanted value of each key, a text in which variables of the request may be.
    #[serde(rename = "match")]
    pub wanted: BTreeMap<Box<str>, Box<str>>,
    /// The nodes of requests with values that no node has.
    #[serde(default)]
    pub fallback: SubsetFallback,
    /// The metadata of the nodes of the fallback `default`.
    #[serde(default)]
    pub default: BTreeMap<Box<str>, Box<str>>,
}

/// The nodes of requests with values that no node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubsetFallback {
    /// All.
    #[default]
    Any,
    /// None.
    None,
    /// Those with the metadata of `default`.
    Default,
}

/// Requests with the same value of a cookie are sent to the same node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// The origin of the cookie.
    #[serde(default)]
    pub mode: StickyMode,
    /// Its name.
    pub cookie: Box<str>,
    /// How long it is valid; none: a session of the browser, or an hour for learned ones.
    #[serde(default, deserialize_with = "number::optional_seconds")]
    pub ttl: Option<Duration>,
    /// Its path.
    pub path: Option<Box<str>>,
    /// Its domain; none: the host of the request.
    pub domain: Option<Box<str>>,
    /// Whether it is sent over TLS only.
    #[serde(default)]
    pub secure: bool,
    /// Whether scripts may not read it.
    #[serde(default = "on")]
    pub http_only: bool,
    /// Whether it is sent with requests from other sites.
    pub same_site: Option<SameSite>,
}

/// The origin of the cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickyMode {
    /// The gateway sets it.
    #[default]
    Set,
    /// The application sets it.
    Learn,
}

/// Whether a cookie is sent with requests from other sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum SameSite {
    Strict,
    Lax,
    None,
}

impl SameSite {
    /// As a cookie has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
            SameSite::None => "None",
        }
    }
}

const fn one() -> u32 {
    1
}

const fn ten() -> u32 {
    10
}

const fn seventy() -> u32 {
    70
}

fn zone() -> Box<str> {
    "zone".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_schema() {
        let slow_start: SlowStart = serde_json::from_str(r#"{"window":30}"#).unwrap();
        assert_eq!((slow_start.window.as_secs(), slow_start.min_weight_percent), (30, 10));
        let zone: ZoneAware = serde_json::from_str("{}").unwrap();
        assert_eq!((&*zone.key, zone.min_nodes, zone.percent), ("zone", 1, 70));
        let sticky: Sticky = serde_json::from_str(r#"{"cookie":"a"}"#).unwrap();
        assert_eq!((sticky.mode, sticky.secure, sticky.http_only), (StickyMode::Set, false, true));
        let subset: Subset = serde_json::from_str(r#"{"match":{"a":"b"}}"#).unwrap();
        assert_eq!(subset.fallback, SubsetFallback::Any);
    }
}
