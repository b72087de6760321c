//! Services in registries, as control finds them and the gateway follows them: the key of a service, its
//! instances, and the trait between both sides. Knows no registry and no node set.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resource::UpstreamDiscovery;

/// The argument that holds the upstream's scheme.
pub const SCHEME_ARGUMENT: &str = "scheme";

/// The name of a service in one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The kind of the registry, as `discovery_type` says it.
    pub registry: Box<str>,
    /// The service's name, as `service_name` says it.
    pub service: Box<str>,
    /// The namespace; empty for the registry's default.
    pub namespace: Box<str>,
    /// The group; empty for the registry's default.
    pub group: Box<str>,
    /// Arguments that only this kind of registry knows.
    pub args: BTreeMap<Box<str>, Box<str>>,
}

impl ServiceKey {
    /// The key of a service without namespace, group and further arguments.
    #[must_use]
    pub fn new(registry: &str, service: &str) -> ServiceKey {
        ServiceKey { registry: registry.into(), service: service.into(), ..ServiceKey::default() }
    }

    /// The key of the service that an upstream names. With `has_ports_by_scheme` the registry has several
    /// ports for an instance: the upstream's scheme becomes an argument and replaces a user's one of that
    /// name.
    #[must_use]
    pub fn of_upstream(written: &UpstreamDiscovery, has_ports_by_scheme: bool) -> ServiceKey {
        let mut args = written.args.others.clone();
        if let Some(scheme) = written.scheme.filter(|_| has_ports_by_scheme) {
            args.insert(SCHEME_ARGUMENT.into(), scheme.into());
        }
        ServiceKey {
            registry: written.discovery_type.clone(),
            service: written.service_name.clone(),
            namespace: written.args.namespace_id.clone().unwrap_or_default(),
            group: written.args.group_name.clone().unwrap_or_default(),
            args,
        }
    }
}

/// An instance of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceInstance {
    /// A name or an address; an IPv6 address without brackets.
    pub host: Box<str>,
    /// The port; 0 where the registry names none, which stands for the default port of the upstream's scheme.
    pub port: u16,
    /// The share of requests; 0: none.
    pub weight: u32,
    /// Instances of a lower priority serve when no instance of a higher one is usable.
    pub priority: i32,
    /// Marks that the registry has for the instance.
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

/// The instances of a service at one moment.
#[derive(Clone, Debug, Default)]
pub struct ServiceNodes {
    /// The last good answer; empty before the first.
    pub instances: Arc<[ServiceInstance]>,
    /// Why there are no instances, or fewer than the registry has; a sentence for the log.
    pub note: Option<Arc<str>>,
    /// Whether the registry was not heard yet, neither with an answer nor with a failure.
    pub is_pending: bool,
}

/// Called with the instances of a service, and again after each change.
pub type OnChange = Box<dyn Fn(&ServiceNodes) + Send + Sync>;

/// The registries, by which upstreams get their nodes.
pub trait ServiceDirectory: Send + Sync {
    /// Whether registries of this kind have several ports for an instance, so that the upstream's scheme
    /// chooses one.
    fn has_ports_by_scheme(&self, registry: &str) -> bool;

    /// Calls `on_change` at once with the last good answer or the reason that there is none, and after each
    /// change on the thread of the registries, as long as the returned value lives. `on_change` must not call
    /// the directory.
    fn follow(&self, key: &ServiceKey, on_change: OnChange) -> Box<dyn Any + Send + Sync>;

    /// Waits until each followed service has an answer or a failure, up to a limit.
    fn settle(&self);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::UpstreamConfig;

    #[test]
    fn registry_with_several_ports_gets_the_scheme() {
        let args = |has_ports_by_scheme: bool, scheme: &str| {
            let text = format!(
                r#"{{"service_name":"a","discovery_type":"eureka","scheme":"{scheme}",
                    "discovery_args":{{"metadata":{{"zone":"b"}}}}}}"#
            );
            let upstream: UpstreamConfig = serde_json::from_str(&text).unwrap();
            ServiceKey::of_upstream(&upstream.discovery.unwrap(), has_ports_by_scheme).args
        };
        assert_eq!(args(true, "https").get("scheme").map(|scheme| &**scheme), Some("https"));
        assert_eq!(args(true, "https").get("metadata").map(|text| &**text), Some(r#"{"zone":"b"}"#));
        assert!(!args(true, "http").contains_key("scheme"));
        assert!(!args(false, "https").contains_key("scheme"));
    }
}
