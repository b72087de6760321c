//! The beginning of a session: its first bytes, its route, the decisions of plugins, and a node. A client has
//! the time of a request head for what it has to send before.

use std::sync::Arc;

use super::first_bytes::FirstBytes;
use super::node::{self, ConnectedNode};
use super::opened::OpenedConnection;
use super::original;
use super::record::SessionRecord;
use crate::downstream::arrival::{ConnectionIdentity, within_deadline};
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::header_refusal::{UNTRUSTED_HEADER, is_untrusted, refuse_proxy_header};
use crate::pipeline::client_certificate::check_session;
use crate::runtime::Generation;
use crate::runtime::stream_route::{NamePattern, StreamQuery, StreamRoute, StreamTarget};
use crate::upstream::Upstream;
use exchange::exchange::TlsContext;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::stream::chain::Preread;
use exchange::plugin::stream::{SessionEnd, StreamSession};
use net::sniff::FirstProtocol;
use stdx::buffer::Buffer;

/// How a session goes on.
pub(super) enum SessionOpening {
    /// To a node.
    Connected(Box<ConnectedNode>),
    /// As a connection of the HTTP routes, with these bytes of the client, which were taken from it.
    Http(Buffer),
}

/// Begins the session.
///
/// # Errors
/// Why it ends.
pub(super) async fn open_session(
    opened: &mut OpenedConnection,
    record: &mut SessionRecord,
) -> Result<SessionOpening, SessionEnd> {
    let mut first_bytes = FirstBytes::default();
    let outcome = find_route(opened, record, &mut first_bytes).await;
    opened.timer.end_idle();
    let route = outcome?;
    if route.target == StreamTarget::Http {
        return Ok(SessionOpening::Http(first_bytes.into_buffer()));
    }
    record.session.first_bytes = Vec::new();
    let upstream = {
        let generation = opened.timer.context.generation();
        upstream_of(&generation, &route, &record.session).map_err(|failure| fail_session(record, failure))?
    };
    if let Some(original) = &upstream.original {
        original::admit_original_destination(opened, record, original)?;
    }
    let taken = first_bytes.into_buffer();
    let connected = node::connect_session_node(opened, record, &route, upstream, taken).await;
    connected
        .map(|node| SessionOpening::Connected(Box::new(node)))
        .map_err(|failure| fail_session(record, failure))
}

/// Finds the route, and lets its plugins decide.
async fn find_route(
    opened: &mut OpenedConnection,
    record: &mut SessionRecord,
    first_bytes: &mut FirstBytes,
) -> Result<Arc<StreamRoute>, SessionEnd> {
    let OpenedConnection { stream, identity, timer, tls, .. } = opened;
    let timeout_ms = timer.context.local.options.limits.head_timeout_ms;
    let generation = timer.context.generation();
    let asks = generation.stream_table.asks(&query(&record.session, None));
    // Before bytes are read, and once more when the route is known.
    admit(tls.as_deref(), &generation, None, &mut record.session)?;
    let mut no_route = SessionEnd::NoRoute;
    if !asks.is_none() {
        let reading = first_bytes.answer(asks, stream, &mut record.session, is_untrusted(identity));
        match within_deadline(reading, timeout_ms, identity.id, &identity.listener, timer).await {
            Some(read) => read?,
            // A client that sends nothing may wait for the server: a route that needs no first bytes serves
            // it.
            None => {
                first_bytes.give_up(&mut record.session);
                no_route = SessionEnd::PrereadTimeout;
            }
        }
        refuse_header(first_bytes, timer, identity, &mut record.session)?;
    }
    let found = generation.stream_table.find(&query(&record.session, first_bytes.protocol)).cloned();
    let pattern = found.as_ref().and_then(|route| route.matching.name.as_ref());
    admit(tls.as_deref(), &generation, pattern, &mut record.session)?;
    // A generation is not held over the waits of plugins.
    drop(generation);
    let route = found.ok_or(no_route)?;
    let session = &mut record.session;
    session.route_id = Some(route.id.clone());
    (session.route_name, session.service_id) = (route.name.clone(), route.service_id.clone());
    if route.uses_worker() {
        session.held.push(timer.context.local.clone());
    }
    record.route = Some(route.clone());
    if let Some(missing) = &route.missing {
        return Err(fail_session(record, missing.failure()));
    }
    if !route.plugins.reads_nothing() {
        let deciding = decide(&route, stream, &mut record.session, first_bytes);
        let decided = within_deadline(deciding, timeout_ms, identity.id, &identity.listener, timer).await;
        // A plugin that has read a header has refused it itself, as bytes of another protocol; the reason is
        // the header.
        let refused = refuse_header(first_bytes, timer, identity, &mut record.session);
        decided.ok_or(SessionEnd::PrereadTimeout).and_then(|decided| refused.and(decided))?;
    }
    Ok(route)
}

/// Refuses a session within TLS that has not satisfied the rules for client certificates of its server name,
/// or of its route's. TLS that a node ends is the node's matter.
fn admit(
    tls: Option<&TlsContext>,
    generation: &Generation,
    pattern: Option<&NamePattern>,
    session: &mut StreamSession,
) -> Result<(), SessionEnd> {
    let Some(tls) = tls else { return Ok(()) };
    check_session(&generation.sites, tls, pattern).map_err(|reason| {
        session.reason = Some(reason.into());
        SessionEnd::TlsHandshake
    })
}

/// Refuses first bytes that are a PROXY protocol header of a peer that may send none.
fn refuse_header(
    first_bytes: &FirstBytes,
    timer: &ConnectionTimer,
    identity: &ConnectionIdentity,
    session: &mut StreamSession,
) -> Result<(), SessionEnd> {
    // A header within TLS is none of the listener's.
    if session.tls.is_some() || !is_untrusted(identity) || !first_bytes.begin_with_header() {
        return Ok(());
    }
    refuse_proxy_header(timer, identity, &UNTRUSTED_HEADER);
    session.reason = Some("a PROXY protocol header of a peer that proxy_protocol_from does not name".into());
    Err(SessionEnd::PrereadFault)
}

/// Runs the plugins, with as many first bytes as they ask for.
async fn decide(
    route: &StreamRoute,
    stream: &mut net::transport::Transport,
    session: &mut StreamSession,
    first_bytes: &mut FirstBytes,
) -> Result<(), SessionEnd> {
    let mut position = 0;
    loop {
        match route.plugins.preread(session, &mut position).await {
            Preread::Done => return Ok(()),
            Preread::Rejected(plugin) => {
                tracing::debug!(plugin, client = %session.client_address, reason = ?session.reason, "a session was refused");
                return Err(session.end.unwrap_or(SessionEnd::Rejected));
            }
            Preread::More => first_bytes.more_for(stream, session).await?,
        }
    }
}

/// The session as the table of stream routes looks at it.
pub(in crate::downstream) fn query(
    session: &StreamSession,
    sniffed: Option<FirstProtocol>,
) -> StreamQuery<'_> {
    StreamQuery {
        transport: session.transport,
        client: session.client_address,
        local: session.local,
        name: session.sni.as_deref(),
        alpn: &session.alpn,
        sniffed,
    }
}

/// The upstream that a plugin has chosen, else the route's.
pub(in crate::downstream) fn upstream_of(
    generation: &Generation,
    route: &StreamRoute,
    session: &StreamSession,
) -> Result<Arc<Upstream>, ExchangeFailure> {
    let slot = match (&session.chosen_upstream, route.target) {
        (Some(chosen), _) => {
            let slot = generation.upstream_slots.get(chosen.identity()).copied();
            let missing = || format!("{chosen:?}, chosen by a plugin, does not exist");
            slot.ok_or_else(|| ExchangeFailure::new(Cause::NoUpstream, missing()))?
        }
        (None, StreamTarget::Upstream(slot)) => slot,
        (None, _) => return Err(ExchangeFailure::new(Cause::NoUpstream, "the stream route has no upstream")),
    };
    let missing = || ExchangeFailure::new(Cause::NoUpstream, "the upstream does not exist");
    generation.upstreams.get(slot).cloned().ok_or_else(missing)
}

/// Notes why the session fails.
pub(in crate::downstream) fn fail_session(
    record: &mut SessionRecord,
    failure: ExchangeFailure,
) -> SessionEnd {
    record.session.reason = Some(failure.detail.clone());
    SessionEnd::Failed(failure.cause)
}
