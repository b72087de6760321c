//! Accepting connections: each worker on its own sockets. `SO_REUSEPORT` spreads few connections badly, so a
//! worker well above the mean hands a just-accepted socket, before a byte is read, to the least loaded one.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::state::Worker;
use crate::command::AcceptQueuePolicy;
use crate::command::{Handle, WorkerCommand};
use crate::context::WorkerContext;
use crate::downstream::arrival::{ConnectionIdentity, TcpArrival};
use crate::downstream::connection_guard::ConnectionGuard;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::layers;
use crate::downstream::listener_state::OpenListener;
use crate::downstream::proxy_protocol;
use crate::evict::lacks_descriptors;
use crate::observe::failures::ConnectionRefusal;
use exchange::overload::capacity::Shortage;
use net::env::{self, Socket, Stream};
use net::listener::Listener;

/// A worker hands over when it holds this many connections more than the least loaded one, or an eighth of
/// its number more, whichever is greater: hand-over costs a wake-up of another thread, so small differences
/// are left alone.
const SKEW_MIN: usize = 2;
const SKEW_SHARE: usize = 8;
/// How long a worker stops accepting when no descriptor is free and no connection can be closed, because an
/// immediate retry would spin.
const EXHAUSTED_PAUSE_MS: u64 = 50;
/// The first connections of a burst are started one by one, with other events in between: starting one, with
/// its head and its upstream connection, takes some 70 µs, and starting all at once would delay every
/// connection that can read or write. The longer a burst lasts, the more are started at once: one for each
/// `BURST_SHARE` connections of it.
const BURST_SHARE: usize = 8;
/// Most connections started at once, so that a queue which is never empty is emptied faster than it fills.
const ACCEPTS_AT_ONCE: usize = 16;
/// Largest number of connections in a socket's queue (its backlog); later ones arrived after the close.
const QUEUED_MAX: usize = 4_096;
/// How often the queue of a closing socket is read: the second time for handshakes that were in progress at
/// the first.
const QUEUE_PASSES: usize = 2;
/// The time between the two. On one machine a handshake takes some microseconds; a new client must not be
/// ignored for longer, because its kernel repeats the SYN only after a second.
const LAST_HANDSHAKES_MS: u64 = 1;

/// Numbers for connections, unique in this process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// The number of the next connection.
pub(super) fn next_connection() -> u64 {
    NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed)
}

/// Accepts on one socket until its listener or the worker ends.
pub(super) async fn accept_loop(
    worker: Rc<Worker>,
    peers: Rc<[Handle]>,
    socket: env::Listener,
    open: Rc<OpenListener>,
) {
    let _accepting = Accepting::begin(&worker);
    let mut exhausted = false;
    let mut burst = AcceptPacer::default();
    loop {
        match open.queue() {
            None => {}
            Some(AcceptQueuePolicy::Leave) => return,
            Some(AcceptQueuePolicy::Serve) => return serve_queue(&worker, &peers, &socket, &open).await,
        }
        let mut waited = false;
        let accepted = tokio::select! {
            biased;
            accepted = accept(&socket, &mut waited) => accepted,
            () = open.closing() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                if exhausted {
                    exhausted = false;
                    tracing::info!(local = %open.listener.address(), "connections are accepted again");
                }
                if burst.gives_way(waited) {
                    env::yield_to_events().await;
                }
                assign(&worker, &peers, stream, peer, &open);
            }
            Err(error) if lacks_descriptors(&error) && worker.context.upstreams.free_descriptors().await => {}
            Err(error) if is_exhaustion(&error) => {
                // Logged once, not twenty times a second, and not again each time when silent clients
                // reconnect at once.
                if !exhausted
                    && worker.context.local.shared.capacity.is_worth_a_line(worker.context.local.now_ms())
                {
                    exhausted = true;
                    let local = open.listener.address();
                    tracing::error!(%error, %local, "cannot accept a connection; raise the limit on open files");
                }
                env::sleep_ms(EXHAUSTED_PAUSE_MS).await;
            }
            // `accept` returned an error such as ECONNABORTED: the peer reset the connection while it was
            // queued.
            Err(_) => {}
        }
    }
}

/// Serves the connections in the kernel's queue, which the kernel has accepted on the gateway's behalf, so
/// that the socket can be closed. New connections are refused first, because one that the kernel accepted
/// between the last read of the queue and the close would be reset.
async fn serve_queue(worker: &Rc<Worker>, peers: &[Handle], socket: &env::Listener, open: &Rc<OpenListener>) {
    socket.ignore_new();
    let mut left = QUEUED_MAX;
    for pass in 0..QUEUE_PASSES {
        if pass > 0 {
            env::sleep_ms(LAST_HANDSHAKES_MS).await;
        }
        while left > 0
            && let Some((stream, peer)) = socket.accept_arrived()
        {
            left -= 1;
            assign(worker, peers, stream, peer, open);
        }
    }
}

/// A socket that connections are accepted on, counted in the worker's status while this value lives.
struct Accepting(Rc<WorkerContext>);

impl Accepting {
    fn begin(worker: &Rc<Worker>) -> Accepting {
        worker.context.status.accepting.fetch_add(1, Ordering::AcqRel);
        Accepting(worker.context.clone())
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.status.accepting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The next connection, and whether it had to be waited for.
async fn accept(socket: &env::Listener, waited: &mut bool) -> io::Result<(Stream, SocketAddr)> {
    let mut accepting = pin!(socket.accept());
    poll_fn(|cx| {
        let accepted = accepting.as_mut().poll(cx);
        *waited |= accepted.is_pending();
        accepted
    })
    .await
}

/// Counts the connections of a burst.
#[derive(Default)]
struct AcceptPacer {
    length: usize,
    /// Connections since other tasks last ran.
    at_once: usize,
}

impl AcceptPacer {
    /// Counts a connection; `waited` says that it was not in the queue, which ends the burst. Returns whether
    /// other tasks must run before it starts.
    fn gives_way(&mut self, waited: bool) -> bool {
        if waited {
            *self = AcceptPacer::default();
            return false;
        }
        self.length += 1;
        self.at_once += 1;
        let most = (1 + self.length / BURST_SHARE).min(ACCEPTS_AT_ONCE);
        let gives_way = self.at_once >= most;
        if gives_way {
            self.at_once = 0;
        }
        gives_way
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

fn assign(worker: &Rc<Worker>, peers: &[Handle], stream: Stream, peer: SocketAddr, open: &Rc<OpenListener>) {
    let taking_part = || peers.iter().enumerate().filter(|(_, peer)| peer.status.takes_part());
    let counts = || taking_part().map(|(at, peer)| (at, peer.status.connections.load(Ordering::Relaxed)));
    let connections = counts().map(|(_, count)| count).sum();
    if let Some(admission) = admission(worker, connections, peer, &open.listener) {
        // Closed before a byte was read, so that the client may safely try again elsewhere.
        worker.context.status.failures.refused(admission);
        return stream.reset_on_close();
    }
    // After the admission, because a refused connection returns its descriptor and no other has to be closed
    // for it.
    worker.context.evictor.keep_reserve(stream.descriptor());
    if peers.len() > 1 {
        let mine = worker.context.status.connections.load(Ordering::Relaxed);
        // A worker that stands would let its client wait.
        let turning = counts().filter(|(at, _)| !peers[*at].status.is_stalled.load(Ordering::Relaxed));
        let (least, count) =
            turning.min_by_key(|(_, count)| *count).unwrap_or((worker.context.local.index, mine));
        if least != worker.context.local.index && mine >= count + SKEW_MIN.max(count / SKEW_SHARE) {
            // Counted at the other worker at once, so that a burst is spread and does not go to one worker as
            // a whole.
            peers[least].status.connections.fetch_add(1, Ordering::Relaxed);
            return match stream.detach() {
                Ok(socket) => hand_over(worker, &peers[least], socket, peer, open.listener.clone()),
                Err(_) => {
                    peers[least].status.connections.fetch_sub(1, Ordering::Relaxed);
                    release_address(worker, peer, &open.listener);
                }
            };
        }
    }
    worker.context.status.connections.fetch_add(1, Ordering::Relaxed);
    serve_accepted_connection(worker, stream, peer, open.clone());
}

/// Why a connection from `peer` must not be served; if `None`, it is counted for its address from now on.
pub(super) fn admission(
    worker: &Worker,
    connections: usize,
    peer: SocketAddr,
    listener: &Listener,
) -> Option<ConnectionRefusal> {
    let local = &worker.context.local;
    if local.shared.memory.refuses_connections() {
        Some(ConnectionRefusal::Memory)
    } else if proxy_protocol::refuses(listener, &local.options.real_ip, peer, local.now_ms()) {
        Some(ConnectionRefusal::ProxyProtocolFrom)
    } else if !names_clients(worker, peer, listener) && !local.shared.addresses.claim(peer.ip()) {
        Some(ConnectionRefusal::MaxConnectionsPerAddress)
    } else if !has_seat(worker, connections) {
        release_address(worker, peer, listener);
        Some(ConnectionRefusal::MaxConnections)
    } else {
        None
    }
}

/// Whether a PROXY protocol header may name the client. The address of the client is counted then when it is
/// known, and that of the balancer, which all clients share, is not. The answer never changes, so that each
/// place is given back as it was taken.
fn names_clients(worker: &Worker, peer: SocketAddr, listener: &Listener) -> bool {
    let real_ip = &worker.context.local.options.real_ip;
    listener.wanted().protocols.proxy_protocol && proxy_protocol::trusts(real_ip, peer)
}

/// Gives back the place of its address that a connection got by its admission, if it is not served after all.
pub(super) fn release_address(worker: &Worker, peer: SocketAddr, listener: &Listener) {
    if !names_clients(worker, peer, listener) {
        worker.context.local.shared.addresses.release(peer.ip());
    }
}

/// Whether one more connection may be served beside `connections`, if necessary because a silent one is
/// closed for it. That one ends a moment later, so the limit is exceeded by as many as are about to end.
fn has_seat(worker: &Worker, connections: usize) -> bool {
    let missing = (connections + 1).saturating_sub(worker.context.local.options.limits.max_connections);
    if missing == 0 {
        return true;
    }
    let missing = missing.saturating_sub(worker.context.evictor.leaving());
    missing == 0 || worker.context.evictor.evict(Shortage::MaxConnections, missing).count() >= missing
}

fn hand_over(worker: &Worker, to: &Handle, socket: Socket, peer: SocketAddr, listener: Arc<Listener>) {
    if to.commands.send(WorkerCommand::Serve(socket, peer, listener.clone())).is_err() {
        to.status.connections.fetch_sub(1, Ordering::Relaxed);
        release_address(worker, peer, &listener);
    }
}

/// Serves a connection that is already counted.
pub(super) fn serve_accepted_connection(
    worker: &Rc<Worker>,
    stream: Stream,
    peer: SocketAddr,
    open: Rc<OpenListener>,
) {
    worker.context.status.accepted.fetch_add(1, Ordering::Relaxed);
    let id = next_connection();
    let (counted, timer) = (ConnectionGuard(worker.context.clone()), ConnectionTimer::new(&worker.context));
    let takes_header = open.listener.wanted().protocols.proxy_protocol;
    let names_clients = names_clients(worker, peer, &open.listener);
    let identity = ConnectionIdentity { id, peer: peer.into(), listener: open, proxy: None };
    let arrival = TcpArrival { stream, identity, counted };
    match takes_header {
        false => layers::serve_protocol_layers(arrival, timer),
        true if names_clients => {
            env::spawn(proxy_protocol::serve_proxy_protocol(arrival, timer));
        }
        true => proxy_protocol::serve_untrusted(arrival, timer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_pacer_yields_less_often_in_long_bursts() {
        let mut burst = AcceptPacer::default();
        // The last connection of each burst, and how often other tasks had run by then.
        let rows = [(1, 0), (2, 1), (8, 7), (16, 11), (64, 20), (1_000, 79), (10_000, 642)];
        for _ in 0..2 {
            let (mut turns, mut at_once, mut number) = (0, 0, 0);
            for (last, expected) in rows {
                while number < last {
                    // Only the first connection was waited for.
                    at_once += 1;
                    if burst.gives_way(number == 0) {
                        turns += 1;
                        at_once = 1;
                    }
                    assert!(at_once <= ACCEPTS_AT_ONCE, "{at_once} at once, at {number}");
                    number += 1;
                }
                assert_eq!(turns, expected, "after {last}");
            }
        }
    }
}
