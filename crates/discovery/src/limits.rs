//! Limits on the answers of a registry, and the check of instances against them. It knows no registry.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;

use model::discovery::ServiceInstance;
use model::outbound::OutboundPolicy;

/// The limits of one registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegistryLimits {
    /// Bytes of one answer. 10,000 instances with metadata take about 8 MiB in Consul's form.
    pub(crate) answer_bytes: usize,
    /// Instances of one service. A set is walked by balancers and published as a whole.
    pub(crate) service_instances: usize,
    /// Instances of all services of a registry.
    pub(crate) registry_instances: usize,
    /// Services of a registry.
    pub(crate) services: usize,
}

impl Default for RegistryLimits {
    fn default() -> RegistryLimits {
        RegistryLimits {
            answer_bytes: 32 << 20,
            service_instances: 20_000,
            registry_instances: 100_000,
            services: 20_000,
        }
    }
}

/// Bytes of a host; the longest name of DNS (RFC 1035).
const HOST_MAX_BYTES: usize = 253;
/// The largest weight, which is Nacos's limit of 10,000 in hundredths; sums over a service stay far from
/// overflow.
pub(super) const WEIGHT_MAX: u32 = 1_000_000;
/// Entries of an instance's metadata.
pub(super) const METADATA_MAX: usize = 64;
/// Bytes of a name of metadata.
const METADATA_NAME_MAX_BYTES: usize = 256;
/// Bytes of a value of metadata.
const METADATA_VALUE_MAX_BYTES: usize = 1024;
/// Characters of a registry's text within a message.
const SHOWN_MAX_CHARS: usize = 200;
/// Characters of a failure that are kept; a registry may put its whole answer into one.
pub(super) const REASON_MAX_CHARS: usize = 400;

/// The usable ones of `instances`, ordered by [`order`], each address once; and the reason of the first that
/// is left out.
///
/// # Errors
/// There are too many, or none of them is usable.
pub(super) fn usable(
    instances: Vec<ServiceInstance>,
    limits: &RegistryLimits,
    policy: &OutboundPolicy,
) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
    if instances.len() > limits.service_instances {
        let (found, limit) = (instances.len(), limits.service_instances);
        return Err(format!("the service has {found} instances; the limit is {limit}"));
    }
    let found = instances.len();
    let mut reason = None;
    let mut kept: Vec<ServiceInstance> = Vec::with_capacity(found);
    for mut instance in instances {
        let fault = match instance.host.parse::<IpAddr>() {
            Ok(address) => policy.refuses(address),
            Err(_) => host_fault(&instance.host),
        };
        match fault {
            Some(fault) => {
                reason.get_or_insert_with(|| format!("the host {:?} is {fault}", shortened(&instance.host)));
            }
            None => {
                instance.weight = instance.weight.min(WEIGHT_MAX);
                bound(&mut instance.metadata);
                kept.push(instance);
            }
        }
    }
    let left_out = found - kept.len();
    if kept.is_empty()
        && let Some(reason) = reason
    {
        return Err(format!("none of {found} instances is usable: {reason}"));
    }
    kept.sort_by(order);
    kept.dedup_by(|a, b| a.host == b.host && a.port == b.port);
    Ok((kept, reason.map(|reason| format!("{left_out} of {found} instances are left out: {reason}"))))
}

/// The order of a service's instances: by address, and instances of one address by everything else, so that
/// the order of a registry's answer changes nothing.
pub(super) fn order(a: &ServiceInstance, b: &ServiceInstance) -> Ordering {
    let ServiceInstance { host, port, weight, priority, metadata } = a;
    (host, port, weight, priority, metadata).cmp(&(&b.host, &b.port, &b.weight, &b.priority, &b.metadata))
}

/// Completes "the host is …" where a text is neither an address without brackets nor a name; none for both.
pub(super) fn host_fault(host: &str) -> Option<&'static str> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() {
        Some("empty")
    } else if host.parse::<IpAddr>().is_ok() {
        None
    } else if host.len() > HOST_MAX_BYTES {
        Some("longer than a name of DNS")
    } else if host.bytes().all(is_usual) && !host.starts_with(['.', '-']) {
        None
    } else {
        Some("neither a name (letters, digits, '-', '.', '_') nor an address")
    }
}

/// Takes out entries that are too long, and those beyond [`METADATA_MAX`] in the order of their names.
pub(super) fn bound(metadata: &mut BTreeMap<Box<str>, Box<str>>) {
    metadata.retain(|name, value| {
        name.len() <= METADATA_NAME_MAX_BYTES && value.len() <= METADATA_VALUE_MAX_BYTES
    });
    while metadata.len() > METADATA_MAX {
        metadata.pop_last();
    }
}

/// Text of a registry within a message: without control characters, and of a bounded length.
pub(super) fn shortened(text: &str) -> String {
    shortened_to(text, SHOWN_MAX_CHARS)
}

/// As [`shortened`], with at most so many characters and a mark where the text was longer.
pub(super) fn shortened_to(text: &str, max_chars: usize) -> String {
    let plain = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut short: String = plain.take(max_chars).collect();
    if text.chars().nth(max_chars).is_some() {
        short.push('…');
    }
    short.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(host: &str, port: u16) -> ServiceInstance {
        ServiceInstance { host: host.into(), port, weight: 1, ..ServiceInstance::default() }
    }

    #[test]
    fn unusable_instances_are_left_out_with_reason() {
        let limits = RegistryLimits::default();
        let policy = OutboundPolicy::default();
        let all = ["b", "a b", "::1", "", "b", "169.254.169.254", "192.0.0.192"]
            .map(|host| instance(host, 1))
            .to_vec();
        let (kept, reason) = usable(all, &limits, &policy).unwrap();
        let hosts: Vec<&str> = kept.iter().map(|instance| &*instance.host).collect();
        assert_eq!(hosts, ["::1", "b"]);
        assert!(reason.unwrap().starts_with("4 of 7 instances are left out: the host \"a b\" is neither"));
        assert_eq!(usable(Vec::new(), &limits, &policy).unwrap(), (Vec::new(), None));
        let none = usable(vec![instance(&"x".repeat(300), 1)], &limits, &policy).unwrap_err();
        assert!(none.starts_with("none of 1 instances is usable"), "{none}");
    }

    #[test]
    fn sizes_are_bounded() {
        let limits = RegistryLimits { service_instances: 2, ..RegistryLimits::default() };
        assert!(
            usable(vec![instance("a", 1); 3], &limits, &OutboundPolicy::default())
                .unwrap_err()
                .contains("the limit is 2")
        );
        let mut many = instance("a", 1);
        many.weight = u32::MAX;
        many.metadata = (0..100).map(|n| (format!("{n:03}").into(), "v".into())).collect();
        many.metadata.insert("000".into(), "v".repeat(2000).into());
        let (kept, _) = usable(vec![many], &limits, &OutboundPolicy::default()).unwrap();
        assert_eq!((kept[0].metadata.len(), kept[0].weight), (METADATA_MAX, WEIGHT_MAX));
        assert!(!kept[0].metadata.contains_key("000"));
    }

    #[test]
    fn order_of_an_answer_changes_nothing() {
        let limits = RegistryLimits::default();
        let with = |weight: u32, priority: i32, zone: &str| ServiceInstance {
            weight,
            priority,
            metadata: BTreeMap::from([("zone".into(), zone.into())]),
            ..instance("a", 1)
        };
        let mut all = vec![with(1, 0, "a"), with(1, 0, "b"), with(1, -1, "a"), with(2, 0, "a")];
        let first = usable(all.clone(), &limits, &OutboundPolicy::default()).unwrap();
        for _ in 0..all.len() {
            all.rotate_left(1);
            assert_eq!(usable(all.clone(), &limits, &OutboundPolicy::default()).unwrap(), first);
        }
        all.reverse();
        assert_eq!(usable(all, &limits, &OutboundPolicy::default()).unwrap(), first);
    }

    #[test]
    fn texts_in_messages_are_shortened() {
        assert_eq!(shortened("a\nb"), "a b");
        assert_eq!(shortened(&"x".repeat(300)).chars().count(), 201);
        assert_eq!(shortened_to("äöü", 2), "äö…");
    }
}
