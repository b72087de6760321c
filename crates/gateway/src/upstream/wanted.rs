//! The wishes of a request about its node: the key of a consistent hash, the subset, and the node of its
//! session.

use std::num::NonZeroU64;

use super::Upstream;
use super::hash_key;
use super::select::subset::name_hash;
use exchange::Exchange;
use exchange::plugin::stream::StreamSession;

/// See the module. Of no meaning for another upstream. Small, because each exchange in flight holds one.
#[derive(Default)]
pub(crate) struct WantedNode {
    /// The hash of the key, for a method that uses one.
    pub(crate) key_hash: u32,
    /// The name of the subset, hashed; 0 for an upstream without subsets.
    pub(crate) subset: u64,
    /// The tag of the node that the session is at.
    pub(crate) sticky: Option<NonZeroU64>,
}

impl WantedNode {
    /// The wishes of a session of layer 4 at `upstream`; stickiness by cookies is a matter of HTTP.
    pub(crate) fn of_session(upstream: &Upstream, session: &StreamSession) -> WantedNode {
        let key_hash = hash_key::session_key_hash(upstream, session);
        let mut wanted = WantedNode { key_hash, ..WantedNode::default() };
        if let Some(subsets) = &upstream.policies.subsets {
            let mut name = Vec::new();
            subsets.name(session, &mut name);
            wanted.subset = name_hash(&name);
        }
        wanted
    }

    /// The wishes of the request at `upstream`, at `now_ms` of the monotonic clock.
    #[inline]
    pub(crate) fn of(upstream: &Upstream, exchange: &mut Exchange, now_ms: u64) -> WantedNode {
        let key_hash = hash_key::hash_request_key(upstream, exchange);
        let mut wanted = WantedNode { key_hash, ..WantedNode::default() };
        if let Some(subsets) = &upstream.policies.subsets {
            let mut name = std::mem::take(&mut exchange.scratch);
            name.clear();
            subsets.name(exchange, &mut name);
            wanted.subset = name_hash(&name);
            exchange.scratch = name;
        }
        if let Some(sticky) = &upstream.policies.sticky {
            wanted.sticky = sticky.wanted(exchange, now_ms).and_then(NonZeroU64::new);
        }
        wanted
    }
}
