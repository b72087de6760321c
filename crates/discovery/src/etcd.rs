//! etcd with one key for each instance: `PREFIX/SERVICE/ID`. A value is `HOST:PORT`, or a JSON object with
//! `host` (or `ip`, `address`) and `port`, with `Addr` as gRPC's naming writes it, or with `endpoints` as
//! Kratos writes them; `weight`, `status`, `enabled` and `metadata` are read too.
//!
//! ```yaml
//! discovery:
//!   etcd:
//!     host: ["http://127.0.0.1:2379"]
//!     prefix: /services
//! ```
//!
//! An upstream names the service:
//! `{"type": "roundrobin", "discovery_type": "etcd", "service_name": "orders"}`. A watch reports each change
//! at once; a key with a lease is gone when its lease ends. The members may be others than those of the
//! configuration (`deployment.etcd`).

mod value;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::{Duration, Instant};

use model::discovery::ServiceKey;
use outbound::etcd::plain::{MAX_KEYS, PlainReader, too_many_keys};
use outbound::etcd::{EtcdConfig, EtcdTls};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::TlsSettings;
use super::limits::WEIGHT_MAX;
use super::parts::{Collected, MAX_VALUE_BYTES};
use super::publish::{RegistryBackoff, ServiceLookup, is_secure, publish};
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

/// The registry `etcd`.
pub(super) const KIND: RegistryKind = RegistryKind { name: "etcd", has_ports_by_scheme: true, schema, build };

struct EtcdRegistry {
    config: EtcdConfig,
    weight: u32,
}

#[derive(Deserialize)]
struct EtcdRegistryBlock {
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
    #[serde(flatten)]
    common: TlsSettings,
    sni: Option<String>,
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
    let mut tls = TlsSettings::schema();
    tls["properties"]["sni"] = json!({
        "description": "The name in the members' certificates, where it is not their host.",
        "type": "string", "minLength": 1
    });
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
                "type": "integer", "minimum": 0, "maximum": WEIGHT_MAX, "default": 100
            },
            "timeout": {
                "description": "Seconds for an answer of one member.",
                "type": "integer", "minimum": 1, "maximum": 3600, "default": 5
            },
            "user": {"description": "The user, where etcd asks for one.", "type": "string", "minLength": 1},
            "password": {"description": "The user's password.", "type": "string"},
            "tls": tls,
            "auto_routes": auto_routes::build_auto_routes_schema()
        },
        "required": ["host"],
        "dependencies": {"user": ["password"], "password": ["user"]},
        "additionalProperties": false
    })
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block: EtcdRegistryBlock =
        serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let weight = block.weight;
    Ok(Box::new(EtcdRegistry { config: config(block, context), weight }))
}

fn config(block: EtcdRegistryBlock, context: &BuildContext) -> EtcdConfig {
    let timeout = Duration::from_secs(block.timeout);
    let Tls { common: tls, sni } = block.tls;
    EtcdConfig {
        endpoints: block.host,
        prefix: format!("{}/", block.prefix.trim_end_matches('/')),
        user: block.user.zip(block.password),
        tls: EtcdTls {
            ca: tls.ca,
            // The schema lets neither stand without the other.
            identity: tls.cert.zip(tls.key),
            server_name: sni,
            verify: tls.verify,
        },
        policy: Some(context.policy.clone()),
        timeout,
        start_timeout: timeout,
        max_operations: 1,
    }
}

impl Registry for EtcdRegistry {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut config = self.config.clone();
            let mut pause = RegistryBackoff::default();
            loop {
                let started = Instant::now();
                // A new reader for each attempt, so that a renewed certificate is used.
                match PlainReader::new(config.clone()) {
                    Ok(reader) => {
                        let Err(reason) = self.follow(&reader, &services).await;
                        let endpoint = reader.endpoint();
                        services.list_failed(&format!("{endpoint}: {reason}"));
                        services.failed(None, &format!("{endpoint}: {reason}"));
                        // The next attempt begins with the member after the one that failed.
                        let failed = config.endpoints.iter().position(|member| member == endpoint);
                        let members = config.endpoints.len();
                        config.endpoints.rotate_left(failed.map_or(0, |failed| (failed + 1) % members));
                    }
                    Err(error) => {
                        services.list_failed(&error.to_string());
                        services.failed(None, &error.to_string());
                    }
                }
                pause.reset_after(started);
                pause.wait().await;
            }
        })
    }
}

impl EtcdRegistry {
    /// Reads everything and follows the changes until that fails.
    async fn follow(&self, reader: &PlainReader, services: &Services) -> Result<Infallible, String> {
        let prefix = self.config.prefix.as_bytes();
        let mut catalog = EtcdCatalog::default();
        let loaded = reader.load(|key, value| drop(catalog.change(prefix, &key, Some(value)))).await;
        let revision = loaded.map_err(|error| error.to_string())?;
        let mut watch = reader.watch(revision).await.map_err(|error| error.to_string())?;
        let mut wanted = services.wanted();
        catalog.list(services);
        wanted.iter().for_each(|key| self.tell(services, &catalog, key));
        loop {
            tokio::select! {
                () = services.wanted_changed() => {
                    wanted = services.wanted();
                    wanted.iter().for_each(|key| self.tell(services, &catalog, key));
                }
                changes = reader.next(&mut watch) => {
                    let changes = changes.map_err(|error| error.to_string())?;
                    let touched: HashSet<String> =
                        changes.into_iter().filter_map(|(key, value)| catalog.change(prefix, &key, value)).collect();
                    catalog.check()?;
                    catalog.list(services);
                    let concerned = wanted.iter().filter(|key| touched.contains(&*key.service));
                    concerned.for_each(|key| self.tell(services, &catalog, key));
                }
            }
        }
    }

    fn tell(&self, services: &Services, catalog: &EtcdCatalog, key: &ServiceKey) {
        let found = match catalog.services.get(&*key.service) {
            None => Ok(ServiceLookup::Unknown),
            Some(values) => {
                let mut collected = Collected::default();
                for value in values.values() {
                    collected.take(value::read_etcd_instance(value, is_secure(key), self.weight));
                }
                collected.finish().map(|(instances, reason)| ServiceLookup::Instances(instances, reason))
            }
        };
        publish(services, key, found);
    }
}

/// The values by service and by the rest of the key.
#[derive(Debug, Default)]
struct EtcdCatalog {
    services: HashMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The number of values.
    count: usize,
}

impl EtcdCatalog {
    /// Takes a key and its value; none: the key is gone. Gives the service. Keys without a service and an id,
    /// and keys that are no text, are ignored.
    fn change(&mut self, prefix: &[u8], key: &[u8], value: Option<Vec<u8>>) -> Option<String> {
        let rest = key.strip_prefix(prefix)?;
        let slash = rest.iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0)?;
        let (service, id) = (std::str::from_utf8(&rest[..slash]).ok()?, rest[slash + 1..].to_vec());
        match value {
            Some(mut value) => {
                // A longer value is no instance; its beginning gives the reason.
                value.truncate(MAX_VALUE_BYTES);
                let values = self.services.entry(service.to_owned()).or_default();
                self.count += usize::from(values.insert(id, value).is_none());
            }
            None => {
                let values = self.services.get_mut(service)?;
                self.count -= usize::from(values.remove(&id).is_some());
                if values.is_empty() {
                    self.services.remove(service);
                }
            }
        }
        Some(service.to_owned())
    }

    /// Passes the names of all services on, where routes are made of them.
    fn list(&self, services: &Services) {
        if services.list_of().is_some() {
            services.listed(self.services.keys().map(|name| name.as_str().into()).collect());
        }
    }

    /// # Errors
    /// There are more than [`MAX_KEYS`] keys.
    fn check(&self) -> Result<(), String> {
        if self.count > MAX_KEYS { Err(too_many_keys()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
