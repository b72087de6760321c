//! DNS: SRV, A and AAAA records of each followed service, asked for again when their time to live is over.
//!
//! `service_name` is `NAME` or `NAME:PORT`; a written port replaces the one of SRV records. The first type of
//! `order` that has records is used; a type that cannot be asked for is passed over, unless the nodes in
//! force are of it. SRV weights are weights (0 counts as 1) that the addresses of a target share, and a lower
//! SRV priority is preferred. Names behind SRV records are looked up at the same servers: addresses of one
//! family, in the order of A and AAAA in `order`.

mod records;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::{parse_resolv_conf, read_system_conf};
use model::discovery::ServiceKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::each::each_wanted;
use super::{BuildContext, Registry, RegistryKind, Services};
use records::{DnsLookup, DnsRules, LastDnsRecords};

pub(super) const KIND: RegistryKind = RegistryKind { name: "dns", has_ports_by_scheme: false, schema, build };

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "servers": {"type": "array", "minItems": 1, "maxItems": 16, "items": {"type": "string"}, "description": "Name servers, `ADDRESS` or `ADDRESS:PORT`."},
            "resolv_conf": {"type": "string", "minLength": 1, "description": "A file such as /etc/resolv.conf, for servers and search domains."},
            "order": {
                "type": "array", "minItems": 1, "maxItems": 5, "uniqueItems": true,
                "items": {"enum": ["last", "SRV", "A", "AAAA", "CNAME"]},
                "description": "Types of records, the preferred one first; SRV, then the families of the setting `dns_order`, where it is not written. Names behind CNAME are followed in any case, and `last` has no effect."
            },
            "timeout_ms": {"type": "integer", "minimum": 10, "maximum": 60_000, "default": 2000, "description": "Milliseconds that a server has to answer; it is asked twice."},
            "ttl_min": {"type": "integer", "minimum": 1, "maximum": 86_400, "default": 1, "description": "Shortest time in seconds that an answer holds."},
            "ttl_max": {"type": "integer", "minimum": 1, "maximum": 86_400, "default": 300, "description": "Longest time in seconds that an answer holds."}
        },
        "anyOf": [{"required": ["servers"]}, {"required": ["resolv_conf"]}],
        "additionalProperties": false
    })
}

#[derive(Clone, Debug, Deserialize)]
struct DnsBlock {
    #[serde(default)]
    servers: Vec<String>,
    resolv_conf: Option<PathBuf>,
    order: Option<Vec<String>>,
    #[serde(default = "timeout_ms")]
    timeout_ms: u64,
    #[serde(default = "ttl_min")]
    ttl_min: u64,
    #[serde(default = "ttl_max")]
    ttl_max: u64,
}

const fn timeout_ms() -> u64 {
    2000
}

const fn ttl_min() -> u64 {
    1
}

const fn ttl_max() -> u64 {
    300
}

struct Dns {
    block: DnsBlock,
    servers: Vec<SocketAddr>,
    rules: DnsRules,
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block = DnsBlock::deserialize(block).map_err(|error| error.to_string())?;
    let servers = block.servers.iter().map(|text| server_of(text)).collect::<Result<_, _>>()?;
    let rules = DnsRules::new(block.order.as_deref(), &context.addresses)?;
    Ok(Box::new(Dns { block, servers, rules }))
}

fn server_of(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>().ok();
    let without = || text.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
    with_port.or_else(without).ok_or_else(|| format!("the server {text:?} is no ADDRESS or ADDRESS:PORT"))
}

impl Dns {
    /// The resolver; files are read now.
    fn resolver(&self) -> Result<TokioResolver, String> {
        let system = match &self.block.resolv_conf {
            Some(path) => {
                let named = |reason: String| format!("{}: {reason}", path.display());
                let text = outbound::regular_file::read_to_string(path, RESOLV_CONF_MAX_BYTES);
                let text = text.map_err(|error| named(error.to_string()))?;
                parse_resolv_conf(text.as_bytes()).map_err(|error| named(error.to_string()))?
            }
            // The search domains are those of the system.
            None => read_system_conf().unwrap_or_else(|_| {
                (ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default())
            }),
        };
        let (config, mut settings) = system;
        let (domain, search, mut servers) = config.into_parts();
        if !self.servers.is_empty() {
            servers = self.servers.iter().map(name_server).collect();
        }
        settings.cache_size = 0;
        settings.timeout = Duration::from_millis(self.block.timeout_ms);
        let config = ResolverConfig::from_parts(domain, search, servers);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = settings;
        builder.build().map_err(|error| error.to_string())
    }

    /// How long an answer holds.
    fn bounded(&self, ttl: Duration) -> Duration {
        let (min, max) = (Duration::from_secs(self.block.ttl_min), Duration::from_secs(self.block.ttl_max));
        ttl.clamp(min, max.max(min))
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = connections.map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, at_port.into())
}

impl Registry for Dns {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let resolver = match self.resolver() {
                Ok(resolver) => resolver,
                Err(reason) => return services.failed(None, &reason),
            };
            let dns: Arc<Dns> = Arc::from(self);
            let asked = Arc::new(Semaphore::new(CONCURRENT_MAX));
            each_wanted(&services, |key| {
                follow(Arc::clone(&dns), resolver.clone(), services.clone(), key, Arc::clone(&asked))
            })
            .await;
        })
    }
}

async fn follow(
    dns: Arc<Dns>,
    resolver: TokioResolver,
    services: Services,
    key: ServiceKey,
    asked: Arc<Semaphore>,
) {
    let (name, port) = match split(&key.service) {
        Ok(parts) => parts,
        Err(reason) => return services.failed(Some(&key), &reason),
    };
    let mut known = LastDnsRecords::default();
    loop {
        let started = Instant::now();
        let found = match asked.acquire().await {
            Ok(_permit) => records::lookup_dns_instances(&resolver, name, port, &dns.rules, &mut known).await,
            // It is never closed.
            Err(_) => return,
        };
        let pause = match found {
            Ok(DnsLookup::Instances(instances, ttl)) => {
                services.answer(&key, instances);
                dns.bounded(ttl).saturating_sub(started.elapsed())
            }
            Ok(DnsLookup::Part(instances, ttl, reason)) => {
                services.answer_in_part(&key, instances, reason);
                dns.bounded(ttl).min(PART_HOLDS_MAX).saturating_sub(started.elapsed())
            }
            Ok(DnsLookup::Unknown) => {
                services.unknown(&key);
                RETRY_AFTER
            }
            Err(reason) => {
                services.failed(Some(&key), &reason);
                RETRY_AFTER
            }
        };
        tokio::time::sleep(pause.max(LEAST_PAUSE)).await;
    }
}

/// Name and port of a service.
fn split(service: &str) -> Result<(&str, Option<u16>), String> {
    match service.rsplit_once(':') {
        None => Ok((service, None)),
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) if port > 0 && !name.contains(':') => Ok((name, Some(port))),
            _ => Err(format!("the service name {service:?} is no NAME or NAME:PORT")),
        },
    }
}

/// Lookups at the same time.
const CONCURRENT_MAX: usize = 64;
/// Pause after a failure, and after the answer that there is no such name.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// An answer of which a part is missing holds at most this long.
const PART_HOLDS_MAX: Duration = Duration::from_secs(10);
/// Shortest pause between two lookups of a name.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a resolv.conf.
const RESOLV_CONF_MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod server_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_servers_are_split() {
        assert_eq!(split("a.example"), Ok(("a.example", None)));
        assert_eq!(split("a.example:8080"), Ok(("a.example", Some(8080))));
        for faulty in ["a:0", "a:70000", "a:b", "::1:80"] {
            assert!(split(faulty).unwrap_err().contains("NAME:PORT"), "{faulty}");
        }
        assert_eq!(server_of("127.0.0.1").unwrap().port(), 53);
        assert_eq!(server_of("[::1]:5353").unwrap().port(), 5353);
        assert!(server_of("localhost").unwrap_err().contains("\"localhost\""));
    }

    #[test]
    fn block_needs_servers_and_types() {
        let build = |block: Value| build(&block, &BuildContext::default()).err();
        assert_eq!(build(json!({"servers": ["127.0.0.1"]})), None);
        let reason = build(json!({"servers": ["127.0.0.1"], "order": ["CNAME"]}));
        assert_eq!(reason.as_deref(), Some("`order` needs SRV, A or AAAA"));
        assert!(build(json!({"servers": ["x"]})).is_some());
    }
}
