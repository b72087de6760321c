//! Sessions to the destination of their client, for upstreams of the type `original_dst`: whether one may go
//! there, and whether it would come back to this process. It opens no connection.

use std::net::SocketAddr;

use super::opened::OpenedConnection;
use super::record::SessionRecord;
use crate::context::WorkerContext;
use crate::upstream::original::OriginalPolicy;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::observe::pace::Pace;
use exchange::own_addresses::{CONNECTIONS_MAX, ConnectionSide, EntryFault, is_at};
use exchange::plugin::stream::{SessionEnd, StreamSession};
use net::listener::Interception;

/// Of the line about destinations that are refused.
static REFUSED: Pace = Pace::every_ms(10_000);
/// Of the line about sessions that would come back.
static LOOPS: Pace = Pace::every_ms(10_000);

/// Lets the session go to its destination. Its place in the table of own connections is held until it ends.
///
/// # Errors
/// Why it must not.
pub(super) fn admit_original_destination(
    opened: &OpenedConnection,
    record: &mut SessionRecord,
    policy: &OriginalPolicy,
) -> Result<(), SessionEnd> {
    let context = &opened.timer.context;
    let destination = record.session.local;
    let end = match judge(opened, &record.session) {
        Err(refused) => Err(refused),
        Ok(()) => match policy.refusal(destination) {
            Some(reason) => Err((SessionEnd::DestinationRefused, reason.to_owned())),
            None => Ok(()),
        },
    };
    if let Err((end, reason)) = end {
        tell(&record.session, end, &reason, context.local.now_ms());
        record.session.reason = Some(reason.into());
        return Err(end);
    }
    let peer = record.session.peer;
    enter(context, &mut record.session, peer, ConnectionSide::Accepted).map_err(|failure| {
        record.session.reason = Some(failure.detail.clone());
        SessionEnd::Failed(failure.cause)
    })
}

/// Takes the connection to the destination into the table of own connections too.
///
/// # Errors
/// It has come back to this process already.
pub(super) fn opened(
    context: &WorkerContext,
    session: &mut StreamSession,
    own: SocketAddr,
) -> Result<(), ExchangeFailure> {
    enter(context, session, own, ConnectionSide::Opened)
}

fn enter(
    context: &WorkerContext,
    session: &mut StreamSession,
    sender: SocketAddr,
    side: ConnectionSide,
) -> Result<(), ExchangeFailure> {
    let fault = match context.local.shared.own_addresses.enter(sender, session.local, side) {
        Ok(entry) => {
            session.hold(entry);
            return Ok(());
        }
        Err(fault) => fault,
    };
    let (cause, reason) = match fault {
        EntryFault::Loop => (Cause::LoopDetected, REDIRECTED_BACK.to_owned()),
        EntryFault::Full => {
            (Cause::UpstreamRequests, format!("{CONNECTIONS_MAX} connections of such sessions are open"))
        }
    };
    tell(session, SessionEnd::Failed(cause), &reason, context.local.now_ms());
    Err(ExchangeFailure::new(cause, reason))
}

/// The reason of a loop through the kernel.
const REDIRECTED_BACK: &str = "the rules of the kernel redirect the gateway's own connections back to it: exempt its user (iptables: -m owner --uid-owner)";

/// Whether the session has another destination than this process.
fn judge(opened: &OpenedConnection, session: &StreamSession) -> Result<(), (SessionEnd, String)> {
    let listener = &opened.identity.listener.listener;
    let destination = session.local;
    let is_redirected = match listener.wanted().protocols.interception {
        Interception::None => {
            let reason = "the listener takes no connections to other destinations: name it in stream_tproxy or stream_redirect";
            return Err((SessionEnd::NotIntercepted, reason.to_owned()));
        }
        Interception::Tproxy => !is_at(listener.address(), destination),
        Interception::Redirect => opened.stream.local_address().is_ok_and(|local| local != destination),
    };
    if !is_redirected {
        let reason =
            format!("the client has connected to {destination} itself, which is the address of the listener");
        return Err((SessionEnd::NotIntercepted, reason));
    }
    if let Some(own) = opened.timer.context.local.shared.own_addresses.listener_at(destination) {
        let reason = format!("the destination {destination} is the listener {own} of this instance");
        return Err((SessionEnd::Failed(Cause::LoopDetected), reason));
    }
    Ok(())
}

/// Says it in the log, a line per interval at most.
fn tell(session: &StreamSession, end: SessionEnd, reason: &str, now_ms: u64) {
    let is_refused = end == SessionEnd::DestinationRefused;
    let pace = if is_refused { &REFUSED } else { &LOOPS };
    let Some(count) = pace.add(1, now_ms) else { return };
    let (client, destination, cause) = (session.client_address, session.local, end.code());
    let route = session.route_id.as_deref().unwrap_or("-");
    tracing::warn!(%client, %destination, %route, %cause, %reason, count, "refused sessions to the destinations of their clients");
}
