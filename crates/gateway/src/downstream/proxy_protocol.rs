//! The PROXY protocol header of a downstream connection, which stands in front of TLS and HTTP: it is read
//! within the time of a request head, and the client that it names becomes the peer of the connection before
//! any other part of the gateway sees it. Peers of `proxy_protocol_from` alone are believed.
//!
//! A listener knows no header, asks for one, or takes both where `proxy_protocol_optional` says so. A trusted
//! peer is looked at there until its first bytes are those of a header or of something else. Any other peer
//! is served as itself, and one that begins with a header is refused, because it tries to choose its own
//! address: at once where TLS or HTTP waits for the client anyway, otherwise where a session of layer 4 reads
//! its first bytes (`stream/first_bytes.rs`). A session that reads none may have a server that speaks first,
//! and passes all bytes on as the client's.

mod header_reader;

use std::net::SocketAddr;
use std::rc::Rc;

use super::arrival::{ConnectionIdentity, TcpArrival, within_deadline};
use super::connection_guard::AddressPlace;
use super::h1::timer::ConnectionTimer;
use super::header_refusal::{UNTRUSTED_HEADER, refuse_proxy_header};
use super::layers;
use crate::observe::failures::ConnectionRefusal;
use exchange::client_address::{RealIpOptions, contains};
use exchange::exchange::ProxyContext;
use exchange::observe::pace::Pace;
use net::env;
use net::listener::{Application, Listener};

use header_reader::{ProxyHeaderFault, begins_with_header, read_header};

/// Of the line about peers that may send no header.
static UNTRUSTED: Pace = Pace::every_ms(10_000);

/// Whether the header of this peer is believed.
pub(crate) fn trusts(options: &RealIpOptions, peer: SocketAddr) -> bool {
    contains(&options.proxy_protocol_from, peer.ip().to_canonical())
}

/// Whether the peer of a socket is refused because its listener asks for a header and the peer may send none.
/// The operator is told of it, since a balancer that is missing in the setting loses all its clients.
pub(crate) fn refuses(listener: &Listener, options: &RealIpOptions, peer: SocketAddr, now_ms: u64) -> bool {
    let protocols = listener.wanted().protocols;
    if !protocols.proxy_protocol || protocols.proxy_protocol_optional || trusts(options, peer) {
        return false;
    }
    if let Some(count) = UNTRUSTED.add(1, now_ms) {
        tracing::warn!(
            %peer,
            count,
            "refused connections to a listener with PROXY protocol: proxy_protocol_from does not name their peer"
        );
    }
    true
}

/// Serves a trusted peer: reads the header, then serves the connection by the other protocols of its
/// listener. Its place among the connections is counted; that of its address is claimed here, for the client
/// that the header names.
pub(crate) async fn serve_proxy_protocol(arrival: TcpArrival, timer: ConnectionTimer) {
    let TcpArrival { mut stream, identity, counted } = arrival;
    let local = &timer.context.clone().local;
    let ends_ms = local.now_ms() + local.options.limits.head_timeout_ms;
    if identity.listener.listener.wanted().protocols.proxy_protocol_optional {
        let looking = begins_with_header(&mut stream);
        let timeout_ms = local.options.limits.head_timeout_ms;
        let outcome = within_deadline(looking, timeout_ms, identity.id, &identity.listener, &timer).await;
        timer.end_idle();
        match outcome {
            Some(Ok(true)) => {}
            Some(Ok(false)) => return claim_and_serve(TcpArrival { stream, identity, counted }, timer),
            // Gone, or silent for as long as a client may be.
            Some(Err(_)) | None => return,
        }
    }
    let timeout_ms = ends_ms.saturating_sub(local.now_ms());
    let reading = read_header(&mut stream);
    let outcome = within_deadline(reading, timeout_ms, identity.id, &identity.listener, &timer).await;
    let gives_way = timer.gives_way();
    timer.end_idle();
    let fault = match outcome {
        Some(Ok(Some(header))) => {
            let proxy = Rc::new(ProxyContext { sender: identity.peer, header });
            let identity = ConnectionIdentity { peer: proxy.peer(), proxy: Some(proxy), ..identity };
            return claim_and_serve(TcpArrival { stream, identity, counted }, timer);
        }
        // A balancer that checks whether the port is open.
        Some(Ok(None)) => return,
        Some(Err(fault)) => fault,
        None if gives_way || identity.listener.queue().is_some() => return,
        None => ProxyHeaderFault::Late,
    };
    refuse_proxy_header(&timer, &identity, &fault);
    stream.reset_on_close();
}

/// Serves the connection by the other protocols of its listener, if the client's address may have one more.
fn claim_and_serve(arrival: TcpArrival, timer: ConnectionTimer) {
    let local = &timer.context.local;
    if !local.shared.addresses.claim(arrival.identity.peer.ip()) {
        timer.context.status.failures.refused(ConnectionRefusal::MaxConnectionsPerAddress);
        return arrival.stream.reset_on_close();
    }
    layers::serve_protocol_layers(arrival, timer);
}

/// Serves a peer that is not trusted, at a listener where the header may be missing. Its address is counted
/// by now.
pub(crate) fn serve_untrusted(arrival: TcpArrival, timer: ConnectionTimer) {
    let protocols = arrival.identity.listener.listener.wanted().protocols;
    if protocols.application == Application::Stream && !protocols.tls {
        return layers::serve_protocol_layers(arrival, timer);
    }
    env::spawn(look_then_serve(arrival, timer));
}

/// Refuses a header, where the client has to speak first in any case.
async fn look_then_serve(arrival: TcpArrival, timer: ConnectionTimer) {
    let TcpArrival { mut stream, identity, counted } = arrival;
    let place = AddressPlace::new(counted, identity.peer.ip());
    let timeout_ms = timer.context.local.options.limits.head_timeout_ms;
    let looking = begins_with_header(&mut stream);
    let outcome = within_deadline(looking, timeout_ms, identity.id, &identity.listener, &timer).await;
    timer.end_idle();
    match outcome {
        Some(Ok(false)) => {
            let counted = place.into_guard();
            layers::serve_protocol_layers(TcpArrival { stream, identity, counted }, timer);
        }
        Some(Ok(true)) => {
            refuse_proxy_header(&timer, &identity, &UNTRUSTED_HEADER);
            stream.reset_on_close();
        }
        Some(Err(_)) | None => {}
    }
}
