//! Accepting connections: each worker on its own sockets. `SO_REUSEPORT` spreads few connections badly, so a worker well
//! above the mean hands a just-accepted socket, before a byte is read, to the least loaded one.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Command, Handle, OpenListener, Queue, Worker};
use crate::alarm::Alarm;
use crate::env::{self, Socket, Stream};
use crate::h1::connection::{self, Connection};
use crate::listener::{Application, Listener};
use crate::observe::failures::Refusal;

/// A worker hands over when it holds this many connections more than the least loaded one, or an eighth of its number
/// more, whichever is greater: hand-over costs a wake-up of another thread, so small differences are left alone.
const SKEW_MIN: usize = 2;
const SKEW_SHARE: usize = 8;
/// How long a worker stops accepting when the machine has no descriptor left: retrying at once would spin.
const EXHAUSTED_PAUSE_MS: u64 = 50;
/// The most that a socket's queue holds (its backlog): who comes after them came after the end.
const QUEUED_MAX: usize = 4_096;

/// Numbers for connections, unique in this process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// Accepts on one socket until its listener or the worker ends.
pub(super) async fn accept_loop(
    worker: Rc<Worker>,
    peers: Rc<[Handle]>,
    socket: env::Listener,
    open: Rc<OpenListener>,
) {
    let mut exhausted = false;
    loop {
        match open.queue() {
            None => {}
            Some(Queue::Leave) => return,
            Some(Queue::Serve) => {
                // Who is already in the kernel's queue was accepted by it on our behalf: serve them, then close.
                for (stream, peer) in std::iter::from_fn(|| socket.accept_arrived()).take(QUEUED_MAX) {
                    place(&worker, &peers, stream, peer, &open);
                }
                return;
            }
        }
        let accepted = tokio::select! {
            biased;
            accepted = socket.accept() => accepted,
            () = open.closing() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                if exhausted {
                    exhausted = false;
                    tracing::info!(local = %open.listener.address(), "connections are accepted again");
                }
                place(&worker, &peers, stream, peer, &open);
            }
            Err(error) if is_exhaustion(&error) => {
                // Said once, not twenty times a second.
                if !exhausted {
                    exhausted = true;
                    let local = open.listener.address();
                    tracing::error!(%error, %local, "cannot accept a connection; raise the limit on open files");
                }
                env::sleep_ms(EXHAUSTED_PAUSE_MS).await;
            }
            // The peer gave up between its knock and our answer.
            Err(_) => {}
        }
    }
}

fn is_exhaustion(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

fn place(worker: &Rc<Worker>, peers: &[Handle], stream: Stream, peer: SocketAddr, open: &Rc<OpenListener>) {
    let counts = || peers.iter().map(|peer| peer.status.connections.load(Ordering::Relaxed));
    if let Some(refusal) = refusal(worker, counts().sum(), peer) {
        // Closed before a byte was read: the client may try again elsewhere.
        worker.status.failures.refused(refusal);
        return stream.reset_on_close();
    }
    if peers.len() > 1 {
        let mine = worker.status.connections.load(Ordering::Relaxed);
        let (least, count) =
            counts().enumerate().min_by_key(|(_, count)| *count).unwrap_or((worker.index, mine));
        if least != worker.index && mine >= count + SKEW_MIN.max(count / SKEW_SHARE) {
            // Counted there at once, so that a burst is spread and not thrown at one worker as a whole.
            peers[least].status.connections.fetch_add(1, Ordering::Relaxed);
            return match stream.detach() {
                Ok(socket) => hand_over(worker, &peers[least], socket, peer, open.listener.clone()),
                Err(_) => {
                    peers[least].status.connections.fetch_sub(1, Ordering::Relaxed);
                    worker.shared.addresses.release(peer.ip());
                }
            };
        }
    }
    worker.status.connections.fetch_add(1, Ordering::Relaxed);
    serve(worker, stream, peer, open.clone());
}

/// Why a connection from `peer` must not be served, if so; otherwise it is counted for its address from here on.
fn refusal(worker: &Worker, connections: usize, peer: SocketAddr) -> Option<Refusal> {
    if connections >= worker.options.limits.max_connections {
        Some(Refusal::MaxConnections)
    } else if worker.shared.memory.refuses_connections() {
        Some(Refusal::Memory)
    } else if !worker.shared.addresses.claim(peer.ip()) {
        Some(Refusal::MaxConnectionsPerAddress)
    } else {
        None
    }
}

fn hand_over(worker: &Worker, to: &Handle, socket: Socket, peer: SocketAddr, listener: Arc<Listener>) {
    if to.commands.send(Command::Serve(socket, peer, listener)).is_err() {
        to.status.connections.fetch_sub(1, Ordering::Relaxed);
        worker.shared.addresses.release(peer.ip());
    }
}

/// Serves a connection that is already counted.
pub(super) fn serve(worker: &Rc<Worker>, stream: Stream, peer: SocketAddr, open: Rc<OpenListener>) {
    worker.status.accepted.fetch_add(1, Ordering::Relaxed);
    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    match open.listener.wanted().protocols.application {
        Application::Http1 => {
            let connection = Connection::new(stream, id, peer, open, Counted(worker.clone()));
            env::spawn(connection::serve(connection, Alarm::new(worker)));
        }
    }
}

/// A connection's place in the count, given back however its task ends.
pub(crate) struct Counted(Rc<Worker>);

impl Counted {
    /// The same for its address's place.
    pub(crate) fn release(&self, address: IpAddr) {
        self.0.shared.addresses.release(address);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.status.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
