//! A client's QUIC connection from its first packet to the end of its handshake; then HTTP/3 goes on. It
//! knows no certificate.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use quinn::{Connecting, ConnectionError};

use super::connection::H3Connection;
use super::serve;
use crate::downstream::arrival::{ConnectionIdentity, within_deadline};
use crate::downstream::connection_guard::{AddressPlace, ConnectionGuard};
use crate::downstream::h1::timer::ConnectionTimer;
use crate::observe::status::WorkerStatus;
use exchange::exchange::TlsContext;
use exchange::observe::histogram::bump;
use net::env;
use net::quic::Guarded;
use net::tls::server::QuicHandshake;

/// A connection before the end of its handshake, with its places in the counts.
pub(crate) struct QuicArrival {
    pub(crate) connecting: Guarded<Connecting>,
    pub(crate) identity: ConnectionIdentity,
    pub(crate) counted: ConnectionGuard,
    pub(crate) handshaking: Handshaking,
}

/// A handshake in progress, counted for as long as this lives.
pub(crate) struct Handshaking(Arc<WorkerStatus>);

impl Handshaking {
    pub(crate) fn begin(status: &Arc<WorkerStatus>) -> Handshaking {
        status.http3_handshakes.fetch_add(1, Ordering::Relaxed);
        Handshaking(status.clone())
    }
}

impl Drop for Handshaking {
    fn drop(&mut self) {
        self.0.http3_handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for the end of the handshake, then serves the connection in a task of its own.
pub(crate) async fn serve_quic_connection(arrival: QuicArrival, timer: ConnectionTimer) {
    let QuicArrival { connecting, identity, counted, handshaking } = arrival;
    let peer = identity.peer.ip();
    // Until the connection has its own, so that the address's place is given back in any case.
    let place = AddressPlace::new(counted, peer);
    let context = timer.context.clone();
    let timeout_ms = context.local.options.limits.handshake_timeout_ms;
    let outcome =
        within_deadline(handshake(connecting), timeout_ms, identity.id, &identity.listener, &timer).await;
    timer.end_idle();
    drop(handshaking);
    let status = &context.status;
    match outcome {
        Some(Ok((quic, handshake))) => {
            let QuicHandshake { facts, site } = handshake;
            bump(if facts.is_resumed { &status.tls_resumed } else { &status.tls_full }, 1);
            let tls = Rc::new(TlsContext { facts, site, alt_svc: None });
            let connection = H3Connection::new(quic, identity, place.into_guard(), tls);
            env::spawn(serve::serve_h3_connection(connection, timer));
        }
        Some(Err(reason)) => {
            bump(&status.tls_failed, 1);
            tracing::debug!(%peer, %reason, "a QUIC handshake failed");
        }
        None => {
            bump(&status.tls_failed, 1);
            tracing::debug!(%peer, "a QUIC handshake was not complete in time");
        }
    }
}

async fn handshake(
    mut connecting: Guarded<Connecting>,
) -> Result<(Guarded<quinn::Connection>, QuicHandshake), String> {
    let connected = poll_fn(|cx| {
        let polled = connecting.call(|connecting| Pin::new(connecting).poll(cx));
        polled.unwrap_or(Poll::Ready(Err(ConnectionError::Reset)))
    });
    let quic = connected.await.map_err(|error| error.to_string())?;
    let quic = connecting.another(quic);
    let handshake =
        quic.call_ref(QuicHandshake::of).unwrap_or_else(|| Err("the endpoint has failed".to_owned()));
    match handshake {
        Ok(handshake) => Ok((quic, handshake)),
        Err(reason) => {
            quic.call_ref(|quic| quic.close(ACCESS_DENIED, reason.as_bytes()));
            Err(reason)
        }
    }
}

/// H3_REQUEST_REJECTED would let the client repeat its requests; the alert access_denied cannot be sent after
/// the handshake, so that the code of RFC 9114 for a connection without further reason is used.
const ACCESS_DENIED: quinn::VarInt = quinn::VarInt::from_u32(0x101);
