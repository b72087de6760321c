//! The use of one UDP socket: sessions of layer 4 (`downstream::datagrams`), or QUIC. The QUIC endpoint:
//! which clients are served, told to prove their address (Retry), or refused, and a new endpoint after a
//! panic of the library. Connections are served by `downstream::h3`.

use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quinn::Incoming;

use super::accept::{admission, next_connection, release_address};
use super::state::Worker;
use crate::command::{AcceptQueuePolicy, Handle};
use crate::downstream::arrival::ConnectionIdentity;
use crate::downstream::connection_guard::ConnectionGuard;
use crate::downstream::datagrams::DatagramWorker;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::h3::handshake::{self, Handshaking, QuicArrival};
use crate::downstream::listener_state::OpenListener;
use exchange::observe::histogram::bump;
use net::env;
use net::listener::Application;
use net::quic::{EndpointParts, Guarded, QuicEndpoint, QuicLimits};
use net::tls::server::QuicTls;

/// Unidirectional streams that a client may open.
const UNI_STREAMS: u32 = http3::Limits::UNI_STREAMS;
/// How long a worker waits before it opens an endpoint again, so that a packet which makes the library panic
/// at once costs little.
const REOPEN_MS: u64 = 100;

/// Serves the clients of one socket until its listener closes.
pub(super) async fn serve_udp_socket(
    worker: Rc<Worker>,
    peers: Rc<[Handle]>,
    open: Rc<OpenListener>,
    number: usize,
    socket: UdpSocket,
) {
    if open.listener.wanted().protocols.application == Application::Stream {
        let workers = peers.iter().filter(|peer| peer.status.takes_part()).count();
        match sessions_of(&worker, workers.max(1)) {
            Ok(sessions) => sessions.serve_clients(open, socket).await,
            Err(error) => {
                let address = open.listener.address();
                tracing::error!(%error, %address, worker = worker.context.local.index, "a worker cannot serve datagrams");
            }
        }
        return;
    }
    while open.queue().is_none() {
        let endpoint = match open_endpoint(&worker, &open, number, &socket) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let address = open.listener.address();
                tracing::error!(%error, %address, worker = worker.context.local.index, "a worker cannot serve HTTP/3");
                return;
            }
        };
        tokio::select! {
            biased;
            () = endpoint.accept_each(|incoming| decide(&worker, &peers, &open, &endpoint, incoming)) => {}
            () = open.closing() => {
                // Its connections go on and keep it alive.
                match open.queue() {
                    Some(AcceptQueuePolicy::Leave) => endpoint.leave_socket(),
                    Some(AcceptQueuePolicy::Serve) | None => endpoint.stop_accepting(),
                }
                return;
            }
        }
        if !endpoint.health().has_failed() {
            return;
        }
        bump(&worker.context.status.http3_restarts, 1);
        let address = open.listener.address();
        tracing::error!(
            %address,
            worker = worker.context.local.index,
            "a QUIC endpoint panicked: its connections are lost, and it is opened again"
        );
        drop(endpoint);
        // The tasks of its connections see the failure and end.
        worker.wake_connections();
        env::sleep_ms(REOPEN_MS).await;
    }
}

/// The sessions over UDP of a worker, with the tasks that they need.
fn sessions_of(worker: &Rc<Worker>, workers: usize) -> std::io::Result<Rc<DatagramWorker>> {
    if let Some(sessions) = worker.datagrams.get() {
        return Ok(sessions.clone());
    }
    let sessions = DatagramWorker::new(&worker.context, workers)?;
    worker.spawn_critical(sessions.clone().serve_nodes());
    worker.spawn_critical(sessions.clone().end_idle());
    Ok(worker.datagrams.get_or_init(|| sessions).clone())
}

fn open_endpoint(
    worker: &Worker,
    open: &OpenListener,
    number: usize,
    socket: &UdpSocket,
) -> std::io::Result<QuicEndpoint> {
    let generation = worker.context.generation();
    let tls = generation.tls.as_ref().ok_or_else(|| std::io::Error::other("there is no TLS"))?;
    let tls = QuicTls::new(tls).map_err(std::io::Error::other)?;
    let limits = &worker.context.local.options.limits.http3;
    let process = &worker.quic;
    let make = |sockets: usize| process.steering(open.listener.address(), sockets);
    QuicEndpoint::open(EndpointParts {
        socket: socket.try_clone()?,
        number,
        steering: &open.listener.datagrams().steering(make),
        secret: &process.secret,
        limits: QuicLimits {
            streams: limits.max_streams,
            uni_streams: UNI_STREAMS,
            stream_window_bytes: limits.stream_window_bytes,
            connection_window_bytes: limits.connection_window_bytes,
        },
        tls,
        counts: Arc::clone(&worker.context.status.quic),
    })
}

/// Decides about a client that has sent its first packet.
async fn decide(
    worker: &Rc<Worker>,
    peers: &[Handle],
    open: &Rc<OpenListener>,
    endpoint: &QuicEndpoint,
    incoming: Guarded<Incoming>,
) {
    let (status, limits) = (&worker.context.status, &worker.context.local.options.limits);
    let facts = incoming.call_ref(|incoming| {
        (incoming.remote_address(), incoming.may_retry(), incoming.remote_address_validated())
    });
    let Some((peer, may_retry, is_validated)) = facts else { return };
    let handshakes = status.http3_handshakes.load(Ordering::Relaxed);
    // Connections are counted by address only where that address was proven, because others could use up its
    // share.
    let counts_addresses = limits.max_connections_per_address != 0;
    if may_retry && !is_validated && (handshakes >= limits.http3.retry_handshakes || counts_addresses) {
        bump(&status.http3_retries, 1);
        // It fails only for a validated address.
        let _ = incoming.give(Incoming::retry);
        return;
    }
    if handshakes >= limits.http3.max_handshakes {
        incoming.give(Incoming::refuse);
        return;
    }
    let connections = peers.iter().map(|peer| peer.status.connections.load(Ordering::Relaxed)).sum();
    if let Some(refusal) = admission(worker, connections, peer, &open.listener) {
        status.failures.refused(refusal);
        incoming.give(Incoming::refuse);
        return;
    }
    let connecting = match endpoint.begin(incoming, &worker.context.generation().sites) {
        Ok(connecting) => connecting,
        Err(error) => {
            release_address(worker, peer, &open.listener);
            tracing::debug!(%peer, %error, "a QUIC client sent a faulty first packet");
            return;
        }
    };
    status.connections.fetch_add(1, Ordering::Relaxed);
    status.accepted.fetch_add(1, Ordering::Relaxed);
    let counted = ConnectionGuard(worker.context.clone());
    let identity =
        ConnectionIdentity { id: next_connection(), peer: peer.into(), listener: open.clone(), proxy: None };
    let arrival = QuicArrival { connecting, identity, counted, handshaking: Handshaking::begin(status) };
    env::spawn(handshake::serve_quic_connection(arrival, ConnectionTimer::new(&worker.context)));
}
