//! The published set of listeners as one worker has taken it up: an accept loop for each of its sockets, and what
//! connections have to know of the listener they came in by. It binds nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stdx::published::{Published, Reader};
use tokio::sync::Notify;

use super::{Handle, Worker, accept};
use crate::env;
use crate::listener::{Listener, ListenerSet};

/// Where no end is in sight.
const NEVER: u64 = u64::MAX;
/// How long an idle connection of a removed listener may wait for one more request, which is answered with
/// `Connection: close`. Closed at once, it could cross with a request on its way; most clients that are busy ask again
/// within this time and so learn of the end without losing anything.
pub(crate) const FAREWELL_MS: u64 = 2_000;

/// A listener as its connections on this worker see it.
pub(crate) struct OpenListener {
    pub(crate) listener: Arc<Listener>,
    /// Milliseconds of the worker's clock at which its idle connections are closed; [`NEVER`] while it is open.
    close_idle_at_ms: Cell<u64>,
    queue: Cell<Queue>,
    closing: Notify,
}

/// What becomes of connections that the kernel has queued when a listener is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// They are served: they were accepted on our behalf.
    Serve,
    /// They are left to the process that holds the same sockets now.
    Leave,
}

impl OpenListener {
    fn new(listener: Arc<Listener>) -> OpenListener {
        OpenListener {
            listener,
            close_idle_at_ms: Cell::new(NEVER),
            queue: Cell::new(Queue::Serve),
            closing: Notify::new(),
        }
    }

    /// Whether its connections are to end after the exchange under way.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.close_idle_at_ms.get() != NEVER
    }

    /// How long idle connections are still kept, seen at `now_ms`.
    pub(crate) fn farewell_left_ms(&self, now_ms: u64) -> u64 {
        self.close_idle_at_ms.get().saturating_sub(now_ms)
    }

    /// What is to be done with the kernel's queue, once it is closing.
    pub(super) fn queue(&self) -> Option<Queue> {
        self.is_closing().then(|| self.queue.get())
    }

    /// Ready when it begins to close; for those who have seen that it does not yet.
    pub(super) async fn closing(&self) {
        self.closing.notified().await;
    }

    fn close(&self, close_idle_at_ms: u64, queue: Queue) {
        // A second end does not put off the first.
        self.close_idle_at_ms.set(close_idle_at_ms.min(self.close_idle_at_ms.get()));
        self.queue.set(queue);
        self.closing.notify_waiters();
    }
}

/// The listeners of a worker.
pub(super) struct Listeners {
    published: Reader<ListenerSet>,
    open: Vec<Rc<OpenListener>>,
}

impl Listeners {
    pub(super) fn new(published: Arc<Published<ListenerSet>>) -> Listeners {
        Listeners { published: Reader::new(published), open: Vec::new() }
    }
}

impl Worker {
    /// Brings this worker's sockets in line with the published set: starts to accept on what is new, ends what is gone.
    pub(super) fn take_up_listeners(self: &Rc<Self>, peers: &Rc<[Handle]>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.published.refresh();
        let set = listeners.published.get().clone();
        let is_gone = |open: &Rc<OpenListener>| !set.iter().any(|one| one.id() == open.listener.id());
        let gone: Vec<_> = listeners.open.extract_if(.., |open| is_gone(open)).collect();
        for listener in set.iter() {
            if !listeners.open.iter().any(|open| open.listener.id() == listener.id()) {
                let open = Rc::new(OpenListener::new(listener.clone()));
                self.accept_on(&open, peers);
                listeners.open.push(open);
            }
        }
        drop(listeners);
        if !gone.is_empty() {
            let close_idle_at_ms = self.clock_ns() / 1_000_000 + FAREWELL_MS;
            gone.iter().for_each(|open| open.close(close_idle_at_ms, Queue::Serve));
            self.wake_connections();
        }
    }

    fn accept_on(self: &Rc<Self>, open: &Rc<OpenListener>, peers: &Rc<[Handle]>) {
        let taken = open.listener.of_worker(self.index).and_then(|sockets| {
            sockets.into_iter().map(env::Listener::attach).collect::<std::io::Result<Vec<_>>>()
        });
        match taken {
            Ok(sockets) => {
                for socket in sockets {
                    self.spawn_vital(accept::accept_loop(self.clone(), peers.clone(), socket, open.clone()));
                }
            }
            Err(error) => {
                let address = open.listener.address();
                tracing::error!(%error, %address, worker = self.index, "a worker cannot listen");
            }
        }
    }

    /// This worker's view of the listener that another worker accepted a connection on.
    pub(super) fn open_listener(
        self: &Rc<Self>,
        listener: Arc<Listener>,
        peers: &Rc<[Handle]>,
    ) -> Rc<OpenListener> {
        let find = || {
            let listeners = self.listeners.borrow();
            listeners.open.iter().find(|open| open.listener.id() == listener.id()).cloned()
        };
        if let Some(open) = find() {
            return open;
        }
        // The other worker may have taken up a set that this one has not seen yet.
        self.take_up_listeners(peers);
        find().unwrap_or_else(|| {
            let open = OpenListener::new(listener.clone());
            open.close(self.now_ms() + FAREWELL_MS, Queue::Serve);
            Rc::new(open)
        })
    }

    /// Ends all listeners.
    pub(super) fn close_listeners(&self, farewell_ms: u64, queue: Queue) {
        let close_idle_at_ms = self.clock_ns() / 1_000_000 + farewell_ms;
        for open in &self.listeners.borrow().open {
            open.close(close_idle_at_ms, queue);
        }
        self.wake_connections();
    }

    /// Lets every connection look around.
    pub(super) fn wake_connections(&self) {
        let mut wakers = Vec::new();
        self.timers.borrow().wake_all(&mut wakers);
        wakers.drain(..).for_each(std::task::Waker::wake);
    }
}
