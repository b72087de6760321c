//! Requests of other threads to a worker.

use std::net::SocketAddr;
use std::sync::Arc;

use model::loaded_endpoint::LoadedEndpoint;
use model::report::{EndpointReply, EndpointRequest};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::observe::status::WorkerStatus;
use exchange::observe::node_loads::NodeLoadQuery;
use net::env::Socket;
use net::listener::Listener;

/// How long an idle connection of a removed listener may wait for one more request, which is answered with
/// `Connection: close`. An immediate close could cross with a request on its way; most busy clients send
/// their next request within this time and so learn of the end without losing a request.
pub(crate) const CLOSE_GRACE_MS: u64 = 2_000;

/// A request to a worker.
pub(crate) enum WorkerCommand {
    /// Serve a connection that another worker accepted: the socket, its peer, and its listener.
    Serve(Socket, SocketAddr, Arc<Listener>),
    /// Another set of listeners was published.
    Listeners,
    /// Close silent connections to make room, as many as [`WorkerStatus::asked`] says.
    Evict,
    /// Accept no more, and end connections once their exchange is done. A second one only shortens the spread
    /// of the first.
    Drain(ListenerClosing),
    /// Answer with the measurements at nodes, for a report.
    Loads(NodeLoadQuery),
    /// Let an endpoint of loaded code answer a request of the control API.
    Endpoint(Box<EndpointCall>),
    /// End at once.
    Stop,
    /// Panic, so that tests can check the restart of the worker.
    Panic,
}

/// A request of the control API to an endpoint of loaded code. Only as many wait as the control API has
/// connections.
pub(crate) struct EndpointCall {
    pub(crate) endpoint: LoadedEndpoint,
    pub(crate) request: EndpointRequest,
    /// Dropped by a worker that cannot answer.
    pub(crate) answer: oneshot::Sender<Result<EndpointReply, String>>,
}

/// How other threads reach a worker. The queue is not bounded by itself: what goes in is bounded by the
/// number of connections, listeners and operator's commands.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) commands: UnboundedSender<WorkerCommand>,
    pub(crate) status: Arc<WorkerStatus>,
}

/// A handle and the worker's end of it.
pub(crate) fn channel() -> (Handle, UnboundedReceiver<WorkerCommand>) {
    let (commands, receiver) = unbounded_channel();
    (Handle { commands, status: Arc::default() }, receiver)
}

/// How the connections of a closing listener end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerClosing {
    /// Connections begin to close one after the other, spread over this time, so that their clients do not
    /// all connect again at once. 0: all begin at once.
    pub(crate) spread_ms: u64,
    /// How long a connection that has carried a request waits for one more when it begins to close.
    pub(crate) kept_ms: u64,
    /// How long a connection that has carried none waits for its first one.
    pub(crate) first_ms: u64,
    /// The kernel's queue.
    pub(crate) queue: AcceptQueuePolicy,
}

impl ListenerClosing {
    /// All connections begin to close at once and wait `idle_ms` for a request; the kernel's queue is served.
    pub(crate) const fn at_once(idle_ms: u64) -> ListenerClosing {
        ListenerClosing { spread_ms: 0, kept_ms: idle_ms, first_ms: idle_ms, queue: AcceptQueuePolicy::Serve }
    }
}

/// The treatment of connections that the kernel has queued when a listener is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptQueuePolicy {
    /// They are served: they were accepted on our behalf.
    Serve,
    /// They are left to the process that holds the same sockets now.
    Leave,
}
