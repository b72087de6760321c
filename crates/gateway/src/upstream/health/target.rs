//! One node of one upstream as active checks ask it, by a check that it may share.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use model::outbound::OutboundPolicy;
use net::nodes::ResolvedNode;

use super::super::authority::without_port_str;
use super::probe::{HealthProbe, ProbeHost, ProbeKind};
use super::share::{CheckKey, CheckQuestion, SharedCheck, Shares};

/// See the module.
pub(super) struct CheckTarget {
    pub(super) node: ResolvedNode,
    /// The check, which other targets may have as well.
    pub(super) check: Rc<SharedCheck>,
    /// Why the address is not asked.
    pub(super) refused: Option<&'static str>,
}

impl CheckTarget {
    pub(super) fn new(
        node: &ResolvedNode,
        probe: &HealthProbe,
        policy: &OutboundPolicy,
        shares: &mut Shares,
    ) -> CheckTarget {
        let mut address = node.endpoint.address;
        if let Some(port) = probe.port {
            address.set_port(port);
        }
        let host: Box<str> = host(&probe.host, &node.host, address.ip()).into();
        let asks = match &probe.kind {
            ProbeKind::Http(request) => CheckQuestion::Http(request.bytes(&host)),
            ProbeKind::Tcp => CheckQuestion::Connection,
            ProbeKind::Grpc { service } => CheckQuestion::Grpc(service.clone()),
        };
        let tls = probe.tls.as_ref().map(|identity| identity.id());
        let check = shares.of(CheckKey { address, host, asks, tls, timeout_ms: probe.timeout_ms });
        CheckTarget { node: node.clone(), check, refused: policy.refuses(address.ip()) }
    }

    /// Where connections of the check go.
    pub(super) fn address(&self) -> SocketAddr {
        self.check.key.address
    }
}

/// The host name that a node is asked for: that of `pass_host`, else that of the checks, else the address
/// (contract 2.3).
fn host(rule: &ProbeHost, written: &str, address: IpAddr) -> String {
    let by_checks = |host: &Option<Box<str>>| match (host, address) {
        (Some(host), _) => host.to_string(),
        (None, IpAddr::V4(address)) => address.to_string(),
        (None, IpAddr::V6(address)) => format!("[{address}]"),
    };
    match rule {
        ProbeHost::Rewrite(host) => host.to_string(),
        ProbeHost::Node(checks) => match name(written) {
            Some(name) => name.to_owned(),
            None => by_checks(checks),
        },
        ProbeHost::Checks(host) => by_checks(host),
    }
}

/// The host name of a node that is written as one, without its port.
fn name(written: &str) -> Option<&str> {
    let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let name = without_port_str(written);
    (!is_address(written) && !is_address(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_follows_pass_host_then_the_checks() {
        let checks = || Some("c.test".into());
        let cases: [(ProbeHost, &str, &str, &str); 8] = [
            (ProbeHost::Rewrite("r.test".into()), "n.test:80", "10.0.0.1", "r.test"),
            (ProbeHost::Node(checks()), "n.test:80", "10.0.0.1", "n.test"),
            (ProbeHost::Node(checks()), "n.test", "10.0.0.1", "n.test"),
            (ProbeHost::Node(checks()), "10.0.0.1:80", "10.0.0.1", "c.test"),
            (ProbeHost::Node(None), "[::1]:80", "::1", "[::1]"),
            (ProbeHost::Checks(checks()), "n.test:80", "10.0.0.1", "c.test"),
            (ProbeHost::Checks(None), "n.test:80", "10.0.0.1", "10.0.0.1"),
            (ProbeHost::Checks(None), "::1", "::1", "[::1]"),
        ];
        for (rule, written, address, expected) in cases {
            assert_eq!(host(&rule, written, address.parse().unwrap()), expected, "{rule:?} {written}");
        }
    }

    #[test]
    fn addresses_are_no_names() {
        let cases = [("n.test:80", Some("n.test")), ("10.0.0.1", None), ("[::1]:80", None), ("::1", None)];
        for (written, expected) in cases {
            assert_eq!(name(written), expected, "{written}");
        }
    }
}
