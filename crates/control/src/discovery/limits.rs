//! Limits on what a registry may say, and the check of instances against them. It knows no registry.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::discovery::Instance;
use model::outbound::OutboundPolicy;

/// The limits of one registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of one answer. 10,000 instances with metadata take about 8 MiB in Consul's form.
    pub(crate) answer_bytes: usize,
    /// Instances of one service. A set is walked by balancers and published as a whole.
    pub(crate) service_instances: usize,
    /// Instances of all services of a registry.
    pub(crate) registry_instances: usize,
    /// Services of a registry.
    pub(crate) services: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            answer_bytes: 32 << 20,
            service_instances: 20_000,
            registry_instances: 100_000,
            services: 20_000,
        }
    }
}

/// Bytes of a host; the longest name of DNS.
const HOST_MAX_BYTES: usize = 253;
/// The largest weight, so that sums over a service stay far from overflow.
const WEIGHT_MAX: u32 = 1_000_000;
/// Entries of an instance's metadata.
const METADATA_MAX: usize = 64;
/// Bytes of a name of metadata.
const METADATA_NAME_MAX_BYTES: usize = 256;
/// Bytes of a value of metadata.
const METADATA_VALUE_MAX_BYTES: usize = 1024;

/// The usable ones of `instances`, ordered by host and port, each address once; and the reason of the first that is left
/// out.
///
/// # Errors
/// There are too many, or none of them is usable.
pub(super) fn usable(
    instances: Vec<Instance>,
    limits: &Limits,
    policy: &OutboundPolicy,
) -> Result<(Vec<Instance>, Option<String>), String> {
    if instances.len() > limits.service_instances {
        let (found, limit) = (instances.len(), limits.service_instances);
        return Err(format!("the service has {found} instances; the limit is {limit}"));
    }
    let found = instances.len();
    let mut reason = None;
    let mut kept: Vec<Instance> = Vec::with_capacity(found);
    for mut instance in instances {
        match host_fault(&instance.host, policy) {
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
    kept.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
    kept.dedup_by(|a, b| a.host == b.host && a.port == b.port);
    Ok((kept, reason.map(|reason| format!("{left_out} of {found} instances are left out: {reason}"))))
}

/// The reason why a host cannot be connected to; none for a name or an address.
fn host_fault(host: &str, policy: &OutboundPolicy) -> Option<&'static str> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return policy.refuses(address);
    }
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() {
        Some("empty")
    } else if host.len() > HOST_MAX_BYTES {
        Some("longer than a name of DNS")
    } else if host.bytes().all(is_usual) {
        None
    } else {
        Some("neither a name (letters, digits, '-', '.', '_') nor an address")
    }
}

fn bound(metadata: &mut BTreeMap<Box<str>, Box<str>>) {
    metadata.retain(|name, value| {
        name.len() <= METADATA_NAME_MAX_BYTES && value.len() <= METADATA_VALUE_MAX_BYTES
    });
    while metadata.len() > METADATA_MAX {
        metadata.pop_last();
    }
}

/// The beginning of a text that is too long for a log line.
pub(super) fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_MAX_CHARS).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

const SHOWN_MAX_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(host: &str, port: u16) -> Instance {
        Instance { host: host.into(), port, weight: 1, ..Instance::default() }
    }

    #[test]
    fn unusable_instances_are_left_out_with_reason() {
        let limits = Limits::default();
        let policy = OutboundPolicy::default();
        let all = ["b", "a b", "::1", "", "b", "169.254.169.254"].map(|host| instance(host, 1)).to_vec();
        let (kept, reason) = usable(all, &limits, &policy).unwrap();
        let hosts: Vec<&str> = kept.iter().map(|instance| &*instance.host).collect();
        assert_eq!(hosts, ["::1", "b"]);
        assert!(reason.unwrap().starts_with("3 of 6 instances are left out: the host \"a b\" is neither"));
        assert_eq!(usable(Vec::new(), &limits, &policy).unwrap(), (Vec::new(), None));
        let none = usable(vec![instance(&"x".repeat(300), 1)], &limits, &policy).unwrap_err();
        assert!(none.starts_with("none of 1 instances is usable"), "{none}");
    }

    #[test]
    fn sizes_are_bounded() {
        let limits = Limits { service_instances: 2, ..Limits::default() };
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
}
