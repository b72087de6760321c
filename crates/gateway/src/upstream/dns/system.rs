//! Lookups by the system's resolver configuration: `/etc/hosts`, then the name servers of `/etc/resolv.conf`.

use std::time::Instant;

use hickory_resolver::TokioResolver;

use super::{Answer, Lookup, Pending};

/// See the module.
pub struct SystemLookup {
    resolver: Result<TokioResolver, String>,
}

impl SystemLookup {
    /// Reads the system's configuration; without a readable one every lookup fails and says so.
    pub fn new() -> SystemLookup {
        let resolver = TokioResolver::builder_tokio().and_then(|mut builder| {
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
