//! The typed form of what users write, one file a kind. Knows fields and defaults; schemas and checks are
//! next door.
//!
//! A value of these types has only passed serde. What `check` accepts is what the data plane may rely on.

mod balance;
mod common;
mod consumer;
mod consumer_group;
mod contract;
mod credential;
mod extension;
mod global_rule;
mod health;
mod node;
mod original_dst;
mod plugin_config;
mod plugin_metadata;
mod plugins;
mod protection;
mod proto;
mod retry;
mod route;
mod secret;
mod selection;
mod service;
mod ssl;
mod stream_route;
mod upstream;

use serde::Deserialize;
use serde_json::Value;

pub use balance::{Balance, BalanceKey, BalanceMethod, HashOn};
pub use common::{ObjectLabels, OneOrMany, PRIORITIES, PRIORITY_LABEL, Timeout};
pub use consumer::Consumer;
pub use consumer_group::ConsumerGroup;
pub use contract::{
    Contract, ContractChecks, ContractMocks, ContractPage, OperationRules, PassedHeaders, UnknownOperations,
};
pub use credential::Credential;
pub use extension::{Canary, Extension};
pub use global_rule::GlobalRule;
pub use health::{ActiveChecks, CheckType, HealthChecks, Healthy, PassiveChecks, Unhealthy};
pub use node::NodeConfig;
pub(crate) use node::split_authority;
pub use original_dst::{OriginalDestination, PortRange};
pub use plugin_config::PluginConfig;
pub use plugin_metadata::PluginMetadata;
pub(crate) use plugin_metadata::own_fields;
pub use plugins::{Plugin, PluginMeta, Plugins};
pub use protection::{
    CircuitBreaker, FailureRate, LatencyOutlier, OutlierEjection, QueueConfig, RequestLimits, ResponseField,
    UpstreamLimits,
};
pub use proto::Proto;
pub use retry::{
    BackoffConfig, DeadlinePolicy, DeadlineUnit, GrpcStatus, HeaderCondition, Hedge, RetryBudget,
    RetryCondition, RetryPolicy,
};
pub use route::{Method, Route, RouteRare};
pub use secret::Secret;
pub use selection::{
    Overflow, SameSite, SelectionPolicies, SlowStart, Sticky, StickyMode, Subset, SubsetFallback, ZoneAware,
};
pub use service::Service;
pub use ssl::{OcspStapling, Ssl, SslClient, SslType};
pub use stream_route::{SendProxyProtocol, SniffedProtocol, StreamProtocol, StreamRoute};
pub use upstream::{
    DiscoveryArgs, HttpVersion, KeepalivePool, PassHost, UpstreamConfig, UpstreamDiscovery, UpstreamScheme,
    UpstreamTls,
};

use crate::ObjectKind;

/// An object of any kind. Large kinds are boxed, so that a route costs its own size only.
#[derive(Clone, Debug)]
pub enum Resource {
    /// A route.
    Route(Route),
    /// A service.
    Service(Box<Service>),
    /// An upstream; shared, because routes and services may also embed one.
    Upstream(std::sync::Arc<UpstreamConfig>),
    /// A consumer.
    Consumer(Box<Consumer>),
    /// A credential.
    Credential(Box<Credential>),
    /// A consumer group.
    ConsumerGroup(Box<ConsumerGroup>),
    /// A plugin config.
    PluginConfig(Box<PluginConfig>),
    /// A global rule.
    GlobalRule(Box<GlobalRule>),
    /// A plugin's metadata.
    PluginMetadata(Box<PluginMetadata>),
    /// A certificate.
    Ssl(Box<Ssl>),
    /// A Protocol Buffers definition.
    Proto(Box<Proto>),
    /// A layer 4 route.
    StreamRoute(Box<StreamRoute>),
    /// A secret manager.
    Secret(Box<Secret>),
    /// A plugin of the user.
    Extension(Box<Extension>),
    /// The document of a service.
    Contract(Box<Contract>),
}

impl Resource {
    /// Reads an object of that kind.
    ///
    /// # Errors
    /// serde's, when a field is unknown, missing or of the wrong type.
    pub fn read(kind: ObjectKind, value: &Value) -> Result<Resource, serde_json::Error> {
        Ok(match kind {
            ObjectKind::Route => Resource::Route(Route::deserialize(value)?),
            ObjectKind::Service => Resource::Service(Box::deserialize(value)?),
            ObjectKind::Upstream => Resource::Upstream(UpstreamConfig::deserialize(value)?.into()),
            ObjectKind::Consumer => Resource::Consumer(Box::deserialize(value)?),
            ObjectKind::Credential => Resource::Credential(Box::deserialize(value)?),
            ObjectKind::ConsumerGroup => Resource::ConsumerGroup(Box::deserialize(value)?),
            ObjectKind::PluginConfig => Resource::PluginConfig(Box::deserialize(value)?),
            ObjectKind::GlobalRule => Resource::GlobalRule(Box::deserialize(value)?),
            ObjectKind::PluginMetadata => Resource::PluginMetadata(Box::deserialize(value)?),
            ObjectKind::Ssl => Resource::Ssl(Box::deserialize(value)?),
            ObjectKind::Proto => Resource::Proto(Box::deserialize(value)?),
            ObjectKind::StreamRoute => Resource::StreamRoute(Box::deserialize(value)?),
            ObjectKind::Secret => Resource::Secret(Box::deserialize(value)?),
            ObjectKind::Extension => Resource::Extension(Box::deserialize(value)?),
            ObjectKind::Contract => Resource::Contract(Box::deserialize(value)?),
        })
    }

    /// The plugins written in it; empty for kinds that have none.
    #[must_use]
    pub fn plugins(&self) -> &Plugins {
        match self {
            Resource::Route(route) => &route.rare().plugins,
            Resource::Service(service) => &service.plugins,
            Resource::Consumer(consumer) => &consumer.plugins,
            Resource::Credential(credential) => &credential.plugins,
            Resource::ConsumerGroup(group) => &group.plugins,
            Resource::PluginConfig(config) => &config.plugins,
            Resource::GlobalRule(rule) => &rule.plugins,
            Resource::StreamRoute(route) => &route.plugins,
            Resource::Contract(contract) => &contract.routes.all_plugins,
            Resource::Upstream(_)
            | Resource::PluginMetadata(_)
            | Resource::Ssl(_)
            | Resource::Proto(_)
            | Resource::Extension(_)
            | Resource::Secret(_) => Plugins::none(),
        }
    }

    /// The upstream written inside it, or the upstream it is.
    #[must_use]
    pub fn upstream(&self) -> Option<&std::sync::Arc<UpstreamConfig>> {
        match self {
            Resource::Route(route) => route.rare().upstream.as_ref(),
            Resource::Service(service) => service.upstream.as_ref(),
            Resource::StreamRoute(route) => route.upstream.as_ref(),
            Resource::Contract(contract) => contract.upstream.as_ref(),
            Resource::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }
}
