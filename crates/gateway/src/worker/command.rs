//! What other threads may ask of a worker.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Status;
use super::listeners::Queue;
use crate::env::Socket;
use crate::listener::Listener;

/// A request to a worker.
pub(crate) enum Command {
    /// Serve a connection that another worker accepted: the socket, its peer, and where it came in.
    Serve(Socket, SocketAddr, Arc<Listener>),
    /// Another set of listeners was published.
    Listeners,
    /// Let silent connections give way, as many as [`Status::asked`] says.
    Evict,
    /// Accept no more, and end connections once their exchange is done.
    Drain {
        /// How long idle connections may wait for one more request.
        farewell_ms: u64,
        /// What becomes of connections the kernel has queued.
        queue: Queue,
    },
    /// End at once.
    Stop,
    /// Break down, so that tests see what follows.
    Panic,
}

/// How other threads reach a worker. The queue is not bounded by itself: what goes in is bounded by the number of
/// connections, listeners and operator's commands.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) status: Arc<Status>,
}

/// A handle and the worker's end of it.
pub(crate) fn channel() -> (Handle, UnboundedReceiver<Command>) {
    let (commands, receiver) = unbounded_channel();
    (Handle { commands, status: Arc::default() }, receiver)
}
