//! The destination of a plugin's calls: a URI, read once; its name is looked up in the background like those of nodes. It
//! opens nothing.

use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, Scheme};
use model::outbound::OutboundPolicy;
use stdx::published::Published;

use super::error::{OutboundCause, OutboundError};
use net::endpoint::KeepAlive;
use net::nodes::{NodeSet, Plan, PlannedNode};
use net::resolver::Resolver;

/// See the module.
pub struct Destination {
    uri: Box<str>,
    authority: Box<str>,
    target: Box<str>,
    nodes: Arc<Published<NodeSet>>,
    policy: Arc<OutboundPolicy>,
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
    let port = port(text, authority)?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Ok(Parts {
        host: authority.host().trim_matches(['[', ']']).into(),
        port,
        authority: authority.as_str().into(),
        // A URI may have a query and no path (RFC 9110 section 4.2.3: then the path is a slash).
        target: if target.starts_with('/') { target.into() } else { format!("/{target}").into() },
    })
}

/// The port of an authority without user information; that of `http` where none is written.
fn port(text: &str, authority: &Authority) -> Result<u16, String> {
    match authority.as_str()[authority.host().len()..].strip_prefix(':') {
        None | Some("") => Ok(PORT_IMPLIED),
        Some(digits) => match digits.parse() {
            Ok(port @ 1..) => Ok(port),
            _ => Err(format!("{text}: the port {digits} is not a number from 1 to 65535")),
        },
    }
}

/// The port that `http` means without saying (RFC 9110 section 4.2.1).
const PORT_IMPLIED: u16 = 80;

impl Destination {
    /// A destination with a name that `resolver` looks up from now on; its idle connections are kept as `keep_alive` says.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence.
    pub fn new(
        uri: &str,
        keep_alive: KeepAlive,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<Destination, String> {
        let Parts { host, port, authority, target } = read(uri)?;
        let planned = PlannedNode { host, port, authority: (&*authority).into(), weight: 1, priority: 0 };
        let nodes = Arc::new(Published::new(Arc::new(NodeSet::default())));
        resolver.follow(&nodes, Plan { nodes: vec![planned], keep_alive, derive: None });
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
        check("http://[::1]/a", Ok(("::1", 80, "/a")));
        check("http://x.con:/", Ok(("x.con", 80, "/")));
        check("http://x.con:65535/", Ok(("x.con", 65535, "/")));
        for uri in ["http://127.0.0.1:99999/", "http://[::1]:65536/", "http://x.con:0/", "http://x.con:x/"] {
            check(uri, Err(""));
        }
        check("http://127.0.0.1:99999/", Err("the port 99999 is not a number from 1 to 65535"));
        check("https://x.con", Err("https is not supported yet"));
        check("ftp://x.con", Err("ftp is not supported yet"));
        check("http://me:secret@x.con/", Err("user"));
        check("127.0.0.1:1024", Err("absolute"));
        check("/auth", Err("absolute"));
        check("http://", Err(""));
        check("http://a b/", Err("not a URI"));
        check("", Err(""));
    }
}
