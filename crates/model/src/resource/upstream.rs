//! An upstream: origin servers and how to talk to them. Knows its fields; balancing is the gateway's.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::balance::{Balance, BalanceKey, BalanceMethod, HashOn};
use super::common::{ObjectLabels, Timeout};
use super::node::WrittenNodes;
use super::{
    CircuitBreaker, DeadlinePolicy, HealthChecks, NodeConfig, OriginalDestination, OutlierEjection, Overflow,
    RetryPolicy, SelectionPolicies, SlowStart, Sticky, Subset, UpstreamLimits, ZoneAware,
};
use crate::{Id, number};

/// A set of origin servers and how to choose among them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "UpstreamForm")]
pub struct UpstreamConfig {
    /// How a node is chosen.
    pub balance: Balance,
    /// The origin servers; empty with a `discovery`, and when the user wrote none.
    pub nodes: Box<[NodeConfig]>,
    /// The registry that names the nodes.
    pub discovery: Option<Box<UpstreamDiscovery>>,
    /// The destinations of sessions that go where their clients wanted to go, in place of nodes. Not in
    /// APISIX.
    pub original_dst: Option<Box<OriginalDestination>>,
    /// How many more nodes are tried; none: as many as there are others.
    pub retries: Option<u32>,
    /// When to stop trying; none: never.
    pub retry_timeout: Option<Duration>,
    /// When a failed attempt is retried, in place of `retries`. Not in APISIX.
    pub retry: Option<Box<RetryPolicy>>,
    /// One time limit for all attempts of a request. Not in APISIX.
    pub deadline: Option<Box<DeadlinePolicy>>,
    /// Its timeouts; none: the defaults of the gateway.
    pub timeout: Option<Timeout>,
    /// The protocol spoken to the nodes.
    pub scheme: UpstreamScheme,
    /// The version of HTTP spoken to the nodes, with the schemes http and https.
    pub http_version: HttpVersion,
    /// The host name sent to the nodes.
    pub pass_host: PassHost,
    /// The pool of idle connections; none: the defaults of the gateway.
    pub keepalive_pool: Option<KeepalivePool>,
    /// Health checks.
    pub checks: Option<Box<HealthChecks>>,
    /// Ejection of nodes that fail. Not in APISIX.
    pub outlier_ejection: Option<Box<OutlierEjection>>,
    /// Its circuit breaker. Not in APISIX.
    pub circuit_breaker: Option<Box<CircuitBreaker>>,
    /// Its limits. Not in APISIX.
    pub limits: Option<Box<UpstreamLimits>>,
    /// The policies that narrow the choice of a node; none: those of APISIX.
    pub selection: Option<Box<SelectionPolicies>>,
    /// The client certificate shown to the nodes.
    pub tls: Option<Box<UpstreamTls>>,
    /// Whether sessions of layer 4 come to the nodes from the address of their client. Not in APISIX.
    pub transparent_source: bool,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    pub labels: ObjectLabels,
}

/// The protocol spoken to the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum UpstreamScheme {
    #[default]
    Http,
    Https,
    Grpc,
    Grpcs,
    Tcp,
    Tls,
    Udp,
    Kafka,
}

impl UpstreamScheme {
    /// The scheme as registries are told it; none where the port without TLS is meant.
    const fn of_discovery(self) -> Option<&'static str> {
        match self {
            UpstreamScheme::Https => Some("https"),
            UpstreamScheme::Grpc => Some("grpc"),
            UpstreamScheme::Grpcs => Some("grpcs"),
            UpstreamScheme::Tls => Some("tls"),
            UpstreamScheme::Http | UpstreamScheme::Tcp | UpstreamScheme::Udp | UpstreamScheme::Kafka => None,
        }
    }

    /// The port of a node that names none.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            UpstreamScheme::Https | UpstreamScheme::Grpcs | UpstreamScheme::Tls => 443,
            _ => 80,
        }
    }

    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            UpstreamScheme::Http => "http",
            UpstreamScheme::Https => "https",
            UpstreamScheme::Grpc => "grpc",
            UpstreamScheme::Grpcs => "grpcs",
            UpstreamScheme::Tcp => "tcp",
            UpstreamScheme::Tls => "tls",
            UpstreamScheme::Udp => "udp",
            UpstreamScheme::Kafka => "kafka",
        }
    }
}

/// The version of HTTP spoken to the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2: without TLS by prior knowledge; over TLS if the node selects it by ALPN, otherwise HTTP/1.1.
    #[serde(rename = "2")]
    Http2,
}

/// The host name sent to the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PassHost {
    /// The client's.
    #[default]
    Pass,
    /// The node's.
    Node,
    /// This one.
    Rewrite(Box<str>),
}

/// A pool of idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepalivePool {
    /// How many idle connections it holds.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub size: u32,
    /// How long one may be idle; zero: for ever.
    #[serde(deserialize_with = "number::seconds")]
    pub idle_timeout: Duration,
    /// How many requests one serves before it is closed.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub requests: u32,
}

impl Default for KeepalivePool {
    fn default() -> KeepalivePool {
        KeepalivePool { size: 320, idle_timeout: Duration::from_secs(60), requests: 1000 }
    }
}

/// A service in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamDiscovery {
    /// The service's name there.
    pub service_name: Box<str>,
    /// The registry.
    pub discovery_type: Box<str>,
    /// Where in the registry.
    pub args: DiscoveryArgs,
    /// The upstream's scheme, for registries that have several ports for an instance; none where the port
    /// without TLS is meant.
    pub scheme: Option<&'static str>,
}

/// Where in the registry a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DiscoveryArgs {
    /// A name space.
    pub namespace_id: Option<Box<str>>,
    /// A group.
    pub group_name: Option<Box<str>>,
    /// Arguments that only one kind of registry knows.
    #[serde(flatten, deserialize_with = "texts")]
    pub others: BTreeMap<Box<str>, Box<str>>,
}

/// Arguments of registries as texts, whatever they are written as.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Box<str>, Box<str>>, D::Error> {
    let written = BTreeMap::<Box<str>, Value>::deserialize(deserializer)?;
    let text = |(name, value): (Box<str>, Value)| match value {
        Value::String(text) => (name, text.into()),
        other => (name, other.to_string().into()),
    };
    Ok(written.into_iter().map(text).collect())
}

/// The client certificate shown to the nodes, inline or by the id of a certificate object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTls {
    /// The certificate, PEM.
    pub client_cert: Option<Box<str>>,
    /// Its key, PEM.
    pub client_key: Option<Box<str>>,
    /// The id of a certificate object of type `client`.
    pub client_cert_id: Option<Id>,
    /// Whether the nodes' certificates are verified.
    #[serde(default)]
    pub verify: bool,
    /// The authorities that the nodes' certificates are verified against in place of the process's, PEM. Not
    /// in APISIX.
    pub ca_certs: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PassHostName {
    #[default]
    Pass,
    Node,
    Rewrite,
}

/// The object as written, flat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpstreamForm {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    nodes: Option<WrittenNodes>,
    original_dst: Option<Box<OriginalDestination>>,
    service_name: Option<Box<str>>,
    discovery_type: Option<Box<str>>,
    #[serde(default)]
    discovery_args: DiscoveryArgs,
    #[serde(default, rename = "type")]
    method: BalanceMethod,
    #[serde(default)]
    hash_on: HashOn,
    key: Option<Box<str>>,
    #[serde(default, deserialize_with = "number::optional_integer")]
    retries: Option<u32>,
    #[serde(default, deserialize_with = "number::optional_seconds")]
    retry_timeout: Option<Duration>,
    retry: Option<Box<RetryPolicy>>,
    deadline: Option<Box<DeadlinePolicy>>,
    timeout: Option<Timeout>,
    #[serde(default)]
    scheme: UpstreamScheme,
    #[serde(default)]
    http_version: HttpVersion,
    #[serde(default)]
    pass_host: PassHostName,
    upstream_host: Option<Box<str>>,
    keepalive_pool: Option<KeepalivePool>,
    checks: Option<Box<HealthChecks>>,
    outlier_ejection: Option<Box<OutlierEjection>>,
    circuit_breaker: Option<Box<CircuitBreaker>>,
    limits: Option<Box<UpstreamLimits>>,
    #[serde(default, deserialize_with = "number::deserialize_integer")]
    panic_threshold: u32,
    slow_start: Option<SlowStart>,
    overflow: Option<Overflow>,
    zone_aware: Option<Box<ZoneAware>>,
    subset: Option<Box<Subset>>,
    sticky: Option<Box<Sticky>>,
    tls: Option<Box<UpstreamTls>>,
    #[serde(default)]
    transparent_source: bool,
    name: Option<Box<str>>,
    desc: Option<Box<str>>,
    #[serde(default)]
    labels: ObjectLabels,
}

impl From<UpstreamForm> for UpstreamConfig {
    fn from(form: UpstreamForm) -> UpstreamConfig {
        let uses_key = form.method.uses_key();
        let key = || BalanceKey { on: form.hash_on, name: form.key.unwrap_or_default() };
        let balance = Balance { method: form.method, key: uses_key.then(key) };
        let pass_host = match form.pass_host {
            PassHostName::Pass => PassHost::Pass,
            PassHostName::Node => PassHost::Node,
            PassHostName::Rewrite => PassHost::Rewrite(form.upstream_host.unwrap_or_default()),
        };
        let selection = SelectionPolicies {
            panic_threshold: form.panic_threshold,
            slow_start: form.slow_start,
            overflow: form.overflow,
            zone_aware: form.zone_aware.map(|zone| *zone),
            subset: form.subset.map(|subset| *subset),
            sticky: form.sticky.map(|sticky| *sticky),
        };
        let discovery = form.service_name.zip(form.discovery_type).map(|(service_name, discovery_type)| {
            let (args, scheme) = (form.discovery_args, form.scheme.of_discovery());
            Box::new(UpstreamDiscovery { service_name, discovery_type, args, scheme })
        });
        UpstreamConfig {
            balance,
            nodes: form.nodes.unwrap_or_default().with_port(form.scheme.default_port()),
            discovery,
            original_dst: form.original_dst,
            retries: form.retries,
            retry_timeout: form.retry_timeout.filter(|timeout| !timeout.is_zero()),
            retry: form.retry,
            deadline: form.deadline,
            timeout: form.timeout,
            scheme: form.scheme,
            http_version: form.http_version,
            pass_host,
            keepalive_pool: form.keepalive_pool,
            checks: form.checks,
            outlier_ejection: form.outlier_ejection,
            circuit_breaker: form.circuit_breaker,
            limits: form.limits,
            selection: (selection != SelectionPolicies::default()).then(|| Box::new(selection)),
            tls: form.tls,
            transparent_source: form.transparent_source,
            name: form.name,
            desc: form.desc,
            labels: form.labels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_gives_port_and_defaults_match_contract() {
        let upstream: UpstreamConfig = serde_json::from_str(r#"{"nodes":{"a":1},"scheme":"https"}"#).unwrap();
        assert_eq!(upstream.nodes[0].port, 443);
        assert_eq!(upstream.balance, Balance::default());
        assert_eq!(upstream.pass_host, PassHost::Pass);
        let pool: KeepalivePool = serde_json::from_str("{}").unwrap();
        assert_eq!((pool.size, pool.idle_timeout.as_secs(), pool.requests), (320, 60, 1000));
    }
}
