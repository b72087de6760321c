//! The key of a request or a session for an upstream with consistent hashing.

use stdx::address_text::AddressText;

use super::balance::consistent_hash;
use super::{HashKey, Upstream};
use exchange::Exchange;
use exchange::plugin::stream::StreamSession;

/// The hash of the key for an upstream with consistent hashing; 0 for every other method.
pub(crate) fn hash_request_key(upstream: &Upstream, exchange: &mut Exchange) -> u32 {
    let Some(key) = &upstream.hash_key else { return 0 };
    let mut scratch = std::mem::take(&mut exchange.scratch);
    scratch.clear();
    match key {
        HashKey::Template(template) => {
            template.render(exchange, &mut scratch);
        }
        HashKey::Consumer => {
            let username = exchange.consumer().map_or("", |consumer| &consumer.username);
            scratch.extend_from_slice(username.as_bytes());
        }
    }
    // A key that is empty for this request is replaced by the client's address, as APISIX does.
    if scratch.is_empty() {
        let mut text = AddressText::default();
        scratch.extend_from_slice(text.write(exchange.client_address()));
    }
    let hash = consistent_hash::hash_ring_key(&scratch);
    exchange.scratch = scratch;
    hash
}

/// As [`hash_request_key`], of a session of layer 4, which has no consumer.
pub(crate) fn session_key_hash(upstream: &Upstream, session: &StreamSession) -> u32 {
    let Some(key) = &upstream.hash_key else { return 0 };
    let mut text = Vec::new();
    if let HashKey::Template(template) = key {
        template.render(session, &mut text);
    }
    if text.is_empty() {
        let mut address = AddressText::default();
        text.extend_from_slice(address.write(session.client_address).as_ref());
    }
    consistent_hash::hash_ring_key(&text)
}
