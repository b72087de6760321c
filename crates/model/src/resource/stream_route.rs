//! A layer 4 route. Knows its fields; it is stored and checked, its data plane comes later.

use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::common::Labels;
use super::route::Address;
use super::{Plugins, Upstream};
use crate::{Id, number};

/// Which layer 4 connections go where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRoute {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The client addresses it matches.
    #[serde(default, deserialize_with = "address")]
    pub remote_addr: Option<IpNet>,
    /// The listening addresses it matches.
    #[serde(default, deserialize_with = "address")]
    pub server_addr: Option<IpNet>,
    /// The listening port it matches.
    #[serde(default, deserialize_with = "number::optional_integer")]
    pub server_port: Option<u16>,
    /// The server name of the TLS handshake it matches.
    pub sni: Option<Box<str>>,
    /// An upstream of its own.
    pub upstream: Option<Arc<Upstream>>,
    /// The upstream it forwards to.
    pub upstream_id: Option<Id>,
    /// The service it takes the rest from.
    pub service_id: Option<Id>,
    /// Its plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// The protocol spoken inside.
    pub protocol: Option<Box<StreamProtocol>>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: Labels,
}

/// The protocol spoken inside a layer 4 connection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamProtocol {
    /// The protocol.
    pub name: Box<str>,
    /// The stream route this one is subordinate to.
    pub superior_id: Option<Id>,
    /// The protocol's own configuration.
    pub conf: Option<Value>,
    /// Its loggers.
    pub logger: Option<Value>,
}

fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<IpNet>, D::Error> {
    Address::deserialize(deserializer).map(|address| Some(address.0))
}
