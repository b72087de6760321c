//! Kubernetes, with the fields of APISIX: the endpoint slices of one cluster or of several, by list and
//! watch.
//!
//! ```yaml
//! discovery:
//!   kubernetes: {}
//! ```
//!
//! In a pod the empty block suffices: host and port come from `KUBERNETES_SERVICE_HOST` and
//! `KUBERNETES_SERVICE_PORT`, the token from the file of the service account, which is read again for each
//! request, and the authority from the same folder. An upstream names the service as `NAMESPACE/NAME:PORT`,
//! with the name or the number of a port:
//! `{"type": "roundrobin", "discovery_type": "kubernetes", "service_name": "shop/orders:http"}`. A list of
//! clusters puts its `id` in front of each name: `ID/NAMESPACE/NAME:PORT`. A change is in force at once.
//! Addresses get traffic while they are ready; if none is, those that are being stopped and still answer. Of
//! a dual-stack service the family is used that the setting `dns_order` prefers and that has a route. The
//! service account needs the rights list and watch on `endpointslices` (on `endpoints` with
//! `watch_endpoint_slices: false`).
//!
//! Two defaults differ from APISIX: the server's certificate is verified (`client.ssl_verify`, `service.ca`),
//! because the token is sent to it; and EndpointSlices are watched (`watch_endpoint_slices`), because
//! Kubernetes deprecates Endpoints.

mod catalog;
mod config;
mod event;
mod object;
mod watch;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::discovery::ServiceKey;
use serde_json::Value;
use stdx::address_family::AddressChoice;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use self::catalog::KubernetesServicePort;
use self::config::KubernetesCluster;
use self::watch::Watcher;
use super::http::{HttpClient, HttpSettings};
use super::{BuildContext, Registry, RegistryKind, Services};

/// The registry `kubernetes`.
pub(super) const KIND: RegistryKind = RegistryKind {
    name: "kubernetes",
    has_ports_by_scheme: false,
    schema: config::build_kubernetes_schema,
    build,
};

struct Kubernetes {
    clusters: Vec<(KubernetesCluster, HttpClient)>,
    addresses: AddressChoice,
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut clusters = Vec::new();
    for cluster in config::clusters(block, &environment)? {
        let client = HttpClient::new(HttpSettings {
            servers: vec![cluster.base.clone()],
            connect_timeout: CONNECT_TIMEOUT,
            timeout: CALL_TIMEOUT,
            tls: cluster.tls.clone(),
            policy: context.policy.clone(),
            answer_bytes: MAX_ANSWER_BYTES,
        })?;
        clusters.push((cluster, client));
    }
    Ok(Box::new(Kubernetes { clusters, addresses: context.addresses.clone() }))
}

impl Registry for Kubernetes {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let has_clusters = self.clusters.iter().any(|(cluster, _)| cluster.id.is_some());
            let ids: Vec<Box<str>> =
                self.clusters.iter().filter_map(|(cluster, _)| cluster.id.clone()).collect();
            let (sender, receiver) = channel::channel(wanted(&services, &ids, has_clusters));
            let mut tasks = JoinSet::new();
            for (cluster, client) in self.clusters {
                let (services, receiver) = (services.clone(), receiver.clone());
                let watcher = Watcher::new(cluster, client, services, receiver, self.addresses.clone());
                tasks.spawn(watcher.run());
            }
            drop(receiver);
            loop {
                tokio::select! {
                    () = services.wanted_changed() => {
                        if sender.send(wanted(&services, &ids, has_clusters)).is_err() {
                            return;
                        }
                    }
                    ended = tasks.join_next() => match ended {
                        Some(Err(error)) => match error.try_into_panic() {
                            Ok(panic) => std::panic::resume_unwind(panic),
                            Err(_) => return,
                        },
                        _ => return,
                    },
                }
            }
        })
    }
}

/// The followed services with a usable name; the others get the reason.
fn wanted(services: &Services, ids: &[Box<str>], has_clusters: bool) -> Arc<Vec<ServiceKey>> {
    let is_usable = |key: &ServiceKey| match KubernetesServicePort::of(&key.service, has_clusters) {
        Ok(KubernetesServicePort { cluster: Some(id), .. }) if !ids.iter().any(|known| **known == *id) => {
            services
                .failed(Some(key), &format!("no cluster has the id `{id}`; there are {}", ids.join(", ")));
            false
        }
        Ok(_) => true,
        Err(reason) => {
            services.failed(Some(key), &reason);
            false
        }
    };
    Arc::new(services.wanted().into_iter().filter(is_usable).collect())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a page of a list.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of a page, and of a line of a watch: [`watch::PAGE`] objects of at most 100 endpoints.
const MAX_ANSWER_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests;
