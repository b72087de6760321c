//! A session of layer 4 over a connection: its first bytes are looked at where a route or a plugin asks for them, then it has
//! a route, a node, and a tunnel to it, all on the worker that accepted it. It speaks no protocol.

mod first_bytes;
pub(super) mod node;
pub(super) mod open;
mod opened;
mod original;
pub(super) mod record;
mod spoken;

use stdx::pooled::PooledBox;

use super::h1;
use super::h1::connection::Connection;
use crate::tunnel::{self, Duplex, TunnelStop};
use exchange::plugin::stream::SessionEnd;
use net::env;
use stdx::buffer::Buffer;

use node::ConnectedNode;
use open::Opening;
pub(crate) use opened::Opened;
use record::SessionRecord;
use spoken::Spoken;

/// Serves the session until both sides have closed.
pub(crate) async fn serve(mut opened: Opened) {
    let context = opened.timer.context.clone();
    // Boxed, because a session lives for long and this state is large.
    let mut record = Box::new(SessionRecord::begin(&context, opened.session()));
    // In a pooled box, because the session needs this state only at its beginning.
    let begun = PooledBox::pin(open::open(&mut opened, &mut record)).await;
    let node = match begun {
        Ok(Opening::Connected(node)) => node,
        Ok(Opening::Http(first_bytes)) => {
            record.become_http();
            let Opened { stream, identity, place, timer, tls } = opened;
            let mut connection = Connection::new(stream, identity, place.into_guard(), tls);
            connection.input = (!first_bytes.is_empty()).then_some(first_bytes);
            env::spawn(h1::serve::serve(connection, timer));
            return;
        }
        Err(end) => {
            record.end_with(end);
            // An orderly close would look like an empty answer.
            return opened.stream.reset_on_close();
        }
    };
    let end = pass(opened, *node, &mut record).await;
    record.end_with(end);
}

/// Passes bytes both ways until both sides have closed, one has failed, or the session has had its time.
async fn pass(opened: Opened, node: ConnectedNode, record: &mut SessionRecord) -> SessionEnd {
    let ConnectedNode { stream, held, first_bytes, idle_timeout_ms, session_timeout_ms } = node;
    let Opened { stream: client, timer, place, .. } = opened;
    if session_timeout_ms > 0 {
        timer.deadline.set_cap(timer.context.local.now_ms().saturating_add(session_timeout_ms));
    }
    let client = Duplex { stream: client, buffer: first_bytes }.into_end();
    let endpoint = Duplex { stream, buffer: Buffer::none() }.into_end();
    let spoken = record.route.as_ref().and_then(|route| Spoken::begin(route, &record.session));
    let passed = match &spoken {
        None => tunnel::run(&timer.deadline, client, endpoint, idle_timeout_ms).await,
        // Boxed, because other sessions are smaller without it.
        Some(spoken) => {
            let (client, endpoint) = (spoken.client(client), spoken.node(endpoint));
            Box::pin(tunnel::run(&timer.deadline, client, endpoint, idle_timeout_ms)).await
        }
    };
    let fault = spoken.and_then(Spoken::end);
    record.session.received_bytes = passed.up_bytes;
    record.session.sent_bytes = passed.down_bytes;
    held.end(&timer.context);
    drop(place);
    if let Some(fault) = fault {
        tracing::debug!(client = %record.session.client_address, reason = %fault, "a session was ended: its bytes break the rules of the protocol");
        record.session.reason = Some(fault);
        return SessionEnd::ProtocolFault;
    }
    match passed.end {
        TunnelStop::Closed => SessionEnd::Closed,
        TunnelStop::Client => SessionEnd::ClientReset,
        TunnelStop::Endpoint => SessionEnd::NodeReset,
        TunnelStop::Idle => SessionEnd::IdleTimeout,
        TunnelStop::Late => SessionEnd::SessionTimeout,
    }
}
