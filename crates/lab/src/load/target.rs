//! The requested URL, parsed, with its name resolved once. It opens no connection.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};

/// Address and path of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTarget {
    /// Where to connect.
    pub address: SocketAddr,
    /// The value of `Host`.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Whether TLS is spoken.
    pub is_tls: bool,
    /// The kind of bytes that are carried to it.
    pub transport: LoadTransport,
}

/// The kinds of bytes that a URL may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadTransport {
    /// Requests of HTTP, or WebSocket.
    #[default]
    Http,
    /// Bytes over TCP.
    Tcp,
    /// Datagrams over UDP.
    Udp,
}

impl LoadTarget {
    /// Parses `http://HOST[:PORT]/PATH`, `https://…`, `ws://…`, `tcp://HOST:PORT` or `udp://HOST:PORT`. Fails
    /// on other schemes and on names that do not resolve.
    pub fn parse(url: &str) -> anyhow::Result<LoadTarget> {
        let (rest, is_tls, transport) = match url.split_once("://") {
            Some(("http" | "ws", rest)) => (rest, false, LoadTransport::Http),
            Some(("https", rest)) => (rest, true, LoadTransport::Http),
            Some(("tcp", rest)) => (rest, false, LoadTransport::Tcp),
            Some(("udp", rest)) => (rest, false, LoadTransport::Udp),
            Some((scheme, _)) => {
                bail!("{url} has the scheme {scheme}: http, https, ws, tcp and udp are known")
            }
            None => bail!("{url} is no URL: write http://HOST:PORT/PATH"),
        };
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        if host.is_empty() || host.contains(['@', '?', '#']) || path.contains('#') {
            bail!("{url} is no URL to ask: write http://HOST:PORT/PATH");
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            bail!("{url:?} has blanks or control characters: write them percent-encoded");
        }
        if transport != LoadTransport::Http && (path != "/" || !host.contains(':')) {
            bail!("{url} names no port, or a path: write tcp://HOST:PORT or udp://HOST:PORT");
        }
        // The port follows the last colon, unless that colon is within the brackets of an IPv6 address.
        let has_port = host.rfind(':').is_some_and(|colon| host.rfind(']').is_none_or(|end| end < colon));
        let with_port =
            if has_port { host.to_owned() } else { format!("{host}:{}", if is_tls { 443 } else { 80 }) };
        let address = with_port
            .to_socket_addrs()
            .with_context(|| format!("{host} cannot be resolved"))?
            .next()
            .with_context(|| format!("{host} has no address"))?;
        Ok(LoadTarget { address, host: host.to_owned(), path: path.to_owned(), is_tls, transport })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, wanted: (&str, &str, &str)| {
            let target = LoadTarget::parse(url).unwrap();
            let had = (target.address.to_string(), target.host, target.path);
            assert_eq!((had.0.as_str(), had.1.as_str(), had.2.as_str()), wanted, "{url}");
        };
        check("http://127.0.0.1:8080/a/b?c=d", ("127.0.0.1:8080", "127.0.0.1:8080", "/a/b?c=d"));
        check("https://127.0.0.1/a", ("127.0.0.1:443", "127.0.0.1", "/a"));
        check("http://127.0.0.1", ("127.0.0.1:80", "127.0.0.1", "/"));
        check("ws://[::1]:9/echo", ("[::1]:9", "[::1]:9", "/echo"));
        check("http://[::1]/", ("[::1]:80", "[::1]", "/"));
        check("tcp://127.0.0.1:9", ("127.0.0.1:9", "127.0.0.1:9", "/"));
        assert_eq!(LoadTarget::parse("udp://127.0.0.1:9").unwrap().transport, LoadTransport::Udp);
    }

    #[test]
    fn unusable_url_is_refused() {
        let check = |url: &str, reason: &str| {
            let error = format!("{:#}", LoadTarget::parse(url).unwrap_err());
            assert!(error.contains(reason), "{url}: {error}");
        };
        check("wss://127.0.0.1/", "scheme wss");
        check("ftp://127.0.0.1/", "scheme ftp");
        check("tcp://127.0.0.1", "names no port");
        check("udp://127.0.0.1:9/path", "or a path");
        check("127.0.0.1:80/", "write http://");
        check("http:///", "write http://");
        check("http://user@127.0.0.1/", "write http://");
        check("http://127.0.0.1/a b", "percent-encoded");
        check("http://127.0.0.1:99999/", "cannot be resolved");
    }
}
