//! Session stickiness: requests with the same value of a cookie are sent to the same node. The gateway sets
//! the cookie itself, with a tag that identifies the node, or learns values that the application sets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::digest;
use net::nodes::NodeSet;
use router::vars::Template;

use super::sticky_sessions::StickySessions;
use exchange::Exchange;

/// See the module.
pub struct Sticky {
    /// The name of the cookie.
    pub cookie: Box<str>,
    /// The variable that reads it.
    pub read: Template,
    /// The upstream, as the input of tags.
    pub identity: Arc<str>,
    /// The cookie's origin.
    pub mode: StickyMode,
}

/// The origin of the cookie.
pub enum StickyMode {
    /// The gateway; with these attributes, written as a `Set-Cookie` ends.
    Set(Box<str>),
    /// The application.
    Learn {
        /// The sessions that were seen.
        sessions: Arc<StickySessions>,
        /// Time after which a session without a request is forgotten, in milliseconds.
        ttl_ms: u64,
    },
}

/// The tag of a node: equal on all instances and after restarts, because it depends only on the upstream's
/// identity and the node's address. It does not show the address; 64 bits tell any number of nodes apart.
pub(crate) fn tag(identity: &str, address: SocketAddr) -> u64 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"weir sticky node\0");
    context.update(identity.as_bytes());
    context.update(b"\0");
    context.update(address.to_string().as_bytes());
    let digest = context.finish();
    u64::from_be_bytes(*digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}

/// The tags of the nodes of a set.
pub(crate) struct NodeTags {
    /// By tag; of several nodes with one address the last.
    nodes: HashMap<u64, usize>,
    /// By node.
    tags: Vec<u64>,
}

impl NodeTags {
    /// The tags of the nodes of `set` at the upstream of `sticky`.
    pub(crate) fn of(sticky: &Sticky, set: &NodeSet) -> NodeTags {
        let tags: Vec<u64> =
            set.nodes.iter().map(|node| tag(&sticky.identity, node.endpoint.address)).collect();
        NodeTags { nodes: tags.iter().copied().zip(0..).collect(), tags }
    }

    /// The node with this tag.
    pub(crate) fn node(&self, tag: u64) -> Option<usize> {
        self.nodes.get(&tag).copied()
    }

    /// The tag of this node.
    pub(crate) fn tag(&self, node: usize) -> Option<u64> {
        self.tags.get(node).copied()
    }
}

impl Sticky {
    /// The tag of the node that the request's session is at; none without a session.
    pub(crate) fn wanted(&self, exchange: &mut Exchange, now_ms: u64) -> Option<u64> {
        let mut value = std::mem::take(&mut exchange.scratch);
        value.clear();
        self.read.render(exchange, &mut value);
        let tag = if value.is_empty() { None } else { self.node_of(&value, now_ms) };
        exchange.scratch = value;
        tag
    }

    fn node_of(&self, value: &[u8], now_ms: u64) -> Option<u64> {
        match &self.mode {
            StickyMode::Set(_) => {
                let digits = std::str::from_utf8(value).ok().filter(|digits| digits.len() == 16)?;
                u64::from_str_radix(digits, 16).ok()
            }
            StickyMode::Learn { sessions, ttl_ms } => sessions.node_of(value, now_ms, *ttl_ms),
        }
    }

    /// Ties the session to the node with this tag, which has answered: sets the cookie if the request did not
    /// have it, or learns the one that the response sets. A session that the request has moves there only if
    /// it `may_move`.
    pub(crate) fn answered(&self, exchange: &mut Exchange, tag: u64, now_ms: u64, may_move: bool) {
        match &self.mode {
            StickyMode::Set(_) if !may_move => {}
            StickyMode::Set(attributes) => {
                if self.wanted(exchange, now_ms) != Some(tag) {
                    let line = format!("{}={tag:016x}{attributes}", self.cookie);
                    // The name and the attributes were checked with the configuration.
                    let _ = exchange.response.headers.append("Set-Cookie", line.as_bytes());
                }
            }
            StickyMode::Learn { sessions, ttl_ms } => {
                // A session that had to move stays at its new node.
                let mut known = std::mem::take(&mut exchange.scratch);
                known.clear();
                self.read.render(exchange, &mut known);
                if may_move
                    && !known.is_empty()
                    && sessions.node_of(&known, now_ms, *ttl_ms).is_some_and(|node| node != tag)
                {
                    sessions.learn(&known, tag, now_ms, *ttl_ms);
                }
                let set = exchange.response.headers.get_all("Set-Cookie");
                for value in set.filter_map(|line| value_of(line, &self.cookie)) {
                    if may_move || value != known {
                        sessions.learn(value, tag, now_ms, *ttl_ms);
                    }
                }
                exchange.scratch = known;
            }
        }
    }
}

/// The value that a `Set-Cookie` gives to the cookie `name` (RFC 6265 section 5.2); none if it is another
/// cookie, or empty, as applications delete a cookie.
fn value_of<'l>(line: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let pair = line.split(|byte| *byte == b';').next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (given, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
    (given == name.as_bytes() && !value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_depends_on_upstream_and_address_alone() {
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        assert_eq!(
            tag("/upstreams/1", address(80)),
            0x7429_5191_e190_1fcd,
            "must never change between releases"
        );
        assert_ne!(tag("/upstreams/1", address(80)), tag("/upstreams/1", address(81)));
        assert_ne!(tag("/upstreams/1", address(80)), tag("/upstreams/2", address(80)));
    }

    #[test]
    fn value_is_taken_from_the_cookie_with_the_name() {
        for (line, value) in [
            ("sid=abc; Path=/", Some("abc")),
            // As `$cookie_NAME` reads it back: quotes are part of the value (RFC 6265 section 5.2).
            (" sid = \"abc\" ;HttpOnly", Some("\"abc\"")),
            ("sid=", None),
            ("SID=abc", None),
            ("other=abc; sid=x", None),
            ("sid", None),
        ] {
            assert_eq!(value_of(line.as_bytes(), "sid"), value.map(str::as_bytes), "{line}");
        }
    }
}
