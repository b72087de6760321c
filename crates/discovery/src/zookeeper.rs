//! ZooKeeper, in the layout of Curator's service discovery, which Spring Cloud ZooKeeper writes: the node
//! `PREFIX/SERVICE/ID` holds a JSON object with `address`, `port`, `sslPort` and `payload.metadata`.
//!
//! ```yaml
//! discovery:
//!   zookeeper:
//!     host: [127.0.0.1:2181]
//!     prefix: /services
//! ```
//!
//! An upstream names the service:
//! `{"type": "roundrobin", "discovery_type": "zookeeper", "service_name": "orders"}`. Watches report each
//! change at once. An instance with the metadata `instance_status` other than `UP` gets no traffic; the
//! metadata `weight` is its weight. Servers are asked one at a time, over TLS where the block has `tls`.

mod node;
mod session;
mod tree;
mod wire;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use model::discovery::ServiceKey;
use model::outbound::OutboundPolicy;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::session::{ZooKeeperSession, ZooKeeperSessionOptions};
use self::tree::{KnownService, ServiceTree};
use self::wire::ZooKeeperFrame;
use super::http::TlsSettings;
use super::limits::WEIGHT_MAX;
use super::parts::{Collected, shortened};
use super::publish::{RegistryBackoff, ServiceLookup, is_secure, publish};
use super::{BuildContext, Registry, RegistryKind, Services};

/// The registry `zookeeper`.
pub(super) const KIND: RegistryKind =
    RegistryKind { name: "zookeeper", has_ports_by_scheme: true, schema, build };

struct ZooKeeper {
    config: ZooKeeperBlock,
    servers: Vec<ZooKeeperServer>,
    policy: OutboundPolicy,
}

/// A server.
struct ZooKeeperServer {
    /// As the settings name it.
    name: String,
    /// A name or an address, without brackets.
    host: String,
    port: u16,
}

impl ZooKeeperServer {
    fn parse(written: &str) -> Result<ZooKeeperServer, String> {
        let fault = || format!("the server `{}` has no port from 1 to 65535", shortened(written));
        let (host, port) = written.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(fault)?;
        Ok(ZooKeeperServer { name: written.to_owned(), host: host.trim_matches(['[', ']']).to_owned(), port })
    }
}

#[derive(Deserialize)]
struct ZooKeeperBlock {
    host: Vec<String>,
    #[serde(default = "default_prefix")]
    prefix: String,
    #[serde(default = "default_weight")]
    weight: u32,
    #[serde(default)]
    timeout: Timeout,
    auth: Option<Auth>,
    tls: Option<TlsSettings>,
}

#[derive(Deserialize)]
#[serde(default)]
struct Timeout {
    connect: u64,
    session: u64,
}

impl Default for Timeout {
    fn default() -> Timeout {
        Timeout { connect: 2000, session: 10_000 }
    }
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default = "default_scheme")]
    scheme: String,
    user: String,
    password: String,
}

fn default_prefix() -> String {
    "/services".to_owned()
}

fn default_weight() -> u32 {
    100
}

fn default_scheme() -> String {
    "digest".to_owned()
}

fn schema() -> Value {
    let mut tls = TlsSettings::schema();
    tls["description"] =
        json!("TLS to the servers, at their port for it; without this, plain TCP. An empty map is enough.");
    json!({
        "type": "object",
        "properties": {
            "host": {
                "description": "The servers, as HOST:PORT.",
                "type": "array", "minItems": 1, "maxItems": 16,
                "items": {"type": "string", "pattern": "^[^ /@]+:[0-9]{1,5}$", "maxLength": 260}
            },
            "prefix": {
                "description": "The node above those of the services.",
                "type": "string", "pattern": "^/[^ ]*[^/ ]$", "maxLength": 256, "default": "/services"
            },
            "weight": {
                "description": "The weight of an instance without one.",
                "type": "integer", "minimum": 0, "maximum": WEIGHT_MAX, "default": 100
            },
            "timeout": {
                "type": "object",
                "properties": {
                    "connect": {
                        "description": "Milliseconds for the connection and its session.",
                        "type": "integer", "minimum": 1, "default": 2000
                    },
                    "session": {
                        "description": "Milliseconds of a session's timeout; the server is lost after two thirds of it.",
                        "type": "integer", "minimum": 1000, "maximum": 600_000, "default": 10_000
                    }
                },
                "additionalProperties": false
            },
            "auth": {
                "description": "Credentials that the servers ask for.",
                "type": "object",
                "properties": {
                    "scheme": {"type": "string", "minLength": 1, "default": "digest"},
                    "user": {"type": "string", "minLength": 1},
                    "password": {"type": "string", "minLength": 1}
                },
                "required": ["user", "password"],
                "additionalProperties": false
            },
            "tls": tls
        },
        "required": ["host"],
        "additionalProperties": false
    })
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let config: ZooKeeperBlock = serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let servers =
        config.host.iter().map(|server| ZooKeeperServer::parse(server)).collect::<Result<_, _>>()?;
    Ok(Box::new(ZooKeeper { config, servers, policy: context.policy.clone() }))
}

impl Registry for ZooKeeper {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut pause = RegistryBackoff::default();
            for server in self.servers.iter().cycle() {
                let started = std::time::Instant::now();
                let reason = self.session(server, &services).await;
                services.failed(None, &format!("{}: {reason}", server.name));
                pause.reset_after(started);
                pause.wait().await;
            }
        })
    }
}

impl ZooKeeper {
    /// Follows services over one session until it ends, for the returned reason.
    async fn session(&self, server: &ZooKeeperServer, services: &Services) -> String {
        let config = &self.config;
        let credentials = config
            .auth
            .as_ref()
            .map(|auth| (auth.scheme.clone(), format!("{}:{}", auth.user, auth.password)));
        let opening = ZooKeeperSessionOptions {
            policy: &self.policy,
            tls: config.tls.as_ref(),
            credentials: credentials.as_ref(),
            connect_timeout: Duration::from_millis(config.timeout.connect),
            session_timeout: Duration::from_millis(config.timeout.session),
        };
        match ZooKeeperSession::open(server, &opening).await {
            Ok(session) => {
                let Err(reason) = config.follow(session, services).await;
                reason
            }
            Err(reason) => reason,
        }
    }
}

impl ZooKeeperBlock {
    async fn follow(&self, mut session: ZooKeeperSession, services: &Services) -> Result<Infallible, String> {
        let mut tree = ServiceTree::default();
        let mut keys = self.wanted(services, &mut tree);
        let mut refused_pause = RegistryBackoff::default();
        let mut ask_again_at = None;
        loop {
            match tree.has_refused() {
                true => drop(ask_again_at.get_or_insert_with(|| Instant::now() + refused_pause.next())),
                false => {
                    ask_again_at = None;
                    // A list alone is no success, because its nodes may be refused.
                    if tree.is_idle() {
                        refused_pause.reset();
                    }
                }
            }
            while let Some((xid, request)) = tree.next_request() {
                session.send(xid, &request).await?;
            }
            let frame = tokio::select! {
                () = services.wanted_changed() => {
                    keys = self.wanted(services, &mut tree);
                    continue;
                }
                () = tokio::time::sleep_until(ask_again_at.unwrap_or_else(Instant::now)), if ask_again_at.is_some() => {
                    ask_again_at = None;
                    tree.ask_refused_again();
                    continue;
                }
                frame = session.next() => frame?,
            };
            match frame {
                None => session.ping().await?,
                Some(ZooKeeperFrame::Reply { xid, code, body }) => {
                    if let Some(known) = tree.reply(xid, code, &body)? {
                        self.tell(services, &keys, known);
                    }
                }
                Some(ZooKeeperFrame::Event { path }) => tree.event(&path),
                Some(ZooKeeperFrame::Lost(reason)) => return Err(reason),
                Some(ZooKeeperFrame::Other) => {}
            }
        }
    }

    /// Follows the wanted services, and gives their keys by path.
    fn wanted(&self, services: &Services, tree: &mut ServiceTree) -> BTreeMap<String, Vec<ServiceKey>> {
        let mut keys: BTreeMap<String, Vec<ServiceKey>> = BTreeMap::new();
        for key in services.wanted() {
            match self.path(&key.service) {
                Ok(path) => keys.entry(path).or_default().push(key),
                Err(reason) => services.failed(Some(&key), &reason),
            }
        }
        let paths: Vec<String> = keys.keys().cloned().collect();
        tree.follow(&paths);
        // A further key of a service that is known already gets its answer now.
        for known in paths.into_iter().filter_map(|path| tree.known(path)) {
            self.tell(services, &keys, known);
        }
        keys
    }

    fn path(&self, service: &str) -> Result<String, String> {
        let is_segment = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
        match service.split('/').all(is_segment) {
            true => Ok(format!("{}/{service}", self.prefix)),
            false => Err(format!("the service name `{}` is no path of nodes", shortened(service))),
        }
    }

    fn tell(&self, services: &Services, keys: &BTreeMap<String, Vec<ServiceKey>>, known: KnownService) {
        for key in keys.get(&known.path).into_iter().flatten() {
            let found = match &known.nodes {
                Ok(Some(nodes)) => {
                    let mut collected = Collected::default();
                    for data in nodes {
                        collected.take(node::read_zookeeper_instance(data, is_secure(key), self.weight));
                    }
                    collected.finish().map(|(instances, reason)| ServiceLookup::Instances(instances, reason))
                }
                Ok(None) => Ok(ServiceLookup::Unknown),
                Err(reason) => Err(reason.clone()),
            };
            publish(services, key, found);
        }
    }
}

#[cfg(test)]
mod tests;
