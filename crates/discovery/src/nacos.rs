//! Nacos, with the fields of APISIX. Servers of version 1 and 2 are asked by their first HTTP API, servers
//! that have removed it by the API of version 3.
//!
//! ```yaml
//! discovery:
//!   nacos:
//!     host: ["http://nacos:nacos@127.0.0.1:8848"]
//!     fetch_interval: 30
//! ```
//!
//! An upstream names the service, and where it is not in `public` and `DEFAULT_GROUP`, its place:
//! `{"type": "roundrobin", "discovery_type": "nacos", "service_name": "orders", "discovery_args": {"namespace_id": "prod", "group_name": "shop"}}`.
//! User and password of the URL get a token, which is renewed before it expires; `access_key` and
//! `secret_key` sign each call instead. Weights of Nacos are used: one with a fraction turns all weights of
//! its service into hundredths. Instances that are unhealthy or not enabled get no traffic. A new service is
//! asked for at once. Servers of version 2 and later report changes over gRPC (`push`, at the port of HTTP
//! plus `grpc_port_offset`); without that a change is seen after `fetch_interval` seconds.

mod answer;
mod asker;
mod list;
mod payload;
mod push;
mod register;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::outbound::OutboundPolicy;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::answer::NacosRules;
use self::asker::NacosClient;
use self::push::NacosPush;
use super::blocks::{self, RegistryTimeouts};
use super::http::TlsSettings;
use super::limits::RegistryLimits;
use super::poll::{Pushed, poll};
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

pub(super) use register::REGISTRAR;

/// The registry `nacos`.
pub(super) const KIND: RegistryKind =
    RegistryKind { name: "nacos", has_ports_by_scheme: true, schema, build };

struct Nacos {
    asker: Arc<NacosClient>,
    interval: Duration,
    /// The servers for pushes, as `HOST:PORT`; empty: only calls.
    push: Vec<String>,
    /// The addresses that pushes may not come from.
    policy: OutboundPolicy,
}

#[derive(Deserialize)]
struct NacosBlock {
    host: Vec<String>,
    #[serde(default = "blocks::default_fetch_interval_s")]
    fetch_interval: u64,
    #[serde(default = "default_prefix")]
    prefix: String,
    #[serde(default = "blocks::default_instance_weight")]
    weight: u32,
    #[serde(default)]
    timeout: RegistryTimeouts,
    #[serde(default)]
    access_key: String,
    #[serde(default)]
    secret_key: String,
    #[serde(default)]
    tls: TlsSettings,
    push: Option<bool>,
    #[serde(default = "default_offset")]
    grpc_port_offset: u16,
}

fn default_prefix() -> String {
    "/nacos/v1/".to_owned()
}

fn default_offset() -> u16 {
    1000
}

fn schema() -> Value {
    // A list of registries passes the schema, so that `build` refuses it with the reason.
    json!({
        "type": ["object", "array"],
        "properties": {
            "host": blocks::servers_schema(),
            "fetch_interval": blocks::interval_schema(),
            "prefix": {
                "description": "The path of the first HTTP API.",
                "type": "string", "pattern": "^[/a-zA-Z0-9_.-]+$", "maxLength": 100, "default": "/nacos/v1/"
            },
            "weight": blocks::weight_schema(),
            "timeout": RegistryTimeouts::schema(),
            "access_key": {"description": "The key id of signed calls.", "type": "string", "default": ""},
            "secret_key": {"description": "The key that signs calls.", "type": "string", "default": ""},
            "push": {
                "description": "Whether servers of version 2 and later report changes over gRPC; not over https.",
                "type": "boolean", "default": true
            },
            "grpc_port_offset": {
                "description": "The port of gRPC lies so far above the port of HTTP.",
                "type": "integer", "minimum": 0, "maximum": 65_000, "default": 1000
            },
            "tls": TlsSettings::schema(),
            "auto_routes": auto_routes::build_auto_routes_schema()
        },
        "required": ["host"],
        "additionalProperties": false
    })
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    if block.is_array() {
        return Err(UNSUPPORTED_LIST.to_owned());
    }
    let asker = Arc::new(asker_of(block, context)?);
    let block: NacosBlock = serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let servers = block.host.iter().map(|host| blocks::split_user(host).0);
    let push = match block.push {
        Some(false) => Vec::new(),
        _ => servers.filter_map(|server| push::address(&server, block.grpc_port_offset)).collect(),
    };
    let interval = Duration::from_secs(block.fetch_interval);
    Ok(Box::new(Nacos { asker, interval, push, policy: context.policy.clone() }))
}

/// A client of the cluster that the block names.
fn asker_of(block: &Value, context: &BuildContext) -> Result<NacosClient, String> {
    let block = NacosBlock::deserialize(block).map_err(|error| error.to_string())?;
    let (mut servers, mut user) = (Vec::new(), None);
    for host in &block.host {
        let (server, credentials) = blocks::split_user(host);
        servers.push(server);
        user = user.or(credentials);
    }
    let client = block.timeout.client(servers, block.tls, RegistryLimits::default().answer_bytes, context)?;
    let keys =
        Some((block.access_key, block.secret_key)).filter(|(id, key)| !id.is_empty() && !key.is_empty());
    let rules = NacosRules { default_weight: block.weight, is_grpc: false };
    Ok(NacosClient::new(client, &block.prefix, user, keys, rules))
}

impl Registry for Nacos {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Nacos { asker, interval, push, policy } = *self;
            let mut tasks = JoinSet::new();
            let pushed = (!push.is_empty()).then(|| {
                let (wanted, following) = watch::channel(Vec::new());
                let (sender, changed) = mpsc::channel(MAX_CHANGES);
                tasks.spawn(NacosPush::new(push, policy, Arc::clone(&asker), following, sender).run());
                Pushed { wanted, changed }
            });
            tasks.spawn(list::follow_nacos_services(Arc::clone(&asker), services.clone(), interval));
            let polling = poll(services, interval, pushed, move |question| {
                let asker = Arc::clone(&asker);
                async move { asker.ask(&question.key).await }
            });
            tokio::pin!(polling);
            loop {
                tokio::select! {
                    () = &mut polling => return,
                    Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                        // The thread of the registries reports a panic and starts the registry again.
                        if let Err(error) = ended
                            && error.is_panic()
                        {
                            std::panic::resume_unwind(error.into_panic());
                        }
                    }
                }
            }
        })
    }
}

const UNSUPPORTED_LIST: &str = "a list of registries with `id` is not supported: one cluster of Nacos can be followed; write one \
    object with `host`, `weight`, `access_key` and `secret_key` in place of `hosts`, `default_weight` and `auth`";
/// Changes that wait to be asked for; the interval catches those beyond.
const MAX_CHANGES: usize = 1024;

#[cfg(test)]
mod tests;
