//! What other threads may ask of a worker.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::downstream::listener_state::Closing;
use crate::observe::status::Status;
use net::env::Socket;
use net::listener::Listener;

/// A request to a worker.
pub(crate) enum Command {
    /// Serve a connection that another worker accepted: the socket, its peer, and where it came in.
    Serve(Socket, SocketAddr, Arc<Listener>),
    /// Another set of listeners was published.
    Listeners,
    /// Let silent connections give way, as many as [`Status::asked`] says.
    Evict,
    /// Accept no more, and end connections once their exchange is done. A second one only shortens the spread of the
    /// first.
    Drain(Closing),
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
