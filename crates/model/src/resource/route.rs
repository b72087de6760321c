//! A route: which requests go where. Knows its fields; matching is the router's.
//!
//! There may be 100,000 of them, so what most routes have is inline and the rest is in one box.

use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::common::{ObjectLabels, OneOrMany, Timeout, on, status};
use super::{Plugins, RequestLimits, UpstreamConfig};
use crate::{Id, number};

/// A route.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "RouteForm")]
pub struct Route {
    /// The paths it matches (`uri` or `uris`).
    pub uris: OneOrMany<Box<str>>,
    /// The upstream it forwards to.
    pub upstream_id: Option<Id>,
    /// The service it takes the rest from.
    pub service_id: Option<Id>,
    /// The plugins it shares.
    pub plugin_config_id: Option<Id>,
    rare: Option<Box<RouteRare>>,
}

impl Route {
    /// The fields that most routes leave out, with their defaults.
    #[must_use]
    pub fn rare(&self) -> &RouteRare {
        static DEFAULT: LazyLock<RouteRare> = LazyLock::new(RouteRare::default);
        self.rare.as_deref().unwrap_or(&DEFAULT)
    }

    /// A route that a contract is made of.
    pub(crate) fn of_contract(
        uris: OneOrMany<Box<str>>,
        upstream_id: Option<Id>,
        service_id: Option<Id>,
        rare: RouteRare,
    ) -> Route {
        Route { uris, upstream_id, service_id, plugin_config_id: None, rare: Some(Box::new(rare)) }
    }
}

/// Fields that most routes do not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteRare {
    /// The hosts it matches (`host` or `hosts`); empty: its service's, else any.
    pub hosts: Box<[Box<str>]>,
    /// The methods it matches; empty: any.
    pub methods: Box<[Method]>,
    /// The client addresses it matches; empty: any.
    pub remote_addrs: Box<[IpNet]>,
    /// An expression over variables that must hold.
    pub vars: Option<Value>,
    /// A function in Lua that must return true (`filter_func`).
    pub condition: Option<Box<str>>,
    /// A script in Lua in place of plugins.
    pub script: Option<Box<str>>,
    /// Higher goes first among routes of the same path.
    pub priority: i64,
    /// Its place among the routes of its contract, where paths are templates (`/pets/{id}`); none: a route
    /// that a user wrote.
    pub template_order: Option<u32>,
    /// Whether it is off and matches nothing.
    pub is_disabled: bool,
    /// Its timeouts, over those of the upstream.
    pub timeout: Option<Timeout>,
    /// Whether upgrades to WebSocket are let through; none: as the service says.
    pub enable_websocket: Option<bool>,
    /// Its limits. Not in APISIX.
    pub limits: Option<RequestLimits>,
    /// Its plugins.
    pub plugins: Plugins,
    /// An upstream of its own.
    pub upstream: Option<Arc<UpstreamConfig>>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    pub labels: ObjectLabels,
}

/// A request method that a route can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
    Patch,
    Head,
    Options,
    Connect,
    Trace,
    Purge,
}

impl Method {
    /// As on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Patch => "PATCH",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Connect => "CONNECT",
            Method::Trace => "TRACE",
            Method::Purge => "PURGE",
        }
    }
}

/// The object as written, flat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteForm {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    uri: Option<Box<str>>,
    uris: Option<Vec<Box<str>>>,
    upstream_id: Option<Id>,
    service_id: Option<Id>,
    plugin_config_id: Option<Id>,
    host: Option<Box<str>>,
    hosts: Option<Vec<Box<str>>>,
    #[serde(default)]
    methods: Box<[Method]>,
    remote_addr: Option<AddressOrNetwork>,
    remote_addrs: Option<Vec<AddressOrNetwork>>,
    vars: Option<Value>,
    #[serde(default, deserialize_with = "number::deserialize_integer")]
    priority: i64,
    #[serde(default = "on", deserialize_with = "status")]
    status: bool,
    timeout: Option<Timeout>,
    enable_websocket: Option<bool>,
    limits: Option<RequestLimits>,
    #[serde(default)]
    plugins: Plugins,
    upstream: Option<UpstreamConfig>,
    name: Option<Box<str>>,
    desc: Option<Box<str>>,
    #[serde(default)]
    labels: ObjectLabels,
    filter_func: Option<Box<str>>,
    script: Option<Box<str>>,
    #[serde(rename = "script_id")]
    _script_id: Option<Id>,
}

impl From<RouteForm> for Route {
    fn from(form: RouteForm) -> Route {
        let addresses = OneOrMany::of(form.remote_addr, form.remote_addrs);
        let hosts = OneOrMany::of(form.host, form.hosts);
        let rare = RouteRare {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase().into()).collect(),
            methods: form.methods,
            remote_addrs: addresses.iter().map(|address| address.0).collect(),
            vars: form.vars,
            condition: form.filter_func,
            script: form.script,
            priority: form.priority,
            template_order: None,
            is_disabled: !form.status,
            timeout: form.timeout,
            enable_websocket: form.enable_websocket,
            limits: form.limits,
            plugins: form.plugins,
            upstream: form.upstream.map(Arc::new),
            name: form.name,
            desc: form.desc,
            labels: form.labels,
        };
        let rare = (rare != RouteRare::default()).then(|| Box::new(rare));
        Route {
            uris: OneOrMany::of(form.uri, form.uris),
            upstream_id: form.upstream_id,
            service_id: form.service_id,
            plugin_config_id: form.plugin_config_id,
            rare,
        }
    }
}

/// An address or a network, as written: `10.0.0.1`, `10.0.0.0/8`, `::1`, `fd00::/8`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressOrNetwork(pub(crate) IpNet);

impl<'de> Deserialize<'de> for AddressOrNetwork {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AddressOrNetwork, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let network = router::cidr::network(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is neither an IP address nor a network (ADDRESS/BITS)"
            ))
        })?;
        Ok(AddressOrNetwork(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the 1.5 KB a route that its typed form may take inline.
    const ROUTE_BYTES_MAX: usize = 88;

    #[test]
    fn a_plain_route_is_small() {
        assert!(size_of::<Route>() <= ROUTE_BYTES_MAX, "{}", size_of::<Route>());
        let route: Route =
            serde_json::from_str(r#"{"id":"1","uri":"/a","upstream_id":1,"create_time":1}"#).unwrap();
        assert!(route.rare.is_none());
        assert_eq!(route.upstream_id.as_deref(), Some("1"));
    }

    #[test]
    fn hosts_are_lower_case_and_addresses_networks() {
        let route: Route =
            serde_json::from_str(r#"{"uri":"/a","host":"*.FOO.com","remote_addrs":["::1","10.0.0.0/8"]}"#)
                .unwrap();
        assert_eq!(&*route.rare().hosts[0], "*.foo.com");
        assert_eq!(route.rare().remote_addrs.len(), 2);
    }
}
