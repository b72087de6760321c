//! Lookups by `/etc/hosts`, then the name servers of `/etc/resolv.conf` or those that a setting names.

use std::net::SocketAddr;
use std::time::Instant;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};

use super::{Answer, Lookup, Pending};

/// See the module.
pub struct SystemLookup {
    resolver: Result<TokioResolver, String>,
}

impl SystemLookup {
    /// Reads the system's configuration; without a readable one every lookup fails and says so.
    pub fn new() -> SystemLookup {
        SystemLookup::of(TokioResolver::builder_tokio())
    }

    /// Asks these name servers, in order, over UDP and where an answer is too long over TCP.
    pub fn with_servers(servers: &[SocketAddr]) -> SystemLookup {
        let server = |address: &SocketAddr| {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let at_port = connections.map(|mut connection| {
                connection.port = address.port();
                connection
            });
            NameServerConfig::new(address.ip(), true, at_port.into())
        };
        let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
        SystemLookup::of(Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())))
    }

    fn of(builder: Result<ResolverBuilder<TokioRuntimeProvider>, NetError>) -> SystemLookup {
        let resolver = builder.and_then(|mut builder| {
            // The gateway's own table is the cache, and knows the TTL.
            builder.options_mut().cache_size = 0;
            builder.build()
        });
        SystemLookup { resolver: resolver.map_err(|error| format!("no resolver configuration: {error}")) }
    }
}

impl Default for SystemLookup {
    fn default() -> Self {
        SystemLookup::new()
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> Pending {
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        Box::pin(async move {
            let found = resolver?.lookup_ip(name).await.map_err(|error| error.to_string())?;
            let ttl = found.valid_until().saturating_duration_since(Instant::now());
            Ok(Answer { addresses: found.iter().collect(), ttl })
        })
    }
}
