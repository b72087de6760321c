//! Records of one name, as instances. It decides neither when to ask nor for how long an answer holds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{RData, RecordType};
use model::discovery::ServiceInstance;
use stdx::address_family::{AddressChoice, AddressFamily, FamilyOrder};
use stdx::weight_share::weights_of_addresses;

use crate::limits::WEIGHT_MAX;

/// A type of records that names instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DnsRecordKind {
    Srv,
    Address(AddressFamily),
}

/// Which records are asked for.
#[derive(Clone, Debug)]
pub(super) struct DnsRules {
    order: Vec<DnsRecordKind>,
    /// Which of the addresses of a target are used.
    addresses: AddressChoice,
}

impl DnsRules {
    /// The rules of a written `order`; without one, SRV records and then the families of `addresses`.
    ///
    /// # Errors
    /// `order` has no type that names instances.
    pub(super) fn new(order: Option<&[String]>, addresses: &AddressChoice) -> Result<DnsRules, String> {
        let kind = |name: &String| match &**name {
            "SRV" => Some(DnsRecordKind::Srv),
            "A" => Some(DnsRecordKind::Address(AddressFamily::V4)),
            "AAAA" => Some(DnsRecordKind::Address(AddressFamily::V6)),
            // The others stand for no type of their own.
            _ => None,
        };
        let families = |kinds: &[DnsRecordKind]| {
            FamilyOrder::new(kinds.iter().filter_map(|kind| match kind {
                DnsRecordKind::Address(family) => Some(*family),
                DnsRecordKind::Srv => None,
            }))
        };
        let usual = || addresses.order.families().map(DnsRecordKind::Address);
        let order: Vec<DnsRecordKind> = match order {
            Some(order) => order.iter().filter_map(kind).collect(),
            None => std::iter::once(DnsRecordKind::Srv).chain(usual()).collect(),
        };
        if order.is_empty() {
            return Err("`order` needs SRV, A or AAAA".to_owned());
        }
        let families = families(&order).unwrap_or_else(|| addresses.order.clone());
        Ok(DnsRules { order, addresses: AddressChoice { order: families, ..addresses.clone() } })
    }
}

/// The parts of the last good answer that a failed question keeps.
#[derive(Debug, Default)]
pub(super) struct LastDnsRecords {
    /// The type of the records in force.
    kind: Option<DnsRecordKind>,
    /// The addresses of SRV targets.
    targets: BTreeMap<String, Vec<IpAddr>>,
}

/// A good answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DnsLookup {
    /// The instances, and how long they hold.
    Instances(Vec<ServiceInstance>, Duration),
    /// As `Instances`, with the reason why a part of the answer is missing.
    Part(Vec<ServiceInstance>, Duration, String),
    /// There is no such name, or it has no records of these types.
    Unknown,
}

/// Instances of one type of records.
struct Instances {
    instances: Vec<ServiceInstance>,
    ttl: Duration,
    /// Why a part of them is missing.
    failure: Option<String>,
}

/// The target of an SRV record.
#[derive(Debug, PartialEq, Eq)]
struct SrvTarget {
    host: String,
    port: u16,
    weight: u32,
    priority: i32,
}

/// Asks for the types in turn until one has records. A type that cannot be asked for is passed over unless
/// the nodes in force are of it, because a server may not know it.
///
/// # Errors
/// A server has failed, or targets of SRV records cannot be looked up.
pub(super) async fn lookup_dns_instances(
    resolver: &TokioResolver,
    name: &str,
    port: Option<u16>,
    rules: &DnsRules,
    known: &mut LastDnsRecords,
) -> Result<DnsLookup, String> {
    let (mut failure, mut without_route) = (None, None);
    for kind in &rules.order {
        let found = match kind {
            DnsRecordKind::Srv => of_targets(resolver, name, port, rules, &mut known.targets).await,
            DnsRecordKind::Address(family) => of_family(resolver, name, port, *family).await,
        };
        let found = match found {
            Err(reason) if known.kind == Some(*kind) => return Err(reason),
            Err(reason) => {
                failure.get_or_insert(reason);
                continue;
            }
            Ok(found) if found.instances.is_empty() => continue,
            Ok(found) => found,
        };
        let address = |instance: &ServiceInstance| instance.host.parse::<IpAddr>().ok();
        let has_route = found.instances.iter().filter_map(address).any(rules.addresses.has_route);
        if has_route || *kind == DnsRecordKind::Srv {
            return Ok(taken(found, *kind, failure, known));
        }
        without_route.get_or_insert((found, *kind));
    }
    match (without_route, failure) {
        (Some((found, kind)), failure) => Ok(taken(found, kind, failure, known)),
        (None, Some(reason)) => Err(reason),
        (None, None) => {
            *known = LastDnsRecords::default();
            Ok(DnsLookup::Unknown)
        }
    }
}

/// The answer for instances that come into force.
fn taken(
    found: Instances,
    kind: DnsRecordKind,
    before: Option<String>,
    known: &mut LastDnsRecords,
) -> DnsLookup {
    known.kind = Some(kind);
    match before.or(found.failure) {
        None => DnsLookup::Instances(found.instances, found.ttl),
        Some(reason) => DnsLookup::Part(found.instances, found.ttl, reason),
    }
}

/// The instances of the address records of `name`.
async fn of_family(
    resolver: &TokioResolver,
    name: &str,
    port: Option<u16>,
    family: AddressFamily,
) -> Result<Instances, String> {
    let (addresses, ttl) = ask_addresses(resolver, name, family).await?;
    let instances = addresses.into_iter().map(|host| instance(host, port.unwrap_or(0), 1, 0)).collect();
    Ok(Instances { instances, ttl, failure: None })
}

/// The addresses of one family, and how long they hold; none where there is no such record.
async fn ask_addresses(
    resolver: &TokioResolver,
    name: &str,
    family: AddressFamily,
) -> Result<(Vec<IpAddr>, Duration), String> {
    let record_type = match family {
        AddressFamily::V4 => RecordType::A,
        AddressFamily::V6 => RecordType::AAAA,
    };
    let found = ask(resolver, name, record_type).await?;
    Ok(found.map_or((Vec::new(), Duration::MAX), |(lookup, ttl)| (addresses(&lookup), ttl)))
}

/// The answer for one type; none where there is no such record.
async fn ask(
    resolver: &TokioResolver,
    name: &str,
    record_type: RecordType,
) -> Result<Option<(Lookup, Duration)>, String> {
    match resolver.lookup(name, record_type).await {
        Ok(lookup) => {
            let ttl = lookup.valid_until().saturating_duration_since(Instant::now());
            Ok(Some((lookup, ttl)))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(format!("{name} {record_type}: {error}")),
    }
}

/// Whether the server has answered that there is no such name or record. A refusal or failure of the server
/// is none.
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

fn targets(lookup: &Lookup) -> Vec<SrvTarget> {
    let target = |data: &RData| match data {
        // The root as a target says that there is no such service (RFC 2782).
        RData::SRV(srv) if !srv.target.is_root() => Some(SrvTarget {
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

/// The SRV records of `name`, or of the name that it is an alias of: the library takes the target of the
/// records behind an alias for a further alias, and finds nothing.
async fn ask_targets(resolver: &TokioResolver, name: &str) -> Result<(Vec<SrvTarget>, Duration), String> {
    let (mut name, mut ttl) = (name.to_owned(), Duration::MAX);
    for _ in 0..ALIASES_MAX {
        if let Some((lookup, holds)) = ask(resolver, &name, RecordType::SRV).await? {
            return Ok((targets(&lookup), ttl.min(holds)));
        }
        let found = ask(resolver, &name, RecordType::CNAME).await?;
        let Some((alias, holds)) = found.and_then(|(lookup, holds)| Some((alias(&lookup)?, holds))) else {
            return Ok((Vec::new(), ttl));
        };
        (name, ttl) = (alias, ttl.min(holds));
    }
    Err(format!("{name}: it is behind more than {ALIASES_MAX} aliases"))
}

/// The name that a CNAME record leads to, with the dot at its end.
fn alias(lookup: &Lookup) -> Option<String> {
    lookup.answers().iter().find_map(|record| match &record.data {
        RData::CNAME(name) => Some(name.to_ascii()),
        _ => None,
    })
}

/// The instances behind the SRV records of `name`. A target that cannot be looked up keeps its addresses of
/// before; one that has none is left out, unless no other has an address.
async fn of_targets(
    resolver: &TokioResolver,
    name: &str,
    port: Option<u16>,
    rules: &DnsRules,
    known: &mut BTreeMap<String, Vec<IpAddr>>,
) -> Result<Instances, String> {
    let (targets, mut ttl) = ask_targets(resolver, name).await?;
    let (mut found, mut failure, mut now_known) = (Vec::new(), None, BTreeMap::new());
    for target in &targets {
        let asked = addresses_of_target(resolver, &target.host, rules).await;
        ttl = ttl.min(asked.ttl);
        let before = known.get(&target.host).filter(|before| !is_of_family(before, &asked.addresses));
        let addresses = match (&asked.failure, before) {
            (Some(_), Some(before)) => before.clone(),
            _ => asked.addresses,
        };
        failure = failure.or(asked.failure);
        if !addresses.is_empty() {
            now_known.insert(target.host.clone(), addresses.clone());
        }
        found.push(addresses);
    }
    let counts = targets.iter().zip(&found).map(|(target, found)| (target.weight, found.len()));
    let weights = weights_of_addresses(&counts.collect::<Vec<_>>(), WEIGHT_MAX);
    let shared = targets.iter().zip(found).zip(weights).flat_map(|((target, addresses), weight)| {
        let port = port.unwrap_or(target.port);
        addresses.into_iter().map(move |host| instance(host, port, weight, target.priority))
    });
    let instances: Vec<ServiceInstance> = shared.collect();
    match failure {
        Some(reason) if instances.is_empty() => Err(reason),
        failure => {
            *known = now_known;
            Ok(Instances { instances, ttl, failure })
        }
    }
}

/// Whether addresses of before and now are of one family.
fn is_of_family(before: &[IpAddr], now: &[IpAddr]) -> bool {
    let family = |addresses: &[IpAddr]| addresses.first().map(|address| AddressFamily::of(*address));
    family(before) == family(now)
}

/// The addresses of one target that are used.
struct TargetAddresses {
    addresses: Vec<IpAddr>,
    ttl: Duration,
    failure: Option<String>,
}

async fn addresses_of_target(resolver: &TokioResolver, host: &str, rules: &DnsRules) -> TargetAddresses {
    let choice = &rules.addresses;
    let (mut found, mut ttl, mut failure) = (Vec::new(), Duration::MAX, None);
    // The dot at the end keeps search domains away from a name that is whole.
    let host = format!("{host}.");
    for family in choice.order.families() {
        match ask_addresses(resolver, &host, family).await {
            Ok((addresses, holds)) => {
                found.extend(addresses);
                ttl = ttl.min(holds);
            }
            Err(reason) => failure = failure.or(Some(reason)),
        }
        if choice.with_route(&found, |address| *address).is_some() {
            break;
        }
    }
    TargetAddresses { addresses: choice.used(&found, |address| *address), ttl, failure }
}

fn instance(host: IpAddr, port: u16, weight: u32, priority: i32) -> ServiceInstance {
    ServiceInstance { host: host.to_string().into(), port, weight, priority, ..ServiceInstance::default() }
}

/// SRV records of one name that are used.
const TARGETS_MAX: usize = 256;
/// Aliases in a row that are followed to SRV records.
const ALIASES_MAX: usize = 8;
