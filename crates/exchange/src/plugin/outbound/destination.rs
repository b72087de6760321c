//! The destination of a plugin's calls: a URI, read once, with its addresses and its TLS identity. It opens
//! nothing.

use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, Scheme};
use model::outbound::OutboundPolicy;

use super::addresses::{Addresses, Connecting};
use super::error::{OutboundCause, OutboundError};
use super::tls::OutboundTls;
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::nodes::NodeSet;
use net::resolver::Resolver;
use net::tls::identity::{ALPN_HTTP1, ClientIdentities};

/// See the module.
pub struct OutboundDestination {
    addresses: Addresses,
    host: Box<str>,
    port: u16,
    authority: Box<str>,
    target: Box<str>,
}

/// Says whether plugins can reach peers by `uri`: an absolute `http` or `https` URI without user
/// information.
///
/// # Errors
/// Why not, a sentence.
pub fn check_uri(uri: &str) -> Result<(), String> {
    read_uri_parts(uri).map(drop)
}

/// The parts of a URI.
pub(super) struct UriParts {
    pub(super) is_tls: bool,
    pub(super) host: Box<str>,
    pub(super) port: u16,
    pub(super) authority: Box<str>,
    target: Box<str>,
}

pub(super) fn read_uri_parts(text: &str) -> Result<UriParts, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{text} is not a URI: {error}"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err(format!(
            "{text} is not an absolute URI: write http://HOST:PORT/PATH or https://HOST:PORT/PATH"
        ));
    };
    let is_tls = *scheme == Scheme::HTTPS;
    if !is_tls && *scheme != Scheme::HTTP {
        return Err(format!("{text}: {scheme} is not supported: write http or https"));
    }
    if authority.as_str().contains('@') {
        return Err(format!("{text}: a URI with a user in it is refused; it would be written to logs"));
    }
    if authority.host().trim_matches(['[', ']']).is_empty() {
        return Err(format!("{text}: the host is missing"));
    }
    let port = port(text, authority, if is_tls { PORT_OF_HTTPS } else { PORT_OF_HTTP })?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Ok(UriParts {
        is_tls,
        host: authority.host().trim_matches(['[', ']']).into(),
        port,
        authority: authority.as_str().into(),
        // A URI may have a query and no path (RFC 9110 section 4.2.3: then the path is a slash).
        target: if target.starts_with('/') { target.into() } else { format!("/{target}").into() },
    })
}

/// The port of an authority without user information; `implied` where none is written.
fn port(text: &str, authority: &Authority, implied: u16) -> Result<u16, String> {
    match authority.as_str()[authority.host().len()..].strip_prefix(':') {
        None | Some("") => Ok(implied),
        Some(digits) => match digits.parse() {
            Ok(port @ 1..) => Ok(port),
            _ => Err(format!("{text}: the port {digits} is not a number from 1 to 65535")),
        },
    }
}

/// The ports of URIs that name none (RFC 9110 sections 4.2.1 and 4.2.2).
const PORT_OF_HTTP: u16 = 80;
const PORT_OF_HTTPS: u16 = 443;

impl OutboundDestination {
    /// A destination with a name that `resolver` looks up from now on; its idle connections are kept as
    /// `keep_alive` says. An `https` URI is reached with the identity that `tls` describes.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence.
    pub(crate) fn new(
        uri: &str,
        keep_alive: KeepAlive,
        tls: &OutboundTls,
        identities: &ClientIdentities,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<OutboundDestination, String> {
        let UriParts { is_tls, host, port, authority, target } = read_uri_parts(uri)?;
        let tls = if is_tls { Some(identities.intern(tls.identity(ALPN_HTTP1))?) } else { None };
        let connecting = Connecting { tls, protocol: EndpointProtocol::Http1, keep_alive };
        let addresses = Addresses::follow(uri, &host, port, connecting, resolver, policy);
        Ok(OutboundDestination { addresses, host, port, authority, target })
    }

    /// The URI as it was written.
    pub fn uri(&self) -> &str {
        self.addresses.place()
    }

    /// The host, which a verified certificate has to be valid for.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also where the URI implies it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the Host field says them.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// See [`Addresses::nodes`].
    pub(super) fn nodes(&self) -> Result<Arc<NodeSet>, OutboundError> {
        self.addresses.nodes()
    }

    /// Waits until the name was looked up, with an address or without, at most `wait_ms` milliseconds; how
    /// many it has waited.
    pub async fn looked_up(&self, wait_ms: u64) -> u64 {
        self.addresses.looked_up(wait_ms).await
    }

    /// A failure at this place.
    pub(super) fn error(&self, cause: OutboundCause, detail: impl Into<String>) -> OutboundError {
        self.addresses.error(cause, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let check =
            |uri: &str, expected: Result<(&str, u16, &str), &str>| match (read_uri_parts(uri), expected) {
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
        check("https://x.con", Ok(("x.con", 443, "/")));
        check("https://[::1]:8443/a", Ok(("::1", 8443, "/a")));
        check("ftp://x.con", Err("ftp is not supported"));
        check("http://me:secret@x.con/", Err("user"));
        check("127.0.0.1:1024", Err("absolute"));
        check("/auth", Err("absolute"));
        check("http://", Err(""));
        check("http://a b/", Err("not a URI"));
        check("", Err(""));
    }
}
