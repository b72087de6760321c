//! Consul: the passing instances of each followed service, by its health endpoint with blocking queries.
//!
//! `service_name` is the name in Consul. `discovery_args` may have `datacenter`, `tag` and, in Consul
//! Enterprise, `namespace_id` and `partition`. The weight of an instance is `Weights.Passing` of its
//! registration where that is not 1, otherwise the block's `weight`. Metadata is the registration's `Meta`. A
//! service that is registered without a passing instance has no nodes; a service that is not registered has
//! `default_service`, if there is one.

mod answer;
mod list;
mod register;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use model::discovery::{ServiceInstance, ServiceKey};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::each::each_wanted;
use super::http::{HttpClient, HttpSettings, RegistryRequest, TlsSettings};
use super::limits::{RegistryLimits, WEIGHT_MAX};
use super::parts::encoded;
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

pub(super) use register::REGISTRAR;

pub(super) const KIND: RegistryKind =
    RegistryKind { name: "consul", has_ports_by_scheme: false, schema, build };

fn schema() -> Value {
    let mut schema = common_schema();
    schema["properties"]["auto_routes"] = auto_routes::build_auto_routes_schema();
    schema["properties"]["skip_services"] = json!({
        "type": "array", "minItems": 1, "items": {"type": "string"},
        "description": "Services that are treated as unknown; `consul` always is."
    });
    schema
}

/// The properties that the blocks of Consul's two registries share.
pub(super) fn common_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "servers": {"type": "array", "minItems": 1, "items": {"type": "string"}, "description": "Agents, `http://HOST:PORT`; one is asked at a time, the next when it fails."},
            "token": {"type": "string", "default": "", "description": "The ACL token."},
            "fetch_interval": {"type": "integer", "minimum": 1, "maximum": 86_400, "default": 3, "description": "Seconds between requests without blocking queries, and after a failure."},
            "keepalive": {"type": "boolean", "default": true, "description": "Whether changes are waited for with blocking queries."},
            "weight": {"type": "integer", "minimum": 1, "maximum": WEIGHT_MAX, "default": 1, "description": "The weight of instances that have none."},
            "timeout": {
                "type": "object",
                "properties": {
                    "connect": {"type": "integer", "minimum": 1, "maximum": 600_000, "default": 2000, "description": "Milliseconds to connect."},
                    "read": {"type": "integer", "minimum": 1, "maximum": 600_000, "default": 2000, "description": "Milliseconds for an answer beyond `wait`."},
                    "wait": {"type": "integer", "minimum": 1, "maximum": 600, "default": 60, "description": "Seconds that a blocking query waits for a change."}
                }
            },
            "tls": TlsSettings::schema(),
            "sort_type": {
                "enum": ["origin", "host_sort", "port_sort", "combine_sort"], "default": "origin",
                "description": "Accepted and without effect: instances are always in the order of their hosts and ports, as with `combine_sort`, so that the order of an answer changes nothing."
            },
            "shared_size": {"type": "string", "description": "Accepted and without effect: memory is not reserved."},
            "dump": {"type": "object", "description": "Accepted and without effect: the last good answers are in the data folder."},
            "default_service": {
                "type": "object",
                "description": "The instance of services that Consul does not know.",
                "properties": {
                    "host": {"type": "string"},
                    "port": {"type": "integer", "minimum": 1, "maximum": 65_535},
                    "metadata": {"type": "object"}
                },
                "required": ["host", "port"]
            }
        },
        "required": ["servers"],
        "additionalProperties": false
    })
}

/// The fields that the blocks of Consul's two registries share.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct ConsulBlock {
    servers: Vec<String>,
    token: String,
    fetch_interval: u64,
    keepalive: bool,
    pub(super) weight: u32,
    timeout: ConsulTimeouts,
    tls: TlsSettings,
    skip_services: Vec<String>,
    pub(super) skip_keys: Vec<String>,
    pub(super) prefix: String,
    default_service: Option<DefaultService>,
}

impl Default for ConsulBlock {
    fn default() -> ConsulBlock {
        ConsulBlock {
            servers: Vec::new(),
            token: String::new(),
            fetch_interval: 3,
            keepalive: true,
            weight: 1,
            timeout: ConsulTimeouts::default(),
            tls: TlsSettings::default(),
            skip_services: Vec::new(),
            skip_keys: Vec::new(),
            prefix: "upstreams".to_owned(),
            default_service: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
struct ConsulTimeouts {
    connect: u64,
    read: u64,
    wait: u64,
}

impl Default for ConsulTimeouts {
    fn default() -> ConsulTimeouts {
        ConsulTimeouts { connect: 2000, read: 2000, wait: 60 }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct DefaultService {
    host: Box<str>,
    port: u16,
}

/// An agent, asked with blocking queries.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) block: Arc<ConsulBlock>,
    client: HttpClient,
}

/// The place in the history of one query.
#[derive(Debug, Default)]
pub(super) struct ConsulPosition {
    index: u64,
    failures: u32,
}

impl Agent {
    pub(super) fn new(block: &Value, context: &BuildContext) -> Result<Agent, String> {
        let block = ConsulBlock::deserialize(block).map_err(|error| error.to_string())?;
        let client = HttpClient::new(HttpSettings {
            servers: block.servers.clone(),
            connect_timeout: Duration::from_millis(block.timeout.connect),
            timeout: Duration::from_millis(block.timeout.connect.saturating_add(block.timeout.read)),
            tls: block.tls.clone(),
            policy: context.policy.clone(),
            answer_bytes: RegistryLimits::default().answer_bytes,
        })?;
        Ok(Agent { block: Arc::new(block), client })
    }

    /// Whether the service is treated as unknown.
    fn skips(&self, service: &str) -> bool {
        service == "consul" || self.block.skip_services.iter().any(|skipped| skipped == service)
    }

    /// The call with the token, if there is one.
    fn with_token(&self, call: RegistryRequest) -> RegistryRequest {
        if self.block.token.is_empty() { call } else { call.with(TOKEN, &self.block.token) }
    }

    /// The agents as users write them.
    pub(super) fn servers(&self) -> &[String] {
        &self.block.servers
    }

    /// The instance of services that Consul does not know.
    pub(super) fn default_service(&self) -> Option<ServiceInstance> {
        let default = self.block.default_service.as_ref()?;
        let (host, port) = (default.host.clone(), default.port);
        Some(ServiceInstance { host, port, weight: self.block.weight, ..ServiceInstance::default() })
    }

    /// The body of the next answer for `target`, which has a query already: at once for a new position,
    /// otherwise when something has changed or the wait is over. A body for status 404 is none.
    ///
    /// # Errors
    /// No usable answer; the position begins anew.
    pub(super) async fn next(
        &self,
        target: &str,
        position: &mut ConsulPosition,
        is_blocking: bool,
    ) -> Result<Option<bytes::Bytes>, String> {
        let mut call = self.with_token(RegistryRequest::get(target));
        if is_blocking && self.block.keepalive && position.index > 0 {
            let wait = self.block.timeout.wait;
            call.target = format!("{target}&wait={wait}s&index={}", position.index);
            // Consul adds up to a sixteenth to the wait.
            let wait = Duration::from_secs(wait) + Duration::from_secs(wait) / 16;
            call = call.within(wait + Duration::from_millis(self.block.timeout.read));
        }
        let started = Instant::now();
        let before = std::mem::take(&mut position.index);
        let reply = self.client.call(&call).await?;
        let body = match reply.status {
            404 => None,
            _ => {
                reply.ok()?;
                Some(reply.body.clone())
            }
        };
        let index = reply.field("x-consul-index").and_then(|index| index.parse().ok()).unwrap_or(0);
        // An index that goes back means that the agent's state was restored: the next query does not wait.
        position.index = if index < before { 0 } else { index };
        position.failures = 0;
        if started.elapsed() < QUICK && position.index == before && is_blocking {
            // The agent does not block.
            self.pause().await;
        }
        Ok(body)
    }

    /// Waits before the next query, after an answer.
    pub(super) async fn pause_after_answer(&self, position: &ConsulPosition, is_blocking: bool) {
        match self.block.keepalive && is_blocking && position.index > 0 {
            true => tokio::time::sleep(LEAST_PAUSE).await,
            false => self.pause().await,
        }
    }

    /// Waits before the next query, after a failure: longer each time.
    pub(super) async fn pause_after_failure(&self, position: &mut ConsulPosition) {
        position.failures = position.failures.saturating_add(1);
        let factor = 1u32 << position.failures.min(6).saturating_sub(1);
        let pause = Duration::from_secs(self.block.fetch_interval).saturating_mul(factor);
        tokio::time::sleep(pause.min(FAILURE_PAUSE_MAX.max(Duration::from_secs(self.block.fetch_interval))))
            .await;
    }

    async fn pause(&self) {
        tokio::time::sleep(Duration::from_secs(self.block.fetch_interval)).await;
    }
}

struct Consul {
    agent: Agent,
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    Ok(Box::new(Consul { agent: Agent::new(block, context)? }))
}

impl Registry for Consul {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            services.set_default(self.agent.default_service());
            let watches = Arc::new(Semaphore::new(WATCHES_MAX));
            let following = each_wanted(&services, |key| {
                follow(self.agent.clone(), services.clone(), key, Arc::clone(&watches))
            });
            tokio::join!(following, list::follow_consul_services(&self.agent, &services));
        })
    }
}

async fn follow(agent: Agent, services: Services, key: ServiceKey, watches: Arc<Semaphore>) {
    if agent.skips(&key.service) {
        return services.unknown(&key);
    }
    let target = target("health/service", &key, "passing=1");
    let mut position = ConsulPosition::default();
    // A service without a watch is asked for again and again.
    let watch = watches.try_acquire_owned().ok();
    let is_blocking = watch.is_some();
    loop {
        let answer = match agent.next(&target, &mut position, is_blocking).await {
            Ok(body) => answer::read_consul_instances(body.as_deref().unwrap_or(b"[]"), agent.block.weight),
            Err(reason) => Err(reason),
        };
        let answer = match answer {
            Ok(found) if found.0.is_empty() => {
                is_registered(&agent, &key).await.map(|known| known.then_some(found))
            }
            answer => answer.map(Some),
        };
        match answer {
            Ok(Some((instances, reason))) => services.answer_with(&key, instances, reason),
            Ok(None) => services.unknown(&key),
            Err(reason) => {
                services.failed(Some(&key), &reason);
                position.index = 0;
                agent.pause_after_failure(&mut position).await;
                continue;
            }
        }
        agent.pause_after_answer(&position, is_blocking).await;
    }
}

/// Whether a service without a passing instance is registered at all.
async fn is_registered(agent: &Agent, key: &ServiceKey) -> Result<bool, String> {
    let target = target("catalog/service", key, "stale=1");
    let body = agent.next(&target, &mut ConsulPosition::default(), false).await?;
    answer::has_entries(body.as_deref().unwrap_or(b"[]"))
}

fn target(endpoint: &str, key: &ServiceKey, query: &str) -> String {
    format!("/v1/{endpoint}/{}?{query}{}", encoded(&key.service), parameters(key))
}

/// The parameters of the query that namespace and arguments of a service make.
fn parameters(key: &ServiceKey) -> String {
    let mut text = String::new();
    let args = key.args.iter().map(|(name, value)| (&**name, &**value));
    for (name, value) in args.chain([("namespace_id", &*key.namespace)]) {
        let parameter = match name {
            "datacenter" | "dc" => "dc",
            "tag" => "tag",
            "partition" => "partition",
            "namespace_id" if !value.is_empty() => "ns",
            _ => continue,
        };
        text.push_str(&format!("&{parameter}={}", encoded(value)));
    }
    text
}

const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");
/// Blocking queries at the same time, each on a connection of its own; Consul's own default limit is 200
/// connections for each client address. Services beyond are asked for every `fetch_interval`.
const WATCHES_MAX: usize = 150;
/// A blocking query that returns earlier without a change did not block.
const QUICK: Duration = Duration::from_millis(100);
/// Shortest pause between two blocking queries, so that a service that changes all the time does not fill the
/// agent's log.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause after failures.
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
