//! Records of one name, as instances. It decides neither when to ask nor for how long an answer holds.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{RData, RecordType};
use model::discovery::Instance;

/// A type of records that names instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Srv,
    A,
    Aaaa,
}

impl Kind {
    /// The type of that name; none for names that stand for no type of their own.
    pub(super) fn named(name: &str) -> Option<Kind> {
        match name {
            "SRV" => Some(Kind::Srv),
            "A" => Some(Kind::A),
            "AAAA" => Some(Kind::Aaaa),
            _ => None,
        }
    }

    fn record_type(self) -> RecordType {
        match self {
            Kind::Srv => RecordType::SRV,
            Kind::A => RecordType::A,
            Kind::Aaaa => RecordType::AAAA,
        }
    }
}

/// A good answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The instances, and how long they hold.
    Instances(Vec<Instance>, Duration),
    /// There is no such name, or it has no records of these types.
    Unknown,
}

/// The target of an SRV record.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
    weight: u32,
    priority: i32,
}

/// Asks for the types in turn until one has records.
///
/// # Errors
/// A server has failed, or targets of SRV records cannot be looked up.
pub(super) async fn find(
    resolver: &TokioResolver,
    name: &str,
    port: Option<u16>,
    order: &[Kind],
) -> Result<Found, String> {
    for kind in order {
        let Some((lookup, ttl)) = ask(resolver, name, *kind).await? else { continue };
        let (instances, ttl) = match kind {
            Kind::A | Kind::Aaaa => {
                let addresses = addresses(&lookup);
                (addresses.into_iter().map(|host| instance(host, port.unwrap_or(0), 1, 0)).collect(), ttl)
            }
            Kind::Srv => behind(resolver, &targets(&lookup), port, ttl).await?,
        };
        if !instances.is_empty() {
            return Ok(Found::Instances(instances, ttl));
        }
    }
    Ok(Found::Unknown)
}

/// The answer for one type; none where there is no such record.
async fn ask(resolver: &TokioResolver, name: &str, kind: Kind) -> Result<Option<(Lookup, Duration)>, String> {
    match resolver.lookup(name, kind.record_type()).await {
        Ok(lookup) => {
            let ttl = lookup.valid_until().saturating_duration_since(Instant::now());
            Ok(Some((lookup, ttl)))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Whether the server has answered that there is no such name or record. A refusal or failure of the server is none.
fn is_absent(error: &NetError) -> bool {
    use hickory_resolver::net::DnsError;
    use hickory_resolver::proto::op::ResponseCode;
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
        }
        _ => false,
    }
}

fn addresses(lookup: &Lookup) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    lookup.answers().iter().filter_map(|record| address(&record.data)).collect()
}

fn targets(lookup: &Lookup) -> Vec<Target> {
    let target = |data: &RData| match data {
        // The root as a target says that there is no such service (RFC 2782).
        RData::SRV(srv) if !srv.target.is_root() => Some(Target {
            host: srv.target.to_ascii().trim_end_matches('.').to_owned(),
            port: srv.port,
            weight: u32::from(srv.weight).max(1),
            // Of SRV the lower number is preferred, of nodes the higher.
            priority: -i32::from(srv.priority),
        }),
        _ => None,
    };
    lookup.answers().iter().filter_map(|record| target(&record.data)).take(TARGETS_MAX).collect()
}

/// The addresses of the targets. A target that cannot be looked up is left out, unless no other has an address.
async fn behind(
    resolver: &TokioResolver,
    targets: &[Target],
    port: Option<u16>,
    mut ttl: Duration,
) -> Result<(Vec<Instance>, Duration), String> {
    let mut instances = Vec::new();
    let mut failure = None;
    for target in targets {
        for kind in [Kind::A, Kind::Aaaa] {
            // The dot at the end keeps search domains away from a name that is whole.
            match ask(resolver, &format!("{}.", target.host), kind).await {
                Ok(Some((lookup, holds))) => {
                    ttl = ttl.min(holds);
                    let port = port.unwrap_or(target.port);
                    let found = addresses(&lookup).into_iter();
                    instances.extend(found.map(|host| instance(host, port, target.weight, target.priority)));
                }
                Ok(None) => {}
                Err(reason) => failure = Some(reason),
            }
        }
    }
    match failure {
        Some(reason) if instances.is_empty() => Err(reason),
        _ => Ok((instances, ttl)),
    }
}

fn instance(host: IpAddr, port: u16, weight: u32, priority: i32) -> Instance {
    Instance { host: host.to_string().into(), port, weight, priority, ..Instance::default() }
}

/// SRV records of one name that are used.
const TARGETS_MAX: usize = 256;
