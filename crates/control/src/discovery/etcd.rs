//! etcd with one key for each instance: `PREFIX/SERVICE/ID`. A value is `HOST:PORT`, or a JSON object with `host` (or `ip`,
//! `address`) and `port`, with `Addr` as gRPC's naming writes it, or with `endpoints` as Kratos writes them; `weight`,
//! `status`, `enabled` and `metadata` are read too.
//!
//! ```yaml
//! discovery:
//!   etcd:
//!     host: ["http://127.0.0.1:2379"]
//!     prefix: /services
//! ```
//!
//! An upstream names the service: `{"type": "roundrobin", "discovery_type": "etcd", "service_name": "orders"}`. A watch
//! reports each change at once; a key with a lease is gone when its lease ends. The members may be others than those of
//! the configuration (`deployment.etcd`).

mod value;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use model::discovery::ServiceKey;
use serde::Deserialize;
use serde_json::{Value, json};

use super::parts::Collected;
use super::publish::{Found, Pause, is_secure, publish};
use super::{BuildContext, Registry, RegistryKind, Services};
use crate::source::etcd::{EtcdConfig, EtcdTls, PlainReader};

/// See the module.
pub(super) const KIND: RegistryKind = RegistryKind { name: "etcd", schema, build };

struct EtcdRegistry {
    config: EtcdConfig,
    weight: u32,
}

#[derive(Deserialize)]
struct Block {
    host: Vec<String>,
    #[serde(default = "default_prefix")]
    prefix: String,
    #[serde(default = "default_weight")]
    weight: u32,
    #[serde(default = "default_timeout")]
    timeout: u64,
    user: Option<String>,
    password: Option<String>,
    #[serde(default)]
    tls: Tls,
}

#[derive(Default, Deserialize)]
struct Tls {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    sni: Option<String>,
    verify: Option<bool>,
}

fn default_prefix() -> String {
    "/services".to_owned()
}

fn default_weight() -> u32 {
    100
}

fn default_timeout() -> u64 {
    5
}

fn schema() -> Value {
    let file = |description: &str| json!({"description": description, "type": "string", "minLength": 1});
    json!({
        "type": "object",
        "properties": {
            "host": {
                "description": "The members of etcd, all of one scheme.",
                "type": "array", "minItems": 1, "maxItems": 16,
                "items": {"type": "string", "pattern": "^https?://[^/@]+$", "maxLength": 260}
            },
            "prefix": {
                "description": "The beginning of the keys of all services.",
                "type": "string", "pattern": "[^/]", "maxLength": 256, "default": "/services"
            },
            "weight": {
                "description": "The weight of an instance without one.",
                "type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 100
            },
            "timeout": {
                "description": "Seconds for an answer of one member.",
                "type": "integer", "minimum": 1, "maximum": 3600, "default": 5
            },
            "user": {"description": "The user, where etcd asks for one.", "type": "string", "minLength": 1},
            "password": {"description": "The user's password.", "type": "string"},
            "tls": {
                "type": "object",
                "properties": {
                    "ca": file("Certificates that may sign those of the members, PEM; none: the system's."),
                    "cert": file("The client certificate, PEM."),
                    "key": file("Its key, PEM."),
                    "sni": file("The name in the members' certificates, where it is not their host."),
                    "verify": {
                        "description": "Whether the members' certificates are verified.",
                        "type": "boolean", "default": true
                    }
                },
                "additionalProperties": false
            }
        },
        "required": ["host"],
        "dependencies": {"user": ["password"], "password": ["user"]},
        "additionalProperties": false
    })
}

fn build(block: &Value, _: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block: Block = serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let timeout = Duration::from_secs(block.timeout);
    let identity = match (block.tls.cert, block.tls.key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("tls.cert and tls.key belong together".to_owned()),
    };
    let config = EtcdConfig {
        endpoints: block.host,
        prefix: format!("{}/", block.prefix.trim_end_matches('/')),
        user: block.user.zip(block.password),
        tls: EtcdTls {
            ca: block.tls.ca,
            identity,
            server_name: block.tls.sni,
            verify: block.tls.verify.unwrap_or(true),
        },
        timeout,
        start_timeout: timeout,
        max_operations: 1,
    };
    Ok(Box::new(EtcdRegistry { config, weight: block.weight }))
}

impl Registry for EtcdRegistry {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let reader = match PlainReader::new(self.config.clone()) {
                Ok(reader) => reader,
                Err(error) => return services.failed(None, &error.to_string()),
            };
            let mut pause = Pause::default();
            loop {
                let endpoint = reader.endpoint().to_owned();
                let Err(reason) = self.follow(&reader, &services, &mut pause).await;
                services.failed(None, &format!("{endpoint}: {reason}"));
                reader.turn_away();
                pause.wait().await;
            }
        })
    }
}

impl EtcdRegistry {
    /// Reads everything and follows the changes until that fails.
    async fn follow(
        &self,
        reader: &PlainReader,
        services: &Services,
        pause: &mut Pause,
    ) -> Result<Infallible, String> {
        let (entries, revision) = reader.load().await.map_err(|error| error.to_string())?;
        let mut watch = reader.watch(revision).await.map_err(|error| error.to_string())?;
        let mut catalog = Catalog::default();
        for (key, value) in entries {
            catalog.change(self.config.prefix.as_bytes(), &key, Some(value));
        }
        pause.reset();
        let mut wanted = services.wanted();
        wanted.iter().for_each(|key| self.tell(services, &catalog, key));
        loop {
            tokio::select! {
                () = services.wanted_changed() => {
                    wanted = services.wanted();
                    wanted.iter().for_each(|key| self.tell(services, &catalog, key));
                }
                changes = reader.next(&mut watch) => {
                    let changes = changes.map_err(|error| error.to_string())?;
                    let prefix = self.config.prefix.as_bytes();
                    let touched: HashSet<String> =
                        changes.into_iter().filter_map(|(key, value)| catalog.change(prefix, &key, value)).collect();
                    let concerned = wanted.iter().filter(|key| touched.contains(&*key.service));
                    concerned.for_each(|key| self.tell(services, &catalog, key));
                }
            }
        }
    }

    fn tell(&self, services: &Services, catalog: &Catalog, key: &ServiceKey) {
        let found = match catalog.services.get(&*key.service) {
            None => Ok(Found::Unknown),
            Some(values) => {
                let mut collected = Collected::default();
                for value in values.values() {
                    collected.take(value::instance(value, is_secure(key), self.weight));
                }
                collected.finish().map(|(instances, reason)| Found::Instances(instances, reason))
            }
        };
        publish(services, key, found);
    }
}

/// The values by service and by the rest of the key.
#[derive(Debug, Default)]
struct Catalog {
    services: HashMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Catalog {
    /// Takes a key and its value; none: the key is gone. Gives the service. Keys without a service and an id, and keys that
    /// are no text, are ignored.
    fn change(&mut self, prefix: &[u8], key: &[u8], value: Option<Vec<u8>>) -> Option<String> {
        let rest = key.strip_prefix(prefix)?;
        let slash = rest.iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0)?;
        let (service, id) = (std::str::from_utf8(&rest[..slash]).ok()?, rest[slash + 1..].to_vec());
        match value {
            Some(mut value) => {
                // A longer value is no instance; its beginning gives the reason.
                value.truncate(MAX_VALUE_BYTES);
                self.services.entry(service.to_owned()).or_default().insert(id, value);
            }
            None => {
                let values = self.services.get_mut(service)?;
                values.remove(&id);
                if values.is_empty() {
                    self.services.remove(service);
                }
            }
        }
        Some(service.to_owned())
    }
}

/// Limit of a value: an instance with 64 entries of metadata.
const MAX_VALUE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
