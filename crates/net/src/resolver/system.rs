//! Lookups by `/etc/hosts`, then the name servers of `/etc/resolv.conf` or those that a setting names.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;

use super::{Answer, Lookup, Pending};

/// The DNS servers to ask, and how.
#[derive(Clone, Debug)]
pub struct LookupOptions {
    /// Name servers, in order, over UDP and where an answer is too long over TCP; without any, the system's.
    pub servers: Vec<SocketAddr>,
    /// Whether a name is also tried with the system's search domains behind it.
    pub search: bool,
    /// How long a name server has to answer; then it is asked once more.
    pub timeout: Duration,
}

impl Default for LookupOptions {
    fn default() -> Self {
        LookupOptions { servers: Vec::new(), search: true, timeout: Duration::from_secs(5) }
    }
}

/// See the module.
pub struct SystemLookup {
    resolver: Result<TokioResolver, String>,
}

impl SystemLookup {
    /// Reads the system's configuration. Without a readable one, and without servers of its own, every lookup fails and
    /// says so.
    pub fn new(options: &LookupOptions) -> SystemLookup {
        let resolver = assemble(read_system_conf(), options).and_then(|(config, settings)| {
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = settings;
            builder.build()
        });
        SystemLookup { resolver: resolver.map_err(|error| format!("no resolver configuration: {error}")) }
    }
}

impl Default for SystemLookup {
    fn default() -> Self {
        SystemLookup::new(&LookupOptions::default())
    }
}

/// The system's configuration with what the options say over it.
fn assemble(
    system: Result<(ResolverConfig, ResolverOpts), NetError>,
    options: &LookupOptions,
) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    let (config, mut settings) = match system {
        // Servers that are named need no file.
        Err(_) if !options.servers.is_empty() => {
            (ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default())
        }
        system => system?,
    };
    let (mut domain, mut search, mut servers) = config.into_parts();
    if !options.servers.is_empty() {
        servers = options.servers.iter().map(server).collect();
    }
    if !options.search {
        (domain, search) = (None, Vec::new());
    }
    // The gateway's own table is the cache, and knows the TTL.
    settings.cache_size = 0;
    settings.timeout = options.timeout;
    Ok((ResolverConfig::from_parts(domain, search, servers), settings))
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = connections.map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, at_port.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_lie_over_the_system_s_configuration() {
        let system = || {
            let domain = "cluster.local.".parse().unwrap();
            let own = server(&"10.0.0.53:53".parse().unwrap());
            let settings = {
                let mut settings = ResolverOpts::default();
                settings.ndots = 5;
                settings
            };
            Ok((ResolverConfig::from_parts(None, vec![domain], vec![own]), settings))
        };
        let check = |options: LookupOptions, servers: &[&str], search: usize| {
            let (config, settings) = assemble(system(), &options).unwrap();
            let asked: Vec<String> = config
                .name_servers()
                .iter()
                .map(|server| format!("{}:{}", server.ip, server.connections[0].port))
                .collect();
            assert_eq!(
                (asked, config.search().len()),
                (servers.iter().map(ToString::to_string).collect(), search)
            );
            assert_eq!((settings.ndots, settings.timeout, settings.cache_size), (5, options.timeout, 0));
        };
        let named = vec!["127.0.0.1:5353".parse().unwrap()];
        let timeout = Duration::from_millis(70);
        check(LookupOptions::default(), &["10.0.0.53:53"], 1);
        check(LookupOptions { search: false, timeout, ..LookupOptions::default() }, &["10.0.0.53:53"], 0);
        check(LookupOptions { servers: named.clone(), ..LookupOptions::default() }, &["127.0.0.1:5353"], 1);
        let unreadable = || Err(NetError::from("no such file".to_owned()));
        assert!(assemble(unreadable(), &LookupOptions::default()).is_err());
        let options = LookupOptions { servers: named, ..LookupOptions::default() };
        assert_eq!(assemble(unreadable(), &options).unwrap().0.name_servers().len(), 1);
    }
}
