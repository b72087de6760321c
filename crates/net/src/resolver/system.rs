//! Lookups by `/etc/hosts`, then the name servers of `/etc/resolv.conf` or those that a setting names. Of the
//! addresses of a name it answers those that are used: see decision 0058.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use stdx::address_family::{AddressChoice, AddressFamily};

use super::hosts::HostsFile;
use super::{Lookup, LookupAnswer, LookupFuture};
use crate::route::has_route;

/// The hosts file of the system.
const HOSTS: &str = "/etc/hosts";
/// How long an answer of the hosts file holds; reading its time of change costs a system call.
const HOSTS_TTL: Duration = Duration::from_secs(5);

/// The DNS servers to ask, and how.
#[derive(Clone, Debug)]
pub struct LookupOptions {
    /// Name servers, in order, over UDP and where an answer is too long over TCP; without any, the system's.
    pub servers: Vec<SocketAddr>,
    /// Whether a name is also tried with the system's search domains behind it.
    pub search: bool,
    /// How long a name server has to answer; then it is asked once more.
    pub timeout: Duration,
    /// Which of the addresses of a name are used.
    pub choice: AddressChoice,
}

impl Default for LookupOptions {
    fn default() -> Self {
        LookupOptions {
            servers: Vec::new(),
            search: true,
            timeout: Duration::from_secs(5),
            choice: AddressChoice { has_route, ..AddressChoice::default() },
        }
    }
}

/// See the module.
pub struct SystemLookup(Arc<Lookups>);

/// The parts that each lookup uses.
struct Lookups {
    hosts: HostsFile,
    resolver: Result<TokioResolver, String>,
    choice: AddressChoice,
}

impl SystemLookup {
    /// Reads the system's configuration. Without a readable one, and without servers of its own, every lookup
    /// fails and says so, except those of names that the hosts file has.
    pub fn new(options: &LookupOptions) -> SystemLookup {
        let resolver = assemble(read_system_conf(), options).and_then(|(config, settings)| {
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = settings;
            builder.build()
        });
        let resolver = resolver.map_err(|error| format!("no resolver configuration: {error}"));
        SystemLookup(Arc::new(Lookups {
            hosts: HostsFile::at(HOSTS),
            resolver,
            choice: options.choice.clone(),
        }))
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
    // This module reads the hosts file itself.
    settings.use_hosts_file = ResolveHosts::Never;
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
    fn lookup(&self, name: &str) -> LookupFuture {
        let (lookups, name) = (self.0.clone(), name.to_owned());
        Box::pin(async move { lookups.find(&name).await })
    }
}

impl Lookups {
    /// The addresses of `name` that are used.
    async fn find(&self, name: &str) -> Result<LookupAnswer, String> {
        if let Some(addresses) = self.hosts.addresses(name) {
            let addresses = self.choice.used(&addresses, |address| *address);
            return match addresses.is_empty() {
                true => Err(format!("the hosts file has no address of the families {}", self.choice.order)),
                false => Ok(LookupAnswer { addresses, ttl: HOSTS_TTL, failure: None }),
            };
        }
        let resolver = self.resolver.as_ref().map_err(Clone::clone)?;
        let (mut found, mut ttl, mut failure) = (Vec::new(), Duration::MAX, None);
        for family in self.choice.order.families() {
            match ask(resolver, name, family).await {
                Ok((addresses, holds)) => {
                    found.extend(addresses);
                    ttl = ttl.min(holds);
                }
                // It may be the only family of the name, so that the next one is asked for in any case.
                Err(reason) => failure = failure.or(reason),
            }
            // The next family is asked for only where this one is of no use.
            if let Some(addresses) = self.choice.with_route(&found, |address| *address) {
                return Ok(LookupAnswer { addresses, ttl, failure });
            }
        }
        let addresses = self.choice.used(&found, |address| *address);
        match failure {
            Some(reason) if addresses.is_empty() => Err(reason),
            _ if addresses.is_empty() => Err(format!("it has no records {}", self.choice.order)),
            failure => Ok(LookupAnswer { addresses, ttl, failure }),
        }
    }
}

/// The addresses of one family, and how long they hold.
///
/// # Errors
/// The reason, a sentence; none where the servers have answered that there is no such name or record.
async fn ask(
    resolver: &TokioResolver,
    name: &str,
    family: AddressFamily,
) -> Result<(Vec<IpAddr>, Duration), Option<String>> {
    let record_type = match family {
        AddressFamily::V4 => RecordType::A,
        AddressFamily::V6 => RecordType::AAAA,
    };
    let found = resolver.lookup(name, record_type).await;
    let found =
        found.map_err(|error| (!is_absent(&error)).then(|| format!("{}: {error}", family.record())))?;
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let addresses = found.answers().iter().filter_map(|record| address(&record.data)).collect();
    Ok((addresses, found.valid_until().saturating_duration_since(Instant::now())))
}

/// Whether the server has answered that there is no such name or record. A refusal or failure of the server
/// is none.
fn is_absent(error: &NetError) -> bool {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
        }
        _ => false,
    }
}

#[cfg(test)]
mod server_tests;

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
