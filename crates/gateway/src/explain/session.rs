//! Explains the decision on a session of layer 4: the stream route that it would get, why others lose, and
//! its nodes. It reads nothing and connects nowhere.

use std::sync::Arc;

use exchange::plugin::stream::StreamTransport;
use model::report::{ExplainSession, SessionTransport};
use net::sniff::FirstProtocol;
use serde_json::{Value, json};

use super::destination;
use crate::runtime::Runtime;
use crate::runtime::StreamRoute;
use crate::runtime::stream_route::{StreamQuery, StreamTarget};
use crate::runtime::stream_table::SniffNeeds;

/// Stream routes that a record lists at most; `considered_total` is the number of all.
const CONSIDERED_MAX: usize = 100;

/// The protocols that a stream route may ask for.
const FIRST_PROTOCOLS: [FirstProtocol; 5] =
    [FirstProtocol::Http1, FirstProtocol::Http2, FirstProtocol::Tls, FirstProtocol::Ssh, FirstProtocol::Mqtt];

/// The record for a session: `revision`, the stream route that `matched`, why it serves nothing (`closed`),
/// the first bytes that it `awaits`, the routes that were `considered`, the most precise first, with the
/// condition that each of them misses, and the `upstream` with its nodes. A plugin may choose another
/// upstream.
///
/// # Errors
/// The fault of the question, as a sentence.
pub fn explain_session(runtime: &Runtime, session: &ExplainSession) -> Result<Value, String> {
    let name = session.sni.as_ref().map(|name| name.to_ascii_lowercase());
    let alpn: Vec<Box<str>> = session.alpn.iter().map(|offered| offered.as_str().into()).collect();
    let query = StreamQuery {
        transport: match session.transport {
            SessionTransport::Tcp => StreamTransport::Tcp,
            SessionTransport::Tls => StreamTransport::Tls,
            SessionTransport::Udp => StreamTransport::Udp,
        },
        client: session.remote_addr,
        local: session.local,
        name: name.as_deref(),
        alpn: &alpn,
        sniffed: session.first.as_deref().map(first_protocol).transpose()?,
    };
    let matched = runtime.stream_table.find(&query);
    let considered = runtime.stream_table.routes().iter().take(CONSIDERED_MAX).map(|route| {
        let hidden_by = || runtime.stream_table.hides(route, &query);
        let (verdict, by) = match (matched, route.matching.misses(&query)) {
            (Some(winner), _) if Arc::ptr_eq(winner, route) => ("matched", None),
            (_, Some(condition)) => (condition, None),
            (winner, None) => match hidden_by() {
                Some(plain) => ("first_bytes", Some(&*plain.id)),
                None => ("outranked", winner.map(|winner| &*winner.id)),
            },
        };
        json!({ "id": &*route.id, "name": route.name.as_deref(), "verdict": verdict, "by": by })
    });
    let considered: Vec<Value> = considered.collect();
    let slot = matched.and_then(|route| match route.target {
        StreamTarget::Upstream(slot) => Some(slot),
        StreamTarget::Http | StreamTarget::None => None,
    });
    let closed = matched.and_then(|route| route.missing.as_ref()).map(|missing| &missing.detail);
    let upstream = slot.filter(|_| closed.is_none()).and_then(|slot| runtime.upstreams.get(slot));
    Ok(json!({
        "revision": runtime.revision,
        "matched": matched.map(|route| described(route)),
        "closed": closed,
        "awaits": awaited(runtime.stream_table.asks(&query)),
        "considered": considered,
        "considered_total": runtime.stream_table.routes().len(),
        "upstream": upstream.map(|upstream| destination::of_session(upstream, session.local)),
    }))
}

/// The first bytes that a session waits for before it has a route.
fn awaited(asks: SniffNeeds) -> Vec<&'static str> {
    let hello = asks.hello.then_some("client_hello");
    hello.into_iter().chain(asks.protocols.protocols().map(FirstProtocol::as_str)).collect()
}

fn described(route: &StreamRoute) -> Value {
    let target = match route.target {
        StreamTarget::Upstream(_) => "upstream",
        StreamTarget::Http => "http",
        StreamTarget::None => "none",
    };
    json!({
        "id": &*route.id,
        "name": route.name.as_deref(),
        "service_id": route.service_id.as_deref(),
        "plugins": route.plugins.instances().iter().map(|instance| instance.name).collect::<Vec<_>>(),
        "target": target,
    })
}

fn first_protocol(name: &str) -> Result<FirstProtocol, String> {
    let known = || FIRST_PROTOCOLS.iter().map(|protocol| protocol.as_str());
    FIRST_PROTOCOLS.into_iter().find(|protocol| protocol.as_str() == name).ok_or_else(|| {
        format!(
            "`{name}` is no protocol of first bytes; known are {}",
            known().collect::<Vec<_>>().join(", ")
        )
    })
}
