//! The server name of TLS to an upstream: the Host that the node sees, without its port. It is sent as SNI, and the node's
//! certificate is checked against it. Opens nothing.

use std::borrow::Cow;

use exchange::Exchange;

use super::{PassHost, Upstream};

/// The server name of an attempt at the node that is written as `node_host`. It may be no name at all, since with
/// `pass_host: pass` it is the client's Host.
pub(crate) fn of<'e>(exchange: &'e Exchange, upstream: &'e Upstream, node_host: &'e str) -> Cow<'e, str> {
    let target = &exchange.target;
    if target.host_is_rewritten
        && let Some(host) = &target.forward_host
    {
        return String::from_utf8_lossy(without_port(host));
    }
    match &upstream.pass_host {
        PassHost::Pass => String::from_utf8_lossy(without_port(&target.host)),
        PassHost::Node => String::from_utf8_lossy(without_port(node_host.as_bytes())),
        PassHost::Rewrite(host) => String::from_utf8_lossy(without_port(host.as_bytes())),
    }
}

/// An authority without its port. An IPv6 address keeps its brackets.
pub(super) fn without_port_str(authority: &str) -> &str {
    // The cut is at a colon, which is no part of another character.
    &authority[..without_port(authority.as_bytes()).len()]
}

fn without_port(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !authority[colon..].contains(&b']') => &authority[..colon],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_and_addresses_stay_whole() {
        let check = |authority: &str, expected: &str| {
            assert_eq!(without_port(authority.as_bytes()), expected.as_bytes());
        };
        check("a.example", "a.example");
        check("a.example:443", "a.example");
        check("[::1]", "[::1]");
        check("[::1]:443", "[::1]");
        check("", "");
        check(":443", "");
    }
}
