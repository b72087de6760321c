//! The published set of listeners as one worker has taken it up: an accept loop for each of its sockets, and
//! the listener state that its connections use. It binds nothing.

use std::rc::Rc;
use std::sync::Arc;

use super::accept;
use super::datagrams;
use super::state::Worker;
use crate::command::Handle;
use crate::command::{CLOSE_GRACE_MS, ListenerClosing};
use crate::downstream::listener_state::OpenListener;
use net::env;
use net::listener::Listener;

impl Worker {
    /// Brings this worker's sockets in line with the published set: accepts on new sockets and ends removed
    /// ones.
    pub(super) fn take_up_listeners(self: &Rc<Self>, peers: &Rc<[Handle]>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.published.refresh();
        let set = listeners.published.get().clone();
        let is_gone = |open: &Rc<OpenListener>| !set.iter().any(|one| one.id() == open.listener.id());
        let gone: Vec<_> = listeners.open.extract_if(.., |open| is_gone(open)).collect();
        for listener in set.iter() {
            if !listeners.open.iter().any(|open| open.listener.id() == listener.id()) {
                let open = Rc::new(self.view_of(listener));
                self.accept_on(&open, peers);
                listeners.open.push(open);
            }
        }
        drop(listeners);
        if !gone.is_empty() {
            let now_ms = self.context.local.clock_ns() / 1_000_000;
            gone.iter().for_each(|open| open.close(now_ms, ListenerClosing::at_once(CLOSE_GRACE_MS)));
            self.wake_connections();
        }
    }

    fn view_of(&self, listener: &Arc<Listener>) -> OpenListener {
        OpenListener::new(listener.clone(), &self.context.local.options)
    }

    fn accept_on(self: &Rc<Self>, open: &Rc<OpenListener>, peers: &Rc<[Handle]>) {
        let taken = open.listener.of_worker(self.seat).and_then(|sockets| {
            sockets.into_iter().map(env::Listener::attach).collect::<std::io::Result<Vec<_>>>()
        });
        match taken {
            Ok(sockets) => {
                for socket in sockets {
                    self.spawn_critical(accept::accept_loop(
                        self.clone(),
                        peers.clone(),
                        socket,
                        open.clone(),
                    ));
                }
            }
            Err(error) => {
                let address = open.listener.address();
                tracing::error!(%error, %address, worker = self.context.local.index, "a worker cannot listen");
            }
        }
        match open.listener.datagrams().of_worker(self.seat) {
            Ok(sockets) => {
                for (number, socket) in sockets {
                    let serving = datagrams::serve_udp_socket(
                        self.clone(),
                        peers.clone(),
                        open.clone(),
                        number,
                        socket,
                    );
                    self.spawn_critical(serving);
                }
            }
            Err(error) => {
                let address = open.listener.address();
                tracing::error!(%error, %address, worker = self.context.local.index, "a worker cannot serve datagrams");
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
            let open = self.view_of(&listener);
            open.close(self.context.local.now_ms(), ListenerClosing::at_once(CLOSE_GRACE_MS));
            Rc::new(open)
        })
    }

    /// Ends all listeners. A second time shortens the spread of the first.
    pub(super) fn close_listeners(&self, closing: ListenerClosing) {
        let now_ms = self.context.local.clock_ns() / 1_000_000;
        for open in &self.listeners.borrow().open {
            open.close(now_ms, closing);
        }
        self.wake_connections();
    }

    /// Wakes every connection, so that it checks whether its listener closes.
    pub(super) fn wake_connections(&self) {
        let mut wakers = Vec::new();
        self.context.local.timers.borrow().wake_all(&mut wakers);
        wakers.drain(..).for_each(std::task::Waker::wake);
    }
}
