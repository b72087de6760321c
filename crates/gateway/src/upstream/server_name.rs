//! The server name of TLS to an upstream: the Host that the node sees, without its port. It is sent as SNI,
//! and the node's certificate is checked against it. Opens nothing.

use std::borrow::Cow;

use exchange::Exchange;

use super::authority::strip_port;
use super::{PassHost, Upstream};

/// The server name of an attempt at the node that is written as `node_host`. It may be no name at all, since
/// with `pass_host: pass` it is the client's Host.
pub(crate) fn attempt_server_name<'e>(
    exchange: &'e Exchange,
    upstream: &'e Upstream,
    node_host: &'e str,
) -> Cow<'e, str> {
    let target = &exchange.target;
    if target.host_is_rewritten
        && let Some(host) = &target.forward_host
    {
        return String::from_utf8_lossy(strip_port(host));
    }
    match &upstream.pass_host {
        PassHost::Pass => String::from_utf8_lossy(strip_port(&target.host)),
        PassHost::Node => String::from_utf8_lossy(strip_port(node_host.as_bytes())),
        PassHost::Rewrite(host) => String::from_utf8_lossy(strip_port(host.as_bytes())),
    }
}
