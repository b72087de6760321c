//! Accepting connections: each worker on its own sockets. `SO_REUSEPORT` spreads few connections badly, so a worker well
//! above the mean hands a just-accepted socket, before a byte is read, to the least loaded one.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Command, Handle, Worker};
use crate::alarm::Alarm;
use crate::env::{self, Listener, Socket, Stream};
use crate::exchange::{ConnectionContext, Scheme};
use crate::h1::connection::{self, Connection};

/// A worker hands over when it holds this many connections more than the least loaded one, or an eighth of its number
/// more, whichever is greater: hand-over costs a wake-up of another thread, so small differences are left alone.
const SKEW_MIN: usize = 2;
const SKEW_SHARE: usize = 8;
/// How long a worker stops accepting when the machine has no descriptor left: retrying at once would spin.
const EXHAUSTED_PAUSE_MS: u64 = 50;

/// Numbers for connections, unique in this process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// Accepts on one socket until the worker drains.
pub(super) async fn accept_loop(
    worker: Rc<Worker>,
    peers: Rc<[Handle]>,
    listener: Listener,
    local: SocketAddr,
) {
    let mut draining = worker.drained.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = draining.wait_for(|draining| *draining) => {
                // Who is already in the kernel's queue was accepted by it on our behalf: serve them, then close.
                while let Some(Ok((stream, peer))) = ready_now(listener.accept()) {
                    place(&worker, &peers, stream, peer, local);
                }
                return;
            }
        };
        match accepted {
            Ok((stream, peer)) => place(&worker, &peers, stream, peer, local),
            Err(error) if is_exhaustion(&error) => {
                tracing::error!(%error, %local, "cannot accept a connection; raise the limit on open files");
                env::sleep_ms(EXHAUSTED_PAUSE_MS).await;
            }
            // The peer gave up between its knock and our answer.
            Err(_) => {}
        }
    }
}

/// What the future has to say at once, if anything.
fn ready_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

fn is_exhaustion(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

fn place(worker: &Rc<Worker>, peers: &[Handle], stream: Stream, peer: SocketAddr, local: SocketAddr) {
    let counts = || peers.iter().map(|peer| peer.status.connections.load(Ordering::Relaxed));
    if counts().sum::<usize>() >= worker.options.limits.max_connections {
        // Closed before a byte was read: the client may try again elsewhere.
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
                Ok(socket) => hand_over(&peers[least], socket, peer, local),
                Err(_) => {
                    peers[least].status.connections.fetch_sub(1, Ordering::Relaxed);
                }
            };
        }
    }
    worker.status.connections.fetch_add(1, Ordering::Relaxed);
    serve(worker, stream, peer, local);
}

fn hand_over(to: &Handle, socket: Socket, peer: SocketAddr, local: SocketAddr) {
    if to.commands.send(Command::Serve(socket, peer, local)).is_err() {
        to.status.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection that is already counted.
pub(super) fn serve(worker: &Rc<Worker>, stream: Stream, peer: SocketAddr, local: SocketAddr) {
    worker.status.accepted.fetch_add(1, Ordering::Relaxed);
    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    let context = ConnectionContext { id, peer, local, scheme: Scheme::Http, requests: 0 };
    let connection = Connection::new(stream, context, Counted(worker.clone()));
    env::spawn(connection::serve(connection, Alarm::new(worker)));
}

/// A connection's place in the count, given back however its task ends.
pub(crate) struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.status.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
