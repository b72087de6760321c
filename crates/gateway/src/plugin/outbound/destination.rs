//! Where a plugin's calls go: a URI, read once, whose name is looked up in the background like those of nodes. Also
//! which addresses are out of bounds: what an instance's metadata service answers must not be had by naming it in a
//! configuration. It opens nothing.

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use ipnet::IpNet;
use stdx::published::Published;

use super::error::{OutboundCause, OutboundError};
use crate::upstream::dns::{Plan, PlannedNode, Resolver};
use crate::upstream::{KeepAlive, NodeSet};

/// See the module.
pub struct Destination {
    uri: Box<str>,
    authority: Box<str>,
    target: Box<str>,
    nodes: Arc<Published<NodeSet>>,
    policy: Arc<OutboundPolicy>,
}

/// Which addresses plugins may reach although they are out of bounds for them: none, unless settings say so.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    /// Networks that are reached all the same.
    pub allow: Vec<IpNet>,
}

/// Says whether plugins can reach peers by `uri`: an absolute `http` URI without user information.
///
/// # Errors
/// Why not, a sentence.
pub fn check_uri(uri: &str) -> Result<(), String> {
    read(uri).map(drop)
}

struct Parts {
    host: Box<str>,
    port: u16,
    authority: Box<str>,
    target: Box<str>,
}

fn read(text: &str) -> Result<Parts, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{text} is not a URI: {error}"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err(format!("{text} is not an absolute URI: write http://HOST:PORT/PATH"));
    };
    if *scheme != Scheme::HTTP {
        return Err(format!(
            "{text}: {scheme} is not supported yet: plugins reach their peers over plain http"
        ));
    }
    if authority.as_str().contains('@') {
        return Err(format!("{text}: a URI with a user in it is refused; it would be written to logs"));
    }
    if authority.host().trim_matches(['[', ']']).is_empty() {
        return Err(format!("{text}: the host is missing"));
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Ok(Parts {
        host: authority.host().trim_matches(['[', ']']).into(),
        port: authority.port_u16().unwrap_or(80),
        authority: authority.as_str().into(),
        // A URI may have a query and no path (RFC 9110 section 4.2.3: then the path is a slash).
        target: if target.starts_with('/') { target.into() } else { format!("/{target}").into() },
    })
}

impl Destination {
    /// A destination whose name `resolver` looks up from now on; its idle connections are kept as `keep_alive` says.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence.
    pub(crate) fn new(
        uri: &str,
        keep_alive: KeepAlive,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<Destination, String> {
        let Parts { host, port, authority, target } = read(uri)?;
        let planned = PlannedNode { host, port, authority: (&*authority).into(), weight: 1, priority: 0 };
        let nodes = Arc::new(Published::new(Arc::new(NodeSet::default())));
        resolver.follow(&nodes, Plan { nodes: vec![planned], keep_alive, with_ring: false });
        Ok(Destination { uri: uri.into(), authority, target, nodes, policy })
    }

    /// The URI as it was written.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Host and port as the Host field says them.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// The addresses as they are known now. Takes a lock for as long as a pointer is copied; a call follows that takes
    /// a thousand times longer.
    ///
    /// # Errors
    /// The name has no address, or none that may be reached.
    pub(super) fn nodes(&self) -> Result<Arc<NodeSet>, OutboundError> {
        let set = self.nodes.load();
        if set.nodes.is_empty() {
            let detail = set.note.clone().unwrap_or_else(|| "the name was not looked up yet".to_owned());
            return Err(self.error(OutboundCause::NoAddress, detail));
        }
        for node in &set.nodes {
            let address = node.endpoint.address.ip();
            // One such address among several is reason enough: a name must not lead there by turns.
            if let Some(what) = self.policy.refuses(address) {
                let detail = format!(
                    "{address} is {what}; the setting outbound_allow lists what plugins may reach all the same"
                );
                return Err(self.error(OutboundCause::Forbidden, detail));
            }
        }
        Ok(set)
    }

    /// A failure at this place.
    pub(super) fn error(&self, cause: OutboundCause, detail: impl Into<String>) -> OutboundError {
        OutboundError { cause, place: self.uri.clone(), detail: detail.into() }
    }
}

impl OutboundPolicy {
    /// What is wrong with `address`, unless it is allowed.
    fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        let what = match address {
            IpAddr::V4(v4) if v4.is_link_local() => "link-local, where metadata services are",
            IpAddr::V4(v4) if v4.octets()[0] == 0 => "unspecified",
            IpAddr::V4(v4) if v4.is_broadcast() || v4.is_multicast() => "no single host",
            IpAddr::V4(v4) if v4.octets() == METADATA_V4 => "a metadata service",
            IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local, where metadata services are",
            IpAddr::V6(v6) if v6.is_unspecified() => "unspecified",
            IpAddr::V6(v6) if v6.is_multicast() => "no single host",
            IpAddr::V6(v6) if v6.segments() == METADATA_V6 => "a metadata service",
            _ => return None,
        };
        (!self.allow.iter().any(|network| network.contains(&address))).then_some(what)
    }
}

/// Metadata services outside the link-local networks, of clouds that have them there.
const METADATA_V4: [u8; 4] = [100, 100, 100, 200];
const METADATA_V6: [u16; 8] = [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let check = |uri: &str, expected: Result<(&str, u16, &str), &str>| match (read(uri), expected) {
            (Ok(parts), Ok(expected)) => assert_eq!((&*parts.host, parts.port, &*parts.target), expected),
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{uri}: {reason}"),
            (got, _) => panic!("{uri}: {:?}", got.map(|parts| parts.authority)),
        };
        check("http://logs.example:8080/in?a=b", Ok(("logs.example", 8080, "/in?a=b")));
        check("http://127.0.0.1:1024?aa=b", Ok(("127.0.0.1", 1024, "/?aa=b")));
        check("http://x.con", Ok(("x.con", 80, "/")));
        check("http://[::1]:9/a", Ok(("::1", 9, "/a")));
        check("https://x.con", Err("https is not supported yet"));
        check("ftp://x.con", Err("ftp is not supported yet"));
        check("http://me:secret@x.con/", Err("user"));
        check("127.0.0.1:1024", Err("absolute"));
        check("/auth", Err("absolute"));
        check("http://", Err(""));
        check("http://a b/", Err("not a URI"));
        check("", Err(""));
    }

    #[test]
    fn addresses_out_of_bounds() {
        let check = |allow: &[&str], address: &str, refused: bool| {
            let allow = allow.iter().map(|network| network.parse().unwrap()).collect();
            let policy = OutboundPolicy { allow };
            assert_eq!(policy.refuses(address.parse().unwrap()).is_some(), refused, "{address}");
        };
        for address in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fd00::1", "8.8.8.8", "100.100.100.1"]
        {
            check(&[], address, false);
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "100.100.100.200",
            "fd00:ec2::254",
        ] {
            check(&[], address, true);
        }
        check(&["169.254.0.0/16"], "169.254.169.254", false);
        check(&["169.254.1.1/32"], "169.254.169.254", true);
    }
}
